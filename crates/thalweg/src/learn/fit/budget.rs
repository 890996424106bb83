//! Shares of the budget for the stages of training, and the observer that presents one run as part of the whole.

use crate::run::{Budget, Diagnostics, Observer, Progress, Row};

/// Shares of the budget for each pilot run, the first round, each tightening round, and the last round. A run never gets more
/// than is left.
pub(super) const PILOT: f64 = 0.02;
pub(super) const FIRST: f64 = 0.3;
pub(super) const TIGHTEN: f64 = 0.04;
pub(super) const LAST: f64 = 0.28;

/// Presents one run as part of the whole training: work since the start, constraints relative to the requested bounds.
pub(super) struct Whole<'a> {
    pub(super) budget: &'a Budget,
    /// Difference between each current bound and the requested one.
    pub(super) moved: Vec<f64>,
    /// Tolerance of each constraint relative to the requested bound.
    pub(super) tolerances: Vec<f64>,
    /// Work before this run.
    pub(super) before: Progress,
    /// Samples read before this run.
    pub(super) samples: u64,
    pub(super) observer: &'a mut (dyn Observer + Send),
}

impl Whole<'_> {
    /// Returns the row relative to the requested bounds, with the work since the start.
    pub(super) fn row(&self, mut row: Row) -> Row {
        row.constraints.iter_mut().zip(&self.moved).for_each(|(g, moved)| *g += moved);
        row.violation = row.constraints.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.violated =
            row.constraints.iter().zip(&self.tolerances).filter(|(g, tolerance)| **g > **tolerance || g.is_nan()).count();
        row.iteration += self.before.iterations;
        row.passes_f += self.before.passes.objective;
        row.passes_g += self.before.passes.constraints;
        row.samples += self.samples;
        row.seconds += self.before.seconds;
        row
    }
}

impl Observer for Whole<'_> {
    fn recorded(&mut self, row: &Row, x: &[f64], known: &Diagnostics) {
        let row = self.row(row.clone());
        self.observer.recorded(&row, x, known);
    }

    fn progressed(&mut self, progress: &Progress) {
        let iterations = self.before.iterations + progress.iterations;
        let seconds = self.before.seconds + progress.seconds;
        let mut passes = self.before.passes;
        passes.objective += progress.passes.objective;
        passes.constraints += progress.passes.constraints;
        // Samples have the same shares as passes.
        let shares = [
            self.budget.iterations.map(|n| iterations as f64 / n as f64),
            self.budget.passes.map(|n| passes.total() / n),
            self.budget.seconds.map(|n| seconds / n),
        ];
        let share = shares.into_iter().flatten().fold(0.0, f64::max).min(1.0);
        self.observer.progressed(&Progress { iterations, passes, seconds, share });
    }
}
