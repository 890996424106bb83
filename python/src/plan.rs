//! Parameters prescribed by theorems, and how the work of the methods grows, as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_lab::output::align;
use thalweg_lab::plan;

use crate::error::of_lab;
use crate::values::{python, table};

/// Plan: its parameters, its title, rows of (description, symbol, value), the guarantee, and the rows as aligned text.
type PlanReply<'py> = (Bound<'py, PyAny>, String, Vec<[String; 3]>, String, String);

/// Computes the plans of a method that the constants allow.
#[pyfunction]
pub fn plans<'py>(
    py: Python<'py>,
    method: String,
    eps: f64,
    theorem: Option<String>,
    inner: Option<String>,
    as_printed: bool,
    strict: bool,
    constants: &Bound<'py, PyDict>,
) -> PyResult<Vec<PlanReply<'py>>> {
    let asked = plan::PlanRequest { method, theorem, inner, eps, as_printed, strict };
    let plans = plan::plans(&asked, table(constants)?, &|name| name.into()).map_err(of_lab)?;
    let show = |plan: plan::PlanSummary| {
        let text = align(&plan.rows, &[]);
        Ok((python(py, &plan.parameters)?, plan.title, plan.rows, plan.guarantee, text))
    };
    plans.into_iter().map(show).collect()
}

/// Returns how the work grows as the accuracy increases, for one method or for all.
#[pyfunction]
#[pyo3(signature = (method=None))]
pub fn complexity<'py>(py: Python<'py>, method: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    python(py, &plan::complexity(method).map_err(of_lab)?)
}
