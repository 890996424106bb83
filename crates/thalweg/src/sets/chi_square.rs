//! Weights of a sample near equal weights: the simplex with lower bounds on the entries, intersected with a ball around its
//! centre. The weights of a run, which are projected onto this set repeatedly, are in `solvers/minmax`.
//!
//! Everything is computed in deviations from equal weights, `u = p - 1/n`, since squares of p itself would lose the significant
//! digits. The nearest point is `u_i = max(-c, (w_i - m) / kap + b)` with `c = (1 - delta) / n`, where m is the mean of the N
//! largest w_i and `b = c (n - N) / N` keeps the sum at 0. Let theta be the w at which the lower bound begins. As theta grows,
//! the sum of `max(0, w_i - theta)` falls, and the sum of u^2 for the kap that keeps the sum at 0 rises. Whether the i-th
//! largest w is among the N can therefore be decided for each w alone, given the sums of the larger ones.

use serde::{Deserialize, Serialize};

use super::{Set, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// `{ p : sum p = 1, p_i >= delta / n, (n^2 / 2) ||p - 1/n||^2 <= rho }` in a space of n dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquare {
    n: usize,
    rho: f64,
    delta: f64,
}

/// Result of a projection: `p_i = max(delta / n, W_i / kap - tau)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// kap; 1 if the ball is not active.
    pub kap: f64,
    /// tau.
    pub tau: f64,
    /// Number of entries above the lower bound.
    pub free: usize,
}

/// Number of the largest entries, their mean, and the sum of squares around it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LargestEntries {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) spread: f64,
}

impl LargestEntries {
    /// Adds one more entry, without cancellation.
    fn and(self, w: f64) -> LargestEntries {
        let count = self.count + 1;
        let off = w - self.mean;
        let mean = self.mean + off / count as f64;
        LargestEntries { count, mean, spread: self.spread + off * (w - mean) }
    }

    /// Returns the sum over the entries of their excess above `w`.
    fn above(self, w: f64) -> f64 {
        self.count as f64 * (self.mean - w)
    }
}

impl ChiSquare {
    /// Builds the set of weights of n samples, with rho and delta as above.
    pub fn new(n: usize, rho: f64, delta: f64) -> Result<Self> {
        if n == 0 {
            return Err(Error::setting("number of weights", n, "at least 1"));
        }
        if !(rho > 0.0 && rho.is_finite()) {
            return Err(Error::setting("rho", rho, "a finite number above 0"));
        }
        if !(0.0..1.0).contains(&delta) {
            return Err(Error::setting("delta", delta, "a number of at least 0 and below 1"));
        }
        Ok(ChiSquare { n, rho, delta })
    }

    /// Returns n.
    pub fn samples(&self) -> usize {
        self.n
    }

    /// Returns the lower bound delta / n of the weights.
    pub fn floor(&self) -> f64 {
        self.delta / self.n as f64
    }

    /// Returns c, the distance of the lower bound from equal weights.
    pub(crate) fn depth(&self) -> f64 {
        (1.0 - self.delta) / self.n as f64
    }

    /// Returns b, the excess of the mean of the N largest over equal weights when all others are at the lower bound.
    pub(crate) fn height(&self, count: usize) -> f64 {
        self.depth() * (self.n - count) as f64 / count as f64
    }

    /// Returns the sum of squares that the ball leaves for the N largest around their mean; negative if the others cannot all
    /// be at the lower bound.
    fn remaining_square(&self, count: usize) -> f64 {
        let n = self.n as f64;
        let (radius, depth) = (2.0 * self.rho / (n * n), self.depth());
        radius - depth * depth * n * (self.n - count) as f64 / count as f64
    }

    /// Returns whether `w` stays above the lower bound for kap = `1 / scale`, where `top` are all larger entries.
    pub(crate) fn above_floor(&self, top: LargestEntries, w: f64, scale: f64) -> bool {
        scale * top.above(w) < self.n as f64 * self.depth()
    }

    /// As above, for the kap at which the ball is active.
    pub(crate) fn above_floor_in_ball(&self, top: LargestEntries, w: f64) -> bool {
        if top.count == 0 {
            return true;
        }
        let share = top.above(w) / (self.n as f64 * self.depth());
        top.spread > share * share * self.remaining_square(top.count)
    }

    /// Returns whether kap = 1 satisfies the ball; `spread` is that of the N largest.
    pub(crate) fn keeps_ball(&self, count: usize, spread: f64) -> bool {
        spread <= self.remaining_square(count)
    }

    /// Returns the kap at which the ball is active.
    pub(crate) fn contraction(&self, top: LargestEntries) -> f64 {
        if top.spread > 0.0 { (top.spread / self.remaining_square(top.count)).sqrt() } else { 1.0 }
    }

    /// Projects and returns kap and tau.
    pub fn project_to(&self, x: &mut [f64], warm: &mut Warm) -> Result<Projection> {
        super::check_point(self, x.len())?;
        if let Some((i, value)) = vec::first_not_finite(x) {
            return Err(Error::NotFinite { what: format!("entry {} of the point for the {}", i + 1, self.describe()), value });
        }
        let equal = 1.0 / self.n as f64;
        let sorted = &mut warm.values;
        sorted.clear();
        sorted.extend(x.iter().map(|x| x - equal));
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut top = LargestEntries::default();
        take_while(&mut top, sorted, |top, w| self.above_floor(top, w, 1.0));
        let mut kap = 1.0;
        if !self.keeps_ball(top.count, top.spread) {
            // The ball lifts entries off the lower bound and never puts one there.
            take_while(&mut top, sorted, |top, w| self.above_floor_in_ball(top, w));
            kap = self.contraction(top).max(1.0);
        }
        sorted.clear();
        let (floor, height) = (self.floor(), self.height(top.count));
        for x in x {
            *x = (equal + ((*x - equal - top.mean) / kap + height)).max(floor);
        }
        Ok(Projection { kap, tau: (equal + top.mean) / kap - height - equal, free: top.count })
    }
}

/// Adds the next largest entries while `fits` holds.
fn take_while(top: &mut LargestEntries, sorted: &[f64], fits: impl Fn(LargestEntries, f64) -> bool) {
    for &w in &sorted[top.count..] {
        if !fits(*top, w) {
            return;
        }
        *top = top.and(w);
    }
}

impl Set for ChiSquare {
    fn dim(&self) -> Option<usize> {
        Some(self.n)
    }

    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        self.project_to(x, warm).map(drop)
    }

    /// Returns the diameter of the ball or of the simplex with lower bounds, whichever is smaller. It is an upper bound, and
    /// exact if the ball lies within the simplex or contains its corners.
    fn diameter(&self, dim: usize) -> f64 {
        let ball = 2.0 * (2.0 * self.rho).sqrt() / self.n as f64;
        if dim < 2 { 0.0 } else { ball.min(std::f64::consts::SQRT_2 * (1.0 - self.delta)) }
    }

    /// Puts all free weight on the smallest entries of the slope if the ball allows it; otherwise as for a projection from far
    /// away.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        let mut sorted: Vec<f64> = slope.iter().map(|s| -s).collect();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let largest = *sorted.first()?;
        let mut top = LargestEntries::default();
        take_while(&mut top, &sorted, |_, w| w == largest);
        let idle = self.keeps_ball(top.count, 0.0);
        if !idle {
            take_while(&mut top, &sorted, |top, w| self.above_floor_in_ball(top, w));
        }
        let kap = self.contraction(top);
        let (equal, floor, height) = (1.0 / self.n as f64, self.floor(), self.height(top.count));
        for (out, s) in out.iter_mut().zip(slope) {
            let off = -s - top.mean;
            *out = if idle && off < 0.0 { floor } else { (equal + (off / kap + height)).max(floor) };
        }
        Some(())
    }

    fn describe(&self) -> String {
        format!("weights of {} samples with rho = {} and delta = {}", self.n, self.rho, self.delta)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use proptest::prelude::*;

    fn set(n: usize, rho: f64, delta: f64) -> ChiSquare {
        ChiSquare::new(n, rho, delta).unwrap()
    }

    /// The naive twin: for a given kap the threshold by bisection, kap by bisection. Sums of deviations, so that it may be trusted
    /// with small balls.
    fn by_bisection(set: &ChiSquare, x: &[f64]) -> Vec<f64> {
        let n = set.n as f64;
        let (c, radius) = ((1.0 - set.delta) / n, 2.0 * set.rho / (n * n));
        let largest = x.iter().copied().fold(f64::MIN, f64::max);
        // What an entry has below the largest keeps its digits; kap is searched for as its logarithm.
        let at = |kap: f64| -> Vec<f64> {
            let (mut low, mut high) = (-1.0 - c, 1.0 + c);
            for _ in 0..200 {
                let t = 0.5 * (low + high);
                let sum: f64 = x.iter().map(|x| ((x - largest) / kap + t).max(-c)).sum();
                if sum < 0.0 { low = t } else { high = t }
            }
            x.iter().map(|x| ((x - largest) / kap + high).max(-c)).collect()
        };
        let squares = |u: &[f64]| u.iter().map(|u| u * u).sum::<f64>();
        let mut u = at(1.0);
        if squares(&u) > radius {
            let (mut low, mut high) = (0.0_f64, 90.0_f64);
            for _ in 0..200 {
                let middle = 0.5 * (low + high);
                if squares(&at(middle.exp())) > radius { low = middle } else { high = middle }
            }
            u = at(high.exp());
        }
        u.iter().map(|u| 1.0 / n + u).collect()
    }

    /// Known answers, verified by another program.
    #[test]
    fn known_answers() {
        for (delta, rho, w, p, kap) in [
            (0.0, 1.0, &[0.7, 0.3][..], &[0.7, 0.3][..], 1.0),
            (0.0, 0.04, &[0.7, 0.3], &[0.6, 0.4], 2.0),
            (0.3, 10.0, &[1.0, 0.2, 0.0], &[0.8, 0.1, 0.1], 1.0),
            (0.3, 0.5, &[1.0, 0.2, 0.0], &[0.60059458, 0.24424625, 0.15515917], 2.2449944),
            (0.0, 0.3, &[0.9, 0.2, -0.1], &[0.53494429, 0.28589546, 0.17916025], 2.8106939),
        ] {
            let mut x = w.to_vec();
            let foot = set(w.len(), rho, delta).project_to(&mut x, &mut Warm::default()).unwrap();
            assert!(x.iter().zip(p).all(|(x, p)| (x - p).abs() < 6e-9), "{w:?}: {x:?}");
            assert!((foot.kap - kap).abs() < 6e-8, "{w:?}: {foot:?}");
            // tau by its meaning
            for (x, w) in x.iter().zip(w) {
                assert!((x - (w / foot.kap - foot.tau).max(delta / p.len() as f64)).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn it_keeps_its_promises() {
        for (n, rho, delta) in [(5, 0.4, 0.2), (4, 2.0, 0.0), (6, 1e-3, 0.5), (3, 50.0, 0.1), (7, 6.0, 1e-5)] {
            let set = set(n, rho, delta);
            // A random direction with sum 0, as long as ball and floors allow, times the first number.
            let member = |u: &[f64]| {
                let mean = u.iter().sum::<f64>() / n as f64;
                let off: Vec<f64> = u.iter().map(|u| u - mean).collect();
                let low = off.iter().fold(1e-300_f64, |m, v| m.max(-v));
                let most = (set.depth() / low).min((2.0 * rho).sqrt() / n as f64 / vec::norm(&off).max(1e-300));
                off.iter().map(|v| 1.0 / n as f64 + u[0] * most * v).collect::<Vec<f64>>()
            };
            testing::check_set(&set, n, member, |x| by_bisection(&set, x));
        }
    }

    /// A thousand cases: no floors, balls that are tiny or idle, ties, entries of n 1e5, one entry.
    #[test]
    fn a_thousand_cases_equal_the_twin() {
        let case = (1..40_usize, 0..4_usize, 0..3_usize, prop::collection::vec((0..6_usize, 0.0..1.0_f64), 40), 0.0..1.0_f64);
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() },
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let active: [std::cell::Cell<u32>; 4] = Default::default();
        runner
            .run(&case, |(n, size, floors, draws, share)| {
                let m = n as f64;
                let rho = [1e-9, share * m, share * m * m + 1e-3, m * m][size];
                let delta = [0.0, 1e-5, share][floors];
                let x: Vec<f64> = (0..n)
                    .map(|i| match draws[i] {
                        (0, _) => 1.0 / m,
                        (1, _) => 0.5,
                        (2, v) if i == 0 => m * 1e5 * v,
                        (_, v) => 3.0 * v / m,
                    })
                    .collect();
                let set = ChiSquare::new(n, rho.max(1e-12), delta).unwrap();
                let mut p = x.clone();
                let foot = set.project_to(&mut p, &mut Warm::default()).unwrap();
                let kind = &active[usize::from(foot.kap > 1.0) + 2 * usize::from(foot.free < n)];
                kind.set(kind.get() + 1);
                let naive = by_bisection(&set, &x);
                let size = 1.0 + vec::norm(&x);
                assert!(vec::distance(&p, &naive) < 1e-12 * size, "{set:?}: {x:?} goes to {p:?}, by the twin to {naive:?}");
                let off: f64 = p.iter().map(|p| p - 1.0 / m).sum();
                let squares: f64 = p.iter().map(|p| (p - 1.0 / m).powi(2)).sum();
                assert!(off.abs() < 1e-14 && squares <= 2.0 * set.rho / (m * m) * (1.0 + 1e-9) + 1e-30, "{set:?}: {p:?}");
                assert!(p.iter().all(|&p| p >= set.floor()));
                Ok(())
            })
            .unwrap();
        assert!(active.iter().all(|cases| cases.get() > 30), "{active:?}");
    }

    /// 1e6 weights, one of them sampled at the floor: the sum of squares is met to many digits although squares of p are not.
    #[test]
    fn many_weights_keep_their_digits() {
        let n = 1_000_000;
        for rho in [1e-3, 1.0, 1e3, 1e9] {
            let set = set(n, rho, 1e-5);
            let mut x = vec![1.0 / n as f64; n];
            x[7] += 1e-3;
            x[8] += 1e11;
            set.project(&mut x, &mut Warm::default()).unwrap();
            let u = |i: usize| x[i] - 1.0 / n as f64;
            assert!(vec::sum_by(n, u).abs() < 1e-12);
            let divergence = 0.5 * (n as f64).powi(2) * vec::sum_by(n, |i| u(i) * u(i));
            assert!((divergence / rho - 1.0).abs() < 1e-7, "{rho}: {divergence}");
        }
    }

    #[test]
    fn what_it_refuses() {
        for (message, set) in [
            ("number of weights must be at least 1, got 0", ChiSquare::new(0, 1.0, 0.0)),
            ("rho must be a finite number above 0, got 0", ChiSquare::new(3, 0.0, 0.0)),
            ("rho must be a finite number above 0, got NaN", ChiSquare::new(3, f64::NAN, 0.0)),
            ("delta must be a number of at least 0 and below 1, got 1", ChiSquare::new(3, 1.0, 1.0)),
            ("delta must be a number of at least 0 and below 1, got -0.1", ChiSquare::new(3, 1.0, -0.1)),
        ] {
            assert_eq!(set.unwrap_err().to_string(), message);
        }
        let set = set(2, 1.0, 0.0);
        let refuse = |x: &mut [f64]| set.project(x, &mut Warm::default()).unwrap_err().to_string();
        let what = "the point for the weights of 2 samples with rho = 1 and delta = 0";
        assert_eq!(refuse(&mut [1.0]), format!("{what} has 1 entries; expected 2"));
        assert_eq!(refuse(&mut [1.0, f64::NAN]), format!("entry 2 of {what} is NaN; expected a finite number"));
    }

    /// Losses 1 and 3: the worst weights are 1/2 -+ sqrt(rho)/2.
    #[test]
    fn the_worst_weights_of_two_losses() {
        for (rho, t) in [(0.04, 0.1), (0.25, 0.25), (4.0, 0.5)] {
            let mut p = [0.0; 2];
            set(2, rho, 0.0).linear_minimizer(&[-1.0, -3.0], &mut p).unwrap();
            assert!((p[1] - 0.5 - t).abs() < 1e-15 && (p[0] + 3.0 * p[1] - 2.0 - 2.0 * t).abs() < 1e-15, "{p:?}");
        }
    }
}
