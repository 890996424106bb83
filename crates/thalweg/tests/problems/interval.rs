//! Intervals of constraints on held-out rows: against values worked by hand, against plain formulas, and by how often they hold
//! the truth where it is known.

use thalweg::certify::{Counts, clopper_pearson, difference_at_most};
use thalweg::learn::Coverage::{AllLines, EachLine};
use thalweg::learn::{Data, Groups, Interval, Learning, MeasuredInterval, intervals};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};

/// One column, so that at the point 1 the scores are these.
fn rows(scores: Vec<f64>, of_row: Vec<u32>, weights: Option<Vec<f64>>) -> Data {
    let n = scores.len();
    let groups = of_row.iter().max().map_or(0, |k| k + 1);
    Data {
        features: Matrix::dense(n, 1, scores).unwrap(),
        labels: (0..n).map(|i| if i % 3 == 0 { -1.0 } else { 1.0 }).collect(),
        groups: Some(Groups { names: (0..groups).map(|k| format!("group {k}")).collect(), of_row }),
        weights,
    }
}

fn problem(data: Data, constraints: &[&str]) -> Learning {
    let start = Learning::on(data).minimize("l2".parse().unwrap());
    constraints.iter().fold(start, |b, c| b.subject_to(c.parse().unwrap())).build().unwrap()
}

fn one(data: Data, constraint: &str, confidence: f64) -> Interval {
    intervals(&problem(data, &[constraint]), &[1.0], confidence, EachLine).unwrap().remove(0)
}

fn ends(interval: &Interval) -> [f64; 2] {
    [interval.low.unwrap(), interval.high.unwrap()]
}

fn measured_ends(interval: &Interval) -> [f64; 2] {
    let MeasuredInterval { low, high, .. } = interval.measured.unwrap();
    [low.unwrap(), high.unwrap()]
}

fn close(a: [f64; 2], b: [f64; 2]) -> bool {
    (a[0] - b[0]).abs() < 1e-12 && (a[1] - b[1]).abs() < 1e-12
}

const PARITY: &str = "demographic_parity <= 0.3";
const ROC: &str = "roc_gap(thresholds = 40, low = -3, high = 3) <= 0.3";

/// Scores of group k: the entries of `SCORES` with the probabilities `CHANCES[k]`.
const SCORES: [f64; 4] = [-2.0, -0.4, 0.7, 2.5];
const CHANCES: [[f64; 4]; 3] = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.3, 0.3, 0.3], [0.25, 0.25, 0.25, 0.25]];

fn drawn(n: usize, groups: u32, rng: &mut Rng) -> Data {
    let of_row: Vec<u32> = (0..n as u32).map(|i| i % groups).collect();
    let mut draw = |k: u32| {
        let mut u = rng.uniform();
        let chance = |j: &usize| {
            u -= CHANCES[k as usize][*j];
            u < 0.0
        };
        SCORES[(0..3).find(chance).unwrap_or(3)]
    };
    let scores = of_row.iter().map(|&k| draw(k)).collect();
    rows(scores, of_row, None)
}

fn soft(score: f64, threshold: f64) -> f64 {
    1.0 / (1.0 + (threshold - score).exp())
}

fn hard(score: f64, threshold: f64) -> f64 {
    f64::from(u8::from(score > threshold))
}

/// The true gap over the thresholds between equally large groups.
fn truth(groups: usize, thresholds: &[f64], value: fn(f64, f64) -> f64) -> f64 {
    let gap = |&t: &f64| {
        let rates: Vec<f64> =
            CHANCES[..groups].iter().map(|c| c.iter().zip(SCORES).map(|(c, s)| c * value(s, t)).sum()).collect();
        rates.iter().copied().fold(0.0, f64::max) - rates.iter().copied().fold(1.0, f64::min)
    };
    thresholds.iter().map(gap).fold(0.0, f64::max)
}

fn grid() -> Vec<f64> {
    (0..40).map(|j| -3.0 + 6.0 * f64::from(j) / 39.0).collect()
}

/// `sqrt(2 V L / n) + 7 range L / (3 (n - 1))`, once more.
fn off(values: &[f64], range: f64, delta: f64) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let log = (4.0 / delta).ln();
    (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0))
}

#[test]
fn two_groups_have_the_interval_worked_by_hand() {
    // Scores of ±ln 3 have sigmoids 3/4 and 1/4; 150 of 200 and 50 of 200 are positive. Rates 0.625 and 0.375, variance
    // 0.25 * 0.1875 * 200 / 199. Each end of each group fails with probability 0.025, ln(2 / 0.025) = ln 80: the means are off by
    // at most 0.0968161822674. The measured rates are 0.75 and 0.25.
    let positive = |i: u32| if i.is_multiple_of(2) { i / 2 < 150 } else { i / 2 < 50 };
    let scores: Vec<f64> = (0..400).map(|i| if positive(i) { 3_f64.ln() } else { -(3_f64.ln()) }).collect();
    let parity = one(rows(scores, (0..400).map(|i| i % 2).collect(), None), PARITY, 0.9);
    assert!((parity.value - 0.25).abs() < 1e-14);
    assert!(close(ends(&parity), [0.25 - 0.193_632_364_534_815, 0.25 + 0.193_632_364_534_815]), "{parity:?}");
    assert_eq!(parity.measured.unwrap().value, 0.5);
    let [a, b] = [150, 50].map(|successes| Counts { successes, trials: 200 });
    let exact = [-difference_at_most(b, a, 0.95).unwrap(), difference_at_most(a, b, 0.95).unwrap()];
    assert!(close(measured_ends(&parity), exact) && exact[1] - exact[0] < 0.16, "{parity:?} {exact:?}");
    assert_eq!((parity.name.as_str(), parity.bound, parity.confidence), ("demographic_parity", 0.3, 0.9));
    assert_eq!((parity.rows, parity.note), (vec![200, 200], None));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let mut rng = Rng::new(17, Purpose::Data);
    for groups in [2, 3] {
        let grid = grid();
        let want =
            [truth(groups, &[0.0], soft), truth(groups, &[0.0], hard), truth(groups, &grid, soft), truth(groups, &grid, hard)];
        let mut held = [0; 4];
        for _ in 0..200 {
            let problem = problem(drawn(300, groups as u32, &mut rng), &[PARITY, ROC]);
            let found = intervals(&problem, &[1.0], 0.9, EachLine).unwrap();
            let all = found.iter().flat_map(|i| [ends(i), measured_ends(i)]);
            for (held, ([low, high], want)) in held.iter_mut().zip(all.zip(want)) {
                assert!((0.0..=1.0).contains(&low) && low <= high && high <= 1.0);
                *held += usize::from(low <= want && want <= high);
            }
        }
        assert!(held.iter().all(|&h| h >= 180), "{groups} groups: {held:?}");
        let found = intervals(&problem(drawn(2000, groups as u32, &mut rng), &[PARITY, ROC]), &[1.0], 0.9, EachLine).unwrap();
        for [low, high] in found.iter().flat_map(|i| [ends(i), measured_ends(i)]) {
            assert!(high - low < 0.3, "{groups} groups: {low} to {high}");
        }
    }
}

/// Rates among rows of one label, the larger of two gaps, gaps to the overall rate, and sums with factors, from groups of 20 rows on.
/// Labels do not depend on the scores, and every group has the same share of each label.
#[test]
fn intervals_of_every_kind_hold_the_truth_as_often_as_they_say() {
    let mut rng = Rng::new(23, Purpose::Data);
    let kinds = [
        "false_positive_rate <= 0.5",
        "false_negative_rate <= 0.5",
        "equal_opportunity <= 0.5",
        "equalised_odds <= 0.5",
        "demographic_parity(compare = 'to-overall') <= 0.5",
        "0.5 * demographic_parity + false_positive_rate + 0.01 * l2 <= 2",
    ];
    let rates = |value: fn(f64, f64) -> f64| {
        [0, 1].map(|k: usize| CHANCES[k].iter().zip(SCORES).map(|(c, s)| c * value(s, 0.0)).sum::<f64>())
    };
    let wanted = |value: fn(f64, f64) -> f64| {
        let [a, b] = rates(value);
        let (mean, gap) = (0.5 * (a + b), (a - b).abs());
        [mean, 1.0 - mean, gap, gap, 0.5 * gap, 0.5 * gap + mean + 0.01]
    };
    let want: Vec<f64> = wanted(soft).into_iter().zip(wanted(hard)).flat_map(|(soft, hard)| [soft, hard]).collect();
    let draws = 300;
    for rows in [60, 600] {
        let (mut held, mut widths) = (vec![0; want.len()], vec![0.0; want.len()]);
        for _ in 0..draws {
            let found = intervals(&problem(drawn(rows, 2, &mut rng), &kinds), &[1.0], 0.9, EachLine).unwrap();
            for (line, [low, high]) in found.iter().flat_map(|i| [ends(i), measured_ends(i)]).enumerate() {
                held[line] += u32::from(low <= want[line] && want[line] <= high);
                widths[line] += (high - low) / f64::from(draws);
            }
        }
        // Three standard errors below 90%.
        assert!(held.iter().all(|&h| h >= 254), "{rows} rows: {held:?}");
        assert!(rows == 60 || widths.iter().all(|&w| w < 0.6), "{rows} rows: {widths:?}");
    }
}

#[test]
fn widths_shrink_with_the_root_of_the_number_of_rows() {
    // The same rows four times over: only their number changes.
    let base = drawn(20_000, 2, &mut Rng::new(3, Purpose::Data));
    let four = base.select(&(0..80_000).map(|i| i % 20_000).collect::<Vec<_>>());
    let width = |[low, high]: [f64; 2]| high - low;
    for constraint in [PARITY, ROC] {
        let (few, many) = (one(base.clone(), constraint, 0.95), one(four.clone(), constraint, 0.95));
        for (few, many) in [(ends(&few), ends(&many)), (measured_ends(&few), measured_ends(&many))] {
            let ratio = width(few) / width(many);
            // The first part of the bound by 2, the small second one by 4.
            assert!((1.99..2.3).contains(&ratio), "{constraint}: {ratio}");
        }
    }
    let sure = one(base.clone(), PARITY, 0.999);
    assert!(width(ends(&sure)) > width(ends(&one(base, PARITY, 0.9))));
}

#[test]
fn a_surrogate_over_thresholds_has_the_ends_of_plain_formulas() {
    let data = drawn(4000, 2, &mut Rng::new(8, Purpose::Data));
    let scores = |k: usize| (0..2000).map(|i| data.features.row_dot(2 * i + k, &[1.0])).collect::<Vec<_>>();
    let of = [scores(0), scores(1)];
    // One side fails with probability 0.05. The upper end of every threshold may use all of it, half for each group. Of the lower
    // end, half is for the band over all thresholds, and half for 80 signed differences but one; `off` has two sides.
    let band: f64 = (0..2).map(|_| ((2.0 / 0.0125_f64).ln() / 4000.0).sqrt()).sum();
    let (mut want, mut band_won) = ([0.0_f64; 2], false);
    for t in grid() {
        let (mut gap, mut above, mut below) = (0.0, 0.0, 0.0);
        for (scores, sign) in of.iter().zip([1.0, -1.0]) {
            let values: Vec<f64> = scores.iter().map(|&s| soft(s, t)).collect();
            gap += sign * values.iter().sum::<f64>() / 2000.0;
            above += off(&values, 1.0, 0.05);
            below += off(&values, 1.0, 0.025 / 79.0);
        }
        // Inside of [0, 1] the ends are not cut off; where they are, the gap is no candidate for the largest.
        let (one, all) = (f64::abs(gap) - below, gap.abs() - band);
        band_won |= all > one && all > want[0];
        want = [want[0].max(one).max(all), want[1].max(gap.abs() + above)];
    }
    let roc = one(data.clone(), ROC, 0.9);
    assert!(close(ends(&roc), want) && band_won, "{:?} {want:?}", ends(&roc));
    // A single threshold is a rate like any other.
    let single = one(data.clone(), "roc_gap(thresholds = 1, low = 0, high = 0) <= 0.3", 0.9);
    let parity = one(data, PARITY, 0.9);
    assert!(close(ends(&single), ends(&parity)) && close(measured_ends(&single), measured_ends(&parity)));
}

#[test]
fn measured_rates_over_thresholds_have_the_ends_of_exact_differences() {
    let data = drawn(1200, 2, &mut Rng::new(9, Purpose::Data));
    let counts = |k: usize, t: f64| {
        let above = (0..600).filter(|i| data.features.row_dot(2 * i + k, &[1.0]) > t).count();
        Counts { successes: above as u64, trials: 600 }
    };
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for t in grid() {
        for [a, b] in [[0, 1], [1, 0]] {
            high = high.max(difference_at_most(counts(a, t), counts(b, t), 0.95).unwrap());
            low = low.max(-difference_at_most(counts(b, t), counts(a, t), 1.0 - 0.05 / 79.0).unwrap());
        }
    }
    let found = measured_ends(&one(data, ROC, 0.9));
    assert!(close(found, [low, high]) && low > 0.1, "{found:?} {low} {high}");
}

#[test]
fn all_lines_together_are_wider_and_hold_together() {
    let mut rng = Rng::new(19, Purpose::Data);
    let want = [truth(2, &[0.0], soft), truth(2, &[0.0], hard), truth(2, &grid(), soft), truth(2, &grid(), hard)];
    let mut held = 0;
    for _ in 0..60 {
        let problem = problem(drawn(300, 2, &mut rng), &[PARITY, ROC, "l2 <= 4"]);
        let [each, all] = [EachLine, AllLines].map(|coverage| intervals(&problem, &[1.0], 0.8, coverage).unwrap());
        // Four lines are random; the regulariser is exact.
        let fifth = intervals(&problem, &[1.0], 0.95, EachLine).unwrap();
        for ((each, all), fifth) in each.iter().zip(&all).zip(&fifth) {
            assert!(close([all.low.unwrap(), all.high.unwrap()], ends(fifth)));
            assert!(all.low <= each.low && all.high >= each.high && all.confidence == 0.8);
        }
        let mut lines = all[..2].iter().flat_map(|i| [ends(i), measured_ends(i)]).zip(want);
        held += usize::from(lines.all(|([low, high], want)| low <= want && want <= high));
    }
    assert!(held >= 48, "{held}");
}

#[test]
fn three_groups_of_different_sizes_divide_the_error() {
    // Groups of different sizes: 0 every other row, 1 and 2 one in four.
    let mut data = drawn(6000, 3, &mut Rng::new(5, Purpose::Data));
    let of_row: Vec<u32> = (0..6000).map(|i| [0, 1, 0, 2][i % 4]).collect();
    data.groups.as_mut().unwrap().of_row.clone_from(&of_row);
    let found = one(data.clone(), "demographic_parity(compare = 'to-overall') <= 0.3", 0.95);
    let values = |k: u32| {
        let rows = (0..6000).filter(|&i| of_row[i] == k);
        rows.map(|i| soft(data.features.row_dot(i, &[1.0]), 0.0)).collect::<Vec<_>>()
    };
    let mean = |k: u32| values(k).iter().sum::<f64>() / values(k).len() as f64;
    let share = [0.5, 0.25, 0.25];
    let mut want = [0.0_f64; 2];
    for row in 0..3 {
        let coefficient = |k: u32| f64::from(u8::from(k == row)) - share[k as usize];
        let gap: f64 = (0..3).map(|k| coefficient(k) * mean(k)).sum();
        // An error divided equally; by the sizes of the groups, the ends are closer.
        let slack = |error: f64| (0..3).map(|k| coefficient(k).abs() * off(&values(k), 1.0, 2.0 * error / 3.0)).sum::<f64>();
        want = [want[0].max(gap.abs() - slack(0.025 / 5.0)), want[1].max(gap.abs() + slack(0.025))];
    }
    let nearly = |[low, high]: [f64; 2], want: [f64; 2]| {
        let length = want[1] - want[0];
        let inside = |end: f64| end >= want[0] - 1e-9 && end <= want[1] + 1e-9;
        inside(low) && inside(high) && low < want[0] + 0.05 * length && high > want[1] - 0.05 * length
    };
    assert!(nearly(ends(&found), want), "{:?} {want:?}", ends(&found));
    assert_eq!(found.rows, [3000, 1500, 1500]);
    assert_eq!(found.note.unwrap(), "the groups' shares in the overall rate are taken as fixed");

    // Against each other: every pair.
    let found = one(data.clone(), PARITY, 0.95);
    let mut want = [0.0_f64; 2];
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let gap = (mean(a) - mean(b)).abs();
        let slack = |error: f64| [a, b].map(|k| off(&values(k), 1.0, error)).iter().sum::<f64>();
        want = [want[0].max(gap - slack(0.025 / 5.0)), want[1].max(gap + slack(0.025))];
    }
    assert!(nearly(ends(&found), want), "{:?} {want:?}", ends(&found));
    assert_eq!(found.note, None);
}

#[test]
fn weights_are_part_of_the_values() {
    let data = drawn(6000, 2, &mut Rng::new(6, Purpose::Data));
    let weigh = |weight: &dyn Fn(usize) -> f64| Data { weights: Some((0..6000).map(weight).collect()), ..data.clone() };
    let plain = one(data.clone(), PARITY, 0.95);

    // Weights 1 and 3, in both groups alike; scaled to mean 1 they are 0.5 and 1.5.
    let weight = |i: usize| if (i / 2).is_multiple_of(2) { 1.0 } else { 3.0 };
    let weighted = one(weigh(&weight), PARITY, 0.95);
    let mut want = [weighted.value; 2];
    for k in 0..2 {
        let rows = (0..6000).filter(|i| i % 2 == k);
        let values: Vec<f64> = rows.map(|i| 0.5 * weight(i) * soft(data.features.row_dot(i, &[1.0]), 0.0)).collect();
        let slack = off(&values, 1.5, 0.025);
        want = [want[0] - slack, want[1] + slack];
    }
    assert!(close(ends(&weighted), want), "{:?} {want:?}", ends(&weighted));
    assert_eq!(weighted.note.as_deref(), Some("row weights are taken as fixed"));
    assert!(ends(&weighted)[1] - ends(&weighted)[0] > ends(&plain)[1] - ends(&plain)[0]);
    let roc = one(weigh(&weight), ROC, 0.95);
    assert!(roc.low.unwrap() <= roc.value && roc.value <= roc.high.unwrap() && roc.high.unwrap() < 0.6);

    // Equal weights are none, and rows of weight 0 are absent.
    for constraint in [PARITY, ROC] {
        let plain = one(data.clone(), constraint, 0.95);
        let same = one(weigh(&|_| 0.3), constraint, 0.95);
        assert!(close(ends(&same), ends(&plain)) && close(measured_ends(&same), measured_ends(&plain)));
        assert_eq!(same.note, None);
        let some = one(weigh(&|i| f64::from(u8::from(i < 4000))), constraint, 0.95);
        let fewer = one(data.select(&(0..4000).collect::<Vec<_>>()), constraint, 0.95);
        assert!(close(ends(&some), ends(&fewer)) && close(measured_ends(&some), measured_ends(&fewer)));
        assert_eq!(some.rows, [2000, 2000]);
    }
}

#[test]
fn weighted_intervals_hold_the_truth() {
    let mut rng = Rng::new(23, Purpose::Data);
    let mut held = [0; 2];
    let want = [truth(2, &[0.0], soft), truth(2, &grid(), hard)];
    for _ in 0..200 {
        let mut data = drawn(300, 2, &mut rng);
        data.weights = Some((0..300).map(|_| 0.2 + rng.uniform()).collect());
        let found = intervals(&problem(data, &[PARITY, ROC]), &[1.0], 0.9, EachLine).unwrap();
        for (held, ([low, high], want)) in held.iter_mut().zip([ends(&found[0]), measured_ends(&found[1])].into_iter().zip(want))
        {
            *held += usize::from(low <= want && want <= high);
        }
    }
    assert!(held.iter().all(|&h| h >= 180), "{held:?}");
}

#[test]
fn regularisers_are_exact_and_sums_add_up() {
    let data = drawn(6000, 2, &mut Rng::new(7, Purpose::Data));
    let found = intervals(
        &problem(data.clone(), &["2 * demographic_parity + 0.3 * l1 <= 1", "l2 + 0.1 * scad <= 3", "equal_opportunity <= 0.4"]),
        &[1.0],
        0.95,
        EachLine,
    )
    .unwrap();
    let parity = one(data.clone(), PARITY, 0.95);
    assert!(close(ends(&found[0]), ends(&parity).map(|e| 2.0 * e + 0.3)));
    assert!(close(measured_ends(&found[0]), measured_ends(&parity).map(|e| 2.0 * e + 0.3)));
    assert_eq!(ends(&found[1]), [found[1].value; 2]);
    assert_eq!((found[1].measured, &found[1].rows, &found[1].note), (None, &vec![], &None));
    assert_eq!(found[2].rows, [2000, 2000]);

    // Two random summands on the same populations share what may go wrong.
    let twice = one(data.clone(), "demographic_parity + demographic_parity(temperature = 0.5) <= 1", 0.9);
    let (warm, cool) = (one(data.clone(), PARITY, 0.95), one(data, "demographic_parity(temperature = 0.5) <= 1", 0.95));
    assert!(close(ends(&twice), [0, 1].map(|i| ends(&warm)[i] + ends(&cool)[i])));
    assert_eq!(twice.rows, [3000, 3000]);
}

#[test]
fn rates_of_errors_have_intervals_of_their_own_rows() {
    let data = drawn(900, 2, &mut Rng::new(31, Purpose::Data));
    let mut swapped = data.clone();
    swapped.labels.iter_mut().for_each(|y| *y = -*y);
    let scores: Vec<f64> = (0..900).filter(|&i| data.labels[i] < 0.0).map(|i| data.features.row_dot(i, &[1.0])).collect();
    let wrong = one(data.clone(), "false_positive_rate <= 0.5", 0.9);
    let values: Vec<f64> = scores.iter().map(|&s| soft(s, 0.0)).collect();
    let (mean, half) = (values.iter().sum::<f64>() / values.len() as f64, off(&values, 1.0, 0.1));
    assert!(close(ends(&wrong), [mean - half, mean + half]), "{wrong:?}");
    let above = scores.iter().filter(|s| **s > 0.0).count() as f64;
    assert!(close(measured_ends(&wrong), clopper_pearson(above, 300.0, 0.9).unwrap()), "{wrong:?}");
    assert_eq!((&wrong.rows, &wrong.note), (&vec![300], &None));
    // The rows of the other label are the same ones after a swap, and what is not called positive is the rest.
    let missed = one(swapped.clone(), "false_negative_rate <= 0.5", 0.9);
    assert!(close(ends(&missed), [1.0 - ends(&wrong)[1], 1.0 - ends(&wrong)[0]]));
    assert!(close(measured_ends(&missed), [1.0 - measured_ends(&wrong)[1], 1.0 - measured_ends(&wrong)[0]]));
    // The larger of two gaps is at most the larger of their upper ends, each with the whole error. Three of four signed differences
    // share that of the lower end.
    let odds = one(data.clone(), "equalised_odds <= 0.5", 0.9);
    let pair = [data, swapped]
        .map(|data| [0.9, 1.0 - 0.1 / 3.0].map(|confidence| one(data.clone(), "equal_opportunity <= 0.5", confidence)));
    for which in [ends, measured_ends] {
        let [[above, below], [more, less]] = pair.each_ref().map(|one| one.each_ref().map(which));
        assert!(above[1] != more[1] && close(which(&odds), [below[0].max(less[0]), above[1].max(more[1])]), "{odds:?}");
    }
    assert_eq!((odds.rows.len(), &odds.note), (4, &None));
    let mut three = drawn(900, 3, &mut Rng::new(32, Purpose::Data));
    three.labels = (0..900).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
    let three = one(three, "equalised_odds(compare = 'to-overall') <= 0.5", 0.9);
    assert!(three.note.unwrap().contains("shares in the overall rate"));
}

#[test]
fn a_loss_without_a_range_has_no_interval() {
    let data = drawn(600, 2, &mut Rng::new(9, Purpose::Data));
    let problem = problem(data, &["hinge <= 2", "0.5 * logistic + demographic_parity <= 2", "wasserstein_gap <= 1"]);
    let found = intervals(&problem, &[1.0], 0.95, EachLine).unwrap();
    assert!(found.iter().all(|i| i.low.is_none() && i.high.is_none() && i.value.is_finite()));
    assert!(found.iter().all(|i| i.note.as_ref().unwrap().starts_with("no interval: the value of a row has no limit")));
    assert_eq!((found[0].measured, &found[0].rows), (None, &vec![600]));
    let MeasuredInterval { value, low, high } = found[1].measured.unwrap();
    assert_eq!((Some(value), low, high), (problem.measured(&[1.0]).unwrap()[1], None, None));
    assert_eq!(found[1].rows, [600, 300, 300]);
}

#[test]
fn few_rows_say_little_but_nothing_wrong() {
    let found = one(rows(vec![1.0, -1.0], vec![0, 1], None), PARITY, 0.95);
    assert_eq!((ends(&found), measured_ends(&found)), ([0.0, 1.0], [0.0, 1.0]));
    let found = one(rows(vec![1.0, -1.0, 2.0], vec![0, 1, 0], Some(vec![1.0, 1.0, 0.0])), ROC, 0.95);
    assert_eq!((ends(&found), found.rows), ([0.0, 1.0], vec![1, 1]));
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let problem = problem(drawn(60, 2, &mut Rng::new(1, Purpose::Data)), &[PARITY]);
    for (confidence, shown) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN"), (-0.5, "-0.5"), (f64::INFINITY, "inf")] {
        let error = intervals(&problem, &[1.0], confidence, EachLine).unwrap_err().to_string();
        assert_eq!(error, format!("confidence must be a number between 0 and 1, for example 0.95, got {shown}"));
    }
    assert!(
        intervals(&problem, &[1.0, 2.0], 0.9, EachLine).unwrap_err().to_string().contains("the point has 2 entries; expected 1")
    );
    let error = intervals(&problem, &[f64::NAN], 0.9, EachLine).unwrap_err().to_string();
    assert_eq!(error, "'demographic_parity' at the point is NaN; expected a finite number");
}
