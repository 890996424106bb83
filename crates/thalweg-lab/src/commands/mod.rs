//! One file per subcommand: its arguments, and what it does with them. The work itself is in the other rooms.

pub mod bilevel;
pub mod certify;
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

/// Done, and what was asked for holds.
pub const DONE: u8 = 0;
/// Done, but the answer is not feasible or a required target was missed.
pub const MISSED: u8 = 1;
/// Not done: a sentence on standard error says why.
pub const REFUSED: u8 = 2;
/// Ended by the user; the best point so far was written.
pub const INTERRUPTED: u8 = 130;

/// What a command ends with.
pub type Ending = crate::Result<ExitCode>;
