//! Trust-region method for black boxes without settings: models from finite differences whose radius follows the noise, a working
//! set of constraints, and feasible iterates. Methods that draw random directions are in other modules.

mod model;
mod scale;
mod stencil;

use serde::{Deserialize, Serialize};

use super::{Method, PointOrigin, Solver, State, Step, StepKind, ValueEval};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Pick};
use crate::{Error, Note, Result};
use model::{Model, Row};
use scale::Scale;
use stencil::Stencil;

/// Settings of [`TrustRegion`]. None of them has to be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Budget: number of points at which the objective is evaluated. By default 100 for each variable that moves at once, and 1,000
    /// more.
    pub max_evaluations: Option<u64>,
    /// The method stops when a step is predicted to decrease the objective by less than this fraction of its range so far. Default
    /// 1e-6.
    pub tolerance: f64,
    /// Largest number of variables that move at once; with more, each step is in a random block of this many. Default 150.
    pub block: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { max_evaluations: None, tolerance: 1e-6, block: 150 }
    }
}

impl Settings {
    /// Checks every value.
    pub fn resolve(self) -> Result<Self> {
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(Error::setting("tolerance", self.tolerance, "a number between 0 and 1"));
        }
        for (name, value) in [("max_evaluations", self.max_evaluations), ("block", Some(self.block as u64))] {
            if value == Some(0) {
                return Err(Error::setting(name, 0, "at least 1"));
            }
        }
        Ok(self)
    }
}

/// Evaluations by default: for each variable, and in addition.
const EVALUATIONS: [u64; 2] = [100, 1000];
/// Times that each candidate is evaluated again at the end, if the objective is noisy.
const REPEATS: usize = 16;
/// Number of constraint passes for one trial step, if no constraint enters the working set.
const ROUNDS: u32 = 4;
/// The same with constraints that enter.
const ENTRIES: u32 = 60;
/// Fraction of a violation that a correction aims beyond it.
const MARGIN: f64 = 0.1;
/// Standard deviations of its noise that a constraint is kept away from 0.
const DEVIATIONS: f64 = 2.0;
/// Ratio of actual to predicted decrease for a step to count, and for the radius to grow.
const ACCEPT: f64 = 0.05;
const GOOD: f64 = 0.7;
/// Radius relative to the first, below which the run ends.
const LEAST_RADIUS: f64 = 1e-9;
/// Steps in a row below the tolerance, or below the noise, that end the run.
const QUIET: u32 = 2;
const QUIET_IN_NOISE: u32 = 6;

/// Trust-region method for black boxes.
///
/// **Problem.** `min f(x)` subject to `g_j(x) <= 0` for any number of constraints, from values only, which may be noisy. The domain
/// may be any set with a projection.
///
/// **Assumptions.** Functions are smooth beyond their noise, and some point satisfies every constraint strictly.
///
/// **Iteration.** *Units*: differences of values at seven neighbouring points give the noise of each function (Moré and Wild); a
/// length is doubled or halved until functions bend moderately over it; it becomes the unit of the variables, and the changes of the
/// constraints over it their units. *Model*: differences of radius `2 sqrt(noise / curvature)`, central where one-sided ones are too
/// noisy, give the slope of f, averaged with the slope that the last model predicts in proportion to their variances, and the slopes
/// of a working set of constraints; BFGS pairs of the Lagrangian give the curvature. *Step*: the minimiser of the model under the
/// rows of the working set within the radius. All constraints are evaluated at its end; violated ones enter the working set, rows
/// are corrected by their values there, with a margin in proportion to the violation, and the step is computed again, until it
/// ends at a feasible point. f is evaluated only there. The step counts if f decreases, up to its noise, by a fraction of what the
/// model predicts; the radius grows or shrinks by the ratio. From an infeasible point, every step reduces the largest violation.
///
/// With more than `block` variables a step moves a random block of them, with the curvature of second differences.
///
/// **Guarantee.** None is proved. The returned point is the best feasible one seen. In noise, the last, the best and the first
/// feasible points are compared by means of 16 new values each.
///
/// **Stopping.** Two steps in a row whose predicted decrease is below `tolerance` times the range of f so far; six below the noise
/// of f; a radius that is 1e-9 of the first; or the budget.
///
/// **Settings.** [`Settings`]: max_evaluations, tolerance, block.
///
/// **Reference.** Moré and Wild, *Estimating computational noise*, 2011; Shi, Xie, Xuan and Nocedal, *On the numerical performance
/// of finite-difference-based methods for derivative-free optimization*, 2022. The combination is Thalweg's own.
#[derive(Debug, Clone)]
pub struct TrustRegion {
    settings: Settings,
    s: Saved,
    full: Draw,
}

/// What the next step does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    #[default]
    Noise,
    Probe,
    Slopes,
    Solve,
    Constraints,
    Objective,
    Compare,
    Done,
}

/// Why the method stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Ending {
    #[default]
    Converged,
    Budget,
}

/// Point with its values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Candidate {
    x: Vec<f64>,
    f: f64,
    /// Largest violation in units of the constraints; 0 if every constraint is satisfied within its tolerance.
    violation: f64,
}

/// Trial step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Trial {
    x: Vec<f64>,
    step: Vec<f64>,
    g: Vec<f64>,
    violation: f64,
    decrease: f64,
    shortened: bool,
    rounds: u32,
    entries: u32,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    phase: Phase,
    at: Candidate,
    /// Constraints at the iterate.
    g: Vec<f64>,
    scale: Scale,
    model: Model,
    radius: f64,
    first_radius: f64,
    trial: Trial,
    best: Candidate,
    start: Candidate,
    /// Evaluations of the objective.
    used: u64,
    budget: u64,
    /// Number of variables that move at once.
    moving: u64,
    quiet: u32,
    /// Range of the objective so far.
    range: [f64; 2],
    /// Curvature for the next choice of the differences' radius.
    bend: f64,
    ending: Ending,
}

impl Saved {
    /// Returns the largest number of evaluations that the next step and the final comparison need.
    fn reserved(&self) -> u64 {
        let range = self.range[1] - self.range[0];
        // There is nothing to compare before a second point, and a small budget is better spent on the search.
        let compares = range > 0.0 && self.scale.noise > 1e-7 * range && self.budget >= 6 * REPEATS as u64;
        let comparison = if compares { 3 * REPEATS as u64 } else { 0 };
        let next = match self.phase {
            Phase::Noise => scale::LINE as u64,
            Phase::Probe => 2,
            Phase::Slopes => 2 * self.moving,
            Phase::Objective => 1,
            _ => 0,
        };
        next + comparison
    }
}

impl TrustRegion {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(TrustRegion { settings: settings.resolve()?, s: Saved::default(), full: Draw::full() })
    }

    /// Returns the largest violation among constraint values, in their units.
    fn violation<E: ValueEval + ?Sized>(&self, ev: &E, g: &[f64]) -> f64 {
        let unit = |j: usize| self.s.scale.units.get(j).copied().unwrap_or(1.0);
        g.iter().enumerate().filter(|(j, g)| **g > ev.tolerance(*j)).fold(0.0, |most, (j, g)| (g / unit(j)).max(most))
    }

    fn noisy(&self) -> bool {
        self.s.scale.noise > 1e-7 * (self.s.range[1] - self.s.range[0])
    }

    /// Remembers an evaluated point if it is better than the best so far.
    fn offer(&mut self, point: &Candidate) {
        self.s.range = [self.s.range[0].min(point.f), self.s.range[1].max(point.f)];
        let rank = |p: &Candidate| (p.violation, p.f);
        if self.s.best.x.is_empty() || rank(point) < rank(&self.s.best) {
            self.s.best = point.clone();
        }
    }

    fn measure_noise<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        ev.refresh(&self.s.at.x)?;
        self.s.scale = Scale::guess(ev, &self.s.at.x);
        (self.s.at.f, self.s.g) = self.s.scale.measure_noise(ev, &self.s.at.x)?;
        self.s.used += scale::LINE as u64;
        self.s.range = [self.s.at.f; 2];
        self.s.phase = Phase::Probe;
        Ok(())
    }

    fn probe<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        self.s.used += 2;
        if self.s.scale.probe(ev, &self.s.at.x, self.s.at.f, &self.s.g)? {
            let count = self.s.at.x.len().min(self.settings.block);
            self.s.first_radius = (count as f64).sqrt();
            self.s.radius = self.s.first_radius;
            self.s.bend = self.s.scale.bend;
            self.s.at.violation = self.violation(ev, &self.s.g);
            self.s.start = self.s.at.clone();
            self.offer(&self.s.at.clone());
            self.s.phase = Phase::Slopes;
        }
        Ok(())
    }

    /// Measures the slopes of the objective and of the working set at the iterate.
    fn measure_slopes<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        ev.refresh(&self.s.at.x)?;
        let d = self.s.at.x.len();
        let partial = d > self.settings.block;
        if self.s.model.block.is_empty() || partial {
            let mut block: Vec<u32> = (0..d as u32).collect();
            if partial {
                ev.rng(Purpose::Directions).shuffle(&mut block);
                block.truncate(self.settings.block);
                block.sort_unstable();
            }
            let rows = std::mem::take(&mut self.s.model.rows);
            self.s.model = Model::new(block);
            self.s.model.rows = rows;
        }
        let noise = self.s.scale.noise;
        let size = self.s.model.slope.iter().fold(0.0_f64, |most, s| most.max(s.abs()));
        let first = size == 0.0 || partial;
        let h = 2.0 * (noise / self.s.bend.max(f64::MIN_POSITIVE)).sqrt();
        let h = if first { h.clamp(1e-3, 1.0) } else { h.min(1.0) };
        let central = first || 4.0 * noise / h > 0.01 * size;
        let stencil = Stencil::new(&self.s.at.x, &self.s.model.block, &self.s.scale.lengths, h, central, ev.domain());
        let mut values = vec![0.0; stencil.count()];
        ev.objective_many(&stencil.points, &self.full, &mut values)?;
        self.s.used += stencil.count() as u64;
        let mut measured = vec![0.0; self.s.model.block.len()];
        let mut second = self.s.model.second.clone();
        stencil.slope(self.s.at.f, |e| values[e], &mut measured, &mut second);
        self.s.model.second = second;
        let variance = if central { noise * noise / (2.0 * h * h) } else { 2.0 * noise * noise / (h * h) };
        if central && self.s.model.bend() > 0.0 {
            self.s.bend = self.s.model.bend();
        }
        self.select_rows(ev);
        let ids: Vec<u32> = self.s.model.rows.iter().map(|row| row.id).collect();
        let slopes = self.row_slopes(ev, &ids)?;
        self.s.model.rows.iter_mut().zip(slopes).for_each(|(row, slope)| row.slope = slope);
        // No step in the block changes a row without a slope.
        self.s.model.rows.retain(|row| vec::norm(&row.slope) > 0.0);
        self.reset_heights();
        self.s.at.violation = self.violation(ev, &self.s.g);
        self.s.model.merge(&measured, variance);
        self.s.model.update_curvature(&measured, variance.sqrt());
        self.s.phase = Phase::Solve;
        self.s.trial = Trial::default();
        Ok(())
    }

    /// Keeps the rows within reach of the radius, the nearest first, and adds others within reach.
    fn select_rows<E: ValueEval + ?Sized>(&mut self, ev: &E) {
        let d = self.s.model.block.len();
        let most = 2 * d + 20;
        let unit = &self.s.scale.units;
        let height = |j: usize| self.s.g[j] / unit[j];
        let kept: Vec<u32> = self.s.model.rows.iter().filter(|row| row.weight > 0.0).map(|row| row.id).collect();
        let reach = 2.0 * self.s.radius;
        let mut near: Vec<u32> = (0..ev.num_constraints()).filter(|&j| height(j) > -reach).map(|j| j as u32).collect();
        near.sort_by(|&i, &j| height(j as usize).total_cmp(&height(i as usize)));
        near.truncate(most);
        near.extend(kept.iter().filter(|id| !near.contains(id)).copied().collect::<Vec<_>>());
        near.sort_unstable();
        let old = std::mem::take(&mut self.s.model.rows);
        self.s.model.rows = near
            .into_iter()
            .map(|id| {
                let weight = old.iter().find(|row| row.id == id).map_or(0.0, |row| row.weight);
                Row { id, weight, ..Row::default() }
            })
            .collect();
    }

    /// Sets the heights of the rows to the values at the iterate.
    fn reset_heights(&mut self) {
        let heights: Vec<f64> = self.s.model.rows.iter().map(|row| self.height(row.id, self.s.g[row.id as usize])).collect();
        self.s.model.rows.iter_mut().zip(heights).for_each(|(row, height)| row.height = height);
    }

    /// Returns the value of a constraint in its unit, with the distance that its noise requires.
    fn height(&self, id: u32, value: f64) -> f64 {
        let j = id as usize;
        let noise = self.s.scale.row_noise[j];
        // Rounding errors are no noise.
        let distance = if noise > 1e-9 * self.s.scale.units[j] { DEVIATIONS * noise } else { 0.0 };
        (value + distance) / self.s.scale.units[j]
    }

    /// Computes the slopes of constraints at the iterate.
    fn row_slopes<E: ValueEval + ?Sized>(&mut self, ev: &mut E, ids: &[u32]) -> Result<Vec<Vec<f64>>> {
        let d = self.s.model.block.len();
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let scale = &self.s.scale;
        let noise = ids.iter().map(|&j| scale.row_noise[j as usize] / scale.units[j as usize]).fold(0.0, f64::max);
        let h = (2.0 * noise.sqrt()).min(0.5);
        let stencil = Stencil::new(&self.s.at.x, &self.s.model.block, &scale.lengths, h, noise > 1e-8, ev.domain());
        let mut values = vec![0.0; stencil.count() * ids.len()];
        ev.constraint_values_many(&stencil.points, &self.full, Pick::These(ids), &mut values)?;
        let mut slopes = Vec::with_capacity(ids.len());
        for (k, &j) in ids.iter().enumerate() {
            let (mut slope, mut second) = (vec![0.0; d], vec![0.0; d]);
            stencil.slope(self.s.g[j as usize], |e| values[e * ids.len() + k], &mut slope, &mut second);
            self.s.scale.measured(j as usize, vec::norm(&slope), d < self.s.at.x.len());
            vec::scale(&mut slope, 1.0 / self.s.scale.units[j as usize]);
            slopes.push(slope);
        }
        Ok(slopes)
    }

    /// Computes the trial step, cutting off points outside of the domain.
    fn solve<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        let lengths = &self.s.scale.lengths;
        let d = self.s.at.x.len();
        let mut y = vec![0.0; d];
        let mut answer = model::ModelStep::default();
        for _ in 0..2 * d + 10 {
            answer = match self.s.at.violation > 0.0 {
                true => self.s.model.restore(self.s.radius),
                false => self.s.model.solve(self.s.radius),
            };
            y.copy_from_slice(&self.s.at.x);
            self.s.model.block.iter().zip(&answer.step).for_each(|(&i, step)| y[i as usize] += step * lengths[i as usize]);
            let outside = y.clone();
            ev.project(&mut y)?;
            let size: f64 = answer.step.iter().zip(&self.s.model.block).map(|(s, &i)| (s * lengths[i as usize]).powi(2)).sum();
            if vec::distance(&outside, &y) <= 1e-10 * size.sqrt() {
                break;
            }
            let (block, x, sides) = (&self.s.model.block, &self.s.at.x, &mut self.s.model.sides);
            let mut room = false;
            ev.domain().separate(&outside, &y, &mut |from, normal| {
                let entry = |i: usize| i.checked_sub(from).and_then(|k| normal.get(k)).copied().unwrap_or(0.0);
                let mut slope: Vec<f64> = block.iter().map(|&i| entry(i as usize) * lengths[i as usize]).collect();
                let mut height = normal.iter().enumerate().map(|(k, n)| n * (x[from + k] - y[from + k])).sum::<f64>();
                let norm = vec::norm(&slope);
                if norm > 0.0 {
                    vec::scale(&mut slope, 1.0 / norm);
                    height = (height / norm).min(0.0);
                    sides.push(Row { id: u32::MAX, slope, height, weight: 0.0 });
                    room = true;
                }
            });
            if !room {
                break;
            }
        }
        // The step to the projection.
        let trial = &mut self.s.trial;
        trial.step.clear();
        trial.step.extend(self.s.model.block.iter().map(|&i| (y[i as usize] - self.s.at.x[i as usize]) / lengths[i as usize]));
        (trial.x, trial.decrease, trial.shortened) = (y, answer.decrease, answer.shortened);
        self.s.phase = Phase::Constraints;
        Ok(())
    }

    /// Evaluates all constraints at the trial point. Corrects the model if some are violated.
    fn check_constraints<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        let m = ev.num_constraints();
        ev.refresh(&self.s.trial.x)?;
        let mut g = vec![0.0; m];
        if m > 0 {
            match ev.constraint_values(&self.s.trial.x, &self.full, Pick::All, &mut g) {
                Err(Error::NotFinite { .. }) => return self.reject(0.25),
                other => other?,
            }
        }
        let violation = self.violation(ev, &g);
        let before = std::mem::replace(&mut self.s.trial.violation, violation);
        let now = self.s.at.violation;
        self.s.trial.g = g;
        if violation == 0.0 || (now > 0.0 && violation <= 0.5 * now) {
            self.s.phase = Phase::Objective;
            return Ok(());
        }
        let entered = self.enter(ev)?;
        // New slopes change units.
        let (violation, now) = (self.violation(ev, &self.s.trial.g), self.violation(ev, &self.s.g));
        (self.s.trial.violation, self.s.at.violation) = (violation, now);
        let trial = &mut self.s.trial;
        trial.entries += u32::from(entered);
        trial.rounds += u32::from(!entered);
        let stalled = !entered && trial.rounds > 1 && violation > 0.7 * before;
        if trial.rounds >= ROUNDS || trial.entries >= ENTRIES || stalled {
            if now > 0.0 && violation < 0.95 * now {
                self.s.phase = Phase::Objective;
                return Ok(());
            }
            return self.reject(0.3);
        }
        // Rows through the values at the trial point, and beyond them by a margin.
        let heights: Vec<f64> = self
            .s
            .model
            .rows
            .iter()
            .map(|row| {
                let there = self.height(row.id, self.s.trial.g[row.id as usize]);
                there + MARGIN * there.max(0.0) - vec::dot(&row.slope, &self.s.trial.step)
            })
            .collect();
        self.s.model.rows.iter_mut().zip(heights).for_each(|(row, height)| row.height = height);
        self.s.phase = Phase::Solve;
        Ok(())
    }

    /// Adds violated constraints to the working set, the most violated ones first. Returns whether there are any.
    fn enter<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<bool> {
        let most = self.s.model.block.len().max(10);
        let known: std::collections::BTreeSet<u32> = self.s.model.rows.iter().map(|row| row.id).collect();
        let height = |j: u32| self.s.trial.g[j as usize] / self.s.scale.units[j as usize];
        let violated = (0..self.s.trial.g.len()).filter(|&j| self.s.trial.g[j] > ev.tolerance(j)).map(|j| j as u32);
        let mut new: Vec<u32> = violated.filter(|j| !known.contains(j)).collect();
        new.sort_by(|&i, &j| height(j).total_cmp(&height(i)));
        new.truncate(most);
        new.sort_unstable();
        let slopes = self.row_slopes(ev, &new)?;
        for (&id, slope) in new.iter().zip(slopes) {
            let height = self.height(id, self.s.g[id as usize]);
            self.s.model.rows.push(Row { id, slope, height, weight: 0.0 });
        }
        Ok(!new.is_empty())
    }

    /// Returns to the iterate with a smaller radius.
    fn reject(&mut self, factor: f64) -> Result<()> {
        let length = vec::norm(&self.s.trial.step);
        self.s.radius = factor * self.s.radius.min(if length > 0.0 { length } else { f64::INFINITY });
        self.reset_heights();
        // In noise, the slope is measured again, which halves its variance.
        let blurred =
            (self.s.model.variance * self.s.model.block.len() as f64).sqrt() * length > 0.3 * self.s.trial.decrease.abs();
        let partial = self.s.at.x.len() > self.s.model.block.len();
        self.s.phase = if partial || (blurred && self.noisy()) { Phase::Slopes } else { Phase::Solve };
        self.s.trial = Trial::default();
        if self.s.radius < LEAST_RADIUS * self.s.first_radius {
            self.end(Ending::Converged);
        }
        Ok(())
    }

    /// Evaluates the objective at the trial point, and accepts or rejects it.
    fn judge<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        let f = match ev.objective(&self.s.trial.x, &self.full) {
            Err(Error::NotFinite { .. }) => return self.reject(0.25),
            other => other?,
        };
        self.s.used += 1;
        let trial = self.s.trial.clone();
        let point = Candidate { x: trial.x.clone(), f, violation: trial.violation };
        self.offer(&point);
        let restoring = self.s.at.violation > 0.0;
        let slack = 2.0 * self.s.scale.noise;
        let ratio = (self.s.at.f - f + slack) / (trial.decrease.abs() + slack).max(f64::MIN_POSITIVE);
        let partial = self.s.at.x.len() > self.s.model.block.len();
        // A block that has little to gain says nothing about the others.
        let enough = if partial { 10 } else { 1 };
        let range = self.s.range[1] - self.s.range[0];
        let gain = trial.decrease.abs();
        let small = !trial.shortened && gain <= self.settings.tolerance * range;
        let unseen = self.noisy() && gain <= self.s.scale.noise;
        self.s.quiet = if !restoring && (small || unseen) { self.s.quiet + 1 } else { 0 };
        let length = vec::norm(&trial.step);
        if restoring || (ratio > ACCEPT && trial.decrease > 0.0) {
            self.s.model.advance(&trial.step);
            (self.s.at, self.s.g) = (point, trial.g);
            self.s.phase = Phase::Slopes;
            if restoring || ratio > GOOD {
                let factor = if (ratio - 1.0).abs() < 0.1 { 4.0 } else { 2.5 };
                self.s.radius = self.s.radius.max((factor * length).min(factor * self.s.radius));
            } else if ratio < 0.25 {
                self.s.radius = (0.5 * length).min(self.s.radius);
            }
            self.s.trial = Trial::default();
        } else {
            self.reject(0.3)?;
        }
        let limit = if self.noisy() { QUIET_IN_NOISE } else { QUIET } * enough;
        if self.s.quiet >= limit {
            self.end(Ending::Converged);
        }
        Ok(())
    }

    /// Ends the search: with noise, candidates are compared first.
    fn end(&mut self, ending: Ending) {
        self.s.ending = ending;
        let found = !self.s.best.x.is_empty() && self.s.best.violation == 0.0;
        self.s.phase = if self.noisy() && found { Phase::Compare } else { Phase::Done };
    }

    /// Returns the best of the last, the best and the first feasible points by means of new values, if there are evaluations left for
    /// them.
    fn compare<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        self.s.phase = Phase::Done;
        let mut candidates: Vec<Candidate> = vec![];
        for point in [&self.s.at, &self.s.best, &self.s.start] {
            if point.violation == 0.0 && candidates.iter().all(|other| other.x != point.x) {
                candidates.push(point.clone());
            }
        }
        if candidates.len() < 2 || self.s.used + (candidates.len() * REPEATS) as u64 > self.s.budget {
            return Ok(());
        }
        let mut values = [0.0; REPEATS];
        for point in &mut candidates {
            let points = point.x.repeat(REPEATS);
            ev.objective_many(&points, &self.full, &mut values)?;
            self.s.used += REPEATS as u64;
            point.f = values.iter().sum::<f64>() / REPEATS as f64;
        }
        if let Some(best) = candidates.into_iter().min_by(|a, b| a.f.total_cmp(&b.f)) {
            self.s.best = best;
        }
        Ok(())
    }

    /// Ends the search if the next step could exceed the limit of evaluations.
    fn check_limit(&mut self) {
        if self.s.used + self.s.reserved() > self.s.budget && !matches!(self.s.phase, Phase::Compare | Phase::Done) {
            self.end(Ending::Budget);
        }
    }

    fn take_step<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> Result<Step> {
        self.check_limit();
        match self.s.phase {
            Phase::Noise => self.measure_noise(ev)?,
            Phase::Probe => self.probe(ev)?,
            Phase::Slopes => self.measure_slopes(ev)?,
            Phase::Solve => self.solve(ev)?,
            Phase::Constraints => self.check_constraints(ev)?,
            Phase::Objective => self.judge(ev)?,
            Phase::Compare => self.compare(ev)?,
            Phase::Done => {}
        }
        self.check_limit();
        let finished = self.s.phase == Phase::Done;
        Ok(Step { kind: StepKind::Other, finished })
    }
}

impl Method for TrustRegion {
    fn name(&self) -> &'static str {
        "trust-region"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.at.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        let best = if self.s.best.x.is_empty() { &self.s.at } else { &self.s.best };
        out.copy_from_slice(&best.x);
        if best.violation > 0.0 { PointOrigin::LeastInfeasible } else { PointOrigin::OutputRule }
    }

    fn notes(&self) -> Vec<Note> {
        let limited = self.s.ending == Ending::Budget;
        vec![Note::EvaluationsUsed { evaluations: self.s.used, limit: self.s.budget, limited }]
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn ValueEval + 'e> for TrustRegion {
    fn start(&mut self, ev: &mut (dyn ValueEval + 'e), x: &[f64]) -> Result<()> {
        // Indices of constraints are stored as u32.
        let m = ev.num_constraints();
        u32::try_from(m).map_err(|_| Error::setting("number of constraints", m, format!("at most {}", u32::MAX)))?;
        let moving = x.len().min(self.settings.block) as u64;
        let budget = self.settings.max_evaluations.unwrap_or(EVALUATIONS[0] * moving + EVALUATIONS[1]);
        self.s = Saved { at: Candidate { x: x.to_vec(), ..Candidate::default() }, budget, moving, ..Saved::default() };
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        self.take_step(ev)
    }
}
