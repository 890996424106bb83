//! Regularisers: functions of the model's weights alone. The intercept is never penalised.

use crate::math::vec;

/// A regulariser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Penalty {
    /// `||w||^2 / 2`.
    L2,
    /// `||w||_1`; slope 0 at 0.
    L1,
    /// Smoothly clipped absolute deviation, summed: `2|w|` up to 1, `-w^2 + 4|w| - 1` up to 2, then 3; slope 0 at 0.
    Scad,
}

impl Penalty {
    /// Returns the value.
    pub fn value(self, w: &[f64]) -> f64 {
        match self {
            Penalty::L2 => 0.5 * vec::norm_squared(w),
            Penalty::L1 => vec::sum_by(w.len(), |i| w[i].abs()),
            Penalty::Scad => vec::sum_by(w.len(), |i| scad(w[i])),
        }
    }

    /// Adds `factor` times a subgradient to `grad`.
    pub fn add_slope(self, w: &[f64], factor: f64, grad: &mut [f64]) {
        let slope = match self {
            Penalty::L2 => |w: f64| w,
            Penalty::L1 => sign,
            Penalty::Scad => scad_slope,
        };
        for (g, &w) in grad.iter_mut().zip(w) {
            *g += factor * slope(w);
        }
    }

    /// Returns the second derivative with respect to every weight; `None` if the penalty has a kink.
    pub(super) fn bend(self) -> Option<f64> {
        match self {
            Penalty::L2 => Some(1.0),
            Penalty::L1 | Penalty::Scad => None,
        }
    }

    /// Adds `factor` times the second derivatives to the diagonal of a Hessian.
    pub(super) fn add_bend(self, factor: f64, diagonal: &mut [f64]) {
        let bend = factor * self.bend().unwrap_or(0.0);
        diagonal.iter_mut().for_each(|h| *h += bend);
    }

    /// Returns the weak-convexity constant.
    pub fn modulus(self) -> f64 {
        match self {
            Penalty::L2 | Penalty::L1 => 0.0,
            Penalty::Scad => 2.0,
        }
    }
}

/// A sum of convex penalties.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Convex {
    pub(super) l2: f64,
    pub(super) l1: f64,
}

impl Convex {
    /// Returns `None` if a penalty is not convex.
    pub(super) fn of(penalties: impl IntoIterator<Item = (f64, Penalty)>) -> Option<Self> {
        let mut sum = Convex::default();
        for (factor, penalty) in penalties {
            match penalty {
                Penalty::L2 => sum.l2 += factor,
                Penalty::L1 => sum.l1 += factor,
                Penalty::Scad => return None,
            }
        }
        Some(sum)
    }

    /// Adds a subgradient to `grad` and returns the value.
    pub(super) fn add_slope(self, w: &[f64], grad: &mut [f64]) -> f64 {
        let mut value = 0.0;
        for (factor, penalty) in [(self.l2, Penalty::L2), (self.l1, Penalty::L1)] {
            if factor > 0.0 {
                value += factor * penalty.value(w);
                penalty.add_slope(w, factor, grad);
            }
        }
        value
    }

    /// Returns whether the sum is a multiple of the squared norm of the weights.
    pub(super) fn is_ridge(self) -> bool {
        self.l1 == 0.0
    }
}

fn sign(w: f64) -> f64 {
    if w == 0.0 { 0.0 } else { w.signum() }
}

fn scad(w: f64) -> f64 {
    let a = w.abs();
    if a <= 1.0 {
        2.0 * a
    } else if a <= 2.0 {
        -a * a + 4.0 * a - 1.0
    } else if a > 2.0 {
        3.0
    } else {
        f64::NAN
    }
}

fn scad_slope(w: f64) -> f64 {
    let a = w.abs();
    if a <= 1.0 {
        2.0 * sign(w)
    } else if a <= 2.0 {
        (4.0 - 2.0 * a) * w.signum()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scad_has_the_worked_values() {
        for (w, value) in [(0.5, 1.0), (1.0, 2.0), (1.5, 2.75), (2.0, 3.0), (3.0, 3.0)] {
            assert!((scad(w) - value).abs() < 1e-15 && (scad(-w) - value).abs() < 1e-15, "{w}");
        }
        for (w, slope) in [(0.5, 2.0), (1.5, 1.0), (1.9, 0.2), (2.5, 0.0), (0.0, 0.0)] {
            assert!((scad_slope(w) - slope).abs() < 1e-14 && (scad_slope(-w) + slope).abs() < 1e-14, "{w}");
        }
    }

    #[test]
    fn slopes_are_added_with_their_factor() {
        let mut grad = [1.0, 1.0, 1.0];
        Penalty::L1.add_slope(&[-2.0, 0.0, 3.0], 0.5, &mut grad);
        assert_eq!(grad, [0.5, 1.0, 1.5]);
        Penalty::L2.add_slope(&[-2.0, 0.0, 3.0], 1.0, &mut grad);
        assert_eq!(grad, [-1.5, 1.0, 4.5]);
    }
}
