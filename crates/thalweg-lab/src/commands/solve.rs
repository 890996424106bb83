//! `thalweg solve`: one run described in TOML.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use thalweg::run::{Checkpoint, StopReason};
use thalweg::solvers::PointOrigin;

use super::CommandResult;
use crate::certificate::{bounds_words, penalised_words, slope_words, stationary_words, switching_words, zeroth_order_words};
use crate::console::{Bar, stop_on_signal};
use crate::data::catalogue;
use crate::job::{Finished, Job, execute, finish};
use crate::output::{
    CROWD, STANDARD_OUTPUT, align, check_output, check_standard_output, few, is_same_file, is_standard_output, json, print,
    visible, write_whole,
};
use crate::report::of_solve::{self, SolvedRun};
use crate::spec::{Spec, base_of};
use crate::trace::csv;
use crate::verdict::Completion;
use crate::{Error, Result};

/// Run one problem described in a TOML file.
#[derive(Debug, Clone, clap::Args)]
#[command(allow_negative_numbers = true, after_help = "Example: thalweg solve run.toml --trace run.csv --checkpoint run.save")]
pub struct Args {
    /// Spec of the run
    spec: PathBuf,
    /// Write the recorded iterates to this CSV file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a report with charts to this HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write the result, with the point, to this JSON file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Save the state of the run in this file
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "checkpoint")]
    checkpoint_every: f64,
    /// Continue from the checkpoint, if it exists
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// Number of threads; the results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Look for data sets in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    let spec = Spec::read(&args.spec)?;
    args.check_files(&spec)?;
    let mut job = Job::new(&spec, &args.spec, &catalogue::Options { data_dir: args.data_dir.clone(), progress: !args.quiet })?;
    let every = Duration::try_from_secs_f64(args.checkpoint_every)
        .map_err(|_| Error::Request(format!("--checkpoint-every {}; expected a number of seconds", args.checkpoint_every)))?;
    let options = &mut job.setup.options;
    options.threads = args.threads.unwrap_or(options.threads);
    options.checkpoint = args.checkpoint.clone().map(|file| {
        let settings = job.setup.settings.clone();
        Checkpoint { file, every, resume: args.resume, settings }
    });
    options.interrupt = Some(stop_on_signal()?);
    let mut bar = Bar::new(!args.quiet);
    let mut outcome = execute(&job.instance, &mut job.setup, &mut bar)?;
    bar.finish();
    outcome.notes.splice(0..0, job.notes().cloned());

    // The outcome is printed even if a file could not be written, and the files are written even if standard output is closed.
    let traced = args.trace.as_ref().map_or(Ok(()), |file| {
        let metrics: Vec<String> = outcome.metrics.iter().map(|reading| reading.name.clone()).collect();
        write_whole(file, &csv(&outcome.trace, &metrics))
    });
    let report = Report::new(finish(&job.instance, &job.setup, outcome));
    let text = json(&report)?;
    let written = args.out.as_ref().map_or(Ok(()), |file| write_whole(file, &text));
    let page = args.report.as_ref().map_or(Ok(()), |file| {
        let page = of_solve::page(&report.solved(&args.spec, &spec, &job));
        write_whole(file, &crate::report::html(&page))
    });
    let mut words = if args.json { text } else { report.words() };
    if let Some(file) = args.report.as_ref().filter(|_| page.is_ok() && !args.json) {
        words += &format!("saved {}\n", file.display());
    }
    let taken = [&args.trace, &args.out, &args.report].into_iter().flatten().any(|file| is_standard_output(file));
    let printed = if taken { Ok(()) } else { print(&words) };
    traced.and(written).and(page).and(printed)?;
    Ok(ExitCode::from(report.exit_code))
}

impl Args {
    /// Checks before the run that the output files can be written and are none of the input files, so that nothing is lost.
    fn check_files(&self, spec: &Spec) -> Result<()> {
        let outputs = [("--trace", &self.trace), ("--out", &self.out), ("--report", &self.report)];
        check_standard_output(&outputs.map(|(flag, file)| (flag, file.as_deref())), self.json)?;
        if self.checkpoint.as_deref().is_some_and(is_standard_output) {
            return Err(Error::Request(format!(
                "--checkpoint {STANDARD_OUTPUT}: standard output cannot be read again; expected a file"
            )));
        }
        let data = spec.data.file.as_ref().map(|file| base_of(&self.spec).join(file));
        let read: Vec<(&str, &Path)> = std::iter::once(("the description of the run", self.spec.as_path()))
            .chain(data.as_deref().map(|file| ("the data of the run", file)))
            .collect();
        let files =
            [("--trace", &self.trace), ("--out", &self.out), ("--checkpoint", &self.checkpoint), ("--report", &self.report)];
        let files: Vec<_> = files.into_iter().filter_map(|(flag, file)| file.as_ref().map(|file| (flag, file))).collect();
        for (i, (flag, file)) in files.iter().enumerate() {
            if let Some((other, _)) = files[..i].iter().find(|(_, f)| is_same_file(f, file)) {
                return Err(Error::Request(format!("{flag} {}: is the file of {other}; expected another one", file.display())));
            }
            check_output(flag, file, &read)?;
        }
        Ok(())
    }
}

/// Number of constraints to list if there are many.
const WORST: usize = 5;

/// JSON that is printed and saved.
#[derive(Debug, serde::Serialize)]
struct Report {
    /// Whether the point is feasible and the run did not fail.
    success: bool,
    exit_code: u8,
    /// Whether the run met the stopping criterion of its solver.
    completion: Completion,
    /// Why the run ended, as a sentence.
    message: String,
    #[serde(flatten)]
    finished: Finished,
}

impl Report {
    fn new(mut finished: Finished) -> Self {
        // They are among the notes of the outcome, which the command lists together.
        finished.problem_notes.clear();
        let (success, exit_code) = (finished.outcome.success(), finished.status.exit_code());
        let (completion, message) = (finished.completion(), finished.message());
        Report { success, exit_code, completion, message, finished }
    }

    /// Collects the result and the content of its page.
    fn solved<'a>(&'a self, file: &'a Path, spec: &'a Spec, job: &'a Job) -> SolvedRun<'a> {
        SolvedRun {
            file,
            spec,
            data: &job.instance.data_name,
            settings: &job.setup.settings,
            metrics: job.setup.options.metrics.as_ref().map_or_else(Vec::new, |metrics| metrics.names()),
            finished: &self.finished,
        }
    }

    fn words(&self) -> String {
        let Finished { outcome: o, bounds, certificate, held_out, .. } = &self.finished;
        let mut text = format!("{}\n", visible(&self.finished.sentence()));
        if let (StopReason::Infeasible { .. }, Some(worst)) = (&o.ended, &o.point.worst) {
            text += &format!("least violation found: {:.6}, of '{}'\n", o.point.violation, visible(worst));
        }
        text += "\n";
        let mut rows = vec![["objective".to_string(), format!("{:.9}", o.point.objective), String::new(), String::new()]];
        let crowd = o.point.total > CROWD;
        for (c, bound) in few(&o.point, bounds, WORST) {
            let verdict = match c.satisfied {
                // A tolerance larger than rounding errors is shown.
                true if c.value > 0.0 && c.tolerance > 1e-3 => format!("satisfied within {:.3}", c.tolerance),
                true => "satisfied".into(),
                false => format!("violated by {:.2e}", c.value),
            };
            rows.push([c.name.clone(), format!("{:.9}", c.value + bound), format!("<= {bound}"), verdict]);
        }
        text += &align(&rows, &[1]);
        if crowd {
            let (total, share) = (o.point.total, 100.0 * o.point.share_violated());
            text += &match o.point.violated {
                0 => format!("all {total} constraints are satisfied; those nearest to their bounds are shown\n"),
                1 => format!("1 of {total} constraints is violated ({share:.2}%); the worst are shown\n"),
                violated => format!("{violated} of {total} constraints are violated ({share:.2}%); the worst are shown\n"),
            };
        }
        if let Some(multipliers) = o.multipliers.as_ref().filter(|_| !crowd) {
            let each: Vec<String> = multipliers.iter().map(|m| format!("{m:.4}")).collect();
            text += &format!("multipliers: {}\n", each.join(", "));
        }
        if let Some(value) = &self.finished.bilevel {
            text += &value.words();
        }
        if let Some(held) = held_out {
            text += "\non held-out rows\n";
            let mut rows = vec![["objective".to_string(), format!("{:.9}", held.objective)]];
            let values = held.constraints.iter().zip(bounds);
            rows.extend(values.map(|(c, bound)| [c.name.clone(), format!("{:.9}", c.value + bound)]));
            text += &align(&rows, &[1]);
        }
        if !o.metrics.is_empty() {
            text += "\nmeasured\n";
            let rows = o.metrics.iter().map(|reading| [reading.name.clone(), format!("{:.9}", reading.value)]);
            text += &align(&rows.collect::<Vec<_>>(), &[1]);
        }
        let proved = certificate.as_ref().and_then(|c| c.bounds.as_ref());
        if proved.is_some() || o.stationary.is_some() || o.slope.is_some() {
            text += "\n";
            text += &o.slope.map_or(String::new(), slope_words);
            text += &o.stationary.as_ref().map_or(String::new(), stationary_words);
            text += &proved.map_or(String::new(), bounds_words);
        }
        if let Some(found) = &o.zeroth_order {
            text += &format!("\n{}", zeroth_order_words(found));
        }
        if let Some(c) = certificate.as_ref().and_then(|c| c.switching.as_ref()) {
            text += &format!("\n{}", switching_words(c));
        }
        if let Some(c) = certificate.as_ref().and_then(|c| c.penalised.as_ref()) {
            text += &penalised_words(c);
        }
        text += &format!(
            "\n{} {} iterations, {:.1} passes of the objective, {:.1} of the constraints, {:.2} s, seed {}\n",
            o.iterations, o.solver, o.passes.objective, o.passes.constraints, o.seconds, o.seed
        );
        if o.returned == PointOrigin::LeastInfeasible {
            text += "no iterate passed the test of the output rule; the least infeasible one was returned\n";
        }
        match &o.best_feasible {
            Some(best) if best.objective < o.point.objective || !o.point.feasible => {
                text += &format!("best recorded feasible point: objective {:.9}\n", best.objective);
            }
            Some(_) => {}
            None => text += "no recorded point was feasible\n",
        }
        for note in &o.notes {
            text += &format!("note: {}\n", visible(&note.to_string()));
        }
        text
    }
}
