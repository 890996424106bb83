//! Cost of a step of DSZOG as the constraints grow from ten thousand to a million: the arithmetic on the weights of the
//! constraints alone, and a whole step on pairs of rows in 300 variables. Prints ratios within one run, and the peak memory of
//! the larger problem.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::time::Instant;

use thalweg::eval::Evaluator;
use thalweg::learn::{Data, Learning, ManyConstraints, Split};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{BlackBox, Values};
use thalweg::run::{self, Options, Record};
use thalweg::solvers::{Dszog, Solver, ValueEval, dszog};

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Measures the median seconds of `count` steps after `skip` steps.
fn steps(problem: &dyn Values, settings: dszog::Settings, skip: usize, count: usize) -> f64 {
    let mut solver = Dszog::new(settings).unwrap();
    let ev: &mut dyn ValueEval = &mut Evaluator::new(problem, 1, 1e-6);
    solver.start(ev, &vec![0.0; problem.dim()]).unwrap();
    (0..skip).for_each(|_| {
        solver.step(ev).unwrap();
    });
    median(
        (0..count)
            .map(|_| {
                let start = Instant::now();
                solver.step(ev).unwrap();
                start.elapsed().as_secs_f64()
            })
            .collect(),
    )
}

/// Returns constraints that cost nothing and are all violated equally: every weight takes part in every step, the worst case.
fn weights_alone(m: usize) -> BlackBox {
    BlackBox::new(1).objective(|x| x[0]).constraints(m, |_, _, g| g.fill(1e-3))
}

/// Returns the constraints for all pairs of `n` positive and `n` negative rows in 300 variables.
fn pairs(n: usize) -> ManyConstraints {
    let columns = 300;
    let mut rng = Rng::new(7, Purpose::Data);
    let mut entries = vec![0.0; 2 * n * columns];
    rng.normals(&mut entries);
    let labels: Vec<f64> = (0..2 * n).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    // The classes are slightly separated.
    entries.chunks_mut(columns).zip(&labels).for_each(|(row, y)| row[..30].iter_mut().for_each(|v| *v += 0.2 * y));
    let data = Data { features: Matrix::dense(2 * n, columns, entries).unwrap(), labels, groups: None, weights: None };
    let model = Learning::on(data).split(Split::Shared).minimize("welsch".parse().unwrap()).build().unwrap();
    ManyConstraints::pairs(model, 0.0).unwrap()
}

/// Returns the peak memory of this process in MB; `None` if the system does not report it.
fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

fn main() {
    let slow = |m| dszog::Settings { eta_p: (1e-3 / m as f64).into(), ..dszog::Settings::default() };
    let per = |m: usize| 1e9 * steps(&weights_alone(m), slow(m), 3, if m > 100_000 { 60 } else { 2000 }) / m as f64;
    let (small, large) = (per(10_000), per(1_000_000));
    println!("weights alone, all of them in use: {small:.2} ns per constraint at m = 10,000, {large:.2} at m = 1,000,000:");
    println!("  {:.2} times (wanted: at most 1.5)", large / small);

    println!("pairs in 300 variables, microseconds per step:");
    let mut found = vec![];
    for n in [100, 1000] {
        let problem = pairs(n);
        let at_first = 1e6 * steps(&problem, dszog::Settings::default(), 2, 20);
        let later = 1e6 * steps(&problem, dszog::Settings::default(), 1500, 300);
        println!("  m = {:9}: {at_first:8.1} at first, {later:8.1} once the weight has gathered", n * n);
        found.push((at_first, later));
    }
    println!(
        "  {:.2} times at first, {:.2} times later, for 100 times as many constraints",
        found[1].0 / found[0].0,
        found[1].1 / found[0].1
    );

    let problem = pairs(1000);
    let options = Options { record: Record::default(), ..Options::iterations(2000) };
    let mut solver = Dszog::new(dszog::Settings::default()).unwrap();
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0; 300], &options, &mut ()).unwrap();
    println!(
        "a run of 2,000 steps at m = 1,000,000: {:.2} s, objective {:.4}, largest violation {:.4}, {:.2}% violated",
        outcome.seconds,
        outcome.point.objective,
        outcome.point.violation,
        100.0 * outcome.point.share_violated()
    );
    println!(
        "peak memory of everything here: {} MB (wanted: below 200)",
        peak().map_or("unknown".into(), |mb| format!("{mb:.0}"))
    );
}
