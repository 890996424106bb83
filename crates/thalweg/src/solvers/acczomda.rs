//! AccZOMDA, minimisation part: projected steps along a STORM estimate of the gradient from values. The projection is onto the
//! constraints, so the problem must provide their region. The maximisation part of the paper is not implemented.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Gradient, Walk, settings, walks};
use super::{Method, PointOrigin, Solver, State, Step, ValueEval};
use crate::estimate::Storm;
use crate::{Error, Result};

settings! {
    "Acczomda", law: Sphere, batch;
    /// Step size before the projection. Default 0.01.
    gamma: f64 = 0.01,
    /// Parameter k of the averaging step size `eta_t = k / (m + t)^(1/3)`, which must be at most 1. Default 1.
    k: f64 = 1.0,
    /// Parameter m of the averaging step size. Default 27.
    m: f64 = 27.0,
    /// Parameter c of the share `min(1, c eta_t^2)` of the estimate that is discarded in each iteration. Default 1.
    c: f64 = 1.0,
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        for (name, value) in [("gamma", self.gamma), ("k", self.k), ("c", self.c)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if !(self.m >= 0.0 && self.m.is_finite()) {
            return Err(Error::setting("m", self.m, "a finite number, 0 or larger"));
        }
        let most = (self.m + 1.0).cbrt();
        if self.k > most {
            let wanted = format!("at most {most}, the cube root of m + 1, so that no step goes beyond the projected point");
            return Err(Error::setting("k", self.k, wanted));
        }
        self.common().check()?;
        projected_zeroth_order::at_least_one("batch", Some(self.batch))?;
        Ok(self)
    }

    /// Returns `eta_t` for t = 1, 2, ...
    fn eta(&self, t: u64) -> f64 {
        self.k / (self.m + t as f64).cbrt()
    }
}

/// Accelerated zeroth-order momentum descent.
///
/// **Problem.** `min f(w)` over the feasible set W. f is known by its values on samples; W is given as a
/// [`crate::oracle::Region`], or is the domain of a problem without constraints.
///
/// **Assumptions.** The loss of every sample is smooth and its estimates have bounded variance; W is convex.
///
/// **Iteration.** `w' = proj_W(w_t - gamma v_t)`, `w_{t+1} = w_t + eta_t (w' - w_t)` with `eta_t = k / (m + t)^(1/3)`, and
/// `v_{t+1} = g(w_{t+1}) + (1 - min(1, c eta_t^2)) (v_t - g(w_t))`, with the same samples and directions at both points. g is the
/// two-point estimate on b samples and Q directions, `(d / mu)(l(w + mu v) - l(w)) v` for directions on the sphere. An iteration
/// costs `2 b (Q + 1)` values, the first one half as many.
///
/// **Guarantee.** With the constants of the theorem, the mean norm of the gradient mapping decreases as `T^(-1/3)`, up to
/// logarithms.
///
/// **Deviations.** A projection that needs more than `sweeps` sweeps is continued in the next step, with the iterate unchanged
/// until it is complete. A nonconvex W is linearised at the iterate.
///
/// **Settings.** [`Settings`]: gamma, k, m, c, mu, directions, law, antithetic, batch, sweeps, tolerance, output.
///
/// **Reference.** Huang, Gao, Pei and Huang, *Accelerated zeroth-order and first-order momentum methods from mini to minimax
/// optimization*.
#[derive(Debug, Clone)]
pub struct Acczomda {
    settings: Settings,
    s: Saved,
    gradient: Gradient,
    now: Vec<f64>,
    then: Vec<f64>,
    next: Vec<f64>,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
    /// w_{t-1}.
    previous: Vec<f64>,
    v: Storm,
}

impl Acczomda {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Acczomda {
            settings: settings.resolve()?,
            s: Saved::default(),
            gradient: Gradient::default(),
            now: vec![],
            then: vec![],
            next: vec![],
        })
    }

    /// Computes v_t.
    fn estimate<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        self.gradient.draw(ev, self.settings.batch);
        self.gradient.at(ev, &self.s.walk.w, &mut self.now)?;
        if self.s.walk.t == 1 {
            self.s.v.start(&self.now);
            return Ok(());
        }
        self.gradient.at(ev, &self.s.previous, &mut self.then)?;
        let eta = self.settings.eta(self.s.walk.t - 1);
        // v_t = g(w_t) + (1 - alpha_t) (v_{t-1} - g(w_{t-1})), alpha_t = min(1, c eta_{t-1}^2)
        self.s.v.update(&self.now, &self.then, (self.settings.c * eta * eta).min(1.0));
        Ok(())
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let gamma = self.settings.gamma;
        if !self.s.walk.subproblem.is_open() {
            self.estimate(ev)?;
            for ((now, w), v) in self.now.iter_mut().zip(&self.s.walk.w).zip(self.s.v.get()) {
                *now = w - gamma * v;
            }
        }
        // w' = proj_W(w_t - gamma v_t)
        if !self.s.walk.subproblem.nearest(ev, self.settings.common(), &self.s.walk.w, &self.now, &mut self.next)? {
            return Ok(Walk::wait());
        }
        let eta = self.settings.eta(self.s.walk.t);
        // w_{t+1} = w_t + eta_t (w' - w_t)
        self.next.iter_mut().zip(&self.s.walk.w).for_each(|(next, w)| *next = w + eta * (*next - w));
        let step = self.s.walk.advance(&mut self.next, self.settings.output, ev)?;
        std::mem::swap(&mut self.s.previous, &mut self.next);
        Ok(step)
    }
}

walks!(Acczomda, "acczomda");

impl<'e> Solver<dyn ValueEval + 'e> for Acczomda {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        projected_zeroth_order::can_project("acczomda", ev)?;
        self.gradient.start(x.len(), self.settings.common())?;
        self.s.walk.start(1, x);
        projected_zeroth_order::copy(&mut self.s.previous, x);
        for buffer in [&mut self.now, &mut self.then, &mut self.next] {
            buffer.resize(x.len(), 0.0);
        }
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
