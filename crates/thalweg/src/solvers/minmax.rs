//! Common parts of the min-max solvers: settings of the weights, sampling by weight, sample losses, and weight updates. The steps
//! are in `bmd` and `pgsmd`, the weights themselves in `weights`.

pub(super) mod weights;

use super::Eval;
use super::inf_projection::{Iterates, choose_lazy};
use super::spg::check_positive;
use crate::eval::{LossReading, LossRowReading, SampleLossesView};
use crate::math::Rng;
use crate::math::lazy::DataRow;
use crate::sets::ChiSquare;
use crate::{Error, Result};
use weights::Weights;

/// Default eta_P times n^2: a sample with weight 1 / n and loss 1 gains a hundredth of its weight.
const USUAL_RAISE: f64 = 0.01;

/// Returns the step size of the weights.
pub(super) fn step_of_weights(eta_p: Option<f64>, samples: usize) -> f64 {
    let n = samples as f64;
    eta_p.unwrap_or(USUAL_RAISE / (n * n))
}

/// Settings common to both solvers.
pub(super) struct Common {
    pub(super) eta_p: Option<f64>,
    pub(super) eta_theta: f64,
    pub(super) rho: f64,
    pub(super) divergence: Option<f64>,
    pub(super) delta: f64,
    pub(super) tree: bool,
    pub(super) batch: usize,
}

impl Common {
    /// Checks every value.
    pub(super) fn check(&self) -> Result<()> {
        check_positive("eta_p", self.eta_p.unwrap_or(1.0))?;
        check_positive("eta_theta", self.eta_theta)?;
        if self.batch == 0 {
            return Err(Error::setting("batch", self.batch, "at least 1"));
        }
        self.set(1).map(|_| ())
    }

    /// Creates equal weights.
    pub(super) fn weights(&self, samples: usize) -> Result<Weights> {
        Ok(Weights::new(self.set(samples)?, self.tree))
    }

    fn set(&self, samples: usize) -> Result<ChiSquare> {
        check_positive("divergence", self.divergence.unwrap_or(1.0))?;
        ChiSquare::new(samples, self.divergence.map_or(self.rho, |bound| bound * samples as f64), self.delta)
    }
}

/// Implements what is common to both solvers; the output rule is their method `write_output`.
macro_rules! minmax_solver {
    ($solver:ty, $name:literal) => {
        impl Settings {
            fn common(&self) -> $crate::solvers::minmax::Common {
                let &Settings { eta_p, eta_theta, rho, divergence, delta, tree, batch, .. } = self;
                $crate::solvers::minmax::Common { eta_p, eta_theta, rho, divergence, delta, tree, batch }
            }
        }

        impl $solver {
            /// Creates a solver after checking the settings.
            pub fn new(settings: Settings) -> Result<Self> {
                Ok(Self { settings: settings.resolve()?, s: Saved::default(), drawn: StepSamples::default() })
            }

            /// Writes P.
            pub fn weights(&self, out: &mut [f64]) {
                if let Some(weights) = &self.s.weights {
                    out.iter_mut().enumerate().for_each(|(i, p)| *p = weights.weight(i));
                }
            }
        }

        impl Method for $solver {
            $crate::solvers::inf_projection::iterate_items!($name);

            fn output(&self, out: &mut [f64]) -> PointOrigin {
                self.write_output(out);
                PointOrigin::OutputRule
            }

            fn restore(&mut self, state: &State) -> Result<()> {
                self.s = state.unpack()?;
                Ok(())
            }
        }
    };
}
pub(super) use minmax_solver;

/// Returns the sample losses of the problem, or an error if it has none.
pub(super) fn demand<'a>(ev: &'a mut (dyn Eval + '_), method: &str) -> Result<SampleLossesView<'a>> {
    if ev.num_constraints() > 0 {
        return Err(Error::Problem(format!("{method} takes no constraints, but the problem has {}", ev.num_constraints())));
    }
    let losses = ev.sample_losses().ok_or_else(|| {
        Error::Problem(format!(
            "{method} needs losses of single samples; expected an objective that is the mean of one loss over rows without weights, \
             such as \"logistic\", or \"logistic + 0.1 * variance(logistic)\", which it takes as the same loss with weights of its own"
        ))
    })?;
    if losses.samples() == 0 {
        return Err(Error::Problem(format!("{method} needs at least 1 sample, but the problem has 0")));
    }
    Ok(losses)
}

/// Returns whether iterates are stored lazily.
pub(super) fn lazy(asked: Iterates, losses: &SampleLossesView, method: &str) -> Result<bool> {
    choose_lazy(asked, losses.features(), losses.dim(), losses.domain(), method)
}

pub(super) fn no_weights() -> Error {
    Error::Checkpoint("holds a run without weights".into())
}

/// Samples of a step and the updates they cause. Not part of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct StepSamples {
    /// Samples with their weights.
    samples: Vec<(u32, f64)>,
    /// Samples and the increases of their weights.
    pub(super) raises: Vec<(u32, f64)>,
    /// Samples and the step lengths along their rows.
    pub(super) moves: Vec<(u32, f64)>,
    /// Subgradient of the mean loss of the samples, for dense iterates.
    pub(super) d: Vec<f64>,
}

impl StepSamples {
    /// Draws `batch` samples i ~ P.
    pub(super) fn draw(&mut self, weights: &Weights, batch: usize, rng: &mut Rng) {
        self.samples.clear();
        for _ in 0..batch {
            let i = weights.find(rng.uniform());
            self.samples.push((i as u32, weights.weight(i)));
        }
    }

    /// Evaluates the losses at a dense point.
    pub(super) fn visit(&mut self, losses: &mut LossReading, x: &[f64], eta_p: f64) -> Result<()> {
        let share = 1.0 / self.samples.len() as f64;
        self.raises.clear();
        self.d.fill(0.0);
        for &(i, p) in &self.samples {
            let v = losses.add_loss(x, i as usize, share, &mut self.d)?;
            self.raises.push((i, eta_p * share * v / p));
        }
        losses.add_common(x, &mut self.d);
        Ok(())
    }

    /// Evaluates the losses at scores; `step` is the step size along the mean of the subgradients.
    pub(super) fn visit_rows(
        &mut self,
        rows: &mut LossRowReading,
        mut score: impl FnMut(DataRow) -> f64,
        eta_p: f64,
        step: f64,
    ) -> Result<()> {
        let share = 1.0 / self.samples.len() as f64;
        self.raises.clear();
        self.moves.clear();
        for &(i, p) in &self.samples {
            let score = score(rows.row(i as usize));
            let (v, slope) = rows.loss(i as usize, score)?;
            self.raises.push((i, eta_p * share * v / p));
            self.moves.push((i, -step * share * slope));
        }
        Ok(())
    }

    /// Returns the nonzero steps along rows.
    pub(super) fn moves(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.moves.iter().copied().filter(|(_, amount)| *amount != 0.0)
    }
}
