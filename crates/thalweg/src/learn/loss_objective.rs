//! Recognition of objectives that are built from the losses of single rows, which some solvers exploit. The forms themselves
//! are in `inf_projection.rs` and `sample_losses.rs`.

use std::sync::Arc;

use super::function::Piece;
use super::inf_projection::{Form, LossForm, Sampled};
use super::loss::Loss;
use super::penalty::{Convex, Penalty};
use super::population::Population;
use super::problem::Learning;
use super::sample_losses::RowLosses;
use super::term::{LossStatistic, OfLosses};
use crate::oracle::Values;

/// A term of a loss: its factor, the loss, what is made of it, and the population.
type LossTerm = (f64, Loss, LossStatistic, usize);

/// See [`Learning::find_losses`].
struct FoundLosses {
    mean: Option<LossTerm>,
    spread: Option<LossTerm>,
    penalties: Vec<(f64, Penalty)>,
}

impl Learning {
    /// What the objective is made of, if that is at most one mean loss, at most one other term of a loss, and penalties. None for
    /// every other objective, and with constraints.
    fn find_losses(&self) -> Option<FoundLosses> {
        if !self.constraints.is_empty() {
            return None;
        }
        let (mut mean, mut spread, mut penalties) = (None, None, vec![]);
        for s in &self.objective.pieces {
            match &s.piece {
                Piece::Penalty(penalty) => penalties.push((s.factor, *penalty)),
                Piece::Term(term) => {
                    let OfLosses { loss, how } = term.of_losses()?;
                    let [population] = s.populations[..] else { return None };
                    let place = if how == LossStatistic::Mean { &mut mean } else { &mut spread };
                    if place.replace((s.factor, loss, how, population)).is_some() {
                        return None;
                    }
                }
            }
        }
        Some(FoundLosses { mean, spread, penalties })
    }

    /// The objective as losses of single samples: a mean loss, alone or with the variance of the same loss over the same rows;
    /// beside it only penalties that are convex. None where rows have weights: equal weights are then not what the mean has.
    pub(super) fn find_row_losses(&self) -> Option<RowLosses> {
        let FoundLosses { mean, spread, penalties } = self.find_losses()?;
        let (factor, loss, _, p) = mean?;
        let varies = |how| matches!(how, LossStatistic::Variance | LossStatistic::Deviation { .. });
        if spread.is_some_and(|(_, of_spread, how, q)| !varies(how) || of_spread != loss || q != p) {
            return None;
        }
        let (rows, penalties) = (self.sampled(p), Convex::of(penalties)?);
        let domain = Arc::clone(&self.domain);
        rows.weights.is_none().then_some(RowLosses { rows, loss, factor, penalties, domain })
    }

    /// The objective as an inf-projection problem: a loss and the variance of the same loss over the same rows, or a self-paced
    /// loss alone; beside it only penalties that are convex. None for every other objective, and with constraints.
    pub(super) fn find_loss_form(&self) -> Option<LossForm> {
        let FoundLosses { mean, spread, penalties } = self.find_losses()?;
        let (b, loss, how, p) = spread?;
        let (a, form) = match how {
            LossStatistic::Mean => return None,
            LossStatistic::SelfPaced { threshold, softness } if mean.is_none() => (b, Form::SelfPaced { threshold, softness }),
            LossStatistic::SelfPaced { .. } => return None,
            LossStatistic::Variance | LossStatistic::Deviation { .. } => {
                let (a, ..) = mean.filter(|&(_, of_mean, _, q)| of_mean == loss && q == p)?;
                match how {
                    // At 0 all losses are equal. The best alpha is that of a variance of 1.
                    LossStatistic::Deviation { rows } => (a, Form::Deviation { factor: b, profiled_scalar: rows.sqrt(), rows }),
                    _ => (a, Form::Variance(b)),
                }
            }
        };
        LossForm::new(self.sampled(p), (a, loss), form, penalties, Arc::clone(&self.domain), self.fingerprint())
    }

    /// The rows of a population.
    fn sampled(&self, population: usize) -> Sampled {
        let Population { part, members, weights, .. } = &self.populations[population];
        Sampled {
            data: Arc::clone(&self.data),
            intercept: self.intercept,
            begin: self.parts[*part].start,
            length: self.parts[*part].len(),
            members: members.as_deref().map(Arc::from),
            weights: weights.as_deref().map(Arc::from),
        }
    }
}
