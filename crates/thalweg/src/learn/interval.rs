//! How far the constraints on unseen rows can be from those on held-out rows: confidence intervals that hold for every number
//! of rows. Nothing here is of use on rows that the point was chosen on.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::function::Piece;
use super::inspect::{Opened, OpenedSummand};
use super::problem::Learning;
use super::term::{Rates, View};
use crate::error::check_finite;
use crate::math::{sigmoid, vec};
use crate::{Error, Result};

/// A confidence interval of a constraint's left-hand side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Name of the constraint.
    pub name: String,
    /// What the left-hand side should stay below.
    pub bound: f64,
    /// The left-hand side on these rows, as it is trained on.
    pub value: f64,
    /// Lower end of the interval; none if there is no interval, and `note` says why.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// The same with 0/1 rates in place of softened ones; none for a constraint that softens nothing.
    pub counted: Option<Counted>,
    /// Rows of positive weight in each population that the constraint is computed on.
    pub rows: Vec<usize>,
    /// Probability, over the draw of the rows, that an interval of this kind holds the expectation.
    pub confidence: f64,
    /// What a careful reader should know.
    pub note: Option<String>,
}

/// The side of an [`Interval`] with counted rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The left-hand side on these rows.
    pub value: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// A confidence interval for each constraint of `problem` at `x`.
///
/// The rows of `problem` must be independent and must have had no part in the choice of `x`: held-out rows, not those of the
/// training. Each interval then holds the left-hand side in expectation (every mean over a population replaced by the mean
/// over all rows that could have been drawn) with probability of at least `confidence`. That is for each of them alone, the
/// counted one apart from the softened one; for m intervals to hold together, ask for `1 - (1 - confidence) / m`.
///
/// A mean of n independent values in a range of length r, with sample variance V (divisor n - 1), is off by at most
///
/// ```text
/// sqrt(2 V L / n) + 7 r L / (3 (n - 1)),   L = ln(4 / delta)
/// ```
///
/// with probability of at least `1 - delta`: the empirical Bernstein inequality, Theorem 4 of Maurer & Pontil, "Empirical
/// Bernstein bounds and sample variance penalization", COLT 2009, and its Theorem 11 for values that are not identically
/// distributed. Where the constants come from: one side needs `L = ln(2 / delta)`, since delta is divided between two events,
/// Bennett's inequality with the true deviation s, which is off by `sqrt(2 s^2 L / n) + r L / (3 n)`, and the inequality of
/// that deviation, `s <= sqrt(V) + r sqrt(2 L / (n - 1))`. Together they have the factor 2 + 1/3 = 7/3. Two sides with
/// delta / 2 each give `ln(4 / delta)`.
///
/// - Rates and their softened forms have values in [0, 1]. `1 - confidence` is divided equally between the populations of a
///   constraint, once for each summand; a gap gets all values that means within their intervals can give.
/// - More than two groups are compared with the overall rate, in which the groups' shares of the rows count as fixed.
/// - Over several thresholds half of delta goes to the inequality above, divided by the number of thresholds, and half to the
///   Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, `sqrt(ln(2 / delta) / (2 n))` for all thresholds at once;
///   the better of the two counts at each threshold.
/// - Row weights count as fixed: the values are weight times value, the weights scaled to mean 1, and the largest weight is the
///   range. There is no uniform inequality for them here; thresholds share delta.
/// - Regularisers depend on `x` alone and are exact.
/// - A hinge or logistic loss and a Wasserstein gap have no known range, so there is no interval: the ends are `None`.
///
/// The cost is that of every row at every threshold.
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
    problem.open(x, |constraint| {
        list.push(interval(constraint, confidence)?);
        Ok(())
    })?;
    Ok(list)
}

fn interval(constraint: &Opened, confidence: f64) -> Result<Interval> {
    let Opened { name, bound, value, counted, summands } = constraint;
    check_finite(&format!("'{name}' at the point"), *value)?;
    let summands: Vec<Known> = summands.iter().map(Known::of).collect();
    let means: usize = summands.iter().map(|s| s.samples.len()).sum();
    let delta = (1.0 - confidence) / means as f64;
    let ends = |step| ends(&summands, step, delta).map_or((None, None), |[low, high]| (Some(low), Some(high)));
    let (low, high) = ends(Step::Soft);
    let counted = counted.map(|value| {
        let (low, high) = ends(Step::Hard);
        Counted { value, low, high }
    });
    Ok(Interval {
        name: (*name).to_owned(),
        bound: *bound,
        value: *value,
        low,
        high,
        counted,
        rows: rows(&summands),
        confidence,
        note: note(&summands),
    })
}

/// A summand with its rows made ready.
struct Known<'a> {
    opened: &'a OpenedSummand<'a>,
    samples: Vec<Sample<'a>>,
}

impl<'a> Known<'a> {
    fn of(opened: &'a OpenedSummand<'a>) -> Self {
        Known { opened, samples: opened.populations.iter().map(|(_, view)| Sample::of(*view)).collect() }
    }

    fn rates(&self) -> Option<Rates<'_>> {
        match &self.opened.piece {
            Piece::Term(term) => term.rates(),
            Piece::Penalty(_) => None,
        }
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.opened.piece, Piece::Term(_)) && self.rates().is_none()
    }

    /// Between which values the summand without its factor lies, each population being wrong with probability `delta`.
    fn ends(&self, step: Step, delta: f64) -> Option<[f64; 2]> {
        let statistics = match step {
            Step::Soft => self.opened.soft,
            Step::Hard => self.opened.hard,
        };
        if let Piece::Penalty(_) = self.opened.piece {
            return Some([statistics[0]; 2]);
        }
        let rates = self.rates()?;
        let width = rates.thresholds.len();
        let ranges: Vec<[f64; 2]> = self
            .samples
            .iter()
            .zip(statistics.chunks(width.max(1)))
            .flat_map(|(sample, means)| sample.ranges(rates, means, step, delta))
            .collect();
        Some(rates.compared.enclosure(width, |k, position| ranges[k * width + position]))
    }
}

/// Between which values the sum lies; none if one of the summands can be anything.
fn ends(summands: &[Known], step: Step, delta: f64) -> Option<[f64; 2]> {
    summands.iter().try_fold([0.0; 2], |[low, high], s| {
        let [a, b] = s.ends(step, delta)?;
        // Factors are positive.
        Some([low + s.opened.factor * a, high + s.opened.factor * b])
    })
}

/// Sizes of the populations, each once.
fn rows(summands: &[Known]) -> Vec<usize> {
    let mut seen = vec![];
    let mut sizes = vec![];
    for s in summands {
        for ((p, _), sample) in s.opened.populations.iter().zip(&s.samples) {
            if !seen.contains(p) {
                seen.push(*p);
                sizes.push(sample.scores.len());
            }
        }
    }
    sizes
}

fn note(summands: &[Known]) -> Option<String> {
    if summands.iter().any(Known::is_unbounded) {
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
    if summands.iter().filter_map(Known::rates).any(|rates| rates.compared.uses_shares()) {
        notes.push("the groups' shares in the overall rate are taken as fixed");
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Whether the step at a threshold is softened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Soft,
    Hard,
}

/// The rows of a population that count.
struct Sample<'a> {
    scores: Cow<'a, [f64]>,
    /// Mean 1; none if all are the same.
    weights: Option<Vec<f64>>,
}

impl<'a> Sample<'a> {
    /// Rows of weight 0 are as good as absent: left in, they would make the range of the others larger.
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

    /// Where the expected rate at every threshold lies, all at once with probability `1 - delta`.
    fn ranges(&self, rates: Rates, means: &[f64], step: Step, delta: f64) -> Vec<[f64; 2]> {
        let n = self.scores.len();
        let positions = rates.thresholds.len();
        // A choice between two inequalities by what the rows say needs both to hold, hence half of delta for each.
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
                self.fill(threshold, rates.temperature, step, &mut values);
                let variance = vec::sum_by(n, |i| (values[i] - mean).powi(2)) / (n as f64 - 1.0);
                let half = bernstein(n, variance, largest, delta / positions as f64).min(uniform);
                // An expected rate is in [0, 1]; the measured one may leave it by a rounding error.
                [(mean - half).max(0.0).min(mean), (mean + half).min(1.0).max(mean)]
            })
            .collect()
    }

    /// The values that the rate at a threshold is the mean of.
    fn fill(&self, threshold: f64, temperature: f64, step: Step, out: &mut [f64]) {
        match step {
            Step::Soft => sigmoid::sigmoids_at(&self.scores, threshold, temperature, out),
            Step::Hard => out.iter_mut().zip(&*self.scores).for_each(|(o, &s)| *o = f64::from(u8::from(s > threshold))),
        }
        if let Some(weights) = &self.weights {
            out.iter_mut().zip(weights).for_each(|(o, w)| *o *= w);
        }
    }
}

/// The empirical Bernstein inequality for both sides ([`intervals`]): by how much a mean of `n` values can be off. One row
/// says nothing.
fn bernstein(n: usize, variance: f64, range: f64, delta: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let log = (4.0 / delta).ln();
    (2.0 * variance * log / n as f64).sqrt() + 7.0 * range * log / (3.0 * (n as f64 - 1.0))
}

/// The Dvoretzky-Kiefer-Wolfowitz inequality for both sides, with the constant of Massart (1990): by how much the share of rows
/// above a threshold can be off, for all thresholds at once.
///
/// It holds for the softened share as well. With l drawn from the logistic distribution, whose distribution function is the
/// sigmoid, `sigmoid((s - c) / t)` is the probability of `l <= (s - c) / t`, that is, of `s >= c + t l`. With `G(u)` the share
/// of all rows at or above u and `H(u)` that of the drawn ones, the softened shares at threshold c are therefore
/// `E_l G(c + t l)` and `E_l H(c + t l)`, and
///
/// ```text
/// |E_l H(c + t l) - E_l G(c + t l)| <= E_l |H(c + t l) - G(c + t l)| <= sup_u |H(u) - G(u)|
/// ```
///
/// whatever c and t are. The last is what the inequality bounds: shares "at or above" and "above" are limits of one another
/// from the left and from the right, so that their largest differences agree.
fn massart(n: usize, delta: f64) -> f64 {
    ((2.0 / delta).ln() / (2.0 * n as f64)).sqrt()
}
