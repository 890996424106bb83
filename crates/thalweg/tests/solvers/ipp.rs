//! The inexact proximal-point method with both inner solvers: known centres, coefficients, outputs, notes, counts, refusals,
//! continuation bit for bit.

use crate::common::{continues_bit_for_bit, disc, hill, learning, same_bits_on_two_threads, solve};
use thalweg::eval::{Eval, Evaluator, Proximal};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::vec;
use thalweg::oracle::{Draw, Pick, Problem, Subgradients};
use thalweg::run::{self, Options, Record};
use thalweg::sets::Bounds;
use thalweg::solvers::conex::{self, Theta};
use thalweg::solvers::ipp::{Inner, InnerOutput, Output, Settings};
use thalweg::solvers::ssg::{self, Weights};
use thalweg::solvers::{Conex, Ipp, Method, Schedule, Solver};

fn boxed(settings: &Settings) -> Box<Ipp> {
    Box::new(Ipp::new(settings.clone()).unwrap())
}

/// The centres z_1, z_2, … of the first subproblems.
fn centres(problem: &dyn Subgradients, settings: &Settings, start: &[f64], count: usize) -> Vec<Vec<f64>> {
    let ev: &mut dyn Eval = &mut Evaluator::new(problem, 0, 1e-6);
    let mut solver = Ipp::new(settings.clone()).unwrap();
    solver.start(ev, start).unwrap();
    let mut seen = vec![];
    for _ in 0..count {
        for _ in 0..settings.inner_iterations {
            solver.step(ev).unwrap();
        }
        let mut iterate = vec![0.0; start.len()];
        solver.iterate(&mut iterate);
        assert_eq!(iterate, solver.centre(), "a new inner run begins at its centre");
        seen.push(iterate);
    }
    assert_eq!(solver.finished(), count as u64);
    seen
}

#[track_caller]
fn near(got: &[Vec<f64>], wanted: &[f64], tolerance: f64) {
    assert!(got.iter().zip(wanted).all(|(g, w)| (g[0] - w).abs() < tolerance), "{got:?} against {wanted:?}");
}

fn with_ssg(rho_hat: f64, inner_iterations: u64, inner: ssg::Settings) -> Settings {
    Settings { rho_hat: Some(rho_hat), inner_iterations, inner: Inner::Ssg(inner), ..Settings::default() }
}

fn with_conex(rho_hat: f64, inner_iterations: u64, inner: conex::Settings) -> Settings {
    Settings { rho_hat: Some(rho_hat), inner_iterations, inner: Inner::Conex(inner), ..Settings::default() }
}

/// Steps 2 / (mu (t + 2)) with weights t + 1, for mu-strongly convex subproblems; here mu = 1.
fn strongly_convex(tol: f64) -> ssg::Settings {
    let eta = Schedule::StronglyConvex(2.0);
    ssg::Settings { eta, tol: tol.into(), weights: Weights::Linear, ..ssg::Settings::default() }
}

/// Coefficients 2 (t + 1) and 4 / (t + 1).
fn growing() -> conex::Settings {
    conex::Settings {
        eta: Schedule::InvLinear(0.5),
        tau: Schedule::Power { c: 0.25, p: 1.0 },
        theta: Theta::Growing,
        ..conex::Settings::default()
    }
}

#[test]
fn inexact_centres_are_the_known_ones() {
    let settings = with_ssg(2.0, 2000, strongly_convex(1e-3));
    let up = centres(&hill(), &settings, &[0.1], 5);
    near(&up, &[0.2, 0.4, 0.8, 1.0000, 1.0007], 5e-5);
    let down = centres(&hill(), &settings, &[-0.1], 6);
    near(&down, &[-0.2, -0.4, -0.8, -1.6, -3.2, -5.0], 5e-4);
}

/// The exact method doubles the centre until the constraint or the box holds it: z_{k+1} = min(1, 2 z_k).
#[test]
fn long_inner_runs_double_the_centre() {
    // Coefficients (t + 1) / 2 and 20 / (t + 1): the subproblems are 1-strongly convex.
    let inner = conex::Settings { eta: Schedule::InvLinear(2.0), tau: Schedule::Power { c: 0.05, p: 1.0 }, ..growing() };
    for settings in [
        with_ssg(2.0, 40_000, strongly_convex(0.0)),
        with_conex(2.0, 40_000, inner.clone()),
        Settings { inner_output: InnerOutput::Last, ..with_conex(2.0, 4_000, inner) },
    ] {
        near(&centres(&hill(), &settings, &[0.1], 5), &[0.2, 0.4, 0.8, 1.0, 1.0], 1e-3);
        near(&centres(&hill(), &settings, &[-0.1], 6), &[-0.2, -0.4, -0.8, -1.6, -3.2, -5.0], 4e-3);
    }
}

/// A paper prints coefficients c1 (k + 1) and c2 / (k + 1); read as steps they are useless.
#[test]
fn coefficients_are_inverse_steps() {
    let reading = |eta, tau| conex::Settings { eta, tau, theta: Theta::Growing, ..conex::Settings::default() };
    let (c1, c2) = (2.0, 0.5);
    let steps = reading(Schedule::InvLinear(1.0 / c1), Schedule::Power { c: 1.0 / c2, p: 1.0 });
    let literal = reading(Schedule::Power { c: c1, p: 1.0 }, Schedule::InvLinear(c2));
    let run = |inner| centres(&hill(), &with_conex(2.0, 200, inner), &[0.1], 8)[7][0];
    assert!((run(steps) - 1.0).abs() < 1e-2);
    assert!((run(literal) - 1.0).abs() > 0.5);
}

/// An inner run is that solver on the regularised view, with weights t + 1 in its average, from the centre and from y = 0.
#[test]
fn an_inner_run_is_the_solver_on_the_regularised_problem() {
    let problem = learning(120);
    let inner = conex::Settings { eta: 0.05.into(), tau: 0.5.into(), ..conex::Settings::default() };
    let settings = Settings { rho_hat_g: Some(1.5), ..with_conex(3.0, 20, inner.clone()) };
    let got = centres(&problem, &settings, &[0.1; 5], 3);

    let mut ev = Evaluator::new(&problem, 0, 1e-6);
    let (mut centre, mut work) = (vec![0.1; 5], vec![]);
    for got in got {
        let view: &mut dyn Eval =
            &mut Proximal { inner: &mut ev, centre: &centre, rho_f: 3.0, rho_g: 1.5, slack: 0.0, work: &mut work };
        let mut solver = Conex::new(inner.clone()).unwrap();
        solver.start(view, &centre).unwrap();
        let (mut x, mut sum, mut total) = (vec![0.0; 5], vec![0.0; 5], 0.0);
        for t in 0..20 {
            solver.step(view).unwrap();
            solver.iterate(&mut x);
            let weight = f64::from(t) + 1.0;
            sum.iter_mut().zip(&x).for_each(|(s, x)| *s += weight * x);
            total += weight;
        }
        let mean: Vec<f64> = sum.iter().map(|s| s / total).collect();
        assert!(got.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-13), "{got:?} against {mean:?}");
        centre = got;
    }
}

#[test]
fn if_nothing_is_accepted_the_next_centre_is_the_last_iterate() {
    let far = Problem::new(1)
        .objective(|x| x[0], |_, s| s[0] = 1.0)
        .constraint("at least nine", |x| 9.0 - x[0], |_, s| s[0] = -1.0)
        .weak_convexity(0.0, 0.0);
    let inner = ssg::Settings { eta: 0.5.into(), tol: 0.0.into(), ..ssg::Settings::default() };
    near(&centres(&far, &with_ssg(1.0, 4, inner), &[0.0], 2), &[2.0, 4.0], 1e-12);
}

#[test]
fn coefficients_come_from_the_constants() {
    let make = |rho: Option<(f64, f64)>| {
        let plain = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0).constraint("g", |x| x[0], |_, s| s[0] = 1.0);
        match rho {
            Some((f, g)) => plain.weak_convexity(f, g),
            None => plain,
        }
    };
    let chosen = |rho, hat, hat_g| {
        let problem = make(rho);
        let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 0, 1e-6);
        let mut solver = Ipp::new(Settings { rho_hat: hat, rho_hat_g: hat_g, ..Settings::default() }).unwrap();
        solver.start(ev, &[0.0]).map(|()| solver.coefficients())
    };
    assert_eq!(chosen(Some((3.0, 0.0)), None, None), Ok((6.0, 0.0)));
    assert_eq!(chosen(Some((0.25, 0.0)), None, None), Ok((1.0, 0.0)));
    // A weakly convex constraint gets the same coefficient, which must exceed both constants.
    assert_eq!(chosen(Some((3.0, 1.0)), None, None), Ok((6.0, 6.0)));
    assert_eq!(chosen(Some((3.0, 4.0)), None, None), Ok((8.0, 8.0)));
    assert_eq!(chosen(Some((3.0, 4.0)), None, Some(9.0)), Ok((6.0, 9.0)));
    assert_eq!(chosen(Some((3.0, 1.0)), Some(4.0), None), Ok((4.0, 4.0)));
    // Nothing is known: the constraint is taken for merely weakly convex.
    assert_eq!(chosen(None, Some(2.0), None), Ok((2.0, 2.0)));
    assert_eq!(chosen(None, Some(2.0), Some(0.0)), Ok((2.0, 0.0)));
    let message = chosen(None, None, None).unwrap_err().to_string();
    assert!(message.contains("constant of the objective is not known: give rho_hat"), "{message}");
}

#[test]
fn a_small_coefficient_is_noted_and_kept() {
    let notes = |rho_hat, rho_hat_g| {
        let problem = Problem::new(1)
            .objective(|x| -x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
            .constraint("ring", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
            .domain(Bounds::uniform(-3.0, 3.0).unwrap())
            .weak_convexity(2.0, 2.0);
        let settings = Settings { rho_hat: Some(rho_hat), rho_hat_g, ..with_ssg(1.0, 5, ssg::Settings::default()) };
        let outcome = solve(&problem, boxed(&settings), &[0.1], &Options::iterations(5));
        assert_eq!(outcome.iterations, 5);
        outcome.notes
    };
    assert_eq!(notes(3.0, None), Vec::<String>::new());
    let small = notes(2.0, Some(3.0));
    assert_eq!(small.len(), 1);
    assert!(small[0].contains("rho_hat = 2 is not larger than 2, the weak-convexity constant of the objective"), "{small:?}");
    let both = notes(1e-4, None);
    assert!(
        both[1].contains("rho_hat_g = 0.0001 is not larger than 2, the weak-convexity constant of the constraints"),
        "{both:?}"
    );
}

#[test]
fn the_output_is_a_centre() {
    let settings = with_conex(2.0, 50, growing());
    let all = centres(&hill(), &settings, &[0.1], 6);
    // Between two centres the last one is returned; the iterate goes on.
    let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(170) };
    let outcome = solve(&hill(), boxed(&settings), &[0.1], &options);
    assert_eq!(outcome.point.x, all[2]);
    assert_eq!(outcome.trace[100].norm, all[1][0]);
    assert_ne!(outcome.trace[170].norm, all[2][0]);
    assert_eq!(outcome.multipliers.as_ref().map(Vec::len), Some(1));
    assert_eq!(outcome.notes, Vec::<String>::new());
    // No centre yet.
    let none = solve(&hill(), boxed(&settings), &[0.1], &Options::iterations(49));
    assert_eq!((none.point.x, none.multipliers), (vec![0.1], None));
    assert!(none.notes[0].contains("no subproblem was finished, each takes 50 iterations"), "{:?}", none.notes);

    // A random centre is one of z_0 … z_5, each sooner or later; z_6 is the centre of no subproblem.
    let random = Settings { output: Output::Random, ..settings };
    let mut starts: Vec<f64> = vec![0.1];
    starts.extend(all[..5].iter().map(|z| z[0]));
    let mut hits = [0; 6];
    for seed in 0..60 {
        let outcome = solve(&hill(), boxed(&random), &[0.1], &Options { seed, ..Options::iterations(300) });
        let k = starts.iter().position(|z| *z == outcome.point.x[0]).unwrap();
        assert_eq!(outcome.multipliers.is_none(), k == 0, "the start has no multipliers");
        hits[k] += 1;
    }
    assert!(hits.iter().all(|&h| h > 0), "{hits:?}");
}

#[test]
fn multipliers_come_from_the_run_that_gave_the_centre() {
    // A convex problem: the centres converge to the solution, and the multipliers with them.
    let inner = conex::Settings { eta: Schedule::InvLinear(1.0), tau: Schedule::Power { c: 0.1, p: 1.0 }, ..growing() };
    for warm_multipliers in [false, true] {
        let settings = Settings { warm_multipliers, ..with_conex(1.0, 2_000, inner.clone()) };
        let outcome = solve(&disc(), boxed(&settings), &[0.0, 0.0], &Options::iterations(40_000));
        let y = outcome.multipliers.unwrap();
        assert!((y[0] - 0.577_350_3).abs() < 2e-3 && (y[1] - 0.422_649_7).abs() < 2e-3, "{y:?}");
        assert!((outcome.point.x[0] - 0.5).abs() < 1e-3 && (outcome.point.x[1] - 0.866_025_4).abs() < 1e-3);
    }
    // With ssg inside there are none.
    let outcome = solve(&hill(), boxed(&with_ssg(2.0, 10, strongly_convex(0.0))), &[0.1], &Options::iterations(20));
    assert_eq!(outcome.multipliers, None);
}

/// f = (x - 0.2)^2 subject to 1 - x^2 <= 0 on [0, 3]: solution 1, multiplier 0.8. The constraint needs a term of its own.
#[test]
fn a_weakly_convex_constraint_is_regularised_too() {
    let problem = Problem::new(1)
        .objective(|x| (x[0] - 0.2).powi(2), |x, s| s[0] = 2.0 * (x[0] - 0.2))
        .constraint("outside", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .domain(Bounds::uniform(0.0, 3.0).unwrap())
        .weak_convexity(0.0, 2.0);
    let inner = conex::Settings { eta: Schedule::InvLinear(0.4), tau: Schedule::Power { c: 0.1, p: 1.0 }, ..growing() };
    let settings = Settings { rho_hat: None, ..with_conex(1.0, 2_000, inner) };
    let outcome = solve(&problem, boxed(&settings), &[2.0], &Options::iterations(60_000));
    assert!((outcome.point.x[0] - 1.0).abs() < 1e-3, "{:?}", outcome.point);
    assert!((outcome.multipliers.as_ref().unwrap()[0] - 0.8).abs() < 5e-3, "{:?}", outcome.multipliers);
}

/// The regularised view keeps the promise of the constants that it reports: the subgradient inequality on random pairs.
#[test]
fn the_regularised_view_is_as_convex_as_it_says() {
    let problem = learning(120);
    let mut rng = Rng::new(5, Purpose::Data);
    let mut ev = Evaluator::new(&problem, 0, 1e-6);
    let mut point = || -> Vec<f64> { (0..5).map(|_| 8.0 * (rng.uniform() - 0.5)).collect() };
    let (centre, full, mut work) = (point(), Draw::full(), vec![]);
    // Below and above the constant of the weakly convex constraint, which is about 0.08.
    for rho_g in [0.01, 0.05, 0.5] {
        let view: &mut dyn Eval =
            &mut Proximal { inner: &mut ev, centre: &centre, rho_f: 0.3, rho_g, slack: 0.25, work: &mut work };
        let moduli: Vec<f64> = (0..2).map(|j| view.constraint_modulus(j).unwrap().value).collect();
        assert_eq!((view.objective_modulus().unwrap().value, moduli[1]), (0.0, 0.0));
        for _ in 0..300 {
            let (x, y) = (point(), point());
            let (mut g, mut there, mut rows, mut s) = ([0.0; 2], [0.0; 2], [0.0; 10], [0.0; 5]);
            let f = view.objective_grad(&x, &full, &mut s).unwrap();
            view.constraint_rows(&x, &full, &[0, 1], &mut g, &mut rows).unwrap();
            view.constraint_values(&y, &full, Pick::All, &mut there).unwrap();
            let f_there = view.objective(&y, &full).unwrap();
            let step: Vec<f64> = y.iter().zip(&x).map(|(y, x)| y - x).collect();
            assert!(f_there >= f + vec::dot(&s, &step) - 1e-10);
            for j in 0..2 {
                let below = vec::dot(&rows[5 * j..5 * j + 5], &step) - moduli[j] / 2.0 * vec::norm_squared(&step);
                assert!(there[j] >= g[j] + below - 1e-10, "constraint {j}, rho_g {rho_g}");
            }
        }
    }
}

#[test]
fn warm_multipliers_change_the_next_run_only() {
    let cold = with_conex(2.0, 30, growing());
    let warm = Settings { warm_multipliers: true, ..cold.clone() };
    let run = |settings| centres(&disc(), settings, &[0.9, 0.9], 2);
    assert_eq!(run(&cold)[0], run(&warm)[0]);
    assert_ne!(run(&cold)[1], run(&warm)[1]);
}

#[test]
fn counts_are_those_of_the_inner_steps() {
    let run = |settings: &Settings, n| solve(&disc(), boxed(settings), &[0.0, 0.0], &Options::iterations(n));
    let c = run(&with_conex(1.0, 3, growing()), 8).counts;
    assert_eq!((c.objective_subgradients.calls, c.constraint_values.calls, c.constraint_subgradients.calls), (8, 8, 16));
    assert_eq!((c.objective_values.calls, c.projections), (0, 8));
    let c = run(&with_ssg(1.0, 3, ssg::Settings { eta: 0.5.into(), ..ssg::Settings::default() }), 8).counts;
    assert_eq!((c.constraint_values.calls, c.projections), (8, 8));
    assert_eq!(c.objective_subgradients.calls + c.constraint_subgradients.calls, 8);
}

#[test]
fn schedules_begin_anew_in_every_subproblem() {
    // One inner step each: the step is always eta_0.
    let slope = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0).weak_convexity(0.0, 0.0);
    let inner = ssg::Settings { eta: Schedule::InvLinear(0.5), ..ssg::Settings::default() };
    let settings = Settings { inner_output: InnerOutput::Last, ..with_ssg(1.0, 1, inner) };
    near(&centres(&slope, &settings, &[0.0], 3), &[-0.5, -1.0, -1.5], 1e-15);
}

#[test]
fn bad_settings_are_refused_with_a_sentence() {
    let refused = |settings| Ipp::new(settings).unwrap_err().to_string();
    let base = Settings::default;
    assert!(refused(Settings { rho_hat: Some(0.0), ..base() }).contains("rho_hat must be a finite number larger than 0, got 0"));
    assert!(
        refused(Settings { rho_hat_g: Some(-1.0), ..base() }).contains("rho_hat_g must be a finite number, 0 or larger, got -1")
    );
    assert!(refused(Settings { inner_iterations: 0, ..base() }).contains("inner_iterations must be at least 1, got 0"));
    assert!(refused(Settings { warm_multipliers: true, ..base() }).contains("the inner solver ssg has no multipliers"));
    let inner = conex::Settings { tau: (-2.0).into(), ..conex::Settings::default() };
    assert!(refused(with_conex(1.0, 10, inner)).contains("tau must be "));
    let unknown = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0);
    let run = run::minimize(&unknown, &mut *boxed(&base()), &[0.0], &Options::iterations(1), &mut ());
    assert!(run.unwrap_err().to_string().contains("give rho_hat"));
}

#[test]
fn settings_are_read_from_one_table() {
    let text = r#"
        rho_hat = 3
        inner_iterations = 7
        inner_output = "last"
        output = "random"
        [inner]
        name = "conex"
        eta = { rule = "inv-linear", c = 0.05 }
        theta = "growing"
    "#;
    let read: Settings = toml::from_str(text).unwrap();
    let Inner::Conex(inner) = &read.inner else { panic!("{read:?}") };
    assert_eq!((inner.eta, inner.theta), (Schedule::InvLinear(0.05), Theta::Growing));
    assert_eq!((read.rho_hat, read.inner_iterations, read.output), (Some(3.0), 7, Output::Random));
    let again: Settings = toml::from_str(&toml::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
    let wrong = |text: &str| toml::from_str::<Settings>(text).unwrap_err().message().to_string();
    assert!(wrong("[inner]\nname = \"conex\"\ntol = 1").contains("unknown field `tol`"));
    assert!(wrong("[inner]\nname = \"newton\"").contains("expected one of `ssg`, `conex`, `bundle`"));
}

fn variants() -> Vec<Settings> {
    let conex = conex::Settings { eta: 0.05.into(), tau: 0.5.into(), ..conex::Settings::default() };
    let ssg = ssg::Settings { eta: 0.2.into(), tol: 1e-3.into(), ..ssg::Settings::default() };
    vec![
        with_ssg(2.0, 25, ssg.clone()),
        Settings { output: Output::Random, ..with_ssg(2.0, 19, ssg::Settings { batch_f: Some(7), ..ssg.clone() }) },
        Settings { inner_output: InnerOutput::Last, ..with_ssg(2.0, 1, ssg) },
        with_conex(2.0, 38, conex.clone()),
        Settings { warm_multipliers: true, output: Output::Random, ..with_conex(2.0, 12, conex) },
        with_conex(2.0, 33, growing()),
    ]
}

#[test]
fn stop_save_load_continue_equals_the_uninterrupted_run() {
    for settings in variants() {
        continues_bit_for_bit("ipp", &[&|| boxed(&settings)]);
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    for settings in variants() {
        same_bits_on_two_threads(&[&|| boxed(&settings)]);
    }
}
