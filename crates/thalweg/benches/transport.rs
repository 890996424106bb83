//! Time of the projection onto the transport polytope compared with a general solver for the same quadratic program, in one run
//! on one machine, and alone at the size of the largest plans in use, with cold and warm starts. Only the ratio is meaningful.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::time::Instant;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::sets::transport::Effort;
use thalweg::sets::{Transport, Warm};

/// Draws a normal number by the Box-Muller method.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.uniform()).ln()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

/// Solves the projection as a quadratic program over the entries of the matrix. The last column sum follows from the others.
fn general(x: &[f64], n: usize) -> (Vec<f64>, SolverStatus, u32) {
    let count = n * n;
    let equalities = 2 * n - 1;
    let (mut starts, mut ids, mut values) = (vec![0], vec![], vec![]);
    for k in 0..count {
        let (i, j) = (k / n, k % n);
        ids.push(i);
        values.push(1.0);
        if j + 1 < n {
            ids.push(n + j);
            values.push(1.0);
        }
        ids.push(equalities + k);
        values.push(-1.0);
        starts.push(ids.len());
    }
    let rows = CscMatrix::new(equalities + count, count, starts, ids, values);
    let square = CscMatrix::identity(count);
    let linear: Vec<f64> = x.iter().map(|x| -x).collect();
    let right: Vec<f64> = (0..equalities + count).map(|k| if k < equalities { 1.0 } else { 0.0 }).collect();
    let tight = 1e-13;
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: tight,
        tol_gap_rel: tight,
        tol_feas: tight,
        max_iter: 60,
        ..DefaultSettings::default()
    };
    let cones = [ZeroConeT(equalities), NonnegativeConeT(count)];
    let mut solver = DefaultSolver::new(&square, &linear, &rows, &right, &cones, settings).unwrap();
    solver.solve();
    (solver.solution.x, solver.solution.status, solver.solution.iterations)
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn words(e: &Effort) -> String {
    format!("{} steps, {} passes, {} products", e.steps, e.passes, e.products)
}

fn main() {
    let mut rng = Rng::new(1, Purpose::Data);
    println!("Birkhoff polytope, X of normal numbers, cold start, against Clarabel at tolerance 1e-13");
    println!("{:>5} {:>11} {:>12} {:>8} {:>12}", "n", "ms", "Clarabel ms", "ratio", "difference");
    for n in [50, 100, 200] {
        let set = Transport::birkhoff(n).unwrap();
        let x: Vec<f64> = (0..n * n).map(|_| normal(&mut rng)).collect();
        let mut y = x.clone();
        let mut effort = Effort::default();
        let ours = median(
            (0..9)
                .map(|_| {
                    y.copy_from_slice(&x);
                    seconds(|| effort = set.project_counted(&mut y, &mut Warm::default()).unwrap())
                })
                .collect(),
        );
        let mut answer = None;
        let theirs = seconds(|| answer = Some(general(&x, n)));
        let (other, status, iterations) = answer.unwrap();
        let most = y.iter().zip(&other).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        println!(
            "{n:>5} {:>11.3} {:>12.1} {:>7.0}x {most:>12.1e}   {}; Clarabel {status:?}, {iterations} iterations",
            1e3 * ours,
            1e3 * theirs,
            theirs / ours,
            words(&effort)
        );
    }

    println!("\nalone, cold start: how the cost grows");
    println!("{:>5} {:<28} {:>11} {:>16}", "n", "X", "ms", "ns per entry");
    for n in [100, 200, 400, 800, 1300] {
        let uniform = Transport::uniform(n, n).unwrap();
        let unit = 1.0 / (n * n) as f64;
        let noise: Vec<f64> = (0..n * n).map(|_| normal(&mut rng)).collect();
        // A cost |s_i - t_j| of scores is the slope of a step from the uniform plan.
        let (s, t): (Vec<f64>, Vec<f64>) = (0..n).map(|_| (normal(&mut rng), normal(&mut rng))).unzip();
        let stepped = (0..n * n).map(|k| unit * (1.0 - 2.0 * (s[k / n] - t[k % n]).abs())).collect();
        let long = (0..n * n).map(|k| unit - 0.02 * (s[k / n] - t[k % n]).abs()).collect();
        let cases: [(&str, &Transport, Vec<f64>); 4] = [
            ("normal, Birkhoff", &Transport::birkhoff(n).unwrap(), noise.clone()),
            ("uniform plan + noise", &uniform, noise.iter().map(|e| unit * (1.0 + e)).collect()),
            ("uniform plan - short step", &uniform, stepped),
            ("uniform plan - long step", &uniform, long),
        ];
        for (name, set, x) in cases {
            let mut y = x.clone();
            let mut effort = Effort::default();
            let mut warm = Warm::default();
            let time = median(
                (0..3)
                    .map(|_| {
                        y.copy_from_slice(&x);
                        warm.values.clear();
                        seconds(|| effort = set.project_counted(&mut y, &mut warm).unwrap())
                    })
                    .collect(),
            );
            println!("{n:>5} {name:<28} {:>11.2} {:>16.1}   {}", 1e3 * time, 1e9 * time / (n * n) as f64, words(&effort));
        }
    }

    println!("\nn = 1300, X changes by 1e-3 / n^2 times normal noise, warm and cold on the same X");
    let n = 1300;
    let unit = 1.0 / (n * n) as f64;
    let set = Transport::uniform(n, n).unwrap();
    let (s, t): (Vec<f64>, Vec<f64>) = (0..n).map(|_| (normal(&mut rng), normal(&mut rng))).unzip();
    for from_plan in [true, false] {
        let mut warm = Warm::default();
        let mut x: Vec<f64> = (0..n * n).map(|k| unit * (1.0 - 20.0 * (s[k / n] - t[k % n]).abs())).collect();
        let (mut warm_times, mut cold_times) = (vec![], vec![]);
        let (mut effort, mut cold_effort) = (Effort::default(), Effort::default());
        for _ in 0..10 {
            let (mut plan, mut other) = (x.clone(), x.clone());
            warm_times.push(1e3 * seconds(|| effort = set.project_counted(&mut plan, &mut warm).unwrap()));
            cold_times.push(1e3 * seconds(|| cold_effort = set.project_counted(&mut other, &mut Warm::default()).unwrap()));
            if from_plan {
                x = plan;
            }
            x.iter_mut().for_each(|x| *x += 1e-3 * unit * normal(&mut rng));
        }
        let name = if from_plan { "last plan + noise" } else { "last X + noise" };
        let (warm_time, cold_time) = (median(warm_times), median(cold_times));
        println!("{name}: warm {warm_time:.1} ms ({}), cold {cold_time:.1} ms ({})", words(&effort), words(&cold_effort));
    }

    println!("\nn = 1300, X = last plan - step times cost, as in a subgradient method, warm");
    for step in [0.1, 1.0] {
        let (mut plan, mut warm) = (vec![unit; n * n], Warm::default());
        let (mut times, mut effort) = (vec![], Effort::default());
        for _ in 0..40 {
            plan.iter_mut().enumerate().for_each(|(k, p)| *p -= step * unit * (s[k / n] - t[k % n]).abs());
            times.push(1e3 * seconds(|| effort = set.project_counted(&mut plan, &mut warm).unwrap()));
        }
        println!("step {step} / n^2: median {:.1} ms, last {:.1} ms ({})", median(times.clone()), times[39], words(&effort));
    }
}
