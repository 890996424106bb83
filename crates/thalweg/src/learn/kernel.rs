//! Kernel models in the form of linear ones: the features of a row are its kernel values with the training rows. Choosing the
//! bandwidth or the centres is left to the caller.

use crate::math::Matrix;
use crate::{Error, Result};

/// Computes `exp(-gamma ||x - x'||^2)` for every row x of `rows` and every row x' of `centres`; one row of the result per row
/// of `rows`.
pub fn gaussian_kernel(rows: &Matrix, centres: &Matrix, gamma: f64) -> Result<Matrix> {
    if !(gamma > 0.0 && gamma.is_finite()) {
        return Err(Error::setting("gamma of the kernel", gamma, "a finite number above 0"));
    }
    if rows.cols() != centres.cols() {
        return Err(Error::Length { what: "a row for the kernel".into(), got: rows.cols(), wanted: centres.cols() });
    }
    let squares: Vec<f64> = (0..centres.rows()).map(|j| centres.row_norm_squared(j)).collect();
    let mut entries = Vec::with_capacity(rows.rows() * centres.rows());
    let mut row = vec![0.0; rows.cols()];
    for i in 0..rows.rows() {
        row.fill(0.0);
        rows.visit_row(i, |column, v| row[column] = v);
        let own = rows.row_norm_squared(i);
        for (j, square) in squares.iter().enumerate() {
            // Rounding could make a distance negative.
            let distance = (own + square - 2.0 * centres.row_dot(j, &row)).max(0.0);
            entries.push((-gamma * distance).exp());
        }
    }
    Matrix::dense(rows.rows(), centres.rows(), entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_distances() {
        let rows = Matrix::dense(2, 2, vec![0.0, 0.0, 1.0, 2.0]).unwrap();
        let centres = Matrix::sparse(2, vec![0, 1, 3], vec![1, 0, 1], vec![1.0, 1.0, 2.0]).unwrap();
        let kernel = gaussian_kernel(&rows, &centres, 0.5).unwrap();
        let value = |i: usize, j: usize| kernel.row_dot(i, &[f64::from(u8::from(j == 0)), f64::from(u8::from(j == 1))]);
        for (i, j, square) in [(0, 0, 1.0), (0, 1, 5.0), (1, 0, 2.0), (1, 1, 0.0)] {
            assert!((value(i, j) - (-0.5_f64 * square).exp()).abs() < 1e-15);
        }
        assert!(gaussian_kernel(&rows, &centres, 0.0).is_err());
        assert!(gaussian_kernel(&rows, &Matrix::dense(1, 1, vec![1.0]).unwrap(), 1.0).is_err());
    }
}
