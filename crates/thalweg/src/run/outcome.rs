//! Outcome of a run. The returned point and the reason why the run stopped are separate, so that success is never claimed for an
//! infeasible point.

use serde::{Deserialize, Serialize};

use super::{MetricValue, Point, Row};
use crate::Note;
use crate::assess::MeasuredStationarity;
use crate::certify::{Certificate, ZerothOrderReport};
use crate::eval::{Counts, Passes};
use crate::math::vec;
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
    /// The solver ended with [`Infeasible`](StopReason::Infeasible), but what is known about the problem contradicts that.
    Withdrawn {
        /// Names of the constraints that the solver called conflicting.
        conflicting: Vec<String>,
        /// What contradicts the verdict.
        evidence: Evidence,
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

/// Contradiction of a verdict of infeasibility.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// A feasible point is known.
    FeasiblePoint {
        /// Its distance from the returned point.
        distance: f64,
    },
    /// The subproblem of a certificate has a solution within the radius in which no point was called feasible.
    Bound {
        /// Upper bound on the distance of that solution from the returned point.
        upper: f64,
    },
}

/// What a statement about points that were not visited rests on.
const ASSUMED: &str = "if the gradients are right and the constants hold";

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Evidence::FeasiblePoint { distance: 0.0 } => write!(f, "the returned point is feasible"),
            Evidence::FeasiblePoint { distance } => write!(f, "a point {distance:.1e} away is feasible"),
            Evidence::Bound { upper } => {
                write!(f, "the certificate proves that a point within {upper:.1e} is feasible, {ASSUMED}")
            }
        }
    }
}

impl StopReason {
    /// Withdraws a verdict of infeasibility. Other reasons stay.
    fn withdraw(&mut self, evidence: Evidence) {
        if let StopReason::Infeasible { conflicting, .. } = self {
            *self = StopReason::Withdrawn { conflicting: std::mem::take(conflicting), evidence };
        }
    }

    /// Compares a verdict of infeasibility with a certificate of the returned point, and withdraws it if the certificate contains
    /// a feasible point, or proves that there is one where the verdict excludes it.
    pub fn compare_with(&mut self, certificate: &Certificate) {
        let StopReason::Infeasible { everywhere, radius, .. } = *self else { return };
        if certificate.proximal_feasible || certificate.point.feasible {
            let distance = match certificate.point.feasible {
                true => 0.0,
                false => vec::distance(&certificate.proximal, &certificate.point.x),
            };
            return self.withdraw(Evidence::FeasiblePoint { distance });
        }
        let tolerance = certificate.point.constraints.iter().fold(f64::INFINITY, |least, c| least.min(c.tolerance));
        let reach = if everywhere { f64::INFINITY } else { radius.unwrap_or(0.0) };
        if !certificate.estimated()
            && certificate.upper.is_finite()
            && certificate.upper <= reach
            && certificate.relaxed <= tolerance
        {
            self.withdraw(Evidence::Bound { upper: certificate.upper });
        }
    }

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
                write!(f, "{}", conflict(conflicting))?;
                match radius {
                    None => write!(f, " near this point, by estimated constants, not proved"),
                    Some(_) if *everywhere => write!(f, "; no point of the domain is feasible, {ASSUMED}"),
                    Some(radius) => write!(f, "; no point within {radius:.1e} of this one is feasible, {ASSUMED}"),
                }
            }
            StopReason::Withdrawn { conflicting, evidence } => {
                write!(f, "the solver's verdict that {} is withdrawn, because {evidence}", conflict(conflicting))
            }
            StopReason::Interrupted => write!(f, "interrupted"),
            StopReason::Failed { iteration, reason } => write!(f, "failed at iteration {iteration}: {reason}"),
        }
    }
}

/// Describes a conflict of the named constraints.
fn conflict(conflicting: &[String]) -> String {
    let names: Vec<String> = conflicting.iter().map(|name| format!("'{name}'")).collect();
    match names.as_slice() {
        [one] => format!("constraint {one} cannot be satisfied"),
        [others @ .., last] => format!("constraints {} and {last} conflict", others.join(", ")),
        [] => "the constraints conflict".into(),
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
    /// Withdraws a verdict of infeasibility that the outcome itself contradicts: the returned or a recorded point is feasible.
    pub(super) fn compare_with_points(&mut self) {
        let feasible = [Some(&self.point), self.best_feasible.as_ref()].into_iter().flatten().find(|point| point.feasible);
        if let Some(point) = feasible {
            self.ended.withdraw(Evidence::FeasiblePoint { distance: vec::distance(&point.x, &self.point.x) });
        }
    }

    /// Compares a verdict of infeasibility with measures of stationarity at the returned point, and withdraws it if they
    /// contradict it.
    pub fn compare(&mut self, measured: &MeasuredStationarity) {
        if let Some(certificate) = &measured.bounds {
            self.ended.compare_with(certificate);
        }
        if let Some(found) = measured.switching.as_ref().filter(|found| found.violation <= 0.0) {
            // A point that satisfies the constraints of the subproblem satisfies those of the problem.
            self.ended.withdraw(Evidence::FeasiblePoint { distance: found.distance });
        }
    }

    /// Returns whether the point is feasible and the run did not fail.
    pub fn success(&self) -> bool {
        self.point.feasible && !matches!(self.ended, StopReason::Failed { .. })
    }
}
