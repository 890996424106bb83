//! The methods, one file per family, and the seam between a method and the run loop. Loops, clocks, budgets and files are
//! in [`crate::run`].

pub mod conex;
pub mod ipp;
pub mod schedule;
pub mod ssg;
pub mod threes_econ;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use crate::eval::{Eval, ValueEval};
pub use conex::Conex;
pub use ipp::Ipp;
pub use schedule::Schedule;
pub use ssg::Ssg;
pub use threes_econ::ThreesEcon;

use crate::{Error, Result};

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A step on the objective.
    Objective,
    /// A step on the constraints.
    Constraint,
    /// A step that is neither, or both.
    #[default]
    Other,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// What was stepped on.
    pub kind: Kind,
    /// The method has nothing more to do.
    pub finished: bool,
}

/// Where the point comes from that a method returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Returned {
    /// By the rule that was asked for.
    AsAsked,
    /// No iterate passed the rule's test; this is the one that violates the constraints least.
    LeastInfeasible,
}

/// A solver's whole state, as bytes that only the same solver can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State(Vec<u8>);

impl State {
    /// Packs a state.
    pub fn pack<T: Serialize>(state: &T) -> Result<Self> {
        postcard::to_stdvec(state).map(State).map_err(|e| Error::Checkpoint(format!("cannot hold the solver's state: {e}")))
    }

    /// Unpacks it again.
    pub fn unpack<T: DeserializeOwned>(&self) -> Result<T> {
        postcard::from_bytes(&self.0).map_err(|_| Error::Checkpoint("holds the state of another solver".into()))
    }
}

/// The part of a solver that does not depend on what it may ask for.
pub trait Method: Send {
    /// Its name, as in a spec.
    fn name(&self) -> &'static str;
    /// The current iterate, for traces.
    fn iterate(&self, out: &mut [f64]);
    /// What the method returns if it ends now.
    fn output(&self, out: &mut [f64]) -> Returned;
    /// The multiplier of each constraint that goes with the output, where the method has them.
    fn multipliers(&self) -> Option<&[f64]> {
        None
    }
    /// What a careful reader of the outcome should know, in sentences.
    fn notes(&self) -> Vec<String> {
        vec![]
    }
    /// Everything a continuation needs.
    fn save(&self) -> Result<State>;
    /// Takes up a saved state.
    fn restore(&mut self, state: &State) -> Result<()>;
}

/// A method on a view `E` of a problem: `dyn ValueEval` for zeroth order, `dyn Eval` for the rest.
pub trait Solver<E: ?Sized>: Method {
    /// Begins, or begins again, at `x`, a point of the domain. Buffers are kept, so a restart allocates nothing.
    fn start(&mut self, ev: &mut E, x: &[f64]) -> Result<()>;
    /// One small unit of oracle work. After an error the iterate is the one before the step.
    fn step(&mut self, ev: &mut E) -> Result<Step>;
}

/// A solver that uses subgradients.
pub type FirstOrder<'s> = dyn for<'e> Solver<dyn Eval + 'e> + 's;
/// A solver that uses values alone.
pub type ZerothOrder<'s> = dyn for<'e> Solver<dyn ValueEval + 'e> + 's;
