//! Time of a step of St-SPG with lazy iterates compared with the bare margins of the same rows in the same order, and with a
//! step with dense iterates, in one run on one machine. Only the ratios are meaningful.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Data, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Case, Eliminated, InfProjection, InfProjectionRows, Pick, Power, ScoredRows, Structure, Subgradients};
use thalweg::sets::Set;
use thalweg::solvers::{Solver, StSpg, st_spg};

const ROWS: usize = 40_000;
const PER_ROW: usize = 115;

/// Wrapper of a problem that logs the requested samples.
struct Logged<'a> {
    problem: &'a dyn InfProjection,
    rows: &'a dyn InfProjectionRows,
    log: Mutex<Vec<u32>>,
}

impl Logged<'_> {
    fn note(&self, sample: usize) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(sample as u32);
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InfProjection for Logged<'_> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }
    fn coupled(&self) -> usize {
        self.problem.coupled()
    }
    fn case(&self) -> Case {
        self.problem.case()
    }
    fn power(&self) -> &Power {
        self.problem.power()
    }
    fn domain(&self) -> &dyn Set {
        self.problem.domain()
    }
    fn samples(&self) -> usize {
        self.problem.samples()
    }
    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
        self.problem.convex(x, samples, grad)
    }
    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> thalweg::Result<()> {
        self.problem.mapping(x, samples, out)
    }
    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
        self.problem.add_mapping_pull(x, samples, y, factor, grad)
    }
    fn rows(&self) -> Option<&dyn InfProjectionRows> {
        Some(self)
    }
}

impl ScoredRows for Logged<'_> {
    fn features(&self) -> &Matrix {
        self.rows.features()
    }
    fn row(&self, sample: usize) -> usize {
        self.rows.row(sample)
    }
    fn intercept(&self) -> bool {
        self.rows.intercept()
    }
}

impl InfProjectionRows for Logged<'_> {
    fn convex_of(&self, sample: usize, score: f64) -> (f64, f64) {
        self.note(sample);
        self.rows.convex_of(sample, score)
    }
    fn mapping_of(&self, sample: usize, score: f64) -> (f64, f64) {
        self.note(sample);
        self.rows.mapping_of(sample, score)
    }
}

fn columns(d: usize, power_law: bool, ones: bool) -> thalweg::Result<Matrix> {
    let mut rng = Rng::new(3, Purpose::Data);
    let (mut ptr, mut ids) = (vec![0], Vec::with_capacity(ROWS * PER_ROW));
    let mut row: Vec<u32> = vec![];
    for _ in 0..ROWS {
        row.clear();
        while row.len() < PER_ROW {
            // Column c is drawn with a probability proportional to 1 / (c + 1), or uniformly.
            let c = if power_law { ((d as f64 + 1.0).powf(rng.uniform()) - 1.0) as usize } else { rng.below(d) };
            row.push(c.min(d - 1) as u32);
            if row.len() == PER_ROW {
                row.sort_unstable();
                row.dedup();
            }
        }
        ids.extend_from_slice(&row);
        ptr.push(ids.len());
    }
    if ones {
        return Matrix::ones(d, ptr, ids);
    }
    let values: Vec<f64> = ids.iter().map(|_| rng.uniform() - 0.5).collect();
    Matrix::sparse(d, ptr, ids, values)
}

/// Measures nanoseconds per step over `count` steps.
fn steps(problem: &dyn Subgradients, iterates: st_spg::Iterates, warm: u64, count: u64) -> thalweg::Result<f64> {
    let mut solver = StSpg::new(st_spg::Settings { iterates, ..st_spg::Settings::default() })?;
    let mut gate = Evaluator::new(problem, 1, 1e-6);
    let ev: &mut dyn Eval = &mut gate;
    solver.start(ev, &vec![0.0; problem.dim()])?;
    for _ in 0..warm {
        solver.step(ev)?;
    }
    let start = Instant::now();
    for _ in 0..count {
        solver.step(ev)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn main() -> thalweg::Result<()> {
    println!("{:<18} {:>9} {:>10} {:>14} {:>7} {:>16}", "columns", "d", "ns/step", "bare margins", "ratio", "written, ns/step");
    let (warm, count) = (20_000, 60_000);
    for (name, power_law, ones) in [("uniform", false, false), ("power law", true, false), ("power law, ones", true, true)] {
        for d in [1_000, 100_000, 3_200_000] {
            let data = Data {
                features: columns(d, power_law, ones)?,
                labels: (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
                groups: None,
                weights: None,
            };
            let problem = Learning::on(data).minimize("logistic + 0.05 * variance(logistic)".parse()?).build()?;
            let form = problem.inf_projection().ok_or_else(|| thalweg::Error::Problem("this is no inf-projection".into()))?;
            let rows = form.rows().ok_or_else(|| thalweg::Error::Problem("this has no rows".into()))?;
            let logged = Eliminated::new(Logged { problem: form, rows, log: Mutex::default() });
            steps(&logged, st_spg::Iterates::Lazy, warm, 0)?;
            let skipped = logged.pair().take().len();
            steps(&logged, st_spg::Iterates::Lazy, warm, count)?;
            let order = &logged.pair().take()[skipped..];
            let x: Vec<f64> = (0..d).map(|j| (j as f64).sin()).collect();
            let (mut lazy, mut bare) = (vec![], vec![]);
            for _ in 0..5 {
                lazy.push(steps(&problem, st_spg::Iterates::Lazy, warm, count)?);
                let start = Instant::now();
                let total: f64 = order.iter().map(|&i| rows.features().row_dot(i as usize, &x)).sum();
                black_box(total);
                bare.push(start.elapsed().as_nanos() as f64 / count as f64);
            }
            lazy.sort_by(f64::total_cmp);
            bare.sort_by(f64::total_cmp);
            let written = steps(&problem, st_spg::Iterates::Dense, 10, (200_000_000 / d as u64).clamp(60, 20_000))?;
            println!("{name:<18} {d:>9} {:>10.0} {:>14.0} {:>7.2} {written:>16.0}", lazy[2], bare[2], lazy[2] / bare[2]);
        }
    }
    Ok(())
}
