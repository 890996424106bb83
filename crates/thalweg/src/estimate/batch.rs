//! Mini-batches: how many samples are read and which, by independent draws or by a walk through all of them. What is computed on them
//! is decided by the solver.

use serde::{Deserialize, Serialize};

use crate::eval::{AHEAD, ValueEval};
use crate::math::Rng;
use crate::math::rng::Purpose;
use crate::oracle::{Draw, Replacement};

/// A batch of fixed size, or everything.
#[derive(Debug, Clone)]
pub struct MiniBatch {
    size: Option<usize>,
    replacement: Replacement,
    draw: Draw,
}

impl MiniBatch {
    /// `size` samples of each stream, all of them if `None`.
    pub fn new(size: Option<usize>, replacement: Replacement) -> Self {
        MiniBatch { size, replacement, draw: Draw::full() }
    }

    /// Whether every sample is read.
    pub fn is_full(&self) -> bool {
        self.size.is_none()
    }

    /// A fresh draw.
    pub fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> &Draw {
        if let Some(size) = self.size {
            ev.sample(&mut self.draw, size, self.replacement);
        }
        &self.draw
    }

    /// The last draw again: recursive estimators ask the same samples at two points.
    pub fn last(&self) -> &Draw {
        &self.draw
    }
}

/// In which order samples are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Every draw is independent of the ones before, as the theorems have it.
    #[default]
    Random,
    /// All samples one after another in a random order, then in another one. What single samples get wrong cancels over a pass.
    Shuffled,
    /// As `Shuffled`, by blocks of [`BLOCK`] neighbours, each from its beginning to its end: data that are much larger than the caches, or
    /// than the memory, are read in long pieces. Neighbours should not be alike: a file that is sorted by its labels wants another order.
    Blocks,
}

/// Samples in a block of [`Order::Blocks`].
pub const BLOCK: usize = 256;

/// A walk through samples, one after another, independently or through all of them in a random order and then in another, in the memory
/// of a few numbers: an order is a function of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    key: u64,
    /// Blocks of this order that were begun, where the next sample is, and how many of its block are left. A block may be of one.
    block: u64,
    at: u64,
    left: u64,
    /// The samples that come next, once there was a first one.
    ahead: Option<[u32; AHEAD]>,
}

impl Walk {
    /// The next of `n` samples.
    pub fn next(&mut self, n: usize, order: Order, rng: &mut Rng) -> u32 {
        let mut ahead = self.ahead.unwrap_or_else(|| std::array::from_fn(|_| self.after(n, order, rng)));
        let next = ahead[0];
        ahead.rotate_left(1);
        ahead[AHEAD - 1] = self.after(n, order, rng);
        self.ahead = Some(ahead);
        next
    }

    /// The sample after all that are known.
    fn after(&mut self, n: usize, order: Order, rng: &mut Rng) -> u32 {
        if order == Order::Random {
            return rng.below(n) as u32;
        }
        let size = if order == Order::Blocks { BLOCK as u64 } else { 1 };
        let (all, blocks) = (n as u64, (n as u64).div_ceil(size));
        if self.left == 0 {
            if self.block == 0 || self.block >= blocks {
                (self.key, self.block) = (rng.bits(), 0);
            }
            self.at = size * place(self.block, blocks, self.key);
            // The last of the blocks may be shorter than the others.
            self.left = size.min(all - self.at);
            self.block += 1;
        }
        self.left -= 1;
        self.at += 1;
        (self.at - 1) as u32
    }

    /// The sample that comes so many after the next one, where that is known.
    pub fn ahead(&self, k: usize) -> Option<u32> {
        self.ahead.and_then(|ahead| ahead.get(k).copied())
    }

    /// Draws `size` samples of the one stream that a problem has; all where there are not more. Several at once that are independent are
    /// different ones, which a walk does not see to.
    pub fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E, order: Order, size: usize, draw: &mut Draw) {
        match *ev.streams() {
            [n] if size < n && (order != Order::Random || size == 1) => {
                let rng = ev.rng(Purpose::Sampling);
                draw.set((0..size).map(|_| self.next(n, order, rng)));
            }
            _ => ev.sample(draw, size, Replacement::Without),
        }
    }
}

/// Where the k-th of n comes in the order of a key: a Feistel network on the numbers of so many bits, which maps them onto themselves
/// one to one. A number that is not below n is mapped again, until it is.
fn place(k: u64, n: u64, key: u64) -> u64 {
    let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
    let low = |x: u64, width: u32| x & u64::MAX.checked_shr(u64::BITS - width).unwrap_or(0);
    let mut x = k;
    loop {
        let (mut high_bits, mut low_bits) = (bits / 2, bits - bits / 2);
        let (mut left, mut right) = (x >> low_bits, low(x, low_bits));
        for round in 0..6_u64 {
            let mixed = mix(key ^ mix(right ^ (round << 48)));
            (left, right) = (right, left ^ low(mixed, high_bits));
            std::mem::swap(&mut high_bits, &mut low_bits);
        }
        x = left << low_bits | right;
        if x < n {
            return x;
        }
    }
}

/// Spreads every bit over all (the finaliser of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_sample_once_in_each_pass() {
        let orders = [Order::Shuffled, Order::Blocks];
        for (n, order) in [1, 2, 3, 7, 64, 65, 256, 1000].into_iter().flat_map(|n| orders.map(|order| (n, order))) {
            let (mut walk, mut rng) = (Walk::default(), Rng::new(1, Purpose::Sampling));
            let mut before = vec![];
            for pass in 0..4 {
                let mut step = || {
                    let foretold: Vec<_> = (0..=AHEAD).map(|k| walk.ahead(k)).collect();
                    let next = walk.next(n, order, &mut rng);
                    assert_eq!(foretold[AHEAD], None);
                    assert!(foretold[0].is_none_or(|f| f == next));
                    assert!((1..AHEAD).all(|k| foretold[k].is_none_or(|f| walk.ahead(k - 1) == Some(f))));
                    next
                };
                let seen: Vec<u32> = (0..n).map(|_| step()).collect();
                let mut sorted = seen.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().enumerate().all(|(i, &s)| s == i as u32), "{n}: {seen:?}");
                assert!(n < if order == Order::Blocks { 1000 } else { 64 } || pass == 0 || seen != before);
                let apart = seen.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
                assert!(if order == Order::Blocks { apart < n.div_ceil(BLOCK) } else { n < 64 || apart > n / 2 });
                before = seen;
            }
        }
    }

    /// Each sample comes about equally often at each place, and neighbours are no closer together than others.
    #[test]
    fn orders_are_as_good_as_random() {
        let (n, orders) = (10, 20_000);
        let mut rng = Rng::new(2, Purpose::Sampling);
        let (mut hits, mut next) = (vec![0_u32; n * n], 0_u32);
        for _ in 0..orders {
            let mut walk = Walk::default();
            let seen: Vec<u32> = (0..n).map(|_| walk.next(n, Order::Shuffled, &mut rng)).collect();
            seen.iter().enumerate().for_each(|(place, &s)| hits[place * n + s as usize] += 1);
            next += seen.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count() as u32;
        }
        // 2,000 expected each, with a standard deviation of 42; of the 9 pairs in an order, 1.8 are neighbours.
        assert!(hits.iter().all(|&h| h.abs_diff(2_000) < 200), "{hits:?}");
        let mean = f64::from(next) / f64::from(orders);
        assert!((mean - 1.8).abs() < 0.1, "{mean}");
    }

    /// Known ahead or not, independent samples are as often those of every place, and as often equal to the one before.
    #[test]
    fn independent_samples_are_uniform() {
        let (n, draws) = (10, 100_000);
        let (mut walk, mut rng) = (Walk::default(), Rng::new(3, Purpose::Sampling));
        let (mut hits, mut equal, mut last) = (vec![0_u32; n], 0_u32, u32::MAX);
        for _ in 0..draws {
            let next = walk.next(n, Order::Random, &mut rng);
            hits[next as usize] += 1;
            equal += u32::from(next == last);
            last = next;
        }
        // 10,000 expected each, with a standard deviation of 95.
        assert!(hits.iter().chain([&equal]).all(|&h| h.abs_diff(10_000) < 450), "{hits:?} {equal}");
    }
}
