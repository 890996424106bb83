//! Switching subgradient methods: a step on f if the point is nearly feasible, else a step on the most violated constraint.
//! Planning their parameters is in [`crate::plan::ssg`].

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Schedule, Solver, State, Step, StepKind};
use crate::estimate::{MiniBatch, Reservoir, RunningMean};
use crate::math::rng::Purpose;
use crate::math::{Aligned, vec};
use crate::oracle::Replacement;
use crate::{Error, Result, plan};

/// Step on an infeasible iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InfeasibleStep {
    /// The same `eta` as on feasible iterations.
    #[default]
    Fixed,
    /// `g(x) / ||s_g||^2`, which leads to a zero of the linearised constraint.
    Polyak,
}

/// Rule that selects the returned point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// An accepted iterate drawn with probability proportional to its step, as in the theorems.
    Random,
    /// The step-weighted average of the accepted iterates.
    Average,
    /// The last iterate.
    Last,
    /// The feasible accepted iterate with the smallest objective (on the batch of its subgradient).
    #[default]
    BestFeasible,
}

/// Weight of an iterate in the outputs "random" and "average".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// Its step eta_t.
    #[default]
    Eta,
    /// t + 1: for the steps of strongly convex problems, `{ rule = "strongly-convex" }`.
    Linear,
    /// The inverse of its step, 1 / eta_t: gamma_t of the switching gradient method in AdaProx.
    InverseEta,
}

/// Settings of [`Ssg`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step size eta_t (Algorithm 1). Default 0.01.
    pub eta: Schedule,
    /// Switching tolerance epsilon_t: an iterate with `max_j g_j <= tol` is accepted. Default 1e-5.
    pub tol: Schedule,
    /// Step on infeasible iterations: "fixed" or "polyak".
    pub infeasible_step: InfeasibleStep,
    /// First iteration S whose iterate may be returned. Default 0.
    pub burn_in: u64,
    /// "random", "average", "last" or "best-feasible". Default "best-feasible".
    pub output: Output,
    /// Weight of an iterate in the outputs "random" and "average": "eta" (its step), "linear" (t + 1) or "inverse-eta". Default "eta".
    pub weights: Weights,
    /// Samples per stream for a subgradient of f; all if absent.
    pub batch_f: Option<usize>,
    /// Samples per stream for a subgradient of the constraints; all if absent.
    pub batch_g: Option<usize>,
    /// Samples per stream for constraint values (B in Algorithm 2); all if absent.
    pub value_batch: Option<usize>,
    /// The variant for strongly convex constraints (Theorem B.1): `tol` is 0 and every iterate may be returned.
    pub strongly_convex: bool,
    /// Constants from which `{ rule = "theory" }` takes eta, tol, burn-in and value batch.
    pub theory: Option<Theory>,
}

/// Theorem, for example "4.2-I", and its constants.
pub type Theory = plan::schedule::Theory<plan::Theorem, plan::Constants>;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eta: Schedule::from(0.01),
            tol: Schedule::from(1e-5),
            infeasible_step: InfeasibleStep::Fixed,
            burn_in: 0,
            output: Output::BestFeasible,
            weights: Weights::Eta,
            batch_f: None,
            batch_g: None,
            value_batch: None,
            strongly_convex: false,
            theory: None,
        }
    }
}

impl Settings {
    /// Returns the settings that a theorem prescribes, with its output rule.
    pub fn theory(theorem: plan::Theorem, constants: &plan::Constants, eps: f64) -> Result<Self> {
        let plan = plan::plan(theorem, constants, eps, false)?;
        Ok(Settings {
            eta: plan.eta,
            tol: plan.tol,
            burn_in: plan.burn_in as u64,
            value_batch: plan.value_batch.map(|b| b as usize),
            strongly_convex: plan.strongly_convex,
            output: Output::Random,
            ..Settings::default()
        })
    }

    /// Replaces `{ rule = "theory" }` by the values of the theorem, and checks every setting.
    pub fn resolve(mut self) -> Result<Self> {
        if let Some(Theory { theorem, eps, constants }) = self.theory.take() {
            let planned = Settings::theory(theorem, &constants, eps)?;
            self.eta = self.eta.resolve("eta", Some(&planned.eta))?;
            self.tol = self.tol.resolve("tol", Some(&planned.tol))?;
            self.burn_in = self.burn_in.max(planned.burn_in);
            self.value_batch = self.value_batch.or(planned.value_batch);
            self.strongly_convex |= planned.strongly_convex;
        }
        self.eta = self.eta.resolve("eta", None)?;
        self.tol = self.tol.resolve("tol", None)?;
        self.eta.validate("eta", false)?;
        self.tol.validate("tol", true)?;
        for (name, batch) in [("batch_f", self.batch_f), ("batch_g", self.batch_g), ("value_batch", self.value_batch)] {
            if batch == Some(0) {
                return Err(Error::setting(name, 0, "at least 1 sample"));
            }
        }
        Ok(self)
    }
}

/// Switching subgradient method.
///
/// **Problem.** `min f(x)` over a simple set X subject to `g_j(x) <= 0`, f weakly convex, g_j convex; several constraints are
/// replaced by their maximum, the lowest index winning ties.
///
/// **Assumptions.** X is compact, subgradients are bounded by M, a strictly feasible point exists. With `polyak` steps g may
/// be weakly convex (no rate is proved here).
///
/// **Iteration** (Algorithms 1 and 2). `v = max_j g_j(x_t)`; if `v <= tol_t` then d is a subgradient of f and t is accepted,
/// else d is a subgradient of the worst constraint; `x_{t+1} = proj_X(x_t - eta_t d)`.
///
/// **Guarantee.** With the planner's settings ([`crate::plan`]) and `output = "random"`, the returned iterate is nearly
/// eps-stationary in expectation and `E g <= eps^2 (rho_hat - rho) / (1 + Lam)`. The other output rules are heuristics.
///
/// **Deviations.** `best-feasible`, the default, returns a measured feasible point. With mini-batches, the sign and the largest
/// constraint come from the value batch, the means from the subgradient batch. `tol` may be 0.
///
/// **Settings.** [`Settings`]: eta, tol, infeasible_step, burn_in, output, weights, batch_f, batch_g, value_batch,
/// strongly_convex, theory.
///
/// **Reference.** Huang & Lin, *Single-loop switching subgradient methods for non-smooth weakly convex optimization with
/// non-smooth convex constraints*.
#[derive(Debug, Clone)]
pub struct Ssg {
    settings: Settings,
    s: Saved,
    /// The direction d, constraint values, statistics and weights of the current step.
    d: Aligned,
    g: Vec<f64>,
    statistics: Vec<f64>,
    weights: Vec<f64>,
    batch_f: MiniBatch,
    batch_g: MiniBatch,
    value_batch: MiniBatch,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    t: u64,
    x: Aligned,
    accepted: u64,
    reservoir: Reservoir,
    average: RunningMean,
    /// Best feasible accepted iterate and its objective.
    best: Best,
    /// Iterate with the smallest violation, and that violation.
    least: Best,
}

/// Point with the smallest value so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Best {
    x: Vec<f64>,
    value: Option<f64>,
}

impl Best {
    fn reset(&mut self, dim: usize) {
        self.x.clear();
        self.x.resize(dim, 0.0);
        self.value = None;
    }

    fn offer(&mut self, x: &[f64], value: f64) {
        if self.value.is_none_or(|best| value < best) {
            self.x.copy_from_slice(x);
            self.value = Some(value);
        }
    }

    fn get(&self) -> Option<&[f64]> {
        self.value.map(|_| self.x.as_slice())
    }
}

impl Ssg {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        let batch = |size| MiniBatch::new(size, Replacement::Without);
        Ok(Ssg {
            batch_f: batch(settings.batch_f),
            batch_g: batch(settings.batch_g),
            value_batch: batch(settings.value_batch),
            settings,
            s: Saved::default(),
            d: Aligned::default(),
            g: vec![],
            statistics: vec![],
            weights: vec![],
        })
    }

    /// Returns the number of iterates accepted since the burn-in.
    pub fn accepted(&self) -> u64 {
        self.s.accepted
    }

    /// Returns the point that the output rule selects, if there is one yet.
    fn selected_output(&self) -> Option<&[f64]> {
        match self.settings.output {
            Output::Random => self.s.reservoir.get().map(|(_, x)| x),
            Output::Average => self.s.average.get(),
            Output::Last => Some(&self.s.x),
            Output::BestFeasible => self.s.best.get(),
        }
    }

    /// Computes the values of the constraints into `g` and, if the largest exceeds `tol`, its subgradient into `d`. Returns the
    /// largest value.
    fn switch<E: Eval + ?Sized>(&mut self, ev: &mut E, tol: f64) -> Result<f64> {
        if self.g.is_empty() {
            return Ok(f64::NEG_INFINITY);
        }
        let mut worst = f64::NEG_INFINITY;
        let mut choose = |g: &[f64], w: &mut [f64]| {
            if let Some((j, v)) = vec::first_max(g) {
                worst = v;
                if v > tol {
                    w[j] = 1.0;
                }
            }
        };
        if self.batch_g.is_full() && self.value_batch.is_full() {
            ev.constraint_vjp(&self.s.x, self.batch_g.last(), &mut self.g, &mut choose, &mut self.d)?;
            return Ok(worst);
        }
        // v = mean of B estimates, Algorithm 2 line 4
        let draw = self.value_batch.draw(ev);
        ev.statistic_values(&self.s.x, draw, &mut self.statistics)?;
        ev.constraints_from(&self.s.x, &self.statistics, &mut self.g)?;
        self.weights.fill(0.0);
        choose(&self.g, &mut self.weights);
        if worst > tol {
            let draw = self.batch_g.draw(ev);
            ev.statistic_vjp(&self.s.x, draw, &self.statistics, &self.weights, &mut self.d)?;
        }
        Ok(worst)
    }

    fn take_step<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let t = self.s.t;
        let mut eta = self.settings.eta.at(t);
        let tol = if self.settings.strongly_convex { 0.0 } else { self.settings.tol.at(t) };
        ev.refresh(&self.s.x)?;
        let v = self.switch(ev, tol)?; // Algorithm 1 line 3
        let recorded = t >= self.settings.burn_in;
        let feasible = v <= tol;
        if feasible {
            // d in df(x_t), Algorithm 1 line 4
            let draw = self.batch_f.draw(ev);
            let f = ev.objective_grad(&self.s.x, draw, &mut self.d)?;
            if recorded && self.settings.output == Output::BestFeasible && ev.feasible(&self.g) {
                self.s.best.offer(&self.s.x, f);
            }
        } else if self.settings.infeasible_step == InfeasibleStep::Polyak {
            let square = vec::norm_squared(&self.d);
            if square == 0.0 {
                return Err(Error::Problem(format!(
                    "the subgradient of the worst constraint is zero at iteration {t} although its value is {v:.3e}: \
                     the constraint cannot be lowered from here, and a Polyak step is not defined"
                )));
            }
            eta = v / square;
        }
        // Only the candidate of the output rule is updated, and its fallback until there is one, since with millions of
        // variables each update is a pass.
        if recorded && self.selected_output().is_none() {
            self.s.least.offer(&self.s.x, v);
        }
        if recorded && (feasible || self.settings.strongly_convex) {
            self.s.accepted += 1;
            let weight = match self.settings.weights {
                Weights::Eta => self.settings.eta.at(t),
                Weights::Linear => t as f64 + 1.0,
                Weights::InverseEta => 1.0 / self.settings.eta.at(t),
            };
            match self.settings.output {
                Output::Random => self.s.reservoir.offer(&self.s.x, t, weight, ev.rng(Purpose::Output)),
                Output::Average => self.s.average.add(&self.s.x, weight),
                Output::Last | Output::BestFeasible => {}
            }
        }
        // x_{t+1} = proj_X(x_t - eta_t d), Algorithm 1 line 6; d is free to hold it until it is known to be finite
        vec::step_from(&mut self.d, &self.s.x, eta);
        ev.project(&mut self.d)?;
        super::check_iterate(&self.d)?;
        std::mem::swap(&mut self.s.x, &mut self.d);
        self.s.t += 1;
        Ok(Step { kind: if feasible { StepKind::Objective } else { StepKind::Constraint }, finished: false })
    }
}

impl Method for Ssg {
    fn name(&self) -> &'static str {
        "ssg"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        match self.selected_output() {
            Some(x) => {
                out.copy_from_slice(x);
                PointOrigin::OutputRule
            }
            None => {
                out.copy_from_slice(self.s.least.get().unwrap_or(&self.s.x));
                PointOrigin::LeastInfeasible
            }
        }
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Ssg {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let dim = x.len();
        self.s.t = 0;
        self.s.accepted = 0;
        self.s.x.set(x);
        // Candidates of unused output rules take no memory, here or in a checkpoint.
        let output = self.settings.output;
        let kept = |wanted: bool| if wanted { dim } else { 0 };
        self.s.reservoir.reset(kept(output == Output::Random));
        self.s.average.reset(kept(output == Output::Average));
        self.s.best.reset(kept(output == Output::BestFeasible));
        self.s.least.reset(kept(output != Output::Last));
        self.d.zeros(dim);
        self.g.resize(ev.num_constraints(), 0.0);
        self.weights.resize(ev.num_constraints(), 0.0);
        self.statistics.resize(ev.num_statistics(), 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
