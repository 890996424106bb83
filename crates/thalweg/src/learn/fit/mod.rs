//! Training without tuning: a pilot chooses the step, rounds tighten soft bounds until the counted 0/1 rates keep the
//! user's. Files, tables of raw columns and printing are not done here.

mod budget;
mod options;
mod trainer;

use serde::{Deserialize, Serialize};

pub use options::{Enforce, FitOptions, training_config, with_training_defaults};

use self::trainer::Trainer;
use super::problem::Learning;
use crate::auto::{self, Choice};
use crate::eval::Passes;
use crate::run::{self, Budget, Observer, Options, Point, Row, StopReason};
use crate::solvers::{AnySolver, Config, FirstOrder, Needs, Schedule, SolverName, Stationary, ssg};
use crate::{Error, Result};

/// A constraint of a trained model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedConstraint {
    /// Its name.
    pub name: String,
    /// The user's bound.
    pub bound: f64,
    /// The bound that the soft form was trained with.
    pub surrogate_bound: f64,
    /// By how much the temperature of the soft form was lowered; 1 if it was not.
    pub sharpened: f64,
    /// The left-hand side as it was trained.
    pub surrogate: f64,
    /// The left-hand side with counted rates; none for a constraint that softens nothing.
    pub measured: Option<f64>,
    /// What had to hold holds.
    pub kept: bool,
}

/// A trained model and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The point, measured on all training rows against the user's bounds.
    pub point: Point,
    /// Every constraint.
    pub constraints: Vec<FittedConstraint>,
    /// Every constraint is kept on the side that was to be enforced.
    pub feasible: bool,
    /// Why the last run ended.
    pub ended: StopReason,
    /// The method that trained.
    pub solver: String,
    /// The step size of the main run, where the method has one.
    pub eta: Option<Schedule>,
    /// The multiplier of each constraint of the problem with the tightened bounds, where the method has them.
    pub multipliers: Option<Vec<f64>>,
    /// What the method proved about the point: near-stationarity of the problem with the tightened bounds.
    pub stationary: Option<Stationary>,
    /// How steep an objective of the form of an inf-projection is at the point, see [`run::Outcome::slope`].
    #[serde(default)]
    pub slope: Option<f64>,
    /// The solver that was chosen and why, where none was named. It repeats the training with the same options.
    pub choice: Option<Choice>,
    /// Training runs after the pilot.
    pub rounds: u64,
    /// Steps of all runs.
    pub iterations: u64,
    /// Work of all runs.
    pub passes: Passes,
    /// Samples that all runs read.
    pub samples: u64,
    /// Time of all runs, without measuring.
    pub seconds: f64,
    /// Recorded iterates of the training runs, against the user's bounds.
    pub trace: Vec<Row>,
    /// What a careful reader should know.
    pub notes: Vec<crate::Note>,
}

/// Limit for solvers that step on single rows, where the user gives none.
const PASSES: f64 = 30.0;

/// Trains on `problem` from `start`. The problem's bounds are the user's; they are moved while training and put back.
pub fn fit(problem: &mut Learning, start: &[f64], options: &FitOptions, observer: &mut (dyn Observer + Send)) -> Result<Fitted> {
    options.validate()?;
    let (config, choice) = match &options.solver {
        Some(config) => (config.clone(), None),
        None => {
            let choice = auto::choose(problem);
            if !choice.config.name().takes_constraints() {
                let run = run_options(choice.config.name(), options);
                let choice = auto::prepare(problem, start, &run)?;
                return train_alone(problem, start, &choice.config.clone(), Some(choice), options, observer);
            }
            // Batches are not what the rounds are made for: where they would be chosen, the switching method trains.
            let bundle = choice.config.name() == SolverName::Bundle;
            let config = training_config(if bundle { SolverName::Bundle } else { SolverName::Ssg });
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

/// Builds a solver that training can use.
fn build(config: &Config) -> Result<Box<FirstOrder<'static>>> {
    match config.build()? {
        AnySolver::First(solver) => Ok(solver),
        AnySolver::Zeroth(_) => {
            Err(Error::Problem(format!("training needs a solver that uses subgradients, got {}", config.name())))
        }
    }
}

/// Options of a training run with this solver alone.
fn run_options(solver: SolverName, options: &FitOptions) -> Options {
    // A step on one row is not what the default number of iterations is meant for.
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

/// Trains in one run, a problem without constraints: there is nothing to tighten.
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
