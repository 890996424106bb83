//! Dense Cholesky factors of symmetric matrices, given by the rows of their lower triangle. Assembling a matrix is left to the
//! caller.

use super::vec;

/// Pivot of a variable that is a combination of others.
const HUGE: f64 = 1e128;

/// Lower triangle of a Cholesky factor, by rows of full length.
#[derive(Debug, Clone)]
pub(crate) struct Cholesky {
    dim: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factors `m + diagonal`; of `m` only the lower triangle is read. A pivot of at most `least` times its diagonal entry is
    /// replaced by a huge number: the variable is a combination of those before it, and solutions have 0 there.
    pub(crate) fn semidefinite(m: &[f64], diagonal: &[f64], least: f64) -> Self {
        let dim = diagonal.len();
        let mut lower = vec![0.0; dim * dim];
        for i in 0..dim {
            let left = eliminate(&mut lower, &m[i * dim..], i, dim);
            let (entry, pivot) = (m[i * dim + i] + diagonal[i], left + diagonal[i]);
            lower[i * dim + i] = if pivot > least * entry { pivot.sqrt() } else { HUGE };
        }
        Cholesky { dim, lower }
    }

    /// Factors `m - shift I`; of `m` only the lower triangle is read. Returns `None` if a pivot is not positive.
    pub(crate) fn shifted(m: &[f64], dim: usize, shift: f64) -> Option<Self> {
        let mut lower = vec![0.0; dim * dim];
        for i in 0..dim {
            let left = eliminate(&mut lower, &m[i * dim..], i, dim) - shift;
            // Also false for NaN.
            if left > 0.0 {
                lower[i * dim + i] = left.sqrt();
            } else {
                return None;
            }
        }
        Some(Cholesky { dim, lower })
    }

    /// Computes `x <- (L L')^-1 x`.
    pub(crate) fn solve(&self, x: &mut [f64]) {
        let (d, l) = (self.dim, &self.lower);
        for i in 0..d {
            let (done, rest) = x.split_at_mut(i);
            rest[0] = (rest[0] - vec::dot(&l[i * d..][..i], done)) / l[i * d + i];
        }
        for i in (0..d).rev() {
            let (before, at) = x.split_at_mut(i);
            at[0] /= l[i * d + i];
            vec::add_scaled(before, -at[0], &l[i * d..][..i]);
        }
    }
}

/// Writes row `i` of the factor except for its diagonal entry. Returns the diagonal entry of `row` minus the squares of that
/// row of the factor.
fn eliminate(lower: &mut [f64], row: &[f64], i: usize, dim: usize) -> f64 {
    let (above, rest) = lower.split_at_mut(i * dim);
    for j in 0..i {
        let upper = &above[j * dim..][..j + 1];
        rest[j] = (row[j] - vec::dot(&rest[..j], &upper[..j])) / upper[j];
    }
    row[i] - vec::norm_squared(&rest[..i])
}

/// Selects columns of a symmetric matrix that are linearly independent, in their order: those whose pivot exceeds `least`
/// times their diagonal entry.
pub(crate) fn independent(m: &[f64], dim: usize, least: f64) -> Vec<usize> {
    let mut chosen: Vec<usize> = vec![];
    let mut lower: Vec<Vec<f64>> = vec![];
    for i in 0..dim {
        let mut row: Vec<f64> = Vec::with_capacity(chosen.len() + 1);
        for (j, upper) in chosen.iter().zip(&lower) {
            let entry = (m[i * dim + j] - vec::dot(&row, &upper[..row.len()])) / upper[row.len()];
            row.push(entry);
        }
        let left = m[i * dim + i] - vec::norm_squared(&row);
        if left > least * m[i * dim + i] {
            row.push(left.sqrt());
            chosen.push(i);
            lower.push(row);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_satisfies_its_equations() {
        let m = [4.0, 0.0, 0.0, 2.0, 5.0, 0.0, -1.0, 0.5, 3.0];
        let factor = Cholesky::shifted(&m, 3, 0.0).unwrap();
        let mut x = [1.0, -2.0, 0.25];
        factor.solve(&mut x);
        let product = [4.0 * x[0] + 2.0 * x[1] - x[2], 2.0 * x[0] + 5.0 * x[1] + 0.5 * x[2], -x[0] + 0.5 * x[1] + 3.0 * x[2]];
        product.iter().zip([1.0, -2.0, 0.25]).for_each(|(got, want)| assert!((got - want).abs() < 1e-14));
        let other = Cholesky::semidefinite(&m, &[0.0; 3], 1e-12);
        assert_eq!(other.lower, factor.lower);
        // The smallest eigenvalue lies between 1.5 and 2.
        assert!(Cholesky::shifted(&m, 3, 1.5).is_some() && Cholesky::shifted(&m, 3, 2.0).is_none());
    }

    #[test]
    fn dependent_columns_are_left_out() {
        // Columns (1, 0), (1, 1), their sum, and 0.
        let columns = [[1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [0.0, 0.0]];
        let m: Vec<f64> = columns.iter().flat_map(|a| columns.iter().map(|b| a[0] * b[0] + a[1] * b[1])).collect();
        assert_eq!(independent(&m, 4, 1e-12), [0, 1]);
        // The factor solves equations that have a solution: the products of (3, 2) with the columns.
        let factor = Cholesky::semidefinite(&m, &[0.0; 4], 1e-12);
        let mut x = [3.0, 5.0, 8.0, 0.0];
        factor.solve(&mut x);
        x.iter().zip([1.0, 2.0, 0.0, 0.0]).for_each(|(got, want)| assert!((got - want).abs() < 1e-14, "{x:?}"));
    }
}
