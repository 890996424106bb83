//! The command as a user runs it: output, exit codes, files, refusals.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)] // tests and their helpers may give up

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod bad_tables;
mod bilevel;
mod certify;
mod check;
mod docs;
mod files;
mod fit;
mod hostile;
mod lab;
mod large;
mod memory;
mod plan;
mod solve;
mod spec;
mod tradeoff;
mod unseen;
