//! Observation of a run from Python, and its interruption: callbacks, progress, signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use numpy::PyArray1;
use pyo3::prelude::*;
use thalweg::math::reduce::with_threads;
use thalweg::run::{Diagnostics, Observer, Progress, Row};
use thalweg::{Error, Result};

use crate::error::of_library;
use crate::values::python;

/// Seconds between two checks for signals: short enough for an interactive interrupt, long enough to cost nothing measurable.
const SIGNALS: f64 = 0.02;
/// Interval between two reports of progress.
const REPORTS: Duration = Duration::from_millis(100);

/// Runs `work` in the thread of the caller, without starting a thread pool, on which a forked process would wait forever.
pub fn alone<T: Send>(work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    with_threads(1, work).map_err(of_library)?
}

/// Flag that ends a run at its next step.
#[pyclass(frozen, module = "thalweg._core")]
#[derive(Default)]
pub struct Interrupt {
    /// Flag that the run checks.
    pub flag: Arc<AtomicBool>,
}

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Interrupt::default()
    }

    /// Ends the run at its next step.
    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Clears the flag.
    fn clear(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// Returns whether the flag is set.
    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// First exception that Python raised during a run. The run ends, and the exception is raised again, unchanged.
#[derive(Clone, Default)]
pub struct RaisedError(Arc<Mutex<Option<PyErr>>>);

impl RaisedError {
    /// Stores an exception if it is the first.
    pub fn keep(&self, error: PyErr) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(error);
        }
    }

    /// Calls Python; an exception is stored, and its message becomes the error.
    pub fn ask<T>(&self, question: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Python::attach(question).map_err(|error| {
            let sentence = Python::attach(|py| error.value(py).to_string());
            self.keep(error);
            Error::Oracle(sentence)
        })
    }

    /// Takes the exception, if there was one.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Observer that reports a run to Python.
pub struct Watcher {
    interrupt: Arc<AtomicBool>,
    raised: RaisedError,
    /// Called with each recorded iterate: a dictionary, the point, multipliers and the bound on near-stationarity, if the
    /// solver has them. True ends the run.
    on_record: Option<Py<PyAny>>,
    /// Called periodically with the used share of the budget, the iterations and the seconds.
    on_progress: Option<Py<PyAny>>,
    /// Seconds of the run at the last check for signals, and when progress was last reported.
    looked: f64,
    reported: Instant,
}

impl Watcher {
    /// Creates an observer of a run that `interrupt` ends.
    pub fn new(interrupt: &Interrupt, raised: RaisedError, on_record: Option<Py<PyAny>>, on_progress: Option<Py<PyAny>>) -> Self {
        let (looked, reported) = (0.0, Instant::now());
        Watcher { interrupt: Arc::clone(&interrupt.flag), raised, on_record, on_progress, looked, reported }
    }

    fn end(&self, error: PyErr) {
        self.raised.keep(error);
        self.interrupt.store(true, Ordering::Relaxed);
    }
}

impl Observer for Watcher {
    fn recorded(&mut self, row: &Row, x: &[f64], known: &Diagnostics) {
        let Some(call) = &self.on_record else { return };
        let told = Python::attach(|py| -> PyResult<bool> {
            let multipliers = known.multipliers.map(|m| PyArray1::from_slice(py, m));
            call.bind(py).call1((python(py, row)?, PyArray1::from_slice(py, x), multipliers, known.upper))?.is_truthy()
        });
        match told {
            Ok(false) => {}
            Ok(true) => self.interrupt.store(true, Ordering::Relaxed),
            Err(error) => self.end(error),
        }
    }

    fn progressed(&mut self, progress: &Progress) {
        // Uses the clock that the run has already read. It can restart at 0 if there are several runs.
        if (0.0..SIGNALS).contains(&(progress.seconds - self.looked)) {
            return;
        }
        self.looked = progress.seconds;
        let report = self.on_progress.as_ref().filter(|_| self.reported.elapsed() >= REPORTS);
        let done = Python::attach(|py| -> PyResult<()> {
            py.check_signals()?;
            if let Some(report) = report {
                report.bind(py).call1((progress.share, progress.iterations, progress.seconds))?;
            }
            Ok(())
        });
        if report.is_some() {
            self.reported = Instant::now();
        }
        if let Err(error) = done {
            self.end(error);
        }
    }
}
