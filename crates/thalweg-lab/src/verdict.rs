//! The verdict of a command: the status of its result, its exit code, and whether the run was complete. Every command that runs a
//! solver or measures a point uses these, and so does the Python package.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use thalweg::run::{Limit, StopReason};
use thalweg::solvers::SolverName;

/// Exit code of a command that succeeded with a feasible result.
pub const DONE: u8 = 0;
/// Exit code if the result is infeasible, a run failed, or a required target was not reached.
pub const MISSED: u8 = 1;
/// Exit code if the input is invalid and nothing was done; the reason is printed to standard error.
pub const REFUSED: u8 = 2;
/// Exit code after an interrupt by the user. The best point so far is saved.
pub const INTERRUPTED: u8 = 130;

/// Status of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The returned point satisfies every constraint. The run converged, reached a target or stopped at a limit.
    Feasible,
    /// The returned point violates a constraint.
    Infeasible,
    /// The returned point violates a constraint, and the solver called the constraints conflicting, but a feasible point is known.
    Withdrawn,
    /// A value was not finite or could not be computed.
    Failed,
    /// The user interrupted the run.
    Interrupted,
    /// The run could not start.
    Refused,
}

impl Status {
    /// Returns the status of a run with this stop reason, at a point that is feasible or not.
    pub fn of(ended: &StopReason, feasible: bool) -> Self {
        match (ended, feasible) {
            (StopReason::Interrupted, _) => Status::Interrupted,
            (StopReason::Failed { .. }, _) => Status::Failed,
            (StopReason::Withdrawn { .. }, false) => Status::Withdrawn,
            (StopReason::Infeasible { .. }, _) | (_, false) => Status::Infeasible,
            (_, true) => Status::Feasible,
        }
    }

    /// Returns the status of a command with several runs or checks.
    pub fn of_all(interrupted: bool, feasible: bool) -> Self {
        match (interrupted, feasible) {
            (true, _) => Status::Interrupted,
            (false, true) => Status::Feasible,
            (false, false) => Status::Infeasible,
        }
    }

    /// Returns the status as a word, as in the store.
    pub fn word(self) -> &'static str {
        match self {
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
            Status::Withdrawn => "withdrawn",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
            Status::Refused => "refused",
        }
    }

    /// Parses the word of a status.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Status::Feasible, Status::Infeasible, Status::Withdrawn, Status::Failed, Status::Interrupted, Status::Refused];
        all.into_iter().find(|status| status.word() == word)
    }

    /// Returns whether the run failed or could not start, so that there is no result.
    pub fn is_failure(self) -> bool {
        matches!(self, Status::Failed | Status::Refused)
    }

    /// Returns the exit code of a command with this result.
    pub fn exit_code(self) -> u8 {
        match self {
            Status::Feasible => DONE,
            Status::Infeasible | Status::Withdrawn | Status::Failed => MISSED,
            Status::Refused => REFUSED,
            Status::Interrupted => INTERRUPTED,
        }
    }

    /// Returns the exit code in the form of the operating system.
    pub fn exit(self) -> ExitCode {
        ExitCode::from(self.exit_code())
    }
}

/// Whether a run met the stopping criterion of its solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The solver finished, or the run reached a target.
    Finished,
    /// The run used its budget as planned: its solver has no stopping criterion.
    Planned,
    /// A limit ended the run before the stopping criterion of its solver was met, or a verdict of infeasibility is withdrawn.
    Unfinished,
    /// The run was interrupted or failed.
    Aborted,
}

impl Completion {
    /// Returns the completion of a run of the named solver. A solver that is not registered counts as one without a criterion.
    pub fn of(solver: &str, ended: &StopReason) -> Self {
        match ended {
            StopReason::Finished | StopReason::Target(_) | StopReason::Infeasible { .. } => Completion::Finished,
            StopReason::Withdrawn { .. } => Completion::Unfinished,
            StopReason::Interrupted | StopReason::Failed { .. } => Completion::Aborted,
            // The direct search of bilevel problems is in no list of solvers.
            StopReason::Budget(_) if solver == "direct" || solver.parse().is_ok_and(SolverName::has_stopping_criterion) => {
                Completion::Unfinished
            }
            StopReason::Budget(_) => Completion::Planned,
        }
    }

    /// Describes why a run with this completion ended.
    pub fn reason(self, ended: &StopReason) -> String {
        match (self, ended) {
            (Completion::Planned, StopReason::Budget(Limit::Iterations)) => {
                "ran the planned iterations, no stopping criterion".into()
            }
            (Completion::Planned, _) => format!("{ended}, no stopping criterion"),
            _ => ended.to_string(),
        }
    }

    /// Returns the headline of a result: whether its point is feasible, whether the run was complete, and why it ended.
    pub fn headline(self, ended: &StopReason, feasible: bool) -> String {
        let state = if feasible { "feasible" } else { "not feasible" };
        match self {
            Completion::Planned => format!("{state}; {}", self.reason(ended)),
            Completion::Unfinished => format!("{state}, not finished: {ended}"),
            Completion::Finished | Completion::Aborted => ended.headline(feasible),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::run::Evidence;

    #[test]
    fn every_ending_has_one_sentence_and_one_code() {
        let failed = StopReason::Failed { iteration: 3, reason: "the objective is inf".into() };
        let conflict = StopReason::Infeasible { conflicting: vec!["a".into(), "b".into()], everywhere: false, radius: None };
        let all = [
            (StopReason::Budget(Limit::Iterations), true, "feasible, not finished: stopped at the iteration limit", DONE),
            (StopReason::Budget(Limit::Seconds), false, "not feasible, not finished: stopped at the time limit", MISSED),
            (StopReason::Finished, true, "feasible; the solver finished", DONE),
            (
                conflict,
                false,
                "infeasible; constraints 'a' and 'b' conflict near this point, by estimated constants, not proved",
                MISSED,
            ),
            (
                StopReason::Withdrawn { conflicting: vec!["a".into()], evidence: Evidence::FeasiblePoint { distance: 0.5 } },
                false,
                "not feasible, not finished: the solver's verdict that constraint 'a' cannot be satisfied is withdrawn, because a \
                 point 5.0e-1 away is feasible",
                MISSED,
            ),
            (failed, true, "failed at iteration 3: the objective is inf", MISSED),
            (StopReason::Interrupted, true, "feasible; interrupted", INTERRUPTED),
            (StopReason::Interrupted, false, "not feasible; interrupted", INTERRUPTED),
        ];
        for (ended, feasible, words, code) in all {
            assert_eq!(Completion::of("bundle", &ended).headline(&ended, feasible), words);
            assert_eq!(Status::of(&ended, feasible).exit_code(), code, "{words}");
        }
    }

    #[test]
    fn a_solver_without_a_stopping_criterion_is_not_called_finished() {
        let (iterations, seconds) = (StopReason::Budget(Limit::Iterations), StopReason::Budget(Limit::Seconds));
        for solver in ["ssg", "dszog", "a solver of one's own"] {
            let completion = Completion::of(solver, &iterations);
            assert_eq!(completion, Completion::Planned);
            assert_eq!(completion.headline(&iterations, true), "feasible; ran the planned iterations, no stopping criterion");
            assert_eq!(completion.headline(&seconds, false), "not feasible; stopped at the time limit, no stopping criterion");
        }
        assert_eq!(Completion::of("lbfgs", &seconds), Completion::Unfinished);
        assert_eq!(Completion::of("ssg", &StopReason::Interrupted), Completion::Aborted);
    }

    #[test]
    fn stored_words_are_read_back() {
        for status in
            [Status::Feasible, Status::Infeasible, Status::Withdrawn, Status::Failed, Status::Interrupted, Status::Refused]
        {
            assert_eq!(Status::from_word(status.word()), Some(status));
        }
        assert_eq!(Status::from_word("fine"), None);
    }
}
