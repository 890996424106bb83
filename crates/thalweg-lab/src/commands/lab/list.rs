//! `thalweg lab list`: lists the runs of a store.

use std::process::ExitCode;

use serde::Serialize;

use super::{CommandResult, RunFilter, StoreArg};
use crate::lab::frame::Line;
use crate::lab::store::{Member, Store};
use crate::output::{align, json, print, visible};
use crate::verdict::DONE;

/// List the runs of the store
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    which: RunFilter,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// One run in JSON.
#[derive(Serialize)]
pub(super) struct RunEntry<'a> {
    experiment: &'a str,
    #[serde(flatten)]
    member: &'a Member,
    status: &'a str,
    objective: Option<f64>,
    violation: Option<f64>,
    iterations: Option<u64>,
    seconds: Option<f64>,
    ended: Option<&'a str>,
    finished: Option<&'a str>,
}

impl<'a> RunEntry<'a> {
    pub(super) fn of(row: &'a Line) -> Self {
        RunEntry {
            experiment: &row.experiment,
            member: &row.member,
            status: row.word(),
            objective: row.objective,
            violation: row.violation,
            iterations: row.iterations,
            seconds: row.seconds,
            ended: row.ended.as_deref(),
            finished: row.finished.as_deref(),
        }
    }
}

pub(super) fn list(args: ListArgs) -> CommandResult {
    let store = Store::open(&args.store.store)?;
    let rows = args.which.rows(&store)?;
    if args.json {
        print(&json(&rows.iter().map(RunEntry::of).collect::<Vec<_>>())?)?;
        return Ok(ExitCode::from(DONE));
    }
    let mut text = String::new();
    let mut lines: Vec<Vec<String>> = vec![];
    let mut last: Option<&str> = None;
    for row in &rows {
        if last != Some(row.experiment.as_str()) {
            text += &align(&std::mem::take(&mut lines), &[2, 3, 4]);
            let title = if row.experiment.is_empty() { "in no experiment" } else { &row.experiment };
            text += &format!("{}{}\n", if last.is_some() { "\n" } else { "" }, visible(title));
            last = Some(&row.experiment);
        }
        let number = |v: Option<f64>, words: fn(f64) -> String| v.map_or(String::new(), words);
        lines.push(vec![
            format!("{}{}", row.member.run.chars().take(10).collect::<String>(), if row.member.tuned { " *" } else { "  " }),
            row.word().into(),
            number(row.objective, |v| format!("{v:.6}")),
            number(row.violation, |v| format!("{v:+.1e}")),
            number(row.seconds, |v| format!("{v:.2} s")),
            row.name(),
        ]);
    }
    text += &align(&lines, &[2, 3, 4]);
    if rows.is_empty() {
        text += "no runs\n";
    } else if rows.iter().any(|row| row.member.tuned) {
        text += "\n* run of the cell that was chosen for its solver\n";
    }
    print(&text)?;
    Ok(ExitCode::from(DONE))
}
