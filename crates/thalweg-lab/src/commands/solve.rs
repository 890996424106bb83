//! `thalweg solve`: one run described in TOML.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use thalweg::Note;
use thalweg::assess::{Measured, Measures, NearStationarity, PenalisedStationarity};
use thalweg::certify::Certificate;
use thalweg::run::{self, Checkpoint, Options, Outcome, Point, StopReason};
use thalweg::solvers::PointOrigin;

use super::{DONE, Ending, INTERRUPTED, MISSED};
use crate::bilevel::Judged;
use crate::certificate::{bounds_words, penalised_words, slope_words, stationary_words, switching_words, zeroth_order_words};
use crate::console::{Bar, stop_on_signal};
use crate::data::catalogue;
use crate::model::Reference;
use crate::output::{CROWD, align, few, json, print};
use crate::report::of_solve::{self, Solved};
use crate::spec::{Problem, Ready, Spec};
use crate::trace::{check_writable, csv, write_whole};
use crate::{Error, Result};

/// Run one experiment described in a TOML file.
#[derive(Debug, Clone, clap::Args)]
#[command(allow_negative_numbers = true, after_help = "Example: thalweg solve run.toml --trace run.csv --checkpoint run.save")]
pub struct Args {
    /// The description of the run
    spec: PathBuf,
    /// Write the recorded iterates to this CSV file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the outcome as a page with charts to this HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
    /// Write the outcome, with the point, to this JSON file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the state of the run in this file
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Seconds between two savings of the checkpoint
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "checkpoint")]
    checkpoint_every: f64,
    /// Continue from the checkpoint, if it is there
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// Threads for sums over rows; the numbers do not depend on it
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
pub fn run(args: Args) -> Ending {
    let spec = Spec::read(&args.spec)?;
    args.check_files()?;
    let mut ready = spec.ready(&args.spec, &catalogue::Options { data_dir: args.data_dir.clone(), progress: !args.quiet })?;
    let every = Duration::try_from_secs_f64(args.checkpoint_every)
        .map_err(|_| Error::Request(format!("--checkpoint-every {}; expected a number of seconds", args.checkpoint_every)))?;
    let options = spec.options(ready.equipped.certificate, ready.equipped.metrics.clone());
    let options = Options {
        feasibility: ready.equipped.relaxed.unwrap_or(0.0).max(options.feasibility),
        budget: ready.equipped.work.leaves(&options.budget),
        threads: args.threads.unwrap_or(options.threads),
        checkpoint: args.checkpoint.clone().map(|file| Checkpoint {
            file,
            every,
            resume: args.resume,
            settings: ready.equipped.settings.clone(),
        }),
        interrupt: Some(stop_on_signal()?),
        ..options
    };
    let mut bar = Bar::new(!args.quiet);
    let mut outcome =
        run::minimize_with(ready.posed.problem.oracle(), &mut ready.equipped.solver, &ready.equipped.start, &options, &mut bar)?;
    bar.finish();
    outcome.notes.splice(0..0, ready.notes().cloned().map(Note::from));

    // The outcome is printed even if a file could not be written, and the files are written even if nobody reads.
    let traced = args.trace.as_ref().map_or(Ok(()), |file| {
        let metrics: Vec<String> = outcome.metrics.iter().map(|reading| reading.name.clone()).collect();
        write_whole(file, &csv(&outcome.trace, &metrics))
    });
    let report = Report::new(&ready, outcome, &options);
    let text = json(&report)?;
    let written = args.out.as_ref().map_or(Ok(()), |file| write_whole(file, &text));
    let page = args.report.as_ref().map_or(Ok(()), |file| {
        let page = of_solve::page(&report.solved(&args.spec, &spec, &ready));
        write_whole(file, &crate::report::html(&page))
    });
    let mut words = if args.json { text } else { report.words() };
    if let Some(file) = args.report.as_ref().filter(|_| page.is_ok() && !args.json) {
        words += &format!("written: {}\n", file.display());
    }
    let printed = print(&words);
    traced.and(written).and(page).and(printed)?;
    Ok(ExitCode::from(report.exit_code))
}

impl Args {
    /// Refuses files that could not be written after the run, while there is no result to lose.
    fn check_files(&self) -> Result<()> {
        let files =
            [("--trace", &self.trace), ("--out", &self.out), ("--checkpoint", &self.checkpoint), ("--report", &self.report)];
        let files: Vec<_> = files.into_iter().filter_map(|(flag, file)| file.as_ref().map(|file| (flag, file))).collect();
        for (i, (flag, file)) in files.iter().enumerate() {
            if *file == &self.spec {
                return Err(Error::Request(format!(
                    "{flag} {}: is the description of the run; expected another file",
                    file.display()
                )));
            }
            if let Some((other, _)) = files[..i].iter().find(|(_, f)| f == file) {
                return Err(Error::Request(format!("{flag} {}: is the file of {other}; expected another one", file.display())));
            }
            check_writable(file).map_err(|what| Error::Request(format!("{flag} {}: {what}", file.display())))?;
        }
        Ok(())
    }
}

/// Of a crowd of constraints, so many have a line.
const WORST: usize = 5;

/// What is printed and written.
#[derive(Debug, serde::Serialize)]
struct Report {
    /// The point is feasible and the run did not fail.
    success: bool,
    exit_code: u8,
    /// Why the run ended, in words.
    message: String,
    problem: String,
    /// The bound of each constraint; its value in the outcome is measured from there.
    bounds: Vec<f64>,
    /// The reference values that bounds, thresholds, domain and start were made from.
    references: Vec<Reference>,
    #[serde(flatten)]
    outcome: Outcome,
    /// What the x of a bilevel problem is worth.
    bilevel: Option<Judged>,
    /// The same terms on the rows that were set aside.
    held_out: Option<Point>,
    /// Near-stationarity of the returned point, with bounds.
    certificate_bounds: Option<Certificate>,
    /// Near-stationarity of the returned point.
    certificate: Option<NearStationarity>,
    /// Near-stationarity of the returned point for a smoothed penalty.
    penalty_certificate: Option<PenalisedStationarity>,
}

impl Report {
    fn new(ready: &Ready, mut outcome: Outcome, options: &Options) -> Self {
        let exit_code = match (&outcome.ended, outcome.point.feasible) {
            (StopReason::Interrupted, _) => INTERRUPTED,
            (StopReason::Failed { .. } | StopReason::Infeasible { .. }, _) | (_, false) => MISSED,
            (_, true) => DONE,
        };
        let x = &outcome.point.x;
        let mut notes: Vec<String> = vec![];
        // The run is over: what cannot be said about its point is a note, not a reason to lose it.
        let held_out = ready.posed.held_out.as_ref().and_then(|p| {
            let measured = run::measure(p, x, options.feasibility);
            measured.map_err(|e| notes.push(format!("the point was not measured on the held-out rows: {e}"))).ok()
        });
        // Who interrupts a run does not want to wait for another one.
        let asked = if outcome.ended == StopReason::Interrupted { Measures::default() } else { options.certificate };
        let Measured { switching: certificate, penalised: penalty_certificate, bounds: certificate_bounds } =
            asked.take(ready.posed.problem.oracle(), x).unwrap_or_else(|e| {
                notes.push(format!("the near-stationarity of the point was not computed: {e}"));
                Measured::default()
            });
        let bilevel = match &ready.posed.problem {
            Problem::Bilevel(posed) if outcome.ended != StopReason::Interrupted => {
                let judged = posed.judge(x);
                judged.map_err(|e| notes.push(format!("what x is worth was not computed: {e}"))).ok()
            }
            _ => None,
        };
        outcome.notes.extend(notes.into_iter().map(Note::from));
        Report {
            bilevel,
            success: outcome.success(),
            exit_code,
            message: outcome.ended.to_string(),
            problem: ready.posed.problem.oracle().fingerprint(),
            bounds: outcome.point.constraints.iter().map(|c| ready.posed.problem.bound(c.index)).collect(),
            references: ready.posed.problem.references().iter().map(Reference::from).collect(),
            held_out,
            certificate_bounds,
            certificate,
            penalty_certificate,
            outcome,
        }
    }

    /// The same for the page.
    fn solved<'a>(&'a self, file: &'a Path, spec: &'a Spec, ready: &'a Ready) -> Solved<'a> {
        Solved {
            file,
            spec,
            data: &ready.posed.called,
            settings: &ready.equipped.settings,
            problem: &self.problem,
            bounds: &self.bounds,
            references: &self.references,
            metrics: ready.equipped.metrics.as_ref().map_or_else(Vec::new, |metrics| metrics.names()),
            outcome: &self.outcome,
            held_out: self.held_out.as_ref(),
            certificate_bounds: self.certificate_bounds.as_ref(),
            certificate: self.certificate.as_ref(),
            penalty_certificate: self.penalty_certificate.as_ref(),
        }
    }

    fn words(&self) -> String {
        let o = &self.outcome;
        let mut text = String::new();
        text += &format!("{}\n", o.ended.headline(o.point.feasible));
        if let (StopReason::Infeasible { .. }, Some(worst)) = (&o.ended, &o.point.worst) {
            text += &format!("least violation found: {:.6}, of '{worst}'\n", o.point.violation);
        }
        text += "\n";
        let mut rows = vec![["objective".to_string(), format!("{:.9}", o.point.objective), String::new(), String::new()]];
        let crowd = o.point.total > CROWD;
        for (c, bound) in few(&o.point, &self.bounds, WORST) {
            let verdict = match c.satisfied {
                // A relaxation that is larger than rounding is said.
                true if c.value > 0.0 && c.tolerance > 1e-3 => format!("holds within {:.3}", c.tolerance),
                true => "holds".into(),
                false => format!("violated by {:.2e}", c.value),
            };
            rows.push([c.name.clone(), format!("{:.9}", c.value + bound), format!("<= {bound}"), verdict]);
        }
        text += &align(&rows, &[1]);
        if crowd {
            let (total, share) = (o.point.total, 100.0 * o.point.share_violated());
            text += &match o.point.violated {
                0 => format!("all {total} constraints hold; above are the nearest to their bounds\n"),
                1 => format!("of {total} constraints 1 is violated ({share:.2}%); above are the worst\n"),
                violated => format!("of {total} constraints {violated} are violated ({share:.2}%); above are the worst\n"),
            };
        }
        if let Some(multipliers) = o.multipliers.as_ref().filter(|_| !crowd) {
            let each: Vec<String> = multipliers.iter().map(|m| format!("{m:.4}")).collect();
            text += &format!("multipliers as the method sees them: {}\n", each.join(", "));
        }
        if let Some(judged) = &self.bilevel {
            text += &judged.words();
        }
        if let Some(held) = &self.held_out {
            text += "\non held-out rows\n";
            let mut rows = vec![["objective".to_string(), format!("{:.9}", held.objective)]];
            let values = held.constraints.iter().zip(&self.bounds);
            rows.extend(values.map(|(c, bound)| [c.name.clone(), format!("{:.9}", c.value + bound)]));
            text += &align(&rows, &[1]);
        }
        if !o.metrics.is_empty() {
            text += "\nmeasured\n";
            let rows = o.metrics.iter().map(|reading| [reading.name.clone(), format!("{:.9}", reading.value)]);
            text += &align(&rows.collect::<Vec<_>>(), &[1]);
        }
        if self.certificate_bounds.is_some() || o.stationary.is_some() || o.slope.is_some() {
            text += "\n";
            text += &o.slope.map_or(String::new(), slope_words);
            text += &o.stationary.as_ref().map_or(String::new(), stationary_words);
            text += &self.certificate_bounds.as_ref().map_or(String::new(), bounds_words);
        }
        if let Some(found) = &o.zeroth_order {
            text += &format!("\n{}", zeroth_order_words(found));
        }
        if let Some(c) = &self.certificate {
            text += &format!("\n{}", switching_words(c));
        }
        if let Some(c) = &self.penalty_certificate {
            text += &penalised_words(c);
        }
        text += &format!(
            "\n{} {} iterations, {:.1} passes of the objective, {:.1} of the constraints, {:.2} s, seed {}\n",
            o.iterations, o.solver, o.passes.objective, o.passes.constraints, o.seconds, o.seed
        );
        if o.returned == PointOrigin::LeastInfeasible {
            text += "no iterate passed the output rule's test: the point is the one that violates the constraints least\n";
        }
        match &o.best_feasible {
            Some(best) if best.objective < o.point.objective || !o.point.feasible => {
                text += &format!("best feasible point among the recorded: objective {:.9}\n", best.objective);
            }
            Some(_) => {}
            None => text += "no recorded point was feasible\n",
        }
        for note in &o.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}
