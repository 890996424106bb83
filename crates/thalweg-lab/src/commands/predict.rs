//! `thalweg predict`: scores of new rows by a trained model.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thalweg::Note;
use thalweg::math::Matrix;

use super::CommandResult;
use crate::data::table::{CellFormat, Table};
use crate::fit::{Identifiers, predictions};
use crate::model::{Input, Model};
use crate::output::{STANDARD_OUTPUT, check_output, message, write_whole};
use crate::verdict::DONE;
use crate::{Error, Result};

/// Score new rows with a trained model: the score and the label of each.
///
/// Columns are found by name, so their order does not matter and further ones are ignored. A row is predicted positive if its
/// score is above 0. For a model of the logistic loss without constraints there is a column "probability" too, the logistic function
/// of the score. Constraints move scores away from log-odds, by different amounts in different groups, so that models under constraints
/// have no probabilities.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg predict model new.csv --id customer --out scores.csv")]
pub struct Args {
    /// model.json, or the directory it is in
    model: PathBuf,
    /// The rows
    data: PathBuf,
    /// Copy this column of the table in front of the predictions, to tell the rows apart
    #[arg(long, value_name = "COL")]
    id: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    cells: CellFormat,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    if let Some(out) = &args.out {
        let model = args.model.join("model.json");
        check_output("--out", out, &[("the table", &args.data), ("the model", &args.model), ("the model", &model)])?;
    }
    let model = Model::read(&args.model)?;
    let (features, notes, identifiers) = match &args.id {
        None => {
            let (features, notes) = model.input.read(&args.data)?;
            (features, notes, None)
        }
        Some(column) => with_identifiers(&model, &Table::read(&args.data)?, column)?,
    };
    let text = predictions(&model, &features, identifiers.as_ref(), args.cells);
    write_whole(args.out.as_deref().unwrap_or(Path::new(STANDARD_OUTPUT)), &text)?;
    for note in &notes {
        // Standard output is reserved for the predictions.
        message(format_args!("note: {note}"));
    }
    Ok(ExitCode::from(DONE))
}

/// Encodes the rows of a table and copies the column that identifies them.
fn with_identifiers(model: &Model, table: &Table, column: &str) -> Result<(Matrix, Vec<Note>, Option<Identifiers>)> {
    let Input::Table { encoding, .. } = &model.input else {
        let what = format!("--id {column}; expected none, because the model was trained on LIBSVM rows, which have no names");
        return Err(Error::Request(what));
    };
    let j = table.find(column)?;
    let (features, notes) = encoding.encode(table)?;
    let cells = (0..table.rows()).map(|i| table.cell(i, j).to_string()).collect();
    Ok((features, notes, Some(Identifiers { name: column.into(), cells })))
}
