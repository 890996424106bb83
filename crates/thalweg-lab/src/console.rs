//! Progress bars and tables of jobs on the terminal, and interruption by signals. Results are printed elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg::run::{Diagnostics, Observer, Progress, Row};

use crate::lab::schedule::ProgressObserver;
use crate::output::{message, visible};
use crate::verdict::INTERRUPTED;
use crate::{Error, Result};

/// Returns a flag that the first interrupt sets; a second interrupt ends the process at once.
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

/// Describes a recorded iterate. The violation is omitted without constraints.
pub fn state(row: &Row) -> String {
    let violation =
        if row.violation == f64::NEG_INFINITY { String::new() } else { format!("  violation {:+.1e}", row.violation) };
    format!("objective {:.6}{violation}", row.objective)
}

/// Estimates the remaining time from the progress between the shares `first` and `share`; `None` before any progress.
fn left(gone: Duration, first: f64, share: f64) -> Option<Duration> {
    let pace = gone.as_secs_f64() / (share - first);
    (share > first).then(|| Duration::try_from_secs_f64(pace * (1.0 - share).max(0.0)).ok()).flatten()
}

/// Width of the bar of a run.
const WIDTH: u16 = 32;

fn terminal_width() -> u16 {
    console::Term::stderr().size().1
}

/// Creates a line of a bar of up to `most` characters and a text, which is cut at the width of the terminal. Where that is small,
/// the bar has half of it.
fn line(most: u16, percent: &str, terminal: u16) -> Option<ProgressStyle> {
    let bar = most.min(terminal.saturating_sub(8) / 2).max(1);
    ProgressStyle::with_template(&format!("{{bar:{bar}}} {percent}{{wide_msg}}")).ok()
}

/// Creates the bar of one run: share, state and remaining time.
fn bar(target: ProgressDrawTarget, terminal: u16) -> Option<ProgressBar> {
    const STEPS: u64 = 10_000;
    let style = line(WIDTH, "{percent:>3}%  ", terminal)?;
    Some(ProgressBar::with_draw_target(Some(STEPS), target).with_style(style))
}

/// Progress bar on standard error, shown only on a terminal.
pub struct Bar {
    bar: Option<ProgressBar>,
    /// When work started, and the share completed at that time, which is not 0 for a continued run.
    begun: OnceLock<(Instant, f64)>,
    /// State of the run, and the remaining time.
    words: Mutex<[String; 2]>,
}

impl Bar {
    /// Creates a bar, shown if `wanted` and if standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let bar = || bar(ProgressDrawTarget::stderr(), terminal_width());
        Bar { bar: shown.then(bar).flatten(), begun: OnceLock::new(), words: [String::new(), String::new()].into() }
    }

    /// Shows the completed share, from 0 to 1.
    pub fn share(&self, share: f64) {
        let Some(bar) = &self.bar else { return };
        let (begun, first) = *self.begun.get_or_init(|| (Instant::now(), share));
        let position = (share * bar.length().unwrap_or(0) as f64) as u64;
        if position != bar.position() {
            if let Some(left) = left(begun.elapsed(), first, share) {
                self.show(1, format!("{:#} left", indicatif::HumanDuration(left)));
            }
            bar.set_position(position);
        }
    }

    /// Replaces one of the words beside the bar.
    fn show(&self, which: usize, text: String) {
        let Some(bar) = &self.bar else { return };
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words[which] = text;
        let shown: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        bar.set_message(shown.join("  "));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Bar {
    fn recorded(&mut self, row: &Row, _: &[f64], _: &Diagnostics) {
        self.show(0, state(row));
    }

    fn progressed(&mut self, progress: &Progress) {
        self.share(progress.share);
    }
}

/// Progress of the jobs of an experiment on standard error: on a terminal a line for each worker and one for the total,
/// otherwise a line for each finished job.
pub struct Board {
    wanted: bool,
    lines: Option<Lines>,
    total: AtomicUsize,
    done: AtomicUsize,
    /// Number of jobs executed here, without those that were already finished.
    worked: AtomicUsize,
    begun: Instant,
    /// Completed share of each worker's job.
    shares: Mutex<Vec<f64>>,
}

struct Lines {
    /// Groups the lines.
    all: MultiProgress,
    workers: Vec<ProgressBar>,
    whole: ProgressBar,
}

impl Board {
    /// Creates a board for this many workers.
    pub fn new(wanted: bool, workers: usize) -> Self {
        const STEPS: u64 = 1000;
        let shown = wanted && std::io::stderr().is_terminal();
        let style = |most| shown.then(|| line(most, "", terminal_width())).flatten();
        let lines = style(12).zip(style(WIDTH)).map(|(one, whole)| {
            let all = MultiProgress::new();
            let bar = |style: ProgressStyle| all.add(ProgressBar::new(STEPS).with_style(style));
            Lines { workers: (0..workers).map(|_| bar(one.clone())).collect(), whole: bar(whole), all }
        });
        Board {
            wanted,
            lines,
            total: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            worked: AtomicUsize::new(0),
            begun: Instant::now(),
            shares: Mutex::new(vec![0.0; workers]),
        }
    }

    /// Removes the board.
    pub fn finish(&self) {
        if let Some(lines) = &self.lines {
            lines.workers.iter().chain([&lines.whole]).for_each(ProgressBar::finish_and_clear);
            // The last line drawn may still be visible; a closed terminal has nothing to clear.
            let _ = lines.all.clear();
        }
    }

    /// Estimates the remaining time, if further jobs take as long as the finished ones.
    fn left(&self) -> Option<Duration> {
        let worked = self.worked.load(Ordering::Relaxed) as f64;
        let running: f64 = self.shares.lock().unwrap_or_else(PoisonError::into_inner).iter().sum();
        let left = self.total.load(Ordering::Relaxed).saturating_sub(self.done.load(Ordering::Relaxed)) as f64 - running;
        let each = self.begun.elapsed().as_secs_f64() / (worked + running);
        // Less than half a job is too little for an estimate.
        (worked + running > 0.5).then(|| Duration::try_from_secs_f64(each * left.max(0.0)).ok()).flatten()
    }

    fn show(&self) {
        let Some(lines) = &self.lines else { return };
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let left = self.left().map_or(String::new(), |left| format!(", about {} left", indicatif::HumanDuration(left)));
        lines.whole.set_length(total as u64);
        lines.whole.set_position(done as u64);
        lines.whole.set_message(format!("{done} of {total} jobs{left}"));
    }

    fn share(&self, worker: usize, share: f64) {
        if let Some(known) = self.shares.lock().unwrap_or_else(PoisonError::into_inner).get_mut(worker) {
            *known = share;
        }
    }
}

impl ProgressObserver for Board {
    fn planned(&self, total: usize) {
        self.total.store(total, Ordering::Relaxed);
        self.show();
    }

    fn started(&self, worker: usize, name: &str) {
        self.share(worker, 0.0);
        if let Some(bar) = self.lines.as_ref().and_then(|lines| lines.workers.get(worker)) {
            bar.set_position(0);
            bar.set_message(visible(name).into_owned());
        }
        self.show();
    }

    fn progressed(&self, worker: usize, share: f64, words: Option<String>) {
        if share.is_finite() {
            self.share(worker, share);
        }
        if let Some(bar) = self.lines.as_ref().and_then(|lines| lines.workers.get(worker)) {
            match words {
                None => bar.set_position((share * bar.length().unwrap_or(0) as f64) as u64),
                Some(words) => {
                    let message = bar.message();
                    let name = message.split("  ").next().unwrap_or_default();
                    bar.set_message(format!("{name}  {}", visible(&words)));
                }
            }
        }
        self.show();
    }

    fn finished(&self, worker: Option<usize>, name: &str, words: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(worker) = worker {
            self.share(worker, 0.0);
            self.worked.fetch_add(1, Ordering::Relaxed);
            if self.wanted && self.lines.is_none() {
                let total = self.total.load(Ordering::Relaxed);
                message(format_args!("{done}/{total} {name}: {words}"));
            }
        }
        self.show();
    }

    fn waiting(&self, worker: usize, jobs: usize) {
        if let Some(bar) = self.lines.as_ref().and_then(|lines| lines.workers.get(worker)) {
            bar.set_position(0);
            bar.set_message(format!("waiting: {jobs} jobs are with other processes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_was_done() {
        let second = Duration::from_secs(1);
        assert_eq!(left(second, 0.0, 0.25), Some(3 * second));
        // Continued at 50%.
        assert_eq!(left(second, 0.5, 0.75), Some(second));
        assert_eq!((left(second, 0.0, 0.0), left(second, 0.0, 1.0)), (None, Some(Duration::ZERO)));
    }

    /// Terminal that remembers what was written.
    #[derive(Debug, Clone)]
    struct Terminal(u16, Arc<Mutex<String>>);

    impl indicatif::TermLike for Terminal {
        fn width(&self) -> u16 {
            self.0
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }
        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.1.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> std::io::Result<()> {
            self.write_str("\n")
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bars_fit_the_terminal() {
        for width in [10, 20, 40, 79, 120] {
            let terminal = Terminal(width, Arc::default());
            let bar = bar(ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255), width);
            let mut bar = Bar { bar, begun: OnceLock::new(), words: [String::new(), String::new()].into() };
            let row = Row { objective: 123_456.5, violation: -0.25, ..Row::default() };
            bar.recorded(&row, &[], &Diagnostics::default());
            bar.show(1, "3h left".into());
            bar.share(0.5);
            bar.bar.as_ref().unwrap().tick();
            let written = terminal.1.lock().unwrap().clone();
            let longest = written.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{width}: {longest} in {written:?}");
            assert_eq!(written.contains("objective 123456.500000  violation -2.5e-1  3h left"), width == 120, "{written:?}");
        }
    }

    #[test]
    fn a_problem_without_constraints_has_no_violation() {
        let row = |violation| Row { objective: 0.5, violation, ..Row::default() };
        assert_eq!(state(&row(f64::NEG_INFINITY)), "objective 0.500000");
        assert_eq!(state(&row(-0.25)), "objective 0.500000  violation -2.5e-1");
        assert_eq!(state(&row(f64::NAN)), "objective 0.500000  violation NaN");
    }
}
