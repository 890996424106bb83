//! Sequential quadratic programming: first steps by hand, classical problems, units, certificates, conflicts, checkpoints.

use crate::common::{bits, certify, continues_bit_for_bit_at, solve};
use thalweg::certify::Bounds;
use thalweg::learn::{Builder, Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Description, Problem};
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets;
use thalweg::solvers::Sqp;
use thalweg::solvers::sqp::Settings;
use thalweg::{Note, StallCause};

fn run(problem: &Problem, start: &[f64]) -> Outcome {
    solve(problem, Box::new(Sqp::new(Settings::default()).unwrap()), start, &Options::iterations(500))
}

fn near(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// Rows of Gaussian features whose means depend on the group, so that a model without constraints has a gap.
fn people(rows: usize, groups: u32, seed: u64) -> Data {
    let mut rng = Rng::new(seed, Purpose::Data);
    let mut gauss = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
    let (mut features, mut labels, mut of_row) = (vec![], vec![], vec![]);
    for i in 0..rows {
        let group = (i as u32 * 7 / 3) % groups;
        let row: Vec<f64> = (0..4).map(|c| gauss() + 0.5 * f64::from(group) * f64::from(c < 2)).collect();
        let score = row[0] - 0.5 * row[2] + 0.7 * gauss() - 0.6;
        labels.push(if score > 0.0 { 1.0 } else { -1.0 });
        features.extend(row);
        of_row.push(group);
    }
    let names = (0..groups).map(|k| format!("g{k}")).collect();
    Data { features: Matrix::dense(rows, 4, features).unwrap(), labels, groups: Some(Groups { names, of_row }), weights: None }
}

fn fair(data: Data, constraint: &str) -> Learning {
    let builder: Builder = Learning::on(data).intercept(true).minimize("logistic + 0.001 * l2".parse().unwrap());
    builder.subject_to(constraint.parse().unwrap()).build().unwrap()
}

fn train(problem: &Learning, steps: u64) -> Outcome {
    let start = vec![0.0; problem.dim()];
    solve(problem, Box::new(Sqp::new(Settings::default()).unwrap()), &start, &Options::iterations(steps))
}

#[test]
fn the_first_step_is_the_one_worked_by_hand() {
    // (x - 2)^2 / 2 subject to x <= 1 from 0: the gradient is -2, the first matrix 2 (steps of length 1), so the subproblem without the
    // constraint ends at 1, which satisfies it. There the difference of gradients is 1, the second subproblem has d = 0 and the
    // multiplier 1.
    let problem = Problem::new(1)
        .objective(|x| 0.5 * (x[0] - 2.0).powi(2), |x, s| s[0] = x[0] - 2.0)
        .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
        .weak_convexity(0.0, 0.0);
    let outcome = run(&problem, &[0.0]);
    assert_eq!(outcome.ended, StopReason::Finished);
    assert_eq!((outcome.iterations, outcome.point.x[0]), (2, 1.0));
    assert!(near(&outcome.multipliers.unwrap(), &[1.0], 1e-12));
    // The start: a value and a subgradient; the full step: a value, then a subgradient.
    let counts = &outcome.counts;
    assert_eq!((counts.objective_values.calls, counts.objective_subgradients.calls), (2, 2));
    assert_eq!(counts.constraint_subgradients.calls, 2);
    // Exactly stationary up to rounding.
    assert!(outcome.stationary.unwrap().upper < 1e-6);
}

#[test]
fn classical_problems_end_at_their_published_solutions() {
    // Hock and Schittkowski 6: an equality.
    let square = |x: &[f64]| 10.0 * (x[1] - x[0] * x[0]);
    let slope = |sign: f64| {
        move |x: &[f64], s: &mut [f64]| {
            s[0] = -20.0 * sign * x[0];
            s[1] = 10.0 * sign;
        }
    };
    let hs6 = Problem::new(2)
        .objective(|x| (1.0 - x[0]).powi(2), |x, s| s[0] = -2.0 * (1.0 - x[0]))
        .constraint("above", square, slope(1.0))
        .constraint("below", move |x| -square(x), slope(-1.0));
    let found = run(&hs6, &[-1.2, 1.0]);
    assert!(found.point.feasible && near(&found.point.x, &[1.0, 1.0], 1e-4), "{:?}", found.point);
    assert!(found.counts.objective_values.calls < 100, "{:?}", found.counts);

    // 71: an equality, an inequality and a box.
    let sum = |x: &[f64]| x.iter().map(|v| v * v).sum::<f64>() - 40.0;
    let spheres = |sign: f64| move |x: &[f64], s: &mut [f64]| s.iter_mut().zip(x).for_each(|(s, x)| *s = 2.0 * sign * x);
    let hs71 = Problem::new(4)
        .objective(
            |x| x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
            |x, s| {
                let t = x[0] + x[1] + x[2];
                s.copy_from_slice(&[x[3] * (t + x[0]), x[0] * x[3], x[0] * x[3] + 1.0, x[0] * t]);
            },
        )
        .constraint(
            "product",
            |x| 25.0 - x.iter().product::<f64>(),
            |x, s| (0..4).for_each(|i| s[i] = -(0..4).filter(|k| *k != i).map(|k| x[k]).product::<f64>()),
        )
        .constraint("above", sum, spheres(1.0))
        .constraint("below", move |x| -sum(x), spheres(-1.0))
        .domain(sets::Bounds::uniform(1.0, 5.0).unwrap());
    let found = run(&hs71, &[1.0, 5.0, 5.0, 1.0]);
    assert!((found.point.objective - 17.014_017_3).abs() < 1e-4, "{:?}", found.point);
    assert!(found.point.feasible && near(&found.point.x, &[1.0, 4.743, 3.8211, 1.3794], 1e-3), "{:?}", found.point.x);
    assert!(found.counts.objective_values.calls < 100, "{:?}", found.counts);
}

#[test]
fn units_of_functions_and_variables_do_not_matter() {
    for f in [1e-6, 1.0, 1e6] {
        for g in [1e-6, 1.0, 1e6] {
            for x in [1e-6, 1.0, 1e6] {
                let problem = Problem::new(2)
                    .objective(
                        move |v| f * ((v[0] / x - 2.0).powi(2) + (v[1] / x - 1.0).powi(4) + 100.0),
                        move |v, s| {
                            s[0] = f * 2.0 * (v[0] / x - 2.0) / x;
                            s[1] = f * 4.0 * (v[1] / x - 1.0).powi(3) / x;
                        },
                    )
                    .constraint(
                        "disc",
                        move |v| g * ((v[0] / x).powi(2) + (v[1] / x).powi(2) - 1.0),
                        move |v, s| s.iter_mut().zip(v).for_each(|(s, v)| *s = g * 2.0 * v / x / x),
                    );
                let found = run(&problem, &[0.3 * x, -0.2 * x]);
                let usual = [found.point.x[0] / x, found.point.x[1] / x];
                assert!(found.point.feasible, "{f} {g} {x}: {:?}", found.point);
                // The optimum satisfies the equations of Lagrange: radius 1, gradients parallel.
                let (a, b) = (usual[0], usual[1]);
                let cross = 2.0 * (a - 2.0) * b - 4.0 * (b - 1.0).powi(3) * a;
                assert!((a.hypot(b) - 1.0).abs() < 1e-5 && cross.abs() < 2e-3, "{f} {g} {x}: {usual:?}, {cross}");
            }
        }
    }
}

#[test]
fn steps_along_curved_constraints_are_long() {
    // Hock and Schittkowski 27: the gradients at the start suggest a penalty 400 times the multiplier 0.04, with which steps along the
    // parabola are short.
    let curve = |sign: f64| {
        (
            move |x: &[f64]| sign * (x[0] + x[2] * x[2] + 1.0) - 1e-6,
            move |x: &[f64], s: &mut [f64]| s.copy_from_slice(&[sign, 0.0, 2.0 * sign * x[2]]),
        )
    };
    let ((above, above_slope), (below, below_slope)) = (curve(1.0), curve(-1.0));
    let problem = Problem::new(3)
        .objective(
            |x| 0.01 * (x[0] - 1.0).powi(2) + (x[1] - x[0] * x[0]).powi(2),
            |x, s| {
                let t = x[1] - x[0] * x[0];
                s.copy_from_slice(&[0.02 * (x[0] - 1.0) - 4.0 * t * x[0], 2.0 * t, 0.0]);
            },
        )
        .constraint("above", above, above_slope)
        .constraint("below", below, below_slope);
    let found = run(&problem, &[2.0, 2.0, 2.0]);
    assert!(found.point.feasible && (found.point.objective - 0.04).abs() < 1e-5, "{:?}", found.point);
    assert!(found.iterations < 60, "{}", found.iterations);
}

#[test]
fn a_start_at_the_origin_says_nothing_about_units() {
    // Hock and Schittkowski 12 with x in units of 1e-6: the first subproblem predicts a million times the possible decrease.
    let unit = 1e-6;
    let problem = Problem::new(2)
        .objective(
            move |x| {
                let (a, b) = (x[0] / unit, x[1] / unit);
                0.5 * a * a + b * b - a * b - 7.0 * a - 7.0 * b
            },
            move |x, s| {
                let (a, b) = (x[0] / unit, x[1] / unit);
                s.copy_from_slice(&[(a - b - 7.0) / unit, (2.0 * b - a - 7.0) / unit]);
            },
        )
        .constraint(
            "ellipse",
            move |x| 4.0 * (x[0] / unit).powi(2) + (x[1] / unit).powi(2) - 25.0,
            move |x, s| s.copy_from_slice(&[8.0 * x[0] / unit / unit, 2.0 * x[1] / unit / unit]),
        );
    let found = run(&problem, &[0.0, 0.0]);
    assert!(found.point.feasible && (found.point.objective + 30.0).abs() < 1e-4, "{:?}", found.point);
}

#[test]
fn kinks_are_no_convergence() {
    // Sums of absolute deviations: the differences of gradients at kinks look like curvature.
    let mut ended = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed, Purpose::Data);
        let d = 2 + (seed % 7) as usize;
        let rows: Vec<Vec<f64>> = (0..3 * d).map(|_| (0..=d).map(|_| 2.0 * rng.uniform() - 1.0).collect()).collect();
        let residual = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - row[x.len()];
        let same = rows.clone();
        let problem = Problem::new(d).objective(
            move |x| rows.iter().map(|row| residual(row, x).abs()).sum(),
            move |x, s| {
                s.fill(0.0);
                for row in &same {
                    let sign = residual(row, x).signum();
                    s.iter_mut().zip(row).for_each(|(s, a)| *s += sign * a);
                }
            },
        );
        let found = run(&problem, &vec![0.0; d]);
        let stalled =
            found.notes.iter().any(|note| matches!(note, Note::LineSearchStalled { cause: StallCause::NoDecrease, .. }));
        assert!(stalled || matches!(found.ended, StopReason::Budget(_)), "{seed}: {:?} {:?}", found.ended, found.notes);
        assert!(!stalled || found.notes.iter().any(|note| note.to_string().starts_with("sqp stalled")), "{:?}", found.notes);
        ended += u32::from(stalled);
    }
    assert!(ended >= 5, "{ended}");
}

#[test]
fn conflicts_need_constants_for_a_proof() {
    let conflict = |constants: bool| {
        let problem = Problem::new(1)
            .objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0])
            .constraint("low", |x| x[0] + 1.0, |_, s| s[0] = 1.0)
            .constraint("high", |x| 1.0 - x[0], |_, s| s[0] = -1.0);
        run(&if constants { problem.weak_convexity(0.0, 0.0) } else { problem.estimate_weak_convexity() }, &[0.3])
    };
    assert!(matches!(conflict(true).ended, StopReason::Infeasible { .. }));
    let found = conflict(false);
    assert_eq!(found.ended, StopReason::Finished);
    assert!(!found.point.feasible);
}

#[test]
fn units_of_columns_do_not_matter() {
    let data = people(600, 2, 5);
    let plain = Learning::on(data.clone()).intercept(true).minimize("logistic".parse().unwrap());
    let plain = plain.subject_to("demographic_parity <= 0.01".parse().unwrap()).build().unwrap();
    let scales = [1e-6, 1e3, 1.0, 1e6];
    let mut entries = vec![];
    (0..600).for_each(|i| data.features.visit_row(i, |c, v| entries.push(v * scales[c])));
    let scaled = Data { features: Matrix::dense(600, 4, entries).unwrap(), ..data };
    let scaled = Learning::on(scaled).intercept(true).minimize("logistic".parse().unwrap());
    let scaled = scaled.subject_to("demographic_parity <= 0.01".parse().unwrap()).build().unwrap();
    let (a, b) = (train(&plain, 100), train(&scaled, 100));
    assert_eq!((a.iterations, &a.ended), (b.iterations, &b.ended));
    let (s, t) = (plain.scores(&a.point.x).unwrap(), scaled.scores(&b.point.x).unwrap());
    assert!(near(&s, &t, 1e-6), "{:?} {:?}", a.point, b.point);
}

#[test]
fn stated_bounds_agree_with_cutting_planes() {
    for seed in 0..100 {
        let groups = 2 + (seed % 3) as u32;
        let term = ["demographic_parity", "equal_opportunity", "equalised_odds", "false_positive_rate"][seed as usize % 4];
        let problem = fair(people(120, groups, seed), &format!("{term} <= {}", 0.02 + 0.01 * (seed % 5) as f64));
        // Cut short, so that the point is not stationary.
        let outcome = train(&problem, 4 + seed % 12);
        let Some(stated) = &outcome.stationary else { continue };
        let how = Bounds { mu: Some(stated.mu), evaluations: 300, feasibility: 1.0, ..Bounds::default() };
        let found = certify(&problem, &outcome.point.x, &how).unwrap();
        // The subproblems differ in how far they are relaxed if the point is not feasible.
        if outcome.point.feasible {
            assert!(stated.upper >= found.lower, "seed {seed}: {} is below {}", stated.upper, found.lower);
        }
    }
}

#[test]
fn many_groups_end_within_their_bounds() {
    for groups in [2, 3, 8] {
        for constraint in ["demographic_parity <= 0.02", "equalised_odds <= 0.05"] {
            let problem = fair(people(2_000, groups, 9), constraint);
            let outcome = train(&problem, 200);
            assert_eq!(outcome.ended, StopReason::Finished, "{groups} {constraint}");
            assert!(outcome.point.feasible && outcome.iterations < 60, "{groups} {constraint}: {}", outcome.iterations);
            let stated = outcome.stationary.unwrap();
            assert!(stated.upper < 1e-2 && !stated.estimated, "{groups} {constraint}: {stated:?}");
            // The bound is active, and the multiplier says so.
            assert!(outcome.point.violation > -1e-4 && outcome.multipliers.unwrap()[0] > 1e-3);
        }
    }
}

#[test]
fn rows_without_a_loss_have_a_curvature() {
    // The loss is that of the positives. Columns 0 and 1 are 0 there, so that only the constraint depends on their weights.
    let rows = people(900, 2, 6);
    let mut entries = vec![];
    for (i, y) in rows.labels.iter().enumerate() {
        rows.features.visit_row(i, |c, v| entries.push(if c < 2 && *y > 0.0 { 0.0 } else { v }));
    }
    let data = Data { features: Matrix::dense(900, 4, entries).unwrap(), ..rows };
    for (bound, l2) in
        [(0.1, " + 0.001 * l2"), (0.02, " + 0.001 * l2"), (0.005, " + 0.001 * l2"), (0.1, ""), (0.02, ""), (0.005, "")]
    {
        let minimize = format!("logistic(on = 'positives'){l2}");
        let builder = Learning::on(data.clone()).intercept(true).minimize(minimize.parse().unwrap());
        let problem = builder.subject_to(format!("false_positive_rate <= {bound}").parse().unwrap()).build().unwrap();
        let outcome = train(&problem, 300);
        assert_eq!(outcome.ended, StopReason::Finished, "{bound}, {l2}");
        assert!(outcome.point.feasible && outcome.iterations < 100, "{bound}, {l2}: {:?}", outcome.point);
        assert!(outcome.stationary.is_some_and(|stated| stated.upper < 1e-3), "{bound}, {l2}");
    }
}

#[test]
fn conflicts_are_named_with_their_radius() {
    let problem = Problem::new(2)
        .objective(|x| x[0] * x[0] + x[1] * x[1], |x, s| s.iter_mut().zip(x).for_each(|(s, x)| *s = 2.0 * x))
        .constraint("low", |x| x[0] + 1.0, |_, s| s[0] = 1.0)
        .constraint("high", |x| 1.0 - x[0], |_, s| s[0] = -1.0)
        .constraint("idle", |x| x[1] - 5.0, |_, s| s[1] = 1.0)
        .weak_convexity(0.0, 0.0);
    let outcome = run(&problem, &[0.3, 0.2]);
    let StopReason::Infeasible { conflicting, radius, .. } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert_eq!(conflicting, &["low", "high"]);
    assert!(radius.unwrap() > 1e3, "{radius:?}");
    assert!((outcome.point.violation - 1.0).abs() < 1e-6);
}

#[test]
fn runs_continue_bit_for_bit() {
    let make = || -> Box<thalweg::solvers::FirstOrder<'static>> { Box::new(Sqp::new(Settings::default()).unwrap()) };
    // Rosenbrock's valley in a box with an active disc takes many steps, shortened and corrected ones among them.
    let valley = Problem::new(2)
        .objective(
            |x| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2),
            |x, s| {
                let t = x[1] - x[0] * x[0];
                s.copy_from_slice(&[-400.0 * x[0] * t - 2.0 * (1.0 - x[0]), 200.0 * t]);
            },
        )
        .constraint("disc", |x| x[0] * x[0] + x[1] * x[1] - 1.5, |x, s| s.copy_from_slice(&[2.0 * x[0], 2.0 * x[1]]))
        .domain(sets::Bounds::uniform(-2.0, 2.0).unwrap());
    let stops: Vec<u64> = (1..15).collect();
    continues_bit_for_bit_at(&stops, 7, &valley, &[-1.2, 1.0], "sqp-valley", &[&make]);
    let fair = fair(people(300, 3, 2), "equalised_odds <= 0.03");
    continues_bit_for_bit_at(&[1, 2, 4, 6], 3, &fair, &[0.0; 5], "sqp-fair", &[&make]);
}

#[test]
fn a_warm_start_repeats_no_evaluation() {
    let mut problem = fair(people(600, 2, 4), "demographic_parity <= 0.02");
    let minimize = |problem: &Learning, solver: &mut Sqp, start: &[f64]| {
        run::minimize(problem, solver, start, &Options::iterations(100), &mut ()).unwrap()
    };
    let sqp = || Sqp::new(Settings::default()).unwrap();
    let mut solver = sqp();
    let start = minimize(&problem, &mut solver, &[0.0; 5]).point.x;
    let warm = solver.into_warm_start();
    let mut only_multipliers = warm.clone();
    only_multipliers.forget_values();
    // Only the bound is another one; functions and derivatives at the start are known.
    problem.set_bound(0, 0.015);
    let again = minimize(&problem, &mut sqp().with_warm_start(warm.clone()), &start);
    let cold = minimize(&problem, &mut sqp().with_warm_start(only_multipliers), &start);
    assert!(again.ended == StopReason::Finished && again.point.feasible && again.iterations > 1, "{again:?}");
    assert_eq!(again.counts.objective_values.calls, again.iterations - 1);
    assert_eq!(cold.counts.objective_values.calls, cold.iterations);
    assert!(again.counts.objective_subgradients.calls < cold.counts.objective_subgradients.calls);
    // Within 1e-8 of the objective, which is flat around its minimiser, points agree to about its square root.
    let agree =
        |a: &Outcome, b: &Outcome| (a.point.objective - b.point.objective).abs() < 1e-7 && near(&a.point.x, &b.point.x, 2e-3);
    assert!(agree(&again, &cold), "{:?} {:?}", again.point.x, cold.point.x);
    // Values at another point are not used.
    let elsewhere = minimize(&problem, &mut sqp().with_warm_start(warm), &[0.0; 5]);
    assert_eq!(elsewhere.counts.objective_values.calls, elsewhere.iterations);
    assert!(agree(&elsewhere, &cold), "{:?} {:?}", elsewhere.point.x, cold.point.x);
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let problem = fair(people(9_000, 2, 4), "demographic_parity <= 0.02");
    let run = |threads| {
        let options = Options { threads, record: Record { every: Some(3), ..Record::default() }, ..Options::iterations(30) };
        bits(&solve(&problem, Box::new(Sqp::new(Settings::default()).unwrap()), &[0.0; 5], &options))
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn wrong_settings_and_domains_are_refused() {
    let refused = |settings: Settings| Sqp::new(settings).map(drop).unwrap_err().to_string();
    for (settings, name) in [
        (Settings { tolerance: 0.0, ..Settings::default() }, "tolerance"),
        (Settings { penalty: f64::NAN, ..Settings::default() }, "penalty"),
        (Settings { memory: 0, ..Settings::default() }, "memory"),
        (Settings { mu: Some(-1.0), ..Settings::default() }, "mu"),
    ] {
        assert!(refused(settings).starts_with(&format!("{name} must be")), "{name}");
    }
    let problem = Problem::new(1).domain(sets::Ball::new(2.0).unwrap());
    let mut solver = Sqp::new(Settings::default()).unwrap();
    let refused = run::minimize(&problem, &mut solver, &[0.0], &Options::iterations(1), &mut ()).unwrap_err().to_string();
    assert_eq!(refused, "sqp takes the whole space or a box as domain, got another set (ball of radius 2)");
}
