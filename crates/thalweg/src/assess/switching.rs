//! Near-stationarity as measured in the papers: the proximal subproblem at the point is solved approximately by a long run of the
//! switching subgradient method. The result has no error bound; it serves to compare curves with published ones.

use serde::{Deserialize, Serialize};

use super::{moduli, settle, unknown};
use crate::error::check_length;
use crate::eval::{Eval, Evaluator, Proximal};
use crate::math::vec;
use crate::oracle::{Draw, Pick, Subgradients};
use crate::solvers::{Schedule, Ssg, ssg};
use crate::{Error, Result};

/// Options of the measure: subproblem and effort.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Switching {
    /// Proximal coefficient on f. By default twice the weak-convexity constant of f, and at least 1.
    pub rho_hat: Option<f64>,
    /// Proximal coefficient on the constraints. By default twice their weak-convexity constant, so 0 if they are convex.
    pub rho_hat_g: Option<f64>,
    /// Switching tolerance.
    pub tol: f64,
    /// Maximum number of iterations.
    pub iterations: u64,
    /// Stop when a step moves the point by less than this.
    pub step: f64,
}

impl Default for Switching {
    fn default() -> Self {
        Switching { rho_hat: None, rho_hat_g: None, tol: 0.0, iterations: 20_000, step: 1e-9 }
    }
}

/// Distance to the approximate proximal point, without an error bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearStationarity {
    /// `||xhat - x||`.
    pub distance: f64,
    /// The last iterate of the switching run on the subproblem.
    pub xhat: Vec<f64>,
    /// f(xhat) + (rho_hat / 2) ||xhat - x||^2.
    pub envelope: f64,
    /// Largest constraint value of the subproblem at xhat, signed.
    pub violation: f64,
    /// Number of iterations.
    pub iterations: u64,
    /// The proximal coefficients used, on f and on the constraints.
    pub coefficients: (f64, f64),
}

/// Solves `min f(y) + (rho_hat / 2) ||y - x||^2` subject to the constraints by the switching subgradient method with steps
/// `2 / ((rho_hat - rho)(t + 2))`. Returns the distance of its last iterate from `x`.
pub fn by_switching(problem: &dyn Subgradients, x: &[f64], how: &Switching) -> Result<NearStationarity> {
    check_length("the point", x.len(), problem.dim())?;
    let (rho, rho_g) = moduli(problem);
    let rho_hat = match (how.rho_hat, rho) {
        (Some(r), _) => r,
        (None, Some(r)) => (2.0 * r).max(1.0),
        (None, None) => return Err(unknown("the objective", "rho_hat")),
    };
    let rho_hat_g = match (how.rho_hat_g, rho_g) {
        (Some(r), _) => r,
        (None, Some(r)) => 2.0 * r,
        (None, None) => return Err(unknown("a constraint", "rho_hat_g")),
    };
    let strong = rho_hat - rho.unwrap_or(0.0);
    if strong.is_nan() || strong <= 0.0 || !rho_hat.is_finite() {
        return Err(Error::setting(
            "rho_hat",
            rho_hat,
            format!("more than {}, the constant of the objective", rho.unwrap_or(0.0)),
        ));
    }

    let mut solver = Ssg::new(ssg::Settings {
        eta: Schedule::StronglyConvex(2.0 / strong),
        tol: how.tol.into(),
        output: ssg::Output::Last,
        ..ssg::Settings::default()
    })?;
    let mut inner = Evaluator::new(problem, 0, 0.0);
    let mut work = vec![];
    let ev: &mut dyn Eval =
        &mut Proximal { inner: &mut inner, centre: x, rho_f: rho_hat, rho_g: rho_hat_g, slack: 0.0, work: &mut work };
    let (y, t) = settle(problem, &mut solver, ev, x, how.iterations, how.step)?;
    let full = Draw::full();
    let mut g = vec![0.0; ev.num_constraints()];
    ev.refresh(&y)?;
    ev.constraint_values(&y, &full, Pick::All, &mut g)?;
    Ok(NearStationarity {
        distance: vec::distance(&y, x),
        envelope: ev.objective(&y, &full)?,
        violation: vec::first_max(&g).map_or(f64::NEG_INFINITY, |(_, v)| v),
        iterations: t,
        coefficients: (rho_hat, rho_hat_g),
        xhat: y,
    })
}
