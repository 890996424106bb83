//! Losses of single samples, for min-max methods: `min_x max_P sum_i P_i l_i(x)`. The weights P and the methods are in
//! [`crate::solvers`].

use super::ScoredRows;
use crate::Result;
use crate::sets::{Set, WholeSpace};

/// Losses l_i(x) of samples, and a part that is the same for every sample, such as a penalty on x. Every method is pure in its
/// arguments.
pub trait SampleLosses: Send + Sync {
    /// Number of variables.
    fn dim(&self) -> usize;
    /// The set that x stays in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// How many samples there are.
    fn samples(&self) -> usize;
    /// l_i(x) of a sample; `grad += factor * s` with a subgradient s of it.
    fn add_loss(&self, x: &[f64], sample: usize, factor: f64, grad: &mut [f64]) -> Result<f64>;
    /// `grad += s` with a subgradient s of the part that all samples have in common.
    fn add_common(&self, _x: &[f64], _grad: &mut [f64]) {}
    /// The same losses as functions of scores of sparse rows, if they have that form. Steps that cost no more than the rows they
    /// read need it.
    fn rows(&self) -> Option<&dyn LossRows> {
        None
    }
}

/// Losses that depend on x through one score each; the part that all samples have in common is `(ridge / 2) ||x||^2`.
pub trait LossRows: ScoredRows {
    /// l_i and its derivative, or one element of it, at a score.
    fn loss_of(&self, sample: usize, score: f64) -> (f64, f64);
}
