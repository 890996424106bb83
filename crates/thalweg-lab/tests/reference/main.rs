//! Numbers against other implementations and published data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)] // tests and their helpers may give up

#[path = "../common/mod.rs"]
mod common;

mod golden;
mod independent;
mod published;
mod yardstick;
