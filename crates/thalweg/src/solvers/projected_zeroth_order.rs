//! Common parts of the zeroth-order solvers that project onto the constraints: a gradient estimate from values, and a subproblem
//! on the feasible set, which may take several steps. The update rules are in the files of the solvers.

use serde::{Deserialize, Serialize};

pub use super::output::Output;
use super::{SolverName, Step, StepKind, ValueEval};
use crate::estimate::{Law, Reservoir, TwoPoint};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Replacement};
use crate::{Error, Note, Result};

/// Settings common to these solvers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) mu: f64,
    pub(super) directions: usize,
    pub(super) law: Law,
    pub(super) antithetic: bool,
    pub(super) sweeps: usize,
    pub(super) tolerance: f64,
}

impl Common {
    /// Checks every value.
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

/// Samples and directions, and the gradient estimates from them at any point.
#[derive(Debug, Clone, Default)]
pub(super) struct Gradient {
    estimator: TwoPoint,
    samples: Draw,
    values: Vec<f64>,
}

impl Gradient {
    pub(super) fn start(&mut self, dim: usize, common: Common) -> Result<()> {
        let Common { directions, mu, law, antithetic, .. } = common;
        self.estimator.start(dim, directions, mu, law, antithetic)?;
        self.values.clear();
        self.values.resize(self.estimator.count() + 1, 0.0);
        Ok(())
    }

    /// Draws `batch` samples, or all if there are fewer, and new directions.
    pub(super) fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E, batch: usize) {
        ev.sample(&mut self.samples, batch, Replacement::Without);
        self.estimator.draw(ev.rng(Purpose::Directions));
    }

    /// Sets `out` to the estimate at `w` from the last draw.
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

/// Subproblem that may be unfinished after a step. Its numbers are in the run's warm-start values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Subproblem {
    open: bool,
    /// Number of steps spent on the unfinished subproblem, and its constraint violation after the last of them.
    steps: u64,
    violation: f64,
}

impl Subproblem {
    /// Returns whether a subproblem is unfinished.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Projects `target` onto the constraints, linearised at `at`, into `x`. Returns whether the projection is complete; if not,
    /// the next call continues it, whatever the target.
    pub(super) fn nearest<E: ValueEval + ?Sized>(
        &mut self,
        ev: &mut E,
        common: Common,
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
        self.go_on(ev, common, x)
    }

    /// Minimises `<slope, x>` over the constraints, linearised at `at`, into `x`; returns as [`Subproblem::nearest`] does. `aim`
    /// is a buffer.
    pub(super) fn lowest<E: ValueEval + ?Sized>(
        &mut self,
        ev: &mut E,
        common: Common,
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
        let done = self.go_on(ev, common, x)?;
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

    fn go_on<E: ValueEval + ?Sized>(&mut self, ev: &mut E, common: Common, x: &mut [f64]) -> Result<bool> {
        let swept = ev.region_sweep(x, common.sweeps, common.tolerance)?;
        self.open = !swept.done;
        self.steps += 1;
        self.violation = swept.violation;
        Ok(swept.done)
    }

    /// Returns a note on an unfinished projection.
    pub(super) fn notes(&self) -> Vec<Note> {
        let unfinished = Note::ProjectionUnfinished { steps: self.steps, violation: self.violation };
        self.open.then_some(unfinished).into_iter().collect()
    }
}

/// Returns an error if the solver `name` cannot project onto the constraints of the problem.
pub(super) fn can_project<E: ValueEval + ?Sized>(name: &str, ev: &E) -> Result<()> {
    if ev.num_constraints() > 0 && ev.region().is_none() {
        return Err(Error::Problem(format!(
            "{name} projects onto the constraints, but this problem has no projection; use a problem with a region, or {}, which \
             needs only values",
            SolverName::Dszog
        )));
    }
    Ok(())
}

/// Returns an error if the solver `name` cannot minimise linear functions over the constraints of the problem.
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

/// Iteration state of a solver, which every checkpoint stores.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Walk {
    /// Iteration.
    pub(super) t: u64,
    /// Iterate.
    pub(super) w: Vec<f64>,
    /// Subproblem of the current iteration.
    pub(super) subproblem: Subproblem,
    reservoir: Reservoir,
}

impl Walk {
    /// Starts at `x` with iteration `t`.
    pub(super) fn start(&mut self, t: u64, x: &[f64]) {
        self.t = t;
        copy(&mut self.w, x);
        self.subproblem = Subproblem::default();
        self.reservoir.reset(x.len());
    }

    /// Moves to the next iterate, if it is finite; `next` then holds the previous one.
    pub(super) fn advance<E: ValueEval + ?Sized>(&mut self, next: &mut Vec<f64>, output: Output, ev: &mut E) -> Result<Step> {
        super::check_iterate(next)?;
        if output == Output::Random {
            self.reservoir.offer(&self.w, self.t, 1.0, ev.rng(Purpose::Output));
        }
        std::mem::swap(&mut self.w, next);
        self.t += 1;
        Ok(Step { kind: StepKind::Objective, finished: false })
    }

    /// Returns the step of an iteration whose subproblem is unfinished.
    pub(super) fn wait() -> Step {
        Step { kind: StepKind::Constraint, finished: false }
    }

    /// Returns the output of the solver: the drawn iterate if there is one, otherwise the last.
    pub(super) fn output(&self) -> &[f64] {
        self.reservoir.get().map_or(&self.w, |(_, w)| w)
    }
}

/// Defines the `Settings` of a solver with their defaults: its own, and those of every solver of this family. `batch` is named by
/// solvers with one size of mini-batches.
macro_rules! settings {
    ($solver:literal, law: $law:ident $(, $batch:ident)?; $($(#[$doc:meta])* $own:ident: $type:ty = $default:expr,)*) => {
        #[doc = concat!("Settings of [`", $solver, "`].")]
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[$doc])* pub $own: $type,)*
            /// Smoothing radius. Default 1e-3.
            pub mu: f64,
            /// Number of directions of each estimate (Q). Default 10.
            pub directions: usize,
            #[doc = concat!(
                "Distribution of directions: \"gaussian\", \"sphere\" or \"coordinate\". Default [`Law::",
                stringify!($law),
                "`](crate::estimate::Law::",
                stringify!($law),
                ")."
            )]
            pub law: crate::estimate::Law,
            /// Whether each direction is followed by its opposite. Default false.
            pub antithetic: bool,
            $(
                /// Samples of the objective in each estimate, or all if there are fewer. Default 128.
                pub $batch: usize,
            )?
            /// Sweeps over the constraints per step; a subproblem that needs more takes several steps. Default 50.
            pub sweeps: usize,
            /// Tolerance on the constraint violation of a projection. Default 1e-8.
            pub tolerance: f64,
            /// "last" (default) or "random".
            pub output: Output,
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings {
                    $($own: $default,)*
                    mu: 1e-3,
                    directions: 10,
                    law: crate::estimate::Law::$law,
                    antithetic: false,
                    $($batch: 128,)?
                    sweeps: 50,
                    tolerance: 1e-8,
                    output: Output::Last,
                }
            }
        }

        impl Settings {
            fn common(&self) -> $crate::solvers::projected_zeroth_order::Common {
                let &Settings { mu, directions, law, antithetic, sweeps, tolerance, .. } = self;
                $crate::solvers::projected_zeroth_order::Common { mu, directions, law, antithetic, sweeps, tolerance }
            }
        }
    };
}
pub(super) use settings;

/// Implements what is common to solvers with a [`Walk`] in their saved state.
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

            fn notes(&self) -> Vec<crate::Note> {
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

/// Copies `from` into `to`, reusing its memory.
pub(super) fn copy(to: &mut Vec<f64>, from: &[f64]) {
    to.clear();
    to.extend_from_slice(from);
}

/// Returns an error for a size of 0.
pub(super) fn at_least_one(name: &str, size: Option<usize>) -> Result<()> {
    if size == Some(0) { Err(Error::setting(name, 0, "at least 1")) } else { Ok(()) }
}
