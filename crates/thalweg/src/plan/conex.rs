//! Parameters of ConEx (Boob, Deng & Lan, "Stochastic first-order methods for convex and nonconvex functional constrained
//! optimization", Algorithm 1) on convex problems with exact oracles.
//!
//! The paper writes proximal coefficients eta', tau'; here, as everywhere in this library, eta = 1/eta' and tau = 1/tau' are
//! steps, they multiply. The shape of the coefficients is the paper's; their factors and the number of iterations come from
//! this derivation, in which f and g satisfy
//! `f(x) <= f(z) + <f'(z), x-z> + (L_f/2)||x-z||^2 + H_f ||x-z||` (g the same with L_g, H_g), `||g'|| <= M`, `D >= ||x_0 - x*||`,
//! `B >= ||y*|| + 1`, and D_t = ||x_{t+1} - x_t||, L = L_f + B L_g, H = H_f + B H_g:
//!
//! - The three-point inequalities of both steps, summed with weights gamma_t, telescope under the identities that
//!   [`Steps::check`] checks. What is left for each t is gamma_t times `L/2 D_t^2 + H D_t - eta_t'/2 D_t^2` and the error of the
//!   extrapolation, `theta_t^2 q_t^2 / (2 tau_t')` with `|q_t| <= M D_{t-1} + 2 M D_{t-2}`.
//! - With eta_t' >= 2 L the first term takes half of eta_t'/2 D_t^2, the second a quarter at the price of 2 H^2/eta_t', and the
//!   extrapolation the last quarter, if eta_t' tau_t' >= 40 M^2 (constant) or tau_t' = c/(t+1) with c >= 96 M^2/alpha (strongly
//!   convex; the factor covers growing weights and the end of the sum).
//! - Hence objective gap and violation of the gamma-weighted average are at most
//!   `(gamma_0 e_0 D^2/2 + gamma_0 tau_0' B^2/2 + sum_t 2 gamma_t H^2/eta_t') / sum_t gamma_t`, e_0 = eta_0' (or eta_0' - alpha).

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, row, whole};
use crate::{Error, Result};

/// Constants of a convex problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// L_f: Lipschitz constant of the gradient of the smooth part of f; 0 if absent.
    pub objective_smoothness: Option<f64>,
    /// H_f: by how much subgradients of f jump at kinks, 2 l_f for a non-smooth f with subgradients up to l_f; 0 if absent.
    pub objective_kink: Option<f64>,
    /// L_g: the same as L_f for the constraint.
    pub constraint_smoothness: Option<f64>,
    /// H_g: the same as H_f for the constraint.
    pub constraint_kink: Option<f64>,
    /// M: bound on the norm of the subgradients of g.
    pub constraint_lipschitz: Option<f64>,
    /// B: bounds ||y*|| + 1, the length of an optimal multiplier plus one.
    pub multiplier_bound: Option<f64>,
    /// D: the diameter of the domain.
    pub diameter: Option<f64>,
    /// alpha: f is alpha-strongly convex; the convex case if absent.
    pub strong_convexity: Option<f64>,
}

/// Steps, extrapolation and weights for t = 0, 1, ...
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "case", rename_all = "kebab-case")]
pub enum Steps {
    /// gamma_t = theta_t = 1 and constant steps.
    Convex {
        /// eta: primal step.
        eta: f64,
        /// tau: dual step.
        tau: f64,
    },
    /// gamma_t = t + t0 + 2, theta_t = (t + t0 + 1)/(t + t0 + 2), eta_t = 2/(alpha (t + t0 + 1)), tau_t = (t + 1)/c.
    StronglyConvex {
        /// alpha.
        alpha: f64,
        /// t0 = 4 (L_f + B L_g)/alpha + 2.
        t0: f64,
        /// c, the coefficient of the dual step.
        c: f64,
    },
}

impl Steps {
    /// Primal step eta_t.
    pub fn eta(&self, t: u64) -> f64 {
        match *self {
            Steps::Convex { eta, .. } => eta,
            Steps::StronglyConvex { alpha, t0, .. } => 2.0 / (alpha * (t as f64 + t0 + 1.0)),
        }
    }

    /// Dual step tau_t.
    pub fn tau(&self, t: u64) -> f64 {
        match *self {
            Steps::Convex { tau, .. } => tau,
            Steps::StronglyConvex { c, .. } => (t as f64 + 1.0) / c,
        }
    }

    /// Extrapolation theta_t.
    pub fn theta(&self, t: u64) -> f64 {
        match *self {
            Steps::Convex { .. } => 1.0,
            Steps::StronglyConvex { t0, .. } => (t as f64 + t0 + 1.0) / (t as f64 + t0 + 2.0),
        }
    }

    /// Weight gamma_t of x_{t+1} in the average.
    pub fn gamma(&self, t: u64) -> f64 {
        match *self {
            Steps::Convex { .. } => 1.0,
            Steps::StronglyConvex { t0, .. } => t as f64 + t0 + 2.0,
        }
    }

    /// Refuses steps that break, for some t up to `last`, what the proofs need: gamma_t theta_t = gamma_{t-1};
    /// gamma_t / tau_t does not increase; gamma_t / eta_t <= gamma_{t-1} (1/eta_{t-1} + alpha), and the same with strong
    /// convexity taken at the old point, gamma_t (1/eta_t - alpha) <= gamma_{t-1} / eta_{t-1}.
    pub fn check(&self, last: u64) -> Result<()> {
        let alpha = if let Steps::StronglyConvex { alpha, .. } = *self { alpha } else { 0.0 };
        // Rounding: relative to the larger side.
        let at_most = |a: f64, b: f64| a <= b + 1e-12 * a.abs().max(b.abs());
        for t in 1..=last {
            let (gamma, before) = (self.gamma(t), self.gamma(t - 1));
            let (eta, eta_before) = (1.0 / self.eta(t), 1.0 / self.eta(t - 1));
            let joined = gamma * self.theta(t);
            let broken = if !(at_most(joined, before) && at_most(before, joined)) {
                "gamma_t theta_t = gamma_{t-1}"
            } else if !at_most(gamma / self.tau(t), before / self.tau(t - 1)) {
                "gamma_t / tau_t not increasing"
            } else if !at_most(gamma * eta, before * (eta_before + alpha)) {
                "gamma_t / eta_t <= gamma_{t-1} (1 / eta_{t-1} + alpha)"
            } else if !at_most(gamma * (eta - alpha), before * eta_before) {
                "gamma_t (1 / eta_t - alpha) <= gamma_{t-1} / eta_{t-1}"
            } else {
                continue;
            };
            return Err(Error::Problem(format!("the steps of ConEx break {broken} at t = {t}")));
        }
        Ok(())
    }
}

/// Parameters and their guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Steps, extrapolation and weights.
    pub steps: Steps,
    /// T: number of iterations, a whole number stored as `f64`.
    pub iterations: f64,
    /// B.
    pub multiplier_bound: f64,
    /// The guarantee, in one sentence.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        match self.steps {
            Steps::Convex { .. } => "ConEx, convex case".into(),
            Steps::StronglyConvex { .. } => "ConEx, strongly convex objective".into(),
        }
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = vec![row("iterations", "T", whole(self.iterations))];
        match self.steps {
            Steps::Convex { eta, tau } => rows.extend([
                row("primal step", "eta_t", short(eta)),
                row("dual step", "tau_t", short(tau)),
                row("extrapolation", "theta_t", "1"),
                row("weight in the average", "gamma_t", "1"),
            ]),
            Steps::StronglyConvex { alpha, t0, c } => {
                let after = |n: f64| short(t0 + n);
                rows.extend([
                    row("primal step", "eta_t", format!("{} / (t + {})", short(2.0 / alpha), after(1.0))),
                    row("dual step", "tau_t", format!("(t + 1) / {}", short(c))),
                    row("extrapolation", "theta_t", format!("(t + {}) / (t + {})", after(1.0), after(2.0))),
                    row("weight in the average", "gamma_t", format!("t + {}", after(2.0))),
                    row("shift", "t0", short(t0)),
                ]);
            }
        }
        rows.push(row("bound on the multiplier, plus one", "B", short(self.multiplier_bound)));
        rows
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Computes the parameters for the accuracy `eps`, in objective gap and in violation.
pub fn plan(constants: &Constants, eps: f64) -> Result<Plan> {
    plan_for("ConEx", constants, eps)
}

/// The same in the name of another method.
pub(super) fn plan_for(theorem: &str, constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, c) = (Requirements { theorem }, constants);
    let m = needs.positive("constraint_lipschitz", c.constraint_lipschitz, "M, a bound on the norm of the subgradients of g")?;
    let meaning = "B, a bound on ||y*|| + 1, the norm of an optimal multiplier plus one";
    let b = needs.number("multiplier_bound", c.multiplier_bound, meaning, "a finite number, 1 or larger", |v| v >= 1.0)?;
    let d = needs.positive("diameter", c.diameter, "D, the diameter of the domain")?;
    if c.objective_smoothness.is_none() && c.objective_kink.is_none() {
        let meaning = "H_f, the jump of the subgradients of f at kinks, 2 l_f in general (objective_smoothness can replace it if f is smooth)";
        needs.not_negative("objective_kink", None, meaning)?;
    }
    let or_zero = |name: &str, value: Option<f64>, meaning: &str| needs.not_negative(name, value.or(Some(0.0)), meaning);
    let l_f = or_zero("objective_smoothness", c.objective_smoothness, "L_f, the Lipschitz constant of the gradient of f")?;
    let h_f = or_zero("objective_kink", c.objective_kink, "H_f, the jump of the subgradients of f at kinks")?;
    let l_g = or_zero("constraint_smoothness", c.constraint_smoothness, "L_g, the Lipschitz constant of the gradient of g")?;
    let h_g = or_zero("constraint_kink", c.constraint_kink, "H_g, the jump of subgradients of g at kinks")?;
    let (l, h) = (l_f + b * l_g, h_f + b * h_g);

    let (steps, iterations) = if c.strong_convexity.is_some() {
        let alpha = needs.positive("strong_convexity", c.strong_convexity, "alpha, the strong-convexity constant of f")?;
        let t0 = 4.0 * l / alpha + 2.0;
        let coefficient = 96.0 * m * m / alpha;
        // eps (sum of gamma_t) >= start + T drift, where the sum is T (T + 2 t0 + 3)/2.
        let start = (t0 + 2.0) / 2.0 * (alpha * (t0 - 1.0) / 2.0 * d * d + coefficient * b * b);
        let drift = 4.0 * h * h / alpha * (t0 + 2.0) / (t0 + 1.0);
        let linear = eps * (2.0 * t0 + 3.0) / 2.0 - drift;
        let root = (linear * linear + 2.0 * eps * start).sqrt();
        // The form without cancellation.
        let t = if linear > 0.0 { 2.0 * start / (root + linear) } else { (root - linear) / eps };
        (Steps::StronglyConvex { alpha, t0, c: coefficient }, t)
    } else {
        // 4 H^2/eps makes 2 H^2/eta' half of eps, which is best; sqrt(40) M B/D balances the two terms of the start.
        let coefficient = (2.0 * l).max(40f64.sqrt() * m * b / d).max(4.0 * h * h / eps);
        let dual = 40.0 * m * m / coefficient;
        let t = (coefficient * d * d + dual * b * b) / (2.0 * (eps - 2.0 * h * h / coefficient));
        (Steps::Convex { eta: 1.0 / coefficient, tau: 1.0 / dual }, t)
    };
    let iterations = ceiling(iterations).max(1.0);
    needs.finite(&[iterations], eps)?;
    let guarantee = format!(
        "For convex objective and constraint, the weighted average is within {eps} of the optimal value, and violates the \
         constraint by at most {eps}.",
        eps = short(eps)
    );
    Ok(Plan { steps, iterations, multiplier_bound: b, guarantee })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    fn smooth() -> Constants {
        Constants {
            objective_smoothness: Some(1.0),
            constraint_lipschitz: Some(1.0),
            multiplier_bound: Some(2.0),
            diameter: Some(4.0),
            ..Constants::default()
        }
    }

    fn kinked() -> Constants {
        Constants { objective_smoothness: None, objective_kink: Some(2.0), ..smooth() }
    }

    #[test]
    fn the_strongly_convex_steps_by_hand() {
        let c = Constants { constraint_smoothness: Some(0.5), strong_convexity: Some(0.5), ..smooth() };
        let p = plan(&c, 0.1).unwrap();
        // t0 = 4 (1 + 2 * .5)/.5 + 2 = 18, c = 96/.5.
        assert_eq!(p.steps, Steps::StronglyConvex { alpha: 0.5, t0: 18.0, c: 192.0 });
        close(p.steps.eta(1), 2.0 / (0.5 * 20.0), 1e-15);
        close(p.steps.tau(1), 2.0 / 192.0, 1e-15);
        close(p.steps.theta(1), 20.0 / 21.0, 1e-15);
        assert_eq!((p.steps.gamma(0), p.steps.gamma(1)), (20.0, 21.0));
        // The least T for which the bound of the module's derivation is at most eps.
        let bound = |t: f64| (20.0 / 2.0 * (0.25 * 17.0 * 16.0 + 192.0 * 4.0)) / (t * (t + 39.0) / 2.0);
        assert!(bound(p.iterations) <= 0.1 && bound(p.iterations - 1.0) > 0.1, "{}", p.iterations);
    }

    #[test]
    fn the_convex_steps_by_hand() {
        let p = plan(&kinked(), 0.1).unwrap();
        // 1/eta = max{0, sqrt(40)/2, 4 * 4/.1} = 160, 1/tau = 1/4, T = (160 * 16 + 1)/(2 * .05).
        let Steps::Convex { eta, tau } = p.steps else { panic!("{p:?}") };
        close(eta, 1.0 / 160.0, 1e-14);
        close(tau, 4.0, 1e-14);
        assert_eq!(p.iterations, 25_610.0);
        assert_eq!((p.steps.theta(7), p.steps.gamma(7)), (1.0, 1.0));
    }

    #[test]
    fn the_identities_hold_up_to_1000() {
        for eps in [1e-3, 0.1] {
            plan(&kinked(), eps).unwrap().steps.check(1000).unwrap();
            for (l, alpha) in [(0.0, 1.0), (1.0, 0.01), (300.0, 7.0), (1e-3, 1e3)] {
                let c = Constants { objective_smoothness: Some(l), strong_convexity: Some(alpha), ..kinked() };
                plan(&c, eps).unwrap().steps.check(1000).unwrap();
            }
        }
        // The extrapolation needs eta' tau' >= 40 M^2, or c as in the derivation.
        let s = Steps::StronglyConvex { alpha: 1.0, t0: 2.0, c: 96.0 };
        for j in 0..1000 {
            let last = |t: u64| s.gamma(t) * s.theta(t).powi(2) * s.tau(t);
            assert!(last(j + 1) + 4.0 * last(j + 2) <= s.gamma(j) / s.eta(j) / 8.0, "{j}");
            // The sum may end after t = j + 1.
            assert!(last(j + 1) + 4.0 * s.gamma(j + 1) * s.tau(j + 1) <= s.gamma(j) / s.eta(j) / 8.0, "{j}");
        }
        let message = Steps::StronglyConvex { alpha: 1.0, t0: -0.5, c: -1.0 }.check(10).unwrap_err().to_string();
        assert_eq!(message, "the steps of ConEx break gamma_t / tau_t not increasing at t = 1");
    }

    /// The iteration of spec 1.5 for f on the plane and g = 1 - x_1, over the ball of radius 2; average and multiplier.
    fn run(steps: &Steps, iterations: u64, df: impl Fn([f64; 2]) -> [f64; 2]) -> [f64; 2] {
        let (mut x, mut before, mut y) = ([0.0, 1.5], [0.0, 1.5], 0.0f64);
        let (mut sum, mut weight) = ([0.0; 2], 0.0);
        for t in 0..iterations {
            // g is affine: its linearisation is itself.
            let s = (1.0 + steps.theta(t)) * (1.0 - x[0]) - steps.theta(t) * (1.0 - before[0]);
            y = (y + steps.tau(t) * s).max(0.0);
            let d = df(x);
            let mut next = [x[0] - steps.eta(t) * (d[0] - y), x[1] - steps.eta(t) * d[1]];
            let norm = next[0].hypot(next[1]);
            if norm > 2.0 {
                next = next.map(|v| v * 2.0 / norm);
            }
            (before, x) = (x, next);
            weight += steps.gamma(t);
            for (s, v) in sum.iter_mut().zip(x) {
                *s += steps.gamma(t) * v;
            }
        }
        sum.map(|v| v / weight)
    }

    #[test]
    fn the_promised_accuracy_is_reached() {
        for eps in [0.3, 0.05, 0.01] {
            // f = ||x||^2/2: solution (1, 0), value 1/2, multiplier 1.
            for alpha in [None, Some(1.0)] {
                let p = plan(&Constants { strong_convexity: alpha, ..smooth() }, eps).unwrap();
                let x = run(&p.steps, p.iterations as u64, |x| x);
                let gap = (x[0] * x[0] + x[1] * x[1]) / 2.0 - 0.5;
                assert!(gap <= eps && 1.0 - x[0] <= eps, "{alpha:?} {eps} {x:?}");
            }
        }
        // f = |x_1| + |x_2|: subgradients up to sqrt(2), value 1, multiplier 1.
        let c = Constants { objective_kink: Some(2.0 * 2f64.sqrt()), ..kinked() };
        let p = plan(&c, 0.05).unwrap();
        let sign = |v: f64| if v == 0.0 { 0.0 } else { v.signum() };
        let x = run(&p.steps, p.iterations as u64, |x| x.map(sign));
        assert!(x[0].abs() + x[1].abs() - 1.0 <= 0.05 && 1.0 - x[0] <= 0.05, "{x:?}");
    }

    #[test]
    fn missing_and_senseless_constants_are_named() {
        let refuse = |c: Constants| plan(&c, 0.1).unwrap_err().to_string();
        for (sentence, c) in [
            (
                "constraint_lipschitz is missing; ConEx needs M, a bound on the norm of the subgradients of g, a \
                 finite number larger than 0",
                Constants { constraint_lipschitz: None, ..kinked() },
            ),
            (
                "multiplier_bound is missing; ConEx needs B, a bound on ||y*|| + 1, the norm of an optimal \
                 multiplier plus one, a finite number, 1 or larger",
                Constants { multiplier_bound: None, ..kinked() },
            ),
            (
                "diameter is missing; ConEx needs D, the diameter of the domain, a finite number larger than 0",
                Constants { diameter: None, ..kinked() },
            ),
            (
                "objective_kink is missing; ConEx needs H_f, the jump of the subgradients of f at kinks, 2 l_f \
                 in general (objective_smoothness can replace it if f is smooth), a finite number, 0 or larger",
                Constants { objective_kink: None, ..kinked() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        assert_eq!(
            refuse(Constants { multiplier_bound: Some(0.5), ..kinked() }),
            "multiplier_bound must be a finite number, 1 or larger, got 0.5; it is B, a bound on ||y*|| + 1, the \
             norm of an optimal multiplier plus one"
        );
        assert_eq!(
            refuse(Constants { strong_convexity: Some(0.0), ..kinked() }),
            "strong_convexity must be a finite number larger than 0, got 0; it is alpha, the strong-convexity \
             constant of f"
        );
        assert_eq!(
            refuse(Constants { constraint_kink: Some(-1.0), ..kinked() }),
            "constraint_kink must be a finite number, 0 or larger, got -1; it is H_g, the jump of subgradients \
             of g at kinks"
        );
        assert_eq!(plan(&kinked(), 0.0).unwrap_err().to_string(), "eps must be a finite number larger than 0, got 0");
        assert_eq!(
            plan(&kinked(), 1e-200).unwrap_err().to_string(),
            "ConEx with eps = 1e-200 requires more iterations or samples than a number can hold: choose a larger \
             eps"
        );
    }

    #[test]
    fn plans_survive_serialisation_and_are_readable() {
        let p = plan(&Constants { strong_convexity: Some(1.0), ..smooth() }, 0.1).unwrap();
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        let rows = p.rows();
        let value = |symbol: &str| rows.iter().find(|r| r[1] == symbol).map(|r| r[2].as_str());
        assert_eq!(value("eta_t"), Some("2 / (t + 7)"));
        assert_eq!(value("tau_t"), Some("(t + 1) / 96"));
        assert_eq!(value("theta_t"), Some("(t + 7) / (t + 8)"));
        assert_eq!(value("gamma_t"), Some("t + 8"));
    }
}
