//! What comes out of a run. *What the point is* is kept apart from *why the run ended*: success is never claimed for an
//! infeasible point.

use serde::{Deserialize, Serialize};

use super::{MetricValue, Point, Row};
use crate::Note;
use crate::certify::ZerothOrderReport;
use crate::eval::{Counts, Passes};
use crate::solvers::{PointOrigin, Stationary};

/// A limit of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Steps.
    Iterations,
    /// Passes over the data.
    Passes,
    /// Samples read.
    Samples,
    /// Time.
    Seconds,
}

/// A target that a run was to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// A value of the objective.
    Objective,
    /// A bound on near-stationarity.
    Certificate,
}

/// Why a run ended. Says nothing about the point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A limit of the budget was reached.
    Budget(Limit),
    /// A recorded iterate that keeps every constraint reached a target of [`super::Stop`].
    Target(Goal),
    /// The method has done what it can.
    Finished,
    /// The method proved that no point near the returned one violates the constraints less.
    Infeasible {
        /// Names of the constraints that cannot be kept together there.
        conflicting: Vec<String>,
        /// The constraints are convex, and it is proved that no point within 10 (1 + norm) of the returned one keeps them.
        everywhere: bool,
    },
    /// Someone asked for it.
    Interrupted,
    /// A value, gradient or iterate was not finite, or an oracle failed.
    Failed {
        /// At the step from this iterate.
        iteration: u64,
        /// The sentence.
        reason: String,
    },
}

impl StopReason {
    /// Returns the headline of a result: whether its point is feasible, and why the run stopped.
    pub fn headline(&self, feasible: bool) -> String {
        match self {
            StopReason::Failed { .. } => self.to_string(),
            StopReason::Infeasible { .. } => format!("infeasible; {self}"),
            _ if feasible => format!("feasible; {self}"),
            _ => format!("not feasible; {self}"),
        }
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            StopReason::Budget(Limit::Iterations) => write!(f, "stopped at the iteration limit"),
            StopReason::Budget(Limit::Passes) => write!(f, "stopped at the limit on passes"),
            StopReason::Budget(Limit::Samples) => write!(f, "stopped at the limit on samples"),
            StopReason::Budget(Limit::Seconds) => write!(f, "stopped at the time limit"),
            StopReason::Target(Goal::Objective) => write!(f, "reached the target objective"),
            StopReason::Target(Goal::Certificate) => write!(f, "reached the target near-stationarity"),
            StopReason::Finished => write!(f, "the solver finished"),
            StopReason::Infeasible { conflicting, everywhere } => {
                let names: Vec<String> = conflicting.iter().map(|name| format!("'{name}'")).collect();
                let place = if *everywhere { "" } else { " near this point" };
                match names.as_slice() {
                    [one] => write!(f, "constraint {one} cannot be satisfied{place}"),
                    [others @ .., last] => write!(f, "constraints {} and {last} conflict{place}", others.join(", ")),
                    [] => write!(f, "the constraints conflict{place}"),
                }
            }
            StopReason::Interrupted => write!(f, "interrupted"),
            StopReason::Failed { iteration, reason } => write!(f, "failed at iteration {iteration}: {reason}"),
        }
    }
}

/// Everything about a finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The returned point, measured on all data.
    pub point: Point,
    /// Whether the point was chosen by the rule that was asked for.
    pub returned: PointOrigin,
    /// The multiplier of each constraint that goes with the point, where the method has them; none after a failure.
    pub multipliers: Option<Vec<f64>>,
    /// Why the run ended.
    pub ended: StopReason,
    /// What the method proved about the point, where it proves something; with estimated constants, what it found.
    pub stationary: Option<Stationary>,
    /// The distance of 0 from the slopes of the objective and the domain's normals at the point, of an inf-projection problem: what
    /// Lemma 3 bounds, with the best y. At a kink it says nothing.
    pub slope: Option<f64>,
    /// What values alone say about the point, after a run that used nothing else.
    #[serde(alias = "by_values")]
    pub zeroth_order: Option<ZerothOrderReport>,
    /// The feasible point with the smallest objective among all that were measured.
    pub best_feasible: Option<Point>,
    /// Steps made.
    pub iterations: u64,
    /// What was asked of the problem.
    pub counts: Counts,
    /// The same in passes.
    pub passes: Passes,
    /// Time without measuring.
    #[serde(default)]
    pub seconds: f64,
    /// The seed that repeats the run.
    pub seed: u64,
    /// Name of the method.
    pub solver: String,
    /// Recorded iterates.
    #[serde(default)]
    pub trace: Vec<Row>,
    /// The further quantities that were asked for, at the returned point.
    #[serde(alias = "gauges")]
    pub metrics: Vec<MetricValue>,
    /// What a careful reader should know.
    #[serde(default)]
    pub notes: Vec<Note>,
}

impl Outcome {
    /// The point is feasible and the run did not fail.
    pub fn success(&self) -> bool {
        self.point.feasible && !matches!(self.ended, StopReason::Failed { .. })
    }
}
