//! Mini-batches: how many samples are read and which, by independent draws or in shuffled order. The solver decides what to
//! compute on them.

use serde::{Deserialize, Serialize};

use crate::eval::{AHEAD, ValueEval};
use crate::math::Rng;
use crate::math::rng::Purpose;
use crate::oracle::{Draw, Replacement};

/// Mini-batch of fixed size, or all samples.
#[derive(Debug, Clone)]
pub struct MiniBatch {
    size: Option<usize>,
    replacement: Replacement,
    draw: Draw,
}

impl MiniBatch {
    /// Creates a mini-batch of `size` samples of each stream, or of all samples if `None`.
    pub fn new(size: Option<usize>, replacement: Replacement) -> Self {
        MiniBatch { size, replacement, draw: Draw::full() }
    }

    /// Returns whether every sample is read.
    pub fn is_full(&self) -> bool {
        self.size.is_none()
    }

    /// Draws a new mini-batch.
    pub fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> &Draw {
        if let Some(size) = self.size {
            ev.sample(&mut self.draw, size, self.replacement);
        }
        &self.draw
    }

    /// Returns the last draw, which recursive estimators evaluate at two points.
    pub fn last(&self) -> &Draw {
        &self.draw
    }
}

/// Order in which samples are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Independent mini-batches. The samples of one mini-batch are distinct, where the theorems take them to be independent; its
    /// mean is unbiased and varies no more.
    #[default]
    Random,
    /// All samples in a random order, then in a new one. The errors of single samples cancel over a pass.
    Shuffled,
    /// As `Shuffled`, but in blocks of [`BLOCK`] consecutive samples, each read from start to end, so that data much larger than
    /// the caches or the memory are read sequentially. Consecutive samples should not be similar: use a different order for a
    /// file sorted by label.
    Blocks,
}

/// Number of samples in a block of [`Order::Blocks`].
pub const BLOCK: usize = 256;

/// Sequence of samples, drawn independently or without replacement in one random order after another. Takes constant memory,
/// because a permutation is a function of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    key: u64,
    /// Number of blocks of this permutation started so far, position of the next sample, and samples left in its block. A block
    /// may have one sample.
    block: u64,
    at: u64,
    left: u64,
    /// The next samples, once the first one was drawn.
    ahead: Option<[u32; AHEAD]>,
}

impl Walk {
    /// Draws the next of `n` samples.
    pub fn next(&mut self, n: usize, order: Order, rng: &mut Rng) -> u32 {
        let mut ahead = self.ahead.unwrap_or_else(|| std::array::from_fn(|_| self.after(n, order, rng)));
        let next = ahead[0];
        ahead.rotate_left(1);
        ahead[AHEAD - 1] = self.after(n, order, rng);
        self.ahead = Some(ahead);
        next
    }

    /// Draws the sample after those already drawn ahead.
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
            // The last block may be shorter than the others.
            self.left = size.min(all - self.at);
            self.block += 1;
        }
        self.left -= 1;
        self.at += 1;
        (self.at - 1) as u32
    }

    /// Returns the sample `k` after the next one, if it is already drawn.
    pub fn ahead(&self, k: usize) -> Option<u32> {
        self.ahead.and_then(|ahead| ahead.get(k).copied())
    }

    /// Draws `size` samples of the single stream of a problem, or all of it if it has no more. Independent samples within one
    /// draw are distinct, which single steps of the sequence do not ensure.
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

/// Returns the image of k in the permutation of 0..n given by a key: a Feistel network on numbers of a fixed bit length, which is
/// a bijection. A result that is not below n is mapped again until it is.
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

/// Mixes every bit into all others (the finaliser of SplitMix64).
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

    /// Each sample is about equally frequent at each position, and consecutive samples are not adjacent more often than others.
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
        // 2,000 expected each, with a standard deviation of 42; of the 9 pairs in an order, 1.8 are adjacent.
        assert!(hits.iter().all(|&h| h.abs_diff(2_000) < 200), "{hits:?}");
        let mean = f64::from(next) / f64::from(orders);
        assert!((mean - 1.8).abs() < 0.1, "{mean}");
    }

    /// With or without drawing ahead, independent samples are uniform, and equal to their predecessor with the expected
    /// frequency.
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
