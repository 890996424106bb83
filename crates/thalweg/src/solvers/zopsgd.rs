//! ZOPSGD: projected stochastic gradient descent with gradients from values. The projection is onto the constraints, which the
//! problem must know; methods that only ask for values of constraints are elsewhere.

use serde::{Deserialize, Serialize};

pub use super::projected_zeroth_order::Output;
use super::projected_zeroth_order::{self, Common, Effort, Gradient, Walk, walks};
use super::{Method, PointOrigin, Schedule, Solver, State, Step, ValueEval};
use crate::Result;
use crate::estimate::Law;

/// Settings of [`Zopsgd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step, a schedule. Default 0.01.
    pub eta: Schedule,
    /// Smoothing radius. Default 1e-3.
    pub mu: f64,
    /// Directions of each estimate (Q). Default 10.
    pub directions: usize,
    /// How directions are drawn: "gaussian" (default), "sphere" or "coordinate".
    pub law: Law,
    /// Whether each direction is followed by its opposite. Default false.
    pub antithetic: bool,
    /// Samples of the objective in each estimate; all if there are not more. Default 128.
    pub batch: usize,
    /// Sweeps over the constraints in one step; a projection that needs more takes several steps. Default 50.
    pub sweeps: usize,
    /// What a projection may violate a constraint by. Default 1e-8.
    pub tolerance: f64,
    /// "last" (default) or "random".
    pub output: Output,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eta: Schedule::Constant(0.01),
            mu: 1e-3,
            directions: 10,
            law: Law::Gaussian,
            antithetic: false,
            batch: 128,
            sweeps: 50,
            tolerance: 1e-8,
            output: Output::Last,
        }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        self.eta.resolve("eta", None)?.validate("eta", false)?;
        let Settings { mu, directions, sweeps, tolerance, .. } = self;
        Common { mu, directions, sweeps, tolerance }.check()?;
        projected_zeroth_order::at_least_one("batch", Some(self.batch))?;
        Ok(self)
    }
}

/// Zeroth-order projected stochastic gradient descent.
///
/// **Problem.** `min f(w)` over the set W of points that keep all constraints. Of f values on samples are known; W is known
/// ([`crate::oracle::Region`]), or is the domain of a problem without constraints.
///
/// **Assumptions.** f is smooth and its estimates have bounded variance; W is convex.
///
/// **Iteration.** `w = proj_W(w - eta_t g)` with `g = 1/(Q b) sum_i sum_k (l_i(w + mu u_k) - l_i(w)) / mu u_k` over b samples and Q
/// directions: `b (Q + 1)` values.
///
/// **Guarantee.** With eta = 1 / L and batches that grow with the dimension, the mean squared norm of the gradient mapping at a
/// random iterate falls like 1 / T, up to the error of the estimate.
///
/// **Deviations.** A projection that needs more than `sweeps` sweeps is continued in the next step; the iterate waits. W that is
/// not convex is linearised at the iterate.
///
/// **Settings.** [`Settings`]: eta, mu, directions, law, antithetic, batch, sweeps, tolerance, output.
///
/// **Reference.** Liu, Li, Chen, Haupt & Amini, *Zeroth-order stochastic projected gradient descent for nonconvex optimization*.
#[derive(Debug, Clone)]
pub struct Zopsgd {
    settings: Settings,
    s: Saved,
    gradient: Gradient,
    g: Vec<f64>,
    next: Vec<f64>,
}

/// What a checkpoint keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    walk: Walk,
}

impl Zopsgd {
    /// A solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Zopsgd { settings: settings.resolve()?, s: Saved::default(), gradient: Gradient::default(), g: vec![], next: vec![] })
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let Settings { batch, sweeps, tolerance, .. } = self.settings;
        if !self.s.walk.subproblem.is_open() {
            self.gradient.draw(ev, batch);
            self.gradient.at(ev, &self.s.walk.w, &mut self.g)?;
            let eta = self.settings.eta.at(self.s.walk.t);
            // w_t - eta_t g_t, in place of g_t
            self.g.iter_mut().zip(&self.s.walk.w).for_each(|(g, w)| *g = w - eta * *g);
        }
        // w_{t+1} = proj_W(w_t - eta_t g_t)
        if !self.s.walk.subproblem.nearest(ev, Effort { sweeps, tolerance }, &self.s.walk.w, &self.g, &mut self.next)? {
            return Ok(Walk::wait());
        }
        self.s.walk.advance(&mut self.next, self.settings.output, ev)
    }
}

walks!(Zopsgd, "zopsgd");

impl<'e> Solver<dyn ValueEval + 'e> for Zopsgd {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        projected_zeroth_order::can_project("zopsgd", ev)?;
        let Settings { directions, mu, law, antithetic, .. } = self.settings;
        self.gradient.start(x.len(), directions, mu, law, antithetic);
        self.s.walk.start(0, x);
        self.g.resize(x.len(), 0.0);
        self.next.resize(x.len(), 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
