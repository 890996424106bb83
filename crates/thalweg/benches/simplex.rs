//! Time of the projection onto the simplex compared with the projection by a full sort, in one run on one machine. Only the
//! ratio is meaningful: nanoseconds depend on the machine and its load.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use thalweg::math::rng::{Purpose, Rng};
use thalweg::sets::{Set, Simplex, Warm};

/// Projects by the textbook method: sort, then scan for the threshold.
fn by_sort(x: &mut [f64], total: f64, sorted: &mut Vec<f64>) {
    sorted.clear();
    sorted.extend_from_slice(x);
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (k, &v) in sorted.iter().enumerate() {
        sum += v;
        let trial = (sum - total) / (k + 1) as f64;
        if v <= trial {
            break;
        }
        threshold = trial;
    }
    x.iter_mut().for_each(|v| *v = (*v - threshold).max(0.0));
}

/// Measures the median nanoseconds of `work` on a fresh copy of `x`; the copy is not timed.
fn median(x: &[f64], repeats: usize, mut work: impl FnMut(&mut [f64])) -> f64 {
    let mut y = x.to_vec();
    let mut times: Vec<f64> = (0..=repeats)
        .map(|_| {
            y.copy_from_slice(x);
            let start = Instant::now();
            work(black_box(&mut y));
            start.elapsed().as_nanos() as f64
        })
        .skip(1) // The first call makes the working space.
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> thalweg::Result<()> {
    // Ascending entries are the best case of the sort, which detects a sorted run, and the worst of the filter.
    println!("{:<28} {:>9} {:>12} {:>12} {:>8}", "entries", "m", "ns/entry", "sort", "ratio");
    let total = 1.0;
    let set = Simplex::new(total)?;
    let mut rng = Rng::new(1, Purpose::Data);
    for m in [10_000, 100_000, 1_000_000] {
        let uniform: Vec<f64> = (0..m).map(|_| rng.uniform()).collect();
        let mut ascending = uniform.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        let near: Vec<f64> = (0..m).map(|_| (1.0 + 0.1 * rng.uniform()) / m as f64).collect();
        let cases = [("uniform on [0, 1]", uniform), ("the same, ascending", ascending), ("near the centre", near)];
        for (name, x) in cases {
            let repeats = (20_000_000 / m).clamp(11, 101);
            let (mut warm, mut sorted) = (Warm::default(), Vec::new());
            let mut failed = None;
            let ours = median(&x, repeats, |y| failed = set.project(y, &mut warm).err()) / m as f64;
            if let Some(error) = failed {
                return Err(error);
            }
            let sort = median(&x, repeats, |y| by_sort(y, total, &mut sorted)) / m as f64;
            println!("{name:<28} {m:>9} {ours:>12.2} {sort:>12.2} {:>7.1}x", sort / ours);
        }
    }
    Ok(())
}
