//! Units of a black box, estimated from its values: the noise of every function, the length over which functions bend, and the
//! change of each constraint over that length. Models and steps do not belong here.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Pick};
use crate::solvers::ValueEval;
use crate::{Error, math::Rng};

/// Number of points on a line from whose differences noise is estimated.
pub(super) const LINE: usize = 7;
/// Distance between these points, relative to the first guess of the length.
const SPACING: f64 = 1e-7;
/// Rounding errors that a value has at least, relative to the value.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Changes of the length that the probe tries, and their factor.
const TRIES: u32 = 14;
const FACTOR: f64 = 4.0;
/// Ratio of second to first differences above which a length is too large, and below which it is too small.
const CURVED: f64 = 10.0;
const STRAIGHT: f64 = 0.02;
/// Smallest unit of a constraint whose slope is not known, relative to the median: along a single direction a constraint may change
/// little by chance.
const LEAST_UNIT: f64 = 0.2;
/// Smallest unit of a constraint by its slope, relative to its unit before.
const SMALLER: f64 = 1e-3;

/// Units of a black box.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Scale {
    /// Length of each variable.
    pub lengths: Vec<f64>,
    /// Change of each constraint over these lengths.
    pub units: Vec<f64>,
    /// Whether the unit of a constraint is from its slope.
    sloped: Vec<bool>,
    /// Standard deviation of the noise of the objective, and of each constraint.
    pub noise: f64,
    pub row_noise: Vec<f64>,
    /// Second difference of the objective along the probe's direction, divided by the number of variables.
    pub bend: f64,
    /// Signs of the direction along which the functions were sampled.
    direction: Vec<f64>,
    grown: bool,
    shrunk: bool,
    tries: u32,
    /// The first guess of the lengths, which remains if no function bends.
    first: Vec<f64>,
}

impl Scale {
    /// Guesses lengths from the domain and the start: a tenth of the width of a box, or the largest entry of the start.
    pub fn guess<E: ValueEval + ?Sized>(ev: &mut E, x: &[f64]) -> Self {
        let largest = x.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let common = if largest > 0.0 { largest } else { 1.0 };
        let width = |i: usize| ev.domain().sides(i).map_or(f64::INFINITY, |(low, high)| high - low);
        let lengths: Vec<f64> = (0..x.len())
            .map(|i| match width(i) {
                width if width.is_finite() && width > 0.0 => 0.1 * width,
                _ => common,
            })
            .collect();
        let rng: &mut Rng = ev.rng(Purpose::Directions);
        let mut direction: Vec<f64> = (0..x.len()).map(|_| if rng.uniform() < 0.5 { -1.0 } else { 1.0 }).collect();
        // Away from the nearer side of a box.
        for (i, sign) in direction.iter_mut().enumerate() {
            if let Some((low, high)) = ev.domain().sides(i)
                && (x[i] - low).min(high - x[i]) < lengths[i]
            {
                *sign = if x[i] - low < high - x[i] { 1.0 } else { -1.0 };
            }
        }
        Scale { first: lengths.clone(), lengths, direction, ..Scale::default() }
    }

    /// Returns the point at `distance` from `x` along the direction, projected onto the domain.
    fn along<E: ValueEval + ?Sized>(&self, ev: &mut E, x: &[f64], distance: f64) -> Result<Vec<f64>> {
        let mut y: Vec<f64> = (0..x.len()).map(|i| x[i] + distance * self.direction[i] * self.lengths[i]).collect();
        ev.project(&mut y)?;
        Ok(y)
    }

    /// Estimates the noise of every function from values at neighbouring points, of which the first is `x`. Returns the values at
    /// `x`.
    pub fn measure_noise<E: ValueEval + ?Sized>(&mut self, ev: &mut E, x: &[f64]) -> Result<(f64, Vec<f64>)> {
        let m = ev.num_constraints();
        let mut points = Vec::with_capacity(LINE * x.len());
        for k in 0..LINE {
            points.extend(self.along(ev, x, SPACING * k as f64)?);
        }
        let mut values = vec![0.0; LINE];
        ev.objective_many(&points, &Draw::full(), &mut values)?;
        let first = values[0];
        self.noise = noise_of(&mut values);
        let mut rows = vec![0.0; LINE * m];
        if m > 0 {
            ev.constraint_values_many(&points, &Draw::full(), Pick::All, &mut rows)?;
        }
        let mut line = [0.0; LINE];
        self.row_noise = (0..m)
            .map(|j| {
                line.iter_mut().enumerate().for_each(|(k, line)| *line = rows[k * m + j]);
                noise_of(&mut line)
            })
            .collect();
        rows.truncate(m);
        Ok((first, rows))
    }

    /// Tries the current length along the direction, from `x` with objective `f` and constraints `g`. Returns whether it is settled;
    /// the lengths and the units of the constraints are then set.
    pub fn probe<E: ValueEval + ?Sized>(&mut self, ev: &mut E, x: &[f64], f: f64, g: &[f64]) -> Result<bool> {
        self.tries += 1;
        let points = [self.along(ev, x, 1.0)?, self.along(ev, x, -1.0)?].concat();
        let mut values = [0.0; 2];
        let mut rows = vec![0.0; 2 * g.len()];
        let found = ev.objective_many(&points, &Draw::full(), &mut values).and_then(|()| match g.is_empty() {
            true => Ok(()),
            false => ev.constraint_values_many(&points, &Draw::full(), Pick::All, &mut rows),
        });
        let last = self.tries >= TRIES;
        match found {
            // Outside of where the functions are defined.
            Err(Error::NotFinite { .. }) if !last => {
                self.resize(1.0 / (FACTOR * FACTOR));
                (self.shrunk, self.grown) = (true, false);
                return Ok(false);
            }
            other => other?,
        }
        let (plus, minus) = rows.split_at(g.len());
        let (change, bend) = ((values[0] - values[1]).abs(), (values[0] + values[1] - 2.0 * f).abs());
        let moved = vec::norm_by(g.len(), |j| plus[j] - minus[j]);
        let bent = vec::norm_by(g.len(), |j| plus[j] + minus[j] - 2.0 * g[j]);
        let blurred = vec::norm(&self.row_noise);
        let ratio = |bend: f64, change: f64, noise: f64| if bend > 10.0 * noise { bend / change.max(noise) } else { 0.0 };
        let curved = ratio(bend, change, self.noise).max(ratio(bent, moved, blurred));
        let unseen = change.max(bend) < 10.0 * self.noise && moved.max(bent) <= 10.0 * blurred;
        let boxed = (0..x.len()).all(|i| ev.domain().sides(i).is_some_and(|(low, high)| (high - low).is_finite()));
        if curved > CURVED && !self.grown && !last {
            self.shrunk = true;
            self.resize(1.0 / FACTOR);
            return Ok(false);
        }
        if (unseen || curved < STRAIGHT) && !self.shrunk && !boxed && !last {
            self.grown = true;
            self.resize(FACTOR);
            return Ok(false);
        }
        if last && self.grown && (unseen || curved < STRAIGHT) {
            // No function bends: any length will do.
            let grown = self.lengths[0] / self.first[0];
            self.resize(1.0 / grown);
            plus_units(self, g, plus, minus, 1.0 / grown);
            return Ok(true);
        }
        self.bend = if bend > 3.0 * self.noise { bend / x.len().max(1) as f64 } else { 0.0 };
        plus_units(self, g, plus, minus, 1.0);
        Ok(true)
    }

    /// Sets the unit of a constraint to the largest norm of its slopes; slopes in a part of the variables only make it larger.
    pub fn measured(&mut self, j: usize, norm: f64, partial: bool) {
        if norm > 0.0 {
            self.units[j] = norm.max(if self.sloped[j] || partial { self.units[j] } else { SMALLER * self.units[j] });
            self.sloped[j] |= !partial;
        }
    }

    fn resize(&mut self, factor: f64) {
        self.lengths.iter_mut().for_each(|length| *length *= factor);
    }
}

/// Sets the units of the constraints from their changes along the direction, times a factor.
fn plus_units(scale: &mut Scale, g: &[f64], plus: &[f64], minus: &[f64], factor: f64) {
    let units: Vec<f64> = (0..g.len()).map(|j| factor * (plus[j] - g[j]).abs().max((minus[j] - g[j]).abs())).collect();
    let mut sorted: Vec<f64> = units.iter().copied().filter(|unit| *unit > 0.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    scale.sloped = vec![false; g.len()];
    scale.units = units.into_iter().map(|unit| unit.max(LEAST_UNIT * median)).collect();
}

/// Estimates the standard deviation of the noise of values at equidistant neighbouring points from their differences of order 2 to
/// 4, as in Moré and Wild (2011). The values are overwritten.
fn noise_of(values: &mut [f64]) -> f64 {
    let size = values.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    let mut least = f64::INFINITY;
    // (k!)^2 / (2k)!
    let mut gamma = 1.0;
    for k in 1..=4_usize {
        gamma *= k as f64 / (2.0 * (2 * k - 1) as f64);
        let count = values.len() - k;
        (0..count).for_each(|i| values[i] = values[i + 1] - values[i]);
        if k >= 2 {
            let square = values[..count].iter().map(|d| d * d).sum::<f64>() / count as f64;
            least = least.min((gamma * square).sqrt());
        }
    }
    least.max(ROUNDING * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_found_and_smooth_change_is_not() {
        let mut rng = Rng::new(3, Purpose::Data);
        let mut mean = 0.0;
        for _ in 0..400 {
            let mut noise = [0.0; LINE];
            rng.normals(&mut noise);
            let mut values: Vec<f64> = (0..LINE).map(|k| 5.0 + 1e-3 * k as f64 + 0.1 * noise[k]).collect();
            mean += noise_of(&mut values) / 400.0;
        }
        // The smallest of three estimates is biased downwards.
        assert!((0.05..0.11).contains(&mean), "{mean}");
        let mut smooth: Vec<f64> = (0..LINE).map(|k| (1.0 + 1e-7 * k as f64).exp()).collect();
        assert!(noise_of(&mut smooth) < 1e-14);
    }
}
