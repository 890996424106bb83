//! A pass of St-SPG, MSPG and BMD over rows shaped like the URL data, from the binary file, compared with bare products of the
//! same rows with a plain vector: in the order of the file, and in the shuffled order that the solvers draw.
//! `cargo bench -p thalweg-lab --bench url_pass -- ROWS`; a tenth of the rows of URL by default.

#![allow(clippy::print_stdout)] // benchmarks print

use std::hint::black_box;
use std::time::Instant;

use thalweg::estimate::{Order, Walk};
use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Learning, Split};
use thalweg::math::Rng;
use thalweg::math::rng::Purpose;
use thalweg::oracle::Description;
use thalweg::solvers::{Bmd, FirstOrder, Mspg, SolverName, StSpg, bmd, mspg, st_spg};
use thalweg_lab::Result;
use thalweg_lab::data::catalogue;
use thalweg_lab::data::shaped_like::{Like, ShapedLike};

/// Measures nanoseconds per sample: a pass has as many samples as rows.
fn of_method(problem: &Learning, solver: &mut FirstOrder, steps: u64) -> Result<f64> {
    let mut gate = Evaluator::new(problem, 1, 1e-6);
    solver.start(&mut gate as &mut dyn Eval, &vec![0.0; problem.dim()])?;
    for _ in 0..steps / 10 {
        solver.step(&mut gate as &mut dyn Eval)?;
    }
    let drawn = |gate: &Evaluator<Learning>| {
        (gate.counts().objective_subgradients.samples + gate.counts().objective_values.samples) as f64
    };
    let (before, start) = (drawn(&gate), Instant::now());
    for _ in 0..steps {
        solver.step(&mut gate as &mut dyn Eval)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let samples = drawn(&gate) - before;
    Ok(1e9 * seconds / samples)
}

fn main() -> Result<()> {
    let rows = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(239_613);
    let start = Instant::now();
    let shape = ShapedLike { like: Like::Url, rows: Some(rows), columns: None, seed: 0 };
    let data = catalogue::load_stand_in(&shape, &catalogue::Options::default())?.data;
    println!("{} rows, {} non-zeros, opened or made in {:.1} s", rows, data.features.stored(), start.elapsed().as_secs_f64());
    let features = data.features.clone();
    let objective = "logistic + 0.05 * variance(logistic)".parse()?;
    let problem = Learning::on(data).split(Split::Shared).minimize(objective).build()?;

    let x: Vec<f64> = (0..features.cols()).map(|c| (c as f64).sin()).collect();
    let bare = |order: &mut dyn FnMut(usize) -> usize| {
        let start = Instant::now();
        let total: f64 = (0..rows).map(|k| features.row_dot(order(k), &x)).sum();
        black_box(total);
        1e9 * start.elapsed().as_secs_f64() / rows as f64
    };
    // The first pass loads the pages into memory.
    bare(&mut |k| k);
    let in_order = bare(&mut |k| k);
    let (mut walk, mut rng) = (Walk::default(), Rng::new(1, Purpose::Sampling));
    let shuffled = bare(&mut |_| walk.next(rows, Order::Shuffled, &mut rng) as usize);

    println!("{:<28} {:>12} {:>10} {:>18} {:>18}", "what", "ns a sample", "s a pass", "against in order", "against shuffled");
    let line = |name: &str, sample: f64| {
        let pass = sample * rows as f64 / 1e9;
        println!("{name:<28} {sample:>12.0} {pass:>10.2} {:>18.2} {:>18.2}", sample / in_order, sample / shuffled);
    };
    line("bare products, in order", in_order);
    line("bare products, shuffled", shuffled);
    let steps = (rows as u64 / 2).min(1_200_000);
    let order = Order::Shuffled;
    let staged = st_spg::Settings { gamma: 0.1, ..st_spg::Settings::default() };
    let shared = st_spg::Settings { draws: st_spg::Draws::Shared, order, ..staged.clone() };
    let single = mspg::Settings { growth: 1e-9, order, ..mspg::Settings::default() };
    let blocks = Order::Blocks;
    let (of_st_spg, of_mspg) = (SolverName::StSpg.as_str(), SolverName::Mspg.as_str());
    let methods: [(String, Box<FirstOrder>); 8] = [
        (of_st_spg.into(), Box::new(StSpg::new(staged.clone())?)),
        (format!("{of_st_spg}, shuffled"), Box::new(StSpg::new(st_spg::Settings { order, ..staged.clone() })?)),
        (format!("{of_st_spg}, blocks"), Box::new(StSpg::new(st_spg::Settings { order: blocks, ..staged })?)),
        (format!("{of_st_spg}, shuffled, shared"), Box::new(StSpg::new(shared.clone())?)),
        (format!("{of_st_spg}, blocks, shared"), Box::new(StSpg::new(st_spg::Settings { order: blocks, ..shared })?)),
        (format!("{of_mspg}, shuffled"), Box::new(Mspg::new(single.clone())?)),
        (format!("{of_mspg}, blocks"), Box::new(Mspg::new(mspg::Settings { order: blocks, ..single })?)),
        (format!("{}, tree", SolverName::Bmd), Box::new(Bmd::new(bmd::Settings::default())?)),
    ];
    // A word among the arguments selects the methods whose names contain it.
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-') && word.parse::<usize>().is_err()).unwrap_or_default();
    for (name, mut solver) in methods.into_iter().filter(|(name, _)| name.contains(&word)) {
        line(&name, of_method(&problem, &mut *solver, steps)?);
    }
    Ok(())
}
