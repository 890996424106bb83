//! A loss with its variance, and self-paced learning, as inf-projection problems: the objective of the terms, written with
//! additional variables y. The terms themselves are in `variance.rs` and `self_paced.rs`.

use std::sync::Arc;

use super::data::Data;
use super::loss::Loss;
use super::penalty::{Convex, Penalty};
use crate::Result;
use crate::error::{check_finite, check_length};
use crate::math::{Matrix, vec};
use crate::oracle::{Case, InfProjection, InfProjectionRows, Pick, Power, ScoredRows};
use crate::sets::Set;

/// Largest value of y in the form of a variance, where y is the mean loss. Useful models have a far smaller mean loss.
pub const LARGEST_MEAN_LOSS: f64 = 100.0;

/// Smallest alpha in the form of `sqrt(variance / n)`, which divides by it.
const LEAST_PROFILED_SCALAR: f64 = 1e-12;

/// Variance relative to the mean square below which all losses count as equal.
const EQUAL: f64 = 1e-10;

/// An objective of losses l_i as an inf-projection problem, in one of three forms, with penalties in g:
///
/// - `a mean l + b variance(l)`: with lam = 2 b, `g = a mean l + (lam / 2) mean l^2`, `h = (lam / 2) y^2` for y from 0 to
///   [`LARGEST_MEAN_LOSS`], mapping `lam mean l`. It equals the objective wherever the mean loss is at most that.
/// - `a mean l + b sqrt(variance(l) / n)`, which is the smallest over alpha of `a mean l + b (variance / (2 alpha) + alpha / (2
///   n))`: for a given alpha the form above with lam = b / alpha. The best alpha is `sqrt(n variance)`;
///   [`InfProjection::profiled_scalar`] returns it and [`InfProjection::with_profiled_scalar`] applies it. If all losses are
///   equal, as they are at 0, the best alpha is 0, with which the weights could not move: `profiled_scalar` then returns
///   `None`, and the form is that of a variance of 1.
/// - `a self_paced(l)`: one y per row, the negative of the row's weight; `h = (a / n) (softness y^2 / 2 + threshold y)` for y
///   from -1 to 0, mapping `a l_i / n`, no losses in g.
#[derive(Debug, Clone)]
pub struct LossForm {
    rows: SampledRows,
    loss: Loss,
    form: Form,
    /// a.
    factor: f64,
    penalties: Convex,
    domain: Arc<dyn Set>,
    power: Power,
    fingerprint: String,
}

/// Rows of a population.
#[derive(Debug, Clone)]
pub(super) struct SampledRows {
    pub(super) data: Arc<Data>,
    pub(super) intercept: bool,
    /// First row and length of the part of the data that the population belongs to.
    pub(super) begin: usize,
    pub(super) length: usize,
    /// Positions within the part; `None` if all of them belong to the population.
    pub(super) members: Option<Arc<[u32]>>,
    /// Row weights with mean 1.
    pub(super) weights: Option<Arc<[f64]>>,
}

/// One of the three forms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// b.
    Variance(f64),
    /// b, alpha and n.
    Deviation { factor: f64, profiled_scalar: f64, rows: f64 },
    /// See [`super::term::LossStatistic::SelfPaced`].
    SelfPaced { threshold: f64, softness: f64 },
}

impl Form {
    /// lam, the coefficient of `l^2 / 2`; 0 for self-paced learning.
    fn square(self) -> f64 {
        match self {
            Form::Variance(factor) => 2.0 * factor,
            Form::Deviation { factor, profiled_scalar, .. } => factor / profiled_scalar,
            Form::SelfPaced { .. } => 0.0,
        }
    }
}

impl LossForm {
    /// Returns `None` for self-paced learning with row weights, where h would differ between rows.
    pub(super) fn new(
        rows: SampledRows,
        (factor, loss): (f64, Loss),
        form: Form,
        penalties: impl IntoIterator<Item = (f64, Penalty)>,
        domain: Arc<dyn Set>,
        fingerprint: String,
    ) -> Option<Self> {
        let power = match form {
            Form::SelfPaced { .. } if rows.weights.is_some() => return None,
            Form::SelfPaced { threshold, softness } => {
                let share = factor / rows.count() as f64;
                Power::square(share * softness).and_then(|h| h.tilted(share * threshold)).and_then(|h| h.between(-1.0, 0.0))
            }
            Form::Variance(_) | Form::Deviation { .. } => {
                Power::square(form.square()).and_then(|h| h.between(0.0, LARGEST_MEAN_LOSS))
            }
        };
        let (power, penalties) = (power.ok()?, Convex::of(penalties)?);
        Some(LossForm { rows, loss, form, factor, penalties, domain, power, fingerprint })
    }

    /// Computes g_i and its derivative with respect to the score.
    #[inline]
    fn convex_at(&self, sample: usize, score: f64) -> (f64, f64) {
        let (plain, square, constant) = match self.form {
            Form::SelfPaced { .. } => return (0.0, 0.0),
            Form::Variance(factor) => (self.factor, 2.0 * factor, 0.0),
            Form::Deviation { factor, profiled_scalar, rows } => {
                (self.factor, factor / profiled_scalar, 0.5 * factor * profiled_scalar / rows)
            }
        };
        let label = self.rows.label(sample);
        let (l, slope, weight) =
            (self.loss.value(label * score), label * self.loss.slope(label * score), self.rows.weight(sample));
        (weight * (plain * l + 0.5 * square * l * l) + constant, weight * (plain + square * l) * slope)
    }

    /// Returns the factor of l_i in the mapping.
    #[inline]
    fn mapping_factor(&self) -> f64 {
        match self.form {
            Form::SelfPaced { .. } => self.factor,
            form => form.square(),
        }
    }

    /// Computes a sample's entry of the mapping and its derivative with respect to the score.
    #[inline]
    fn mapping_at(&self, sample: usize, score: f64) -> (f64, f64) {
        let label = self.rows.label(sample);
        let factor = self.mapping_factor() * self.rows.weight(sample);
        (factor * self.loss.value(label * score), factor * label * self.loss.slope(label * score))
    }

    #[inline]
    fn entry(&self, sample: usize) -> usize {
        match self.form {
            Form::SelfPaced { .. } => sample,
            Form::Variance(_) | Form::Deviation { .. } => 0,
        }
    }
}

impl SampledRows {
    pub(super) fn count(&self) -> usize {
        self.members.as_ref().map_or(self.length, |m| m.len())
    }

    pub(super) fn dim(&self) -> usize {
        self.data.features.cols() + usize::from(self.intercept)
    }

    #[inline]
    pub(super) fn row(&self, sample: usize) -> usize {
        self.begin + self.members.as_ref().map_or(sample, |m| m[sample] as usize)
    }

    #[inline]
    pub(super) fn label(&self, sample: usize) -> f64 {
        self.data.labels[self.row(sample)]
    }

    #[inline]
    fn weight(&self, sample: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[sample])
    }

    pub(super) fn score(&self, sample: usize, x: &[f64]) -> f64 {
        let columns = self.data.features.cols();
        let offset = if self.intercept { x[columns] } else { 0.0 };
        self.data.features.row_dot(self.row(sample), &x[..columns]) + offset
    }

    /// Adds `slope` times the row: `grad += slope * row`.
    pub(super) fn add(&self, sample: usize, slope: f64, grad: &mut [f64]) {
        if slope != 0.0 {
            let columns = self.data.features.cols();
            self.data.features.add_row(self.row(sample), slope, &mut grad[..columns]);
            if self.intercept {
                grad[columns] += slope;
            }
        }
    }

    /// Computes the mean over the selected samples of `part(sample, score)`.
    fn mean(&self, x: &[f64], samples: Pick, mut part: impl FnMut(usize, f64) -> f64) -> f64 {
        let mut one = |i: usize| part(i, self.score(i, x));
        let n = samples.count(self.count());
        let total = match samples {
            Pick::All => vec::sum_by(n, one),
            Pick::These(ids) => vec::sum_by(n, |k| one(ids[k] as usize)),
        };
        total / n as f64
    }
}

impl InfProjection for LossForm {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn coupled(&self) -> usize {
        match self.form {
            Form::SelfPaced { .. } => self.rows.count(),
            Form::Variance(_) | Form::Deviation { .. } => 1,
        }
    }

    fn case(&self) -> Case {
        match self.form {
            Form::SelfPaced { .. } => Case::BiConvex,
            Form::Variance(_) | Form::Deviation { .. } => Case::DifferenceOfConvex,
        }
    }

    fn power(&self) -> &Power {
        &self.power
    }

    fn domain(&self) -> &dyn Set {
        &*self.domain
    }

    fn samples(&self) -> usize {
        self.rows.count()
    }

    fn smooth(&self) -> bool {
        self.loss != Loss::Hinge && self.penalties.l1 == 0.0
    }

    fn coupled_start(&self, y: &mut [f64]) {
        // Every row counts in full; the mean loss is 0.
        y.fill(if self.case() == Case::BiConvex { -1.0 } else { 0.0 });
    }

    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> Result<f64> {
        check_length("the point", x.len(), self.dim())?;
        grad.fill(0.0);
        let mut value = 0.0;
        if !matches!(self.form, Form::SelfPaced { .. }) {
            let n = samples.count(self.rows.count()) as f64;
            value = self.rows.mean(x, samples, |i, score| {
                let (value, slope) = self.convex_at(i, score);
                self.rows.add(i, slope / n, grad);
                value
            });
        }
        // The intercept is not penalised.
        let columns = self.rows.data.features.cols();
        Ok(value + self.penalties.add_slope(&x[..columns], &mut grad[..columns]))
    }

    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> Result<()> {
        check_length("the point", x.len(), self.dim())?;
        match self.form {
            Form::SelfPaced { .. } => {
                let n = samples.count(self.rows.count()) as f64;
                out.fill(0.0);
                self.rows.mean(x, samples, |i, score| {
                    out[i] += self.mapping_at(i, score).0 / n;
                    0.0
                });
            }
            Form::Variance(_) | Form::Deviation { .. } => {
                out[0] = self.rows.mean(x, samples, |i, score| self.mapping_at(i, score).0);
            }
        }
        Ok(())
    }

    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> Result<()> {
        check_length("the point", x.len(), self.dim())?;
        let share = factor / samples.count(self.rows.count()) as f64;
        self.rows.mean(x, samples, |i, score| {
            self.rows.add(i, share * y[self.entry(i)] * self.mapping_at(i, score).1, grad);
            0.0
        });
        Ok(())
    }

    fn rows(&self) -> Option<&dyn InfProjectionRows> {
        self.penalties.is_squared_norm().then_some(self)
    }

    fn profiled_scalar(&self, x: &[f64], samples: Pick) -> Result<Option<f64>> {
        let Form::Deviation { rows, .. } = self.form else { return Ok(None) };
        check_length("the point", x.len(), self.dim())?;
        let mut squares = 0.0;
        let mean = self.rows.mean(x, samples, |i, score| {
            let (l, weight) = (self.loss.value(self.rows.label(i) * score), self.rows.weight(i));
            squares += weight * l * l;
            weight * l
        });
        squares /= samples.count(self.rows.count()) as f64;
        let variance = squares - mean * mean;
        check_finite("the variance of the losses", variance)?;
        Ok((variance > EQUAL * squares).then(|| (rows * variance).sqrt().max(LEAST_PROFILED_SCALAR)))
    }

    fn with_profiled_scalar(&self, value: f64) -> Option<Box<dyn InfProjection>> {
        let Form::Deviation { factor, rows, .. } = self.form else { return None };
        if value.is_nan() {
            return None;
        }
        let form = Form::Deviation { factor, profiled_scalar: value.max(LEAST_PROFILED_SCALAR), rows };
        let power = Power::square(form.square()).and_then(|h| h.between(0.0, LARGEST_MEAN_LOSS)).ok()?;
        Some(Box::new(LossForm { form, power, ..self.clone() }))
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// Implements [`ScoredRows`](crate::oracle::ScoredRows) for a type with the fields `rows` and `penalties`.
macro_rules! scored_rows {
    ($of:ty) => {
        impl ScoredRows for $of {
            fn features(&self) -> &Matrix {
                &self.rows.data.features
            }

            fn row(&self, sample: usize) -> usize {
                self.rows.row(sample)
            }

            fn intercept(&self) -> bool {
                self.rows.intercept
            }

            fn ridge(&self) -> f64 {
                self.penalties.l2
            }
        }
    };
}
pub(super) use scored_rows;

scored_rows!(LossForm);

impl InfProjectionRows for LossForm {
    fn convex_of(&self, sample: usize, score: f64) -> (f64, f64) {
        self.convex_at(sample, score)
    }

    fn mapping_of(&self, sample: usize, score: f64) -> (f64, f64) {
        self.mapping_at(sample, score)
    }

    fn coordinate(&self, sample: usize) -> usize {
        self.entry(sample)
    }
}
