//! AdaProx: proximal-point steps on a problem whose constraints are relaxed a little more with every step. The loop is in
//! `proximal_point`; pessimistic bilevel problems, its main application, are in [`crate::bilevel`].

use serde::{Deserialize, Serialize};

pub use super::proximal_point::Output;
use super::proximal_point::{CentreUpdate, EmptyRunRule, InnerSolver, ProximalPoint, Relaxation, Saved as Points, Subproblem};
use super::{Eval, Method, Pd, PointOrigin, Schedule, Solver, Ssg, State, Step, pd, ssg};
use crate::math::vec;
use crate::oracle::{Draw, Modulus, Pick};
use crate::{Error, Note, Result};

/// Solver of the subproblems. In TOML a table with its `name`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Inner {
    /// The switching gradient method: [`Ssg`] with steps for strongly convex problems.
    Sg(Sg),
    /// The primal-dual method with constraint extrapolation.
    Pd(pd::Settings),
}

impl Inner {
    /// The names that [`Inner`] is tagged by.
    pub const NAMES: &[&str] = &["sg", "pd"];
}

/// Settings of the switching gradient method in AdaProx: steps 1 / gamma_t with `gamma_t = mu (t + 1) / 2`, t = 1, 2, …,
/// constraints up to `eps / 2` accepted, the average of accepted iterates with weights gamma_t.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sg {
    /// Strong convexity mu of the subproblem. If absent, half of sigma.
    pub mu: Option<f64>,
    /// Accuracy eps of the subproblem. If absent, beta / (2 outer).
    pub eps: Option<f64>,
}

impl Sg {
    /// Returns the equivalent settings of the switching subgradient method, for given mu and eps.
    pub fn as_ssg(mu: f64, eps: f64) -> ssg::Settings {
        ssg::Settings {
            eta: Schedule::StronglyConvex(2.0 / mu), // 1 / gamma_{t+1}
            tol: Schedule::from(0.5 * eps),
            output: ssg::Output::Average,
            weights: ssg::Weights::InverseEta,
            ..ssg::Settings::default()
        }
    }
}

/// Settings of [`Adaprox`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of subproblems K, after which the method is finished. Default 100.
    pub outer: u64,
    /// Iterations T spent on each subproblem. Default 1000.
    pub inner_iterations: u64,
    /// Relaxation beta of all constraints in the last subproblem; the k-th has k beta / K. Default 0.02.
    pub beta: f64,
    /// Proximal coefficient sigma on the objective and on every constraint. If absent, twice the largest weak-convexity constant,
    /// and at least 1.
    pub sigma: Option<f64>,
    /// Factor by which an additional relaxation shrinks with every subproblem; it is used if the start violates constraints by
    /// more than beta / (2 K). Default 0.9.
    pub shrink: f64,
    /// Finishes early once ten centres in a row have moved by at most this fraction of the largest move so far. Default none:
    /// all subproblems are solved, as published.
    pub settled: Option<f64>,
    /// "random" or "last". Default "last".
    pub output: Output,
    /// The inner solver.
    pub inner: Inner,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            outer: 100,
            inner_iterations: 1000,
            beta: 0.02,
            sigma: None,
            shrink: 0.9,
            settled: None,
            output: Output::Last,
            inner: Inner::Sg(Sg::default()),
        }
    }
}

impl Settings {
    /// Checks every setting, including those of the inner solver.
    pub fn resolve(self) -> Result<Self> {
        for (name, count) in [("outer", self.outer), ("inner_iterations", self.inner_iterations)] {
            if count == 0 {
                return Err(Error::setting(name, 0, "at least 1"));
            }
        }
        let of_inner = match &self.inner {
            Inner::Sg(sg) => [("mu", sg.mu), ("eps", sg.eps)],
            Inner::Pd(pd) => {
                pd.clone().resolve()?;
                [("mu", pd.mu), ("mu", None)]
            }
        };
        let numbers = [("beta", Some(self.beta)), ("sigma", self.sigma)].into_iter().chain(of_inner);
        for (name, value) in numbers.filter_map(|(name, value)| Some((name, value?))) {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if !(self.shrink >= 0.0 && self.shrink < 1.0) {
            return Err(Error::setting("shrink", self.shrink, "a number from 0 to below 1"));
        }
        if let Some(share) = self.settled.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            return Err(Error::setting("settled", share, "a number between 0 and 1"));
        }
        Ok(self)
    }

    /// Returns the accuracy of subproblems in the analysis, beta / (2 K).
    pub fn accuracy(&self) -> f64 {
        0.5 * self.beta / self.outer as f64
    }

    /// Returns the bound on all constraints at the end if the subproblems are solved accurately: the last relaxation plus the
    /// accuracy.
    pub fn feasibility(&self) -> f64 {
        let accuracy = match &self.inner {
            Inner::Sg(sg) => sg.eps.map_or(self.accuracy(), |eps| 0.5 * eps),
            Inner::Pd(_) => self.accuracy(),
        };
        self.beta + accuracy
    }
}

/// Adaptive proximal-point method (AdaProx).
///
/// **Problem.** `min f(z)` over a compact simple set Z subject to `h_i(z) <= 0`, f and h_i smooth, not convex, possibly without
/// any strictly feasible point: the rows of a pessimistic bilevel problem ([`crate::bilevel`]) have none.
///
/// **Assumptions.** sigma is at least twice the Lipschitz constants of the gradients of f and of every h_i; the start satisfies
/// `h_i <= beta / (2 K)`.
///
/// **Iteration.** Subproblem k = 1, …, K is `min f(z) + (sigma / 2) ||z - z_k||^2` over Z subject to `h_i(z) + (sigma / 2)
/// ||z - z_k||^2 - k beta / K <= 0`. The inner solver starts at z_k and makes `inner_iterations` steps; z_{k+1} is its weighted
/// average. Since the relaxation grows by more than the accuracy of a subproblem, z_{k+1} is strictly feasible in the next one.
/// A step of this solver is one inner step.
///
/// **Guarantee.** With the planner's sigma, beta and K, and subproblems solved to the accuracy beta / (2 K), a uniformly random
/// centre is an eps-KKT point in expectation, of the constraints relaxed by beta. `output = "last"` is a heuristic.
///
/// **Deviations.** A fixed number of inner iterations instead of an accuracy. An infeasible start is accepted, with an initial
/// relaxation that shrinks. An inner run that accepts nothing leaves the centre unchanged. After each subproblem the functions
/// are evaluated once at the new centre to check whether sigma is large enough between the two; notes say so if not. With
/// `settled` the method may finish early, with constraints that are relaxed by less than beta.
///
/// **Settings.** [`Settings`]: outer, inner_iterations, beta, sigma, shrink, settled, output, inner.
///
/// **Reference.** Guan, Sow, Lin & Liang, *AdaProx: a novel method for bilevel optimization under pessimistic framework*.
#[derive(Debug, Clone)]
pub struct Adaprox {
    settings: Settings,
    points: ProximalPoint,
    s: Saved,
    sigma: f64,
    /// Gradients and constraints at the new centre.
    slope: Vec<f64>,
    row: Vec<f64>,
    h: Vec<f64>,
    full: Draw,
}

/// State in a checkpoint, in addition to that of the loop.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    relaxation: Relaxation,
    /// Largest constraint at the start.
    violation: f64,
    /// Subproblems that accepted nothing except possibly their start.
    empty: u64,
    /// f and h at the centre.
    objective: f64,
    constraints: Vec<f64>,
    /// Largest sigma that two centres required, and the subproblem after which it occurred.
    asked: f64,
    asked_at: u64,
    /// Largest squared distance between two centres, and the number of small ones since.
    largest_move: f64,
    small_moves: u64,
}

/// Number of small moves in a row that finishes the run.
const SMALL_MOVES: u64 = 10;

impl Adaprox {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        let sigma = settings.sigma.unwrap_or(1.0);
        Ok(Adaprox {
            points: Adaprox::points(&settings, sigma)?,
            settings,
            s: Saved::default(),
            sigma,
            slope: vec![],
            row: vec![],
            h: vec![],
            full: Draw::full(),
        })
    }

    fn points(settings: &Settings, sigma: f64) -> Result<ProximalPoint> {
        let inner = match &settings.inner {
            Inner::Sg(sg) => {
                let (mu, eps) = (sg.mu.unwrap_or(0.5 * sigma), sg.eps.unwrap_or(settings.accuracy()));
                InnerSolver::Ssg(Box::new(Ssg::new(Sg::as_ssg(mu, eps))?))
            }
            Inner::Pd(pd) => {
                let mu = Some(pd.mu.unwrap_or(0.5 * sigma));
                InnerSolver::Pd(Box::new(Pd::new(pd::Settings { mu, ..pd.clone() })?))
            }
        };
        Ok(ProximalPoint::new(inner, settings.inner_iterations, false, EmptyRunRule::Stay))
    }

    /// Returns the number of finished subproblems.
    pub fn finished(&self) -> u64 {
        self.points.s.k
    }

    /// Returns the current centre.
    pub fn centre(&self) -> &[f64] {
        &self.points.s.centre
    }

    /// Returns the proximal coefficient, once the method has started.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// Returns the largest proximal coefficient that the centres so far have required: if it exceeds sigma, some subproblem was
    /// not convex.
    pub fn sigma_asked(&self) -> f64 {
        self.s.asked
    }

    /// Returns the number of subproblems in which only the first iterate was accepted.
    pub fn empty(&self) -> u64 {
        self.s.empty
    }

    fn choose_sigma<E: Eval + ?Sized>(&self, ev: &E) -> Result<f64> {
        if let Some(sigma) = self.settings.sigma {
            return Ok(sigma);
        }
        let constants = (0..ev.num_constraints()).map(|j| ev.constraint_modulus(j)).chain([ev.objective_modulus()]);
        let largest = constants.map(|m| m.and_then(Modulus::known)).try_fold(0.0_f64, |largest, m| m.map(|m| largest.max(m)));
        match largest {
            Some(rho) => Ok((2.0 * rho).max(1.0)),
            None => Err(Error::setting(
                "sigma",
                crate::error::NOT_GIVEN,
                "a finite number larger than 0: the weak-convexity constants of the objective and of the constraints are unknown",
            )),
        }
    }

    /// Evaluates f, h and the gradients of f and of the largest row at the new centre. If their linearisations exceed the
    /// values at the old centre by more than (sigma / 2) ||z_k - z_{k+1}||^2, no subproblem with this sigma is convex there.
    fn look<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        let (now, before) = (&self.points.s.centre, self.points.previous());
        let squared = vec::sum_by(now.len(), |i| (now[i] - before[i]).powi(2));
        ev.refresh(now)?;
        let f = ev.objective_grad(now, &self.full, &mut self.slope)?;
        let mut worst = None;
        if !self.h.is_empty() {
            let mut weigh = |h: &[f64], w: &mut [f64]| {
                worst = vec::first_max(h).map(|(j, _)| j);
                worst.into_iter().for_each(|j| w[j] = 1.0);
            };
            ev.constraint_vjp(now, &self.full, &mut self.h, &mut weigh, &mut self.row)?;
        }
        let s = &mut self.s;
        s.empty += u64::from(squared == 0.0);
        s.largest_move = s.largest_move.max(squared);
        // A centre that has not moved at all means that nothing else was accepted, not convergence. The same holds while the
        // relaxation does not reach it yet.
        let reached = worst.is_none_or(|j| self.h[j] <= s.relaxation.at(self.points.s.k) + 0.25 * self.settings.beta);
        let small = |share: f64| reached && squared > 0.0 && squared <= share * share * s.largest_move;
        let small = self.settings.settled.is_some_and(small);
        s.small_moves = if small { s.small_moves + 1 } else { 0 };
        if squared > 1e-16 * (1.0 + vec::norm_squared(now)) {
            let above = |value: f64, slope: &[f64], old: f64| {
                let line = value + vec::sum_by(slope.len(), |i| slope[i] * (before[i] - now[i]));
                // Minus the rounding error.
                2.0 * (line - old - 1e-10 * (1.0 + value.abs() + old.abs())) / squared
            };
            let mut asked = above(f, &self.slope, s.objective);
            if let Some(j) = worst {
                asked = asked.max(above(self.h[j], &self.row, s.constraints[j]));
            }
            if asked > s.asked {
                (s.asked, s.asked_at) = (asked, self.points.s.k);
            }
        }
        s.objective = f;
        std::mem::swap(&mut s.constraints, &mut self.h);
        Ok(())
    }
}

impl Method for Adaprox {
    fn name(&self) -> &'static str {
        "adaprox"
    }

    fn iterate(&self, out: &mut [f64]) {
        self.points.inner.get().iterate(out);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.points.output(self.settings.output, out)
    }

    fn multipliers(&self) -> Option<&[f64]> {
        self.points.multipliers(self.settings.output)
    }

    fn notes(&self) -> Vec<Note> {
        let (mut notes, s, subproblems) = (vec![], &self.s, self.points.s.k);
        let (sigma, inner_iterations) = (self.sigma, self.settings.inner_iterations);
        if subproblems == 0 {
            notes.push(Note::NoSubproblemFinished { inner_iterations });
        }
        if s.relaxation.first > 0.0 {
            notes.push(Note::RelaxationEnlarged { violation: s.violation, accuracy: self.settings.accuracy() });
        }
        if s.empty > 0 {
            notes.push(Note::SubproblemsStalled { stalled: s.empty, subproblems, sigma, inner_iterations });
        }
        if s.asked > sigma {
            notes.push(Note::SigmaTooSmall { sigma, curvature: s.asked, subproblem: s.asked_at });
        }
        if let InnerSolver::Pd(pd) = &self.points.inner
            && pd.bound_is_active()
        {
            notes.push(Note::MultipliersAtBound);
        }
        notes
    }

    fn save(&self) -> Result<State> {
        State::pack(&(&self.s, self.points.save()?))
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let (saved, (points, inner)): (Saved, (Points, State)) = state.unpack()?;
        self.points.subproblem.relaxation = saved.relaxation;
        self.s = saved;
        self.points.restore(points, &inner)
    }
}

impl<'e> Solver<dyn Eval + 'e> for Adaprox {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        self.sigma = self.choose_sigma(ev)?;
        self.points = Adaprox::points(&self.settings, self.sigma)?;
        let (dim, q) = (x.len(), ev.num_constraints());
        self.slope.resize(dim, 0.0);
        self.row.resize(dim, 0.0);
        self.h.resize(q, 0.0);
        let mut constraints = vec![0.0; q];
        ev.refresh(x)?;
        let objective = ev.objective(x, &self.full)?;
        if q > 0 {
            ev.constraint_values(x, &self.full, Pick::All, &mut constraints)?;
        }
        let violation = vec::first_max(&constraints).map_or(0.0, |(_, v)| v);
        let first = if violation > self.settings.accuracy() { violation } else { 0.0 };
        let each = self.settings.beta / self.settings.outer as f64;
        let relaxation = Relaxation { first, shrink: self.settings.shrink, each };
        self.points.subproblem = Subproblem { rho_f: self.sigma, rho_g: self.sigma, relaxation };
        self.s = Saved { relaxation, violation, objective, constraints, ..Saved::default() };
        self.points.start(ev, x)
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let (step, moved) = self.points.step(ev)?;
        if moved == CentreUpdate::Empty {
            self.s.empty += 1;
        }
        if moved == CentreUpdate::Yes {
            self.look(ev)?;
        }
        let finished = self.points.s.k >= self.settings.outer || self.s.small_moves >= SMALL_MOVES;
        Ok(Step { finished: moved != CentreUpdate::No && finished, ..step })
    }
}
