//! Min-max methods: steps by hand, the worst case with frozen variables, known answers, lazy iterates against written ones,
//! checkpoints, counts, refusals, and what learning problems offer them.

use thalweg::learn::{Data, Learning};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{At, Description, Draw, Pick, SampleLosses, Scratch, Structure, Subgradients, Values, Warm};
use thalweg::plan;
use thalweg::run::{self, Options, Outcome, Record, StopReason};
use thalweg::sets::{Ball, Bounds, ChiSquare, Set, WholeSpace};
use thalweg::solvers::st_spg::Iterates;
use thalweg::solvers::{Bmd, FirstOrder, Pgsmd, bmd, pgsmd};

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

fn run(problem: &dyn Subgradients, solver: &mut FirstOrder, start: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, solver, start, options, &mut ()).unwrap()
}

/// l_i = (x - a_i)^2 / 2 + b_i of one variable. The objective is their mean.
struct Parabolas {
    losses: Vec<(f64, f64)>,
    domain: Box<dyn Set>,
}

fn parabolas(losses: &[(f64, f64)]) -> Parabolas {
    Parabolas { losses: losses.to_vec(), domain: Box::new(WholeSpace) }
}

impl SampleLosses for Parabolas {
    fn dim(&self) -> usize {
        1
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn samples(&self) -> usize {
        self.losses.len()
    }
    fn add_loss(&self, x: &[f64], sample: usize, factor: f64, grad: &mut [f64]) -> thalweg::Result<f64> {
        let (a, b) = self.losses[sample];
        grad[0] += factor * (x[0] - a);
        Ok(0.5 * (x[0] - a).powi(2) + b)
    }
}

impl Description for Parabolas {
    fn dim(&self) -> usize {
        1
    }
    fn num_constraints(&self) -> usize {
        0
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for Parabolas {
    fn objective(&self, at: At, _: &mut Scratch) -> thalweg::Result<f64> {
        mean_loss(self, at.x, &mut [0.0])
    }
    fn constraint_values(&self, _: At, _: Pick, _: &mut [f64], _: &mut Scratch) -> thalweg::Result<()> {
        Ok(())
    }
}

impl Structure for Parabolas {
    fn sample_losses(&self) -> Option<&dyn SampleLosses> {
        Some(self)
    }
}

impl Subgradients for Parabolas {
    fn objective_grad(&self, at: At, grad: &mut [f64], _: &mut Scratch) -> thalweg::Result<f64> {
        grad.fill(0.0);
        mean_loss(self, at.x, grad)
    }
    fn constraint_vjp(
        &self,
        _: At,
        _: &mut [f64],
        _: &mut dyn FnMut(&[f64], &mut [f64]),
        _: &mut [f64],
        _: &mut Scratch,
    ) -> thalweg::Result<()> {
        Ok(())
    }
}

fn mean_loss(losses: &dyn SampleLosses, x: &[f64], grad: &mut [f64]) -> thalweg::Result<f64> {
    let n = losses.samples();
    let mut total = 0.0;
    for i in 0..n {
        total += losses.add_loss(x, i, 1.0 / n as f64, grad)? / n as f64;
    }
    Ok(total)
}

/// The worst case at x and its gradient, by the minimiser of a linear function over the set.
fn worst_case(losses: &dyn SampleLosses, set: &ChiSquare, x: &[f64], grad: &mut [f64]) -> f64 {
    let n = losses.samples();
    let mut space = vec![0.0; x.len()];
    let slope: Vec<f64> = (0..n).map(|i| -losses.add_loss(x, i, 0.0, &mut space).unwrap()).collect();
    let mut p = vec![0.0; n];
    set.linear_minimizer(&slope, &mut p).unwrap();
    grad.fill(0.0);
    (0..n).map(|i| p[i] * losses.add_loss(x, i, p[i], grad).unwrap()).sum()
}

/// x = 0, P = (1/2, 1/2), losses 1/2 and 1: whichever sample is drawn, the step is one of two.
#[test]
fn the_first_step_of_bmd_by_hand() {
    let problem = parabolas(&[(-1.0, 0.0), (1.0, 0.5)]);
    let mut seen = [false; 2];
    for (seed, tree) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let settings =
            bmd::Settings { eta_p: Some(0.05), eta_theta: 0.1, rho: 0.04, delta: 0.0, tree, ..bmd::Settings::default() };
        let mut solver = Bmd::new(settings).unwrap();
        let x = run(&problem, &mut solver, &[0.0], &Options { seed, ..quiet(1) }).point.x[0];
        let mut p = [0.0; 2];
        solver.weights(&mut p);
        // W = (.55, .5) or (.5, .6), less half of what was raised
        let (first, wanted) = if x < 0.0 { (0, [0.525, 0.475]) } else { (1, [0.45, 0.55]) };
        assert!((x.abs() - 0.1).abs() < 1e-16 && vec::distance(&p, &wanted) < 1e-15, "{x} {p:?}");
        seen[first] = true;
    }
    assert_eq!(seen, [true; 2]);
}

/// l = (x - 1)^2 / 2, eta_theta = 1 and rho_wc = 1/2: in stage 0, theta' = (2/3) theta - (1/3)(theta - 1).
#[test]
fn the_first_stage_of_pgsmd_by_hand() {
    let problem = parabolas(&[(1.0, 0.0)]);
    let settings = pgsmd::Settings { eta_theta: 1.0, rho_wc: 0.5, ..pgsmd::Settings::default() };
    let mut solver = Pgsmd::new(settings).unwrap();
    assert_eq!(run(&problem, &mut solver, &[0.0], &quiet(3)).point.x, [0.0]);
    let mut solver = Pgsmd::new(pgsmd::Settings { eta_theta: 1.0, rho_wc: 0.5, ..pgsmd::Settings::default() }).unwrap();
    let outcome = run(&problem, &mut solver, &[0.0], &quiet(4));
    // The mean of 0, 1/3, 4/9 and 13/27.
    assert!((outcome.point.x[0] - 34.0 / 108.0).abs() < 1e-15, "{:?}", outcome.point.x);
    assert_eq!(solver.stage(), 1);
    // Stage 1 has 9 steps, stage 2 has 16.
    for (steps, stage) in [(12, 1), (13, 2), (28, 2), (29, 3)] {
        run(&problem, &mut solver, &[0.0], &quiet(steps));
        assert_eq!(solver.stage(), stage, "{steps}");
    }
}

/// Losses 1 and 3 that hardly move: P goes to (.4, .6), where the worst case is 2.2.
#[test]
fn with_frozen_variables_the_weights_go_to_the_worst_case() {
    let problem = parabolas(&[(0.0, 1.0), (0.0, 3.0)]);
    for tree in [false, true] {
        // rho = .04, for two samples
        let divergence = Some(0.02);
        let settings =
            bmd::Settings { eta_p: Some(1e-4), eta_theta: 1e-12, divergence, delta: 0.0, tree, ..bmd::Settings::default() };
        let mut solver = Bmd::new(settings).unwrap();
        run(&problem, &mut solver, &[0.0], &quiet(20_000));
        let mut p = [0.0; 2];
        solver.weights(&mut p);
        assert!((p[0] + 3.0 * p[1] - 2.2).abs() < 1e-3, "{p:?}");
    }
}

/// l_1 = (x + 1)^2 / 2 and l_2 = (x - 1)^2 / 2 + 1/2 with rho = .04: the worst case is (x^2 + 1)/2 + 1/4 + .1 |1/2 - 2 x|, which is
/// smallest at x = .2. The mean is smallest at 0.
#[test]
fn two_samples_have_the_minimiser_by_hand() {
    let problem = parabolas(&[(-1.0, 0.0), (1.0, 0.5)]);
    let set = ChiSquare::new(2, 0.04, 0.0).unwrap();
    let at = |x: f64| worst_case(&problem, &set, &[x], &mut [0.0]);
    assert!((at(0.2) - (0.52 + 0.25 + 0.01)).abs() < 1e-15);
    for tree in [false, true] {
        let settings = bmd::Settings {
            eta_p: Some(1e-3),
            eta_theta: 2e-3,
            rho: 0.04,
            delta: 0.0,
            tree,
            output: bmd::Output::Average,
            ..bmd::Settings::default()
        };
        let x = run(&problem, &mut Bmd::new(settings).unwrap(), &[0.0], &quiet(200_000)).point.x[0];
        assert!((x - 0.2).abs() < 0.02, "bmd, tree {tree}: {x}");
        for restart in [pgsmd::Restart::Uniform, pgsmd::Restart::Carry] {
            let settings = pgsmd::Settings {
                eta_p: Some(0.03),
                eta_theta: 0.5,
                rho_wc: 0.05,
                rho: 0.04,
                delta: 0.0,
                tree,
                restart,
                ..pgsmd::Settings::default()
            };
            let x = run(&problem, &mut Pgsmd::new(settings).unwrap(), &[0.0], &quiet(200_000)).point.x[0];
            assert!((x - 0.2).abs() < 0.04, "pgsmd, tree {tree}, {restart:?}: {x}");
        }
    }
}

fn data(rows: usize, cols: usize, per_row: f64) -> Data {
    let mut rng = Rng::new(8, Purpose::Data);
    let (mut ptr, mut ids, mut values, mut labels) = (vec![0], vec![], vec![], vec![]);
    for i in 0..rows {
        let mut score = 0.0;
        for c in 0..cols as u32 {
            if rng.uniform() < per_row / cols as f64 {
                let value = 2.0 * rng.uniform() - 1.0;
                score += value * f64::from(c % 3) - value;
                ids.push(c);
                values.push(value);
            }
        }
        labels.push(if (score + 0.3 * (rng.uniform() - 0.5) > 0.0) != (i % 9 == 0) { 1.0 } else { -1.0 });
        ptr.push(ids.len());
    }
    Data { features: Matrix::sparse(cols, ptr, ids, values).unwrap(), labels, groups: None, weights: None }
}

fn learning(data: Data, objective: &str, intercept: bool, domain: impl Set + 'static) -> Learning {
    Learning::on(data).minimize(objective.parse().unwrap()).intercept(intercept).domain(domain).build().unwrap()
}

/// Both methods come near the minimum of the worst case that full gradient steps find, and well below what the minimiser of the
/// mean has there.
#[test]
fn both_come_near_the_minimum_of_the_worst_case() {
    let (n, rho) = (60, 4.0);
    let problem = learning(data(n, 6, 4.0), "logistic", false, Ball::new(3.0).unwrap());
    let losses = problem.sample_losses().unwrap();
    let set = ChiSquare::new(n, rho, 1e-3).unwrap();
    let descend = |gradient: &dyn Fn(&[f64], &mut [f64])| {
        let (mut x, mut d) = (vec![0.0; 6], vec![0.0; 6]);
        for _ in 0..20_000 {
            gradient(&x, &mut d);
            vec::add_scaled(&mut x, -0.5, &d);
            Ball::new(3.0).unwrap().project(&mut x, &mut Warm::default()).unwrap();
        }
        x
    };
    let best = descend(&|x, d| {
        worst_case(losses, &set, x, d);
    });
    let of_mean = descend(&|x, d| {
        d.fill(0.0);
        mean_loss(losses, x, d).unwrap();
    });
    let at = |x: &[f64]| worst_case(losses, &set, x, &mut [0.0; 6]);
    let (best, of_mean) = (at(&best), at(&of_mean));
    let eta_p = Some(1e-5);
    let average = bmd::Output::Average;
    let settings = bmd::Settings { eta_p, eta_theta: 0.01, rho, delta: 1e-3, output: average, ..bmd::Settings::default() };
    let x = run(&problem, &mut Bmd::new(settings).unwrap(), &[0.0; 6], &quiet(400_000)).point.x;
    let by_bmd = at(&x);
    let restart = pgsmd::Restart::Carry;
    let settings = pgsmd::Settings {
        eta_p: Some(1e-3),
        eta_theta: 1.0,
        rho_wc: 0.01,
        rho,
        delta: 1e-3,
        restart,
        ..pgsmd::Settings::default()
    };
    let x = run(&problem, &mut Pgsmd::new(settings).unwrap(), &[0.0; 6], &quiet(400_000)).point.x;
    let by_pgsmd = at(&x);
    assert!(of_mean - best > 0.01, "{of_mean} {best}");
    for (name, value) in [("bmd", by_bmd), ("pgsmd", by_pgsmd)] {
        let share = (value - best) / (of_mean - best);
        assert!((-1e-6..0.1).contains(&share), "{name}: {value} between {best} and {of_mean}");
    }
}

/// The same trajectory to rounding, with balls that are hit, with ridges, for batches and for averages.
#[test]
fn lazy_iterates_are_the_written_ones() {
    for (objective, radius, eta_theta, batch, tree) in [
        ("logistic", 0.7, 0.3, 1, true),
        ("logistic + 0.1 * l2", 5.0, 0.2, 3, true),
        ("hinge", f64::MAX, 0.05, 1, false),
        ("truncated_logistic + 0.5 * l2", 1.0, 0.5, 2, false),
    ] {
        let domain: Box<dyn Set> = if radius == f64::MAX { Box::new(WholeSpace) } else { Box::new(Ball::new(radius).unwrap()) };
        let problem = learning(data(200, 50, 5.0), objective, objective == "logistic", domain);
        let start: Vec<f64> = (0..problem.dim()).map(|j| 0.05 * (j as f64).sin()).collect();
        let check = |name: &str, solver: &dyn Fn(Iterates) -> Box<FirstOrder<'static>>| {
            let [written, lazy] =
                [Iterates::Dense, Iterates::Lazy].map(|i| run(&problem, &mut *solver(i), &start, &quiet(10_000)));
            assert!(matches!(lazy.ended, StopReason::Budget(_)), "{:?}", lazy.ended);
            let off = vec::distance(&written.point.x, &lazy.point.x);
            assert!(off < 1e-10, "{name}, {objective}: {off:e}");
            assert!(vec::distance(&written.point.x, &start) > 0.1, "{name}, {objective}");
            assert_eq!(written.counts.objective_subgradients, lazy.counts.objective_subgradients);
        };
        for output in [bmd::Output::Last, bmd::Output::Average] {
            check("bmd", &|iterates| {
                let settings = bmd::Settings { eta_theta, rho: 50.0, tree, batch, output, iterates, ..bmd::Settings::default() };
                Box::new(Bmd::new(settings).unwrap())
            });
        }
        check("pgsmd", &|iterates| {
            let eta_theta = 10.0 * eta_theta;
            let settings = pgsmd::Settings { eta_theta, rho: 50.0, tree, batch, iterates, ..pgsmd::Settings::default() };
            Box::new(Pgsmd::new(settings).unwrap())
        });
    }
}

#[test]
fn checkpoints_continue_bit_for_bit() {
    let problem = learning(data(150, 40, 4.0), "logistic", true, Ball::new(1.0).unwrap());
    for (iterates, tree) in [(Iterates::Dense, false), (Iterates::Dense, true), (Iterates::Lazy, false), (Iterates::Lazy, true)] {
        let eta_p = Some(1e-5);
        let one = || {
            let output = bmd::Output::Average;
            Bmd::new(bmd::Settings { eta_p, rho: 30.0, tree, iterates, output, ..bmd::Settings::default() }).unwrap()
        };
        let staged = || {
            let output = pgsmd::Output::Random;
            let restart = pgsmd::Restart::Carry;
            Pgsmd::new(pgsmd::Settings { eta_p, rho: 30.0, tree, iterates, output, restart, ..pgsmd::Settings::default() })
                .unwrap()
        };
        let solvers: [crate::common::Make; 2] = [&|| Box::new(one()), &|| Box::new(staged())];
        crate::common::continues_bit_for_bit_on(&problem, &[0.01; 41], &format!("minmax-{iterates:?}-{tree}"), &solvers);
    }
}

#[test]
fn counts_equal_a_hand_count() {
    let problem = learning(data(100, 20, 4.0), "logistic", false, WholeSpace);
    let solvers: [Box<FirstOrder>; 2] = [
        Box::new(Bmd::new(bmd::Settings { batch: 3, ..bmd::Settings::default() }).unwrap()),
        Box::new(Pgsmd::new(pgsmd::Settings { batch: 3, ..pgsmd::Settings::default() }).unwrap()),
    ];
    for mut solver in solvers {
        let counts = run(&problem, &mut *solver, &[0.0; 20], &quiet(70)).counts;
        assert_eq!((counts.objective_subgradients.calls, counts.objective_subgradients.samples), (70, 210));
        assert_eq!((counts.objective_values.samples, counts.constraint_values.samples), (0, 0));
    }
}

/// The centre of every stage comes about equally often; the start never does.
#[test]
fn random_outputs_are_stages() {
    let problem = parabolas(&[(1.0, 0.0)]);
    let settings = |output| pgsmd::Settings { eta_theta: 1.0, output, ..pgsmd::Settings::default() };
    let last = |steps| run(&problem, &mut Pgsmd::new(settings(pgsmd::Output::Last)).unwrap(), &[0.0], &quiet(steps)).point.x[0];
    let centres = [4, 13, 29].map(last);
    let mut hits = [0_u32; 3];
    for seed in 0..600 {
        let mut solver = Pgsmd::new(settings(pgsmd::Output::Random)).unwrap();
        let x = run(&problem, &mut solver, &[0.0], &Options { seed, ..quiet(29) }).point.x[0];
        hits[centres.iter().position(|c| *c == x).unwrap()] += 1;
    }
    assert!(hits.iter().all(|h| h.abs_diff(200) < 60), "{hits:?}");
}

/// What a learning problem offers is its loss: the mean is the objective, and rows give what written points give.
#[test]
fn losses_of_rows_are_those_of_the_objective() {
    let rows = data(70, 9, 5.0);
    let x: Vec<f64> = (0..10).map(|j| 0.4 * (j as f64 + 1.0).sin()).collect();
    for (objective, plain, penalty) in [
        ("logistic", "logistic", 0.0),
        ("2 * hinge", "2 * hinge", 0.0),
        ("logistic + 0.3 * variance(logistic)", "logistic", 0.0),
        ("truncated_logistic + 0.1 * l2", "truncated_logistic", 0.1),
        ("logistic + 0.1 * ridge", "logistic", 0.1),
        ("logistic + 0.5 * variance(logistic, form = 'sqrt')", "logistic", 0.0),
    ] {
        let problem = learning(rows.clone(), objective, true, WholeSpace);
        let losses = problem.sample_losses().unwrap();
        let mut grad = vec![0.0; 10];
        let mean = mean_loss(losses, &x, &mut grad).unwrap();
        losses.add_common(&x, &mut grad);
        let plain = learning(rows.clone(), plain, true, WholeSpace);
        let mut wanted = vec![0.0; 10];
        let (draw, warm) = (Draw::full(), Warm::default());
        let value = plain.objective_grad(At { x: &x, draw: &draw, warm: &warm }, &mut wanted, &mut plain.scratch()).unwrap();
        let scales = problem.column_scales().map_or(vec![1.0; 9], <[f64]>::to_vec);
        (0..9).for_each(|j| wanted[j] += penalty * scales[j] * scales[j] * x[j]);
        assert!((mean - value).abs() < 1e-13 && vec::distance(&grad, &wanted) < 1e-13, "{objective}");
        // The squared norm does not count the intercept, so there are no rows with both.
        assert_eq!(losses.rows().is_none(), penalty > 0.0, "{objective}");
        if let Some(by_row) = losses.rows() {
            for i in 0..70 {
                let (value, slope) = by_row.loss_of(i, rows.features.row_dot(i, &x[..9]) + x[9]);
                let mut grad = vec![0.0; 10];
                assert!((losses.add_loss(&x, i, 1.0, &mut grad).unwrap() - value).abs() < 1e-14);
                assert!((grad[9] - slope).abs() < 1e-14);
            }
        }
    }
    let uneven = Data { weights: Some((0..70).map(|i| 1.0 + f64::from(i % 2)).collect()), ..rows.clone() };
    for (data, objective) in [
        (&rows, "self_paced(logistic)"),
        (&rows, "hinge + logistic"),
        (&rows, "hinge + 0.1 * variance(logistic)"),
        (&rows, "logistic + 0.1 * scad"),
        (&rows, "variance(logistic)"),
        (&uneven, "logistic"),
    ] {
        assert!(learning(data.clone(), objective, false, WholeSpace).sample_losses().is_none(), "{objective}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let told = |problem: &dyn Subgradients, solver: &mut FirstOrder| {
        run::minimize(problem, solver, &vec![0.0; problem.dim()], &quiet(5), &mut ()).unwrap_err().to_string()
    };
    let rows = data(40, 6, 3.0);
    let bmd = |settings: bmd::Settings| Bmd::new(settings).unwrap();
    let pgsmd = || Pgsmd::new(pgsmd::Settings::default()).unwrap();
    let none = learning(rows.clone(), "self_paced(logistic)", false, WholeSpace);
    assert!(told(&none, &mut bmd(bmd::Settings::default())).starts_with("bmd needs losses of single samples; expected"));
    assert!(told(&none, &mut pgsmd()).starts_with("pgsmd needs losses of single samples; expected"));
    let kept = Learning::on(rows.clone())
        .minimize("logistic".parse().unwrap())
        .subject_to("hinge <= 0.9".parse().unwrap())
        .build()
        .unwrap();
    assert_eq!(told(&kept, &mut pgsmd()), "pgsmd takes no constraints, but the problem has 1");
    let boxed = learning(rows, "logistic", false, Bounds::uniform(-1.0, 1.0).unwrap());
    let message = told(&boxed, &mut bmd(bmd::Settings { iterates: Iterates::Lazy, ..bmd::Settings::default() }));
    assert!(message.starts_with("iterates must be \"dense\" for bmd on this problem, got \"lazy\""), "{message}");
    assert!(told(&parabolas(&[]), &mut pgsmd()).contains("needs at least 1 sample"));

    let usual = bmd::Settings::default;
    for (start, settings) in [
        ("eta_p must be ", bmd::Settings { eta_p: Some(0.0), ..usual() }),
        ("eta_theta must be ", bmd::Settings { eta_theta: -1.0, ..usual() }),
        ("rho must be ", bmd::Settings { rho: 0.0, ..usual() }),
        ("divergence must be ", bmd::Settings { divergence: Some(-1.0), ..usual() }),
        ("delta must be ", bmd::Settings { delta: 1.0, ..usual() }),
        ("batch must be ", bmd::Settings { batch: 0, ..usual() }),
        (
            "lipschitz is missing; the plan of bmd needs G, a bound on the norm of the subgradients of the losses",
            bmd::Settings {
                theory: Some(plan::bmd::Constants {
                    iterations: Some(5.0),
                    samples: Some(2.0),
                    rho: Some(1.0),
                    ..Default::default()
                }),
                ..usual()
            },
        ),
    ] {
        let message = Bmd::new(settings).unwrap_err().to_string();
        assert!(message.starts_with(start), "{message}");
    }
    let message = Pgsmd::new(pgsmd::Settings { rho_wc: 0.0, ..pgsmd::Settings::default() }).unwrap_err().to_string();
    assert!(message.starts_with("rho_wc must be "), "{message}");
}

/// The plan's steps reach its accuracy on a problem whose constants are known.
#[test]
fn the_plan_keeps_its_promise() {
    let problem = Parabolas { losses: vec![(-1.0, 0.0), (1.0, 0.5)], domain: Box::new(Ball::new(1.0).unwrap()) };
    let constants = plan::bmd::Constants {
        lipschitz: Some(2.0),
        loss_bound: Some(2.5),
        start_distance: Some(1.0),
        samples: Some(2.0),
        rho: Some(0.04),
        delta: Some(0.5),
        iterations: None,
    };
    let planned = plan::bmd::plan(&constants, 0.05).unwrap();
    let constants = plan::bmd::Constants { iterations: Some(planned.iterations), ..constants };
    let settings = bmd::Settings::theory(&constants).unwrap();
    assert_eq!((settings.eta_theta, settings.eta_p, settings.rho), (planned.eta_theta, Some(planned.eta_p), 0.04));
    let set = ChiSquare::new(2, 0.04, 0.5).unwrap();
    let at = |x: f64| worst_case(&problem, &set, &[x], &mut [0.0]);
    let mut mean = 0.0;
    for seed in 0..10 {
        let options = Options { seed, ..quiet(planned.iterations as u64) };
        mean += at(run(&problem, &mut Bmd::new(settings.clone()).unwrap(), &[0.9], &options).point.x[0]) / 10.0;
    }
    assert!(mean - at(0.2) < 0.05 && mean >= at(0.2), "{mean} against {}", at(0.2));
}

/// Steps that are far too long without a ball are found out; the last good point is kept.
#[test]
fn iterates_that_run_away_are_found_out() {
    let rows = data(50, 30, 3.0);
    for iterates in [Iterates::Dense, Iterates::Lazy] {
        let problem = learning(rows.clone(), "logistic", false, WholeSpace);
        let settings = bmd::Settings { eta_theta: 1e12, iterates, ..bmd::Settings::default() };
        let outcome = run(&problem, &mut Bmd::new(settings).unwrap(), &[0.0; 30], &quiet(100));
        let StopReason::Failed { reason, .. } = &outcome.ended else { panic!("{:?}", outcome.ended) };
        assert!(reason.contains("run away") && reason.contains("eta_theta = 1000000000000 is too large"), "{reason}");
        let settings = pgsmd::Settings { eta_theta: 1e12, rho_wc: 1e-12, iterates, ..pgsmd::Settings::default() };
        let outcome = run(&problem, &mut Pgsmd::new(settings).unwrap(), &[0.0; 30], &quiet(100));
        assert!(matches!(outcome.ended, StopReason::Failed { .. }), "{:?}", outcome.ended);
        // A weight cannot be raised by everything.
        let settings = bmd::Settings { eta_p: Some(1e200), iterates, ..bmd::Settings::default() };
        let outcome = run(&problem, &mut Bmd::new(settings).unwrap(), &[0.0; 30], &quiet(100));
        let StopReason::Failed { reason, .. } = &outcome.ended else { panic!("{:?}", outcome.ended) };
        assert!(reason.contains("so a smaller eta_p"), "{reason}");
        assert!(outcome.point.x.iter().all(|x| *x == 0.0));
    }
}
