//! Experiments: data × problems × solvers × seeds, run in parallel and saved in a store that survives a kill at any moment. A
//! single run is described by [`crate::spec`]; the page of an experiment is drawn by [`crate::report`].

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
