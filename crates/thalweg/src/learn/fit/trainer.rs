//! Training in rounds: pilot runs choose the step size of the switching subgradient method, then surrogate bounds are tightened
//! or loosened until the 0/1 rates satisfy the requested bounds.

use super::budget::{FIRST, LAST, PILOT, TIGHTEN, Whole};
use super::{Enforce, FitOptions, Fitted, FittedConstraint, build, intercept};
use crate::auto::{BudgetedRuns, Pilot, Score};
use crate::learn::problem::Learning;
use crate::oracle::Description;
use crate::run::{self, Observer, Options, Point, Progress, Record, Row, StopReason};
use crate::solvers::{Config, FirstOrder, Schedule, Ssg, Stationary, ssg};
use crate::{Error, Note, Result};

/// Step sizes tried in pilot runs.
const STEPS: [f64; 5] = [4.0, 1.0, 0.25, 0.06, 0.015];
/// Step size without pilot runs.
const UNTRIED: f64 = 1.0;
const ROUNDS: usize = 14;
/// Maximum number of rounds that search for a looser bound after one was found.
const REFINE: usize = 7;
/// Share of the bound below which a 0/1 rate leaves room, and the largest factor by which a surrogate bound is loosened at once.
const SPARE: f64 = 0.9;
const LOOSEN: f64 = 2.0;

/// Point returned by a round, with the surrogate bounds it was trained with.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) point: Point,
    pub(super) bounds: Vec<f64>,
    pub(super) sharpened: Vec<f64>,
    /// Left-hand sides with surrogates.
    pub(super) surrogates: Vec<f64>,
    pub(super) multipliers: Option<Vec<f64>>,
    pub(super) stationary: Option<Stationary>,
    pub(super) measured: Vec<Option<f64>>,
    /// Whether every enforced constraint is satisfied.
    pub(super) feasible: bool,
    /// Largest violation of an enforced constraint.
    pub(super) excess: f64,
    /// Error rate that counts besides the objective when candidates are compared.
    pub(super) errors: f64,
    /// Whether the point was found by counted rates and solves no problem with surrogates.
    pub(super) counted: bool,
}

pub(super) struct Trainer<'a> {
    pub(super) problem: &'a mut Learning,
    /// Requested bounds.
    pub(super) asked: Vec<f64>,
    /// Current factors by which temperatures are lowered.
    pub(super) sharpened: Vec<f64>,
    pub(super) options: &'a FitOptions,
    pub(super) config: Config,
    pub(super) observer: &'a mut (dyn Observer + Send),
    pub(super) tol: f64,
    /// The pilot runs and all rounds.
    pub(super) runs: BudgetedRuns,
    pub(super) rounds: u64,
    pub(super) trace: Vec<Row>,
    pub(super) ended: StopReason,
    pub(super) best: Option<Candidate>,
}

impl<'a> Trainer<'a> {
    pub(super) fn new(
        problem: &'a mut Learning,
        config: Config,
        options: &'a FitOptions,
        observer: &'a mut (dyn Observer + Send),
    ) -> Self {
        let asked: Vec<f64> = (0..problem.num_constraints()).map(|j| problem.bound(j)).collect();
        // How far a bound can be tightened: not below the smallest value that its expression can reach.
        let room =
            (0..asked.len()).map(|j| asked[j].abs().min(problem.margin_above_best(j).map_or(f64::INFINITY, |room| 25.0 * room)));
        let smallest = room.fold(f64::INFINITY, f64::min);
        let tol = match config {
            Config::Ssg(_) if smallest.is_finite() => (0.01 * smallest).max(0.5 * options.feasibility),
            // Other solvers return points that are feasible within the feasibility tolerance.
            _ => 0.0,
        };
        let tol = options.tol.unwrap_or(tol);
        Trainer {
            problem,
            sharpened: vec![1.0; asked.len()],
            asked,
            runs: BudgetedRuns::new(options.budget.clone(), options.interrupt.clone()),
            options,
            config,
            observer,
            tol,
            rounds: 0,
            trace: vec![],
            ended: StopReason::Finished,
            best: None,
        }
    }

    pub(super) fn train(&mut self, start: &[f64]) -> Result<Fitted> {
        if let Config::Sqp(settings) = &self.config {
            let settings = settings.clone();
            return self.train_smooth(start, &settings);
        }
        let mut notes = vec![];
        let mut bounds = self.asked.clone();
        let eta = match self.options.eta {
            _ if !matches!(self.config, Config::Ssg(_)) => Schedule::Constant(0.0),
            Some(eta) => eta,
            None if self.options.budget.iterations.is_some_and(|n| n as f64 * PILOT < 1.0) => {
                notes.push(Note::DefaultStepSize { eta: UNTRIED });
                Schedule::Constant(UNTRIED)
            }
            None => {
                let eta = self.pilot(start, &bounds)?;
                notes.push(Note::StepSizeChosen { eta, tried: STEPS.len() });
                Schedule::Constant(eta)
            }
        };
        let mut last = self.round(start, &bounds, eta, FIRST)?;
        if self.hopeless(&last) {
            return self.conclude(start, eta, notes);
        }
        // Surrogate bounds under which the 0/1 rates satisfied the requested bounds, and the last ones under which they did not.
        let mut satisfied: Option<Vec<f64>> = None;
        let mut missed: Vec<Option<f64>> = vec![None; bounds.len()];
        let mut refinements = 0;
        for _ in 0..ROUNDS {
            if self.over() || last.measured.iter().all(Option::is_none) || self.options.enforce == Enforce::Surrogate {
                break;
            }
            if last.feasible {
                satisfied = Some(bounds.clone());
            }
            refinements += usize::from(satisfied.is_some());
            // A surrogate that was tightened or sharpened may satisfy the bound with room to spare. So may one that is active
            // from the start, since the surrogate error rate of a good model is far above its 0/1 rate.
            let idle = |j: usize, measured: &Option<f64>| measured.is_some_and(|c| c < SPARE * self.asked[j]);
            let holds_back = |j: usize| self.rounds > 1 || last.surrogates[j] >= SPARE * bounds[j];
            let spare = last.measured.iter().enumerate().any(|(j, measured)| idle(j, measured) && holds_back(j));
            if refinements > REFINE || (last.feasible && missed.iter().all(Option::is_none) && !spare) {
                break;
            }
            for (j, measured) in last.measured.iter().enumerate() {
                let Some(measured) = *measured else { continue };
                let over = measured > self.asked[j] + self.slack(j);
                if over {
                    missed[j] = Some(bounds[j]);
                }
                match (&satisfied, missed[j]) {
                    (Some(satisfied), Some(missed)) => bounds[j] = 0.5 * (satisfied[j] + missed),
                    (Some(_), None) if last.feasible && measured < SPARE * self.asked[j] => {
                        bounds[j] *= (self.asked[j] / measured.max(1e-12)).min(LOOSEN);
                    }
                    // The gap shrinks roughly in proportion to the bound; go slightly further.
                    (None, Some(_)) if over => {
                        bounds[j] *= (0.9 * self.asked[j] / measured).clamp(0.2, 0.9);
                        // If a bound near zero does not help, the surrogate is too far from the 0/1 rate.
                        if bounds[j] <= 0.3 * self.asked[j] && self.sharpen(j, 0.5) {
                            (bounds[j], missed[j]) = (self.asked[j], None);
                        }
                    }
                    _ => {}
                }
            }
            last = self.round(&last.point.x.clone(), &bounds, eta, TIGHTEN)?;
        }
        if !self.over() {
            let (from, bounds, sharpened) = match &self.best {
                Some(best) if best.feasible => (best.point.x.clone(), best.bounds.clone(), best.sharpened.clone()),
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
        self.shift_intercept(&mut notes)?;
        self.conclude(start, eta, notes)
    }

    /// Returns whether the solver proved that the requested bounds conflict and none of the conflicting constraints has a
    /// surrogate, for which a lower temperature might resolve the conflict.
    pub(super) fn hopeless(&self, last: &Candidate) -> bool {
        let softened = |name: &String| {
            last.point.constraints.iter().zip(&last.measured).any(|(c, measured)| c.name == *name && measured.is_some())
        };
        matches!(&self.ended, StopReason::Infeasible { conflicting, .. } if !conflicting.iter().any(softened))
    }

    /// Moves the intercept of the best point if that satisfies bounds that no round did, or is clearly more accurate.
    pub(super) fn shift_intercept(&mut self, notes: &mut Vec<Note>) -> Result<()> {
        if self.options.enforce == Enforce::Surrogate || self.ended == StopReason::Interrupted {
            return Ok(());
        }
        let Some(best) = self.best.take() else { return Ok(()) };
        for (j, &bound) in best.bounds.iter().enumerate() {
            self.problem.set_bound(j, bound);
            self.sharpen(j, best.sharpened[j] / self.sharpened[j]);
        }
        let found = intercept::search(self.problem, &best.point.x, &self.asked, self.options.feasibility)?;
        let decision = found.map(|found| intercept::choose(&found, best.feasible));
        self.best = Some(match decision.and_then(|decision| decision.cut) {
            Some(cut) => {
                let point = run::measure(self.problem, &cut.apply(&best.point.x), self.options.feasibility)?;
                notes.push(Note::InterceptShifted {
                    shift: cut.shift,
                    gain: cut.gain.accuracy,
                    standard_error: cut.gain.standard_error,
                    satisfied_before: best.feasible,
                });
                // The shifted point is not stationary for the surrogates. Their bounds are those that it satisfies.
                let shifted = self.candidate(point, &best.bounds, None, None)?;
                let loosened = |j: usize| match shifted.measured[j] {
                    Some(_) => best.bounds[j].max(shifted.surrogates[j]),
                    None => best.bounds[j],
                };
                Candidate { bounds: (0..best.bounds.len()).map(loosened).collect(), ..shifted.clone() }
            }
            None => best,
        });
        Ok(())
    }

    /// Finishes training with the best point so far.
    pub(super) fn conclude(&mut self, start: &[f64], eta: Schedule, notes: Vec<Note>) -> Result<Fitted> {
        if self.ended == StopReason::Interrupted {
            // An early interrupt should not return a model that violates the bounds if the start satisfies them.
            let start = run::measure(self.problem, start, self.options.feasibility)?;
            let start = self.candidate(start, &self.asked.clone(), None, None)?;
            self.compete(&start);
        }
        let best = self.best.take().ok_or_else(|| Error::Problem("no round of training returned a point".into()))?;
        self.finish(best, eta, notes)
    }

    /// Multiplies the temperature of constraint `j` by `factor`, if it has one. Returns whether it changed.
    pub(super) fn sharpen(&mut self, j: usize, factor: f64) -> bool {
        let sharpened = factor != 1.0 && self.problem.scale_temperature(j, factor);
        if sharpened {
            self.sharpened[j] *= factor;
        }
        sharpened
    }

    /// Restores the bounds and temperatures of the problem.
    pub(super) fn put_back(&mut self) {
        for j in 0..self.asked.len() {
            self.problem.set_bound(j, self.asked[j]);
            self.sharpen(j, 1.0 / self.sharpened[j]);
            self.problem.drop_corrections(j);
        }
    }

    fn finish(&mut self, best: Candidate, eta: Schedule, mut notes: Vec<Note>) -> Result<Fitted> {
        self.put_back();
        let point = run::measure(self.problem, &best.point.x, self.options.feasibility)?;
        let constraints: Vec<FittedConstraint> = (0..self.asked.len())
            .map(|j| {
                let surrogate = best.surrogates[j];
                let enforced = self.enforced(surrogate, best.measured[j]);
                FittedConstraint {
                    name: point.constraints[j].name.clone(),
                    bound: self.asked[j],
                    surrogate_bound: best.bounds[j],
                    sharpened: best.sharpened[j],
                    surrogate,
                    measured: best.measured[j],
                    satisfied: enforced <= self.asked[j] + self.slack(j),
                }
            })
            .collect();
        for c in &constraints {
            if c.surrogate_bound != c.bound {
                notes.push(Note::SurrogateBoundMoved {
                    constraint: c.name.clone(),
                    bound: c.bound,
                    surrogate_bound: c.surrogate_bound,
                });
            }
            if c.sharpened < 1.0 {
                notes.push(Note::TemperatureLowered { constraint: c.name.clone(), factor: c.sharpened });
            }
            if !c.satisfied {
                let measured = c.measured.filter(|_| self.options.enforce == Enforce::Measured);
                notes.push(Note::BoundMissed {
                    constraint: c.name.clone(),
                    value: measured.unwrap_or(c.surrogate),
                    bound: c.bound,
                    measured: measured.is_some(),
                    conflicting: matches!(&self.ended, StopReason::Infeasible { conflicting, .. } if conflicting.contains(&c.name)),
                });
            }
        }
        let work = *self.runs.used();
        Ok(Fitted {
            feasible: constraints.iter().all(|c| c.satisfied),
            point,
            constraints,
            ended: self.ended.clone(),
            solver: self.config.name().to_string(),
            eta: matches!(self.config, Config::Ssg(_)).then_some(eta),
            multipliers: best.multipliers,
            stationary: best.stationary,
            slope: None,
            choice: None,
            rounds: self.rounds,
            iterations: work.iterations,
            passes: work.passes,
            samples: work.samples,
            seconds: work.seconds,
            trace: std::mem::take(&mut self.trace),
            notes,
        })
    }

    /// Returns the tolerance of constraint `j`.
    pub(super) fn slack(&self, j: usize) -> f64 {
        self.options.feasibility * self.asked[j].abs().max(1.0)
    }

    /// Returns the left-hand side that must satisfy the bound.
    fn enforced(&self, surrogate: f64, measured: Option<f64>) -> f64 {
        match self.options.enforce {
            Enforce::Measured => measured.unwrap_or(surrogate),
            Enforce::Surrogate => surrogate,
        }
    }

    /// Returns whether training must stop, because of an interrupt or the budget.
    pub(super) fn over(&self) -> bool {
        matches!(self.ended, StopReason::Interrupted) || self.runs.is_exhausted()
    }

    /// Chooses the step size by pilot runs. 0/1 rates are not used at this stage.
    fn pilot(&mut self, start: &[f64], bounds: &[f64]) -> Result<f64> {
        let pilot = Pilot::try_all(
            self,
            |trainer| &trainer.runs,
            STEPS,
            |trainer, eta| {
                let candidate = trainer.run(start, bounds, Schedule::Constant(eta), PILOT, false)?;
                // This is the point to return if training is interrupted now.
                trainer.compete(&candidate);
                Ok(Some(Score::new(&candidate.point, candidate.point.violation <= trainer.tol)))
            },
        )?;
        Ok(pilot.best().unwrap_or(STEPS[0]))
    }

    /// Performs one training run and updates the best point.
    fn round(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64) -> Result<Candidate> {
        let candidate = self.run(start, bounds, eta, share, true)?;
        self.rounds += 1;
        self.compete(&candidate);
        Ok(candidate)
    }

    /// Stores a point if it is the best so far: satisfying the enforced constraints comes first, then the objective.
    pub(super) fn compete(&mut self, candidate: &Candidate) {
        let key =
            |c: &Candidate| (!c.feasible, known(if c.feasible { 0.0 } else { c.excess }), known(c.point.objective + c.errors));
        if self.best.as_ref().is_none_or(|best| key(candidate) < key(best)) {
            self.best = Some(candidate.clone());
        }
    }

    /// Runs the solver under the given surrogate bounds with a share of the budget.
    fn run(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64, trace: bool) -> Result<Candidate> {
        for (j, &bound) in bounds.iter().enumerate() {
            // The solver accepts violations up to tol; the returned point must still satisfy the bound.
            self.problem.set_bound(j, if bound > self.tol { bound - self.tol } else { bound });
        }
        let mut solver: Box<FirstOrder<'static>> = match &self.config {
            Config::Ssg(settings) => Box::new(Ssg::new(ssg::Settings { eta, tol: self.tol.into(), ..settings.clone() })?),
            other => build(other)?,
        };
        let options = Options {
            budget: self.runs.share(share),
            record: if trace { Record::default() } else { Record::nothing() },
            seed: self.options.seed,
            // The bounds are tightened by tol, so points that the solver accepts are feasible.
            feasibility: self.tol.max(self.options.feasibility),
            threads: self.options.threads,
            ..Options::default()
        };
        self.perform(&mut *solver, start, bounds, &options, trace)
    }

    /// Performs a run under the current bounds of the problem.
    pub(super) fn perform(
        &mut self,
        solver: &mut FirstOrder,
        start: &[f64],
        bounds: &[f64],
        options: &Options,
        trace: bool,
    ) -> Result<Candidate> {
        let used = *self.runs.used();
        let mut whole = Whole {
            budget: &self.options.budget,
            moved: (0..self.asked.len()).map(|j| self.problem.bound(j) - self.asked[j]).collect(),
            tolerances: (0..self.asked.len()).map(|j| self.slack(j)).collect(),
            before: Progress { iterations: used.iterations, passes: used.passes, seconds: used.seconds, share: 0.0 },
            samples: used.samples,
            observer: &mut *self.observer,
        };
        let outcome = self.runs.run(&*self.problem, solver, start, options, &mut whole)?;
        if trace {
            self.trace.extend(outcome.trace.into_iter().map(|row| whole.row(row)));
        }
        self.ended = match outcome.ended {
            StopReason::Infeasible { conflicting, .. } if !self.concerns_request(&conflicting, bounds, &outcome.point)? => {
                StopReason::Finished
            }
            ended => ended,
        };

        // A run that is cut short may stop at an iterate that its output rule would not return.
        let (point, multipliers) = match outcome.best_feasible {
            Some(best) if !outcome.point.feasible => (best, None),
            _ => (outcome.point, outcome.multipliers),
        };
        self.candidate(point, bounds, multipliers, outcome.stationary)
    }

    /// Returns whether a conflict of constraints in a round with these surrogate bounds is one of the requested bounds: none was
    /// moved, and no surrogate stands for a 0/1 rate that must satisfy its bound.
    fn concerns_request(&self, conflicting: &[String], bounds: &[f64], point: &Point) -> Result<bool> {
        let moved = bounds != self.asked || self.sharpened.iter().any(|factor| *factor != 1.0);
        let measured = self.problem.measured(&point.x)?;
        let stands_for_rate = |name: &String| {
            let mut constraints = point.constraints.iter().zip(&measured);
            self.options.enforce == Enforce::Measured && constraints.any(|(c, rate)| c.name == *name && rate.is_some())
        };
        Ok(!moved && !conflicting.iter().any(stands_for_rate))
    }

    /// Returns the training error rate between more than two groups, where rounds and searches by counts compete: objectives alone say
    /// little of models that are far from the loss's least. 0 otherwise, and if not all rows count in the objective.
    fn errors(&self, x: &[f64]) -> Result<f64> {
        let counts = self.options.enforce == Enforce::Measured
            && matches!(self.config, Config::Sqp(_))
            && self.problem.objective_is_over_all_rows()
            && (0..self.asked.len()).any(|j| self.problem.compares_many(j));
        if counts { self.problem.error_rate(x) } else { Ok(0.0) }
    }

    /// Builds a candidate from a point, measured under the current bounds of the problem.
    pub(super) fn candidate(
        &self,
        point: Point,
        bounds: &[f64],
        multipliers: Option<Vec<f64>>,
        stationary: Option<Stationary>,
    ) -> Result<Candidate> {
        let measured = self.problem.measured(&point.x)?;
        let constraints = point.constraints.iter().enumerate();
        let surrogates: Vec<f64> = constraints.map(|(j, c)| c.value + self.problem.bound(j)).collect();
        let excess = (0..surrogates.len())
            .map(|j| self.enforced(surrogates[j], measured[j]) - self.asked[j] - self.slack(j))
            .fold(f64::NEG_INFINITY, f64::max);
        Ok(Candidate {
            feasible: excess <= 0.0,
            excess,
            measured,
            bounds: bounds.to_vec(),
            sharpened: self.sharpened.clone(),
            surrogates,
            multipliers,
            stationary,
            errors: self.errors(&point.x)?,
            point,
            counted: false,
        })
    }
}

/// Maps NaN to infinity, so that it is worse than any number.
fn known(v: f64) -> f64 {
    if v.is_nan() { f64::INFINITY } else { v }
}
