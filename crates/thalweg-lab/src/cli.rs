//! The `thalweg` command as a function of its arguments that returns an exit code. The subcommands are in [`crate::commands`].

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::data::limits::LimitArgs;
use crate::output::{message, shortened, visible_lines};
use crate::verdict::{DONE, REFUSED};
use crate::{Error, commands};

/// Optimisation under constraints where nothing is smooth or convex.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    limits: LimitArgs,
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

/// Runs the command with these arguments, the first of which is its own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Cli { command, limits } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(answer) => return answered(&answer),
    };
    limits.set();
    let ending = match command {
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
        failed(&error);
        ExitCode::from(REFUSED)
    })
}

/// Reports an error in one line, even if quoted text has line breaks.
fn failed(error: &Error) {
    message(format_args!("thalweg: {}", shortened(&error.to_string().replace('\n', " "))));
}

/// Prints help, the version or the error of a command line, and returns the exit code.
fn answered(answer: &clap::Error) -> ExitCode {
    let text = answer.render().to_string();
    let safe = shortened(&visible_lines(&text)).into_owned();
    let printed = match answer.use_stderr() {
        // The message quotes arguments. Without a change, it may have colours.
        true if safe == text && std::io::stderr().is_terminal() => answer.print(),
        true => std::io::stderr().write_all(safe.as_bytes()),
        false => answer.print().and_then(|()| std::io::stdout().flush()),
    };
    match printed {
        Err(e) if !answer.use_stderr() && e.kind() != ErrorKind::BrokenPipe => {
            failed(&Error::io(Path::new("standard output"), &e));
            ExitCode::from(REFUSED)
        }
        _ => ExitCode::from(if answer.use_stderr() { REFUSED } else { DONE }),
    }
}
