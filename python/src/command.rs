//! The `thalweg` command in the Python package, and its way to write files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Runs the `thalweg` command; returns its exit code.
#[pyfunction]
pub fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let ended = py.detach(|| thalweg_lab::cli::run(args));
    (0..=u8::MAX).find(|&code| ExitCode::from(code) == ended).unwrap_or(1)
}

/// Writes a file, completely or not at all.
#[pyfunction]
pub fn write_file(file: PathBuf, contents: &[u8]) -> PyResult<()> {
    thalweg::run::output_file::write_file(&file, contents)
        .map_err(|e| PyOSError::new_err(thalweg_lab::Error::io(&file, &e).to_string()))
}
