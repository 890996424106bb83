//! Running an experiment: what has to be done, in which order, by several workers, beside other processes on the same store. What
//! is shown meanwhile is behind [`Watch`]; what is kept is [`super::store`]'s.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thalweg::Note;
use thalweg::run::{self, Budget, Checkpoint, Observer, Outcome, Progress, Record, StopReason};
use thalweg::solvers::StepKind;

use super::choose::{choose, look};
use super::experiment::{By, Certified, Experiment, Job, Tune, Wanted, matches, short};
use super::host;
use super::store::{Certificates, Claim, Curve, Facts, Finished, Member, Owner, Part, Status, Store, Stored};
use crate::console;
use crate::data::catalogue;
use crate::model::Reference;
use crate::spec::{Equipped, Posed};
use crate::{Error, Result};

/// Raised when terms, domains or reference values change the numbers of every solver.
const RESULTS: u32 = 2;
/// Between two looks at what another process is working on.
const LOOK: Duration = Duration::from_millis(200);

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Runs at a time.
    pub jobs: usize,
    /// Only runs whose names contain this; `*` stands for anything.
    pub only: Option<String>,
    /// Runs that are finished are run again.
    pub fresh: bool,
    /// Time between two checkpoints of a run.
    pub checkpoint_every: Duration,
    /// Where data sets are looked for.
    pub catalogue: catalogue::Options,
    /// Set from elsewhere to end soon.
    pub interrupt: Arc<AtomicBool>,
}

/// Told what goes on.
pub trait Watch: Sync {
    /// The number of jobs has become known, or has changed.
    fn planned(&self, total: usize);
    /// A worker begins.
    fn started(&self, worker: usize, name: &str);
    /// Where it is: a share between 0 and 1, and the last recorded iterate in words.
    fn progressed(&self, worker: usize, share: f64, words: Option<String>);
    /// A job is finished, by this worker or, without one, before or elsewhere.
    fn finished(&self, worker: Option<usize>, name: &str, words: &str);
    /// A worker has nothing to do: this many jobs are with other processes.
    fn waiting(&self, worker: usize, jobs: usize);
}

/// Watches nothing.
impl Watch for () {
    fn planned(&self, _: usize) {}
    fn started(&self, _: usize, _: &str) {}
    fn progressed(&self, _: usize, _: f64, _: Option<String>) {}
    fn finished(&self, _: Option<usize>, _: &str, _: &str) {}
    fn waiting(&self, _: usize, _: usize) {}
}

/// What a run of an experiment came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Jobs that were worked on here.
    pub worked: usize,
    /// Jobs that were there already, or that another process did.
    pub found: usize,
    /// Someone asked for an end.
    pub interrupted: bool,
}

/// A unit of work.
struct Task {
    /// What it is found by when it is done.
    key: String,
    /// The run that it makes or certifies.
    run: String,
    job: Job,
    name: String,
    /// The run is there and its iterates are certified.
    certify: bool,
    /// What the problem is found by.
    problem: String,
}

/// A problem that several runs share, made by the first that needs it.
type Shared = Arc<OnceLock<Result<Arc<Posed>, String>>>;

/// Everything that the workers share.
struct Shop<'a> {
    experiment: &'a Experiment,
    how: &'a RunOptions,
    watch: &'a dyn Watch,
    store: Mutex<Store>,
    owner: Owner,
    host: Value,
    /// Fingerprint of each data set; none of those that `--only` leaves out.
    data: Vec<Option<String>>,
    /// Why each is a stand-in, if it is one.
    stand_ins: Vec<Option<String>>,
    /// Problems that are in memory, and for how many tasks they are still needed.
    problems: Mutex<HashMap<String, (Shared, usize)>>,
    /// An error that ends everything: the store cannot be written.
    broken: Mutex<Option<Error>>,
}

/// Runs an experiment. What is finished stays finished, whatever happens.
pub fn run(experiment: &Experiment, store: Store, how: &RunOptions, watch: &dyn Watch) -> Result<Done> {
    let owner = store.enter()?;
    let mut shop = Shop {
        experiment,
        how,
        watch,
        owner,
        host: host::facts(),
        data: vec![None; experiment.data.len()],
        stand_ins: experiment.data.iter().map(|d| d.stand_in.clone()).collect(),
        store: Mutex::new(store),
        problems: Mutex::default(),
        broken: Mutex::default(),
    };
    let wanted = |job: &Job| how.only.as_ref().is_none_or(|only| matches(&experiment.describe(job), only));
    let jobs = first_jobs(experiment)?;
    if let (Some(only), false) = (&how.only, jobs.iter().any(wanted)) {
        let names: Vec<String> = jobs.iter().take(3).map(|job| experiment.describe(job)).collect();
        return Err(Error::Request(format!(
            "no run has '{only}' in its name; expected part of a name such as {}",
            names.join("; ")
        )));
    }
    for d in 0..experiment.data.len() {
        if let Some(job) = jobs.iter().find(|job| job.data == d) {
            // Data that are not wanted may be absent, but their runs then have no keys yet.
            let loaded = job.spec.data.fingerprint(&experiment.file, &how.catalogue);
            let needed = jobs.iter().any(|job| job.data == d && wanted(job));
            let loaded = if needed { Some(loaded?) } else { loaded.ok() };
            if let Some((fingerprint, shape)) = loaded {
                shop.data[d] = Some(fingerprint);
                let made = shape.map(|set| format!("made-up rows shaped like {set}"));
                let said = shop.stand_ins[d].take();
                shop.stand_ins[d] = match (made, said) {
                    (Some(made), Some(said)) => Some(format!("{made}; {said}")),
                    (made, said) => made.or(said),
                };
            }
        }
    }

    let mut done = Done::default();
    let certificates = experiment.certified.is_some();
    // Certificates and further seeds of chosen cells come later; how many they will be is known now.
    let later = |cells: usize| if certificates { cells } else { 0 };
    let mut plan = shop.tasks(jobs)?;
    let expected = {
        let kept = if experiment.tune.is_some() { experiment.groups().len() * experiment.seeds.len() } else { plan.len() };
        let further = {
            let others = experiment.seeds.len() - experiment.tuning_seeds()?.len();
            let of = |[_, _, s]: &[usize; 3]| if experiment.tries(*s) { experiment.seeds.len() } else { others };
            experiment.groups().iter().map(of).sum::<usize>()
        };
        plan.iter().filter(|task| wanted(&task.job)).count() + if how.only.is_none() { further + later(kept) } else { 0 }
    };
    watch.planned(expected);
    shop.describe(&plan, &[])?;
    shop.work(&mut done, plan.iter().filter(|task| wanted(&task.job)).collect())?;

    let choices = shop.choices(&plan)?;
    let first = plan.len();
    plan.extend(shop.tasks(further_jobs(experiment, &choices)?)?);
    shop.describe(&plan, &choices)?;
    shop.work(&mut done, plan[first..].iter().filter(|task| wanted(&task.job)).collect())?;

    let certify = shop.certificate_tasks(&plan, &choices)?;
    let certify: Vec<&Task> = certify.iter().filter(|task| wanted(&task.job)).collect();
    let total = done.worked + done.found + certify.len();
    if total != expected && !done.interrupted {
        watch.planned(total);
    }
    shop.work(&mut done, certify)?;
    Ok(done)
}

/// Every cell with the seeds that all cells run with, as a trial where the spec has trials.
fn first_jobs(experiment: &Experiment) -> Result<Vec<Job>> {
    let seeds = experiment.tuning_seeds()?;
    let mut jobs = vec![];
    for [d, p, s] in experiment.groups() {
        for c in 0..experiment.solvers[s].cells.len() {
            for &seed in &seeds {
                jobs.push(match experiment.tries(s) {
                    true => experiment.trial(d, p, s, c, seed)?,
                    false => experiment.job(d, p, s, c, seed)?,
                });
            }
        }
    }
    Ok(jobs)
}

/// The chosen cells with the other seeds, after trials with all.
fn further_jobs(experiment: &Experiment, choices: &[Choice]) -> Result<Vec<Job>> {
    let seeds = experiment.tuning_seeds()?;
    let mut jobs = vec![];
    for choice in choices {
        let [d, p, s] = choice.group;
        for &seed in experiment.seeds.iter().filter(|seed| experiment.tries(s) || !seeds.contains(seed)) {
            jobs.push(experiment.job(d, p, s, choice.cell, seed)?);
        }
    }
    Ok(jobs)
}

/// The cell that is kept for a solver on a problem.
struct Choice {
    group: [usize; 3],
    cell: usize,
    note: Option<&'static str>,
}

/// A lock that a panic in another worker has not spoilt: what it guards is changed in whole steps only.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shop<'_> {
    /// Jobs whose data are there, as tasks.
    fn tasks(&self, jobs: Vec<Job>) -> Result<Vec<Task>> {
        let mut tasks = vec![];
        for job in jobs {
            let Some(data) = &self.data[job.data] else { continue };
            let problem = problem_key(&job, data, &self.experiment.file);
            let mut settings = json!({
                "results": RESULTS,
                "problem": problem,
                "solver": plain(job.table.get("solver")),
                "version": job.spec.solver_version()?,
                "budget": plain(job.table.get("budget")),
                "record": plain(job.table.get("record")),
                "stop": plain(job.table.get("stop")),
                "certificate": plain(job.table.get("certificate")),
                "feasibility": plain(job.table.get("feasibility")),
                "seed": job.seed,
            });
            // Only where it is there: runs that were stored before it could be are still the same.
            if let Some(repair) = job.table.get("repair") {
                settings["repair"] = plain(Some(repair));
            }
            let key = hash(&settings);
            let name = self.experiment.describe(&job);
            tasks.push(Task { run: key.clone(), key, name, certify: false, problem, job });
        }
        Ok(tasks)
    }

    /// What is left to certify: the runs of kept cells that have a point.
    fn certificate_tasks(&self, plan: &[Task], choices: &[Choice]) -> Result<Vec<Task>> {
        let Some(Certified { points, how }) = self.experiment.certified else { return Ok(vec![]) };
        let mut tasks = vec![];
        for task in plan.iter().filter(|task| kept(self.experiment, choices, &task.job)) {
            let finished = lock(&self.store).run(&task.run)?;
            if finished.is_none_or(|run| matches!(run.status, Status::Failed | Status::Refused)) {
                continue;
            }
            let key = hash(&json!({ "certified": task.run, "points": points, "how": format!("{how:?}") }));
            let name = format!("certificates of {}", task.name);
            let (run, problem, job) = (task.run.clone(), task.problem.clone(), task.job.clone());
            tasks.push(Task { key, run, job, name, certify: true, problem });
        }
        Ok(tasks)
    }

    /// The cell of each group, where enough has run to choose one.
    fn choices(&self, plan: &[Task]) -> Result<Vec<Choice>> {
        let Some(tune) = &self.experiment.tune else { return Ok(vec![]) };
        let store = lock(&self.store);
        let mut choices = vec![];
        for group in self.experiment.groups() {
            let [d, p, s] = group;
            let mut cells = vec![vec![]; self.experiment.solvers[s].cells.len()];
            let (mut there, mut wanted) = (0, 0);
            for task in plan.iter().filter(|t| [t.job.data, t.job.problem, t.job.solver] == [d, p, s]) {
                wanted += 1;
                let Some(run) = store.run(&task.run)? else { continue };
                there += 1;
                let failed = matches!(run.status, Status::Failed | Status::Refused);
                let seen = if failed { None } else { look(&store.curves(&task.run, Part::Recorded)?, tune) };
                cells[task.job.cell].push(seen);
            }
            if there == wanted && wanted > 0 {
                let (cell, note) = choose(&cells);
                // One cell is no choice.
                let note = note.filter(|_| cells.len() > 1);
                choices.push(Choice { group, cell, note });
            }
        }
        Ok(choices)
    }

    /// Tells the store what the experiment consists of.
    fn describe(&self, plan: &[Task], choices: &[Choice]) -> Result<()> {
        let e = self.experiment;
        let member = |task: &Task| Member {
            run: task.run.clone(),
            data: e.data[task.job.data].label.clone(),
            problem: e.problems[task.job.problem].label.clone(),
            solver: e.solvers[task.job.solver].label.clone(),
            cell: e.cell(&task.job),
            seed: task.job.seed,
            tuned: kept(e, choices, &task.job),
        };
        let panels = e.data.iter().flat_map(|d| e.problems.iter().map(|p| (d.label.clone(), p.label.clone())));
        let note = |choice: &Choice| {
            let [d, p, s] = choice.group;
            Some(format!("{} on {}: {}", e.solvers[s].label, e.panel(d, p), choice.note?))
        };
        let published = |[d, p, s]: [usize; 3]| {
            let rate = e.solvers[s].published.filter(|_| p == 0)?;
            Some((e.data[d].label.clone(), e.solvers[s].label.clone(), rate))
        };
        let mut solvers: Vec<String> = vec![];
        for solver in &e.solvers {
            if !solvers.contains(&solver.label) {
                solvers.push(solver.label.clone());
            }
        }
        let facts = Facts {
            panels: panels.collect(),
            solvers,
            stand_ins: e.data.iter().zip(&self.stand_ins).filter_map(|(d, why)| Some((d.label.clone(), why.clone()?))).collect(),
            tuned: e.tune.as_ref().map_or(String::new(), in_words),
            notes: choices.iter().filter_map(note).collect(),
            published: e.groups().into_iter().filter_map(published).collect(),
        };
        let stored = Stored { name: e.name.clone(), title: e.title.clone(), about: e.about.clone(), spec: e.text.clone(), facts };
        lock(&self.store).describe(&stored, &plan.iter().map(member).collect::<Vec<_>>())
    }

    /// Does these tasks, with several workers; those that are done already are counted.
    fn work(&self, done: &mut Done, tasks: Vec<&Task>) -> Result<()> {
        if self.how.fresh {
            let keys: Vec<String> = tasks.iter().filter(|t| !t.certify).map(|t| t.key.clone()).collect();
            lock(&self.store).forget(&keys)?;
        }
        for task in &tasks {
            lock(&self.problems).entry(task.problem.clone()).or_default().1 += 1;
        }
        // The last of the list is taken first.
        let pending: Mutex<Vec<&Task>> = Mutex::new(tasks.into_iter().rev().collect());
        let counted = Mutex::new(std::mem::take(done));
        std::thread::scope(|scope| {
            for worker in 0..self.how.jobs {
                let (pending, counted) = (&pending, &counted);
                scope.spawn(move || self.worker(worker, pending, counted));
            }
        });
        *done = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.interrupted = self.how.interrupt.load(Ordering::Relaxed);
        lock(&self.broken).take().map_or(Ok(()), Err)
    }

    fn worker(&self, worker: usize, pending: &Mutex<Vec<&Task>>, counted: &Mutex<Done>) {
        loop {
            if self.how.interrupt.load(Ordering::Relaxed) || lock(&self.broken).is_some() {
                return;
            }
            let (mine, left) = match self.next(pending, counted) {
                Ok(next) => next,
                Err(e) => return self.give_up(e),
            };
            match mine {
                None if left == 0 => return,
                None => {
                    self.watch.waiting(worker, left);
                    std::thread::sleep(LOOK);
                }
                Some(task) => {
                    self.watch.started(worker, &task.name);
                    match self.task(worker, task) {
                        Ok(Some(words)) => {
                            lock(counted).worked += 1;
                            self.watch.finished(Some(worker), &task.name, &words);
                        }
                        // Interrupted: the checkpoint stays, the job is free.
                        Ok(None) => {
                            if let Err(e) = lock(&self.store).release(&task.key, &self.owner) {
                                self.give_up(e);
                            }
                        }
                        Err(e) => return self.give_up(e),
                    }
                    self.forget_problem(&task.problem);
                }
            }
        }
    }

    fn give_up(&self, e: Error) {
        lock(&self.broken).get_or_insert(e);
    }

    /// The next task that nobody does, and how many are left. Tasks that are done are taken off the list.
    fn next<'t>(&self, pending: &Mutex<Vec<&'t Task>>, counted: &Mutex<Done>) -> Result<(Option<&'t Task>, usize)> {
        let mut pending = lock(pending);
        let mut i = pending.len();
        while i > 0 {
            i -= 1;
            match lock(&self.store).claim(&pending[i].key, &self.owner)? {
                Claim::Taken => {}
                Claim::Ours => return Ok((Some(pending.remove(i)), pending.len())),
                Claim::Done => {
                    let task = pending.remove(i);
                    lock(counted).found += 1;
                    self.watch.finished(None, &task.name, "was there");
                    self.forget_problem(&task.problem);
                }
            }
        }
        Ok((None, pending.len()))
    }

    /// The problem of a task.
    fn problem(&self, task: &Task) -> Result<Arc<Posed>, String> {
        let shared = Arc::clone(&lock(&self.problems).entry(task.problem.clone()).or_default().0);
        let posed = shared.get_or_init(|| {
            let make = || -> Result<Arc<Posed>> {
                let known = lock(&self.store).references(&task.problem)?;
                let posed = task.job.spec.pose_with(&self.experiment.file, &self.how.catalogue, &known)?;
                if known.is_empty() && !posed.problem.references().is_empty() {
                    lock(&self.store).keep_references(&task.problem, posed.problem.references())?;
                }
                Ok(Arc::new(posed))
            };
            make().map_err(|e| e.to_string())
        });
        posed.clone()
    }

    /// A problem that no task needs any more leaves the memory.
    fn forget_problem(&self, key: &str) {
        let mut problems = lock(&self.problems);
        if let Some((_, left)) = problems.get_mut(key) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                problems.remove(key);
            }
        }
    }

    /// Does a task and keeps what comes of it. None if it was interrupted; an error only if the store fails.
    fn task(&self, worker: usize, task: &Task) -> Result<Option<String>> {
        let mut progress = Reports { watch: self.watch, worker, told: Instant::now(), shown: Instant::now() };
        let file = self.owner.file(&format!("{}.save", task.key));
        // A bug in a solver is a failure of its runs, not of the experiment.
        let run = || if task.certify { self.certify(task, &file, &mut progress) } else { self.run(task, &file, &mut progress) };
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<&str>().map(|s| s.to_string()).or(panic.downcast_ref::<String>().cloned());
            Err(Stopped::Refused(format!("it panicked: {}", words.unwrap_or_default())))
        });
        let words = match result {
            Ok(words) => words,
            Err(Stopped::Interrupted) => return Ok(None),
            Err(Stopped::Store(e)) => return Err(e),
            Err(Stopped::Refused(reason)) if task.certify => {
                let returned = json!({ "refused": reason });
                let certificates = Certificates { key: task.key.clone(), returned, seconds: 0.0, curves: vec![] };
                lock(&self.store).certify(&task.run, &certificates)?;
                format!("refused: {reason}")
            }
            Err(Stopped::Refused(reason)) => {
                let run = self.refused(task, &reason)?;
                lock(&self.store).finish(&run, &[])?;
                format!("refused: {reason}")
            }
        };
        // Nothing depends on it any more, nor on what a kill has left of the next one.
        let _ = std::fs::remove_file(&file);
        let _ = std::fs::remove_file(self.owner.file(&format!("{}.save.part", task.key)));
        Ok(Some(words))
    }

    /// Minimises, continuing from a checkpoint if there is a good one.
    fn minimize(
        &self,
        task: &Task,
        posed: &Posed,
        mut equipped: Equipped,
        options: run::Options,
        file: &Path,
        watch: &mut Reports,
    ) -> Result<Outcome, Stopped> {
        let checkpoint = |resume| Checkpoint {
            file: file.into(),
            every: self.how.checkpoint_every,
            resume,
            settings: format!("{} {}", task.key, equipped.settings),
        };
        let mut options = run::Options {
            threads: self.experiment.threads,
            interrupt: Some(Arc::clone(&self.how.interrupt)),
            checkpoint: Some(checkpoint(file.exists())),
            ..options
        };
        let mut outcome = run::minimize_with(posed.problem.oracle(), &mut equipped.solver, &equipped.start, &options, watch);
        if let (Err(thalweg::Error::Checkpoint(_)), true) = (&outcome, file.exists()) {
            // A checkpoint of another build, or a damaged one: the run begins again.
            options.checkpoint = Some(checkpoint(false));
            outcome = run::minimize_with(posed.problem.oracle(), &mut equipped.solver, &equipped.start, &options, watch);
        }
        let mut outcome = outcome.map_err(|e| Stopped::Refused(e.to_string()))?;
        if outcome.ended == StopReason::Interrupted {
            return Err(Stopped::Interrupted);
        }
        // That it was continued does not change the result, and so does not belong to it.
        outcome.notes.retain(|note| !matches!(note, Note::Continued { .. }));
        outcome.notes.splice(0..0, equipped.notes.into_iter().map(Note::from));
        Ok(outcome)
    }

    /// Makes a run and keeps it.
    fn run(&self, task: &Task, file: &Path, watch: &mut Reports) -> Result<String, Stopped> {
        let refuse = |e: Error| Stopped::Refused(e.to_string());
        let posed = self.problem(task).map_err(Stopped::Refused)?;
        let equipped = task.job.spec.equip(&posed, &self.experiment.file).map_err(refuse)?;
        let mut options = task.job.spec.options(equipped.certificate, equipped.metrics.clone());
        options.feasibility = equipped.relaxed.unwrap_or(0.0).max(options.feasibility);
        let names = options.metrics.as_ref().map_or_else(Vec::new, |metrics| metrics.names());
        let (measures, feasibility) = (options.certificate, options.feasibility);
        let mut outcome = self.minimize(task, &posed, equipped, options, file, watch)?;
        let status = match (&outcome.ended, outcome.point.feasible) {
            (StopReason::Failed { .. }, _) => Status::Failed,
            (_, true) => Status::Feasible,
            (_, false) => Status::Infeasible,
        };
        let x = outcome.point.x.clone();
        let certificate = match measures.is_empty() || status == Status::Failed {
            true => Value::Null,
            false => returned(&measures, &posed, &x),
        };
        let held_out = posed.held_out.as_ref().and_then(|held| run::measure(held, posed.problem.of_model(&x), feasibility).ok());
        let held_out = held_out.map(|point| without_point(json!(point)));
        let curves = curves(&outcome, &names);
        outcome.trace = vec![];
        let mut words = json!(outcome);
        if let Some(words) = words.as_object_mut() {
            words.retain(|key, _| !["trace", "seconds", "notes"].contains(&key.as_str()));
            for key in ["point", "best_feasible"] {
                if let Some(point) = words.get_mut(key) {
                    *point = without_point(point.take());
                }
            }
            let bounds: Vec<f64> = outcome.point.constraints.iter().map(|c| posed.problem.bound(c.index)).collect();
            words.insert("problem".into(), json!(posed.problem.oracle().fingerprint()));
            words.insert("problem_notes".into(), json!(posed.notes));
            words.insert("bounds".into(), json!(bounds));
            let references: Vec<Reference> = posed.problem.references().iter().map(Reference::from).collect();
            words.insert("references".into(), json!(references));
            words.insert("held_out".into(), json!(held_out));
            words.insert("certificate".into(), certificate);
        }
        let finite = |v: f64| Some(v).filter(|v| v.is_finite());
        let run = Finished {
            key: task.key.clone(),
            method: outcome.solver.clone(),
            version: task.job.spec.solver_version().map_err(refuse)?,
            seed: task.job.seed,
            status,
            ended: outcome.ended.to_string(),
            objective: finite(outcome.point.objective),
            violation: finite(outcome.point.violation),
            iterations: outcome.iterations,
            passes_f: outcome.passes.objective,
            passes_g: outcome.passes.constraints,
            samples: outcome.counts.samples(),
            seconds: outcome.seconds,
            // A transport plan would be millions of numbers, and the run gives it again.
            point: Some(posed.problem.of_model(&x).to_vec()),
            spec: plain(Some(&toml::Value::Table(task.job.table.clone()))),
            outcome: words,
            notes: std::mem::take(&mut outcome.notes),
            host: self.host.clone(),
            data_hash: posed.fingerprint.clone(),
            finished: host::now(),
        };
        lock(&self.store).finish(&run, &curves).map_err(Stopped::Store)?;
        Ok(match run.objective {
            Some(objective) => format!("{}, objective {objective:.6}, {:.1} s", status.word(), run.seconds),
            None => run.ended,
        })
    }

    /// A run that could not begin.
    fn refused(&self, task: &Task, reason: &str) -> Result<Finished> {
        let method = task.job.table.get("solver").and_then(|s| s.get("name")).and_then(toml::Value::as_str);
        Ok(Finished {
            key: task.key.clone(),
            method: method.unwrap_or_default().into(),
            version: task.job.spec.solver_version()?,
            seed: task.job.seed,
            status: Status::Refused,
            ended: reason.into(),
            objective: None,
            violation: None,
            iterations: 0,
            passes_f: 0.0,
            passes_g: 0.0,
            samples: 0,
            seconds: 0.0,
            point: None,
            spec: plain(Some(&toml::Value::Table(task.job.table.clone()))),
            outcome: Value::Null,
            notes: vec![],
            host: self.host.clone(),
            data_hash: self.data[task.job.data].clone().unwrap_or_default(),
            finished: host::now(),
        })
    }

    /// Repeats a run, which gives the same iterates, and certifies some of them.
    fn certify(&self, task: &Task, file: &Path, watch: &mut Reports) -> Result<String, Stopped> {
        let refuse = |e: Error| Stopped::Refused(e.to_string());
        let begun = Instant::now();
        let Some(Certified { points, how }) = self.experiment.certified else { return Ok("nothing to certify".into()) };
        let (stored, recorded) = {
            let store = lock(&self.store);
            let stored = store.run(&task.run).map_err(Stopped::Store)?;
            (stored, store.curves(&task.run, Part::Recorded).map_err(Stopped::Store)?)
        };
        let Some(stored) = stored else { return Err(Stopped::Refused("the run is not there any more".into())) };
        let posed = self.problem(task).map_err(Stopped::Refused)?;
        let equipped = task.job.spec.equip(&posed, &self.experiment.file).map_err(refuse)?;
        let at: Vec<u64> = even(stored.iterations, points);
        let options = run::Options {
            budget: Budget::iterations(stored.iterations),
            record: Record { at: Some(at), ..Record::default() },
            stop: run::StoppingRule::default(),
            ..task.job.spec.options(how, None)
        };
        let outcome = self.minimize(task, &posed, equipped, options, file, watch)?;
        // The store has the model's part of the point, which is all of it in most problems.
        let whole = |x: &&Vec<f64>| x.len() == posed.problem.oracle().dim();
        let point = stored.point.as_ref().filter(whole).unwrap_or(&outcome.point.x);
        let mut words = returned(&how, &posed, point);
        let curves = curves(&outcome, &[]);
        if let Some(words) = words.as_object_mut() {
            words.insert("repeats".into(), json!(repeats(&recorded, &curves)));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let certificates = Certificates { key: task.key.clone(), returned: words, seconds, curves };
        lock(&self.store).certify(&task.run, &certificates).map_err(Stopped::Store)?;
        Ok(format!("{} iterates, {seconds:.1} s", outcome.trace.len()))
    }
}

/// Why a task has no result of its own.
enum Stopped {
    Interrupted,
    Refused(String),
    Store(Error),
}

/// Whether the runs of a cell are the ones that count for its solver.
fn kept(experiment: &Experiment, choices: &[Choice], job: &Job) -> bool {
    let chosen = |c: &Choice| c.group == [job.data, job.problem, job.solver] && c.cell == job.cell && !job.trial;
    experiment.tune.is_none() || choices.iter().any(chosen)
}

/// Certificates of a point, for the store.
fn returned(how: &thalweg::certify::Measures, posed: &Posed, x: &[f64]) -> Value {
    match how.take(posed.problem.oracle(), x) {
        Err(e) => json!({ "refused": e.to_string() }),
        Ok(measured) => json!({
            "bounds": measured.bounds,
            "ssg": measured.switching,
            "penalised": measured.penalised,
        }),
    }
}

/// Iterates from the first to the last, evenly spaced: as many intervals as points are asked for.
fn even(last: u64, points: u64) -> Vec<u64> {
    let mut at: Vec<u64> = (0..=points).map(|i| (u128::from(last) * u128::from(i) / u128::from(points)) as u64).collect();
    at.dedup();
    at
}

/// Whether two curves agree bit for bit where they have the same iterates.
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

/// A trace by columns.
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
    // Of very many constraints a row has none.
    for (j, c) in constraints.iter().enumerate().filter(|_| total <= run::MAX_LISTED_CONSTRAINTS) {
        column("constraint", &c.name, &|r| r.constraints.get(j).copied().unwrap_or(f64::NAN));
    }
    for (j, name) in metrics.iter().enumerate() {
        column("gauge", name, &|r| r.metrics.get(j).copied().unwrap_or(f64::NAN));
    }
    curves
}

/// A measured point without its coordinates, which are kept elsewhere.
fn without_point(mut point: Value) -> Value {
    if let Some(point) = point.as_object_mut() {
        point.remove("x");
    }
    point
}

/// The rule of a choice in words.
fn in_words(tune: &Tune) -> String {
    let what = match tune.by {
        By::Objective => "the smallest objective",
        By::BestFeasible => "the smallest objective of a feasible recorded iterate",
        By::Violation => "the smallest violation",
        By::Validation => "the largest accuracy on the validation rows",
    };
    let among = match tune.feasible {
        Wanted::Kept(true) => ", among those that keep the constraints".into(),
        Wanted::Kept(false) => String::new(),
        Wanted::Within(v) => format!(", among those that keep the constraints within {v:e}"),
    };
    let limits = [
        tune.after.iterations.map(|n| format!("{n} iterations")),
        tune.after.passes.map(|n| format!("{n} passes")),
        tune.after.seconds.map(|n| format!("{n} seconds")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let after = if limits.is_empty() { "at the end".into() } else { format!("after {}", limits.join(" and ")) };
    let kept = format!("For each solver and data set the cell with {what} {after} was kept{among}");
    match &tune.budget {
        None => format!("{kept}."),
        Some(budget) => {
            let limits: Vec<String> = budget.iter().map(|(key, limit)| format!("{} {key}", short(limit))).collect();
            let limits = limits.join(" or ");
            format!(
                "{kept}. Cells were compared in trial runs of {limits}, without targets and certificates; the kept cell then ran \
                 anew with the whole budget, as did solvers of one cell, which had no trial. Only these runs count."
            )
        }
    }
}

/// What the problem of a job is found by: the data, the problem, and the seed where it chooses held-out rows.
fn problem_key(job: &Job, data: &str, file: &Path) -> String {
    let mut table = plain(job.table.get("data"));
    let held_out = table.get("test_fraction").is_some_and(|share| share.as_f64() != Some(0.0));
    if let Some(table) = table.as_object_mut() {
        // Where the file lies does not matter, what is in it does.
        table.remove("file");
    }
    let problem = job.table.get("problem");
    let start = problem.and_then(|p| p.get("start")).and_then(toml::Value::as_str);
    let start = start.and_then(|name| std::fs::read(file.parent().unwrap_or(Path::new("")).join(name)).ok());
    hash(&json!({
        "results": RESULTS,
        "fingerprint": data,
        "data": table,
        "problem": plain(problem),
        // Terms that are measured may need reference values of their own.
        "measure": plain(job.table.get("measure")),
        "start": start.map(|bytes| hex(&Sha256::digest(bytes))),
        "seed": if held_out { Some(job.seed) } else { None },
    }))
}

/// A value as JSON, in which 1 and 1.0 are the same.
fn plain(value: Option<&toml::Value>) -> Value {
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
    // 80 bits: among a hundred thousand runs two are alike with probability 4e-15.
    text.truncate(20);
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Passes on where a run is, not more often than a person can read.
struct Reports<'a> {
    watch: &'a dyn Watch,
    worker: usize,
    /// When the share was told, and when an iterate.
    told: Instant,
    shown: Instant,
}

impl Observer for Reports<'_> {
    fn recorded(&mut self, row: &run::Row, _: &[f64], _: &run::Diagnostics) {
        if self.shown.elapsed() >= LOOK {
            self.shown = Instant::now();
            self.watch.progressed(self.worker, f64::NAN, Some(console::state(row)));
        }
    }

    fn progressed(&mut self, progress: &Progress) {
        if self.told.elapsed() >= LOOK {
            self.told = Instant::now();
            self.watch.progressed(self.worker, progress.share, None);
        }
    }
}
