//! Settings and outcomes on their way between Python's dictionaries and Rust's structures. What they mean is not known here.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::of_lab;

/// A dictionary as the table that a spec would have; entries that are `None` are left out.
pub fn table(given: &Bound<'_, PyDict>) -> PyResult<toml::Table> {
    let present = PyDict::new(given.py());
    for (key, value) in given.iter() {
        if !value.is_none() {
            present.set_item(key, value)?;
        }
    }
    Ok(pythonize::depythonize(&present)?)
}

/// Settings of a kind that a spec has too: the same names, the same sentences.
pub fn settings<T: DeserializeOwned>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    thalweg_lab::spec::settings(table(given)?).map_err(of_lab)
}

/// An outcome as dictionaries, lists and numbers.
pub fn python<'py, T: Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}
