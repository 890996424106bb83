//! A trained model as a file: how cells become numbers, a weight for each, and the record of how it came about. Training is
//! done in [`crate::fit`].

use std::path::Path;

use serde::{Deserialize, Serialize};
use thalweg::eval::Passes;
use thalweg::learn::{Best, Enforce, FittedConstraint, Groups};
use thalweg::math::Matrix;
use thalweg::run::StopReason;
use thalweg::solvers::Stationary;

use crate::data::cache;
use crate::data::table::Table;
use crate::encode::{Encoding, Grouping, Labels};
use crate::output::json;
use crate::trace::write_whole;
use crate::verdict::Status;
use crate::{Error, Result};

/// Version of the file format.
const FORMAT: u32 = 1;

/// A linear classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Version of this format.
    pub format: u32,
    /// Version of the program that wrote it.
    pub thalweg: String,
    /// How rows become numbers.
    pub input: Input,
    /// Weights by feature name, in the order of the encoding.
    pub weights: Vec<Weight>,
    /// Added to every score.
    pub intercept: f64,
    /// How the model was trained.
    pub training: Training,
    /// What was measured on the rows it was trained on, and on those held out.
    pub measured: Measured,
}

/// Where a model's features come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Input {
    /// A table with named columns.
    Table {
        /// Columns to features.
        encoding: Encoding,
        /// The label column.
        labels: Labels,
        /// The group column.
        grouping: Option<Grouping>,
    },
    /// Rows in LIBSVM form, used as they are.
    Libsvm {
        /// Number of columns.
        columns: usize,
        /// The label that counts as positive, as text.
        positive: String,
        /// The other label.
        negative: String,
        /// Column, counted from 1, that marks the first group.
        group: Option<usize>,
    },
}

/// A feature and its weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// Name of the feature.
    pub feature: String,
    /// Its weight.
    pub weight: f64,
}

/// What was asked for, and from what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The objective.
    pub minimize: String,
    /// The constraints.
    pub subject_to: Vec<String>,
    /// The set that the weights had to stay in, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The reference values in them.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// Which side of softened constraints had to hold.
    pub enforce: Enforce,
    /// Name of the solver.
    pub solver: String,
    /// Its step size, chosen or given; empty for a solver without.
    pub eta: String,
    /// Why this solver, where none was named.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Solver settings that were given.
    pub settings: String,
    /// Seed of the split and of the runs.
    pub seed: u64,
    /// File that was read.
    pub file: String,
    /// sha256 of its text.
    pub fingerprint: String,
    /// The set that its rows only have the shape of, if they are a stand-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<String>,
    /// Share of the rows that was held out.
    pub test_fraction: f64,
    /// Column with a weight for each row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_weights: Option<String>,
}

/// A reference value, without its minimiser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// What was minimised.
    pub expression: String,
    /// The smallest value that was found.
    pub value: f64,
    /// No point has a smaller value.
    pub lower: f64,
    /// Norm of the shortest minimiser.
    pub norm: f64,
    /// Evaluations of the expression.
    pub evaluations: u64,
}

impl From<&Best> for Reference {
    fn from(best: &Best) -> Self {
        let Best { value, lower, norm, evaluations, .. } = *best;
        Reference { expression: best.expression.clone(), value, lower, norm, evaluations }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Every constraint is satisfied on the training rows.
    pub feasible: bool,
    /// Every constraint: the user's bound, and both sides of what was trained.
    pub constraints: Vec<FittedConstraint>,
    /// Why training ended.
    pub ended: StopReason,
    /// What the solver proved about the problem with the tightened bounds.
    #[serde(default)]
    pub stationary: Option<Stationary>,
    /// How steep the objective is at the model, where it has the form of an inf-projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<f64>,
    /// Training runs after the pilot.
    pub rounds: u64,
    /// Steps of all runs.
    pub iterations: u64,
    /// Work of all runs.
    pub passes: Passes,
    /// Time of all runs, without measuring.
    pub seconds: f64,
    /// On the training rows.
    pub training: Quality,
    /// On the rows that were held out.
    pub held_out: Option<Quality>,
}

impl Measured {
    /// Status of the training.
    pub fn status(&self) -> Status {
        Status::of(&self.ended, self.feasible)
    }

    /// The verdict on the training, in one line without a full stop.
    pub fn verdict(&self) -> String {
        match (&self.ended, self.feasible) {
            (StopReason::Interrupted, true) if self.constraints.is_empty() => "interrupted; best model so far".into(),
            (StopReason::Interrupted, true) => "interrupted; best model so far, every constraint is satisfied".into(),
            (StopReason::Interrupted, false) => "interrupted; no model so far satisfies every constraint".into(),
            (StopReason::Failed { .. }, _) => self.ended.headline(false),
            (_, true) if self.constraints.is_empty() => "trained without constraints".into(),
            (_, true) => "feasible; every constraint is satisfied on the training rows".into(),
            (StopReason::Infeasible { .. }, false) => self.ended.headline(false),
            (_, false) => "not feasible; the best model found violates a constraint".into(),
        }
    }
}

/// How a model does on some rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Number of rows.
    pub rows: usize,
    /// Share of rows with a positive label. Shares are of weights, where rows have them.
    pub positive: f64,
    /// Share of rows that the model calls positive.
    pub predicted: f64,
    /// Share of rows whose label is predicted right.
    pub accuracy: f64,
    /// The objective.
    pub objective: f64,
    /// Left-hand side of each constraint.
    pub constraints: Vec<f64>,
    /// The same with counted rates, where it has any.
    pub counted: Vec<Option<f64>>,
    /// Each group by itself.
    pub groups: Vec<GroupQuality>,
}

/// How a model does on one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupQuality {
    /// Name of the group.
    pub group: String,
    /// Number of rows.
    pub rows: usize,
    /// Share of rows with a positive label.
    pub positive: f64,
    /// Share of rows that the model calls positive.
    pub predicted: f64,
    /// Share of rows whose label is predicted right.
    pub accuracy: f64,
}

/// Rows with all that a model knows of.
pub struct Rows {
    /// Their features.
    pub features: Matrix,
    /// Their labels, where the file has them.
    pub labels: Option<Vec<f64>>,
    /// Their groups, where the file has them.
    pub groups: Option<Groups>,
    /// Sentences that a user should see.
    pub notes: Vec<String>,
}

impl Model {
    /// The version that is written now.
    pub fn current() -> (u32, String) {
        (FORMAT, env!("CARGO_PKG_VERSION").into())
    }

    /// Reads a model file, or `model.json` in a directory.
    pub fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join("model.json") } else { path.to_path_buf() };
        let bytes = std::fs::read(&file).map_err(|e| Error::io(&file, &e))?;
        // The version first: another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(&bytes)
            .map_err(|e| Error::file(&file, format!("is not a model: {e}; expected a model.json that thalweg fit wrote")))?;
        if format != FORMAT {
            let newer = if format > FORMAT { "; a newer thalweg wrote it" } else { "" };
            return Err(Error::file(&file, format!("has model format {format}: this one reads format {FORMAT}{newer}")));
        }
        let damaged = |e: &dyn std::fmt::Display| Error::file(&file, format!("is a damaged model: {e}"));
        let model: Model = serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?;
        let features = model.input.features();
        if features != model.weights.len() {
            return Err(damaged(&format!("it has {} weights for {features} features", model.weights.len())));
        }
        Ok(model)
    }

    /// Writes the model, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<()> {
        write_whole(file, &json(self)?)
    }

    /// The variables of its problem: the weights, then the intercept.
    pub fn point(&self) -> Vec<f64> {
        self.weights.iter().map(|w| w.weight).chain([self.intercept]).collect()
    }

    /// The scores of rows, with the bits that training ended with.
    pub fn scores(&self, features: &Matrix) -> Vec<f64> {
        let weights: Vec<f64> = self.weights.iter().map(|w| w.weight).collect();
        let mut scores = vec![0.0; features.rows()];
        features.scores(0..features.rows(), &weights, &mut scores);
        scores.iter_mut().for_each(|s| *s += self.intercept);
        scores
    }

    /// What the model calls rows with a score above 0, and the others.
    pub fn answers(&self) -> (&str, &str) {
        match &self.input {
            Input::Table { labels, .. } => (&labels.positive, &labels.negative),
            Input::Libsvm { positive, negative, .. } => (positive, negative),
        }
    }
}

impl Input {
    /// Number of features.
    pub fn features(&self) -> usize {
        match self {
            Input::Table { encoding, .. } => encoding.features(),
            Input::Libsvm { columns, .. } => *columns,
        }
    }

    /// The features of a file that should have the columns of the model's, and sentences that a user should see. Labels and
    /// groups are not looked at: new rows may have none, or others.
    pub fn read(&self, file: &Path) -> Result<(Matrix, Vec<String>)> {
        match self {
            Input::Table { encoding, .. } => encoding.encode(&Table::read(file)?),
            Input::Libsvm { columns, .. } => Ok((cache::read_features(file, *columns)?, vec![])),
        }
    }

    /// Everything in a table that a model is trained on.
    pub fn rows(&self, table: &Table) -> Result<Rows> {
        let Input::Table { encoding, labels, grouping } = self else {
            return Err(table.bad("is a table, but the model was trained on LIBSVM rows"));
        };
        let (features, notes) = encoding.encode(table)?;
        let groups = grouping.as_ref().map(|g| g.read(table)).transpose()?.flatten();
        Ok(Rows { features, labels: labels.read(table)?, groups, notes })
    }
}
