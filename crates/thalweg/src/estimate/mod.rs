//! Quantities accumulated over a run in little memory: estimators of values and gradients from mini-batches, and output rules
//! that do not store all iterates. Each is a recurrence on numbers; the solver evaluates the problem.

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
