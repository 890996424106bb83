//! Samples that a problem is evaluated on. A draw is an argument and never hidden in the problem: recursive estimators evaluate
//! one draw at two points, tests fix it, a certificate passes all rows.

use crate::math::Rng;

/// Selection of all indices or of a list of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick<'a> {
    /// Every index, in order.
    All,
    /// The listed indices; repeated ones count as often as they are listed.
    These(&'a [u32]),
}

impl Pick<'_> {
    /// Returns the number of selected indices out of `all`.
    pub fn count(&self, all: usize) -> usize {
        match self {
            Pick::All => all,
            Pick::These(ids) => ids.len(),
        }
    }

    /// Calls `visit(k, j)` for each selected index: j is the k-th one.
    pub fn each(&self, all: usize, mut visit: impl FnMut(usize, usize)) {
        match self {
            Pick::All => (0..all).for_each(|j| visit(j, j)),
            Pick::These(ids) => ids.iter().enumerate().for_each(|(k, &j)| visit(k, j as usize)),
        }
    }
}

/// Sampling with or without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Independent draws.
    With,
    /// Distinct samples.
    Without,
}

/// Sample indices of one evaluation: one list per sample stream, where a stream without a list means all its samples. Buffers are
/// reused.
#[derive(Debug, Clone, Default)]
pub struct Draw {
    streams: Vec<Stream>,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    all: bool,
    ids: Vec<u32>,
    /// Bit set of the indices drawn so far; all zero between draws.
    seen: Vec<u64>,
}

impl Draw {
    /// Selects all samples of every stream.
    pub fn full() -> Self {
        Draw::default()
    }

    /// Selects the given indices for each stream, in the order of [`super::Description::streams`].
    pub fn these(streams: &[&[u32]]) -> Self {
        Draw { streams: streams.iter().map(|ids| Stream { ids: ids.to_vec(), ..Stream::default() }).collect() }
    }

    /// Replaces the draw by the given indices of a single stream.
    pub fn set(&mut self, ids: impl Iterator<Item = u32>) {
        self.streams.resize_with(1, Stream::default);
        let stream = &mut self.streams[0];
        stream.all = false;
        stream.ids.clear();
        stream.ids.extend(ids);
    }

    /// Returns the indices drawn from `stream`.
    pub fn stream(&self, stream: usize) -> Pick<'_> {
        match self.streams.get(stream) {
            Some(s) if !s.all => Pick::These(&s.ids),
            _ => Pick::All,
        }
    }

    /// Draws `size` samples of each population, or all of it if `size` is at least the population. This holds for sampling with
    /// replacement too, because the mean over the whole population has no sampling error.
    pub fn sample(&mut self, populations: &[usize], size: usize, replacement: Replacement, rng: &mut Rng) {
        self.streams.resize_with(populations.len(), Stream::default);
        for (stream, &n) in self.streams.iter_mut().zip(populations) {
            stream.ids.clear();
            stream.all = size >= n;
            if stream.all {
                continue;
            }
            match replacement {
                Replacement::With => stream.ids.extend((0..size).map(|_| rng.below(n) as u32)),
                Replacement::Without => stream.distinct(n, size, rng),
            }
        }
    }
}

impl Stream {
    /// Draws `size` distinct numbers below `n` in `size` steps (Floyd's algorithm).
    fn distinct(&mut self, n: usize, size: usize, rng: &mut Rng) {
        self.seen.resize(n.div_ceil(64), 0);
        for top in n - size..n {
            let drawn = rng.below(top + 1);
            let fresh = self.seen[drawn / 64] >> (drawn % 64) & 1 == 0;
            let id = if fresh { drawn } else { top };
            self.seen[id / 64] |= 1 << (id % 64);
            self.ids.push(id as u32);
        }
        for &id in &self.ids {
            self.seen[id as usize / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::Purpose;

    #[test]
    fn distinct_draws_are_distinct_and_uniform() {
        let mut rng = Rng::new(1, Purpose::Sampling);
        let mut draw = Draw::full();
        let mut hits = [0_u32; 10];
        for _ in 0..20_000 {
            draw.sample(&[10, 3], 4, Replacement::Without, &mut rng);
            let Pick::These(ids) = draw.stream(0) else { panic!("4 of 10 is not all") };
            let mut sorted = ids.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 4);
            ids.iter().for_each(|&i| hits[i as usize] += 1);
            assert_eq!(draw.stream(1), Pick::All);
        }
        // 8,000 expected each; six standard deviations are about 420.
        assert!(hits.iter().all(|&h| h.abs_diff(8_000) < 420), "{hits:?}");
    }

    #[test]
    fn replacement_repeats() {
        let mut rng = Rng::new(2, Purpose::Sampling);
        let mut draw = Draw::full();
        let mut repeats = 0;
        for _ in 0..1000 {
            draw.sample(&[5], 2, Replacement::With, &mut rng);
            let Pick::These(ids) = draw.stream(0) else { panic!("2 of 5 is not all") };
            repeats += u32::from(ids[0] == ids[1]);
        }
        assert!(repeats.abs_diff(200) < 80, "{repeats}");
    }
}
