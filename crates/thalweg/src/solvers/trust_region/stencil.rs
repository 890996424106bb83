//! Points for finite differences that stay in a box, and the derivatives that values there give.

use crate::sets::Set;

/// Smallest step relative to the size of a variable.
const LEAST: f64 = 1e-8;

/// Points around a point: one or two for each variable of a block.
#[derive(Debug, Default)]
pub(super) struct Stencil {
    /// Position of the variable in the block, and step in units of its length.
    steps: Vec<(usize, f64)>,
    /// The points, in the units of the problem.
    pub points: Vec<f64>,
}

impl Stencil {
    /// Builds points at a step `h`, in units of the lengths, on both sides if `central`. Points leave a box on neither side.
    pub fn new(x: &[f64], block: &[u32], lengths: &[f64], h: f64, central: bool, domain: &dyn Set) -> Self {
        let mut stencil = Stencil::default();
        for (k, &i) in block.iter().enumerate() {
            let i = i as usize;
            let h = h.max(LEAST * (x[i].abs() / lengths[i]).max(1.0));
            let (low, high) = domain.sides(i).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
            let room = [(high - x[i]) / lengths[i], (x[i] - low) / lengths[i]];
            let steps = match room.map(|room| room >= h) {
                [true, true] if central => [h, -h],
                [true, _] => [h, 0.0],
                [_, true] => [-h, 0.0],
                _ if room[0] >= room[1] => [room[0], 0.0],
                _ => [-room[1], 0.0],
            };
            for step in steps.into_iter().filter(|step| *step != 0.0) {
                let from = stencil.points.len();
                stencil.points.extend_from_slice(x);
                stencil.points[from + i] += step * lengths[i];
                stencil.steps.push((k, step));
            }
        }
        stencil
    }

    /// Returns the number of points.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// Computes the derivative in each variable from `value(e)` at point e and `here` at the centre; 0 for a variable without a
    /// point. `second` is set where there are two points, and corrects one-sided differences where there is one.
    pub fn slope(&self, here: f64, value: impl Fn(usize) -> f64, slope: &mut [f64], second: &mut [f64]) {
        let mut e = 0;
        while let Some(&(k, h)) = self.steps.get(e) {
            match self.steps.get(e + 1) {
                Some(&(other, back)) if other == k => {
                    let (plus, minus) = (value(e), value(e + 1));
                    slope[k] = (plus - minus) / (h - back);
                    second[k] = (plus + minus - 2.0 * here) / (h * h);
                    e += 2;
                }
                _ => {
                    slope[k] = (value(e) - here) / h - 0.5 * h * second[k];
                    e += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Bounds, WholeSpace};

    #[test]
    fn derivatives_of_a_quadratic_are_exact_and_points_stay_inside() {
        let f = |x: &[f64]| 3.0 * x[0] * x[0] - 2.0 * x[0] + x[1];
        let (x, lengths) = ([1.0, 0.5], [2.0, 0.1]);
        let (mut slope, mut second) = ([0.0; 2], [0.0; 2]);
        let stencil = Stencil::new(&x, &[0, 1], &lengths, 0.25, true, &WholeSpace);
        stencil.slope(f(&x), |e| f(&stencil.points[2 * e..2 * e + 2]), &mut slope, &mut second);
        assert!((slope[0] - 8.0).abs() < 1e-12 && (slope[1] - 0.1).abs() < 1e-12 && (second[0] - 24.0).abs() < 1e-12);
        let unit = Bounds::uniform(0.0, 1.0).unwrap();
        let stencil = Stencil::new(&x, &[0, 1], &lengths, 0.25, true, &unit);
        assert_eq!(stencil.count(), 3);
        assert!(stencil.points.iter().all(|x| (0.0..=1.0).contains(x)));
        slope.fill(0.0);
        stencil.slope(f(&x), |e| f(&stencil.points[2 * e..2 * e + 2]), &mut slope, &mut second);
        assert!((slope[0] - 8.0).abs() < 1e-12, "{slope:?}");
    }
}
