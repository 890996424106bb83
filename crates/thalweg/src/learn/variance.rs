//! The variance of a loss over rows: what a model pays beside the mean for being wrong by much on some rows. The loss itself is
//! in `loss.rs`, the form with one more variable that some methods want in `inf_projection.rs`.

use super::loss::{Loss, by_blocks, fill_by_blocks};
use super::term::{Constant, LossStatistic, OfLosses, Part, RowNorms, Subpopulation, Term, View, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::vec;

/// `mean l^2 - (mean l)^2` over a population, or `sqrt(variance / n)` for its n rows.
///
/// The two means are the statistics. Where all losses are nearly equal their difference has few digits left; it is never
/// reported below 0. The root has slope 0 where the variance is nothing but rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct Variance {
    /// Which loss.
    pub loss: Loss,
    /// Over which rows.
    pub on: Subpopulation,
    /// Whether it is the root, divided by the root of n.
    pub root: bool,
    /// n, once the population is known.
    rows: f64,
}

impl Variance {
    /// The variance of a loss over some rows, or its root over that of their number.
    pub fn new(loss: Loss, on: Subpopulation, root: bool) -> Self {
        Variance { loss, on, root, rows: 1.0 }
    }
}

/// A variance that is less than this share of `mean l^2` is rounding.
const NOISE: f64 = 4.0 * f64::EPSILON;

fn variance(statistics: &[f64]) -> f64 {
    // max would turn NaN into 0.
    let difference = statistics[1] - statistics[0] * statistics[0];
    if difference < 0.0 { 0.0 } else { difference }
}

impl Term for Variance {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Losses, vec![self.on])
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.rows = populations.first().map_or(1.0, |p| p.weight);
        self.loss = self.loss.bound(self.rows);
    }

    fn of_losses(&self) -> Option<OfLosses> {
        let how = if self.root { LossStatistic::Deviation { rows: self.rows } } else { LossStatistic::Variance };
        Some(OfLosses { loss: self.loss, how })
    }

    fn width(&self) -> usize {
        2
    }

    fn measure(&self, _: usize, view: View, work: &mut Work, out: &mut [f64]) {
        let chunks = Chunks::of(view.scores.len());
        work.slots.resize(2 * chunks.count(), 0.0);
        let slots = &mut work.slots[..2 * chunks.count()];
        reduce::for_each_chunk(chunks, slots, |_, range, slot| {
            slot.fill(0.0);
            by_blocks(self.loss, view, range, |first, l, _| {
                slot[0] += vec::sum_by(l.len(), |k| view.weight(first + k) * l[k]);
                slot[1] += vec::sum_by(l.len(), |k| view.weight(first + k) * l[k] * l[k]);
            });
        });
        out.fill(0.0);
        reduce::add_slots(slots, out);
        vec::scale(out, 1.0 / view.scores.len() as f64);
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        let variance = variance(statistics);
        if self.root { (variance / self.rows).sqrt() } else { variance }
    }

    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]) {
        let mut by_variance = 1.0;
        if self.root {
            let variance = variance(statistics);
            by_variance = if variance <= NOISE * statistics[1] { 0.0 } else { 0.5 / (self.rows * variance).sqrt() };
        }
        out[0] = -2.0 * statistics[0] * by_variance;
        out[1] = by_variance;
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        let (of_mean, of_square) = (weights[0], weights[1]);
        fill_by_blocks(self.loss, view, out, |l| of_mean + 2.0 * of_square * l);
    }

    fn modulus(&self, populations: &[RowNorms], _: Constant) -> Option<f64> {
        // The square of the mean is subtracted: its curvature grows with the mean, which only a bounded loss bounds.
        match self.loss {
            // With q the mean of squared norms, G the steepest slope, c^2 the bound and 2 the largest second derivative of l:
            // (l^2)'' = 2 l'^2 + 2 l l'' is at least -2 c^2 curvature, and the second derivative of (mean l)^2 along a
            // direction is at most 2 G^2 q + 2 c^2 2 q.
            Loss::Welsch(c) if !self.root => {
                let most = 2.0 * c * c * (self.loss.curvature() + 2.0) + 2.0 * self.loss.steepness() * self.loss.steepness();
                Some(most * populations.first()?.mean_square)
            }
            _ => None,
        }
    }
}
