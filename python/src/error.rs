//! Conversion of Rust errors to Python exceptions. Invalid input becomes a `ValueError` with the library's message; exceptions
//! from user functions pass through unchanged.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// Converts an error of the library.
pub fn of_library(error: thalweg::Error) -> PyErr {
    match error {
        thalweg::Error::Checkpoint(_) => PyOSError::new_err(error.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Converts an error of the lab crate.
pub fn of_lab(error: thalweg_lab::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns an internal error: a lock that another thread poisoned.
pub fn broken(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{what} was left broken by an earlier failure: make a new one"))
}
