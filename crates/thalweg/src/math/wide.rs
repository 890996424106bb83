//! Loops over long vectors and products with a dense matrix in the cache, with AVX-512 or AVX2 if available. Matrices of data
//! are in `matrix`, vectors of any length in `vec`.
//!
//! The bits do not depend on the processor: sums run in a fixed number of lanes, 16 for a row of a matrix and 32 for a vector,
//! halves of the lanes are added to halves, and no product is fused with a sum.

/// Calls the function compiled for the widest instructions of the processor: for loops without sums, which the compiler
/// vectorises.
macro_rules! widest {
    ($here:ident($($argument:ident: $type:ty),*) $(-> $out:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f")]
            fn with_avx512($($argument: $type),*) $(-> $out)? {
                $here($($argument),*)
            }
            #[target_feature(enable = "avx2")]
            fn with_avx2($($argument: $type),*) $(-> $out)? {
                $here($($argument),*)
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the function requires only AVX-512F, which was just detected.
                #[allow(unsafe_code)]
                return unsafe { with_avx512($($argument),*) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: as above, for AVX2.
                #[allow(unsafe_code)]
                return unsafe { with_avx2($($argument),*) };
            }
        }
        $here($($argument),*)
    }};
}

pub(super) use widest;

/// Calls the function of the same name that is written for the processor's vector width, or else the portable one.
macro_rules! written_out {
    ($name:ident, $here:ident($($argument:ident),*)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the function requires only AVX-512F, which was just detected.
                #[allow(unsafe_code)]
                return unsafe { avx512::$name($($argument),*) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: as above, for AVX2.
                #[allow(unsafe_code)]
                return unsafe { avx2::$name($($argument),*) };
            }
        }
        $here($($argument),*)
    }};
}

/// Lanes of a sum over a row of a matrix, and over a vector. Additions have a latency of four cycles, which fewer lanes could
/// not hide. Rows are processed several at a time, so they need fewer lanes than a vector.
const ROW_LANES: usize = 16;
const LANES: usize = 32;

/// Columns of a panel, in which matrices that are multiplied with themselves are stored: the first entries of a panel are those of
/// its columns in the first row, the next ones those in the second row.
pub(crate) const PANEL: usize = 8;

/// Computes `out = matrix u`, with as many rows as `out` is long.
pub(crate) fn apply(matrix: &[f64], u: &[f64], out: &mut [f64]) {
    written_out!(apply, apply_here(matrix, u, out))
}

/// Computes `out += matrix^T t`.
pub(crate) fn add_combined(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    written_out!(add_combined, add_combined_here(matrix, t, out))
}

/// Adds the products `left^T right` of two matrices of `rows` rows to the lower triangle of `out`, row after row of the factors. Both
/// are stored by panels of [`PANEL`] columns, and `out` by rows of as many columns as all panels have. Above the diagonal, `out`
/// has unspecified values.
pub(super) fn add_lower_products(left: &[f64], right: &[f64], rows: usize, out: &mut [f64]) {
    written_out!(add_lower_products, add_lower_products_here(left, right, rows, out))
}

/// Stores consecutive rows of a dense matrix by panels for [`add_lower_products`], after them a column of ones if `ones`, and the same
/// rows times `h`. Both results have space for `capacity` rows; columns of the last panel beyond the matrix are 0.
pub(super) fn pack_rows(matrix: &[f64], cols: usize, ones: bool, h: &[f64], capacity: usize, to: [&mut [f64]; 2]) {
    widest!(pack_rows_here(matrix: &[f64], cols: usize, ones: bool, h: &[f64], capacity: usize, to: [&mut [f64]; 2]))
}

/// Computes the products of the rows of a dense matrix, at most 4,095 columns wide, with `x`, with the bits of `vec::dot`.
pub(super) fn row_products(matrix: &[f64], x: &[f64], out: &mut [f64]) {
    written_out!(row_products, row_products_here(matrix, x, out))
}

/// Computes `out += sum_k t[k] (row members[k])`, one row after the other. Rows are those of a dense matrix, counted from `first`.
pub(super) fn add_picked_rows(matrix: &[f64], first: usize, members: &[u32], t: &[f64], out: &mut [f64]) {
    widest!(add_picked_rows_here(matrix: &[f64], first: usize, members: &[u32], t: &[f64], out: &mut [f64]))
}

/// Computes `out += matrix^T t`, one row after the other.
pub(super) fn add_all_rows(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    widest!(add_all_rows_here(matrix: &[f64], t: &[f64], out: &mut [f64]))
}

/// Computes `x . y` of two vectors of the same length.
pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    written_out!(dot, dot_here(x, y))
}

/// Computes `||x - y||^2` of two vectors of the same length.
pub(super) fn distance_squared(x: &[f64], y: &[f64]) -> f64 {
    written_out!(distance_squared, distance_squared_here(x, y))
}

/// Computes `y += a (x - c)` and returns `||x - c||^2`, with the same bits as [`distance_squared`]. All have the same length.
pub(super) fn add_scaled_difference(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) -> f64 {
    written_out!(add_scaled_difference, add_scaled_difference_here(y, a, x, c))
}

/// Returns whether every entry is finite.
pub(super) fn all_finite(x: &[f64]) -> bool {
    widest!(all_finite_here(x: &[f64]) -> bool)
}

/// Computes `y += a x`.
pub(super) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    widest!(add_scaled_here(y: &mut [f64], a: f64, x: &[f64]))
}

/// Computes `y += a (x - y)`.
pub(super) fn approach(y: &mut [f64], a: f64, x: &[f64]) {
    widest!(approach_here(y: &mut [f64], a: f64, x: &[f64]))
}

/// Computes `d = x - a d`.
pub(super) fn step_from(d: &mut [f64], x: &[f64], a: f64) {
    widest!(step_from_here(d: &mut [f64], x: &[f64], a: f64))
}

/// Computes `y += a (x - c)`.
pub(super) fn add_difference(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) {
    widest!(add_difference_here(y: &mut [f64], a: f64, x: &[f64], c: &[f64]))
}

/// Computes `out = sum_k left_k right_k^T` of one, two or three terms, added in this order, row after row; further terms are
/// ignored.
pub(crate) fn outer_products(out: &mut [f64], terms: &[(&[f64], &[f64])]) {
    widest!(outer_products_here(out: &mut [f64], terms: &[(&[f64], &[f64])]))
}

#[inline(always)]
fn all_finite_here(x: &[f64]) -> bool {
    // Adding one to an exponent of ones reaches the sign bit, which detects infinities and NaN without branches.
    const EXPONENT: u64 = 0x7ff << 52;
    x.iter().fold(0, |seen, x| seen | ((x.to_bits() & EXPONENT) + (1 << 52))) >> 63 == 0
}

#[inline(always)]
fn add_scaled_here(y: &mut [f64], a: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

fn row_products_here(matrix: &[f64], x: &[f64], out: &mut [f64]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len().max(1))) {
        *out = super::vec::dot(row, x);
    }
}

#[inline(always)]
fn add_all_rows_here(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    for (t, row) in t.iter().zip(matrix.chunks_exact(out.len().max(1))) {
        add_scaled_here(out, *t, row);
    }
}

#[inline(always)]
fn add_picked_rows_here(matrix: &[f64], first: usize, members: &[u32], t: &[f64], out: &mut [f64]) {
    for (t, &i) in t.iter().zip(members) {
        let start = (first + i as usize) * out.len();
        add_scaled_here(out, *t, &matrix[start..start + out.len()]);
    }
}

/// Rows are read from beginning to end, which the processor prefetches.
#[inline(always)]
fn pack_rows_here(matrix: &[f64], cols: usize, ones: bool, h: &[f64], capacity: usize, to: [&mut [f64]; 2]) {
    let [plain, weighted] = to.map(|to| to.as_chunks_mut::<PANEL>().0);
    let panels = plain.len() / capacity;
    for (k, h) in h.iter().enumerate() {
        let (whole, rest) = matrix[k * cols..(k + 1) * cols].as_chunks::<PANEL>();
        for (p, entries) in whole.iter().enumerate() {
            plain[p * capacity + k] = *entries;
            weighted[p * capacity + k] = entries.map(|v| h * v);
        }
        if whole.len() < panels {
            let mut last = [0.0; PANEL];
            last[..rest.len()].copy_from_slice(rest);
            if ones {
                last[rest.len()] = 1.0;
            }
            plain[whole.len() * capacity + k] = last;
            weighted[whole.len() * capacity + k] = last.map(|v| h * v);
        }
    }
}

#[inline(always)]
fn approach_here(y: &mut [f64], a: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * (x - *y);
    }
}

#[inline(always)]
fn step_from_here(d: &mut [f64], x: &[f64], a: f64) {
    for (d, x) in d.iter_mut().zip(x) {
        *d = x - a * *d;
    }
}

#[inline(always)]
fn add_difference_here(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) {
    for ((y, x), c) in y.iter_mut().zip(x).zip(c) {
        *y += a * (x - c);
    }
}

#[inline(always)]
fn outer_products_here(out: &mut [f64], terms: &[(&[f64], &[f64])]) {
    match *terms {
        [(a, x)] => {
            for (row, a) in out.chunks_exact_mut(x.len().max(1)).zip(a) {
                row.iter_mut().zip(x).for_each(|(out, x)| *out = a * x);
            }
        }
        [(a, x), (b, y)] => {
            for ((row, a), b) in out.chunks_exact_mut(x.len().max(1)).zip(a).zip(b) {
                row.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = a * x + b * y);
            }
        }
        [(a, x), (b, y), (c, z), ..] => {
            for (((row, a), b), c) in out.chunks_exact_mut(x.len().max(1)).zip(a).zip(b).zip(c) {
                for (((out, x), y), z) in row.iter_mut().zip(x).zip(y).zip(z) {
                    *out = (a * x + b * y) + c * z;
                }
            }
        }
        [] => {}
    }
}

#[inline(always)]
fn apply_here(matrix: &[f64], u: &[f64], out: &mut [f64]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(u.len().max(1))) {
        *out = lanes_of::<ROW_LANES>(row, u, |x, y| x * y);
    }
}

fn dot_here(x: &[f64], y: &[f64]) -> f64 {
    lanes_of::<LANES>(x, y, |x, y| x * y)
}

fn distance_squared_here(x: &[f64], y: &[f64]) -> f64 {
    lanes_of::<LANES>(x, y, |x, y| (x - y) * (x - y))
}

fn add_scaled_difference_here(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) -> f64 {
    add_difference_here(y, a, x, c);
    distance_squared_here(x, c)
}

/// Sums `term(x_i, y_i)` in lanes.
#[inline(always)]
fn lanes_of<const N: usize>(x: &[f64], y: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<N>(), y.as_chunks::<N>());
    let mut lanes = [0.0; N];
    for (x, y) in xs.iter().zip(ys) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += term(*x, *y);
        }
    }
    fold(lanes) + rest(x_rest, y_rest, term)
}

/// Adds halves of the lanes to halves, always in the same order.
#[inline(always)]
fn fold<const N: usize>(mut lanes: [f64; N]) -> f64 {
    let mut width = N / 2;
    while width > 0 {
        for k in 0..width {
            lanes[k] += lanes[k + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Sums the remaining entries that do not fill the lanes.
#[inline(always)]
fn rest(x: &[f64], y: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    x.iter().zip(y).map(|(x, y)| term(*x, *y)).sum()
}

/// Processes four rows at a time, so that `out` is read and written less often.
fn add_combined_here(matrix: &[f64], t: &[f64], out: &mut [f64]) {
    let m = out.len().max(1);
    let (mut fours, mut weights) = (matrix.chunks_exact(4 * m), t.chunks_exact(4));
    for (rows, t) in (&mut fours).zip(&mut weights) {
        let ((a, b), (c, d)) = (halves(&rows[..2 * m]), halves(&rows[2 * m..]));
        for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *out += (t[0] * a + t[1] * b) + (t[2] * c + t[3] * d);
        }
    }
    for (row, t) in fours.remainder().chunks_exact(m).zip(weights.remainder()) {
        add_scaled_here(out, *t, row);
    }
}

fn add_lower_products_here(left: &[f64], right: &[f64], rows: usize, out: &mut [f64]) {
    let width = left.len() / rows.max(1);
    for k in 0..rows {
        for (c, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
            let factor = left[(c / PANEL * rows + k) * PANEL + c % PANEL];
            for (right, out) in right.chunks_exact(rows * PANEL).zip(out.chunks_exact_mut(PANEL)).take(c / PANEL + 1) {
                add_scaled_here(out, factor, &right[k * PANEL..][..PANEL]);
            }
        }
    }
}

#[inline(always)]
fn halves(rows: &[f64]) -> (&[f64], &[f64]) {
    rows.split_at(rows.len() / 2)
}

/// Loops with sums, written out for one vector width, since the compiler does not vectorise lanes across several rows.
#[cfg(target_arch = "x86_64")]
macro_rules! kernels {
    ($name:ident, $feature:literal, $vector:ident of $width:literal, $rows:literal rows, $tall:literal rows of a panel,
     $load:ident, $store:ident, $spread:ident, $add:ident, $sub:ident, $mul:ident) => {
        mod $name {
            use std::arch::x86_64::{$add as add, $load, $mul as mul, $spread as spread, $store, $sub as sub, $vector};

            use super::super::vec;
            use super::{LANES, PANEL, ROW_LANES, fold, rest};

            #[inline]
            #[target_feature(enable = $feature)]
            fn load(x: &[f64; $width]) -> $vector {
                // SAFETY: the array has as many numbers as are read, and no alignment is required.
                #[allow(unsafe_code)]
                unsafe {
                    $load(x.as_ptr())
                }
            }

            #[inline]
            #[target_feature(enable = $feature)]
            fn store(x: &mut [f64; $width], v: $vector) {
                // SAFETY: the array has space for as many numbers as are written, and no alignment is required.
                #[allow(unsafe_code)]
                unsafe {
                    $store(x.as_mut_ptr(), v);
                }
            }

            /// Adds up the numbers in `N` lanes.
            #[inline]
            #[target_feature(enable = $feature)]
            fn total<const N: usize, const VECTORS: usize>(vectors: [$vector; VECTORS]) -> f64 {
                let mut lanes = [0.0; N];
                for (lanes, v) in lanes.as_chunks_mut::<$width>().0.iter_mut().zip(vectors) {
                    store(lanes, v);
                }
                fold(lanes)
            }

            /// Multiplies several rows by u at once.
            #[inline]
            #[target_feature(enable = $feature)]
            fn products<const R: usize>(rows: &[f64], u: &[f64], out: &mut [f64; R]) {
                const VECTORS: usize = ROW_LANES / $width;
                let m = u.len();
                let (us, u_rest) = u.as_chunks::<ROW_LANES>();
                let mut parts: [&[[f64; ROW_LANES]]; R] = [&[]; R];
                for (part, row) in parts.iter_mut().zip(rows.chunks_exact(m)) {
                    *part = &row.as_chunks().0[..us.len()];
                }
                let mut lanes = [[spread(0.0); VECTORS]; R];
                for (j, u) in us.iter().enumerate() {
                    let u = u.as_chunks::<$width>().0;
                    for (lanes, part) in lanes.iter_mut().zip(parts) {
                        for ((lane, x), u) in lanes.iter_mut().zip(part[j].as_chunks().0).zip(u) {
                            *lane = add(*lane, mul(load(x), load(u)));
                        }
                    }
                }
                for ((out, lanes), row) in out.iter_mut().zip(lanes).zip(rows.chunks_exact(m)) {
                    *out = total::<ROW_LANES, VECTORS>(lanes) + rest(&row[m - u_rest.len()..], u_rest, |x, y| x * y);
                }
            }

            #[target_feature(enable = $feature)]
            pub(super) fn apply(matrix: &[f64], u: &[f64], out: &mut [f64]) {
                let m = u.len().max(1);
                let (several, single) = out.as_chunks_mut::<$rows>();
                let mut rows = matrix.chunks_exact($rows * m);
                for (out, rows) in several.iter_mut().zip(&mut rows) {
                    products(rows, u, out);
                }
                for (out, row) in single.iter_mut().zip(rows.remainder().chunks_exact(m)) {
                    products(row, u, std::array::from_mut(out));
                }
            }

            /// The lanes are those of `vec::dot`. Rows are independent, so that the processor overlaps them.
            #[target_feature(enable = $feature)]
            pub(super) fn row_products(matrix: &[f64], x: &[f64], out: &mut [f64]) {
                let (xs, x_rest) = x.as_chunks::<{ vec::LANES }>();
                for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len().max(1))) {
                    let (rows, row_rest) = row.as_chunks::<{ vec::LANES }>();
                    let mut sums = [spread(0.0); vec::LANES / $width];
                    for (row, x) in rows.iter().zip(xs) {
                        for ((sum, row), x) in sums.iter_mut().zip(row.as_chunks().0).zip(x.as_chunks().0) {
                            *sum = add(*sum, mul(load(row), load(x)));
                        }
                    }
                    let mut lanes = [0.0; vec::LANES];
                    for (lanes, sum) in lanes.as_chunks_mut().0.iter_mut().zip(sums) {
                        store(lanes, sum);
                    }
                    *out = vec::fold(lanes) + vec::rest(row_rest, x_rest, |x, y| x * y);
                }
            }

            #[target_feature(enable = $feature)]
            pub(super) fn add_combined(matrix: &[f64], t: &[f64], out: &mut [f64]) {
                let m = out.len().max(1);
                let whole = out.len() / $width * $width;
                let (mut fours, mut weights) = (matrix.chunks_exact(4 * m), t.chunks_exact(4));
                for (rows, t) in (&mut fours).zip(&mut weights) {
                    let ((a, b), (c, d)) = (super::halves(&rows[..2 * m]), super::halves(&rows[2 * m..]));
                    let [p, q, r, s] = [spread(t[0]), spread(t[1]), spread(t[2]), spread(t[3])];
                    let (outs, last) = out.as_chunks_mut::<$width>();
                    let all = outs.iter_mut().zip(a.as_chunks().0).zip(b.as_chunks().0).zip(c.as_chunks().0).zip(d.as_chunks().0);
                    for ((((out, a), b), c), d) in all {
                        let (ab, cd) = (add(mul(p, load(a)), mul(q, load(b))), add(mul(r, load(c)), mul(s, load(d))));
                        store(out, add(load(out), add(ab, cd)));
                    }
                    for ((((out, a), b), c), d) in
                        last.iter_mut().zip(&a[whole..]).zip(&b[whole..]).zip(&c[whole..]).zip(&d[whole..])
                    {
                        *out += (t[0] * a + t[1] * b) + (t[2] * c + t[3] * d);
                    }
                }
                for (row, t) in fours.remainder().chunks_exact(m).zip(weights.remainder()) {
                    super::add_scaled_here(out, *t, row);
                }
            }

            /// Processes a block of products that fits into the registers for all rows of the factors.
            #[target_feature(enable = $feature)]
            pub(super) fn add_lower_products(left: &[f64], right: &[f64], rows: usize, out: &mut [f64]) {
                const VECTORS: usize = PANEL / $width;
                let width = left.len() / rows.max(1);
                for (p, left) in left.chunks_exact((rows * PANEL).max(1)).enumerate() {
                    let left = left.as_chunks::<PANEL>().0;
                    for (q, right) in right.chunks_exact(rows * PANEL).take(p + 1).enumerate() {
                        let right = right.as_chunks::<PANEL>().0;
                        for part in 0..PANEL / $tall {
                            let first = (p * PANEL + part * $tall) * width + q * PANEL;
                            let mut sums = [[spread(0.0); VECTORS]; $tall];
                            for (sums, out) in sums.iter_mut().zip(out[first..].chunks(width)) {
                                for (sum, out) in sums.iter_mut().zip(out.as_chunks().0) {
                                    *sum = load(out);
                                }
                            }
                            for (left, right) in left.iter().zip(right) {
                                let mut columns = [spread(0.0); VECTORS];
                                for (column, right) in columns.iter_mut().zip(right.as_chunks().0) {
                                    *column = load(right);
                                }
                                for (sums, left) in sums.iter_mut().zip(&left.as_chunks::<$tall>().0[part]) {
                                    for (sum, column) in sums.iter_mut().zip(columns) {
                                        *sum = add(*sum, mul(spread(*left), column));
                                    }
                                }
                            }
                            for (sums, out) in sums.into_iter().zip(out[first..].chunks_mut(width)) {
                                for (sum, out) in sums.into_iter().zip(out.as_chunks_mut().0) {
                                    store(out, sum);
                                }
                            }
                        }
                    }
                }
            }

            #[target_feature(enable = $feature)]
            pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
                let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
                let mut lanes = [spread(0.0); LANES / $width];
                for (x, y) in xs.iter().zip(ys) {
                    for ((lane, x), y) in lanes.iter_mut().zip(x.as_chunks().0).zip(y.as_chunks().0) {
                        *lane = add(*lane, mul(load(x), load(y)));
                    }
                }
                total::<LANES, { LANES / $width }>(lanes) + rest(x_rest, y_rest, |x, y| x * y)
            }

            #[target_feature(enable = $feature)]
            pub(super) fn distance_squared(x: &[f64], y: &[f64]) -> f64 {
                let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
                let mut lanes = [spread(0.0); LANES / $width];
                for (x, y) in xs.iter().zip(ys) {
                    for ((lane, x), y) in lanes.iter_mut().zip(x.as_chunks().0).zip(y.as_chunks().0) {
                        let away = sub(load(x), load(y));
                        *lane = add(*lane, mul(away, away));
                    }
                }
                total::<LANES, { LANES / $width }>(lanes) + rest(x_rest, y_rest, |x, y| (x - y) * (x - y))
            }

            #[target_feature(enable = $feature)]
            pub(super) fn add_scaled_difference(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) -> f64 {
                let ((ys, y_rest), (xs, x_rest)) = (y.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>());
                let (cs, c_rest) = c.as_chunks::<LANES>();
                let (mut lanes, factor) = ([spread(0.0); LANES / $width], spread(a));
                for ((y, x), c) in ys.iter_mut().zip(xs).zip(cs) {
                    let vectors = y.as_chunks_mut().0.iter_mut().zip(x.as_chunks().0).zip(c.as_chunks().0);
                    for (lane, ((y, x), c)) in lanes.iter_mut().zip(vectors) {
                        let away = sub(load(x), load(c));
                        *lane = add(*lane, mul(away, away));
                        store(y, add(load(y), mul(factor, away)));
                    }
                }
                super::add_difference_here(y_rest, a, x_rest, c_rest);
                total::<LANES, { LANES / $width }>(lanes) + rest(x_rest, c_rest, |x, c| (x - c) * (x - c))
            }
        }
    };
}

// As many rows at a time as the registers allow.
#[cfg(target_arch = "x86_64")]
kernels!(
    avx512, "avx512f", __m512d of 8, 4 rows, 8 rows of a panel,
    _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd
);
#[cfg(target_arch = "x86_64")]
kernels!(
    avx2, "avx2", __m256d of 4, 2 rows, 4 rows of a panel,
    _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd
);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, rate: f64) -> Vec<f64> {
        (0..count).map(|i| (i as f64 * rate).sin() * 10_f64.powi(i as i32 % 5)).collect()
    }

    /// Runs a function in every form that this processor has.
    macro_rules! forms {
        ($name:ident, $here:ident($($argument:expr),*)) => {{
            let mut found = vec![$here($($argument),*)];
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            {
                // SAFETY: the processor is asked first.
                if std::arch::is_x86_feature_detected!("avx512f") {
                    found.push(unsafe { avx512::$name($($argument),*) });
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    found.push(unsafe { avx2::$name($($argument),*) });
                }
            }
            found
        }};
    }

    /// What is written for every processor is the twin, and a plain loop is near.
    #[test]
    fn all_forms_of_products_have_the_same_bits() {
        for (rows, columns) in [(0, 3), (1, 1), (3, 16), (5, 37), (50, 512), (7, 100), (9, 5)] {
            let (matrix, u, t) = (numbers(rows * columns, 0.7), numbers(columns, 1.1), numbers(rows, 0.4));
            let mut each = vec![];
            forms!(
                apply,
                apply_here(&matrix, &u, {
                    each.push(vec![0.0; rows]);
                    each.last_mut().unwrap()
                })
            );
            assert!(each.iter().all(|out| *out == each[0]));
            for (row, found) in matrix.chunks_exact(columns).zip(&each[0]) {
                let plain: f64 = row.iter().zip(&u).map(|(a, b)| a * b).sum();
                assert!((plain - found).abs() <= 1e-9 * (1.0 + plain.abs()), "{plain} {found}");
            }
            let mut each = vec![];
            forms!(
                add_combined,
                add_combined_here(&matrix, &t, {
                    each.push(u.clone());
                    each.last_mut().unwrap()
                })
            );
            assert!(each.iter().all(|out| *out == each[0]));
            for (j, found) in each[0].iter().enumerate() {
                let plain: f64 = u[j] + (0..rows).map(|i| t[i] * matrix[i * columns + j]).sum::<f64>();
                assert!((plain - found).abs() <= 1e-9 * (1.0 + plain.abs()), "{plain} {found}");
            }
        }
    }

    #[test]
    fn all_forms_of_lower_products_have_the_same_bits() {
        for (rows, panels) in [(0, 2), (1, 1), (3, 1), (5, 2), (64, 3), (7, 9)] {
            let width = panels * PANEL;
            let (left, right, start) = (numbers(rows * width, 0.7), numbers(rows * width, 1.1), numbers(width * width, 0.4));
            let mut each = vec![];
            forms!(
                add_lower_products,
                add_lower_products_here(&left, &right, rows, {
                    each.push(start.clone());
                    each.last_mut().unwrap()
                })
            );
            let at = |m: &[f64], k: usize, c: usize| m[(c / PANEL * rows + k) * PANEL + c % PANEL];
            for (c, j) in (0..width).flat_map(|c| (0..=c).map(move |j| (c, j))) {
                let entry = c * width + j;
                let plain = (0..rows).fold(start[entry], |sum, k| sum + at(&left, k, c) * at(&right, k, j));
                assert!(each.iter().all(|out| out[entry] == plain), "{rows} {panels} {c} {j}");
            }
        }
    }

    #[test]
    fn all_forms_of_sums_have_the_same_bits() {
        for len in [0, 1, 31, 32, 33, 100, 5003] {
            let (x, y, start) = (numbers(len, 0.7), numbers(len, 1.1), numbers(len, 0.2));
            let near = |found: &[f64], plain: f64| {
                assert!(found.iter().all(|f| f.to_bits() == found[0].to_bits()), "{len}");
                assert!((plain - found[0]).abs() <= 1e-9 * (1.0 + plain.abs()), "{plain} {found:?}");
            };
            near(&forms!(dot, dot_here(&x, &y)), (0..len).map(|i| x[i] * y[i]).sum());
            let away = forms!(distance_squared, distance_squared_here(&x, &y));
            near(&away, (0..len).map(|i| (x[i] - y[i]).powi(2)).sum());
            let mut each = vec![];
            let both = forms!(
                add_scaled_difference,
                add_scaled_difference_here(
                    {
                        each.push(start.clone());
                        each.last_mut().unwrap()
                    },
                    0.3,
                    &x,
                    &y
                )
            );
            assert!(both.iter().all(|b| b.to_bits() == away[0].to_bits()));
            assert!(each.iter().all(|out| (0..len).all(|i| out[i] == start[i] + 0.3 * (x[i] - y[i]))));
        }
    }

    #[test]
    fn products_with_rows_have_the_bits_of_single_rows() {
        for (rows, cols) in [(0, 3), (1, 1), (7, 8), (40, 53), (9, 200)] {
            let (matrix, x, t) = (numbers(rows * cols, 0.7), numbers(cols, 1.1), numbers(rows, 0.4));
            let row = |i: usize| &matrix[i * cols..(i + 1) * cols];
            let mut each = vec![];
            forms!(
                row_products,
                row_products_here(&matrix, &x, {
                    each.push(vec![0.0; rows]);
                    each.last_mut().unwrap()
                })
            );
            let dot = |i: usize| crate::math::vec::dot(row(i), &x).to_bits();
            assert!(each.iter().all(|products| (0..rows).all(|i| products[i].to_bits() == dot(i))));
            let mut plain = x.clone();
            (0..rows).for_each(|i| crate::math::vec::add_scaled(&mut plain, t[i], row(i)));
            let mut all = x.clone();
            add_all_rows(&matrix, &t, &mut all);
            assert_eq!(all, plain);
            let members: Vec<u32> = (2..rows as u32).step_by(3).collect();
            let (mut plain, mut picked) = (x.clone(), x.clone());
            members.iter().zip(&t).for_each(|(&i, t)| crate::math::vec::add_scaled(&mut plain, *t, row(i as usize)));
            let from_second: Vec<u32> = members.iter().map(|i| i - 2).collect();
            add_picked_rows(&matrix, 2, &from_second, &t, &mut picked);
            assert_eq!(picked, plain);
        }
    }

    #[test]
    fn packed_rows_are_those_of_the_matrix() {
        for (cols, ones) in [(1, false), (7, true), (8, false), (8, true), (13, true)] {
            let (matrix, h) = (numbers(5 * cols, 0.7), numbers(5, 0.3));
            let (capacity, width) = (6, (cols + usize::from(ones)).div_ceil(PANEL) * PANEL);
            let (mut plain, mut weighted) = (vec![9.0; capacity * width], vec![9.0; capacity * width]);
            pack_rows(&matrix, cols, ones, &h, capacity, [&mut plain, &mut weighted]);
            for (k, c) in (0..capacity).flat_map(|k| (0..width).map(move |c| (k, c))) {
                let at = (c / PANEL * capacity + k) * PANEL + c % PANEL;
                let want = match c {
                    _ if k >= 5 => 9.0,
                    c if c < cols => matrix[k * cols + c],
                    c if c == cols && ones => 1.0,
                    _ => 0.0,
                };
                assert_eq!(plain[at], want);
                assert!(k >= 5 || weighted[at] == h[k] * want);
            }
        }
    }

    #[test]
    fn loops_without_sums_are_the_plain_ones() {
        let (x, y, start) = (numbers(5003, 0.7), numbers(5003, 1.1), numbers(5003, 0.2));
        let check = |change: &dyn Fn(&mut [f64]), plain: &dyn Fn(usize) -> f64| {
            let mut out = start.clone();
            change(&mut out);
            assert!(out.iter().enumerate().all(|(i, out)| *out == plain(i)));
        };
        check(&|out| add_scaled(out, 0.3, &x), &|i| start[i] + 0.3 * x[i]);
        check(&|out| approach(out, 0.3, &x), &|i| start[i] + 0.3 * (x[i] - start[i]));
        check(&|out| step_from(out, &x, 0.3), &|i| x[i] - 0.3 * start[i]);
        check(&|out| add_difference(out, 0.3, &x, &y), &|i| start[i] + 0.3 * (x[i] - y[i]));
        let (a, b, c) = (&x[..7], &x[7..14], &x[14..21]);
        let (p, q, r) = (&y[..19], &y[19..38], &y[38..57]);
        let mut out = vec![0.0; 7 * 19];
        for count in 1..=3 {
            outer_products(&mut out, &[(a, p), (b, q), (c, r)][..count]);
            for (k, out) in out.iter().enumerate() {
                let (i, j) = (k / 19, k % 19);
                let terms = [a[i] * p[j], b[i] * q[j], c[i] * r[j]];
                assert_eq!(*out, terms[..count].iter().skip(1).fold(terms[0], |sum, term| sum + term));
            }
        }
    }

    #[test]
    fn one_entry_that_is_not_finite_is_seen_anywhere() {
        let mut x = numbers(5003, 0.7);
        x[17] = f64::MAX;
        x[18] = f64::MIN_POSITIVE / 4.0;
        assert!(all_finite(&x) && all_finite(&[]));
        for i in [0, 31, 4096, 5002] {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN] {
                let kept = std::mem::replace(&mut x[i], bad);
                assert!(!all_finite(&x), "{i} {bad}");
                x[i] = kept;
            }
        }
    }
}
