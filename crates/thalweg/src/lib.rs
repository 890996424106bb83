//! Constrained optimisation for problems that are nonsmooth and nonconvex, with stochastic or missing gradients and large data.
//! Printing, file formats and the command line are in the crate `thalweg-lab`.
//!
//! The modules, each of which uses only those above it (and [`error`], which all of them use):
//!
//! | module | content |
//! |---|---|
//! | [`math`] | vectors, matrices, reproducible sums, random numbers |
//! | [`sets`] | simple sets: projections and linear minimisers |
//! | [`oracle`] | the traits that a problem implements, and ready-made problems |
//! | [`eval`] | counted and checked evaluation of a problem by a solver |
//! | [`estimate`] | mini-batches and estimators that take little memory |
//! | `cuts` | cutting-plane models |
//! | [`certify`] | certificates that do not run a solver |
//! | [`plan`] | parameters that theorems prescribe for given constants |
//! | [`solvers`] | the solvers |
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
pub use note::{DropReason, Functions, Note, Quantity, StallCause, thousands};

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
