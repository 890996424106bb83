//! Measurement of points on all data.

use super::{MAX_LISTED_CONSTRAINTS, Point};
use crate::Result;
use crate::error::check_length;
use crate::eval::{Evaluator, ValueEval};
use crate::oracle::{Draw, Pick, Values};

/// Evaluates the objective and every constraint at `x` on all data.
pub fn measure(problem: &(impl Values + ?Sized), x: &[f64], feasibility: f64) -> Result<Point> {
    check_length("the point", x.len(), problem.dim())?;
    PointEvaluator::new(problem, feasibility, MAX_LISTED_CONSTRAINTS).point(x)
}

/// Evaluates points on all data. It has an evaluator of its own, so that measurements do not count as work of the run.
pub(super) struct PointEvaluator<'p, P: ?Sized> {
    ev: Evaluator<'p, P>,
    full: Draw,
    listed: usize,
}

impl<'p, P: Values + ?Sized> PointEvaluator<'p, P> {
    pub(super) fn new(problem: &'p P, feasibility: f64, listed: usize) -> Self {
        PointEvaluator { ev: Evaluator::new(problem, 0, feasibility), full: Draw::full(), listed }
    }

    pub(super) fn point(&mut self, x: &[f64]) -> Result<Point> {
        // Without this the result could depend on the points that were evaluated before.
        self.ev.forget();
        self.ev.refresh(x)?;
        let objective = self.ev.objective(x, &self.full)?;
        let mut g = vec![0.0; self.ev.num_constraints()];
        self.ev.constraint_values(x, &self.full, Pick::All, &mut g)?;
        Ok(self.assemble(x, objective, &g))
    }

    /// Returns `x` with NaN for every value, for a point that cannot be evaluated.
    pub(super) fn unknown(&self, x: &[f64]) -> Point {
        self.assemble(x, f64::NAN, &vec![f64::NAN; self.ev.num_constraints()])
    }

    fn assemble(&self, x: &[f64], objective: f64, g: &[f64]) -> Point {
        Point::new(x, objective, g, self.ev.problem(), self.ev.feasibility(), self.listed)
    }
}
