//! Limits of a run. The run stops at the first one that it reaches.

use serde::{Deserialize, Serialize};

use super::Limit;
use crate::eval::{Counts, Passes};
use crate::{Error, Result};

/// Limits on iterations, passes, samples and time. At least one must be given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Maximum number of steps.
    pub iterations: Option<u64>,
    /// Maximum number of passes over the data, objective and constraints together.
    pub passes: Option<f64>,
    /// Maximum number of samples, of all kinds together.
    pub samples: Option<u64>,
    /// Maximum time in seconds, without the time for measurements.
    pub seconds: Option<f64>,
}

impl Budget {
    /// Returns a limit of `n` iterations.
    pub fn iterations(n: u64) -> Self {
        Budget { iterations: Some(n), ..Budget::default() }
    }

    /// Checks that there is a limit, and that every limit is in range.
    pub fn validate(&self) -> Result<()> {
        if *self == Budget::default() {
            return Err(Error::setting("budget", "nothing", "at least one of iterations, passes, samples, seconds"));
        }
        for (name, limit) in [("budget.passes", self.passes), ("budget.seconds", self.seconds)] {
            if let Some(v) = limit
                && !(v >= 0.0 && v.is_finite())
            {
                return Err(Error::setting(name, v, "a finite number of at least 0"));
            }
        }
        Ok(())
    }

    /// Used fraction of each limit.
    fn shares(&self, iterations: u64, passes: Passes, counts: &Counts, seconds: f64) -> [(Limit, Option<f64>); 4] {
        let share = |used: f64, limit: f64| if limit > 0.0 { used / limit } else { f64::INFINITY };
        [
            (Limit::Iterations, self.iterations.map(|n| share(iterations as f64, n as f64))),
            (Limit::Passes, self.passes.map(|n| share(passes.total(), n))),
            (Limit::Samples, self.samples.map(|n| share(counts.samples() as f64, n as f64))),
            (Limit::Seconds, self.seconds.map(|n| share(seconds, n))),
        ]
    }

    /// Returns the limit that is reached, if any.
    pub(super) fn spent(&self, iterations: u64, passes: Passes, counts: &Counts, seconds: f64) -> Option<Limit> {
        let shares = self.shares(iterations, passes, counts, seconds);
        shares.into_iter().find(|(_, s)| s.is_some_and(|s| s >= 1.0)).map(|(limit, _)| limit)
    }

    /// Used fraction of the budget, between 0 and 1.
    pub(super) fn share(&self, iterations: u64, passes: Passes, counts: &Counts, seconds: f64) -> f64 {
        self.shares(iterations, passes, counts, seconds).iter().filter_map(|(_, s)| *s).fold(0.0, f64::max).min(1.0)
    }
}
