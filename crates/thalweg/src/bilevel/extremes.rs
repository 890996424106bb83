//! Pessimistic and optimistic value of a bilevel problem at a given x: the worst and the best of its inner solutions, each
//! found by a separate optimisation. No reformulation is used, so that results of solvers can be assessed independently.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::{Bilevel, Pair};
use crate::error::{check_finite, check_length};
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

/// Largest number of gradient steps on g, and the gradient norm that ends them.
const STEPS: usize = 20_000;
const SHORT: f64 = 1e-10;
/// Largest number of iterations of the search for an extreme.
const ITERATIONS: u64 = 1_000;

/// Flag that interrupts the computation when set, as in [`Options`].
pub(super) type Stop<'a> = Option<&'a Arc<AtomicBool>>;

/// Reason for a missing result after an interruption.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Returns whether the flag is set.
pub(super) fn set(interrupt: Stop) -> bool {
    interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

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
    let (solution, inner_value) = minimum(problem, x, interrupt)?;
    let search = |sign: f64| {
        let found = Search::new(problem, x, inner_value + slack, slack, sign).run(&[&solution], interrupt)?;
        if set(interrupt) { Err(Error::Problem(INTERRUPTED.into())) } else { Ok(found) }
    };
    Ok(Extremes { inner_value, slack, pessimistic: search(-1.0)?, optimistic: search(1.0)? })
}

/// Finds a minimiser of g at x and its value by gradient descent with Nesterov's momentum from 0, restarted if the value
/// increases.
fn minimum(problem: &dyn Bilevel, x: &[f64], interrupt: Stop) -> Result<(Vec<f64>, f64)> {
    let m = problem.inner_dim();
    let (mut s, mut gradient) = (problem.scratch(), vec![0.0; m]);
    let (mut y, mut ahead, mut momentum) = (vec![0.0; m], vec![0.0; m], 1.0_f64);
    let mut ask = |y: &[f64], gradient: Option<&mut [f64]>| -> Result<f64> {
        let at = Pair { x, y };
        problem.visit(at, &mut s)?;
        let g = problem.inner_grad(at, None, gradient, &mut s)?;
        check_finite("the inner objective", g)?;
        Ok(g)
    };
    let mut smoothness = problem.inner_smoothness(x).unwrap_or(1.0).max(1e-12);
    let mut value = ask(&y, None)?;
    for _ in 0..STEPS {
        if set(interrupt) {
            return Err(Error::Problem(INTERRUPTED.into()));
        }
        let at_ahead = ask(&ahead, Some(&mut gradient))?;
        if let Some((i, value)) = vec::first_not_finite(&gradient) {
            return Err(Error::NotFinite { what: format!("entry {} of the inner gradient", i + 1), value });
        }
        let squared = vec::norm_squared(&gradient);
        if squared.sqrt() <= SHORT {
            if at_ahead <= value {
                (y, value) = (ahead, at_ahead);
            }
            break;
        }
        let mut next = vec![0.0; m];
        let reached = loop {
            next.iter_mut().zip(&ahead).zip(&gradient).for_each(|((n, a), g)| *n = a - g / smoothness);
            let reached = ask(&next, None)?;
            // The decrease guaranteed by a smoothness constant, up to rounding.
            if reached <= at_ahead - 0.5 * squared / smoothness + 1e-15 * at_ahead.abs() || smoothness > 1e15 {
                break reached;
            }
            smoothness *= 2.0;
        };
        if reached > value {
            if momentum == 1.0 {
                break; // a plain gradient step gains nothing any more
            }
            (momentum, ahead) = (1.0, y.clone());
            continue;
        }
        let larger = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
        let share = (momentum - 1.0) / larger;
        ahead.iter_mut().zip(&next).zip(&y).for_each(|((a, n), y)| *a = n + share * (n - y));
        (y, value, momentum) = (next, reached, larger);
        smoothness *= 0.99;
    }
    Ok((y, value))
}

/// The problem `min sign f(x, y)` over Y subject to `C_i <= slack` and `g <= level`, in y alone.
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
    weights: Vec<f64>,
    slope: Vec<f64>,
}

impl<'p> Search<'p> {
    pub(super) fn new(problem: &'p dyn Bilevel, x: &'p [f64], level: f64, slack: f64, sign: f64) -> Self {
        Search { problem, x, level, slack, sign, set: problem.inner_set() }
    }

    /// Runs from each start and returns the best feasible point, or the one with the smallest violation. After an interruption
    /// it returns the best so far.
    pub(super) fn run(&self, starts: &[&[f64]], interrupt: Stop) -> Result<Extreme> {
        let mut best: Option<Extreme> = None;
        for start in starts {
            let mut solver = Bundle::new(bundle::Settings { eps: 1e-5, ..bundle::Settings::default() })?;
            let options = Options {
                record: Record::nothing(),
                feasibility: self.tolerance(),
                interrupt: interrupt.cloned(),
                ..Options::iterations(ITERATIONS)
            };
            let outcome = run::minimize(self, &mut solver, start, &options, &mut ())?;
            let point = outcome.best_feasible.as_ref().filter(|_| !outcome.point.feasible).unwrap_or(&outcome.point);
            let found = Extreme {
                value: self.sign * point.objective,
                y: point.x.clone(),
                multipliers: outcome.multipliers.clone().unwrap_or_else(|| vec![0.0; self.num_constraints()]),
                violation: point.violation,
                finished: outcome.ended == StopReason::Finished,
            };
            let rank = |e: &Extreme| (e.violation.max(self.tolerance()), self.sign * e.value);
            if best.as_ref().is_none_or(|b| rank(&found) < rank(b)) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| {
            Error::Problem("no start was given for the search for an inner solution; expected at least one".into())
        })
    }

    /// Returns the feasibility tolerance, small against the slack.
    fn tolerance(&self) -> f64 {
        1e-2 * self.slack
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
        self.problem.num_constraints() + 1
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        if j == self.problem.num_constraints() { "inner value".into() } else { format!("constraint {}", j + 1).into() }
    }
    fn domain(&self) -> &dyn Set {
        &self.set
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Estimated })
    }
    /// g and C_i are convex in y by assumption.
    fn constraint_modulus(&self, _: usize) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Claimed })
    }
}

impl Values for Search<'_> {
    fn scratch(&self) -> Scratch {
        let (r, m) = (self.problem.num_constraints(), self.problem.inner_dim());
        Scratch::new(Buffers { problem: self.problem.scratch(), weights: vec![0.0; r + 1], slope: vec![0.0; m] })
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
        let mut all = vec![0.0; r + 1];
        self.problem.constraint_values(pair, &mut all[..r], &mut b.problem)?;
        all[..r].iter_mut().for_each(|c| *c -= self.slack);
        all[r] = self.problem.inner(pair, &mut b.problem)? - self.level;
        which.each(r + 1, |k, j| g[k] = all[j]);
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
        grad.fill(0.0);
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
