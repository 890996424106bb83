//! The losses of single rows of a population, for solvers that weigh samples. A mean with its variance is in
//! `inf_projection.rs`.

use std::sync::Arc;

use super::inf_projection::{SampledRows, scored_rows};
use super::loss::Loss;
use super::penalty::Convex;
use crate::Result;
use crate::error::check_length;
use crate::math::Matrix;
use crate::oracle::{LossRows, SampleLosses, ScoredRows};
use crate::sets::Set;

/// Losses `factor l_i` of the rows of a population, with convex penalties.
#[derive(Debug, Clone)]
pub struct RowLosses {
    pub(super) rows: SampledRows,
    pub(super) loss: Loss,
    pub(super) factor: f64,
    pub(super) penalties: Convex,
    pub(super) domain: Arc<dyn Set>,
}

impl RowLosses {
    fn at(&self, sample: usize, score: f64) -> (f64, f64) {
        let label = self.rows.label(sample);
        (self.factor * self.loss.value(label * score), self.factor * label * self.loss.slope(label * score))
    }
}

impl SampleLosses for RowLosses {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn domain(&self) -> &dyn Set {
        &*self.domain
    }

    fn samples(&self) -> usize {
        self.rows.count()
    }

    fn add_loss(&self, x: &[f64], sample: usize, factor: f64, grad: &mut [f64]) -> Result<f64> {
        check_length("the point", x.len(), self.dim())?;
        let (value, slope) = self.at(sample, self.rows.score(sample, x));
        self.rows.add(sample, factor * slope, grad);
        Ok(value)
    }

    fn add_common(&self, x: &[f64], grad: &mut [f64]) {
        // The intercept is not penalised.
        let columns = self.rows.data.features.cols();
        self.penalties.add_slope(&x[..columns], &mut grad[..columns]);
    }

    fn rows(&self) -> Option<&dyn LossRows> {
        (self.penalties.is_squared_norm() && (self.penalties.l2 == 0.0 || !self.rows.intercept)).then_some(self)
    }
}

scored_rows!(RowLosses);

impl LossRows for RowLosses {
    fn loss_of(&self, sample: usize, score: f64) -> (f64, f64) {
        self.at(sample, score)
    }
}
