//! `thalweg completions`: shell completions.

use std::process::ExitCode;

use super::CommandResult;
use crate::output::print;
use crate::verdict::DONE;

/// Print completions for a shell.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg")]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Runs the command for the given command line.
pub fn run(args: Args, mut command: clap::Command) -> CommandResult {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut command, "thalweg", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::from(DONE))
}
