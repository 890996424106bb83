//! Observers of a run: callbacks for recorded iterates and for progress.

use super::Row;
use crate::eval::Passes;

/// Receives recorded iterates and progress during a run. The time that an observer takes is not counted as time of the run.
pub trait Observer {
    /// Called for every recorded iterate `x`.
    fn recorded(&mut self, _row: &Row, _x: &[f64], _diagnostics: &Diagnostics) {}
    /// Called after every step, so it should return quickly.
    fn progressed(&mut self, _progress: &Progress) {}
}

/// Ignores everything.
impl Observer for () {}

/// Extra diagnostics passed to observers with each recorded iterate. Not stored in the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Diagnostics<'a> {
    /// Multipliers of the constraints, one for each, for solvers that have them. They belong to the point that the solver would
    /// return now.
    pub multipliers: Option<&'a [f64]>,
    /// Upper bound on the distance to the proximal point of the iterate: the measured bound if bounds are measured, otherwise the
    /// solver's own. Valid if the weak-convexity constants are.
    pub upper: Option<f64>,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Steps so far.
    pub iterations: u64,
    /// Passes over the data so far.
    pub passes: Passes,
    /// Time so far in seconds, without the time for measurements.
    pub seconds: f64,
    /// Used fraction of the budget, between 0 and 1.
    pub share: f64,
}
