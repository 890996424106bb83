//! A set in other units of length, `{u : length * u in X}`, or a box with a unit for each variable.

use super::{Set, Warm};
use crate::Result;
use crate::math::vec;

/// The set whose points, times `length`, are those of another set.
#[derive(Debug)]
pub(crate) struct Scaled<'s> {
    set: &'s dyn Set,
    length: f64,
    /// The length of each variable; empty if all are `length`.
    lengths: &'s [f64],
}

impl<'s> Scaled<'s> {
    /// Divides every point of `set` by `length`, a power of two.
    pub(crate) fn new(set: &'s dyn Set, length: f64) -> Self {
        Scaled { set, length, lengths: &[] }
    }

    /// Divides each variable of a box by a power of two.
    pub(crate) fn each(set: &'s dyn Set, lengths: &'s [f64]) -> Self {
        Scaled { set, length: 1.0, lengths }
    }

    fn length(&self, i: usize) -> f64 {
        self.lengths.get(i).copied().unwrap_or(self.length)
    }

    fn multiply(&self, x: &mut [f64]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x *= self.length(i));
    }

    fn divide(&self, x: &mut [f64]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x /= self.length(i));
    }
}

impl Set for Scaled<'_> {
    fn dim(&self) -> Option<usize> {
        self.set.dim()
    }

    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        self.multiply(x);
        self.set.project(x, warm)?;
        self.divide(x);
        Ok(())
    }

    fn diameter(&self, dim: usize) -> f64 {
        if self.lengths.is_empty() {
            return self.set.diameter(dim) / self.length;
        }
        let width = |i: usize| self.set.sides(i).map_or(f64::INFINITY, |(low, high)| (high - low) / self.length(i));
        vec::norm_by(dim, width)
    }

    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        if self.lengths.is_empty() {
            self.set.linear_minimizer(slope, out)?;
        } else {
            let slope: Vec<f64> = slope.iter().enumerate().map(|(i, s)| s / self.length(i)).collect();
            self.set.linear_minimizer(&slope, out)?;
        }
        self.divide(out);
        Some(())
    }

    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        let times = |x: &[f64]| {
            let mut x = x.to_vec();
            self.multiply(&mut x);
            x
        };
        self.set.separate(&times(y), &times(foot), &mut |from, normal| {
            let normal: Vec<f64> = normal.iter().enumerate().map(|(i, n)| n * self.length(from + i)).collect();
            cut(from, &normal);
        });
    }

    fn describe(&self) -> String {
        if self.lengths.is_empty() {
            format!("{}, in units of {}", self.set.describe(), self.length)
        } else {
            format!("{}, in units of its variables", self.set.describe())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Bounds, testing};

    #[test]
    fn a_box_in_other_units_is_a_box() {
        let (set, twin) = (Bounds::uniform(-4.0, 8.0).unwrap(), Bounds::uniform(-1.0, 2.0).unwrap());
        let scaled = Scaled::new(&set, 4.0);
        let naive = |x: &[f64]| x.iter().map(|x| x.clamp(-1.0, 2.0)).collect::<Vec<f64>>();
        testing::check_set(&scaled, 3, |u| u.iter().map(|u| 3.0 * u - 1.0).collect(), naive);
        assert_eq!(scaled.diameter(3), twin.diameter(3));
    }

    #[test]
    fn a_box_with_a_unit_for_each_variable_is_a_box() {
        let set = Bounds::each(vec![-4.0, 0.0], vec![8.0, 1.0]).unwrap();
        let twin = Bounds::each(vec![-1.0, 0.0], vec![2.0, 2.0]).unwrap();
        let scaled = Scaled::each(&set, &[4.0, 0.5]);
        let naive = |x: &[f64]| vec![x[0].clamp(-1.0, 2.0), x[1].clamp(0.0, 2.0)];
        testing::check_set(&scaled, 2, |u| vec![3.0 * u[0] - 1.0, 2.0 * u[1]], naive);
        assert_eq!(scaled.diameter(2), twin.diameter(2));
    }
}
