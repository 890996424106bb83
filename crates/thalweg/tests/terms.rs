//! Every term against central differences, against its weak-convexity constant, against its own mini-batches, and against
//! values worked by hand.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may give up like tests

use thalweg::eval::{Eval, Evaluator, ValueEval};
use thalweg::learn::{Constant, Data, Groups, Learning, Split};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Draw, Pick, Values, check};

/// Random data with `groups` groups; every group has rows of both labels.
fn data(rows: usize, cols: usize, groups: u32, weighted: bool, seed: u64) -> Data {
    let mut rng = Rng::new(seed, Purpose::Data);
    Data {
        features: Matrix::dense(rows, cols, (0..rows * cols).map(|_| 3.0 * rng.uniform() - 1.5).collect()).unwrap(),
        labels: (0..rows).map(|i| if (i / groups as usize).is_multiple_of(2) { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups {
            names: (0..groups).map(|k| format!("group {k}")).collect(),
            of_row: (0..rows).map(|i| i as u32 % groups).collect(),
        }),
        weights: weighted.then(|| (0..rows).map(|_| 0.1 + rng.uniform()).collect()),
    }
}

const TERMS: &[&str] = &[
    "hinge",
    "hinge(on = 'positives')",
    "logistic",
    "logistic(on = 'negatives')",
    "roc_gap(thresholds = 50, low = -2, high = 2)",
    "roc_gap(thresholds = 7, low = -1, high = 3, temperature = 0.5)",
    "demographic_parity",
    "demographic_parity(temperature = 0.3)",
    "equal_opportunity",
    "l2",
    "l1",
    "scad",
    "hinge + 0.02 * scad",
    "0.5 * logistic + 2 * demographic_parity + 0.1 * l2",
];

/// Each term as objective and, with a bound, as constraint.
fn problems(groups: u32, weighted: bool, intercept: bool) -> impl Iterator<Item = Learning> {
    TERMS.iter().enumerate().map(move |(k, term)| {
        let split = [Split::Shared, Split::Ordered, Split::Shuffle(4)][k % 3];
        Learning::on(data(90, 4, groups, weighted, k as u64))
            .split(split)
            .intercept(intercept)
            .minimize(term.parse().unwrap())
            .subject_to(format!("{term} <= 0.7").parse().unwrap())
            .subject_to("hinge <= 0.5".parse().unwrap())
            .build()
            .unwrap()
    })
}

fn point(dim: usize, scale: f64, rng: &mut Rng) -> Vec<f64> {
    (0..dim).map(|_| scale * (2.0 * rng.uniform() - 1.0)).collect()
}

#[test]
fn subgradients_agree_with_central_differences() {
    let mut rng = Rng::new(1, Purpose::Data);
    for (groups, weighted, intercept) in [(2, false, false), (2, true, true), (3, true, false), (4, false, true)] {
        for problem in problems(groups, weighted, intercept) {
            let x = point(problem.dim(), 1.0, &mut rng);
            check::finite_differences(&problem, &x, 1e-6, 1e-7).unwrap_or_else(|e| panic!("{}: {e}", problem.fingerprint()));
        }
    }
}

#[test]
fn weak_convexity_constants_hold_on_random_pairs() {
    let mut rng = Rng::new(2, Purpose::Data);
    for (groups, weighted) in [(2, false), (2, true), (3, false), (5, true)] {
        for problem in problems(groups, weighted, true) {
            for scale in [0.01, 0.3, 3.0] {
                for _ in 0..20 {
                    let x = point(problem.dim(), scale, &mut rng);
                    let y = point(problem.dim(), scale, &mut rng);
                    check::subgradient_inequality(&problem, &x, &y, 1e-12)
                        .unwrap_or_else(|e| panic!("{}: {e}", problem.fingerprint()));
                }
            }
        }
    }
}

/// Both checks must be able to fail.
#[test]
fn the_checks_refuse_planted_mistakes() {
    use thalweg::oracle::Problem;
    let wrong_sign = Problem::new(1).objective(|x| x[0] * x[0], |x, s| s[0] = -2.0 * x[0]);
    assert!(check::finite_differences(&wrong_sign, &[1.0], 1e-6, 1e-6).is_err());
    let too_small = Problem::new(1).objective(|x| -x[0] * x[0], |x, s| s[0] = -2.0 * x[0]).weak_convexity(1.0, 0.0);
    assert!(check::subgradient_inequality(&too_small, &[0.0], &[1.0], 1e-12).is_err());
    let right = Problem::new(1).objective(|x| -x[0] * x[0], |x, s| s[0] = -2.0 * x[0]).weak_convexity(2.0, 0.0);
    check::subgradient_inequality(&right, &[0.0], &[1.0], 1e-12).unwrap();
}

#[test]
fn a_draw_of_all_rows_equals_the_full_evaluation() {
    let mut rng = Rng::new(3, Purpose::Data);
    for problem in problems(3, true, true) {
        let x = point(problem.dim(), 1.0, &mut rng);
        let lists: Vec<Vec<u32>> = problem.streams().iter().map(|&n| (0..n as u32).rev().collect()).collect();
        let all = Draw::these(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut ev = Evaluator::new(&problem, 0, 0.0);
        let (mut full, mut batch) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let f = ev.objective_grad(&x, &Draw::full(), &mut full).unwrap();
        let h = ev.objective_grad(&x, &all, &mut batch).unwrap();
        assert!((f - h).abs() < 1e-12);
        assert!(full.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-12), "{}", problem.fingerprint());

        let (mut g, mut statistics, mut from) = ([0.0; 2], vec![0.0; problem.statistics()], [0.0; 2]);
        ev.constraint_pull(&x, &Draw::full(), &mut g, &mut |_, w| w.copy_from_slice(&[0.3, 2.0]), &mut full).unwrap();
        ev.statistic_values(&x, &all, &mut statistics).unwrap();
        ev.constraints_from(&x, &statistics, &mut from).unwrap();
        ev.statistic_pull(&x, &all, &statistics, &[0.3, 2.0], &mut batch).unwrap();
        assert!(g.iter().zip(&from).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(full.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-12), "{}", problem.fingerprint());
    }
}

#[test]
fn mini_batch_statistics_are_unbiased() {
    let problem = Learning::on(data(60, 3, 2, true, 9))
        .minimize("hinge".parse().unwrap())
        .subject_to("demographic_parity <= 0.1".parse().unwrap())
        .build()
        .unwrap();
    let x = [0.4, -0.7, 0.2];
    let mut ev = Evaluator::new(&problem, 5, 0.0);
    let mut full = [0.0; 2];
    ev.statistic_values(&x, &Draw::full(), &mut full).unwrap();
    let mut draw = Draw::full();
    for replacement in [thalweg::oracle::Replacement::With, thalweg::oracle::Replacement::Without] {
        let mut mean = [0.0; 2];
        const DRAWS: usize = 40_000;
        for _ in 0..DRAWS {
            let mut one = [0.0; 2];
            ev.sample(&mut draw, 5, replacement);
            ev.statistic_values(&x, &draw, &mut one).unwrap();
            mean.iter_mut().zip(one).for_each(|(m, o)| *m += o / DRAWS as f64);
        }
        // Rates lie in [0, 1] times weights below 2: a mean of 200,000 of them is within 5e-3 of its expectation.
        assert!(mean.iter().zip(full).all(|(m, f)| (m - f).abs() < 5e-3), "{mean:?} {full:?}");
    }
}

#[test]
fn one_dimensional_values_are_those_worked_by_hand() {
    let one = |a: f64, label: f64| Data {
        features: Matrix::dense(1, 1, vec![a]).unwrap(),
        labels: vec![label],
        groups: None,
        weights: None,
    };
    // hinge, a = (1), b = +1
    let hinge = Learning::on(one(1.0, 1.0)).minimize("hinge".parse().unwrap()).build().unwrap();
    for (w, value, slope) in [(0.0, 1.0, -1.0), (1.0, 0.0, 0.0), (2.0, 0.0, 0.0)] {
        let mut grad = [0.0];
        let f = Evaluator::new(&hinge, 0, 0.0).objective_grad(&[w], &Draw::full(), &mut grad).unwrap();
        assert_eq!((f, grad[0]), (value, slope));
    }
    // ROC gap: one protected row at 1, one other at -1, the one threshold 0
    let groups = Groups { names: vec!["p".into(), "u".into()], of_row: vec![0, 1] };
    let pair = Data {
        features: Matrix::dense(2, 1, vec![1.0, -1.0]).unwrap(),
        labels: vec![1.0, -1.0],
        groups: Some(groups),
        weights: None,
    };
    let roc = Learning::on(pair).minimize("roc_gap(thresholds = 1, low = 0, high = 0)".parse().unwrap()).build().unwrap();
    for (w, value, slope) in [(0.0, 0.0, 0.0), (1.0, 0.462_117_16, 0.393_223_87)] {
        let mut grad = [9.0];
        let f = Evaluator::new(&roc, 0, 0.0).objective_grad(&[w], &Draw::full(), &mut grad).unwrap();
        assert!((f - value).abs() < 1e-8 && (grad[0] - slope).abs() < 1e-8, "{w}: {f} {grad:?}");
    }
}

#[test]
fn more_than_two_groups_are_compared_with_the_overall_rate() {
    let problem = Learning::on(data(60, 3, 3, false, 2)).minimize("demographic_parity".parse().unwrap()).build().unwrap();
    let x = [0.9, -0.4, 0.3];
    let d = problem.data();
    let groups = d.groups.as_ref().unwrap();
    let rate = |keep: &dyn Fn(usize) -> bool| {
        let rows: Vec<usize> = (0..60).filter(|&i| keep(i)).collect();
        rows.iter().map(|&i| 1.0 / (1.0 + (-d.features.row_dot(i, &x)).exp())).sum::<f64>() / rows.len() as f64
    };
    let overall = rate(&|_| true);
    let want = (0..3).map(|k| (rate(&|i| groups.of_row[i] == k) - overall).abs()).fold(0.0, f64::max);
    let f = Evaluator::new(&problem, 0, 0.0).objective(&x, &Draw::full()).unwrap();
    assert!((f - want).abs() < 1e-14, "{f} {want}");
}

#[test]
fn row_weights_act_like_repeated_rows() {
    let base = data(30, 3, 2, false, 8);
    let times: Vec<usize> = (0..30).map(|i| 1 + i % 3).collect();
    let repeated: Vec<usize> = (0..30).flat_map(|i| vec![i; times[i]]).collect();
    let weighted = Data { weights: Some(times.iter().map(|&t| t as f64).collect()), ..base.clone() };
    let x = [0.3, 0.8, -1.1];
    for term in TERMS {
        let value = |data: Data| {
            let problem = Learning::on(data).minimize(term.parse().unwrap()).build().unwrap();
            let mut grad = vec![0.0; 3];
            let f = Evaluator::new(&problem, 0, 0.0).objective_grad(&x, &Draw::full(), &mut grad).unwrap();
            (f, grad, problem.moduli(Constant::Sharp).0.unwrap())
        };
        let (f, grad, rho) = value(weighted.clone());
        let (h, other, sigma) = value(base.select(&repeated));
        assert!((f - h).abs() < 1e-13 && (rho - sigma).abs() < 1e-12, "{term}");
        assert!(grad.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-13), "{term}");
    }
}

#[test]
fn constants_are_sharp_or_as_printed() {
    let problem = Learning::on(data(40, 3, 2, false, 6))
        .minimize("roc_gap(thresholds = 5, low = -1, high = 1)".parse().unwrap())
        .subject_to("hinge + 0.02 * scad <= 1".parse().unwrap())
        .build()
        .unwrap();
    let d = problem.data();
    let mean = |k: u32| {
        let rows: Vec<usize> = (0..40).filter(|&i| d.groups.as_ref().unwrap().of_row[i] == k).collect();
        rows.iter().map(|&i| d.features.row_norm_squared(i)).sum::<f64>() / rows.len() as f64
    };
    let printed = mean(0) + mean(1);
    let (objective, constraints) = problem.moduli(Constant::AsPrinted);
    assert!((objective.unwrap() - printed).abs() < 1e-12);
    assert!((problem.moduli(Constant::Sharp).0.unwrap() - printed / (6.0 * 3_f64.sqrt())).abs() < 1e-12);
    assert_eq!(constraints, [Some(0.04)]);
}

#[test]
fn what_the_data_lack_is_named() {
    let mut lone = data(30, 2, 2, false, 1);
    lone.groups.as_mut().unwrap().of_row.fill(0);
    let refuse = |data: Data, term: &str| Learning::on(data).minimize(term.parse().unwrap()).build().unwrap_err().to_string();
    assert!(refuse(lone.clone(), "demographic_parity").contains("needs rows of group 'group 1'"));
    lone.groups = None;
    assert!(refuse(lone.clone(), "demographic_parity").contains("the data have none"));
    lone.labels.fill(1.0);
    assert!(refuse(lone.clone(), "hinge(on = 'negatives')").contains("needs rows with label -1"));
    lone.labels[3] = 0.5;
    assert!(refuse(lone, "hinge").contains("label of row 4 = 0.5"));
    let below =
        Learning::on(data(9, 2, 2, false, 1)).minimize("l2".parse().unwrap()).subject_to("hinge <= -0.1".parse().unwrap());
    assert!(below.build().unwrap_err().to_string().contains("can never hold"));
}

/// Values at several points in one call equal the values one by one, and picked constraints keep their order.
#[test]
fn many_points_and_picked_constraints() {
    let problem = problems(2, false, false).nth(4).unwrap();
    let mut rng = Rng::new(12, Purpose::Data);
    let points: Vec<f64> = (0..3).flat_map(|_| point(4, 1.0, &mut rng)).collect();
    let mut ev = Evaluator::new(&problem, 0, 0.0);
    let (mut many, mut g) = ([0.0; 3], [0.0; 6]);
    ev.objective_many(&points, &Draw::full(), &mut many).unwrap();
    ev.constraint_values_many(&points, &Draw::full(), Pick::These(&[1, 0]), &mut g).unwrap();
    for (k, x) in points.chunks(4).enumerate() {
        let mut one = [0.0; 2];
        assert_eq!(ev.objective(x, &Draw::full()).unwrap().to_bits(), many[k].to_bits());
        ev.constraint_values(x, &Draw::full(), Pick::All, &mut one).unwrap();
        assert_eq!([one[1], one[0]], g[2 * k..2 * k + 2]);
    }
}

#[test]
fn rates_are_counted_beside_their_soft_forms() {
    let mut problem = Learning::on(data(60, 3, 2, true, 2))
        .intercept(true)
        .minimize("hinge".parse().unwrap())
        .subject_to("demographic_parity <= 0.3".parse().unwrap())
        .subject_to("logistic <= 2".parse().unwrap())
        .subject_to("roc_gap(thresholds = 3, low = -1, high = 1) + 0.5 * l2 <= 2".parse().unwrap())
        .build()
        .unwrap();
    let x = [0.9, -0.4, 0.3, 0.1];
    let scores = problem.scores(&x).unwrap();
    let d = problem.data();
    let share = |k: u32, threshold: f64| {
        let of = |i: &usize| d.groups.as_ref().unwrap().of_row[*i] == k;
        let weight = |i: usize| d.weights.as_ref().unwrap()[i];
        let all: f64 = (0..60).filter(of).map(weight).sum();
        (0..60).filter(of).filter(|&i| scores[i] > threshold).map(weight).sum::<f64>() / all
    };
    let parity = (share(0, 0.0) - share(1, 0.0)).abs();
    let roc = [-1.0, 0.0, 1.0].iter().map(|&t| (share(0, t) - share(1, t)).abs()).fold(0.0, f64::max);
    let want = [Some(parity), None, Some(roc + 0.25 * (0.81 + 0.16 + 0.09))];
    let counted = problem.counted(&x).unwrap();
    assert_eq!(counted[1], None);
    for (c, w) in counted.iter().zip(want).filter(|(c, _)| c.is_some()) {
        assert!((c.unwrap() - w.unwrap()).abs() < 1e-12, "{c:?} {w:?}");
    }
    // A moved bound moves the constraint value, not the counted side.
    problem.set_bound(0, 0.1);
    assert_eq!(problem.counted(&x).unwrap(), counted);
    assert_eq!(problem.bound(0), 0.1);
}
