//! The traits that a problem implements: its [`Description`], its [`Values`], its [`Subgradients`], and what more is known of its
//! [`Structure`]. Solvers never see these traits: counting and checking are in [`crate::eval`].

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
mod structure;

use std::any::Any;

pub use crate::sets::Warm;
use crate::{Error, Result};
pub use black_box::BlackBox;
pub use closures::Problem;
pub use description::{Description, Modulus, Source};
pub use draw::{Draw, Pick, Replacement};
pub use eliminated::Eliminated;
pub(crate) use functions::point_by_point;
pub use functions::{Subgradients, Values, Weigh};
pub use inf_projection::{Case, InfProjection, InfProjectionRows};
pub use linear::Linear;
pub use power::Power;
pub use region::Region;
pub use rows::ScoredRows;
pub use sample_losses::{LossRows, SampleLosses};
pub use structure::{Composite, NoStructure, Scales, Structure};

/// Where a problem is evaluated: the point, the samples, and what is carried from visit to visit.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The point.
    pub x: &'a [f64],
    /// Which samples of each stream.
    pub draw: &'a Draw,
    /// Inner solutions and the like, up to date at `x` after [`Values::refresh`].
    pub warm: &'a Warm,
}

/// An oracle's buffers: made once per run by the oracle, owned by the run. Scores of the visited point live here.
pub struct Scratch(Box<dyn Any + Send>);

impl Scratch {
    /// Wraps an oracle's own buffers.
    pub fn new<T: Any + Send>(buffers: T) -> Self {
        Scratch(Box::new(buffers))
    }

    /// For oracles that need no buffers.
    pub fn none() -> Self {
        Scratch::new(())
    }

    /// The buffers, as the type they were made with.
    pub fn get<T: Any + Send>(&mut self) -> Result<&mut T> {
        self.0.downcast_mut().ok_or_else(|| Error::Oracle("an oracle was given the scratch space of another oracle".into()))
    }
}
