//! Training without tuning on small data: what is promised of bounds, of the budget, of the trace, and of bits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg::Note;
use thalweg::auto::Reason;
use thalweg::learn::{Data, Enforce, FitOptions, Fitted, Groups, Learning, fit, training_config};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::Description;
use thalweg::run::{self, Budget, Diagnostics, Observer, Progress, Row, StopReason};
use thalweg::solvers::{Config, Schedule, SolverName, ssg};

const ROWS: usize = 600;

/// Rows whose label depends on two columns, one of which tells the groups apart: an unconstrained model has a gap.
fn data(groups: u32, weighted: bool) -> Data {
    let mut rng = Rng::new(7, Purpose::Data);
    let (mut values, mut labels, mut of_row) = (vec![], vec![], vec![]);
    for i in 0..ROWS {
        let group = i as u32 % groups;
        let (a, b) = (2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0 + 0.6 * f64::from(group));
        labels.push(if a + b + rng.uniform() - 0.5 > 0.3 { 1.0 } else { -1.0 });
        values.extend([a, b, 2.0 * rng.uniform() - 1.0]);
        of_row.push(group);
    }
    Data {
        features: Matrix::dense(ROWS, 3, values).unwrap(),
        labels,
        groups: Some(Groups { names: (0..groups).map(|k| format!("group {k}")).collect(), of_row }),
        weights: weighted.then(|| (0..ROWS).map(|_| 0.2 + rng.uniform()).collect()),
    }
}

fn problem(data: Data, minimize: &str, subject_to: &[&str]) -> Learning {
    let builder = Learning::on(data).intercept(true).minimize(minimize.parse().unwrap());
    subject_to.iter().fold(builder, |b, c| b.subject_to(c.parse().unwrap())).build().unwrap()
}

fn options(iterations: u64) -> FitOptions {
    FitOptions { solver: Some(training_config(SolverName::Ssg)), budget: Budget::iterations(iterations), ..FitOptions::default() }
}

fn train(problem: &mut Learning, options: &FitOptions) -> Fitted {
    fit(problem, &[0.0; 4], options, &mut ()).unwrap()
}

/// Checks that the measured gap is satisfied, and is violated by the model that was trained without it.
#[track_caller]
fn keeps(groups: u32, weighted: bool, term: &str, bound: f64) {
    let text = format!("{term} <= {bound}");
    let mut free = problem(data(groups, weighted), "logistic", &[]);
    let unconstrained = train(&mut free, &options(1000));
    let mut bounded = problem(data(groups, weighted), "logistic", &[&text]);
    let before = bounded.measured(&unconstrained.point.x).unwrap()[0].unwrap();
    assert!(before > 2.0 * bound, "the unconstrained gap is {before}");
    let fitted = train(&mut bounded, &options(1000));
    let measured = bounded.measured(&fitted.point.x).unwrap()[0].unwrap();
    assert!(fitted.feasible && fitted.constraints[0].satisfied && measured <= bound + 1e-6, "{measured}, {fitted:?}");
    assert_eq!(fitted.constraints[0].measured, Some(measured));
    assert!(fitted.point.objective > unconstrained.point.objective);
    // A model that says the same of everyone keeps any gap; this one must have learnt something.
    assert!(fitted.point.objective < 0.65, "{}", fitted.point.objective);
}

#[test]
fn the_measured_gap_is_satisfied_where_the_unconstrained_model_violates_it() {
    keeps(2, false, "demographic_parity", 0.03);
    keeps(2, true, "demographic_parity", 0.03);
    keeps(3, false, "demographic_parity", 0.03);
    keeps(3, true, "equal_opportunity", 0.03);
}

#[test]
fn a_method_is_chosen_with_reasons_and_can_be_named() {
    let free = |solver| FitOptions { solver, ..options(2000) };
    for (groups, term) in [(2, "demographic_parity"), (3, "equal_opportunity")] {
        let mut p = problem(data(groups, false), "logistic", &[&format!("{term} <= 0.03")]);
        let chosen = train(&mut p, &free(None));
        assert_eq!((chosen.solver.as_str(), chosen.eta), ("sqp", None));
        let choice = chosen.choice.as_ref().unwrap();
        assert_eq!((choice.evidence.constraints, choice.evidence.reason), (1, Reason::SmoothFunctions));
        let measured = p.measured(&chosen.point.x).unwrap()[0].unwrap();
        assert!(chosen.feasible && measured <= 0.03 + 1e-6, "{chosen:?}");
        let counted = chosen.notes.iter().any(|note| matches!(note, Note::RatesCounted { .. }));
        assert_eq!((groups > 2 && counted, chosen.stationary.is_none()), (counted, counted));
        assert!(chosen.stationary.as_ref().is_none_or(|proved| proved.upper <= 1e-3 && proved.relaxed <= 1e-6));
        // Named, it does the same.
        let named = train(&mut p, &free(Some(choice.config.clone())));
        assert_eq!((named.point.x, named.choice), (chosen.point.x.clone(), None));
        // Counted rates jump; on the smooth form, which does not, the switching method does no better.
        let smooth = |solver| FitOptions { enforce: Enforce::Surrogate, ..free(solver) };
        let (proved, switching) = (train(&mut p, &smooth(None)), train(&mut p, &smooth(Some(training_config(SolverName::Ssg)))));
        assert!(proved.feasible && switching.feasible);
        assert!(proved.point.objective <= switching.point.objective + 1e-4, "{proved:?} {switching:?}");
    }
}

#[test]
fn two_constraints_are_kept_at_once() {
    let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.05", "equal_opportunity <= 0.05", "l2 <= 3"]);
    let fitted = train(&mut p, &options(2000));
    assert!(fitted.feasible, "{fitted:?}");
    let measured = p.measured(&fitted.point.x).unwrap();
    assert!(measured[0].unwrap() <= 0.05 + 1e-6 && measured[1].unwrap() <= 0.05 + 1e-6 && measured[2].is_none(), "{measured:?}");
    assert!(fitted.constraints[2].surrogate <= 3.0 + 3e-6 && fitted.constraints[2].measured.is_none());
}

/// Rows of eight groups, the combinations of two attributes with four and two values, whose indicators are columns. The smallest group
/// has about one row in a hundred. Columns are counts and ages in their own units.
fn eight_groups(rows: usize, seed: u64) -> Data {
    let mut rng = Rng::new(seed, Purpose::Data);
    let (mut values, mut labels, mut of_row) = (vec![], vec![], vec![]);
    for _ in 0..rows {
        let (u, b) = (rng.uniform(), u32::from(rng.uniform() < 0.2));
        let a = [0.5, 0.83, 0.95].iter().filter(|share| u > **share).count() as u32;
        let age = 18.0 - 14.0 * rng.uniform().max(1e-12).ln();
        let mean = 1.5 + 1.5 * f64::from(u8::from(a == 0)) + 0.5 * f64::from(1 - b);
        let count = (-mean * rng.uniform().max(1e-12).ln()).powf(1.3).floor();
        let score = -0.04 * age + 0.17 * count + 0.4 * f64::from(1 - b) + 0.3 * f64::from(u8::from(a == 0)) + 0.6;
        labels.push(if rng.uniform() < 1.0 / (1.0 + (-score).exp()) { 1.0 } else { -1.0 });
        values.extend([age, count, 1000.0 * rng.uniform(), f64::from(b)]);
        values.extend((1..4).map(|k| f64::from(u8::from(a == k))));
        of_row.push(2 * a + b);
    }
    Data {
        features: Matrix::dense(rows, 7, values).unwrap(),
        labels,
        groups: Some(Groups { names: (0..8).map(|k| format!("group {k}")).collect(), of_row }),
        weights: None,
    }
}

/// Mean of the accuracies on the rows of either label.
fn balanced_accuracy(p: &Learning, x: &[f64]) -> f64 {
    let (mut right, mut count) = ([0.0; 2], [0.0; 2]);
    for (score, label) in p.scores(x).unwrap().iter().zip(&p.data().labels) {
        let k = usize::from(*label > 0.0);
        count[k] += 1.0;
        right[k] += f64::from(u8::from((*score > 0.0) == (*label > 0.0)));
    }
    0.5 * (right[0] / count[0] + right[1] / count[1])
}

#[test]
fn bounds_of_many_small_groups_leave_a_useful_model() {
    // One surrogate bound for all groups ends at models that predict the same of nearly everyone.
    for (rows, seed) in [(4000, 1), (6000, 2)] {
        let mut p = problem(eight_groups(rows, seed), "logistic + 0.0002 * ridge", &["equalised_odds <= 0.05"]);
        let options = FitOptions { budget: Budget::iterations(3000), ..FitOptions::default() };
        let value = |p: &Learning| run::measure(p, &[0.1; 8], 0.0).unwrap().constraints[0].value.to_bits();
        let state = (p.bound(0), value(&p), p.fingerprint());
        let fitted = fit(&mut p, &[0.0; 8], &options, &mut ()).unwrap();
        assert_eq!((p.bound(0), value(&p), p.fingerprint()), state);
        assert!(fitted.feasible, "{:?}", fitted.constraints);
        let balanced = balanced_accuracy(&p, &fitted.point.x);
        assert!(balanced > 0.55 && fitted.passes.total() < 10_000.0, "{balanced} after {:?}", fitted.passes);
        assert!(fitted.notes.iter().any(|note| matches!(note, Note::RatesCounted { .. })), "{:?}", fitted.notes);
        // No claim is made about a problem with surrogates, and the stated surrogate bound is satisfied.
        let c = &fitted.constraints[0];
        assert!(fitted.stationary.is_none() && c.sharpened == 1.0 && c.surrogate <= c.surrogate_bound + 1e-9, "{c:?}");
        assert_eq!(c.measured, p.measured(&fitted.point.x).unwrap()[0]);
    }
}

#[test]
fn two_groups_need_no_counts() {
    for (term, bound) in [("demographic_parity", 0.02), ("equalised_odds", 0.05), ("equal_opportunity", 0.05)] {
        let mut two = eight_groups(4000, 3);
        let groups = two.groups.as_mut().unwrap();
        groups.names.truncate(2);
        groups.of_row.iter_mut().for_each(|group| *group %= 2);
        let mut p = problem(two, "logistic + 0.0002 * ridge", &[&format!("{term} <= {bound}")]);
        let options = FitOptions { budget: Budget::iterations(3000), ..FitOptions::default() };
        let fitted = fit(&mut p, &[0.0; 8], &options, &mut ()).unwrap();
        assert!(fitted.feasible, "{:?}", fitted.constraints);
        assert!(!fitted.notes.iter().any(|note| matches!(note, Note::RatesCounted { .. })), "{:?}", fitted.notes);
        assert!(fitted.passes.total() < 400.0, "{term}: {:?}", fitted.passes);
    }
}

#[test]
fn bounds_and_temperatures_are_put_back() {
    let x = [0.3, -0.2, 0.9, 0.1];
    // So small a bound that soft bounds are tightened and temperatures lowered on the way.
    let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.004", "logistic <= 0.69"]);
    let state = |p: &Learning| {
        let point = run::measure(p, &x, 0.0).unwrap();
        let values: Vec<u64> = point.constraints.iter().map(|c| c.value.to_bits()).collect();
        ([p.bound(0), p.bound(1)], values, p.measured(&x).unwrap(), p.fingerprint())
    };
    let before = state(&p);
    let fitted = train(&mut p, &options(500));
    assert!(
        fitted.notes.iter().any(|n| matches!(n, Note::SurrogateBoundMoved { .. } | Note::TemperatureLowered { .. })),
        "{:?}",
        fitted.notes
    );
    assert_eq!(state(&p), before);
}

#[test]
fn enforcing_the_smooth_form_leaves_its_bound_alone() {
    let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.03"]);
    let fitted = train(&mut p, &FitOptions { enforce: Enforce::Surrogate, ..options(1000) });
    let c = &fitted.constraints[0];
    assert!(fitted.feasible && c.satisfied && c.surrogate <= 0.03 + 1e-6, "{c:?}");
    assert_eq!((c.surrogate_bound, c.sharpened, fitted.rounds), (0.03, 1.0, 2));
    assert!(fitted.point.feasible);
}

#[test]
fn an_interrupt_before_the_first_step_still_gives_a_point() {
    let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.03"]);
    let fitted = train(&mut p, &FitOptions { interrupt: Some(Arc::new(AtomicBool::new(true))), ..options(1000) });
    assert_eq!((fitted.ended, fitted.iterations), (StopReason::Interrupted, 0));
    assert_eq!(fitted.point.x, [0.0; 4]);
}

/// Sets the flag after so many steps.
struct StopAfter(u64, Arc<AtomicBool>);

impl Observer for StopAfter {
    fn progressed(&mut self, progress: &Progress) {
        self.1.store(progress.iterations >= self.0, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupt_ends_training_at_the_next_step_with_the_best_point_so_far() {
    for after in [7, 150, 450] {
        let stop = Arc::new(AtomicBool::new(false));
        let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.03"]);
        let options = FitOptions { interrupt: Some(Arc::clone(&stop)), ..options(1000) };
        let fitted = fit(&mut p, &[0.0; 4], &options, &mut StopAfter(after, stop)).unwrap();
        assert_eq!((fitted.ended, fitted.iterations), (StopReason::Interrupted, after));
        assert!(fitted.feasible && fitted.point.objective <= 2f64.ln(), "the start is feasible: {}", fitted.point.objective);
        assert!(fitted.point.objective < 0.69 || after < 10, "after {after}: {}", fitted.point.objective);
        assert_eq!(p.bound(0), 0.03);
    }
}

#[test]
fn a_constraint_that_softens_nothing_is_kept() {
    let mut p = problem(data(2, false), "demographic_parity", &["logistic <= 0.55"]);
    let fitted = train(&mut p, &options(1000));
    let c = &fitted.constraints[0];
    assert!(fitted.feasible && c.satisfied && c.measured.is_none(), "{c:?}");
    assert!(c.surrogate <= 0.55 + 1e-6 && c.surrogate > 0.5, "{c:?}");
    assert_eq!((fitted.rounds, c.surrogate_bound), (2, 0.55));
}

#[test]
fn a_bound_that_is_out_of_reach_is_not_claimed() {
    let mut p = problem(data(2, false), "demographic_parity", &["logistic <= 0.05"]);
    let fitted = train(&mut p, &options(500));
    assert!(!fitted.feasible && !fitted.constraints[0].satisfied && !fitted.point.feasible);
    let note = "is the closest to the bound 0.05 that was found";
    assert!(
        fitted.notes.iter().map(Note::to_string).any(|n| n.starts_with("'logistic'") && n.contains(note)),
        "{:?}",
        fitted.notes
    );
    // Counted: the loss asks for a model that tells the groups apart.
    let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.001", "logistic <= 0.4"]);
    let fitted = train(&mut p, &options(500));
    assert!(!fitted.feasible, "{:?}", fitted.constraints);
}

/// Keeps what it is told.
#[derive(Default)]
struct Watch {
    rows: Vec<Row>,
    shares: Vec<f64>,
    iterations: Vec<u64>,
}

impl Observer for Watch {
    fn recorded(&mut self, row: &Row, _: &[f64], _: &Diagnostics) {
        self.rows.push(row.clone());
    }
    fn progressed(&mut self, progress: &Progress) {
        self.shares.push(progress.share);
        self.iterations.push(progress.iterations);
    }
}

#[test]
fn the_trace_goes_forward_and_is_against_the_bounds_that_were_asked_for() {
    let mut p = problem(data(2, false), "logistic", &["logistic(on = 'positives') <= 0.6", "l2 <= 2"]);
    let mut watch = Watch::default();
    let fitted = fit(&mut p, &[0.0; 4], &options(800), &mut watch).unwrap();
    assert!(fitted.trace.len() > 10);
    for pair in fitted.trace.windows(2) {
        assert!(pair[0].iteration <= pair[1].iteration && pair[0].seconds <= pair[1].seconds, "{pair:?}");
        assert!(pair[0].passes_f <= pair[1].passes_f && pair[0].passes_g <= pair[1].passes_g, "{pair:?}");
    }
    let last = fitted.trace.last().unwrap();
    assert_eq!(last.iteration, fitted.iterations);
    // The first recorded iterate is the start: log 2 and 0, less the user's bounds.
    let first = &fitted.trace[0];
    assert!((first.constraints[0] - (2f64.ln() - 0.6)).abs() < 1e-12, "{first:?}");
    assert!((first.constraints[1] + 2.0).abs() < 1e-12 && first.violation == first.constraints[0], "{first:?}");
    // An observer sees the same rows, before the step from them is made, and progress that never goes back.
    assert_eq!(watch.rows, fitted.trace.iter().map(|r| Row { step: None, ..r.clone() }).collect::<Vec<_>>());
    assert!(watch.shares.is_sorted() && watch.iterations.is_sorted_by(|a, b| a < b));
    assert_eq!(watch.iterations.last(), Some(&fitted.iterations));
}

fn bits(fitted: &Fitted) -> (Vec<u64>, Vec<u64>) {
    let point = fitted.point.x.iter().map(|v| v.to_bits()).collect();
    (point, fitted.trace.iter().map(|r| r.objective.to_bits()).collect())
}

#[test]
fn the_same_seed_gives_the_same_bits_on_one_and_two_threads() {
    let with = |seed: u64, threads: usize| {
        let mut p = problem(data(3, true), "logistic", &["demographic_parity <= 0.03"]);
        let Config::Ssg(settings) = training_config(SolverName::Ssg) else { panic!("another solver") };
        let solver = Some(Config::Ssg(ssg::Settings { batch_f: Some(50), ..settings }));
        let options = FitOptions { solver, seed, threads, ..options(400) };
        bits(&train(&mut p, &options))
    };
    assert_eq!(with(1, 1), with(1, 1));
    assert_eq!(with(1, 1), with(1, 2));
    assert_ne!(with(1, 1), with(2, 1));
}

#[test]
fn the_budget_is_for_all_rounds_together() {
    let used = |budget: Budget| {
        let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.004"]);
        train(&mut p, &FitOptions { solver: Some(training_config(SolverName::Ssg)), budget, ..FitOptions::default() })
    };
    for n in [0, 1, 2, 10, 33, 100, 1000] {
        let fitted = used(Budget::iterations(n));
        assert!(fitted.iterations <= n, "{} of {n}", fitted.iterations);
        assert!(fitted.iterations * 2 >= n, "{} of {n}", fitted.iterations);
    }
    // The step that reaches the limit is the last: at most a value and a subgradient of both functions more.
    for n in [0.0, 1.0, 50.0, 1000.5] {
        let fitted = used(Budget { passes: Some(n), ..Budget::default() });
        assert!(fitted.passes.total() < n + 4.0 && fitted.passes.total() * 2.0 >= n, "{:?} of {n}", fitted.passes);
    }
    let all = ROWS as u64;
    let fitted = used(Budget { samples: Some(500 * all), ..Budget::default() });
    assert!(fitted.passes.total() < 504.0, "{:?}", fitted.passes);
}

#[test]
fn a_step_size_that_is_given_needs_no_pilot() {
    let with = |eta: Option<Schedule>| {
        let mut p = problem(data(2, false), "logistic", &[]);
        train(&mut p, &FitOptions { eta, ..options(400) })
    };
    let about_steps = |fitted: &Fitted| fitted.notes.iter().filter(|n| n.to_string().contains("step size")).count();
    let given = with(Some(Schedule::Constant(0.7)));
    assert_eq!((about_steps(&given), given.eta, given.trace[0].iteration), (0, Some(Schedule::Constant(0.7)), 0));
    let chosen = with(None);
    assert_eq!(about_steps(&chosen), 1);
    assert!(chosen.notes[0].to_string().contains(&format!("step size {}", chosen.eta.unwrap())), "{:?}", chosen.notes);
    assert!(chosen.trace[0].iteration > 0, "the pilot is counted");
}

#[test]
fn what_cannot_be_trained_with_is_refused() {
    let refusal = |options: FitOptions| {
        let mut p = problem(data(2, false), "logistic", &["demographic_parity <= 0.03"]);
        let error = fit(&mut p, &[0.0; 4], &options, &mut ()).unwrap_err().to_string();
        assert_eq!(p.bound(0), 0.03);
        error
    };
    let message = refusal(FitOptions { budget: Budget::default(), ..options(1) });
    assert!(message.contains("budget must be ") && message.contains("got nothing"), "{message}");
    let message = refusal(FitOptions { threads: 0, ..options(1) });
    assert!(message.contains("threads must be ") && message.contains("got 0"), "{message}");
    let message = refusal(FitOptions { tol: Some(-1.0), ..options(1) });
    assert!(message.contains("tol must be ") && message.contains("got -1"), "{message}");
    let message = refusal(FitOptions { feasibility: f64::NAN, ..options(1) });
    assert!(message.contains("feasibility must be ") && message.contains("got NaN"), "{message}");
    let message = refusal(FitOptions { eta: Some(Schedule::Constant(0.0)), ..options(1) });
    assert!(message.contains("eta must be ") && message.contains("got 0"), "{message}");
    let mut p = problem(data(2, false), "logistic", &[]);
    let error = fit(&mut p, &[0.0; 3], &options(1), &mut ()).unwrap_err().to_string();
    assert!(error.contains("the start has 3"), "{error}");
}
