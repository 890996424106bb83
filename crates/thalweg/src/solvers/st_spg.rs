//! St-SPG: stages of the stochastic proximal subgradient method for inf-projection problems, in x and in y by turns. The rule of
//! its steps is in `spg`, vectors that cost only the rows they meet are in `math/lazy`.

use serde::{Deserialize, Serialize};

use super::spg::{ProxStep, Rule, check_positive};
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::error::check_finite;
use crate::estimate::{AHEAD, Order, Reservoir, RunningMean, Walk};
use crate::math::lazy::{DataRow, Stage, Unit};
use crate::math::rng::Purpose;
use crate::math::{Matrix, vec};
use crate::oracle::{Case, Draw, InfProjection, InfProjectionRows, Pick, Replacement};
use crate::sets::Set;
use crate::{Error, Note, Result};

/// How iterates are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Iterates {
    /// "lazy" where rows are sparse enough for that to be faster, else "dense".
    #[default]
    Auto,
    /// Written out: a step costs as much as there are variables.
    Dense,
    /// As multiples of few vectors with sparse corrections: a step costs as much as the rows that it reads. The same numbers up to
    /// rounding.
    Lazy,
}

/// Which point is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// That of the last stage.
    #[default]
    Last,
    /// That of a random stage, with the probabilities of the theorem.
    Random,
    /// The mean over all stages, weighted by these probabilities.
    Average,
}

/// Which samples a step in x reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// Some for g, and others for l.
    #[default]
    Independent,
    /// The same for both: what a sample adds to g and takes from l then cancels in part.
    Shared,
}

/// Settings of [`StSpg`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Proximal coefficient gamma of the stages in x. Default 1.
    pub gamma: f64,
    /// Proximal coefficient mu of the stages in y. Default 1.
    pub mu: f64,
    /// Stages K; until the budget ends if absent.
    pub stages: Option<u64>,
    /// Steps of every stage, in x and in y, in place of `ceil(k / gamma) + 1` and `ceil(k / mu) + 1`.
    pub stage_steps: Option<u64>,
    /// Steps and weights within a stage: "non-smooth" (default) or "smooth".
    pub rule: Rule,
    /// Samples for each stochastic gradient; all of them where there are not more. Default 1.
    pub batch: usize,
    /// "random" (default), "shuffled": all samples one after another in a random order, then in another one, or "blocks": the same by blocks
    /// of neighbours.
    pub order: Order,
    /// "independent" (default), or "shared": a step in x has the same samples for g and for l. Both are unbiased.
    pub draws: Draws,
    /// "last" (default); "random": x_k with a probability proportional to `k^weight`; "average": the mean of the x_k with these
    /// weights.
    pub output: Output,
    /// The exponent alpha of these weights, at least 1. Default 1.
    pub weight: f64,
    /// How iterates are kept: "auto" (default), "dense" or "lazy".
    pub iterates: Iterates,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            gamma: 1.0,
            mu: 1.0,
            stages: None,
            stage_steps: None,
            rule: Rule::NonSmooth,
            batch: 1,
            order: Order::Random,
            draws: Draws::Independent,
            output: Output::Last,
            weight: 1.0,
            iterates: Iterates::Auto,
        }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        check_positive("gamma", self.gamma)?;
        check_positive("mu", self.mu)?;
        if !(self.weight >= 1.0 && self.weight.is_finite()) {
            return Err(Error::setting("weight", self.weight, "a finite number of at least 1"));
        }
        for (name, value) in [("stages", self.stages), ("stage_steps", self.stage_steps), ("batch", Some(self.batch as u64))] {
            if value == Some(0) {
                return Err(Error::setting(name, 0, "at least 1"));
            }
        }
        Ok(self)
    }
}

/// St-SPG, the stagewise stochastic proximal subgradient method.
///
/// **Problem.** `min_x g(x) + min_y h(y) - <y, l(x)>` over a simple set, an [`InfProjection`] problem, DC or bi-convex. There are no
/// constraints.
///
/// **Assumptions.** g and l convex, h uniformly convex with exponent v of its conjugate, bounded second moments of stochastic
/// subgradients and values. No knowledge of v is needed.
///
/// **Iteration** (Algorithm 2). Stage k: x_{k+1} is the output of SPG (see [`Spg`](super::Spg)) with the proximal coefficient gamma
/// around x_k, `ceil(k / gamma) + 1` steps on `g(x) - <y_k, l(x_k) + J(x_k)(x - x_k)>` (DC) or `g(x) - <y_k, l(x)>` (bi-convex);
/// then y_{k+1} that of SPG with mu around y_k, `ceil(k / mu) + 1` steps on `h(y) - <y, l(x_{k+1})>`. All samples are independent.
/// One step of the run is one step of SPG.
///
/// **Guarantee.** With `output = "random"`, the expected squared distance of x_tau to the exact solution of its stage is at most
/// `4 (M_f + 2 G)(alpha + 1) / (gamma K)`; K = O(eps^(-2/v)) stages and O(eps^(-4/v)) steps for a nearly eps-stationary point.
///
/// **Deviations.** The default output is the last x_k, as in the paper's experiments; the average of the x_k is steadier and proved
/// by nothing, and neither are samples in shuffled order. Where y has many entries, each of one sample, a
/// step in y touches the drawn entries alone. A number beside x and y that has a closed form (the square root form of a variance)
/// is set anew at stages 1, 2, 4, 8, ….
///
/// **Settings.** [`Settings`]: gamma, mu, stages, stage_steps, rule, batch, order, output, weight, iterates.
///
/// **Reference.** Yan, Xu, Zhang, Wang & Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug)]
pub struct StSpg {
    settings: Settings,
    s: Saved,
    /// The draws for g, and for l.
    first: Draw,
    second: Draw,
    work: Work,
}

/// What a step needs and no checkpoint.
#[derive(Default)]
struct Work {
    d: Vec<f64>,
    d_y: Vec<f64>,
    mapping: Vec<f64>,
    x: Vec<f64>,
    /// Rows and how far to move along them.
    moves: Vec<(u32, f64)>,
    draw: Draw,
    /// The problem with its extra number held, if it has one.
    held: Option<Box<dyn InfProjection>>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

/// A vector in its stage, written out.
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

    /// `d` becomes the next z, before projection.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Vector {
    Plain(Plain),
    Lazy(Stage),
}

impl Default for Vector {
    fn default() -> Self {
        Vector::Plain(Plain::default())
    }
}

impl Vector {
    pub(super) fn start(x: &[f64], lazy: bool, mean: bool) -> Self {
        if lazy {
            let mut stage = Stage::default();
            stage.start(x, mean);
            Vector::Lazy(stage)
        } else {
            let mut plain = Plain::default();
            plain.start(x);
            Vector::Plain(plain)
        }
    }

    pub(super) fn close(&mut self) {
        match self {
            Vector::Plain(plain) => plain.close(),
            Vector::Lazy(stage) => stage.close(),
        }
    }

    pub(super) fn write(&self, out: &mut [f64]) {
        match self {
            Vector::Plain(plain) => out.copy_from_slice(&plain.centre),
            Vector::Lazy(stage) => stage.write_centre(out),
        }
    }

    /// One coordinate of the centre.
    fn centre(&self, c: usize) -> f64 {
        match self {
            Vector::Plain(plain) => plain.centre[c],
            Vector::Lazy(stage) => stage.centre(c),
        }
    }
}

/// What a checkpoint keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// The stage k, from 1 on.
    k: u64,
    /// Whether it is in its second half, the steps in y.
    in_y: bool,
    /// The step within that half, from 1 on.
    t: u64,
    x: Vector,
    y: Vector,
    reservoir: Reservoir,
    /// Of iterates that are written out; lazy ones keep their own.
    average: RunningMean,
    /// Through the samples of g, of l in x, and of l in y.
    walks: [Walk; 3],
    /// The value at which the problem's extra number is held.
    profiled_scalar: Option<f64>,
    /// The radius of the ball, for lazy iterates; infinite for the whole space.
    radius: f64,
    /// Steps after which y was at the upper end of its interval, in a problem with one y.
    clipped: u64,
}

/// Samples at most that an extra number is set by.
const ASIDE_SAMPLES: usize = 65_536;
/// A norm beyond which iterates in an unbounded domain are said to run away.
const RUNAWAY: f64 = 1e10;

/// The samples of a draw with their rows. Memory is asked for while the samples before are worked on, for those of the next draws too:
/// where a row is, and then the row.
pub(super) fn each_row<'a>(
    rows: &'a dyn InfProjectionRows,
    samples: Pick,
    all: usize,
    walk: &Walk,
    mut visit: impl FnMut(usize, DataRow<'a>) -> Result<()>,
) -> Result<()> {
    let Pick::These(ids) = samples else {
        // The processor foresees rows in order.
        return (0..all).try_for_each(|i| visit(i, row(rows, i)));
    };
    let sample = |k: usize| ids.get(k).copied().or_else(|| walk.ahead(k - ids.len())).map(|i| i as usize);
    for (k, &i) in ids.iter().enumerate() {
        if let Some(i) = sample(k + AHEAD) {
            rows.features().fetch_place(rows.row(i));
        }
        if let Some(i) = sample(k + 1) {
            rows.features().fetch_row(rows.row(i));
        }
        visit(i as usize, row(rows, i as usize))?;
    }
    Ok(())
}

/// The row of a sample.
pub(super) fn row(rows: &dyn InfProjectionRows, sample: usize) -> DataRow<'_> {
    DataRow { features: rows.features(), row: rows.row(sample), intercept: rows.intercept() }
}

/// The intercept, where there is a penalty that it is not part of.
pub(super) fn bare(rows: &dyn InfProjectionRows) -> Option<Unit> {
    (rows.intercept() && rows.ridge() != 0.0).then(|| Unit(rows.features().cols()))
}

/// Whether steps at the cost of rows pay: a row is much shorter than x, and the domain can be kept by a scale.
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

/// The rows of an inf-projection problem, if it is made of them.
pub(super) fn features_of(problem: &dyn InfProjection) -> Option<&Matrix> {
    problem.rows().map(|rows| rows.features())
}

/// The inf-projection problem behind the gate, or why there is none.
pub(super) fn demand<'a>(ev: &'a (dyn Eval + '_), method: &str) -> Result<&'a dyn InfProjection> {
    if ev.num_constraints() > 0 {
        return Err(Error::Problem(format!("{method} takes no constraints, but the problem has {}", ev.num_constraints())));
    }
    ev.inf_projection().ok_or_else(|| {
        Error::Problem(format!(
            "{method} needs a problem of the form min_x g(x) + min_y h(y) - <y, l(x)>, such as \"logistic + 0.1 * variance(logistic)\""
        ))
    })
}

/// Refuses iterates that run away.
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

/// Makes the problem with its extra number held, after a checkpoint was taken up.
pub(super) fn hold(
    ev: &dyn Eval,
    method: &str,
    profiled_scalar: Option<f64>,
    held: &mut Option<Box<dyn InfProjection>>,
) -> Result<()> {
    if let (Some(value), None) = (profiled_scalar, &held) {
        *held = demand(ev, method)?.with_profiled_scalar(value);
    }
    Ok(())
}

/// Sets the problem's extra number, if it has one, to its best value at the current point.
pub(super) fn hold_anew(
    ev: &mut dyn Eval,
    method: &str,
    write: impl FnOnce(&mut [f64]),
    profiled_scalar: &mut Option<f64>,
    held: &mut Option<Box<dyn InfProjection>>,
    x: &mut Vec<f64>,
    draw: &mut Draw,
) -> Result<()> {
    if demand(ev, method)?.with_profiled_scalar(1.0).is_none() {
        return Ok(());
    }
    x.resize(ev.dim(), 0.0);
    write(x);
    ev.sample(draw, ASIDE_SAMPLES, Replacement::Without);
    let base = demand(ev, method)?;
    let samples = draw.stream(0);
    let counted = samples.count(base.samples()) as u64;
    *profiled_scalar = base.profiled_scalar(x, samples)?;
    *held = profiled_scalar.and_then(|value| base.with_profiled_scalar(value));
    ev.count_samples(counted, 0);
    Ok(())
}

impl StSpg {
    /// A solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        Ok(StSpg { s: Saved::default(), first: Draw::full(), second: Draw::full(), work: Work::default(), settings })
    }

    /// The stage that is being made, from 1 on.
    pub fn stage(&self) -> u64 {
        self.s.k
    }

    /// y_k.
    pub fn coupled(&self, out: &mut [f64]) {
        self.s.y.write(out);
    }

    /// T_k, Theorem 3.
    fn length(&self, coefficient: f64) -> u64 {
        self.settings.stage_steps.unwrap_or_else(|| (self.s.k as f64 / coefficient).ceil() as u64 + 1)
    }

    /// Holds the problem's extra number, if it has one, and sets it anew where a stage begins and the time has come.
    fn update_profiled_scalar(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Saved { k, in_y, t, x, profiled_scalar, .. } = &mut self.s;
        let begins = k.is_power_of_two() && !*in_y && *t == 1;
        if begins {
            hold_anew(
                ev,
                "st-spg",
                |out| x.write(out),
                profiled_scalar,
                &mut self.work.held,
                &mut self.work.x,
                &mut self.work.draw,
            )
        } else {
            hold(ev, "st-spg", *profiled_scalar, &mut self.work.held)
        }
    }

    fn step_in_x(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Settings { gamma, rule, batch, order, draws, .. } = self.settings;
        let [walk_g, walk_l, _] = &mut self.s.walks;
        walk_g.draw(ev, order, batch, &mut self.first);
        let shared = draws == Draws::Shared;
        if !shared {
            walk_l.draw(ev, order, batch, &mut self.second);
        }
        let (walk_g, walk_l) = (*walk_g, *walk_l);
        let (of_g, of_l) = (self.first.stream(0), if shared { self.first.stream(0) } else { self.second.stream(0) });
        let Saved { t, x, y, radius, .. } = &mut self.s;
        let Work { d, moves, held, d_y, .. } = &mut self.work;
        let problem = held.as_deref().map_or_else(|| demand(ev, "st-spg"), Ok)?;
        let n = problem.samples();
        let counted = (of_g.count(n) + of_l.count(n)) as u64;
        let (step, weights) = (rule.step(gamma, *t), rule.weights(*t));
        match x {
            Vector::Plain(plain) => {
                let g = problem.convex(&plain.z, of_g, d)?;
                check_finite("g", g)?;
                y.write(d_y);
                // Jac l(x_k)^T y_k at the centre (DC), or at the current point (bi-convex)
                let at = if problem.case() == Case::DifferenceOfConvex { &plain.centre } else { &plain.z };
                problem.add_mapping_pull(at, of_l, d_y, -1.0, d)?;
                plain.propose(step, d);
                ev.count_samples(0, counted);
                ev.project(d)?;
                super::check_iterate(d)?;
                check_norm(vec::norm(d), *radius, "gamma", gamma, "small")?;
                plain.take(d, weights);
            }
            Vector::Lazy(stage) => {
                let rows = problem.rows().ok_or_else(no_rows)?;
                moves.clear();
                let at_centre = problem.case() == Case::DifferenceOfConvex;
                let slope_of_g = |i, score| -> Result<f64> {
                    let (value, slope) = rows.convex_of(i, score);
                    check_finite("g", value)?;
                    check_finite("the slope of g", slope)?;
                    Ok(slope)
                };
                let slope_of_l = |i, (centre, z)| -> Result<f64> {
                    let score = if at_centre { centre } else { z };
                    let slope = y.centre(rows.coordinate(i)) * rows.mapping_of(i, score).1;
                    check_finite("the slope of l", slope)?;
                    Ok(slope)
                };
                let share = -step.slope / of_g.count(n) as f64;
                each_row(rows, of_g, n, &walk_g, |i, row| {
                    let scores = stage.scores(row);
                    let pull = if shared { slope_of_l(i, scores)? } else { 0.0 };
                    moves.push((i as u32, share * (slope_of_g(i, scores.1)? - pull)));
                    Ok(())
                })?;
                if !shared {
                    let share = step.slope / of_l.count(n) as f64;
                    each_row(rows, of_l, n, &walk_l, |i, row| {
                        let scores = stage.scores(row);
                        moves.push((i as u32, share * slope_of_l(i, scores)?));
                        Ok(())
                    })?;
                }
                let norm = stage.norm();
                check_norm(norm, *radius, "gamma", gamma, "small")?;
                // z_{t+1}; nothing can fail from here on
                stage.weigh(weights.0);
                let bare = bare(rows).map(|unit| (unit, stage.scores(unit).1));
                stage.advance(step.centre, step.last - step.slope * rows.ridge());
                if let Some((unit, kept)) = bare {
                    stage.add(unit, step.slope * rows.ridge() * kept);
                }
                for &(i, amount) in moves.iter().filter(|(_, amount)| *amount != 0.0) {
                    stage.add(row(rows, i as usize), amount);
                }
                stage.project(*radius);
                stage.weigh(weights.1);
                ev.count_samples(0, counted);
            }
        }
        Ok(())
    }

    fn step_in_y(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Settings { mu, rule, batch, order, .. } = self.settings;
        self.s.walks[2].draw(ev, order, batch, &mut self.second);
        let walk = self.s.walks[2];
        let of_l = self.second.stream(0);
        let Saved { t, x, y, clipped, .. } = &mut self.s;
        let Work { d_y, mapping, held, moves, .. } = &mut self.work;
        let problem = held.as_deref().map_or_else(|| demand(ev, "st-spg"), Ok)?;
        let (h, n, m) = (problem.power(), problem.samples(), problem.coupled());
        let counted = of_l.count(n) as u64;
        let (step, weights) = (rule.step(mu, *t), rule.weights(*t));
        match y {
            Vector::Plain(plain) => {
                match x {
                    Vector::Plain(x) => problem.mapping(&x.centre, of_l, mapping)?,
                    Vector::Lazy(stage) => {
                        let rows = problem.rows().ok_or_else(no_rows)?;
                        let share = 1.0 / of_l.count(n) as f64;
                        mapping.fill(0.0);
                        each_row(rows, of_l, n, &walk, |i, row| {
                            let score = stage.score_at_centre(row);
                            mapping[rows.coordinate(i)] += share * rows.mapping_of(i, score).0;
                            Ok(())
                        })?;
                    }
                }
                for ((d, y), l) in d_y.iter_mut().zip(&plain.z).zip(mapping.iter()) {
                    check_finite("l", *l)?;
                    *d = h.slope(*y) - l;
                }
                plain.propose(step, d_y);
                d_y.iter_mut().for_each(|y| *y = h.clip(*y));
                super::check_iterate(d_y)?;
                plain.take(d_y, weights);
                *clipped += u64::from(m == 1 && plain.z[0] >= h.interval()[1]);
            }
            Vector::Lazy(stage_y) => {
                // Every sample has an entry of y of its own: the gradient on a sample is m times its entry's.
                let rows = problem.rows().ok_or_else(no_rows)?;
                moves.clear();
                let share = -step.slope / of_l.count(n) as f64;
                each_row(rows, of_l, n, &walk, |i, row| {
                    let score = match x {
                        Vector::Lazy(stage) => stage.score_at_centre(row),
                        Vector::Plain(x) => {
                            let offset = if rows.intercept() { x.centre[x.centre.len() - 1] } else { 0.0 };
                            rows.features().row_dot(rows.row(i), &x.centre) + offset
                        }
                    };
                    let c = rows.coordinate(i);
                    let (_, entry) = stage_y.scores(Unit(c));
                    let slope = m as f64 * h.slope(entry) - rows.mapping_of(i, score).0;
                    check_finite("the slope in y", slope)?;
                    moves.push((c as u32, share * slope));
                    Ok(())
                })?;
                stage_y.weigh(weights.0);
                stage_y.advance(step.centre, step.last);
                for &(c, amount) in moves.iter() {
                    let unit = Unit(c as usize);
                    let (_, entry) = stage_y.scores(unit);
                    stage_y.add(unit, h.clip(entry + amount) - entry);
                }
                stage_y.weigh(weights.1);
            }
        }
        ev.count_samples(counted, 0);
        Ok(())
    }
}

/// What there is to say of steps after which y was at the upper end of its interval.
pub(super) fn clipped_notes(steps: u64) -> Vec<Note> {
    (steps > 0).then_some(Note::IntervalTooShort { steps }).into_iter().collect()
}

pub(super) fn no_rows() -> Error {
    Error::Oracle("the problem has stopped to be one of scores of rows".into())
}

impl Method for StSpg {
    fn name(&self) -> &'static str {
        "st-spg"
    }

    fn version(&self) -> u32 {
        3
    }

    fn iterate(&self, out: &mut [f64]) {
        self.s.x.write(out);
    }

    fn writes_cheaply(&self) -> bool {
        matches!(self.s.x, Vector::Plain(_))
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        let Saved { x, reservoir, average, .. } = &self.s;
        match (self.settings.output, reservoir.get(), average.get(), x) {
            (Output::Random, Some((_, kept)), _, _) => out.copy_from_slice(kept),
            (Output::Average, _, Some(mean), _) => out.copy_from_slice(mean),
            (Output::Average, _, _, Vector::Lazy(stage)) => stage.write_mean(out),
            _ => x.write(out),
        }
        PointOrigin::OutputRule
    }

    fn notes(&self) -> Vec<Note> {
        clipped_notes(self.s.clipped)
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        self.work.held = None;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for StSpg {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let problem = demand(ev, "st-spg")?;
        let lazy = choose_lazy(self.settings.iterates, features_of(problem), problem.dim(), problem.domain(), "st-spg")?;
        let m = problem.coupled();
        let mut y = vec![0.0; m];
        problem.coupled_start(&mut y);
        let averages = self.settings.output == Output::Average;
        let own_entries = m > 1 && problem.rows().is_some();
        self.s = Saved {
            k: 1,
            in_y: false,
            t: 1,
            x: Vector::start(x, lazy, averages),
            y: Vector::start(&y, own_entries, false),
            reservoir: Reservoir::default(),
            average: RunningMean::default(),
            walks: [Walk::default(); 3],
            profiled_scalar: None,
            radius: problem.domain().ball_around_origin().unwrap_or(f64::MAX),
            clipped: 0,
        };
        self.s.reservoir.reset(if self.settings.output == Output::Random { x.len() } else { 0 });
        self.s.average.reset(if averages && !lazy { x.len() } else { 0 });
        self.work.held = None;
        self.work.d.resize(if lazy { 0 } else { x.len() }, 0.0);
        self.work.d_y.resize(m, 0.0);
        self.work.mapping.resize(m, 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.update_profiled_scalar(ev)?;
        if self.settings.output != Output::Last && !self.s.in_y && self.s.t == 1 {
            // x_k with a weight of k^alpha
            let Saved { k, x, reservoir, average, .. } = &mut self.s;
            let weight = (*k as f64).powf(self.settings.weight);
            match (self.settings.output, x) {
                (Output::Random, x) => reservoir.offer_by(*k, weight, ev.rng(Purpose::Output), |out| x.write(out)),
                (_, Vector::Plain(plain)) => average.add(&plain.centre, weight),
                (_, Vector::Lazy(stage)) => stage.count_centre(weight),
            }
        }
        let length = self.length(if self.s.in_y { self.settings.mu } else { self.settings.gamma });
        if self.s.in_y {
            self.step_in_y(ev)?
        } else {
            self.step_in_x(ev)?
        }
        let s = &mut self.s;
        let mut finished = false;
        if s.t < length {
            s.t += 1;
        } else {
            if s.in_y {
                s.y.close();
                s.k += 1;
                finished = self.settings.stages.is_some_and(|stages| s.k > stages);
            } else {
                if let Vector::Lazy(stage) = &s.x {
                    // The average is as finite as what enters it.
                    check_norm(stage.norm(), s.radius, "gamma", self.settings.gamma, "small")?;
                }
                s.x.close();
            }
            (s.t, s.in_y) = (1, !s.in_y);
        }
        Ok(Step { kind: StepKind::Objective, finished })
    }
}
