//! AccSZOFW: an accelerated Frank-Wolfe method with a SPIDER estimate of the gradient, made of values. Linear functions are
//! minimised over the constraints, which the problem must know; methods that only ask for values of constraints are elsewhere.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Common, Effort, Gradient, Walk, walks};
use super::{Method, PointOrigin, Solver, State, Step, ValueEval};
use crate::estimate::{Law, Spider};
use crate::{Error, Result};

/// Settings of [`Accszofw`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// T of the steps `eta = 1 / sqrt(T)`; a run may be longer or shorter. Default 1000.
    pub iterations: u64,
    /// Iterations from one large batch to the next; the square root of n, the number of samples, if absent.
    pub q: Option<u64>,
    /// Samples in a large batch; n if absent.
    pub b1: Option<usize>,
    /// Samples in a small batch, read at two points; the square root of n if absent.
    pub b2: Option<usize>,
    /// Whether large batches go along every axis once instead of along directions. Default false.
    pub coordinate: bool,
    /// Smoothing radius. Default 1e-3.
    pub mu: f64,
    /// Directions of each estimate (Q). Default 10.
    pub directions: usize,
    /// How directions are drawn: "sphere" (default), "gaussian" or "coordinate".
    pub law: Law,
    /// Whether each direction is followed by its opposite. Default false.
    pub antithetic: bool,
    /// Sweeps over the constraints in one step; a subproblem that needs more takes several steps. Default 50.
    pub sweeps: usize,
    /// What a projection may violate a constraint by. Default 1e-8.
    pub tolerance: f64,
    /// "last" (default) or "random".
    pub output: Output,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            iterations: 1000,
            q: None,
            b1: None,
            b2: None,
            coordinate: false,
            mu: 1e-3,
            directions: 10,
            law: Law::Sphere,
            antithetic: false,
            sweeps: 50,
            tolerance: 1e-8,
            output: Output::Last,
        }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        if self.iterations == 0 {
            return Err(Error::setting("iterations", 0, "at least 1"));
        }
        if self.q == Some(0) {
            return Err(Error::setting("q", 0, "at least 1"));
        }
        projected_zeroth_order::at_least_one("b1", self.b1)?;
        projected_zeroth_order::at_least_one("b2", self.b2)?;
        let Settings { mu, directions, sweeps, tolerance, .. } = self;
        Common { mu, directions, sweeps, tolerance }.check()?;
        Ok(self)
    }
}

/// Accelerated stochastic zeroth-order Frank-Wolfe.
///
/// **Problem.** `min f(x)` over the set W of points that keep all constraints. Of f values on samples are known; W is known
/// ([`crate::oracle::Region`]) and bounded, or is the bounded domain of a problem without constraints.
///
/// **Assumptions.** Every sample's loss is smooth; W is convex.
///
/// **Iteration.** Every q iterations `v_t = g(z_t)` on b1 samples, in between `v_t = v_{t-1} + g(z_t) - g(z_{t-1})` on b2 samples,
/// the same samples and directions at both points; `s = argmin of <v_t, u> over u in W`; `x_{t+1} = x_t + gamma_t (s - x_t)`,
/// `y_{t+1} = z_t + eta (s - z_t)`, `z_{t+1} = (1 - alpha_{t+1}) y_{t+1} + alpha_{t+1} x_{t+1}` with `alpha_t = 1 / (t + 1)`,
/// `eta = 1 / sqrt(T)`, `gamma_t = (1 + 1 / ((t + 1)(t + 2))) eta`. g is the two-point estimate with Q directions: `b1 (Q + 1)` or
/// `2 b2 (Q + 1)` values. z is the iterate.
///
/// **Guarantee.** For a finite sum with the default batches the expected Frank-Wolfe gap of a random iterate is of the order of
/// 1 / sqrt(T).
///
/// **Deviations.** A cone is cut by a ball, whose radius belongs to the problem. A subproblem that needs more than `sweeps` sweeps
/// is continued in the next step; the iterate waits. W that is not convex is linearised at the iterate. gamma above 1, which
/// T below 3 gives, counts as 1.
///
/// **Settings.** [`Settings`]: iterations, q, b1, b2, coordinate, mu, directions, law, antithetic, sweeps, tolerance, output.
///
/// **Reference.** Huang, Tao & Chen, *Accelerated stochastic gradient-free and projection-free methods*.
#[derive(Debug, Clone)]
pub struct Accszofw {
    settings: Settings,
    s: Saved,
    b1: usize,
    b2: usize,
    large: Gradient,
    small: Gradient,
    now: Vec<f64>,
    then: Vec<f64>,
    corner: Vec<f64>,
    x: Vec<f64>,
    z: Vec<f64>,
}

/// What a checkpoint keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
    x: Vec<f64>,
    /// z_{t-1}.
    previous: Vec<f64>,
    v: Spider,
}

impl Accszofw {
    /// A solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Accszofw {
            settings: settings.resolve()?,
            s: Saved::default(),
            b1: 1,
            b2: 1,
            large: Gradient::default(),
            small: Gradient::default(),
            now: vec![],
            then: vec![],
            corner: vec![],
            x: vec![],
            z: vec![],
        })
    }

    /// v_t.
    fn estimate<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        if self.s.v.resets() {
            self.large.draw(ev, self.b1);
            let (large, z) = (&mut self.large, &self.s.walk.w);
            // v_t = g(z_t)
            return self.s.v.reset(|v| large.at(ev, z, v));
        }
        self.small.draw(ev, self.b2);
        self.small.at(ev, &self.s.walk.w, &mut self.now)?;
        self.small.at(ev, &self.s.previous, &mut self.then)?;
        // v_t = v_{t-1} + g(z_t) - g(z_{t-1})
        self.s.v.advance(&self.now, &self.then);
        Ok(())
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let Settings { sweeps, tolerance, .. } = self.settings;
        if !self.s.walk.subproblem.is_open() {
            self.estimate(ev)?;
        }
        // s_t = argmin of <v_t, u> over u in W; `now` is working space
        let effort = Effort { sweeps, tolerance };
        if !self.s.walk.subproblem.lowest(ev, effort, &self.s.walk.w, self.s.v.get(), &mut self.now, &mut self.corner)? {
            return Ok(Walk::wait());
        }
        let t = self.s.walk.t as f64;
        let eta = 1.0 / (self.settings.iterations as f64).sqrt();
        let gamma = ((1.0 + 1.0 / ((t + 1.0) * (t + 2.0))) * eta).min(1.0);
        let alpha = 1.0 / (t + 2.0);
        for (i, s) in self.corner.iter().enumerate() {
            // x_{t+1}, y_{t+1} and z_{t+1}
            self.x[i] = self.s.x[i] + gamma * (s - self.s.x[i]);
            let y = self.s.walk.w[i] + eta * (s - self.s.walk.w[i]);
            self.z[i] = (1.0 - alpha) * y + alpha * self.x[i];
        }
        let step = self.s.walk.advance(&mut self.z, self.settings.output, ev)?;
        std::mem::swap(&mut self.s.previous, &mut self.z);
        std::mem::swap(&mut self.s.x, &mut self.x);
        Ok(step)
    }
}

walks!(Accszofw, "accszofw");

impl<'e> Solver<dyn ValueEval + 'e> for Accszofw {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        projected_zeroth_order::can_minimize("accszofw", ev)?;
        let Settings { directions, mu, law, antithetic, q, b1, b2, coordinate, .. } = self.settings;
        let n = ev.streams().iter().copied().max().unwrap_or(1).max(1);
        let root = (n as f64).sqrt().ceil() as usize;
        (self.b1, self.b2) = (b1.unwrap_or(n), b2.unwrap_or(root));
        self.small.start(x.len(), directions, mu, law, antithetic);
        self.large.start(x.len(), directions, mu, if coordinate { Law::Coordinate } else { law }, antithetic);
        self.s.walk.start(0, x);
        for point in [&mut self.s.x, &mut self.s.previous] {
            projected_zeroth_order::copy(point, x);
        }
        self.s.v.start(x.len(), q.unwrap_or(root as u64));
        for buffer in [&mut self.now, &mut self.then, &mut self.corner, &mut self.x, &mut self.z] {
            buffer.resize(x.len(), 0.0);
        }
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
