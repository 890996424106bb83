//! Minimum of the follower's problem at a given x, to the accuracy that a small slack of responses needs. What the leader makes of the
//! responses is in `extremes`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Bilevel, INTERRUPTED, Pair, Stop, is_set};
use crate::error::check_finite;
use crate::math::cholesky::Cholesky;
use crate::math::vec;
use crate::oracle::{At, Description, Modulus, Pick, Scratch, Source, Subgradients, Values};
use crate::run::{self, Options, Record};
use crate::sets::Set;
use crate::solvers::{Bundle, bundle};
use crate::{Error, Result};

/// Linear constraint of the follower: `by_x . x + by_y . y <= bound`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InnerRow {
    /// Coefficients of x.
    pub by_x: Vec<f64>,
    /// Coefficients of y.
    pub by_y: Vec<f64>,
    /// Bound.
    pub bound: f64,
}

impl InnerRow {
    /// Computes `by_x . x + by_y . y - bound`.
    pub fn value(&self, at: Pair) -> f64 {
        vec::dot(&self.by_x, at.x) + vec::dot(&self.by_y, at.y) - self.bound
    }

    /// Returns the row for variables in these units, divided by the norm of its coefficients of y.
    pub(super) fn in_units(&self, x: &[f64], y: &[f64]) -> InnerRow {
        let times = |row: &[f64], units: &[f64]| -> Vec<f64> { row.iter().zip(units).map(|(a, unit)| a * unit).collect() };
        let (mut by_x, mut by_y) = (times(&self.by_x, x), times(&self.by_y, y));
        let norm = vec::norm(&by_y);
        let share = if norm > 0.0 { 1.0 / norm } else { 1.0 };
        vec::scale(&mut by_x, share);
        vec::scale(&mut by_y, share);
        InnerRow { by_x, by_y, bound: share * self.bound }
    }
}

/// Minimiser of g at an x.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Minimum {
    pub(super) y: Vec<f64>,
    pub(super) value: f64,
}

/// Largest number of inner variables for which second derivatives of g are collected in a matrix.
const NEWTON_DIM: usize = 64;
/// Largest number of Newton steps, of increases of the damping in one, and the factor of an increase.
const NEWTON_STEPS: usize = 100;
const DAMPED: usize = 16;
const DAMP: f64 = 10.0;
/// First damping relative to the mean curvature, and smallest one.
const DAMPING: f64 = 1e-6;
const LEAST_DAMPING: f64 = 1e-12;
/// Gradient norm, relative to the largest one seen, that ends Newton's method.
const SMALL: f64 = 1e-14;
/// Largest number of gradient steps on g, and the gradient norm that ends them.
const STEPS: usize = 20_000;
const SHORT: f64 = 1e-10;
/// Accuracy and largest number of iterations where the follower has constraints, and the violation of these that is accepted.
const EPS: f64 = 1e-7;
const ITERATIONS: u64 = 1_000;
const VIOLATION: f64 = 1e-10;

/// Minimises g at x, over all y or over the follower's constraints if it has any.
pub(super) fn minimum(problem: &dyn Bilevel, x: &[f64], start: &[f64], interrupt: Stop) -> Result<Minimum> {
    if problem.inner_set_binds() || !problem.inner_rows().is_empty() {
        return constrained(problem, x, start, interrupt);
    }
    let mut evaluation = Evaluation { problem, x, scratch: problem.scratch() };
    let start = if start.len() <= NEWTON_DIM { newton(&mut evaluation, start, interrupt)? } else { start.to_vec() };
    accelerated(&mut evaluation, start, interrupt)
}

/// g at an x, and its gradient in y.
struct Evaluation<'p> {
    problem: &'p dyn Bilevel,
    x: &'p [f64],
    scratch: Scratch,
}

impl Evaluation<'_> {
    fn ask(&mut self, y: &[f64], gradient: Option<&mut [f64]>) -> Result<f64> {
        let at = Pair { x: self.x, y };
        self.problem.visit(at, &mut self.scratch)?;
        let (mut gradient, scratch) = (gradient, &mut self.scratch);
        let g = match gradient.as_deref_mut() {
            None => self.problem.inner(at, scratch)?,
            Some(gradient) => self.problem.inner_grad(at, None, Some(gradient), scratch)?,
        };
        check_finite("the inner objective", g)?;
        if let Some((i, value)) = gradient.and_then(|gradient| vec::first_not_finite(gradient)) {
            return Err(Error::NotFinite { what: format!("entry {} of the inner gradient", i + 1), value });
        }
        Ok(g)
    }

    /// Collects the second derivatives of g by y, as a matrix by rows.
    fn hessian(&mut self, y: &[f64], out: &mut [f64]) -> Result<()> {
        let (m, at) = (y.len(), Pair { x: self.x, y });
        let (mut unit, mut by_x, mut column) = (vec![0.0; m], vec![0.0; self.x.len()], vec![0.0; m]);
        self.problem.visit(at, &mut self.scratch)?;
        for j in 0..m {
            unit[j] = 1.0;
            column.fill(0.0);
            self.problem.inner_second(at, &unit, 1.0, &mut by_x, &mut column, &mut self.scratch)?;
            unit[j] = 0.0;
            column.iter().enumerate().for_each(|(i, c)| out[i * m + j] = *c);
        }
        check_finite("the curvature of the inner objective", vec::sum(out))
    }
}

/// Newton's method with damping, which becomes smaller with every step that decreases g.
fn newton(evaluation: &mut Evaluation, start: &[f64], interrupt: Stop) -> Result<Vec<f64>> {
    let m = start.len();
    let (mut y, mut next, mut gradient, mut hessian) = (start.to_vec(), vec![0.0; m], vec![0.0; m], vec![0.0; m * m]);
    let mut value = evaluation.ask(&y, Some(&mut gradient))?;
    let (mut largest, mut damping) = (0.0_f64, DAMPING);
    for _ in 0..NEWTON_STEPS {
        if is_set(interrupt) {
            return Err(Error::Problem(INTERRUPTED.into()));
        }
        let length = vec::norm(&gradient);
        largest = largest.max(length);
        if length <= SMALL * largest {
            break;
        }
        evaluation.hessian(&y, &mut hessian)?;
        let curvature = (0..m).map(|i| hessian[i * m + i].abs()).sum::<f64>() / m as f64;
        if curvature == 0.0 {
            break; // no curvature to go by
        }
        let mut accepted = false;
        for _ in 0..DAMPED {
            if let Some(factor) = Cholesky::shifted(&hessian, m, -damping * curvature) {
                next.copy_from_slice(&gradient);
                factor.solve(&mut next);
                next.iter_mut().zip(&y).for_each(|(d, y)| *d = y - *d);
                // A step into a region where g is not defined is too long, like one that increases g.
                if let Ok(reached) = evaluation.ask(&next, None)
                    && reached < value
                {
                    accepted = true;
                    break;
                }
            }
            damping *= DAMP;
        }
        if !accepted {
            break;
        }
        std::mem::swap(&mut y, &mut next);
        value = evaluation.ask(&y, Some(&mut gradient))?;
        damping = (damping / DAMP).max(LEAST_DAMPING);
    }
    Ok(y)
}

/// Gradient descent with Nesterov's momentum, restarted if the value increases.
fn accelerated(evaluation: &mut Evaluation, start: Vec<f64>, interrupt: Stop) -> Result<Minimum> {
    let m = start.len();
    let (mut y, mut ahead, mut next, mut momentum) = (start.clone(), start, vec![0.0; m], 1.0_f64);
    let mut gradient = vec![0.0; m];
    let mut smoothness = evaluation.problem.inner_smoothness(evaluation.x).unwrap_or(1.0).max(1e-12);
    let mut value = evaluation.ask(&y, None)?;
    for _ in 0..STEPS {
        if is_set(interrupt) {
            return Err(Error::Problem(INTERRUPTED.into()));
        }
        let at_ahead = evaluation.ask(&ahead, Some(&mut gradient))?;
        let squared = vec::norm_squared(&gradient);
        if squared.sqrt() <= SHORT {
            if at_ahead <= value {
                (y, value) = (ahead, at_ahead);
            }
            break;
        }
        let reached = loop {
            next.iter_mut().zip(&ahead).zip(&gradient).for_each(|((n, a), g)| *n = a - g / smoothness);
            let reached = evaluation.ask(&next, None)?;
            // The decrease guaranteed by a smoothness constant, up to rounding.
            if reached <= at_ahead - 0.5 * squared / smoothness + 1e-15 * at_ahead.abs() || smoothness > 1e15 {
                break reached;
            }
            smoothness *= 2.0;
        };
        if reached >= value {
            if momentum == 1.0 {
                break; // a plain gradient step gains nothing any more
            }
            momentum = 1.0;
            ahead.copy_from_slice(&y);
            continue;
        }
        let larger = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
        let share = (momentum - 1.0) / larger;
        ahead.iter_mut().zip(&next).zip(&y).for_each(|((a, n), y)| *a = n + share * (n - y));
        std::mem::swap(&mut y, &mut next);
        (value, momentum) = (reached, larger);
        smoothness *= 0.99;
    }
    Ok(Minimum { y, value })
}

/// Minimises g over the follower's constraints.
fn constrained(problem: &dyn Bilevel, x: &[f64], start: &[f64], interrupt: Stop) -> Result<Minimum> {
    let follower = Follower { problem, x, set: problem.inner_set() };
    let mut solver = Bundle::new(bundle::Settings { eps: EPS, ..bundle::Settings::default() })?;
    let options = Options {
        record: Record::nothing(),
        feasibility: VIOLATION,
        interrupt: interrupt.cloned(),
        ..Options::iterations(ITERATIONS)
    };
    let outcome = run::minimize(&follower, &mut solver, start, &options, &mut ())?;
    if is_set(interrupt) {
        return Err(Error::Problem(INTERRUPTED.into()));
    }
    let point = outcome.best_feasible.filter(|best| !outcome.point.feasible || best.objective < outcome.point.objective);
    let point = point.unwrap_or(outcome.point);
    if !point.feasible && point.violation > 1e3 * VIOLATION {
        return Err(Error::Problem(format!(
            "no response satisfies the follower's constraints at this x: they are violated by {:.3e} at least; expected a feasible              response for every x",
            point.violation
        )));
    }
    Ok(Minimum { y: point.x, value: point.objective })
}

/// The follower's problem at an x, with its constraints.
struct Follower<'p> {
    problem: &'p dyn Bilevel,
    x: &'p [f64],
    set: Arc<dyn Set>,
}

impl Description for Follower<'_> {
    fn dim(&self) -> usize {
        self.problem.inner_dim()
    }
    fn num_constraints(&self) -> usize {
        self.problem.inner_rows().len()
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        format!("constraint {} of the follower", j + 1).into()
    }
    fn domain(&self) -> &dyn Set {
        &self.set
    }
    /// g is convex in y by assumption.
    fn objective_modulus(&self) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Claimed })
    }
    fn constraint_modulus(&self, _: usize) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Proved })
    }
}

impl Values for Follower<'_> {
    fn scratch(&self) -> Scratch {
        self.problem.scratch()
    }
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let pair = Pair { x: self.x, y: at.x };
        self.problem.visit(pair, scratch)?;
        self.problem.inner(pair, scratch)
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
        let (rows, pair) = (self.problem.inner_rows(), Pair { x: self.x, y: at.x });
        which.each(rows.len(), |k, j| g[k] = rows[j].value(pair));
        Ok(())
    }
}

impl Subgradients for Follower<'_> {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let pair = Pair { x: self.x, y: at.x };
        self.problem.visit(pair, scratch)?;
        self.problem.inner_grad(pair, None, Some(grad), scratch)
    }
    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.constraint_values(at, Pick::All, g, scratch)?;
        let mut weights = vec![0.0; g.len()];
        weigh(g, &mut weights);
        grad.fill(0.0);
        for (row, weight) in self.problem.inner_rows().iter().zip(&weights) {
            vec::add_scaled(grad, *weight, &row.by_y);
        }
        Ok(())
    }
}
