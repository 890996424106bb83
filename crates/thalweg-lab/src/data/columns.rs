//! Rows with very many columns, most of which have no entry: only the others become features.

use thalweg::math::Matrix;

use crate::Result;

/// Returns the columns that have an entry, counted from 1, in increasing order.
pub fn used_columns(features: &Matrix) -> Vec<u32> {
    let mut used = Vec::with_capacity(features.stored());
    // Columns are stored as u32, counted from 0, so that their numbers fit.
    (0..features.rows()).for_each(|i| features.visit_row(i, |c, _| used.push(c as u32 + 1)));
    used.sort_unstable();
    used.dedup();
    used
}

/// Returns the rows with these columns alone, which are counted from 1 and increase.
pub fn select_columns(features: &Matrix, used: &[u32]) -> Result<Matrix> {
    let (mut ptr, mut ids, mut values) = (vec![0], vec![], vec![]);
    for i in 0..features.rows() {
        features.visit_row(i, |c, v| {
            if let Ok(at) = used.binary_search(&(c as u32 + 1)) {
                ids.push(at as u32);
                values.push(v);
            }
        });
        ptr.push(ids.len());
    }
    Ok(Matrix::sparse(used.len(), ptr, ids, values)?)
}

/// Checks a list of columns from a file.
pub fn check_used_columns(columns: usize, used: &[u32]) -> Result<(), String> {
    let increasing = used.windows(2).all(|pair| pair[0] < pair[1]);
    let first = used.first().is_some_and(|c| *c > 0);
    let last = used.last().is_some_and(|c| *c as usize <= columns);
    if increasing && first && last { Ok(()) } else { Err(format!("the columns it uses do not increase from 1 to {columns}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_entries_keep_their_order_and_values() {
        let columns = 4_000_000_000;
        let rows = Matrix::sparse(columns, vec![0, 2, 2, 4], vec![4, 3_999_999_999, 0, 4], vec![0.5, 2.0, -1.0, 3.0]).unwrap();
        let used = used_columns(&rows);
        assert_eq!(used, [1, 5, 4_000_000_000]);
        check_used_columns(columns, &used).unwrap();
        let made = select_columns(&rows, &used).unwrap();
        let by_hand = Matrix::sparse(3, vec![0, 2, 2, 4], vec![1, 2, 0, 1], vec![0.5, 2.0, -1.0, 3.0]).unwrap();
        assert_eq!(made, by_hand);
        // Rows of another file: entries in other columns are dropped.
        let other = Matrix::ones(columns, vec![0, 3], vec![3, 4, 7]).unwrap();
        assert_eq!(select_columns(&other, &used).unwrap(), Matrix::ones(3, vec![0, 1], vec![1]).unwrap());
    }

    #[test]
    fn lists_from_files_are_checked() {
        for bad in [&[0, 1][..], &[1, 1], &[2, 1], &[1, 11]] {
            assert_eq!(check_used_columns(10, bad).unwrap_err(), "the columns it uses do not increase from 1 to 10", "{bad:?}");
        }
        assert!(check_used_columns(10, &[1, 10]).is_ok());
    }
}
