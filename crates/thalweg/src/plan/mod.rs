//! From the constants of a problem to the parameters that the theorems prescribe. Nothing here runs a method, and the
//! numbers are worst cases: they say what is proved, not what works well.

pub mod ssg;

use serde::{Deserialize, Serialize};

pub use ssg::{Plan, Theorem, plan};

/// What is known about a problem. A theorem asks for the ones it needs and says which are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// M: every subgradient of f and g is at most this long.
    pub lipschitz: Option<f64>,
    /// D: the diameter (not the radius) of the domain.
    pub diameter: Option<f64>,
    /// rho: f is rho-weakly convex; 0 for a convex f.
    pub rho: Option<f64>,
    /// rho_hat: the proximal coefficient of the near-stationarity measure, larger than rho.
    pub rho_hat: Option<f64>,
    /// -g(x_feas): by how much a strictly feasible point keeps the constraint.
    pub slater: Option<f64>,
    /// sigma: noise of one sample of the constraint value, `E exp((omega - g)^2 / sigma^2) <= e`.
    pub noise: Option<f64>,
    /// mu: g is mu-strongly convex.
    pub strong_convexity: Option<f64>,
    /// delta: the probability with which the guarantee may fail.
    pub confidence: Option<f64>,
}

/// The smallest whole number that is not below `x`, where rounding errors of the formula do not count. The tolerance is
/// relative for small numbers and stays below one for large ones.
fn ceiling(x: f64) -> f64 {
    (x - (1e-9 * x).min(1e-3)).ceil()
}
