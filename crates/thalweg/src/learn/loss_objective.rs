//! Recognises objectives that are built from the losses of single rows, a structure that some solvers exploit. The forms
//! themselves are in `inf_projection.rs` and `sample_losses.rs`.

use std::sync::Arc;

use super::function::Piece;
use super::inf_projection::{Form, LossForm, SampledRows};
use super::loss::Loss;
use super::penalty::{Convex, Penalty};
use super::population::Population;
use super::problem::Learning;
use super::sample_losses::RowLosses;
use super::term::{LossFunction, LossStatistic};
use crate::oracle::Description;

/// Factor, loss, statistic and population of a term of a loss.
type LossTerm = (f64, Loss, LossStatistic, usize);

/// Terms of an objective made of losses and penalties.
struct LossTerms {
    mean: Option<LossTerm>,
    spread: Option<LossTerm>,
    penalties: Vec<(f64, Penalty)>,
}

impl Learning {
    /// Returns the terms of an objective made of at most one mean loss, at most one other term of a loss, and penalties. `None`
    /// for every other objective, and for a problem with constraints.
    fn loss_terms(&self) -> Option<LossTerms> {
        if !self.constraints.is_empty() {
            return None;
        }
        let (mut mean, mut spread, mut penalties) = (None, None, vec![]);
        for s in &self.objective.pieces {
            match &s.piece {
                Piece::Penalty(penalty) => penalties.push((s.factor, penalty.clone())),
                Piece::Term(term) => {
                    let LossFunction { loss, statistic } = term.loss_function()?;
                    let [population] = s.populations[..] else { return None };
                    let slot = if statistic == LossStatistic::Mean { &mut mean } else { &mut spread };
                    if slot.replace((s.factor, loss, statistic, population)).is_some() {
                        return None;
                    }
                }
            }
        }
        Some(LossTerms { mean, spread, penalties })
    }

    /// Returns the objective as losses of single samples: a mean loss, alone or with the variance of the same loss over the
    /// same rows, plus convex penalties. `None` if rows have weights, since the samples are drawn uniformly.
    pub(super) fn find_row_losses(&self) -> Option<RowLosses> {
        let LossTerms { mean, spread, penalties } = self.loss_terms()?;
        let (factor, loss, _, p) = mean?;
        let varies = |statistic| matches!(statistic, LossStatistic::Variance | LossStatistic::Deviation { .. });
        if spread.is_some_and(|(_, of_spread, statistic, q)| !varies(statistic) || of_spread != loss || q != p) {
            return None;
        }
        let (rows, penalties) = (self.sampled(p), Convex::of(penalties)?);
        let domain = Arc::clone(&self.domain);
        rows.weights.is_none().then_some(RowLosses { rows, loss, factor, penalties, domain })
    }

    /// Returns the objective as an inf-projection problem: a loss and the variance of the same loss over the same rows, or a
    /// self-paced loss alone, plus convex penalties. `None` for every other objective, and for a problem with constraints.
    pub(super) fn find_loss_form(&self) -> Option<LossForm> {
        let LossTerms { mean, spread, penalties } = self.loss_terms()?;
        let (b, loss, statistic, p) = spread?;
        let (a, form) = match statistic {
            LossStatistic::Mean => return None,
            LossStatistic::SelfPaced { threshold, softness } if mean.is_none() => (b, Form::SelfPaced { threshold, softness }),
            LossStatistic::SelfPaced { .. } => return None,
            LossStatistic::Variance | LossStatistic::Deviation { .. } => {
                let (a, ..) = mean.filter(|&(_, of_mean, _, q)| of_mean == loss && q == p)?;
                match statistic {
                    // At 0 all losses are equal; start with the alpha of a variance of 1.
                    LossStatistic::Deviation { rows } => (a, Form::Deviation { factor: b, profiled_scalar: rows.sqrt(), rows }),
                    _ => (a, Form::Variance(b)),
                }
            }
        };
        LossForm::new(self.sampled(p), (a, loss), form, penalties, Arc::clone(&self.domain), self.fingerprint())
    }

    /// Returns the rows of a population.
    fn sampled(&self, population: usize) -> SampledRows {
        let Population { part, members, weights, .. } = &self.populations[population];
        SampledRows {
            data: Arc::clone(&self.data),
            intercept: self.intercept,
            begin: self.parts[*part].start,
            length: self.parts[*part].len(),
            members: members.as_deref().map(Arc::from),
            weights: weights.as_deref().map(Arc::from),
        }
    }
}
