//! Several runs under one budget, and the choice among candidates by pilot runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::eval::Passes;
use crate::oracle::Subgradients;
use crate::run::{self, Budget, Observer, Options, Outcome, Point};
use crate::solvers::FirstOrder;

/// Work of one or more runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Iterations.
    pub iterations: u64,
    /// Samples read.
    pub samples: u64,
    /// Passes over the data.
    pub passes: Passes,
    /// Time, excluding measurements.
    pub seconds: f64,
}

impl Work {
    /// Adds the work of a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.iterations += outcome.iterations;
        self.samples += outcome.counts.samples();
        self.passes.objective += outcome.passes.objective;
        self.passes.constraints += outcome.passes.constraints;
        self.seconds += outcome.seconds;
    }

    /// Returns the budget of a run that follows this work. A time limit covers both; all other limits apply to the run alone.
    pub fn leaves(&self, budget: &Budget) -> Budget {
        Budget { seconds: budget.seconds.map(|limit| (limit - self.seconds).max(0.0)), ..budget.clone() }
    }
}

/// Sequence of runs that share a budget and an interrupt.
#[derive(Debug, Clone, Default)]
pub struct BudgetedRuns {
    budget: Budget,
    interrupt: Option<Arc<AtomicBool>>,
    used: Work,
}

impl BudgetedRuns {
    /// Creates an empty sequence.
    pub fn new(budget: Budget, interrupt: Option<Arc<AtomicBool>>) -> Self {
        BudgetedRuns { budget, interrupt, used: Work::default() }
    }

    /// Creates a sequence of pilot runs before a run with these options. They may take half of its time; its other limits do not
    /// apply to them.
    pub fn before(options: &Options) -> Self {
        let budget = Budget { seconds: options.budget.seconds.map(|limit| 0.5 * limit), ..Budget::default() };
        BudgetedRuns::new(budget, options.interrupt.clone())
    }

    /// Returns the work of all runs so far.
    pub fn used(&self) -> &Work {
        &self.used
    }

    /// Counts work outside the runs.
    pub fn count(&mut self, passes: Passes, seconds: f64) {
        self.used.passes.objective += passes.objective;
        self.used.passes.constraints += passes.constraints;
        self.used.seconds += seconds;
    }

    /// Returns whether all runs must end after further `passes`, which are not counted yet.
    pub fn ends_after(&self, passes: Passes) -> bool {
        self.interrupted() || self.budget.passes.is_some_and(|most| self.used.passes.total() + passes.total() >= most)
    }

    /// Returns the budget of all runs together.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns whether the interrupt is set.
    pub fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Returns whether no further run should start, because of an interrupt or a limit.
    pub fn is_over(&self) -> bool {
        self.interrupted() || self.is_exhausted()
    }

    /// Returns whether some limit is reached.
    pub fn is_exhausted(&self) -> bool {
        let Budget { iterations, passes, samples, seconds } = self.budget;
        iterations.is_some_and(|n| self.used.iterations >= n)
            || passes.is_some_and(|n| self.used.passes.total() >= n)
            || samples.is_some_and(|n| self.used.samples >= n)
            || seconds.is_some_and(|n| self.used.seconds >= n)
    }

    /// Returns a share of every limit, capped at what is left of it.
    pub fn share(&self, share: f64) -> Budget {
        let whole = |n: u64, used: u64| ((n as f64 * share) as u64).max(1).min(n.saturating_sub(used));
        let number = |n: f64, used: f64| (n * share).min((n - used).max(0.0));
        Budget {
            iterations: self.budget.iterations.map(|n| whole(n, self.used.iterations)),
            passes: self.budget.passes.map(|n| number(n, self.used.passes.total())),
            samples: self.budget.samples.map(|n| whole(n, self.used.samples)),
            seconds: self.budget.seconds.map(|n| number(n, self.used.seconds)),
        }
    }

    /// Performs one run and counts its work. Limits of the options are lowered to what is left; the interrupt is the shared one.
    pub fn run(
        &mut self,
        problem: &dyn Subgradients,
        solver: &mut FirstOrder,
        start: &[f64],
        options: &Options,
        observer: &mut (dyn Observer + Send),
    ) -> Result<Outcome> {
        let left = self.share(1.0);
        let budget = Budget {
            iterations: smaller(options.budget.iterations, left.iterations),
            passes: smaller(options.budget.passes, left.passes),
            samples: smaller(options.budget.samples, left.samples),
            seconds: smaller(options.budget.seconds, left.seconds),
        };
        let options = Options { budget, interrupt: self.interrupt.clone(), ..options.clone() };
        let outcome = run::minimize(problem, solver, start, &options, observer)?;
        self.used.add(&outcome);
        Ok(outcome)
    }
}

/// Returns the smaller of two optional limits.
fn smaller<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Score of the point of a pilot run. Feasible points come before infeasible ones, then a smaller violation, then a smaller
/// objective; NaN is worse than any number.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score {
    violation: f64,
    objective: f64,
}

impl Score {
    /// Scores a point; `feasible` is whether it counts as feasible.
    pub fn new(point: &Point, feasible: bool) -> Self {
        let known = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
        Score { violation: known(if feasible { 0.0 } else { point.violation }), objective: known(point.objective) }
    }
}

/// Best of several candidates by score; the first one among equals.
#[derive(Debug, Clone)]
pub struct Pilot<C> {
    best: Option<(C, Score)>,
    trials: u64,
}

impl<C: Copy> Pilot<C> {
    /// Tries candidates in turn until no further run should start. `trial` runs a candidate and returns its score, or `None` if
    /// the run failed. `runs` returns the sequence of runs stored in `context`.
    pub fn try_all<T>(
        context: &mut T,
        runs: impl Fn(&T) -> &BudgetedRuns,
        candidates: impl IntoIterator<Item = C>,
        mut trial: impl FnMut(&mut T, C) -> Result<Option<Score>>,
    ) -> Result<Self> {
        let mut pilot = Pilot { best: None, trials: 0 };
        for candidate in candidates {
            // The first candidate is always tried, so that there is a point to return.
            if pilot.trials > 0 && runs(context).is_over() {
                break;
            }
            pilot.trials += 1;
            if let Some(score) = trial(context, candidate)?
                && pilot.best.as_ref().is_none_or(|(_, best)| score < *best)
            {
                pilot.best = Some((candidate, score));
            }
        }
        Ok(pilot)
    }

    /// Returns the best candidate, or `None` if all runs failed.
    pub fn best(&self) -> Option<C> {
        self.best.map(|(candidate, _)| candidate)
    }

    /// Returns the number of candidates tried.
    pub fn trials(&self) -> u64 {
        self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(violation: f64, objective: f64) -> Score {
        let known = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
        Score { violation: known(violation), objective: known(objective) }
    }

    fn pick(scores: &[Option<Score>], budget: Budget, cost: u64) -> Pilot<usize> {
        let mut runs = BudgetedRuns::new(budget, None);
        Pilot::try_all(
            &mut runs,
            |runs| runs,
            0..scores.len(),
            |runs, i| {
                runs.used.iterations += cost;
                Ok(scores[i])
            },
        )
        .unwrap()
    }

    #[test]
    fn the_best_candidate_is_feasible_and_has_the_smallest_objective() {
        let scores = [point(0.1, 0.0), point(0.0, 2.0), point(0.0, f64::NAN), point(0.0, 1.0), point(0.0, 1.0)].map(Some);
        let pilot = pick(&scores, Budget::default(), 1);
        assert_eq!((pilot.best(), pilot.trials()), (Some(3), 5));
        assert_eq!(pick(&[None, None], Budget::default(), 1).best(), None);
        assert_eq!(pick(&[None, Some(point(f64::NAN, f64::NAN))], Budget::default(), 1).best(), Some(1));
    }

    #[test]
    fn trials_end_with_the_budget_or_an_interrupt() {
        let scores = [3.0, 2.0, 1.0].map(|objective| Some(point(0.0, objective)));
        let pilot = pick(&scores, Budget::iterations(20), 10);
        assert_eq!((pilot.best(), pilot.trials()), (Some(1), 2));
        let mut runs = BudgetedRuns::new(Budget::default(), Some(Arc::new(AtomicBool::new(true))));
        let pilot = Pilot::try_all(&mut runs, |runs| runs, 0..3, |_, i| Ok(scores[i])).unwrap();
        assert_eq!((pilot.best(), pilot.trials()), (Some(0), 1));
    }

    #[test]
    fn a_time_limit_covers_the_trials_and_the_run() {
        let work = Work { iterations: 100, seconds: 1.5, ..Work::default() };
        let budget = Budget { iterations: Some(1000), seconds: Some(2.0), ..Budget::default() };
        assert_eq!(work.leaves(&budget), Budget { seconds: Some(0.5), ..budget.clone() });
        assert_eq!(work.leaves(&Budget { seconds: Some(1.0), ..budget.clone() }), Budget { seconds: Some(0.0), ..budget });
    }
}
