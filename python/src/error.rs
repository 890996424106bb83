//! The one place where errors of Rust become exceptions of Python. What a user did wrong is a `ValueError` with our sentence; what
//! a user's own function raised is not touched.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// A sentence of the library.
pub fn of_library(error: thalweg::Error) -> PyErr {
    match error {
        thalweg::Error::Checkpoint(_) => PyOSError::new_err(error.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// A sentence of the lab.
pub fn of_lab(error: thalweg_lab::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What should not happen: a lock that another thread broke.
pub fn broken(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{what} was left broken by an earlier failure: make a new one"))
}
