//! Optional structure of a problem that some solvers exploit: a region to project onto, the inf-projection form, sample losses,
//! statistics behind the constraints, scales. A problem with none of these needs nothing from this module.

use super::{At, InfProjection, Region, SampleLosses, Scratch, SmoothForm};
use crate::Result;
use crate::bilevel::Bilevel;

/// Typical curvature of a problem's functions, as a positive semidefinite matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// The diagonal; other entries are taken as 0.
    Diagonal(Vec<f64>),
    /// The full matrix, by rows.
    Full(Vec<f64>),
}

/// Known units of a problem whose functions and variables would be of order 1 in them. All are powers of two, so that conversions are
/// exact.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownUnits {
    /// Unit of the objective.
    pub objective: f64,
    /// Unit of each constraint.
    pub constraints: Vec<f64>,
    /// Unit of each variable; all are the same if the domain is no box.
    pub variables: Vec<f64>,
    /// Weak-convexity constants in the units of the variables, of the objective and then of each constraint: `f + (rho / 2) sum_j (x_j /
    /// unit_j)^2` is convex. `None` for a function that has none.
    pub moduli: Vec<Option<f64>>,
}

impl KnownUnits {
    /// Returns the unit of proximal coefficients in plain distances: that of the objective over the square of the smallest unit of a
    /// variable.
    pub fn curvature(&self) -> f64 {
        let least = self.variables.iter().copied().fold(f64::INFINITY, f64::min);
        if least.is_finite() { self.objective / least / least } else { self.objective }
    }
}

/// Structure of a problem; every part is optional. Parts that are costly to compute can be computed on first use.
///
/// A problem with structure implements this trait and returns itself from
/// [`Description::structure`](super::Description::structure).
pub trait Structure: Send + Sync {
    /// Returns the set that the constraints and the domain describe, if the problem can project onto it.
    fn region(&self) -> Option<&dyn Region> {
        None
    }
    /// Returns the problem in inf-projection form, `min_x g(x) + min_y h(y) - <y, l(x)>`, if it has one.
    fn inf_projection(&self) -> Option<&dyn InfProjection> {
        None
    }
    /// Returns the sample losses, if the objective is a mean of losses, or such a mean with its variance. Min-max methods weight
    /// them.
    fn sample_losses(&self) -> Option<&dyn SampleLosses> {
        None
    }
    /// Returns the bilevel problem whose x and y, in this order, begin the variables.
    fn bilevel(&self) -> Option<&dyn Bilevel> {
        None
    }
    /// Returns the statistics that the constraints are functions of. Without them, the constraints themselves are means over
    /// samples.
    fn composite(&self) -> Option<&dyn Composite> {
        None
    }
    /// Returns the smooth form, if the objective is smooth and every constraint is a maximum of combinations of smooth functions.
    fn smooth(&self) -> Option<&dyn SmoothForm> {
        None
    }
    /// Returns the number of equality constraints. Each is two constraints, `h(x) <= 0` and `-h(x) <= 0`.
    fn equalities(&self) -> usize {
        0
    }
    /// Returns the typical curvature of the variables, up to a common factor. For a linear model these are the second moments of
    /// the columns. Solvers may use it for preconditioning. `None` if all variables have the same scale.
    fn scales(&self) -> Option<&Scales> {
        None
    }
    /// Returns the units of a problem [in natural units](super::Description::in_natural_units) if some are far from 1: terms with small
    /// or large factors, columns of small or large numbers. `None` if all are 1.
    fn units(&self) -> Option<&KnownUnits> {
        None
    }
}

/// Structure of a problem without any.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStructure;

impl Structure for NoStructure {}

/// Constraints that are functions of means, `g = outer(E[statistic])`. A recursive estimator must track the mean and not its
/// image, because `|mean difference| - bound` of a mini-batch is biased.
///
/// The scratch space is that of the problem, see [`Values::scratch`](super::Values::scratch).
pub trait Composite: Send + Sync {
    /// Returns the number of statistics.
    fn num_statistics(&self) -> usize;
    /// Computes the statistics on the drawn samples.
    fn statistic_values(&self, at: At, out: &mut [f64], scratch: &mut Scratch) -> Result<()>;
    /// Computes `g = outer(statistics)`. A part that is not a mean, such as a norm, is a statistic that is exact for every draw.
    fn constraints_from(&self, statistics: &[f64], g: &mut [f64]) -> Result<()>;
    /// Sets `grad` to the weighted sum of constraint subgradients, with the outer function differentiated at the given
    /// (estimated) statistics and the means taken over the drawn samples.
    fn statistic_vjp(&self, at: At, statistics: &[f64], weights: &[f64], grad: &mut [f64], scratch: &mut Scratch) -> Result<()>;
}
