//! Multiplier updates of methods with extrapolated constraints. The primal updates are in the files of the methods.

use serde::{Deserialize, Serialize};

use crate::math::vec;
use crate::sets::{Set, Simplex, Warm};
use crate::{Error, Result};

/// Computes `out = max(0, y + tau ((1 + theta) now - theta before))`, entry by entry; the error for a value that is not finite
/// names its constraint.
pub(super) fn ascend(y: &[f64], tau: f64, theta: f64, now: &[f64], before: &[f64], out: &mut [f64]) -> Result<()> {
    for (j, out) in out.iter_mut().enumerate() {
        let s = (1.0 + theta) * now[j] - theta * before[j];
        let value = y[j] + tau * s;
        if !value.is_finite() {
            // `max` would turn a NaN into 0.
            return Err(Error::NotFinite { what: format!("the multiplier of constraint {}", j + 1), value });
        }
        *out = value.max(0.0);
    }
    Ok(())
}

/// Set of the multipliers, in addition to non-negativity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MultiplierSet {
    /// Their sum is at most the bound, as in the analysis with several constraints.
    #[default]
    Sum,
    /// Each is at most the bound.
    Box,
}

impl MultiplierSet {
    /// Projects non-negative multipliers `y` onto the set with the positive bound `bound`.
    pub(super) fn project(self, bound: f64, y: &mut [f64], warm: &mut Warm) -> Result<()> {
        match self {
            MultiplierSet::Box => y.iter_mut().for_each(|y| *y = y.min(bound)),
            MultiplierSet::Sum if vec::sum(y) > bound => Simplex::new(bound)?.project(y, warm)?,
            MultiplierSet::Sum => {}
        }
        Ok(())
    }

    /// Returns whether `bound` is active.
    pub(super) fn is_active(self, bound: f64, y: &[f64]) -> bool {
        let reached = match self {
            MultiplierSet::Box => y.iter().copied().fold(0.0, f64::max),
            MultiplierSet::Sum => vec::sum(y),
        };
        reached >= bound * (1.0 - 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipliers_rise_and_stay_within_their_bound() {
        let mut y = [0.0; 3];
        ascend(&[1.0, 0.5, 0.0], 0.5, 0.5, &[2.0, -4.0, 1.0], &[1.0, 0.0, 3.0], &mut y).unwrap();
        // 1 + 0.5 (3 - 0.5); 0.5 + 0.5 (-6), cut off; 0.5 (1.5 - 1.5).
        assert_eq!(y, [2.25, 0.0, 0.0]);
        let refused = ascend(&[0.0; 2], 1.0, 0.0, &[0.0, f64::NAN], &[0.0; 2], &mut y[..2]).unwrap_err();
        assert_eq!(refused.to_string(), "the multiplier of constraint 2 is NaN; expected a finite number");

        let mut y = [3.0, 1.0, 0.0];
        MultiplierSet::Sum.project(5.0, &mut y, &mut Warm::default()).unwrap();
        assert!(y == [3.0, 1.0, 0.0] && !MultiplierSet::Sum.is_active(5.0, &y));
        MultiplierSet::Sum.project(2.0, &mut y, &mut Warm::default()).unwrap();
        assert!(y == [2.0, 0.0, 0.0] && MultiplierSet::Sum.is_active(2.0, &y), "{y:?}");
        let mut y = [3.0, 1.0, 0.0];
        MultiplierSet::Box.project(2.0, &mut y, &mut Warm::default()).unwrap();
        assert!(y == [2.0, 1.0, 0.0] && MultiplierSet::Box.is_active(2.0, &y));
    }
}
