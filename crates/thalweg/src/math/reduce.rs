//! Sums over rows that give the same bits for any number of threads. Rows are cut into chunks whose borders depend on
//! the problem's size alone, each chunk fills a slot of its own, slots are added in index order. The only room with
//! threads: work runs on the rayon pool that is current, and a pool of one thread is never asked.

use std::ops::Range;

use rayon::prelude::*;

/// Rows per chunk at least; below this a second thread costs more than it brings.
const SHORTEST: usize = 2048;
/// Chunks at most: bounds the memory of per-chunk slots.
const MOST: usize = 32;

/// How `n` rows are cut into chunks of equal length (the last may be shorter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    n: usize,
    len: usize,
}

impl Chunks {
    /// Cuts `n` rows.
    pub fn of(n: usize) -> Self {
        Chunks { n, len: n.div_ceil(MOST).max(SHORTEST) }
    }

    /// One chunk: for slots too large to have many of them.
    pub fn single(n: usize) -> Self {
        Chunks { n, len: n.max(1) }
    }

    /// Number of chunks; at least one.
    pub fn count(&self) -> usize {
        self.n.div_ceil(self.len).max(1)
    }

    /// Rows per chunk.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Rows of chunk `k`.
    pub fn range(&self, k: usize) -> Range<usize> {
        k * self.len..((k + 1) * self.len).min(self.n)
    }
}

/// Runs `work(k, range, slot)` for every chunk, each with its own slot of `slots` (`slots.len() / chunks.count()` entries
/// each). In parallel if the current pool has more than one thread.
pub fn for_each_chunk(chunks: Chunks, slots: &mut [f64], work: impl Fn(usize, Range<usize>, &mut [f64]) + Sync) {
    let width = (slots.len() / chunks.count()).max(1);
    if chunks.count() == 1 || rayon::current_num_threads() == 1 {
        for (k, slot) in slots.chunks_mut(width).take(chunks.count()).enumerate() {
            work(k, chunks.range(k), slot);
        }
    } else {
        slots.par_chunks_mut(width).take(chunks.count()).enumerate().for_each(|(k, slot)| work(k, chunks.range(k), slot));
    }
}

/// Fills `out`, which has one entry per row, chunk by chunk: `work(range, part of out)`.
pub fn fill_rows(chunks: Chunks, out: &mut [f64], work: impl Fn(Range<usize>, &mut [f64]) + Sync) {
    if chunks.count() == 1 || rayon::current_num_threads() == 1 {
        for (k, part) in out.chunks_mut(chunks.len()).enumerate() {
            work(chunks.range(k), part);
        }
    } else {
        out.par_chunks_mut(chunks.len()).enumerate().for_each(|(k, part)| work(chunks.range(k), part));
    }
}

/// Adds the slots of [`for_each_chunk`] in index order onto `total`.
pub fn add_slots(slots: &[f64], total: &mut [f64]) {
    for slot in slots.chunks(total.len().max(1)) {
        for (t, s) in total.iter_mut().zip(slot) {
            *t += s;
        }
    }
}

/// Runs `work` on a pool of `threads` threads of its own.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> crate::Result<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| crate::Error::setting("threads", threads, format!("a number of threads this machine can start ({e})")))?;
    Ok(pool.install(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_row_once() {
        for n in [0, 1, 2047, 2048, 2049, 65_536, 65_537, 1_000_003] {
            let chunks = Chunks::of(n);
            let mut next = 0;
            for k in 0..chunks.count() {
                let range = chunks.range(k);
                assert_eq!(range.start.min(n), next);
                next = range.end;
            }
            assert_eq!(next, n);
            assert!(chunks.count() <= MOST);
        }
    }

    #[test]
    fn sums_have_the_same_bits_for_one_and_two_threads() {
        let x: Vec<f64> = (0..100_000).map(|i| (i as f64).sin() * 1e3).collect();
        let sum = || {
            let chunks = Chunks::of(x.len());
            let mut slots = vec![0.0; chunks.count()];
            for_each_chunk(chunks, &mut slots, |_, range, slot| slot[0] = crate::math::vec::sum(&x[range]));
            let mut total = [0.0];
            add_slots(&slots, &mut total);
            total[0].to_bits()
        };
        assert_eq!(with_threads(1, sum).unwrap(), with_threads(2, sum).unwrap());
    }
}
