//! The file of a trained model: the encoding, a weight for each feature, and a record of the training. Training is in
//! [`crate::fit`].

use std::path::Path;

use serde::{Deserialize, Serialize};
use thalweg::Note;
use thalweg::eval::Passes;
use thalweg::learn::{Best, Call, Enforce, Expression, FittedConstraint, Groups, Promise, Scope, proof};
use thalweg::math::Matrix;
use thalweg::run::StopReason;
use thalweg::solvers::Stationary;

use crate::data::cache;
use crate::data::columns::{check_used_columns, select_columns};
use crate::data::source::read_file;
use crate::data::table::Table;
use crate::encode::{CoarserGroups, Encoding, Grouping, Labels};
use crate::output::{json, short, write_whole};
use crate::verdict::Status;
use crate::{Error, Result};

/// Version of the file format.
const FORMAT: u32 = 1;

/// Linear classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Version of this format.
    pub format: u32,
    /// Version of Thalweg that wrote it.
    pub thalweg: String,
    /// Encoding of rows.
    pub input: Input,
    /// Weights by feature name, in the order of the encoding.
    pub weights: Vec<Weight>,
    /// Intercept, added to every score.
    pub intercept: f64,
    /// Record of the training.
    pub training: Training,
    /// Measurements on the training rows and on the held-out rows.
    pub measured: Measurements,
}

/// Source of a model's features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Input {
    /// Table with named columns.
    Table {
        /// Encoding of the columns.
        encoding: Encoding,
        /// Label column.
        labels: Labels,
        /// Columns that define the groups.
        grouping: Option<Grouping>,
    },
    /// Rows in LIBSVM format, used unchanged.
    Libsvm {
        /// Number of columns.
        columns: usize,
        /// Columns that are features, counted from 1, if there are too many for all to be.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        used: Vec<u32>,
        /// Positive label, as text.
        positive: String,
        /// Negative label.
        negative: String,
        /// Column, counted from 1, that marks the first group.
        group: Option<usize>,
    },
}

/// Feature and its weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// Name of the feature.
    pub feature: String,
    /// Weight.
    pub weight: f64,
}

/// Request and data of the training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Objective, with the regulariser that was added to it.
    pub minimize: String,
    /// Factor of the `ridge` that was added to the requested objective; 0 if none was, absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularization: Option<f64>,
    /// Constraints.
    pub subject_to: Vec<String>,
    /// Domain of the weights, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Reference values in them.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// Whether measured rates or surrogates had to satisfy their bounds.
    pub enforce: Enforce,
    /// Name of the solver.
    pub solver: String,
    /// Step size, chosen or given; empty for a solver without one.
    pub eta: String,
    /// Why the solver was chosen, if none was named. Older files have sentences, read as [`Note::Text`].
    #[serde(default)]
    pub reasons: Vec<Note>,
    /// Solver settings that were given.
    pub settings: String,
    /// Random seed of the split and of the runs.
    pub seed: u64,
    /// Data file; empty for a model that was fitted to rows in memory.
    pub file: String,
    /// sha256 of the file's text.
    pub fingerprint: String,
    /// Data set that the rows are shaped like, if they are a stand-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<String>,
    /// Share of held-out rows.
    pub test_fraction: f64,
    /// Share of the other rows in the safety set, for a model with a promise about unseen rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_fraction: Option<f64>,
    /// Column with a weight for each row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_weights: Option<String>,
    /// Whether the intercept was trained; without, it is 0. Absent if it was.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub intercept: bool,
}

/// Reference value, without its minimiser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Minimised expression.
    pub expression: String,
    /// Smallest value found.
    pub value: f64,
    /// Unit of the expression; absent if it is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub unit: f64,
    /// Lower bound on the value of all weights in `scope`.
    pub lower: f64,
    /// Weights that the lower bound holds for; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Norm of the minimiser.
    pub norm: f64,
    /// Whether this is the least norm; absent if it is.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub shortest: bool,
    /// Number of evaluations of the expression.
    pub evaluations: u64,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::float_cmp, reason = "the default itself")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn is_true(value: &bool) -> bool {
    *value
}

impl From<&Best> for Reference {
    fn from(best: &Best) -> Self {
        let Best { value, unit, lower, scope, norm, shortest, evaluations, .. } = *best;
        Reference { expression: best.expression.clone(), value, unit, lower, scope: Some(scope), norm, shortest, evaluations }
    }
}

impl Reference {
    /// Describes what is proved about the value.
    pub fn proof(&self) -> String {
        proof(self.value, self.lower, self.scope.unwrap_or(Scope::of_earlier_version(self.norm)), self.unit)
    }
}

/// Measurements of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Whether every constraint is satisfied on the training rows, or promised for unseen rows if that was asked for.
    pub feasible: bool,
    /// Promise about unseen rows, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Constraints with the requested bound, the measured value and the surrogate.
    pub constraints: Vec<FittedConstraint>,
    /// Why training ended.
    pub ended: StopReason,
    /// What the solver proved about the problem with the surrogate bounds.
    #[serde(default)]
    pub stationary: Option<Stationary>,
    /// Distance to stationarity of the objective at the model, if it has the form of an inf-projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<f64>,
    /// Number of training runs after the pilot run.
    pub rounds: u64,
    /// Iterations of all runs.
    pub iterations: u64,
    /// Passes of all runs.
    pub passes: Passes,
    /// Time of all runs in seconds, without measuring.
    pub seconds: f64,
    /// Warnings: the model may be useless or mean less than it seems to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Note>,
    /// Quality on the training rows.
    pub training: Quality,
    /// Quality on the held-out rows.
    pub held_out: Option<Quality>,
}

/// Formats the confidence of a promise.
pub fn confidence(promise: &Promise) -> String {
    format!("{}%", short(100.0 * promise.confidence))
}

impl Measurements {
    /// Returns the status of the training.
    pub fn status(&self) -> Status {
        Status::of(&self.ended, self.feasible)
    }

    /// Describes the verdict on the training, in one line without a full stop.
    pub fn verdict(&self) -> String {
        if let (Some(promise), false) = (&self.promise, matches!(self.ended, StopReason::Interrupted | StopReason::Failed { .. }))
        {
            return match (promise.confirmed, self.feasible) {
                (true, true) => {
                    format!("feasible; the bounds are promised for unseen rows with {} confidence", confidence(promise))
                }
                (true, false) => "not feasible; the bounds on rates are promised, but another constraint is violated".into(),
                (false, _) => "not feasible; nothing is promised about unseen rows".into(),
            };
        }
        match (&self.ended, self.feasible) {
            (StopReason::Interrupted, true) if self.constraints.is_empty() => "interrupted; best model so far".into(),
            (StopReason::Interrupted, true) => "interrupted; best model so far, every constraint is satisfied".into(),
            (StopReason::Interrupted, false) => "interrupted; no model so far satisfies every constraint".into(),
            (StopReason::Failed { .. }, _) => self.ended.headline(false),
            (_, true) if self.constraints.is_empty() => "trained without constraints".into(),
            (_, true) => "feasible; every constraint is satisfied on the training rows".into(),
            (StopReason::Infeasible { .. } | StopReason::Withdrawn { .. }, false) => self.ended.headline(false),
            (_, false) => "not feasible; the best model found violates a constraint".into(),
        }
    }
}

/// Quality of a model on a set of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Number of rows.
    pub rows: usize,
    /// Share of rows with a positive label. Shares are of weights, if rows have them.
    pub positive: f64,
    /// Share of rows with a positive prediction.
    pub predicted: f64,
    /// Share of rows with a correct prediction.
    pub accuracy: f64,
    /// Objective.
    pub objective: f64,
    /// Left-hand side of each constraint.
    pub constraints: Vec<f64>,
    /// The same with measured rates, if it has any.
    #[serde(alias = "counted")]
    pub measured: Vec<Option<f64>>,
    /// Quality for each group.
    pub groups: Vec<GroupQuality>,
    /// Quality by each of several columns whose combinations are the groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_column: Vec<ColumnQuality>,
}

/// Quality of a model by the groups of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnQuality {
    /// Name of the column.
    pub column: String,
    /// Quality for each of its groups.
    pub groups: Vec<GroupQuality>,
}

/// Quality of a model on one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupQuality {
    /// Name of the group.
    pub group: String,
    /// Number of rows.
    pub rows: usize,
    /// Share of rows with a positive label.
    pub positive: f64,
    /// Share of rows with a positive prediction.
    pub predicted: f64,
    /// Exact 95% interval of that share; absent in files of earlier versions. Weights count by the effective number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_interval: Option<[f64; 2]>,
    /// Share of rows with a correct prediction.
    pub accuracy: f64,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_interval: Option<[f64; 2]>,
    /// Rows with a positive label, and the predictions for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positives: Option<CellQuality>,
    /// Rows with a negative label, and the predictions for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negatives: Option<CellQuality>,
}

/// Predictions for the rows of a group that have one label.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellQuality {
    /// Number of rows.
    pub rows: usize,
    /// Share with a positive prediction: the true- or the false-positive rate.
    pub predicted: f64,
    /// Exact 95% interval of that share.
    pub interval: [f64; 2],
}

/// Rows with features, labels and groups.
pub struct Rows {
    /// Features.
    pub features: Matrix,
    /// Labels, if the file has them.
    pub labels: Option<Vec<f64>>,
    /// Groups, if the file has them.
    pub groups: Option<Groups>,
    /// Messages for the user.
    pub notes: Vec<Note>,
}

impl Model {
    /// Returns the current format version and the version of Thalweg.
    pub fn current() -> (u32, String) {
        (FORMAT, env!("CARGO_PKG_VERSION").into())
    }

    /// Reads a model file, or `model.json` in a directory.
    pub fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join("model.json") } else { path.to_path_buf() };
        Model::parse(&read_file(&file)?, &file)
    }

    /// Parses the contents of a model file; `file` is used in messages.
    pub fn parse(bytes: &[u8], file: &Path) -> Result<Self> {
        // The version is read first, since another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(bytes)
            .map_err(|e| Error::file(file, format!("is not a model: {e}; expected a model.json that thalweg fit wrote")))?;
        if format != FORMAT {
            let newer = if format > FORMAT { "; a newer thalweg wrote it" } else { "" };
            return Err(Error::file(file, format!("has model format {format}: this one reads format {FORMAT}{newer}")));
        }
        let damaged = |e: &dyn std::fmt::Display| Error::file(file, format!("is a damaged model: {e}"));
        let model: Model = serde_json::from_slice(bytes).map_err(|e| damaged(&e))?;
        model.check().map_err(|e| damaged(&e))?;
        Ok(model)
    }

    /// Checks that the parts belong together.
    pub fn check(&self) -> Result<(), String> {
        self.input.check()?;
        let features = self.input.features();
        if features != self.weights.len() {
            return Err(format!("it has {} weights for {features} features", self.weights.len()));
        }
        let names = self.input.feature_names();
        if let Some((weight, name)) = self.weights.iter().zip(&names).find(|(weight, name)| weight.feature != **name) {
            return Err(format!("it has a weight of '{}' where its encoding has the feature '{name}'", weight.feature));
        }
        if let Some(weight) = self.weights.iter().find(|weight| !weight.weight.is_finite()) {
            return Err(format!("the weight of '{}' is {}; expected a finite number", weight.feature, weight.weight));
        }
        if !self.intercept.is_finite() || (self.intercept != 0.0 && !self.training.intercept) {
            let wanted = if self.training.intercept { "a finite number" } else { "0, because it was not trained" };
            return Err(format!("the intercept is {}; expected {wanted}", self.intercept));
        }
        let (yes, no) = self.answers();
        if yes == no {
            return Err(format!("both labels are '{yes}'; expected two"));
        }
        let (given, measured) = (self.training.subject_to.len(), self.measured.constraints.len());
        if given != measured {
            return Err(format!("it has {given} constraints and measures {measured}"));
        }
        match self.measured.constraints.iter().find(|c| !(c.sharpened > 0.0 && c.sharpened.is_finite())) {
            Some(c) => Err(format!("'{}' is sharpened by {}; expected a number above 0", c.name, c.sharpened)),
            None => Ok(()),
        }
    }

    /// Writes the model, completely or not at all.
    pub fn write(&self, file: &Path) -> Result<()> {
        write_whole(file, &json(self)?)
    }

    /// Returns the variables of its problem: the weights, then the intercept if it was trained.
    pub fn point(&self) -> Vec<f64> {
        self.weights.iter().map(|w| w.weight).chain(self.training.intercept.then_some(self.intercept)).collect()
    }

    /// Returns whether the scores are log-odds: the objective is the logistic loss, with or without a penalty, and there are no
    /// constraints. They move scores away from log-odds, by different amounts in different groups.
    pub fn has_probabilities(&self) -> bool {
        let Ok(objective) = self.training.minimize.parse::<Expression>() else { return false };
        let penalty = |call: &Call| ["l2", "ridge", "l1", "scad"].contains(&call.name.as_str());
        let logistic = |call: &Call| call.name == "logistic" && call.arguments.is_empty();
        let mut calls = objective.pieces.iter().map(|(_, call)| call);
        self.training.subject_to.is_empty() && calls.clone().any(logistic) && calls.all(|call| penalty(call) || logistic(call))
    }

    /// Describes the rows that it was trained on.
    pub fn origin(&self) -> &str {
        if self.training.file.is_empty() { "rows in memory" } else { &self.training.file }
    }

    /// Computes the scores of rows, bit for bit as at the end of training.
    pub fn scores(&self, features: &Matrix) -> Vec<f64> {
        let weights: Vec<f64> = self.weights.iter().map(|w| w.weight).collect();
        let mut scores = vec![0.0; features.rows()];
        features.scores(0..features.rows(), &weights, &mut scores);
        scores.iter_mut().for_each(|s| *s += self.intercept);
        scores
    }

    /// Returns the labels predicted for scores above 0 and for the others.
    pub fn answers(&self) -> (&str, &str) {
        match &self.input {
            Input::Table { labels, .. } => (&labels.positive, &labels.negative),
            Input::Libsvm { positive, negative, .. } => (positive, negative),
        }
    }
}

impl Input {
    /// Returns the number of features.
    pub fn features(&self) -> usize {
        match self {
            Input::Table { encoding, .. } => encoding.features(),
            Input::Libsvm { columns, used, .. } => {
                if used.is_empty() {
                    *columns
                } else {
                    used.len()
                }
            }
        }
    }

    /// Checks what the type does not say.
    fn check(&self) -> Result<(), String> {
        match self {
            Input::Libsvm { columns, used, .. } if !used.is_empty() => check_used_columns(*columns, used),
            _ => Ok(()),
        }
    }

    /// Returns the names of the features.
    pub fn feature_names(&self) -> Vec<String> {
        match self {
            Input::Table { encoding, .. } => encoding.names(),
            Input::Libsvm { columns, used, .. } if used.is_empty() => (1..=*columns).map(|c| format!("column {c}")).collect(),
            Input::Libsvm { used, .. } => used.iter().map(|c| format!("column {c}")).collect(),
        }
    }

    /// Reads the features of a file with the columns of the model's, and returns them with messages for the user. Labels and
    /// groups are ignored: new rows may have none, or others.
    pub fn read(&self, file: &Path) -> Result<(Matrix, Vec<Note>)> {
        match self {
            Input::Table { encoding, .. } => encoding.encode(&Table::read(file)?),
            Input::Libsvm { columns, used, .. } => {
                let features = cache::read_features(file, *columns)?;
                Ok((if used.is_empty() { features } else { select_columns(&features, used)? }, vec![]))
            }
        }
    }

    /// Returns the divisions by each of several columns whose combinations are the groups.
    pub fn by_column(&self) -> Vec<CoarserGroups> {
        match self {
            Input::Table { grouping: Some(grouping), .. } => grouping.by_column(),
            _ => vec![],
        }
    }

    /// Reads features, labels and groups of a table.
    pub fn rows(&self, table: &Table) -> Result<Rows> {
        let Input::Table { encoding, labels, grouping } = self else {
            return Err(table.bad("is a table, but the model was trained on LIBSVM rows"));
        };
        let (features, notes) = encoding.encode(table)?;
        let groups = grouping.as_ref().map(|g| g.read(table)).transpose()?.flatten();
        Ok(Rows { features, labels: labels.read(table)?, groups, notes })
    }
}
