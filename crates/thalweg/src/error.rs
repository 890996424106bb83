//! The error type of the library. Every message names the thing, its value and what was expected.

/// What went wrong: refused before the first step, or met during a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that cannot be used.
    #[error("{}", setting_sentence(name, value, wanted))]
    Setting {
        /// Name of the setting, as in TOML and Python.
        name: String,
        /// The value that was given.
        value: String,
        /// What would have been accepted.
        wanted: String,
    },
    /// A vector or matrix has the wrong size.
    #[error("{what} has {got} entries; expected {wanted}")]
    Length {
        /// The thing that has the wrong size.
        what: String,
        /// Its size.
        got: usize,
        /// The size that fits.
        wanted: usize,
    },
    /// A value, gradient or point became NaN or infinite.
    #[error("{what} is {value}; expected a finite number")]
    NotFinite {
        /// The quantity, by name.
        what: String,
        /// NaN or an infinity.
        value: f64,
    },
    /// The problem cannot be posed, or a method refuses it.
    #[error("{0}")]
    Problem(String),
    /// An oracle could not be evaluated.
    #[error("{0}")]
    Oracle(String),
    /// A checkpoint cannot be read, written, or belongs to something else.
    #[error("checkpoint {0}")]
    Checkpoint(String),
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A refused setting.
    pub fn setting(name: impl Into<String>, value: impl ToString, wanted: impl Into<String>) -> Self {
        Error::Setting { name: name.into(), value: value.to_string(), wanted: wanted.into() }
    }
}

/// The value that stands for a setting that was not given.
pub const NOT_GIVEN: &str = "(not given)";

/// `eta must be a number above 0, got -1`. An explanation after a colon in `wanted` moves to the end of the sentence.
pub fn setting_sentence(name: &str, value: &str, wanted: &str) -> String {
    if value == NOT_GIVEN {
        return format!("{name} is missing; it must be {wanted}");
    }
    match wanted.split_once(": ") {
        None => format!("{name} must be {wanted}, got {value}"),
        Some((wanted, why)) => format!("{name} must be {wanted}, got {value}: {why}"),
    }
}

/// Refuses a vector whose length is not `wanted`.
pub fn check_length(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::Length { what: what.into(), got, wanted }) }
}

/// Refuses NaN and infinities.
pub fn check_finite(what: &str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::NotFinite { what: what.into(), value }) }
}
