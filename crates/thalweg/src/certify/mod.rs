//! How stationary is this point? Independent of every solver's own claims.

mod penalised;
mod switching;

use crate::oracle::Subgradients;
use crate::{Error, Result};

pub use penalised::{Penalised, PenalisedStationarity, of_penalty};
pub use switching::{NearStationarity, Switching, by_switching};

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
