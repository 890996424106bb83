//! The `thalweg` command as a function of its arguments that returns an exit code. The subcommands are in [`crate::commands`].

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::commands;
use crate::verdict::REFUSED;

/// Optimisation under constraints where nothing is smooth or convex.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done and feasible; 1 done, but infeasible or a target missed; 2 error; 130 interrupted.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Fit(Box<commands::fit::Args>),
    Tradeoff(Box<commands::tradeoff::Args>),
    Predict(commands::predict::Args),
    Explain(commands::explain::Args),
    Certify(commands::certify::Args),
    Check(commands::check::Args),
    /// Run one experiment described in a TOML file
    Solve(commands::solve::Args),
    Lab(commands::lab::Args),
    /// From the constants of a problem to the parameters that the theorems prescribe
    Plan(Box<commands::plan::Args>),
    /// The known data sets and their files
    Data(commands::data::Args),
    Bilevel(commands::bilevel::Args),
    Completions(commands::completions::Args),
}

/// Runs the command with these arguments, the first of which is its own name. Invalid arguments and requests for help end the
/// process.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ending = match Cli::parse_from(args).command {
        Command::Demo(args) => commands::demo::run(args),
        Command::Fit(args) => commands::fit::run(*args),
        Command::Tradeoff(args) => commands::tradeoff::run(*args),
        Command::Predict(args) => commands::predict::run(args),
        Command::Explain(args) => commands::explain::run(args),
        Command::Certify(args) => commands::certify::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Solve(args) => commands::solve::run(args),
        Command::Lab(args) => commands::lab::run(args),
        Command::Plan(args) => commands::plan::run(*args),
        Command::Data(args) => commands::data::run(args),
        Command::Bilevel(args) => commands::bilevel::run(args),
        Command::Completions(args) => commands::completions::run(args, Cli::command()),
    };
    ending.unwrap_or_else(|error| {
        // Messages are one line, even if quoted text has line breaks. A closed standard error cannot be reported.
        let line = error.to_string().replace('\n', " ");
        let _ = writeln!(std::io::stderr(), "thalweg: {line}");
        ExitCode::from(REFUSED)
    })
}
