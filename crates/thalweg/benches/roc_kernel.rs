//! Means of sigmoids over a threshold grid compared with the plain double loop, and the slice passes compared with the standard
//! library's exponential. One run with interleaved repeats; the gain is the median over repeats of the ratio of neighbouring
//! timings.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use thalweg::Result;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::sigmoid::{SigmoidMeans, SigmoidScratch, logistic_pass, sigmoid, sigmoid_slope, sigmoids_at, slopes_at};

/// Returns scores like those of a linear model: about normal with mean -1 and deviation 1.5, times `spread`.
fn scores(n: usize, spread: f64) -> Vec<f64> {
    let mut rng = Rng::new(3, Purpose::Data);
    (0..n).map(|_| spread * (-1.0 + 1.5 * ((0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0))).collect()
}

fn linspace(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..count).map(|j| low + (high - low) * j as f64 / (count - 1).max(1) as f64).collect()
}

/// Returns thresholds from half a range below the scores to half a range above, as in the papers.
fn spanning(scores: &[f64], count: usize) -> Vec<f64> {
    let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    linspace(low - 0.5 * (high - low), high + 0.5 * (high - low), count)
}

fn naive(scores: &[f64], thresholds: &[f64], out: &mut [f64]) {
    for (o, t) in out.iter_mut().zip(thresholds) {
        *o = scores.iter().map(|s| 1.0 / (1.0 + (t - s).exp())).sum::<f64>() / scores.len() as f64;
    }
}

/// Returns the largest error of `means` against stable sigmoids and a compensated sum.
fn error(scores: &[f64], thresholds: &[f64], means: &[f64]) -> f64 {
    let exact = |t: f64| {
        let (mut sum, mut lost) = (0.0_f64, 0.0);
        for s in scores {
            let term = sigmoid(s - t);
            let next = sum + term;
            lost += if sum >= term { (sum - next) + term } else { (term - next) + sum };
            sum = next;
        }
        (sum + lost) / scores.len() as f64
    };
    thresholds.iter().zip(means).map(|(&t, m)| (m - exact(t)).abs()).fold(0.0, f64::max)
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}

fn row(name: &str, scores: &[f64], thresholds: Vec<f64>) -> Result<()> {
    let kernel = SigmoidMeans::new(thresholds.clone(), 1.0)?;
    let mut scratch = SigmoidScratch::default();
    let mut out = vec![0.0; thresholds.len()];
    let (mut plain, mut ours, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        let slow = seconds(|| naive(black_box(scores), black_box(&thresholds), black_box(&mut out)));
        let times = 10;
        let fast = seconds(|| (0..times).for_each(|_| kernel.means(black_box(scores), None, black_box(&mut out), &mut scratch)));
        let fast = fast / f64::from(times);
        plain.push(slow);
        ours.push(fast);
        gains.push(slow / fast);
    }
    kernel.means(scores, None, &mut out, &mut scratch);
    println!(
        "{name:<34} {:>8} {:>6} {:>10.3} {:>10.4} {:>7.0}x {:>10.1e}",
        scores.len(),
        thresholds.len(),
        1e3 * median(plain),
        1e3 * median(ours),
        median(gains),
        error(scores, &thresholds, &out),
    );
    Ok(())
}

fn pass(name: &str, n: usize, mut library: impl FnMut(), mut ours: impl FnMut()) {
    let (mut slow, mut fast, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..21 {
        let a = seconds(|| (0..10).for_each(|_| library()));
        let b = seconds(|| (0..10).for_each(|_| ours()));
        slow.push(a);
        fast.push(b);
        gains.push(a / b);
    }
    let per = 1e9 / (10.0 * n as f64);
    println!("{name:<34} {:>10.2} {:>10.2} {:>7.1}x", per * median(slow), per * median(fast), median(gains));
}

fn main() -> Result<()> {
    println!("{:<34} {:>8} {:>6} {:>10} {:>10} {:>8} {:>10}", "means", "scores", "grid", "plain ms", "ours ms", "gain", "error");
    for spread in [1.0, 8.0, 100.0] {
        let s = scores(16_281, spread);
        row(&format!("spread {spread}, grid spans the scores"), &s, spanning(&s, 400))?;
        row(&format!("spread {spread}, grid on [-3, 3]"), &s, linspace(-3.0, 3.0, 400))?;
    }
    for n in [100, 1000, 4_000, 65_124] {
        row("more or fewer scores", &scores(n, 1.0), linspace(-3.0, 3.0, 400))?;
    }
    for count in [10, 100, 1_600] {
        row("more or fewer thresholds", &scores(16_281, 1.0), linspace(-3.0, 3.0, count))?;
    }
    row("all scores equal", &vec![0.3; 16_281], linspace(-3.0, 3.0, 400))?;

    println!();
    println!("{:<34} {:>10} {:>10} {:>8}", "passes, ns per entry", "library", "ours", "gain");
    let z = scores(16_281, 2.0);
    let (mut a, mut b) = (vec![0.0; z.len()], vec![0.0; z.len()]);
    let (mut c, mut d) = (vec![0.0; z.len()], vec![0.0; z.len()]);
    pass(
        "logistic loss and slope",
        z.len(),
        || {
            for ((z, a), b) in black_box(&z).iter().zip(&mut a).zip(&mut b) {
                let e = (-z.abs()).exp();
                (*a, *b) = (z.max(0.0) + e.ln_1p(), if *z < 0.0 { e } else { 1.0 } / (1.0 + e));
            }
        },
        || logistic_pass(black_box(&z), &mut c, &mut d),
    );
    let each = |f: fn(f64) -> f64, a: &mut [f64]| black_box(&z).iter().zip(a).for_each(|(z, a)| *a = f(*z));
    pass("sigmoid", z.len(), || each(sigmoid, &mut a), || sigmoids_at(black_box(&z), 0.0, 1.0, &mut c));
    pass("slope of the sigmoid", z.len(), || each(sigmoid_slope, &mut b), || slopes_at(black_box(&z), 0.0, 1.0, 1.0, &mut d));
    black_box((&a, &b, &c, &d));
    Ok(())
}
