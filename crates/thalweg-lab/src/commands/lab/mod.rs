//! `thalweg lab`: experiments, the store that keeps their runs, and the report. One file per subcommand; the arguments that
//! several of them have are here.

mod export;
mod list;
mod remove;
mod report;
mod run;
mod show;

use std::path::PathBuf;

use super::CommandResult;
use crate::Result;
use crate::lab::frame::{Line, lines};
use crate::lab::grid::matches;
use crate::lab::store::Store;

/// Run experiments, keep their results in a store and compare them in a report
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    Run(run::RunArgs),
    Report(report::ReportArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Export(export::ExportArgs),
    Rm(remove::RmArgs),
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
struct RunFilter {
    /// Only this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Only runs whose names contain this; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

impl RunFilter {
    fn rows(&self, store: &Store) -> Result<Vec<Line>> {
        let mut rows = lines(store, self.experiment.as_deref())?;
        rows.retain(|row| self.only.as_ref().is_none_or(|only| matches(&row.name(), only)));
        Ok(rows)
    }
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    match args.command {
        Command::Run(args) => run::run_experiment(args),
        Command::Report(args) => report::report(args),
        Command::List(args) => list::list(args),
        Command::Show(args) => show::show(args),
        Command::Export(args) => export::export(args),
        Command::Rm(args) => remove::remove(args),
    }
}
