//! The methods, one file per family, and the seam between a method and the run loop. Loops, clocks, budgets and files are
//! in [`crate::run`].

pub mod accszofw;
pub mod acczomda;
pub mod adaprox;
pub mod bmd;
pub mod bundle;
pub mod complexity;
pub mod conex;
pub mod dszog;
mod dual;
mod inf_projection;
pub mod ipp;
pub mod lbfgs;
mod minmax;
pub mod mspg;
pub mod pd;
pub mod pgsmd;
mod projected_zeroth_order;
mod proximal_point;
pub mod registry;
pub mod spg;
pub mod ssg;
pub mod st_spg;
pub mod threes_econ;
pub mod zopsgd;
pub mod zoscgd;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use crate::certify::PenaltyWeights;
pub use crate::eval::{Eval, ValueEval};
pub use crate::plan::schedule::Schedule;
pub use accszofw::Accszofw;
pub use acczomda::Acczomda;
pub use adaprox::Adaprox;
pub use bmd::Bmd;
pub use bundle::Bundle;
pub use conex::Conex;
pub use dszog::Dszog;
pub use ipp::Ipp;
pub use lbfgs::Lbfgs;
pub use mspg::Mspg;
pub use pd::Pd;
pub use pgsmd::Pgsmd;
pub use registry::{Config, Interface, Needs, SolverName};
pub use spg::Spg;
pub use ssg::Ssg;
pub use st_spg::StSpg;
pub use threes_econ::ThreesEcon;
pub use zopsgd::Zopsgd;
pub use zoscgd::Zoscgd;

use crate::math::vec;
use crate::{Error, Note, Result};

/// Kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
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
    /// Kind of the step.
    pub kind: StepKind,
    /// Whether the solver has finished.
    pub finished: bool,
}

/// Where the point comes from that a method returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointOrigin {
    /// By the output rule of the solver.
    #[serde(alias = "as-asked")]
    OutputRule,
    /// No iterate passed the rule's test; this is the one that violates the constraints least.
    LeastInfeasible,
    /// By no rule of the method: it is the iterate that reached the target of the run.
    Target,
    /// It is the projection of the method's point onto the constraints, see [`crate::run::Options::repair`].
    Repaired,
}

/// What a method has proved about its output when it finishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The output is nearly stationary.
    Stationary(Stationary),
    /// Near the output no point violates the constraints less.
    Infeasible(Infeasible),
}

/// A bound on near-stationarity: the proximal point of the output lies within `upper`. Proved where the constants hold; where
/// some are estimated it is no proof, for no finite number of visited points proves a constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stationary {
    /// The bound on the distance.
    pub upper: f64,
    /// Proximal coefficient on the objective beyond `rho_f`.
    pub mu: f64,
    /// Weak-convexity constant of the objective.
    pub rho_f: f64,
    /// Of each constraint; also its proximal coefficient.
    pub rho_g: Vec<f64>,
    /// What the constraints were relaxed by: the violation of the output.
    pub relaxed: f64,
    /// Whether some of the constants are estimated from visited points. Then nothing here is proved.
    #[serde(default)]
    pub estimated: bool,
}

/// A point that is stationary for the largest violation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Infeasible {
    /// The largest constraint there.
    pub violation: f64,
    /// The conflicting constraints, by index from 0.
    pub conflicting: Vec<u32>,
    /// The proximal point of the largest violation lies within this distance.
    pub upper: f64,
    /// The constraints are convex, and no point within 10 (1 + norm) of the output keeps them all.
    pub convex: bool,
}

/// A solver's whole state, as bytes that only the same solver can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State(Vec<u8>);

impl State {
    /// Packs a state.
    pub fn pack<T: Serialize>(state: &T) -> Result<Self> {
        postcard::to_stdvec(state).map(State).map_err(|e| Error::Checkpoint(format!("cannot hold the solver's state: {e}")))
    }

    /// The bytes, for those who keep states elsewhere.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Unpacks it again.
    pub fn unpack<T: DeserializeOwned>(&self) -> Result<T> {
        postcard::from_bytes(&self.0).map_err(|_| Error::Checkpoint("holds the state of another solver".into()))
    }
}

impl From<Vec<u8>> for State {
    fn from(bytes: Vec<u8>) -> Self {
        State(bytes)
    }
}

/// The part of a solver that does not depend on what it may ask for.
pub trait Method: Send {
    /// Its name, as in a spec.
    fn name(&self) -> &'static str;
    /// Raised when the numbers that the method gives for the same settings change; stored runs of another version are not
    /// taken for this one.
    fn version(&self) -> u32 {
        1
    }
    /// The current iterate, for traces.
    fn iterate(&self, out: &mut [f64]);
    /// Whether writing the iterate costs no more than a step does. If not, the run asks for it only where it is measured or
    /// returned; after an error the method gives its last good point.
    fn writes_cheaply(&self) -> bool {
        true
    }
    /// What the method returns if it ends now.
    fn output(&self, out: &mut [f64]) -> PointOrigin;
    /// The multiplier of each constraint that goes with the output, where the method has them.
    fn multipliers(&self) -> Option<&[f64]> {
        None
    }
    /// The distance that the proximal point of the current iterate lies within, while the method has a bound on it. As true as
    /// the weak-convexity constants that it rests on.
    fn stationary_within(&self) -> Option<f64> {
        None
    }
    /// The penalty and the weights of the constraints, for a method that has them.
    fn penalty_weights(&self) -> Option<PenaltyWeights> {
        None
    }
    /// What the method has proved, once it is finished.
    fn verdict(&self) -> Option<&Verdict> {
        None
    }
    /// Returns what a careful reader of the outcome should know.
    fn notes(&self) -> Vec<Note> {
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

/// Refuses a point that is not finite.
fn check_iterate(x: &[f64]) -> Result<()> {
    match vec::first_not_finite(x) {
        None => Ok(()),
        Some((i, value)) => Err(Error::NotFinite { what: format!("entry {} of the iterate", i + 1), value }),
    }
}

/// A solver that uses subgradients.
pub type FirstOrder<'s> = dyn for<'e> Solver<dyn Eval + 'e> + 's;
/// A solver that uses values alone.
pub type ZerothOrder<'s> = dyn for<'e> Solver<dyn ValueEval + 'e> + 's;

/// A solver of either kind.
pub enum AnySolver {
    /// One that uses subgradients.
    First(Box<FirstOrder<'static>>),
    /// One that uses values alone.
    Zeroth(Box<ZerothOrder<'static>>),
}

impl AnySolver {
    /// What does not depend on the kind.
    pub fn method(&self) -> &dyn Method {
        match self {
            AnySolver::First(solver) => &**solver,
            AnySolver::Zeroth(solver) => &**solver,
        }
    }
}
