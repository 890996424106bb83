//! Optimisation under constraints where nothing is smooth or convex, gradients are noisy or missing, and data are large.
//! Printing, file formats and the command line are in the crate `thalweg-lab`.
//!
//! The modules, each of which uses only those above it (and [`error`], which all use):
//!
//! | module | content |
//! |---|---|
//! | [`math`] | vectors, matrices, reproducible sums, random numbers |
//! | [`sets`] | simple sets: projections and linear minimisers |
//! | [`oracle`] | the traits that a problem implements, and ready problems |
//! | [`eval`] | the counted, checked gate between a solver and a problem |
//! | [`estimate`] | mini-batches and estimators in little memory |
//! | `cuts` | cutting-plane models |
//! | [`certify`] | certificates that need no solver |
//! | [`plan`] | from constants to the parameters that theorems prescribe |
//! | [`solvers`] | the methods |
//! | [`assess`] | measures of stationarity that run a solver |
//! | [`run`] | run loop, budget, records, checkpoints, outcome |
//! | [`learn`], [`bilevel`] | problems on data, pessimistic bilevel problems |

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
