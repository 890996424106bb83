//! Measures and certifies a given point, from a model or from a spec with a point. Values recorded in the file are recomputed,
//! not reused; the certificates are computed in the library.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use thalweg::Note;
use thalweg::certify::{Bounds, Certificate, Conflict, certify, certify_conflict, certify_with_record};
use thalweg::learn::{Coverage, Data, Enforce, Interval, Learning, RowSplit, intervals};
use thalweg::oracle::Description;
use thalweg::run;

use crate::data::catalogue::{Options, load_wide_file};
use crate::data::columns::select_columns;
use crate::data::source::read_file;
use crate::data::table::Table;
use crate::encode::weights;
use crate::fit::parse_domain;
use crate::job::{Instance, ModelTerms, Problem, pose};
use crate::model::{Input, Model, Rows};
use crate::output::message;
use crate::proof::Proof;
use crate::spec::{Spec, base_of, numbers_of};
use crate::{Error, Result};

/// Point and the problem at which it is measured.
pub struct Subject {
    /// Problem with the requested bounds; surrogates as they were trained.
    problem: Problem,
    /// The same problem on held-out rows.
    held_out: Option<Learning>,
    /// Why the held-out rows cannot be used.
    held_out_refused: Option<Note>,
    x: Vec<f64>,
    /// Surrogate bound of each constraint, and the factor of its temperature.
    trained: Vec<(f64, f64)>,
    /// Whether the measured rate or its surrogate must satisfy the bound.
    enforce: Enforce,
    source: Source,
    /// File of the data, if it has one.
    file: Option<PathBuf>,
    /// Name of the data, with a fingerprint.
    data: String,
    notes: Vec<Note>,
}

/// Source of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Model saved by `thalweg fit`.
    Model,
    /// Spec of `thalweg solve`, and a point.
    Spec,
}

/// Result of measuring a point.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Whether the point is in the domain and every constraint is satisfied on the training rows.
    pub feasible: bool,
    /// Source of the point.
    pub source: Source,
    /// Description of the problem, with a hash of the data.
    pub problem: String,
    /// Number of training rows.
    pub rows: usize,
    /// Objective at the point.
    pub objective: f64,
    /// Euclidean norm of the point.
    pub norm: f64,
    /// Distance of the point from the domain.
    pub outside_domain: f64,
    /// Description of the domain.
    pub domain: String,
    /// Worst constraint: the one with the largest value relative to its bound. `None` without constraints.
    pub worst: Option<Worst>,
    /// All constraints.
    pub constraints: Vec<MeasuredConstraint>,
    /// Near-stationarity for the trained problem.
    pub certificate: Option<Certificate>,
    /// Why there is no certificate.
    pub certificate_refused: Option<String>,
    /// Proof that no point near this one, or of the domain, satisfies the constraints of the trained problem.
    pub conflict: Option<Conflict>,
    /// Constraints on held-out rows, if requested.
    pub held_out: Option<HeldOut>,
    /// Notes about the point.
    pub notes: Vec<Note>,
}

/// One constraint at the point, on the training rows.
#[derive(Debug, Clone, Serialize)]
pub struct MeasuredConstraint {
    /// Name.
    pub name: String,
    /// Requested bound.
    pub bound: f64,
    /// Value of the left-hand side as trained.
    pub value: f64,
    /// Value with measured rates; `None` if there are no surrogates.
    pub measured: Option<f64>,
    /// Surrogate bound used in training.
    pub trained_bound: f64,
    /// Factor of the surrogate's temperature.
    pub sharpened: f64,
    /// Which of the two values must satisfy the bound.
    pub enforced: Enforce,
    /// That value minus the bound.
    pub excess: f64,
    /// Tolerance of that difference.
    pub tolerance: f64,
    /// Whether the constraint is satisfied.
    pub satisfied: bool,
}

/// Worst constraint.
#[derive(Debug, Clone, Serialize)]
pub struct Worst {
    /// Name.
    pub name: String,
    /// Whether the measured rates must satisfy the bound.
    pub measured: bool,
    /// Value that must satisfy the bound.
    pub value: f64,
    /// Bound.
    pub bound: f64,
    /// Value minus bound.
    pub excess: f64,
}

/// Constraints on held-out rows.
#[derive(Debug, Clone, Serialize)]
pub struct HeldOut {
    /// Number of rows.
    pub rows: usize,
    /// Probability that an interval contains the value on unseen rows, or that all of them do.
    pub confidence: f64,
    /// Which of the two it is.
    pub coverage: Coverage,
    /// Confidence intervals.
    pub constraints: Vec<Interval>,
}

impl Subject {
    /// Reads a model with the rows it was trained on, or with those of another file.
    pub fn model(path: &Path, data: Option<&Path>) -> Result<Self> {
        let model = Model::read(path)?;
        let damaged = |what: String| Error::file(path, format!("is a damaged model: {what}"));
        let t = &model.training;
        if t.file.is_empty() && data.is_none() {
            return Err(Error::file(path, "was trained on rows in memory, not on a file; give a file of rows with --data FILE"));
        }
        let file = data.map_or_else(|| PathBuf::from(&t.file), Path::to_path_buf);
        let (all, fingerprint, mut notes) = match data {
            Some(_) => read_rows(&model, &file)?,
            None => read_named_rows(&model, &file)?,
        };
        let same = fingerprint == t.fingerprint;
        if !same && !t.fingerprint.is_empty() {
            if data.is_none() {
                // They quote values, and the user did not name this file.
                notes.clear();
            }
            notes.push(Note::OtherData { file: file.display().to_string() });
        }
        let split = RowSplit::new(&all.labels, all.groups.as_ref(), t.test_fraction, t.safety_fraction, t.seed)?;
        let [training, held] = [&split.training, &split.test].map(|rows| all.select(rows));
        let subject_to =
            t.subject_to.iter().map(|c| c.parse()).collect::<thalweg::Result<_>>().map_err(|e| damaged(e.to_string()))?;
        let domain = t.domain.as_deref().map(parse_domain).transpose().map_err(|e| damaged(e.to_string()))?;
        let minimize = t.minimize.parse().map_err(|e: thalweg::Error| Error::file(&file, e.to_string()))?;
        let terms = ModelTerms { minimize, subject_to, intercept: t.intercept, domain, needs_erm: false };
        let build = |data: Data, trained: Option<&Learning>| -> Result<Learning> {
            let builder = terms.on(data);
            let mut problem = match trained {
                Some(trained) => builder.held_out_of(trained),
                None => builder,
            }
            .build()?;
            for (j, c) in model.measured.constraints.iter().enumerate() {
                if c.sharpened != 1.0 {
                    problem.scale_temperature(j, c.sharpened);
                }
                // A bound relative to a reference value uses that of the training rows.
                if !same && terms.subject_to[j].bound.best.is_some() {
                    problem.set_bound(j, c.bound);
                }
            }
            Ok(problem)
        };
        let problem = build(training, None).map_err(|e| Error::file(&file, e.to_string()))?;
        notes.extend(problem.references().iter().map(Note::reference));
        let held_out = (!held.labels.is_empty()).then(|| build(held, Some(&problem)));
        let (held_out, held_out_refused) = match held_out.transpose() {
            Ok(held_out) => (held_out, None),
            Err(e) => (None, Some(Note::HeldOutUnusable { reason: e.to_string() })),
        };
        notes.extend(held_out_refused.clone());
        let x = model.point();
        let subject = Subject {
            trained: model.measured.constraints.iter().map(|c| (c.surrogate_bound, c.sharpened)).collect(),
            enforce: t.enforce,
            source: Source::Model,
            data: format!("{} (sha256 {fingerprint})", file.display()),
            file: Some(file),
            problem: Problem::Model(Box::new(problem)),
            held_out,
            held_out_refused,
            x,
            notes,
        };
        subject.compare(&model, same)
    }

    /// Adds notes where the values recorded in a model differ from those on the same rows.
    fn compare(mut self, model: &Model, same_rows: bool) -> Result<Self> {
        let differ = |a: f64, b: f64| (a - b).abs() > 1e-6 * a.abs().max(b.abs()).max(1e-3);
        let problem = self.problem.terms("certify")?;
        let measured = problem.measured(&self.x)?;
        let soft = run::measure(problem, &self.x, 0.0)?;
        for (j, c) in model.measured.constraints.iter().enumerate() {
            let bound = problem.bound(j);
            if differ(bound, c.bound) {
                self.notes.push(Note::BoundDiffers { constraint: c.name.clone(), recorded: c.bound, bound });
            }
            let (now, then) = match (measured[j], c.measured) {
                (Some(now), Some(then)) => (now, then),
                _ => (soft.constraints[j].value + bound, c.surrogate),
            };
            if same_rows && differ(now, then) {
                self.notes.push(Note::ValueDiffers { constraint: c.name.clone(), recorded: then, value: now });
            }
        }
        Ok(self)
    }

    /// Reads the problem of a spec and a point, and returns the spec's settings for bounds on near-stationarity.
    pub fn spec(path: &Path, point: &Path, options: &Options) -> Result<(Self, Bounds)> {
        let spec = Spec::read(path)?;
        let bounds = spec.bounds()?;
        let (mut x, of) = read_point(point)?;
        let Instance { problem, held_out, mut notes, data_name, fingerprint, .. } = pose(&spec, path, options)?;
        problem.terms("certify")?;
        let variables = problem.oracle().dim();
        match &problem {
            Problem::Joint(joint) if x.len() == joint.model().dim() => {
                x = joint.with_best_plan(&x)?;
                notes.push(Note::PlanCompleted);
            }
            _ => {}
        }
        if x.len() != variables {
            let what = format!("has {} numbers: the problem of {} has {variables} variables", x.len(), path.display());
            return Err(Error::file(point, what));
        }
        if of.is_some_and(|of| of != problem.oracle().fingerprint()) {
            notes.push(Note::OtherProblem { point: point.display().to_string(), spec: path.display().to_string() });
        }
        let trained = (0..problem.oracle().num_constraints()).map(|j| (problem.bound(j), 1.0)).collect();
        let enforce = Enforce::Surrogate;
        let (source, data) = (Source::Spec, format!("{data_name} (sha256 {fingerprint})"));
        let file = spec.data.file.as_ref().map(|file| base_of(path).join(file));
        Ok((Subject { problem, held_out, held_out_refused: None, x, trained, enforce, source, file, data, notes }, bounds))
    }

    /// Returns the file of the data, if it has one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Measures the point. `confidence` requests intervals from held-out rows, for each line or for all, and `recorded` what the
    /// certificate follows from.
    pub fn examine(
        mut self,
        how: &Bounds,
        confidence: Option<(f64, Coverage)>,
        recorded: bool,
    ) -> Result<(Findings, Option<Proof>)> {
        let held_out = match (confidence, &self.held_out) {
            (None, _) => None,
            (Some((confidence, coverage)), Some(held)) => {
                let constraints = intervals(held, self.problem.of_model(&self.x), confidence, coverage)?;
                Some(HeldOut { rows: held.data().labels.len(), confidence, coverage, constraints })
            }
            (Some(_), None) => {
                let why = self
                    .held_out_refused
                    .map_or_else(|| "no rows were held out; expected a test fraction above 0".into(), |note| note.to_string());
                return Err(Error::Request(format!("--holdout: {why}")));
            }
        };
        let (oracle, model) = (self.problem.oracle(), self.problem.terms("certify")?);
        let point = run::measure(oracle, &self.x, how.feasibility)?;
        let measured = model.measured(self.problem.of_model(&self.x))?;
        let constraints: Vec<MeasuredConstraint> = point
            .constraints
            .iter()
            .enumerate()
            .map(|(j, c)| {
                let bound = model.bound(j);
                let (enforced, excess) = match (self.enforce, measured[j]) {
                    (Enforce::Measured, Some(measured)) => (Enforce::Measured, measured - bound),
                    _ => (Enforce::Surrogate, c.value),
                };
                let tolerance = how.feasibility * bound.abs().max(1.0);
                let (trained_bound, sharpened) = self.trained[j];
                MeasuredConstraint {
                    name: c.name.clone(),
                    bound,
                    value: c.value + bound,
                    measured: measured[j],
                    trained_bound,
                    sharpened,
                    enforced,
                    excess,
                    tolerance,
                    satisfied: excess <= tolerance,
                }
            })
            .collect();
        let outside_domain = oracle.domain().distance(&self.x)?;
        let norm = self.x.iter().map(|v| v * v).sum::<f64>().sqrt();
        // Iterates are projected, which leaves rounding errors.
        let inside = outside_domain <= 1e-9 * (1.0 + norm);
        let worst = constraints.iter().reduce(|worst, c| if c.excess > worst.excess { c } else { worst }).map(|c| Worst {
            name: c.name.clone(),
            measured: c.enforced == Enforce::Measured,
            value: c.bound + c.excess,
            bound: c.bound,
            excess: c.excess,
        });
        // Only the trained problem can be stationary, so the surrogate bounds are restored.
        for (j, &(bound, _)) in self.trained.iter().enumerate() {
            self.problem.model_mut().into_iter().for_each(|model| model.set_bound(j, bound));
        }
        let oracle = self.problem.oracle();
        let found = match recorded {
            true => certify_with_record(oracle, &self.x, how).map(|(certificate, record)| (certificate, Some(record))),
            false => certify(oracle, &self.x, how).map(|certificate| (certificate, None)),
        };
        let (certificate, record, certificate_refused) = match found {
            Ok((certificate, record)) => (Some(certificate), record, None),
            Err(e) => (None, None, Some(e.to_string())),
        };
        // Where a function fails near the point, there is no proof.
        let conflict = certify_conflict(oracle, &self.x, how).ok().flatten();
        let (conflict, conflict_record) = conflict.unzip();
        let proof = recorded.then(|| {
            let model = match &self.problem {
                Problem::Model(model) => Some(&**model),
                _ => None,
            };
            let proof = Proof::new(oracle.fingerprint(), &self.x, certificate.as_ref().zip(record), model)?
                .with_conflict(&self.x, conflict.as_ref().zip(conflict_record));
            if proof.is_empty() {
                let why = certificate_refused.as_deref().unwrap_or_default();
                return Err(Error::Request(format!("--out: there is no certificate to write: {why}")));
            }
            Ok(proof.with_data(Some(self.data.clone())))
        });
        let proof = proof.transpose()?;
        let findings = Findings {
            feasible: inside && point.objective.is_finite() && constraints.iter().all(|c| c.satisfied),
            source: self.source,
            problem: self.problem.oracle().fingerprint(),
            rows: self.problem.terms("certify")?.data().labels.len(),
            objective: point.objective,
            norm,
            outside_domain: if inside { 0.0 } else { outside_domain },
            domain: self.problem.oracle().domain().describe(),
            worst,
            constraints,
            certificate,
            certificate_refused,
            conflict,
            held_out,
            notes: self.notes,
        };
        Ok((findings, proof))
    }
}

/// Reads the rows of the file that a model names. A model may come from others and name any file that the user can read, so the
/// file is announced before it is opened, and no error quotes it.
fn read_named_rows(model: &Model, file: &Path) -> Result<(Data, String, Vec<Note>)> {
    message(format_args!("reading {}, which the model names as its training data", file.display()));
    let refuse = |what: String| Error::file(file, format!("{what}, and the model was trained on it: give it with --data FILE"));
    if let Err(e) = std::fs::File::open(file) {
        return Err(refuse(Error::io_reason(&e)));
    }
    read_rows(model, file).map_err(|_| {
        let what = "does not fit the model, which names it as its training data; give it with --data FILE to see the reason";
        Error::file(file, what)
    })
}

/// Reads all rows of a file in the format of a model's input. Also returns the file's fingerprint, and messages for the user.
fn read_rows(model: &Model, file: &Path) -> Result<(Data, String, Vec<Note>)> {
    match &model.input {
        Input::Table { labels: known, grouping, .. } => {
            let table = Table::read(file)?;
            let Rows { features, labels, groups, notes } = model.input.rows(&table)?;
            let labels = labels.ok_or_else(|| table.lacks(format!("labels in column '{}'", known.column)))?;
            if let (Some(grouping), None) = (grouping, &groups) {
                let absent = grouping.columns().iter().map(|c| c.column.as_str()).find(|name| table.column(name).is_none());
                return Err(table.lacks(format!("column '{}', which defines the groups", absent.unwrap_or_default())));
            }
            let weights = model.training.row_weights.as_ref().map(|column| weights(&table, column)).transpose()?;
            Ok((Data { features, labels, groups, weights }, table.fingerprint().into(), notes))
        }
        Input::Libsvm { columns, used, positive, negative, group } => {
            let mut loaded = load_wide_file(file, Some(*columns), *group)?;
            if !used.is_empty() {
                loaded.data.features = select_columns(&loaded.data.features, used)?;
            }
            let classes = (loaded.classes.0.to_string(), loaded.classes.1.to_string());
            if (&classes.0, &classes.1) != (positive, negative) {
                let (plus, minus) = classes;
                return Err(Error::file(file, format!("has the labels {plus} and {minus}; expected {positive} and {negative}")));
            }
            Ok((loaded.data, loaded.fingerprint, loaded.notes))
        }
    }
}

/// Reads a point: from an outcome in JSON, with the problem that it belongs to, or from plain numbers.
fn read_point(file: &Path) -> Result<(Vec<f64>, Option<String>)> {
    let bytes = read_file(file)?;
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Ok((numbers_of(&bytes, file)?, None));
    }
    let wanted = "expected the outcome that thalweg solve --out wrote, or a file of numbers";
    let outcome: Value = serde_json::from_slice(&bytes).map_err(|e| Error::file(file, format!("is not JSON: {e}; {wanted}")))?;
    let x = outcome.get("point").and_then(|p| p.get("x")).and_then(Value::as_array);
    let x = x.ok_or_else(|| Error::file(file, format!("has no list point.x; {wanted}")))?;
    let entry = |(i, v): (usize, &Value)| {
        v.as_f64().ok_or_else(|| Error::file(file, format!("entry {} of point.x is {v}; expected a finite number", i + 1)))
    };
    let x = x.iter().enumerate().map(entry).collect::<Result<_>>()?;
    Ok((x, outcome.get("problem").and_then(Value::as_str).map(String::from)))
}
