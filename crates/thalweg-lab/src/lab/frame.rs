//! The runs of a store as rows of plain values, for tables and for analysis with other tools. The HTML page is in
//! [`super::page`], the printed output in [`crate::commands::lab`].

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use thalweg::Note;

use super::grid::{describe, panel};
use super::page::certificate_of;
use super::store::{Curve, Member, Part, Store, StoredExperiment, StoredRun};
use crate::verdict::Status;
use crate::{Error, Result};

/// Position of a run in an experiment, and its result. A run that is planned but not finished has only its position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name of the experiment; empty for a run that no longer belongs to one.
    pub experiment: String,
    /// Key of the run, labels of its data, problem and solver, its cell, its seed, and whether the cell is selected.
    #[serde(flatten)]
    pub member: Member,
    /// Name of the method.
    pub method: Option<String>,
    /// Status of the result; `None` if the run has not finished.
    pub status: Option<Status>,
    /// Why the run ended, as a sentence.
    pub ended: Option<String>,
    /// Objective at the returned point.
    pub objective: Option<f64>,
    /// Largest constraint value at the returned point.
    pub violation: Option<f64>,
    /// Number of iterations.
    pub iterations: Option<u64>,
    /// Passes of the objective.
    pub passes_f: Option<f64>,
    /// Passes of the constraints.
    pub passes_g: Option<f64>,
    /// Samples read.
    pub samples: Option<u64>,
    /// Time in seconds, without measuring.
    pub seconds: Option<f64>,
    /// Lower bound on the distance from the returned point to its proximal point.
    pub certificate_lower: Option<f64>,
    /// Upper bound on that distance.
    pub certificate_upper: Option<f64>,
    /// Table `[solver]` of the run's spec; null if the run has not finished.
    pub settings: Value,
    /// Notes about the run.
    pub notes: Vec<Note>,
    /// Time of completion, such as 2026-11-16T03:15:09Z.
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

    /// Returns the name of the run.
    pub fn name(&self) -> String {
        let m = &self.member;
        describe(&panel(&m.data, &m.problem), &m.solver, &m.cell, m.seed)
    }

    /// Returns the status as one word.
    pub fn word(&self) -> &'static str {
        self.status.map_or("not run", Status::word)
    }

    /// Returns whether the run failed or could not start.
    pub fn failed(&self) -> bool {
        self.status.is_some_and(Status::is_failure)
    }
}

/// Lists all runs, or those of one experiment, in the order of their experiments. Runs that belong to none come last.
pub fn lines(store: &Store, experiment: Option<&str>) -> Result<Vec<Line>> {
    let mut lines = vec![];
    for e in chosen(store, experiment)? {
        for member in store.members(&e.name)? {
            let run = store.run(&member.run)?;
            lines.push(Line::new(store, &e.name, member, run)?);
        }
    }
    if experiment.is_none() {
        // Runs of specs that have changed since are still in the store.
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

/// Reads the curves of recorded or certified iterates, each with the index of its line. Lines without curves are omitted.
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

/// Lists the experiments of a store, or only the named one.
pub fn chosen(store: &Store, name: Option<&str>) -> Result<Vec<StoredExperiment>> {
    let all = store.experiments()?;
    let Some(name) = name else { return Ok(all) };
    let names: Vec<String> = all.iter().map(|e| e.name.clone()).collect();
    let found: Vec<StoredExperiment> = all.into_iter().filter(|e| e.name == name).collect();
    if found.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = if names.is_empty() {
            "; there is none in the store".into()
        } else {
            thalweg::suggest::did_you_mean_one_of(name, &names)
        };
        return Err(Error::Request(format!("unknown experiment '{name}'{hint}")));
    }
    Ok(found)
}
