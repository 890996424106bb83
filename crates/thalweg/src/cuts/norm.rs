//! The norm in which a model measures distances: plain, or scaled by the second moments of the variables. Estimating the scales
//! is left to the problem.

use serde::{Deserialize, Serialize};

use crate::math::vec;
use crate::oracle::Scales;

/// Norm `||x||^2 = <x, M x>` with `M = L L'`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Norm {
    /// M is the identity.
    #[default]
    Plain,
    /// M is diagonal, given by the square roots of its entries.
    Diagonal(Vec<f64>),
    /// Lower triangle L by rows, each of full length.
    Full(Vec<f64>),
}

/// Fraction of the mean scale that is added to every scale, so that steps stay bounded in directions without data.
const FLOOR: f64 = 0.1;
/// Ratio of the widths of a box above which its variables have different units.
const UNEQUAL: f64 = 16.0;

impl Norm {
    /// Builds the norm from the scales of a problem's variables. Also returns a lower bound on the smallest eigenvalue of M.
    pub fn of(scales: Option<&Scales>) -> (Self, f64) {
        let floor = |mean: f64| if mean > 0.0 { FLOOR * mean } else { 1.0 };
        match scales {
            None => (Norm::Plain, 1.0),
            Some(Scales::Diagonal(m)) => {
                let floor = floor(vec::sum(m) / m.len().max(1) as f64);
                (Norm::Diagonal(m.iter().map(|m| (m + floor).sqrt()).collect()), floor)
            }
            Some(Scales::Full(m)) => {
                let d = m.len().isqrt();
                let floor = floor((0..d).map(|i| m[i * d + i]).sum::<f64>() / d.max(1) as f64);
                (Norm::Full(cholesky(m, d, floor)), floor)
            }
        }
    }

    /// Builds the norm in which a box with these widths is a cube, if they are finite and differ much. Also returns the smallest
    /// eigenvalue of M.
    pub fn of_widths(widths: &[f64]) -> Option<(Self, f64)> {
        let least = widths.iter().copied().fold(f64::INFINITY, f64::min);
        let most = widths.iter().copied().fold(0.0, f64::max);
        let differ = least > 0.0 && most.is_finite() && most > UNEQUAL * least;
        differ.then(|| (Norm::Diagonal(widths.iter().map(|w| 1.0 / w).collect()), (1.0 / most).powi(2)))
    }

    /// Computes `out <- L' x`, a step in the variables in which the norm is plain.
    pub fn step(&self, x: &[f64], out: &mut [f64]) {
        match self {
            Norm::Plain => out.copy_from_slice(x),
            Norm::Diagonal(roots) => out.iter_mut().zip(x).zip(roots).for_each(|((o, x), root)| *o = root * x),
            Norm::Full(l) => {
                let d = x.len();
                out.fill(0.0);
                for (i, &x) in x.iter().enumerate() {
                    vec::add_scaled(&mut out[..=i], x, &l[i * d..][..i + 1]);
                }
            }
        }
    }

    /// Computes `x <- L^-1 x`, a slope in those variables.
    pub fn slope(&self, x: &mut [f64]) {
        match self {
            Norm::Plain => {}
            Norm::Diagonal(roots) => x.iter_mut().zip(roots).for_each(|(x, root)| *x /= root),
            Norm::Full(l) => {
                let d = x.len();
                for i in 0..d {
                    let (done, rest) = x.split_at_mut(i);
                    rest[0] = (rest[0] - vec::dot(&l[i * d..][..i], done)) / l[i * d + i];
                }
            }
        }
    }

    /// Computes `x <- L'^-1 x`, the inverse of [`Norm::step`].
    pub fn back(&self, x: &mut [f64]) {
        match self {
            Norm::Plain => {}
            Norm::Diagonal(roots) => x.iter_mut().zip(roots).for_each(|(x, root)| *x /= root),
            Norm::Full(l) => {
                let d = x.len();
                for i in (0..d).rev() {
                    let (before, at) = x.split_at_mut(i);
                    at[0] /= l[i * d + i];
                    vec::add_scaled(before, -at[0], &l[i * d..][..i]);
                }
            }
        }
    }

    /// Computes `x <- L x`; after [`Norm::step`] the result is M times the vector.
    pub fn forth(&self, x: &mut [f64]) {
        match self {
            Norm::Plain => {}
            Norm::Diagonal(roots) => x.iter_mut().zip(roots).for_each(|(x, root)| *x *= root),
            Norm::Full(l) => {
                let d = x.len();
                for i in (0..d).rev() {
                    x[i] = vec::dot(&l[i * d..][..i + 1], &x[..=i]);
                }
            }
        }
    }
}

/// Computes the Cholesky factor of `m + floor I`.
fn cholesky(m: &[f64], d: usize, floor: f64) -> Vec<f64> {
    let mut l = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..i {
            let (above, row) = l.split_at_mut(i * d);
            let upper = &above[j * d..][..j + 1];
            row[j] = (m[i * d + j] - vec::dot(&row[..j], &upper[..j])) / upper[j];
        }
        let row = &mut l[i * d..][..i + 1];
        let left = m[i * d + i] + floor - vec::norm_squared(&row[..i]);
        // At least the floor, up to rounding.
        row[i] = left.max(0.5 * floor).sqrt();
    }
    l
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_belong_to_one_matrix() {
        // M + floor: [[2, 1], [1, 3]] with mean diagonal 2.5, floor 0.25.
        let (norm, floor) = Norm::of(Some(&Scales::Full(vec![2.0, 1.0, 1.0, 3.0])));
        assert_eq!(floor, 0.25);
        let x = [0.7, -1.1];
        let mut step = [0.0; 2];
        norm.step(&x, &mut step);
        let square = 2.25 * 0.49 + 3.25 * 1.21 - 2.0 * 0.77;
        assert!((vec::norm_squared(&step) - square).abs() < 1e-14);
        let mut product = step;
        norm.forth(&mut product);
        assert!((product[0] - (2.25 * 0.7 - 1.1)).abs() < 1e-14 && (product[1] - (0.7 - 3.25 * 1.1)).abs() < 1e-14);
        norm.back(&mut step);
        assert!((step[0] - x[0]).abs() < 1e-15 && (step[1] - x[1]).abs() < 1e-15);
        // <slope, step> is the plain inner product of what they came from.
        let (mut slope, mut step) = ([0.3, 0.9], [0.0; 2]);
        norm.step(&x, &mut step);
        norm.slope(&mut slope);
        assert!((vec::dot(&slope, &step) - (0.21 - 0.99)).abs() < 1e-14);
        let (norm, floor) = Norm::of(Some(&Scales::Diagonal(vec![2.0, 4.0])));
        norm.step(&x, &mut step);
        assert!((vec::norm_squared(&step) - (2.3 * 0.49 + 4.3 * 1.21)).abs() < 1e-14 && (floor - 0.3).abs() < 1e-15);
    }
}
