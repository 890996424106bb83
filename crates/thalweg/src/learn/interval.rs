//! Confidence intervals of constraints on unseen rows, computed from held-out rows and valid for every number of rows. They do
//! not apply to rows that the point was fitted to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::function::Piece;
use super::inspect::{ConstraintDetail, SummandDetail};
use super::problem::Learning;
use super::term::{Rates, View};
use crate::error::check_finite;
use crate::math::{sigmoid, vec};
use crate::{Error, Result};

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

/// Computes a confidence interval for each constraint of `problem` at `x`.
///
/// The rows of `problem` must be independent and must not have influenced `x`: held-out rows, not training rows. Each interval
/// then contains the expected left-hand side (every mean over a population replaced by its expectation) with probability at
/// least `confidence`. This holds for each interval separately, also for the surrogate and the measured one; for m intervals to
/// hold together, use `1 - (1 - confidence) / m`.
///
/// A mean of n independent values in a range of length r, with sample variance V (divisor n - 1), is off by at most
///
/// ```text
/// sqrt(2 V L / n) + 7 r L / (3 (n - 1)),   L = ln(4 / delta)
/// ```
///
/// with probability at least `1 - delta`: the empirical Bernstein inequality, Theorem 4 of Maurer & Pontil, "Empirical
/// Bernstein bounds and sample variance penalization", COLT 2009, and its Theorem 11 for values that are not identically
/// distributed. The constants: one side has `L = ln(2 / delta)`, since delta is divided between two events, Bennett's
/// inequality with the true deviation s and an error of `sqrt(2 s^2 L / n) + r L / (3 n)`, and the bound `s <= sqrt(V) + r
/// sqrt(2 L / (n - 1))` on that deviation. Together they give the factor 2 + 1/3 = 7/3. Two sides with delta / 2 each give
/// `ln(4 / delta)`.
///
/// - Rates and their surrogates have values in [0, 1]. `1 - confidence` is divided equally between the populations of a
///   constraint, once for each summand; the interval of a gap covers all means within their intervals.
/// - Where groups are compared with the overall rate, the fractions of the groups in it are taken as fixed.
/// - Over several thresholds half of delta is used for the inequality above, divided by the number of thresholds, and half for
///   the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, `sqrt(ln(2 / delta) / (2 n))` for all thresholds at
///   once; the better of the two applies at each threshold.
/// - Row weights are taken as fixed: the values are weight times value, the weights scaled to mean 1, and the range is the
///   largest weight. The uniform inequality does not apply to them; thresholds share delta.
/// - Regularisers depend on `x` alone and are exact.
/// - A hinge or logistic loss and a Wasserstein gap have no known range, so there is no interval: the ends are `None`.
///
/// The cost is one pass over all rows for every threshold.
///
/// ```
/// use thalweg::learn::{Builder, Data, Groups, intervals};
/// use thalweg::math::Matrix;
/// # fn main() -> thalweg::Result<()> {
/// let features = Matrix::dense(800, 1, (0..800).map(|i| f64::from(i % 7) - 3.0).collect())?;
/// let groups = Groups { names: vec!["a".into(), "b".into()], of_row: (0..800).map(|i| i % 2).collect() };
/// let held_out = Data { features, labels: vec![1.0; 800], groups: Some(groups), weights: None };
/// let problem = Builder::new(held_out).minimize("l2".parse()?).subject_to("demographic_parity <= 0.3".parse()?).build()?;
/// let parity = &intervals(&problem, &[0.5], 0.95)?[0];
/// assert!(parity.high.is_some_and(|high| high < parity.bound));
/// # Ok(()) }
/// ```
pub fn intervals(problem: &Learning, x: &[f64], confidence: f64) -> Result<Vec<Interval>> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::setting("confidence", confidence, "a number between 0 and 1, for example 0.95"));
    }
    let mut list = vec![];
    problem.inspect(x, |constraint| {
        list.push(interval(constraint, confidence)?);
        Ok(())
    })?;
    Ok(list)
}

fn interval(constraint: &ConstraintDetail, confidence: f64) -> Result<Interval> {
    let ConstraintDetail { name, bound, value, measured, summands } = constraint;
    check_finite(&format!("'{name}' at the point"), *value)?;
    let summands: Vec<PreparedSummand> = summands.iter().map(PreparedSummand::of).collect();
    let means: usize = summands.iter().map(|s| s.samples.len()).sum();
    let delta = (1.0 - confidence) / means as f64;
    let ends = |kind| ends(&summands, kind, delta).map_or((None, None), |[low, high]| (Some(low), Some(high)));
    let (low, high) = ends(RateKind::Surrogate);
    let measured = measured.map(|value| {
        let (low, high) = ends(RateKind::Measured);
        MeasuredInterval { value, low, high }
    });
    Ok(Interval {
        name: (*name).to_owned(),
        bound: *bound,
        value: *value,
        low,
        high,
        measured,
        rows: rows(&summands),
        confidence,
        note: note(&summands),
    })
}

/// Summand with its samples.
struct PreparedSummand<'a> {
    detail: &'a SummandDetail<'a>,
    samples: Vec<Sample<'a>>,
}

impl<'a> PreparedSummand<'a> {
    fn of(detail: &'a SummandDetail<'a>) -> Self {
        PreparedSummand { detail, samples: detail.populations.iter().map(|(_, view)| Sample::of(*view)).collect() }
    }

    fn rates(&self) -> Option<Rates<'_>> {
        match &self.detail.piece {
            Piece::Term(term) => term.rates(),
            Piece::Penalty(_) => None,
        }
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.detail.piece, Piece::Term(_)) && self.rates().is_none()
    }

    /// Returns the interval of the summand without its factor; the interval of each population fails with probability `delta`.
    fn ends(&self, kind: RateKind, delta: f64) -> Option<[f64; 2]> {
        let statistics = match kind {
            RateKind::Surrogate => self.detail.surrogate_statistics,
            RateKind::Measured => self.detail.measured_statistics,
        };
        if let Piece::Penalty(_) = self.detail.piece {
            return Some([statistics[0]; 2]);
        }
        let rates = self.rates()?;
        let width = rates.thresholds.len();
        let ranges: Vec<[f64; 2]> = self
            .samples
            .iter()
            .zip(statistics.chunks(width.max(1)))
            .flat_map(|(sample, means)| sample.ranges(rates, means, kind, delta))
            .collect();
        Some(rates.comparison.enclosure(width, |k, position| ranges[k * width + position]))
    }
}

/// Returns the interval of the sum; `None` if a summand has none.
fn ends(summands: &[PreparedSummand], kind: RateKind, delta: f64) -> Option<[f64; 2]> {
    summands.iter().try_fold([0.0; 2], |[low, high], s| {
        let [a, b] = s.ends(kind, delta)?;
        // Factors are positive.
        Some([low + s.detail.factor * a, high + s.detail.factor * b])
    })
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
    if summands.iter().any(PreparedSummand::is_unbounded) {
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

    /// Returns the intervals of the expected rates at all thresholds, which hold together with probability `1 - delta`.
    fn ranges(&self, rates: Rates, means: &[f64], kind: RateKind, delta: f64) -> Vec<[f64; 2]> {
        let n = self.scores.len();
        let positions = rates.thresholds.len();
        // Choosing the better of two inequalities from the data requires both to hold, hence half of delta for each.
        let (uniform, delta) = match self.weights {
            None if positions > 1 => (massart(n, 0.5 * delta), 0.5 * delta),
            _ => (f64::INFINITY, delta),
        };
        let largest = self.weights.as_ref().and_then(|w| vec::first_max(w)).map_or(1.0, |(_, w)| w);
        let mut values = vec![0.0; n];
        rates
            .thresholds
            .iter()
            .zip(means)
            .map(|(&threshold, &mean)| {
                self.fill(threshold, rates.temperature, kind, &mut values);
                let variance = vec::sum_by(n, |i| (values[i] - mean).powi(2)) / (n as f64 - 1.0);
                let half = bernstein(n, variance, largest, delta / positions as f64).min(uniform);
                // An expected rate is in [0, 1]; the measured one may leave it by a rounding error.
                [(mean - half).max(0.0).min(mean), (mean + half).min(1.0).max(mean)]
            })
            .collect()
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

/// Bounds the error of a mean of `n` values by the two-sided empirical Bernstein inequality ([`intervals`]). A single row gives
/// no bound.
fn bernstein(n: usize, variance: f64, range: f64, delta: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let log = (4.0 / delta).ln();
    (2.0 * variance * log / n as f64).sqrt() + 7.0 * range * log / (3.0 * (n as f64 - 1.0))
}

/// Bounds the error of the fraction of rows above a threshold, for all thresholds at once, by the two-sided
/// Dvoretzky-Kiefer-Wolfowitz inequality with the constant of Massart (1990).
///
/// It also holds for the surrogate. With l drawn from the logistic distribution, whose distribution function is the sigmoid,
/// `sigmoid((s - c) / t)` is the probability of `l <= (s - c) / t`, that is, of `s >= c + t l`. With `G(u)` the fraction of all
/// rows at or above u and `H(u)` that of the drawn ones, the surrogates at threshold c are `E_l G(c + t l)` and `E_l H(c + t
/// l)`, and
///
/// ```text
/// |E_l H(c + t l) - E_l G(c + t l)| <= E_l |H(c + t l) - G(c + t l)| <= sup_u |H(u) - G(u)|
/// ```
///
/// for all c and t. The inequality bounds the last expression: fractions "at or above" and "above" a threshold are limits of
/// each other from the left and from the right, so that their largest differences agree.
fn massart(n: usize, delta: f64) -> f64 {
    ((2.0 / delta).ln() / (2.0 * n as f64)).sqrt()
}
