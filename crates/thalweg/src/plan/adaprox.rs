//! Parameters of AdaProx from Propositions 1 and 2 and Theorems 4 to 6 of Guan, Sow, Lin & Liang, "AdaProx: a novel method for
//! bilevel optimization under pessimistic framework". The reformulated problem and the method itself are not here.
//!
//! The pessimistic problem `min_x max_y f(x, y)` over the minimisers y of `g(x, y)` becomes `min f(x, y)` subject to `h(z) <= 0`
//! with z = (x, y, w): g(x, y) may exceed the minimum of `g(x, y) + (alpha/2)||y||^2` by xi, and w in [0, Delta_f/xi] is the
//! multiplier of that. AdaProx solves K subproblems with `(sigma/2)||z - z_k||^2` added to f and to every row, the rows relaxed by
//! k beta/K, each to the accuracy beta/(2K):
//!
//! - Proposition 1: the values differ by at most `M sqrt((2/kappa)(D_Y^2 alpha/2 + xi))`.
//! - Proposition 2: `L_c = max{2 rho_f + 4 rho_g W + 4 M_Hg + L_g, W (2 L_g + L_g^2/alpha) + M_g, 2 L_g + L_g^2/alpha}` with
//!   W = Delta_f/xi; sigma = 2 max{L_f, L_c} leaves the strong convexity mu = sigma/2.
//! - Theorem 6: `beta = min{eps/(4B), 2 Delta_f}` and `K >= (8 Delta_f/eps) max{1/sigma, (B+1)^2 sigma, B}`.
//! - Switching gradient (`sg`): steps `2/(mu (t+2))` for t = 0, 1, ... and `T >= 4 M^2/(mu eps)`.
//! - Primal-dual (`pd`): `eta_t = mu (t+t0+1)/2`, `tau_t = c_tau/(t+1)`, `theta_t = (t+t0+2)/(t+t0+3)` and weights t+t0+3, with
//!   `t0 >= 2 L (1+B)/mu`, L = sigma + max{L_f, L_c}, and `c_tau = 5 M^2/mu`.
//!
//! **Deviations from the printed paper.** Theorem 6 prints `K >= 8 (B+1) Delta_f/eps`: its proof bounds the mean length of the
//! residual by a bound on the mean of its square. [`plan`] has this as `as_printed`, and [`Bounds`] states its guarantee. The
//! paper prints steps of `sg` with sigma where its proof has mu, swaps the two steps of `pd`, and leaves constants of another
//! paper in t0 and tau_t; here they are those of the proofs.
//!
//! **Iterations of `pd`.** The paper states orders alone. With the conditions above the proof's sum telescopes without
//! remainder: the last product of multipliers and constraint differences is at most the remainder of the last steps, since
//! c_tau >= 2 M^2/mu. Gap and violation are then at most `gamma_0 (tau_0 (B+1)^2 + (eta_0 - mu) D_Z^2) / (T (T + 2 t0 + 5))`
//! with exact rows; T makes this half of the accuracy.
//!
//! **Steps of the inner problem.** With C = (L_g + alpha) D_Y D_Z^2 (1 for a D_Z below 1), N steps from y = 0 leave an error of
//! at most C q^N/2 in a row and 2 C q^N / D_Z in its gradient, q = 1 - alpha/(L_g + 2 alpha). N makes 4 (T+2)^2 C q^N at most
//! the accuracy, as printed, and for `pd` also 14 B C q^N, twice the sum of the errors. A step actually contracts by 1 - 2
//! alpha/(L_g + 2 alpha); [`Plan::inner_steps_sharp`] uses this and is sufficient.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, exclusive, row, whole};
use crate::Result;

/// Constants of a pessimistic bilevel problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// L_f: Lipschitz constant of the gradient of f.
    pub objective_smoothness: Option<f64>,
    /// L_g: Lipschitz constant of the gradient of g.
    pub inner_smoothness: Option<f64>,
    /// rho_f: Lipschitz constant of the Hessian of f, in the Frobenius norm.
    pub objective_hessian_lipschitz: Option<f64>,
    /// rho_g: the same of g.
    pub inner_hessian_lipschitz: Option<f64>,
    /// M_Hg: bound on the Frobenius norm of the Hessian of g.
    pub inner_hessian_bound: Option<f64>,
    /// M_g: bound on the gradient of g minus the minimum of the regularised g.
    pub inner_gap_lipschitz: Option<f64>,
    /// max{M_f, M_h}: bounds the gradients of f and of every row of h, as they are computed; sigma D_Z is added for the
    /// subproblems.
    pub lipschitz: Option<f64>,
    /// M of Proposition 1, the Lipschitz constant of f in y; `lipschitz` if absent.
    pub objective_lipschitz: Option<f64>,
    /// kappa: the smallest eigenvalue of the Hessian of g in y where the gradient in y is not 0. Without it the value error of given
    /// alpha and xi is not known.
    pub inner_curvature: Option<f64>,
    /// D_Y: radius of a ball around 0 that contains every y admitted by the relaxed inner problem.
    pub inner_radius: Option<f64>,
    /// D_Z: diameter of the set of all z = (x, y, w).
    pub diameter: Option<f64>,
    /// Diameter of the set of all x, in the place of D_Z, whose square is then this one's plus 4 D_Y^2 plus (Delta_f/xi)^2.
    pub outer_diameter: Option<f64>,
    /// Delta_f: range of f over all x and y.
    pub objective_range: Option<f64>,
    /// B: bounds the sum of the optimal multipliers of every subproblem, plus one. With z strictly feasible for a
    /// subproblem, (f_k(z) - min f_k)/(-max_i h_k,i(z)) bounds the sum of its multipliers.
    pub multiplier_bound: Option<f64>,
    /// q: number of rows of h, 2 m + 3 for m inner variables. `pd` requires it.
    pub constraints: Option<f64>,
    /// alpha: weight of the regularisation of the inner problem.
    pub alpha: Option<f64>,
    /// xi: largest excess of g over its regularised minimum.
    pub xi: Option<f64>,
    /// Target value error, instead of alpha and xi.
    pub value_error: Option<f64>,
}

/// Solver of the subproblems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inner {
    /// Switching gradient.
    Sg,
    /// Primal-dual with extrapolated constraints.
    Pd,
}

impl Inner {
    /// All inner solvers.
    pub const ALL: [Inner; 2] = [Inner::Sg, Inner::Pd];
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Inner::Sg => "sg",
            Inner::Pd => "pd",
        })
    }
}

/// Relaxation of the inner problem.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Relaxation {
    /// Weight of the regularisation.
    pub alpha: f64,
    /// Largest excess of g over its regularised minimum.
    pub xi: f64,
}

/// Error of the value of the reformulated problem, at every x: Proposition 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Approximation {
    lipschitz: f64,
    curvature: f64,
    radius: f64,
}

impl Approximation {
    /// Uses M, the Lipschitz constant of f in y; kappa, the curvature of g in y away from its minimisers; and D_Y, the radius
    /// of the ball of all y.
    pub fn new(lipschitz: f64, curvature: f64, radius: f64) -> Result<Self> {
        let needs = Requirements { theorem: "Proposition 1" };
        let lipschitz = needs.positive("lipschitz", Some(lipschitz), "M, the Lipschitz constant of f in y")?;
        let curvature = needs.positive("inner_curvature", Some(curvature), CURVATURE)?;
        let radius = needs.positive("inner_radius", Some(radius), RADIUS)?;
        Ok(Approximation { lipschitz, curvature, radius })
    }

    /// Computes `M sqrt((2/kappa)(D_Y^2 alpha/2 + xi))`.
    pub fn error(&self, relaxation: &Relaxation) -> Result<f64> {
        let needs = Requirements { theorem: "Proposition 1" };
        let alpha = needs.positive("alpha", Some(relaxation.alpha), ALPHA)?;
        let xi = needs.positive("xi", Some(relaxation.xi), XI)?;
        Ok(self.lipschitz * (2.0 / self.curvature * (self.radius * self.radius * alpha / 2.0 + xi)).sqrt())
    }

    /// Returns the relaxation with the error `wanted` in which both terms under the root are equal.
    pub fn relaxation(&self, wanted: f64) -> Result<Relaxation> {
        let needs = Requirements { theorem: "Proposition 1" };
        let wanted = needs.positive("value_error", Some(wanted), "the largest acceptable error in value")?;
        // (2/kappa) 2 xi = (wanted/M)^2 and D_Y^2 alpha/2 = xi.
        let xi = self.curvature * (wanted / self.lipschitz).powi(2) / 4.0;
        Ok(Relaxation { alpha: 2.0 * xi / (self.radius * self.radius), xi })
    }
}

/// Settings of the inner solver, under the names of its table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Settings {
    /// Switching gradient, determined by sigma and the accuracy.
    Sg {},
    /// Primal-dual.
    Pd {
        /// Shift of steps and weights, a whole number.
        t0: f64,
        /// Coefficient of the dual step (t+1)/c_tau.
        c_tau: f64,
        /// B: bound on the sum of the multipliers.
        bound: f64,
    },
}

/// Bounds in expectation over the draw of k, for the centre z_k and the solution z of its subproblem with its multipliers. A
/// centre is an eps-KKT point if all four are at most eps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// max_i h_i(z).
    pub violation: f64,
    /// ||z - z_k||^2.
    pub squared_distance: f64,
    /// sum_i |lambda_i h_i(z)|.
    pub complementarity: f64,
    /// The squared distance of grad f(z) + J^T lambda from the negative normal cone.
    pub squared_residual: f64,
}

/// Parameters under the names of the solver's settings, and their guarantee. Counts are whole numbers, stored as `f64`
/// because worst cases exceed every integer type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether K is the printed one.
    pub as_printed: bool,
    /// alpha, given or for the wanted value error.
    pub alpha: f64,
    /// xi, given or for the wanted value error.
    pub xi: f64,
    /// Largest difference between the values of the reformulated and the pessimistic problem; `None` without kappa.
    pub value_error: Option<f64>,
    /// Delta_f/xi: the largest multiplier w of the inner problem.
    pub inner_multiplier: f64,
    /// D_Z, given or derived.
    pub diameter: f64,
    /// L_c: Lipschitz constant of the gradients of the rows of h.
    pub constraint_smoothness: f64,
    /// sigma: proximal coefficient.
    pub sigma: f64,
    /// mu = sigma/2: strong convexity of the subproblems.
    pub strong_convexity: f64,
    /// M: bounds the gradients of the subproblem's objective and rows.
    pub lipschitz: f64,
    /// B.
    pub multiplier_bound: f64,
    /// K: number of subproblems.
    pub outer: f64,
    /// beta: relaxation of the rows in the last subproblem.
    pub beta: f64,
    /// beta/(2K): accuracy of the subproblems in value and violation, and bound on the rows at the start.
    pub accuracy: f64,
    /// T: iterations for each subproblem.
    pub inner_iterations: f64,
    /// Settings of the inner solver.
    pub inner: Settings,
    /// N: gradient steps of the inner problem at each visited point, by the contraction of the paper.
    pub inner_steps: f64,
    /// The same for the actual contraction, which is twice as fast.
    pub inner_steps_sharp: f64,
    /// K T N: gradients of the inner problem.
    pub inner_gradients: f64,
    /// Bounds for the returned point.
    pub bounds: Bounds,
    /// The guarantee, in one or two sentences.
    pub guarantee: String,
}

impl Plan {
    /// Returns the step of the variables in iteration t = 0, 1, ...: 1/gamma_{t+1} of `sg`, 1/eta_t of `pd`.
    pub fn primal_step(&self, t: u64) -> f64 {
        let shift = if let Settings::Pd { t0, .. } = self.inner { t0 + 1.0 } else { 2.0 };
        2.0 / (self.strong_convexity * (t as f64 + shift))
    }

    /// Returns the step of the multipliers, 1/tau_t; `None` for `sg`.
    pub fn dual_step(&self, t: u64) -> Option<f64> {
        let Settings::Pd { c_tau, .. } = self.inner else { return None };
        Some((t as f64 + 1.0) / c_tau)
    }

    /// Returns the extrapolation theta_t; `None` for `sg`.
    pub fn extrapolation(&self, t: u64) -> Option<f64> {
        let Settings::Pd { t0, .. } = self.inner else { return None };
        Some((t as f64 + t0 + 2.0) / (t as f64 + t0 + 3.0))
    }

    /// Returns the weight in the average: of the accepted iterate before step t for `sg`, of the iterate after it for `pd`.
    pub fn weight(&self, t: u64) -> f64 {
        match self.inner {
            Settings::Sg {} => self.strong_convexity * (t as f64 + 2.0) / 2.0,
            Settings::Pd { t0, .. } => t as f64 + t0 + 3.0,
        }
    }
}

impl Readable for Plan {
    fn title(&self) -> String {
        let inner = if matches!(self.inner, Settings::Sg {}) { Inner::Sg } else { Inner::Pd };
        let printed = if self.as_printed { ", K as printed" } else { "" };
        format!("AdaProx, each subproblem by {inner}{printed}")
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let error = self.value_error.map_or("not known without the curvature kappa".into(), short);
        let mut rows = vec![
            row("regularisation of the inner problem", "alpha", short(self.alpha)),
            row("relaxation of the inner problem", "xi", short(self.xi)),
            row("value error of the reformulation", "", error),
            row("largest multiplier of the inner problem", "Delta_f/xi", short(self.inner_multiplier)),
            row("diameter of all variables", "D_Z", short(self.diameter)),
            row("smoothness of the rows", "L_c", short(self.constraint_smoothness)),
            row("proximal coefficient", "sigma", short(self.sigma)),
            row("strong convexity of the subproblems", "mu", short(self.strong_convexity)),
            row("bound on their gradients", "M", short(self.lipschitz)),
            row("bound on the multipliers, plus one", "B", short(self.multiplier_bound)),
            row("subproblems", "K", whole(self.outer)),
            row("relaxation of the last subproblem", "beta", short(self.beta)),
            row("accuracy of each subproblem", "beta/(2K)", short(self.accuracy)),
            row("inner iterations", "T", whole(self.inner_iterations)),
        ];
        let step = short(2.0 / self.strong_convexity);
        match self.inner {
            Settings::Sg {} => rows.extend([
                row("inner step", "1/gamma_{t+1}", format!("{step} / (t + 2)")),
                row("inner tolerance", "beta/(4K)", short(self.accuracy / 2.0)),
                row("weight in the average", "gamma_{t+1}", format!("{} (t + 2)", short(self.strong_convexity / 2.0))),
            ]),
            Settings::Pd { t0, c_tau, .. } => {
                let after = |n: f64| short(t0 + n);
                rows.extend([
                    row("primal step", "1/eta_t", format!("{step} / (t + {})", after(1.0))),
                    row("dual step", "1/tau_t", format!("(t + 1) / {}", short(c_tau))),
                    row("extrapolation", "theta_t", format!("(t + {}) / (t + {})", after(2.0), after(3.0))),
                    row("weight in the average", "gamma_t", format!("t + {}", after(3.0))),
                    row("shift", "t0", short(t0)),
                    row("coefficient of the dual step", "c_tau", short(c_tau)),
                ]);
            }
        }
        rows.extend([
            row("gradient steps of the inner problem", "N", whole(self.inner_steps)),
            row("the same by its true contraction", "", whole(self.inner_steps_sharp)),
            row("gradients of the inner problem", "K T N", whole(self.inner_gradients)),
            row("violation", "", short(self.bounds.violation)),
            row("squared distance to the KKT point", "", short(self.bounds.squared_distance)),
            row("complementarity", "", short(self.bounds.complementarity)),
            row("squared KKT residual", "", short(self.bounds.squared_residual)),
        ]);
        rows
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

const CURVATURE: &str = "kappa, the smallest curvature of g in y where its gradient in y is not 0";
const RADIUS: &str = "D_Y, the radius of the ball of all y";
const ALPHA: &str = "the weight of the regularisation of the inner problem";
const XI: &str = "the amount by which g may exceed its regularised minimum";

/// Computes the parameters for an `eps`-KKT point of the reformulated problem, in expectation; K is the printed one if `as_printed`.
///
/// An eps-KKT point is near a point and multipliers whose violation, complementarity, squared distance and squared residual are
/// at most eps.
pub fn plan(inner: Inner, constants: &Constants, eps: f64, as_printed: bool) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, c) = (Requirements { theorem: &format!("AdaProx with {inner}") }, constants);
    let l_f = needs.not_negative("objective_smoothness", c.objective_smoothness, "L_f, the Lipschitz constant of grad f")?;
    let l_g = needs.positive("inner_smoothness", c.inner_smoothness, "L_g, the Lipschitz constant of grad g")?;
    let meaning = "rho_f, the Lipschitz constant of the Hessian of f";
    let rho_f = needs.not_negative("objective_hessian_lipschitz", c.objective_hessian_lipschitz, meaning)?;
    let meaning = "rho_g, the Lipschitz constant of the Hessian of g";
    let rho_g = needs.not_negative("inner_hessian_lipschitz", c.inner_hessian_lipschitz, meaning)?;
    let meaning = "M_Hg, a bound on the Frobenius norm of the Hessian of g";
    let m_hg = needs.not_negative("inner_hessian_bound", c.inner_hessian_bound, meaning)?;
    let meaning = "M_g, a bound on the gradient of g minus its regularised minimum";
    let m_g = needs.not_negative("inner_gap_lipschitz", c.inner_gap_lipschitz, meaning)?;
    let m = needs.positive("lipschitz", c.lipschitz, "max{M_f, M_h}, a bound on the gradients of f and of every row of h")?;
    let radius = needs.positive("inner_radius", c.inner_radius, RADIUS)?;
    let range = needs.positive("objective_range", c.objective_range, "Delta_f, the range of f")?;
    let meaning = "B, a bound on the sum of the optimal multipliers of every subproblem plus one";
    let b = needs.number("multiplier_bound", c.multiplier_bound, meaning, "a finite number, 1 or larger", |v| v >= 1.0)?;
    let (Relaxation { alpha, xi }, value_error) = relax(&needs, c, m, radius)?;

    // Proposition 2.
    let w = range / xi;
    let row_s = 2.0 * l_g + l_g * l_g / alpha;
    let l_c = (2.0 * rho_f + 4.0 * rho_g * w + 4.0 * m_hg + l_g).max(w * row_s + m_g).max(row_s);
    let sigma = 2.0 * l_f.max(l_c);
    let mu = sigma / 2.0;
    let d = diameter(&needs, c, radius, w)?;
    // Theorem 6.
    let beta = (eps / (4.0 * b)).min(2.0 * range);
    let factor = if as_printed { b + 1.0 } else { (1.0 / sigma).max((b + 1.0).powi(2) * sigma).max(b) };
    let outer = ceiling(8.0 * range / eps * factor).max(1.0);
    let accuracy = beta / (2.0 * outer);
    let lipschitz = m + sigma * d;

    let (settings, inner_iterations) = match inner {
        // Theorem 4.
        Inner::Sg => (Settings::Sg {}, ceiling(4.0 * lipschitz * lipschitz / (mu * accuracy)).max(1.0)),
        // Theorem 5, with the conditions of its proof.
        Inner::Pd => {
            let q = needs.count("constraints", c.constraints, "q, the number of rows of h")?;
            let primal_dual = PrimalDual::new(mu, sigma + l_f.max(l_c), q * lipschitz * lipschitz, b);
            let PrimalDual { t0, c_tau, .. } = primal_dual;
            (Settings::Pd { t0, c_tau, bound: b }, primal_dual.iterations(d, accuracy / 2.0))
        }
    };
    // Logarithm of the bound on q^N; the square of T may overflow.
    let spread = (l_g + alpha) * radius * d.max(1.0).powi(2);
    let share = (4.0f64.ln() + 2.0 * (inner_iterations + 2.0).ln()).max(if inner == Inner::Pd { (14.0 * b).ln() } else { 0.0 });
    let left = accuracy.ln() - share - spread.ln();
    let rate = alpha / (l_g + 2.0 * alpha);
    let steps = |rate: f64| ceiling(left / (-rate).ln_1p()).max(1.0);
    let (inner_steps, inner_steps_sharp) = (steps(rate), steps(2.0 * rate));
    let inner_gradients = outer * inner_iterations * inner_steps;
    // Values that underflowed to 0 are rejected as well, since no solver accepts them.
    needs.finite(&[inner_gradients, 1.0 / accuracy, 1.0 / alpha, 1.0 / xi, 1.0 / mu], eps)?;

    let bounds = Bounds::new(range, b, sigma, outer, beta);
    let near = if as_printed && bounds.largest() > eps {
        format!(
            "near a point with the violation, distance, complementarity and residual above; the printed K does not bring them all \
             to {}, as its proof takes a bound on the squared residual for one on the residual",
            short(eps)
        )
    } else {
        format!(
            "near a point whose violation, squared distance, complementarity and squared KKT residual are each at most {}",
            short(eps)
        )
    };
    let value = value_error.map_or(String::new(), |error| {
        format!(" At every x, its value is within {} of the pessimistic one if f is concave and g convex in y.", short(error))
    });
    let guarantee = format!(
        "For the reformulated problem, from a start with no row of h above {}, one of the {} centres drawn uniformly is in \
         expectation {near}.{value}",
        short(accuracy),
        whole(outer)
    );
    Ok(Plan {
        as_printed,
        alpha,
        xi,
        value_error,
        inner_multiplier: w,
        diameter: d,
        constraint_smoothness: l_c,
        sigma,
        strong_convexity: mu,
        lipschitz,
        multiplier_bound: b,
        outer,
        beta,
        accuracy,
        inner_iterations,
        inner: settings,
        inner_steps,
        inner_steps_sharp,
        inner_gradients,
        bounds,
        guarantee,
    })
}

/// alpha and xi, as given or for the wanted value error, and the value error if kappa is known.
fn relax(needs: &Requirements, c: &Constants, lipschitz: f64, radius: f64) -> Result<(Relaxation, Option<f64>)> {
    let meaning = "M, the Lipschitz constant of f in y";
    let m = needs.positive("objective_lipschitz", c.objective_lipschitz.or(Some(lipschitz)), meaning)?;
    let approximation = |curvature: f64| Approximation::new(m, curvature, radius);
    if let Some(wanted) = c.value_error {
        if c.alpha.is_some() || c.xi.is_some() {
            return Err(exclusive("value_error", wanted, "alpha or xi"));
        }
        let curvature = needs.positive("inner_curvature", c.inner_curvature, CURVATURE)?;
        return Ok((approximation(curvature)?.relaxation(wanted)?, Some(wanted)));
    }
    let alpha = needs.positive("alpha", c.alpha, &format!("{ALPHA} (value_error can replace alpha and xi)"))?;
    let xi = needs.positive("xi", c.xi, XI)?;
    let relaxation = Relaxation { alpha, xi };
    let error = c.inner_curvature.map(|curvature| approximation(curvature)?.error(&relaxation)).transpose()?;
    Ok((relaxation, error))
}

/// D_Z, as given or from the diameter of the set of all x.
fn diameter(needs: &Requirements, c: &Constants, radius: f64, w: f64) -> Result<f64> {
    let others = (2.0 * radius).hypot(w);
    if let Some(outer) = c.outer_diameter {
        if c.diameter.is_some() {
            return Err(exclusive("outer_diameter", outer, "diameter"));
        }
        return Ok(needs.not_negative("outer_diameter", Some(outer), "the diameter of the set of all x")?.hypot(others));
    }
    let meaning = "D_Z, the diameter of the set of all (x, y, w) (outer_diameter, the diameter of x, can replace it)";
    let range = format!("a finite number, at least {} for y and w alone", short(others));
    // Nine digits are shown and must be accepted.
    needs.number("diameter", c.diameter, meaning, &range, |v| v >= others * (1.0 - 1e-8))
}

impl Bounds {
    /// By Lemma 8 the mean of ||z_k* - z_k||^2 is at most (4 Delta_f + 2 beta)/(sigma K); the relaxation k beta/K has the mean
    /// beta (K+1)/(2K).
    fn new(range: f64, b: f64, sigma: f64, outer: f64, beta: f64) -> Self {
        let squared_distance = (4.0 * range + 2.0 * beta) / (sigma * outer);
        let relaxed = beta * (0.5 + 0.5 / outer);
        Bounds {
            violation: relaxed,
            squared_distance,
            complementarity: b * (sigma / 2.0 * squared_distance + relaxed),
            squared_residual: ((b + 1.0) * sigma).powi(2) * squared_distance,
        }
    }

    /// The largest of the four.
    fn largest(&self) -> f64 {
        self.violation.max(self.squared_distance).max(self.complementarity).max(self.squared_residual)
    }
}

/// What the iterations of `pd` follow from.
struct PrimalDual {
    mu: f64,
    b: f64,
    t0: f64,
    c_tau: f64,
}

impl PrimalDual {
    /// For mu, the smoothness L, the square of the Lipschitz constant of all rows together, and B.
    fn new(mu: f64, smoothness: f64, squared_lipschitz: f64, b: f64) -> Self {
        let t0 = ceiling(2.0 * smoothness * (1.0 + b) / mu).max(1.0);
        PrimalDual { mu, b, t0, c_tau: 5.0 * squared_lipschitz / mu }
    }

    /// The smallest T with gap and violation of at most eps for exact rows.
    fn iterations(&self, diameter: f64, eps: f64) -> f64 {
        let (gamma, eta) = (self.t0 + 3.0, self.mu * (self.t0 + 1.0) / 2.0);
        // T (T + 2 linear) >= start/eps.
        let start = gamma * (self.c_tau * (self.b + 1.0).powi(2) + (eta - self.mu) * diameter * diameter);
        let linear = (2.0 * self.t0 + 5.0) / 2.0;
        let ratio = start / eps;
        // The form of the root without cancellation.
        ceiling(ratio / (linear + (linear * linear + ratio).sqrt())).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    fn usual() -> Constants {
        Constants {
            objective_smoothness: Some(1.0),
            inner_smoothness: Some(1.0),
            objective_hessian_lipschitz: Some(0.5),
            inner_hessian_lipschitz: Some(0.25),
            inner_hessian_bound: Some(1.0),
            inner_gap_lipschitz: Some(2.0),
            lipschitz: Some(1.0),
            inner_curvature: Some(2.0),
            inner_radius: Some(1.0),
            diameter: Some(3.0),
            objective_range: Some(1.0),
            multiplier_bound: Some(2.0),
            constraints: Some(9.0),
            alpha: Some(0.5),
            xi: Some(0.5),
            ..Constants::default()
        }
    }

    fn sg(c: &Constants, eps: f64) -> Plan {
        plan(Inner::Sg, c, eps, false).unwrap()
    }

    fn pd(c: &Constants, eps: f64) -> Plan {
        plan(Inner::Pd, c, eps, false).unwrap()
    }

    #[test]
    fn the_plan_of_sg_by_hand() {
        let p = sg(&usual(), 0.1);
        // sqrt((2/2)(.5/2 + .5)).
        close(p.value_error.unwrap(), 0.75f64.sqrt(), 1e-15);
        // W = 2: 1 + 2 + 4 + 1 = 8, 2 (2 + 2) + 2 = 10, 4.
        assert_eq!((p.inner_multiplier, p.constraint_smoothness, p.sigma, p.strong_convexity), (2.0, 10.0, 20.0, 10.0));
        // 80 max{1/20, 9 * 20, 2}, min{.1/8, 2}, .0125/28800.
        assert_eq!(p.outer, 14_400.0);
        close(p.beta, 0.0125, 1e-15);
        close(p.accuracy, 0.0125 / 28_800.0, 1e-15);
        // 1 + 20 * 3 = 61; 4 * 3721 * 28800/(10 * .0125).
        assert_eq!((p.lipschitz, p.inner_iterations), (61.0, 3_429_273_600.0));
        // 1/gamma_1 = 1/mu.
        close(p.primal_step(0), 0.1, 1e-15);
        close(p.primal_step(3), 0.04, 1e-15);
        assert_eq!((p.weight(0), p.dual_step(0), p.extrapolation(0)), (10.0, None, None));
        // C = 1.5 * 1 * 9, q = 3/4 and in truth 1/2.
        let left: f64 = p.accuracy / (4.0 * 3_429_273_602f64.powi(2) * 13.5);
        let enough = |n: f64, q: f64| q.powf(n) <= left && q.powf(n - 1.0) > left;
        assert!(enough(p.inner_steps, 0.75) && enough(p.inner_steps_sharp, 0.5), "{} {}", p.inner_steps, p.inner_steps_sharp);
        assert_eq!(p.inner_gradients, p.outer * p.inner_iterations * p.inner_steps);
        // (4 + .025)/(20 * 14400), .00625 (1 + 1/14400), 2 (10 d + violation), 3600 d.
        let d = 4.025 / 288_000.0;
        close(p.bounds.squared_distance, d, 1e-14);
        close(p.bounds.violation, 0.00625 * (1.0 + 1.0 / 14_400.0), 1e-14);
        close(p.bounds.complementarity, 2.0 * (10.0 * d + p.bounds.violation), 1e-14);
        close(p.bounds.squared_residual, 3600.0 * d, 1e-14);
    }

    #[test]
    fn the_plan_of_pd_by_hand() {
        let p = pd(&usual(), 0.1);
        // L = 30: t0 = 2 * 30 * 3/10; c_tau = 5 * 9 * 61^2/10.
        assert_eq!(p.inner, Settings::Pd { t0: 18.0, c_tau: 16_744.5, bound: 2.0 });
        close(p.primal_step(1), 2.0 / 200.0, 1e-15);
        close(p.dual_step(1).unwrap(), 2.0 / 16_744.5, 1e-15);
        close(p.extrapolation(1).unwrap(), 21.0 / 22.0, 1e-15);
        assert_eq!(p.weight(1), 22.0);
        // gamma_0 = 21, eta_0 - mu = 85, D_Z^2 = (B+1)^2 = 9: the least T that halves the accuracy.
        let bound = |t: f64| 21.0 * 9.0 * (16_744.5 + 85.0) / (t * (t + 41.0));
        assert!(bound(p.inner_iterations) <= p.accuracy / 2.0 && bound(p.inner_iterations - 1.0) > p.accuracy / 2.0);
        // The rest is that of sg.
        let other = sg(&usual(), 0.1);
        assert_eq!((p.outer, p.beta, p.accuracy, p.bounds), (other.outer, other.beta, other.accuracy, other.bounds));
        let left: f64 = p.accuracy / (4.0 * (p.inner_iterations + 2.0).powi(2) * 13.5);
        assert!(0.75f64.powf(p.inner_steps) <= left && 0.75f64.powf(p.inner_steps - 1.0) > left, "{}", p.inner_steps);
    }

    #[test]
    fn the_errors_of_the_inner_problem_fit_into_pd() {
        // A loose Delta_f, and so few iterations that the printed condition alone, with (T+2)^2, would not do.
        let c = Constants {
            objective_smoothness: Some(1e-9),
            inner_smoothness: Some(1e-6),
            objective_hessian_lipschitz: Some(0.0),
            inner_hessian_lipschitz: Some(0.0),
            inner_hessian_bound: Some(1e-6),
            inner_gap_lipschitz: Some(0.0),
            lipschitz: Some(1e-6),
            inner_radius: Some(0.5),
            diameter: Some(1.1),
            objective_range: Some(100.0),
            multiplier_bound: Some(1e4),
            constraints: Some(1.0),
            alpha: Some(1.0),
            xi: Some(1e6),
            ..usual()
        };
        let p = pd(&c, 1e8);
        assert!(7.0 * 1e4 / (4.0 * (p.inner_iterations + 2.0).powi(2)) > 0.5, "{}", p.inner_iterations);
        // B (r D_Z + 10 e), r the error of a row's gradient and e that of a row.
        let (l, d_y, d_z) = (1.0 + 1e-6, 0.5, 1.1);
        let rate: f64 = 1.0 - 1.0 / (2.0 + 1e-6);
        let error = 1e4 * (2.0 * l * d_z * d_y * d_z + 10.0 * l * d_y * d_y * d_z) * rate.powf(p.inner_steps);
        assert!(error <= p.accuracy / 2.0, "{error} {}", p.accuracy);
    }

    #[test]
    fn as_printed_proves_less() {
        let p = plan(Inner::Sg, &usual(), 0.1, true).unwrap();
        // 8 * 3/.1, and 4 * 3721 * 480/(10 * .0125).
        assert_eq!((p.outer, p.inner_iterations), (240.0, 57_154_560.0));
        close(p.beta, 0.0125, 1e-15);
        // 3600 * 4.025/(20 * 240) is at most (B+1) sigma eps = 6, not eps.
        close(p.bounds.squared_residual, 3600.0 * 4.025 / 4800.0, 1e-13);
        assert!(p.bounds.squared_residual > 0.1 && p.bounds.squared_residual <= 6.0);
        assert!(p.guarantee.contains("the printed K does not bring them all to 0.1"), "{}", p.guarantee);
        assert!(p.title().ends_with("by sg, K as printed"));
        assert!(!sg(&usual(), 0.1).guarantee.contains("printed"));
    }

    #[test]
    fn a_corrected_plan_keeps_its_four_bounds() {
        for eps in [1e-4, 0.1, 30.0] {
            for b in [1.0, 7.0, 1e3] {
                for range in [1e-6, 1.0, 50.0] {
                    for scale in [1e-7, 1.0, 1e3] {
                        let c = Constants {
                            objective_smoothness: Some(scale),
                            inner_smoothness: Some(scale),
                            objective_hessian_lipschitz: Some(scale),
                            inner_hessian_lipschitz: Some(0.0),
                            inner_hessian_bound: Some(scale),
                            inner_gap_lipschitz: Some(scale),
                            multiplier_bound: Some(b),
                            objective_range: Some(range),
                            diameter: None,
                            outer_diameter: Some(1.0),
                            ..usual()
                        };
                        let p = sg(&c, eps);
                        assert!(p.bounds.largest() <= eps * (1.0 + 1e-9), "{p:?}");
                    }
                }
            }
        }
        // With beta = 2 Delta_f the residual is what K is for: one subproblem less would not do.
        let c = Constants { objective_range: Some(1e-3), diameter: Some(2.1), ..usual() };
        let p = sg(&c, 0.1);
        assert_eq!(p.beta, 0.002);
        assert!(p.outer > 1.0 && Bounds::new(1e-3, 2.0, p.sigma, p.outer - 1.0, p.beta).largest() > 0.1, "{p:?}");
    }

    #[test]
    fn the_value_error_there_and_back() {
        // xi = 2 * .01/4, alpha = 2 xi/D_Y^2: both terms under the root are the same.
        let near = Approximation::new(1.0, 2.0, 2.0).unwrap();
        let relaxation = near.relaxation(0.1).unwrap();
        close(relaxation.xi, 0.005, 1e-14);
        close(relaxation.alpha, 0.0025, 1e-14);
        close(near.error(&relaxation).unwrap(), 0.1, 1e-14);
        let c = Constants { alpha: None, xi: None, value_error: Some(0.5), diameter: None, outer_diameter: Some(1.0), ..usual() };
        let p = sg(&c, 0.1);
        assert_eq!((p.value_error, p.xi, p.alpha), (Some(0.5), 0.125, 0.25));
        // W = 8: sqrt(1 + 4 + 64).
        close(p.diameter, 69f64.sqrt(), 1e-15);
        // A smaller Lipschitz constant of f in y counts for the value alone.
        let c = Constants { objective_lipschitz: Some(0.5), ..usual() };
        close(sg(&c, 0.1).value_error.unwrap(), 0.75f64.sqrt() / 2.0, 1e-15);
        assert_eq!(sg(&c, 0.1).lipschitz, 61.0);
        let unknown = sg(&Constants { inner_curvature: None, ..usual() }, 0.1);
        assert_eq!(unknown.value_error, None);
        assert!(unknown.rows().iter().any(|r| r[2].starts_with("not known")) && !unknown.guarantee.contains("pessimistic"));
        for (sentence, found) in [
            (
                "value_error must be a finite number larger than 0, got 0; it is the largest acceptable error in \
                 value",
                near.relaxation(0.0).unwrap_err(),
            ),
            (
                "alpha must be a finite number larger than 0, got -1; it is the weight of the regularisation of \
                 the inner problem",
                near.error(&Relaxation { alpha: -1.0, xi: 1.0 }).unwrap_err(),
            ),
            (
                "inner_curvature must be a finite number larger than 0, got 0; it is kappa, the smallest \
                 curvature of g in y where its gradient in y is not 0",
                Approximation::new(1.0, 0.0, 1.0).unwrap_err(),
            ),
        ] {
            assert_eq!(found.to_string(), sentence);
        }
    }

    #[test]
    fn each_term_of_the_smoothness_rules_somewhere() {
        // The usual one is the second.
        let first = Constants { inner_hessian_bound: Some(10.0), ..usual() };
        assert_eq!(sg(&first, 0.1).constraint_smoothness, 1.0 + 2.0 + 40.0 + 1.0);
        // W = 1/8: .125 * 4 + 0 is below 4.
        let third = Constants { objective_range: Some(0.0625), inner_gap_lipschitz: Some(0.0), ..usual() };
        let third = Constants { objective_hessian_lipschitz: Some(0.0), inner_hessian_bound: Some(0.0), ..third };
        assert_eq!(sg(&third, 0.1).constraint_smoothness, 4.0);
        let smooth = Constants { objective_smoothness: Some(50.0), ..usual() };
        assert_eq!(sg(&smooth, 0.1).sigma, 100.0);
    }

    #[test]
    fn orders_in_eps() {
        let [one, two] = [1e-4, 5e-5].map(|eps| [sg(&usual(), eps), pd(&usual(), eps)]);
        for (i, power) in [(0, 4.0), (1, 2.0)] {
            close(two[i].outer / one[i].outer, 2.0, 1e-6);
            close(two[i].inner_iterations / one[i].inner_iterations, power, 1e-6);
        }
    }

    /// What the proof of `pd` asks of steps and weights, for t up to 1000.
    fn conditions(p: &PrimalDual, smoothness: f64, squared_lipschitz: f64) -> bool {
        let gamma = |t: f64| t + p.t0 + 3.0;
        let eta = |t: f64| p.mu * (t + p.t0 + 1.0) / 2.0;
        let tau = |t: f64| p.c_tau / (t + 1.0);
        (0..1000).map(f64::from).all(|t| {
            let curvature = eta(t) - smoothness * (1.0 + p.b);
            gamma(t + 1.0) * squared_lipschitz / tau(t + 1.0) <= gamma(t) * curvature * (1.0 + 1e-12)
                && squared_lipschitz / tau(t) <= curvature * (1.0 + 1e-12)
                && gamma(t + 1.0) * tau(t + 1.0) <= gamma(t) * tau(t)
                && gamma(t + 1.0) * (eta(t + 1.0) - p.mu) <= gamma(t) * eta(t)
        })
    }

    #[test]
    fn the_steps_of_pd_keep_the_conditions_of_the_proof() {
        for (mu, l, m2, b) in [(10.0, 30.0, 81.0, 2.0), (1.0, 0.01, 1.0, 1.0), (0.3, 0.9, 1e6, 50.0), (1e-3, 7.0, 0.2, 1.5)] {
            let p = PrimalDual::new(mu, l, m2, b);
            assert!(conditions(&p, l, m2), "{mu} {l} {m2} {b}");
        }
        let p = PrimalDual::new(10.0, 30.0, 81.0, 2.0);
        assert!(!conditions(&PrimalDual { t0: p.t0 / 2.0, ..p }, 30.0, 81.0));
        let p = PrimalDual::new(10.0, 30.0, 81.0, 2.0);
        assert!(!conditions(&PrimalDual { c_tau: p.c_tau / 3.0, ..p }, 30.0, 81.0));
    }

    /// A plan with the settings of `inner` for a subproblem with mu = 1.
    fn for_subproblem(inner: Inner, settings: Settings, iterations: f64) -> Plan {
        let mut p = plan(inner, &usual(), 0.1, false).unwrap();
        (p.strong_convexity, p.inner, p.inner_iterations) = (1.0, settings, iterations);
        p
    }

    /// f = ||z||^2/2 and h = ||z - (1,0)||^2/2 - (z_1 - 1) on the square [-2, 2]^2: mu = L = 1, the solution is (1, 0) with the
    /// multiplier 1, and gradients are at most sqrt(4^2 + 2^2) long.
    #[test]
    fn planned_iterations_solve_a_subproblem() {
        let (eps, m2, d) = (0.05, 20.0, 32f64.sqrt());
        let f = |z: [f64; 2]| (z[0] * z[0] + z[1] * z[1]) / 2.0;
        let h = |z: [f64; 2]| ((z[0] - 1.0).powi(2) + z[1] * z[1]) / 2.0 - (z[0] - 1.0);
        let moved = |z: [f64; 2], step: f64, by: [f64; 2]| [0, 1].map(|i| (z[i] - step * by[i]).clamp(-2.0, 2.0));
        let start = [-1.5, 1.5];
        let solved = |z: [f64; 2]| f(z) <= 0.5 + eps && h(z) <= eps;
        assert!(!solved(start));

        let run_sg = |p: &Plan| {
            let (mut z, mut sum, mut weight) = (start, [0.0; 2], 0.0);
            for t in 0..p.inner_iterations as u64 {
                let by = if h(z) <= eps / 2.0 {
                    (0..2).for_each(|i| sum[i] += p.weight(t) * z[i]);
                    weight += p.weight(t);
                    z
                } else {
                    [z[0] - 2.0, z[1]]
                };
                z = moved(z, p.primal_step(t), by);
            }
            sum.map(|s| s / weight)
        };
        let p = for_subproblem(Inner::Sg, Settings::Sg {}, 4.0 * m2 / eps);
        assert!(solved(run_sg(&p)), "{:?}", run_sg(&p));
        let few = Plan { inner_iterations: 3.0, ..p };
        assert!(!solved(run_sg(&few)), "{:?}", run_sg(&few));

        let run_pd = |p: &Plan| {
            let Settings::Pd { bound, .. } = p.inner else { panic!("{p:?}") };
            let (mut z, mut before, mut y) = (start, h(start), 0.0f64);
            let (mut sum, mut weight) = ([0.0; 2], 0.0);
            for t in 0..p.inner_iterations as u64 {
                let (now, theta) = (h(z), p.extrapolation(t).unwrap());
                y = (y + p.dual_step(t).unwrap() * ((1.0 + theta) * now - theta * before)).clamp(0.0, bound);
                before = now;
                z = moved(z, p.primal_step(t), [z[0] + y * (z[0] - 2.0), z[1] + y * z[1]]);
                (0..2).for_each(|i| sum[i] += p.weight(t) * z[i]);
                weight += p.weight(t);
            }
            sum.map(|s| s / weight)
        };
        let primal_dual = PrimalDual::new(1.0, 1.0, m2, 2.0);
        let settings = Settings::Pd { t0: primal_dual.t0, c_tau: primal_dual.c_tau, bound: 2.0 };
        let p = for_subproblem(Inner::Pd, settings, primal_dual.iterations(d, eps));
        assert!(solved(run_pd(&p)), "{:?}", run_pd(&p));
        let few = Plan { inner_iterations: 3.0, ..p };
        assert!(!solved(run_pd(&few)), "{:?}", run_pd(&few));
    }

    #[test]
    fn large_numbers_are_refused() {
        for eps in [1e-160, 1e-300] {
            let message = plan(Inner::Pd, &usual(), eps, false).unwrap_err().to_string();
            assert!(message.contains("AdaProx with pd") && message.contains("choose a larger eps"), "{message}");
        }
        let c =
            Constants { alpha: None, xi: None, value_error: Some(1e-200), diameter: None, outer_diameter: Some(1.0), ..usual() };
        assert!(plan(Inner::Sg, &c, 0.1, false).unwrap_err().to_string().contains("AdaProx with sg"));
    }

    #[test]
    fn missing_and_senseless_constants_are_named() {
        let refuse = |c: Constants| plan(Inner::Pd, &c, 0.1, false).unwrap_err().to_string();
        for (sentence, c) in [
            (
                "objective_smoothness is missing; AdaProx with pd needs L_f, the Lipschitz constant of grad f, a \
                 finite number, 0 or larger",
                Constants { objective_smoothness: None, ..usual() },
            ),
            (
                "inner_smoothness is missing; AdaProx with pd needs L_g, the Lipschitz constant of grad g, a \
                 finite number larger than 0",
                Constants { inner_smoothness: None, ..usual() },
            ),
            (
                "objective_hessian_lipschitz is missing; AdaProx with pd needs rho_f, the Lipschitz constant of \
                 the Hessian of f, a finite number, 0 or larger",
                Constants { objective_hessian_lipschitz: None, ..usual() },
            ),
            (
                "inner_hessian_lipschitz is missing; AdaProx with pd needs rho_g, the Lipschitz constant of the \
                 Hessian of g, a finite number, 0 or larger",
                Constants { inner_hessian_lipschitz: None, ..usual() },
            ),
            (
                "inner_hessian_bound is missing; AdaProx with pd needs M_Hg, a bound on the Frobenius norm of \
                 the Hessian of g, a finite number, 0 or larger",
                Constants { inner_hessian_bound: None, ..usual() },
            ),
            (
                "inner_gap_lipschitz is missing; AdaProx with pd needs M_g, a bound on the gradient of g minus \
                 its regularised minimum, a finite number, 0 or larger",
                Constants { inner_gap_lipschitz: None, ..usual() },
            ),
            (
                "lipschitz is missing; AdaProx with pd needs max{M_f, M_h}, a bound on the gradients of f and of \
                 every row of h, a finite number larger than 0",
                Constants { lipschitz: None, ..usual() },
            ),
            (
                "inner_radius is missing; AdaProx with pd needs D_Y, the radius of the ball of all y, a finite \
                 number larger than 0",
                Constants { inner_radius: None, ..usual() },
            ),
            (
                "diameter is missing; AdaProx with pd needs D_Z, the diameter of the set of all (x, y, w) \
                 (outer_diameter, the diameter of x, can replace it), a finite number, at least 2.82842712 for y \
                 and w alone",
                Constants { diameter: None, ..usual() },
            ),
            (
                "objective_range is missing; AdaProx with pd needs Delta_f, the range of f, a finite number \
                 larger than 0",
                Constants { objective_range: None, ..usual() },
            ),
            (
                "multiplier_bound is missing; AdaProx with pd needs B, a bound on the sum of the optimal \
                 multipliers of every subproblem plus one, a finite number, 1 or larger",
                Constants { multiplier_bound: None, ..usual() },
            ),
            (
                "constraints is missing; AdaProx with pd needs q, the number of rows of h, a whole number larger \
                 than 0",
                Constants { constraints: None, ..usual() },
            ),
            (
                "alpha is missing; AdaProx with pd needs the weight of the regularisation of the inner problem \
                 (value_error can replace alpha and xi), a finite number larger than 0",
                Constants { alpha: None, ..usual() },
            ),
            (
                "xi is missing; AdaProx with pd needs the amount by which g may exceed its regularised minimum, \
                 a finite number larger than 0",
                Constants { xi: None, ..usual() },
            ),
            (
                "inner_curvature is missing; AdaProx with pd needs kappa, the smallest curvature of g in y where \
                 its gradient in y is not 0, a finite number larger than 0",
                Constants { inner_curvature: None, alpha: None, xi: None, value_error: Some(1.0), ..usual() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        for (sentence, c) in [
            (
                "inner_smoothness must be a finite number larger than 0, got 0; it is L_g, the Lipschitz \
                 constant of grad g",
                Constants { inner_smoothness: Some(0.0), ..usual() },
            ),
            (
                "objective_smoothness must be a finite number, 0 or larger, got -1; it is L_f, the Lipschitz \
                 constant of grad f",
                Constants { objective_smoothness: Some(-1.0), ..usual() },
            ),
            (
                "inner_hessian_bound must be a finite number, 0 or larger, got NaN; it is M_Hg, a bound on the \
                 Frobenius norm of the Hessian of g",
                Constants { inner_hessian_bound: Some(f64::NAN), ..usual() },
            ),
            (
                "lipschitz must be a finite number larger than 0, got inf; it is max{M_f, M_h}, a bound on the \
                 gradients of f and of every row of h",
                Constants { lipschitz: Some(f64::INFINITY), ..usual() },
            ),
            (
                "objective_lipschitz must be a finite number larger than 0, got 0; it is M, the Lipschitz \
                 constant of f in y",
                Constants { objective_lipschitz: Some(0.0), ..usual() },
            ),
            (
                "multiplier_bound must be a finite number, 1 or larger, got 0.5; it is B, a bound on the sum of \
                 the optimal multipliers of every subproblem plus one",
                Constants { multiplier_bound: Some(0.5), ..usual() },
            ),
            (
                "inner_curvature must be a finite number larger than 0, got -1; it is kappa, the smallest \
                 curvature of g in y where its gradient in y is not 0",
                Constants { inner_curvature: Some(-1.0), ..usual() },
            ),
            (
                "constraints must be a whole number larger than 0, got 2.5; it is q, the number of rows of h",
                Constants { constraints: Some(2.5), ..usual() },
            ),
            (
                "diameter must be a finite number, at least 2.82842712 for y and w alone, got 2.5; it is D_Z, \
                 the diameter of the set of all (x, y, w) (outer_diameter, the diameter of x, can replace it)",
                Constants { diameter: Some(2.5), ..usual() },
            ),
            (
                "outer_diameter cannot be given together with diameter, from which it follows; got \
                 outer_diameter = 1",
                Constants { outer_diameter: Some(1.0), ..usual() },
            ),
            (
                "outer_diameter must be a finite number, 0 or larger, got -1; it is the diameter of the set of \
                 all x",
                Constants { diameter: None, outer_diameter: Some(-1.0), ..usual() },
            ),
            (
                "value_error cannot be given together with alpha or xi, from which it follows; got value_error = \
                 1",
                Constants { value_error: Some(1.0), ..usual() },
            ),
            (
                "xi must be a finite number larger than 0, got 0; it is the amount by which g may exceed its \
                 regularised minimum",
                Constants { xi: Some(0.0), ..usual() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        assert_eq!(
            plan(Inner::Sg, &usual(), 0.0, false).unwrap_err().to_string(),
            "eps must be a finite number larger than 0, got 0"
        );
        // sg does without the number of rows.
        assert!(plan(Inner::Sg, &Constants { constraints: None, ..usual() }, 0.1, false).is_ok());
    }

    #[test]
    fn plans_survive_serialisation_and_are_readable() {
        for p in [sg(&usual(), 0.1), pd(&usual(), 0.1)] {
            assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        }
        let rows = pd(&usual(), 0.1).rows();
        let value = |symbol: &str| rows.iter().find(|r| r[1] == symbol).map(|r| r[2].as_str());
        assert_eq!(value("1/eta_t"), Some("0.2 / (t + 19)"));
        assert_eq!(value("1/tau_t"), Some("(t + 1) / 16744.5"));
        assert_eq!(value("theta_t"), Some("(t + 20) / (t + 21)"));
        assert_eq!(value("K"), Some("14400"));
        let rows = sg(&usual(), 0.1).rows();
        assert!(rows.iter().any(|r| r[1] == "1/gamma_{t+1}" && r[2] == "0.2 / (t + 2)"), "{rows:?}");
    }
}
