//! What comes out of a run. *What the point is* is kept apart from *why the run ended*: success is never claimed for an
//! infeasible point.

use serde::{Deserialize, Serialize};

use super::{Reading, Row};
use crate::eval::{Counts, Passes};
use crate::math::vec;
use crate::oracle::Values;
use crate::solvers::{Returned, Stationary};

/// A point and what was measured there on all data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The variables.
    pub x: Vec<f64>,
    /// f(x).
    pub objective: f64,
    /// Every constraint.
    pub constraints: Vec<ConstraintValue>,
    /// Name of the constraint with the largest value; none without constraints.
    pub worst: Option<String>,
    /// The largest g_j(x), signed; minus infinity without constraints.
    pub violation: f64,
    /// Every constraint holds within its tolerance.
    pub feasible: bool,
}

/// One constraint at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintValue {
    /// Its name.
    pub name: String,
    /// g_j(x): at most 0 if it holds.
    pub value: f64,
    /// What it may exceed 0 by.
    pub tolerance: f64,
    /// Whether it holds.
    pub satisfied: bool,
}

impl Point {
    pub(super) fn new<P: Values + ?Sized>(x: &[f64], objective: f64, g: &[f64], problem: &P, feasibility: f64) -> Self {
        let constraints: Vec<_> = g
            .iter()
            .enumerate()
            .map(|(j, &value)| {
                let tolerance = feasibility * problem.constraint_scale(j);
                ConstraintValue { name: problem.constraint_name(j).into_owned(), value, tolerance, satisfied: value <= tolerance }
            })
            .collect();
        let worst = vec::first_max(g);
        Point {
            x: x.to_vec(),
            objective,
            worst: worst.map(|(j, _)| constraints[j].name.clone()),
            violation: worst.map_or(if g.is_empty() { f64::NEG_INFINITY } else { f64::NAN }, |(_, v)| v),
            feasible: constraints.iter().all(|c| c.satisfied) && objective.is_finite(),
            constraints,
        }
    }
}

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
pub enum Ended {
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

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Ended::Budget(Limit::Iterations) => write!(f, "the iterations were used up"),
            Ended::Budget(Limit::Passes) => write!(f, "the passes were used up"),
            Ended::Budget(Limit::Samples) => write!(f, "the samples were used up"),
            Ended::Budget(Limit::Seconds) => write!(f, "the time was used up"),
            Ended::Target(Goal::Objective) => write!(f, "the objective reached its target"),
            Ended::Target(Goal::Certificate) => write!(f, "the near-stationarity reached its target"),
            Ended::Finished => write!(f, "the method finished"),
            Ended::Infeasible { conflicting, everywhere } => {
                let names: Vec<String> = conflicting.iter().map(|name| format!("'{name}'")).collect();
                let place = if *everywhere { "" } else { " near this point" };
                match names.as_slice() {
                    [one] => write!(f, "constraint {one} cannot be kept{place}"),
                    several => write!(f, "the constraints {} cannot be kept together{place}", several.join(" and ")),
                }
            }
            Ended::Interrupted => write!(f, "it was interrupted"),
            Ended::Failed { iteration, reason } => write!(f, "it failed at iteration {iteration}: {reason}"),
        }
    }
}

/// Everything about a finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The returned point, measured on all data.
    pub point: Point,
    /// Whether the point was chosen by the rule that was asked for.
    pub returned: Returned,
    /// The multiplier of each constraint that goes with the point, where the method has them; none after a failure.
    pub multipliers: Option<Vec<f64>>,
    /// Why the run ended.
    pub ended: Ended,
    /// What the method proved about the point, where it proves something; with estimated constants, what it found.
    pub stationary: Option<Stationary>,
    /// The feasible point with the smallest objective among all that were measured.
    pub best_feasible: Option<Point>,
    /// Steps made.
    pub iterations: u64,
    /// What was asked of the problem.
    pub counts: Counts,
    /// The same in passes.
    pub passes: Passes,
    /// Time without measuring.
    pub seconds: f64,
    /// The seed that repeats the run.
    pub seed: u64,
    /// Name of the method.
    pub solver: String,
    /// Recorded iterates.
    pub trace: Vec<Row>,
    /// The further quantities that were asked for, at the returned point.
    pub gauges: Vec<Reading>,
    /// What a careful reader should know.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The point is feasible and the run did not fail.
    pub fn success(&self) -> bool {
        self.point.feasible && !matches!(self.ended, Ended::Failed { .. })
    }
}
