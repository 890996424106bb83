//! The page of a sweep of one bound. The runs are made in [`crate::tradeoff`]; the axes are those of the plot that
//! `thalweg tradeoff` saves.

use std::path::Path;

use super::of_fit::{made_by, percent};
use super::{FactPart, Facts, Page, Section, Tradeoff, TradeoffPoint};
use crate::output::{short, with_options};
use crate::plot::Plot;
use crate::tradeoff::{FinishedSweep, Row};

/// Sweep and its result.
pub struct Sweep<'a> {
    /// Table or spec.
    pub file: &'a Path,
    /// Objective.
    pub minimize: &'a str,
    /// Constraint whose bound was swept.
    pub constraint: &'a str,
    /// Other constraints, whose bounds were fixed.
    pub others: &'a [String],
    /// Number of requested values of the bound.
    pub asked: usize,
    /// Points of the sweep.
    pub swept: &'a FinishedSweep,
}

/// Builds the page of a sweep.
pub fn page(sweep: &Sweep, plot: &Plot) -> Page {
    let rows = &sweep.swept.rows;
    let points = rows.iter().filter_map(|row| {
        let (x, y) = row.place(plot.percent)?;
        Some(TradeoffPoint { x, y, feasible: row.feasible, facts: facts(row, sweep.minimize) })
    });
    let tradeoff = Tradeoff {
        title: "What the bound costs".into(),
        x_label: plot.x_label.clone(),
        y_label: plot.y_label.clone(),
        percent: plot.percent,
        points: points.collect(),
    };
    let others = if sweep.others.is_empty() { String::new() } else { format!(", {}", sweep.others.join(", ")) };
    let mut parts = vec![FactPart {
        title: "Problem".into(),
        rows: vec![
            ("minimise".into(), sweep.minimize.into()),
            ("subject to".into(), format!("{} <= bound{others}", sweep.constraint)),
            ("read from".into(), sweep.file.display().to_string()),
            ("made by".into(), made_by()),
        ],
        words: vec![],
    }];
    // One line for each bound, including those without a point.
    let line = |row: &Row| {
        let held = |v: Option<String>| v.map_or(String::new(), |v| format!(" (held out {v})"));
        let cells = [
            Some(if row.feasible { "satisfied".to_string() } else { format!("violated, {}", row.ended) }),
            row.accuracy.map(|v| format!("accuracy {}{}", percent(v), held(row.held_out_accuracy.map(percent)))),
            row.seen().map(|v| format!("value {}{}", short(v), held(row.held_out_measured.or(row.held_out_value).map(short)))),
            row.objective.map(|v| format!("objective {}{}", short(v), held(row.held_out_objective.map(short)))),
            Some(format!("{:.0} passes", row.passes)),
        ];
        (short(row.bound), cells.into_iter().flatten().collect::<Vec<_>>().join("; "))
    };
    parts.push(FactPart { title: "Every bound".into(), rows: rows.iter().map(line).collect(), words: vec![] });
    if !sweep.swept.notes.is_empty() {
        parts.push(FactPart { title: "Notes".into(), rows: vec![], words: sweep.swept.notes.iter().map(with_options).collect() });
    }
    Page {
        title: plot.title.clone(),
        lead: lead(sweep, plot),
        alerts: alerts(sweep),
        sections: vec![Section::Tradeoff(tradeoff), Section::Facts(Facts { title: "Points and settings".into(), parts })],
    }
}

fn lead(sweep: &Sweep, plot: &Plot) -> String {
    let rows = &sweep.swept.rows;
    let feasible: Vec<&Row> = rows.iter().filter(|row| row.feasible).collect();
    let mut text = if feasible.len() == rows.len() {
        format!("Every constraint is satisfied at all {} points.", rows.len())
    } else {
        format!("{} of {} points satisfy every constraint.", feasible.len(), rows.len())
    };
    let shown = |v: f64| if plot.percent { percent(v) } else { short(v) };
    // Rows are ordered from loosest to tightest.
    if let (Some(loose), Some(tight)) = (feasible.first(), feasible.last())
        && let (Some((_, from)), Some((_, to))) = (loose.place(plot.percent), tight.place(plot.percent))
        && feasible.len() > 1
    {
        let (a, b) = (short(loose.bound), short(tight.bound));
        let what = &plot.y_label;
        text += &format!(" From a bound of {a} to one of {b}, {what} goes from {} to {}.", shown(from), shown(to));
    }
    text
}

fn alerts(sweep: &Sweep) -> Vec<String> {
    let finished = sweep.swept.rows.len();
    let mut alerts = vec![];
    if sweep.swept.interrupted {
        alerts.push(format!("Interrupted: {finished} of {} points were finished.", sweep.asked));
    }
    let missed: Vec<&Row> = sweep.swept.rows.iter().filter(|row| !row.feasible).collect();
    match missed.as_slice() {
        [] => {}
        [row] => alerts.push(format!("The point of bound {} violates a constraint: {}.", short(row.bound), row.ended)),
        several => {
            let which: Vec<String> = several.iter().map(|row| short(row.bound)).collect();
            alerts.push(format!("The points of bounds {} violate a constraint.", which.join(", ")));
        }
    }
    alerts
}

/// Lists the facts about a point, the bound first.
fn facts(row: &Row, minimize: &str) -> Vec<(String, String)> {
    let optional = [
        ("surrogate", row.value.filter(|_| row.measured.is_some()).map(short)),
        ("measured", row.measured.map(short)),
        ("value", row.value.filter(|_| row.measured.is_none()).map(short)),
        ("on held-out rows", row.held_out_measured.or(row.held_out_value).map(short)),
        ("accuracy", row.accuracy.map(percent)),
        ("accuracy on held-out rows", row.held_out_accuracy.map(percent)),
        ("objective on held-out rows", row.held_out_objective.map(short)),
        ("near-stationary within, if the gradients are right and the constants hold", row.proved.map(|p| format!("{p:.1e}"))),
    ];
    let mut facts = vec![("bound".to_string(), short(row.bound))];
    facts.extend(row.objective.map(|v| (minimize.to_string(), short(v))));
    facts.push(("constraints".into(), if row.feasible { "satisfied".into() } else { "violated".into() }));
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    facts.push(("passes".into(), format!("{:.0}", row.passes)));
    facts.push(("seconds".into(), format!("{:.1}", row.seconds)));
    if !row.ended.is_empty() {
        facts.push(("ended".into(), row.ended.clone()));
    }
    facts
}
