//! `thalweg predict`: scores of new rows by a trained model.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use super::CommandResult;
use crate::Error;
use crate::fit::predictions;
use crate::model::Model;
use crate::output::print;
use crate::trace::write_whole;
use crate::verdict::DONE;

/// Score new rows with a trained model: score, probability-like value and label for each.
///
/// Columns are found by name, so their order does not matter and further ones are ignored. A row is predicted positive if its
/// score is above 0; the probability is the logistic function of the score.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg predict model new.csv --out scores.csv")]
pub struct Args {
    /// model.json, or the directory it is in
    model: PathBuf,
    /// The rows
    data: PathBuf,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    let model = Model::read(&args.model)?;
    let (features, notes) = model.input.read(&args.data)?;
    let text = predictions(&model, &features);
    match &args.out {
        Some(file) => write_whole(file, &text)?,
        None => print(&text)?,
    }
    for note in &notes {
        // Standard output is reserved for the predictions.
        writeln!(std::io::stderr(), "note: {note}").map_err(|e| Error::Request(format!("standard error: {e}")))?;
    }
    Ok(ExitCode::from(DONE))
}
