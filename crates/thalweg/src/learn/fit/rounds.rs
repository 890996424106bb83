//! Rounds of sequential quadratic programming: the surrogate bound of every constraint on rates is searched, by secants within a bracket,
//! for the loosest one under which the 0/1 rates satisfy the requested bound. Other solvers are trained in `trainer.rs`.

use super::trainer::{Candidate, Trainer};
use super::{Enforce, Fitted};
use crate::Result;
use crate::run::{Options, Record};
use crate::solvers::sqp::WarmStart;
use crate::solvers::{Schedule, Sqp, sqp};

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
        let mut bounds = self.asked.clone();
        let mut brackets = vec![Bracket::default(); bounds.len()];
        let mut warm = WarmStart::default();
        let mut x = start.to_vec();
        for _ in 0..ROUNDS {
            let last = self.solve(&x, &bounds, &rough, !alone, &mut warm)?;
            if alone || self.over() || self.hopeless(&last) {
                return self.end(start);
            }
            x.copy_from_slice(&last.point.x);
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
        }
        if !self.over()
            && let Some(best) = self.best.clone()
        {
            for (j, factor) in best.sharpened.iter().enumerate() {
                if self.sharpen(j, factor / self.sharpened[j]) {
                    warm.forget_values();
                }
            }
            self.solve(&best.point.x, &best.bounds, settings, false, &mut warm)?;
        }
        self.end(start)
    }

    fn end(&mut self, start: &[f64]) -> Result<Fitted> {
        let mut notes = vec![];
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
        bounds.iter().enumerate().for_each(|(j, &bound)| self.problem.set_bound(j, bound));
        let mut solver = Sqp::new(settings.clone())?.with_warm_start(std::mem::take(warm));
        if rough {
            solver = solver.with_rough_end();
        }
        let options = Options {
            budget: self.runs.share(1.0),
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
        self.compete(&candidate);
        Ok(candidate)
    }
}
