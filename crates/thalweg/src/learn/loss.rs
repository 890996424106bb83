//! Mean losses over labelled rows: hinge and logistic.

use super::term::{Constant, Part, RowNorms, Term, View, Who, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::sigmoid::{log1p_exp, sigmoid};
use crate::math::vec;

/// A loss as a function of the margin, label times score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// `max(0, 1 - margin)`; slope 0 at the kink.
    Hinge,
    /// `log(1 + exp(-margin))`.
    Logistic,
}

impl Loss {
    /// Value at a margin.
    #[inline(always)]
    pub fn value(self, margin: f64) -> f64 {
        match self {
            Loss::Hinge => (1.0 - margin).max(0.0),
            Loss::Logistic => log1p_exp(-margin),
        }
    }

    /// Derivative by the margin.
    #[inline(always)]
    pub fn slope(self, margin: f64) -> f64 {
        match self {
            Loss::Hinge => {
                if 1.0 - margin > 0.0 {
                    -1.0
                } else {
                    0.0
                }
            }
            Loss::Logistic => -sigmoid(-margin),
        }
    }
}

/// The mean of a loss over a population.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanLoss {
    /// Which loss.
    pub loss: Loss,
    /// Over which rows.
    pub on: Who,
}

impl Term for MeanLoss {
    fn populations(&self) -> (Part, Vec<Who>) {
        (Part::Losses, vec![self.on])
    }

    fn measure(&self, _: usize, view: View, work: &mut Work, out: &mut [f64]) {
        let chunks = Chunks::of(view.scores.len());
        work.slots.resize(chunks.count(), 0.0);
        // One monomorphic loop per loss and weighting: the match must not be inside.
        match (self.loss, view.weights) {
            (Loss::Hinge, None) => sum(chunks, &mut work.slots, view, |v, i| Loss::Hinge.value(v.labels[i] * v.scores[i])),
            (Loss::Logistic, None) => sum(chunks, &mut work.slots, view, |v, i| Loss::Logistic.value(v.labels[i] * v.scores[i])),
            (loss, Some(w)) => sum(chunks, &mut work.slots, view, move |v, i| w[i] * loss.value(v.labels[i] * v.scores[i])),
        }
        out[0] = 0.0;
        reduce::add_slots(&work.slots[..chunks.count()], out);
        out[0] /= view.scores.len() as f64;
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        statistics[0]
    }

    fn outer_slopes(&self, _: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        let factor = weights[0];
        match self.loss {
            Loss::Hinge => fill(view, factor, Loss::Hinge, out),
            Loss::Logistic => fill(view, factor, Loss::Logistic, out),
        }
    }

    fn modulus(&self, _: &[RowNorms], _: Constant) -> Option<f64> {
        Some(0.0)
    }
}

/// Chunked sum of `term(view, i)`.
fn sum(chunks: Chunks, slots: &mut [f64], view: View, term: impl Fn(View, usize) -> f64 + Sync + Copy) {
    reduce::for_each_chunk(chunks, &mut slots[..chunks.count()], |_, range, slot| {
        slot[0] = vec::sum_by(range.len(), |i| term(view, range.start + i));
    });
}

#[inline(always)]
fn fill(view: View, factor: f64, loss: Loss, out: &mut [f64]) {
    reduce::fill_rows(Chunks::of(view.scores.len()), out, |range, out| {
        let first = range.start;
        let (scores, labels) = (&view.scores[range.clone()], &view.labels[range]);
        for (i, ((out, s), y)) in out.iter_mut().zip(scores).zip(labels).enumerate() {
            *out = factor * view.weight(first + i) * y * loss.slope(y * s);
        }
    });
}
