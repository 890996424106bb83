//! 3S-Econ: a smoothed exact penalty with a SPIDER estimate of the constraint, in a single loop for expectation constraints.
//! Planning its parameters is in [`crate::plan::threes_econ`].

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

pub use super::output::Output;
use super::{Eval, Method, PointOrigin, Schedule, Solver, State, Step, StepKind};
use crate::estimate::{MiniBatch, Reservoir, Spider};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::Replacement;
use crate::plan::threes_econ as plan;
use crate::{Error, Note, Result};

/// Iterations over which the penalty is monitored.
const WINDOW: u64 = 200;
/// Initial value of `beta = "auto"`.
const FIRST_BETA: f64 = 10.0;

/// Weight of the penalty: a number, or "auto".
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Beta {
    /// A fixed weight.
    Fixed(f64),
    /// Starts at 10 and is doubled if the run is stationary for the penalised problem but infeasible.
    Auto,
}

/// Length of an epoch: a number, or "sqrt".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epoch {
    /// A fixed number of iterations.
    Fixed(u64),
    /// The square root of the largest sample stream, rounded up.
    Sqrt,
}

/// Settings of [`ThreesEcon`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Weight of the penalty, or "auto". Default 10.
    pub beta: Beta,
    /// Smoothing of the penalty: its slope is clip(g / nu, 0, 1). Default 1e-5.
    pub nu: f64,
    /// Step size alpha, by epoch: a rule in t counts epochs of `q` iterations. Default 0.01.
    pub alpha: Schedule,
    /// Samples per stream at a reset of the constraint's estimate; all if absent.
    pub s1: Option<usize>,
    /// Samples per stream in between, and for subgradients when `q` is above 1; `q` if absent.
    pub s2: Option<usize>,
    /// Iterations per epoch: 1 (default) is the deterministic method, "sqrt" the stochastic one of the experiments.
    pub q: Epoch,
    /// "last" (default) or "random".
    pub output: Output,
    /// Constants from which a theorem prescribes beta, nu, alpha, s1, s2 and q; those settings are then not used.
    pub theory: Option<Theory>,
}

/// Theorem "3.4", "3.7" or "3.12" and its constants.
pub type Theory = crate::plan::schedule::Theory<plan::Theorem, plan::Constants>;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            beta: Beta::Fixed(FIRST_BETA),
            nu: 1e-5,
            alpha: Schedule::Constant(0.01),
            s1: None,
            s2: None,
            q: Epoch::Fixed(1),
            output: Output::Last,
            theory: None,
        }
    }
}

impl Settings {
    /// Returns the settings that a theorem prescribes, with its output rule.
    pub fn theory(theorem: plan::Theorem, constants: &plan::Constants, eps: f64) -> Result<Self> {
        let planned = plan::plan(theorem, constants, eps)?;
        let Some(steps) = planned.steps else {
            return Err(Error::setting("theorem", theorem, "one that prescribes steps: 3.4, 3.7 or 3.12"));
        };
        Ok(Settings {
            beta: Beta::Fixed(planned.beta),
            nu: planned.nu,
            alpha: Schedule::Constant(steps.alpha),
            s1: Some(steps.s1 as usize),
            s2: Some(steps.s2 as usize),
            q: Epoch::Fixed(steps.q as u64),
            output: Output::Random,
            theory: None,
        })
    }

    /// Replaces the settings by the theorem's values, if one is named, and checks every value.
    pub fn resolve(mut self) -> Result<Self> {
        if let Some(Theory { theorem, eps, constants }) = self.theory.take() {
            self = Settings { output: self.output, ..Settings::theory(theorem, &constants, eps)? };
        }
        self.validate()?;
        Ok(self)
    }

    fn validate(&self) -> Result<()> {
        if let Beta::Fixed(beta) = self.beta
            && !(beta > 0.0 && beta.is_finite())
        {
            return Err(Error::setting("beta", beta, "a finite number above 0, or \"auto\""));
        }
        if !(self.nu > 0.0 && self.nu.is_finite()) {
            return Err(Error::setting("nu", self.nu, "a finite number above 0"));
        }
        self.alpha.resolve("alpha", None)?.validate("alpha", false)?;
        if self.q == Epoch::Fixed(0) {
            return Err(Error::setting("q", 0, "at least 1, or \"sqrt\""));
        }
        for (name, size) in [("s1", self.s1), ("s2", self.s2)] {
            if size == Some(0) {
                return Err(Error::setting(name, 0, "at least 1 sample"));
            }
        }
        Ok(())
    }
}

/// 3S-Econ.
///
/// **Problem.** `min f(x)` subject to `g(x) = E g(x, xi) <= 0`, over a simple set if there is one; several constraints are
/// replaced by their maximum.
///
/// **Assumptions.** f and g weakly convex with bounded subgradients on a bounded domain; g mean-square Lipschitz in x; a
/// regularity condition (sharpness, gradients away from zero, or uniform Slater).
///
/// **Iteration** (Algorithm 1). Every q iterations `u_k` is the mean of g over S1 samples, in between `u_k = u_{k-1} + mean
/// over S2 samples of g(x_k, .) - g(x_{k-1}, .)`, the same samples at both points; `x_{k+1} = proj(x_k - alpha_k (s_f + beta
/// clip(u_k / nu, 0, 1) s_g))`. The estimate tracks the mean inside the constraint: for `|mean difference| - bound` the signed
/// difference, whose absolute value would be biased.
///
/// **Guarantee.** With the planner's constants a uniformly drawn iterate is nearly stationary for the smoothed penalty, and by
/// Theorem 2.5 near an eps-KKT point of the problem if beta exceeds its bound.
///
/// **Deviations.** Iterates are projected onto the domain. `beta = "auto"` doubles beta, and halves alpha, if over 200
/// iterations (two epochs if those are longer) the penalty is saturated (`u >= nu`) and the mean step is below a fifth of the
/// mean step on f: the point is stationary for the penalised problem but infeasible, which more iterations cannot change. With
/// a fixed beta the outcome has a note about it. The multiplier in the outcome is the mean of `beta clip(u / nu)` over the last
/// such window.
///
/// **Settings.** [`Settings`]: beta, nu, alpha, s1, s2, q, output, theory.
///
/// **Reference.** Liu & Xu, *A single-loop SPIDER-type stochastic subgradient method for expectation-constrained nonconvex
/// nonsmooth optimization*.
#[derive(Debug, Clone)]
pub struct ThreesEcon {
    settings: Settings,
    s: Saved,
    d: Vec<f64>,
    pull: Vec<f64>,
    g: Vec<f64>,
    weights: Vec<f64>,
    now: Vec<f64>,
    then: Vec<f64>,
    reset_batch: MiniBatch,
    batch: MiniBatch,
    q: u64,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    k: u64,
    beta: f64,
    /// Factor of alpha after beta was raised.
    shortened: f64,
    x: Vec<f64>,
    /// x_{k-1}.
    previous: Vec<f64>,
    spider: Spider,
    reservoir: Reservoir,
    watch: PenaltyWindow,
    multipliers: Vec<f64>,
    /// Raises of the penalty weight so far.
    raises: Vec<Raise>,
}

/// One raise of the penalty weight.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Raise {
    beta: f64,
    iteration: u64,
    violation: f64,
}

/// Statistics of the penalty over the current window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PenaltyWindow {
    seen: u64,
    saturated: u64,
    /// Sum of estimated violations.
    violation: f64,
    /// Sum of beta clip(u / nu) for each constraint.
    sums: Vec<f64>,
    /// First point of the window, and the step-weighted sum of the subgradients of f.
    start: Vec<f64>,
    objective: Vec<f64>,
    /// Mean violation of the last full window, if it was stationary but infeasible.
    stuck: Option<f64>,
}

impl PenaltyWindow {
    /// Starts a window at `x`; results of the last one stay.
    fn begin(&mut self, x: &[f64]) {
        (self.seen, self.saturated, self.violation) = (0, 0, 0.0);
        self.start.clear();
        self.start.extend_from_slice(x);
        self.objective.clear();
        self.objective.resize(x.len(), 0.0);
    }

    /// Returns whether the mean step over the window was small against the mean step on f, so that the two parts cancel.
    fn balanced(&self, x: &[f64]) -> bool {
        vec::distance(&self.start, x) <= 0.2 * vec::norm(&self.objective)
    }
}

impl ThreesEcon {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        Ok(ThreesEcon {
            s: Saved::default(),
            d: vec![],
            pull: vec![],
            g: vec![],
            weights: vec![],
            now: vec![],
            then: vec![],
            reset_batch: MiniBatch::new(settings.s1, Replacement::With),
            batch: MiniBatch::new(None, Replacement::With),
            q: 1,
            settings,
        })
    }

    /// Returns the current weight of the penalty.
    pub fn beta(&self) -> f64 {
        self.s.beta
    }

    /// Updates the estimate u_k, and writes the resulting constraint values to `g`.
    fn estimate<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        if self.s.spider.resets() {
            let draw = self.reset_batch.draw(ev);
            // u_k = mean over B_k of g(x_k, .), Algorithm 1 line 3
            self.s.spider.reset(|u| ev.statistic_values(&self.s.x, draw, u))?;
        } else {
            // u_k = u_{k-1} + mean over B_k of g(x_k, .) - g(x_{k-1}, .), Algorithm 1 line 5
            let draw = self.batch.draw(ev);
            ev.statistic_pair(&self.s.x, &self.s.previous, draw, &mut self.now, &mut self.then)?;
            self.s.spider.advance(&self.now, &self.then);
        }
        ev.constraints_from(&self.s.x, self.s.spider.get(), &mut self.g)
    }

    fn take_step<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let alpha = self.s.shortened * self.settings.alpha.at(self.s.k / self.q);
        let (beta, nu) = (self.s.beta, self.settings.nu);
        let slope = |g: f64| beta * (g / nu).clamp(0.0, 1.0);
        ev.refresh(&self.s.x)?;
        let mut worst = None;
        if self.q == 1 && self.reset_batch.is_full() {
            // The estimate is the value itself, so that one forward pass serves value and subgradient.
            let mut choose = |g: &[f64], w: &mut [f64]| {
                worst = vec::first_max(g);
                if let Some((j, v)) = worst {
                    w[j] = slope(v);
                }
            };
            ev.constraint_vjp(&self.s.x, self.batch.last(), &mut self.g, &mut choose, &mut self.pull)?;
        } else if !self.g.is_empty() {
            self.estimate(ev)?;
            worst = vec::first_max(&self.g);
            self.weights.fill(0.0);
            if let Some((j, v)) = worst {
                self.weights[j] = slope(v);
            }
            if self.weights.iter().any(|&w| w != 0.0) {
                let draw = self.batch.draw(ev);
                ev.statistic_vjp(&self.s.x, draw, self.s.spider.get(), &self.weights, &mut self.pull)?;
            }
        }
        let draw = self.batch.draw(ev);
        ev.objective_grad(&self.s.x, draw, &mut self.d)?;
        vec::add_scaled(&mut self.s.watch.objective, alpha, &self.d);
        let weight = worst.map_or(0.0, |(_, v)| slope(v));
        if weight > 0.0 {
            vec::add_scaled(&mut self.d, 1.0, &self.pull);
        }
        if self.settings.output == Output::Random {
            self.s.reservoir.offer(&self.s.x, self.s.k, 1.0, ev.rng(Purpose::Output));
        }
        // x_{k+1} = x_k - alpha_k (s_f + beta h' s_g), Algorithm 1 line 8; d holds it until it is known to be finite
        for (d, x) in self.d.iter_mut().zip(&self.s.x) {
            *d = x - alpha * *d;
        }
        ev.project(&mut self.d)?;
        super::check_iterate(&self.d)?;
        std::mem::swap(&mut self.s.previous, &mut self.s.x);
        std::mem::swap(&mut self.s.x, &mut self.d);
        self.s.k += 1;
        if let Some((j, v)) = worst {
            self.watch(j, v, weight);
        }
        Ok(Step { kind: if weight > 0.0 { StepKind::Constraint } else { StepKind::Objective }, finished: false })
    }

    /// Monitors the penalty: a point where it has its full weight and only balances the objective is stationary for the
    /// penalised problem, and infeasible.
    fn watch(&mut self, j: usize, v: f64, weight: f64) {
        let window = WINDOW.max(2 * self.q);
        let watch = &mut self.s.watch;
        watch.violation += v;
        watch.saturated += u64::from(v >= self.settings.nu);
        watch.sums[j] += weight;
        watch.seen += 1;
        if watch.seen < window {
            return;
        }
        self.s.multipliers.iter_mut().zip(&mut watch.sums).for_each(|(m, s)| *m = std::mem::take(s) / window as f64);
        let stuck = watch.saturated == window && watch.balanced(&self.s.x);
        watch.stuck = stuck.then_some(watch.violation / window as f64);
        watch.begin(&self.s.x);
        if let (Some(violation), Beta::Auto) = (watch.stuck, self.settings.beta) {
            // Halving alpha keeps the length of the penalty's part of a step; a longer one would overshoot and look like a
            // persistent violation.
            self.s.beta *= 2.0;
            self.s.shortened *= 0.5;
            self.s.raises.push(Raise { beta: self.s.beta, iteration: self.s.k, violation });
        }
    }
}

impl Method for ThreesEcon {
    fn name(&self) -> &'static str {
        "threes-econ"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        let drawn = self.s.reservoir.get().map(|(_, x)| x).filter(|_| self.settings.output == Output::Random);
        out.copy_from_slice(drawn.unwrap_or(&self.s.x));
        PointOrigin::OutputRule
    }

    fn multipliers(&self) -> Option<&[f64]> {
        Some(&self.s.multipliers)
    }

    fn notes(&self) -> Vec<Note> {
        let raised = |&Raise { beta, iteration, violation }: &Raise| Note::PenaltyRaised { beta, iteration, violation };
        let mut notes: Vec<Note> = self.s.raises.iter().map(raised).collect();
        if let (Some(violation), Beta::Fixed(beta)) = (self.s.watch.stuck, self.settings.beta) {
            notes.push(Note::PenaltyTooSmall { beta, violation });
        }
        notes
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for ThreesEcon {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let (dim, m) = (x.len(), ev.num_constraints());
        let largest = ev.streams().iter().copied().max().unwrap_or(1);
        self.q = match self.settings.q {
            Epoch::Fixed(q) => q,
            Epoch::Sqrt => (largest as f64).sqrt().ceil() as u64,
        };
        let size = self.settings.s2.unwrap_or(usize::try_from(self.q).unwrap_or(usize::MAX));
        self.batch = MiniBatch::new((self.q > 1).then_some(size), Replacement::With);
        self.s.k = 0;
        self.s.shortened = 1.0;
        self.s.beta = match self.settings.beta {
            Beta::Fixed(beta) => beta,
            Beta::Auto => FIRST_BETA,
        };
        self.s.x.clear();
        self.s.x.extend_from_slice(x);
        self.s.previous.clone_from(&self.s.x);
        self.s.spider.start(ev.num_statistics(), self.q);
        self.s.reservoir.reset(dim);
        self.s.raises.clear();
        self.s.watch.stuck = None;
        self.s.watch.begin(x);
        for sums in [&mut self.s.watch.sums, &mut self.s.multipliers] {
            sums.clear();
            sums.resize(m, 0.0);
        }
        self.d.resize(dim, 0.0);
        self.pull.resize(dim, 0.0);
        self.g.resize(m, 0.0);
        self.weights.resize(m, 0.0);
        self.now.resize(ev.num_statistics(), 0.0);
        self.then.resize(ev.num_statistics(), 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}

/// A number or one word.
struct NumberOr<'w> {
    word: &'w str,
}

impl Visitor<'_> for NumberOr<'_> {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "a number or \"{}\"", self.word)
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> std::result::Result<Self::Value, E> {
        Ok(Some(v))
    }
    fn visit_i64<E: de::Error>(self, v: i64) -> std::result::Result<Self::Value, E> {
        Ok(Some(v as f64))
    }
    fn visit_u64<E: de::Error>(self, v: u64) -> std::result::Result<Self::Value, E> {
        Ok(Some(v as f64))
    }
    fn visit_str<E: de::Error>(self, v: &str) -> std::result::Result<Self::Value, E> {
        if v == self.word { Ok(None) } else { Err(E::invalid_value(de::Unexpected::Str(v), &self)) }
    }
}

impl Serialize for Beta {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Beta::Fixed(beta) => to.serialize_f64(*beta),
            Beta::Auto => to.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Beta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        Ok(from.deserialize_any(NumberOr { word: "auto" })?.map_or(Beta::Auto, Beta::Fixed))
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Epoch::Fixed(q) => to.serialize_u64(*q),
            Epoch::Sqrt => to.serialize_str("sqrt"),
        }
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        match from.deserialize_any(NumberOr { word: "sqrt" })? {
            None => Ok(Epoch::Sqrt),
            Some(q) if q >= 0.0 && q.fract() == 0.0 && q < 1e15 => Ok(Epoch::Fixed(q as u64)),
            Some(q) => Err(de::Error::invalid_value(de::Unexpected::Float(q), &"a whole number or \"sqrt\"")),
        }
    }
}
