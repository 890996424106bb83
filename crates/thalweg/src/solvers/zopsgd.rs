//! ZOPSGD: projected stochastic gradient descent with zeroth-order gradient estimates. The projection is onto the constraints, so
//! the problem must provide their region. Solvers that use only constraint values are in other modules.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Gradient, Walk, settings, walks};
use super::{Method, PointOrigin, Schedule, Solver, State, Step, ValueEval};
use crate::Result;

settings! {
    "Zopsgd", law: Gaussian, batch;
    /// Step size, a schedule. Default 0.01.
    eta: Schedule = Schedule::Constant(0.01),
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        self.eta.resolve("eta", None)?.validate("eta", false)?;
        self.common().check()?;
        projected_zeroth_order::at_least_one("batch", Some(self.batch))?;
        Ok(self)
    }
}

/// Zeroth-order projected stochastic gradient descent.
///
/// **Problem.** `min f(w)` over the feasible set W. f is known by its values on samples; W is given as a
/// [`crate::oracle::Region`], or is the domain of a problem without constraints.
///
/// **Assumptions.** f is smooth and its estimates have bounded variance; W is convex.
///
/// **Iteration.** `w = proj_W(w - eta_t g)` with `g = 1/(Q b) sum_i sum_k (l_i(w + mu u_k) - l_i(w)) / mu u_k` over b samples and
/// Q directions: `b (Q + 1)` values.
///
/// **Guarantee.** With eta = 1 / L and mini-batches that grow with the dimension, the mean squared norm of the gradient mapping
/// at a random iterate decreases as 1 / T, up to the estimation error.
///
/// **Deviations.** A projection that needs more than `sweeps` sweeps is continued in the next step, with the iterate unchanged
/// until it is complete. A nonconvex W is linearised at the iterate.
///
/// **Settings.** [`Settings`]: eta, mu, directions, law, antithetic, batch, sweeps, tolerance, output.
///
/// **Reference.** Liu, Li, Chen, Haupt and Amini, *Zeroth-order stochastic projected gradient descent for nonconvex
/// optimization*.
#[derive(Debug, Clone)]
pub struct Zopsgd {
    settings: Settings,
    s: Saved,
    gradient: Gradient,
    g: Vec<f64>,
    next: Vec<f64>,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
}

impl Zopsgd {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Zopsgd { settings: settings.resolve()?, s: Saved::default(), gradient: Gradient::default(), g: vec![], next: vec![] })
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        if !self.s.walk.subproblem.is_open() {
            self.gradient.draw(ev, self.settings.batch);
            self.gradient.at(ev, &self.s.walk.w, &mut self.g)?;
            let eta = self.settings.eta.at(self.s.walk.t);
            // w_t - eta_t g_t, in place of g_t
            self.g.iter_mut().zip(&self.s.walk.w).for_each(|(g, w)| *g = w - eta * *g);
        }
        // w_{t+1} = proj_W(w_t - eta_t g_t)
        if !self.s.walk.subproblem.nearest(ev, self.settings.common(), &self.s.walk.w, &self.g, &mut self.next)? {
            return Ok(Walk::wait());
        }
        self.s.walk.advance(&mut self.next, self.settings.output, ev)
    }
}

walks!(Zopsgd, "zopsgd");

impl<'e> Solver<dyn ValueEval + 'e> for Zopsgd {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        projected_zeroth_order::can_project("zopsgd", ev)?;
        self.gradient.start(x.len(), self.settings.common())?;
        self.s.walk.start(0, x);
        self.g.resize(x.len(), 0.0);
        self.next.resize(x.len(), 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
