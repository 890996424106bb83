//! The two bilevel problems on data: the probe of an independent implementation, derivatives, the inner problem in closed form, what a
//! large sigma promises, counts, refusals, and no allocation in a step.

use std::sync::Arc;

use thalweg::bilevel::problems::{GroupWeights, HyperRepresentation};
use thalweg::bilevel::{self, Bilevel, Derivatives, Form, InnerSteps, Pair, PreparedProblem, Pull, SingleLevel};
use thalweg::eval::Evaluator;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{At, Description, Draw, Pick, Scratch, Subgradients, Values, Warm, check};
use thalweg::run::{self, Options, Record};
use thalweg::sets::Set;
use thalweg::solvers::{Adaprox, Eval, Method, Pd, Solver, Ssg, StepKind, ValueEval, adaprox, pd};

const PRODUCTS: &str = "products with second derivatives";

fn table(rows: usize, cols: usize, entry: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    (0..rows * cols).map(|k| entry((k / cols + 1) as f64, (k % cols + 1) as f64)).collect()
}

/// Rows with labels and groups that are random.
fn group_weights(columns: usize, groups: usize, seed: u64) -> GroupWeights {
    let mut rng = Rng::new(seed, Purpose::Data);
    let mut rows = |n: usize| {
        let mut entries = vec![0.0; n * columns];
        rng.normals(&mut entries);
        let labels: Vec<f64> = entries.chunks(columns).map(|row| (row[0] + 0.5 * row[1]).signum()).collect();
        (Matrix::dense(n, columns, entries).unwrap(), labels)
    };
    // Fewer rows than columns: there are many models that fit.
    let (training, validation) = (rows(columns - 1), rows(2 * columns));
    let of_row: Vec<usize> = (0..training.1.len()).map(|i| i % groups).collect();
    GroupWeights::new((&training.0, &training.1), &of_row, (&validation.0, &validation.1), 0.1, 50.0).unwrap()
}

/// Small ones of both kinds.
fn small(seed: u64) -> Vec<Arc<dyn Bilevel>> {
    vec![
        Arc::new(HyperRepresentation::synthetic(12, 9, 5, 7, 0.1, seed).unwrap()),
        Arc::new(HyperRepresentation::synthetic(8, 10, 3, 2, 0.1, seed).unwrap().scaled(0.3, 0.7).unwrap()),
        Arc::new(group_weights(6, 3, seed)),
    ]
}

/// A point inside Z.
fn point(single: &SingleLevel, k: usize) -> Vec<f64> {
    let mut z: Vec<f64> = (0..single.dim()).map(|i| 0.4 + 0.3 * ((7 * k + 3 * i) as f64).sin()).collect();
    single.domain().project(&mut z, &mut Warm::default()).unwrap();
    z
}

/// Objective and all rows at z, and the memory of the visit.
fn values(single: &SingleLevel, z: &[f64]) -> (f64, Vec<f64>, Warm) {
    let (mut warm, mut scratch, draw) = (Warm::default(), single.scratch(), Draw::full());
    single.refresh(z, &mut warm, &mut scratch).unwrap();
    let at = At { x: z, draw: &draw, warm: &warm };
    let mut h = vec![0.0; single.num_constraints()];
    single.constraint_values(at, Pick::All, &mut h, &mut scratch).unwrap();
    (single.objective(at, &mut scratch).unwrap(), h, warm)
}

/// Norms of the gradient of f and of the Jacobian of all rows, one pull for each.
fn norms(single: &SingleLevel, z: &[f64]) -> (f64, f64) {
    let (mut warm, mut scratch, draw) = (Warm::default(), single.scratch(), Draw::full());
    single.refresh(z, &mut warm, &mut scratch).unwrap();
    let at = At { x: z, draw: &draw, warm: &warm };
    let (mut h, mut row, mut squares) = (vec![0.0; single.num_constraints()], vec![0.0; z.len()], 0.0);
    single.objective_grad(at, &mut row, &mut scratch).unwrap();
    let slope = vec::norm(&row);
    for j in 0..h.len() {
        single.constraint_vjp(at, &mut h, &mut |_, w| w[j] = 1.0, &mut row, &mut scratch).unwrap();
        squares += vec::norm_squared(&row);
    }
    (slope, squares.sqrt())
}

/// The probe of an independent implementation: 10 rows, 6 features, 4 inner variables, no averaging.
fn probe() -> HyperRepresentation {
    let rows = |entry: fn(f64, f64) -> f64| Matrix::dense(10, 6, table(10, 6, entry)).unwrap();
    let (x1, x2) = (rows(|i, j| (i + 2.0 * j).sin()), rows(|i, j| (2.0 * i + j).cos()));
    let (y1, y2) = (table(10, 1, |i, _| i.sin()), table(10, 1, |i, _| i.cos()));
    let lambda = table(6, 4, |i, j| 0.3 * (i * j).cos());
    HyperRepresentation::new((&x1, &y1), (&x2, &y2), lambda).unwrap().scaled(1.0, 1.0).unwrap()
}

#[test]
fn the_hyper_representation_has_the_numbers_of_the_probe() {
    let problem = probe();
    let mut z = problem.start().to_vec();
    z.extend([0.2, 0.4, 0.6, 0.8, 0.7]);
    let form = Form { alpha: 0.1, xi: 0.05, inner_accuracy: Some(1e-24), ..Form::default() };
    let single = SingleLevel::new(Arc::new(problem.clone()), form).unwrap();
    let (f, h, warm) = values(&single, &z);
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-10, "{found} {wanted}");
    near(f, 2.798_143_855_521_886_3);
    near(single.inner_value(&warm).unwrap(), 4.782_444_648_122_257);
    let wanted = [-0.212_511_546_949_199_13, 0.172_060_799_337_545_1, 0.222_911_296_425_258_23, 0.384_855_025_679_532_17];
    warm.values.iter().zip(wanted).for_each(|(found, wanted)| near(*found, wanted));
    let c = [1.055_309_960_814_325_3, 2.698_553_737_850_003_7, -1.056_500_461_375_849, -2.634_032_335_759_445_5];
    let mut wanted = vec![0.428_531_769_268_469_64];
    wanted.extend(c);
    wanted.extend(c.map(|c| -c));
    wanted.extend([0.299_972_238_487_928_76, -0.299_972_238_487_928_76]);
    assert_eq!(h.len(), wanted.len());
    h.iter().zip(wanted).for_each(|(found, wanted)| near(*found, wanted));
    let (slope, jacobian) = norms(&single, &z);
    near(slope, 14.584_963_279_259_93);
    near(jacobian, 55.841_794_742_390_1);
    let mut scratch = problem.scratch();
    let at = single.pair(&z);
    problem.visit(at, &mut scratch).unwrap();
    near(problem.inner(at, &mut scratch).unwrap(), 5.260_976_417_390_727);
}

/// Spec 4.9, test 8: every row of the Jacobian.
#[test]
fn derivatives_are_those_of_differences() {
    for seed in 0..3 {
        for problem in small(seed) {
            assert_eq!(problem.derivatives(), Derivatives::Exact);
            for optimistic in [false, true] {
                let form = Form { optimistic, alpha: 0.1, inner_accuracy: Some(1e-18), ..Form::default() };
                let single = SingleLevel::new(problem.clone(), form).unwrap();
                check::finite_differences(&single, &point(&single, seed as usize), 1e-5, 1e-6).unwrap();
            }
        }
    }
}

/// A problem without what it does in one go: what is left are the defaults.
struct PartByPart(Arc<dyn Bilevel>);

impl Bilevel for PartByPart {
    fn outer_dim(&self) -> usize {
        self.0.outer_dim()
    }
    fn inner_dim(&self) -> usize {
        self.0.inner_dim()
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.0.outer_set()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.0.inner_set()
    }
    fn scratch(&self) -> Scratch {
        self.0.scratch()
    }
    fn visit(&self, at: Pair, s: &mut Scratch) -> thalweg::Result<()> {
        self.0.visit(at, s)
    }
    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, s: &mut Scratch) -> thalweg::Result<f64> {
        self.0.outer_grad(at, dx, dy, s)
    }
    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, s: &mut Scratch) -> thalweg::Result<f64> {
        self.0.inner_grad(at, dx, dy, s)
    }
    fn outer_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        s: &mut Scratch,
    ) -> thalweg::Result<()> {
        self.0.outer_second(at, b, weight, dx, dy, s)
    }
    fn inner_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        s: &mut Scratch,
    ) -> thalweg::Result<()> {
        self.0.inner_second(at, b, weight, dx, dy, s)
    }
}

/// What is computed in one go is what the parts add up to, with and without each of them.
#[test]
fn pulls_in_one_go_are_sums_of_their_parts() {
    for problem in small(4) {
        let (n, m) = (problem.outer_dim(), problem.inner_dim());
        let parts = PartByPart(problem.clone());
        let mut rng = Rng::new(1, Purpose::Data);
        let (mut z, mut yhat, mut b) = (vec![0.0; n + m], vec![0.0; m], vec![0.0; m]);
        [&mut z, &mut yhat, &mut b].into_iter().for_each(|v| rng.normals(v));
        let at = Pair { x: &z[..n], y: &z[n..] };
        let ask = |problem: &dyn Bilevel, pull: Pull| {
            let (mut s, mut c, mut dx, mut dy) = (problem.scratch(), vec![7.0; m], vec![7.0; n], vec![7.0; m]);
            let (mut of_x, mut of_y) = (vec![7.0; n], vec![7.0; m]);
            problem.visit(at, &mut s).unwrap();
            let g = problem.stationarity(at, 0.7, &mut c, &mut of_y, &mut s).unwrap();
            let along = problem.pull(at, pull, &mut dx, &mut dy, [&mut of_x, &mut of_y], &mut s).unwrap();
            [c, dx, dy, vec![g, along]].concat()
        };
        for (outer, inner) in [(0.0, 0.0), (0.0, -1.3), (0.6, 0.0), (1.0, 2.0)] {
            let unit: Vec<f64> = (0..m).map(|i| if i == 1 { -0.4 } else { 0.0 }).collect();
            for b in [None, Some(b.as_slice()), Some(unit.as_slice())] {
                let pull = Pull { outer, inner, yhat: &yhat, b, multiplier: 0.7 };
                let (whole, sum) = (ask(&*problem, pull), ask(&parts, pull));
                assert!(vec::distance(&whole, &sum) < 1e-12 * (1.0 + vec::norm(&sum)), "{outer} {inner} {b:?}");
            }
        }
    }
}

/// Solves `a x = b` by elimination with pivots.
fn solved(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| a[*i][k].abs().total_cmp(&a[*j][k].abs())).unwrap();
        a.swap(k, pivot);
        b.swap(k, pivot);
        let (above, below) = a.split_at_mut(k + 1);
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] / above[k][k];
            vec::add_scaled(row, -factor, &above[k]);
            b[k + 1 + i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - known) / a[k][k];
    }
    b
}

/// Spec 4.9, test 8. The inner problem is a quadratic: its matrix and its slope at 0 are asked for, column by column.
#[test]
fn inner_descent_ends_at_the_closed_form() {
    for seed in 0..3 {
        for problem in small(seed) {
            let alpha = 0.05;
            let form = Form { alpha, inner_accuracy: Some(1e-20), ..Form::default() };
            let single = SingleLevel::new(problem.clone(), form).unwrap();
            let z = point(&single, seed as usize);
            let (x, m) = (single.pair(&z).x, problem.inner_dim());
            let mut scratch = problem.scratch();
            let mut slope = |y: &[f64]| {
                let (at, mut slope) = (Pair { x, y }, vec![0.0; m]);
                problem.visit(at, &mut scratch).unwrap();
                problem.inner_grad(at, None, Some(&mut slope), &mut scratch).unwrap();
                slope
            };
            let zero = slope(&vec![0.0; m]);
            let columns: Vec<Vec<f64>> = (0..m)
                .map(|j| {
                    let unit: Vec<f64> = (0..m).map(|i| if i == j { 1.0 } else { 0.0 }).collect();
                    slope(&unit).iter().zip(&zero).map(|(s, z)| s - z).collect()
                })
                .collect();
            let matrix = (0..m).map(|i| (0..m).map(|j| columns[j][i] + if i == j { alpha } else { 0.0 }).collect()).collect();
            let known = solved(matrix, zero.iter().map(|s| -s).collect());
            let found = values(&single, &z).2.values;
            assert!(vec::distance(&found, &known) < 1e-8 * (1.0 + vec::norm(&known)), "{found:?} {known:?}");
        }
    }
}

fn inners() -> [adaprox::Inner; 2] {
    [adaprox::Inner::Sg(adaprox::Sg::default()), adaprox::Inner::Pd(pd::Settings::default())]
}

/// Spec 4.9, test 8: with a large sigma no centre is worse than the one before by more than the accuracy of a subproblem.
#[test]
fn a_large_sigma_never_lets_the_objective_rise() {
    // Products of a constraint and its multiplier bend by more than any fixed sigma.
    for problem in small(2).into_iter().filter(|problem| problem.num_constraints() == 0) {
        for inner in inners() {
            let form = Form { alpha: 0.05, xi: 0.05, ..Form::default() };
            let first: Vec<f64> = vec![0.5; problem.outer_dim()];
            let PreparedProblem { problem: single, start: z, violation } = bilevel::prepare(&problem, form, &first).unwrap();
            let outer = 8;
            // So that the start keeps the constraints as the method asks.
            let beta = (2.0 * outer as f64 * violation).max(0.4);
            let settings =
                adaprox::Settings { outer, beta, inner_iterations: 1500, sigma: Some(400.0), inner, ..Default::default() };
            let accuracy = settings.accuracy();
            let mut solver = Adaprox::new(settings).unwrap();
            let ev: &mut dyn Eval = &mut Evaluator::new(&single, 1, 0.0);
            solver.start(ev, &z).unwrap();
            let (mut before, mut path) = (values(&single, &z).0, vec![]);
            while solver.finished() < outer {
                let finished = solver.finished();
                solver.step(ev).unwrap();
                if solver.finished() > finished {
                    let now = values(&single, solver.centre()).0;
                    path.push(now - before);
                    before = now;
                }
            }
            assert!(solver.sigma_asked() <= 400.0, "{}", solver.sigma_asked());
            assert!(path.iter().all(|rise| *rise <= accuracy), "{accuracy} {path:?}");
            assert!(path.iter().any(|rise| *rise < -1e-6), "something must happen: {path:?}");
        }
    }
}

/// Gradients of the inner problem and products with second derivatives, counted by hand.
#[test]
fn counts_equal_a_hand_count() {
    let (steps, n) = (25_u64, 3_u64);
    let quiet = Options { record: Record::nothing(), ..Options::iterations(steps) };
    let form = Form { inner_steps: InnerSteps::Fixed(n), ..Form::default() };
    for problem in small(3) {
        let single = SingleLevel::new(problem.clone(), form).unwrap();
        let (z, m) = (point(&single, 1), problem.inner_dim());
        for inner in inners() {
            let settings = adaprox::Settings { outer: 5, inner_iterations: 10, sigma: Some(30.0), inner, ..Default::default() };
            let mut solver = Adaprox::new(settings).unwrap();
            let ended = run::minimize(&single, &mut solver, &z, &quiet, &mut ()).unwrap();
            // Once at the start, once each step, and once at each new centre, of which there are two if something was accepted.
            assert_eq!(solver.finished(), 2);
            assert_eq!(ended.counts.inner, n * (1 + steps + 2 - solver.empty()));
        }

        // One of c and -c is positive from the first step on: two products in each, beside thirty for the smoothness.
        let pd = pd::Settings { mu: Some(30.0), ..Default::default() };
        let ended = run::minimize(&single, &mut Pd::new(pd).unwrap(), &z, &quiet, &mut ()).unwrap();
        assert_eq!(ended.counts.inner, n * steps);
        // Where there is another constraint, its complementarity may have all the weight.
        let r = problem.num_constraints();
        assert!(r > 0 || ended.counts.more.get(PRODUCTS) == Some(&(30 + 2 * steps)), "{:?}", ended.counts);

        // A step on a stationarity condition needs two, and one for all constraints C_i; one on another row or on the objective none.
        let sg = || Ssg::new(adaprox::Sg::as_ssg(30.0, 0.2)).unwrap();
        let (mut solver, mut products) = (sg(), 30);
        let ev: &mut Evaluator<SingleLevel> = &mut Evaluator::new(&single, 0, 0.0);
        let (mut at, mut h) = (vec![0.0; z.len()], vec![0.0; single.num_constraints()]);
        Solver::<dyn Eval>::start(&mut solver, ev, &z).unwrap();
        for _ in 0..steps {
            solver.iterate(&mut at);
            let before = ev.counts().more.get(PRODUCTS).copied().unwrap_or(30);
            let step = solver.step(ev).unwrap();
            assert_eq!(ev.counts().more.get(PRODUCTS).unwrap() - before, {
                ev.constraint_values(&at, &Draw::full(), Pick::All, &mut h).unwrap();
                let worst = vec::first_max(&h).unwrap().0;
                let needed = if step.kind == StepKind::Constraint && (r + 1..r + 1 + 2 * m).contains(&worst) {
                    2 + r.min(1) as u64
                } else {
                    0
                };
                products += needed;
                needed
            });
        }
        assert!(r > 0 || products > 30, "a constraint must have been stepped on");
        let ended = run::minimize(&single, &mut sg(), &z, &quiet, &mut ()).unwrap();
        assert_eq!((ended.counts.inner, ended.counts.more.get(PRODUCTS)), (n * steps, Some(&products)));
    }
}

#[test]
fn a_step_allocates_nothing() {
    let before = crate::counting::count();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(crate::counting::count() > before, "the counter must count");
    for problem in small(1) {
        for inner in inners() {
            let form = Form { inner_steps: InnerSteps::Fixed(3), ..Form::default() };
            let single = SingleLevel::new(problem.clone(), form).unwrap();
            let settings = adaprox::Settings { outer: 50, inner_iterations: 20, sigma: Some(30.0), inner, ..Default::default() };
            let mut solver = Adaprox::new(settings).unwrap();
            let ev: &mut dyn Eval = &mut Evaluator::new(&single, 1, 0.0);
            solver.start(ev, &point(&single, 1)).unwrap();
            (0..200).for_each(|_| {
                solver.step(ev).unwrap();
            });
            let before = crate::counting::count();
            (0..200).for_each(|_| {
                solver.step(ev).unwrap();
            });
            assert_eq!(crate::counting::count() - before, 0);
        }
    }
}

/// Values and radii worked out by hand.
#[test]
fn small_cases_are_those_worked_out() {
    // Lambda = (1, 2), one row of each kind: f = (3 (u_1 + 2 u_2) - 1)^2 / 2, g = (2 (u_1 + 2 u_2) - 4)^2 / 2.
    let one = |a: f64| Matrix::dense(1, 1, vec![a]).unwrap();
    let problem = HyperRepresentation::new((&one(3.0), &[1.0]), (&one(2.0), &[4.0]), vec![1.0, 2.0]).unwrap();
    let (mut s, mut dx, mut dy) = (problem.scratch(), [0.0; 2], [0.0; 2]);
    let at = Pair { x: &[1.0, 2.0], y: &[0.5, 0.25] };
    problem.visit(at, &mut s).unwrap();
    assert_eq!(problem.outer_grad(at, Some(&mut dx), Some(&mut dy), &mut s).unwrap(), 2.0);
    assert_eq!((dx, dy), ([3.0, 1.5], [6.0, 12.0]));
    assert_eq!(problem.inner(at, &mut s).unwrap(), 2.0);
    assert_eq!(problem.outer_set().describe(), format!("ball of radius {}", 10.0 * 5.0_f64.sqrt()));
    // The least u with u_1 + 2 u_2 = 2 is (0.4, 0.8), shorter than 1; with a target of 40 it is ten times as long.
    assert_eq!(problem.inner_set().describe(), "ball of radius 10");
    let far = HyperRepresentation::new((&one(3.0), &[1.0]), (&one(2.0), &[40.0]), vec![1.0, 2.0]).unwrap();
    assert!((far.inner_set().diameter(2) / 20.0 - 0.8_f64.sqrt() * 10.0).abs() < 1e-9);

    // Two groups of one row: g = x_1 (y_1 - 1)^2 / 4 + x_2 (y_1 + y_2 + 1)^2 / 4, f = (y_2 - 1)^2 / 2.
    let training = Matrix::dense(2, 2, vec![1.0, 0.0, 1.0, 1.0]).unwrap();
    let validation = Matrix::dense(1, 2, vec![0.0, 1.0]).unwrap();
    let problem = GroupWeights::new((&training, &[1.0, -1.0]), &[0, 1], (&validation, &[1.0]), 0.25, 9.0).unwrap();
    let at = Pair { x: &[0.5, 1.0], y: &[3.0, 2.0] };
    let mut s = problem.scratch();
    problem.visit(at, &mut s).unwrap();
    assert_eq!(problem.inner_grad(at, Some(&mut dx), Some(&mut dy), &mut s).unwrap(), 0.5 + 9.0);
    assert_eq!((dx, dy), ([1.0, 9.0], [0.5 + 3.0, 3.0]));
    assert_eq!(problem.outer_grad(at, Some(&mut dx), Some(&mut dy), &mut s).unwrap(), 0.5);
    assert_eq!((dx, dy), ([0.0, 0.0], [0.0, 1.0]));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let two = Matrix::dense(2, 2, vec![1.0, 0.0, 1.0, 1.0]).unwrap();
    let none = Matrix::dense(0, 2, vec![]).unwrap();
    let wide = Matrix::dense(1, 3, vec![1.0; 3]).unwrap();
    let b = [1.0, -1.0];
    let hyper = |x1: &Matrix, y1: &[f64], start: &[f64]| {
        HyperRepresentation::new((x1, y1), (&two, &b), start.to_vec()).unwrap_err().to_string()
    };
    assert_eq!(hyper(&none, &[], &[1.0; 4]), "there are no validation rows; expected at least one");
    assert_eq!(hyper(&wide, &[1.0], &[1.0; 4]), "a row of the validation features has 3 entries; expected 2");
    assert_eq!(hyper(&two, &[1.0], &[1.0; 4]), "the list of validation targets has 1 entries; expected 2");
    assert_eq!(hyper(&two, &[1.0, f64::NAN], &[1.0; 4]), "entry 2 of the validation targets is NaN; expected a finite number");
    assert_eq!(
        hyper(&two, &b, &[1.0; 3]),
        "the first Lambda has 3 entries; expected one row for each of the 2 features, all of the same length"
    );
    assert!(hyper(&two, &b, &[]).starts_with("the first Lambda has 0 entries"));
    assert_eq!(hyper(&two, &b, &[1.0, f64::INFINITY]), "entry 2 of the first Lambda is inf; expected a finite number");
    let made = HyperRepresentation::synthetic(4, 4, 2, 3, 0.1, 0).unwrap();
    assert_eq!(made.clone().scaled(1.0, 0.0).unwrap_err().to_string(), "c_2 must be a finite number larger than 0, got 0");
    assert!(made.clone().inner_radius(-1.0).is_err() && made.outer_radius(f64::NAN).is_err());
    let refused = |n, noise| HyperRepresentation::synthetic(n, 4, 2, 3, noise, 0).unwrap_err().to_string();
    assert_eq!(refused(0, 0.1), "n1 must be at least 1, got 0");
    assert_eq!(refused(4, -1.0), "noise must be a finite number, 0 or larger, got -1");

    let weights = |labels: &[f64], groups: &[usize], low: f64, radius: f64| {
        GroupWeights::new((&two, labels), groups, (&two, &b), low, radius).unwrap_err().to_string()
    };
    assert_eq!(weights(&b, &[0, 1], 1.0, 1.0), "low must be a number above 0 and below 1, got 1");
    assert_eq!(weights(&b, &[0, 1], 0.5, 0.0), "radius must be a finite number larger than 0, got 0");
    assert_eq!(weights(&[1.0, 0.0], &[0, 1], 0.5, 1.0), "training label 2 is 0; expected -1 or 1");
    assert_eq!(weights(&b, &[0], 0.5, 1.0), "the list of groups has 1 entries; expected 2");
    assert_eq!(weights(&b, &[1, 1], 0.5, 1.0), "group 0 has no training row; expected at least one in each");
    assert_eq!(weights(&b, &[0, 2], 0.5, 1.0), "the group of training row 2 is 2; expected a number below 2, the number of rows");
}

/// No model that fits as well, of many that are drawn, is worse than the worst that is found or better than the best.
#[test]
fn nothing_that_fits_lies_beyond_the_extremes() {
    let problem = group_weights(4, 2, 5);
    let (x, slack) = ([0.5, 0.9], 0.05);
    let found = bilevel::extremes(&problem, &x, slack).unwrap();
    let mut scratch = problem.scratch();
    let mut ask = |y: &[f64]| {
        let at = Pair { x: &x, y };
        problem.visit(at, &mut scratch).unwrap();
        (problem.outer(at, &mut scratch).unwrap(), problem.inner(at, &mut scratch).unwrap())
    };
    for extreme in [&found.pessimistic, &found.optimistic] {
        let (f, g) = ask(&extreme.y);
        assert!((f - extreme.value).abs() < 1e-12 && g <= found.inner_value + 1.02 * slack, "{extreme:?}");
    }
    let mut rng = Rng::new(9, Purpose::Data);
    let (mut drawn, mut fitting) = (vec![0.0; 4], 0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for _ in 0..200_000 {
        rng.normals(&mut drawn);
        let y: Vec<f64> = found.optimistic.y.iter().zip(&drawn).map(|(y, d)| y + 0.5 * d).collect();
        let (f, g) = ask(&y);
        if g <= found.inner_value + slack {
            (fitting, least, most) = (fitting + 1, least.min(f), most.max(f));
        }
    }
    assert!(fitting > 500, "{fitting}");
    let size = most - least;
    assert!(most <= found.pessimistic.value && least >= found.optimistic.value - 0.01 * size, "{least} {most} {found:?}");
    assert!(least <= found.optimistic.value + 0.1 * size, "the draws come near the best: {least} {most} {found:?}");
    // The row that decides is at its bound on both sides.
    let of_inner = |extreme: &bilevel::Extreme| extreme.multipliers.last().is_some_and(|v| *v > 0.0);
    assert!(of_inner(&found.pessimistic) && of_inner(&found.optimistic), "{found:?}");
}
