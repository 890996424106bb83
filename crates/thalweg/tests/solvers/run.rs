//! The run loop as a user of the library meets it, whatever the method: what is recorded, what is measured beside, and when a run
//! ends because its iterate is good enough.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{bits, disc, learning, solve};
use thalweg::assess::{Measures, Penalised, Switching};
use thalweg::certify;
use thalweg::run::{
    self, Budget, Checkpoint, Limit, Metric, Observer, Options, Outcome, Progress, Record, Row, StopReason, StoppingRule, Target,
};
use thalweg::solvers::ipp::{self, Inner};
use thalweg::solvers::ssg::{self, Output};
use thalweg::solvers::{Bundle, Eval, FirstOrder, Ipp, Method, PointOrigin, Solver, Ssg, State, Step, bundle};
use thalweg::{Error, Note, Result};

fn ssg(eta: f64, output: Output) -> Box<FirstOrder<'static>> {
    Box::new(Ssg::new(ssg::Settings { eta: eta.into(), tol: 1e-3.into(), output, ..ssg::Settings::default() }).unwrap())
}

/// A switching method whose state has a generator, an average and batches in it.
fn noisy() -> Box<FirstOrder<'static>> {
    let settings =
        ssg::Settings { eta: 0.2.into(), tol: 1e-3.into(), batch_f: Some(7), output: Output::Random, ..ssg::Settings::default() };
    Box::new(Ssg::new(settings).unwrap())
}

fn per_decade(k: u64) -> Record {
    Record { per_decade: Some(k), ..Record::default() }
}

fn every(k: u64) -> Record {
    Record { every: Some(k), ..Record::default() }
}

/// A file that is removed with its folder at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("thalweg-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        let file = self.0.join("run.save");
        Some(Checkpoint { file, every: Duration::from_secs(3600), resume: true, settings: "s".into() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The sum of the variables and the first of them.
#[derive(Debug)]
struct Sum;

impl Metric for Sum {
    fn names(&self) -> Vec<String> {
        vec!["sum".into(), "first".into()]
    }

    fn read(&self, x: &[f64]) -> Result<Vec<f64>> {
        Ok(vec![x.iter().sum(), x[0]])
    }
}

/// Raises a flag after some steps.
struct After(u64, Arc<AtomicBool>);

impl Observer for After {
    fn progressed(&mut self, progress: &Progress) {
        self.1.store(progress.iterations >= self.0, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupted_run_records_the_same_marks_and_readings_when_it_is_continued() {
    let problem = learning(120);
    let budget = Budget { passes: Some(300.0), ..Budget::default() };
    let whole = Options { budget, record: per_decade(6), seed: 3, metrics: Some(Arc::new(Sum)), ..Options::default() };
    let want = solve(&problem, noisy(), &[0.1; 5], &whole);
    assert!(want.trace.len() > 12, "{}", want.trace.len());
    assert_eq!((want.trace[0].iteration, want.trace.last().unwrap().iteration), (0, want.iterations));

    let folder = Folder::new("marks");
    let mut got = None;
    for after in [1, 2, 9, 10, 11, 77, u64::MAX] {
        let flag = Arc::new(AtomicBool::new(false));
        let options = Options { checkpoint: folder.checkpoint(), interrupt: Some(Arc::clone(&flag)), ..whole.clone() };
        let outcome = run::minimize(&problem, &mut *noisy(), &[0.1; 5], &options, &mut After(after, flag)).unwrap();
        assert_eq!(outcome.ended == StopReason::Interrupted, after < u64::MAX, "{:?}", outcome.ended);
        got = Some(outcome);
    }
    assert_eq!(bits(&got.unwrap()), bits(&want));

    // A budget that is used up leaves one row of its own, and moves no mark.
    let folder = Folder::new("budget");
    let mut got = vec![];
    for passes in [60.0, 200.0, 300.0] {
        let budget = Budget { passes: Some(passes), ..Budget::default() };
        let options = Options { checkpoint: folder.checkpoint(), budget, ..whole.clone() };
        got = solve(&problem, noisy(), &[0.1; 5], &options).trace;
    }
    assert!(got.len() > want.trace.len(), "the rows of the earlier ends stay");
    let known = |row: &&Row| want.trace.iter().any(|w| w.iteration == row.iteration);
    let kept: Vec<_> = got.iter().filter(known).map(|row| (row.iteration, row.metrics.clone())).collect();
    assert_eq!(kept, want.trace.iter().map(|row| (row.iteration, row.metrics.clone())).collect::<Vec<_>>());
    assert!(got.len() <= want.trace.len() + 2);
}

#[test]
fn rows_have_the_samples_and_the_readings_of_their_iterate() {
    let problem = learning(120);
    let plain = Options { record: every(10), ..Options::iterations(50) };
    let gauged = Options { metrics: Some(Arc::new(Sum)), ..plain.clone() };
    let (plain, outcome) = (solve(&problem, noisy(), &[0.1; 5], &plain), solve(&problem, noisy(), &[0.1; 5], &gauged));
    // Of 120 rows a step reads 7 for the objective, or all of them for the constraints alone.
    let samples: Vec<u64> = outcome.trace.iter().map(|row| row.samples).collect();
    assert!(samples[0] == 0 && samples.windows(2).all(|w| w[0] < w[1]), "{samples:?}");
    assert_eq!(samples[5], outcome.counts.samples());
    assert_eq!(outcome.trace[0].metrics, [0.1 + 0.1 + 0.1 + 0.1 + 0.1, 0.1]);
    let readings: Vec<(&str, f64)> = outcome.metrics.iter().map(|r| (r.name.as_str(), r.value)).collect();
    let x = &outcome.point.x;
    assert_eq!(readings, [("sum", x.iter().sum()), ("first", x[0])], "at the returned point");
    // Nothing is counted, and nothing else changes.
    assert_eq!((plain.counts, plain.point), (outcome.counts, outcome.point));
    assert!(plain.metrics.is_empty() && plain.trace.iter().all(|row| row.metrics.is_empty()));
}

/// Fails after some readings: with an error, or with a value too few.
#[derive(Debug)]
struct Breaks {
    after: u64,
    read: AtomicU64,
    short: bool,
}

impl Metric for Breaks {
    fn names(&self) -> Vec<String> {
        Sum.names()
    }

    fn read(&self, x: &[f64]) -> Result<Vec<f64>> {
        match self.read.fetch_add(1, Ordering::Relaxed) {
            n if n < self.after => Sum.read(x),
            _ if self.short => Ok(vec![1.0]),
            n => Err(Error::Problem(format!("the needle is stuck after {n} readings"))),
        }
    }
}

#[test]
fn a_gauge_that_fails_costs_a_note_and_not_the_run() {
    for (short, why) in [(false, "the needle is stuck after 2 readings"), (true, "has 1 entries; expected 2")] {
        let gauge = Breaks { after: 2, read: AtomicU64::new(0), short };
        let options = Options { metrics: Some(Arc::new(gauge)), record: every(1), ..Options::iterations(5) };
        let outcome = solve(&disc(), ssg(0.1, Output::Last), &[0.0; 2], &options);
        assert_eq!((&outcome.ended, outcome.trace.len()), (&StopReason::Budget(Limit::Iterations), 6));
        assert!(outcome.trace[..2].iter().all(|row| row.metrics.iter().all(|v| v.is_finite())));
        assert!(outcome.trace[2..].iter().all(|row| row.metrics.len() == 2 && row.metrics.iter().all(|v| v.is_nan())));
        assert!(outcome.metrics.iter().map(|r| r.value).all(f64::is_nan));
        assert_eq!(outcome.notes.len(), 1, "{:?}", outcome.notes);
        assert!(matches!(outcome.notes[0], Note::MetricsFailed { iteration: Some(2), .. }), "{:?}", outcome.notes);
        assert!(outcome.notes[0].to_string().contains(why), "{:?}", outcome.notes);
    }
}

/// Insists that a run ended at the first row of a longer one that `reaches`.
#[track_caller]
fn ends_at_the_first(outcome: &Outcome, longer: &Outcome, goal: Target, reaches: impl Fn(&Row) -> bool) {
    let kept = |row: &Row| row.constraints.iter().all(|g| *g <= 1e-6);
    let first = longer.trace.iter().position(|row| kept(row) && reaches(row)).unwrap();
    let timeless = |rows: &[Row]| -> Vec<Row> {
        // No step was made from the last one.
        let rows = rows.iter().cloned().map(|row| Row { seconds: 0.0, ..row });
        let mut rows: Vec<Row> = rows.collect();
        rows.last_mut().unwrap().step = None;
        rows
    };
    assert!(0 < first && first + 1 < longer.trace.len(), "{first}");
    assert_eq!(outcome.ended, StopReason::Target(goal));
    assert_eq!(timeless(&outcome.trace), timeless(&longer.trace[..=first]));
    let row = &longer.trace[first];
    assert_eq!((outcome.returned, outcome.iterations), (PointOrigin::Target, row.iteration));
    assert_eq!((outcome.point.objective, outcome.point.violation), (row.objective, row.violation));
    assert!(outcome.point.feasible && outcome.success() && outcome.multipliers.is_none());
}

#[test]
fn a_run_ends_at_the_recorded_iterate_whose_objective_reaches_its_target() {
    // The start is far below the target, and outside of the disc.
    let (start, target) = ([1.4, 1.4], -1.3);
    let longer = Options { record: every(7), ..Options::iterations(2000) };
    let stopped = Options { stop: StoppingRule { objective: Some(target), ..StoppingRule::default() }, ..longer.clone() };
    let longer = solve(&disc(), ssg(0.02, Output::Average), &start, &longer);
    assert!(longer.trace[0].objective < target && longer.ended == StopReason::Budget(Limit::Iterations));
    let outcome = solve(&disc(), ssg(0.02, Output::Average), &start, &stopped);
    ends_at_the_first(&outcome, &longer, Target::Objective, |row| row.objective <= target);
    assert_eq!(outcome.ended.to_string(), "reached the target objective");

    // Continued where it ended, it ends there again.
    let folder = Folder::new("target");
    let saved = Options { checkpoint: folder.checkpoint(), ..stopped };
    let (once, twice) = [0, 1].map(|_| solve(&disc(), ssg(0.02, Output::Average), &start, &saved)).into();
    assert_eq!((bits(&once), bits(&twice)), (bits(&outcome), bits(&outcome)));
}

#[test]
fn a_run_ends_at_the_recorded_iterate_whose_certificate_reaches_its_target() {
    let switching = Switching { rho_hat: Some(1.0), iterations: 3000, ..Switching::default() };
    for certificate in [
        Measures { bounds: Some(certify::Bounds::default()), ..Measures::default() },
        Measures { switching: Some(switching), ..Measures::default() },
        // The bound that holds goes before the number without one.
        Measures { bounds: Some(certify::Bounds::default()), switching: Some(switching), penalised: None },
    ] {
        let near = |row: &Row| row.stationarity_bounds.map(|(_, upper)| upper).or(row.stationarity).unwrap();
        let longer = Options { record: every(20), certificate, ..Options::iterations(600) };
        let stopped = Options { stop: StoppingRule { certificate: Some(0.05), ..StoppingRule::default() }, ..longer.clone() };
        let longer = solve(&disc(), ssg(0.01, Output::Average), &[-0.5, 0.0], &longer);
        let outcome = solve(&disc(), ssg(0.01, Output::Average), &[-0.5, 0.0], &stopped);
        ends_at_the_first(&outcome, &longer, Target::Certificate, |row| near(row) <= 0.05);
        assert_eq!(outcome.ended.to_string(), "reached the target near-stationarity");
    }
}

#[test]
fn targets_that_cannot_be_meant_are_refused() {
    let refused = |stop: StoppingRule, certificate: Measures| {
        let options = Options { stop, certificate, ..Options::iterations(1) };
        let refused = run::minimize(&disc(), &mut *ssg(0.1, Output::Last), &[0.0; 2], &options, &mut ());
        refused.map(|outcome| outcome.ended).unwrap_err().to_string()
    };
    let (none, bounds) = (Measures::default(), Measures { bounds: Some(certify::Bounds::default()), ..Measures::default() });
    let near = |v| StoppingRule { certificate: Some(v), ..StoppingRule::default() };
    assert!(refused(near(0.0), bounds).contains("stop.certificate must be a finite number larger than 0, got 0"));
    let message = refused(near(0.1), none);
    assert_eq!(message, "stop.certificate = 0.1 needs a certificate with bounds or by switching");
    let penalised = Measures { penalised: Some(Penalised::default()), ..Measures::default() };
    assert_eq!(refused(near(0.1), penalised), "stop.certificate = 0.1 needs a certificate with bounds or by switching");
    let objective = StoppingRule { objective: Some(f64::NAN), ..StoppingRule::default() };
    assert!(refused(objective, none).contains("stop.objective must be a finite number, got NaN"));
}

#[test]
fn the_last_iterate_of_a_method_that_finishes_is_recorded() {
    let bundle = || Box::new(Bundle::new(bundle::Settings::default()).unwrap());
    for record in [Record::default(), every(1000), per_decade(1)] {
        let outcome = solve(&disc(), bundle(), &[0.0; 2], &Options { record, ..Options::iterations(500) });
        let last = outcome.trace.last().unwrap();
        assert_eq!((&outcome.ended, last.iteration, last.step), (&StopReason::Finished, outcome.iterations, None));
        assert_eq!(last.objective, outcome.point.objective);
    }
    let list = Record { at: Some(vec![0]), ..Record::default() };
    assert_eq!(solve(&disc(), bundle(), &[0.0; 2], &Options { record: list, ..Options::iterations(500) }).trace.len(), 1);
}

/// The switching method, as if its numbers had changed.
struct Newer(Ssg);

impl Method for Newer {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn version(&self) -> u32 {
        2
    }
    fn iterate(&self, out: &mut [f64]) {
        self.0.iterate(out)
    }
    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.0.output(out)
    }
    fn save(&self) -> Result<State> {
        self.0.save()
    }
    fn restore(&mut self, state: &State) -> Result<()> {
        self.0.restore(state)
    }
}

impl<'e> Solver<dyn Eval + 'e> for Newer {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        self.0.start(ev, x)
    }
    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        self.0.step(ev)
    }
}

#[test]
fn a_checkpoint_of_another_version_of_the_method_is_refused() {
    let folder = Folder::new("version");
    let options = Options { checkpoint: folder.checkpoint(), ..Options::iterations(3) };
    let ssg = || Ssg::new(ssg::Settings::default()).unwrap();
    run::minimize(&disc(), &mut ssg(), &[0.0; 2], &options, &mut ()).unwrap();
    run::minimize(&disc(), &mut ssg(), &[0.0; 2], &options, &mut ()).unwrap();
    let refused = run::minimize(&disc(), &mut Newer(ssg()), &[0.0; 2], &options, &mut ()).unwrap_err().to_string();
    assert!(refused.contains("its method's version is '1', here it is '2'"), "{refused}");
    // The inner method's numbers are the outer's too.
    let inner = Inner::Ssg(ssg::Settings::default());
    assert_eq!(Ipp::new(ipp::Settings { inner, ..ipp::Settings::default() }).unwrap().version(), 1001);
}
