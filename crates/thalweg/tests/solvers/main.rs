//! Every solver on problems with known solutions: first steps by hand, counts, checkpoints, refusals.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)] // tests and their helpers may give up

#[path = "../common/mod.rs"]
mod common;

mod bundle;
mod certificate;
mod conex;
mod cuts;
mod dszog;
mod estimated;
mod guarantees;
mod inf_projection;
mod ipp;
mod lbfgs;
mod minmax;
mod run;
mod sipba;
mod sqp;
mod ssg;
mod threes_econ;
mod trust_region;
mod units;
mod verdict;
