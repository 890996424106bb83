//! Constraint extrapolation method: dual ascent on extrapolated linearised constraints, primal descent on the Lagrangian.
//! Planning its parameters is in [`crate::plan::conex`].

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::dual::ascend;
use super::{Eval, Method, PointOrigin, Schedule, Solver, State, Step, StepKind};
use crate::estimate::{MiniBatch, RunningMean};
use crate::math::vec;
use crate::oracle::{Draw, Replacement};
use crate::{Error, Result};

/// Largest number of entries in the subgradients of all constraints together: 2^28, which is 2 GiB.
pub const MOST_NUMBERS: usize = 1 << 28;

/// Extrapolation weight theta_t. In TOML a number, or "growing".
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Theta {
    /// The same at every iteration; 1 for convex problems.
    Number(f64),
    /// t / (t + 1), for strongly convex objectives.
    Growing,
}

impl Theta {
    /// Returns the weight of iteration `t`.
    pub fn at(&self, t: u64) -> f64 {
        match *self {
            Theta::Number(theta) => theta,
            Theta::Growing => t as f64 / (t as f64 + 1.0),
        }
    }
}

impl From<f64> for Theta {
    fn from(theta: f64) -> Self {
        Theta::Number(theta)
    }
}

/// Serialised as a number or a word if the format distinguishes them, as an optional number otherwise.
impl Serialize for Theta {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match (*self, serializer.is_human_readable()) {
            (Theta::Number(theta), true) => serializer.serialize_f64(theta),
            (Theta::Growing, true) => serializer.serialize_str("growing"),
            (Theta::Number(theta), false) => Some(theta).serialize(serializer),
            (Theta::Growing, false) => None::<f64>.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Theta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct NumberOrWord;
        impl Visitor<'_> for NumberOrWord {
            type Value = Theta;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number or \"growing\"")
            }
            fn visit_f64<E: de::Error>(self, theta: f64) -> std::result::Result<Theta, E> {
                Ok(Theta::Number(theta))
            }
            fn visit_i64<E: de::Error>(self, theta: i64) -> std::result::Result<Theta, E> {
                Ok(Theta::Number(theta as f64))
            }
            fn visit_u64<E: de::Error>(self, theta: u64) -> std::result::Result<Theta, E> {
                Ok(Theta::Number(theta as f64))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> std::result::Result<Theta, E> {
                if word == "growing" { Ok(Theta::Growing) } else { Err(E::invalid_value(de::Unexpected::Str(word), &self)) }
            }
        }
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(NumberOrWord);
        }
        Ok(Option::<f64>::deserialize(deserializer)?.map_or(Theta::Growing, Theta::Number))
    }
}

/// Rule that selects the returned point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The average of x_1, x_2, … with weights gamma_t, as in the theorems: equal ones, or t + 1 if theta is "growing".
    Average,
    /// The last iterate, as in the papers' figures.
    #[default]
    Last,
}

/// Settings of [`Conex`]. Both `eta` and `tau` multiply; if a paper divides by a coefficient, use its inverse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Primal step eta_t. Default 0.01.
    pub eta: Schedule,
    /// Dual step tau_t. Default 1.
    pub tau: Schedule,
    /// Extrapolation weight theta_t: a number, or "growing" for t / (t + 1). Default 1.
    pub theta: Theta,
    /// "average" or "last". Default "last".
    pub output: Output,
    /// Samples per stream for a subgradient of f; all if absent.
    pub batch_f: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { eta: 0.01.into(), tau: 1.0.into(), theta: Theta::Number(1.0), output: Output::Last, batch_f: None }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        let (eta, tau) = (self.eta.resolve("eta", None)?, self.tau.resolve("tau", None)?);
        eta.validate("eta", false)?;
        tau.validate("tau", false)?;
        if let Theta::Number(theta) = self.theta
            && !(theta >= 0.0 && theta.is_finite())
        {
            return Err(Error::setting("theta", theta, "a finite number, 0 or larger, or \"growing\""));
        }
        if self.batch_f == Some(0) {
            return Err(Error::setting("batch_f", 0, "at least 1 sample"));
        }
        Ok(Settings { eta, tau, ..self })
    }
}

/// Constraint extrapolation method (ConEx).
///
/// **Problem.** `min f(x)` over a simple set X subject to `g_j(x) <= 0`, j = 1..m, each with its own multiplier.
///
/// **Assumptions.** f and g_j convex with bounded subgradients, a multiplier exists. For weakly convex f nothing is proved,
/// although it often works well; inside [`super::Ipp`] the subproblems are convex.
///
/// **Iteration** (Algorithm 1). Linearised constraints `l_j(x_t) = g_j(x_{t-1}) + <g_j'(x_{t-1}), x_t - x_{t-1}>` with
/// `x_{-2} = x_{-1} = x_0`, multipliers `y_0 = 0`:
/// `s_t = (1 + theta_t) l(x_t) - theta_t l(x_{t-1})`, `y_{t+1} = max(0, y_t + tau_t s_t)`,
/// `x_{t+1} = proj_X(x_t - eta_t (f'(x_t) + sum_j y_{t+1,j} g_j'(x_t)))`. One iteration costs a subgradient of f and a value and
/// a subgradient of every constraint, all at x_t, and a projection.
///
/// **Guarantee.** For convex problems with theta 1 and constant steps in proportion to 1/sqrt(T), the average after T
/// iterations is optimal and feasible up to O(1/sqrt(T)). For a strongly convex objective, `eta` inv-linear, `tau` growing
/// linearly and theta "growing" give O(1/T). The last iterate is a heuristic.
///
/// **Deviations.** The paper uses proximal coefficients, whose inverses are the steps `eta` and `tau`. Its shift t0 of the
/// strongly convex schedules is omitted: theta "growing" is t0 = 0 with gamma_t = t + 1, as in the experiments of Huang & Lin.
/// An iteration stores m subgradients, m times dimension numbers; above [`MOST_NUMBERS`] the method refuses the problem.
///
/// **Settings.** [`Settings`]: eta, tau, theta, output, batch_f.
///
/// **Reference.** Boob, Deng & Lan, *Stochastic first-order methods for convex and nonconvex functional constrained
/// optimization*.
#[derive(Debug, Clone)]
pub struct Conex {
    settings: Settings,
    /// Whether averages have weights t + 1 for every theta, as in inner runs.
    linear: bool,
    s: Saved,
    /// Direction of the current step, then the new iterate.
    d: Vec<f64>,
    /// The new multipliers.
    y: Vec<f64>,
    /// g(x_t) and the rows g_j'(x_t). They are not used after the step: l(x_{t+1}) is computed at its end.
    g: Vec<f64>,
    rows: Vec<f64>,
    /// All constraints.
    which: Vec<u32>,
    full: Draw,
    batch_f: MiniBatch,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    t: u64,
    x: Vec<f64>,
    y: Vec<f64>,
    /// l(x_t), centre x_{t-1}; and l(x_{t-1}), centre x_{t-2}. Unused at t = 0.
    now: Vec<f64>,
    before: Vec<f64>,
    average: RunningMean,
    average_y: RunningMean,
}

impl Conex {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        Ok(Conex {
            linear: settings.theta == Theta::Growing,
            batch_f: MiniBatch::new(settings.batch_f, Replacement::Without),
            settings,
            s: Saved::default(),
            d: vec![],
            y: vec![],
            g: vec![],
            rows: vec![],
            which: vec![],
            full: Draw::full(),
        })
    }

    /// Returns the current multipliers y_t, one for each constraint.
    pub fn current_multipliers(&self) -> &[f64] {
        &self.s.y
    }

    /// Uses the weights t + 1 in averages also if theta is a number: the output of an inner run.
    pub(super) fn weigh_linearly(&mut self) {
        self.linear = true;
    }

    /// Replaces the multipliers y_t.
    pub(super) fn set_multipliers(&mut self, y: &[f64]) {
        self.s.y.copy_from_slice(y);
    }

    fn take_step<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        let Saved { t, x, y, now, before, average, average_y } = &mut self.s;
        let (eta, tau, theta) = (self.settings.eta.at(*t), self.settings.tau.at(*t), self.settings.theta.at(*t));
        ev.refresh(x)?;
        let draw = self.batch_f.draw(ev);
        ev.objective_grad(x, draw, &mut self.d)?;
        if !self.which.is_empty() {
            ev.constraint_rows(x, &self.full, &self.which, &mut self.g, &mut self.rows)?;
        }
        if *t == 0 {
            // x_{-2} = x_{-1} = x_0, so that l(x_0) = l(x_{-1}) = g(x_0)
            now.copy_from_slice(&self.g);
            before.copy_from_slice(&self.g);
        }
        ascend(y, tau, theta, now, before, &mut self.y)?; // y_{t+1}, Algorithm 1 lines 3 and 4
        let dim = x.len().max(1);
        // x_{t+1}, Algorithm 1 line 5
        for (&y, row) in self.y.iter().zip(self.rows.chunks(dim)).filter(|(y, _)| **y != 0.0) {
            vec::add_scaled(&mut self.d, y, row);
        }
        for (d, x) in self.d.iter_mut().zip(&*x) {
            *d = *x - eta * *d;
        }
        ev.project(&mut self.d)?;
        super::check_iterate(&self.d)?;
        // l(x_{t+1}) = g(x_t) + <g'(x_t), x_{t+1} - x_t>: the last use of the rows
        std::mem::swap(now, before);
        for ((now, g), row) in now.iter_mut().zip(&self.g).zip(self.rows.chunks(dim)) {
            *now = g + vec::sum_by(x.len(), |i| row[i] * (self.d[i] - x[i]));
        }
        std::mem::swap(x, &mut self.d);
        std::mem::swap(y, &mut self.y);
        let gamma = if self.linear { *t as f64 + 1.0 } else { 1.0 };
        average.add(x, gamma);
        average_y.add(y, gamma);
        *t += 1;
        Ok(Step { kind: StepKind::Other, finished: false })
    }
}

impl Method for Conex {
    fn name(&self) -> &'static str {
        "conex"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        let average = self.s.average.get().filter(|_| self.settings.output == Output::Average);
        out.copy_from_slice(average.unwrap_or(&self.s.x));
        PointOrigin::OutputRule
    }

    fn multipliers(&self) -> Option<&[f64]> {
        let average = self.s.average_y.get().filter(|_| self.settings.output == Output::Average);
        Some(average.unwrap_or(&self.s.y))
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Conex {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let (d, m) = (x.len(), ev.num_constraints());
        let numbers = d.checked_mul(m).filter(|&n| n <= MOST_NUMBERS).ok_or_else(|| {
            Error::Problem(format!(
                "conex holds a subgradient of every constraint, here {m} times {d} numbers; expected at most {MOST_NUMBERS} in all; \
                 ssg needs one subgradient at a time"
            ))
        })?;
        self.s.t = 0;
        self.s.x.clear();
        self.s.x.extend_from_slice(x);
        for values in [&mut self.s.y, &mut self.s.now, &mut self.s.before, &mut self.y, &mut self.g] {
            values.clear();
            values.resize(m, 0.0);
        }
        self.s.average.reset(d);
        self.s.average_y.reset(m);
        self.d.resize(d, 0.0);
        self.rows.resize(numbers, 0.0);
        self.which.clear();
        self.which.extend(0..m as u32);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
