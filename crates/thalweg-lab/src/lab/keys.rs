//! Keys of runs, problems and certificates: hashes of the settings that determine their results. Finished runs are found by
//! key, so the hashed values and their order must not change.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thalweg::assess::Measures;
use thalweg::learn::GroupComparison;

use super::grid::GridRun;
use crate::Result;
use crate::metrics::former_name;

/// Version of the results. Increased when terms or domains change the results of every solver.
const RESULTS: u32 = 2;

/// Version of reference values. Increased when their numbers change.
const REFERENCES: u32 = 3;

/// Computes the key of a run on the problem with the key `problem`.
pub fn run_key(run: &GridRun, problem: &str) -> Result<String> {
    let mut settings = json!({
        "results": RESULTS,
        "problem": problem,
        "solver": plain(run.table.get("solver")),
        "version": run.spec.solver_version()?,
        "budget": plain(run.table.get("budget")),
        "record": plain(run.table.get("record")),
        "stop": plain(run.table.get("stop")),
        "certificate": plain(run.table.get("certificate")),
        "feasibility": plain(run.table.get("feasibility")),
        "seed": run.seed,
    });
    // Hashed only if given: runs that were stored before the setting existed keep their keys.
    if let Some(repair) = run.table.get("repair") {
        settings["repair"] = plain(Some(repair));
    }
    Ok(hash(&settings))
}

/// Computes the key of the certificates of a run.
pub fn certificate_key(run: &str, points: u64, how: &Measures) -> String {
    hash(&json!({ "certified": run, "points": points, "how": format!("{how:?}") }))
}

/// Computes the key of the problem of a run from the data, the problem, and the seed if the rows depend on it.
pub fn problem_key(run: &GridRun, data: &str, file: &Path) -> String {
    let mut table = with_old_names(plain(run.table.get("data")));
    if let Some(table) = table.as_object_mut() {
        // The content of the file matters, not its path.
        table.remove("file");
    }
    let problem = run.table.get("problem");
    let start = problem.and_then(|p| p.get("start")).and_then(toml::Value::as_str);
    let start = start.and_then(|name| crate::data::source::read_file(&file.parent().unwrap_or(Path::new("")).join(name)).ok());
    let mut settings = json!({
        "results": RESULTS,
        "fingerprint": data,
        "data": table,
        "problem": plain(problem),
        // Measured terms may need reference values of their own.
        "measure": with_old_metrics(plain(run.table.get("measure"))),
        "start": start.map(|bytes| hex(&Sha256::digest(bytes))),
        "seed": run.spec.data.depends_on_seed().then_some(run.seed),
    });
    // Hashed only if reference values are used: other stored runs do not depend on them.
    if run.spec.uses_references() {
        settings["references"] = json!(REFERENCES);
    }
    // Likewise: the default comparison of groups was another one.
    if run.spec.compares_groups() {
        settings["compare"] = json!(GroupComparison::default().as_str());
    }
    hash(&settings)
}

/// Renames the keys of the table `[data]` to their former names, so that runs stored under those are still found.
fn with_old_names(table: Value) -> Value {
    let old = |key: String| match key.as_str() {
        "shaped_like" => "synth".to_string(),
        "generator" => "synthetic".to_string(),
        _ => key,
    };
    match table {
        Value::Object(map) => map.into_iter().map(|(key, value)| (old(key), value)).collect(),
        other => other,
    }
}

/// Renames the metrics of the list `measure` to their former names, for the same reason.
fn with_old_metrics(list: Value) -> Value {
    match list {
        Value::Array(names) => names.into_iter().map(with_old_metrics).collect(),
        Value::String(name) => former_name(&name).into(),
        other => other,
    }
}

/// Converts a value to JSON. Integers become floats, so that 1 and 1.0 have the same key.
pub fn plain(value: Option<&toml::Value>) -> Value {
    match value {
        None => Value::Null,
        Some(toml::Value::Integer(v)) => json!(*v as f64),
        Some(toml::Value::Float(v)) if v.is_finite() => json!(v),
        Some(toml::Value::Float(v)) => json!(v.to_string()),
        Some(toml::Value::String(v)) => json!(v),
        Some(toml::Value::Boolean(v)) => json!(v),
        Some(toml::Value::Datetime(v)) => json!(v.to_string()),
        Some(toml::Value::Array(list)) => list.iter().map(|v| plain(Some(v))).collect(),
        Some(toml::Value::Table(table)) => table.iter().map(|(key, v)| (key.clone(), plain(Some(v)))).collect(),
    }
}

fn hash(value: &Value) -> String {
    let mut text = hex(&Sha256::digest(value.to_string()));
    // 80 bits: two of a hundred thousand runs collide with probability 4e-15.
    text.truncate(20);
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
