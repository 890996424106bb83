//! Primal-dual method with constraint extrapolation for the strongly convex subproblems of AdaProx. ConEx, which linearises its
//! constraints, is in `conex`.

use serde::{Deserialize, Serialize};

pub use super::dual::MultiplierSet;
use super::dual::ascend;
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::estimate::RunningMean;
use crate::math::{Aligned, vec};
use crate::oracle::{Draw, Warm};
use crate::{Error, Result};

/// Settings of [`Pd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Strong convexity mu of the objective and of every constraint. Inside AdaProx, if absent, half of sigma.
    pub mu: Option<f64>,
    /// Shift t0 of the schedules. Default 10.
    pub t0: u64,
    /// c_tau: the dual step is (t + 1) / c_tau. Default 40.
    pub c_tau: f64,
    /// Bound on the multipliers, B in the paper. Default 50.
    pub bound: f64,
    /// Whether `bound` applies to the sum of the multipliers ("sum") or to each ("box"). Default "sum".
    pub within: MultiplierSet,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { mu: None, t0: 10, c_tau: 40.0, bound: 50.0, within: MultiplierSet::Sum }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        let numbers = [("c_tau", Some(self.c_tau)), ("bound", Some(self.bound)), ("mu", self.mu)];
        for (name, value) in numbers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            if !(value > 0.0 && value.is_normal()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if self.t0 == 0 {
            return Err(Error::setting("t0", 0, "at least 1"));
        }
        Ok(self)
    }
}

/// Primal-dual method with constraint extrapolation (PD).
///
/// **Problem.** `min f(z)` over a simple set Z subject to `h_i(z) <= 0`, f and every h_i mu-strongly convex and smooth.
///
/// **Assumptions.** Z is compact; the bound is at least one more than the sum of some optimal multipliers.
///
/// **Iteration** (eqs. 13 and 14, with the primal and dual steps of the proof). `lam_0 = 0`, `h(z_{-1}) = h(z_0)`,
/// `lam_{t+1} = proj_Lambda(lam_t + (1 / tau_t) ((1 + theta_t) h(z_t) - theta_t h(z_{t-1})))`,
/// `z_{t+1} = proj_Z(z_t - (1 / eta_t) (grad f(z_t) + J(z_t)^T lam_{t+1}))` with `eta_t = mu (t + t0 + 1) / 2`,
/// `tau_t = c_tau / (t + 1)`, `theta_t = (t + t0 + 2) / (t + t0 + 3)`. The average of z_1, z_2, … with weights
/// `gamma_t = t + t0 + 3` is returned. One iteration costs a gradient of f, the values of all constraints, one product with the
/// transposed Jacobian, and a projection.
///
/// **Guarantee.** With the planner's t0 and c_tau, an error of the order of 1 / T^2.
///
/// **Deviations.** The linearisation of ConEx is replaced by plain values, as published. Default t0, c_tau and bound are
/// heuristics.
///
/// **Settings.** [`Settings`]: mu, t0, c_tau, bound, within.
///
/// **Reference.** Guan, Sow, Lin & Liang, *AdaProx: a novel method for bilevel optimization under pessimistic framework*.
#[derive(Debug, Clone)]
pub struct Pd {
    settings: Settings,
    mu: f64,
    s: Saved,
    /// Gradient of the Lagrangian, then the new iterate; working space; values of the constraints; the new multipliers.
    d: Aligned,
    work: Vec<f64>,
    h: Vec<f64>,
    lam: Vec<f64>,
    full: Draw,
    warm: Warm,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    t: u64,
    z: Aligned,
    lam: Vec<f64>,
    /// h(z_{t-1}); unused at t = 0.
    before: Vec<f64>,
    average: RunningMean,
    average_lam: RunningMean,
}

impl Pd {
    /// Creates a solver with checked settings, which must include `mu`.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        let mu = settings.mu.ok_or_else(|| {
            Error::setting(
                "mu",
                crate::error::NOT_GIVEN,
                "a finite number larger than 0: the strong-convexity constant of the problem",
            )
        })?;
        let (d, work, h, lam) = (Aligned::default(), vec![], vec![], vec![]);
        Ok(Pd { settings, mu, s: Saved::default(), d, work, h, lam, full: Draw::full(), warm: Warm::default() })
    }

    /// Returns whether the bound on the multipliers is active: then it is too small, or the subproblem is not convex.
    pub fn bound_is_active(&self) -> bool {
        self.settings.within.is_active(self.settings.bound, &self.s.lam)
    }

    fn take_step<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let Saved { t, z, lam, before, average, average_lam } = &mut self.s;
        let shifted = (*t + self.settings.t0) as f64;
        let eta = 0.5 * self.mu * (shifted + 1.0);
        let theta = (shifted + 2.0) / (shifted + 3.0);
        let step = (*t as f64 + 1.0) / self.settings.c_tau;
        ev.refresh(z)?;
        if lam.is_empty() {
            ev.objective_grad(z, &self.full, &mut self.d)?;
        } else {
            let (next, warm, Settings { bound, within, .. }) = (&mut self.lam, &mut self.warm, &self.settings);
            let first = *t == 0;
            let mut failed = None;
            let mut weigh = |h: &[f64], w: &mut [f64]| {
                let before = if first { h } else { &*before };
                // lam_{t+1}, eq. 13
                let done = ascend(lam, step, theta, h, before, next).and_then(|()| within.project(*bound, next, warm));
                match done {
                    Ok(()) => w.copy_from_slice(next),
                    Err(e) => failed = Some(e),
                }
            };
            ev.lagrangian(z, &self.full, &mut self.h, &mut weigh, &mut self.d, &mut self.work)?;
            if let Some(e) = failed {
                return Err(e);
            }
        }
        // z_{t+1}, eq. 14
        vec::step_from(&mut self.d, z, 1.0 / eta);
        ev.project(&mut self.d)?;
        super::check_iterate(&self.d)?;
        std::mem::swap(z, &mut self.d);
        std::mem::swap(lam, &mut self.lam);
        std::mem::swap(before, &mut self.h);
        average.add(z, shifted + 3.0);
        average_lam.add(lam, shifted + 3.0);
        *t += 1;
        Ok(Step { kind: StepKind::Other, finished: false })
    }
}

impl Method for Pd {
    fn name(&self) -> &'static str {
        "pd"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.z);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        out.copy_from_slice(self.s.average.get().unwrap_or(&self.s.z));
        PointOrigin::OutputRule
    }

    fn multipliers(&self) -> Option<&[f64]> {
        Some(self.s.average_lam.get().unwrap_or(&self.s.lam))
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Pd {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let (dim, q) = (x.len(), ev.num_constraints());
        self.s.t = 0;
        self.s.z.set(x);
        for values in [&mut self.s.lam, &mut self.s.before, &mut self.h, &mut self.lam] {
            values.clear();
            values.resize(q, 0.0);
        }
        self.s.average.reset(dim);
        self.s.average_lam.reset(q);
        self.d.zeros(dim);
        self.work.resize(dim, 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
