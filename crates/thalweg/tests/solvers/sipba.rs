//! SiPBA: first steps by hand, the synthetic problem with its known solution, a continued run, counts, stopping and refusals.

use std::sync::Arc;

use thalweg::bilevel::problems::{NormSum, Toy};
use thalweg::bilevel::{self, Bilevel, Form, Formulas, FromFormulas, Method as BilevelMethod, Number};
use thalweg::math::vec;
use thalweg::oracle::{Problem, Subgradients};
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets::{Bounds, Set};
use thalweg::solvers::{Method, Sipba, sipba};

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

fn run(problem: &dyn Subgradients, settings: sipba::Settings, start: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, &mut Sipba::new(settings).unwrap(), start, options, &mut ()).unwrap()
}

/// `f = (x - 1)^2 + x y`, `g = (y - x)^2` on boxes.
struct Plain;
impl Formulas for Plain {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        1
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        Arc::new(Bounds::uniform(-2.0, 2.0).unwrap())
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        Arc::new(Bounds::uniform(-4.0, 4.0).unwrap())
    }
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (x[0] - 1.0).powi(2) + x[0] * y[0]
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (y[0] - x[0]).powi(2)
    }
}

fn plain() -> bilevel::PreparedProblem {
    bilevel::prepare_plain(&(Arc::new(FromFormulas(Plain)) as Arc<dyn Bilevel>), Form::default(), &[1.5]).unwrap()
}

#[test]
fn the_first_steps_are_those_worked_out() {
    let problem = plain();
    assert_eq!(problem.start, [1.5, 0.0]);
    let settings = sipba::Settings { rho: 2.0, sigma: 0.5, beta: 0.1, alpha: 0.1, p: 0.0, q: 0.0, s: 1.0, ..Default::default() };
    // From (1.5, 0, 0): grad_y psi = x - rho 2 (y - x) - sigma z = 7.5 and grad_z psi = rho 2 (z - x) - sigma y + sigma z = -6, so y = 0.75
    // and z = 0.6; grad_x psi = 2 (x - 1) + y + rho (2 (y - x) - 2 (z - x)) = 1.75 + 0.6 = 2.35, so x = 1.5 - 0.235 = 1.265.
    let one = run(&problem.problem, settings.clone(), &problem.start, &quiet(1));
    assert!(vec::distance(&one.point.x, &[1.265, 0.75]) < 1e-14, "{:?}", one.point.x);
    // grad_y = 1.265 - 4 (0.75 - 1.265) - 0.3 = 3.025, grad_z = 4 (0.6 - 1.265) - 0.375 + 0.3 = -2.735: y = 1.0525, z = 0.8735;
    // grad_x = 0.53 + 1.0525 + 4 (1.0525 - 0.8735) = 2.2985 with a step of 0.05: x = 1.150075.
    let two = run(&problem.problem, settings, &problem.start, &quiet(2));
    assert!(vec::distance(&two.point.x, &[1.150_075, 1.0525]) < 1e-14, "{:?}", two.point.x);
    // Two gradients of f and four of g for each step.
    assert_eq!(two.counts.objective_subgradients.calls, 4);
}

/// The synthetic problem of the authors with their settings, from x = e: sizes below and at theirs. The price rho of the follower's
/// suboptimality is finite, so that `e . y` exceeds `||x||` by (1 - y) / rho, and x ends that much below the solution at most.
#[test]
fn the_synthetic_problem_is_solved() {
    for n in [4, 25, 100] {
        let problem = NormSum::new(n).unwrap();
        let solution = problem.solution();
        let problem: Arc<dyn Bilevel> = Arc::new(problem);
        let settings = bilevel::Settings { method: BilevelMethod::Sipba, extremes: false, ..Default::default() };
        let found = bilevel::solve(&problem, &vec![1.0; n], &settings, &Options::default(), &mut ()).unwrap();
        let off = vec::distance(&found.x, &solution) / vec::norm(&solution);
        let root = (n as f64).sqrt();
        let bias = 2.0 * (1.0 - 0.5 / root) / (10.0 * root);
        assert!(off < bias && off > 0.3 * bias, "{n}: {off} {bias}, {:?}", &found.x[..2]);
        assert_eq!(found.outcome.ended, StopReason::Finished);
    }
}

#[test]
fn a_continued_run_is_the_uninterrupted_one() {
    let problem = plain();
    let file = std::env::temp_dir().join(format!("thalweg-sipba-{}.save", std::process::id()));
    let whole = run(&problem.problem, sipba::Settings::default(), &problem.start, &Options::iterations(300));
    let mut parts = None;
    for steps in [71, 200, 300] {
        let checkpoint =
            run::Checkpoint { file: file.clone(), every: std::time::Duration::MAX, resume: true, settings: String::new() };
        let options = Options { checkpoint: Some(checkpoint), ..Options::iterations(steps) };
        parts = Some(run(&problem.problem, sipba::Settings::default(), &problem.start, &options));
    }
    let parts = parts.unwrap();
    assert_eq!((&parts.point, &parts.counts), (&whole.point, &whole.counts));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn small_steps_finish_the_run() {
    let problem = plain();
    let settings = sipba::Settings { tolerance: Some(1e-3), s: 0.0, beta: 0.01, ..Default::default() };
    let found = run(&problem.problem, settings, &problem.start, &quiet(100_000));
    assert!(found.ended == StopReason::Finished && found.iterations < 20_000, "{} {:?}", found.iterations, found.ended);
}

#[test]
fn refusals_are_sentences() {
    let toy: Arc<dyn Bilevel> = Arc::new(Toy::new(2.0).unwrap());
    let prepared = bilevel::prepare_plain(&toy, Form::default(), &[0.3]).unwrap();
    let sipba = || Sipba::new(sipba::Settings::default()).unwrap();
    let refused = run::minimize(&prepared.problem, &mut sipba(), &prepared.start, &quiet(1), &mut ()).unwrap_err().to_string();
    let said = "sipba takes no constraints that couple x and y, but the problem has 1; write them into the sets of x and y, or use adaprox";
    assert_eq!(refused, said);
    let other = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0);
    let refused = run::minimize(&other, &mut sipba(), &[0.0], &quiet(1), &mut ()).unwrap_err().to_string();
    assert_eq!(refused, "sipba needs a bilevel problem, such as bilevel = \"toy\" in [data]");
    for (settings, said) in [
        (sipba::Settings { rho: 0.0, ..Default::default() }, "rho must be a finite number larger than 0, got 0"),
        (sipba::Settings { sigma: -1.0, ..Default::default() }, "sigma must be a finite number larger than 0, got -1"),
        (sipba::Settings { beta: 0.0, ..Default::default() }, "beta must be a finite number larger than 0, got 0"),
        (sipba::Settings { alpha: f64::NAN, ..Default::default() }, "alpha must be a finite number larger than 0, got NaN"),
        (
            sipba::Settings { tolerance: Some(0.0), ..Default::default() },
            "tolerance must be a finite number larger than 0, got 0",
        ),
        (sipba::Settings { p: -0.1, ..Default::default() }, "p must be a finite number, 0 or larger, got -0.1"),
        (sipba::Settings { q: -0.1, ..Default::default() }, "q must be a finite number, 0 or larger, got -0.1"),
        (sipba::Settings { s: -0.1, ..Default::default() }, "s must be a finite number, 0 or larger, got -0.1"),
        (sipba::Settings { steps: 0, ..Default::default() }, "steps must be at least 1, got 0"),
    ] {
        assert_eq!(Sipba::new(settings).err().unwrap().to_string(), said);
    }
    assert_eq!(sipba().name(), "sipba");
}
