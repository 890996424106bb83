//! How stationary is this point? Independent of every solver's own claims.

mod penalised;
mod switching;

use serde::{Deserialize, Serialize};

use crate::oracle::Subgradients;
use crate::{Error, Result};

pub use penalised::{Penalised, PenalisedStationarity, of_penalty};
pub use switching::{NearStationarity, Switching, by_switching};

/// Which measures of stationarity are taken of recorded points.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measures {
    /// Of the problem itself, by switching.
    pub switching: Option<Switching>,
    /// Of a smoothed penalty.
    pub penalised: Option<Penalised>,
}

/// What was asked for, at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Of the problem itself.
    pub switching: Option<NearStationarity>,
    /// Of a smoothed penalty.
    pub penalised: Option<PenalisedStationarity>,
}

impl Measures {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Measures::default()
    }

    /// Takes the measures at `x`.
    pub fn take(&self, problem: &dyn Subgradients, x: &[f64]) -> Result<Measured> {
        Ok(Measured {
            switching: self.switching.map(|how| by_switching(problem, x, &how)).transpose()?,
            penalised: self.penalised.map(|how| of_penalty(problem, x, &how)).transpose()?,
        })
    }

    /// Refuses measures that cannot be taken, without taking them.
    pub fn check(&self, problem: &dyn Subgradients, x: &[f64]) -> Result<()> {
        let posed = Measures {
            switching: self.switching.map(|how| Switching { iterations: 0, ..how }),
            penalised: self.penalised.map(|how| Penalised { iterations: 0, ..how }),
        };
        posed.take(problem, x).map(drop)
    }
}

/// Weak-convexity constants of the objective and of all constraints together; none where one is not known.
fn moduli(problem: &dyn Subgradients) -> (Option<f64>, Option<f64>) {
    let constraints = (0..problem.constraints())
        .map(|j| problem.constraint_modulus(j).map(|m| m.value))
        .try_fold(0.0_f64, |largest, m| m.map(|m| largest.max(m)));
    (problem.objective_modulus().map(|m| m.value), constraints)
}

/// A constant that is needed and not known.
fn unknown(what: &str, name: &str) -> Error {
    Error::Problem(format!("the weak-convexity constant of {what} is not known: give {name}, or state the constant"))
}

/// Refuses a point that is not one of the problem's.
fn check_point(problem: &dyn Subgradients, x: &[f64]) -> Result<()> {
    crate::error::check_length("the point", x.len(), problem.dim())
}
