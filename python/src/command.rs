//! The `thalweg` command in the Python package.

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs the `thalweg` command; returns its exit code.
#[pyfunction]
pub fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let ended = py.detach(|| thalweg_lab::cli::run(args));
    (0..=u8::MAX).find(|&code| ExitCode::from(code) == ended).unwrap_or(1)
}
