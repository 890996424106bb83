//! One linear inequality `<a, x> <= b`. Several inequalities are in `polyhedron`.

use super::{Set, Warm};
use crate::error::check_finite;
use crate::math::vec;
use crate::{Error, Result};

/// All points with `<a, x> <= b`.
#[derive(Debug, Clone, PartialEq)]
pub struct Halfspace {
    /// a / ||a||.
    normal: Vec<f64>,
    /// b / ||a||.
    offset: f64,
}

impl Halfspace {
    /// Builds the half-space `<a, x> <= b`.
    pub fn new(mut a: Vec<f64>, b: f64) -> Result<Self> {
        if let Some((i, v)) = vec::first_not_finite(&a) {
            check_finite(&format!("entry {} of the normal vector of the half-space", i + 1), v)?;
        }
        check_finite("right-hand side of the half-space", b)?;
        // Divide by the largest entry first: 1 / ||a|| may overflow even if a / ||a|| does not.
        let largest = a.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        if largest == 0.0 {
            let value = format!("{} zeros", a.len());
            return Err(Error::setting("normal vector of the half-space", value, "at least one entry that is not 0"));
        }
        a.iter_mut().for_each(|v| *v /= largest);
        let length = vec::norm(&a);
        a.iter_mut().for_each(|v| *v /= length);
        let offset = b / largest / length;
        check_finite("right-hand side of the half-space over the length of its normal vector", offset)?;
        Ok(Halfspace { normal: a, offset })
    }

    /// Returns the signed distance from the boundary, positive outside.
    fn excess(&self, x: &[f64]) -> f64 {
        vec::dot(&self.normal, x) - self.offset
    }
}

impl Set for Halfspace {
    fn dim(&self) -> Option<usize> {
        Some(self.normal.len())
    }

    fn project(&self, x: &mut [f64], _warm: &mut Warm) -> Result<()> {
        super::check_point(self, x.len())?;
        let excess = self.excess(x);
        if excess > 0.0 {
            vec::add_scaled(x, -excess, &self.normal);
        }
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        super::check_point(self, x.len())?;
        let excess = self.excess(x);
        Ok(if excess < 0.0 { 0.0 } else { excess })
    }

    fn diameter(&self, _dim: usize) -> f64 {
        f64::INFINITY
    }

    /// Returns the boundary point nearest to the origin for a slope opposite to the normal (up to rounding), the nearest member
    /// for a slope of zero. No other slope has a minimiser.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        let along = -vec::dot(&self.normal, slope);
        let parallel = |(n, s): (&f64, &f64)| (s + along * n).abs() <= 8.0 * f64::EPSILON * along;
        if along < 0.0 || !self.normal.iter().zip(slope).all(parallel) {
            return None;
        }
        let to = if along > 0.0 { self.offset } else { self.offset.min(0.0) };
        out.iter_mut().zip(&self.normal).for_each(|(o, n)| *o = to * n);
        Some(())
    }

    fn describe(&self) -> String {
        format!("half-space of {} coordinates", self.normal.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing;

    /// Bisection on the multiplier of `min ||y - x||^2 / 2` subject to `<a, y> <= b`.
    fn twin(x: &[f64], a: &[f64], b: f64) -> Vec<f64> {
        let at = |lam: f64| -> Vec<f64> { x.iter().zip(a).map(|(x, a)| x - lam * a).collect() };
        let over = |y: &[f64]| y.iter().zip(a).map(|(y, a)| y * a).sum::<f64>() > b;
        let (mut lo, mut hi) = (0.0, 1e6);
        for _ in 0..200 {
            let mid = 0.5 * (lo + hi);
            if over(&at(mid)) { lo = mid } else { hi = mid }
        }
        at(if over(x) { hi } else { 0.0 })
    }

    /// Random member: a random point moved against the normal until it is inside, and some way further.
    fn member(u: &[f64], a: &[f64], b: f64) -> Vec<f64> {
        let y: Vec<f64> = u.iter().map(|u| 20.0 * (u - 0.5)).collect();
        let excess = y.iter().zip(a).map(|(y, a)| y * a).sum::<f64>() - b;
        let back = (excess / a.iter().map(|a| a * a).sum::<f64>()).max(0.0) + u[0] * u[1];
        y.iter().zip(a).map(|(y, a)| y - back * a).collect()
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        for (a, b) in [([1.0, -2.0, 0.5], 1.5), ([0.0, 3.0, 0.0], -4.0), ([0.01, 0.02, -0.03], 0.0)] {
            let set = Halfspace::new(a.to_vec(), b).unwrap();
            testing::check_set(&set, 3, |u| member(u, &a, b), |x| twin(x, &a, b));
        }
    }

    #[test]
    fn only_a_slope_against_the_normal_has_a_minimiser() {
        let set = Halfspace::new(vec![3.0, 4.0], 10.0).unwrap();
        let mut out = [0.0; 2];
        assert_eq!(set.linear_minimizer(&[-0.3, -0.4], &mut out), Some(()));
        assert!((out[0] - 1.2).abs() < 1e-15 && (out[1] - 1.6).abs() < 1e-15, "{out:?}");
        assert_eq!(set.linear_minimizer(&[0.3, 0.4], &mut out), None);
        assert_eq!(set.linear_minimizer(&[-0.3, -0.4001], &mut out), None);
        assert_eq!(set.linear_minimizer(&[0.0, 0.0], &mut out), Some(()));
        assert_eq!(out, [0.0, 0.0]);
        Halfspace::new(vec![2.0], -4.0).unwrap().linear_minimizer(&[0.0], &mut out[..1]).unwrap();
        assert_eq!(out[0], -2.0);
    }

    #[test]
    fn extremes_are_projected() {
        let mut x = [1.0, 5.0];
        Halfspace::new(vec![1e-320, 0.0], 0.0).unwrap().project(&mut x, &mut Warm::default()).unwrap();
        assert_eq!(x, [0.0, 5.0]);
        let mut x = [f64::NAN, 1.0];
        Halfspace::new(vec![1.0, 1.0], 0.0).unwrap().project(&mut x, &mut Warm::default()).unwrap();
        assert!(x[0].is_nan());
    }

    #[test]
    fn bad_arguments_are_refused_with_a_sentence() {
        let refuse = |a: &[f64], b| Halfspace::new(a.to_vec(), b).unwrap_err().to_string();
        let zero = "normal vector of the half-space must be at least one entry that is not 0, got 2 zeros";
        assert_eq!(refuse(&[0.0, -0.0], 1.0), zero);
        assert!(refuse(&[1.0, f64::NAN], 1.0).starts_with("entry 2 of the normal vector of the half-space is NaN"));
        assert!(refuse(&[1.0], f64::INFINITY).starts_with("right-hand side of the half-space is inf"));
        assert!(refuse(&[1e-300], 1e300).contains("over the length of its normal vector is inf"));
        let set = Halfspace::new(vec![1.0, 0.0], 1.0).unwrap();
        let length = set.project(&mut [1.0], &mut Warm::default()).unwrap_err().to_string();
        assert_eq!(length, "the point for the half-space of 2 coordinates has 1 entries; expected 2");
        assert_eq!(set.diameter(2), f64::INFINITY);
    }
}
