//! Quantities built up over a run in little memory: estimators of values and gradients from batches, and output rules that
//! never store iterates. Each is a recurrence on numbers; evaluating the problem is left to the solver.

mod average;
mod batch;
mod recursive;
mod reservoir;
mod two_point;

pub use average::RunningMean;
pub use batch::{BLOCK, MiniBatch, Order, Walk};
pub use recursive::{Ema, Spider, Storm};
pub use reservoir::Reservoir;
pub use two_point::{Law, TwoPoint};
