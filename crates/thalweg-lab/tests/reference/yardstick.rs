//! L-BFGS on a9a (the first 32,561 rows) against values that Newton's method of an independent implementation found: the logistic
//! loss, and the same with a multiple of its variance, over balls, with a ridge and without either.

use std::sync::LazyLock;

use thalweg::infproj::{Case, Eliminated, InfProjection, Power};
use thalweg::learn::{Builder, Data, Split};
use thalweg::math::vec;
use thalweg::oracle::{Pick, Subgradients};
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets::{Ball, Set, WholeSpace};
use thalweg::solvers::auto::{self, Chosen};
use thalweg::solvers::{Lbfgs, lbfgs};
use thalweg_lab::data::adult;

const ROWS: usize = 32_561;
const COLUMNS: usize = adult::COLUMNS;

fn data() -> &'static Data {
    static DATA: LazyLock<Data> = LazyLock::new(|| adult::a9a().unwrap().select(&(0..ROWS).collect::<Vec<_>>()));
    &DATA
}

fn solve(problem: &dyn Subgradients, steps: u64) -> (Outcome, Lbfgs) {
    let mut solver = Lbfgs::new(lbfgs::Settings::default()).unwrap();
    let options = Options { record: Record::nothing(), ..Options::iterations(steps) };
    let outcome = run::minimize(problem, &mut solver, &[0.0; COLUMNS], &options, &mut ()).unwrap();
    (outcome, solver)
}

#[track_caller]
fn reaches(problem: &dyn Subgradients, value: f64, norm: f64, multiplier: f64) {
    let (outcome, solver) = solve(problem, 400);
    assert_eq!(outcome.ended, StopReason::Finished);
    // Line searches seldom need a second trial.
    assert!(outcome.counts.objective_subgradients.calls <= outcome.iterations * 5 / 4 + 1, "{:?}", outcome.counts);
    assert!(!outcome.notes.iter().any(|note| note.contains("stalled")), "{:?}", outcome.notes);
    assert!((outcome.point.objective - value).abs() < 1e-11, "{} against {value}", outcome.point.objective);
    assert!((vec::norm(&outcome.point.x) - norm).abs() < 1e-4 * norm, "{}", vec::norm(&outcome.point.x));
    assert!((solver.multiplier().unwrap() - multiplier).abs() < 1e-8, "{:?}", solver.multiplier());
}

#[test]
fn the_logistic_loss() {
    let with = |minimize: &str, domain: Box<dyn Set>| {
        Builder::new(data().clone()).split(Split::Shared).minimize(minimize.parse().unwrap()).domain(domain).build().unwrap()
    };
    let ball = |radius| Box::new(Ball::new(radius).unwrap());
    reaches(&with("logistic", ball(5.0)), 0.323315181323504, 5.0, 0.0001720001906213799);
    reaches(&with("logistic", ball(2.0)), 0.35574007653545975, 2.0, 0.01796359311144039);
    reaches(&with("logistic + 0.0001 * l2", Box::new(WholeSpace)), 0.32450692471375703, 5.3550322998271636, 0.0);
    reaches(&with("logistic + 0.0002 * l2", ball(10.0)), 0.325808597166432, 4.908122060773571, 0.0);
}

/// mean l + (lambda / 2) var l + (ridge / 2) ||x||^2 of the logistic loss, as an inf-projection problem: g = mean(l + (lambda / 2) l^2)
/// with the ridge, the mapping lambda mean l, and h = lambda y^2 / 2 on [0, 100].
struct Variance {
    h: Power,
    lambda: f64,
    ridge: f64,
    smooth: bool,
    domain: Box<dyn Set>,
}

fn variance(ridge: f64, domain: Box<dyn Set>) -> Eliminated<Variance> {
    let h = Power::square(0.1).unwrap().between(0.0, 100.0).unwrap();
    Eliminated::new(Variance { h, lambda: 0.1, ridge, smooth: true, domain })
}

impl Variance {
    fn each(&self, x: &[f64], samples: Pick, mut visit: impl FnMut(usize, f64, f64, f64)) {
        let Data { features, labels, .. } = data();
        let share = 1.0 / samples.count(ROWS) as f64;
        let mut row = |i: usize| {
            let z = labels[i] * features.row_dot(i, x);
            let loss = (-z.abs()).exp().ln_1p() + (-z).max(0.0);
            let slope = -labels[i] * if z >= 0.0 { (-z).exp() / (1.0 + (-z).exp()) } else { 1.0 / (1.0 + z.exp()) };
            visit(i, share, loss, slope);
        };
        match samples {
            Pick::All => (0..ROWS).for_each(row),
            Pick::These(ids) => ids.iter().for_each(|&i| row(i as usize)),
        }
    }
}

impl InfProjection for Variance {
    fn dim(&self) -> usize {
        COLUMNS
    }
    fn coupled(&self) -> usize {
        1
    }
    fn case(&self) -> Case {
        Case::DifferenceOfConvex
    }
    fn power(&self) -> &Power {
        &self.h
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn smooth(&self) -> bool {
        self.smooth
    }
    fn samples(&self) -> usize {
        ROWS
    }
    fn convex(&self, x: &[f64], samples: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
        grad.iter_mut().zip(x).for_each(|(g, x)| *g = self.ridge * x);
        let mut total = 0.5 * self.ridge * vec::norm_squared(x);
        self.each(x, samples, |i, share, loss, slope| {
            total += share * (loss + 0.5 * self.lambda * loss * loss);
            data().features.add_row(i, share * (1.0 + self.lambda * loss) * slope, grad);
        });
        Ok(total)
    }
    fn mapping(&self, x: &[f64], samples: Pick, out: &mut [f64]) -> thalweg::Result<()> {
        out[0] = 0.0;
        self.each(x, samples, |_, share, loss, _| out[0] += share * self.lambda * loss);
        Ok(())
    }
    fn add_mapping_pull(&self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
        self.each(x, samples, |i, share, _, slope| {
            data().features.add_row(i, factor * share * self.lambda * y[0] * slope, grad);
        });
        Ok(())
    }
}

#[test]
fn the_loss_and_its_variance() {
    let ball = |radius| Box::new(Ball::new(radius).unwrap());
    reaches(&variance(0.0, ball(5.0)), 0.3361358397789776, 5.0, 0.00010699923082686565);
    reaches(&variance(0.0, ball(2.0)), 0.3642798279978983, 2.0, 0.01690296733297972);
    reaches(&variance(1e-4, Box::new(WholeSpace)), 0.3373850798866285, 5.043879915699711, 0.0);
}

/// No point has the smallest value, for some columns are all of one label: the norm grows without end, and the value falls by
/// nothing that matters.
#[test]
fn an_infimum_that_is_not_attained() {
    let (outcome, _) = solve(&variance(0.0, Box::new(WholeSpace)), 5000);
    assert!((outcome.point.objective - 0.3357055822110145).abs() < 1e-8, "{}", outcome.point.objective);
}

#[test]
fn auto_looks_at_what_is_there() {
    let ball = || Box::new(Ball::new(5.0).unwrap());
    let choice = auto::choose(&variance(0.0, ball()));
    assert_eq!((choice.chosen, choice.chosen.name()), (Chosen::Lbfgs, "lbfgs"));
    assert_eq!(choice.reasons[1], "chosen: lbfgs, because nothing but the objective is there and it is smooth");
    let kinks = |domain: Box<dyn Set>| {
        let h = Power::square(0.1).unwrap().between(0.0, 100.0).unwrap();
        Eliminated::new(Variance { h, lambda: 0.1, ridge: 0.0, smooth: false, domain })
    };
    let prepared = auto::prepare(&kinks(ball()), &[0.0; COLUMNS], 1, 1e-6).unwrap();
    assert!(prepared.reasons[1].contains("st-spg with gamma and mu from short trial runs"), "{:?}", prepared.reasons);
    assert!(prepared.reasons[2].starts_with("to repeat: name = \"st-spg\", gamma = "), "{:?}", prepared.reasons);
    let mut solver = prepared.solver;
    let options = Options { record: Record::nothing(), ..Options::iterations(20_000) };
    let outcome = run::minimize(&kinks(ball()), &mut *solver, &[0.0; COLUMNS], &options, &mut ()).unwrap();
    // The untrained model has log 2.
    assert!(outcome.point.objective < 0.4, "{} with {:?}", outcome.point.objective, prepared.reasons);
}
