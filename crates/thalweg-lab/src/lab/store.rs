//! The store: one SQLite file with experiments, finished runs, and claims of processes on jobs. Each finished run is one
//! transaction, so a kill at any moment loses no finished run. Runs are executed by [`super::schedule`].

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thalweg::Note;
use thalweg::learn::Best;
use thalweg::run::output_file;

use super::choose::Selection;
use super::host::Host;
use crate::job::{Certificates, Finished};
use crate::metrics::present_name;
use crate::verdict::Status;
use crate::{Error, Result};

/// SQLite application id of a store: "Thlw".
const APPLICATION: i32 = 0x5468_6C77;
/// Version of the tables, increased when they change.
const FORMAT: i32 = 1;
/// Maximum time to wait for a transaction of another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum number of further attempts to create the lock file of a process.
const ATTEMPTS: u32 = 100;

/// Prefix of the lock file of a process, and of its name before it is locked.
const OWNER: &str = "owner-";
const BEGUN: &str = "begun-";

const TABLES: &str = "
CREATE TABLE experiments (
    name TEXT PRIMARY KEY, title TEXT NOT NULL, about TEXT NOT NULL, spec TEXT NOT NULL,
    -- JSON: labels in order, stand-ins, what a reader should know
    facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE members (
    experiment TEXT NOT NULL REFERENCES experiments(name) ON DELETE CASCADE,
    position INTEGER NOT NULL, run TEXT NOT NULL,
    data TEXT NOT NULL, problem TEXT NOT NULL, solver TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL,
    tuned INTEGER NOT NULL,
    PRIMARY KEY (experiment, position)
) WITHOUT ROWID;
CREATE INDEX members_of_run ON members(run);
CREATE TABLE runs (
    key TEXT PRIMARY KEY, method TEXT NOT NULL, version INTEGER NOT NULL, seed INTEGER NOT NULL,
    -- feasible, infeasible, failed, refused
    status TEXT NOT NULL, ended TEXT NOT NULL,
    objective REAL, violation REAL, iterations INTEGER NOT NULL, passes_f REAL NOT NULL, passes_g REAL NOT NULL,
    samples INTEGER NOT NULL, seconds REAL NOT NULL,
    -- numbers of eight bytes, least significant first
    point BLOB,
    -- JSON: the spec of the run, the outcome without point and trace, notes, the machine
    spec TEXT NOT NULL, outcome TEXT NOT NULL, notes TEXT NOT NULL, host TEXT NOT NULL, data_hash TEXT NOT NULL,
    finished TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE traces (
    run TEXT NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
    -- recorded or certified; then axis, value, constraint or gauge
    part TEXT NOT NULL, role TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
    numbers BLOB NOT NULL,
    PRIMARY KEY (run, part, position)
) WITHOUT ROWID;
CREATE TABLE certificates (
    run TEXT PRIMARY KEY REFERENCES runs(key) ON DELETE CASCADE, key TEXT NOT NULL,
    -- JSON: certificates of the returned point
    returned TEXT NOT NULL, seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE reference_values (key TEXT PRIMARY KEY, best TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
";

/// Open store.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// Process that works on the jobs of a store. It holds a lock on a file beside the store while it runs.
pub struct Owner {
    name: String,
    directory: PathBuf,
    _lock: File,
}

/// Result of claiming a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The job is claimed by this process.
    Ours,
    /// The job is finished.
    Done,
    /// Another process is working on it.
    Taken,
}

/// Experiment in a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredExperiment {
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Description.
    pub about: String,
    /// Text of the spec.
    pub spec: String,
    /// Further facts.
    pub facts: Facts,
}

/// Facts about an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Labels of data and problems, in the order of the panels.
    pub panels: Vec<(String, String)>,
    /// Labels of the solvers, in order.
    pub solvers: Vec<String>,
    /// Data sets that stand in for others, and why.
    pub stand_ins: Vec<(String, String)>,
    /// How cells were selected; `None` if they were not.
    #[serde(default, deserialize_with = "selection")]
    pub tuned: Option<Selection>,
    /// Notes about the experiment.
    pub notes: Vec<Note>,
    /// Passes of objective and constraints per iteration as counted in a publication, by labels of data and solver.
    #[serde(default)]
    pub published: Vec<(String, String, [f64; 2])>,
}

/// Reads how cells were selected. Stores of older versions have a sentence, which is empty if they were not.
fn selection<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Selection>, D::Error> {
    let stored = Option::<Selection>::deserialize(deserializer)?;
    Ok(stored.filter(|selection| !matches!(selection, Selection::Text(text) if text.is_empty())))
}

impl Facts {
    /// Returns the passes of objective and constraints of a run as counted in a publication, if the spec defines the count.
    pub fn published(&self, member: &Member, iterations: u64) -> Option<[f64; 2]> {
        let (_, _, rate) = self.published.iter().find(|(data, solver, _)| (data, solver) == (&member.data, &member.solver))?;
        Some(rate.map(|passes| passes * iterations as f64))
    }
}

/// Position of a run in an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Key of the run.
    pub run: String,
    /// Label of the data set.
    pub data: String,
    /// Label of the problem.
    pub problem: String,
    /// Label of the solver.
    pub solver: String,
    /// Description of the cell.
    pub cell: String,
    /// Random seed.
    pub seed: u64,
    /// Whether the cell is selected.
    pub tuned: bool,
}

/// Row of the table of finished runs.
#[derive(Debug, Clone, Serialize)]
pub struct StoredRun {
    /// Key.
    pub key: String,
    /// Name of the method.
    pub method: String,
    /// Version of the method's code.
    pub version: u32,
    /// Random seed.
    pub seed: u64,
    /// Status of the result.
    pub status: Status,
    /// Why the run ended, as a sentence.
    pub ended: String,
    /// Objective at the returned point.
    pub objective: Option<f64>,
    /// Largest constraint value at the returned point.
    pub violation: Option<f64>,
    /// Number of iterations.
    pub iterations: u64,
    /// Passes of the objective.
    pub passes_f: f64,
    /// Passes of the constraints.
    pub passes_g: f64,
    /// Samples read.
    pub samples: u64,
    /// Time in seconds, without measuring.
    pub seconds: f64,
    /// Returned point; after a failure, the last finite one.
    pub point: Option<Vec<f64>>,
    /// Spec of the run.
    pub spec: RunSpec,
    /// Result without points and recorded iterates; `None` for a run that could not start.
    pub outcome: Option<Finished>,
    /// Notes about the run.
    pub notes: Vec<Note>,
    /// Machine and build.
    pub host: Host,
    /// Fingerprint of the data.
    pub data_hash: String,
    /// Time of completion, such as 2026-11-16T03:15:09Z.
    pub finished: String,
}

/// Spec of a stored run: the keys that are read by name, and the others unchanged. Numbers are floats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Table `[data]`.
    #[serde(default)]
    pub data: DataTable,
    /// Table `[problem]`.
    #[serde(default)]
    pub problem: ProblemTable,
    /// Table `[solver]`.
    #[serde(default)]
    pub solver: Value,
    /// Feasibility tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feasibility: Option<f64>,
    /// Other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Table `[data]` of a stored run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataTable {
    /// Data set of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Data file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bilevel problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bilevel: Option<Value>,
    /// Other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Table `[problem]` of a stored run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProblemTable {
    /// Objective; `None` for a bilevel problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimize: Option<String>,
    /// Constraints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subject_to: Vec<String>,
    /// Domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Value>,
    /// Other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl RunSpec {
    /// Reads the tables of a spec, converted to JSON.
    pub fn new(tables: &Value) -> Self {
        serde_json::from_value(tables.clone()).unwrap_or_default()
    }
}

/// Column of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// "axis", "value", "constraint" or "gauge".
    pub role: String,
    /// Name.
    pub name: String,
    /// One number for each recorded iterate.
    pub numbers: Vec<f64>,
}

/// Certificates of a run.
#[derive(Debug, Clone, Serialize)]
pub struct StoredCertificates {
    /// Key.
    pub key: String,
    /// Certificates of the returned point.
    pub returned: Certificates,
    /// Computing time in seconds.
    pub seconds: f64,
    /// Certificates of iterates.
    pub curves: Vec<Curve>,
}

/// Curves of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Curve of the recorded iterates.
    Recorded,
    /// Curve of the certified iterates.
    Certified,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Part::Recorded => "recorded",
            Part::Certified => "certified",
        }
    }
}

impl Store {
    /// Opens a store, or creates it if it does not exist.
    pub fn create(path: &Path) -> Result<Self> {
        if !path.exists() {
            crate::output::check_writable(path).map_err(|what| Error::file(path, what))?;
        }
        Store::connect(path, true)
    }

    /// Opens an existing store.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::metadata(path).map_err(|e| Error::io(path, &e))?;
        Store::connect(path, false)
    }

    fn connect(path: &Path, make: bool) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::file(path, "is a directory; expected the file of a store"));
        }
        let fail = |e: rusqlite::Error| broken(path, &e);
        let mut connection = Connection::open(path).map_err(fail)?;
        connection.busy_timeout(PATIENCE).map_err(fail)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        // The whole file is checked first, so that a truncated copy is rejected now.
        let begun = connection.transaction_with_behavior(if make {
            TransactionBehavior::Immediate
        } else {
            TransactionBehavior::Deferred
        });
        let begun = begun.map_err(fail)?;
        let number = |name: &str| begun.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let (application, format) = (number("application_id").map_err(fail)?, number("user_version").map_err(fail)?);
        let empty = begun.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0)).map_err(fail)? == 0;
        match (application, format) {
            (0, 0) if empty && make => {
                begun.execute_batch(TABLES).map_err(fail)?;
                begun.pragma_update(None, "application_id", APPLICATION).map_err(fail)?;
                begun.pragma_update(None, "user_version", FORMAT).map_err(fail)?;
            }
            (0, 0) if empty => return Err(Error::file(path, "is empty; expected a store that 'thalweg lab run' has filled")),
            (APPLICATION, FORMAT) => {
                let whole: String = begun.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
                if whole != "ok" {
                    return Err(Error::file(path, format!("is a damaged store: {whole}")));
                }
            }
            (APPLICATION, other) => {
                let what = format!("is a store of format {other}: this build reads format {FORMAT}");
                return Err(Error::file(path, what));
            }
            _ => return Err(Error::file(path, "is a database, but not a store of Thalweg")),
        }
        begun.commit().map_err(fail)?;
        Ok(Store { connection, path: path.into() })
    }

    fn fail(&self, e: rusqlite::Error) -> Error {
        broken(&self.path, &e)
    }

    /// Changes the store in one transaction.
    fn change<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let path = self.path.clone();
        let fail = |e: rusqlite::Error| broken(&path, &e);
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        let result = work(&begun).map_err(fail)?;
        begun.commit().map_err(fail)?;
        Ok(result)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory beside the store that holds locks and checkpoints. It exists only while runs are in progress.
    pub fn running(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".running");
        name.into()
    }

    /// Registers this process as an owner of claims.
    pub fn enter(&self) -> Result<Owner> {
        let directory = self.running();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{}", std::process::id(), now.as_nanos());
        let file = directory.join(format!("{BEGUN}{name}"));
        let name = format!("{OWNER}{name}");
        let enter = || -> std::io::Result<File> {
            std::fs::create_dir_all(&directory)?;
            let lock = OpenOptions::new().create_new(true).write(true).open(&file)?;
            // The file is locked before it is renamed, so that an unlocked file with the prefix of owners has no owner.
            lock.lock()?;
            std::fs::rename(&file, directory.join(&name))?;
            Ok(lock)
        };
        let mut attempts = 0;
        let lock = loop {
            match enter() {
                // Another process has removed the empty directory, or the file before it was locked.
                Err(e) if e.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => attempts += 1,
                entered => break entered.map_err(|e| Error::io(&file, &e))?,
            }
        };
        clean(&directory);
        Ok(Owner { name, directory, _lock: lock })
    }

    /// Claims a job. A claim of a process that has died is void.
    pub fn claim(&mut self, key: &str, owner: &Owner) -> Result<Claim> {
        let directory = self.running();
        self.change(|c| {
            let done = "SELECT EXISTS (SELECT 1 FROM runs WHERE key = ?1) OR EXISTS (SELECT 1 FROM certificates WHERE key = ?1)";
            if c.query_row(done, [key], |row| row.get(0))? {
                return Ok(Claim::Done);
            }
            let holder: Option<String> =
                c.query_row("SELECT owner FROM claims WHERE key = ?1", [key], |row| row.get(0)).optional()?;
            match holder {
                Some(holder) if holder == owner.name || alive(&directory, &holder) => return Ok(Claim::Taken),
                Some(holder) => {
                    // The process may hold other claims, but a missing file means the same as an unlocked one.
                    let _ = std::fs::remove_file(directory.join(holder));
                }
                None => {}
            }
            c.execute("INSERT OR REPLACE INTO claims (key, owner) VALUES (?1, ?2)", [key, &owner.name])?;
            Ok(Claim::Ours)
        })
    }

    /// Releases the claim on a job.
    pub fn release(&mut self, key: &str, owner: &Owner) -> Result<()> {
        self.change(|c| c.execute("DELETE FROM claims WHERE key = ?1 AND owner = ?2", [key, &owner.name]).map(|_| ()))
    }

    /// Stores a finished run and releases the claim on it.
    pub fn finish(&mut self, run: &StoredRun, curves: &[Curve]) -> Result<()> {
        self.change(|c| {
            insert(c, run, curves)?;
            c.execute("DELETE FROM claims WHERE key = ?1", [&run.key]).map(|_| ())
        })
    }

    /// Stores many finished runs in one transaction.
    pub fn finish_all<'a>(&mut self, runs: impl Iterator<Item = (&'a StoredRun, &'a [Curve])>) -> Result<()> {
        self.change(|c| runs.into_iter().try_for_each(|(run, curves)| insert(c, run, curves)))
    }

    /// Stores the certificates of a run in place of earlier ones and releases the claim on them.
    pub fn certify(&mut self, run: &str, certificates: &StoredCertificates) -> Result<()> {
        self.change(|c| {
            c.execute("DELETE FROM certificates WHERE run = ?1", [run])?;
            c.execute("DELETE FROM traces WHERE run = ?1 AND part = 'certified'", [run])?;
            c.execute(
                "INSERT INTO certificates (run, key, returned, seconds) VALUES (?1, ?2, ?3, ?4)",
                params![run, certificates.key, json(&certificates.returned)?, certificates.seconds],
            )?;
            insert_curves(c, run, Part::Certified, &certificates.curves)?;
            c.execute("DELETE FROM claims WHERE key = ?1", [&certificates.key]).map(|_| ())
        })
    }

    /// Stores an experiment and its runs, finished or not, in place of an earlier one of that name.
    pub fn describe(&mut self, experiment: &StoredExperiment, members: &[Member]) -> Result<()> {
        let facts = serde_json::to_string(&experiment.facts).unwrap_or_default();
        self.change(|c| {
            c.execute("DELETE FROM members WHERE experiment = ?1", [&experiment.name])?;
            c.execute(
                "INSERT OR REPLACE INTO experiments (name, title, about, spec, facts) VALUES (?1, ?2, ?3, ?4, ?5)",
                [&experiment.name, &experiment.title, &experiment.about, &experiment.spec, &facts],
            )?;
            let mut insert = c.prepare("INSERT INTO members VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
            for (i, m) in members.iter().enumerate() {
                let row = params![experiment.name, i as i64, m.run, m.data, m.problem, m.solver, m.cell, m.seed as i64, m.tuned];
                insert.execute(row)?;
            }
            Ok(())
        })
    }

    /// Lists all experiments by name.
    pub fn experiments(&self) -> Result<Vec<StoredExperiment>> {
        let read = |row: &Row| -> rusqlite::Result<StoredExperiment> {
            Ok(StoredExperiment {
                name: row.get(0)?,
                title: row.get(1)?,
                about: row.get(2)?,
                spec: row.get(3)?,
                facts: serde_json::from_str(&row.get::<_, String>(4)?).unwrap_or_default(),
            })
        };
        self.rows("SELECT name, title, about, spec, facts FROM experiments ORDER BY name", &[], read)
    }

    /// Lists the runs of an experiment in order, finished or not.
    pub fn members(&self, experiment: &str) -> Result<Vec<Member>> {
        let read = |row: &Row| -> rusqlite::Result<Member> {
            Ok(Member {
                run: row.get(0)?,
                data: row.get(1)?,
                problem: row.get(2)?,
                solver: row.get(3)?,
                cell: row.get(4)?,
                seed: row.get::<_, i64>(5)? as u64,
                tuned: row.get(6)?,
            })
        };
        let query = "SELECT run, data, problem, solver, cell, seed, tuned FROM members WHERE experiment = ?1 ORDER BY position";
        self.rows(query, &[experiment], read)
    }

    /// Lists the keys of all finished runs.
    pub fn keys(&self) -> Result<Vec<String>> {
        self.rows("SELECT key FROM runs ORDER BY key", &[], |row| row.get(0))
    }

    /// Reads a finished run.
    pub fn run(&self, key: &str) -> Result<Option<StoredRun>> {
        Ok(self.rows(&format!("{RUN} WHERE key = ?1"), &[key], finished)?.pop())
    }

    /// Finds the run whose key starts with `begin`.
    pub fn find(&self, begin: &str) -> Result<StoredRun> {
        let listed = |c: char| c.is_ascii_hexdigit();
        let mut found = match begin.chars().all(listed) && !begin.is_empty() {
            true => self.rows(&format!("{RUN} WHERE key GLOB ?1 || '*' ORDER BY key LIMIT 2"), &[begin], finished)?,
            false => vec![],
        };
        match (found.pop(), found.pop()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Error::Request(format!(
                "run '{begin}' is not in {}; expected the beginning of a key that 'thalweg lab list' shows",
                self.path.display()
            ))),
            (Some(_), Some(_)) => Err(Error::Request(format!("run '{begin}': several keys begin so; expected more letters"))),
        }
    }

    /// Reads a curve of a run.
    pub fn curves(&self, run: &str, part: Part) -> Result<Vec<Curve>> {
        let read = |row: &Row| -> rusqlite::Result<Curve> {
            let (role, name): (String, String) = (row.get(0)?, row.get(1)?);
            let name = if role == "gauge" { present_name(&name) } else { name };
            Ok(Curve { role, name, numbers: unpack(row.get_ref(2)?.as_blob()?) })
        };
        let query = "SELECT role, name, numbers FROM traces WHERE run = ?1 AND part = ?2 ORDER BY position";
        self.rows(query, &[run, part.word()], read)
    }

    /// Reads the certificates of a run.
    pub fn certificates(&self, run: &str) -> Result<Option<StoredCertificates>> {
        let read = |row: &Row| -> rusqlite::Result<StoredCertificates> {
            let returned: String = row.get(1)?;
            let returned = parsed(&returned).and_then(|value| Certificates::from_json(&value).map_err(unreadable))?;
            Ok(StoredCertificates { key: row.get(0)?, returned, seconds: row.get(2)?, curves: vec![] })
        };
        let found = self.rows("SELECT key, returned, seconds FROM certificates WHERE run = ?1", &[run], read)?.pop();
        let Some(found) = found else { return Ok(None) };
        Ok(Some(StoredCertificates { curves: self.curves(run, Part::Certified)?, ..found }))
    }

    /// Reads the stored reference values of a problem.
    pub fn references(&self, key: &str) -> Result<Vec<Best>> {
        let found: Vec<String> = self.rows("SELECT best FROM reference_values WHERE key = ?1", &[key], |row| row.get(0))?;
        Ok(found.first().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Stores the reference values of a problem.
    pub fn keep_references(&mut self, key: &str, best: &[Best]) -> Result<()> {
        let text = serde_json::to_string(best).unwrap_or_default();
        self.change(|c| c.execute("INSERT OR REPLACE INTO reference_values VALUES (?1, ?2)", [key, &text]).map(|_| ()))
    }

    /// Deletes runs; returns how many there were.
    pub fn forget(&mut self, keys: &[String]) -> Result<usize> {
        self.change(|c| {
            let mut delete = c.prepare("DELETE FROM runs WHERE key = ?1")?;
            keys.iter().map(|key| delete.execute([key])).sum()
        })
    }

    /// Deletes an experiment; its runs stay.
    pub fn forget_experiment(&mut self, name: &str) -> Result<()> {
        self.change(|c| c.execute("DELETE FROM experiments WHERE name = ?1", [name]).map(|_| ()))
    }

    fn rows<T>(&self, query: &str, given: &[&str], read: impl FnMut(&Row) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        let all = || {
            let mut prepared = self.connection.prepare_cached(query)?;
            let rows = prepared.query_map(rusqlite::params_from_iter(given), read)?;
            rows.collect::<rusqlite::Result<Vec<T>>>()
        };
        all().map_err(|e| self.fail(e))
    }
}

impl Owner {
    /// Returns the path of a file in the directory of locks and checkpoints.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Files that cannot be removed do no harm; the directory is removed with its last file.
        let _ = std::fs::remove_file(self.directory.join(&self.name));
        if clean(&self.directory) == 0 {
            remove_incomplete(&self.directory);
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// Returns whether the process that owns a claim is still running.
fn alive(directory: &Path, owner: &str) -> bool {
    let Ok(file) = OpenOptions::new().write(true).open(directory.join(owner)) else { return false };
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// Removes the files of dead processes: locks, and locks that were not yet renamed. A process whose file is removed before it is
/// locked creates it again. Returns the number of processes that are alive.
fn clean(directory: &Path) -> usize {
    let mut living = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(OWNER) || name.starts_with(BEGUN) {
            if alive(directory, &name) {
                living += 1;
            } else {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
    living
}

/// Removes the checkpoints that killed processes left incomplete. No process may be writing one.
fn remove_incomplete(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if output_file::is_incomplete(&entry.file_name().to_string_lossy()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

const RUN: &str = "SELECT key, method, version, seed, status, ended, objective, violation, iterations, passes_f, passes_g, samples, \
                   seconds, point, spec, outcome, notes, host, data_hash, finished FROM runs";

fn finished(row: &Row) -> rusqlite::Result<StoredRun> {
    let value = |i: usize| -> rusqlite::Result<Value> { parsed(row.get_ref(i)?.as_str()?) };
    let outcome = value(15)?;
    Ok(StoredRun {
        key: row.get(0)?,
        method: row.get(1)?,
        version: row.get(2)?,
        seed: row.get::<_, i64>(3)? as u64,
        status: Status::from_word(row.get_ref(4)?.as_str()?).unwrap_or(Status::Failed),
        ended: row.get(5)?,
        objective: row.get(6)?,
        violation: row.get(7)?,
        iterations: row.get::<_, i64>(8)? as u64,
        passes_f: row.get(9)?,
        passes_g: row.get(10)?,
        samples: row.get::<_, i64>(11)? as u64,
        seconds: row.get(12)?,
        point: row.get_ref(13)?.as_blob_or_null()?.map(unpack),
        spec: serde_json::from_value(value(14)?).map_err(unreadable)?,
        outcome: if outcome.is_null() { None } else { Some(Finished::from_json(&outcome).map_err(unreadable)?) },
        notes: serde_json::from_value(value(16)?).map_err(unreadable)?,
        host: serde_json::from_value(value(17)?).map_err(unreadable)?,
        data_hash: row.get(18)?,
        finished: row.get(19)?,
    })
}

fn insert(c: &Connection, run: &StoredRun, curves: &[Curve]) -> rusqlite::Result<()> {
    // A value that is not finite cannot be compared in SQL, so it is stored as NULL.
    let finite = |v: Option<f64>| v.filter(|v| v.is_finite());
    c.prepare_cached(
        "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
    )?
    .execute(params![
        run.key,
        run.method,
        run.version,
        run.seed as i64,
        run.status.word(),
        run.ended,
        finite(run.objective),
        finite(run.violation),
        run.iterations as i64,
        run.passes_f,
        run.passes_g,
        run.samples as i64,
        run.seconds,
        run.point.as_deref().map(pack),
        json(&run.spec)?,
        json(&run.outcome)?,
        json(&run.notes)?,
        json(&run.host)?,
        run.data_hash,
        run.finished,
    ])?;
    insert_curves(c, &run.key, Part::Recorded, curves)
}

fn insert_curves(c: &Connection, run: &str, part: Part, curves: &[Curve]) -> rusqlite::Result<()> {
    let mut insert = c.prepare_cached("INSERT INTO traces VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (i, curve) in curves.iter().enumerate() {
        insert.execute(params![run, part.word(), curve.role, i as i64, curve.name, pack(&curve.numbers)])?;
    }
    Ok(())
}

fn parsed(text: &str) -> rusqlite::Result<Value> {
    serde_json::from_str(text).map_err(unreadable)
}

fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

/// Converts an error in a JSON column.
fn unreadable(e: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
}

fn pack(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn unpack(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect()
}

/// Converts an SQLite error to a message about the file.
fn broken(path: &Path, e: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, ReadOnly};
    let what = match e.sqlite_error_code() {
        Some(NotADatabase) => "is not a store of Thalweg; expected an SQLite file that 'thalweg lab run' has made".into(),
        Some(DatabaseCorrupt) => "is a damaged store: part of it is missing or was overwritten".into(),
        Some(CannotOpen) => "cannot be opened".into(),
        Some(ReadOnly) => "cannot be written: it is read-only".into(),
        Some(DiskFull) => "cannot be written: the disk is full".into(),
        Some(DatabaseBusy | DatabaseLocked) => "is in use: another process has held it for a minute".into(),
        _ => format!("cannot be used: {e}"),
    };
    Error::file(path, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_another_process_holds_is_named() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("store.sqlite");
        let mut store = Store::create(&path).unwrap();
        store.connection.busy_timeout(Duration::from_millis(10)).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        for error in [store.keys().unwrap_err(), store.forget(&["k".into()]).unwrap_err()] {
            assert!(error.to_string().ends_with("store.sqlite: is in use: another process has held it for a minute"), "{error}");
        }
        other.execute_batch("COMMIT").unwrap();
        assert!(store.keys().unwrap().is_empty());
    }
}
