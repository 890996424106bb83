//! Executes one task of an experiment, from the problem to the store: a run, or the certificates of a finished run.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use thalweg::Note;
use thalweg::run::{self, Budget, Checkpoint, Observer, Outcome, Progress, Record, StopReason};
use thalweg::solvers::StepKind;

use super::experiment::CertificateRequest;
use super::host;
use super::keys::plain;
use super::schedule::{ProgressObserver, Scheduler, Task, lock};
use super::store::{Curve, Part, RunSpec, StoredCertificates, StoredRun};
use crate::job::{Certificates, Finished, Instance, RunSetup, equip, execute, finish};
use crate::verdict::Status;
use crate::{Error, Result, console};

/// Interval between two progress reports.
const REPORT: Duration = Duration::from_millis(200);

impl Scheduler<'_> {
    /// Executes a task and stores its result. Returns a summary, or `None` if the task was interrupted. Fails only if the
    /// store does.
    pub(super) fn execute(&self, worker: usize, task: &Task) -> Result<Option<String>> {
        let mut progress = Reporter { watch: self.watch, worker, share_sent: Instant::now(), state_sent: Instant::now() };
        let file = self.owner.file(&format!("{}.save", task.key));
        // A panic in a solver fails its run, not the experiment.
        let run = || match task.certify {
            true => self.certify(task, &file, &mut progress),
            false => self.run(task, &file, &mut progress),
        };
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<&str>().map(|s| s.to_string()).or(panic.downcast_ref::<String>().cloned());
            Err(Stopped::Refused(format!("it panicked: {}", words.unwrap_or_default())))
        });
        let words = match result {
            Ok(words) => words,
            Err(Stopped::Interrupted) => return Ok(None),
            Err(Stopped::Store(e)) => return Err(e),
            Err(Stopped::Refused(reason)) if task.certify => {
                let returned = Certificates::refused(reason.clone());
                let certificates = StoredCertificates { key: task.key.clone(), returned, seconds: 0.0, curves: vec![] };
                lock(&self.store).certify(&task.run, &certificates)?;
                format!("refused: {reason}")
            }
            Err(Stopped::Refused(reason)) => {
                let run = self.refused(task, &reason)?;
                lock(&self.store).finish(&run, &[])?;
                format!("refused: {reason}")
            }
        };
        self.remove_checkpoint(task);
        Ok(Some(words))
    }

    /// Removes the checkpoint of a finished task. One that a killed process left incomplete is removed with the last owner.
    pub(super) fn remove_checkpoint(&self, task: &Task) {
        let _ = std::fs::remove_file(self.owner.file(&format!("{}.save", task.key)));
    }

    /// Sets up the run of a task. After an interrupt the choice of pilot runs is not the usual one, and a run with it would
    /// replace the checkpoint.
    fn equip(&self, task: &Task, instance: &Instance) -> Result<RunSetup, Stopped> {
        let interrupt = Some(Arc::clone(&self.how.interrupt));
        let setup = equip(&task.grid_run.spec, instance, &self.experiment.file, interrupt);
        if self.how.interrupt.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted);
        }
        setup.map_err(|e| Stopped::Refused(e.to_string()))
    }

    /// Runs the solver, from a checkpoint if a valid one exists.
    fn minimize(
        &self,
        task: &Task,
        instance: &Instance,
        setup: &mut RunSetup,
        file: &Path,
        watch: &mut Reporter,
    ) -> Result<Outcome, Stopped> {
        let settings = format!("{} {}", task.key, setup.settings);
        let checkpoint =
            |resume| Checkpoint { file: file.into(), every: self.how.checkpoint_every, resume, settings: settings.clone() };
        setup.options.threads = self.experiment.threads;
        setup.options.checkpoint = Some(checkpoint(file.exists()));
        let mut outcome = execute(instance, setup, watch);
        if let (Err(thalweg::Error::Checkpoint(_)), true) = (&outcome, file.exists()) {
            // The checkpoint is damaged or from another build, so the run starts again.
            setup.options.checkpoint = Some(checkpoint(false));
            outcome = execute(instance, setup, watch);
        }
        let mut outcome = outcome.map_err(|e| Stopped::Refused(e.to_string()))?;
        if outcome.ended == StopReason::Interrupted {
            return Err(Stopped::Interrupted);
        }
        // A continued run has the same result as an uninterrupted one.
        outcome.notes.retain(|note| !matches!(note, Note::Continued { .. }));
        outcome.notes.splice(0..0, setup.notes.iter().cloned());
        Ok(outcome)
    }

    /// Executes a run and stores it.
    fn run(&self, task: &Task, file: &Path, watch: &mut Reporter) -> Result<String, Stopped> {
        let refuse = |e: Error| Stopped::Refused(e.to_string());
        let instance = self.problem(task).map_err(Stopped::Refused)?;
        let mut setup = self.equip(task, &instance)?;
        let names = setup.options.metrics.as_ref().map_or_else(Vec::new, |metrics| metrics.names());
        let outcome = self.minimize(task, &instance, &mut setup, file, watch)?;
        let finished = finish(&instance, &setup, outcome);
        let curves = curves(&finished.outcome, &names);
        let run = self.stored(task, &instance, finished).map_err(refuse)?;
        lock(&self.store).finish(&run, &curves).map_err(Stopped::Store)?;
        Ok(match run.objective {
            Some(objective) => format!("{}, objective {objective:.6}, {:.1} s", run.status.word(), run.seconds),
            None => format!("{}: {}", run.status.word(), run.ended),
        })
    }

    /// Converts a finished run to a row of the store.
    fn stored(&self, task: &Task, instance: &Instance, finished: Finished) -> Result<StoredRun> {
        let finite = |v: f64| Some(v).filter(|v| v.is_finite());
        let o = &finished.outcome;
        Ok(StoredRun {
            method: o.solver.clone(),
            status: finished.status,
            ended: finished.message(),
            objective: finite(o.point.objective),
            violation: finite(o.point.violation),
            iterations: o.iterations,
            passes_f: o.passes.objective,
            passes_g: o.passes.constraints,
            samples: o.counts.samples(),
            seconds: o.seconds,
            // A transport plan can have millions of entries; repeating the run restores it.
            point: Some(instance.problem.of_model(&o.point.x).to_vec()),
            notes: o.notes.clone(),
            data_hash: instance.fingerprint.clone(),
            outcome: Some(finished.for_store()),
            ..self.empty_run(task)?
        })
    }

    /// Returns the row of a run that could not start.
    fn refused(&self, task: &Task, reason: &str) -> Result<StoredRun> {
        Ok(StoredRun { ended: reason.into(), ..self.empty_run(task)? })
    }

    /// Returns a row of the store without a result.
    fn empty_run(&self, task: &Task) -> Result<StoredRun> {
        let method = task.grid_run.table.get("solver").and_then(|s| s.get("name")).and_then(toml::Value::as_str);
        Ok(StoredRun {
            key: task.key.clone(),
            method: method.unwrap_or_default().into(),
            version: task.grid_run.spec.solver_version()?,
            seed: task.grid_run.seed,
            status: Status::Refused,
            ended: String::new(),
            objective: None,
            violation: None,
            iterations: 0,
            passes_f: 0.0,
            passes_g: 0.0,
            samples: 0,
            seconds: 0.0,
            point: None,
            spec: RunSpec::new(&plain(Some(&toml::Value::Table(task.grid_run.table.clone())))),
            outcome: None,
            notes: vec![],
            host: self.host.clone(),
            data_hash: self.data[task.grid_run.data].clone().unwrap_or_default(),
            finished: host::now(),
        })
    }

    /// Repeats a run, which reproduces its iterates, and certifies some of them.
    fn certify(&self, task: &Task, file: &Path, watch: &mut Reporter) -> Result<String, Stopped> {
        let begun = Instant::now();
        let Some(CertificateRequest { points, how }) = self.experiment.certified else { return Ok("nothing to certify".into()) };
        let (stored, recorded) = {
            let store = lock(&self.store);
            let stored = store.run(&task.run).map_err(Stopped::Store)?;
            (stored, store.curves(&task.run, Part::Recorded).map_err(Stopped::Store)?)
        };
        let Some(stored) = stored else { return Err(Stopped::Refused("the run is not in the store any more".into())) };
        let instance = self.problem(task).map_err(Stopped::Refused)?;
        let mut setup = self.equip(task, &instance)?;
        let how = setup.relax(how);
        setup.options = run::Options {
            budget: Budget::iterations(stored.iterations),
            record: Record { at: Some(even(stored.iterations, points)), ..Record::default() },
            stop: run::StoppingRule::default(),
            certificate: how,
            metrics: None,
            ..setup.options
        };
        let outcome = self.minimize(task, &instance, &mut setup, file, watch)?;
        // The store holds the model part of the point, which is all of it in most problems.
        let whole = |x: &&Vec<f64>| x.len() == instance.problem.oracle().dim();
        let point = stored.point.as_ref().filter(whole).unwrap_or(&outcome.point.x);
        let curves = curves(&outcome, &[]);
        let repeats = Some(repeats(&recorded, &curves));
        let returned = Certificates { repeats, ..Certificates::compute(&how, &instance.problem, point) };
        let seconds = begun.elapsed().as_secs_f64();
        let certificates = StoredCertificates { key: task.key.clone(), returned, seconds, curves };
        lock(&self.store).certify(&task.run, &certificates).map_err(Stopped::Store)?;
        Ok(format!("{} iterates, {seconds:.1} s", outcome.trace.len()))
    }
}

/// Reason why a task has no result.
enum Stopped {
    Interrupted,
    Refused(String),
    Store(Error),
}

/// Returns evenly spaced iterations from the first to the last, with `points` intervals.
fn even(last: u64, points: u64) -> Vec<u64> {
    let mut at: Vec<u64> = (0..=points).map(|i| (u128::from(last) * u128::from(i) / u128::from(points)) as u64).collect();
    at.dedup();
    at
}

/// Returns whether two curves agree bit for bit at their common iterates.
fn repeats(recorded: &[Curve], again: &[Curve]) -> bool {
    let column =
        |curves: &[Curve], name: &str| curves.iter().find(|c| c.name == name).map_or_else(Vec::new, |c| c.numbers.clone());
    let known: HashMap<u64, u64> = column(recorded, "iterations")
        .into_iter()
        .zip(column(recorded, "objective"))
        .map(|(t, f)| (t.to_bits(), f.to_bits()))
        .collect();
    let mut pairs = column(again, "iterations").into_iter().zip(column(again, "objective"));
    pairs.all(|(t, f)| known.get(&t.to_bits()).is_none_or(|bits| *bits == f.to_bits()))
}

/// Converts a trace to columns.
fn curves(outcome: &Outcome, metrics: &[String]) -> Vec<Curve> {
    let rows = &outcome.trace;
    let mut curves = vec![];
    let mut column = |role: &str, name: &str, get: &dyn Fn(&run::Row) -> f64| {
        curves.push(Curve { role: role.into(), name: name.into(), numbers: rows.iter().map(get).collect() });
    };
    column("axis", "iterations", &|r| r.iteration as f64);
    column("axis", "passes_f", &|r| r.passes_f);
    column("axis", "passes_g", &|r| r.passes_g);
    column("axis", "samples", &|r| r.samples as f64);
    column("axis", "seconds", &|r| r.seconds);
    column("value", "objective", &|r| r.objective);
    column("value", "violation", &|r| r.violation);
    let constraints = &outcome.point.constraints;
    column("value", "feasible", &|r| f64::from(r.violated == 0 && r.objective.is_finite()));
    let total = outcome.point.total;
    if total > 1 {
        column("value", "violated", &|r| r.violated as f64 / total as f64);
    }
    column("value", "norm", &|r| r.norm);
    column("value", "step", &|r| match r.step {
        None => 0.0,
        Some(StepKind::Objective) => 1.0,
        Some(StepKind::Constraint) => 2.0,
        Some(StepKind::Other) => 3.0,
    });
    type Optional = (&'static str, fn(&run::Row) -> Option<f64>);
    let optional: [Optional; 4] = [
        ("stationarity_lower", |r| r.stationarity_bounds.map(|(lower, _)| lower)),
        ("stationarity_upper", |r| r.stationarity_bounds.map(|(_, upper)| upper)),
        ("stationarity", |r| r.stationarity),
        ("penalty_stationarity", |r| r.penalty_stationarity),
    ];
    for (name, get) in optional.into_iter().filter(|(_, get)| rows.iter().any(|r| get(r).is_some())) {
        column("value", name, &|r| get(r).unwrap_or(f64::NAN));
    }
    // Rows list no constraints if there are very many.
    for (j, c) in constraints.iter().enumerate().filter(|_| total <= run::MAX_LISTED_CONSTRAINTS) {
        column("constraint", &c.name, &|r| r.constraints.get(j).copied().unwrap_or(f64::NAN));
    }
    for (j, name) in metrics.iter().enumerate() {
        column("gauge", name, &|r| r.metrics.get(j).copied().unwrap_or(f64::NAN));
    }
    curves
}

/// Observer that forwards the progress of a run at a readable rate.
struct Reporter<'a> {
    watch: &'a dyn ProgressObserver,
    worker: usize,
    /// When the completed share and the state of an iterate were last sent.
    share_sent: Instant,
    state_sent: Instant,
}

impl Observer for Reporter<'_> {
    fn recorded(&mut self, row: &run::Row, _: &[f64], _: &run::Diagnostics) {
        if self.state_sent.elapsed() >= REPORT {
            self.state_sent = Instant::now();
            self.watch.progressed(self.worker, f64::NAN, Some(console::state(row)));
        }
    }

    fn progressed(&mut self, progress: &Progress) {
        if self.share_sent.elapsed() >= REPORT {
            self.share_sent = Instant::now();
            self.watch.progressed(self.worker, progress.share, None);
        }
    }
}
