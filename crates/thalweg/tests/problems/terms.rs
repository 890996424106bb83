//! Every term against central differences, against its weak-convexity constant, against its own mini-batches, and against
//! values worked by hand.

use thalweg::eval::{Eval, Evaluator, ValueEval};
use thalweg::learn::{Constant, Data, Groups, Learning, Split};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Composite, Description, Draw, Pick, check};

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
    "demographic_parity(compare = 'to-overall')",
    "equal_opportunity",
    "equal_opportunity(compare = 'to-overall')",
    "equalised_odds(temperature = 0.6, compare = 'to-overall')",
    "roc_gap(thresholds = 7, low = -1, high = 3, compare = 'to-overall')",
    "l2",
    "ridge",
    "logistic + 0.3 * ridge + 0.1 * l2",
    "l1",
    "scad",
    "hinge + 0.02 * scad",
    "0.5 * logistic + 2 * demographic_parity + 0.1 * l2",
    "false_positive_rate",
    "false_positive_rate(temperature = 0.4)",
    "false_negative_rate",
    "false_negative_rate(temperature = 0.4)",
    "equalised_odds",
    "equalised_odds(temperature = 0.3)",
    "hinge(on = 'negatives') + 0.5 * false_negative_rate",
    "wasserstein_gap",
    "truncated_logistic",
    "truncated_logistic(scale = 0.4, on = 'negatives')",
    "variance(hinge)",
    "variance(logistic)",
    "variance(welsch(scale = 2))",
    "variance(truncated_logistic(scale = 1.5))",
    "logistic + 0.3 * variance(logistic, form = 'sqrt')",
    "hinge + 0.5 * variance(logistic(on = 'positives')) + 0.01 * l2",
    "self_paced(logistic)",
    "self_paced(hinge, age = 0.5, softness = 0.3)",
    "self_paced(welsch(scale = 1.3), age = 2) + 0.1 * l1",
    "self_paced(truncated_logistic(scale = 0.7))",
    "0.3 * wasserstein_gap + 0.5 * hinge + equalised_odds",
];

/// Terms that this many groups have.
fn terms(groups: u32) -> impl Iterator<Item = (usize, &'static str)> {
    TERMS.iter().copied().enumerate().filter(move |(_, term)| groups == 2 || !term.contains("wasserstein_gap"))
}

/// Each term as objective and, with a bound, as constraint.
fn problems(groups: u32, weighted: bool, intercept: bool) -> impl Iterator<Item = Learning> {
    terms(groups).map(move |(k, term)| {
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
    for problem in problems(3, true, true).chain(problems(2, true, true)).chain(problems(2, false, false)) {
        let x = point(problem.dim(), 1.0, &mut rng);
        let lists: Vec<Vec<u32>> = problem.streams().iter().map(|&n| (0..n as u32).rev().collect()).collect();
        let all = Draw::these(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut ev = Evaluator::new(&problem, 0, 0.0);
        let (mut full, mut batch) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let f = ev.objective_grad(&x, &Draw::full(), &mut full).unwrap();
        let h = ev.objective_grad(&x, &all, &mut batch).unwrap();
        assert!((f - h).abs() < 1e-12);
        assert!(full.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-12), "{}", problem.fingerprint());

        let (mut g, mut statistics, mut from) = ([0.0; 2], vec![0.0; problem.num_statistics()], [0.0; 2]);
        ev.constraint_vjp(&x, &Draw::full(), &mut g, &mut |_, w| w.copy_from_slice(&[0.3, 2.0]), &mut full).unwrap();
        ev.statistic_values(&x, &all, &mut statistics).unwrap();
        ev.constraints_from(&x, &statistics, &mut from).unwrap();
        ev.statistic_vjp(&x, &all, &statistics, &[0.3, 2.0], &mut batch).unwrap();
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
fn groups_are_compared_with_each_other_or_with_the_overall_rate() {
    for groups in [2, 3, 5] {
        compare_groups(groups);
    }
    let bad = Learning::on(data(60, 3, 3, false, 2)).minimize("roc_gap(low = 0, high = 1, compare = 'overall')".parse().unwrap());
    let refused = bad.build().unwrap_err().to_string();
    assert_eq!(refused, "compare of roc_gap must be \"between-groups\" or \"to-overall\", got \"overall\"");
    let bad = Learning::on(data(60, 3, 3, false, 2)).minimize("equal_opportunity(compare = 2)".parse().unwrap());
    let refused = bad.build().unwrap_err().to_string();
    assert_eq!(refused, "compare of equal_opportunity must be \"between-groups\" or \"to-overall\", got 2");
}

/// Both gaps of one model, against their definitions.
fn compare_groups(n: u32) {
    let build = |term: &str| {
        let built = Learning::on(data(60, 3, n, true, 2)).minimize(term.parse().unwrap());
        built.subject_to(format!("{term} <= 1").parse().unwrap()).build().unwrap()
    };
    let problem = build("demographic_parity");
    let x = [0.9, -0.4, 0.3];
    let d = problem.data();
    let groups = d.groups.as_ref().unwrap();
    let rate = |keep: &dyn Fn(usize) -> bool| {
        let rows: Vec<usize> = (0..60).filter(|&i| keep(i)).collect();
        let weight = |i: usize| d.weights.as_ref().unwrap()[i];
        let sum = rows.iter().map(|&i| weight(i) / (1.0 + (-d.features.row_dot(i, &x)).exp())).sum::<f64>();
        sum / rows.iter().map(|&i| weight(i)).sum::<f64>()
    };
    let overall = rate(&|_| true);
    let rates: Vec<f64> = (0..n).map(|k| rate(&|i| groups.of_row[i] == k)).collect();
    let to_overall = rates.iter().map(|r| (r - overall).abs()).fold(0.0, f64::max);
    let between = rates.iter().copied().fold(0.0, f64::max) - rates.iter().copied().fold(1.0, f64::min);
    assert!(between > 1.1 * to_overall, "the two are told apart");
    let value = |problem: &Learning| Evaluator::new(problem, 0, 0.0).objective(&x, &Draw::full()).unwrap();
    for (term, want) in [
        ("demographic_parity", between),
        ("demographic_parity(compare = 'between-groups')", between),
        ("demographic_parity(compare = \"to_overall\")", to_overall),
    ] {
        let f = value(&build(term));
        assert!((f - want).abs() < 1e-14, "{n} groups, {term}: {f} {want}");
    }
    // The problem is identified by the meaning of its gaps, and the notes state it where the groups are more than two.
    let [plain, between, overall] =
        ["demographic_parity", "demographic_parity(compare = 'between-groups')", "demographic_parity(compare = 'to-overall')"]
            .map(build);
    assert_ne!(plain.fingerprint(), overall.fingerprint());
    assert_eq!(plain.fingerprint() == between.fingerprint(), n > 2);
    assert_eq!(plain.constraint_name(0), "demographic_parity");
    let notes = |problem: &Learning| problem.comparison_notes().iter().map(ToString::to_string).collect::<Vec<_>>();
    if n == 2 {
        assert_eq!(notes(&plain), [""; 0]);
    } else {
        let want = format!("'demographic_parity' is the largest difference between two groups ({n} groups)");
        assert_eq!(notes(&plain), [want]);
        assert!(notes(&overall)[0].contains("is the largest difference between a group and the overall rate"));
    }
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
            // No constant is told from every number by one that no number is.
            (f, grad, problem.moduli(Constant::Sharp).0.unwrap_or(-1.0))
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
    let message = refuse(lone, "hinge");
    assert!(message.contains("label of row 4 must be ") && message.contains("got 0.5"), "{message}");
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
fn rates_are_measured_beside_their_surrogates() {
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
    let measured = problem.measured(&x).unwrap();
    assert_eq!(measured[1], None);
    for (c, w) in measured.iter().zip(want).filter(|(c, _)| c.is_some()) {
        assert!((c.unwrap() - w.unwrap()).abs() < 1e-12, "{c:?} {w:?}");
    }
    // A moved bound moves the constraint value, not the measured side.
    problem.set_bound(0, 0.1);
    assert_eq!(problem.measured(&x).unwrap(), measured);
    assert_eq!(problem.bound(0), 0.1);
}

/// One column whose entries are the scores at w = 1: groups 0 and 1, labels.
fn scored(rows: &[(f64, u32, f64)]) -> Data {
    Data {
        features: Matrix::dense(rows.len(), 1, rows.iter().map(|r| r.0).collect()).unwrap(),
        labels: rows.iter().map(|r| r.2).collect(),
        groups: Some(Groups {
            names: (0..=rows.iter().map(|r| r.1).max().unwrap()).map(|k| k.to_string()).collect(),
            of_row: rows.iter().map(|r| r.1).collect(),
        }),
        weights: None,
    }
}

fn sig(t: f64) -> f64 {
    1.0 / (1.0 + (-t).exp())
}

#[test]
fn error_rates_are_those_worked_by_hand() {
    let data = scored(&[(1.0, 0, 1.0), (-2.0, 0, 1.0), (0.0, 1, 1.0), (0.5, 0, -1.0), (-1.0, 1, -1.0)]);
    let problem = Learning::on(data)
        .minimize("false_positive_rate(temperature = 0.5)".parse().unwrap())
        .subject_to("false_positive_rate(temperature = 0.5) <= 0.3".parse().unwrap())
        .subject_to("false_negative_rate(temperature = 2) <= 0.3".parse().unwrap())
        .build()
        .unwrap();
    let mut g = [0.0; 2];
    Evaluator::new(&problem, 0, 0.0).constraint_values(&[1.0], &Draw::full(), Pick::All, &mut g).unwrap();
    let want = [(sig(1.0) + sig(-2.0)) / 2.0 - 0.3, (sig(-0.5) + sig(1.0) + sig(0.0)) / 3.0 - 0.3];
    assert!(g.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-15), "{g:?} {want:?}");
    // A score of 0 is not called positive: no false positive, but a false negative.
    assert_eq!(problem.measured(&[1.0]).unwrap(), [Some(0.5), Some(1.0 - 1.0 / 3.0)]);
    assert_eq!(problem.measured(&[0.0]).unwrap(), [Some(0.0), Some(1.0)]);
    // Squared scores: 0.25 and 1, mean 0.625; 1, 4 and 0, mean 5 / 3.
    let bend = 1.0 / (6.0 * 3_f64.sqrt());
    let (_, sharp) = problem.moduli(Constant::Sharp);
    assert!((sharp[0].unwrap() - 4.0 * 0.625 * bend).abs() < 1e-12 && (sharp[1].unwrap() - 5.0 / 12.0 * bend).abs() < 1e-12);
    assert_eq!(problem.moduli(Constant::AsPrinted).0, Some(2.5));
}

#[test]
fn equalised_odds_is_the_larger_of_two_gaps() {
    // Group 0: positives 2 and -1, negatives 1; group 1: positives 1, negatives -1 and -3.
    let rows = [(2.0, 0, 1.0), (-1.0, 0, 1.0), (1.0, 0, -1.0), (1.0, 1, 1.0), (-1.0, 1, -1.0), (-3.0, 1, -1.0)];
    let odds = |w: f64| {
        let true_positives = (sig(2.0 * w) + sig(-w)) / 2.0 - sig(w);
        let false_positives = sig(w) - (sig(-w) + sig(-3.0 * w)) / 2.0;
        true_positives.abs().max(false_positives.abs())
    };
    let problem = Learning::on(scored(&rows))
        .minimize("equalised_odds".parse().unwrap())
        .subject_to("equalised_odds <= 0.5".parse().unwrap())
        .build()
        .unwrap();
    for w in [-2.0, -0.1, 0.0, 0.7, 3.0] {
        let f = Evaluator::new(&problem, 0, 0.0).objective(&[w], &Draw::full()).unwrap();
        assert!((f - odds(w)).abs() < 1e-15, "{w}: {f}");
    }
    // Counted: true positives 1/2 and 1, false positives 1 and 0; mirrored: 1/2 and 0, 0 and 1.
    assert_eq!(problem.measured(&[1.0]).unwrap(), [Some(1.0)]);
    let labels_swapped = rows.map(|(s, k, y)| (s, k, -y));
    let swapped = Learning::on(scored(&labels_swapped)).minimize("equalised_odds".parse().unwrap()).build().unwrap();
    let f = Evaluator::new(&swapped, 0, 0.0).objective(&[1.3], &Draw::full()).unwrap();
    assert!((f - odds(1.3)).abs() < 1e-15, "the two labels count alike");

    // Three groups: each against the rate of all rows with that label, or against each other.
    let three = |text: &str| Learning::on(data(90, 3, 3, true, 7)).minimize(text.parse().unwrap()).build().unwrap();
    let problem = three("equalised_odds(compare = 'to-overall')");
    let (d, x) = (problem.data(), [0.9, -0.4, 0.3]);
    let scores = problem.scores(&x).unwrap();
    let rate = |keep: &dyn Fn(usize) -> bool| {
        let weight = |i: &usize| d.weights.as_ref().unwrap()[*i];
        let rows: Vec<usize> = (0..90).filter(|&i| keep(i)).collect();
        rows.iter().map(|i| weight(i) * sig(scores[*i])).sum::<f64>() / rows.iter().map(weight).sum::<f64>()
    };
    let of = |i: usize| d.groups.as_ref().unwrap().of_row[i];
    let gap = |label: f64, k: u32| (rate(&|i| d.labels[i] == label && of(i) == k) - rate(&|i| d.labels[i] == label)).abs();
    let want = [1.0, -1.0].iter().flat_map(|&y| (0..3).map(move |k| (y, k))).map(|(y, k)| gap(y, k)).fold(0.0, f64::max);
    let f = Evaluator::new(&problem, 0, 0.0).objective(&x, &Draw::full()).unwrap();
    assert!((f - want).abs() < 1e-14, "{f} {want}");
    let spread = |label: f64| {
        let rates = [0, 1, 2].map(|k| rate(&|i| d.labels[i] == label && of(i) == k));
        rates.into_iter().fold(0.0, f64::max) - rates.into_iter().fold(1.0, f64::min)
    };
    let want = spread(1.0).max(spread(-1.0));
    let f = Evaluator::new(&three("equalized_odds"), 0, 0.0).objective(&x, &Draw::full()).unwrap();
    assert!((f - want).abs() < 1e-14, "{f} {want}");

    let refused = Learning::on(scored(&rows)).minimize("equalisd_odds".parse().unwrap()).build().unwrap_err().to_string();
    assert!(refused.contains("did you mean 'equalised_odds'?"), "{refused}");
}

/// Two rows of one group that cross between two of the other: `W = 1 - |s| / 2` for scores s, 0 against -1, 1.
#[test]
fn the_wasserstein_gap_has_a_concave_kink_and_no_constant() {
    use crate::common::certify;
    use thalweg::auto;
    use thalweg::certify::Bounds;
    use thalweg::solvers::{Bundle, Solver, SolverName, bundle};
    let data = Data {
        features: Matrix::dense(4, 2, vec![1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0]).unwrap(),
        labels: vec![1.0, -1.0, 1.0, -1.0],
        groups: Some(Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 0, 1, 1] }),
        weights: None,
    };
    let problem = Learning::on(data.clone()).minimize("wasserstein_gap".parse().unwrap()).build().unwrap();
    let mut ev = Evaluator::new(&problem, 0, 0.0);
    let mut at = |s: f64| {
        let mut grad = [0.0; 2];
        (ev.objective_grad(&[s, 1.0], &Draw::full(), &mut grad).unwrap(), grad[0])
    };
    for h in [0.5, 1e-2, 1e-5] {
        let (above, below) = (at(h), at(-h));
        assert_eq!((above.1, below.1), (-0.5, 0.5));
        assert!((above.0 + below.0 - 2.0 * at(0.0).0 + h).abs() < 1e-15, "{h}");
    }
    for which in [Constant::Sharp, Constant::AsPrinted] {
        assert_eq!(problem.moduli(which).0, None);
    }
    let refused = Bundle::new(bundle::Settings::default()).unwrap().start(&mut ev as &mut dyn Eval, &[0.0; 2]).unwrap_err();
    assert!(refused.to_string().contains("no known weak-convexity constant"), "{refused}");
    let refused = certify(&problem, &[0.0, 1.0], &Bounds::default()).unwrap_err();
    assert!(refused.to_string().contains("weak-convexity constant"), "{refused}");
    assert_eq!(auto::choose(&problem).config.name(), SolverName::Ssg);

    let mut three = data;
    three.groups = Some(Groups { names: vec!["a".into(), "b".into(), "c".into()], of_row: vec![0, 0, 1, 2] });
    let refused = Learning::on(three).minimize("wasserstein_gap".parse().unwrap()).build().unwrap_err();
    assert_eq!(refused.to_string(), "wasserstein_gap is a distance between two groups, but the data have 3; expected two");
}

/// A batch is a small problem of its own: its value and subgradient are those of its rows alone.
#[test]
fn the_wasserstein_gap_of_a_batch_is_that_of_its_rows() {
    let mut rng = Rng::new(8, Purpose::Data);
    let all = data(40, 3, 2, true, 5);
    let problem = Learning::on(all.clone()).minimize("wasserstein_gap".parse().unwrap()).build().unwrap();
    let (mut biased, mut full) = (0.0, [0.0; 3]);
    let x = [0.3, 0.8, -1.1];
    let value = Evaluator::new(&problem, 0, 0.0).objective_grad(&x, &Draw::full(), &mut full).unwrap();
    for _ in 0..200 {
        // Row i is number i / 2 of group i % 2; three rows of one group, five of the other.
        let mut pick = |n: usize| {
            let mut left: Vec<u32> = (0..20).collect();
            (0..n).map(|_| left.swap_remove((left.len() as f64 * rng.uniform()) as usize)).collect::<Vec<u32>>()
        };
        let (first, second) = (pick(3), pick(5));
        let rows: Vec<usize> = first.iter().map(|&i| 2 * i as usize).chain(second.iter().map(|&i| 2 * i as usize + 1)).collect();
        let alone = Learning::on(all.select(&rows)).minimize("wasserstein_gap".parse().unwrap()).build().unwrap();
        let (mut batch, mut want) = ([0.0; 3], [0.0; 3]);
        let f = Evaluator::new(&problem, 0, 0.0).objective_grad(&x, &Draw::these(&[&first, &second]), &mut batch).unwrap();
        let h = Evaluator::new(&alone, 0, 0.0).objective_grad(&x, &Draw::full(), &mut want).unwrap();
        assert!((f - h).abs() < 1e-13 && batch.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-13));
        biased += f / 200.0;
    }
    assert!(biased > value, "small samples differ more than their groups: {biased} {value}");
}

#[test]
fn the_measured_roc_gap_is_the_largest_over_all_thresholds() {
    let mut rng = Rng::new(6, Purpose::Data);
    for trial in 0..60 {
        let (groups, weighted) = (2 + trial % 3, trial % 2 == 0);
        let mut data = data(36, 1, groups, weighted, u64::from(trial));
        // Coarse scores: ties within and between groups.
        data.features = Matrix::dense(36, 1, (0..36).map(|_| (7.0 * rng.uniform()).floor() - 3.0).collect()).unwrap();
        let split = if trial % 5 == 0 { Split::Ordered } else { Split::Shared };
        // Two thirds of the rows in order serve losses.
        let from = if trial % 5 == 0 { 24 } else { 0 };
        let problem = Learning::on(data.clone())
            .split(split)
            .minimize("l2".parse().unwrap())
            .subject_to("roc_gap(thresholds = 15, low = -7, high = 7) <= 1".parse().unwrap())
            .build()
            .unwrap();
        let scores = problem.scores(&[2.0]).unwrap();
        let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
        let of = |i: usize| data.groups.as_ref().unwrap().of_row[i];
        let share = |keep: &dyn Fn(usize) -> bool, c: f64| {
            let rows: Vec<usize> = (from..36).filter(|&i| keep(i)).collect();
            let above: f64 = rows.iter().filter(|&&i| scores[i] > c).map(|&i| weight(i)).sum();
            above / rows.iter().map(|&i| weight(i)).sum::<f64>()
        };
        let gap = |c: f64| {
            let shares: Vec<f64> = (0..groups).map(|k| share(&|i| of(i) == k, c)).collect();
            shares.iter().copied().fold(0.0, f64::max) - shares.iter().copied().fold(1.0, f64::min)
        };
        let want = scores.iter().map(|&c| gap(c)).fold(gap(-100.0), f64::max);
        let found = problem.measured_roc_gap(&[2.0]).unwrap();
        assert!((found - want).abs() < 1e-13, "trial {trial}: {found} {want}");
        // Scores are even numbers: odd thresholds miss none of them, and counting on the grid finds the same.
        assert!((problem.measured(&[2.0]).unwrap()[0].unwrap() - want).abs() < 1e-13);
        assert!(problem.measured_roc_gap(&[0.0]).unwrap() < 1e-14);
    }
    let mut none = data(9, 2, 2, false, 1);
    none.groups = None;
    let problem = Learning::on(none).minimize("l2".parse().unwrap()).build().unwrap();
    assert!(problem.measured_roc_gap(&[0.0; 2]).unwrap_err().to_string().contains("compares groups, but the data have none"));
}

#[test]
fn errors_of_one_kind_are_minimised_under_a_bound_on_the_other() {
    use thalweg::learn::{FitOptions, fit};
    let mut data = data(400, 3, 2, false, 11);
    let mut rng = Rng::new(12, Purpose::Data);
    data.labels = (0..400)
        .map(|i| if data.features.row_dot(i, &[1.0, -0.5, 0.2]) + 3.0 * rng.uniform() - 1.5 > 0.0 { 1.0 } else { -1.0 })
        .collect();
    for (minimize, bounded) in [
        ("hinge(on = 'positives')", "hinge(on = 'negatives') <= 0.5"),
        ("logistic(on = 'positives')", "logistic(on = 'negatives') <= 0.4"),
        ("false_negative_rate", "false_positive_rate <= 0.2"),
        ("logistic(on = 'positives')", "false_positive_rate <= 0.2"),
    ] {
        let mut problem = Learning::on(data.clone())
            .intercept(true)
            .minimize(minimize.parse().unwrap())
            .subject_to(bounded.parse().unwrap())
            .subject_to("l2 <= 10".parse().unwrap())
            .build()
            .unwrap();
        let fitted = fit(&mut problem, &[0.0; 4], &FitOptions::default(), &mut ()).unwrap();
        assert!(fitted.feasible, "{minimize} subject to {bounded}: {fitted:?}");
        let constraint = &fitted.constraints[0];
        let enforced = constraint.measured.unwrap_or(constraint.surrogate);
        // The bound is active: giving all of it away is what the other kind of errors wants.
        assert!(
            enforced <= constraint.bound + 1e-6 && enforced > 0.85 * constraint.bound,
            "{minimize} subject to {bounded}: {constraint:?}"
        );
        assert_eq!(constraint.measured.is_some(), bounded.starts_with("false"));
    }
}
