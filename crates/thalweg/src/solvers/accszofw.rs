//! AccSZOFW: accelerated Frank-Wolfe method with a SPIDER estimate of the gradient from values. Linear functions are minimised
//! over the constraints, so the problem must provide their region. Solvers that use only constraint values are in other modules.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Common, Gradient, Walk, settings, walks};
use super::{Method, PointOrigin, Solver, State, Step, ValueEval};
use crate::estimate::{Law, Spider};
use crate::{Error, Result};

settings! {
    "Accszofw", law: Sphere;
    /// T of the step size `eta = 1 / sqrt(T)`; a run may be longer or shorter. Default 1000.
    iterations: u64 = 1000,
    /// Number of iterations between large mini-batches. By default the square root of n, the number of samples.
    q: Option<u64> = None,
    /// Samples in a large mini-batch. By default n.
    b1: Option<usize> = None,
    /// Samples in a small mini-batch, read at two points. By default the square root of n.
    b2: Option<usize> = None,
    /// Whether large mini-batches use every coordinate axis once in place of random directions. Default false.
    coordinate: bool = false,
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
        self.common().check()?;
        Ok(self)
    }
}

/// Accelerated stochastic zeroth-order Frank-Wolfe.
///
/// **Problem.** `min f(x)` over the bounded feasible set W. f is known by its values on samples; W is given as a
/// [`crate::oracle::Region`], or is the domain of a problem without constraints.
///
/// **Assumptions.** The loss of every sample is smooth; W is convex.
///
/// **Iteration.** Every q iterations `v_t = g(z_t)` on b1 samples, otherwise `v_t = v_{t-1} + g(z_t) - g(z_{t-1})` on b2 samples,
/// with the same samples and directions at both points; `s = argmin of <v_t, u> over u in W`;
/// `x_{t+1} = x_t + gamma_t (s - x_t)`, `y_{t+1} = z_t + eta (s - z_t)`,
/// `z_{t+1} = (1 - alpha_{t+1}) y_{t+1} + alpha_{t+1} x_{t+1}` with `alpha_t = 1 / (t + 1)`, `eta = 1 / sqrt(T)`,
/// `gamma_t = (1 + 1 / ((t + 1)(t + 2))) eta`. g is the two-point estimate with Q directions: `b1 (Q + 1)` or `2 b2 (Q + 1)`
/// values. z is the iterate.
///
/// **Guarantee.** For a finite sum with the default mini-batches, the expected Frank-Wolfe gap of a random iterate is of order 1
/// / sqrt(T).
///
/// **Deviations.** A cone is intersected with a ball whose radius is set by the problem. A subproblem that needs more than
/// `sweeps` sweeps is continued in the next step, with the iterate unchanged until it is complete. A nonconvex W is linearised at
/// the iterate. gamma above 1, which occurs for T below 3, counts as 1.
///
/// **Settings.** [`Settings`]: iterations, q, b1, b2, coordinate, mu, directions, law, antithetic, sweeps, tolerance, output.
///
/// **Reference.** Huang, Tao and Chen, *Accelerated stochastic gradient-free and projection-free methods*.
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

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
    x: Vec<f64>,
    /// z_{t-1}.
    previous: Vec<f64>,
    v: Spider,
}

impl Accszofw {
    /// Creates a solver after checking the settings.
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

    /// Computes v_t.
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
        if !self.s.walk.subproblem.is_open() {
            self.estimate(ev)?;
        }
        // s_t = argmin of <v_t, u> over u in W; `now` is a buffer
        let common = self.settings.common();
        if !self.s.walk.subproblem.lowest(ev, common, &self.s.walk.w, self.s.v.get(), &mut self.now, &mut self.corner)? {
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
        let Settings { q, b1, b2, coordinate, .. } = self.settings;
        let common = self.settings.common();
        let n = ev.streams().iter().copied().max().unwrap_or(1).max(1);
        let root = (n as f64).sqrt().ceil() as usize;
        (self.b1, self.b2) = (b1.unwrap_or(n), b2.unwrap_or(root));
        self.small.start(x.len(), common)?;
        self.large.start(x.len(), Common { law: if coordinate { Law::Coordinate } else { common.law }, ..common })?;
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
