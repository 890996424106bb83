//! Measures of stationarity at a point, including those that solve a proximal subproblem with a solver. Certificates that do not
//! run a solver are in [`crate::certify`].

mod penalised;
mod switching;

use serde::{Deserialize, Serialize};

use crate::certify::{Bounds, Certificate, certify};
use crate::eval::Eval;
use crate::math::vec;
use crate::oracle::{Modulus, Subgradients, Warm};
use crate::solvers::FirstOrder;
use crate::{Error, Result};

pub use penalised::{Penalised, PenalisedStationarity, of_penalty};
pub use switching::{NearStationarity, Switching, by_switching};

/// Measures of stationarity to compute at a point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measures {
    /// Certificate of near-stationarity with proved bounds.
    pub bounds: Option<Bounds>,
    /// Near-stationarity estimated by a run of the switching subgradient method.
    pub switching: Option<Switching>,
    /// Near-stationarity of the smoothed penalty.
    pub penalised: Option<Penalised>,
}

/// Measures of stationarity computed at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStationarity {
    /// Certificate of near-stationarity with bounds.
    pub bounds: Option<Certificate>,
    /// Near-stationarity estimated by switching.
    pub switching: Option<NearStationarity>,
    /// Near-stationarity of the smoothed penalty.
    pub penalised: Option<PenalisedStationarity>,
}

impl Measures {
    /// Returns whether no measure is selected.
    pub fn is_empty(&self) -> bool {
        *self == Measures::default()
    }

    /// Computes the measures at `x`.
    pub fn take(&self, problem: &dyn Subgradients, x: &[f64]) -> Result<MeasuredStationarity> {
        Ok(MeasuredStationarity {
            bounds: self.bounds.map(|how| certify(problem, x, &how)).transpose()?,
            switching: self.switching.map(|how| by_switching(problem, x, &how)).transpose()?,
            penalised: self.penalised.map(|how| of_penalty(problem, x, &how)).transpose()?,
        })
    }

    /// Checks that the measures can be computed at `x`, without computing them.
    pub fn check(&self, problem: &dyn Subgradients, x: &[f64]) -> Result<()> {
        let posed = Measures {
            bounds: self.bounds.map(|how| Bounds { evaluations: 1, ..how }),
            switching: self.switching.map(|how| Switching { iterations: 0, ..how }),
            penalised: self.penalised.map(|how| Penalised { iterations: 0, ..how }),
        };
        posed.take(problem, x).map(drop)
    }
}

/// Returns the weak-convexity constants of the objective and of all constraints together; `None` if one is unknown.
fn moduli(problem: &dyn Subgradients) -> (Option<f64>, Option<f64>) {
    let constraints = (0..problem.num_constraints())
        .map(|j| problem.constraint_modulus(j).and_then(Modulus::known))
        .try_fold(0.0_f64, |largest, m| m.map(|m| largest.max(m)));
    (problem.objective_modulus().and_then(Modulus::known), constraints)
}

/// Runs `solver` from the projection of `x` onto the domain until a step moves the iterate by less than `step`, or for
/// `iterations`. Returns the last iterate and the number of iterations.
fn settle(
    problem: &dyn Subgradients,
    solver: &mut FirstOrder,
    ev: &mut dyn Eval,
    x: &[f64],
    iterations: u64,
    step: f64,
) -> Result<(Vec<f64>, u64)> {
    let (mut y, mut before) = (x.to_vec(), x.to_vec());
    problem.domain().project(&mut y, &mut Warm::default())?;
    solver.start(ev, &y)?;
    for t in 1..=iterations {
        before.copy_from_slice(&y);
        solver.step(ev)?;
        solver.iterate(&mut y);
        if vec::distance(&y, &before) < step {
            return Ok((y, t));
        }
    }
    Ok((y, iterations))
}

/// Creates the error for a missing constant.
fn unknown(what: &str, name: &str) -> Error {
    Error::Problem(format!("the weak-convexity constant of {what} is not known: give {name}, or state the constant"))
}
