//! Dense vector kernels with a fixed order of summation: eight lanes that are added pairwise, which vectorises and is more
//! accurate than one running sum. Kernels for long vectors are in `wide`.

use super::wide;

/// Lanes of a sum.
pub(super) const LANES: usize = 8;

/// Length from which sums use the lanes of `wide`.
pub(super) const LONG: usize = 4096;

/// Length from which detecting the processor's features pays off; the bits are the same either way.
const ASK: usize = 128;

/// Adds eight lanes in a fixed order.
#[inline(always)]
pub(super) fn fold(lanes: [f64; LANES]) -> f64 {
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// Sums `term(i)` for `i` in `0..len`, in eight lanes.
#[inline(always)]
pub fn sum_by(len: usize, mut term: impl FnMut(usize) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let whole = len / LANES * LANES;
    let mut i = 0;
    while i < whole {
        for (k, lane) in lanes.iter_mut().enumerate() {
            *lane += term(i + k);
        }
        i += LANES;
    }
    let mut rest = 0.0;
    for i in whole..len {
        rest += term(i);
    }
    fold(lanes) + rest
}

/// Sums `term(x_i, y_i)` with the same bits as [`sum_by`]; chunks of eight entries avoid bounds checks, which would prevent
/// vectorisation.
#[inline(always)]
fn sum_pairs(x: &[f64], y: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y[..x.len()].as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (x, y) in xs.iter().zip(ys) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += term(*x, *y);
        }
    }
    fold(lanes) + rest(x_rest, y_rest, term)
}

/// Sums the remaining entries that do not fill the lanes.
#[inline(always)]
pub(super) fn rest(x: &[f64], y: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut rest = 0.0;
    for (x, y) in x.iter().zip(y) {
        rest += term(*x, *y);
    }
    rest
}

/// Computes the sum of the entries.
pub fn sum(x: &[f64]) -> f64 {
    sum_pairs(x, x, |x, _| x)
}

/// Computes the inner product of two vectors of the same length.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    if x.len() >= LONG {
        return wide::dot(x, &y[..x.len()]);
    }
    sum_pairs(x, y, |x, y| x * y)
}

/// Computes the squared Euclidean norm.
pub fn norm_squared(x: &[f64]) -> f64 {
    dot(x, x)
}

/// Computes the square root of the sum of `term(i)^2`, safe against overflow and underflow of the squares.
#[inline]
pub fn norm_by(len: usize, term: impl Fn(usize) -> f64) -> f64 {
    root(sum_by(len, |i| term(i) * term(i)), len, term)
}

/// Computes the root of a sum of squares; the terms are used only if the sum overflows or underflows.
#[inline(always)]
fn root(squares: f64, len: usize, term: impl Fn(usize) -> f64) -> f64 {
    if squares.is_nan() || (squares.is_normal() && squares < 1e300) {
        return squares.sqrt();
    }
    let largest = (0..len).fold(0.0_f64, |m, i| m.max(term(i).abs()));
    if largest == 0.0 || largest.is_infinite() {
        return largest;
    }
    largest * sum_by(len, |i| (term(i) / largest).powi(2)).sqrt()
}

/// Computes the Euclidean norm.
pub fn norm(x: &[f64]) -> f64 {
    root(norm_squared(x), x.len(), |i| x[i])
}

/// Computes the Euclidean distance.
pub fn distance(x: &[f64], y: &[f64]) -> f64 {
    let y = &y[..x.len()];
    let squares = if x.len() >= LONG { wide::distance_squared(x, y) } else { sum_pairs(x, y, |x, y| (x - y) * (x - y)) };
    root(squares, x.len(), |i| x[i] - y[i])
}

/// Computes `y += a x`.
pub fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    if y.len() >= ASK {
        return wide::add_scaled(y, a, x);
    }
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// Computes `y += a (x - c)` and returns the distance of x and c, with the same bits as [`distance`].
pub fn add_scaled_difference(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) -> f64 {
    let len = y.len();
    let (x, c) = (&x[..len], &c[..len]);
    if len >= LONG {
        return root(wide::add_scaled_difference(y, a, x, c), len, |i| x[i] - c[i]);
    }
    let ((ys, y_rest), (xs, x_rest), (cs, c_rest)) = (y.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>(), c.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for ((y, x), c) in ys.iter_mut().zip(xs).zip(cs) {
        for (((lane, y), x), c) in lanes.iter_mut().zip(y).zip(x).zip(c) {
            let away = x - c;
            *lane += away * away;
            *y += a * away;
        }
    }
    let mut rest = 0.0;
    for ((y, x), c) in y_rest.iter_mut().zip(x_rest).zip(c_rest) {
        let away = x - c;
        rest += away * away;
        *y += a * away;
    }
    root(fold(lanes) + rest, len, |i| x[i] - c[i])
}

/// Computes `y += a (x - c)`.
pub fn add_difference(y: &mut [f64], a: f64, x: &[f64], c: &[f64]) {
    wide::add_difference(y, a, x, c);
}

/// Computes `y += a (x - y)`.
pub fn approach(y: &mut [f64], a: f64, x: &[f64]) {
    wide::approach(y, a, x);
}

/// Computes `d = x - a d`, the point after a step of length a along -d.
pub fn step_from(d: &mut [f64], x: &[f64], a: f64) {
    wide::step_from(d, x, a);
}

/// Computes `x *= a`.
pub fn scale(x: &mut [f64], a: f64) {
    for x in x {
        *x *= a;
    }
}

/// Returns the first entry that is not finite, with its position.
pub fn first_not_finite(x: &[f64]) -> Option<(usize, f64)> {
    if wide::all_finite(x) {
        return None;
    }
    x.iter().copied().enumerate().find(|(_, v)| !v.is_finite())
}

/// Returns the index and the value of the first largest entry; `None` for an empty slice or one that holds only NaN.
pub fn first_max(x: &[f64]) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (i, &v) in x.iter().enumerate() {
        if best.is_none_or(|(_, b)| v > b) && !v.is_nan() {
            best = Some((i, v));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_the_plain_loop() {
        let x: Vec<f64> = (0..1003).map(|i| (i as f64 * 0.7).sin()).collect();
        let y: Vec<f64> = (0..1003).map(|i| (i as f64 * 0.3).cos()).collect();
        let naive: f64 = x.iter().zip(&y).map(|(a, b)| a * b).sum();
        assert!((dot(&x, &y) - naive).abs() < 1e-12);
        assert!((sum(&x) - x.iter().sum::<f64>()).abs() < 1e-12);
    }

    #[test]
    fn sums_by_eights_have_the_bits_of_sums_by_index() {
        for len in [0, 1, 7, 8, 9, 16, 1003] {
            let x: Vec<f64> = (0..len).map(|i| (i as f64 * 0.7).sin()).collect();
            let y: Vec<f64> = (0..len + 3).map(|i| (i as f64 * 0.3).cos()).collect();
            let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits(), "{len}");
            same(dot(&x, &y), sum_by(len, |i| x[i] * y[i]));
            same(sum(&x), sum_by(len, |i| x[i]));
            same(norm(&x), norm_by(len, |i| x[i]));
            same(distance(&x, &y), norm_by(len, |i| x[i] - y[i]));
            let (mut moved, by_index) = (x.clone(), |i: usize| x[i] + 0.3 * (x[i] - y[i]));
            same(add_scaled_difference(&mut moved, 0.3, &x, &y), distance(&x, &y));
            moved.iter().enumerate().for_each(|(i, m)| same(*m, by_index(i)));
        }
    }

    /// At the length where the lanes change every way of asking still gives the same number.
    #[test]
    fn long_sums_agree_with_short_ones() {
        for len in [LONG - 1, LONG, LONG + 5] {
            let x: Vec<f64> = (0..len).map(|i| (i as f64 * 0.7).sin()).collect();
            let y: Vec<f64> = (0..len + 3).map(|i| (i as f64 * 0.3).cos()).collect();
            let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-13 * (1.0 + b.abs()), "{len} {a} {b}");
            near(dot(&x, &y), sum_by(len, |i| x[i] * y[i]));
            near(norm(&x), norm_by(len, |i| x[i]));
            near(distance(&x, &y), norm_by(len, |i| x[i] - y[i]));
            let mut moved = x.clone();
            assert_eq!(add_scaled_difference(&mut moved, 0.3, &x, &y).to_bits(), distance(&x, &y).to_bits());
            assert!((0..len).all(|i| moved[i] == x[i] + 0.3 * (x[i] - y[i])));
        }
        // Squares that overflow are looked at again here too.
        assert!((norm(&vec![1e200; LONG]) / (1e200 * (LONG as f64).sqrt()) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn norm_survives_extremes() {
        assert_eq!(norm(&[]), 0.0);
        assert!((norm(&[3e200, 4e200]) / 5e200 - 1.0).abs() < 1e-15);
        assert!((norm(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 1e-15);
        assert!(norm(&[f64::NAN, 1.0]).is_nan());
        assert_eq!(norm(&[f64::INFINITY, 1.0]), f64::INFINITY);
    }

    #[test]
    fn first_of_equal_maxima_wins_and_nan_never() {
        assert_eq!(first_max(&[1.0, 3.0, 3.0]), Some((1, 3.0)));
        assert_eq!(first_max(&[f64::NAN, 2.0]), Some((1, 2.0)));
        assert_eq!(first_max(&[f64::NAN]), None);
    }

    #[test]
    fn non_finite_entries_are_located() {
        assert_eq!(first_not_finite(&[1.0, 2.0]), None);
        assert_eq!(first_not_finite(&[1.0, f64::INFINITY, f64::NAN]), Some((1, f64::INFINITY)));
        // Huge but finite entries overflow the quick sum and must still pass.
        assert_eq!(first_not_finite(&[f64::MAX, f64::MAX]), None);
    }
}
