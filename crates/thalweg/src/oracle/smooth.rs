//! The smooth form of a problem: its constraints are maxima of linear combinations of smooth functions, whose second derivatives
//! are available. Solvers that need neither are served by [`Subgradients`](super::Subgradients) alone.

use super::{At, Scratch};
use crate::Result;

/// One row of a constraint in smooth form: `sum_k coefficient_k r_k(x) + centre c + constant <= 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct SmoothRow {
    /// Index of the constraint.
    pub constraint: u32,
    /// Indices of smooth functions r_k with their coefficients.
    pub terms: Vec<(u32, f64)>,
    /// A free variable c and its coefficient, if the row has one. The value of the constraint is the smallest over c of the largest
    /// of its rows.
    pub centre: Option<(u32, f64)>,
    /// The constant, which includes the bound.
    pub constant: f64,
}

impl SmoothRow {
    /// Computes the value of the row without its centre.
    pub fn value(&self, parts: &[f64]) -> f64 {
        self.constant + self.terms.iter().map(|&(k, c)| c * parts[k as usize]).sum::<f64>()
    }
}

/// Smooth form of a problem, `min f(x)` subject to [`SmoothRow`]s, where f and the functions r_k are smooth.
///
/// The scratch space is that of the problem, see [`Values::scratch`](super::Values::scratch).
pub trait SmoothForm: Send + Sync {
    /// Returns the number of functions r_k.
    fn num_parts(&self) -> usize;
    /// Returns the rows of all constraints with their current bounds.
    fn rows(&self) -> Vec<SmoothRow>;
    /// Computes f and every r_k.
    fn values(&self, at: At, parts: &mut [f64], scratch: &mut Scratch) -> Result<f64>;
    /// Computes f, every r_k and their gradients; `jacobian` has one row per r_k.
    fn gradients(&self, at: At, parts: &mut [f64], grad: &mut [f64], jacobian: &mut [f64], scratch: &mut Scratch) -> Result<f64>;
    /// Sets the lower triangle of `out`, a matrix by rows, to a positive semidefinite approximation of the second derivative of
    /// `f + sum_k weights_k r_k`. Negative curvature may be left out. `damping` adds curvature in proportion, in a metric that does not
    /// depend on the units of the variables.
    fn hessian(&self, at: At, weights: &[f64], damping: f64, out: &mut [f64], scratch: &mut Scratch) -> Result<()>;
    /// Returns the number of products of a Hessian, which a solver compares with its other work.
    fn hessian_products(&self) -> f64;
    /// Returns a bound on the norm of the rounding errors in the gradient of `f + sum_k weights_k r_k`.
    fn gradient_error(&self, weights: &[f64]) -> f64;
}
