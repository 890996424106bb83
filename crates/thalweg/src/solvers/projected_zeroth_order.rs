//! What the zeroth-order methods share that look through the constraints: an estimate of the gradient from values, and a
//! subproblem on the set that the constraints describe, which may take several steps. What is done with them is each method's own.

use serde::{Deserialize, Serialize};

use super::{Kind, Step, ValueEval};
use crate::estimate::{Law, Reservoir, TwoPoint};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Replacement};
use crate::{Error, Result};

/// Which point is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The last iterate: what the experiments show.
    #[default]
    Last,
    /// A uniformly drawn iterate: what the theorems speak of.
    Random,
}

/// Settings that all of these methods have, as far as they are numbers to check.
pub(super) struct Common {
    pub(super) mu: f64,
    pub(super) directions: usize,
    pub(super) sweeps: usize,
    pub(super) tolerance: f64,
}

impl Common {
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [("mu", self.mu), ("tolerance", self.tolerance)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        for (name, value) in [("directions", self.directions), ("sweeps", self.sweeps)] {
            if value == 0 {
                return Err(Error::setting(name, 0, "at least 1"));
            }
        }
        Ok(())
    }
}

/// Samples and directions, and what they say about the gradient at one point or another.
#[derive(Debug, Clone, Default)]
pub(super) struct Gradient {
    estimator: TwoPoint,
    samples: Draw,
    values: Vec<f64>,
}

impl Gradient {
    pub(super) fn start(&mut self, dim: usize, directions: usize, mu: f64, law: Law, antithetic: bool) {
        self.estimator.start(dim, directions, mu, law, antithetic);
        self.values.clear();
        self.values.resize(self.estimator.count() + 1, 0.0);
    }

    /// Draws `batch` samples, all if there are not more, and new directions.
    pub(super) fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E, batch: usize) {
        ev.sample(&mut self.samples, batch, Replacement::Without);
        self.estimator.draw(ev.rng(Purpose::Directions));
    }

    /// `out` becomes the estimate at `w` from what was drawn last.
    pub(super) fn at<E: ValueEval + ?Sized>(&mut self, ev: &mut E, w: &[f64], out: &mut [f64]) -> Result<()> {
        ev.refresh(w)?;
        let points = self.estimator.around(w)?;
        ev.objective_many(points, &self.samples, &mut self.values)?;
        out.fill(0.0);
        self.estimator.add(&self.values, 1.0, out);
        match vec::first_not_finite(out) {
            None => Ok(()),
            Some((i, value)) => Err(Error::NotFinite { what: format!("entry {} of the estimated gradient", i + 1), value }),
        }
    }
}

/// How much is done at once, and how well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    pub(super) sweeps: usize,
    pub(super) tolerance: f64,
}

/// A subproblem that may be unfinished after a step. Its numbers are in the run's memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Subproblem {
    open: bool,
    /// Steps that were spent on the open one, and what it violated a row by after the last of them.
    steps: u64,
    violation: f64,
}

impl Subproblem {
    /// Whether one was begun and is not finished.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The nearest point to `target` that keeps the constraints, as they look from `at`, into `x`. Says whether it is there; if
    /// not, the next call goes on whatever the target.
    pub(super) fn nearest<E: ValueEval + ?Sized>(
        &mut self,
        ev: &mut E,
        effort: Effort,
        at: &[f64],
        target: &[f64],
        x: &mut [f64],
    ) -> Result<bool> {
        if ev.region().is_none() {
            x.copy_from_slice(target);
            return ev.project(x).map(|()| true);
        }
        if !self.open {
            self.begin(ev, at, target)?;
        }
        self.go_on(ev, effort, x)
    }

    /// The point that keeps the constraints, as they look from `at`, and has the least `<slope, x>`, into `x`; as
    /// [`Subproblem::nearest`]. `aim` is working space.
    pub(super) fn lowest<E: ValueEval + ?Sized>(
        &mut self,
        ev: &mut E,
        effort: Effort,
        at: &[f64],
        slope: &[f64],
        aim: &mut [f64],
        x: &mut [f64],
    ) -> Result<bool> {
        let Some(region) = ev.region() else {
            return ev.minimize_linear(slope, x).map(|()| true);
        };
        if !self.open {
            region.lmo_target(at, slope, aim);
            self.begin(ev, at, aim)?;
        }
        let done = self.go_on(ev, effort, x)?;
        if done && let Some(region) = ev.region() {
            region.lmo_finish(x);
        }
        Ok(done)
    }

    fn begin<E: ValueEval + ?Sized>(&mut self, ev: &mut E, at: &[f64], target: &[f64]) -> Result<()> {
        ev.region_begin(at, target)?;
        *self = Subproblem { open: true, steps: 0, violation: 0.0 };
        Ok(())
    }

    fn go_on<E: ValueEval + ?Sized>(&mut self, ev: &mut E, effort: Effort, x: &mut [f64]) -> Result<bool> {
        let swept = ev.region_sweep(x, effort.sweeps, effort.tolerance)?;
        self.open = !swept.done;
        self.steps += 1;
        self.violation = swept.violation;
        Ok(swept.done)
    }

    /// What a reader should know of one that is not finished.
    pub(super) fn notes(&self) -> Vec<String> {
        if !self.open {
            return vec![];
        }
        let (steps, violation) = (self.steps, self.violation);
        let steps = if steps == 1 { "1 step".into() } else { format!("{steps} steps") };
        vec![format!(
            "the last iterate waits for a projection onto the constraints, which is not finished after {steps}: its point still \
             violates a constraint by {violation:.1e}"
        )]
    }
}

/// Refuses a problem whose constraints the method `name` cannot project onto.
pub(super) fn can_project<E: ValueEval + ?Sized>(name: &str, ev: &E) -> Result<()> {
    if ev.num_constraints() > 0 && ev.region().is_none() {
        return Err(Error::Problem(format!(
            "{name} projects onto the constraints, and this problem does not say how; expected one with a region, or dszog, which asks for \
             values alone"
        )));
    }
    Ok(())
}

/// Refuses a problem on whose points the method `name` cannot minimise linear functions.
pub(super) fn can_minimize<E: ValueEval + ?Sized>(name: &str, ev: &E) -> Result<()> {
    can_project(name, ev)?;
    if let Some(region) = ev.region().filter(|region| !region.bounded()) {
        let region = region.describe();
        return Err(Error::Problem(format!(
            "{name} minimises linear functions over the feasible points, and these ({region}) may be unbounded; \
             expected a bounded domain"
        )));
    }
    if ev.region().is_none() && !ev.domain().diameter(ev.dim()).is_finite() {
        let domain = ev.domain().describe();
        return Err(Error::Problem(format!(
            "{name} minimises linear functions over the domain, and this one ({domain}) is not bounded"
        )));
    }
    Ok(())
}

/// Where a method stands, which every checkpoint keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Walk {
    /// The iteration.
    pub(super) t: u64,
    /// The iterate.
    pub(super) w: Vec<f64>,
    /// What its next step waits for.
    pub(super) subproblem: Subproblem,
    reservoir: Reservoir,
}

impl Walk {
    /// Begins at `x` with iteration `t`.
    pub(super) fn start(&mut self, t: u64, x: &[f64]) {
        self.t = t;
        copy(&mut self.w, x);
        self.subproblem = Subproblem::default();
        self.reservoir.reset(x.len());
    }

    /// Takes over the next iterate, if it is finite; `next` then has the one before.
    pub(super) fn advance<E: ValueEval + ?Sized>(&mut self, next: &mut Vec<f64>, output: Output, ev: &mut E) -> Result<Step> {
        super::check_iterate(next)?;
        if output == Output::Random {
            self.reservoir.offer(&self.w, self.t, 1.0, ev.rng(Purpose::Output));
        }
        std::mem::swap(&mut self.w, next);
        self.t += 1;
        Ok(Step { kind: Kind::Objective, finished: false })
    }

    /// The step of an iteration whose subproblem is not finished.
    pub(super) fn wait() -> Step {
        Step { kind: Kind::Constraint, finished: false }
    }

    /// What the method returns: the drawn iterate if one is kept, or the last.
    pub(super) fn output(&self) -> &[f64] {
        self.reservoir.get().map_or(&self.w, |(_, w)| w)
    }
}

/// What a method answers that has a [`Walk`] in its saved state.
macro_rules! walks {
    ($solver:ty, $name:literal) => {
        impl Method for $solver {
            fn name(&self) -> &'static str {
                $name
            }

            fn iterate(&self, out: &mut [f64]) {
                out.copy_from_slice(&self.s.walk.w);
            }

            fn output(&self, out: &mut [f64]) -> PointOrigin {
                out.copy_from_slice(self.s.walk.output());
                PointOrigin::OutputRule
            }

            fn notes(&self) -> Vec<String> {
                self.s.walk.subproblem.notes()
            }

            fn save(&self) -> Result<State> {
                State::pack(&self.s)
            }

            fn restore(&mut self, state: &State) -> Result<()> {
                self.s = state.unpack()?;
                Ok(())
            }
        }
    };
}
pub(super) use walks;

/// `to` becomes a copy of `from`; its memory is kept.
pub(super) fn copy(to: &mut Vec<f64>, from: &[f64]) {
    to.clear();
    to.extend_from_slice(from);
}

/// Refuses a size of 0.
pub(super) fn at_least_one(name: &str, size: Option<usize>) -> Result<()> {
    if size == Some(0) { Err(Error::setting(name, 0, "at least 1")) } else { Ok(()) }
}
