//! `thalweg data`: which data sets are known, what is in them, where their files are looked for; files in binary form, and
//! stand-ins. Reading, counting and making is done in [`crate::data`].

mod inspect;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::CommandResult;
use crate::Result;
use crate::data::catalogue::{self, Options};
use crate::data::shaped_like::{Like, ShapedLike};
use crate::data::table::CellFormat;
use crate::output::{STANDARD_OUTPUT, print};
use crate::verdict::DONE;

/// Known data sets: which there are, what is in them, and where their files are looked for.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example: thalweg data info adult")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// List the known data sets and where each was found
    List(Common),
    /// Show everything about a data set: read it and count rows, labels and groups
    Info {
        /// Name of the data set
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Write a raw table as CSV with a header line, as `thalweg fit` reads it
    Table {
        /// Name of the data set
        name: String,
        /// Write to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Look in this directory first
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        cells: CellFormat,
    },
    /// Write a LIBSVM file in binary form, which is mapped instead of being read
    Convert {
        /// The LIBSVM file, plain or gzip
        file: PathBuf,
        /// The file to write, called .thw
        out: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Generate made-up rows in the shape of a large published set
    Generate {
        /// The set that the rows have the shape of
        #[arg(long)]
        like: Like,
        /// The file to write: text (.svm, .txt), zipped text (.svm.gz, .txt.gz) or binary (.thw)
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Number of rows, by default that of the set
        #[arg(long, value_name = "N")]
        rows: Option<usize>,
        /// Number of columns, by default that of the set
        #[arg(long, value_name = "D")]
        columns: Option<usize>,
        /// Seed of the rows
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Show no progress bar
        #[arg(long)]
        quiet: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the directories that are looked in, or the file of a data set
    Path {
        /// Name of the data set
        name: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Clone, Default, clap::Args)]
struct Common {
    /// Look in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn options(&self) -> Options {
        Options { data_dir: self.data_dir.clone(), ..Options::default() }
    }
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    print(&answer(&args.what)?)?;
    Ok(ExitCode::from(DONE))
}

/// Returns the text that the command prints.
fn answer(what: &What) -> Result<String> {
    match what {
        What::List(common) => inspect::list(common),
        What::Info { name, common } => inspect::info(catalogue::get(name)?, common),
        What::Table { name, out, data_dir, cells } => {
            write::table(name, out.as_deref().unwrap_or(Path::new(STANDARD_OUTPUT)), data_dir.clone(), *cells)
        }
        What::Convert { file, out, json } => write::convert(file, out, *json),
        What::Generate { like, out, rows, columns, seed, quiet, json } => {
            let rows = ShapedLike { like: *like, rows: *rows, columns: *columns, seed: *seed };
            write::make(&rows, out, *quiet, *json)
        }
        What::Path { name: None, common } => inspect::directories(common),
        What::Path { name: Some(name), common } => inspect::path(catalogue::get(name)?, common),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    pub(super) fn ask(words: &[&str]) -> Result<String> {
        let words = std::iter::once("data").chain(words.iter().copied());
        answer(&Command::try_parse_from(words).map_err(|e| Error::Request(e.to_string()))?.args.what)
    }

    pub(super) fn text(path: &Path) -> &str {
        path.to_str().unwrap()
    }
}
