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
    /// Log-spaced in passes, objective and constraints together: this many for each factor of ten, the start, and the last.
    pub per_decade: Option<u64>,
}

impl Record {
    /// Records nothing while the run goes on.
    pub fn nothing() -> Self {
        Record { at: Some(vec![]), ..Record::default() }
    }

    /// Refuses what cannot be meant.
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
            return Err(Error::setting("record", given.join(" and "), "one of them"));
        }
        Ok(())
    }

    /// Whether iterate `t` is measured, which took `passes` in all; `last` if no further step will be made. `before` is what the
    /// iterate took that was recorded before it. Without settings: 0, 1, 2, 5, 10, 20, 50, … and the last.
    pub(super) fn due(&self, t: u64, last: bool, passes: f64, before: Option<f64>) -> bool {
        match (self.every, &self.at, self.per_decade) {
            (_, Some(at), _) => at.contains(&t),
            (Some(k), None, _) => last || t.is_multiple_of(k),
            // Nothing but the row before decides, so a continued run records the same iterates. A row that was recorded only
            // because it was the last has the mark of the one before it, or would have been recorded anyway.
            (None, None, Some(k)) => last || before.is_none_or(|before| mark(k, passes) > mark(k, before)),
            (None, None, None) => {
                let decade = 10_u64.pow(t.checked_ilog10().unwrap_or(0));
                last || (t.is_multiple_of(decade) && [0, 1, 2, 5].contains(&(t / decade)))
            }
        }
    }
}

/// The number of the last of `k` marks to a factor of ten that so many passes have reached.
fn mark(k: u64, passes: f64) -> f64 {
    if passes > 0.0 { (k as f64 * passes.log10()).floor() } else { f64::NEG_INFINITY }
}

/// A measured iterate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Samples of all kinds spent to reach x_t.
    pub samples: u64,
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
    /// How many constraints do not hold at x_t.
    pub violated: usize,
    /// Every g_j(x_t); empty where there are more than are listed.
    pub constraints: Vec<f64>,
    /// The further quantities that were asked for, in the order of their names; NaN where one could not be read, which JSON
    /// has as `null`.
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
        assert!(all.contains("record must be one of them, got every and at and per_decade"), "{all}");
        let two = refused(Record { every: None, at, per_decade });
        assert!(two.contains("record must be one of them, got at and per_decade"), "{two}");
        assert!(Record { per_decade, ..Record::default() }.validate().is_ok());
    }
}
