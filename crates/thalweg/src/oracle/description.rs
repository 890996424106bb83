//! What a problem is, apart from its functions: sizes, names, domain, sample streams, weak-convexity constants. Values and
//! subgradients are in the modules beside this one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{NoStructure, Structure};
use crate::sets::{Set, WholeSpace};

/// A weak-convexity constant and where it comes from: `f(y) >= f(x) + <s, y - x> - (value / 2) ||y - x||^2`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Modulus {
    /// The constant; 0 for a convex function.
    pub value: f64,
    /// Whether it is proved, claimed or estimated.
    pub source: Source,
}

impl Modulus {
    /// The constant, unless it is only estimated.
    pub fn known(self) -> Option<f64> {
        (self.source != Source::Estimated).then_some(self.value)
    }
}

/// Where a constant comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// It follows from the formula of the term.
    Proved,
    /// The user says so.
    Claimed,
    /// The value, usually 0, is a first guess that is raised where pairs of visited points contradict it. Conclusions from it
    /// are not proofs. Methods that cannot estimate treat the constant as unknown.
    Estimated,
}

/// Description of a problem `min f(x)` over a domain subject to `g_j(x) <= 0`. Only the two sizes are required.
pub trait Description: Send + Sync {
    /// Number of variables.
    fn dim(&self) -> usize;
    /// Number of constraints `g_j(x) <= 0`.
    fn num_constraints(&self) -> usize;
    /// Name of constraint `j`, for people.
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Owned(format!("constraint {}", j + 1))
    }
    /// Factor of the feasibility tolerance for constraint `j`: `max(1, |bound|)`.
    fn constraint_scale(&self, _j: usize) -> f64 {
        1.0
    }
    /// The simple set that `x` must stay in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// Population sizes of the sample streams; empty for a deterministic problem.
    fn streams(&self) -> &[usize] {
        &[]
    }
    /// Whether the objective is a function of samples of `stream`.
    fn objective_uses(&self, _stream: usize) -> bool {
        true
    }
    /// Whether constraint `j` is a function of samples of `stream`.
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        true
    }
    /// Weak-convexity constant of the objective; `None` where there is none or it is not known.
    fn objective_modulus(&self) -> Option<Modulus> {
        None
    }
    /// Weak-convexity constant of constraint `j`.
    fn constraint_modulus(&self, _j: usize) -> Option<Modulus> {
        None
    }
    /// Identifies the problem: a checkpoint of one problem is refused by another.
    fn fingerprint(&self) -> String {
        format!("{} variables, {} constraints, domain {}", self.dim(), self.num_constraints(), self.domain().describe())
    }
    /// What more is known about the form of the problem; nothing by default.
    fn structure(&self) -> &dyn Structure {
        &NoStructure
    }
}
