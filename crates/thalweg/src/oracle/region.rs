//! Regions: the feasible set as a whole, for methods that project onto it or minimise linear functions over it. Methods that only
//! use constraint values do not need this module.

use std::sync::Arc;

use super::Warm;
use crate::error::{check_finite, check_length};
use crate::math::vec;
use crate::sets::polyhedron::{self, Rows, SweepResult};
use crate::{Error, Result};

/// Feasible set of a problem: its constraints and its domain. Nonlinear constraints are linearised at a point.
///
/// A projection may take minutes, so it is done in parts: [`Region::begin`], then [`Region::sweep`] until it reports completion.
/// All unfinished state is in `warm`.
pub trait Region: Send + Sync {
    /// Starts projecting `target` onto the set linearised at `at`, discarding any unfinished projection. Returns the number of
    /// rows visited.
    fn begin(&self, at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64>;
    /// Continues the projection with at most `sweeps` visits to each row and sets `x` to the current point. It is the projection
    /// once no row is violated by more than `tolerance`.
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult>;
    /// Returns whether linear functions have minimisers over the set, to be found by [`Region::lmo_target`] and
    /// [`Region::lmo_finish`].
    fn bounded(&self) -> bool {
        true
    }
    /// Computes the point to project for minimising `<slope, y>` over the set linearised at `at`; [`Region::lmo_finish`] turns
    /// the projection into the minimiser.
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]);
    /// Turns the projection of the point from [`Region::lmo_target`] into the minimiser.
    fn lmo_finish(&self, x: &mut [f64]);
    /// Describes the set in words, for reports.
    fn describe(&self) -> String;
}

/// A shared region.
impl<T: Region + ?Sized> Region for Arc<T> {
    fn begin(&self, at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        (**self).begin(at, target, warm)
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        (**self).sweep(x, sweeps, tolerance, warm)
    }
    fn bounded(&self) -> bool {
        (**self).bounded()
    }
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        (**self).lmo_target(at, slope, out);
    }
    fn lmo_finish(&self, x: &mut [f64]) {
        (**self).lmo_finish(x);
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}

/// Radius of the ball around the origin that bounds a set without a bound of its own.
pub const RADIUS: f64 = 10.0;
/// Smallest norm of the projection of a unit direction onto the cone that counts as nonzero. The projection is scaled up to the
/// radius, and its errors grow with it.
const VANISHES: f64 = 1e-4;
/// Distance of the point that is projected in place of minimising a linear function, in units of the radius.
const FAR: f64 = 100.0;

/// Sets `out` to the unit vector opposite to `slope`; zero for a zero slope.
fn against(slope: &[f64], out: &mut [f64]) {
    let length = vec::norm(slope);
    let scale = if length == 0.0 { 0.0 } else { -1.0 / length };
    out.iter_mut().zip(slope).for_each(|(o, s)| *o = scale * s);
}

/// Computes the point to project for a cone: the direction of steepest descent, of length 1 so that tolerances are relative to
/// it.
pub(crate) fn lmo_target_of_cone(slope: &[f64], out: &mut [f64]) {
    against(slope, out);
}

/// Turns the projection `pi` of that direction into the minimiser over the cone's points within `radius`: `radius pi / ||pi||`,
/// or 0 if the projection vanishes (Moreau's decomposition).
pub(crate) fn lmo_finish_on_cone(radius: f64, x: &mut [f64]) {
    let length = vec::norm(x);
    // NaN stays NaN.
    let scale = if length <= VANISHES { 0.0 } else { radius / length };
    vec::scale(x, scale);
}

/// Cone of linear inequalities `<a_k, x> >= 0`, on which linear functions are minimised within a ball.
///
/// Projections are onto the cone itself. The bounds of the rows must be 0.
#[derive(Debug, Clone, Copy)]
pub struct Cone<R> {
    /// The inequalities.
    pub rows: R,
    /// Radius of the ball, by default [`RADIUS`].
    pub radius: f64,
}

impl<R: Rows> Region for Cone<R> {
    fn begin(&self, _at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        Ok(polyhedron::begin(&self.rows, None, target, warm))
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        polyhedron::sweep(&self.rows, None, x, sweeps, tolerance, warm)
    }
    fn lmo_target(&self, _at: &[f64], slope: &[f64], out: &mut [f64]) {
        lmo_target_of_cone(slope, out);
    }
    fn lmo_finish(&self, x: &mut [f64]) {
        lmo_finish_on_cone(self.radius, x);
    }
    fn describe(&self) -> String {
        format!("cone of {} rows in a ball of radius {}", self.rows.len(), self.radius)
    }
}

/// Linear inequalities within a ball. Projections are onto both. Linear functions are minimised by projecting a distant point,
/// `at - 100 radius slope / ||slope||`; for `at` in the ball, the value is at most `0.02 radius ||slope||` above the minimum.
#[derive(Debug, Clone, Copy)]
pub struct BoundedRegion<R> {
    /// The inequalities.
    pub rows: R,
    /// Radius of the ball.
    pub radius: f64,
}

impl<R: Rows> Region for BoundedRegion<R> {
    fn begin(&self, _at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        Ok(polyhedron::begin(&self.rows, Some(self.radius), target, warm))
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        let swept = polyhedron::sweep(&self.rows, Some(self.radius), x, sweeps, tolerance, warm)?;
        if swept.empty {
            return Err(Error::Problem(format!("no point within {} of the origin keeps all constraints", self.radius)));
        }
        Ok(swept)
    }
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        lmo_target_far(self.radius, at, slope, out);
    }
    fn lmo_finish(&self, _x: &mut [f64]) {}
    fn describe(&self) -> String {
        format!("{} linear constraints in a ball of radius {}", self.rows.len(), self.radius)
    }
}

pub(super) fn lmo_target_far(radius: f64, at: &[f64], slope: &[f64], out: &mut [f64]) {
    against(slope, out);
    out.iter_mut().zip(at).for_each(|(o, at)| *o = at + FAR * radius * *o);
}

/// Nonlinear constraints `f_j(x) <= 0`, linearised at a point: `f_j(at) + <s_j, x - at> <= 0`, within a ball.
///
/// If the projection detects that the linearised constraints have no common point in the ball, the rows that `at` violates are
/// relaxed until `at`, or the nearest point of the ball, satisfies them.
#[derive(Debug, Clone, Copy)]
pub struct Linearised<F> {
    /// Number of constraints.
    pub constraints: usize,
    /// Radius of the ball, by default [`RADIUS`].
    pub radius: f64,
    /// `values(at, f, rows)` computes the values and the subgradients, row by row, at a point.
    pub values: F,
}

/// The rows `<-s_j, x> >= f_j - <s_j, at>` of [`Linearised`], stored in `warm`.
struct StoredRows<'a> {
    dim: usize,
    rows: &'a [f64],
    bounds: &'a [f64],
    squares: &'a [f64],
}

impl StoredRows<'_> {
    fn row(&self, k: usize) -> &[f64] {
        &self.rows[k * self.dim..(k + 1) * self.dim]
    }
}

impl Rows for StoredRows<'_> {
    fn len(&self) -> usize {
        self.bounds.len()
    }
    fn dot(&self, k: usize, x: &[f64]) -> f64 {
        -vec::dot(self.row(k), x)
    }
    fn add(&self, k: usize, weight: f64, x: &mut [f64]) {
        vec::add_scaled(x, -weight, self.row(k));
    }
    fn square(&self, k: usize) -> f64 {
        self.squares[k]
    }
    fn bound(&self, k: usize) -> f64 {
        self.bounds[k]
    }
}

/// Number of parts of `warm`: the projection's own, subgradients, bounds, squares, the linearisation point, the target.
const PARTS: usize = 6;

impl<F: Fn(&[f64], &mut [f64], &mut [f64]) -> Result<()> + Send + Sync> Linearised<F> {
    /// Splits `warm` and calls `work` with the rows and the projection's part.
    fn with<T>(&self, dim: usize, warm: &mut Warm, work: impl FnOnce(&StoredRows, &mut Warm) -> T) -> Result<T> {
        match warm.parts.as_mut_slice() {
            [own, rows, bounds, squares, ..]
                if rows.values.len() == dim * self.constraints && bounds.values.len() == self.constraints =>
            {
                Ok(work(&StoredRows { dim, rows: &rows.values, bounds: &bounds.values, squares: &squares.values }, own))
            }
            _ => Err(Error::Problem("a projection onto linearised constraints is to go on that was not begun with them".into())),
        }
    }
}

impl<F: Fn(&[f64], &mut [f64], &mut [f64]) -> Result<()> + Send + Sync> Region for Linearised<F> {
    fn begin(&self, at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        check_length("the target of a projection", target.len(), at.len())?;
        let (dim, m) = (at.len(), self.constraints);
        warm.parts(PARTS);
        let [_, rows, bounds, squares, from, to] = warm.parts.as_mut_slice() else { return Ok(0) };
        rows.values.resize(m * dim, 0.0);
        bounds.values.resize(m, 0.0);
        (self.values)(at, &mut bounds.values, &mut rows.values)?;
        squares.values.clear();
        for (j, (bound, row)) in bounds.values.iter_mut().zip(rows.values.chunks(dim.max(1))).enumerate() {
            let square = vec::norm_squared(row);
            if !(bound.is_finite() && square.is_finite()) {
                check_finite(&format!("constraint {} where it is linearised", j + 1), *bound)?;
                check_finite(&format!("the squared length of the subgradient of constraint {}", j + 1), square)?;
            }
            *bound -= vec::dot(row, at);
            squares.values.push(square);
        }
        for (kept, x) in [(from, at), (to, target)] {
            kept.values.clear();
            kept.values.extend_from_slice(x);
        }
        self.with(dim, warm, |rows, own| polyhedron::begin(rows, Some(self.radius), target, own))
    }

    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        let radius = Some(self.radius);
        let mut swept = self.with(x.len(), warm, |rows, own| polyhedron::sweep(rows, radius, x, sweeps, tolerance, own))??;
        if swept.empty {
            self.relax(warm);
            let [_, .., to] = warm.parts.as_mut_slice() else { return Ok(swept) };
            let target = std::mem::take(&mut to.values);
            let again = self.with(x.len(), warm, |rows, own| polyhedron::begin(rows, radius, &target, own));
            if let Some(to) = warm.parts.last_mut() {
                to.values = target;
            }
            swept = SweepResult { rows: swept.rows + again?, empty: false, ..swept };
        }
        if swept.done {
            // The projection's own part is the warm start of the next projection.
            warm.parts.iter_mut().skip(1).for_each(|part| part.values.clear());
        }
        Ok(swept)
    }

    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        lmo_target_far(self.radius, at, slope, out);
    }

    fn lmo_finish(&self, _x: &mut [f64]) {}

    fn describe(&self) -> String {
        format!("{} linearised constraints in a ball of radius {}", self.constraints, self.radius)
    }
}

impl<F> Linearised<F> {
    /// Lowers the bounds until the linearisation point, projected onto the ball, satisfies them.
    fn relax(&self, warm: &mut Warm) {
        let [_, rows, bounds, _, from, _] = warm.parts.as_mut_slice() else { return };
        let length = vec::norm(&from.values);
        let shrink = if length > self.radius { self.radius / length } else { 1.0 };
        for (bound, row) in bounds.values.iter_mut().zip(rows.values.chunks(from.values.len().max(1))) {
            *bound = bound.min(-shrink * vec::dot(row, &from.values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Matrix, Rng, rng::Purpose};
    use crate::sets::Polyhedron;

    fn rows(rows: &[&[f64]], bounds: &[f64]) -> Polyhedron {
        let entries: Vec<f64> = rows.iter().flat_map(|row| row.iter().copied()).collect();
        Polyhedron::new(Matrix::dense(rows.len(), rows[0].len(), entries).unwrap(), bounds.to_vec()).unwrap()
    }

    fn project(region: &dyn Region, at: &[f64], target: &[f64], warm: &mut Warm) -> Vec<f64> {
        let mut x = vec![0.0; at.len()];
        region.begin(at, target, warm).unwrap();
        for _ in 0..100_000 {
            if region.sweep(&mut x, 2, 1e-10, warm).unwrap().done {
                return x;
            }
        }
        panic!("not done at {x:?}");
    }

    fn lowest(region: &dyn Region, at: &[f64], slope: &[f64]) -> Vec<f64> {
        let mut aim = vec![0.0; at.len()];
        region.lmo_target(at, slope, &mut aim);
        let mut x = project(region, at, &aim, &mut Warm::default());
        region.lmo_finish(&mut x);
        x
    }

    /// Spec 3.9, test 9.
    #[test]
    fn linear_functions_over_a_cone() {
        let cone = Cone { rows: rows(&[&[1.0, 0.0]], &[0.0]), radius: 1.0 };
        for (slope, wanted) in [([1.0, 1.0], [0.0, -1.0]), ([-3.0, -4.0], [0.6, 0.8]), ([1.0, 0.0], [0.0, 0.0])] {
            let found = lowest(&cone, &[0.3, 0.4], &slope);
            assert!(vec::distance(&found, &wanted) < 1e-9, "{slope:?}: {found:?}");
        }
        assert_eq!(lowest(&cone, &[0.3, 0.4], &[0.0, 0.0]), [0.0, 0.0]);
        let mut nan = [f64::NAN, 1.0];
        cone.lmo_finish(&mut nan);
        assert!(nan[0].is_nan());
    }

    /// No random point of the cone and ball is lower than the minimiser.
    #[test]
    fn nothing_is_lower_than_the_minimiser() {
        let mut rng = Rng::new(5, Purpose::Data);
        let mut normals = |n: usize| {
            let mut out = vec![0.0; n];
            rng.normals(&mut out);
            out
        };
        let mut reached = 0;
        for _ in 0..40 {
            let a: Vec<Vec<f64>> = (0..3).map(|_| normals(4)).collect();
            let slices: Vec<&[f64]> = a.iter().map(Vec::as_slice).collect();
            let cone = Cone { rows: rows(&slices, &[0.0; 3]), radius: 2.0 };
            let bounded = BoundedRegion { rows: rows(&slices, &[0.0; 3]), radius: 2.0 };
            let slope = normals(4);
            let (exact, near) = (lowest(&cone, &[0.0; 4], &slope), lowest(&bounded, &[0.0; 4], &slope));
            for x in [&exact, &near] {
                assert!(vec::norm(x) <= 2.0 + 1e-9 && a.iter().all(|a| vec::dot(a, x) >= -1e-4), "{x:?}");
            }
            let (lowest, size) = (vec::dot(&slope, &exact), 2.0 * vec::norm(&slope));
            assert!((vec::dot(&slope, &near) - lowest).abs() <= 0.01 * size);
            for _ in 0..300 {
                let y = project(&cone, &[0.0; 4], &normals(4), &mut Warm::default());
                let length = vec::norm(&y).max(1e-300);
                reached += usize::from(length > 0.1);
                assert!(2.0 / length * vec::dot(&slope, &y) >= lowest - 1e-3 * size);
            }
        }
        assert!(reached > 1000, "{reached}");
    }

    /// A circle and a line, linearised at a point and computed by hand.
    #[test]
    fn what_is_not_linear_is_linearised() {
        // x^2 + y^2 - 1 <= 0 linearised at (2, 0): 3 + 4 (x - 2) <= 0, so x <= 1.25.
        let values = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
            f[0] = at[0] * at[0] + at[1] * at[1] - 1.0;
            rows.copy_from_slice(&[2.0 * at[0], 2.0 * at[1]]);
            Ok(())
        };
        let region = Linearised { constraints: 1, radius: 10.0, values };
        let mut warm = Warm::default();
        let found = project(&region, &[2.0, 0.0], &[3.0, 4.0], &mut warm);
        assert!(vec::distance(&found, &[1.25, 4.0]) < 1e-9, "{found:?}");
        // Afterwards only the number of the row is stored.
        assert!(warm.parts.iter().skip(1).all(|part| part.values.is_empty()) && warm.parts[0].values.len() == 1);
        let found = project(&region, &[0.0, 2.0], &[3.0, 4.0], &mut warm);
        assert!(vec::distance(&found, &[3.0, 1.25]) < 1e-9, "{found:?}");
        // The ball is active, too: for x <= 1.25 within radius 2, the minimiser along (-1, -1) is (1.25, sqrt(4 - 1.25^2)).
        let small = Linearised { constraints: 1, radius: 2.0, values };
        let found = lowest(&small, &[2.0, 0.0], &[-1.0, -1.0]);
        assert!(vec::distance(&found, &[1.25, 1.561_249_5]) < 1e-6, "{found:?}");
    }

    /// If the rows conflict, the linearisation point satisfies the relaxed rows.
    #[test]
    fn rows_that_contradict_each_other_are_relaxed() {
        // 1 - x <= 0 and 1 + x <= 0; y <= 0.5.
        let values = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
            f.copy_from_slice(&[1.0 - at[0], 1.0 + at[0], at[1] - 0.5]);
            rows.copy_from_slice(&[-1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
            Ok(())
        };
        let region = Linearised { constraints: 3, radius: 4.0, values };
        // At (0.25, 0) the rows are relaxed by 0.75 and 1.25: x stays at 0.25; the third row is unchanged.
        let mut warm = Warm::default();
        for _ in 0..2 {
            let found = project(&region, &[0.25, 0.0], &[2.0, 3.0], &mut warm);
            assert!(vec::distance(&found, &[0.25, 0.5]) < 1e-9, "{found:?}");
        }
        // From outside the ball, the nearest point of the ball satisfies the relaxed rows.
        let found = project(&region, &[8.0, 0.0], &[9.0, 0.0], &mut warm);
        assert!(vec::distance(&found, &[4.0, 0.0]) < 1e-8, "{found:?}");
    }

    #[test]
    fn a_value_that_is_no_number_is_named() {
        let values = |_: &[f64], f: &mut [f64], rows: &mut [f64]| {
            f.copy_from_slice(&[0.0, f64::NAN]);
            rows.fill(1.0);
            Ok(())
        };
        let region = Linearised { constraints: 2, radius: 1.0, values };
        let refused = region.begin(&[0.0], &[0.0], &mut Warm::default()).unwrap_err().to_string();
        assert_eq!(refused, "constraint 2 where it is linearised is NaN; expected a finite number");
        let early = region.sweep(&mut [0.0], 1, 1e-8, &mut Warm::default()).unwrap_err().to_string();
        assert!(early.contains("was not begun"), "{early}");
    }
}
