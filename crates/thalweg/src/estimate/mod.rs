//! Quantities built up over a run in little memory: output rules that never store iterates. Estimators of values and
//! gradients from batches join them here.

mod average;
mod reservoir;

pub use average::RunningMean;
pub use reservoir::Reservoir;
