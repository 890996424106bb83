//! Details of a problem's constraints at a point: measured 0/1 rates, statistics and the rows behind each value. Nothing here
//! is used during a run.

use serde::{Deserialize, Serialize};

use super::function::{Function, Piece, Summand};
use super::gap::{Contrast, GroupComparison};
use super::passes::Buffers;
use super::population::describe;
use super::problem::Learning;
use super::roc::{Scored, largest_measured_gap};
use super::term::{RowNorms, Subpopulation, View};
use crate::certify::{rate_at_most, rate_half_width};
use crate::oracle::{At, Description, Draw, Values, Warm};
use crate::{Error, Note, Result};

/// Number of groups above which a gap is slow to bound, and a bound on it need not hold for new rows of any one group.
const MANY_GROUPS: usize = 50;
/// Confidence of the uncertainty of rates by group.
const CONFIDENCE: f64 = 0.95;

/// Number of rows of a group, or of its rows with one label, and what it means for a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupSize {
    /// Name of the group.
    pub group: String,
    /// Label of the rows that count, +1 or -1; `None` if all do.
    pub label: Option<i8>,
    /// Number of rows.
    pub rows: usize,
    /// Half the length of the exact 95% interval of a rate of one half on as many rows
    /// ([`rate_half_width`](crate::certify::rate_half_width)).
    pub uncertainty: f64,
}

/// Rows that a bound on unseen rows is tested on, and about how many it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromiseSize {
    /// Name of the group; empty if the rate is of no group.
    pub group: String,
    /// Label of the rows that count, +1 or -1; `None` if all do.
    pub label: Option<i8>,
    /// Number of rows in the safety set.
    pub rows: usize,
    /// Number of rows on which a rate as in the labels, or of 0 where the bound is on the rate itself, is known to within the bound.
    pub needed: usize,
}

/// Number of rows behind a weighted mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowCount {
    /// Rows of positive weight; with whole weights their sum, since a weight of 2 means two equal rows.
    pub rows: usize,
    /// Number of rows of equal weight whose mean is as uncertain: with whole weights the same, otherwise `(sum of weights)^2 / sum
    /// of squared weights`.
    pub effective: f64,
}

impl RowCount {
    /// Counts rows with these weights.
    pub fn of(weights: impl Iterator<Item = f64>) -> Self {
        let (mut whole, mut present, mut sum, mut squares) = (true, 0, 0.0, 0.0);
        for w in weights.filter(|w| *w > 0.0) {
            whole &= w.fract() == 0.0;
            present += 1;
            sum += w;
            squares += w * w;
        }
        if whole {
            return RowCount { rows: sum as usize, effective: sum };
        }
        RowCount { rows: present, effective: sum * sum / squares }
    }
}

/// Value of a constraint at a point, with its summands.
pub(super) struct ConstraintDetail<'a> {
    pub(super) name: &'a str,
    pub(super) bound: f64,
    /// Left-hand side.
    pub(super) value: f64,
    /// Left-hand side with 0/1 rates, if it contains any.
    pub(super) measured: Option<f64>,
    pub(super) summands: Vec<SummandDetail<'a>>,
}

/// Summand of a [`ConstraintDetail`].
pub(super) struct SummandDetail<'a> {
    pub(super) factor: f64,
    pub(super) piece: &'a Piece,
    /// Index of each population and its rows.
    pub(super) populations: Vec<(usize, View<'a>)>,
    /// Statistics with surrogate rates, as in training.
    pub(super) surrogate_statistics: &'a [f64],
    /// Statistics with 0/1 rates; equal to the surrogate ones if there are no rates.
    pub(super) measured_statistics: &'a [f64],
}

impl Learning {
    /// Computes each constraint's left-hand side at `x` with 0/1 rates in place of their surrogates; `None` for a constraint
    /// without rates.
    pub fn measured(&self, x: &[f64]) -> Result<Vec<Option<f64>>> {
        crate::error::check_length("the point", x.len(), self.dim())?;
        let mut scratch = self.scratch();
        let buffers: &mut Buffers = scratch.get()?;
        let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
        Ok(self.constraints.iter().map(|f| self.measured_value(f, at, buffers)).collect())
    }

    /// Computes the largest difference, over all thresholds, between the fractions of the groups with a score above the
    /// threshold, on the rows that gaps are computed on. This is the distance of their ROC curves over every threshold, not
    /// over a grid. With more than two groups it is the largest difference between two of them.
    pub fn measured_roc_gap(&self, x: &[f64]) -> Result<f64> {
        const WHAT: &str = "measured_roc_gap";
        let scores = self.scores(x)?;
        let Some(groups) = self.data.groups.as_ref().filter(|groups| groups.names.len() > 1) else {
            let have = if self.data.groups.is_some() { "only one" } else { "none" };
            return Err(Error::Problem(format!("{WHAT} compares groups, but the data have {have}")));
        };
        let weight = |i: usize| self.data.weights.as_ref().map_or(1.0, |w| w[i]);
        let range = self.parts[self.parts.len() - 1].clone();
        let mut rows: Vec<Scored> =
            range.map(|i| Scored { score: scores[i], group: groups.of_row[i] as usize, weight: weight(i) }).collect();
        let mut totals = vec![0.0; groups.names.len()];
        rows.iter().for_each(|row| totals[row.group] += row.weight);
        if let Some(k) = totals.iter().position(|&total| total <= 0.0) {
            let whom = describe(&self.data, Subpopulation::Group(k as u32));
            return Err(Error::Problem(format!(
                "{WHAT} needs {whom} of a weight above 0 among the rows of gaps, but there is none"
            )));
        }
        let norms: Vec<RowNorms> = totals.iter().map(|&weight| RowNorms { weight, mean_square: 0.0 }).collect();
        Ok(largest_measured_gap(&mut rows, &Contrast::new(GroupComparison::BetweenGroups, &norms), &totals))
    }

    /// Returns warnings about groups, which are known before training: bounds on gaps that are smaller than the uncertainty of a
    /// rate on the rows of a group, with the numbers of rows, and very many groups.
    pub fn group_notes(&self) -> Result<Vec<Note>> {
        let mut notes = vec![];
        let mut most = 0;
        for function in &self.constraints {
            for summand in &function.pieces {
                let Piece::Term(term) = &summand.piece else { continue };
                let Some((groups, _)) = term.rates().and_then(|rates| rates.comparison.of_groups()) else { continue };
                most = most.max(groups);
                let bound = function.bound / summand.factor;
                let sizes: Vec<GroupSize> = summand.populations.iter().map(|&p| self.group_size(p)).collect::<Result<_>>()?;
                let small: Vec<GroupSize> = sizes.into_iter().filter(|size| size.uncertainty > bound).collect();
                if !small.is_empty() {
                    notes.push(Note::SmallGroups { constraint: function.name.clone(), bound, groups: small });
                }
            }
        }
        if most > MANY_GROUPS {
            notes.push(Note::ManyGroups { groups: most });
        }
        Ok(notes)
    }

    /// Returns whether constraint `j` is a sum of rates, or of their differences, and penalties.
    pub(super) fn is_of_rates(&self, j: usize) -> bool {
        let rates = |s: &Summand| match &s.piece {
            Piece::Term(term) => term.rates().is_some(),
            Piece::Penalty(_) => true,
        };
        let pieces = &self.constraints[j].pieces;
        pieces.iter().all(rates) && pieces.iter().any(|s| matches!(s.piece, Piece::Term(_)))
    }

    /// Returns warnings about groups of these rows, as the safety set of [`fit_unseen`](super::fit_unseen), that are too small to
    /// promise a bound with this confidence. They are known before training.
    pub fn promise_notes(&self, confidence: f64) -> Result<Vec<Note>> {
        let labels = &self.data.labels;
        let positive = labels.iter().filter(|y| **y > 0.0).count() as f64 / labels.len().max(1) as f64;
        let mut notes = vec![];
        for (j, function) in self.constraints.iter().enumerate().filter(|(j, _)| self.is_of_rates(*j)) {
            let mut small = vec![];
            for summand in &self.constraints[j].pieces {
                let Piece::Term(term) = &summand.piece else { continue };
                let gap = term.rates().is_some_and(|rates| rates.comparison.of_groups().is_some());
                let rate = if gap { positive } else { 0.0 };
                let bound = function.bound / summand.factor;
                let Some(needed) = rows_needed(rate, bound, confidence)? else { continue };
                for &p in &summand.populations {
                    let GroupSize { group, label, rows, .. } = self.group_size(p)?;
                    if rows < needed {
                        small.push(PromiseSize { group, label, rows, needed });
                    }
                }
            }
            if !small.is_empty() {
                notes.push(Note::SafetySetTooSmall {
                    constraint: function.name.clone(),
                    bound: function.bound,
                    confidence,
                    groups: small,
                });
            }
        }
        Ok(notes)
    }

    fn group_size(&self, p: usize) -> Result<GroupSize> {
        let population = &self.populations[p];
        let (group, label) = match population.subpopulation {
            Subpopulation::Group(k) => (k, None),
            Subpopulation::GroupPositives(k) => (k, Some(1)),
            Subpopulation::GroupNegatives(k) => (k, Some(-1)),
            Subpopulation::Positives => (u32::MAX, Some(1)),
            Subpopulation::Negatives => (u32::MAX, Some(-1)),
            Subpopulation::Everyone => (u32::MAX, None),
        };
        let size = population.size(&self.parts);
        let start = self.parts[population.part].start;
        let row = |i: usize| start + population.members.as_ref().map_or(i, |members| members[i] as usize);
        let counted = RowCount::of((0..size).map(|i| self.data.weights.as_ref().map_or(1.0, |w| w[row(i)])));
        let names = self.data.groups.as_ref().map(|groups| &groups.names);
        Ok(GroupSize {
            group: names.and_then(|names| names.get(group as usize)).cloned().unwrap_or_default(),
            label,
            rows: counted.rows,
            uncertainty: rate_half_width(counted.effective, CONFIDENCE)?,
        })
    }

    /// Returns a note for each gap between three or more groups, in the objective and in the constraints, that says which
    /// differences count.
    pub fn comparison_notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        for function in std::iter::once(&self.objective).chain(&self.constraints) {
            for summand in &function.pieces {
                let Piece::Term(term) = &summand.piece else { continue };
                if let Some((groups, comparison)) = term.rates().and_then(|rates| rates.comparison.of_groups())
                    && groups > 2
                {
                    notes.push(Note::GapMeaning { function: function.name.clone(), groups, comparison });
                }
            }
        }
        notes.dedup();
        notes
    }

    /// Returns whether constraint `j` is a gap between more than two groups.
    pub(super) fn compares_many(&self, j: usize) -> bool {
        self.constraints[j].pieces.iter().any(|s| match &s.piece {
            Piece::Term(term) => {
                term.rates().and_then(|rates| rates.comparison.of_groups()).is_some_and(|(groups, _)| groups > 2)
            }
            Piece::Penalty(_) => false,
        })
    }

    /// Returns the weighted share of the rows of losses whose label is not predicted; a score of 0 predicts the negative one.
    pub(super) fn error_rate(&self, x: &[f64]) -> Result<f64> {
        let weight = |i: usize| self.data.weights.as_ref().map_or(1.0, |w| w[i]);
        let (mut wrong, mut total) = (0.0, 0.0);
        let scores = self.scores(x)?;
        for i in self.parts[0].clone() {
            total += weight(i);
            wrong += if (scores[i] > 0.0) == (self.data.labels[i] > 0.0) { 0.0 } else { weight(i) };
        }
        Ok(wrong / total)
    }

    /// Adds to every surrogate rate of constraint `j` the difference between the 0/1 rate and the surrogate at `x`, where both then agree.
    pub(super) fn correct_rates(&mut self, j: usize, x: &[f64]) -> Result<()> {
        self.drop_corrections(j);
        let mut scratch = self.scratch();
        let buffers: &mut Buffers = scratch.get()?;
        let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
        let f = &self.constraints[j];
        let mut surrogate = vec![0.0; f.statistics];
        self.measure(f, at, &mut surrogate, buffers);
        let mut zero_one = surrogate.clone();
        self.replace_surrogate_rates(f, &mut zero_one, buffers);
        self.constraints[j].corrections = zero_one.iter().zip(&surrogate).map(|(count, s)| count - s).collect();
        Ok(())
    }

    /// Undoes [`Learning::correct_rates`].
    pub(super) fn drop_corrections(&mut self, j: usize) {
        self.constraints[j].corrections.clear();
    }

    fn measured_value(&self, function: &Function, at: At, buffers: &mut Buffers) -> Option<f64> {
        let mut statistics = vec![0.0; function.statistics];
        self.measure(function, at, &mut statistics, buffers);
        self.replace_surrogate_rates(function, &mut statistics, buffers).then(|| function.left(&statistics))
    }

    /// Replaces surrogate rates by 0/1 rates; the scores must be in the buffers. Returns false if there are none.
    fn replace_surrogate_rates(&self, function: &Function, statistics: &mut [f64], buffers: &Buffers) -> bool {
        let mut measured = false;
        for s in &function.pieces {
            if let Piece::Term(term) = &s.piece {
                let width = term.width();
                let own = &mut statistics[s.statistics.clone()];
                for (k, &p) in s.populations.iter().enumerate() {
                    measured |= term.zero_one_rates(k, self.current_view(p, buffers), &mut own[k * width..(k + 1) * width]);
                }
            }
        }
        measured
    }

    /// Calls `show` with every constraint at `x`, on all rows.
    pub(super) fn inspect<'a>(&'a self, x: &[f64], mut show: impl FnMut(&ConstraintDetail) -> Result<()>) -> Result<()> {
        crate::error::check_length("the point", x.len(), self.dim())?;
        let mut scratch = self.scratch();
        let buffers: &mut Buffers = scratch.get()?;
        let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
        for f in &self.constraints {
            let mut surrogate = vec![0.0; f.statistics];
            self.measure(f, at, &mut surrogate, buffers);
            let mut zero_one = surrogate.clone();
            let measured = self.replace_surrogate_rates(f, &mut zero_one, buffers).then(|| f.left(&zero_one));
            let open = |s: &'a Summand| SummandDetail {
                factor: s.factor,
                piece: &s.piece,
                populations: s.populations.iter().map(|&p| (p, self.current_view(p, buffers))).collect(),
                surrogate_statistics: &surrogate[s.statistics.clone()],
                measured_statistics: &zero_one[s.statistics.clone()],
            };
            let summands = f.pieces.iter().map(open).collect();
            show(&ConstraintDetail { name: &f.name, bound: f.bound, value: f.left(&surrogate), measured, summands })?;
        }
        Ok(())
    }
}

/// Returns the smallest number of rows on which the upper bound on an observed rate exceeds it by at most `room`; `None` if that
/// is not positive or no number is enough.
fn rows_needed(rate: f64, room: f64, confidence: f64) -> Result<Option<usize>> {
    /// More rows than this are not worth a number.
    const MOST: usize = 1 << 40;
    if room.is_nan() || room <= 0.0 {
        return Ok(None);
    }
    let enough = |n: usize| Ok::<_, Error>(rate_at_most(rate * n as f64, n as f64, confidence)? <= rate + room);
    let (mut low, mut high) = (0, 1);
    while !enough(high)? {
        if high >= MOST {
            return Ok(None);
        }
        (low, high) = (high, 2 * high);
    }
    while high > low + 1 {
        let middle = usize::midpoint(low, high);
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}
