//! Optimisation under constraints where nothing is smooth or convex, gradients are noisy or missing, and data are large.

pub mod bilevel;
pub mod certify;
mod cuts;
pub mod error;
pub mod estimate;
pub mod eval;
pub mod infproj;
pub mod learn;
pub mod math;
pub mod oracle;
pub mod plan;
pub mod run;
pub mod sets;
pub mod solvers;
pub mod suggest;

pub use error::{Error, Result};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;

/// Runs the examples of docs/bilevel.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bilevel.md")]
pub struct BilevelDoctests;
