//! The workings of the `thalweg` command, as a library: data sets, specs, and one module per subcommand.

pub mod commands;
pub mod error;

pub use error::{Error, Result};
