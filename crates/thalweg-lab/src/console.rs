//! What a person meets while a command works: a progress bar, and the way to stop it. Results are printed elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use thalweg::run::{Observer, Progress, Row};

use crate::commands::INTERRUPTED;
use crate::{Error, Result};

/// A flag that the first interrupt sets; a second one ends the process at once.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })
    .map_err(|e| Error::Request(format!("interrupts cannot be caught: {e}")))?;
    Ok(stop)
}

/// Progress on standard error, only where someone can see it.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar that is shown if it is wanted and standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        const STEPS: u64 = 10_000;
        let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  {eta} left");
        let visible = wanted && std::io::stderr().is_terminal();
        Bar(style.ok().filter(|_| visible).map(|style| ProgressBar::new(STEPS).with_style(style)))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Bar {
    fn recorded(&mut self, row: &Row) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("objective {:.6}  violation {:+.1e}", row.objective, row.violation));
        }
    }

    fn progressed(&mut self, progress: &Progress) {
        if let Some(bar) = &self.0 {
            bar.set_position((progress.share * bar.length().unwrap_or(0) as f64) as u64);
        }
    }
}
