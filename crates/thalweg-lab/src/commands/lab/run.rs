//! `thalweg lab run`: runs an experiment and prints a summary.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::list::RunEntry;
use super::{CommandResult, StoreArg};
use crate::Error;
use crate::console::{Board, stop_on_signal};
use crate::data::catalogue;
use crate::lab::experiment::Experiment;
use crate::lab::frame::{Line, lines};
use crate::lab::grid::{describe, matches, panel};
use crate::lab::schedule::{MAX_JOBS, RunOptions, run as schedule};
use crate::lab::store::{Facts, Store};
use crate::output::{align, json, message, print, visible};
use crate::verdict::{DONE, Status};

/// Run an experiment: data x problems x solvers x seeds
///
/// Finished runs are stored and never repeated. The command can be killed and started again at any moment; after a change of the spec
/// only new runs are made, and two processes on one store share the work.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Example: thalweg lab run experiments/roc-fairness-a9a.toml --quick --jobs 2 && thalweg lab report --open"
)]
pub(super) struct RunArgs {
    /// Spec of the experiment
    spec: PathBuf,
    /// Runs at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    #[command(flatten)]
    store: StoreArg,
    /// Only runs whose names contain this; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Shrink the experiment as its table [quick] says
    #[arg(long)]
    quick: bool,
    /// Run again what is finished
    #[arg(long)]
    fresh: bool,
    /// Print the names of the runs and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Seconds between two checkpoints of a run
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    checkpoint_every: f64,
    /// Look for data sets in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run_experiment(args: RunArgs) -> CommandResult {
    let experiment = Experiment::read(&args.spec, args.quick)?;
    if args.jobs == 0 {
        return Err(Error::Request("--jobs 0; expected at least 1".into()));
    }
    let checkpoint_every = Duration::try_from_secs_f64(args.checkpoint_every)
        .map_err(|_| Error::Request(format!("--checkpoint-every {}; expected a number of seconds", args.checkpoint_every)))?;
    if args.dry_run {
        return dry_run(&experiment, args.only.as_deref());
    }
    let store = Store::create(&args.store.store)?;
    let how = RunOptions {
        jobs: args.jobs,
        only: args.only,
        fresh: args.fresh,
        checkpoint_every,
        catalogue: catalogue::Options { data_dir: args.data_dir, progress: !args.quiet },
        interrupt: stop_on_signal()?,
    };
    if args.jobs > MAX_JOBS {
        message(format_args!("note: --jobs {}; {MAX_JOBS} runs at a time are the most", args.jobs));
    }
    let board = Board::new(!args.quiet, args.jobs.min(MAX_JOBS));
    let done = schedule(&experiment, store, &how, &board);
    board.finish();
    let done = done?;

    let store = Store::open(&args.store.store)?;
    let rows = lines(&store, Some(&experiment.name))?;
    let failed = rows.iter().filter(|row| row.failed()).count();
    let code = Status::of_all(done.interrupted, failed == 0).exit_code();
    if args.json {
        let runs: Vec<RunEntry> = rows.iter().map(RunEntry::of).collect();
        let (worked, found, interrupted) = (done.worked, done.found, done.interrupted);
        let name = &experiment.name;
        print(&json(&json!({
            "exit_code": code, "experiment": name, "worked": worked, "found": found, "interrupted": interrupted, "runs": runs,
        }))?)?;
        return Ok(ExitCode::from(code));
    }
    let mut text = format!("{}: {}\n\n", visible(&experiment.name), work_done(&rows, done.worked, done.found));
    let facts = store.experiments()?.into_iter().find(|e| e.name == experiment.name).map(|e| e.facts).unwrap_or_default();
    text += &summary(&rows, &facts);
    if facts.tuned.is_some() || !facts.notes.is_empty() {
        text += "\n";
    }
    if let Some(selection) = &facts.tuned {
        text += &format!("{}\n", visible(&selection.to_string()));
    }
    for note in &facts.notes {
        text += &format!("note: {}\n", visible(&note.to_string()));
    }
    for row in rows.iter().filter(|row| row.failed()) {
        let refused = if row.status == Some(Status::Refused) { "refused: " } else { "" };
        let line = format!("{}: {refused}{}", row.name(), row.ended.as_deref().unwrap_or_default());
        text += &format!("{}\n", visible(&line));
    }
    let flag = match args.store.store == Path::new("thalweg.sqlite") {
        true => String::new(),
        false => format!(" --store {}", args.store.store.display()),
    };
    text += match done.interrupted {
        true => "\ninterrupted; run the same command again to continue\n".to_string(),
        false => format!("\nsaved in {}; show the report with: thalweg lab report{flag} --open\n", args.store.store.display()),
    }
    .as_str();
    print(&text)?;
    Ok(ExitCode::from(code))
}

fn dry_run(experiment: &Experiment, only: Option<&str>) -> CommandResult {
    let mut text = String::new();
    let mut count = 0;
    let mut add = |name: String| {
        if only.is_none_or(|only| matches(&name, only)) {
            count += 1;
            text += &format!("{}\n", visible(&name));
        }
    };
    for [d, p, s] in experiment.groups() {
        let trial = experiment.tries(s);
        for c in 0..experiment.solvers[s].cells.len() {
            for seed in experiment.tuning_seeds()? {
                let job = if trial { experiment.trial(d, p, s, c, seed)? } else { experiment.run(d, p, s, c, seed)? };
                add(experiment.describe(&job));
            }
        }
        for &seed in experiment.seeds.iter().filter(|_| trial) {
            add(describe(&experiment.panel(d, p), &experiment.solvers[s].label, "the chosen cell", seed));
        }
    }
    print(&format!("{text}{count} runs\n"))?;
    Ok(ExitCode::from(DONE))
}

/// Summarises the work done.
fn work_done(rows: &[Line], worked: usize, found: usize) -> String {
    let finished = rows.iter().filter(|row| row.status.is_some()).count();
    let there = match (worked, found) {
        (0, _) => ", all found in the store".into(),
        (_, 0) => String::new(),
        (worked, found) => format!(" ({worked} done now, {found} found in the store)"),
    };
    match rows.len() - finished {
        0 => format!("{finished} runs{there}"),
        left => format!("{finished} of {} runs, {left} left{there}", rows.len()),
    }
}

/// Lists the selected cells, one line for each panel and solver.
fn summary(rows: &[Line], facts: &Facts) -> String {
    let header =
        ["problem", "solver", "chosen settings", "objective", "violation", "feasible", "passes", "DP(f)", "DP(g)", "seconds"];
    let mut lines: Vec<Vec<String>> = vec![header.map(String::from).to_vec()];
    let mut seen: Vec<(String, String, String)> = vec![];
    for row in rows.iter().filter(|row| row.member.tuned && row.status.is_some()) {
        let m = &row.member;
        let key = (panel(&m.data, &m.problem), m.solver.clone(), m.cell.clone());
        if seen.contains(&key) {
            continue;
        }
        let runs: Vec<&Line> = rows
            .iter()
            .filter(|r| {
                r.member.tuned
                    && r.status.is_some()
                    && (panel(&r.member.data, &r.member.problem), &r.member.solver, &r.member.cell)
                        == (key.0.clone(), &key.1, &key.2)
            })
            .collect();
        let middle = |get: &dyn Fn(&Line) -> Option<f64>| {
            let mut numbers: Vec<f64> = runs.iter().filter_map(|r| get(r)).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.get(numbers.len().saturating_sub(1) / 2).copied()
        };
        let show = |v: Option<f64>, words: fn(f64) -> String| v.map_or("none".into(), words);
        // Omitted if no solver defines how a publication counts.
        let published = |i: usize| {
            let passes = middle(&|r| facts.published(m, r.iterations?).map(|passes| passes[i]));
            passes.map_or(String::new(), |v| format!("{v:.0}"))
        };
        let worst = runs.iter().filter_map(|r| r.violation).max_by(f64::total_cmp);
        let feasible = runs.iter().filter(|r| r.status == Some(Status::Feasible)).count();
        lines.push(vec![
            key.0.clone(),
            key.1.clone(),
            key.2.clone(),
            show(middle(&|r| r.objective), |v| if v.abs() < 1e6 { format!("{v:.6}") } else { format!("{v:.1e}") }),
            show(worst, |v| format!("{v:+.1e}")),
            format!("{feasible}/{}", runs.len()),
            show(middle(&|r| Some(r.passes_f? + r.passes_g?)), |v| format!("{v:.0}")),
            published(0),
            published(1),
            show(middle(&|r| r.seconds), |v| format!("{v:.2}")),
        ]);
        seen.push(key);
    }
    // Empty columns are omitted.
    let keep: Vec<usize> = (0..header.len()).filter(|&j| lines.iter().skip(1).any(|line| !line[j].is_empty())).collect();
    let lines: Vec<Vec<String>> = lines.iter().map(|line| keep.iter().map(|&j| line[j].clone()).collect()).collect();
    let right: Vec<usize> = keep.iter().enumerate().filter(|(_, j)| **j >= 3).map(|(i, _)| i).collect();
    if lines.len() > 1 { align(&lines, &right) } else { String::new() }
}
