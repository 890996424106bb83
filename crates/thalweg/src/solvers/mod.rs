//! Solvers, one file per family, and the interface between a solver and the run loop. Loops, clocks, budgets and files are in
//! [`crate::run`].

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
mod output;
pub mod pd;
pub mod pgsmd;
mod projected_zeroth_order;
mod proximal_point;
pub mod registry;
pub mod sipba;
pub mod spg;
pub mod sqp;
pub mod ssg;
pub mod st_spg;
pub mod threes_econ;
pub mod trust_region;
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
pub use sipba::Sipba;
pub use spg::Spg;
pub use sqp::Sqp;
pub use ssg::Ssg;
pub use st_spg::StSpg;
pub use threes_econ::ThreesEcon;
pub use trust_region::TrustRegion;
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

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Kind of the step.
    pub kind: StepKind,
    /// Whether the solver has finished.
    pub finished: bool,
}

/// Origin of the point that a solver returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointOrigin {
    /// The output rule of the solver.
    #[serde(alias = "as-asked")]
    OutputRule,
    /// No iterate passed the test of the output rule; this is the one with the smallest violation.
    LeastInfeasible,
    /// The iterate that reached the target of the run.
    Target,
    /// The projection of the solver's point onto the constraints, see [`crate::run::Options::repair`].
    Repaired,
}

/// Property of the output that a solver has proved when it finishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The output is near-stationary.
    Stationary(Stationary),
    /// No point near the output has a smaller violation.
    Infeasible(Infeasible),
}

/// Near-stationarity bound: the distance from the output to its proximal point is at most `upper`. Proved if the constants are
/// valid. It is not a proof if some are estimated, because no finite number of visited points proves a constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stationary {
    /// Upper bound on the distance.
    pub upper: f64,
    /// Proximal coefficient on the objective in addition to `rho_f`.
    pub mu: f64,
    /// Weak-convexity constant of the objective.
    pub rho_f: f64,
    /// Weak-convexity constant of each constraint, which is also its proximal coefficient.
    pub rho_g: Vec<f64>,
    /// Relaxation of the constraints: the violation of the output.
    pub relaxed: f64,
    /// Whether some of the constants are estimated from visited points. The bound is then not proved.
    #[serde(default)]
    pub estimated: bool,
}

/// Point that is near-stationary for the largest violation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Infeasible {
    /// Largest constraint value there.
    pub violation: f64,
    /// The conflicting constraints, by index from 0.
    pub conflicting: Vec<u32>,
    /// Upper bound on the distance to the proximal point of the largest violation.
    pub upper: f64,
    /// No point within this distance of the output satisfies all constraints, unless constants are estimated.
    pub radius: f64,
    /// Whether no point of the domain satisfies all constraints.
    pub everywhere: bool,
    /// Whether some of the constants are estimated from visited points. The radius is then not proved.
    pub estimated: bool,
}

/// Complete state of a solver, as bytes that only the same solver can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State(Vec<u8>);

impl State {
    /// Serialises a state.
    pub fn pack<T: Serialize>(state: &T) -> Result<Self> {
        postcard::to_stdvec(state).map(State).map_err(|e| Error::Checkpoint(format!("cannot hold the solver's state: {e}")))
    }

    /// Returns the bytes, for storing states elsewhere.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Deserialises the state.
    pub fn unpack<T: DeserializeOwned>(&self) -> Result<T> {
        postcard::from_bytes(&self.0).map_err(|_| Error::Checkpoint("holds the state of another solver".into()))
    }
}

impl From<Vec<u8>> for State {
    fn from(bytes: Vec<u8>) -> Self {
        State(bytes)
    }
}

/// Part of a solver that does not depend on the evaluator.
pub trait Method: Send {
    /// Returns the name, as in a spec.
    fn name(&self) -> &'static str;
    /// Returns the version, which is increased when the results for the same settings change. Stored runs of a different version
    /// are not reused.
    fn version(&self) -> u32 {
        1
    }
    /// Writes the current iterate, for traces.
    fn iterate(&self, out: &mut [f64]);
    /// Returns whether writing the iterate costs no more than a step. If not, the run writes it only where it is measured or
    /// returned; after an error the solver provides its last valid point.
    fn writes_cheaply(&self) -> bool {
        true
    }
    /// Writes the point that the solver returns if the run ends now.
    fn output(&self, out: &mut [f64]) -> PointOrigin;
    /// Returns the multiplier of each constraint at the output, if the solver computes them.
    fn multipliers(&self) -> Option<&[f64]> {
        None
    }
    /// Returns a bound on the distance from the current iterate to its proximal point, if the solver has one. It is as reliable
    /// as the weak-convexity constants behind it.
    fn stationary_within(&self) -> Option<f64> {
        None
    }
    /// Returns the penalty and the weights of the constraints, if the solver has them.
    fn penalty_weights(&self) -> Option<PenaltyWeights> {
        None
    }
    /// Returns what the solver has proved, once it is finished.
    fn verdict(&self) -> Option<&Verdict> {
        None
    }
    /// Returns the notes on the outcome.
    fn notes(&self) -> Vec<Note> {
        vec![]
    }
    /// Saves the complete state.
    fn save(&self) -> Result<State>;
    /// Restores a saved state.
    fn restore(&mut self, state: &State) -> Result<()>;
}

/// Solver on a view `E` of a problem: `dyn ValueEval` for zeroth-order solvers, `dyn Eval` for first-order ones.
pub trait Solver<E: ?Sized>: Method {
    /// Starts, or restarts, at `x`, a point of the domain. Buffers are reused, so a restart allocates nothing.
    fn start(&mut self, ev: &mut E, x: &[f64]) -> Result<()>;
    /// Performs one small unit of oracle work. After an error the iterate is the one before the step.
    fn step(&mut self, ev: &mut E) -> Result<Step>;
}

/// Returns an error unless the point is finite.
fn check_iterate(x: &[f64]) -> Result<()> {
    match vec::first_not_finite(x) {
        None => Ok(()),
        Some((i, value)) => Err(Error::NotFinite { what: format!("entry {} of the iterate", i + 1), value }),
    }
}

/// Solver that uses subgradients.
pub type FirstOrder<'s> = dyn for<'e> Solver<dyn Eval + 'e> + 's;
/// Solver that uses function values only.
pub type ZerothOrder<'s> = dyn for<'e> Solver<dyn ValueEval + 'e> + 's;

/// Solver of either kind.
pub enum AnySolver {
    /// First-order solver.
    First(Box<FirstOrder<'static>>),
    /// Zeroth-order solver.
    Zeroth(Box<ZerothOrder<'static>>),
}

impl AnySolver {
    /// Returns the part that does not depend on the kind.
    pub fn method(&self) -> &dyn Method {
        match self {
            AnySolver::First(solver) => &**solver,
            AnySolver::Zeroth(solver) => &**solver,
        }
    }
}
