//! The run loop: budget, recorded iterates, observers, checkpoints and the outcome.
//!
//! [`minimize`] and its siblings run a solver until a limit or target is reached and measure the returned point on all data.
//! Nothing here depends on a particular solver, and solvers do not depend on the loop; the two meet at
//! [`Method`](crate::solvers::Method) and [`Solver`](crate::solvers::Solver).

mod budget;
mod checkpoint;
mod drive;
mod driver;
mod metric;
mod observer;
mod options;
mod outcome;
mod record;
mod repair;
mod stop;

pub use budget::Budget;
#[doc(hidden)]
pub use checkpoint::output_file;
pub use driver::{minimize, minimize_with, minimize_zeroth_order};
pub use metric::{Metric, MetricValue};
pub use observer::{Diagnostics, Observer, Progress};
pub use options::{Checkpoint, Options};
pub use outcome::{Evidence, Limit, Outcome, StopReason, Target};
pub use record::{Record, Row};
pub use stop::StoppingRule;

pub use crate::eval::{ConstraintValue, MAX_LISTED_CONSTRAINTS, Point, measure};
