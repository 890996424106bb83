//! What the integration tests share. Tests themselves are in the files beside this folder.

use std::io::Write;
use std::path::PathBuf;

/// Says that a test is skipped, and why: in the file that THALWEG_SKIPS names, where `./test` collects these lines, or else on
/// standard error (directly, so that the test harness does not swallow it). The test is to return.
pub fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}\n");
    let file = std::env::var_os("THALWEG_SKIPS").filter(|f| !f.is_empty());
    let file = file.and_then(|f| std::fs::OpenOptions::new().append(true).create(true).open(f).ok());
    // One write per line: tests run side by side.
    if file.is_none_or(|mut f| f.write_all(line.as_bytes()).is_err()) {
        // Nothing is lost if standard error is closed.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// The path of a published data file, if the directory in THALWEG_DATA has it. If not, the test is skipped: it is to return.
pub fn published(test: &str, file: &str) -> Option<PathBuf> {
    let path = std::env::var_os("THALWEG_DATA").map(|d| PathBuf::from(d).join(file)).filter(|p| p.is_file());
    if path.is_none() {
        skipped(test, &format!("needs {file}, set THALWEG_DATA"));
    }
    path
}
