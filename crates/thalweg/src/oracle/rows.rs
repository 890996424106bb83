//! Samples that depend on the variables through one score each. The functions of the scores are in `inf_projection.rs` and
//! `sample_losses.rs`.

use crate::math::Matrix;

/// Samples that depend on x through one score each, the product of a data row and x, with a penalty `(ridge / 2) ||x||^2`.
pub trait ScoredRows: Send + Sync {
    /// Returns the data rows.
    fn features(&self) -> &Matrix;
    /// Returns the index of the row of a sample.
    fn row(&self, sample: usize) -> usize;
    /// Returns whether the last variable is an intercept: a column of ones that is not stored in `features`.
    fn intercept(&self) -> bool;
    /// Returns the coefficient of the squared norm.
    fn ridge(&self) -> f64 {
        0.0
    }
}
