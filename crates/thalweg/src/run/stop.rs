//! Stopping rules: targets that end a run before its budget is spent. They are checked at recorded iterates only.

use serde::{Deserialize, Serialize};

use super::{Row, Target};
use crate::assess::Measures;
use crate::{Error, Result};

/// Targets of a run. The first recorded iterate that is feasible and reaches one of them ends the run and is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoppingRule {
    /// Stops at an objective of at most this value.
    pub objective: Option<f64>,
    /// Stops at a near-stationarity of at most this value: the upper bound if bounds are measured, otherwise the distance that
    /// the switching measure gives.
    pub certificate: Option<f64>,
}

impl StoppingRule {
    /// Checks that every target is in range, and that the near-stationarity is measured if it is a target.
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
                let what = format!("stop.certificate = {v} needs a certificate with bounds or by switching");
                return Err(Error::Problem(what));
            }
        }
        Ok(())
    }

    /// Returns the target that a recorded iterate reaches, if it is feasible.
    pub(super) fn reached(&self, row: &Row) -> Option<Target> {
        let feasible = row.feasible();
        let at_most = |value: Option<f64>, limit: Option<f64>| value.zip(limit).is_some_and(|(v, t)| v <= t);
        let near = row.stationarity_bounds.map(|(_, upper)| upper).or(row.stationarity);
        let reached = [
            (Target::Objective, at_most(Some(row.objective), self.objective)),
            (Target::Certificate, at_most(near, self.certificate)),
        ];
        reached.into_iter().find(|(_, reached)| feasible && *reached).map(|(target, _)| target)
    }
}
