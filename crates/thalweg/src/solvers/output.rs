//! Output rule of solvers that return their last iterate or a random one.

use serde::{Deserialize, Serialize};

/// Output rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The last iterate, as in the papers' experiments; for a solver with stages, the centre of the last stage.
    #[default]
    Last,
    /// A uniformly drawn iterate, as in the theorems; for a solver with stages, the centre of a random stage.
    Random,
}
