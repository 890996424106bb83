//! The proximal-point loop shared by IPP and AdaProx: a solver applied to one regularised subproblem after another, flattened
//! so that one step is one inner step. The coefficients and relaxations of the subproblems are chosen by the methods.

use serde::{Deserialize, Serialize};

use super::{Bundle, Conex, Eval, FirstOrder, Pd, PointOrigin, Ssg, State, Step};
use crate::Result;
use crate::estimate::Reservoir;
use crate::eval::Proximal;
use crate::math::Aligned;
use crate::math::rng::Purpose;

/// Rule that selects the returned centre.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// A centre drawn uniformly from those at which a subproblem was started, as in the theorems.
    Random,
    /// The last centre.
    #[default]
    Last,
}

/// The inner solver.
#[derive(Debug, Clone)]
pub(super) enum InnerSolver {
    Ssg(Box<Ssg>),
    Conex(Box<Conex>),
    Bundle(Box<Bundle>),
    Pd(Box<Pd>),
}

impl InnerSolver {
    pub(super) fn get(&self) -> &FirstOrder<'static> {
        match self {
            InnerSolver::Ssg(inner) => &**inner,
            InnerSolver::Conex(inner) => &**inner,
            InnerSolver::Bundle(inner) => &**inner,
            InnerSolver::Pd(inner) => &**inner,
        }
    }

    fn get_mut(&mut self) -> &mut FirstOrder<'static> {
        match self {
            InnerSolver::Ssg(inner) => &mut **inner,
            InnerSolver::Conex(inner) => &mut **inner,
            InnerSolver::Bundle(inner) => &mut **inner,
            InnerSolver::Pd(inner) => &mut **inner,
        }
    }
}

/// Regularisation of the problem around a centre.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Subproblem {
    /// Proximal coefficient on the objective.
    pub(super) rho_f: f64,
    /// Proximal coefficient on every constraint.
    pub(super) rho_g: f64,
    /// Relaxation of every constraint.
    pub(super) relaxation: Relaxation,
}

/// Relaxation of subproblem k = 0, 1, …: `first shrink^k + each (k + 1)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Relaxation {
    pub(super) first: f64,
    pub(super) shrink: f64,
    pub(super) each: f64,
}

impl Relaxation {
    pub(super) fn at(&self, k: u64) -> f64 {
        let kept = if self.first == 0.0 { 0.0 } else { self.first * self.shrink.powf(k as f64) };
        kept + self.each * (k as f64 + 1.0)
    }
}

impl Subproblem {
    fn around<'a, E: ?Sized>(&self, k: u64, centre: &'a [f64], ev: &'a mut E, work: &'a mut Vec<f64>) -> Proximal<'a, E> {
        Proximal { inner: ev, centre, rho_f: self.rho_f, rho_g: self.rho_g, slack: self.relaxation.at(k), work }
    }
}

/// Rule for the next centre if the inner run accepted none of its iterates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyRunRule {
    /// The last iterate.
    Last,
    /// The old centre.
    Stay,
}

/// State in a checkpoint, in addition to that of the inner solver.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Saved {
    /// Number of finished subproblems, and of steps in the current one.
    pub(super) k: u64,
    pub(super) t: u64,
    /// z_k, and the multipliers of the inner run that produced it; empty for z_0 and for solvers without.
    pub(super) centre: Aligned,
    pub(super) multipliers: Vec<f64>,
    /// The drawn centre and its multipliers.
    pub(super) reservoir: Reservoir,
    pub(super) drawn_multipliers: Vec<f64>,
}

/// Result of a step for the current subproblem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CentreUpdate {
    /// It is not finished.
    No,
    /// It ended with a new centre from accepted iterates.
    Yes,
    /// It ended without an accepted iterate.
    Empty,
}

/// Proximal-point loop.
#[derive(Debug, Clone)]
pub(super) struct ProximalPoint {
    pub(super) inner: InnerSolver,
    pub(super) s: Saved,
    pub(super) subproblem: Subproblem,
    pub(super) inner_iterations: u64,
    pub(super) warm_multipliers: bool,
    pub(super) otherwise: EmptyRunRule,
    /// Buffers for the view of the subproblem, and for the next centre, afterwards the previous one.
    work: Vec<f64>,
    next: Aligned,
}

impl ProximalPoint {
    pub(super) fn new(inner: InnerSolver, inner_iterations: u64, warm_multipliers: bool, otherwise: EmptyRunRule) -> Self {
        let (s, subproblem) = (Saved::default(), Subproblem::default());
        ProximalPoint {
            inner,
            s,
            subproblem,
            inner_iterations,
            warm_multipliers,
            otherwise,
            work: vec![],
            next: Aligned::default(),
        }
    }

    /// Returns the previous centre, after a step that moved.
    pub(super) fn previous(&self) -> &[f64] {
        &self.next
    }

    /// Writes the centre that `rule` selects into `out`.
    pub(super) fn output(&self, rule: Output, out: &mut [f64]) -> PointOrigin {
        let drawn = self.s.reservoir.get().map(|(_, z)| z).filter(|_| rule == Output::Random);
        out.copy_from_slice(drawn.unwrap_or(&self.s.centre));
        PointOrigin::OutputRule
    }

    /// Returns the multipliers of the centre that `rule` selects, if the inner solver has any.
    pub(super) fn multipliers(&self, rule: Output) -> Option<&[f64]> {
        let selected = match rule {
            Output::Random => &self.s.drawn_multipliers,
            Output::Last => &self.s.multipliers,
        };
        (!selected.is_empty()).then_some(selected)
    }

    pub(super) fn start(&mut self, ev: &mut dyn Eval, x: &[f64]) -> Result<()> {
        let s = &mut self.s;
        (s.k, s.t) = (0, 0);
        for point in [&mut s.centre, &mut self.next] {
            point.set(x); // z_0 = x_0
        }
        for multipliers in [&mut s.multipliers, &mut s.drawn_multipliers] {
            multipliers.clear();
            multipliers.reserve(ev.num_constraints());
        }
        s.reservoir.reset(x.len());
        let view = &mut self.subproblem.around(0, &s.centre, ev, &mut self.work);
        self.inner.get_mut().start(view as &mut dyn Eval, x)
    }

    /// Makes one inner step, and starts the next subproblem if it was the last of this one.
    pub(super) fn step(&mut self, ev: &mut dyn Eval) -> Result<(Step, CentreUpdate)> {
        let s = &mut self.s;
        let view = &mut self.subproblem.around(s.k, &s.centre, ev, &mut self.work);
        let step = self.inner.get_mut().step(view as &mut dyn Eval)?;
        if s.t == 0 {
            s.reservoir.offer(&s.centre, s.k, 1.0, ev.rng(Purpose::Output));
            if s.reservoir.get().is_some_and(|(drawn, _)| drawn == s.k) {
                s.drawn_multipliers.clone_from(&s.multipliers);
            }
        }
        s.t += 1;
        let mut moved = CentreUpdate::No;
        if step.finished || s.t >= self.inner_iterations {
            moved = self.move_on(ev)?;
        }
        Ok((Step { finished: false, ..step }, moved))
    }

    /// Uses the output of the inner run as z_{k+1} and starts the next one there.
    fn move_on(&mut self, ev: &mut dyn Eval) -> Result<CentreUpdate> {
        let inner = self.inner.get_mut();
        let empty = inner.output(&mut self.next) == PointOrigin::LeastInfeasible;
        let s = &mut self.s;
        if empty {
            match self.otherwise {
                EmptyRunRule::Last => inner.iterate(&mut self.next),
                EmptyRunRule::Stay => self.next.copy_from_slice(&s.centre),
            }
        }
        s.multipliers.clear();
        s.multipliers.extend_from_slice(inner.multipliers().unwrap_or(&[]));
        std::mem::swap(&mut s.centre, &mut self.next); // z_{k+1}
        (s.k, s.t) = (s.k + 1, 0);
        let view = &mut self.subproblem.around(s.k, &s.centre, ev, &mut self.work);
        inner.start(view as &mut dyn Eval, &s.centre)?;
        if let (InnerSolver::Conex(inner), true) = (&mut self.inner, self.warm_multipliers) {
            inner.set_multipliers(&s.multipliers);
        }
        Ok(if empty { CentreUpdate::Empty } else { CentreUpdate::Yes })
    }

    /// Returns both parts of the state.
    pub(super) fn save(&self) -> Result<(&Saved, State)> {
        Ok((&self.s, self.inner.get().save()?))
    }

    pub(super) fn restore(&mut self, saved: Saved, inner: &State) -> Result<()> {
        self.inner.get_mut().restore(inner)?;
        self.s = saved;
        Ok(())
    }
}
