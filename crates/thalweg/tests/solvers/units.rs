//! Results do not depend on the units of the functions and of the variables: every problem is solved as it is and with its
//! objective, its constraints and its variables multiplied by numbers from 1e-6 to 1e6.

use std::sync::Arc;

use crate::common::certify;
use thalweg::certify::Bounds;
use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Description, Problem};
use thalweg::run::{Options, Outcome, StopReason, measure, minimize};
use thalweg::sets;
use thalweg::solvers::bundle::Settings;
use thalweg::solvers::{Bundle, Sqp, sqp};

type Value = Arc<dyn Fn(&[f64]) -> f64 + Send + Sync>;
type Slope = Arc<dyn Fn(&[f64], &mut [f64]) + Send + Sync>;

/// A problem in its usual units, with its solution.
struct Case {
    name: &'static str,
    start: Vec<f64>,
    objective: (Value, Slope),
    constraints: Vec<(Value, Slope)>,
    domain: Option<(f64, f64)>,
    rho: (f64, f64),
    optimum: f64,
    solution: Vec<f64>,
}

/// Factors on the objective, on each constraint and on the variables.
#[derive(Debug, Clone, Copy)]
struct Scale {
    f: f64,
    g: f64,
    x: f64,
}

fn function(
    value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
    slope: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static,
) -> (Value, Slope) {
    (Arc::new(value), Arc::new(slope))
}

impl Case {
    /// The problem whose variables are `scale.x` times the usual ones.
    fn problem(&self, scale: Scale) -> Problem {
        let change = |(value, slope): &(Value, Slope), by: f64| {
            let (value, slope) = (value.clone(), slope.clone());
            let usual = move |x: &[f64]| x.iter().map(|x| x / scale.x).collect::<Vec<f64>>();
            let again = usual;
            (
                move |x: &[f64]| by * value(&usual(x)),
                move |x: &[f64], s: &mut [f64]| {
                    slope(&again(x), s);
                    s.iter_mut().for_each(|s| *s *= by / scale.x);
                },
            )
        };
        let (value, slope) = change(&self.objective, scale.f);
        let mut problem = Problem::new(self.start.len()).objective(value, slope);
        for (j, g) in self.constraints.iter().enumerate() {
            let (value, slope) = change(g, scale.g);
            problem = problem.constraint(format!("g{j}"), value, slope);
        }
        let square = scale.x * scale.x;
        problem = problem.weak_convexity(self.rho.0 * scale.f / square, self.rho.1 * scale.g / square);
        match self.domain {
            Some((low, high)) => problem.domain(sets::Bounds::uniform(low * scale.x, high * scale.x).unwrap()),
            None => problem,
        }
    }

    fn solve(&self, scale: Scale) -> Outcome {
        let start: Vec<f64> = self.start.iter().map(|x| scale.x * x).collect();
        let mut solver = Bundle::new(Settings::default()).unwrap();
        minimize(&self.problem(scale), &mut solver, &start, &Options::iterations(2_000), &mut ()).unwrap()
    }
}

fn cases() -> Vec<Case> {
    let linear = |a: Vec<f64>, b: f64| {
        let row = a.clone();
        function(move |x| a.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - b, move |_, s| s.copy_from_slice(&row))
    };
    vec![
        Case {
            name: "quadratic",
            start: vec![3.0, -2.0],
            objective: function(
                |x| x[0] * x[0] + 0.5 * x[1] * x[1] - x[0] - 0.3 * x[1],
                |x, s| s.copy_from_slice(&[2.0 * x[0] - 1.0, x[1] - 0.3]),
            ),
            constraints: vec![],
            domain: None,
            rho: (0.0, 0.0),
            optimum: -0.295,
            solution: vec![0.5, 0.3],
        },
        Case {
            name: "corner of a disc",
            start: vec![0.0, 0.0],
            objective: linear(vec![-1.0, -1.0], 0.0),
            constraints: vec![
                function(|x| x[0] * x[0] + x[1] * x[1] - 1.0, |x, s| s.copy_from_slice(&[2.0 * x[0], 2.0 * x[1]])),
                linear(vec![1.0, 0.0], 0.5),
            ],
            domain: None,
            rho: (0.0, 0.0),
            optimum: -1.366_025_403_784,
            solution: vec![0.5, 0.866_025_403_784],
        },
        Case {
            name: "kink with a cap",
            start: vec![-0.2],
            objective: function(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum()),
            constraints: vec![linear(vec![1.0], 0.5)],
            domain: Some((-2.0, 2.0)),
            rho: (2.0, 0.0),
            optimum: 0.0,
            solution: vec![-1.0],
        },
        Case {
            name: "outside of a circle",
            start: vec![1.5],
            objective: function(|x| (x[0] - 0.2).powi(2), |x, s| s[0] = 2.0 * (x[0] - 0.2)),
            constraints: vec![function(|x| 1.0 - x[0] * x[0], |x, s| s[0] = -2.0 * x[0])],
            domain: None,
            rho: (0.0, 2.0),
            optimum: 0.64,
            solution: vec![1.0],
        },
        Case {
            name: "cheapest mixture",
            start: vec![0.0, 0.0],
            objective: linear(vec![50.0, 70.0], 0.0),
            constraints: vec![linear(vec![-1.0, -1.0], -1.0)],
            domain: Some((0.0, f64::INFINITY)),
            rho: (0.0, 0.0),
            optimum: 50.0,
            solution: vec![1.0, 0.0],
        },
    ]
}

#[test]
fn the_answer_does_not_depend_on_the_units() {
    let scales = [1e-6, 1e-3, 1.0, 1e3, 1e6];
    for case in cases() {
        for (f, g, x) in
            scales.iter().flat_map(|&s| [(s, 1.0, 1.0), (1.0, s, 1.0), (1.0, 1.0, s), (s, 1.0 / s, s), (s, s, 1.0 / s)])
        {
            let scale = Scale { f, g, x };
            let outcome = case.solve(scale);
            let say = format!("{} {scale:?}: {:?} {:?}", case.name, outcome.ended, outcome.point);
            assert_eq!(outcome.ended, StopReason::Finished, "{say}");
            assert!(outcome.point.feasible, "{say}");
            let range = case.optimum.abs().max(1.0);
            assert!((outcome.point.objective / f - case.optimum).abs() <= 1e-4 * range, "{say}");
            let near = outcome.point.x.iter().zip(&case.solution).all(|(got, want)| (got / x - want).abs() <= 1e-2);
            assert!(near, "{say}");
        }
    }
}

/// Each variable has a unit of its own, which the domain shows: the optimum of `-3 u - 2 v - w` with `u + v + w <= 1.5` over the
/// unit cube is -4, at (1, 0.5, 0).
#[test]
fn every_variable_may_have_a_unit_of_its_own() {
    let weights = [3.0, 2.0, 1.0];
    for widths in [[1e-3, 1e3, 1.0], [1e3, 1e-3, 1.0], [1.0, 1e-3, 1e3], [1e3, 1.0, 1e-3], [1.0, 1e3, 1e-3], [1e-3, 1.0, 1e3]] {
        for unit in [1e-5, 1.0, 1e5] {
            let scaled = move |x: &[f64]| (0..3).map(|k| x[k] / widths[k]).collect::<Vec<f64>>();
            let problem = Problem::new(3)
                .objective(
                    move |x| -scaled(x).iter().zip(weights).map(|(u, w)| w * u).sum::<f64>(),
                    move |_, s| (0..3).for_each(|k| s[k] = -weights[k] / widths[k]),
                )
                .constraint(
                    "budget",
                    move |x| unit * (scaled(x).iter().sum::<f64>() - 1.5),
                    move |_, s| (0..3).for_each(|k| s[k] = unit / widths[k]),
                )
                .weak_convexity(0.0, 0.0)
                .domain(sets::Bounds::each(vec![0.0; 3], widths.to_vec()).unwrap());
            let mut solver = Bundle::new(Settings::default()).unwrap();
            let outcome = minimize(&problem, &mut solver, &[0.0; 3], &Options::iterations(1_000), &mut ()).unwrap();
            let say = format!("{widths:?} {unit:e}: {:?} {:?}", outcome.ended, outcome.point);
            assert_eq!(outcome.ended, StopReason::Finished, "{say}");
            assert!(outcome.point.feasible && (outcome.point.objective + 4.0).abs() < 1e-3, "{say}");
        }
    }
    // Feasible means satisfied in the units of the variables: u + v <= 1 is violated by 1e-3 here.
    let flat = Problem::new(2)
        .constraint("sum", |x| 1e3 * x[0] + 1e-3 * x[1] - 1.0, |_, s| s.copy_from_slice(&[1e3, 1e-3]))
        .weak_convexity(0.0, 0.0)
        .domain(sets::Bounds::each(vec![0.0, 0.0], vec![1e-3, 1e3]).unwrap());
    let found = certify(&flat, &[5.01e-4, 500.0], &Bounds::default()).unwrap();
    assert!(!found.point.feasible, "{found:?}");
}

/// The optimum is a million units away from the start.
#[test]
fn a_solution_that_is_far_away_is_found() {
    for far in [1e4, 1e6, 1e9] {
        let problem = Problem::new(2)
            .objective(|x| 50.0 * x[0] + 70.0 * x[1], |_, s| s.copy_from_slice(&[50.0, 70.0]))
            .constraint("demand", move |x| far - x[0] - x[1], |_, s| s.fill(-1.0))
            .weak_convexity(0.0, 0.0)
            .domain(sets::NonNegative);
        let mut solver = Bundle::new(Settings::default()).unwrap();
        let outcome = minimize(&problem, &mut solver, &[0.0, 0.0], &Options::iterations(500), &mut ()).unwrap();
        assert_eq!(outcome.ended, StopReason::Finished, "{far}: {:?}", outcome.point);
        assert!(
            outcome.point.feasible && (outcome.point.objective / (50.0 * far) - 1.0).abs() < 1e-5,
            "{far}: {:?}",
            outcome.point
        );
    }
}

#[test]
fn a_constraint_is_violated_in_its_own_units() {
    // x <= 1e-9 at 9e-7, and 1e-8 (x - 1) >= 0 at 0.
    let small = Problem::new(1).constraint("small", |x| x[0] - 1e-9, |_, s| s[0] = 1.0).weak_convexity(0.0, 0.0);
    let flat = Problem::new(1).constraint("flat", |x| 1e-8 * (1.0 - x[0]), |_, s| s[0] = -1e-8).weak_convexity(0.0, 0.0);
    for (problem, x) in [(&small, 9e-7), (&flat, 0.0)] {
        let found = certify(problem, &[x], &Bounds::default()).unwrap();
        assert!(!found.point.feasible && !found.certified(), "{found:?}");
        let outcome =
            minimize(problem, &mut Bundle::new(Settings::default()).unwrap(), &[x], &Options::iterations(0), &mut ()).unwrap();
        assert!(!outcome.point.feasible, "{outcome:?}");
        // And a run satisfies it.
        let outcome =
            minimize(problem, &mut Bundle::new(Settings::default()).unwrap(), &[x], &Options::iterations(100), &mut ()).unwrap();
        assert!(outcome.point.feasible, "{outcome:?}");
    }
    // Without units of their own, the values alone decide as before.
    assert!(measure(&flat, &[0.0], 1e-6).unwrap().feasible);
    // 1e-7 x >= 1e-7 and -1e-7 x >= 1e-7.
    let pair = Problem::new(1)
        .constraint("right", |x| 1e-7 - 1e-7 * x[0], |_, s| s[0] = -1e-7)
        .constraint("left", |x| 1e-7 + 1e-7 * x[0], |_, s| s[0] = 1e-7)
        .weak_convexity(0.0, 0.0);
    let outcome =
        minimize(&pair, &mut Bundle::new(Settings::default()).unwrap(), &[0.0], &Options::iterations(100), &mut ()).unwrap();
    assert!(!outcome.point.feasible && matches!(outcome.ended, StopReason::Infeasible { .. }), "{outcome:?}");
}

/// Rows with three columns, one of them rare, and two groups that differ.
fn rows(columns: [f64; 3]) -> Data {
    let mut rng = Rng::new(11, Purpose::Data);
    let mut gauss = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
    let (mut features, mut labels, mut of_row) = (vec![], vec![], vec![]);
    for i in 0..240_u32 {
        let group = i % 2;
        let row = [gauss() + 0.6 * f64::from(group), gauss(), f64::from(u8::from(i % 9 == 0))];
        labels.push(if row[0] - 0.5 * row[1] + row[2] + 0.8 * gauss() > 0.2 { 1.0 } else { -1.0 });
        features.extend(row.iter().zip(columns).map(|(v, by)| v * by));
        of_row.push(group);
    }
    let groups = Some(Groups { names: vec!["a".into(), "b".into()], of_row });
    Data { features: Matrix::dense(labels.len(), 3, features).unwrap(), labels, groups, weights: None }
}

fn terms(columns: [f64; 3], (f, objective): (f64, &str), (g, constraint, bound): (f64, &str, f64)) -> Learning {
    let builder = Learning::on(rows(columns)).intercept(true).minimize(format!("{f:e} * {objective}").parse().unwrap());
    builder.subject_to(format!("{g:e} * {constraint} <= {:e}", g * bound).parse().unwrap()).build().unwrap()
}

/// Factors on the objective, on the constraint, and on the columns.
fn scales_of_terms() -> Vec<(f64, f64, [f64; 3])> {
    let mut all = vec![];
    for s in [1e-6, 1e-3, 1e3, 1e6] {
        all.extend([
            (s, 1.0, [1.0; 3]),
            (1.0, s, [1.0; 3]),
            (s, 1.0 / s, [1.0; 3]),
            (s, s, [s, 1.0, 1.0 / s]),
            (1.0, 1.0, [s; 3]),
        ]);
    }
    all
}

/// Terms with kinks by the bundle method, smooth terms by sequential quadratic programming.
#[test]
fn terms_on_data_do_not_depend_on_factors_and_columns() {
    let solve = |bundle: bool, problem: &Learning| {
        let options = Options::iterations(2_000);
        let start = vec![0.0; problem.dim()];
        if bundle {
            minimize(problem, &mut Bundle::new(Settings::default()).unwrap(), &start, &options, &mut ()).unwrap()
        } else {
            minimize(problem, &mut Sqp::new(sqp::Settings::default()).unwrap(), &start, &options, &mut ()).unwrap()
        }
    };
    for (bundle, objective, constraint, bound) in [
        (true, "hinge", "demographic_parity", 0.05),
        (true, "roc_gap(thresholds = 9, low = -2, high = 2)", "hinge", 0.7),
        (false, "logistic", "demographic_parity", 0.05),
        (false, "demographic_parity", "logistic", 0.5),
        // Proved to be impossible within some distance, whatever the units.
        (true, "hinge", "hinge", 0.2),
    ] {
        let usual = solve(bundle, &terms([1.0; 3], (1.0, objective), (1.0, constraint, bound)));
        for (f, g, columns) in scales_of_terms() {
            let outcome = solve(bundle, &terms(columns, (f, objective), (g, constraint, bound)));
            let say = format!(
                "{objective} {constraint} {f:e} {g:e} {columns:?}: {:?} {:?}, {:?}",
                outcome.ended, outcome.point, usual.point
            );
            assert_eq!(std::mem::discriminant(&outcome.ended), std::mem::discriminant(&usual.ended), "{say}");
            assert_eq!(outcome.point.feasible, usual.point.feasible, "{say}");
            if !usual.point.feasible {
                assert!((outcome.point.violation / g - usual.point.violation).abs() <= 1e-3, "{say}");
                continue;
            }
            assert!((outcome.point.objective / f - usual.point.objective).abs() <= 2e-4, "{say}");
            assert!(outcome.point.violation <= 1e-6 * g, "{say}");
            let [got, want] = [&outcome, &usual].map(|o| o.multipliers.as_ref().unwrap()[0]);
            assert!((got * g / f - want).abs() <= 0.02 * want + 1e-6, "{got} {want} {say}");
        }
    }
}

/// A violation of a hundredth of a term with a small factor is not feasible.
#[test]
fn a_constraint_on_a_term_is_violated_in_units_of_its_factor() {
    for factor in [1e-8, 1e-3, 1.0, 1e6] {
        let problem = terms([1.0; 3], (1.0, "l2"), (factor, "hinge", 0.99));
        let point = measure(&problem, &[0.0; 4], 1e-6).unwrap();
        assert!(!point.feasible && (point.violation / factor - 0.01).abs() < 1e-9, "{factor}: {point:?}");
        assert!(measure(&terms([1.0; 3], (1.0, "l2"), (factor, "hinge", 1.0)), &[0.0; 4], 1e-6).unwrap().feasible);
    }
    // Weights of columns of a million are of the order of 1e-6.
    let sparse = terms([1e6; 3], (1.0, "hinge"), (1.0, "l1", 1e-7));
    assert!(!measure(&sparse, &[3e-7, 0.0, 0.0, 0.0], 1e-6).unwrap().feasible);
}
