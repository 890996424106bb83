//! The simplex: non-negative coordinates with a given sum, with a projection in expected linear time. Subsets of the simplex
//! such as `chi_square` have their own files.

use super::{Set, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// All points with non-negative coordinates whose sum is `total`, in a space of any dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simplex {
    total: f64,
}

/// Entries per block of the filter; the lower bound on the threshold rises between blocks.
const BLOCK: usize = 256;

/// Number of filter rounds before the search by pivots takes over; bounding it keeps the total cost linear.
const ROUNDS: usize = 6;

impl Simplex {
    /// Builds the simplex of points with the given sum.
    pub fn new(total: f64) -> Result<Self> {
        // Subnormal totals would make total / dim vanish.
        if total > 0.0 && total.is_normal() {
            Ok(Simplex { total })
        } else {
            Err(Error::setting("total of the simplex", total, "a finite number larger than 0"))
        }
    }

    /// Returns the sum of the coordinates.
    pub fn total(&self) -> f64 {
        self.total
    }
}

impl Set for Simplex {
    /// The nearest point is `max(0, x - threshold)`. Subtracting the largest entry first preserves the digits of the total for
    /// entries of any size.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        if x.is_empty() {
            return Err(Error::Length { what: format!("the point for the {}", self.describe()), got: 0, wanted: 1 });
        }
        let largest = largest(x);
        if !largest.is_finite() {
            // If all entries are NaN, the maximum still has its start value; report NaN instead of infinity.
            let value = if x.iter().all(|v| v.is_nan()) { f64::NAN } else { largest };
            return Err(Error::NotFinite { what: format!("the largest entry of the point for the {}", self.describe()), value });
        }
        let space = &mut warm.values;
        space.clear();
        space.reserve(x.len());
        let threshold = threshold(x.len(), |i| x[i] - largest, self.total, space);
        space.clear();
        for v in x {
            let over = (*v - largest) - threshold;
            // `max` would replace NaN by zero.
            *v = if over <= 0.0 { 0.0 } else { over };
        }
        Ok(())
    }

    fn diameter(&self, dim: usize) -> f64 {
        if dim < 2 { 0.0 } else { std::f64::consts::SQRT_2 * self.total }
    }

    /// Returns the corner of the smallest entry of the slope, the first one in a tie.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        let mut best: Option<(usize, f64)> = None;
        for (i, &s) in slope.iter().enumerate() {
            if best.is_none_or(|(_, b)| s < b) {
                best = Some((i, s));
            }
        }
        let (corner, _) = best?;
        out.fill(0.0);
        out[corner] = self.total;
        Some(())
    }

    fn describe(&self) -> String {
        format!("simplex of total {}", self.total)
    }
}

/// Returns the largest entry, ignoring NaN, in eight lanes.
fn largest(x: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; 8];
    let blocks = x.chunks_exact(8);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, &v) in lanes.iter_mut().zip(block) {
            *lane = if v > *lane { v } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f64::NEG_INFINITY, |m, &v| if v > m { v } else { m })
}

/// Finds the t with `sum_i max(0, y(i) - t) = total` over `len` entries, the largest of which lies between 0 and `total`;
/// `space` is empty with capacity for all.
///
/// Every subset V of the entries gives the lower bound `(sum V - total) / |V| <= t`, so entries at or below such a bound are
/// zero in the projection and can be dropped (Condat 2016). Few entries usually survive one pass over `x`.
#[inline(always)]
pub(crate) fn threshold(len: usize, y: impl Fn(usize) -> f64, total: f64, space: &mut Vec<f64>) -> f64 {
    filter(len, y, total, space).unwrap_or_else(|| threshold_by_pivots(space, total))
}

/// Returns the threshold if a few rounds of dropping entries find it; otherwise `space` holds the undecided entries.
#[inline(always)]
fn filter(len: usize, y: impl Fn(usize) -> f64, total: f64, space: &mut Vec<f64>) -> Option<f64> {
    // V = {largest entry}: y is at least 0 there.
    let mut bound = -total;
    let mut sum = 0.0;
    let mut kept = [0.0; BLOCK];
    for from in (0..len).step_by(BLOCK) {
        let mut count = 0;
        for i in from..len.min(from + BLOCK) {
            let y = y(i);
            // Written unconditionally and counted if above the bound, which avoids a mispredicted branch. `count` stays below
            // BLOCK here.
            kept[count & (BLOCK - 1)] = y;
            count += usize::from(y > bound);
        }
        if count > 0 {
            let block_sum = vec::sum(&kept[..count]);
            sum += block_sum;
            space.extend_from_slice(&kept[..count]);
            // V = all entries so far, and V = this block, which is better if the entries ascend.
            bound = bound.max((sum - total) / space.len() as f64).max((block_sum - total) / count as f64);
        }
    }
    let mean_bound = (sum - total) / space.len() as f64;
    if bound > mean_bound {
        let left = keep_first(space, |v| v > bound);
        space.truncate(left);
    }
    // Michelot's rounds: drop what the bound of all remaining entries excludes. Once nothing is dropped, the bound is t.
    for _ in 0..ROUNDS {
        if space.is_empty() {
            // Reached only by rounding at the ends of the range of f64.
            return Some(bound);
        }
        bound = (vec::sum(space) - total) / space.len() as f64;
        let left = keep_first(space, |v| v > bound);
        if left == space.len() {
            return Some(bound);
        }
        space.truncate(left);
    }
    None
}

/// Moves the entries that `keep` accepts to the front and returns their number, without branches on entries.
#[inline(always)]
fn keep_first(y: &mut [f64], keep: impl Fn(f64) -> bool) -> usize {
    let mut count = 0;
    for i in 0..y.len() {
        let v = y[i];
        y.swap(i, count);
        count += usize::from(keep(v));
    }
    count
}

/// Finds the threshold by pivots drawn from the entries (Duchi, Shalev-Shwartz, Singer & Chandra 2008) in expected linear time
/// for any order. The draws have a fixed seed.
fn threshold_by_pivots(mut open: &mut [f64], total: f64) -> f64 {
    // Sum and number of the entries known to be above the threshold.
    let (mut sum, mut count) = (0.0, 0.0);
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    while !open.is_empty() {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pivot = open[((draw >> 33) as usize) % open.len()];
        let above = keep_first(open, |v| v > pivot);
        let (over, rest) = open.split_at_mut(above);
        let (new_sum, new_count) = (sum + vec::sum(over), count + above as f64);
        // The left-hand side is sum_i max(0, y_i - pivot), larger than the total if the threshold is above the pivot.
        if new_sum - new_count * pivot >= total {
            // Entries equal to the pivot are decided too, so that ties cannot stall the search.
            open = over;
        } else {
            let equal = keep_first(rest, |v| v == pivot);
            sum = new_sum + equal as f64 * pivot;
            count = new_count + equal as f64;
            open = &mut rest[equal..];
        }
    }
    (sum - total) / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};
    use crate::sets::testing;
    use proptest::prelude::*;

    /// By a full sort (Held, Wolfe & Crowder 1974).
    fn twin(x: &[f64], total: f64) -> Vec<f64> {
        let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut y: Vec<f64> = x.iter().map(|v| v - largest).collect();
        y.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut t) = (0.0, -total);
        for (k, v) in y.iter().enumerate() {
            sum += v;
            let trial = (sum - total) / (k + 1) as f64;
            if *v > trial {
                t = trial;
            }
        }
        x.iter().map(|v| ((v - largest) - t).max(0.0)).collect()
    }

    fn project(x: &[f64], total: f64) -> Vec<f64> {
        let mut x = x.to_vec();
        Simplex::new(total).unwrap().project(&mut x, &mut Warm::default()).unwrap();
        x
    }

    fn close(got: &[f64], wanted: &[f64], tol: f64) {
        assert_eq!(got.len(), wanted.len());
        for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
            assert!((g - w).abs() <= tol, "entry {i}: {g} against {w}");
        }
    }

    #[test]
    fn known_answers() {
        let cases: [(&[f64], &[f64]); 6] = [
            (&[0.5, 0.5, 0.5], &[1.0 / 3.0; 3]),
            (&[1.2, 0.1, -0.5], &[1.0, 0.0, 0.0]),
            (&[0.5, 0.0], &[0.75, 0.25]),
            (&[0.6, 0.5, -1.0], &[0.55, 0.45, 0.0]),
            (&[1e6, 0.0, 0.0], &[1.0, 0.0, 0.0]),
            (&[0.0; 4], &[0.25; 4]),
        ];
        for (x, wanted) in cases {
            close(&project(x, 1.0), wanted, 1e-15);
            // Doubling everything doubles the answer.
            let double: Vec<f64> = x.iter().map(|v| 2.0 * v).collect();
            close(&project(&double, 2.0), &wanted.iter().map(|v| 2.0 * v).collect::<Vec<_>>(), 2e-15);
        }
        assert_eq!(project(&[-7.0], 3.0), [3.0]);
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        for (dim, total) in [(1, 1.0), (2, 0.3), (7, 1.0), (40, 25.0)] {
            let member = |u: &[f64]| -> Vec<f64> {
                let e: Vec<f64> = u.iter().map(|u| -(1.0 - u).ln() + 1e-12).collect();
                let sum: f64 = e.iter().sum();
                e.iter().map(|e| total * e / sum).collect()
            };
            testing::check_set(&Simplex::new(total).unwrap(), dim, member, |x| twin(x, total));
        }
    }

    #[test]
    fn agrees_with_the_sort_in_every_order_and_size() {
        // Few distinct values make ties; exponents spread the sizes; a large shift must not cost digits of the total.
        let entry = prop_oneof![(-3i32..3).prop_map(f64::from), -1.0..1.0f64, (-12.0..3.0f64).prop_map(|e| 10f64.powf(e))];
        let input = (prop::collection::vec(entry, 1..1200), -6.0..3.0f64, prop_oneof![Just(0.0), Just(1e6), Just(-3e9)], 0..3u8);
        testing::runner()
            .run(&input, |(mut x, e, shift, order)| {
                let total = 10f64.powf(e);
                x.iter_mut().for_each(|v| *v += shift);
                match order {
                    1 => x.sort_by(f64::total_cmp),
                    2 => x.sort_by(|a, b| b.total_cmp(a)),
                    _ => {}
                }
                let got = project(&x, total);
                close(&got, &twin(&x, total), 1e-12 * total);
                prop_assert!((got.iter().sum::<f64>() - total).abs() <= 1e-12 * total);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn pivots_alone_agree_with_the_sort() {
        let input = (prop::collection::vec(prop_oneof![(-3i32..1).prop_map(f64::from), -5.0..0.0f64], 1..300), 0.01..50.0f64);
        testing::runner()
            .run(&input, |(mut y, total)| {
                let largest = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                y.iter_mut().for_each(|v| *v -= largest);
                let wanted = twin(&y, total);
                let t = threshold_by_pivots(&mut y.clone(), total);
                close(&y.iter().map(|v| (v - t).max(0.0)).collect::<Vec<_>>(), &wanted, 1e-12 * total);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn inputs_that_defeat_the_filter_are_left_to_the_pivots() {
        // Clusters that double in number and lie deeper by 1.5 times the mean excess: each round drops the deepest one alone.
        // They ascend, so that the first pass drops nothing, and are so many that no block knows better than the whole.
        let mut x = vec![0.0; 6 * BLOCK];
        let mut depth = 1.0 / x.len() as f64;
        for _ in 0..ROUNDS + 1 {
            x.extend(vec![-1.5 * depth; x.len()]);
            depth *= 1.25;
        }
        x.reverse();
        assert_eq!(filter(x.len(), |i| x[i], 1.0, &mut Vec::new()), None);
        close(&project(&x, 1.0), &twin(&x, 1.0), 1e-14);
    }

    #[test]
    fn long_vectors_keep_their_total() {
        let mut rng = Rng::new(3, Purpose::Data);
        let x: Vec<f64> = (0..100_000).map(|_| rng.uniform()).collect();
        for total in [1.0, 3e4, 1e7] {
            let got = project(&x, total);
            close(&got, &twin(&x, total), 1e-10 * total);
            assert!((vec::sum(&got) - total).abs() <= 1e-12 * total);
        }
    }

    #[test]
    fn working_space_is_kept_and_left_empty() {
        let set = Simplex::new(1.0).unwrap();
        let mut warm = Warm::default();
        let mut x = vec![0.0; 500];
        x[3] = 9.0;
        set.project(&mut x, &mut warm).unwrap();
        let memory = (warm.values.as_ptr(), warm.values.capacity());
        // All entries are candidates now: the first call must already have made room for them.
        set.project(&mut vec![0.5; 500], &mut warm).unwrap();
        assert_eq!((warm.values.as_ptr(), warm.values.capacity()), memory);
        assert_eq!(warm, Warm::default());
    }

    #[test]
    fn nan_is_not_hidden_and_infinity_is_refused() {
        let set = Simplex::new(1.0).unwrap();
        let mut warm = Warm::default();
        let mut x = [0.5, f64::NAN, 0.0];
        set.project(&mut x, &mut warm).unwrap();
        assert!(x[1].is_nan());
        assert_eq!((x[0], x[2]), (0.75, 0.25));
        let mut x = [0.5, f64::NEG_INFINITY, 0.0];
        set.project(&mut x, &mut warm).unwrap();
        assert_eq!(x, [0.75, 0.0, 0.25]);
        let refuse = |x: &mut [f64]| set.project(x, &mut Warm::default()).unwrap_err().to_string();
        let start = "the largest entry of the point for the simplex of total 1 is";
        assert_eq!(refuse(&mut [1.0, f64::INFINITY]), format!("{start} inf; expected a finite number"));
        assert_eq!(refuse(&mut [f64::NAN; 3]), format!("{start} NaN; expected a finite number"));
        assert_eq!(refuse(&mut []), "the point for the simplex of total 1 has 0 entries; expected 1");
    }

    #[test]
    fn first_corner_wins_a_tie() {
        let set = Simplex::new(2.0).unwrap();
        let mut out = [9.0; 3];
        set.linear_minimizer(&[1.0, -1.0, -1.0], &mut out).unwrap();
        assert_eq!(out, [0.0, 2.0, 0.0]);
        assert_eq!(set.linear_minimizer(&[1.0, f64::NAN, 0.0], &mut out), None);
        assert_eq!(set.linear_minimizer(&[], &mut []), None);
        assert_eq!((set.diameter(1), set.diameter(5)), (0.0, 8f64.sqrt()));
    }

    #[test]
    fn bad_totals_are_refused_with_a_sentence() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let message = Simplex::new(bad).unwrap_err().to_string();
            assert_eq!(message, format!("total of the simplex must be a finite number larger than 0, got {bad}"));
        }
    }
}
