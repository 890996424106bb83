//! Curvature of the Lagrangian in quadratic subproblems: its Cholesky factor, or pairs of steps and gradient differences. Products with
//! the inverse are all that the solver needs.

use crate::math::cholesky::Cholesky;
use crate::math::vec;
use crate::solvers::lbfgs::Pairs;

/// Fraction of the diagonal that is added to it, and pivot (relative to the diagonal) below which a variable does not move.
const DAMPING: f64 = 1e-8;
const PIVOT: f64 = 1e-14;
/// Smallest curvature along a step relative to that of the last approximation, below which the pair is damped (Powell).
const DAMPED: f64 = 0.2;

/// Positive definite approximation of the second derivative.
pub(super) enum Curvature<'a> {
    /// Factor of the matrix.
    Factor(&'a Cholesky),
    /// Quasi-Newton pairs; `metric` is a diagonal inverse without pairs, the identity if empty.
    Pairs { pairs: &'a Pairs, metric: &'a [f64], initial: f64 },
}

/// Factors a matrix given by its lower triangle, with a small multiple of its diagonal added.
pub(super) fn factor(m: &[f64], dim: usize) -> Cholesky {
    let diagonal: Vec<f64> = (0..dim).map(|i| DAMPING * m[i * dim + i]).collect();
    Cholesky::semidefinite(m, &diagonal, PIVOT)
}

impl Curvature<'_> {
    /// Computes `v <- H^-1 v`.
    pub(super) fn solve(&self, v: &mut [f64], factors: &mut Vec<f64>) {
        match self {
            Curvature::Factor(factor) => factor.solve(v),
            Curvature::Pairs { pairs, metric, initial } => pairs.apply(metric, *initial, factors, v),
        }
    }
}

/// Replaces the gradient difference `y` along the step `s` by a combination with `bs = B s`, so that the updated approximation stays
/// positive definite.
pub(super) fn damp(s: &[f64], y: &mut [f64], bs: &[f64]) {
    let (curvature, before) = (vec::dot(s, y), vec::dot(s, bs));
    if before > 0.0 && curvature < DAMPED * before {
        let share = (1.0 - DAMPED) * before / (before - curvature);
        y.iter_mut().zip(bs).for_each(|(y, bs)| *y = share * *y + (1.0 - share) * bs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damped_pair_has_a_fifth_of_the_curvature() {
        let (s, bs) = ([1.0, 2.0], [3.0, 1.0]);
        let mut y = [-1.0, 0.0];
        damp(&s, &mut y, &bs);
        assert!((vec::dot(&s, &y) - DAMPED * vec::dot(&s, &bs)).abs() < 1e-14);
        let mut kept = [1.0, 1.0];
        damp(&s, &mut kept, &bs);
        assert_eq!(kept, [1.0, 1.0]);
    }
}
