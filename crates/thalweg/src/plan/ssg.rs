//! Parameters of the switching subgradient method from Theorems 4.2, 4.3, 5.2 and B.1 of Huang & Lin, "Single-loop
//! switching subgradient methods for non-smooth weakly convex optimization with non-smooth convex constraints".

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::schedule::{Schedule, short};
use super::{Constants, Readable, Requirements, accuracy, ceiling, row, theorem_by_name, whole};
use crate::{Error, Result};

/// A theorem about the switching subgradient method; part I has constant, part II diminishing steps and tolerances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Theorem {
    /// Exact subgradients, constant steps.
    #[serde(rename = "4.2-I")]
    T42I,
    /// Exact subgradients, diminishing steps.
    #[serde(rename = "4.2-II")]
    T42II,
    /// Stochastic subgradients of f, exact constraint values, constant steps.
    #[serde(rename = "4.3-I")]
    T43I,
    /// Stochastic subgradients of f, exact constraint values, diminishing steps.
    #[serde(rename = "4.3-II")]
    T43II,
    /// Stochastic subgradients and constraint values, constant steps.
    #[serde(rename = "5.2-I")]
    T52I,
    /// Stochastic subgradients and constraint values, diminishing steps.
    #[serde(rename = "5.2-II")]
    T52II,
    /// Strongly convex constraint, constant steps.
    #[serde(rename = "B.1-I")]
    B1I,
    /// Strongly convex constraint, diminishing steps.
    #[serde(rename = "B.1-II")]
    B1II,
}

impl Theorem {
    /// Every theorem, in the order of the paper.
    pub const ALL: [Theorem; 8] = [
        Theorem::T42I,
        Theorem::T42II,
        Theorem::T43I,
        Theorem::T43II,
        Theorem::T52I,
        Theorem::T52II,
        Theorem::B1I,
        Theorem::B1II,
    ];

    /// Returns the number in the paper, such as "4.2-I".
    pub fn name(&self) -> &'static str {
        match self {
            Theorem::T42I => "4.2-I",
            Theorem::T42II => "4.2-II",
            Theorem::T43I => "4.3-I",
            Theorem::T43II => "4.3-II",
            Theorem::T52I => "5.2-I",
            Theorem::T52II => "5.2-II",
            Theorem::B1I => "B.1-I",
            Theorem::B1II => "B.1-II",
        }
    }

    /// Describes the theorem.
    pub fn describe(&self) -> &'static str {
        match self {
            Theorem::T42I => "exact subgradients, constant steps",
            Theorem::T42II => "exact subgradients, diminishing steps",
            Theorem::T43I => "stochastic subgradients of f, exact constraint values, constant steps",
            Theorem::T43II => "stochastic subgradients of f, exact constraint values, diminishing steps",
            Theorem::T52I => "stochastic subgradients and constraint values, constant steps",
            Theorem::T52II => "stochastic subgradients and constraint values, diminishing steps",
            Theorem::B1I => "strongly convex constraint, constant steps",
            Theorem::B1II => "strongly convex constraint, diminishing steps",
        }
    }
}

impl fmt::Display for Theorem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Theorem {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        theorem_by_name(&Theorem::ALL, Theorem::name, name)
    }
}

/// Parameters that a theorem prescribes, and their guarantee. Counts are whole numbers, stored as `f64` because
/// worst cases exceed every integer type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The theorem.
    pub theorem: Theorem,
    /// T: number of iterations.
    pub iterations: f64,
    /// S: first iteration that may be returned.
    pub burn_in: f64,
    /// tol_t: a constraint value up to this counts as feasible.
    pub tol: Schedule,
    /// eta_t: step.
    pub eta: Schedule,
    /// B: samples for one constraint value; `None` where values are exact.
    pub value_batch: Option<f64>,
    /// Whether the returned iterate is drawn from all iterations, not only from those that stepped on f.
    pub strongly_convex: bool,
    /// Lam: bound on the multipliers of the proximal subproblems; `None` where the theorem does not use it.
    pub multiplier_bound: Option<f64>,
    /// The guarantee, in one sentence.
    pub guarantee: String,
    /// E: the factor of the diminishing tolerance for stochastic oracles.
    pub e_factor: Option<f64>,
}

impl Readable for Plan {
    fn title(&self) -> String {
        format!("Theorem {}: {}", self.theorem, self.theorem.describe())
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let drawn = if self.strongly_convex { "all iterations from S on" } else { "the feasible iterations from S on" };
        let mut rows = vec![
            row("iterations", "T", whole(self.iterations)),
            row("first iteration that may be returned", "S", whole(self.burn_in)),
            row("returned iterate is drawn from", "", drawn),
            row("tolerance", "tol_t", self.tol.to_string()),
            row("step", "eta_t", self.eta.to_string()),
        ];
        rows.extend(self.value_batch.map(|b| row("samples for a constraint value", "B", whole(b))));
        rows.extend(self.multiplier_bound.map(|l| row("bound on the multipliers", "Lam", short(l))));
        rows.extend(self.e_factor.map(|e| row("factor of the tolerance", "E", short(e))));
        rows
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Computes the parameters that `theorem` prescribes for the accuracy `eps`. `as_printed` takes the batch of Theorem 5.2-I with the
/// exponent 2 that the paper prints instead of the 4 that its proof needs; it changes nothing else.
pub fn plan(theorem: Theorem, constants: &Constants, eps: f64, as_printed: bool) -> Result<Plan> {
    accuracy(eps)?;
    let needs = Requirements { theorem: &format!("Theorem {theorem}") };
    let mut plan = match theorem {
        Theorem::B1I | Theorem::B1II => strongly_convex(theorem, &needs, constants, eps)?,
        _ => convex(theorem, &needs, constants, eps, as_printed)?,
    };
    needs.finite(&[plan.iterations, plan.value_batch.unwrap_or(1.0)], eps)?;
    plan.iterations = plan.iterations.max(1.0);
    plan.burn_in = if diminishing(theorem) { (plan.iterations / 2.0).floor() } else { 0.0 };
    plan.tol.validate("tol", true)?;
    plan.eta.validate("eta", false)?;
    Ok(plan)
}

/// Theorems 4.2, 4.3 and 5.2.
fn convex(theorem: Theorem, needs: &Requirements, constants: &Constants, eps: f64, as_printed: bool) -> Result<Plan> {
    let Common { m, d, rho_hat, gap } = common(needs, constants)?;
    let slater = needs.positive("slater", constants.slater, "-g(x_feas), the margin of a strictly feasible point")?;
    let lam = (m * d + rho_hat * d * d) / slater;
    // Accuracy of the constraint value, which is also the constant tolerance.
    let level = eps.powi(2) * gap / (1.0 + lam);
    // M^2 D^2 (1 + Lam)^2 / (eps^4 (rho_hat - rho)^2), a factor of every T.
    let scale = (m * d / level).powi(2);

    let stochastic = !matches!(theorem, Theorem::T42I | Theorem::T42II);
    let noisy_values = matches!(theorem, Theorem::T52I | Theorem::T52II);
    // Exact oracles never fail, and none of their formulas has a logarithm.
    let delta = if stochastic { probability(needs, "confidence", constants.confidence)? } else { 1.0 };
    let (log8, log4) = ((8.0 / delta).ln(), (4.0 / delta).ln());

    let mut e_factor = None;
    let iterations = match theorem {
        Theorem::T42I => 25.0 / 4.0 * scale,
        Theorem::T42II => 50.0 * scale,
        Theorem::T43I | Theorem::T52I => {
            (25.0 / 4.0 * scale).max(12.0 * log8).max(16.0 / 9.0 * log8.powi(2)).max(300.0 * log4 * scale)
        }
        _ => {
            let first = if noisy_values { 8.0 } else { 4.0 };
            let drift = 2.0 * PI / 6f64.sqrt() * (12.0 * log8).sqrt().max(4.0 / 3.0 * log8);
            let e = first + drift + 8.0 * (3.0 * log4).sqrt();
            e_factor = Some(e);
            2.0 * e * e * scale
        }
    };
    let iterations = ceiling(iterations);
    let (tol, eta) = if diminishing(theorem) {
        (Schedule::InvSqrt(e_factor.unwrap_or(5.0) * m * d), Schedule::InvSqrt(d / m))
    } else {
        (Schedule::Constant(level), Schedule::Constant(2.0 * level / (5.0 * m * m)))
    };

    let mut value_batch = None;
    if noisy_values {
        let sigma = needs.not_negative("noise", constants.noise, "sigma, the noise of one sample of the constraint value")?;
        let batch = if theorem == Theorem::T52I {
            let exponent = if as_printed { 2 } else { 4 };
            300.0 * sigma.powi(2) * (4.0 * iterations / delta).ln() * (lam + 1.0).powi(exponent) / (eps.powi(2) * gap).powi(2)
        } else {
            1.5 * iterations * sigma.powi(2) * (2.0 * iterations / delta).ln() * ((lam + 1.0) / (m * d)).powi(2)
        };
        // Exact values (sigma = 0) still take one sample.
        value_batch = Some(ceiling(batch).max(1.0));
    }

    let chance =
        if stochastic { format!("With probability at least {} over the samples, the", short(1.0 - delta)) } else { "The".into() };
    let reached = if noisy_values { 2.0 * level } else { level };
    let mut guarantee = format!(
        "{chance} returned point is in expectation over its draw within {} of the solution of its proximal subproblem, and its \
         constraint value is in expectation at most {}",
        short(eps),
        short(reached)
    );
    guarantee += match theorem {
        Theorem::T52I if as_printed => " (as printed; the proof needs the batch with exponent 4).",
        _ => ".",
    };
    Ok(Plan {
        theorem,
        iterations,
        burn_in: 0.0,
        tol,
        eta,
        value_batch,
        strongly_convex: false,
        multiplier_bound: Some(lam),
        guarantee,
        e_factor,
    })
}

/// Theorem B.1.
fn strongly_convex(theorem: Theorem, needs: &Requirements, constants: &Constants, eps: f64) -> Result<Plan> {
    let Common { m, d, gap, .. } = common(needs, constants)?;
    let mu = needs.positive("strong_convexity", constants.strong_convexity, "mu, the strong-convexity constant of g")?;
    // eps^2 c with c = min(rho_hat - rho, mu / 2).
    let level = eps.powi(2) * gap.min(mu / 2.0);
    let scale = (m * d / level).powi(2);
    let (iterations, eta) =
        if diminishing(theorem) { (4.0 * scale, Schedule::InvSqrt(d / m)) } else { (scale, Schedule::Constant(level / (m * m))) };
    let guarantee = format!(
        "The returned point is in expectation over its draw within {} of the solution of its proximal subproblem, and its \
         constraint value is in expectation at most {}.",
        short(eps),
        short(m * eps)
    );
    Ok(Plan {
        theorem,
        iterations: ceiling(iterations),
        burn_in: 0.0,
        tol: Schedule::Constant(0.0),
        eta,
        value_batch: None,
        strongly_convex: true,
        multiplier_bound: None,
        guarantee,
        e_factor: None,
    })
}

fn diminishing(theorem: Theorem) -> bool {
    matches!(theorem, Theorem::T42II | Theorem::T43II | Theorem::T52II | Theorem::B1II)
}

/// Constants that every theorem uses, with the letters of the paper; `gap` is rho_hat - rho.
struct Common {
    m: f64,
    d: f64,
    rho_hat: f64,
    gap: f64,
}

fn common(needs: &Requirements, c: &Constants) -> Result<Common> {
    let m = needs.positive("lipschitz", c.lipschitz, "M, a bound on the norm of all subgradients")?;
    let d = needs.positive("diameter", c.diameter, "D, the diameter of the domain")?;
    let rho = needs.not_negative("rho", c.rho, "the weak-convexity constant of f")?;
    let range = format!("a finite number larger than rho = {rho}");
    let rho_hat = needs.number("rho_hat", c.rho_hat, "the proximal coefficient", &range, |v| v > rho)?;
    Ok(Common { m, d, rho_hat, gap: rho_hat - rho })
}

fn probability(needs: &Requirements, name: &str, value: Option<f64>) -> Result<f64> {
    needs.number(name, value, "delta, the failure probability", "between 0 and 1", |v| v > 0.0 && v < 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    /// The constants of the check values.
    fn unit() -> Constants {
        Constants {
            lipschitz: Some(1.0),
            diameter: Some(1.0),
            rho: Some(1.0),
            rho_hat: Some(2.0),
            slater: Some(1.0),
            noise: Some(0.5),
            strong_convexity: Some(1.0),
            confidence: Some(0.05),
        }
    }

    fn at(theorem: Theorem) -> Plan {
        plan(theorem, &unit(), 0.1, false).unwrap()
    }

    fn constant(s: Schedule) -> f64 {
        assert!(matches!(s, Schedule::Constant(_)), "{s}");
        s.at(0)
    }

    fn inv_sqrt(s: Schedule) -> f64 {
        assert!(matches!(s, Schedule::InvSqrt(_)), "{s}");
        s.at(0)
    }

    #[test]
    fn theorem_4_2() {
        let p = at(Theorem::T42I);
        assert_eq!((p.iterations, p.burn_in, p.multiplier_bound), (1e6, 0.0, Some(3.0)));
        close(constant(p.tol), 0.0025, 1e-14);
        close(constant(p.eta), 0.001, 1e-14);
        assert_eq!((p.value_batch, p.e_factor, p.strongly_convex), (None, None, false));
        let p = at(Theorem::T42II);
        assert_eq!((p.iterations, p.burn_in), (8e6, 4e6));
        assert_eq!((inv_sqrt(p.tol), inv_sqrt(p.eta)), (5.0, 1.0));
    }

    #[test]
    fn theorem_4_3() {
        let p = at(Theorem::T43I);
        assert_eq!((p.iterations, p.burn_in), (210_337_279.0, 0.0));
        close(constant(p.tol), 0.0025, 1e-14);
        close(constant(p.eta), 0.001, 1e-14);
        let p = at(Theorem::T43II);
        close(p.e_factor.unwrap(), 53.0240021, 1e-9);
        assert_eq!((p.iterations, p.burn_in), (899_694_335.0, 449_847_167.0));
        close(inv_sqrt(p.tol), 53.0240021, 1e-9);
        assert_eq!(inv_sqrt(p.eta), 1.0);
    }

    #[test]
    fn theorem_5_2() {
        let p = at(Theorem::T52I);
        assert_eq!((p.iterations, p.burn_in), (210_337_279.0, 0.0));
        close(constant(p.tol), 0.0025, 1e-14);
        close(p.value_batch.unwrap(), 4.5209e9, 1e-5);
        let printed = plan(Theorem::T52I, &unit(), 0.1, true).unwrap();
        close(printed.value_batch.unwrap(), 2.8255e8, 2e-5);
        assert!(printed.guarantee.contains("exponent 4") && !p.guarantee.contains("exponent"));
        let p = at(Theorem::T52II);
        close(p.e_factor.unwrap(), 57.0240021, 1e-9);
        assert_eq!((p.iterations, p.burn_in), (1_040_555_780.0, 520_277_890.0));
        close(inv_sqrt(p.tol), 57.0240021, 1e-9);
        close(p.value_batch.unwrap(), 1.52661e11, 3e-6);
        assert_eq!(p.value_batch.unwrap().fract(), 0.0);
    }

    #[test]
    fn theorem_b_1() {
        let constants = Constants { diameter: Some(2.0), slater: None, noise: None, confidence: None, ..unit() };
        let p = plan(Theorem::B1I, &constants, 0.1, false).unwrap();
        assert_eq!((p.iterations, p.burn_in), (160_000.0, 0.0));
        close(constant(p.eta), 0.005, 1e-14);
        assert_eq!((constant(p.tol), p.strongly_convex, p.multiplier_bound), (0.0, true, None));
        let p = plan(Theorem::B1II, &constants, 0.1, false).unwrap();
        assert_eq!((p.iterations, p.burn_in, p.strongly_convex), (640_000.0, 320_000.0, true));
        assert_eq!(inv_sqrt(p.eta), 2.0);
    }

    #[test]
    fn every_constant_enters_with_its_power() {
        // Worked by hand: M = 2, D = 3, rho = 0.5, rho_hat = 1, slater = 5: Lam = (6 + 9) / 5 = 3, gap = 0.5.
        let c = Constants {
            lipschitz: Some(2.0),
            diameter: Some(3.0),
            rho: Some(0.5),
            rho_hat: Some(1.0),
            slater: Some(5.0),
            noise: Some(2.0),
            strong_convexity: Some(0.2),
            confidence: Some(0.1),
        };
        let p = plan(Theorem::T42I, &c, 0.5, false).unwrap();
        assert_eq!(p.multiplier_bound, Some(3.0));
        // tol = 0.25 * 0.5 / 4; eta = 2 * 0.125 / (5 * 4 * 4); T = 25 * 36 * 16 / (4 * 0.0625 * 0.25).
        assert_eq!((constant(p.tol), p.iterations), (0.031_25, 230_400.0));
        close(constant(p.eta), 0.003_125, 1e-14);
        let p = plan(Theorem::T42II, &c, 0.5, false).unwrap();
        // tol = 5 * 6; eta = 3 / 2; T = 50 * 36 * 16 / (0.0625 * 0.25).
        assert_eq!((inv_sqrt(p.tol), inv_sqrt(p.eta), p.iterations), (30.0, 1.5, 1_843_200.0));
        // B.1: c = min(0.5, 0.1) = 0.1; eta = 0.25 * 0.1 / 4; T = 36 / (0.0625 * 0.01).
        let p = plan(Theorem::B1I, &c, 0.5, false).unwrap();
        close(constant(p.eta), 0.006_25, 1e-14);
        assert_eq!(p.iterations, 57_600.0);
        // 5.2: B in terms of the plan's own T.
        let p = plan(Theorem::T52I, &c, 0.5, false).unwrap();
        let wanted = 300.0 * 4.0 * (4.0 * p.iterations / 0.1).ln() * 256.0 / (0.0625 * 0.25);
        close(p.value_batch.unwrap(), wanted, 1e-6);
        let p = plan(Theorem::T52II, &c, 0.5, false).unwrap();
        let wanted = 3.0 * p.iterations * 4.0 * (2.0 * p.iterations / 0.1).ln() * 16.0 / (2.0 * 36.0);
        close(p.value_batch.unwrap(), wanted, 1e-6);
    }

    #[test]
    fn easy_accuracies_still_need_the_logarithms() {
        // A huge slater makes Lam vanish and a huge eps makes the scale small: 12 ln(8 / delta) is what remains.
        let c = Constants { slater: Some(1e9), ..unit() };
        let p = plan(Theorem::T43I, &c, 100.0, false).unwrap();
        assert_eq!(p.iterations, (12.0 * 160f64.ln()).ceil());
        // With a tiny delta the squared logarithm is larger.
        let p = plan(Theorem::T43I, &Constants { confidence: Some(1e-9), ..c }, 100.0, false).unwrap();
        assert_eq!(p.iterations, (16.0 / 9.0 * 8e9f64.ln().powi(2)).ceil());
        assert_eq!(plan(Theorem::T42I, &c, 100.0, false).unwrap().iterations, 1.0);
        assert_eq!(plan(Theorem::T52II, &Constants { noise: Some(0.0), ..c }, 1.0, false).unwrap().value_batch, Some(1.0));
    }

    #[test]
    fn missing_constants_are_named() {
        let refuse = |t: Theorem, c: Constants| plan(t, &c, 0.1, false).unwrap_err().to_string();
        for (sentence, theorem, c) in [
            (
                "slater is missing; Theorem 4.2-I needs -g(x_feas), the margin of a strictly feasible point, a \
                 finite number larger than 0",
                Theorem::T42I,
                Constants { slater: None, ..unit() },
            ),
            (
                "lipschitz is missing; Theorem B.1-I needs M, a bound on the norm of all subgradients, a finite \
                 number larger than 0",
                Theorem::B1I,
                Constants::default(),
            ),
            (
                "diameter is missing; Theorem 4.2-I needs D, the diameter of the domain, a finite number larger \
                 than 0",
                Theorem::T42I,
                Constants { diameter: None, ..unit() },
            ),
            (
                "rho is missing; Theorem 4.2-II needs the weak-convexity constant of f, a finite number, 0 or \
                 larger",
                Theorem::T42II,
                Constants { rho: None, ..unit() },
            ),
            (
                "rho_hat is missing; Theorem 4.3-I needs the proximal coefficient, a finite number larger than \
                 rho = 1",
                Theorem::T43I,
                Constants { rho_hat: None, ..unit() },
            ),
            (
                "confidence is missing; Theorem 4.3-II needs delta, the failure probability, between 0 and 1",
                Theorem::T43II,
                Constants { confidence: None, ..unit() },
            ),
            (
                "noise is missing; Theorem 5.2-I needs sigma, the noise of one sample of the constraint value, a \
                 finite number, 0 or larger",
                Theorem::T52I,
                Constants { noise: None, ..unit() },
            ),
            (
                "strong_convexity is missing; Theorem B.1-II needs mu, the strong-convexity constant of g, a \
                 finite number larger than 0",
                Theorem::B1II,
                Constants { strong_convexity: None, ..unit() },
            ),
        ] {
            let message = refuse(theorem, c);
            assert_eq!(message, sentence);
        }
        // What a theorem does not need may be missing or senseless.
        let lean = Constants { noise: None, strong_convexity: Some(-1.0), confidence: None, ..unit() };
        assert_eq!(plan(Theorem::T42I, &lean, 0.1, false).unwrap(), at(Theorem::T42I));
    }

    #[test]
    fn bad_values_are_refused_with_a_sentence() {
        let refuse = |t: Theorem, c: Constants, eps| plan(t, &c, eps, false).unwrap_err().to_string();
        for eps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let wanted = format!("eps must be a finite number larger than 0, got {eps}");
            assert_eq!(refuse(Theorem::T42I, unit(), eps), wanted);
        }
        assert_eq!(
            refuse(Theorem::T42I, Constants { rho_hat: Some(1.0), ..unit() }, 0.1),
            "rho_hat must be a finite number larger than rho = 1, got 1; it is the proximal coefficient"
        );
        for delta in [0.0, 1.0, -0.1, f64::NAN] {
            let message = refuse(Theorem::T43I, Constants { confidence: Some(delta), ..unit() }, 0.1);
            assert_eq!(message, format!("confidence must be between 0 and 1, got {delta}; it is delta, the failure probability"));
        }
        for (sentence, c) in [
            (
                "slater must be a finite number larger than 0, got 0; it is -g(x_feas), the margin of a strictly \
                 feasible point",
                Constants { slater: Some(0.0), ..unit() },
            ),
            (
                "lipschitz must be a finite number larger than 0, got -1; it is M, a bound on the norm of all \
                 subgradients",
                Constants { lipschitz: Some(-1.0), ..unit() },
            ),
            (
                "diameter must be a finite number larger than 0, got inf; it is D, the diameter of the domain",
                Constants { diameter: Some(f64::INFINITY), ..unit() },
            ),
            (
                "rho must be a finite number, 0 or larger, got -1; it is the weak-convexity constant of f",
                Constants { rho: Some(-1.0), ..unit() },
            ),
            (
                "noise must be a finite number, 0 or larger, got NaN; it is sigma, the noise of one sample of \
                 the constraint value",
                Constants { noise: Some(f64::NAN), ..unit() },
            ),
        ] {
            let message = refuse(Theorem::T52II, c, 0.1);
            assert_eq!(message, sentence);
        }
        assert_eq!(
            refuse(Theorem::B1I, Constants { strong_convexity: Some(0.0), ..unit() }, 0.1),
            "strong_convexity must be a finite number larger than 0, got 0; it is mu, the strong-convexity \
             constant of g"
        );
        assert_eq!(
            refuse(Theorem::T42I, unit(), 1e-90),
            "Theorem 4.2-I with eps = 1e-90 requires more iterations or samples than a number can hold: choose a \
             larger eps"
        );
    }

    #[test]
    fn ceilings_forgive_rounding_only() {
        assert_eq!(ceiling(999_999.999_999_999_8), 1e6);
        assert_eq!(ceiling(1_000_000.000_000_1), 1e6);
        assert_eq!(ceiling(1_000_000.01), 1_000_001.0);
        // A relative tolerance alone would swallow whole iterations here.
        assert_eq!(ceiling(899_694_334.206), 899_694_335.0);
        assert_eq!(ceiling(0.0), 0.0);
    }

    #[test]
    fn names_are_read_and_written() {
        for t in Theorem::ALL {
            assert_eq!(t.to_string().parse(), Ok(t));
            assert_eq!(toml::Value::try_from(t).unwrap().as_str(), Some(t.name()));
        }
        let message = "4.2".parse::<Theorem>().unwrap_err().to_string();
        assert_eq!(message, "theorem must be one of 4.2-I, 4.2-II, 4.3-I, 4.3-II, 5.2-I, 5.2-II, B.1-I, B.1-II, got 4.2");
    }

    #[test]
    fn plans_and_constants_survive_serialisation() {
        for t in Theorem::ALL {
            let p = at(t);
            assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
            assert_eq!(postcard::from_bytes::<Plan>(&postcard::to_stdvec(&p).unwrap()).unwrap(), p);
        }
        let c = Constants { slater: None, ..unit() };
        assert_eq!(toml::from_str::<Constants>(&toml::to_string(&c).unwrap()).unwrap(), c);
        let unknown = toml::from_str::<Constants>("lipschits = 1.0").unwrap_err().to_string();
        assert!(unknown.contains("unknown field `lipschits`"), "{unknown}");
    }

    #[test]
    fn rows_say_what_the_plan_says() {
        let value = |p: &Plan, symbol: &str| p.rows().into_iter().find(|r| r[1] == symbol).map(|r| r[2].clone());
        let p = at(Theorem::T52II);
        assert_eq!(value(&p, "T").as_deref(), Some("1040555780"));
        assert_eq!(value(&p, "S").as_deref(), Some("520277890"));
        assert_eq!(value(&p, "E").as_deref(), Some("57.0240021"));
        assert_eq!(value(&p, "tol_t").as_deref(), Some("57.0240021 / sqrt(t + 1)"));
        assert_eq!(value(&p, "Lam").as_deref(), Some("3"));
        let p = at(Theorem::B1I);
        assert_eq!((value(&p, "B"), value(&p, "Lam")), (None, None));
        assert_eq!(value(&p, "eta_t").as_deref(), Some("0.005"));
        let p = at(Theorem::T43I);
        assert_eq!(p.title(), "Theorem 4.3-I: stochastic subgradients of f, exact constraint values, constant steps");
        assert_eq!(
            p.guarantee(),
            "With probability at least 0.95 over the samples, the returned point is in expectation over its draw within 0.1 of the \
             solution of its proximal subproblem, and its constraint value is in expectation at most 0.0025."
        );
    }
}
