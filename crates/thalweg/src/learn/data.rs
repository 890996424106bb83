//! Rows with labels, groups and weights, the data that terms are computed on. Encoding tables and reading files belong to the
//! lab.

use std::collections::HashMap;
use std::ops::Range;

use crate::math::rng::Purpose;
use crate::math::{Matrix, Rng};
use crate::{Error, Result, error::check_length};

/// Group of each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Names of the groups; with two, the first is the protected one.
    pub names: Vec<String>,
    /// For each row, an index into `names`.
    pub of_row: Vec<u32>,
}

/// A labelled data set in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// One row per example.
    pub features: Matrix,
    /// +1 or -1 for each row.
    pub labels: Vec<f64>,
    /// Group of each row, if there are groups.
    pub groups: Option<Groups>,
    /// Positive weight of each row; `None` means 1 each.
    pub weights: Option<Vec<f64>>,
}

impl Data {
    /// Checks sizes, labels, groups and weights.
    pub fn validate(&self) -> Result<()> {
        let n = self.features.rows();
        check_length("the list of labels", self.labels.len(), n)?;
        if let Some((i, &y)) = self.labels.iter().enumerate().find(|(_, y)| y.abs() != 1.0) {
            return Err(Error::setting(format!("label of row {}", i + 1), y, "+1 or -1"));
        }
        if let Some(groups) = &self.groups {
            check_length("the list of groups", groups.of_row.len(), n)?;
            if let Some((i, &k)) = groups.of_row.iter().enumerate().find(|(_, k)| **k as usize >= groups.names.len()) {
                return Err(Error::setting(
                    format!("group of row {}", i + 1),
                    k,
                    format!("a number below {}", groups.names.len()),
                ));
            }
        }
        if let Some(weights) = &self.weights {
            check_length("the list of row weights", weights.len(), n)?;
            if let Some((i, &w)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
                return Err(Error::setting(format!("weight of row {}", i + 1), w, "a finite number of at least 0"));
            }
        }
        Ok(())
    }
}

/// Rule that divides rows between losses and gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The first two thirds (rounded down) for losses, the rest for gaps.
    Ordered,
    /// As `Ordered`, after a shuffle with this seed.
    Shuffle(u64),
    /// Every row for both.
    Shared,
}

impl Split {
    /// Returns the rows of each part, in the order of the split.
    pub(super) fn parts(self, n: usize) -> Parts {
        match self {
            Split::Shared => Parts { losses: 0..n, gaps: 0..n },
            Split::Ordered | Split::Shuffle(_) => Parts { losses: 0..2 * n / 3, gaps: 2 * n / 3..n },
        }
    }

    /// Returns the rows in the order of the split, or `None` if they keep theirs.
    pub(super) fn moved(self, data: &Data) -> Option<Data> {
        let Split::Shuffle(seed) = self else { return None };
        let mut order: Vec<usize> = (0..data.labels.len()).collect();
        Rng::new(seed, Purpose::Split).shuffle(&mut order);
        Some(data.select(&order))
    }
}

/// Row ranges of losses and gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Rows that losses are computed on.
    pub losses: Range<usize>,
    /// Rows that gaps between groups are computed on.
    pub gaps: Range<usize>,
}

impl Data {
    /// Returns the given rows, in that order.
    pub fn select(&self, rows: &[usize]) -> Data {
        Data {
            features: self.features.select(rows),
            labels: rows.iter().map(|&i| self.labels[i]).collect(),
            groups: self
                .groups
                .as_ref()
                .map(|g| Groups { names: g.names.clone(), of_row: rows.iter().map(|&i| g.of_row[i]).collect() }),
            weights: self.weights.as_ref().map(|w| rows.iter().map(|&i| w[i]).collect()),
        }
    }

    /// Merges rows with equal features, label and group into one whose weight is their sum, drops rows of weight 0, and sorts
    /// the rest, so that the order of the input does not matter. A row of weight 2 then gives the same bits as the row given
    /// twice. Data without weights and without equal rows are returned unchanged.
    pub fn merged(self) -> Result<Data> {
        self.validate()?;
        let group = |i: usize| self.groups.as_ref().map(|g| g.of_row[i]);
        let compare = |&a: &usize, &b: &usize| {
            let labels = self.labels[a].total_cmp(&self.labels[b]);
            labels.then_with(|| group(a).cmp(&group(b))).then_with(|| self.features.compare_rows(a, b))
        };
        let weight = |i: usize| self.weights.as_ref().map_or(1.0, |w| w[i]);
        let mut order: Vec<usize> = (0..self.labels.len()).filter(|&i| weight(i) > 0.0).collect();
        order.sort_by(compare);
        let (mut kept, mut weights): (Vec<usize>, Vec<f64>) = (vec![], vec![]);
        for i in order {
            match (kept.last(), weights.last_mut()) {
                (Some(last), Some(sum)) if compare(last, &i).is_eq() => *sum += weight(i),
                _ => {
                    kept.push(i);
                    weights.push(weight(i));
                }
            }
        }
        if self.weights.is_none() && kept.len() == self.labels.len() {
            return Ok(self);
        }
        Ok(Data { weights: Some(weights), ..self.select(&kept) })
    }

    /// Computes the scale of each column over `rows`: its standard deviation, with row weights and with the total weight as the
    /// divisor. Rows of weight 0 do not count. A constant column has the scale 0 without intercept, where it has the role of
    /// one. Beside an intercept it is redundant, and its scale is its root mean square.
    ///
    /// Absent entries of compressed rows count as 0. Multiplying a column by a power of two multiplies its scale by the same
    /// number, without rounding. The cost is two passes over the rows.
    pub fn column_scales(&self, rows: Range<usize>, intercept: bool) -> Vec<f64> {
        let weight = |i: usize| self.weights.as_ref().map_or(1.0, |w| w[i]);
        let rows = || rows.clone().map(|i| (i, weight(i))).filter(|(_, w)| *w > 0.0);
        let (count, total) = rows().fold((0_usize, 0.0), |(count, total), (_, w)| (count + 1, total + w));
        let mut columns = vec![Column::default(); self.features.cols()];
        for (i, w) in rows() {
            self.features.visit_row(i, |c, v| columns[c].see(v, w));
        }
        for column in &mut columns {
            column.centre(count, total);
        }
        for (i, w) in rows() {
            self.features.visit_row(i, |c, v| columns[c].add(v, w));
        }
        columns.iter().map(|column| column.scale(total, intercept)).collect()
    }

    /// Returns a fingerprint of the data; equal rows give equal numbers on every machine.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        // A word-wise variant of FNV-1a. The rotation returns high bits to the low end.
        let mut mix = |bits: u64| hash = (hash.rotate_left(23) ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mix(self.features.rows() as u64);
        mix(self.features.cols() as u64);
        for i in 0..self.features.rows() {
            self.features.visit_row(i, |c, v| mix(v.to_bits() ^ (c as u64) << 1));
            mix(self.labels[i].to_bits());
            mix(self.groups.as_ref().map_or(0, |g| u64::from(g.of_row[i]) + 1));
            mix(self.weights.as_ref().map_or(0, |w| w[i].to_bits()));
        }
        hash
    }

    /// Divides the rows, after a shuffle if the split requires one.
    pub fn split(self, split: Split) -> (Data, Parts) {
        let parts = split.parts(self.labels.len());
        (split.moved(&self).unwrap_or(self), parts)
    }

    /// Drops rows of the gaps' part, at random with a fixed seed, until every group has as many as the smallest and at most
    /// `most`.
    pub(super) fn equal_groups(&self, parts: Parts, most: usize) -> Result<(Data, Parts)> {
        let Parts { losses, gaps } = parts;
        if losses == gaps {
            return Err(Error::Problem(
                "equal_groups leaves out rows that gaps are computed on, but the losses are on the same rows; \
                 expected the split \"ordered\" or { shuffle = SEED }"
                    .into(),
            ));
        }
        let Some(groups) = &self.groups else {
            return Err(Error::MissingGroups("equal_groups needs groups".into()));
        };
        let mut order: Vec<usize> = gaps.collect();
        let mut counts = vec![0_usize; groups.names.len()];
        order.iter().for_each(|&i| counts[groups.of_row[i] as usize] += 1);
        let least = counts.iter().copied().min().unwrap_or(0).min(most);
        Rng::new(0, Purpose::Split).shuffle(&mut order);
        let mut left = vec![least; counts.len()];
        order.retain(|&i| {
            let left = &mut left[groups.of_row[i] as usize];
            let stays = *left > 0;
            *left -= usize::from(stays);
            stays
        });
        order.sort_unstable();
        let first = losses.end;
        let rows: Vec<usize> = losses.clone().chain(order).collect();
        let gaps = first..rows.len();
        Ok((self.select(&rows), Parts { losses, gaps }))
    }

    /// Splits off a random fraction of the rows, the same for every group and label. Returns the remaining and the held-out
    /// rows.
    pub fn hold_out(&self, fraction: f64, seed: u64) -> Result<(Data, Data)> {
        let split = RowSplit::new(&self.labels, self.groups.as_ref(), fraction, None, seed)?;
        Ok((self.select(&split.training), self.select(&split.test)))
    }
}

/// Rows of a data set by what they are used for, each list in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSplit {
    /// Rows to train on.
    pub training: Vec<usize>,
    /// Rows that bounds on unseen rows are tested on ([`fit_unseen`](super::fit_unseen)).
    pub safety: Vec<usize>,
    /// Rows that are only measured.
    pub test: Vec<usize>,
}

impl RowSplit {
    /// Splits off random fractions of the rows: first the test rows, then, if asked for, the safety set from what is left.
    ///
    /// Without a safety set the fractions are the same for every group and label, with one for every group only. Then the rows of
    /// a group in the safety set are a random sample of that group, and a rate on them has a binomial distribution. If labels
    /// were balanced too, the numbers of either label would follow those of the other rows, and the tests would not be exact.
    pub fn new(
        labels: &[f64],
        groups: Option<&Groups>,
        test_fraction: f64,
        safety_fraction: Option<f64>,
        seed: u64,
    ) -> Result<Self> {
        let group = |i: usize| groups.map_or(0, |g| g.of_row[i]);
        let stratum = |i: usize| match safety_fraction {
            None => 2 * group(i) + u32::from(labels[i] > 0.0),
            Some(_) => group(i),
        };
        let strata: Vec<u32> = (0..labels.len()).map(stratum).collect();
        let (rest, test) = hold_out(&strata, test_fraction, seed)?;
        let Some(fraction) = safety_fraction else { return Ok(RowSplit { training: rest, safety: vec![], test }) };
        if !(fraction > 0.0 && fraction < 1.0) {
            return Err(Error::setting("safety_fraction", fraction, "a number between 0 and 1"));
        }
        let strata: Vec<u32> = rest.iter().map(|&i| strata[i]).collect();
        let (training, safety) = hold_out(&strata, fraction, seed)?;
        let pick = |chosen: Vec<usize>| chosen.into_iter().map(|i| rest[i]).collect();
        Ok(RowSplit { training: pick(training), safety: pick(safety), test })
    }
}

/// Moments of a column, collected in two passes over its stored entries.
#[derive(Clone)]
struct Column {
    /// Number of stored entries, and their weight.
    stored: usize,
    weight: f64,
    low: f64,
    high: f64,
    /// Weighted sum, then the mean.
    mean: f64,
    /// Power of two that deviations are divided by, so that their squares neither overflow nor underflow.
    unit: f64,
    /// Its inverse, which is exact.
    per_unit: f64,
    /// Weighted sums of the deviations from the mean and of their squares.
    first: f64,
    second: f64,
}

impl Default for Column {
    fn default() -> Self {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        Column { stored: 0, weight: 0.0, low, high, mean: 0.0, unit: 1.0, per_unit: 1.0, first: 0.0, second: 0.0 }
    }
}

impl Column {
    /// Adds an entry in the first pass.
    fn see(&mut self, v: f64, weight: f64) {
        self.stored += 1;
        self.weight += weight;
        self.low = self.low.min(v);
        self.high = self.high.max(v);
        self.mean += weight * v;
    }

    /// Ends the first pass; `count` and `total` are the number and the weight of all rows.
    fn centre(&mut self, count: usize, total: f64) {
        let absent = count - self.stored;
        if absent > 0 {
            (self.low, self.high) = (self.low.min(0.0), self.high.max(0.0));
        }
        self.mean /= total;
        let largest = self.high.abs().max(self.low.abs());
        if largest > 0.0 && largest.is_finite() {
            self.unit = largest.log2().floor().clamp(-1000.0, 1000.0).exp2();
            self.per_unit = 1.0 / self.unit;
        }
        if absent > 0 {
            self.add(0.0, (total - self.weight).max(0.0));
        }
    }

    /// Adds an entry in the second pass.
    fn add(&mut self, v: f64, weight: f64) {
        let deviation = (v - self.mean) * self.per_unit;
        self.first += weight * deviation;
        self.second += weight * deviation * deviation;
    }

    /// Returns the standard deviation, or what takes its place for a constant column.
    fn scale(&self, total: f64, intercept: bool) -> f64 {
        if self.low >= self.high {
            return if intercept && self.low.is_finite() { self.low.abs() } else { 0.0 };
        }
        // The rounding error of the mean is corrected.
        let variance = (self.second - self.first * self.first / total) / total;
        self.unit * variance.max(0.0).sqrt()
    }
}

/// Splits off a random fraction (rounded down) of the rows of every stratum, so that rates agree on both sides. Returns the
/// remaining and the held-out rows, each in ascending order.
pub fn hold_out(strata: &[u32], fraction: f64, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    if !(0.0..1.0).contains(&fraction) {
        return Err(Error::setting("test_fraction", fraction, "a number from 0 to below 1"));
    }
    let mut order: Vec<usize> = (0..strata.len()).collect();
    Rng::new(seed, Purpose::Split).shuffle(&mut order);
    let mut rows: HashMap<u32, f64> = HashMap::new();
    strata.iter().for_each(|&s| *rows.entry(s).or_default() += 1.0);
    // Rows of each stratum that are still to be held out.
    let mut quota: HashMap<u32, u64> = rows.into_iter().map(|(s, n)| (s, (fraction * n) as u64)).collect();
    let (mut held, mut kept): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&i| {
        quota.get_mut(&strata[i]).is_some_and(|left| {
            let takes = *left > 0;
            *left -= u64::from(takes);
            takes
        })
    });
    held.sort_unstable();
    kept.sort_unstable();
    Ok((kept, held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: usize) -> Data {
        Data {
            features: Matrix::dense(n, 1, (0..n).map(|i| i as f64).collect()).unwrap(),
            labels: (0..n).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect(),
            groups: Some(Groups { names: vec!["a".into(), "b".into()], of_row: (0..n).map(|i| (i % 2) as u32).collect() }),
            weights: None,
        }
    }

    #[test]
    fn two_thirds_are_rounded_down() {
        let (_, parts) = numbered(48_842).split(Split::Ordered);
        assert_eq!(parts, Parts { losses: 0..32_561, gaps: 32_561..48_842 });
    }

    #[test]
    fn a_shuffle_keeps_rows_whole_and_repeats_with_its_seed() {
        let (a, _) = numbered(101).split(Split::Shuffle(5));
        let (b, _) = numbered(101).split(Split::Shuffle(5));
        let (c, _) = numbered(101).split(Split::Shuffle(6));
        assert_eq!(a, b);
        assert_ne!(a, c);
        for i in 0..101 {
            let id = a.features.row_dot(i, &[1.0]) as usize;
            assert_eq!(a.labels[i], if id.is_multiple_of(2) { 1.0 } else { -1.0 });
            assert_eq!(a.groups.as_ref().unwrap().of_row[i], (id % 2) as u32);
        }
    }

    #[test]
    fn a_row_twice_is_a_row_of_weight_two() {
        let rows = |ids: &[usize]| Data { weights: None, ..numbered(7).select(ids) };
        let twice = rows(&[3, 0, 5, 3, 6, 0, 3]).merged().unwrap();
        let weighted = Data { weights: Some(vec![1.0, 0.0, 2.0, 1.0, 3.0]), ..rows(&[6, 1, 0, 5, 3]) };
        assert_eq!(twice, weighted.merged().unwrap());
        assert_eq!((twice.labels.len(), twice.weights.as_ref().unwrap().iter().sum::<f64>()), (4, 7.0));
        // The same features with another label, or in another group, are another row.
        let mut other = rows(&[3, 3]);
        other.labels[0] = 1.0;
        assert_eq!(other.clone().merged().unwrap(), other);
        let mut other = rows(&[3, 3]);
        other.groups.as_mut().unwrap().of_row[1] = 0;
        assert_eq!(other.clone().merged().unwrap(), other);
        // Nothing to merge: not even the order changes.
        assert_eq!(rows(&[5, 1, 3]).merged().unwrap(), rows(&[5, 1, 3]));
    }

    #[test]
    fn training_safety_and_test_rows_are_everything() {
        let data = Data { labels: (0..90).map(|i| if i % 5 == 0 { 1.0 } else { -1.0 }).collect(), ..numbered(90) };
        let split = |seed| RowSplit::new(&data.labels, data.groups.as_ref(), 0.2, Some(1.0 / 3.0), seed).unwrap();
        let RowSplit { training, safety, test } = split(4);
        assert_eq!((training.len(), safety.len(), test.len()), (48, 24, 18));
        let mut all: Vec<usize> = [&training[..], &safety, &test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..90).collect::<Vec<_>>());
        // Groups are balanced, labels are left to chance.
        assert_eq!(safety.iter().filter(|i| *i % 2 == 0).count(), 12);
        let positives = |seed| split(seed).safety.iter().filter(|i| data.labels[**i] > 0.0).count();
        assert!((0..10).map(positives).any(|n| n != positives(4)));
        let error = RowSplit::new(&data.labels, None, 0.2, Some(1.0), 0).unwrap_err().to_string();
        assert_eq!(error, "safety_fraction must be a number between 0 and 1, got 1");
    }

    #[test]
    fn held_out_rows_and_the_rest_are_everything() {
        let (kept, held) = numbered(50).hold_out(0.2, 3).unwrap();
        assert_eq!((kept.labels.len(), held.labels.len()), (40, 10));
        assert_eq!(held.labels.iter().filter(|y| **y > 0.0).count(), 5);
        let mut ids: Vec<i64> = (0..40).map(|i| kept.features.row_dot(i, &[1.0]) as i64).collect();
        ids.extend((0..10).map(|i| held.features.row_dot(i, &[1.0]) as i64));
        ids.sort_unstable();
        assert_eq!(ids, (0..50).collect::<Vec<_>>());
        let message = numbered(5).hold_out(1.0, 0).unwrap_err().to_string();
        assert!(message.contains("test_fraction must be ") && message.contains("got 1"), "{message}");
    }
}
