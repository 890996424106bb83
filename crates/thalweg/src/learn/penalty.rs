//! Regularisers: functions of the model's weights alone. The intercept is never penalised.

use std::sync::Arc;

use crate::math::vec;

/// A regulariser.
#[derive(Debug, Clone, PartialEq)]
pub enum Penalty {
    /// `||w||^2 / 2`.
    L2,
    /// `1/2 sum_j (s_j w_j)^2` with these scales of the columns, as [`Data::column_scales`](super::Data::column_scales) computes
    /// them: the squared norm of the weights that the model has on standardised columns, whatever the units of the columns.
    Ridge(Arc<[f64]>),
    /// `||w||_1`; slope 0 at 0.
    L1,
    /// Smoothly clipped absolute deviation, summed: `2|w|` up to 1, `-w^2 + 4|w| - 1` up to 2, then 3; slope 0 at 0.
    Scad,
}

impl Penalty {
    /// Returns the value.
    pub fn value(&self, w: &[f64]) -> f64 {
        match self {
            Penalty::L2 => 0.5 * vec::norm_squared(w),
            Penalty::Ridge(scales) => 0.5 * vec::sum_by(w.len(), |i| (scales[i] * w[i]).powi(2)),
            Penalty::L1 => vec::sum_by(w.len(), |i| w[i].abs()),
            Penalty::Scad => vec::sum_by(w.len(), |i| scad(w[i])),
        }
    }

    /// Adds `factor` times a subgradient to `grad`.
    pub fn add_slope(&self, w: &[f64], factor: f64, grad: &mut [f64]) {
        let slope = match self {
            Penalty::L2 => |w: f64| w,
            Penalty::L1 => sign,
            Penalty::Scad => scad_slope,
            Penalty::Ridge(scales) => {
                for ((g, &w), &s) in grad.iter_mut().zip(w).zip(scales.iter()) {
                    *g += factor * (s * (s * w));
                }
                return;
            }
        };
        for (g, &w) in grad.iter_mut().zip(w) {
            *g += factor * slope(w);
        }
    }

    /// Adds `factor` times the diagonal of the Hessian, which has no other entries, to `diagonal`. Returns false, and adds
    /// nothing, if the penalty is not twice differentiable.
    pub fn add_curvature(&self, factor: f64, diagonal: &mut [f64]) -> bool {
        match self {
            Penalty::L2 => diagonal.iter_mut().for_each(|v| *v += factor),
            Penalty::Ridge(scales) => diagonal.iter_mut().zip(scales.iter()).for_each(|(v, s)| *v += factor * (s * s)),
            Penalty::L1 | Penalty::Scad => return false,
        }
        true
    }

    /// Returns the weak-convexity constant.
    pub fn modulus(&self) -> f64 {
        match self {
            Penalty::L2 | Penalty::Ridge(_) | Penalty::L1 => 0.0,
            Penalty::Scad => 2.0,
        }
    }
}

/// A sum of convex penalties.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Convex {
    pub(super) l2: f64,
    pub(super) l1: f64,
    /// Factor of the ridge, and the scales of the columns.
    ridge: Option<(f64, Arc<[f64]>)>,
}

impl Convex {
    /// Returns `None` if a penalty is not convex.
    pub(super) fn of(penalties: impl IntoIterator<Item = (f64, Penalty)>) -> Option<Self> {
        let mut sum = Convex::default();
        for (factor, penalty) in penalties {
            match penalty {
                Penalty::L2 => sum.l2 += factor,
                Penalty::L1 => sum.l1 += factor,
                // All columns of a problem have the same scales.
                Penalty::Ridge(scales) => sum.ridge = Some((sum.ridge.map_or(factor, |(others, _)| others + factor), scales)),
                Penalty::Scad => return None,
            }
        }
        Some(sum)
    }

    /// Adds a subgradient to `grad` and returns the value.
    pub(super) fn add_slope(&self, w: &[f64], grad: &mut [f64]) -> f64 {
        let ridge = self.ridge.iter().map(|(factor, scales)| (*factor, Penalty::Ridge(Arc::clone(scales))));
        let mut value = 0.0;
        for (factor, penalty) in [(self.l2, Penalty::L2), (self.l1, Penalty::L1)].into_iter().chain(ridge) {
            if factor > 0.0 {
                value += factor * penalty.value(w);
                penalty.add_slope(w, factor, grad);
            }
        }
        value
    }

    /// Returns the coefficient of `w_j^2 / 2`.
    pub(super) fn square(&self, j: usize) -> f64 {
        self.l2 + self.ridge.as_ref().map_or(0.0, |(factor, scales)| factor * (scales[j] * scales[j]))
    }

    /// Returns whether weight `j` is penalised.
    pub(super) fn covers(&self, j: usize) -> bool {
        self.l1 > 0.0 || self.square(j) > 0.0
    }

    /// Returns whether the sum is a multiple of the squared norm of the weights, with the same factor for all of them.
    pub(super) fn is_squared_norm(&self) -> bool {
        self.l1 == 0.0 && self.ridge.is_none()
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
        let ridge = Penalty::Ridge([3.0, 0.5, 0.0].into());
        ridge.add_slope(&[-2.0, 4.0, 3.0], 0.5, &mut grad);
        assert_eq!(grad, [-10.5, 1.5, 4.5]);
        assert_eq!((ridge.value(&[-2.0, 4.0, 3.0]), ridge.value(&[0.0, 0.0, 7.0])), (20.0, 0.0));
    }

    #[test]
    fn curvatures_are_differences_of_slopes() {
        let w = [-2.0, 0.3, 3.0];
        for penalty in [Penalty::L2, Penalty::Ridge([3.0, 0.5, 0.0].into())] {
            let mut diagonal = [1.0; 3];
            assert!(penalty.add_curvature(0.5, &mut diagonal));
            for j in 0..3 {
                let slope = |step: f64| {
                    let (mut w, mut grad) = (w, [0.0; 3]);
                    w[j] += step;
                    penalty.add_slope(&w, 0.5, &mut grad);
                    grad
                };
                let (below, above) = (slope(-0.5), slope(0.5));
                for (k, (below, above)) in below.iter().zip(&above).enumerate() {
                    let expected = if k == j { diagonal[j] - 1.0 } else { 0.0 };
                    assert!((above - below - expected).abs() < 1e-14, "{penalty:?} {j} {k}");
                }
            }
        }
        for penalty in [Penalty::L1, Penalty::Scad] {
            let mut diagonal = [1.0; 3];
            assert!(!penalty.add_curvature(0.5, &mut diagonal) && diagonal == [1.0; 3]);
        }
    }

    #[test]
    fn a_sum_adds_the_factors_of_each_kind() {
        let ridge = Penalty::Ridge([3.0, 0.5, 0.0].into());
        let sum = Convex::of([(0.5, ridge.clone()), (0.2, Penalty::L1), (1.0, ridge)]).unwrap();
        let mut grad = [0.0; 3];
        assert!((sum.add_slope(&[1.0, -2.0, 1.0], &mut grad) - (1.5 * 5.0 + 0.2 * 4.0)).abs() < 1e-14);
        for (g, expected) in grad.iter().zip([13.5 + 0.2, -0.75 - 0.2, 0.2]) {
            assert!((g - expected).abs() < 1e-14, "{grad:?}");
        }
        assert_eq!([0, 1, 2].map(|j| sum.square(j)), [13.5, 0.375, 0.0]);
        assert!(sum.covers(2) && !sum.is_squared_norm());
        let alone = Convex::of([(0.5, Penalty::Ridge([3.0, 0.0].into()))]).unwrap();
        assert!(alone.covers(0) && !alone.covers(1) && !alone.is_squared_norm());
        assert!(Convex::of([(0.5, Penalty::L2)]).unwrap().is_squared_norm());
    }
}
