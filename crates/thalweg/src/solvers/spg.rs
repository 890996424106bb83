//! Stochastic proximal subgradient method for a function with a proximal term around the start, and its step rule, which St-SPG
//! also uses. Stages do not belong here.

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::estimate::{MiniBatch, RunningMean};
use crate::oracle::Replacement;
use crate::{Error, Result};

/// Step sizes and weights, depending on the smoothness of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// `eta_t = 4 / (gamma t)`; z_t has weight t.
    #[default]
    NonSmooth,
    /// `eta_t = 3 / (gamma (t + 1))`; z_{t+1} has weight t + 1. For a function whose gradient has a Lipschitz constant of at most
    /// gamma / 3.
    Smooth,
}

/// Step `z_{t+1} = proj(centre z_1 + last z_t - slope d)`: the proximal term is treated exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProxStep {
    pub(super) centre: f64,
    pub(super) last: f64,
    pub(super) slope: f64,
}

impl Rule {
    /// Returns step t, from 1.
    pub(super) fn step(self, gamma: f64, t: u64) -> ProxStep {
        let t = t as f64;
        // (gamma z_1 + z_t / eta_t - d) / (gamma + 1 / eta_t), with gamma cancelled
        match self {
            Rule::NonSmooth => ProxStep { centre: 4.0 / (t + 4.0), last: t / (t + 4.0), slope: 4.0 / (gamma * (t + 4.0)) },
            Rule::Smooth => ProxStep { centre: 3.0 / (t + 4.0), last: (t + 1.0) / (t + 4.0), slope: 3.0 / (gamma * (t + 4.0)) },
        }
    }

    /// Returns the weights in the output of the points before and after step t.
    pub(super) fn weights(self, t: u64) -> (f64, f64) {
        match self {
            Rule::NonSmooth => (t as f64, 0.0),
            Rule::Smooth => (0.0, t as f64 + 1.0),
        }
    }
}

/// Returns an error unless a proximal coefficient or step size is positive.
pub(super) fn check_positive(name: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { Err(Error::setting(name, value, "a finite number above 0")) }
}

/// Settings of [`Spg`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Proximal coefficient gamma. Default 1.
    pub gamma: f64,
    /// Step sizes and weights: "non-smooth" (default) or "smooth".
    pub rule: Rule,
    /// Samples per stream for a subgradient; all if absent.
    pub batch: Option<usize>,
    /// Number of steps T after which the solver finishes; unlimited if absent.
    pub steps: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { gamma: 1.0, rule: Rule::NonSmooth, batch: None, steps: None }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        check_positive("gamma", self.gamma)?;
        if self.batch == Some(0) {
            return Err(Error::setting("batch", 0, "at least 1 sample"));
        }
        Ok(self)
    }
}

/// Stochastic proximal subgradient method.
///
/// **Problem.** `min phi(z) + (gamma / 2) ||z - z_1||^2` over a simple set, where phi is the convex objective of the problem and
/// z_1 the start. There are no constraints.
///
/// **Assumptions.** phi is convex; its stochastic subgradients have second moments bounded by sigma^2 (rule "non-smooth"), or it
/// is L-smooth with gamma >= 3 L and their variance is bounded by sigma^2 (rule "smooth").
///
/// **Iteration** (Algorithm 3). `z_{t+1} = proj((gamma z_1 + z_t / eta_t - d) / (gamma + 1 / eta_t))` with d in dphi(z_t). Output:
/// the average with weights t of z_t ("non-smooth"), t + 1 of z_{t+1} ("smooth").
///
/// **Guarantee.** In expectation the objective at the output exceeds the minimum by at most
/// `gamma ||z* - z_1||^2 / (4 T (T + 1)) + 17 sigma^2 / (gamma (T + 1))`, or, with the rule "smooth",
/// `4 gamma ||z* - z_1||^2 / (3 T (T + 3)) + 6 sigma^2 / ((T + 3) gamma)`.
///
/// **Deviations.** None; the weights of the rule "smooth" are those of the proof, not of the printed algorithm.
///
/// **Settings.** [`Settings`]: gamma, rule, batch, steps.
///
/// **Reference.** Yan, Xu, Zhang, Wang and Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug, Clone)]
pub struct Spg {
    settings: Settings,
    s: Saved,
    d: Vec<f64>,
    batch: MiniBatch,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    t: u64,
    centre: Vec<f64>,
    z: Vec<f64>,
    mean: RunningMean,
}

impl Spg {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        let batch = MiniBatch::new(settings.batch, Replacement::Without);
        Ok(Spg { settings, s: Saved::default(), d: vec![], batch })
    }
}

impl Method for Spg {
    fn name(&self) -> &'static str {
        "spg"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.z);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        out.copy_from_slice(self.s.mean.get().unwrap_or(&self.s.z));
        PointOrigin::OutputRule
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Spg {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        if ev.num_constraints() > 0 {
            return Err(Error::Problem(format!("spg takes no constraints, but the problem has {}", ev.num_constraints())));
        }
        let s = &mut self.s;
        s.t = 1;
        for copy in [&mut s.centre, &mut s.z] {
            copy.clear();
            copy.extend_from_slice(x);
        }
        s.mean.reset(x.len());
        self.d.resize(x.len(), 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let Settings { gamma, rule, steps, .. } = self.settings;
        let s = &mut self.s;
        ev.refresh(&s.z)?;
        let draw = self.batch.draw(ev);
        ev.objective_grad(&s.z, draw, &mut self.d)?;
        let (before, after) = rule.weights(s.t);
        let ProxStep { centre, last, slope } = rule.step(gamma, s.t);
        // z_{t+1}, Algorithm 3 line 3; d holds it until it is checked to be finite
        for ((d, z), c) in self.d.iter_mut().zip(&s.z).zip(&s.centre) {
            *d = centre * c + last * z - slope * *d;
        }
        ev.project(&mut self.d)?;
        super::check_iterate(&self.d)?;
        s.mean.add(&s.z, before);
        std::mem::swap(&mut s.z, &mut self.d);
        s.mean.add(&s.z, after);
        s.t += 1;
        Ok(Step { kind: StepKind::Objective, finished: steps.is_some_and(|steps| s.t > steps) })
    }
}
