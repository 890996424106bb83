//! Regularisation that is added to an objective without a penalty: which objectives get it, and its factor. The regulariser
//! itself is `ridge`, in `penalty.rs`.

use std::fmt;
use std::str::FromStr;

use super::build::{LOSSES, PENALTIES, RIDGE};
use super::expression::{Call, Expression};
use crate::note::Note;
use crate::{Error, Result};

/// Factor of the `ridge` that is added to an objective.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Regularization {
    /// 1 / n for n training rows, to three digits, times the factor of the loss. The minimiser of a mean loss over n rows is then that of the sum
    /// of the losses plus half the squared norm of the weights on standardised columns: scikit-learn's `LogisticRegression` with
    /// C = 1 on such columns, a Gaussian prior of variance 1 on each of their weights. Its influence vanishes with n.
    ///
    /// It is added to sums of mean losses. An objective with a penalty of its own, or with other terms, stays as it is.
    #[default]
    Auto,
    /// This factor; 0 adds nothing.
    Factor(f64),
}

/// Objective with its regularisation.
#[derive(Debug, Clone, PartialEq)]
pub struct Regularized {
    /// The objective to minimise.
    pub objective: Expression,
    /// Factor of the `ridge` that was added; 0 if none was.
    pub factor: f64,
    /// What was added without being asked for, or why nothing was.
    pub note: Option<Note>,
}

impl Regularization {
    /// Adds the regulariser to an objective that is trained on `rows` rows, counted by [`count_rows`]. Rejects a factor beside a
    /// penalty of the objective's own.
    pub fn add_to(self, objective: &Expression, rows: f64) -> Result<Regularized> {
        let calls = || objective.pieces.iter().map(|(_, call)| call);
        let is_penalty = |call: &&Call| PENALTIES.contains(&call.name.as_str());
        let is_loss = |call: &&Call| LOSSES.contains(&call.name.as_str());
        let unchanged = |note: Option<Note>| Regularized { objective: objective.clone(), factor: 0.0, note };
        let with = |factor: f64, note: Option<Note>| {
            let mut objective = objective.clone();
            objective.pieces.push((factor, Call { name: RIDGE.into(), of: None, arguments: vec![] }));
            Regularized { objective, factor, note }
        };
        let own = calls().find(is_penalty);
        match (self, own) {
            (Regularization::Factor(factor), _) if !(factor >= 0.0 && factor.is_finite()) => Err(wrong(factor)),
            (Regularization::Factor(0.0), _) => Ok(unchanged(None)),
            (Regularization::Factor(factor), Some(own)) => {
                let wanted = format!("auto or 0 beside the objective '{objective}', which has the penalty {own}");
                Err(Error::setting("regularization", factor, wanted))
            }
            (Regularization::Factor(factor), None) => Ok(with(factor, None)),
            (Regularization::Auto, Some(own)) => {
                Ok(unchanged(Some(Note::NotRegularized { term: own.to_string(), penalty: true })))
            }
            (Regularization::Auto, None) => {
                if let Some(other) = calls().find(|call| !is_loss(call)) {
                    return Ok(unchanged(Some(Note::NotRegularized { term: other.to_string(), penalty: false })));
                }
                let numerator: f64 = objective.pieces.iter().map(|(factor, _)| factor).sum();
                let factor = three_digits(numerator / rows);
                Ok(if factor > 0.0 && factor.is_finite() {
                    with(factor, Some(Note::Regularized { factor, numerator, rows }))
                } else {
                    unchanged(None)
                })
            }
        }
    }
}

/// Rounds to three digits, which keeps expressions readable.
fn three_digits(v: f64) -> f64 {
    format!("{v:.2e}").parse().unwrap_or(v)
}

fn wrong(found: impl fmt::Display) -> Error {
    Error::setting("regularization", found, "auto, or a finite number of at least 0")
}

impl FromStr for Regularization {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Regularization::Auto);
        }
        let factor = text.parse().ok().filter(|factor: &f64| *factor >= 0.0 && factor.is_finite());
        factor.map(Regularization::Factor).ok_or_else(|| wrong(format!("'{text}'")))
    }
}

impl fmt::Display for Regularization {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Regularization::Auto => write!(f, "auto"),
            Regularization::Factor(factor) => write!(f, "{factor}"),
        }
    }
}

/// Counts training rows with weights. Whole-number weights count repeated rows, so that a row of weight 2 equals the row given
/// twice. Other weights are known up to a factor only: every row of positive weight counts once.
pub fn count_rows(rows: usize, weights: Option<&[f64]>) -> f64 {
    match weights {
        None => rows as f64,
        Some(weights) if weights.iter().all(|w| w.fract() == 0.0) => weights.iter().sum(),
        Some(weights) => weights.iter().filter(|w| **w > 0.0).count() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(regularization: &str, objective: &str, rows: f64) -> Regularized {
        regularization.parse::<Regularization>().unwrap().add_to(&objective.parse().unwrap(), rows).unwrap()
    }

    #[test]
    fn mean_losses_get_one_over_n() {
        let added = add("auto", "logistic", 400.0);
        assert_eq!((added.objective.to_string().as_str(), added.factor), ("logistic + 0.0025 * ridge", 0.0025));
        let text = added.note.unwrap().to_string();
        assert!(text.contains("0.0025 * ridge") && text.contains("1 / n for 400 training rows"), "{text}");
        // A multiple of the objective has the same minimiser.
        assert_eq!(add("auto", "2 * hinge + 3 * logistic(on = 'positives')", 400.0).factor, 0.0125);
    }

    #[test]
    fn other_objectives_stay_as_they_are() {
        for (objective, term, penalty) in [
            ("logistic + 0.01 * l2", "l2", true),
            ("hinge + 0.01 * scad", "scad", true),
            ("ridge", "ridge", true),
            ("logistic + 0.1 * variance(logistic)", "variance(logistic)", false),
            ("demographic_parity + 0.1 * l1", "l1", true),
            ("demographic_parity", "demographic_parity", false),
        ] {
            let left = add("auto", objective, 400.0);
            assert_eq!((left.objective.to_string().as_str(), left.factor), (objective, 0.0));
            assert_eq!(left.note, Some(Note::NotRegularized { term: term.into(), penalty }), "{objective}");
        }
        assert_eq!(add("0", "logistic", 400.0).note, None);
        assert_eq!(add("0", "logistic + l2", 400.0).objective.to_string(), "logistic + l2");
    }

    #[test]
    fn a_number_is_the_factor() {
        assert_eq!(add("0.5", "demographic_parity", 400.0).objective.to_string(), "demographic_parity + 0.5 * ridge");
        let refused = |text: &str, objective: &str| match text.parse::<Regularization>() {
            Ok(read) => read.add_to(&objective.parse().unwrap(), 9.0).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        let wanted =
            "regularization must be auto or 0 beside the objective 'hinge + 0.1 * l1', which has the penalty l1, got 0.5";
        assert_eq!(refused("0.5", "hinge + 0.1 * l1"), wanted);
        for text in ["-1", "inf", "NaN", "some"] {
            assert!(refused(text, "hinge").starts_with("regularization must be auto, or a finite number"), "{text}");
        }
    }

    #[test]
    fn whole_weights_repeat_rows_and_others_have_no_unit() {
        assert_eq!(count_rows(3, None), 3.0);
        assert_eq!(count_rows(3, Some(&[2.0, 0.0, 3.0])), 5.0);
        assert_eq!(count_rows(3, Some(&[0.2, 0.0, 0.3])), 2.0);
        assert_eq!(count_rows(3, Some(&[250.5, 1e6, 0.3])), 3.0);
    }
}
