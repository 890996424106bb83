//! Terms, models and reference values: oracles against differences, values by hand, training without tuning.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)] // tests and their helpers may give up

#[path = "../common/mod.rs"]
mod common;

mod best;
mod bilevel;
mod bilevel_defaults;
mod fit;
mod intercept;
mod interval;
mod joint;
mod loss_form;
mod ridge;
mod terms;
mod unseen;
mod warnings;
