//! The transport polytope: non-negative matrices with given row sums and column sums, among them the Birkhoff polytope, whose
//! sums are all 1. Transport costs and problems with a plan as a variable do not belong here.

use super::{Set, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// Transport polytope: all `m x n` matrices `P >= 0` with row sums `r` and column sums `c`, stored row after row in a vector of
/// `m n` entries.
///
/// **Projection.** The nearest point to `X` is `P = max(0, X + u 1^T + 1 v^T)`, where `(u, v)` minimises the convex function
/// `psi(u, v) = 1/2 ||P||^2 - <r, u> - <c, v>`, whose gradient is the error of the row and column sums of `P`. A semismooth
/// Newton method finds them: the generalised Hessian `[Diag(M 1), M; M^T, Diag(M^T 1)]` of the mask `M_ij = [P_ij > 0]` is
/// never formed; conjugate gradients with a diagonal preconditioner multiply by it, which reads one bit for each entry of the
/// matrix. Steps are halved until psi decreases enough (Armijo). If that fails, an accelerated gradient method with restarts
/// takes over. If `X` is large against the sums, a cold start first solves for multiples of them, from large to small. `Warm`
/// keeps `u` and `v`: while `X` changes little, few steps are needed.
///
/// **Accuracy.** The method stops when the error of every sum is at most 1e-10 of the largest one, or at the level of rounding.
/// Then rows and columns are scaled down to their sums and the remainder is added as a matrix of rank one, so that the result
/// is non-negative and its sums are exact up to rounding.
///
/// **Cost.** `O(m n)` for each Newton step and for each product with the Hessian, and `(m n) / 6` bytes of working space plus a
/// dozen vectors of length `m + n`. About 5 to 25 Newton steps from a cold start, up to 60 if `X` is large against the sums.
/// Runs on one thread.
///
/// **Reference.** Li, Sun & Toh (2020), "On the efficient computation of a generalized Jacobian of the projector over the
/// Birkhoff polytope".
#[derive(Debug, Clone, PartialEq)]
pub struct Transport {
    rows: Vec<f64>,
    columns: Vec<f64>,
}

/// Work of one projection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Newton steps.
    pub steps: u64,
    /// Passes over the entries of the matrix: checks, values of psi with their gradients, masks, the result.
    pub passes: u64,
    /// Products with the Hessian: passes over the bits of the mask.
    pub products: u64,
    /// Steps of the gradient method that takes over if Newton's method fails.
    pub gradient_steps: u64,
}

/// Largest error of the sums, in units of the largest sum.
const TOLERANCE: f64 = 1e-10;
/// Error of the sums, in the same units, at which a point needs no projection.
const EXACT: f64 = 1e-13;
/// Limits on Newton steps, and on halvings in each of them, before the gradient method takes over.
const STEPS: u64 = 200;
const HALVINGS: u32 = 50;
/// Limit on products with the Hessian per Newton step.
const PRODUCTS: u32 = 500;
/// Limit on steps of the gradient method.
const GRADIENT_STEPS: u64 = 20_000;
/// Error of the sums, as a fraction of the largest, above which a warm start is compared with a cold one.
const FAR: f64 = 0.5;
/// Size of entries, in units of the largest sum, up to which no larger sums are solved first.
const NEAR: f64 = 2.0;
/// Rows whose column sums are accumulated separately, since shorter running sums round less.
const BLOCK: usize = 32;
/// Entries of a row that share a word of the mask. Words are stored as numbers in [`Warm`]: with 48 bits they are subnormal
/// numbers and never NaN, whose bits some processors change.
const WORD: usize = 48;
/// Largest number of set bits for which a word is processed bit by bit.
const FEW: u32 = 3;

/// The four bits of an index as numbers.
const NIBBLES: [[f64; 4]; 16] = {
    let mut table = [[0.0; 4]; 16];
    let mut k = 0;
    while k < 64 {
        if (k / 4) >> (k % 4) & 1 == 1 {
            table[k / 4][k % 4] = 1.0;
        }
        k += 1;
    }
    table
};

impl Transport {
    /// Builds the set from the row and column sums. Both must have the same total up to a relative error of 1e-12; the column
    /// sums are then rescaled to match exactly.
    pub fn new(rows: Vec<f64>, mut columns: Vec<f64>) -> Result<Self> {
        let totals = [("row", &rows), ("column", &columns)].map(|(kind, sums)| {
            if sums.is_empty() {
                return Err(Error::Problem(format!("a transport polytope has no {kind} sums; expected at least one")));
            }
            if let Some((i, v)) = sums.iter().enumerate().find(|(_, v)| !(**v >= 0.0 && v.is_finite())) {
                let name = format!("{kind} sum {} of the transport polytope", i + 1);
                return Err(Error::setting(name, v, "a finite number, 0 or larger"));
            }
            let total = vec::sum(sums);
            if total.is_normal() {
                Ok(total)
            } else {
                Err(Error::setting(
                    format!("total of the {kind} sums of the transport polytope"),
                    total,
                    "a finite number larger than 0",
                ))
            }
        });
        let [of_rows, of_columns] = totals;
        let (of_rows, of_columns) = (of_rows?, of_columns?);
        if (of_rows - of_columns).abs() > 1e-12 * of_rows.max(of_columns) {
            let wanted = format!("{of_rows}, the total of its row sums, to 1e-12 of it");
            return Err(Error::setting("total of the column sums of the transport polytope", of_columns, wanted));
        }
        if rows.len().checked_mul(columns.len()).is_none() {
            let value = format!("{} x {}", rows.len(), columns.len());
            return Err(Error::setting(
                "size of the transport polytope",
                value,
                "a number of entries that this machine can count",
            ));
        }
        vec::scale(&mut columns, of_rows / of_columns);
        Ok(Transport { rows, columns })
    }

    /// Builds the plans between two uniform distributions: row sums `1 / m`, column sums `1 / n`.
    pub fn uniform(m: usize, n: usize) -> Result<Self> {
        Transport::new(vec![1.0 / m as f64; m], vec![1.0 / n as f64; n])
    }

    /// Builds the doubly stochastic matrices with `n` rows.
    pub fn birkhoff(n: usize) -> Result<Self> {
        Transport::new(vec![1.0; n], vec![1.0; n])
    }

    /// Returns the row sums.
    pub fn row_sums(&self) -> &[f64] {
        &self.rows
    }

    /// Returns the column sums.
    pub fn column_sums(&self) -> &[f64] {
        &self.columns
    }

    /// As [`Set::project`]; also returns the work done.
    pub fn project_counted(&self, x: &mut [f64], warm: &mut Warm) -> Result<Effort> {
        self.project_within(x, warm, STEPS)
    }

    fn project_within(&self, x: &mut [f64], warm: &mut Warm, steps: u64) -> Result<Effort> {
        super::check_point(self, x.len())?;
        let mut effort = Effort::default();
        let mut numbers = std::mem::take(&mut warm.parts(1)[0].values);
        let result = self.solve(x, &mut warm.values, &mut numbers, steps, &mut effort);
        // Working space keeps its memory and adds nothing to a checkpoint.
        numbers.clear();
        warm.parts(1)[0].values = numbers;
        if result.is_err() {
            // The next call starts cold.
            warm.values.clear();
        }
        result.map(|()| effort)
    }

    /// Finds the dual variables, then replaces `x` by the projection; `x` is unchanged if that fails.
    fn solve(&self, x: &mut [f64], duals: &mut Vec<f64>, numbers: &mut Vec<f64>, steps: u64, effort: &mut Effort) -> Result<()> {
        let (m, n) = (self.rows.len(), self.columns.len());
        let words = n.div_ceil(WORD);
        let padded = words * WORD;
        // One vector holds u, v and zeros up to whole words.
        let long = m + padded;
        numbers.clear();
        numbers.resize(9 * long + padded + m * words, 0.0);
        let mut space = Space::cut(numbers, long, padded);

        // One pass detects a point that needs no projection.
        let squares = self.sums(x, 1.0, space.trial, space.trial_grad, space.partial, |y| y);
        effort.passes += 1;
        if !squares.is_finite()
            && let Some((k, value)) = vec::first_not_finite(x)
        {
            let what = format!("entry {} of the point for the {}", k + 1, self.describe());
            return Err(Error::NotFinite { what, value });
        }
        if self.residual(space.trial_grad) <= EXACT && x.iter().all(|x| *x >= 0.0) {
            return Ok(());
        }
        let warm = duals.len() == m + n && vec::first_not_finite(duals).is_none();
        let (mut psi, mut warm_enough) = (Psi::default(), false);
        if warm {
            space.z[..m + n].copy_from_slice(duals);
            psi = self.evaluate(x, 1.0, space.z, space.grad, space.partial, effort);
            warm_enough = self.residual(space.grad) <= FAR;
        }
        if !warm_enough {
            self.start(&mut space);
            let cold = self.evaluate(x, 1.0, space.trial, space.trial_grad, space.partial, effort);
            warm_enough = warm && psi.value <= cold.value;
            if !warm_enough {
                space.take_trial();
                psi = cold;
            }
        }
        self.check(psi)?;

        if !warm_enough {
            psi = self.descend(x, &mut space, psi, steps, effort)?;
        }
        let target = NewtonTarget { times: 1.0, tolerance: TOLERANCE, steps };
        if !self.newton(x, target, &mut space, psi, effort)? {
            let residual = self.gradient(x, &mut space, effort)?;
            if residual > TOLERANCE.max(self.rounding(x, space.z)) {
                return Err(Error::Problem(format!(
                    "the projection onto the {} ended with sums off by {residual:e} of the largest; expected {TOLERANCE:e}",
                    self.describe()
                )));
            }
        }

        // (u + t, v - t) gives the same matrix; centring keeps both from drifting.
        let shift = 0.5 * (vec::sum(&space.z[..m]) / m as f64 - vec::sum(&space.z[m..]) / n as f64);
        self.finish(x, &mut space, effort);
        duals.clear();
        duals.extend(space.z[..m].iter().map(|u| u - shift));
        duals.extend(space.z[m..m + n].iter().map(|v| v + shift));
        Ok(())
    }

    /// Writes the affine projection to `trial`: the nearest matrix with the right sums, ignoring signs. `trial_grad` holds the
    /// errors of the sums.
    fn start(&self, space: &mut Space) {
        let (m, n) = (self.rows.len(), self.columns.len());
        let (row_gaps, column_gaps) = space.trial_grad.split_at(m);
        let middle = vec::sum(row_gaps) / (2.0 * m as f64 * n as f64);
        let (u, v) = space.trial.split_at_mut(m);
        u.iter_mut().zip(row_gaps).for_each(|(u, gap)| *u = middle - gap / n as f64);
        v[..n].iter_mut().zip(column_gaps).for_each(|(v, gap)| *v = middle - gap / m as f64);
    }

    /// Moves from the affine start towards the solution if entries are large against the sums: solves for multiples of the sums
    /// first, large enough for the affine start to be near, each solution being the start for the next smaller multiple.
    /// Otherwise Newton's method is slow, since with few positive entries the Hessian carries no information about the others.
    fn descend(&self, x: &[f64], space: &mut Space, mut psi: Psi, steps: u64, effort: &mut Effort) -> Result<Psi> {
        let mut times = (2.0 * psi.squares / x.len() as f64).sqrt() / self.largest();
        while times > NEAR {
            psi = self.evaluate(x, times, space.z, space.grad, space.partial, effort);
            self.newton(x, NewtonTarget { times, tolerance: 0.1, steps: steps.min(20) }, space, psi, effort)?;
            times /= 4.0;
            if times <= NEAR {
                psi = self.evaluate(x, 1.0, space.z, space.grad, space.partial, effort);
            }
        }
        Ok(psi)
    }

    /// Applies Newton's method from `z` for a multiple of the sums. Returns whether it converged.
    fn newton(&self, x: &[f64], target: NewtonTarget, space: &mut Space, mut psi: Psi, effort: &mut Effort) -> Result<bool> {
        let NewtonTarget { times, tolerance, steps } = target;
        let mut idle = 0;
        // A start for the next multiple need not be exact.
        let mut polished = times != 1.0;
        let mut best = f64::INFINITY;
        for _ in 0..steps {
            let residual = self.residual(space.grad) / times;
            if residual <= tolerance {
                if polished || residual <= 1e-3 * tolerance {
                    return Ok(true);
                }
                // One more step is cheap and nearly always exact, since the mask is known by now.
                polished = true;
            }
            // At the level of rounding the residual fluctuates.
            idle = if residual <= 0.5 * best { 0 } else { idle + 1 };
            best = best.min(residual);
            if idle >= 5 && residual <= self.rounding(x, space.z) / times {
                return Ok(true);
            }
            effort.steps += 1;
            self.mark(x, space, effort);
            self.direction(space, times, effort);
            let slope = vec::dot(space.grad, space.d);
            let mut t = 1.0;
            let mut accepted = None;
            for _ in 0..HALVINGS {
                for ((trial, z), d) in space.trial.iter_mut().zip(space.z.iter()).zip(space.d.iter()) {
                    *trial = z + t * d;
                }
                let new = self.evaluate(x, times, space.trial, space.trial_grad, space.partial, effort);
                let enough = if -t * slope > 1e-12 * psi.size {
                    new.value <= psi.value + 1e-4 * t * slope
                } else {
                    // Below the precision of psi, compare slopes: the slope must not have turned upwards by much.
                    vec::dot(space.trial_grad, space.d) <= -0.1 * slope
                };
                if enough {
                    accepted = Some(new);
                    break;
                }
                t *= 0.5;
            }
            let Some(new) = accepted else {
                return Ok(residual <= tolerance.max(self.rounding(x, space.z) / times));
            };
            self.check(new)?;
            psi = new;
            space.take_trial();
        }
        Ok(self.residual(space.grad) / times <= tolerance)
    }

    /// Solves `(H + eps I) d = -grad` by conjugate gradients.
    fn direction(&self, space: &mut Space, times: f64, effort: &mut Effort) {
        let Space { grad, d, rest, way, image, diagonal, bits, .. } = space;
        let m = self.rows.len();
        let length = vec::norm(grad);
        // The gradient scales with the unit, the Hessian does not.
        let unit = times * self.largest();
        let scaled = length / unit;
        let eps = (0.1 * scaled).min(1e-3).min(scaled * scaled);
        let mut goal = scaled.min(0.01) * scaled;
        if goal < 100.0 * TOLERANCE {
            // The last step is solved exactly.
            goal = 1e-3 * TOLERANCE;
        }
        let goal = (goal * unit).max(1e-15 * length);
        d.fill(0.0);
        let mut power = 0.0;
        for (((rest, way), grad), h) in rest.iter_mut().zip(way.iter_mut()).zip(grad.iter()).zip(diagonal.iter()) {
            *rest = -grad;
            *way = *rest / (h + eps);
            power += *rest * *way;
        }
        for _ in 0..PRODUCTS {
            effort.products += 1;
            for ((image, way), h) in image.iter_mut().zip(way.iter()).zip(diagonal.iter()) {
                *image = (h + eps) * way;
            }
            multiply(bits, way, image, m);
            let alpha = power / vec::dot(way, image);
            if !alpha.is_finite() {
                break;
            }
            vec::add_scaled(d, alpha, way);
            vec::add_scaled(rest, -alpha, image);
            if vec::norm(rest) <= goal {
                break;
            }
            let new = vec::sum_by(rest.len(), |k| rest[k] * rest[k] / (diagonal[k] + eps));
            let beta = new / power;
            power = new;
            for ((way, rest), h) in way.iter_mut().zip(rest.iter()).zip(diagonal.iter()) {
                *way = rest / (h + eps) + beta * *way;
            }
        }
    }

    /// Runs the accelerated gradient method with restarts from `z`. Returns the final residual.
    fn gradient(&self, x: &[f64], space: &mut Space, effort: &mut Effort) -> Result<f64> {
        // Largest eigenvalue of the Hessian with a full mask.
        let step = 1.0 / (self.rows.len() + self.columns.len()) as f64;
        // `trial` is the extrapolated point y.
        space.trial.copy_from_slice(space.z);
        let mut age = 0.0;
        loop {
            let psi = self.evaluate(x, 1.0, space.trial, space.trial_grad, space.partial, effort);
            self.check(psi)?;
            let residual = self.residual(space.trial_grad);
            if residual <= TOLERANCE || effort.gradient_steps == GRADIENT_STEPS {
                space.take_trial();
                return Ok(residual);
            }
            effort.gradient_steps += 1;
            let mut uphill = 0.0;
            for (((d, y), g), z) in
                space.d.iter_mut().zip(space.trial.iter()).zip(space.trial_grad.iter()).zip(space.z.iter_mut())
            {
                let new = y - step * g;
                *d = new - *z;
                *z = new;
                uphill += g * *d;
            }
            age = if uphill > 0.0 { 0.0 } else { age + 1.0 };
            let push = age / (age + 3.0);
            for ((y, z), d) in space.trial.iter_mut().zip(space.z.iter()).zip(space.d.iter()) {
                *y = z + push * d;
            }
        }
    }

    /// Replaces `x` by `P(z)` with exact sums: rows, then columns, are scaled down to their sums, and the remainder is added as
    /// a matrix of rank one.
    fn finish(&self, x: &mut [f64], space: &mut Space, effort: &mut Effort) {
        let (m, n) = (self.rows.len(), self.columns.len());
        let Space { z, d, rest, image, partial, .. } = space;
        let (u, v) = z.split_at(m);
        let (missing_rows, _) = d.split_at_mut(m);
        let sums = &mut rest[..n];
        let partial = &mut partial[..n];
        effort.passes += 2;

        by_blocks(x, n, partial, sums, |i, row, partial| {
            row.iter_mut().zip(v).for_each(|(x, v)| *x = clip(*x + (u[i] + v)));
            let sum = vec::sum(row);
            let down = if sum > self.rows[i] { self.rows[i] / sum } else { 1.0 };
            for (x, partial) in row.iter_mut().zip(partial) {
                *x *= down;
                *partial += *x;
            }
        });
        let factors = &mut image[..n];
        for ((factor, sum), wanted) in factors.iter_mut().zip(sums.iter()).zip(&self.columns) {
            *factor = if sum > wanted { wanted / sum } else { 1.0 };
        }
        by_blocks(x, n, partial, sums, |i, row, partial| {
            for ((x, factor), partial) in row.iter_mut().zip(factors.iter()).zip(partial) {
                *x *= factor;
                *partial += *x;
            }
            missing_rows[i] = missing(self.rows[i], vec::sum(row));
        });
        for (sum, wanted) in sums.iter_mut().zip(&self.columns) {
            *sum = missing(*wanted, *sum);
        }
        let total = vec::sum(missing_rows).max(vec::sum(sums));
        if total > 0.0 {
            effort.passes += 1;
            for (row, e) in x.chunks_exact_mut(n).zip(missing_rows.iter()).filter(|(_, e)| **e > 0.0) {
                vec::add_scaled(row, e / total, sums);
            }
        }
    }

    /// Computes psi at `z`, for `times` the sums of the set, and its gradient.
    fn evaluate(&self, x: &[f64], times: f64, z: &[f64], grad: &mut [f64], partial: &mut [f64], effort: &mut Effort) -> Psi {
        effort.passes += 1;
        let squares = 0.5 * self.sums(x, times, z, grad, partial, clip);
        let (u, v) = z.split_at(self.rows.len());
        let (rows, columns) = (times * vec::dot(&self.rows, u), times * vec::dot(&self.columns, v));
        Psi { value: squares - rows - columns, size: squares + rows.abs() + columns.abs(), squares }
    }

    /// Computes the row and column sums of `P = part(x + u + v)` minus `times` their targets. Returns the sum of all squares.
    #[inline(always)]
    fn sums(&self, x: &[f64], times: f64, z: &[f64], grad: &mut [f64], partial: &mut [f64], part: impl Fn(f64) -> f64) -> f64 {
        let (m, n) = (self.rows.len(), self.columns.len());
        let (u, v) = z.split_at(m);
        let (row_gaps, column_gaps) = grad.split_at_mut(m);
        let (v, column_gaps, partial) = (&v[..n], &mut column_gaps[..n], &mut partial[..n]);
        column_gaps.iter_mut().zip(&self.columns).for_each(|(gap, c)| *gap = -times * c);
        let mut squares = 0.0;
        let blocks = x.chunks(BLOCK * n).zip(u.chunks(BLOCK)).zip(self.rows.chunks(BLOCK)).zip(row_gaps.chunks_mut(BLOCK));
        for (((block, u), wanted), gaps) in blocks {
            partial.fill(0.0);
            for (((row, u), wanted), gap) in block.chunks_exact(n).zip(u).zip(wanted).zip(gaps) {
                let (sum, square) = row_sums(row, *u, v, partial, &part);
                *gap = sum - times * wanted;
                squares += square;
            }
            vec::add_scaled(column_gaps, 1.0, partial);
        }
        squares
    }

    /// Computes the mask at `z` and the diagonal of the Hessian.
    // Not inlined, for the same reason as `multiply`.
    #[inline(never)]
    fn mark(&self, x: &[f64], space: &mut Space, effort: &mut Effort) {
        effort.passes += 1;
        let (m, n) = (self.rows.len(), self.columns.len());
        let Space { z, bits, diagonal, .. } = space;
        let (u, v) = z.split_at(m);
        let (of_rows, of_columns) = diagonal.split_at_mut(m);
        of_columns.fill(0.0);
        let words = n.div_ceil(WORD);
        let (v, _) = v.as_chunks::<WORD>();
        let (of_columns, _) = of_columns.as_chunks_mut::<WORD>();
        for (((row, u), bits), count) in x.chunks_exact(n).zip(u).zip(bits.chunks_exact_mut(words)).zip(of_rows) {
            let (row, end) = row.as_chunks::<WORD>();
            // Padding behind the end of the row is never positive.
            let mut filled = [f64::NEG_INFINITY; WORD];
            filled.iter_mut().zip(end).for_each(|(filled, x)| *filled = *x);
            let mut ones = 0;
            for (((x, v), word), columns) in row.iter().chain([&filled]).zip(v).zip(bits).zip(of_columns.iter_mut()) {
                let pattern = mark_word(x, *u, v, columns);
                ones += pattern.count_ones();
                *word = f64::from_bits(pattern);
            }
            *count = f64::from(ones);
        }
    }

    fn largest(&self) -> f64 {
        self.rows.iter().chain(&self.columns).fold(0.0, |m, v| v.max(m))
    }

    /// Returns the largest error of the sums, in units of the largest one; NaN if any is NaN.
    fn residual(&self, grad: &[f64]) -> f64 {
        let most = grad.iter().fold(0.0_f64, |most, g| if g.abs() <= most { most } else { g.abs() });
        most / self.largest()
    }

    /// Estimates the rounding error of the sums in the same units: each of up to max(m, n) entries is off by the last digit of
    /// the numbers it was computed from.
    fn rounding(&self, x: &[f64], z: &[f64]) -> f64 {
        let size = |x: &[f64]| x.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        8.0 * f64::EPSILON * self.rows.len().max(self.columns.len()) as f64 * (size(x) + 2.0 * size(z)) / self.largest()
    }

    fn check(&self, psi: Psi) -> Result<()> {
        if psi.size.is_finite() {
            return Ok(());
        }
        Err(Error::NotFinite { what: format!("the squared length of the point for the {}", self.describe()), value: psi.size })
    }
}

impl Set for Transport {
    fn dim(&self) -> Option<usize> {
        Some(self.rows.len() * self.columns.len())
    }

    /// Rejects NaN and infinities and leaves `x` unchanged.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        self.project_counted(x, warm).map(|_| ())
    }

    /// Returns an upper bound, exact for the Birkhoff polytope: entries are at most `min(r_i, c_j)`, so `||P||^2` is at most `b
    /// = sum_i r_i min(r_i, max c)`, or the same with rows and columns exchanged; and `||P - Q||^2 <= ||P||^2 + ||Q||^2`
    /// because no entry is negative. The bound is `sqrt(2 b)`; a single row or column leaves one point.
    fn diameter(&self, _dim: usize) -> f64 {
        if self.rows.len() == 1 || self.columns.len() == 1 {
            return 0.0;
        }
        let bound = |some: &[f64], others: &[f64]| {
            let cap = others.iter().fold(0.0, |m: f64, v| m.max(*v));
            vec::sum_by(some.len(), |i| some[i] * some[i].min(cap))
        };
        (2.0 * bound(&self.rows, &self.columns).min(bound(&self.columns, &self.rows))).sqrt()
    }

    /// Not available: minimising a linear function over plans is a transport problem, which requires a method of its own.
    fn linear_minimizer(&self, _slope: &[f64], _out: &mut [f64]) -> Option<()> {
        None
    }

    fn describe(&self) -> String {
        let (m, n) = (self.rows.len(), self.columns.len());
        if self.rows.iter().chain(&self.columns).all(|s| *s == 1.0) {
            format!("Birkhoff polytope of {m} x {n} matrices")
        } else {
            format!("transport polytope of {m} x {n} matrices with total {}", vec::sum(&self.rows))
        }
    }
}

/// psi, the sum of the magnitudes of its parts, which determines its accuracy, and its quadratic part.
#[derive(Debug, Clone, Copy, Default)]
struct Psi {
    value: f64,
    size: f64,
    squares: f64,
}

/// Target of Newton's method: the sums times a factor, the tolerance and the largest number of steps.
#[derive(Debug, Clone, Copy)]
struct NewtonTarget {
    times: f64,
    tolerance: f64,
    steps: u64,
}

/// Working space: vectors of `u`, `v` and zeros up to whole words, one of a row's length, and the mask.
struct Space<'a> {
    z: &'a mut [f64],
    grad: &'a mut [f64],
    trial: &'a mut [f64],
    trial_grad: &'a mut [f64],
    d: &'a mut [f64],
    rest: &'a mut [f64],
    way: &'a mut [f64],
    image: &'a mut [f64],
    diagonal: &'a mut [f64],
    partial: &'a mut [f64],
    bits: &'a mut [f64],
}

impl<'a> Space<'a> {
    fn cut(mut numbers: &'a mut [f64], long: usize, padded: usize) -> Self {
        let mut next = |count: usize| {
            let (head, tail) = std::mem::take(&mut numbers).split_at_mut(count);
            numbers = tail;
            head
        };
        let (z, grad, trial, trial_grad, d) = (next(long), next(long), next(long), next(long), next(long));
        let (rest, way, image, diagonal, partial) = (next(long), next(long), next(long), next(long), next(padded));
        Space { z, grad, trial, trial_grad, d, rest, way, image, diagonal, partial, bits: numbers }
    }

    /// Replaces the point by the trial point.
    fn take_trial(&mut self) {
        std::mem::swap(&mut self.z, &mut self.trial);
        std::mem::swap(&mut self.grad, &mut self.trial_grad);
    }
}

/// Returns the positive part. `max` would replace NaN by zero.
#[inline(always)]
fn clip(y: f64) -> f64 {
    if y <= 0.0 { 0.0 } else { y }
}

/// Returns the amount by which `sum` falls short of `wanted`, or 0 if that is rounding.
fn missing(wanted: f64, sum: f64) -> f64 {
    let gap = wanted - sum;
    if gap > 4.0 * f64::EPSILON * wanted { gap } else { 0.0 }
}

/// Computes sum and sum of squares of one row of `part(x + u + v)`, and adds the row to `columns`.
#[inline(always)]
fn row_sums(row: &[f64], u: f64, v: &[f64], columns: &mut [f64], part: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut sums, mut squares) = ([0.0; 8], [0.0; 8]);
    let (row, row_end) = row.as_chunks::<8>();
    let (v, v_end) = v.as_chunks::<8>();
    let (columns, columns_end) = columns.as_chunks_mut::<8>();
    for ((x, v), columns) in row.iter().zip(v).zip(columns) {
        for k in 0..8 {
            let p = part(x[k] + (u + v[k]));
            sums[k] += p;
            squares[k] += p * p;
            columns[k] += p;
        }
    }
    for (((x, v), column), k) in row_end.iter().zip(v_end).zip(columns_end).zip(0..8) {
        let p = part(x + (u + v));
        sums[k] += p;
        squares[k] += p * p;
        *column += p;
    }
    (vec::sum(&sums), vec::sum(&squares))
}

/// Returns the bits of one word and adds them to `columns`. Comparing twice, for bytes and for numbers, lets both loops be
/// vectorised.
#[inline(always)]
fn mark_word(x: &[f64; WORD], u: f64, v: &[f64; WORD], columns: &mut [f64; WORD]) -> u64 {
    let (x, _) = x.as_chunks::<8>();
    let (v, _) = v.as_chunks::<8>();
    let (columns, _) = columns.as_chunks_mut::<8>();
    let mut pattern = 0;
    for (q, ((x, v), columns)) in x.iter().zip(v).zip(columns).enumerate() {
        let mut on = [0; 8];
        for k in 0..8 {
            on[k] = u8::from(x[k] + (u + v[k]) > 0.0);
        }
        for k in 0..8 {
            columns[k] += if x[k] + (u + v[k]) > 0.0 { 1.0 } else { 0.0 };
        }
        // The factor moves the lowest bit of byte k to bit 56 + k, without carries.
        pattern |= (u64::from_le_bytes(on).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * q);
    }
    pattern
}

/// Runs `work(i, row, partial)` on each row and accumulates `partial` into `sums`, block by block.
fn by_blocks(
    x: &mut [f64],
    n: usize,
    partial: &mut [f64],
    sums: &mut [f64],
    mut work: impl FnMut(usize, &mut [f64], &mut [f64]),
) {
    sums.fill(0.0);
    for (b, block) in x.chunks_mut(BLOCK * n).enumerate() {
        partial.fill(0.0);
        for (k, row) in block.chunks_exact_mut(n).enumerate() {
            work(b * BLOCK + k, row, partial);
        }
        vec::add_scaled(sums, 1.0, partial);
    }
}

/// Computes `image += [0, M; M^T, 0] way` for the mask `M` of `m` rows in `bits`.
// Not inlined: whole projections take about a sixth less time than with both functions inlined.
#[inline(never)]
fn multiply(bits: &[f64], way: &[f64], image: &mut [f64], m: usize) {
    let (of_rows, of_columns) = way.split_at(m);
    let (image_rows, image_columns) = image.split_at_mut(m);
    let (of_columns, _) = of_columns.as_chunks::<WORD>();
    let (image_columns, _) = image_columns.as_chunks_mut::<WORD>();
    for ((words, u), out) in bits.chunks_exact(of_columns.len()).zip(of_rows).zip(image_rows) {
        let mut sums = [0.0; 4];
        for ((word, v), columns) in words.iter().zip(of_columns).zip(image_columns.iter_mut()) {
            let mut pattern = word.to_bits();
            if pattern.count_ones() <= FEW {
                while pattern != 0 {
                    let k = pattern.trailing_zeros() as usize;
                    pattern &= pattern - 1;
                    if k < WORD {
                        sums[0] += v[k];
                        columns[k] += u;
                    }
                }
            } else {
                let (v, _) = v.as_chunks::<4>();
                let (columns, _) = columns.as_chunks_mut::<4>();
                for (v, columns) in v.iter().zip(columns) {
                    let on = &NIBBLES[(pattern & 15) as usize];
                    pattern >>= 4;
                    for k in 0..4 {
                        sums[k] += on[k] * v[k];
                        columns[k] += on[k] * u;
                    }
                }
            }
        }
        *out += (sums[0] + sums[2]) + (sums[1] + sums[3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};
    use crate::sets::testing;

    fn project(set: &Transport, x: &[f64]) -> Vec<f64> {
        let mut y = x.to_vec();
        set.project(&mut y, &mut Warm::default()).unwrap();
        y
    }

    fn close(got: &[f64], wanted: &[f64], tol: f64) {
        assert_eq!(got.len(), wanted.len());
        for (k, (g, w)) in got.iter().zip(wanted).enumerate() {
            assert!((g - w).abs() <= tol, "entry {k}: {g} against {w}");
        }
    }

    /// No entry is negative, and sums are right to the last digits.
    fn belongs(set: &Transport, p: &[f64]) {
        assert!(p.iter().all(|p| *p >= 0.0));
        let (m, n) = (set.rows.len(), set.columns.len());
        let largest = set.largest();
        for (i, r) in set.rows.iter().enumerate() {
            let sum = vec::sum(&p[i * n..(i + 1) * n]);
            assert!((sum - r).abs() <= 4e-15 * largest, "row {i}: {sum} against {r}");
        }
        for (j, c) in set.columns.iter().enumerate() {
            let sum = vec::sum_by(m, |i| p[i * n + j]);
            assert!((sum - c).abs() <= 4e-15 * largest, "column {j}: {sum} against {c}");
        }
    }

    fn random(rng: &mut Rng, count: usize, size: f64) -> Vec<f64> {
        (0..count).map(|_| size * ((0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0)).collect()
    }

    /// t with `sum max(0, y + t) = total`, by a full sort.
    fn level(y: &[f64], total: f64) -> f64 {
        let mut y = y.to_vec();
        y.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut t) = (0.0, total - y[0]);
        for (k, v) in y.iter().enumerate() {
            sum += v;
            let trial = (total - sum) / (k + 1) as f64;
            if v + trial > 0.0 {
                t = trial;
            }
        }
        t
    }

    /// By turns, each row and then each column is put right, until all of them are.
    fn twin(set: &Transport, x: &[f64]) -> Vec<f64> {
        let (m, n) = (set.rows.len(), set.columns.len());
        let (mut u, mut v) = (vec![0.0; m], vec![0.0; n]);
        for _ in 0..1_000_000 {
            for i in 0..m {
                u[i] = level(&(0..n).map(|j| x[i * n + j] + v[j]).collect::<Vec<_>>(), set.rows[i]);
            }
            let mut moved = 0.0_f64;
            for j in 0..n {
                let new = level(&(0..m).map(|i| x[i * n + j] + u[i]).collect::<Vec<_>>(), set.columns[j]);
                moved = moved.max((new - v[j]).abs());
                v[j] = new;
            }
            if moved <= 1e-14 {
                break;
            }
        }
        (0..m * n).map(|k| (x[k] + u[k / n] + v[k % n]).max(0.0)).collect()
    }

    /// Between the plan that fills row by row, with rows and columns in a random order, and the independent one.
    fn member(set: &Transport, draws: &[f64]) -> Vec<f64> {
        let (m, n) = (set.rows.len(), set.columns.len());
        let total: f64 = set.rows.iter().sum();
        let order = |count: usize, from: usize| {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| draws[(a + from) % draws.len()].total_cmp(&draws[(b + from) % draws.len()]));
            order
        };
        let (rows, columns) = (order(m, 0), order(n, 1));
        let (mut i, mut j, mut left, mut open) = (0, 0, set.rows.clone(), set.columns.clone());
        let mut corner = vec![0.0; m * n];
        while i < m && j < n {
            let (a, b) = (rows[i], columns[j]);
            let moved = left[a].min(open[b]);
            corner[a * n + b] += moved;
            left[a] -= moved;
            open[b] -= moved;
            if left[a] <= open[b] { i += 1 } else { j += 1 }
        }
        let t = draws[0];
        (0..m * n).map(|k| t * corner[k] + (1.0 - t) * set.rows[k / n] * set.columns[k % n] / total).collect()
    }

    #[test]
    fn known_answers() {
        let half = || Transport::uniform(2, 2).unwrap();
        let unequal = || Transport::uniform(2, 3).unwrap();
        let (a, b, c) = (1.0 / 3.0, 1.0 / 6.0, 1.0 / 12.0);
        let cases: [(Transport, &[f64], &[f64]); 8] = [
            (Transport::birkhoff(2).unwrap(), &[0.9, 0.3, 0.1, 0.2], &[0.675, 0.325, 0.325, 0.675]),
            (Transport::birkhoff(2).unwrap(), &[3.0, 0.0, 0.0, 1.0], &[1.0, 0.0, 0.0, 1.0]),
            (half(), &[0.3, 0.0, 0.2, 0.4], &[0.375, 0.125, 0.125, 0.375]),
            (Transport::birkhoff(3).unwrap(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[a; 9]),
            (unequal(), &[0.0; 6], &[b; 6]),
            (unequal(), &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[a, c, c, 0.0, 0.25, 0.25]),
            (Transport::new(vec![2.0], vec![0.5, 1.5]).unwrap(), &[7.0, -3.0], &[0.5, 1.5]),
            // A row that must vanish.
            (Transport::new(vec![0.0, 1.0], vec![0.5, 0.5]).unwrap(), &[5.0, 1.0, -2.0, 0.0], &[0.0, 0.0, 0.5, 0.5]),
        ];
        for (set, x, wanted) in cases {
            let got = project(&set, x);
            close(&got, wanted, 1e-14);
            belongs(&set, &got);
        }
    }

    #[test]
    fn two_by_two_has_a_closed_form() {
        let mut rng = Rng::new(5, Purpose::Data);
        for _ in 0..200 {
            let x = random(&mut rng, 4, 1.0);
            let t = ((x[0] + x[3] + 2.0 - x[1] - x[2]) / 4.0).clamp(0.0, 1.0);
            close(&project(&Transport::birkhoff(2).unwrap(), &x), &[t, 1.0 - t, 1.0 - t, t], 1e-13);
        }
    }

    #[test]
    fn a_large_permutation_stays_itself() {
        let n = 50;
        for factor in [1.0, 1.5, 40.0] {
            let plan: Vec<f64> = (0..n * n).map(|k| if (7 * (k / n) + 3) % n == k % n { 1.0 } else { 0.0 }).collect();
            let x: Vec<f64> = plan.iter().map(|p| factor * p).collect();
            assert_eq!(project(&Transport::birkhoff(n).unwrap(), &x), plan);
        }
    }

    #[test]
    fn agrees_with_an_independent_implementation() {
        // X_ij = sin(3 i + 5 j), i and j from 1: distance, Frobenius norm, number of positive entries, some entries.
        type Case = (usize, f64, f64, usize, &'static [(usize, usize, f64)]);
        let cases: [Case; 2] = [
            (
                3,
                1.7562167066635481,
                1.4207157873666827,
                5,
                &[
                    (1, 1, 0.43211526594120575),
                    (1, 2, 0.5678847340587942),
                    (2, 1, 0.0),
                    (2, 3, 1.0),
                    (3, 1, 0.5678847340587942),
                    (3, 3, 0.0),
                ],
            ),
            (
                10,
                6.19664244461803,
                1.7169228031464248,
                43,
                &[
                    (1, 1, 0.25332916466122113),
                    (1, 2, 0.2881784259018015),
                    (2, 4, 0.45740384479069174),
                    (2, 5, 0.0),
                    (2, 9, 0.39563076877743264),
                    (7, 3, 0.0),
                    (10, 7, 0.44931445870825154),
                    (10, 10, 0.0),
                ],
            ),
        ];
        for (n, distance, norm, positive, entries) in cases {
            let set = Transport::birkhoff(n).unwrap();
            let x: Vec<f64> = (0..n * n).map(|k| ((3 * (k / n + 1) + 5 * (k % n + 1)) as f64).sin()).collect();
            let p = project(&set, &x);
            belongs(&set, &p);
            assert!((set.distance(&x).unwrap() - distance).abs() < 1e-13);
            assert!((vec::norm(&p) - norm).abs() < 1e-13);
            assert_eq!(p.iter().filter(|p| **p > 1e-13).count(), positive);
            for (i, j, value) in entries {
                assert!((p[(i - 1) * n + j - 1] - value).abs() < 1e-13, "entry {i}, {j}");
            }
        }
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        let sets = [
            Transport::birkhoff(3).unwrap(),
            Transport::uniform(2, 5).unwrap(),
            Transport::new(vec![7.0, 0.5, 0.0, 2.5], vec![4.0, 1.0, 5.0]).unwrap(),
            Transport::new(vec![3e-3, 1e-3], vec![4e-3]).unwrap(),
        ];
        for set in sets {
            let dim = set.dim().unwrap();
            testing::check_set_without_minimisers(&set, dim, |u| member(&set, u), |x| twin(&set, x));
        }
    }

    #[test]
    fn both_methods_and_the_twin_agree_on_any_size() {
        let mut rng = Rng::new(2, Purpose::Data);
        for (m, n) in [(1, 100), (100, 1), (7, 48), (33, 49), (64, 97), (120, 20)] {
            for size in [0.01, 1.0] {
                let rows: Vec<f64> = (0..m).map(|_| 0.1 + rng.uniform()).collect();
                let columns: Vec<f64> = (0..n).map(|_| 0.1 + rng.uniform()).collect();
                let share = vec::sum(&rows) / vec::sum(&columns);
                let set = Transport::new(rows, columns.iter().map(|c| c * share).collect()).unwrap();
                let x = random(&mut rng, m * n, size);
                let (mut fast, mut slow) = (x.clone(), x.clone());
                let effort = set.project_counted(&mut fast, &mut Warm::default()).unwrap();
                assert_eq!(effort.gradient_steps, 0);
                let effort = set.project_within(&mut slow, &mut Warm::default(), 0).unwrap();
                assert_eq!((effort.steps, effort.products), (0, 0));
                belongs(&set, &fast);
                belongs(&set, &slow);
                close(&fast, &slow, 1e-9 * set.largest());
                close(&fast, &twin(&set, &x), 1e-9 * set.largest());
                close(&project(&set, &fast), &fast, 1e-13 * set.largest());
            }
        }
    }

    #[test]
    fn products_are_those_with_the_hessian() {
        let mut rng = Rng::new(8, Purpose::Data);
        for (m, n, size) in [(5, 100, 1.0), (9, 48, 0.3), (3, 7, 1.0), (4, 145, 20.0)] {
            let set = Transport::birkhoff(m.max(n)).unwrap();
            let set = Transport { rows: set.rows[..m].to_vec(), columns: set.columns[..n].to_vec() };
            let x: Vec<f64> = random(&mut rng, m * n, 1.0).iter().map(|x| x - 0.1 * size).collect();
            let padded = n.div_ceil(WORD) * WORD;
            let long = m + padded;
            let mut numbers = vec![0.0; 9 * long + padded + m * padded / WORD];
            let mut space = Space::cut(&mut numbers, long, padded);
            space.z[..m + n].copy_from_slice(&random(&mut rng, m + n, 0.5));
            space.way[..m + n].copy_from_slice(&random(&mut rng, m + n, 1.0));
            set.mark(&x, &mut space, &mut Effort::default());
            let (z, way) = (space.z.to_vec(), space.way.to_vec());
            let mut wanted = vec![0.0; long];
            let mut counts = vec![0.0; long];
            for (k, x) in x.iter().enumerate() {
                let (i, j) = (k / n, m + k % n);
                if x + (z[i] + z[j]) > 0.0 {
                    wanted[i] += way[j];
                    wanted[j] += way[i];
                    counts[i] += 1.0;
                    counts[j] += 1.0;
                }
            }
            multiply(space.bits, &way, space.image, m);
            close(space.image, &wanted, 1e-12);
            assert_eq!(space.diagonal, counts);
        }
    }

    #[test]
    fn a_warm_start_gives_the_same_and_takes_less() {
        let mut rng = Rng::new(4, Purpose::Data);
        let (m, n) = (60, 80);
        let set = Transport::uniform(m, n).unwrap();
        let unit = 1.0 / (m * n) as f64;
        let mut plan = random(&mut rng, m * n, 10.0 * unit);
        let mut warm = Warm::default();
        let first = set.project_counted(&mut plan, &mut warm).unwrap();
        assert_eq!(warm.values.len(), m + n);
        assert!(warm.parts.iter().all(|part| part.values.is_empty()));
        let cost = random(&mut rng, m * n, 1e-3 * unit);
        let mut x = random(&mut Rng::new(4, Purpose::Data), m * n, 10.0 * unit);
        let (mut warm_passes, mut cold_passes) = (0, 0);
        for _ in 0..10 {
            x.iter_mut().zip(&cost).for_each(|(x, c)| *x -= c);
            let (mut a, mut b) = (x.clone(), x.clone());
            let effort = set.project_counted(&mut a, &mut warm).unwrap();
            let cold = set.project_counted(&mut b, &mut Warm::default()).unwrap();
            close(&a, &b, 1e-9 * unit);
            belongs(&set, &a);
            warm_passes += effort.passes + effort.products;
            cold_passes += cold.passes + cold.products;
        }
        assert!(3 * warm_passes < 2 * cold_passes, "{warm_passes} against {cold_passes}");
        // The same point again: check, value, result.
        let mut again = x.clone();
        let effort = set.project_counted(&mut again, &mut warm).unwrap();
        assert_eq!((effort.steps, effort.products), (0, 0));
        assert!(effort.passes <= 5 && first.passes > 5, "{effort:?} after {first:?}");
        // A member stays as it is, to the last bit, after one look; one that is not quite a member does not.
        let mut member = again.clone();
        let effort = set.project_counted(&mut member, &mut warm).unwrap();
        assert_eq!((effort, &member), (Effort { passes: 1, ..Effort::default() }, &again));
        member[3] -= 1e-9 * unit;
        assert!(set.project_counted(&mut member, &mut warm).unwrap().passes > 1);
        // A start that is worse than none is not used.
        let mut far = Warm::from(random(&mut rng, m + n, 1e6));
        let mut b = x.clone();
        set.project_counted(&mut b, &mut far).unwrap();
        close(&again, &b, 1e-9 * unit);
        let mut strange = Warm::from(vec![f64::NAN; m + n]);
        set.project_counted(&mut x, &mut strange).unwrap();
        close(&again, &x, 1e-9 * unit);
    }

    #[test]
    fn size_and_unit_do_not_matter() {
        let mut rng = Rng::new(6, Purpose::Data);
        let (m, n) = (20, 30);
        let (r, c) = (vec![0.5; m], vec![1.0 / 3.0; n]);
        let set = Transport::new(r.clone(), c.clone()).unwrap();
        let x = random(&mut rng, m * n, 1.0);
        let p = project(&set, &x);
        // Powers of two change no digit.
        for unit in [2_f64.powi(-300), 2_f64.powi(-20), 2_f64.powi(200)] {
            let times = |x: &[f64]| x.iter().map(|x| unit * x).collect::<Vec<_>>();
            let other = Transport::new(times(&r), times(&c)).unwrap();
            close(&times(&p), &project(&other, &times(&x)), 1e-13 * unit);
        }
        // Constants of rows and columns do not count, but cost the digits that they take from the entries.
        for size in [1e3, 1e6, 1e9] {
            let (u, v) = (random(&mut rng, m, size), random(&mut rng, n, size));
            let far: Vec<f64> = (0..m * n).map(|k| x[k] + u[k / n] + v[k % n]).collect();
            let got = project(&set, &far);
            belongs(&set, &got);
            close(&got, &p, 1e-13 + 1e-14 * size);
        }
        // Entries that dwarf the sums: a vertex, the assignment of the largest total.
        let set = Transport::birkhoff(20).unwrap();
        for size in [1e2, 1e5, 1e10] {
            let got = project(&set, &random(&mut rng, 400, size));
            belongs(&set, &got);
            let ones = got.iter().filter(|p| (*p - 1.0).abs() < 1e-9).count();
            assert!(size < 1e3 || ones == 20, "{ones} ones for entries of size {size}");
        }
    }

    #[test]
    fn nan_and_infinity_are_refused_and_leave_the_point() {
        let set = Transport::birkhoff(2).unwrap();
        let mut warm = Warm::default();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for _ in 0..2 {
                let mut x = [0.9, 0.3, bad, 0.2];
                let message = set.project(&mut x, &mut warm).unwrap_err().to_string();
                let start = "entry 3 of the point for the Birkhoff polytope of 2 x 2 matrices is";
                assert_eq!(message, format!("{start} {bad}; expected a finite number"));
                assert_eq!((x[0], x[1], x[3]), (0.9, 0.3, 0.2));
                assert!(set.distance(&x).is_err());
                // With dual variables at hand it is refused as well.
                set.project(&mut [0.9, 0.3, 0.1, 0.2], &mut warm).unwrap();
            }
        }
        let mut x = [1e200, 0.0, 0.0, 0.0];
        let message = set.project(&mut x, &mut warm).unwrap_err().to_string();
        assert_eq!(
            message,
            "the squared length of the point for the Birkhoff polytope of 2 x 2 matrices is inf; expected a finite number"
        );
        assert_eq!(x, [1e200, 0.0, 0.0, 0.0]);
        let mut x = [0.9, 0.3, 0.1, 0.2];
        set.project(&mut x, &mut warm).unwrap();
        close(&x, &[0.675, 0.325, 0.325, 0.675], 1e-14);
    }

    #[test]
    fn diameters_are_bounds() {
        assert!((Transport::birkhoff(3).unwrap().diameter(9) - 6_f64.sqrt()).abs() < 1e-15);
        assert_eq!(Transport::new(vec![1.0], vec![0.5, 0.5]).unwrap().diameter(2), 0.0);
        // Columns of 1/4 cap the rows of 1/2: ||P||^2 <= 1/4.
        assert!((Transport::uniform(2, 4).unwrap().diameter(8) - 0.5_f64.sqrt()).abs() < 1e-15);
        assert_eq!(Transport::birkhoff(3).unwrap().linear_minimizer(&[0.0; 9], &mut [0.0; 9]), None);
    }

    #[test]
    fn bad_arguments_are_refused_with_a_sentence() {
        let refuse = |r: &[f64], c: &[f64]| Transport::new(r.to_vec(), c.to_vec()).unwrap_err().to_string();
        assert_eq!(refuse(&[], &[1.0]), "a transport polytope has no row sums; expected at least one");
        assert_eq!(refuse(&[1.0], &[]), "a transport polytope has no column sums; expected at least one");
        let wanted = "of the transport polytope";
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                refuse(&[1.0, bad], &[1.0]),
                format!("row sum 2 {wanted} must be a finite number, 0 or larger, got {bad}")
            );
            assert_eq!(refuse(&[1.0], &[bad]), format!("column sum 1 {wanted} must be a finite number, 0 or larger, got {bad}"));
        }
        assert_eq!(
            refuse(&[0.0], &[0.0]),
            format!("total of the row sums {wanted} must be a finite number larger than 0, got 0")
        );
        assert_eq!(
            refuse(&[1.0, 1.0], &[1.0, 1.5]),
            format!("total of the column sums {wanted} must be 2, the total of its row sums, to 1e-12 of it, got 2.5")
        );
        assert!(refuse(&[1.0], &[1.0 + 3e-12]).contains("to 1e-12"));
        let set = Transport::new(vec![1.0, 1.0], vec![2.0 * (1.0 + 5e-13)]).unwrap();
        assert_eq!((set.row_sums(), set.column_sums()), (&[1.0, 1.0][..], &[2.0][..]));
        assert!(Transport::uniform(0, 3).is_err() && Transport::birkhoff(0).is_err());
        let set = Transport::uniform(2, 3).unwrap();
        let message = set.project(&mut [0.0; 5], &mut Warm::default()).unwrap_err().to_string();
        assert_eq!(message, "the point for the transport polytope of 2 x 3 matrices with total 1 has 5 entries; expected 6");
    }
}
