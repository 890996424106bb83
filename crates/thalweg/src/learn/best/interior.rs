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

use super::newton::{conjugate, least_pivot};
use super::sum::Sum;
use crate::math::cholesky::Cholesky;
use crate::math::vec;

/// Fraction of the way to the boundary that a step takes.
const FRACTION: f64 = 0.99;
/// Largest number of further correctors in a step (Gondzio, Multiple centrality corrections, 1996).
const CORRECTORS: usize = 3;
/// Accuracy of a step with too many variables to factor its matrix, relative to the right-hand side.
const CONJUGATE: f64 = 1e-3;
/// Smallest gap to aim for, relative to what the smooth part can still decrease.
const BALANCE: f64 = 0.1;
/// Factor by which the residual may grow in a step, and largest number of halvings of a step for that.
const GROWTH: f64 = 1.1;
const HALVINGS: usize = 12;
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
    /// Whether the sum is piecewise linear, so that the multipliers may take steps of other lengths than the variables.
    linear: bool,
    logistic: bool,
    slopes: Vec<f64>,
    curvatures: Vec<f64>,
}

/// The matrix of a step: factored, or the second moments with these weights plus a diagonal.
enum Matrix {
    Factored(Cholesky),
    Products { weights: Vec<f64>, diagonal: Vec<f64>, squares: Vec<f64> },
}

/// A system and its residual.
struct System {
    matrix: Matrix,
    residual: Vec<f64>,
}

/// Lengths of a step in the variables, with `xi` and `s`, and in the multipliers.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    primal: f64,
    dual: f64,
}

impl Lengths {
    fn least(self) -> f64 {
        self.primal.min(self.dual)
    }

    fn longer(self) -> Self {
        Lengths { primal: (self.primal + 0.3).min(1.0), dual: (self.dual + 0.3).min(1.0) }
    }
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
        let logistic = sum.terms.iter().any(|t| t.logistic);
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
            linear: pull == 0.0 && !logistic && (0..d).all(|j| sum.coefficients(j).0 == 0.0),
            logistic,
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
        if self.logistic {
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
        let after = self.gap_after(&predictor, self.lengths(&predictor, 1.0));
        let mut target = (after / gap).clamp(0.0, 1.0).powi(3) * tau;
        if self.logistic {
            // The smooth part converges at its own rate. Products that are much smaller than what it has left to gain would only
            // make the system singular.
            let left = vec::dot(&system.residual, &predictor.u).abs();
            target = target.max((BALANCE * left / gap).min(1.0) * tau);
        }
        let tau = target;
        for ((target, step), q) in targets.iter_mut().zip(&predictor.pairs).zip(&self.q) {
            target.0 += q * tau - step.p * step.s;
            target.1 += q * tau - step.rho * step.xi;
        }
        let mut step = self.solve(&system, &targets);
        let mut lengths = self.lengths(&step, FRACTION);
        for _ in 0..CORRECTORS {
            if lengths.least() > 0.9 {
                break;
            }
            // Products far from the others limit the next steps.
            let trial = lengths.longer();
            let mut others = targets.clone();
            for (((pair, by), q), target) in self.at.iter().zip(&step.pairs).zip(&self.q).zip(&mut others) {
                let towards = |product: f64| (product.clamp(0.1 * q * tau, 10.0 * q * tau) - product).max(-10.0 * q * tau);
                target.0 += towards((pair.p + trial.dual * by.p) * (pair.s + trial.primal * by.s));
                target.1 += towards((pair.rho + trial.dual * by.rho) * (pair.xi + trial.primal * by.xi));
            }
            let other = self.solve(&system, &others);
            let reached = self.lengths(&other, FRACTION);
            if reached.least() <= lengths.least() + 0.03 {
                break;
            }
            (step, lengths, targets) = (other, reached, others);
        }
        if lengths.primal.max(lengths.dual) <= 1e-10 || step.u.iter().any(|v| !v.is_finite()) {
            return false;
        }
        self.decrement = vec::dot(&system.residual, &step.u).abs();
        let Lengths { primal, dual } = self.shortened(&step, lengths, vec::norm(&system.residual));
        vec::add_scaled(&mut self.u, primal, &step.u);
        self.sum.scores(&self.u, &mut self.scores);
        for (pair, by) in self.at.iter_mut().zip(&step.pairs) {
            pair.xi += primal * by.xi;
            pair.s += primal * by.s;
            pair.p += dual * by.p;
            pair.rho += dual * by.rho;
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
        let mut diagonal = vec![0.0; d];
        for j in 0..d {
            residual[j] += grad[j];
            diagonal[j] = self.square(j);
        }
        let mut weights = self.curvatures.clone();
        for (kink, pair) in self.kinks.iter().zip(&self.at) {
            let h = 1.0 / (pair.s / pair.p + pair.xi / pair.rho);
            match *kink {
                Kink::Loss { row, .. } => weights[row] += h,
                Kink::Variable(j) => diagonal[j] += h,
            }
        }
        self.evaluations += 2;
        let matrix = if self.sum.dense(d) {
            let all: Vec<usize> = (0..d).collect();
            Matrix::Factored(Cholesky::semidefinite(&self.sum.moments(&weights, &all), &diagonal, least_pivot(d)))
        } else {
            let squares = self.sum.squares(&weights);
            Matrix::Products { weights, diagonal, squares }
        };
        System { matrix, residual }
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
        match &system.matrix {
            Matrix::Factored(factor) => factor.solve(&mut u),
            // An error of the solution is part of the next residual.
            Matrix::Products { weights, diagonal, squares } => {
                let rhs = u.clone();
                self.evaluations += conjugate(self.sum, weights, diagonal, squares, &rhs, CONJUGATE, &mut u);
            }
        }
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

    /// Returns the longest steps, at most 1, that keep everything positive, times `fraction` if they are limited.
    fn lengths(&self, step: &Step, fraction: f64) -> Lengths {
        let (mut primal, mut dual) = (f64::INFINITY, f64::INFINITY);
        let limit = |most: &mut f64, x: f64, by: f64| {
            if by < 0.0 {
                *most = most.min(-x / by);
            }
        };
        for (pair, by) in self.at.iter().zip(&step.pairs) {
            limit(&mut primal, pair.xi, by.xi);
            limit(&mut primal, pair.s, by.s);
            limit(&mut dual, pair.p, by.p);
            limit(&mut dual, pair.rho, by.rho);
        }
        // The residual is linear in the multipliers and does not depend on the variables, or both must move together.
        let (primal, dual) = if self.linear { (primal, dual) } else { (primal.min(dual), primal.min(dual)) };
        Lengths { primal: (fraction * primal).min(1.0), dual: (fraction * dual).min(1.0) }
    }

    /// Shortens a step until the residual does not grow: far from the minimiser, the logistic losses are flatter than their second
    /// derivatives tell.
    fn shortened(&mut self, step: &Step, mut lengths: Lengths, before: f64) -> Lengths {
        if !self.logistic {
            return lengths;
        }
        let (u, at) = (self.u.clone(), self.at.clone());
        for _ in 0..HALVINGS {
            for ((to, from), by) in self.u.iter_mut().zip(&u).zip(&step.u) {
                *to = from + lengths.primal * by;
            }
            self.sum.scores(&self.u, &mut self.scores);
            let (_, grad) = self.smooth();
            let mut residual = self.gather(|k| at[k].p + lengths.dual * step.pairs[k].p);
            vec::add_scaled(&mut residual, 1.0, &grad);
            self.evaluations += 2;
            if vec::norm(&residual) <= GROWTH * before {
                break;
            }
            lengths = Lengths { primal: 0.5 * lengths.primal, dual: 0.5 * lengths.dual };
        }
        self.u = u;
        lengths
    }

    /// Returns the gap after part of a step.
    fn gap_after(&self, step: &Step, Lengths { primal, dual }: Lengths) -> f64 {
        let one = |(pair, by): (&Pair, &Pair)| {
            (pair.p + dual * by.p) * (pair.s + primal * by.s) + (pair.rho + dual * by.rho) * (pair.xi + primal * by.xi)
        };
        self.at.iter().zip(&step.pairs).map(one).sum()
    }
}
