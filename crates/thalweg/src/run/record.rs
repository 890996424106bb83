//! Which iterates are measured, and the row that a measurement leaves.

use serde::{Deserialize, Serialize};

use super::Point;
use crate::eval::Passes;
use crate::math::vec;
use crate::solvers::Kind;
use crate::{Error, Result};

/// Which iterates are measured and recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Every k-th iterate, and the last.
    pub every: Option<u64>,
    /// These iterates and no others; counted from 0, the start.
    pub at: Option<Vec<u64>>,
}

impl Record {
    /// Records nothing while the run goes on.
    pub fn nothing() -> Self {
        Record { every: None, at: Some(vec![]) }
    }

    /// Refuses what cannot be meant.
    pub fn validate(&self) -> Result<()> {
        if self.every == Some(0) {
            return Err(Error::setting("record.every", 0, "at least 1"));
        }
        if self.every.is_some() && self.at.is_some() {
            return Err(Error::setting("record", "every and at", "one of them"));
        }
        Ok(())
    }

    /// Whether iterate `t` is measured; `last` if no further step will be made. Without settings: 0, 1, 2, 5, 10, 20, 50, …
    /// and the last.
    pub(super) fn due(&self, t: u64, last: bool) -> bool {
        match (&self.every, &self.at) {
            (_, Some(at)) => at.contains(&t),
            (Some(k), None) => last || t.is_multiple_of(*k),
            (None, None) => {
                let decade = 10_u64.pow(t.checked_ilog10().unwrap_or(0));
                last || (t.is_multiple_of(decade) && [0, 1, 2, 5].contains(&(t / decade)))
            }
        }
    }
}

/// A measured iterate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The index t of the iterate x_t.
    pub iteration: u64,
    /// f(x_t) on all data.
    pub objective: f64,
    /// The largest g_j(x_t), signed; minus infinity without constraints.
    pub violation: f64,
    /// Euclidean norm of x_t.
    pub norm: f64,
    /// Passes of the objective spent to reach x_t.
    pub passes_f: f64,
    /// Passes of the constraints spent to reach x_t.
    pub passes_g: f64,
    /// Seconds spent to reach x_t, without measuring.
    pub seconds: f64,
    /// The step made from x_t; none from the last iterate.
    pub step: Option<Kind>,
    /// Near-stationarity of x_t, where it was asked for.
    pub stationarity: Option<f64>,
    /// Bounds on it that hold, where they were asked for.
    pub stationarity_bounds: Option<(f64, f64)>,
    /// Near-stationarity of x_t for a smoothed penalty, where it was asked for.
    pub penalty_stationarity: Option<f64>,
    /// Every g_j(x_t).
    pub constraints: Vec<f64>,
}

impl Row {
    pub(super) fn new(iteration: u64, point: &Point, x: &[f64], passes: Passes, seconds: f64) -> Self {
        Row {
            iteration,
            objective: point.objective,
            violation: point.violation,
            norm: vec::norm(x),
            passes_f: passes.objective,
            passes_g: passes.constraints,
            seconds,
            step: None,
            stationarity: None,
            stationarity_bounds: None,
            penalty_stationarity: None,
            constraints: point.constraints.iter().map(|c| c.value).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_points_are_one_two_five() {
        let record = Record::default();
        let due: Vec<u64> = (0..=120).filter(|&t| record.due(t, t == 120)).collect();
        assert_eq!(due, [0, 1, 2, 5, 10, 20, 50, 100, 120]);
    }

    #[test]
    fn a_list_is_taken_literally_and_every_adds_the_last() {
        let list = Record { at: Some(vec![0, 3]), every: None };
        assert_eq!((0..=7).filter(|&t| list.due(t, t == 7)).collect::<Vec<_>>(), [0, 3]);
        let every = Record { every: Some(3), at: None };
        assert_eq!((0..=7).filter(|&t| every.due(t, t == 7)).collect::<Vec<_>>(), [0, 3, 6, 7]);
    }
}
