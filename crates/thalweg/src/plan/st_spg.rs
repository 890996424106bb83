//! Parameters of St-SPG from Theorem 3 of Yan, Xu, Zhang, Wang & Yang, "Stochastic optimization for non-convex inf-projection
//! problems". The method itself is [`crate::solvers::st_spg`].
//!
//! Stage k makes `ceil(k / gamma) + 1` steps in x and `ceil(k / mu) + 1` in y. One of K stages is drawn, stage k with a probability
//! proportional to k^alpha. With v_k and u_k the exact solutions of its two subproblems,
//!
//! - `E[||x_tau - v_tau||^2 + ||x_{tau+1} - x_tau||^2] <= 4 (M_f + 2G)(alpha + 1) / (gamma K)`, and the same in y with mu;
//! - `G = 17 max{2 sigma^2 + 2 D^2 sigma^2, 2 sigma^2 + 2 D^2}` bounds 17 times the second moments of the stochastic
//!   subgradients: sigma^2 those of g, of h and of rows of the Jacobian of l; D the norm of y and the root of the second moment of sampled
//!   values of l.
//!
//! The paper prints G^2 where its proof has G, and the lengths of the stages with gamma and mu exchanged; here they follow the
//! proof. The bounds are on distances; dist(0, dF) nearby depends on the exponent v of h, with the order
//! `K = O(eps^(-2/v))`.

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, rounded_up, row, whole};
use crate::Result;

const THEOREM: &str = "Theorem 3";

/// Constants of an inf-projection problem with convex g and l, and the parameters that the theorem leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// sigma: root of the second moments of stochastic subgradients of g, of h and of l.
    pub noise: Option<f64>,
    /// D: bound on the norm of y and on the root of the second moment of sampled values of l.
    pub coupled_bound: Option<f64>,
    /// M_f: range of f over all x and y.
    pub objective_range: Option<f64>,
    /// gamma: proximal coefficient of the stages in x; 1 if absent.
    pub gamma: Option<f64>,
    /// mu: proximal coefficient of the stages in y; 1 if absent.
    pub mu: Option<f64>,
    /// alpha: stage k is drawn with a probability proportional to k^alpha; 1 if absent.
    pub weight: Option<f64>,
    /// K, instead of the number of stages derived from the accuracy.
    pub stages: Option<f64>,
}

/// Parameters under the names of the solver's settings, and their guarantee. Counts are whole numbers, stored as `f64`
/// because worst cases exceed every integer type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// gamma.
    pub gamma: f64,
    /// mu.
    pub mu: f64,
    /// alpha.
    pub weight: f64,
    /// G.
    pub moment: f64,
    /// K: number of stages.
    pub stages: f64,
    /// Steps of all stages in x.
    pub steps_x: f64,
    /// Steps of all stages in y.
    pub steps_y: f64,
    /// Steps in x and y together.
    pub steps: f64,
    /// K^2 (1/gamma + 1/mu) / 2 + 2K: formula for their growth.
    pub estimate: f64,
    /// Samples, with one for each stochastic gradient: two for a step in x (one of g, one of l), one for a step in y.
    pub samples: f64,
    /// Bound on the mean squared distances in x.
    pub bound_x: f64,
    /// Bound on the mean squared distances in y.
    pub bound_y: f64,
    /// The guarantee, in one or two sentences.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        "Theorem 3: St-SPG, stages in x and in y by turns".into()
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let length = |by: f64| if by == 1.0 { "k + 1".into() } else { format!("ceil(k / {}) + 1", short(by)) };
        let drawn = if self.weight == 1.0 { "k".into() } else { format!("k^{}", short(self.weight)) };
        vec![
            row("proximal coefficient in x", "gamma", short(self.gamma)),
            row("proximal coefficient in y", "mu", short(self.mu)),
            row("second moments, times 17", "G", short(self.moment)),
            row("stages", "K", whole(self.stages)),
            row("steps of stage k in x", "T_k^x", length(self.gamma)),
            row("steps of stage k in y", "T_k^y", length(self.mu)),
            row("stage k is returned in proportion to", "", drawn),
            row("steps in x", "", whole(self.steps_x)),
            row("steps in y", "", whole(self.steps_y)),
            row("steps", "", whole(self.steps)),
            row("by the formula for their growth", "", whole(self.estimate)),
            row("samples, one for each gradient", "", whole(self.samples)),
            row("mean squared distances in x", "", short(self.bound_x)),
            row("mean squared distances in y", "", short(self.bound_y)),
        ]
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Computes the parameters for mean squared distances of at most eps^2 between a drawn iterate, the next one and the exact solutions of its
/// stage, in x and in y: `K = ceil(4 (M_f + 2G)(alpha + 1) / (min(gamma, mu) eps^2))`, unless K is given.
pub fn plan(constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, c) = (Requirements { theorem: THEOREM }, constants);
    let meaning = "sigma, the square root of the second moments of stochastic subgradients";
    let noise = needs.positive("noise", c.noise, meaning)?;
    let meaning = "D, a bound on the norm of y and on sampled values of l";
    let d = needs.positive("coupled_bound", c.coupled_bound, meaning)?;
    let range = needs.not_negative("objective_range", c.objective_range, "M_f, the range of f over all x and y")?;
    let gamma = needs.positive("gamma", c.gamma.or(Some(1.0)), "the proximal coefficient in x")?;
    let mu = needs.positive("mu", c.mu.or(Some(1.0)), "the proximal coefficient in y")?;
    let weight = needs.number(
        "weight",
        c.weight.or(Some(1.0)),
        "alpha, the exponent of the probability of a stage",
        "a finite number, 1 or larger",
        |v| v >= 1.0,
    )?;

    let (variance, square) = (noise * noise, d * d);
    let moment = 17.0 * (2.0 * variance + 2.0 * square * variance).max(2.0 * variance + 2.0 * square);
    let total = 4.0 * (range + 2.0 * moment) * (weight + 1.0);
    let stages = match c.stages {
        Some(_) => needs.count("stages", c.stages, "K, the number of stages")?,
        None => ceiling(total / (gamma.min(mu) * eps * eps)).max(1.0),
    };
    let steps_x = rounded_up(stages, 1.0, gamma) + stages;
    let steps_y = rounded_up(stages, 1.0, mu) + stages;
    let (bound_x, bound_y) = (total / (gamma * stages), total / (mu * stages));
    let samples = 2.0 * steps_x + steps_y;
    needs.finite(&[samples, bound_x, bound_y], eps)?;

    let worst = bound_x.max(bound_y);
    let few = if worst > eps * eps * (1.0 + 1e-9) {
        format!(" For {} more stages are needed.", short(eps * eps))
    } else {
        String::new()
    };
    let guarantee = format!(
        "For a stage drawn from {}, the mean squared distances of its iterate to the exact solution of its subproblem and to the next \
         iterate add up to at most {}, in x and in y. This bounds distances, not the gradient.{few}",
        whole(stages),
        short(if few.is_empty() && c.stages.is_none() { eps * eps } else { worst })
    );
    Ok(Plan {
        gamma,
        mu,
        weight,
        moment,
        stages,
        steps_x,
        steps_y,
        steps: steps_x + steps_y,
        estimate: stages * stages * (1.0 / gamma + 1.0 / mu) / 2.0 + 2.0 * stages,
        samples,
        bound_x,
        bound_y,
        guarantee,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G = 17 * 4 = 68, so that 4 (M_f + 2G)(alpha + 1) = 4 * 140 * 2 = 1120.
    fn usual() -> Constants {
        Constants {
            noise: Some(1.0),
            coupled_bound: Some(1.0),
            objective_range: Some(4.0),
            mu: Some(0.5),
            ..Constants::default()
        }
    }

    #[test]
    fn by_hand() {
        // K = 1120/(0.5 * 4) = 560; sum of k + 1 in x, of 2k + 1 in y.
        let p = plan(&usual(), 2.0).unwrap();
        assert_eq!((p.moment, p.stages), (68.0, 560.0));
        assert_eq!((p.steps_x, p.steps_y, p.steps), (157_640.0, 314_720.0, 472_360.0));
        // 560^2 (1 + 2)/2 + 2 * 560.
        assert_eq!(p.estimate, 471_520.0);
        assert_eq!(p.samples, 630_000.0);
        assert_eq!((p.bound_x, p.bound_y), (2.0, 4.0));
        assert!(p.guarantee.contains("at most 4, in x and in y. This bounds distances, not the gradient."), "{}", p.guarantee);
        assert!(!p.guarantee.contains("more stages"), "{}", p.guarantee);
    }

    #[test]
    fn either_moment_may_be_the_larger() {
        // sigma = 2, D = 3: 2 * 4 + 2 * 9 * 4 = 80 against 8 + 18.
        let c = Constants { noise: Some(2.0), coupled_bound: Some(3.0), ..usual() };
        assert_eq!(plan(&c, 1.0).unwrap().moment, 17.0 * 80.0);
        // sigma = 1/2: 1/2 + 9/2 against 1/2 + 18.
        let c = Constants { noise: Some(0.5), coupled_bound: Some(3.0), ..usual() };
        assert_eq!(plan(&c, 1.0).unwrap().moment, 17.0 * 18.5);
    }

    #[test]
    fn stages_may_be_given() {
        let p = plan(&Constants { stages: Some(56.0), weight: Some(3.0), ..usual() }, 2.0).unwrap();
        // 4 * 140 * 4/(0.5 * 56).
        assert_eq!((p.stages, p.bound_x, p.bound_y), (56.0, 40.0, 80.0));
        assert!(p.guarantee.contains("at most 80,") && p.guarantee.ends_with("For 4 more stages are needed."), "{}", p.guarantee);
        let p = plan(&Constants { stages: Some(5600.0), ..usual() }, 2.0).unwrap();
        assert!(p.guarantee.contains("at most 0.4,") && !p.guarantee.contains("more stages"), "{}", p.guarantee);
    }

    #[test]
    fn lengths_are_those_of_the_solver() {
        // gamma = 3: 1 + 1, 1 + 1, 1 + 1, 2 + 1, 2 + 1 for k = 1, …, 5; mu = 0.3: 4, 7, 10, 14, 17 and one more each.
        let p = plan(&Constants { gamma: Some(3.0), mu: Some(0.3), stages: Some(5.0), ..usual() }, 2.0).unwrap();
        assert_eq!((p.steps_x, p.steps_y), (12.0, 57.0));
    }

    #[test]
    fn orders_in_eps() {
        let [one, two] = [0.1, 0.05].map(|eps| plan(&usual(), eps).unwrap());
        assert!((two.stages / one.stages - 4.0).abs() < 1e-4);
        assert!((two.steps / one.steps - 16.0).abs() < 1e-3);
        assert!((two.steps / two.estimate - 1.0).abs() < 1e-4);
    }

    #[test]
    fn what_it_refuses() {
        for (sentence, c) in [
            (
                "noise is missing; Theorem 3 needs sigma, the square root of the second moments of stochastic \
                 subgradients, a finite number larger than 0",
                Constants { noise: None, ..usual() },
            ),
            (
                "coupled_bound must be a finite number larger than 0, got 0; it is D, a bound on the norm of y \
                 and on sampled values of l",
                Constants { coupled_bound: Some(0.0), ..usual() },
            ),
            (
                "objective_range must be a finite number, 0 or larger, got -1; it is M_f, the range of f over \
                 all x and y",
                Constants { objective_range: Some(-1.0), ..usual() },
            ),
            (
                "gamma must be a finite number larger than 0, got 0; it is the proximal coefficient in x",
                Constants { gamma: Some(0.0), ..usual() },
            ),
            (
                "mu must be a finite number larger than 0, got inf; it is the proximal coefficient in y",
                Constants { mu: Some(f64::INFINITY), ..usual() },
            ),
            (
                "weight must be a finite number, 1 or larger, got 0.5; it is alpha, the exponent of the \
                 probability of a stage",
                Constants { weight: Some(0.5), ..usual() },
            ),
            (
                "stages must be a whole number larger than 0, got 2.5; it is K, the number of stages",
                Constants { stages: Some(2.5), ..usual() },
            ),
        ] {
            let message = plan(&c, 1.0).unwrap_err().to_string();
            assert_eq!(message, sentence);
        }
        assert_eq!(plan(&usual(), f64::NAN).unwrap_err().to_string(), "eps must be a finite number larger than 0, got NaN");
        assert_eq!(
            plan(&usual(), 1e-160).unwrap_err().to_string(),
            "Theorem 3 with eps = 1e-160 requires more iterations or samples than a number can hold: choose a \
             larger eps"
        );
    }

    #[test]
    fn plans_survive_serialisation() {
        let p = plan(&usual(), 2.0).unwrap();
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        assert!(p.rows().iter().any(|r| r[1] == "T_k^y" && r[2] == "ceil(k / 0.5) + 1"), "{:?}", p.rows());
    }
}
