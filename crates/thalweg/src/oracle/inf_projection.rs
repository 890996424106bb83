//! Inf-projection problems, `min_x g(x) + min_y h(y) - <y, l(x)>`: the trait that such a problem implements. The function h is in
//! `power.rs`, the same problem in x alone in `eliminated.rs`.

use super::{Pick, Power, ScoredRows};
use crate::Result;
use crate::sets::{Set, WholeSpace};

/// The two cases that stagewise methods tell apart; g and every entry of l are convex in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// y is at least 0 on the domain of h: the objective is a difference of convex functions.
    DifferenceOfConvex,
    /// y is at most 0 on the domain of h: the objective is convex in x for fixed y.
    BiConvex,
}

/// `min_x F(x)` over a simple set, with `F(x) = g(x) + min_y h(y) - <y, l(x)>`: g and l are means over samples, h is uniformly
/// convex. [`Eliminated`](super::Eliminated) makes a problem of it that every method takes.
///
/// Every method is pure in its arguments. `samples` are drawn from `0..self.samples()`.
pub trait InfProjection: Send + Sync {
    /// Number of variables x.
    fn dim(&self) -> usize;
    /// Number of variables y, which is the number of entries of l.
    fn coupled(&self) -> usize;
    /// Which of the two cases it is.
    fn case(&self) -> Case;
    /// h, the same function of every entry of y.
    fn power(&self) -> &Power;
    /// The set that x stays in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// Whether g and l are differentiable.
    fn smooth(&self) -> bool {
        true
    }
    /// How many samples g and l are means over; 1 for a problem without noise.
    fn samples(&self) -> usize {
        1
    }
    /// Where y begins. By default the point of the domain of h that is nearest to 0.
    fn coupled_start(&self, y: &mut [f64]) {
        y.fill(self.power().clip(0.0));
    }
    /// `grad` becomes a subgradient of g at `x`, on the samples; returns g.
    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> Result<f64>;
    /// `out` becomes l(x) on the samples.
    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> Result<()>;
    /// `grad += factor * J(x)^T y` on the samples, where J is the Jacobian of l.
    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> Result<()>;
    /// The same problem as scalar functions of scores of sparse rows, if it has that form. Steps that cost no more than the rows
    /// they read need it.
    fn rows(&self) -> Option<&dyn InfProjectionRows> {
        None
    }
    /// For a problem with one more number that is minimised over in closed form: its best value at `x`, on the samples. A method
    /// asks for it now and then and goes on with [`InfProjection::with_profiled_scalar`].
    fn profiled_scalar(&self, _x: &[f64], _samples: Pick) -> Result<Option<f64>> {
        Ok(None)
    }
    /// The problem in which that number is held at a value.
    fn with_profiled_scalar(&self, _value: f64) -> Option<Box<dyn InfProjection>> {
        None
    }
    /// Tells problems apart, for checkpoints.
    fn fingerprint(&self) -> String {
        format!("inf-projection of {} and {} variables, domain {}", self.dim(), self.coupled(), self.domain().describe())
    }
}

/// An inf-projection problem whose samples depend on x through one score each: `g = mean_i g_i(score_i) + (ridge / 2) ||x||^2` and
/// `l = mean_i l_i(score_i) e_{c(i)}`. An intercept is not part of the squared norm.
pub trait InfProjectionRows: ScoredRows {
    /// g_i and its derivative, or one element of it, at a score.
    fn convex_of(&self, sample: usize, score: f64) -> (f64, f64);
    /// l_i and its derivative at a score.
    fn mapping_of(&self, sample: usize, score: f64) -> (f64, f64);
    /// The entry of l and y that the sample belongs to.
    fn coordinate(&self, _sample: usize) -> usize {
        0
    }
}
