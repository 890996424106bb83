//! Parameters of DSZOG from Theorem 5.14 of Shi, Gao & Gu, "Gradient-free method for heavily constrained nonconvex
//! optimization", and what they mean for the constrained problem. The method itself is [`crate::solvers::dszog`].
//!
//! With `L(w, p) = f0(w) + beta sum_j p_j max(0, f_j(w))^2 - (lambda/2)||p||^2`, p on the simplex, `gfun(w) = max_p L(w, p)`,
//! tau = lambda and kappa = L/tau:
//!
//! - `mu <= eps / (L (d+3)^{3/2})` and `b <= min{eps^2/(2 sigma_1^2), tau^2 eps^2/(64 sigma_2^2 L^2), 1}`;
//! - `eta_p <= min{1/(3 c2l L), b^2/(tau a^2 c2l), tau b^2/(32 L^2 a^2 c2l), 1}`;
//! - `eta_w^2 <= min{c1l^2/(4 L^2 c1u^4), b^2/(4 c1u^2 L^2), tau^2 a^2 eta_p^2 c2l^2/(128 L_g^2 L^2 c1u^2),
//!   tau^2 b^2/(128 L^4 c1u^2), 1}`;
//! - `T >= max{2 (gfun(w_1) - inf gfun)/(eps^2 eta_w c1l), 2 sigma_1^2/(eps^2 b), 64 sigma_2^2 L^2/(eps^2 tau^2 b)}`.
//!
//! **Deviations from the printed theorem.** The first bound on eta_w^2 has L^2, which Lemma 5.11 needs, and the third has
//! c1u^2, as in eq. 59; the paper prints L and c1u. The smoothness L must be that of gfun, too (see
//! [`Constants::smoothness`]).
//!
//! **Constants.** The proof adds six terms that are each at most eps^2 and calls the sum eps^2; it adds three terms that are
//! each at most 1/4 where the sum must be, and two in the bound on eta_p. The result holds up to a constant. A `strict` plan puts
//! eps/sqrt 6 instead of eps and divides eta_p by 2 and eta_w^2 by 3. One step of the proof remains: where the scaling of a
//! step varies, it is taken at its lower end, also for terms of the other sign, which is correct if c1l = c1u and c2l = c2u.
//!
//! **Orders.** The bound on eta_p has b^2, which is of order eps^4. For a fixed `a` the third bound on eta_w is then of order
//! eps^4 / (kappa^6 L_g), and T of order kappa^6 L_g / eps^6, not kappa^6 / eps^4 as Remark 5.15 says. With `a` of the order of b
//! it is eps^-4 indeed: a eta_p, and with it eta_w, is largest where the bounds on eta_p with and without `a` meet,
//! `a^2 = b^2 min{1/(tau c2l), tau/(32 L^2 c2l)} / min{1/(3 c2l L), 1}`. That `a` is chosen if none is given.

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, ceiling, exclusive, row, whole};
use crate::Result;

const THEOREM: &str = "Theorem 5.14";

/// Constants of a problem, and the settings that the theorem leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// L: Lipschitz constant of the gradient of L(w, p) in both together, and of the gradient of gfun, which the proof treats
    /// as the same; L (1 + L_g) of the former is enough for the latter.
    pub smoothness: Option<f64>,
    /// tau: strong concavity in p, which is the setting lambda of the solver.
    pub strong_concavity: Option<f64>,
    /// L_g: Lipschitz constant of the best weights p*(w); L/tau if absent, which always holds.
    pub weights_lipschitz: Option<f64>,
    /// sigma_1: standard deviation of the estimate of the gradient in w, with its samples and directions.
    pub variables_noise: Option<f64>,
    /// sigma_2: standard deviation of the estimate of the gradient in p; 0 if m3 is the number of constraints.
    pub weights_noise: Option<f64>,
    /// c1l: the smallest scaling `1/(sqrt(||z_w||) + c)` of a step of the variables.
    pub variables_scale_min: Option<f64>,
    /// c1u: the largest one; 1/c, that of z_w = 0, if absent.
    pub variables_scale_max: Option<f64>,
    /// The largest `||z_w||`, instead of c1l: `c1l = 1/(sqrt(largest) + c)`.
    pub variables_largest_norm: Option<f64>,
    /// c2l: the smallest scaling `1/(sqrt(||z_p||) + c)` of a step of the weights.
    pub weights_scale_min: Option<f64>,
    /// c2u: the largest one; 1/c if absent. No bound of the theorem has it.
    pub weights_scale_max: Option<f64>,
    /// The largest `||z_p||`, instead of c2l.
    pub weights_largest_norm: Option<f64>,
    /// gfun(w_1) - inf gfun: by how much the penalised objective can fall from the start.
    pub gap: Option<f64>,
    /// d: number of variables.
    pub dimension: Option<f64>,
    /// m: number of constraints.
    pub constraints: Option<f64>,
    /// Q: directions of each estimate; as in the solver if absent.
    pub directions: Option<f64>,
    /// Samples of the objective in each estimate; as in the solver if absent.
    pub m1: Option<f64>,
    /// Constraints drawn from p in each estimate; as in the solver if absent.
    pub m2: Option<f64>,
    /// Constraints drawn uniformly in each estimate, all if there are not more; as in the solver if absent.
    pub m3: Option<f64>,
    /// a: share of the new p in the mixture, above 0 and at most 1; the one with the fewest iterations if absent.
    pub a: Option<f64>,
    /// beta: price of squared violations; as in the solver if absent.
    pub beta: Option<f64>,
    /// c: added to the square root of the norm that steps are divided by; as in the solver if absent.
    pub c: Option<f64>,
}

/// Range of the scaling `1/(sqrt(||z||) + c)` of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// c1l or c2l.
    pub min: f64,
    /// c1u or c2u.
    pub max: f64,
}

/// How near a point is to a KKT point of the constrained problem, with the multipliers `alpha_j = 2 beta p_j max(0, f_j(w))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stationarity {
    /// eps1: `||grad f0 + sum_j alpha_j grad f_j|| <= eps1`.
    pub eps1: f64,
    /// eps2: `sum_j max(0, f_j)^2 <= eps2^2`.
    pub eps2: f64,
    /// eps3: `sum_j (alpha_j f_j)^2 <= eps3^2`.
    pub eps3: f64,
}

/// The penalty with which stationary points of the minimax problem are compared with those of the constrained one.
///
/// Proposition 5.5 speaks of points with `||grad_w L(w, p)|| <= eps` and `||grad_p L(w, p)|| <= eps`. A small gradient of gfun
/// gives the first with p = p*(w) and does not give the second, although Proposition 5.7 says so: on the simplex the
/// gradient in p need not vanish at p*. With f0 = (w-2)^2, the one constraint w <= 1 and beta = 1, gfun is stationary at w = 1.5,
/// whatever lambda. So eps1 holds by the theorem, eps2 and eps3 where the gradient in p is seen to be small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalty {
    constraints: f64,
    lambda: f64,
    beta: f64,
}

impl Penalty {
    /// For m constraints, the strong concavity lambda and the price beta.
    pub fn new(constraints: f64, lambda: f64, beta: f64) -> Result<Self> {
        let needs = Requirements { theorem: "Proposition 5.5" };
        let constraints = needs.count("constraints", Some(constraints), "m, the number of constraints")?;
        let lambda = needs.positive("lambda", Some(lambda), "the strong-concavity constant in p")?;
        let beta = needs.positive("beta", Some(beta), "the weight of the squared violations")?;
        Ok(Penalty { constraints, lambda, beta })
    }

    /// The best that follows where both gradients are at most eps: `eps2^2 = sqrt((2 m eps^2 + 2 m^2 lambda^2) / beta^2)`, and
    /// eps3 = 2 beta eps2. The proof of the latter drops a factor that is at most 1 only if eps2 is; it is kept here where
    /// eps2 is larger, eps3 = 2 beta eps2^2.
    pub fn leads_to(&self, eps: f64) -> Result<Stationarity> {
        accuracy(eps)?;
        let m = self.constraints;
        let eps2 = (((2.0 * m).sqrt() * eps).hypot(2f64.sqrt() * m * self.lambda) / self.beta).sqrt();
        Ok(Stationarity { eps1: eps, eps2, eps3: 2.0 * self.beta * eps2 * eps2.max(1.0) })
    }

    /// Whether gradients of at most eps are small enough for `wanted`, up to rounding.
    pub fn suffices(&self, eps: f64, wanted: &Stationarity) -> Result<bool> {
        let found = self.leads_to(eps)?;
        let within = |found: f64, wanted: f64| found <= wanted * (1.0 + 1e-9);
        Ok(within(found.eps1, wanted.eps1) && within(found.eps2, wanted.eps2) && within(found.eps3, wanted.eps3))
    }
}

/// Parameters under the names of the solver's settings, and their guarantee. Counts are whole numbers, stored as `f64`
/// because worst cases exceed every integer type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether the constants are those of the proof; else the guarantee holds up to a constant.
    pub strict: bool,
    /// kappa = L/tau: condition number.
    pub condition: f64,
    /// c1l and c1u, given or derived.
    pub variables_scale: Scale,
    /// c2l and c2u, given or derived.
    pub weights_scale: Scale,
    /// mu: smoothing radius.
    pub mu: f64,
    /// a: share of the new p in the mixture.
    pub a: f64,
    /// b: share of the new estimates in the moving averages.
    pub b: f64,
    /// eta_p: step of the weights.
    pub eta_p: f64,
    /// eta_w: step of the variables.
    pub eta_w: f64,
    /// lambda = tau.
    pub lambda: f64,
    /// beta: price of squared violations.
    pub beta: f64,
    /// c: added to the square root of the norm that steps are divided by.
    pub c: f64,
    /// T: number of iterations.
    pub iterations: f64,
    /// (Q+1)(m1 + m2) + m3: values per estimate.
    pub queries_per_estimate: f64,
    /// m for the first weights, and T + 1 estimates.
    pub queries: f64,
    /// What gradients of at most eps mean for the constrained problem; eps2 and eps3 under the condition that [`Penalty`] has.
    pub stationarity: Stationarity,
    /// The guarantee, in one or two sentences.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        let kind = if self.strict { "with the constants of its proof" } else { "up to a constant" };
        format!("Theorem 5.14, {kind}: values alone, many constraints")
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let range = |scale: Scale| format!("{} to {}", short(scale.min), short(scale.max));
        vec![
            row("condition number", "kappa", short(self.condition)),
            row("scaling of the steps of the variables", "c1l, c1u", range(self.variables_scale)),
            row("scaling of the steps of the weights", "c2l, c2u", range(self.weights_scale)),
            row("smoothing radius", "mu", short(self.mu)),
            row("share of new weights", "a", short(self.a)),
            row("share of new estimates", "b", short(self.b)),
            row("step of the weights", "eta_p", short(self.eta_p)),
            row("step of the variables", "eta_w", short(self.eta_w)),
            row("iterations", "T", whole(self.iterations)),
            row("values asked for by an estimate", "", whole(self.queries_per_estimate)),
            row("values asked for", "", whole(self.queries)),
            row("KKT residual", "eps1", short(self.stationarity.eps1)),
            row("violation, if ||grad_p L|| <= eps", "eps2", short(self.stationarity.eps2)),
            row("complementarity, if ||grad_p L|| <= eps", "eps3", short(self.stationarity.eps3)),
        ]
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Settings that neither the theorem nor the user prescribes. They are also the defaults of the solver.
pub(crate) struct DefaultSettings {
    pub(crate) beta: f64,
    pub(crate) c: f64,
    pub(crate) directions: usize,
    pub(crate) m1: usize,
    pub(crate) m2: usize,
    pub(crate) m3: usize,
}

/// See [`DefaultSettings`].
pub(crate) const USUAL: DefaultSettings = DefaultSettings { beta: 1.0, c: 1e-8, directions: 10, m1: 128, m2: 128, m3: 128 };

/// Computes the parameters for a mean of `||grad gfun(w_t)||^2` of at most eps^2 over the iterates, up to a constant unless `strict`.
///
/// Of what the theorem admits this takes the largest mu, b, eta_p and eta_w and the smallest T.
pub fn plan(constants: &Constants, eps: f64, strict: bool) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, c, defaults) = (Requirements { theorem: THEOREM }, constants, USUAL);
    let tau = needs.positive(
        "strong_concavity",
        c.strong_concavity,
        "tau, the strong-concavity constant in p (lambda of the solver)",
    )?;
    let (meaning, range) =
        ("L, the Lipschitz constant of the gradient of L(w, p)", format!("a finite number, at least strong_concavity = {tau}"));
    let l = needs.number("smoothness", c.smoothness, meaning, &range, |v| v >= tau)?;
    let meaning = "L_g, the Lipschitz constant of p*(w)";
    let l_g = needs.not_negative("weights_lipschitz", c.weights_lipschitz.or(Some(l / tau)), meaning)?;
    let meaning = "sigma_1, the standard deviation of the estimate of the gradient in w (0 if it is exact)";
    let sigma_1 = needs.not_negative("variables_noise", c.variables_noise, meaning)?;
    let meaning = "sigma_2, the standard deviation of the estimate of the gradient in p (0 if it is exact)";
    let sigma_2 = needs.not_negative("weights_noise", c.weights_noise, meaning)?;
    let shift = needs.positive("c", c.c.or(Some(defaults.c)), "the number added to the root of the norm of z")?;
    let of_w = Scaling { whose: "variables", symbol: "c1", z: "z_w", shift };
    let of_p = Scaling { whose: "weights", symbol: "c2", z: "z_p", shift };
    let variables_scale = of_w.bounds(&needs, c.variables_scale_min, c.variables_scale_max, c.variables_largest_norm)?;
    let weights_scale = of_p.bounds(&needs, c.weights_scale_min, c.weights_scale_max, c.weights_largest_norm)?;
    let gap =
        needs.not_negative("gap", c.gap, "gfun(w_1) - inf gfun, the largest possible decrease of the penalised objective")?;
    let d = needs.count("dimension", c.dimension, "d, the number of variables")?;
    let m = needs.count("constraints", c.constraints, "m, the number of constraints")?;
    let or =
        |name: &str, given: Option<f64>, usual: usize, meaning: &str| needs.count(name, given.or(Some(usual as f64)), meaning);
    let q = or("directions", c.directions, defaults.directions, "Q, the number of directions of each estimate")?;
    let m1 = or("m1", c.m1, defaults.m1, "the number of samples of the objective in each estimate")?;
    let m2 = or("m2", c.m2, defaults.m2, "the number of constraints drawn from p in each estimate")?;
    let m3 = or("m3", c.m3, defaults.m3, "the number of constraints drawn uniformly in each estimate")?.min(m);
    let beta = needs.positive("beta", c.beta.or(Some(defaults.beta)), "the weight of the squared violations")?;

    let known = TheoremConstants { l, tau, l_g, sigma_1, sigma_2, c1: variables_scale, c2l: weights_scale.min, gap };
    let target = if strict { eps / 6f64.sqrt() } else { eps };
    let mu = target / (l * (d + 3.0).powf(1.5));
    let b = least(&known.averaging(target));
    let a = match c.a {
        None => known.best_mixture(b),
        given => {
            let range = "larger than 0 and at most 1";
            needs.number("a", given, "the share of the new p in the mixture", range, |v| v > 0.0 && v <= 1.0)?
        }
    };
    let eta_p = least(&known.weight_steps(b, a)) / if strict { 2.0 } else { 1.0 };
    let eta_w = least(&known.variable_steps(b, a, eta_p)) / if strict { 3f64.sqrt() } else { 1.0 };
    let iterations = ceiling(known.iterations(target, b, eta_w).into_iter().fold(0.0, f64::max)).max(1.0);
    let queries_per_estimate = (q + 1.0) * (m1 + m2) + m3;
    let queries = m + (iterations + 1.0) * queries_per_estimate;
    // Values that underflowed to 0 are rejected as well, since no solver accepts them.
    needs.finite(&[queries, 1.0 / mu, 1.0 / a, 1.0 / b, 1.0 / eta_p, 1.0 / eta_w], eps)?;

    let mean = if strict { "The mean" } else { "Up to a constant factor, the mean" };
    let varying = variables_scale.min < variables_scale.max || weights_scale.min < weights_scale.max;
    let lower = if varying { ", with scalings of the steps taken at their lower bounds as the proof does" } else { "" };
    let guarantee = format!(
        "{mean} of ||grad gfun(w_t)||^2 over the iterates, gfun(w) = max_p L(w, p), is in expectation at most {}{lower}. Where \
         ||grad gfun|| <= {eps}, the KKT residual is at most eps1; eps2 and eps3 need ||grad_p L|| <= {eps} as well, which does not \
         follow.",
        short(eps * eps),
        eps = short(eps)
    );
    Ok(Plan {
        strict,
        condition: l / tau,
        variables_scale,
        weights_scale,
        mu,
        a,
        b,
        eta_p,
        eta_w,
        lambda: tau,
        beta,
        c: shift,
        iterations,
        queries_per_estimate,
        queries,
        stationarity: Penalty::new(m, tau, beta)?.leads_to(eps)?,
        guarantee,
    })
}

fn least(bounds: &[f64]) -> f64 {
    bounds.iter().copied().fold(1.0, f64::min)
}

/// Names of the bounds on one scaling `1/(sqrt(||z||) + c)`.
struct Scaling {
    whose: &'static str,
    symbol: &'static str,
    z: &'static str,
    shift: f64,
}

impl Scaling {
    /// The smallest and the largest scaling. It falls with ||z||: the largest norm gives the smallest scaling, and norm 0 the
    /// largest one, 1/c.
    fn bounds(&self, needs: &Requirements, min: Option<f64>, max: Option<f64>, norm: Option<f64>) -> Result<Scale> {
        let Scaling { whose, symbol, z, shift } = self;
        let (min_name, max_name) = (format!("{whose}_scale_min"), format!("{whose}_scale_max"));
        let norm_name = format!("{whose}_largest_norm");
        if let (Some(_), Some(norm)) = (min, norm) {
            return Err(exclusive(&norm_name, norm, &min_name));
        }
        let low = match norm {
            Some(_) => 1.0 / (needs.not_negative(&norm_name, norm, &format!("the largest ||{z}||"))?.sqrt() + shift),
            None => {
                let meaning = format!("{symbol}l, the smallest scaling 1/(sqrt(||{z}||) + c) ({norm_name} can replace it)");
                let range = format!("larger than 0 and at most 1/c = {}", short(1.0 / shift));
                needs.number(&min_name, min, &meaning, &range, |v| v > 0.0 && v <= 1.0 / shift)?
            }
        };
        let meaning = format!("{symbol}u, the largest scaling 1/(sqrt(||{z}||) + c)");
        let range = format!("a finite number, at least {symbol}l = {}", short(low));
        let high = needs.number(&max_name, max.or(Some(1.0 / shift)), &meaning, &range, |v| v >= low)?;
        Ok(Scale { min: low, max: high })
    }
}

/// Constants in the bounds of the theorem.
struct TheoremConstants {
    l: f64,
    tau: f64,
    l_g: f64,
    sigma_1: f64,
    sigma_2: f64,
    /// c1l and c1u.
    c1: Scale,
    c2l: f64,
    gap: f64,
}

/// The bounds in the order of the theorem, without the last one of each, 1. Squares are taken late, so that small numbers do
/// not vanish.
impl TheoremConstants {
    /// On b.
    fn averaging(&self, eps: f64) -> [f64; 2] {
        let of_p = self.tau * eps / (8.0 * self.sigma_2 * self.l);
        [(eps / self.sigma_1).powi(2) / 2.0, of_p * of_p]
    }

    /// On eta_p (a/b)^2: the factors of the two bounds that have them.
    fn mixed(&self) -> [f64; 2] {
        [1.0 / (self.tau * self.c2l), self.tau / (32.0 * self.l * self.l * self.c2l)]
    }

    /// On eta_p, whatever a and b.
    fn unmixed(&self) -> f64 {
        1.0 / (3.0 * self.c2l * self.l)
    }

    /// On eta_p.
    fn weight_steps(&self, b: f64, a: f64) -> [f64; 3] {
        let ratio = (b / a).powi(2);
        let [first, second] = self.mixed().map(|factor| ratio * factor);
        [self.unmixed(), first, second]
    }

    /// The a in (0, 1] with the largest a eta_p.
    fn best_mixture(&self, b: f64) -> f64 {
        let [first, second] = self.mixed();
        (b * (first.min(second) / self.unmixed().min(1.0)).sqrt()).min(1.0)
    }

    /// On eta_w: the roots of what the theorem has.
    fn variable_steps(&self, b: f64, a: f64, eta_p: f64) -> [f64; 4] {
        let TheoremConstants { l, tau, l_g, c1: Scale { min: c1l, max: c1u }, c2l, .. } = *self;
        let root = 128f64.sqrt();
        [
            c1l / (2.0 * l * c1u * c1u),
            b / (2.0 * c1u * l),
            tau * a * eta_p * c2l / (root * l_g * l * c1u),
            tau * b / (root * l * l * c1u),
        ]
    }

    /// On T.
    fn iterations(&self, eps: f64, b: f64, eta_w: f64) -> [f64; 3] {
        let of_p = 8.0 * self.sigma_2 * self.l / (eps * self.tau);
        [2.0 * self.gap / (eps * eps * eta_w * self.c1.min), 2.0 * (self.sigma_1 / eps).powi(2) / b, of_p * of_p / b]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    fn usual() -> Constants {
        Constants {
            smoothness: Some(4.0),
            strong_concavity: Some(2.0),
            weights_lipschitz: Some(2.0),
            variables_noise: Some(1.0),
            weights_noise: Some(0.5),
            variables_scale_min: Some(0.5),
            variables_scale_max: Some(2.0),
            weights_scale_min: Some(0.25),
            weights_scale_max: Some(1.0),
            gap: Some(3.0),
            dimension: Some(6.0),
            constraints: Some(10.0),
            directions: Some(3.0),
            m1: Some(5.0),
            m2: Some(4.0),
            m3: Some(6.0),
            a: Some(0.5),
            beta: Some(2.0),
            ..Constants::default()
        }
    }

    fn known() -> TheoremConstants {
        TheoremConstants {
            l: 4.0,
            tau: 2.0,
            l_g: 2.0,
            sigma_1: 1.0,
            sigma_2: 0.5,
            c1: Scale { min: 0.5, max: 2.0 },
            c2l: 0.25,
            gap: 3.0,
        }
    }

    #[test]
    fn every_bound_by_hand() {
        // eps = 2/5: eps^2/(2 sigma_1^2) = .16/2, tau^2 eps^2/(64 sigma_2^2 L^2) = 4 * .16/(64 * .25 * 16).
        let [first, second] = known().averaging(0.4);
        close(first, 0.08, 1e-14);
        close(second, 0.0025, 1e-14);
        // b^2 = 6.25e-6: 1/(3 * .25 * 4), 6.25e-6/(2 * .25 * .25), 2 * 6.25e-6/(32 * 16 * .25 * .25).
        let found = known().weight_steps(0.0025, 0.5);
        for (got, wanted) in found.into_iter().zip([1.0 / 3.0, 5e-5, 3.90625e-7]) {
            close(got, wanted, 1e-14);
        }
        // Squares: .25/(4 * 16 * 16), 6.25e-6/(4 * 4 * 16), 4 * .25 * 3.90625e-7^2 * .0625/(128 * 4 * 16 * 4) and
        // 4 * 6.25e-6/(128 * 256 * 4).
        let found = known().variable_steps(0.0025, 0.5, 3.90625e-7);
        let squares = [1.0 / 4096.0, 2.44140625e-8, 2.91038304567337e-19, 1.9073486328125e-10];
        for (got, wanted) in found.into_iter().zip(squares) {
            close(got * got, wanted, 1e-14);
        }
        // 2 * 3/(.16 * 1e-6 * .5), 2/(.16 * .0025), 64 * .25 * 16/(.16 * 4 * .0025).
        let found = known().iterations(0.4, 0.0025, 1e-6);
        for (got, wanted) in found.into_iter().zip([7.5e7, 5000.0, 160_000.0]) {
            close(got, wanted, 1e-13);
        }
    }

    #[test]
    fn the_whole_plan_by_hand() {
        let p = plan(&usual(), 0.4, false).unwrap();
        // (d + 3)^{3/2} = 27.
        close(p.mu, 0.4 / 108.0, 1e-14);
        close(p.b, 0.0025, 1e-14);
        close(p.eta_p, 3.90625e-7, 1e-14);
        close(p.eta_w, 2.91038304567337e-19f64.sqrt(), 1e-14);
        // 6/(.16 * .5 * eta_w) = 75/eta_w.
        close(p.iterations, 75.0 / 5.394796609394436e-10, 1e-10);
        assert_eq!(p.iterations.fract(), 0.0);
        assert_eq!((p.a, p.lambda, p.beta, p.c, p.condition), (0.5, 2.0, 2.0, 1e-8, 2.0));
        // 3 directions and the point itself, 5 + 4 values each, and 6 constraints; 10 for the first weights.
        assert_eq!(p.queries_per_estimate, 42.0);
        assert_eq!(p.queries, 10.0 + 42.0 * (p.iterations + 1.0));
        // Not more constraints than there are, as in the solver.
        let all = plan(&Constants { m3: Some(1000.0), ..usual() }, 0.4, false).unwrap();
        assert_eq!(all.queries_per_estimate, 46.0);
        // What the solver takes if nothing is said: 11 (128 + 128) + 128.
        let silent = Constants { directions: None, m1: None, m2: None, m3: None, constraints: Some(500.0), ..usual() };
        assert_eq!(plan(&silent, 0.4, false).unwrap().queries_per_estimate, 2944.0);
    }

    #[test]
    fn without_noise_and_gap_one_iteration_is_enough() {
        let c = Constants { variables_noise: Some(0.0), weights_noise: Some(0.0), gap: Some(0.0), ..usual() };
        let p = plan(&c, 0.1, false).unwrap();
        assert_eq!((p.b, p.iterations), (1.0, 1.0));
        // No bound is above 1, although 1/(3 c2l L) is 33 here.
        let flat = Constants { smoothness: Some(0.01), strong_concavity: Some(0.01), a: Some(1e-3), ..c };
        let flat = Constants { weights_scale_min: Some(1.0), ..flat };
        assert_eq!(plan(&flat, 0.1, false).unwrap().eta_p, 1.0);
    }

    #[test]
    fn strict_plans_differ_by_exact_factors() {
        // eps^2/6 makes b a sixth, eta_p (as b^2) a 36th and by its own factor a 72nd, eta_w (as eta_p) that by sqrt 3.
        let [plain, strict] = [false, true].map(|strict| plan(&usual(), 0.4, strict).unwrap());
        close(plain.mu / strict.mu, 6f64.sqrt(), 1e-13);
        close(plain.b / strict.b, 6.0, 1e-13);
        close(plain.eta_p / strict.eta_p, 72.0, 1e-13);
        close(plain.eta_w / strict.eta_w, 72.0 * 3f64.sqrt(), 1e-13);
        close(strict.iterations / plain.iterations, 6.0 * 72.0 * 3f64.sqrt(), 1e-9);
        assert_eq!(plain.stationarity, strict.stationarity);
        assert!(
            plain.guarantee.starts_with("Up to a constant factor, the mean of") && plain.title().contains("up to a constant")
        );
        assert!(strict.guarantee.starts_with("The mean of") && !strict.title().contains("up to"), "{}", strict.title());
        // Without noise b does not change, and a rules neither.
        let exact = Constants { variables_noise: Some(0.0), weights_noise: Some(0.0), ..usual() };
        let [plain, strict] = [false, true].map(|strict| plan(&exact, 0.4, strict).unwrap());
        assert_eq!((plain.b, strict.b), (1.0, 1.0));
        close(plain.eta_p / strict.eta_p, 2.0, 1e-14);
        close(plain.eta_w / strict.eta_w, 2.0 * 3f64.sqrt(), 1e-14);
    }

    /// Iterations by the constants and eps, as a ratio.
    fn growth(from: (&Constants, f64), to: (&Constants, f64)) -> f64 {
        plan(to.0, to.1, false).unwrap().iterations / plan(from.0, from.1, false).unwrap().iterations
    }

    #[test]
    fn orders_in_eps() {
        // A fixed mixture: eta_w as b^2, which is eps^4; with the factor eps^-2 of T this is eps^-6.
        close(growth((&usual(), 0.1), (&usual(), 0.05)), 64.0, 1e-9);
        // A mixture of the order of b, chosen or given: eps^-4.
        let chosen = Constants { a: None, ..usual() };
        close(growth((&chosen, 0.1), (&chosen, 0.05)), 16.0, 1e-9);
        let [first, second] = [(0.02, 0.1), (0.005, 0.05)].map(|(a, eps)| (Constants { a: Some(a), ..usual() }, eps));
        close(growth((&first.0, first.1), (&second.0, second.1)), 16.0, 1e-9);
        // Weights that do not depend on w: the fourth bound rules eta_w, which is as b.
        let still = Constants { weights_lipschitz: Some(0.0), ..usual() };
        close(growth((&still, 0.1), (&still, 0.05)), 16.0, 1e-9);
        // The terms of the noise alone.
        let near = Constants { gap: Some(0.0), ..usual() };
        close(growth((&near, 0.01), (&near, 0.005)), 16.0, 1e-9);
    }

    #[test]
    fn orders_in_kappa() {
        // kappa is doubled by half the strong concavity; L_g stays unless it is said.
        let doubled = |c: &Constants| Constants { strong_concavity: c.strong_concavity.map(|tau| tau / 2.0), ..*c };
        let ratio = |c: Constants| growth((&c, 0.1), (&doubled(&c), 0.1));
        // b is as kappa^-2, eta_p as b^2/kappa, eta_w as eta_p/kappa.
        close(ratio(usual()), 64.0, 1e-9);
        // L_g = kappa costs one power more.
        close(ratio(Constants { weights_lipschitz: None, ..usual() }), 128.0, 1e-9);
        // The chosen mixture: a as b kappa^{-1/2}, eta_w as a/kappa.
        close(ratio(Constants { a: None, ..usual() }), 2f64.powf(3.5), 1e-9);
        close(ratio(Constants { weights_lipschitz: Some(0.0), ..usual() }), 8.0, 1e-9);
        close(ratio(Constants { gap: Some(0.0), ..usual() }), 16.0, 1e-6);
        let [one, two] = [usual(), doubled(&usual())].map(|c| plan(&c, 0.1, false).unwrap());
        close(one.b / two.b, 4.0, 1e-12);
        close(one.eta_p / two.eta_p, 32.0, 1e-12);
    }

    #[test]
    fn the_chosen_mixture_has_the_fewest_iterations() {
        let cases = [(0.4, 2.0, 0.25), (0.05, 1e-3, 0.01), (3.0, 4.0, 50.0), (0.1, 1e-6, 1e3)];
        for (eps, tau, c2l) in cases {
            let c = Constants {
                strong_concavity: Some(tau),
                weights_scale_min: Some(c2l),
                weights_scale_max: Some(1e8),
                a: None,
                ..usual()
            };
            let best = plan(&c, eps, false).unwrap();
            assert!(best.a > 0.0 && best.a <= 1.0, "{}", best.a);
            for i in 0..=400 {
                let a = 10f64.powf(-f64::from(i) / 20.0);
                let other = plan(&Constants { a: Some(a), ..c }, eps, false).unwrap();
                assert!(best.iterations <= other.iterations * (1.0 + 1e-9), "{eps} {tau} {c2l}: {} against {a}", best.a);
            }
        }
    }

    #[test]
    fn scalings_follow_from_norms() {
        let c = Constants {
            variables_scale_min: None,
            variables_scale_max: None,
            variables_largest_norm: Some(9.0),
            weights_scale_min: None,
            weights_scale_max: None,
            weights_largest_norm: Some(4.0),
            c: Some(0.5),
            ..usual()
        };
        let p = plan(&c, 0.4, false).unwrap();
        assert_eq!((p.variables_scale, p.weights_scale), (Scale { min: 1.0 / 3.5, max: 2.0 }, Scale { min: 0.4, max: 2.0 }));
        // The same as the scalings said outright.
        let said = Constants { variables_scale_min: Some(1.0 / 3.5), variables_scale_max: Some(2.0), ..c };
        let said = Constants { variables_largest_norm: None, weights_scale_min: Some(0.4), weights_largest_norm: None, ..said };
        assert_eq!(plan(&said, 0.4, false).unwrap(), p);
        // A known smallest norm is said by the largest scaling.
        let bounded = Constants { variables_scale_max: Some(0.8), ..c };
        assert_eq!(plan(&bounded, 0.4, false).unwrap().variables_scale, Scale { min: 1.0 / 3.5, max: 0.8 });
        let usual_c = plan(&Constants { c: None, ..c }, 0.4, false).unwrap();
        close(usual_c.variables_scale.max, 1e8, 1e-14);
        close(usual_c.variables_scale.min, 1.0 / 3.00000001, 1e-14);
        // Scalings that do not vary leave nothing open in the proof.
        let steady = Constants { variables_scale_min: Some(2.0), weights_scale_min: Some(1.0), ..usual() };
        assert!(!plan(&steady, 0.4, true).unwrap().guarantee.contains("lower bounds"));
        assert!(p.guarantee.contains("taken at their lower bounds"));
    }

    #[test]
    fn stationarity_by_hand() {
        // m = 8, lambda = .3, beta = 2, eps = .6: (2 * 8 * .36 + 2 * 64 * .09)/4 = 4.32, eps2^2 = sqrt(4.32).
        let penalty = Penalty::new(8.0, 0.3, 2.0).unwrap();
        let s = penalty.leads_to(0.6).unwrap();
        close(s.eps2.powi(4), 4.32, 1e-14);
        // eps2 is above 1: 4 beta^2 eps2^4 <= eps3^2.
        close(s.eps3.powi(2), 16.0 * 4.32, 1e-14);
        assert_eq!(s.eps1, 0.6);
        // Below 1: (2 * 4 * 1e-4 + 2 * 16 * 1e-6)/4 = 2.08e-4, 4 beta^2 eps2^2 = eps3^2.
        let penalty = Penalty::new(4.0, 1e-3, 2.0).unwrap();
        let s = penalty.leads_to(0.01).unwrap();
        close(s.eps2.powi(4), 2.08e-4, 1e-13);
        close(s.eps3.powi(2), 16.0 * 2.08e-4f64.sqrt(), 1e-13);
        assert!(penalty.suffices(0.01, &s).unwrap());
        for wanted in [
            Stationarity { eps1: 0.99 * s.eps1, ..s },
            Stationarity { eps2: 0.99 * s.eps2, ..s },
            Stationarity { eps3: 0.99 * s.eps3, ..s },
        ] {
            assert!(!penalty.suffices(0.01, &wanted).unwrap(), "{wanted:?}");
        }
        assert!(!penalty.suffices(0.011, &s).unwrap());
        assert_eq!(
            Penalty::new(4.0, 0.0, 1.0).unwrap_err().to_string(),
            "lambda must be a finite number larger than 0, got 0; it is the strong-concavity constant in p"
        );
        assert_eq!(
            Penalty::new(1.5, 1.0, 1.0).unwrap_err().to_string(),
            "constraints must be a whole number larger than 0, got 1.5; it is m, the number of constraints"
        );
        assert_eq!(penalty.leads_to(-1.0).unwrap_err().to_string(), "eps must be a finite number larger than 0, got -1");
    }

    /// Points with small gradients in w and p keep what is said, and without the gradient in p they do not.
    #[test]
    fn stationarity_needs_the_gradient_in_p() {
        // f0 = (w-2)^2, f_1 = w - 1, m = 1: p = 1, and the gradient in p is beta phi - lambda.
        let (beta, lambda) = (1.0, 1e-6);
        let w: f64 = (2.0 + beta) / (1.0 + beta);
        let slope = 2.0 * (w - 2.0) + 2.0 * beta * (w - 1.0);
        let of_p = beta * (w - 1.0).powi(2) - lambda;
        let penalty = Penalty::new(1.0, lambda, beta).unwrap();
        assert!(slope.abs() < 1e-12 && w - 1.0 > 100.0 * penalty.leads_to(1e-9).unwrap().eps2);
        let s = penalty.leads_to(of_p).unwrap();
        let complementarity = 2.0 * beta * (w - 1.0).powi(2);
        assert!(w - 1.0 <= s.eps2 && complementarity <= s.eps3, "{s:?}");
        // The factor that the paper drops: f_1 = 2, so that the gradient in p is 4 and alpha f_1 = 2 * 2 * 2.
        let s = penalty.leads_to(4.0).unwrap();
        assert!(2.0 <= s.eps2 && 8.0 <= s.eps3 && 8.0 > 2.0 * beta * s.eps2, "{s:?}");
    }

    /// f0 = (w-2)^2/2, constraints w - 1 and w - 1.5, beta = lambda = 1, exact gradients: for w in [0, 2] the Hessian of L is at
    /// most 4 and gfun'' at most 3 + 5, p* moves by at most sqrt 5, and both gradients are at most 2 long.
    #[test]
    fn the_promised_mean_is_reached() {
        let c = Constants {
            smoothness: Some(8.0),
            strong_concavity: Some(1.0),
            weights_lipschitz: Some(5f64.sqrt()),
            variables_noise: Some(0.0),
            weights_noise: Some(0.0),
            variables_largest_norm: Some(2.0),
            weights_largest_norm: Some(2.0),
            gap: Some(1.5),
            dimension: Some(1.0),
            constraints: Some(2.0),
            c: Some(1.0),
            ..Constants::default()
        };
        let phi = |w: f64| [(w - 1.0).max(0.0).powi(2), (w - 1.5).max(0.0).powi(2)];
        // Of two weights the first determines the other.
        let project = |v: [f64; 2]| ((v[0] - v[1] + 1.0) / 2.0).clamp(0.0, 1.0);
        let slope = |w: f64, p: f64| w - 2.0 + 2.0 * p * (w - 1.0).max(0.0) + 2.0 * (1.0 - p) * (w - 1.5).max(0.0);
        for (eps, strict, a) in [(0.5, false, None), (0.9, true, None), (0.9, false, Some(0.5))] {
            let plan = plan(&Constants { a, ..c }, eps, strict).unwrap();
            let (mut w, mut sum) = (2.0, 0.0);
            let mut p = project(phi(w));
            let first = slope(w, p);
            for _ in 0..plan.iterations as u64 {
                sum += slope(w, project(phi(w))).powi(2);
                let zw = slope(w, p);
                let [one, two] = phi(w);
                let zp = [one - p, two - (1.0 - p)];
                let step = plan.eta_p / (zp[0].hypot(zp[1]).sqrt() + plan.c);
                let hat = project([p + step * zp[0], 1.0 - p + step * zp[1]]);
                w -= plan.eta_w * zw / (zw.abs().sqrt() + plan.c);
                p += plan.a * (hat - p);
            }
            let mean = sum / plan.iterations;
            assert!(mean <= eps * eps && first * first > eps * eps, "{eps} {strict}: {mean}");
        }
    }

    #[test]
    fn large_numbers_neither_overflow_nor_vanish() {
        let c = Constants {
            strong_concavity: Some(1e-6),
            weights_lipschitz: None,
            weights_scale_max: None,
            variables_scale_max: None,
            constraints: Some(60_000.0),
            ..usual()
        };
        let p = plan(&c, 1e-3, true).unwrap();
        assert!(p.iterations > 1e40 && p.queries.is_finite(), "{}", p.iterations);
        let rows = p.rows();
        assert!(rows.iter().any(|r| r[1] == "T" && r[2].contains('e')), "{rows:?}");
        for eps in [1e-60, 1e-200, 1e-300] {
            let message = plan(&c, eps, false).unwrap_err().to_string();
            assert!(message.contains("Theorem 5.14") && message.contains("choose a larger eps"), "{message}");
        }
        assert!(plan(&Constants { smoothness: Some(1e300), ..c }, 0.1, false).unwrap_err().to_string().contains("Theorem 5.14"));
    }

    #[test]
    fn missing_and_senseless_constants_are_named() {
        let refuse = |c: Constants| plan(&c, 0.1, false).unwrap_err().to_string();
        for (sentence, c) in [
            (
                "smoothness is missing; Theorem 5.14 needs L, the Lipschitz constant of the gradient of L(w, p), \
                 a finite number, at least strong_concavity = 2",
                Constants { smoothness: None, ..usual() },
            ),
            (
                "strong_concavity is missing; Theorem 5.14 needs tau, the strong-concavity constant in p (lambda \
                 of the solver), a finite number larger than 0",
                Constants { strong_concavity: None, ..usual() },
            ),
            (
                "variables_noise is missing; Theorem 5.14 needs sigma_1, the standard deviation of the estimate \
                 of the gradient in w (0 if it is exact), a finite number, 0 or larger",
                Constants { variables_noise: None, ..usual() },
            ),
            (
                "weights_noise is missing; Theorem 5.14 needs sigma_2, the standard deviation of the estimate of \
                 the gradient in p (0 if it is exact), a finite number, 0 or larger",
                Constants { weights_noise: None, ..usual() },
            ),
            (
                "variables_scale_min is missing; Theorem 5.14 needs c1l, the smallest scaling 1/(sqrt(||z_w||) + \
                 c) (variables_largest_norm can replace it), larger than 0 and at most 1/c = 100000000",
                Constants { variables_scale_min: None, ..usual() },
            ),
            (
                "weights_scale_min is missing; Theorem 5.14 needs c2l, the smallest scaling 1/(sqrt(||z_p||) + \
                 c) (weights_largest_norm can replace it), larger than 0 and at most 1/c = 100000000",
                Constants { weights_scale_min: None, ..usual() },
            ),
            (
                "gap is missing; Theorem 5.14 needs gfun(w_1) - inf gfun, the largest possible decrease of the \
                 penalised objective, a finite number, 0 or larger",
                Constants { gap: None, ..usual() },
            ),
            (
                "dimension is missing; Theorem 5.14 needs d, the number of variables, a whole number larger than \
                 0",
                Constants { dimension: None, ..usual() },
            ),
            (
                "constraints is missing; Theorem 5.14 needs m, the number of constraints, a whole number larger \
                 than 0",
                Constants { constraints: None, ..usual() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        for (sentence, c) in [
            (
                "strong_concavity must be a finite number larger than 0, got 0; it is tau, the strong-concavity \
                 constant in p (lambda of the solver)",
                Constants { strong_concavity: Some(0.0), ..usual() },
            ),
            (
                "smoothness must be a finite number, at least strong_concavity = 2, got 1; it is L, the \
                 Lipschitz constant of the gradient of L(w, p)",
                Constants { smoothness: Some(1.0), ..usual() },
            ),
            (
                "smoothness must be a finite number, at least strong_concavity = 2, got inf; it is L, the \
                 Lipschitz constant of the gradient of L(w, p)",
                Constants { smoothness: Some(f64::INFINITY), ..usual() },
            ),
            (
                "weights_lipschitz must be a finite number, 0 or larger, got -1; it is L_g, the Lipschitz \
                 constant of p*(w)",
                Constants { weights_lipschitz: Some(-1.0), ..usual() },
            ),
            (
                "variables_noise must be a finite number, 0 or larger, got -1; it is sigma_1, the standard \
                 deviation of the estimate of the gradient in w (0 if it is exact)",
                Constants { variables_noise: Some(-1.0), ..usual() },
            ),
            (
                "weights_noise must be a finite number, 0 or larger, got NaN; it is sigma_2, the standard \
                 deviation of the estimate of the gradient in p (0 if it is exact)",
                Constants { weights_noise: Some(f64::NAN), ..usual() },
            ),
            (
                "variables_scale_min must be larger than 0 and at most 1/c = 100000000, got 0; it is c1l, the \
                 smallest scaling 1/(sqrt(||z_w||) + c) (variables_largest_norm can replace it)",
                Constants { variables_scale_min: Some(0.0), ..usual() },
            ),
            (
                "variables_scale_max must be a finite number, at least c1l = 0.5, got 0.4; it is c1u, the \
                 largest scaling 1/(sqrt(||z_w||) + c)",
                Constants { variables_scale_max: Some(0.4), ..usual() },
            ),
            (
                "weights_scale_max must be a finite number, at least c2l = 0.25, got 0.1; it is c2u, the largest \
                 scaling 1/(sqrt(||z_p||) + c)",
                Constants { weights_scale_max: Some(0.1), ..usual() },
            ),
            (
                "weights_scale_min must be larger than 0 and at most 1/c = 100000000, got 1000000000; it is c2l, \
                 the smallest scaling 1/(sqrt(||z_p||) + c) (weights_largest_norm can replace it)",
                Constants { weights_scale_min: Some(1e9), ..usual() },
            ),
            (
                "variables_largest_norm cannot be given together with variables_scale_min, from which it \
                     follows; got variables_largest_norm = 2",
                Constants { variables_largest_norm: Some(2.0), ..usual() },
            ),
            (
                "weights_largest_norm must be a finite number, 0 or larger, got -2; it is the largest ||z_p||",
                Constants { weights_largest_norm: Some(-2.0), weights_scale_min: None, ..usual() },
            ),
            (
                "gap must be a finite number, 0 or larger, got -1; it is gfun(w_1) - inf gfun, the largest \
                 possible decrease of the penalised objective",
                Constants { gap: Some(-1.0), ..usual() },
            ),
            (
                "dimension must be a whole number larger than 0, got 2.5; it is d, the number of variables",
                Constants { dimension: Some(2.5), ..usual() },
            ),
            (
                "constraints must be a whole number larger than 0, got 0; it is m, the number of constraints",
                Constants { constraints: Some(0.0), ..usual() },
            ),
            (
                "directions must be a whole number larger than 0, got 0; it is Q, the number of directions of \
                 each estimate",
                Constants { directions: Some(0.0), ..usual() },
            ),
            (
                "m3 must be a whole number larger than 0, got 1.5; it is the number of constraints drawn \
                 uniformly in each estimate",
                Constants { m3: Some(1.5), ..usual() },
            ),
            (
                "a must be larger than 0 and at most 1, got 1.5; it is the share of the new p in the mixture",
                Constants { a: Some(1.5), ..usual() },
            ),
            (
                "a must be larger than 0 and at most 1, got 0; it is the share of the new p in the mixture",
                Constants { a: Some(0.0), ..usual() },
            ),
            (
                "beta must be a finite number larger than 0, got 0; it is the weight of the squared violations",
                Constants { beta: Some(0.0), ..usual() },
            ),
            (
                "c must be a finite number larger than 0, got 0; it is the number added to the root of the norm \
                 of z",
                Constants { c: Some(0.0), ..usual() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        assert_eq!(plan(&usual(), -0.1, false).unwrap_err().to_string(), "eps must be a finite number larger than 0, got -0.1");
    }

    #[test]
    fn plans_survive_serialisation_and_are_readable() {
        let p = plan(&usual(), 0.4, false).unwrap();
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        let rows = p.rows();
        let value = |symbol: &str| rows.iter().find(|r| r[1] == symbol).map(|r| r[2].as_str());
        assert_eq!(value("c1l, c1u"), Some("0.5 to 2"));
        assert_eq!(value("eta_p"), Some("3.90625e-7"));
        assert_eq!(value("b"), Some("0.0025"));
    }
}
