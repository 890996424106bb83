//! Experiments and the store of their runs. The work is done in separate threads, while the calling thread checks signals and
//! reports progress to Python.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use thalweg_lab::Result;
use thalweg_lab::data::catalogue;
use thalweg_lab::lab::experiment::Experiment;
use thalweg_lab::lab::frame;
use thalweg_lab::lab::schedule::{self, ProgressObserver, RunOptions};
use thalweg_lab::lab::store::{Part, Store};

use crate::error::of_lab;
use crate::values::python;
use crate::watch::{Interrupt, RaisedError};

/// Interval between two checks for signals.
const SIGNALS: Duration = Duration::from_millis(20);
/// Interval between two reports of progress.
const REPORTS: Duration = Duration::from_millis(100);
/// Interval between two checkpoints of a running job, as in the command.
const CHECKPOINTS: Duration = Duration::from_secs(10);

/// Progress reported by the workers and not yet passed on by the calling thread.
#[derive(Default)]
struct BoardState {
    total: usize,
    done: usize,
    /// Job of each worker, and its completed share.
    running: Vec<Option<(String, f64)>>,
    /// Names and outcomes of the jobs finished since the last report.
    news: Vec<(String, String)>,
}

/// Progress shared by the workers.
#[derive(Default)]
struct Board(Mutex<BoardState>);

impl Board {
    fn told(&self) -> MutexGuard<'_, BoardState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, worker: usize, doing: Option<(String, f64)>) {
        let mut told = self.told();
        if told.running.len() <= worker {
            told.running.resize(worker + 1, None);
        }
        if let Some(place) = told.running.get_mut(worker) {
            *place = doing;
        }
    }

    /// Calls Python with the number of jobs, the finished jobs plus the shares of running ones, the names of running jobs, and
    /// the newly finished jobs.
    fn report(&self, py: Python<'_>, call: &Py<PyAny>) -> PyResult<()> {
        let (total, done, running, news) = {
            let mut told = self.told();
            let shares: f64 = told.running.iter().flatten().map(|(_, share)| share).sum();
            let running: Vec<String> = told.running.iter().flatten().map(|(name, _)| name.clone()).collect();
            (told.total, told.done as f64 + shares, running, std::mem::take(&mut told.news))
        };
        call.bind(py).call1((total, done, running, news))?;
        Ok(())
    }
}

impl ProgressObserver for Board {
    fn planned(&self, total: usize) {
        self.told().total = total;
    }

    fn started(&self, worker: usize, name: &str) {
        self.place(worker, Some((name.into(), 0.0)));
    }

    fn progressed(&self, worker: usize, share: f64, _: Option<String>) {
        // A report that only has an iterate has no share.
        if let Some(Some((_, known))) = self.told().running.get_mut(worker)
            && share.is_finite()
        {
            *known = share.clamp(0.0, 1.0);
        }
    }

    fn finished(&self, worker: Option<usize>, name: &str, words: &str) {
        if let Some(worker) = worker {
            self.place(worker, None);
        }
        let mut told = self.told();
        told.done += 1;
        told.news.push((name.into(), words.into()));
    }

    fn waiting(&self, worker: usize, jobs: usize) {
        self.place(worker, Some((format!("waiting for {jobs} jobs of other processes"), 0.0)));
    }
}

/// Runs an experiment. Returns its name, how many jobs were executed and how many were already finished, whether it was
/// interrupted, and the Python exception, if any. `report` is called periodically, see `Board::report`.
#[pyfunction]
#[pyo3(signature = (spec, store, interrupt, *, quick=false, jobs=1, only=None, fresh=false, data_dir=None, report=None))]
#[allow(clippy::too_many_arguments)]
pub fn lab_run(
    py: Python<'_>,
    spec: PathBuf,
    store: PathBuf,
    interrupt: &Bound<'_, Interrupt>,
    quick: bool,
    jobs: usize,
    only: Option<String>,
    fresh: bool,
    data_dir: Option<PathBuf>,
    report: Option<Py<PyAny>>,
) -> PyResult<(String, usize, usize, bool, Option<PyErr>)> {
    if jobs == 0 {
        return Err(PyValueError::new_err("jobs must be at least 1, got 0"));
    }
    let interrupt = Arc::clone(&interrupt.get().flag);
    let how = RunOptions {
        jobs,
        only,
        fresh,
        checkpoint_every: CHECKPOINTS,
        catalogue: catalogue::Options { data_dir, ..Default::default() },
        interrupt: Arc::clone(&interrupt),
    };
    let raised = RaisedError::default();
    let (name, done) = py.detach(|| -> PyResult<_> {
        let experiment = Experiment::read(&spec, quick).map_err(of_lab)?;
        let store = Store::create(&store).map_err(of_lab)?;
        let (board, caller) = (Board::default(), std::thread::current());
        let keep = |told: PyResult<()>| {
            if let Err(error) = told {
                raised.keep(error);
                interrupt.store(true, Ordering::Relaxed);
            }
        };
        let ended = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = schedule::run(&experiment, store, &how, &board);
                caller.unpark();
                done
            });
            let mut reported = Instant::now();
            while !worker.is_finished() {
                std::thread::park_timeout(SIGNALS);
                let report = report.as_ref().filter(|_| reported.elapsed() >= REPORTS);
                keep(Python::attach(|py| {
                    py.check_signals()?;
                    report.map_or(Ok(()), |report| board.report(py, report))
                }));
                if report.is_some() {
                    reported = Instant::now();
                }
            }
            worker.join()
        });
        if let Some(report) = &report {
            keep(Python::attach(|py| board.report(py, report)));
        }
        let done = ended.map_err(|_| PyRuntimeError::new_err("the experiment ended in a panic, which is a bug"))?;
        Ok((experiment.name, done.map_err(of_lab)?))
    })?;
    Ok((name, done.worked, done.found, done.interrupted, raised.take()))
}

/// Returns the runs of a store, or of one of its experiments, a dictionary for each.
#[pyfunction]
#[pyo3(signature = (store, experiment=None))]
pub fn lab_lines<'py>(py: Python<'py>, store: PathBuf, experiment: Option<String>) -> PyResult<Bound<'py, PyAny>> {
    let lines = py.detach(|| frame::lines(&Store::open(&store)?, experiment.as_deref())).map_err(of_lab)?;
    python(py, &lines)
}

/// Index of a run among the lines, and its curves: role, name and numbers.
type Curves<'py> = (usize, Vec<(String, String, Bound<'py, PyArray1<f64>>)>);

/// Returns the runs as in [`lab_lines`], and the curves of recorded or certified iterates of those that have any.
#[pyfunction]
#[pyo3(signature = (store, experiment=None, certified=false))]
pub fn lab_curves<'py>(
    py: Python<'py>,
    store: PathBuf,
    experiment: Option<String>,
    certified: bool,
) -> PyResult<(Bound<'py, PyAny>, Vec<Curves<'py>>)> {
    let part = if certified { Part::Certified } else { Part::Recorded };
    let read = || -> Result<_> {
        let store = Store::open(&store)?;
        let lines = frame::lines(&store, experiment.as_deref())?;
        let curves = frame::curves(&store, &lines, part)?;
        Ok((lines, curves))
    };
    let (lines, curves) = py.detach(read).map_err(of_lab)?;
    let curves = curves.into_iter().map(|(line, curves)| {
        let arrays = curves.into_iter().map(|c| (c.role, c.name, PyArray1::from_vec(py, c.numbers)));
        (line, arrays.collect())
    });
    Ok((python(py, &lines)?, curves.collect()))
}

/// Returns the style sheet of reports, for pages that the Python package makes.
#[pyfunction]
pub fn page_style() -> String {
    thalweg_lab::report::style()
}
