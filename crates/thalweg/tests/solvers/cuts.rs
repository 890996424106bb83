//! Several cuts of the objective from one visit: each below the objective, each with its own subgradient, each counted.

use thalweg::eval::{Eval, Evaluator, Proximal, ValueEval};
use thalweg::learn::{Data, Groups, Learning, Split};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Description, Draw, Replacement};

const COLS: usize = 4;

/// Random rows whose spread differs between the groups, so that the gap has peaks of both signs.
fn data(groups: u32, weighted: bool) -> Data {
    let rows = 120;
    let mut rng = Rng::new(31, Purpose::Data);
    let spread = |i: usize| 1.0 + 2.0 * f64::from(i as u32 % groups);
    Data {
        features: Matrix::dense(rows, COLS, (0..rows * COLS).map(|i| spread(i / COLS) * (rng.uniform() - 0.45)).collect())
            .unwrap(),
        labels: (0..rows).map(|i| if (i / groups as usize).is_multiple_of(2) { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups {
            names: (0..groups).map(|k| format!("group {k}")).collect(),
            of_row: (0..rows as u32).map(|i| i % groups).collect(),
        }),
        weights: weighted.then(|| (0..rows).map(|_| 0.1 + rng.uniform()).collect()),
    }
}

fn problem(objective: &str, groups: u32, weighted: bool) -> Learning {
    let start = Learning::on(data(groups, weighted)).split(Split::Ordered).minimize(objective.parse().unwrap());
    start.build().unwrap()
}

fn point(scale: f64, rng: &mut Rng) -> Vec<f64> {
    (0..COLS).map(|_| scale * (2.0 * rng.uniform() - 1.0)).collect()
}

/// Up to `limit` cuts: values and rows.
fn cuts(ev: &mut dyn Eval, x: &[f64], draw: &Draw, limit: usize) -> Vec<(f64, Vec<f64>)> {
    let (mut values, mut rows) = (vec![f64::NAN; limit], vec![f64::NAN; limit * x.len()]);
    let count = ev.objective_cuts(x, draw, &mut values, &mut rows).unwrap();
    values.into_iter().zip(rows.chunks(x.len()).map(<[f64]>::to_vec)).take(count).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Objectives with several branches in exactly one summand, for that many groups.
const BRANCHED: &[(&str, u32)] = &[
    ("roc_gap(thresholds = 60, low = -4, high = 4)", 2),
    ("roc_gap(thresholds = 9, low = -2, high = 3, temperature = 0.3)", 2),
    ("0.7 * logistic + 2 * roc_gap(thresholds = 60, low = -4, high = 4) + 0.1 * l1", 2),
    ("roc_gap(thresholds = 40, low = -4, high = 4) + 0.5 * hinge", 3),
    ("demographic_parity", 3),
    ("demographic_parity(compare = 'to-overall')", 3),
    ("equalised_odds", 3),
    ("roc_gap(thresholds = 40, low = -4, high = 4, compare = 'to-overall') + 0.5 * hinge", 3),
    ("equal_opportunity(temperature = 0.5) + 0.02 * scad", 4),
];

#[test]
fn every_cut_lies_below_the_objective() {
    let mut rng = Rng::new(1, Purpose::Data);
    for &(objective, groups) in BRANCHED {
        for weighted in [false, true] {
            let problem = problem(objective, groups, weighted);
            let rho = problem.objective_modulus().unwrap().value;
            let mut ev = Evaluator::new(&problem, 0, 0.0);
            let mut most = 0;
            for scale in [0.1, 0.5, 2.0] {
                for _ in 0..10 {
                    let x = point(scale, &mut rng);
                    let mut grad = vec![0.0; COLS];
                    let f = ev.objective_grad(&x, &Draw::full(), &mut grad).unwrap();
                    let cuts = cuts(&mut ev, &x, &Draw::full(), 6);
                    most = most.max(cuts.len());
                    assert_eq!(cuts[0].0.to_bits(), f.to_bits());
                    assert!(cuts[0].1.iter().zip(&grad).all(|(a, b)| a.to_bits() == b.to_bits()), "{objective}");
                    for (k, (value, row)) in cuts.iter().enumerate() {
                        assert!(*value <= f, "{objective}: {value} {f}");
                        assert!(cuts[..k].iter().all(|(_, other)| distance(row, other) > 1e-6), "{objective}: {cuts:?}");
                        for reach in [0.01, 0.3, 3.0] {
                            let step = point(reach, &mut rng);
                            let y: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + s).collect();
                            let linear: f64 = row.iter().zip(&step).map(|(r, s)| r * s).sum();
                            let square: f64 = step.iter().map(|s| s * s).sum();
                            let above = ev.objective(&y, &Draw::full()).unwrap();
                            assert!(above >= value + linear - 0.5 * rho * square - 1e-12, "{objective}, cut {k} at {reach}");
                        }
                    }
                }
            }
            assert!(most > 2 || groups == 3 && most == 2, "{objective}: at most {most} cuts");
        }
    }
}

/// A branch of the gap over a grid is the gap at one threshold.
#[test]
fn a_cut_of_the_gap_is_that_of_a_single_threshold() {
    let mut rng = Rng::new(2, Purpose::Data);
    for (weighted, intercept) in [(false, false), (true, true)] {
        let make = |gap: &str| {
            let sum = format!("0.5 * logistic + 3 * {gap} + 0.1 * l2");
            Learning::on(data(2, weighted)).intercept(intercept).minimize(sum.parse().unwrap()).build().unwrap()
        };
        let problem = make("roc_gap(thresholds = 33, low = -4, high = 4)");
        let singles: Vec<Learning> = (0..33)
            .map(|j| make(&format!("roc_gap(thresholds = 1, low = {t}, high = {t})", t = f64::from(j).mul_add(0.25, -4.0))))
            .collect();
        let mut ev = Evaluator::new(&problem, 0, 0.0);
        for _ in 0..10 {
            let x: Vec<f64> = (0..problem.dim()).map(|_| 2.0 * rng.uniform() - 1.0).collect();
            let draws = [Draw::full(), {
                let mut draw = Draw::full();
                ev.sample(&mut draw, 20, Replacement::Without);
                draw
            }];
            for draw in &draws {
                let cuts = cuts(&mut ev, &x, draw, 8);
                let mut found = vec![];
                for (value, row) in &cuts {
                    let matches = |single: &Learning| {
                        let mut grad = vec![0.0; x.len()];
                        let f = Evaluator::new(single, 0, 0.0).objective_grad(&x, draw, &mut grad).unwrap();
                        (f - value).abs() < 1e-10 && distance(&grad, row) < 1e-10
                    };
                    found.extend(singles.iter().position(matches));
                }
                assert_eq!(found.len(), cuts.len(), "every cut has its threshold");
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), cuts.len(), "and no two have the same");
            }
        }
    }
}

/// Three groups against the overall rate: the cuts are the differences in order of size, down to half of the largest.
#[test]
fn with_three_groups_the_next_largest_difference_is_a_cut() {
    let objective = "demographic_parity(compare = 'to-overall')";
    let problem = Learning::on(data(3, false)).minimize(objective.parse().unwrap()).build().unwrap();
    let d = problem.data();
    let gap = |k: u32, x: &[f64]| {
        let rate = |keep: &dyn Fn(u32) -> bool| {
            let rows: Vec<usize> = (0..120).filter(|&i| keep(d.groups.as_ref().unwrap().of_row[i])).collect();
            rows.iter().map(|&i| 1.0 / (1.0 + (-d.features.row_dot(i, x)).exp())).sum::<f64>() / rows.len() as f64
        };
        (rate(&|group| group == k) - rate(&|_| true)).abs()
    };
    let mut rng = Rng::new(3, Purpose::Data);
    let mut ev = Evaluator::new(&problem, 0, 0.0);
    for _ in 0..20 {
        let x = point(1.0, &mut rng);
        let mut order = [0, 1, 2].map(|k| (k, gap(k, &x)));
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let cuts = cuts(&mut ev, &x, &Draw::full(), 5);
        assert_eq!(cuts.len(), order.iter().filter(|o| o.1 >= 0.5 * order[0].1).count());
        // The three sum to zero, so that the second is at least half of the first.
        assert!(cuts.len() >= 2);
        for ((value, row), (k, want)) in cuts.iter().zip(order) {
            assert!((value - want).abs() < 1e-14);
            for i in 0..COLS {
                let (mut up, mut down) = (x.clone(), x.clone());
                up[i] += 1e-6;
                down[i] -= 1e-6;
                assert!(((gap(k, &up) - gap(k, &down)) / 2e-6 - row[i]).abs() < 1e-8);
            }
        }
    }
}

#[test]
fn every_cut_counts_as_one_subgradient() {
    let problem = problem("0.1 * hinge + roc_gap(thresholds = 60, low = -4, high = 4)", 2, false);
    let mut ev = Evaluator::new(&problem, 7, 0.0);
    let x = [0.8, -0.3, 0.5, 0.2];
    let full = cuts(&mut ev, &x, &Draw::full(), 3).len() as u64;
    assert_eq!(full, 3);
    // The hinge loss reads its half of the 120 rows, the groups of 30 rows each the other.
    let counts = ev.counts().clone();
    assert_eq!((counts.objective_subgradients.calls, counts.objective_subgradients.samples), (full, full * 120));
    assert_eq!(counts.samples(), full * 120);
    assert_eq!(ev.passes().total(), full as f64);

    let mut draw = Draw::full();
    ev.sample(&mut draw, 10, Replacement::Without);
    let batch = cuts(&mut ev, &x, &draw, 4).len() as u64;
    let after = ev.counts().objective_subgradients;
    assert_eq!((after.calls, after.samples), (full + batch, full * 120 + batch * 30));
    assert_eq!(cuts(&mut ev, &x, &draw, 1).len(), 1, "no more than there is room for");
}

#[test]
fn the_regularised_view_adds_its_square_to_every_cut() {
    let problem = problem("roc_gap(thresholds = 60, low = -4, high = 4)", 2, true);
    let (x, centre, rho_f) = ([0.8, -0.3, 0.5, 0.2], [0.1, 0.4, -0.2, 0.0], 3.0);
    let mut ev = Evaluator::new(&problem, 0, 0.0);
    let plain = cuts(&mut ev, &x, &Draw::full(), 5);
    let mut work = vec![];
    let mut view = Proximal { inner: &mut ev, centre: &centre, rho_f, rho_g: 2.0, slack: 0.1, work: &mut work };
    let mut grad = vec![0.0; COLS];
    let f = view.objective_grad(&x, &Draw::full(), &mut grad).unwrap();
    let regularised = cuts(&mut view, &x, &Draw::full(), 5);
    assert!(plain.len() > 2 && plain.len() == regularised.len());
    assert_eq!(regularised[0], (f, grad));
    // By hand: 0.49 + 0.49 + 0.49 + 0.04 = 1.51.
    for ((value, row), (whole, slope)) in plain.iter().zip(&regularised) {
        assert!((whole - value - 0.5 * rho_f * 1.51).abs() < 1e-14);
        for i in 0..COLS {
            assert!((slope[i] - row[i] - rho_f * (x[i] - centre[i])).abs() < 1e-14);
        }
    }
}

#[test]
fn no_second_cut_where_there_is_nothing_to_choose() {
    for (objective, groups) in [
        ("hinge + 0.1 * l2", 2),
        ("demographic_parity", 2),
        ("roc_gap(thresholds = 1, low = 0, high = 0)", 2),
        ("roc_gap(thresholds = 5, low = 1, high = 1)", 2),
        // Two maxima in one sum.
        ("roc_gap(thresholds = 60, low = -4, high = 4) + demographic_parity", 3),
    ] {
        let problem = problem(objective, groups, false);
        assert_eq!(cuts(&mut Evaluator::new(&problem, 0, 0.0), &[0.8, -0.3, 0.5, 0.2], &Draw::full(), 4).len(), 1, "{objective}");
    }
    // All scores are equal: no gap, no direction.
    let problem = problem("roc_gap(thresholds = 60, low = -4, high = 4)", 2, false);
    assert_eq!(cuts(&mut Evaluator::new(&problem, 0, 0.0), &[0.0; COLS], &Draw::full(), 4), [(0.0, vec![0.0; COLS])]);
}

#[test]
fn an_objective_without_pieces_gives_one_cut() {
    let problem = crate::common::hill();
    let mut ev = Evaluator::new(&problem, 0, 0.0);
    let (mut values, mut rows) = ([9.0; 3], [9.0; 3]);
    assert_eq!(ev.objective_cuts(&[2.0], &Draw::full(), &mut values, &mut rows).unwrap(), 1);
    assert_eq!((values, rows), ([-2.0, 9.0, 9.0], [-2.0, 9.0, 9.0]), "what is not filled is not touched");
    assert_eq!(ev.counts().objective_subgradients.calls, 1);
    assert_eq!(ev.counts().samples(), 1);

    let mut work = vec![];
    let mut view = Proximal { inner: &mut ev, centre: &[1.0], rho_f: 4.0, rho_g: 0.0, slack: 0.0, work: &mut work };
    assert_eq!(view.objective_cuts(&[2.0], &Draw::full(), &mut values, &mut rows).unwrap(), 1);
    assert_eq!((values, rows), ([0.0, 9.0, 9.0], [2.0, 9.0, 9.0]));

    let none = ev.objective_cuts(&[2.0], &Draw::full(), &mut [], &mut rows).unwrap_err();
    assert!(none.to_string().contains("0 cuts"), "{none}");
}
