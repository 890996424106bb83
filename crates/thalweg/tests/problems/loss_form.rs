//! Variance, self-paced and truncated losses: what they are worth, what they refuse, and the same objectives as inf-projection
//! problems, whose eliminated form must be the problem itself.

use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Data, Groups, LARGEST_MEAN_LOSS, Learning, Split};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{Case, Description, Draw, InfProjection, Pick, Structure};
use thalweg::run::{self, Budget, Options};
use thalweg::sets::WholeSpace;
use thalweg::solvers::st_spg::Iterates;
use thalweg::solvers::{FirstOrder, Method, Mspg, StSpg, State, mspg, st_spg};

fn data(rows: usize, cols: usize, weighted: bool, seed: u64) -> Data {
    let mut rng = Rng::new(seed, Purpose::Data);
    Data {
        features: Matrix::dense(rows, cols, (0..rows * cols).map(|_| 3.0 * rng.uniform() - 1.5).collect()).unwrap(),
        labels: (0..rows).map(|_| if rng.uniform() < 0.6 { 1.0 } else { -1.0 }).collect(),
        groups: None,
        weights: weighted.then(|| (0..rows).map(|_| 0.3 + rng.uniform()).collect()),
    }
}

fn learning(data: Data, minimize: &str, intercept: bool) -> Learning {
    Learning::on(data).intercept(intercept).minimize(minimize.parse().unwrap()).build().unwrap()
}

fn point(dim: usize, rng: &mut Rng) -> Vec<f64> {
    (0..dim).map(|_| 2.0 * rng.uniform() - 1.0).collect()
}

/// F and its gradient from g, h, l and the y that minimises.
fn eliminated(problem: &dyn InfProjection, x: &[f64], samples: Pick) -> (f64, Vec<f64>, Vec<f64>) {
    let (mut grad, mut l) = (vec![9.0; problem.dim()], vec![9.0; problem.coupled()]);
    let mut value = problem.convex(x, samples, &mut grad).unwrap();
    problem.mapping(x, samples, &mut l).unwrap();
    let y: Vec<f64> = l.iter().map(|&l| problem.power().touch(l)).collect();
    value += y.iter().zip(&l).map(|(y, l)| problem.power().value(*y) - y * l).sum::<f64>();
    problem.add_mapping_pull(x, samples, &y, -1.0, &mut grad).unwrap();
    (value, grad, y)
}

fn near(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + b.abs()))
}

const LOSSES: [&str; 6] = [
    "hinge",
    "logistic",
    "welsch(scale = 2)",
    "truncated_logistic",
    "truncated_logistic(scale = 0.8)",
    "logistic(on = 'positives')",
];
const PENALTIES: [&str; 5] = ["", " + 0.2 * l2", " + 0.1 * l1", " + 0.1 * l1 + 0.3 * l2 + 0.2 * l1", " + 0.2 * ridge + 0.1 * l2"];

/// Every objective that is an inf-projection problem, with the number of the penalty.
fn objectives() -> impl Iterator<Item = (String, usize)> {
    LOSSES.iter().flat_map(|loss| {
        PENALTIES.iter().enumerate().flat_map(move |(k, penalty)| {
            [
                format!("0.7 * {loss} + 0.4 * variance({loss}){penalty}"),
                format!("variance({loss}, form = 'sqrt') + 1.5 * {loss}{penalty}"),
                format!("1.3 * self_paced({loss}, age = 1.1, softness = 0.6){penalty}"),
            ]
            .map(|objective| (objective, k))
        })
    })
}

#[test]
fn the_eliminated_form_is_the_objective() {
    let mut rng = Rng::new(1, Purpose::Data);
    let mut compared = 0;
    for (weighted, intercept) in [(false, false), (true, false), (false, true), (true, true)] {
        for (objective, _) in objectives() {
            let problem = learning(data(60, 4, weighted, 3), &objective, intercept);
            let self_paced = objective.contains("self_paced");
            let Some(pair) = problem.inf_projection() else {
                assert!(self_paced && weighted, "{objective}");
                continue;
            };
            assert_eq!((pair.dim(), &[pair.samples()][..]), (problem.dim(), problem.streams()));
            assert_eq!(pair.domain().describe(), problem.domain().describe());
            let x = point(problem.dim(), &mut rng);
            let batch: Vec<u32> = (0..40).map(|_| rng.below(pair.samples()) as u32).collect();
            for draw in [Draw::full(), Draw::these(&[&batch])] {
                if self_paced && matches!(draw.stream(0), Pick::These(_)) {
                    continue; // one y for each row: a batch of the mapping is no batch of the objective
                }
                let mut grad = vec![0.0; x.len()];
                let value = Evaluator::new(&problem, 0, 0.0).objective_grad(&x, &draw, &mut grad).unwrap();
                let other =
                    pair.profiled_scalar(&x, draw.stream(0)).unwrap().map(|al| (al, pair.with_profiled_scalar(al).unwrap()));
                assert_eq!(other.is_some(), objective.contains("sqrt"));
                let best = other.as_ref().map_or(pair, |(_, pair)| pair.as_ref());
                let (of_pair, by_pair, _) = eliminated(best, &x, draw.stream(0));
                assert!(near(&[of_pair], &[value]) && near(&by_pair, &grad), "{objective}: {of_pair} {value}");
                // Every other alpha gives more.
                if let Some((al, _)) = other {
                    for times in [0.5, 0.99, 1.01, 3.0] {
                        let more = eliminated(pair.with_profiled_scalar(times * al).unwrap().as_ref(), &x, draw.stream(0)).0;
                        assert!(more > value, "{objective}: {more} {value}");
                    }
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * 30 * 2 * 2 + 2 * 30);
}

#[test]
fn rows_give_what_the_dense_methods_give() {
    let mut rng = Rng::new(2, Purpose::Data);
    let mut compared = 0;
    for (weighted, intercept) in [(false, false), (true, true), (true, false)] {
        for (objective, penalty) in objectives() {
            let problem = learning(data(50, 3, weighted, 5), &objective, intercept);
            let Some(pair) = problem.inf_projection() else { continue };
            let Some(rows) = pair.rows() else {
                assert!(penalty > 1, "{objective}");
                continue;
            };
            assert!(penalty <= 1, "{objective}");
            let x = point(problem.dim(), &mut rng);
            let y: Vec<f64> = (0..pair.coupled()).map(|_| rng.uniform() - 0.5).collect();
            let batch: Vec<u32> = (0..17).map(|_| rng.below(pair.samples()) as u32).collect();
            for samples in [Pick::All, Pick::These(&batch)] {
                let ids: Vec<usize> = match samples {
                    Pick::All => (0..pair.samples()).collect(),
                    Pick::These(ids) => ids.iter().map(|&i| i as usize).collect(),
                };
                let n = ids.len() as f64;
                // The intercept is not penalised.
                let mut by_g: Vec<f64> = x.iter().map(|v| rows.ridge() * v).collect();
                if rows.intercept() {
                    by_g[x.len() - 1] = 0.0;
                }
                let (mut g, mut l) = (0.5 * x.iter().zip(&by_g).map(|(v, s)| v * s).sum::<f64>(), vec![0.0; pair.coupled()]);
                let mut pulled = vec![1.0; x.len()];
                for i in ids {
                    let mut row = vec![0.0; x.len()];
                    rows.features().visit_row(rows.row(i), |c, v| row[c] = v);
                    if rows.intercept() {
                        row[x.len() - 1] = 1.0;
                    }
                    let score: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
                    let ((value, slope), (mapped, by)) = (rows.convex_of(i, score), rows.mapping_of(i, score));
                    g += value / n;
                    l[rows.coordinate(i)] += mapped / n;
                    for (k, a) in row.iter().enumerate() {
                        by_g[k] += slope * a / n;
                        pulled[k] += -0.7 * y[rows.coordinate(i)] * by * a / n;
                    }
                }
                let (mut grad, mut mapping, mut pull) = (vec![9.0; x.len()], vec![9.0; y.len()], vec![1.0; x.len()]);
                let value = pair.convex(&x, samples, &mut grad).unwrap();
                pair.mapping(&x, samples, &mut mapping).unwrap();
                pair.add_mapping_pull(&x, samples, &y, -0.7, &mut pull).unwrap();
                assert!(near(&[value], &[g]) && near(&grad, &by_g), "{objective}");
                assert!(near(&mapping, &l) && near(&pull, &pulled), "{objective}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2 * (6 * 3 * 2 + 6 * 2 * 2 + 6 * 2 * 2));
}

#[test]
fn other_objectives_are_none() {
    let none = |objective: &str, constraint: Option<&str>| {
        let mut builder = Learning::on(data(40, 3, false, 1)).minimize(objective.parse().unwrap());
        if let Some(constraint) = constraint {
            builder = builder.subject_to(constraint.parse().unwrap());
        }
        assert!(builder.build().unwrap().inf_projection().is_none(), "{objective}");
    };
    for objective in [
        "logistic",
        "variance(logistic)",
        "hinge + variance(logistic)",
        "logistic + variance(logistic(on = 'positives'))",
        "logistic + variance(truncated_logistic)",
        "logistic + variance(logistic) + scad",
        "logistic + variance(logistic) + false_positive_rate",
        "logistic + variance(logistic) + variance(logistic)",
        "logistic + self_paced(logistic)",
        "logistic + variance(logistic) + self_paced(logistic)",
    ] {
        none(objective, None);
    }
    none("logistic + variance(logistic)", Some("hinge <= 1"));
}

/// Losses 1 and 3.
#[test]
fn two_losses_give_the_worked_form() {
    let rows = Data {
        features: Matrix::dense(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap(),
        labels: vec![1.0, 1.0],
        groups: None,
        weights: None,
    };
    let x = [0.0, -2.0];
    for lam in [0.3, 1.0, 4.0] {
        let problem = learning(rows.clone(), &format!("hinge + {} * variance(hinge)", lam / 2.0), false);
        let pair = problem.inf_projection().unwrap();
        assert_eq!(
            (pair.case(), pair.coupled(), pair.power().interval()),
            (Case::DifferenceOfConvex, 1, [0.0, LARGEST_MEAN_LOSS])
        );
        let (value, grad, y) = eliminated(pair, &x, Pick::All);
        assert!(near(&[value, y[0]], &[2.0 + lam / 2.0, 2.0]), "{value} {y:?}");
        assert!(near(&grad, &[-(1.0 - lam) / 2.0, -(1.0 + lam) / 2.0]), "{grad:?}");
        let mut start = [7.0];
        pair.coupled_start(&mut start);
        assert_eq!(start, [0.0]);
    }
    // sqrt(Var / n) = sqrt(1 / 2), alpha = sqrt(2); the problem begins with that of a variance of 1, which here is right.
    let problem = learning(rows.clone(), "hinge + 3 * variance(hinge, form = 'sqrt')", false);
    let pair = problem.inf_projection().unwrap();
    assert!((pair.profiled_scalar(&x, Pick::All).unwrap().unwrap() - 2_f64.sqrt()).abs() < 1e-15);
    assert!(near(&[eliminated(pair, &x, Pick::All).0], &[2.0 + 3.0 * 0.5_f64.sqrt()]));
    assert!(pair.with_profiled_scalar(f64::NAN).is_none());
    assert_eq!(pair.profiled_scalar(&[0.5, 0.5], Pick::All).unwrap(), None);
    // Where the losses are equal, the root is 0 and so is its slope.
    let mut grad = [9.0; 2];
    let value = Evaluator::new(&problem, 0, 0.0).objective_grad(&[0.5, 0.5], &Draw::full(), &mut grad).unwrap();
    assert_eq!((value, grad), (0.5, [-0.5, -0.5]));
    // Self-paced with threshold 2 and softness 4: the first row counts a quarter, the second, whose loss is 3, nothing.
    let problem = learning(rows, "self_paced(hinge, age = 0.5, softness = 4)", false);
    let pair = problem.inf_projection().unwrap();
    let (value, grad, y) = eliminated(pair, &x, Pick::All);
    assert_eq!((pair.case(), pair.coupled(), pair.power().interval()), (Case::BiConvex, 2, [-1.0, 0.0]));
    assert!(near(&y, &[-0.25, 0.0]) && near(&[value], &[-0.0625]) && near(&grad, &[-0.125, 0.0]), "{y:?} {value} {grad:?}");
    let mut start = [7.0; 2];
    pair.coupled_start(&mut start);
    assert_eq!(start, [-1.0; 2]);
}

#[test]
fn the_variance_is_the_mean_square_around_the_mean() {
    let mut rng = Rng::new(6, Purpose::Data);
    for weighted in [false, true] {
        let rows = data(70, 3, weighted, 8);
        let problem = learning(rows.clone(), "variance(logistic)", false);
        let x = point(3, &mut rng);
        let losses: Vec<f64> =
            problem.scores(&x).unwrap().iter().zip(&rows.labels).map(|(s, y)| (-y * s).exp().ln_1p()).collect();
        let weight = |i: usize| rows.weights.as_ref().map_or(1.0, |w| w[i]);
        let total: f64 = (0..70).map(weight).sum();
        let mean = (0..70).map(|i| weight(i) * losses[i]).sum::<f64>() / total;
        let variance = (0..70).map(|i| weight(i) * (losses[i] - mean) * (losses[i] - mean)).sum::<f64>() / total;
        let value = |text: &str| {
            let problem = learning(rows.clone(), text, false);
            Evaluator::new(&problem, 0, 0.0).objective_grad(&x, &Draw::full(), &mut [0.0; 3]).unwrap()
        };
        assert!(near(&[value("variance(logistic)")], &[variance]));
        assert!(near(&[value("variance(logistic, form = 'plain')")], &[variance]));
        assert!(near(&[value("variance(logistic, form = 'sqrt')")], &[(variance / total).sqrt()]));
        // The default scale is that of the rows: sqrt(10 n).
        let named = format!("truncated_logistic(scale = {})", (10.0 * total).sqrt());
        assert!(near(&[value("truncated_logistic")], &[value(&named)]));
        assert!(near(&[value("variance(truncated_logistic)")], &[value(&format!("variance({named})"))]));
        let cut = losses.iter().enumerate().map(|(i, l)| weight(i) * 0.5 * (1.0 + l / 0.5).ln()).sum::<f64>() / total;
        assert!(near(&[value("truncated_logistic(scale = 0.5)")], &[cut]));
        // Self-paced: the best of many shares for each row.
        let shares = || (0..=10_000).map(|k| f64::from(k) / 10_000.0);
        let part = |l: f64| shares().map(|v| v * l - v / 1.7 + 0.2 * v * v).fold(f64::INFINITY, f64::min);
        let paced = (0..70).map(|i| weight(i) * part(losses[i])).sum::<f64>() / total;
        assert!((value("self_paced(logistic, age = 1.7, softness = 0.4)") - paced).abs() < 1e-8);
    }
}

#[test]
fn a_variance_in_the_objective_keeps_the_weights_in_a_ball() {
    let built = |objective: &str| learning(data(40, 3, false, 1), objective, false).domain().describe();
    assert_eq!(built("logistic + variance(logistic)"), "ball of radius 10");
    assert_eq!(built("logistic + variance(logistic, form = 'sqrt')"), "ball of radius 10");
    let whole = built("logistic");
    assert_eq!(built("self_paced(logistic)"), whole);
    let free = Learning::on(data(40, 3, false, 1)).minimize("variance(logistic)".parse().unwrap()).domain(WholeSpace);
    assert_eq!(free.build().unwrap().domain().describe(), whole);
    let constrained = Learning::on(data(40, 3, false, 1)).minimize("logistic".parse().unwrap());
    let constrained = constrained.subject_to("variance(logistic) <= 0.1".parse().unwrap()).build().unwrap();
    assert_eq!(constrained.domain().describe(), whole);
}

#[test]
fn mistakes_are_named() {
    let refusal = |text: &str| {
        let built = text.parse().and_then(|e| Learning::on(data(20, 2, false, 1)).minimize(e).build());
        built.map(|_| ()).unwrap_err().to_string()
    };
    const WANTED: &str = "one of hinge, logistic, welsch, truncated_logistic, as in";
    assert_eq!(refusal("variance"), format!("loss of variance must be {WANTED} variance(logistic), got nothing"));
    assert_eq!(refusal("self_paced(age = 2)"), format!("loss of self_paced must be {WANTED} self_paced(logistic), got nothing"));
    assert_eq!(refusal("variance(l2)"), format!("unknown loss 'l2' of variance; expected {WANTED} variance(logistic)"));
    assert!(refusal("variance(logistc)").contains("did you mean 'logistic'?"), "{}", refusal("variance(logistc)"));
    let message = refusal("variance(self_paced)");
    assert!(message.contains("unknown loss 'self_paced' of variance; expected one of hinge, "), "{message}");
    assert!(refusal("variance(variance(logistic))").contains("a term that holds no other, in place of variance(logistic…)"));
    assert_eq!(
        refusal("hinge(logistic)"),
        "argument of hinge must be no term inside hinge; only variance and self_paced hold one, got 'logistic'"
    );
    let message = refusal("l2(logistic)");
    assert!(message.contains("argument of l2 must be ") && message.contains("got 'logistic'"), "{message}");
    assert!(refusal("variance(logistic(scale = 2))").contains("unknown argument 'scale' of logistic; expected one of on"));
    assert!(
        refusal("variance(logistic, form = 'root')").contains("form of variance must be \"plain\" or \"sqrt\", got \"root\"")
    );
    assert!(refusal("variance(logistic, on = 'positives')").contains("unknown argument 'on' of variance; expected one of form"));
    assert!(
        refusal("truncated_logistic(scale = 0)").contains("scale of truncated_logistic must be a finite number above 0, got 0")
    );
    let message = refusal("variance(welsch(scale = -1))");
    assert!(message.contains("scale of welsch must be ") && message.contains("got -1"), "{message}");
    assert!(refusal("self_paced(hinge, age = 0)").contains("age of self_paced must be a finite number above 0, got 0"));
    let message = refusal("self_paced(hinge, softness = -1)");
    assert!(message.contains("softness of self_paced must be ") && message.contains("got -1"), "{message}");
    // Bounds below what a term can be.
    let never = |bound: &str| {
        let builder = Learning::on(data(20, 2, false, 1)).minimize("l2".parse().unwrap());
        builder.subject_to(bound.parse().unwrap()).build().map(|_| ()).map_err(|e| e.to_string())
    };
    assert!(never("variance(hinge) <= -0.1").unwrap_err().contains("variance(hinge) is never below 0"));
    // v = 1/2 at a loss of 0: 1/8 - 1/4.
    never("self_paced(hinge, age = 2) <= -0.125").unwrap();
    assert!(never("self_paced(hinge, age = 2) <= -0.126").unwrap_err().contains("is never below -0.125"));
    // v = 1: 1/4 - 1.
    never("self_paced(hinge, softness = 0.5) <= -0.75").unwrap();
    assert!(never("self_paced(hinge, softness = 0.5) <= -0.76").unwrap_err().contains("is never below -0.75"));
}

#[test]
fn the_loss_inside_a_term_is_the_loss_of_the_problem() {
    let two = || {
        let groups = Groups { names: vec!["a".into(), "b".into()], of_row: (0..40).map(|i| i % 2).collect() };
        Data { groups: Some(groups), ..data(40, 3, false, 1) }
    };
    let erm = |objective: &str| {
        let built = Learning::on(two()).split(Split::Shared).minimize(objective.parse().unwrap()).needs_erm(true).build();
        built.map(|problem| problem.erm().unwrap().expression.clone()).map_err(|e| e.to_string())
    };
    assert_eq!(erm("variance(logistic)").unwrap(), "logistic");
    assert_eq!(erm("roc_gap(low = 'erm', high = 'erm') + self_paced(hinge, age = 2)").unwrap(), "hinge");
    assert_eq!(erm("variance(logistic) + hinge").unwrap(), "hinge");
    assert!(erm("variance(logistic(on = 'positives'))").unwrap_err().contains("\"erm\" means the minimiser"));
    let bounded =
        Learning::on(two()).minimize("l2".parse().unwrap()).subject_to("hinge <= best(variance(hinge))".parse().unwrap());
    assert!(bounded.build().unwrap_err().to_string().contains("variance(hinge) is not convex"));
}

/// Each method with iterates of either kind, on an objective whose penalty leaves the intercept out.
#[test]
fn lazy_iterates_leave_the_intercept_unpenalised() {
    let problem = learning(data(80, 6, true, 4), "logistic + 0.2 * variance(logistic) + 0.3 * l2", true);
    let options = Options { budget: Budget { iterations: Some(2000), ..Budget::default() }, ..Options::default() };
    let reached = |mut solver: Box<FirstOrder<'static>>| {
        run::minimize(&problem, &mut *solver, &[0.0; 7], &options, &mut ()).unwrap().point.x
    };
    let by_mspg = |iterates| {
        let settings = mspg::Settings { iterates, growth: 0.05, ..mspg::Settings::default() };
        reached(Box::new(Mspg::new(settings).unwrap()))
    };
    let by_st_spg = |iterates| reached(Box::new(StSpg::new(st_spg::Settings { iterates, ..Default::default() }).unwrap()));
    for (dense, lazy) in
        [(by_mspg(Iterates::Dense), by_mspg(Iterates::Lazy)), (by_st_spg(Iterates::Dense), by_st_spg(Iterates::Lazy))]
    {
        assert!(vec::distance(&dense, &lazy) < 1e-11, "{dense:?} {lazy:?}");
        assert!(dense[6].abs() > 0.01);
    }
}

/// MSPG on rows that come in parts: the first passes by hand, lazy against dense, and a saved state that goes on.
#[test]
fn mspg_goes_on_with_other_rows() {
    let objective = "logistic + 0.3 * variance(logistic)";
    let parts = [data(30, 4, false, 1), data(20, 4, false, 2), data(25, 4, false, 3)];
    let problems = parts.clone().map(|part| learning(part, objective, true));
    let solver = |growth, iterates| Mspg::new(mspg::Settings { growth, iterates, ..mspg::Settings::default() }).unwrap();
    let at = |solver: &Mspg| {
        let mut x = vec![0.0; 5];
        solver.iterate(&mut x);
        (x, solver.coupled()[0])
    };
    let pass = |solver: &mut Mspg, k: usize, seed| solver.pass(&mut Evaluator::new(&problems[k], seed, 0.0), &[0.0; 5]).unwrap();

    // A batch of everything is one step in x and y, both from where the part before has ended.
    let mut whole = solver(1000.0, Iterates::Auto);
    let (mut x, mut y) = (vec![0.0; 5], 0.0);
    let (eta, lam) = (0.1, 0.6);
    for (k, part) in parts.iter().enumerate() {
        assert_eq!(pass(&mut whole, k, 7), 1);
        let n = part.labels.len() as f64;
        let (mut by_x, mut mean) = (vec![0.0; 5], 0.0);
        for (i, label) in part.labels.iter().enumerate() {
            let mut row = vec![0.0; 5];
            part.features.visit_row(i, |c, v| row[c] = v);
            row[4] = 1.0;
            let margin = label * vec::dot(&row, &x);
            let (l, slope) = ((1.0 + (-margin).exp()).ln(), -label / (1.0 + margin.exp()));
            mean += l / n;
            by_x.iter_mut().zip(&row).for_each(|(d, a)| *d += (1.0 + lam * l - lam * y) * slope * a / n);
        }
        x.iter_mut().zip(&by_x).for_each(|(x, d)| *x -= eta * d);
        y = (y + eta * lam * mean) / (1.0 + eta * lam);
        let (found, coupled) = at(&whole);
        assert!(near(&found, &x) && near(&[coupled], &[y]), "{found:?} {x:?} {coupled} {y}");
    }

    // Batches of 1, 1, …, 2, 2, … until every row was read once.
    let (mut dense, mut lazy) = (solver(0.1, Iterates::Dense), solver(0.1, Iterates::Lazy));
    let steps: Vec<u64> = (0..9).map(|k| pass(&mut dense, k % 3, k as u64)).collect();
    // 10 of 1 and 10 of 2; 5 of 3 and one of 5; 4 of 3, 2 of 4 and one of 5.
    assert_eq!(steps[..3], [20, 6, 7]);
    let mut again = None;
    for k in 0..9 {
        pass(&mut lazy, k % 3, k as u64);
        if k == 4 {
            let mut other = solver(0.1, Iterates::Lazy);
            let bytes = lazy.save().unwrap().bytes().to_vec();
            other.restore(&State::from(bytes)).unwrap();
            again = Some(other);
        } else if let Some(other) = &mut again {
            pass(other, k % 3, k as u64);
        }
    }
    assert!(vec::distance(&at(&dense).0, &at(&lazy).0) < 1e-12);
    assert_eq!(at(&lazy), at(&again.unwrap()));

    let other = learning(data(10, 3, false, 1), objective, true);
    let refused = lazy.pass(&mut Evaluator::new(&other, 0, 0.0), &[0.0; 4]).unwrap_err().to_string();
    assert!(refused.contains("5") && refused.contains("4"), "{refused}");
}
