//! DSZOG on problems with known answers: spec 3.9, tests 1 to 4, counts by the formula, and checkpoints.

use thalweg::oracle::Problem;
use thalweg::run::{self, Diagnostics, Observer, Options, Record, Row};
use thalweg::solvers::{Dszog, dszog};

/// The mean of the iterates from `from` on.
struct Mean {
    from: u64,
    count: f64,
    sum: Vec<f64>,
}

impl Observer for Mean {
    fn recorded(&mut self, row: &Row, x: &[f64], _: &Diagnostics) {
        if row.iteration >= self.from {
            self.count += 1.0;
            self.sum.resize(x.len(), 0.0);
            self.sum.iter_mut().zip(x).for_each(|(s, v)| *s += v);
        }
    }
}

fn every(n: u64) -> Options {
    Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(n) }
}

fn mean(problem: &Problem, settings: dszog::Settings, start: &[f64], steps: u64) -> (Vec<f64>, Vec<f64>) {
    let mut solver = Dszog::new(settings).unwrap();
    let mut mean = Mean { from: steps / 2, count: 0.0, sum: vec![] };
    run::minimize_zeroth_order(problem, &mut solver, start, &every(steps), &mut mean).unwrap();
    (mean.sum.iter().map(|s| s / mean.count).collect(), solver.weights())
}

fn zero(_: &[f64], _: &mut [f64]) {}

/// Spec 3.9, test 3.
#[test]
fn two_constraints_of_which_one_binds() {
    let problem = Problem::new(2)
        .objective(|w| (w[0] - 2.0).powi(2) + w[1] * w[1], zero)
        .constraint("first", |w| w[0] - 1.0, zero)
        .constraint("second", |w| w[0] + w[1] - 5.0, zero);
    let settings = dszog::Settings {
        beta: 10.0,
        a: 0.5,
        b: 0.5,
        mu: 1e-4,
        directions: 5,
        m1: 1,
        m2: 2,
        m3: 2,
        ..dszog::Settings::default()
    };
    let (w, p) = mean(&problem, settings, &[0.0, 0.5], 20_000);
    assert!((w[0] - 12.0 / 11.0).abs() < 5e-3 && w[1].abs() < 5e-3, "{w:?}");
    assert!((p[0] - 1.0).abs() < 1e-3, "{p:?}");
}

/// Spec 3.9, tests 2 and 4: only the larger violation is charged.
#[test]
fn penalties_have_the_minimisers_that_are_worked_out() {
    let one = Problem::new(1).objective(|w| (w[0] - 2.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero);
    for (beta, wanted) in [(1.0, 1.5), (10.0, 12.0 / 11.0)] {
        let settings =
            dszog::Settings { beta, a: 0.5, b: 0.5, mu: 1e-4, directions: 5, m2: 1, m3: 1, ..dszog::Settings::default() };
        let (w, _) = mean(&one, settings, &[0.0], 10_000);
        assert!((w[0] - wanted).abs() < 5e-3, "{beta}: {w:?}");
    }
    let two = Problem::new(1).objective(|w| (w[0] - 3.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero).constraint(
        "at most 2",
        |w| w[0] - 2.0,
        zero,
    );
    let settings =
        dszog::Settings { beta: 10.0, a: 0.5, b: 0.5, mu: 1e-4, directions: 5, m2: 2, m3: 2, ..dszog::Settings::default() };
    let (w, _) = mean(&two, settings, &[0.0], 10_000);
    assert!((w[0] - 13.0 / 11.0).abs() < 5e-3, "{w:?}");
}

/// Spec 3.2: (Q + 1)(m1 + m2) + m3 values per iteration, and m at the beginning.
#[test]
fn queries_equal_the_formula() {
    let mut problem = Problem::new(3).objective(|w| w.iter().map(|v| v * v).sum(), zero);
    for j in 0..40 {
        problem = problem.constraint(format!("{j}"), move |w| w[j % 3] - 0.1 * j as f64, zero);
    }
    let settings = dszog::Settings { directions: 4, m1: 7, m2: 9, m3: 11, ..dszog::Settings::default() };
    let mut solver = Dszog::new(settings).unwrap();
    let options = Options { record: Record::nothing(), ..Options::iterations(25) };
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[1.0, 2.0, 3.0], &options, &mut ()).unwrap();
    // The objective has no samples: each value counts once. The first step estimates at the start, too.
    assert_eq!(outcome.counts.objective_values.samples, 26 * 5);
    assert_eq!(outcome.counts.constraint_values.samples, 40 + 26 * (5 * 9 + 11));
    assert!((solver.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn a_continued_run_is_the_uninterrupted_one() {
    let folder = std::env::temp_dir().join(format!("thalweg-dszog-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut problem = Problem::new(5).objective(|w| w.iter().map(|v| (v - 1.0).powi(2)).sum(), zero);
    for j in 0..200 {
        problem = problem.constraint(format!("{j}"), move |w| w[j % 5] * (1.0 + 0.01 * j as f64) - 0.3, zero);
    }
    for plain in [false, true] {
        let settings = || dszog::Settings { plain, eta_w: 1e-3.into(), ..dszog::Settings::default() };
        let whole = {
            let mut solver = Dszog::new(settings()).unwrap();
            run::minimize_zeroth_order(&problem, &mut solver, &[0.0; 5], &Options::iterations(60), &mut ()).unwrap()
        };
        let file = folder.join(format!("{plain}.bin"));
        let mut parts = vec![];
        for stop in [1, 17, 60] {
            let checkpoint =
                run::Checkpoint { file: file.clone(), every: std::time::Duration::MAX, resume: true, settings: String::new() };
            let options = Options { checkpoint: Some(checkpoint), ..Options::iterations(stop) };
            let mut solver = Dszog::new(settings()).unwrap();
            parts.push(run::minimize_zeroth_order(&problem, &mut solver, &[0.0; 5], &options, &mut ()).unwrap());
        }
        let last = parts.pop().unwrap();
        assert_eq!(last.point.x, whole.point.x);
        assert_eq!(last.counts, whole.counts);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |settings: dszog::Settings| Dszog::new(settings).unwrap_err().to_string();
    let usual = dszog::Settings::default;
    assert_eq!(refused(dszog::Settings { eta_w: 0.0.into(), ..usual() }), "eta_w must be a finite number larger than 0, got 0");
    assert_eq!(refused(dszog::Settings { a: 1.5, ..usual() }), "a must be a number above 0 and at most 1, got 1.5");
    assert_eq!(refused(dszog::Settings { m2: 0, ..usual() }), "m2 must be at least 1, got 0");
    assert_eq!(refused(dszog::Settings { mu: f64::NAN, ..usual() }), "mu must be a finite number larger than 0, got NaN");
}

/// A constraint that is not a number is named, and the point before it is kept.
#[test]
fn a_nan_names_the_constraint_and_saves_the_point() {
    let problem = Problem::new(1).objective(|w| -w[0], zero).constraint("fine", |_| -1.0, zero).constraint(
        "broken",
        |w| if w[0] > 0.5 { f64::NAN } else { -1.0 },
        zero,
    );
    let mut solver = Dszog::new(dszog::Settings { eta_w: 0.1.into(), m2: 8, m3: 8, ..dszog::Settings::default() }).unwrap();
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0], &every(100), &mut ()).unwrap();
    assert!(outcome.ended.to_string().contains("constraint 'broken' is NaN"), "{}", outcome.ended);
    assert!(outcome.point.x[0] <= 0.5 && outcome.point.objective.is_finite());
}

/// Several points in one call, parts of the constraints, batches of samples: nothing more is asked for.
#[test]
fn a_black_box_is_asked_for_what_is_needed_and_no_more() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use thalweg::oracle::BlackBox;
    let counts: Arc<[AtomicU64; 4]> = Arc::default();
    let (f, g) = (Arc::clone(&counts), Arc::clone(&counts));
    let problem = BlackBox::new(3)
        .mean_of(50, move |points, samples, out| {
            f[0].fetch_add(1, Relaxed);
            f[1].fetch_add((out.len() * samples.count(50)) as u64, Relaxed);
            for (x, out) in points.chunks(3).zip(out) {
                let mut sum = 0.0;
                samples.each(50, |_, i| sum += (x[i % 3] - 1.0).powi(2));
                *out = sum / samples.count(50) as f64;
            }
        })
        .constraints_many(300, move |points, which, out| {
            g[2].fetch_add(1, Relaxed);
            g[3].fetch_add(out.len() as u64, Relaxed);
            for (x, out) in points.chunks(3).zip(out.chunks_mut(which.count(300))) {
                which.each(300, |k, j| out[k] = x[j % 3] - 0.5 - 0.01 * j as f64);
            }
        })
        .named(|j| format!("limit {j}"));
    let settings = dszog::Settings { beta: 10.0, m1: 8, m2: 16, m3: 32, ..dszog::Settings::default() };
    let options = Options { record: Record::nothing(), zeroth_order_check: None, ..Options::iterations(500) };
    let mut solver = Dszog::new(settings).unwrap();
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0; 3], &options, &mut ()).unwrap();
    let of = |k: usize| counts[k].load(Relaxed);
    // The start and the returned point are measured on everything.
    assert_eq!(of(1), 2 * 50 + 501 * 11 * 8);
    assert_eq!(of(1) - 2 * 50, outcome.counts.objective_values.samples);
    assert_eq!(of(0), 2 + 501);
    assert_eq!(of(2), 2 + 1 + 2 * 501);
    // What was drawn twice is asked for once.
    assert!(of(3) - 2 * 300 <= outcome.counts.constraint_values.samples);
    assert_eq!(outcome.counts.constraint_values.samples, 300 + 501 * (11 * 16 + 32));
    assert!(outcome.zeroth_order.is_none());
    assert!((outcome.point.x[0] - 0.55).abs() < 0.05, "{:?}", outcome.point.x);
    assert!(outcome.point.worst.unwrap().starts_with("limit "));
    // More than are listed: the worst ten, the worst first.
    assert_eq!((outcome.point.total, outcome.point.constraints.len()), (300, 10));
    assert!(outcome.point.constraints.windows(2).all(|pair| pair[0].value >= pair[1].value));
    assert_eq!(outcome.point.constraints[0].value, outcome.point.violation);
}

/// Cross-check 3: with one constraint its weight is 1 throughout.
#[test]
fn one_constraint_keeps_all_the_weight() {
    let problem = Problem::new(1).objective(|w| (w[0] - 2.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero);
    let mut solver = Dszog::new(dszog::Settings::default()).unwrap();
    for steps in [1, 10, 300] {
        run::minimize_zeroth_order(&problem, &mut solver, &[0.0], &every(steps), &mut ()).unwrap();
        assert_eq!(solver.weights(), [1.0]);
    }
}

/// Multipliers and stationarity of the outcome: spec 3.9, test 2, where the multiplier is 2 beta (w - 1).
#[test]
fn the_outcome_says_how_stationary_it_is() {
    let problem = Problem::new(1).objective(|w| (w[0] - 2.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero);
    let eta_w = thalweg::solvers::Schedule::InvSqrt(0.05);
    let settings = dszog::Settings { beta: 10.0, eta_w, mu: 1e-6, directions: 20, ..dszog::Settings::default() };
    let mut solver = Dszog::new(settings).unwrap();
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0], &Options::iterations(5000), &mut ()).unwrap();
    let found = outcome.zeroth_order.unwrap();
    let w = outcome.point.x[0];
    assert!((w - 12.0 / 11.0).abs() < 1e-3, "{w}");
    assert_eq!(outcome.multipliers.unwrap(), [2.0 * 10.0 * (w - 1.0)]);
    assert!(found.gradient.value < 0.03 && found.lagrangian.unwrap().value < 0.03, "{found:?}");
    assert!((found.violations - (w - 1.0)).abs() < 1e-12 && found.weights_residual.unwrap() < 1e-9);
}

/// With a margin h the minimiser of (w - 2)^2 + beta max(0, w - 1 + h)^2 is (2 + beta (1 - h)) / (1 + beta): here inside, and what
/// values say about it knows the margin.
#[test]
fn a_margin_moves_the_minimiser_inside() {
    let problem = Problem::new(1).objective(|w| (w[0] - 2.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero);
    let eta_w = thalweg::solvers::Schedule::InvSqrt(0.05);
    let settings = dszog::Settings { beta: 10.0, margin: 0.2, eta_w, mu: 1e-6, directions: 20, ..dszog::Settings::default() };
    let mut solver = Dszog::new(settings).unwrap();
    let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0], &Options::iterations(5000), &mut ()).unwrap();
    let w = outcome.point.x[0];
    assert!((w - 10.0 / 11.0).abs() < 1e-3 && outcome.point.feasible, "{w}");
    let found = outcome.zeroth_order.unwrap();
    assert!(found.gradient.value < 0.03 && found.violations == 0.0, "{found:?}");
    assert!((outcome.multipliers.unwrap()[0] - 20.0 * (w - 0.8)).abs() < 1e-9);
    assert!((found.complementarity - 20.0 * (w - 0.8) * (1.0 - w)).abs() < 1e-9);
}
