//! The constraint extrapolation method on problems with known answers: hand traces, multipliers, counts, outputs, refusals,
//! continuation bit for bit.

use crate::common::{bits, continues_bit_for_bit, disc, learning, same_bits_on_two_threads, solve};
use thalweg::eval::{Eval, Evaluator, ValueEval};
use thalweg::math::vec;
use thalweg::oracle::{At, Draw, Pick, Problem, Subgradients, Values, Warm};
use thalweg::run::{self, Options, StopReason};
use thalweg::sets::Bounds;
use thalweg::solvers::conex::{MOST_NUMBERS, Output, Settings, Theta};
use thalweg::solvers::{Conex, Kind, Method, Schedule, Solver};

fn fixed(eta: f64, tau: f64) -> Settings {
    Settings { eta: eta.into(), tau: tau.into(), ..Settings::default() }
}

fn boxed(settings: Settings) -> Box<Conex> {
    Box::new(Conex::new(settings).unwrap())
}

/// x_{t+1} and y_{t+1} of the first steps on a problem with one variable and one constraint.
fn first_steps(problem: &Problem, settings: Settings, start: f64, steps: usize) -> Vec<(f64, f64)> {
    let ev: &mut dyn Eval = &mut Evaluator::new(problem, 0, 1e-6);
    let mut solver = Conex::new(settings).unwrap();
    solver.start(ev, &[start]).unwrap();
    let mut x = [0.0];
    let mut seen = vec![];
    for _ in 0..steps {
        assert_eq!(solver.step(ev).unwrap().kind, Kind::Other);
        solver.iterate(&mut x);
        seen.push((x[0], solver.current_multipliers()[0]));
    }
    seen
}

/// f = x, g = 1 - x on [-10, 10]: solution 1, multiplier 1.
fn linear() -> Problem {
    Problem::new(1)
        .objective(|x| x[0], |_, s| s[0] = 1.0)
        .constraint("at least one", |x| 1.0 - x[0], |_, s| s[0] = -1.0)
        .domain(Bounds::uniform(-10.0, 10.0).unwrap())
}

/// f = -x, g = x^2 - 1 on [-10, 10]: solution 1, multiplier 0.5.
fn curved() -> Problem {
    Problem::new(1)
        .objective(|x| -x[0], |_, s| s[0] = -1.0)
        .constraint("within one", |x| x[0] * x[0] - 1.0, |x, s| s[0] = 2.0 * x[0])
        .domain(Bounds::uniform(-10.0, 10.0).unwrap())
}

#[test]
fn the_first_steps_are_those_worked_by_hand() {
    let seen = first_steps(&linear(), fixed(0.5, 0.5), 0.0, 5);
    let xs = [-0.25, -0.125, 0.25, 0.71875, 1.140625];
    let ys = [0.5, 1.25, 1.75, 1.9375, 1.84375];
    assert_eq!(seen, xs.into_iter().zip(ys).collect::<Vec<_>>());
    let s = [1.0, 1.5, 1.0, 0.375, -0.1875];
    let before = [0.0].into_iter().chain(ys);
    assert!(ys.iter().zip(before).zip(s).all(|((y, before), s)| (y - before) / 0.5 == s));
    let limit = first_steps(&linear(), fixed(0.5, 0.5), 0.0, 200)[199];
    assert!((limit.0 - 1.0).abs() < 1e-9 && (limit.1 - 1.0).abs() < 1e-9, "{limit:?}");
}

#[test]
fn constraints_are_linearised_around_the_iterate_before() {
    let seen = first_steps(&curved(), fixed(0.1, 0.1), 2.0, 4);
    let known = [(1.98, 0.3), (1.848736, 0.584), (1.663247, 0.772119), (1.471029, 0.878456)];
    for (seen, known) in seen.iter().zip(known) {
        assert!((seen.0 - known.0).abs() < 1e-6 && (seen.1 - known.1).abs() < 1e-6, "{seen:?} against {known:?}");
    }
    let limit = first_steps(&curved(), fixed(0.1, 0.1), 2.0, 2000)[1999];
    assert!((limit.0 - 1.0).abs() < 1e-9 && (limit.1 - 0.5).abs() < 1e-9, "{limit:?}");
}

/// The steps of coefficients 2 (t + 1) and 4 / (t + 1), as a paper prints them: eta = 1 / (2 (t + 1)), tau = (t + 1) / 4.
#[test]
fn growing_dual_steps_follow_the_coefficients() {
    let problem = Problem::new(2).objective(|x| vec::norm_squared(x) / 2.0, |x, s| s.copy_from_slice(x)).constraint(
        "at least one",
        |x| 1.0 - x[0],
        |_, s| s[0] = -1.0,
    );
    let settings = Settings {
        eta: Schedule::InvLinear(1.0 / 2.0),
        tau: Schedule::Power { c: 1.0 / 4.0, p: 1.0 },
        theta: Theta::Growing,
        output: Output::Last,
        ..Settings::default()
    };
    let last = solve(&problem, boxed(settings.clone()), &[3.0, 2.0], &Options::iterations(500));
    assert!((last.point.x[0] - 1.0).abs() < 1e-6 && (last.point.x[1] - 0.050450).abs() < 1e-6, "{:?}", last.point.x);
    assert!((last.multipliers.unwrap()[0] - 1.0).abs() < 1e-6);
    let average =
        solve(&problem, boxed(Settings { output: Output::Average, ..settings }), &[3.0, 2.0], &Options::iterations(500));
    assert!(
        (average.point.x[0] - 0.999984).abs() < 1e-6 && (average.point.x[1] - 0.067200).abs() < 1e-6,
        "{:?}",
        average.point.x
    );
    // Each weight times its theta is the weight before.
    assert!((0..100).all(|t| ((t as f64 + 1.0) * Theta::Growing.at(t) - t as f64).abs() < 1e-12));
}

#[test]
fn the_multiplier_is_the_price_of_the_constraint() {
    // min (x1 - 2)^2 + (x2 - 1)^2 subject to x1 + x2 <= 1: solution (1, 0), multiplier 2.
    let problem = Problem::new(2)
        .objective(
            |x| (x[0] - 2.0).powi(2) + (x[1] - 1.0).powi(2),
            |x, s| {
                s[0] = 2.0 * (x[0] - 2.0);
                s[1] = 2.0 * (x[1] - 1.0);
            },
        )
        .constraint("sum", |x| x[0] + x[1] - 1.0, |_, s| s.fill(1.0));
    let outcome = solve(&problem, boxed(fixed(0.1, 0.5)), &[0.0, 0.0], &Options::iterations(500));
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got} against {want}");
    near(outcome.point.x[0], 1.0);
    near(outcome.point.x[1], 0.0);
    near(outcome.multipliers.unwrap()[0], 2.0);
}

#[test]
fn each_constraint_has_its_own_multiplier() {
    for output in [Output::Average, Output::Last] {
        let settings = Settings { output, ..fixed(0.02, 0.02) };
        let outcome = solve(&disc(), boxed(settings), &[0.0, 0.0], &Options::iterations(40_000));
        let tolerance = if output == Output::Average { 1e-2 } else { 1e-6 };
        let close = |got: f64, want: f64| assert!((got - want).abs() < tolerance, "{output:?}: {got} against {want}");
        close(outcome.point.x[0], 0.5);
        close(outcome.point.x[1], 0.866_025_4);
        close(outcome.point.objective, -1.366_025_4);
        let y = outcome.multipliers.unwrap();
        close(y[0], 0.577_350_3);
        close(y[1], 0.422_649_7);
    }
}

#[test]
fn the_average_has_equal_weights_for_a_fixed_theta() {
    let steps = first_steps(&linear(), fixed(0.5, 0.5), 0.0, 5);
    let settings = Settings { output: Output::Average, ..fixed(0.5, 0.5) };
    let outcome = solve(&linear(), boxed(settings.clone()), &[0.0], &Options::iterations(5));
    let mean = |pick: fn(&(f64, f64)) -> f64| steps.iter().map(pick).sum::<f64>() / 5.0;
    assert!((outcome.point.x[0] - mean(|s| s.0)).abs() < 1e-15);
    assert!((outcome.multipliers.unwrap()[0] - mean(|s| s.1)).abs() < 1e-15);
    // Nothing to average yet: the start.
    let none = solve(&linear(), boxed(settings), &[0.25], &Options::iterations(0));
    assert_eq!((none.point.x[0], none.multipliers), (0.25, Some(vec![0.0])));
}

#[test]
fn counts_equal_a_hand_count() {
    let outcome = solve(&disc(), boxed(fixed(0.1, 0.1)), &[0.0, 0.0], &Options::iterations(7));
    // Each iteration: one subgradient of f, the values of all constraints in one call, a subgradient of each, one projection.
    let c = &outcome.counts;
    assert_eq!((c.objective_values.calls, c.objective_subgradients.calls), (0, 7));
    assert_eq!((c.constraint_values.calls, c.constraint_subgradients.calls), (7, 14));
    assert_eq!(c.projections, 7);
    assert_eq!((outcome.passes.objective, outcome.passes.constraints), (7.0, 14.0));

    let problem = learning(120);
    let outcome = solve(&problem, boxed(fixed(0.1, 0.1)), &[0.1; 5], &Options::iterations(10));
    assert_eq!((outcome.passes.objective, outcome.passes.constraints), (10.0, 20.0));
}

#[test]
fn without_constraints_it_is_the_subgradient_method() {
    let problem = Problem::new(1).objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0]);
    let outcome = solve(&problem, boxed(fixed(0.25, 1.0)), &[8.0], &Options::iterations(3));
    assert_eq!((outcome.point.x[0], outcome.multipliers), (1.0, Some(vec![])));
    assert_eq!(outcome.counts.constraint_values.calls, 0);
}

#[test]
fn too_many_numbers_are_refused_before_the_first_step() {
    struct Many;
    impl Values for Many {
        fn dim(&self) -> usize {
            1 << 20
        }
        fn num_constraints(&self) -> usize {
            257
        }
        fn objective(&self, _: At, _: &mut thalweg::oracle::Scratch) -> thalweg::Result<f64> {
            Ok(0.0)
        }
        fn constraint_values(&self, _: At, _: Pick, g: &mut [f64], _: &mut thalweg::oracle::Scratch) -> thalweg::Result<()> {
            g.fill(0.0);
            Ok(())
        }
    }
    impl Subgradients for Many {
        fn objective_grad(&self, _: At, _: &mut [f64], _: &mut thalweg::oracle::Scratch) -> thalweg::Result<f64> {
            panic!("a step was made")
        }
        fn constraint_vjp(
            &self,
            _: At,
            _: &mut [f64],
            _: &mut dyn FnMut(&[f64], &mut [f64]),
            _: &mut [f64],
            _: &mut thalweg::oracle::Scratch,
        ) -> thalweg::Result<()> {
            panic!("a step was made")
        }
    }
    assert_eq!(MOST_NUMBERS, 268_435_456);
    let mut solver = Conex::new(Settings::default()).unwrap();
    let refused = run::minimize(&Many, &mut solver, &vec![0.0; 1 << 20], &Options::iterations(1), &mut ()).unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("here 257 times 1048576 numbers; expected at most 268435456"), "{message}");
}

#[test]
fn bad_settings_are_refused_with_a_sentence() {
    let refused = |settings| Conex::new(settings).unwrap_err().to_string();
    assert!(refused(fixed(0.0, 1.0)).contains("eta must be a finite number larger than 0, got 0"));
    assert!(refused(fixed(1.0, -1.0)).contains("tau must be "));
    let message = refused(Settings { tau: Schedule::Theory, ..Settings::default() });
    assert!(message.contains("tau must be ") && message.contains("got theory"), "{message}");
    let theta = |theta| Settings { theta, ..Settings::default() };
    assert!(refused(theta(Theta::Number(-0.5))).contains("theta must be a finite number, 0 or larger, or \"growing\", got -0.5"));
    let message = refused(theta(Theta::Number(f64::NAN)));
    assert!(message.contains("theta must be ") && message.contains("got NaN"), "{message}");
}

#[test]
fn theta_is_a_number_or_a_word() {
    let read = |text: &str| toml::from_str::<Settings>(text).map(|s| s.theta).map_err(|e| e.message().to_string());
    assert_eq!(read(""), Ok(Theta::Number(1.0)));
    assert_eq!(read("theta = 0.5"), Ok(Theta::Number(0.5)));
    assert_eq!(read("theta = 1"), Ok(Theta::Number(1.0)));
    assert_eq!(read("theta = \"growing\""), Ok(Theta::Growing));
    assert!(read("theta = \"grow\"").unwrap_err().contains("expected a number or \"growing\""));
    assert!(read("theta = true").unwrap_err().contains("expected a number or \"growing\""));
    for theta in [Theta::Number(0.25), Theta::Growing] {
        let settings = Settings { theta, ..Settings::default() };
        assert_eq!(toml::from_str::<Settings>(&toml::to_string(&settings).unwrap()).unwrap(), settings);
        let bytes = postcard::to_stdvec(&settings).unwrap();
        assert_eq!(postcard::from_bytes::<Settings>(&bytes).unwrap(), settings);
    }
}

#[test]
fn a_run_that_explodes_says_what_exploded() {
    let outcome = solve(&curved(), boxed(fixed(1e-3, f64::MAX)), &[5.0], &Options::iterations(50));
    let StopReason::Failed { reason, iteration } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(reason.contains("the multiplier of constraint 1 is inf"), "{reason}");
    assert_eq!((*iteration, outcome.point.x[0], outcome.multipliers), (0, 5.0, None));
}

fn variants() -> Vec<Settings> {
    let base = fixed(0.05, 0.5);
    vec![
        base.clone(),
        Settings { output: Output::Average, eta: Schedule::InvSqrt(0.1), ..base.clone() },
        Settings { theta: Theta::Growing, tau: Schedule::Power { c: 0.1, p: 1.0 }, output: Output::Average, ..base },
    ]
}

#[test]
fn stop_save_load_continue_equals_the_uninterrupted_run() {
    for settings in variants() {
        continues_bit_for_bit("conex", &[&|| boxed(settings.clone())]);
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    for settings in variants() {
        same_bits_on_two_threads(&[&|| boxed(settings.clone())]);
    }
}

#[test]
fn a_restart_is_a_fresh_start() {
    let problem = learning(120);
    let mut used = boxed(fixed(0.05, 0.5));
    run::minimize(&problem, &mut *used, &[0.3; 5], &Options::iterations(40), &mut ()).unwrap();
    let again = run::minimize(&problem, &mut *used, &[0.1; 5], &Options::iterations(40), &mut ()).unwrap();
    assert_eq!(bits(&again), bits(&solve(&problem, boxed(fixed(0.05, 0.5)), &[0.1; 5], &Options::iterations(40))));
}

/// Rows in one call against one pull for each, values and bits, on all rows and on a batch.
#[test]
fn rows_equal_single_pulls() {
    fn check(problem: &dyn Subgradients, x: &[f64], draws: &[Draw]) {
        let (d, warm) = (problem.dim(), Warm::default());
        for draw in draws {
            let at = At { x, draw, warm: &warm };
            let which = [1, 0, 1];
            let (mut g, mut rows) = ([f64::NAN; 3], vec![f64::NAN; 3 * d]);
            problem.constraint_rows(at, &which, &mut g, &mut rows, &mut problem.scratch()).unwrap();
            for (k, &j) in which.iter().enumerate() {
                let (mut all, mut row) = ([f64::NAN; 2], vec![f64::NAN; d]);
                let weigh = &mut |_: &[f64], w: &mut [f64]| w[j as usize] = 1.0;
                problem.constraint_vjp(at, &mut all, weigh, &mut row, &mut problem.scratch()).unwrap();
                assert_eq!(g[k].to_bits(), all[j as usize].to_bits());
                assert_eq!(rows[k * d..(k + 1) * d], row);
            }
        }
    }
    check(&disc(), &[0.3, -0.4], &[Draw::full()]);
    let problem = learning(120);
    let batch: Vec<&[u32]> = problem.streams().iter().map(|_| [3, 9, 9, 17].as_slice()).collect();
    check(&problem, &[0.4, -1.0, 0.2, 2.0, -0.3], &[Draw::full(), Draw::these(&batch)]);

    let mut ev = Evaluator::new(&problem, 0, 1e-6);
    ev.constraint_rows(&[0.1; 5], &Draw::full(), &[1], &mut [0.0], &mut [0.0; 5]).unwrap();
    assert_eq!(ev.counts().constraint_values.samples, 120, "hinge alone reads every row once");
    assert_eq!(ev.counts().constraint_subgradients.samples, 120);
    assert_eq!(ev.constraint_modulus(1).map(|m| m.value), Some(0.0));
}
