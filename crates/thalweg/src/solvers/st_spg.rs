//! St-SPG: stages of the stochastic proximal subgradient method for inf-projection problems, alternating between x and y. The
//! step rule is in `spg`, the parts shared with MSPG in `inf_projection`.

use serde::{Deserialize, Serialize};

use super::inf_projection::{Iterate, Outputs, Profiled, StagePoint, check_norm, choose_lazy, demand, inf_projection_method};
pub use super::inf_projection::{Iterates, Output};
use super::spg::{Rule, check_positive};
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::error::check_finite;
use crate::estimate::{Order, Walk};
use crate::eval::RowSample;
use crate::math::lazy::Unit;
use crate::math::vec;
use crate::oracle::{Case, Draw};
use crate::{Error, Result};

/// Mini-batches of a step in x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// Independent mini-batches for g and l.
    #[default]
    Independent,
    /// The same mini-batch for g and l, so that the contributions of a sample to g and l cancel in part.
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
    /// Number of stages K; unlimited if absent.
    pub stages: Option<u64>,
    /// Number of steps of every stage, in x and in y, in place of `ceil(k / gamma) + 1` and `ceil(k / mu) + 1`.
    pub stage_steps: Option<u64>,
    /// Step sizes and weights within a stage: "non-smooth" (default) or "smooth".
    pub rule: Rule,
    /// Samples for each stochastic gradient, or all if there are fewer. Default 1.
    pub batch: usize,
    /// "random" (default); "shuffled": all samples in a random order, then in a new one; or "blocks": the same in blocks of
    /// consecutive samples.
    pub order: Order,
    /// "independent" (default), or "shared": the same mini-batch for g and l in a step in x. Both are unbiased.
    pub draws: Draws,
    /// "last" (default); "random": x_k with a probability proportional to `k^weight`; "average": the mean of the x_k with these
    /// weights.
    pub output: Output,
    /// Exponent alpha of these weights, at least 1. Default 1.
    pub weight: f64,
    /// Storage of iterates: "auto" (default), "dense" or "lazy".
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

/// St-SPG, the stagewise stochastic proximal subgradient method of Yan, Xu, Zhang, Wang and Yang.
///
/// **Problem.** `min_x g(x) + min_y h(y) - <y, l(x)>` over a simple set, an [`InfProjection`](crate::oracle::InfProjection)
/// problem without constraints, DC or bi-convex.
///
/// **Assumptions.** g and l are convex, h is uniformly convex, its conjugate has exponent v, and the second moments of stochastic
/// subgradients and values are bounded. v need not be known.
///
/// **Iteration** (Algorithm 2). In stage k, x_{k+1} is the output of SPG (see [`Spg`](super::Spg)) with proximal coefficient
/// gamma around x_k, `ceil(k / gamma) + 1` steps on `g(x) - <y_k, l(x_k) + J(x_k)(x - x_k)>` (DC) or `g(x) - <y_k, l(x)>`
/// (bi-convex); then y_{k+1} is the output of SPG with mu around y_k, `ceil(k / mu) + 1` steps on `h(y) - <y, l(x_{k+1})>`. All
/// samples are independent. One step of the run is one step of SPG.
///
/// **Guarantee.** With `output = "random"`, the expected squared distance of x_tau to the exact solution of its stage is at most
/// `4 (M_f + 2 G)(alpha + 1) / (gamma K)`; K = O(eps^(-2/v)) stages and O(eps^(-4/v)) steps for a nearly eps-stationary point.
///
/// **Deviations.** The default output is the last x_k, as in the paper's experiments. The average of the x_k and shuffled samples
/// are more stable, but the theorem does not cover them. With `batch` above 1 the samples of one mini-batch are distinct, drawn
/// without replacement; its mean is unbiased and varies no more than that of independent samples. If y has one entry per sample, a step in y updates only the drawn
/// entries. A profiled scalar (as in the square root form of a variance) is updated at stages 1, 2, 4, 8, ….
///
/// **Settings.** [`Settings`]: gamma, mu, stages, stage_steps, rule, batch, order, draws, output, weight, iterates.
///
/// **Reference.** Yan, Xu, Zhang, Wang and Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug)]
pub struct StSpg {
    settings: Settings,
    s: Saved,
    /// Draws for g and for l.
    first: Draw,
    second: Draw,
    work: Work,
}

/// Buffers of a step, not part of a checkpoint.
#[derive(Debug, Default)]
struct Work {
    d: Vec<f64>,
    d_y: Vec<f64>,
    mapping: Vec<f64>,
    /// Rows and the step lengths along them.
    moves: Vec<(u32, f64)>,
    profiled: Profiled,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Stage k, from 1.
    k: u64,
    /// Whether the stage is in its second half, the steps in y.
    in_y: bool,
    /// Step within that half, from 1.
    t: u64,
    x: StagePoint,
    y: StagePoint,
    outputs: Outputs,
    /// Sequences of the samples of g, of l in x, and of l in y.
    walks: [Walk; 3],
    /// Current value of the profiled scalar.
    profiled_scalar: Option<f64>,
    /// Radius of the ball, for lazy iterates; infinite for the whole space.
    radius: f64,
    /// Number of steps after which y was at the upper end of its interval, for a problem with a single y.
    clipped: u64,
}

impl StSpg {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let settings = settings.resolve()?;
        Ok(StSpg { s: Saved::default(), first: Draw::full(), second: Draw::full(), work: Work::default(), settings })
    }

    /// Returns the current stage, from 1.
    pub fn stage(&self) -> u64 {
        self.s.k
    }

    /// Writes y_k.
    pub fn coupled(&self, out: &mut [f64]) {
        self.s.y.write(out);
    }

    /// Returns T_k, Theorem 3.
    fn length(&self, coefficient: f64) -> u64 {
        self.settings.stage_steps.unwrap_or_else(|| (self.s.k as f64 / coefficient).ceil() as u64 + 1)
    }

    /// Fixes the problem's profiled scalar, if it has one, and updates it at the start of stages 1, 2, 4, 8, ….
    fn update_profiled_scalar(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Saved { k, in_y, t, x, profiled_scalar, .. } = &mut self.s;
        let renew = k.is_power_of_two() && !*in_y && *t == 1;
        self.work.profiled.update(ev, "st-spg", profiled_scalar, renew, |out| x.write(out))
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
        let Work { d, moves, profiled, d_y, .. } = &mut self.work;
        let mut problem = profiled.problem(ev, "st-spg")?;
        let (n, at_centre) = (problem.samples(), problem.case() == Case::DifferenceOfConvex);
        let (step, weights) = (rule.step(gamma, *t), rule.weights(*t));
        let mut gradient = problem.subgradient();
        match x {
            StagePoint::Plain(plain) => {
                gradient.convex(&plain.z, of_g, d)?;
                y.write(d_y);
                // Jac l(x_k)^T y_k at the centre (DC), or at the current point (bi-convex)
                let at = if at_centre { &plain.centre } else { &plain.z };
                gradient.add_mapping_pull(at, of_l, d_y, -1.0, d)?;
                plain.propose(step, d);
                ev.project(d)?;
                super::check_iterate(d)?;
                check_norm(vec::norm(d), *radius, "gamma", gamma, "small")?;
                plain.take(d, weights);
            }
            StagePoint::Lazy(stage) => {
                let mut rows = gradient.rows()?;
                moves.clear();
                let slope_of_l = |sample: RowSample, (centre, z): (f64, f64)| -> Result<f64> {
                    let (_, slope) = sample.mapping(if at_centre { centre } else { z });
                    let slope = y.centre(sample.coordinate()) * slope;
                    check_finite("the slope of l", slope)?;
                    Ok(slope)
                };
                let share = -step.slope / of_g.count(n) as f64;
                rows.each(
                    of_g,
                    |k| walk_g.ahead(k),
                    |sample| {
                        let scores = stage.scores(sample.row());
                        let pull = if shared { slope_of_l(sample, scores)? } else { 0.0 };
                        moves.push((sample.index as u32, share * (sample.convex_slope(scores.1)? - pull)));
                        Ok(())
                    },
                )?;
                if !shared {
                    let share = step.slope / of_l.count(n) as f64;
                    rows.each(
                        of_l,
                        |k| walk_l.ahead(k),
                        |sample| {
                            let scores = stage.scores(sample.row());
                            moves.push((sample.index as u32, share * slope_of_l(sample, scores)?));
                            Ok(())
                        },
                    )?;
                }
                check_norm(stage.norm(), *radius, "gamma", gamma, "small")?;
                // z_{t+1}; no errors are possible from here on
                stage.weigh(weights.0);
                let unpenalised = rows.unpenalised().map(|unit| (unit, stage.scores(unit).1));
                stage.advance(step.centre, step.last - step.slope * rows.ridge());
                if let Some((unit, kept)) = unpenalised {
                    stage.add(unit, step.slope * rows.ridge() * kept);
                }
                for &(i, amount) in moves.iter().filter(|(_, amount)| *amount != 0.0) {
                    stage.add(rows.row(i as usize), amount);
                }
                stage.project(*radius);
                stage.weigh(weights.1);
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
        let Work { d_y, mapping, profiled, moves, .. } = &mut self.work;
        let mut problem = profiled.problem(ev, "st-spg")?;
        let (h, n, m) = (problem.power(), problem.samples(), problem.coupled());
        let mut value = problem.value();
        let (step, weights) = (rule.step(mu, *t), rule.weights(*t));
        match y {
            StagePoint::Plain(plain) => {
                match x {
                    StagePoint::Plain(x) => value.mapping(&x.centre, of_l, mapping)?,
                    StagePoint::Lazy(stage) => {
                        let share = 1.0 / of_l.count(n) as f64;
                        mapping.fill(0.0);
                        value.rows()?.each(
                            of_l,
                            |k| walk.ahead(k),
                            |sample| {
                                let (l, _) = sample.mapping(stage.score_at_centre(sample.row()));
                                mapping[sample.coordinate()] += share * l;
                                Ok(())
                            },
                        )?;
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
            StagePoint::Lazy(stage_y) => {
                // Every sample has its own entry of y: the gradient on a sample is m times that of its entry.
                moves.clear();
                let share = -step.slope / of_l.count(n) as f64;
                value.rows()?.each(
                    of_l,
                    |k| walk.ahead(k),
                    |sample| {
                        let score = match x {
                            StagePoint::Lazy(stage) => stage.score_at_centre(sample.row()),
                            StagePoint::Plain(x) => sample.score(&x.centre),
                        };
                        let c = sample.coordinate();
                        let (_, entry) = stage_y.scores(Unit(c));
                        let slope = m as f64 * h.slope(entry) - sample.mapping(score).0;
                        check_finite("the slope in y", slope)?;
                        moves.push((c as u32, share * slope));
                        Ok(())
                    },
                )?;
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
        Ok(())
    }
}

inf_projection_method!(StSpg, "st-spg");

impl<'e> Solver<dyn Eval + 'e> for StSpg {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let problem = demand(ev, "st-spg")?;
        let lazy = choose_lazy(self.settings.iterates, problem.features(), problem.dim(), problem.domain(), "st-spg")?;
        let m = problem.coupled();
        let mut y = vec![0.0; m];
        problem.coupled_start(&mut y);
        let averages = self.settings.output == Output::Average;
        let own_entries = m > 1 && problem.features().is_some();
        self.s = Saved {
            k: 1,
            in_y: false,
            t: 1,
            x: StagePoint::start(x, lazy, averages),
            y: StagePoint::start(&y, own_entries, false),
            outputs: Outputs::new(self.settings.output, x.len(), lazy),
            walks: [Walk::default(); 3],
            profiled_scalar: None,
            radius: problem.domain().ball_around_origin().unwrap_or(f64::MAX),
            clipped: 0,
        };
        self.work.profiled.forget();
        self.work.d.resize(if lazy { 0 } else { x.len() }, 0.0);
        self.work.d_y.resize(m, 0.0);
        self.work.mapping.resize(m, 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.update_profiled_scalar(ev)?;
        if self.settings.output != Output::Last && !self.s.in_y && self.s.t == 1 {
            // x_k with weight k^alpha
            let Saved { k, x, outputs, .. } = &mut self.s;
            let weight = (*k as f64).powf(self.settings.weight);
            outputs.offer(self.settings.output, ev, x, *k, weight, weight);
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
                if let StagePoint::Lazy(stage) = &s.x {
                    // The average is finite if the iterates are.
                    check_norm(stage.norm(), s.radius, "gamma", self.settings.gamma, "small")?;
                }
                s.x.close();
            }
            (s.t, s.in_y) = (1, !s.in_y);
        }
        Ok(Step { kind: StepKind::Objective, finished })
    }
}
