//! Thinning of curves: selects a few hundred rows of a trace by shape, the same for all of its columns. The page decides how
//! many points each run keeps, and what is drawn.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

/// Deviation, as a share of a column's range, below which it is not visible: charts are a few hundred pixels high.
const INVISIBLE: f64 = 2e-4;
/// Ratio above which a positive column is also thinned on a logarithmic scale.
const WIDE: f64 = 100.0;

/// Column scaled to the range from 0 to 1.
struct Shape {
    /// Values, with gaps filled by straight lines, so that a chord can start at any row.
    filled: Vec<f64>,
    /// 1 for rows with a value of their own, else 0.
    known: Vec<f64>,
}

impl Shape {
    /// Scales a column; `None` if it has fewer than two values, or all are the same.
    fn of(values: &[f64]) -> Option<Self> {
        let known: Vec<bool> = values.iter().map(|v| v.is_finite()).collect();
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        // Halved first, because the range of two finite numbers can overflow.
        let range = high / 2.0 - low / 2.0;
        if range <= 0.0 || !range.is_finite() {
            return None;
        }
        let scaled = values.iter().map(|v| (v / 2.0 - low / 2.0) / range).collect();
        Some(Self { filled: fill(scaled, &known), known: known.into_iter().map(f64::from).collect() })
    }

    /// Raises `worst`, which has an entry for each row between two rows, to the distance from their chord, as a share of the
    /// range. A plain loop over slices, because thinning spends all its time here.
    fn deviate(&self, along: &[f64], from: usize, to: usize, worst: &mut [f64]) {
        let (start, origin) = (self.filled[from], along[from]);
        let slope = (self.filled[to] - start) / (along[to] - origin);
        let between = from + 1..to;
        let rows = along[between.clone()].iter().zip(&self.filled[between.clone()]).zip(&self.known[between]);
        for (worst, ((x, value), known)) in worst.iter_mut().zip(rows) {
            let deviation = (value - (start + slope * (x - origin))).abs() * known;
            *worst = if deviation > *worst { deviation } else { *worst };
        }
    }
}

/// Replaces unknown values by linear interpolation between known neighbours, or by the only neighbour.
fn fill(mut values: Vec<f64>, known: &[bool]) -> Vec<f64> {
    let mut last: Option<usize> = None;
    for at in 0..values.len() {
        if !known[at] {
            continue;
        }
        match last {
            None => {
                let first = values[at];
                values[..at].fill(first);
            }
            Some(before) => {
                let (start, end, gap) = (values[before], values[at], (at - before) as f64);
                for (steps, value) in (1..).zip(&mut values[before + 1..at]) {
                    *value = start + (end - start) * f64::from(steps) / gap;
                }
            }
        }
        last = Some(at);
    }
    if let Some(last) = last {
        let end = values[last];
        values[last + 1..].fill(end);
    }
    values
}

/// Interval between two kept rows, and the row in it that is farthest from its chord.
struct Stretch {
    deviation: f64,
    from: usize,
    at: usize,
    to: usize,
}

impl Ord for Stretch {
    fn cmp(&self, other: &Self) -> Ordering {
        // Ties are broken by the earlier interval, so that thinning is deterministic.
        self.deviation.total_cmp(&other.deviation).then(other.from.cmp(&self.from))
    }
}

impl PartialOrd for Stretch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Stretch {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Stretch {}

/// Axes and columns used in thinning.
struct ThinningInput {
    along: Vec<f64>,
    /// The same for a chart with a logarithmic horizontal axis.
    log_along: Vec<f64>,
    axes: Vec<Shape>,
    quantities: Vec<Shape>,
}

impl ThinningInput {
    /// Prepares the columns. Deviations are measured against the first axis if it increases, else against the row number.
    fn at(axes: &[&[f64]], quantities: &[&[f64]], rows: usize) -> Self {
        let steady = |c: &[f64]| c.iter().all(|v| v.is_finite()) && c.windows(2).all(|w| w[0] < w[1]);
        let along = match axes.first() {
            Some(first) if steady(first) => first.to_vec(),
            _ => (0..rows).map(|i| i as f64).collect(),
        };
        let mut shapes = Vec::new();
        for column in quantities {
            shapes.extend(Shape::of(column));
            let logs: Vec<f64> = column.iter().map(|&v| if v > 0.0 { v.ln() } else { f64::NAN }).collect();
            let finite = || logs.iter().copied().filter(|v| v.is_finite());
            if finite().fold(f64::NEG_INFINITY, f64::max) - finite().fold(f64::INFINITY, f64::min) > WIDE.ln() {
                shapes.extend(Shape::of(&logs));
            }
        }
        let log_along = along.iter().map(|v| v.ln()).collect();
        Self { along, log_along, axes: axes.iter().filter_map(|c| Shape::of(c)).collect(), quantities: shapes }
    }

    /// Finds the row between two rows that is farthest from their chord in any column.
    fn farthest(&self, from: usize, to: usize) -> Option<Stretch> {
        let mut worst = vec![0.0; to - from - 1];
        for shape in self.axes.iter().chain(&self.quantities) {
            shape.deviate(&self.along, from, to, &mut worst);
        }
        // A chart with a logarithmic horizontal axis omits the start at 0.
        if self.along[from] > 0.0 {
            self.quantities.iter().for_each(|shape| shape.deviate(&self.log_along, from, to, &mut worst));
        }
        let mut best: Option<Stretch> = None;
        for (at, deviation) in (from + 1..).zip(worst) {
            if deviation > best.as_ref().map_or(INVISIBLE, |b| b.deviation) {
                best = Some(Stretch { deviation, from, at, to });
            }
        }
        best
    }
}

/// Returns the rows that are always kept: the ends, the extremes of each column, and both sides of each change of `feasible`,
/// in this order as far as `most` allows. If there are too many changes, an evenly spaced subset is kept.
fn forced(columns: &[&[f64]], feasible: &[bool], rows: usize, most: usize) -> BTreeSet<usize> {
    let mut keep = BTreeSet::from([0, rows - 1]);
    for column in columns {
        let finite = || column.iter().enumerate().filter(|(_, v)| v.is_finite());
        let low = finite().min_by(|a, b| a.1.total_cmp(b.1));
        let high = finite().max_by(|a, b| a.1.total_cmp(b.1));
        for (at, _) in low.into_iter().chain(high) {
            if keep.len() < most {
                keep.insert(at);
            }
        }
    }
    let changes: Vec<usize> = (1..rows).filter(|&i| feasible[i] != feasible[i - 1]).collect();
    let room = most.saturating_sub(keep.len()) / 2;
    if room > 0 {
        for change in changes.iter().step_by(changes.len().div_ceil(room).max(1)) {
            keep.extend([change - 1, *change]);
        }
    }
    keep
}

/// Selects at most `most` (at least 2) rows of a trace, in order, that show the shape of its quantities against its axes. All
/// columns and `feasible` are truncated to the shortest of them.
pub fn thin(axes: &[&[f64]], quantities: &[&[f64]], feasible: &[bool], most: usize) -> Vec<usize> {
    let rows = axes.iter().chain(quantities).map(|c| c.len()).chain([feasible.len()]).min().unwrap_or(0);
    let most = most.max(2);
    if rows <= most {
        return (0..rows).collect();
    }
    let axes: Vec<&[f64]> = axes.iter().map(|c| &c[..rows]).collect();
    let quantities: Vec<&[f64]> = quantities.iter().map(|c| &c[..rows]).collect();
    let mut keep = forced(&[&axes[..], &quantities[..]].concat(), feasible, rows, most);
    let look = ThinningInput::at(&axes, &quantities, rows);
    let ends: Vec<usize> = keep.iter().copied().collect();
    let mut queue: BinaryHeap<Stretch> = ends.windows(2).filter_map(|w| look.farthest(w[0], w[1])).collect();
    while keep.len() < most
        && let Some(Stretch { from, at, to, .. }) = queue.pop()
    {
        keep.insert(at);
        queue.extend(look.farthest(from, at));
        queue.extend(look.farthest(at, to));
    }
    keep.into_iter().collect()
}

/// Returns how many points each run keeps, `(tuned, other)`, so that the total is about `total`. The selected runs, whose
/// quartiles are drawn, get more than half of them; the others are a background.
pub fn shares(tuned: usize, other: usize, total: usize) -> (usize, usize) {
    let each_other = (2 * total / 5 / other.max(1)).clamp(20, 60);
    let each_tuned = (total.saturating_sub(each_other * other) / tuned.max(1)).clamp(40, 500);
    (each_tuned, each_other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ramp(rows: usize) -> Vec<f64> {
        (0..rows).map(|i| i as f64).collect()
    }

    /// Returns the distance of one row from the chord between two others, as a share of the range.
    fn off(shape: &Shape, along: &[f64], (from, to): (usize, usize), at: usize) -> f64 {
        let share = (along[at] - along[from]) / (along[to] - along[from]);
        let chord = shape.filled[from] + share * (shape.filled[to] - shape.filled[from]);
        if shape.known[at] == 1.0 { (shape.filled[at] - chord).abs() } else { 0.0 }
    }

    /// Selects the same rows without a queue, by searching all intervals again for each point.
    fn naive(axes: &[&[f64]], quantities: &[&[f64]], feasible: &[bool], most: usize) -> Vec<usize> {
        let rows = feasible.len();
        if rows <= most {
            return (0..rows).collect();
        }
        let mut keep: Vec<usize> = forced(&[axes, quantities].concat(), feasible, rows, most).into_iter().collect();
        let look = ThinningInput::at(axes, quantities, rows);
        while keep.len() < most {
            let mut best: Option<(f64, usize)> = None;
            for ends in keep.windows(2) {
                for at in ends[0] + 1..ends[1] {
                    let of = |shapes: &[Shape], along: &[f64]| {
                        shapes.iter().map(|s| off(s, along, (ends[0], ends[1]), at)).fold(0.0, f64::max)
                    };
                    let mut worst = of(&look.axes, &look.along).max(of(&look.quantities, &look.along));
                    if look.along[ends[0]] > 0.0 {
                        worst = worst.max(of(&look.quantities, &look.log_along));
                    }
                    if worst > best.map_or(INVISIBLE, |b| b.0) {
                        best = Some((worst, at));
                    }
                }
            }
            let Some((_, at)) = best else { break };
            keep.push(at);
            keep.sort_unstable();
        }
        keep
    }

    /// Returns the largest distance of any row from the drawn line, as a share of the column's range.
    fn error(column: &[f64], along: &[f64], kept: &[usize]) -> f64 {
        let shape = Shape::of(column).unwrap();
        let in_stretch = |w: &[usize]| (w[0]..=w[1]).map(|at| off(&shape, along, (w[0], w[1]), at)).fold(0.0, f64::max);
        kept.windows(2).map(in_stretch).fold(0.0, f64::max)
    }

    #[test]
    fn a_straight_line_needs_its_ends_only() {
        let x = ramp(1000);
        let y: Vec<f64> = x.iter().map(|x| 3.0 - x / 7.0).collect();
        assert_eq!(thin(&[&x], &[&y], &[true; 1000], 100), vec![0, 999]);
    }

    #[test]
    fn a_line_is_straight_against_the_first_axis_not_against_the_row() {
        let x: Vec<f64> = (0..400).map(|i| f64::from(i * i)).collect();
        let y: Vec<f64> = x.iter().map(|x| 1e6 - 2.0 * x).collect();
        assert_eq!(thin(&[&x], &[&y], &[true; 400], 100), vec![0, 399]);
    }

    #[test]
    fn ends_and_extremes_are_kept() {
        let x = ramp(1000);
        let mut y: Vec<f64> = x.iter().map(|x| (x / 30.0).sin()).collect();
        (y[137], y[611]) = (-5.0, 7.0);
        let z: Vec<f64> = x.iter().map(|x| (x - 333.0).powi(2)).collect();
        let kept = thin(&[&x], &[&y, &z], &[true; 1000], 40);
        assert!(kept.len() <= 40);
        for at in [0, 137, 333, 611, 999] {
            assert!(kept.contains(&at), "{at} is not in {kept:?}");
        }
        assert!(kept.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn changes_of_feasibility_are_kept_on_both_sides() {
        let x = ramp(1000);
        let feasible: Vec<bool> = (0..1000).map(|i| (211..640).contains(&i)).collect();
        let kept = thin(&[&x], &[], &feasible, 40);
        for at in [210, 211, 639, 640] {
            assert!(kept.contains(&at), "{at} is not in {kept:?}");
        }
        let flicker: Vec<bool> = (0..1000).map(|i| i % 2 == 0).collect();
        let kept = thin(&[&x], &[], &flicker, 40);
        assert!(kept.len() <= 40 && kept.len() > 30, "{}", kept.len());
        assert!(kept.windows(2).all(|w| w[1] - w[0] < 100), "{kept:?}");
    }

    #[test]
    fn more_points_draw_a_smooth_curve_closer() {
        let x = ramp(5000);
        let y: Vec<f64> = x.iter().map(|x| 0.1 + (-x / 400.0).exp() + 0.02 * (x / 150.0).sin()).collect();
        let error_with = |most| error(&y, &x, &thin(&[&x], &[&y], &[true; 5000], most));
        assert!(error_with(50) < 0.05, "{}", error_with(50));
        assert!(error_with(500) < 1e-3, "{}", error_with(500));
    }

    #[test]
    fn the_tail_of_a_wide_column_is_seen_on_a_logarithmic_scale() {
        let x = ramp(2000);
        let y: Vec<f64> = x.iter().map(|x| (-x / 60.0).exp() * (1.0 + 0.5 * (x / 100.0).sin())).collect();
        let kept = thin(&[&x], &[&y], &[true; 2000], 200);
        let logs: Vec<f64> = y.iter().map(|v| v.ln()).collect();
        assert!(error(&logs, &x, &kept) < 2e-3, "{}", error(&logs, &x, &kept));
    }

    #[test]
    fn columns_that_are_not_numbers_do_no_harm() {
        let x = ramp(300);
        let y: Vec<f64> = x.iter().map(|x| (x - 150.0).abs()).collect();
        let nothing = vec![f64::NAN; 300];
        let mut broken = y.clone();
        (broken[0], broken[299], broken[70]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
        let kept = thin(&[&x], &[&y, &nothing, &broken], &[true; 300], 50);
        assert!(kept.contains(&150) && kept.len() <= 50);
        assert_eq!(thin(&[&nothing], &[&nothing], &[true; 300], 50), vec![0, 299]);
        // A quantity that is measured rarely keeps its own rows.
        let rare: Vec<f64> = (0..300).map(|i| if i % 20 == 7 { f64::from(i % 3) } else { f64::NAN }).collect();
        let kept = thin(&[&x], &[&rare], &[true; 300], 60);
        assert!((0..300).filter(|i| i % 20 == 7).all(|i| kept.contains(&i)), "{kept:?}");
    }

    #[test]
    fn short_or_ragged_traces_are_whole() {
        assert!(thin(&[], &[], &[], 40).is_empty());
        assert_eq!(thin(&[&[1.0, 2.0, 3.0]], &[&[1.0, 2.0]], &[true; 3], 40), vec![0, 1]);
        assert_eq!(thin(&[], &[&[f64::MAX, f64::MIN, 0.0]], &[true; 3], 2), vec![0, 2]);
    }

    #[test]
    fn shares_keep_to_the_total_and_to_their_limits() {
        assert_eq!(shares(10, 0, 60_000), (500, 60));
        assert_eq!(shares(1000, 0, 60_000), (60, 60));
        assert_eq!(shares(100, 400, 60_000), (360, 60));
        assert_eq!(shares(100, 900, 60_000), (366, 26));
        assert_eq!(shares(5000, 5000, 60_000), (40, 20));
        assert_eq!(shares(0, 0, 60_000), (500, 60));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_queue_chooses_what_a_search_of_everything_chooses(
            y in prop::collection::vec(prop_oneof![9 => -1.0..1.0f64, 1 => Just(f64::NAN)], 3..120),
            most in 4usize..60,
        ) {
            let x = ramp(y.len());
            let wide: Vec<f64> = y.iter().map(|v| (9.0 * v).exp()).collect();
            let feasible: Vec<bool> = y.iter().map(|v| *v < 0.9).collect();
            let (axes, quantities): ([&[f64]; 1], [&[f64]; 2]) = ([&x], [&y, &wide]);
            prop_assert_eq!(thin(&axes, &quantities, &feasible, most), naive(&axes, &quantities, &feasible, most));
        }
    }
}
