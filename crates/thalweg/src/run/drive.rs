//! The loop of a run, from the start or a checkpoint to the outcome.

use std::time::{Duration, Instant};

use super::driver::Driver;
use super::metric::Metrics;
use super::{Diagnostics, MAX_LISTED_CONSTRAINTS};
use super::{Limit, MetricValue, Observer, Options, Outcome, Point, Progress, Row, StopReason, checkpoint, repair};
use crate::assess::{MeasuredStationarity, Measures};
use crate::certify::{Bounds, ZerothOrderReport};
use crate::error::check_length;
use crate::eval::{Evaluator, Measure, length_at};
use crate::math::vec;
use crate::oracle::{Values, Warm};
use crate::solvers::{PointOrigin, Stationary, Verdict};
use crate::{Error, Note, Result};

/// Minimum interval between checkpoints, as a multiple of the time that the last one took. Without it, a run with millions of
/// variables and a slow disk would spend most of its time writing checkpoints.
const CHECKPOINT_INTERVAL: u32 = 10;

/// Number of evaluations of the certificate that a verdict of infeasibility is compared with.
const COMPARISON: u64 = 100;

/// Runs a solver from `start` until it stops.
pub(super) fn drive<P: Values + ?Sized>(
    problem: &P,
    driver: &mut dyn Driver<P>,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    let mut run = Run::begin(problem, driver, start, options, observer)?;
    run.resume()?;
    run.prepare()?;
    let ended = run.run();
    Ok(run.conclude(ended))
}

/// Time of a run, without measurements.
struct Stopwatch {
    before: f64,
    since: Instant,
}

impl Stopwatch {
    fn new(before: f64) -> Self {
        Stopwatch { before, since: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        self.before + self.since.elapsed().as_secs_f64()
    }

    fn pause(&mut self) {
        self.before = self.seconds();
    }

    fn resume(&mut self) {
        self.since = Instant::now();
    }
}

/// A run in progress.
struct Run<'a, P: ?Sized> {
    problem: &'a P,
    driver: &'a mut dyn Driver<P>,
    options: &'a Options,
    observer: &'a mut (dyn Observer + Send),
    /// Counts what the solver evaluates.
    ev: Evaluator<'a, P>,
    /// Evaluates recorded iterates and the returned point.
    points: Measure<'a, P>,
    metrics: Metrics<'a>,
    watch: Stopwatch,
    /// Time at the last step. The clock is read once per step, because reading it is noticeable on small problems.
    seconds: f64,
    iteration: u64,
    /// The current iterate; up to date at every step only if `tracks_iterate`.
    x: Vec<f64>,
    /// The iterate before the current one, returned after a failure. Empty unless `tracks_iterate`.
    previous: Vec<f64>,
    /// Whether the solver writes its iterate cheaply. With millions of variables and sparse steps, copying the iterate at every
    /// step would be most of the work.
    tracks_iterate: bool,
    trace: Vec<Row>,
    best_feasible: Option<Point>,
    last_checkpoint: Instant,
    checkpoint_took: Duration,
    /// The start, projected onto the domain.
    start: Vec<f64>,
    notes: Vec<Note>,
}

/// The point that the solver returns, with what it knows about it.
struct ReturnedPoint {
    origin: PointOrigin,
    multipliers: Option<Vec<f64>>,
    stationary: Option<Stationary>,
}

impl ReturnedPoint {
    /// A point about which the solver knows nothing.
    fn bare(origin: PointOrigin) -> Self {
        ReturnedPoint { origin, multipliers: None, stationary: None }
    }
}

/// What is computed at the returned point after the run.
#[derive(Default)]
struct Assessment {
    zeroth_order: Option<ZerothOrderReport>,
    slope: Option<f64>,
    /// Certificate of a point whose constraints were called conflicting.
    feasibility: Option<MeasuredStationarity>,
}

impl<'a, P: Values + ?Sized> Run<'a, P> {
    /// Checks the start and starts the solver there.
    fn begin(
        problem: &'a P,
        driver: &'a mut dyn Driver<P>,
        start: &[f64],
        options: &'a Options,
        observer: &'a mut (dyn Observer + Send),
    ) -> Result<Self> {
        let mut notes: Vec<Note> = Note::threads(options.threads).into_iter().collect();
        if options.repair {
            repair::check(problem)?;
        }
        let x = project_start(problem, start, &mut notes)?;
        let mut ev = Evaluator::new(problem, options.seed, options.feasibility);
        let mut points = Measure::new(problem, options.feasibility, options.listed);
        let metrics = Metrics::new(options.metrics.as_deref());
        points.point(&x).map_err(|e| Error::Problem(format!("the start cannot be used: {e}")))?;
        let watch = Stopwatch::new(0.0);
        driver.start(&mut ev, &x)?;
        Ok(Run {
            problem,
            driver,
            options,
            observer,
            ev,
            points,
            metrics,
            watch,
            seconds: 0.0,
            iteration: 0,
            start: x.clone(),
            x,
            previous: vec![],
            tracks_iterate: false,
            trace: vec![],
            best_feasible: None,
            last_checkpoint: Instant::now(),
            checkpoint_took: Duration::ZERO,
            notes,
        })
    }

    /// Continues from the checkpoint, if that is asked for and the file exists.
    fn resume(&mut self) -> Result<()> {
        let Some(plan) = self.options.checkpoint.as_ref().filter(|plan| plan.resume) else { return Ok(()) };
        let Some(saved) = checkpoint::load(plan, self.problem, self.driver.method(), self.options)? else {
            self.notes.push(Note::CheckpointMissing { file: plan.file.display().to_string() });
            return Ok(());
        };
        self.driver.restore(&saved.solver)?;
        self.ev.set_memory(saved.memory);
        (self.iteration, self.trace, self.best_feasible) = (saved.iteration, saved.trace, saved.best);
        self.notes.push(Note::Continued { iteration: self.iteration });
        self.watch = Stopwatch::new(saved.seconds);
        Ok(())
    }

    /// Prepares the state of the loop for the first step.
    fn prepare(&mut self) -> Result<()> {
        self.driver.method().iterate(&mut self.x);
        self.tracks_iterate = self.driver.method().writes_cheaply();
        if self.tracks_iterate {
            self.previous.clone_from(&self.x);
        }
        if let Some(plan) = &self.options.checkpoint {
            // Fail early if the checkpoint file is not writable.
            checkpoint::probe(plan)?;
        }
        self.last_checkpoint = Instant::now();
        self.seconds = self.watch.seconds();
        Ok(())
    }

    /// Makes steps until the run stops.
    fn run(&mut self) -> StopReason {
        let mut finished = None;
        loop {
            if let Some(ended) = self.visit(finished) {
                return ended;
            }
            if self.checkpoint_due() {
                self.watch.pause();
                let began = Instant::now();
                self.save();
                self.checkpoint_took = began.elapsed();
                self.last_checkpoint = Instant::now();
                self.watch.resume();
            }
            match self.advance() {
                Ok(verdict) => finished = verdict,
                Err(e) => return self.failed(&e),
            }
        }
    }

    /// Records the current iterate if it is due, and returns why the run stops here, if it does.
    fn visit(&mut self, finished: Option<StopReason>) -> Option<StopReason> {
        if self.tracks_iterate {
            self.driver.method().iterate(&mut self.x);
        }
        let spent = self.spent();
        let last = spent.is_some() || finished.is_some();
        if !last && self.options.interrupted() {
            // The iterate is not recorded, so that a resumed run has the trace of an uninterrupted one.
            return Some(StopReason::Interrupted);
        }
        if self.record_due(last) {
            self.watch.pause();
            let recorded = self.record();
            self.watch.resume();
            if let Err(e) = recorded {
                return Some(self.failed(&e));
            }
        }
        finished.or_else(|| self.target_reached()).or(spent.map(StopReason::Budget))
    }

    fn spent(&self) -> Option<Limit> {
        self.options.budget.spent(self.iteration, self.ev.passes(), self.ev.counts(), self.seconds)
    }

    fn failed(&self, error: &Error) -> StopReason {
        StopReason::Failed { iteration: self.iteration, reason: error.to_string() }
    }

    fn record_due(&self, last: bool) -> bool {
        let before = self.trace.last();
        before.is_none_or(|row| row.iteration < self.iteration)
            && self.options.record.due(self.iteration, last, self.ev.passes().total(), before.map(Row::passes))
    }

    /// Measures the current iterate and adds a row to the trace.
    fn record(&mut self) -> Result<()> {
        if !self.tracks_iterate {
            self.driver.method().iterate(&mut self.x);
        }
        let (t, x) = (self.iteration, &self.x);
        let point = self.points.point(x)?;
        let mut row = Row::new(t, &point, x, self.ev.passes(), self.ev.counts().samples(), self.seconds);
        if !self.options.certificate.is_empty() {
            let measured = self.driver.certify(self.problem, x, &self.options.certificate)?;
            row.stationarity_bounds = measured.bounds.map(|m| (m.lower, m.upper));
            row.stationarity = measured.switching.map(|m| m.distance);
            row.penalty_stationarity = measured.penalised.map(|m| m.gradient);
        }
        row.metrics = self.metrics.read(x, Some(t));
        let method = self.driver.method();
        let upper = row.stationarity_bounds.map(|(_, upper)| upper).or_else(|| method.stationary_within());
        self.observer.recorded(&row, x, &Diagnostics { multipliers: method.multipliers(), upper });
        self.trace.push(row);
        self.update_best(point);
        Ok(())
    }

    /// Returns the target that the current iterate reaches. Depends on the recorded row only, so that a run resumed from its end
    /// stops there again.
    fn target_reached(&self) -> Option<StopReason> {
        let row = self.trace.last().filter(|row| row.iteration == self.iteration)?;
        self.options.stop.reached(row).map(StopReason::Target)
    }

    fn checkpoint_due(&self) -> bool {
        let due = |plan: &super::Checkpoint| plan.every.max(CHECKPOINT_INTERVAL * self.checkpoint_took);
        self.options.checkpoint.as_ref().is_some_and(|plan| self.last_checkpoint.elapsed() >= due(plan))
    }

    /// Writes a checkpoint, if there is one to write. The run goes on if that fails.
    fn save(&mut self) {
        let Some(plan) = &self.options.checkpoint else { return };
        let at = checkpoint::Position {
            iteration: self.iteration,
            seconds: self.seconds,
            trace: &self.trace,
            best: self.best_feasible.as_ref(),
        };
        let saved = checkpoint::save(plan, self.driver.method(), self.options, &self.ev, at);
        if let Err(e) = saved {
            let note = Note::CheckpointNotSaved { reason: e.to_string() };
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Makes one step. Returns why the run stops after it, if the solver has finished.
    fn advance(&mut self) -> Result<Option<StopReason>> {
        let step = self.driver.step(&mut self.ev)?;
        if let Some(row) = self.trace.last_mut().filter(|row| row.iteration == self.iteration) {
            row.step = Some(step.kind);
        }
        if self.tracks_iterate {
            self.previous.copy_from_slice(&self.x);
        }
        self.iteration += 1;
        self.seconds = self.watch.seconds();
        let passes = self.ev.passes();
        let share = self.options.budget.share(self.iteration, passes, self.ev.counts(), self.seconds);
        self.observer.progressed(&Progress { iterations: self.iteration, passes, seconds: self.seconds, share });
        Ok(step.finished.then(|| self.verdict()))
    }

    /// Translates the verdict of a solver that has finished.
    fn verdict(&self) -> StopReason {
        match self.driver.method().verdict() {
            Some(Verdict::Infeasible(found)) => StopReason::Infeasible {
                conflicting: found.conflicting.iter().map(|&j| self.problem.constraint_name(j as usize).into_owned()).collect(),
                everywhere: found.everywhere,
                radius: (!found.estimated).then_some(found.radius),
            },
            _ => StopReason::Finished,
        }
    }

    /// Ends the run. All values of the outcome are measured at the returned point, none are carried over from the loop.
    fn conclude(mut self, ended: StopReason) -> Outcome {
        self.seconds = self.watch.seconds();
        let failed = matches!(ended, StopReason::Failed { .. });
        if !failed {
            self.save();
        }
        let mut returned = self.output(&ended);
        self.notes.extend(self.driver.method().notes());
        let mut assessment = Assessment::default();
        // After an interrupt the caller is waiting, so nothing more is evaluated than the point itself.
        if !failed && ended != StopReason::Interrupted {
            if self.options.repair {
                self.repair(&mut returned);
            }
            assessment = self.assess(&mut returned, &ended);
        }
        self.renew_units();
        let point = self.points.point(&self.x).unwrap_or_else(|_| self.points.unknown(&self.x));
        self.update_best(point.clone());
        // A feasible point that contradicts the verdict is returned beside the solver's.
        let proximal = assessment.feasibility.iter().filter_map(|found| found.bounds.as_ref()).find(|c| c.proximal_feasible);
        if let Some(point) = proximal.and_then(|found| self.points.point(&found.proximal).ok()) {
            self.update_best(point);
        }
        let values = self.metrics.read(&self.x, None);
        self.notes.extend(self.metrics.failure);
        let metrics = self.metrics.names.into_iter().zip(values).map(|(name, value)| MetricValue { name, value }).collect();
        let mut outcome = Outcome {
            point,
            returned: returned.origin,
            multipliers: returned.multipliers,
            ended,
            stationary: returned.stationary,
            slope: assessment.slope,
            zeroth_order: assessment.zeroth_order,
            best_feasible: self.best_feasible,
            iterations: self.iteration,
            counts: self.ev.counts().clone(),
            passes: self.ev.passes(),
            seconds: self.seconds,
            seed: self.options.seed,
            solver: self.driver.method().name().into(),
            trace: self.trace,
            metrics,
            notes: self.notes,
        };
        outcome.compare_with_points();
        if let (StopReason::Infeasible { .. }, Some(measured)) = (&outcome.ended, &assessment.feasibility) {
            outcome.compare(measured);
        }
        outcome
    }

    /// Writes the point to return into `x`.
    fn output(&mut self, ended: &StopReason) -> ReturnedPoint {
        match ended {
            StopReason::Failed { .. } => {
                match self.tracks_iterate {
                    true => self.x.copy_from_slice(&self.previous),
                    false => self.driver.method().iterate(&mut self.x),
                }
                self.notes.push(Note::LastGoodPoint);
                ReturnedPoint::bare(PointOrigin::OutputRule)
            }
            // The iterate that reached the target, whatever the solver's output rule says. The multipliers belong to that rule.
            StopReason::Target(_) => ReturnedPoint::bare(PointOrigin::Target),
            _ => {
                let method = self.driver.method();
                let origin = method.output(&mut self.x);
                let stationary = match method.verdict() {
                    Some(Verdict::Stationary(proved)) => Some(proved.clone()),
                    _ => None,
                };
                ReturnedPoint { origin, multipliers: method.multipliers().map(<[f64]>::to_vec), stationary }
            }
        }
    }

    /// Projects an infeasible point onto the constraints.
    fn repair(&mut self, returned: &mut ReturnedPoint) {
        let Ok(before) = self.points.point(&self.x) else { return };
        if before.feasible {
            return;
        }
        let (violated, violation, objective) = (before.violated, before.violation, before.objective);
        let began = Instant::now();
        let interrupt = self.options.interrupt.as_deref();
        match repair::repair(&mut self.ev, &mut self.points, &mut self.x, before, interrupt) {
            Ok(()) => {
                // The multipliers and the stationarity bound belong to the solver's own point.
                *returned = ReturnedPoint::bare(PointOrigin::Repaired);
                self.notes.push(Note::Repaired { violated, constraints: self.problem.num_constraints(), violation, objective });
            }
            Err(e) => self.notes.push(Note::NotRepaired { reason: e.to_string() }),
        }
        self.seconds += began.elapsed().as_secs_f64();
    }

    /// Computes the diagnostics of the returned point that the options ask for.
    fn assess(&mut self, returned: &mut ReturnedPoint, ended: &StopReason) -> Assessment {
        let mut assessment = Assessment::default();
        let own = !matches!(returned.origin, PointOrigin::Target | PointOrigin::Repaired);
        let weights = self.driver.method().penalty_weights().filter(|_| own);
        match self.driver.zeroth_order_check(self.problem, &self.x, weights, self.options) {
            Ok(found) => assessment.zeroth_order = found,
            Err(e) => self.notes.push(Note::ZerothOrderCheckFailed { reason: e.to_string() }),
        }
        match self.driver.slope(self.problem, &self.x) {
            Ok(found) => assessment.slope = found,
            Err(e) => self.notes.push(Note::SlopeFailed { reason: e.to_string() }),
        }
        if matches!(ended, StopReason::Infeasible { .. }) {
            let (feasibility, length) = (self.options.feasibility, Some(length_at(&self.x, &self.start)));
            let bounds = Bounds { feasibility, length, evaluations: COMPARISON, ..Bounds::default() };
            let measures = Measures { bounds: Some(bounds), ..Measures::default() };
            // Where no certificate can be computed, there is nothing to compare the verdict with.
            assessment.feasibility = self.driver.certify(self.problem, &self.x, &measures).ok();
        }
        let constraints = self.problem.num_constraints();
        if let (None, Some(found)) = (&returned.multipliers, &assessment.zeroth_order)
            && constraints <= MAX_LISTED_CONSTRAINTS
        {
            returned.multipliers = Some(found.every_multiplier(constraints));
        }
        assessment
    }

    /// Measures the units of the constraints at the returned point, which decide whether it is feasible. A recorded point that
    /// violates a constraint in these units is not kept as the best feasible one.
    fn renew_units(&mut self) {
        let length = length_at(&self.x, &self.start);
        // At a point where a function fails, the units of the problem remain.
        let Ok(Some(units)) = self.driver.constraint_units(self.problem, &self.x, length) else { return };
        self.points.set_units(Some(units));
        if let Some(best) = self.best_feasible.take() {
            self.best_feasible = self.points.point(&best.x).ok().filter(|best| best.feasible);
        }
    }

    /// Keeps the feasible point with the smallest objective.
    fn update_best(&mut self, point: Point) {
        if point.feasible && self.best_feasible.as_ref().is_none_or(|best| point.objective < best.objective) {
            self.best_feasible = Some(point);
        }
    }
}

/// Checks the start and projects it onto the domain.
fn project_start<P: Values + ?Sized>(problem: &P, start: &[f64], notes: &mut Vec<Note>) -> Result<Vec<f64>> {
    check_length("the start", start.len(), problem.dim())?;
    if let Some((i, value)) = vec::first_not_finite(start) {
        return Err(Error::NotFinite { what: format!("entry {} of the start", i + 1), value });
    }
    let mut x = start.to_vec();
    problem.domain().project(&mut x, &mut Warm::default())?;
    let distance = vec::distance(start, &x);
    if distance > 1e-9 * (1.0 + vec::norm(start)) {
        notes.push(Note::StartMoved { domain: problem.domain().describe(), distance });
    }
    Ok(x)
}
