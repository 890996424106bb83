//! The largest gap between the score distributions of groups over a grid of thresholds.

use super::gap::{Contrast, NOISE, share_above, weigh};
use super::term::{Constant, Part, RowNorms, Term, View, Who, Work};
use crate::Result;
use crate::math::sigmoid::{self, SigmoidMeans};

/// `max over thresholds of |mean_p sigmoid(score - threshold) - mean_u sigmoid(score - threshold)|`; with more than two
/// groups, each against the overall mean.
#[derive(Debug)]
pub struct RocGap {
    populations: Vec<Who>,
    thresholds: Vec<f64>,
    temperature: f64,
    means: SigmoidMeans,
    contrast: Contrast,
}

impl RocGap {
    /// `count` equally spaced thresholds from `low` to `high`, both included.
    pub fn new(groups: u32, count: usize, low: f64, high: f64, temperature: f64) -> Result<Self> {
        let step = |j: usize| if count == 1 { 0.0 } else { j as f64 / (count - 1) as f64 };
        let thresholds: Vec<f64> = (0..count).map(|j| low + (high - low) * step(j)).collect();
        Ok(RocGap {
            populations: (0..groups).map(Who::Group).collect(),
            means: SigmoidMeans::new(thresholds.clone(), temperature)?,
            thresholds,
            temperature,
            contrast: Contrast::default(),
        })
    }

    /// The index of the threshold with the largest gap and the signed gap there, from the statistics.
    pub fn winner(&self, statistics: &[f64]) -> Option<(usize, f64)> {
        self.largest(statistics).map(|l| (l.position, l.gap))
    }

    fn largest(&self, statistics: &[f64]) -> Option<super::gap::Largest> {
        let width = self.thresholds.len();
        self.contrast.largest(width, |k, j| statistics[k * width + j])
    }
}

impl Term for RocGap {
    fn populations(&self) -> (Part, Vec<Who>) {
        (Part::Gaps, self.populations.clone())
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.contrast = Contrast::new(populations);
    }

    fn sharpen(&mut self, factor: f64) -> bool {
        let temperature = self.temperature * factor;
        // The thresholds were good before; only a temperature that underflows can be refused.
        match SigmoidMeans::new(self.thresholds.clone(), temperature) {
            Ok(means) => (self.temperature, self.means) = (temperature, means),
            Err(_) => return false,
        }
        true
    }

    fn width(&self) -> usize {
        self.thresholds.len()
    }

    fn measure(&self, _: usize, view: View, work: &mut Work, out: &mut [f64]) {
        self.means.means(view.scores, view.weights, out, &mut work.sigmoid);
    }

    fn count(&self, _: usize, view: View, out: &mut [f64]) -> bool {
        out.iter_mut().zip(&self.thresholds).for_each(|(out, &threshold)| *out = share_above(view, threshold));
        true
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        self.largest(statistics).map_or(0.0, |l| l.gap.abs())
    }

    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        if let Some(l) = self.largest(statistics).filter(|l| l.gap.abs() > NOISE) {
            let width = self.thresholds.len();
            for k in 0..self.populations.len() {
                out[k * width + l.position] = l.gap.signum() * self.contrast.coefficient(l.row, k);
            }
        }
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        // Only the winning threshold carries weight: one exact pass. (A recursive estimator may weigh several.)
        let mut weighted = weights.iter().zip(&self.thresholds).filter(|(w, _)| **w != 0.0);
        match weighted.next() {
            None => out.fill(0.0),
            Some((w, &threshold)) => sigmoid::slopes_at(view.scores, threshold, self.temperature, *w, out),
        }
        for (w, &threshold) in weighted {
            for (out, s) in out.iter_mut().zip(view.scores) {
                *out += w * sigmoid::sigmoid_slope((s - threshold) / self.temperature) / self.temperature;
            }
        }
        weigh(view, out);
    }

    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64> {
        Some(self.contrast.modulus(populations, which, self.temperature))
    }
}
