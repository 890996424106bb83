//! `thalweg lab show`: shows everything that is stored about a run.

use std::process::ExitCode;

use serde_json::json;

use super::{CommandResult, StoreArg};
use crate::lab::grid::{describe, panel};
use crate::lab::store::{Part, Store};
use crate::output::{align, json, print};
use crate::verdict::DONE;

/// Show everything about a run
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ShowArgs {
    /// The beginning of its key, as 'list' shows it
    run: String,
    #[command(flatten)]
    store: StoreArg,
    /// Print JSON, with the point and the recorded iterates
    #[arg(long)]
    json: bool,
}

pub(super) fn show(args: ShowArgs) -> CommandResult {
    let store = Store::open(&args.store.store)?;
    let run = store.find(&args.run)?;
    let curves = store.curves(&run.key, Part::Recorded)?;
    let certificates = store.certificates(&run.key)?;
    if args.json {
        let value = json!({ "run": run, "recorded": curves, "certificates": certificates });
        print(&json(&value)?)?;
        return Ok(ExitCode::from(DONE));
    }
    let mut rows: Vec<[String; 2]> = vec![];
    let mut row = |name: &str, value: String| rows.push([name.into(), value]);
    let number = |v: Option<f64>| v.map_or("none".into(), |v| format!("{v}"));
    row("run", run.key.clone());
    for e in store.experiments()? {
        for m in store.members(&e.name)?.iter().filter(|m| m.run == run.key) {
            let selected = if m.tuned { ", of the chosen cell" } else { "" };
            row("in", format!("{}: {}{selected}", e.name, describe(&panel(&m.data, &m.problem), &m.solver, &m.cell, m.seed)));
        }
    }
    row("status", run.status.word().into());
    row("ended", run.ended.clone());
    row("objective", number(run.objective));
    row("violation", number(run.violation));
    for c in run.outcome.iter().flat_map(|o| &o.outcome.point.constraints) {
        let verdict = if c.satisfied { "satisfied" } else { "violated" };
        row("constraint", format!("{}: {} ({verdict})", c.name, c.value));
    }
    row("solver", format!("{}, version {} of its code", run.method, run.version));
    row("settings", run.spec.solver.to_string());
    row("problem", run.outcome.as_ref().map_or_else(String::new, |o| o.problem.clone()));
    row("seed", run.seed.to_string());
    row("iterations", run.iterations.to_string());
    row("passes", format!("{:.2} of the objective, {:.2} of the constraints", run.passes_f, run.passes_g));
    row("samples", run.samples.to_string());
    row("seconds", format!("{:.3}", run.seconds));
    let recorded = curves.first().map_or(0, |c| c.numbers.len());
    row("recorded", format!("{recorded} iterates: {}", curves.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")));
    if let Some(c) = &certificates {
        row("certified", format!("{} iterates", c.curves.first().map_or(0, |c| c.numbers.len())));
        if let Some([lower, upper]) = c.returned.interval() {
            row("certificate", format!("the proximal point of the returned point is between {lower:.3e} and {upper:.3e} away"));
        }
    }
    row("machine", run.host.to_string());
    row("data", run.data_hash.clone());
    row("finished", run.finished.clone());
    let of_problem = run.outcome.iter().flat_map(|o| o.problem_notes.clone());
    for note in of_problem.chain(run.notes.iter().cloned()) {
        row("note", note.to_string());
    }
    print(&align(&rows, &[]))?;
    Ok(ExitCode::from(DONE))
}
