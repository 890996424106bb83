//! A set in other units of length, `{u : length * u in X}`.

use super::{Set, Warm};
use crate::Result;
use crate::math::vec;

/// The set whose points, times `length`, are those of another set.
#[derive(Debug)]
pub(crate) struct Scaled<'s> {
    set: &'s dyn Set,
    length: f64,
}

impl<'s> Scaled<'s> {
    /// Divides every point of `set` by `length`, a power of two.
    pub(crate) fn new(set: &'s dyn Set, length: f64) -> Self {
        Scaled { set, length }
    }
}

impl Set for Scaled<'_> {
    fn dim(&self) -> Option<usize> {
        self.set.dim()
    }

    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        vec::scale(x, self.length);
        self.set.project(x, warm)?;
        vec::scale(x, 1.0 / self.length);
        Ok(())
    }

    fn diameter(&self, dim: usize) -> f64 {
        self.set.diameter(dim) / self.length
    }

    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        self.set.linear_minimizer(slope, out)?;
        vec::scale(out, 1.0 / self.length);
        Some(())
    }

    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        let times = |x: &[f64]| x.iter().map(|x| self.length * x).collect::<Vec<f64>>();
        // Normals are not affected by their length.
        self.set.separate(&times(y), &times(foot), cut);
    }

    fn describe(&self) -> String {
        format!("{}, in units of {}", self.set.describe(), self.length)
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
}
