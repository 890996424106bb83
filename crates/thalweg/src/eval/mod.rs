//! Evaluators, the layer between a solver and a problem: they count evaluations, check that numbers are finite, and own the
//! sampler and the random generators. Solvers use [`ValueEval`] or [`Eval`] and never the problem itself, so every evaluation is
//! counted. The functions of a problem are in [`crate::oracle`].

mod counts;
mod measure;
mod proximal;
mod smooth;
mod views;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::check_finite;
use crate::math::rng::Purpose;
use crate::math::{Rng, vec};
use crate::oracle::{
    At, Draw, KnownUnits, Modulus, Pick, Region, Replacement, Scales, Scratch, Subgradients, Values, WeightFunction,
};
use crate::sets::polyhedron::SweepResult;
use crate::sets::{Set, Warm};
use crate::{Error, Result};
pub use counts::{Counts, Passes, Tally};
pub use measure::{ConstraintValue, MAX_LISTED_CONSTRAINTS, Point, constraint_units, length_at, measure};
pub(crate) use measure::{Measure, measure_in_units, reach, width};
pub use proximal::Proximal;
pub use smooth::SmoothView;
pub(crate) use views::{AHEAD, LossRowReading, RowSample};
pub use views::{BilevelView, FixedScalarProblem, InfProjectionReading, InfProjectionView, LossReading, SampleLossesView};

/// Operations available to a zeroth-order solver. The trait has no gradients, so the compiler rules out their use.
pub trait ValueEval {
    /// Returns the number of variables.
    fn dim(&self) -> usize;
    /// Returns the number of constraints.
    fn num_constraints(&self) -> usize;
    /// Returns the name of constraint `j`.
    fn constraint_name(&self, j: usize) -> Cow<'_, str>;
    /// Returns the number of statistics, see [`Composite::num_statistics`](crate::oracle::Composite::num_statistics).
    fn num_statistics(&self) -> usize;
    /// Returns the population sizes of the sample streams; empty for a deterministic problem.
    fn streams(&self) -> &[usize];
    /// Returns whether constraint values `g` count as feasible in this run.
    fn feasible(&self, g: &[f64]) -> bool;
    /// Returns the feasibility tolerance, before scaling.
    fn feasibility(&self) -> f64;
    /// Returns the feasibility tolerance of constraint `j`, for a problem in natural units.
    fn tolerance(&self, j: usize) -> f64;
    /// Returns whether absolute tolerances make sense, see
    /// [`Description::in_natural_units`](crate::oracle::Description::in_natural_units).
    fn in_natural_units(&self) -> bool;
    /// Returns the weak-convexity constant of the objective, see
    /// [`Description::objective_modulus`](crate::oracle::Description::objective_modulus).
    fn objective_modulus(&self) -> Option<Modulus>;
    /// Returns the weak-convexity constant of constraint `j`.
    fn constraint_modulus(&self, j: usize) -> Option<Modulus>;
    /// Returns the random generator for a purpose. Its position is part of the checkpoint.
    fn rng(&mut self, purpose: Purpose) -> &mut Rng;
    /// Draws `size` samples of each stream.
    fn sample(&mut self, draw: &mut Draw, size: usize, replacement: Replacement);
    /// Returns the domain.
    fn domain(&self) -> &dyn Set;
    /// Returns the typical curvature of the variables, see [`Structure::scales`](crate::oracle::Structure::scales).
    fn scales(&self) -> Option<&Scales>;
    /// Returns the units of a problem in natural units if some are far from 1, see
    /// [`Structure::units`](crate::oracle::Structure::units).
    fn units(&self) -> Option<&KnownUnits> {
        None
    }
    /// Projects `x` onto the domain.
    fn project(&mut self, x: &mut [f64]) -> Result<()>;
    /// Finds a point of the domain that minimises `<slope, y>`. Counts as a projection.
    fn minimize_linear(&mut self, slope: &[f64], out: &mut [f64]) -> Result<()>;
    /// Returns the set that the constraints and the domain describe, see [`Structure::region`](crate::oracle::Structure::region).
    /// Projections go through [`ValueEval::region_begin`] and [`ValueEval::region_sweep`].
    fn region(&self) -> Option<&dyn Region>;
    /// Returns the problem in inf-projection form, see [`Structure::inf_projection`](crate::oracle::Structure::inf_projection).
    /// The view counts the samples that it reads.
    fn inf_projection(&mut self) -> Option<InfProjectionView<'_>> {
        None
    }
    /// Returns the sample losses, see [`Structure::sample_losses`](crate::oracle::Structure::sample_losses). The view counts the
    /// samples that it reads.
    fn sample_losses(&mut self) -> Option<SampleLossesView<'_>> {
        None
    }
    /// Returns the bilevel problem behind this one, see [`Structure::bilevel`](crate::oracle::Structure::bilevel). The view counts
    /// gradients.
    fn bilevel(&mut self) -> Option<BilevelView<'_>> {
        None
    }
    /// Starts projecting `target` onto the region linearised at `at`.
    fn region_begin(&mut self, at: &[f64], target: &[f64]) -> Result<()>;
    /// Continues the projection. Visits to rows count as inner iterations; on completion, one projection and one value of every
    /// constraint are counted.
    fn region_sweep(&mut self, x: &mut [f64], sweeps: usize, tolerance: f64) -> Result<SweepResult>;
    /// Updates inner problems at `x`. Call it once per new point, before computing values and subgradients there.
    fn refresh(&mut self, x: &[f64]) -> Result<()>;
    /// Returns f(x).
    fn objective(&mut self, x: &[f64], draw: &Draw) -> Result<f64>;
    /// Computes the values of the picked constraints.
    fn constraint_values(&mut self, x: &[f64], draw: &Draw, which: Pick, g: &mut [f64]) -> Result<()>;
    /// Computes f at several points (rows of `points`).
    fn objective_many(&mut self, points: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()>;
    /// Computes the picked constraints at several points, one row each.
    fn constraint_values_many(&mut self, points: &[f64], draw: &Draw, which: Pick, out: &mut [f64]) -> Result<()>;
    /// Computes as [`ValueEval::constraint_values_many`] does, for `drawn` constraints drawn with replacement and each listed
    /// once in `which`. Repeated draws are counted but not recomputed.
    fn drawn_constraint_values(
        &mut self,
        points: &[f64],
        draw: &Draw,
        which: &[u32],
        drawn: usize,
        out: &mut [f64],
    ) -> Result<()>;
    /// Computes the statistics that the constraints are functions of.
    fn statistic_values(&mut self, x: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()>;
    /// Computes the statistics of the same samples at two points, whose difference updates a recursive estimator.
    fn statistic_pair(&mut self, x: &[f64], before: &[f64], draw: &Draw, now: &mut [f64], then: &mut [f64]) -> Result<()>;
    /// Computes constraint values from (estimated) statistics at `x`. Nothing is counted.
    fn constraints_from(&self, x: &[f64], statistics: &[f64], g: &mut [f64]) -> Result<()>;
}

/// Operations available to a first-order solver.
pub trait Eval: ValueEval {
    /// Computes a subgradient of f and returns f(x), which is not counted as a separate value.
    fn objective_grad(&mut self, x: &[f64], draw: &Draw, grad: &mut [f64]) -> Result<f64>;
    /// Computes up to `values.len()` cuts of f, with subgradients in the rows of `rows`; the first is that of
    /// [`Eval::objective_grad`] ([`Subgradients::objective_cuts`]). Returns the number of cuts. Each counts as one subgradient.
    fn objective_cuts(&mut self, x: &[f64], draw: &Draw, values: &mut [f64], rows: &mut [f64]) -> Result<usize>;
    /// Computes constraint values, then the weighted sum of subgradients for the weights that `weigh` chooses
    /// ([`Subgradients::constraint_vjp`]).
    fn constraint_vjp(&mut self, x: &[f64], draw: &Draw, g: &mut [f64], weigh: WeightFunction, grad: &mut [f64]) -> Result<()>;
    /// Sets `grad` to a subgradient of f plus that weighted sum, and returns f ([`Subgradients::lagrangian`]). `work` is as long
    /// as x. Counts as both evaluations together.
    fn lagrangian(
        &mut self,
        x: &[f64],
        draw: &Draw,
        g: &mut [f64],
        weigh: WeightFunction,
        grad: &mut [f64],
        work: &mut [f64],
    ) -> Result<f64>;
    /// Returns the smooth form of the problem, see [`Structure::smooth`](crate::oracle::Structure::smooth). The view counts what
    /// it computes.
    fn smooth(&mut self) -> Option<SmoothView<'_>> {
        None
    }
    /// Computes values and subgradients of the picked constraints, one row each.
    fn constraint_rows(&mut self, x: &[f64], draw: &Draw, which: &[u32], g: &mut [f64], rows: &mut [f64]) -> Result<()>;
    /// Computes the weighted sum of subgradients with the outer function differentiated at given statistics.
    fn statistic_vjp(&mut self, x: &[f64], draw: &Draw, statistics: &[f64], weights: &[f64], grad: &mut [f64]) -> Result<()>;
}

/// State of an [`Evaluator`] that is stored in a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Memory {
    counts: Counts,
    generators: [Rng; 3],
    warm: Warm,
    domain_warm: Warm,
    region_warm: Warm,
}

/// Builds an `At` without borrowing the whole evaluator.
macro_rules! at {
    ($self:ident, $x:expr, $draw:expr) => {
        At { x: $x, draw: $draw, warm: &$self.memory.warm }
    };
}

/// Counted and checked view of a problem during a run.
pub struct Evaluator<'p, P: ?Sized> {
    problem: &'p P,
    scratch: Scratch,
    memory: Memory,
    /// Samples in one full evaluation of the objective and of each constraint.
    full_objective: u64,
    full_constraint: Vec<u64>,
    /// Samples in one full evaluation of all constraints together.
    full_constraints: u64,
    feasibility: f64,
}

impl<'p, P: Values + ?Sized> Evaluator<'p, P> {
    /// Creates an evaluator of `problem` with zero counts.
    pub fn new(problem: &'p P, seed: u64, feasibility: f64) -> Self {
        let streams = problem.streams();
        let samples = |uses: &dyn Fn(usize) -> bool| -> u64 {
            // A function that depends on no samples counts as one.
            (0..streams.len()).filter(|&k| uses(k)).map(|k| streams[k] as u64).sum::<u64>().max(1)
        };
        let full_constraint: Vec<u64> =
            (0..problem.num_constraints()).map(|j| samples(&|k| problem.constraint_uses(j, k))).collect();
        Evaluator {
            scratch: problem.scratch(),
            memory: Memory {
                counts: Counts::default(),
                generators: [Purpose::Sampling, Purpose::Output, Purpose::Directions].map(|p| Rng::new(seed, p)),
                warm: Warm::default(),
                domain_warm: Warm::default(),
                region_warm: Warm::default(),
            },
            full_objective: samples(&|k| problem.objective_uses(k)),
            full_constraints: full_constraint.iter().sum(),
            full_constraint,
            feasibility,
            problem,
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.memory.counts
    }

    /// Returns the work so far, in passes over the data.
    pub fn passes(&self) -> Passes {
        self.memory.counts.passes(self.full_objective, self.full_constraints)
    }

    /// Returns the underlying problem.
    pub fn problem(&self) -> &'p P {
        self.problem
    }

    /// Returns the current warm-start values of the problem.
    pub(crate) fn warm(&self) -> &Warm {
        &self.memory.warm
    }

    /// Clears the warm-start values, as if no point had been visited.
    pub(crate) fn forget(&mut self) {
        self.memory.warm = Warm::default();
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Returns the number of samples of `draw` that a function of some of the streams reads.
    fn drawn(&self, draw: &Draw, full: u64, uses: impl Fn(usize) -> bool) -> u64 {
        let streams = self.problem.streams();
        if streams.is_empty() {
            return full;
        }
        let drawn: u64 = (0..streams.len()).filter(|&k| uses(k)).map(|k| draw.stream(k).count(streams[k]) as u64).sum();
        drawn.max(1)
    }

    fn drawn_objective(&self, draw: &Draw) -> u64 {
        self.drawn(draw, self.full_objective, |k| self.problem.objective_uses(k))
    }

    fn drawn_constraint(&self, draw: &Draw, j: usize) -> u64 {
        self.drawn(draw, self.full_constraint[j], |k| self.problem.constraint_uses(j, k))
    }

    fn drawn_constraints(&self, draw: &Draw, which: Pick) -> u64 {
        match which {
            Pick::All => (0..self.full_constraint.len()).map(|j| self.drawn_constraint(draw, j)).sum(),
            Pick::These(ids) => ids.iter().map(|&j| self.drawn_constraint(draw, j as usize)).sum(),
        }
    }

    /// Returns the number of samples of `draw` that the constraints with nonzero weights read.
    fn drawn_weighed(&self, draw: &Draw, weights: &[f64]) -> u64 {
        let weighed = weights.iter().enumerate().filter(|(_, w)| **w != 0.0);
        weighed.map(|(j, _)| self.drawn_constraint(draw, j)).sum()
    }

    /// Adds the problem-specific counts.
    fn count_extra(&mut self) -> Result<()> {
        self.problem.extra_counts(&mut self.scratch, &mut self.memory.counts.more)
    }

    /// Counts and checks a call of the problem that computes constraint values `g` and the vector-Jacobian product for the
    /// weights that `weigh` chooses. Returns the result of `call`, and whether some weight is nonzero.
    fn weigh_and_pull<T>(
        &mut self,
        x: &[f64],
        draw: &Draw,
        g: &mut [f64],
        weigh: WeightFunction,
        call: impl FnOnce(At, &mut [f64], WeightFunction, &mut Scratch) -> Result<T>,
    ) -> Result<(T, bool)> {
        let samples = self.drawn_constraints(draw, Pick::All);
        self.memory.counts.constraint_values.add(1, samples);
        let mut pulled = 0;
        let mut scratch = std::mem::replace(&mut self.scratch, Scratch::none());
        let mut counted = |g: &[f64], w: &mut [f64]| {
            weigh(g, w);
            pulled = self.drawn_weighed(draw, w);
        };
        let result = call(at!(self, x, draw), g, &mut counted, &mut scratch);
        self.scratch = scratch;
        let answer = result?;
        self.check_constraints(Pick::All, g)?;
        self.count_extra()?;
        if pulled > 0 {
            self.memory.counts.constraint_subgradients.add(1, pulled);
        }
        Ok((answer, pulled > 0))
    }

    fn check_constraints(&self, which: Pick, g: &[f64]) -> Result<()> {
        match vec::first_not_finite(g) {
            None => Ok(()),
            Some((k, value)) => {
                let j = match which {
                    Pick::All => k,
                    Pick::These(ids) => ids[k % ids.len().max(1)] as usize,
                };
                Err(Error::NotFinite { what: format!("constraint '{}'", self.problem.constraint_name(j)), value })
            }
        }
    }
}

fn no_region() -> Error {
    Error::Problem("this problem does not say how to project onto its constraints".into())
}

fn check_gradient(what: &str, grad: &[f64]) -> Result<()> {
    match vec::first_not_finite(grad) {
        None => Ok(()),
        Some((i, value)) => Err(Error::NotFinite { what: format!("entry {} of the subgradient of {what}", i + 1), value }),
    }
}

impl<P: Values + ?Sized> ValueEval for Evaluator<'_, P> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }

    fn num_constraints(&self) -> usize {
        self.full_constraint.len()
    }

    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        self.problem.constraint_name(j)
    }

    fn num_statistics(&self) -> usize {
        self.problem.structure().composite().map_or(self.num_constraints(), |c| c.num_statistics())
    }

    fn streams(&self) -> &[usize] {
        self.problem.streams()
    }

    fn feasible(&self, g: &[f64]) -> bool {
        g.iter().enumerate().all(|(j, &g)| g <= self.tolerance(j))
    }

    fn tolerance(&self, j: usize) -> f64 {
        self.feasibility * self.problem.constraint_scale(j)
    }

    fn feasibility(&self) -> f64 {
        self.feasibility
    }

    fn in_natural_units(&self) -> bool {
        self.problem.in_natural_units()
    }

    fn objective_modulus(&self) -> Option<Modulus> {
        self.problem.objective_modulus()
    }

    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.problem.constraint_modulus(j)
    }

    fn rng(&mut self, purpose: Purpose) -> &mut Rng {
        let [sampling, output, directions] = &mut self.memory.generators;
        match purpose {
            Purpose::Output => output,
            Purpose::Directions => directions,
            _ => sampling,
        }
    }

    fn sample(&mut self, draw: &mut Draw, size: usize, replacement: Replacement) {
        draw.sample(self.problem.streams(), size, replacement, &mut self.memory.generators[0]);
    }

    fn domain(&self) -> &dyn Set {
        self.problem.domain()
    }

    fn scales(&self) -> Option<&Scales> {
        self.problem.structure().scales()
    }

    fn units(&self) -> Option<&KnownUnits> {
        self.problem.structure().units()
    }

    fn project(&mut self, x: &mut [f64]) -> Result<()> {
        self.memory.counts.projections += 1;
        self.problem.domain().project(x, &mut self.memory.domain_warm)
    }

    fn minimize_linear(&mut self, slope: &[f64], out: &mut [f64]) -> Result<()> {
        self.memory.counts.projections += 1;
        let domain = self.problem.domain();
        domain.linear_minimizer(slope, out).ok_or_else(|| {
            Error::Problem(format!("a linear function has no known minimiser on the domain ({})", domain.describe()))
        })
    }

    fn region(&self) -> Option<&dyn Region> {
        self.problem.structure().region()
    }

    fn inf_projection(&mut self) -> Option<InfProjectionView<'_>> {
        let problem = self.problem.structure().inf_projection()?;
        Some(InfProjectionView::new(problem, &mut self.memory.counts))
    }

    fn sample_losses(&mut self) -> Option<SampleLossesView<'_>> {
        let losses = self.problem.structure().sample_losses()?;
        Some(SampleLossesView::new(losses, &mut self.memory.counts))
    }

    fn bilevel(&mut self) -> Option<BilevelView<'_>> {
        let problem = self.problem.structure().bilevel()?;
        Some(BilevelView::new(problem, &mut self.memory.counts))
    }

    fn region_begin(&mut self, at: &[f64], target: &[f64]) -> Result<()> {
        let region = self.problem.structure().region().ok_or_else(no_region)?;
        self.memory.counts.inner += region.begin(at, target, &mut self.memory.region_warm)?;
        Ok(())
    }

    fn region_sweep(&mut self, x: &mut [f64], sweeps: usize, tolerance: f64) -> Result<SweepResult> {
        let region = self.problem.structure().region().ok_or_else(no_region)?;
        let swept = region.sweep(x, sweeps, tolerance, &mut self.memory.region_warm)?;
        self.memory.counts.inner += swept.rows;
        if swept.done {
            self.memory.counts.projections += 1;
            self.memory.counts.constraint_values.add(1, self.full_constraints);
        }
        Ok(swept)
    }

    fn refresh(&mut self, x: &[f64]) -> Result<()> {
        self.memory.counts.inner += self.problem.refresh(x, &mut self.memory.warm, &mut self.scratch)?;
        self.count_extra()
    }

    fn objective(&mut self, x: &[f64], draw: &Draw) -> Result<f64> {
        let samples = self.drawn_objective(draw);
        self.memory.counts.objective_values.add(1, samples);
        let f = self.problem.objective(at!(self, x, draw), &mut self.scratch)?;
        check_finite("the objective", f)?;
        Ok(f)
    }

    fn constraint_values(&mut self, x: &[f64], draw: &Draw, which: Pick, g: &mut [f64]) -> Result<()> {
        let samples = self.drawn_constraints(draw, which);
        self.memory.counts.constraint_values.add(1, samples);
        self.problem.constraint_values(at!(self, x, draw), which, g, &mut self.scratch)?;
        self.check_constraints(which, g)
    }

    fn objective_many(&mut self, points: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()> {
        let samples = self.drawn_objective(draw);
        self.memory.counts.objective_values.add(out.len() as u64, samples * out.len() as u64);
        self.problem.objective_many(points, draw, &self.memory.warm, out, &mut self.scratch)?;
        out.iter().try_for_each(|&f| check_finite("the objective", f))
    }

    fn constraint_values_many(&mut self, points: &[f64], draw: &Draw, which: Pick, out: &mut [f64]) -> Result<()> {
        let count = (points.len() / self.dim().max(1)) as u64;
        let samples = self.drawn_constraints(draw, which);
        self.memory.counts.constraint_values.add(count, samples * count);
        self.problem.constraint_values_many(points, draw, &self.memory.warm, which, out, &mut self.scratch)?;
        let width = which.count(self.num_constraints()).max(1);
        out.chunks(width).try_for_each(|g| self.check_constraints(which, g))
    }

    fn drawn_constraint_values(
        &mut self,
        points: &[f64],
        draw: &Draw,
        which: &[u32],
        drawn: usize,
        out: &mut [f64],
    ) -> Result<()> {
        self.constraint_values_many(points, draw, Pick::These(which), out)?;
        let repeated = points.len() / self.dim().max(1) * (drawn - which.len());
        self.memory.counts.constraint_values.samples += repeated as u64;
        Ok(())
    }

    fn statistic_values(&mut self, x: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()> {
        let samples = self.drawn_constraints(draw, Pick::All);
        self.memory.counts.constraint_values.add(1, samples);
        match self.problem.structure().composite() {
            Some(composite) => composite.statistic_values(at!(self, x, draw), out, &mut self.scratch)?,
            None => self.problem.constraint_values(at!(self, x, draw), Pick::All, out, &mut self.scratch)?,
        }
        match vec::first_not_finite(out) {
            None => Ok(()),
            Some((k, value)) => Err(Error::NotFinite { what: format!("statistic {} of the constraints", k + 1), value }),
        }
    }

    fn statistic_pair(&mut self, x: &[f64], before: &[f64], draw: &Draw, now: &mut [f64], then: &mut [f64]) -> Result<()> {
        self.statistic_values(x, draw, now)?;
        self.memory.counts.paired += self.drawn_constraints(draw, Pick::All);
        self.statistic_values(before, draw, then)
    }

    fn constraints_from(&self, _x: &[f64], statistics: &[f64], g: &mut [f64]) -> Result<()> {
        match self.problem.structure().composite() {
            Some(composite) => composite.constraints_from(statistics, g),
            None => {
                g.copy_from_slice(statistics);
                Ok(())
            }
        }
    }
}

impl<P: Subgradients + ?Sized> Eval for Evaluator<'_, P> {
    fn objective_grad(&mut self, x: &[f64], draw: &Draw, grad: &mut [f64]) -> Result<f64> {
        let samples = self.drawn_objective(draw);
        self.memory.counts.objective_subgradients.add(1, samples);
        let f = self.problem.objective_grad(at!(self, x, draw), grad, &mut self.scratch)?;
        check_finite("the objective", f)?;
        check_gradient("the objective", grad)?;
        Ok(f)
    }

    fn objective_cuts(&mut self, x: &[f64], draw: &Draw, values: &mut [f64], rows: &mut [f64]) -> Result<usize> {
        let samples = self.drawn_objective(draw);
        let count = self.problem.objective_cuts(at!(self, x, draw), values, rows, &mut self.scratch)?;
        if !(1..=values.len()).contains(&count) {
            let room = values.len();
            return Err(Error::Oracle(format!("{count} cuts of the objective were given where there must be 1 to {room}")));
        }
        self.memory.counts.objective_subgradients.add(count as u64, samples * count as u64);
        let dim = self.problem.dim().max(1);
        values[..count].iter().try_for_each(|&f| check_finite("the objective", f))?;
        rows.chunks(dim).take(count).try_for_each(|row| check_gradient("the objective", row))?;
        Ok(count)
    }

    fn constraint_vjp(&mut self, x: &[f64], draw: &Draw, g: &mut [f64], weigh: WeightFunction, grad: &mut [f64]) -> Result<()> {
        let problem = self.problem;
        let ((), pulled) =
            self.weigh_and_pull(x, draw, g, weigh, |at, g, weigh, scratch| problem.constraint_vjp(at, g, weigh, grad, scratch))?;
        if pulled { check_gradient("the constraints", grad) } else { Ok(()) }
    }

    fn lagrangian(
        &mut self,
        x: &[f64],
        draw: &Draw,
        g: &mut [f64],
        weigh: WeightFunction,
        grad: &mut [f64],
        work: &mut [f64],
    ) -> Result<f64> {
        let problem = self.problem;
        let samples = self.drawn_objective(draw);
        self.memory.counts.objective_subgradients.add(1, samples);
        let (f, _) = self.weigh_and_pull(x, draw, g, weigh, |at, g, weigh, scratch| {
            let f = problem.lagrangian(at, g, weigh, grad, work, scratch)?;
            check_finite("the objective", f)?;
            Ok(f)
        })?;
        check_gradient("the objective and the constraints", grad)?;
        Ok(f)
    }

    fn smooth(&mut self) -> Option<SmoothView<'_>> {
        let form = self.problem.structure().smooth()?;
        Some(SmoothView {
            form,
            scratch: &mut self.scratch,
            counts: &mut self.memory.counts,
            warm: &self.memory.warm,
            samples: [self.full_objective, self.full_constraints],
        })
    }

    fn constraint_rows(&mut self, x: &[f64], draw: &Draw, which: &[u32], g: &mut [f64], rows: &mut [f64]) -> Result<()> {
        let samples = self.drawn_constraints(draw, Pick::These(which));
        self.memory.counts.constraint_values.add(1, samples);
        self.memory.counts.constraint_subgradients.add(which.len() as u64, samples);
        self.problem.constraint_rows(at!(self, x, draw), which, g, rows, &mut self.scratch)?;
        self.count_extra()?;
        self.check_constraints(Pick::These(which), g)?;
        match vec::first_not_finite(rows) {
            None => Ok(()),
            Some((i, _)) => {
                let dim = self.problem.dim();
                let name = self.problem.constraint_name(which[i / dim] as usize);
                check_gradient(&format!("constraint '{name}'"), &rows[i / dim * dim..][..dim])
            }
        }
    }

    fn statistic_vjp(&mut self, x: &[f64], draw: &Draw, statistics: &[f64], weights: &[f64], grad: &mut [f64]) -> Result<()> {
        let samples = self.drawn_weighed(draw, weights);
        self.memory.counts.constraint_subgradients.add(1, samples);
        match self.problem.structure().composite() {
            Some(composite) => composite.statistic_vjp(at!(self, x, draw), statistics, weights, grad, &mut self.scratch)?,
            None => {
                let mut g = vec![0.0; self.full_constraint.len()];
                grad.fill(0.0);
                let mut weigh = |_: &[f64], w: &mut [f64]| w.copy_from_slice(weights);
                self.problem.constraint_vjp(at!(self, x, draw), &mut g, &mut weigh, grad, &mut self.scratch)?;
            }
        }
        check_gradient("the constraints", grad)
    }
}
