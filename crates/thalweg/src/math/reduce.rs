//! Sums over rows that give the same bits for any number of threads: rows are divided into chunks whose borders depend only on
//! the problem's size, each chunk fills its own slot, and slots are added in index order. Threads are used only here, on the
//! current rayon pool; a single thread is the caller's own, without a pool.

use std::cell::Cell;
use std::ops::Range;

use rayon::prelude::*;

/// Smallest number of rows per chunk; below it a second thread costs more than it saves.
const SHORTEST: usize = 2048;
/// Largest number of chunks, which bounds the memory of their slots.
const MOST: usize = 32;
/// Largest number of threads; more would have no chunk to work on.
pub const MAX_THREADS: usize = MOST;

/// Division of `n` rows into chunks of equal length (the last may be shorter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    n: usize,
    len: usize,
}

impl Chunks {
    /// Divides `n` rows.
    pub fn of(n: usize) -> Self {
        Chunks { n, len: n.div_ceil(MOST).max(SHORTEST) }
    }

    /// Uses one chunk, for slots too large to have several.
    pub fn single(n: usize) -> Self {
        Chunks { n, len: n.max(1) }
    }

    /// Returns the number of chunks, at least one.
    pub fn count(&self) -> usize {
        self.n.div_ceil(self.len).max(1)
    }

    /// Returns the rows per chunk.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the rows of chunk `k`.
    pub fn range(&self, k: usize) -> Range<usize> {
        k * self.len..((k + 1) * self.len).min(self.n)
    }
}

/// Runs `work(k, range, slot)` for every chunk, each with its own slot of `slots` (`slots.len() / chunks.count()` entries
/// each). In parallel unless [`serial`].
pub fn for_each_chunk(chunks: Chunks, slots: &mut [f64], work: impl Fn(usize, Range<usize>, &mut [f64]) + Sync) {
    let width = (slots.len() / chunks.count()).max(1);
    if chunks.count() == 1 || serial() {
        for (k, slot) in slots.chunks_mut(width).take(chunks.count()).enumerate() {
            work(k, chunks.range(k), slot);
        }
    } else {
        slots.par_chunks_mut(width).take(chunks.count()).enumerate().for_each(|(k, slot)| work(k, chunks.range(k), slot));
    }
}

/// Fills `out`, which has one entry per row, chunk by chunk: `work(range, part of out)`.
pub fn fill_rows(chunks: Chunks, out: &mut [f64], work: impl Fn(Range<usize>, &mut [f64]) + Sync) {
    if chunks.count() == 1 || serial() {
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

thread_local! {
    /// Whether work stays on this thread. A pool of one thread would be a different thread.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether work stays on the calling thread: within [`with_threads`] of 1, or in a pool of one thread. Every kernel
/// checks this first. Outside of [`with_threads`] it depends on the global pool.
pub fn serial() -> bool {
    // The order matters: querying the size of the global pool starts it.
    ALONE.get() || rayon::current_num_threads() == 1
}

/// Restores the previous marker, also while a panic unwinds.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        ALONE.set(self.0);
    }
}

/// Runs `work` with `threads` threads: 1 is the calling thread itself, without a pool; more are a new pool, on one of whose
/// threads `work` runs. Above [`MAX_THREADS`] the number has no effect.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> crate::Result<T> {
    match threads {
        0 => Err(crate::Error::setting("threads", 0, "at least 1")),
        1 => {
            let _restore = Restore(ALONE.replace(true));
            Ok(work())
        }
        // Threads of a new pool have no marker.
        _ => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(MAX_THREADS));
            pool.build().map(|pool| pool.install(work)).map_err(|e| {
                crate::Error::setting("threads", threads, format!("a number of threads this machine can start ({e})"))
            })
        }
    }
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

    #[test]
    fn one_thread_is_the_callers_and_more_are_others() {
        let id = || std::thread::current().id();
        let here = id();
        assert_eq!(with_threads(1, id).unwrap(), here);
        assert_eq!(with_threads(1, || with_threads(1, id).unwrap()).unwrap(), here);
        assert_ne!(with_threads(2, id).unwrap(), here);
        assert_eq!(with_threads(usize::MAX, rayon::current_num_threads).unwrap(), MAX_THREADS);
        let (outer, inner) = with_threads(2, || (id(), with_threads(1, id).unwrap())).unwrap();
        assert_eq!(outer, inner);
        assert_eq!(with_threads(0, id).unwrap_err().to_string(), crate::Error::setting("threads", 0, "at least 1").to_string());
    }

    #[test]
    fn serial_is_said_within_one_thread_and_no_longer() {
        let before = serial();
        assert!(with_threads(1, serial).unwrap());
        assert_eq!(serial(), before);
        // A run within a run, either way round.
        let said = with_threads(1, || [serial(), with_threads(2, serial).unwrap(), serial()]).unwrap();
        assert_eq!(said, [true, false, true]);
        let said = with_threads(2, || [serial(), with_threads(1, serial).unwrap(), serial()]).unwrap();
        assert_eq!(said, [false, true, false]);
        let said = with_threads(1, || [with_threads(1, serial).unwrap(), serial()]).unwrap();
        assert_eq!(said, [true, true]);
        // Work of a serial part within a pool stays on its thread.
        let here = with_threads(2, || {
            with_threads(1, || {
                let (here, chunks) = (std::thread::current().id(), Chunks::of(100_000));
                let mut slots = vec![0.0; chunks.count()];
                for_each_chunk(chunks, &mut slots, |_, _, slot| slot[0] = f64::from(std::thread::current().id() == here));
                slots.iter().all(|s| *s == 1.0)
            })
        });
        assert!(here.unwrap().unwrap());
    }

    #[test]
    fn a_panic_leaves_no_marker() {
        with_threads(2, || {
            assert!(!serial());
            let fell = std::panic::catch_unwind(|| with_threads(1, || std::panic::panic_any("down")));
            assert!(fell.is_err() && !serial());
            let fell = std::panic::catch_unwind(|| with_threads(1, || with_threads(2, || std::panic::panic_any("down"))));
            assert!(fell.is_err() && !serial());
        })
        .unwrap();
    }
}
