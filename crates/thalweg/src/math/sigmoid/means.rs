//! Means of sigmoids of all scores at every threshold of a grid, at a cost that does not multiply scores by thresholds.
//! Slopes are not here: a gap over thresholds needs them at the winning threshold only, which is one exact pass.
//!
//! Scores are binned. A bin of width `H <= temperature` with centre `c` sees a threshold through one number,
//! `tau = tanh((c - threshold) / (2 temperature))`, and a score in it through `t = tanh((score - c) / (2 temperature))`:
//!
//! ```text
//! sigmoid = (1 + tau) / 2 + (1 - tau^2) G,    G = t / (2 (1 + tau t)),    |t| <= tanh(1/4)
//! ```
//!
//! `G` is a polynomial in `tau` to machine precision ([`DEGREES`] coefficients), and each coefficient is a polynomial of the
//! position in the bin. So the bin's part of every mean follows from a few moments of its scores: one pass over the scores for the
//! moments, a constant matrix from moments to coefficients, and one polynomial for each bin and threshold. Widths are powers of
//! two and borders multiples of them: the position in a bin is exact however far the scores lie from zero.

use super::exp;
use crate::math::reduce::{self, Chunks};
use crate::{Error, Result};

/// Coefficients of `G` as a polynomial in `tau`: the error is `0.5 * 8.04^-DEGREES` at the edge of a bin of width 1.
const DEGREES: usize = 17;
/// Bins that share one exponential per threshold.
const GROUP: usize = 16;
/// Beyond this many temperatures a sigmoid is 0 or 1 to machine precision.
const SATURATED: f64 = 38.0;
/// Thresholds and scores up to this many bins from zero have exact bins.
const REACH: f64 = 1e15;
/// Adding this number rounds to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Scores whose bins are found together, in vector code.
const BLOCK: usize = 64;
/// Scores from which the moments are taken in parallel.
const PARALLEL: usize = 1 << 17;

type Coefficients = [f64; DEGREES];

/// Cells of a bin and moments of a cell where many scores fall in each bin: a short pass over the scores, a larger matrix.
const NARROW: (usize, usize) = (32, 6);
/// The same where few scores fall in each bin.
const WIDE: (usize, usize) = (1, 14);

/// Means of sigmoids over a fixed list of thresholds.
#[derive(Debug, Clone)]
pub struct SigmoidMeans {
    thresholds: Vec<f64>,
    temperature: f64,
    /// Ascending, with the place of each in `thresholds`.
    sorted: Vec<f64>,
    places: Vec<u32>,
    /// Scores outside are moved to these ends, where every sigmoid is 0 or 1 to machine precision.
    low: f64,
    high: f64,
    bins: Option<Bins>,
}

/// Tables that depend on the temperature alone.
#[derive(Debug, Clone)]
struct Bins {
    /// Width of a bin: the power of two in (temperature / 2, temperature].
    width: f64,
    /// `exp(-(k - GROUP / 2) * width / temperature)`.
    steps: [f64; GROUP],
    /// From moments to coefficients: row `cell * moments + moment`.
    narrow: Vec<Coefficients>,
    wide: Vec<Coefficients>,
}

/// Working space of [`SigmoidMeans::means`]; grows to what is needed and keeps it.
#[derive(Debug, Clone, Default)]
pub struct SigmoidScratch {
    moments: Vec<f64>,
    ranges: Vec<f64>,
    /// For each threshold in ascending order: sums of sigmoids that are neither 0 nor 1.
    sums: Vec<f64>,
    /// For each place among the thresholds: weight that saturates at all thresholds before it.
    full: Vec<f64>,
    exps: Vec<f64>,
}

/// How the means of one call are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Direct,
    Narrow,
    Wide,
}

impl SigmoidMeans {
    /// Prepares the tables. Thresholds may be in any order, at least one and all finite; the temperature is positive.
    pub fn new(thresholds: Vec<f64>, temperature: f64) -> Result<Self> {
        if !(temperature.is_normal() && temperature > 0.0 && (1.0 / temperature).is_normal()) {
            return Err(Error::setting("temperature", temperature, "a positive number"));
        }
        if thresholds.is_empty() || u32::try_from(thresholds.len()).is_err() {
            return Err(Error::setting("thresholds", thresholds.len(), "at least one threshold"));
        }
        for &t in &thresholds {
            crate::error::check_finite("a threshold", t)?;
        }
        let mut places: Vec<u32> = (0..thresholds.len() as u32).collect();
        places.sort_by(|&a, &b| thresholds[a as usize].total_cmp(&thresholds[b as usize]));
        let sorted: Vec<f64> = places.iter().map(|&k| thresholds[k as usize]).collect();
        let low = sorted[0] - (SATURATED + 2.0) * temperature;
        let high = sorted[sorted.len() - 1] + (SATURATED + 2.0) * temperature;
        let bins = Bins::new(temperature, low.abs().max(high.abs()));
        Ok(SigmoidMeans { thresholds, temperature, sorted, places, low, high, bins })
    }

    /// The thresholds, in the order they were given.
    pub fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// The temperature.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// `out[j]` = mean over `i` of `weights[i] * sigmoid((scores[i] - thresholds[j]) / temperature)`, with weights 1 if there are
    /// none. All zero without scores; all NaN if a score or a weight is not finite.
    ///
    /// The error of a mean is below 1e-15 for usual ranges; the bits do not depend on the number of threads.
    pub fn means(&self, scores: &[f64], weights: Option<&[f64]>, out: &mut [f64], scratch: &mut SigmoidScratch) {
        if scores.is_empty() {
            out.fill(0.0);
            return;
        }
        let Some((lowest, highest)) = range(scores, &mut scratch.ranges) else {
            out.fill(f64::NAN);
            return;
        };
        let count = self.sorted.len();
        for buffer in [&mut scratch.sums, &mut scratch.full, &mut scratch.exps] {
            buffer.clear();
            buffer.resize(count + 1, 0.0);
        }
        let ends = (lowest.clamp(self.low, self.high), highest.clamp(self.low, self.high));
        let total = match (self.way(scores.len(), ends), &self.bins) {
            (Way::Narrow, Some(bins)) => {
                self.binned::<{ NARROW.0 }, { NARROW.1 }>(bins, &bins.narrow, scores, weights, ends, scratch)
            }
            (Way::Wide, Some(bins)) => self.binned::<{ WIDE.0 }, { WIDE.1 }>(bins, &bins.wide, scores, weights, ends, scratch),
            _ => self.direct(scores, weights, ends, scratch),
        };
        if !total.is_finite() {
            out.fill(f64::NAN);
            return;
        }
        let n = scores.len() as f64;
        let mut above = 0.0;
        for (j, &place) in self.places.iter().enumerate().rev() {
            above += scratch.full[j + 1];
            out[place as usize] = (scratch.sums[j] + above) / n;
        }
    }

    /// The cheapest way for `n` scores between `ends`, from rough costs in nanoseconds.
    fn way(&self, n: usize, ends: (f64, f64)) -> Way {
        let Some(bins) = &self.bins else { return Way::Direct };
        let (n, j) = (n as f64, self.sorted.len() as f64);
        let count = (ends.1 - ends.0) / bins.width + 2.0;
        let direct = n * (2.0 + 0.7 * j);
        let narrow = n * 1.7 + count * (800.0 + 3.5 * j);
        let wide = n * 4.0 + count * (80.0 + 3.5 * j);
        if direct <= narrow.min(wide) {
            Way::Direct
        } else if narrow <= wide {
            Way::Narrow
        } else {
            Way::Wide
        }
    }

    /// Thresholds at which a score may be neither 0 nor 1.
    fn window(&self, score: f64, margin: f64) -> (usize, usize) {
        let first = self.sorted.partition_point(|&t| t < score - margin);
        let rest = self.sorted[first..].partition_point(|&t| t <= score + margin);
        (first, first + rest)
    }

    /// Every score against every threshold in its window. Returns the total weight.
    fn direct(&self, scores: &[f64], weights: Option<&[f64]>, ends: (f64, f64), scratch: &mut SigmoidScratch) -> f64 {
        let per = 1.0 / self.temperature;
        let margin = SATURATED * self.temperature;
        let centre = 0.5 * ends.0 + 0.5 * ends.1;
        // exp(threshold - score) factors while neither part can overflow or lose digits to a large argument.
        let factors = (ends.1 - ends.0) * per < 200.0;
        if factors {
            for (e, t) in scratch.exps.iter_mut().zip(&self.sorted) {
                *e = exp((t - centre) * per);
            }
        }
        let mut total = 0.0;
        for (i, &score) in scores.iter().enumerate() {
            let score = score.clamp(ends.0, ends.1);
            let weight = weights.map_or(1.0, |w| w[i]);
            let (first, end) = self.window(score, margin);
            total += weight;
            scratch.full[first] += weight;
            let sums = &mut scratch.sums[first..end];
            if factors {
                let e = exp((centre - score) * per);
                for (sum, t) in sums.iter_mut().zip(&scratch.exps[first..end]) {
                    *sum += weight / (1.0 + e * t);
                }
            } else {
                for (sum, t) in sums.iter_mut().zip(&self.sorted[first..end]) {
                    *sum += weight / (1.0 + exp((t - score) * per));
                }
            }
        }
        total
    }

    /// Moments of `CELLS` cells in each bin, `MOMENTS` each; coefficients; polynomials. Returns the total weight.
    fn binned<const CELLS: usize, const MOMENTS: usize>(
        &self,
        bins: &Bins,
        table: &[Coefficients],
        scores: &[f64],
        weights: Option<&[f64]>,
        ends: (f64, f64),
        scratch: &mut SigmoidScratch,
    ) -> f64 {
        let cell = bins.width / CELLS as f64;
        let first = (round(ends.0 / cell) / CELLS as f64).floor();
        let last = (round(ends.1 / cell) / CELLS as f64).floor();
        let count = (last - first) as usize + 1;
        let len = count * CELLS * MOMENTS;
        let mut chunks = Chunks::of(scores.len());
        if scores.len() < PARALLEL || chunks.count() * len > scores.len() {
            chunks = Chunks::single(scores.len());
        }
        let SigmoidScratch { moments, sums, full, exps, .. } = scratch;
        let needed = chunks.count() * len;
        if moments.len() < needed {
            moments.resize(needed, 0.0);
        }
        let cells = Cells { low: ends.0, high: ends.1, per: 1.0 / cell, base: first * CELLS as f64 };
        reduce::for_each_chunk(chunks, &mut moments[..needed], |_, rows, slot| {
            slot.fill(0.0);
            cells.add::<MOMENTS>(&scores[rows.clone()], weights.map(|w| &w[rows]), slot.as_chunks_mut().0);
        });
        let (moments, others) = moments[..needed].split_at_mut(len);
        reduce::add_slots(others, moments);

        let per = 1.0 / self.temperature;
        let margin = SATURATED * self.temperature + 0.5 * bins.width;
        // Cells are centred at multiples of their width, bins therefore between two of them.
        let offset = 0.5 * (CELLS as f64 - 1.0) * cell;
        let centre = |b: usize| (first + b as f64) * bins.width + offset;
        let mut total = 0.0;
        for (group, moments) in moments.chunks(GROUP * CELLS * MOMENTS).enumerate() {
            let anchor = centre(group * GROUP + GROUP / 2);
            let (mut known_first, mut known_end) = (0, 0);
            for (k, moments) in moments.chunks(CELLS * MOMENTS).enumerate() {
                let Some((weight, coefficients)) = coefficients::<MOMENTS>(moments, table) else { continue };
                let (first, end) = self.window(centre(group * GROUP + k), margin);
                total += weight;
                full[first] += weight;
                if known_first == known_end {
                    (known_first, known_end) = (first, first);
                }
                // Centres ascend within the group, so that thresholds below the known ones are never wanted again.
                known_end = known_end.max(first);
                for (e, t) in exps[known_end..end.max(known_end)].iter_mut().zip(&self.sorted[known_end..]) {
                    *e = exp((t - anchor) * per);
                }
                known_end = known_end.max(end);
                add_polynomial(weight, &coefficients, bins.steps[k], &exps[first..end], &mut sums[first..end]);
            }
        }
        total
    }
}

/// Lowest and highest score; `None` if one is not finite.
fn range(scores: &[f64], slots: &mut Vec<f64>) -> Option<(f64, f64)> {
    let chunks = if scores.len() < PARALLEL { Chunks::single(scores.len()) } else { Chunks::of(scores.len()) };
    slots.resize(3 * chunks.count(), 0.0);
    reduce::for_each_chunk(chunks, slots, |_, rows, slot| {
        let (lanes, rest) = scores[rows].as_chunks::<8>();
        let start = lanes.first().map_or(rest.first().copied().unwrap_or(0.0), |lane| lane[0]);
        let (mut low, mut high, mut bad) = ([start; 8], [start; 8], [0.0; 8]);
        for lane in lanes {
            for i in 0..8 {
                low[i] = if lane[i] < low[i] { lane[i] } else { low[i] };
                high[i] = if lane[i] > high[i] { lane[i] } else { high[i] };
                // Zero for a finite score, NaN for any other.
                bad[i] += lane[i] - lane[i];
            }
        }
        for &s in rest {
            low[0] = low[0].min(s);
            high[0] = high[0].max(s);
            bad[0] += s - s;
        }
        slot[0] = low.into_iter().fold(start, f64::min);
        slot[1] = high.into_iter().fold(start, f64::max);
        slot[2] = bad.iter().sum();
    });
    let (slots, _) = slots.as_chunks::<3>();
    let ends = slots.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), s| (a.min(s[0]), b.max(s[1])));
    slots.iter().all(|s| s[2] == 0.0).then_some(ends)
}

/// Nearest integer, for numbers below 2^51; the same rounding as in [`Cells::add`].
fn round(x: f64) -> f64 {
    (x + ROUND) - ROUND
}

/// Where the cells lie: cell `k` is centred at `(base + k) / per`.
struct Cells {
    low: f64,
    high: f64,
    per: f64,
    base: f64,
}

impl Cells {
    /// Adds the scores' moments to their cells.
    fn add<const MOMENTS: usize>(&self, scores: &[f64], weights: Option<&[f64]>, moments: &mut [[f64; MOMENTS]]) {
        let base = (self.base + ROUND).to_bits();
        let mut ids = [0_u64; BLOCK];
        let mut positions = [0.0; BLOCK];
        for (b, block) in scores.chunks(BLOCK).enumerate() {
            for ((id, position), &score) in ids.iter_mut().zip(&mut positions).zip(block) {
                let score = if score < self.low { self.low } else { score };
                let score = if score > self.high { self.high } else { score };
                let scaled = score * self.per;
                let shifted = scaled + ROUND;
                *id = shifted.to_bits().wrapping_sub(base);
                // Exact: the product is, and so is the difference of close numbers. Twice, for [-1, 1].
                let half = scaled - (shifted - ROUND);
                *position = half + half;
            }
            let points = ids.iter().zip(&positions).take(block.len());
            match weights {
                None => points.for_each(|(&id, &x)| add_moments(1.0, x, &mut moments[id as usize])),
                Some(w) => {
                    points.zip(&w[b * BLOCK..]).for_each(|((&id, &x), &w)| add_moments(w, x, &mut moments[id as usize]));
                }
            }
        }
    }
}

/// Whether moments are those of powers; of Chebyshev polynomials otherwise, as powers lose digits where there are many.
const fn powers(moments: usize) -> bool {
    moments <= 8
}

/// Adds `w * basis(x)`, two at a time.
#[inline(always)]
fn add_moments<const MOMENTS: usize>(w: f64, x: f64, moments: &mut [f64; MOMENTS]) {
    let (pairs, _) = moments.as_chunks_mut::<2>();
    let mut now = [w, w * x];
    if powers(MOMENTS) {
        let square = x * x;
        for pair in pairs {
            *pair = [pair[0] + now[0], pair[1] + now[1]];
            now = [now[0] * square, now[1] * square];
        }
    } else {
        // T_{k+2} = 2 T_2 T_k - T_{k-2}, from T_{-2} = T_2 and T_{-1} = T_1.
        let twice = 4.0 * (x * x) - 2.0;
        let mut before = [0.5 * twice * w, now[1]];
        for pair in pairs {
            *pair = [pair[0] + now[0], pair[1] + now[1]];
            let next = [twice * now[0] - before[0], twice * now[1] - before[1]];
            (before, now) = (now, next);
        }
    }
}

/// A bin's total weight and the coefficients of its polynomial; `None` if nothing is in it.
fn coefficients<const MOMENTS: usize>(moments: &[f64], table: &[Coefficients]) -> Option<(f64, Coefficients)> {
    let mut sums = [0.0; DEGREES];
    let mut weight = 0.0;
    let mut any = false;
    for (cell, rows) in moments.as_chunks::<MOMENTS>().0.iter().zip(table.as_chunks::<MOMENTS>().0) {
        if *cell == [0.0; MOMENTS] {
            continue;
        }
        any = true;
        weight += cell[0];
        for (moment, row) in cell.iter().zip(rows) {
            for (sum, entry) in sums.iter_mut().zip(row) {
                *sum += moment * entry;
            }
        }
    }
    any.then_some((weight, sums))
}

/// `sums[j] += weight (1 + tau) / 2 + (1 - tau^2) sum_k c_k tau^k` with `tau = (1 - g) / (1 + g)`, `g = step * exps[j]`.
fn add_polynomial(weight: f64, c: &Coefficients, step: f64, exps: &[f64], sums: &mut [f64]) {
    let half = 0.5 * weight;
    for (sum, e) in sums.iter_mut().zip(exps) {
        let g = step * e;
        let tau = (1.0 - g) / (1.0 + g);
        let mut p = c[DEGREES - 1];
        for k in (0..DEGREES - 1).rev() {
            p = p * tau + c[k];
        }
        *sum += (1.0 + tau) * (half + (1.0 - tau) * p);
    }
}

impl Bins {
    /// Tables for a temperature; `None` if thresholds lie so far out (`reach`) that bins would not be exact.
    fn new(temperature: f64, reach: f64) -> Option<Self> {
        // Clearing the fraction leaves the power of two below.
        let width = f64::from_bits(temperature.to_bits() & 0x7ff0_0000_0000_0000);
        let finest = width / NARROW.0 as f64;
        if !(finest.is_normal() && (1.0 / finest).is_finite() && reach / finest < REACH) {
            return None;
        }
        let ratio = width / temperature;
        let steps = std::array::from_fn(|k| (-(k as f64 - (GROUP / 2) as f64) * ratio).exp());
        Some(Bins { width, steps, narrow: table(NARROW, ratio), wide: table(WIDE, ratio) })
    }
}

/// From moments to coefficients, by interpolation in `tau` and in the position within each cell.
fn table((cells, moments): (usize, usize), ratio: f64) -> Vec<Coefficients> {
    let mut rows = Vec::with_capacity(cells * moments);
    for cell in 0..cells {
        // Coefficients in tau at each node of the cell.
        let at_nodes: Vec<Vec<f64>> = (0..moments)
            .map(|i| {
                let position = (cell as f64 + 0.5 + 0.5 * node(i, moments)) / cells as f64 - 0.5;
                let t = (0.5 * ratio * position).tanh();
                to_powers(&fit(DEGREES, |m| 0.5 * t / (1.0 + t * node(m, DEGREES))))
            })
            .collect();
        let start = rows.len();
        rows.resize(start + moments, [0.0; DEGREES]);
        for k in 0..DEGREES {
            let series = fit(moments, |i| at_nodes[i][k]);
            let series = if powers(moments) { to_powers(&series) } else { series };
            for (row, value) in rows[start..].iter_mut().zip(series) {
                row[k] = value;
            }
        }
    }
    rows
}

/// Chebyshev node `i` of `n`.
fn node(i: usize, n: usize) -> f64 {
    (std::f64::consts::PI * (i as f64 + 0.5) / n as f64).cos()
}

/// Chebyshev coefficients of the polynomial with the given values at the `n` nodes.
fn fit(n: usize, value: impl Fn(usize) -> f64) -> Vec<f64> {
    let values: Vec<f64> = (0..n).map(value).collect();
    let sum = |k: usize| -> f64 {
        let angle = |i: usize| std::f64::consts::PI * (k as f64) * (i as f64 + 0.5) / n as f64;
        values.iter().enumerate().map(|(i, v)| v * angle(i).cos()).sum()
    };
    (0..n).map(|k| sum(k) * if k == 0 { 1.0 } else { 2.0 } / n as f64).collect()
}

/// Coefficients of powers from those of Chebyshev polynomials.
fn to_powers(series: &[f64]) -> Vec<f64> {
    let n = series.len();
    let mut powers = vec![0.0; n];
    // T_{k-1} and T_k as coefficients of powers.
    let (mut before, mut now) = (vec![0.0; n], vec![0.0; n]);
    now[0] = 1.0;
    for (k, c) in series.iter().enumerate() {
        for (p, t) in powers.iter_mut().zip(&now) {
            *p += c * t;
        }
        let factor = if k == 0 { 1.0 } else { 2.0 };
        let next: Vec<f64> = (0..n).map(|i| factor * if i == 0 { 0.0 } else { now[i - 1] } - before[i]).collect();
        (before, now) = (now, next);
    }
    powers
}
