//! Errors of the command: those of the library, and those about files. Each is one sentence; all end with exit code 2.

use std::path::Path;

use thalweg::error::quoted;

/// Error of the command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the library.
    #[error(transparent)]
    Library(#[from] thalweg::Error),
    /// Error in a line of a file.
    #[error("{}, line {line}: {what}", quoted(file))]
    Line {
        /// File as named by the user.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong there and what was expected.
        what: String,
    },
    /// Error about a whole file.
    #[error("{}: {what}", quoted(file))]
    File {
        /// File as named by the user.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// Invalid request.
    #[error("{0}")]
    Request(String),
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns an operating-system error about a file.
    pub fn io(file: &Path, error: &std::io::Error) -> Self {
        Error::File { file: file.display().to_string(), what: Self::io_reason(error) }
    }

    /// Describes an operating-system error.
    pub fn io_reason(error: &std::io::Error) -> String {
        match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_string(),
            std::io::ErrorKind::IsADirectory => "is a directory; expected a file".to_string(),
            _ => error.to_string(),
        }
    }

    /// Returns an error about a whole file.
    pub fn file(file: &Path, what: impl Into<String>) -> Self {
        Error::File { file: file.display().to_string(), what: what.into() }
    }
}
