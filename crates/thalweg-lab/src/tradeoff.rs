//! What a bound costs: one problem, many values of one bound, each run begun where the one before it ended. Arguments and
//! printing are in [`crate::commands::tradeoff`], the picture in [`crate::plot`].

use std::fmt::Write as _;

use serde::Serialize;
use thalweg::certify::{Bounds, certify};
use thalweg::learn::{Enforce, FitOptions, Learning, fit};
use thalweg::oracle::{Description, Subgradients};
use thalweg::run::{self, Observer, Progress, StopReason};
use thalweg::suggest::did_you_mean;

use crate::data::table::quote_cell;
use crate::fit::quality;
use crate::job::{Job, execute};
use crate::model::Quality;
use crate::trace::digits;
use crate::{Error, Result};

/// The most bounds of a sweep: each is a run.
const MOST: usize = 1000;
/// A looser bound ended worse if its objective is above that of a tighter one by more than this share of it.
const WORSE: f64 = 1e-4;

/// Values of a bound from the loosest to the tightest; refuses what no sweep can be made of.
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

/// Parses the values of a bound, such as `0.01..0.2:12` or `0.1,0.2`, and sorts them from the loosest to the tightest.
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

/// Evenly spaced values, in the logarithm if both ends are above 0. Those inside are rounded to what a person would write,
/// if they stay apart.
fn between(from: f64, to: f64, count: usize) -> Vec<f64> {
    let share = |i: usize| i as f64 / (count - 1) as f64;
    let exact = |i: usize| match i {
        0 => from,
        _ if i == count - 1 => to,
        _ if from > 0.0 && to > 0.0 => (from.ln() + share(i) * (to.ln() - from.ln())).exp(),
        // Not the difference of the ends, which may be too large for a number.
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

/// Which constraint is swept: the one that `of` names or counts from 1, else the first, with a note if there are others.
pub fn which(problem: &Learning, of: Option<&str>) -> Result<(usize, Option<String>)> {
    let names: Vec<String> = (0..problem.num_constraints()).map(|j| problem.constraint_name(j).to_string()).collect();
    let Some(first) = names.first() else {
        return Err(Error::Request("the problem has no constraint; expected one whose bound is swept".into()));
    };
    let list = || names.iter().enumerate().map(|(j, name)| format!("{} ({name})", j + 1)).collect::<Vec<_>>().join(", ");
    let Some(of) = of else {
        let note = format!("sweeping the bound of '{first}', the first of {} constraints; choose another with --of", names.len());
        return Ok((0, (names.len() > 1).then_some(note)));
    };
    if let Ok(number) = of.parse::<usize>() {
        return match number.checked_sub(1).filter(|&j| j < names.len()) {
            Some(j) => Ok((j, None)),
            None => Err(Error::Request(format!("--of {of}: there is no such constraint; expected one of {}", list()))),
        };
    }
    let exact: Vec<usize> = (0..names.len()).filter(|&j| names[j] == of).collect();
    // A term without its arguments is enough where only one constraint begins so.
    let begins = || (0..names.len()).filter(|&j| names[j].starts_with(of)).collect();
    let found: Vec<usize> = if exact.is_empty() { begins() } else { exact };
    match found.as_slice() {
        [j] => Ok((*j, None)),
        [] => {
            let hint = did_you_mean(of, names.iter().map(String::as_str));
            Err(Error::Request(format!("--of {of}: there is no such constraint{hint}; expected one of {}", list())))
        }
        _ => Err(Error::Request(format!("--of {of}: {} constraints begin so; expected one of {}", found.len(), list()))),
    }
}

/// One value of the bound and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The bound.
    pub bound: f64,
    /// Every constraint is kept.
    pub feasible: bool,
    /// The objective; none if the run failed before it had a point.
    pub objective: Option<f64>,
    /// Left-hand side of the constraint.
    pub value: Option<f64>,
    /// The same with counted rates, where it has any.
    pub counted: Option<f64>,
    /// Share of the training rows whose label is predicted right.
    pub accuracy: Option<f64>,
    /// The same numbers on held-out rows.
    pub held_out_objective: Option<f64>,
    /// Left-hand side there.
    pub held_out_value: Option<f64>,
    /// And with counted rates.
    pub held_out_counted: Option<f64>,
    /// And the share that is right.
    pub held_out_accuracy: Option<f64>,
    /// The proximal point is proved to be within this distance.
    pub proved: Option<f64>,
    /// Steps of all runs for this bound.
    pub iterations: u64,
    /// Passes over the data.
    pub passes: f64,
    /// Time without measuring.
    pub seconds: f64,
    /// Why the last run ended.
    pub ended: String,
    /// The point.
    #[serde(skip)]
    pub x: Option<Vec<f64>>,
}

impl Row {
    /// A run that did not get as far as a point.
    fn failed(bound: f64, reason: &Error) -> Self {
        Row { ended: format!("failed: {reason}"), ..Row::new(bound) }
    }

    fn new(bound: f64) -> Self {
        Row {
            bound,
            feasible: false,
            objective: None,
            value: None,
            counted: None,
            accuracy: None,
            held_out_objective: None,
            held_out_value: None,
            held_out_counted: None,
            held_out_accuracy: None,
            proved: None,
            iterations: 0,
            passes: 0.0,
            seconds: 0.0,
            ended: String::new(),
            x: None,
        }
    }

    /// The value that the bound is about as a person sees it: counted where there are rates.
    pub fn seen(&self) -> Option<f64> {
        self.counted.or(self.value)
    }

    /// Its place in a picture: what the bound is about, and upwards the held-out accuracy or the objective.
    pub fn place(&self, accuracy: bool) -> Option<(f64, f64)> {
        Some((self.seen()?, if accuracy { self.held_out_accuracy } else { self.objective }?))
    }

    /// Whether this row is worse than one of a tighter bound, whose point keeps this bound too.
    fn worse_than(&self, tighter: &Row) -> bool {
        match (tighter.feasible, tighter.objective, self.feasible, self.objective) {
            (true, Some(_), false, _) | (true, Some(_), _, None) => true,
            (true, Some(tight), true, Some(loose)) => loose > tight + WORSE * tight.abs(),
            _ => false,
        }
    }

    /// Takes over the numbers of another row for the same bound; the work adds up.
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

/// What came of one run.
pub struct Reached {
    row: Row,
    notes: Vec<String>,
    interrupted: bool,
}

/// A problem with a bound that moves.
pub trait Sweeps {
    /// Runs under a bound from a point, or from where the problem's own runs start.
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<Reached>;
    /// Measures and certifies a point under a bound, without a run.
    fn at(&mut self, bound: f64, x: &[f64]) -> Result<Reached>;
}

/// Runs of the trainer, as `thalweg fit` makes them.
pub struct Fits<'a> {
    /// The problem on the training rows, whose bound moves.
    pub problem: &'a mut Learning,
    /// The same on rows that were held out, where points are only measured.
    pub held_out: Option<&'a Learning>,
    /// How each run is made.
    pub options: FitOptions,
    /// The constraint whose bound moves.
    pub which: usize,
}

impl Fits<'_> {
    fn row(&self, bound: f64, x: &[f64]) -> Result<Row> {
        let training = quality(self.problem, x)?;
        let held = self.held_out.map(|held| quality(held, x)).transpose()?;
        let value = |q: &Quality| q.constraints.get(self.which).copied();
        let counted = |q: &Quality| q.counted.get(self.which).copied().flatten();
        Ok(Row {
            objective: Some(training.objective),
            value: value(&training),
            counted: counted(&training),
            accuracy: Some(training.accuracy),
            held_out_objective: held.as_ref().map(|q| q.objective),
            held_out_value: held.as_ref().and_then(value),
            held_out_counted: held.as_ref().and_then(counted),
            held_out_accuracy: held.as_ref().map(|q| q.accuracy),
            x: Some(x.to_vec()),
            ..Row::new(bound)
        })
    }
}

impl Sweeps for Fits<'_> {
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<Reached> {
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
            row.proved = fitted.stationary.as_ref().map(|proved| proved.upper).or_else(|| {
                // What was trained is the smooth problem with moved bounds: that is what the point can be stationary for.
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
        Ok(Reached { row, notes, interrupted })
    }

    fn at(&mut self, bound: f64, x: &[f64]) -> Result<Reached> {
        self.problem.set_bound(self.which, bound);
        let mut row = self.row(bound, x)?;
        let problem = &*self.problem;
        let feasibility = self.options.feasibility;
        let (counted, point) = (problem.measured(x)?, run::measure(problem, x, feasibility)?);
        row.feasible = point.constraints.iter().enumerate().all(|(j, c)| match (self.options.enforce, counted[j]) {
            (Enforce::Measured, Some(rate)) => rate <= problem.bound(j) + feasibility * problem.bound(j).abs().max(1.0),
            _ => c.satisfied,
        });
        Ok(Reached { row, notes: vec![], interrupted: false })
    }
}

/// Runs of `thalweg solve`.
pub struct Solves {
    /// The problem, its solver, and the options of each run.
    pub job: Job,
    /// The constraint whose bound moves.
    pub which: usize,
}

impl Solves {
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
            // Its bound stayed where the spec has it.
            held_out_value: held.as_ref().and_then(|(p, from)| value(p).map(|v| v + from)),
            x: Some(point.x.clone()),
            ..Row::new(bound)
        })
    }
}

impl Sweeps for Solves {
    fn run(&mut self, bound: f64, start: Option<&[f64]>, observer: &mut (dyn Observer + Send)) -> Result<Reached> {
        self.job.instance.problem.model_mut().into_iter().for_each(|model| model.set_bound(self.which, bound));
        if let Some(start) = start {
            self.job.setup.start = start.to_vec();
        }
        let outcome = execute(&self.job.instance, &mut self.job.setup, observer)?;
        let interrupted = outcome.ended == StopReason::Interrupted;
        let failed = matches!(outcome.ended, StopReason::Failed { .. });
        // A point that keeps the bounds is worth more here than the one that the method's rule returns.
        let (point, stationary) = match outcome.best_feasible {
            Some(best) if !outcome.point.feasible => (best, None),
            _ => (outcome.point, outcome.stationary),
        };
        let mut row = self.row(bound, &point)?;
        row.feasible &= !failed;
        row.add(outcome.iterations, outcome.passes.total(), outcome.seconds);
        row.ended = outcome.ended.to_string();
        let mut notes = vec![];
        if row.feasible && !interrupted {
            let own = stationary.map(|proved| proved.upper);
            row.proved = own.or_else(|| {
                distance(self.job.instance.problem.oracle(), &point.x, self.job.setup.options.feasibility, &mut notes)
            });
        }
        Ok(Reached { row, notes, interrupted })
    }

    fn at(&mut self, bound: f64, x: &[f64]) -> Result<Reached> {
        self.job.instance.problem.model_mut().into_iter().for_each(|model| model.set_bound(self.which, bound));
        let mut row =
            self.row(bound, &run::measure(self.job.instance.problem.oracle(), x, self.job.setup.options.feasibility)?)?;
        let mut notes = vec![];
        row.proved = distance(self.job.instance.problem.oracle(), x, self.job.setup.options.feasibility, &mut notes);
        Ok(Reached { row, notes, interrupted: false })
    }
}

/// The proved distance to the proximal point; a note says why there is none.
fn distance(problem: &dyn Subgradients, x: &[f64], feasibility: f64, notes: &mut Vec<String>) -> Option<f64> {
    let certificate = certify(problem, x, &Bounds { feasibility, ..Bounds::default() });
    let certificate = certificate.map_err(|e| notes.push(format!("no stationarity bound was computed: {e}"))).ok()?;
    certificate.certified().then_some(certificate.upper)
}

/// The finished points of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// From the loosest to the tightest bound.
    pub rows: Vec<Row>,
    /// Sentences that a user should see, each once.
    pub notes: Vec<String>,
    /// Someone ended it.
    pub interrupted: bool,
}

impl Swept {
    fn note(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// One run under each bound, from the loosest to the tightest, each from the point of the one before; then, from the tightest
/// to the loosest, again where a looser bound ended worse than a tighter one.
pub fn sweep(problem: &mut dyn Sweeps, bounds: &[f64], observer: &mut (dyn Observer + Send)) -> Swept {
    let mut swept = Swept::default();
    let mut start: Option<Vec<f64>> = None;
    for (i, &bound) in bounds.iter().enumerate() {
        let mut part = Part { done: i, of: bounds.len(), observer: &mut *observer };
        match problem.run(bound, start.as_deref(), &mut part) {
            Ok(Reached { interrupted: true, .. }) => {
                swept.interrupted = true;
                return swept;
            }
            Ok(Reached { row, notes, .. }) => {
                if let Some(x) = row.x.as_ref().filter(|x| x.iter().all(|v| v.is_finite())) {
                    start = Some(x.clone());
                }
                swept.rows.push(row);
                swept.note(notes);
            }
            // The other bounds may do better.
            Err(reason) => swept.rows.push(Row::failed(bound, &reason)),
        }
    }
    // What keeps a tighter bound keeps a looser one.
    for i in (0..swept.rows.len().saturating_sub(1)).rev() {
        let (loose, tight) = (&swept.rows[i], &swept.rows[i + 1]);
        let Some(x) = tight.x.clone().filter(|_| loose.worse_than(tight)) else { continue };
        let (bound, tighter) = (loose.bound, tight.bound);
        let (ended, tight) = (loose.ended.clone(), tight.clone());
        let mut part = Part { done: bounds.len() - 1, of: bounds.len(), observer: &mut *observer };
        match problem.run(bound, Some(&x), &mut part) {
            Ok(Reached { interrupted: true, .. }) => {
                swept.interrupted = true;
                return swept;
            }
            Ok(Reached { row, notes, .. }) => {
                let (iterations, passes, seconds) = (row.iterations, row.passes, row.seconds);
                if row.worse_than(&tight) {
                    swept.rows[i].add(iterations, passes, seconds);
                } else {
                    swept.note(vec![format!(
                        "bound {bound} gave a worse objective than {tighter} and was run again from that point"
                    )]);
                    swept.rows[i].replace(row);
                }
                swept.note(notes);
            }
            Err(reason) => {
                swept.note(vec![format!("bound {bound} could not be run again from the point of bound {tighter}: {reason}")])
            }
        }
        if swept.rows[i].worse_than(&tight)
            && let Ok(Reached { row, notes, .. }) = problem.at(bound, &x)
            && row.feasible
        {
            swept.note(vec![format!(
                "bound {bound} gave a worse objective than {tighter}, also from that point, which is the best for both"
            )]);
            swept.rows[i].replace(Row { ended, ..row });
            swept.note(notes);
        }
    }
    swept
}

/// Shows one run as part of the sweep.
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

/// The rows as CSV, 17 significant digits; cells without a number are empty.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "bound,feasible,objective,value,counted,accuracy,held_out_objective,held_out_value,held_out_counted,\
         held_out_accuracy,proved,iterations,passes,seconds,ended\n",
    );
    for r in rows {
        let optional = [
            r.objective,
            r.value,
            r.counted,
            r.accuracy,
            r.held_out_objective,
            r.held_out_value,
            r.held_out_counted,
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

    /// Runs that end where they are told to.
    struct Told(Vec<(f64, bool)>);

    impl Sweeps for Told {
        fn run(&mut self, bound: f64, start: Option<&[f64]>, _: &mut (dyn Observer + Send)) -> Result<Reached> {
            let (objective, feasible) = self.0.remove(0);
            if objective.is_nan() {
                return Err(Error::Request("told to".into()));
            }
            let x = Some(vec![start.map_or(0.0, |x| x[0]) + 1.0]);
            let row = Row { objective: Some(objective), feasible, iterations: 1, x, ..Row::new(bound) };
            Ok(Reached { row, notes: vec![], interrupted: false })
        }

        fn at(&mut self, bound: f64, x: &[f64]) -> Result<Reached> {
            let row = Row { objective: Some(0.5), feasible: true, x: Some(x.to_vec()), ..Row::new(bound) };
            Ok(Reached { row, notes: vec![], interrupted: false })
        }
    }

    #[test]
    fn a_looser_bound_that_ended_worse_is_run_again_from_the_tighter_point() {
        // The middle one fails, and the loosest ends worse than the tightest.
        let told = vec![(0.9, true), (f64::NAN, false), (0.5, true), (0.4, true), (0.8, true)];
        let swept = sweep(&mut Told(told), &[3.0, 2.0, 1.0], &mut ());
        let objectives: Vec<f64> = swept.rows.iter().filter_map(|r| r.objective).collect();
        // The last rerun did not help: 0.4 is to be beaten, and the point of the tighter bound measures 0.5 here.
        assert_eq!(objectives, [0.5, 0.4, 0.5]);
        assert_eq!(swept.rows.iter().map(|r| r.iterations).collect::<Vec<_>>(), [2, 1, 1]);
        // The warm start skips what failed.
        assert_eq!(swept.rows[2].x.as_deref(), Some(&[2.0][..]));
        assert_eq!(swept.notes.len(), 2, "{:?}", swept.notes);
    }

    #[test]
    fn an_infeasible_tight_bound_changes_nothing() {
        let swept = sweep(&mut Told(vec![(0.9, true), (0.1, false)]), &[2.0, 1.0], &mut ());
        assert_eq!(swept.rows.iter().map(|r| r.feasible).collect::<Vec<_>>(), [true, false]);
        assert!(swept.notes.is_empty());
    }
}
