//! Training without tuning: pilot runs choose the step size, and rounds tighten the surrogate bounds until the 0/1 rates satisfy
//! the requested ones. Files, tables of raw columns and printing do not belong here.

mod budget;
mod counted;
pub mod intercept;
mod options;
mod quality;
mod rounds;
mod trainer;
mod unseen;

use serde::{Deserialize, Serialize};

pub use options::{Enforce, FitOptions, training_config, with_training_defaults};
pub use quality::Degeneracy;
pub(crate) use unseen::percent;
pub use unseen::{Promise, PromisedConstraint, TestedCandidate, Unseen, fit_unseen};

use self::trainer::Trainer;
use super::problem::Learning;
use crate::auto::{self, Choice};
use crate::eval::Passes;
use crate::oracle::Description;
use crate::run::{self, Budget, Observer, Options, Point, Row, StopReason};
use crate::solvers::{AnySolver, Config, FirstOrder, Needs, Schedule, SolverName, Stationary, ssg};
use crate::{Error, Result, error::check_length};

/// Constraint of a trained model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedConstraint {
    /// Name.
    pub name: String,
    /// Requested bound.
    pub bound: f64,
    /// Bound on the surrogate that was used in training.
    pub surrogate_bound: f64,
    /// Factor by which the temperature of the surrogate was lowered; 1 if it was not.
    pub sharpened: f64,
    /// Left-hand side with surrogates.
    pub surrogate: f64,
    /// Left-hand side with 0/1 rates; `None` for a constraint without surrogates.
    pub measured: Option<f64>,
    /// Whether the enforced left-hand side satisfies the bound.
    #[serde(alias = "kept")]
    pub satisfied: bool,
}

/// Trained model with a record of its training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The point, measured on all training rows relative to the requested bounds.
    pub point: Point,
    /// Every constraint.
    pub constraints: Vec<FittedConstraint>,
    /// Whether every enforced constraint is satisfied.
    pub feasible: bool,
    /// Stop reason of the last run.
    pub ended: StopReason,
    /// Name of the solver.
    pub solver: String,
    /// Step size of the main run, if the solver has one.
    pub eta: Option<Schedule>,
    /// Multiplier of each constraint of the problem with the tightened bounds, if the solver computes them.
    pub multipliers: Option<Vec<f64>>,
    /// Near-stationarity of the point for the problem with the tightened bounds, if the solver proved it.
    pub stationary: Option<Stationary>,
    /// Slope of an objective of inf-projection form at the point, see [`run::Outcome::slope`].
    #[serde(default)]
    pub slope: Option<f64>,
    /// The chosen solver and the evidence, if none was named. It reproduces the training with the same options.
    pub choice: Option<Choice>,
    /// Number of training runs after the pilot runs.
    pub rounds: u64,
    /// Iterations of all runs.
    pub iterations: u64,
    /// Work of all runs.
    pub passes: Passes,
    /// Samples read by all runs.
    pub samples: u64,
    /// Time of all runs, excluding measurements.
    pub seconds: f64,
    /// Recorded iterates of the training runs, relative to the requested bounds.
    pub trace: Vec<Row>,
    /// Facts a careful reader should know about the result.
    pub notes: Vec<crate::Note>,
}

/// Default limit on passes for solvers that step on single rows.
const PASSES: f64 = 30.0;

/// Trains on `problem` from `start`. The bounds of the problem are the requested ones; they are changed during training and
/// restored afterwards.
pub fn fit(problem: &mut Learning, start: &[f64], options: &FitOptions, observer: &mut (dyn Observer + Send)) -> Result<Fitted> {
    options.validate()?;
    check_length("the start", start.len(), problem.dim())?;
    let mut notes = problem.group_notes()?;
    let mut fitted = train(problem, start, options, observer)?;
    notes.extend(quality::warnings(problem, &fitted, options.feasibility)?);
    notes.append(&mut fitted.notes);
    fitted.notes = notes;
    fitted.notes.extend(problem.comparison_notes());
    Ok(fitted)
}

/// Trains with the named solver, or with one that suits the problem.
fn train(problem: &mut Learning, start: &[f64], options: &FitOptions, observer: &mut (dyn Observer + Send)) -> Result<Fitted> {
    let (config, choice) = match &options.solver {
        Some(config) => (config.clone(), None),
        None => {
            let choice = auto::choose(problem);
            if !choice.config.name().takes_constraints() {
                let run = run_options(choice.config.name(), options);
                let choice = auto::prepare(problem, start, &run)?;
                return train_alone(problem, start, &choice.config.clone(), Some(choice), options, observer);
            }
            // The rounds are not designed for mini-batches. If a mini-batch solver would be chosen, the switching subgradient
            // method trains instead.
            let solver = match choice.config.name() {
                solver @ (SolverName::Sqp | SolverName::Bundle) => solver,
                _ => SolverName::Ssg,
            };
            let config = training_config(solver);
            (config, Some(choice))
        }
    };
    if !config.name().takes_constraints() {
        return train_alone(problem, start, &config, None, options, observer);
    }
    let mut trainer = Trainer::new(problem, config.clone(), options, observer);
    let result = trainer.train(start);
    trainer.put_back();
    result.map(|fitted| {
        let config = match (config, fitted.eta) {
            (Config::Ssg(settings), Some(eta)) => Config::Ssg(ssg::Settings { eta, ..settings }),
            (config, _) => config,
        };
        let choice = choice.map(|mut choice| {
            choice.evidence.solver = config.name();
            Choice { config, ..choice }
        });
        Fitted { choice, ..fitted }
    })
}

/// Creates a solver that training can use.
fn build(config: &Config) -> Result<Box<FirstOrder<'static>>> {
    match config.build()? {
        AnySolver::First(solver) => Ok(solver),
        AnySolver::Zeroth(_) => {
            Err(Error::Problem(format!("training needs a solver that uses subgradients, got {}", config.name())))
        }
    }
}

/// Returns the options of a single training run with this solver.
fn run_options(solver: SolverName, options: &FitOptions) -> Options {
    // The default number of iterations is not meant for steps on single rows.
    let by_rows = solver.needs() == Needs::InfProjection && options.budget == FitOptions::default().budget;
    Options {
        budget: if by_rows { Budget { passes: Some(PASSES), ..Budget::default() } } else { options.budget.clone() },
        seed: options.seed,
        feasibility: options.feasibility,
        threads: options.threads,
        interrupt: options.interrupt.clone(),
        ..Options::default()
    }
}

/// Trains a problem without constraints in a single run, since there are no bounds to tighten.
fn train_alone(
    problem: &Learning,
    start: &[f64],
    config: &Config,
    choice: Option<Choice>,
    options: &FitOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Fitted> {
    let mut run = run_options(config.name(), options);
    if let Some(choice) = &choice {
        run.budget = choice.work().leaves(&run.budget);
    }
    let outcome = run::minimize(problem, &mut *build(config)?, start, &run, observer)?;
    Ok(Fitted {
        feasible: outcome.point.feasible,
        point: outcome.point,
        constraints: vec![],
        ended: outcome.ended,
        solver: outcome.solver,
        eta: None,
        multipliers: None,
        stationary: None,
        slope: outcome.slope,
        choice,
        rounds: 1,
        iterations: outcome.iterations,
        passes: outcome.passes,
        samples: outcome.counts.samples(),
        seconds: outcome.seconds,
        trace: outcome.trace,
        notes: outcome.notes,
    })
}
