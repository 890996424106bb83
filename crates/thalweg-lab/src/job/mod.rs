//! A job: one run from its spec to its result. [`pose()`] loads the data and builds the problem, [`equip()`] adds the solver,
//! the start and the options, [`execute()`] runs the solver, and [`finish()`] measures the returned point. The commands
//! `solve`, `tradeoff` and `lab` call them; printing, pages and the store only read [`Finished`].

mod equip;
mod execute;
mod finish;
mod model;
mod pose;

pub use self::equip::{RunSetup, equip};
pub use self::execute::{Job, execute};
pub use self::finish::{Certificates, Finished, finish};
pub(crate) use self::model::{Domain, ModelTerms};
pub use self::pose::{Instance, Problem, pose, pose_loaded};
