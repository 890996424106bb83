//! Steps that allocate nothing, counted by a global allocator that only this binary has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)] // tests and their helpers may give up

mod bilevel_data;
mod counting;
mod steps;
mod zeroth_order;
