//! The run loop and what surrounds it: budget, recording, observers, checkpoints, the outcome. It knows nothing of any
//! method; a method knows nothing of it.

mod budget;
mod checkpoint;
mod metric;
mod outcome;
mod record;
mod repair;
mod stop;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use budget::Budget;
pub use metric::{Metric, MetricValue};
pub use outcome::{Goal, Limit, Outcome, StopReason};
pub use record::{Record, Row};
pub use stop::Stop;

pub use crate::eval::{ConstraintValue, LISTED, Point, measure};
use metric::Metrics;

use crate::assess;
use crate::certify::{self, ZerothOrderReport};
use crate::error::check_length;
use crate::eval::{Eval, Evaluator, Measure, Passes, ValueEval};
use crate::math::vec;
use crate::oracle::{Subgradients, Values, Warm};
use crate::solvers::{AnySolver, FirstOrder, Method, PenaltyWeights, PointOrigin, Step, Verdict, ZerothOrder};
use crate::{Error, Result};

/// How the note begins that tells of a run which was continued.
pub const CONTINUED: &str = "continued from iteration";

/// How a run is conducted; nothing here belongs to a method.
#[derive(Debug, Clone)]
pub struct Options {
    /// When to end for lack of means.
    pub budget: Budget,
    /// When to end because the iterate is good enough; by default never.
    pub stop: Stop,
    /// Which iterates are measured.
    pub record: Record,
    /// Seed of every generator of the run.
    pub seed: u64,
    /// A constraint holds if `g_j <= feasibility * max(1, |bound_j|)`.
    pub feasibility: f64,
    /// Threads for sums over rows. The bits do not depend on it.
    pub threads: usize,
    /// Near-stationarity of recorded iterates, the papers' way; by default none.
    pub certificate: assess::Measures,
    /// What is estimated at the returned point of a run by values alone; none to ask for no value after the run.
    pub zeroth_order_check: Option<certify::ZerothOrderCheck>,
    /// Up to so many constraints each one is written down at a measured point; of more, only the worst. By default [`LISTED`].
    pub listed: usize,
    /// Whether a returned point that violates constraints is projected onto them, where the problem knows how; by default not,
    /// since it is then no longer the method's.
    pub repair: bool,
    /// Further quantities of recorded iterates and of the returned point; by default none.
    pub metrics: Option<Arc<dyn Metric>>,
    /// Where to keep a checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Set from elsewhere (a signal, another thread) to end the run at the next step.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// How many times as long as a saving takes it goes on until the next one: with millions of variables and a slow disk a run would
/// else do little but save.
const BETWEEN_SAVINGS: u32 = 10;

/// Where and how often the state of a run is saved.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The file.
    pub file: PathBuf,
    /// Time between two savings; more where a saving takes more than a tenth of it.
    pub every: Duration,
    /// Continue from the file if it is there.
    pub resume: bool,
    /// Settings in words; a checkpoint made with others is refused.
    pub settings: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            budget: Budget::default(),
            stop: Stop::default(),
            record: Record::default(),
            seed: 0,
            feasibility: 1e-6,
            threads: 1,
            certificate: assess::Measures::default(),
            zeroth_order_check: Some(certify::ZerothOrderCheck::default()),
            listed: LISTED,
            repair: false,
            metrics: None,
            checkpoint: None,
            interrupt: None,
        }
    }
}

impl Options {
    /// The defaults with a budget of `n` iterations.
    pub fn iterations(n: u64) -> Self {
        Options { budget: Budget::iterations(n), ..Options::default() }
    }

    /// Refuses what cannot be meant.
    pub fn validate(&self) -> Result<()> {
        self.budget.validate()?;
        self.record.validate()?;
        self.stop.validate(&self.certificate)?;
        self.zeroth_order_check.iter().try_for_each(certify::ZerothOrderCheck::validate)?;
        if !(self.feasibility >= 0.0 && self.feasibility.is_finite()) {
            return Err(Error::setting("feasibility", self.feasibility, "a finite number of at least 0"));
        }
        if self.threads == 0 {
            return Err(Error::setting("threads", 0, "at least 1"));
        }
        Ok(())
    }
}

/// Told about a run while it goes on. Nothing is counted or timed while an observer works.
pub trait Observer {
    /// The iterate `x` was measured; `known` is what the method says beside.
    fn recorded(&mut self, _row: &Row, _x: &[f64], _known: &Diagnostics) {}
    /// A step was made. Called after every step: be quick.
    fn progressed(&mut self, _progress: &Progress) {}
}

/// Watches nothing.
impl Observer for () {}

/// What a method knows where an iterate is recorded. It is told and not kept: a trace would grow by a number for each constraint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Diagnostics<'a> {
    /// The multiplier of each constraint, for a method that has them; they go with what it would return now.
    pub multipliers: Option<&'a [f64]>,
    /// The proximal point of the iterate lies within this distance: as measured, where that was asked for, else as the method
    /// has it. As true as the weak-convexity constants that it rests on.
    pub upper: Option<f64>,
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Steps made.
    pub iterations: u64,
    /// Work so far.
    pub passes: Passes,
    /// Time so far, without measuring.
    pub seconds: f64,
    /// Share of the budget that is used up, between 0 and 1.
    pub share: f64,
}

/// Runs a first-order solver from `start`.
///
/// `Err` means refused before the first step. Whatever happens during the run ends in an [`Outcome`] that has the last
/// good point and says why the run ended.
pub fn minimize(
    problem: &dyn Subgradients,
    solver: &mut FirstOrder,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    struct First<'a, 's>(&'a mut FirstOrder<'s>);
    impl<'p> Driver<dyn Subgradients + 'p> for First<'_, '_> {
        fn method(&mut self) -> &mut dyn Method {
            self.0
        }
        fn start(&mut self, ev: &mut Evaluator<'_, dyn Subgradients + 'p>, x: &[f64]) -> Result<()> {
            self.0.start(ev as &mut dyn Eval, x)
        }
        fn step(&mut self, ev: &mut Evaluator<'_, dyn Subgradients + 'p>) -> Result<Step> {
            self.0.step(ev as &mut dyn Eval)
        }
        fn certify(&self, problem: &(dyn Subgradients + 'p), x: &[f64], how: &assess::Measures) -> Result<assess::Measured> {
            how.take(problem, x)
        }
        fn slope(&self, problem: &(dyn Subgradients + 'p), x: &[f64]) -> Result<Option<f64>> {
            problem.structure().inf_projection().map(|_| certify::slope(problem, x)).transpose()
        }
        fn zeroth_order_check(
            &self,
            _: &(dyn Subgradients + 'p),
            _: &[f64],
            _: Option<PenaltyWeights>,
            _: &Options,
        ) -> Result<Option<ZerothOrderReport>> {
            Ok(None)
        }
    }
    options.validate()?;
    crate::math::reduce::with_threads(options.threads, || drive(problem, &mut First(solver), start, options, observer))?
}

/// Runs a solver that uses values alone. Otherwise as [`minimize`].
pub fn minimize_zeroth_order(
    problem: &dyn Values,
    solver: &mut ZerothOrder,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    struct Zeroth<'a, 's>(&'a mut ZerothOrder<'s>);
    impl<'p> Driver<dyn Values + 'p> for Zeroth<'_, '_> {
        fn method(&mut self) -> &mut dyn Method {
            self.0
        }
        fn start(&mut self, ev: &mut Evaluator<'_, dyn Values + 'p>, x: &[f64]) -> Result<()> {
            self.0.start(ev as &mut dyn ValueEval, x)
        }
        fn step(&mut self, ev: &mut Evaluator<'_, dyn Values + 'p>) -> Result<Step> {
            self.0.step(ev as &mut dyn ValueEval)
        }
        fn certify(&self, _: &(dyn Values + 'p), _: &[f64], _: &assess::Measures) -> Result<assess::Measured> {
            Err(Error::Problem("near-stationarity needs subgradients, and this problem has values alone".into()))
        }
        fn slope(&self, _: &(dyn Values + 'p), _: &[f64]) -> Result<Option<f64>> {
            Ok(None)
        }
        fn zeroth_order_check(
            &self,
            problem: &(dyn Values + 'p),
            x: &[f64],
            weighed: Option<PenaltyWeights>,
            options: &Options,
        ) -> Result<Option<ZerothOrderReport>> {
            options.zeroth_order_check.map(|how| certify::check_zeroth_order(problem, x, weighed, &how)).transpose()
        }
    }
    options.validate()?;
    crate::math::reduce::with_threads(options.threads, || drive(problem, &mut Zeroth(solver), start, options, observer))?
}

/// Runs a solver of either kind on a problem that has subgradients; one that uses values alone sees nothing else of it. Otherwise
/// as [`minimize`].
pub fn minimize_with(
    problem: &dyn Subgradients,
    solver: &mut AnySolver,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    match solver {
        AnySolver::First(solver) => minimize(problem, &mut **solver, start, options, observer),
        AnySolver::Zeroth(solver) => minimize_zeroth_order(problem, &mut **solver, start, options, observer),
    }
}

/// A solver together with the kind of oracle it runs on: what the loop needs of both.
trait Driver<P: ?Sized>: Send {
    fn method(&mut self) -> &mut dyn Method;
    fn start(&mut self, ev: &mut Evaluator<'_, P>, x: &[f64]) -> Result<()>;
    fn step(&mut self, ev: &mut Evaluator<'_, P>) -> Result<Step>;
    fn certify(&self, problem: &P, x: &[f64], how: &assess::Measures) -> Result<assess::Measured>;
    /// How steep an inf-projection problem is at the returned point.
    fn slope(&self, problem: &P, x: &[f64]) -> Result<Option<f64>>;
    /// What values alone say about the returned point, for a solver that used nothing else.
    fn zeroth_order_check(
        &self,
        problem: &P,
        x: &[f64],
        weighed: Option<PenaltyWeights>,
        options: &Options,
    ) -> Result<Option<ZerothOrderReport>>;
}

/// Time without measuring.
struct Watch {
    before: f64,
    since: Instant,
}

impl Watch {
    fn seconds(&self) -> f64 {
        self.before + self.since.elapsed().as_secs_f64()
    }

    /// Does something that is not timed.
    fn pause<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.before = self.seconds();
        let result = work();
        self.since = Instant::now();
        result
    }
}

fn drive<P: Values + ?Sized>(
    problem: &P,
    driver: &mut dyn Driver<P>,
    start: &[f64],
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    let mut notes = vec![];
    if options.repair {
        repair::check(problem)?;
    }
    let start = place(problem, start, &mut notes)?;
    let mut ev = Evaluator::new(problem, options.seed, options.feasibility);
    let mut measure = Measure::new(problem, options.feasibility, options.listed);
    let mut metrics = Metrics::new(options.metrics.as_deref());
    measure.point(&start).map_err(|e| Error::Problem(format!("the start cannot be used: {e}")))?;
    let mut watch = Watch { before: 0.0, since: Instant::now() };
    driver.start(&mut ev, &start)?;

    let mut t = 0;
    let mut trace: Vec<Row> = vec![];
    let mut best: Option<Point> = None;
    if let Some(plan) = &options.checkpoint
        && plan.resume
    {
        match checkpoint::load(plan, problem, driver.method(), options)? {
            None => notes.push(format!("{} is not there: the run starts from the beginning", plan.file.display())),
            Some(saved) => {
                driver.method().restore(&saved.solver)?;
                ev.set_memory(saved.memory);
                (t, trace, best) = (saved.iteration, saved.trace, saved.best);
                notes.push(format!("{CONTINUED} {t}"));
                watch = Watch { before: saved.seconds, since: Instant::now() };
            }
        }
    }

    let mut x = start;
    driver.method().iterate(&mut x);
    // With millions of variables and steps that touch a few of them, writing the iterate would be most of the work.
    let cheap = driver.method().writes_cheaply();
    let mut good = if cheap { x.clone() } else { vec![] };
    if let Some(plan) = &options.checkpoint {
        // A file that cannot be written is refused now, not when hours of work want to be saved.
        checkpoint::probe(plan)?;
    }
    let (mut saved_at, mut saving) = (Instant::now(), Duration::ZERO);
    let mut finished: Option<StopReason> = None;
    // The clock is read once for each step: with small problems that is felt.
    let mut seconds = watch.seconds();
    let ended = loop {
        if cheap {
            driver.method().iterate(&mut x);
        }
        let spent = options.budget.spent(t, ev.passes(), ev.counts(), seconds);
        let last = spent.is_some() || finished.is_some();
        if !last && options.interrupt.as_ref().is_some_and(|s| s.load(Ordering::Relaxed)) {
            // Not recorded: a continuation must leave the trace of a run that was never interrupted.
            break StopReason::Interrupted;
        }
        let before = trace.last();
        if before.is_none_or(|row| row.iteration < t) && options.record.due(t, last, ev.passes().total(), before.map(Row::passes))
        {
            let measured = watch.pause(|| -> Result<()> {
                if !cheap {
                    driver.method().iterate(&mut x);
                }
                let point = measure.point(&x)?;
                let mut row = Row::new(t, &point, &x, ev.passes(), ev.counts().samples(), seconds);
                if !options.certificate.is_empty() {
                    let measured = driver.certify(problem, &x, &options.certificate)?;
                    row.stationarity_bounds = measured.bounds.map(|m| (m.lower, m.upper));
                    row.stationarity = measured.switching.map(|m| m.distance);
                    row.penalty_stationarity = measured.penalised.map(|m| m.gradient);
                }
                row.metrics = metrics.read(&x, format_args!("at iterate {t}"));
                let method = driver.method();
                let upper = row.stationarity_bounds.map(|(_, upper)| upper).or_else(|| method.stationary_within());
                observer.recorded(&row, &x, &Diagnostics { multipliers: method.multipliers(), upper });
                trace.push(row);
                keep_better(&mut best, point);
                Ok(())
            });
            if let Err(e) = measured {
                break StopReason::Failed { iteration: t, reason: e.to_string() };
            }
        }
        if let Some(ended) = finished {
            break ended;
        }
        // By the row alone, so that a run that is continued where it ended ends there again.
        if let Some(row) = trace.last().filter(|row| row.iteration == t)
            && let Some(goal) = options.stop.reached(row, row.feasible())
        {
            break StopReason::Target(goal);
        }
        if let Some(limit) = spent {
            break StopReason::Budget(limit);
        }
        if let Some(plan) = &options.checkpoint
            && saved_at.elapsed() >= plan.every.max(BETWEEN_SAVINGS * saving)
        {
            let begun = Instant::now();
            let saved = watch.pause(|| checkpoint::save(plan, problem, driver.method(), options, &ev, t, seconds, &trace, &best));
            note_unsaved(saved, &mut notes);
            saving = begun.elapsed();
            saved_at = Instant::now();
        }
        match driver.step(&mut ev) {
            Ok(step) => {
                if let Some(row) = trace.last_mut().filter(|r| r.iteration == t) {
                    row.step = Some(step.kind);
                }
                if cheap {
                    good.copy_from_slice(&x);
                }
                t += 1;
                seconds = watch.seconds();
                let passes = ev.passes();
                let share = options.budget.share(t, passes, ev.counts(), seconds);
                observer.progressed(&Progress { iterations: t, passes, seconds, share });
                if step.finished {
                    finished = Some(match driver.method().verdict() {
                        Some(Verdict::Infeasible(found)) => StopReason::Infeasible {
                            conflicting: found
                                .conflicting
                                .iter()
                                .map(|&j| problem.constraint_name(j as usize).into_owned())
                                .collect(),
                            everywhere: found.convex,
                        },
                        _ => StopReason::Finished,
                    });
                }
            }
            Err(e) => break StopReason::Failed { iteration: t, reason: e.to_string() },
        }
    };
    seconds = watch.seconds();
    if let Some(plan) = &options.checkpoint
        && !matches!(ended, StopReason::Failed { .. })
    {
        let saved = checkpoint::save(plan, problem, driver.method(), options, &ev, t, seconds, &trace, &best);
        note_unsaved(saved, &mut notes);
    }

    // The numbers of the outcome are measured at the returned point, never remembered from the loop.
    let (mut returned, mut multipliers, mut stationary) = (PointOrigin::OutputRule, None, None);
    if matches!(ended, StopReason::Failed { .. }) {
        if cheap {
            x.copy_from_slice(&good);
        } else {
            driver.method().iterate(&mut x);
        }
        notes.push("the point is the last one before the failure".into());
    } else if matches!(ended, StopReason::Target(_)) {
        // The iterate that reached the target, whatever the method's own rule would return. Multipliers go with that rule.
        returned = PointOrigin::Target;
    } else {
        returned = driver.method().output(&mut x);
        multipliers = driver.method().multipliers().map(<[f64]>::to_vec);
        if let Some(Verdict::Stationary(proved)) = driver.method().verdict() {
            stationary = Some(proved.clone());
        }
    }
    notes.extend(driver.method().notes());
    if options.repair
        && !matches!(ended, StopReason::Failed { .. } | StopReason::Interrupted)
        && let Ok(before) = measure.point(&x)
        && !before.feasible
    {
        let (violated, violation, objective) = (before.violated, before.violation, before.objective);
        let began = Instant::now();
        match repair::repair(&mut ev, &mut measure, &mut x, before, options.interrupt.as_deref()) {
            Ok(()) => {
                // What the method says of its own point does not hold of this one.
                (returned, multipliers, stationary) = (PointOrigin::Repaired, None, None);
                notes.push(format!(
                    "the point was projected onto the constraints: the method's own violates {violated} of {}, the worst by \
                     {violation:.3e}, with the objective {objective:.9}",
                    problem.num_constraints()
                ));
            }
            Err(e) => notes.push(format!("the point could not be projected onto the constraints: {e}")),
        }
        seconds += began.elapsed().as_secs_f64();
    }
    let mut zeroth_order = None;
    // Who interrupts a run does not want to wait for more values.
    if !matches!(ended, StopReason::Failed { .. } | StopReason::Interrupted) {
        let weighed =
            driver.method().penalty_weights().filter(|_| !matches!(returned, PointOrigin::Target | PointOrigin::Repaired));
        match driver.zeroth_order_check(problem, &x, weighed, options) {
            Ok(found) => zeroth_order = found,
            Err(e) => notes.push(format!("the gradient was not estimated at the returned point: {e}")),
        }
    }
    let mut slope = None;
    if !matches!(ended, StopReason::Failed { .. } | StopReason::Interrupted) {
        match driver.slope(problem, &x) {
            Ok(found) => slope = found,
            Err(e) => notes.push(format!("the slope was not measured at the returned point: {e}")),
        }
    }
    if let (None, Some(found)) = (&multipliers, &zeroth_order)
        && problem.num_constraints() <= LISTED
    {
        multipliers = Some(found.every_multiplier(problem.num_constraints()));
    }
    let point = measure.point(&x).unwrap_or_else(|_| measure.unknown(&x));
    keep_better(&mut best, point.clone());
    let readings = metrics.read(&x, "at the returned point");
    notes.extend(metrics.failure);
    let readings = metrics.names.into_iter().zip(readings).map(|(name, value)| MetricValue { name, value }).collect();
    Ok(Outcome {
        point,
        returned,
        multipliers,
        ended,
        stationary,
        slope,
        zeroth_order,
        best_feasible: best,
        iterations: t,
        counts: ev.counts().clone(),
        passes: ev.passes(),
        seconds,
        seed: options.seed,
        solver: driver.method().name().into(),
        trace,
        metrics: readings,
        notes,
    })
}

/// Checks the start and moves it into the domain.
fn place<P: Values + ?Sized>(problem: &P, start: &[f64], notes: &mut Vec<String>) -> Result<Vec<f64>> {
    check_length("the start", start.len(), problem.dim())?;
    if let Some((i, value)) = vec::first_not_finite(start) {
        return Err(Error::NotFinite { what: format!("entry {} of the start", i + 1), value });
    }
    let mut x = start.to_vec();
    problem.domain().project(&mut x, &mut Warm::default())?;
    let moved = vec::distance(start, &x);
    if moved > 1e-9 * (1.0 + vec::norm(start)) {
        notes.push(format!("the start was outside the domain ({}) and was moved by {moved:.3e}", problem.domain().describe()));
    }
    Ok(x)
}

/// A checkpoint that cannot be written is no reason to lose the run.
fn note_unsaved(saved: Result<()>, notes: &mut Vec<String>) {
    if let Err(e) = saved.map_err(|e| e.to_string())
        && !notes.contains(&e)
    {
        notes.push(e);
    }
}

fn keep_better(best: &mut Option<Point>, point: Point) {
    if point.feasible && best.as_ref().is_none_or(|b| point.objective < b.objective) {
        *best = Some(point);
    }
}
