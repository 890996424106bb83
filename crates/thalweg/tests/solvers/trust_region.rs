//! The trust-region method for black boxes on problems with known optima, with nothing set: feasible within 5% of the optimum in any
//! units, the same bits from a checkpoint, and refusals.

use std::f64::consts::FRAC_PI_4;
use std::sync::Mutex;

use thalweg::math::{Rng, rng::Purpose};
use thalweg::oracle::BlackBox;
use thalweg::run::{self, Budget, Options, Outcome, StopReason};
use thalweg::sets::{Ball, Bounds};
use thalweg::solvers::{TrustRegion, trust_region};

type Function = fn(&[f64]) -> f64;
type Functions = fn(&[f64]) -> Vec<f64>;

/// A problem with a known optimum.
struct Case {
    name: &'static str,
    start: &'static [f64],
    objective: Function,
    constraints: Functions,
    count: usize,
    bounds: Option<(&'static [f64], &'static [f64])>,
    optimum: f64,
}

/// Factors that a problem is multiplied by: variables, objective, constraints.
#[derive(Clone, Copy)]
struct Factors(f64, f64, f64);

const NATURAL: Factors = Factors(1.0, 1.0, 1.0);

fn solve(problem: &BlackBox, start: &[f64], seed: u64) -> Outcome {
    let mut solver = TrustRegion::new(trust_region::Settings::default()).unwrap();
    let options = Options { seed, ..Options::iterations(100_000) };
    run::minimize_zeroth_order(problem, &mut solver, start, &options, &mut ()).unwrap()
}

fn posed(case: &Case, Factors(unit, cost, row): Factors) -> BlackBox {
    let (objective, constraints, count) = (case.objective, case.constraints, case.count);
    let back = move |x: &[f64]| x.iter().map(|x| x / unit).collect::<Vec<f64>>();
    let problem =
        BlackBox::new(case.start.len()).objective(move |x| cost * objective(&back(x))).constraints(count, move |x, which, g| {
            let all = constraints(&back(x));
            which.each(count, |k, j| g[k] = row * all[j]);
        });
    match case.bounds {
        None => problem,
        Some((low, high)) => {
            let scaled = |side: &[f64]| side.iter().map(|x| unit * x).collect::<Vec<f64>>();
            problem.domain(Bounds::each(scaled(low), scaled(high)).unwrap())
        }
    }
}

/// Problems of Hock and Schittkowski (1981) by number, and engineering designs: the speed reducer of Golinski, the welded beam of
/// Ragsdell and Phillips.
const CASES: [Case; 8] = [
    Case {
        name: "43",
        start: &[0.0; 4],
        objective: |x| {
            x[0] * x[0] + x[1] * x[1] + 2.0 * x[2] * x[2] + x[3] * x[3] - 5.0 * x[0] - 5.0 * x[1] - 21.0 * x[2] + 7.0 * x[3]
        },
        constraints: |x| {
            let square = |i: usize| x[i] * x[i];
            vec![
                square(0) + square(1) + square(2) + square(3) + x[0] - x[1] + x[2] - x[3] - 8.0,
                square(0) + 2.0 * square(1) + square(2) + 2.0 * square(3) - x[0] - x[3] - 10.0,
                2.0 * square(0) + square(1) + square(2) + 2.0 * x[0] - x[1] - x[3] - 5.0,
            ]
        },
        count: 3,
        bounds: None,
        optimum: -44.0,
    },
    Case {
        name: "76",
        start: &[0.5; 4],
        objective: |x| {
            x[0] * x[0] + 0.5 * x[1] * x[1] + x[2] * x[2] + 0.5 * x[3] * x[3] - x[0] * x[2] + x[2] * x[3] - x[0] - 3.0 * x[1]
                + x[2]
                - x[3]
        },
        constraints: |x| {
            vec![
                x[0] + 2.0 * x[1] + x[2] + x[3] - 5.0,
                3.0 * x[0] + x[1] + 2.0 * x[2] - x[3] - 4.0,
                1.5 - x[1] - 4.0 * x[2],
                -x[0],
                -x[1],
                -x[2],
                -x[3],
            ]
        },
        count: 7,
        bounds: None,
        optimum: -4.681_818,
    },
    Case {
        name: "100",
        start: &[1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 1.0],
        objective: |x| {
            (x[0] - 10.0).powi(2)
                + 5.0 * (x[1] - 12.0).powi(2)
                + x[2].powi(4)
                + 3.0 * (x[3] - 11.0).powi(2)
                + 10.0 * x[4].powi(6)
                + 7.0 * x[5] * x[5]
                + x[6].powi(4)
                - 4.0 * x[5] * x[6]
                - 10.0 * x[5]
                - 8.0 * x[6]
        },
        constraints: |x| {
            vec![
                2.0 * x[0] * x[0] + 3.0 * x[1].powi(4) + x[2] + 4.0 * x[3] * x[3] + 5.0 * x[4] - 127.0,
                7.0 * x[0] + 3.0 * x[1] + 10.0 * x[2] * x[2] + x[3] - x[4] - 282.0,
                23.0 * x[0] + x[1] * x[1] + 6.0 * x[5] * x[5] - 8.0 * x[6] - 196.0,
                4.0 * x[0] * x[0] + x[1] * x[1] - 3.0 * x[0] * x[1] + 2.0 * x[2] * x[2] + 5.0 * x[5] - 11.0 * x[6],
            ]
        },
        count: 4,
        bounds: None,
        optimum: 680.630_057,
    },
    Case {
        name: "113",
        start: &[2.0, 3.0, 5.0, 5.0, 1.0, 2.0, 7.0, 3.0, 6.0, 10.0],
        objective: |x| {
            x[0] * x[0] + x[1] * x[1] + x[0] * x[1] - 14.0 * x[0] - 16.0 * x[1]
                + (x[2] - 10.0).powi(2)
                + 4.0 * (x[3] - 5.0).powi(2)
                + (x[4] - 3.0).powi(2)
                + 2.0 * (x[5] - 1.0).powi(2)
                + 5.0 * x[6] * x[6]
                + 7.0 * (x[7] - 11.0).powi(2)
                + 2.0 * (x[8] - 10.0).powi(2)
                + (x[9] - 7.0).powi(2)
                + 45.0
        },
        constraints: |x| {
            vec![
                4.0 * x[0] + 5.0 * x[1] - 3.0 * x[6] + 9.0 * x[7] - 105.0,
                10.0 * x[0] - 8.0 * x[1] - 17.0 * x[6] + 2.0 * x[7],
                -8.0 * x[0] + 2.0 * x[1] + 5.0 * x[8] - 2.0 * x[9] - 12.0,
                3.0 * (x[0] - 2.0).powi(2) + 4.0 * (x[1] - 3.0).powi(2) + 2.0 * x[2] * x[2] - 7.0 * x[3] - 120.0,
                5.0 * x[0] * x[0] + 8.0 * x[1] + (x[2] - 6.0).powi(2) - 2.0 * x[3] - 40.0,
                x[0] * x[0] + 2.0 * (x[1] - 2.0).powi(2) - 2.0 * x[0] * x[1] + 14.0 * x[4] - 6.0 * x[5],
                0.5 * (x[0] - 8.0).powi(2) + 2.0 * (x[1] - 4.0).powi(2) + 3.0 * x[4] * x[4] - x[5] - 30.0,
                -3.0 * x[0] + 6.0 * x[1] + 12.0 * (x[8] - 8.0).powi(2) - 7.0 * x[9],
            ]
        },
        count: 8,
        bounds: None,
        optimum: 24.306_209,
    },
    Case {
        name: "65",
        start: &[-5.0, 5.0, 0.0],
        objective: |x| (x[0] - x[1]).powi(2) + (x[0] + x[1] - 10.0).powi(2) / 9.0 + (x[2] - 5.0).powi(2),
        constraints: |x| vec![x[0] * x[0] + x[1] * x[1] + x[2] * x[2] - 48.0],
        count: 1,
        bounds: Some((&[-4.5, -4.5, -5.0], &[4.5, 4.5, 5.0])),
        optimum: 0.953_529,
    },
    Case {
        name: "83",
        start: &[78.0, 33.0, 27.0, 27.0, 27.0],
        objective: |x| 5.357_854_7 * x[2] * x[2] + 0.835_689_1 * x[0] * x[4] + 37.293_239 * x[0] - 40_792.141,
        constraints: |x| {
            let a = 85.334_407 + 0.005_685_8 * x[1] * x[4] + 0.000_626_2 * x[0] * x[3] - 0.002_205_3 * x[2] * x[4];
            let b = 80.512_49 + 0.007_131_7 * x[1] * x[4] + 0.002_995_5 * x[0] * x[1] + 0.002_181_3 * x[2] * x[2];
            let c = 9.300_961 + 0.004_702_6 * x[2] * x[4] + 0.001_254_7 * x[0] * x[2] + 0.001_908_5 * x[2] * x[3];
            vec![-a, a - 92.0, 90.0 - b, b - 110.0, 20.0 - c, c - 25.0]
        },
        count: 6,
        bounds: Some((&[78.0, 33.0, 27.0, 27.0, 27.0], &[102.0, 45.0, 45.0, 45.0, 45.0])),
        optimum: -30_665.539,
    },
    Case {
        name: "speed reducer",
        start: &[3.1, 0.75, 22.5, 7.8, 7.8, 3.4, 5.25],
        objective: |x| {
            FRAC_PI_4 * x[0] * x[1] * x[1] * (3.3333 * x[2] * x[2] + 14.9334 * x[2] - 43.0934)
                - 1.508 * x[0] * (x[5] * x[5] + x[6] * x[6])
                + 7.4777 * (x[5].powi(3) + x[6].powi(3))
                + FRAC_PI_4 * (x[3] * x[5] * x[5] + x[4] * x[6] * x[6])
        },
        constraints: |x| {
            let shaft = |l: f64, d: f64, more: f64, size: f64| {
                ((745.0 * l / (x[1] * x[2])).powi(2) + more).sqrt() / (size * d.powi(3)) - 1.0
            };
            vec![
                27.0 / (x[0] * x[1] * x[1] * x[2]) - 1.0,
                397.5 / (x[0] * x[1] * x[1] * x[2] * x[2]) - 1.0,
                1.93 * x[3].powi(3) / (x[1] * x[2] * x[5].powi(4)) - 1.0,
                1.93 * x[4].powi(3) / (x[1] * x[2] * x[6].powi(4)) - 1.0,
                shaft(x[3], x[5], 16.9e6, 110.0),
                shaft(x[4], x[6], 157.5e6, 85.0),
                x[1] * x[2] / 40.0 - 1.0,
                5.0 * x[1] / x[0] - 1.0,
                x[0] / (12.0 * x[1]) - 1.0,
                (1.5 * x[5] + 1.9) / x[3] - 1.0,
                (1.1 * x[6] + 1.9) / x[4] - 1.0,
            ]
        },
        count: 11,
        bounds: Some((&[2.6, 0.7, 17.0, 7.3, 7.3, 2.9, 5.0], &[3.6, 0.8, 28.0, 8.3, 8.3, 3.9, 5.5])),
        optimum: 2_994.47,
    },
    Case {
        name: "welded beam",
        start: &[1.0, 5.0, 5.0, 1.0],
        objective: |x| 1.104_71 * x[0] * x[0] * x[1] + 0.048_11 * x[2] * x[3] * (14.0 + x[1]),
        constraints: |x| {
            let (p, l, e, g) = (6000.0, 14.0, 30e6, 12e6);
            let primary = p / (2.0_f64.sqrt() * x[0] * x[1]);
            let r = (x[1] * x[1] / 4.0 + ((x[0] + x[2]) / 2.0).powi(2)).sqrt();
            let j = 2.0 * 2.0_f64.sqrt() * x[0] * x[1] * (x[1] * x[1] / 12.0 + ((x[0] + x[2]) / 2.0).powi(2));
            let secondary = p * (l + x[1] / 2.0) * r / j;
            let shear = (primary * primary + primary * secondary * x[1] / r + secondary * secondary).sqrt();
            let buckling = 4.013 * e * (x[2] * x[2] * x[3].powi(6) / 36.0).sqrt() / (l * l)
                * (1.0 - x[2] / (2.0 * l) * (e / (4.0 * g)).sqrt());
            vec![
                shear - 13_600.0,
                6.0 * p * l / (x[3] * x[2] * x[2]) - 30_000.0,
                x[0] - x[3],
                0.104_71 * x[0] * x[0] + 0.048_11 * x[2] * x[3] * (14.0 + x[1]) - 5.0,
                0.125 - x[0],
                4.0 * p * l.powi(3) / (e * x[2].powi(3) * x[3]) - 0.25,
                p - buckling,
            ]
        },
        count: 7,
        bounds: Some((&[0.1, 0.1, 0.1, 0.1], &[2.0, 10.0, 10.0, 2.0])),
        optimum: 1.724_852,
    },
];

fn assert_solved(what: &str, outcome: &Outcome, optimum: f64, share: f64) {
    let point = &outcome.point;
    let values = outcome.counts.objective_values.samples;
    println!(
        "{what}: {:.6} (optimum {optimum:.6}), violation {:.1e}, {values} values, {} passes of constraints, {} steps, {:?}",
        point.objective, point.violation, outcome.passes.constraints, outcome.iterations, outcome.ended
    );
    assert!(point.feasible, "{what}: {:?}", point.violation);
    assert!((point.objective - optimum).abs() <= share * optimum.abs(), "{what}: {} of {optimum}", point.objective);
}

#[test]
fn published_problems_are_solved_from_values_alone() {
    for case in &CASES {
        for seed in 0..3 {
            let outcome = solve(&posed(case, NATURAL), case.start, seed);
            assert_solved(case.name, &outcome, case.optimum, 0.01);
            assert_eq!(outcome.ended, StopReason::Finished, "{}", case.name);
        }
    }
}

#[test]
fn units_do_not_matter() {
    for case in &CASES {
        for factors in [
            Factors(1e3, 1.0, 1.0),
            Factors(1e-3, 1.0, 1.0),
            Factors(1.0, 1e3, 1.0),
            Factors(1.0, 1e-3, 1.0),
            Factors(1.0, 1.0, 1e3),
            Factors(1.0, 1.0, 1e-3),
        ] {
            let Factors(unit, cost, _) = factors;
            let start: Vec<f64> = case.start.iter().map(|x| unit * x).collect();
            let outcome = solve(&posed(case, factors), &start, 0);
            assert_solved(case.name, &outcome, cost * case.optimum, 0.05);
        }
    }
}

/// Twenty thousand random half-spaces, a tenth of a quadratic cost from whose minimiser they keep away. The optimum follows from the
/// conditions of Karush, Kuhn and Tucker, with which the problem is generated.
fn half_spaces(seed: u64, unit: f64, row: f64) -> (BlackBox, f64) {
    const ROWS: usize = 20_000;
    const D: usize = 10;
    let mut rng = Rng::new(seed, Purpose::Data);
    let mut rows = vec![0.0; ROWS * D];
    rng.normals(&mut rows);
    let mut best = [0.0; D];
    rng.normals(&mut best);
    best.iter_mut().for_each(|x| *x *= 0.3);
    let mut bounds = vec![0.0; ROWS];
    let mut target = best;
    for (j, a) in rows.chunks(D).enumerate() {
        let product: f64 = a.iter().zip(&best).map(|(a, x)| a * x).sum();
        bounds[j] = if j < 6 { product } else { product + 0.02 + rng.uniform() };
        // The start 0 is feasible.
        if bounds[j] < 0.05 {
            bounds[j] = if j < 6 { product } else { 0.05_f64.max(product + 0.02) };
        }
        if j < 6 {
            target.iter_mut().zip(a).for_each(|(t, a)| *t += 0.15 * (1.0 + j as f64) / 3.0 * a);
        }
    }
    let optimum: f64 = best.iter().zip(&target).map(|(x, t)| (x - t).powi(2)).sum();
    let problem = BlackBox::new(D)
        .objective(move |x| x.iter().zip(&target).map(|(x, t)| (x / unit - t).powi(2)).sum())
        .constraints(ROWS, move |x, which, g| {
            which.each(ROWS, |k, j| {
                g[k] = row * (rows[j * D..][..D].iter().zip(x).map(|(a, x)| a * x / unit).sum::<f64>() - bounds[j]);
            });
        });
    (problem, optimum)
}

#[test]
fn twenty_thousand_rows_in_any_units() {
    for seed in 0..3 {
        for (unit, row) in [(1.0, 1.0), (0.01, 1.0), (1.0, 1000.0), (1e3, 1e-3), (1e-3, 1e3)] {
            let (problem, optimum) = half_spaces(seed, unit, row);
            let outcome = solve(&problem, &[0.0; 10], seed);
            assert_solved(&format!("half-spaces {seed} {unit} {row}"), &outcome, optimum, 0.05);
        }
    }
}

/// Five hundred convex quadratic constraints, eight of them active, and a cost with noise.
fn noisy(seed: u64, noise: f64, cost: f64) -> (BlackBox, Vec<f64>, f64) {
    const D: usize = 12;
    const M: usize = 500;
    let mut rng = Rng::new(seed, Purpose::Data);
    let mut numbers = vec![0.0; M * 2 * D + D];
    rng.normals(&mut numbers);
    let best: Vec<f64> = numbers[..D].iter().map(|x| 1.0 + 0.2 * x).collect();
    let linear: Vec<f64> = numbers[D..D + M * D].to_vec();
    let curved: Vec<f64> = numbers[D + M * D..].iter().map(|q| 0.3 * q.abs()).collect();
    let value =
        move |j: usize, x: &[f64]| -> f64 { (0..D).map(|i| linear[j * D + i] * x[i] + curved[j * D + i] * x[i] * x[i]).sum() };
    let slack: Vec<f64> = (0..M).map(|j| if j < 8 { 0.0 } else { 0.2 + 2.0 * rng.uniform() }).collect();
    let bounds: Vec<f64> = (0..M).map(|j| value(j, &best) + slack[j]).collect();
    // slope + sum of multipliers times slopes of active constraints = 0
    let mut pull = vec![0.0; D];
    for j in 0..8 {
        for i in 0..D {
            let h = 1e-4;
            let (mut plus, mut minus) = (best.clone(), best.clone());
            plus[i] += h;
            minus[i] -= h;
            pull[i] += 0.5 * (value(j, &plus) - value(j, &minus)) / (2.0 * h);
        }
    }
    let optimum = 25.0;
    let (centre, drag) = (best.clone(), pull);
    let exact = move |x: &[f64]| -> f64 {
        (0..D).map(|i| (1.0 + 0.3 * i as f64) * (x[i] - centre[i]).powi(2) - drag[i] * (x[i] - centre[i])).sum::<f64>() + optimum
    };
    let draws = Mutex::new(Rng::new(seed + 100, Purpose::Data));
    let problem = BlackBox::new(D)
        .objective(move |x| {
            let mut one = [0.0];
            draws.lock().unwrap().normals(&mut one);
            cost * (exact(x) + noise * one[0])
        })
        .constraints(M, move |x, which, g| which.each(M, |k, j| g[k] = value(j, x) - bounds[j]));
    (problem, best, cost * optimum)
}

#[test]
fn a_noisy_cost_under_five_hundred_nonlinear_constraints() {
    for seed in 0..3 {
        for (noise, cost) in [(0.0, 1.0), (0.3, 1.0), (0.3, 1e3), (1.0, 1.0)] {
            let (problem, _, optimum) = noisy(seed, noise, cost);
            let (exact, ..) = noisy(seed, 0.0, cost);
            let mut outcome = solve(&problem, &[0.0; 12], seed);
            outcome.point.objective = thalweg::eval::measure(&exact, &outcome.point.x, 1e-6).unwrap().objective;
            assert_solved(&format!("noisy {seed} {noise} {cost}"), &outcome, optimum, 0.05);
        }
    }
}

#[test]
fn the_domain_is_kept_and_the_start_may_be_anywhere() {
    // The point of a ball nearest to (2, 1), on its boundary, with a constraint that cuts it off.
    let ball = BlackBox::new(2)
        .objective(|x| (x[0] - 2.0).powi(2) + (x[1] - 1.0).powi(2))
        .constraints(1, |x, which, g| which.each(1, |k, _| g[k] = x[0] - 0.6))
        .domain(Ball::new(1.0).unwrap());
    let outcome = solve(&ball, &[-0.5, -0.5], 0);
    assert_solved("ball", &outcome, 1.4_f64.powi(2) + 0.2 * 0.2, 0.001);
    // Values that are not finite are only outside of the steps that count.
    let log =
        BlackBox::new(1).objective(|x| x[0] - x[0].ln()).constraints(1, |x, which, g| which.each(1, |k, _| g[k] = 0.5 - x[0]));
    assert_solved("logarithm", &solve(&log, &[30.0], 0), 1.0, 0.001);
}

#[test]
fn many_variables_move_in_blocks() {
    let wide = BlackBox::new(60)
        .objective(|x| x.iter().enumerate().map(|(i, x)| (1.0 + (i % 3) as f64) * (x - 1.0).powi(2)).sum())
        .constraints(60, |x, which, g| which.each(60, |k, j| g[k] = x[j] - 0.5));
    let mut solver = TrustRegion::new(trust_region::Settings { block: 20, ..Default::default() }).unwrap();
    let outcome = run::minimize_zeroth_order(&wide, &mut solver, &[0.0; 60], &Options::iterations(10_000), &mut ()).unwrap();
    assert_solved("blocks", &outcome, 0.25 * 120.0, 0.05);
}

#[test]
fn a_constant_objective_and_no_constraints_are_finished_at_once() {
    let flat = BlackBox::new(3).objective(|_| 7.0);
    let outcome = solve(&flat, &[1.0, 2.0, 3.0], 0);
    assert_eq!((outcome.point.objective, &outcome.ended), (7.0, &StopReason::Finished));
    let free = BlackBox::new(2).objective(|x| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2));
    let outcome = solve(&free, &[-1.2, 1.0], 0);
    assert!(outcome.point.objective < 1e-3, "{:?}", outcome.point);
}

#[test]
fn a_run_continues_with_the_same_bits_and_threads_do_not_matter() {
    let (problem, ..) = half_spaces(1, 1.0, 1.0);
    let path = std::env::temp_dir().join(format!("thalweg-trust-region-{}", std::process::id()));
    let run = |iterations: u64, threads: usize, checkpoint: Option<run::Checkpoint>| {
        let mut solver = TrustRegion::new(trust_region::Settings::default()).unwrap();
        let options = Options { budget: Budget::iterations(iterations), threads, checkpoint, ..Options::default() };
        run::minimize_zeroth_order(&problem, &mut solver, &[0.0; 10], &options, &mut ()).unwrap().point.x
    };
    let whole = run(1000, 1, None);
    assert_eq!(run(1000, 2, None), whole);
    let saved =
        || Some(run::Checkpoint { file: path.clone(), every: std::time::Duration::MAX, resume: true, settings: String::new() });
    run(7, 1, saved());
    assert_eq!(run(1000, 1, saved()), whole);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn settings_are_checked() {
    let refused = |settings: trust_region::Settings| TrustRegion::new(settings).unwrap_err().to_string();
    let usual = trust_region::Settings::default;
    assert_eq!(
        refused(trust_region::Settings { tolerance: 0.0, ..usual() }),
        "tolerance must be a number between 0 and 1, got 0"
    );
    assert_eq!(refused(trust_region::Settings { block: 0, ..usual() }), "block must be at least 1, got 0");
    assert_eq!(
        refused(trust_region::Settings { max_evaluations: Some(0), ..usual() }),
        "max_evaluations must be at least 1, got 0"
    );
}
