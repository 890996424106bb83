//! Search over the intercept against brute force, the rule that decides on a shift, and a model that misses its bound.

use thalweg::learn::intercept::{self, Cut, Gain, Reason, Search};
use thalweg::learn::{Builder, Data, Enforce, FitOptions, Groups, Learning, Split, fit};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{At, Description, Draw, Pick, Values, Warm};
use thalweg::run::Budget;
use thalweg::sets::Ball;

const FEASIBILITY: f64 = 1e-6;

fn build(data: Data, constraints: &[String], split: Split) -> thalweg::Result<Learning> {
    let builder = Builder::new(data).split(split).intercept(true).minimize("logistic".parse()?);
    constraints.iter().try_fold(builder, |b, c| Ok(b.subject_to(c.parse()?)))?.build()
}

/// Few rows with coarse values, so that scores tie and cells of group and label are empty.
fn random_data(rng: &mut Rng, groups: u32, weighted: bool) -> Data {
    let rows = 12 + rng.below(50);
    let coarse = |rng: &mut Rng| (rng.below(9) as f64 - 4.0) / 2.0;
    let values: Vec<f64> = (0..2 * rows).map(|_| coarse(rng)).collect();
    let labels = (0..rows).map(|i| if values[2 * i] + coarse(rng) > 0.0 { 1.0 } else { -1.0 }).collect();
    let of_row = (0..rows).map(|_| rng.below(groups as usize) as u32).collect();
    Data {
        features: Matrix::dense(rows, 2, values).unwrap(),
        labels,
        groups: Some(Groups { names: (0..groups).map(|k| format!("group {k}")).collect(), of_row }),
        // Some rows have no weight.
        weights: weighted.then(|| (0..rows).map(|_| rng.below(4) as f64 * (0.5 + rng.uniform())).collect()),
    }
}

fn with_intercept(x: &[f64], intercept: f64) -> Vec<f64> {
    let mut y = x.to_vec();
    *y.last_mut().unwrap() = intercept;
    y
}

/// Left-hand sides with 0/1 rates, or the value where there are none.
fn left(problem: &Learning, x: &[f64]) -> Vec<f64> {
    let mut values = vec![0.0; problem.num_constraints()];
    let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
    problem.constraint_values(at, Pick::All, &mut values, &mut problem.scratch()).unwrap();
    let measured = problem.measured(x).unwrap();
    (0..values.len()).map(|j| measured[j].unwrap_or(values[j] + problem.bound(j))).collect()
}

/// Number of rows of losses; the others are those of gaps.
fn losses(problem: &Learning, split: Split) -> usize {
    let rows = problem.data().labels.len();
    if split == Split::Shared { rows } else { 2 * rows / 3 }
}

/// Accuracy gained by `y` over `x` and its standard error, by their definitions.
fn naive_gain(problem: &Learning, rows: usize, x: &[f64], y: &[f64]) -> (f64, Gain) {
    let (before, after) = (problem.scores(x).unwrap(), problem.scores(y).unwrap());
    let data = problem.data();
    let wrong = |scores: &[f64], i: usize| if (scores[i] > 0.0) == (data.labels[i] > 0.0) { 0.0 } else { 1.0 };
    let weights: Vec<f64> = (0..rows).map(|i| data.weights.as_ref().map_or(1.0, |w| w[i])).collect();
    let total: f64 = weights.iter().sum();
    let mean = |f: &dyn Fn(usize) -> f64| (0..rows).map(|i| weights[i] / total * f(i)).sum::<f64>();
    let accuracy = 1.0 - mean(&|i| wrong(&after, i));
    let gain = mean(&|i| wrong(&before, i) - wrong(&after, i));
    let deviations = (0..rows).map(|i| (weights[i] / total * (wrong(&before, i) - wrong(&after, i) - gain)).powi(2));
    let standard_error = deviations.sum::<f64>().sqrt();
    let changed = (0..rows).filter(|&i| weights[i] > 0.0 && (before[i] > 0.0) != (after[i] > 0.0)).count();
    (accuracy, Gain { accuracy: gain, standard_error, changed })
}

struct Naive {
    cuts: usize,
    /// Number of runs of neighbouring midpoints that satisfy the bounds.
    runs: usize,
    /// Shift and accuracy of every cut that satisfies the bounds.
    satisfying: Vec<(f64, f64)>,
}

/// Measures every midpoint, half of the spread beyond the outermost scores, and the unshifted model (the last entry).
fn brute_force(problem: &Learning, rows: usize, x: &[f64], bounds: &[f64]) -> Naive {
    let weights = problem.data().weights.as_ref();
    let mut scores = problem.scores(&with_intercept(x, 0.0)).unwrap();
    let mut i = 0;
    scores.retain(|_| {
        i += 1;
        weights.is_none_or(|w| w[i - 1] > 0.0)
    });
    scores.sort_by(|a, b| b.total_cmp(a));
    scores.dedup();
    let spread = scores[0] - scores[scores.len() - 1];
    let margin = if spread > 0.0 { 0.5 * spread } else { 1.0 };
    let mut cuts = vec![-(scores[0] + margin)];
    cuts.extend(scores.windows(2).map(|pair| -(pair[0] + pair[1]) / 2.0));
    cuts.push(margin - scores[scores.len() - 1]);
    let old = *x.last().unwrap();
    let mut naive = Naive { cuts: cuts.len(), runs: 0, satisfying: vec![] };
    let mut previous = false;
    for (number, intercept) in cuts.into_iter().chain([old]).enumerate() {
        let y = with_intercept(x, intercept);
        let satisfied = left(problem, &y).iter().zip(bounds).all(|(left, bound)| *left <= bound + FEASIBILITY);
        if satisfied {
            let (accuracy, _) = naive_gain(problem, rows, x, &y);
            naive.satisfying.push((intercept - old, accuracy));
            naive.runs += usize::from(number < naive.cuts && !previous);
        }
        previous = satisfied;
    }
    naive
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[track_caller]
fn is_measured(problem: &Learning, rows: usize, x: &[f64], bounds: &[f64], cut: &Cut) {
    let y = cut.apply(x);
    assert!(cut.left.iter().zip(left(problem, &y)).all(|(a, b)| close(*a, b)), "{cut:?}");
    assert_eq!(cut.satisfied, cut.left.iter().zip(bounds).all(|(left, bound)| *left <= bound + FEASIBILITY));
    let (accuracy, gain) = naive_gain(problem, rows, x, &y);
    assert!(close(cut.accuracy, accuracy) && close(cut.gain.accuracy, gain.accuracy), "{cut:?}, {accuracy}, {gain:?}");
    assert!(close(cut.gain.standard_error, gain.standard_error) && cut.gain.changed == gain.changed, "{cut:?}, {gain:?}");
    assert_eq!(intercept::compare(problem, x, &y).unwrap(), cut.gain);
}

/// Constraints of rates alone; a bound follows each.
const FAMILIES: [&[&str]; 8] = [
    &["demographic_parity"],
    &["equal_opportunity"],
    &["equalised_odds"],
    &["false_positive_rate", "false_negative_rate"],
    &["demographic_parity", "false_positive_rate"],
    &["demographic_parity + 0.5 * false_negative_rate"],
    &["0.2 * l2 + demographic_parity", "equalised_odds"],
    &["roc_gap(thresholds = 5, low = -1, high = 1)"],
];

#[test]
fn the_search_finds_what_brute_force_finds() {
    let mut rng = Rng::new(3, Purpose::Data);
    let (mut searched, mut found, mut split_up, mut shifted) = ([0; FAMILIES.len()], 0, 0, 0);
    for trial in 0..1200 {
        let family = trial % FAMILIES.len();
        let data = random_data(&mut rng, 2 + (trial / 8) as u32 % 4, trial % 3 == 0);
        let split = if trial % 5 == 0 { Split::Ordered } else { Split::Shared };
        let bounds: Vec<f64> = FAMILIES[family].iter().map(|_| 0.6 * rng.uniform()).collect();
        // Bounds of the problem itself are those of a later round of training.
        let constraints: Vec<String> = FAMILIES[family].iter().map(|c| format!("{c} <= 0.01")).collect();
        // Some terms need rows in every cell.
        let Ok(problem) = build(data, &constraints, split) else { continue };
        let x: Vec<f64> = (0..3).map(|_| (rng.below(7) as f64 - 3.0) / 4.0).collect();
        let Search { unshifted, best, nearest, best_over_nearest, accuracy_counts: _, satisfying, cuts, evaluated } =
            intercept::search(&problem, &x, &bounds, FEASIBILITY).unwrap().unwrap();
        searched[family] += 1;
        let rows = losses(&problem, split);
        let naive = brute_force(&problem, rows, &x, &bounds);
        assert_eq!((cuts, evaluated), (naive.cuts, naive.cuts), "trial {trial}");
        is_measured(&problem, rows, &x, &bounds, &unshifted);
        assert_eq!(unshifted.shift, 0.0);

        assert_eq!(satisfying.len(), naive.runs, "trial {trial}: {satisfying:?}");
        assert!(satisfying.is_sorted_by(|a, b| a[1] <= b[0]) && satisfying.iter().all(|[low, high]| low < high));
        for (shift, _) in naive.satisfying.iter().filter(|s| s.0 != 0.0) {
            assert!(satisfying.iter().any(|[low, high]| low < shift && shift < high), "trial {trial}: {shift}, {satisfying:?}");
        }
        split_up += usize::from(satisfying.len() > 1);

        let (Some(best), Some(nearest)) = (best, nearest) else {
            assert!(naive.satisfying.is_empty(), "trial {trial}: {:?}", naive.satisfying);
            assert!(satisfying.is_empty() && best_over_nearest.is_none());
            continue;
        };
        found += 1;
        shifted += usize::from(nearest.shift != 0.0);
        for cut in [&best, &nearest] {
            is_measured(&problem, rows, &x, &bounds, cut);
            assert!(cut.satisfied);
        }
        let accuracy = naive.satisfying.iter().map(|s| s.1).fold(0.0, f64::max);
        assert!(close(best.accuracy, accuracy), "trial {trial}: {best:?}, {accuracy}");
        let among_best = naive.satisfying.iter().filter(|s| close(s.1, accuracy)).map(|s| s.0.abs());
        assert!(close(best.shift.abs(), among_best.fold(f64::INFINITY, f64::min)), "trial {trial}");
        let least = naive.satisfying.iter().map(|s| s.0.abs()).fold(f64::INFINITY, f64::min);
        assert!(close(nearest.shift.abs(), least), "trial {trial}: {nearest:?}, {least}");
        let between = best_over_nearest.unwrap();
        assert_eq!(between, intercept::compare(&problem, &nearest.apply(&x), &best.apply(&x)).unwrap());
        // No score is close to a returned cut.
        if best.shift != 0.0 {
            assert!(
                problem
                    .scores(&best.apply(&x))
                    .unwrap()
                    .iter()
                    .zip(0..)
                    .all(|(score, i)| { score.abs() > 0.05 || problem.data().weights.as_ref().is_some_and(|w| w[i] == 0.0) })
            );
        }
    }
    assert!(searched.iter().all(|&n| n > 60), "{searched:?}");
    assert!(found > 400 && split_up > 50 && shifted > 100, "{found}, {split_up}, {shifted}");
}

/// Cuts that satisfy the bound on a rate but not the one on the loss are rejected by their measured values.
#[test]
fn other_terms_are_measured_at_the_shifted_point() {
    let mut rng = Rng::new(4, Purpose::Data);
    let (mut rejected, mut accepted) = (0, 0);
    for trial in 0..200 {
        let data = random_data(&mut rng, 2, trial % 2 == 0);
        let sum = "demographic_parity + 0.1 * hinge <= 1".to_string();
        let constraints = ["demographic_parity <= 1".into(), if trial % 4 < 2 { "logistic <= 1".into() } else { sum }];
        let Ok(problem) = build(data, &constraints, Split::Shared) else { continue };
        let x = [0.5 * rng.uniform(), 0.5 * rng.uniform(), rng.uniform()];
        let bounds = [0.3 * rng.uniform(), if trial % 4 < 2 { 0.6 + 0.2 * rng.uniform() } else { 0.1 + 0.3 * rng.uniform() }];
        let loose = intercept::search(&problem, &x, &[bounds[0], f64::INFINITY], FEASIBILITY).unwrap().unwrap();
        let found = intercept::search(&problem, &x, &bounds, FEASIBILITY).unwrap().unwrap();
        let rows = problem.data().labels.len();
        let naive = brute_force(&problem, rows, &x, &bounds);
        for cut in found.best.iter().chain(&found.nearest) {
            is_measured(&problem, rows, &x, &bounds, cut);
            assert!(cut.satisfied);
        }
        // The candidates that are tried are the nearest ones and the most accurate ones.
        if let (Some(wanted), Some(cut)) = (&loose.nearest, &found.nearest) {
            let within = naive.satisfying.iter().map(|s| s.0.abs()).fold(f64::INFINITY, f64::min);
            assert!(cut.shift.abs() >= within.min(wanted.shift.abs()) - 1e-12);
            rejected += usize::from(cut.shift != wanted.shift);
        }
        accepted += usize::from(found.best.is_some());
        assert!(found.best.is_none() || !naive.satisfying.is_empty());
        let rates_alone = brute_force(&problem, rows, &x, &[bounds[0], f64::INFINITY]);
        if rates_alone.satisfying.len() <= 8 {
            assert_eq!(found.best.is_some(), !naive.satisfying.is_empty(), "trial {trial}");
        }
    }
    assert!(rejected > 5 && accepted > 30, "{rejected}, {accepted}");
}

fn ladder(labels: &[f64], of_row: &[u32], scores: &[f64]) -> Data {
    let groups = Groups { names: vec!["a".into(), "b".into()], of_row: of_row.to_vec() };
    let features = Matrix::dense(scores.len(), 1, scores.to_vec()).unwrap();
    Data { features, labels: labels.to_vec(), groups: Some(groups), weights: None }
}

#[test]
fn the_shift_stays_in_the_domain() {
    // Every cut within the rows separates the groups; only constant predictions satisfy the bound.
    let data = ladder(&[-1.0, -1.0, 1.0, 1.0], &[0, 0, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
    let constraint = "demographic_parity <= 0.1";
    let x = [1.0, -2.4];
    let found = |domain: Ball| {
        let builder = Builder::new(data.clone()).intercept(true).minimize("logistic".parse().unwrap());
        let problem = builder.subject_to(constraint.parse().unwrap()).domain(domain).build().unwrap();
        intercept::search(&problem, &x, &[0.1], FEASIBILITY).unwrap().unwrap()
    };
    let all = found(Ball::new(9.0).unwrap());
    assert_eq!(all.cuts, 5);
    // Half of the spread beyond the outermost scores: -1 + 1.5 and -4 - 1.5.
    assert_eq!(all.nearest.as_ref().map(|cut| cut.intercept), Some(0.5));
    assert!(close(all.satisfying[0][1], -1.6) && close(all.satisfying[1][0], 1.4) && all.satisfying.len() == 2);
    // At a radius of 3 the cuts at -3.5 and -5.5 are outside.
    let near = found(Ball::new(3.0).unwrap());
    assert_eq!((near.cuts, near.nearest.map(|cut| cut.intercept)), (3, Some(0.5)));
    let none = found(Ball::around(x.to_vec(), 1.0).unwrap());
    assert_eq!((none.cuts, none.best.is_some()), (2, false));
    assert_eq!(intercept::choose(&none, false).reason, Reason::NothingSatisfies);
}

#[test]
fn nothing_is_searched_without_an_intercept_rates_or_numbers() {
    let data = ladder(&[-1.0, 1.0], &[0, 1], &[1.0, 2.0]);
    let builder = || Builder::new(data.clone()).minimize("logistic".parse().unwrap());
    let parity = || "demographic_parity <= 0.1".parse().unwrap();
    let without = builder().subject_to(parity()).build().unwrap();
    assert_eq!(intercept::search(&without, &[1.0], &[0.1], FEASIBILITY).unwrap(), None);
    let loss = builder().intercept(true).subject_to("hinge <= 1".parse().unwrap()).build().unwrap();
    assert_eq!(intercept::search(&loss, &[1.0, 0.0], &[1.0], FEASIBILITY).unwrap(), None);
    let problem = builder().intercept(true).subject_to(parity()).build().unwrap();
    for x in [[f64::NAN, 0.0], [1.0, f64::INFINITY], [1e308, 0.0]] {
        assert_eq!(intercept::search(&problem, &x, &[0.1], FEASIBILITY).unwrap(), None);
    }
    assert!(intercept::search(&problem, &[1.0, 0.0], &[], FEASIBILITY).is_err());
    assert!(intercept::search(&problem, &[1.0], &[0.1], FEASIBILITY).is_err());
}

/// Scores that differ by rounding alone are not separated.
#[test]
fn scores_that_differ_by_rounding_are_one_cut() {
    let data = ladder(&[-1.0, 1.0, 1.0], &[0, 1, 0], &[1.0, 1.0 + 4.0 * f64::EPSILON, 3.0]);
    let problem = build(data, &["demographic_parity <= 0.1".into()], Split::Shared).unwrap();
    assert_eq!(intercept::search(&problem, &[1.0, 0.0], &[1.0], FEASIBILITY).unwrap().unwrap().cuts, 3);
}

fn cut(shift: f64, satisfied: bool, gain: f64, standard_error: f64) -> Cut {
    let gain = Gain { accuracy: gain, standard_error, changed: 10 };
    Cut { intercept: shift, shift, accuracy: 0.8 + gain.accuracy, positives: 0.5, left: vec![0.1], satisfied, gain }
}

#[test]
fn a_shift_is_used_if_nothing_else_satisfies_or_if_the_gain_exceeds_its_error() {
    let search = |unshifted: bool, gain: f64, between: f64| Search {
        unshifted: cut(0.0, unshifted, 0.0, 0.0),
        best: Some(cut(0.4, true, gain, 0.002)),
        nearest: Some(if unshifted { cut(0.0, true, 0.0, 0.0) } else { cut(0.1, true, -0.01, 0.002) }),
        best_over_nearest: Some(Gain { accuracy: between, standard_error: 0.003, changed: 9 }),
        accuracy_counts: true,
        satisfying: vec![],
        cuts: 9,
        evaluated: 9,
    };
    let decide = |search: &Search, before| {
        let decision = intercept::choose(search, before);
        (decision.cut.map(|cut| cut.shift), decision.reason)
    };
    for before in [false, true] {
        assert_eq!(decide(&search(true, 0.0041, 0.0), before), (Some(0.4), Reason::GainExceedsError));
        assert_eq!(decide(&search(true, 0.004, 0.0), before), (None, Reason::GainWithinError));
    }
    assert_eq!(decide(&search(false, 0.001, 0.0061), false), (Some(0.4), Reason::MostAccurateSatisfying));
    assert_eq!(decide(&search(false, 0.001, 0.006), false), (Some(0.1), Reason::NearestSatisfying));
    assert_eq!(decide(&search(false, 0.003, 0.0061), true), (None, Reason::GainWithinError));
    // Class weights give errors other prices.
    let other = |unshifted: bool| Search { accuracy_counts: false, ..search(unshifted, 0.1, 0.1) };
    assert_eq!(decide(&other(true), true), (None, Reason::OtherObjective));
    assert_eq!(decide(&other(false), false), (Some(0.1), Reason::NearestSatisfying));
    let nothing = Search { best: None, nearest: None, best_over_nearest: None, ..search(false, 0.0, 0.0) };
    assert_eq!(decide(&nothing, false), (None, Reason::NothingSatisfies));
}

/// 6,000 rows with a group of 3, whose rate is a multiple of 1/3. Its surrogate rate says little about it.
fn credit() -> Learning {
    let mut rng = Rng::new(1, Purpose::Data);
    let (mut values, mut labels, mut of_row) = (vec![], vec![], vec![]);
    for i in 0..6000 {
        let mut z = [0.0; 6];
        rng.normals(&mut z);
        let group = if i < 3 { 2 } else { u32::from(rng.uniform() < 0.4) };
        let risk = z[0] + 0.6 * z[1] - 0.4 * z[2] + 0.3 * f64::from(group) - 1.2 + 1.5 * z[5];
        labels.push(if risk > 0.0 { 1.0 } else { -1.0 });
        values.extend([z[0] + 0.5 * f64::from(group), z[1], z[2], z[3], f64::from(u8::from(group == 1)), z[4]]);
        of_row.push(group);
    }
    let names = ["graduate", "university", "unknown"].map(String::from).to_vec();
    let features = Matrix::dense(6000, 6, values).unwrap();
    let data = Data { features, labels, groups: Some(Groups { names, of_row }), weights: None };
    build(data, &["demographic_parity <= 0.02".into()], Split::Shared).unwrap()
}

#[test]
fn a_shift_satisfies_the_bound_that_training_missed() {
    let mut problem = credit();
    // Rounds that tighten the bound do not make up for it either; without them the model does not depend on their rules.
    let options = FitOptions { budget: Budget::iterations(300), enforce: Enforce::Surrogate, ..FitOptions::default() };
    let fitted = fit(&mut problem, &[0.0; 7], &options, &mut ()).unwrap();
    let x = &fitted.point.x;
    let missed = problem.measured(x).unwrap()[0].unwrap();
    let found = intercept::search(&problem, x, &[0.02], FEASIBILITY).unwrap().unwrap();
    assert!(fitted.feasible && missed > 0.03 && !found.unshifted.satisfied, "{missed}");
    let decision = intercept::choose(&found, false);
    let cut = decision.cut.unwrap();
    assert!(matches!(decision.reason, Reason::NearestSatisfying | Reason::MostAccurateSatisfying));
    let measured = problem.measured(&cut.apply(x)).unwrap()[0].unwrap();
    assert!(cut.shift != 0.0 && measured <= 0.02 + FEASIBILITY, "{cut:?}");
    // Not by predicting the same of everyone.
    assert!(cut.positives > 0.01 && cut.positives < 0.99, "{cut:?}");
}
