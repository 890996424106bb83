//! The variance of a loss over rows, which penalises large errors on few rows. The losses are in `loss.rs`, the form with an
//! additional variable in `inf_projection.rs`.

use super::loss::{Loss, by_blocks, fill_by_blocks};
use super::term::{Constant, LossFunction, LossStatistic, Part, RowNorms, Subpopulation, Term, View, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::vec;

/// Variance `mean l^2 - (mean l)^2` over a population, or `sqrt(variance / n)` for its n rows.
///
/// The two means are the statistics. If all losses are nearly equal, their difference has few correct digits; it is never
/// reported below 0. The root has slope 0 if the variance is rounding error.
#[derive(Debug, Clone, PartialEq)]
pub struct Variance {
    /// The loss.
    pub loss: Loss,
    /// Rows that the variance is taken over.
    pub on: Subpopulation,
    /// Whether the term is `sqrt(variance / n)`.
    pub root: bool,
    /// n, set when the population is known.
    rows: f64,
}

impl Variance {
    /// Builds the variance of a loss over the rows `on`, or `sqrt(variance / n)` if `root` is set.
    pub fn new(loss: Loss, on: Subpopulation, root: bool) -> Self {
        Variance { loss, on, root, rows: 1.0 }
    }
}

/// Ratio of a variance to `mean l^2` below which it is rounding error.
const NOISE: f64 = 4.0 * f64::EPSILON;

fn variance(statistics: &[f64]) -> f64 {
    // `f64::max` would turn NaN into 0.
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

    fn loss_function(&self) -> Option<LossFunction> {
        let statistic = if self.root { LossStatistic::Deviation { rows: self.rows } } else { LossStatistic::Variance };
        Some(LossFunction { loss: self.loss, statistic })
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
        // The square of the mean is subtracted; its curvature grows with the mean, which is bounded only for a bounded loss.
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
