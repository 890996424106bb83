//! Builds one HTML file from the data of a page: the data as JSON, thinned where a trace is longer than a chart can show, and
//! the script that draws it. The only numbers computed here are the passes and seconds until a run reached a level, which need
//! the whole trace.

use std::collections::HashMap;

use super::thin::{shares, thin};
use super::{Experiment, Page, Panel, Run, Section, Trace};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Columns of a trace for the horizontal axis.
const AXES: [&str; 5] = ["iterations", "passes_f", "passes_g", "samples", "seconds"];
/// Maximum number of points over all runs of an experiment.
const POINTS: usize = 60_000;
/// Levels: remaining share of the way from the start to the best known feasible objective.
pub const LEVELS: [f64; 3] = [0.1, 0.01, 0.001];

/// Formats the page as one self-contained HTML file that makes no network requests.
pub fn html(page: &Page) -> String {
    let wire = WirePage {
        title: &page.title,
        lead: &page.lead,
        alerts: &page.alerts,
        version: env!("CARGO_PKG_VERSION"),
        sections: page.sections.iter().map(WireSection::of).collect(),
    };
    // Serialisation cannot fail for these types; if it ever does, the page shows the error instead of being blank.
    let data = serde_json::to_string(&wire).unwrap_or_else(|e| {
        let alert = format!("the data of this page could not be written: {e}");
        serde_json::json!({ "title": page.title, "lead": "", "alerts": [alert], "version": "", "sections": [] }).to_string()
    });
    let (style, script) = (style(), lean(SCRIPT));
    let fill = [
        ("{{script-hash}}", hash(&script)),
        ("{{style-hash}}", hash(&style)),
        ("{{title}}", escape(&page.title)),
        ("{{style}}", style),
        ("{{data}}", data.replace('<', "\\u003c")),
        ("{{script}}", script),
    ];
    // Each placeholder is searched for after the previous one, so that a placeholder inside a name is not replaced.
    let (mut out, mut rest) = (String::with_capacity(fill[4].1.len() + 80_000), TEMPLATE);
    for (mark, text) in &fill {
        if let Some((before, after)) = rest.split_once(mark) {
            out.push_str(before);
            out.push_str(text);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Returns the style sheet of the page, for pages made elsewhere in the same style.
pub fn style() -> String {
    lean(STYLE)
}

/// Removes indentation, empty lines, comment lines and spaces around operators from code. Lines end in LF, because browsers normalise
/// line ends before they hash.
fn lean(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    // There are hundreds of these, and none inside a string.
    lines.map(|line| tighten(line) + "\n").collect::<String>().replace(" => ", "=>")
}

/// Removes the spaces around common operators in front of the first string of a line, because a string may contain them.
fn tighten(line: &str) -> String {
    let (code, rest) = line.split_at(line.find(['\'', '"', '`']).unwrap_or(line.len()));
    code.replace(" = ", "=").replace(" === ", "===").replace(" && ", "&&").replace(" || ", "||") + rest
}

/// Hashes a text for a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |b, &x| b << 8 | u32::from(x)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[derive(Serialize)]
struct WirePage<'a> {
    title: &'a str,
    lead: &'a str,
    alerts: &'a [String],
    version: &'static str,
    sections: Vec<WireSection<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireSection<'a> {
    Experiment(WireExperiment<'a>),
    Other(&'a Section),
}

impl<'a> WireSection<'a> {
    fn of(section: &'a Section) -> Self {
        match section {
            Section::Experiment(e) => Self::Experiment(WireExperiment::of(e)),
            other => Self::Other(other),
        }
    }
}

#[derive(Serialize)]
struct WireExperiment<'a> {
    kind: &'static str,
    title: &'a str,
    levels: [f64; 3],
    panels: &'a [Panel],
    runs: Vec<WireRun<'a>>,
}

#[derive(Serialize)]
struct WireRun<'a> {
    id: &'a str,
    panel: usize,
    solver: &'a str,
    cell: &'a str,
    /// As text, since JavaScript numbers do not hold all 64 bits.
    seed: String,
    tuned: bool,
    ended: &'a str,
    failed: bool,
    feasible: bool,
    objective: Option<f64>,
    violation: Option<f64>,
    /// Best feasible objective of any run on the same problem.
    best: Option<f64>,
    /// Smallest objective of a feasible point, recorded or returned.
    least: Option<f64>,
    certificate: Option<[f64; 2]>,
    iterations: u64,
    passes: f64,
    seconds: f64,
    notes: &'a [String],
    trace: WireTrace<'a>,
    certified: WireTrace<'a>,
    /// For each level, the passes and seconds to the first feasible point that reaches it.
    reached: [Option<[f64; 2]>; 3],
}

#[derive(Serialize)]
struct WireTrace<'a> {
    columns: Vec<(&'a str, Vec<Digits>)>,
    /// 1 or 0 for each row.
    feasible: Vec<u8>,
}

/// Number with as many significant digits as a chart and its export need.
struct Digits {
    value: f64,
    digits: usize,
}

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !self.value.is_finite() {
            return to.serialize_none();
        }
        // Whole numbers are written without ".0", since half of the columns are counts.
        if self.value.fract() == 0.0 && self.value.abs() < 1e9 {
            return to.serialize_i64(self.value as i64);
        }
        let short = format!("{:.*e}", self.digits - 1, self.value).parse().unwrap_or(self.value);
        if short.is_finite() { to.serialize_f64(short) } else { to.serialize_f64(self.value) }
    }
}

impl<'a> WireExperiment<'a> {
    fn of(experiment: &'a Experiment) -> Self {
        let tuned = tuned(&experiment.runs);
        let chosen = tuned.iter().filter(|t| **t).count();
        let (each_tuned, each_other) = shares(chosen, tuned.len() - chosen, POINTS);
        let mut marks: HashMap<(usize, &str), Marks> = HashMap::new();
        for run in &experiment.runs {
            let instance = (run.panel, run.instance.as_str());
            marks.entry(instance).or_insert_with(|| Marks::of(instance, &experiment.runs));
        }
        let run = |(run, tuned): (&'a Run, bool)| {
            let most = if tuned { each_tuned } else { each_other };
            let marks = marks.get(&(run.panel, run.instance.as_str())).copied().unwrap_or_default();
            WireRun {
                id: &run.id,
                panel: run.panel,
                solver: &run.solver,
                cell: &run.cell,
                seed: run.seed.to_string(),
                tuned,
                ended: &run.ended,
                failed: run.failed,
                feasible: run.feasible,
                objective: run.objective,
                violation: run.violation,
                best: marks.best,
                least: feasible_points(run).map(|(objective, _)| objective).reduce(f64::min),
                certificate: run.certificate,
                iterations: run.iterations,
                passes: run.passes_f + run.passes_g,
                seconds: run.seconds,
                notes: &run.notes,
                trace: wire_trace(&run.trace, marks.best, most),
                certified: wire_trace(&run.certified, None, most),
                reached: LEVELS.map(|tau| marks.level(tau).and_then(|level| reached(run, level))),
            }
        };
        Self {
            kind: "experiment",
            title: &experiment.title,
            levels: LEVELS,
            panels: &experiment.panels,
            runs: experiment.runs.iter().zip(tuned).map(run).collect(),
        }
    }
}

/// Selects the runs that are shown first. If no cell was selected (all may have failed), the first one represents the solver,
/// which would otherwise be missing from the page.
fn tuned(runs: &[Run]) -> Vec<bool> {
    let mut cells = HashMap::new();
    for run in runs {
        let cell = cells.entry((run.panel, run.solver.as_str())).or_insert((run.tuned, run.cell.as_str()));
        if run.tuned && !cell.0 {
            *cell = (true, run.cell.as_str());
        }
    }
    let stands = |run: &Run| cells.get(&(run.panel, run.solver.as_str())).is_some_and(|c| !c.0 && c.1 == run.cell);
    runs.iter().map(|run| run.tuned || stands(run)).collect()
}

/// Reference values for the runs on a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Marks {
    best: Option<f64>,
    start: Option<f64>,
}

impl Marks {
    fn of((panel, instance): (usize, &str), runs: &[Run]) -> Self {
        let mut starts = Vec::new();
        let mut best = f64::INFINITY;
        for run in runs.iter().filter(|r| r.panel == panel && r.instance == instance) {
            best = feasible_points(run).map(|(objective, _)| objective).fold(best, f64::min);
            starts.extend(column(&run.trace, "objective").first().filter(|v| v.is_finite()));
        }
        // The median: all are the same unless a method has its own start or its first recorded iterate comes later.
        starts.sort_by(f64::total_cmp);
        Self { best: best.is_finite().then_some(best), start: starts.get(starts.len() / 2).copied() }
    }

    /// Returns the objective to be reached.
    fn level(self, tau: f64) -> Option<f64> {
        let best = self.best?;
        let way = self.start.map(|start| start - best).filter(|way| *way > 0.0).unwrap_or(best.abs());
        Some(best + tau * way)
    }
}

fn column<'a>(trace: &'a Trace, name: &str) -> &'a [f64] {
    trace.columns.iter().find(|c| c.name == name).map_or(&[], |c| &c.values)
}

/// Iterates over objective, passes and seconds of each feasible point in the whole trace and of the returned point.
fn feasible_points(run: &Run) -> impl Iterator<Item = (f64, [f64; 2])> {
    let (f, g) = (column(&run.trace, "passes_f"), column(&run.trace, "passes_g"));
    let seconds = column(&run.trace, "seconds");
    let at = |values: &[f64], i: usize| values.get(i).copied().unwrap_or(f64::NAN);
    let visited = column(&run.trace, "objective").iter().zip(&run.trace.feasible).enumerate();
    let visited = visited.filter(|(_, (_, feasible))| **feasible).map(move |(i, (objective, _))| {
        let objective: f64 = *objective;
        (objective, [at(f, i) + if g.is_empty() { 0.0 } else { at(g, i) }, at(seconds, i)])
    });
    let returned = run.objective.filter(|_| run.feasible).map(|o| (o, [run.passes_f + run.passes_g, run.seconds]));
    visited.chain(returned).filter(|(objective, _)| objective.is_finite())
}

/// Returns passes and seconds to the first feasible point with at most this objective. It uses the whole trace, because a
/// thinned one would give a later point.
fn reached(run: &Run, level: f64) -> Option<[f64; 2]> {
    feasible_points(run).find(|(objective, _)| *objective <= level).map(|(_, cost)| cost)
}

fn wire_trace(trace: &Trace, best: Option<f64>, most: usize) -> WireTrace<'_> {
    // The page can show the objective minus the best one, which has a different shape on a logarithmic scale.
    let gap: Option<Vec<f64>> = best.map(|best| column(trace, "objective").iter().map(|v| v - best).collect());
    let gap = gap.filter(|g| !g.is_empty());
    // Iterations come first: deviations from straight lines are measured against them.
    let axes: Vec<&[f64]> = AXES.iter().map(|name| column(trace, name)).filter(|c| !c.is_empty()).collect();
    let quantities = trace.columns.iter().filter(|c| !AXES.contains(&c.name.as_str())).map(|c| c.values.as_slice());
    let quantities: Vec<&[f64]> = quantities.chain(gap.as_deref()).collect();
    let rows = if trace.columns.is_empty() { Vec::new() } else { thin(&axes, &quantities, &trace.feasible, most) };
    let columns = trace.columns.iter().map(|c| {
        let digits = if c.name == "objective" { 10 } else { 7 };
        let values = rows.iter().filter_map(|&i| c.values.get(i)).map(|&value| Digits { value, digits }).collect();
        (c.name.as_str(), values)
    });
    WireTrace {
        columns: columns.collect(),
        feasible: rows.iter().filter_map(|&i| trace.feasible.get(i)).map(|&f| u8::from(f)).collect(),
    }
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
