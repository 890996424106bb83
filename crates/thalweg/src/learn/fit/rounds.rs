//! Rounds of sequential quadratic programming: the surrogate bound of every constraint on rates is searched, by secants within a bracket,
//! for the loosest one under which the 0/1 rates satisfy the requested bound. With more than two groups, surrogates differ from counts by
//! other amounts in each group, for which one bound cannot make up. If it costs too much, every surrogate is corrected by its own
//! difference, and a descent on counts follows (`counted.rs`). Other solvers are trained in `trainer.rs`.

use std::time::Instant;

use super::counted;
use super::trainer::{Candidate, Trainer};
use super::{Enforce, Fitted};
use crate::run::{self, Limit, Options, Record, StopReason};
use crate::solvers::sqp::WarmStart;
use crate::solvers::{Schedule, Sqp, sqp};
use crate::{Note, Result};

/// Largest number of rounds.
const ROUNDS: usize = 24;
/// A 0/1 rate within this share below its bound is close enough.
const CLOSE: f64 = 0.97;
/// Share of the bound that the search aims at.
const AIM: f64 = 0.985;
/// Tolerance of the rounds before the last one, relative to that of the settings.
const ROUGH: f64 = 100.0;
/// Surrogate bound relative to the requested one below which the surrogate is too far from the 0/1 rate, and the temperature falls.
const TOO_TIGHT: f64 = 0.05;
/// Largest factor by which a surrogate bound is loosened at once, and largest surrogate bound relative to the requested one.
const LOOSEN: f64 = 2.0;
const LOOSEST: f64 = 64.0;
/// Relative length at which a bracket is no longer divided.
const NARROW: f64 = 0.01;
/// Smallest factor on the temperature.
const SHARPEST: f64 = 1.0 / 64.0;

/// Increase of the objective since the first round, relative to its value there, above which a tightened bound costs too much.
const COSTLY: f64 = 0.01;
/// Largest number of rounds before training goes on by counts.
const IMPATIENT: usize = 12;
/// Number of rounds with corrected surrogates, largest number of steps in each, and their temperature relative to the standard deviation
/// of the scores: counts change by a tenth more than such surrogates if scores are normal.
const CORRECTED: usize = 4;
const STEPS: u64 = 50;
const SHARP: f64 = 0.25;
/// Number of points that descents on counts start from at most, and the price of the violation by which they are chosen.
const STARTS: usize = 3;
const PRICE: f64 = 1.0;
/// Number of descents that satisfy the bounds after which no other one starts.
const ENOUGH: usize = 2;

/// Bracket of the surrogate bound of one constraint: a bound with its 0/1 rate at each end.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    /// The loosest bound under which the 0/1 rate satisfied the requested one.
    satisfied: Option<(f64, f64)>,
    /// The tightest bound under which it did not.
    violated: Option<(f64, f64)>,
}

impl Bracket {
    /// Adds the result of a round, and removes what contradicts it: constraints influence each other.
    fn add(&mut self, bound: f64, measured: f64, satisfied: bool) {
        if satisfied {
            self.satisfied = Some((bound, measured));
            self.violated = self.violated.filter(|(b, _)| *b > bound);
        } else {
            self.violated = Some((bound, measured));
            self.satisfied = self.satisfied.filter(|(b, _)| *b < bound);
        }
    }

    /// Returns the next bound to try for the requested bound `asked`; `None` if the bracket is narrow.
    fn next(&self, asked: f64) -> Option<f64> {
        let aim = AIM * asked;
        match (self.satisfied, self.violated) {
            (Some((low, at_low)), Some((high, at_high))) => {
                let wide = high - low > NARROW * high.abs().max(low.abs());
                let secant = if at_high > at_low { (aim - at_low) / (at_high - at_low) } else { 0.5 };
                wide.then(|| low + secant.clamp(0.15, 0.85) * (high - low))
            }
            (Some((low, at_low)), None) => {
                let next = low * (aim / at_low.max(f64::MIN_POSITIVE)).clamp(1.05, LOOSEN);
                (next <= LOOSEST * asked).then_some(next)
            }
            // A rate falls roughly in proportion to the bound.
            (None, Some((high, at_high))) => Some(high * (aim / at_high).clamp(0.1, 0.9)),
            (None, None) => None,
        }
    }
}

impl Trainer<'_> {
    /// Trains by rounds of `sqp`, each of which starts at the point and the multipliers of the one before.
    pub(super) fn train_smooth(&mut self, start: &[f64], settings: &sqp::Settings) -> Result<Fitted> {
        // Without 0/1 rates to satisfy there is one round.
        let alone = self.options.enforce == Enforce::Surrogate || self.problem.measured(start)?.iter().all(Option::is_none);
        let rough = match alone {
            true => settings.clone(),
            false => sqp::Settings { tolerance: ROUGH * settings.tolerance, ..settings.clone() },
        };
        let mut warm = WarmStart::default();
        let asked = self.asked.clone();
        let first = self.solve(start, &asked, &rough, !alone, &mut warm)?;
        if alone || self.over() || self.hopeless(&first) {
            return self.end(start, vec![]);
        }
        let many = (0..asked.len()).any(|j| self.problem.compares_many(j));
        let mut satisfied_before = true;
        let mut ended = self.search_bounds(first.clone(), &rough, many, &mut warm)?;
        if many && !ended && !self.satisfied_at(first.point.objective + COSTLY * first.point.objective.abs()) {
            satisfied_before = self.satisfied_at(f64::INFINITY);
            self.search_counts(&first, &rough)?;
            if !self.over() && !self.satisfied_at(f64::INFINITY) {
                for j in 0..asked.len() {
                    self.sharpen(j, 0.5);
                }
                warm.forget_values();
                let last = self.solve(&first.point.x, &asked, &rough, true, &mut warm)?;
                ended = self.over() || self.hopeless(&last) || self.search_bounds(last, &rough, false, &mut warm)?;
            }
        }
        if !self.over()
            && !ended
            && let Some(best) = self.best.clone().filter(|best| !best.counted)
        {
            for (j, factor) in best.sharpened.iter().enumerate() {
                if self.sharpen(j, factor / self.sharpened[j]) {
                    warm.forget_values();
                }
            }
            self.solve(&best.point.x, &best.bounds, settings, false, &mut warm)?;
        }
        let counted = self.best.as_ref().is_some_and(|best| best.counted);
        self.end(start, if counted { vec![Note::RatesCounted { satisfied_before }] } else { vec![] })
    }

    /// Performs rounds with other surrogate bounds after a first one. Where tightening does not help, the
    /// temperature falls, or the rounds end if they are `impatient`. Returns whether training must end.
    fn search_bounds(&mut self, first: Candidate, rough: &sqp::Settings, impatient: bool, warm: &mut WarmStart) -> Result<bool> {
        let mut bounds = self.asked.clone();
        let mut brackets = vec![Bracket::default(); bounds.len()];
        let mut last = first;
        for _ in 1..if impatient { IMPATIENT } else { ROUNDS } {
            let mut changed = false;
            for (j, measured) in last.measured.iter().enumerate() {
                let Some(measured) = *measured else { continue };
                let (asked, bound) = (self.asked[j], bounds[j]);
                let satisfied = measured <= asked + self.slack(j);
                brackets[j].add(bound, measured, satisfied);
                let active = last.multipliers.as_ref().is_none_or(|m| m[j] > 0.0);
                if satisfied && (measured >= CLOSE * asked || !active) {
                    continue;
                }
                if let Some(next) = brackets[j].next(asked) {
                    bounds[j] = next;
                    changed = true;
                } else if let (false, Some((loosest, _))) = (satisfied, brackets[j].satisfied) {
                    bounds[j] = loosest;
                    changed = true;
                }
                if brackets[j].satisfied.is_none() && bounds[j] < TOO_TIGHT * asked && self.sharpened[j] > SHARPEST {
                    // Tightening does not help: the surrogate is too far from the 0/1 rate.
                    if impatient {
                        return Ok(false);
                    }
                    if self.sharpen(j, 0.5) {
                        warm.forget_values();
                        (bounds[j], brackets[j]) = (asked, Bracket::default());
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
            let x = std::mem::take(&mut last.point.x);
            last = self.solve(&x, &bounds, rough, true, warm)?;
            if self.over() || self.hopeless(&last) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the best point satisfies every bound with an objective of at most `most`.
    fn satisfied_at(&self, most: f64) -> bool {
        self.best.as_ref().is_some_and(|best| best.feasible && best.point.objective <= most)
    }

    /// Searches a point that satisfies the bounds by counts: rounds in which every surrogate rate is corrected by its difference to the
    /// 0/1 rate at the point before, and then descents on counts from the model without bounds on rates, from that of the first round, and
    /// from the best of the corrected ones.
    fn search_counts(&mut self, first: &Candidate, rough: &sqp::Settings) -> Result<()> {
        let scores = self.problem.scores(&first.point.x)?;
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let spread = (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / scores.len() as f64).sqrt();
        let rates: Vec<usize> = (0..self.asked.len()).filter(|&j| self.problem.temperature(j).is_some()).collect();
        let mut bounds = self.asked.clone();
        for &j in &rates {
            let temperature = self.problem.temperature(j).unwrap_or(1.0) / self.sharpened[j];
            // A power of two, so that the temperature can be restored exactly.
            let factor = (SHARP * spread / temperature).clamp(SHARPEST, 1.0).log2().floor().exp2();
            self.sharpen(j, factor / self.sharpened[j]);
            bounds[j] = AIM * self.asked[j];
        }
        let ended = self.ended.clone();
        let merit = |c: &Candidate| c.point.objective + PRICE * c.excess.max(0.0);
        let mut warm = WarmStart::default();
        // The model without bounds on rates, and that of the first round.
        let mut loose = self.asked.clone();
        rates.iter().for_each(|&j| loose[j] = LOOSEST * self.asked[j].abs().max(1.0));
        let free = self.perform_round(&first.point.x, &loose, rough, Some(STEPS), &mut warm)?;
        let mut starts = vec![(f64::NEG_INFINITY, free.point.x), (f64::NEG_INFINITY, first.point.x.clone())];
        for _ in 0..CORRECTED {
            let Some((_, x)) = starts.last().cloned().filter(|_| !self.over()) else { break };
            rates.iter().try_for_each(|&j| self.problem.correct_rates(j, &x))?;
            warm.forget_values();
            let last = self.perform_round(&x, &bounds, rough, Some(STEPS), &mut warm)?;
            starts.push((merit(&last), last.point.x));
        }
        rates.iter().for_each(|&j| self.problem.drop_corrections(j));
        if !self.over() {
            // The limit on the steps of a round is none of training.
            self.ended = ended;
        }
        let mut found: Vec<Vec<f64>> = starts[2..].iter().map(|(_, x)| x.clone()).collect();
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let limits: Vec<f64> = (0..bounds.len()).map(|j| self.asked[j] + self.slack(j)).collect();
        let mut satisfying = 0;
        for (_, x) in starts.iter().take(STARTS) {
            if self.over() {
                break;
            }
            let begun = Instant::now();
            let Some(descent) = counted::descend(self.problem, x, &limits, |passes| self.runs.ends_after(passes))? else { break };
            self.runs.count(descent.passes, begun.elapsed().as_secs_f64());
            let measured = self.problem.measured(&descent.x)?;
            found.push(descent.x);
            satisfying += usize::from(measured.iter().zip(&limits).all(|(m, limit)| m.is_none_or(|m| m <= *limit)));
            if satisfying >= ENOUGH {
                break;
            }
        }
        if self.runs.interrupted() {
            self.ended = StopReason::Interrupted;
        } else if let (Some(most), true) = (self.options.budget.passes, satisfying < ENOUGH)
            && self.runs.used().passes.total() >= most
        {
            self.ended = StopReason::Budget(Limit::Passes);
        }
        for j in 0..bounds.len() {
            self.sharpen(j, 1.0 / self.sharpened[j]);
        }
        found.iter().try_for_each(|x| self.compete_by_counts(x))
    }

    /// Updates the best point by one that solves no problem with surrogates. The surrogate bounds are those that it satisfies.
    fn compete_by_counts(&mut self, x: &[f64]) -> Result<()> {
        (0..self.asked.len()).for_each(|j| self.problem.set_bound(j, self.asked[j]));
        let point = run::measure(self.problem, x, self.options.feasibility)?;
        let mut candidate = self.candidate(point, &self.asked.clone(), None, None)?;
        for (j, bound) in candidate.bounds.iter_mut().enumerate().filter(|(j, _)| candidate.measured[*j].is_some()) {
            *bound = bound.max(candidate.surrogates[j]);
        }
        candidate.counted = true;
        self.compete(&candidate);
        Ok(())
    }

    fn end(&mut self, start: &[f64], mut notes: Vec<Note>) -> Result<Fitted> {
        self.shift_intercept(&mut notes)?;
        self.conclude(start, Schedule::Constant(0.0), notes)
    }

    /// Performs one round and updates the best point. `warm` is what the round starts from, and then what the next one can start from.
    fn solve(
        &mut self,
        start: &[f64],
        bounds: &[f64],
        settings: &sqp::Settings,
        rough: bool,
        warm: &mut WarmStart,
    ) -> Result<Candidate> {
        let candidate = self.perform_round(start, bounds, settings, rough.then_some(u64::MAX), warm)?;
        self.compete(&candidate);
        Ok(candidate)
    }

    /// Performs one round. Of a rough one, whose result is a start for another one, the largest number of steps is given.
    fn perform_round(
        &mut self,
        start: &[f64],
        bounds: &[f64],
        settings: &sqp::Settings,
        rough: Option<u64>,
        warm: &mut WarmStart,
    ) -> Result<Candidate> {
        bounds.iter().enumerate().for_each(|(j, &bound)| self.problem.set_bound(j, bound));
        let mut solver = Sqp::new(settings.clone())?.with_warm_start(std::mem::take(warm));
        let mut budget = self.runs.share(1.0);
        if let Some(steps) = rough {
            solver = solver.with_rough_end();
            budget.iterations = budget.iterations.map_or((steps < u64::MAX).then_some(steps), |left| Some(left.min(steps)));
        }
        let options = Options {
            budget,
            // Of the later rounds, which take a few steps each, the start and the end.
            record: if self.rounds == 0 { Record::default() } else { Record { every: Some(u64::MAX), ..Record::default() } },
            seed: self.options.seed,
            feasibility: self.options.feasibility,
            threads: self.options.threads,
            ..Options::default()
        };
        let candidate = self.perform(&mut solver, start, bounds, &options, true)?;
        *warm = solver.into_warm_start();
        self.rounds += 1;
        Ok(candidate)
    }
}
