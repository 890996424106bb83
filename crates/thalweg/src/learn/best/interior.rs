//! A primal-dual interior point method (Mehrotra's predictor and corrector) for convex sums with kinks. It stops by its own
//! duality gap; what is proved is decided in `dual.rs`.
//!
//! A kink is `q max(0, z)` with z affine in the variables: a hinge loss has `z = 1 - label score`, and `l1 |u|` is
//! `2 l1 max(0, u) - l1 u`. With `xi >= max(0, z)`, the slack `s = xi - z` and multipliers `p` and `rho`, the conditions are
//!
//! ```text
//! p + rho = q,    p s = rho xi = q tau,    grad g(u) + sum of p grad z = 0,
//! ```
//!
//! where g is the smooth part and tau goes to 0.

use super::newton::PIVOT;
use super::sum::Sum;
use crate::math::cholesky::Cholesky;
use crate::math::vec;

/// Fraction of the way to the boundary that a step takes.
const FRACTION: f64 = 0.99;
/// Largest number of further correctors in a step (Gondzio, Multiple centrality corrections, 1996).
const CORRECTORS: usize = 3;
/// Part of the gap that is the coefficient of `u_j^2 / 2` while minimising. It keeps the variables finite in directions in which
/// the sum is flat, and goes to 0 with the gap.
const FLAT: f64 = 1e-3;
/// Half widths of kinks at the start.
const START: f64 = 1.0;

/// One kink.
#[derive(Debug, Clone, Copy)]
enum Kink {
    /// A hinge loss: term, entry of the term, row and label.
    Loss { term: usize, entry: usize, row: usize, label: f64 },
    /// The absolute value of a variable.
    Variable(usize),
}

/// Values that belong to one kink.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    xi: f64,
    s: f64,
    p: f64,
    rho: f64,
}

/// The method and its point.
pub(super) struct Interior<'a> {
    sum: &'a Sum<'a>,
    /// Scaled variables.
    pub(super) u: Vec<f64>,
    pub(super) scores: Vec<f64>,
    /// Passes over the rows.
    pub(super) evaluations: u64,
    /// Product of the last step and the residual before it, an estimate of what the smooth part can still decrease.
    decrement: f64,
    kinks: Vec<Kink>,
    q: Vec<f64>,
    at: Vec<Pair>,
    /// Coefficient of an additional `||w||^2 / 2`, intercept included.
    pull: f64,
    slopes: Vec<f64>,
    curvatures: Vec<f64>,
}

/// A factored system and its residual.
struct System {
    factor: Cholesky,
    residual: Vec<f64>,
}

/// A step in all variables.
struct Step {
    u: Vec<f64>,
    pairs: Vec<Pair>,
}

impl<'a> Interior<'a> {
    /// Starts at 0, with a coefficient of an additional `||w||^2 / 2`.
    pub(super) fn new(sum: &'a Sum<'a>, pull: f64) -> Self {
        let (n, d) = (sum.count(), sum.dim());
        let (mut kinks, mut q) = (vec![], vec![]);
        for (at, term) in sum.terms.iter().enumerate().filter(|(_, t)| !t.logistic) {
            // A row of weight 0 has no kink.
            for (entry, &weight) in term.weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                kinks.push(Kink::Loss { term: at, entry, row: term.row(entry), label: term.labels[entry] });
                q.push(weight);
            }
        }
        for j in 0..d {
            let l1 = sum.coefficients(j).1;
            if l1 > 0.0 {
                kinks.push(Kink::Variable(j));
                q.push(2.0 * l1);
            }
        }
        let mut method = Interior {
            sum,
            u: vec![0.0; d],
            scores: vec![0.0; n],
            evaluations: 0,
            decrement: f64::INFINITY,
            at: vec![Pair::default(); kinks.len()],
            kinks,
            q,
            pull,
            slopes: vec![0.0; n],
            curvatures: vec![0.0; n],
        };
        for k in 0..method.kinks.len() {
            let (z, q) = (method.argument(k), method.q[k]);
            let root = (z * z + 4.0 * START * START).sqrt();
            let xi = START + 0.5 * (root + z);
            let s = START + 0.5 * (root - z);
            method.at[k] = Pair { xi, s, p: q * START / s, rho: q * START / xi };
        }
        method
    }

    /// Returns the argument z of a kink.
    fn argument(&self, k: usize) -> f64 {
        match self.kinks[k] {
            Kink::Loss { row, label, .. } => 1.0 - label * self.scores[row],
            Kink::Variable(j) => self.u[j],
        }
    }

    /// Returns the gap between the values of the primal and the dual problem, if both are feasible.
    pub(super) fn gap(&self) -> f64 {
        self.at.iter().map(|pair| pair.p * pair.s + pair.rho * pair.xi).sum()
    }

    /// Returns an estimate of the distance to the smallest value.
    pub(super) fn distance(&self) -> f64 {
        self.gap() + self.decrement
    }

    /// Returns the value of the sum, with the additional squared norm.
    pub(super) fn value(&mut self) -> f64 {
        let kinks: f64 = (0..self.kinks.len()).map(|k| self.q[k] * self.argument(k).max(0.0)).sum();
        kinks + self.smooth().0
    }

    /// Returns the multipliers of the losses, in [0, 1], by terms.
    pub(super) fn multipliers(&self) -> Vec<Vec<f64>> {
        let one = |term: &super::sum::MeanLoss| {
            if term.logistic { Sum::multipliers(term, &self.scores) } else { vec![0.0; term.weights.len()] }
        };
        let mut all: Vec<Vec<f64>> = self.sum.terms.iter().map(one).collect();
        for (kink, pair) in self.kinks.iter().zip(&self.at) {
            if let Kink::Loss { term, entry, .. } = *kink {
                all[term][entry] = pair.p / (pair.p + pair.rho);
            }
        }
        all
    }

    /// Returns the coefficient of `u_j^2 / 2`.
    fn square(&self, j: usize) -> f64 {
        self.sum.coefficients(j).0 + self.pull / (self.sum.scale[j] * self.sum.scale[j])
    }

    /// Computes the value and the gradient of the smooth part. Second derivatives with respect to the scores stay in the buffer.
    fn smooth(&mut self) -> (f64, Vec<f64>) {
        let (mut value, mut grad) = (0.0, vec![0.0; self.u.len()]);
        self.curvatures.fill(0.0);
        if self.sum.terms.iter().any(|t| t.logistic) {
            self.slopes.fill(0.0);
            value += self.sum.logistic(&self.scores, &mut self.slopes, &mut self.curvatures);
            self.sum.pull(&self.slopes, &mut grad);
        }
        for (j, (grad, u)) in grad.iter_mut().zip(&self.u).enumerate() {
            let (l2, l1) = (self.square(j), self.sum.coefficients(j).1);
            value += 0.5 * l2 * u * u - l1 * u;
            *grad += l2 * u - l1;
        }
        (value, grad)
    }

    /// Computes the sum of `value(k)` times the gradient of the argument of kink k.
    fn gather(&mut self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut out = vec![0.0; self.u.len()];
        self.slopes.fill(0.0);
        for (k, kink) in self.kinks.iter().enumerate() {
            if let Kink::Loss { row, label, .. } = *kink {
                self.slopes[row] -= label * value(k);
            }
        }
        self.sum.pull(&self.slopes, &mut out);
        for (k, kink) in self.kinks.iter().enumerate() {
            if let Kink::Variable(j) = *kink {
                out[j] += value(k);
            }
        }
        out
    }

    /// Takes one step. Returns false if none is possible.
    pub(super) fn step(&mut self) -> bool {
        let system = self.system();
        let gap = self.gap();
        let tau = gap / (2.0 * self.q.iter().sum::<f64>().max(f64::MIN_POSITIVE));
        let mut targets: Vec<(f64, f64)> = self.at.iter().map(|pair| (-pair.p * pair.s, -pair.rho * pair.xi)).collect();
        let predictor = self.solve(&system, &targets);
        let after = self.gap_after(&predictor, self.length(&predictor, 1.0));
        let tau = (after / gap).clamp(0.0, 1.0).powi(3) * tau;
        for ((target, step), q) in targets.iter_mut().zip(&predictor.pairs).zip(&self.q) {
            target.0 += q * tau - step.p * step.s;
            target.1 += q * tau - step.rho * step.xi;
        }
        let mut step = self.solve(&system, &targets);
        let mut length = self.length(&step, FRACTION);
        for _ in 0..CORRECTORS {
            if length > 0.9 {
                break;
            }
            // Products far from the others limit the next steps.
            let trial = (length + 0.3).min(1.0);
            let mut others = targets.clone();
            for (((pair, by), q), target) in self.at.iter().zip(&step.pairs).zip(&self.q).zip(&mut others) {
                let towards = |product: f64| (product.clamp(0.1 * q * tau, 10.0 * q * tau) - product).max(-10.0 * q * tau);
                target.0 += towards((pair.p + trial * by.p) * (pair.s + trial * by.s));
                target.1 += towards((pair.rho + trial * by.rho) * (pair.xi + trial * by.xi));
            }
            let other = self.solve(&system, &others);
            let reached = self.length(&other, FRACTION);
            if reached <= length + 0.03 {
                break;
            }
            (step, length, targets) = (other, reached, others);
        }
        if length <= 1e-10 || step.u.iter().any(|v| !v.is_finite()) {
            return false;
        }
        self.decrement = vec::dot(&system.residual, &step.u).abs();
        vec::add_scaled(&mut self.u, length, &step.u);
        self.sum.scores(&self.u, &mut self.scores);
        for (pair, by) in self.at.iter_mut().zip(&step.pairs) {
            pair.xi += length * by.xi;
            pair.s += length * by.s;
            pair.p += length * by.p;
            pair.rho += length * by.rho;
        }
        true
    }

    /// Computes and factors the matrix of a step.
    fn system(&mut self) -> System {
        let d = self.u.len();
        let (_, grad) = self.smooth();
        let at = std::mem::take(&mut self.at);
        let mut residual = self.gather(|k| at[k].p);
        self.at = at;
        let flat = if self.pull > 0.0 { 0.0 } else { FLAT * self.gap() };
        let mut diagonal = vec![0.0; d];
        for j in 0..d {
            residual[j] += grad[j] + flat * self.u[j];
            diagonal[j] = self.square(j) + flat;
        }
        let mut weights = self.curvatures.clone();
        for (kink, pair) in self.kinks.iter().zip(&self.at) {
            let h = 1.0 / (pair.s / pair.p + pair.xi / pair.rho);
            match *kink {
                Kink::Loss { row, .. } => weights[row] += h,
                Kink::Variable(j) => diagonal[j] += h,
            }
        }
        let all: Vec<usize> = (0..d).collect();
        let factor = Cholesky::semidefinite(&self.sum.moments(&weights, &all), &diagonal, PIVOT);
        self.evaluations += 2;
        System { factor, residual }
    }

    /// Solves for a step that changes the products `p s` and `rho xi` of each kink by the targets, to first order.
    fn solve(&mut self, system: &System, targets: &[(f64, f64)]) -> Step {
        let right: Vec<f64> = self
            .at
            .iter()
            .zip(targets)
            .map(|(&Pair { xi, s, p, rho }, (first, second))| (first * rho - p * second) / (rho * s + p * xi))
            .collect();
        let mut u = self.gather(|k| right[k]);
        u.iter_mut().zip(&system.residual).for_each(|(u, r)| *u = -r - *u);
        system.factor.solve(&mut u);
        let mut scores = vec![0.0; self.scores.len()];
        self.sum.scores(&u, &mut scores);
        self.evaluations += 1;
        let one = |k: usize| {
            let z = match self.kinks[k] {
                Kink::Loss { row, label, .. } => -label * scores[row],
                Kink::Variable(j) => u[j],
            };
            let Pair { xi, s, p, rho } = self.at[k];
            let by_p = right[k] + p * rho * z / (rho * s + p * xi);
            let by_xi = (targets[k].1 + xi * by_p) / rho;
            Pair { xi: by_xi, s: by_xi - z, p: by_p, rho: -by_p }
        };
        Step { pairs: (0..self.kinks.len()).map(one).collect(), u }
    }

    /// Returns the longest step, at most 1, that keeps everything positive, times `fraction` if it is limited.
    fn length(&self, step: &Step, fraction: f64) -> f64 {
        let mut most = f64::INFINITY;
        let mut limit = |x: f64, by: f64| {
            if by < 0.0 {
                most = most.min(-x / by);
            }
        };
        for (pair, by) in self.at.iter().zip(&step.pairs) {
            limit(pair.xi, by.xi);
            limit(pair.s, by.s);
            limit(pair.p, by.p);
            limit(pair.rho, by.rho);
        }
        (fraction * most).min(1.0)
    }

    /// Returns the gap after part of a step.
    fn gap_after(&self, step: &Step, length: f64) -> f64 {
        let one = |(pair, by): (&Pair, &Pair)| {
            (pair.p + length * by.p) * (pair.s + length * by.s) + (pair.rho + length * by.rho) * (pair.xi + length * by.xi)
        };
        self.at.iter().zip(&step.pairs).map(one).sum()
    }
}
