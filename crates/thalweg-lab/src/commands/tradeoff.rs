//! `thalweg tradeoff`: the cost of a bound.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use thalweg::Note;
use thalweg::assess::Measures;
use thalweg::error::quoted;
use thalweg::oracle::Description;

use super::CommandResult;
use super::fit::{TrainingArgs, check_report};
use crate::console::{Bar, stop_on_signal};
use crate::data::catalogue;
use crate::fit::Directory;
use crate::job::Job;
use crate::output::{align, check_standard_output, is_standard_output, json, print, short, visible, with_options, write_whole};
use crate::plot::{Mark, Plot, svg};
use crate::report::{self, of_tradeoff};
use crate::spec::{Spec, base_of};
use crate::tradeoff::{FinishedSweep, FitRuns, Row, SolveRuns, bounds, csv, sweep, which};
use crate::verdict::Status;
use crate::{Error, Result};

/// Sweep one bound and show the trade-off with the objective.
///
/// Runs the problem of a spec, or trains on a table as `thalweg fit` does, once for each value of one bound: from the loosest to
/// the tightest, each run from the point of the one before. Prints a table and writes DIR/tradeoff.csv and DIR/tradeoff.svg.
#[derive(Debug, Clone, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  thalweg tradeoff run.toml --bounds 0.4..0.6:8\n  thalweg tradeoff adult.csv --label income \
    --group sex \\\n    --subject-to \"demographic_parity <= 0.02\" --bounds 0.01..0.2:12"
)]
pub struct Args {
    /// The description of a run, which ends in .toml, or a table as for `thalweg fit`
    #[arg(value_name = "SPEC.toml|DATA")]
    input: PathBuf,
    /// The values of the bound: A..B:N for N of them from A to B, evenly in the logarithm if both are above 0; or numbers with commas
    #[arg(long, value_name = "A..B:N", allow_hyphen_values = true)]
    bounds: String,
    /// The constraint whose bound is swept, by name or number, if there are several [default: the first]
    #[arg(long, value_name = "NAME|N")]
    of: Option<String>,
    #[command(flatten)]
    asked: TrainingArgs,
    /// Look for data sets of a spec in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Directory for tradeoff.csv and tradeoff.svg
    #[arg(long, value_name = "DIR", default_value = "tradeoff")]
    out: PathBuf,
    /// Write a report with charts to this HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Show no progress bar and print nothing but errors
    #[arg(long)]
    quiet: bool,
}

const TABLE: &str = "tradeoff.csv";
const PICTURE: &str = "tradeoff.svg";

/// Labels of the sweep.
struct SweepLabels {
    minimize: String,
    constraint: String,
    /// Other constraints, whose bounds are fixed.
    others: Vec<String>,
}

impl SweepLabels {
    fn new(problem: &thalweg::learn::Learning, minimize: &str, which: usize) -> Self {
        let others = (0..problem.num_constraints()).filter(|&j| j != which);
        SweepLabels {
            minimize: minimize.into(),
            constraint: problem.constraint_name(which).to_string(),
            others: others.map(|j| format!("{} <= {}", problem.constraint_name(j), problem.bound(j))).collect(),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    // Bounds are parsed before the data, so that a typing error is reported before a million rows are read.
    let values = bounds(&args.bounds).map_err(|e| Error::Request(format!("--bounds {}: {e}", quoted(&args.bounds))))?;
    check_standard_output(&[("--report", args.report.as_deref())], args.json)?;
    let is_spec = args.input.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    let (named, swept) = if is_spec { of_spec(&args, &values)? } else { of_table(&args, &values)? };

    let code = Status::of_all(swept.interrupted, swept.rows.iter().all(|row| row.feasible)).exit_code();
    if args.json {
        print(&json(&Summary {
            exit_code: code,
            interrupted: swept.interrupted,
            minimize: &named.minimize,
            constraint: &named.constraint,
            others: &named.others,
            notes: &swept.notes,
            points: &swept.rows,
        })?)?;
    } else if !args.quiet && !args.report.as_deref().is_some_and(is_standard_output) {
        print(&words(&named, &swept, values.len(), &args))?;
    }
    Ok(ExitCode::from(code))
}

/// Sweeps the problem of a spec.
fn of_spec(args: &Args, values: &[f64]) -> Result<(SweepLabels, FinishedSweep)> {
    if let Some(option) = args.asked.given() {
        let what = format!("{option} is for a table; expected it in the spec {}, or a table in its place", args.input.display());
        return Err(Error::Request(what));
    }
    let spec = Spec::read(&args.input)?;
    let mut job = Job::new(&spec, &args.input, &catalogue::Options { data_dir: args.data_dir.clone(), ..Default::default() })?;
    let model = job.instance.problem.terms("tradeoff")?;
    let (which, note) = which(model, args.of.as_deref())?;
    let named = SweepLabels::new(model, &spec.problem.minimize, which);
    let threads = match (args.asked.threads(), spec.threads) {
        (1, Some(threads)) => threads,
        (threads, _) => threads,
    };
    // Only the points of the table are certified, and with bounds, unless a certificate is a stopping rule of the runs.
    let options = &mut job.setup.options;
    if spec.stop.certificate.is_none() {
        options.certificate = Measures::default();
    }
    options.threads = threads;
    options.metrics = None;
    options.interrupt = Some(stop_on_signal()?);
    let notes = job.notes().cloned().collect::<Vec<_>>();
    let data = spec.data.file.as_ref().map(|file| base_of(&args.input).join(file));
    let swept = swept(args, data.as_deref(), &named, values, &mut SolveRuns { job, which }, notes.into_iter().chain(note))?;
    Ok((named, swept))
}

/// Sweeps a training problem on a table.
fn of_table(args: &Args, values: &[f64]) -> Result<(SweepLabels, FinishedSweep)> {
    if args.data_dir.is_some() {
        return Err(Error::Request(
            "--data-dir is for the data sets of a spec; expected a file that ends in .toml beside it".into(),
        ));
    }
    let request = args.asked.request(&args.input)?;
    if request.subject_to.is_empty() {
        let what = "there is no constraint; expected --subject-to \"TERM <= BOUND\", whose bound is swept";
        return Err(Error::Request(what.into()));
    }
    if args.asked.promises() {
        let what =
            "--enforce unseen: a sweep shows intervals on unseen rows but promises nothing; expected measured or surrogate";
        return Err(Error::Request(what.into()));
    }
    let mut prepared = request.prepare()?;
    let (which, note) = which(prepared.problem(), args.of.as_deref())?;
    let named = SweepLabels::new(prepared.problem(), prepared.minimize(), which);
    let mut notes = prepared.problem().group_notes()?;
    notes.extend(prepared.notes().iter().cloned());
    let (problem, held_out) = prepared.problems();
    let mut fits = FitRuns { problem, held_out, options: request.options()?, which };
    let swept = swept(args, None, &named, values, &mut fits, notes.into_iter().chain(note))?;
    Ok((named, swept))
}

/// Runs the sweep and writes the files.
fn swept(
    args: &Args,
    data: Option<&Path>,
    named: &SweepLabels,
    values: &[f64],
    problem: &mut dyn crate::tradeoff::Sweeps,
    notes: impl Iterator<Item = Note>,
) -> Result<FinishedSweep> {
    let read = std::iter::once(("the file that is read", args.input.as_path()));
    let read: Vec<_> = read.chain(data.map(|file| ("the data of the run", file))).collect();
    let directory = Directory::make(&args.out, &[TABLE, PICTURE], &read)?;
    if let Some(file) = &args.report {
        check_report(file, &read, &directory, &[TABLE, PICTURE])?;
    }
    let mut bar = Bar::new(!args.quiet);
    let mut swept = sweep(problem, values, &mut bar);
    bar.finish();
    swept.notes.splice(0..0, notes);
    if !swept.rows.is_empty() {
        write_whole(&directory.file(TABLE), &csv(&swept.rows))?;
        let plot = plot(named, &swept.rows);
        write_whole(&directory.file(PICTURE), &svg(&plot))?;
        if let Some(file) = &args.report {
            let sweep = of_tradeoff::Sweep {
                file: &args.input,
                minimize: &named.minimize,
                constraint: &named.constraint,
                others: &named.others,
                asked: values.len(),
                swept: &swept,
            };
            write_whole(file, &report::html(&of_tradeoff::page(&sweep, &plot)))?;
        }
    }
    Ok(swept)
}

#[derive(Serialize)]
struct Summary<'a> {
    exit_code: u8,
    interrupted: bool,
    minimize: &'a str,
    constraint: &'a str,
    others: &'a [String],
    notes: &'a [Note],
    points: &'a [Row],
}

/// Plots the held-out accuracy if there is one, else the objective, against the constrained value.
fn plot(named: &SweepLabels, rows: &[Row]) -> Plot {
    let accuracy = rows.iter().any(|row| row.held_out_accuracy.is_some());
    let measured = rows.iter().any(|row| row.measured.is_some());
    let mark = |row: &Row| {
        let (x, y) = row.place(accuracy)?;
        Some(Mark {
            x,
            y,
            good: row.feasible,
            across: row.held_out_interval,
            title: format!("bound {}: {}", short(row.bound), if row.feasible { "satisfied" } else { &row.ended }),
        })
    };
    let intervals = rows.iter().any(|row| row.held_out_interval.is_some());
    let x_label = match (accuracy, measured) {
        _ if intervals => format!("{}: training rows; bars: 95% on unseen", named.constraint),
        (_, true) => format!("{}, measured on the training rows", named.constraint),
        (true, false) => format!("{}, training rows", named.constraint),
        (false, false) => named.constraint.clone(),
    };
    Plot {
        title: format!("Cost of a bound on {}", named.constraint),
        x_label,
        y_label: if accuracy { "accuracy on held-out rows".into() } else { named.minimize.clone() },
        legend: ["every constraint satisfied".into(), "a constraint violated".into()],
        percent: accuracy,
        limit: None,
        marks: rows.iter().filter_map(mark).collect(),
    }
}

/// Describes the outcome.
fn words(named: &SweepLabels, swept: &FinishedSweep, asked: usize, args: &Args) -> String {
    let finished = swept.rows.len();
    let feasible = swept.rows.iter().filter(|row| row.feasible).count();
    let mut text = match (swept.interrupted, feasible == finished) {
        (true, _) if finished == 0 => return "interrupted; no point was finished, nothing was saved\n".into(),
        (true, _) => format!("interrupted; {finished} of {asked} points were finished\n"),
        (false, true) => "feasible; every constraint is satisfied at every point\n".into(),
        (false, false) => format!("not feasible; {} of {finished} points violate a constraint\n", finished - feasible),
    };
    text += &format!("{} subject to {} <= bound", visible(&named.minimize), visible(&named.constraint));
    named.others.iter().for_each(|other| text += &format!(", {}", visible(other)));
    text += "\n\n";
    text += &table(&swept.rows);
    if swept.rows.iter().any(|row| row.proved.is_some()) {
        text += "proved: largest distance to the proximal point, if the gradients are right and the constants hold\n";
    }
    text.push('\n');
    for note in &swept.notes {
        let kind = if note.is_warning() { "warning" } else { "note" };
        text += &format!("{kind}: {}\n", visible(&with_options(note)));
    }
    let report = args.report.as_ref().map_or(String::new(), |file| format!(" and {}", file.display()));
    let and = if report.is_empty() { " and" } else { "," };
    text + &format!("saved {}{and} {}{report}\n", args.out.join(TABLE).display(), args.out.join(PICTURE).display())
}

/// Column of the table: its name, and its cell in a row.
type Column = (&'static str, fn(&Row) -> String);

fn table(rows: &[Row]) -> String {
    fn plain(value: Option<f64>) -> String {
        value.map_or(String::new(), |v| if v != 0.0 && v.abs() < 1e-2 { format!("{v:.3e}") } else { format!("{v:.5}") })
    }
    fn rate(value: Option<f64>) -> String {
        value.map_or(String::new(), |v| format!("{v:.4}"))
    }
    fn percent(value: Option<f64>) -> String {
        value.map_or(String::new(), |v| format!("{:.2}%", 100.0 * v))
    }
    let measured = rows.iter().any(|row| row.measured.is_some());
    let columns: [Column; 12] = [
        ("bound", |r| short(r.bound)),
        ("objective", |r| plain(r.objective)),
        (if measured { "surrogate" } else { "value" }, |r| rate(r.value)),
        ("measured", |r| rate(r.measured)),
        ("(held out)", |r| rate(r.held_out_measured.or(r.held_out_value))),
        ("accuracy", |r| percent(r.accuracy)),
        ("(held out)", |r| percent(r.held_out_accuracy)),
        ("feasible", |r| if r.feasible { "yes".into() } else { "no".into() }),
        ("proved", |r| r.proved.map_or(String::new(), |p| format!("{p:.1e}"))),
        ("passes", |r| format!("{:.0}", r.passes)),
        ("seconds", |r| format!("{:.1}", r.seconds)),
        // The stop reason is shown if the point is not feasible.
        ("", |r| if r.feasible { String::new() } else { r.ended.clone() }),
    ];
    let filled = columns.iter().filter(|(_, cell)| rows.iter().any(|row| !cell(row).is_empty()));
    let columns: Vec<&Column> = filled.collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|(name, _)| name.to_string()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect()));
    let right: Vec<usize> = (0..columns.len()).filter(|&j| !columns[j].0.is_empty()).collect();
    align(&lines, &right)
}
