//! Samples that depend on the variables through one score each. What is done with the scores is in `inf_projection.rs` and
//! `sample_losses.rs`.

use crate::math::Matrix;

/// Samples that depend on x through one score each, the product of a row of data and x, with a penalty `(ridge / 2) ||x||^2`.
pub trait ScoredRows: Send + Sync {
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
}
