//! Products with a dense matrix, for loops that live in the cache: with AVX2 where the processor has it. Matrices of data are in
//! `matrix`.
//!
//! The bits do not depend on the processor: both forms of a function are compiled from the same source, whose sums run in sixteen
//! lanes, and no product is fused with a sum.

/// Calls the function as compiled for AVX2 if the processor has it, or else as compiled for every processor.
macro_rules! widest {
    ($here:ident($($argument:ident: $type:ty),*)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn with_avx2($($argument: $type),*) {
                $here($($argument),*);
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: AVX2 is all that the function asks for, and the processor was just asked for it.
                #[allow(unsafe_code)]
                unsafe {
                    with_avx2($($argument),*);
                }
                return;
            }
        }
        $here($($argument),*);
    }};
}

/// `out = matrix u`, with as many rows as `out` is long.
pub(crate) fn apply(matrix: &[f64], u: &[f64], out: &mut [f64]) {
    widest!(apply_here(matrix: &[f64], u: &[f64], out: &mut [f64]))
}

/// `out += matrix^T t`.
pub(crate) fn add_combined(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    widest!(add_combined_here(matrix: &[f64], t: &[f64], out: &mut [f64]))
}

#[inline(always)]
fn apply_here(matrix: &[f64], u: &[f64], out: &mut [f64]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(u.len().max(1))) {
        *out = product(row, u);
    }
}

/// In sixteen lanes: a sum waits four steps for the one before, and fewer lanes would wait with it.
#[inline(always)]
fn product(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 16;
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (x, y) in xs.iter().zip(ys) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * y;
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    // Halves onto halves, always in the same order.
    let mut width = LANES / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] += lanes[k + width];
        }
        width /= 2;
    }
    lanes[0] + rest
}

/// Four rows at a time so that `out` is read and written less often, and four columns, which is what a vector instruction holds.
#[inline(always)]
fn add_combined_here(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    let m = out.len().max(1);
    let (mut fours, mut weights) = (matrix.chunks_exact(4 * m), t.chunks_exact(4));
    for (rows, t) in (&mut fours).zip(&mut weights) {
        let ((a, b), (c, d)) = (halves(&rows[..2 * m]), halves(&rows[2 * m..]));
        let (pairs, odd) = out.as_chunks_mut::<4>();
        let ((a, last_a), (b, last_b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
        let ((c, last_c), (d, last_d)) = (c.as_chunks::<4>(), d.as_chunks::<4>());
        for ((((out, a), b), c), d) in pairs.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            for k in 0..4 {
                out[k] += (t[0] * a[k] + t[1] * b[k]) + (t[2] * c[k] + t[3] * d[k]);
            }
        }
        for ((((out, a), b), c), d) in odd.iter_mut().zip(last_a).zip(last_b).zip(last_c).zip(last_d) {
            *out += (t[0] * a + t[1] * b) + (t[2] * c + t[3] * d);
        }
    }
    for (row, t) in fours.remainder().chunks_exact(m).zip(weights.remainder()) {
        crate::math::vec::add_scaled(out, *t, row);
    }
}

#[inline(always)]
fn halves(rows: &[f64]) -> (&[f64], &[f64]) {
    rows.split_at(rows.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is compiled for every processor is the twin, and a plain loop is near.
    #[test]
    fn both_forms_have_the_same_bits() {
        for (rows, columns) in [(0, 3), (1, 1), (3, 16), (5, 37), (50, 512), (7, 100)] {
            let matrix: Vec<f64> = (0..rows * columns).map(|i| (i as f64 * 0.7).sin() * 10_f64.powi(i as i32 % 5)).collect();
            let (u, t): (Vec<f64>, Vec<f64>) =
                ((0..columns).map(|i| (i as f64).cos()).collect(), (0..rows).map(|i| (i as f64 + 0.5).sin()).collect());
            let (mut wide, mut here) = (vec![0.0; rows], vec![0.0; rows]);
            apply(&matrix, &u, &mut wide);
            apply_here(&matrix, &u, &mut here);
            assert_eq!(wide, here);
            for (row, found) in matrix.chunks_exact(columns).zip(&wide) {
                let plain: f64 = row.iter().zip(&u).map(|(a, b)| a * b).sum();
                assert!((plain - found).abs() <= 1e-9 * (1.0 + plain.abs()), "{plain} {found}");
            }
            let (mut wide, mut here) = (u.clone(), u.clone());
            add_combined(&matrix, &t, &mut wide);
            add_combined_here(&matrix, &t, &mut here);
            assert_eq!(wide, here);
            for (j, found) in wide.iter().enumerate() {
                let plain: f64 = u[j] + (0..rows).map(|i| t[i] * matrix[i * columns + j]).sum::<f64>();
                assert!((plain - found).abs() <= 1e-9 * (1.0 + plain.abs()), "{plain} {found}");
            }
        }
    }
}
