//! The whole space, for problems without a domain. It lets every solver be written with a set.

use super::{Set, Warm};
use crate::Result;
use crate::math::vec;

/// The whole space, of any dimension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WholeSpace;

impl Set for WholeSpace {
    fn project(&self, _x: &mut [f64], _warm: &mut Warm) -> Result<()> {
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        Ok(if x.iter().any(|v| v.is_nan()) { f64::NAN } else { 0.0 })
    }

    fn diameter(&self, dim: usize) -> f64 {
        if dim == 0 { 0.0 } else { f64::INFINITY }
    }

    /// Returns the origin for a slope of zero; any other slope has no minimiser.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        out.fill(0.0);
        (vec::norm(slope) == 0.0).then_some(())
    }

    fn ball_around_origin(&self) -> Option<f64> {
        Some(f64::INFINITY)
    }

    fn sides(&self, _: usize) -> Option<(f64, f64)> {
        Some((f64::NEG_INFINITY, f64::INFINITY))
    }

    fn describe(&self) -> String {
        "whole space".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing;

    #[test]
    fn keeps_every_promise_of_a_set() {
        let member = |u: &[f64]| u.iter().map(|u| 40.0 * (u - 0.5)).collect();
        testing::check_set(&WholeSpace, 4, member, |x| x.to_vec());
    }

    #[test]
    fn only_a_zero_slope_has_a_minimiser() {
        let mut out = [5.0, 5.0];
        assert_eq!(WholeSpace.linear_minimizer(&[0.0, 0.0], &mut out), Some(()));
        assert_eq!(out, [0.0, 0.0]);
        assert_eq!(WholeSpace.linear_minimizer(&[0.0, -1e-200], &mut out), None);
        assert_eq!(WholeSpace.describe(), "whole space");
        assert_eq!((WholeSpace.diameter(0), WholeSpace.diameter(2)), (0.0, f64::INFINITY));
    }
}
