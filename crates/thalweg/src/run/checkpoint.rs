//! Checkpoints: the state of a run in a file. No other module of the library touches files. A checkpoint is written whole, by
//! [`output_file`], so that killing the process at any moment leaves either the old checkpoint or the new one.

pub mod output_file;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use serde::{Deserialize, Serialize};

use self::output_file::OutputFile;
use super::{Checkpoint, Options, Point, Row};
use crate::eval::{Evaluator, Memory};
use crate::oracle::Values;
use crate::solvers::{Method, State};
use crate::{Error, Result};

const MAGIC: &[u8; 16] = b"thalweg-run-save";
const VERSION: u32 = 5;
/// Length of the header: magic, version, length and checksum of the payload.
const HEADER: usize = 16 + 4 + 8 + 8;

/// Contents of a checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    fingerprint: String,
    settings: String,
    method: String,
    version: u32,
    seed: u64,
    pub(super) solver: State,
    pub(super) memory: Memory,
    pub(super) iteration: u64,
    pub(super) seconds: f64,
    pub(super) trace: Vec<Row>,
    pub(super) best: Option<Point>,
}

/// FNV-1a, which is enough to detect a damaged file.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// Checks that the file can be written, and read again.
pub(super) fn probe(plan: &Checkpoint) -> Result<()> {
    let fail = |what: &dyn std::fmt::Display| Error::Checkpoint(format!("{} cannot be written: {what}", plan.file.display()));
    if plan.file.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(fail(&"a device or a pipe cannot be read again; expected a file"));
    }
    output_file::check_writable(&plan.file).map_err(|e| fail(&e))
}

/// The state of the loop, beside that of the solver and of the evaluator.
pub(super) struct Position<'a> {
    pub(super) iteration: u64,
    pub(super) seconds: f64,
    pub(super) trace: &'a [Row],
    pub(super) best: Option<&'a Point>,
}

/// Writes a checkpoint.
pub(super) fn save<P: Values + ?Sized>(
    plan: &Checkpoint,
    method: &dyn Method,
    options: &Options,
    ev: &Evaluator<P>,
    at: Position,
) -> Result<()> {
    let saved = Saved {
        fingerprint: ev.problem().fingerprint(),
        settings: plan.settings.clone(),
        method: method.name().into(),
        version: method.version(),
        seed: options.seed,
        solver: method.save()?,
        memory: ev.memory().clone(),
        iteration: at.iteration,
        seconds: at.seconds,
        trace: at.trace.to_vec(),
        best: at.best.cloned(),
    };
    let fail =
        |what: &str, e: &dyn std::fmt::Display| Error::Checkpoint(format!("{} cannot be {what}: {e}", plan.file.display()));
    let payload = postcard::to_stdvec(&saved).map_err(|e| fail("packed", &e))?;
    let write = || -> std::io::Result<()> {
        let mut file = OutputFile::create(&plan.file)?;
        file.write_all(MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&(payload.len() as u64).to_le_bytes())?;
        file.write_all(&checksum(&payload).to_le_bytes())?;
        file.write_all(&payload)?;
        file.commit(true)
    };
    write().map_err(|e| fail("written", &e))
}

/// Returns the settings that differ, if the two lists have the same length. Otherwise returns the lists from the setting before the first
/// one that differs.
fn difference(theirs: &str, ours: &str) -> (String, String) {
    let (a, b): (Vec<&str>, Vec<&str>) = (theirs.split(", ").collect(), ours.split(", ").collect());
    if a.len() != b.len() {
        let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count().saturating_sub(1);
        let from = |list: &[&str]| if start > 0 { format!("…, {}", list[start..].join(", ")) } else { list.join(", ") };
        return (from(&a), from(&b));
    }
    let (a, b): (Vec<&str>, Vec<&str>) = a.into_iter().zip(b).filter(|(a, b)| a != b).unzip();
    (a.join(", "), b.join(", "))
}

/// Reads the checkpoint and checks that it belongs to this run. Returns `None` if the file does not exist.
pub(super) fn load<P: Values + ?Sized>(
    plan: &Checkpoint,
    problem: &P,
    method: &dyn Method,
    options: &Options,
) -> Result<Option<Saved>> {
    let bad = |why: String| Error::Checkpoint(format!("{} {why}", plan.file.display()));
    let unreadable = |e| bad(format!("cannot be read: {e}"));
    let mut file = match File::open(&plan.file) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    // The rest of another file, or an endless device, is not read.
    let mut bytes = vec![];
    Read::by_ref(&mut file).take(HEADER as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.starts_with(MAGIC) {
        file.read_to_end(&mut bytes).map_err(unreadable)?;
    }
    let number = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    if bytes.get(..16) != Some(MAGIC) {
        return Err(bad("is not a Thalweg checkpoint".into()));
    }
    let version = bytes.get(16..20).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    match version {
        Some(VERSION) => {}
        Some(v) => return Err(bad(format!("has format version {v}, but this build reads version {VERSION} only"))),
        None => return Err(bad("is truncated".into())),
    }
    let (Some(length), Some(sum), Some(payload)) = (number(20), number(28), bytes.get(HEADER..)) else {
        return Err(bad("is truncated".into()));
    };
    if (payload.len() as u64) < length {
        return Err(bad(format!("is truncated: it has {} of {length} bytes", payload.len())));
    }
    if payload.len() as u64 > length || checksum(payload) != sum {
        return Err(bad("is damaged: its checksum does not fit".into()));
    }
    let saved: Saved = postcard::from_bytes(payload).map_err(|e| bad(format!("is damaged: {e}")))?;
    let same = |what: &str, theirs: &str, ours: &str| {
        if theirs == ours {
            return Ok(());
        }
        let (theirs, ours) = difference(theirs, ours);
        let (is, it_is) = if what == "settings" { ("are", "they are") } else { ("is", "it is") };
        Err(bad(format!("belongs to another run: its {what} {is} '{theirs}', here {it_is} '{ours}'")))
    };
    same("problem", &saved.fingerprint, &problem.fingerprint())?;
    same("method", &saved.method, method.name())?;
    same("method's version", &saved.version.to_string(), &method.version().to_string())?;
    same("seed", &saved.seed.to_string(), &options.seed.to_string())?;
    same("settings", &saved.settings, &plan.settings)?;
    Ok(Some(saved))
}
