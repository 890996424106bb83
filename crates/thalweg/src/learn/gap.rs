//! Gaps between the rates of groups, with the step function softened to a sigmoid.

use super::term::{Constant, Part, RowNorms, Term, View, Who, Work};
use crate::math::{sigmoid, vec};

/// Largest second derivative of the sigmoid, 1 / (6 sqrt 3).
pub(super) const STEEPEST_BEND: f64 = 0.096_225_044_864_937_63;
/// A gap below this is rounding noise: its subgradient is taken as zero.
pub(super) const NOISE: f64 = 1e-12;

/// Largest difference of positive rates between groups: between the two of them, or of each against the overall rate where
/// there are more. A rate is the mean of `sigmoid(score / temperature)`.
#[derive(Debug, Clone, PartialEq)]
pub struct RateGap {
    populations: Vec<Who>,
    temperature: f64,
    contrast: Contrast,
}

impl RateGap {
    /// Of all rows (demographic parity).
    pub fn demographic_parity(groups: u32, temperature: f64) -> Self {
        RateGap { populations: (0..groups).map(Who::Group).collect(), temperature, contrast: Contrast::default() }
    }

    /// Of the rows with label +1 (equal opportunity).
    pub fn equal_opportunity(groups: u32, temperature: f64) -> Self {
        RateGap { populations: (0..groups).map(Who::GroupPositives).collect(), temperature, contrast: Contrast::default() }
    }
}

impl Term for RateGap {
    fn populations(&self) -> (Part, Vec<Who>) {
        (Part::Gaps, self.populations.clone())
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.contrast = Contrast::new(populations);
    }

    fn sharpen(&mut self, factor: f64) -> bool {
        self.temperature *= factor;
        true
    }

    fn measure(&self, _: usize, view: View, _: &mut Work, out: &mut [f64]) {
        out[0] = sigmoid::mean_at(view.scores, view.weights, 0.0, self.temperature);
    }

    fn count(&self, _: usize, view: View, out: &mut [f64]) -> bool {
        out[0] = share_above(view, 0.0);
        true
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        self.contrast.largest(1, |k, _| statistics[k]).map_or(0.0, |l| l.gap.abs())
    }

    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        if let Some(l) = self.contrast.largest(1, |k, _| statistics[k]).filter(|l| l.gap.abs() > NOISE) {
            for (k, out) in out.iter_mut().enumerate() {
                *out = l.gap.signum() * self.contrast.coefficient(l.row, k);
            }
        }
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        sigmoid::slopes_at(view.scores, 0.0, self.temperature, weights[0], out);
        weigh(view, out);
    }

    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64> {
        Some(self.contrast.modulus(populations, which, self.temperature))
    }
}

/// Weighted share of the rows with a score above `threshold`: those that a classifier with that threshold calls positive.
pub(super) fn share_above(view: View, threshold: f64) -> f64 {
    let weight = |i: usize| if view.scores[i] > threshold { view.weight(i) } else { 0.0 };
    vec::sum_by(view.scores.len(), weight) / view.scores.len() as f64
}

/// Multiplies by the rows' weights.
pub(super) fn weigh(view: View, out: &mut [f64]) {
    if let Some(weights) = view.weights {
        out.iter_mut().zip(weights).for_each(|(o, w)| *o *= w);
    }
}

/// The differences of group means that a gap compares: one for two groups, one per group otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Contrast {
    /// Share of each group in the whole.
    shares: Vec<f64>,
}

/// The largest difference.
pub(super) struct Largest {
    /// Which difference.
    pub row: usize,
    /// At which position of the grid.
    pub position: usize,
    /// The difference with its sign.
    pub gap: f64,
}

impl Contrast {
    pub(super) fn new(populations: &[RowNorms]) -> Self {
        let total: f64 = populations.iter().map(|p| p.weight).sum();
        Contrast { shares: populations.iter().map(|p| p.weight / total).collect() }
    }

    fn rows(&self) -> usize {
        if self.shares.len() == 2 { 1 } else { self.shares.len() }
    }

    /// Factor of the mean of group `k` in difference `row`.
    pub(super) fn coefficient(&self, row: usize, k: usize) -> f64 {
        match self.shares.len() {
            2 => [1.0, -1.0][k],
            _ => f64::from(u8::from(row == k)) - self.shares[k],
        }
    }

    /// The largest absolute difference over `positions` positions, where `mean(k, position)` is the mean of group `k`. The
    /// first position wins ties, then the first difference.
    pub(super) fn largest(&self, positions: usize, mean: impl Fn(usize, usize) -> f64) -> Option<Largest> {
        let mut best: Option<Largest> = None;
        for position in 0..positions {
            for row in 0..self.rows() {
                let gap: f64 = (0..self.shares.len()).map(|k| self.coefficient(row, k) * mean(k, position)).sum();
                if best.as_ref().is_none_or(|b| gap.abs() > b.gap.abs()) || gap.is_nan() {
                    best = Some(Largest { row, position, gap });
                    if gap.is_nan() {
                        return best;
                    }
                }
            }
        }
        best
    }

    /// Weak-convexity constant of the largest absolute difference of sigmoid means.
    pub(super) fn modulus(&self, populations: &[RowNorms], which: Constant, temperature: f64) -> f64 {
        let bend = match which {
            Constant::Sharp => STEEPEST_BEND,
            Constant::AsPrinted => 1.0,
        };
        let largest = (0..self.rows())
            .map(|row| populations.iter().enumerate().map(|(k, p)| self.coefficient(row, k).abs() * p.mean_square).sum::<f64>())
            .fold(0.0, f64::max);
        bend * largest / (temperature * temperature)
    }
}
