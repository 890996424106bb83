//! Errors of the command: those of the library, and those of files. Each is one sentence; all end with exit code 2.

use std::path::Path;

/// What the command could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Refused or failed in the library.
    #[error(transparent)]
    Library(#[from] thalweg::Error),
    /// Something in a file, with its line (counted from 1).
    #[error("{file}, line {line}: {what}")]
    Line {
        /// The file as the user named it.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong there and what was wanted.
        what: String,
    },
    /// Something about a file as a whole.
    #[error("{file}: {what}")]
    File {
        /// The file as the user named it.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A request that cannot be met.
    #[error("{0}")]
    Request(String),
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An operating-system error on a file.
    pub fn io(file: &Path, error: &std::io::Error) -> Self {
        let what = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_string(),
            std::io::ErrorKind::IsADirectory => "is a directory; expected a file".to_string(),
            _ => error.to_string(),
        };
        Error::File { file: file.display().to_string(), what }
    }

    /// A sentence about a file as a whole.
    pub fn file(file: &Path, what: impl Into<String>) -> Self {
        Error::File { file: file.display().to_string(), what: what.into() }
    }
}
