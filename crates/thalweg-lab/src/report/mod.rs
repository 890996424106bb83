//! The report: the content of a page as plain data, and the page itself, one self-contained HTML file. The numbers come from
//! the store of experiments and from `fit`, `solve` and `tradeoff`.

mod curves;
mod html;
pub mod of_fit;
pub mod of_solve;
pub mod of_tradeoff;
mod thin;

pub use html::{LEVELS, html, style};
use serde::Serialize;

/// Page.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// Title.
    pub title: String,
    /// Summary in a sentence or two, at the top of the page.
    pub lead: String,
    /// Warnings before anything else: stand-in data, failed runs.
    pub alerts: Vec<String>,
    /// Sections, in this order.
    pub sections: Vec<Section>,
}

/// Section of a page.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Section {
    /// Curves of many runs, and the table of their results.
    Experiment(Experiment),
    /// Each constraint against its bound.
    Bounds(Bounds),
    /// Rates by group.
    Groups(Groups),
    /// Distribution of scores by group.
    Scores(Scores),
    /// Trade-off between a bound and the objective.
    Tradeoff(Tradeoff),
    /// Settings, machine, data: names and values.
    Facts(Facts),
}

/// Runs of several solvers on several problems.
#[derive(Debug, Clone, Serialize)]
pub struct Experiment {
    /// Heading.
    pub title: String,
    /// One panel for each data set and problem.
    pub panels: Vec<Panel>,
    /// All runs.
    pub runs: Vec<Run>,
}

/// Data set with a problem on it.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Short label: "a9a".
    pub label: String,
    /// Description of the problem.
    pub words: String,
}

/// Run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Key in the store.
    pub id: String,
    /// Index of the panel.
    pub panel: usize,
    /// Identifies the problem instance: runs of a panel with the same text are on the same problem; another seed may have drawn
    /// other rows.
    pub instance: String,
    /// Label of the solver.
    pub solver: String,
    /// Settings that differ from those of other runs of that solver: "eta = 0.001, tol = 1e-5". Empty if there is one cell.
    pub cell: String,
    /// Random seed.
    pub seed: u64,
    /// Whether its cell was selected for this solver on this panel.
    pub tuned: bool,
    /// Why the run ended, as a sentence.
    pub ended: String,
    /// Whether a value was not a number, or the run was rejected.
    pub failed: bool,
    /// Whether the returned point satisfies every constraint.
    pub feasible: bool,
    /// Objective at the returned point; `None` if there is no point.
    pub objective: Option<f64>,
    /// Largest constraint value at the returned point, signed; `None` without constraints.
    pub violation: Option<f64>,
    /// Bounds on the near-stationarity of the returned point.
    pub certificate: Option<[f64; 2]>,
    /// Number of iterations.
    pub iterations: u64,
    /// Passes of the objective.
    pub passes_f: f64,
    /// Passes of the constraints.
    pub passes_g: f64,
    /// Samples read.
    pub samples: u64,
    /// Time in seconds, without measuring.
    pub seconds: f64,
    /// Recorded iterates: the columns "iterations", "passes_f", "passes_g", "samples", "seconds" are for the axis; "objective",
    /// "violation" and all others, under their displayed names, are quantities.
    pub trace: Trace,
    /// Iterates with bounds on near-stationarity: columns for the axis as in `trace`, "lower" and "upper".
    pub certified: Trace,
    /// Notes about the run.
    pub notes: Vec<String>,
}

/// Columns of equal length.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trace {
    /// Columns; a value that is not finite is missing.
    pub columns: Vec<Column>,
    /// Whether each iterate satisfies every constraint; as long as the columns.
    pub feasible: Vec<bool>,
}

/// One quantity along a run.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// Name.
    pub name: String,
    /// One value for each recorded iterate.
    pub values: Vec<f64>,
}

/// Each constraint against its bound.
#[derive(Debug, Clone, Serialize)]
pub struct Bounds {
    /// Heading.
    pub title: String,
    /// Constraints.
    pub constraints: Vec<BoundRow>,
}

/// One constraint.
#[derive(Debug, Clone, Serialize)]
pub struct BoundRow {
    /// Left-hand side.
    pub name: String,
    /// Bound.
    pub bound: f64,
    /// Value on the training rows.
    pub value: f64,
    /// Value on held-out rows.
    pub held_out: Option<f64>,
    /// Whether the bound is satisfied; `None` if this row is not enforced.
    pub satisfied: Option<bool>,
}

/// Rates by group.
#[derive(Debug, Clone, Serialize)]
pub struct Groups {
    /// Heading.
    pub title: String,
    /// Names of the groups and their numbers of training rows.
    pub groups: Vec<(String, usize)>,
    /// Rates.
    pub rates: Vec<Rate>,
}

/// One rate in every group.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    /// Name of the rate, such as "positive predictions".
    pub name: String,
    /// Rate in each group on training rows.
    pub training: Vec<Option<f64>>,
    /// Rate in each group on held-out rows; empty if there are none.
    pub held_out: Vec<Option<f64>>,
}

/// Distribution of scores by group.
#[derive(Debug, Clone, Serialize)]
pub struct Scores {
    /// Heading.
    pub title: String,
    /// Edges of the bins, one more than there are bins.
    pub edges: Vec<f64>,
    /// Score above which the prediction is positive.
    pub threshold: f64,
    /// Name of each group, and the share of its rows in each bin.
    pub groups: Vec<(String, Vec<f64>)>,
}

/// Trade-off between a bound and the objective: one point for each value of the bound.
#[derive(Debug, Clone, Serialize)]
pub struct Tradeoff {
    /// Heading.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Whether vertical coordinates are shares, shown in per cent.
    pub percent: bool,
    /// Points, in the order in which feasible ones are joined.
    pub points: Vec<TradeoffPoint>,
}

/// Point for one value of the bound.
#[derive(Debug, Clone, Serialize)]
pub struct TradeoffPoint {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// Whether every bound is satisfied.
    pub feasible: bool,
    /// Names and values of its facts.
    pub facts: Vec<(String, String)>,
}

/// Names and values.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// Heading.
    pub title: String,
    /// Parts, each with a heading, rows of name and value, and paragraphs.
    pub parts: Vec<FactPart>,
}

/// Part of the facts.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FactPart {
    /// Heading; may be empty.
    pub title: String,
    /// Name and value.
    pub rows: Vec<(String, String)>,
    /// Paragraphs.
    pub words: Vec<String>,
}
