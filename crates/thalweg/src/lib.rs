//! Optimisation under constraints where nothing is smooth or convex.

pub mod error;
pub mod learn;
pub mod math;
pub mod plan;
pub mod sets;
pub mod solvers;

pub use error::{Error, Result};
