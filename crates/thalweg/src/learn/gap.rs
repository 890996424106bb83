//! Gaps between the rates of groups, with a sigmoid as surrogate of the step function. Error rates are in `rate.rs`, gaps over
//! a grid of thresholds in `roc.rs`.

use serde::{Deserialize, Serialize};

use super::term::{Branch, Comparison, Constant, Part, Rates, RowNorms, SmoothTerm, Subpopulation, Term, TermRow, View, Work};
use crate::math::{sigmoid, vec};

/// Largest second derivative of the sigmoid, 1 / (6 sqrt 3).
pub(super) const MAX_SIGMOID_CURVATURE: f64 = 0.096_225_044_864_937_63;
/// Largest gap that counts as rounding error; its subgradient is zero.
pub(super) const NOISE: f64 = 1e-12;
/// Smallest ratio of a branch to the largest one for which a cut is worth a pass over the rows.
const NEAR: f64 = 0.5;

/// Implements the items of [`Term`] that are common to terms of positive rates: the statistic of a subpopulation is the mean of
/// `sigmoid(score / temperature)`, and its 0/1 rate is the share of scores above 0.
macro_rules! positive_rate_items {
    () => {
        fn scale_temperature(&mut self, factor: f64) -> bool {
            self.temperature *= factor;
            true
        }

        fn measure(&self, _: usize, view: View, _: &mut Work, out: &mut [f64]) {
            out[0] = crate::math::sigmoid::mean_at(view.scores, view.weights, 0.0, self.temperature);
        }

        fn zero_one_rates(&self, _: usize, view: View, out: &mut [f64]) -> bool {
            out[0] = $crate::learn::gap::share_above(view, 0.0);
            true
        }

        fn add_curvatures(&self, _: usize, view: View, weight: f64, out: &mut [f64]) {
            crate::math::sigmoid::add_curvatures_at(view.scores, view.weights, self.temperature, weight, out);
        }
    };
}
pub(super) use positive_rate_items;

/// Largest difference of positive rates between two groups, or between a group and all rows ([`GroupComparison`]). The
/// surrogate of a rate is the mean of `sigmoid(score / temperature)`.
#[derive(Debug, Clone, PartialEq)]
pub struct RateGap {
    populations: Vec<Subpopulation>,
    temperature: f64,
    contrast: Contrast,
}

impl RateGap {
    /// Compares the rates over all rows (demographic parity).
    pub fn demographic_parity(groups: u32, temperature: f64) -> Self {
        RateGap { populations: (0..groups).map(Subpopulation::Group).collect(), temperature, contrast: Contrast::default() }
    }

    /// Compares the rates over the rows with label +1 (equal opportunity).
    pub fn equal_opportunity(groups: u32, temperature: f64) -> Self {
        RateGap {
            populations: (0..groups).map(Subpopulation::GroupPositives).collect(),
            temperature,
            contrast: Contrast::default(),
        }
    }

    /// Sets which differences count. Default: those between groups.
    pub fn compare(mut self, comparison: GroupComparison) -> Self {
        self.contrast.comparison = comparison;
        self
    }
}

impl Term for RateGap {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Gaps, self.populations.clone())
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        self.contrast = Contrast::new(self.contrast.comparison, populations);
    }

    positive_rate_items!();

    fn rates(&self) -> Option<Rates<'_>> {
        Some(Rates { thresholds: &[0.0], temperature: self.temperature, comparison: Comparison::Gap(&self.contrast) })
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        self.contrast.largest(1, |k, _| statistics[k]).map_or(0.0, |l| l.value())
    }

    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]) {
        match self.contrast.largest(1, |k, _| statistics[k]).filter(|l| l.value() > NOISE) {
            None => out.fill(0.0),
            Some(largest) => self.branch_slopes(&largest, out),
        }
    }

    fn has_branches(&self) -> bool {
        self.contrast.rows() > 1
    }

    fn branches(&self, statistics: &[f64], limit: usize, out: &mut Vec<Branch>) {
        self.contrast.branches(1, 1, |k, _| statistics[k], limit, out);
    }

    fn branch_slopes(&self, branch: &Branch, out: &mut [f64]) {
        out.fill(0.0);
        self.contrast.set_slopes(branch.row, branch.gap.signum(), |k, slope| out[k] = slope);
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        sigmoid::slopes_at(view.scores, 0.0, self.temperature, weights[0], out);
        weigh(view, out);
    }

    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64> {
        Some(self.contrast.modulus(populations, which, self.temperature))
    }

    fn smooth(&self) -> Option<SmoothTerm> {
        Some(SmoothTerm { rows: self.contrast.smooth_rows(0, 0), steepness: sigmoid_steepness(self.temperature) })
    }
}

/// Equalised odds: the larger of the gap in true-positive rates and the gap in false-positive rates, each as in [`RateGap`]
/// over the rows of one label.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualisedOdds {
    groups: u32,
    temperature: f64,
    /// Contrasts of the rows with label +1 and of those with label -1.
    contrasts: [Contrast; 2],
}

impl EqualisedOdds {
    /// Compares the rates of `groups` groups.
    pub fn new(groups: u32, temperature: f64) -> Self {
        EqualisedOdds { groups, temperature, contrasts: Default::default() }
    }

    /// Sets which differences count. Default: those between groups.
    pub fn compare(mut self, comparison: GroupComparison) -> Self {
        self.contrasts.iter_mut().for_each(|contrast| contrast.comparison = comparison);
        self
    }

    /// Returns every difference of rates, those of the rows with label +1 first.
    fn differences(&self, statistics: &[f64]) -> impl Iterator<Item = Branch> {
        let [positives, negatives] = &self.contrasts;
        let first = (0..positives.rows()).map(move |row| positives.branch(row, 0, |k, _| statistics[k]));
        let second = (0..negatives.rows()).map(move |row| {
            let branch = negatives.branch(row, 0, |k, _| statistics[positives.groups() + k]);
            Branch { row: positives.rows() + row, ..branch }
        });
        first.chain(second)
    }

    /// Returns the largest difference; NaN precedes all others, and the first of equal ones is chosen.
    fn largest(&self, statistics: &[f64]) -> Option<Branch> {
        let [positives, negatives] = &self.contrasts;
        let first = positives.largest(1, |k, _| statistics[k]);
        let second = negatives.largest(1, |k, _| statistics[positives.groups() + k]);
        let second = second.map(|branch| Branch { row: positives.rows() + branch.row, ..branch });
        first.into_iter().chain(second).reduce(|best, here| {
            let replaces = !best.gap.is_nan() && (here.gap.is_nan() || here.value() > best.value());
            if replaces { here } else { best }
        })
    }
}

impl Term for EqualisedOdds {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        let groups = 0..self.groups;
        (Part::Gaps, groups.clone().map(Subpopulation::GroupPositives).chain(groups.map(Subpopulation::GroupNegatives)).collect())
    }

    fn bind(&mut self, populations: &[RowNorms]) {
        let (positives, negatives) = populations.split_at(populations.len() / 2);
        let comparison = self.contrasts[0].comparison;
        self.contrasts = [Contrast::new(comparison, positives), Contrast::new(comparison, negatives)];
    }

    positive_rate_items!();

    fn rates(&self) -> Option<Rates<'_>> {
        let [positives, negatives] = &self.contrasts;
        let comparison = Comparison::Larger([positives, negatives]);
        Some(Rates { thresholds: &[0.0], temperature: self.temperature, comparison })
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
        true
    }

    fn branches(&self, statistics: &[f64], limit: usize, out: &mut Vec<Branch>) {
        out.clear();
        let Some(top) = self.largest(statistics).filter(|top| top.value() > NOISE) else { return };
        for here in self.differences(statistics).filter(|b| b.row != top.row && b.value() >= NEAR * top.value()) {
            let rank = out.partition_point(|other| other.value() >= here.value());
            out.insert(rank, here);
            out.truncate(limit);
        }
    }

    fn branch_slopes(&self, branch: &Branch, out: &mut [f64]) {
        out.fill(0.0);
        let [positives, negatives] = &self.contrasts;
        let (first, second) = out.split_at_mut(positives.groups());
        let (contrast, row, out) = match branch.row.checked_sub(positives.rows()) {
            None => (positives, branch.row, first),
            Some(row) => (negatives, row, second),
        };
        contrast.set_slopes(row, branch.gap.signum(), |k, slope| out[k] = slope);
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        sigmoid::slopes_at(view.scores, 0.0, self.temperature, weights[0], out);
        weigh(view, out);
    }

    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64> {
        let (positives, negatives) = populations.split_at(populations.len() / 2);
        let [one, other] = &self.contrasts;
        Some(one.modulus(positives, which, self.temperature).max(other.modulus(negatives, which, self.temperature)))
    }

    fn smooth(&self) -> Option<SmoothTerm> {
        let [positives, negatives] = &self.contrasts;
        let mut rows = positives.smooth_rows(0, 0);
        rows.extend(negatives.smooth_rows(positives.groups(), 1));
        Some(SmoothTerm { rows, steepness: sigmoid_steepness(self.temperature) })
    }
}

/// Returns the largest derivative of `sigmoid(score / temperature)`.
pub(super) fn sigmoid_steepness(temperature: f64) -> f64 {
    0.25 / temperature
}

/// Computes the weighted fraction of rows with a score above `threshold`, those that a classifier with that threshold predicts
/// positive.
pub(super) fn share_above(view: View, threshold: f64) -> f64 {
    let weight = |i: usize| if view.scores[i] > threshold { view.weight(i) } else { 0.0 };
    vec::sum_by(view.scores.len(), weight) / view.scores.len() as f64
}

/// Multiplies `out` by the weights of the rows.
pub(super) fn weigh(view: View, out: &mut [f64]) {
    if let Some(weights) = view.weights {
        out.iter_mut().zip(weights).for_each(|(o, w)| *o *= w);
    }
}

/// Differences that a gap between groups is the largest of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupComparison {
    /// Each group with each other group: the largest rate minus the smallest.
    #[default]
    BetweenGroups,
    /// Each group with the overall rate, the mean of the groups' rates weighted by their fractions of the rows.
    ToOverall,
}

impl GroupComparison {
    /// Both comparisons.
    pub const ALL: [GroupComparison; 2] = [GroupComparison::BetweenGroups, GroupComparison::ToOverall];

    /// Returns the word of the argument `compare`.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupComparison::BetweenGroups => "between-groups",
            GroupComparison::ToOverall => "to-overall",
        }
    }

    /// Describes the gap in words.
    pub fn describe(self) -> &'static str {
        match self {
            GroupComparison::BetweenGroups => "largest difference between two groups",
            GroupComparison::ToOverall => "largest difference between a group and the overall rate",
        }
    }
}

/// Differences of group means that a gap compares, each a signed linear combination of these means: one for every pair of
/// groups, or one per group for its distance from the overall mean.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Contrast {
    comparison: GroupComparison,
    /// Fraction of each group in the total weight.
    shares: Vec<f64>,
}

impl Contrast {
    pub(super) fn new(comparison: GroupComparison, populations: &[RowNorms]) -> Self {
        let total: f64 = populations.iter().map(|p| p.weight).sum();
        Contrast { comparison, shares: populations.iter().map(|p| p.weight / total).collect() }
    }

    pub(super) fn comparison(&self) -> GroupComparison {
        self.comparison
    }

    pub(super) fn groups(&self) -> usize {
        self.shares.len()
    }

    /// Returns the number of differences.
    pub(super) fn rows(&self) -> usize {
        let groups = self.groups();
        match self.comparison {
            GroupComparison::BetweenGroups => groups * groups.saturating_sub(1) / 2,
            GroupComparison::ToOverall => groups,
        }
    }

    /// Returns the signed differences as rows of a smooth term; the statistics begin at `first`. The largest of all differences between
    /// more than two groups is `min_t max_k 2 |r_k - t|`, with a free variable of index `centre`: two rows per group, not per pair.
    pub(super) fn smooth_rows(&self, first: usize, centre: usize) -> Vec<TermRow> {
        if self.comparison == GroupComparison::BetweenGroups && self.groups() > 2 {
            let row =
                |k: usize, c: f64| TermRow { coefficients: vec![(first + k, c)], centre: Some((centre, -c)), constant: 0.0 };
            return (0..self.groups()).flat_map(|k| [row(k, 2.0), row(k, -2.0)]).collect();
        }
        let signed = |row: usize, sign: f64| {
            let coefficients = self.coefficients(row).map(|(k, c)| (first + k, sign * c)).filter(|(_, c)| *c != 0.0).collect();
            TermRow { coefficients, centre: None, constant: 0.0 }
        };
        (0..self.rows()).flat_map(|row| [signed(row, 1.0), signed(row, -1.0)]).collect()
    }

    /// Returns the groups i < j of difference `row` between two groups. Pairs are in the order (0, 1), (0, 2), (1, 2), (0, 3), …
    fn pair(row: usize) -> [usize; 2] {
        let j = usize::midpoint(1, (8 * row + 1).isqrt());
        [row - j * (j - 1) / 2, j]
    }

    /// Returns the groups whose coefficients in difference `row` are not 0, with these coefficients, in the order of the groups.
    pub(super) fn coefficients(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (pair, all) = match self.comparison {
            GroupComparison::BetweenGroups => (Self::pair(row), 0..0),
            GroupComparison::ToOverall => ([usize::MAX; 2], 0..self.groups()),
        };
        let pair = pair.into_iter().zip([1.0, -1.0]).filter(|(k, _)| *k != usize::MAX);
        pair.chain(all.map(move |k| (k, f64::from(u8::from(row == k)) - self.shares[k])))
    }

    /// Sets `slope(k)` to the derivative of a branch with respect to the mean of group `k`, for each group with a derivative
    /// other than 0.
    pub(super) fn set_slopes(&self, row: usize, sign: f64, mut set: impl FnMut(usize, f64)) {
        self.coefficients(row).for_each(|(k, c)| set(k, sign * c));
    }

    fn branch(&self, row: usize, position: usize, mean: impl Fn(usize, usize) -> f64) -> Branch {
        let gap = self.coefficients(row).map(|(k, c)| c * mean(k, position)).sum();
        Branch { row, position, gap }
    }

    /// Returns the largest absolute difference over `positions` positions, where `mean(k, position)` is the mean of group `k`.
    /// The first position wins ties, then the first difference to the overall mean, or the first groups with the largest and
    /// the smallest mean.
    pub(super) fn largest(&self, positions: usize, mean: impl Fn(usize, usize) -> f64) -> Option<Branch> {
        let mut best: Option<Branch> = None;
        for position in 0..positions {
            let here = match self.comparison {
                GroupComparison::BetweenGroups => self.range(position, &mean),
                GroupComparison::ToOverall => self.farthest(position, &mean),
            };
            let Some(here) = here else { continue };
            if best.is_none_or(|b| here.value() > b.value()) || here.gap.is_nan() {
                best = Some(here);
                if here.gap.is_nan() {
                    return best;
                }
            }
        }
        best
    }

    /// Returns the difference between the largest and the smallest mean. One pass over the groups replaces the search of all
    /// pairs.
    fn range(&self, position: usize, mean: impl Fn(usize, usize) -> f64) -> Option<Branch> {
        if self.groups() < 2 {
            return None;
        }
        let [mut most, mut least] = [(0, mean(0, position)); 2];
        for k in 1..self.groups() {
            let m = mean(k, position);
            if m > most.1 || m.is_nan() {
                most = (k, m);
            }
            if m < least.1 || m.is_nan() {
                least = (k, m);
            }
            if most.1.is_nan() {
                break;
            }
        }
        // Equal means, or NaN: a difference of two groups all the same.
        let [a, b] = if most.0 == least.0 { [0, most.0.max(1)] } else { [most.0, least.0] };
        let (i, j) = (a.min(b), a.max(b));
        Some(self.branch(j * (j - 1) / 2 + i, position, mean))
    }

    /// Returns the largest difference to the overall mean.
    fn farthest(&self, position: usize, mean: impl Fn(usize, usize) -> f64) -> Option<Branch> {
        (0..self.rows()).map(|row| self.branch(row, position, &mean)).reduce(|best, here| {
            let replaces = !best.gap.is_nan() && (here.gap.is_nan() || here.value() > best.value());
            if replaces { here } else { best }
        })
    }

    /// Selects branches other than the largest ([`Term::branches`]): first the peaks of every difference along the grid by
    /// value, since the maximum can jump to the next largest one; then the neighbours of the largest at 1, 2, 3, … times
    /// `stride` positions, since it can also move along the grid. Branches closer than half a stride to a selected one are
    /// redundant and skipped.
    pub(super) fn branches(
        &self,
        positions: usize,
        stride: usize,
        mean: impl Fn(usize, usize) -> f64,
        limit: usize,
        out: &mut Vec<Branch>,
    ) {
        out.clear();
        let Some(top) = self.largest(positions, &mean).filter(|top| limit > 0 && top.value() > NOISE) else { return };
        let floor = NEAR * top.value();
        let apart = stride.div_ceil(2);
        let same = |a: &Branch, b: &Branch| {
            a.row == b.row && a.gap.signum() == b.gap.signum() && a.position.abs_diff(b.position) < apart
        };
        for row in 0..self.rows() {
            for position in 0..positions {
                let here = self.branch(row, position, &mean);
                if here.value() < floor || same(&here, &top) {
                    continue;
                }
                // The sign is part of a branch: a larger difference of the other sign next to it is another peak. The first of
                // equal neighbours is the peak.
                let along = |position| here.gap.signum() * self.branch(row, position, &mean).gap;
                let rises = position == 0 || along(position - 1) < here.value();
                let falls = position + 1 == positions || along(position + 1) <= here.value();
                if !(rises && falls) {
                    continue;
                }
                match out.iter().position(|other| same(&here, other)) {
                    Some(i) if out[i].value() >= here.value() => continue,
                    Some(i) => {
                        out.remove(i);
                    }
                    None => {}
                }
                let rank = out.partition_point(|other| other.value() >= here.value());
                out.insert(rank, here);
                out.truncate(limit);
            }
        }
        for distance in (stride..positions).step_by(stride) {
            let below = top.position.checked_sub(distance);
            let above = top.position.checked_add(distance).filter(|&p| p < positions);
            for position in [below, above].into_iter().flatten() {
                let here = self.branch(top.row, position, &mean);
                if out.len() < limit && here.value() >= floor && !out.iter().any(|other| same(&here, other)) {
                    out.push(here);
                }
            }
        }
    }

    /// Returns the weak-convexity constant of the largest absolute difference of sigmoid means.
    pub(super) fn modulus(&self, populations: &[RowNorms], which: Constant, temperature: f64) -> f64 {
        let bend = match which {
            Constant::Sharp => MAX_SIGMOID_CURVATURE,
            Constant::AsPrinted => 1.0,
        };
        let largest = (0..self.rows())
            .map(|row| self.coefficients(row).map(|(k, c)| c.abs() * populations[k].mean_square).sum::<f64>())
            .fold(0.0, f64::max);
        bend * largest / (temperature * temperature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;

    fn contrast(groups: usize) -> Contrast {
        comparing(GroupComparison::BetweenGroups, groups)
    }

    fn comparing(comparison: GroupComparison, groups: usize) -> Contrast {
        Contrast::new(comparison, &vec![RowNorms { weight: 1.0, mean_square: 1.0 }; groups])
    }

    fn places(branches: &[Branch]) -> Vec<(usize, usize)> {
        branches.iter().map(|b| (b.row, b.position)).collect()
    }

    #[test]
    fn peaks_come_first_then_neighbours_of_the_largest() {
        // The difference itself: peaks at 1 (the largest), 4 (negative) and 7.
        let curve = [0.1, 0.9, 0.5, -0.3, -0.8, -0.3, 0.5, 0.7, 0.6, 0.0];
        let mean = |k: usize, j: usize| if k == 0 { curve[j] } else { 0.0 };
        let chosen = |stride, limit| {
            let mut out = vec![];
            contrast(2).branches(curve.len(), stride, mean, limit, &mut out);
            assert!(out.iter().all(|b| b.gap == curve[b.position]));
            out.iter().map(|b| b.position).collect::<Vec<_>>()
        };
        assert_eq!(chosen(1, 9), [4, 7, 2, 6, 8]);
        assert_eq!(chosen(1, 3), [4, 7, 2]);
        assert_eq!(chosen(1, 1), [4]);
        assert_eq!(chosen(1, 0), [0; 0]);
        // 6 = 1 + 5 and 8 = 1 + 7 are next to the peak at 7.
        assert_eq!(chosen(5, 9), [4, 7]);
        assert_eq!(chosen(7, 9), [4, 7]);
        assert_eq!(chosen(usize::MAX, 9), [4], "what is near the largest is left out, but not with the other sign");
    }

    #[test]
    fn nothing_is_chosen_from_noise_or_what_is_no_number() {
        let mut out = vec![Branch { row: 0, position: 0, gap: 1.0 }];
        for value in [0.0, 1e-13, f64::NAN] {
            contrast(2).branches(4, 1, |k, _| if k == 0 { value } else { 0.0 }, 5, &mut out);
            assert_eq!(out, []);
        }
    }

    /// With the shortest stride and room for all, the choice is every peak of every difference and every position of the
    /// largest one, as far as they are near in value.
    #[test]
    fn the_choice_is_that_of_a_plain_search() {
        let mut rng = Rng::new(5, Purpose::Data);
        for trial in 0..200 {
            let (groups, positions) = (2 + trial % 4, 1 + trial % 17);
            let contrast = comparing(GroupComparison::ALL[trial / 4 % 2], groups);
            // Coarse values: ties are common.
            let means: Vec<f64> = (0..groups * positions).map(|_| (9.0 * rng.uniform()).floor() / 9.0).collect();
            let mean = |k: usize, j: usize| means[k * positions + j];
            let mut out = vec![];
            contrast.branches(positions, 1, mean, usize::MAX, &mut out);

            let top = contrast.largest(positions, mean).unwrap();
            let gaps = |row: usize| (0..positions).map(|j| contrast.branch(row, j, mean).gap).collect::<Vec<_>>();
            let mut want = vec![];
            for row in 0..contrast.rows() {
                let gaps = gaps(row);
                for j in 0..positions {
                    let signed: Vec<f64> = gaps.iter().map(|g| g * gaps[j].signum()).collect();
                    let peak = (j == 0 || signed[j - 1] < signed[j]) && signed.get(j + 1).is_none_or(|&next| next <= signed[j]);
                    let near = signed[j] >= 0.5 * top.value() && top.value() > NOISE;
                    if near && (row, j) != (top.row, top.position) && (peak || row == top.row) {
                        want.push((row, j, peak));
                    }
                }
            }
            let peaks = want.iter().filter(|w| w.2).count();
            assert!(out[..peaks].is_sorted_by(|a, b| a.value() >= b.value()));
            let sorted = |mut places: Vec<(usize, usize)>| {
                places.sort_unstable();
                places
            };
            let kind = |keep: bool| want.iter().filter(|w| w.2 == keep).map(|w| (w.0, w.1)).collect::<Vec<_>>();
            assert_eq!(sorted(places(&out[..peaks])), kind(true), "trial {trial}");
            assert_eq!(sorted(places(&out[peaks..])), kind(false), "trial {trial}");
            assert!(out[peaks..].is_sorted_by_key(|b| b.position.abs_diff(top.position)));
        }
    }
}
