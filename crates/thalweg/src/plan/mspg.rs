//! Parameters of MSPG from Proposition 1 and Lemma 3 of Yan, Xu, Zhang, Wang & Yang, "Stochastic optimization for non-convex
//! inf-projection problems". The method itself is [`crate::solvers::mspg`].
//!
//! With `f(x, y) = g(x) + h(y) - <y, l(x)>` and `F(x) = min_y f(x, y)`:
//!
//! - `L = sqrt(max{2 L_g^2 + 4 L_l^2 D_y^2 + G_l^2, 4 G_l^2})` and `eta = c / L` with `0 < c < 1/2`.
//! - Iteration t reads `b t` samples. After T of them, the iterate w = (x, y) that is drawn has
//!   `E dist(0, df(w))^2 <= B(T) = c_1 sigma_0^2 (ln T + 1) / (b T) + c_2 Delta / (eta T)`, with
//!   `c_1 = (2c (1 - 2c) + 2) / (c (1 - 2c))`, `c_2 = (6 - 4c) / (1 - 2c)` and Delta = M_f.
//!
//! **From the pair to x alone.** Lemma 3: `dist(0, dF(x)) <= p + C q^v`, where p and q are the parts of dist(0, df(x, y)) in x and in y,
//! `C = G_l ((1 + v) / (2v))^v L_h*`, and the gradient of the conjugate of h is Hoelder continuous with the exponent v, at most 1, and
//! the constant L_h*. The square is at most `2 p^2 + 2 C^2 q^{2v}`. Both E p^2 and E q^2 are at most B(T), and by Jensen's
//! inequality `E q^{2v} <= (E q^2)^v`. So `E dist(0, dF)^2 <= 2 B + 2 C^2 B^v`, and the plan takes the smallest T for which this
//! is at most eps^2; B falls in T.

use serde::{Deserialize, Serialize};

use super::schedule::short;
use super::{Readable, Requirements, accuracy, exclusive, rounded_up, row, whole};
use crate::{Error, Result};

const THEOREM: &str = "Proposition 1";

/// Constants of an inf-projection problem with smooth g and l. The step needs the first five alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// L_g: Lipschitz constant of the gradient of g.
    pub convex_smoothness: Option<f64>,
    /// L_l: Lipschitz constant of the Jacobian of l.
    pub mapping_smoothness: Option<f64>,
    /// G_l: Lipschitz constant of l.
    pub mapping_lipschitz: Option<f64>,
    /// D_y: bound on the norm of y.
    pub coupled_bound: Option<f64>,
    /// c, between 0 and 1/2; 1/4 if absent.
    pub c: Option<f64>,
    /// M_f: range of f over all x and y.
    pub objective_range: Option<f64>,
    /// sigma_0: standard deviation of the gradient of one sample in x and y together, 0 if it is exact.
    pub noise: Option<f64>,
    /// b: iteration t reads b t samples; 1 if absent.
    pub growth: Option<f64>,
    /// v: exponent of the Hoelder continuous gradient of the conjugate of h, above 0 and at most 1; 1 if absent.
    pub holder_exponent: Option<f64>,
    /// L_h*: its constant.
    pub holder_constant: Option<f64>,
    /// rho_u: uniform convexity of h with the power p = 1 + 1/v, in place of L_h* = (1/rho_u)^{1/(p-1)}. For v = 1 the strong
    /// convexity.
    pub uniform_convexity: Option<f64>,
}

impl Constants {
    /// L.
    pub fn smoothness(&self) -> Result<f64> {
        let needs = Requirements { theorem: THEOREM };
        let of_g = needs.not_negative(
            "convex_smoothness",
            self.convex_smoothness,
            "L_g, the Lipschitz constant of the gradient of g",
        )?;
        let of_l = needs.not_negative(
            "mapping_smoothness",
            self.mapping_smoothness,
            "L_l, the Lipschitz constant of the Jacobian of l",
        )?;
        let lipschitz = needs.positive("mapping_lipschitz", self.mapping_lipschitz, "G_l, the Lipschitz constant of l")?;
        let bound = needs.positive("coupled_bound", self.coupled_bound, "D_y, a bound on the norm of y")?;
        let squares = 2.0 * of_g * of_g + 4.0 * of_l * of_l * bound * bound + lipschitz * lipschitz;
        Ok(squares.max(4.0 * lipschitz * lipschitz).sqrt())
    }

    /// eta = c / L.
    pub fn eta(&self) -> Result<f64> {
        Ok(self.share()? / self.smoothness()?)
    }

    fn share(&self) -> Result<f64> {
        let c = self.c.unwrap_or(0.25);
        if !(c > 0.0 && c < 0.5) {
            return Err(Error::setting("c", c, "a number between 0 and 1/2"));
        }
        Ok(c)
    }

    /// v and L_h*.
    fn holder(&self) -> Result<(f64, f64)> {
        let needs = Requirements { theorem: "Lemma 3" };
        let (meaning, range) = ("v, the Hoelder exponent of the gradient of the conjugate of h", "larger than 0 and at most 1");
        let v = needs.number("holder_exponent", self.holder_exponent.or(Some(1.0)), meaning, range, |v| v > 0.0 && v <= 1.0)?;
        if let (Some(_), Some(rho)) = (self.holder_constant, self.uniform_convexity) {
            return Err(exclusive("uniform_convexity", rho, "holder_constant"));
        }
        let constant = match self.uniform_convexity {
            Some(_) => {
                let rho =
                    needs.positive("uniform_convexity", self.uniform_convexity, "rho_u, the uniform-convexity constant of h")?;
                // 1/(p - 1) = v
                (1.0 / rho).powf(v)
            }
            None => {
                let meaning =
                    "L_h*, the Hoelder constant of the gradient of the conjugate of h (uniform_convexity can replace it)";
                needs.positive("holder_constant", self.holder_constant, meaning)?
            }
        };
        Ok((v, constant))
    }
}

/// Parameters under the names of the solver's settings, and their guarantee. Counts are whole numbers, stored as `f64`
/// because worst cases exceed every integer type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// L: the smoothness of g(x) - <y, l(x)> in both variables.
    pub smoothness: f64,
    /// eta = c / L: the step.
    pub eta: f64,
    /// b: iteration t reads b t samples, rounded up.
    pub growth: f64,
    /// c_1.
    pub noise_factor: f64,
    /// c_2.
    pub range_factor: f64,
    /// C: factor of the part in y in the bound for F.
    pub coupling: f64,
    /// v.
    pub holder_exponent: f64,
    /// T: number of iterations.
    pub iterations: f64,
    /// Samples of all iterations.
    pub samples: f64,
    /// B(T): bound on the mean square of dist(0, df) at the drawn pair.
    pub pair_bound: f64,
    /// 2 B + 2 C^2 B^v: bound on that of dist(0, dF) at the drawn x.
    pub bound: f64,
    /// The guarantee, in one sentence.
    pub guarantee: String,
}

impl Readable for Plan {
    fn title(&self) -> String {
        "Proposition 1 with Lemma 3: MSPG, batches that grow".into()
    }

    fn rows(&self) -> Vec<[String; 3]> {
        vec![
            row("smoothness", "L", short(self.smoothness)),
            row("step", "eta", short(self.eta)),
            row(
                "samples of iteration t",
                "m_t",
                if self.growth == 1.0 { "t".into() } else { format!("{} t", short(self.growth)) },
            ),
            row("factors of noise and range", "c_1, c_2", format!("{}, {}", short(self.noise_factor), short(self.range_factor))),
            row("weight of the part in y", "C", short(self.coupling)),
            row("exponent", "v", short(self.holder_exponent)),
            row("iterations", "T", whole(self.iterations)),
            row("samples of all iterations", "sum m_t", whole(self.samples)),
            row("mean square for the pair", "B(T)", short(self.pair_bound)),
            row("mean square for x alone", "2B + 2C^2 B^v", short(self.bound)),
        ]
    }

    fn guarantee(&self) -> &str {
        &self.guarantee
    }
}

/// Computes the parameters for a mean square of dist(0, dF) of at most eps^2 at an iterate that is drawn uniformly after T iterations, the
/// smallest T for which this is proved.
pub fn plan(constants: &Constants, eps: f64) -> Result<Plan> {
    accuracy(eps)?;
    let (needs, known) = (Requirements { theorem: THEOREM }, constants);
    let (c, smoothness, eta) = (known.share()?, known.smoothness()?, known.eta()?);
    let (v, constant) = known.holder()?;
    let lipschitz = needs.positive("mapping_lipschitz", known.mapping_lipschitz, "G_l, the Lipschitz constant of l")?;
    let delta = needs.not_negative("objective_range", known.objective_range, "M_f, the range of f over all x and y")?;
    let meaning = "sigma_0, the standard deviation of the gradient of one sample (0 if it is exact)";
    let noise = needs.not_negative("noise", known.noise, meaning)?;
    let growth = needs.positive(
        "growth",
        known.growth.or(Some(1.0)),
        "b, the number of samples that each iteration adds to its batches",
    )?;

    let slack = 1.0 - 2.0 * c;
    let factors = [(2.0 * c * slack + 2.0) / (c * slack), (6.0 - 4.0 * c) / slack];
    let coupling = lipschitz * ((1.0 + v) / (2.0 * v)).powf(v) * constant;
    let pair = |t: f64| factors[0] * noise * noise * (t.ln() + 1.0) / (growth * t) + factors[1] * delta / (eta * t);
    let alone = |b: f64| 2.0 * b + 2.0 * coupling * coupling * b.powf(v);
    // Tolerates rounding errors.
    let enough = |t: f64| alone(pair(t)) <= eps * eps * (1.0 + 1e-12);
    let iterations = smallest(enough);
    let samples = rounded_up(iterations, growth, 1.0);
    needs.finite(&[samples, alone(pair(iterations))], eps)?;
    let bound = alone(pair(iterations));
    let guarantee = format!(
        "One of the {} iterates after an update, drawn uniformly, has dist(0, dF)^2 of at most {} in expectation, \
         F(x) = g(x) + min_y h(y) - <y, l(x)>.",
        whole(iterations),
        short(eps * eps)
    );
    Ok(Plan {
        smoothness,
        eta,
        growth,
        noise_factor: factors[0],
        range_factor: factors[1],
        coupling,
        holder_exponent: v,
        iterations,
        samples,
        pair_bound: pair(iterations),
        bound,
        guarantee,
    })
}

/// Returns the smallest whole number for which the monotone `enough` holds; infinite if none does. Beyond 2^53, where
/// not all whole numbers are representable, one next to it.
fn smallest(enough: impl Fn(f64) -> bool) -> f64 {
    let mut high = 1.0;
    while !enough(high) {
        high *= 2.0;
        if !high.is_finite() {
            return high;
        }
    }
    let mut low = high / 2.0;
    loop {
        let middle = (0.5 * (low + high)).floor();
        if middle <= low || middle >= high {
            return high;
        }
        if enough(middle) { high = middle } else { low = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::close;

    /// L = max{sqrt 1, 2} = 2, eta = 1/8, c_1 = (1/4 + 2)/(1/8) = 18, c_2 = 5/(1/2) = 10, C = 1: without noise B(T) = 80/T.
    fn usual() -> Constants {
        Constants {
            convex_smoothness: Some(0.0),
            mapping_smoothness: Some(0.0),
            mapping_lipschitz: Some(1.0),
            coupled_bound: Some(1.0),
            objective_range: Some(1.0),
            noise: Some(0.0),
            uniform_convexity: Some(1.0),
            ..Constants::default()
        }
    }

    #[test]
    fn without_noise_by_hand() {
        // 2 B + 2 B = 320/T <= 1/100.
        let p = plan(&usual(), 0.1).unwrap();
        assert_eq!((p.smoothness, p.eta, p.coupling), (2.0, 0.125, 1.0));
        assert_eq!((p.noise_factor, p.range_factor), (18.0, 10.0));
        assert_eq!(p.iterations, 32_000.0);
        assert_eq!(p.samples, 32_000.0 * 32_001.0 / 2.0);
        close(p.pair_bound, 0.0025, 1e-12);
        close(p.bound, 0.01, 1e-12);
        // 2 + 2.5 t: half of the iterations add half a sample more.
        let p = plan(&Constants { growth: Some(2.5), ..usual() }, 0.1).unwrap();
        assert_eq!(p.samples, 2.5 * 32_000.0 * 32_001.0 / 2.0 + 8_000.0);
    }

    #[test]
    fn smoothness_by_hand() {
        // 2 * 9 + 4 * 4 * 25 + 1 = 419 against 4.
        let c = Constants {
            convex_smoothness: Some(3.0),
            mapping_smoothness: Some(2.0),
            coupled_bound: Some(5.0),
            c: Some(0.4),
            ..usual()
        };
        let p = plan(&c, 0.1).unwrap();
        close(p.smoothness, 419f64.sqrt(), 1e-15);
        close(p.eta, 0.4 / 419f64.sqrt(), 1e-15);
        // c (1 - 2c) = .08: (.16 + 2)/.08 and (6 - 1.6)/.2.
        close(p.noise_factor, 27.0, 1e-12);
        close(p.range_factor, 22.0, 1e-12);
    }

    #[test]
    fn an_exponent_of_one_half() {
        // C^2 = 3/2: 2 B + 3 sqrt B = 1/2 + 3/2 for B = 1/4, and T = 80/B.
        let c = Constants { holder_exponent: Some(0.5), holder_constant: Some(1.0), uniform_convexity: None, ..usual() };
        let p = plan(&c, 2f64.sqrt()).unwrap();
        close(p.coupling, 1.5f64.sqrt(), 1e-15);
        assert_eq!(p.iterations, 320.0);
        // rho_u = 4 with p = 3: L_h* = sqrt(1/4).
        let c = Constants { holder_constant: None, uniform_convexity: Some(4.0), ..c };
        close(plan(&c, 1.0).unwrap().coupling, 1.5f64.sqrt() / 2.0, 1e-15);
    }

    #[test]
    fn with_noise_t_is_the_smallest() {
        // 4 (18 (ln T + 1) + 80)/T, c_1 and b written out.
        let bound = |t: f64, b: f64| 4.0 * (18.0 * (t.ln() + 1.0) / b + 80.0) / t;
        for (eps, b) in [(0.5, 1.0), (0.1, 1.0), (0.1, 8.0), (0.01, 3.0)] {
            let p = plan(&Constants { noise: Some(1.0), growth: Some(b), ..usual() }, eps).unwrap();
            assert!(bound(p.iterations, b) <= eps * eps * (1.0 + 1e-9), "{p:?}");
            assert!(bound(p.iterations - 1.0, b) > eps * eps, "{p:?}");
            close(p.bound, bound(p.iterations, b), 1e-12);
        }
    }

    #[test]
    fn orders_in_eps() {
        // T = O(eps^(-2/v)), samples O(eps^(-4/v)); for small eps the part in y decides.
        for v in [1.0, 0.5] {
            let at = |eps: f64| plan(&Constants { holder_exponent: Some(v), ..usual() }, eps).unwrap();
            let (one, two) = (at(1e-4), at(5e-5));
            close(two.iterations / one.iterations, 2f64.powf(2.0 / v), 1e-3);
            close(two.samples / one.samples, 2f64.powf(4.0 / v), 1e-3);
        }
    }

    #[test]
    fn what_it_refuses() {
        let refuse = |c: Constants| plan(&c, 0.1).unwrap_err().to_string();
        for (sentence, c) in [
            (
                "convex_smoothness is missing; Proposition 1 needs L_g, the Lipschitz constant of the gradient \
                 of g, a finite number, 0 or larger",
                Constants { convex_smoothness: None, ..usual() },
            ),
            (
                "mapping_lipschitz must be a finite number larger than 0, got 0; it is G_l, the Lipschitz \
                 constant of l",
                Constants { mapping_lipschitz: Some(0.0), ..usual() },
            ),
            (
                "coupled_bound is missing; Proposition 1 needs D_y, a bound on the norm of y, a finite number \
                 larger than 0",
                Constants { coupled_bound: None, ..usual() },
            ),
            (
                "objective_range is missing; Proposition 1 needs M_f, the range of f over all x and y, a finite \
                 number, 0 or larger",
                Constants { objective_range: None, ..usual() },
            ),
            (
                "noise must be a finite number, 0 or larger, got -1; it is sigma_0, the standard deviation of \
                 the gradient of one sample (0 if it is exact)",
                Constants { noise: Some(-1.0), ..usual() },
            ),
            (
                "growth must be a finite number larger than 0, got 0; it is b, the number of samples that each \
                 iteration adds to its batches",
                Constants { growth: Some(0.0), ..usual() },
            ),
            ("c must be a number between 0 and 1/2, got 0.5", Constants { c: Some(0.5), ..usual() }),
            (
                "holder_exponent must be larger than 0 and at most 1, got 1.5; it is v, the Hoelder exponent of \
                 the gradient of the conjugate of h",
                Constants { holder_exponent: Some(1.5), ..usual() },
            ),
            (
                "holder_constant is missing; Lemma 3 needs L_h*, the Hoelder constant of the gradient of the \
                 conjugate of h (uniform_convexity can replace it), a finite number larger than 0",
                Constants { uniform_convexity: None, ..usual() },
            ),
            (
                "uniform_convexity cannot be given together with holder_constant, from which it follows; got \
                     uniform_convexity = 1",
                Constants { holder_constant: Some(1.0), ..usual() },
            ),
            (
                "uniform_convexity must be a finite number larger than 0, got 0; it is rho_u, the \
                 uniform-convexity constant of h",
                Constants { uniform_convexity: Some(0.0), ..usual() },
            ),
        ] {
            let message = refuse(c);
            assert_eq!(message, sentence);
        }
        assert_eq!(plan(&usual(), 0.0).unwrap_err().to_string(), "eps must be a finite number larger than 0, got 0");
        assert_eq!(
            plan(&usual(), 1e-160).unwrap_err().to_string(),
            "Proposition 1 with eps = 1e-160 requires more iterations or samples than a number can hold: choose \
             a larger eps"
        );
    }

    #[test]
    fn plans_survive_serialisation() {
        let p = plan(&usual(), 0.1).unwrap();
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&p).unwrap()).unwrap(), p);
        assert!(p.rows().iter().any(|r| r[1] == "T" && r[2] == "32000"));
    }
}
