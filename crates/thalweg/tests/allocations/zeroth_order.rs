//! The zeroth-order methods that look through their constraints, on problems with known answers: spec 3.9, test 7, first steps by
//! hand, counts by the formulas, checkpoints in the middle of a projection, refusals, and no allocation in a step.

use thalweg::estimate::Law;
use thalweg::eval::{Evaluator, Proximal};
use thalweg::learn::{Data, Learning, ManyConstraints, Split};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::region::{BoundedRegion, Cone, Linearised};
use thalweg::oracle::{At, BlackBox, Description, Pick, Problem, Region, Scratch, Structure, Values};
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets::polyhedron::Rows;
use thalweg::sets::{Ball, Bounds, Polyhedron, Set, WholeSpace};
use thalweg::solvers::{
    Accszofw, Acczomda, Dszog, PointOrigin, Schedule, ValueEval, ZerothOrder, Zopsgd, Zoscgd, accszofw, acczomda, dszog, zopsgd,
    zoscgd,
};
use thalweg::{Error, Note, Result};

type Sample = Box<dyn Fn(&[f64], usize) -> f64 + Send + Sync>;

/// A mean of samples under linear constraints `rows x >= bounds`, which are a region, a domain or neither.
struct Mean {
    loss: Sample,
    streams: Vec<usize>,
    dim: usize,
    domain: Box<dyn Set>,
    rows: Option<Polyhedron>,
    region: Option<Box<dyn Region>>,
}

impl Description for Mean {
    fn dim(&self) -> usize {
        self.dim
    }
    fn num_constraints(&self) -> usize {
        self.rows.as_ref().map_or(0, Rows::len)
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn streams(&self) -> &[usize] {
        &self.streams
    }
    fn constraint_uses(&self, _: usize, _: usize) -> bool {
        false
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for Mean {
    fn objective(&self, at: At, _: &mut Scratch) -> Result<f64> {
        Ok(match (at.draw.stream(0), self.streams.first()) {
            (Pick::These(ids), _) => ids.iter().map(|&i| (self.loss)(at.x, i as usize)).sum::<f64>() / ids.len() as f64,
            (Pick::All, Some(&n)) => (0..n).map(|i| (self.loss)(at.x, i)).sum::<f64>() / n as f64,
            (Pick::All, None) => (self.loss)(at.x, 0),
        })
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
        let Some(rows) = &self.rows else { return Ok(()) };
        let value = |k: usize| rows.bound(k) - rows.dot(k, at.x);
        match which {
            Pick::All => g.iter_mut().enumerate().for_each(|(k, g)| *g = value(k)),
            Pick::These(ids) => ids.iter().zip(g).for_each(|(&k, g)| *g = value(k as usize)),
        }
        Ok(())
    }
}

impl Structure for Mean {
    fn region(&self) -> Option<&dyn Region> {
        self.region.as_deref()
    }
}

fn square() -> Polyhedron {
    let rows = Matrix::dense(4, 2, vec![1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, -1.0]).unwrap();
    Polyhedron::new(rows, vec![-1.0; 4]).unwrap()
}

/// `loss` over the square [-1, 1]^2, once as the domain and once as four constraints.
fn on_the_square(loss: impl Fn(&[f64], usize) -> f64 + Send + Sync + Clone + 'static, samples: Option<usize>) -> [Mean; 2] {
    let streams: Vec<usize> = samples.into_iter().collect();
    let domain = Mean {
        loss: Box::new(loss.clone()),
        streams: streams.clone(),
        dim: 2,
        domain: Box::new(Bounds::uniform(-1.0, 1.0).unwrap()),
        rows: None,
        region: None,
    };
    let region = BoundedRegion { rows: square(), radius: 10.0 };
    let rows = Some(square());
    let constraints =
        Mean { loss: Box::new(loss), streams, dim: 2, domain: Box::new(WholeSpace), rows, region: Some(Box::new(region)) };
    [domain, constraints]
}

fn run(problem: &dyn Values, solver: &mut ZerothOrder, start: &[f64], options: &Options) -> Outcome {
    run::minimize_zeroth_order(problem, solver, start, options, &mut ()).unwrap()
}

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

/// Differences along the axes with a small radius: the gradient up to 1e-7.
const EXACT: (Law, f64) = (Law::Coordinate, 1e-7);

fn exact_zopsgd(eta: f64) -> Zopsgd {
    Zopsgd::new(zopsgd::Settings { eta: eta.into(), law: EXACT.0, mu: EXACT.1, ..zopsgd::Settings::default() }).unwrap()
}

fn exact_zoscgd(alpha: Schedule, iterations: u64) -> Zoscgd {
    let base = zoscgd::Settings::default();
    Zoscgd::new(zoscgd::Settings { alpha, iterations, law: EXACT.0, mu: EXACT.1, ..base }).unwrap()
}

fn exact_acczomda(gamma: f64) -> Acczomda {
    Acczomda::new(acczomda::Settings { gamma, law: EXACT.0, mu: EXACT.1, ..acczomda::Settings::default() }).unwrap()
}

fn exact_accszofw(iterations: u64) -> Accszofw {
    let base = accszofw::Settings::default();
    Accszofw::new(accszofw::Settings { iterations, law: EXACT.0, mu: EXACT.1, ..base }).unwrap()
}

/// Spec 3.9, test 7.
#[test]
fn the_square_has_the_answers_that_are_worked_out() {
    let loss = |x: &[f64], _: usize| 0.5 * ((x[0] - 0.5).powi(2) + (x[1] - 2.0).powi(2));
    for problem in on_the_square(loss, None) {
        let m = problem.num_constraints();
        let cases: Vec<(Box<ZerothOrder>, u64, [f64; 2], f64)> = vec![
            (Box::new(exact_zopsgd(0.1)), 500, [0.5, 1.0], 1e-6),
            (Box::new(exact_zoscgd(Schedule::StronglyConvex(2.0), 1)), 1000, [0.5, 1.0], 1e-2),
            (Box::new(exact_acczomda(0.1)), 5000, [0.5, 1.0], 1e-6),
            // An error of the order of 1 / sqrt(T): with corners that are exact it is known, with corners from afar it is not.
            (Box::new(exact_accszofw(4000)), 4000, [0.490_476, 1.0], if m == 0 { 1e-4 } else { 0.016 }),
        ];
        for (mut solver, steps, wanted, tolerance) in cases {
            let outcome = run(&problem, &mut *solver, &[0.0, 0.0], &quiet(steps));
            let away = vec::distance(&outcome.point.x, &wanted);
            assert!(away <= tolerance, "{} with {m} constraints: {:?}", outcome.solver, outcome.point.x);
            assert!(outcome.point.feasible && outcome.notes.is_empty(), "{:?}", outcome.notes);
        }
    }
}

/// `2 x - y`, whose gradient every estimate along the axes gives exactly; iterates by hand.
#[test]
fn first_steps_are_those_of_the_formulas() {
    let [problem, constrained] = on_the_square(|x: &[f64], _: usize| 2.0 * x[0] - x[1], None);
    let path = |problem: &Mean, solver: &mut ZerothOrder, steps: u64| run(problem, solver, &[0.0, 0.0], &quiet(steps)).point.x;
    for problem in [&problem, &constrained] {
        let near = |found: Vec<f64>, wanted: [f64; 2]| assert!(vec::distance(&found, &wanted) < 1e-6, "{found:?} {wanted:?}");
        near(path(problem, &mut exact_zopsgd(0.1), 1), [-0.2, 0.1]);
        near(path(problem, &mut exact_zopsgd(0.1), 7), [-1.0, 0.7]);
        // Halfway to (-1, 1), twice.
        near(path(problem, &mut exact_zoscgd(Schedule::Theory, 4), 1), [-0.5, 0.5]);
        near(path(problem, &mut exact_zoscgd(Schedule::Theory, 4), 2), [-0.75, 0.75]);
        // To (-1, 0.5), then to (-1, w + 0.5), by eta_1 = 28^(-1/3) and eta_2 = 29^(-1/3).
        let (first, second) = (28_f64.cbrt().recip(), 29_f64.cbrt().recip());
        near(path(problem, &mut exact_acczomda(0.5), 1), [-first, 0.5 * first]);
        near(path(problem, &mut exact_acczomda(0.5), 2), [-first + second * (first - 1.0), 0.5 * (first + second)]);
        // eta = 1/2: gamma = 3/4, then 7/12; x = 0.75, y = 0.5, z = 0.625; then x = 43/48, y = 13/16.
        near(path(problem, &mut exact_accszofw(4), 1), [-0.625, 0.625]);
        let z = 2.0 / 3.0 * 13.0 / 16.0 + 43.0 / 48.0 / 3.0;
        near(path(problem, &mut exact_accszofw(4), 2), [-z, z]);
    }
}

/// The four methods with their default laws on few directions.
fn stochastic(random: bool) -> Vec<Box<ZerothOrder<'static>>> {
    let output = if random { zopsgd::Output::Random } else { zopsgd::Output::Last };
    let descent = zopsgd::Settings { eta: Schedule::InvSqrt(0.2), batch: 16, output, ..zopsgd::Settings::default() };
    let conditional = zoscgd::Settings { alpha: Schedule::StronglyConvex(2.0), batch: 16, output, ..zoscgd::Settings::default() };
    let storm = acczomda::Settings { gamma: 0.2, batch: 16, output, ..acczomda::Settings::default() };
    let spider = accszofw::Settings { iterations: 4000, output, ..accszofw::Settings::default() };
    vec![
        Box::new(Zopsgd::new(descent).unwrap()),
        Box::new(Zoscgd::new(conditional).unwrap()),
        Box::new(Acczomda::new(storm).unwrap()),
        Box::new(Accszofw::new(spider).unwrap()),
    ]
}

/// A finite sum: the mean of the centres is (0.5, 2), up to what the samples make of it.
fn finite_sum(samples: usize) -> [Mean; 2] {
    let mut noise = vec![0.0; 2 * samples];
    Rng::new(8, Purpose::Data).normals(&mut noise);
    let loss = move |x: &[f64], i: usize| {
        let (a, b) = (0.5 + 0.5 * noise[2 * i], 2.0 + 0.5 * noise[2 * i + 1]);
        0.5 * ((x[0] - a).powi(2) + (x[1] - b).powi(2))
    };
    on_the_square(loss, Some(samples))
}

#[test]
fn finite_sums_are_minimised() {
    let mut mean = vec![0.0; 800];
    Rng::new(8, Purpose::Data).normals(&mut mean);
    let centre = 0.5 + 0.5 * mean.iter().step_by(2).sum::<f64>() / 400.0;
    for problem in finite_sum(400) {
        let mut solvers = stochastic(false);
        // Where the sign of a noisy slope decides, noise is bias: many directions keep it small.
        let alpha = Schedule::StronglyConvex(2.0);
        solvers[1] = Box::new(Zoscgd::new(zoscgd::Settings { alpha, directions: 400, ..Default::default() }).unwrap());
        let axes = accszofw::Settings { iterations: 4000, coordinate: true, ..Default::default() };
        solvers[3] = Box::new(Accszofw::new(axes).unwrap());
        for (mut solver, tolerance) in solvers.into_iter().zip([0.05, 0.1, 0.05, 0.05]) {
            let outcome = run(&problem, &mut *solver, &[-0.5, -0.5], &quiet(4000));
            let away = vec::distance(&outcome.point.x, &[centre, 1.0]);
            assert!(away < tolerance, "{}: {:?}; expected {centre} and 1", outcome.solver, outcome.point.x);
        }
    }
}

/// Spec 3.4: batch (Q + 1) values, twice that with STORM but at first, b1 (Q + 1) or 2 b2 (Q + 1) with SPIDER; every subproblem
/// costs the values of all constraints.
#[test]
fn queries_equal_the_formulas() {
    for problem in finite_sum(100) {
        let m = problem.num_constraints() as u64;
        // 25 steps with 10 directions; SPIDER has large batches at 0, 10 and 20.
        let wanted = [25 * 16 * 11, 25 * 16 * 11, (1 + 2 * 24) * 16 * 11, 3 * 100 * 11 + 22 * 2 * 10 * 11];
        for (mut solver, wanted) in stochastic(false).into_iter().zip(wanted) {
            let counts = run(&problem, &mut *solver, &[0.0, 0.0], &quiet(25)).counts;
            let name = solver.name();
            assert_eq!(counts.objective_values.samples, wanted, "{name}");
            assert_eq!((counts.constraint_values.samples, counts.projections), (25 * m, 25), "{name}");
            // Each projection needs at least a sweep that moves nothing.
            assert!(if m > 0 { counts.inner >= 25 * m } else { counts.inner == 0 }, "{name}: {}", counts.inner);
            assert_eq!(counts.objective_subgradients.samples + counts.constraint_subgradients.samples, 0);
        }
    }
    // Along the axes a large batch has d + 1 values for each sample.
    let settings = accszofw::Settings { coordinate: true, q: Some(5), b1: Some(50), b2: Some(3), ..Default::default() };
    let [problem, _] = finite_sum(100);
    let counts = run(&problem, &mut Accszofw::new(settings).unwrap(), &[0.0, 0.0], &quiet(10)).counts;
    assert_eq!(counts.objective_values.samples, 2 * 50 * 3 + 8 * 2 * 3 * 11);
}

/// Ranking: a bounded loss and the cone of all pairs, by pairs or collapsed.
fn ranked(rows: usize, dim: usize, collapsed: bool) -> ManyConstraints {
    let mut entries = vec![0.0; rows * dim];
    Rng::new(31, Purpose::Data).normals(&mut entries);
    let labels: Vec<f64> = (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
    // The last column tells the labels apart, so that the cone is more than its tip.
    (0..rows).for_each(|i| entries[i * dim + dim - 1] += 2.0 * labels[i]);
    let data = Data { features: Matrix::dense(rows, dim, entries).unwrap(), labels, groups: None, weights: None };
    let model = Learning::on(data).split(Split::Shared).minimize("welsch".parse().unwrap()).build().unwrap();
    let problem = ManyConstraints::pairs(model, 0.0).unwrap();
    if collapsed { problem.collapsed() } else { problem }
}

/// Both forms of the cone give the same iterates, up to what projections leave open, and they keep all pairs.
#[test]
fn both_forms_of_a_ranking_cone_lead_to_the_same_points() {
    let (pairs, collapsed) = (ranked(45, 6, false), ranked(45, 6, true));
    for k in 0..4 {
        let path = |problem: &ManyConstraints| {
            // Enough sweeps for every subproblem, so that a step is an iteration.
            let mut solver: Box<ZerothOrder> = match k {
                0 => {
                    Box::new(Zopsgd::new(zopsgd::Settings { eta: 0.1.into(), sweeps: 1_000_000, ..Default::default() }).unwrap())
                }
                1 => Box::new(Zoscgd::new(zoscgd::Settings { sweeps: 1_000_000, ..Default::default() }).unwrap()),
                2 => Box::new(Acczomda::new(acczomda::Settings { gamma: 0.1, sweeps: 1_000_000, ..Default::default() }).unwrap()),
                _ => Box::new(Accszofw::new(accszofw::Settings { sweeps: 1_000_000, ..Default::default() }).unwrap()),
            };
            run(problem, &mut *solver, &[0.0; 6], &quiet(30))
        };
        let (first, second) = (path(&pairs), path(&collapsed));
        let size = vec::norm(&first.point.x);
        assert!(size > 1e-2, "{}: {:?}", first.solver, first.point.x);
        let away = vec::distance(&first.point.x, &second.point.x);
        assert!(away < 1e-3 * size, "{}: {away} of {size}", first.solver);
        assert!(first.point.constraints.iter().all(|c| c.value <= 1e-3), "{}", first.solver);
    }
}

/// The point that a price leaves outside comes back to the nearest one inside, and the outcome tells of both.
#[test]
fn a_returned_point_is_repaired_if_that_is_asked_for() {
    let [_, problem] = on_the_square(|x: &[f64], _: usize| (x[0] - 3.0).powi(2) + x[1].powi(2), None);
    let settings = || dszog::Settings { eta_w: 0.01.into(), mu: 1e-6, ..dszog::Settings::default() };
    let plain = run(&problem, &mut Dszog::new(settings()).unwrap(), &[0.0, 0.0], &quiet(2000));
    assert!(!plain.point.feasible && (plain.point.x[0] - 2.0).abs() < 0.1, "{:?}", plain.point.x);
    let options = Options { repair: true, ..quiet(2000) };
    let found = run(&problem, &mut Dszog::new(settings()).unwrap(), &[0.0, 0.0], &options);
    assert_eq!((found.returned, found.point.feasible), (PointOrigin::Repaired, true));
    let nearest = [1.0, plain.point.x[1]];
    assert!(vec::distance(&found.point.x, &nearest) < 1e-6, "{:?}", found.point.x);
    assert!(found.counts.inner > plain.counts.inner && found.zeroth_order.unwrap().weights_residual.is_none());
    let (violation, objective) = (plain.point.violation, plain.point.objective);
    let repaired = Note::Repaired { violated: 1, constraints: 4, violation, objective };
    assert!(found.notes.contains(&repaired), "{repaired}: {:?}", found.notes);
    // One that is inside stays the method's own.
    let inside = run(&problem, &mut exact_zopsgd(0.1), &[0.0, 0.0], &options);
    assert_eq!(inside.returned, PointOrigin::OutputRule);
}

/// Constraints that are not linear are approached from the point before; those that contradict each other leave the point alone.
#[test]
fn what_cannot_be_repaired_is_said() {
    let circle = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
        f[0] = at[0] * at[0] + at[1] * at[1] - 1.0;
        rows.copy_from_slice(&[2.0 * at[0], 2.0 * at[1]]);
        Ok(())
    };
    let disc = BlackBox::new(2)
        .objective(|x| (x[0] - 3.0).powi(2) + (x[1] - 3.0).powi(2))
        .constraints(1, |x, _, g| g[0] = x[0] * x[0] + x[1] * x[1] - 1.0)
        .region(Linearised { constraints: 1, radius: 10.0, values: circle });
    let options = Options { repair: true, ..quiet(500) };
    let solver = || Dszog::new(dszog::Settings { eta_w: 0.01.into(), ..dszog::Settings::default() }).unwrap();
    let found = run(&disc, &mut solver(), &[0.0, 0.0], &options);
    assert!(found.point.feasible && found.returned == PointOrigin::Repaired && vec::norm(&found.point.x) > 0.999, "{found:?}");

    let both = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
        f.copy_from_slice(&[1.0 - at[0], 1.0 + at[0]]);
        rows.copy_from_slice(&[-1.0, 1.0]);
        Ok(())
    };
    let nowhere = BlackBox::new(1)
        .objective(|x| x[0] * x[0])
        .constraints(2, |x, which, g| which.each(2, |at, j| g[at] = if j == 0 { 1.0 - x[0] } else { 1.0 + x[0] }))
        .region(Linearised { constraints: 2, radius: 10.0, values: both });
    let found = run(&nowhere, &mut solver(), &[0.5], &options);
    assert_eq!(found.returned, PointOrigin::OutputRule);
    assert!(found.notes.iter().any(|note| matches!(note, Note::NotRepaired { .. })), "{:?}", found.notes);

    let closures = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0).constraint("c", |x| x[0], |_, s| s[0] = 1.0);
    let refused = run::minimize_zeroth_order(&closures, &mut solver(), &[0.0], &options, &mut ()).unwrap_err().to_string();
    assert!(refused.contains("give the problem a region, or turn repair off"), "{refused}");
}

/// Threads change no bit, and neither does stopping and going on, in the middle of a projection too.
#[test]
fn a_continued_run_is_the_uninterrupted_one() {
    let folder = std::env::temp_dir().join(format!("thalweg-zeroth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut unfinished = 0;
    for collapsed in [false, true] {
        let problem = ranked(45, 6, collapsed);
        let solvers = || -> Vec<Box<ZerothOrder>> {
            let (sweeps, tolerance, output) = (2, 1e-9, zopsgd::Output::Random);
            vec![
                Box::new(
                    Zopsgd::new(zopsgd::Settings { eta: 0.3.into(), sweeps, tolerance, output, ..Default::default() }).unwrap(),
                ),
                Box::new(Zoscgd::new(zoscgd::Settings { sweeps, tolerance, ..Default::default() }).unwrap()),
                Box::new(Acczomda::new(acczomda::Settings { gamma: 0.3, sweeps, tolerance, ..Default::default() }).unwrap()),
                Box::new(Accszofw::new(accszofw::Settings { sweeps, tolerance, output, ..Default::default() }).unwrap()),
            ]
        };
        for (k, mut solver) in solvers().into_iter().enumerate() {
            let whole = run(&problem, &mut *solver, &[0.1; 6], &Options::iterations(300));
            let two = run(&problem, &mut *solver, &[0.1; 6], &Options { threads: 2, ..Options::iterations(300) });
            assert_eq!((&whole.point.x, &whole.counts), (&two.point.x, &two.counts));
            let file = folder.join(format!("{collapsed}{k}.bin"));
            let mut parts = vec![];
            for stop in [1, 2, 3, 50, 111, 300] {
                let checkpoint = run::Checkpoint {
                    file: file.clone(),
                    every: std::time::Duration::MAX,
                    resume: true,
                    settings: String::new(),
                };
                let mut solver = solvers().remove(k);
                let options = Options { checkpoint: Some(checkpoint), ..Options::iterations(stop) };
                let outcome = run(&problem, &mut *solver, &[0.1; 6], &options);
                unfinished +=
                    usize::from(stop < 300 && outcome.notes.iter().any(|n| matches!(n, Note::ProjectionUnfinished { .. })));
                parts.push(outcome);
            }
            let last = parts.pop().unwrap();
            assert_eq!(last.point.x, whole.point.x, "{}", whole.solver);
            assert_eq!(last.counts, whole.counts, "{}", whole.solver);
            assert!(whole.counts.projections > 3, "{}: {:?}", whole.solver, whole.counts);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(unfinished >= 8, "only {unfinished} of 40 stops were in the middle of a projection");
}

/// Rows so nearly opposite that a projection takes for ever: the iterate waits, the budget ends it, a note says so.
#[test]
fn a_projection_that_never_finishes_is_told() {
    let rows = || Polyhedron::new(Matrix::dense(2, 2, vec![1.0, 1e-5, -1.0, 1e-5]).unwrap(), vec![0.0, 0.0]).unwrap();
    let problem = Mean {
        loss: Box::new(|x, _| x[0] + x[1]),
        streams: vec![],
        dim: 2,
        domain: Box::new(WholeSpace),
        rows: Some(rows()),
        region: Some(Box::new(Cone { rows: rows(), radius: 10.0 })),
    };
    let outcome = run(&problem, &mut exact_zopsgd(1.0), &[0.0, 0.0], &quiet(40));
    let [note] = outcome.notes.as_slice() else { panic!("{:?}", outcome.notes) };
    let said = "the projection of the last iterate onto the constraints was not finished after 40 steps";
    assert!(note.to_string().starts_with(said), "{note}");
    assert_eq!((outcome.point.x, outcome.counts.projections), (vec![0.0, 0.0], 0));
    assert_eq!(outcome.counts.objective_values.samples, 3, "one estimate, however many steps");
    // In each of 50 sweeps both rows, up to ten times more if they push.
    assert!((40 * 50 * 2..=40 * 50 * 22).contains(&outcome.counts.inner), "{}", outcome.counts.inner);
}

#[test]
fn constraints_that_are_not_linear_are_linearised() {
    // min -x - y subject to x^2 + y^2 <= 1, and to (x - 3)^2 + y^2 >= 4, which is not convex: (1, 0) is cut off, the rest not.
    type Rows = fn(&[f64], &mut [f64], &mut [f64]) -> Result<()>;
    struct Round(Linearised<Rows>);
    fn values(at: &[f64], f: &mut [f64], rows: &mut [f64]) -> Result<()> {
        f[0] = at[0] * at[0] + at[1] * at[1] - 1.0;
        f[1] = 4.0 - (at[0] - 3.0).powi(2) - at[1] * at[1];
        rows.copy_from_slice(&[2.0 * at[0], 2.0 * at[1], -2.0 * (at[0] - 3.0), -2.0 * at[1]]);
        Ok(())
    }
    impl Description for Round {
        fn dim(&self) -> usize {
            2
        }
        fn num_constraints(&self) -> usize {
            2
        }
        fn structure(&self) -> &dyn Structure {
            self
        }
    }

    impl Values for Round {
        fn objective(&self, at: At, _: &mut Scratch) -> Result<f64> {
            Ok(-at.x[0] - at.x[1])
        }
        fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
            let (mut f, mut rows) = ([0.0; 2], [0.0; 4]);
            values(at.x, &mut f, &mut rows)?;
            match which {
                Pick::All => g.copy_from_slice(&f),
                Pick::These(ids) => ids.iter().zip(g).for_each(|(&j, g)| *g = f[j as usize]),
            }
            Ok(())
        }
    }

    impl Structure for Round {
        fn region(&self) -> Option<&dyn Region> {
            Some(&self.0)
        }
    }
    let problem = Round(Linearised { constraints: 2, radius: 10.0, values });
    let half = 0.5_f64.sqrt();
    for (mut solver, tolerance) in
        [(Box::new(exact_zopsgd(0.05)) as Box<ZerothOrder>, 1e-3), (Box::new(exact_acczomda(0.1)), 1e-2)]
    {
        let outcome = run(&problem, &mut *solver, &[0.0, 0.5], &quiet(2000));
        let away = vec::distance(&outcome.point.x, &[half, half]);
        assert!(away < tolerance, "{}: {:?} {:?}", outcome.solver, outcome.point.x, outcome.notes);
        assert_eq!(outcome.counts.constraint_values.samples, 2 * outcome.counts.projections);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let said = |error: Error| error.to_string();
    let psgd = |settings| said(Zopsgd::new(settings).unwrap_err());
    assert_eq!(
        psgd(zopsgd::Settings { eta: 0.0.into(), ..Default::default() }),
        "eta must be a finite number larger than 0, got 0"
    );
    assert!(psgd(zopsgd::Settings { eta: Schedule::Theory, ..Default::default() }).starts_with("eta must be "));
    assert_eq!(psgd(zopsgd::Settings { sweeps: 0, ..Default::default() }), "sweeps must be at least 1, got 0");
    assert_eq!(psgd(zopsgd::Settings { batch: 0, ..Default::default() }), "batch must be at least 1, got 0");
    let tolerance = zopsgd::Settings { tolerance: f64::NAN, ..Default::default() };
    assert_eq!(psgd(tolerance), "tolerance must be a finite number larger than 0, got NaN");
    let scgd = |settings| said(Zoscgd::new(settings).unwrap_err());
    assert_eq!(scgd(zoscgd::Settings { iterations: 0, ..Default::default() }), "iterations must be at least 1, got 0");
    assert_eq!(scgd(zoscgd::Settings { mu: -1.0, ..Default::default() }), "mu must be a finite number larger than 0, got -1");
    assert_eq!(scgd(zoscgd::Settings { directions: 0, ..Default::default() }), "directions must be at least 1, got 0");
    let alpha = zoscgd::Settings { alpha: (-1.0).into(), ..Default::default() };
    assert_eq!(scgd(alpha), "alpha must be a finite number larger than 0, got -1");
    let zomda = |settings| said(Acczomda::new(settings).unwrap_err());
    assert_eq!(
        zomda(acczomda::Settings { gamma: 0.0, ..Default::default() }),
        "gamma must be a finite number larger than 0, got 0"
    );
    assert_eq!(zomda(acczomda::Settings { m: -1.0, ..Default::default() }), "m must be a finite number, 0 or larger, got -1");
    let step = zomda(acczomda::Settings { k: 3.0, m: 7.0, ..Default::default() });
    assert_eq!(step, "k must be at most 2, the cube root of m + 1, so that no step goes beyond the projected point, got 3");
    let szofw = |settings| said(Accszofw::new(settings).unwrap_err());
    for (settings, name) in [
        (accszofw::Settings { iterations: 0, ..Default::default() }, "iterations"),
        (accszofw::Settings { q: Some(0), ..Default::default() }, "q"),
        (accszofw::Settings { b1: Some(0), ..Default::default() }, "b1"),
        (accszofw::Settings { b2: Some(0), ..Default::default() }, "b2"),
    ] {
        assert_eq!(szofw(settings), format!("{name} must be at least 1, got 0"));
    }
    // Settings are read by name, and unknown ones refused.
    let read: zoscgd::Settings = toml::from_str("alpha = { rule = \"strongly-convex\", c = 2 }\nlaw = \"sphere\"").unwrap();
    assert_eq!((read.alpha, read.law), (Schedule::StronglyConvex(2.0), Law::Sphere));
    assert!(toml::from_str::<accszofw::Settings>("batch = 3").unwrap_err().to_string().contains("unknown field"));

    let known = Problem::new(1).constraint("a", |x| x[0], |_, _| {});
    let free = Problem::new(1);
    let round = Problem::new(1).domain(Ball::new(1.0).unwrap());
    for (k, mut solver) in stochastic(false).into_iter().enumerate() {
        let name = solver.name();
        let mut start = |problem: &Problem| run::minimize_zeroth_order(problem, &mut *solver, &[0.0], &quiet(3), &mut ());
        let refused = start(&known).unwrap_err().to_string();
        let wanted =
            format!("{name} projects onto the constraints, but this problem has no projection; use a problem with a region");
        assert!(refused.starts_with(&wanted), "{refused}");
        match start(&free) {
            Ok(_) => assert!(k == 0 || k == 2, "{name}"),
            Err(refused) => assert_eq!(
                refused.to_string(),
                format!("{name} minimises linear functions over the domain, and this one (whole space) is not bounded")
            ),
        }
        assert!(start(&round).is_ok());
    }
}

/// What is not a number is named, and the point before it is kept.
#[test]
fn a_nan_is_named_and_the_point_before_it_is_kept() {
    let loss = |x: &[f64], _: usize| if x[0] > 0.5 { f64::NAN } else { -x[0] };
    for problem in on_the_square(loss, None) {
        for mut solver in stochastic(false) {
            let outcome = run(&problem, &mut *solver, &[0.0, 0.0], &Options::iterations(5000));
            let StopReason::Failed { reason, .. } = &outcome.ended else { panic!("{}: {}", outcome.solver, outcome.ended) };
            assert_eq!(reason, "the objective is NaN; expected a finite number");
            assert!(outcome.point.x[0] <= 0.5 && outcome.point.objective.is_finite(), "{}", outcome.solver);
        }
    }
    // A row of the constraints that is not a number.
    struct Broken;
    impl Rows for Broken {
        fn len(&self) -> usize {
            1
        }
        fn dot(&self, _: usize, x: &[f64]) -> f64 {
            if x[0] > 0.3 { f64::NAN } else { 1.0 }
        }
        fn add(&self, _: usize, _: f64, _: &mut [f64]) {}
        fn square(&self, _: usize) -> f64 {
            1.0
        }
    }
    let [_, mut problem] = on_the_square(|x: &[f64], _: usize| -x[0], None);
    problem.region = Some(Box::new(Cone { rows: Broken, radius: 1.0 }));
    let outcome = run(&problem, &mut exact_zopsgd(0.1), &[0.0, 0.0], &quiet(50));
    assert!(outcome.ended.to_string().contains("the value of row 1 of the constraints"), "{}", outcome.ended);
    assert!(outcome.point.x[0] <= 0.31);
}

#[test]
fn a_random_iterate_is_one_of_those_visited() {
    let [problem, _] = finite_sum(50);
    for (k, mut solver) in stochastic(true).into_iter().enumerate() {
        let mut visited = vec![];
        let mut seen = 0;
        for seed in 0..5 {
            let options = Options { seed, ..quiet(20) };
            visited.clear();
            struct Keep<'a>(&'a mut Vec<Vec<f64>>);
            impl run::Observer for Keep<'_> {
                fn recorded(&mut self, _: &run::Row, x: &[f64], _: &run::Diagnostics) {
                    self.0.push(x.to_vec());
                }
            }
            let every = Options { record: Record { every: Some(1), ..Record::default() }, ..options };
            let outcome =
                run::minimize_zeroth_order(&problem, &mut *solver, &[0.0, 0.0], &every, &mut Keep(&mut visited)).unwrap();
            let at = visited.iter().position(|x| *x == outcome.point.x).unwrap();
            assert!(at < 20, "solver {k} returned the last iterate, at which it did not look");
            seen += at;
        }
        assert!(seen > 10, "solver {k} returns early iterates only");
    }
}

/// A view with moved constraints describes another set.
#[test]
fn a_view_has_the_region_of_its_problem_only_where_the_constraints_are_the_same() {
    let [_, problem] = finite_sum(5);
    let mut inner = Evaluator::new(&problem, 0, 0.0);
    let mut work = vec![];
    for (rho_g, slack, there) in [(0.0, 0.0, true), (1.0, 0.0, false), (0.0, 0.1, false)] {
        let view = Proximal { inner: &mut inner, centre: &[0.0, 0.0], rho_f: 1.0, rho_g, slack, work: &mut work };
        assert_eq!(view.region().is_some(), there);
    }
}

#[test]
fn a_step_allocates_nothing() {
    let before = crate::counting::count();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(crate::counting::count() > before, "the counter must count");
    let round = {
        let values = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
            f[0] = at[0] * at[0] + at[1] * at[1] - 0.25;
            rows.copy_from_slice(&[2.0 * at[0], 2.0 * at[1]]);
            Ok(())
        };
        let [_, mut problem] = finite_sum(300);
        problem.region = Some(Box::new(Linearised { constraints: 1, radius: 10.0, values }));
        problem
    };
    let [domain, square] = finite_sum(300);
    let (pairs, collapsed) = (ranked(45, 6, false), ranked(45, 6, true));
    let problems: [(&str, &dyn Values); 5] =
        [("domain", &domain), ("square", &square), ("linearised", &round), ("pairs", &pairs), ("collapsed", &collapsed)];
    for (name, problem) in problems {
        for mut solver in stochastic(true) {
            thalweg::math::reduce::with_threads(1, || {
                let ev: &mut dyn ValueEval = &mut Evaluator::new(problem, 1, 1e-6);
                solver.start(ev, &vec![0.1; problem.dim()]).unwrap();
                (0..300).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
                let before = crate::counting::count();
                (0..300).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
                assert_eq!(crate::counting::count() - before, 0, "{} on {name}", solver.name());
            })
            .unwrap();
        }
    }
}
