//! PGSMD: stages of BMD with a proximal term, for weakly convex losses. The parts shared with BMD are in `minmax`.

use serde::{Deserialize, Serialize};

use super::inf_projection::{Iterate, Iterates, StagePoint, check_norm};
use super::minmax::weights::Weights;
use super::minmax::{self, StepSamples, minmax_solver};
pub use super::output::Output;
use super::spg::{ProxStep, check_positive};
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::Result;
use crate::estimate::Reservoir;
use crate::math::rng::Purpose;
use crate::math::vec;

/// Initial weights of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Equal weights.
    #[default]
    Uniform,
    /// The final weights of the previous stage.
    Carry,
}

/// Settings of [`Pgsmd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step size eta_P of the weights, divided by s + 2 in stage s. By default 0.01 / n^2 for n samples.
    pub eta_p: Option<f64>,
    /// Step size eta_theta of the variables, divided by s + 2 in stage s. Default 0.1.
    pub eta_theta: f64,
    /// Weak-convexity constant of the losses: the proximal term is `rho_wc ||theta - centre||^2`. Default 1.
    pub rho_wc: f64,
    /// Bound on the distance of the weights from equal ones: `(n^2 / 2) ||P - 1/n||^2 <= rho`. Default 1.
    pub rho: f64,
    /// rho / n, in place of `rho`: a bound on the chi-square divergence of P from equal weights that does not depend on n.
    pub divergence: Option<f64>,
    /// Lower bound on the weights, times n: no weight is below delta / n. Default 1e-5.
    pub delta: f64,
    /// Whether weights are stored in a tree, so that a step costs O(log n), or in an array. Default true.
    pub tree: bool,
    /// Samples per step. Default 1.
    pub batch: usize,
    /// Initial weights of a stage: "uniform" (default), or "carry" for those of the previous stage.
    pub restart: Restart,
    /// "last" (default), or "random": the centre of a stage drawn uniformly.
    pub output: Output,
    /// Storage of iterates: "auto" (default), "dense" or "lazy".
    pub iterates: Iterates,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eta_p: None,
            eta_theta: 0.1,
            rho_wc: 1.0,
            rho: 1.0,
            divergence: None,
            delta: 1e-5,
            tree: true,
            batch: 1,
            restart: Restart::Uniform,
            output: Output::Last,
            iterates: Iterates::Auto,
        }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        check_positive("rho_wc", self.rho_wc)?;
        self.common().check()?;
        Ok(self)
    }
}

/// PGSMD, the proximally guided stochastic mirror descent method of Rafique, Liu, Lin and Yang.
///
/// **Problem.** `min_theta max_P sum_i P_i l_i(theta)` over a simple set, with P in a [`ChiSquare`](crate::sets::ChiSquare) set
/// and the losses from [`SampleLosses`](crate::oracle::SampleLosses). There are no constraints.
///
/// **Assumptions.** Weakly convex losses with constant rho_wc, bounded subgradients and values.
///
/// **Iteration.** Stage s = 0, 1, … takes `(s + 2)^2` steps from its centre c: draw i from P, update `P = proj(W)` as in
/// [`Bmd`](super::Bmd) with `eta_P / (s + 2)`, and with `e = eta_theta / (s + 2)` set
/// `theta = proj((theta / e + 2 rho_wc c - grad l_i(theta)) / (1 / e + 2 rho_wc))`. The next centre is the mean of the iterates
/// before each step, theta_0 = c to theta_{J-1} for J steps: the points at which the losses are sampled.
///
/// **Guarantee.** The paper proves that the centre of a random stage, `output = "random"`, is near-stationary in expectation. Its
/// constants are not repeated here, and there is no plan.
///
/// **Deviations.** The default output is the last centre, as in the paper's plots. The comparison of Yan and others does not state
/// which iterates a stage averages; the mean over those after each step would differ by (theta_J - theta_0) / J. Tree and
/// penalties are as for BMD.
///
/// **Settings.** [`Settings`]: eta_p, eta_theta, rho_wc, rho, divergence, delta, tree, batch, restart, output, iterates.
///
/// **Reference.** Rafique, Liu, Lin and Yang, *Non-convex min-max optimization: provable algorithms and applications in machine
/// learning*; as compared in Yan, Xu, Zhang, Wang and Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug)]
pub struct Pgsmd {
    settings: Settings,
    s: Saved,
    drawn: StepSamples,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Stage s, from 0.
    stage: u64,
    /// Completed steps of this stage.
    step: u64,
    x: StagePoint,
    weights: Option<Weights>,
    reservoir: Reservoir,
    radius: f64,
}

impl Pgsmd {
    /// Returns the current stage, from 0.
    pub fn stage(&self) -> u64 {
        self.s.stage
    }

    fn take_step(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Settings { eta_p, eta_theta, rho_wc, batch, .. } = self.settings;
        let Saved { stage, x, weights, radius, .. } = &mut self.s;
        let weights = weights.as_mut().ok_or_else(minmax::no_weights)?;
        let drawn = &mut self.drawn;
        drawn.draw(weights, batch, ev.rng(Purpose::Sampling));
        let mut losses = minmax::demand(ev, "pgsmd")?;
        let slower = *stage as f64 + 2.0;
        let (eta_p, e) = (minmax::step_of_weights(eta_p, losses.samples()) / slower, eta_theta / slower);
        let mut losses = losses.subgradient();
        // (theta / e + 2 rho_wc c - d) / (1 / e + 2 rho_wc)
        let pull = 1.0 + 2.0 * rho_wc * e;
        let step = ProxStep { centre: 2.0 * rho_wc * e / pull, last: 1.0 / pull, slope: e / pull };
        match x {
            StagePoint::Plain(plain) => {
                drawn.visit(&mut losses, &plain.z, eta_p)?;
                plain.propose(step, &mut drawn.d);
                ev.project(&mut drawn.d)?;
                super::check_iterate(&drawn.d)?;
                check_norm(vec::norm(&drawn.d), *radius, "eta_theta", eta_theta, "large")?;
                weights.raise(&drawn.raises)?;
                plain.take(&mut drawn.d, (1.0, 0.0));
            }
            StagePoint::Lazy(lazy) => {
                let mut rows = losses.rows()?;
                drawn.visit_rows(&mut rows, |row| lazy.scores(row).1, eta_p, step.slope)?;
                check_norm(lazy.norm(), *radius, "eta_theta", eta_theta, "large")?;
                weights.raise(&drawn.raises)?;
                lazy.weigh(1.0);
                lazy.advance(step.centre, step.last - step.slope * rows.ridge());
                for (i, amount) in drawn.moves() {
                    lazy.add(rows.row(i as usize), amount);
                }
                lazy.project(*radius);
            }
        }
        Ok(())
    }

    fn write_output(&self, out: &mut [f64]) {
        match (self.settings.output, self.s.reservoir.get()) {
            (Output::Random, Some((_, kept))) => out.copy_from_slice(kept),
            _ => self.s.x.write(out),
        }
    }
}

minmax_solver!(Pgsmd, "pgsmd");

impl<'e> Solver<dyn Eval + 'e> for Pgsmd {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let losses = minmax::demand(ev, "pgsmd")?;
        let Settings { output, iterates, .. } = self.settings;
        let lazy = minmax::lazy(iterates, &losses, "pgsmd")?;
        self.s = Saved {
            stage: 0,
            step: 0,
            x: StagePoint::start(x, lazy, false),
            weights: Some(self.settings.common().weights(losses.samples())?),
            reservoir: Reservoir::default(),
            radius: losses.domain().ball_around_origin().unwrap_or(f64::MAX),
        };
        self.s.reservoir.reset(if output == Output::Random { x.len() } else { 0 });
        self.drawn.d.resize(if lazy { 0 } else { x.len() }, 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)?;
        let s = &mut self.s;
        s.step += 1;
        // J_s = (s + 2)^2
        if s.step == (s.stage + 2).saturating_mul(s.stage + 2) {
            if let StagePoint::Lazy(lazy) = &s.x {
                // The average is finite if the iterates are.
                check_norm(lazy.norm(), s.radius, "eta_theta", self.settings.eta_theta, "large")?;
            }
            s.x.close();
            (s.stage, s.step) = (s.stage + 1, 0);
            if let (Restart::Uniform, Some(weights)) = (self.settings.restart, &mut s.weights) {
                weights.reset();
            }
            if self.settings.output == Output::Random {
                let Saved { stage, x, reservoir, .. } = s;
                reservoir.offer_by(*stage, 1.0, ev.rng(Purpose::Output), |out| x.write(out));
            }
        }
        Ok(Step { kind: StepKind::Objective, finished: false })
    }
}
