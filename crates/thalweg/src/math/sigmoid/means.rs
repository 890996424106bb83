//! Means of sigmoids of all scores at every threshold of a grid, at a cost below scores times thresholds. Slopes are not
//! computed here: a gap over thresholds requires them only at its largest threshold, which is one exact pass.
//!
//! Scores are binned. For a bin of width `H <= temperature` with centre `c`, a threshold enters only through `tau = tanh((c -
//! threshold) / (2 temperature))`, and a score in it through `t = tanh((score - c) / (2 temperature))`:
//!
//! ```text
//! sigmoid = (1 + tau) / 2 + (1 - tau^2) G,    G = t / (2 (1 + tau t)),    |t| <= tanh(1/4)
//! ```
//!
//! `G` is a polynomial in `tau` to machine precision ([`DEGREES`] coefficients), and each coefficient is a polynomial of the
//! position in the bin. The bin's part of every mean therefore follows from a few moments of its scores: one pass over the
//! scores for the moments, a constant matrix from moments to coefficients, and one polynomial for each bin and threshold.
//! Widths are powers of two and borders multiples of them, so that the position in a bin is exact at any distance from zero.

use super::exp;
use crate::math::reduce::{self, Chunks};
use crate::{Error, Result};

/// Coefficients of `G` as a polynomial in `tau`: the error is `0.5 * 8.04^-DEGREES` at the edge of a bin of width 1.
const DEGREES: usize = 17;
/// Number of bins that share one exponential per threshold.
const GROUP: usize = 16;
/// Distance in temperatures beyond which a sigmoid is 0 or 1 to machine precision.
const SATURATED: f64 = 38.0;
/// Distance from zero in bins up to which bins are exact.
const REACH: f64 = 1e15;
/// Adding this number rounds to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Number of scores whose bins are computed together, vectorised.
const BLOCK: usize = 64;
/// Number of scores from which the moments are computed in parallel.
const PARALLEL: usize = 1 << 17;
/// Largest number of scores per running sum, which bounds the rounding if most scores are equal.
const RUN: usize = 1 << 12;

type Coefficients = [f64; DEGREES];

/// Cells per bin and moments per cell for many scores per bin: a short pass over the scores, a larger matrix.
const NARROW: (usize, usize) = (8, 8);
/// The same for few scores per bin.
const WIDE: (usize, usize) = (1, 14);

/// Means of sigmoids over a fixed list of thresholds.
#[derive(Debug, Clone)]
pub struct SigmoidMeans {
    thresholds: Vec<f64>,
    temperature: f64,
    /// Thresholds in ascending order, and the index of each in `thresholds`.
    sorted: Vec<f64>,
    places: Vec<u32>,
    /// Scores outside are clamped to these ends, where every sigmoid is 0 or 1 to machine precision.
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

/// Working space of [`SigmoidMeans::means`]; grows as needed.
#[derive(Debug, Clone, Default)]
pub struct SigmoidScratch {
    /// Moments of the cells; without bins the sums of a run.
    moments: Vec<f64>,
    ranges: Vec<f64>,
    /// Sums of unsaturated sigmoids for each threshold in ascending order.
    sums: Vec<f64>,
    /// Weight that saturates at all thresholds before each position.
    full: Vec<f64>,
    exps: Vec<f64>,
}

/// Algorithm for the means of one call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Algorithm {
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
        // Without bins a temperature may vanish next to a threshold, and an end would not saturate.
        let (low, high) = if bins.is_some() { (low, high) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        Ok(SigmoidMeans { thresholds, temperature, sorted, places, low, high, bins })
    }

    /// Returns the thresholds in their original order.
    pub fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// Returns the temperature.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Computes `out[j]` = mean over `i` of `weights[i] * sigmoid((scores[i] - thresholds[j]) / temperature)`, with weights 1
    /// by default. All zero without scores; all NaN if a score or a weight is not finite. `weights` is as long as `scores`,
    /// `out` as the thresholds.
    ///
    /// The error of a mean is below 1e-15 for usual scores; the worst case in the tests (a million equal scores with equal
    /// weights and a huge range) stays below 1e-13. The bits do not depend on the number of threads.
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
            (Algorithm::Narrow, Some(bins)) => {
                self.binned::<{ NARROW.0 }, { NARROW.1 }>(bins, &bins.narrow, scores, weights, ends, scratch)
            }
            (Algorithm::Wide, Some(bins)) => {
                self.binned::<{ WIDE.0 }, { WIDE.1 }>(bins, &bins.wide, scores, weights, ends, scratch)
            }
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

    /// Chooses the cheapest algorithm for `n` scores between `ends`, from rough costs in nanoseconds.
    fn way(&self, n: usize, ends: (f64, f64)) -> Algorithm {
        let Some(bins) = &self.bins else { return Algorithm::Direct };
        let (n, j) = (n as f64, self.sorted.len() as f64);
        let count = (ends.1 - ends.0) / bins.width + 2.0;
        let direct = n * (2.0 + if self.factors(ends) { 0.4 } else { 2.0 } * j);
        let narrow = n * 2.2 + count * (180.0 + 4.5 * j);
        let wide = n * 5.0 + count * (50.0 + 4.5 * j);
        if direct <= narrow.min(wide) {
            Algorithm::Direct
        } else if narrow <= wide {
            Algorithm::Narrow
        } else {
            Algorithm::Wide
        }
    }

    /// Returns the thresholds at which a score between `low` and `high` may be unsaturated.
    fn window(&self, low: f64, high: f64, margin: f64) -> (usize, usize) {
        let first = self.sorted.partition_point(|&t| t < low - margin);
        let rest = self.sorted[first..].partition_point(|&t| t <= high + margin);
        (first, first + rest)
    }

    /// Evaluates every score at every threshold where it may be unsaturated. Returns the total weight.
    fn direct(&self, scores: &[f64], weights: Option<&[f64]>, ends: (f64, f64), scratch: &mut SigmoidScratch) -> f64 {
        let len = self.sorted.len() + 1;
        if scratch.moments.len() < 2 * len {
            scratch.moments.resize(2 * len, 0.0);
        }
        let (sums, full) = scratch.moments[..2 * len].split_at_mut(len);
        let mut total = 0.0;
        for (k, run) in scores.chunks(RUN).enumerate() {
            let weights = weights.map(|w| &w[k * RUN..]);
            sums.fill(0.0);
            full.fill(0.0);
            total += if self.factors(ends) {
                self.factored(run, weights, ends, sums, full, &mut scratch.exps)
            } else {
                self.windowed(run, weights, sums, full)
            };
            reduce::add_slots(sums, &mut scratch.sums);
            reduce::add_slots(full, &mut scratch.full);
        }
        total
    }

    /// Uses one exponential for each pair within reach of each other.
    fn windowed(&self, scores: &[f64], weights: Option<&[f64]>, sums: &mut [f64], full: &mut [f64]) -> f64 {
        let per = 1.0 / self.temperature;
        let margin = SATURATED * self.temperature;
        let mut total = 0.0;
        for (i, &score) in scores.iter().enumerate() {
            let weight = weights.map_or(1.0, |w| w[i]);
            let (first, end) = self.window(score, score, margin);
            total += weight;
            full[first] += weight;
            for (sum, t) in sums[first..end].iter_mut().zip(&self.sorted[first..end]) {
                *sum += weight / (1.0 + exp((t - score) * per));
            }
        }
        total
    }

    /// Uses one exponential for each score and each threshold, a quarter of a division for each pair.
    fn factored(
        &self,
        scores: &[f64],
        weights: Option<&[f64]>,
        ends: (f64, f64),
        sums: &mut [f64],
        full: &mut [f64],
        exps: &mut [f64],
    ) -> f64 {
        let per = 1.0 / self.temperature;
        let centre = 0.5 * ends.0 + 0.5 * ends.1;
        let (first, end) = self.window(ends.0, ends.1, SATURATED * self.temperature);
        let (sums, exps) = (&mut sums[first..end], &mut exps[first..end]);
        for (e, t) in exps.iter_mut().zip(&self.sorted[first..end]) {
            *e = exp((t - centre) * per);
        }
        let mut total = 0.0;
        for (b, four) in scores.chunks(4).enumerate() {
            let (mut e, mut w) = ([1.0; 4], [0.0; 4]);
            for (k, score) in four.iter().enumerate() {
                e[k] = exp((centre - score.clamp(ends.0, ends.1)) * per);
                w[k] = weights.map_or(1.0, |w| w[4 * b + k]);
            }
            total += (w[0] + w[1]) + (w[2] + w[3]);
            // Four fractions over their common denominator.
            for (sum, t) in sums.iter_mut().zip(&*exps) {
                let d = [1.0 + e[0] * t, 1.0 + e[1] * t, 1.0 + e[2] * t, 1.0 + e[3] * t];
                let (low, high) = (d[0] * d[1], d[2] * d[3]);
                *sum += ((w[0] * d[1] + w[1] * d[0]) * high + (w[2] * d[3] + w[3] * d[2]) * low) / (low * high);
            }
        }
        full[first] += total;
        total
    }

    /// Returns whether `exp(threshold - score)` can be split into two factors and four denominators multiplied, without
    /// overflow and without loss of accuracy for a large argument.
    fn factors(&self, ends: (f64, f64)) -> bool {
        (ends.1 - ends.0) / self.temperature < 100.0
    }

    /// Computes moments of `CELLS` cells in each bin, `MOMENTS` each; coefficients; polynomials. Returns the total weight.
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
        // More than one run: totals, the moments of a run and, if there are many, marks of the touched cells.
        let slot_len = match chunks.len() > RUN {
            false => len,
            true if len <= RUN => 2 * len,
            true => 2 * len + count * CELLS,
        };
        let SigmoidScratch { moments, sums, full, exps, .. } = scratch;
        let needed = chunks.count() * slot_len;
        if moments.len() < needed {
            moments.resize(needed, 0.0);
        }
        let cells = Cells { low: ends.0, high: ends.1, per: 1.0 / cell, base: first * CELLS as f64 };
        reduce::for_each_chunk(chunks, &mut moments[..needed], |_, rows, slot| {
            slot.fill(0.0);
            let (totals, rest) = slot.split_at_mut(len);
            let (part, touched) = rest.split_at_mut(rest.len().min(len));
            let (totals, part) = (totals.as_chunks_mut::<MOMENTS>().0, part.as_chunks_mut::<MOMENTS>().0);
            if part.is_empty() {
                return cells.add(&scores[rows.clone()], weights.map(|w| &w[rows]), totals, touched);
            }
            for start in rows.clone().step_by(RUN) {
                let rows = start..rows.end.min(start + RUN);
                cells.add(&scores[rows.clone()], weights.map(|w| &w[rows]), part, touched);
                if touched.is_empty() {
                    reduce::add_slots(part.as_flattened(), totals.as_flattened_mut());
                    part.fill([0.0; MOMENTS]);
                    continue;
                }
                for ((total, part), mark) in totals.iter_mut().zip(&mut *part).zip(&mut *touched) {
                    if *mark != 0.0 {
                        total.iter_mut().zip(&*part).for_each(|(t, p)| *t += p);
                        (*part, *mark) = ([0.0; MOMENTS], 0.0);
                    }
                }
            }
        });
        let (moments, others) = moments[..needed].split_at_mut(slot_len);
        let moments = &mut moments[..len];
        others.chunks(slot_len).for_each(|slot| reduce::add_slots(&slot[..len], moments));

        let per = 1.0 / self.temperature;
        let margin = SATURATED * self.temperature + 0.5 * bins.width;
        // Cells are centred at multiples of their width, bins therefore between two of them.
        let offset = 0.5 * (CELLS as f64 - 1.0) * cell;
        let centre = |b: usize| (first + b as f64) * bins.width + offset;
        let mut total = 0.0;
        for (group, moments) in moments.chunks(GROUP * CELLS * MOMENTS).enumerate() {
            let anchor = centre(group * GROUP + GROUP / 2);
            let mut known = 0;
            for (k, moments) in moments.chunks(CELLS * MOMENTS).enumerate() {
                let Some((weight, coefficients)) = coefficients::<MOMENTS>(moments, table) else { continue };
                let centre = centre(group * GROUP + k);
                let (first, end) = self.window(centre, centre, margin);
                total += weight;
                full[first] += weight;
                // Centres ascend within the group, so that exponentials before the window are not needed again.
                let next = known.max(first);
                known = next.max(end);
                for (e, t) in exps[next..known].iter_mut().zip(&self.sorted[next..known]) {
                    *e = exp((t - anchor) * per);
                }
                add_polynomial(weight, &coefficients, bins.steps[k], &exps[first..end], &mut sums[first..end]);
            }
        }
        total
    }
}

/// Returns the lowest and the highest score; `None` if one is not finite.
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
                bad[i] += 0.0 * lane[i];
            }
        }
        for &s in rest {
            low[0] = low[0].min(s);
            high[0] = high[0].max(s);
            bad[0] += 0.0 * s;
        }
        slot[0] = low.into_iter().fold(start, f64::min);
        slot[1] = high.into_iter().fold(start, f64::max);
        slot[2] = bad.iter().sum();
    });
    let (slots, _) = slots.as_chunks::<3>();
    let ends = slots.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), s| (a.min(s[0]), b.max(s[1])));
    slots.iter().all(|s| s[2] == 0.0).then_some(ends)
}

/// Rounds to the nearest integer, for numbers below 2^51, as in [`Cells::add`].
fn round(x: f64) -> f64 {
    (x + ROUND) - ROUND
}

/// Positions of the cells: cell `k` is centred at `(base + k) / per`.
struct Cells {
    low: f64,
    high: f64,
    per: f64,
    base: f64,
}

impl Cells {
    /// Adds the scores' moments to their cells, and marks the cells in `touched` unless it is empty.
    fn add<const MOMENTS: usize>(
        &self,
        scores: &[f64],
        weights: Option<&[f64]>,
        moments: &mut [[f64; MOMENTS]],
        touched: &mut [f64],
    ) {
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
                // Exact, since the product and the difference of close numbers are. Doubled, for [-1, 1].
                let half = scaled - (shifted - ROUND);
                *position = half + half;
            }
            if !touched.is_empty() {
                ids[..block.len()].iter().for_each(|&id| touched[id as usize] = 1.0);
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

/// Returns whether moments are those of powers; otherwise those of Chebyshev polynomials, since many powers lose accuracy.
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

/// Returns a bin's total weight and the coefficients of its polynomial; `None` for an empty bin.
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
        // Separate even and odd powers give two short dependency chains instead of a long one.
        let square = tau * tau;
        let (mut even, mut odd) = (c[DEGREES - 1], c[DEGREES - 2]);
        for k in (1..DEGREES / 2).rev() {
            even = even * square + c[2 * k];
            odd = odd * square + c[2 * k - 1];
        }
        even = even * square + c[0];
        *sum += (1.0 + tau) * (half + (1.0 - tau) * (even + tau * odd));
    }
}

impl Bins {
    /// Builds the tables for a temperature; `None` if thresholds lie so far out (`reach`) that bins would not be exact.
    fn new(temperature: f64, reach: f64) -> Option<Self> {
        // Clearing the fraction leaves the next lower power of two.
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
    // cos(pi k (2 i + 1) / (2 n)) has period 4 n in k (2 i + 1).
    let cosines: Vec<f64> = (0..4 * n).map(|m| (std::f64::consts::PI * m as f64 / (2 * n) as f64).cos()).collect();
    let sum = |k: usize| values.iter().enumerate().map(|(i, v)| v * cosines[k * (2 * i + 1) % (4 * n)]).sum::<f64>();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};
    use crate::math::sigmoid::sigmoid;

    /// The twin: one exponential for each pair, compensated sums.
    fn plain(scores: &[f64], weights: Option<&[f64]>, thresholds: &[f64], temperature: f64) -> Vec<f64> {
        let mean = |t: f64| {
            let (mut sum, mut lost) = (0.0_f64, 0.0);
            for (i, s) in scores.iter().enumerate() {
                let term = weights.map_or(1.0, |w| w[i]) * sigmoid((s - t) / temperature);
                let next = sum + term;
                lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
                sum = next;
            }
            (sum + lost) / scores.len() as f64
        };
        thresholds.iter().map(|&t| mean(t)).collect()
    }

    fn means(scores: &[f64], weights: Option<&[f64]>, thresholds: &[f64], temperature: f64) -> Vec<f64> {
        let kernel = SigmoidMeans::new(thresholds.to_vec(), temperature).unwrap();
        let mut out = vec![f64::NAN; thresholds.len()];
        kernel.means(scores, weights, &mut out, &mut SigmoidScratch::default());
        out
    }

    fn error(scores: &[f64], weights: Option<&[f64]>, thresholds: &[f64], temperature: f64) -> f64 {
        let wanted = plain(scores, weights, thresholds, temperature);
        let got = means(scores, weights, thresholds, temperature);
        assert!(got.iter().all(|v| v.is_finite()));
        got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0
    }

    fn usual(n: usize, spread: f64) -> Vec<f64> {
        let mut rng = Rng::new(n as u64, Purpose::Data);
        (0..n).map(|_| spread * (-1.0 + 1.5 * normal(&mut rng))).collect()
    }

    fn linspace(low: f64, high: f64, count: usize) -> Vec<f64> {
        (0..count).map(|j| low + (high - low) * j as f64 / (count - 1).max(1) as f64).collect()
    }

    fn way(scores: &[f64], thresholds: &[f64], temperature: f64) -> Algorithm {
        let kernel = SigmoidMeans::new(thresholds.to_vec(), temperature).unwrap();
        let (low, high) = range(scores, &mut Vec::new()).unwrap();
        kernel.way(scores.len(), (low.clamp(kernel.low, kernel.high), high.clamp(kernel.low, kernel.high)))
    }

    #[test]
    fn usual_and_wider_spreads_agree_with_the_plain_sum() {
        for (spread, wanted) in [(1.0, Algorithm::Narrow), (8.0, Algorithm::Narrow), (100.0, Algorithm::Wide)] {
            let scores = usual(16_281, spread);
            let range = 14.0 * spread;
            for thresholds in [linspace(-3.0, 3.0, 100), linspace(-1.5 * range, 1.5 * range, 100)] {
                let worst = error(&scores, None, &thresholds, 1.0);
                assert!(worst <= 1e-15, "{spread}: {worst:e}");
            }
            assert_eq!(way(&scores, &linspace(-1.5 * range, 1.5 * range, 400), 1.0), wanted);
        }
    }

    #[test]
    fn every_number_of_scores_and_every_temperature_agrees() {
        let mut seen = Vec::new();
        for n in [1, 2, 3, 4, 5, 7, 63, 64, 65, 200, 500, 2000, 20_000] {
            let scores = usual(n, 1.0);
            for temperature in [0.01, 0.1, 0.3, 0.5, 1.0, 1.999, 2.0, 10.0] {
                let thresholds = linspace(-3.0, 3.0, 37);
                let worst = error(&scores, None, &thresholds, temperature);
                assert!(worst <= 1e-14, "{n} scores at {temperature}: {worst:e}");
                let way = way(&scores, &thresholds, temperature);
                if !seen.contains(&way) {
                    seen.push(way);
                }
            }
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    }

    #[test]
    fn each_way_agrees_wherever_it_could_be_chosen() {
        for (n, spread, temperature) in [(1, 1.0, 1.0), (50, 1.0, 0.7), (3000, 1.0, 1.0), (3000, 30.0, 1.3), (1000, 0.0, 1.0)] {
            let scores = usual(n, spread);
            let weights: Vec<f64> = (0..n).map(|i| 0.5 + (i % 3) as f64 * 0.5).collect();
            let kernel = SigmoidMeans::new(linspace(-20.0, 20.0, 41), temperature).unwrap();
            let bins = kernel.bins.as_ref().unwrap();
            let ends = range(&scores, &mut Vec::new()).unwrap();
            for weights in [None, Some(&weights[..])] {
                let wanted = plain(&scores, weights, kernel.thresholds(), temperature);
                for way in 0..3 {
                    let mut s =
                        SigmoidScratch { sums: vec![0.0; 42], full: vec![0.0; 42], exps: vec![0.0; 42], ..Default::default() };
                    let total = match way {
                        0 => kernel.direct(&scores, weights, ends, &mut s),
                        1 => kernel.binned::<{ NARROW.0 }, { NARROW.1 }>(bins, &bins.narrow, &scores, weights, ends, &mut s),
                        _ => kernel.binned::<{ WIDE.0 }, { WIDE.1 }>(bins, &bins.wide, &scores, weights, ends, &mut s),
                    };
                    let expected = weights.map_or(n as f64, |w| w.iter().sum());
                    assert!((total / expected - 1.0).abs() < 1e-13);
                    for (j, wanted) in wanted.iter().enumerate() {
                        let got = (s.sums[j] + s.full[j + 1..].iter().sum::<f64>()) / n as f64;
                        assert!((got - wanted).abs() <= 2e-14, "way {way}, {n} scores: {got} for {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn weights_and_unsorted_thresholds_agree() {
        let mut rng = Rng::new(5, Purpose::Data);
        let mut thresholds = linspace(-6.0, 4.0, 53);
        thresholds.push(thresholds[7]);
        rng.shuffle(&mut thresholds);
        for n in [10, 300, 5000] {
            let scores = usual(n, 1.0);
            let mut weights: Vec<f64> = (0..n).map(|i| if i % 5 == 0 { 0.0 } else { rng.uniform() }).collect();
            let mean = weights.iter().sum::<f64>() / n as f64;
            weights.iter_mut().for_each(|w| *w /= mean);
            for temperature in [0.05, 1.0] {
                let worst = error(&scores, Some(&weights), &thresholds, temperature);
                assert!(worst <= 1e-14, "{n} scores at {temperature}: {worst:e}");
            }
        }
    }

    #[test]
    fn equal_scores_far_clusters_and_huge_scores_agree() {
        let grid = linspace(-3.0, 3.0, 41);
        for n in [1, 20, 5000] {
            for value in [0.0, 0.3, 0.5, -0.062_5, -2.9, 37.5, -39.0, 1e6, -1e6, 1e300] {
                let worst = error(&vec![value; n], None, &grid, 1.0);
                assert!(worst <= 1e-14, "{n} times {value}: {worst:e}");
            }
            let clusters: Vec<f64> =
                usual(n, 1.0).iter().enumerate().map(|(i, s)| s + if i % 2 == 0 { 1e6 } else { -1e6 }).collect();
            assert!(error(&clusters, None, &grid, 1.0) <= 1e-14);
            let far: Vec<f64> = grid.iter().map(|t| t + 1e6).chain(grid.iter().map(|t| t - 1e6)).collect();
            assert!(error(&clusters, None, &far, 1.0) <= 1e-14);
            // Everything far from zero: differences are exact, so the means are as good as near zero.
            let shifted: Vec<f64> = grid.iter().map(|t| t + 1e6).collect();
            let near: Vec<f64> = usual(n, 1.0).iter().map(|s| s + 1e6).collect();
            assert!(error(&near, None, &shifted, 1.0) <= 1e-14);
            // Two scores that stretch the range over all thresholds.
            let mut stretched = usual(n, 1.0);
            stretched.extend([1e12, -1e12]);
            assert!(error(&stretched, None, &grid, 1.0) <= 1e-14);
            assert!(error(&stretched, None, &linspace(-1e12, 1e12, 41), 1.0) <= 1e-14);
            assert!(error(&stretched, None, &linspace(-1e12, 1e12, 41), 1e10) <= 1e-14);
        }
        assert_eq!(means(&[1e300, -1e300], None, &[0.0], 1.0), [0.5]);
        assert_eq!(means(&[1e18; 3000], None, &[1e18], 1.0), [0.5]);
        assert_eq!(means(&[2e18, 1e18, 0.0], None, &[1e18], 1.0), [0.5]);
        assert_eq!(means(&[f64::MAX, f64::MIN], None, &[f64::MIN, 0.0, f64::MAX], 1.0), [0.75, 0.5, 0.25]);
    }

    #[test]
    fn saturated_means_are_zero_and_one() {
        for n in [1, 100, 10_000] {
            let got = means(&usual(n, 1.0), None, &[-1e3, 1e3], 1.0);
            assert_eq!(got, [1.0, 0.0]);
        }
    }

    #[test]
    fn random_problems_agree() {
        let mut rng = Rng::new(11, Purpose::Data);
        for case in 0..300 {
            let most = [5, 50, 500, 5000][rng.below(4)];
            let n = 1 + rng.below(most);
            let temperature = 10.0_f64.powf(4.0 * rng.uniform() - 2.0);
            let spread = 10.0_f64.powf(4.0 * rng.uniform() - 2.0);
            let centre = if rng.below(4) == 0 { 1e4 * normal(&mut rng) } else { normal(&mut rng) };
            let scores: Vec<f64> = (0..n).map(|_| centre + spread * normal(&mut rng)).collect();
            let count = 1 + rng.below(40);
            let width = spread * 10.0_f64.powf(2.0 * rng.uniform() - 1.0);
            let thresholds: Vec<f64> = (0..count).map(|_| centre + width * normal(&mut rng)).collect();
            let weights: Vec<f64> = (0..n).map(|_| 2.0 * rng.uniform()).collect();
            let weights = (rng.below(2) == 0).then_some(&weights[..]);
            let worst = error(&scores, weights, &thresholds, temperature);
            assert!(worst <= 2e-14, "case {case}, {n} scores, temperature {temperature}, spread {spread}: {worst:e}");
        }
    }

    #[test]
    fn what_is_not_finite_gives_nan_and_nothing_gives_zero() {
        for n in [1, 30, 3000, 200_000] {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for at in [0, n / 2, n - 1] {
                    let mut scores = usual(n, 1.0);
                    scores[at] = bad;
                    assert!(means(&scores, None, &[-1.0, 50.0], 1.0).iter().all(|v| v.is_nan()), "{bad} at {at} of {n}");
                    let scores = usual(n, 1.0);
                    let mut weights = vec![1.0; n];
                    weights[at] = bad;
                    assert!(means(&scores, Some(&weights), &[-1.0, 50.0], 1.0).iter().all(|v| v.is_nan()));
                }
            }
        }
        assert_eq!(means(&[], None, &[0.0, 1.0], 1.0), [0.0, 0.0]);
    }

    #[test]
    fn bits_do_not_depend_on_threads_and_long_sums_stay_exact() {
        let thresholds = linspace(-3.0, 3.0, 40);
        let scores = usual(1_100_000, 1.0);
        let bits = || means(&scores, None, &thresholds, 1.0).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(reduce::with_threads(1, bits).unwrap(), reduce::with_threads(2, bits).unwrap());
        assert!(error(&scores, None, &thresholds[..3], 1.0) <= 1e-14);
        let (equal, weights) = (vec![0.3; 1_100_000], vec![0.7; 1_100_000]);
        for weights in [None, Some(&weights[..])] {
            // A second temperature so small that there are no bins, a third so large that one bin holds all.
            for temperature in [1.0, 1e-17, 1e3] {
                let worst = error(&equal, weights, &[-2.0, 0.1, 0.3], temperature);
                // Equal weights that are no dyadic fractions, all in one cell, are the worst that a running sum can meet.
                assert!(worst <= 6e-14, "{temperature}: {worst:e}");
            }
        }
    }

    #[test]
    fn scratch_grows_once() {
        let kernel = SigmoidMeans::new(linspace(-3.0, 3.0, 40), 1.0).unwrap();
        let mut scratch = SigmoidScratch::default();
        let mut out = vec![0.0; 40];
        let capacities = |s: &SigmoidScratch| {
            [&s.moments, &s.ranges, &s.sums, &s.full, &s.exps].map(|buffer| (buffer.capacity(), buffer.as_ptr()))
        };
        for n in [10, 1000, 150_000] {
            let scores = usual(n, 1.0);
            kernel.means(&scores, None, &mut out, &mut scratch);
            let (before, first) = (capacities(&scratch), out.clone());
            kernel.means(&scores, None, &mut out, &mut scratch);
            assert_eq!(capacities(&scratch), before);
            assert_eq!(out, first);
        }
        // A huge range does not ask for a huge number of bins.
        kernel.means(&[1e12, -1e12, 0.0, 1e300, -1e300], None, &mut out, &mut scratch);
        let wide = SigmoidMeans::new(linspace(-1e9, 1e9, 40), 1.0).unwrap();
        wide.means(&usual(5000, 1e9), None, &mut out, &mut scratch);
        assert!(scratch.moments.capacity() < 1 << 20);
    }

    #[test]
    fn unusable_settings_are_refused() {
        for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-310] {
            assert!(SigmoidMeans::new(vec![0.0], temperature).unwrap_err().to_string().contains("temperature"));
        }
        assert!(SigmoidMeans::new(vec![], 1.0).unwrap_err().to_string().contains("thresholds"));
        assert!(SigmoidMeans::new(vec![0.0, f64::NAN], 1.0).unwrap_err().to_string().contains("threshold"));
    }

    #[test]
    fn extreme_temperatures_do_not_break_the_tables() {
        for temperature in [1e-300, 1e-30, 1e30, 1e300] {
            assert!(error(&usual(500, 1.0), None, &linspace(-3.0, 3.0, 9), temperature) <= 1e-14, "{temperature}");
        }
    }

    #[test]
    fn equal_scores_with_a_few_far_ones_stay_exact() {
        for (n, far) in [(20_000, 500.0), (300_000, 1e4), (1_000_000, 1e5)] {
            let mut scores = vec![0.3; n];
            scores[0] = far;
            scores[1] = -far;
            let weights = vec![0.7; n];
            let thresholds = [-far, -1.0, 0.1, 0.3, 2.0, far];
            for weights in [None, Some(&weights[..])] {
                let worst = error(&scores, weights, &thresholds, 1.0);
                assert!(worst <= 6e-14, "{n} scores: {worst:e}");
            }
        }
    }
}
