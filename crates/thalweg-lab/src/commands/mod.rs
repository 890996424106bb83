//! One module per subcommand: its arguments, and how they are executed. The work is done in the other modules.

pub mod bilevel;
pub mod certify;
pub mod check;
pub mod completions;
pub mod data;
pub mod demo;
pub mod explain;
pub mod fit;
pub mod lab;
pub mod plan;
pub mod predict;
pub mod solve;
pub mod tradeoff;

use std::process::ExitCode;

/// Exit code of a command, or the error that it reports.
pub type CommandResult = crate::Result<ExitCode>;
