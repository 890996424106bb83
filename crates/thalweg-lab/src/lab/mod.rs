//! Experiments: data x problems x solvers x seeds, run in parallel, kept in a store that survives a kill at any moment. A single
//! run is [`crate::spec`]; the page that shows an experiment is [`crate::report`].

pub mod choose;
mod execute;
pub mod experiment;
pub mod frame;
pub mod grid;
pub mod host;
mod keys;
pub mod page;
pub mod schedule;
pub mod store;
