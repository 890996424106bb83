//! Near-stationarity of the smoothed penalty, as measured by Liu and Xu: the distance to the proximal point of
//! `F_nu = f + beta h_nu(g)`. It does not measure feasibility.

use serde::{Deserialize, Serialize};

use super::{moduli, settle, unknown};
use crate::Result;
use crate::error::check_length;
use crate::eval::{Eval, Evaluator, Proximal};
use crate::math::vec;
use crate::oracle::Subgradients;
use crate::solvers::threes_econ::{Beta, Settings};
use crate::solvers::{Schedule, ThreesEcon};

/// Options of the measure: penalty and effort.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Penalised {
    /// Weight of the penalty.
    pub beta: f64,
    /// Smoothing parameter of the penalty.
    pub nu: f64,
    /// Weak-convexity constant of F_nu. By default `rho_f + beta rho_g`, and at least 1/2.
    pub rho: Option<f64>,
    /// Maximum number of iterations.
    pub iterations: u64,
    /// Stop when a step moves the point by less than this.
    pub step: f64,
}

impl Default for Penalised {
    fn default() -> Self {
        Penalised { beta: 10.0, nu: 1e-5, rho: None, iterations: 20_000, step: 1e-9 }
    }
}

/// Near-stationarity of the smoothed penalty, without an error bound, as in Liu and Xu.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PenalisedStationarity {
    /// `||2 rho (x - xtilde)||`, the gradient norm of the Moreau envelope of F_nu.
    pub gradient: f64,
    /// `||x - xtilde||`.
    pub distance: f64,
    /// Last iterate on the proximal subproblem.
    pub xtilde: Vec<f64>,
    /// Number of iterations.
    pub iterations: u64,
    /// The weak-convexity constant used.
    pub rho: f64,
}

/// Solves `min F_nu(y) + rho ||y - x||^2` by subgradient steps `2 / (rho (t + 2))`. The problem is rho-strongly convex.
pub fn of_penalty(problem: &dyn Subgradients, x: &[f64], how: &Penalised) -> Result<PenalisedStationarity> {
    check_length("the point", x.len(), problem.dim())?;
    let rho = match (how.rho, moduli(problem)) {
        (Some(rho), _) => rho,
        (None, (Some(f), Some(g))) => (f + how.beta * g).max(0.5),
        (None, (None, _)) => return Err(unknown("the objective", "rho")),
        (None, (_, None)) => return Err(unknown("a constraint", "rho")),
    };
    if !(rho > 0.0 && rho.is_finite()) {
        return Err(crate::Error::setting("rho", rho, "a finite number above 0"));
    }
    let mut solver = ThreesEcon::new(Settings {
        beta: Beta::Fixed(how.beta),
        nu: how.nu,
        alpha: Schedule::StronglyConvex(2.0 / rho),
        ..Settings::default()
    })?;
    let mut inner = Evaluator::new(problem, 0, 0.0);
    let mut work = vec![];
    let ev: &mut dyn Eval =
        &mut Proximal { inner: &mut inner, centre: x, rho_f: 2.0 * rho, rho_g: 0.0, slack: 0.0, work: &mut work };
    let (y, t) = settle(problem, &mut solver, ev, x, how.iterations, how.step)?;
    let distance = vec::distance(&y, x);
    Ok(PenalisedStationarity { gradient: 2.0 * rho * distance, distance, xtilde: y, iterations: t, rho })
}
