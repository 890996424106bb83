//! Sum of squared residuals of a linear model as a function of its weights, from sums over the rows that are computed once. The
//! problems that use it are in the other files of this directory.

use crate::error::check_length;
use crate::math::wide::apply;
use crate::math::{Matrix, vec};
use crate::{Error, Result};

/// Quadratic `c sum_i (a_i . w - b_i)^2 = w . gram w / 2 - linear . w + constant` with gradient `gram w - linear`.
#[derive(Debug, Clone)]
pub(super) struct LeastSquares {
    /// `2 c A^T A`, row after row.
    pub(super) gram: Vec<f64>,
    linear: Vec<f64>,
    constant: f64,
}

impl LeastSquares {
    /// Sums over the rows `rows` of `features`, with `c = factor / 2`.
    pub(super) fn new(features: &Matrix, targets: &[f64], rows: impl Iterator<Item = usize>, factor: f64) -> Self {
        let d = features.cols();
        let (mut gram, mut linear, mut constant) = (vec![0.0; d * d], vec![0.0; d], 0.0);
        for i in rows {
            let b = targets[i];
            features.visit_row(i, |j, a| {
                linear[j] += factor * a * b;
                features.add_row(i, factor * a, &mut gram[j * d..(j + 1) * d]);
            });
            constant += 0.5 * factor * b * b;
        }
        LeastSquares { gram, linear, constant }
    }

    /// Multiplies the function by `factor`.
    pub(super) fn scale(&mut self, factor: f64) {
        vec::scale(&mut self.gram, factor);
        vec::scale(&mut self.linear, factor);
        self.constant *= factor;
    }

    /// Computes `out = gram q`.
    pub(super) fn times(&self, q: &[f64], out: &mut [f64]) {
        apply(&self.gram, q, out);
    }

    /// Writes the gradient at w to `out` and returns the value.
    pub(super) fn gradient(&self, w: &[f64], out: &mut [f64]) -> f64 {
        self.times(w, out);
        let mut value = self.constant;
        for ((out, linear), w) in out.iter_mut().zip(&self.linear).zip(w) {
            value += w * (0.5 * *out - linear);
            *out -= linear;
        }
        value
    }
}

/// Checks the shape of the rows and that the targets are finite.
pub(super) fn check_rows(what: &str, features: &Matrix, targets: &[f64], columns: usize) -> Result<()> {
    if features.rows() == 0 {
        return Err(Error::Problem(format!("there are no {what} rows; expected at least one")));
    }
    check_length(&format!("a row of the {what} features"), features.cols(), columns)?;
    check_length(&format!("the list of {what} targets"), targets.len(), features.rows())?;
    match vec::first_not_finite(targets) {
        None => Ok(()),
        Some((i, value)) => Err(Error::NotFinite { what: format!("entry {} of the {what} targets", i + 1), value }),
    }
}
