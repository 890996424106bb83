//! Reading TOML, with errors in the wording of this program.

use serde::de::DeserializeOwned;
use thalweg::suggest::{did_you_mean, did_you_mean_one_of};
use toml::Value;

use super::schema::Spec;
use crate::{Error, Result};

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(v) => Some(*v),
        Value::Integer(v) => Some(*v as f64),
        _ => None,
    }
}

pub(crate) fn wrong(key: &str, value: &Value, wanted: &str) -> Error {
    Error::Request(format!("{key} must be {wanted}, got {value}"))
}

/// Parses a spec; an error has its line.
pub(super) fn deserialise(text: &str) -> Result<Spec, (usize, String)> {
    toml::from_str(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        let before = text.get(..span.start).unwrap_or_default();
        let value = text.get(span).filter(|value| !value.contains('\n')).unwrap_or_default();
        (before.matches('\n').count() + 1, sentence(e.message(), key_before(before), value))
    })
}

/// Error in a table of settings.
pub(super) struct TableError {
    /// Key that the error is about; `None` for the whole table.
    pub(super) key: Option<String>,
    /// Whether the table is that of an inner solver.
    pub(super) inner: bool,
    pub(super) error: Box<Error>,
}

impl TableError {
    pub(super) fn at(key: impl Into<String>, error: Error) -> Self {
        TableError { key: Some(key.into()), inner: false, error: Box::new(error) }
    }
}

impl From<Error> for TableError {
    fn from(error: Error) -> Self {
        TableError { key: None, inner: false, error: Box::new(error) }
    }
}

impl From<thalweg::Error> for TableError {
    fn from(error: thalweg::Error) -> Self {
        // Settings of a schedule are named by the key of the schedule and their own, with a dot between them.
        let key = match &error {
            thalweg::Error::Setting { name, .. } => name.split('.').next().map(str::to_owned),
            _ => None,
        };
        TableError { key, inner: false, error: Box::new(error.into()) }
    }
}

impl From<TableError> for Error {
    fn from(wrong: TableError) -> Self {
        *wrong.error
    }
}

/// Reads settings from a table. Every setting has a default.
pub fn settings<T: DeserializeOwned>(table: toml::Table) -> Result<T> {
    Ok(read_settings(table, |table| Value::Table(table).try_into())?)
}

/// Reads a table of settings. Each key is read on its own first, since an error about the whole table would not name the key.
pub(super) fn read_settings<T>(
    table: toml::Table,
    read: impl Fn(toml::Table) -> Result<T, toml::de::Error>,
) -> Result<T, TableError> {
    for (key, value) in &table {
        let alone = toml::Table::from_iter([(key.clone(), value.clone())]);
        read(alone).map_err(|e| TableError::at(key.clone(), Error::Request(sentence(e.message(), key, &value.to_string()))))?;
    }
    read(table).map_err(|e| Error::Request(sentence(e.message(), "", "")).into())
}

/// Message about a problem without an objective.
pub(super) const NO_MINIMIZE: &str = "the problem has no minimize; expected a term, for example minimize = \"hinge\"";

/// Keys that were renamed: old and new name.
const RENAMED: [(&str, &str); 2] = [("synth", "shaped_like"), ("synthetic", "generator")];

/// Rewords an error of the TOML reader: the key, its value, what was expected, and the most similar known word for a mistyped
/// one. `key` and `value` are the text at the location of the error; empty if unknown.
pub(super) fn sentence(message: &str, key: &str, value: &str) -> String {
    let message = message.trim().replace('`', "'").replace('\n', ", ");
    let quoted: Vec<&str> = message.split('\'').skip(1).step_by(2).collect();
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown field"), quoted.as_slice()) {
        if let Some((_, now)) = RENAMED.iter().find(|(old, now)| old == unknown && known.contains(now)) {
            return format!("key '{unknown}' is now called '{now}'");
        }
        return format!("unknown key '{unknown}'{}", did_you_mean_one_of(unknown, known));
    }
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown variant"), quoted.as_slice()) {
        let hint = did_you_mean(unknown, known.iter().copied());
        return format!("{key} must be one of {}, got \"{unknown}\"{hint}", known.join(", "));
    }
    if let (true, [missing, ..]) = (message.starts_with("missing field"), quoted.as_slice()) {
        return match *missing {
            "data" => "the table [data] is missing; expected one with a name or a file".into(),
            "problem" => "the table [problem] is missing; expected one with minimize and subject_to".into(),
            "solver" => "the table [solver] is missing; expected one with the name of a solver and its settings".into(),
            "budget" => "the table [budget] is missing; expected one with iterations, passes, samples or seconds".into(),
            "minimize" => NO_MINIMIZE.into(),
            other => format!("the key '{other}' is missing"),
        };
    }
    let Some((found, expected)) = message.split_once(", expected ") else {
        return if key.is_empty() { message } else { format!("{key}: {message}") };
    };
    let wanted = match expected {
        "u64" | "usize" => "a whole number of at least 0",
        "f64" => "a number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    match (found.strip_prefix("invalid type: ").or(found.strip_prefix("invalid value: ")), key, value) {
        (Some(_), key, value) if !key.is_empty() && !value.is_empty() => format!("{key} must be {wanted}, got {value}"),
        (Some(found), ..) => format!("{found}; expected {wanted}"),
        (None, ..) => format!("{found}; expected {wanted}"),
    }
}

/// Returns the key whose value starts at the end of `text`.
fn key_before(text: &str) -> &str {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let left = line.rsplit_once('=').map_or("", |(left, _)| left);
    left.rsplit(['{', ',']).next().unwrap_or_default().trim()
}

/// Returns the line of the key in `[solver]`, or in `[solver.inner]`; that of the table if there is no such key.
pub(super) fn solver_line(text: &str, wrong: &TableError) -> usize {
    let table = if wrong.inner { "[solver.inner" } else { "[solver" };
    let mut inside = false;
    let mut section = 1;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.starts_with(table);
            if line.starts_with("[solver]") || line.starts_with(&format!("{table}]")) {
                section = i + 1;
            }
        } else if inside
            && line.split_once('=').is_some_and(|(key, _)| Some(key.trim().trim_matches('"')) == wrong.key.as_deref())
        {
            return i + 1;
        }
    }
    section
}
