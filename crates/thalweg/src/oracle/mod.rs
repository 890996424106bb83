//! What a problem offers: values ([`Values`]) and subgradients ([`Subgradients`]) at a point for a draw of samples. How
//! often they are asked and what is counted is the business of [`crate::eval`]; solvers never see these traits.

mod black_box;
pub mod check;
mod closures;
mod draw;
mod eliminated;
mod inf_projection;
pub mod linear;
mod power;
pub mod region;
mod rows;
mod sample_losses;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::sets::Warm;
use crate::sets::{Set, WholeSpace};
use crate::{Error, Result};
pub use black_box::BlackBox;
pub use closures::Problem;
pub use draw::{Draw, Pick, Replacement};
pub use eliminated::Eliminated;
pub use inf_projection::{Case, InfProjection, InfProjectionRows};
pub use linear::Linear;
pub use power::Power;
pub use region::Region;
pub use rows::ScoredRows;
pub use sample_losses::{LossRows, SampleLosses};

/// Where an oracle is asked: the point, the samples, and what is carried from visit to visit.
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

/// A weak-convexity constant and where it comes from: `f(y) >= f(x) + <s, y - x> - (value / 2) ||y - x||^2`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Modulus {
    /// The constant; 0 for a convex function.
    pub value: f64,
    /// Whether it is proved, claimed or estimated.
    pub source: Source,
}

impl Modulus {
    /// The constant, unless it is only estimated: for whoever relies on it.
    pub fn known(self) -> Option<f64> {
        (self.source != Source::Estimated).then_some(self.value)
    }
}

/// Where a constant comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// It follows from the formula of the term.
    Proved,
    /// The user says so.
    Claimed,
    /// Nobody knows it: the value, usually 0, is one to begin with, and it is raised where pairs of visited points contradict
    /// it. What is concluded from it is no proof. Methods that cannot estimate treat it as not known.
    Estimated,
}

/// Typical curvature of a problem's functions, a positive semidefinite matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// Its diagonal, the rest taken as 0.
    Diagonal(Vec<f64>),
    /// All of it, by rows.
    Full(Vec<f64>),
}

/// Zeroth order: `min f(x)` over a domain subject to `g_j(x) <= 0`, by values alone.
///
/// Every method is pure in its arguments: the same point, draw and warm values give the same bits. Errors are sentences.
pub trait Values: Send + Sync {
    /// Number of variables.
    fn dim(&self) -> usize;
    /// Number of constraints `g_j(x) <= 0`.
    fn num_constraints(&self) -> usize;
    /// Name of constraint `j`, for people.
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Owned(format!("constraint {}", j + 1))
    }
    /// What [`crate::run::Options::feasibility`] is multiplied by for constraint `j`: `max(1, |bound|)`.
    fn constraint_scale(&self, _j: usize) -> f64 {
        1.0
    }
    /// The simple set that `x` must stay in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// The set that the constraints and the domain describe, where the problem can project onto it.
    fn region(&self) -> Option<&dyn Region> {
        None
    }
    /// The problem as an inf-projection problem, if it is one: `min_x g(x) + min_y h(y) - <y, l(x)>`.
    fn inf_projection(&self) -> Option<&dyn InfProjection> {
        None
    }
    /// The losses of single samples, if the objective is a mean of losses, or such a mean with its variance: what min-max methods
    /// weigh.
    fn sample_losses(&self) -> Option<&dyn SampleLosses> {
        None
    }
    /// How strongly the variables act: typical curvature, up to a common factor. For a linear model, the second moments of the
    /// columns. Methods may measure distances by it; none where all variables are alike.
    fn scales(&self) -> Option<&Scales> {
        None
    }
    /// Population sizes of the sample streams; empty for a deterministic problem.
    fn streams(&self) -> &[usize] {
        &[]
    }
    /// Whether the objective is a function of samples of `stream`.
    fn objective_uses(&self, _stream: usize) -> bool {
        true
    }
    /// Whether constraint `j` is a function of samples of `stream`.
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        true
    }
    /// Weak-convexity constant of the objective; `None` where there is none or it is not known.
    fn objective_modulus(&self) -> Option<Modulus> {
        None
    }
    /// Weak-convexity constant of constraint `j`.
    fn constraint_modulus(&self, _j: usize) -> Option<Modulus> {
        None
    }
    /// Tells problems apart: a checkpoint of one is refused by another.
    fn fingerprint(&self) -> String {
        format!("{} variables, {} constraints, domain {}", self.dim(), self.num_constraints(), self.domain().describe())
    }
    /// This oracle's buffers.
    fn scratch(&self) -> Scratch {
        Scratch::none()
    }
    /// Inner problems: brings `warm` up to date at `x` and returns the number of inner steps, which are counted.
    fn refresh(&self, _x: &[f64], _warm: &mut Warm, _scratch: &mut Scratch) -> Result<u64> {
        Ok(0)
    }
    /// Adds what only this problem counts, by name, since it was last asked: products with second derivatives, for example.
    fn extra_counts(&self, _scratch: &mut Scratch, _counts: &mut BTreeMap<String, u64>) -> Result<()> {
        Ok(())
    }
    /// f(x) on the drawn samples.
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64>;
    /// `g[k]` becomes the value of the k-th picked constraint on the drawn samples.
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()>;

    /// f at several points (rows of `points`) in one call: perturbed points, simulators, vectorised callbacks.
    fn objective_many(&self, points: &[f64], draw: &Draw, warm: &Warm, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        for (x, f) in points.chunks(self.dim().max(1)).zip(out) {
            *f = self.objective(At { x, draw, warm }, scratch)?;
        }
        Ok(())
    }
    /// The picked constraints at several points; `out` has one row per point.
    fn constraint_values_many(
        &self,
        points: &[f64],
        draw: &Draw,
        warm: &Warm,
        which: Pick,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        point_by_point(self, points, draw, warm, which, out, scratch)
    }

    /// Number of statistics: constraints are functions of means, `g = outer(E[statistic])`. A recursive estimator must track
    /// the mean, not its image: `|mean difference| - bound` of a batch is biased.
    fn num_statistics(&self) -> usize {
        self.num_constraints()
    }
    /// The statistics on the drawn samples.
    fn statistic_values(&self, at: At, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        self.constraint_values(at, Pick::All, out, scratch)
    }
    /// `g = outer(statistics)`. A part that is no mean, such as a norm, is a statistic that every draw gives exactly.
    fn constraints_from(&self, statistics: &[f64], g: &mut [f64]) -> Result<()> {
        g.copy_from_slice(statistics);
        Ok(())
    }
}

/// What [`Values::constraint_values_many`] does where a problem knows nothing better.
pub(crate) fn point_by_point<V: Values + ?Sized>(
    problem: &V,
    points: &[f64],
    draw: &Draw,
    warm: &Warm,
    which: Pick,
    out: &mut [f64],
    scratch: &mut Scratch,
) -> Result<()> {
    let width = which.count(problem.num_constraints()).max(1);
    for (x, g) in points.chunks(problem.dim().max(1)).zip(out.chunks_mut(width)) {
        problem.constraint_values(At { x, draw, warm }, which, g, scratch)?;
    }
    Ok(())
}

/// First order: values and subgradients.
pub trait Subgradients: Values {
    /// `grad` becomes a subgradient of f at x on the drawn samples; returns the value there, which costs nothing more.
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64>;
    /// Several cuts of f from one visit, for an objective that is a maximum of pieces: up to `values.len()`, at least one,
    /// subgradients in the rows of `rows`. Returns how many were filled.
    ///
    /// The first is what [`Subgradients::objective_grad`] gives. Each further one is the value at x, at most f(x), and a
    /// subgradient of a piece that lies below f everywhere and is weakly convex with the constant of f, rho:
    /// `f(y) >= values[k] + <row k, y - x> - (rho / 2) ||y - x||^2` for all y.
    fn objective_cuts(&self, at: At, values: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<usize> {
        let Some(value) = values.first_mut() else { return Ok(0) };
        *value = self.objective_grad(at, &mut rows[..self.dim()], scratch)?;
        Ok(1)
    }
    /// `g` becomes g(x); `weigh(g, w)` chooses weights `w`, which arrive as zeros; `grad` becomes the weighted sum of
    /// subgradients. One forward pass. All-zero weights: no backward pass, and `grad` is not touched.
    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()>;
    /// As [`Subgradients::constraint_vjp`], with a subgradient of f added; returns f. Whoever shares work between f and the
    /// constraints can do better than the default, which asks for both. `work` is as long as x.
    fn lagrangian(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        work: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let f = self.objective_grad(at, grad, scratch)?;
        let mut any = false;
        let mut seen = |g: &[f64], w: &mut [f64]| {
            weigh(g, w);
            any = w.iter().any(|w| *w != 0.0);
        };
        self.constraint_vjp(at, g, &mut seen, work, scratch)?;
        if any {
            crate::math::vec::add_scaled(grad, 1.0, work);
        }
        Ok(f)
    }
    /// Values and subgradients (rows of `rows`) of the picked constraints: several cuts or several dual variables at once.
    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let mut all = vec![0.0; self.num_constraints()];
        for ((&j, gj), row) in which.iter().zip(g).zip(rows.chunks_mut(self.dim().max(1))) {
            self.constraint_vjp(at, &mut all, &mut |_, w| w[j as usize] = 1.0, row, scratch)?;
            *gj = all[j as usize];
        }
        Ok(())
    }
    /// `grad` becomes the weighted sum of subgradients of the constraints, the outer function differentiated at the given
    /// (estimated) statistics, the means on the drawn samples.
    fn statistic_vjp(&self, at: At, _statistics: &[f64], weights: &[f64], grad: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let mut g = vec![0.0; self.num_constraints()];
        grad.fill(0.0);
        self.constraint_vjp(at, &mut g, &mut |_, w| w.copy_from_slice(weights), grad, scratch)
    }
}
