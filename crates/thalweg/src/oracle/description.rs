//! Description of a problem apart from its functions: sizes, names, domain, sample streams, weak-convexity constants. Values and
//! subgradients are in the sibling modules.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{NoStructure, Structure};
use crate::sets::{Set, WholeSpace};

/// Weak-convexity constant and its source: `f(y) >= f(x) + <s, y - x> - (value / 2) ||y - x||^2`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Modulus {
    /// The constant; 0 for a convex function.
    pub value: f64,
    /// Whether it is proved, claimed or estimated.
    pub source: Source,
}

impl Modulus {
    /// Returns the constant, or `None` if it is only estimated.
    pub fn known(self) -> Option<f64> {
        (self.source != Source::Estimated).then_some(self.value)
    }
}

/// Source of a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// It follows from the formula of the function.
    Proved,
    /// The user claims it.
    Claimed,
    /// The value, usually 0, is an initial guess that is raised where pairs of visited points contradict it. Conclusions from it
    /// are not proofs. Solvers that cannot estimate treat the constant as unknown.
    Estimated,
}

/// Bounds on the rounding errors of a function at a point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rounding {
    /// Bound on the error of the value.
    pub value: f64,
    /// Bound on the norm of the error of the subgradient.
    pub slope: f64,
}

/// Description of a problem `min f(x)` over a domain subject to `g_j(x) <= 0`. Only the two sizes are required.
pub trait Description: Send + Sync {
    /// Returns the number of variables.
    fn dim(&self) -> usize;
    /// Returns the number of constraints `g_j(x) <= 0`.
    fn num_constraints(&self) -> usize;
    /// Returns the display name of constraint `j`.
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Owned(format!("constraint {}", j + 1))
    }
    /// Returns the factor of the feasibility tolerance for constraint `j`: `max(1, |bound|)`, with another unit in place of 1 if the
    /// constraint [has one](super::Structure::units).
    fn constraint_scale(&self, _j: usize) -> f64 {
        1.0
    }
    /// Returns whether the functions and the variables are of order 1, or of order 1 in [known units](super::Structure::units), so that
    /// absolute tolerances make sense. If not, tolerances are relative to units that are measured: see [`constraint_units`](crate::eval::constraint_units).
    fn in_natural_units(&self) -> bool {
        true
    }
    /// Returns the simple set that `x` must stay in.
    fn domain(&self) -> &dyn Set {
        &WholeSpace
    }
    /// Returns the population sizes of the sample streams; empty for a deterministic problem.
    fn streams(&self) -> &[usize] {
        &[]
    }
    /// Returns whether the objective depends on samples of `stream`.
    fn objective_uses(&self, _stream: usize) -> bool {
        true
    }
    /// Returns whether constraint `j` depends on samples of `stream`.
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        true
    }
    /// Returns the weak-convexity constant of the objective, or `None` if it has none or none is known.
    fn objective_modulus(&self) -> Option<Modulus> {
        None
    }
    /// Returns the weak-convexity constant of constraint `j`.
    fn constraint_modulus(&self, _j: usize) -> Option<Modulus> {
        None
    }
    /// Returns bounds on the rounding errors of the objective and of each constraint at `x`, where `values` are their values, beyond the
    /// few roundings of every function. Empty by default.
    fn rounding(&self, _x: &[f64], _values: &[f64]) -> Vec<Rounding> {
        vec![]
    }
    /// Returns a string that identifies the problem. A checkpoint written for a different problem is rejected.
    fn fingerprint(&self) -> String {
        format!("{} variables, {} constraints, domain {}", self.dim(), self.num_constraints(), self.domain().describe())
    }
    /// Returns the structure that solvers can exploit; none by default.
    fn structure(&self) -> &dyn Structure {
        &NoStructure
    }
}
