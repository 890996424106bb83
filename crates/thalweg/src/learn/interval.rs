//! Confidence intervals of constraints on unseen rows, computed from held-out rows and valid for every number of rows. They do
//! not apply to rows that the point was fitted to; the intervals of single rates are in [`crate::certify`].

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::function::Piece;
use super::gap::Contrast;
use super::inspect::{ConstraintDetail, SummandDetail};
use super::problem::Learning;
use super::term::{Comparison, Rates, View};
use crate::Result;
use crate::certify::{
    Counts, Difference, check_confidence, distribution_half_width, mean_half_width, rate_at_least, rate_at_most, split_error,
};
use crate::error::check_finite;
use crate::math::{sigmoid, vec};

/// Confidence interval of a constraint's left-hand side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Name of the constraint.
    pub name: String,
    /// Bound of the constraint.
    pub bound: f64,
    /// Left-hand side on these rows, with surrogate rates as in training.
    pub value: f64,
    /// Lower end; `None` if there is no interval, with the reason in `note`.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Interval with 0/1 rates in place of their surrogates; `None` for a constraint without rates.
    #[serde(alias = "counted")]
    pub measured: Option<MeasuredInterval>,
    /// Rows of positive weight in each population that the constraint is computed on.
    pub rows: Vec<usize>,
    /// Probability, over the draw of the rows, that such an interval contains the expectation.
    pub confidence: f64,
    /// Assumptions behind the interval, or the reason why there is none.
    pub note: Option<String>,
}

/// Interval of a constraint with measured 0/1 rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredInterval {
    /// Left-hand side on these rows.
    pub value: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// Number of terms in all signed differences up to which two rates are compared by the exact test, and the error of other
/// differences is divided by the numbers of rows. Above it, every difference is put together from the same intervals of the single
/// means.
const EXACT: usize = 4000;

/// Lines of a table that a confidence refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// Each interval contains its value with the stated confidence.
    #[default]
    EachLine,
    /// All intervals together contain their values with the stated confidence (Bonferroni).
    AllLines,
}

/// Computes a confidence interval for each constraint of `problem` at `x`.
///
/// The rows of `problem` must be independent and must not have influenced `x`: held-out rows, not training rows. Each interval
/// then contains the expected left-hand side (every mean over a population replaced by its expectation) with probability at
/// least `confidence`, which holds for each interval separately, also for the surrogate and the measured one, or for all of them
/// at once, as `coverage` says. Either end fails with half of the remaining probability.
///
/// - A 0/1 rate has the exact interval of Clopper and Pearson ([`clopper_pearson`](crate::certify::clopper_pearson)), the
///   difference of two rates the exact one of [`difference_at_most`](crate::certify::difference_at_most).
/// - A surrogate is a mean of values in [0, 1], for which the empirical Bernstein inequality holds
///   ([`mean_half_width`](crate::certify::mean_half_width)). So are weighted rates: row weights are taken as fixed, and the
///   values are weight times value with weights of mean 1 and the largest weight as their range.
/// - Bounds on several means are put together with their factors, and the error is divided between them so that the sum is
///   short, by the numbers of rows alone. In a comparison with the overall rate the fractions of the groups are taken as fixed.
/// - A gap is the largest of m signed differences: two for each pair of groups and each threshold. Its upper end is the
///   largest of their upper bounds, each with the full error e: it can only be too small if the bound on the difference that is
///   truly the largest is. Its lower end is the largest of their lower bounds, with the error e / (m - 1) each. The difference
///   opposite to the largest one needs no share: if its lower bound fails, so does the upper end, whose failure is counted.
/// - Over several thresholds of a surrogate without weights, half of the error of the lower end is for the inequality of
///   Dvoretzky, Kiefer and Wolfowitz ([`distribution_half_width`](crate::certify::distribution_half_width)), which holds for all
///   thresholds at once; the larger of the two lower ends counts.
/// - The summands of a constraint share the error equally. Regularisers depend on `x` alone and are exact.
/// - A hinge or logistic loss and a Wasserstein gap have no known range, so there is no interval: the ends are `None`.
///
/// The inequality for all thresholds also holds for surrogates. With l drawn from the logistic distribution, whose distribution
/// function is the sigmoid, `sigmoid((s - c) / t)` is the probability of `l <= (s - c) / t`, that is, of `s >= c + t l`. With
/// `G(u)` the fraction of all rows at or above u and `H(u)` that of the drawn ones, the surrogates at threshold c are `E_l G(c + t
/// l)` and `E_l H(c + t l)`, and
///
/// ```text
/// |E_l H(c + t l) - E_l G(c + t l)| <= E_l |H(c + t l) - G(c + t l)| <= sup_u |H(u) - G(u)|
/// ```
///
/// for all c and t. The inequality bounds the last expression: fractions "at or above" and "above" a threshold are limits of
/// each other from the left and from the right, so that their largest differences agree.
///
/// The cost is one pass over all rows for every threshold, and for exact differences a multiple of the root of the number of
/// rows.
///
/// ```
/// use thalweg::learn::{Builder, Coverage, Data, Groups, intervals};
/// use thalweg::math::Matrix;
/// # fn main() -> thalweg::Result<()> {
/// let features = Matrix::dense(800, 1, (0..800).map(|i| f64::from(i % 7) - 3.0).collect())?;
/// let groups = Groups { names: vec!["a".into(), "b".into()], of_row: (0..800).map(|i| i % 2).collect() };
/// let held_out = Data { features, labels: vec![1.0; 800], groups: Some(groups), weights: None };
/// let problem = Builder::new(held_out).minimize("l2".parse()?).subject_to("demographic_parity <= 0.3".parse()?).build()?;
/// let parity = &intervals(&problem, &[0.5], 0.95, Coverage::EachLine)?[0];
/// assert!(parity.high.is_some_and(|high| high < parity.bound));
/// # Ok(()) }
/// ```
pub fn intervals(problem: &Learning, x: &[f64], confidence: f64, coverage: Coverage) -> Result<Vec<Interval>> {
    check_confidence(confidence)?;
    let mut error = 1.0 - confidence;
    if coverage == Coverage::AllLines {
        let mut lines = 0;
        problem.inspect(x, |constraint| {
            let random = constraint.summands.iter().any(|s| matches!(s.piece, Piece::Term(_)));
            lines += usize::from(random) + usize::from(constraint.measured.is_some());
            Ok(())
        })?;
        error /= lines.max(1) as f64;
    }
    let mut list = vec![];
    problem.inspect(x, |constraint| {
        let ConstraintDetail { name, bound, value, measured, summands } = constraint;
        check_finite(&format!("'{name}' at the point"), *value)?;
        let summands: Vec<PreparedSummand> = summands.iter().map(PreparedSummand::of).collect();
        let ends = |kind| Some([end(&summands, kind, Side::Low, 0.5 * error)?, end(&summands, kind, Side::High, 0.5 * error)?]);
        let [low, high] = ends(RateKind::Surrogate).map_or([None; 2], |ends| ends.map(Some));
        let measured = measured.map(|value| {
            let [low, high] = ends(RateKind::Measured).map_or([None; 2], |ends| ends.map(Some));
            MeasuredInterval { value, low, high }
        });
        list.push(Interval {
            name: (*name).to_owned(),
            bound: *bound,
            value: *value,
            low,
            high,
            measured,
            rows: rows(&summands),
            confidence,
            note: note(&summands),
        });
        Ok(())
    })?;
    Ok(list)
}

/// One-sided bound on a constraint with 0/1 rates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UpperBound {
    /// Left-hand side on the rows.
    pub(super) value: f64,
    /// What it is at most on unseen rows; `None` if that is not known.
    pub(super) high: Option<f64>,
    /// Rows in each population.
    pub(super) rows: Vec<usize>,
    /// Assumptions behind the bound.
    pub(super) note: Option<String>,
}

/// Computes, for each constraint, a bound on its left-hand side with 0/1 rates that holds on unseen rows with the given
/// confidence, as the upper ends of [`intervals`] do but with the whole error. With a `factor` other than 1, it is the bound
/// that the same rates on so many times the rows would give.
pub(super) fn upper_bounds(problem: &Learning, x: &[f64], confidence: f64, factor: f64) -> Result<Vec<UpperBound>> {
    check_confidence(confidence)?;
    let mut list = vec![];
    problem.inspect(x, |constraint| {
        let value = constraint.measured.unwrap_or(constraint.value);
        check_finite(&format!("'{}' at the point", constraint.name), value)?;
        let prepared = |s| PreparedSummand { rows_factor: factor, ..PreparedSummand::of(s) };
        let summands: Vec<PreparedSummand> = constraint.summands.iter().map(prepared).collect();
        list.push(UpperBound {
            value,
            high: end(&summands, RateKind::Measured, Side::High, 1.0 - confidence),
            rows: rows(&summands),
            note: note(&summands),
        });
        Ok(())
    })?;
    Ok(list)
}

/// Summand with its samples.
struct PreparedSummand<'a> {
    detail: &'a SummandDetail<'a>,
    samples: Vec<Sample<'a>>,
    /// How many times as many rows are assumed to have the same rates.
    rows_factor: f64,
}

impl<'a> PreparedSummand<'a> {
    fn of(detail: &'a SummandDetail<'a>) -> Self {
        let samples = detail.populations.iter().map(|(_, view)| Sample::of(*view)).collect();
        PreparedSummand { detail, samples, rows_factor: 1.0 }
    }

    fn rates(&self) -> Option<Rates<'_>> {
        match &self.detail.piece {
            Piece::Term(term) => term.rates(),
            Piece::Penalty(_) => None,
        }
    }

    fn is_random(&self) -> bool {
        matches!(self.detail.piece, Piece::Term(_))
    }

    /// Returns a bound on the summand without its factor, which fails with probability `error`.
    fn end(&self, kind: RateKind, side: Side, error: f64) -> Option<f64> {
        let statistics = match kind {
            RateKind::Surrogate => self.detail.surrogate_statistics,
            RateKind::Measured => self.detail.measured_statistics,
        };
        if let Piece::Penalty(_) = self.detail.piece {
            return Some(statistics[0]);
        }
        let rates = self.rates()?;
        let width = rates.thresholds.len();
        let means: Vec<Mean> = self
            .samples
            .iter()
            .zip(statistics.chunks(width.max(1)))
            .flat_map(|(sample, means)| sample.means(rates, means, kind, self.rows_factor))
            .collect();
        let terms = Forms { means, positions: width, comparison: rates.comparison };
        Some(match side {
            Side::High => terms.high(error),
            Side::Low => terms.low(error, kind == RateKind::Surrogate),
        })
    }
}

/// Returns a bound on the sum that fails with probability `error`; `None` if a summand has none.
fn end(summands: &[PreparedSummand], kind: RateKind, side: Side, error: f64) -> Option<f64> {
    let random = summands.iter().filter(|s| s.is_random()).count();
    // Factors are positive.
    summands.iter().try_fold(0.0, |sum, s| Some(sum + s.detail.factor * s.end(kind, side, error / random as f64)?))
}

/// Returns the sizes of the distinct populations.
fn rows(summands: &[PreparedSummand]) -> Vec<usize> {
    let mut seen = vec![];
    let mut sizes = vec![];
    for s in summands {
        for ((p, _), sample) in s.detail.populations.iter().zip(&s.samples) {
            if !seen.contains(p) {
                seen.push(*p);
                sizes.push(sample.scores.len());
            }
        }
    }
    sizes
}

fn note(summands: &[PreparedSummand]) -> Option<String> {
    if summands.iter().any(|s| s.is_random() && s.rates().is_none()) {
        return Some(
            "no interval: the value of a row has no limit that is known beforehand, so that a few unseen rows could \
             move its mean by any amount"
                .into(),
        );
    }
    let mut notes = vec![];
    if summands.iter().flat_map(|s| &s.samples).any(|s| s.weights.is_some()) {
        notes.push("row weights are taken as fixed");
    }
    if summands.iter().filter_map(PreparedSummand::rates).any(|rates| rates.comparison.uses_shares()) {
        notes.push("the groups' shares in the overall rate are taken as fixed");
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// End of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Low,
    High,
}

/// Rate that an interval is computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateKind {
    Surrogate,
    Measured,
}

/// Rows of a population with positive weight.
struct Sample<'a> {
    scores: Cow<'a, [f64]>,
    /// Weights with mean 1; `None` if all are equal.
    weights: Option<Vec<f64>>,
}

impl<'a> Sample<'a> {
    /// Drops rows of weight 0, which would widen the range of the others.
    fn of(view: View<'a>) -> Self {
        let Some(weights) = view.weights else {
            return Sample { scores: Cow::Borrowed(view.scores), weights: None };
        };
        let present: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
        let scale = present.len() as f64 / weights.len() as f64;
        let differ = present.windows(2).any(|pair| weights[pair[0]] != weights[pair[1]]);
        Sample {
            scores: present.iter().map(|&i| view.scores[i]).collect(),
            weights: differ.then(|| present.iter().map(|&i| scale * weights[i]).collect()),
        }
    }

    /// Returns the rate at each threshold, as if `factor` times as many rows had it.
    fn means(&self, rates: Rates, means: &[f64], kind: RateKind, factor: f64) -> Vec<Mean> {
        let n = self.scores.len();
        let rows = (factor * n as f64).round().max(1.0) as usize;
        let largest = self.weights.as_ref().and_then(|w| vec::first_max(w)).map_or(1.0, |(_, w)| w);
        let mut values = vec![0.0; n];
        let mean = |(&threshold, &mean): (&f64, &f64)| {
            if kind == RateKind::Measured && self.weights.is_none() {
                let above = self.scores.iter().filter(|s| **s > threshold).count();
                let successes = (above as f64 * rows as f64 / n as f64).round().min(rows as f64) as u64;
                return Mean { value: mean, rows, spread: Spread::Counts(Counts { successes, trials: rows as u64 }) };
            }
            self.fill(threshold, rates.temperature, kind, &mut values);
            let variance = vec::sum_by(n, |i| (values[i] - mean).powi(2)) / (n as f64 - 1.0);
            Mean { value: mean, rows, spread: Spread::Values { variance, range: largest, weighted: self.weights.is_some() } }
        };
        rates.thresholds.iter().zip(means).map(mean).collect()
    }

    /// Computes the values whose mean is the rate at a threshold.
    fn fill(&self, threshold: f64, temperature: f64, kind: RateKind, out: &mut [f64]) {
        match kind {
            RateKind::Surrogate => sigmoid::sigmoids_at(&self.scores, threshold, temperature, out),
            RateKind::Measured => out.iter_mut().zip(&*self.scores).for_each(|(o, &s)| *o = f64::from(u8::from(s > threshold))),
        }
        if let Some(weights) = &self.weights {
            out.iter_mut().zip(weights).for_each(|(o, w)| *o *= w);
        }
    }
}

/// Mean of the values of a population, with what its error depends on.
#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    rows: usize,
    spread: Spread,
}

#[derive(Debug, Clone, Copy)]
enum Spread {
    /// Values 0 and 1 of equal weight.
    Counts(Counts),
    /// Values in a range, with their sample variance.
    Values { variance: f64, range: f64, weighted: bool },
}

impl Mean {
    /// Returns a bound on the expectation that fails with probability `error`. An expected rate is in [0, 1]; the observed one
    /// may leave it by a rounding error.
    fn end(&self, side: Side, error: f64) -> f64 {
        let off = match self.spread {
            Spread::Counts(Counts { successes, trials }) => {
                let (k, n) = (successes as f64, trials as f64);
                let bound = if side == Side::High { rate_at_most } else { rate_at_least };
                // Only an error that is no number between 0 and 1 has no bound.
                return bound(k, n, 1.0 - error).unwrap_or(if side == Side::High { 1.0 } else { 0.0 });
            }
            Spread::Values { variance, range, .. } => mean_half_width(self.rows, variance, range, error),
        };
        self.within(side, off)
    }

    fn within(&self, side: Side, off: f64) -> f64 {
        match side {
            Side::High => (self.value + off).min(1.0).max(self.value),
            Side::Low => (self.value - off).max(0.0).min(self.value),
        }
    }
}

/// Signed linear combinations of means whose maximum is a term.
struct Forms<'a> {
    /// By population, then by position.
    means: Vec<Mean>,
    positions: usize,
    comparison: Comparison<'a>,
}

/// One of them: a constant plus means, by their indices, with their coefficients.
struct Form {
    constant: f64,
    means: Vec<(usize, f64)>,
    value: f64,
}

impl Form {
    fn at_ends(&self, side: Side, end: impl Fn(usize, usize, Side) -> f64) -> f64 {
        let opposite = if side == Side::High { Side::Low } else { Side::High };
        let term = |(place, &(i, c)): (usize, &(usize, f64))| c * end(place, i, if c > 0.0 { side } else { opposite });
        self.constant + self.means.iter().enumerate().map(term).sum::<f64>()
    }
}

/// How the bound on a form follows from its means.
enum Method {
    /// By the exact test, or with an error divided by the numbers of rows.
    Each,
    /// From bounds below and above every mean.
    Shared(Vec<[f64; 2]>),
}

impl Forms<'_> {
    fn form(&self, constant: f64, means: Vec<(usize, f64)>) -> Form {
        let value = constant + means.iter().map(|&(i, c)| c * self.means[i].value).sum::<f64>();
        Form { constant, means, value }
    }

    fn of_contrast(&self, contrast: &Contrast, first: usize, out: &mut Vec<Form>) {
        for position in 0..self.positions {
            for row in 0..contrast.rows() {
                for sign in [1.0, -1.0] {
                    let mean = |(k, c): (usize, f64)| ((first + k) * self.positions + position, sign * c);
                    out.push(self.form(0.0, contrast.coefficients(row).filter(|(_, c)| *c != 0.0).map(mean).collect()));
                }
            }
        }
    }

    /// Returns all forms, the largest first.
    fn list(&self) -> Vec<Form> {
        let mut out = vec![];
        match self.comparison {
            Comparison::Gap(contrast) => self.of_contrast(contrast, 0, &mut out),
            Comparison::Larger([one, other]) => {
                self.of_contrast(one, 0, &mut out);
                self.of_contrast(other, one.groups(), &mut out);
            }
            Comparison::Share => out.push(self.form(0.0, vec![(0, 1.0)])),
            Comparison::Rest => out.push(self.form(1.0, vec![(0, -1.0)])),
        }
        out.sort_by(|a, b| b.value.total_cmp(&a.value));
        out
    }

    /// Chooses how the forms are bounded, by their number alone.
    fn method(&self, forms: &[Form], error: f64) -> Method {
        if forms.iter().map(|form| form.means.len()).sum::<usize>() <= EXACT {
            return Method::Each;
        }
        let longest = forms.iter().map(|form| form.means.len()).max().unwrap_or(1);
        Method::Shared(
            self.means.iter().map(|mean| [Side::Low, Side::High].map(|side| mean.end(side, error / longest as f64))).collect(),
        )
    }

    /// Returns the difference of two counted rates that a form is.
    fn difference(&self, form: &Form, method: &Method) -> Option<Difference> {
        let (Method::Each, &[(i, c), (j, d)]) = (method, &form.means[..]) else { return None };
        match (self.means[i].spread, self.means[j].spread) {
            (Spread::Counts(a), Spread::Counts(b)) if (c, d) == (1.0, -1.0) => Some(Difference::new(a, b)),
            (Spread::Counts(a), Spread::Counts(b)) if (c, d) == (-1.0, 1.0) => Some(Difference::new(b, a)),
            _ => None,
        }
    }

    /// Returns a bound on a form from bounds on its means.
    fn end(&self, form: &Form, method: &Method, side: Side, error: f64) -> f64 {
        match method {
            Method::Shared(ends) => form.at_ends(side, |_, i, side| ends[i][usize::from(side == Side::High)]),
            Method::Each => {
                let widths: Vec<f64> = form.means.iter().map(|&(i, c)| c.abs() / (self.means[i].rows as f64).sqrt()).collect();
                let errors = split_error(&widths, error);
                form.at_ends(side, |place, i, side| self.means[i].end(side, errors[place]))
            }
        }
    }

    /// Returns whether the term is a largest difference, which is from 0 to 1.
    fn is_gap(&self) -> bool {
        matches!(self.comparison, Comparison::Gap(_) | Comparison::Larger(_))
    }

    /// Returns an upper bound on the largest form: the largest of their upper bounds, each of which fails with probability `error`.
    fn high(&self, error: f64) -> f64 {
        let forms = self.list();
        let method = self.method(&forms, error);
        let mut high = if self.is_gap() { 0.0 } else { f64::NEG_INFINITY };
        let mut seen = HashSet::new();
        for form in &forms {
            high = match self.difference(form, &method) {
                // Neighbouring thresholds often separate the same rows.
                Some(difference) if !seen.insert(difference) => high,
                // Most are far below the largest, which a single test shows.
                Some(difference) if difference.rejects(high, error) => high,
                Some(difference) => high.max(difference.at_most(error)),
                None => high.max(self.end(form, &method, Side::High, error)),
            };
        }
        if self.is_gap() { high.min(1.0) } else { high }
    }

    /// Returns a lower bound on the largest form, which fails with probability `error` beyond the failure of [`Forms::high`] with
    /// the same error.
    fn low(&self, error: f64, surrogate: bool) -> f64 {
        let forms = self.list();
        if !self.is_gap() {
            let method = Method::Each;
            return forms.iter().map(|form| self.end(form, &method, Side::Low, error)).fold(f64::NEG_INFINITY, f64::max);
        }
        let weighted = self.means.iter().any(|mean| matches!(mean.spread, Spread::Values { weighted: true, .. }));
        let band = surrogate && self.positions > 1 && !weighted;
        let (mut low, error) = if band { (self.band_low(&forms, 0.5 * error), 0.5 * error) } else { (0.0_f64, error) };
        let error = error / (forms.len() - 1).max(1) as f64;
        let method = self.method(&forms, error);
        let mut seen = HashSet::new();
        for form in &forms {
            if form.value <= low {
                break;
            }
            low = match self.difference(form, &method) {
                Some(difference) if !seen.insert(difference) => low,
                // A lower bound on a difference is an upper bound on the opposite one.
                Some(difference) if !difference.opposite().rejects(-low, error) => low,
                Some(difference) => low.max(-difference.opposite().at_most(error)),
                None => low.max(self.end(form, &method, Side::Low, error)),
            };
        }
        low
    }

    /// Returns a lower bound on the largest form from bands around the means of each population that hold at all thresholds.
    fn band_low(&self, forms: &[Form], error: f64) -> f64 {
        let populations = (self.means.len() / self.positions.max(1)).max(1);
        let off = |mean: &Mean| distribution_half_width(mean.rows, error / populations as f64);
        let end = |_: usize, i: usize, side: Side| self.means[i].within(side, off(&self.means[i]));
        forms.iter().map(|form| form.at_ends(Side::Low, end)).fold(0.0, f64::max)
    }
}
