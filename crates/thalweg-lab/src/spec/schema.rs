//! Keys of a spec: what may be written, and its defaults. What the words mean is decided in the other files of this module.

use std::path::PathBuf;

use serde::Deserialize;
use thalweg::run::{Budget, Record, StoppingRule};
use toml::Value;

use crate::data::shaped_like::ShapedLike;

/// A run as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Seed of every generator of the run. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// Threads for sums over rows; the bits do not depend on it. Default 1.
    pub threads: Option<usize>,
    /// A constraint holds if its value is at most `feasibility * max(1, |bound|)`. Default 1e-6.
    pub feasibility: Option<f64>,
    /// Whether a returned point that violates constraints is projected onto them. Default false.
    #[serde(default)]
    pub repair: bool,
    /// Near-stationarity of recorded points: "none" (default), "bounds", "switching", or a table with one or more of
    /// `bounds = { mu = …, width = … }`, `switching = { rho_hat = …, iterations = … }` and `penalised = { beta = …, nu = … }`.
    pub(crate) certificate: Option<Value>,
    /// What else is measured at recorded points: "accuracy", and sums of terms. By default the accuracy, if rows are set aside.
    pub measure: Option<Vec<String>>,
    /// The data.
    pub data: DataSpec,
    /// The problem.
    pub problem: ProblemSpec,
    /// The solver: its `name` and its settings.
    pub(crate) solver: toml::Table,
    /// When to end: iterations, passes, samples, seconds.
    pub budget: Budget,
    /// Which iterates are measured: `every`, a list `at`, or `per_decade`.
    #[serde(default)]
    pub record: Record,
    /// When to end because the iterate is good enough: objective, certificate.
    #[serde(default)]
    pub stop: StoppingRule,
}

/// The `[data]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// A set of the catalogue.
    pub name: Option<String>,
    /// Or a LIBSVM file, plain or gzip, or a `.thw` file; a relative path starts at the spec's directory.
    pub file: Option<PathBuf>,
    /// Or a bilevel problem: its name, or a table with its name and what it is made from.
    pub(crate) bilevel: Option<Value>,
    /// Or the name of a generator of synthetic data.
    pub generator: Option<String>,
    /// Or synthetic rows in the shape of a large set: `{ like = "url", rows = …, columns = …, seed = … }`.
    pub shaped_like: Option<ShapedLike>,
    /// How many rows are drawn, by the seed, before anything else; all if absent.
    pub sample: Option<usize>,
    /// Whether every column is divided by its largest absolute value. Default false.
    #[serde(default)]
    pub scale: bool,
    /// Columns (counted from 1) that the model does not see and that `covariance` is about.
    pub sensitive: Option<Vec<usize>>,
    /// A kernel model: "rbf", or `{ rbf = gamma }`. The variables are then the weights of the training rows.
    pub(crate) kernel: Option<Value>,
    /// Columns of the file; by default the largest index in it.
    pub columns: Option<usize>,
    /// Column (counted from 1) of the file that marks the protected group by a non-zero entry.
    pub group: Option<usize>,
    /// "ordered" (default), "shared", or `{ shuffle = seed }`.
    pub(crate) split: Option<Value>,
    /// Rows of gaps are left out at random until all groups have as many as the smallest (true), and at most a number.
    /// Default false.
    pub(crate) equal_groups: Option<Value>,
    /// Share of the rows that is set aside and only measured. Default 0.
    pub test_fraction: Option<f64>,
    /// Share of the rows that is set aside for choosing between settings. Default 0.
    pub validation_fraction: Option<f64>,
}

/// The `[problem]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSpec {
    /// A sum of multiples of terms; nothing for a bilevel problem, which has an objective.
    #[serde(default)]
    pub minimize: String,
    /// How a bilevel problem becomes an ordinary one.
    pub(crate) bilevel: Option<Value>,
    /// What becomes of the transport plan of `wasserstein_gap`: "eliminated" (default), the best one in its place; "joint", a
    /// variable beside the model; or "doubly-stochastic", that variable in another unit.
    #[serde(default)]
    pub plan: Plan,
    /// Whether batches of the joint problem are scaled to be unbiased. Default false, as published.
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

/// What becomes of a transport plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// The best one for the model at hand is put in its place.
    #[default]
    Eliminated,
    /// It is a variable.
    Joint,
    /// It is a variable, multiplied so that its rows and columns sum to 1 where the groups are equal.
    DoublyStochastic,
}

impl Plan {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Plan::Eliminated => "eliminated",
            Plan::Joint => "joint",
            Plan::DoublyStochastic => "doubly-stochastic",
        }
    }
}
