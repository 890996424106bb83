//! `thalweg lab`: experiments, the store of their runs, and the report.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::Ending;
use crate::console::{Board, stop_on_signal};
use crate::data::catalogue;
use crate::data::table::quote_cell;
use crate::lab::experiment::Experiment;
use crate::lab::frame::{Line, chosen, curves, lines};
use crate::lab::grid::{describe, matches, panel};
use crate::lab::page;
use crate::lab::schedule::{RunOptions, run as schedule};
use crate::lab::store::{Facts, Member, Part, Store};
use crate::output::{align, json, print};
use crate::report::html;
use crate::trace::{check_writable, digits, write_whole};
use crate::verdict::{DONE, Status};
use crate::{Error, Result};

/// Run experiments, keep their results in a store and compare them in a report
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    Run(RunArgs),
    Report(ReportArgs),
    List(ListArgs),
    Show(ShowArgs),
    Export(ExportArgs),
    Rm(RmArgs),
}

/// The store of all commands.
#[derive(Debug, Clone, clap::Args)]
struct StoreArg {
    /// SQLite file with the runs
    #[arg(long, value_name = "FILE", default_value = "thalweg.sqlite")]
    store: PathBuf,
}

/// Which runs a command is about.
#[derive(Debug, Clone, clap::Args)]
struct Which {
    /// Only this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Only runs whose names contain this; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

impl Which {
    fn rows(&self, store: &Store) -> Result<Vec<Line>> {
        let mut rows = lines(store, self.experiment.as_deref())?;
        rows.retain(|row| self.only.as_ref().is_none_or(|only| matches(&row.name(), only)));
        Ok(rows)
    }
}

/// Run an experiment: data x problems x solvers x seeds
///
/// Finished runs are stored and never repeated. The command can be killed and started again at any moment; after a change of the spec
/// only new runs are made, and two processes on one store share the work.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Example: thalweg lab run experiments/roc-fairness-a9a.toml --quick --jobs 2 && thalweg lab report --open"
)]
struct RunArgs {
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

/// Write the report: one HTML file
#[derive(Debug, Clone, clap::Args)]
struct ReportArgs {
    #[command(flatten)]
    store: StoreArg,
    /// Only this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

/// List the runs of the store
#[derive(Debug, Clone, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    which: Which,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Show everything about a run
#[derive(Debug, Clone, clap::Args)]
struct ShowArgs {
    /// The beginning of its key, as 'list' shows it
    run: String,
    #[command(flatten)]
    store: StoreArg,
    /// Print JSON, with the point and the recorded iterates
    #[arg(long)]
    json: bool,
}

/// Export runs, or the recorded iterates of runs, as CSV
#[derive(Debug, Clone, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    which: Which,
    /// As CSV, the only form there is
    #[arg(long)]
    csv: bool,
    /// One line for each recorded quantity of each recorded iterate instead of one for each run
    #[arg(long)]
    points: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Remove runs from the store
#[derive(Debug, Clone, clap::Args)]
struct RmArgs {
    /// Beginnings of keys, as 'list' shows them
    runs: Vec<String>,
    #[command(flatten)]
    store: StoreArg,
    /// Remove an experiment with all runs that belong to no other
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Remove the runs that failed or were refused
    #[arg(long)]
    failed: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Ending {
    match args.command {
        Command::Run(args) => run_experiment(args),
        Command::Report(args) => report(args),
        Command::List(args) => list(args),
        Command::Show(args) => show(args),
        Command::Export(args) => export(args),
        Command::Rm(args) => remove(args),
    }
}

fn run_experiment(args: RunArgs) -> Ending {
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
    let board = Board::new(!args.quiet, args.jobs);
    let done = schedule(&experiment, store, &how, &board);
    board.finish();
    let done = done?;

    let store = Store::open(&args.store.store)?;
    let rows = lines(&store, Some(&experiment.name))?;
    let failed = rows.iter().filter(|row| row.failed()).count();
    let code = Status::of_all(done.interrupted, failed == 0).exit_code();
    if args.json {
        let runs: Vec<Listed> = rows.iter().map(Listed::of).collect();
        let (worked, found, interrupted) = (done.worked, done.found, done.interrupted);
        let name = &experiment.name;
        print(&json(&json!({
            "exit_code": code, "experiment": name, "worked": worked, "found": found, "interrupted": interrupted, "runs": runs,
        }))?)?;
        return Ok(ExitCode::from(code));
    }
    let mut text = format!("{}: {}\n\n", experiment.name, counted(&rows, done.worked, done.found));
    let facts = store.experiments()?.into_iter().find(|e| e.name == experiment.name).map(|e| e.facts).unwrap_or_default();
    text += &summary(&rows, &facts);
    if !facts.tuned.is_empty() || !facts.notes.is_empty() {
        text += "\n";
    }
    if !facts.tuned.is_empty() {
        text += &format!("{}\n", facts.tuned);
    }
    for note in &facts.notes {
        text += &format!("note: {note}\n");
    }
    for row in rows.iter().filter(|row| row.failed()) {
        let refused = if row.status == Some(Status::Refused) { "refused: " } else { "" };
        text += &format!("{}: {refused}{}\n", row.name(), row.ended.as_deref().unwrap_or_default());
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

fn dry_run(experiment: &Experiment, only: Option<&str>) -> Ending {
    let mut text = String::new();
    let mut count = 0;
    let mut add = |name: String| {
        if only.is_none_or(|only| matches(&name, only)) {
            count += 1;
            text += &format!("{name}\n");
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
fn counted(rows: &[Line], worked: usize, found: usize) -> String {
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

fn report(args: ReportArgs) -> Ending {
    let store = Store::open(&args.store.store)?;
    let experiments = chosen(&store, args.experiment.as_deref())?;
    check_writable(&args.out).map_err(|what| Error::Request(format!("--out {}: {what}", args.out.display())))?;
    let page = page::page(&store, &experiments)?;
    write_whole(&args.out, &html(&page))?;
    print(&format!("saved {}\n", args.out.display()))?;
    if args.open {
        open(&args.out)?;
    }
    Ok(ExitCode::from(DONE))
}

/// Opens a file with the default application of the system.
fn open(file: &Path) -> Result<()> {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let failed = |what: String| Error::Request(format!("--open: {program} {what}: open {} yourself", file.display()));
    match std::process::Command::new(program).arg(file).status() {
        // On Windows, explorer never reports success.
        Ok(status) if status.success() || program == "explorer" => Ok(()),
        Ok(_) => Err(failed("could not open it".into())),
        Err(e) => Err(failed(format!("cannot be started ({e})"))),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
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

impl<'a> Listed<'a> {
    fn of(row: &'a Line) -> Self {
        Listed {
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

fn list(args: ListArgs) -> Ending {
    let store = Store::open(&args.store.store)?;
    let rows = args.which.rows(&store)?;
    if args.json {
        print(&json(&rows.iter().map(Listed::of).collect::<Vec<_>>())?)?;
        return Ok(ExitCode::from(DONE));
    }
    let mut text = String::new();
    let mut lines: Vec<Vec<String>> = vec![];
    let mut last: Option<&str> = None;
    for row in &rows {
        if last != Some(row.experiment.as_str()) {
            text += &align(&std::mem::take(&mut lines), &[2, 3, 4]);
            let title = if row.experiment.is_empty() { "in no experiment" } else { &row.experiment };
            text += &format!("{}{title}\n", if last.is_some() { "\n" } else { "" });
            last = Some(&row.experiment);
        }
        let number = |v: Option<f64>, words: fn(f64) -> String| v.map_or(String::new(), words);
        lines.push(vec![
            format!("{}{}", &row.member.run[..row.member.run.len().min(10)], if row.member.tuned { " *" } else { "  " }),
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

fn show(args: ShowArgs) -> Ending {
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
            let kept = if m.tuned { ", of the chosen cell" } else { "" };
            row("in", format!("{}: {}{kept}", e.name, describe(&panel(&m.data, &m.problem), &m.solver, &m.cell, m.seed)));
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
    for note in of_problem.chain(run.notes.iter().map(ToString::to_string)) {
        row("note", note);
    }
    print(&align(&rows, &[]))?;
    Ok(ExitCode::from(DONE))
}

fn export(args: ExportArgs) -> Ending {
    let store = Store::open(&args.store.store)?;
    if let Some(file) = &args.out {
        check_writable(file).map_err(|what| Error::Request(format!("--out {}: {what}", file.display())))?;
    }
    let rows = args.which.rows(&store)?;
    let facts: HashMap<String, Facts> = store.experiments()?.into_iter().map(|e| (e.name, e.facts)).collect();
    let counts = |row: &Line| facts.get(&row.experiment).is_some_and(|f| !f.published.is_empty());
    let published = !args.points && rows.iter().any(counts);
    let mut text = String::from("experiment,run,data,problem,solver,cell,seed,kept");
    text += match args.points {
        true => ",part,iteration,name,value\n",
        false => {
            ",status,objective,violation,iterations,passes_f,passes_g,samples,seconds,certificate_lower,certificate_upper,ended,finished\n"
        }
    };
    if published {
        text.truncate(text.trim_end().len());
        text += ",published_f,published_g\n";
    }
    for row in &rows {
        let m = &row.member;
        let head = [&row.experiment, &m.run, &m.data, &m.problem, &m.solver, &m.cell].map(|cell| quote_cell(cell)).join(",");
        let head = format!("{head},{},{}", m.seed, m.tuned);
        if !args.points {
            let number = |v: Option<f64>| v.map_or(String::new(), digits);
            let count = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
            let passes = facts.get(&row.experiment).and_then(|f| f.published(m, row.iterations?));
            let passes = [0, 1].map(|i| format!(",{}", number(passes.map(|p| p[i])))).concat();
            text += &format!(
                "{head},{},{},{},{},{},{},{},{},{},{},{},{}{}\n",
                row.word(),
                number(row.objective),
                number(row.violation),
                count(row.iterations),
                number(row.passes_f),
                number(row.passes_g),
                count(row.samples),
                number(row.seconds),
                number(row.certificate_lower),
                number(row.certificate_upper),
                row.ended.as_deref().map(quote_cell).unwrap_or_default(),
                row.finished.as_deref().unwrap_or_default(),
                if published { passes.as_str() } else { "" }
            );
            continue;
        }
        for (part, word) in [(Part::Recorded, "recorded"), (Part::Certified, "certified")] {
            for (_, curves) in curves(&store, std::slice::from_ref(row), part)? {
                let Some(iterations) = curves.iter().find(|c| c.name == "iterations").map(|c| c.numbers.clone()) else {
                    continue;
                };
                for curve in curves.iter().filter(|c| c.name != "iterations") {
                    for (t, v) in iterations.iter().zip(&curve.numbers) {
                        text += &format!("{head},{word},{t},{},{}\n", quote_cell(&curve.name), digits(*v));
                    }
                }
            }
        }
    }
    match &args.out {
        Some(file) => write_whole(file, &text)?,
        None => print(&text)?,
    }
    Ok(ExitCode::from(DONE))
}

fn remove(args: RmArgs) -> Ending {
    if args.runs.is_empty() && args.experiment.is_none() && !args.failed {
        return Err(Error::Request("nothing is named; expected keys of runs, --experiment NAME or --failed".into()));
    }
    let mut store = Store::open(&args.store.store)?;
    // All runs are looked up before any is removed.
    let mut keys: Vec<String> = args.runs.iter().map(|begin| Ok(store.find(begin)?.key)).collect::<Result<_>>()?;
    let all = lines(&store, None)?;
    if let Some(name) = &args.experiment {
        chosen(&store, Some(name))?;
        let elsewhere = |run: &str| all.iter().any(|row| row.member.run == run && row.experiment != *name);
        keys.extend(
            all.iter().filter(|row| row.experiment == *name && !elsewhere(&row.member.run)).map(|row| row.member.run.clone()),
        );
    }
    if args.failed {
        keys.extend(all.iter().filter(|row| row.failed()).map(|row| row.member.run.clone()));
    }
    keys.sort();
    keys.dedup();
    let removed = store.forget(&keys)?;
    if let Some(name) = &args.experiment {
        store.forget_experiment(name)?;
    }
    print(&format!("{removed} runs removed\n"))?;
    Ok(ExitCode::from(DONE))
}
