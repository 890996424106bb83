//! Parameters of 3S-Econ from Theorems 2.5 and 3.4 and Propositions 3.7 and 3.12 of Liu & Xu, "A single-loop SPIDER-type
//! stochastic subgradient method for expectation-constrained nonconvex nonsmooth optimization".
//!
//! The chain: a regularity constant theta (given, or from Slater's condition by Lemmas A.1 to A.3) gives the penalty beta, the
//! smoothing nu and the accuracy eps_bar to which the penalty problem must be solved (Theorem 2.5); these give the batches,
//! the epoch, the step and the number of epochs (Theorem 3.4).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, row, theorem_by_name, whole};
use crate::{Error, Result};

/// Constants of a problem. A theorem checks that those it requires are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// l_f: bound on the norm of the subgradients of f.
    pub objective_lipschitz: Option<f64>,
    /// l_g: bound on the norm of the subgradients of g.
    pub constraint_lipschitz: Option<f64>,
    /// L_g: mean-square Lipschitz constant of the samples, `E|g(x,xi) - g(y,xi)|^2 <= L_g^2 ||x - y||^2`.
    pub mean_square_lipschitz: Option<f64>,
    /// sigma: standard deviation of one sample of the constraint value.
    pub noise: Option<f64>,
    /// sigma_1: standard deviation of a stochastic subgradient of f; 0 if exact.
    pub objective_subgradient_noise: Option<f64>,
    /// sigma_2: standard deviation of a stochastic subgradient of g; 0 if exact.
    pub constraint_subgradient_noise: Option<f64>,
    /// rho_f: f is rho_f-weakly convex, larger than 0 (a convex f is so for every number).
    pub rho: Option<f64>,
    /// rho_g: g is rho_g-weakly convex; 0 for a convex g.
    pub rho_g: Option<f64>,
    /// D: the diameter (not the radius) of the domain.
    pub diameter: Option<f64>,
    /// B_f: f varies by at most this on the domain; l_f D if absent.
    pub objective_range: Option<f64>,
    /// theta: sharpness (convex g), `theta dist(x, feasible set) <= g(x)`, or gradient-away, `||s_g|| >= theta`, where
    /// `0 < g(x) <= B_g`. If absent it is derived from `slater_margin` and `slater_curvature`, or from `slater`.
    pub regularity: Option<f64>,
    /// B_g: regularity holds where g is at most this. With `slater` every level will do, and one is chosen if this is absent.
    pub level: Option<f64>,
    /// B: margin of the uniform Slater condition, `g(y) + (rho_bar/2)||y - x||^2 <= -B` for some y at every x with
    /// `g(x) <= B_g`.
    pub slater_margin: Option<f64>,
    /// rho_bar: curvature of the uniform Slater condition, larger than rho_g.
    pub slater_curvature: Option<f64>,
    /// -g(y0): slack of the constraint at a strictly feasible point.
    pub slater: Option<f64>,
    /// Delta: how far the Moreau envelope of the penalty problem may fall from the start.
    pub envelope_gap: Option<f64>,
    /// N: number of samples, for constraints that are finite sums.
    pub samples: Option<f64>,
    /// beta: the penalty, if it is not to be chosen.
    pub beta: Option<f64>,
    /// nu: the smoothing, if it is not to be chosen.
    pub nu: Option<f64>,
}

/// A theorem about 3S-Econ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Theorem {
    /// Penalty, smoothing and accuracy for which stationary points of the penalty problem are KKT points.
    #[serde(rename = "2.5")]
    T25,
    /// Batches, step and epochs for a given penalty and smoothing; here eps is the accuracy for the penalty problem, eps_bar.
    /// With `samples` it is Theorem 3.5, for finite sums.
    #[serde(rename = "3.4")]
    T34,
    /// Both: from eps to batches, step and epochs.
    #[serde(rename = "3.7")]
    P37,
    /// Finite sum, weakly convex, uniform Slater condition; exact values and subgradients of g.
    #[serde(rename = "3.12")]
    P312,
}

impl Theorem {
    /// Every theorem, in the order of the paper.
    pub const ALL: [Theorem; 4] = [Theorem::T25, Theorem::T34, Theorem::P37, Theorem::P312];

    /// Returns the number in the paper.
    pub fn name(&self) -> &'static str {
        match self {
            Theorem::T25 => "2.5",
            Theorem::T34 => "3.4",
            Theorem::P37 => "3.7",
            Theorem::P312 => "3.12",
        }
    }

    /// Describes the theorem.
    pub fn describe(&self) -> &'static str {
        match self {
            Theorem::T25 => "penalty, smoothing and accuracy of the penalty problem",
            Theorem::T34 => {
                "batches, step and epochs for a given penalty and smoothing (eps is the accuracy of the penalty problem)"
            }
            Theorem::P37 => "from eps to penalty, batches, step and epochs",
            Theorem::P312 => "finite sum, weakly convex constraint, uniform Slater condition, exact values of the constraint",
        }
    }
}

/// With the word that the paper uses, as in "Proposition 3.7".
impl fmt::Display for Theorem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Theorem::T25 | Theorem::T34) { "Theorem" } else { "Proposition" };
        write!(f, "{kind} {}", self.name())
    }
}

impl FromStr for Theorem {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        theorem_by_name(&Theorem::ALL, Theorem::name, name)
    }
}

/// The uniform Slater condition (Assumption 5): for every x with `g(x) <= B_g` some y has
/// `g(y) + (rho_bar/2)||y - x||^2 <= -B`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UniformSlater {
    /// B.
    pub margin: f64,
    /// rho_bar.
    pub curvature: f64,
}

impl UniformSlater {
    /// From one point y0 that keeps the constraint by `depth = -g(y0) > rho_g D^2 / 2`: the condition then holds at every x,
    /// whatever B_g. Of the pairs with `B + rho_bar D^2 / 2 = depth` this is the one with the largest theta; for convex g it is
    /// the choice of Remark 3.9, B = depth / 2 and rho_bar = depth / D^2, with theta = depth / D. The strong feasibility of
    /// Remark 3.8, depth >= 2 rho_g D^2, is a special case.
    pub fn from_point(depth: f64, diameter: f64, rho_g: f64) -> Result<Self> {
        let d2 = diameter * diameter;
        if !(depth > rho_g * d2 / 2.0 && depth > 0.0 && depth.is_finite() && d2 > 0.0 && d2.is_finite()) {
            let wanted = format!(
                "larger than rho_g D^2 / 2 = {}: only then does one strictly feasible point imply a uniform Slater condition; \
                 otherwise give slater_margin and slater_curvature",
                short(rho_g * d2 / 2.0)
            );
            return Err(Error::setting("slater", depth, wanted));
        }
        Ok(UniformSlater { margin: depth / 2.0 - rho_g * d2 / 4.0, curvature: depth / d2 + rho_g / 2.0 })
    }

    /// theta = sqrt(2 B (rho_bar - rho_g)). Lemma A.1: every subgradient of g is at least this long where `0 < g(x) <= B_g`.
    /// Lemma A.2: if g is convex, `theta dist(x, feasible set) <= g(x)` there.
    pub fn regularity(&self, rho_g: f64) -> f64 {
        (2.0 * self.margin * (self.curvature - rho_g)).sqrt()
    }

    /// Lemma A.3, for weakly convex g.
    pub fn error_bound(&self, rho_g: f64, level: f64, constraint_lipschitz: f64) -> ErrorBound {
        let gamma = (self.margin * (self.curvature - rho_g) / 2.0).sqrt();
        ErrorBound { gamma, radius: (2.0 * gamma / rho_g).min(level / constraint_lipschitz) }
    }
}

/// `gamma dist(x, feasible set) <= max(0, g(x))` for every x that is within `radius` of the feasible set (Lemma A.3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorBound {
    /// gamma = sqrt(B (rho_bar - rho_g) / 2), half of theta.
    pub gamma: f64,
    /// min{2 gamma / rho_g, B_g / l_g}.
    pub radius: f64,
}

/// The three cases of Theorem 2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Case {
    /// Convex g, sharpness, beta > (B_f + rho_f D^2) / B_g.
    #[serde(rename = "i")]
    Sharp,
    /// Gradient-away, B_g > rho_g D^2, beta > (B_f + rho_f D^2) / (B_g - rho_g D^2).
    #[serde(rename = "ii")]
    HighLevel,
    /// Gradient-away, g(x) <= B_g / 2 at the point in question, beta >= 2 B_f / B_g.
    #[serde(rename = "iii")]
    NearFeasible,
}

impl Case {
    /// The number and the meaning.
    pub fn describe(&self) -> &'static str {
        match self {
            Case::Sharp => "(i) convex constraint, sharpness",
            Case::HighLevel => "(ii) gradient-away, B_g > rho_g D^2",
            Case::NearFeasible => "(iii) gradient-away, g(x) <= B_g / 2",
        }
    }
}

/// Theorem 2.5: a point that is near-eps_bar stationary for the penalty problem is within eps of an eps-KKT point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Which of the three cases applies.
    pub case: Case,
    /// theta.
    pub regularity: f64,
    /// B_g.
    pub level: f64,
    /// The bound that beta must exceed: the largest of (l_f + eps) / theta and the one of the case.
    pub beta_above: f64,
    /// The largest admissible eps_bar for the chosen beta.
    pub eps_bar_at_most: f64,
    /// The largest admissible nu for the chosen beta.
    pub nu_at_most: f64,
}

/// Batches, step and number of epochs. Counts are whole numbers, stored as `f64` because worst cases exceed every integer type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// L_F^2 = 2 (sigma_1^2 + l_f^2 + beta^2 sigma_2^2 + beta^2 l_g^2).
    pub penalty_lipschitz_squared: f64,
    /// S1: samples for the constraint value at the start of an epoch.
    pub s1: f64,
    /// S2: samples for its changes inside an epoch.
    pub s2: f64,
    /// q: iterations of an epoch.
    pub q: f64,
    /// alpha: step.
    pub alpha: f64,
    /// K: number of epochs.
    pub epochs: f64,
    /// K q: number of iterations, of subgradients of f and of subgradients of g.
    pub iterations: f64,
    /// K (S1 + (q-1) S2): samples of the constraint value, a pair of points counted once.
    pub value_samples: f64,
    /// K (S1 + 2 (q-1) S2): evaluations of the constraint on a sample.
    pub value_evaluations: f64,
}

/// Additional conditions of Proposition 3.12.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// gamma of Lemma A.3.
    pub gamma: f64,
    /// C0, the level below which one step cannot leave the region.
    pub c0: f64,
    /// min{gamma / (2 rho_g), B_g / (2 l_g)}: x_0 must be at most this far from the feasible set.
    pub distance_at_most: f64,
}

/// Parameters that a theorem prescribes, and their guarantee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The theorem.
    pub theorem: Theorem,
    /// beta: penalty.
    pub beta: f64,
    /// nu: smoothing.
    pub nu: f64,
    /// eps_bar: accuracy to which the penalty problem is solved.
    pub eps_bar: f64,
    /// rho = rho_f + beta rho_g: weak convexity of the penalty problem.
    pub rho: f64,
    /// The bounds of Theorem 2.5; `None` where penalty and smoothing were given without it.
    pub transfer: Option<Transfer>,
    /// Batches, step and epochs; `None` for Theorem 2.5.
    pub steps: Option<Steps>,
    /// Conditions of Proposition 3.12 on the start.
    pub start: Option<Start>,
    /// The guarantee, in one sentence.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        format!("{}: {}", self.theorem, self.theorem.describe())
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = vec![];
        if let Some(t) = &self.transfer {
            rows.push(row("case of Theorem 2.5", "", t.case.describe()));
            rows.push(row("regularity", "theta", short(t.regularity)));
            rows.push(row("level up to which it holds", "B_g", short(t.level)));
            rows.push(row("penalty must be above", "", short(t.beta_above)));
            rows.push(row("smoothing at most", "", short(t.nu_at_most)));
            rows.push(row("accuracy of the penalty problem at most", "", short(t.eps_bar_at_most)));
        }
        if let Some(s) = &self.start {
            rows.push(row("error bound", "gamma", short(s.gamma)));
            rows.push(row("level that one step keeps", "C0", short(s.c0)));
            rows.push(row("start is this near the feasible set", "", short(s.distance_at_most)));
        }
        rows.push(row("penalty", "beta", short(self.beta)));
        rows.push(row("smoothing", "nu", short(self.nu)));
        rows.push(row("accuracy of the penalty problem", "eps_bar", short(self.eps_bar)));
        rows.push(row("weak convexity of the penalty problem", "rho", short(self.rho)));
        if let Some(s) = &self.steps {
            rows.push(row("squared subgradient bound of the penalty", "L_F^2", short(s.penalty_lipschitz_squared)));
            rows.push(row("samples at the start of an epoch", "S1", whole(s.s1)));
            rows.push(row("samples inside an epoch", "S2", whole(s.s2)));
            rows.push(row("iterations of an epoch", "q", whole(s.q)));
            rows.push(row("step", "alpha", short(s.alpha)));
            rows.push(row("epochs", "K", whole(s.epochs)));
            rows.push(row("iterations", "K q", whole(s.iterations)));
            rows.push(row("samples of constraint values", "", whole(s.value_samples)));
            rows.push(row("evaluations of constraint values", "", whole(s.value_evaluations)));
        }
        rows
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Computes the parameters that `theorem` prescribes for the accuracy `eps`.
///
/// Of what Theorem 2.5 admits this takes the largest eps_bar and nu, and for beta, if it is not given, the largest of
/// 2 (l_f + eps) / theta and 1.01 times the bound of the case. Twice, because eps_bar carries the factor
/// (beta theta - l_f) / (beta theta): with beta just above its bound that factor is about eps / l_f, and the number of
/// iterations would grow like eps^-8. The work is proportional to between b^2 (b/(b-1))^4 and b^3 (b/(b-1))^3 in
/// b = beta theta / l_f, which are smallest at 3 and at 2.
pub fn plan(theorem: Theorem, constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let name = theorem.to_string();
    let derivation = Derivation { needs: Requirements { theorem: &name }, c: constants, eps };
    let plan = match theorem {
        Theorem::T25 => {
            let (transfer, beta, nu, rho) = derivation.transfer(None)?;
            derivation.plan(theorem, beta, nu, transfer.eps_bar_at_most, rho, Some(transfer))
        }
        Theorem::T34 => derivation.given()?,
        Theorem::P37 => derivation.whole_chain()?,
        Theorem::P312 => derivation.near_feasible()?,
    };
    if let Some(s) = &plan.steps {
        derivation.needs.finite(&[s.s1, s.epochs, s.value_evaluations, 1.0 / s.alpha], eps)?;
    }
    Ok(plan)
}

struct Derivation<'a> {
    needs: Requirements<'a>,
    c: &'a Constants,
    eps: f64,
}

/// The extra conditions of Proposition 3.12 on beta and nu.
struct Extra {
    beta_at_least: f64,
    nu_at_most: f64,
}

const LEVEL: &str = "B_g, the constraint value up to which regularity holds";
const PENALTY: &str = "the penalty weight";
const SMOOTHING: &str = "the smoothing parameter";

impl Derivation<'_> {
    fn l_f(&self) -> Result<f64> {
        self.needs.positive(
            "objective_lipschitz",
            self.c.objective_lipschitz,
            "l_f, a bound on the norm of the subgradients of f",
        )
    }

    fn l_g(&self) -> Result<f64> {
        self.needs.positive(
            "constraint_lipschitz",
            self.c.constraint_lipschitz,
            "l_g, a bound on the norm of the subgradients of g",
        )
    }

    fn rho_f(&self) -> Result<f64> {
        self.needs.positive("rho", self.c.rho, "rho_f, the weak-convexity constant of f (any positive number if f is convex)")
    }

    fn rho_g(&self) -> Result<f64> {
        self.needs.not_negative("rho_g", self.c.rho_g, "the weak-convexity constant of g (0 if g is convex)")
    }

    fn diameter(&self) -> Result<f64> {
        self.needs.positive("diameter", self.c.diameter, "D, the diameter of the domain")
    }

    /// B_f.
    fn range(&self) -> Result<f64> {
        match self.c.objective_range {
            Some(_) => self.needs.not_negative("objective_range", self.c.objective_range, "B_f, the range of f over the domain"),
            None => Ok(self.l_f()? * self.diameter()?),
        }
    }

    /// The uniform Slater condition, and whether it holds for every level.
    fn slater(&self) -> Result<(UniformSlater, bool)> {
        let (c, rho_g) = (self.c, self.rho_g()?);
        if c.slater_margin.is_none() && c.slater_curvature.is_none() && c.slater.is_some() {
            let depth = self.needs.positive("slater", c.slater, "-g(y0), the margin of a strictly feasible point")?;
            return Ok((UniformSlater::from_point(depth, self.diameter()?, rho_g)?, true));
        }
        let meaning =
            "B, the margin of the uniform Slater condition (slater, the margin of one strictly feasible point, can replace it)";
        let margin = self.needs.positive("slater_margin", c.slater_margin, meaning)?;
        let (meaning, range) =
            ("rho_bar, the curvature of the uniform Slater condition", format!("a finite number larger than rho_g = {rho_g}"));
        let curvature = self.needs.number("slater_curvature", c.slater_curvature, meaning, &range, |v| v > rho_g)?;
        Ok((UniformSlater { margin, curvature }, false))
    }

    /// theta, and whether it holds for every level.
    fn theta(&self) -> Result<(f64, bool)> {
        let c = self.c;
        let meaning =
            "theta, the constant of sharpness or gradient-away (slater, or slater_margin and slater_curvature, can replace it)";
        if c.regularity.is_some() || [c.slater_margin, c.slater_curvature, c.slater].iter().all(Option::is_none) {
            return Ok((self.needs.positive("regularity", c.regularity, meaning)?, false));
        }
        let (slater, every_level) = self.slater()?;
        Ok((slater.regularity(self.rho_g()?), every_level))
    }

    fn level(&self) -> Result<f64> {
        self.needs.positive("level", self.c.level, LEVEL)
    }

    /// Theorem 2.5: the bounds, then beta, nu and rho.
    fn transfer(&self, extra: Option<Extra>) -> Result<(Transfer, f64, f64, f64)> {
        let eps = self.eps;
        let (l_f, rho_f, rho_g, b_f) = (self.l_f()?, self.rho_f()?, self.rho_g()?, self.range()?);
        let (theta, every_level) = self.theta()?;
        let exact = (l_f + eps) / theta;
        // A level is free only if a strictly feasible point gave theta: take the one where both bounds on beta agree.
        let level = match self.c.level {
            None if every_level => {
                let d2 = self.diameter()?.powi(2);
                (b_f + rho_f * d2) / exact + rho_g * d2
            }
            _ => self.level()?,
        };
        let high = || -> Result<f64> { Ok(level - rho_g * self.diameter()?.powi(2)) };
        let case = if extra.is_some() {
            Case::NearFeasible
        } else if rho_g == 0.0 {
            Case::Sharp
        } else if high()? > 0.0 {
            Case::HighLevel
        } else {
            Case::NearFeasible
        };
        let (case_bound, strict) = match case {
            Case::Sharp | Case::HighLevel => ((b_f + rho_f * self.diameter()?.powi(2)) / high()?, true),
            Case::NearFeasible => (2.0 * b_f / level, false),
        };
        let (extra_beta, extra_nu) = extra.map_or((0.0, f64::INFINITY), |e| (e.beta_at_least, e.nu_at_most));
        let chosen = (2.0 * exact).max(if strict { 1.01 } else { 1.0 } * case_bound).max(extra_beta);
        let beta = match self.c.beta {
            None => chosen,
            given => {
                let range = format!(
                    "larger than {} = (l_f + eps) / theta, {} {} by case {}, and at least {}",
                    short(exact),
                    if strict { "larger than" } else { "at least" },
                    short(case_bound),
                    case.describe(),
                    short(extra_beta)
                );
                let case_holds = |v: f64| if strict { v > case_bound } else { v >= case_bound };
                self.needs.number("beta", given, PENALTY, &range, |v| v > exact && case_holds(v) && v >= extra_beta)?
            }
        };
        let rho = rho_f + beta * rho_g;
        let slack = beta * theta - l_f;
        let nu_at_most = level.min(eps / 2.0).min(eps / beta).min(extra_nu);
        let eps_bar_at_most = eps * (slack / (beta * theta)).min(slack / (2.0 * level)).min(2.0 * rho);
        let beta_above = exact.max(case_bound).max(extra_beta);
        let nu = self.nu(nu_at_most)?;
        Ok((Transfer { case, regularity: theta, level, beta_above, eps_bar_at_most, nu_at_most }, beta, nu, rho))
    }

    /// nu as given, or as large as admitted.
    fn nu(&self, at_most: f64) -> Result<f64> {
        let range = format!("larger than 0 and at most {}", short(at_most));
        self.needs.number("nu", self.c.nu.or(Some(at_most)), SMOOTHING, &range, |v| v > 0.0 && v <= at_most)
    }

    fn gap(&self) -> Result<f64> {
        let hint = match self.range() {
            Ok(b_f) => format!(" (from a feasible start at most B_f = {})", short(b_f)),
            Err(_) => String::new(),
        };
        let meaning =
            format!("Delta, the largest possible decrease of the Moreau envelope of the penalty problem from the start{hint}");
        self.needs.positive("envelope_gap", self.c.envelope_gap, &meaning)
    }

    /// S1 for a finite sum.
    fn samples(&self) -> Result<f64> {
        self.needs.count("samples", self.c.samples, "N, the number of samples of the finite sum")
    }

    /// L_F^2, and sqrt(l_g^2 + sigma_2^2).
    fn lengths(&self, beta: f64, exact_constraint: bool) -> Result<(f64, f64)> {
        let c = self.c;
        let meaning = "sigma_1, the standard deviation of a subgradient of f (0 if it is exact)";
        let sigma_1 = self.needs.not_negative("objective_subgradient_noise", c.objective_subgradient_noise, meaning)?;
        let meaning = "sigma_2, the standard deviation of a subgradient of g (0 if it is exact)";
        let sigma_2 = if exact_constraint {
            0.0
        } else {
            self.needs.not_negative("constraint_subgradient_noise", c.constraint_subgradient_noise, meaning)?
        };
        let constraint = self.l_g()?.powi(2) + sigma_2.powi(2);
        let objective = self.l_f()?.powi(2) + sigma_1.powi(2);
        Ok((2.0 * (objective + beta * beta * constraint), constraint.sqrt()))
    }

    /// The two bounds on the step that every theorem has: on the drift of the iterates, and on the error of the values.
    fn step(&self, beta: f64, nu: f64, eps_bar: f64, rho: f64, lengths: (f64, f64)) -> Result<f64> {
        let meaning = "L_g, the mean-square Lipschitz constant of the samples of g";
        let l = self.needs.positive("mean_square_lipschitz", self.c.mean_square_lipschitz, meaning)?;
        let (square, constraint) = lengths;
        let drift = eps_bar.powi(2) / (16.0 * rho * square);
        Ok(drift.min(eps_bar * nu / (4.0 * beta * constraint * l * square.sqrt())))
    }

    /// Theorem 3.4; with `samples` Theorem 3.5.
    fn steps(&self, beta: f64, nu: f64, eps_bar: f64, rho: f64) -> Result<Steps> {
        let (square, constraint) = self.lengths(beta, false)?;
        let alpha = self.step(beta, nu, eps_bar, rho, (square, constraint))?;
        let s1 = if self.c.samples.is_some() {
            self.samples()?
        } else {
            let meaning =
                "sigma, the standard deviation of one sample of the constraint value (samples can replace it for a finite sum)";
            let sigma = self.needs.not_negative("noise", self.c.noise, meaning)?;
            ceiling((4.0 * constraint * beta * sigma / (eps_bar * nu)).powi(2)).max(1.0)
        };
        let q = ceiling(s1.sqrt());
        Ok(counts(square, s1, q, q, alpha, self.epochs(eps_bar, q, alpha)?))
    }

    /// K = ceil(16 Delta / (eps_bar^2 q alpha)).
    fn epochs(&self, eps_bar: f64, q: f64, alpha: f64) -> Result<f64> {
        Ok(ceiling(16.0 * self.gap()? / (eps_bar.powi(2) * q * alpha)).max(1.0))
    }

    fn plan(&self, theorem: Theorem, beta: f64, nu: f64, eps_bar: f64, rho: f64, transfer: Option<Transfer>) -> Plan {
        let guarantee = match transfer {
            None => format!(
                "An iterate drawn uniformly is in expectation near-{} stationary for the penalty problem (the mean squared \
                 gradient of its Moreau envelope is at most {}).",
                short(eps_bar),
                short(eps_bar * eps_bar)
            ),
            Some(t) => {
                let whose = match theorem {
                    Theorem::T25 => format!("A near-{} stationary point of the penalty problem", short(eps_bar)),
                    _ => "An iterate drawn uniformly".to_string(),
                };
                let provided = match (theorem, t.case) {
                    (Theorem::T25, Case::NearFeasible) => {
                        format!(", provided that the constraint value there is at most {}", short(t.level / 2.0))
                    }
                    _ => String::new(),
                };
                format!(
                    "{whose} is in expectation within {eps} of a point whose KKT residual, constraint value and complementarity \
                     are at most {eps}{provided}.",
                    eps = short(self.eps)
                )
            }
        };
        Plan { theorem, beta, nu, eps_bar, rho, transfer, steps: None, start: None, guarantee }
    }

    /// Theorem 3.4 for a given penalty and smoothing; eps is eps_bar.
    fn given(&self) -> Result<Plan> {
        let beta = self.needs.positive("beta", self.c.beta, PENALTY)?;
        let nu = self.needs.positive("nu", self.c.nu, SMOOTHING)?;
        let rho = self.rho_f()? + beta * self.rho_g()?;
        let plan = self.plan(Theorem::T34, beta, nu, self.eps, rho, None);
        Ok(Plan { steps: Some(self.steps(beta, nu, self.eps, rho)?), ..plan })
    }

    /// Proposition 3.7.
    fn whole_chain(&self) -> Result<Plan> {
        let (transfer, beta, nu, rho) = self.transfer(None)?;
        if transfer.case == Case::NearFeasible {
            let least = self.rho_g()? * self.diameter()?.powi(2);
            let range = format!("larger than rho_g D^2 = {}", short(least));
            return Err(self.needs.refused("level", Some(transfer.level), LEVEL, &range));
        }
        let eps_bar = transfer.eps_bar_at_most;
        let plan = self.plan(Theorem::P37, beta, nu, eps_bar, rho, Some(transfer));
        Ok(Plan { steps: Some(self.steps(beta, nu, eps_bar, rho)?), ..plan })
    }

    /// Proposition 3.12: exact values and subgradients of g, one iteration per epoch.
    fn near_feasible(&self) -> Result<Plan> {
        let (l_f, l_g) = (self.l_f()?, self.l_g()?);
        let meaning = "the weak-convexity constant of g (for a convex g use Proposition 3.7)";
        let rho_g = self.needs.positive("rho_g", self.c.rho_g, meaning)?;
        // theta of Theorem 2.5 must be the one of this condition, not another that was given.
        let (slater, _) = self.slater()?;
        let here = Derivation {
            needs: Requirements { theorem: self.needs.theorem },
            c: &Constants { regularity: Some(slater.regularity(rho_g)), ..*self.c },
            eps: self.eps,
        };
        let level = self.level()?;
        let gamma = slater.error_bound(rho_g, level, l_g).gamma;
        // (3.18)
        let c0 = [gamma * gamma / (8.0 * rho_g), gamma * level / (8.0 * l_g), gamma * l_g / (4.0 * rho_g), level / 4.0];
        let c0 = c0.into_iter().fold(f64::INFINITY, f64::min);
        let beta_at_least = 1f64.max(2.0 * l_f * l_g / (rho_g * c0));
        let (transfer, beta, nu, rho) = here.transfer(Some(Extra { beta_at_least, nu_at_most: c0 }))?;
        let eps_bar = transfer.eps_bar_at_most;
        // (3.19), then the two bounds of Theorem 3.4 with sigma = sigma_2 = 0.
        let (square, constraint) = self.lengths(beta, true)?;
        let alpha = [
            c0 / (beta * l_g * l_g),
            1.0 / (beta * rho_g),
            gamma / (2.0 * l_f * rho_g),
            gamma * gamma / (4.0 * l_f * l_g * rho_g),
            gamma * level / (4.0 * l_f * l_g * l_g),
            level / (4.0 * l_f * l_g),
            self.step(beta, nu, eps_bar, rho, (square, constraint))?,
        ];
        let alpha = alpha.into_iter().fold(f64::INFINITY, f64::min);
        let n = self.samples()?;
        let steps = counts(square, n, n, 1.0, alpha, self.epochs(eps_bar, 1.0, alpha)?);
        let start = Start { gamma, c0, distance_at_most: (gamma / (2.0 * rho_g)).min(level / (2.0 * l_g)) };
        let mut plan = self.plan(Theorem::P312, beta, nu, eps_bar, rho, Some(transfer));
        plan.guarantee += &format!(
            " From a start within {} of the feasible set, the constraint stays below {} at every iterate.",
            short(start.distance_at_most),
            short(level / 2.0)
        );
        Ok(Plan { steps: Some(steps), start: Some(start), ..plan })
    }
}

fn counts(square: f64, s1: f64, s2: f64, q: f64, alpha: f64, epochs: f64) -> Steps {
    Steps {
        penalty_lipschitz_squared: square,
        s1,
        s2,
        q,
        alpha,
        epochs,
        iterations: epochs * q,
        value_samples: epochs * (s1 + (q - 1.0) * s2),
        value_evaluations: epochs * (s1 + 2.0 * (q - 1.0) * s2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    /// The constants of the check values.
    fn unit() -> Constants {
        Constants {
            objective_lipschitz: Some(1.0),
            constraint_lipschitz: Some(1.0),
            mean_square_lipschitz: Some(1.0),
            noise: Some(1.0),
            objective_subgradient_noise: Some(0.0),
            constraint_subgradient_noise: Some(0.0),
            rho: Some(1.0),
            rho_g: Some(0.0),
            diameter: Some(1.0),
            envelope_gap: Some(1.0),
            ..Constants::default()
        }
    }

    fn refuse(theorem: Theorem, c: Constants) -> String {
        plan(theorem, &c, 0.1).unwrap_err().to_string()
    }

    #[test]
    fn theorem_3_4_has_the_check_values() {
        let c = Constants { beta: Some(10.0), nu: Some(0.01), ..unit() };
        let p = plan(Theorem::T34, &c, 0.1).unwrap();
        let s = p.steps.unwrap();
        close(s.penalty_lipschitz_squared, 202.0, 1e-14);
        assert_eq!((s.s1, s.s2, s.q), (1.6e9, 40_000.0, 40_000.0));
        close(s.alpha, 1.75899e-6, 1e-5);
        assert_eq!((s.epochs, s.iterations), (22_741.0, 909_640_000.0));
        assert_eq!(s.value_samples, 22_741.0 * (1.6e9 + 39_999.0 * 4e4));
        assert_eq!(s.value_evaluations, 22_741.0 * (1.6e9 + 2.0 * 39_999.0 * 4e4));
        // With L_g small enough the first term of the step is the smaller one.
        let c = Constants { mean_square_lipschitz: Some(1e-3), ..c };
        close(plan(Theorem::T34, &c, 0.1).unwrap().steps.unwrap().alpha, 3.09406e-6, 1e-5);
        // Finite sum: counts of the worked example, N = 100.
        let c = Constants { samples: Some(100.0), noise: None, ..c };
        let s = plan(Theorem::T34, &c, 0.1).unwrap().steps.unwrap();
        assert_eq!((s.s1, s.s2, s.q), (100.0, 10.0, 10.0));
        assert_eq!((s.value_samples, s.value_evaluations), (s.epochs * 190.0, s.epochs * 280.0));
    }

    #[test]
    fn theorem_2_5_by_hand() {
        // (i): theta = 1/2, bounds (1 + .1) / .5 = 2.2 and (1 + 1) / 4 = .5; beta = 4.4, slack = 1.2.
        let c = Constants { regularity: Some(0.5), level: Some(4.0), ..unit() };
        let p = plan(Theorem::T25, &c, 0.1).unwrap();
        let t = p.transfer.unwrap();
        assert_eq!((t.case, t.regularity, t.level), (Case::Sharp, 0.5, 4.0));
        close(t.beta_above, 2.2, 1e-14);
        close(p.beta, 4.4, 1e-14);
        close(p.eps_bar, 0.1 * 1.2 / 8.0, 1e-13);
        close(p.nu, 0.1 / 4.4, 1e-14);
        assert_eq!((p.rho, p.steps), (1.0, None));
        // The bound of the case rules: (1 + 1) / .1 = 20.
        let p = plan(Theorem::T25, &Constants { level: Some(0.1), ..c }, 0.1).unwrap();
        close(p.beta, 20.2, 1e-14);
        close(p.transfer.unwrap().beta_above, 20.0, 1e-14);
        // (ii): 2 / (4 - 1) below 2.2.
        let p = plan(Theorem::T25, &Constants { rho_g: Some(1.0), ..c }, 0.1).unwrap();
        assert_eq!(p.transfer.unwrap().case, Case::HighLevel);
        close(p.rho, 5.4, 1e-14);
        // (iii): B_g = D^2 rho_g is not enough for (ii); 2 * 1 / 4.
        let p = plan(Theorem::T25, &Constants { rho_g: Some(4.0), ..c }, 0.1).unwrap();
        assert_eq!(p.transfer.unwrap().case, Case::NearFeasible);
        assert!(p.guarantee.ends_with("provided that the constraint value there is at most 2."), "{}", p.guarantee);
        // 2 rho eps rules for a nearly convex f and a small level.
        let p = plan(Theorem::T25, &Constants { rho: Some(1e-3), ..c }, 0.1).unwrap();
        close(p.eps_bar, 2e-4, 1e-14);
    }

    #[test]
    fn admitted_values_keep_every_condition_of_theorem_2_5() {
        for eps in [1e-3, 0.1, 2.0] {
            for (rho_g, level) in [(0.0, 0.3), (0.0, 30.0), (0.2, 0.3), (0.2, 30.0), (5.0, 0.3)] {
                for theta in [0.01, 1.0, 20.0] {
                    let c = Constants { regularity: Some(theta), level: Some(level), rho_g: Some(rho_g), ..unit() };
                    let p = plan(Theorem::T25, &c, eps).unwrap();
                    let slack = p.beta * theta - 1.0;
                    assert!(p.beta > (1.0 + eps) / theta && p.beta > 0.0);
                    let bounds = [slack / (p.beta * theta), slack / (2.0 * level), 2.0 * p.rho];
                    assert!(p.eps_bar > 0.0 && bounds.iter().all(|b| p.eps_bar <= eps * b * (1.0 + 1e-12)));
                    assert!(p.nu <= level.min(eps / 2.0).min(eps / p.beta));
                    match p.transfer.unwrap().case {
                        Case::Sharp => assert!(rho_g == 0.0 && p.beta > 2.0 / level),
                        Case::HighLevel => assert!(level > rho_g && p.beta > 2.0 / (level - rho_g)),
                        Case::NearFeasible => assert!(level <= rho_g && p.beta >= 2.0 / level),
                    }
                }
            }
        }
    }

    #[test]
    fn the_chain_is_theorem_3_4_at_the_values_of_2_5() {
        let c = Constants { slater: Some(0.5), samples: Some(1e6), ..unit() };
        let chain = plan(Theorem::P37, &c, 0.1).unwrap();
        let bounds = plan(Theorem::T25, &c, 0.1).unwrap();
        assert_eq!((chain.beta, chain.nu, chain.eps_bar), (bounds.beta, bounds.nu, bounds.eps_bar));
        let given = Constants { beta: Some(chain.beta), nu: Some(chain.nu), ..c };
        assert_eq!(plan(Theorem::T34, &given, chain.eps_bar).unwrap().steps, chain.steps);
        // Iterations grow like eps^-4: a tenth of eps, ten thousand times the work.
        let iterations = |eps| plan(Theorem::P37, &c, eps).unwrap().steps.unwrap().iterations;
        close(iterations(1e-4) / iterations(1e-3), 1e4, 0.02);
    }

    #[test]
    fn proposition_3_12_by_hand() {
        // gamma = sqrt(.5 (3 - 1) / 2) = sqrt(.5), C0 = min{.5/8, .7071/8, .7071/4, 1/4} = .0625, beta >= 2/.0625 = 32.
        let c = Constants {
            rho_g: Some(1.0),
            level: Some(1.0),
            slater_margin: Some(0.5),
            slater_curvature: Some(3.0),
            samples: Some(50.0),
            noise: None,
            ..unit()
        };
        let p = plan(Theorem::P312, &c, 0.1).unwrap();
        let (t, start, s) = (p.transfer.unwrap(), p.start.unwrap(), p.steps.unwrap());
        assert_eq!(t.case, Case::NearFeasible);
        close(start.gamma, 0.5f64.sqrt(), 1e-14);
        close(t.regularity, 2.0 * start.gamma, 1e-14);
        close(start.c0, 0.0625, 1e-13);
        close(start.distance_at_most, 0.5f64.sqrt() / 2.0, 1e-14);
        close(p.beta, 32.0, 1e-13);
        close(p.rho, 33.0, 1e-13);
        close(p.nu, 0.1 / 32.0, 1e-13);
        let slack = 32.0 * 2f64.sqrt() - 1.0;
        close(p.eps_bar, 0.1 * slack / (32.0 * 2f64.sqrt()), 1e-13);
        let square = 2.0 * (1.0 + 32.0 * 32.0);
        let alpha = (p.eps_bar.powi(2) / (16.0 * 33.0 * square)).min(p.eps_bar * p.nu / (128.0 * square.sqrt()));
        close(s.alpha, alpha, 1e-12);
        assert_eq!((s.s1, s.s2, s.q, s.value_samples), (50.0, 50.0, 1.0, 50.0 * s.epochs));
        assert_eq!(s.epochs, (16.0 / (p.eps_bar.powi(2) * s.alpha)).ceil());
        assert!(p.guarantee.contains("From a start within 0.353553391 of the feasible set"), "{}", p.guarantee);
        // A regularity constant that was given besides does not replace the one of the condition.
        let other = plan(Theorem::P312, &Constants { regularity: Some(9.0), ..c }, 0.1).unwrap();
        assert_eq!(other, p);
        assert_eq!(
            refuse(Theorem::P312, Constants { rho_g: Some(0.0), ..c }),
            "rho_g must be a finite number larger than 0, got 0; it is the weak-convexity constant of g (for a \
             convex g use Proposition 3.7)"
        );
        assert_eq!(
            refuse(Theorem::P37, c),
            "level must be larger than rho_g D^2 = 1, got 1; it is B_g, the constraint value up to which \
             regularity holds"
        );
    }

    /// Lemma A.1 and A.2 on g = x^2 - 1 over [-2, 2] with y0 = 0: theta = 1/4.
    #[test]
    fn one_point_of_a_convex_constraint_gives_sharpness() {
        let slater = UniformSlater::from_point(1.0, 4.0, 0.0).unwrap();
        assert_eq!((slater.margin, slater.curvature, slater.regularity(0.0)), (0.5, 1.0 / 16.0, 0.25));
        for i in -200..=200 {
            let x = f64::from(i) / 100.0;
            let g = x * x - 1.0;
            assert!(-1.0 + slater.curvature / 2.0 * x * x <= -slater.margin, "the condition holds with y = 0");
            if g > 0.0 {
                assert!(0.25 * (x.abs() - 1.0) <= g && (2.0 * x).abs() >= 0.25);
            }
        }
        // Tight in the limit: g = x - 1 on [0, D] with y0 = 0 has slope 1 and theta = 1 / D; it is violated for D > 1.
        assert_eq!(UniformSlater::from_point(1.0, 1.0, 0.0).unwrap().regularity(0.0), 1.0);
    }

    /// The pair is the best of its line, and needs depth > rho_g D^2 / 2.
    #[test]
    fn one_point_of_a_weakly_convex_constraint() {
        let (depth, d, rho_g) = (5.0, 2.0, 1.0);
        let best = UniformSlater::from_point(depth, d, rho_g).unwrap();
        close(best.margin + best.curvature * d * d / 2.0, depth, 1e-14);
        close(best.regularity(rho_g), (depth - rho_g * d * d / 2.0) / d, 1e-14);
        for i in 1..100 {
            let curvature = rho_g + f64::from(i) / 100.0 * (2.0 * depth / (d * d) - rho_g);
            let other = UniformSlater { margin: depth - curvature * d * d / 2.0, curvature };
            assert!(other.regularity(rho_g) <= best.regularity(rho_g) + 1e-12);
        }
        assert_eq!(
            UniformSlater::from_point(2.0, d, rho_g).unwrap_err().to_string(),
            "slater must be larger than rho_g D^2 / 2 = 2, got 2: only then does one strictly feasible point \
             imply a uniform Slater condition; otherwise give slater_margin and slater_curvature"
        );
    }

    /// Lemmas A.1 and A.3 on g = 1 - x^2 (rho_g = 2) over [-r, r], B_g = 3/4, with y at the nearer end.
    #[test]
    fn the_uniform_condition_of_a_weakly_convex_constraint() {
        // g(x) <= 3/4 means |x| >= 1/2, at most d = r - 1/2 from the end; the best curvature is 2 + s.
        for (r, tight) in [(2.0f64, 0.5), (100.0, 0.99)] {
            let d = r - 0.5;
            let s = (d - 0.75) / (d * d);
            let slater = UniformSlater { margin: r * r - 1.0 - (2.0 + s) / 2.0 * d * d, curvature: 2.0 + s };
            let (level, theta) = (0.75, slater.regularity(2.0));
            let bound = slater.error_bound(2.0, level, 2.0 * r);
            close(bound.gamma, theta / 2.0, 1e-12);
            close(bound.radius, bound.gamma.min(level / (2.0 * r)), 1e-12);
            // The true slope at the level is 1.
            assert!(theta >= tight - 1e-12 && theta <= 1.0, "{theta}");
            for i in 0..=10_000 {
                let x = r * f64::from(i) / 10_000.0;
                let g = 1.0 - x * x;
                if g <= level {
                    assert!(1.0 - r * r + slater.curvature / 2.0 * (r - x).powi(2) <= -slater.margin + 1e-9);
                    assert!(g <= 0.0 || 2.0 * x >= theta);
                }
                let distance = (1.0 - x).max(0.0);
                assert!(distance > bound.radius || bound.gamma * distance <= g.max(0.0) + 1e-15);
            }
        }
    }

    #[test]
    fn a_strictly_feasible_point_replaces_theta_and_level() {
        let c = Constants { slater: Some(1.0), diameter: Some(2.0), ..unit() };
        let t = plan(Theorem::T25, &c, 0.1).unwrap().transfer.unwrap();
        // theta = 1/2, and (B_f + rho_f D^2) / B_g = (1 + eps) / theta: B_g = 6 / 2.2.
        assert_eq!(t.regularity, 0.5);
        close(t.level, 6.0 / 2.2, 1e-14);
        close(t.beta_above, 2.2, 1e-14);
        // A level that is given is kept; so is theta.
        let c = Constants { level: Some(9.0), regularity: Some(3.0), ..c };
        let t = plan(Theorem::T25, &c, 0.1).unwrap().transfer.unwrap();
        assert_eq!((t.regularity, t.level), (3.0, 9.0));
    }

    #[test]
    fn missing_and_senseless_constants_are_named() {
        let whole = Constants { regularity: Some(0.5), level: Some(4.0), ..unit() };
        for (sentence, c) in [
            (
                "mean_square_lipschitz is missing; Proposition 3.7 needs L_g, the mean-square Lipschitz constant \
                 of the samples of g, a finite number larger than 0",
                Constants { mean_square_lipschitz: None, ..whole },
            ),
            (
                "objective_lipschitz is missing; Proposition 3.7 needs l_f, a bound on the norm of the \
                 subgradients of f, a finite number larger than 0",
                Constants { objective_lipschitz: None, ..whole },
            ),
            (
                "constraint_lipschitz is missing; Proposition 3.7 needs l_g, a bound on the norm of the \
                 subgradients of g, a finite number larger than 0",
                Constants { constraint_lipschitz: None, ..whole },
            ),
            (
                "rho is missing; Proposition 3.7 needs rho_f, the weak-convexity constant of f (any positive \
                 number if f is convex), a finite number larger than 0",
                Constants { rho: None, ..whole },
            ),
            (
                "rho_g is missing; Proposition 3.7 needs the weak-convexity constant of g (0 if g is convex), a \
                 finite number, 0 or larger",
                Constants { rho_g: None, ..whole },
            ),
            (
                "diameter is missing; Proposition 3.7 needs D, the diameter of the domain, a finite number \
                 larger than 0",
                Constants { diameter: None, ..whole },
            ),
            (
                "regularity is missing; Proposition 3.7 needs theta, the constant of sharpness or gradient-away \
                 (slater, or slater_margin and slater_curvature, can replace it), a finite number larger than 0",
                Constants { regularity: None, ..whole },
            ),
            (
                "level is missing; Proposition 3.7 needs B_g, the constraint value up to which regularity holds, \
                 a finite number larger than 0",
                Constants { level: None, ..whole },
            ),
            (
                "noise is missing; Proposition 3.7 needs sigma, the standard deviation of one sample of the \
                 constraint value (samples can replace it for a finite sum), a finite number, 0 or larger",
                Constants { noise: None, ..whole },
            ),
            (
                "objective_subgradient_noise is missing; Proposition 3.7 needs sigma_1, the standard deviation \
                 of a subgradient of f (0 if it is exact), a finite number, 0 or larger",
                Constants { objective_subgradient_noise: None, ..whole },
            ),
            (
                "constraint_subgradient_noise is missing; Proposition 3.7 needs sigma_2, the standard deviation \
                 of a subgradient of g (0 if it is exact), a finite number, 0 or larger",
                Constants { constraint_subgradient_noise: None, ..whole },
            ),
            (
                "envelope_gap is missing; Proposition 3.7 needs Delta, the largest possible decrease of the \
                 Moreau envelope of the penalty problem from the start (from a feasible start at most B_f = 1), \
                 a finite number larger than 0",
                Constants { envelope_gap: None, ..whole },
            ),
            (
                "slater_curvature is missing; Proposition 3.7 needs rho_bar, the curvature of the uniform Slater \
                 condition, a finite number larger than rho_g = 0",
                Constants { regularity: None, slater_margin: Some(1.0), ..whole },
            ),
        ] {
            let message = refuse(Theorem::P37, c);
            assert_eq!(message, sentence);
        }
        assert_eq!(
            refuse(Theorem::T34, unit()),
            "beta is missing; Theorem 3.4 needs the penalty weight, a finite number larger than 0"
        );
        assert_eq!(
            refuse(Theorem::T34, Constants { beta: Some(1.0), ..unit() }),
            "nu is missing; Theorem 3.4 needs the smoothing parameter, a finite number larger than 0"
        );
        for (sentence, c) in [
            (
                "beta must be larger than 2.2 = (l_f + eps) / theta, larger than 0.5 by case (i) convex \
                 constraint, sharpness, and at least 0, got 2; it is the penalty weight",
                Constants { beta: Some(2.0), ..whole },
            ),
            (
                "nu must be larger than 0 and at most 0.0227272727, got 0.5; it is the smoothing parameter",
                Constants { nu: Some(0.5), ..whole },
            ),
            (
                "rho must be a finite number larger than 0, got 0; it is rho_f, the weak-convexity constant of f \
                 (any positive number if f is convex)",
                Constants { rho: Some(0.0), ..whole },
            ),
            (
                "samples must be a whole number larger than 0, got 1.5; it is N, the number of samples of the \
                 finite sum",
                Constants { samples: Some(1.5), ..whole },
            ),
            (
                "noise must be a finite number, 0 or larger, got -1; it is sigma, the standard deviation of one \
                 sample of the constraint value (samples can replace it for a finite sum)",
                Constants { noise: Some(-1.0), ..whole },
            ),
            (
                "level must be a finite number larger than 0, got inf; it is B_g, the constraint value up to \
                 which regularity holds",
                Constants { level: Some(f64::INFINITY), ..whole },
            ),
        ] {
            let message = refuse(Theorem::P37, c);
            assert_eq!(message, sentence);
        }
        let c = Constants { regularity: None, slater_margin: Some(1.0), slater_curvature: Some(0.0), ..whole };
        assert_eq!(
            refuse(Theorem::T25, c),
            "slater_curvature must be a finite number larger than rho_g = 0, got 0; it is rho_bar, the curvature \
             of the uniform Slater condition"
        );
        assert_eq!(
            plan(Theorem::P37, &whole, 1e-90).unwrap_err().to_string(),
            "Proposition 3.7 with eps = 1e-90 requires more iterations or samples than a number can hold: choose \
             a larger eps"
        );
        assert_eq!(
            plan(Theorem::P37, &whole, f64::NAN).unwrap_err().to_string(),
            "eps must be a finite number larger than 0, got NaN"
        );
    }

    #[test]
    fn names_and_plans_are_read_and_written() {
        for t in Theorem::ALL {
            assert_eq!(t.name().parse(), Ok(t));
            assert_eq!(toml::Value::try_from(t).unwrap().as_str(), Some(t.name()));
        }
        assert_eq!("3.5".parse::<Theorem>().unwrap_err().to_string(), "theorem must be one of 2.5, 3.4, 3.7, 3.12, got 3.5");
        let c = Constants { slater: Some(0.5), ..unit() };
        let p = plan(Theorem::P37, &c, 0.1).unwrap();
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        assert_eq!(postcard::from_bytes::<Plan>(&postcard::to_stdvec(&p).unwrap()).unwrap(), p);
        let unknown = toml::from_str::<Constants>("theta = 1.0").unwrap_err().to_string();
        assert!(unknown.contains("unknown field `theta`"), "{unknown}");
    }
}
