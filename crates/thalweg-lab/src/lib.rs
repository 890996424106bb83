//! The implementation of the `thalweg` command as a library: data sets, encodings, specs, and one module per subcommand.

pub mod bilevel;
pub mod by_group;
pub mod certificate;
pub mod certify;
pub mod check;
pub mod cli;
pub mod commands;
pub mod console;
pub mod data;
pub mod encode;
pub mod error;
pub mod fit;
pub mod job;
pub mod lab;
mod lenient;
pub mod metrics;
pub mod model;
pub mod output;
pub mod plan;
pub mod plot;
pub mod promise;
pub mod proof;
pub mod report;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tradeoff;
pub mod verdict;

pub use error::{Error, Result};
