//! The shares of the budget that parts of training get, and how one run is shown as a part of the whole.

use crate::run::{Budget, Diagnostics, Observer, Progress, Row};

/// Shares of the budget for each pilot run, the first round, each round of tightening, and the last round. A run never gets
/// more than is left.
pub(super) const PILOT: f64 = 0.02;
pub(super) const FIRST: f64 = 0.3;
pub(super) const TIGHTEN: f64 = 0.04;
pub(super) const LAST: f64 = 0.28;

/// Shows one run as part of the whole: work since the beginning, constraints against the user's bounds.
pub(super) struct Whole<'a> {
    pub(super) budget: &'a Budget,
    /// By how much each bound is above the user's now.
    pub(super) moved: Vec<f64>,
    /// What each constraint may exceed the user's bound by.
    pub(super) tolerances: Vec<f64>,
    /// Work before this run.
    pub(super) before: Progress,
    /// Samples read before it.
    pub(super) samples: u64,
    pub(super) observer: &'a mut (dyn Observer + Send),
}

impl Whole<'_> {
    /// The row against the user's bounds, with the work since the beginning.
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
        // Samples go along with passes.
        let shares = [
            self.budget.iterations.map(|n| iterations as f64 / n as f64),
            self.budget.passes.map(|n| passes.total() / n),
            self.budget.seconds.map(|n| seconds / n),
        ];
        let share = shares.into_iter().flatten().fold(0.0, f64::max).min(1.0);
        self.observer.progressed(&Progress { iterations, passes, seconds, share });
    }
}
