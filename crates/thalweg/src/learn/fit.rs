//! Training without tuning: a pilot chooses the step, rounds tighten soft bounds until the counted 0/1 rates keep the
//! user's. Files, tables of raw columns and printing are not done here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::problem::Learning;
use crate::eval::Passes;
use crate::oracle::Description;
use crate::run::{self, Budget, Diagnostics, Observer, Options, Point, Progress, Record, Row, StopReason};
use crate::solvers::auto::{self, Chosen};
use crate::solvers::ssg::{InfeasibleStep, Settings};
use crate::solvers::{Bundle, FirstOrder, Lbfgs, Mspg, Schedule, Ssg, StSpg, Stationary, bundle, lbfgs, mspg, st_spg};
use crate::{Error, Note, Result};

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

/// Which method trains.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Trains {
    /// What suits the problem, see [`auto::choose`].
    #[default]
    Auto,
    /// The proximal bundle method.
    Bundle,
    /// The switching subgradient method.
    Ssg,
    /// L-BFGS, for a smooth objective without constraints.
    Lbfgs(lbfgs::Settings),
    /// St-SPG, for an inf-projection problem such as a loss with its variance.
    StSpg(st_spg::Settings),
    /// MSPG, for the same.
    Mspg(mspg::Settings),
}

/// How a model is trained.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Which method.
    pub solver: Trains,
    /// Settings of the bundle method.
    pub bundle: bundle::Settings,
    /// Step size of the switching method; chosen by a pilot if absent.
    pub eta: Option<Schedule>,
    /// Further settings of the switching method; `eta` and `tol` are set by the trainer.
    pub settings: Settings,
    /// Switching tolerance; by default a hundredth of the smallest bound. Bounds are tightened by it.
    pub tol: Option<f64>,
    /// What the pilot and all rounds together may use up. Iterations are never exceeded; of passes, samples and seconds the
    /// step that reaches the limit is the last one. Default 3,000 iterations; for methods that step on single rows 30 passes.
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

impl FitOptions {
    /// Refuses what no training could be done with.
    pub fn validate(&self) -> Result<()> {
        self.budget.validate()?;
        for (name, value) in [("tol", self.tol.unwrap_or(0.0)), ("feasibility", self.feasibility)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number of at least 0"));
            }
        }
        if self.threads == 0 {
            return Err(Error::setting("threads", 0, "at least 1"));
        }
        Settings { eta: self.eta.unwrap_or(self.settings.eta), ..self.settings.clone() }.resolve()?;
        self.bundle.clone().resolve()?;
        Ok(())
    }
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            solver: Trains::Auto,
            bundle: bundle::Settings { eps: 1e-3, ..bundle::Settings::default() },
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
    pub ended: StopReason,
    /// The method that trained.
    pub solver: String,
    /// The step size of the main run, where the method has one.
    pub eta: Option<Schedule>,
    /// The multiplier of each constraint of the problem with the tightened bounds, where the method has them.
    pub multipliers: Option<Vec<f64>>,
    /// What the method proved about the point: near-stationarity of the problem with the tightened bounds.
    pub stationary: Option<Stationary>,
    /// How steep an objective of the form of an inf-projection is at the point, see [`run::Outcome::slope`].
    #[serde(default)]
    pub slope: Option<f64>,
    /// Why this method, where nobody named one: what was seen, what was chosen, how to repeat it.
    pub reasons: Vec<String>,
    /// Training runs after the pilot.
    pub rounds: u64,
    /// Steps of all runs.
    pub iterations: u64,
    /// Work of all runs.
    pub passes: Passes,
    /// Samples that all runs read.
    pub samples: u64,
    /// Time of all runs, without measuring.
    pub seconds: f64,
    /// Recorded iterates of the training runs, against the user's bounds.
    pub trace: Vec<Row>,
    /// What a careful reader should know.
    pub notes: Vec<Note>,
}

/// What a method that steps on single rows may use up where nobody says otherwise.
const PASSES: f64 = 30.0;
/// Shares of the budget for each pilot run, the first round, each round of tightening, and the last round. A run never gets
/// more than is left.
const PILOT: f64 = 0.02;
/// Steps that the pilot tries.
const STEPS: [f64; 5] = [4.0, 1.0, 0.25, 0.06, 0.015];
/// The step if there is no pilot.
const UNTRIED: f64 = 1.0;
const FIRST: f64 = 0.3;
const TIGHTEN: f64 = 0.04;
const LAST: f64 = 0.28;
const ROUNDS: usize = 14;
/// Rounds that look for a looser bound once one was found.
const REFINE: usize = 7;
/// A counted rate below this share of its bound leaves room, and the most that a soft bound is loosened by at once.
const SPARE: f64 = 0.9;
const LOOSEN: f64 = 2.0;

/// Trains on `problem` from `start`. The problem's bounds are the user's; they are moved while training and put back.
pub fn fit(problem: &mut Learning, start: &[f64], options: &FitOptions, observer: &mut (dyn Observer + Send)) -> Result<Fitted> {
    options.validate()?;
    let asked: Vec<f64> = (0..problem.num_constraints()).map(|j| problem.bound(j)).collect();
    let alone = |solver: Box<FirstOrder<'static>>, observer| train_alone(problem, start, solver, vec![], options, observer);
    let (chosen, reasons) = match &options.solver {
        Trains::Lbfgs(settings) => return alone(Box::new(Lbfgs::new(settings.clone())?), observer),
        Trains::StSpg(settings) => return alone(Box::new(StSpg::new(settings.clone())?), observer),
        Trains::Mspg(settings) => return alone(Box::new(Mspg::new(settings.clone())?), observer),
        Trains::Bundle => (Chosen::Bundle, vec![]),
        Trains::Ssg => (Chosen::Ssg, vec![]),
        Trains::Auto => {
            let choice = auto::choose(problem);
            if matches!(choice.chosen, Chosen::Lbfgs | Chosen::StSpg) {
                let prepared = auto::prepare(problem, start, options.seed, options.feasibility)?;
                let set: String = prepared.found.iter().map(|(name, value)| format!(" --set {name}={value}")).collect();
                let mut reasons = choice.reasons;
                reasons.push(format!("to repeat: --solver {}{set} --seed {}", choice.chosen.name(), options.seed));
                return train_alone(problem, start, prepared.solver, reasons, options, observer);
            }
            (choice.chosen, choice.reasons)
        }
    };
    // Batches are not what the rounds are made for: where they would be chosen, the switching method trains.
    let chosen = if chosen == Chosen::Bundle { Chosen::Bundle } else { Chosen::Ssg };
    let mut trainer = Trainer::new(problem, asked, options, chosen, observer);
    let result = trainer.train(start);
    trainer.put_back();
    result.map(|fitted| {
        let mut reasons = reasons;
        if !reasons.is_empty() {
            let eta = fitted.eta.map_or(String::new(), |eta| format!(" --set eta={eta}"));
            reasons.push(format!("to repeat: --solver {}{eta} --seed {}", fitted.solver, options.seed));
        }
        Fitted { reasons, ..fitted }
    })
}

/// Trains in one run, a problem without constraints: there is nothing to tighten.
fn train_alone(
    problem: &Learning,
    start: &[f64],
    mut solver: Box<FirstOrder<'static>>,
    reasons: Vec<String>,
    options: &FitOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Fitted> {
    // A step on one row is not what the default number of iterations is meant for.
    let by_rows = solver.name() != "lbfgs" && options.budget == FitOptions::default().budget;
    let run = Options {
        budget: if by_rows { Budget { passes: Some(PASSES), ..Budget::default() } } else { options.budget.clone() },
        seed: options.seed,
        feasibility: options.feasibility,
        threads: options.threads,
        interrupt: options.stop.clone(),
        ..Options::default()
    };
    let outcome = run::minimize(problem, &mut *solver, start, &run, observer)?;
    Ok(Fitted {
        feasible: outcome.point.feasible,
        point: outcome.point,
        constraints: vec![],
        ended: outcome.ended,
        solver: outcome.solver,
        eta: None,
        multipliers: None,
        stationary: None,
        slope: outcome.slope,
        reasons,
        rounds: 1,
        iterations: outcome.iterations,
        passes: outcome.passes,
        samples: outcome.counts.samples(),
        seconds: outcome.seconds,
        trace: outcome.trace,
        notes: outcome.notes,
    })
}

/// A point that a round returned, with the soft bounds it was trained with.
#[derive(Debug, Clone)]
struct Candidate {
    point: Point,
    bounds: Vec<f64>,
    sharpened: Vec<f64>,
    /// Left-hand sides as they were trained.
    surrogates: Vec<f64>,
    multipliers: Option<Vec<f64>>,
    stationary: Option<Stationary>,
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
    chosen: Chosen,
    observer: &'a mut (dyn Observer + Send),
    tol: f64,
    /// Work of finished runs.
    iterations: u64,
    samples: u64,
    passes: Passes,
    seconds: f64,
    rounds: u64,
    trace: Vec<Row>,
    ended: StopReason,
    best: Option<Candidate>,
}

impl<'a> Trainer<'a> {
    fn new(
        problem: &'a mut Learning,
        asked: Vec<f64>,
        options: &'a FitOptions,
        chosen: Chosen,
        observer: &'a mut (dyn Observer + Send),
    ) -> Self {
        // How far a bound may be tightened: not below what its own expression can reach.
        let room =
            (0..asked.len()).map(|j| asked[j].abs().min(problem.margin_above_best(j).map_or(f64::INFINITY, |room| 25.0 * room)));
        let smallest = room.fold(f64::INFINITY, f64::min);
        let tol = match chosen {
            // It returns what is feasible to within the tolerance of the measurement.
            Chosen::Bundle => 0.0,
            _ if smallest.is_finite() => (0.01 * smallest).max(0.5 * options.feasibility),
            _ => 0.0,
        };
        let tol = options.tol.unwrap_or(tol);
        Trainer {
            problem,
            sharpened: vec![1.0; asked.len()],
            asked,
            options,
            chosen,
            observer,
            tol,
            iterations: 0,
            samples: 0,
            passes: Passes::default(),
            seconds: 0.0,
            rounds: 0,
            trace: vec![],
            ended: StopReason::Finished,
            best: None,
        }
    }

    fn train(&mut self, start: &[f64]) -> Result<Fitted> {
        let mut notes = vec![];
        let mut bounds = self.asked.clone();
        let eta = match self.options.eta {
            _ if self.chosen == Chosen::Bundle => Schedule::Constant(0.0),
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
        // The soft bounds under which the counted rates were kept, and the last ones under which they were not.
        let mut kept: Option<Vec<f64>> = None;
        let mut missed: Vec<Option<f64>> = vec![None; bounds.len()];
        let mut refinements = 0;
        for _ in 0..ROUNDS {
            if self.over() || last.counted.iter().all(Option::is_none) || self.options.enforce == Enforce::Surrogate {
                break;
            }
            if last.kept {
                kept = Some(bounds.clone());
            }
            refinements += usize::from(kept.is_some());
            // A smooth form that was tightened or sharpened may keep the bound with room to spare; so may one that is at its
            // bound from the beginning, as the smooth rate of errors of a good model is far above the counted one.
            let idle = |j: usize, counted: &Option<f64>| counted.is_some_and(|c| c < SPARE * self.asked[j]);
            let holds_back = |j: usize| self.rounds > 1 || last.surrogates[j] >= SPARE * bounds[j];
            let spare = last.counted.iter().enumerate().any(|(j, counted)| idle(j, counted) && holds_back(j));
            if refinements > REFINE || (last.kept && missed.iter().all(Option::is_none) && !spare) {
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
                    (Some(_), None) if last.kept && counted < SPARE * self.asked[j] => {
                        bounds[j] *= (self.asked[j] / counted.max(1e-12)).min(LOOSEN);
                    }
                    // The gap shrinks about as the bound does; go a little further than that.
                    (None, Some(_)) if over => {
                        bounds[j] *= (0.9 * self.asked[j] / counted).clamp(0.2, 0.9);
                        // A bound near zero that does not help: the soft form is too far from the counted one.
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
        self.conclude(start, eta, notes)
    }

    /// The method proved that the user's bounds cannot be kept together, and none of those that conflict is a softened one,
    /// which another temperature might yet reconcile.
    fn hopeless(&self, last: &Candidate) -> bool {
        let softened = |name: &String| {
            last.point.constraints.iter().zip(&last.counted).any(|(c, counted)| c.name == *name && counted.is_some())
        };
        matches!(&self.ended, StopReason::Infeasible { conflicting, .. } if !conflicting.iter().any(softened))
    }

    /// Ends with the best point so far.
    fn conclude(&mut self, start: &[f64], eta: Schedule, notes: Vec<Note>) -> Result<Fitted> {
        if self.ended == StopReason::Interrupted {
            // Who interrupts early should not get a model that breaks the bounds where the start keeps them.
            let start = run::measure(self.problem, start, self.options.feasibility)?;
            let start = self.candidate(start, &self.asked.clone(), None, None)?;
            self.compete(&start);
        }
        let best = self.best.take().ok_or_else(|| Error::Problem("no round of training returned a point".into()))?;
        self.finish(best, eta, notes)
    }

    /// Lowers the temperature of constraint `j`, if it has one.
    fn sharpen(&mut self, j: usize, factor: f64) -> bool {
        let sharpened = factor != 1.0 && self.problem.scale_temperature(j, factor);
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

    fn finish(&mut self, best: Candidate, eta: Schedule, mut notes: Vec<Note>) -> Result<Fitted> {
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
            if !c.kept {
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
        Ok(Fitted {
            feasible: constraints.iter().all(|c| c.kept),
            point,
            constraints,
            ended: self.ended.clone(),
            solver: self.chosen.name().into(),
            eta: (self.chosen != Chosen::Bundle).then_some(eta),
            multipliers: best.multipliers,
            stationary: best.stationary,
            slope: None,
            reasons: vec![],
            rounds: self.rounds,
            iterations: self.iterations,
            passes: self.passes,
            samples: self.samples,
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

    /// Nothing more is to be done: the user said so, or the budget is used up.
    fn over(&self) -> bool {
        let Budget { iterations, passes, samples, seconds } = self.options.budget;
        matches!(self.ended, StopReason::Interrupted)
            || iterations.is_some_and(|n| self.iterations >= n)
            || passes.is_some_and(|n| self.passes.total() >= n)
            || samples.is_some_and(|n| self.samples >= n)
            || seconds.is_some_and(|n| self.seconds >= n)
    }

    /// A share of every limit, and at most what is left of it.
    fn part(&self, share: f64) -> Budget {
        let budget = &self.options.budget;
        let whole = |n: u64, used: u64| ((n as f64 * share) as u64).max(1).min(n.saturating_sub(used));
        let number = |n: f64, used: f64| (n * share).min((n - used).max(0.0));
        Budget {
            iterations: budget.iterations.map(|n| whole(n, self.iterations)),
            passes: budget.passes.map(|n| number(n, self.passes.total())),
            samples: budget.samples.map(|n| whole(n, self.samples)),
            seconds: budget.seconds.map(|n| number(n, self.seconds)),
        }
    }

    /// The step with which short runs get furthest.
    fn pilot(&mut self, start: &[f64], bounds: &[f64]) -> Result<f64> {
        let mut best: Option<(f64, (f64, f64))> = None;
        for eta in STEPS {
            let candidate = self.run(start, bounds, Schedule::Constant(eta), PILOT, false)?;
            // Feasible before infeasible, then the smaller objective. Counted rates say nothing yet.
            let Point { violation, objective, .. } = candidate.point;
            let score = (known(if violation <= self.tol { 0.0 } else { violation }), known(objective));
            if best.is_none_or(|(_, least)| score < least) {
                best = Some((eta, score));
            }
            // If training is interrupted now, this is what there is.
            self.compete(&candidate);
        }
        Ok(best.map_or(STEPS[0], |(eta, _)| eta))
    }

    /// One training run; its point competes for the best.
    fn round(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64) -> Result<Candidate> {
        let candidate = self.run(start, bounds, eta, share, true)?;
        self.rounds += 1;
        self.compete(&candidate);
        Ok(candidate)
    }

    /// Keeps a point if it is the best so far: what must hold comes first, then the objective.
    fn compete(&mut self, candidate: &Candidate) {
        let key = |c: &Candidate| (!c.kept, known(if c.kept { 0.0 } else { c.excess }), known(c.point.objective));
        if self.best.as_ref().is_none_or(|best| key(candidate) < key(best)) {
            self.best = Some(candidate.clone());
        }
    }

    /// Runs the solver under the given soft bounds with a share of the budget.
    fn run(&mut self, start: &[f64], bounds: &[f64], eta: Schedule, share: f64, trace: bool) -> Result<Candidate> {
        for (j, &bound) in bounds.iter().enumerate() {
            // The method accepts up to tol: what it returns must still keep the bound.
            self.problem.set_bound(j, if bound > self.tol { bound - self.tol } else { bound });
        }
        let mut solver: Box<FirstOrder<'static>> = match self.chosen {
            Chosen::Bundle => Box::new(Bundle::new(self.options.bundle.clone())?),
            _ => Box::new(Ssg::new(Settings { eta, tol: self.tol.into(), ..self.options.settings.clone() })?),
        };
        let options = Options {
            budget: self.part(share),
            record: if trace { Record::default() } else { Record::nothing() },
            seed: self.options.seed,
            // The bounds are tightened by tol, so what the method accepts is feasible.
            feasibility: self.tol.max(self.options.feasibility),
            threads: self.options.threads,
            interrupt: self.options.stop.clone(),
            ..Options::default()
        };
        let mut whole = Whole {
            budget: &self.options.budget,
            moved: (0..self.asked.len()).map(|j| self.problem.bound(j) - self.asked[j]).collect(),
            tolerances: (0..self.asked.len()).map(|j| self.slack(j)).collect(),
            before: Progress { iterations: self.iterations, passes: self.passes, seconds: self.seconds, share: 0.0 },
            samples: self.samples,
            observer: &mut *self.observer,
        };
        let outcome = run::minimize(&*self.problem, &mut *solver, start, &options, &mut whole)?;
        if trace {
            self.trace.extend(outcome.trace.into_iter().map(|row| whole.row(row)));
        }
        self.iterations += outcome.iterations;
        self.samples += outcome.counts.samples();
        self.passes.objective += outcome.passes.objective;
        self.passes.constraints += outcome.passes.constraints;
        self.seconds += outcome.seconds;
        self.ended = outcome.ended;

        // A run that was cut short may stand at a point that it would not have ended at.
        let (point, multipliers) = match outcome.best_feasible {
            Some(best) if !outcome.point.feasible => (best, None),
            _ => (outcome.point, outcome.multipliers),
        };
        self.candidate(point, bounds, multipliers, outcome.stationary)
    }

    /// A point that competes for the best, measured under the bounds that the problem has now.
    fn candidate(
        &self,
        point: Point,
        bounds: &[f64],
        multipliers: Option<Vec<f64>>,
        stationary: Option<Stationary>,
    ) -> Result<Candidate> {
        let counted = self.problem.measured(&point.x)?;
        let constraints = point.constraints.iter().enumerate();
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
            multipliers,
            stationary,
            point,
        })
    }
}

/// What is not a number is worse than any number.
fn known(v: f64) -> f64 {
    if v.is_nan() { f64::INFINITY } else { v }
}

/// Shows one run as part of the whole: work since the beginning, constraints against the user's bounds.
struct Whole<'a> {
    budget: &'a Budget,
    /// By how much each bound is above the user's now.
    moved: Vec<f64>,
    /// What each constraint may exceed the user's bound by.
    tolerances: Vec<f64>,
    /// Work before this run.
    before: Progress,
    /// Samples read before it.
    samples: u64,
    observer: &'a mut (dyn Observer + Send),
}

impl Whole<'_> {
    fn row(&self, mut row: Row) -> Row {
        row.constraints.iter_mut().zip(&self.moved).for_each(|(g, moved)| *g += moved);
        row.violation = row.constraints.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.violated =
            row.constraints.iter().zip(&self.tolerances).filter(|(g, tolerance)| **g > **tolerance || g.is_nan()).count();
        row.iteration += self.before.iterations;
        row.passes_f += self.before.passes.objective;
        row.passes_g += self.before.passes.constraints;
        row.samples += self.samples;
        row.seconds += self.before.seconds;
        row
    }
}

impl Observer for Whole<'_> {
    fn recorded(&mut self, row: &Row, x: &[f64], known: &Diagnostics) {
        let row = self.row(row.clone());
        self.observer.recorded(&row, x, known);
    }

    fn progressed(&mut self, progress: &Progress) {
        let iterations = self.before.iterations + progress.iterations;
        let seconds = self.before.seconds + progress.seconds;
        let mut passes = self.before.passes;
        passes.objective += progress.passes.objective;
        passes.constraints += progress.passes.constraints;
        // Samples go along with passes.
        let shares = [
            self.budget.iterations.map(|n| iterations as f64 / n as f64),
            self.budget.passes.map(|n| passes.total() / n),
            self.budget.seconds.map(|n| seconds / n),
        ];
        let share = shares.into_iter().flatten().fold(0.0, f64::max).min(1.0);
        self.observer.progressed(&Progress { iterations, passes, seconds, share });
    }
}
