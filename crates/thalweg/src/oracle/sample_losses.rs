//! Losses of single samples, for min-max methods: `min_x max_P sum_i P_i l_i(x)`. The weights P and the methods are in
//! [`crate::solvers`].

use super::ScoredRows;
use crate::Result;
use crate::sets::{Set, WholeSpace};

/// Losses l_i(x) of samples, and a part common to all samples, such as a penalty on x. Every method is pure in its arguments.
pub trait SampleLosses: Send + Sync {
    /// Returns the number of variables.
    fn dim(&self) -> usize;
    /// Returns the set that x stays in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// Returns the number of samples.
    fn samples(&self) -> usize;
    /// Returns l_i(x) of a sample and computes `grad += factor * s` with a subgradient s of it.
    fn add_loss(&self, x: &[f64], sample: usize, factor: f64, grad: &mut [f64]) -> Result<f64>;
    /// Computes `grad += s` with a subgradient s of the common part.
    fn add_common(&self, _x: &[f64], _grad: &mut [f64]) {}
    /// Returns the same losses as functions of scores of sparse rows, if they have that form. It is required for steps whose cost
    /// is proportional to the nonzeros of the rows they read.
    fn rows(&self) -> Option<&dyn LossRows> {
        None
    }
}

/// Losses that depend on x through one score each; the common part is `(ridge / 2) ||x||^2`.
pub trait LossRows: ScoredRows {
    /// Returns l_i and its derivative, or a subgradient, at a score.
    fn loss_of(&self, sample: usize, score: f64) -> (f64, f64);
}
