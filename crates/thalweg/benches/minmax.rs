//! Time of a step of BMD with weights in a tree and with dense weights, for increasing numbers of samples, in one run on one
//! machine. Rows have two entries, so that nearly all of a step is spent on the weights. Only the ratios are meaningful.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Data, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::sets::Ball;
use thalweg::solvers::{Bmd, Solver, bmd};

const COLUMNS: usize = 64;

fn problem(rows: usize) -> thalweg::Result<Learning> {
    let mut rng = Rng::new(3, Purpose::Data);
    let (mut ids, mut values, mut labels) = (vec![], vec![], vec![]);
    for _ in 0..rows {
        let first = rng.below(COLUMNS / 2);
        ids.extend([first as u32, (first + 1 + rng.below(COLUMNS / 2)) as u32]);
        let (a, b) = (rng.uniform() - 0.5, rng.uniform() - 0.5);
        values.extend([a, b]);
        // One label in ten is wrong, so that losses stay uneven.
        labels.push(if (a + b > 0.0) != (rng.uniform() < 0.1) { 1.0 } else { -1.0 });
    }
    let features = Matrix::sparse(COLUMNS, (0..=rows).map(|i| 2 * i).collect::<Vec<_>>(), ids, values)?;
    let data = Data { features, labels, groups: None, weights: None };
    Learning::on(data).minimize("logistic".parse()?).domain(Ball::new(10.0)?).build()
}

struct Timed {
    /// Nanoseconds per step, the median of five parts.
    step: f64,
    /// Share of weights at the floor, and (n^2 / 2) ||P - 1/n||^2 / rho.
    at_floor: f64,
    ball: f64,
}

/// Times steps in which the ball constraint on the weights is active and weights enter and leave the floor: rho = 10 n allows a
/// spread of 4.5 / n, while the floor is 1 / n below.
fn steps(problem: &Learning, n: usize, tree: bool, warm: usize, count: usize) -> thalweg::Result<Timed> {
    let (rho, eta_p) = (10.0 * n as f64, 1.0 / (n as f64 * n as f64));
    let mut solver = Bmd::new(bmd::Settings { rho, eta_p: Some(eta_p), tree, ..bmd::Settings::default() })?;
    let mut gate = Evaluator::new(problem, 1, 1e-6);
    let ev: &mut dyn Eval = &mut gate;
    solver.start(ev, &[0.0; COLUMNS])?;
    for _ in 0..warm {
        solver.step(ev)?;
    }
    let mut times = vec![];
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..count / 5 {
            solver.step(ev)?;
        }
        times.push(start.elapsed().as_nanos() as f64 / (count / 5) as f64);
    }
    times.sort_by(f64::total_cmp);
    let mut p = vec![0.0; n];
    solver.weights(&mut p);
    let m = n as f64;
    let squares: f64 = p.iter().map(|p| (p - 1.0 / m).powi(2)).sum();
    let at_floor = p.iter().filter(|p| **p <= 1e-5 / m).count() as f64 / m;
    Ok(Timed { step: times[2], at_floor, ball: 0.5 * m * m * squares / rho })
}

fn main() -> thalweg::Result<()> {
    println!(
        "{:>9} {:>12} {:>12} {:>14} {:>12} {:>9} {:>7}",
        "n", "fresh tree", "grown tree", "dense, ns/step", "dense/grown", "at floor", "ball"
    );
    let mut lines: Vec<[f64; 3]> = vec![];
    for n in [10_000, 100_000, 1_000_000] {
        let problem = problem(n)?;
        // A fresh tree has a node for each step so far; after this many passes nearly every sample has its own.
        let fresh = steps(&problem, n, true, 1_000, 10_000)?;
        let grown = steps(&problem, n, true, 8 * n, 100_000)?;
        let dense = steps(&problem, n, false, 5, (20_000_000 / n).clamp(20, 1_000))?;
        println!(
            "{n:>9} {:>12.0} {:>12.0} {:>14.0} {:>12.0} {:>8.1}% {:>7.4}",
            fresh.step,
            grown.step,
            dense.step,
            dense.step / grown.step,
            100.0 * grown.at_floor,
            grown.ball
        );
        lines.push([fresh.step, grown.step, dense.step]);
    }
    if let [first, .., last] = &lines[..] {
        println!(
            "from 1e4 to 1e6: fresh tree {:.1}x, grown tree {:.1}x, dense {:.0}x",
            last[0] / first[0],
            last[1] / first[1],
            last[2] / first[2]
        );
    }
    Ok(())
}
