//! When a run ends because its iterate is good enough. Targets are looked at where iterates are recorded, and nowhere else;
//! what a run may use up is in `budget.rs`.

use serde::{Deserialize, Serialize};

use super::{Goal, Row};
use crate::assess::Measures;
use crate::{Error, Result};

/// Targets: a recorded iterate that keeps every constraint and reaches one of them ends the run, and is its point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// The objective is at most this.
    pub objective: Option<f64>,
    /// The bound on near-stationarity is at most this: its upper bound if bounds are measured, else the number that
    /// switching gives.
    pub certificate: Option<f64>,
}

impl Stop {
    /// Refuses what cannot be meant, and a certificate that nobody measures.
    pub fn validate(&self, measures: &Measures) -> Result<()> {
        if let Some(v) = self.objective
            && !v.is_finite()
        {
            return Err(Error::setting("stop.objective", v, "a finite number"));
        }
        if let Some(v) = self.certificate {
            if !(v > 0.0 && v.is_finite()) {
                return Err(Error::setting("stop.certificate", v, "a finite number larger than 0"));
            }
            if measures.bounds.is_none() && measures.switching.is_none() {
                let wanted = "a certificate that is measured beside it, with bounds or by switching";
                return Err(Error::setting("stop.certificate", v, wanted));
            }
        }
        Ok(())
    }

    /// Returns the target that a recorded iterate reaches, if it is feasible.
    pub(super) fn reached(&self, row: &Row) -> Option<Goal> {
        let feasible = row.feasible();
        let at_most = |value: Option<f64>, target: Option<f64>| value.zip(target).is_some_and(|(v, t)| v <= t);
        let near = row.stationarity_bounds.map(|(_, upper)| upper).or(row.stationarity);
        let reached = [
            (Goal::Objective, at_most(Some(row.objective), self.objective)),
            (Goal::Certificate, at_most(near, self.certificate)),
        ];
        reached.into_iter().find(|(_, reached)| feasible && *reached).map(|(goal, _)| goal)
    }
}
