//! Notes on a run: facts a careful reader should know about a result, as data.
//!
//! Programs match on the variants; [`Display`](std::fmt::Display) gives the sentence. In JSON a note is an object with its
//! `kind`, its numbers and names, and the sentence as `text`.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Note on a run, a fit or a returned point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Note {
    // Runs.
    /// The run was resumed from a checkpoint.
    Continued {
        /// Iteration of the checkpoint.
        iteration: u64,
    },
    /// There was no checkpoint to resume from.
    CheckpointMissing {
        /// Path of the checkpoint.
        file: String,
    },
    /// A checkpoint could not be written. The run continued without it.
    CheckpointNotSaved {
        /// The error.
        reason: String,
    },
    /// The start was outside the domain and was projected onto it.
    StartMoved {
        /// Description of the domain.
        domain: String,
        /// Distance between the given start and its projection.
        distance: f64,
    },
    /// The run failed, and the returned point is the last iterate before the failure.
    LastGoodPoint,
    /// The solver's point was infeasible and was projected onto the constraints.
    Repaired {
        /// Number of constraints that the solver's point violates.
        violated: usize,
        /// Number of constraints.
        constraints: usize,
        /// Largest constraint value at the solver's point.
        violation: f64,
        /// Objective at the solver's point.
        objective: f64,
    },
    /// The solver's point is infeasible and could not be projected onto the constraints.
    NotRepaired {
        /// The error.
        reason: String,
    },
    /// The gradient at the returned point of a zeroth-order run could not be estimated.
    ZerothOrderCheckFailed {
        /// The error.
        reason: String,
    },
    /// The slope at the returned point of an inf-projection problem could not be computed.
    SlopeFailed {
        /// The error.
        reason: String,
    },
    /// The additional metrics could not be computed. Only the first failure is noted.
    MetricsFailed {
        /// The iterate; `None` for the returned point.
        iteration: Option<u64>,
        /// The error.
        reason: String,
    },

    // Proximal-point solvers.
    /// No proximal subproblem was finished, so the centre is still the start.
    NoSubproblemFinished {
        /// Iterations of each subproblem.
        inner_iterations: u64,
    },
    /// A proximal coefficient does not exceed the weak-convexity constant.
    ProximalCoefficientTooSmall {
        /// The functions in question.
        of: Functions,
        /// The coefficient.
        coefficient: f64,
        /// The weak-convexity constant.
        constant: f64,
    },
    /// The start violates the constraints by more than the target accuracy, and the first relaxation was enlarged.
    RelaxationEnlarged {
        /// Violation at the start.
        violation: f64,
        /// `beta / (2 outer)`.
        accuracy: f64,
    },
    /// Some subproblems accepted no iterate except their start.
    SubproblemsStalled {
        /// Number of these subproblems.
        stalled: u64,
        /// Number of subproblems.
        subproblems: u64,
        /// Proximal coefficient.
        sigma: f64,
        /// Iterations of each subproblem.
        inner_iterations: u64,
    },
    /// The proximal coefficient is smaller than the curvature between two centres.
    SigmaTooSmall {
        /// Proximal coefficient.
        sigma: f64,
        /// Largest curvature between two centres.
        curvature: f64,
        /// Number of the subproblem between them.
        subproblem: u64,
    },
    /// The multipliers of `pd` are at their bound.
    MultipliersAtBound,

    // Other solvers.
    /// Weak-convexity constants were estimated from visited points.
    ConstantsEstimated {
        /// Constant of the objective, if it was estimated.
        objective: Option<f64>,
        /// Number, from 0, and constant of each constraint whose constant was estimated.
        constraints: Vec<(usize, f64)>,
    },
    /// `lbfgs` stopped making progress before it reached its tolerance.
    LineSearchStalled {
        /// Gradient norm.
        gradient: f64,
        /// Tolerance on the gradient norm.
        tolerance: f64,
        /// Cause.
        cause: StallCause,
    },
    /// The ball of the domain is active at the point.
    BallActive {
        /// Radius of the ball.
        radius: f64,
        /// Multiplier of the ball.
        multiplier: f64,
    },
    /// The coupled variable of an inf-projection problem reached the upper end of its interval.
    IntervalTooShort {
        /// Number of steps that ended there.
        steps: u64,
    },
    /// The run stopped during a projection onto the constraints.
    ProjectionUnfinished {
        /// Steps of the projection so far.
        steps: u64,
        /// Violation of its current point.
        violation: f64,
    },
    /// The penalty weight was raised and the step size halved.
    PenaltyRaised {
        /// New weight.
        beta: f64,
        /// Iteration.
        iteration: u64,
        /// Violation at the full weight of the old penalty.
        violation: f64,
    },
    /// The penalty weight is smaller than the multiplier of the constraint.
    PenaltyTooSmall {
        /// The weight.
        beta: f64,
        /// Violation at the full weight.
        violation: f64,
    },

    // Training.
    /// The default step size was used, because the budget is too small for pilot runs.
    DefaultStepSize {
        /// Step size.
        eta: f64,
    },
    /// The step size was chosen by pilot runs.
    StepSizeChosen {
        /// Step size.
        eta: f64,
        /// Number of step sizes tried.
        tried: usize,
    },
    /// Training used a surrogate bound that differs from the requested bound.
    SurrogateBoundMoved {
        /// Name of the constraint.
        constraint: String,
        /// Requested bound.
        bound: f64,
        /// Surrogate bound.
        surrogate_bound: f64,
    },
    /// Training lowered the temperature of a surrogate.
    TemperatureLowered {
        /// Name of the constraint.
        constraint: String,
        /// Factor on the temperature.
        factor: f64,
    },
    /// The model violates a bound.
    BoundMissed {
        /// Name of the constraint.
        constraint: String,
        /// Closest value found.
        value: f64,
        /// Requested bound.
        bound: f64,
        /// Whether `value` is a 0/1 rate rather than a surrogate.
        measured: bool,
        /// Whether the constraint is one of those proved to conflict.
        conflicting: bool,
    },

    // Bilevel problems.
    /// The worst and best inner solutions could not be computed.
    ExtremesFailed {
        /// The error.
        reason: String,
    },
    /// The near-stationarity of the point could not be computed.
    CertificateFailed {
        /// The error.
        reason: String,
    },
    /// Hessian-vector products are finite differences of gradients.
    FiniteDifferences,
    /// A multiplier of the inner maximisation is at its bound.
    InnerMultiplierAtBound {
        /// The bound.
        bound: f64,
    },

    /// Sentence without further data, also used for notes stored by older versions.
    #[serde(skip)]
    Text(String),
}

/// Functions that a constant belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Functions {
    /// The objective.
    Objective,
    /// The constraints.
    Constraints,
}

/// Cause of a stalled line search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// The possible decrease is below rounding errors.
    Rounding,
    /// The objective has a kink at the point.
    Kink,
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Note::Text(text)
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Note::Text(text.into())
    }
}

/// Number of constraints up to which the note on estimated constants lists each one.
const LISTED_CONSTANTS: usize = 8;

impl Display for Note {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::Continued { iteration } => write!(f, "continued from iteration {iteration}"),
            Note::CheckpointMissing { file } => {
                write!(f, "checkpoint {file} does not exist; the run started from the beginning")
            }
            Note::CheckpointNotSaved { reason } => write!(f, "{reason}"),
            Note::StartMoved { domain, distance } => {
                write!(f, "the start was outside the domain ({domain}) and was moved by {distance:.3e}")
            }
            Note::LastGoodPoint => write!(f, "the point is the last one before the failure"),
            Note::Repaired { violated, constraints, violation, objective } => write!(
                f,
                "the returned point was projected onto the constraints; the solver's own point violates {violated} of {constraints}, \
                 the worst by {violation:.3e}, and has objective {objective:.9}"
            ),
            Note::NotRepaired { reason } => write!(f, "the point could not be projected onto the constraints: {reason}"),
            Note::ZerothOrderCheckFailed { reason } => {
                write!(f, "the gradient could not be estimated at the returned point: {reason}")
            }
            Note::SlopeFailed { reason } => write!(f, "the slope could not be computed at the returned point: {reason}"),
            Note::MetricsFailed { iteration: Some(t), reason } => {
                write!(f, "the metrics could not be computed at iterate {t}: {reason}")
            }
            Note::MetricsFailed { iteration: None, reason } => {
                write!(f, "the metrics could not be computed at the returned point: {reason}")
            }
            Note::Text(text) => write!(f, "{text}"),
            solver => solver.fmt_solver(f),
        }
    }
}

impl Note {
    fn fmt_solver(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::NoSubproblemFinished { inner_iterations } => write!(
                f,
                "no subproblem was finished, so the centre is still the start; each subproblem takes {inner_iterations} iterations"
            ),
            Note::ProximalCoefficientTooSmall { of, coefficient, constant } => {
                let (setting, of) = match of {
                    Functions::Objective => ("rho_hat", "objective"),
                    Functions::Constraints => ("rho_hat_g", "constraints"),
                };
                write!(
                    f,
                    "{setting} = {coefficient} does not exceed {constant}, the weak-convexity constant of the {of}; the subproblems may \
                     not be convex"
                )
            }
            Note::RelaxationEnlarged { violation, accuracy } => write!(
                f,
                "the start violates a constraint by {violation:.3e}, more than beta / (2 outer) = {accuracy:.3e}; the first relaxation \
                 was enlarged by as much"
            ),
            Note::SubproblemsStalled { stalled, subproblems, sigma, inner_iterations } => write!(
                f,
                "{stalled} of {subproblems} subproblems accepted no iterate except their start; use a sigma above {sigma}, or more than \
                 {inner_iterations} inner_iterations"
            ),
            Note::SigmaTooSmall { sigma, curvature, subproblem } => write!(
                f,
                "sigma = {sigma} is too small: the curvature between the centres of subproblem {subproblem} is {curvature:.3}, so the \
                 subproblem was not convex"
            ),
            Note::MultipliersAtBound => {
                write!(f, "the multipliers of pd are at their bound; use a larger bound or a larger sigma")
            }
            Note::ConstantsEstimated { objective, constraints } => write!(
                f,
                "weak-convexity constants were estimated from visited points ({}); conclusions that depend on them are not proved",
                estimates(*objective, constraints)
            ),
            Note::LineSearchStalled { gradient, tolerance, cause } => {
                let cause = match cause {
                    StallCause::Rounding => "no step decreases the objective by more than rounding errors",
                    StallCause::Kink => "the objective has a kink there, and the point may be far from a solution",
                };
                write!(f, "lbfgs stalled at gradient norm {gradient:.2e}, above the tolerance {tolerance:.2e}: {cause}")
            }
            Note::BallActive { radius, multiplier } => {
                write!(f, "the ball of radius {radius} is active, with multiplier {multiplier:.6e}")
            }
            Note::IntervalTooShort { steps } => {
                write!(f, "y was at the upper end of its interval after {steps} steps; the interval is too short for this loss")
            }
            Note::ProjectionUnfinished { steps, violation } => write!(
                f,
                "the projection of the last iterate onto the constraints was not finished after {steps} {}; its point still violates a \
                 constraint by {violation:.1e}",
                if *steps == 1 { "step" } else { "steps" }
            ),
            Note::PenaltyRaised { beta, iteration, violation } => write!(
                f,
                "beta was raised to {beta} and alpha halved at iteration {iteration}: the constraint stayed violated by {violation:.2e} \
                 under the full penalty"
            ),
            Note::PenaltyTooSmall { beta, violation } => write!(
                f,
                "beta = {beta} is too small: the constraint stays violated by {violation:.2e} under the full penalty, so its multiplier \
                 exceeds beta; raise beta or use beta = \"auto\""
            ),
            fit => fit.fmt_fit(f),
        }
    }

    fn fmt_fit(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::DefaultStepSize { eta } => write!(f, "step size {eta}: too few iterations to try others"),
            Note::StepSizeChosen { eta, tried } => write!(f, "step size {eta}: the best of {tried} in pilot runs"),
            Note::SurrogateBoundMoved { constraint, bound, surrogate_bound } => {
                let moved = if surrogate_bound < bound { "tightened" } else { "loosened" };
                write!(f, "'{constraint}': the surrogate bound was {moved} from {bound} to {surrogate_bound:.4}")
            }
            Note::TemperatureLowered { constraint, factor } => {
                write!(f, "'{constraint}': the temperature of the surrogate was multiplied by {factor}")
            }
            Note::BoundMissed { constraint, value, bound, measured, conflicting } => {
                let rate = if *measured { "0/1 rate " } else { "" };
                let remedy =
                    if *conflicting { "only a wider bound can help" } else { "more iterations or a wider bound may help" };
                write!(f, "'{constraint}': {rate}{value:.4} is the closest to the bound {bound} that was found; {remedy}")
            }
            Note::ExtremesFailed { reason } => {
                write!(f, "the worst and the best inner solution were not computed: {reason}")
            }
            Note::CertificateFailed { reason } => write!(f, "near-stationarity was not computed: {reason}"),
            Note::FiniteDifferences => {
                write!(f, "products with second derivatives are differences of gradients, exact to about eight digits")
            }
            Note::InnerMultiplierAtBound { bound } => {
                write!(f, "a multiplier of the inner maximisation is at its bound {bound}; use a larger multiplier_bound")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Lists estimated constants, or their range if they are many.
fn estimates(objective: Option<f64>, constraints: &[(usize, f64)]) -> String {
    let number = |rho: f64| if rho == 0.0 { "0".into() } else { format!("{rho:.3e}") };
    let mut parts: Vec<String> = objective.iter().map(|rho| format!("{} for the objective", number(*rho))).collect();
    if constraints.len() > LISTED_CONSTANTS {
        let least = constraints.iter().fold(f64::INFINITY, |least, (_, rho)| least.min(*rho));
        let most = constraints.iter().fold(0.0_f64, |most, (_, rho)| most.max(*rho));
        parts.push(format!("{} to {} for the constraints", number(least), number(most)));
    } else {
        parts.extend(constraints.iter().map(|(j, rho)| format!("{} for constraint {}", number(*rho), j + 1)));
    }
    parts.join(", ")
}

/// Note in its stored form.
#[derive(Serialize)]
struct Labelled<'a> {
    #[serde(flatten, with = "Note")]
    note: &'a Note,
    text: String,
}

#[derive(Serialize)]
struct Sentence<'a> {
    kind: &'static str,
    text: &'a str,
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Note::Text(text) => Sentence { kind: "text", text }.serialize(serializer),
            note => Labelled { note, text: note.to_string() }.serialize(serializer),
        }
    }
}

/// Stored forms of a note: a sentence in results of older versions, and kinds from newer versions.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredNote {
    Known(#[serde(with = "Note")] Note),
    Other { text: String },
    Sentence(String),
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match StoredNote::deserialize(deserializer)? {
            StoredNote::Known(note) => note,
            StoredNote::Other { text } | StoredNote::Sentence(text) => Note::Text(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_kind_the_data_and_the_sentence() {
        let note = Note::Continued { iteration: 7 };
        let json = serde_json::json!(note);
        assert_eq!(json, serde_json::json!({"kind": "continued", "iteration": 7, "text": "continued from iteration 7"}));
        assert_eq!(serde_json::from_value::<Note>(json).unwrap(), note);
        let unit = serde_json::to_string(&Note::LastGoodPoint).unwrap();
        assert_eq!(unit, r#"{"kind":"last-good-point","text":"the point is the last one before the failure"}"#);
        assert_eq!(serde_json::from_str::<Note>(&unit).unwrap(), Note::LastGoodPoint);
    }

    #[test]
    fn sentences_and_unknown_kinds_are_read() {
        let read = |text: &str| serde_json::from_str::<Note>(text).unwrap();
        assert_eq!(read(r#""continued from iteration 7""#), Note::from("continued from iteration 7"));
        assert_eq!(read(r#"{"kind": "of-tomorrow", "number": 1, "text": "news"}"#), Note::from("news"));
        let text = Note::from("a sentence");
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(json, r#"{"kind":"text","text":"a sentence"}"#);
        assert_eq!(read(&json), text);
    }

    #[test]
    fn every_constant_is_data_and_many_are_a_range_in_words() {
        let note = |n: usize| Note::ConstantsEstimated { objective: Some(0.0), constraints: (0..n).map(|j| (j, 0.5)).collect() };
        assert_eq!(
            note(1).to_string(),
            "weak-convexity constants were estimated from visited points (0 for the objective, 5.000e-1 for constraint 1); \
             conclusions that depend on them are not proved"
        );
        assert!(note(9).to_string().contains("(0 for the objective, 5.000e-1 to 5.000e-1 for the constraints)"));
        assert_eq!(serde_json::from_value::<Note>(serde_json::json!(note(9))).unwrap(), note(9));
    }
}
