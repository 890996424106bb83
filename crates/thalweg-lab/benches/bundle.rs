//! Time of the bundle method on a9a with 100 cuts: the evaluation of both functions and their subgradients, against the rest of
//! a step, which is the master problem and the management of the cuts. For comparison, a general solver on a master problem of
//! the same size, with cuts from the same run.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::hint::black_box;
use std::time::Instant;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT};
use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Builder, Split};
use thalweg::oracle::{Description, Draw};
use thalweg::solvers::{Bundle, FirstOrder, bundle};
use thalweg_lab::data::adult;

const CUTS: usize = 100;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Cut of the objective or of the constraint: value at 0 and slope.
struct Cut {
    objective: bool,
    height: f64,
    slope: Vec<f64>,
}

/// Solves the master problem with the proximal coefficient `mu` around `centre`, over the point, the level and the violation.
fn general(cuts: &[Cut], centre: &[f64], mu: f64, penalty: f64) -> f64 {
    let dim = centre.len();
    let (mut rows, mut right): (Vec<Vec<f64>>, Vec<f64>) = (vec![], vec![]);
    for cut in cuts {
        let mut row = cut.slope.clone();
        row.extend(if cut.objective { [-1.0, 0.0] } else { [0.0, -1.0] });
        rows.push(row);
        right.push(-cut.height);
    }
    let mut sign = vec![0.0; dim + 2];
    sign[dim + 1] = -1.0;
    rows.push(sign);
    right.push(0.0);
    let mut linear: Vec<f64> = centre.iter().map(|c| -mu * c).collect();
    linear.extend([1.0, penalty]);
    let diagonal: Vec<f64> = (0..dim + 2).map(|k| if k < dim { mu } else { 0.0 }).collect();
    let square = CscMatrix::new(dim + 2, dim + 2, (0..=dim + 2).collect(), (0..dim + 2).collect(), diagonal);
    let cones = [NonnegativeConeT(rows.len())];
    let settings = DefaultSettings { verbose: false, ..DefaultSettings::default() };
    let mut solver = DefaultSolver::new(&square, &linear, &CscMatrix::from(rows.iter()), &right, &cones, settings).unwrap();
    solver.solve();
    solver.solution.obj_val
}

fn main() {
    let problem = Builder::new(adult::a9a().unwrap())
        .split(Split::Ordered)
        .minimize("roc_gap(thresholds = 400, low = -3.0, high = 3.0)".parse().unwrap())
        .subject_to("hinge <= 0.36".parse().unwrap())
        .build()
        .unwrap();
    let dim = problem.dim();
    let full = Draw::full();
    let settings = bundle::Settings { max_cuts: CUTS, eps: 1e-9, ..bundle::Settings::default() };
    let per_visit = settings.cuts_per_visit;
    let mut solver: Box<FirstOrder> = Box::new(Bundle::new(settings).unwrap());
    let mut ev = Evaluator::new(&problem, 0, 1e-6);
    let mut second = Evaluator::new(&problem, 0, 1e-6);
    let (mut values, mut slopes) = (vec![0.0; per_visit], vec![0.0; per_visit * dim]);
    let (mut g, mut row) = ([0.0], vec![0.0; dim]);
    let mut x = vec![0.0; dim];
    let (mut visits, mut rests, mut ratios, mut theirs) = (vec![], vec![], vec![], vec![]);
    let mut cuts: Vec<Cut> = vec![];
    thalweg::math::reduce::with_threads(1, || {
        solver.start(&mut ev, &x).unwrap();
        for k in 0..300 {
            let start = Instant::now();
            solver.step(&mut ev).unwrap();
            let step = start.elapsed().as_secs_f64() * 1e3;
            solver.iterate(&mut x);
            // Every point is different, so that no cached value is reused.
            x.iter_mut().enumerate().for_each(|(j, x)| *x += 1e-3 * ((j + k) as f64).sin());
            let start = Instant::now();
            let count = second.objective_cuts(black_box(&x), &full, &mut values, &mut slopes).unwrap();
            second.constraint_rows(black_box(&x), &full, &[0], &mut g, &mut row).unwrap();
            let visit = start.elapsed().as_secs_f64() * 1e3;
            let dot = |slope: &[f64]| slope.iter().zip(&x).map(|(s, x)| s * x).sum::<f64>();
            let pieces = values.iter().zip(slopes.chunks(dim)).take(count).map(|(&v, s)| (true, v, s));
            for (objective, value, slope) in pieces.chain([(false, g[0], row.as_slice())]) {
                cuts.push(Cut { objective, height: value - dot(slope), slope: slope.to_vec() });
            }
            cuts.drain(..cuts.len().saturating_sub(CUTS));
            if k < 100 {
                continue; // the model is not full yet
            }
            visits.push(visit);
            rests.push(step - visit);
            ratios.push((step - visit) / visit);
            if k % 10 == 0 {
                let start = Instant::now();
                black_box(general(&cuts, &x, 1.0, 10.0));
                theirs.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    })
    .unwrap();
    let (visit, rest, other) = (median(visits), median(rests), median(theirs));
    println!("one thread, {CUTS} cuts, {dim} variables");
    println!("visit {visit:.3} ms, rest of the step {rest:.3} ms, ratio {:.3}", median(ratios));
    println!(
        "a master of the same size by Clarabel, set up and solved, {other:.3} ms, {:.1} times the rest of the step",
        other / rest
    );
}
