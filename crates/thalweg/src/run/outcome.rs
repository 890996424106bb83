//! Outcome of a run. The returned point and the reason why the run stopped are separate, so that success is never claimed for an
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
    /// Iterations.
    Iterations,
    /// Passes over the data.
    Passes,
    /// Samples.
    Samples,
    /// Time.
    Seconds,
}

/// A target of a [`StoppingRule`](super::StoppingRule).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A value of the objective.
    Objective,
    /// A bound on near-stationarity.
    Certificate,
}

/// Why a run stopped. Says nothing about the quality of the point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A limit of the budget was reached.
    Budget(Limit),
    /// A recorded iterate is feasible and reaches a target of the [`StoppingRule`](super::StoppingRule).
    Target(Target),
    /// The solver finished.
    Finished,
    /// The solver proved that no point near the returned one violates the constraints less.
    Infeasible {
        /// Names of the conflicting constraints.
        conflicting: Vec<String>,
        /// Whether it is proved that no point of the domain is feasible.
        everywhere: bool,
        /// Distance from the returned point within which no point is feasible; `None` if that rests on estimated constants.
        #[serde(default)]
        radius: Option<f64>,
    },
    /// The interrupt flag was set.
    Interrupted,
    /// A value, gradient or iterate was not finite, or an oracle failed.
    Failed {
        /// The iterate whose step or measurement failed.
        iteration: u64,
        /// The error.
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
            StopReason::Target(Target::Objective) => write!(f, "reached the target objective"),
            StopReason::Target(Target::Certificate) => write!(f, "reached the target near-stationarity"),
            StopReason::Finished => write!(f, "the solver finished"),
            StopReason::Infeasible { conflicting, everywhere, radius } => {
                let names: Vec<String> = conflicting.iter().map(|name| format!("'{name}'")).collect();
                match names.as_slice() {
                    [one] => write!(f, "constraint {one} cannot be satisfied")?,
                    [others @ .., last] => write!(f, "constraints {} and {last} conflict", others.join(", "))?,
                    [] => write!(f, "the constraints conflict")?,
                }
                match radius {
                    _ if *everywhere => Ok(()),
                    Some(radius) => write!(f, "; no point within {radius:.1e} of this one is feasible"),
                    None => write!(f, " near this point"),
                }
            }
            StopReason::Interrupted => write!(f, "interrupted"),
            StopReason::Failed { iteration, reason } => write!(f, "failed at iteration {iteration}: {reason}"),
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The returned point, measured on all data.
    pub point: Point,
    /// How the point was chosen.
    pub returned: PointOrigin,
    /// Multiplier of each constraint at the point, if the solver has them; `None` after a failure.
    pub multipliers: Option<Vec<f64>>,
    /// Why the run stopped.
    pub ended: StopReason,
    /// Bound on the near-stationarity of the point, for solvers that prove one. Not proved if its constants are estimated.
    pub stationary: Option<Stationary>,
    /// Stationarity gap of an inf-projection problem: the distance of 0 from the gradient of the objective, with the best y, plus
    /// the normal cone of the domain. Lemma 3 bounds it. Meaningless at a kink.
    pub slope: Option<f64>,
    /// Gradient estimate at the point, after a zeroth-order run.
    #[serde(alias = "by_values")]
    pub zeroth_order: Option<ZerothOrderReport>,
    /// Feasible point with the smallest objective among the measured ones.
    pub best_feasible: Option<Point>,
    /// Number of steps.
    pub iterations: u64,
    /// Number of oracle calls and samples.
    pub counts: Counts,
    /// Passes over the data.
    pub passes: Passes,
    /// Time in seconds, without the time for measurements.
    #[serde(default)]
    pub seconds: f64,
    /// Random seed.
    pub seed: u64,
    /// Name of the solver.
    pub solver: String,
    /// Recorded iterates.
    #[serde(default)]
    pub trace: Vec<Row>,
    /// Additional metrics at the returned point.
    #[serde(alias = "gauges")]
    pub metrics: Vec<MetricValue>,
    /// What a careful reader should know.
    #[serde(default)]
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Returns whether the point is feasible and the run did not fail.
    pub fn success(&self) -> bool {
        self.point.feasible && !matches!(self.ended, StopReason::Failed { .. })
    }
}
