//! Keys of a spec and their defaults. Their values are interpreted in the other files of this module.

use std::path::PathBuf;

use serde::Deserialize;
use thalweg::run::{Budget, Record, StoppingRule};
use toml::Value;

use crate::data::shaped_like::ShapedLike;

/// Spec of a run, as written in TOML.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Random seed of the run. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// Number of threads for sums over rows; results do not depend on it, bit for bit. Default 1.
    pub threads: Option<usize>,
    /// Feasibility tolerance: a constraint is satisfied if its value is at most `feasibility * max(1, |bound|)`. Default 1e-6.
    pub feasibility: Option<f64>,
    /// Whether a returned point that violates constraints is projected onto them. Default false.
    #[serde(default)]
    pub repair: bool,
    /// Near-stationarity of recorded points: "none" (default), "bounds", "switching", or a table with one or more of
    /// `bounds = { mu = …, width = … }`, `switching = { rho_hat = …, iterations = … }` and `penalised = { beta = …, nu = … }`.
    pub(crate) certificate: Option<Value>,
    /// Metrics at recorded points: "accuracy", and sums of terms. By default the accuracy, if there are held-out rows.
    pub measure: Option<Vec<String>>,
    /// Data.
    pub data: DataSpec,
    /// Problem.
    pub problem: ProblemSpec,
    /// Solver: its `name` and its settings.
    pub(crate) solver: toml::Table,
    /// Limits on iterations, passes, samples and seconds.
    pub budget: Budget,
    /// Which iterates are measured: `every`, a list `at`, or `per_decade`.
    #[serde(default)]
    pub record: Record,
    /// Targets that end the run early: objective, certificate.
    #[serde(default)]
    pub stop: StoppingRule,
}

/// Table `[data]` of a spec.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// Name of a data set in the catalogue.
    pub name: Option<String>,
    /// Or a LIBSVM file, plain or gzip, or a `.thw` file; a relative path starts at the spec's directory.
    pub file: Option<PathBuf>,
    /// Or a bilevel problem: its name, or a table with its name and parameters.
    pub(crate) bilevel: Option<Value>,
    /// Or the name of a generator of made-up data.
    pub generator: Option<String>,
    /// Or made-up rows shaped like a large set: `{ like = "url", rows = …, columns = …, seed = … }`.
    pub shaped_like: Option<ShapedLike>,
    /// Number of rows to sample, by the seed, before anything else. All by default.
    pub sample: Option<usize>,
    /// Whether every column is divided by its largest absolute value. Default false.
    #[serde(default)]
    pub scale: bool,
    /// Columns (counted from 1) that are not features of the model and that `covariance` constrains.
    pub sensitive: Option<Vec<usize>>,
    /// Kernel model: "rbf", or `{ rbf = gamma }`. The variables are then the weights of the training rows.
    pub(crate) kernel: Option<Value>,
    /// Number of columns of the file; by default the largest index in it.
    pub columns: Option<usize>,
    /// Column (counted from 1) of the file whose non-zero entries mark the protected group.
    pub group: Option<usize>,
    /// "ordered" (default), "shared", or `{ shuffle = seed }`.
    pub(crate) split: Option<Value>,
    /// Whether rows in gaps are dropped at random until all groups have as many as the smallest (true), or at most a given
    /// number. Default false.
    pub(crate) equal_groups: Option<Value>,
    /// Share of held-out rows, which are only measured. Default 0.
    pub test_fraction: Option<f64>,
    /// Share of validation rows, which are held out for choosing settings. Default 0.
    pub validation_fraction: Option<f64>,
}

/// Table `[problem]` of a spec.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSpec {
    /// Objective, a sum of multiples of terms; absent for a bilevel problem, which has its own.
    #[serde(default)]
    pub minimize: String,
    /// Reformulation of a bilevel problem.
    pub(crate) bilevel: Option<Value>,
    /// Treatment of the transport plan of `wasserstein_gap`: "eliminated" (default) minimises over it; "joint" makes it a
    /// variable beside the model; "doubly-stochastic" is that variable in another unit.
    #[serde(default)]
    pub plan: Plan,
    /// Whether mini-batches of the joint problem are scaled to be unbiased. Default false, as published.
    pub rescale: Option<bool>,
    /// Constraints `TERM <= NUMBER`, or with a bound such as `1.001 * best(TERM)`.
    #[serde(default)]
    pub subject_to: Vec<String>,
    /// "all" (default), "non-negative", `{ ball = radius }`, `{ ball_times_erm = factor }` or `{ box = [low, high] }`.
    pub(crate) domain: Option<Value>,
    /// "zero" (default), "erm" (the minimiser of the loss), "sin" (w_j = 0.01 sin j), a list of numbers, or a file of numbers.
    pub(crate) start: Option<Value>,
    /// Whether the model has an intercept, its last variable. Default false.
    #[serde(default)]
    pub intercept: bool,
}

/// Treatment of a transport plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// Replaced by the optimal plan for the current model.
    #[default]
    Eliminated,
    /// A variable.
    Joint,
    /// A variable, scaled so that its rows and columns sum to 1 if the groups are equal.
    DoublyStochastic,
}

impl Plan {
    /// Returns the name as written in a spec.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Plan::Eliminated => "eliminated",
            Plan::Joint => "joint",
            Plan::DoublyStochastic => "doubly-stochastic",
        }
    }
}
