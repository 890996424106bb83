//! BMD: stochastic mirror descent for the worst case over sample weights, with the weights in a tree or an array. The parts
//! shared with PGSMD, the method for nonconvex losses, are in `minmax`.

use serde::{Deserialize, Serialize};

use super::inf_projection::{Iterate, Iterates, Point, check_norm};
use super::minmax::weights::Weights;
use super::minmax::{self, StepSamples, minmax_solver};
use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::estimate::RunningMean;
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::{Result, plan};

/// Output rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The last iterate.
    #[default]
    Last,
    /// The mean of all iterates before an update, as in the theorem.
    Average,
}

/// Settings of [`Bmd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Step size eta_P of the weights. By default 0.01 / n^2 for n samples.
    pub eta_p: Option<f64>,
    /// Step size eta_theta of the variables. Default 0.1.
    pub eta_theta: f64,
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
    /// "last" (default) or "average".
    pub output: Output,
    /// Storage of iterates: "auto" (default), "dense" or "lazy".
    pub iterates: Iterates,
    /// Constants from which both step sizes, rho and delta are computed, in place of the settings above.
    pub theory: Option<plan::bmd::Constants>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eta_p: None,
            eta_theta: 0.1,
            rho: 1.0,
            divergence: None,
            delta: 1e-5,
            tree: true,
            batch: 1,
            output: Output::Last,
            iterates: Iterates::Auto,
            theory: None,
        }
    }
}

impl Settings {
    /// Returns the step sizes of the plan, with the output rule that it assumes.
    pub fn theory(constants: &plan::bmd::Constants) -> Result<Self> {
        Settings { theory: Some(*constants), output: Output::Average, ..Settings::default() }.resolve()
    }

    /// Computes step sizes and set from the constants, if given, and checks every value.
    pub fn resolve(mut self) -> Result<Self> {
        if let Some(constants) = self.theory.take() {
            let (eta_theta, eta_p) = constants.steps()?;
            (self.eta_theta, self.eta_p) = (eta_theta, Some(eta_p));
            (self.rho, self.delta) = constants.set()?;
            self.divergence = None;
        }
        self.common().check()?;
        Ok(self)
    }
}

/// BMD, stochastic mirror descent on the worst case over weights, of Namkoong and Duchi.
///
/// **Problem.** `min_theta max_P sum_i P_i l_i(theta)` over a simple set, with P in a [`ChiSquare`](crate::sets::ChiSquare) set
/// and the losses from [`SampleLosses`](crate::oracle::SampleLosses). There are no constraints.
///
/// **Assumptions.** Convex losses with bounded subgradients and values.
///
/// **Iteration.** Draw i from P; `W = P` with `W_i += eta_P l_i(theta) / P_i`, an unbiased estimate of a step along all losses;
/// `P = proj(W)`; `theta = proj(theta - eta_theta grad l_i(theta))`. With a mini-batch both are means over several i.
///
/// **Guarantee.** With constant step sizes and `output = "average"`, the worst case after T steps is within
/// `(R G + l_max sqrt(2 rho / delta)) / sqrt(T)` of its minimum, see [`plan::bmd`].
///
/// **Deviations.** The default output is the last iterate, as in the paper's plots. With `tree` the weights are in a search tree
/// with one affine map for all, as in BMD-eff. The numbers are the same up to rounding, but a random number selects a different
/// sample. A penalty on theta is added to every subgradient but not to the losses.
///
/// **Settings.** [`Settings`]: eta_p, eta_theta, rho, divergence, delta, tree, batch, output, iterates, theory.
///
/// **Reference.** Namkoong and Duchi, *Stochastic gradient methods for distributionally robust optimization with f-divergences*;
/// as compared in Yan, Xu, Zhang, Wang and Yang, *Stochastic optimization for non-convex inf-projection problems*.
#[derive(Debug)]
pub struct Bmd {
    settings: Settings,
    s: Saved,
    drawn: StepSamples,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    x: Point,
    weights: Option<Weights>,
    /// Mean of dense iterates; lazy ones store their own.
    average: RunningMean,
    radius: f64,
}

impl Bmd {
    fn take_step(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let Settings { eta_p, eta_theta, batch, output, .. } = self.settings;
        let Saved { x, weights, average, radius } = &mut self.s;
        let weights = weights.as_mut().ok_or_else(minmax::no_weights)?;
        let drawn = &mut self.drawn;
        drawn.draw(weights, batch, ev.rng(Purpose::Sampling));
        let mut losses = minmax::demand(ev, "bmd")?;
        let eta_p = minmax::step_of_weights(eta_p, losses.samples());
        let mut losses = losses.subgradient();
        match x {
            Point::Plain(x) => {
                drawn.visit(&mut losses, x, eta_p)?;
                // theta - eta_theta d; d holds it until it is checked to be finite
                drawn.d.iter_mut().zip(x.iter()).for_each(|(d, x)| *d = x - eta_theta * *d);
                ev.project(&mut drawn.d)?;
                super::check_iterate(&drawn.d)?;
                check_norm(vec::norm(&drawn.d), *radius, "eta_theta", eta_theta, "large")?;
                // P = proj(W)
                weights.raise(&drawn.raises)?;
                if output == Output::Average {
                    average.add(x, 1.0);
                }
                std::mem::swap(x, &mut drawn.d);
            }
            Point::Lazy(x) => {
                let mut rows = losses.rows()?;
                drawn.visit_rows(&mut rows, |row| x.score(row), eta_p, eta_theta)?;
                check_norm(x.norm(), *radius, "eta_theta", eta_theta, "large")?;
                weights.raise(&drawn.raises)?;
                if output == Output::Average {
                    x.weigh(1.0);
                }
                x.shrink(1.0 - eta_theta * rows.ridge());
                for (i, amount) in drawn.moves() {
                    x.add(rows.row(i as usize), amount);
                }
                x.project(*radius);
            }
        }
        Ok(())
    }

    fn write_output(&self, out: &mut [f64]) {
        match (self.settings.output, self.s.average.get(), &self.s.x) {
            (Output::Average, Some(mean), _) => out.copy_from_slice(mean),
            (Output::Average, _, Point::Lazy(x)) => x.write_mean(out),
            (_, _, x) => x.write(out),
        }
    }
}

minmax_solver!(Bmd, "bmd");

impl<'e> Solver<dyn Eval + 'e> for Bmd {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let losses = minmax::demand(ev, "bmd")?;
        let Settings { output, iterates, .. } = self.settings;
        let lazy = minmax::lazy(iterates, &losses, "bmd")?;
        let averages = output == Output::Average;
        self.s = Saved {
            x: Point::start(x, lazy, averages),
            weights: Some(self.settings.common().weights(losses.samples())?),
            average: RunningMean::default(),
            radius: losses.domain().ball_around_origin().unwrap_or(f64::MAX),
        };
        self.s.average.reset(if averages && !lazy { x.len() } else { 0 });
        self.drawn.d.resize(if lazy { 0 } else { x.len() }, 0.0);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.take_step(ev)?;
        Ok(Step { kind: StepKind::Objective, finished: false })
    }
}
