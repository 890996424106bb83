//! DSZOG: doubly stochastic zeroth-order gradients for problems with very many constraints. Both samples of the objective and
//! constraints are drawn, and only values are used; projections onto constraints do not belong here.

mod weights;

use serde::{Deserialize, Serialize};

use super::{Method, PenaltyWeights, PointOrigin, Schedule, Solver, State, Step, StepKind, ValueEval};
use crate::error::check_count;
use crate::estimate::{Law, TwoPoint};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Pick, Replacement};
use crate::plan::dszog::{DefaultSettings, USUAL};
use crate::sets::{Set, Simplex, Warm};
use crate::{Error, Result};
use weights::{Move, Weights};

/// Settings of [`Dszog`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step size of the variables. Default 0.01.
    pub eta_w: Schedule,
    /// Step size of the constraint weights. Default 0.01.
    pub eta_p: Schedule,
    /// Penalty coefficient of squared violations. Default 1.
    pub beta: f64,
    /// Constraints are penalised from this far below 0 on, because a squared penalty leaves active constraints slightly violated.
    /// Default 0, as published.
    pub margin: f64,
    /// Strong-concavity constant in p. Default 1e-6.
    pub lambda: f64,
    /// Share of the new p in the mixture, in (0, 1]. Default 0.9.
    pub a: f64,
    /// Share of the new estimates in the moving averages, in (0, 1]. Default 0.9.
    pub b: f64,
    /// Added to the square root of the norm that steps are divided by. Default 1e-8.
    pub c: f64,
    /// Smoothing radius. Default 1e-3.
    pub mu: f64,
    /// Number of directions of each estimate (Q). Default 10.
    pub directions: usize,
    /// Distribution of directions: "gaussian" (default), "sphere" or "coordinate".
    pub law: Law,
    /// Whether each direction is followed by its opposite. Default false.
    pub antithetic: bool,
    /// Samples of the objective in each estimate, or all if there are fewer. Default 128.
    pub m1: usize,
    /// Constraints drawn from p, with replacement, for the gradient estimate in the variables. Default 128.
    pub m2: usize,
    /// Constraints drawn uniformly, without replacement, for the gradient estimate in p. Default 128.
    pub m3: usize,
    /// Whether to use the variant without moving averages and scaling. Default false.
    pub plain: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let DefaultSettings { beta, c, directions, m1, m2, m3 } = USUAL;
        Settings {
            eta_w: Schedule::Constant(0.01),
            eta_p: Schedule::Constant(0.01),
            beta,
            margin: 0.0,
            lambda: 1e-6,
            a: 0.9,
            b: 0.9,
            c,
            mu: 1e-3,
            directions,
            law: Law::Gaussian,
            antithetic: false,
            m1,
            m2,
            m3,
            plain: false,
        }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        for (name, schedule) in [("eta_w", &self.eta_w), ("eta_p", &self.eta_p)] {
            schedule.resolve(name, None)?.validate(name, false)?;
        }
        for (name, value) in [("beta", self.beta), ("lambda", self.lambda), ("c", self.c), ("mu", self.mu)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if !(self.margin >= 0.0 && self.margin.is_finite()) {
            return Err(Error::setting("margin", self.margin, "a finite number, 0 or larger"));
        }
        for (name, value) in [("a", self.a), ("b", self.b)] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(Error::setting(name, value, "a number above 0 and at most 1"));
            }
        }
        for (name, value) in [("directions", self.directions), ("m1", self.m1), ("m2", self.m2), ("m3", self.m3)] {
            if value == 0 {
                return Err(Error::setting(name, 0, "at least 1"));
            }
        }
        check_count("m2", self.m2)?;
        Ok(self)
    }
}

/// DSZOG, the doubly stochastic zeroth-order gradient method of Shi, Gao and Gu.
///
/// **Problem.** `min f0(w)` subject to `f_j(w) <= 0` for j = 1..m, with m in the tens of thousands, from values only. Uses the
/// penalty `L(w, p) = f0(w) + beta sum_j p_j phi_j(w) - (lambda / 2) ||p||^2` with `phi_j = max(0, f_j)^2` and p on the simplex:
/// as lambda goes to 0, `f0 + beta max_j phi_j` is minimised.
///
/// **Assumptions.** L is smooth, bounded below after maximisation over p, and its estimates have bounded variance.
///
/// **Iteration.** With G and H the estimates of the gradients in w and p, `w -= eta_w z_w / (sqrt(||z_w||) + c)`,
/// `p = (1 - a) p + a proj(p + eta_p z_p / (sqrt(||z_p||) + c))`, and moving averages `z = (1 - b) z + b G` and likewise with H.
/// G needs `m1 (Q + 1)` losses and `m2 (Q + 1)` constraints drawn from p; H needs `m3` constraints drawn uniformly. In addition,
/// an iteration costs O(m) simple arithmetic for p.
///
/// **Guarantee.** On average over the iterates, `||grad max_p L||^2` falls below eps^2 after O(kappa^6 / eps^4) iterations with
/// the parameters of Theorem 5.14, as the paper states. With a fixed share `a`, the theorem's own bounds give eps^-6; eps^-4
/// needs an `a` of the order of b, which is of the order of eps^2 ([`crate::plan::dszog`] chooses it so). The last iterate is
/// returned, as in the paper's experiments.
///
/// **Deviations.** The square root of the norm and the factor beta of the constraints follow the text of the paper, not one of
/// its printed formulas. A `margin` shifts the penalty, `phi_j = max(0, f_j + margin)^2`. Every iterate is projected onto the
/// domain. A constraint that is drawn several times is evaluated once and counted as often as it was drawn.
///
/// **Settings.** [`Settings`]: eta_w, eta_p, beta, margin, lambda, a, b, c, mu, directions, law, antithetic, m1, m2, m3,
/// plain.
///
/// **Reference.** Shi, Gao and Gu, *Gradient-free method for heavily constrained nonconvex optimization*.
#[derive(Debug, Clone)]
pub struct Dszog {
    settings: Settings,
    s: Saved,
    estimator: TwoPoint,
    full: Draw,
    samples: Draw,
    uniform: Draw,
    /// Constraints drawn from p, each listed once, and how often each was drawn.
    drawn: Vec<u32>,
    times: Vec<f64>,
    /// The next point, until all its quantities are computed.
    w: Vec<f64>,
    /// The estimate at the next point.
    estimate: Vec<f64>,
    values: Vec<f64>,
    constraints: Vec<f64>,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Whether p and the averages are initialised.
    begun: bool,
    t: u64,
    w: Vec<f64>,
    zw: Vec<f64>,
    weights: Weights,
}

/// Returns phi_j, the penalty of constraint j.
fn phi(f: f64, margin: f64) -> f64 {
    let over = (f + margin).max(0.0);
    over * over
}

impl Dszog {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Dszog {
            settings: settings.resolve()?,
            s: Saved::default(),
            estimator: TwoPoint::default(),
            full: Draw::full(),
            samples: Draw::full(),
            uniform: Draw::full(),
            drawn: vec![],
            times: vec![],
            w: vec![],
            estimate: vec![],
            values: vec![],
            constraints: vec![],
        })
    }

    /// Returns the weights of the constraints, which sum to 1; empty before the first step.
    pub fn weights(&self) -> Vec<f64> {
        self.s.weights.all()
    }

    /// Computes p*(w), the projection of `beta phi / lambda`.
    fn first_weights<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        if ev.num_constraints() == 0 {
            return Ok(());
        }
        let mut p = vec![0.0; ev.num_constraints()];
        ev.constraint_values(&self.w, &self.full, Pick::All, &mut p)?;
        let Settings { beta, lambda, margin, .. } = self.settings;
        p.iter_mut().for_each(|p| *p = beta / lambda * phi(*p, margin));
        Simplex::new(1.0)?.project(&mut p, &mut Warm::default())?;
        self.s.weights.start(&p);
        Ok(())
    }

    /// Computes G and H at the next point: G into `estimate`, and the contribution of the drawn constraints to z_p.
    fn estimate<E: ValueEval + ?Sized>(&mut self, ev: &mut E, b: f64) -> Result<()> {
        let Settings { beta, margin, m1, m2, m3, .. } = self.settings;
        let m = ev.num_constraints();
        ev.refresh(&self.w)?;
        ev.sample(&mut self.samples, m1, Replacement::Without);
        self.estimator.draw(ev.rng(Purpose::Directions));
        let count = self.estimator.count() + 1;
        self.values.resize(count, 0.0);
        let points = self.estimator.around(&self.w)?;
        ev.objective_many(points, &self.samples, &mut self.values)?;
        self.estimate.clear();
        self.estimate.resize(self.w.len(), 0.0);
        self.estimator.add(&self.values, 1.0, &mut self.estimate);
        if m == 0 {
            return Ok(());
        }
        self.s.weights.draw(m2, ev.rng(Purpose::Sampling), &mut self.drawn, &mut self.times);
        self.constraints.resize(count * self.drawn.len(), 0.0);
        ev.drawn_constraint_values(self.estimator.points(), &self.full, &self.drawn, m2, &mut self.constraints)?;
        // phi of the drawn constraints at each point, weighted by how often each was drawn.
        for (value, row) in self.values.iter_mut().zip(self.constraints.chunks(self.drawn.len())) {
            *value = row.iter().zip(&self.times).map(|(f, times)| times * phi(*f, margin)).sum();
        }
        self.estimator.add(&self.values, beta / m2 as f64, &mut self.estimate);
        // H = (beta m / m3) sum phi_j e_j - lambda p; the second part is already included.
        self.uniform.sample(&[m], m3, Replacement::Without, ev.rng(Purpose::Sampling));
        let which = self.uniform.stream(0);
        let count = which.count(m);
        self.constraints.resize(count, 0.0);
        ev.constraint_values(&self.w, &self.full, which, &mut self.constraints)?;
        let scale = b * beta * m as f64 / count as f64;
        let slopes = self.constraints.iter().map(|f| scale * phi(*f, margin));
        match which {
            Pick::All => self.s.weights.add((0..).zip(slopes)),
            Pick::These(ids) => self.s.weights.add(ids.iter().copied().zip(slopes)),
        }
        Ok(())
    }

    /// Initialises the weights and the averages, which start at the first estimates.
    fn begin<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        self.first_weights(ev)?;
        self.s.weights.decay(self.settings.lambda);
        self.estimate(ev, 1.0)?;
        self.s.zw.clear();
        self.s.zw.extend_from_slice(&self.estimate);
        self.s.begun = true;
        Ok(())
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        self.w.clear();
        self.w.extend_from_slice(&self.s.w);
        if !self.s.begun {
            self.begin(ev)?;
        }
        let Settings { eta_w, eta_p, lambda, c, plain, .. } = self.settings;
        let (a, b) = if plain { (1.0, 1.0) } else { (self.settings.a, self.settings.b) };
        let scaled = |eta: f64, norm: f64| if plain { eta } else { eta / (norm.sqrt() + c) };
        // w_{t+1}, eq. 13
        vec::add_scaled(&mut self.w, -scaled(eta_w.at(self.s.t), vec::norm(&self.s.zw)), &self.s.zw);
        ev.project(&mut self.w)?;
        super::check_iterate(&self.w)?;
        // p_{t+1} = (1 - a) p + a phat, and the decay of z_p
        if ev.num_constraints() > 0 {
            let step = scaled(eta_p.at(self.s.t), self.s.weights.slope());
            self.s.weights.advance(Move { step, a, b, lambda })?;
        }
        self.estimate(ev, b)?;
        for (z, new) in self.s.zw.iter_mut().zip(&self.estimate) {
            *z = (1.0 - b) * *z + b * new;
        }
        std::mem::swap(&mut self.s.w, &mut self.w);
        self.s.t += 1;
        Ok(Step { kind: StepKind::Other, finished: false })
    }
}

impl Method for Dszog {
    fn name(&self) -> &'static str {
        "dszog"
    }

    fn version(&self) -> u32 {
        2
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.w);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        out.copy_from_slice(&self.s.w);
        PointOrigin::OutputRule
    }

    fn penalty_weights(&self) -> Option<PenaltyWeights> {
        let Settings { beta, lambda, margin, .. } = self.settings;
        self.s.begun.then(|| PenaltyWeights { beta, lambda, margin, weights: self.weights() })
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn ValueEval + 'e> for Dszog {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        let Settings { directions, mu, law, antithetic, .. } = self.settings;
        self.estimator.start(x.len(), directions, mu, law, antithetic)?;
        (self.s.begun, self.s.t) = (false, 0);
        self.s.w.clear();
        self.s.w.extend_from_slice(x);
        // Indices of constraints are stored as u32.
        let m = ev.num_constraints();
        u32::try_from(m).map_err(|_| Error::setting("number of constraints", m, format!("at most {}", u32::MAX)))?;
        // Reserve the maximum, because the number of distinct draws changes from step to step.
        let Settings { m2, m3, .. } = self.settings;
        self.constraints.clear();
        self.constraints.reserve(((self.estimator.count() + 1) * m2.min(m)).max(m3.min(m)));
        self.drawn.reserve(m2);
        self.times.reserve(m2.min(m));
        self.s.weights.reserve(m3.min(m));
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
