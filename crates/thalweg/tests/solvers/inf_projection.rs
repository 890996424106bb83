//! Inf-projection problems: spec 5.10, known answers by every method, lazy iterates against written ones, checkpoints, counts,
//! refusals, and no allocation in a step.

use thalweg::certify;
use thalweg::estimate::Order;
use thalweg::infproj::{Case, Eliminated, InfProjection, Power, Rows};
use thalweg::learn::{Data, Learning};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{Pick, Problem, Subgradients, check};
use thalweg::run::{self, Budget, Options, Outcome, Record, StopReason};
use thalweg::sets::{Ball, Bounds, Set, WholeSpace};
use thalweg::solvers::{FirstOrder, Lbfgs, Mspg, Spg, StSpg, lbfgs, mspg, spg, st_spg};

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

fn run(problem: &dyn Subgradients, solver: &mut FirstOrder, start: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, solver, start, options, &mut ()).unwrap()
}

/// g = x^2 - x, l = x, h = y^2 / 2 on y >= 0: the smallest value is -1/2 at x = y = 1.
struct Difference(Power);

fn difference(high: f64) -> Eliminated<Difference> {
    Eliminated::new(Difference(Power::square(1.0).unwrap().between(0.0, high).unwrap()))
}

impl InfProjection for Difference {
    fn dim(&self) -> usize {
        1
    }
    fn coupled(&self) -> usize {
        1
    }
    fn case(&self) -> Case {
        Case::DifferenceOfConvex
    }
    fn power(&self) -> &Power {
        &self.0
    }
    fn convex(&self, x: &[f64], _: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
        grad[0] = 2.0 * x[0] - 1.0;
        Ok(x[0] * x[0] - x[0])
    }
    fn mapping(&self, x: &[f64], _: Pick, out: &mut [f64]) -> thalweg::Result<()> {
        out[0] = x[0];
        Ok(())
    }
    fn add_mapping_pull(&self, _: &[f64], _: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
        grad[0] += factor * y[0];
        Ok(())
    }
}

/// g = (x - 2)^2 / 2, l = x^2, h = (y + 1)^2 / 2 on y <= 0: from (0, -1) to (2, 0), where F = 1/2 - 1/2 + ... = 0.5.
struct BiConvex(Power);

fn bi_convex() -> Eliminated<BiConvex> {
    Eliminated::new(BiConvex(Power::square(1.0).unwrap().around(-1.0).unwrap().between(f64::NEG_INFINITY, 0.0).unwrap()))
}

impl InfProjection for BiConvex {
    fn dim(&self) -> usize {
        1
    }
    fn coupled(&self) -> usize {
        1
    }
    fn case(&self) -> Case {
        Case::BiConvex
    }
    fn power(&self) -> &Power {
        &self.0
    }
    fn coupled_start(&self, y: &mut [f64]) {
        y[0] = -1.0;
    }
    fn convex(&self, x: &[f64], _: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
        grad[0] = x[0] - 2.0;
        Ok(0.5 * (x[0] - 2.0) * (x[0] - 2.0))
    }
    fn mapping(&self, x: &[f64], _: Pick, out: &mut [f64]) -> thalweg::Result<()> {
        out[0] = x[0] * x[0];
        Ok(())
    }
    fn add_mapping_pull(&self, x: &[f64], _: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
        grad[0] += factor * 2.0 * x[0] * y[0];
        Ok(())
    }
}

/// Squared losses of rows, l_i = (score - b_i)^2 / 2, with their variance (DC, one y) or with weights on rows (bi-convex, a y for
/// each row). Small and made for these tests.
struct Regression {
    rows: Matrix,
    targets: Vec<f64>,
    h: Power,
    lambda: f64,
    ridge: f64,
    own: bool,
    domain: Box<dyn Set>,
}

impl Regression {
    fn new(n: usize, d: usize, per_row: usize, own: bool, domain: Box<dyn Set>) -> Self {
        let mut rng = Rng::new(5, Purpose::Data);
        let (mut ptr, mut ids, mut values) = (vec![0], vec![], vec![]);
        for _ in 0..n {
            let mut row: Vec<u32> = (0..per_row).map(|_| rng.below(d) as u32).collect();
            row.sort_unstable();
            row.dedup();
            values.extend(row.iter().map(|_| 2.0 * rng.uniform() - 1.0));
            ids.extend(row);
            ptr.push(ids.len());
        }
        let rows = Matrix::sparse(d, ptr, ids, values).unwrap();
        let truth: Vec<f64> = (0..d).map(|j| (j as f64 * 0.9).sin()).collect();
        let targets = (0..n).map(|i| rows.row_dot(i, &truth) + 0.3 * (rng.uniform() - 0.5)).collect();
        let lambda = 0.3;
        let h = if own {
            Power::square(0.5 / n as f64).unwrap().tilted(0.4 / n as f64).unwrap().between(-1.0, 0.0).unwrap()
        } else {
            Power::square(lambda).unwrap().between(0.0, 100.0).unwrap()
        };
        Regression { rows, targets, h, lambda, ridge: 0.0, own, domain }
    }

    fn loss(&self, i: usize, score: f64) -> (f64, f64) {
        let off = score - self.targets[i];
        (0.5 * off * off, off)
    }

    fn each(&self, samples: Pick, mut visit: impl FnMut(usize, f64)) {
        let n = self.targets.len();
        let share = 1.0 / samples.count(n) as f64;
        match samples {
            Pick::All => (0..n).for_each(|i| visit(i, share)),
            Pick::These(ids) => ids.iter().for_each(|&i| visit(i as usize, share)),
        }
    }
}

impl InfProjection for Regression {
    fn dim(&self) -> usize {
        self.rows.cols()
    }
    fn coupled(&self) -> usize {
        if self.own { self.targets.len() } else { 1 }
    }
    fn case(&self) -> Case {
        if self.own { Case::BiConvex } else { Case::DifferenceOfConvex }
    }
    fn power(&self) -> &Power {
        &self.h
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn samples(&self) -> usize {
        self.targets.len()
    }
    fn coupled_start(&self, y: &mut [f64]) {
        y.fill(if self.own { -1.0 } else { 0.0 });
    }
    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
        grad.iter_mut().zip(x).for_each(|(g, x)| *g = self.ridge * x);
        let mut total = 0.5 * self.ridge * vec::norm_squared(x);
        self.each(samples, |i, share| {
            let (value, slope) = Rows::convex_of(self, i, self.rows.row_dot(i, x));
            total += share * value;
            self.rows.add_row(i, share * slope, grad);
        });
        Ok(total)
    }
    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> thalweg::Result<()> {
        out.fill(0.0);
        self.each(samples, |i, share| out[self.coordinate(i)] += share * Rows::mapping_of(self, i, self.rows.row_dot(i, x)).0);
        Ok(())
    }
    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
        self.each(samples, |i, share| {
            let (_, slope) = Rows::mapping_of(self, i, self.rows.row_dot(i, x));
            self.rows.add_row(i, factor * share * slope * y[self.coordinate(i)], grad);
        });
        Ok(())
    }
    fn rows(&self) -> Option<&dyn Rows> {
        Some(self)
    }
}

impl Rows for Regression {
    fn features(&self) -> &Matrix {
        &self.rows
    }
    fn row(&self, sample: usize) -> usize {
        sample
    }
    fn intercept(&self) -> bool {
        false
    }
    fn ridge(&self) -> f64 {
        self.ridge
    }
    fn convex_of(&self, i: usize, score: f64) -> (f64, f64) {
        if self.own {
            return (0.0, 0.0);
        }
        let (l, slope) = self.loss(i, score);
        (l + 0.5 * self.lambda * l * l, (1.0 + self.lambda * l) * slope)
    }
    fn mapping_of(&self, i: usize, score: f64) -> (f64, f64) {
        let (l, slope) = self.loss(i, score);
        if self.own { (l, slope) } else { (self.lambda * l, self.lambda * slope) }
    }
    fn coordinate(&self, sample: usize) -> usize {
        if self.own { sample } else { 0 }
    }
}

/// Spec 5.10 test 1: phi(z) = z, gamma = 1, from 0.
#[test]
fn spg_makes_the_worked_steps() {
    let problem = Problem::new(1).objective(|x| x[0], |_, grad| grad[0] = 1.0);
    let mut z = vec![];
    for steps in 0..5 {
        let mut solver = Spg::new(spg::Settings::default()).unwrap();
        let outcome = run(
            &problem,
            &mut solver,
            &[0.0],
            &Options { record: Record { every: Some(1), ..Record::default() }, ..Options::iterations(steps) },
        );
        z.push(outcome.trace.last().unwrap().objective);
    }
    for (z, wanted) in z.iter().zip([0.0, -0.8, -0.9333333, -0.9714286, -0.9857143]) {
        assert!((z - wanted).abs() < 1e-7, "{z} {wanted}");
    }
    let output = |steps: u64, rule: spg::Rule| {
        let settings = spg::Settings { rule, steps: Some(steps), ..spg::Settings::default() };
        let outcome = run(&problem, &mut Spg::new(settings).unwrap(), &[0.0], &quiet(1000));
        assert_eq!((outcome.iterations, &outcome.ended), (steps, &StopReason::Finished));
        outcome.point.x[0]
    };
    // The value with its proximal term, above the smallest, -1/2 at -1.
    let gap = |z: f64| z + 0.5 * z * z + 0.5;
    assert!((output(4, spg::Rule::NonSmooth) + 0.8285714).abs() < 1e-7);
    assert!((gap(output(10, spg::Rule::NonSmooth)) - 6.11e-4).abs() < 1e-6);
    assert!((gap(output(100, spg::Rule::NonSmooth)) - 7.8e-8).abs() < 1e-9);
    let smooth = output(10, spg::Rule::Smooth);
    assert!((smooth + 0.9484362).abs() < 1e-7 && (gap(smooth) - 1.329e-3).abs() < 1e-6);
}

/// Spec 5.10 tests 2 and 3, stages solved to great accuracy by many steps of SPG.
#[test]
fn st_spg_goes_through_the_worked_stages() {
    let stages = |problem: &dyn Subgradients, count: u64, rule: spg::Rule| {
        let settings = st_spg::Settings { stages: Some(count), stage_steps: Some(20_000), rule, ..st_spg::Settings::default() };
        let mut solver = StSpg::new(settings).unwrap();
        let outcome = run(problem, &mut solver, &[0.0], &quiet(u64::MAX));
        let mut y = [0.0];
        solver.coupled(&mut y);
        (outcome.point.x[0], y[0])
    };
    for rule in [spg::Rule::NonSmooth, spg::Rule::Smooth] {
        for (k, (x, y)) in [(1.0 / 3.0, 1.0 / 6.0), (0.5, 1.0 / 3.0), (0.6111111, 0.4722222)].into_iter().enumerate() {
            let found = stages(&difference(f64::INFINITY), k as u64 + 1, rule);
            assert!((found.0 - x).abs() < 1e-6 && (found.1 - y).abs() < 1e-6, "{k} {found:?}");
        }
        for (k, (x, y)) in [(0.5, -0.875), (0.6666667, -0.7152778), (0.7773279, -0.5555195)].into_iter().enumerate() {
            let found = stages(&bi_convex(), k as u64 + 1, rule);
            assert!((found.0 - x).abs() < 1e-6 && (found.1 - y).abs() < 1e-6, "{k} {found:?}");
        }
    }
    let (x, y) = stages(&difference(f64::INFINITY), 60, spg::Rule::NonSmooth);
    assert!((x - 1.0).abs() < 1e-4 && (y - 1.0).abs() < 1e-4, "{x} {y}");
    let (x, y) = stages(&bi_convex(), 60, spg::Rule::NonSmooth);
    assert!((x - 2.0).abs() < 1e-4 && y.abs() < 1e-4, "{x} {y}");
}

/// Spec 5.10 test 2, the single loop.
#[test]
fn mspg_makes_the_worked_steps() {
    let problem = difference(3.0);
    for (t, (x, y)) in [(0.2, 0.0), (0.32, 0.0333333), (0.3986667, 0.0811111)].into_iter().enumerate() {
        let mut solver = Mspg::new(mspg::Settings { eta: 0.2, ..mspg::Settings::default() }).unwrap();
        let outcome = run(&problem, &mut solver, &[0.0], &quiet(t as u64 + 1));
        assert!((outcome.point.x[0] - x).abs() < 1e-7 && (solver.coupled()[0] - y).abs() < 1e-7);
    }
    let mut solver = Mspg::new(mspg::Settings { eta: 0.2, ..mspg::Settings::default() }).unwrap();
    let outcome = run(&problem, &mut solver, &[0.0], &quiet(400));
    assert!((outcome.point.x[0] - 1.0).abs() < 1e-9 && (outcome.point.objective + 0.5).abs() < 1e-12);
}

/// Cross-check 6: with y kept at its best value, a step of MSPG is a gradient step on F.
#[test]
fn mspg_with_the_best_y_is_gradient_descent() {
    for x in [-0.7, 0.3, 0.9, 1.4] {
        let h = Power::square(1.0).unwrap().between(0.0, f64::INFINITY).unwrap();
        struct Beginning(Difference, f64);
        impl InfProjection for Beginning {
            fn dim(&self) -> usize {
                1
            }
            fn coupled(&self) -> usize {
                1
            }
            fn case(&self) -> Case {
                self.0.case()
            }
            fn power(&self) -> &Power {
                self.0.power()
            }
            fn coupled_start(&self, y: &mut [f64]) {
                y[0] = self.power().touch(self.1);
            }
            fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
                self.0.convex(x, samples, grad)
            }
            fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> thalweg::Result<()> {
                self.0.mapping(x, samples, out)
            }
            fn add_mapping_pull(&self, x: &[f64], s: Pick, y: &[f64], f: f64, grad: &mut [f64]) -> thalweg::Result<()> {
                self.0.add_mapping_pull(x, s, y, f, grad)
            }
        }
        let problem = Eliminated::new(Beginning(Difference(h), x));
        let mut solver = Mspg::new(mspg::Settings { eta: 0.1, ..mspg::Settings::default() }).unwrap();
        let stepped = run(&problem, &mut solver, &[x], &quiet(1)).point.x[0];
        let slope = 2.0 * x - 1.0 - x.max(0.0);
        assert!((stepped - (x - 0.1 * slope)).abs() < 1e-15);
    }
}

#[test]
fn gradients_are_those_of_the_values() {
    let rows = |own| Eliminated::new(Regression { ridge: 0.2, ..Regression::new(30, 12, 4, own, Box::new(WholeSpace)) });
    let point: Vec<f64> = (0..12).map(|j| 0.3 * (j as f64).cos()).collect();
    for problem in [&rows(false) as &dyn Subgradients, &rows(true)] {
        check::finite_differences(problem, &point, 1e-6, 1e-6).unwrap();
    }
    for x in [-0.6, 0.4, 1.3] {
        check::finite_differences(&difference(3.0), &[x], 1e-6, 1e-6).unwrap();
        check::finite_differences(&bi_convex(), &[x], 1e-6, 1e-6).unwrap();
    }
}

/// Ten thousand steps on random sparse rows: the same trajectory to rounding.
#[test]
fn lazy_iterates_are_the_written_ones() {
    let domains: [fn() -> Box<dyn Set>; 2] = [|| Box::new(WholeSpace), || Box::new(Ball::new(1.5).unwrap())];
    for (domain, own, ridge, gamma, mu, batch) in [
        (0, false, 0.0, 2.0, 1.0, 1),
        (1, false, 0.0, 0.05, 0.01, 1),
        (1, false, 0.1, 1.0, 1.0, 3),
        (1, true, 0.1, 1.0, 0.02, 1),
        (0, true, 0.5, 30.0, 0.5, 4),
    ] {
        let problem = Regression { ridge, ..Regression::new(200, 50, 5, own, domains[domain]()) };
        let problem = Eliminated::new(problem);
        let start: Vec<f64> = (0..50).map(|j| 0.05 * (j as f64).sin()).collect();
        let drawn = [(Order::Random, st_spg::Draws::Independent), (Order::Shuffled, st_spg::Draws::Shared)];
        for (output, (order, draws)) in [st_spg::Output::Last, st_spg::Output::Average].into_iter().zip(drawn) {
            let with = |iterates| {
                let settings =
                    st_spg::Settings { gamma, mu, batch, iterates, output, order, draws, ..st_spg::Settings::default() };
                let mut solver = StSpg::new(settings).unwrap();
                let outcome = run(&problem, &mut solver, &start, &quiet(10_000));
                assert!(matches!(outcome.ended, StopReason::Budget(_)), "{:?}", outcome.ended);
                let mut y = vec![0.0; problem.pair().coupled()];
                solver.coupled(&mut y);
                (outcome, y)
            };
            let ((written, y), (lazy, lazy_y)) = (with(st_spg::Iterates::Dense), with(st_spg::Iterates::Lazy));
            let off = vec::distance(&written.point.x, &lazy.point.x).max(vec::distance(&y, &lazy_y));
            assert!(off < 1e-10, "st-spg, own {own}, ridge {ridge}: {off:e}");
            assert!(vec::distance(&written.point.x, &start) > 0.1);
            assert_eq!(
                (written.counts.objective_subgradients, written.counts.objective_values),
                (lazy.counts.objective_subgradients, lazy.counts.objective_values)
            );
        }
        for (output, (order, _)) in [mspg::Output::Last, mspg::Output::Average].into_iter().zip(drawn) {
            let with = |iterates| {
                let settings =
                    mspg::Settings { eta: 0.05, growth: 0.02, iterates, output, order, weight: 2.0, ..mspg::Settings::default() };
                run(&problem, &mut Mspg::new(settings).unwrap(), &start, &quiet(3_000))
            };
            let off = vec::distance(&with(st_spg::Iterates::Dense).point.x, &with(st_spg::Iterates::Lazy).point.x);
            assert!(off < 1e-10, "mspg, own {own}, ridge {ridge}, {output:?}: {off:e}");
        }
    }
}

/// Every method comes to the answer of another.
#[test]
fn methods_agree_on_sparse_rows() {
    for own in [false, true] {
        let problem =
            Eliminated::new(Regression { ridge: 0.05, ..Regression::new(300, 10, 4, own, Box::new(Ball::new(10.0).unwrap())) });
        let start = vec![0.0; 10];
        let mu = if own { 0.02 } else { 1.0 };
        let full = mspg::Settings { eta: 0.3, growth: 1e9, ..mspg::Settings::default() };
        let reference =
            run(&problem, &mut Mspg::new(full).unwrap(), &start, &quiet(if own { 60_000 } else { 4_000 })).point.objective;
        let before = run(&problem, &mut Mspg::new(mspg::Settings::default()).unwrap(), &start, &quiet(0)).point.objective;
        let settings = st_spg::Settings { gamma: 0.5, mu, ..st_spg::Settings::default() };
        let found = run(&problem, &mut StSpg::new(settings).unwrap(), &start, &quiet(400_000)).point.objective;
        let share = (found - reference) / (before - reference);
        assert!((-1e-3..0.02).contains(&share), "own {own}: {before} -> {found}, {reference}");
    }
}

#[test]
fn counts_equal_a_hand_count() {
    let problem = Eliminated::new(Regression::new(100, 20, 4, false, Box::new(WholeSpace)));
    let settings = st_spg::Settings { gamma: 0.5, mu: 1.0, stages: Some(3), ..st_spg::Settings::default() };
    let outcome = run(&problem, &mut StSpg::new(settings).unwrap(), &[0.0; 20], &quiet(u64::MAX));
    // x: 3 + 5 + 7 steps of two gradients, y: 2 + 3 + 4 values.
    assert_eq!((outcome.counts.objective_subgradients.samples, outcome.counts.objective_values.samples), (30, 9));
    assert_eq!(outcome.iterations, 24);
    // A shared sample has its gradient taken at two points.
    let draws = st_spg::Draws::Shared;
    let shared = st_spg::Settings { gamma: 0.5, mu: 1.0, stages: Some(3), draws, ..st_spg::Settings::default() };
    let shared = run(&problem, &mut StSpg::new(shared).unwrap(), &[0.0; 20], &quiet(u64::MAX));
    assert_eq!(shared.counts, outcome.counts);
    let outcome = run(&problem, &mut Mspg::new(mspg::Settings::default()).unwrap(), &[0.0; 20], &quiet(120));
    // 1 + 2 + ... + 100, then all 100 each time.
    assert_eq!((outcome.counts.objective_subgradients.samples, outcome.counts.objective_values.samples), (5050 + 20 * 100, 0));
}

#[test]
fn random_outputs_are_iterates_after_an_update_or_stages() {
    let problem = difference(3.0);
    let start = [0.0];
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let settings = mspg::Settings { eta: 0.2, output: mspg::Output::Random, ..mspg::Settings::default() };
        let options = Options { seed, ..quiet(3) };
        let x = run(&problem, &mut Mspg::new(settings).unwrap(), &start, &options).point.x[0];
        seen.insert((x * 1e6).round() as i64);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [200_000, 320_000, 398_667]);
    let mut hits = [0; 4];
    for seed in 0..600 {
        let settings =
            st_spg::Settings { stages: Some(3), output: st_spg::Output::Random, weight: 2.0, ..st_spg::Settings::default() };
        let mut solver = StSpg::new(settings).unwrap();
        let x = run(&problem, &mut solver, &start, &Options { seed, ..quiet(u64::MAX) }).point.x[0];
        let stage = (1..=3).find(|&k| {
            let settings = st_spg::Settings { stages: Some(k), ..st_spg::Settings::default() };
            run(&problem, &mut StSpg::new(settings).unwrap(), &start, &quiet(u64::MAX)).point.x[0] == x
        });
        hits[stage.map_or(0, |k| k as usize)] += 1;
    }
    // x_1, x_2 and x_3 with weights 1, 4 and 9; x_4 is never returned.
    assert!(
        hits[3] == 0 && (hits[0] as f64 - 600.0 / 14.0).abs() < 40.0 && (hits[2] as f64 - 600.0 * 9.0 / 14.0).abs() < 75.0,
        "{hits:?}"
    );
}

#[test]
fn checkpoints_continue_bit_for_bit() {
    for own in [false, true] {
        let problem = Eliminated::new(Regression::new(200, 40, 4, own, Box::new(Ball::new(1.0).unwrap())));
        for iterates in [st_spg::Iterates::Dense, st_spg::Iterates::Lazy] {
            let staged = || {
                let output = st_spg::Output::Random;
                StSpg::new(st_spg::Settings { iterates, mu: 0.05, output, ..st_spg::Settings::default() }).unwrap()
            };
            let single = || {
                let output = mspg::Output::Random;
                Mspg::new(mspg::Settings { iterates, growth: 0.1, output, ..mspg::Settings::default() }).unwrap()
            };
            let order = Order::Shuffled;
            let means = || {
                let settings = st_spg::Settings { iterates, mu: 0.05, order, ..st_spg::Settings::default() };
                StSpg::new(st_spg::Settings { output: st_spg::Output::Average, draws: st_spg::Draws::Shared, ..settings })
                    .unwrap()
            };
            let mean = || {
                let output = mspg::Output::Average;
                Mspg::new(mspg::Settings { iterates, growth: 0.1, output, order, ..mspg::Settings::default() }).unwrap()
            };
            let inner = || Spg::new(spg::Settings { batch: Some(2), ..spg::Settings::default() }).unwrap();
            let solvers: [crate::common::Make; 5] =
                [&|| Box::new(staged()), &|| Box::new(single()), &|| Box::new(inner()), &|| Box::new(means()), &|| {
                    Box::new(mean())
                }];
            crate::common::continues_bit_for_bit_on(&problem, &[0.01; 40], &format!("inf-{own}-{iterates:?}"), &solvers);
        }
    }
}

/// The square root form has a number beside x and y that is set anew now and then: the methods come near the smallest value, and a
/// checkpoint goes on with the number as it was.
#[test]
fn a_number_beside_x_and_y_is_kept() {
    let mut rng = Rng::new(9, Purpose::Data);
    let (rows, cols) = (400, 6);
    let features: Vec<f64> = (0..rows * cols).map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let labels = (0..rows).map(|i| if features[i * cols] + rng.uniform() > 0.6 { 1.0 } else { -1.0 }).collect();
    let data = Data { features: Matrix::dense(rows, cols, features).unwrap(), labels, groups: None, weights: None };
    let objective = "logistic + 6 * variance(logistic, form = 'sqrt')".parse().unwrap();
    let problem = Learning::on(data).minimize(objective).build().unwrap();
    let start = vec![0.0; cols];
    let smallest = run(&problem, &mut Lbfgs::new(lbfgs::Settings::default()).unwrap(), &start, &quiet(500)).point.objective;
    let before = run(&problem, &mut Mspg::new(mspg::Settings::default()).unwrap(), &start, &quiet(0)).point.objective;
    assert!(before - smallest > 0.01, "{before} {smallest}");
    for iterates in [st_spg::Iterates::Dense, st_spg::Iterates::Lazy] {
        let staged = st_spg::Settings { iterates, gamma: 0.5, order: Order::Shuffled, ..st_spg::Settings::default() };
        let single = mspg::Settings { iterates, growth: 0.01, ..mspg::Settings::default() };
        let solvers: [crate::common::Make; 2] =
            [&|| Box::new(StSpg::new(staged.clone()).unwrap()), &|| Box::new(Mspg::new(single.clone()).unwrap())];
        for make in solvers {
            let mut solver = make();
            let found = run(&problem, &mut *solver, &start, &quiet(40_000)).point.objective;
            let share = (found - smallest) / (before - smallest);
            assert!((-1e-9..0.02).contains(&share), "{iterates:?}: {before} -> {found}, {smallest}");
        }
        crate::common::continues_bit_for_bit_on(&problem, &start, &format!("aside-{iterates:?}"), &solvers);
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let refusal = |problem: &dyn Subgradients, solver: &mut FirstOrder, start: &[f64]| {
        run::minimize(problem, solver, start, &quiet(5), &mut ()).unwrap_err().to_string()
    };
    let plain = Problem::new(1).objective(|x| x[0], |_, grad| grad[0] = 1.0);
    let mut solver = StSpg::new(st_spg::Settings::default()).unwrap();
    assert!(
        refusal(&plain, &mut solver, &[0.0]).contains("st-spg needs a problem of the form min_x g(x) + min_y h(y) - <y, l(x)>")
    );
    let mut lazy = StSpg::new(st_spg::Settings { iterates: st_spg::Iterates::Lazy, ..st_spg::Settings::default() }).unwrap();
    assert!(refusal(&difference(3.0), &mut lazy, &[0.0]).contains("it is not made of scores of rows"));
    let boxed = Eliminated::new(Regression::new(20, 5, 2, false, Box::new(Bounds::uniform(-1.0, 1.0).unwrap())));
    assert!(refusal(&boxed, &mut lazy, &[0.0; 5]).contains("neither the whole space nor a ball around 0"));
    let mut mspg = Mspg::new(mspg::Settings::default()).unwrap();
    assert!(refusal(&plain, &mut mspg, &[0.0]).contains("mspg needs a problem"));
    for (settings, part) in [
        (st_spg::Settings { gamma: 0.0, ..st_spg::Settings::default() }, "gamma must be a finite number above 0, got 0"),
        (st_spg::Settings { mu: f64::NAN, ..st_spg::Settings::default() }, "mu must be a finite number above 0, got NaN"),
        (
            st_spg::Settings { weight: 0.5, ..st_spg::Settings::default() },
            "weight must be a finite number of at least 1, got 0.5",
        ),
        (st_spg::Settings { batch: 0, ..st_spg::Settings::default() }, "batch must be at least 1, got 0"),
    ] {
        let told = StSpg::new(settings).unwrap_err().to_string();
        assert!(told.contains(part), "{told}");
    }
    let message = Mspg::new(mspg::Settings { growth: -1.0, ..mspg::Settings::default() }).unwrap_err().to_string();
    assert!(message.contains("growth must be ") && message.contains("got -1"), "{message}");
}

/// Spec 5.10 test 9, and that the certificate is above the true slope at pairs that are not stationary.
#[test]
fn the_certificate_of_a_pair() {
    let problem = difference(f64::INFINITY);
    let at = |x: f64, y: f64| certify::of_pair(problem.pair(), &[x], &[y], 1.0).unwrap();
    assert_eq!(at(1.0, 1.0).upper, 0.0);
    let origin = at(0.0, 0.0);
    assert_eq!((origin.of_x, origin.of_y, origin.upper), (1.0, 0.0, 1.0));
    for (x, y) in [(-1.0, 0.5), (0.3, 2.0), (2.0, 0.1), (0.9, 0.8)] {
        let truth: f64 = 2.0 * x - 1.0 - f64::max(x, 0.0);
        assert!(at(x, y).upper >= truth.abs() - 1e-12);
        assert!((certify::slope(&problem, &[x]).unwrap() - truth.abs()).abs() < 1e-12);
    }
    // A bad point is rejected however good its y is.
    assert!(at(0.2, 0.2).upper > 0.5);
    let rows = Eliminated::new(Regression::new(60, 8, 3, true, Box::new(Ball::new(0.5).unwrap())));
    let x = vec![0.1; 8];
    let mut y = vec![0.0; 60];
    rows.pair().mapping(&x, Pick::All, &mut y).unwrap();
    y.iter_mut().for_each(|l| *l = rows.pair().power().touch(*l));
    let best = certify::of_pair(rows.pair(), &x, &y, 1.0).unwrap();
    assert!(best.of_y < 1e-12 && (best.upper - certify::slope(&rows, &x).unwrap()).abs() < 1e-9);
    let told = certify::of_pair(rows.pair(), &x, &[0.0], 1.0).unwrap_err().to_string();
    assert!(told.contains("y has 1 entries; expected 60"), "{told}");
    let outcome = run(&rows, &mut StSpg::new(st_spg::Settings::default()).unwrap(), &x, &quiet(100));
    assert_eq!(outcome.slope, Some(certify::slope(&rows, &outcome.point.x).unwrap()));
}

/// Spec 5.9: a small gamma without a ball runs away and is found out; the last good point is kept. With a ball it works.
#[test]
fn iterates_that_run_away_are_found_out() {
    for iterates in [st_spg::Iterates::Dense, st_spg::Iterates::Lazy] {
        let settings = st_spg::Settings { gamma: 0.01, mu: 0.1, iterates, ..st_spg::Settings::default() };
        let free = Eliminated::new(Regression::new(100, 5, 3, false, Box::new(WholeSpace)));
        let outcome = run(&free, &mut StSpg::new(settings.clone()).unwrap(), &[0.5; 5], &quiet(100_000));
        let StopReason::Failed { reason, .. } = &outcome.ended else { panic!("{:?}", outcome.ended) };
        assert!(reason.contains("the iterates run away") && reason.contains("gamma = 0.01 is too small"), "{reason}");
        assert!(outcome.point.objective.is_finite());
        let kept = Eliminated::new(Regression::new(100, 5, 3, false, Box::new(Ball::new(10.0).unwrap())));
        let outcome = run(&kept, &mut StSpg::new(settings).unwrap(), &[0.5; 5], &quiet(100_000));
        assert!(matches!(outcome.ended, StopReason::Budget(_)) && outcome.point.objective.is_finite());
    }
}

/// Budgets by passes stop stages in the middle.
#[test]
fn a_budget_of_passes_is_kept() {
    let problem = Eliminated::new(Regression::new(100, 50, 4, false, Box::new(Ball::new(1.0).unwrap())));
    let options =
        Options { budget: Budget { passes: Some(3.0), ..Budget::default() }, record: Record::nothing(), ..Options::default() };
    let outcome = run(
        &problem,
        &mut StSpg::new(st_spg::Settings { gamma: 1e-3, ..st_spg::Settings::default() }).unwrap(),
        &[0.0; 50],
        &options,
    );
    assert!((3.0..3.05).contains(&outcome.passes.total()), "{}", outcome.passes.total());
}
