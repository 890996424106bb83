//! A convex sum of losses and regularisers in scaled variables: values, derivatives and second moments. Minimising it is in
//! `newton.rs`, lower bounds are in `dual.rs`.

use std::ops::Range;

use crate::learn::function::Piece;
use crate::learn::loss::Loss;
use crate::learn::penalty::Convex;
use crate::learn::population::Population;
use crate::learn::problem::Learning;
use crate::learn::term::{LossFunction, LossStatistic};
use crate::math::exact::ExactSum;
use crate::math::sigmoid::{log1p_exp, sigmoid};
use crate::math::{Matrix, vec};
use crate::oracle::Description;

/// Largest number of variables for which matrices of second moments are factored.
const DENSE: usize = 1024;
/// Largest number of products for one such matrix.
const PRODUCTS: f64 = 4e9;
/// Number of entries that may be read while minimising without such matrices, and limits on the number of passes.
const READS: f64 = 2e10;
const LEAST_PASSES: f64 = 1000.0;
const MOST_PASSES: f64 = 20_000.0;
/// Rows that are multiplied at a time if rows are dense.
const BLOCK: usize = 256;
/// Exponents of column scales are limited to this absolute value, so that their squares are finite.
const EXPONENT: f64 = 250.0;

/// Sum of mean losses plus `sum_j q_j w_j^2 / 2 + l1 ||w||_1` without the intercept, where q_j is the factor of l2 plus that of
/// ridge times the squared scale of the column. Its variables are `u = scale w`, with the root mean square of each column,
/// rounded to a power of two, as the scale: minimising does not depend on the units of columns.
pub(super) struct Sum<'a> {
    features: &'a Matrix,
    rows: Range<usize>,
    intercept: bool,
    pub(super) scale: Vec<f64>,
    pub(super) terms: Vec<MeanLoss<'a>>,
    pub(super) penalties: Convex,
    /// Number of entries of the rows, and of products of a matrix of second moments.
    entries: f64,
    products: f64,
    /// Whether dividing the entries by the scales is exact.
    pub(super) exact: bool,
}

/// Factor times the mean loss of some rows.
pub(super) struct MeanLoss<'a> {
    pub(super) logistic: bool,
    /// Rows relative to those of the sum; `None` for all of them.
    members: Option<&'a [u32]>,
    pub(super) labels: Vec<f64>,
    /// Factor of the term times the share of the row in the total weight. The relative error is at most [`WEIGHT_ERROR`].
    pub(super) weights: Vec<f64>,
}

/// Bound on the relative error of the weights of rows in a [`MeanLoss`].
pub(super) const WEIGHT_ERROR: f64 = 16.0 * crate::math::exact::UNIT;

impl MeanLoss<'_> {
    /// Returns the row of entry `k`, relative to those of the sum.
    #[inline]
    pub(super) fn row(&self, k: usize) -> usize {
        self.members.map_or(k, |m| m[k] as usize)
    }
}

impl<'a> Sum<'a> {
    /// Reads the objective of a problem; `None` if it is not a sum of mean hinge and logistic losses, l2, ridge and l1.
    pub(super) fn of(problem: &'a Learning) -> Option<Self> {
        let (mut terms, mut penalties) = (vec![], vec![]);
        let rows = problem.parts[0].clone();
        for summand in &problem.objective.pieces {
            match &summand.piece {
                Piece::Penalty(penalty) => penalties.push((summand.factor, penalty.clone())),
                Piece::Term(term) => {
                    let LossFunction { loss, statistic: LossStatistic::Mean } = term.loss_function()? else { return None };
                    let logistic = match loss {
                        Loss::Hinge => false,
                        Loss::Logistic => true,
                        Loss::Welsch(_) | Loss::TruncatedLogistic(_) => return None,
                    };
                    let [population] = summand.populations[..] else { return None };
                    let Population { part: 0, members, .. } = &problem.populations[population] else { return None };
                    let members = members.as_deref();
                    let count = members.map_or(rows.len(), <[u32]>::len);
                    let row = |k: usize| rows.start + members.map_or(k, |m| m[k] as usize);
                    let weight = |k: usize| problem.data.weights.as_ref().map_or(1.0, |w| w[row(k)]);
                    let mut total = ExactSum::default();
                    (0..count).for_each(|k| total.add(weight(k)));
                    terms.push(MeanLoss {
                        logistic,
                        members,
                        labels: (0..count).map(|k| problem.data.labels[row(k)]).collect(),
                        weights: (0..count).map(|k| summand.factor * (weight(k) / total.value())).collect(),
                    });
                }
            }
        }
        let mut sum = Sum {
            features: &problem.data.features,
            rows,
            intercept: problem.intercept,
            scale: vec![1.0; problem.dim()],
            terms,
            penalties: Convex::of(penalties)?,
            entries: 0.0,
            products: 0.0,
            exact: true,
        };
        sum.set_scale();
        Some(sum)
    }

    /// Sets the scale of each column and counts products.
    fn set_scale(&mut self) {
        let mut largest = vec![0.0_f64; self.dim()];
        let mut squares = vec![0.0; self.dim()];
        for i in 0..self.count() {
            self.visit(i, |c, v| largest[c] = largest[c].max(v.abs()));
        }
        let mut products = 0.0;
        for i in 0..self.count() {
            let mut entries = 0.0;
            self.visit(i, |c, v| {
                entries += 1.0;
                if v != 0.0 {
                    squares[c] += (v / largest[c]).powi(2);
                }
            });
            products += entries * entries;
            self.entries += entries;
        }
        self.products = products;
        for (scale, (largest, squares)) in self.scale.iter_mut().zip(largest.iter().zip(&squares)) {
            if *largest > 0.0 {
                let exponent = largest.log2() + 0.5 * (squares / self.rows.len() as f64).log2();
                *scale = exponent.round().clamp(-EXPONENT, EXPONENT).exp2();
            }
        }
        let mut exact = true;
        for i in self.rows.clone() {
            self.features.visit_row(i, |c, v| exact &= v == 0.0 || (v / self.scale[c]).is_normal());
        }
        self.exact = exact;
    }

    /// Returns the number of variables.
    pub(super) fn dim(&self) -> usize {
        self.scale.len()
    }

    /// Returns the number of rows.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether matrices of second moments of `columns` columns are small enough to be computed and factored.
    pub(super) fn dense(&self, columns: usize) -> bool {
        columns <= DENSE && (self.products <= PRODUCTS || columns <= 8)
    }

    /// Returns the number of passes over the rows that a minimisation may take: no limit if its matrices are factored.
    pub(super) fn passes(&self) -> u64 {
        let affordable = (READS / self.entries.max(1.0)).clamp(LEAST_PASSES, MOST_PASSES);
        if self.dense(self.dim()) { u64::MAX } else { affordable as u64 }
    }

    /// Returns whether variable `j` is penalised. The intercept never is.
    pub(super) fn penalises(&self, j: usize) -> bool {
        j < self.features.cols() && self.penalties.covers(j)
    }

    /// Returns the multipliers of the losses of a term, each minus its derivative with respect to the margin.
    pub(super) fn multipliers(term: &MeanLoss, scores: &[f64]) -> Vec<f64> {
        (0..term.labels.len()).map(|k| sigmoid(-term.labels[k] * scores[term.row(k)])).collect()
    }

    /// Returns the coefficient of `u_j^2 / 2` and that of `|u_j|`.
    pub(super) fn coefficients(&self, j: usize) -> (f64, f64) {
        let scale = self.scale[j];
        if j < self.features.cols() {
            (self.penalties.square(j) / (scale * scale), self.penalties.l1 / scale)
        } else {
            (0.0, 0.0)
        }
    }

    /// Returns whether the sum is not smooth.
    pub(super) fn has_kinks(&self) -> bool {
        self.penalties.l1 > 0.0 || self.terms.iter().any(|t| !t.logistic)
    }

    /// Calls `visit(column, entry)` for the entries of a row, divided by the scale of their columns, with the intercept as the
    /// last column.
    #[inline]
    pub(super) fn visit(&self, row: usize, mut visit: impl FnMut(usize, f64)) {
        self.features.visit_row(self.rows.start + row, |c, v| visit(c, v / self.scale[c]));
        if self.intercept {
            visit(self.features.cols(), 1.0);
        }
    }

    /// Returns the weights of the model.
    pub(super) fn model(&self, u: &[f64]) -> Vec<f64> {
        u.iter().zip(&self.scale).map(|(u, s)| u / s).collect()
    }

    /// Computes the scores at scaled variables.
    pub(super) fn scores(&self, u: &[f64], out: &mut [f64]) {
        let w = self.model(u);
        self.features.scores(self.rows.clone(), &w[..self.features.cols()], out);
        if self.intercept {
            let offset = w[self.features.cols()];
            out.iter_mut().for_each(|s| *s += offset);
        }
    }

    /// Computes the sum of the scaled rows, each times its slope.
    pub(super) fn pull(&self, slopes: &[f64], grad: &mut [f64]) {
        let mut slots = vec![0.0; self.features.pull_slots(self.rows.len())];
        grad.fill(0.0);
        self.features.pull(self.rows.clone(), slopes, 1.0, &mut grad[..self.features.cols()], &mut slots);
        grad.iter_mut().zip(&self.scale).for_each(|(g, s)| *g /= s);
        if self.intercept {
            grad[self.features.cols()] = vec::sum(slopes);
        }
    }

    /// Computes the logistic losses, and adds their derivatives with respect to the scores and the second ones.
    pub(super) fn logistic(&self, scores: &[f64], slopes: &mut [f64], curvatures: &mut [f64]) -> f64 {
        let mut total = 0.0;
        for term in self.terms.iter().filter(|t| t.logistic) {
            let mut own = 0.0;
            for (k, (&label, &weight)) in term.labels.iter().zip(&term.weights).enumerate() {
                let i = term.row(k);
                let margin = label * scores[i];
                let alpha = sigmoid(-margin);
                own += weight * log1p_exp(-margin);
                slopes[i] -= weight * alpha * label;
                curvatures[i] += weight * alpha * (1.0 - alpha);
            }
            total += own;
        }
        total
    }

    /// Computes the derivative of the logistic losses along a direction with the scores `step`, at `scores + t step`.
    pub(super) fn slope_along(&self, scores: &[f64], step: &[f64], t: f64) -> f64 {
        let one = |term: &MeanLoss| {
            vec::sum_by(term.labels.len(), |k| {
                let i = term.row(k);
                let margin = term.labels[k] * (scores[i] + t * step[i]);
                -term.weights[k] * sigmoid(-margin) * term.labels[k] * step[i]
            })
        };
        self.terms.iter().filter(|t| t.logistic).map(one).sum()
    }

    /// Computes the lower triangle, by rows, of the second moments of some columns: the sum over rows of `weights` times the
    /// product of two scaled columns.
    pub(super) fn moments(&self, weights: &[f64], columns: &[usize]) -> Vec<f64> {
        let k = columns.len();
        let mut index = vec![usize::MAX; self.dim()];
        columns.iter().enumerate().for_each(|(at, &c)| index[c] = at);
        let mut m = vec![0.0; k * k];
        let sparse = self.products < 0.1 * self.count() as f64 * (self.dim() * self.dim()) as f64;
        let mut row: Vec<(usize, f64)> = vec![];
        let mut block = vec![0.0; if sparse { 0 } else { k * BLOCK }];
        let mut filled = 0;
        let add = |block: &[f64], filled: usize, m: &mut [f64]| {
            for i in 0..k {
                let left = &block[i * BLOCK..][..filled];
                for j in 0..=i {
                    m[i * k + j] += vec::dot(left, &block[j * BLOCK..][..filled]);
                }
            }
        };
        for (i, &weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            if sparse {
                row.clear();
                self.visit(i, |c, v| {
                    if index[c] < k {
                        row.push((index[c], v));
                    }
                });
                for (at, &(i, v)) in row.iter().enumerate() {
                    let v = weight * v;
                    row[..=at].iter().for_each(|&(j, w)| m[i * k + j] += v * w);
                }
            } else {
                let root = weight.sqrt();
                (0..k).for_each(|c| block[c * BLOCK + filled] = 0.0);
                self.visit(i, |c, v| {
                    if index[c] < k {
                        block[index[c] * BLOCK + filled] = root * v;
                    }
                });
                filled += 1;
                if filled == BLOCK {
                    add(&block, filled, &mut m);
                    filled = 0;
                }
            }
        }
        if filled > 0 {
            add(&block, filled, &mut m);
        }
        m
    }

    /// Computes the diagonal of the second moments of all columns.
    pub(super) fn squares(&self, weights: &[f64]) -> Vec<f64> {
        let mut squares = vec![0.0; self.dim()];
        for (i, &weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            self.visit(i, |c, v| squares[c] += weight * v * v);
        }
        squares
    }
}
