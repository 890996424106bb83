//! The page of a trained model. The numbers come from [`crate::model`] and the trained problem; this module formats them and
//! computes histograms.

use thalweg::learn::{Enforce, FitOptions, Learning, Promise};
use thalweg::run::StopReason;

use super::curves::{Limit, traces};
use super::{BoundRow, Bounds, Experiment, FactPart, Facts, Groups, Page, Panel, Rate, Run, Scores, Section};
use crate::Result;
use crate::certificate::stationary_words;
use crate::data::catalogue::called;
use crate::data::source::list;
use crate::fit::TrainedModel;
use crate::model::{GroupQuality, Input, Model, Quality, Training, confidence};
use crate::output::{short, with_options};
use thalweg::thousands;

/// Approximate number of bins of the histogram.
const BINS: f64 = 60.0;
/// Share of the rows below the first bin and above the last, which are counted in these bins.
const TAIL: f64 = 0.001;
/// Share of the rows on either side of the bulk.
const BULK: f64 = 0.01;
/// Maximum number of bounds listed in the summary; more are counted.
const LISTED: usize = 4;

/// Builds the page of a trained model.
pub fn page(trained: &TrainedModel) -> Result<Page> {
    let model = &trained.model;
    let mut sections = vec![];
    if !model.measured.constraints.is_empty() {
        sections.push(Section::Bounds(Bounds { title: "Bounds".into(), constraints: bounds(model) }));
    }
    sections.extend(groups(&model.measured.training, model.measured.held_out.as_ref()).map(Section::Groups));
    let (problem, rows) = match &trained.held_out {
        Some(held_out) => (held_out, "held-out rows"),
        None => (&trained.problem, "training rows"),
    };
    sections.extend(scores(problem, &model.point(), rows)?.map(Section::Scores));
    sections.push(Section::Experiment(experiment(trained)));
    sections.push(Section::Facts(facts(trained)));
    Ok(Page {
        title: format!("{} on {}", model.training.minimize, data_of(&model.training)),
        lead: lead(model),
        alerts: alerts(model),
        sections,
    })
}

/// Lists every constraint on training and held-out rows, as measured rate and as surrogate if it is a rate. Only the enforced
/// one is satisfied or violated.
pub fn bounds(model: &Model) -> Vec<BoundRow> {
    let m = &model.measured;
    let mut rows = vec![];
    for (j, c) in m.constraints.iter().enumerate() {
        // Held-out rows are measured with the requested temperature.
        let held = m.held_out.as_ref();
        let smooth = held.and_then(|q| q.constraints.get(j).copied()).filter(|_| c.measured.is_none() || c.sharpened == 1.0);
        let Some(measured) = c.measured else {
            rows.push(BoundRow {
                name: c.name.clone(),
                bound: c.bound,
                value: c.surrogate,
                held_out: smooth,
                satisfied: Some(c.satisfied),
            });
            continue;
        };
        let enforced = |side| (model.training.enforce == side).then_some(c.satisfied);
        rows.push(BoundRow {
            name: format!("{}, measured", c.name),
            bound: c.bound,
            value: measured,
            held_out: held.and_then(|q| q.measured.get(j).copied().flatten()),
            satisfied: enforced(Enforce::Measured),
        });
        rows.push(BoundRow {
            name: format!("{}, surrogate", c.name),
            bound: c.surrogate_bound,
            value: c.surrogate,
            held_out: smooth,
            satisfied: enforced(Enforce::Surrogate),
        });
    }
    rows
}

fn lead(model: &Model) -> String {
    let m = &model.measured;
    let mut text = capital(&m.verdict()) + ".";
    if let Some(promise) = &m.promise {
        text += &format!(" {}.", capital(&promise.sentence));
    }
    text += &match &m.held_out {
        Some(held) => format!(
            " The accuracy is {} on {} held-out rows and {} on the training rows.",
            percent(held.accuracy),
            thousands(held.rows),
            percent(m.training.accuracy)
        ),
        None => format!(
            " The accuracy is {} on the {} training rows; none were held out.",
            percent(m.training.accuracy),
            thousands(m.training.rows)
        ),
    };
    let rows: Vec<BoundRow> = bounds(model).into_iter().filter(|row| row.satisfied.is_some()).collect();
    if rows.len() > LISTED {
        let satisfied = rows.iter().filter(|row| row.satisfied == Some(true)).count();
        return format!("{text} {satisfied} of {} constraints are satisfied.", rows.len());
    }
    for row in rows {
        let held = row.held_out.map_or(String::new(), |v| format!(", {v:.4} on held-out rows"));
        text += &format!(" {}: {:.4} on training rows{held}, bound {}.", row.name, row.value, short(row.bound));
    }
    text
}

fn alerts(model: &Model) -> Vec<String> {
    let m = &model.measured;
    match (&m.ended, m.feasible) {
        (StopReason::Failed { .. } | StopReason::Interrupted, _) | (_, false) => vec![capital(&m.verdict()) + "."],
        _ => vec![],
    }
}

fn groups(training: &Quality, held_out: Option<&Quality>) -> Option<Groups> {
    let mut groups: Vec<(String, usize)> = training.groups.iter().map(|g| (g.group.clone(), g.rows)).collect();
    // A group may occur only in the held-out rows.
    for held in held_out.iter().flat_map(|q| &q.groups) {
        if groups.iter().all(|(name, _)| *name != held.group) {
            groups.push((held.group.clone(), 0));
        }
    }
    let rate = |name: &str, get: fn(&GroupQuality) -> f64| {
        let of = |q: &Quality| groups.iter().map(|(name, _)| q.groups.iter().find(|g| g.group == *name).map(get)).collect();
        Rate { name: name.into(), training: of(training), held_out: held_out.map_or(vec![], of) }
    };
    let rates = vec![
        rate("positive predictions", |g| g.predicted),
        rate("accuracy", |g| g.accuracy),
        rate("positive labels", |g| g.positive),
    ];
    (!groups.is_empty()).then(|| Groups { title: "Groups".into(), groups, rates })
}

/// Computes the histogram of scores; `None` if there is no score to show.
fn scores(problem: &Learning, x: &[f64], rows: &str) -> Result<Option<Scores>> {
    let data = problem.data();
    let scores = problem.scores(x)?;
    let weights = data.weights.clone().unwrap_or_else(|| vec![1.0; scores.len()]);
    let (names, of_row) = match &data.groups {
        Some(groups) => (groups.names.clone(), groups.of_row.clone()),
        None => (vec!["all rows".into()], vec![0; scores.len()]),
    };
    let rows_of = |k: usize| -> Vec<(f64, f64)> {
        let rows = scores.iter().zip(&weights).zip(&of_row).filter(|(_, group)| **group as usize == k);
        rows.map(|((score, weight), _)| (*score, *weight)).collect()
    };
    let all: Vec<(f64, f64)> = scores.iter().copied().zip(weights.iter().copied()).collect();
    let Some(edges) = edges(&all) else { return Ok(None) };
    let groups = names.into_iter().enumerate().filter_map(|(k, name)| Some((name, shares(&rows_of(k), &edges)?))).collect();
    Ok(Some(Scores { title: format!("Scores of {rows}"), edges, threshold: 0.0, groups }))
}

/// Returns evenly spaced edges of the bins for weighted scores. The threshold 0 is an edge if it is in their range, so that no
/// bin is on both sides of it.
fn edges(scores: &[(f64, f64)]) -> Option<Vec<f64>> {
    let mut sorted: Vec<(f64, f64)> = scores.iter().copied().filter(|(s, w)| s.is_finite() && *w > 0.0).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = sorted.iter().map(|(_, w)| w).sum();
    let quantile = |q: f64| {
        let mut below = 0.0;
        let found = sorted.iter().find(|(_, w)| {
            below += w;
            below >= q * total
        });
        found.or(sorted.last()).map(|(s, _)| *s)
    };
    // Outliers are cut off: the bins extend beyond the bulk by at most half its length.
    let (from, to) = (quantile(BULK)?, quantile(1.0 - BULK)?);
    let reach = if to > from { (to - from) / 2.0 } else { f64::INFINITY };
    let (low, high) = (quantile(TAIL)?.max(from - reach), quantile(1.0 - TAIL)?.min(to + reach));
    // Scores that are all equal, or nearly so, still get a visible bin.
    let width = ((high - low) / BINS).max(1e-9 * low.abs().max(high.abs())).max(1e-12);
    if !width.is_finite() {
        return None;
    }
    let (first, last) = ((low / width).floor(), (high / width).ceil().max((low / width).floor() + 1.0));
    // Whole multiples of the width, so that 0 is exact.
    Some((0..=(last - first) as usize).map(|k| (first + k as f64) * width).collect())
}

/// Computes the share of the weight in each bin, tails included in the end bins; `None` without weight. A score on an edge is
/// counted below it, since a score of 0 is a negative prediction.
fn shares(rows: &[(f64, f64)], edges: &[f64]) -> Option<Vec<f64>> {
    let mut bins = vec![0.0; edges.len() - 1];
    let last = bins.len() - 1;
    for (score, weight) in rows.iter().filter(|(s, _)| s.is_finite()) {
        let above = edges.partition_point(|edge| edge < score);
        bins[above.saturating_sub(1).min(last)] += weight;
    }
    let total: f64 = bins.iter().sum();
    (total > 0.0).then(|| bins.iter().map(|b| b / total).collect())
}

fn experiment(trained: &TrainedModel) -> Experiment {
    let (m, t) = (&trained.model.measured, &trained.model.training);
    let feasibility = FitOptions::default().feasibility;
    let limits: Vec<Limit> = m
        .constraints
        .iter()
        .enumerate()
        .map(|(index, c)| Limit { name: &c.name, index, bound: c.bound, tolerance: feasibility * c.bound.abs().max(1.0) })
        .collect();
    let (trace, certified) = traces(&trained.trace, limits.len(), &limits, &[]);
    let enforced = m.constraints.iter().map(|c| match t.enforce {
        Enforce::Measured => c.measured.unwrap_or(c.surrogate) - c.bound,
        Enforce::Surrogate => c.surrogate - c.bound,
    });
    let mut notes = vec![];
    if m.constraints.iter().any(|c| c.measured.is_some()) {
        notes.push("Along the curves, rates are surrogates and bounds are those that were requested.".into());
    }
    if m.rounds > 1 {
        notes.push(format!("The curves are of {} rounds, one after the other.", m.rounds));
    }
    let run = Run {
        id: String::new(),
        panel: 0,
        instance: String::new(),
        solver: t.solver.clone(),
        cell: String::new(),
        seed: t.seed,
        tuned: true,
        ended: m.ended.to_string(),
        failed: matches!(m.ended, StopReason::Failed { .. }),
        feasible: m.feasible,
        objective: Some(m.training.objective),
        violation: enforced.reduce(f64::max),
        // The certificate is about the problem with surrogate bounds; it is shown with the facts.
        certificate: None,
        iterations: m.iterations,
        passes_f: m.passes.objective,
        passes_g: m.passes.constraints,
        samples: trained.samples,
        seconds: m.seconds,
        trace,
        certified,
        notes,
    };
    let panel = Panel { label: data_of(t), words: problem_words(&t.minimize, &t.subject_to) };
    Experiment { title: "Training".into(), panels: vec![panel], runs: vec![run] }
}

fn facts(trained: &TrainedModel) -> Facts {
    let (model, m, t) = (&trained.model, &trained.model.measured, &trained.model.training);
    let mut parts = vec![];
    let mut part = |title: &str, rows: Vec<(&str, String)>, words: Vec<String>| {
        let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
        parts.push(FactPart { title: title.into(), rows: rows.map(|(n, v)| (n.to_string(), v)).collect(), words });
    };
    let (yes, no) = model.answers();
    let group = match &model.input {
        Input::Table { grouping, .. } => grouping.as_ref().map(|g| match g.columns() {
            [only] => format!("column '{}'", only.column),
            columns => format!("combinations of the columns {}", list(columns.iter().map(|c| c.column.as_str()))),
        }),
        Input::Libsvm { group, .. } => group.map(|column| format!("column {column}")),
    };
    part(
        "Problem",
        vec![
            ("minimise", t.minimize.clone()),
            ("subject to", t.subject_to.join("; ")),
            (
                "value of a rate that must satisfy its bound",
                match t.enforce {
                    _ if m.constraints.iter().all(|c| c.measured.is_none()) => String::new(),
                    Enforce::Measured if m.promise.is_some() => "the rate on unseen rows".into(),
                    Enforce::Measured => "the measured rate on the training rows".into(),
                    Enforce::Surrogate => "its surrogate".into(),
                },
            ),
            ("answers", format!("'{yes}' for a score above 0, else '{no}'")),
            ("groups", group.unwrap_or_default()),
            (
                "domain",
                t.domain.as_ref().map_or(String::new(), |domain| match domain.as_str() {
                    "all" => "all weights".into(),
                    radius => format!("ball of radius {radius}"),
                }),
            ),
            ("features", format!("{} and an intercept", thousands(model.weights.len()))),
        ],
        t.references.iter().map(|r| format!("best({}) = {}, {}", r.expression, short(r.value), r.proof())).collect(),
    );
    part(
        "Data",
        vec![
            ("file", called(&t.file, t.stand_in.as_deref())),
            ("sha256", t.fingerprint.clone()),
            ("row weights", t.row_weights.as_ref().map_or(String::new(), |column| format!("column '{column}'"))),
            ("share held out", short(t.test_fraction)),
            ("share of the others in the safety set", t.safety_fraction.map_or(String::new(), short)),
            ("training rows", quality(&m.training)),
            ("held-out rows", m.held_out.as_ref().map_or(String::new(), quality)),
        ],
        vec![],
    );
    if let Some(promise) = &m.promise {
        part("Promise", promise_rows(promise), vec![capital(&promise.sentence) + "."]);
    }
    let proved = m
        .stationary
        .as_ref()
        .map(|proved| format!("The surrogate problem with its bounds as trained: {}", stationary_words(proved)));
    part(
        "Training",
        vec![
            ("solver", t.solver.clone()),
            ("step size", t.eta.clone()),
            ("settings", t.settings.clone()),
            ("seed", t.seed.to_string()),
            ("rounds", m.rounds.to_string()),
            ("iterations", thousands(m.iterations as usize)),
            ("passes", format!("{:.1} of the objective, {:.1} of the constraints", m.passes.objective, m.passes.constraints)),
            ("samples", thousands(trained.samples as usize)),
            ("seconds", format!("{:.2}", m.seconds)),
            ("ended", m.ended.to_string()),
            ("made by", made_by()),
        ],
        t.reasons.iter().map(with_options).chain(proved.map(|words| words.trim_end().into())).collect(),
    );
    if !trained.notes.is_empty() {
        part("Notes", vec![], trained.notes.iter().map(with_options).collect());
    }
    Facts { title: "Settings and data".into(), parts }
}

/// Lists the tests of a promise.
fn promise_rows(promise: &Promise) -> Vec<(&'static str, String)> {
    let tests = promise.constraints.iter().map(|c| {
        let (value, at_most) = (c.value, c.at_most);
        format!("{} <= {}: {value:.4} on the safety set, at most {at_most:.4}", c.name, short(c.bound))
    });
    let confirmed = promise.path.iter().filter(|c| c.confirmed == Some(true)).count();
    vec![
        ("confidence", confidence(promise)),
        ("rows in the safety set", thousands(promise.rows)),
        ("tests", tests.collect::<Vec<_>>().join("; ")),
        ("candidates confirmed", format!("{confirmed} of {}, from strict to loose", promise.path.len())),
    ]
}

fn quality(q: &Quality) -> String {
    format!(
        "{}: accuracy {}, {} positive labels, {} positive predictions, objective {}",
        thousands(q.rows),
        percent(q.accuracy),
        percent(q.positive),
        percent(q.predicted),
        short(q.objective)
    )
}

/// Describes the program and the kind of machine.
pub(super) fn made_by() -> String {
    format!("thalweg {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)
}

/// Describes a problem.
pub(super) fn problem_words(minimize: &str, subject_to: &[String]) -> String {
    match subject_to {
        [] if minimize.is_empty() => "the largest outer objective over all inner solutions".into(),
        [] => format!("minimise {minimize}"),
        several => format!("minimise {minimize} subject to {}", several.join(", ")),
    }
}

/// Returns the displayed name of a model's data.
fn data_of(training: &Training) -> String {
    called(&name_of(&training.file), training.stand_in.as_deref())
}

/// Returns a file name without its directory.
fn name_of(file: &str) -> String {
    std::path::Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy().into_owned())
}

/// Capitalises the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Formats a share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_never_straddle_the_threshold_and_shares_add_up() {
        let scores: Vec<(f64, f64)> = (0..5000).map(|i| (f64::from(i) / 1000.0 - 1.7, 1.0)).collect();
        let edges = edges(&scores).unwrap();
        assert!((60..=63).contains(&edges.len()), "{}", edges.len());
        assert!(edges.contains(&0.0) && edges.windows(2).all(|e| e[0] < e[1]));
        let shares = shares(&scores, &edges).unwrap();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Direct count for comparison: scores up to 0, including 0, lie left of the threshold.
        let negative = scores.iter().filter(|(s, _)| *s <= 0.0).count() as f64 / scores.len() as f64;
        let left: f64 = shares.iter().zip(&edges[1..]).filter(|(_, right)| **right <= 0.0).map(|(share, _)| share).sum();
        assert!((left - negative).abs() < 1e-12, "{left} {negative}");
    }

    #[test]
    fn tails_are_gathered_and_weights_count() {
        let mut scores: Vec<(f64, f64)> = (0..2000).map(|i| (f64::from(i % 100) / 100.0, 1.0)).collect();
        scores.push((1e9, 1.0));
        let edges = edges(&scores).unwrap();
        assert!(*edges.last().unwrap() <= 1.1, "{edges:?}");
        // Neither do outliers that are more than a thousandth of the rows.
        let far: Vec<(f64, f64)> = scores.iter().copied().chain([(50.0, 1.0); 10]).collect();
        assert!(super::edges(&far).unwrap().last().is_some_and(|edge| *edge <= 1.6));
        assert!(shares(&scores, &edges).unwrap().last().unwrap() > &0.0);
        // A row of weight 3 counts as three rows, and one of weight 0 as none.
        let shares = |rows: &[(f64, f64)]| shares(rows, &[-1.0, 0.0, 1.0]);
        assert_eq!(shares(&[(-0.5, 3.0), (0.5, 1.0), (0.7, 0.0)]), Some(vec![0.75, 0.25]));
        assert_eq!(shares(&[(-0.5, 0.0)]), None);
        assert_eq!(shares(&[(0.0, 1.0), (f64::NAN, 1.0)]), Some(vec![1.0, 0.0]));
    }

    #[test]
    fn scores_that_are_all_alike_have_a_bin() {
        for score in [0.0, 3.0, -1e6, 1e300] {
            let edges = edges(&[(score, 1.0), (score, 1.0)]).unwrap();
            assert!(edges.len() >= 2 && edges.windows(2).all(|e| e[0] < e[1]), "{score}: {edges:?}");
            assert!(edges[0] <= score && score <= edges[edges.len() - 1], "{score}: {edges:?}");
        }
        assert_eq!(edges(&[(f64::NAN, 1.0)]), None);
        assert_eq!(edges(&[(1.0, 0.0)]), None);
        assert_eq!(edges(&[(-1.7e308, 1.0), (1.7e308, 1.0)]), None);
    }
}
