//! 3S-Econ on problems with known answers: hand traces, minimisers of the smoothed penalty, recovered multipliers, counts,
//! the automatic weight, continuation bit for bit.

use std::time::Duration;

use thalweg::certify::{Penalised, of_penalty};
use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Problem, Subgradients};
use thalweg::plan::threes_econ::{Constants, Theorem};
use thalweg::run::{self, Checkpoint, Options, Outcome, Record, StopReason};
use thalweg::sets::Bounds;
use thalweg::solvers::threes_econ::{Beta, Epoch, Output, Settings, Theory};
use thalweg::solvers::{Schedule, Ssg, ThreesEcon, ssg};

fn solve(problem: &dyn Subgradients, settings: Settings, start: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, &mut ThreesEcon::new(settings).unwrap(), start, options, &mut ()).unwrap()
}

fn settings(beta: f64, nu: f64, alpha: f64) -> Settings {
    Settings { beta: Beta::Fixed(beta), nu, alpha: alpha.into(), ..Settings::default() }
}

/// f = -x, g = x - 1.
fn line() -> Problem {
    Problem::new(1).objective(|x| -x[0], |_, s| s[0] = -1.0).constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
}

/// f = (x1 - 2)^2 + (x2 - 1)^2, g = x1 + x2 - 1: solution (1, 0), multiplier 2.
fn plane() -> Problem {
    Problem::new(2)
        .objective(
            |x| (x[0] - 2.0).powi(2) + (x[1] - 1.0).powi(2),
            |x, s| {
                s[0] = 2.0 * (x[0] - 2.0);
                s[1] = 2.0 * (x[1] - 1.0);
            },
        )
        .constraint("half plane", |x| x[0] + x[1] - 1.0, |_, s| s.fill(1.0))
        .weak_convexity(0.0, 0.0)
}

#[test]
fn the_first_steps_are_those_worked_by_hand() {
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(4) };
    let outcome = solve(&line(), settings(10.0, 1.0, 0.1), &[0.95], &options);
    for (row, want) in outcome.trace.iter().zip([0.95, 1.05, 1.10, 1.10, 1.10]) {
        assert!((row.norm - want).abs() < 1e-12, "{:?}", outcome.trace);
    }
}

#[test]
fn the_minimiser_of_the_smoothed_penalty_is_found() {
    // 1 + nu / beta
    let outcome = solve(&line(), settings(10.0, 0.1, 1e-3), &[0.0], &Options::iterations(20_000));
    assert!((outcome.point.x[0] - 1.01).abs() < 1e-9, "{:?}", outcome.point.x);
    // g = 2/101, x = (1.0099010, 0.0099010), multiplier beta g / nu = 1.980198
    let outcome = solve(&plane(), settings(10.0, 0.1, 4e-3), &[0.0, 0.0], &Options::iterations(20_000));
    let x = &outcome.point.x;
    assert!((x[0] - 1.009_900_990_1).abs() < 1e-8 && (x[1] - 0.009_900_990_1).abs() < 1e-8, "{x:?}");
    assert!((outcome.point.violation - 2.0 / 101.0).abs() < 1e-8);
    assert!((outcome.multipliers.unwrap()[0] - 1.980_198).abs() < 1e-5);
    assert!(!outcome.point.feasible, "a smoothed penalty stays a little outside, and that is said");
}

#[test]
fn a_weakly_convex_constraint_is_kept_up_to_the_smoothing() {
    let problem = Problem::new(1).objective(|x| (x[0] - 0.2).powi(2), |x, s| s[0] = 2.0 * (x[0] - 0.2)).constraint(
        "away from zero",
        |x| 1.0 - x[0] * x[0],
        |x, s| s[0] = -2.0 * x[0],
    );
    let outcome = solve(&problem, settings(10.0, 0.01, 1e-4), &[0.5], &Options::iterations(20_000));
    assert!((outcome.point.x[0] - 0.999_599_96).abs() < 1e-7, "{:?}", outcome.point.x);
    assert!((outcome.multipliers.unwrap()[0] - 0.8).abs() < 1e-2);
}

#[test]
fn a_weight_that_is_too_small_is_noticed() {
    // beta = 1/2 < 1: the iterates run away; with a box they end at its side, infeasible, at full weight.
    let boxed = line().domain(Bounds::uniform(-5.0, 5.0).unwrap());
    let outcome = solve(&boxed, settings(0.5, 0.1, 0.01), &[0.0], &Options::iterations(3000));
    assert_eq!(outcome.point.x, [5.0]);
    assert!(outcome.notes.iter().any(|n| n.contains("the penalty is not exact")), "{:?}", outcome.notes);
    let auto = Settings { beta: Beta::Auto, ..settings(1.0, 1e-3, 1e-3) };
    let steep = Problem::new(1)
        .objective(|x| -30.0 * x[0], |_, s| s[0] = -30.0)
        .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
        .domain(Bounds::uniform(-5.0, 5.0).unwrap());
    let options =
        Options { record: Record { at: Some((19_900..=20_000).collect()), ..Record::default() }, ..Options::iterations(20_000) };
    let outcome = solve(&steep, auto, &[0.0], &options);
    // Twice raised, so the step is a quarter of what it was: 30 alpha / 4 on the objective alone.
    let longest = outcome.trace.windows(2).map(|w| (w[1].norm - w[0].norm).abs()).fold(0.0, f64::max);
    assert!((longest - 0.0075).abs() < 1e-9, "{longest}");
    assert!(outcome.point.violation < 0.05, "{}", outcome.point.violation);
    let raised: Vec<&String> = outcome.notes.iter().filter(|n| n.contains("beta raised to")).collect();
    assert_eq!(raised.len(), 2, "{:?}", outcome.notes);
    assert!((outcome.multipliers.unwrap()[0] - 30.0).abs() < 2.0);
}

#[test]
fn an_exact_weight_is_left_alone() {
    let outcome =
        solve(&plane(), Settings { beta: Beta::Auto, ..settings(1.0, 0.01, 1e-3) }, &[0.0, 0.0], &Options::iterations(9000));
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
}

/// Both methods end at the solution of the plane problem; the penalty recovers its multiplier.
#[test]
fn switching_and_penalty_agree_on_the_limit() {
    let penalty = solve(&plane(), settings(10.0, 1e-3, 1e-4), &[0.0, 0.0], &Options::iterations(60_000));
    let switching = ssg::Settings { eta: 2e-4.into(), tol: 1e-4.into(), ..ssg::Settings::default() };
    let ssg =
        run::minimize(&plane(), &mut Ssg::new(switching).unwrap(), &[0.0, 0.0], &Options::iterations(60_000), &mut ()).unwrap();
    for outcome in [&penalty, &ssg] {
        assert!((outcome.point.x[0] - 1.0).abs() < 2e-3 && outcome.point.x[1].abs() < 2e-3, "{:?}", outcome.point.x);
    }
    assert!((penalty.multipliers.unwrap()[0] - 2.0).abs() < 0.05);
}

/// Data whose constraint is |difference of two group means| - bound.
fn parity(rows: usize) -> Learning {
    let mut rng = Rng::new(4, Purpose::Data);
    let data = Data {
        features: Matrix::dense(rows, 3, (0..3 * rows).map(|_| rng.uniform() - 0.4).collect()).unwrap(),
        labels: (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: (0..rows).map(|i| (i % 2) as u32).collect() }),
        weights: None,
    };
    Learning::on(data)
        .minimize("hinge + 0.02 * scad".parse().unwrap())
        .subject_to("demographic_parity <= 0.005".parse().unwrap())
        .subject_to("l2 <= 2".parse().unwrap())
        .build()
        .unwrap()
}

/// N = 100, S1 = N, S2 = q = 10, three epochs.
#[test]
fn counts_equal_the_stated_costs() {
    let data = Data {
        features: Matrix::dense(100, 2, (0..200).map(|i| (i as f64).sin()).collect()).unwrap(),
        labels: vec![1.0; 100],
        groups: None,
        weights: None,
    };
    let problem =
        Learning::on(data).minimize("logistic".parse().unwrap()).subject_to("hinge <= 0".parse().unwrap()).build().unwrap();
    let stochastic = Settings { q: Epoch::Fixed(10), s2: Some(10), ..settings(1.0, 1e-5, 1e-3) };
    let options = Options { record: Record::nothing(), ..Options::iterations(30) };
    let outcome = solve(&problem, stochastic, &[0.0, 0.0], &options);
    let counts = &outcome.counts;
    assert_eq!((counts.objective_subgradients.calls, counts.constraint_subgradients.calls), (30, 30));
    assert_eq!(counts.constraint_values.samples, 3 * (100 + 180));
    assert_eq!(counts.constraint_values.samples - counts.paired, 3 * (100 + 90));
    assert_eq!((counts.objective_subgradients.samples, counts.constraint_subgradients.samples), (300, 300));
}

#[test]
fn deterministic_and_stochastic_agree_where_batches_are_everything() {
    let problem = parity(60);
    let base = Settings { alpha: Schedule::InvSqrt(0.05), ..settings(3.0, 1e-3, 0.05) };
    let stochastic = Settings { q: Epoch::Fixed(4), s2: Some(1000), alpha: 0.02.into(), ..base.clone() };
    let deterministic = Settings { alpha: 0.02.into(), ..base };
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(40) };
    let a = solve(&problem, deterministic, &[0.1, 0.2, -0.3], &options);
    let b = solve(&problem, stochastic, &[0.1, 0.2, -0.3], &options);
    for (a, b) in a.trace.iter().zip(&b.trace) {
        assert!((a.objective - b.objective).abs() < 1e-10 && (a.violation - b.violation).abs() < 1e-10, "{}", a.iteration);
    }
}

#[test]
fn the_epoch_rule_sqrt_takes_the_largest_stream() {
    let problem = parity(60);
    let options = Options { record: Record::nothing(), ..Options::iterations(16) };
    let outcome = solve(&problem, Settings { q: Epoch::Sqrt, ..settings(3.0, 1e-3, 0.01) }, &[0.0; 3], &options);
    // ceil(sqrt 60) = 8: two epochs. Values: parity reads both groups of 30, the norm counts as one sample.
    let reset = 60 + 1;
    let pair = 2 * (8 + 8 + 1);
    assert_eq!(outcome.counts.constraint_values.samples, 2 * (reset + 7 * pair));
}

#[test]
fn the_stochastic_method_comes_near_the_deterministic_one() {
    let problem = parity(600);
    let options = |n| Options { record: Record::nothing(), ..Options::iterations(n) };
    let exact = solve(&problem, settings(5.0, 1e-4, 2e-3), &[0.0; 3], &options(20_000));
    let alpha = Schedule::InvSqrt(0.02);
    let noisy = solve(&problem, Settings { q: Epoch::Sqrt, alpha, ..settings(5.0, 1e-4, 0.02) }, &[0.0; 3], &options(20_000));
    assert!((exact.point.objective - noisy.point.objective).abs() < 2e-2, "{} {}", exact.point.objective, noisy.point.objective);
    assert!(noisy.passes.total() < 0.2 * exact.passes.total());
    assert!(noisy.point.violation < 2e-2 && exact.point.violation < 2e-3);
}

#[test]
fn stop_save_load_continue_equals_the_uninterrupted_run() {
    let folder = std::env::temp_dir().join(format!("thalweg-threes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let problem = parity(90);
    let variants = [
        settings(3.0, 1e-3, 0.02),
        Settings { beta: Beta::Auto, output: Output::Random, q: Epoch::Sqrt, ..settings(1.0, 1e-3, 0.02) },
        Settings { q: Epoch::Fixed(7), s1: Some(20), s2: Some(5), alpha: Schedule::InvSqrt(0.1), ..settings(3.0, 1e-3, 0.02) },
    ];
    for (k, settings) in variants.into_iter().enumerate() {
        let at = Record { at: Some((0..=450).step_by(25).collect()), ..Record::default() };
        let run = |iterations, checkpoint| {
            let options = Options { record: at.clone(), checkpoint, seed: 9, ..Options::iterations(iterations) };
            let mut outcome = solve(&problem, settings.clone(), &[0.1; 3], &options);
            outcome.seconds = 0.0;
            outcome.trace.iter_mut().for_each(|r| r.seconds = 0.0);
            outcome.notes.retain(|n| !n.contains("continued") && !n.contains("is not there"));
            format!("{outcome:?} {:?}", outcome.point.x.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        let file = folder.join(format!("{k}.save"));
        let plan = Checkpoint { file, every: Duration::from_secs(3600), resume: true, settings: "s".into() };
        let want = run(450, None);
        for stop in [13, 211, 212] {
            run(stop, Some(plan.clone()));
        }
        assert_eq!(run(450, Some(plan)), want, "variant {k}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn settings_are_refused_with_sentences() {
    let refuse = |settings: Settings| ThreesEcon::new(settings).unwrap_err().to_string();
    assert!(refuse(settings(0.0, 1.0, 0.1)).contains("beta must be a finite number above 0, or \"auto\", got 0"));
    let message = refuse(settings(1.0, -1.0, 0.1));
    assert!(message.contains("nu must be ") && message.contains("got -1"), "{message}");
    let message = refuse(settings(1.0, 1.0, f64::NAN));
    assert!(message.contains("alpha must be ") && message.contains("got NaN"), "{message}");
    let message = refuse(Settings { q: Epoch::Fixed(0), ..Settings::default() });
    assert!(message.contains("q must be ") && message.contains("got 0"), "{message}");
    let message = refuse(Settings { s2: Some(0), ..Settings::default() });
    assert!(message.contains("s2 must be ") && message.contains("got 0"), "{message}");
    let read = |text: &str| toml::from_str::<Settings>(text);
    assert_eq!(read("beta = \"auto\"\nq = \"sqrt\"").unwrap().q, Epoch::Sqrt);
    assert_eq!(read("beta = 100\nq = 5").unwrap().beta, Beta::Fixed(100.0));
    assert!(read("beta = \"big\"").unwrap_err().message().contains("a number or \"auto\""));
    assert!(read("q = 1.5").unwrap_err().message().contains("a whole number or \"sqrt\""));
}

#[test]
fn a_runaway_iterate_is_caught() {
    let problem = Problem::new(1).objective(|x| -x[0].powi(4), |x, s| s[0] = -4.0 * x[0].powi(3));
    let outcome = solve(&problem, settings(1.0, 1.0, 1.0), &[2.0], &Options::iterations(100));
    assert!(matches!(outcome.ended, StopReason::Failed { .. }), "{:?}", outcome.ended);
}

#[test]
fn stationarity_of_the_penalty_is_zero_at_its_minimiser() {
    let how = Penalised { beta: 10.0, nu: 0.1, rho: Some(5.0), ..Penalised::default() };
    let at_minimiser = of_penalty(&plane(), &[1.009_900_99, 0.009_900_99], &how).unwrap();
    assert!(at_minimiser.gradient < 1e-3, "{at_minimiser:?}");
    // At (0, 0) the constraint is slack: the proximal point of f alone with coefficient 2 rho = 10 is (4, 2) / 12.
    let far = of_penalty(&plane(), &[0.0, 0.0], &how).unwrap();
    assert!((far.xtilde[0] - 1.0 / 3.0).abs() < 1e-3 && (far.xtilde[1] - 1.0 / 6.0).abs() < 1e-3, "{far:?}");
    assert!((far.gradient - 10.0 * far.distance).abs() < 1e-12);
}

/// The check values of the planner, as settings.
#[test]
fn theory_settings_come_from_the_planner() {
    let constants = Constants {
        objective_lipschitz: Some(1.0),
        constraint_lipschitz: Some(1.0),
        mean_square_lipschitz: Some(1.0),
        noise: Some(1.0),
        objective_subgradient_noise: Some(0.0),
        constraint_subgradient_noise: Some(0.0),
        rho: Some(1.0),
        rho_g: Some(0.0),
        envelope_gap: Some(1.0),
        beta: Some(10.0),
        nu: Some(0.01),
        ..Constants::default()
    };
    let settings = Settings::theory(Theorem::T34, &constants, 0.1).unwrap();
    assert_eq!((settings.s1, settings.s2, settings.q), (Some(1_600_000_000), Some(40_000), Epoch::Fixed(40_000)));
    assert_eq!((settings.beta, settings.nu, settings.output), (Beta::Fixed(10.0), 0.01, Output::Random));
    assert!((settings.alpha.at(0) / 1.758_993_86e-6 - 1.0).abs() < 1e-8);
    let named = Settings {
        theory: Some(Theory { theorem: Theorem::T34, eps: 0.1, constants }),
        output: Output::Last,
        ..Settings::default()
    };
    assert_eq!(named.resolve().unwrap(), Settings { output: Output::Last, ..settings });
}
