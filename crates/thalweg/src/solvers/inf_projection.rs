//! Common parts of the solvers for inf-projection problems and sample losses: storage of iterates, output rule, the problem
//! behind the evaluator and its profiled scalar. The steps of each solver are in its own file.

use serde::{Deserialize, Serialize};

use super::Eval;
use super::spg::ProxStep;
use crate::error::check_finite;
use crate::estimate::{Reservoir, RunningMean};
use crate::eval::{FixedScalarProblem, InfProjectionView};
use crate::math::Matrix;
use crate::math::lazy::{Scaled, Stage};
use crate::math::rng::Purpose;
use crate::oracle::{Draw, Replacement};
use crate::sets::Set;
use crate::{Error, Note, Result};

/// Storage of iterates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Iterates {
    /// "lazy" if the rows are sparse enough for it to be faster, otherwise "dense".
    #[default]
    Auto,
    /// Dense vectors: a step costs O(number of variables).
    Dense,
    /// Multiples of a few vectors with sparse corrections: the cost of a step is proportional to the rows that it reads. The
    /// numbers are the same up to rounding.
    Lazy,
}

/// Output rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The last iterate; for a solver with stages, that of the last stage.
    #[default]
    Last,
    /// A random iterate, with the probabilities of the theorem.
    Random,
    /// The mean of the iterates, weighted by these probabilities.
    Average,
}

/// Iterate that is stored densely or lazily.
pub(super) trait Iterate {
    /// Writes it into `out`.
    fn write(&self, out: &mut [f64]);
    /// Returns whether it is stored densely.
    fn is_dense(&self) -> bool;
    /// Writes the weighted mean of a lazy iterate into `out`; returns false for a dense one.
    fn write_lazy_mean(&self, out: &mut [f64]) -> bool;
    /// Adds the iterate to the mean, with a weight.
    fn average(&mut self, mean: &mut RunningMean, weight: f64);
}

/// Iterate of a solver without stages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Point {
    Plain(Vec<f64>),
    Lazy(Scaled),
}

impl Default for Point {
    fn default() -> Self {
        Point::Plain(vec![])
    }
}

impl Point {
    pub(super) fn start(x: &[f64], lazy: bool, mean: bool) -> Self {
        if !lazy {
            return Point::Plain(x.to_vec());
        }
        let mut scaled = Scaled::default();
        scaled.start(x, mean);
        Point::Lazy(scaled)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Point::Plain(x) => x.len(),
            Point::Lazy(x) => x.len(),
        }
    }
}

impl Iterate for Point {
    fn write(&self, out: &mut [f64]) {
        match self {
            Point::Plain(x) => out.copy_from_slice(x),
            Point::Lazy(x) => x.write(out),
        }
    }

    fn is_dense(&self) -> bool {
        matches!(self, Point::Plain(_))
    }

    fn write_lazy_mean(&self, out: &mut [f64]) -> bool {
        if let Point::Lazy(x) = self {
            x.write_mean(out);
        }
        matches!(self, Point::Lazy(_))
    }

    fn average(&mut self, mean: &mut RunningMean, weight: f64) {
        match self {
            Point::Plain(x) => mean.add(x, weight),
            Point::Lazy(x) => x.weigh(weight),
        }
    }
}

/// Vector in its stage, stored densely.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Plain {
    pub(super) centre: Vec<f64>,
    pub(super) z: Vec<f64>,
    mean: RunningMean,
}

impl Plain {
    fn start(&mut self, x: &[f64]) {
        self.centre.clear();
        self.centre.extend_from_slice(x);
        self.begin();
    }

    fn begin(&mut self) {
        let Plain { centre, z, mean } = self;
        z.clear();
        z.extend_from_slice(centre);
        mean.reset(centre.len());
    }

    /// Sets `d` to the next z, before projection.
    pub(super) fn propose(&self, step: ProxStep, d: &mut [f64]) {
        for ((d, z), c) in d.iter_mut().zip(&self.z).zip(&self.centre) {
            *d = step.centre * c + step.last * z - step.slope * *d;
        }
    }

    pub(super) fn take(&mut self, next: &mut Vec<f64>, (before, after): (f64, f64)) {
        self.mean.add(&self.z, before);
        std::mem::swap(&mut self.z, next);
        self.mean.add(&self.z, after);
    }

    fn close(&mut self) {
        if let Some(mean) = self.mean.get() {
            self.centre.copy_from_slice(mean);
        }
        self.begin();
    }
}

/// Iterate of a solver with stages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum StagePoint {
    Plain(Plain),
    Lazy(Stage),
}

impl Default for StagePoint {
    fn default() -> Self {
        StagePoint::Plain(Plain::default())
    }
}

impl StagePoint {
    pub(super) fn start(x: &[f64], lazy: bool, mean: bool) -> Self {
        if lazy {
            let mut stage = Stage::default();
            stage.start(x, mean);
            StagePoint::Lazy(stage)
        } else {
            let mut plain = Plain::default();
            plain.start(x);
            StagePoint::Plain(plain)
        }
    }

    pub(super) fn close(&mut self) {
        match self {
            StagePoint::Plain(plain) => plain.close(),
            StagePoint::Lazy(stage) => stage.close(),
        }
    }
    /// Returns one coordinate of the centre.
    pub(super) fn centre(&self, c: usize) -> f64 {
        match self {
            StagePoint::Plain(plain) => plain.centre[c],
            StagePoint::Lazy(stage) => stage.centre(c),
        }
    }
}

impl Iterate for StagePoint {
    fn write(&self, out: &mut [f64]) {
        match self {
            StagePoint::Plain(plain) => out.copy_from_slice(&plain.centre),
            StagePoint::Lazy(stage) => stage.write_centre(out),
        }
    }

    fn is_dense(&self) -> bool {
        matches!(self, StagePoint::Plain(_))
    }

    fn write_lazy_mean(&self, out: &mut [f64]) -> bool {
        if let StagePoint::Lazy(stage) = self {
            stage.write_mean(out);
        }
        matches!(self, StagePoint::Lazy(_))
    }

    fn average(&mut self, mean: &mut RunningMean, weight: f64) {
        match self {
            StagePoint::Plain(plain) => mean.add(&plain.centre, weight),
            StagePoint::Lazy(stage) => stage.count_centre(weight),
        }
    }
}

/// Summary of the iterates for the output rule.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outputs {
    reservoir: Reservoir,
    /// Mean of dense iterates; lazy ones store their own.
    average: RunningMean,
}

impl Outputs {
    /// Creates an empty summary for iterates of `dim` entries.
    pub(super) fn new(output: Output, dim: usize, lazy: bool) -> Self {
        let mut outputs = Outputs::default();
        outputs.reservoir.reset(if output == Output::Random { dim } else { 0 });
        outputs.average.reset(if output == Output::Average && !lazy { dim } else { 0 });
        outputs
    }

    /// Adds iterate `t`. The random output selects it with probability proportional to `chance`; the average gives it `weight`.
    pub(super) fn offer(&mut self, output: Output, ev: &mut dyn Eval, x: &mut impl Iterate, t: u64, chance: f64, weight: f64) {
        match output {
            Output::Last => {}
            Output::Random => self.reservoir.offer_by(t, chance, ev.rng(Purpose::Output), |out| x.write(out)),
            Output::Average => x.average(&mut self.average, weight),
        }
    }

    /// Writes the output.
    pub(super) fn write(&self, output: Output, x: &impl Iterate, out: &mut [f64]) {
        match (output, self.reservoir.get(), self.average.get()) {
            (Output::Random, Some((_, kept)), _) => out.copy_from_slice(kept),
            (Output::Average, _, Some(mean)) => out.copy_from_slice(mean),
            (Output::Average, _, None) if x.write_lazy_mean(out) => {}
            _ => x.write(out),
        }
    }
}

/// Maximum number of samples used to compute the profiled scalar.
const PROFILE_SAMPLES: usize = 65_536;

/// Problem with its profiled scalar fixed, if it has one. The value itself is part of the checkpoint and passed in.
#[derive(Debug, Default)]
pub(super) struct Profiled {
    held: Option<FixedScalarProblem>,
    x: Vec<f64>,
    draw: Draw,
}

impl Profiled {
    /// Drops the problem, which is rebuilt when it is next needed.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    /// Fixes the scalar at `value`; if `renew`, `value` is first set to its best value at the point that `write` writes.
    pub(super) fn update(
        &mut self,
        ev: &mut dyn Eval,
        method: &str,
        value: &mut Option<f64>,
        renew: bool,
        write: impl FnOnce(&mut [f64]),
    ) -> Result<()> {
        let base = demand(ev, method)?;
        if !renew {
            if let (Some(value), None) = (*value, &self.held) {
                self.held = base.hold(value);
            }
            return Ok(());
        }
        if base.hold(1.0).is_none() {
            return Ok(());
        }
        self.x.resize(ev.dim(), 0.0);
        write(&mut self.x);
        ev.sample(&mut self.draw, PROFILE_SAMPLES, Replacement::Without);
        let mut base = demand(ev, method)?;
        *value = base.profiled_scalar(&self.x, self.draw.stream(0))?;
        self.held = value.and_then(|value| base.hold(value));
        Ok(())
    }

    /// Returns the problem that a step uses.
    pub(super) fn problem<'a>(&'a self, ev: &'a mut (dyn Eval + '_), method: &str) -> Result<InfProjectionView<'a>> {
        Ok(demand(ev, method)?.or_held(self.held.as_ref()))
    }
}

/// Norm beyond which iterates in an unbounded domain count as divergent.
const RUNAWAY: f64 = 1e10;

/// Decides whether lazy iterates are worthwhile: rows are much shorter than x, and projection onto the domain is a scaling.
pub(super) fn choose_lazy(
    asked: Iterates,
    features: Option<&Matrix>,
    dim: usize,
    domain: &dyn Set,
    method: &str,
) -> Result<bool> {
    let refuse = |why: String| Error::setting("iterates", "\"lazy\"", format!("\"dense\" for {method} on this problem: {why}"));
    if asked == Iterates::Dense {
        return Ok(false);
    }
    let Some(features) = features else {
        return if asked == Iterates::Lazy { Err(refuse("it is not made of scores of rows".into())) } else { Ok(false) };
    };
    if domain.ball_around_origin().is_none() {
        let why = format!("its domain ({}) is neither the whole space nor a ball around 0", domain.describe());
        return if asked == Iterates::Lazy { Err(refuse(why)) } else { Ok(false) };
    }
    let per_row = features.stored() as f64 / features.rows().max(1) as f64;
    Ok(asked == Iterates::Lazy || 2.0 * per_row < dim as f64)
}

/// Returns the inf-projection form of the problem, or an error if it has none.
pub(super) fn demand<'a>(ev: &'a mut (dyn Eval + '_), method: &str) -> Result<InfProjectionView<'a>> {
    if ev.num_constraints() > 0 {
        return Err(Error::Problem(format!("{method} takes no constraints, but the problem has {}", ev.num_constraints())));
    }
    ev.inf_projection().ok_or_else(|| {
        Error::Problem(format!(
            "{method} needs a problem of the form min_x g(x) + min_y h(y) - <y, l(x)>, such as \"logistic + 0.1 * variance(logistic)\""
        ))
    })
}

/// Returns an error for divergent iterates.
pub(super) fn check_norm(norm: f64, radius: f64, setting: &str, value: f64, wanted: &str) -> Result<()> {
    check_finite("the norm of the iterate", norm)?;
    if radius.is_infinite() && norm > RUNAWAY {
        return Err(Error::Problem(format!(
            "the iterates run away (norm {norm:.2e}): {setting} = {value} is too {wanted} for a domain without bound; wanted a \
             {} one, or a ball",
            if wanted == "small" { "larger" } else { "smaller" }
        )));
    }
    Ok(())
}

/// Returns the note on steps after which y was at the upper end of its interval.
pub(super) fn clipped_notes(steps: u64) -> Vec<Note> {
    (steps > 0).then_some(Note::IntervalTooShort { steps }).into_iter().collect()
}

/// Implements the items of [`Method`](super::Method) that are common to solvers with an [`Iterate`] in their saved state.
macro_rules! iterate_items {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn iterate(&self, out: &mut [f64]) {
            self.s.x.write(out);
        }

        fn writes_cheaply(&self) -> bool {
            self.s.x.is_dense()
        }

        fn save(&self) -> Result<State> {
            State::pack(&self.s)
        }
    };
}
pub(super) use iterate_items;

/// Implements [`Method`](super::Method) for a solver of inf-projection problems.
macro_rules! inf_projection_method {
    ($solver:ty, $name:literal) => {
        impl Method for $solver {
            $crate::solvers::inf_projection::iterate_items!($name);

            fn version(&self) -> u32 {
                3
            }

            fn output(&self, out: &mut [f64]) -> PointOrigin {
                self.s.outputs.write(self.settings.output, &self.s.x, out);
                PointOrigin::OutputRule
            }

            fn notes(&self) -> Vec<crate::Note> {
                $crate::solvers::inf_projection::clipped_notes(self.s.clipped)
            }

            fn restore(&mut self, state: &State) -> Result<()> {
                self.s = state.unpack()?;
                self.work.profiled.forget();
                Ok(())
            }
        }
    };
}
pub(super) use inf_projection_method;
