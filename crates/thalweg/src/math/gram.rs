//! Weighted second moments of rows, `sum_i h_i a_i a_i^T`, the Hessian of a sum over rows of a function of the score. Solving with
//! them is in `cholesky.rs`.

use std::ops::Range;

use super::aligned::Aligned;
use super::matrix::{Compressed, Matrix};
use super::reduce::{self, Chunks};
use super::wide::PANEL;
use super::{vec, wide};

/// Largest number of entries of the slots of a chunked sum. Beyond it there is one chunk.
const SLOTS: usize = 1 << 22;
/// Share of stored entries above which products of dense rows are faster.
const FULL: f64 = 0.2;
/// Rows that are multiplied at a time if rows are dense.
const BLOCK: usize = 64;

/// Returns the number of products that [`add_gram`] computes.
pub(crate) fn products(features: &Matrix, intercept: bool) -> f64 {
    let (n, d) = (features.rows(), features.cols() + usize::from(intercept));
    if features.compressed().is_none() {
        return 0.5 * n as f64 * (d * (d + 1)) as f64;
    }
    let per_row = features.stored() as f64 / n.max(1) as f64 + f64::from(u8::from(intercept));
    0.5 * n as f64 * per_row * (per_row + 1.0)
}

/// Adds `sum_k h[k] a_k a_k^T` over the rows a_k of a range to the lower triangle of `out`, with a constant column of ones after the
/// others if there is an intercept. The weights `h` are not negative.
pub(crate) fn add_gram(features: &Matrix, rows: Range<usize>, h: &[f64], intercept: bool, out: &mut [f64]) {
    let d = features.cols() + usize::from(intercept);
    let chunks = Chunks::of(rows.len());
    let chunks = if chunks.count() * d * d > SLOTS { Chunks::single(rows.len()) } else { chunks };
    let mut slots = vec![0.0; chunks.count() * d * d];
    let first = rows.start;
    let full = features.stored() as f64 > FULL * features.rows() as f64 * features.cols() as f64;
    reduce::for_each_chunk(chunks, &mut slots, |_, range, slot| {
        let h = &h[range.clone()];
        let rows = first + range.start..first + range.end;
        match features.compressed() {
            Some(Compressed::ByteOnes(..) | Compressed::Ones(..)) if !full => add_ones(features, rows, h, intercept, slot),
            Some(Compressed::Valued(..)) if !full => add_sparse(features, rows, h, intercept, slot),
            _ => add_dense(features, rows, h, intercept, slot),
        }
    });
    reduce::add_slots(&slots, out);
}

/// Adds rows of ones, whose products are the weight itself.
fn add_ones(features: &Matrix, rows: Range<usize>, h: &[f64], intercept: bool, out: &mut [f64]) {
    let d = features.cols() + usize::from(intercept);
    let mut row: Vec<usize> = vec![];
    for (i, &h) in rows.zip(h).filter(|(_, h)| **h > 0.0) {
        row.clear();
        features.visit_row(i, |c, _| row.push(c));
        if intercept {
            row.push(d - 1);
        }
        for (k, &c) in row.iter().enumerate() {
            let line = &mut out[c * d..(c + 1) * d];
            row[..=k].iter().for_each(|&other| line[other] += h);
        }
    }
}

fn add_sparse(features: &Matrix, rows: Range<usize>, h: &[f64], intercept: bool, out: &mut [f64]) {
    let d = features.cols() + usize::from(intercept);
    let mut row: Vec<(usize, f64)> = vec![];
    for (i, &h) in rows.zip(h).filter(|(_, h)| **h > 0.0) {
        row.clear();
        features.visit_row(i, |c, v| row.push((c, v)));
        if intercept {
            row.push((d - 1, 1.0));
        }
        for (k, &(c, v)) in row.iter().enumerate() {
            let line = &mut out[c * d..(c + 1) * d];
            let weighted = h * v;
            row[..=k].iter().for_each(|&(other, w)| line[other] += weighted * w);
        }
    }
}

/// Adds dense rows in blocks that are stored by panels of columns, so that all products of a block with a few columns stay in
/// registers.
fn add_dense(features: &Matrix, rows: Range<usize>, h: &[f64], intercept: bool, out: &mut [f64]) {
    let (cols, d) = (features.cols(), features.cols() + usize::from(intercept));
    let width = d.div_ceil(PANEL) * PANEL;
    let [mut plain, mut weighted, mut products] = [(); 3].map(|()| Aligned::default());
    plain.zeros(BLOCK * width);
    weighted.zeros(BLOCK * width);
    products.zeros(width * width);
    let mut unpacked = vec![];
    for start in rows.clone().step_by(BLOCK) {
        let block = start..(start + BLOCK).min(rows.end);
        let h = &h[start - rows.start..block.end - rows.start];
        let entries = match features.dense_entries() {
            Some(entries) => &entries[block.start * cols..block.end * cols],
            None => {
                unpacked.clear();
                unpacked.resize(h.len() * cols, 0.0);
                for (k, i) in block.enumerate() {
                    features.visit_row(i, |c, v| unpacked[k * cols + c] = v);
                }
                &unpacked
            }
        };
        wide::pack_rows(entries, cols, intercept, h, BLOCK, [&mut plain, &mut weighted]);
        if h.len() < BLOCK {
            weighted.chunks_mut(BLOCK * PANEL).for_each(|panel| panel[h.len() * PANEL..].fill(0.0));
        }
        wide::add_lower_products(&weighted, &plain, BLOCK, &mut products);
    }
    for (c, row) in products.chunks(width.max(1)).take(d).enumerate() {
        vec::add_scaled(&mut out[c * d..=c * d + c], 1.0, &row[..=c]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};

    /// The same random rows in every form of storage.
    fn forms(rows: usize, cols: usize, ones: bool, density: f64, seed: u64) -> Vec<Matrix> {
        let mut rng = Rng::new(seed, Purpose::Data);
        let (mut ptr, mut ids, mut values) = (vec![0], vec![], vec![]);
        let mut dense = vec![0.0; rows * cols];
        for i in 0..rows {
            for c in 0..cols {
                if rng.uniform() < density {
                    let v = if ones { 1.0 } else { 2.0 * rng.uniform() - 1.0 };
                    ids.push(c as u32);
                    values.push(v);
                    dense[i * cols + c] = v;
                }
            }
            ptr.push(ids.len());
        }
        let ptr: crate::math::offsets::Offsets = ptr.into_iter().collect();
        vec![Matrix::dense(rows, cols, dense).unwrap(), Matrix::sparse(cols, ptr, ids, values).unwrap()]
    }

    #[test]
    fn every_form_equals_the_plain_loop() {
        for (rows, cols, ones, density, seed) in [
            (7, 1, false, 0.5, 1),
            (300, 9, false, 0.2, 2),
            (300, 9, true, 0.2, 3),
            (300, 9, true, 0.6, 3),
            (2500, 5, false, 0.5, 4),
        ] {
            let mut rng = Rng::new(seed, Purpose::Sampling);
            let h: Vec<f64> = (0..rows - 2).map(|i| if i % 5 == 0 { 0.0 } else { rng.uniform() }).collect();
            for matrix in forms(rows, cols, ones, density, seed) {
                for intercept in [false, true] {
                    let d = cols + usize::from(intercept);
                    let mut want = vec![0.0; d * d];
                    for (k, h) in h.iter().enumerate() {
                        let mut a = vec![0.0; d];
                        matrix.visit_row(1 + k, |c, v| a[c] = v);
                        if intercept {
                            a[d - 1] = 1.0;
                        }
                        for i in 0..d {
                            (0..=i).for_each(|j| want[i * d + j] += h * a[i] * a[j]);
                        }
                    }
                    let mut got = vec![0.0; d * d];
                    add_gram(&matrix, 1..rows - 1, &h, intercept, &mut got);
                    for (got, want) in got.iter().zip(&want) {
                        assert!((got - want).abs() <= 1e-12 * rows as f64, "{} {got} {want}", matrix.form());
                    }
                }
            }
        }
    }

    #[test]
    fn one_and_two_threads_give_the_same_bits() {
        for matrix in forms(9000, 6, false, 0.2, 5) {
            let h = vec![0.25; 9000];
            let gram = |threads| {
                let mut out = vec![0.0; 49];
                reduce::with_threads(threads, || add_gram(&matrix, 0..9000, &h, true, &mut out)).unwrap();
                out
            };
            assert_eq!(gram(1), gram(2), "{}", matrix.form());
        }
    }
}
