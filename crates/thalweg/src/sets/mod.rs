//! Simple convex sets: what a domain can be. Each knows its projection, its distance, its diameter and, where there is
//! one, the minimiser of a linear function. Functional constraints `g(x) <= 0` do not belong here.

use serde::{Deserialize, Serialize};

use crate::Result;

/// Numbers carried from visit to visit: dual variables of projections, solutions of inner problems. Owned by the run and
/// part of its checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Warm(pub Vec<f64>);

/// A closed convex set in a space of [`Set::dim`] dimensions (or any, where `dim` is `None`).
pub trait Set: Send + Sync + std::fmt::Debug {
    /// The dimension of the space, if the set fixes it.
    fn dim(&self) -> Option<usize> {
        None
    }
    /// Replaces `x` by the nearest point of the set. `warm` may speed up a repeated projection.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()>;
    /// Euclidean distance from `x` to the set.
    fn distance(&self, x: &[f64]) -> Result<f64> {
        let mut nearest = x.to_vec();
        self.project(&mut nearest, &mut Warm::default())?;
        Ok(crate::math::vec::distance(x, &nearest))
    }
    /// Largest distance between two points; infinite for an unbounded set. `dim` is the dimension of the space.
    fn diameter(&self, dim: usize) -> f64;
    /// A point of the set that minimises `<slope, y>`; `None` where there is none or it is not known.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()>;
    /// The set in words, for reports.
    fn describe(&self) -> String;
}
