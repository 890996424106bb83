//! The runs of a store as rows of plain values, for tables and for people who analyse them elsewhere. Nothing is judged or
//! printed here: the page is [`super::page`], the command's own words are in [`crate::commands::lab`].

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use thalweg::Note;

use super::grid::{describe, panel};
use super::page::certificate_of;
use super::store::{Curve, Member, Part, Store, Stored, StoredRun};
use crate::verdict::Status;
use crate::{Error, Result};

/// A run's place in an experiment, and what came of the run. A run that is planned and not finished has its place alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name of the experiment; empty for a run that none has any more.
    pub experiment: String,
    /// Key of the run, labels of its data, problem and solver, its cell, its seed, and whether the cell is kept.
    #[serde(flatten)]
    pub member: Member,
    /// Name of the method.
    pub method: Option<String>,
    /// How it came out; none if it has not finished.
    pub status: Option<Status>,
    /// Why it ended, in words.
    pub ended: Option<String>,
    /// Objective at the returned point.
    pub objective: Option<f64>,
    /// Largest constraint there.
    pub violation: Option<f64>,
    /// Steps made.
    pub iterations: Option<u64>,
    /// Passes of the objective.
    pub passes_f: Option<f64>,
    /// Passes of the constraints.
    pub passes_g: Option<f64>,
    /// Samples read.
    pub samples: Option<u64>,
    /// Time without measuring.
    pub seconds: Option<f64>,
    /// The proximal point of the returned point is at least this far away.
    pub certificate_lower: Option<f64>,
    /// And at most this far.
    pub certificate_upper: Option<f64>,
    /// The table `[solver]` of the run's spec; null if it has not finished.
    pub settings: Value,
    /// What a careful reader should know.
    pub notes: Vec<Note>,
    /// When it finished, in seconds since 1970.
    pub finished: Option<String>,
}

impl Line {
    fn new(store: &Store, experiment: &str, member: Member, run: Option<StoredRun>) -> Result<Self> {
        let certificate = run.as_ref().map(|run| certificate_of(store, run)).transpose()?.flatten();
        let [lower, upper] = certificate.map_or([None; 2], |bounds| bounds.map(Some));
        let of = run.as_ref();
        Ok(Line {
            experiment: experiment.into(),
            member,
            method: of.map(|r| r.method.clone()),
            status: of.map(|r| r.status),
            ended: of.map(|r| r.ended.clone()),
            objective: of.and_then(|r| r.objective),
            violation: of.and_then(|r| r.violation),
            iterations: of.map(|r| r.iterations),
            passes_f: of.map(|r| r.passes_f),
            passes_g: of.map(|r| r.passes_g),
            samples: of.map(|r| r.samples),
            seconds: of.map(|r| r.seconds),
            certificate_lower: lower,
            certificate_upper: upper,
            settings: of.map_or(Value::Null, |r| r.spec.solver.clone()),
            notes: of.map_or(vec![], |r| r.notes.clone()),
            finished: of.map(|r| r.finished.clone()),
        })
    }

    /// The run's name in words.
    pub fn name(&self) -> String {
        let m = &self.member;
        describe(&panel(&m.data, &m.problem), &m.solver, &m.cell, m.seed)
    }

    /// How it came out, in a word.
    pub fn word(&self) -> &'static str {
        self.status.map_or("not run", Status::word)
    }

    /// It failed, or could not begin.
    pub fn failed(&self) -> bool {
        self.status.is_some_and(Status::is_failure)
    }
}

/// All runs, or those of one experiment, in the order of their experiments; last those that belong to none.
pub fn lines(store: &Store, experiment: Option<&str>) -> Result<Vec<Line>> {
    let mut lines = vec![];
    for e in chosen(store, experiment)? {
        for member in store.members(&e.name)? {
            let run = store.run(&member.run)?;
            lines.push(Line::new(store, &e.name, member, run)?);
        }
    }
    if experiment.is_none() {
        // Runs of specs that have changed since are still there.
        let known: HashSet<String> = lines.iter().map(|line| line.member.run.clone()).collect();
        for key in store.keys()?.into_iter().filter(|key| !known.contains(key)) {
            if let Some(run) = store.run(&key)? {
                let data = run.spec.data.name.clone().or(run.spec.data.file.clone()).unwrap_or("data".into());
                let (solver, seed) = (run.method.clone(), run.seed);
                let (problem, cell) = (String::new(), String::new());
                let member = Member { run: key, data, problem, solver, cell, seed, tuned: false };
                lines.push(Line::new(store, "", member, Some(run))?);
            }
        }
    }
    Ok(lines)
}

/// The curves of those lines that have any, each with its place among the lines: of recorded iterates or of certified ones.
pub fn curves(store: &Store, lines: &[Line], part: Part) -> Result<Vec<(usize, Vec<Curve>)>> {
    let mut all = vec![];
    for (i, line) in lines.iter().enumerate() {
        let curves = store.curves(&line.member.run, part)?;
        if !curves.is_empty() {
            all.push((i, curves));
        }
    }
    Ok(all)
}

/// The experiments of a store, or the one that is asked for.
pub fn chosen(store: &Store, name: Option<&str>) -> Result<Vec<Stored>> {
    let all = store.experiments()?;
    let Some(name) = name else { return Ok(all) };
    let names: Vec<String> = all.iter().map(|e| e.name.clone()).collect();
    let found: Vec<Stored> = all.into_iter().filter(|e| e.name == name).collect();
    if found.is_empty() {
        let hint = thalweg::suggest::did_you_mean(name, names.iter().map(String::as_str));
        let wanted =
            if names.is_empty() { "there is none in the store".into() } else { format!("expected one of {}", names.join(", ")) };
        return Err(Error::Request(format!("experiment '{name}' is not known{hint}; {wanted}")));
    }
    Ok(found)
}
