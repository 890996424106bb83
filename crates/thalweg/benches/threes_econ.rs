//! Cost of a stochastic step of 3S-Econ as the data grow tenfold and the mini-batch does not: apart from the full pass of an
//! epoch it must not change. Prints a ratio within one run.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::time::Instant;

use thalweg::eval::Evaluator;
use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::solvers::threes_econ::{Epoch, Settings};
use thalweg::solvers::{Eval, Solver, ThreesEcon};

const EPOCH: u64 = 200;

fn problem(rows: usize) -> Learning {
    let (cols, per_row) = (120_u32, 14);
    let mut rng = Rng::new(rows as u64, Purpose::Data);
    let mut ptr = vec![0];
    let mut ids = vec![];
    for _ in 0..rows {
        let mut row: Vec<u32> = (0..per_row).map(|_| rng.below(cols as usize) as u32).collect();
        row.sort_unstable();
        row.dedup();
        ids.extend(row);
        ptr.push(ids.len());
    }
    let data = Data {
        features: Matrix::ones(cols as usize, ptr, ids).unwrap(),
        labels: (0..rows).map(|_| if rng.uniform() < 0.25 { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: (0..rows).map(|i| (i % 2) as u32).collect() }),
        weights: None,
    };
    Learning::on(data)
        .minimize("hinge + 0.02 * scad".parse().unwrap())
        .subject_to("demographic_parity <= 0.001".parse().unwrap())
        .build()
        .unwrap()
}

/// Measures the median seconds of a step between resets, and of a reset.
fn steps(problem: &Learning) -> (f64, f64) {
    let settings = Settings { q: Epoch::Fixed(EPOCH), s2: Some(200), ..Settings::default() };
    let mut solver = ThreesEcon::new(settings).unwrap();
    let ev: &mut dyn Eval = &mut Evaluator::new(problem, 1, 1e-6);
    solver.start(ev, &[0.01; 120]).unwrap();
    let (mut between, mut resets) = (vec![], vec![]);
    for k in 0..10 * EPOCH {
        let start = Instant::now();
        solver.step(ev).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        if k.is_multiple_of(EPOCH) { resets.push(seconds) } else { between.push(seconds) }
    }
    let median = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    (median(between), median(resets))
}

fn main() {
    println!("rows     step between resets us  step with a reset us");
    let sizes = [20_000, 200_000];
    let times: Vec<(f64, f64)> = sizes
        .iter()
        .map(|&rows| {
            let (between, reset) = steps(&problem(rows));
            println!("{rows:7}  {:22.1}  {:20.1}", 1e6 * between, 1e6 * reset);
            (between, reset)
        })
        .collect();
    println!("ratio    {:22.2}  {:20.2}", times[1].0 / times[0].0, times[1].1 / times[0].1);
}
