//! Traits that a problem implements: its [`Description`], its [`Values`], its [`Subgradients`] and its [`Structure`]. Solvers
//! never use these traits directly: counting and checking are in [`crate::eval`].

mod black_box;
pub mod check;
mod closures;
mod description;
mod draw;
mod eliminated;
mod functions;
mod inf_projection;
pub mod linear;
mod power;
pub mod region;
mod rows;
mod sample_losses;
mod smooth;
mod structure;

use std::any::Any;

pub use crate::sets::Warm;
use crate::{Error, Result};
pub use black_box::BlackBox;
pub use closures::Problem;
pub use description::{Description, Modulus, Rounding, Source};
pub use draw::{Draw, Pick, Replacement};
pub use eliminated::Eliminated;
pub(crate) use functions::point_by_point;
pub use functions::{Subgradients, Values, WeightFunction};
pub use inf_projection::{Case, InfProjection, InfProjectionRows};
pub use linear::Linear;
pub use power::Power;
pub use region::Region;
pub use rows::ScoredRows;
pub use sample_losses::{LossRows, SampleLosses};
pub use smooth::{SmoothForm, SmoothRow};
pub use structure::{Composite, KnownUnits, NoStructure, Scales, Structure};

/// Where a problem is evaluated: the point, the samples and the warm-start values.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The point.
    pub x: &'a [f64],
    /// The samples of each stream.
    pub draw: &'a Draw,
    /// Warm-start values such as inner solutions, current at `x` after [`Values::refresh`].
    pub warm: &'a Warm,
}

/// Buffers of an oracle, created once per run by the oracle and owned by the run, for example for the scores at the current
/// point.
pub struct Scratch(Box<dyn Any + Send>);

impl Scratch {
    /// Wraps an oracle's own buffers.
    pub fn new<T: Any + Send>(buffers: T) -> Self {
        Scratch(Box::new(buffers))
    }

    /// Creates an empty scratch space, for oracles without buffers.
    pub fn none() -> Self {
        Scratch::new(())
    }

    /// Returns the buffers as the type they were created with.
    pub fn get<T: Any + Send>(&mut self) -> Result<&mut T> {
        self.0.downcast_mut().ok_or_else(|| Error::Oracle("an oracle was given the scratch space of another oracle".into()))
    }
}
