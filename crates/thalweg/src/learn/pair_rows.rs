//! Linear inequalities of ranking for projections: `<w, x_i - x_j> >= 0` for every positive row i and negative row j, as all
//! pairs or collapsed to one inequality per row. Pairs are never stored.

use crate::math::{Matrix, vec};
use crate::oracle::Region;
use crate::oracle::region::{lmo_finish_on_cone, lmo_target_of_cone};
use crate::sets::Warm;
use crate::sets::polyhedron::{Rows, SweepResult};
use crate::{Error, Result};

/// All pairs: inequality k has the row `x_i - x_j` with `i = positives[k / n]` and `j = negatives[k % n]`, where n is the
/// number of negatives.
#[derive(Debug, Clone, Copy)]
pub struct PairRows<'a> {
    /// Features, one row per example.
    pub features: &'a Matrix,
    /// Rows that must score high.
    pub positives: &'a [u32],
    /// Rows that must score low.
    pub negatives: &'a [u32],
    /// `||x_i - x_j||^2` for each pair, from [`PairRows::squares`].
    pub squares: &'a [f64],
}

impl PairRows<'_> {
    /// Computes the squared lengths of all pairs. Differences are formed entry by entry, so that equal points give exactly 0.
    pub fn squares(features: &Matrix, positives: &[u32], negatives: &[u32]) -> Vec<f64> {
        let mut difference = vec![0.0; features.cols()];
        let mut squares = Vec::with_capacity(positives.len() * negatives.len());
        for &i in positives {
            for &j in negatives {
                difference.fill(0.0);
                features.add_row(i as usize, 1.0, &mut difference);
                features.add_row(j as usize, -1.0, &mut difference);
                squares.push(vec::norm_squared(&difference));
            }
        }
        squares
    }

    fn pair(&self, k: usize) -> (usize, usize) {
        let n = self.negatives.len();
        (self.positives[k / n] as usize, self.negatives[k % n] as usize)
    }
}

impl Rows for PairRows<'_> {
    fn len(&self) -> usize {
        self.squares.len()
    }
    fn dot(&self, k: usize, x: &[f64]) -> f64 {
        let (high, low) = self.pair(k);
        self.features.row_dot(high, x) - self.features.row_dot(low, x)
    }
    fn add(&self, k: usize, weight: f64, x: &mut [f64]) {
        let (high, low) = self.pair(k);
        self.features.add_row(high, weight, x);
        self.features.add_row(low, -weight, x);
    }
    fn square(&self, k: usize) -> f64 {
        self.squares[k]
    }
}

/// The same cone with a threshold t between the positive and the negative rows, `<w, x_i> >= t >= <w, x_j>`: as many
/// inequalities as rows.
///
/// The distance is measured in w only. Because t is free, the dual variables of the positive rows and those of the negative
/// rows have the same sum, so that they change in pairs, as in sequential minimal optimisation. With the scores `s = <w, x>`, h
/// is the row with the largest score among those that may decrease (negative rows, and positive rows with a positive dual
/// variable), l the row with the smallest score among those that may increase; then `w += delta (x_l - x_h)` with the delta
/// that makes their scores equal, or the largest that keeps the dual variables non-negative. If `s_h <= s_l`, some t lies
/// between, and w is exactly the projection. Each step reads every row once and raises the dual function by the squared largest
/// violation over twice `||x_l - x_h||^2`, so that finitely many steps reach any tolerance.
#[derive(Debug, Clone, Copy)]
pub struct Collapsed<'a> {
    /// Features, one row per example.
    pub features: &'a Matrix,
    /// Rows that must score high.
    pub positives: &'a [u32],
    /// Rows that must score low.
    pub negatives: &'a [u32],
    /// Radius of the ball in which linear functions are minimised.
    pub radius: f64,
}

impl Collapsed<'_> {
    /// Returns the matrix row of dual variable `k`.
    fn row(&self, k: usize) -> usize {
        let of = if k < self.positives.len() { self.positives[k] } else { self.negatives[k - self.positives.len()] };
        of as usize
    }

    fn len(&self) -> usize {
        self.positives.len() + self.negatives.len()
    }

    /// Returns whether dual variable `k` belongs to a positive row.
    fn is_positive(&self, k: usize) -> bool {
        k < self.positives.len()
    }

    /// Returns the largest score that may decrease and the smallest that may increase, each with its index.
    fn worst(&self, numbers: &[f64], w: &[f64]) -> Result<((usize, f64), (usize, f64))> {
        let (mut high, mut low) = ((0, f64::NEG_INFINITY), (0, f64::INFINITY));
        for (k, &number) in numbers.iter().enumerate() {
            let score = self.features.row_dot(self.row(k), w);
            if !score.is_finite() {
                let what = format!("the score of row {} where a point is projected onto ranking constraints", self.row(k) + 1);
                return Err(Error::NotFinite { what, value: score });
            }
            let positive = self.is_positive(k);
            if (!positive || number > 0.0) && score > high.1 {
                high = (k, score);
            }
            if (positive || number > 0.0) && score < low.1 {
                low = (k, score);
            }
        }
        Ok((high, low))
    }
}

/// Squared distance below which two points count as equal.
const NOTHING: f64 = 1e-24;

impl Region for Collapsed<'_> {
    /// Stores in `warm` one dual variable per row, the current point, the target, and working space for a difference.
    fn begin(&self, _at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        let mut visited = 0;
        if warm.values.len() != self.len() {
            warm.values.clear();
            warm.values.resize(self.len(), 0.0);
        }
        warm.parts(3);
        let Warm { values: numbers, parts } = warm;
        let [w, from, _] = parts.as_mut_slice() else { return Ok(0) };
        for copy in [&mut *w, &mut *from] {
            copy.values.clear();
            copy.values.extend_from_slice(target);
        }
        for (k, &number) in numbers.iter().enumerate().filter(|(_, number)| **number != 0.0) {
            self.features.add_row(self.row(k), if self.is_positive(k) { number } else { -number }, &mut w.values);
            visited += 1;
        }
        // The dual function, here `(||target||^2 - ||w||^2) / 2`, is 0 at zero.
        let better = vec::norm_squared(&w.values) < vec::norm_squared(target);
        if visited > 0 && !better {
            numbers.fill(0.0);
            w.values.copy_from_slice(target);
        }
        Ok(visited)
    }

    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        let Warm { values: numbers, parts } = warm;
        let not_begun =
            || Error::Problem("a projection onto ranking constraints is to go on that was not begun with them".into());
        let [w, from, difference] = parts.as_mut_slice() else { return Err(not_begun()) };
        if w.values.len() != x.len() || numbers.len() != self.len() {
            return Err(not_begun());
        }
        let mut swept = SweepResult::default();
        for _ in 0..sweeps {
            let ((h, high), (l, low)) = self.worst(numbers, &w.values)?;
            swept.rows += numbers.len() as u64;
            swept.violation = (high - low).max(0.0);
            if high - low <= tolerance {
                swept.done = true;
                break;
            }
            difference.values.clear();
            difference.values.resize(x.len(), 0.0);
            self.features.add_row(self.row(l), 1.0, &mut difference.values);
            self.features.add_row(self.row(h), -1.0, &mut difference.values);
            let square = vec::norm_squared(&difference.values);
            // A decreasing dual variable stops at 0.
            let mut most = f64::INFINITY;
            if self.is_positive(h) {
                most = most.min(numbers[h]);
            }
            if !self.is_positive(l) {
                most = most.min(numbers[l]);
            }
            let delta = if square < NOTHING { 0.0 } else { ((high - low) / square).min(most) };
            if delta == 0.0 {
                // The points are equal and their scores differ by rounding only.
                swept.done = true;
                break;
            }
            let rise = |number: &mut f64, up: bool| *number = if up { *number + delta } else { (*number - delta).max(0.0) };
            rise(&mut numbers[l], self.is_positive(l));
            rise(&mut numbers[h], !self.is_positive(h));
            vec::add_scaled(&mut w.values, delta, &difference.values);
        }
        x.copy_from_slice(&w.values);
        if swept.done {
            [w, from, difference].into_iter().for_each(|part| part.values.clear());
        }
        Ok(swept)
    }

    fn lmo_target(&self, _at: &[f64], slope: &[f64], out: &mut [f64]) {
        lmo_target_of_cone(slope, out);
    }

    fn lmo_finish(&self, x: &mut [f64]) {
        lmo_finish_on_cone(self.radius, x);
    }

    fn describe(&self) -> String {
        format!("ranking cone of {} rows in a ball of radius {}", self.len(), self.radius)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;
    use crate::oracle::region::Cone;

    /// The projection onto all pairs by an interior-point method; none where it gives up.
    fn by_clarabel(features: &[Vec<f64>], positives: &[u32], negatives: &[u32], target: &[f64]) -> Option<Vec<f64>> {
        use clarabel::algebra::CscMatrix;
        use clarabel::solver::{DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};
        let rows: Vec<Vec<f64>> = positives
            .iter()
            .flat_map(|&i| negatives.iter().map(move |&j| (i as usize, j as usize)))
            .map(|(i, j)| features[i].iter().zip(&features[j]).map(|(high, low)| low - high).collect())
            .collect();
        let linear: Vec<f64> = target.iter().map(|t| -t).collect();
        let tight = crate::sets::testing::tight_clarabel();
        let (square, left) = (CscMatrix::identity(target.len()), CscMatrix::from(rows.iter()));
        let cones = [NonnegativeConeT(rows.len())];
        let mut solver = DefaultSolver::new(&square, &linear, &left, &vec![0.0; rows.len()], &cones, tight).unwrap();
        solver.solve();
        (solver.solution.status == SolverStatus::Solved).then(|| solver.solution.x.clone())
    }

    fn project(region: &dyn Region, target: &[f64], warm: &mut Warm) -> (Vec<f64>, u64) {
        let (mut x, mut rows) = (vec![0.0; target.len()], region.begin(target, target, warm).unwrap());
        for _ in 0..200_000 {
            let swept = region.sweep(&mut x, 5, 1e-9, warm).unwrap();
            rows += swept.rows;
            if swept.done {
                return (x, rows);
            }
        }
        panic!("not done at {x:?}");
    }

    #[test]
    fn both_forms_and_an_interior_point_method_agree() {
        let mut rng = Rng::new(21, Purpose::Data);
        let (mut comparison, mut inside, mut kept) = (0, 0, 0);
        for trial in 0..60 {
            let (dim, rows) = (2 + trial % 5, 4 + trial % 9);
            let mut features: Vec<Vec<f64>> = (0..rows)
                .map(|i| {
                    let mut row = vec![0.0; dim];
                    rng.normals(&mut row);
                    // Some of them can be told apart, so that the cone is more than its tip.
                    row[0] += if i % 2 == 0 { 1.0 } else { -1.0 } * f64::from(trial as u32 % 4);
                    row
                })
                .collect();
            let (positives, negatives): (Vec<u32>, Vec<u32>) = (0..rows as u32).partition(|i| i % 2 == 0);
            if trial % 6 == 0 {
                // A pair of equal points.
                features[1] = features[0].clone();
            }
            let mut target = vec![0.0; dim];
            rng.normals(&mut target);
            let matrix = Matrix::dense(rows, dim, features.concat()).unwrap();
            let squares = PairRows::squares(&matrix, &positives, &negatives);
            assert_eq!(squares.len(), positives.len() * negatives.len());
            let pairs = PairRows { features: &matrix, positives: &positives, negatives: &negatives, squares: &squares };
            let cone = Cone { rows: pairs, radius: 3.0 };
            let collapsed = Collapsed { features: &matrix, positives: &positives, negatives: &negatives, radius: 3.0 };
            let Some(wanted) = by_clarabel(&features, &positives, &negatives, &target) else { continue };
            comparison += 1;
            let (mut warm, mut also) = (Warm::default(), Warm::default());
            for _ in 0..2 {
                let (first, _) = project(&cone, &target, &mut warm);
                let (second, _) = project(&collapsed, &target, &mut also);
                assert!(vec::distance(&first, &wanted) < 1e-4, "trial {trial}: {first:?} instead of {wanted:?}");
                assert!(vec::distance(&second, &wanted) < 1e-4, "trial {trial}: {second:?} instead of {wanted:?}");
                assert!(vec::distance(&first, &second) < 1e-5, "trial {trial}: {first:?} and {second:?}");
                assert!((0..pairs.len()).all(|k| pairs.dot(k, &first) >= -1e-8 && pairs.dot(k, &second) >= -1e-8));
            }
            // The numbers of both kinds have the same sum: t is free.
            let sum = |part: &[f64]| part.iter().sum::<f64>();
            let (ups, downs) = also.values.split_at(positives.len());
            assert!((sum(ups) - sum(downs)).abs() <= 1e-9 * (1.0 + sum(ups)));
            inside += usize::from(vec::distance(&wanted, &target) < 1e-6);
            kept += usize::from(vec::norm(&wanted) > 0.1 * vec::norm(&target));
            // And linear functions have the same minimisers.
            let lowest = |region: &dyn Region| {
                let mut aim = vec![0.0; dim];
                region.lmo_target(&target, &target, &mut aim);
                let (mut x, _) = project(region, &aim, &mut Warm::default());
                region.lmo_finish(&mut x);
                vec::dot(&x, &target)
            };
            assert!((lowest(&cone) - lowest(&collapsed)).abs() < 1e-3 * (1.0 + vec::norm(&target)), "trial {trial}");
        }
        assert!(comparison > 40 && inside < comparison / 2 && kept > 20, "{comparison} {inside} {kept}");
    }

    /// Sparse rows give the numbers of dense ones, and an unfinished projection goes on from its state.
    #[test]
    fn sparse_rows_and_states_are_the_same() {
        let dense = Matrix::dense(4, 3, vec![1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0]).unwrap();
        let ids = vec![0, 2, 1, 0, 1, 2];
        let sparse = Matrix::sparse(3, vec![0, 2, 3, 5, 6], ids, vec![1.0, 2.0, 3.0, 0.5, 0.5, 1.0]).unwrap();
        let (positives, negatives) = ([0, 2], [1, 3]);
        let squares = PairRows::squares(&dense, &positives, &negatives);
        assert_eq!(squares, [14.0, 2.0, 6.5, 1.5]);
        assert_eq!(squares, PairRows::squares(&sparse, &positives, &negatives));
        let target = [-1.0, 2.0, 0.3];
        let of = |features| Collapsed { features, positives: &positives, negatives: &negatives, radius: 1.0 };
        let (first, _) = project(&of(&dense), &target, &mut Warm::default());
        let (second, _) = project(&of(&sparse), &target, &mut Warm::default());
        assert!(vec::distance(&first, &second) < 1e-12);
        let (mut warm, mut x) = (Warm::default(), [0.0; 3]);
        of(&dense).begin(&target, &target, &mut warm).unwrap();
        for _ in 0..10_000 {
            warm = postcard::from_bytes(&postcard::to_stdvec(&warm).unwrap()).unwrap();
            if of(&dense).sweep(&mut x, 1, 1e-9, &mut warm).unwrap().done {
                break;
            }
        }
        assert_eq!(x, *first);
        let nan = of(&dense)
            .begin(&[0.0; 3], &[f64::NAN, 0.0, 0.0], &mut warm)
            .and_then(|_| of(&dense).sweep(&mut x, 1, 1e-9, &mut warm));
        assert!(nan.unwrap_err().to_string().starts_with("the score of row 1 where a point is projected"));
    }
}
