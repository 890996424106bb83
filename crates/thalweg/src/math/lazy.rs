//! Vectors that are moved along sparse rows at the cost of the rows: a stage of SPG with its centre, its average and its ball, and
//! a vector with a scale. The rows come from the caller.
//!
//! A stage moves `z' = a c + b z - s d` with a sparse d, averages the z and goes on from the average. Here `z = p c + q v` and
//! `sum of weighted z = alpha c + beta v + e`, so that p, q, alpha and beta change in a step, and v and e only where d is not 0.
//! When a stage ends, c becomes `P c + (beta v + e) / W`: the scale of c takes up P, and a coordinate takes up the rest when it is
//! next moved. Until then it remembers the turn at which it was left, and a short table says what has become of it since.

use serde::{Deserialize, Serialize};

use super::Matrix;
use super::fetch::scattered;
use super::matrix::{LANES, Visit};

/// Entries of a sparse vector, one at a time, dealt out to lanes, see [`Matrix::deal_row`].
pub(crate) trait Sparse {
    fn each(&self, to: &mut impl Visit);
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
    fn each(&self, to: &mut impl Visit) {
        self.features.deal_row(self.row, to);
        if self.intercept {
            to.visit(0, self.features.cols(), 1.0);
        }
    }
}

/// A 1 in one place.
#[derive(Clone, Copy)]
pub(crate) struct Unit(pub(crate) usize);

impl Sparse for Unit {
    #[inline(always)]
    fn each(&self, to: &mut impl Visit) {
        to.visit(0, self.0, 1.0);
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

/// What has become of a coordinate since a turn: `w += from_v v + from_e e`, `e = keep_e e + carry v`, `v = keep_v v`. The first two are 0
/// while the stage goes on, the others once it is over. There is no branch in that, so that the processor works on many coordinates at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Since {
    from_v: f64,
    from_e: f64,
    keep_v: f64,
    keep_e: f64,
    carry: f64,
    /// What the weights of centres had added up to when the stage ended.
    late: f64,
}

impl Since {
    /// Of a coordinate that is settled.
    const NOTHING: Since = Since { from_v: 0.0, from_e: 0.0, keep_v: 1.0, keep_e: 1.0, carry: 0.0, late: 0.0 };

    /// What the centre has gained, up to the common scale.
    #[inline(always)]
    fn more(&self, slot: &Slot) -> f64 {
        self.from_v * slot.v + self.from_e * slot.e
    }

    /// The coordinate as it is at the turn `now`.
    #[inline(always)]
    fn settled(&self, slot: &Slot, now: u64) -> Slot {
        let e = self.keep_e * slot.e + self.carry * slot.v;
        Slot { w: slot.w + self.more(slot), v: self.keep_v * slot.v, e, turn: now }
    }
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
    /// By turn. The last one is now: nothing has happened since.
    turns: Vec<Since>,
    /// The turn at which the stage began.
    begun: usize,
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
        self.slots = scattered(x.len());
        self.slots.extend(x.iter().map(|&w| Slot { w, ..Slot::default() }));
        self.turns.clear();
        self.turns.push(Since::NOTHING);
        // So that no step has to make room: a stage has a handful of turns.
        self.turns.reserve(self.limit() + 256);
        self.scale = 1.0;
        self.settle_all();
        self.begin();
    }

    fn begin(&mut self) {
        self.begun = self.turns.len() - 1;
        (self.p, self.q) = (1.0, 1.0);
        (self.alpha, self.beta, self.weight) = (0.0, 0.0, 0.0);
    }

    /// Turns beyond which everything is settled, to keep their list short.
    fn limit(&self) -> usize {
        self.slots.len() / 8 + 1024
    }

    /// The products of a row with the centre and with z.
    #[inline]
    pub(crate) fn scores(&self, row: impl Sparse) -> (f64, f64) {
        let mut read = Read { slots: &self.slots, turns: &self.turns, rw: [0.0; LANES], rv: [0.0; LANES] };
        row.each(&mut read);
        let at_centre = self.scale * total(read.rw);
        (at_centre, self.p * at_centre + self.q * total(read.rv))
    }

    /// The product of a row with the centre.
    #[inline]
    pub(crate) fn score_at_centre(&self, row: impl Sparse) -> f64 {
        let mut rw = [0.0; LANES];
        row.each(&mut |lane, c, a| {
            let slot: &Slot = &self.slots[c];
            rw[lane] += a * (slot.w + self.turns[slot.turn as usize].more(slot));
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
        self.restore();
    }

    /// Writes v anew where q is small, or 0: v takes up q, and e takes up beta v.
    fn restore(&mut self) {
        if self.q.abs() >= SMALL {
            return;
        }
        let (q, beta) = (self.q, self.beta);
        for since in &mut self.turns[self.begun..] {
            since.carry += beta * since.keep_v;
            since.keep_v *= q;
        }
        self.turns.push(Since::NOTHING);
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
    }

    /// `z += amount row`. The coordinates of the row are settled by that.
    #[inline]
    pub(crate) fn add(&mut self, row: impl Sparse, amount: f64) {
        // v moves by delta, and e by what beta v would otherwise have gained.
        let delta = amount / self.q;
        let back = -self.beta * delta;
        let now = self.turns.len() as u64 - 1;
        let Stage { slots, turns, late, .. } = self;
        let mut moved = Moved { slots, turns, late, now, delta, back, sums: Default::default(), count: 0 };
        row.each(&mut moved);
        let (Sums { rw, rv, re, rr }, count) = (moved.sums[0] + moved.sums[1], moved.count);
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
                self.end(unit * beta, unit);
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
        let often = self.visited > SETTLED_EVERY * self.slots.len() as u64 + 4096;
        // The mean of centres is a difference of two numbers that grow as the scale shrinks.
        let least = if self.late.is_empty() { TINY } else { SMALL };
        if often || self.turns.len() > self.limit() || self.scale.abs() < least {
            self.settle_all();
        }
        self.begin();
    }

    /// Writes down what becomes of a coordinate by the end of the stage, for every turn of the stage that it may have been left at:
    /// `w += from_v v + from_e e`, and then v and e are 0.
    fn end(&mut self, from_v: f64, from_e: f64) {
        for since in &mut self.turns[self.begun..] {
            *since = Since {
                from_v: from_v * since.keep_v + from_e * since.carry,
                from_e: from_e * since.keep_e,
                keep_v: 0.0,
                keep_e: 0.0,
                carry: 0.0,
                late: self.gamma,
            };
        }
        self.turns.push(Since::NOTHING);
    }

    /// Writes every coordinate out; the carried products become exact again.
    fn settle_all(&mut self) {
        self.settle_each(|slot, scale| slot.w *= scale);
    }

    fn settle_each(&mut self, write: impl Fn(&mut Slot, f64)) {
        let mut sums = Products::default();
        for (c, slot) in self.slots.iter_mut().enumerate() {
            let since = &self.turns[slot.turn as usize];
            let settled = since.settled(slot, 0);
            if let Some(late) = self.late.get_mut(c) {
                // The sum of centres so far, which no longer depends on w.
                *late += since.late * since.more(slot) - self.gamma * settled.w;
            }
            *slot = settled;
            write(slot, self.scale);
            sums.ww += slot.w * slot.w;
            sums.wv += slot.w * slot.v;
            sums.vv += slot.v * slot.v;
            sums.we += slot.w * slot.e;
            sums.ve += slot.v * slot.e;
            sums.ee += slot.e * slot.e;
        }
        self.products = sums;
        self.turns.clear();
        self.turns.push(Since::NOTHING);
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
            let since = &self.turns[slot.turn as usize];
            let more = since.more(slot);
            *out = (self.gamma * (slot.w + more) - (late + since.late * more)) / self.total;
        }
    }

    /// One coordinate of the centre, between two stages.
    pub(crate) fn centre(&self, c: usize) -> f64 {
        self.score_at_centre(Unit(c))
    }

    /// The centre.
    pub(crate) fn write_centre(&self, out: &mut [f64]) {
        for (out, slot) in out.iter_mut().zip(&self.slots) {
            *out = self.scale * (slot.w + self.turns[slot.turn as usize].more(slot));
        }
    }
}

/// Reads the coordinates of a row: its products with w and v as they are now.
struct Read<'a> {
    slots: &'a [Slot],
    turns: &'a [Since],
    rw: [f64; LANES],
    rv: [f64; LANES],
}

impl Visit for Read<'_> {
    #[inline(always)]
    fn visit(&mut self, lane: usize, c: usize, a: f64) {
        let slot = &self.slots[c];
        let since = &self.turns[slot.turn as usize];
        self.rw[lane] += a * (slot.w + since.more(slot));
        self.rv[lane] += a * (since.keep_v * slot.v);
    }
}

/// Settles the coordinates of a row and moves v by `delta row`, e by `back row`.
struct Moved<'a> {
    slots: &'a mut [Slot],
    turns: &'a [Since],
    late: &'a mut [f64],
    now: u64,
    delta: f64,
    back: f64,
    /// Two lanes of four sums are what the registers hold.
    sums: [Sums; 2],
    count: u64,
}

/// Products of a row with w, v and e before they are moved, and with itself.
#[derive(Clone, Copy, Default)]
struct Sums {
    rw: f64,
    rv: f64,
    re: f64,
    rr: f64,
}

impl std::ops::Add for Sums {
    type Output = Sums;
    fn add(self, other: Sums) -> Sums {
        Sums { rw: self.rw + other.rw, rv: self.rv + other.rv, re: self.re + other.re, rr: self.rr + other.rr }
    }
}

impl Visit for Moved<'_> {
    #[inline(always)]
    fn visit(&mut self, lane: usize, c: usize, a: f64) {
        let (place, sums) = (&mut self.slots[c], &mut self.sums[lane % 2]);
        let since = &self.turns[place.turn as usize];
        if let Some(late) = self.late.get_mut(c) {
            *late += since.late * since.more(place);
        }
        let slot = since.settled(place, self.now);
        sums.rw += a * slot.w;
        sums.rv += a * slot.v;
        sums.re += a * slot.e;
        sums.rr += a * a;
        *place = Slot { v: slot.v + self.delta * a, e: slot.e + self.back * a, ..slot };
        self.count += 1;
    }
}

/// The sum of all lanes.
#[inline(always)]
fn total([a, b, c, d]: [f64; LANES]) -> f64 {
    (a + b) + (c + d)
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
        self.u = scattered(x.len());
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
        row.each(&mut |lane, c, a| sum[lane] += a * self.u[c]);
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
        let Scaled { u, late, sum, .. } = self;
        row.each(&mut |lane: usize, c: usize, a: f64| {
            let u: &mut f64 = &mut u[c];
            ru[lane] += a * *u;
            rr[lane] += a * a;
            *u += delta * a;
            if let Some(late) = late.get_mut(c) {
                *late += *sum * delta * a;
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
        fn each(&self, to: &mut impl Visit) {
            self.0.iter().enumerate().for_each(|(k, &(c, a))| to.visit(k % LANES, c, a));
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
