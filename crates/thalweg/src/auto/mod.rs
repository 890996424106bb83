//! Automatic choice of a solver and its settings: by what a problem offers, and by short trial runs. The solvers are in
//! [`crate::solvers`], a single run is in [`crate::run`].

mod choose;
mod pilot;

pub use choose::{Choice, Constants, Evidence, Reason, Trials, choose, prepare};
pub use pilot::{BudgetedRuns, Pilot, Score, Work};

/// The word that stands for an automatic choice where a solver is named.
pub const NAME: &str = "auto";

/// Increased when the rule makes other choices than before, or when a solver that it chooses changes its results.
pub const VERSION: u32 = 1;
