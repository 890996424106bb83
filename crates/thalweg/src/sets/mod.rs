//! Simple convex sets, used as domains. Each provides its projection, its distance, its diameter and, where one is available,
//! the minimiser of a linear function; functional constraints `g(x) <= 0` do not belong here.

pub mod ball;
pub mod bounds;
pub mod chi_square;
pub mod halfspace;
pub mod orthant;
pub mod polyhedron;
pub mod product;
mod scaled;
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
pub(crate) use scaled::Scaled;
pub use simplex::Simplex;
pub use transport::Transport;
pub use whole::WholeSpace;

use crate::{Error, Result};

/// Numbers carried between calls: dual variables of projections, solutions of inner problems. Owned by the run and part of its
/// checkpoint. Working space is cleared after use, so that it keeps its memory and adds nothing to a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warm {
    /// Numbers of this owner.
    pub values: Vec<f64>,
    /// One entry for each component of the owner, such as the blocks of a product.
    pub parts: Vec<Warm>,
}

impl Warm {
    /// Returns the parts, resized to `count`; existing parts keep their memory.
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

/// Closed convex set in a space of [`Set::dim`] dimensions (or any, if `dim` is `None`).
///
/// NaN is never hidden: if `x` contains one, the projection leaves a NaN in `x` or fails.
pub trait Set: Send + Sync + std::fmt::Debug {
    /// Returns the dimension of the space, if the set fixes it.
    fn dim(&self) -> Option<usize> {
        None
    }
    /// Replaces `x` by the nearest point of the set. `warm` may speed up a repeated projection and serves as working space:
    /// with the same `warm` and the same length, only the first call may allocate.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()>;
    /// Computes the Euclidean distance from `x` to the set. The default projects a copy.
    fn distance(&self, x: &[f64]) -> Result<f64> {
        let mut nearest = x.to_vec();
        self.project(&mut nearest, &mut Warm::default())?;
        Ok(crate::math::vec::distance(x, &nearest))
    }
    /// Returns the largest distance between two points; infinite for an unbounded set. `dim` is the dimension of the space.
    fn diameter(&self, dim: usize) -> f64;
    /// Finds a point of the set that minimises `<slope, y>`. Returns `None`, with `out` unspecified, if there is none or it is
    /// not known.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()>;
    /// Calls `cut` with half-spaces that contain the set but not `y`, whose projection onto the set is `foot`. `cut(from,
    /// normal)` describes `<normal, x - foot> <= 0` on the coordinates starting at `from`. The default is the half-space of the
    /// projection; a product gives one per factor, which describes it better.
    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        let normal: Vec<f64> = y.iter().zip(foot).map(|(y, foot)| y - foot).collect();
        cut(0, &normal);
    }
    /// Returns the radius if the set is a ball around the origin, infinity for the whole space. A vector of known norm can then
    /// be projected by a factor.
    fn ball_around_origin(&self) -> Option<f64> {
        None
    }
    /// Returns the lower and the upper bound of coordinate `i`, either of which may be infinite, if the set is a box.
    fn sides(&self, _i: usize) -> Option<(f64, f64)> {
        None
    }
    /// Describes the set for reports.
    fn describe(&self) -> String;
}

/// Implements [`Set`] for boxed and shared sets.
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
            fn sides(&self, i: usize) -> Option<(f64, f64)> {
                (**self).sides(i)
            }
            fn describe(&self) -> String {
                (**self).describe()
            }
        }
    };
}
set_behind!(Box<dyn Set>);
set_behind!(std::sync::Arc<dyn Set>);

/// Checks the length of a point. The set's description is built only for the error.
fn check_point(set: &dyn Set, got: usize) -> Result<()> {
    match set.dim() {
        Some(wanted) if wanted != got => {
            Err(Error::Length { what: format!("the point for the {}", set.describe()), got, wanted })
        }
        _ => Ok(()),
    }
}

/// Calls `cut` with one half-space for each coordinate in which `y` leaves a box.
fn separate_coordinates(y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
    for (i, (y, foot)) in y.iter().zip(foot).enumerate().filter(|(_, (y, foot))| y != foot) {
        cut(i, &[y - foot]);
    }
}

/// Checks lengths and that the slope is finite, before a linear minimisation.
fn slope_fits(set: &dyn Set, slope: &[f64], out: &[f64]) -> Option<()> {
    let fits = slope.len() == out.len()
        && set.dim().is_none_or(|d| d == out.len())
        && crate::math::vec::first_not_finite(slope).is_none();
    fits.then_some(())
}

#[cfg(test)]
pub(crate) mod testing;
