//! Simple convex sets: what a domain can be. Each knows its projection, its distance, its diameter and, where there is
//! one, the minimiser of a linear function. Functional constraints `g(x) <= 0` do not belong here.

pub mod ball;
pub mod bounds;
pub mod chi_square;
pub mod halfspace;
pub mod orthant;
pub mod polyhedron;
pub mod product;
pub mod simplex;
pub mod transport;
pub mod whole;

use serde::{Deserialize, Serialize};

pub use ball::Ball;
pub use bounds::Bounds;
pub use chi_square::ChiSquare;
pub use halfspace::Halfspace;
pub use orthant::NonNegative;
pub use polyhedron::Polyhedron;
pub use product::Product;
pub use simplex::Simplex;
pub use transport::Transport;
pub use whole::WholeSpace;

use crate::{Error, Result};

/// Numbers carried from visit to visit: dual variables of projections, solutions of inner problems. Owned by the run and
/// part of its checkpoint. What is mere working space is cleared after use, so that it keeps its memory and saves nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warm {
    /// The numbers of this owner.
    pub values: Vec<f64>,
    /// One entry for each part that the owner is made of, such as the blocks of a product.
    pub parts: Vec<Warm>,
}

impl Warm {
    /// The parts, brought to the number `count`; memory of kept parts is kept.
    pub fn parts(&mut self, count: usize) -> &mut [Warm] {
        self.parts.resize_with(count, Warm::default);
        &mut self.parts
    }
}

impl From<Vec<f64>> for Warm {
    fn from(values: Vec<f64>) -> Self {
        Warm { values, parts: Vec::new() }
    }
}

/// A closed convex set in a space of [`Set::dim`] dimensions (or any, where `dim` is `None`).
///
/// NaN is never hidden: where `x` has one, the projection leaves a NaN in `x` or fails.
pub trait Set: Send + Sync + std::fmt::Debug {
    /// The dimension of the space, if the set fixes it.
    fn dim(&self) -> Option<usize> {
        None
    }
    /// Replaces `x` by the nearest point of the set. `warm` may speed up a repeated projection and serves as working space:
    /// with the same `warm` and the same length, only the first call may allocate.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()>;
    /// Euclidean distance from `x` to the set. The default projects a copy.
    fn distance(&self, x: &[f64]) -> Result<f64> {
        let mut nearest = x.to_vec();
        self.project(&mut nearest, &mut Warm::default())?;
        Ok(crate::math::vec::distance(x, &nearest))
    }
    /// Largest distance between two points; infinite for an unbounded set. `dim` is the dimension of the space.
    fn diameter(&self, dim: usize) -> f64;
    /// A point of the set that minimises `<slope, y>`; `None` where there is none or it is not known. `out` is then arbitrary.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()>;
    /// Half-spaces that contain the set and not `y`, whose nearest point of the set is `foot`. `cut(from, normal)` stands for
    /// `<normal, x - foot> <= 0` on the coordinates from `from` on, as many as `normal` has. By default the one half-space that
    /// the projection gives; a set that is a product gives one for each factor, which describes it better.
    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        let normal: Vec<f64> = y.iter().zip(foot).map(|(y, foot)| y - foot).collect();
        cut(0, &normal);
    }
    /// The radius, if the set is a ball around the origin, infinite for the whole space: whoever knows the norm of a vector can
    /// then project it by a factor.
    fn ball_around_origin(&self) -> Option<f64> {
        None
    }
    /// The set in words, for reports.
    fn describe(&self) -> String;
}

/// So that whoever takes a set takes a boxed or a shared one too.
macro_rules! set_behind {
    ($pointer:ty) => {
        impl Set for $pointer {
            fn dim(&self) -> Option<usize> {
                (**self).dim()
            }
            fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
                (**self).project(x, warm)
            }
            fn distance(&self, x: &[f64]) -> Result<f64> {
                (**self).distance(x)
            }
            fn diameter(&self, dim: usize) -> f64 {
                (**self).diameter(dim)
            }
            fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
                (**self).linear_minimizer(slope, out)
            }
            fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
                (**self).separate(y, foot, cut);
            }
            fn ball_around_origin(&self) -> Option<f64> {
                (**self).ball_around_origin()
            }
            fn describe(&self) -> String {
                (**self).describe()
            }
        }
    };
}
set_behind!(Box<dyn Set>);
set_behind!(std::sync::Arc<dyn Set>);

/// Refuses a point of the wrong length; the name of the set is only written where it is needed.
fn check_point(set: &dyn Set, got: usize) -> Result<()> {
    match set.dim() {
        Some(wanted) if wanted != got => {
            Err(Error::Length { what: format!("the point for the {}", set.describe()), got, wanted })
        }
        _ => Ok(()),
    }
}

/// One half-space for each coordinate in which `y` leaves a box.
fn separate_coordinates(y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
    for (i, (y, foot)) in y.iter().zip(foot).enumerate().filter(|(_, (y, foot))| y != foot) {
        cut(i, &[y - foot]);
    }
}

/// Whether a linear minimiser can be asked for: lengths fit, and the slope has no NaN and no infinity.
fn slope_fits(set: &dyn Set, slope: &[f64], out: &[f64]) -> Option<()> {
    let fits = slope.len() == out.len()
        && set.dim().is_none_or(|d| d == out.len())
        && crate::math::vec::first_not_finite(slope).is_none();
    fits.then_some(())
}

#[cfg(test)]
pub(crate) mod testing;
