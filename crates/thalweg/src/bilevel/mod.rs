//! Pessimistic bilevel problems: minimise over an outer variable the worst case over all solutions of an inner problem. This
//! module has the problem type, its single-level reformulation, measurements at a point, and examples; the solver is
//! [`crate::solvers::Adaprox`].

mod check;
mod direct;
mod extremes;
mod follower;
mod formulas;
pub mod number;
pub mod problems;
mod responses;
mod single_level;
mod solve;
mod units;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

pub use check::check;
pub use extremes::{Extreme, Extremes, extremes, extremes_until};
pub use follower::InnerRow;
pub use formulas::{Formulas, FromFormulas};
pub use number::{Dual, Number};
pub use single_level::{Form, InnerSteps, SingleLevel};
pub use solve::{
    BilevelSolution, InnerIterations, Method, PreparedProblem, Settings, Tuning, choose, inner_gap, prepare, prepare_plain, solve,
};

use crate::Result;
use crate::oracle::Scratch;
use crate::sets::Set;

/// Flag that interrupts a computation when set, as in [`crate::run::Options`].
type Stop<'a> = Option<&'a Arc<AtomicBool>>;

/// Reason for a missing result after an interruption.
const INTERRUPTED: &str = "interrupted";

/// Returns whether the flag is set.
fn is_set(interrupt: Stop) -> bool {
    interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A point (x, y).
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The outer variable.
    pub x: &'a [f64],
    /// The inner variable.
    pub y: &'a [f64],
}

/// Weights of the function that [`Bilevel::pull`] differentiates: `outer f(x, y) + inner (g(x, y) - g(x, yhat)) + <b,
/// multiplier grad_y g - grad_y f>` with fixed yhat and b.
#[derive(Debug, Clone, Copy)]
pub struct Pull<'a> {
    /// Weight of f.
    pub outer: f64,
    /// Weight of g.
    pub inner: f64,
    /// Second argument of the subtracted g.
    pub yhat: &'a [f64],
    /// Weights of the stationarity conditions; `None` if they are all 0.
    pub b: Option<&'a [f64]>,
    /// Multiplier of the inner problem in the stationarity conditions.
    pub multiplier: f64,
}

/// Computation of second derivatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Derivatives {
    /// Formulas of the problem, or dual numbers.
    Exact,
    /// Differences of gradients, with a relative error of about 1e-9.
    Differences,
}

/// Pessimistic bilevel problem: `min over x of the max over y in S(x) of f(x, y)`, where S(x) are the minimisers of `g(x, y)`
/// over all y, subject to `C_i(x, y) <= 0` within the max.
///
/// f should be concave in y and g convex in y, both twice differentiable; if f is not concave, necessary conditions are solved.
/// A function can return an error to end a run with the last good point. If `dx` or `dy` is `None`, that part of a gradient is
/// not computed.
///
/// [`Formulas`] requires values alone and derives everything else by dual numbers, which suits small problems.
pub trait Bilevel: Send + Sync {
    /// Number of outer variables.
    fn outer_dim(&self) -> usize;
    /// Number of inner variables.
    fn inner_dim(&self) -> usize;
    /// X, a bounded convex set.
    fn outer_set(&self) -> Arc<dyn Set>;
    /// Y, a bounded convex set that contains every inner solution.
    fn inner_set(&self) -> Arc<dyn Set>;
    /// Whether the follower is confined to Y. By default it is not, and Y is a search region.
    fn inner_set_binds(&self) -> bool {
        false
    }
    /// Linear constraints of the follower: it minimises g over all y that satisfy them. None by default.
    fn inner_rows(&self) -> &[InnerRow] {
        &[]
    }
    /// Number of constraints C_i.
    fn num_constraints(&self) -> usize {
        0
    }
    /// Creates the working space of a run.
    fn scratch(&self) -> Scratch {
        Scratch::none()
    }
    /// Called once at each new point before any other function: computations that f and g share can be stored in `scratch`.
    /// Does nothing by default.
    fn visit(&self, _at: Pair, _scratch: &mut Scratch) -> Result<()> {
        Ok(())
    }
    /// Computes f.
    fn outer(&self, at: Pair, scratch: &mut Scratch) -> Result<f64> {
        self.outer_grad(at, None, None, scratch)
    }
    /// Computes f and its gradient.
    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64>;
    /// Computes g.
    fn inner(&self, at: Pair, scratch: &mut Scratch) -> Result<f64> {
        self.inner_grad(at, None, None, scratch)
    }
    /// Computes g and its gradient.
    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64>;
    /// Computes `c[i] = C_i`.
    fn constraint_values(&self, _at: Pair, _c: &mut [f64], _scratch: &mut Scratch) -> Result<()> {
        Ok(())
    }
    /// Adds `sum_i weights_i grad C_i` to `dx` and `dy`.
    fn constraint_vjp(
        &self,
        _at: Pair,
        _weights: &[f64],
        _dx: Option<&mut [f64]>,
        _dy: Option<&mut [f64]>,
        _scratch: &mut Scratch,
    ) -> Result<()> {
        Ok(())
    }
    /// Returns how gradients are computed: [`Derivatives::Exact`] by default.
    fn gradients(&self) -> Derivatives {
        Derivatives::Exact
    }
    /// Returns how the three products below are computed: [`Derivatives::Exact`] if they are implemented.
    fn derivatives(&self) -> Derivatives {
        Derivatives::Differences
    }
    /// Adds `weight` times the gradient of `<b, grad_y f>` to `dx` and `dy`. The default uses differences.
    fn outer_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        differences(self, at, b, weight, dx, dy, scratch, |at, dx, dy, s| self.outer_grad(at, Some(dx), Some(dy), s).map(|_| ()))
    }
    /// As [`Bilevel::outer_second`], for g.
    fn inner_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        differences(self, at, b, weight, dx, dy, scratch, |at, dx, dy, s| self.inner_grad(at, Some(dx), Some(dy), s).map(|_| ()))
    }
    /// As [`Bilevel::outer_second`], for `sum_i weights_i C_i`.
    fn constraint_second(
        &self,
        at: Pair,
        b: &[f64],
        weights: &[f64],
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        differences(self, at, b, 1.0, dx, dy, scratch, |at, dx, dy, s| {
            dx.fill(0.0);
            dy.fill(0.0);
            self.constraint_vjp(at, weights, Some(dx), Some(dy), s)
        })
    }
    /// Computes `c = multiplier grad_y g - grad_y f` and returns g. A problem whose gradients share work can improve on the
    /// default, which computes both. `work` is as long as y.
    fn stationarity(&self, at: Pair, multiplier: f64, c: &mut [f64], work: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let g = self.inner_grad(at, None, Some(work), scratch)?;
        self.outer_grad(at, None, Some(c), scratch)?;
        c.iter_mut().zip(work).for_each(|(c, g_y)| *c = multiplier * *g_y - *c);
        Ok(g)
    }
    /// Writes the gradient of the function described by [`Pull`] to `dx` and `dy`, and returns `<b, grad_y g>`. This is the
    /// last call at a point, so the content of `scratch` after [`Bilevel::visit`] may be overwritten. A problem whose gradients
    /// share work can improve on the default, which computes each part separately. `work` is as long as x and as y.
    fn pull(
        &self,
        at: Pair,
        pull: Pull,
        dx: &mut [f64],
        dy: &mut [f64],
        work: [&mut [f64]; 2],
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let Pull { outer, inner, yhat, b, multiplier } = pull;
        let [of_x, of_y] = work;
        let mut along = 0.0;
        dx.fill(0.0);
        dy.fill(0.0);
        if let Some(b) = b {
            self.outer_second(at, b, -1.0, dx, dy, scratch)?;
            self.inner_second(at, b, multiplier, dx, dy, scratch)?;
        }
        if outer != 0.0 {
            self.outer_grad(at, Some(&mut *of_x), Some(&mut *of_y), scratch)?;
            crate::math::vec::add_scaled(dx, outer, of_x);
            crate::math::vec::add_scaled(dy, outer, of_y);
        }
        if b.is_some() || inner != 0.0 {
            self.inner_grad(at, (inner != 0.0).then_some(&mut *of_x), Some(of_y), scratch)?;
            along = b.map_or(0.0, |b| crate::math::vec::dot(b, of_y));
        }
        if inner != 0.0 {
            crate::math::vec::add_scaled(dx, inner, of_x);
            crate::math::vec::add_scaled(dy, inner, of_y);
            let at = Pair { x: at.x, y: yhat };
            self.visit(at, scratch)?;
            self.inner_grad(at, Some(&mut *of_x), None, scratch)?;
            crate::math::vec::add_scaled(dx, -inner, of_x);
        }
        Ok(along)
    }
    /// Returns the Lipschitz constant of `grad_y g` in y at this x, if known. Otherwise it is estimated by power iteration and
    /// increased if steps contradict it.
    fn inner_smoothness(&self, _x: &[f64]) -> Option<f64> {
        None
    }
    /// Identifies the problem, see [`crate::oracle::Description::fingerprint`].
    fn fingerprint(&self) -> String {
        format!("bilevel, {} outer and {} inner variables", self.outer_dim(), self.inner_dim())
    }
}

/// Adds `weight grad <b, grad_y F>` to `dx` and `dy`, computed from the gradient of F. This is the default of the products of
/// [`Bilevel`], available to problems that implement only some of them.
///
/// The result is the derivative of grad F along (0, b), since second derivatives are symmetric: central differences of the
/// gradient, with a step of about the cube root of the rounding error.
#[allow(clippy::too_many_arguments)] // those of the trait, and the gradient
pub fn differences<B: Bilevel + ?Sized>(
    problem: &B,
    at: Pair,
    b: &[f64],
    weight: f64,
    dx: &mut [f64],
    dy: &mut [f64],
    scratch: &mut Scratch,
    mut gradient: impl FnMut(Pair, &mut [f64], &mut [f64], &mut Scratch) -> Result<()>,
) -> Result<()> {
    let length = crate::math::vec::norm(b);
    if length == 0.0 || weight == 0.0 {
        return Ok(());
    }
    let step = 6e-6 * (1.0 + crate::math::vec::norm(at.y)) / length;
    let (mut moved, mut gx, mut gy) = (at.y.to_vec(), vec![0.0; dx.len()], vec![0.0; dy.len()]);
    for sign in [1.0, -1.0] {
        moved.iter_mut().zip(at.y).zip(b).for_each(|((moved, y), b)| *moved = y + sign * step * b);
        let at = Pair { x: at.x, y: &moved };
        problem.visit(at, scratch)?;
        gradient(at, &mut gx, &mut gy, scratch)?;
        crate::math::vec::add_scaled(dx, sign * weight / (2.0 * step), &gx);
        crate::math::vec::add_scaled(dy, sign * weight / (2.0 * step), &gy);
    }
    // Restores the state of the visited point.
    problem.visit(at, scratch)
}
