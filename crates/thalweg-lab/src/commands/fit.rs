//! `thalweg fit`: a constrained model from a table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use thalweg::Note;
use thalweg::auto;
use thalweg::learn::{Enforce, Unseen};
use thalweg::run::{Budget, StopReason};
use thalweg::solvers::{Interface, SolverName};

use super::CommandResult;
use crate::by_group::{Extent, tables};
use crate::certificate::{basis, slope_words};
use crate::console::{Bar, stop_on_signal};
use crate::fit::{Directory, Request, TrainedModel};
use crate::model::Quality;
use crate::output::{
    align, check_output, check_standard_output, is_same_file, is_standard_output, json, message, print, visible, with_options,
    write_whole,
};
use crate::plot::svg;
use crate::promise;
use crate::report::{self, of_fit};
use crate::{Error, Result};

/// Fit a linear classifier under constraints to a table.
///
/// The table is CSV (any usual separator, quotes, gzip) with a header line, or a LIBSVM file if no label column is given.
/// Columns of numbers are standardised, other columns become one feature per value, missing cells a feature of their own.
/// A constraint on a rate is trained on a surrogate, whose bound is tightened until the measured rate on the training rows satisfies
/// the bound (see --enforce); with --enforce unseen until tests on a safety set confirm it for unseen rows. Writes DIR/model.json and
/// DIR/trace.csv, and DIR/path.svg with the tests.
#[derive(Debug, Clone, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example:\n  thalweg fit adult.csv --label income --group sex --minimize logistic \\\n    \
    --subject-to \"demographic_parity <= 0.02\" --out model\n\nTerms: hinge, logistic, \
    welsch, truncated_logistic, variance(LOSS), self_paced(LOSS), false_positive_rate, false_negative_rate, roc_gap, demographic_parity, equal_opportunity, equalised_odds, \
    wasserstein_gap, l2, ridge, l1, scad; sums and multiples such as \"logistic + 0.001 * l1\" or \
    \"logistic + 0.1 * variance(logistic)\". A bound is a number, or \
    measured by the smallest value of a convex sum: \"logistic <= 1.05 * best(logistic)\"."
)]
pub struct Args {
    /// The table: CSV with a header line, or LIBSVM; plain or gzip
    data: PathBuf,
    #[command(flatten)]
    asked: TrainingArgs,
    /// Directory for model.json and trace.csv
    #[arg(long, value_name = "DIR", default_value = "thalweg-model")]
    out: PathBuf,
    /// Write a report with charts to this HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Also print what the solver proved, why it was chosen, and what was adjusted on the way
    #[arg(long)]
    explain: bool,
    /// Show no progress bar and print nothing but errors
    #[arg(long)]
    quiet: bool,
}

/// Arguments of training from a table: columns, problem and solver. Shared by the commands that train.
#[derive(Debug, Clone, clap::Args)]
pub struct TrainingArgs {
    /// Column with the label, which has two values; without it the file is read as LIBSVM
    #[arg(long, value_name = "COL")]
    label: Option<String>,
    /// Value of the label that counts as positive
    #[arg(long, value_name = "VALUE")]
    positive: Option<String>,
    /// Column with the groups, or COL=VALUE for that value against all others (repeatable: the groups are then the combinations of
    /// the columns)
    #[arg(long, value_name = "COL")]
    group: Vec<String>,
    /// Leave a column out of the features (repeatable); the group column is a feature unless it is left out
    #[arg(long, value_name = "COL")]
    leave_out: Vec<String>,
    /// Columns whose numbers are codes of categories, with commas between them (repeatable)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    categorical: Vec<String>,
    /// Column with a weight for each row
    #[arg(long, value_name = "COL")]
    weights: Option<String>,
    /// What to minimise
    #[arg(long, value_name = "TERM", default_value = "logistic")]
    minimize: String,
    /// Factor of the ridge, the squared norm of the weights on standardised columns, that is added to what is minimised; auto is 1 / n
    /// for n training rows where that is a mean loss without a penalty, as in scikit-learn with C = 1, and 0 adds nothing
    #[arg(long, value_name = "auto|FACTOR", default_value = "auto")]
    regularization: String,
    /// A constraint TERM <= BOUND (repeatable)
    #[arg(long, value_name = "TERM <= BOUND")]
    subject_to: Vec<String>,
    /// The set that weights and intercept stay in: all, or the radius of a ball around 0 (default: all; 10 where the objective
    /// has a variance)
    #[arg(long, value_name = "all|RADIUS")]
    domain: Option<String>,
    #[arg(long, default_value = auto::NAME, help = solver_help())]
    solver: String,
    /// A setting of the named solver, such as eta=0.5 (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Share of the rows that is held out and only measured
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    test_fraction: f64,
    /// End after this many passes over the data, all rounds together
    #[arg(long, value_name = "N")]
    passes: Option<f64>,
    /// End after this many iterations, all rounds together (without any limit: 3000, and 60 seconds)
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    /// End after this many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// What must satisfy a bound on a rate: the measured rate on the training rows, its surrogate, or the rate on unseen rows, as far
    /// as tests on a safety set confirm it; the limits on training are then for each candidate that is tested
    #[arg(long, value_enum, default_value = "measured")]
    enforce: EnforceArg,
    /// Probability with which a bound on unseen rows holds (with --enforce unseen)
    #[arg(long, value_name = "P", default_value_t = Unseen::default().confidence)]
    confidence: f64,
    /// Share of the rows that are not held out for the safety set (with --enforce unseen)
    #[arg(long, value_name = "SHARE", default_value_t = Unseen::SAFETY_FRACTION)]
    safety_fraction: f64,
    /// Seed of the split and of the runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Threads for sums over rows; the numbers do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EnforceArg {
    Measured,
    Surrogate,
    Unseen,
}

/// Lists the solvers, with and without constraints.
fn solver_help() -> String {
    let offered = |constraints: bool| {
        let names = SolverName::ALL.iter().filter(|name| name.offered_by(Interface::Fit));
        let names = names.filter(|name| name.takes_constraints() == constraints).map(|name| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    format!("The solver: {} to have one chosen, {}; without constraints also {}", auto::NAME, offered(true), offered(false))
}

impl TrainingArgs {
    /// Returns the training request for this file; the first interrupt stops it.
    pub(super) fn request(&self, file: &Path) -> Result<Request> {
        self.check_promise()?;
        Ok(Request {
            file: file.into(),
            label: self.label.clone(),
            positive: self.positive.clone(),
            group: self.group.clone(),
            leave_out: self.leave_out.clone(),
            categorical: self.categorical.clone(),
            weights: self.weights.clone(),
            minimize: self.minimize.clone(),
            regularization: self.regularization.parse()?,
            subject_to: self.subject_to.clone(),
            domain: self.domain.clone(),
            solver: self.solver.clone(),
            set: self.set.clone(),
            test_fraction: self.test_fraction,
            budget: Budget { iterations: self.iterations, passes: self.passes, seconds: self.seconds, samples: None },
            enforce: match self.enforce {
                EnforceArg::Measured | EnforceArg::Unseen => Enforce::Measured,
                EnforceArg::Surrogate => Enforce::Surrogate,
            },
            unseen: self.promises().then(|| (Unseen { confidence: self.confidence, ..Unseen::default() }, self.safety_fraction)),
            seed: self.seed,
            threads: self.threads,
            stop: Some(stop_on_signal()?),
        })
    }

    /// Returns whether the bounds are to hold on unseen rows.
    pub(super) fn promises(&self) -> bool {
        self.enforce == EnforceArg::Unseen
    }

    /// Checks the options of a promise before any file is read.
    fn check_promise(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::Request(what));
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return refuse(format!("--confidence {}; expected a number between 0 and 1, for example 0.95", self.confidence));
        }
        if !(self.safety_fraction > 0.0 && self.safety_fraction < 1.0) {
            return refuse(format!("--safety-fraction {}; expected a number between 0 and 1", self.safety_fraction));
        }
        if self.promises() {
            return Ok(());
        }
        let needs = "; expected --enforce unseen beside it";
        if self.confidence != Unseen::default().confidence {
            return refuse(format!("--confidence {}{needs}", self.confidence));
        }
        if self.safety_fraction != Unseen::SAFETY_FRACTION {
            return refuse(format!("--safety-fraction {}{needs}", self.safety_fraction));
        }
        Ok(())
    }

    /// Returns the number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the first option, other than the threads, that differs from its default.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--label", self.label.is_some()),
            ("--positive", self.positive.is_some()),
            ("--group", !self.group.is_empty()),
            ("--leave-out", !self.leave_out.is_empty()),
            ("--categorical", !self.categorical.is_empty()),
            ("--weights", self.weights.is_some()),
            ("--minimize", self.minimize != "logistic"),
            ("--regularization", self.regularization != "auto"),
            ("--subject-to", !self.subject_to.is_empty()),
            ("--domain", self.domain.is_some()),
            ("--solver", self.solver != auto::NAME),
            ("--set", !self.set.is_empty()),
            ("--test-fraction", self.test_fraction != 0.2),
            ("--passes", self.passes.is_some()),
            ("--iterations", self.iterations.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--enforce", self.enforce != EnforceArg::Measured),
            ("--confidence", self.confidence != Unseen::default().confidence),
            ("--safety-fraction", self.safety_fraction != Unseen::SAFETY_FRACTION),
            ("--seed", self.seed != 0),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    check_standard_output(&[("--report", args.report.as_deref())], args.json)?;
    let request = args.asked.request(&args.data)?;
    let prepared = request.prepare()?;
    let written: &[&str] = if args.asked.promises() { &["model.json", "trace.csv", PATH] } else { &["model.json", "trace.csv"] };
    let read = [("the table", args.data.as_path())];
    let directory = Directory::make(&args.out, written, &read)?;
    if let Some(file) = &args.report {
        check_report(file, &read, &directory, written)?;
    }
    if !args.quiet {
        // Before training, which may take long; standard output is reserved for the result.
        for note in prepared.warnings()? {
            message(format_args!("warning: {note}"));
        }
    }
    let mut bar = Bar::new(!args.quiet);
    let trained = request.train(prepared, &mut bar)?;
    bar.finish();
    let file = directory.write(&trained)?;
    if let Some(plot) = promise::plot(&trained.model) {
        write_whole(&directory.file(PATH), &svg(&plot))?;
    }
    if let Some(file) = &args.report {
        write_whole(file, &report::html(&of_fit::page(&trained)?))?;
    }

    let measured = &trained.model.measured;
    let code = measured.status().exit_code();
    if args.json {
        print(&json(&Summary {
            exit_code: code,
            warnings: &measured.warnings,
            notes: &trained.notes,
            measured,
            training: &trained.model.training,
        })?)?;
    } else if !args.quiet && !args.report.as_deref().is_some_and(is_standard_output) {
        print(&words(&trained, args.explain))?;
        let report = args.report.as_ref().map_or(String::new(), |file| format!(" and {}", file.display()));
        let (model, trace) = (file.display(), directory.file("trace.csv"));
        let path = if args.asked.promises() { format!(", {}", directory.file(PATH).display()) } else { String::new() };
        let and = if report.is_empty() && path.is_empty() { " and" } else { "," };
        print(&format!("\nsaved {model}{and} {}{path}{report}\n", trace.display()))?;
    }
    Ok(ExitCode::from(code))
}

/// Checks that a report can be written at the end and would not overwrite another file.
pub(super) fn check_report(file: &Path, read: &[(&str, &Path)], directory: &Directory, written: &[&str]) -> Result<()> {
    if let Some(name) = written.iter().find(|name| is_same_file(file, &directory.file(name))) {
        let what = format!("--report {}: is where {name} goes; expected another file", file.display());
        return Err(Error::Request(what));
    }
    check_output("--report", file, read)
}

#[derive(Serialize)]
struct Summary<'a> {
    exit_code: u8,
    warnings: &'a [Note],
    notes: &'a [Note],
    measured: &'a crate::model::Measurements,
    training: &'a crate::model::Training,
}

/// Describes the outcome, with the details of the solver if `explain` is set.
pub fn words(trained: &TrainedModel, explain: bool) -> String {
    let m = &trained.model.measured;
    let mut text = visible(&m.verdict()).into_owned() + "\n";
    if let Some(promise) = &m.promise {
        text += &format!("{}\n", visible(&promise.sentence));
    }
    for warning in &m.warnings {
        text += &format!("warning: {}\n", visible(&warning.to_string()));
    }
    text += "\n";
    text += &table(trained);
    text += &match &m.held_out {
        Some(held) => tables("held-out rows", held, Extent::Short),
        None => tables("training rows", &m.training, Extent::Short),
    };
    text += "\n";
    text += &m.promise.as_ref().map_or(String::new(), promise::words);
    let held = m.held_out.as_ref().map_or(String::new(), |h| format!(", {} held out", h.rows));
    text += &format!(
        "{} rows for training{held}; {} features and an intercept\n{} iterations of {} in {} round{}, {:.0} passes, {:.1} s, seed {}\n",
        m.training.rows,
        trained.model.weights.len(),
        m.iterations,
        trained.model.training.solver,
        m.rounds,
        if m.rounds == 1 { "" } else { "s" },
        m.passes.total(),
        m.seconds,
        trained.model.training.seed,
    );
    if m.ended == StopReason::Finished {
        text += "the solver converged";
        text += if explain { "\n" } else { " (--explain shows what it proved and adjusted)\n" };
    }
    if explain {
        text += &details(trained);
    }
    for note in trained.notes.iter().filter(|note| !note.is_warning() && (explain || !is_detail(note))) {
        text += &format!("note: {}\n", visible(&with_options(note)));
    }
    text
}

/// File of the picture of the tested candidates.
const PATH: &str = "path.svg";

/// Returns whether a note is about how the solver was set up rather than about the result.
fn is_detail(note: &Note) -> bool {
    matches!(
        note,
        Note::SurrogateBoundMoved { .. }
            | Note::RatesCounted { .. }
            | Note::TemperatureLowered { .. }
            | Note::StepSizeChosen { .. }
            | Note::DefaultStepSize { .. }
    )
}

/// Describes what the solver proved and why it was chosen.
fn details(trained: &TrainedModel) -> String {
    let m = &trained.model.measured;
    let mut text = m.slope.map_or(String::new(), slope_words);
    if let Some(proved) = &m.stationary {
        text += &format!(
            "{}: stationary for the surrogate problem to within {:.1e} (proximal coefficient {:.3})\n",
            basis(proved.estimated),
            proved.upper,
            proved.rho_f + proved.mu
        );
    }
    for reason in &trained.model.training.reasons {
        text += &format!("{}\n", visible(&with_options(reason)));
    }
    text
}

/// Formats bounds, training and held-out values side by side.
fn table(trained: &TrainedModel) -> String {
    let m = &trained.model.measured;
    let held = |value: &dyn Fn(&Quality) -> Option<f64>, show: fn(f64) -> String| {
        m.held_out.as_ref().and_then(value).map_or(String::new(), show)
    };
    let plain = |v: f64| format!("{v:.4}");
    let percent = |v: f64| format!("{:.2}%", 100.0 * v);
    let mut rows = vec![["", "bound", "training", "held out", ""].map(String::from)];
    rows.push(["accuracy".into(), "".into(), percent(m.training.accuracy), held(&|q| Some(q.accuracy), percent), "".into()]);
    let objective = trained.model.training.minimize.clone();
    rows.push([objective, "".into(), plain(m.training.objective), held(&|q| Some(q.objective), plain), "".into()]);
    for row in of_fit::bounds(&trained.model) {
        let verdict = row.satisfied.map_or("", |satisfied| if satisfied { "satisfied" } else { "violated" });
        let held = row.held_out.map_or(String::new(), plain);
        rows.push([row.name, plain(row.bound), plain(row.value), held, verdict.into()]);
    }
    align(&rows, &[1, 2, 3])
}
