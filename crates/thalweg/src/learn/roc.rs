//! The largest gap between the score distributions of groups over a grid of thresholds. Gaps at the threshold 0 are in
//! `gap.rs`.

use super::gap::{Contrast, GroupComparison, NOISE, share_above, weigh};
use super::term::{Branch, Comparison, Constant, Part, Rates, RowNorms, Subpopulation, Term, View, Work};
use crate::Result;
use crate::math::sigmoid::{self, SigmoidMeans};

/// ROC gap: `max over thresholds of |mean_p sigmoid(score - threshold) - mean_u sigmoid(score - threshold)|`, also over all
/// pairs of groups, or over the differences between a group and all rows ([`GroupComparison`]).
#[derive(Debug)]
pub struct RocGap {
    populations: Vec<Subpopulation>,
    thresholds: Vec<f64>,
    temperature: f64,
    means: SigmoidMeans,
    contrast: Contrast,
}

impl RocGap {
    /// Uses `count` equally spaced thresholds from `low` to `high`, both included.
    pub fn new(groups: u32, count: usize, low: f64, high: f64, temperature: f64) -> Result<Self> {
        let step = |j: usize| if count == 1 { 0.0 } else { j as f64 / (count - 1) as f64 };
        let thresholds: Vec<f64> = (0..count).map(|j| low + (high - low) * step(j)).collect();
        Ok(RocGap {
            populations: (0..groups).map(Subpopulation::Group).collect(),
            means: SigmoidMeans::new(thresholds.clone(), temperature)?,
            thresholds,
            temperature,
            contrast: Contrast::default(),
        })
    }

    /// Sets which differences count. Default: those between groups.
    pub fn compare(mut self, comparison: GroupComparison) -> Self {
        self.contrast = Contrast::new(comparison, &[]);
        self
    }

    /// Returns the index of the threshold with the largest gap and the signed gap there, from the statistics.
    pub fn winner(&self, statistics: &[f64]) -> Option<(usize, f64)> {
        self.largest(statistics).map(|l| (l.position, l.gap))
    }

    fn largest(&self, statistics: &[f64]) -> Option<Branch> {
        let width = self.thresholds.len();
        self.contrast.largest(width, |k, j| statistics[k * width + j])
    }

    /// Returns the number of grid positions in half a temperature, over which a surrogate rate changes noticeably; at least 1.
    fn stride(&self) -> usize {
        let steps = self.thresholds.len().saturating_sub(1) as f64;
        let range = self.thresholds.last().unwrap_or(&0.0) - self.thresholds.first().unwrap_or(&0.0);
        // Equal thresholds give infinity and hence the longest stride.
        (0.5 * self.temperature * steps / range).round().max(1.0) as usize
    }
}

/// Score, group and weight of a row.
pub(super) struct Scored {
    pub(super) score: f64,
    pub(super) group: usize,
    pub(super) weight: f64,
}

/// Computes the largest difference, over all thresholds, between the fractions of groups with a score above the threshold: for
/// two groups the Kolmogorov-Smirnov distance of their scores. The fractions change only at scores, so that one sort and one
/// sweep from the highest score down visit all of them. `totals` are the weights of the groups. Sorts the rows.
pub(super) fn largest_measured_gap(rows: &mut [Scored], contrast: &Contrast, totals: &[f64]) -> f64 {
    if rows.iter().any(|row| row.score.is_nan()) {
        return f64::NAN;
    }
    rows.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
    let mut above = vec![0.0; totals.len()];
    let mut largest = 0.0_f64;
    // Equal scores lie on the same side of every threshold.
    for tied in rows.chunk_by(|a, b| a.score == b.score) {
        tied.iter().for_each(|row| above[row.group] += row.weight);
        largest = largest.max(contrast.largest(1, |k, _| above[k] / totals[k]).map_or(0.0, |l| l.value()));
    }
    largest
}

impl Term for RocGap {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Gaps, self.populations.clone())
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.contrast = Contrast::new(self.contrast.comparison(), populations);
    }

    fn scale_temperature(&mut self, factor: f64) -> bool {
        let temperature = self.temperature * factor;
        // The thresholds are valid; only a temperature that underflows is rejected.
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

    fn zero_one_rates(&self, _: usize, view: View, out: &mut [f64]) -> bool {
        out.iter_mut().zip(&self.thresholds).for_each(|(out, &threshold)| *out = share_above(view, threshold));
        true
    }

    fn rates(&self) -> Option<Rates<'_>> {
        Some(Rates { thresholds: &self.thresholds, temperature: self.temperature, comparison: Comparison::Gap(&self.contrast) })
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        self.largest(statistics).map_or(0.0, |l| l.value())
    }

    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]) {
        match self.largest(statistics).filter(|l| l.value() > NOISE) {
            None => out.fill(0.0),
            Some(largest) => self.branch_slopes(&largest, out),
        }
    }

    fn has_branches(&self) -> bool {
        self.thresholds.len() * self.contrast.rows() > 1
    }

    fn branches(&self, statistics: &[f64], limit: usize, out: &mut Vec<Branch>) {
        let width = self.thresholds.len();
        self.contrast.branches(width, self.stride(), |k, j| statistics[k * width + j], limit, out);
    }

    fn branch_slopes(&self, branch: &Branch, out: &mut [f64]) {
        out.fill(0.0);
        let width = self.thresholds.len();
        let set = |k: usize, slope| out[k * width + branch.position] = slope;
        self.contrast.set_slopes(branch.row, branch.gap.signum(), set);
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        // Usually only the largest gap's threshold has a weight and one exact pass suffices; a recursive estimator may weigh
        // several.
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
