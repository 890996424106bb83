//! Recorded iterates: which ones to measure, and the values that are kept.

use serde::{Deserialize, Serialize};

use super::Point;
use crate::eval::Passes;
use crate::math::vec;
use crate::solvers::StepKind;
use crate::{Error, Result};

/// Iterates to measure and record. Without settings: 0, 1, 2, 5, 10, 20, 50, … and the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Records every k-th iterate, and the last.
    pub every: Option<u64>,
    /// Records these iterates and no others. Iterate 0 is the start.
    pub at: Option<Vec<u64>>,
    /// Records this many iterates for each factor of ten in passes, objective and constraints together, plus the start and the
    /// last.
    pub per_decade: Option<u64>,
}

impl Record {
    /// Records no iterate.
    pub fn nothing() -> Self {
        Record { at: Some(vec![]), ..Record::default() }
    }

    /// Checks that the settings are in range and that at most one is given.
    pub fn validate(&self) -> Result<()> {
        if self.every == Some(0) {
            return Err(Error::setting("record.every", 0, "at least 1"));
        }
        if self.per_decade == Some(0) {
            return Err(Error::setting("record.per_decade", 0, "at least 1"));
        }
        let given = [("every", self.every.is_some()), ("at", self.at.is_some()), ("per_decade", self.per_decade.is_some())];
        let given: Vec<&str> = given.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
        if given.len() > 1 {
            return Err(Error::Problem(format!("record has {}; expected one of them", given.join(" and "))));
        }
        Ok(())
    }

    /// Returns whether iterate `t`, reached after `passes`, is recorded. `last` if no further step follows; `before` is the number
    /// of passes at the previous recorded iterate.
    pub(super) fn due(&self, t: u64, last: bool, passes: f64, before: Option<f64>) -> bool {
        match (self.every, &self.at, self.per_decade) {
            (_, Some(at), _) => at.contains(&t),
            (Some(k), None, _) => last || t.is_multiple_of(k),
            // This depends on the previous row only, so that a resumed run records the same iterates. A row that was recorded only
            // because it was the last has the mark of the row before it, or would have been recorded anyway.
            (None, None, Some(k)) => last || before.is_none_or(|before| mark(k, passes) > mark(k, before)),
            (None, None, None) => {
                let decade = 10_u64.pow(t.checked_ilog10().unwrap_or(0));
                last || (t.is_multiple_of(decade) && [0, 1, 2, 5].contains(&(t / decade)))
            }
        }
    }
}

/// Returns the number of the last mark reached, with `k` marks for each factor of ten in passes.
fn mark(k: u64, passes: f64) -> f64 {
    if passes > 0.0 { (k as f64 * passes.log10()).floor() } else { f64::NEG_INFINITY }
}

/// A recorded iterate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Index t of the iterate x_t.
    pub iteration: u64,
    /// f(x_t) on all data.
    pub objective: f64,
    /// Largest g_j(x_t), which may be negative; minus infinity without constraints.
    pub violation: f64,
    /// Euclidean norm of x_t.
    pub norm: f64,
    /// Passes for the objective up to x_t.
    pub passes_f: f64,
    /// Passes for the constraints up to x_t.
    pub passes_g: f64,
    /// Samples of all kinds up to x_t.
    pub samples: u64,
    /// Seconds up to x_t, without the time for measurements.
    pub seconds: f64,
    /// Kind of the step from x_t; `None` for the last iterate.
    pub step: Option<StepKind>,
    /// Near-stationarity of x_t by the switching measure, if requested.
    pub stationarity: Option<f64>,
    /// Lower and upper bound on the near-stationarity of x_t, if requested.
    pub stationarity_bounds: Option<(f64, f64)>,
    /// Near-stationarity of x_t for a smoothed penalty, if requested.
    pub penalty_stationarity: Option<f64>,
    /// Number of constraints violated at x_t.
    pub violated: usize,
    /// Every g_j(x_t); empty if there are too many to list.
    pub constraints: Vec<f64>,
    /// Additional metrics, in the order of their names; NaN, and `null` in JSON, if one could not be computed.
    pub metrics: Vec<f64>,
}

impl Row {
    /// Whether the recorded iterate satisfies every constraint.
    pub(super) fn feasible(&self) -> bool {
        self.objective.is_finite() && self.violated == 0
    }

    /// Passes of objective and constraints together.
    pub fn passes(&self) -> f64 {
        self.passes_f + self.passes_g
    }

    pub(super) fn new(iteration: u64, point: &Point, x: &[f64], passes: Passes, samples: u64, seconds: f64) -> Self {
        Row {
            iteration,
            objective: point.objective,
            violation: point.violation,
            norm: vec::norm(x),
            passes_f: passes.objective,
            passes_g: passes.constraints,
            samples,
            seconds,
            step: None,
            stationarity: None,
            stationarity_bounds: None,
            penalty_stationarity: None,
            violated: point.violated,
            constraints: match point.total > point.constraints.len() {
                true => vec![],
                false => point.constraints.iter().map(|c| c.value).collect(),
            },
            metrics: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_points_are_one_two_five() {
        let record = Record::default();
        let due: Vec<u64> = (0..=120).filter(|&t| record.due(t, t == 120, 0.0, None)).collect();
        assert_eq!(due, [0, 1, 2, 5, 10, 20, 50, 100, 120]);
    }

    #[test]
    fn a_list_is_taken_literally_and_every_adds_the_last() {
        let list = Record { at: Some(vec![0, 3]), ..Record::default() };
        assert_eq!((0..=7).filter(|&t| list.due(t, t == 7, 0.0, None)).collect::<Vec<_>>(), [0, 3]);
        let every = Record { every: Some(3), ..Record::default() };
        assert_eq!((0..=7).filter(|&t| every.due(t, t == 7, 0.0, None)).collect::<Vec<_>>(), [0, 3, 6, 7]);
    }

    /// The iterates that are recorded of a run whose iterate t took `passes[t]`.
    fn recorded(per_decade: u64, passes: &[f64]) -> Vec<usize> {
        let record = Record { per_decade: Some(per_decade), ..Record::default() };
        let mut rows: Vec<usize> = vec![];
        for (t, &now) in passes.iter().enumerate() {
            if record.due(t as u64, t + 1 == passes.len(), now, rows.last().map(|&row| passes[row])) {
                rows.push(t);
            }
        }
        rows
    }

    #[test]
    fn marks_are_log_spaced_in_passes() {
        let whole: Vec<f64> = (0..=130).map(f64::from).collect();
        // One mark at 1, 10 and 100; the last is not at a mark.
        assert_eq!(recorded(1, &whole), [0, 1, 10, 100, 130]);
        // Marks at 1, 3.16, 10, 31.6 and 100.
        assert_eq!(recorded(2, &whole), [0, 1, 4, 10, 32, 100, 130]);
        // Marks at 1, 2.15, 4.64, 10, 21.5, 46.4 and 100.
        assert_eq!(recorded(3, &whole), [0, 1, 3, 5, 10, 22, 47, 100, 130]);
        // Below one pass too; several marks that are passed at once leave one row; no passes leave none but the start.
        assert_eq!(recorded(1, &[0.0, 0.0, 0.002, 0.009, 0.02, 0.5, 0.9, 50.0, 99.0, 99.5]), [0, 2, 4, 5, 7, 9]);
        // The start counts even if it took something.
        assert_eq!(recorded(1, &[3.0, 5.0, 9.0, 12.0, 13.0]), [0, 3, 4]);
    }

    #[test]
    fn one_rule_at_most() {
        let refused = |record: Record| record.validate().unwrap_err().to_string();
        let (every, at, per_decade) = (Some(1), Some(vec![1]), Some(1));
        assert!(
            refused(Record { per_decade: Some(0), ..Record::default() }).contains("record.per_decade must be at least 1, got 0")
        );
        let all = refused(Record { every, at: at.clone(), per_decade });
        assert_eq!(all, "record has every and at and per_decade; expected one of them");
        let two = refused(Record { every: None, at, per_decade });
        assert_eq!(two, "record has at and per_decade; expected one of them");
        assert!(Record { per_decade, ..Record::default() }.validate().is_ok());
    }
}
