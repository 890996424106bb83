//! The proximal bundle method and the certificate with bounds, on problems with known answers.
use crate::common::{certify, continues_bit_for_bit, same_bits_on_two_threads};
use thalweg::certify::Bounds;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::Problem;
use thalweg::run::{Diagnostics, Observer, Options, Outcome, Record, Row, StopReason, minimize};
use thalweg::sets;
use thalweg::solvers::Bundle;
use thalweg::solvers::bundle::Settings;

fn absolute() -> Problem {
    Problem::new(1)
        .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
        .constraint("cap", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
        .weak_convexity(2.0, 0.0)
        .domain(sets::Bounds::uniform(-2.0, 2.0).unwrap())
}

fn corner() -> Problem {
    Problem::new(2)
        .objective(|x| -x[0] - x[1], |_, s| s.copy_from_slice(&[-1.0, -1.0]))
        .constraint("disc", |x| x[0] * x[0] + x[1] * x[1] - 1.0, |x, s| s.copy_from_slice(&[2.0 * x[0], 2.0 * x[1]]))
        .constraint("side", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
        .weak_convexity(0.0, 0.0)
}

fn solve(problem: &Problem, start: &[f64], settings: Settings, steps: u64) -> Outcome {
    let mut solver = Bundle::new(settings).unwrap();
    let outcome = minimize(problem, &mut solver, start, &Options::iterations(steps), &mut ()).unwrap();
    confirm(problem, &outcome);
    outcome
}

/// What the method states about its point is what the certificate finds out from the point alone.
fn confirm(problem: &Problem, outcome: &Outcome) {
    let Some(stated) = &outcome.stationary else { return };
    // Below this the bounds are rounding.
    let target = stated.upper.max(3e-7);
    let how = Bounds {
        mu: Some(stated.mu),
        rho_f: Some(stated.rho_f),
        rho_g: stated.rho_g.first().copied(),
        target,
        width: 0.0,
        evaluations: 2_000,
        ..Bounds::default()
    };
    let found = certify(problem, &outcome.point.x, &how).unwrap();
    assert!(found.lower <= target && found.upper <= target.max(2.0 * found.resolution), "{found:?} {stated:?}");
    assert!((found.relaxed - stated.relaxed).abs() <= 1e-13 * (1.0 + found.relaxed), "{} {}", found.relaxed, stated.relaxed);
    assert!(outcome.point.feasible);
}

/// An iterate, multipliers and an upper bound.
type Knew = (Vec<f64>, Option<Vec<f64>>, Option<f64>);

/// Keeps what the method knew at each recorded iterate.
#[derive(Default)]
struct Told(Vec<Knew>);

impl Observer for Told {
    fn recorded(&mut self, _: &Row, x: &[f64], known: &Diagnostics) {
        self.0.push((x.to_vec(), known.multipliers.map(<[f64]>::to_vec), known.upper));
    }
}

/// The two ways of making steps.
fn both(eps: f64) -> [Settings; 2] {
    [true, false].map(|adapt| Settings { eps, adapt, ..Settings::default() })
}

fn near(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

#[test]
fn intervals_contain_the_worked_distances() {
    for (centre, xhat, multiplier) in [(0.25, 0.5, 0.0), (0.5, 0.5, 1.0), (-0.9, -1.0, 0.0_f64)] {
        let how = Bounds { mu: Some(2.0), width: 0.0, target: 0.0, evaluations: 40, ..Bounds::default() };
        let found = certify(&absolute(), &[centre], &how).unwrap();
        let distance: f64 = (xhat - centre).abs();
        assert!(found.lower <= distance + 1e-12 && distance <= found.upper + 1e-12, "{found:?}");
        assert!(found.upper - found.lower <= 1e-6, "{centre}: {found:?}");
        assert!((found.multipliers[0] - multiplier).abs() < 1e-5, "{centre}: {found:?}");
    }
}

#[test]
fn the_corner_of_a_disc_is_found_with_its_multipliers() {
    let outcome = solve(&corner(), &[0.0, 0.0], Settings { eps: 1e-7, ..Settings::default() }, 60);
    assert!((outcome.point.objective + 1.3660254).abs() < 1e-6, "{outcome:?}");
    assert!(outcome.point.feasible);
    let multipliers = outcome.multipliers.unwrap();
    assert!((multipliers[0] - 0.5773503).abs() < 1e-4 && (multipliers[1] - 0.4226497).abs() < 1e-4, "{multipliers:?}");
}

#[test]
fn a_weakly_convex_constraint_is_kept() {
    let problem = Problem::new(1)
        .objective(|x| (x[0] - 0.2).powi(2), |x, s| s[0] = 2.0 * (x[0] - 0.2))
        .constraint("outside", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .weak_convexity(0.0, 2.0);
    let outcome = solve(&problem, &[1.5], Settings { eps: 1e-5, ..Settings::default() }, 100);
    assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
    assert!((outcome.point.x[0] - 1.0).abs() < 1e-5 && outcome.point.feasible, "{outcome:?}");
    assert!((outcome.multipliers.unwrap()[0] - 0.8).abs() < 1e-3);
}

#[test]
fn conflicting_constraints_are_named() {
    let problem = Problem::new(1)
        .objective(|x| x[0], |_, s| s[0] = 1.0)
        .constraint("left", |x| x[0] + 1.0, |_, s| s[0] = 1.0)
        .constraint("right", |x| 1.0 - x[0], |_, s| s[0] = -1.0)
        .constraint("idle", |x| x[0] - 9.0, |_, s| s[0] = 1.0)
        .weak_convexity(0.0, 0.0);
    let outcome = solve(&problem, &[5.0], Settings::default(), 100);
    let StopReason::Infeasible { conflicting, everywhere, radius: Some(radius) } = &outcome.ended else { panic!("{outcome:?}") };
    assert_eq!(conflicting, &["left", "right"]);
    // The mean of the two cuts is flat up to rounding, which proves the conflict as far as numbers allow.
    assert!(!everywhere && *radius > 1e12 && !outcome.success(), "{radius}");
    assert!(outcome.point.x[0].abs() < 1e-3 && (outcome.point.violation - 1.0).abs() < 1e-3, "{outcome:?}");
}

#[test]
fn observers_are_told_multipliers_and_bounds_that_hold_on_the_way() {
    let mut on_the_way = 0;
    for (problem, start) in [(corner(), vec![0.0, 0.0]), (corner(), vec![1.5, 2.0]), (absolute(), vec![-0.2])] {
        for settings in both(1e-6) {
            let mut told = Told::default();
            let options = Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(200) };
            // Without a given coefficient, a bound on the way could belong to another one than that at the end.
            let mut solver = Bundle::new(Settings { mu: Some(2.0), ..settings }).unwrap();
            let outcome = minimize(&problem, &mut solver, &start, &options, &mut told).unwrap();
            assert_eq!((&told.0[0].1, told.0[0].2), (&None, None), "nothing was asked for at the start");
            let (_, multipliers, upper) = told.0.last().unwrap();
            assert_eq!(multipliers, &outcome.multipliers);
            assert_eq!(*upper, outcome.stationary.as_ref().map(|s| s.upper));
            for (x, _, upper) in &told.0[..told.0.len() - 1] {
                let Some(upper) = upper else { continue };
                let mu = outcome.stationary.as_ref().map(|s| s.mu);
                let found = certify(&problem, x, &Bounds { mu, target: 0.0, width: 1e-3, ..Bounds::default() }).unwrap();
                assert!(found.lower <= upper * (1.0 + 1e-9) + 1e-9, "{found:?} {upper}");
                on_the_way += 1;
            }
        }
    }
    assert!(on_the_way >= 10, "{on_the_way}");
}

#[test]
fn planted_points_are_rejected() {
    let found = certify(&corner(), &[0.0, 0.0], &Bounds::default()).unwrap();
    assert!(found.lower > 0.1, "{found:?}");
    let found = certify(&corner(), &[1.0, 1.0], &Bounds::default()).unwrap();
    assert!(!found.point.feasible && !found.certified(), "{found:?}");
    assert!(found.lower > 0.0);
}

#[test]
fn a_claimed_constant_that_is_too_small_is_found_out() {
    let problem = Problem::new(1)
        .objective(|x| -x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .weak_convexity(1.0, 0.0)
        .domain(sets::Bounds::uniform(-2.0, 2.0).unwrap());
    let refusal = certify(&problem, &[0.5], &Bounds { mu: Some(1.0), ..Bounds::default() }).unwrap_err().to_string();
    assert!(refusal.contains("the weak-convexity constant 1 of the objective is too small"), "{refusal}");
    assert!(refusal.contains("needs at least 2.0"), "{refusal}");
    let outcome = solve(&problem, &[0.5], Settings::default(), 50);
    assert!(matches!(&outcome.ended, StopReason::Failed { reason, .. } if reason.contains("too small")), "{outcome:?}");
}

#[test]
fn a_box_that_holds_the_solution_back() {
    let problem = Problem::new(2)
        .objective(
            |x| (x[0] - 3.0).powi(2) + (x[1] - 1.0).powi(2),
            |x, s| s.copy_from_slice(&[2.0 * (x[0] - 3.0), 2.0 * (x[1] - 1.0)]),
        )
        .constraint("line", |x| x[0] + x[1] - 1.5, |_, s| s.fill(1.0))
        .weak_convexity(0.0, 0.0)
        .domain(sets::Bounds::uniform(-1.0, 1.0).unwrap());
    for settings in both(1e-5) {
        let outcome = solve(&problem, &[-1.0, 1.0], settings, 200);
        assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
        assert!(near(&outcome.point.x, &[1.0, 0.5], 1e-4), "{outcome:?}");
        assert!((outcome.multipliers.unwrap()[0] - 1.0).abs() < 1e-2);
    }
}

#[test]
fn a_ball_that_holds_the_solution_back() {
    let problem = Problem::new(3)
        .objective(|x| -x[0] - 2.0 * x[1], |_, s| s[..2].copy_from_slice(&[-1.0, -2.0]))
        .weak_convexity(0.0, 0.0)
        .domain(sets::Ball::new(1.0).unwrap());
    for settings in both(1e-4) {
        let outcome = solve(&problem, &[0.0, 0.0, 0.9], settings, 200);
        assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
        let root = 5.0_f64.sqrt();
        assert!((outcome.point.objective + root).abs() < 1e-4, "{outcome:?}");
        assert!(near(&outcome.point.x, &[1.0 / root, 2.0 / root, 0.0], 2e-3), "{outcome:?}");
    }
}

#[test]
fn a_product_of_a_ball_and_an_interval() {
    let blocks: Vec<(usize, Box<dyn sets::Set>)> =
        vec![(2, Box::new(sets::Ball::new(1.0).unwrap())), (1, Box::new(sets::Bounds::uniform(0.0, 1.0).unwrap()))];
    let problem = Problem::new(3)
        .objective(
            |x| -x[0] - x[1] + (x[2] - 2.0).powi(2) - 0.5 * x[2] * x[2],
            |x, s| s.copy_from_slice(&[-1.0, -1.0, 2.0 * (x[2] - 2.0) - x[2]]),
        )
        .constraint("sum", |x| x[0] + x[2] - 1.2, |_, s| s.copy_from_slice(&[1.0, 0.0, 1.0]))
        .weak_convexity(1.0, 0.0)
        .domain(sets::Product::new(blocks).unwrap());
    // With x0 = cos t, x1 = sin t, x2 = 1.2 - x0 <= 1: the interval holds x2 at 1, and x0 is 0.2.
    for settings in both(1e-4) {
        let outcome = solve(&problem, &[0.1, 0.0, 0.1], settings, 300);
        assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
        assert!(near(&outcome.point.x, &[0.2, 0.96_f64.sqrt(), 1.0], 2e-3), "{outcome:?}");
    }
}

#[test]
fn several_constraints_have_their_multipliers() {
    let problem = Problem::new(3)
        .objective(
            |x| x.iter().map(|x| (x - 1.0).powi(2)).sum(),
            |x, s| s.iter_mut().zip(x).for_each(|(s, x)| *s = 2.0 * (x - 1.0)),
        )
        .constraint("first", |x| x[0] - 0.3, |_, s| s[0] = 1.0)
        .constraint("second", |x| x[1].abs() - 0.25, |x, s| s[1] = x[1].signum())
        .constraint("both", |x| x[0] + x[2] - 1.0, |_, s| s.copy_from_slice(&[1.0, 0.0, 1.0]))
        .constraint("idle", |x| x[2] - 5.0, |_, s| s[2] = 1.0)
        .weak_convexity(0.0, 0.0);
    for settings in both(1e-5) {
        let outcome = solve(&problem, &[4.0, -3.0, 7.0], settings, 300);
        assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
        assert!(near(&outcome.point.x, &[0.3, 0.25, 0.7], 1e-4), "{outcome:?}");
        assert!(near(&outcome.multipliers.unwrap(), &[0.8, 1.5, 0.6, 0.0], 1e-2));
    }
}

#[test]
fn an_infeasible_start_on_a_weakly_convex_constraint() {
    let problem = Problem::new(1)
        .objective(|x| (x[0] - 0.2).powi(2), |x, s| s[0] = 2.0 * (x[0] - 0.2))
        .constraint("outside", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .weak_convexity(0.0, 2.0);
    for settings in both(1e-5) {
        let outcome = solve(&problem, &[0.3], settings, 200);
        assert_eq!(outcome.ended, StopReason::Finished, "{outcome:?}");
        assert!((outcome.point.x[0] - 1.0).abs() < 1e-4, "{outcome:?}");
    }
}

/// x^2 >= 1 and x^2 <= 1/4: the larger violation is least, 3/8, where x^2 = 5/8; for other points near there, not everywhere.
#[test]
fn weakly_convex_constraints_that_conflict() {
    let problem = Problem::new(1)
        .objective(|x| x[0], |_, s| s[0] = 1.0)
        .constraint("far", |x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])
        .constraint("close", |x| x[0] * x[0] - 0.25, |x, s| s[0] = 2.0 * x[0])
        .constraint("idle", |x| x[0] - 3.0, |_, s| s[0] = 1.0)
        .weak_convexity(0.0, 2.0);
    for settings in both(1e-4) {
        let outcome = solve(&problem, &[0.9], settings, 300);
        let StopReason::Infeasible { conflicting, everywhere, .. } = &outcome.ended else { panic!("{outcome:?}") };
        assert_eq!(conflicting, &["far", "close"]);
        assert!(!everywhere && !outcome.success());
        assert!((outcome.point.violation - 0.375).abs() < 1e-3, "{outcome:?}");
    }
}

/// Nine pieces are active at the solution; merged cuts stand for what there is no room for.
#[test]
fn few_cuts_are_enough() {
    let (dim, mut rng) = (10, Rng::new(8, Purpose::Data));
    let pieces: Vec<Vec<f64>> = (0..30).map(|_| (0..=dim).map(|_| 2.0 * rng.uniform() - 1.0).collect()).collect();
    let value =
        |piece: &[f64], x: &[f64]| -> f64 { piece.iter().zip(x).map(|(p, x)| p * x + 0.05 * x * x).sum::<f64>() + piece[10] };
    let (ours, theirs) = (pieces.clone(), pieces);
    let problem = Problem::new(dim)
        .objective(
            move |x| ours.iter().map(|piece| value(piece, x)).fold(f64::NEG_INFINITY, f64::max),
            move |x, s| {
                let largest = theirs.iter().max_by(|a, b| value(a, x).total_cmp(&value(b, x))).unwrap();
                s.iter_mut().zip(largest).zip(x).for_each(|((s, p), x)| *s = p + 0.1 * x);
            },
        )
        .weak_convexity(0.0, 0.0);
    let many = solve(&problem, &[1.0; 10], Settings { eps: 1e-5, ..Settings::default() }, 2_000);
    assert_eq!(many.ended, StopReason::Finished, "{many:?}");
    let above = |few: &Outcome| few.point.objective - many.point.objective;
    for settings in both(1e-4) {
        let few = solve(&problem, &[1.0; 10], Settings { max_cuts: 10, ..settings.clone() }, 250);
        assert_eq!(few.ended, StopReason::Finished, "{}", above(&few));
        assert!(above(&few) < 1e-7, "{}", above(&few));
        // Fewer than are active at the solution: slow, as for any aggregate, but it does not stall.
        let [early, late] =
            [500, 20_000].map(|steps| solve(&problem, &[1.0; 10], Settings { max_cuts: 8, ..settings.clone() }, steps));
        assert!(above(&late) < 1e-5 && above(&late) < 0.5 * above(&early), "{} {}", above(&early), above(&late));
    }
}

#[test]
fn a_saved_run_continues_bit_for_bit() {
    let with = |settings: Settings| {
        move || -> Box<thalweg::solvers::FirstOrder<'static>> { Box::new(Bundle::new(settings.clone()).unwrap()) }
    };
    let small = Settings { eps: 1e-12, max_cuts: 12, ..Settings::default() };
    continues_bit_for_bit(
        "bundle",
        &[
            &with(Settings { eps: 1e-12, ..Settings::default() }),
            &with(small.clone()),
            &with(Settings { adapt: false, mu: Some(0.5), cuts_per_visit: 1, ..small }),
        ],
    );
}

#[test]
fn two_threads_give_the_bits_of_one() {
    let with = |settings: Settings| {
        move || -> Box<thalweg::solvers::FirstOrder<'static>> { Box::new(Bundle::new(settings.clone()).unwrap()) }
    };
    same_bits_on_two_threads(&[
        &with(Settings { eps: 1e-12, ..Settings::default() }),
        &with(Settings { eps: 1e-12, adapt: false, max_cuts: 20, ..Settings::default() }),
    ]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let base = Settings::default;
    for (settings, name) in [
        (Settings { mu: Some(0.0), ..base() }, "mu"),
        (Settings { mu: Some(f64::INFINITY), ..base() }, "mu"),
        (Settings { rho_f: Some(-1.0), ..base() }, "rho_f"),
        (Settings { rho_g: Some(f64::NAN), ..base() }, "rho_g"),
        (Settings { eps: 0.0, ..base() }, "eps"),
        (Settings { kappa: 1.0, ..base() }, "kappa"),
        (Settings { max_cuts: 3, ..base() }, "max_cuts"),
        (Settings { cuts_per_visit: 0, ..base() }, "cuts_per_visit"),
        (Settings { elastic: -2.0, ..base() }, "elastic"),
    ] {
        let refusal = Bundle::new(settings).unwrap_err().to_string();
        assert!(refusal.contains(name), "{refusal}");
    }
    let problem = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0);
    let mut solver = Bundle::new(base()).unwrap();
    let refusal = minimize(&problem, &mut solver, &[0.0], &Options::iterations(3), &mut ()).unwrap_err().to_string();
    assert!(refusal.contains("no known weak-convexity constant"), "{refusal}");
}

/// The constraint needs a price of 3e6 and hardly changes near the start: no reason to call it hopeless.
#[test]
fn a_flat_constraint_is_not_taken_for_one_that_cannot_be_kept() {
    let problem = Problem::new(1)
        .objective(|x| 0.5 * x[0] * x[0], |x, s| s[0] = x[0])
        .constraint("flat", |x| 1e-6 * (3.0 - x[0]), |_, s| s[0] = -1e-6)
        .weak_convexity(0.0, 0.0);
    let outcome = solve(&problem, &[0.0], Settings::default(), 300);
    assert!(!matches!(outcome.ended, StopReason::Infeasible { .. }), "{outcome:?}");
    // Within the tolerance of 1e-6 the constraint holds from 2 on.
    assert!(outcome.point.feasible && outcome.point.x[0] >= 2.0, "{outcome:?}");
}
