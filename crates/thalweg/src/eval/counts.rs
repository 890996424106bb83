//! Counts of the evaluations of a run, in calls and in samples, and the rule that converts samples into passes. The evaluator
//! that counts is in the parent module.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of calls of one kind, and of the samples they read in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of calls.
    pub calls: u64,
    /// Samples read by these calls. A deterministic function counts as one sample.
    pub samples: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, calls: u64, samples: u64) {
        self.calls += calls;
        self.samples += samples;
    }
}

/// All counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Values of f.
    pub objective_values: Tally,
    /// Subgradients of f.
    pub objective_subgradients: Tally,
    /// Values of constraints.
    pub constraint_values: Tally,
    /// Samples among `constraint_values` that were read at a second point besides the first. Complexity statements of recursive
    /// estimators count such a pair once.
    pub paired: u64,
    /// Subgradients of constraints.
    pub constraint_subgradients: Tally,
    /// Projections onto the domain or onto the constraints, and minimisations of linear functions over them.
    pub projections: u64,
    /// Inner iterations, and rows visited by projections onto the constraints.
    pub inner: u64,
    /// Problem-specific counters, by name.
    pub more: BTreeMap<String, u64>,
}

/// Work in passes over the data. A value over all samples is one pass and a subgradient over all samples is one pass; each counts
/// only if computed, and mini-batches count by their share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Passes of the objective.
    pub objective: f64,
    /// Passes of the constraints.
    pub constraints: f64,
}

impl Passes {
    /// Returns the sum of both.
    pub fn total(&self) -> f64 {
        self.objective + self.constraints
    }
}

impl Counts {
    /// Returns the samples of all kinds.
    pub fn samples(&self) -> u64 {
        [self.objective_values, self.objective_subgradients, self.constraint_values, self.constraint_subgradients]
            .iter()
            .map(|t| t.samples)
            .sum()
    }

    /// Converts the counts into passes, given the samples in one full evaluation of the objective and of all constraints.
    pub(crate) fn passes(&self, full_objective: u64, full_constraints: u64) -> Passes {
        let share = |a: Tally, b: Tally, full: u64| (a.samples + b.samples) as f64 / full.max(1) as f64;
        Passes {
            objective: share(self.objective_values, self.objective_subgradients, full_objective),
            constraints: share(self.constraint_values, self.constraint_subgradients, full_constraints),
        }
    }
}
