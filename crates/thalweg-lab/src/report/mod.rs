//! The report: what is on the page as plain data, and the page itself, one HTML file that needs nothing else. Where the numbers
//! come from is decided elsewhere: by the store of experiments, by `fit`, `solve` and `tradeoff`.

mod curves;
mod html;
pub mod of_fit;
pub mod of_solve;
pub mod of_tradeoff;
mod thin;

pub use html::{LEVELS, html, style};
use serde::Serialize;

/// A page.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// The answer in a sentence or two: the first thing that is read.
    pub lead: String,
    /// What must be known before anything is believed: stand-in data, runs that failed.
    pub alerts: Vec<String>,
    /// What follows, in this order.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Section {
    /// Curves of many runs, and the table of how they ended.
    Experiment(Experiment),
    /// Each constraint against its bound.
    Bounds(Bounds),
    /// Rates by group.
    Groups(Groups),
    /// Distribution of scores by group.
    Scores(Scores),
    /// What a bound costs.
    Tradeoff(Tradeoff),
    /// Settings, machine, data: names and values.
    Facts(Facts),
}

/// Runs of several solvers on several problems.
#[derive(Debug, Clone, Serialize)]
pub struct Experiment {
    /// Heading.
    pub title: String,
    /// One for each data set and problem.
    pub panels: Vec<Panel>,
    /// All runs.
    pub runs: Vec<Run>,
}

/// A data set with a problem on it.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Short: "a9a".
    pub label: String,
    /// The problem in words.
    pub words: String,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// What the store calls it.
    pub id: String,
    /// Its panel, by number.
    pub panel: usize,
    /// Runs of a panel with the same text here are on the same problem; another seed may have drawn other rows.
    pub instance: String,
    /// Label of the solver.
    pub solver: String,
    /// The settings in which it differs from other runs of that solver: "eta = 0.001, tol = 1e-5". Empty if there is one cell.
    pub cell: String,
    /// Its seed.
    pub seed: u64,
    /// It is of the cell that was chosen for this solver on this panel.
    pub tuned: bool,
    /// Why it ended, in words.
    pub ended: String,
    /// It met something that is not a number, or was refused.
    pub failed: bool,
    /// The returned point keeps every constraint.
    pub feasible: bool,
    /// Objective at the returned point; none if there is no point.
    pub objective: Option<f64>,
    /// Largest constraint there, signed; none without constraints.
    pub violation: Option<f64>,
    /// Bounds on the near-stationarity of the returned point.
    pub certificate: Option<[f64; 2]>,
    /// Steps made.
    pub iterations: u64,
    /// Passes of the objective.
    pub passes_f: f64,
    /// Passes of the constraints.
    pub passes_g: f64,
    /// Samples read.
    pub samples: u64,
    /// Time without measuring.
    pub seconds: f64,
    /// Recorded iterates: the columns "iterations", "passes_f", "passes_g", "samples", "seconds" are for the axis, "objective",
    /// "violation" and all others, under the name that a reader sees, are quantities.
    pub trace: Trace,
    /// Iterates whose near-stationarity was bounded: columns for the axis as in `trace`, "lower" and "upper".
    pub certified: Trace,
    /// What a careful reader should know.
    pub notes: Vec<String>,
}

/// Columns of equal length.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trace {
    /// The columns; a value that is not finite is one that is missing.
    pub columns: Vec<Column>,
    /// Whether the iterate keeps every constraint; as long as the columns.
    pub feasible: Vec<bool>,
}

/// One quantity along a run.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// One value for each recorded iterate.
    pub values: Vec<f64>,
}

/// Each constraint against its bound.
#[derive(Debug, Clone, Serialize)]
pub struct Bounds {
    /// Heading.
    pub title: String,
    /// The constraints.
    pub constraints: Vec<BoundRow>,
}

/// One constraint.
#[derive(Debug, Clone, Serialize)]
pub struct BoundRow {
    /// Its left-hand side.
    pub name: String,
    /// Its bound.
    pub bound: f64,
    /// Its value on the rows that were trained on.
    pub value: f64,
    /// On held-out rows.
    pub held_out: Option<f64>,
    /// Whether the bound is kept; none if this row is not one that has to.
    pub kept: Option<bool>,
}

/// Rates by group.
#[derive(Debug, Clone, Serialize)]
pub struct Groups {
    /// Heading.
    pub title: String,
    /// Names of the groups and their training rows.
    pub groups: Vec<(String, usize)>,
    /// The rates.
    pub rates: Vec<Rate>,
}

/// One rate in every group.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    /// The quantity, such as "positive predictions".
    pub name: String,
    /// Share in each group, training rows.
    pub training: Vec<Option<f64>>,
    /// Share in each group, held-out rows; empty if there are none.
    pub held_out: Vec<Option<f64>>,
}

/// Distribution of scores by group.
#[derive(Debug, Clone, Serialize)]
pub struct Scores {
    /// Heading.
    pub title: String,
    /// Edges of the bins, one more than there are bins.
    pub edges: Vec<f64>,
    /// The score above which the answer is positive.
    pub threshold: f64,
    /// For each group its name and the share of its rows in each bin.
    pub groups: Vec<(String, Vec<f64>)>,
}

/// What a bound costs: one point for each value of it.
#[derive(Debug, Clone, Serialize)]
pub struct Tradeoff {
    /// Heading.
    pub title: String,
    /// Along the bottom.
    pub x_label: String,
    /// Upwards.
    pub y_label: String,
    /// Numbers upwards are shares, shown in per cent.
    pub percent: bool,
    /// The points, in the order in which kept ones are joined.
    pub points: Vec<TradeoffPoint>,
}

/// One value of the bound.
#[derive(Debug, Clone, Serialize)]
pub struct TradeoffPoint {
    /// Along the bottom.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// Every bound is kept.
    pub kept: bool,
    /// Name and value of everything known about it.
    pub facts: Vec<(String, String)>,
}

/// Names and values.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// Heading.
    pub title: String,
    /// Each with a heading, rows of name and value, and paragraphs.
    pub parts: Vec<FactPart>,
}

/// A part of them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FactPart {
    /// Heading; may be empty.
    pub title: String,
    /// Name and value.
    pub rows: Vec<(String, String)>,
    /// Paragraphs.
    pub words: Vec<String>,
}
