//! Options of a run that do not depend on the solver.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Budget, MAX_LISTED_CONSTRAINTS, Metric, Record, StoppingRule};
use crate::{Error, Result, assess, certify};

/// Options of a run that do not depend on the solver.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limits on iterations, passes, samples and time.
    pub budget: Budget,
    /// Targets that end the run early. None by default.
    pub stop: StoppingRule,
    /// Iterates to measure and record.
    pub record: Record,
    /// Seed of every random generator of the run.
    pub seed: u64,
    /// Feasibility tolerance: a constraint is satisfied if its value is at most this times its unit. The unit is
    /// `max(1, |bound_j|)` for a problem in natural units, otherwise it is measured at the returned point, see
    /// [`constraint_units`](crate::eval::constraint_units).
    pub feasibility: f64,
    /// Threads for sums over rows. The results are the same, to the last bit, for any number of threads.
    pub threads: usize,
    /// Near-stationarity measures to compute at recorded iterates. None by default.
    pub certificate: assess::Measures,
    /// Check of the returned point after a zeroth-order run. `None` evaluates nothing after the run.
    pub zeroth_order_check: Option<certify::ZerothOrderCheck>,
    /// Lists every constraint of a measured point up to this number, and only the worst ones beyond it. Default: [`MAX_LISTED_CONSTRAINTS`].
    pub listed: usize,
    /// Projects an infeasible returned point onto the constraints, if the problem supports it. Off by default, because the
    /// projected point is no longer the one that the solver returned.
    pub repair: bool,
    /// Additional metrics of recorded iterates and of the returned point. None by default.
    pub metrics: Option<Arc<dyn Metric>>,
    /// Checkpoint to write, and to resume from. None by default.
    pub checkpoint: Option<Checkpoint>,
    /// Flag that ends the run before its next step. Set it from a signal handler or another thread.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// File and interval of checkpoints.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Path of the file.
    pub file: PathBuf,
    /// Time between two checkpoints. Longer if writing one takes more than a tenth of it.
    pub every: Duration,
    /// Resumes from the file if it exists.
    pub resume: bool,
    /// Description of the solver settings. A checkpoint written with different settings is rejected.
    pub settings: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            budget: Budget::default(),
            stop: StoppingRule::default(),
            record: Record::default(),
            seed: 0,
            feasibility: 1e-6,
            threads: 1,
            certificate: assess::Measures::default(),
            zeroth_order_check: Some(certify::ZerothOrderCheck::default()),
            listed: MAX_LISTED_CONSTRAINTS,
            repair: false,
            metrics: None,
            checkpoint: None,
            interrupt: None,
        }
    }
}

impl Options {
    /// Returns the default options with a limit of `n` iterations.
    pub fn iterations(n: u64) -> Self {
        Options { budget: Budget::iterations(n), ..Options::default() }
    }

    /// Checks that every option is in range.
    pub fn validate(&self) -> Result<()> {
        self.budget.validate()?;
        self.record.validate()?;
        self.stop.validate(&self.certificate)?;
        self.zeroth_order_check.iter().try_for_each(certify::ZerothOrderCheck::validate)?;
        if !(self.feasibility >= 0.0 && self.feasibility.is_finite()) {
            return Err(Error::setting("feasibility", self.feasibility, "a finite number of at least 0"));
        }
        if self.threads == 0 {
            return Err(Error::setting("threads", 0, "at least 1"));
        }
        Ok(())
    }

    /// Whether the interrupt flag is set.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
