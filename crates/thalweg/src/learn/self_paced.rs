//! Self-paced learning: rows with a large loss get a small weight or none, and return as the model improves. The losses are in
//! `loss.rs`, the form with one variable per row in `inf_projection.rs`.

use super::loss::{Loss, by_blocks, fill_by_blocks};
use super::term::{Constant, LossFunction, LossStatistic, Part, RowNorms, Subpopulation, Term, View, Work};
use crate::math::reduce::{self, Chunks};
use crate::math::vec;
use crate::{Error, Result};

/// Self-paced loss: `mean over rows of min over v in [0, 1] of v l - v / age + (softness / 2) v^2`. A row with a loss of at
/// least `1 / age` has weight v = 0, one with a loss of at most `1 / age - softness` has weight 1.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfPaced {
    loss: Loss,
    on: Subpopulation,
    /// 1 / age.
    threshold: f64,
    softness: f64,
}

impl SelfPaced {
    /// Builds the term for a loss over the rows `on`.
    pub fn new(loss: Loss, on: Subpopulation, age: f64, softness: f64) -> Result<Self> {
        for (name, value) in [("age", age), ("softness", softness)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(format!("{name} of self_paced"), value, "a finite number above 0"));
            }
        }
        Ok(SelfPaced { loss, on, threshold: 1.0 / age, softness })
    }

    /// Returns the weight v of a row with this loss, the minimiser.
    fn share(&self, loss: f64) -> f64 {
        ((self.threshold - loss) / self.softness).clamp(0.0, 1.0)
    }

    /// Returns the contribution of a row with this loss.
    fn part(&self, loss: f64) -> f64 {
        let v = self.share(loss);
        v * (loss - self.threshold + 0.5 * self.softness * v)
    }
}

impl Term for SelfPaced {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Losses, vec![self.on])
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.loss = self.loss.bound(populations.first().map_or(1.0, |p| p.weight));
    }

    fn loss_function(&self) -> Option<LossFunction> {
        let statistic = LossStatistic::SelfPaced { threshold: self.threshold, softness: self.softness };
        Some(LossFunction { loss: self.loss, statistic })
    }

    fn measure(&self, _: usize, view: View, work: &mut Work, out: &mut [f64]) {
        let chunks = Chunks::of(view.scores.len());
        work.slots.resize(chunks.count(), 0.0);
        let slots = &mut work.slots[..chunks.count()];
        reduce::for_each_chunk(chunks, slots, |_, range, slot| {
            slot[0] = 0.0;
            by_blocks(self.loss, view, range, |first, l, _| {
                slot[0] += vec::sum_by(l.len(), |k| view.weight(first + k) * self.part(l[k]));
            });
        });
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
        // By the envelope theorem the derivative with respect to the loss is v.
        fill_by_blocks(self.loss, view, out, |l| weights[0] * self.share(l));
    }

    fn modulus(&self, populations: &[RowNorms], _: Constant) -> Option<f64> {
        // A row's contribution is a concave function of l whose derivative v is in [0, 1] and changes by at most 1 / softness,
        // so it lies below its tangent by at most (change of l)^2 / (2 softness). The curvature of l itself is multiplied by v.
        let steepness = self.loss.steepness();
        Some((steepness * steepness / self.softness + self.loss.curvature()) * populations.first()?.mean_square)
    }

    fn minimum(&self) -> f64 {
        // The contribution increases with the loss, which is at least 0.
        self.part(0.0)
    }
}
