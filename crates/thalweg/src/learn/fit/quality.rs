//! Checks of a trained model that a user must hear about: training that did not converge, and models that predict no better than
//! a constant. Nothing here influences training.

use serde::{Deserialize, Serialize};

use super::Fitted;
use crate::learn::inspect::RowCount;
use crate::learn::problem::Learning;
use crate::oracle::Description;
use crate::run::{self, StopReason};
use crate::solvers::SolverName;
use crate::{Note, Result};

/// Predictions are nearly constant if the rarer of them has less than this share of the rarer label's share.
const NEARLY_CONSTANT: f64 = 0.05;
/// Relative advantage over the best constant score below which a model counts as no better.
const ADVANTAGE: f64 = 1e-3;
/// Balanced accuracy within this many standard errors of one half counts as guessing.
const STANDARD_ERRORS: f64 = 2.0;
/// Constant scores that are tried beside the log-odds of the labels.
const CONSTANTS: [f64; 3] = [0.0, 1.0, -1.0];

/// In what way a model is degenerate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Degeneracy {
    /// The objective is not smaller than that of the same score for every row, which satisfies every bound too.
    ConstantScore {
        /// Objective of the model.
        objective: f64,
        /// Smallest objective of a constant score that was found.
        constant: f64,
        /// That score.
        score: f64,
    },
    /// Nearly all predictions are the same.
    NearlyConstant {
        /// Rows with the rarer prediction.
        rarer: usize,
        /// Rows.
        rows: usize,
        /// Whether the rarer prediction is the positive one.
        positive: bool,
        /// Share of the rarer label.
        label_share: f64,
    },
    /// The balanced accuracy cannot be told from that of guessing.
    Guessing {
        /// Mean of the accuracies on the rows of either label.
        balanced_accuracy: f64,
        /// Its standard error.
        standard_error: f64,
    },
}

/// Returns the warnings about a trained model.
pub(super) fn warnings(problem: &Learning, fitted: &Fitted, feasibility: f64) -> Result<Vec<Note>> {
    let mut notes = vec![];
    let stops = fitted.solver.parse::<SolverName>().is_ok_and(SolverName::has_stopping_criterion);
    match &fitted.ended {
        StopReason::Budget(_) if stops => notes.push(Note::NotConverged { ended: fitted.ended.clone() }),
        StopReason::Failed { .. } => notes.push(Note::NotConverged { ended: fitted.ended.clone() }),
        _ => {}
    }
    if !matches!(fitted.ended, StopReason::Interrupted) {
        notes.extend(degeneracy(problem, fitted, feasibility)?.map(|cause| Note::DegenerateModel { cause }));
    }
    Ok(notes)
}

/// Finds the first way in which the model is degenerate.
fn degeneracy(problem: &Learning, fitted: &Fitted, feasibility: f64) -> Result<Option<Degeneracy>> {
    let labels = Labels::count(problem, &fitted.point.x)?;
    if let Some((constant, score)) = best_constant(problem, labels.log_odds(), feasibility)? {
        let objective = fitted.point.objective;
        if fitted.feasible && objective > constant - ADVANTAGE * constant.abs() {
            return Ok(Some(Degeneracy::ConstantScore { objective, constant, score }));
        }
    }
    Ok(labels.nearly_constant().or_else(|| labels.guessing()))
}

/// Finds the constant score with the smallest objective that satisfies every constraint, among a few; `None` if there is none.
fn best_constant(problem: &Learning, log_odds: f64, feasibility: f64) -> Result<Option<(f64, f64)>> {
    let mut best: Option<(f64, f64)> = None;
    for score in CONSTANTS.into_iter().chain([log_odds]) {
        let mut x = vec![0.0; problem.dim()];
        match x.last_mut() {
            Some(last) if problem.intercept => *last = score,
            _ if score != 0.0 => continue,
            _ => {}
        }
        let point = run::measure(problem, &x, feasibility)?;
        if point.feasible && problem.domain().distance(&x)? == 0.0 && best.is_none_or(|(least, _)| point.objective < least) {
            best = Some((point.objective, score));
        }
    }
    Ok(best)
}

/// Weights of the rows by label and prediction.
struct Labels {
    /// Weight of the positive and of the negative rows.
    weight: [f64; 2],
    /// The part of it with a correct prediction.
    right: [f64; 2],
    /// Effective numbers of rows.
    rows: [f64; 2],
    /// Number of all rows.
    all: usize,
}

impl Labels {
    fn count(problem: &Learning, x: &[f64]) -> Result<Self> {
        let (scores, data) = (problem.scores(x)?, problem.data());
        let (mut weight, mut right) = ([0.0; 2], [0.0; 2]);
        let weight_of = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
        for (i, score) in scores.iter().enumerate() {
            let (label, said) = (data.labels[i] > 0.0, *score > 0.0);
            let k = usize::from(!label);
            weight[k] += weight_of(i);
            right[k] += if label == said { weight_of(i) } else { 0.0 };
        }
        let with_label = |sign: f64| (0..scores.len()).filter(move |&i| data.labels[i] == sign).map(weight_of);
        let rows = [1.0, -1.0].map(|sign| RowCount::of(with_label(sign)).effective);
        Ok(Labels { weight, right, rows, all: RowCount::of((0..scores.len()).map(weight_of)).rows })
    }

    /// Returns the constant score with the smallest logistic loss; 0 if there is only one label.
    fn log_odds(&self) -> f64 {
        let odds = (self.weight[0] / self.weight[1]).ln();
        if odds.is_finite() { odds } else { 0.0 }
    }

    fn nearly_constant(&self) -> Option<Degeneracy> {
        let total = self.weight[0] + self.weight[1];
        let label_share = self.weight[0].min(self.weight[1]) / total;
        let predicted = (self.right[0] + self.weight[1] - self.right[1]) / total;
        let (positive, rarer) = (predicted <= 0.5, predicted.min(1.0 - predicted).max(0.0));
        let rows = self.all;
        (rarer < NEARLY_CONSTANT * label_share).then(|| Degeneracy::NearlyConstant {
            rarer: (rarer * rows as f64).round() as usize,
            rows,
            positive,
            label_share,
        })
    }

    fn guessing(&self) -> Option<Degeneracy> {
        let rates = [0, 1].map(|k| self.right[k] / self.weight[k]);
        let balanced_accuracy = 0.5 * (rates[0] + rates[1]);
        let variance: f64 = (0..2).map(|k| rates[k] * (1.0 - rates[k]) / self.rows[k]).sum();
        let standard_error = 0.5 * variance.sqrt();
        let guesses = balanced_accuracy - 0.5 <= STANDARD_ERRORS * standard_error;
        guesses.then_some(Degeneracy::Guessing { balanced_accuracy, standard_error })
    }
}
