//! Gradient estimates from differences of values at two points: directions, perturbed points, and the sum of the differences. The
//! solver computes the values.

use serde::{Deserialize, Serialize};

use crate::error::check_entries;
use crate::math::{Rng, vec};
use crate::{Error, Result};

/// Distribution of the directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Independent standard normal entries.
    #[default]
    Gaussian,
    /// Uniform on the unit sphere; differences are multiplied by the dimension.
    Sphere,
    /// All coordinate axes in turn, whatever number of directions is requested.
    Coordinate,
}

/// Smallest radius relative to the size of the point; below it, a difference of values loses all digits.
const CANCELS: f64 = 1e-10;

/// Random directions and the perturbed points along them. The same directions can be used at two points, as recursive estimators
/// require.
#[derive(Debug, Clone, Default)]
pub struct TwoPoint {
    law: Law,
    /// Whether each direction is followed by its opposite.
    antithetic: bool,
    /// Smoothing radius.
    mu: f64,
    count: usize,
    dim: usize,
    directions: Vec<f64>,
    points: Vec<f64>,
}

impl TwoPoint {
    /// Allocates the buffers for `directions` directions in `dim` variables; an error if they are too many.
    pub fn start(&mut self, dim: usize, directions: usize, mu: f64, law: Law, antithetic: bool) -> Result<()> {
        let count = if law == Law::Coordinate { dim } else { directions };
        check_entries("directions", count, dim)?;
        (self.law, self.antithetic, self.mu, self.count, self.dim) = (law, antithetic, mu, count, dim);
        self.directions.clear();
        self.directions.resize(count * dim, 0.0);
        self.points.clear();
        self.points.resize((count + 1) * dim, 0.0);
        if law == Law::Coordinate {
            (0..dim).for_each(|i| self.directions[i * dim + i] = 1.0);
        }
        Ok(())
    }

    /// Returns the number of directions.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Draws new directions.
    pub fn draw(&mut self, rng: &mut Rng) {
        if self.law == Law::Coordinate {
            return;
        }
        let d = self.dim.max(1);
        let mut k = 0;
        while k < self.count {
            let (drawn, rest) = self.directions[k * d..].split_at_mut(d);
            loop {
                rng.normals(drawn);
                let length = vec::norm(drawn);
                if self.law == Law::Gaussian {
                    break;
                }
                if length > 0.0 {
                    vec::scale(drawn, 1.0 / length);
                    break;
                }
            }
            k += 1;
            if self.antithetic && k < self.count {
                rest[..d].iter_mut().zip(&*drawn).for_each(|(r, v)| *r = -v);
                k += 1;
            }
        }
    }

    /// Returns the point `w` followed by `w + mu u` for every direction, one row each.
    pub fn around(&mut self, w: &[f64]) -> Result<&[f64]> {
        let largest = w.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        if self.mu < CANCELS * largest {
            let wanted = format!(
                "at least {:.0e}, because a point with entries up to {largest:.1e} does not move by less",
                CANCELS * largest
            );
            return Err(Error::setting("mu", self.mu, wanted));
        }
        let d = self.dim.max(1);
        let (centre, others) = self.points.split_at_mut(self.dim);
        centre.copy_from_slice(w);
        for (point, u) in others.chunks_mut(d).zip(self.directions.chunks(d)) {
            for ((p, w), u) in point.iter_mut().zip(w).zip(u) {
                *p = w + self.mu * u;
            }
        }
        Ok(&self.points)
    }

    /// Returns the points of the last [`TwoPoint::around`].
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// Computes `grad += weight * estimate`, where `values` are those at the points of [`TwoPoint::around`].
    pub fn add(&self, values: &[f64], weight: f64, grad: &mut [f64]) {
        let Some((&centre, others)) = values.split_first() else { return };
        // Directions are averaged; coordinates are summed, and a difference on the sphere is multiplied by the dimension.
        let scale = match self.law {
            Law::Gaussian => 1.0 / self.count as f64,
            Law::Sphere => self.dim as f64 / self.count as f64,
            Law::Coordinate => 1.0,
        };
        for (value, u) in others.iter().zip(self.directions.chunks(self.dim.max(1))) {
            let slope = weight * scale * (value - centre) / self.mu;
            if slope != 0.0 {
                vec::add_scaled(grad, slope, u);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::Purpose;

    /// Returns the mean of many estimates of the gradient of `f` at `w`.
    fn mean(f: impl Fn(&[f64]) -> f64, w: &[f64], mu: f64, law: Law, antithetic: bool, rounds: usize) -> Vec<f64> {
        let mut estimator = TwoPoint::default();
        estimator.start(w.len(), 20, mu, law, antithetic).unwrap();
        let mut rng = Rng::new(3, Purpose::Directions);
        let mut total = vec![0.0; w.len()];
        for _ in 0..rounds {
            estimator.draw(&mut rng);
            let values: Vec<f64> = estimator.around(w).unwrap().chunks(w.len()).map(&f).collect();
            estimator.add(&values, 1.0 / rounds as f64, &mut total);
        }
        total
    }

    /// Spec 3.9, test 5: the estimates are unbiased for quadratics.
    #[test]
    fn the_mean_of_a_quadratic_is_its_gradient() {
        let f = |x: &[f64]| 0.5 * (x[0] * x[0] + x[1] * x[1]);
        for law in [Law::Gaussian, Law::Sphere] {
            for antithetic in [false, true] {
                let found = mean(f, &[1.0, -2.0], 0.1, law, antithetic, 100_000);
                assert!((found[0] - 1.0).abs() < 5e-3 && (found[1] + 2.0).abs() < 5e-3, "{law:?} {found:?}");
            }
        }
        // For coordinate directions the error is exactly mu / 2.
        let found = mean(f, &[1.0, -2.0], 0.1, Law::Coordinate, false, 1);
        assert!((found[0] - 1.05).abs() < 1e-12 && (found[1] + 1.95).abs() < 1e-12);
    }

    #[test]
    fn one_sample_of_a_linear_function_is_the_same_for_any_radius() {
        let a = [2.0, -1.0, 0.5];
        let f = |x: &[f64]| vec::dot(&a, x);
        for mu in [1e-3, 1.0, 10.0] {
            let mut estimator = TwoPoint::default();
            estimator.start(3, 1, mu, Law::Gaussian, false).unwrap();
            estimator.draw(&mut Rng::new(1, Purpose::Directions));
            let points = estimator.around(&[0.3, 0.2, 0.1]).unwrap().to_vec();
            let u: Vec<f64> = (0..3).map(|i| (points[3 + i] - points[i]) / mu).collect();
            let values: Vec<f64> = points.chunks(3).map(f).collect();
            let mut grad = [0.0; 3];
            estimator.add(&values, 1.0, &mut grad);
            let slope = vec::dot(&a, &u);
            assert!(grad.iter().zip(&u).all(|(g, u)| (g - slope * u).abs() < 1e-9), "{grad:?}");
        }
    }

    #[test]
    fn a_radius_that_moves_nothing_is_refused() {
        let mut estimator = TwoPoint::default();
        estimator.start(1, 1, 1e-9, Law::Gaussian, false).unwrap();
        assert!(estimator.around(&[1.0]).is_ok());
        let refused = estimator.around(&[1e6]).unwrap_err().to_string();
        assert!(
            refused.contains(
                "mu must be at least 1e-4, because a point with entries up to 1.0e6 does not move by less, got 0.000000001"
            ),
            "{refused}"
        );
    }

    #[test]
    fn opposites_come_in_pairs() {
        let mut estimator = TwoPoint::default();
        estimator.start(4, 5, 1.0, Law::Sphere, true).unwrap();
        estimator.draw(&mut Rng::new(0, Purpose::Directions));
        let rows: Vec<&[f64]> = estimator.directions.chunks(4).collect();
        assert!(rows.iter().all(|u| (vec::norm(u) - 1.0).abs() < 1e-12));
        assert!((0..4).all(|i| rows[0][i] == -rows[1][i] && rows[2][i] == -rows[3][i]));
    }
}
