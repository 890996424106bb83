//! `thalweg certify`: constraint values and certificates at a point.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use thalweg::certify::Bounds;
use thalweg::learn::{Coverage, Enforce, Interval};

use super::CommandResult;
use crate::certificate::{bounds_words, certificate_basis, conflict_words};
use crate::certify::{Findings, HeldOut, MeasuredConstraint, Source, Subject, Worst};
use crate::data::catalogue;
use crate::output::{align, check_output, check_standard_output, is_standard_output, json, print, short, visible};
use crate::verdict::Status;
use crate::{Error, Result};

/// Distance, relative to the norm of the point, up to which a point counts as nearly stationary.
const NEAR: f64 = 0.01;

/// Check a model, or a point of a spec, independently of its solver: whether it is feasible, which constraint is worst, and how close
/// it is to stationary.
///
/// Everything that the file records is computed again: constraints are measured on all training rows, as measured rates and as
/// surrogates, and the distance to stationarity is bounded from both sides. With --holdout the constraints are also bounded for unseen
/// rows.
#[derive(Debug, Clone, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  thalweg certify model --holdout\n  thalweg certify run.toml --point outcome.json\n  thalweg certify model --out certificate.json"
)]
pub struct Args {
    /// model.json or the directory it is in, or the description of a run (its name ends in .toml)
    #[arg(value_name = "MODEL_OR_SPEC")]
    subject: PathBuf,
    /// The point for a spec: the outcome that solve --out wrote, or a file of numbers
    #[arg(long, value_name = "FILE")]
    point: Option<PathBuf>,
    /// The rows for a model; without it the file that it was trained on
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Bound the constraints on unseen rows, from the held-out rows
    #[arg(long)]
    holdout: bool,
    /// Probability with which such a bound holds
    #[arg(long, value_name = "P", default_value_t = 0.95, requires = "holdout")]
    confidence: f64,
    /// Let all bounds hold at once with that probability, not each of them
    #[arg(long, requires = "holdout")]
    together: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Also print the distance, the constants and the evaluations behind the line on near-stationarity
    #[arg(long)]
    explain: bool,
    /// Write everything that the bounds follow from to this file, for thalweg check
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Proximal coefficient beyond the weak-convexity constant of the objective
    #[arg(long, value_name = "X")]
    mu: Option<f64>,
    /// Evaluations at most for the bounds on near-stationarity
    #[arg(long, value_name = "N")]
    evaluations: Option<u64>,
    /// Look for the data sets of a spec in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    args.check()?;
    let is_spec = args.subject.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) && !args.subject.is_dir();
    let (subject, bounds) = if is_spec { args.of_spec()? } else { (args.of_model()?, Bounds::default()) };
    if let (Some(out), Some(data)) = (&args.out, subject.file()) {
        check_output("--out", out, &[("the data", data)])?;
    }
    let how = Bounds { mu: args.mu.or(bounds.mu), evaluations: args.evaluations.unwrap_or(bounds.evaluations), ..bounds };
    how.validate()?;
    let coverage = if args.together { Coverage::AllLines } else { Coverage::EachLine };
    let (findings, proof) = subject.examine(&how, args.holdout.then_some((args.confidence, coverage)), args.out.is_some())?;
    if let (Some(file), Some(proof)) = (&args.out, proof) {
        proof.write(file)?;
    }
    let exit_code = Status::of_all(false, findings.feasible).exit_code();
    if args.json {
        print(&json(&Report { exit_code, findings: &findings })?)?;
    } else if !args.out.as_deref().is_some_and(is_standard_output) {
        print(&words(&findings, args.explain))?;
    }
    Ok(ExitCode::from(exit_code))
}

impl Args {
    /// Checks the options before any file is read.
    fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::Request(what));
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return refuse(format!("--confidence {}; expected a number between 0 and 1, for example 0.95", self.confidence));
        }
        if let Some(mu) = self.mu.filter(|mu| !(*mu > 0.0 && mu.is_finite())) {
            return refuse(format!("--mu {mu}; expected a finite number larger than 0"));
        }
        if let Some(out) = &self.out {
            let read = [
                ("the model or spec", Some(&self.subject)),
                ("the point", self.point.as_ref()),
                ("the data", self.data.as_ref()),
            ];
            let read: Vec<_> = read.into_iter().filter_map(|(what, file)| Some((what, file?.as_path()))).collect();
            check_output("--out", out, &read)?;
            check_output("--out", out, &[("the model", &self.subject.join("model.json"))])?;
        }
        check_standard_output(&[("--out", self.out.as_deref())], self.json)?;
        if self.evaluations == Some(0) {
            return refuse("--evaluations 0; expected at least 1".into());
        }
        Ok(())
    }

    fn of_spec(&self) -> Result<(Subject, Bounds)> {
        if let Some(data) = &self.data {
            let what = format!("--data {}: belongs to a model: a spec names its data itself", data.display());
            return Err(Error::Request(what));
        }
        let Some(point) = &self.point else {
            let what =
                "has no point of its own; expected --point FILE with the outcome that thalweg solve --out wrote, or numbers";
            return Err(Error::file(&self.subject, what));
        };
        Subject::spec(&self.subject, point, &catalogue::Options { data_dir: self.data_dir.clone(), ..Default::default() })
    }

    fn of_model(&self) -> Result<Subject> {
        for (flag, file, whose) in [
            ("--point", &self.point, "a model brings its own weights"),
            ("--data-dir", &self.data_dir, "for a model give --data"),
        ] {
            if let Some(file) = file {
                return Err(Error::Request(format!("{flag} {}: belongs to a spec: {whose}", file.display())));
            }
        }
        Subject::model(&self.subject, self.data.as_deref())
    }
}

#[derive(Serialize)]
struct Report<'a> {
    exit_code: u8,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// Describes the findings; `explain` adds what the line on near-stationarity follows from.
fn words(f: &Findings, explain: bool) -> String {
    let mut text = verdict(f);
    if let Some(worst) = &f.worst {
        text += &worst_words(worst);
    }
    text += "\n";
    text += &table(f);
    text += "\n";
    text += &stationarity(f, explain);
    if let Some(conflict) = &f.conflict {
        let names: Vec<&str> = f.constraints.iter().map(|c| c.name.as_str()).collect();
        text += &conflict_words(conflict, &names);
    }
    if let Some(held) = &f.held_out {
        text += "\n";
        text += &held_out(held, &f.constraints);
    }
    if !f.notes.is_empty() {
        text += "\n";
    }
    for note in &f.notes {
        text += &format!("note: {}\n", visible(&note.to_string()));
    }
    text
}

fn verdict(f: &Findings) -> String {
    let rows = f.rows;
    match (f.feasible, f.outside_domain > 0.0, f.constraints.is_empty()) {
        (_, true, _) => format!("not feasible; the point is {:.2e} outside the domain ({})\n", f.outside_domain, f.domain),
        (true, _, true) => format!("feasible; there are no constraints ({rows} rows)\n"),
        (true, _, false) => format!("feasible; every constraint is satisfied on the {rows} training rows\n"),
        (false, ..) => format!("not feasible; a constraint is violated on the {rows} training rows\n"),
    }
}

fn worst_words(w: &Worst) -> String {
    let side = if w.measured { ", measured," } else { "" };
    let (word, by) = if w.excess > 0.0 { ("above", w.excess) } else { ("below", -w.excess) };
    format!("worst constraint: '{}'{side} is {:.6}, {by:.2e} {word} its bound {}\n", visible(&w.name), w.value, w.bound)
}

/// Lists objective and constraints, with measured rates and surrogates where they exist.
fn table(f: &Findings) -> String {
    let number = |v: f64| format!("{v:.6}");
    let mut rows = vec![["", "bound", "value", ""].map(String::from)];
    rows.push(["objective".into(), String::new(), number(f.objective), String::new()]);
    for c in &f.constraints {
        let verdict = if c.satisfied { "satisfied".to_string() } else { format!("violated by {:.2e}", c.excess) };
        let Some(measured) = c.measured else {
            rows.push([c.name.clone(), number(c.bound), number(c.value), verdict]);
            continue;
        };
        // The verdict is in the row of the value that must satisfy the bound.
        let by_count = c.enforced == Enforce::Measured;
        let (first, second) = if by_count { (verdict, String::new()) } else { (String::new(), verdict) };
        let asked = if by_count { number(c.bound) } else { String::new() };
        rows.push([format!("{}, measured", c.name), asked, number(measured), first]);
        rows.push([format!("{}, surrogate", c.name), number(c.trained_bound), number(c.value), second]);
    }
    align(&rows, &[1, 2])
}

/// Describes how close the point is to stationary in one sentence, and what that follows from if `explain` is set.
fn stationarity(f: &Findings, explain: bool) -> String {
    let whose = if f.source == Source::Model { "the model" } else { "the point" };
    let Some(c) = &f.certificate else {
        return format!("near-stationarity: unknown: {}\n", visible(f.certificate_refused.as_deref().unwrap_or_default()));
    };
    let (small, norm) = (NEAR * f.norm.max(1.0), f.norm);
    let mut text = if !c.point.feasible && f.outside_domain == 0.0 {
        let by = c.point.violation;
        format!("not certified as stationary; {whose} exceeds the constraints of the certified problem by {by:.2e}\n")
    } else if c.upper <= small {
        format!(
            "nearly stationary; {whose}, of norm {norm:.3}, is within {:.1e} of a point where no small change improves the objective \
             noticeably ({})\n",
            c.upper,
            certificate_basis(c)
        )
    } else if c.lower > small {
        format!(
            "not stationary; a proximal step moves {whose}, of norm {norm:.3}, by at least {:.1e} ({}); train longer or with another \
             solver\n",
            c.lower,
            certificate_basis(c)
        )
    } else {
        let most = if c.upper.is_finite() { format!("at most {:.1e}", c.upper) } else { "any distance".into() };
        format!(
            "not known to be stationary; a proximal step moves {whose}, of norm {norm:.3}, by at least {:.1e} and {most}; more \
             --evaluations may narrow this\n",
            c.lower
        )
    };
    let softened = f.source == Source::Model && f.constraints.iter().any(|c| c.measured.is_some());
    if softened {
        text += "(this is about the problem that was trained, with surrogates in place of rates)\n";
    }
    if c.relaxed > 1e-6 {
        text += &format!("(the constraints are relaxed by {:.1e} for this)\n", c.relaxed);
    }
    if explain { text + &bounds_words(c) } else { text }
}

fn held_out(held: &HeldOut, trained: &[MeasuredConstraint]) -> String {
    let percent = short(100.0 * held.confidence);
    let lines = match held.coverage {
        Coverage::EachLine => "per line",
        Coverage::AllLines => "that hold for all lines together,",
    };
    let mut text =
        format!("on {} held-out rows, with {percent}% confidence intervals {lines} for new rows drawn like these:\n", held.rows);
    let number = |v: f64| format!("{v:.6}");
    let mut rows = vec![["", "bound", "value", "at least", "at most", ""].map(String::from)];
    // The bound and the verdict are in the row of the value that must satisfy it; a surrogate with a surrogate bound has none.
    let mut row = |name: String, bound: Option<f64>, value: f64, low: Option<f64>, high: Option<f64>| {
        let ends = [low, high].map(|end| end.map_or("unknown".into(), number));
        let [low_text, high_text] = ends;
        let verdict = match (bound, low, high) {
            (None, ..) => "",
            (Some(bound), _, Some(high)) if high <= bound => "bound satisfied",
            (Some(bound), Some(low), _) if low > bound => "bound violated",
            _ => "bound not guaranteed on new data",
        };
        rows.push([name, bound.map_or(String::new(), number), number(value), low_text, high_text, verdict.into()]);
    };
    for (Interval { name, bound, value, low, high, measured, .. }, trained) in held.constraints.iter().zip(trained) {
        match measured {
            None => row(name.clone(), Some(*bound), *value, *low, *high),
            Some(c) => {
                let by_count = trained.enforced == Enforce::Measured;
                row(format!("{name}, measured"), by_count.then_some(*bound), c.value, c.low, c.high);
                row(format!("{name}, surrogate"), (!by_count).then_some(*bound), *value, *low, *high);
            }
        }
    }
    text += &align(&rows, &[1, 2, 3, 4]);
    for interval in &held.constraints {
        if let Some(note) = &interval.note {
            text += &format!("'{}': {}\n", visible(&interval.name), visible(&note.to_string()));
        }
    }
    text
}
