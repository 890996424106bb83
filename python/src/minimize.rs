//! Runs on problems in callables, and certificates of their points. It also has the options and results shared by all runs with
//! callables.

use std::sync::Arc;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;
use thalweg::auto::{self, Choice};
use thalweg::certify as certificates;
use thalweg::learn::Learning;
use thalweg::oracle::Subgradients;
use thalweg::run::{self, Budget, Options, Outcome, Record, StopReason, StoppingRule};
use thalweg_lab::proof::Proof;
use thalweg_lab::spec::solver as spec;
use thalweg_lab::verdict::Completion;

use crate::callables::Callables;
use crate::error::{of_lab, of_library};
use crate::values::{python, settings, table};
use crate::watch::{Interrupt, RaisedError, Watcher, alone};

/// Options of a run, by the names of a spec.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RunKeywords {
    budget: Budget,
    record: Record,
    stop: StoppingRule,
    seed: u64,
    feasibility: f64,
    repair: bool,
    listed: usize,
}

impl Default for RunKeywords {
    fn default() -> Self {
        let Options { budget, record, stop, seed, feasibility, repair, listed, .. } = Options::default();
        RunKeywords { budget, record, stop, seed, feasibility, repair, listed }
    }
}

/// Returns the options of a run with callables.
pub fn options(conduct: &Bound<'_, PyDict>, interrupt: &Interrupt) -> PyResult<Options> {
    let RunKeywords { budget, record, stop, seed, feasibility, repair, listed } = settings(conduct)?;
    Ok(Options {
        budget,
        record,
        stop,
        seed,
        feasibility,
        repair,
        listed,
        // Callables run in the thread of their caller.
        threads: 1,
        interrupt: Some(Arc::clone(&interrupt.flag)),
        ..Options::default()
    })
}

/// Description of why a run ended, and whether it met the stopping criterion of its solver.
pub type StopReply<'py> = (String, Bound<'py, PyAny>);

/// Returns how a run of the named solver ended.
pub fn stop_reason<'py>(py: Python<'py>, solver: &str, ended: &StopReason) -> PyResult<StopReply<'py>> {
    let completion = Completion::of(solver, ended);
    Ok((completion.reason(ended), python(py, &completion)?))
}

/// Outcome, stop reason and the Python exception, if any. After an exception there may be no outcome and no stop reason.
pub type RunReply<'py> = (Option<Bound<'py, PyAny>>, Option<StopReply<'py>>, Option<PyErr>);

/// Converts the result of a run.
pub fn hand_back<'py>(py: Python<'py>, outcome: thalweg::Result<Outcome>, raised: &RaisedError) -> PyResult<RunReply<'py>> {
    match (outcome, raised.take()) {
        (Ok(outcome), raised) => {
            Ok((Some(python(py, &outcome)?), Some(stop_reason(py, &outcome.solver, &outcome.ended)?), raised))
        }
        (Err(_), Some(raised)) => Ok((None, None, Some(raised))),
        (Err(error), None) => Err(of_library(error)),
    }
}

/// Reasons for the choice of a solver, its name, its settings that differ from the defaults, and the name of the solver that continues
/// if its run stalls.
type ChoiceReply<'py> = (Vec<String>, &'static str, Bound<'py, PyAny>, Option<&'static str>);

/// Outcome, stop reason, the choice of the solver if none was named, and the Python exception, if any.
type ChosenRunReply<'py> = (Option<Bound<'py, PyAny>>, Option<StopReply<'py>>, Option<ChoiceReply<'py>>, Option<PyErr>);

fn chosen<'py>(py: Python<'py>, choice: &Choice) -> PyResult<ChoiceReply<'py>> {
    let (name, evidence) = (choice.config.name(), &choice.evidence);
    let settings = python(py, &spec::changes(&choice.config, &name.config()))?;
    let fallback = choice.fallback().map(|config| config.name().as_str());
    Ok((vec![evidence.problem(), evidence.decision()], name.as_str(), settings, fallback))
}

/// Runs a solver from `start`. After an exception there may be no outcome.
#[pyfunction]
#[pyo3(signature = (problem, start, solver, conduct, interrupt, on_record=None, on_progress=None))]
pub fn minimize<'py>(
    py: Python<'py>,
    problem: &Bound<'py, Callables>,
    start: PyReadonlyArray1<'py, f64>,
    solver: &Bound<'py, PyDict>,
    conduct: &Bound<'py, PyDict>,
    interrupt: &Bound<'py, Interrupt>,
    on_record: Option<Py<PyAny>>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<ChosenRunReply<'py>> {
    let problem = problem.get();
    let named = spec::config(table(solver)?).map_err(of_lab)?;
    let start: Vec<f64> = start.as_array().iter().copied().collect();
    // The caller's arrays have an entry for each constraint.
    let mut options = Options { listed: usize::MAX, ..options(conduct, interrupt.get())? };
    let mut choice = None;
    let config = match named {
        Some(config) => Ok(config),
        None => auto::prepare(problem, &start, &options).map(|found| {
            options.budget = found.work().leaves(&options.budget);
            choice.insert(found).config.clone()
        }),
    };
    let mut watcher = Watcher::new(interrupt.get(), problem.raised.clone(), on_record, on_progress);
    let solver = config.and_then(|config| config.build());
    let outcome = solver.and_then(|mut solver| run::minimize_with(problem, &mut solver, &start, &options, &mut watcher));
    let (outcome, ended, raised) = hand_back(py, outcome, &problem.raised)?;
    Ok((outcome, ended, choice.map(|choice| chosen(py, &choice)).transpose()?, raised))
}

/// Returns the length that distances at `x` are compared with in a run from `start`.
#[pyfunction]
pub fn length_at(x: PyReadonlyArray1<'_, f64>, start: PyReadonlyArray1<'_, f64>) -> f64 {
    let [x, start] = [x, start].map(|x| x.as_array().iter().copied().collect::<Vec<f64>>());
    thalweg::eval::length_at(&x, &start)
}

/// Compares the stop reason of a run with a certificate of its point. Returns the stop reason that replaces a verdict of
/// infeasibility which the certificate contradicts.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    solver: &str,
    ended: &Bound<'py, PyAny>,
    certificate: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, StopReply<'py>)>> {
    let before: StopReason = pythonize::depythonize(ended)?;
    let mut after = before.clone();
    after.compare_with(&pythonize::depythonize(certificate)?);
    if after == before {
        return Ok(None);
    }
    Ok(Some((python(py, &after)?, stop_reason(py, solver, &after)?)))
}

/// Certifies a point of a problem in callables. With `record`, `file` of the result is the text of the certificate's file.
#[pyfunction]
#[pyo3(signature = (problem, x, bounds, record=false))]
pub fn certify<'py>(
    py: Python<'py>,
    problem: &Bound<'py, Callables>,
    x: PyReadonlyArray1<'py, f64>,
    bounds: &Bound<'py, PyDict>,
    record: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let problem = problem.get();
    let x: Vec<f64> = x.as_array().iter().copied().collect();
    let how = settings(bounds)?;
    let found = alone(|| certified(problem, &x, &how, record, None));
    match problem.raised.take() {
        Some(raised) => Err(raised),
        None => with_file(py, found?),
    }
}

/// Certificate of a point, the proof that its constraints conflict, and the text of the certificate's file.
type Certified = (certificates::Certificate, Option<certificates::Conflict>, Option<String>);

/// Certifies a point and, with `record`, formats the certificate's file; `model` is the problem if its rows are known.
pub fn certified(
    problem: &dyn Subgradients,
    x: &[f64],
    how: &certificates::Bounds,
    record: bool,
    model: Option<&Learning>,
) -> PyResult<Certified> {
    let (found, proved) = match record {
        true => {
            let (found, proved) = certificates::certify_with_record(problem, x, how).map_err(of_library)?;
            (found, Some(proved))
        }
        false => (certificates::certify(problem, x, how).map_err(of_library)?, None),
    };
    let conflict = match found.point.feasible {
        true => None,
        false => certificates::certify_conflict(problem, x, how).map_err(of_library)?,
    };
    let Some(proved) = proved else { return Ok((found, conflict.map(|(conflict, _)| conflict), None)) };
    let proof = Proof::new(problem.fingerprint(), x, Some((&found, proved)), model).map_err(of_lab)?;
    let (conflict, record) = conflict.unzip();
    let text = proof.with_conflict(x, conflict.as_ref().zip(record)).to_json().map_err(of_lab)?;
    Ok((found, conflict, Some(text)))
}

/// Converts a certificate, with the proof of a conflict as `conflict` and the text of its file as `file`.
pub fn with_file<'py>(py: Python<'py>, (found, conflict, text): Certified) -> PyResult<Bound<'py, PyAny>> {
    let found = python(py, &found)?;
    found.set_item("conflict", python(py, &conflict)?)?;
    found.set_item("file", text)?;
    Ok(found)
}

/// Checks the text of a certificate's file.
#[pyfunction]
pub fn check(py: Python<'_>, text: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
    match py.detach(|| thalweg_lab::check::check(&text)) {
        Ok(verdict) => python(py, &verdict),
        Err(what) => Err(PyValueError::new_err(format!("the certificate {what}"))),
    }
}
