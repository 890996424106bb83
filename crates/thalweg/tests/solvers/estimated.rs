//! Weak-convexity constants that nobody knows: the bundle method and the certificate estimate them, and say so.
use crate::common::{bits, certify, continues_bit_for_bit_on};
use thalweg::Note;
use thalweg::assess::{Measures, Penalised, Switching, by_switching, of_penalty};
use thalweg::auto::{self, Choice, Reason};
use thalweg::certify::Bounds;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Problem, Source, check};
use thalweg::run::{Checkpoint, Options, Outcome, Record, StopReason, minimize};
use thalweg::sets;
use thalweg::solvers::bundle::Settings;
use thalweg::solvers::ipp::{self, Inner};
use thalweg::solvers::{Bundle, FirstOrder, Ipp, SolverName};

fn solve(problem: &Problem, start: &[f64], settings: Settings, steps: u64) -> Outcome {
    minimize(problem, &mut Bundle::new(settings).unwrap(), start, &Options::iterations(steps), &mut ()).unwrap()
}

fn both() -> [Settings; 2] {
    [true, false].map(|adapt| Settings { adapt, ..Settings::default() })
}

/// |x^2 - 1| subject to x <= 0.5 on [-2, 2]: the optimum is -1.
fn absolute() -> Problem {
    Problem::new(1)
        .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
        .constraint("cap", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
        .domain(sets::Bounds::uniform(-2.0, 2.0).unwrap())
}

/// Rosenbrock's function in a disc, whose border holds the optimum back.
fn rosenbrock(radius: f64) -> Problem {
    Problem::new(2)
        .objective(
            |x| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2),
            |x, s| {
                let bend = x[1] - x[0] * x[0];
                s[0] = -400.0 * x[0] * bend - 2.0 * (1.0 - x[0]);
                s[1] = 200.0 * bend;
            },
        )
        .constraint(
            "disc",
            move |x| x[0] * x[0] + x[1] * x[1] - radius * radius,
            |x, s| s.copy_from_slice(&[2.0 * x[0], 2.0 * x[1]]),
        )
}

/// Robust phase retrieval: the mean of |<a, x>^2 - b|, weakly convex and not smooth.
fn phases(dim: usize, rows: usize) -> (Problem, Vec<f64>) {
    let mut rng = Rng::new(5, Purpose::Data);
    let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| 2.0 * rng.uniform() - 1.0).collect() };
    let (truth, a) = (draw(dim), draw(dim * rows));
    let dot = |a: &[f64], x: &[f64]| a.iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
    let b: Vec<f64> = a.chunks(dim).map(|a| dot(a, &truth).powi(2)).collect();
    let (c, d) = (a.clone(), b.clone());
    let n = rows as f64;
    let problem = Problem::new(dim).objective(
        move |x| a.chunks(dim).zip(&b).map(|(a, b)| (dot(a, x).powi(2) - b).abs()).sum::<f64>() / n,
        move |x, s| {
            for (a, b) in c.chunks(dim).zip(&d) {
                let inner = dot(a, x);
                let weight = 2.0 * inner * (inner * inner - b).signum() / n;
                s.iter_mut().zip(a).for_each(|(s, a)| *s += weight * a);
            }
        },
    );
    (problem, truth)
}

#[test]
fn a_weakly_convex_optimum_is_found_and_called_an_estimate() {
    for settings in both() {
        for start in [0.3, -0.2, 1.7] {
            let outcome = solve(&absolute().estimate_weak_convexity(), &[start], settings.clone(), 300);
            assert_eq!(outcome.ended, StopReason::Finished, "{start}: {outcome:?}");
            let x = outcome.point.x[0];
            // The other stationary point is the cap, with slope -1 held by the constraint.
            assert!((x + 1.0).abs() < 1e-4 || (x - 0.5).abs() < 1e-4, "{start}: {outcome:?}");
            let stated = outcome.stationary.as_ref().unwrap();
            assert!(stated.estimated && stated.rho_f <= 3.0 + 1e-9, "{stated:?}");
            let note = outcome.notes.iter().map(Note::to_string).find(|note| note.contains("were estimated")).unwrap();
            assert!(note.contains("for the objective, 0 for constraint 1") && note.contains("not proved"), "{note}");
        }
    }
    let settings = Settings::default();
    let claimed = solve(&absolute().weak_convexity(2.0, 0.0), &[-0.2], settings, 300);
    assert!(!claimed.stationary.unwrap().estimated && claimed.notes.is_empty());
}

#[test]
fn phases_are_retrieved() {
    let (problem, truth) = phases(8, 60);
    let mut rng = Rng::new(6, Purpose::Data);
    let start: Vec<f64> = truth.iter().map(|t| t + 0.4 * (rng.uniform() - 0.5)).collect();
    let outcome = solve(&problem.estimate_weak_convexity(), &start, Settings::default(), 1000);
    assert_eq!(outcome.ended, StopReason::Finished, "{:?}", outcome.point);
    assert!(outcome.point.objective < 1e-4, "{:?}", outcome.point);
    assert!(outcome.point.x.iter().zip(&truth).all(|(x, t)| (x - t).abs() < 1e-4), "{:?} {truth:?}", outcome.point.x);
    assert!(outcome.stationary.unwrap().estimated);
}

#[test]
fn a_smooth_valley_in_a_disc() {
    // On the border of the unit disc, by a fine search over its angle.
    let value = |angle: f64| {
        let (y, x) = angle.sin_cos();
        100.0 * (y - x * x).powi(2) + (1.0 - x).powi(2)
    };
    let best = (0..2_000_000).map(|k| f64::from(k) * 1e-6).map(value).fold(f64::INFINITY, f64::min);
    for start in [[-1.2, 1.0], [0.0, 0.0], [0.5, -0.5]] {
        let outcome = solve(&rosenbrock(1.0).estimate_weak_convexity(), &start, Settings::default(), 2000);
        assert_eq!(outcome.ended, StopReason::Finished, "{start:?}: {:?} {:?}", outcome.point, outcome.notes);
        assert!(outcome.point.feasible && (outcome.point.objective - best).abs() < 1e-4, "{start:?}: {:?} {best}", outcome.point);
        let outcome = solve(&rosenbrock(2.0).estimate_weak_convexity(), &start, Settings::default(), 2000);
        assert_eq!(outcome.ended, StopReason::Finished, "{start:?}: {:?} {:?}", outcome.point, outcome.notes);
        assert!(outcome.point.x.iter().all(|x| (x - 1.0).abs() < 1e-3), "{start:?}: {:?}", outcome.point);
    }
}

/// No constant is large enough for a concave kink; the search gets away from it all the same.
#[test]
fn a_concave_kink_is_left() {
    let kink = || {
        Problem::new(1)
            .objective(|x| -x[0].abs(), |x, s| s[0] = -x[0].signum())
            .domain(sets::Bounds::uniform(-1.0, 2.0).unwrap())
            .estimate_weak_convexity()
    };
    for settings in both() {
        for start in [0.0, 1e-12, -1e-6, 0.3, -0.7] {
            let outcome = solve(&kink(), &[start], settings.clone(), 300);
            let x = outcome.point.x[0];
            assert!(x == -1.0 || x == 2.0, "{start}: {outcome:?}");
            assert_eq!(outcome.ended, StopReason::Finished, "{start}: {outcome:?}");
        }
    }
    // The steps of the search go across the kink: x/10 - |x - 1| + |y| falls to the left of it too, but less.
    let tilted = Problem::new(2)
        .objective(
            |x| 0.1 * x[0] - (x[0] - 1.0).abs() + 3.0 * (x[1] - x[0]).abs(),
            |x, s| {
                let side = 3.0 * (x[1] - x[0]).signum();
                s.copy_from_slice(&[0.1 - (x[0] - 1.0).signum() - side, side]);
            },
        )
        .domain(sets::Bounds::uniform(-4.0, 4.0).unwrap())
        .estimate_weak_convexity();
    for start in [[0.9, 0.0], [1.0, 1.0], [1.1, -3.0], [-3.0, 3.0]] {
        let outcome = solve(&tilted, &start, Settings::default(), 1000);
        let x = &outcome.point.x;
        assert!(x.iter().all(|x| x.is_finite()) && x[0].abs() > 3.999 && (x[1] - x[0]).abs() < 1e-3, "{start:?}: {outcome:?}");
    }
    // A constraint with such a kink: at least one away from 0.
    let away = Problem::new(1)
        .objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0])
        .constraint("away", |x| 1.0 - x[0].abs(), |x, s| s[0] = -x[0].signum())
        .estimate_weak_convexity();
    for start in [0.0, 1e-9, -0.4, 3.0] {
        let outcome = solve(&away, &[start], Settings::default(), 500);
        assert!(outcome.point.feasible && (outcome.point.x[0].abs() - 1.0).abs() < 1e-4, "{start}: {outcome:?}");
    }
}

#[test]
fn a_run_on_a_convex_problem_has_the_bits_of_one_with_claimed_constants() {
    let (n, d) = (200, 20);
    let mut rng = Rng::new(9, Purpose::Data);
    let rows: Vec<f64> = (0..n * d).map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let targets: Vec<f64> = rows.chunks(d).map(|r| r[0] - 2.0 * r[3] + 0.1 * rng.uniform()).collect();
    let deviations = || {
        let (a, b, c, e) = (rows.clone(), targets.clone(), rows.clone(), targets.clone());
        let miss = move |row: &[f64], x: &[f64], b: f64| row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - b;
        Problem::new(d)
            .objective(
                move |x| a.chunks(d).zip(&b).map(|(r, b)| miss(r, x, *b).abs()).sum::<f64>() / n as f64,
                move |x, s| {
                    for (r, b) in c.chunks(d).zip(&e) {
                        let sign = miss(r, x, *b).signum() / n as f64;
                        s.iter_mut().zip(r).for_each(|(s, r)| *s += sign * r);
                    }
                },
            )
            .constraint(
                "l1 ball",
                |x| x.iter().map(|x| x.abs()).sum::<f64>() - 1.5,
                |x, s| s.iter_mut().zip(x).for_each(|(s, x)| *s = x.signum()),
            )
    };
    let estimated = solve(&deviations().estimate_weak_convexity(), &[0.0; 20], Settings::default(), 2000);
    let claimed = solve(&deviations().weak_convexity(0.0, 0.0), &[0.0; 20], Settings::default(), 2000);
    assert_eq!(claimed.ended, StopReason::Finished);
    // The points that the stop is tried on come on top, and change nothing.
    assert!(estimated.iterations > claimed.iterations && estimated.iterations <= claimed.iterations + 16);
    assert_eq!(estimated.point, claimed.point);
    let (estimated, claimed) = (estimated.stationary.unwrap(), claimed.stationary.unwrap());
    assert!(
        estimated.estimated && estimated.rho_f == 0.0 && estimated.upper <= claimed.upper * (1.0 + 1e-9),
        "{estimated:?} {claimed:?}"
    );
}

#[test]
fn a_saved_run_continues_with_the_constants_it_had() {
    let with = |settings: Settings| move || -> Box<FirstOrder<'static>> { Box::new(Bundle::new(settings.clone()).unwrap()) };
    let strict = Settings { eps: 1e-12, ..Settings::default() };
    let problem = rosenbrock(1.0).estimate_weak_convexity();
    let raised = solve(&problem, &[-1.2, 1.0], strict.clone(), 20);
    assert!(raised.notes.iter().any(|n| matches!(n, Note::ConstantsEstimated { objective: Some(rho), .. } if *rho > 0.0)));
    continues_bit_for_bit_on(
        &problem,
        &[-1.2, 1.0],
        "estimated",
        &[&with(strict.clone()), &with(Settings { adapt: false, max_cuts: 12, ..strict })],
    );
    // Saved after every step, those on which the stop is tried too.
    let file = std::env::temp_dir().join(format!("thalweg-estimated-{}.save", std::process::id()));
    let want = solve(&problem, &[0.5, -0.5], Settings::default(), 2000);
    assert_eq!(want.ended, StopReason::Finished);
    let mut got = None;
    for stop in 1..=want.iterations {
        let (every, settings) = (std::time::Duration::from_secs(3600), String::new());
        let checkpoint = Some(Checkpoint { file: file.clone(), every, resume: true, settings });
        let options = Options { checkpoint, record: Record::nothing(), ..Options::iterations(stop) };
        let mut solver = Bundle::new(Settings::default()).unwrap();
        got = Some(minimize(&problem, &mut solver, &[0.5, -0.5], &options, &mut ()).unwrap());
    }
    std::fs::remove_file(file).unwrap();
    let got = got.unwrap();
    assert_eq!((&got.point, &got.stationary, got.iterations), (&want.point, &want.stationary, want.iterations));
    assert_eq!(got.notes.last(), want.notes.last());
    // The same solver again begins with the constants that the problem gives.
    let mut solver = Bundle::new(Settings::default()).unwrap();
    let mut once = || minimize(&problem, &mut solver, &[-1.2, 1.0], &Options::iterations(200), &mut ()).unwrap();
    assert_eq!(bits(&once()), bits(&once()));
}

#[test]
fn conflicts_are_named_without_a_proof() {
    let problem = Problem::new(1)
        .objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0])
        .constraint("low", |x| x[0] + 1.0, |_, s| s[0] = 1.0)
        .constraint("high", |x| 1.0 - x[0], |_, s| s[0] = -1.0)
        .estimate_weak_convexity();
    let outcome = solve(&problem, &[0.3], Settings::default(), 500);
    let StopReason::Infeasible { conflicting, everywhere, .. } = &outcome.ended else { panic!("{outcome:?}") };
    assert_eq!((conflicting.len(), *everywhere), (2, false));
    // A concave constraint looks hopeless from near its top.
    let hill = Problem::new(1)
        .objective(|x| x[0].abs(), |x, s| s[0] = x[0].signum())
        .constraint("hill", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .estimate_weak_convexity();
    let outcome = solve(&hill, &[0.01], Settings::default(), 500);
    assert!(outcome.point.feasible && (outcome.point.objective - 1.0).abs() < 1e-4, "{outcome:?}");
}

#[test]
fn a_certificate_rejects_a_planted_point_and_calls_itself_estimated() {
    let problem = absolute().estimate_weak_convexity();
    let bad = certify(&problem, &[0.0], &Bounds::default()).unwrap();
    assert!(bad.estimated() && bad.rho_f.source == Source::Estimated, "{bad:?}");
    // All of [-1, 1] needs exactly 2.
    assert!(bad.rho_f.value >= 2.0 - 1e-9 && bad.rho_f.value <= 3.0 + 1e-9 && bad.rho_g[0].value == 0.0, "{bad:?}");
    let bad = certify(&problem, &[-0.7], &Bounds::default()).unwrap();
    assert!(bad.lower > 0.05 && bad.reached, "{bad:?}");
    let good = certify(&problem, &[-1.0], &Bounds::default()).unwrap();
    assert!(good.upper < 1e-5 && good.estimated(), "{good:?}");
    let claimed = certify(&problem, &[-0.7], &Bounds { rho_f: Some(2.0), rho_g: Some(0.0), ..Bounds::default() }).unwrap();
    assert!(!claimed.estimated());
    // What the estimate says is what the same constants say when they are claimed.
    let how = Bounds { rho_f: Some(bad.rho_f.value), rho_g: Some(0.0), mu: Some(bad.mu), ..Bounds::default() };
    let same = certify(&problem, &[-0.7], &how).unwrap();
    assert!(same.lower <= bad.upper && bad.lower <= same.upper, "{same:?} {bad:?}");
    for evaluations in [1, 2, 5, 20, 60] {
        let found = certify(&problem, &[-0.7], &Bounds { evaluations, ..Bounds::default() }).unwrap();
        assert!(found.evaluations <= evaluations, "{found:?}");
    }
    // Where the solver ends the certificate agrees, by its own estimate.
    let problem = rosenbrock(1.0).estimate_weak_convexity();
    let outcome = solve(&problem, &[-1.2, 1.0], Settings::default(), 2000);
    let found = certify(&problem, &outcome.point.x, &Bounds::default()).unwrap();
    assert!(found.estimated() && found.upper < 1e-3, "{found:?}");
    let found = certify(&problem, &[-0.5, 0.3], &Bounds::default()).unwrap();
    assert!(found.lower > 1e-3, "{found:?}");
}

#[test]
fn functions_that_end_somewhere_are_certified_where_they_are() {
    // Defined above -0.1 alone; half of the tried points lie outside.
    let problem = Problem::new(1)
        .objective(|x| x[0] - (x[0] + 0.1).ln(), |x, s| s[0] = 1.0 - 1.0 / (x[0] + 0.1))
        .domain(sets::Bounds::uniform(-5.0, 5.0).unwrap())
        .estimate_weak_convexity();
    let found = certify(&problem, &[0.9], &Bounds::default()).unwrap();
    assert!(found.upper < 1e-5 && found.rho_f.value == 0.0, "{found:?}");
}

#[test]
fn no_constant_is_large_enough_and_the_certificate_ends() {
    let problem = Problem::new(1).objective(|x| -x[0].abs(), |x, s| s[0] = -x[0].signum()).estimate_weak_convexity();
    let found = certify(&problem, &[1e-7], &Bounds::default()).unwrap();
    assert!(found.rho_f.value > 100.0 && found.rho_f.value.is_finite() && found.upper.is_finite(), "{found:?}");
    assert!(found.lower > 0.0, "{found:?}");
}

#[test]
fn whoever_relies_on_a_constant_does_not_take_an_estimate() {
    let problem = absolute().estimate_weak_convexity();
    let refused = |settings: ipp::Settings| {
        let mut solver = Ipp::new(settings).unwrap();
        minimize(&problem, &mut solver, &[0.1], &Options::iterations(50), &mut ())
    };
    let refusal = refused(ipp::Settings::default()).unwrap_err().to_string();
    assert!(refusal.contains("the weak-convexity constant of the objective is not known: give rho_hat"), "{refusal}");
    let inner = Inner::Bundle(Settings::default());
    assert!(refused(ipp::Settings { rho_hat: Some(4.0), inner, ..ipp::Settings::default() }).is_ok());
    let refusal = by_switching(&problem, &[0.1], &Switching::default()).unwrap_err().to_string();
    assert!(refusal.contains("is not known"), "{refusal}");
    let refusal = of_penalty(&problem, &[0.1], &Penalised::default()).unwrap_err().to_string();
    assert!(refusal.contains("is not known"), "{refusal}");
    // Nothing was stated that could be wrong.
    check::subgradient_inequality(&problem, &[0.2], &[0.4], 1e-12).unwrap();
    assert!(check::subgradient_inequality(&absolute().weak_convexity(0.0, 0.0), &[0.2], &[0.4], 1e-12).is_err());
    // Measures that can be taken are not refused.
    Measures { bounds: Some(Bounds::default()), ..Default::default() }.check(&problem, &[0.1]).unwrap();
}

#[test]
fn a_claim_still_fails_where_it_is_wrong() {
    let wrong = absolute().weak_convexity(0.0, 0.0);
    let outcome = solve(&wrong, &[0.3], Settings::default(), 300);
    let StopReason::Failed { reason, .. } = &outcome.ended else { panic!("{outcome:?}") };
    assert!(reason.contains("the weak-convexity constant 0 of the objective is too small"), "{reason}");
    // A setting is a claim, whatever the problem says.
    let settings = Settings { rho_f: Some(0.0), ..Settings::default() };
    let outcome = solve(&absolute().estimate_weak_convexity(), &[0.3], settings, 300);
    assert!(matches!(outcome.ended, StopReason::Failed { .. }), "{outcome:?}");
    let how = Bounds { rho_f: Some(0.0), ..Bounds::default() };
    let refusal = certify(&absolute().estimate_weak_convexity(), &[0.0], &how).unwrap_err().to_string();
    assert!(refusal.contains("is too small"), "{refusal}");
}

#[test]
fn the_choice_says_that_constants_are_estimated() {
    let Choice { config, evidence } = auto::choose(&absolute().estimate_weak_convexity());
    assert_eq!((config.name(), evidence.reason), (SolverName::Bundle, Reason::EstimatesStationarity));
    assert!(evidence.problem().ends_with("the weak-convexity constants are estimated during the run"), "{evidence}");
    assert!(evidence.decision().contains("no proof") && !evidence.decision().contains("proves"), "{evidence}");
    let evidence = auto::choose(&absolute().weak_convexity(2.0, 0.0)).evidence;
    assert_eq!(evidence.reason, Reason::ProvesStationarity);
    assert!(evidence.decision().contains("proves how near"), "{evidence}");
}

/// A small network with kinks of both kinds: the mean of |v . max(0, W x) - b|.
fn network(hidden: usize, inputs: usize, rows: usize) -> Problem {
    let mut rng = Rng::new(12, Purpose::Data);
    let data: Vec<f64> = (0..rows * inputs).map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let targets: Vec<f64> = data.chunks(inputs).map(|r| (2.0 * r[0]).sin() + r[1].abs()).collect();
    let pass = move |x: &[f64], slope: Option<&mut [f64]>| {
        let (weights, last) = x.split_at(hidden * inputs);
        let (mut total, n) = (0.0, rows as f64);
        let mut none = vec![];
        let slope = slope.unwrap_or(&mut none);
        for (row, target) in data.chunks(inputs).zip(&targets) {
            let inner: Vec<f64> = weights.chunks(inputs).map(|w| w.iter().zip(row).map(|(w, r)| w * r).sum()).collect();
            let miss = inner.iter().zip(last).map(|(z, v)| v * z.max(0.0)).sum::<f64>() - target;
            total += miss.abs() / n;
            if !slope.is_empty() {
                for (h, z) in inner.iter().enumerate().filter(|(_, z)| **z > 0.0) {
                    slope[hidden * inputs + h] += miss.signum() * z / n;
                    for (i, r) in row.iter().enumerate() {
                        slope[h * inputs + i] += miss.signum() * last[h] * r / n;
                    }
                }
            }
        }
        total
    };
    let again = pass.clone();
    Problem::new(hidden * inputs + hidden)
        .objective(
            move |x| pass(x, None),
            move |x, s| {
                again(x, Some(s));
            },
        )
        .constraint(
            "short",
            |x| x.iter().map(|x| x * x).sum::<f64>() - 25.0,
            |x, s| s.iter_mut().zip(x).for_each(|(s, x)| *s = 2.0 * x),
        )
}

/// Functions without a constant, or with noise, or with subgradients that are none: a run ends, lower than it began.
#[test]
fn rough_functions_are_descended() {
    let mut rng = Rng::new(3, Purpose::Data);
    let start: Vec<f64> = (0..24).map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let problem = network(6, 3, 40).estimate_weak_convexity();
    let outcome = solve(&problem, &start, Settings::default(), 3000);
    let before = outcome.trace[0].objective;
    assert!(outcome.point.feasible && outcome.point.objective < 0.25 * before, "{before} {:?}", outcome.point);
    assert!(matches!(outcome.ended, StopReason::Finished | StopReason::Budget(_)), "{:?}", outcome.ended);
    // Rounded to 24 bits.
    let single = Problem::new(2)
        .objective(
            |x| f64::from((100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2)) as f32),
            |x, s| {
                let bend = x[1] - x[0] * x[0];
                s[0] = f64::from((-400.0 * x[0] * bend - 2.0 * (1.0 - x[0])) as f32);
                s[1] = f64::from((200.0 * bend) as f32);
            },
        )
        .estimate_weak_convexity();
    let outcome = solve(&single, &[-1.2, 1.0], Settings::default(), 2000);
    assert!(outcome.point.objective < 1e-2, "{:?} {:?}", outcome.ended, outcome.point);
    // Nothing can be seen at the kink itself.
    let blind = Problem::new(1)
        .objective(|x| -x[0].abs(), |x, s| s[0] = if x[0] == 0.0 { 0.0 } else { -x[0].signum() })
        .domain(sets::Bounds::uniform(-1.0, 2.0).unwrap())
        .estimate_weak_convexity();
    let outcome = solve(&blind, &[0.0], Settings::default(), 300);
    assert!(outcome.point.x[0] == -1.0 || outcome.point.x[0] == 2.0, "{outcome:?}");
    // Large and small numbers.
    for scale in [1e-5, 1e5] {
        let problem = Problem::new(1)
            .objective(
                move |x| scale * (x[0] * x[0] - 1.0).abs(),
                move |x, s| s[0] = scale * 2.0 * x[0] * (x[0] * x[0] - 1.0).signum(),
            )
            .estimate_weak_convexity();
        let outcome = solve(&problem, &[-0.2], Settings { eps: 1e-6, ..Settings::default() }, 300);
        assert!((outcome.point.x[0] + 1.0).abs() < 1e-4, "{scale}: {outcome:?}");
        assert_eq!(outcome.ended, StopReason::Finished, "{scale}: {outcome:?}");
    }
}
