//! Zeroth-order check of a point: the gradient norm of the squared penalty by finite differences, with its standard error, and
//! the stationarity measures of Shi, Gao and Gu. Nothing here is a proved bound; only the constraint values are exact.

use serde::{Deserialize, Serialize};

use crate::error::check_length;
use crate::eval::{Evaluator, MAX_LISTED_CONSTRAINTS, ValueEval};
use crate::math::rng::Purpose;
use crate::math::vec;
use crate::oracle::{Draw, Pick, Values};
use crate::sets::{Set, Simplex, Warm};
use crate::{Error, Result};

/// Options of the zeroth-order check. Every direction costs the objective, and the constraints with nonzero weight, at two
/// points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ZerothOrderCheck {
    /// Penalty coefficient of squared violations, if the solver has none of its own. Default 1.
    pub beta: f64,
    /// Strong-concavity constant in the weights, if the solver has none of its own. Default 1e-6.
    pub lambda: f64,
    /// Radius of the finite differences. Default 1e-4.
    pub mu: f64,
    /// Number of directions. Default 32.
    pub directions: usize,
    /// Random seed of the directions.
    pub seed: u64,
}

impl Default for ZerothOrderCheck {
    fn default() -> Self {
        ZerothOrderCheck { beta: 1.0, lambda: 1e-6, mu: 1e-4, directions: 32, seed: 0 }
    }
}

impl ZerothOrderCheck {
    /// Checks that every option is in range.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [("beta", self.beta), ("lambda", self.lambda), ("mu", self.mu)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(format!("zeroth_order_check.{name}"), value, "a finite number larger than 0"));
            }
        }
        match self.directions {
            0 | 1 => {
                Err(Error::setting("zeroth_order_check.directions", self.directions, "at least 2, for an error to be estimated"))
            }
            _ => Ok(()),
        }
    }
}

/// Estimate with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// Stationarity and feasibility of a point, estimated from values. The domain is ignored: on its boundary the gradient need not
/// be small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ZerothOrderReport {
    /// Penalty coefficient of squared violations.
    pub beta: f64,
    /// Strong-concavity constant in the weights.
    pub lambda: f64,
    /// Margin: the penalty starts at `g_j = -margin`.
    pub margin: f64,
    /// Norm of the smoothed gradient of `max_p f + beta sum_j p_j max(0, g_j + margin)^2 - (lambda / 2) ||p||^2`.
    pub gradient: Estimate,
    /// eps_1 of Definition 5.3: the norm of the smoothed `grad f + sum_j alpha_j grad g_j`, with the solver's own weights.
    pub lagrangian: Option<Estimate>,
    /// eps_2: the Euclidean norm of the violations.
    pub violations: f64,
    /// eps_3: the Euclidean norm of `alpha_j g_j`.
    pub complementarity: f64,
    /// `||proj(p + grad_p L) - p||` for the solver's own weights.
    pub weights_residual: Option<f64>,
    /// The largest multipliers `alpha_j = 2 beta p_j max(0, g_j + margin)`, by index of the constraint from 0; at most 200.
    pub multipliers: Vec<(u32, f64)>,
    /// Number of values computed, of the objective and of constraints.
    pub queries: [u64; 2],
}

impl ZerothOrderReport {
    /// Returns the multiplier of each of `count` constraints; 0 for those that are not listed.
    pub(crate) fn every_multiplier(&self, count: usize) -> Vec<f64> {
        let mut all = vec![0.0; count];
        for &(j, value) in &self.multipliers {
            if let Some(slot) = all.get_mut(j as usize) {
                *slot = value;
            }
        }
        all
    }
}

/// Penalty of a solver with its current weights: `f + beta sum_j p_j max(0, g_j + margin)^2`.
#[derive(Debug, Clone, PartialEq)]
pub struct PenaltyWeights {
    /// Penalty coefficient of squared violations.
    pub beta: f64,
    /// Strong-concavity constant in p.
    pub lambda: f64,
    /// Margin: the penalty starts at `g_j = -margin`.
    pub margin: f64,
    /// Weights p, which sum to 1.
    pub weights: Vec<f64>,
}

/// Estimates stationarity and feasibility of `x` from values; `weighed` is the penalty of the solver that found it, if it has
/// one.
pub fn check_zeroth_order(
    problem: &(impl Values + ?Sized),
    x: &[f64],
    weighed: Option<PenaltyWeights>,
    how: &ZerothOrderCheck,
) -> Result<ZerothOrderReport> {
    check_length("the point", x.len(), problem.dim())?;
    how.validate()?;
    let m = problem.num_constraints();
    let (beta, lambda, margin) = weighed.as_ref().map_or((how.beta, how.lambda, 0.0), |w| (w.beta, w.lambda, w.margin));
    let own = weighed.map(|w| w.weights).filter(|p| p.len() == m && m > 0);
    let mut ev = Evaluator::new(problem, how.seed, 0.0);
    let full = Draw::full();
    ev.refresh(x)?;
    let mut over = vec![0.0; m];
    ev.constraint_values(x, &full, Pick::All, &mut over)?;
    let violations = over.iter().fold(0.0, |sum, g| sum + g.max(0.0) * g.max(0.0)).sqrt();
    let values = over.clone();
    over.iter_mut().for_each(|g| *g = (*g + margin).max(0.0));

    let projected = |mut p: Vec<f64>| -> Result<Vec<f64>> {
        if m > 0 {
            Simplex::new(1.0)?.project(&mut p, &mut Warm::default())?;
        }
        Ok(p)
    };
    let best = projected(over.iter().map(|v| beta / lambda * v * v).collect())?;
    let weights_residual = match &own {
        None => None,
        Some(p) => {
            let moved = projected(p.iter().zip(&over).map(|(p, v)| p + beta * v * v - lambda * p).collect())?;
            Some(vec::distance(p, &moved))
        }
    };
    let p = own.as_ref().unwrap_or(&best);
    let alpha = |j: usize| 2.0 * beta * p[j] * over[j];
    let mut multipliers: Vec<(u32, f64)> = (0..m).map(|j| (j as u32, alpha(j))).filter(|(_, a)| *a > 0.0).collect();
    let complementarity = multipliers.iter().fold(0.0, |sum, &(j, a)| sum + (a * values[j as usize]).powi(2)).sqrt();
    multipliers.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
    multipliers.truncate(MAX_LISTED_CONSTRAINTS);

    // Constraints that are satisfied, or have zero weight, do not change the penalty to first order.
    let weighs = |p: &[f64], j: usize| over[j] > 0.0 && p[j] > 0.0;
    let active: Vec<u32> = (0..m).filter(|&j| weighs(&best, j) || weighs(p, j)).map(|j| j as u32).collect();
    let (mut along, mut along_own) = (vec![], vec![]);
    let d = x.len();
    let (mut u, mut points) = (vec![0.0; d], vec![0.0; 2 * d]);
    let (mut f, mut g) = ([0.0; 2], vec![0.0; 2 * active.len()]);
    for _ in 0..how.directions {
        ev.rng(Purpose::Directions).normals(&mut u);
        let (ahead, behind) = points.split_at_mut(d);
        for i in 0..d {
            (ahead[i], behind[i]) = (x[i] + how.mu * u[i], x[i] - how.mu * u[i]);
        }
        ev.objective_many(&points, &full, &mut f)?;
        if !active.is_empty() {
            ev.constraint_values_many(&points, &full, Pick::These(&active), &mut g)?;
        }
        let penalised = |p: &[f64]| {
            let (ahead, behind) = g.split_at(active.len());
            let phi = |g: f64| (g + margin).max(0.0) * (g + margin).max(0.0);
            let change = active.iter().zip(ahead.iter().zip(behind)).map(|(&j, (a, b))| p[j as usize] * (phi(*a) - phi(*b)));
            (f[0] - f[1] + beta * change.sum::<f64>()) / (2.0 * how.mu)
        };
        along.push(penalised(&best));
        if let Some(p) = &own {
            along_own.push(penalised(p));
        }
    }
    let queries = [ev.counts().objective_values.samples, ev.counts().constraint_values.samples];
    Ok(ZerothOrderReport {
        beta,
        lambda,
        margin,
        gradient: norm(&along),
        lagrangian: own.is_some().then(|| norm(&along_own)),
        violations,
        complementarity,
        weights_residual,
        multipliers,
        queries,
    })
}

/// Estimates the norm of a gradient from its slopes along Gaussian directions: the mean of their squares estimates its square.
fn norm(slopes: &[f64]) -> Estimate {
    let n = slopes.len() as f64;
    let mean = slopes.iter().map(|s| s * s).sum::<f64>() / n;
    let variance = slopes.iter().map(|s| (s * s - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let value = mean.sqrt();
    // The square root halves the relative error.
    let error = if value > 0.0 { (variance / n).sqrt() / (2.0 * value) } else { 0.0 };
    Estimate { value, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Problem;

    fn zero(_: &[f64], _: &mut [f64]) {}

    /// f = (w - 3)^2 with w <= 1 and w <= 2 at w = 2: grad f = -2, the larger violation is 1, so with beta the penalty's gradient is
    /// -2 + 2 beta.
    fn two() -> Problem {
        Problem::new(1).objective(|w| (w[0] - 3.0).powi(2), zero).constraint("at most 1", |w| w[0] - 1.0, zero).constraint(
            "at most 1.5",
            |w| w[0] - 1.5,
            zero,
        )
    }

    #[test]
    fn the_gradient_of_the_penalty_is_found_within_its_error() {
        for (beta, wanted) in [(1.0, 0.0), (4.0, 6.0)] {
            let how = ZerothOrderCheck { beta, directions: 2000, ..ZerothOrderCheck::default() };
            let found = check_zeroth_order(&two(), &[2.0], None, &how).unwrap();
            assert!((found.gradient.value - wanted).abs() < 4.0 * found.gradient.error + 1e-6, "{found:?}");
            assert!(found.gradient.error <= 0.03 * wanted + 1e-6);
            assert_eq!(found.multipliers, [(0, 2.0 * beta)]);
            assert!((found.violations - 1.25_f64.sqrt()).abs() < 1e-12 && (found.complementarity - 2.0 * beta).abs() < 1e-9);
            // One full pass, and the one constraint with nonzero weight at two points of every direction.
            assert_eq!(found.queries, [4000, 2 + 4000]);
        }
    }

    #[test]
    fn weights_that_are_not_the_best_are_told_apart() {
        let weighed = |weights| Some(PenaltyWeights { beta: 1.0, lambda: 1e-6, margin: 0.0, weights });
        let best = check_zeroth_order(&two(), &[2.0], weighed(vec![1.0, 0.0]), &ZerothOrderCheck::default()).unwrap();
        assert!(best.weights_residual.unwrap() < 1e-6 && best.lagrangian.unwrap().value < 1e-6, "{best:?}");
        let other = check_zeroth_order(&two(), &[2.0], weighed(vec![0.0, 1.0]), &ZerothOrderCheck::default()).unwrap();
        // The projected step moves the weight by 0.375 from the second to the first; the gradient there is -2 + 1.
        assert!((other.weights_residual.unwrap() - 0.375 * 2.0_f64.sqrt()).abs() < 1e-5, "{other:?}");
        let lagrangian = other.lagrangian.unwrap();
        assert!((lagrangian.value - 1.0).abs() < 4.0 * lagrangian.error && lagrangian.error < 0.2, "{other:?}");
        assert_eq!(other.multipliers, [(1, 1.0)]);
        assert_eq!(other.every_multiplier(2), [0.0, 1.0]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |how: ZerothOrderCheck| check_zeroth_order(&two(), &[2.0], None, &how).unwrap_err().to_string();
        assert!(
            refused(ZerothOrderCheck { directions: 1, ..ZerothOrderCheck::default() })
                .starts_with("zeroth_order_check.directions must be at least 2, for an error to be estimated, got 1")
        );
        let message = refused(ZerothOrderCheck { beta: 0.0, ..ZerothOrderCheck::default() });
        assert!(message.starts_with("zeroth_order_check.beta must be ") && message.contains("got 0"), "{message}");
        assert!(check_zeroth_order(&two(), &[2.0, 1.0], None, &ZerothOrderCheck::default()).is_err());
    }
}
