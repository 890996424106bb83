//! The error type of the library. Every message names the thing, its value and what was expected.

use std::borrow::Cow;

/// Error of the library, raised before the first step or during a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has an invalid value.
    #[error("{}", setting_sentence(name, value, wanted))]
    Setting {
        /// Name of the setting, as in TOML and Python.
        name: String,
        /// The given value.
        value: String,
        /// Description of the accepted values.
        wanted: String,
    },
    /// A constant that a theorem needs is missing or out of range.
    #[error("{}", constant_sentence(name, *value, meaning, wanted, theorem))]
    Constant {
        /// Name of the constant, as in TOML and Python.
        name: String,
        /// The given value; `None` if it is missing.
        value: Option<f64>,
        /// Symbol and description of the constant.
        meaning: String,
        /// Description of the accepted values.
        wanted: String,
        /// Name of the theorem.
        theorem: String,
    },
    /// A vector or matrix has the wrong size.
    #[error("{what} has {got} entries; expected {wanted}")]
    Length {
        /// What has the wrong size.
        what: String,
        /// Actual size.
        got: usize,
        /// Expected size.
        wanted: usize,
    },
    /// A value, gradient or point became NaN or infinite.
    #[error("{what} is {value}; expected a finite number")]
    NotFinite {
        /// Name of the quantity.
        what: String,
        /// NaN or an infinity.
        value: f64,
    },
    /// The problem is invalid, or a solver does not support it.
    #[error("{0}")]
    Problem(String),
    /// A term compares groups, but the data have no group column.
    #[error("{0}, but the data have none; name a group column")]
    MissingGroups(String),
    /// An oracle could not be evaluated.
    #[error("{0}")]
    Oracle(String),
    /// A checkpoint cannot be read or written, or belongs to a different run.
    #[error("checkpoint {0}")]
    Checkpoint(String),
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates the error for an invalid setting.
    pub fn setting(name: impl Into<String>, value: impl ToString, wanted: impl Into<String>) -> Self {
        Error::Setting { name: name.into(), value: value.to_string(), wanted: wanted.into() }
    }
}

/// Largest number of characters of one piece of input that a message quotes.
pub const QUOTED: usize = 200;

/// Shortens a piece of input for a message: more than [`QUOTED`] characters are replaced by an ellipsis.
pub fn quoted(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Value shown for a setting that was not given.
pub const NOT_GIVEN: &str = "(not given)";

/// Formats the sentence `eta must be a number above 0, got -1`. An explanation after a colon in `wanted` moves to the end of the
/// sentence.
pub fn setting_sentence(name: &str, value: &str, wanted: &str) -> String {
    let (name, value) = (quoted(name), quoted(value));
    if value == NOT_GIVEN {
        return format!("{name} is missing; it must be {wanted}");
    }
    match wanted.split_once(": ") {
        None => format!("{name} must be {wanted}, got {value}"),
        Some((wanted, why)) => format!("{name} must be {wanted}, got {value}: {why}"),
    }
}

/// Formats the sentence `diameter must be a finite number larger than 0, got -1; it is D, the diameter of the domain`.
fn constant_sentence(name: &str, value: Option<f64>, meaning: &str, wanted: &str, theorem: &str) -> String {
    match value {
        Some(value) => format!("{name} must be {wanted}, got {value}; it is {meaning}"),
        None => format!("{name} is missing; {theorem} needs {meaning}, {wanted}"),
    }
}

/// Returns an error unless the length is `wanted`.
pub fn check_length(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::Length { what: what.into(), got, wanted }) }
}

/// Returns an error for NaN and infinities.
pub fn check_finite(what: &str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::NotFinite { what: what.into(), value }) }
}

/// Largest number of samples that memory is allocated for before the first step.
const MAX_COUNT: usize = 10_000_000;
/// Largest number of entries of a list that a setting multiplies with the number of variables.
const MAX_ENTRIES: usize = 1 << 28;

/// Checks that a number that memory is allocated for is not above [`MAX_COUNT`].
pub(crate) fn check_count(name: &str, count: usize) -> Result<()> {
    if count <= MAX_COUNT {
        return Ok(());
    }
    Err(Error::setting(name, count, format!("at most {}", crate::thousands(MAX_COUNT))))
}

/// Checks that a list with `count` vectors of `dim` entries fits into memory.
pub(crate) fn check_entries(name: &str, count: usize, dim: usize) -> Result<()> {
    let most = MAX_ENTRIES / dim.max(1);
    if count <= most {
        return Ok(());
    }
    let wanted = format!("at most {} for {} variables", crate::thousands(most), crate::thousands(dim));
    Err(Error::setting(name, count, wanted))
}
