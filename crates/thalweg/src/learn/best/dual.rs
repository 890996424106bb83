//! Lower bounds of a convex sum that hold in exact arithmetic. A multiplier `a` in [0, 1] for every loss gives
//! `hinge(m) >= a (1 - m)` and `logistic(m) >= H(a) - a m`, with H the entropy, so that for all w
//!
//! ```text
//! f(w) >= V - <r, w> + sum_j q_j w_j^2 / 2 + l1 ||w||_1,    r = sum of weight_i a_i label_i row_i,
//! ```
//!
//! where V is the weighted sum of `a` or `H(a)`. Regularisers bound the right-hand side from below where they apply. For a
//! variable without regulariser the residual r must be 0: exactly for a bound that holds everywhere, or nearly for one that
//! holds up to some norm of w.

use super::newton::conjugate;
use super::sum::{MeanLoss, Sum, WEIGHT_ERROR};
use crate::math::cholesky::{Cholesky, independent};
use crate::math::exact::{ExactSum, UNIT, gamma, two_product, two_sum};

/// Fraction by which all multipliers are reduced, so that those of 1 can be corrected in both directions.
const ROOM: f64 = 1e-9;
/// Multipliers are set to 0, from the smallest upwards, while they contribute at most this fraction of V. Where a direction
/// separates some rows their multipliers tend to 0, and only 0 gives a residual of 0.
const NEGLIGIBLE: f64 = 5e-9;
/// Multipliers above this number are not negligible.
const SMALL: f64 = 1e-4;
/// Corrections of the multipliers with each choice of rates.
const CORRECTIONS: usize = 4;
/// Factor that exceeds the rounding error of a short calculation with positive numbers.
const UP: f64 = 1.0 + 1e-12;
/// Factor that exceeds the relative error of an entropy and of a short calculation with it.
const DOWN: f64 = 1.0 - 1e-14;

/// Lower bound `at_zero - slope ||w||` for all w, and one without the norm where it was proved.
#[derive(Debug, Clone, Copy)]
pub(super) struct DualBound {
    pub(super) at_zero: f64,
    pub(super) slope: f64,
    /// Lower bound for all w.
    pub(super) everywhere: f64,
}

/// Multipliers times weights, each an unevaluated sum of two numbers.
struct Multipliers<'a> {
    sum: &'a Sum<'a>,
    terms: Vec<Vec<(f64, f64)>>,
}

/// Rates of corrections: multipliers change in proportion to these numbers, one for each multiplier.
struct Rates {
    terms: Vec<Vec<f64>>,
    /// Sums by rows.
    rows: Vec<f64>,
}

/// Multipliers that a lower bound follows from.
#[derive(Debug)]
pub(super) struct DualRecord {
    /// Multipliers times weights, one list for each term.
    pub(super) multipliers: Vec<Vec<(f64, f64)>>,
    /// Columns that are exact linear combinations of others: column, and the coefficients of the others.
    pub(super) combinations: Combinations,
}

/// A column, and the coefficients of the columns that it is a combination of.
type Combinations = Vec<(usize, Vec<(usize, f64)>)>;

/// Computes a lower bound from multipliers in [0, 1], one list for each term, and counts passes over the rows. Also returns the
/// multipliers after corrections.
pub(super) fn bound(sum: &Sum, alphas: &[Vec<f64>], evaluations: &mut u64) -> (DualBound, DualRecord) {
    let mut multipliers = Multipliers::of(sum, alphas);
    // Variables without regulariser.
    let free: Vec<usize> = (0..sum.dim()).filter(|&j| !sum.penalises(j)).collect();
    // Large corrections must keep away from 0 and 1. Small ones need not, which gives a matrix with a better condition.
    let mut bases = vec![];
    for rates in [multipliers.rates(|p, q| p * (1.0 - p / q)), multipliers.rates(|_, q| q)] {
        let basis = sum.dense(free.len()).then(|| Basis::of(sum, &rates, &free));
        *evaluations += multipliers.correct(&free, &rates, basis.as_ref());
        bases.extend(basis.map(|basis| (rates, basis)));
    }
    let residual = multipliers.residual();
    *evaluations += 2;
    let slope = free.iter().map(|&j| (residual[j].magnitude() * sum.scale[j]).powi(2)).sum::<f64>().sqrt() * UP;
    let none: Vec<Vec<f64>> = multipliers.terms.iter().map(|values| vec![0.0; values.len()]).collect();
    let at_zero = multipliers.value(&none, &residual);
    let exact = bases.iter().filter_map(|(rates, basis)| basis.changes(&multipliers, rates, &residual));
    let (mut everywhere, mut combinations) = (f64::NEG_INFINITY, vec![]);
    for (changes, dependent) in exact {
        let bound = multipliers.value(&changes, &residual);
        if bound > everywhere {
            (everywhere, combinations) = (bound, dependent);
        }
    }
    let everywhere = if slope == 0.0 { everywhere.max(at_zero) } else { everywhere };
    // No loss and no regulariser is negative.
    let bound = DualBound { at_zero, slope, everywhere: everywhere.max(0.0) };
    (bound, DualRecord { multipliers: multipliers.terms, combinations })
}

impl<'a> Multipliers<'a> {
    fn of(sum: &'a Sum<'a>, alphas: &[Vec<f64>]) -> Self {
        let one = |(term, alphas): (&MeanLoss, &Vec<f64>)| {
            let scaled = |(alpha, weight): (&f64, &f64)| ((1.0 - ROOM) * alpha.clamp(0.0, 1.0) * weight, 0.0);
            alphas.iter().zip(&term.weights).map(scaled).collect()
        };
        let mut terms: Vec<Vec<(f64, f64)>> = sum.terms.iter().zip(alphas).map(one).collect();
        drop_negligible(sum, alphas, &mut terms);
        Multipliers { sum, terms }
    }

    /// Returns rates as a function of multiplier times weight, and of the weight; 0 for a multiplier of 0.
    fn rates(&self, rate: impl Fn(f64, f64) -> f64) -> Rates {
        let mut rows = vec![0.0; self.sum.count()];
        let mut terms = vec![];
        for (term, values) in self.sum.terms.iter().zip(&self.terms) {
            let of = |(&(p, _), &q): (&(f64, f64), &f64)| if p > 0.0 { rate(p, q).max(0.0) } else { 0.0 };
            let own: Vec<f64> = values.iter().zip(&term.weights).map(of).collect();
            own.iter().enumerate().for_each(|(k, rate)| rows[term.row(k)] += rate);
            terms.push(own);
        }
        Rates { terms, rows }
    }

    /// Calls `visit(row, signed multiplier)` for all multipliers that are not 0.
    fn visit(&self, mut visit: impl FnMut(usize, (f64, f64))) {
        for (term, values) in self.sum.terms.iter().zip(&self.terms) {
            for (k, &(high, low)) in values.iter().enumerate().filter(|(_, v)| v.0 > 0.0) {
                visit(term.row(k), (term.labels[k] * high, term.labels[k] * low));
            }
        }
    }

    /// Computes the residual of the scaled variables.
    fn residual(&self) -> Vec<ExactSum> {
        let mut sums = vec![ExactSum::default(); self.sum.dim()];
        self.visit(|row, value| {
            self.sum.visit(row, |c, v| {
                if v != 0.0 {
                    sums[c].add_product(value, v);
                }
            });
        });
        sums
    }

    /// Changes the multipliers so that the residual of the free variables becomes nearly 0. Returns the passes over the rows.
    fn correct(&mut self, free: &[usize], rates: &Rates, basis: Option<&Basis>) -> u64 {
        let (sum, mut passes) = (self.sum, 0);
        let mut along = vec![0.0; sum.count()];
        let mut before = f64::INFINITY;
        for _ in 0..CORRECTIONS {
            let residual = self.residual();
            let size = free.iter().map(|&j| residual[j].magnitude().powi(2)).sum::<f64>().sqrt();
            passes += 2;
            if size >= 0.5 * before || size == 0.0 || size.is_nan() {
                break;
            }
            before = size;
            let mut v = vec![0.0; sum.dim()];
            match basis {
                Some(basis) => basis.solve(&residual, &mut v),
                None => {
                    let mut rhs = vec![0.0; sum.dim()];
                    free.iter().for_each(|&j| rhs[j] = residual[j].value());
                    let squares = sum.squares(&rates.rows);
                    passes += conjugate(sum, &rates.rows, &vec![0.0; sum.dim()], &squares, &rhs, 1e-8, &mut v);
                }
            }
            sum.scores(&v, &mut along);
            for ((term, values), rates) in sum.terms.iter().zip(&mut self.terms).zip(&rates.terms) {
                for (k, ((high, low), rate)) in values.iter_mut().zip(rates).enumerate().filter(|(_, (_, rate))| **rate > 0.0) {
                    let change = -rate * term.labels[k] * along[term.row(k)];
                    // Half of the way to the nearer end at most.
                    let most = 0.5 * high.min(term.weights[k] - *high);
                    let change = change.clamp(-most.max(0.0), most.max(0.0));
                    let (sum, error) = two_sum(*high, change);
                    (*high, *low) = two_sum(sum, error + *low);
                }
            }
        }
        passes
    }

    /// Computes a lower bound on V plus the smallest value of what regularisers and residual of the penalised variables add, for
    /// multipliers that differ by at most `changes`.
    fn value(&self, changes: &[Vec<f64>], residual: &[ExactSum]) -> f64 {
        let sum = self.sum;
        let mut total = ExactSum::default();
        let penalised: Vec<bool> = (0..sum.dim()).map(|j| sum.penalises(j)).collect();
        let any = penalised.contains(&true);
        let mut magnitude: Vec<f64> = residual.iter().map(ExactSum::magnitude).collect();
        for ((term, values), changes) in sum.terms.iter().zip(&self.terms).zip(changes) {
            for (k, (&(high, low), &change)) in values.iter().zip(changes).enumerate().filter(|(_, (v, _))| v.0 > 0.0) {
                let weight = term.weights[k];
                let most = weight * (1.0 - WEIGHT_ERROR);
                if !(high * (1.0 - 4.0 * UNIT) - change >= 0.0 && high * (1.0 + 4.0 * UNIT) + change <= most) {
                    return f64::NEG_INFINITY;
                }
                if change > 0.0 && any {
                    sum.visit(term.row(k), |c, v| {
                        if penalised[c] {
                            magnitude[c] += change * v.abs() * UP;
                        }
                    });
                }
                if term.logistic {
                    // The entropy is concave, so that it is smallest at an end of the interval of the multiplier.
                    let end = |p: f64, error: f64| (p / weight * (1.0 + error)).clamp(0.0, 1.0);
                    let (low, high) =
                        (end((high - change).max(0.0), -2.0 * WEIGHT_ERROR), end(high + change, 2.0 * WEIGHT_ERROR));
                    total.add(most * entropy(low).min(entropy(high)) * DOWN);
                } else {
                    total.add_parts(high, low);
                    total.add(-change);
                }
            }
        }
        let lower = total.lower() * if total.value() > 0.0 { 1.0 - 4.0 * UNIT } else { 1.0 };
        // Sums of factors, which may have been rounded.
        let l1 = sum.penalties.l1 * DOWN;
        // Residuals in the units of the data, with the coefficient of the square.
        let (mut squared, mut kinked) = (vec![], vec![]);
        for j in (0..sum.dim()).filter(|&j| penalised[j]) {
            let magnitude = magnitude[j] * sum.scale[j] * UP;
            let square = sum.penalties.square(j) * DOWN;
            if square > 0.0 { squared.push((magnitude, square)) } else { kinked.push(magnitude) }
        }
        // All multipliers are divided by the same number, which makes the residual at most l1 where there is no square.
        let over = kinked.iter().fold(1.0, |over: f64, m| over.max(m / l1 * UP));
        let lower = if kinked.is_empty() { lower } else { lower.max(0.0) / over * DOWN };
        let Some(&(_, unit)) = squared.first() else { return lower };
        let rounded = if over > 1.0 { UP } else { 1.0 };
        // Squares with the same coefficient are added before they are divided by it.
        let squares = squared.iter().map(|(m, q)| {
            let excess = m / over * rounded - l1;
            excess.max(0.0).powi(2) / (q / unit)
        });
        lower - squares.sum::<f64>() / (2.0 * unit) * UP
    }
}

/// Sets negligible multipliers to 0.
fn drop_negligible(sum: &Sum, alphas: &[Vec<f64>], terms: &mut [Vec<(f64, f64)>]) {
    let (mut total, mut small) = (0.0, vec![]);
    for (at, (term, alphas)) in sum.terms.iter().zip(alphas).enumerate() {
        for (k, (&alpha, &weight)) in alphas.iter().zip(&term.weights).enumerate() {
            let part = weight * if term.logistic { entropy(alpha) } else { alpha };
            total += part;
            if alpha < SMALL {
                small.push((alpha, part, at, k));
            }
        }
    }
    small.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut dropped = 0.0;
    for (_, part, at, k) in small {
        dropped += part;
        if dropped > NEGLIGIBLE * total {
            break;
        }
        terms[at][k] = (0.0, 0.0);
    }
}

/// Computes the entropy of a share.
fn entropy(share: f64) -> f64 {
    let part = |x: f64, log: f64| if x > 0.0 { -x * log } else { 0.0 };
    part(share, share.ln()) + part(1.0 - share, (-share).ln_1p())
}

/// Free columns that are linearly independent on the rows with multipliers, and the factored matrix of their second moments.
struct Basis<'a> {
    free: &'a [usize],
    /// Second moments of the free columns, with a diagonal between 1/4 and 4.
    moments: Vec<f64>,
    /// Powers of two by which the free columns are multiplied.
    scale: Vec<f64>,
    /// Positions of the chosen columns among the free ones.
    chosen: Vec<usize>,
    factor: Cholesky,
}

impl<'a> Basis<'a> {
    fn of(sum: &Sum, rates: &Rates, free: &'a [usize]) -> Self {
        let k = free.len();
        let mut moments = sum.moments(&rates.rows, free);
        let scale: Vec<f64> = (0..k)
            .map(|i| {
                let entry = moments[i * k + i];
                // A column without rows is left out below.
                if entry > 0.0 { (-0.5 * entry.log2()).round().exp2() } else { 1.0 }
            })
            .collect();
        for i in 0..k {
            for j in 0..=i {
                moments[i * k + j] *= scale[i] * scale[j];
            }
        }
        let chosen = independent(&moments, k, f64::max(1e-10, 64.0 * UNIT * sum.count() as f64));
        let factor = Cholesky::semidefinite(&select(&moments, k, &chosen), &vec![0.0; chosen.len()], UNIT);
        Basis { free, moments, scale, chosen, factor }
    }

    /// Computes the variables that belong to a residual.
    fn solve(&self, residual: &[ExactSum], v: &mut [f64]) {
        let mut rhs: Vec<f64> = self.chosen.iter().map(|&i| self.scale[i] * residual[self.free[i]].value()).collect();
        self.factor.solve(&mut rhs);
        self.chosen.iter().zip(rhs).for_each(|(&i, x)| v[self.free[i]] = self.scale[i] * x);
    }

    /// Bounds the changes of the multipliers that make the residual of all free variables exactly 0. They exist if the matrix of
    /// second moments of the chosen columns is positive definite, which a Cholesky factor in floating point proves (Rump,
    /// Verification of positive definiteness, 2006), and if the other columns are exact linear combinations of the chosen ones.
    /// Returns `None` if that is not proved.
    fn changes(&self, multipliers: &Multipliers, rates: &Rates, residual: &[ExactSum]) -> Option<(Vec<Vec<f64>>, Combinations)> {
        let sum = multipliers.sum;
        let k = self.chosen.len();
        let size = k as f64;
        if !sum.exact {
            return None;
        }
        // Entries of the matrix are sums of as many products as there are rows, and at most 4 for the computed scale.
        let entries = 4.0 * size * gamma(sum.count() as f64 + 64.0);
        let factoring = 4.0 * size * gamma(size + 8.0);
        let shift = 2.0 * (entries + factoring);
        let matrix = select(&self.moments, self.free.len(), &self.chosen);
        Cholesky::shifted(&matrix, k, shift)?;
        let least = 0.5 * shift;
        let combinations = self.others_depend(multipliers, residual)?;
        let length = self.chosen.iter().map(|&i| (self.scale[i] * residual[self.free[i]].magnitude()).powi(2)).sum::<f64>();
        // Squares of tiny residuals underflow.
        let length = if k == 0 { 0.0 } else { (length.sqrt() + 1e-150) / least * UP };
        let mut factors = vec![0.0; sum.dim()];
        self.chosen.iter().for_each(|&i| factors[self.free[i]] = self.scale[i]);
        let one = |(term, rates): (&MeanLoss, &Vec<f64>)| {
            rates
                .iter()
                .enumerate()
                .map(|(at, rate)| {
                    let mut square = 0.0;
                    if *rate > 0.0 {
                        sum.visit(term.row(at), |c, v| square += (factors[c] * v).powi(2));
                    }
                    rate * square.sqrt() * length * UP
                })
                .collect()
        };
        Some((sum.terms.iter().zip(&rates.terms).map(one).collect(), combinations))
    }

    /// Checks that every free column outside the basis is an exact linear combination of the basis on all rows with multipliers,
    /// and returns the coefficients, for the columns as they are stored.
    fn others_depend(&self, multipliers: &Multipliers, residual: &[ExactSum]) -> Option<Combinations> {
        let sum = multipliers.sum;
        let others: Vec<usize> =
            (0..self.free.len()).filter(|i| !self.chosen.contains(i) && residual[self.free[*i]].terms > 0).collect();
        let mut combinations = vec![];
        for &i in &others {
            let k = self.free.len();
            let mut c: Vec<f64> =
                self.chosen.iter().map(|&j| if j < i { self.moments[i * k + j] } else { self.moments[j * k + i] }).collect();
            self.factor.solve(&mut c);
            // Coefficients of the columns as they are stored, or of the scaled columns.
            let of = |stored: bool| -> Vec<(usize, f64)> {
                let unit = |at: usize| if stored { 1.0 / sum.scale[self.free[at]] } else { 1.0 };
                let all = self.chosen.iter().zip(&c).map(|(&j, c)| {
                    let units = unit(i) / unit(j);
                    let coefficient = c * self.scale[j] / self.scale[i] / units;
                    ((coefficient * GRID).round() / GRID * units, self.free[j])
                });
                all.filter(|(c, _)| *c != 0.0).map(|(c, j)| (j, c)).collect()
            };
            combinations.push((self.free[i], [of(true), of(false)]));
        }
        let mut row = vec![0.0; sum.dim()];
        let mut alive = vec![[true; 2]; combinations.len()];
        let mut seen = vec![false; sum.count()];
        multipliers.visit(|i, _| seen[i] = true);
        for i in (0..sum.count()).filter(|i| seen[*i]) {
            row.fill(0.0);
            sum.visit(i, |c, v| row[c] = v);
            for ((column, both), alive) in combinations.iter().zip(&mut alive) {
                for (combination, alive) in both.iter().zip(alive) {
                    *alive = *alive && exact_combination(combination, &row) == Some(row[*column]);
                }
            }
        }
        let unscaled = |column: usize, combination: Vec<(usize, f64)>| {
            // Coefficients of scaled columns, in the units of the stored ones; scales are powers of two.
            (column, combination.into_iter().map(|(j, c)| (j, c * sum.scale[column] / sum.scale[j])).collect())
        };
        let chosen = combinations.into_iter().zip(&alive).map(|((column, [stored, scaled]), alive)| {
            if alive[0] { Some(unscaled(column, stored)) } else { alive[1].then(|| unscaled(column, scaled)) }
        });
        chosen.collect()
    }
}

/// Coefficients of dependent columns are rounded to multiples of the inverse of this number.
const GRID: f64 = 256.0;

/// Computes a linear combination of entries; `None` if an operation rounds.
fn exact_combination(combination: &[(usize, f64)], row: &[f64]) -> Option<f64> {
    let mut total = 0.0;
    for &(j, c) in combination.iter().filter(|(j, _)| row[*j] != 0.0) {
        let (product, error) = two_product(c, row[j]);
        let (sum, other) = two_sum(total, product);
        if error != 0.0 || other != 0.0 || product.abs() < 1e-280 {
            return None;
        }
        total = sum;
    }
    Some(total)
}

/// Returns the lower triangle of the chosen rows and columns.
fn select(m: &[f64], dim: usize, chosen: &[usize]) -> Vec<f64> {
    let k = chosen.len();
    let mut selected = vec![0.0; k * k];
    for (a, &i) in chosen.iter().enumerate() {
        for (b, &j) in chosen[..=a].iter().enumerate() {
            selected[a * k + b] = m[i * dim + j];
        }
    }
    selected
}
