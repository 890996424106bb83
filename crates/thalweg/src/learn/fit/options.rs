//! Options of training and the settings that it starts from.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::run::Budget;
use crate::solvers::{Config, Schedule, SolverName, bundle, ssg};
use crate::{Error, Result};

/// Left-hand side of a constraint on rates that must satisfy the requested bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforce {
    /// The 0/1 rate on the training rows; the surrogate bound is tightened until it does.
    #[default]
    Measured,
    /// The surrogate only.
    Surrogate,
}

/// Options of [`fit`](super::fit()).
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// The solver and its settings, see [`training_config`]; chosen automatically if absent. `eta` and `tol` of the switching
    /// subgradient method are set by the trainer.
    pub solver: Option<Config>,
    /// Step size of the switching subgradient method; chosen by pilot runs if absent.
    pub eta: Option<Schedule>,
    /// Switching tolerance, by which the bounds are tightened. By default a hundredth of the smallest bound.
    pub tol: Option<f64>,
    /// Limits for the pilot runs and all rounds together. The iteration limit is never exceeded; for passes, samples and seconds,
    /// the step that reaches the limit is the last one. Default 3,000 iterations and 60 seconds, or 30 passes for solvers that
    /// step on single rows.
    pub budget: Budget,
    /// Which left-hand side of constraints on rates must satisfy the bound.
    pub enforce: Enforce,
    /// Random seed of every run.
    pub seed: u64,
    /// A constraint is satisfied if it exceeds its bound by at most `feasibility * max(1, |bound|)`.
    pub feasibility: f64,
    /// Number of threads for sums over rows.
    pub threads: usize,
    /// Flag that ends training at the next step when set from elsewhere (a signal handler, another thread).
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl FitOptions {
    /// Checks that every option is in range.
    pub fn validate(&self) -> Result<()> {
        self.budget.validate()?;
        for (name, value) in [("tol", self.tol.unwrap_or(0.0)), ("feasibility", self.feasibility)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number of at least 0"));
            }
        }
        if self.threads == 0 {
            return Err(Error::setting("threads", 0, "at least 1"));
        }
        if let Some(eta) = self.eta {
            ssg::Settings { eta, ..ssg::Settings::default() }.resolve()?;
        }
        if let Some(config) = self.solver.clone() {
            config.resolve()?;
        }
        Ok(())
    }
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            solver: None,
            eta: None,
            tol: None,
            budget: Budget { iterations: Some(3000), seconds: Some(60.0), ..Budget::default() },
            enforce: Enforce::Measured,
            seed: 0,
            feasibility: 1e-6,
            threads: 1,
            interrupt: None,
        }
    }
}

/// Returns the settings that training with a solver starts from, which for some solvers differ from its defaults.
pub fn training_config(solver: SolverName) -> Config {
    with_training_defaults(solver.config(), |_| false)
}

/// Replaces settings that are not `given` by those that training starts from.
pub fn with_training_defaults(config: Config, given: impl Fn(&str) -> bool) -> Config {
    match config {
        Config::Bundle(settings) if !given("eps") => Config::Bundle(bundle::Settings { eps: 1e-3, ..settings }),
        Config::Ssg(settings) if !given("infeasible_step") => {
            Config::Ssg(ssg::Settings { infeasible_step: ssg::InfeasibleStep::Polyak, ..settings })
        }
        other => other,
    }
}
