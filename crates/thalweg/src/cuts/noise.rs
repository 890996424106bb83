//! Rounding errors of function values and subgradients: the relative accuracy that is assumed of every function, and the errors
//! beyond it, measured at neighbouring floating-point numbers. What errors do to a bound is in the module above.

use serde::{Deserialize, Serialize};

use super::Owner;
use crate::Result;
use crate::eval::Eval;
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::{Draw, Warm};

/// Error of the values and subgradients of a function beyond the relative accuracy that is always assumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Bound on the error of a value.
    pub value: f64,
    /// Bound on the norm of the error of a subgradient.
    pub slope: f64,
}

impl Noise {
    /// Returns the larger of the bounds.
    pub fn max(self, other: Noise) -> Noise {
        Noise { value: self.value.max(other.value), slope: self.slope.max(other.slope) }
    }
}

/// Returns the relative accuracy that is assumed of values, subgradients and sums over `dim` variables: a few roundings.
pub fn accuracy(dim: usize) -> f64 {
    (4.0 + dim as f64 / 32.0) * f64::EPSILON
}

/// Returns the sum of the absolute values that a linearisation is computed from. Times [`accuracy`], it bounds the error of the
/// value: that of the result, and that of an exact function at a point whose variables are rounded.
pub fn size(value: f64, point: &[f64], subgradient: &[f64]) -> f64 {
    value.abs() + vec::sum_by(point.len(), |k| (point[k] * subgradient[k]).abs())
}

/// Values and subgradients of all functions at a point.
#[derive(Debug, Clone, Default)]
pub(crate) struct Local {
    pub(crate) f: f64,
    pub(crate) slope: Vec<f64>,
    pub(crate) g: Vec<f64>,
    /// Subgradients of the constraints, one after the other.
    pub(crate) rows: Vec<f64>,
}

impl Local {
    /// Evaluates all functions at `x`.
    pub(crate) fn at<E: Eval + ?Sized>(ev: &mut E, x: &[f64]) -> Result<Self> {
        let m = ev.num_constraints();
        let mut here = Local { f: 0.0, slope: vec![0.0; x.len()], g: vec![0.0; m], rows: vec![0.0; m * x.len()] };
        let which: Vec<u32> = (0..m as u32).collect();
        ev.refresh(x)?;
        here.f = ev.objective_grad(x, &Draw::full(), &mut here.slope)?;
        if m > 0 {
            ev.constraint_rows(x, &Draw::full(), &which, &mut here.g, &mut here.rows)?;
        }
        Ok(here)
    }

    /// Iterates over the functions with their values and subgradients: the objective, then the constraints.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Owner, f64, &[f64])> {
        let rows = self.g.iter().zip(self.rows.chunks(self.slope.len().max(1))).enumerate();
        std::iter::once((Owner::Objective, self.f, self.slope.as_slice()))
            .chain(rows.map(|(j, (&g, row))| (Owner::Constraint(j as u32), g, row)))
    }

    /// Measures the errors of all functions at points a few roundings from `x`, where exact functions would change by their
    /// linearisations. One bound for the objective, then one for each constraint.
    pub(crate) fn noise<E: Eval + ?Sized>(&self, ev: &mut E, x: &[f64]) -> Result<Vec<Noise>> {
        let mut noise = vec![Noise { value: 0.0, slope: f64::INFINITY }; 1 + self.g.len()];
        let mut rng = Rng::new(1, Purpose::Directions);
        for _ in 0..NEIGHBOURS {
            let mut y: Vec<f64> = x.iter().map(|x| x * (1.0 + if rng.uniform() < 0.5 { DISTANCE } else { -DISTANCE })).collect();
            ev.domain().project(&mut y, &mut Warm::default())?;
            let Ok(there) = Local::at(ev, &y) else { continue };
            let step: Vec<f64> = y.iter().zip(x).map(|(y, x)| y - x).collect();
            for (noise, ((_, here, row), (_, there, other))) in noise.iter_mut().zip(self.parts().zip(there.parts())) {
                noise.value = noise.value.max(SAFETY * (there - here - vec::dot(row, &step)).abs());
                // Beyond a kink the subgradient is another one, so that the smallest difference counts.
                noise.slope = noise.slope.min(SAFETY * vec::distance(row, other));
            }
        }
        let norm = vec::norm(x);
        for (noise, (_, value, row)) in noise.iter_mut().zip(self.parts()) {
            let typical = if norm > 0.0 { vec::norm(row).max(value.abs() / norm) } else { vec::norm(row) };
            if noise.slope > KINK * typical {
                noise.slope = 0.0;
            }
        }
        Ok(noise)
    }
}

/// Returns points at which subgradients are compared with values: a short way from `x` in a random direction, and in the opposite one.
/// At one of them a linearisation with a wrong slope lies above the function.
pub(crate) fn opposite_points(x: &[f64]) -> [Vec<f64>; 2] {
    let mut rng = Rng::new(3, Purpose::Directions);
    let direction: Vec<f64> = x.iter().map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let norm = vec::norm(x);
    let length = SHORT * if norm > 0.0 { norm } else { 1.0 } / vec::norm(&direction).max(f64::MIN_POSITIVE);
    [-length, length].map(|step| x.iter().zip(&direction).map(|(x, v)| x + step * v).collect())
}

/// Distance of these points, relative to the norm.
const SHORT: f64 = 1e-4;
/// Number of neighbouring points at which errors are measured.
pub(crate) const NEIGHBOURS: u64 = 2;
/// Distance of these points, relative to each variable.
const DISTANCE: f64 = 4.0 * f64::EPSILON;
/// Difference of neighbouring subgradients, relative to a typical one, above which it is a kink and not an error.
const KINK: f64 = 1e-6;
/// Factor on the measured errors.
pub(crate) const SAFETY: f64 = 4.0;
