//! Exact search over the intercept of a trained model, for bounds on 0/1 rates and for accuracy. Training itself belongs to
//! `trainer.rs`.

use serde::{Deserialize, Serialize};

use crate::learn::function::{Function, Piece};
use crate::learn::problem::Learning;
use crate::oracle::Description;
use crate::{Result, error::check_length};

/// Smallest distance of two neighbouring scores that a cut may lie between, relative to the largest absolute score. Closer
/// scores may change places by rounding and count as equal.
const RESOLUTION: f64 = 1e-12;
/// Differences of 0/1 errors up to this are rounding; of such cuts the nearest is the best.
const EQUAL_ERRORS: f64 = 1e-12;
/// Number of cuts that are measured again at the shifted point before the search for the best, or the nearest, gives up.
const CHECKS: usize = 8;
/// Limit on the operations of a sweep, reached only with hundreds of groups.
const OPERATIONS: f64 = 2e9;
/// Distance from the domain, relative to the norm of the point, that counts as rounding.
const OUTSIDE: f64 = 1e-9;

/// Number of standard errors that a gain must exceed.
const CERTAIN: f64 = 2.0;

/// Difference in accuracy of two models on the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Weighted accuracy of the second model minus that of the first.
    pub accuracy: f64,
    /// Standard error of the difference. With row weights w, the difference d of a row's 0/1 errors (-1, 0 or 1) and its weighted
    /// mean m, it is `sqrt(sum w^2 (d - m)^2) / sum w`; without weights, `sqrt(variance of d / rows)`.
    pub standard_error: f64,
    /// Number of rows of positive weight whose prediction differs.
    pub changed: usize,
}

impl Gain {
    /// Returns whether the gain exceeds twice its standard error. The best of many cuts looks better on the rows that it was chosen
    /// on than it is.
    pub fn exceeds_error(&self) -> bool {
        self.accuracy > CERTAIN * self.standard_error
    }
}

/// A position of the intercept, measured on all rows of the problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The intercept at this position.
    pub intercept: f64,
    /// Difference to the intercept of the point that was searched from.
    pub shift: f64,
    /// Weighted accuracy on the rows of losses: a row is predicted positive if its score is above 0.
    pub accuracy: f64,
    /// Weighted fraction of the rows of losses that are predicted positive; 0 or 1 for a constant model.
    pub positives: f64,
    /// Left-hand side of every constraint, with 0/1 rates where it contains rates.
    pub left: Vec<f64>,
    /// Whether every bound is satisfied.
    pub satisfied: bool,
    /// Accuracy gained over the unshifted model.
    pub gain: Gain,
}

impl Cut {
    /// Returns the point `x` with its intercept moved to this cut.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        shifted(x, self.intercept)
    }
}

/// Result of a [`search`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The unshifted model.
    pub unshifted: Cut,
    /// Most accurate cut that satisfies every bound; the nearest of equally accurate ones.
    pub best: Option<Cut>,
    /// Cut with the smallest shift that satisfies every bound: the unshifted model if it does.
    pub nearest: Option<Cut>,
    /// Accuracy gained by the best cut over the nearest one.
    pub best_over_nearest: Option<Gain>,
    /// Whether the losses of the objective are over all rows. A loss of some rows, or class weights, give errors other prices than
    /// accuracy does.
    pub accuracy_counts: bool,
    /// Intervals of the shift on which every bound on rates is satisfied, from low to high. Their ends are scores. Constraints
    /// with other terms than rates and penalties are not taken into account. Only cuts that were evaluated count.
    pub satisfying: Vec<[f64; 2]>,
    /// Number of distinct cuts within the domain.
    pub cuts: usize,
    /// Number of cuts at which the bounds were evaluated; fewer than `cuts` only with hundreds of groups.
    pub evaluated: usize,
}

/// Finds the intercepts with which the model `x` satisfies `bounds`, measured as [`Learning::measured`] does; a constraint
/// without rates counts with its value. A bound is satisfied if it is exceeded by at most `feasibility * max(1, |bound|)`. The
/// bounds of `problem` are not used.
///
/// 0/1 predictions depend on the order of the scores and on the intercept. A positive factor of all scores (their temperature)
/// changes none, so that there is no search over it.
///
/// The rows are sorted once by score. Every pair of neighbouring scores has one cut, in the middle, so that no prediction is
/// decided by rounding; equal scores have none. One further cut lies below all scores and one above. A sweep over the cuts
/// updates the weighted count of each population and passes the rates to the terms. The result is exact for terms that consist of
/// rates ([`Term::rates`](crate::learn::Term::rates)), their sums, and penalties, which do not depend on the intercept. A rate
/// over thresholds other than 0 changes between cuts too; it is evaluated at the cuts only.
///
/// A constraint with any other term (a loss, a Wasserstein gap) is not part of the sweep. It is evaluated at the returned
/// candidates: at most 8 of the most accurate cuts and 8 of the nearest ones are tried, so that such a constraint can hide a cut
/// that satisfies all bounds. The returned cuts are always measured at the shifted point and lie in the domain.
///
/// Returns `None` if the problem has no intercept, if no constraint contains rates, or if a score is not finite.
///
/// Cost: `O(n log n)` for n rows and one evaluation of the terms per cut. That is in proportion to the populations for two
/// groups and to the square of the groups for more, times the thresholds. Above 2e9 operations, evenly spaced cuts are left out.
///
/// ```
/// use thalweg::learn::{Builder, Data, Groups, intercept};
/// use thalweg::math::Matrix;
/// # fn main() -> thalweg::Result<()> {
/// let features = Matrix::dense(6, 1, vec![-2.0, -1.0, 1.0, 2.0, 3.0, 4.0])?;
/// let groups = Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 1, 0, 0, 1, 1] };
/// let data = Data { features, labels: vec![-1.0, -1.0, -1.0, 1.0, 1.0, 1.0], groups: Some(groups), weights: None };
/// let constraint = "demographic_parity <= 0.35".parse()?;
/// let problem = Builder::new(data).intercept(true).minimize("logistic".parse()?).subject_to(constraint).build()?;
/// let found = intercept::search(&problem, &[1.0, 0.0], &[0.35], 1e-6)?.expect("the problem has an intercept and a rate");
/// let best = found.best.expect("a cut satisfies the bound");
/// assert_eq!((best.shift, best.accuracy), (-1.5, 1.0));
/// # Ok(()) }
/// ```
pub fn search(problem: &Learning, x: &[f64], bounds: &[f64], feasibility: f64) -> Result<Option<Search>> {
    check_length("the point", x.len(), problem.dim())?;
    check_length("the list of bounds", bounds.len(), problem.num_constraints())?;
    let limits: Vec<f64> = bounds.iter().map(|b| b + feasibility * b.abs().max(1.0)).collect();
    let Some(model) = Model::new(problem, x, &limits)? else { return Ok(None) };
    let (unshifted, _) = model.cut(model.offset)?;
    let Sweep { mut candidates, satisfying, cuts, evaluated } = model.sweep()?;
    if unshifted.satisfied {
        candidates.push(Candidate { intercept: model.offset, error: 1.0 - unshifted.accuracy });
    }
    let mut failed = vec![];
    let nearest = model
        .first_satisfied(&candidates, &mut failed, |list| list.min_by(|a, b| model.distance(a).total_cmp(&model.distance(b))))?;
    let best = model.first_satisfied(&candidates, &mut failed, |list| {
        let list: Vec<_> = list.collect();
        let least = list.iter().map(|c| c.error).fold(f64::INFINITY, f64::min);
        let equal = list.into_iter().filter(|c| c.error <= least + EQUAL_ERRORS);
        equal.min_by(|a, b| model.distance(a).total_cmp(&model.distance(b)))
    })?;
    // With constraints outside the sweep, the nearest cut may be among the most accurate ones that were not tried, and the
    // reverse.
    let (mut nearest, mut best) = (nearest.clone().or_else(|| best.clone()), best.or(nearest));
    if let (Some((near, a)), Some((top, b))) = (&nearest, &best) {
        if top.shift.abs() < near.shift.abs() {
            nearest = Some((top.clone(), b.clone()));
        } else if near.accuracy > top.accuracy + EQUAL_ERRORS {
            best = Some((near.clone(), a.clone()));
        }
    }
    let best_over_nearest = match (&nearest, &best) {
        (Some((_, near)), Some((_, top))) => Some(model.gain(near, top)),
        _ => None,
    };
    let [nearest, best] = [nearest, best].map(|found| found.map(|(cut, _)| cut));
    let accuracy_counts = problem.objective_is_over_all_rows();
    Ok(Some(Search { unshifted, best, nearest, best_over_nearest, accuracy_counts, satisfying, cuts, evaluated }))
}

/// Computes the difference in accuracy between the models `x` and `y` on the rows of losses.
pub fn compare(problem: &Learning, x: &[f64], y: &[f64]) -> Result<Gain> {
    let range = problem.parts[0].clone();
    let positive = |point: &[f64]| -> Result<Vec<bool>> {
        Ok(problem.scores(point)?[range.clone()].iter().map(|&score| score > 0.0).collect())
    };
    let (before, after) = (positive(x)?, positive(y)?);
    let weights = problem.data.weights.as_ref().map(|w| &w[range.clone()]);
    Ok(paired_gain(&problem.data.labels[range.clone()], weights, &before, &after))
}

/// Rule behind a [`Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No cut satisfies the bounds.
    NothingSatisfies,
    /// No round satisfied the bounds; the nearest cut that does is used.
    NearestSatisfying,
    /// No round satisfied the bounds; the most accurate cut that does is used, since its gain over the nearest one exceeds two
    /// standard errors.
    MostAccurateSatisfying,
    /// The gain exceeds two standard errors.
    GainExceedsError,
    /// The gain does not exceed two standard errors.
    GainWithinError,
    /// The objective does not count the errors of all rows alike, so that accuracy is no reason for a shift.
    OtherObjective,
}

/// Whether to shift the intercept, with the numbers that decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The cut to use; `None` if the model should stay as it is.
    pub cut: Option<Cut>,
    /// The rule that decided.
    pub reason: Reason,
    /// The gain that the rule looked at, over the model that would be used otherwise: the unshifted model, or the nearest cut
    /// that satisfies the bounds if no round did. `None` if no cut satisfies them.
    pub gain: Option<Gain>,
}

/// Decides whether to use a shift. A gain on training rows can be a loss on unseen rows, most of all for a cut far from the
/// trained model. Therefore:
///
/// - If neither a round of training (`satisfied_before`) nor the unshifted model satisfied the bounds, a shift is used whenever
///   one satisfies them: the nearest one, or the most accurate one if its gain over the nearest exceeds two standard errors.
/// - Otherwise the most accurate shift is used if its gain over the unshifted model exceeds two standard errors.
///
/// Gains in accuracy count only if [`Search::accuracy_counts`].
pub fn choose(search: &Search, satisfied_before: bool) -> Decision {
    let (Some(nearest), Some(best)) = (&search.nearest, &search.best) else {
        return Decision { cut: None, reason: Reason::NothingSatisfies, gain: None };
    };
    let (gain, on_gain, otherwise) = if satisfied_before || search.unshifted.satisfied {
        let stays = if search.accuracy_counts { Reason::GainWithinError } else { Reason::OtherObjective };
        (Some(best.gain), Reason::GainExceedsError, (None, stays))
    } else {
        (search.best_over_nearest, Reason::MostAccurateSatisfying, (Some(nearest.clone()), Reason::NearestSatisfying))
    };
    let (cut, reason) = match &gain {
        Some(gain) if search.accuracy_counts && gain.exceeds_error() => (Some(best.clone()), on_gain),
        _ => otherwise,
    };
    Decision { cut, reason, gain }
}

fn shifted(x: &[f64], intercept: f64) -> Vec<f64> {
    let mut y = x.to_vec();
    y.iter_mut().next_back().into_iter().for_each(|last| *last = intercept);
    y
}

fn paired_gain(labels: &[f64], weights: Option<&[f64]>, before: &[bool], after: &[bool]) -> Gain {
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    // Where predictions differ, exactly one of them is right.
    let difference = |i: usize| match (before[i] == after[i], after[i] == (labels[i] > 0.0)) {
        (true, _) => 0.0,
        (false, true) => 1.0,
        (false, false) => -1.0,
    };
    let rows = 0..labels.len();
    let total: f64 = rows.clone().map(weight).sum();
    let mean = rows.clone().map(|i| weight(i) * difference(i)).sum::<f64>() / total;
    let squares: f64 = rows.clone().map(|i| (weight(i) * (difference(i) - mean)).powi(2)).sum();
    let changed = rows.filter(|&i| weight(i) > 0.0 && before[i] != after[i]).count();
    Gain { accuracy: mean, standard_error: squares.sqrt() / total, changed }
}

/// The model whose intercept is searched, with everything that stays the same.
struct Model<'a> {
    problem: &'a Learning,
    x: &'a [f64],
    offset: f64,
    /// Largest left-hand side of each constraint that satisfies its bound.
    limits: &'a [f64],
    /// Scores without the intercept, for every row of every part.
    parts: Vec<Vec<f64>>,
    unshifted: Vec<bool>,
}

/// A cut that satisfies every bound on rates according to the sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    intercept: f64,
    error: f64,
}

struct Sweep {
    candidates: Vec<Candidate>,
    satisfying: Vec<[f64; 2]>,
    cuts: usize,
    evaluated: usize,
}

/// A constraint of rates and penalties.
pub(super) struct Swept<'a> {
    pub(super) function: &'a Function,
    pub(super) limit: f64,
    pub(super) statistics: Vec<f64>,
    /// Position among the statistics, index of the threshold, index and size of the population.
    pub(super) sources: Vec<(usize, usize, usize, f64)>,
}

/// Rows by decreasing score, with what each adds to the counts when its prediction becomes positive.
struct Order {
    /// Score without the intercept and index of the row, counted through all parts.
    rows: Vec<(f64, u32)>,
    /// For each row, the range of its entries.
    starts: Vec<u32>,
    /// Population and weight in it.
    entries: Vec<(u32, f64)>,
    /// Change of the weighted number of errors on the rows of losses.
    errors: Vec<f64>,
}

/// What each row, counted through all parts, adds to the counts when its prediction becomes positive.
pub(super) struct Entries {
    /// First row of each part.
    pub(super) first: Vec<usize>,
    /// For each row, the range of its entries.
    pub(super) starts: Vec<u32>,
    /// Population and weight in it.
    pub(super) entries: Vec<(u32, f64)>,
    /// Change of the weighted number of errors on the rows of losses.
    pub(super) errors: Vec<f64>,
}

impl Entries {
    pub(super) fn new(problem: &Learning, swept: &[Swept]) -> Self {
        let mut first = vec![];
        let mut count = 0;
        for part in &problem.parts {
            first.push(count);
            count += part.len();
        }
        let used: Vec<usize> = (0..problem.populations.len())
            .filter(|&p| swept.iter().any(|s| s.sources.iter().any(|source| source.2 == p)))
            .collect();
        // Every member of the population with its row.
        let members = |p: usize| {
            let population = &problem.populations[p];
            let start = first[population.part];
            (0..problem.sizes[p]).map(move |m| (m, start + population.members.as_ref().map_or(m, |list| list[m] as usize)))
        };
        let mut starts = vec![0_u32; count + 1];
        for &p in &used {
            members(p).for_each(|(_, row)| starts[row + 1] += 1);
        }
        for row in 0..count {
            starts[row + 1] += starts[row];
        }
        let mut ends = starts.clone();
        let mut entries = vec![(0, 0.0); starts[count] as usize];
        for &p in &used {
            let weights = problem.populations[p].weights.as_ref();
            for (m, row) in members(p) {
                entries[ends[row] as usize] = (p as u32, weights.map_or(1.0, |w| w[m]));
                ends[row] += 1;
            }
        }
        let range = problem.parts[0].clone();
        let weight = |i: usize| problem.data.weights.as_ref().map_or(1.0, |w| w[range.start + i]);
        let mut errors = vec![0.0; count];
        problem.data.labels[range.clone()].iter().enumerate().for_each(|(i, label)| errors[i] = -label * weight(i));
        Entries { first, starts, entries, errors }
    }
}

/// Returns the constraints of rates and penalties at `x`, and their thresholds, of which the first is 0.
pub(super) fn swept<'a>(problem: &'a Learning, x: &[f64], limits: &[f64]) -> (Vec<Swept<'a>>, Vec<f64>) {
    let mut thresholds = vec![0.0_f64];
    let mut list = vec![];
    for (function, &limit) in problem.constraints.iter().zip(limits) {
        let known = |piece: &Piece| matches!(piece, Piece::Penalty(_)) || rates(piece).is_some();
        if !has_rates(function) || !function.pieces.iter().all(|s| known(&s.piece)) {
            continue;
        }
        let mut one = Swept { function, limit, statistics: vec![0.0; function.statistics], sources: vec![] };
        for s in &function.pieces {
            let mut position = s.statistics.clone();
            match (&s.piece, rates(&s.piece)) {
                (Piece::Penalty(penalty), _) => one.statistics[position.start] = penalty.value(problem.weights(x)),
                (_, Some(values)) => {
                    for &p in &s.populations {
                        let size = problem.sizes[p] as f64;
                        for (&threshold, at) in values.iter().zip(&mut position) {
                            let known = thresholds.iter().position(|t| *t == threshold);
                            let index = known.unwrap_or_else(|| {
                                thresholds.push(threshold);
                                thresholds.len() - 1
                            });
                            one.sources.push((at, index, p, size));
                        }
                    }
                }
                _ => {}
            }
        }
        list.push(one);
    }
    (list, thresholds)
}

impl<'a> Model<'a> {
    fn new(problem: &'a Learning, x: &'a [f64], limits: &'a [f64]) -> Result<Option<Self>> {
        if !problem.intercept || !problem.constraints.iter().any(has_rates) {
            return Ok(None);
        }
        let features = &problem.data.features;
        let parts: Vec<Vec<f64>> = problem
            .parts
            .iter()
            .map(|range| {
                let mut scores = vec![0.0; range.len()];
                features.scores(range.clone(), problem.weights(x), &mut scores);
                scores
            })
            .collect();
        let offset = problem.offset(x);
        let mut model = Model { problem, x, offset, limits, parts, unshifted: vec![] };
        let total: f64 = (0..model.parts[0].len()).map(|i| model.weight(0, i)).sum();
        if !(offset.is_finite() && total > 0.0 && model.parts.iter().flatten().all(|s| s.is_finite())) {
            return Ok(None);
        }
        model.unshifted = model.positive(offset);
        Ok(Some(model))
    }

    fn weight(&self, part: usize, i: usize) -> f64 {
        self.problem.data.weights.as_ref().map_or(1.0, |w| w[self.problem.parts[part].start + i])
    }

    /// Returns the labels and weights of the rows of losses.
    fn losses(&self) -> (&[f64], Option<&[f64]>) {
        let range = self.problem.parts[0].clone();
        (&self.problem.data.labels[range.clone()], self.problem.data.weights.as_ref().map(|w| &w[range]))
    }

    fn positive(&self, intercept: f64) -> Vec<bool> {
        self.parts[0].iter().map(|score| score + intercept > 0.0).collect()
    }

    fn gain(&self, before: &[bool], after: &[bool]) -> Gain {
        let (labels, weights) = self.losses();
        paired_gain(labels, weights, before, after)
    }

    fn distance(&self, candidate: &Candidate) -> f64 {
        (candidate.intercept - self.offset).abs()
    }

    /// Measures the shifted model. Also returns its predictions on the rows of losses.
    fn cut(&self, intercept: f64) -> Result<(Cut, Vec<bool>)> {
        let y = shifted(self.x, intercept);
        let mut left = vec![];
        self.problem.inspect(&y, |constraint| {
            left.push(constraint.measured.unwrap_or(constraint.value));
            Ok(())
        })?;
        let positive = self.positive(intercept);
        let (labels, _) = self.losses();
        let (mut total, mut right, mut above) = (0.0, 0.0, 0.0);
        for (i, &positive) in positive.iter().enumerate() {
            let weight = self.weight(0, i);
            total += weight;
            right += if positive == (labels[i] > 0.0) { weight } else { 0.0 };
            above += if positive { weight } else { 0.0 };
        }
        let satisfied = left.iter().zip(self.limits).all(|(left, limit)| left <= limit);
        let cut = Cut {
            intercept,
            shift: intercept - self.offset,
            accuracy: right / total,
            positives: above / total,
            satisfied: satisfied && (intercept == self.offset || self.is_inside(intercept)?),
            left,
            gain: self.gain(&self.unshifted, &positive),
        };
        Ok((cut, positive))
    }

    /// Measures candidates in the order in which `pick` takes them until one satisfies every bound, and collects the others.
    fn first_satisfied(
        &self,
        candidates: &[Candidate],
        failed: &mut Vec<f64>,
        pick: impl for<'c> Fn(&mut dyn Iterator<Item = &'c Candidate>) -> Option<&'c Candidate>,
    ) -> Result<Option<(Cut, Vec<bool>)>> {
        for _ in 0..CHECKS {
            let Some(next) = pick(&mut candidates.iter().filter(|c| !failed.contains(&c.intercept))) else { break };
            let found = self.cut(next.intercept)?;
            if found.0.satisfied {
                return Ok(Some(found));
            }
            failed.push(next.intercept);
        }
        Ok(None)
    }

    fn is_inside(&self, intercept: f64) -> Result<bool> {
        let y = shifted(self.x, intercept);
        Ok(self.problem.domain.distance(&y)? <= OUTSIDE * crate::math::vec::norm(&y).max(1.0))
    }

    /// Returns the point between the current intercept and `end` up to which the model stays in the domain, which is convex.
    fn last_inside(&self, end: f64) -> Result<f64> {
        if self.is_inside(end)? {
            return Ok(end);
        }
        let (mut inside, mut outside) = (self.offset, end);
        for _ in 0..60 {
            let middle = 0.5 * inside + 0.5 * outside;
            if self.is_inside(middle)? {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        Ok(inside)
    }

    /// Sorts the rows of positive weight.
    fn order(&self, swept: &[Swept]) -> Order {
        let Entries { first, starts, entries, errors } = Entries::new(self.problem, swept);
        let mut rows: Vec<(f64, u32)> = vec![];
        for (part, scores) in self.parts.iter().enumerate() {
            let weighty = scores.iter().enumerate().filter(|(i, _)| self.weight(part, *i) > 0.0);
            rows.extend(weighty.map(|(i, &score)| (score, (first[part] + i) as u32)));
        }
        rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Order { rows, starts, entries, errors }
    }

    /// Evaluates the bounds on rates at every cut.
    fn sweep(&self) -> Result<Sweep> {
        let (mut swept, thresholds) = swept(self.problem, self.x, self.limits);
        let order = self.order(&swept);
        let intercepts = intercepts(&order.rows);
        let populations = self.problem.populations.len();
        let mut counts = vec![0.0; thresholds.len() * populations];
        let mut passed = vec![0; thresholds.len()];
        let lowest = self.last_inside(intercepts.first().map_or(self.offset, |c| c[1]))?;
        let highest = self.last_inside(intercepts.last().map_or(self.offset, |c| c[1]))?;
        let inside = |c: &&[f64; 3]| c[1] >= lowest && c[1] <= highest;
        let cuts = intercepts.iter().filter(inside).count();
        let work = |s: &Swept| s.function.pieces.iter().map(|p| p.statistics.len() * p.populations.len()).sum::<usize>();
        let operations = swept.iter().map(work).sum::<usize>() as f64 * cuts as f64;
        let stride = (operations / OPERATIONS).ceil().max(1.0) as usize;

        let (labels, _) = self.losses();
        let total: f64 = (0..labels.len()).map(|i| self.weight(0, i)).sum();
        // Without positive predictions, the positive labels are the errors.
        let mut errors: f64 = (0..labels.len()).filter(|&i| labels[i] > 0.0).map(|i| self.weight(0, i)).sum();
        let mut result = Sweep { candidates: vec![], satisfying: vec![], cuts, evaluated: 0 };
        let mut open = false;
        for (number, &[low, intercept, high]) in intercepts.iter().filter(inside).enumerate() {
            for (k, threshold) in thresholds.iter().enumerate() {
                // The same sum and comparison as in a measurement at the shifted point.
                while let Some(&(_, row)) = order.rows.get(passed[k]).filter(|(score, _)| score + intercept > *threshold) {
                    let row = row as usize;
                    for &(p, weight) in &order.entries[order.starts[row] as usize..order.starts[row + 1] as usize] {
                        counts[k * populations + p as usize] += weight;
                    }
                    if k == 0 {
                        errors += order.errors[row];
                    }
                    passed[k] += 1;
                }
            }
            if number % stride != 0 {
                continue;
            }
            result.evaluated += 1;
            let satisfied = swept.iter_mut().all(|one| {
                for &(at, k, p, size) in &one.sources {
                    one.statistics[at] = counts[k * populations + p] / size;
                }
                one.function.left(&one.statistics) <= one.limit
            });
            if satisfied {
                result.candidates.push(Candidate { intercept, error: errors / total });
                match result.satisfying.last_mut().filter(|_| open) {
                    Some(last) => last[1] = high - self.offset,
                    None => result.satisfying.push([low - self.offset, high - self.offset]),
                }
            }
            open = satisfied;
        }
        Ok(result)
    }
}

/// Returns the thresholds of a term of rates.
fn rates(piece: &Piece) -> Option<&[f64]> {
    match piece {
        Piece::Term(term) => term.rates().map(|rates| rates.thresholds),
        Piece::Penalty(_) => None,
    }
}

fn has_rates(function: &Function) -> bool {
    function.pieces.iter().any(|s| rates(&s.piece).is_some())
}

/// Returns the intercepts of all cuts with both ends of their intervals, from low to high. The rows are sorted by decreasing
/// score.
fn intercepts(rows: &[(f64, u32)]) -> Vec<[f64; 3]> {
    let (Some(&(highest, _)), Some(&(lowest, _))) = (rows.first(), rows.last()) else { return vec![] };
    let largest = highest.abs().max(lowest.abs());
    let spread = highest - lowest;
    // Beyond the outermost scores there is no middle; half of their distance is the unit at hand.
    let margin = match () {
        () if spread > RESOLUTION * largest => 0.5 * spread,
        () if largest > 0.0 => 0.5 * largest,
        () => 1.0,
    };
    let mut list = vec![[f64::NEG_INFINITY, -(highest + margin), -highest]];
    for pair in rows.windows(2) {
        let (above, below) = (pair[0].0, pair[1].0);
        if above - below > RESOLUTION * largest {
            list.push([-above, -(0.5 * above + 0.5 * below), -below]);
        }
    }
    list.push([-lowest, margin - lowest, f64::INFINITY]);
    list
}
