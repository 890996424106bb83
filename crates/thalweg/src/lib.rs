//! Optimisation under constraints where nothing is smooth or convex, gradients are noisy or missing, and data are large.

pub mod assess;
pub mod auto;
pub mod bilevel;
pub mod certify;
mod cuts;
pub mod error;
pub mod estimate;
pub mod eval;
pub mod learn;
pub mod math;
mod note;
pub mod oracle;
pub mod plan;
pub mod run;
pub mod sets;
pub mod solvers;
pub mod suggest;

pub use error::{Error, Result};
pub use note::{Functions, Note, StallCause};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;

/// Runs the examples of docs/bilevel.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bilevel.md")]
pub struct BilevelDoctests;

/// Runs the programs of the guide as tests.
#[cfg(doctest)]
pub mod guide_doctests {
    #[doc = include_str!("../../../docs/guide/5-your-own-problem-in-rust.md")]
    pub struct Problem;

    #[doc = include_str!("../../../docs/guide/6-your-own-solver-in-rust.md")]
    pub struct Solver;
}
