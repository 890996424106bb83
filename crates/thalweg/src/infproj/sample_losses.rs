//! The losses of single samples, which min-max methods weigh: `min_x max_P sum_i P_i l_i(x)`. The weights are in `weights.rs`, the
//! methods in [`crate::solvers`].

use crate::Result;
use crate::math::Matrix;
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
    /// The same losses as functions of scores of sparse rows, if they are: what a step needs that must not cost more than the rows
    /// it reads.
    fn rows(&self) -> Option<&dyn LossRows> {
        None
    }
}

/// Losses that see x through one score each, the product of a row and x; what samples have in common is `(ridge / 2) ||x||^2`.
pub trait LossRows: Send + Sync {
    /// The rows.
    fn features(&self) -> &Matrix;
    /// The row of a sample.
    fn row(&self, sample: usize) -> usize;
    /// Whether the last variable is an intercept: a column of ones that `features` does not have.
    fn intercept(&self) -> bool;
    /// The coefficient of the squared norm.
    fn ridge(&self) -> f64 {
        0.0
    }
    /// l_i and its derivative, or one element of it, at a score.
    fn loss_of(&self, sample: usize, score: f64) -> (f64, f64);
}
