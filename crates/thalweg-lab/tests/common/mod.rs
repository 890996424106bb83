//! Helpers of the integration tests; each test binary uses a part of them.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod chromium;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Reports that a test is skipped, and why: in the file named by THALWEG_SKIPS, where `./test` collects these lines, or else on
/// standard error (directly, so that the test harness does not capture it). The caller returns afterwards.
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

/// Returns the path of a published data file in the directory THALWEG_DATA. If it is absent, reports the test as skipped; the
/// caller then returns.
pub fn published(test: &str, file: &str) -> Option<PathBuf> {
    let path = std::env::var_os("THALWEG_DATA").map(|d| PathBuf::from(d).join(file)).filter(|p| p.is_file());
    if path.is_none() {
        skipped(test, &format!("needs {file}, set THALWEG_DATA"));
    }
    path
}

/// An empty directory in which the command runs as on a fresh machine, without a data directory or files of the user.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the command with these arguments, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).current_dir(self.0.path());
        command.env_remove("THALWEG_DATA").env_remove("XDG_DATA_HOME").env("HOME", self.0.path());
        command.env_remove("THALWEG_CACHE").env_remove("XDG_CACHE_HOME");
        command
    }

    /// Certifies with these arguments, and insists that the checker confirms the certificate file. Returns the checker's sentence.
    #[track_caller]
    pub fn checked(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[&["certify"], arguments, &["--out", "certificate.json"]].concat());
        assert!(matches!(ran.code, Some(0 | 1)) && ran.err.lines().all(is_announcement), "{ran:?}");
        let ran = self.run(&["check", "certificate.json"]).ended(0);
        ran.out.lines().next().unwrap_or_default().to_string()
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }
}

/// Result of a finished command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Returns whether a line says which file a model names, before it is opened.
fn is_announcement(line: &str) -> bool {
    line.starts_with("reading ") && line.ends_with(", which the model names as its training data")
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    /// Asserts the exit code, and that standard error is empty except for warnings and for the file that a model names.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        let expected = |line: &&str| line.starts_with("warning: ") || is_announcement(line);
        let others: Vec<&str> = self.err.lines().filter(|line| !expected(line)).collect();
        assert_eq!((self.code, others), (Some(code), vec![]), "{}", self.out);
        self
    }

    /// Asserts a refusal: exit code 2, nothing on standard output, one sentence that contains every part.
    #[track_caller]
    pub fn refused(&self, parts: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        let lines: Vec<&str> = self.err.lines().filter(|line| !is_announcement(line)).collect();
        assert!(lines.len() == 1 && lines[0].starts_with("thalweg: ") && self.err.ends_with('\n'), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "'{part}' is not in: {}", self.err);
        }
    }

    /// Asserts a refusal with this sentence. An ellipsis in it stands for a path, a list of names or the rest of a message.
    #[track_caller]
    pub fn refused_with(&self, sentence: &str) {
        self.refused(&[]);
        let mut rest = self.err["thalweg: ".len()..].trim_end_matches('\n');
        let (mut parts, mut first) = (sentence.split('…').peekable(), true);
        while let Some(part) = parts.next() {
            let at = match (first, parts.peek()) {
                (true, Some(_)) => rest.starts_with(part).then_some(0),
                (true, None) => (rest == part).then_some(0),
                (false, None) => rest.ends_with(part).then(|| rest.len() - part.len()),
                (false, Some(_)) => rest.find(part),
            };
            let at = at.unwrap_or_else(|| panic!("expected: {sentence}\n   found: {}", self.err));
            (rest, first) = (&rest[at + part.len()..], false);
        }
    }

    /// Asserts that the command line was refused with a message that contains this.
    #[track_caller]
    pub fn refused_arguments(&self, part: &str) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.err.starts_with("error: ") && self.err.contains(part), "{self:?}");
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// The rows of a trace, each as its cells, and the header.
pub fn cells(trace: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    let mut lines = trace.lines();
    let header = lines.next().unwrap_or_default().split(',').collect();
    (header, lines.map(|line| line.split(',').collect()).collect())
}

/// A trace without the column of seconds.
#[track_caller]
pub fn without_seconds(trace: &str) -> String {
    let (header, _) = cells(trace);
    let seconds = header.iter().position(|name| *name == "seconds").expect("a trace has a column of seconds");
    let keep =
        |line: &str| line.split(',').enumerate().filter(|(i, _)| *i != seconds).map(|(_, c)| c).collect::<Vec<_>>().join(",");
    trace.lines().map(|line| keep(line) + "\n").collect()
}
