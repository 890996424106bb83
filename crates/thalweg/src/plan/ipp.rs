//! Settings for the subproblems of the inexact proximal point method, `min f(x) + (rho_hat/2)||x-z||^2` subject to
//! `g(x) [+ (rho_hat_g/2)||x-z||^2] <= 0`, by the switching subgradient method and by ConEx. How many subproblems to solve is
//! not planned here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::schedule::{Schedule, short};
use super::{Readable, Requirements, accuracy, ceiling, conex, row, whole};
use crate::Result;

/// Constants of the problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// M: bound on the norm of the subgradients of f and g.
    pub lipschitz: Option<f64>,
    /// D: the diameter (not the radius) of the domain.
    pub diameter: Option<f64>,
    /// rho: f is rho-weakly convex; 0 for a convex f.
    pub rho: Option<f64>,
    /// rho_hat: the proximal coefficient of the objective, larger than rho.
    pub rho_hat: Option<f64>,
    /// rho_g: g is rho_g-weakly convex; 0 if absent.
    pub rho_g: Option<f64>,
    /// rho_hat_g: the proximal coefficient of the constraint, larger than rho_g; a convex constraint may go without.
    pub rho_hat_g: Option<f64>,
    /// B: bounds ||y*|| + 1 for the multipliers y* of the subproblems. ConEx requires it.
    pub multiplier_bound: Option<f64>,
}

/// Solver of the subproblems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inner {
    /// Switching subgradient.
    Ssg,
    /// Constraint extrapolation.
    Conex,
}

impl Inner {
    /// All inner solvers.
    pub const ALL: [Inner; 2] = [Inner::Ssg, Inner::Conex];
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The planners come before the solvers, so the name is taken from the variant and not from the registry.
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// Settings of the inner solver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "inner", rename_all = "kebab-case")]
pub enum Settings {
    /// Switching subgradient.
    Ssg {
        /// eta_t = 2/((rho_hat - rho)(t+2)), or with the smaller strong convexity of the two functions.
        eta: Schedule,
        /// A constraint value up to this counts as feasible.
        tol: f64,
        /// t + 1: weights of the accepted iterates in the average.
        weights: Schedule,
        /// Inner iterations, a whole number; `None` where nothing is proved.
        iterations: Option<f64>,
    },
    /// Constraint extrapolation.
    Conex(conex::Plan),
}

/// Settings for one subproblem, and their guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// mu: strong convexity of the subproblem's objective, rho_hat - rho.
    pub strong_convexity: f64,
    /// Bound on the subgradients of the subproblem.
    pub lipschitz: f64,
    /// Settings of the inner solver.
    pub settings: Settings,
    /// The guarantee, in one sentence.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        let inner = if matches!(self.settings, Settings::Ssg { .. }) { Inner::Ssg } else { Inner::Conex };
        format!("IPP, each subproblem by {inner}")
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = vec![
            row("strong convexity of the subproblem", "rho_hat - rho", short(self.strong_convexity)),
            row("bound on its subgradients", "M", short(self.lipschitz)),
        ];
        match &self.settings {
            Settings::Ssg { eta, tol, weights, iterations } => {
                rows.extend(iterations.map(|t| row("inner iterations", "T", whole(t))));
                rows.push(row("inner step", "eta_t", eta.to_string()));
                rows.push(row("inner tolerance", "tol", short(*tol)));
                let weight = if *weights == LINEAR { "t + 1".into() } else { weights.to_string() };
                rows.push(row("weight in the average", "", weight));
            }
            Settings::Conex(plan) => rows.extend(plan.rows()),
        }
        rows
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

const LINEAR: Schedule = Schedule::Power { c: 1.0, p: 1.0 };

/// Settings that solve one subproblem to `eps`, in objective gap and in violation.
///
/// For the switching method with tol = eps: with steps 2/(mu (t+2)) the standard inequality, weighted by t+1, telescopes to
/// `sum (t+1) gap_t <= M^2 T/mu`, where gap_t is the objective gap on accepted and the constraint value on rejected
/// iterations, if both functions are mu-strongly convex. For T > 2 M^2/(mu eps) the accepted iterates cannot all have a mean
/// gap above eps, nor can all be rejected. Without a proximal term the constraint lacks the strong convexity, and nothing is
/// proved for these steps.
pub fn plan(inner: Inner, constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, c) = (Requirements { theorem: &format!("IPP with {inner}") }, constants);
    let m = needs.positive("lipschitz", c.lipschitz, "M, a bound on the norm of all subgradients")?;
    let d = needs.positive("diameter", c.diameter, "D, the diameter of the domain")?;
    let rho = needs.not_negative("rho", c.rho, "the weak-convexity constant of f")?;
    let (meaning, range) = ("the proximal coefficient of the objective", format!("a finite number larger than rho = {rho}"));
    let rho_hat = needs.number("rho_hat", c.rho_hat, meaning, &range, |v| v > rho)?;
    let rho_g = needs.not_negative("rho_g", c.rho_g.or(Some(0.0)), "the weak-convexity constant of g")?;
    let rho_hat_g = if rho_g > 0.0 || c.rho_hat_g.is_some() {
        let (meaning, range) =
            ("the proximal coefficient of the constraint", format!("a finite number larger than rho_g = {rho_g}"));
        Some(needs.number("rho_hat_g", c.rho_hat_g, meaning, &range, |v| v > rho_g)?)
    } else {
        None
    };
    let on_g = rho_hat_g.unwrap_or(0.0);
    let strong_convexity = rho_hat - rho;
    let lipschitz = m + rho_hat.max(on_g) * d;

    let (settings, guarantee) = match inner {
        Inner::Ssg => {
            let mu = rho_hat_g.map_or(strong_convexity, |g| strong_convexity.min(g - rho_g));
            let iterations = rho_hat_g.map(|_| (ceiling(2.0 * lipschitz * lipschitz / (mu * eps))).max(1.0));
            needs.finite(&[iterations.unwrap_or(1.0)], eps)?;
            let guarantee = match iterations {
                Some(_) => format!(
                    "The weighted average of the accepted iterates is within {eps} of the optimal value of the subproblem, and \
                     violates its constraint by at most {eps}.",
                    eps = short(eps)
                ),
                None => {
                    "No number of inner iterations is proved: the constraint has no proximal term (give rho_hat_g), so these \
                         steps fit the objective only."
                        .into()
                }
            };
            let eta = Schedule::StronglyConvex(2.0 / mu);
            (Settings::Ssg { eta, tol: eps, weights: LINEAR, iterations }, guarantee)
        }
        Inner::Conex => {
            let subproblem = conex::Constants {
                objective_smoothness: Some(rho_hat),
                objective_kink: Some(2.0 * m),
                constraint_smoothness: Some(on_g),
                constraint_kink: Some(2.0 * m),
                constraint_lipschitz: Some(m + on_g * d),
                multiplier_bound: c.multiplier_bound,
                diameter: Some(d),
                strong_convexity: Some(strong_convexity),
            };
            let plan = conex::plan_for(needs.theorem, &subproblem, eps)?;
            let guarantee = format!(
                "The weighted average is within {eps} of the optimal value of the subproblem, and violates its constraint by at \
                 most {eps}.",
                eps = short(eps)
            );
            (Settings::Conex(plan), guarantee)
        }
    };
    Ok(Plan { strong_convexity, lipschitz, settings, guarantee })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Constants {
        Constants {
            lipschitz: Some(1.0),
            diameter: Some(1.0),
            rho: Some(1.0),
            rho_hat: Some(3.0),
            rho_hat_g: Some(2.0),
            multiplier_bound: Some(2.0),
            ..Constants::default()
        }
    }

    #[test]
    fn ssg_by_hand() {
        let p = plan(Inner::Ssg, &unit(), 0.1).unwrap();
        // M = 1 + 3, mu = min{2, 2}, T = 2 * 16/(2 * .1).
        assert_eq!((p.strong_convexity, p.lipschitz), (2.0, 4.0));
        let Settings::Ssg { eta, tol, weights, iterations } = p.settings else { panic!("{p:?}") };
        assert_eq!((eta, tol, iterations), (Schedule::StronglyConvex(1.0), 0.1, Some(160.0)));
        assert_eq!((weights.at(0), weights.at(9)), (1.0, 10.0));
        // A convex constraint without the term: the steps of spec 1.6, and no number of iterations.
        let p = plan(Inner::Ssg, &Constants { rho_hat_g: None, ..unit() }, 0.1).unwrap();
        assert!(matches!(p.settings, Settings::Ssg { eta: Schedule::StronglyConvex(1.0), iterations: None, .. }), "{p:?}");
        assert!(p.guarantee.contains("give rho_hat_g"));
    }

    #[test]
    fn conex_by_hand() {
        let p = plan(Inner::Conex, &unit(), 0.1).unwrap();
        // alpha = 2, t0 = 4 (3 + 2 * 2)/2 + 2 = 16, c = 96 (1 + 2)^2/2.
        let Settings::Conex(conex) = &p.settings else { panic!("{p:?}") };
        assert_eq!(conex.steps, conex::Steps::StronglyConvex { alpha: 2.0, t0: 16.0, c: 432.0 });
        conex.steps.check(1000).unwrap();
        assert!(p.rows().iter().any(|r| r[1] == "eta_t" && r[2] == "1 / (t + 17)"));
    }

    /// f = -x^2/2 (rho = 1), g = x - 1, X = [-5, 5], rho_hat = 2, centre .4: the subproblem's solution is .8.
    #[test]
    fn the_promised_accuracy_is_reached() {
        let (z, eps) = (0.4, 0.05);
        let c = Constants { lipschitz: Some(5.0), diameter: Some(10.0), rho_hat: Some(2.0), rho_hat_g: Some(1.0), ..unit() };
        let p = plan(Inner::Ssg, &c, eps).unwrap();
        let Settings::Ssg { eta, tol, weights, iterations } = p.settings else { panic!("{p:?}") };
        let objective = |x: f64| -x * x / 2.0 + (x - z) * (x - z);
        let constraint = |x: f64| x - 1.0 + (x - z) * (x - z) / 2.0;
        let (mut x, mut sum, mut weight) = (z, 0.0, 0.0);
        for t in 0..iterations.unwrap() as u64 {
            let slope = if constraint(x) <= tol {
                sum += weights.at(t) * x;
                weight += weights.at(t);
                -x + 2.0 * (x - z)
            } else {
                1.0 + (x - z)
            };
            x = (x - eta.at(t) * slope).clamp(-5.0, 5.0);
        }
        let average = sum / weight;
        assert!(objective(average) <= objective(0.8) + eps && constraint(average) <= eps, "{average}");
    }

    #[test]
    fn missing_and_senseless_constants_are_named() {
        let refuse = |inner, c: Constants| plan(inner, &c, 0.1).unwrap_err().to_string();
        for (sentence, c) in [
            (
                "lipschitz is missing; IPP with conex needs M, a bound on the norm of all subgradients, a finite \
                 number larger than 0",
                Constants { lipschitz: None, ..unit() },
            ),
            (
                "diameter is missing; IPP with conex needs D, the diameter of the domain, a finite number larger \
                 than 0",
                Constants { diameter: None, ..unit() },
            ),
            (
                "rho is missing; IPP with conex needs the weak-convexity constant of f, a finite number, 0 or \
                 larger",
                Constants { rho: None, ..unit() },
            ),
            (
                "rho_hat is missing; IPP with conex needs the proximal coefficient of the objective, a finite \
                 number larger than rho = 1",
                Constants { rho_hat: None, ..unit() },
            ),
            (
                "rho_hat_g is missing; IPP with conex needs the proximal coefficient of the constraint, a finite \
                 number larger than rho_g = 1",
                Constants { rho_g: Some(1.0), rho_hat_g: None, ..unit() },
            ),
            (
                "multiplier_bound is missing; IPP with conex needs B, a bound on ||y*|| + 1, the norm of an \
                 optimal multiplier plus one, a finite number, 1 or larger",
                Constants { multiplier_bound: None, ..unit() },
            ),
        ] {
            let message = refuse(Inner::Conex, c);
            assert_eq!(message, sentence);
        }
        assert_eq!(
            refuse(Inner::Ssg, Constants { rho_hat: Some(1.0), ..unit() }),
            "rho_hat must be a finite number larger than rho = 1, got 1; it is the proximal coefficient of the \
             objective"
        );
        assert_eq!(
            refuse(Inner::Ssg, Constants { rho_g: Some(2.0), ..unit() }),
            "rho_hat_g must be a finite number larger than rho_g = 2, got 2; it is the proximal coefficient of \
             the constraint"
        );
        assert_eq!(plan(Inner::Ssg, &unit(), -1.0).unwrap_err().to_string(), "eps must be a finite number larger than 0, got -1");
    }
}
