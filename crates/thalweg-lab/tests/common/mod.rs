//! What the integration tests share. Tests themselves are in the files beside this folder.

use std::io::Write;
use std::path::PathBuf;

/// The path of a published data file, if the directory in THALWEG_DATA has it. If not, says so on standard error (directly,
/// so that the test harness does not swallow it), and the test is to return.
pub fn published(test: &str, file: &str) -> Option<PathBuf> {
    let path = std::env::var_os("THALWEG_DATA").map(|d| PathBuf::from(d).join(file)).filter(|p| p.is_file());
    if path.is_none() {
        // Nothing is lost if standard error is closed.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: needs {file}, set THALWEG_DATA");
    }
    path
}
