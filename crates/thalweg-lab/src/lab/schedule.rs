//! Scheduler of an experiment: lists the tasks, assigns them to workers, and decides which problems stay in memory. Other
//! processes may use the same store. A task is executed by `lab/execute.rs`; progress is reported to a [`ProgressObserver`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::choose::{NoChoice, Selection, choose, summarise};
use super::experiment::{CertificateRequest, Experiment};
use super::grid::{GridRun, matches};
use super::host::Host;
use super::keys::{certificate_key, problem_key, run_key};
use super::store::{Claim, Facts, Member, Owner, Part, Store, StoredExperiment};
use crate::data::catalogue::{self, LoadedData};
use crate::job::{Instance, pose_loaded};
use crate::{Error, Result};
use thalweg::Note;

/// Interval between two checks of tasks that another process is working on.
const POLL: Duration = Duration::from_millis(200);

/// Options of running an experiment.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Number of simultaneous runs.
    pub jobs: usize,
    /// Selects the runs whose names contain this; `*` matches any characters.
    pub only: Option<String>,
    /// Whether finished runs are repeated.
    pub fresh: bool,
    /// Interval between two checkpoints of a run.
    pub checkpoint_every: Duration,
    /// Options for finding data sets.
    pub catalogue: catalogue::Options,
    /// Ends the run soon when set by another thread.
    pub interrupt: Arc<AtomicBool>,
}

/// Receiver of the progress of an experiment.
pub trait ProgressObserver: Sync {
    /// Reports the number of jobs, when it is first determined or has changed.
    fn planned(&self, total: usize);
    /// Reports that a worker has started a job.
    fn started(&self, worker: usize, name: &str);
    /// Reports the progress of a job: the completed share between 0 and 1, and a summary of the last recorded iterate.
    fn progressed(&self, worker: usize, share: f64, words: Option<String>);
    /// Reports a finished job. `worker` is `None` if it was finished before or by another process.
    fn finished(&self, worker: Option<usize>, name: &str, words: &str);
    /// Reports that a worker is idle because other processes are working on this many jobs.
    fn waiting(&self, worker: usize, jobs: usize);
}

/// Ignores all progress.
impl ProgressObserver for () {
    fn planned(&self, _: usize) {}
    fn started(&self, _: usize, _: &str) {}
    fn progressed(&self, _: usize, _: f64, _: Option<String>) {}
    fn finished(&self, _: Option<usize>, _: &str, _: &str) {}
    fn waiting(&self, _: usize, _: usize) {}
}

/// Counts of a run of an experiment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Jobs executed by this process.
    pub worked: usize,
    /// Jobs finished before or by another process.
    pub found: usize,
    /// Whether the user interrupted it.
    pub interrupted: bool,
}

/// Unit of work.
pub(super) struct Task {
    /// Key of its result.
    pub key: String,
    /// Key of the run that it executes or certifies.
    pub run: String,
    /// Position of the run in the grid.
    pub grid_run: GridRun,
    /// Displayed name.
    pub name: String,
    /// Whether the task certifies iterates of a finished run.
    pub certify: bool,
    /// Key of the problem.
    pub problem: String,
}

/// Problem shared by several runs, built by the first that needs it.
type SharedInstance = Arc<OnceLock<Result<Arc<Instance>, String>>>;

/// State that the workers share.
pub(super) struct Scheduler<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) how: &'a RunOptions,
    pub(super) watch: &'a dyn ProgressObserver,
    pub(super) store: Mutex<Store>,
    pub(super) owner: Owner,
    pub(super) host: Host,
    /// Fingerprint of each data set; `None` for those that `--only` excludes.
    pub(super) data: Vec<Option<String>>,
    /// Data sets that were loaded for their fingerprints. The first problem on each takes it, so that it is not read again.
    loaded: Vec<Mutex<Option<LoadedData>>>,
    /// Why each data set is a stand-in, if it is one.
    stand_ins: Vec<Option<String>>,
    /// Problems in memory, each with the number of tasks that still need it.
    problems: Mutex<HashMap<String, (SharedInstance, usize)>>,
    /// Error that ends all work: the store cannot be written.
    broken: Mutex<Option<Error>>,
}

/// Largest number of runs at a time.
pub const MAX_JOBS: usize = 256;

/// Runs an experiment. Finished runs stay in the store, even if a later one fails or the process is killed.
pub fn run(experiment: &Experiment, store: Store, how: &RunOptions, watch: &dyn ProgressObserver) -> Result<Progress> {
    let owner = store.enter()?;
    let mut scheduler = Scheduler {
        experiment,
        how,
        watch,
        owner,
        host: Host::current(),
        data: vec![None; experiment.data.len()],
        loaded: experiment.data.iter().map(|_| Mutex::default()).collect(),
        stand_ins: experiment.data.iter().map(|d| d.stand_in.clone()).collect(),
        store: Mutex::new(store),
        problems: Mutex::default(),
        broken: Mutex::default(),
    };
    let wanted = |run: &GridRun| how.only.as_ref().is_none_or(|only| matches(&experiment.describe(run), only));
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
            // Excluded data may be absent; their runs then have no keys yet.
            let read = job.spec.data.fingerprint(&experiment.file, &how.catalogue);
            let needed = jobs.iter().any(|job| job.data == d && wanted(job));
            let read = if needed { Some(read?) } else { read.ok() };
            if let Some((fingerprint, loaded)) = read {
                scheduler.data[d] = Some(fingerprint);
                let shape = loaded.as_ref().and_then(|loaded| loaded.stand_in.clone());
                *lock(&scheduler.loaded[d]) = loaded.filter(|_| needed);
                let made = shape.map(|set| format!("synthetic rows shaped like {set}"));
                let said = scheduler.stand_ins[d].take();
                scheduler.stand_ins[d] = match (made, said) {
                    (Some(made), Some(said)) => Some(format!("{made}; {said}")),
                    (made, said) => made.or(said),
                };
            }
        }
    }

    let mut done = Progress::default();
    let certificates = experiment.certified.is_some();
    // Certificates and further seeds of selected cells come later, but their number is already determined.
    let later = |cells: usize| if certificates { cells } else { 0 };
    let mut plan = scheduler.tasks(jobs)?;
    let expected = {
        let selected = if experiment.tune.is_some() { experiment.groups().len() * experiment.seeds.len() } else { plan.len() };
        let further = {
            let others = experiment.seeds.len() - experiment.tuning_seeds()?.len();
            let of = |[_, _, s]: &[usize; 3]| if experiment.tries(*s) { experiment.seeds.len() } else { others };
            experiment.groups().iter().map(of).sum::<usize>()
        };
        plan.iter().filter(|task| wanted(&task.grid_run)).count() + if how.only.is_none() { further + later(selected) } else { 0 }
    };
    watch.planned(expected);
    scheduler.describe(&plan, &[])?;
    scheduler.work(&mut done, plan.iter().filter(|task| wanted(&task.grid_run)).collect())?;

    let choices = scheduler.choices(&plan)?;
    let first = plan.len();
    plan.extend(scheduler.tasks(further_jobs(experiment, &choices)?)?);
    scheduler.describe(&plan, &choices)?;
    scheduler.work(&mut done, plan[first..].iter().filter(|task| wanted(&task.grid_run)).collect())?;

    let certify = scheduler.certificate_tasks(&plan, &choices)?;
    let certify: Vec<&Task> = certify.iter().filter(|task| wanted(&task.grid_run)).collect();
    let total = done.worked + done.found + certify.len();
    if total != expected && !done.interrupted {
        watch.planned(total);
    }
    scheduler.work(&mut done, certify)?;
    Ok(done)
}

/// Lists every cell with the seeds that all cells run with, as pilot runs if the spec has them.
fn first_jobs(experiment: &Experiment) -> Result<Vec<GridRun>> {
    let seeds = experiment.tuning_seeds()?;
    let mut jobs = vec![];
    for [d, p, s] in experiment.groups() {
        for c in 0..experiment.solvers[s].cells.len() {
            for &seed in &seeds {
                jobs.push(match experiment.tries(s) {
                    true => experiment.trial(d, p, s, c, seed)?,
                    false => experiment.run(d, p, s, c, seed)?,
                });
            }
        }
    }
    Ok(jobs)
}

/// Lists the selected cells with the remaining seeds, or with all seeds after pilot runs.
fn further_jobs(experiment: &Experiment, choices: &[Choice]) -> Result<Vec<GridRun>> {
    let seeds = experiment.tuning_seeds()?;
    let mut jobs = vec![];
    for choice in choices {
        let [d, p, s] = choice.group;
        for &seed in experiment.seeds.iter().filter(|seed| experiment.tries(s) || !seeds.contains(seed)) {
            jobs.push(experiment.run(d, p, s, choice.cell, seed)?);
        }
    }
    Ok(jobs)
}

/// Selected cell of a solver on a problem.
struct Choice {
    group: [usize; 3],
    cell: usize,
    note: Option<NoChoice>,
}

/// Locks a mutex and ignores poisoning: a panic in another worker leaves the guarded value intact, since every change to it is
/// complete.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scheduler<'_> {
    /// Converts the jobs whose data are available to tasks.
    fn tasks(&self, runs: Vec<GridRun>) -> Result<Vec<Task>> {
        let mut tasks = vec![];
        for grid_run in runs {
            let Some(data) = &self.data[grid_run.data] else { continue };
            let problem = problem_key(&grid_run, data, &self.experiment.file);
            let key = run_key(&grid_run, &problem)?;
            let name = self.experiment.describe(&grid_run);
            tasks.push(Task { run: key.clone(), key, name, certify: false, problem, grid_run });
        }
        Ok(tasks)
    }

    /// Lists the runs of selected cells that have a point and still need certificates.
    fn certificate_tasks(&self, plan: &[Task], choices: &[Choice]) -> Result<Vec<Task>> {
        let Some(CertificateRequest { points, how }) = self.experiment.certified else { return Ok(vec![]) };
        let mut tasks = vec![];
        for task in plan.iter().filter(|task| selected(self.experiment, choices, &task.grid_run)) {
            let finished = lock(&self.store).run(&task.run)?;
            if finished.is_none_or(|run| run.status.is_failure()) {
                continue;
            }
            let key = certificate_key(&task.run, points, &how);
            let name = format!("certificates of {}", task.name);
            let (run, problem, grid_run) = (task.run.clone(), task.problem.clone(), task.grid_run.clone());
            tasks.push(Task { key, run, grid_run, name, certify: true, problem });
        }
        Ok(tasks)
    }

    /// Selects the cell of each group for which enough runs have finished.
    fn choices(&self, plan: &[Task]) -> Result<Vec<Choice>> {
        let Some(tune) = &self.experiment.tune else { return Ok(vec![]) };
        let store = lock(&self.store);
        let mut choices = vec![];
        for group in self.experiment.groups() {
            let [d, p, s] = group;
            let mut cells = vec![vec![]; self.experiment.solvers[s].cells.len()];
            let (mut there, mut wanted) = (0, 0);
            for task in plan.iter().filter(|t| [t.grid_run.data, t.grid_run.problem, t.grid_run.solver] == [d, p, s]) {
                wanted += 1;
                let Some(run) = store.run(&task.run)? else { continue };
                there += 1;
                let failed = run.status.is_failure();
                let seen = if failed { None } else { summarise(&store.curves(&task.run, Part::Recorded)?, tune) };
                cells[task.grid_run.cell].push(seen);
            }
            if there == wanted && wanted > 0 {
                let (cell, note) = choose(&cells);
                // A single cell needs no note about its selection.
                let note = note.filter(|_| cells.len() > 1);
                choices.push(Choice { group, cell, note });
            }
        }
        Ok(choices)
    }

    /// Writes the runs of the experiment to the store.
    fn describe(&self, plan: &[Task], choices: &[Choice]) -> Result<()> {
        let e = self.experiment;
        let member = |task: &Task| Member {
            run: task.run.clone(),
            data: e.data[task.grid_run.data].label.clone(),
            problem: e.problems[task.grid_run.problem].label.clone(),
            solver: e.solvers[task.grid_run.solver].label.clone(),
            cell: e.cell(&task.grid_run),
            seed: task.grid_run.seed,
            tuned: selected(e, choices, &task.grid_run),
        };
        let panels = e.data.iter().flat_map(|d| e.problems.iter().map(|p| (d.label.clone(), p.label.clone())));
        let note = |choice: &Choice| {
            let [d, p, s] = choice.group;
            let (solver, panel) = (e.solvers[s].label.clone(), e.panel(d, p));
            Some(match choice.note? {
                NoChoice::Infeasible => Note::NoFeasibleCell { solver, panel },
                NoChoice::Failed => Note::EveryCellFailed { solver, panel },
            })
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
            tuned: e.tune.as_ref().map(Selection::by),
            notes: choices.iter().filter_map(note).collect(),
            published: e.groups().into_iter().filter_map(published).collect(),
        };
        let stored = StoredExperiment {
            name: e.name.clone(),
            title: e.title.clone(),
            about: e.about.clone(),
            spec: e.text.clone(),
            facts,
        };
        lock(&self.store).describe(&stored, &plan.iter().map(member).collect::<Vec<_>>())
    }

    /// Executes these tasks with several workers; tasks that are already finished are only counted.
    fn work(&self, done: &mut Progress, tasks: Vec<&Task>) -> Result<()> {
        if self.how.fresh {
            let keys: Vec<String> = tasks.iter().filter(|t| !t.certify).map(|t| t.key.clone()).collect();
            lock(&self.store).forget(&keys)?;
        }
        for task in &tasks {
            lock(&self.problems).entry(task.problem.clone()).or_default().1 += 1;
        }
        // Tasks are taken from the end of the list.
        let pending: Mutex<Vec<&Task>> = Mutex::new(tasks.into_iter().rev().collect());
        let progress = Mutex::new(std::mem::take(done));
        let workers = self.how.jobs.min(lock(&pending).len()).min(MAX_JOBS);
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let (pending, progress) = (&pending, &progress);
                let started = std::thread::Builder::new().spawn_scoped(scope, move || self.worker(worker, pending, progress));
                // Fewer workers do the same work.
                if let (0, Err(e)) = (worker, started) {
                    self.give_up(Error::Request(format!("no thread can be started: {e}")));
                }
            }
        });
        *done = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.interrupted = self.how.interrupt.load(Ordering::Relaxed);
        lock(&self.broken).take().map_or(Ok(()), Err)
    }

    fn worker(&self, worker: usize, pending: &Mutex<Vec<&Task>>, progress: &Mutex<Progress>) {
        loop {
            if self.how.interrupt.load(Ordering::Relaxed) || lock(&self.broken).is_some() {
                return;
            }
            let (mine, left) = match self.next(pending, progress) {
                Ok(next) => next,
                Err(e) => return self.give_up(e),
            };
            match mine {
                None if left == 0 => return,
                None => {
                    self.watch.waiting(worker, left);
                    std::thread::sleep(POLL);
                }
                Some(task) => {
                    self.watch.started(worker, &task.name);
                    match self.execute(worker, task) {
                        Ok(Some(words)) => {
                            lock(progress).worked += 1;
                            self.watch.finished(Some(worker), &task.name, &words);
                        }
                        // Interrupted: the checkpoint stays and the job can be claimed again.
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

    /// Claims the next available task, and returns how many are left. Finished tasks are removed from the list.
    fn next<'t>(&self, pending: &Mutex<Vec<&'t Task>>, progress: &Mutex<Progress>) -> Result<(Option<&'t Task>, usize)> {
        let mut pending = lock(pending);
        let mut i = pending.len();
        while i > 0 {
            i -= 1;
            match lock(&self.store).claim(&pending[i].key, &self.owner)? {
                Claim::Taken => {}
                Claim::Ours => return Ok((Some(pending.remove(i)), pending.len())),
                Claim::Done => {
                    let task = pending.remove(i);
                    // A process that was killed after it had stored the result has left its checkpoint.
                    self.remove_checkpoint(task);
                    lock(progress).found += 1;
                    self.watch.finished(None, &task.name, "found in the store");
                    self.forget_problem(&task.problem);
                }
            }
        }
        Ok((None, pending.len()))
    }

    /// Returns the problem of a task, built by the first task that needs it.
    pub(super) fn problem(&self, task: &Task) -> Result<Arc<Instance>, String> {
        let shared = Arc::clone(&lock(&self.problems).entry(task.problem.clone()).or_default().0);
        let instance = shared.get_or_init(|| {
            let make = || -> Result<Arc<Instance>> {
                let known = lock(&self.store).references(&task.problem)?;
                let loaded = lock(&self.loaded[task.grid_run.data]).take();
                let (spec, file) = (&task.grid_run.spec, &self.experiment.file);
                let instance = pose_loaded(spec, file, &self.how.catalogue, loaded, &known)?;
                if known.is_empty() && !instance.problem.references().is_empty() {
                    lock(&self.store).keep_references(&task.problem, instance.problem.references())?;
                }
                Ok(Arc::new(instance))
            };
            make().map_err(|e| e.to_string())
        });
        instance.clone()
    }

    /// Drops a problem from memory once no task needs it.
    fn forget_problem(&self, key: &str) {
        let mut problems = lock(&self.problems);
        if let Some((_, left)) = problems.get_mut(key) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                problems.remove(key);
            }
        }
    }
}

/// Returns whether the runs of a cell count for its solver.
fn selected(experiment: &Experiment, choices: &[Choice], job: &GridRun) -> bool {
    let chosen = |c: &Choice| c.group == [job.data, job.problem, job.solver] && c.cell == job.cell && !job.trial;
    experiment.tune.is_none() || choices.iter().any(chosen)
}
