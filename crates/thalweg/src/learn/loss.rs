//! Losses of labelled rows (hinge, logistic, Welsch and truncated logistic) and their means. Other functions of the losses of
//! rows are in `variance.rs` and `self_paced.rs`.

use std::ops::Range;

use super::term::{Constant, LossFunction, LossStatistic, Part, RowNorms, SmoothTerm, Subpopulation, Term, TermRow, View, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::sigmoid::{add_logistic_curvatures, log1p_exp, logistic_pass, sigmoid, sigmoid_slope};
use crate::math::vec;

/// A loss as a function of the margin, label times score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// `max(0, 1 - margin)`; slope 0 at the kink.
    Hinge,
    /// `log(1 + exp(-margin))`.
    Logistic,
    /// `c^2 (1 - exp(-(1 - margin)^2 / c^2))` for a scale c: the squared distance between score and label, saturating at c^2.
    Welsch(f64),
    /// [`truncate`] of the logistic loss with a scale A. Without a scale it is the logistic loss itself, until [`Loss::bound`]
    /// sets one from the number of rows.
    TruncatedLogistic(Option<f64>),
}

/// Computes `A log(1 + l / A)` of a loss l and its derivative with respect to l, `A / (A + l)`. Losses far below the scale A
/// are nearly unchanged, larger ones grow logarithmically.
#[inline(always)]
pub fn truncate(loss: f64, scale: f64) -> (f64, f64) {
    (scale * (loss / scale).ln_1p(), scale / (scale + loss))
}

/// Negative of the smallest second derivative of the Welsch loss: `4 exp(-3/2)`, at `(1 - margin)^2 = 1.5 c^2`.
const WELSCH_CURVATURE: f64 = 0.892_520_640_593_719_2;

impl Loss {
    /// Returns the value at a margin.
    #[inline(always)]
    pub fn value(self, margin: f64) -> f64 {
        match self {
            Loss::Hinge => (1.0 - margin).max(0.0),
            Loss::Logistic => log1p_exp(-margin),
            Loss::Welsch(c) => -c * c * (-(1.0 - margin) * (1.0 - margin) / (c * c)).exp_m1(),
            Loss::TruncatedLogistic(None) => Loss::Logistic.value(margin),
            Loss::TruncatedLogistic(Some(scale)) => truncate(Loss::Logistic.value(margin), scale).0,
        }
    }

    /// Returns the derivative with respect to the margin.
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
            Loss::TruncatedLogistic(None) => Loss::Logistic.slope(margin),
            Loss::TruncatedLogistic(Some(scale)) => {
                truncate(Loss::Logistic.value(margin), scale).1 * Loss::Logistic.slope(margin)
            }
        }
    }

    /// Returns the second derivative with respect to the margin; 0 for the hinge loss.
    #[inline(always)]
    pub fn bend(self, margin: f64) -> f64 {
        match self {
            Loss::Hinge => 0.0,
            Loss::Logistic | Loss::TruncatedLogistic(None) => sigmoid_slope(margin),
            Loss::Welsch(c) => {
                let square = (1.0 - margin) * (1.0 - margin) / (c * c);
                2.0 * (-square).exp() * (1.0 - 2.0 * square)
            }
            Loss::TruncatedLogistic(Some(scale)) => {
                let (factor, slope) = (truncate(Loss::Logistic.value(margin), scale).1, Loss::Logistic.slope(margin));
                factor * (sigmoid_slope(margin) - slope * slope * factor / scale)
            }
        }
    }

    /// Returns the loss with the default scale for this number of rows: `sqrt(10 n)` for the truncated logistic loss.
    pub fn bound(self, rows: f64) -> Self {
        match self {
            Loss::TruncatedLogistic(None) => Loss::TruncatedLogistic(Some((10.0 * rows).sqrt())),
            other => other,
        }
    }

    /// Returns the negative of a lower bound on the second derivative with respect to the margin; 0 for a convex loss.
    pub fn curvature(self) -> f64 {
        match self {
            Loss::Hinge | Loss::Logistic | Loss::TruncatedLogistic(None) => 0.0,
            Loss::Welsch(_) => WELSCH_CURVATURE,
            // With l the logistic loss and s = 1 - exp(-l) minus its slope, the second derivative is
            // A / (A + l) (s (1 - s) - s^2 / (A + l)), so it is at least -A s^2 / (A + l)^2. As s is at most min(l, 1), that is
            // at least -A / (A + 1)^2: for l below 1 because A l^2 / (A + l)^2 grows with l, above because A / (A + l)^2 falls.
            // And it is negative only where exp(l) > 1 + A + l, hence l > log(1 + A): there it is at least -A / (A + log(1 + A))^2.
            Loss::TruncatedLogistic(Some(scale)) => {
                let least = scale + scale.ln_1p().max(1.0);
                scale / least / least
            }
        }
    }

    /// Returns a bound on the absolute derivative with respect to the margin.
    pub fn steepness(self) -> f64 {
        match self {
            Loss::Hinge | Loss::Logistic | Loss::TruncatedLogistic(_) => 1.0,
            // 2 u exp(-u^2 / c^2) is largest where u^2 = c^2 / 2.
            Loss::Welsch(c) => c * (2.0 * (-1.0_f64).exp()).sqrt(),
        }
    }

    /// Computes values and derivatives with respect to the margin of consecutive rows starting at `first`, as many as the
    /// slices hold.
    pub(super) fn pass(self, view: View, first: usize, loss: &mut [f64], slope: &mut [f64]) {
        let scores = &view.scores[first..first + loss.len()];
        let labels = &view.labels[first..first + loss.len()];
        match self {
            Loss::Logistic | Loss::TruncatedLogistic(_) => {
                let mut z = [0.0; BLOCK];
                let rows = scores.chunks(BLOCK).zip(labels.chunks(BLOCK));
                for ((scores, labels), (loss, slope)) in rows.zip(loss.chunks_mut(BLOCK).zip(slope.chunks_mut(BLOCK))) {
                    let z = &mut z[..scores.len()];
                    z.iter_mut().zip(scores).zip(labels).for_each(|((z, s), y)| *z = -y * s);
                    logistic_pass(z, loss, slope);
                    match self {
                        Loss::TruncatedLogistic(Some(scale)) => loss.iter_mut().zip(slope).for_each(|(loss, slope)| {
                            let (value, factor) = truncate(*loss, scale);
                            (*loss, *slope) = (value, -factor * *slope);
                        }),
                        _ => slope.iter_mut().for_each(|slope| *slope = -*slope),
                    }
                }
            }
            Loss::Hinge | Loss::Welsch(_) => {
                for (((loss, slope), s), y) in loss.iter_mut().zip(slope).zip(scores).zip(labels) {
                    (*loss, *slope) = (self.value(y * s), self.slope(y * s));
                }
            }
        }
    }
}

/// Number of rows whose losses fit into the first-level cache.
pub(super) const BLOCK: usize = 256;

/// Calls `see` with the losses of a range of rows and their derivatives with respect to the margin, block by block, and the
/// first row of each block.
pub(super) fn by_blocks(loss: Loss, view: View, range: Range<usize>, mut see: impl FnMut(usize, &[f64], &[f64])) {
    let (mut values, mut slopes) = ([0.0; BLOCK], [0.0; BLOCK]);
    for first in range.clone().step_by(BLOCK) {
        let n = BLOCK.min(range.end - first);
        loss.pass(view, first, &mut values[..n], &mut slopes[..n]);
        see(first, &values[..n], &slopes[..n]);
    }
}

/// Mean of a loss over a population.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanLoss {
    /// The loss.
    pub loss: Loss,
    /// Rows that the mean is taken over.
    pub on: Subpopulation,
}

impl Term for MeanLoss {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Losses, vec![self.on])
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.loss = self.loss.bound(populations.first().map_or(1.0, |p| p.weight));
    }

    fn loss_function(&self) -> Option<LossFunction> {
        Some(LossFunction { loss: self.loss, statistic: LossStatistic::Mean })
    }

    fn measure(&self, _: usize, view: View, work: &mut Work, out: &mut [f64]) {
        let chunks = Chunks::of(view.scores.len());
        work.slots.resize(chunks.count(), 0.0);
        let slots = &mut work.slots[..chunks.count()];
        // One monomorphic loop per loss and weighting keeps the match out of the loop.
        match (self.loss, view.weights) {
            (Loss::Hinge, None) => sum(chunks, slots, |i| Loss::Hinge.value(view.labels[i] * view.scores[i])),
            (Loss::Hinge, Some(w)) => sum(chunks, slots, |i| w[i] * Loss::Hinge.value(view.labels[i] * view.scores[i])),
            (loss @ Loss::Welsch(_), _) => sum(chunks, slots, |i| view.weight(i) * loss.value(view.labels[i] * view.scores[i])),
            (loss @ (Loss::Logistic | Loss::TruncatedLogistic(_)), _) => {
                reduce::for_each_chunk(chunks, slots, |_, range, slot| slot[0] = sum_by_blocks(loss, view, range));
            }
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
            loss @ Loss::TruncatedLogistic(_) => fill_by_blocks(loss, view, out, |_| factor),
        }
    }

    fn modulus(&self, populations: &[RowNorms], _: Constant) -> Option<f64> {
        Some(self.loss.curvature() * populations.first()?.mean_square)
    }

    fn smooth(&self) -> Option<SmoothTerm> {
        let row = TermRow { coefficients: vec![(0, 1.0)], centre: None, constant: 0.0 };
        (self.loss != Loss::Hinge).then(|| SmoothTerm { rows: vec![row], steepness: self.loss.steepness() })
    }

    fn add_curvatures(&self, _: usize, view: View, weight: f64, out: &mut [f64]) {
        let loss = self.loss;
        reduce::fill_rows(Chunks::of(view.scores.len()), out, |range, out| {
            if loss == Loss::Logistic {
                // Even in the margin, so that labels do not matter.
                let weights = view.weights.map(|w| &w[range.clone()]);
                return add_logistic_curvatures(&view.scores[range], weights, weight, out);
            }
            for (i, out) in range.zip(out) {
                *out += weight * view.weight(i) * loss.bend(view.labels[i] * view.scores[i]);
            }
        });
    }
}

/// Computes a chunked sum of `term(i)`.
fn sum(chunks: Chunks, slots: &mut [f64], term: impl Fn(usize) -> f64 + Sync) {
    reduce::for_each_chunk(chunks, slots, |_, range, slot| {
        slot[0] = vec::sum_by(range.len(), |i| term(range.start + i));
    });
}

/// Computes the sum of the losses of a range of rows with the vectorised kernel.
fn sum_by_blocks(loss: Loss, view: View, range: Range<usize>) -> f64 {
    let mut total = 0.0;
    by_blocks(loss, view, range, |first, losses, _| {
        total += vec::sum_by(losses.len(), |k| view.weight(first + k) * losses[k]);
    });
    total
}

/// Sets `out[i]` to the weight of row i times `factor` of its loss times the derivative of the loss with respect to the score.
pub(super) fn fill_by_blocks(loss: Loss, view: View, out: &mut [f64], factor: impl Fn(f64) -> f64 + Sync) {
    reduce::fill_rows(Chunks::of(view.scores.len()), out, |range, out| {
        let start = range.start;
        by_blocks(loss, view, range, |first, losses, slopes| {
            for (k, out) in out[first - start..][..losses.len()].iter_mut().enumerate() {
                let i = first + k;
                *out = factor(losses[k]) * view.weight(i) * view.labels[i] * slopes[k];
            }
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSES: [Loss; 6] = [
        Loss::Hinge,
        Loss::Logistic,
        Loss::Welsch(1.7),
        Loss::TruncatedLogistic(None),
        Loss::TruncatedLogistic(Some(0.3)),
        Loss::TruncatedLogistic(Some(20.0)),
    ];

    #[test]
    fn the_worked_truncation() {
        let (value, slope) = truncate(1.0, 1.0);
        assert!((value - std::f64::consts::LN_2).abs() < 1e-16 && slope == 0.5);
        // A large scale leaves the loss as it is.
        let (value, slope) = truncate(3.7, 1e12);
        assert!((value - 3.7).abs() < 1e-11 && (slope - 1.0).abs() < 1e-11);
        assert_eq!(Loss::TruncatedLogistic(None).value(0.4), Loss::Logistic.value(0.4));
        assert_eq!(Loss::TruncatedLogistic(None).bound(90.0), Loss::TruncatedLogistic(Some(30.0)));
        assert_eq!(Loss::TruncatedLogistic(Some(2.0)).bound(90.0), Loss::TruncatedLogistic(Some(2.0)));
    }

    #[test]
    fn curvature_and_steepness_hold_and_are_not_far_off() {
        for (loss, sharp) in [
            (Loss::Welsch(0.5), 0.999),
            (Loss::Welsch(3.0), 0.999),
            (Loss::TruncatedLogistic(Some(0.01)), 0.15),
            (Loss::TruncatedLogistic(Some(0.3)), 0.15),
            (Loss::TruncatedLogistic(Some(1.0)), 0.18),
            (Loss::TruncatedLogistic(Some(30.0)), 0.75),
            (Loss::TruncatedLogistic(Some(1e4)), 0.99),
        ] {
            let (mut least, mut steepest) = (0.0_f64, 0.0_f64);
            for i in 0..200_000 {
                let margin = -100.0 + 1e-3 * f64::from(i);
                let h = 1e-5;
                least = least.min((loss.slope(margin + h) - loss.slope(margin - h)) / (2.0 * h));
                steepest = steepest.max(loss.slope(margin).abs());
            }
            let (curvature, steepness) = (loss.curvature(), loss.steepness());
            assert!(-least <= curvature * (1.0 + 1e-6) + 1e-10, "{loss:?}: {least} {curvature}");
            assert!(-least >= sharp * curvature, "{loss:?}: {least} {curvature}");
            assert!(steepest <= steepness * (1.0 + 1e-12), "{loss:?}: {steepest} {steepness}");
        }
    }

    #[test]
    fn passes_give_the_scalar_values() {
        let scores: Vec<f64> = (0..700).map(|i| 0.05 * f64::from(i) - 17.0).collect();
        let labels: Vec<f64> = (0..700).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
        let view = View { scores: &scores, labels: &labels, weights: None };
        for loss in LOSSES {
            let (mut values, mut slopes) = (vec![0.0; 690], vec![0.0; 690]);
            loss.pass(view, 7, &mut values, &mut slopes);
            for i in 0..690 {
                let margin = labels[7 + i] * scores[7 + i];
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-14 * (1.0 + b.abs());
                assert!(near(values[i], loss.value(margin)) && near(slopes[i], loss.slope(margin)), "{loss:?} {margin}");
            }
        }
    }
}
