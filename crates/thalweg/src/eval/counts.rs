//! Counts of what a run has evaluated, in calls and in samples, and the rule that turns samples into passes. The evaluator that
//! counts is in the module above.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One kind of request: how many calls, and how many samples they read in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of calls.
    pub calls: u64,
    /// Samples read by them. A deterministic function counts as one sample.
    pub samples: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, calls: u64, samples: u64) {
        self.calls += calls;
        self.samples += samples;
    }
}

/// Everything that is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Values of f.
    pub objective_values: Tally,
    /// Subgradients of f.
    pub objective_subgradients: Tally,
    /// Values of constraints.
    pub constraint_values: Tally,
    /// Samples among `constraint_values` that were read at a second point beside the first: complexity statements of recursive
    /// estimators count such a pair once.
    pub paired: u64,
    /// Subgradients of constraints.
    pub constraint_subgradients: Tally,
    /// Projections onto the domain or onto the constraints, and linear functions minimised there.
    pub projections: u64,
    /// Steps spent on inner problems; rows visited by projections onto the constraints.
    pub inner: u64,
    /// Counters that only some problems have, by name.
    pub more: BTreeMap<String, u64>,
}

/// Work in passes over the data: the value over all samples is one pass, the subgradient over all samples is one pass,
/// each counted only if computed, batches by their share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Passes of the objective.
    pub objective: f64,
    /// Passes of the constraints.
    pub constraints: f64,
}

impl Passes {
    /// Of both together.
    pub fn total(&self) -> f64 {
        self.objective + self.constraints
    }
}

impl Counts {
    /// Samples of all kinds.
    pub fn samples(&self) -> u64 {
        [self.objective_values, self.objective_subgradients, self.constraint_values, self.constraint_subgradients]
            .iter()
            .map(|t| t.samples)
            .sum()
    }

    /// Passes, given the samples in one full evaluation of the objective and of all constraints.
    pub(crate) fn passes(&self, full_objective: u64, full_constraints: u64) -> Passes {
        let share = |a: Tally, b: Tally, full: u64| (a.samples + b.samples) as f64 / full.max(1) as f64;
        Passes {
            objective: share(self.objective_values, self.objective_subgradients, full_objective),
            constraints: share(self.constraint_values, self.constraint_subgradients, full_constraints),
        }
    }
}
