//! Rows and functions of a learning problem as plain data, for programs that evaluate them independently. Nothing here is used
//! during a run.

use serde::Serialize;

use super::function::{Function, Piece, Summand};
use super::loss::Loss;
use super::penalty::Penalty;
use super::problem::Learning;
use super::term::{Comparison, LossFunction, LossStatistic, Rates};
use crate::oracle::Description;

/// Rows and functions of a learning problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRecord {
    /// Number of columns, without the intercept.
    pub columns: usize,
    /// Whether the last variable is an intercept.
    pub intercept: bool,
    /// Label of each row, +1 or -1.
    pub labels: Vec<f64>,
    /// Weight of each row; `None` means 1 each.
    pub weights: Option<Vec<f64>>,
    /// Entries of each row that are not 0: column, counted from 0, and value.
    pub rows: Vec<Vec<(usize, f64)>>,
    /// Scales of the columns, if `ridge` uses them.
    pub scales: Option<ScalesRecord>,
    /// The objective, then each constraint.
    pub functions: Vec<FunctionRecord>,
}

/// Scales of the columns for `ridge`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalesRecord {
    /// The scales.
    pub values: Vec<f64>,
    /// Whether they were given. Otherwise they are standard deviations over the rows below.
    pub given: bool,
    /// The first of these rows.
    pub first: usize,
    /// The row after the last of them.
    pub end: usize,
}

/// Sum of terms minus a bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionRecord {
    /// The expression as given.
    pub expression: String,
    /// Bound that is subtracted; 0 for the objective.
    pub bound: f64,
    /// Summands; `None` if one of them is not a [`PieceRecord`].
    pub pieces: Option<Vec<PieceRecord>>,
}

/// Summand of a function.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PieceRecord {
    /// Factor times the weighted mean of a loss over rows.
    Loss {
        /// The factor.
        factor: f64,
        /// "hinge", "logistic" or "truncated-logistic".
        loss: &'static str,
        /// Scale of the truncated logistic loss.
        scale: Option<f64>,
        /// The rows; `None` for all.
        rows: Option<Vec<usize>>,
    },
    /// Factor times a function of the weights without the intercept.
    Penalty {
        /// The factor.
        factor: f64,
        /// "l2", "ridge", "l1" or "scad".
        penalty: &'static str,
    },
    /// Factor times the largest comparison of weighted means of `sigmoid((score - threshold) / temperature)` over groups of rows.
    Rates {
        /// The factor.
        factor: f64,
        /// The temperature.
        temperature: f64,
        /// The thresholds.
        thresholds: Vec<f64>,
        /// "between-groups": the largest absolute difference between two groups. "to-overall": that between a group and all rows.
        /// "share": the mean of the only group. "rest": 1 minus it.
        comparison: &'static str,
        /// Families of groups: only groups of the same family are compared. Rows of each group.
        families: Vec<Vec<Vec<usize>>>,
    },
}

impl Learning {
    /// Returns the number of stored entries that [`Learning::record`] copies.
    pub fn entries(&self) -> usize {
        let mut entries = 0;
        (0..self.data.features.rows()).for_each(|i| self.data.features.visit_row(i, |_, _| entries += 1));
        entries
    }

    /// Copies rows and functions.
    pub fn record(&self) -> ModelRecord {
        let features = &self.data.features;
        let row = |i: usize| {
            let mut row = vec![];
            features.visit_row(i, |column, v| {
                if v != 0.0 {
                    row.push((column, v));
                }
            });
            row
        };
        ModelRecord {
            columns: features.cols(),
            intercept: self.dim() > features.cols(),
            labels: self.data.labels.clone(),
            weights: self.data.weights.clone(),
            rows: (0..features.rows()).map(row).collect(),
            scales: self.column_scales.as_ref().map(|scales| ScalesRecord {
                values: scales.to_vec(),
                given: self.given_scales,
                first: self.parts[0].start,
                end: self.parts[0].end,
            }),
            functions: std::iter::once(&self.objective).chain(&self.constraints).map(|f| self.function_record(f)).collect(),
        }
    }

    /// Copies the objective.
    pub fn record_of_objective(&self) -> FunctionRecord {
        self.function_record(&self.objective)
    }

    fn function_record(&self, function: &Function) -> FunctionRecord {
        FunctionRecord {
            expression: function.expression.clone(),
            bound: function.bound,
            pieces: function.pieces.iter().map(|s| self.piece_record(s)).collect(),
        }
    }

    fn piece_record(&self, s: &Summand) -> Option<PieceRecord> {
        let factor = s.factor;
        let term = match &s.piece {
            Piece::Penalty(penalty) => {
                let penalty = match penalty {
                    Penalty::L2 => "l2",
                    Penalty::Ridge(_) => "ridge",
                    Penalty::L1 => "l1",
                    Penalty::Scad => "scad",
                };
                return Some(PieceRecord::Penalty { factor, penalty });
            }
            Piece::Term(term) => term,
        };
        if let Some(LossFunction { loss, statistic: LossStatistic::Mean }) = term.loss_function() {
            let (loss, scale) = match loss {
                Loss::Hinge => ("hinge", None),
                Loss::Logistic => ("logistic", None),
                Loss::TruncatedLogistic(Some(scale)) => ("truncated-logistic", Some(scale)),
                Loss::Welsch(_) | Loss::TruncatedLogistic(None) => return None,
            };
            let [population] = s.populations[..] else { return None };
            let rows = self.members(population);
            let rows = (rows.len() < self.data.labels.len()).then_some(rows);
            return Some(PieceRecord::Loss { factor, loss, scale, rows });
        }
        let Rates { thresholds, temperature, comparison } = term.rates()?;
        let (comparison, families) = match comparison {
            Comparison::Gap(contrast) => (contrast.comparison().as_str(), 1),
            Comparison::Larger([contrast, _]) => (contrast.comparison().as_str(), 2),
            Comparison::Share => ("share", 1),
            Comparison::Rest => ("rest", 1),
        };
        let groups: Vec<Vec<usize>> = s.populations.iter().map(|&p| self.members(p)).collect();
        let families = groups.chunks(groups.len() / families).map(<[_]>::to_vec).collect();
        Some(PieceRecord::Rates { factor, temperature, thresholds: thresholds.to_vec(), comparison, families })
    }

    /// Returns the rows of a population.
    fn members(&self, population: usize) -> Vec<usize> {
        let population = &self.populations[population];
        let range = self.parts[population.part].clone();
        match &population.members {
            None => range.collect(),
            Some(members) => members.iter().map(|&i| range.start + i as usize).collect(),
        }
    }
}
