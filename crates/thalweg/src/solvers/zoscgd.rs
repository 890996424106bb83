//! ZOSCGD: stochastic conditional gradient (Frank-Wolfe) method with zeroth-order gradient estimates. Linear functions are
//! minimised over the constraints, so the problem must provide their region. Solvers that use only constraint values are in other
//! modules.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Gradient, Walk, settings, walks};
use super::{Method, PointOrigin, Schedule, Solver, State, Step, ValueEval};
use crate::{Error, Result};

settings! {
    "Zoscgd", law: Gaussian, batch;
    /// Step size, the share of the new point, at most 1: a schedule. The default, the rule "theory", is `1 / sqrt(iterations)`;
    /// `{ rule = "strongly-convex", c = 2 }` is the `2 / (t + 2)` of the deterministic method.
    alpha: Schedule = Schedule::Theory,
    /// T of the rule "theory"; a run may be longer or shorter. Default 1000.
    iterations: u64 = 1000,
}

impl Settings {
    /// Resolves the rule "theory" and checks every value.
    pub fn resolve(mut self) -> Result<Self> {
        if self.iterations == 0 {
            return Err(Error::setting("iterations", 0, "at least 1"));
        }
        let theory = Schedule::Constant(1.0 / (self.iterations as f64).sqrt());
        self.alpha = self.alpha.resolve("alpha", Some(&theory))?;
        self.alpha.validate("alpha", false)?;
        self.common().check()?;
        projected_zeroth_order::at_least_one("batch", Some(self.batch))?;
        Ok(self)
    }
}

/// Zeroth-order stochastic conditional gradient.
///
/// **Problem.** `min f(w)` over the bounded feasible set W. f is known by its values on samples; W is given as a
/// [`crate::oracle::Region`], or is the domain of a problem without constraints.
///
/// **Assumptions.** f is smooth and its estimates have bounded variance; W is convex.
///
/// **Iteration.** `s = argmin of <g, u> over u in W`, `w = (1 - alpha_t) w + alpha_t s`, with
/// `g = 1/(Q b) sum_i sum_k (l_i(w + mu u_k) - l_i(w)) / mu u_k` over b samples and Q directions: `b (Q + 1)` values.
///
/// **Guarantee.** With alpha = 1 / sqrt(T) and mini-batches of order (d + 5) T, the expected Frank-Wolfe gap of a random iterate
/// is of order 1 / sqrt(T).
///
/// **Deviations.** A cone is intersected with a ball whose radius is set by the problem. A subproblem that needs more than
/// `sweeps` sweeps is continued in the next step, with the iterate unchanged until it is complete. A nonconvex W is linearised at
/// the iterate. A share above 1 counts as 1. The start need not be in W, because its share in the iterate vanishes.
///
/// **Settings.** [`Settings`]: alpha, iterations, mu, directions, law, antithetic, batch, sweeps, tolerance, output.
///
/// **Reference.** Balasubramanian and Ghadimi, *Zeroth-order (non)-convex stochastic optimization via conditional gradients*.
#[derive(Debug, Clone)]
pub struct Zoscgd {
    settings: Settings,
    s: Saved,
    gradient: Gradient,
    g: Vec<f64>,
    aim: Vec<f64>,
    next: Vec<f64>,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
}

impl Zoscgd {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Zoscgd {
            settings: settings.resolve()?,
            s: Saved::default(),
            gradient: Gradient::default(),
            g: vec![],
            aim: vec![],
            next: vec![],
        })
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        if !self.s.walk.subproblem.is_open() {
            self.gradient.draw(ev, self.settings.batch);
            self.gradient.at(ev, &self.s.walk.w, &mut self.g)?;
        }
        // s_t = argmin of <g_t, u> over u in W
        let common = self.settings.common();
        if !self.s.walk.subproblem.lowest(ev, common, &self.s.walk.w, &self.g, &mut self.aim, &mut self.next)? {
            return Ok(Walk::wait());
        }
        let alpha = self.settings.alpha.at(self.s.walk.t).min(1.0);
        // w_{t+1} = (1 - alpha_t) w_t + alpha_t s_t
        self.next.iter_mut().zip(&self.s.walk.w).for_each(|(s, w)| *s = (1.0 - alpha) * w + alpha * *s);
        self.s.walk.advance(&mut self.next, self.settings.output, ev)
    }
}

walks!(Zoscgd, "zoscgd");

impl<'e> Solver<dyn ValueEval + 'e> for Zoscgd {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        projected_zeroth_order::can_minimize("zoscgd", ev)?;
        self.gradient.start(x.len(), self.settings.common())?;
        self.s.walk.start(0, x);
        for buffer in [&mut self.g, &mut self.aim, &mut self.next] {
            buffer.resize(x.len(), 0.0);
        }
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
