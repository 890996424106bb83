//! Vectors that are moved along sparse rows at the cost of the rows: a stage of SPG with its centre, its average and its ball, and
//! a vector with a scale. What the rows mean is the solvers' business.
//!
//! A stage moves `z' = a c + b z - s d` with a sparse d, averages the z and goes on from the average. Here `z = p c + q v` and
//! `sum of weighted z = alpha c + beta v + e`, so that p, q, alpha and beta change in a step, and v and e only where d is not 0.
//! When a stage ends, c becomes `P c + (beta v + e) / W`: the scale of c takes up P, and a coordinate takes up the rest when it is
//! next looked at. Until then it remembers the turn at which it was left.

use serde::{Deserialize, Serialize};

use crate::math::Matrix;
use crate::math::matrix::LANES;

/// Entries of a sparse vector, one at a time, dealt out to lanes: `visit(lane, index, value)`, see [`Matrix::deal_row`].
pub(crate) trait Sparse {
    fn each(&self, visit: impl FnMut(usize, usize, f64));
}

/// A row of data; with an intercept it has a 1 in one more column.
#[derive(Clone, Copy)]
pub(crate) struct DataRow<'a> {
    pub(crate) features: &'a Matrix,
    pub(crate) row: usize,
    pub(crate) intercept: bool,
}

impl Sparse for DataRow<'_> {
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        self.features.deal_row(self.row, &mut visit);
        if self.intercept {
            visit(0, self.features.cols(), 1.0);
        }
    }
}

/// A 1 in one place.
#[derive(Clone, Copy)]
pub(crate) struct Unit(pub(crate) usize);

impl Sparse for Unit {
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        visit(0, self.0, 1.0);
    }
}

/// What is kept of a coordinate, in one place of memory: whoever reads one of the numbers reads all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[repr(C, align(32))]
struct Slot {
    /// The centre, up to the common scale.
    w: f64,
    /// What z has beyond the centre, up to q.
    v: f64,
    /// What the sum of z has beyond centre and v.
    e: f64,
    /// The turn until which the three are settled.
    turn: u64,
}

/// What happens to every coordinate at once within a stage: `e += beta v`, then `v *= q`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Turn {
    q: f64,
    beta: f64,
}

/// What has become of a coordinate by the end of its stage: `w += from_v v + from_e e`, and then v and e are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct End {
    from_v: f64,
    from_e: f64,
    /// What the weights of centres had added up to by then.
    late: f64,
}

/// Products that are carried along, so that norms cost nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Products {
    ww: f64,
    wv: f64,
    vv: f64,
    we: f64,
    ve: f64,
    ee: f64,
}

/// A stage of SPG on a vector of any length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stage {
    slots: Vec<Slot>,
    /// By turn, for the stages that are over; and one that changes nothing, for whom is settled.
    ends: Vec<End>,
    /// Those of the stage that goes on.
    turns: Vec<Turn>,
    products: Products,
    /// c = scale w.
    scale: f64,
    /// z = p c + q v.
    p: f64,
    q: f64,
    /// The sum of weighted z is alpha c + beta v + e.
    alpha: f64,
    beta: f64,
    weight: f64,
    /// Whether rows that were scored in this step have to be settled again.
    turned: bool,
    /// Entries visited since everything was settled.
    visited: u64,
    /// For the mean of centres, if it is wanted: their weighted sum is `gamma w - late`, where late grows with w.
    late: Vec<f64>,
    gamma: f64,
    total: f64,
}

/// q below which v is written anew: beyond that, small differences of large sums would lose digits.
const SMALL: f64 = 1e-3;
/// The scale of the centre below which it is written anew.
const TINY: f64 = 1e-100;
/// Everything is settled, and the carried products are computed anew, when so many times the number of coordinates were visited.
const SETTLED_EVERY: u64 = 64;

impl Stage {
    /// Begins a stage at `x`; with or without a mean of the centres that will come.
    pub(crate) fn start(&mut self, x: &[f64], mean: bool) {
        self.late.clear();
        self.late.resize(if mean { x.len() } else { 0 }, 0.0);
        (self.gamma, self.total) = (0.0, 0.0);
        self.slots.clear();
        self.slots.extend(x.iter().map(|&w| Slot { w, ..Slot::default() }));
        self.ends.clear();
        self.ends.push(End::default());
        // So that no step has to make room: a stage has a handful of turns.
        self.ends.reserve(self.limit() + 256);
        self.turns.reserve(256);
        self.scale = 1.0;
        self.begin();
        self.settle_all();
    }

    fn begin(&mut self) {
        self.turns.clear();
        (self.p, self.q) = (1.0, 1.0);
        (self.alpha, self.beta, self.weight) = (0.0, 0.0, 0.0);
    }

    /// Ends of stages beyond which everything is settled, to keep their list short.
    fn limit(&self) -> usize {
        self.slots.len() / 8 + 1024
    }

    /// The turn that settled coordinates have reached.
    fn now(&self) -> u64 {
        (self.ends.len() - 1 + self.turns.len()) as u64
    }

    /// The products of a row with the centre and with z. Its coordinates are settled by that.
    #[inline]
    pub(crate) fn scores(&mut self, row: impl Sparse) -> (f64, f64) {
        // No branch waits for memory in this loop, so the processor fetches all coordinates at once.
        let now = self.now();
        let (mut rw, mut rv, mut stale) = ([0.0; LANES], [0.0; LANES], false);
        row.each(|lane, c, a| {
            let slot = &self.slots[c];
            stale |= slot.turn != now;
            rw[lane] += a * slot.w;
            rv[lane] += a * slot.v;
        });
        if stale {
            (rw, rv) = ([0.0; LANES], [0.0; LANES]);
            let Stage { slots, ends, turns, late, .. } = self;
            row.each(|lane, c, a| {
                let slot = &mut slots[c];
                if slot.turn != now {
                    settle(slot, ends, turns, late.get_mut(c));
                }
                rw[lane] += a * slot.w;
                rv[lane] += a * slot.v;
            });
        }
        let at_centre = self.scale * total(rw);
        (at_centre, self.p * at_centre + self.q * total(rv))
    }

    #[inline]
    fn settle_row(&mut self, row: &impl Sparse) {
        let Stage { slots, ends, turns, late, .. } = self;
        row.each(|_, c, _| settle(&mut slots[c], ends, turns, late.get_mut(c)));
    }

    /// The product of a row with the centre, between two stages: nothing is settled by it.
    #[inline]
    pub(crate) fn score_at_centre(&self, row: impl Sparse) -> f64 {
        let mut rw = [0.0; LANES];
        row.each(|lane, c, a| {
            let slot = &self.slots[c];
            let end = &self.ends[slot.turn as usize];
            rw[lane] += a * (slot.w + end.from_v * slot.v + end.from_e * slot.e);
        });
        self.scale * total(rw)
    }

    /// z enters the average with a weight.
    pub(crate) fn weigh(&mut self, weight: f64) {
        self.alpha += weight * self.p;
        self.beta += weight * self.q;
        self.weight += weight;
    }

    /// `z = a c + b z`.
    pub(crate) fn advance(&mut self, a: f64, b: f64) {
        self.p = a + b * self.p;
        self.q *= b;
        self.turned = self.restore();
    }

    /// Writes v anew where q is small, or 0: v takes up q, and e takes up beta v. Whether it did.
    fn restore(&mut self) -> bool {
        if self.q.abs() >= SMALL {
            return false;
        }
        let (q, beta) = (self.q, self.beta);
        self.turns.push(Turn { q, beta });
        let Products { ww, wv, vv, we, ve, ee } = self.products;
        self.products = Products {
            ww,
            wv: q * wv,
            vv: q * q * vv,
            we: we + beta * wv,
            ve: q * (ve + beta * vv),
            ee: ee + 2.0 * beta * ve + beta * beta * vv,
        };
        (self.q, self.beta) = (1.0, 0.0);
        true
    }

    /// `z += amount row`, for a row that was scored in this step.
    #[inline]
    pub(crate) fn add(&mut self, row: impl Sparse, amount: f64) {
        if self.turned {
            self.settle_row(&row);
        }
        // v moves by delta, and e by what beta v would otherwise have gained.
        let delta = amount / self.q;
        let back = -self.beta * delta;
        // Two lanes of four sums are what the registers hold.
        let (mut rw, mut rv, mut re, mut rr) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
        let mut count = 0;
        row.each(|lane, c, a| {
            let (slot, lane) = (&mut self.slots[c], lane % 2);
            rw[lane] += a * slot.w;
            rv[lane] += a * slot.v;
            re[lane] += a * slot.e;
            rr[lane] += a * a;
            slot.v += delta * a;
            slot.e += back * a;
            count += 1;
        });
        let [rw, rv, re, rr] = [rw, rv, re, rr].map(|[even, odd]| even + odd);
        let carried = &mut self.products;
        carried.wv += delta * rw;
        carried.vv += delta * (2.0 * rv + delta * rr);
        carried.we += back * rw;
        carried.ve += delta * re + back * rv + delta * back * rr;
        carried.ee += back * (2.0 * re + back * rr);
        self.visited += count;
    }

    /// The norm of z.
    pub(crate) fn norm(&self) -> f64 {
        let Products { ww, wv, vv, .. } = self.products;
        let p = self.p * self.scale;
        (p * p * ww + 2.0 * p * self.q * wv + self.q * self.q * vv).max(0.0).sqrt()
    }

    /// Projects z onto the ball around 0.
    pub(crate) fn project(&mut self, radius: f64) {
        let norm = self.norm();
        if norm > radius {
            self.p *= radius / norm;
            self.q *= radius / norm;
            self.restore();
        }
    }

    /// Ends the stage: the centre becomes the average, and so does z.
    pub(crate) fn close(&mut self) {
        let (alpha, beta, weight) = (self.alpha, self.beta, self.weight);
        if weight > 0.0 {
            // c' = (alpha / W) c + (beta v + e) / W, in units of the new scale.
            let scale = self.scale * (alpha / weight);
            let unit = 1.0 / (weight * scale);
            if unit.is_finite() {
                self.scale = scale;
                self.end(End { from_v: unit * beta, from_e: unit, late: self.gamma });
                let Products { ww, wv, vv, we, ve, ee } = self.products;
                let moved = beta * (beta * vv + 2.0 * ve) + ee;
                self.products = Products { ww: ww + 2.0 * unit * (beta * wv + we) + unit * unit * moved, ..Products::default() };
            } else {
                // The average has nothing of the old centre, so there is no scale to share.
                self.settle_each(|slot, scale| {
                    let c = alpha * scale * slot.w + beta * slot.v + slot.e;
                    *slot = Slot { w: c / weight, ..Slot::default() };
                });
            }
        }
        self.begin();
        let often = self.visited > SETTLED_EVERY * self.slots.len() as u64 + 4096;
        // The mean of centres is a difference of two numbers that grow as the scale shrinks.
        let least = if self.late.is_empty() { TINY } else { SMALL };
        if often || self.ends.len() > self.limit() || self.scale.abs() < least {
            self.settle_all();
        }
    }

    /// Writes down what becomes of a coordinate by the end of the stage, for every turn of the stage that it may have been left at.
    fn end(&mut self, last: End) {
        let first = self.ends.len() - 1;
        self.ends.resize(first + self.turns.len() + 2, End::default());
        let mut end = last;
        self.ends[first + self.turns.len()] = end;
        for (k, turn) in self.turns.iter().enumerate().rev() {
            end.from_v = end.from_v * turn.q + end.from_e * turn.beta;
            self.ends[first + k] = end;
        }
    }

    /// Writes every coordinate out; the carried products become exact again.
    fn settle_all(&mut self) {
        self.settle_each(|slot, scale| slot.w *= scale);
    }

    fn settle_each(&mut self, write: impl Fn(&mut Slot, f64)) {
        let mut sums = Products::default();
        for (c, slot) in self.slots.iter_mut().enumerate() {
            settle(slot, &self.ends, &self.turns, self.late.get_mut(c));
            if let Some(late) = self.late.get_mut(c) {
                // The sum of centres so far, which no longer depends on w.
                *late -= self.gamma * slot.w;
            }
            write(slot, self.scale);
            slot.turn = 0;
            sums.ww += slot.w * slot.w;
            sums.wv += slot.w * slot.v;
            sums.vv += slot.v * slot.v;
            sums.we += slot.w * slot.e;
            sums.ve += slot.v * slot.e;
            sums.ee += slot.e * slot.e;
        }
        self.products = sums;
        self.turns.clear();
        self.ends.truncate(1);
        self.ends[0] = End::default();
        self.gamma = 0.0;
        self.scale = 1.0;
        self.visited = 0;
    }

    /// The centre enters the mean of centres with a weight, between two stages.
    pub(crate) fn count_centre(&mut self, weight: f64) {
        self.gamma += weight * self.scale;
        self.total += weight;
    }

    /// The mean of the centres that were counted; the centre where none was.
    pub(crate) fn write_mean(&self, out: &mut [f64]) {
        if self.late.is_empty() || self.total <= 0.0 {
            return self.write_centre(out);
        }
        for ((out, slot), late) in out.iter_mut().zip(&self.slots).zip(&self.late) {
            let end = self.ends.get(slot.turn as usize).copied().unwrap_or_default();
            let more = end.from_v * slot.v + end.from_e * slot.e;
            *out = (self.gamma * (slot.w + more) - (late + end.late * more)) / self.total;
        }
    }

    /// One coordinate of the centre, between two stages.
    pub(crate) fn centre(&self, c: usize) -> f64 {
        self.score_at_centre(Unit(c))
    }

    /// The centre.
    pub(crate) fn write_centre(&self, out: &mut [f64]) {
        for (out, slot) in out.iter_mut().zip(&self.slots) {
            // Within its own stage a coordinate has the centre as it was.
            let end = self.ends.get(slot.turn as usize).copied().unwrap_or_default();
            *out = self.scale * (slot.w + end.from_v * slot.v + end.from_e * slot.e);
        }
    }
}

/// The sum of all lanes.
#[inline(always)]
fn total([a, b, c, d]: [f64; LANES]) -> f64 {
    (a + b) + (c + d)
}

/// Brings a coordinate up to date.
#[inline(always)]
fn settle(slot: &mut Slot, ends: &[End], turns: &[Turn], late: Option<&mut f64>) {
    let begun = ends.len() as u64 - 1;
    if slot.turn < begun {
        let end = &ends[slot.turn as usize];
        let more = end.from_v * slot.v + end.from_e * slot.e;
        slot.w += more;
        if let Some(late) = late {
            *late += end.late * more;
        }
        (slot.v, slot.e) = (0.0, 0.0);
    } else {
        for turn in &turns[(slot.turn - begun) as usize..] {
            slot.e += turn.beta * slot.v;
            slot.v *= turn.q;
        }
    }
    slot.turn = begun + turns.len() as u64;
}

/// `x = scale u`, with its norm and, if it is wanted, the mean of what it has been.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scaled {
    u: Vec<f64>,
    scale: f64,
    /// Of u.
    square: f64,
    visited: u64,
    /// The sum of weighted x is `sum u - late`, where late grows with u; empty if no mean is wanted.
    late: Vec<f64>,
    sum: f64,
    weight: f64,
}

impl Scaled {
    pub(crate) fn start(&mut self, x: &[f64], mean: bool) {
        self.u.clear();
        self.u.extend_from_slice(x);
        self.late.clear();
        self.late.resize(if mean { x.len() } else { 0 }, 0.0);
        (self.sum, self.weight) = (0.0, 0.0);
        self.scale = 1.0;
        self.refresh();
    }

    fn refresh(&mut self) {
        let (scale, sum) = (self.scale, self.sum);
        self.late.iter_mut().zip(&self.u).for_each(|(late, u)| *late -= sum * u);
        self.square = 0.0;
        for u in &mut self.u {
            *u *= scale;
            self.square += *u * *u;
        }
        (self.scale, self.sum) = (1.0, 0.0);
        self.visited = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.u.len()
    }

    /// x enters the mean with a weight.
    pub(crate) fn weigh(&mut self, weight: f64) {
        self.sum += weight * self.scale;
        self.weight += weight;
    }

    /// The mean of what was weighed; x where nothing was.
    pub(crate) fn write_mean(&self, out: &mut [f64]) {
        if self.late.is_empty() || self.weight <= 0.0 {
            return self.write(out);
        }
        for ((out, u), late) in out.iter_mut().zip(&self.u).zip(&self.late) {
            *out = (self.sum * u - late) / self.weight;
        }
    }

    #[inline]
    pub(crate) fn score(&self, row: impl Sparse) -> f64 {
        let mut sum = [0.0; LANES];
        row.each(|lane, c, a| sum[lane] += a * self.u[c]);
        self.scale * total(sum)
    }

    /// `x *= factor`.
    pub(crate) fn shrink(&mut self, factor: f64) {
        self.scale *= factor;
        // The mean is a difference of two numbers that grow as the scale shrinks.
        let least = if self.late.is_empty() { TINY } else { SMALL };
        if self.scale.abs() < least || self.visited > SETTLED_EVERY * self.u.len() as u64 + 4096 {
            self.refresh();
        }
    }

    /// `x += amount row`.
    #[inline]
    pub(crate) fn add(&mut self, row: impl Sparse, amount: f64) {
        let delta = amount / self.scale;
        let (mut ru, mut rr) = ([0.0; LANES], [0.0; LANES]);
        let mut count = 0;
        row.each(|lane, c, a| {
            let u = &mut self.u[c];
            ru[lane] += a * *u;
            rr[lane] += a * a;
            *u += delta * a;
            if let Some(late) = self.late.get_mut(c) {
                *late += self.sum * delta * a;
            }
            count += 1;
        });
        self.square += delta * (2.0 * total(ru) + delta * total(rr));
        self.visited += count;
    }

    pub(crate) fn norm(&self) -> f64 {
        self.scale.abs() * self.square.max(0.0).sqrt()
    }

    pub(crate) fn project(&mut self, radius: f64) {
        let norm = self.norm();
        if norm > radius {
            self.shrink(radius / norm);
        }
    }

    pub(crate) fn write(&self, out: &mut [f64]) {
        out.iter_mut().zip(&self.u).for_each(|(out, u)| *out = self.scale * u);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::RunningMean;
    use crate::math::rng::{Purpose, Rng};
    use crate::math::vec;

    struct Pairs<'a>(&'a [(usize, f64)]);
    impl Sparse for Pairs<'_> {
        fn each(&self, mut visit: impl FnMut(usize, usize, f64)) {
            self.0.iter().enumerate().for_each(|(k, &(c, a))| visit(k % LANES, c, a));
        }
    }

    /// The naive twin: plain vectors.
    struct Plain {
        centre: Vec<f64>,
        z: Vec<f64>,
        mean: RunningMean,
    }

    fn draw_row(rng: &mut Rng, dim: usize) -> Vec<(usize, f64)> {
        let mut row: Vec<(usize, f64)> = (0..1 + rng.below(6)).map(|_| (rng.below(dim), rng.uniform() - 0.5)).collect();
        row.sort_by_key(|(c, _)| *c);
        row.dedup_by_key(|(c, _)| *c);
        row
    }

    /// Ten thousand steps in stages of growing length, with and without a ball that is hit, shrinking and flipping steps.
    #[test]
    fn a_stage_equals_plain_vectors_over_ten_thousand_steps() {
        for (radius, ridge, growth) in
            [(f64::INFINITY, 0.0, 3), (0.4, 0.0, 1), (0.7, 0.3, 2), (f64::INFINITY, 0.25, 1), (1.0, 1.0, 1), (0.5, 0.0, 400)]
        {
            let dim = 60;
            let mut rng = Rng::new(7, Purpose::Data);
            let start: Vec<f64> = (0..dim).map(|i| 0.01 * (i as f64).sin()).collect();
            let mut lazy = Stage::default();
            lazy.start(&start, true);
            let mut plain = Plain { centre: start.clone(), z: start, mean: RunningMean::default() };
            let mut centres = RunningMean::default();
            centres.reset(dim);
            let (mut steps, mut stage, mut worst) = (0, 0_u64, 0_f64);
            while steps < 10_000 {
                stage += 1;
                let weight = (stage as f64).powi(3);
                centres.add(&plain.centre, weight);
                lazy.count_centre(weight);
                plain.z.copy_from_slice(&plain.centre);
                plain.mean.reset(dim);
                for t in 1..=stage * growth + 1 {
                    let t = t as f64;
                    let row = draw_row(&mut rng, dim);
                    let (at_centre, at_z) = lazy.scores(Pairs(&row));
                    let dot = |x: &[f64]| row.iter().map(|&(c, a)| a * x[c]).sum::<f64>();
                    worst = worst.max((at_centre - dot(&plain.centre)).abs()).max((at_z - dot(&plain.z)).abs());
                    let amount = (rng.uniform() - 0.5 - 0.1 * dot(&plain.z)) * 4.0 / (t + 4.0);
                    plain.mean.add(&plain.z, t);
                    lazy.weigh(t);
                    let (a, b) = (4.0 / (t + 4.0), t / (t + 4.0) - 4.0 / (t + 4.0) * ridge);
                    lazy.advance(a, b);
                    lazy.add(Pairs(&row), amount);
                    for (z, c) in plain.z.iter_mut().zip(&plain.centre) {
                        *z = a * c + b * *z;
                    }
                    row.iter().for_each(|&(c, v)| plain.z[c] += amount * v);
                    let norm = vec::norm(&plain.z);
                    assert!((lazy.norm() - norm).abs() <= 1e-10 * (1.0 + norm), "{} {norm}", lazy.norm());
                    lazy.project(radius);
                    if norm > radius {
                        vec::scale(&mut plain.z, radius / norm);
                    }
                    steps += 1;
                }
                lazy.close();
                plain.centre.copy_from_slice(plain.mean.get().unwrap());
                let mut written = vec![0.0; dim];
                lazy.write_centre(&mut written);
                worst = worst.max(vec::distance(&written, &plain.centre));
                lazy.write_mean(&mut written);
                worst = worst.max(vec::distance(&written, centres.get().unwrap()));
            }
            assert!(worst < 1e-11, "radius {radius}, ridge {ridge}: {worst:e}");
        }
    }

    /// A ball of radius 0 takes all of the centre away in one stage.
    #[test]
    fn nothing_of_the_centre_may_be_left() {
        let mut lazy = Stage::default();
        lazy.start(&[3.0, 4.0], false);
        lazy.advance(0.5, 0.5);
        lazy.project(0.0);
        lazy.weigh(1.0);
        lazy.close();
        let mut out = [1.0; 2];
        lazy.write_centre(&mut out);
        assert_eq!(out, [0.0; 2]);
        assert_eq!(lazy.scores(Unit(1)), (0.0, 0.0));
        lazy.advance(0.5, 0.5);
        lazy.add(Unit(1), 2.0);
        lazy.weigh(1.0);
        lazy.close();
        assert_eq!((lazy.centre(0), lazy.centre(1)), (0.0, 2.0));
    }

    #[test]
    fn a_scaled_vector_equals_a_plain_one() {
        let dim = 40;
        let mut rng = Rng::new(3, Purpose::Data);
        let mut x: Vec<f64> = (0..dim).map(|i| (i as f64).cos()).collect();
        let mut lazy = Scaled::default();
        lazy.start(&x, true);
        let mut mean = RunningMean::default();
        mean.reset(dim);
        let mut written = vec![0.0; dim];
        for step in 0..10_000 {
            let row = draw_row(&mut rng, dim);
            let amount = rng.uniform() - 0.5;
            let factor = if step % 1000 == 7 { 1e-30 } else { 0.99 };
            lazy.shrink(factor);
            lazy.add(Pairs(&row), amount);
            vec::scale(&mut x, factor);
            row.iter().for_each(|&(c, v)| x[c] += amount * v);
            let norm = vec::norm(&x);
            assert!((lazy.norm() - norm).abs() <= 1e-10 * (1.0 + norm));
            lazy.project(1.0);
            if norm > 1.0 {
                vec::scale(&mut x, 1.0 / norm);
            }
            let dot: f64 = row.iter().map(|&(c, a)| a * x[c]).sum();
            assert!((lazy.score(Pairs(&row)) - dot).abs() < 1e-11);
            let weight = f64::from(step);
            lazy.weigh(weight);
            mean.add(&x, weight);
            if step % 100 == 99 {
                lazy.write_mean(&mut written);
                assert!(vec::distance(&written, mean.get().unwrap()) < 1e-11);
            }
        }
        lazy.write(&mut written);
        assert!(vec::distance(&written, &x) < 1e-11);
    }
}
