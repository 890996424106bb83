//! Metrics of a learning problem at recorded iterates: the accuracy, sums of terms and measured rates, on the training rows and
//! on held-out rows. They are evaluated by the runs of the library.

use std::sync::Arc;

use thalweg::learn::{Bound, BoundedExpression, Expression, Learning};
use thalweg::oracle::Description;
use thalweg::run::{self, Metric};
use thalweg::suggest::did_you_mean;

use crate::job::Instance;
use crate::{Error, Result};

/// Name of the share of rows whose score has the sign of the label.
const ACCURACY: &str = "accuracy";
/// Name of the largest difference of measured rates between groups over all thresholds.
const MEASURED_ROC_GAP: &str = "measured_roc_gap";
/// Prefix and suffix of a sum with measured rates.
const MEASURED: [&str; 2] = ["measured(", ")"];
/// Prefixes of names that were renamed: the former and the present one.
const RENAMED: [(&str, &str); 2] = [("counted(", MEASURED[0]), ("counted_roc_gap", MEASURED_ROC_GAP)];
/// Prefixes of metrics on rows other than the training rows.
const HELD_OUT: &str = "held-out";
const VALIDATION: &str = "validation";

/// Returns the present name of a metric in a store of an older version.
pub(crate) fn present_name(name: &str) -> String {
    for rows in [HELD_OUT, VALIDATION] {
        if let Some(rest) = name.strip_prefix(rows).and_then(|rest| rest.strip_prefix(' ')) {
            return format!("{rows} {}", present_name(rest));
        }
    }
    let renamed = |(former, present): &(&str, &str)| name.strip_prefix(former).map(|rest| format!("{present}{rest}"));
    RENAMED.iter().find_map(renamed).unwrap_or_else(|| name.into())
}

/// Returns the former name of a metric. Keys of stored runs were computed with it.
pub(crate) fn former_name(name: &str) -> String {
    let start = name.len() - name.trim_start().len();
    let (blank, name) = name.split_at(start);
    let renamed = |(former, present): &(&str, &str)| name.strip_prefix(present).map(|rest| format!("{blank}{former}{rest}"));
    RENAMED.iter().find_map(renamed).unwrap_or_else(|| format!("{blank}{name}"))
}

/// Metric to measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MetricKind {
    /// Share of rows whose score has the sign of the label.
    Accuracy,
    /// Sum of terms.
    Sum(Expression),
    /// Sum of terms with 0/1 rates in place of surrogates.
    Measured(Expression),
    /// Largest difference of 0/1 rates between groups over all thresholds.
    MeasuredRocGap,
}

impl MetricKind {
    /// Parses the list of a spec; duplicates are an error.
    pub(crate) fn read(list: &[String]) -> Result<Vec<MetricKind>> {
        let mut kinds: Vec<MetricKind> = vec![];
        for text in list {
            let word = text.trim();
            let one = MetricKind::one(word)?;
            if kinds.contains(&one) {
                return Err(Error::Request(format!("measure has '{}' twice; expected each once", one.name())));
            }
            kinds.push(one);
        }
        Ok(kinds)
    }

    fn one(word: &str) -> Result<MetricKind> {
        let [before, after] = MEASURED;
        if let Some(sum) = word.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) {
            return Ok(MetricKind::Measured(sum.parse()?));
        }
        if present_name(word) != word {
            return Err(Error::Request(format!("measure = '{word}' is now called '{}'", present_name(word))));
        }
        let hint = did_you_mean(word, [ACCURACY, MEASURED_ROC_GAP]);
        match word {
            ACCURACY => Ok(MetricKind::Accuracy),
            MEASURED_ROC_GAP => Ok(MetricKind::MeasuredRocGap),
            word if !hint.is_empty() => Err(Error::Request(format!(
                "measure must be {ACCURACY}, {MEASURED_ROC_GAP}, a sum of terms, or a sum inside {before}…{after}, got '{word}'{hint}"
            ))),
            sum => Ok(MetricKind::Sum(sum.parse()?)),
        }
    }

    fn name(&self) -> String {
        match self {
            MetricKind::Accuracy => ACCURACY.into(),
            MetricKind::MeasuredRocGap => MEASURED_ROC_GAP.into(),
            MetricKind::Sum(sum) => sum.to_string(),
            MetricKind::Measured(sum) => format!("{}{sum}{}", MEASURED[0], MEASURED[1]),
        }
    }

    fn sum(&self) -> Option<&Expression> {
        match self {
            MetricKind::Accuracy | MetricKind::MeasuredRocGap => None,
            MetricKind::Sum(sum) | MetricKind::Measured(sum) => Some(sum),
        }
    }

    /// Returns the sum as a constraint of an auxiliary problem, with a bound that is always satisfied.
    pub(crate) fn bounded(&self) -> Option<BoundedExpression> {
        self.sum().map(|sum| BoundedExpression { expression: sum.clone(), bound: Bound::from(f64::MAX) })
    }

    /// Returns whether it has thresholds computed from the empirical risk minimiser.
    pub(crate) fn needs_erm(&self) -> bool {
        self.sum().is_some_and(Expression::refers_to_erm)
    }
}

/// Builds the metrics of a spec: those in `list`, or by default the accuracy if rows are held out. `None` if there is nothing
/// to measure.
pub(crate) fn metrics(list: Option<&[String]>, instance: &Instance) -> Result<Option<Arc<dyn Metric>>> {
    let kinds = match list {
        Some(list) => MetricKind::read(list)?,
        None if instance.held_out.is_some() || instance.validation.is_some() => vec![MetricKind::Accuracy],
        None => vec![],
    };
    if kinds.is_empty() {
        return Ok(None);
    }
    let training =
        Side::new(&kinds, instance.problem.model().ok_or_else(|| Error::Request("measure: there is no model".into()))?)?;
    let held_out = instance.held_out.as_ref().map(|held| Side::new(&kinds, held)).transpose();
    let held_out = held_out.map_err(|e| Error::Request(format!("the held-out rows cannot be used: {e}")))?;
    let validation = instance.validation.as_ref().map(|rows| Side::new(&kinds, rows)).transpose();
    let validation = validation.map_err(|e| Error::Request(format!("the validation rows cannot be used: {e}")))?;
    let others = [(HELD_OUT, held_out), (VALIDATION, validation)];
    let others = others.into_iter().filter_map(|(name, side)| side.map(|side| (name, side))).collect();
    Ok(Some(Arc::new(Metrics { kinds, training, others })))
}

#[derive(Debug)]
struct Metrics {
    kinds: Vec<MetricKind>,
    training: Side,
    /// Held-out and validation rows, with the prefix of their metrics.
    others: Vec<(&'static str, Side)>,
}

impl Metric for Metrics {
    fn names(&self) -> Vec<String> {
        let names = self.kinds.iter().map(MetricKind::name);
        let others = self.others.iter().flat_map(|(word, _)| self.kinds.iter().map(move |one| format!("{word} {}", one.name())));
        names.chain(others).collect()
    }

    fn read(&self, x: &[f64]) -> thalweg::Result<Vec<f64>> {
        // Further variables, such as a transport plan, follow the model.
        let x = x.get(..self.training.sums.dim()).unwrap_or(x);
        let mut values = self.training.read(&self.kinds, x)?;
        for (_, side) in &self.others {
            values.extend(side.read(&self.kinds, x)?);
        }
        Ok(values)
    }
}

/// Metrics on one set of rows.
#[derive(Debug)]
struct Side {
    /// Problem whose constraints are the sums, each with a bound of 0, so that its values are the sums.
    sums: Learning,
}

impl Side {
    fn new(kinds: &[MetricKind], rows: &Learning) -> Result<Self> {
        // This is the cheapest objective.
        let mut builder = rows.on_same_data().minimize("l2".parse()?);
        for sum in kinds.iter().filter_map(MetricKind::bounded) {
            builder = builder.subject_to(sum);
        }
        let mut sums = builder.build()?;
        // Set afterwards, since the builder rejects a bound of 0 if the smallest value is known to be larger.
        (0..kinds.iter().filter_map(MetricKind::bounded).count()).for_each(|j| sums.set_bound(j, 0.0));
        let side = Side { sums };
        // Sums without measured rates are rejected here, before the run.
        let origin = vec![0.0; side.sums.dim()];
        let measured = side.measured(kinds, &origin)?;
        for (one, measured) in kinds.iter().filter(|one| one.sum().is_some()).zip(measured) {
            if let (MetricKind::Measured(sum), None) = (one, measured) {
                let name = one.name();
                return Err(Error::Request(format!(
                    "measure = '{name}': {sum} has no surrogate of a rate, so there is no measured rate"
                )));
            }
        }
        if kinds.contains(&MetricKind::MeasuredRocGap) {
            side.sums.measured_roc_gap(&origin)?;
        }
        Ok(side)
    }

    fn read(&self, kinds: &[MetricKind], x: &[f64]) -> thalweg::Result<Vec<f64>> {
        let mut sums = run::measure(&self.sums, x, 0.0)?.constraints.into_iter().map(|c| c.value);
        let mut measured = self.measured(kinds, x)?.into_iter().map(|value| value.unwrap_or(f64::NAN));
        let mut values = vec![];
        for one in kinds {
            // Every sum has an entry in both the surrogate and the measured values, whichever is requested.
            let (soft, hard) = if one.sum().is_some() { (sums.next(), measured.next()) } else { (None, None) };
            values.push(match one {
                MetricKind::Accuracy => accuracy(&self.sums, x)?,
                MetricKind::MeasuredRocGap => self.sums.measured_roc_gap(x)?,
                MetricKind::Sum(_) => soft.unwrap_or(f64::NAN),
                MetricKind::Measured(_) => hard.unwrap_or(f64::NAN),
            });
        }
        Ok(values)
    }

    /// Returns the measured value of every sum; empty if none is requested.
    fn measured(&self, kinds: &[MetricKind], x: &[f64]) -> thalweg::Result<Vec<Option<f64>>> {
        if kinds.iter().any(|one| matches!(one, MetricKind::Measured(_))) { self.sums.measured(x) } else { Ok(vec![]) }
    }
}

/// Returns the share of a problem's rows, by weight, whose score at `x` has the sign of the label.
fn accuracy(problem: &Learning, x: &[f64]) -> thalweg::Result<f64> {
    let scores = problem.scores(x)?;
    let data = problem.data();
    let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
    let right = (0..scores.len()).filter(|&i| (scores[i] > 0.0) == (data.labels[i] > 0.0));
    Ok(right.map(weight).sum::<f64>() / (0..scores.len()).map(weight).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use thalweg::learn::Data;
    use thalweg::math::Matrix;

    use super::*;

    #[test]
    fn former_names_are_those_of_older_stores() {
        for (former, present) in [
            ("counted(l2 + 2 * roc_gap)", "measured(l2 + 2 * roc_gap)"),
            ("counted_roc_gap", "measured_roc_gap"),
            ("accuracy", "accuracy"),
        ] {
            assert_eq!((present_name(former), former_name(present)), (present.into(), former.into()));
            assert_eq!(present_name(&format!("held-out {former}")), format!("held-out {present}"));
            assert_eq!(present_name(&format!("validation {former}")), format!("validation {present}"));
        }
        assert_eq!(former_name(" measured( l2 )"), " counted( l2 )");
        let refused = MetricKind::read(&["counted(equalised_odds)".into()]).unwrap_err().to_string();
        assert_eq!(refused, "measure = 'counted(equalised_odds)' is now called 'measured(equalised_odds)'");
    }

    #[test]
    fn the_accuracy_is_a_share_of_weights_and_a_score_of_zero_says_no() {
        let problem = |weights: Option<Vec<f64>>| {
            let features = Matrix::dense(4, 1, vec![2.0, 0.0, 0.0, -1.0]).unwrap();
            let data = Data { features, labels: vec![1.0, 1.0, -1.0, 1.0], groups: None, weights };
            Learning::on(data).minimize("l2".parse().unwrap()).build().unwrap()
        };
        assert_eq!(accuracy(&problem(None), &[0.5]).unwrap(), 0.5);
        assert_eq!(accuracy(&problem(Some(vec![1.0, 2.0, 4.0, 1.0])), &[0.5]).unwrap(), 5.0 / 8.0);
        assert!(accuracy(&problem(None), &[0.5, 1.0]).is_err());
    }
}
