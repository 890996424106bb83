//! MSPG: a single loop of proximal gradient steps in x and y simultaneously, with growing mini-batches. The parts shared with
//! St-SPG are in `inf_projection`.

use serde::{Deserialize, Serialize};

pub use super::inf_projection::Output;
use super::inf_projection::{
    Iterate, Iterates, Outputs, Point, Profiled, check_norm, choose_lazy, demand, inf_projection_method,
};
use super::spg::check_positive;
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::error::{check_finite, check_length};
use crate::estimate::{Order, Walk};
use crate::math::vec;
use crate::oracle::Draw;
use crate::{Error, Result, plan};

/// Settings of [`Mspg`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step size eta = c / L, in x and in y. Default 0.1.
    pub eta: f64,
    /// b: iteration t reads `ceil(b t)` samples, or all if there are fewer. Default 1.
    pub growth: f64,
    /// "random" (default); "shuffled": all samples in a random order, then in a new one; or "blocks": the same in blocks of
    /// consecutive samples.
    pub order: Order,
    /// "last" (default), "random", or "average": the mean of the iterates, weighted by `t^weight`.
    pub output: Output,
    /// Exponent of these weights, at least 0. Default 1.
    pub weight: f64,
    /// Storage of iterates: "auto" (default), "dense" or "lazy".
    pub iterates: Iterates,
    /// Constants from which eta is computed, in place of `eta`.
    pub theory: Option<plan::mspg::Constants>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eta: 0.1,
            growth: 1.0,
            order: Order::Random,
            output: Output::Last,
            weight: 1.0,
            iterates: Iterates::Auto,
            theory: None,
        }
    }
}

impl Settings {
    /// Returns the step size that the theorem prescribes, with the output rule that it assumes.
    pub fn theory(constants: &plan::mspg::Constants) -> Result<Self> {
        Ok(Settings { eta: constants.eta()?, output: Output::Random, ..Settings::default() })
    }

    /// Computes eta from the constants, if given, and checks every value.
    pub fn resolve(mut self) -> Result<Self> {
        if let Some(constants) = self.theory.take() {
            self.eta = constants.eta()?;
        }
        check_positive("eta", self.eta)?;
        check_positive("growth", self.growth)?;
        if !(self.weight >= 0.0 && self.weight.is_finite()) {
            return Err(Error::setting("weight", self.weight, "a finite number of at least 0"));
        }
        Ok(self)
    }
}

/// MSPG, the mini-batch stochastic proximal gradient method of Yan, Xu, Zhang, Wang and Yang.
///
/// **Problem.** `min_x g(x) + min_y h(y) - <y, l(x)>` over a simple set, an [`InfProjection`](crate::oracle::InfProjection)
/// problem without constraints.
///
/// **Assumptions.** g and l are smooth, l is Lipschitz, h is uniformly convex with a simple proximal operator, y is bounded, and
/// the variance is bounded.
///
/// **Iteration** (Algorithm 1). A mini-batch of `b t` samples gives the gradients gx and gy of `g(x) - <y, l(x)>` at (x_t, y_t);
/// `x_{t+1} = proj(x_t - eta gx)` and `y_{t+1} = prox_{eta h}(y_t - eta gy)`, both from (x_t, y_t).
///
/// **Guarantee.** With eta = c / L, 0 < c < 1/2, and `output = "random"`:
/// `E dist(0, df)^2 <= c_1 sigma^2 (ln T + 1) / (b T) + c_2 M_f / (eta T)`, see [`plan::mspg`].
///
/// **Deviations.** The default output is the last iterate, and eta is unrestricted, as in the paper's experiments. b may be below
/// 1: a mini-batch has `ceil(b t)` samples. The theorem takes the samples of a mini-batch to be independent; here only the
/// mini-batches are, and the samples of one are distinct: drawn without replacement, and all samples once `b t` reaches their
/// number. The mean of a mini-batch is still unbiased, with a variance of at most `sigma^2 / (b t)`, as for independent samples.
/// Averaged iterates and shuffled samples are more stable, but the theorem does not cover them. A profiled scalar (as in the square
/// root form of a variance) is updated at iterations 1, 2, 4, 8, ….
///
/// **Settings.** [`Settings`]: eta, growth, order, output, weight, iterates, theory.
///
/// **Reference.** Yan, Xu, Zhang, Wang and Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug)]
pub struct Mspg {
    settings: Settings,
    s: Saved,
    work: Work,
}

#[derive(Debug, Default)]
struct Work {
    d: Vec<f64>,
    mapping: Vec<f64>,
    /// Rows and the step lengths along them.
    moves: Vec<(u32, f64)>,
    draw: Draw,
    profiled: Profiled,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Iteration, from 1.
    t: u64,
    x: Point,
    y: Vec<f64>,
    outputs: Outputs,
    walk: Walk,
    profiled_scalar: Option<f64>,
    radius: f64,
    /// Number of steps after which y was at the upper end of its interval, for a problem with a single y.
    clipped: u64,
}

impl Mspg {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Mspg { settings: settings.resolve()?, s: Saved::default(), work: Work::default() })
    }

    /// Returns t, the next iteration, from 1; 0 before the start.
    pub fn iteration(&self) -> u64 {
        self.s.t
    }

    /// Returns y_t.
    pub fn coupled(&self) -> &[f64] {
        &self.s.y
    }

    /// Continues on a problem whose rows may differ from the previous ones: x, y and t are carried over, and each sample is read
    /// once, in a random order, in mini-batches of `ceil(b t)`; a remainder too small for another mini-batch joins the last one.
    /// The first pass starts at `start`, projected onto the domain. Returns the number of iterations; after an error the iterate
    /// is the one before the failed step.
    ///
    /// The profiled scalar of a problem ([`InfProjection::profiled_scalar`](crate::oracle::InfProjection::profiled_scalar)) is
    /// that of the current rows.
    pub fn pass(&mut self, ev: &mut dyn Eval, start: &[f64]) -> Result<u64> {
        if self.s.t == 0 {
            check_length("the start", start.len(), ev.dim())?;
            let mut x = start.to_vec();
            ev.project(&mut x)?;
            super::check_iterate(&x)?;
            Solver::<dyn Eval>::start(self, ev, &x)?;
        }
        let problem = demand(ev, "mspg")?;
        check_length("the iterate", self.s.x.len(), problem.dim())?;
        check_length("y", self.s.y.len(), problem.coupled())?;
        let mut left = problem.samples();
        self.s.radius = problem.domain().ball_around_origin().unwrap_or(f64::MAX);
        self.s.walk = Walk::default();
        self.make_room();
        let begun = self.s.t;
        while left > 0 {
            // A step on few samples is as long as one on many and would undo their averaging.
            let size = self.size();
            let size = if left / 2 < size { left } else { size };
            left -= self.advance(ev, Order::Shuffled, size)?.min(left);
        }
        Ok(self.s.t - begun)
    }

    /// Allocates the buffers for the iterate.
    fn make_room(&mut self) {
        self.work.profiled.forget();
        let dense = if let Point::Plain(x) = &self.s.x { x.len() } else { 0 };
        self.work.d.resize(dense, 0.0);
        self.work.mapping.resize(self.s.y.len(), 0.0);
    }

    /// Returns m_t = b t samples, Algorithm 1 line 3.
    fn size(&self) -> usize {
        (self.settings.growth * self.s.t as f64).ceil() as usize
    }

    fn take_step(&mut self, ev: &mut dyn Eval, order: Order, size: usize) -> Result<usize> {
        let eta = self.settings.eta;
        let Saved { t, x, y, profiled_scalar, radius, clipped, walk, .. } = &mut self.s;
        let Work { d, mapping, moves, draw, profiled } = &mut self.work;
        profiled.update(ev, "mspg", profiled_scalar, t.is_power_of_two(), |out| x.write(out))?;
        walk.draw(ev, order, size, draw);
        let samples = draw.stream(0);
        let mut problem = profiled.problem(ev, "mspg")?;
        let (h, counted) = (problem.power(), samples.count(problem.samples()));
        let mut gradient = problem.subgradient();
        match x {
            Point::Plain(x) => {
                gradient.joint(x, samples, y, mapping, d)?;
                // x_{t+1} = proj(x_t - eta gx), line 4; d holds it until it is known to be finite
                d.iter_mut().zip(x.iter()).for_each(|(d, x)| *d = x - eta * *d);
                ev.project(d)?;
                super::check_iterate(d)?;
                check_norm(vec::norm(d), *radius, "eta", eta, "large")?;
                std::mem::swap(x, d);
            }
            Point::Lazy(x) => {
                let mut rows = gradient.rows()?;
                moves.clear();
                mapping.fill(0.0);
                let share = 1.0 / counted as f64;
                rows.each(
                    samples,
                    |k| walk.ahead(k),
                    |sample| {
                        let (slope, (l, pull)) = sample.joint(x.score(sample.row()))?;
                        let c = sample.coordinate();
                        let slope = slope - y[c] * pull;
                        check_finite("the slope of g - y l", slope)?;
                        mapping[c] += share * l;
                        moves.push((sample.index as u32, -eta * share * slope));
                        Ok(())
                    },
                )?;
                check_mapping(mapping)?;
                check_norm(x.norm(), *radius, "eta", eta, "large")?;
                let unpenalised = rows.unpenalised().map(|unit| (unit, x.score(unit)));
                x.shrink(1.0 - eta * rows.ridge());
                if let Some((unit, kept)) = unpenalised {
                    x.add(unit, eta * rows.ridge() * kept);
                }
                for &(i, amount) in moves.iter().filter(|(_, amount)| *amount != 0.0) {
                    x.add(rows.row(i as usize), amount);
                }
                x.project(*radius);
            }
        }
        // y_{t+1} = prox(y_t - eta gy), line 5, with gy = -l(x_t)
        y.iter_mut().zip(mapping.iter()).for_each(|(y, l)| *y = h.prox(*y + eta * l, eta));
        *clipped += u64::from(y.len() == 1 && y[0] >= h.interval()[1]);
        *t += 1;
        Ok(counted)
    }

    /// Performs one iteration on `size` samples, or all if there are fewer; returns the number of samples read.
    fn advance(&mut self, ev: &mut dyn Eval, order: Order, size: usize) -> Result<usize> {
        let counted = self.take_step(ev, order, size)?;
        // Indices 2 to T + 1: iterates after an update.
        let Saved { t, x, outputs, .. } = &mut self.s;
        if self.settings.output != Output::Last {
            let weight = (*t as f64).powf(self.settings.weight);
            outputs.offer(self.settings.output, ev, x, *t, 1.0, weight);
        }
        Ok(counted)
    }
}

/// Checks that l, as computed from rows, is finite.
fn check_mapping(mapping: &[f64]) -> Result<()> {
    mapping.iter().try_for_each(|&l| check_finite("l", l))
}

inf_projection_method!(Mspg, "mspg");

impl<'e> Solver<dyn Eval + 'e> for Mspg {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let problem = demand(ev, "mspg")?;
        let lazy = choose_lazy(self.settings.iterates, problem.features(), problem.dim(), problem.domain(), "mspg")?;
        let m = problem.coupled();
        let s = &mut self.s;
        *s = Saved { t: 1, radius: problem.domain().ball_around_origin().unwrap_or(f64::MAX), ..Saved::default() };
        s.y.resize(m, 0.0);
        problem.coupled_start(&mut s.y);
        s.x = Point::start(x, lazy, self.settings.output == Output::Average);
        s.outputs = Outputs::new(self.settings.output, x.len(), lazy);
        self.make_room();
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.advance(ev, self.settings.order, self.size())?;
        Ok(Step { kind: StepKind::Objective, finished: false })
    }
}
