//! Units of a problem whose functions and variables may have any scale: a length, a typical change of the objective and one of
//! each constraint over that length. The bundle method works in these units, so that its tolerances are relative.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::cuts::Owner;
use crate::cuts::noise::Local;
use crate::eval::{Eval, length_at, reach};
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::{Draw, Pick, Scales, Warm};
use crate::sets::{Scaled, Set};

/// Units of the variables and of the functions. Each is a power of two, so that conversions are exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Units {
    /// Length of the variables, the smallest one if they differ: a distance in units, times this length, bounds a plain distance from
    /// below, and what is proved with a proximal term in units holds for one in plain distances that is at least as large.
    pub(super) length: f64,
    /// Length of each variable; empty if they do not differ.
    pub(super) lengths: Vec<f64>,
    pub(super) objective: f64,
    pub(super) constraints: Vec<f64>,
}

/// Fraction of the linear prediction that a function must decrease by for its linearisation to count as valid.
const VALID: f64 = 0.25;
/// First factor between the lengths that are tried, and their largest number.
const FACTOR: f64 = 4.0;
const LENGTHS: u32 = 9;
/// Units that have changed by more than this factor are replaced.
const STALE: f64 = 16.0;

/// Returns the largest power of two up to `value`; 1 if `value` is not a positive number.
fn power_of_two(value: f64) -> f64 {
    if value.is_normal() && value > 0.0 { value.log2().floor().exp2() } else { 1.0 }
}

impl Units {
    /// Units of a problem whose functions and variables are of order 1, or of order 1 in known units. Those of the variables are used
    /// only `with_variables`.
    pub(super) fn natural<E: Eval + ?Sized>(ev: &E, with_variables: bool) -> Self {
        let Some(known) = ev.units() else {
            return Units { length: 1.0, lengths: vec![], objective: 1.0, constraints: vec![1.0; ev.num_constraints()] };
        };
        let least = known.variables.iter().copied().fold(f64::INFINITY, f64::min);
        let differ = known.variables.iter().any(|length| *length != least);
        Units {
            length: if with_variables && least.is_finite() { least } else { 1.0 },
            lengths: if with_variables && differ { known.variables.clone() } else { vec![] },
            objective: known.objective,
            constraints: known.constraints.clone(),
        }
    }

    /// Returns the length of variable `i`.
    pub(super) fn length_of(&self, i: usize) -> f64 {
        self.lengths.get(i).copied().unwrap_or(self.length)
    }

    /// Returns the largest length of a variable.
    pub(super) fn longest(&self) -> f64 {
        self.lengths.iter().copied().fold(self.length, f64::max)
    }

    /// Returns the unit of the objective or of a constraint.
    pub(super) fn of(&self, owner: Owner) -> f64 {
        match owner {
            Owner::Constraint(j) => self.constraints[j as usize],
            _ => self.objective,
        }
    }

    /// Converts a point from these units.
    pub(super) fn multiply(&self, x: &mut [f64]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x *= self.length_of(i));
    }

    /// Converts a point to these units.
    pub(super) fn divide(&self, x: &mut [f64]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x /= self.length_of(i));
    }

    /// Converts a subgradient of `owner` to these units.
    pub(super) fn convert_slope(&self, owner: Owner, slope: &mut [f64]) {
        let unit = self.of(owner);
        slope.iter_mut().enumerate().for_each(|(i, s)| *s *= self.length_of(i) / unit);
    }

    /// Converts typical curvatures to units of the variables.
    pub(super) fn convert_scales(&self, scales: &Scales) -> Scales {
        match scales {
            Scales::Diagonal(m) => Scales::Diagonal(m.iter().enumerate().map(|(i, m)| m * self.length_of(i).powi(2)).collect()),
            Scales::Full(m) => {
                let d = m.len().isqrt().max(1);
                let entry = |(k, m): (usize, &f64)| m * self.length_of(k / d) * self.length_of(k % d);
                Scales::Full(m.iter().enumerate().map(entry).collect())
            }
        }
    }

    /// Returns the domain in these units.
    pub(super) fn scaled<'a>(&'a self, domain: &'a dyn Set) -> Scaled<'a> {
        if self.lengths.is_empty() { Scaled::new(domain, self.length) } else { Scaled::each(domain, &self.lengths) }
    }

    /// Returns whether the variables are in the units of the problem.
    pub(super) fn plain(&self) -> bool {
        self.length == 1.0 && self.lengths.is_empty()
    }

    /// Measures the units at the start of a run: the length over which the linearisation of the objective, or of a violated
    /// constraint, predicts a decrease well, and the changes that the gradients predict over this length.
    pub(super) fn measure<E: Eval + ?Sized>(ev: &mut E, x: &[f64]) -> Result<Self> {
        let here = Local::at(ev, x)?;
        let guess = here.length(x, ev.domain());
        let length = here.valid_length(ev, x, guess)?.max(1e-6 * vec::norm(x));
        let change = here.change(ev, x, length)?;
        Ok(here.units(length, change, ev.domain()))
    }

    /// Measures the units again at a point that may be the solution. Returns `None` if these are still valid.
    pub(super) fn renewed<E: Eval + ?Sized>(&self, ev: &mut E, x: &[f64], start: &[f64]) -> Result<Option<Self>> {
        let here = Local::at(ev, x)?;
        let typical = length_at(x, start);
        let length = if typical > 0.0 { self.length.min(typical) } else { self.length };
        let length = if length * STALE < self.length { power_of_two(length) } else { self.length };
        let change = here.change(ev, x, length)?;
        let now = here.units(length, change, ev.domain());
        let stale = |old: f64, new: f64| new * STALE < old;
        // The tolerances of the returned point are those at this point.
        let tolerances = here.reaches(typical, ev.domain()).map(|reach| ev.feasibility() * reach);
        let violated = here.g.iter().zip(tolerances).any(|(g, tolerance)| *g > tolerance);
        let changed = (violated && self.constraints != now.constraints)
            || stale(self.length, now.length)
            || stale(self.objective, now.objective)
            || self.constraints.iter().zip(&now.constraints).any(|(old, new)| stale(*old, *new));
        Ok(changed.then_some(now))
    }
}

impl Local {
    fn row_norms(&self) -> impl Iterator<Item = f64> + '_ {
        self.rows.chunks(self.slope.len().max(1)).map(vec::norm)
    }

    /// Returns the change of each constraint over a length, limited by the widths of the domain.
    fn reaches<'a>(&'a self, length: f64, domain: &'a dyn Set) -> impl Iterator<Item = f64> + 'a {
        self.rows.chunks(self.slope.len().max(1)).map(move |row| reach(row, length, domain))
    }

    fn units(&self, length: f64, change: f64, domain: &dyn Set) -> Units {
        let length = power_of_two(length);
        let objective = if change > 0.0 { change } else { self.f.abs() };
        let constraint = |(reach, g): (f64, &f64)| power_of_two(if reach > 0.0 { reach } else { g.abs() });
        let constraints = self.reaches(length, domain).zip(&self.g).map(constraint).collect();
        Units { length, lengths: vec![], objective: power_of_two(objective), constraints }
    }

    /// Returns the violated constraint that is farthest from being satisfied by its linearisation, and its distance.
    fn farthest(&self) -> Option<(usize, f64)> {
        let distances = self.g.iter().zip(self.row_norms()).enumerate();
        let distances = distances.filter(|(_, (g, norm))| **g > 0.0 && *norm > 0.0).map(|(j, (g, norm))| (j, g / norm));
        distances.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Guesses the length: the distance to the constraints, the norm of the point, or the size of the domain.
    fn length(&self, x: &[f64], domain: &dyn Set) -> f64 {
        let slack = self.g.iter().zip(self.row_norms()).map(|(g, norm)| g.abs() / norm).filter(|l| l.is_normal());
        let positive = |length: f64| (length.is_normal() && length > 0.0).then_some(length);
        self.farthest()
            .map(|(_, length)| length)
            .or_else(|| positive(vec::norm(x)))
            .or_else(|| slack.min_by(f64::total_cmp))
            .or_else(|| positive(domain.diameter(x.len())))
            .unwrap_or(1.0)
    }

    /// Finds the largest length, starting from a guess, over which the linearisation is valid in the direction of descent. A
    /// linearisation that is valid everywhere gives the guess, or the distance at which a violated constraint is satisfied.
    fn valid_length<E: Eval + ?Sized>(&self, ev: &mut E, x: &[f64], guess: f64) -> Result<f64> {
        let d = x.len().max(1);
        let violated = self.farthest().map(|(j, _)| j);
        let slope = violated.map_or(self.slope.as_slice(), |j| &self.rows[j * d..][..d]);
        let norm = vec::norm(slope);
        if !(norm > 0.0 && norm.is_finite()) {
            return Ok(guess);
        }
        let mut warm = Warm::default();
        let mut g = vec![0.0; self.g.len()];
        let mut valid = |length: f64| -> Result<Option<bool>> {
            let mut y: Vec<f64> = x.iter().zip(slope).map(|(x, s)| x - length * s / norm).collect();
            ev.domain().project(&mut y, &mut warm)?;
            let moved = vec::distance(&y, x);
            if moved < 0.5 * length {
                return Ok(None); // the domain ends here
            }
            let (before, after) = match violated {
                // Functions need not be defined there.
                None => (self.f, ev.objective(&y, &Draw::full()).unwrap_or(f64::INFINITY)),
                Some(j) => {
                    let values = ev.constraint_values(&y, &Draw::full(), Pick::All, &mut g);
                    (self.g[j], values.map_or(f64::INFINITY, |()| g[j]))
                }
            };
            if violated.is_some() && after <= 0.0 {
                return Ok(None);
            }
            Ok(Some(after <= before - VALID * norm * moved))
        };
        let Some(grow) = valid(guess)? else { return Ok(guess) };
        // Factors that grow bracket the length within a few evaluations, whatever the guess.
        let (mut near, mut far, mut factor) = (guess, guess, FACTOR);
        for _ in 0..LENGTHS {
            far = if grow { near * factor } else { near / factor };
            if valid(far)? != Some(grow) {
                break;
            }
            (near, factor) = (far, factor * FACTOR);
        }
        if near == far {
            return Ok(guess); // no length was found
        }
        let (mut low, high) = if grow { (near, far) } else { (far, near) };
        while FACTOR * low < high && valid(FACTOR * low)? == Some(true) {
            low *= FACTOR;
        }
        Ok(low)
    }

    /// Returns the largest change of the objective over this distance: by its subgradient, and at a few points.
    fn change<E: Eval + ?Sized>(&self, ev: &mut E, x: &[f64], length: f64) -> Result<f64> {
        let (mut rng, mut warm, mut most) = (Rng::new(2, Purpose::Directions), Warm::default(), vec::norm(&self.slope) * length);
        for _ in 0..PROBES {
            let direction: Vec<f64> = x.iter().map(|_| 2.0 * rng.uniform() - 1.0).collect();
            let norm = vec::norm(&direction).max(f64::MIN_POSITIVE);
            for sign in [-1.0, 1.0] {
                let mut y: Vec<f64> = x.iter().zip(&direction).map(|(x, v)| x + sign * length * v / norm).collect();
                ev.domain().project(&mut y, &mut warm)?;
                // Functions need not be defined there.
                most = most.max(ev.objective(&y, &Draw::full()).map_or(0.0, |f| (f - self.f).abs()));
            }
        }
        Ok(most)
    }
}

/// Number of directions in which the change of the objective is measured, each with its opposite.
const PROBES: usize = 2;
