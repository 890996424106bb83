//! The non-negative orthant: every coordinate at least zero. Other bounds on coordinates are in `bounds`.

use super::{Set, Warm};
use crate::Result;
use crate::math::vec;

/// All points whose coordinates are at least zero, of any dimension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NonNegative;

impl Set for NonNegative {
    fn project(&self, x: &mut [f64], _warm: &mut Warm) -> Result<()> {
        for v in x {
            // `max` would replace NaN by zero.
            if *v < 0.0 {
                *v = 0.0;
            }
        }
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        Ok(vec::norm_by(x.len(), |i| if x[i] >= 0.0 { 0.0 } else { x[i] }))
    }

    fn diameter(&self, dim: usize) -> f64 {
        if dim == 0 { 0.0 } else { f64::INFINITY }
    }

    /// Returns the origin if no coordinate of the slope is negative.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        out.fill(0.0);
        slope.iter().all(|&s| s >= 0.0).then_some(())
    }

    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        super::separate_coordinates(y, foot, cut);
    }

    fn sides(&self, _: usize) -> Option<(f64, f64)> {
        Some((0.0, f64::INFINITY))
    }

    fn describe(&self) -> String {
        "non-negative orthant".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing;

    #[test]
    fn keeps_every_promise_of_a_set() {
        let member = |u: &[f64]| u.iter().map(|u| 20.0 * u * u).collect();
        testing::check_set(&NonNegative, 5, member, |x| x.iter().map(|v| v.max(0.0)).collect());
    }

    #[test]
    fn minimiser_is_the_origin_or_nothing() {
        let mut out = [5.0, 5.0];
        assert_eq!(NonNegative.linear_minimizer(&[0.0, 2.0], &mut out), Some(()));
        assert_eq!(out, [0.0, 0.0]);
        assert_eq!(NonNegative.linear_minimizer(&[1.0, -1e-9], &mut out), None);
        assert_eq!(NonNegative.linear_minimizer(&[1.0, f64::NAN], &mut out), None);
        assert_eq!(NonNegative.describe(), "non-negative orthant");
    }
}
