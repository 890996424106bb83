//! Counted and checked views of the structure of a problem: its inf-projection form and its sample losses. Samples read through
//! them enter the counts of the run; the evaluator itself is in the parent module.

use std::cell::Cell;

use super::Tally;
use super::counts::Counts;
use crate::bilevel::{Bilevel, Pair};
use crate::error::check_finite;
use crate::math::lazy::{DataRow, Unit};
use crate::math::{Matrix, vec};
use crate::oracle::{Case, InfProjection, InfProjectionRows, LossRows, Pick, Power, SampleLosses, ScoredRows, Scratch};
use crate::sets::Set;
use crate::{Error, Result};

/// Number of samples ahead of the current one for which the position of the row is prefetched into the cache. The row itself is
/// prefetched one sample ahead.
pub(crate) const AHEAD: usize = 2;

/// Inf-projection problem whose profiled scalar is fixed, see [`InfProjection::with_profiled_scalar`].
pub struct FixedScalarProblem(Box<dyn InfProjection>);

impl std::fmt::Debug for FixedScalarProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// View of a bilevel problem. Gradients of f count as subgradients of the objective, those of g as inner iterations.
pub struct BilevelView<'a> {
    problem: &'a dyn Bilevel,
    counts: &'a mut Counts,
}

impl<'a> BilevelView<'a> {
    pub(super) fn new(problem: &'a dyn Bilevel, counts: &'a mut Counts) -> Self {
        BilevelView { problem, counts }
    }

    /// Returns the problem.
    pub fn problem(&self) -> &'a dyn Bilevel {
        self.problem
    }

    /// Computes the requested parts of the gradient of f.
    pub fn outer_grad(&mut self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        self.counts.objective_subgradients.add(1, 1);
        let f = self.problem.outer_grad(at, dx, dy, scratch)?;
        check_finite("the outer objective", f)?;
        Ok(f)
    }

    /// Computes the requested parts of the gradient of g.
    pub fn inner_grad(&mut self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        self.counts.inner += 1;
        let g = self.problem.inner_grad(at, dx, dy, scratch)?;
        check_finite("the inner objective", g)?;
        Ok(g)
    }

    /// Counts projections.
    pub fn count_projections(&mut self, projections: u64) {
        self.counts.projections += projections;
    }
}

/// View of the inf-projection form of a problem. Samples are counted as they are read.
pub struct InfProjectionView<'a> {
    problem: &'a dyn InfProjection,
    counts: &'a mut Counts,
}

impl<'a> InfProjectionView<'a> {
    pub(super) fn new(problem: &'a dyn InfProjection, counts: &'a mut Counts) -> Self {
        InfProjectionView { problem, counts }
    }

    /// Replaces this problem by the one with a fixed profiled scalar, if given.
    pub fn or_held(self, held: Option<&'a FixedScalarProblem>) -> Self {
        match held {
            Some(FixedScalarProblem(problem)) => InfProjectionView { problem: &**problem, counts: self.counts },
            None => self,
        }
    }

    /// Returns the number of variables x.
    pub fn dim(&self) -> usize {
        self.problem.dim()
    }

    /// Returns the number of variables y.
    pub fn coupled(&self) -> usize {
        self.problem.coupled()
    }

    /// Returns which of the two cases applies.
    pub fn case(&self) -> Case {
        self.problem.case()
    }

    /// Returns h.
    pub fn power(&self) -> Power {
        *self.problem.power()
    }

    /// Returns the set that x stays in.
    pub fn domain(&self) -> &'a dyn Set {
        self.problem.domain()
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> usize {
        self.problem.samples()
    }

    /// Sets the starting point of y.
    pub fn coupled_start(&self, y: &mut [f64]) {
        self.problem.coupled_start(y);
    }

    /// Returns the data rows, if the problem depends on scores of rows.
    pub fn features(&self) -> Option<&'a Matrix> {
        self.problem.rows().map(|rows| rows.features())
    }

    /// Returns the problem with its profiled scalar fixed at `value`, if it has one.
    pub fn hold(&self, value: f64) -> Option<FixedScalarProblem> {
        self.problem.with_profiled_scalar(value).map(FixedScalarProblem)
    }

    /// Returns the best value of the profiled scalar at `x`, see [`InfProjection::profiled_scalar`]. Counts as values.
    pub fn profiled_scalar(&mut self, x: &[f64], samples: Pick) -> Result<Option<f64>> {
        self.counts.objective_values.add(1, samples.count(self.problem.samples()) as u64);
        self.problem.profiled_scalar(x, samples)
    }

    /// Starts one stochastic subgradient: samples read through the returned reader count as subgradients of one call.
    pub fn subgradient(&mut self) -> InfProjectionReading<'_> {
        InfProjectionReading::new(self.problem, &mut self.counts.objective_subgradients)
    }

    /// Starts one stochastic value: samples read through the returned reader count as values of one call.
    pub fn value(&mut self) -> InfProjectionReading<'_> {
        InfProjectionReading::new(self.problem, &mut self.counts.objective_values)
    }
}

/// Reader for one stochastic value or subgradient of an inf-projection problem.
pub struct InfProjectionReading<'a> {
    problem: &'a dyn InfProjection,
    tally: &'a mut Tally,
}

impl<'a> InfProjectionReading<'a> {
    fn new(problem: &'a dyn InfProjection, tally: &'a mut Tally) -> Self {
        tally.add(1, 0);
        InfProjectionReading { problem, tally }
    }

    fn count(&mut self, samples: Pick) {
        self.tally.samples += samples.count(self.problem.samples()) as u64;
    }

    /// Sets `grad` to a subgradient of g at `x` on the samples.
    pub fn convex(&mut self, x: &[f64], samples: Pick, grad: &mut [f64]) -> Result<()> {
        self.count(samples);
        check_finite("g", self.problem.convex(x, samples, grad)?)
    }

    /// Computes `grad += factor * J(x)^T y` on the samples, where J is the Jacobian of l.
    pub fn add_mapping_pull(&mut self, x: &[f64], samples: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> Result<()> {
        self.count(samples);
        self.problem.add_mapping_pull(x, samples, y, factor, grad)
    }

    /// Sets `mapping` to l(x) on the samples.
    pub fn mapping(&mut self, x: &[f64], samples: Pick, mapping: &mut [f64]) -> Result<()> {
        self.count(samples);
        self.problem.mapping(x, samples, mapping)?;
        check_mapping(mapping)
    }

    /// Sets `grad` to a subgradient of `g - <y, l>` at `x`, and `mapping` to l(x), on the same samples, which count once.
    pub fn joint(&mut self, x: &[f64], samples: Pick, y: &[f64], mapping: &mut [f64], grad: &mut [f64]) -> Result<()> {
        self.count(samples);
        check_finite("g", self.problem.convex(x, samples, grad)?)?;
        self.problem.mapping(x, samples, mapping)?;
        self.problem.add_mapping_pull(x, samples, y, -1.0, grad)?;
        check_mapping(mapping)
    }

    /// Returns a reader of single rows.
    pub(crate) fn rows(&mut self) -> Result<RowReading<'_>> {
        let rows = self.problem.rows().ok_or_else(no_rows)?;
        Ok(RowReading { rows, samples: self.problem.samples(), tally: self.tally })
    }
}

/// Reader of the rows of an inf-projection problem, for one stochastic value or subgradient.
pub(crate) struct RowReading<'a> {
    rows: &'a dyn InfProjectionRows,
    samples: usize,
    tally: &'a mut Tally,
}

impl<'a> RowReading<'a> {
    /// Returns the coefficient of the squared norm in g.
    pub(crate) fn ridge(&self) -> f64 {
        self.rows.ridge()
    }

    /// Returns the unit vector of the intercept, if there is a penalty that excludes it.
    pub(crate) fn unpenalised(&self) -> Option<Unit> {
        (self.rows.intercept() && self.rows.ridge() != 0.0).then(|| Unit(self.rows.features().cols()))
    }

    /// Returns the row of a sample.
    pub(crate) fn row(&self, sample: usize) -> DataRow<'a> {
        row(self.rows, sample)
    }

    /// Visits the samples in order. Rows are prefetched into the cache while earlier samples are processed, including rows of
    /// later draws: `ahead(k)` is the k-th sample after these, if known.
    pub(crate) fn each(
        &mut self,
        samples: Pick,
        ahead: impl Fn(usize) -> Option<u32>,
        mut visit: impl FnMut(RowSample<'_>) -> Result<()>,
    ) -> Result<()> {
        let (rows, read) = (self.rows, Cell::new(0));
        let mut visit = |index: usize| visit(RowSample { rows, index, read: &read });
        let visited = match samples {
            // The processor prefetches consecutive rows by itself.
            Pick::All => (0..self.samples).try_for_each(&mut visit),
            Pick::These(ids) => {
                let sample = |k: usize| ids.get(k).copied().or_else(|| ahead(k - ids.len())).map(|i| i as usize);
                ids.iter().enumerate().try_for_each(|(k, &i)| {
                    if let Some(i) = sample(k + AHEAD) {
                        rows.features().fetch_place(rows.row(i));
                    }
                    if let Some(i) = sample(k + 1) {
                        rows.features().fetch_row(rows.row(i));
                    }
                    visit(i as usize)
                })
            }
        };
        self.tally.samples += read.get();
        visited
    }
}

/// One sample of an inf-projection problem. Every evaluation counts as one sample read.
#[derive(Clone, Copy)]
pub(crate) struct RowSample<'a> {
    rows: &'a dyn InfProjectionRows,
    /// Index of the sample.
    pub(crate) index: usize,
    read: &'a Cell<u64>,
}

impl<'a> RowSample<'a> {
    /// Returns the row of the sample.
    pub(crate) fn row(&self) -> DataRow<'a> {
        row(self.rows, self.index)
    }

    /// Returns the index of the entry of l and y that the sample belongs to.
    pub(crate) fn coordinate(&self) -> usize {
        self.rows.coordinate(self.index)
    }

    /// Returns the score at a dense point.
    pub(crate) fn score(&self, x: &[f64]) -> f64 {
        let offset = if self.rows.intercept() { x[x.len() - 1] } else { 0.0 };
        self.rows.features().row_dot(self.rows.row(self.index), x) + offset
    }

    fn count(&self) {
        self.read.set(self.read.get() + 1);
    }

    /// Returns the slope of g_i at a score.
    pub(crate) fn convex_slope(&self, score: f64) -> Result<f64> {
        self.count();
        let (value, slope) = self.rows.convex_of(self.index, score);
        check_finite("g", value)?;
        check_finite("the slope of g", slope)?;
        Ok(slope)
    }

    /// Returns l_i and its slope at a score.
    pub(crate) fn mapping(&self, score: f64) -> (f64, f64) {
        self.count();
        self.rows.mapping_of(self.index, score)
    }

    /// Returns the slope of g_i, and l_i with its slope, at a score. Counts once.
    pub(crate) fn joint(&self, score: f64) -> Result<(f64, (f64, f64))> {
        Ok((self.convex_slope(score)?, self.rows.mapping_of(self.index, score)))
    }
}

/// View of the sample losses of a problem. Samples are counted as they are read.
pub struct SampleLossesView<'a> {
    losses: &'a dyn SampleLosses,
    counts: &'a mut Counts,
}

impl<'a> SampleLossesView<'a> {
    pub(super) fn new(losses: &'a dyn SampleLosses, counts: &'a mut Counts) -> Self {
        SampleLossesView { losses, counts }
    }

    /// Returns the number of variables.
    pub fn dim(&self) -> usize {
        self.losses.dim()
    }

    /// Returns the set that x stays in.
    pub fn domain(&self) -> &'a dyn Set {
        self.losses.domain()
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> usize {
        self.losses.samples()
    }

    /// Returns the data rows, if the losses are functions of scores of rows.
    pub fn features(&self) -> Option<&'a Matrix> {
        self.losses.rows().map(|rows| rows.features())
    }

    /// Starts one stochastic subgradient: samples read through the returned reader count as subgradients of one call.
    pub fn subgradient(&mut self) -> LossReading<'_> {
        let tally = &mut self.counts.objective_subgradients;
        tally.add(1, 0);
        LossReading { losses: self.losses, tally }
    }
}

/// Reader for one stochastic subgradient of sample losses.
pub struct LossReading<'a> {
    losses: &'a dyn SampleLosses,
    tally: &'a mut Tally,
}

impl<'a> LossReading<'a> {
    /// Returns l_i(x) of a sample and computes `grad += factor * s` with a subgradient s of it.
    pub fn add_loss(&mut self, x: &[f64], sample: usize, factor: f64, grad: &mut [f64]) -> Result<f64> {
        self.tally.samples += 1;
        let value = self.losses.add_loss(x, sample, factor, grad)?;
        check_finite("the loss of a sample", value)?;
        Ok(value)
    }

    /// Computes `grad += s` with a subgradient s of the part common to all samples.
    pub fn add_common(&self, x: &[f64], grad: &mut [f64]) {
        self.losses.add_common(x, grad);
    }

    /// Returns a reader of single rows.
    pub(crate) fn rows(&mut self) -> Result<LossRowReading<'_>> {
        Ok(LossRowReading { rows: self.losses.rows().ok_or_else(no_rows)?, tally: self.tally })
    }
}

/// Reader of the rows of sample losses, for one stochastic subgradient.
pub(crate) struct LossRowReading<'a> {
    rows: &'a dyn LossRows,
    tally: &'a mut Tally,
}

impl<'a> LossRowReading<'a> {
    /// Returns the coefficient of the squared norm.
    pub(crate) fn ridge(&self) -> f64 {
        self.rows.ridge()
    }

    /// Returns the row of a sample.
    pub(crate) fn row(&self, sample: usize) -> DataRow<'a> {
        row(self.rows, sample)
    }

    /// Returns l_i and its slope at a score.
    pub(crate) fn loss(&mut self, sample: usize, score: f64) -> Result<(f64, f64)> {
        self.tally.samples += 1;
        let (value, slope) = self.rows.loss_of(sample, score);
        check_finite("the loss of a sample", value)?;
        check_finite("the slope of the loss of a sample", slope)?;
        Ok((value, slope))
    }
}

fn row<R: ScoredRows + ?Sized>(rows: &R, sample: usize) -> DataRow<'_> {
    DataRow { features: rows.features(), row: rows.row(sample), intercept: rows.intercept() }
}

fn check_mapping(mapping: &[f64]) -> Result<()> {
    match vec::first_not_finite(mapping) {
        None => Ok(()),
        Some((j, value)) => Err(Error::NotFinite { what: format!("entry {} of l", j + 1), value }),
    }
}

fn no_rows() -> Error {
    Error::Oracle("the problem is no longer one of scores of rows".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Evaluator, ValueEval};
    use crate::oracle::Eliminated;

    /// Problem with g = x^2 / 2 and l = x over five equal samples; l is NaN beyond 1.
    struct Example(Power);

    impl InfProjection for Example {
        fn dim(&self) -> usize {
            1
        }
        fn coupled(&self) -> usize {
            1
        }
        fn case(&self) -> Case {
            Case::DifferenceOfConvex
        }
        fn power(&self) -> &Power {
            &self.0
        }
        fn samples(&self) -> usize {
            5
        }
        fn convex(&self, x: &[f64], _: Pick, grad: &mut [f64]) -> Result<f64> {
            grad[0] = x[0];
            Ok(0.5 * x[0] * x[0])
        }
        fn mapping(&self, x: &[f64], _: Pick, out: &mut [f64]) -> Result<()> {
            out[0] = if x[0] > 1.0 { f64::NAN } else { x[0] };
            Ok(())
        }
        fn add_mapping_pull(&self, _: &[f64], _: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> Result<()> {
            grad[0] += factor * y[0];
            Ok(())
        }
    }

    #[test]
    fn what_is_read_through_a_view_is_counted_and_checked() {
        let problem = Eliminated::new(Example(Power::square(1.0).unwrap()));
        let mut ev = Evaluator::new(&problem, 0, 0.0);
        let (some, mut grad, mut l) = ([1, 4], [0.0], [0.0]);
        let counts = |ev: &Evaluator<_>| {
            let (values, slopes) = (ev.counts().objective_values, ev.counts().objective_subgradients);
            (values.calls, values.samples, slopes.calls, slopes.samples)
        };
        let mut view = ev.inf_projection().unwrap();
        view.subgradient().joint(&[0.5], Pick::These(&some), &[0.25], &mut l, &mut grad).unwrap();
        assert_eq!((grad, l), ([0.25], [0.5]));
        assert_eq!(counts(&ev), (0, 0, 1, 2));

        let mut view = ev.inf_projection().unwrap();
        let mut gradient = view.subgradient();
        gradient.convex(&[0.5], Pick::These(&some), &mut grad).unwrap();
        gradient.add_mapping_pull(&[0.5], Pick::All, &[1.0], -1.0, &mut grad).unwrap();
        assert_eq!((grad, counts(&ev)), ([-0.5], (0, 0, 2, 9)));

        let refused = ev.inf_projection().unwrap().value().mapping(&[2.0], Pick::All, &mut l).unwrap_err().to_string();
        assert!(refused.contains("entry 1 of l"), "{refused}");
        assert_eq!(counts(&ev), (1, 5, 2, 9));
    }
}
