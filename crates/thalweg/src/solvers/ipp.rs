//! Inexact proximal-point method: the choice of the inner solver, the proximal coefficients and the returned centre. The loop
//! itself is in `proximal_point`.

use serde::{Deserialize, Serialize};

pub use super::proximal_point::Output;
use super::proximal_point::{EmptyRunRule, InnerSolver, ProximalPoint, Relaxation, Saved, Subproblem};
use super::{Bundle, Conex, Eval, Method, PointOrigin, Solver, SolverName, Ssg, State, Step, ValueEval, bundle, conex, ssg};
use crate::oracle::Modulus;
use crate::{Error, Functions, Note, Result};

/// Solver of the subproblems with its settings. In TOML a table with its `name`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Inner {
    /// The switching subgradient method.
    Ssg(ssg::Settings),
    /// The constraint extrapolation method.
    Conex(conex::Settings),
    /// The proximal bundle method.
    Bundle(bundle::Settings),
}

/// Rule that takes the next centre from an inner run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerOutput {
    /// Weighted average. `ssg`: over accepted iterates, the last iterate if none was accepted; `conex`: with weights t + 1;
    /// `bundle`, which has no average: its centre.
    #[default]
    Average,
    /// Last iterate.
    Last,
}

/// Settings of [`Ipp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Proximal coefficient on the objective. If absent, twice the weak-convexity constant, and at least 1.
    pub rho_hat: Option<f64>,
    /// Proximal coefficient on every constraint. If absent, 0 if all of them are known to be convex, else `rho_hat`.
    pub rho_hat_g: Option<f64>,
    /// Iterations spent on each subproblem. Default 100.
    pub inner_iterations: u64,
    /// "average" or "last". Default "average".
    pub inner_output: InnerOutput,
    /// Whether the multipliers of an inner `conex` start from those of the previous run instead of 0. Default false.
    pub warm_multipliers: bool,
    /// "random" or "last". Default "last".
    pub output: Output,
    /// The inner solver. Its schedules restart in each subproblem; its `output` is set by `inner_output`.
    pub inner: Inner,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            rho_hat: None,
            rho_hat_g: None,
            inner_iterations: 100,
            inner_output: InnerOutput::Average,
            warm_multipliers: false,
            output: Output::Last,
            inner: Inner::Ssg(ssg::Settings::default()),
        }
    }
}

impl Settings {
    /// Checks every setting, including those of the inner solver.
    pub fn resolve(self) -> Result<Self> {
        if let Some(rho) = self.rho_hat.filter(|rho| !(*rho > 0.0 && rho.is_finite())) {
            return Err(Error::setting("rho_hat", rho, "a finite number larger than 0"));
        }
        if let Some(rho) = self.rho_hat_g.filter(|rho| !(*rho >= 0.0 && rho.is_finite())) {
            return Err(Error::setting("rho_hat_g", rho, "a finite number, 0 or larger"));
        }
        if self.inner_iterations == 0 {
            return Err(Error::setting("inner_iterations", 0, "at least 1"));
        }
        let inner = match self.inner {
            Inner::Ssg(mut inner) => {
                inner.output = match self.inner_output {
                    InnerOutput::Average => ssg::Output::Average,
                    InnerOutput::Last => ssg::Output::Last,
                };
                if self.warm_multipliers {
                    return Err(Error::setting(
                        "warm_multipliers",
                        true,
                        format!("false: the inner solver {} has no multipliers", SolverName::Ssg),
                    ));
                }
                Inner::Ssg(inner.resolve()?)
            }
            Inner::Conex(mut inner) => {
                inner.output = match self.inner_output {
                    InnerOutput::Average => conex::Output::Average,
                    InnerOutput::Last => conex::Output::Last,
                };
                Inner::Conex(inner.resolve()?)
            }
            Inner::Bundle(inner) => {
                if self.warm_multipliers {
                    let wanted = format!("false: the inner solver {} finds them anew", SolverName::Bundle);
                    return Err(Error::setting("warm_multipliers", true, wanted));
                }
                Inner::Bundle(inner.resolve()?)
            }
        };
        Ok(Settings { inner, ..self })
    }
}

/// Inexact proximal-point method (IPP).
///
/// **Problem.** `min f(x)` over a simple set X subject to `g_j(x) <= 0`, f weakly convex with constant rho, g_j convex or
/// weakly convex.
///
/// **Assumptions.** `rho_hat` exceeds rho, `rho_hat_g` exceeds the constants of the constraints or is 0 if they are convex; X
/// compact, subgradients bounded, a strictly feasible point of every subproblem.
///
/// **Iteration.** `z_0 = x_0`. Subproblem k is `min f(x) + (rho_hat / 2) ||x - z_k||^2` over X subject to
/// `g_j(x) + (rho_hat_g / 2) ||x - z_k||^2 <= 0`. The inner solver begins at `z_k`, with multipliers 0, and makes
/// `inner_iterations` steps; `z_{k+1}` is its average or its last iterate. A step of this solver is one inner step; the iterate
/// is that of the inner run, so iteration `k * inner_iterations` shows `z_k`.
///
/// **Guarantee.** With subproblems solved to an accuracy in proportion to eps^2, a uniformly random centre among O(1/eps^2) is
/// nearly eps-stationary in expectation. `output = "last"` is a heuristic.
///
/// **Deviations.** A fixed number of inner iterations instead of an accuracy. `rho_hat` may be at most rho, as in some printed
/// experiments; a note in the outcome then says that the subproblems need not be convex. Steps of the inner solver are given,
/// not derived: for coefficients `c1 (k + 1)` and `c2 / (k + 1)` of an inner ConEx in a paper, use `eta` inv-linear with c =
/// 1/c1, `tau` power with p = 1 and c = 1/c2, theta "growing".
///
/// **Settings.** [`Settings`]: rho_hat, rho_hat_g, inner_iterations, inner_output, warm_multipliers, output, inner.
///
/// **Reference.** Boob, Deng & Lan, *Stochastic first-order methods for convex and nonconvex functional constrained
/// optimization*; Ma, Lin & Yang, *Quadratically regularized subgradient methods for weakly convex optimization with weakly
/// convex constraints*.
#[derive(Debug, Clone)]
pub struct Ipp {
    settings: Settings,
    points: ProximalPoint,
    notes: Vec<Note>,
}

impl Ipp {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        let inner = match settings.inner.clone() {
            Inner::Ssg(inner) => InnerSolver::Ssg(Box::new(Ssg::new(inner)?)),
            Inner::Conex(inner) => {
                let mut inner = Conex::new(inner)?;
                inner.weigh_linearly();
                InnerSolver::Conex(Box::new(inner))
            }
            Inner::Bundle(inner) => InnerSolver::Bundle(Box::new(Bundle::new(inner)?)),
        };
        let points = ProximalPoint::new(inner, settings.inner_iterations, settings.warm_multipliers, EmptyRunRule::Last);
        Ok(Ipp { settings, points, notes: vec![] })
    }

    /// Returns the number of finished subproblems.
    pub fn finished(&self) -> u64 {
        self.points.s.k
    }

    /// Returns the current centre z_k.
    pub fn centre(&self) -> &[f64] {
        &self.points.s.centre
    }

    /// Returns the proximal coefficients of the objective and of the constraints, once the method has started.
    pub fn coefficients(&self) -> (f64, f64) {
        (self.points.subproblem.rho_f, self.points.subproblem.rho_g)
    }

    /// Chooses the coefficients for a problem, with notes about them.
    fn choose<E: ValueEval + ?Sized>(settings: &Settings, ev: &E) -> Result<(Subproblem, Vec<Note>)> {
        let rho = ev.objective_modulus().and_then(Modulus::known);
        let rho_g = (0..ev.num_constraints())
            .map(|j| ev.constraint_modulus(j).and_then(Modulus::known))
            .try_fold(0.0_f64, |largest, m| m.map(|m| largest.max(m)));
        let rho_f_hat = match (settings.rho_hat, rho) {
            (Some(given), _) => given,
            // Also used for the constraints if they need a coefficient, and must exceed both constants.
            (None, Some(rho)) => {
                let of_constraints = if settings.rho_hat_g.is_some() { 0.0 } else { rho_g.unwrap_or(0.0) };
                (2.0 * rho.max(of_constraints)).max(1.0)
            }
            (None, None) => {
                return Err(Error::Problem(
                    "the weak-convexity constant of the objective is not known: give rho_hat, or state the constant".into(),
                ));
            }
        };
        let rho_g_hat = settings.rho_hat_g.unwrap_or(if rho_g == Some(0.0) { 0.0 } else { rho_f_hat });
        let mut notes = vec![];
        for (of, coefficient, constant) in [(Functions::Objective, rho_f_hat, rho), (Functions::Constraints, rho_g_hat, rho_g)] {
            if let Some(constant) = constant.filter(|&rho| rho > 0.0 && coefficient <= rho) {
                notes.push(Note::ProximalCoefficientTooSmall { of, coefficient, constant });
            }
        }
        Ok((Subproblem { rho_f: rho_f_hat, rho_g: rho_g_hat, relaxation: Relaxation::default() }, notes))
    }
}

impl Method for Ipp {
    fn name(&self) -> &'static str {
        "ipp"
    }

    /// 1 for this solver, with the version of the inner solver in the last three digits.
    fn version(&self) -> u32 {
        1000 + self.points.inner.get().version()
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
        let mut notes = self.notes.clone();
        if self.points.s.k == 0 {
            notes.push(Note::NoSubproblemFinished { inner_iterations: self.settings.inner_iterations });
        }
        notes
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.points.save()?)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let (saved, inner): (Saved, State) = state.unpack()?;
        self.points.restore(saved, &inner)
    }
}

impl<'e> Solver<dyn Eval + 'e> for Ipp {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        (self.points.subproblem, self.notes) = Ipp::choose(&self.settings, ev)?;
        self.points.start(ev, x)
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        Ok(self.points.step(ev)?.0)
    }
}
