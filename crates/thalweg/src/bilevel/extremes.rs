//! Pessimistic and optimistic value of a bilevel problem at a given x: the worst and the best of its inner solutions, each
//! found by a separate optimisation. No reformulation is used, so that results of solvers can be assessed independently.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::follower::{Minimum, minimum};
use super::{Bilevel, INTERRUPTED, Pair, Stop, is_set};
use crate::error::check_length;
use crate::math::vec;
use crate::oracle::{At, Description, Modulus, Pick, Scratch, Source, Subgradients, Values};
use crate::run::{self, Options, Record, StopReason};
use crate::sets::Set;
use crate::solvers::{Bundle, bundle};
use crate::{Error, Result};

/// Worst or best inner solution at an x.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extreme {
    /// Value of f.
    pub value: f64,
    /// The inner variables.
    pub y: Vec<f64>,
    /// Multipliers of the constraints C_i and, last, of the inner problem.
    pub multipliers: Vec<f64>,
    /// Largest violation of `C_i <= slack` and `g <= g* + slack`.
    pub violation: f64,
    /// Whether the search converged.
    pub finished: bool,
}

/// Pessimistic and optimistic value at an x.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extremes {
    /// Smallest value g* of the inner problem at x.
    pub inner_value: f64,
    /// Inner solutions are all y with `g <= g* + slack`.
    pub slack: f64,
    /// Largest f over inner solutions, the pessimistic value.
    pub pessimistic: Extreme,
    /// Smallest f over inner solutions, the optimistic value.
    pub optimistic: Extreme,
}

impl Extremes {
    /// Returns the difference between the pessimistic and the optimistic value.
    pub fn gap(&self) -> f64 {
        self.pessimistic.value - self.optimistic.value
    }
}

/// Largest number of iterations of the search for an extreme.
const ITERATIONS: u64 = 1_000;
/// Slacks of the stages of a search as multiples of the last one, and the largest slack of a stage.
const STAGES: [f64; 2] = [1e8, 1e4];
const COARSEST: f64 = 1e-3;
/// Feasibility tolerance of the search as a share of the slack.
const TOLERANCE: f64 = 1e-2;
/// Smallest slack of constraints other than that on g, whose tolerance need not be as small.
pub(super) const TIGHTEST: f64 = 1e-7;

/// Finds the worst and the best inner solution at `x`. Inner solutions are all y with `g(x, y) <= g*(x) + slack`; the error of
/// f is of the order of a root of the slack.
pub fn extremes(problem: &dyn Bilevel, x: &[f64], slack: f64) -> Result<Extremes> {
    extremes_until(problem, x, slack, None)
}

/// As [`extremes`], with an error if the flag `interrupt` is set before both are found.
pub fn extremes_until(problem: &dyn Bilevel, x: &[f64], slack: f64, interrupt: Option<&Arc<AtomicBool>>) -> Result<Extremes> {
    check_length("the outer variable", x.len(), problem.outer_dim())?;
    if !(slack > 0.0 && slack.is_finite()) {
        return Err(Error::setting("slack", slack, "a finite number larger than 0"));
    }
    let Minimum { y, value: inner_value } = minimum(problem, x, &vec![0.0; problem.inner_dim()], interrupt)?;
    let least = Minimum { y, value: inner_value };
    let search = |sign: f64| Search::staged(problem, x, &least, slack, sign, interrupt);
    Ok(Extremes { inner_value, slack, pessimistic: search(-1.0)?, optimistic: search(1.0)? })
}

/// The problem `min sign f(x, y)` over Y subject to `C_i <= slack`, `g <= level` and the constraints of the follower, in y alone.
///
/// Constraints are divided by the slack, and C_i and the follower's own constraints by no less than [`TIGHTEST`].
pub(super) struct Search<'p> {
    problem: &'p dyn Bilevel,
    x: &'p [f64],
    level: f64,
    slack: f64,
    sign: f64,
    set: Arc<dyn Set>,
}

/// Buffers of one evaluation.
struct Buffers {
    problem: Scratch,
    all: Vec<f64>,
    weights: Vec<f64>,
    slope: Vec<f64>,
}

impl<'p> Search<'p> {
    pub(super) fn new(problem: &'p dyn Bilevel, x: &'p [f64], level: f64, slack: f64, sign: f64) -> Self {
        Search { problem, x, level, slack, sign, set: problem.inner_set() }
    }

    /// Finds the worst or the best inner solution, given a minimiser of g. A small slack makes the constraint on g so steep that a
    /// search from far away may end early: the slack is approached in stages, each from the result of the one before. If the last one
    /// does not converge, the minimiser is tried as a start too.
    pub(super) fn staged(
        problem: &'p dyn Bilevel,
        x: &'p [f64],
        least: &Minimum,
        slack: f64,
        sign: f64,
        interrupt: Stop,
    ) -> Result<Extreme> {
        let at = |slack: f64| Search::new(problem, x, least.value + slack, slack, sign);
        let mut start = least.y.clone();
        for stage in STAGES.into_iter().filter(|stage| slack * stage <= COARSEST) {
            start = at(slack * stage).run(&[&start], interrupt)?.y;
        }
        let mut found = at(slack).run(&[&start], interrupt)?;
        if (!found.finished || found.violation > TOLERANCE * slack) && start != least.y {
            found = at(slack).run(&[&start, &least.y], interrupt)?;
        }
        if is_set(interrupt) { Err(Error::Problem(INTERRUPTED.into())) } else { Ok(found) }
    }

    /// Runs from each start and returns the best feasible point, or the one with the smallest violation. After an interruption
    /// it returns the best so far.
    pub(super) fn run(&self, starts: &[&[f64]], interrupt: Stop) -> Result<Extreme> {
        let mut best: Option<Extreme> = None;
        for start in starts {
            let mut solver = Bundle::new(bundle::Settings { eps: 1e-5, ..bundle::Settings::default() })?;
            let options = Options {
                record: Record::nothing(),
                feasibility: TOLERANCE,
                interrupt: interrupt.cloned(),
                ..Options::iterations(ITERATIONS)
            };
            let outcome = run::minimize(self, &mut solver, start, &options, &mut ())?;
            let point = outcome.best_feasible.as_ref().filter(|_| !outcome.point.feasible).unwrap_or(&outcome.point);
            let r = self.problem.num_constraints();
            let scaled = outcome.multipliers.clone().unwrap_or_else(|| vec![0.0; self.num_constraints()]);
            let found = Extreme {
                value: self.sign * point.objective,
                y: point.x.clone(),
                multipliers: scaled.iter().take(r + 1).enumerate().map(|(j, w)| w / self.scale(j)).collect(),
                violation: self.slack * point.violation,
                finished: outcome.ended == StopReason::Finished,
            };
            let rank = |e: &Extreme| (e.violation.max(TOLERANCE * self.slack), self.sign * e.value);
            if best.as_ref().is_none_or(|b| rank(&found) < rank(b)) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| {
            Error::Problem("no start was given for the search for an inner solution; expected at least one".into())
        })
    }

    /// Returns the number that constraint `j` is divided by.
    fn scale(&self, j: usize) -> f64 {
        if j == self.problem.num_constraints() { self.slack } else { self.slack.max(TIGHTEST) }
    }

    fn at<'a>(&'a self, y: &'a [f64]) -> Pair<'a> {
        Pair { x: self.x, y }
    }
}

impl Description for Search<'_> {
    fn dim(&self) -> usize {
        self.problem.inner_dim()
    }
    fn num_constraints(&self) -> usize {
        self.problem.num_constraints() + 1 + self.problem.inner_rows().len()
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        let r = self.problem.num_constraints();
        match j.cmp(&r) {
            Ordering::Less => format!("constraint {}", j + 1).into(),
            Ordering::Equal => "inner value".into(),
            Ordering::Greater => format!("constraint {} of the follower", j - r).into(),
        }
    }
    fn domain(&self) -> &dyn Set {
        &self.set
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Estimated })
    }
    /// g and C_i are convex in y by assumption, and constraints of the follower are linear.
    fn constraint_modulus(&self, _: usize) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Claimed })
    }
}

impl Values for Search<'_> {
    fn scratch(&self) -> Scratch {
        let m = self.problem.inner_dim();
        let all = vec![0.0; self.num_constraints()];
        Scratch::new(Buffers { problem: self.problem.scratch(), weights: all.clone(), all, slope: vec![0.0; m] })
    }
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let b = scratch.get::<Buffers>()?;
        self.problem.visit(self.at(at.x), &mut b.problem)?;
        Ok(self.sign * self.problem.outer(self.at(at.x), &mut b.problem)?)
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let b = scratch.get::<Buffers>()?;
        let (r, pair) = (self.problem.num_constraints(), self.at(at.x));
        self.problem.visit(pair, &mut b.problem)?;
        self.problem.constraint_values(pair, &mut b.all[..r], &mut b.problem)?;
        b.all[r] = self.problem.inner(pair, &mut b.problem)? - self.level;
        for (value, row) in b.all[r + 1..].iter_mut().zip(self.problem.inner_rows()) {
            *value = row.value(pair);
        }
        for (j, value) in b.all.iter_mut().enumerate() {
            *value = if j == r { *value / self.slack } else { *value / self.scale(j) - 1.0 };
        }
        which.each(b.all.len(), |k, j| g[k] = b.all[j]);
        Ok(())
    }
}

impl Subgradients for Search<'_> {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let b = scratch.get::<Buffers>()?;
        self.problem.visit(self.at(at.x), &mut b.problem)?;
        let f = self.problem.outer_grad(self.at(at.x), None, Some(grad), &mut b.problem)?;
        vec::scale(grad, self.sign);
        Ok(self.sign * f)
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
        let b = scratch.get::<Buffers>()?;
        b.weights.fill(0.0);
        weigh(g, &mut b.weights);
        if b.weights.iter().all(|w| *w == 0.0) {
            return Ok(());
        }
        let (r, pair) = (self.problem.num_constraints(), self.at(at.x));
        b.weights.iter_mut().enumerate().for_each(|(j, w)| *w /= self.scale(j));
        grad.fill(0.0);
        for (row, weight) in self.problem.inner_rows().iter().zip(&b.weights[r + 1..]) {
            vec::add_scaled(grad, *weight, &row.by_y);
        }
        if b.weights[r] != 0.0 {
            self.problem.inner_grad(pair, None, Some(&mut b.slope), &mut b.problem)?;
            vec::add_scaled(grad, b.weights[r], &b.slope);
        }
        if b.weights[..r].iter().any(|w| *w != 0.0) {
            self.problem.constraint_vjp(pair, &b.weights[..r], None, Some(grad), &mut b.problem)?;
        }
        Ok(())
    }
}
