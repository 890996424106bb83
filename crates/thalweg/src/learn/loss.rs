//! Mean losses over labelled rows: hinge, logistic, and a bounded one.

use std::ops::Range;

use super::term::{Constant, Part, RowNorms, Term, View, Who, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::sigmoid::{log1p_exp, logistic_pass, sigmoid};
use crate::math::vec;

/// A loss as a function of the margin, label times score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// `max(0, 1 - margin)`; slope 0 at the kink.
    Hinge,
    /// `log(1 + exp(-margin))`.
    Logistic,
    /// `c^2 (1 - exp(-(1 - margin)^2 / c^2))` for a scale c: the square of the distance between score and label, bounded by c^2.
    Welsch(f64),
}

/// The second derivative of the bounded loss is nowhere below minus this: `4 exp(-3/2)`, at `(1 - margin)^2 = 1.5 c^2`.
const WELSCH_CURVATURE: f64 = 0.892_520_640_593_719_2;

impl Loss {
    /// Value at a margin.
    #[inline(always)]
    pub fn value(self, margin: f64) -> f64 {
        match self {
            Loss::Hinge => (1.0 - margin).max(0.0),
            Loss::Logistic => log1p_exp(-margin),
            Loss::Welsch(c) => -c * c * (-(1.0 - margin) * (1.0 - margin) / (c * c)).exp_m1(),
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
            Loss::Welsch(c) => -2.0 * (1.0 - margin) * (-(1.0 - margin) * (1.0 - margin) / (c * c)).exp(),
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
        let slots = &mut work.slots[..chunks.count()];
        // One monomorphic loop per loss and weighting: the match must not be inside.
        match (self.loss, view.weights) {
            (Loss::Hinge, None) => sum(chunks, slots, |i| Loss::Hinge.value(view.labels[i] * view.scores[i])),
            (Loss::Hinge, Some(w)) => sum(chunks, slots, |i| w[i] * Loss::Hinge.value(view.labels[i] * view.scores[i])),
            (loss @ Loss::Welsch(_), _) => sum(chunks, slots, |i| view.weight(i) * loss.value(view.labels[i] * view.scores[i])),
            (Loss::Logistic, _) => reduce::for_each_chunk(chunks, slots, |_, range, slot| slot[0] = logistic_sum(view, range)),
        }
        out[0] = 0.0;
        reduce::add_slots(slots, out);
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
            Loss::Welsch(c) => fill(view, factor, Loss::Welsch(c), out),
        }
    }

    fn modulus(&self, populations: &[RowNorms], _: Constant) -> Option<f64> {
        match self.loss {
            Loss::Hinge | Loss::Logistic => Some(0.0),
            Loss::Welsch(_) => Some(WELSCH_CURVATURE * populations.first()?.mean_square),
        }
    }
}

/// Chunked sum of `term(i)`.
fn sum(chunks: Chunks, slots: &mut [f64], term: impl Fn(usize) -> f64 + Sync) {
    reduce::for_each_chunk(chunks, slots, |_, range, slot| {
        slot[0] = vec::sum_by(range.len(), |i| term(range.start + i));
    });
}

/// Sum of logistic losses, by the vector kernel on blocks that stay in the nearest cache.
fn logistic_sum(view: View, range: Range<usize>) -> f64 {
    const BLOCK: usize = 256;
    let (mut z, mut loss, mut slope) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
    let mut total = 0.0;
    for start in range.clone().step_by(BLOCK) {
        let n = BLOCK.min(range.end - start);
        for (k, z) in z[..n].iter_mut().enumerate() {
            *z = -view.labels[start + k] * view.scores[start + k];
        }
        logistic_pass(&z[..n], &mut loss[..n], &mut slope[..n]);
        total += vec::sum_by(n, |k| view.weight(start + k) * loss[k]);
    }
    total
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
