//! Conversion of settings and outcomes between Python dictionaries and Rust structures.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::of_lab;

/// Converts a dictionary to a table as in a spec; entries that are `None` are omitted.
pub fn table(given: &Bound<'_, PyDict>) -> PyResult<toml::Table> {
    let present = PyDict::new(given.py());
    for (key, value) in given.iter() {
        if !value.is_none() {
            present.set_item(key, value)?;
        }
    }
    Ok(pythonize::depythonize(&present)?)
}

/// Reads settings that a spec has too, with the same names and error messages.
pub fn settings<T: DeserializeOwned>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    thalweg_lab::spec::settings(table(given)?).map_err(of_lab)
}

/// Converts an outcome to dictionaries, lists and numbers.
pub fn python<'py, T: Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}
