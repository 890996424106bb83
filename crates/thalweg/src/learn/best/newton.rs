//! Newton's method with a line search on a smooth convex sum: logistic losses and l2. A sum with kinks is minimised in
//! `interior.rs`.

use super::sum::Sum;
use crate::math::cholesky::Cholesky;
use crate::math::vec;

/// A variable does not move if its pivot is at most this fraction of its diagonal entry: a few roundings.
pub(super) fn least_pivot(dim: usize) -> f64 {
    (8.0 + dim as f64) * f64::EPSILON
}

/// Fraction of the gradient's norm that is added to the diagonal, which keeps steps finite where there is no curvature.
const DAMPING: f64 = 1e-2;
/// A line search ends where the slope is at most this fraction of the first one.
const LINE: f64 = 0.1;
/// Largest number of doublings, and of other trials, of a line search.
const TRIALS: usize = 40;
/// Largest number of steps of the conjugate gradient method.
const CONJUGATE: usize = 400;

/// Newton's method, with everything that was computed at its point.
pub(super) struct Newton<'a> {
    sum: &'a Sum<'a>,
    /// Scaled variables.
    pub(super) u: Vec<f64>,
    pub(super) scores: Vec<f64>,
    /// Coefficient of an additional `||w||^2 / 2`, intercept included.
    pub(super) pull: f64,
    /// Passes over the rows, and their number after which no step is begun.
    pub(super) evaluations: u64,
    pub(super) most: u64,
    slopes: Vec<f64>,
    curvatures: Vec<f64>,
    grad: Vec<f64>,
}

impl<'a> Newton<'a> {
    /// Starts at 0.
    pub(super) fn new(sum: &'a Sum<'a>) -> Self {
        let (n, d) = (sum.count(), sum.dim());
        Newton {
            sum,
            u: vec![0.0; d],
            scores: vec![0.0; n],
            pull: 0.0,
            evaluations: 0,
            most: u64::MAX,
            slopes: vec![0.0; n],
            curvatures: vec![0.0; n],
            grad: vec![0.0; d],
        }
    }

    /// Returns the coefficient of `u_j^2 / 2`.
    fn square(&self, j: usize) -> f64 {
        self.sum.coefficients(j).0 + self.pull / (self.sum.scale[j] * self.sum.scale[j])
    }

    /// Takes at most `steps` steps, until Newton's decrement, an estimate of the distance to the smallest value, is at most
    /// `tolerance` of the value. Returns whether that was reached.
    pub(super) fn descend(&mut self, steps: usize, tolerance: impl Fn(f64) -> f64) -> bool {
        for _ in 0..steps {
            if self.evaluations > self.most {
                return false;
            }
            self.evaluations += 1;
            self.slopes.fill(0.0);
            self.curvatures.fill(0.0);
            let mut value = self.sum.logistic(&self.scores, &mut self.slopes, &mut self.curvatures);
            value += self.u.iter().enumerate().map(|(j, u)| 0.5 * self.square(j) * u * u).sum::<f64>();
            let (step, decrement) = self.direction();
            if decrement <= tolerance(value) || decrement.is_nan() {
                return true;
            }
            if !self.search(&step) {
                return false;
            }
        }
        false
    }

    /// Computes Newton's step and its decrement.
    fn direction(&mut self) -> (Vec<f64>, f64) {
        let (sum, d) = (self.sum, self.u.len());
        sum.pull(&self.slopes, &mut self.grad);
        let mut diagonal: Vec<f64> = (0..d).map(|j| self.square(j)).collect();
        self.grad.iter_mut().zip(&self.u).zip(&diagonal).for_each(|((g, u), l2)| *g += l2 * u);
        let damping = DAMPING * vec::norm(&self.grad) / (1.0 + vec::norm(&self.u));
        let mut step: Vec<f64> = self.grad.iter().map(|g| -g).collect();
        if sum.dense(d) {
            let all: Vec<usize> = (0..d).collect();
            let m = sum.moments(&self.curvatures, &all);
            self.evaluations += 1;
            diagonal.iter_mut().for_each(|v| *v += damping);
            Cholesky::semidefinite(&m, &diagonal, least_pivot(d)).solve(&mut step);
        } else {
            let rhs = step.clone();
            let squares = sum.squares(&self.curvatures);
            diagonal.iter_mut().for_each(|v| *v += damping);
            let most = f64::min(0.1, vec::norm(&rhs).sqrt());
            self.evaluations += conjugate(sum, &self.curvatures, &diagonal, &squares, &rhs, most, &mut step);
        }
        let decrement = -vec::dot(&self.grad, &step);
        (step, decrement)
    }

    /// Moves along a direction to a point where the slope is small. Returns false if there is none.
    fn search(&mut self, step: &[f64]) -> bool {
        let mut along = vec![0.0; self.scores.len()];
        self.sum.scores(step, &mut along);
        self.evaluations += 1;
        let slope = |t: f64| {
            let penalties = self.u.iter().zip(step).enumerate().map(|(j, (u, s))| s * self.square(j) * (u + t * s));
            self.sum.slope_along(&self.scores, &along, t) + penalties.sum::<f64>()
        };
        let first = slope(0.0);
        if first >= 0.0 || first.is_nan() {
            return false;
        }
        let close = |v: f64| v.abs() <= -LINE * first;
        let (mut low, mut t, mut at) = (0.0, 1.0, slope(1.0));
        for _ in 0..TRIALS {
            if at >= 0.0 || at.is_nan() || close(at) {
                break;
            }
            low = t;
            t *= 2.0;
            at = slope(t);
        }
        let mut high = t;
        for _ in 0..TRIALS {
            if close(at) {
                break;
            }
            t = 0.5 * (low + high);
            at = slope(t);
            if at < 0.0 { low = t } else { high = t }
        }
        // Below the lower end the slope is negative, so the value there is smaller than at the start.
        let t = if close(at) { t } else { low };
        if !(t > 0.0 && t.is_finite()) {
            return false;
        }
        vec::add_scaled(&mut self.u, t, step);
        self.sum.scores(&self.u, &mut self.scores);
        true
    }
}

/// Solves `(M + diagonal) x = rhs` by the conjugate gradient method with diagonal scaling, where M are the second moments with
/// these weights, until the residual is `most` times the right-hand side. Returns the passes over the rows.
pub(super) fn conjugate(
    sum: &Sum,
    weights: &[f64],
    diagonal: &[f64],
    squares: &[f64],
    rhs: &[f64],
    most: f64,
    x: &mut [f64],
) -> u64 {
    let d = x.len();
    let inverse: Vec<f64> = squares.iter().zip(diagonal).map(|(s, v)| if s + v > 0.0 { 1.0 / (s + v) } else { 0.0 }).collect();
    let mut along = vec![0.0; weights.len()];
    let (mut product, mut residual) = (vec![0.0; d], rhs.to_vec());
    x.fill(0.0);
    let mut scaled: Vec<f64> = residual.iter().zip(&inverse).map(|(r, v)| r * v).collect();
    let mut direction = scaled.clone();
    let mut size = vec::dot(&residual, &scaled);
    let wanted = most * size.sqrt();
    let mut passes = 0;
    for _ in 0..CONJUGATE.min(2 * d + 10) {
        if size.sqrt() <= wanted || size.is_nan() {
            break;
        }
        sum.scores(&direction, &mut along);
        along.iter_mut().zip(weights).for_each(|(a, w)| *a *= w);
        sum.pull(&along, &mut product);
        passes += 1;
        product.iter_mut().zip(diagonal).zip(&direction).for_each(|((p, v), s)| *p += v * s);
        let bend = vec::dot(&direction, &product);
        if bend <= 0.0 || bend.is_nan() {
            break;
        }
        let t = size / bend;
        vec::add_scaled(x, t, &direction);
        vec::add_scaled(&mut residual, -t, &product);
        scaled.iter_mut().zip(&residual).zip(&inverse).for_each(|((s, r), v)| *s = r * v);
        let next = vec::dot(&residual, &scaled);
        let share = next / size;
        size = next;
        direction.iter_mut().zip(&scaled).for_each(|(d, s)| *d = s + share * *d);
    }
    passes
}
