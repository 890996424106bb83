//! Automatic choice of a solver and its settings, from the structure of the problem and from pilot runs. The solvers are in
//! [`crate::solvers`], a single run is in [`crate::run`].

mod choose;
mod pilot;

pub use choose::{Choice, Constants, Evidence, Reason, Trials, choose, prepare};
pub use pilot::{BudgetedRuns, Pilot, Score, Work};

/// Name that stands for an automatic choice in place of a solver name.
pub const NAME: &str = "auto";

/// Version of the rule. Increased when it makes different choices, or when a solver that it chooses changes its results.
pub const VERSION: u32 = 2;
