//! What some methods need to know about the form of a problem beyond its values: a region to project onto, the inf-projection form,
//! losses of single samples, means behind the constraints, scales. A problem that has none of these needs nothing from here.

use super::{At, InfProjection, Region, SampleLosses, Scratch};
use crate::Result;

/// Typical curvature of a problem's functions, a positive semidefinite matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// Its diagonal, the rest taken as 0.
    Diagonal(Vec<f64>),
    /// All of it, by rows.
    Full(Vec<f64>),
}

/// Known structure of a problem; every part is optional. Parts that are costly to find can be computed when first asked for.
///
/// A problem that has some implements this trait and returns itself from [`Description::structure`](super::Description::structure).
pub trait Structure: Send + Sync {
    /// The set that the constraints and the domain describe, where the problem can project onto it.
    fn region(&self) -> Option<&dyn Region> {
        None
    }
    /// The problem as an inf-projection problem, if it is one: `min_x g(x) + min_y h(y) - <y, l(x)>`.
    fn inf_projection(&self) -> Option<&dyn InfProjection> {
        None
    }
    /// The losses of single samples, if the objective is a mean of losses, or such a mean with its variance. Min-max methods weigh
    /// them.
    fn sample_losses(&self) -> Option<&dyn SampleLosses> {
        None
    }
    /// The means that the constraints are functions of. Without it, the constraints themselves are means over samples.
    fn composite(&self) -> Option<&dyn Composite> {
        None
    }
    /// How strongly the variables act: typical curvature, up to a common factor. For a linear model, the second moments of the
    /// columns. Methods may measure distances by it; none where all variables are alike.
    fn scales(&self) -> Option<&Scales> {
        None
    }
}

/// The structure of a problem of which nothing more is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStructure;

impl Structure for NoStructure {}

/// Constraints that are functions of means, `g = outer(E[statistic])`. A recursive estimator must track the mean, not its image:
/// `|mean difference| - bound` of a batch is biased.
///
/// The scratch space is that of the problem, see [`Values::scratch`](super::Values::scratch).
pub trait Composite: Send + Sync {
    /// Number of statistics.
    fn num_statistics(&self) -> usize;
    /// The statistics on the drawn samples.
    fn statistic_values(&self, at: At, out: &mut [f64], scratch: &mut Scratch) -> Result<()>;
    /// `g = outer(statistics)`. A part that is no mean, such as a norm, is a statistic that every draw gives exactly.
    fn constraints_from(&self, statistics: &[f64], g: &mut [f64]) -> Result<()>;
    /// `grad` becomes the weighted sum of subgradients of the constraints, with the outer function differentiated at the given
    /// (estimated) statistics, and the means on the drawn samples.
    fn statistic_vjp(&self, at: At, statistics: &[f64], weights: &[f64], grad: &mut [f64], scratch: &mut Scratch) -> Result<()>;
}
