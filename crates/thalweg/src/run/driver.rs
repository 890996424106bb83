//! Entry points of a run, and the adaptor that hides from the loop whether a solver uses subgradients or values alone.

use super::{Observer, Options, Outcome};
use crate::assess;
use crate::certify::{self, ZerothOrderReport};
use crate::eval::{Eval, Evaluator, ValueEval};
use crate::math::reduce::with_threads;
use crate::oracle::{Subgradients, Values};
use crate::solvers::{AnySolver, FirstOrder, Method, PenaltyWeights, State, Step, ZerothOrder};
use crate::{Error, Result};

/// Runs a first-order solver from `start`.
///
/// # Errors
///
/// Returns an error if the run cannot begin. Anything that happens after the first step is reported in the [`Outcome`], with the
/// last good point and the reason why the run stopped.
pub fn minimize(
    problem: &dyn Subgradients,
    solver: &mut FirstOrder,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    options.validate()?;
    with_threads(options.threads, || super::drive::drive(problem, &mut First(solver), start, options, observer))?
}

/// Runs a zeroth-order solver, which evaluates values but no subgradients. Otherwise as [`minimize`].
pub fn minimize_zeroth_order(
    problem: &dyn Values,
    solver: &mut ZerothOrder,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    options.validate()?;
    with_threads(options.threads, || super::drive::drive(problem, &mut Zeroth(solver), start, options, observer))?
}

/// Runs a first-order or zeroth-order solver on a problem with subgradients. A zeroth-order solver has access to the values
/// only. Otherwise as [`minimize`].
pub fn minimize_with(
    problem: &dyn Subgradients,
    solver: &mut AnySolver,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    match solver {
        AnySolver::First(solver) => minimize(problem, &mut **solver, start, options, observer),
        AnySolver::Zeroth(solver) => minimize_zeroth_order(problem, &mut **solver, start, options, observer),
    }
}

/// A solver together with the kind of oracle `P` that it runs on.
pub(super) trait Driver<P: ?Sized>: Send {
    fn method(&self) -> &dyn Method;
    fn start(&mut self, ev: &mut Evaluator<'_, P>, x: &[f64]) -> Result<()>;
    fn restore(&mut self, state: &State) -> Result<()>;
    fn step(&mut self, ev: &mut Evaluator<'_, P>) -> Result<Step>;
    /// Units of the constraints at the returned point, if they are measured.
    fn constraint_units(&self, problem: &P, x: &[f64], length: f64) -> Result<Option<Vec<f64>>>;
    /// Measures the near-stationarity of `x`.
    fn certify(&self, problem: &P, x: &[f64], measures: &assess::Measures) -> Result<assess::MeasuredStationarity>;
    /// Stationarity gap of an inf-projection problem at the returned point.
    fn slope(&self, problem: &P, x: &[f64]) -> Result<Option<f64>>;
    /// Estimates the gradient at the returned point from values, after a zeroth-order run.
    fn zeroth_order_check(
        &self,
        problem: &P,
        x: &[f64],
        weights: Option<PenaltyWeights>,
        options: &Options,
    ) -> Result<Option<ZerothOrderReport>>;
}

struct First<'a, 's>(&'a mut FirstOrder<'s>);

impl<'p> Driver<dyn Subgradients + 'p> for First<'_, '_> {
    fn method(&self) -> &dyn Method {
        self.0
    }

    fn start(&mut self, ev: &mut Evaluator<'_, dyn Subgradients + 'p>, x: &[f64]) -> Result<()> {
        self.0.start(ev as &mut dyn Eval, x)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.0.restore(state)
    }

    fn step(&mut self, ev: &mut Evaluator<'_, dyn Subgradients + 'p>) -> Result<Step> {
        self.0.step(ev as &mut dyn Eval)
    }

    fn constraint_units(&self, problem: &(dyn Subgradients + 'p), x: &[f64], length: f64) -> Result<Option<Vec<f64>>> {
        crate::eval::constraint_units(problem, x, length)
    }

    fn certify(
        &self,
        problem: &(dyn Subgradients + 'p),
        x: &[f64],
        measures: &assess::Measures,
    ) -> Result<assess::MeasuredStationarity> {
        measures.take(problem, x)
    }

    fn slope(&self, problem: &(dyn Subgradients + 'p), x: &[f64]) -> Result<Option<f64>> {
        problem.structure().inf_projection().map(|_| certify::slope(problem, x)).transpose()
    }

    fn zeroth_order_check(
        &self,
        _: &(dyn Subgradients + 'p),
        _: &[f64],
        _: Option<PenaltyWeights>,
        _: &Options,
    ) -> Result<Option<ZerothOrderReport>> {
        Ok(None)
    }
}

struct Zeroth<'a, 's>(&'a mut ZerothOrder<'s>);

impl<'p> Driver<dyn Values + 'p> for Zeroth<'_, '_> {
    fn method(&self) -> &dyn Method {
        self.0
    }

    fn start(&mut self, ev: &mut Evaluator<'_, dyn Values + 'p>, x: &[f64]) -> Result<()> {
        self.0.start(ev as &mut dyn ValueEval, x)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.0.restore(state)
    }

    fn step(&mut self, ev: &mut Evaluator<'_, dyn Values + 'p>) -> Result<Step> {
        self.0.step(ev as &mut dyn ValueEval)
    }

    fn constraint_units(&self, _: &(dyn Values + 'p), _: &[f64], _: f64) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn certify(&self, _: &(dyn Values + 'p), _: &[f64], _: &assess::Measures) -> Result<assess::MeasuredStationarity> {
        Err(Error::Problem("near-stationarity needs subgradients, but this problem provides values only".into()))
    }

    fn slope(&self, _: &(dyn Values + 'p), _: &[f64]) -> Result<Option<f64>> {
        Ok(None)
    }

    fn zeroth_order_check(
        &self,
        problem: &(dyn Values + 'p),
        x: &[f64],
        weights: Option<PenaltyWeights>,
        options: &Options,
    ) -> Result<Option<ZerothOrderReport>> {
        options.zeroth_order_check.map(|check| certify::check_zeroth_order(problem, x, weights, &check)).transpose()
    }
}
