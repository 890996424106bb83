//! Metrics of a learning problem at recorded iterates: the accuracy, sums of terms and measured rates, on the training rows and
//! on held-out rows. They are evaluated by the runs of the library.

use std::sync::Arc;

use thalweg::learn::{Argument, Bound, Bounded, Expression, Learning};
use thalweg::oracle::Description;
use thalweg::run::{self, Metric};
use thalweg::suggest::did_you_mean;

use crate::job::Instance;
use crate::{Error, Result};

/// Name of the share of rows whose score has the sign of the label.
const ACCURACY: &str = "accuracy";
/// Name of the largest difference of measured rates between groups over all thresholds.
const COUNTED_ROC_GAP: &str = "counted_roc_gap";
/// Prefix and suffix of a sum with measured rates.
const COUNTED: [&str; 2] = ["counted(", ")"];

/// Metric to measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    /// Share of rows whose score has the sign of the label.
    Accuracy,
    /// Sum of terms.
    Sum(Expression),
    /// Sum of terms with 0/1 rates in place of surrogates.
    Counted(Expression),
    /// Largest difference of 0/1 rates between groups over all thresholds.
    CountedRocGap,
}

impl Wanted {
    /// Parses the list of a spec; duplicates are an error.
    pub(crate) fn read(list: &[String]) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = vec![];
        for text in list {
            let word = text.trim();
            let one = Wanted::one(word)?;
            if wanted.contains(&one) {
                return Err(Error::Request(format!("measure has '{}' twice; expected each once", one.name())));
            }
            wanted.push(one);
        }
        Ok(wanted)
    }

    fn one(word: &str) -> Result<Wanted> {
        let [before, after] = COUNTED;
        if let Some(sum) = word.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) {
            return Ok(Wanted::Counted(sum.parse()?));
        }
        let hint = did_you_mean(word, [ACCURACY, COUNTED_ROC_GAP]);
        match word {
            ACCURACY => Ok(Wanted::Accuracy),
            COUNTED_ROC_GAP => Ok(Wanted::CountedRocGap),
            word if !hint.is_empty() => Err(Error::Request(format!(
                "measure must be {ACCURACY}, {COUNTED_ROC_GAP}, a sum of terms, or a sum inside {before}…{after}, got '{word}'{hint}"
            ))),
            sum => Ok(Wanted::Sum(sum.parse()?)),
        }
    }

    fn name(&self) -> String {
        match self {
            Wanted::Accuracy => ACCURACY.into(),
            Wanted::CountedRocGap => COUNTED_ROC_GAP.into(),
            Wanted::Sum(sum) => sum.to_string(),
            Wanted::Counted(sum) => format!("{}{sum}{}", COUNTED[0], COUNTED[1]),
        }
    }

    fn sum(&self) -> Option<&Expression> {
        match self {
            Wanted::Accuracy | Wanted::CountedRocGap => None,
            Wanted::Sum(sum) | Wanted::Counted(sum) => Some(sum),
        }
    }

    /// Returns the sum as a constraint of an auxiliary problem, with a bound that is always satisfied.
    pub(crate) fn bounded(&self) -> Option<Bounded> {
        self.sum().map(|sum| Bounded { expression: sum.clone(), bound: Bound::from(f64::MAX) })
    }

    /// Returns whether it has thresholds computed from the empirical risk minimiser.
    pub(crate) fn needs_erm(&self) -> bool {
        let Some(sum) = self.sum() else { return false };
        let mut arguments = sum.pieces.iter().flat_map(|(_, call)| &call.arguments);
        arguments.any(|(_, value)| matches!(value, Argument::Word(word) if word == "erm"))
    }
}

/// Builds the metrics of a spec: those in `list`, or by default the accuracy if rows are held out. `None` if there is nothing
/// to measure.
pub(crate) fn metrics(list: Option<&[String]>, instance: &Instance) -> Result<Option<Arc<dyn Metric>>> {
    let wanted = match list {
        Some(list) => Wanted::read(list)?,
        None if instance.held_out.is_some() || instance.validation.is_some() => vec![Wanted::Accuracy],
        None => vec![],
    };
    if wanted.is_empty() {
        return Ok(None);
    }
    let training =
        Side::new(&wanted, instance.problem.model().ok_or_else(|| Error::Request("measure: there is no model".into()))?)?;
    let held_out = instance.held_out.as_ref().map(|held| Side::new(&wanted, held)).transpose();
    let held_out = held_out.map_err(|e| Error::Request(format!("the held-out rows cannot be used: {e}")))?;
    let validation = instance.validation.as_ref().map(|rows| Side::new(&wanted, rows)).transpose();
    let validation = validation.map_err(|e| Error::Request(format!("the validation rows cannot be used: {e}")))?;
    let aside = [("held-out", held_out), ("validation", validation)];
    let aside = aside.into_iter().filter_map(|(name, side)| side.map(|side| (name, side))).collect();
    Ok(Some(Arc::new(Metrics { wanted, training, aside })))
}

#[derive(Debug)]
struct Metrics {
    wanted: Vec<Wanted>,
    training: Side,
    /// Held-out and validation rows, with the prefix of their metrics.
    aside: Vec<(&'static str, Side)>,
}

impl Metric for Metrics {
    fn names(&self) -> Vec<String> {
        let names = self.wanted.iter().map(Wanted::name);
        let aside = self.aside.iter().flat_map(|(word, _)| self.wanted.iter().map(move |one| format!("{word} {}", one.name())));
        names.chain(aside).collect()
    }

    fn read(&self, x: &[f64]) -> thalweg::Result<Vec<f64>> {
        // Further variables, such as a transport plan, follow the model.
        let x = x.get(..self.training.sums.dim()).unwrap_or(x);
        let mut values = self.training.read(&self.wanted, x)?;
        for (_, side) in &self.aside {
            values.extend(side.read(&self.wanted, x)?);
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
    fn new(wanted: &[Wanted], rows: &Learning) -> Result<Self> {
        // This is the cheapest objective.
        let mut builder = rows.on_same_data().minimize("l2".parse()?);
        for sum in wanted.iter().filter_map(Wanted::bounded) {
            builder = builder.subject_to(sum);
        }
        let mut sums = builder.build()?;
        // Set afterwards, since the builder rejects a bound of 0 if the smallest value is known to be larger.
        (0..wanted.iter().filter_map(Wanted::bounded).count()).for_each(|j| sums.set_bound(j, 0.0));
        let side = Side { sums };
        // Sums without measured rates are rejected here, before the run.
        let origin = vec![0.0; side.sums.dim()];
        let counted = side.counted(wanted, &origin)?;
        for (one, counted) in wanted.iter().filter(|one| one.sum().is_some()).zip(counted) {
            if let (Wanted::Counted(sum), None) = (one, counted) {
                let name = one.name();
                return Err(Error::Request(format!(
                    "measure = '{name}': {sum} has no rate that is softened, so there is nothing to count"
                )));
            }
        }
        if wanted.contains(&Wanted::CountedRocGap) {
            side.sums.measured_roc_gap(&origin)?;
        }
        Ok(side)
    }

    fn read(&self, wanted: &[Wanted], x: &[f64]) -> thalweg::Result<Vec<f64>> {
        let mut sums = run::measure(&self.sums, x, 0.0)?.constraints.into_iter().map(|c| c.value);
        let mut counted = self.counted(wanted, x)?.into_iter().map(|value| value.unwrap_or(f64::NAN));
        let mut values = vec![];
        for one in wanted {
            // Every sum has an entry in both the surrogate and the measured values, whichever is requested.
            let (soft, hard) = if one.sum().is_some() { (sums.next(), counted.next()) } else { (None, None) };
            values.push(match one {
                Wanted::Accuracy => accuracy(&self.sums, x)?,
                Wanted::CountedRocGap => self.sums.measured_roc_gap(x)?,
                Wanted::Sum(_) => soft.unwrap_or(f64::NAN),
                Wanted::Counted(_) => hard.unwrap_or(f64::NAN),
            });
        }
        Ok(values)
    }

    /// Returns the measured value of every sum; empty if none is requested.
    fn counted(&self, wanted: &[Wanted], x: &[f64]) -> thalweg::Result<Vec<Option<f64>>> {
        if wanted.iter().any(|one| matches!(one, Wanted::Counted(_))) { self.sums.measured(x) } else { Ok(vec![]) }
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
