//! Weights of very many constraints, the moving average of their slopes, and sampling from the weights. Only nonzero entries are
//! stored and updated: a step costs at most O(m) simple arithmetic, and far less once the weight is concentrated on few
//! constraints.

use serde::{Deserialize, Serialize};

use crate::math::Rng;
use crate::sets::simplex::threshold;
use crate::{Error, Result};

/// Threshold below which a weight and a slope are negligible relative to a sum of 1, even a million of them.
const NOTHING: f64 = 1e-20;

/// Number of entries whose weights are summed together for sampling.
const BLOCK: usize = 64;

/// Parameters of an update of weights and slopes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    /// Factor of the slopes: eta_p, divided by the scaling.
    pub step: f64,
    /// Share of the new weights in the mixture.
    pub a: f64,
    /// Share of the new slopes in the moving average.
    pub b: f64,
    /// Strong-concavity constant.
    pub lambda: f64,
}

/// Weights p and the slopes z_p.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Weights {
    /// Number of constraints.
    all: usize,
    /// Constraints with an entry, ascending; all others have weight 0 and slope 0.
    ids: Vec<u32>,
    p: Vec<f64>,
    z: Vec<f64>,
    /// Factor of the weights that makes them sum to 1.
    factor: f64,
    /// Sums and bounds over the entries, available without visiting each one.
    known: Totals,
    /// Cumulative sums of p, one for each block.
    #[serde(skip)]
    sums: Vec<f64>,
    #[serde(skip)]
    space: Vec<f64>,
    /// Slopes of constraints without an entry, ascending.
    #[serde(skip)]
    fresh: Vec<(u32, f64)>,
}

/// Sums and bounds over all entries.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Totals {
    /// Sum of the slopes, and of their squares.
    slopes: f64,
    squares: f64,
    /// The largest slope.
    largest: f64,
    /// Lower bounds on the slopes, and on the weights before multiplication by the factor.
    least_slope: f64,
    least_weight: f64,
}

/// Number of entries processed in parallel, so that sums do not depend on each other.
const LANES: usize = 4;

impl Weights {
    /// Sets the given weights, which sum to 1, and no slopes.
    pub fn start(&mut self, p: &[f64]) {
        self.all = p.len();
        self.ids.clear();
        self.p.clear();
        // Reserve the maximum, so that later steps allocate nothing.
        self.ids.reserve(self.all);
        self.p.reserve(self.all);
        self.z.reserve(self.all);
        self.space.reserve(self.all);
        self.sums.reserve(self.all.div_ceil(BLOCK));
        for (j, &p) in p.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            self.ids.push(j as u32);
            self.p.push(p);
        }
        self.z.clear();
        self.z.resize(self.p.len(), 0.0);
        self.factor = 1.0;
        self.known = Totals::default();
        self.sum_up();
    }

    /// Reserves memory for `count` slopes at once.
    pub fn reserve(&mut self, count: usize) {
        self.fresh.clear();
        self.fresh.reserve(count);
    }

    /// Returns the weight of every constraint.
    pub fn all(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.all];
        self.ids.iter().zip(&self.p).for_each(|(&j, p)| all[j as usize] = self.factor * p);
        all
    }

    /// Returns the Euclidean norm of the slopes.
    pub fn slope(&self) -> f64 {
        self.known.squares.max(0.0).sqrt()
    }

    /// Returns the number of entries that a step updates.
    #[cfg(test)]
    fn entries(&self) -> usize {
        self.ids.len()
    }

    /// Computes `p = (1 - a) p + a proj(p + step z)` and then `z = (1 - b) z - b lambda p`. The contribution of the drawn
    /// constraints to z is added by [`Weights::add`].
    pub fn advance(&mut self, by: Move) -> Result<()> {
        let Move { step, a, b, lambda } = by;
        if !(step * self.known.largest).is_finite() || !self.known.squares.is_finite() {
            let (what, value) = ("the slope in the weights of the constraints".into(), self.known.squares);
            return Err(Error::NotFinite { what, value });
        }
        let mut over = self.over(step);
        if over < 0.0 && self.ids.len() < self.all {
            // The threshold is negative, so constraints without an entry get a positive weight.
            self.spread();
            over = self.over(step);
        }
        let factor = self.factor;
        let (keep_p, keep_z, decay) = ((1.0 - a) * factor, 1.0 - b, b * lambda);
        let (mut total, mut idle) = (0.0, 0.0);
        let mut known =
            Totals { largest: f64::NEG_INFINITY, least_slope: f64::INFINITY, least_weight: f64::INFINITY, ..Totals::default() };
        self.sums.clear();
        for (p, z) in self.p.chunks_mut(BLOCK).zip(self.z.chunks_mut(BLOCK)) {
            let (mut sum, mut slopes, mut squares, mut nothing) = ([0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES]);
            let (mut largest, mut least_slope, mut least_weight) =
                ([f64::NEG_INFINITY; LANES], [f64::INFINITY; LANES], [f64::INFINITY; LANES]);
            let mut one = |p: &mut f64, z: &mut f64, lane: usize| {
                let nearest = factor * *p + step * *z - over;
                let nearest = if nearest > 0.0 { nearest } else { 0.0 };
                let weight = keep_p * *p + a * nearest;
                let slope = keep_z * *z - decay * weight;
                (*p, *z) = (weight, slope);
                sum[lane] += weight;
                slopes[lane] += slope;
                squares[lane] += slope * slope;
                largest[lane] = if slope > largest[lane] { slope } else { largest[lane] };
                least_slope[lane] = if slope < least_slope[lane] { slope } else { least_slope[lane] };
                least_weight[lane] = if weight < least_weight[lane] { weight } else { least_weight[lane] };
                let size = if weight > slope.abs() { weight } else { slope.abs() };
                nothing[lane] += if size < NOTHING { 1.0 } else { 0.0 };
            };
            let (mut heads, mut tails) = (p.chunks_exact_mut(LANES), z.chunks_exact_mut(LANES));
            for (p, z) in heads.by_ref().zip(tails.by_ref()) {
                (0..LANES).for_each(|lane| one(&mut p[lane], &mut z[lane], lane));
            }
            heads.into_remainder().iter_mut().zip(tails.into_remainder()).for_each(|(p, z)| one(p, z, 0));
            total += sum.iter().sum::<f64>();
            self.sums.push(total);
            known.slopes += slopes.iter().sum::<f64>();
            known.squares += squares.iter().sum::<f64>();
            idle += nothing.iter().sum::<f64>();
            known.largest = largest.iter().copied().fold(known.largest, f64::max);
            known.least_slope = least_slope.iter().copied().fold(known.least_slope, f64::min);
            known.least_weight = least_weight.iter().copied().fold(known.least_weight, f64::min);
        }
        self.factor = 1.0 / total;
        self.known = known;
        if 4.0 * idle > self.ids.len() as f64 {
            self.drop_idle();
        }
        Ok(())
    }

    /// Returns the threshold of the projection of `p + step z`, over the entries only.
    fn over(&mut self, step: f64) -> f64 {
        // If every entry stays above 0, all are lowered by the same amount, which follows from the slopes because the weights sum
        // to 1.
        let alike = step * self.known.slopes / self.p.len() as f64;
        if self.factor * self.known.least_weight + step * self.known.least_slope >= alike {
            return alike;
        }
        // Within 1 below the largest entry, so that large slopes do not cost digits of the weights.
        let origin = step * self.known.largest;
        self.space.clear();
        self.space.reserve(self.p.len());
        let (p, z, factor) = (&self.p, &self.z[..self.p.len()], self.factor);
        origin + threshold(p.len(), |k| factor * p[k] + (step * z[k] - origin), 1.0, &mut self.space)
    }

    /// Creates an entry for every constraint.
    fn spread(&mut self) {
        let kept = self.ids.len();
        self.p.resize(self.all, 0.0);
        self.z.resize(self.all, 0.0);
        // From the back, because an entry never moves to a smaller index.
        for k in (0..kept).rev() {
            let to = self.ids[k] as usize;
            let entry = (std::mem::take(&mut self.p[k]), std::mem::take(&mut self.z[k]));
            (self.p[to], self.z[to]) = entry;
        }
        self.ids.clear();
        self.ids.extend(0..self.all as u32);
        self.known.largest = self.known.largest.max(0.0);
        self.known.least_slope = self.known.least_slope.min(0.0);
        self.known.least_weight = 0.0;
    }

    fn drop_idle(&mut self) {
        let mut kept = 0;
        for k in 0..self.ids.len() {
            if self.p[k] < NOTHING && self.z[k].abs() < NOTHING {
                continue;
            }
            (self.ids[kept], self.p[kept], self.z[kept]) = (self.ids[k], self.p[k], self.z[k]);
            kept += 1;
        }
        self.ids.truncate(kept);
        self.p.truncate(kept);
        self.z.truncate(kept);
        self.sum_up();
    }

    /// Updates the cumulative sums of the blocks.
    fn sum_up(&mut self) {
        let mut total = 0.0;
        self.sums.clear();
        self.sums.extend(self.p.chunks(BLOCK).map(|block| {
            total += block.iter().sum::<f64>();
            total
        }));
        self.factor = 1.0 / total;
    }

    /// Draws `count` constraints from the weights: each listed once, ascending, with its multiplicity. Call it right after
    /// [`Weights::start`] or [`Weights::advance`].
    pub fn draw(&self, count: usize, rng: &mut Rng, drawn: &mut Vec<u32>, times: &mut Vec<f64>) {
        drawn.clear();
        times.clear();
        let total = self.sums.last().copied().unwrap_or(0.0);
        for _ in 0..count {
            let at = rng.uniform() * total;
            let block = self.sums.partition_point(|s| *s <= at).min(self.sums.len().saturating_sub(1));
            let mut left = at - if block > 0 { self.sums[block - 1] } else { 0.0 };
            let from = block * BLOCK;
            let mut chosen = from;
            for (k, &p) in self.p.iter().enumerate().skip(from).take(BLOCK) {
                // An entry with zero weight is never drawn, whatever the rounding.
                if p > 0.0 {
                    chosen = k;
                    left -= p;
                    if left < 0.0 {
                        break;
                    }
                }
            }
            drawn.extend(self.ids.get(chosen));
        }
        drawn.sort_unstable();
        let mut last = None;
        drawn.retain(|&j| {
            let first = last != Some(j);
            last = Some(j);
            match times.last_mut() {
                Some(times) if !first => *times += 1.0,
                _ => times.push(1.0),
            }
            first
        });
    }

    /// Initialises the slopes to `-lambda p`.
    pub fn decay(&mut self, lambda: f64) {
        for (p, z) in self.p.iter().zip(&mut self.z) {
            *z = -lambda * p;
        }
        self.known = Totals {
            slopes: self.z.iter().sum(),
            squares: self.z.iter().map(|z| z * z).sum(),
            largest: self.z.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            least_slope: self.z.iter().copied().fold(f64::INFINITY, f64::min),
            least_weight: self.p.iter().copied().fold(f64::INFINITY, f64::min),
        };
    }

    /// Adds `slopes` to the slopes of the constraints `ids`, each at most once; zeros cost nothing.
    pub fn add(&mut self, slopes: impl Iterator<Item = (u32, f64)>) {
        self.fresh.clear();
        for (j, slope) in slopes.filter(|(_, slope)| *slope != 0.0) {
            let found = if self.ids.len() == self.all { Ok(j as usize) } else { self.ids.binary_search(&j) };
            match found {
                Ok(k) => {
                    let old = self.z[k];
                    self.z[k] = old + slope;
                    self.known.slopes += slope;
                    self.known.squares += slope * (2.0 * old + slope);
                    self.known.largest = self.known.largest.max(old + slope);
                    self.known.least_slope = self.known.least_slope.min(old + slope);
                }
                Err(_) => {
                    self.fresh.push((j, slope));
                    self.known.slopes += slope;
                    self.known.squares += slope * slope;
                    self.known.largest = self.known.largest.max(slope);
                    self.known.least_slope = self.known.least_slope.min(slope);
                    self.known.least_weight = 0.0;
                }
            }
        }
        if self.fresh.is_empty() {
            return;
        }
        // From the back, so that every entry moves once.
        self.fresh.sort_unstable_by_key(|(j, _)| *j);
        let (mut old, mut to) = (self.ids.len(), self.ids.len() + self.fresh.len());
        self.ids.resize(to, 0);
        self.p.resize(to, 0.0);
        self.z.resize(to, 0.0);
        while let Some(&(j, slope)) = self.fresh.last() {
            to -= 1;
            if old > 0 && self.ids[old - 1] > j {
                old -= 1;
                (self.ids[to], self.p[to], self.z[to]) = (self.ids[old], self.p[old], self.z[old]);
            } else {
                (self.ids[to], self.p[to], self.z[to]) = (j, 0.0, slope);
                self.fresh.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::Purpose;
    use crate::math::vec;
    use crate::sets::{Set, Simplex, Warm};

    /// Reference implementation with all entries stored.
    struct Plain {
        p: Vec<f64>,
        z: Vec<f64>,
    }

    impl Plain {
        fn advance(&mut self, by: Move) {
            let mut nearest: Vec<f64> = self.p.iter().zip(&self.z).map(|(p, z)| p + by.step * z).collect();
            Simplex::new(1.0).unwrap().project(&mut nearest, &mut Warm::default()).unwrap();
            for (p, nearest) in self.p.iter_mut().zip(nearest) {
                *p = (1.0 - by.a) * *p + by.a * nearest;
            }
            let total: f64 = self.p.iter().sum();
            self.p.iter_mut().for_each(|p| *p /= total);
            self.z.iter_mut().zip(&self.p).for_each(|(z, p)| *z = (1.0 - by.b) * *z - by.b * by.lambda * p);
        }
    }

    #[test]
    fn entries_left_out_make_no_difference() {
        let mut rng = Rng::new(5, Purpose::Sampling);
        let (mut thinnest, mut fullest) = (1.0_f64, 0.0_f64);
        for (m, a, b, lambda) in [(300, 0.9, 0.9, 1e-6), (300, 0.5, 0.1, 1e-2), (50, 1.0, 1.0, 1e-6), (1000, 0.1, 0.5, 1e-3)] {
            let mut twin = Plain { p: vec![1.0 / m as f64; m], z: vec![0.0; m] };
            let mut weights = Weights::default();
            weights.start(&twin.p);
            for t in 0..3000 {
                // Alternate between large slopes, small slopes and zero slopes.
                let size = [300.0, 0.05, 0.0][(t / 100) % 3];
                let step = 0.01 / (weights.slope().sqrt() + 1e-8);
                assert!((weights.slope() - vec::norm(&twin.z)).abs() <= 1e-9 * vec::norm(&twin.z), "{t}");
                weights.advance(Move { step, a, b, lambda }).unwrap();
                twin.advance(Move { step, a, b, lambda });
                let mut slopes = vec![];
                for _ in 0..8 {
                    let j = rng.below(m) as u32;
                    if slopes.iter().all(|(other, _)| *other != j) {
                        slopes.push((j, if rng.uniform() < 0.3 { size * rng.uniform() } else { 0.0 }));
                    }
                }
                weights.add(slopes.iter().copied());
                slopes.iter().for_each(|(j, slope)| twin.z[*j as usize] += slope);
                let all = weights.all();
                let off = all.iter().zip(&twin.p).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(off < 1e-12, "{m} {a} {b}: {off} at {t}");
                let share = weights.entries() as f64 / m as f64;
                (thinnest, fullest) = (thinnest.min(share), fullest.max(share));
            }
        }
        assert!(thinnest < 0.2 && fullest == 1.0, "{thinnest} to {fullest}: both ways of keeping entries must be tried");
    }

    #[test]
    fn a_slight_violation_takes_no_weight_from_larger_ones() {
        // Two constraints with equal slopes keep their weights. The third, violated a hundredth as much, ends up below the threshold.
        let by = |step: f64| Move { step, a: 0.9, b: 0.1, lambda: 0.0 };
        let mut twin = Plain { p: vec![0.8, 0.2, 0.0], z: vec![1.0, 1.0, 0.0] };
        let mut weights = Weights::default();
        weights.start(&twin.p);
        weights.decay(0.0);
        weights.add([(0, 1.0), (1, 1.0)].into_iter());
        // The bounds on the slopes are those of the two entries.
        weights.advance(by(0.0)).unwrap();
        twin.advance(by(0.0));
        weights.add([(2, 0.01)].into_iter());
        twin.z[2] += 0.01;
        weights.advance(by(0.3)).unwrap();
        twin.advance(by(0.3));
        let all = weights.all();
        assert!(all.iter().zip([0.8, 0.2, 0.0]).all(|(p, wanted)| (p - wanted).abs() < 1e-15), "{all:?}");
        assert!(all.iter().zip(&twin.p).all(|(p, twin)| (p - twin).abs() < 1e-15), "{all:?}");
    }

    #[test]
    fn slopes_of_any_size_are_projected_like_those_of_a_full_vector() {
        let mut rng = Rng::new(11, Purpose::Sampling);
        for round in 0..500 {
            let m = 2 + rng.below(6);
            let mut twin = Plain { p: vec![0.0; m], z: vec![0.0; m] };
            twin.p[0] = 0.25 + 0.5 * rng.uniform();
            twin.p[1] = 1.0 - twin.p[0];
            let by = Move { step: 0.5, a: 0.5 + 0.5 * rng.uniform(), b: 0.1, lambda: 1e-6 };
            let mut weights = Weights::default();
            weights.start(&twin.p);
            weights.decay(0.0);
            for t in 0..20 {
                let mut slopes = vec![];
                for j in 0..m as u32 {
                    if rng.uniform() < 0.7 {
                        slopes.push((j, 10.0_f64.powi(-(rng.below(5) as i32))));
                    }
                }
                weights.add(slopes.iter().copied());
                slopes.iter().for_each(|(j, slope)| twin.z[*j as usize] += slope);
                weights.advance(by).unwrap();
                twin.advance(by);
                let off = weights.all().iter().zip(&twin.p).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(off < 1e-12, "{off} at {t} of round {round}");
            }
        }
    }

    #[test]
    fn draws_have_the_frequencies_of_the_weights() {
        let mut p = vec![0.0; 500];
        (p[3], p[64], p[130], p[499]) = (0.1, 0.2, 0.3, 0.4);
        let mut weights = Weights::default();
        weights.start(&p);
        let (mut drawn, mut times) = (vec![], vec![]);
        weights.draw(100_000, &mut Rng::new(1, Purpose::Sampling), &mut drawn, &mut times);
        assert_eq!(drawn, [3, 64, 130, 499]);
        // Six standard deviations are below 950.
        assert!(times.iter().zip([1e4, 2e4, 3e4, 4e4]).all(|(t, wanted)| (t - wanted).abs() < 950.0), "{times:?}");
    }
}
