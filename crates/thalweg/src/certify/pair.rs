//! Stationarity of a point of an unconstrained problem, measured by the slope of F alone, or for an inf-projection problem from
//! any pair (x, y). For nonsmooth weakly convex functions, see `bounds.rs`.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::{check_finite, check_length};
use crate::math::vec;
use crate::oracle::{At, Draw, InfProjection, Pick, Subgradients, Warm};
use crate::sets::Set;

/// Stationarity bounds from a pair (x, y) for `F(x) = g(x) + min_y h(y) - <y, l(x)>`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairBound {
    /// Distance of 0 from the subdifferential of `g - <y, l>` plus the normal cone of the domain at x.
    pub of_x: f64,
    /// Distance of 0 from the subdifferential of `h(y) - <y, l(x)>` at y.
    pub of_y: f64,
    /// Upper bound on the distance of 0 from the subdifferential of F plus the normal cone of the domain at x.
    pub upper: f64,
}

/// Computes the certificate of Lemma 3 in Yan, Xu, Zhang, Wang and Yang (2020):
/// `dist(0, dF(x)) <= dist(0, d_x f(x, y)) + G ((1 + v) / (2 v))^v L dist(0, d_y f(x, y))^v`, where `lipschitz` is G, the
/// Lipschitz constant of l, and v and L are those of the conjugate of h. Uses exact derivatives over all samples.
///
/// ```
/// # use thalweg::oracle::{Case, InfProjection, Pick, Power};
/// # struct Example(Power);
/// # impl InfProjection for Example {
/// #     fn dim(&self) -> usize { 1 }
/// #     fn coupled(&self) -> usize { 1 }
/// #     fn case(&self) -> Case { Case::DifferenceOfConvex }
/// #     fn power(&self) -> &Power { &self.0 }
/// #     fn convex(&self, x: &[f64], _: Pick, grad: &mut [f64]) -> thalweg::Result<f64> { grad[0] = 2.0 * x[0] - 1.0; Ok(x[0] * x[0] - x[0]) }
/// #     fn mapping(&self, x: &[f64], _: Pick, out: &mut [f64]) -> thalweg::Result<()> { out[0] = x[0]; Ok(()) }
/// #     fn add_mapping_pull(&self, _: &[f64], _: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> { grad[0] += factor * y[0]; Ok(()) }
/// # }
/// # fn main() -> thalweg::Result<()> {
/// // g = x^2 - x, l = x, h = y^2 / 2 on y >= 0: stationary at (1, 1).
/// let problem = Example(Power::square(1.0)?.between(0.0, f64::INFINITY)?);
/// assert_eq!(thalweg::certify::of_pair(&problem, &[1.0], &[1.0], 1.0)?.upper, 0.0);
/// assert_eq!(thalweg::certify::of_pair(&problem, &[0.0], &[0.0], 1.0)?.upper, 1.0);
/// # Ok(()) }
/// ```
pub fn of_pair(problem: &dyn InfProjection, x: &[f64], y: &[f64], lipschitz: f64) -> Result<PairBound> {
    check_length("the point", x.len(), problem.dim())?;
    check_length("y", y.len(), problem.coupled())?;
    let h = problem.power();
    let mut slope = vec![0.0; x.len()];
    let mut mapping = vec![0.0; y.len()];
    problem.convex(x, Pick::All, &mut slope)?;
    problem.add_mapping_pull(x, Pick::All, y, -1.0, &mut slope)?;
    problem.mapping(x, Pick::All, &mut mapping)?;
    let of_x = distance_from_normals(problem.domain(), x, &slope)?;
    let of_y = vec::norm_by(y.len(), |j| h.distance_from_touch(y[j], mapping[j]));
    let v = h.exponent();
    // The conjugate's gradient is Hölder continuous with constant L in each entry, and with L m^((1 - v) / 2) in m entries
    // together.
    let constant = h.holder_constant() * (y.len() as f64).powf(0.5 * (1.0 - v));
    let upper = of_x + lipschitz * ((1.0 + v) / (2.0 * v)).powf(v) * constant * of_y.powf(v);
    check_finite("the certificate of the pair", upper)?;
    Ok(PairBound { of_x, of_y, upper })
}

/// Computes the distance of 0 from the slope of the objective plus the normal cone of the domain at x, over all samples. It is 0
/// at a stationary point of an unconstrained problem whose objective is differentiable there.
pub fn slope(problem: &dyn Subgradients, x: &[f64]) -> Result<f64> {
    super::check_point(problem, x)?;
    let (mut warm, mut scratch, draw) = (Warm::default(), problem.scratch(), Draw::full());
    problem.refresh(x, &mut warm, &mut scratch)?;
    let mut slope = vec![0.0; x.len()];
    problem.objective_grad(At { x, draw: &draw, warm: &warm }, &mut slope, &mut scratch)?;
    distance_from_normals(problem.domain(), x, &slope)
}

/// Computes the distance of `-slope` from the normal cone at x: the length of a short projected step along `-slope`, divided by
/// the step size.
fn distance_from_normals(domain: &dyn Set, x: &[f64], slope: &[f64]) -> Result<f64> {
    let length = vec::norm(slope);
    check_finite("the slope", length)?;
    if length == 0.0 || domain.ball_around_origin() == Some(f64::INFINITY) {
        return Ok(length);
    }
    let step = 1e-6 * (1.0 + vec::norm(x)) / length;
    let mut moved: Vec<f64> = x.iter().zip(slope).map(|(x, s)| x - step * s).collect();
    domain.project(&mut moved, &mut Warm::default())?;
    Ok(vec::distance(&moved, x) / step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Ball, Bounds};

    #[test]
    fn normals_of_a_ball_and_of_a_box() {
        let ball = Ball::new(2.0).unwrap();
        let of = |domain: &dyn Set, x: &[f64], slope: &[f64]| distance_from_normals(domain, x, slope).unwrap();
        // Outward: entirely normal. Inward: no normal part. Tangential: unchanged.
        assert!(of(&ball, &[2.0, 0.0], &[-3.0, 0.0]) < 1e-5);
        assert!((of(&ball, &[2.0, 0.0], &[3.0, 0.0]) - 3.0).abs() < 1e-5);
        assert!((of(&ball, &[2.0, 0.0], &[-3.0, 4.0]) - 4.0).abs() < 1e-5);
        assert!((of(&ball, &[1.0, 0.0], &[-3.0, 4.0]) - 5.0).abs() < 1e-9);
        let bounds = Bounds::uniform(0.0, 1.0).unwrap();
        assert!((of(&bounds, &[0.0, 1.0], &[2.0, 1.0]) - 1.0).abs() < 1e-9);
    }
}
