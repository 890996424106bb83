//! Trait of inf-projection problems, `min_x g(x) + min_y h(y) - <y, l(x)>`. The function h is in `power.rs`, the same problem in
//! x alone in `eliminated.rs`.

use super::{Pick, Power, ScoredRows};
use crate::Result;
use crate::sets::{Set, WholeSpace};

/// The two cases that stagewise methods distinguish; g and every entry of l are convex in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// y >= 0 on the domain of h: the objective is a difference of convex functions.
    DifferenceOfConvex,
    /// y <= 0 on the domain of h: the objective is convex in x for fixed y.
    BiConvex,
}

/// Problem `min_x F(x)` over a simple set, with `F(x) = g(x) + min_y h(y) - <y, l(x)>`: g and l are means over samples, h is
/// uniformly convex. [`Eliminated`](super::Eliminated) turns it into a problem in x for any solver.
///
/// Every method is pure in its arguments. `samples` are drawn from `0..self.samples()`.
pub trait InfProjection: Send + Sync {
    /// Returns the number of variables x.
    fn dim(&self) -> usize;
    /// Returns the number of variables y, which is the number of entries of l.
    fn coupled(&self) -> usize;
    /// Returns which of the two cases applies.
    fn case(&self) -> Case;
    /// Returns h, the same function for every entry of y.
    fn power(&self) -> &Power;
    /// Returns the set that x stays in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// Returns whether g and l are differentiable.
    fn smooth(&self) -> bool {
        true
    }
    /// Returns the number of samples that g and l are means over; 1 for a deterministic problem.
    fn samples(&self) -> usize {
        1
    }
    /// Sets the starting point of y. By default, the point of the domain of h nearest to 0.
    fn coupled_start(&self, y: &mut [f64]) {
        y.fill(self.power().clip(0.0));
    }
    /// Sets `grad` to a subgradient of g at `x` on the samples and returns g.
    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> Result<f64>;
    /// Sets `out` to l(x) on the samples.
    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> Result<()>;
    /// Computes `grad += factor * J(x)^T y` on the samples, where J is the Jacobian of l.
    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> Result<()>;
    /// Returns the same problem as scalar functions of scores of sparse rows, if it has that form. It is required for steps whose
    /// cost is proportional to the nonzeros of the rows they read.
    fn rows(&self) -> Option<&dyn InfProjectionRows> {
        None
    }
    /// Returns the best value at `x`, on the samples, of a scalar that is minimised out in closed form, for a problem with one. A
    /// solver calls this occasionally and continues with [`InfProjection::with_profiled_scalar`].
    fn profiled_scalar(&self, _x: &[f64], _samples: Pick) -> Result<Option<f64>> {
        Ok(None)
    }
    /// Returns the problem with that scalar fixed at `value`.
    fn with_profiled_scalar(&self, _value: f64) -> Option<Box<dyn InfProjection>> {
        None
    }
    /// Returns a string that identifies the problem, for checkpoints.
    fn fingerprint(&self) -> String {
        format!("inf-projection of {} and {} variables, domain {}", self.dim(), self.coupled(), self.domain().describe())
    }
}

/// Inf-projection problem whose samples depend on x through one score each: `g = mean_i g_i(score_i) + (ridge / 2) ||x||^2` and
/// `l = mean_i l_i(score_i) e_{c(i)}`. The squared norm excludes the intercept.
pub trait InfProjectionRows: ScoredRows {
    /// Returns g_i and its derivative, or a subgradient, at a score.
    fn convex_of(&self, sample: usize, score: f64) -> (f64, f64);
    /// Returns l_i and its derivative at a score.
    fn mapping_of(&self, sample: usize, score: f64) -> (f64, f64);
    /// Returns the index of the entry of l and y that the sample belongs to.
    fn coordinate(&self, _sample: usize) -> usize {
        0
    }
}
