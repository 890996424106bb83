//! A step allocates nothing once the buffers are there: counted by the allocator itself.

use thalweg::estimate::Law;
use thalweg::estimate::Order;
use thalweg::eval::Evaluator;
use thalweg::learn::{Data, Groups, JointWasserstein, Learning, ManyConstraints, Split};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Draw, Problem};
use thalweg::sets::{Ball, Set, Transport, Warm};
use thalweg::solvers::ssg::{InfeasibleStep, Output, Settings};
use thalweg::solvers::{
    Bmd, Bundle, Conex, Dszog, Eval, FirstOrder, Ipp, Lbfgs, Mspg, Pgsmd, Solver, Spg, Ssg, StSpg, ThreesEcon, ValueEval,
    ZerothOrder, bmd, bundle, conex, dszog, ipp, lbfgs, mspg, pgsmd, spg, st_spg, threes_econ,
};

/// Steps on rows, with lazy and with written iterates, of a variance and with a weight for each row.
#[test]
fn a_step_of_an_inf_projection_allocates_nothing() {
    let mut rng = Rng::new(4, Purpose::Data);
    let (rows, cols) = (800, 300);
    let mut ptr = vec![0];
    let mut ids = vec![];
    for _ in 0..rows {
        ids.extend((0..cols as u32).filter(|_| rng.uniform() < 0.02));
        ptr.push(ids.len());
    }
    let data = Data {
        features: Matrix::ones(cols, ptr, ids).unwrap(),
        labels: (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: None,
        weights: None,
    };
    for objective in ["logistic + 0.1 * variance(logistic)", "self_paced(logistic)"] {
        let problem = Learning::on(data.clone()).minimize(objective.parse().unwrap()).build().unwrap();
        for iterates in [st_spg::Iterates::Dense, st_spg::Iterates::Lazy] {
            let staged = st_spg::Settings { iterates, gamma: 0.5, mu: 0.1, ..st_spg::Settings::default() };
            let order = Order::Shuffled;
            let draws = st_spg::Draws::Shared;
            let mean = st_spg::Settings { output: st_spg::Output::Average, order, draws, ..staged.clone() };
            let single = mspg::Settings { iterates, growth: 0.01, ..mspg::Settings::default() };
            let mean_of_all = mspg::Settings { output: mspg::Output::Average, order, ..single.clone() };
            let solvers: Vec<(&str, Box<FirstOrder>)> = vec![
                ("st-spg", Box::new(StSpg::new(staged).unwrap())),
                ("st-spg, average", Box::new(StSpg::new(mean).unwrap())),
                ("mspg", Box::new(Mspg::new(single).unwrap())),
                ("mspg", Box::new(Mspg::new(mean_of_all).unwrap())),
                ("spg", Box::new(Spg::new(spg::Settings { batch: Some(3), ..spg::Settings::default() }).unwrap())),
            ];
            for (name, mut solver) in solvers {
                let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
                solver.start(ev, &vec![0.0; cols]).unwrap();
                // Batches grow: by then as much as the later ones need.
                (0..5000).for_each(|_| {
                    solver.step(ev).unwrap();
                });
                let before = crate::counting::count();
                (0..500).for_each(|_| {
                    solver.step(ev).unwrap();
                });
                let during = crate::counting::count() - before;
                // A batch that grows by five makes room once at most in each of its lists.
                assert!(during <= if name == "mspg" { 4 } else { 0 }, "{name}, {objective}, {iterates:?}: {during}");
            }
        }
    }
}

/// Weights in a tree and written out.
#[test]
fn a_step_on_the_worst_case_allocates_nothing() {
    let mut rng = Rng::new(4, Purpose::Data);
    let (rows, cols) = (60, 30);
    let data = Data {
        features: Matrix::dense(rows, cols, (0..rows * cols).map(|_| rng.uniform() - 0.5).collect()).unwrap(),
        labels: (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: None,
        weights: None,
    };
    let problem = Learning::on(data).minimize("logistic".parse().unwrap()).build().unwrap();
    for (tree, iterates) in [(true, st_spg::Iterates::Dense), (true, st_spg::Iterates::Lazy), (false, st_spg::Iterates::Lazy)] {
        let (eta_p, rho) = (Some(1e-3), 300.0);
        let one = bmd::Settings { eta_p, rho, tree, iterates, batch: 2, ..bmd::Settings::default() };
        let staged = pgsmd::Settings { eta_p, rho, tree, iterates, ..pgsmd::Settings::default() };
        let solvers: [(&str, Box<FirstOrder>); 2] =
            [("bmd", Box::new(Bmd::new(one).unwrap())), ("pgsmd", Box::new(Pgsmd::new(staged).unwrap()))];
        for (name, mut solver) in solvers {
            let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
            solver.start(ev, &vec![0.0; cols]).unwrap();
            (0..20_000).for_each(|_| {
                solver.step(ev).unwrap();
            });
            let before = crate::counting::count();
            (0..2_000).for_each(|_| {
                solver.step(ev).unwrap();
            });
            let during = crate::counting::count() - before;
            // A list of samples with one key may still make room for more than it has ever had; fewer and fewer do.
            assert!(during <= if tree { 2 } else { 0 }, "{name}, tree {tree}, {iterates:?}: {during}");
        }
    }
}

/// Constraints by the hundred: once the buffers have grown to what is needed, nothing more.
#[test]
fn a_step_by_values_allocates_nothing() {
    let mut rng = Rng::new(6, Purpose::Data);
    let (rows, cols) = (60, 8);
    let mut entries = vec![0.0; rows * cols];
    rng.normals(&mut entries);
    let data = Data {
        features: Matrix::dense(rows, cols, entries).unwrap(),
        labels: (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: None,
        weights: None,
    };
    let model = Learning::on(data).split(Split::Shared).minimize("welsch".parse().unwrap()).build().unwrap();
    let problem = ManyConstraints::pairs(model, 0.0).unwrap();
    let settings = || dszog::Settings { m1: 16, m2: 32, m3: 32, ..dszog::Settings::default() };
    let solvers: Vec<(&str, Box<ZerothOrder>)> = vec![
        ("dszog", Box::new(Dszog::new(settings()).unwrap())),
        ("dszog, plain", Box::new(Dszog::new(dszog::Settings { plain: true, eta_w: 1e-3.into(), ..settings() }).unwrap())),
        ("dszog, sphere", Box::new(Dszog::new(dszog::Settings { law: Law::Sphere, antithetic: true, ..settings() }).unwrap())),
    ];
    for (name, mut solver) in solvers {
        thalweg::math::reduce::with_threads(1, || {
            let ev: &mut dyn ValueEval = &mut Evaluator::new(&problem, 1, 1e-6);
            solver.start(ev, &[0.0; 8]).unwrap();
            // The weights have been spread over all constraints and gathered again by then.
            (0..3000).for_each(|_| {
                solver.step(ev).unwrap();
            });
            let before = crate::counting::count();
            (0..500).for_each(|_| {
                solver.step(ev).unwrap();
            });
            assert_eq!(crate::counting::count() - before, 0, "{name}");
        })
        .unwrap();
    }
}

/// Once the memory is full, inside the ball, on its sphere, and after a restart.
#[test]
fn a_step_of_lbfgs_allocates_nothing() {
    for (radius, on_sphere) in [(100.0, false), (13.8, true)] {
        let problem = Problem::new(200)
            .objective(
                |x| x.iter().enumerate().map(|(j, x)| 0.5 * ((j + 1) * (j + 1)) as f64 * (x - 1.0).powi(2)).sum(),
                |x, s| s.iter_mut().zip(x).enumerate().for_each(|(j, (s, x))| *s = ((j + 1) * (j + 1)) as f64 * (x - 1.0)),
            )
            .domain(Ball::new(radius).unwrap());
        let mut solver = Lbfgs::new(lbfgs::Settings { memory: 5, tolerance: 1e-15 }).unwrap();
        let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
        solver.start(ev, &[0.0; 200]).unwrap();
        (0..60).for_each(|_| assert!(!solver.step(ev).unwrap().finished, "{radius}"));
        let before = crate::counting::count();
        (0..60).for_each(|_| assert!(!solver.step(ev).unwrap().finished, "{radius}"));
        assert_eq!(crate::counting::count() - before, 0, "{radius}");
        assert_eq!(solver.multiplier().unwrap() > 0.0, on_sphere, "{radius}");
        solver.start(ev, &[-0.1; 200]).unwrap();
        (0..60).for_each(|_| assert!(!solver.step(ev).unwrap().finished, "{radius}"));
        assert_eq!(crate::counting::count() - before, 0, "{radius}, begun again");
    }
}

#[test]
fn a_step_of_a_solver_allocates_nothing() {
    let before = crate::counting::count();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(crate::counting::count() > before, "the counter must count");

    let mut rng = Rng::new(4, Purpose::Data);
    let plans = Transport::uniform(50, 70).unwrap();
    let (mut plan, mut warm) = (vec![0.0; 50 * 70], Warm::default());
    plans.project(&mut plan, &mut warm).unwrap();
    let before = crate::counting::count();
    for step in 0..20 {
        plan.iter_mut().for_each(|p| *p += 1e-3 * f64::from(step) * (rng.uniform() - 0.5));
        plans.project(&mut plan, &mut warm).unwrap();
    }
    assert_eq!(crate::counting::count() - before, 0, "projection onto the transport polytope");

    let mut rng = Rng::new(3, Purpose::Data);
    let (rows, cols) = (6_000, 40);
    let mut ptr = vec![0];
    let mut ids = vec![];
    for _ in 0..rows {
        ids.extend((0..cols as u32).filter(|_| rng.uniform() < 0.2));
        ptr.push(ids.len());
    }
    let data = Data {
        features: Matrix::ones(cols, ptr, ids).unwrap(),
        labels: (0..rows).map(|i| if i % 4 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: (0..rows as u32).map(|i| i % 2).collect() }),
        weights: None,
    };
    for split in [Split::Shared, Split::Ordered] {
        let problem = Learning::on(data.clone())
            .split(split)
            .minimize("roc_gap(low = -3, high = 3) + 0.1 * logistic + 0.01 * scad".parse().unwrap())
            .subject_to("hinge <= 0.6".parse().unwrap())
            .subject_to("demographic_parity <= 0.05".parse().unwrap())
            .build()
            .unwrap();
        let base = Settings { eta: 0.05.into(), output: Output::Random, ..Settings::default() };
        let dual = conex::Settings { eta: 0.05.into(), output: conex::Output::Average, ..conex::Settings::default() };
        let around = |inner| ipp::Settings { rho_hat: Some(2.0), inner_iterations: 30, inner, ..ipp::Settings::default() };
        let few = bundle::Settings { max_cuts: 25, eps: 1e-14, ..bundle::Settings::default() };
        let solvers: Vec<(&str, Box<FirstOrder>)> = vec![
            ("bundle", Box::new(Bundle::new(few.clone()).unwrap())),
            ("bundle, as stated", Box::new(Bundle::new(bundle::Settings { adapt: false, ..few }).unwrap())),
            ("ssg", Box::new(Ssg::new(base.clone()).unwrap())),
            (
                "ssg, polyak",
                Box::new(
                    Ssg::new(Settings { infeasible_step: InfeasibleStep::Polyak, output: Output::Average, ..base.clone() })
                        .unwrap(),
                ),
            ),
            (
                "ssg, batches",
                Box::new(
                    Ssg::new(Settings { batch_f: Some(64), batch_g: Some(32), value_batch: Some(500), ..base.clone() }).unwrap(),
                ),
            ),
            ("conex", Box::new(Conex::new(dual.clone()).unwrap())),
            ("threes-econ", Box::new(ThreesEcon::new(threes_econ::Settings::default()).unwrap())),
            (
                "threes-econ, stochastic",
                Box::new(
                    ThreesEcon::new(threes_econ::Settings {
                        q: threes_econ::Epoch::Sqrt,
                        output: threes_econ::Output::Random,
                        ..threes_econ::Settings::default()
                    })
                    .unwrap(),
                ),
            ),
            ("ipp, ssg", Box::new(Ipp::new(around(ipp::Inner::Ssg(base))).unwrap())),
            (
                "ipp, conex",
                Box::new(
                    Ipp::new(ipp::Settings {
                        warm_multipliers: true,
                        output: ipp::Output::Random,
                        ..around(ipp::Inner::Conex(dual))
                    })
                    .unwrap(),
                ),
            ),
        ];
        thalweg::math::reduce::with_threads(1, || {
            let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
            let (mut x, full, mut values, mut cuts) = (vec![0.0; cols], Draw::full(), [0.0; 6], vec![0.0; 6 * cols]);
            let mut visit = |step: usize| {
                x[step % cols] += 0.3 * (step as f64).sin();
                ev.objective_cuts(&x, &full, &mut values, &mut cuts).unwrap()
            };
            assert!((0..50).map(&mut visit).max() > Some(2));
            let before = crate::counting::count();
            assert!((50..100).map(&mut visit).max() > Some(2));
            assert_eq!(crate::counting::count() - before, 0, "cuts on {split:?}");
        })
        .unwrap();
        for (name, mut solver) in solvers {
            thalweg::math::reduce::with_threads(1, || {
                let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
                solver.start(ev, &vec![0.0; cols]).unwrap();
                // Both kinds of step must have filled their buffers.
                for _ in 0..300 {
                    solver.step(ev).unwrap();
                }
                let before = crate::counting::count();
                for _ in 0..200 {
                    assert!(!solver.step(ev).unwrap().finished, "{name} on {split:?}");
                }
                let during = crate::counting::count() - before;
                assert_eq!(during, 0, "{name} on {split:?}");
            })
            .unwrap();
        }
    }
    // A term that sorts, and one with four populations: the first has no constant, so that not every solver takes it.
    let labels = (0..rows).map(|i| if i % 5 < 2 { 1.0 } else { -1.0 }).collect();
    let data = Data { labels, ..data };
    // A transport plan as a variable, with its projections; fewer rows, or it would have millions of entries.
    let few: Vec<usize> = (0..60).collect();
    let gap = Learning::on(data.select(&few)).minimize("wasserstein_gap".parse().unwrap());
    let joint = JointWasserstein::new(gap.subject_to("hinge <= 0.999".parse().unwrap()).build().unwrap()).unwrap();
    let solvers: Vec<Box<FirstOrder>> = vec![
        Box::new(Ssg::new(Settings { eta: 0.01.into(), batch_f: Some(7), ..Settings::default() }).unwrap()),
        Box::new(Conex::new(conex::Settings { batch_f: Some(7), ..Default::default() }).unwrap()),
    ];
    for mut solver in solvers {
        thalweg::math::reduce::with_threads(1, || {
            let ev: &mut dyn Eval = &mut Evaluator::new(&joint, 1, 1e-6);
            solver.start(ev, &joint.start(&vec![0.0; cols]).unwrap()).unwrap();
            (0..100).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
            let before = crate::counting::count();
            (0..100).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
            assert_eq!(crate::counting::count() - before, 0, "a plan as a variable");
        })
        .unwrap();
    }
    let problem = Learning::on(data)
        .minimize("wasserstein_gap + 0.1 * logistic".parse().unwrap())
        .subject_to("false_negative_rate <= 0.6".parse().unwrap())
        .subject_to("equalised_odds + wasserstein_gap <= 0.05".parse().unwrap())
        .build()
        .unwrap();
    for batch in [None, Some(64)] {
        let settings = Settings { eta: 0.05.into(), batch_f: batch, batch_g: batch, ..Settings::default() };
        let mut solver: Box<FirstOrder> = Box::new(Ssg::new(settings).unwrap());
        thalweg::math::reduce::with_threads(1, || {
            let ev: &mut dyn Eval = &mut Evaluator::new(&problem, 1, 1e-6);
            solver.start(ev, &vec![0.0; cols]).unwrap();
            (0..50).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
            let before = crate::counting::count();
            (0..50).for_each(|_| assert!(!solver.step(ev).unwrap().finished));
            assert_eq!(crate::counting::count() - before, 0, "sorted scores, batch {batch:?}");
        })
        .unwrap();
    }
}
