//! Notes on a run: facts a careful reader should know about a result, as data.
//!
//! Programs match on the variants; [`Display`](std::fmt::Display) gives the sentence. In JSON a note is an object with its
//! `kind`, its numbers and names, and the sentence as `text`.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::auto::Evidence;
use crate::bilevel::InnerIterations;
use crate::learn::{Best, Degeneracy, GroupComparison, GroupSize, PromiseSize, PromisedConstraint, percent};
use crate::run::StopReason;
use crate::solvers::SolverName;

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
    /// More threads were requested than can be used.
    ThreadsLimited {
        /// Requested number.
        requested: usize,
        /// Number of threads that are used.
        used: usize,
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
    /// `lbfgs` or `sqp` stopped making progress before it reached its tolerance.
    LineSearchStalled {
        /// Norm of the gradient, of the Lagrangian for `sqp`.
        gradient: f64,
        /// Tolerance on the gradient norm, or the setting of `sqp`.
        tolerance: f64,
        /// Cause.
        cause: StallCause,
    },
    /// Number of evaluations of the objective by `trust-region`, and the limit.
    EvaluationsUsed {
        /// Number of points at which the objective was evaluated.
        evaluations: u64,
        /// Largest number.
        limit: u64,
        /// Whether the limit ended the search.
        limited: bool,
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
    /// Training moved the intercept after the last round.
    InterceptShifted {
        /// The shift.
        shift: f64,
        /// Accuracy gained on the training rows, negative if it was lost.
        gain: f64,
        /// Standard error of the gain.
        standard_error: f64,
        /// Whether the bounds were satisfied on the training rows before.
        satisfied_before: bool,
    },
    /// Training ended with a search by counted rates.
    RatesCounted {
        /// Whether a round with surrogates satisfied the bounds on the training rows before.
        satisfied_before: bool,
    },
    /// Training lowered the temperature of a surrogate.
    TemperatureLowered {
        /// Name of the constraint.
        constraint: String,
        /// Factor on the temperature.
        factor: f64,
    },
    /// Training ended before its solver converged. A warning.
    NotConverged {
        /// Why it ended.
        ended: StopReason,
    },
    /// The model predicts no better than a constant. A warning.
    DegenerateModel {
        /// In what way.
        cause: Degeneracy,
    },
    /// A rate on the rows of some groups is more uncertain than the bound on its gap. A warning.
    SmallGroups {
        /// Name of the constraint.
        constraint: String,
        /// Bound on the gap.
        bound: f64,
        /// These groups.
        groups: Vec<GroupSize>,
    },
    /// Some groups are so small in the safety set that a bound can hardly be promised for unseen rows. A warning.
    SafetySetTooSmall {
        /// Name of the constraint.
        constraint: String,
        /// Its bound.
        bound: f64,
        /// Confidence of the promise.
        confidence: f64,
        /// These groups.
        groups: Vec<PromiseSize>,
    },
    /// The tests on the safety set did not confirm the strictest candidate, so that nothing is promised about unseen rows.
    PromiseNotConfirmed {
        /// Confidence of the tests.
        confidence: f64,
        /// Rows in the safety set.
        rows: usize,
        /// Constraints that were not confirmed.
        constraints: Vec<PromisedConstraint>,
    },
    /// A gap compares very many groups. A warning.
    ManyGroups {
        /// Their number.
        groups: usize,
    },
    /// A feature alone separates the labels almost perfectly. A warning.
    LabelGivenAway {
        /// Name of the feature.
        feature: String,
        /// Balanced accuracy of the best threshold on it.
        balanced_accuracy: f64,
    },
    /// Which differences count in a gap between three or more groups.
    GapMeaning {
        /// Name of the objective or constraint.
        function: String,
        /// Number of groups.
        groups: usize,
        /// Differences that count.
        comparison: GroupComparison,
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

    // Data.
    /// The rows are a stand-in for a published set.
    StandIn {
        /// File or data set.
        name: String,
        /// Set that the rows are shaped like.
        set: String,
    },
    /// The rows come from a random generator.
    GeneratedRows {
        /// Name of the data.
        name: String,
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
        /// Number of sensitive columns.
        sensitive: usize,
    },
    /// A data set has another size than the catalogue's copy.
    SizeDiffers {
        /// Name of the set.
        set: String,
        /// What was counted.
        quantity: Quantity,
        /// Number in the file.
        found: usize,
        /// Number in the catalogue's copy.
        expected: usize,
    },
    /// Some rows have an unknown outcome and count as negative.
    UnknownOutcomes {
        /// Name of the set.
        set: String,
        /// Number of such rows.
        unknown: usize,
        /// Number of rows.
        rows: usize,
        /// Name of the label.
        label: String,
        /// Values of the label that mean an unknown outcome.
        values: Vec<String>,
    },
    /// A file is not the catalogue's copy.
    ChecksumDiffers {
        /// The file.
        file: String,
        /// Name of the set.
        set: String,
    },
    /// A file is not compressed, and only the checksum of the compressed file is known.
    ChecksumNotChecked {
        /// The file.
        file: String,
    },
    /// A raw table cannot be prepared for specs.
    NotPrepared {
        /// The error.
        reason: String,
    },
    /// A cached binary file was outdated or damaged and was written again.
    BinaryFileReplaced {
        /// The cached file.
        file: String,
        /// Why it could not be used.
        reason: String,
    },
    /// A large text file was cached in binary form.
    BinaryFileSaved {
        /// The text file.
        file: String,
        /// The cached file.
        binary: String,
    },
    /// Columns without entries were left out, because there are very many.
    ColumnsLeftOut {
        /// Largest column of the file.
        columns: usize,
        /// Number of columns with an entry.
        used: usize,
    },
    /// A large text file could not be cached.
    BinaryFileNotSaved {
        /// The text file.
        file: String,
        /// The error.
        reason: String,
    },
    /// A cached stand-in was damaged and was generated again.
    StandInReplaced {
        /// Why it could not be used.
        reason: String,
    },
    /// A stand-in could not be cached.
    StandInNotSaved {
        /// The error.
        reason: String,
    },

    // Encoding of tables.
    /// A column is not used.
    ColumnDropped {
        /// Name of the column.
        column: String,
        /// Why it is not used.
        reason: DropReason,
    },
    /// Rows have values of a category that the model was not trained on.
    UnknownValues {
        /// Name of the column.
        column: String,
        /// Number of such rows.
        rows: usize,
        /// Some of the values.
        examples: Vec<String>,
    },
    /// Rows have a missing value in a column that had none in training.
    UnknownMissing {
        /// Name of the column.
        column: String,
        /// Number of such rows.
        rows: usize,
        /// Whether the column is numeric; a missing value then counts as the mean.
        numeric: bool,
    },
    /// The positive label was inferred.
    PositiveInferred {
        /// Name of the column.
        column: String,
        /// Positive value.
        value: String,
        /// Rows with it.
        rows: usize,
        /// All rows.
        of: usize,
        /// Whether it is the rarer value, rather than the last in order.
        rarer: bool,
    },
    /// A group has only one row.
    SmallGroup {
        /// Name of the column.
        column: String,
        /// The group.
        group: String,
    },

    // Problems and models.
    /// Smallest value of a term, which a bound, threshold, domain or start is computed from.
    ReferenceValue {
        /// The value, without the minimiser.
        best: Box<Best>,
    },
    /// The domain was chosen, because the objective has a variance.
    DomainChosen {
        /// Description of the domain.
        domain: String,
    },
    /// A regulariser was added to the objective by default.
    Regularized {
        /// Factor of `ridge`.
        factor: f64,
        /// Sum of the factors of the losses: `factor` is this number divided by `rows`.
        numerator: f64,
        /// Number of training rows, with whole-number weights as repetitions.
        rows: f64,
    },
    /// No regulariser was added to the objective by default.
    NotRegularized {
        /// Term of the objective that is the reason.
        term: String,
        /// Whether the term is a penalty, or not a mean loss.
        penalty: bool,
    },
    /// Number of constraints of a family.
    ConstraintCount {
        /// Number of constraints.
        constraints: usize,
    },
    /// The transport plan is a variable.
    TransportPlan {
        /// Rows and columns of the plan.
        sides: [usize; 2],
        /// Weak-convexity constant.
        constant: f64,
        /// The published constant.
        published: f64,
    },
    /// A note on the held-out rows.
    OnHeldOutRows {
        /// The note.
        note: Box<Note>,
    },
    /// The held-out rows cannot be used for the problem.
    HeldOutUnusable {
        /// The error.
        reason: String,
    },
    /// The model was not measured on the held-out rows.
    HeldOutNotMeasured {
        /// The error.
        reason: String,
    },
    /// The model was measured on the held-out rows, but not its constraints.
    HeldOutConstraintsNotMeasured {
        /// The error.
        reason: String,
    },
    /// The data are not those of training.
    OtherData {
        /// The file.
        file: String,
    },
    /// The bound recorded in a model is not the requested one.
    BoundDiffers {
        /// Name of the constraint.
        constraint: String,
        /// Recorded bound.
        recorded: f64,
        /// Requested bound.
        bound: f64,
    },
    /// The value recorded in a model is not the one on the same rows.
    ValueDiffers {
        /// Name of the constraint.
        constraint: String,
        /// Recorded value.
        recorded: f64,
        /// Value on the rows.
        value: f64,
    },
    /// A point without a transport plan was completed with an optimal one.
    PlanCompleted,
    /// A point belongs to another problem.
    OtherProblem {
        /// File of the point.
        point: String,
        /// The spec.
        spec: String,
    },

    // Choices.
    /// Properties of the problem that a solver was chosen for.
    ChoiceProblem {
        /// Evidence for the choice.
        evidence: Box<Evidence>,
    },
    /// A solver was chosen.
    SolverChosen {
        /// Evidence for the choice.
        evidence: Box<Evidence>,
    },
    /// Solver, settings and random seed that repeat a choice.
    Repeat {
        /// The chosen solver.
        solver: SolverName,
        /// Settings that differ from the defaults, with their values in TOML.
        settings: BTreeMap<String, String>,
        /// Random seed; `None` where it is in the spec.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    },
    /// The accuracy `beta` of a bilevel problem was chosen.
    BetaChosen {
        /// The accuracy.
        beta: f64,
    },
    /// The proximal coefficient `sigma` of a bilevel problem was chosen.
    SigmaChosen {
        /// The coefficient.
        sigma: f64,
    },
    /// The number of inner iterations was chosen.
    InnerIterationsChosen {
        /// The number.
        inner_iterations: u64,
        /// Why the search ended.
        search: InnerIterations,
    },
    /// The number of subproblems was chosen.
    OuterChosen {
        /// The number.
        outer: u64,
        /// Decrease of the objective by one subproblem of a pilot run.
        decrease: f64,
    },
    /// No cell of a grid satisfies the constraints.
    NoFeasibleCell {
        /// Label of the solver.
        solver: String,
        /// Label of the data and the problem.
        panel: String,
    },
    /// Every cell of a grid failed.
    EveryCellFailed {
        /// Label of the solver.
        solver: String,
        /// Label of the data and the problem.
        panel: String,
    },

    // Sweeps.
    /// The bound of the first of several constraints is swept.
    FirstConstraintSwept {
        /// Name of the constraint.
        constraint: String,
        /// Number of constraints.
        constraints: usize,
    },
    /// A bound was run again from the point of a tighter one.
    BoundRepeated {
        /// The bound.
        bound: f64,
        /// The tighter bound.
        tighter: f64,
    },
    /// A bound could not be run again.
    BoundNotRepeated {
        /// The bound.
        bound: f64,
        /// The tighter bound.
        tighter: f64,
        /// The error.
        reason: String,
    },
    /// The point of a tighter bound is the best one found for both.
    PointShared {
        /// The bound.
        bound: f64,
        /// The tighter bound.
        tighter: f64,
    },
    /// No bound on the stationarity gap was computed.
    StationarityNotBounded {
        /// The error.
        reason: String,
    },

    // Bilevel problems.
    /// The start of a bilevel problem, and the bound of the inner multipliers.
    BilevelStart {
        /// Largest violation of a row at the start.
        violation: f64,
        /// Bound of the multipliers.
        bound: f64,
        /// Unit of the multipliers.
        unit: f64,
    },
    /// The pessimistic and the optimistic value could not be computed.
    BilevelValueFailed {
        /// The error.
        reason: String,
    },
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
    /// A bilevel problem was solved in units of its own, which slacks, rows and settings are in.
    BilevelUnits {
        /// Unit of the outer objective.
        outer: f64,
        /// Unit of the inner objective.
        inner: f64,
    },
    /// Gradients of a bilevel problem are differences of values.
    GradientDifferences,
    /// A multiplier of the inner maximisation is at its bound.
    InnerMultiplierAtBound {
        /// The bound.
        bound: f64,
    },

    /// Sentence of a note that was stored by an older version, or of an unknown kind.
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

/// Size of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Number of rows.
    Rows,
    /// Number of columns.
    Columns,
    /// Number of rows that pass the filter of the set.
    FilteredRows,
}

/// Why a column of a table is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// An earlier column has the same name.
    RepeatedName,
    /// All cells are missing.
    Missing,
    /// All cells are the same.
    Constant,
    /// The cells count up from row to row.
    RowNumbers,
    /// The cells are text and all different.
    AllDifferent {
        /// Number of values.
        values: usize,
    },
    /// No value is frequent enough.
    NoFrequentValue {
        /// Number of values.
        values: usize,
        /// Number of rows that a value needs.
        least: usize,
    },
}

impl Display for DropReason {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            DropReason::RepeatedName => write!(f, "it is a second column of that name"),
            DropReason::Missing => write!(f, "all its cells are missing"),
            DropReason::Constant => write!(f, "all its cells are the same"),
            DropReason::RowNumbers => write!(f, "it counts up from row to row, as row numbers do"),
            DropReason::AllDifferent { values } => write!(f, "its {} values are text and all different", thousands(*values)),
            DropReason::NoFrequentValue { values, least } => {
                let rows = if *least == 1 { "row" } else { "rows" };
                write!(f, "it has {} different values, and none of them is in at least {least} {rows}", thousands(*values))
            }
        }
    }
}

/// Cause of a stalled line search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// The possible decrease is below rounding errors.
    Rounding,
    /// The objective has a kink at the point.
    Kink,
    /// No point along the direction decreases the merit function of `sqp`: a function has a kink there, or gradients are inexact.
    NoDecrease,
}

/// Maximum number of groups listed in a warning.
const LISTED_GROUPS: usize = 6;
/// Number of constraints up to which the note on estimated constants lists each one.
const LISTED_CONSTANTS: usize = 8;

impl Display for Note {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::Continued { iteration } => write!(f, "continued from iteration {iteration}"),
            Note::ThreadsLimited { requested, used } => {
                write!(f, "{requested} threads were requested; {used} are used, because sums have at most {used} parts")
            }
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
            Note::LineSearchStalled { gradient, cause: StallCause::NoDecrease, .. } => write!(
                f,
                "sqp stalled at gradient norm {gradient:.2e} of the Lagrangian: no point along its direction decreases the merit \
                 function, because a function has a kink or gradients are inexact"
            ),
            Note::LineSearchStalled { gradient, tolerance, cause } => {
                let cause = match cause {
                    StallCause::Rounding | StallCause::NoDecrease => {
                        "no step decreases the objective by more than rounding errors"
                    }
                    StallCause::Kink => "the objective has a kink there, and the point may be far from a solution",
                };
                write!(
                    f,
                    "{} stalled at gradient norm {gradient:.2e}, above the tolerance {tolerance:.2e}: {cause}",
                    SolverName::Lbfgs
                )
            }
            Note::EvaluationsUsed { evaluations, limit, limited } => {
                write!(
                    f,
                    "the objective was evaluated {} times, of at most {}",
                    thousands(*evaluations as usize),
                    thousands(*limit as usize)
                )?;
                if *limited {
                    f.write_str("; the limit ended the search, and a larger max_evaluations may give a better point")
                } else {
                    Ok(())
                }
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
                write!(
                    f,
                    "'{constraint}': training bounded the surrogate by {surrogate_bound:.4}, so that the measured value makes full use of \
                     the bound {bound}"
                )
            }
            Note::InterceptShifted { shift, gain, standard_error, satisfied_before } => {
                let gain = 100.0 * gain;
                if *satisfied_before {
                    let error = 100.0 * standard_error;
                    write!(
                        f,
                        "the intercept was moved by {shift:.3}, which raises the accuracy on the training rows by {gain:.2} (standard error {error:.2}) percentage points within the bounds"
                    )
                } else {
                    write!(
                        f,
                        "the intercept was moved by {shift:.3} so that every bound is satisfied on the training rows; the accuracy there changed by {gain:.2} percentage points"
                    )
                }
            }
            Note::RatesCounted { satisfied_before: true } => {
                write!(
                    f,
                    "the bounds are satisfied at a smaller sum of objective and error rate than by training with surrogates; a search that counts predictions found the weights"
                )
            }
            Note::RatesCounted { satisfied_before: false } => {
                write!(
                    f,
                    "training with surrogates satisfied the bounds on the training rows for no surrogate bound; a search that counts predictions found the weights"
                )
            }
            Note::TemperatureLowered { constraint, factor } => {
                write!(
                    f,
                    "'{constraint}': the surrogate was too smooth to keep the bound and was made {:.0} times steeper (temperature \
                     multiplied by {factor})",
                    1.0 / factor
                )
            }
            Note::NotConverged { ended } => {
                write!(f, "training did not converge ({ended}); allow more iterations or time")
            }
            Note::DegenerateModel { cause } => fmt_degeneracy(cause, f),
            Note::SmallGroups { constraint, bound, groups } => {
                write!(
                    f,
                    "'{constraint}' <= {bound} need not hold for new rows of small groups, whose rates are uncertain by more: "
                )?;
                let shown: Vec<String> = groups.iter().take(LISTED_GROUPS).map(group_size).collect();
                write!(f, "{}", shown.join(", "))?;
                let rest = groups.len() - shown.len();
                if rest > 0 { write!(f, " and {rest} more") } else { Ok(()) }
            }
            Note::SafetySetTooSmall { constraint, bound, confidence, groups } => {
                write!(f, "'{constraint}' <= {bound} can hardly be promised with {} confidence: ", percent(*confidence))?;
                let shown: Vec<String> = groups.iter().take(LISTED_GROUPS).map(promise_size).collect();
                write!(f, "{}", shown.join(", "))?;
                let rest = groups.len() - shown.len();
                if rest > 0 { write!(f, " and {rest} more") } else { Ok(()) }
            }
            Note::PromiseNotConfirmed { confidence, rows, constraints } => {
                write!(f, "no bound is promised for unseen rows: ")?;
                for (i, c) in constraints.iter().enumerate() {
                    let and = if i > 0 { "; " } else { "" };
                    write!(
                        f,
                        "{and}'{}' is {:.4} on the {} rows of the safety set, with {} confidence at most {:.4}, above its bound {}; ",
                        c.name,
                        c.value,
                        thousands(*rows),
                        percent(*confidence),
                        c.at_most,
                        c.bound
                    )?;
                    match c.rows_needed {
                        Some(needed) => write!(
                            f,
                            "at these rates about {} more rows in the safety set would be needed",
                            thousands(needed.saturating_sub(*rows))
                        )?,
                        None => write!(f, "more rows with these rates would not help")?,
                    }
                }
                Ok(())
            }
            Note::ManyGroups { groups } => write!(
                f,
                "{} groups are compared; training is slow, and most groups are too small for a bound to hold for new rows; merge groups, or \
                 compare one value of a column with all others",
                thousands(*groups)
            ),
            Note::LabelGivenAway { feature, balanced_accuracy } => write!(
                f,
                "feature {} alone predicts the label with a balanced accuracy of {balanced_accuracy:.3}; leave it out if it is not \
                 known when predictions are made",
                quote(feature)
            ),
            Note::GapMeaning { function, groups, comparison } => {
                write!(f, "'{function}' is the {} ({groups} groups)", comparison.describe())
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
            Note::BilevelUnits { outer, inner } => write!(
                f,
                "slacks, rows and settings are in units of the problem: {outer:.3e} of the outer objective, {inner:.3e} of the inner one"
            ),
            Note::GradientDifferences => {
                write!(f, "gradients are differences of values; give gradients for more accuracy and fewer calls")
            }
            Note::FiniteDifferences => {
                write!(f, "products with second derivatives are differences of gradients, exact to about eight digits")
            }
            Note::InnerMultiplierAtBound { bound } => {
                write!(f, "a multiplier of the inner maximisation is at its bound {bound}; use a larger multiplier_bound")
            }
            data => data.fmt_data(f),
        }
    }

    fn fmt_data(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::StandIn { name, set } => write!(
                f,
                "{name} is a stand-in shaped like {set}: its rows are made up, and results on it say nothing about {set}"
            ),
            Note::GeneratedRows { name, rows, columns, sensitive } => {
                let kind = if *sensitive > 0 { format!(", {sensitive} of them sensitive") } else { String::new() };
                write!(
                    f,
                    "{name} is made up: {rows} rows of {columns} Gaussian columns{kind}, labels of a linear model with noise"
                )
            }
            Note::SizeDiffers { set, quantity, found, expected } => {
                let quantity = match quantity {
                    Quantity::Rows => "rows",
                    Quantity::Columns => "columns",
                    Quantity::FilteredRows => "rows after its filter",
                };
                write!(f, "{set} has {found} {quantity} here; the catalogue's copy has {expected}")
            }
            Note::UnknownOutcomes { set, unknown, rows, label, values } => write!(
                f,
                "{set}: {unknown} of {rows} rows have an unknown outcome ({label} is {}) and count as -1",
                quoted(values)
            ),
            Note::ChecksumDiffers { file, set } => write!(
                f,
                "{file}: its sha256 is not that of the catalogue's copy of {set}, so numbers may differ from published ones"
            ),
            Note::ChecksumNotChecked { file } => {
                write!(f, "{file}: its sha256 was not checked, because only that of the gzip is known")
            }
            Note::NotPrepared { reason } => write!(f, "specs cannot use it: {reason}"),
            Note::BinaryFileReplaced { file, reason } => write!(f, "{file} {reason}; it was written again from the text"),
            Note::ColumnsLeftOut { columns, used } => {
                write!(f, "of {} columns, only the {} that have an entry are features", thousands(*columns), thousands(*used))
            }
            Note::BinaryFileSaved { file, binary } => write!(f, "{file} is stored in binary form in {binary}"),
            Note::BinaryFileNotSaved { file, reason } => write!(f, "{file} is not stored in binary form: {reason}"),
            Note::StandInReplaced { reason } => write!(f, "{reason}; it was generated again"),
            Note::StandInNotSaved { reason } => write!(f, "the stand-in is in memory and was not stored: {reason}"),
            Note::ColumnDropped { column, reason } => write!(f, "column {} is not used: {reason}", quote(column)),
            Note::UnknownValues { column, rows, examples } => write!(
                f,
                "column {}: {} a value that the model was not trained on, such as {}, which counts as none of its values",
                quote(column),
                rows_have(*rows),
                quoted(examples)
            ),
            Note::UnknownMissing { column, rows, numeric } => write!(
                f,
                "column {}: {} no value, which the model was not trained on and counts as {}",
                quote(column),
                rows_have(*rows),
                if *numeric { "the mean" } else { "none of its values" }
            ),
            Note::PositiveInferred { column, value, rows, of, rarer } => write!(
                f,
                "label {}: {} counts as positive ({} of {} rows), because it is {}",
                quote(column),
                quote(value),
                thousands(*rows),
                thousands(*of),
                if *rarer { "the rarer value" } else { "the last in order" }
            ),
            Note::SmallGroup { column, group } => {
                write!(f, "group {} of column {} has only one row", quote(group), quote(column))
            }
            model => model.fmt_model(f),
        }
    }

    fn fmt_model(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::ReferenceValue { best } => write!(f, "{best}"),
            Note::DomainChosen { domain } => {
                write!(f, "the weights and the intercept stay in a {domain} around 0, because the objective has a variance")
            }
            Note::Regularized { factor, numerator, rows } => write!(
                f,
                "{factor} * ridge is added to the objective, which is {numerator} / n for {rows} training rows, as in scikit-learn's \
                 LogisticRegression with C = 1 on standardised columns"
            ),
            Note::NotRegularized { term, penalty: true } => {
                write!(f, "no regularisation is added, because the objective has the penalty {term}")
            }
            Note::NotRegularized { term, penalty: false } => write!(
                f,
                "no regularisation is added, because {term} in the objective is not a mean loss; a number for regularization adds \
                 it"
            ),
            Note::ConstraintCount { constraints } => write!(f, "{constraints} constraints"),
            Note::TransportPlan { sides: [m, n], constant, published } => write!(
                f,
                "the transport plan is a variable: {m} x {n} numbers beside the model's; weak-convexity constant {constant:.4} \
                 (published: norm_F(A_p) + norm_F(A_u) = {published:.4})"
            ),
            Note::OnHeldOutRows { note } => write!(f, "held-out rows: {note}"),
            Note::HeldOutUnusable { reason } => write!(f, "the held-out rows cannot be used: {reason}"),
            Note::HeldOutNotMeasured { reason } => write!(f, "held-out rows are not measured: {reason}"),
            Note::HeldOutConstraintsNotMeasured { reason } => {
                write!(f, "constraints are not measured on the held-out rows: {reason}")
            }
            Note::OtherData { file } => write!(
                f,
                "{file} is not the file that the model was trained on (its sha256 differs): its rows are divided in the same way, and \
                 the model may have been trained on any of them"
            ),
            Note::BoundDiffers { constraint, recorded, bound } => write!(
                f,
                "'{constraint}': the model file records a bound of {recorded}, but the requested bound is {bound}, which is used here"
            ),
            Note::ValueDiffers { constraint, recorded, value } => write!(
                f,
                "'{constraint}': the model file records {recorded:.6}, but on the same rows it is {value:.6}: the file was changed \
                 after training"
            ),
            Note::PlanCompleted => write!(f, "the point has no transport plan; an optimal one for its model is used"),
            Note::OtherProblem { point, spec } => write!(f, "{point} is the outcome of another problem than that of {spec}"),
            Note::FirstConstraintSwept { constraint, constraints } => {
                write!(f, "sweeping the bound of '{constraint}', the first of {constraints} constraints")
            }
            Note::BoundRepeated { bound, tighter } => {
                write!(f, "bound {bound} gave a worse objective than {tighter} and was run again from that point")
            }
            Note::BoundNotRepeated { bound, tighter, reason } => {
                write!(f, "bound {bound} could not be run again from the point of bound {tighter}: {reason}")
            }
            Note::PointShared { bound, tighter } => {
                write!(f, "bound {bound} gave a worse objective than {tighter}, also from that point, which is the best for both")
            }
            Note::StationarityNotBounded { reason } => write!(f, "no stationarity bound was computed: {reason}"),
            Note::BilevelStart { violation, bound, unit } => write!(
                f,
                "the start satisfies all rows within {:.1e}; multipliers of the inner problem are at most {bound:.4}, in units of \
                 {unit:.4}",
                violation.max(0.0)
            ),
            Note::BilevelValueFailed { reason } => {
                write!(f, "the pessimistic and the optimistic value were not computed: {reason}")
            }
            choice => choice.fmt_choice(f),
        }
    }

    fn fmt_choice(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Note::ChoiceProblem { evidence } => write!(f, "{}", evidence.problem()),
            Note::SolverChosen { evidence } => write!(f, "{}", evidence.decision()),
            Note::Repeat { solver, settings, seed } => {
                write!(f, "to repeat: name = \"{solver}\"")?;
                settings.iter().try_for_each(|(name, value)| write!(f, ", {name} = {value}"))?;
                seed.map_or(Ok(()), |seed| write!(f, ", seed = {seed}"))
            }
            Note::BetaChosen { beta } => {
                write!(f, "beta = {beta:.4}: 0.02 times the larger of 1 and the objective at the start")
            }
            Note::SigmaChosen { sigma } => write!(
                f,
                "sigma = {sigma:.4}: the curvature of the functions around the start and between the centres of pilot runs"
            ),
            Note::InnerIterationsChosen { inner_iterations, search } => {
                let why = match search {
                    InnerIterations::Settled => "with twice as many, a pilot run ends at nearly the same point",
                    InnerIterations::Most => "the largest number that is tried",
                    InnerIterations::CutShort => "the pilot runs ended before larger numbers were tried",
                };
                write!(f, "inner_iterations = {inner_iterations}: {why}")
            }
            Note::OuterChosen { outer, decrease } => write!(
                f,
                "outer = {outer}: a subproblem of the pilot run lowered the objective by {decrease:.1e}; fewer if the centres settle"
            ),
            Note::NoFeasibleCell { solver, panel } => {
                write!(f, "{solver} on {panel}: no cell satisfied the constraints; the least infeasible one was chosen")
            }
            Note::EveryCellFailed { solver, panel } => write!(f, "{solver} on {panel}: every cell failed; the first was chosen"),
            other => write!(f, "{other:?}"),
        }
    }

    /// Returns whether the note is a warning: the result may be useless or mean less than it seems to.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Note::NotConverged { .. }
                | Note::DegenerateModel { .. }
                | Note::SmallGroups { .. }
                | Note::SafetySetTooSmall { .. }
                | Note::PromiseNotConfirmed { .. }
                | Note::ManyGroups { .. }
                | Note::LabelGivenAway { .. }
        )
    }

    /// Returns a note if more threads are requested than can be used.
    pub fn threads(requested: usize) -> Option<Self> {
        let used = crate::math::reduce::MAX_THREADS;
        (requested > used).then_some(Note::ThreadsLimited { requested, used })
    }

    /// Returns the note on a reference value. The minimiser is left out.
    pub fn reference(best: &Best) -> Self {
        Note::ReferenceValue { best: Box::new(Best { minimizer: vec![], ..best.clone() }) }
    }
}

fn fmt_degeneracy(cause: &Degeneracy, f: &mut Formatter) -> fmt::Result {
    match cause {
        Degeneracy::ConstantScore { objective, constant, score } => write!(
            f,
            "the model is no better than the same score for every row: its objective is {objective:.4}, that of the constant score \
             {score:.3} is {constant:.4}"
        ),
        Degeneracy::NearlyConstant { rarer, rows, positive, label_share } => write!(
            f,
            "the predictions are nearly constant: {} of {} rows are predicted {}, but {:.1}% have the rarer label",
            thousands(*rarer),
            thousands(*rows),
            if *positive { "positive" } else { "negative" },
            100.0 * label_share
        ),
        Degeneracy::Guessing { balanced_accuracy, standard_error } => write!(
            f,
            "the predictions are no better than guessing: the balanced accuracy on the training rows is {balanced_accuracy:.3} \
             (standard error {standard_error:.3})"
        ),
    }
}

fn group_size(size: &GroupSize) -> String {
    format!("{}{} ({}, ±{:.3})", quote(&size.group), with_label(size.label), some_rows(size.rows), size.uncertainty)
}

fn promise_size(size: &PromiseSize) -> String {
    let whom = match &size.group {
        group if group.is_empty() => "the safety set".into(),
        group => format!("group {}", quote(group)),
    };
    let (rows, needed) = (some_rows(size.rows), thousands(size.needed));
    let place = if size.group.is_empty() { "" } else { " in the safety set" };
    format!("{whom} has {rows}{}{place} and needs about {needed}", with_label(size.label))
}

fn with_label(label: Option<i8>) -> &'static str {
    match label {
        Some(label) if label > 0 => " with positive label",
        Some(_) => " with negative label",
        None => "",
    }
}

fn some_rows(rows: usize) -> String {
    if rows == 1 { "1 row".into() } else { format!("{} rows", thousands(rows)) }
}

/// Quotes a name or a cell of a table: short and printable.
fn quote(text: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let rest = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("'{shown}{rest}'")
}

fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", ")
}

fn rows_have(rows: usize) -> String {
    if rows == 1 { "1 row has".into() } else { format!("{} rows have", thousands(rows)) }
}

/// Formats a count with commas between thousands.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
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
            note => Labelled { note, text: note.to_string(), warning: note.is_warning() }.serialize(serializer),
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
    fn thousands_have_commas() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(n), text);
        }
    }

    #[test]
    fn sentences_and_unknown_kinds_are_read() {
        let read = |text: &str| serde_json::from_str::<Note>(text).unwrap();
        assert_eq!(read(r#""continued from iteration 7""#), Note::Text("continued from iteration 7".into()));
        assert_eq!(read(r#"{"kind": "of-tomorrow", "number": 1, "text": "news"}"#), Note::Text("news".into()));
        let text = Note::Text("a sentence".into());
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

    #[test]
    fn notes_with_enums_references_and_other_notes_are_read_again() {
        let best = Best {
            expression: "hinge".into(),
            value: 0.25,
            unit: 1.0,
            lower: 0.25,
            scope: crate::learn::Scope::Everywhere,
            minimizer: vec![1.0],
            shortest: true,
            norm: 1.0,
            scores: [-1.0, 1.0],
            evaluations: 7,
        };
        let inner = Note::UnknownMissing { column: "age".into(), rows: 1200, numeric: true };
        for (note, kind, text) in [
            (
                Note::ColumnDropped { column: "id".into(), reason: DropReason::AllDifferent { values: 1000 } },
                "column-dropped",
                "column 'id' is not used: its 1,000 values are text and all different",
            ),
            (
                Note::SizeDiffers { set: "bank".into(), quantity: Quantity::FilteredRows, found: 3, expected: 4 },
                "size-differs",
                "bank has 3 rows after its filter here; the catalogue's copy has 4",
            ),
            (
                Note::reference(&best),
                "reference-value",
                "best(hinge) = 0.250000 (proved to 1e-7 for all weights), least norm 1.000000, 7 evaluations",
            ),
            (
                Note::OnHeldOutRows { note: Box::new(inner) },
                "on-held-out-rows",
                "held-out rows: column 'age': 1,200 rows have no value, which the model was not trained on and counts as the mean",
            ),
            (
                Note::InnerIterationsChosen { inner_iterations: 8, search: InnerIterations::Most },
                "inner-iterations-chosen",
                "inner_iterations = 8: the largest number that is tried",
            ),
        ] {
            let json = serde_json::json!(note);
            assert_eq!((&json["kind"], &json["text"]), (&kind.into(), &text.into()));
            assert_eq!(serde_json::from_value::<Note>(json).unwrap(), note);
        }
    }
}
