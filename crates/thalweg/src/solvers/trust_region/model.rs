//! Model of a black box around a point, in units of the lengths: slope and curvature of the objective, and linear rows for the
//! constraints of the working set. Its minimiser within a radius is the trial step.

use serde::{Deserialize, Serialize};

use crate::cuts::{ActiveSet, Program, Role};
use crate::math::cholesky::Cholesky;
use crate::math::vec;

/// Smallest curvature relative to the mean, and relative to the slope over a unit length.
const FLAT: f64 = 1e-2;
const FLATTEST: f64 = 1e-6;
/// Smallest curvature along a step relative to that of the last approximation, below which a pair is damped (Powell).
const DAMPED: f64 = 0.2;
/// Number of damping coefficients that are tried for one radius.
const TRIES: usize = 40;
/// Range of acceptable lengths of a damped step, relative to the radius.
const SHORT: f64 = 0.6;
const LONG: f64 = 1.05;
/// Initial price of a unit of violation, relative to the slope of the objective, and largest one.
const PRICE: f64 = 10.0;
const LARGEST_PRICE: f64 = 1e7;
/// Fraction of a violation that may remain without a trial of a larger price.
const REDUCED: f64 = 0.1;
/// Fraction of a violation that a step to feasibility may leave, and the factor of its damping.
const RESTORED: f64 = 1e-9;
const DAMP: f64 = 4.0;
/// Largest curvature of a pair relative to the mean curvature so far.
const SHARP: f64 = 1e6;

/// Linear model of a constraint in its unit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Row {
    /// Index of the constraint.
    pub id: u32,
    /// Slope.
    pub slope: Vec<f64>,
    /// Value at the centre, corrected by values at trial points.
    pub height: f64,
    /// Multiplier.
    pub weight: f64,
}

/// Step with the change of the Lagrangian's slope along it, for the next update of the curvature.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PreviousStep {
    step: Vec<f64>,
    slope: Vec<f64>,
    rows: Vec<Row>,
}

/// The model.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Model {
    /// Variables that move; the others are fixed until the next block.
    pub block: Vec<u32>,
    /// Slope of the objective, and the variance of each of its entries.
    pub slope: Vec<f64>,
    pub variance: f64,
    /// Second derivative in each variable, from differences; 0 where unknown.
    pub second: Vec<f64>,
    /// Curvature of the Lagrangian; empty before the first slope.
    curvature: Vec<f64>,
    /// Whether steps have updated the curvature.
    updated: bool,
    pub rows: Vec<Row>,
    /// Half-spaces that contain the domain and not some trial point.
    pub sides: Vec<Row>,
    before: Option<PreviousStep>,
    damping: f64,
    /// Whether the multipliers are limited by the price.
    priced: bool,
    /// Price of a unit of violation relative to the norm of the slope.
    price: f64,
}

/// Trial step.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelStep {
    pub step: Vec<f64>,
    /// Decrease of the objective that the model predicts.
    pub decrease: f64,
    /// Whether the radius shortened the step.
    pub shortened: bool,
}

impl Model {
    /// Returns a model of the block without slopes.
    pub fn new(block: Vec<u32>) -> Self {
        let count = block.len();
        Model { block, slope: vec![0.0; count], second: vec![0.0; count], price: PRICE, ..Model::default() }
    }

    fn dim(&self) -> usize {
        self.block.len()
    }

    /// Returns the mean size of the second derivatives.
    pub fn bend(&self) -> f64 {
        self.second.iter().map(|s| s.abs()).sum::<f64>() / self.dim().max(1) as f64
    }

    /// Merges a measured slope, whose entries have a variance, with the one that is known.
    pub fn merge(&mut self, measured: &[f64], variance: f64) {
        let gain =
            if self.curvature.is_empty() { 1.0 } else { self.variance / (self.variance + variance).max(f64::MIN_POSITIVE) };
        let gain = if gain.is_nan() || variance == 0.0 { 1.0 } else { gain };
        self.slope.iter_mut().zip(measured).for_each(|(slope, measured)| *slope += gain * (measured - *slope));
        self.variance = if self.curvature.is_empty() { variance } else { (1.0 - gain) * self.variance + gain * gain * variance };
    }

    /// Returns `curvature * step`.
    fn bent(&self, step: &[f64]) -> Vec<f64> {
        let d = self.dim();
        (0..d).map(|i| vec::dot(&self.curvature[i * d..][..d], step)).collect()
    }

    /// Moves the centre along a step, with the slope that the curvature predicts.
    pub fn advance(&mut self, step: &[f64]) {
        let bent = self.bent(step);
        self.before = Some(PreviousStep { step: step.to_vec(), slope: self.slope.clone(), rows: self.rows.clone() });
        vec::add_scaled(&mut self.slope, 1.0, &bent);
        // The curvature is known up to a fraction.
        self.variance += 0.04 * vec::norm_squared(&bent) / self.dim().max(1) as f64;
        self.sides.clear();
    }

    /// Updates the curvature after slopes were measured at the centre: from second differences until a step gave a pair, then from
    /// the last step (BFGS). `noise` is the standard deviation of an entry of the measured slope.
    pub fn update_curvature(&mut self, measured: &[f64], noise: f64) {
        let d = self.dim();
        if !self.updated {
            let mean = self.bend();
            let least = (FLAT * mean).max(FLATTEST * vec::norm(&self.slope)).max(f64::MIN_POSITIVE);
            self.curvature.clear();
            self.curvature.resize(d * d, 0.0);
            (0..d).for_each(|i| self.curvature[i * d + i] = self.second[i].max(least));
        }
        let Some(PreviousStep { step, slope, rows }) = self.before.take() else { return };
        let mut change: Vec<f64> = measured.iter().zip(&slope).map(|(now, then)| now - then).collect();
        // Multipliers that the price limits are not those of the Lagrangian.
        for old in rows.iter().filter(|row| row.weight > 0.0 && !self.priced) {
            if let Some(now) = self.rows.iter().find(|row| row.id == old.id) {
                vec::add_scaled(&mut change, old.weight, &now.slope);
                vec::add_scaled(&mut change, -old.weight, &old.slope);
            }
        }
        let bs = self.bent(&step);
        let (mut along, before) = (vec::dot(&step, &change), vec::dot(&step, &bs));
        if before.is_nan() || before <= 0.0 || vec::norm(&change) < 3.0 * noise * (d as f64).sqrt() {
            return;
        }
        if along < DAMPED * before {
            let share = (1.0 - DAMPED) * before / (before - along);
            change.iter_mut().zip(&bs).for_each(|(y, bs)| *y = share * *y + (1.0 - share) * bs);
            along = vec::dot(&step, &change);
        }
        let mean = (0..d).map(|i| self.curvature[i * d + i]).sum::<f64>() / d as f64;
        if vec::norm_squared(&change) > SHARP * mean * along {
            return;
        }
        for i in 0..d {
            for j in 0..d {
                self.curvature[i * d + j] += change[i] * change[j] / along - bs[i] * bs[j] / before;
            }
        }
        self.updated = true;
    }

    /// Minimises the model within the radius. The price of a violation grows as long as that reduces the violation.
    pub fn solve(&mut self, radius: f64) -> ModelStep {
        let worst = self.worst();
        let (mut answer, mut excess) = self.solve_at_price(radius);
        if excess == 0.0 {
            self.price = (0.1 * self.price).max(PRICE);
        }
        while excess > REDUCED * worst && self.price < LARGEST_PRICE {
            let price = self.price;
            self.price = 10.0 * price;
            let (other, left) = self.solve_at_price(radius);
            if left.is_nan() || left > 0.9 * excess {
                self.price = price;
                break;
            }
            (answer, excess) = (other, left);
        }
        self.priced = excess > 0.0;
        answer
    }

    /// Returns the largest value of a row.
    fn worst(&self) -> f64 {
        self.rows.iter().fold(0.0_f64, |worst, row| worst.max(row.height))
    }

    /// Minimises the model within the radius. Returns the largest violation of its rows too.
    fn solve_at_price(&mut self, radius: f64) -> (ModelStep, f64) {
        let d = self.dim();
        let size = vec::norm(&self.slope);
        let trace = (0..d).map(|i| self.curvature[i * d + i]).sum::<f64>() / d.max(1) as f64;
        let least = 1e-6 * trace + 1e-3 * size / radius.max(f64::MIN_POSITIVE) + f64::MIN_POSITIVE;
        let (mut below, mut above) = (0.0_f64, f64::INFINITY);
        let mut best = None;
        for _ in 0..TRIES {
            let (step, excess) = self.damped(self.damping, size);
            let length = vec::norm(&step);
            if !length.is_finite() {
                self.rows.iter_mut().chain(&mut self.sides).for_each(|row| row.weight = 0.0);
            }
            let fits = length <= LONG * radius;
            if fits {
                best = Some((step, excess));
            }
            if fits && (self.damping == 0.0 || length >= SHORT * radius) {
                break;
            }
            if fits {
                above = self.damping;
                self.damping = if below > 0.0 { (below * above).sqrt() } else { 0.25 * above };
                if self.damping < least {
                    self.damping = 0.0;
                }
            } else {
                below = self.damping.max(1e-3 * least);
                let factor = if length.is_finite() { (length / radius).clamp(2.0, 100.0) } else { 10.0 };
                self.damping = if above.is_finite() { (below * above).sqrt() } else { (self.damping * factor).max(least) };
            }
            if above.is_finite() && above < 1.2 * below.max(1e-3 * least) {
                break;
            }
        }
        let (step, excess) = best.unwrap_or_else(|| (vec![0.0; d], self.worst()));
        let shortened = self.damping > 0.0;
        let decrease = -vec::dot(&self.slope, &step) - 0.5 * vec::dot(&self.bent(&step), &step);
        (ModelStep { step, decrease, shortened }, excess)
    }

    /// Returns the step that minimises the largest violation of the rows within the radius, the shortest one if there are many. The
    /// objective plays no part.
    pub fn restore(&mut self, radius: f64) -> ModelStep {
        let d = self.dim();
        let slopes: Vec<&[f64]> = self.rows.iter().chain(&self.sides).map(|row| &row.slope[..]).collect();
        // A cut that is 0 everywhere: no step goes beyond feasibility.
        let n = 1 + slopes.len();
        let mut gram = vec![0.0; n * n];
        for i in 1..n {
            for j in 1..=i {
                let entry = vec::dot(slopes[i - 1], slopes[j - 1]);
                (gram[i * n + j], gram[j * n + i]) = (entry, entry);
            }
        }
        let heights: Vec<f64> = std::iter::once(0.0).chain(self.rows.iter().chain(&self.sides).map(|row| row.height)).collect();
        let roles: Vec<Role> = (0..n).map(|i| if i <= self.rows.len() { Role::Minimised } else { Role::Hard }).collect();
        let worst = self.worst();
        let (mut mu, mut bracketed) = (1.0 / radius.max(f64::MIN_POSITIVE), false);
        let mut best = vec![0.0; d];
        for _ in 0..TRIES {
            let mut z = vec![0.0; n];
            ActiveSet::default()
                .solve(&Program { gram: &gram, stride: n, heights: &heights, roles: &roles, mu, penalty: 0.0 }, &mut z);
            let mut step = vec![0.0; d];
            z[1..].iter().zip(&slopes).for_each(|(z, slope)| vec::add_scaled(&mut step, -z / mu, slope));
            let length = vec::norm(&step);
            if length.is_nan() || length > LONG * radius {
                mu *= DAMP;
                bracketed = true;
                continue;
            }
            let left = self.rows.iter().fold(0.0_f64, |left, row| left.max(row.height + vec::dot(&row.slope, &step)));
            best = step;
            if bracketed || left <= RESTORED * worst {
                break;
            }
            mu /= DAMP;
        }
        self.rows.iter_mut().chain(&mut self.sides).for_each(|row| row.weight = 0.0);
        ModelStep { step: best, decrease: 0.0, shortened: true }
    }

    /// Minimises the model with `damping / 2 ||step||^2` added. Returns the step and the largest violation of the rows.
    fn damped(&mut self, damping: f64, size: f64) -> (Vec<f64>, f64) {
        let d = self.dim();
        let rows: Vec<&Row> = self.rows.iter().chain(&self.sides).collect();
        let n = 1 + rows.len();
        let factor = [0.0, 1e-10, 1e-6, 1e-2, 1.0].into_iter().find_map(|more| {
            let scale = (0..d).map(|i| self.curvature[i * d + i]).fold(0.0, f64::max);
            Cholesky::shifted(&self.curvature, d, -(damping + more * scale))
        });
        let Some(factor) = factor else { return (vec![0.0; d], f64::INFINITY) };
        let slope = |i: usize| if i == 0 { &self.slope } else { &rows[i - 1].slope };
        let mut moved = vec![0.0; n * d];
        for (i, moved) in moved.chunks_mut(d.max(1)).enumerate() {
            moved.copy_from_slice(slope(i));
            factor.solve(moved);
        }
        let mut gram = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let entry = vec::dot(slope(i), &moved[j * d..][..d]);
                (gram[i * n + j], gram[j * n + i]) = (entry, entry);
            }
        }
        let heights: Vec<f64> = std::iter::once(0.0).chain(rows.iter().map(|row| row.height)).collect();
        let penalised = std::iter::repeat_n(Role::Penalised, self.rows.len());
        let hard = std::iter::repeat_n(Role::Hard, self.sides.len());
        let roles: Vec<Role> = std::iter::once(Role::Minimised).chain(penalised).chain(hard).collect();
        let weighed: f64 = self.rows.iter().map(|row| row.weight).sum();
        let penalty = (self.price * size).max(2.0 * weighed).max(f64::MIN_POSITIVE);
        let mut z: Vec<f64> = std::iter::once(1.0).chain(rows.iter().map(|row| row.weight)).collect();
        let program = Program { gram: &gram, stride: n, heights: &heights, roles: &roles, mu: 1.0, penalty };
        let excess = ActiveSet::default().solve(&program, &mut z).excess;
        let mut step = vec![0.0; d];
        z.iter().zip(moved.chunks(d.max(1))).filter(|(z, _)| **z > 0.0).for_each(|(z, v)| vec::add_scaled(&mut step, -z, v));
        let weights = &z[1..];
        self.rows.iter_mut().chain(&mut self.sides).zip(weights).for_each(|(row, z)| row.weight = *z);
        (step, excess)
    }
}
