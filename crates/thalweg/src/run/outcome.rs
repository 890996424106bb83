//! What comes out of a run. *What the point is* is kept apart from *why the run ended*: success is never claimed for an
//! infeasible point.

use serde::{Deserialize, Serialize};

use super::{MetricValue, Row};
use crate::certify::ZerothOrderReport;
use crate::eval::{Counts, Passes};
use crate::math::vec;
use crate::oracle::Values;
use crate::solvers::{PointOrigin, Stationary};

/// Up to so many constraints each one is written down, unless a run says otherwise; of more, only the worst.
pub const LISTED: usize = 200;

/// How many of the worst that are.
const WORST: usize = 10;

/// A point and what was measured there on all data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The variables.
    #[serde(default)]
    pub x: Vec<f64>,
    /// f(x).
    pub objective: f64,
    /// Every constraint; where there are more than are listed, the ten with the largest values, the largest first.
    pub constraints: Vec<ConstraintValue>,
    /// How many constraints there are.
    pub total: usize,
    /// How many of them do not hold.
    pub violated: usize,
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
    /// Its number, from 0.
    pub index: usize,
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
    pub(super) fn new<P: Values + ?Sized>(
        x: &[f64],
        objective: f64,
        g: &[f64],
        problem: &P,
        feasibility: f64,
        all: usize,
    ) -> Self {
        let tolerance = |j: usize| feasibility * problem.constraint_scale(j);
        let holds = |j: usize| g[j] <= tolerance(j);
        let listed: Vec<usize> = if g.len() <= all { (0..g.len()).collect() } else { largest(g) };
        let constraint = |&j: &usize| ConstraintValue {
            index: j,
            name: problem.constraint_name(j).into_owned(),
            value: g[j],
            tolerance: tolerance(j),
            satisfied: holds(j),
        };
        let violated = (0..g.len()).filter(|&j| !holds(j)).count();
        let worst = vec::first_max(g);
        Point {
            x: x.to_vec(),
            objective,
            constraints: listed.iter().map(constraint).collect(),
            total: g.len(),
            violated,
            worst: worst.map(|(j, _)| problem.constraint_name(j).into_owned()),
            violation: worst.map_or(if g.is_empty() { f64::NEG_INFINITY } else { f64::NAN }, |(_, v)| v),
            feasible: violated == 0 && objective.is_finite(),
        }
    }

    /// The share of the constraints that do not hold.
    pub fn share_violated(&self) -> f64 {
        self.violated as f64 / self.total.max(1) as f64
    }
}

/// The places of the ten largest numbers, the largest first; what is not a number comes before all.
fn largest(g: &[f64]) -> Vec<usize> {
    let rank = |j: usize| if g[j].is_nan() { f64::INFINITY } else { g[j] };
    let mut kept: Vec<usize> = Vec::with_capacity(WORST + 1);
    for j in 0..g.len() {
        if kept.len() < WORST || kept.last().is_some_and(|&last| rank(j) > rank(last)) {
            let place = kept.partition_point(|&k| rank(k) >= rank(j));
            kept.insert(place, j);
            kept.truncate(WORST);
        }
    }
    kept
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

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            StopReason::Budget(Limit::Iterations) => write!(f, "the iterations were used up"),
            StopReason::Budget(Limit::Passes) => write!(f, "the passes were used up"),
            StopReason::Budget(Limit::Samples) => write!(f, "the samples were used up"),
            StopReason::Budget(Limit::Seconds) => write!(f, "the time was used up"),
            StopReason::Target(Goal::Objective) => write!(f, "the objective reached its target"),
            StopReason::Target(Goal::Certificate) => write!(f, "the near-stationarity reached its target"),
            StopReason::Finished => write!(f, "the method finished"),
            StopReason::Infeasible { conflicting, everywhere } => {
                let names: Vec<String> = conflicting.iter().map(|name| format!("'{name}'")).collect();
                let place = if *everywhere { "" } else { " near this point" };
                match names.as_slice() {
                    [one] => write!(f, "constraint {one} cannot be kept{place}"),
                    several => write!(f, "the constraints {} cannot be kept together{place}", several.join(" and ")),
                }
            }
            StopReason::Interrupted => write!(f, "it was interrupted"),
            StopReason::Failed { iteration, reason } => write!(f, "it failed at iteration {iteration}: {reason}"),
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
    pub notes: Vec<String>,
}

impl Outcome {
    /// The point is feasible and the run did not fail.
    pub fn success(&self) -> bool {
        self.point.feasible && !matches!(self.ended, StopReason::Failed { .. })
    }
}
