//! The switching subgradient method on problems with known answers: hand traces, known solutions, counts, outputs,
//! continuation bit for bit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{disc, learning};
use thalweg::certify::{Measures, Switching, by_switching};
use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Problem, Subgradients};
use thalweg::plan::{Constants, Theorem};
use thalweg::run::{self, Budget, Checkpoint, Limit, Options, Outcome, Record, StopReason};
use thalweg::sets::Bounds;
use thalweg::solvers::ssg::{InfeasibleStep, Output, Settings};
use thalweg::solvers::{Kind, PointOrigin, Schedule, Ssg};

fn solve(problem: &dyn Subgradients, settings: Settings, start: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, &mut Ssg::new(settings).unwrap(), start, options, &mut ()).unwrap()
}

fn fixed(eta: f64, tol: f64, output: Output) -> Settings {
    Settings { eta: eta.into(), tol: tol.into(), output, ..Settings::default() }
}

/// f = |x - 2|, g = x - 1 on [0, 3].
fn line() -> Problem {
    Problem::new(1)
        .objective(|x| (x[0] - 2.0).abs(), |x, s| s[0] = (x[0] - 2.0).signum())
        .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
        .domain(Bounds::uniform(0.0, 3.0).unwrap())
}

/// f = |x^2 - 1| (weakly convex with constant 2), g = x - 0.5 on [-2, 2].
fn well() -> Problem {
    Problem::new(1)
        .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
        .constraint("at most a half", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
        .domain(Bounds::uniform(-2.0, 2.0).unwrap())
        .weak_convexity(2.0, 0.0)
}

#[test]
fn the_first_steps_are_those_worked_by_hand() {
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(7) };
    let mut points = vec![];
    struct Watch<'a>(&'a mut Vec<f64>);
    impl run::Observer for Watch<'_> {
        fn recorded(&mut self, row: &run::Row, x: &[f64], _: &run::Diagnostics) {
            assert_eq!(row.norm, x[0].abs());
            self.0.push(x[0]);
        }
    }
    let mut solver = Ssg::new(fixed(0.4, 0.1, Output::Last)).unwrap();
    let outcome = run::minimize(&line(), &mut solver, &[0.0], &options, &mut Watch(&mut points)).unwrap();
    for (x, want) in points.iter().zip([0.0, 0.4, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2]) {
        assert!((x - want).abs() < 1e-12, "{points:?}");
    }
    let kinds: Vec<_> = outcome.trace.iter().map(|r| r.step).collect();
    let (f, g) = (Some(Kind::Objective), Some(Kind::Constraint));
    assert_eq!(kinds, [f, f, f, g, f, g, f, None]);
    assert_eq!(solver.accepted(), 5);
    assert_eq!(outcome.ended, StopReason::Budget(Limit::Iterations));
}

#[test]
fn counts_equal_a_hand_count() {
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(7) };
    let outcome = solve(&line(), fixed(0.4, 0.1, Output::Last), &[0.0], &options);
    // One constraint value per iteration, a subgradient of f in five of them, of g in two; measuring is not counted.
    assert_eq!(outcome.counts.constraint_values.calls, 7);
    assert_eq!(outcome.counts.objective_subgradients.calls, 5);
    assert_eq!(outcome.counts.constraint_subgradients.calls, 2);
    assert_eq!((outcome.counts.objective_values.calls, outcome.counts.projections), (0, 7));
    assert_eq!((outcome.passes.objective, outcome.passes.constraints), (5.0, 9.0));
    let row = &outcome.trace[4];
    assert_eq!((row.iteration, row.passes_f, row.passes_g), (4, 3.0, 5.0));
}

#[test]
fn both_kkt_points_of_the_double_well_are_found() {
    for (start, end) in [(0.25, 0.5), (-0.25, -1.0)] {
        let outcome = solve(&well(), fixed(1e-3, 1e-3, Output::Last), &[start], &Options::iterations(5000));
        assert!((outcome.point.x[0] - end).abs() < 2e-3, "{:?}", outcome.point.x);
    }
}

#[test]
fn the_papers_certificate_finds_the_known_distances() {
    let how = Switching { rho_hat: Some(4.0), ..Switching::default() };
    for (centre, xhat) in [(0.25, 0.5), (0.5, 0.5), (-0.9, -1.0)] {
        let found = by_switching(&well(), &[centre], &how).unwrap();
        assert!((found.xhat[0] - xhat).abs() < 1e-4, "{centre}: {found:?}");
        assert!((found.distance - (xhat - centre).abs()).abs() < 1e-4);
        assert!(found.violation < 1e-4);
    }
    let at_quarter = by_switching(&well(), &[0.25], &how).unwrap();
    assert!((at_quarter.envelope - 0.875).abs() < 1e-3, "{at_quarter:?}");
    let nobody_knows = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0);
    let message = by_switching(&nobody_knows, &[0.0], &Switching::default()).unwrap_err().to_string();
    assert!(message.contains("weak-convexity constant of the objective is not known"), "{message}");
    let too_small = Switching { rho_hat: Some(2.0), ..Switching::default() };
    assert!(by_switching(&well(), &[0.0], &too_small).unwrap_err().to_string().contains("more than 2"));
}

#[test]
fn a_certificate_can_be_recorded_on_the_way() {
    let options = Options {
        certificate: Measures { switching: Some(Switching { iterations: 2000, ..Switching::default() }), ..Measures::default() },
        record: Record { at: Some(vec![0, 3000]), ..Record::default() },
        ..Options::iterations(3000)
    };
    let outcome = solve(&well(), fixed(1e-3, 1e-3, Output::Last), &[0.25], &options);
    let [first, last] = [0, 1].map(|k| outcome.trace[k].stationarity.unwrap());
    assert!(first > 0.2 && last < 5e-3, "{first} {last}");
}

#[test]
fn the_corner_of_disc_and_half_plane_is_found() {
    let outcome = solve(&disc(), fixed(1e-3, 1e-3, Output::Last), &[0.0, 0.0], &Options::iterations(20_000));
    assert!((outcome.point.x[0] - 0.5).abs() < 3e-3 && (outcome.point.x[1] - 0.866_025_4).abs() < 3e-3, "{:?}", outcome.point.x);
    assert!((outcome.point.objective + 1.366_025_4).abs() < 6e-3);
}

#[test]
fn every_output_rule_returns_what_it_says() {
    let run = |output| solve(&disc(), fixed(1e-3, 0.0, output), &[0.0, 0.0], &Options::iterations(20_000));
    for output in [Output::Random, Output::Average, Output::BestFeasible] {
        let outcome = run(output);
        assert_eq!(outcome.returned, PointOrigin::OutputRule);
        assert!(outcome.success() && outcome.point.violation <= 0.0, "{output:?} {:?}", outcome.point);
    }
    assert!(run(Output::BestFeasible).point.objective < -1.3640);
    assert!(run(Output::BestFeasible).point.objective <= run(Output::Random).point.objective);
}

#[test]
fn polyak_steps_land_on_the_linearised_constraint() {
    let settings = Settings { infeasible_step: InfeasibleStep::Polyak, ..fixed(1e-3, 1e-9, Output::Last) };
    let problem = Problem::new(1)
        .objective(|x| -x[0], |_, s| s[0] = -1.0)
        .constraint("line", |x| 4.0 * x[0] - 2.0, |_, s| s[0] = 4.0)
        .domain(Bounds::uniform(-9.0, 9.0).unwrap());
    let outcome = solve(&problem, settings.clone(), &[7.0], &Options::iterations(1));
    assert!((outcome.point.x[0] - 0.5).abs() < 1e-15, "{:?}", outcome.point.x);

    let flat = Problem::new(1).constraint("never", |_| 1.0, |_, s| s[0] = 0.0);
    let outcome = solve(&flat, settings, &[7.0], &Options::iterations(5));
    let StopReason::Failed { iteration: 0, reason } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(reason.contains("Polyak step is not defined"), "{reason}");
    assert_eq!(outcome.point.x, [7.0]);
}

#[test]
fn an_empty_accepted_set_is_said_and_the_least_infeasible_iterate_returned() {
    let never = Problem::new(1)
        .objective(|x| x[0], |_, s| s[0] = 1.0)
        .constraint("never", |x| x[0].abs() + 1.0, |x, s| s[0] = x[0].signum())
        .domain(Bounds::uniform(-4.0, 4.0).unwrap());
    for output in [Output::Random, Output::Average, Output::BestFeasible] {
        let outcome = solve(&never, fixed(0.5, 0.1, output), &[3.2], &Options::iterations(50));
        assert_eq!(outcome.returned, PointOrigin::LeastInfeasible);
        assert!(!outcome.success() && !outcome.point.feasible && outcome.best_feasible.is_none());
        assert!((outcome.point.violation - 1.2).abs() < 1e-12, "{}", outcome.point.violation);
        assert_eq!(outcome.point.worst.as_deref(), Some("never"));
    }
}

#[test]
fn burn_in_keeps_early_iterates_out() {
    let settings = Settings { burn_in: 3, ..fixed(0.4, 0.1, Output::BestFeasible) };
    let mut solver = Ssg::new(settings).unwrap();
    run::minimize(&line(), &mut solver, &[0.0], &Options::iterations(7), &mut ()).unwrap();
    assert_eq!(solver.accepted(), 2);
}

#[test]
fn strongly_convex_variant_returns_from_all_iterates() {
    let settings = Settings { strongly_convex: true, ..fixed(0.4, 0.1, Output::Random) };
    let mut solver = Ssg::new(settings).unwrap();
    run::minimize(&line(), &mut solver, &[0.0], &Options::iterations(9), &mut ()).unwrap();
    assert_eq!(solver.accepted(), 9);
}

#[test]
fn theory_settings_come_from_the_planner() {
    let constants = Constants {
        lipschitz: Some(1.0),
        diameter: Some(1.0),
        rho: Some(1.0),
        rho_hat: Some(2.0),
        slater: Some(1.0),
        ..Constants::default()
    };
    let settings = Settings::theory(Theorem::T42I, &constants, 0.1).unwrap();
    assert_eq!(settings.output, Output::Random);
    let (eta, tol) = (settings.eta.at(0), settings.tol.at(0));
    assert!((eta - 0.001).abs() < 1e-15 && (tol - 0.0025).abs() < 1e-15, "{eta} {tol}");
    let unresolved = Settings { eta: Schedule::Theory, ..Settings::default() };
    let message = Ssg::new(unresolved).unwrap_err().to_string();
    assert!(message.contains("eta must be ") && message.contains("got theory"), "{message}");
}

#[test]
fn diminishing_steps_close_in() {
    let settings =
        Settings { eta: Schedule::InvSqrt(0.5), tol: Schedule::InvSqrt(0.5), output: Output::Last, ..Settings::default() };
    let outcome = solve(&disc(), settings, &[0.0, 0.0], &Options::iterations(20_000));
    assert!((outcome.point.objective + 1.366_025_4).abs() < 1e-2, "{}", outcome.point.objective);
}

#[test]
fn a_nan_names_the_quantity_and_keeps_the_last_good_point() {
    let cliff = Problem::new(1).objective(|x| -x[0], |_, s| s[0] = -1.0).constraint(
        "cliff",
        |x| if x[0] > 1.0 { f64::NAN } else { -1.0 },
        |_, s| s[0] = 1.0,
    );
    let outcome = solve(&cliff, fixed(0.3, 0.0, Output::Last), &[0.0], &Options::iterations(100));
    let StopReason::Failed { iteration, reason } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert_eq!(*iteration, 4);
    assert!(reason.contains("constraint 'cliff' is NaN"), "{reason}");
    assert!((outcome.point.x[0] - 0.9).abs() < 1e-12 && outcome.point.feasible && !outcome.success());

    let start = run::minimize(&cliff, &mut Ssg::new(Settings::default()).unwrap(), &[2.0], &Options::iterations(1), &mut ());
    assert!(start.unwrap_err().to_string().contains("the start cannot be used: constraint 'cliff' is NaN"));
}

#[test]
fn budgets_end_runs_and_stop_flags_interrupt() {
    let settings = fixed(0.4, 0.1, Output::Last);
    let budget = |budget| solve(&line(), settings.clone(), &[0.0], &Options { budget, ..Options::default() });
    let passes = budget(Budget { passes: Some(10.0), iterations: Some(1000), ..Budget::default() });
    assert_eq!((passes.ended.clone(), passes.iterations), (StopReason::Budget(Limit::Passes), 5));
    let samples = budget(Budget { samples: Some(6), ..Budget::default() });
    assert_eq!((samples.ended.clone(), samples.iterations), (StopReason::Budget(Limit::Samples), 3));
    let seconds = budget(Budget { seconds: Some(0.01), ..Budget::default() });
    assert_eq!(seconds.ended, StopReason::Budget(Limit::Seconds));
    let interrupt = Some(Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let stopped = solve(&line(), settings.clone(), &[0.0], &Options { interrupt, ..Options::iterations(10) });
    assert_eq!((stopped.ended.clone(), stopped.iterations), (StopReason::Interrupted, 0));
    let nothing = run::minimize(&line(), &mut Ssg::new(settings).unwrap(), &[0.0], &Options::default(), &mut ());
    assert!(nothing.unwrap_err().to_string().contains("at least one of iterations"));
}

#[test]
fn a_start_outside_the_domain_is_moved_and_said() {
    let outcome = solve(&line(), fixed(0.4, 0.1, Output::Last), &[7.0], &Options::iterations(1));
    assert_eq!(outcome.trace[0].norm, 3.0);
    assert!(outcome.notes[0].contains("outside the domain"), "{:?}", outcome.notes);
    let wrong = run::minimize(&line(), &mut Ssg::new(Settings::default()).unwrap(), &[0.0; 2], &Options::iterations(1), &mut ());
    assert!(wrong.unwrap_err().to_string().contains("the start has 2 entries; expected 1"));
}

/// Settings that together touch every part of the state.
fn variants() -> Vec<Settings> {
    let base = Settings { eta: 0.2.into(), tol: 1e-3.into(), ..Settings::default() };
    vec![
        base.clone(),
        Settings { output: Output::Random, batch_f: Some(7), ..base.clone() },
        Settings { output: Output::Average, eta: Schedule::InvSqrt(0.5), tol: Schedule::InvSqrt(0.1), ..base.clone() },
        Settings { output: Output::Random, value_batch: Some(20), batch_g: Some(5), batch_f: Some(5), ..base.clone() },
        Settings {
            infeasible_step: InfeasibleStep::Polyak,
            batch_g: Some(11),
            output: Output::Last,
            burn_in: 20,
            ..base.clone()
        },
        Settings { strongly_convex: true, output: Output::Random, ..base },
    ]
}

#[test]
fn batches_of_everything_equal_the_full_method() {
    let problem = learning(120);
    let full = Settings { eta: 0.2.into(), tol: 1e-3.into(), output: Output::Last, ..Settings::default() };
    let batches = Settings { value_batch: Some(1000), batch_g: Some(1000), batch_f: Some(1000), ..full.clone() };
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(400) };
    let [a, b] = [full, batches].map(|settings| solve(&problem, settings, &[0.1; 5], &options));
    assert!(a.trace.iter().any(|r| r.step == Some(Kind::Constraint)) && a.trace.iter().any(|r| r.step == Some(Kind::Objective)));
    for (a, b) in a.trace.iter().zip(&b.trace) {
        assert_eq!(a.step, b.step);
        assert!((a.objective - b.objective).abs() < 1e-12 && (a.violation - b.violation).abs() < 1e-12, "{}", a.iteration);
        assert_eq!((a.passes_f, a.passes_g), (b.passes_f, b.passes_g));
    }
}

/// Everything but the time, as bits.
fn bits(outcome: &Outcome) -> String {
    let mut outcome = outcome.clone();
    outcome.seconds = 0.0;
    outcome.trace.iter_mut().for_each(|r| r.seconds = 0.0);
    outcome.notes.clear();
    format!("{outcome:?} {:?}", outcome.point.x.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
}

#[test]
fn stop_save_load_continue_equals_the_uninterrupted_run() {
    let folder = std::env::temp_dir().join(format!("thalweg-ssg-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let problem = learning(120);
    for (k, settings) in variants().into_iter().enumerate() {
        let record = Record { every: Some(10), ..Record::default() };
        let whole = Options { record: record.clone(), seed: 3, ..Options::iterations(230) };
        let want = solve(&problem, settings.clone(), &[0.1; 5], &whole);
        let plan = Checkpoint {
            file: folder.join(format!("{k}.save")),
            every: Duration::from_secs(3600),
            resume: true,
            settings: "s".into(),
        };
        // Ended by the budget at odd places, three times over; the last iterate is recorded only by the whole run's rule.
        let at = Record { at: Some((0..=230).step_by(10).collect()), ..Record::default() };
        let mut got = None;
        for stop in [37, 38, 131, 230] {
            let options = Options { checkpoint: Some(plan.clone()), record: at.clone(), seed: 3, ..Options::iterations(stop) };
            got = Some(solve(&problem, settings.clone(), &[0.1; 5], &options));
        }
        assert_eq!(bits(&got.unwrap()), bits(&want), "variant {k}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn foreign_and_damaged_checkpoints_are_refused() {
    let folder = std::env::temp_dir().join(format!("thalweg-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run.save");
    let plan =
        |resume, settings: &str| Checkpoint { file: file.clone(), every: Duration::ZERO, resume, settings: settings.into() };
    let attempt = |problem: &dyn Subgradients, settings: &str, seed, start: &[f64]| {
        let options = Options { checkpoint: Some(plan(true, settings)), seed, ..Options::iterations(9) };
        run::minimize(problem, &mut Ssg::new(Settings::default()).unwrap(), start, &options, &mut ())
    };
    let refuse = |problem: &dyn Subgradients, settings: &str, seed, start: &[f64]| {
        attempt(problem, settings, seed, start).unwrap_err().to_string()
    };
    let options = Options { checkpoint: Some(plan(false, "a")), ..Options::iterations(5) };
    run::minimize(&line(), &mut Ssg::new(Settings::default()).unwrap(), &[0.0], &options, &mut ()).unwrap();
    assert!(refuse(&disc(), "a", 0, &[0.0, 0.0]).contains("belongs to another run: its problem"));
    assert!(refuse(&line(), "b", 0, &[0.0]).contains("its settings are 'a'"));
    assert!(refuse(&line(), "a", 1, &[0.0]).contains("its seed is '0'"));
    attempt(&line(), "a", 0, &[0.0]).unwrap();
    let good = std::fs::read(&file).unwrap();
    let with = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        refuse(&line(), "a", 0, &[0.0])
    };
    assert!(with(&good[..good.len() - 1]).contains("is truncated"));
    assert!(with(&good[..10]).contains("is not a Thalweg checkpoint"));
    assert!(with(b"PK\x03\x04 something else altogether").contains("is not a Thalweg checkpoint"));
    let mut flipped = good.clone();
    flipped[60] ^= 1;
    assert!(with(&flipped).contains("is damaged"));
    let mut newer = good.clone();
    newer[16] = 99;
    assert!(with(&newer).contains("format version 99"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut rng = Rng::new(22, Purpose::Data);
    let data = Data {
        features: Matrix::dense(9_000, 6, (0..54_000).map(|_| rng.uniform() - 0.5).collect()).unwrap(),
        labels: (0..9_000).map(|_| if rng.uniform() < 0.3 { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: (0..9_000).map(|i| i % 2).collect() }),
        weights: None,
    };
    let problem = Learning::on(data)
        .minimize("roc_gap(low = -2, high = 2)".parse().unwrap())
        .subject_to("hinge <= 0.8".parse().unwrap())
        .subject_to("logistic <= 0.6".parse().unwrap())
        .build()
        .unwrap();
    let run = |threads| {
        let options = Options { threads, record: Record { every: Some(7), ..Record::default() }, ..Options::iterations(60) };
        bits(&solve(&problem, fixed(0.3, 1e-4, Output::Average), &[0.0; 6], &options))
    };
    assert_eq!(run(1), run(2));
}

/// A lock around a value is enough to see that progress arrives after every step, in order.
#[test]
fn observers_see_every_step() {
    struct Count(Arc<Mutex<Vec<u64>>>);
    impl run::Observer for Count {
        fn progressed(&mut self, p: &run::Progress) {
            assert!((0.0..=1.0).contains(&p.share));
            self.0.lock().unwrap().push(p.iterations);
        }
    }
    let seen = Arc::new(Mutex::new(vec![]));
    let mut solver = Ssg::new(fixed(0.4, 0.1, Output::Last)).unwrap();
    run::minimize(&line(), &mut solver, &[0.0], &Options::iterations(4), &mut Count(seen.clone())).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4]);
}
