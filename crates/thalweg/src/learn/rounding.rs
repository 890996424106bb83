//! Rounding errors of the functions of a learning problem, from the sizes of the numbers that their sums add. A certificate uses them,
//! and a check of its file verifies them with exact arithmetic.

use super::function::{Function, Piece, Summand};
use super::gap::NOISE;
use super::penalty::Penalty;
use super::problem::Learning;
use super::term::{Comparison, LossFunction, LossStatistic};
use crate::math::reduce::Chunks;
use crate::math::vec;
use crate::oracle::Rounding;

/// Errors of a sum of n numbers, each rounded by up to half a unit, are independent enough to grow like the root of n: four standard
/// deviations are below this many units, times the sum of absolute values.
fn units(n: f64) -> f64 {
    4.0 + n.sqrt()
}

/// Error of a mean of sigmoids over a grid of thresholds, see `math/sigmoid/means.rs`.
const GRID: f64 = 1e-13;

/// Sizes of a term as a function of the scores: bounds on its first and second derivative, on the sum of the absolute values that it
/// combines, and on the error of a mean beyond that of its sum.
struct Sizes {
    steepness: f64,
    bend: f64,
    value: f64,
    error: f64,
}

/// Mean absolute score, root of the mean squared score, and root of the mean squared norm of a row.
struct Scale {
    score: f64,
    root: f64,
    row: f64,
}

impl Learning {
    /// Bounds the rounding errors of all functions at `x`; `values` are their values there.
    pub(super) fn rounding_at(&self, x: &[f64], values: &[f64]) -> Vec<Rounding> {
        let Ok(scores) = self.scores(x) else { return vec![] };
        let functions = std::iter::once(&self.objective).chain(&self.constraints);
        functions.zip(values).map(|(function, value)| self.rounding_of(function, x, *value, &scores)).collect()
    }

    fn rounding_of(&self, function: &Function, x: &[f64], value: f64, scores: &[f64]) -> Rounding {
        let left = (value + function.bound).abs();
        let mut sum = Rounding { value: 4.0 * f64::EPSILON * (left + function.bound.abs()), slope: 0.0 };
        for s in &function.pieces {
            let own = match &s.piece {
                Piece::Penalty(penalty) => self.rounding_of_penalty(penalty, x),
                Piece::Term(_) => self.rounding_of_term(s, left / s.factor.max(f64::MIN_POSITIVE), scores),
            };
            sum.value += s.factor * own.value;
            sum.slope += s.factor * own.slope;
        }
        sum
    }

    fn rounding_of_penalty(&self, penalty: &Penalty, x: &[f64]) -> Rounding {
        let w = self.weights(x);
        let mut slope = vec![0.0; w.len()];
        penalty.add_slope(w, 1.0, &mut slope);
        // The middle part of `scad` is a difference of numbers up to 8.
        let middle = if *penalty == Penalty::Scad { 16.0 * w.iter().filter(|w| w.abs() > 1.0).count() as f64 } else { 0.0 };
        let value = units(w.len() as f64) * (penalty.value(w) + middle);
        Rounding { value: f64::EPSILON * value, slope: 4.0 * f64::EPSILON * vec::norm(&slope) }
    }

    /// Bounds the errors of a term without its factor; 0 for a term whose sizes are not known.
    fn rounding_of_term(&self, s: &Summand, value: f64, scores: &[f64]) -> Rounding {
        let Piece::Term(term) = &s.piece else { return Rounding::default() };
        let sizes = if let Some(LossFunction { loss, statistic: LossStatistic::Mean }) = term.loss_function() {
            // Second derivatives of all losses are at most 2, and that of the hinge loss counts at its kink only, where every slope is
            // a subgradient.
            Sizes { steepness: loss.steepness(), bend: 2.0, value, error: 0.0 }
        } else if let Some(rates) = term.rates() {
            let several = matches!(rates.comparison, Comparison::Gap(_) | Comparison::Larger(_));
            let tau = rates.temperature;
            // A gap below this level has the subgradient 0.
            let error = if several && value <= NOISE { NOISE } else { 0.0 } + if term.width() > 1 { GRID } else { 0.0 };
            let count = if several { 2.0 } else { 1.0 };
            Sizes { steepness: 0.25 * count / tau, bend: 0.1 * count / (tau * tau), value: count, error }
        } else {
            return Rounding::default();
        };
        let stored = self.data.features.stored() as f64 / self.data.features.rows().max(1) as f64;
        let row = 2.0 + stored.sqrt();
        let mut worst = Rounding::default();
        for &p in &s.populations {
            let (scale, n) = self.scale_of(p, scores);
            let chunks = Chunks::of(n);
            let chain = units((chunks.len().min(n) + chunks.count()) as f64);
            let value = f64::EPSILON * (chain * sizes.value + row * sizes.steepness * scale.score) + sizes.error;
            // The sum over rows of the slopes may be one chain.
            let slope = units(n as f64) * sizes.steepness + row * sizes.bend * scale.root;
            worst.value = worst.value.max(value);
            worst.slope = worst.slope.max(f64::EPSILON * slope * scale.row);
        }
        worst
    }

    fn scale_of(&self, population: usize, scores: &[f64]) -> (Scale, usize) {
        let population = &self.populations[population];
        let first = self.parts[population.part].start;
        let n = population.size(&self.parts);
        let row = |k: usize| first + population.members.as_ref().map_or(k, |members| members[k] as usize);
        let weight = |k: usize| population.weights.as_ref().map_or(1.0, |w| w[k]);
        let mean = |f: &dyn Fn(f64) -> f64| vec::sum_by(n, |k| weight(k) * f(scores[row(k)])) / n.max(1) as f64;
        let scale = Scale { score: mean(&f64::abs), root: mean(&|s| s * s).sqrt(), row: population.norms.mean_square.sqrt() };
        (scale, n)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // helpers of tests may give up like tests

    use crate::learn::{Data, Learning};
    use crate::math::exact::{ExactSum, two_product};
    use crate::math::rng::{Purpose, Rng};
    use crate::math::{Matrix, vec};
    use crate::oracle::{At, Description, Draw, Subgradients, Values, Warm};

    /// Entries of rows with an intercept, and labels.
    fn rows(n: usize, cols: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut rng = Rng::new(seed, Purpose::Data);
        let entries: Vec<f64> = (0..n * cols).map(|_| 4.0 * rng.uniform() - 1.5).collect();
        let labels = (0..n).map(|_| if rng.uniform() < 0.4 { 1.0 } else { -1.0 }).collect();
        (entries, labels)
    }

    /// Value and subgradient of the hinge loss in twice the working precision.
    fn hinge(entries: &[f64], labels: &[f64], x: &[f64]) -> (f64, Vec<f64>) {
        let (cols, n) = (x.len() - 1, labels.len() as f64);
        let (mut value, mut slope) = (ExactSum::default(), vec![ExactSum::default(); x.len()]);
        for (row, y) in entries.chunks(cols).zip(labels) {
            let mut left = ExactSum::default();
            left.add(1.0);
            left.add(-y * x[cols]);
            for (v, w) in row.iter().zip(x) {
                let (product, error) = two_product(*v, *w);
                left.add_parts(-y * product, -y * error);
            }
            if left.value() > 0.0 {
                value.add(left.value());
                row.iter().chain([&1.0]).zip(&mut slope).for_each(|(v, sum)| sum.add(-y * v));
            }
        }
        (value.value() / n, slope.iter().map(|sum| sum.value() / n).collect())
    }

    #[test]
    fn errors_of_a_mean_over_rows_are_within_the_stated_ones() {
        for (seed, n) in [(1, 30), (2, 5_000), (3, 80_000)] {
            let (entries, labels) = rows(n, 6, seed);
            let features = Matrix::dense(n, 6, entries.clone()).unwrap();
            let data = Data { features, labels: labels.clone(), groups: None, weights: None };
            let problem = Learning::on(data).minimize("hinge".parse().unwrap()).intercept(true).build().unwrap();
            let mut rng = Rng::new(seed, Purpose::Directions);
            for size in [1e-3, 0.3, 20.0] {
                let x: Vec<f64> = (0..7).map(|_| size * (2.0 * rng.uniform() - 1.0)).collect();
                let (warm, draw, mut scratch, mut slope) = (Warm::default(), Draw::full(), problem.scratch(), vec![0.0; 7]);
                let at = At { x: &x, draw: &draw, warm: &warm };
                let value = problem.objective_grad(at, &mut slope, &mut scratch).unwrap();
                let (exact, exact_slope) = hinge(&entries, &labels, &x);
                let stated = problem.rounding(&x, &[value])[0];
                assert!((value - exact).abs() <= stated.value, "{n} {size}: {value} {exact} {stated:?}");
                assert!(vec::distance(&slope, &exact_slope) <= stated.slope, "{n} {size}: {stated:?}");
                // The bounds are of use: some hundred roundings.
                assert!(stated.value <= 1e-13 * (1.0 + size * 10.0) && stated.slope <= 1e-12, "{n} {size}: {stated:?}");
            }
        }
    }
}
