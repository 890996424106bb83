//! Training without tuning: a pilot chooses the step, rounds tighten soft bounds until the counted 0/1 rates keep the
//! user's. Files, tables of raw columns and printing are not done here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::problem::Learning;
use crate::eval::Passes;
use crate::oracle::Values;
use crate::run::{self, Budget, Ended, Observer, Options, Point, Progress, Record, Row};
use crate::solvers::ssg::{InfeasibleStep, Settings};
use crate::solvers::{Schedule, Ssg};
use crate::{Error, Result};

/// Which side of a softened constraint must keep the user's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforce {
    /// The counted 0/1 rate on the training rows; the soft bound is tightened until it does.
    #[default]
    Measured,
    /// The soft form alone.
    Surrogate,
}

/// How a model is trained.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Step size; chosen by a pilot if absent.
    pub eta: Option<Schedule>,
    /// Further settings of the switching method; `eta` and `tol` are set by the trainer.
    pub settings: Settings,
    /// Switching tolerance; by default a hundredth of the smallest bound. Bounds are tightened by it.
    pub tol: Option<f64>,
    /// What all rounds together may use up.
    pub budget: Budget,
    /// Which side of softened constraints must hold.
    pub enforce: Enforce,
    /// Seed of every run.
    pub seed: u64,
    /// A constraint holds if it exceeds its bound by at most `feasibility * max(1, |bound|)`.
    pub feasibility: f64,
    /// Threads for sums over rows.
    pub threads: usize,
    /// Set from elsewhere to end at the next step.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            eta: None,
            settings: Settings { infeasible_step: InfeasibleStep::Polyak, ..Settings::default() },
            tol: None,
            budget: Budget { iterations: Some(3000), seconds: Some(60.0), ..Budget::default() },
            enforce: Enforce::Measured,
            seed: 0,
            feasibility: 1e-6,
            threads: 1,
            stop: None,
        }
    }
}

/// A constraint of a trained model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedConstraint {
    /// Its name.
    pub name: String,
    /// The user's bound.
    pub bound: f64,
    /// The bound that the soft form was trained with.
    pub surrogate_bound: f64,
    /// By how much the temperature of the soft form was lowered; 1 if it was not.
    pub sharpened: f64,
    /// The left-hand side as it was trained.
    pub surrogate: f64,
    /// The left-hand side with counted rates; none for a constraint that softens nothing.
    pub measured: Option<f64>,
    /// What had to hold holds.
    pub kept: bool,
}

/// A trained model and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The point, measured on all training rows against the user's bounds.
    pub point: Point,
    /// Every constraint.
    pub constraints: Vec<FittedConstraint>,
    /// Every constraint is kept on the side that was to be enforced.
    pub feasible: bool,
    /// Why the last run ended.
    pub ended: Ended,
    /// The step size of the main run.
    pub eta: Schedule,
    /// Training runs after the pilot.
    pub rounds: u64,
    /// Steps of all runs.
    pub iterations: u64,
    /// Work of all runs.
    pub passes: Passes,
    /// Time of all runs, without measuring.
    pub seconds: f64,
    /// Recorded iterates of the training runs, against the user's bounds.
    pub trace: Vec<Row>,
    /// What a careful reader should know.
    pub notes: Vec<String>,
}

/// Share of the budget for each pilot run, the first round, each round of tightening, and the last round.
const PILOT: f64 = 0.03;
/// Steps that the pilot tries.
const STEPS: [f64; 5] = [4.0, 1.0, 0.25, 0.06, 0.015];
const FIRST: f64 = 0.3;
const TIGHTEN: f64 = 0.05;
const LAST: f64 = 0.3;
const ROUNDS: usize = 8;
/// Rounds that look for a looser bound once one was found.
const REFINE: usize = 3;

/// Trains on `problem` from `start`. The problem's bounds are the user's; they are moved while training and put back.
pub fn fit(problem: &mut Learning, start: &[f64], options: &FitOptions, observer: &mut (dyn Observer + Send)) -> Result<Fitted> {
    options.budget.validate()?;
    let asked: Vec<f64> = (0..problem.constraints()).map(|j| problem.bound(j)).collect();
    let mut trainer = Trainer::new(problem, asked.clone(), options, observer)?;
    let result = trainer.train(start);
    trainer.put_back();
    result
}

/// A point that a round returned, with the soft bounds it was trained with.
#[derive(Debug, Clone)]
struct Candidate {
    point: Point,
    bounds: Vec<f64>,
    sharpened: Vec<f64>,
    /// Left-hand sides as they were trained.
    surrogates: Vec<f64>,
    counted: Vec<Option<f64>>,
    /// What must hold holds.
    kept: bool,
    /// By how much the worst constraint misses what must hold.
    excess: f64,
}

struct Trainer<'a> {
    problem: &'a mut Learning,
    /// The user's bounds.
    asked: Vec<f64>,
    /// Factors by which temperatures are lowered now.
    sharpened: Vec<f64>,
    options: &'a FitOptions,
    observer: &'a mut (dyn Observer + Send),
    tol: f64,
    /// Share of the budget used by finished runs.
    used: f64,
    iterations: u64,
    passes: Passes,
    seconds: f64,
    rounds: u64,
    trace: Vec<Row>,
    ended: Ended,
    best: Option<Candidate>,
}

impl<'a> Trainer<'a> {
    fn new(
        problem: &'a mut Learning,
        asked: Vec<f64>,
        options: &'a FitOptions,
        observer: &'a mut (dyn Observer + Send),
    ) -> Result<Self> {
        let smallest = asked.iter().fold(f64::INFINITY, |m, b| m.min(b.abs()));
        let tol =
            options.tol.unwrap_or(if smallest.is_finite() { (0.01 * smallest).max(0.5 * options.feasibility) } else { 0.0 });
        if !(tol >= 0.0 && tol.is_finite()) {
            return Err(Error::setting("tol", tol, "a finite number of at least 0"));
        }
        Ok(Trainer {
            problem,
            sharpened: vec![1.0; asked.len()],
            asked,
            options,
            observer,
            tol,
            used: 0.0,
            iterations: 0,
            passes: Passes::default(),
            seconds: 0.0,
            rounds: 0,
            trace: vec![],
            ended: Ended::Finished,
            best: None,
        })
    }

    fn train(&mut self, start: &[f64]) -> Result<Fitted> {
        let mut notes = vec![];
        let mut bounds = self.asked.clone();
        let eta = match self.options.eta {
            Some(eta) => eta,
            None => {
                let eta = self.pilot(start, &bounds)?;
                notes.push(format!("step size {eta}: the best of a few short runs"));
                Schedule::Constant(eta)
            }
        };
        let mut last = self.round(start, &bounds, eta, FIRST)?;
        // The soft bounds under which the counted rates were kept, and the last ones under which they were not.
        let mut kept: Option<Vec<f64>> = None;
        let mut missed: Vec<Option<f64>> = vec![None; bounds.len()];
        let mut refinements = 0;
        for _ in 0..ROUNDS {
            if self.interrupted() || last.counted.iter().all(Option::is_none) || self.options.enforce == Enforce::Surrogate {
                break;
            }
            if last.kept {
                kept = Some(bounds.clone());
            }
            refinements += usize::from(kept.is_some());
            if refinements > REFINE || (last.kept && missed.iter().all(Option::is_none)) {
                break;
            }
            for (j, counted) in last.counted.iter().enumerate() {
                let Some(counted) = *counted else { continue };
                let over = counted > self.asked[j] + self.slack(j);
                if over {
                    missed[j] = Some(bounds[j]);
                }
                match (&kept, missed[j]) {
                    (Some(kept), Some(missed)) => bounds[j] = 0.5 * (kept[j] + missed),
                    // The gap shrinks about as the bound does; go a little further than that.
                    (None, Some(_)) if over => {
                        bounds[j] *= (0.9 * self.asked[j] / counted).clamp(0.2, 0.9);
                        // A bound near zero that does not help: the soft form is too far from the counted one.
                        if bounds[j] < 0.3 * self.asked[j] && self.sharpen(j, 0.5) {
                            (bounds[j], missed[j]) = (self.asked[j], None);
                        }
                    }
                    _ => {}
                }
            }
            last = self.round(&last.point.x.clone(), &bounds, eta, TIGHTEN)?;
        }
        if !self.interrupted() {
            let (from, bounds, sharpened) = match &self.best {
                Some(best) if best.kept => (best.point.x.clone(), best.bounds.clone(), best.sharpened.clone()),
                _ => (last.point.x.clone(), bounds, self.sharpened.clone()),
            };
            for (j, factor) in sharpened.iter().enumerate() {
                self.sharpen(j, factor / self.sharpened[j]);
            }
            let shorter = match eta {
                Schedule::Constant(c) => Schedule::Constant(0.5 * c),
                other => other,
            };
            self.round(&from, &bounds, shorter, LAST)?;
        }
        let best = self.best.take().ok_or_else(|| Error::Problem("no round of training returned a point".into()))?;
        self.finish(best, eta, notes)
    }

    /// Lowers the temperature of constraint `j`, if it has one.
    fn sharpen(&mut self, j: usize, factor: f64) -> bool {
        let sharpened = factor != 1.0 && self.problem.sharpen(j, factor);
        if sharpened {
            self.sharpened[j] *= factor;
        }
        sharpened
    }

    /// Gives the problem its own bounds and temperatures back.
    fn put_back(&mut self) {
        for j in 0..self.asked.len() {
            self.problem.set_bound(j, self.asked[j]);
            self.sharpen(j, 1.0 / self.sharpened[j]);
        }
    }

    fn finish(&mut self, best: Candidate, eta: Schedule, mut notes: Vec<String>) -> Result<Fitted> {
        self.put_back();
        let point = run::measure(self.problem, &best.point.x, self.options.feasibility)?;
        let constraints: Vec<FittedConstraint> = (0..self.asked.len())
            .map(|j| {
                let surrogate = best.surrogates[j];
                let enforced = self.enforced(surrogate, best.counted[j]);
                FittedConstraint {
                    name: point.constraints[j].name.clone(),
                    bound: self.asked[j],
                    surrogate_bound: best.bounds[j],
                    sharpened: best.sharpened[j],
                    surrogate,
                    measured: best.counted[j],
                    kept: enforced <= self.asked[j] + self.slack(j),
                }
            })
            .collect();
        for c in &constraints {
            if c.surrogate_bound < c.bound {
                notes.push(format!("'{}': soft bound tightened from {} to {:.4}", c.name, c.bound, c.surrogate_bound));
            }
            if c.sharpened < 1.0 {
                notes.push(format!("'{}': temperature multiplied by {}", c.name, c.sharpened));
            }
            if !c.kept && c.measured.is_some() && self.options.enforce == Enforce::Measured {
                notes.push(format!(
                    "'{}': the counted rate does not keep the bound; a smaller temperature brings the soft form nearer to it",
                    c.name
                ));
            }
        }
        Ok(Fitted {
            feasible: constraints.iter().all(|c| c.kept),
            point,
            constraints,
            ended: self.ended.clone(),
            eta,
            rounds: self.rounds,
            iterations: self.iterations,
            passes: self.passes,
            seconds: self.seconds,
            trace: std::mem::take(&mut self.trace),
            notes,
        })
    }

    /// What constraint `j` may exceed its bound by.
    fn slack(&self, j: usize) -> f64 {
        self.options.feasibility * self.asked[j].abs().max(1.0)
    }

    /// The side that must keep the bound.
    fn enforced(&self, surrogate: f64, counted: Option<f64>) -> f64 {
        match self.options.enforce {
            Enforce::Measured => counted.unwrap_or(surrogate),
            Enforce::Surrogate => surrogate,
        }
    }

    fn interrupted(&self) -> bool {
        matches!(self.ended, Ended::Interrupted)
    }

    /// The step with which short runs get furthest.
    fn pilot(&mut self, start: &[f64], bounds: &[f64]) -> Result<f64> {
        let mut best: Option<(f64, (f64, f64))> = None;
        for eta in STEPS {
            let candidate = self.run(start, bounds, Schedule::Constant(eta), PILOT, false)?;
            // Feasible before infeasible, then the smaller objective. Counted rates say nothing yet.
            let Point { feasible, violation, objective, .. } = candidate.point;
            let score = (if feasible { 0.0 } else { violation }, objective);
            if best.is_none_or(|(_, least)| score < least) {
                best = Some((eta, score));
            }
        }
        Ok(best.map_or(STEPS[0], |(eta, _)| eta))
    }

    /// One training run; its point competes for the best.
    fn round(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64) -> Result<Candidate> {
        let candidate = self.run(start, bounds, eta, share, true)?;
        self.rounds += 1;
        let key = |c: &Candidate| (!c.kept, if c.kept { 0.0 } else { c.excess }, c.point.objective);
        if self.best.as_ref().is_none_or(|best| key(&candidate) < key(best)) {
            self.best = Some(candidate.clone());
        }
        Ok(candidate)
    }

    /// Runs the solver under the given soft bounds with a share of the budget.
    fn run(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64, trace: bool) -> Result<Candidate> {
        for (j, &bound) in bounds.iter().enumerate() {
            // The method accepts up to tol: what it returns must still keep the bound.
            self.problem.set_bound(j, if bound > self.tol { bound - self.tol } else { bound });
        }
        let settings = Settings { eta, tol: self.tol.into(), ..self.options.settings.clone() };
        let options = Options {
            budget: part(&self.options.budget, share),
            record: if trace { Record::default() } else { Record::nothing() },
            seed: self.options.seed,
            // The bounds are tightened by tol, so what the method accepts is feasible.
            feasibility: self.tol.max(self.options.feasibility),
            threads: self.options.threads,
            stop: self.options.stop.clone(),
            ..Options::default()
        };
        let mut part = Part { used: self.used, share, iterations: self.iterations, observer: &mut *self.observer };
        let outcome = run::minimize(&*self.problem, &mut Ssg::new(settings)?, start, &options, &mut part)?;
        self.used += share;
        if trace {
            for mut row in outcome.trace {
                row.constraints.iter_mut().enumerate().for_each(|(j, g)| *g += self.problem.bound(j) - self.asked[j]);
                row.violation = row.constraints.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                row.iteration += self.iterations;
                row.passes_f += self.passes.objective;
                row.passes_g += self.passes.constraints;
                row.seconds += self.seconds;
                self.trace.push(row);
            }
        }
        self.iterations += outcome.iterations;
        self.passes.objective += outcome.passes.objective;
        self.passes.constraints += outcome.passes.constraints;
        self.seconds += outcome.seconds;
        self.ended = outcome.ended;

        let counted = self.problem.counted(&outcome.point.x)?;
        let constraints = outcome.point.constraints.iter().enumerate();
        let surrogates: Vec<f64> = constraints.map(|(j, c)| c.value + self.problem.bound(j)).collect();
        let excess = (0..surrogates.len())
            .map(|j| self.enforced(surrogates[j], counted[j]) - self.asked[j] - self.slack(j))
            .fold(f64::NEG_INFINITY, f64::max);
        Ok(Candidate {
            kept: excess <= 0.0,
            excess,
            counted,
            bounds: bounds.to_vec(),
            sharpened: self.sharpened.clone(),
            surrogates,
            point: outcome.point,
        })
    }
}

/// A share of every limit.
fn part(budget: &Budget, share: f64) -> Budget {
    Budget {
        iterations: budget.iterations.map(|n| ((n as f64 * share) as u64).max(1)),
        passes: budget.passes.map(|n| n * share),
        samples: budget.samples.map(|n| ((n as f64 * share) as u64).max(1)),
        seconds: budget.seconds.map(|n| n * share),
    }
}

/// Shows one run's progress as part of the whole.
struct Part<'a> {
    used: f64,
    share: f64,
    iterations: u64,
    observer: &'a mut (dyn Observer + Send),
}

impl Observer for Part<'_> {
    fn recorded(&mut self, row: &Row) {
        self.observer.recorded(row);
    }

    fn progressed(&mut self, progress: &Progress) {
        let share = (self.used + self.share * progress.share).min(1.0);
        self.observer.progressed(&Progress { iterations: self.iterations + progress.iterations, share, ..*progress });
    }
}
