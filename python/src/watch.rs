//! What a run shows of itself to Python while it goes on, and how Python ends it: callbacks, progress, signals.

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

/// Seconds between two looks at signals: short enough for fingers, too long to be felt.
const SIGNALS: f64 = 0.02;
/// Between two reports of progress.
const REPORTS: Duration = Duration::from_millis(100);

/// Does something in the thread of the caller: no pool of threads is started that a forked process would wait for in vain.
pub fn alone<T: Send>(work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    with_threads(1, work).map_err(of_library)?
}

/// A flag that ends a run at its next step.
#[pyclass(frozen, module = "thalweg._core")]
#[derive(Default)]
pub struct Interrupt {
    /// The flag itself, which the run looks at.
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

    /// Takes it back.
    fn clear(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// The first exception that Python raised during a run. The run ends, and then it is raised again, unchanged.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps an exception if it is the first.
    pub fn keep(&self, error: PyErr) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(error);
        }
    }

    /// Asks Python for something; what it raises is kept, and its words are the error.
    pub fn ask<T>(&self, question: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Python::attach(question).map_err(|error| {
            let sentence = Python::attach(|py| error.value(py).to_string());
            self.keep(error);
            Error::Oracle(sentence)
        })
    }

    /// The exception, if there was one.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Tells Python about a run.
pub struct Watcher {
    interrupt: Arc<AtomicBool>,
    raised: Raised,
    /// Called with each recorded iterate: a dictionary, the point, multipliers and the bound on near-stationarity, where the method
    /// has them. True ends the run.
    on_record: Option<Py<PyAny>>,
    /// Called now and then with the share of the budget that is used up, the iterations and the seconds.
    on_progress: Option<Py<PyAny>>,
    /// Seconds of the run at the last look at signals, and when progress was last reported.
    looked: f64,
    reported: Instant,
}

impl Watcher {
    /// Watches a run that `interrupt` ends.
    pub fn new(interrupt: &Interrupt, raised: Raised, on_record: Option<Py<PyAny>>, on_progress: Option<Py<PyAny>>) -> Self {
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
        // By the clock that the run has read already. It may stand at 0 again where a run consists of several.
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
