//! `thalweg check`: verification of a certificate file by a program that shares no code with the solver.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::CommandResult;
use crate::Error;
use crate::check::{Verdict, check};
use crate::output::{align, json, print};

/// Check a certificate that certify --out wrote, with exact arithmetic and no code of the solver
///
/// The claims are derived again from the cuts, multipliers and rows in the file. The first line says what is confirmed and what is
/// assumed, or why a claim does not follow.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Exit codes: 0 confirmed; 1 not confirmed; 2 the file cannot be read.\n\n\
    Example:\n  thalweg certify model --out certificate.json && thalweg check certificate.json")]
pub struct Args {
    /// The certificate
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    exit_code: u8,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    let verdict = read(&args.file)?;
    let exit_code = u8::from(!verdict.confirmed);
    if args.json {
        print(&json(&Report { exit_code, verdict: &verdict })?)?;
    } else {
        print(&words(&verdict))?;
    }
    Ok(ExitCode::from(exit_code))
}

fn read(file: &Path) -> crate::Result<Verdict> {
    let text = crate::data::source::read_file(file)?;
    check(&text).map_err(|what| Error::file(file, what))
}

fn words(verdict: &Verdict) -> String {
    let mut text = format!("{}\n", verdict.sentence);
    verdict.refusals.iter().skip(1).for_each(|why| text += &format!("also: {why}\n"));
    let end = |x: Option<f64>| x.map_or("none".into(), |x| format!("{x:.9e}"));
    let mut rows = vec![["", "claimed", "follows"].map(String::from)];
    if let Some(p) = &verdict.proximity {
        for (name, at) in [("distance, lower end", 0), ("distance, upper end", 1)] {
            rows.push([name.into(), end(p.claimed[at]), end(p.derived[at])]);
        }
    }
    if let Some(c) = &verdict.conflict {
        let radius = c.radius.map_or("the domain".into(), |radius| format!("{radius:.9e}"));
        let follows = if c.margin.is_some_and(|margin| margin > 0.0) { radius.clone() } else { "less".into() };
        rows.push(["no feasible point within".into(), radius, follows]);
    }
    for r in &verdict.references {
        rows.push([format!("best({}), lower bound", r.expression), end(Some(r.lower)), end(Some(r.derived))]);
    }
    text += &format!("\n{}", align(&rows, &[1, 2]));
    if let Some(p) = &verdict.proximity {
        let violation = p.violation.map_or(String::new(), |g| format!("; largest constraint at the point {g:.2e}"));
        text += &format!(
            "\n{} cuts of {} functions, {} recomputed from the rows; constraints relaxed by {:.2e}{violation}\n",
            p.cuts, p.functions, p.recomputed, p.relaxed
        );
    }
    if let Some(c) = &verdict.conflict {
        let violation = c.violation.map_or(String::new(), |g| format!("; largest constraint at the point {g:.2e}"));
        text += &format!(
            "{}{} cuts of {} constraints, {} recomputed from the rows{violation}\n",
            if verdict.proximity.is_some() { "" } else { "\n" },
            c.cuts,
            c.functions,
            c.recomputed
        );
    }
    text += &format!("problem: {}\n", verdict.problem);
    if let Some(data) = &verdict.data {
        text += &format!("data: {data}\n");
    }
    text
}
