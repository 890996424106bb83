//! L-BFGS: known solutions in the whole space and in balls, first steps by hand, counts, checkpoints, threads, kinks, refusals.

use thalweg::learn::{Data, Learning};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{Problem, Subgradients};
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets::{Ball, Bounds};
use thalweg::solvers::{FirstOrder, Lbfgs, lbfgs};

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

/// Runs with the usual settings; the solver is there to be asked afterwards.
fn run(problem: &dyn Subgradients, start: &[f64], steps: u64) -> (Outcome, Lbfgs) {
    let mut solver = Lbfgs::new(lbfgs::Settings::default()).unwrap();
    let outcome = run::minimize(problem, &mut solver, start, &quiet(steps), &mut ()).unwrap();
    (outcome, solver)
}

/// f = sum_j c_j (x_j - 1)^2 / 2 with c_j = 1, 2, 3, …: the solution is (1, 1, …).
fn quadratic(d: usize) -> Problem {
    Problem::new(d)
        .objective(
            |x| x.iter().enumerate().map(|(j, x)| 0.5 * (j + 1) as f64 * (x - 1.0) * (x - 1.0)).sum(),
            |x, s| s.iter_mut().zip(x).enumerate().for_each(|(j, (s, x))| *s = (j + 1) as f64 * (x - 1.0)),
        )
        .weak_convexity(0.0, 0.0)
}

/// f = sum_j 100 (x_{j+1} - x_j^2)^2 + (1 - x_j)^2, the chained function of Rosenbrock; the smallest value is 0 at (1, 1, …).
fn rosenbrock(d: usize) -> Problem {
    Problem::new(d).objective(
        |x| x.windows(2).map(|w| 100.0 * (w[1] - w[0] * w[0]).powi(2) + (1.0 - w[0]).powi(2)).sum(),
        |x, s| {
            s.fill(0.0);
            for j in 0..x.len() - 1 {
                let off = x[j + 1] - x[j] * x[j];
                s[j] += -400.0 * x[j] * off - 2.0 * (1.0 - x[j]);
                s[j + 1] += 200.0 * off;
            }
        },
    )
}

fn rows(n: usize, minimize: &str) -> Learning {
    let mut rng = Rng::new(8, Purpose::Data);
    let data = Data {
        features: Matrix::dense(n, 6, (0..6 * n).map(|_| rng.uniform() - 0.5).collect()).unwrap(),
        labels: (0..n).map(|i| if (i * i) % 7 < 3 { 1.0 } else { -1.0 }).collect(),
        groups: None,
        weights: None,
    };
    Learning::on(data).minimize(minimize.parse().unwrap()).build().unwrap()
}

#[test]
fn first_steps_by_hand() {
    // f = 2 x^2 from 3: the gradient 12 gives the first step 1/12, so that x_1 = 2; slope and value fit the Wolfe conditions
    // (8/12 of the first slope). Then s = -1, y = -4, H = 1/4: d = -8/4, x_2 = 0.
    let problem = Problem::new(1).objective(|x| 2.0 * x[0] * x[0], |x, s| s[0] = 4.0 * x[0]);
    let (one, solver) = run(&problem, &[3.0], 1);
    assert!((one.point.x[0] - 2.0).abs() < 1e-15, "{:?}", one.point.x);
    assert_eq!(solver.residual(), Some(8.0));
    let (two, _) = run(&problem, &[3.0], 2);
    assert!(two.point.x[0].abs() < 1e-14, "{:?}", two.point.x);
    assert!(two.ended == StopReason::Finished && two.iterations == 2, "{:?}", two.ended);
    // The start and one trial for each step.
    assert_eq!((two.counts.objective_subgradients.calls, two.counts.objective_values.calls), (3, 0));
}

#[test]
fn a_quadratic_in_few_iterations() {
    let (outcome, solver) = run(&quadratic(15), &[0.0; 15], 100);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(outcome.iterations <= 40, "{}", outcome.iterations);
    assert!(outcome.point.x.iter().all(|x| (x - 1.0).abs() < 1e-7), "{:?}", outcome.point.x);
    assert!(outcome.point.objective < 1e-14 && solver.residual().unwrap() <= 1e-9 * 15f64.powi(2) * 2.0);
    assert!(outcome.notes.iter().all(|note| !note.contains("lbfgs")), "{:?}", outcome.notes);
}

#[test]
fn rosenbrock_by_its_valley() {
    let (outcome, _) = run(&rosenbrock(2), &[-1.2, 1.0], 200);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(outcome.iterations <= 60, "{}", outcome.iterations);
    assert!(vec::distance(&outcome.point.x, &[1.0, 1.0]) < 1e-6, "{:?}", outcome.point.x);
    // About four evaluations in three iterations: the line search is seldom at work.
    assert!(outcome.counts.objective_subgradients.calls <= 2 * outcome.iterations, "{:?}", outcome.counts);
    let (outcome, _) = run(&rosenbrock(50), &[-0.5; 50], 2000);
    assert!(outcome.ended == StopReason::Finished && outcome.point.objective < 1e-12, "{:?}", outcome.point);
}

/// The quadratic of two variables, c = (1, 2), in a ball: x_j = c_j / (c_j + nu).
#[test]
fn a_ball_that_holds_back() {
    // nu = 1: (1/2, 2/3), whose norm is 5/6.
    let problem = quadratic(2).domain(Ball::new(5.0 / 6.0).unwrap());
    for start in [[0.0, 0.0], [-0.8, 0.1], [0.5, 0.2], [5.0 / 6.0, 0.0], [0.0, -5.0 / 6.0]] {
        let (outcome, solver) = run(&problem, &start, 100);
        assert_eq!(outcome.ended, StopReason::Finished, "{start:?}");
        assert!(vec::distance(&outcome.point.x, &[0.5, 2.0 / 3.0]) < 1e-8, "{start:?}: {:?}", outcome.point.x);
        assert!(vec::norm(&outcome.point.x) <= 5.0 / 6.0, "{start:?}");
        assert!((solver.multiplier().unwrap() - 1.0).abs() < 1e-8, "{start:?}: {:?}", solver.multiplier());
        let note = "the ball of radius 0.8333333333333334 holds the point back, with the multiplier 1.000000e0";
        assert!(outcome.notes.iter().any(|n| n == note), "{:?}", outcome.notes);
    }
}

#[test]
fn every_iterate_is_inside() {
    let problem = rosenbrock(10).domain(Ball::new(2.0).unwrap());
    let mut seen = vec![];
    struct Norms<'a>(&'a mut Vec<f64>);
    impl run::Observer for Norms<'_> {
        fn recorded(&mut self, row: &run::Row, x: &[f64], _: &run::Diagnostics) {
            assert_eq!(row.norm, vec::norm(x));
            self.0.push(row.norm);
        }
    }
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(500) };
    let mut solver = Lbfgs::new(lbfgs::Settings::default()).unwrap();
    let outcome = run::minimize(&problem, &mut solver, &[0.6; 10], &options, &mut Norms(&mut seen)).unwrap();
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(seen.len() > 10 && seen.iter().all(|norm| *norm <= 2.0), "{seen:?}");
    // KKT: the gradient is a multiple of -x.
    let nu = solver.multiplier().unwrap();
    assert!(nu > 0.0 && solver.residual().unwrap() < 1e-6, "{nu} {:?}", solver.residual());
    let values: Vec<f64> = outcome.trace.iter().map(|row| row.objective).collect();
    assert!(values.windows(2).all(|w| w[1] <= w[0] * (1.0 + 1e-13)), "{values:?}");
}

#[test]
fn a_ball_that_does_not_or_just_touches() {
    for (radius, name) in [(1.5, "inside"), (2f64.sqrt(), "touching")] {
        let problem = quadratic(2).domain(Ball::new(radius).unwrap());
        for start in [[0.0, 0.0], [-radius, 0.0], [0.3, -0.9]] {
            let (outcome, solver) = run(&problem, &start, 200);
            assert_eq!(outcome.ended, StopReason::Finished, "{name} {start:?}");
            assert!(vec::distance(&outcome.point.x, &[1.0, 1.0]) < 1e-8, "{name} {start:?}: {:?}", outcome.point.x);
            assert!(solver.multiplier().unwrap() < 1e-8, "{name} {start:?}");
        }
    }
}

/// A long first step ends on the sphere, on the wrong side of the solution: the method comes back inside.
#[test]
fn it_leaves_the_sphere_again() {
    let problem = Problem::new(2)
        .objective(
            |x| 0.5 * (1e-3 * (x[0] - 0.5).powi(2) + x[1] * x[1]),
            |x, s| {
                s[0] = 1e-3 * (x[0] - 0.5);
                s[1] = x[1];
            },
        )
        .domain(Ball::new(1.0).unwrap());
    let (outcome, solver) = run(&problem, &[-0.6, 0.8], 200);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(vec::distance(&outcome.point.x, &[0.5, 0.0]) < 1e-5, "{:?}", outcome.point.x);
    assert_eq!(solver.multiplier(), Some(0.0));
}

/// f = -x1^2 - 2 x2^2 + x1 / 10 in the unit ball: not convex; the smallest values are near (0, 1) and (0, -1).
#[test]
fn a_concave_function_ends_on_the_sphere() {
    let problem = Problem::new(2)
        .objective(
            |x| -x[0] * x[0] - 2.0 * x[1] * x[1] + 0.1 * x[0],
            |x, s| {
                s[0] = -2.0 * x[0] + 0.1;
                s[1] = -4.0 * x[1];
            },
        )
        .domain(Ball::new(1.0).unwrap());
    let (outcome, solver) = run(&problem, &[0.2, 0.1], 100);
    assert_eq!(outcome.ended, StopReason::Finished);
    // (nu - 2) x1 = -1/10 and nu = 4: x1 = -1/20.
    let wanted = [-0.05, (1.0f64 - 0.0025).sqrt()];
    assert!(vec::distance(&outcome.point.x, &wanted) < 1e-8, "{:?}", outcome.point.x);
    assert!((solver.multiplier().unwrap() - 4.0).abs() < 1e-8);
}

#[test]
fn steps_that_overflow_are_shortened() {
    let problem = Problem::new(1).objective(|x| (200.0 * x[0]).exp() - x[0], |x, s| s[0] = 200.0 * (200.0 * x[0]).exp() - 1.0);
    let (outcome, _) = run(&problem, &[-20.0], 200);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!((outcome.point.x[0] + 200f64.ln() / 200.0).abs() < 1e-9, "{:?}", outcome.point.x);
}

#[test]
fn a_kink_is_named() {
    let problem = Problem::new(2)
        .objective(
            |x| 2.0 * x[0].abs() + x[1].abs() + 0.1 * x[1],
            |x, s| {
                s[0] = 2.0 * if x[0] >= 0.0 { 1.0 } else { -1.0 };
                s[1] = 0.1 + if x[1] >= 0.0 { 1.0 } else { -1.0 };
            },
        )
        .weak_convexity(0.0, 0.0);
    let (outcome, solver) = run(&problem, &[0.7, 0.4], 500);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(solver.residual().unwrap() > 0.5);
    let note = outcome.notes.iter().find(|n| n.starts_with("lbfgs stalled with a gradient of length ")).unwrap();
    assert!(note.contains("expected 2.28e-9") && note.contains("it has kinks"), "{note}");
}

#[test]
fn without_a_tolerance_it_ends_at_rounding() {
    let mut solver = Lbfgs::new(lbfgs::Settings { tolerance: 0.0, ..lbfgs::Settings::default() }).unwrap();
    let problem = rows(200, "logistic + 0.1 * l2");
    let outcome = run::minimize(&problem, &mut solver, &[0.0; 6], &quiet(2000), &mut ()).unwrap();
    assert_eq!(outcome.ended, StopReason::Finished);
    assert!(solver.residual().unwrap() < 1e-13, "{:?}", solver.residual());
    let stalled = outcome.notes.iter().any(|n| n.contains("smaller by more than rounding"));
    assert!(stalled || solver.residual() == Some(0.0), "{:?}", outcome.notes);
}

#[test]
fn continues_bit_for_bit() {
    let with = |problem: Problem, start: f64, memory, on_sphere: bool| {
        let make =
            move || -> Box<FirstOrder<'static>> { Box::new(Lbfgs::new(lbfgs::Settings { memory, tolerance: 1e-15 }).unwrap()) };
        let (start, mut solver) = ([start; 100], Lbfgs::new(lbfgs::Settings { memory, tolerance: 1e-15 }).unwrap());
        let outcome = run::minimize(&problem, &mut solver, &start, &quiet(230), &mut ()).unwrap();
        assert!(matches!(outcome.ended, StopReason::Budget(_)), "{:?} {memory}", outcome.ended);
        assert_eq!(solver.multiplier().unwrap() > 0.0, on_sphere);
        crate::common::continues_bit_for_bit_on(&problem, &start, &format!("lbfgs-{memory}"), &[&make]);
    };
    with(rosenbrock(100), -0.4, 20, false);
    let stiff = Problem::new(100).objective(
        |x| x.iter().enumerate().map(|(j, x)| 0.5 * ((j + 1) as f64).powi(3) * (x - 1.0) * (x - 1.0)).sum(),
        |x, s| s.iter_mut().zip(x).enumerate().for_each(|(j, (s, x))| *s = ((j + 1) as f64).powi(3) * (x - 1.0)),
    );
    with(stiff.domain(Ball::new(9.7).unwrap()), 0.0, 3, true);
}

#[test]
fn same_bits_on_two_threads() {
    let problem = rows(9_000, "logistic + 0.001 * l2");
    let run = |threads| {
        let options = Options { threads, record: Record { every: Some(7), ..Record::default() }, ..Options::iterations(60) };
        crate::common::bits(&crate::common::solve(
            &problem,
            Box::new(Lbfgs::new(lbfgs::Settings::default()).unwrap()),
            &[0.0; 6],
            &options,
        ))
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn what_it_refuses() {
    let refused = |problem: &dyn Subgradients, start: &[f64]| {
        let mut solver = Lbfgs::new(lbfgs::Settings::default()).unwrap();
        run::minimize(problem, &mut solver, start, &quiet(1), &mut ()).unwrap_err().to_string()
    };
    assert_eq!(refused(&crate::common::disc(), &[0.0; 2]), "lbfgs takes no constraints, but the problem has 2");
    let boxed = quadratic(1).domain(Bounds::uniform(-1.0, 1.0).unwrap());
    let message = refused(&boxed, &[0.0]);
    assert!(message.starts_with("lbfgs takes the whole space or a ball around 0, but the domain is another set ("), "{message}");
    for (settings, wanted) in [
        (lbfgs::Settings { memory: 0, ..lbfgs::Settings::default() }, "memory must be at least 1, got 0"),
        (
            lbfgs::Settings { tolerance: -1.0, ..lbfgs::Settings::default() },
            "tolerance must be a finite number, 0 or larger, got -1",
        ),
        (
            lbfgs::Settings { tolerance: f64::NAN, ..lbfgs::Settings::default() },
            "tolerance must be a finite number, 0 or larger, got NaN",
        ),
    ] {
        assert_eq!(Lbfgs::new(settings).unwrap_err().to_string(), wanted);
    }
}
