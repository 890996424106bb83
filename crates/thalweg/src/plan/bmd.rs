//! Constant steps of BMD for `min_theta max_P sum_i P_i l_i(theta)` with convex losses, and how many of them are needed. The method
//! itself is [`crate::solvers::bmd`].
//!
//! Stochastic subgradients in theta have a mean square of at most `G^2`. The estimate of the losses, `l_i / P_i` at the drawn i, has
//! one of `sum_i l_i^2 / P_i <= n^2 l_max^2 / delta`, and P is within `sqrt(2 rho) / n` of where it begins. The usual bound for
//! averages, `(distance)^2 / (2 eta T) + (eta / 2) (mean square)` in theta and in P, is smallest for
//!
//! - `eta_theta = R / (G sqrt(T))` and `eta_P = (sqrt(2 rho) / n) / (n l_max sqrt(T / delta))`,
//!
//! where it is `(R G + l_max sqrt(2 rho / delta)) / sqrt(T)` for both together. It holds for every P that does not depend on the draws.

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, row, whole};
use crate::Result;

const THEOREM: &str = "the plan of bmd";

/// Constants of the losses and the set of weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// G: bound on the norm of the subgradients of all losses.
    pub lipschitz: Option<f64>,
    /// l_max: every loss is at most this large.
    pub loss_bound: Option<f64>,
    /// R: distance from the start to a minimiser.
    pub start_distance: Option<f64>,
    /// n: number of samples.
    pub samples: Option<f64>,
    /// rho: radius of the chi-square ball of the weights.
    pub rho: Option<f64>,
    /// delta: no weight is below delta / n; 1e-5 if absent.
    pub delta: Option<f64>,
    /// T: number of steps, instead of the number derived from eps.
    pub iterations: Option<f64>,
}

impl Constants {
    /// rho and delta.
    pub fn set(&self) -> Result<(f64, f64)> {
        let needs = Requirements { theorem: THEOREM };
        let rho = needs.positive("rho", self.rho, "the radius of the chi-square ball of the weights")?;
        let range = "larger than 0 and below 1";
        let delta =
            needs.number("delta", self.delta.or(Some(1e-5)), "n times the smallest weight", range, |v| v > 0.0 && v < 1.0)?;
        Ok((rho, delta))
    }

    /// eta_theta and eta_P for T = iterations.
    pub fn steps(&self) -> Result<(f64, f64)> {
        let needs = Requirements { theorem: THEOREM };
        let range = "a finite number, 1 or larger";
        let root = needs.number("iterations", self.iterations, "T, the number of steps", range, |v| v >= 1.0)?.sqrt();
        let n = needs.number("samples", self.samples, "n, the number of samples", range, |v| v >= 1.0)?;
        let ((rho, delta), [g, l, r]) = (self.set()?, self.bounds()?);
        Ok((r / (g * root), (2.0 * rho).sqrt() / n / (n * l * root / delta.sqrt())))
    }

    /// G, l_max and R.
    fn bounds(&self) -> Result<[f64; 3]> {
        let needs = Requirements { theorem: THEOREM };
        Ok([
            needs.positive("lipschitz", self.lipschitz, "G, a bound on the norm of the subgradients of the losses")?,
            needs.positive("loss_bound", self.loss_bound, "l_max, a bound on the losses")?,
            needs.positive("start_distance", self.start_distance, "R, the distance from the start to a minimiser")?,
        ])
    }
}

/// Parameters under the names of the solver's settings, and their guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// eta_theta: the step of the variables.
    pub eta_theta: f64,
    /// eta_P: the step of the weights.
    pub eta_p: f64,
    /// rho.
    pub rho: f64,
    /// delta.
    pub delta: f64,
    /// T: number of steps, each of one sample.
    pub iterations: f64,
    /// R G: what the variables add to the bound, times sqrt(T).
    pub variables_part: f64,
    /// l_max sqrt(2 rho / delta): what the weights add.
    pub weights_part: f64,
    /// Their sum over sqrt(T): by how much the average may miss the best worst case.
    pub bound: f64,
    /// The guarantee, in one sentence.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        "Constant steps: BMD, the worst case over weights".into()
    }

    fn rows(&self) -> Vec<[String; 3]> {
        vec![
            row("step of the variables", "eta_theta", short(self.eta_theta)),
            row("step of the weights", "eta_P", short(self.eta_p)),
            row("set of weights", "rho, delta", format!("{}, {}", short(self.rho), short(self.delta))),
            row("part of the variables", "R G", short(self.variables_part)),
            row("part of the weights", "l_max sqrt(2 rho / delta)", short(self.weights_part)),
            row("steps, one sample each", "T", whole(self.iterations)),
            row("bound", "their sum / sqrt(T)", short(self.bound)),
        ]
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// The smallest T after which the average of the iterates is proved to be within eps of the best worst case.
pub fn plan(constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let ((rho, delta), [g, l, r]) = (constants.set()?, constants.bounds()?);
    let (variables_part, weights_part) = (r * g, l * (2.0 * rho / delta).sqrt());
    let wanted = ceiling(((variables_part + weights_part) / eps).powi(2)).max(1.0);
    let iterations = constants.iterations.unwrap_or(wanted);
    Requirements { theorem: THEOREM }.finite(&[iterations], eps)?;
    let (eta_theta, eta_p) = Constants { iterations: Some(iterations), ..*constants }.steps()?;
    let bound = (variables_part + weights_part) / iterations.sqrt();
    let guarantee = format!(
        "For every P of the set, the average of {} iterates has sum_i P_i l_i of at most the best worst case plus {} in expectation.",
        whole(iterations),
        short(if constants.iterations.is_some() { bound } else { eps })
    );
    Ok(Plan { eta_theta, eta_p, rho, delta, iterations, variables_part, weights_part, bound, guarantee })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R G = 6, l_max sqrt(2 rho / delta) = 2 sqrt(16) = 8: T = (14 / eps)^2.
    fn usual() -> Constants {
        Constants {
            lipschitz: Some(3.0),
            loss_bound: Some(2.0),
            start_distance: Some(2.0),
            samples: Some(10.0),
            rho: Some(2.0),
            delta: Some(0.25),
            iterations: None,
        }
    }

    #[test]
    fn steps_by_hand() {
        let p = plan(&usual(), 0.7).unwrap();
        assert_eq!((p.iterations, p.variables_part, p.weights_part), (400.0, 6.0, 8.0));
        // 2 / (3 * 20), and (2/10) / (10 * 2 * 20 / (1/2))
        assert!((p.eta_theta - 1.0 / 30.0).abs() < 1e-16 && (p.eta_p - 0.2 / 800.0).abs() < 1e-18, "{p:?}");
        // At these steps both parts of the bound are equal, and together eps.
        let t = p.iterations;
        let theta = 4.0 / (2.0 * p.eta_theta * t) + p.eta_theta / 2.0 * 9.0;
        let weights = 0.04 / (2.0 * p.eta_p * t) + p.eta_p / 2.0 * 100.0 * 4.0 / 0.25;
        assert!((theta - 6.0 / 20.0).abs() < 1e-12 && (weights - 8.0 / 20.0).abs() < 1e-12, "{theta} {weights}");
        let longer = plan(&Constants { iterations: Some(1600.0), ..usual() }, 0.7).unwrap();
        assert!((longer.bound - 0.35).abs() < 1e-15 && (longer.eta_theta - p.eta_theta / 2.0).abs() < 1e-16, "{longer:?}");
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        assert!(p.rows().iter().any(|r| r[1] == "T" && r[2] == "400"));
    }

    #[test]
    fn what_it_refuses() {
        for (sentence, c) in [
            (
                "lipschitz is missing; the plan of bmd needs G, a bound on the norm of the subgradients of the \
                 losses, a finite number larger than 0",
                Constants { lipschitz: None, ..usual() },
            ),
            (
                "loss_bound must be a finite number larger than 0, got 0; it is l_max, a bound on the losses",
                Constants { loss_bound: Some(0.0), ..usual() },
            ),
            (
                "start_distance must be a finite number larger than 0, got -1; it is R, the distance from the \
                 start to a minimiser",
                Constants { start_distance: Some(-1.0), ..usual() },
            ),
            (
                "samples must be a finite number, 1 or larger, got 0.5; it is n, the number of samples",
                Constants { samples: Some(0.5), ..usual() },
            ),
            (
                "rho is missing; the plan of bmd needs the radius of the chi-square ball of the weights, a \
                 finite number larger than 0",
                Constants { rho: None, ..usual() },
            ),
            (
                "delta must be larger than 0 and below 1, got 1; it is n times the smallest weight",
                Constants { delta: Some(1.0), ..usual() },
            ),
        ] {
            let message = plan(&c, 0.1).unwrap_err().to_string();
            assert_eq!(message, sentence);
        }
        assert_eq!(plan(&usual(), 0.0).unwrap_err().to_string(), "eps must be a finite number larger than 0, got 0");
        assert_eq!(
            usual().steps().unwrap_err().to_string(),
            "iterations is missing; the plan of bmd needs T, the number of steps, a finite number, 1 or larger"
        );
        assert_eq!(
            plan(&usual(), 1e-160).unwrap_err().to_string(),
            "the plan of bmd with eps = 1e-160 requires more iterations or samples than a number can hold: \
             choose a larger eps"
        );
    }
}
