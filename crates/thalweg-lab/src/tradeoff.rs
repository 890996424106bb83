//! The trade-off between a bound and the objective: one problem with many values of one bound, each run with a warm start from
//! the one before. Arguments and printing are in [`crate::commands::tradeoff`], the plot in [`crate::plot`].

use std::fmt::Write as _;

use serde::Serialize;
use thalweg::Note;
use thalweg::certify::{Bounds, certify};
use thalweg::learn::{Coverage, Enforce, FitOptions, Learning, fit, intervals};
use thalweg::oracle::{Description, Subgradients};
use thalweg::run::{self, Observer, Progress, StopReason};
use thalweg::suggest::did_you_mean;

use crate::data::table::quote_cell;
use crate::fit::quality;
use crate::job::{Job, execute};
use crate::model::Quality;
use crate::trace::digits;
use crate::{Error, Result};

/// Confidence of the intervals on unseen rows.
const CONFIDENCE: f64 = 0.95;
/// Maximum number of bounds in a sweep; each is a run.
const MOST: usize = 1000;
/// Relative difference above which a looser bound has a worse objective than a tighter one.
const WORSE: f64 = 1e-4;

/// Sorts the values of a bound from loosest to tightest; rejects values that cannot be swept.
pub fn sorted(mut values: Vec<f64>) -> Result<Vec<f64>> {
    let refuse = |what: String| Err(Error::Request(what));
    if values.is_empty() {
        return refuse("there is no value; expected at least one bound".into());
    }
    if let Some(value) = values.iter().find(|v| !v.is_finite()) {
        return refuse(format!("{value} is not a finite number; expected finite bounds"));
    }
    values.sort_by(|a, b| b.total_cmp(a));
    if let Some(twice) = values.windows(2).find(|pair| pair[0] == pair[1]) {
        return refuse(format!("{} is there twice; expected different values", twice[0]));
    }
    if values.len() > MOST {
        return refuse(format!("there are {} values; expected at most {MOST}", values.len()));
    }
    Ok(values)
}

/// Parses the values of a bound, such as `0.01..0.2:12` or `0.1,0.2`, and sorts them from loosest to tightest.
pub fn bounds(text: &str) -> Result<Vec<f64>> {
    let refuse = Error::Request;
    let number = |word: &str| {
        let parsed = word.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        parsed.ok_or_else(|| refuse(format!("'{}' is not a finite number; expected A..B:N or numbers with commas", word.trim())))
    };
    let values = match text.split_once("..") {
        None => text.split(',').map(number).collect::<Result<Vec<_>>>()?,
        Some((from, rest)) => {
            let (to, count) = rest
                .split_once(':')
                .ok_or_else(|| refuse("has no number of values; expected A..B:N, for example 0.01..0.2:12".into()))?;
            let (from, to) = (number(from)?, number(to)?);
            let count = count.trim().parse::<usize>().ok().filter(|n| (2..=MOST).contains(n)).ok_or_else(|| {
                refuse(format!("'{}' values; expected a whole number from 2 to {MOST} after the colon", count.trim()))
            })?;
            between(from, to, count)
        }
    };
    sorted(values)
}

/// Returns evenly spaced values, logarithmically if both ends are positive. Inner values are rounded to few digits if they stay
/// distinct.
fn between(from: f64, to: f64, count: usize) -> Vec<f64> {
    let share = |i: usize| i as f64 / (count - 1) as f64;
    let exact = |i: usize| match i {
        0 => from,
        _ if i == count - 1 => to,
        _ if from > 0.0 && to > 0.0 => (from.ln() + share(i) * (to.ln() - from.ln())).exp(),
        // The difference of the ends may overflow.
        _ => from * (1.0 - share(i)) + to * share(i),
    };
    let rounded = |i: usize| match i {
        0 => from,
        _ if i == count - 1 => to,
        _ => format!("{:.3e}", exact(i)).parse().unwrap_or(exact(i)),
    };
    let values: Vec<f64> = (0..count).map(rounded).collect();
    let apart = values.windows(2).all(|pair| (pair[0] < pair[1]) == (from < to) && pair[0] != pair[1]);
    if apart { values } else { (0..count).map(exact).collect() }
}

/// Returns the constraint to sweep: the one that `of` names or numbers from 1, else the first, with a note if there are others.
pub fn which(problem: &Learning, of: Option<&str>) -> Result<(usize, Option<Note>)> {
    let names: Vec<String> = (0..problem.num_constraints()).map(|j| problem.constraint_name(j).to_string()).collect();
    let Some(first) = names.first() else {
        return Err(Error::Request("the problem has no constraint; expected one whose bound is swept".into()));
    };
    let list = || names.iter().enumerate().map(|(j, name)| format!("{} ({name})", j + 1)).collect::<Vec<_>>().join(", ");
    let Some(of) = of else {
        let note = Note::FirstConstraintSwept { constraint: first.clone(), constraints: names.len() };
        return Ok((0, (names.len() > 1).then_some(note)));
    };
    if let Ok(number) = of.parse::<usize>() {
        return match number.checked_sub(1).filter(|&j| j < names.len()) {
            Some(j) => Ok((j, None)),
            None => Err(Error::Request(format!("--of {of}: there is no such constraint; expected one of {}", list()))),
        };
    }
    let exact: Vec<usize> = (0..names.len()).filter(|&j| names[j] == of).collect();
    // A term without its arguments is sufficient if only one constraint starts with it.
    let begins = || (0..names.len()).filter(|&j| names[j].starts_with(of)).collect();
    let found: Vec<usize> = if exact.is_empty() { begins() } else { exact };
    match found.as_slice() {
        [j] => Ok((*j, None)),
        [] => {
            let hint = did_you_mean(of, names.iter().map(String::as_str));
            let hint = if hint.is_empty() { format!("; expected one of {}", list()) } else { hint };
            Err(Error::Request(format!("--of {of}: there is no such constraint{hint}")))
        }
        _ => Err(Error::Request(format!("--of {of}: {} constraints begin so; expected one of {}", found.len(), list()))),
    }
}

/// Result for one value of the bound.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Bound.
    pub bound: f64,
    /// Whether every constraint is satisfied.
    pub feasible: bool,
    /// Objective; `None` if the run failed before it had a point.
    pub objective: Option<f64>,
    /// Left-hand side of the constraint.
    pub value: Option<f64>,
    /// The same with measured rates, if it has any.
    pub measured: Option<f64>,
    /// Share of training rows with a correct prediction.
    pub accuracy: Option<f64>,
    /// Objective on held-out rows.
    pub held_out_objective: Option<f64>,
    /// Left-hand side on held-out rows.
    pub held_out_value: Option<f64>,
    /// Left-hand side with measured rates on held-out rows.
    pub held_out_measured: Option<f64>,
    /// Interval of the shown left-hand side on unseen rows with 95% confidence, from the held-out rows and for each row by itself.
    pub held_out_interval: Option<[f64; 2]>,
    /// Share of held-out rows with a correct prediction.
    pub held_out_accuracy: Option<f64>,
    /// Upper bound on the distance to the proximal point, proved if the gradients are right and the constants hold.
    pub proved: Option<f64>,
    /// Iterations of all runs for this bound.
    pub iterations: u64,
    /// Passes over the data.
    pub passes: f64,
    /// Time in seconds, without measuring.
    pub seconds: f64,
    /// Why the last run ended.
    pub ended: String,
    /// Point.
    #[serde(skip)]
    pub x: Option<Vec<f64>>,
}

impl Row {
    /// Returns the row of a run that failed before it had a point.
    fn failed(bound: f64, reason: &Error) -> Self {
        Row { ended: format!("failed: {reason}"), ..Row::new(bound) }
    }

    fn new(bound: f64) -> Self {
        Row {
            bound,
            feasible: false,
            objective: None,
            value: None,
            measured: None,
            accuracy: None,
            held_out_objective: None,
            held_out_value: None,
            held_out_measured: None,
            held_out_interval: None,
            held_out_accuracy: None,
            proved: None,
            iterations: 0,
            passes: 0.0,
            seconds: 0.0,
            ended: String::new(),
            x: None,
        }
    }

    /// Returns the value to show for the bound: the measured one if there are rates.
    pub fn seen(&self) -> Option<f64> {
        self.measured.or(self.value)
    }

    /// Returns the position in a plot: the constrained value, and vertically the held-out accuracy or the objective.
    pub fn place(&self, accuracy: bool) -> Option<(f64, f64)> {
        Some((self.seen()?, if accuracy { self.held_out_accuracy } else { self.objective }?))
    }

    /// Returns whether this row is worse than one of a tighter bound, whose point satisfies this bound too.
    fn worse_than(&self, tighter: &Row) -> bool {
        match (tighter.feasible, tighter.objective, self.feasible, self.objective) {
            (true, Some(_), false, _) | (true, Some(_), _, None) => true,
            (true, Some(tight), true, Some(loose)) => loose > tight + WORSE * tight.abs(),
            _ => false,
        }
    }

    /// Takes the values of another row for the same bound; the work is added.
    fn replace(&mut self, other: Row) {
        let (iterations, passes, seconds) = (self.iterations, self.passes, self.seconds);
        *self = other;
        self.add(iterations, passes, seconds);
    }

    fn add(&mut self, iterations: u64, passes: f64, seconds: f64) {
        self.iterations += iterations;
        self.passes += passes;
        self.seconds += seconds;
    }
}

/// Result of one run.
pub struct SweepPoint {
    row: Row,
    notes: Vec<Note>,
    interrupted: bool,
}

/// Problem with a bound that is swept.
pub trait Sweeps {
    /// Runs with a bound from a point, or from the problem's default start.
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<SweepPoint>;
    /// Measures and certifies a point with a bound, without a run.
    fn at(&mut self, bound: f64, x: &[f64]) -> Result<SweepPoint>;
}

/// Training runs, as in `thalweg fit`.
pub struct FitRuns<'a> {
    /// Problem on the training rows, whose bound is changed.
    pub problem: &'a mut Learning,
    /// The same problem on held-out rows, which are only measured.
    pub held_out: Option<&'a Learning>,
    /// Options of each run.
    pub options: FitOptions,
    /// Constraint whose bound is changed.
    pub which: usize,
}

impl FitRuns<'_> {
    fn row(&self, bound: f64, x: &[f64]) -> Result<Row> {
        let training = quality(self.problem, x, &[])?;
        let held = self.held_out.map(|held| quality(held, x, &[])).transpose()?;
        let found = self.held_out.map(|held| intervals(held, x, CONFIDENCE, Coverage::EachLine)).transpose()?;
        let interval = found.as_ref().and_then(|all| all.get(self.which)).and_then(|found| {
            let (low, high) = found.measured.map_or((found.low, found.high), |measured| (measured.low, measured.high));
            Some([low?, high?])
        });
        let value = |q: &Quality| q.constraints.get(self.which).copied();
        let measured = |q: &Quality| q.measured.get(self.which).copied().flatten();
        Ok(Row {
            objective: Some(training.objective),
            value: value(&training),
            measured: measured(&training),
            accuracy: Some(training.accuracy),
            held_out_objective: held.as_ref().map(|q| q.objective),
            held_out_value: held.as_ref().and_then(value),
            held_out_measured: held.as_ref().and_then(measured),
            held_out_interval: interval,
            held_out_accuracy: held.as_ref().map(|q| q.accuracy),
            x: Some(x.to_vec()),
            ..Row::new(bound)
        })
    }
}

impl Sweeps for FitRuns<'_> {
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<SweepPoint> {
        self.problem.set_bound(self.which, bound);
        let start = start.map_or_else(|| vec![0.0; self.problem.dim()], <[f64]>::to_vec);
        let fitted = fit(self.problem, &start, &self.options, observer)?;
        let interrupted = fitted.ended == StopReason::Interrupted;
        let mut row = self.row(bound, &fitted.point.x)?;
        row.feasible = fitted.feasible;
        row.add(fitted.iterations, fitted.passes.total(), fitted.seconds);
        row.ended = fitted.ended.to_string();
        let mut notes = vec![];
        if fitted.feasible && !interrupted {
            row.proved = fitted.stationary.as_ref().filter(|found| !found.estimated).map(|proved| proved.upper).or_else(|| {
                // The trained problem is the one with surrogates and surrogate bounds, so the point can be stationary only for
                // that.
                let problem = &mut *self.problem;
                let asked: Vec<f64> = (0..problem.num_constraints()).map(|j| problem.bound(j)).collect();
                for (j, c) in fitted.constraints.iter().enumerate() {
                    problem.set_bound(j, c.surrogate_bound);
                    problem.scale_temperature(j, c.sharpened);
                }
                let proved = distance(problem, &fitted.point.x, self.options.feasibility, &mut notes);
                for (j, c) in fitted.constraints.iter().enumerate() {
                    problem.set_bound(j, asked[j]);
                    problem.scale_temperature(j, 1.0 / c.sharpened);
                }
                proved
            });
        }
        Ok(SweepPoint { row, notes, interrupted })
    }

    fn at(&mut self, bound: f64, x: &[f64]) -> Result<SweepPoint> {
        self.problem.set_bound(self.which, bound);
        let mut row = self.row(bound, x)?;
        let problem = &*self.problem;
        let feasibility = self.options.feasibility;
        let (measured, point) = (problem.measured(x)?, run::measure(problem, x, feasibility)?);
        row.feasible = point.constraints.iter().enumerate().all(|(j, c)| match (self.options.enforce, measured[j]) {
            (Enforce::Measured, Some(rate)) => rate <= problem.bound(j) + feasibility * problem.bound(j).abs().max(1.0),
            _ => c.satisfied,
        });
        Ok(SweepPoint { row, notes: vec![], interrupted: false })
    }
}

/// Runs as in `thalweg solve`.
pub struct SolveRuns {
    /// Problem, solver, and options of each run.
    pub job: Job,
    /// Constraint whose bound is changed.
    pub which: usize,
}

impl SolveRuns {
    fn row(&self, bound: f64, point: &run::Point) -> Result<Row> {
        let value = |p: &run::Point| p.constraints.get(self.which).map(|c| c.value);
        let held = self.job.instance.held_out.as_ref();
        let held = held.map(|p| {
            Ok::<_, Error>((
                run::measure(p, self.job.instance.problem.of_model(&point.x), self.job.setup.options.feasibility)?,
                p.bound(self.which),
            ))
        });
        let held = held.transpose()?;
        Ok(Row {
            feasible: point.feasible,
            objective: Some(point.objective),
            value: value(point).map(|v| v + bound),
            held_out_objective: held.as_ref().map(|(p, _)| p.objective),
            // The bound on held-out rows is still that of the spec.
            held_out_value: held.as_ref().and_then(|(p, from)| value(p).map(|v| v + from)),
            x: Some(point.x.clone()),
            ..Row::new(bound)
        })
    }
}

impl Sweeps for SolveRuns {
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<SweepPoint> {
        self.job.instance.problem.model_mut().into_iter().for_each(|model| model.set_bound(self.which, bound));
        if let Some(start) = start {
            self.job.setup.start = start.to_vec();
        }
        let outcome = execute(&self.job.instance, &mut self.job.setup, observer);
        // Pilot runs are work for the first bound only; the time limit is that of each bound.
        let pilots = std::mem::take(&mut self.job.setup.pilots);
        let outcome = outcome?;
        let interrupted = outcome.ended == StopReason::Interrupted;
        let failed = matches!(outcome.ended, StopReason::Failed { .. });
        // A feasible point is preferred to the one that the output rule returns.
        let (point, stationary) = match outcome.best_feasible {
            Some(best) if !outcome.point.feasible => (best, None),
            _ => (outcome.point, outcome.stationary),
        };
        let mut row = self.row(bound, &point)?;
        row.feasible &= !failed;
        row.add(outcome.iterations, outcome.passes.total(), outcome.seconds);
        row.add(pilots.iterations, pilots.passes.total(), pilots.seconds);
        row.ended = outcome.ended.to_string();
        let mut notes = vec![];
        if row.feasible && !interrupted {
            let own = stationary.filter(|found| !found.estimated).map(|proved| proved.upper);
            row.proved = own.or_else(|| {
                distance(self.job.instance.problem.oracle(), &point.x, self.job.setup.options.feasibility, &mut notes)
            });
        }
        Ok(SweepPoint { row, notes, interrupted })
    }

    fn at(&mut self, bound: f64, x: &[f64]) -> Result<SweepPoint> {
        self.job.instance.problem.model_mut().into_iter().for_each(|model| model.set_bound(self.which, bound));
        let mut row =
            self.row(bound, &run::measure(self.job.instance.problem.oracle(), x, self.job.setup.options.feasibility)?)?;
        let mut notes = vec![];
        row.proved = distance(self.job.instance.problem.oracle(), x, self.job.setup.options.feasibility, &mut notes);
        Ok(SweepPoint { row, notes, interrupted: false })
    }
}

/// Returns the proved distance to the proximal point, or `None` with a note about the reason.
fn distance(problem: &dyn Subgradients, x: &[f64], feasibility: f64, notes: &mut Vec<Note>) -> Option<f64> {
    let certificate = certify(problem, x, &Bounds { feasibility, ..Bounds::default() });
    let certificate = certificate.map_err(|e| notes.push(Note::StationarityNotBounded { reason: e.to_string() })).ok()?;
    certificate.certified().then_some(certificate.upper)
}

/// Finished points of a sweep.
#[derive(Debug, Default)]
pub struct FinishedSweep {
    /// Rows from the loosest to the tightest bound.
    pub rows: Vec<Row>,
    /// Messages for the user, without duplicates.
    pub notes: Vec<Note>,
    /// Whether the sweep was interrupted.
    pub interrupted: bool,
}

impl FinishedSweep {
    fn note(&mut self, notes: Vec<Note>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// Runs with each bound from loosest to tightest, each from the point of the one before; then, from tightest to loosest, again
/// where a looser bound has a worse objective than a tighter one.
pub fn sweep(problem: &mut dyn Sweeps, bounds: &[f64], observer: &mut (dyn Observer + Send)) -> FinishedSweep {
    let mut swept = FinishedSweep::default();
    let mut start: Option<Vec<f64>> = None;
    for (i, &bound) in bounds.iter().enumerate() {
        let mut part = Part { done: i, of: bounds.len(), observer: &mut *observer };
        match problem.run(bound, start.as_deref(), &mut part) {
            Ok(SweepPoint { interrupted: true, .. }) => {
                swept.interrupted = true;
                return swept;
            }
            Ok(SweepPoint { row, notes, .. }) => {
                if let Some(x) = row.x.as_ref().filter(|x| x.iter().all(|v| v.is_finite())) {
                    start = Some(x.clone());
                }
                swept.rows.push(row);
                swept.note(notes);
            }
            // Other bounds may succeed.
            Err(reason) => swept.rows.push(Row::failed(bound, &reason)),
        }
    }
    // A point that satisfies a tighter bound satisfies a looser one.
    for i in (0..swept.rows.len().saturating_sub(1)).rev() {
        let (loose, tight) = (&swept.rows[i], &swept.rows[i + 1]);
        let Some(x) = tight.x.clone().filter(|_| loose.worse_than(tight)) else { continue };
        let (bound, tighter) = (loose.bound, tight.bound);
        let (ended, tight) = (loose.ended.clone(), tight.clone());
        let mut part = Part { done: bounds.len() - 1, of: bounds.len(), observer: &mut *observer };
        match problem.run(bound, Some(&x), &mut part) {
            Ok(SweepPoint { interrupted: true, .. }) => {
                swept.interrupted = true;
                return swept;
            }
            Ok(SweepPoint { row, notes, .. }) => {
                let (iterations, passes, seconds) = (row.iterations, row.passes, row.seconds);
                if row.worse_than(&tight) {
                    swept.rows[i].add(iterations, passes, seconds);
                } else {
                    swept.note(vec![Note::BoundRepeated { bound, tighter }]);
                    swept.rows[i].replace(row);
                }
                swept.note(notes);
            }
            Err(reason) => swept.note(vec![Note::BoundNotRepeated { bound, tighter, reason: reason.to_string() }]),
        }
        if swept.rows[i].worse_than(&tight)
            && let Ok(SweepPoint { row, notes, .. }) = problem.at(bound, &x)
            && row.feasible
        {
            swept.note(vec![Note::PointShared { bound, tighter }]);
            swept.rows[i].replace(Row { ended, ..row });
            swept.note(notes);
        }
    }
    swept
}

/// Observer that reports one run as part of the sweep.
struct Part<'a> {
    done: usize,
    of: usize,
    observer: &'a mut (dyn Observer + Send),
}

impl Observer for Part<'_> {
    fn recorded(&mut self, row: &run::Row, x: &[f64], known: &run::Diagnostics) {
        self.observer.recorded(row, x, known);
    }

    fn progressed(&mut self, progress: &Progress) {
        let share = (self.done as f64 + progress.share) / self.of as f64;
        self.observer.progressed(&Progress { share, ..*progress });
    }
}

/// Formats the rows as CSV with 17 significant digits; cells without a number are empty.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "bound,feasible,objective,value,measured,accuracy,held_out_objective,held_out_value,held_out_measured,\
         held_out_low,held_out_high,held_out_accuracy,proved,iterations,passes,seconds,ended\n",
    );
    for r in rows {
        let optional = [
            r.objective,
            r.value,
            r.measured,
            r.accuracy,
            r.held_out_objective,
            r.held_out_value,
            r.held_out_measured,
            r.held_out_interval.map(|[low, _]| low),
            r.held_out_interval.map(|[_, high]| high),
            r.held_out_accuracy,
            r.proved,
        ];
        let optional = optional.map(|v| v.map_or(String::new(), digits)).join(",");
        let (passes, seconds, ended) = (digits(r.passes), digits(r.seconds), quote_cell(&r.ended));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{},{},{optional},{},{passes},{seconds},{ended}", digits(r.bound), r.feasible, r.iterations);
    }
    text
}

#[cfg(test)]
mod tests {
    use thalweg::auto::Work;

    use super::*;

    #[test]
    fn values_are_spaced_and_sorted() {
        assert_eq!(bounds("0.01..1:3").unwrap(), [1.0, 0.1, 0.01]);
        assert_eq!(bounds("1..0.01:3").unwrap(), [1.0, 0.1, 0.01]);
        assert_eq!(bounds("0..1:5").unwrap(), [1.0, 0.75, 0.5, 0.25, 0.0]);
        assert_eq!(bounds("-1..1:3").unwrap(), [1.0, 0.0, -1.0]);
        assert_eq!(bounds("0.05, 0.2,0.1").unwrap(), [0.2, 0.1, 0.05]);
        assert_eq!(bounds("1..1.00001:3").unwrap().len(), 3);
    }

    #[test]
    fn numbers_that_are_no_sweep_are_refused() {
        assert_eq!(sorted(vec![0.1, 0.3, -0.2]).unwrap(), [0.3, 0.1, -0.2]);
        let refused = |values: Vec<f64>| sorted(values).unwrap_err().to_string();
        assert_eq!(refused(vec![0.1, f64::NAN]), "NaN is not a finite number; expected finite bounds");
        assert_eq!(refused(vec![0.1, 0.3, 0.1]), "0.1 is there twice; expected different values");
        assert_eq!(refused(vec![-0.0, 0.0]), "0 is there twice; expected different values");
        assert_eq!(refused(vec![]), "there is no value; expected at least one bound");
        assert_eq!(refused((0..=MOST).map(|i| i as f64).collect()), "there are 1001 values; expected at most 1000");
        assert_eq!(bounds("1,2,1").unwrap_err().to_string(), "1 is there twice; expected different values");
    }

    /// Runs with prescribed results.
    struct Told(Vec<(f64, bool)>);

    impl Sweeps for Told {
        fn run(&mut self, bound: f64, start: Option<&[f64]>, _: &mut (dyn Observer + Send)) -> Result<SweepPoint> {
            let (objective, feasible) = self.0.remove(0);
            if objective.is_nan() {
                return Err(Error::Request("told to".into()));
            }
            let x = Some(vec![start.map_or(0.0, |x| x[0]) + 1.0]);
            let row = Row { objective: Some(objective), feasible, iterations: 1, x, ..Row::new(bound) };
            Ok(SweepPoint { row, notes: vec![], interrupted: false })
        }

        fn at(&mut self, bound: f64, x: &[f64]) -> Result<SweepPoint> {
            let row = Row { objective: Some(0.5), feasible: true, x: Some(x.to_vec()), ..Row::new(bound) };
            Ok(SweepPoint { row, notes: vec![], interrupted: false })
        }
    }

    #[test]
    fn a_looser_bound_that_ended_worse_is_run_again_from_the_tighter_point() {
        // The middle run fails, and the loosest has a worse result than the tightest.
        let told = vec![(0.9, true), (f64::NAN, false), (0.5, true), (0.4, true), (0.8, true)];
        let swept = sweep(&mut Told(told), &[3.0, 2.0, 1.0], &mut ());
        let objectives: Vec<f64> = swept.rows.iter().filter_map(|r| r.objective).collect();
        // The last rerun did not help: it had to improve on 0.4, and the point of the tighter bound has 0.5 here.
        assert_eq!(objectives, [0.5, 0.4, 0.5]);
        assert_eq!(swept.rows.iter().map(|r| r.iterations).collect::<Vec<_>>(), [2, 1, 1]);
        // The warm start skips the failed run.
        assert_eq!(swept.rows[2].x.as_deref(), Some(&[2.0][..]));
        assert_eq!(swept.notes.len(), 2, "{:?}", swept.notes);
    }

    #[test]
    fn pilot_runs_count_towards_the_time_limit_of_the_first_bound_only() {
        let text = "[data]\nname = 'a9a'\nsample = 50\n[problem]\nminimize = 'hinge'\nsubject_to = ['l2 <= 4']\n\
                    [solver]\nname = 'ssg'\neta = 0.1\n[budget]\niterations = 7\nseconds = 1e6\n";
        let file = std::path::Path::new("run.toml");
        let spec = crate::spec::Spec::parse(text, file).unwrap();
        let mut job = Job::new(&spec, file, &Default::default()).unwrap();
        // They have taken all of the time.
        job.setup.pilots = Work { iterations: 100, seconds: 1e6, ..Work::default() };
        let mut solves = SolveRuns { job, which: 0 };
        let mut work = |bound: f64| {
            let row = solves.run(bound, None, &mut ()).unwrap().row;
            (row.iterations, row.seconds >= 1e6)
        };
        assert_eq!([work(4.0), work(3.0), work(2.0)], [(100, true), (7, false), (7, false)]);
    }

    #[test]
    fn an_infeasible_tight_bound_changes_nothing() {
        let swept = sweep(&mut Told(vec![(0.9, true), (0.1, false)]), &[2.0, 1.0], &mut ());
        assert_eq!(swept.rows.iter().map(|r| r.feasible).collect::<Vec<_>>(), [true, false]);
        assert!(swept.notes.is_empty());
    }
}
