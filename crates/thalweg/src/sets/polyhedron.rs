//! Polyhedra with many linear inequalities and the projection onto them by Hildreth's method, which visits one row at a time
//! and does not require the rows to be stored. A single inequality is in `halfspace`; nonlinear constraints do not belong here.

use super::{Set, Warm};
use crate::error::{check_finite, check_length};
use crate::math::{Matrix, vec};
use crate::{Error, Result};

/// Inequalities `<a_k, x> >= b_k`, visited one at a time.
pub trait Rows: Send + Sync {
    /// Returns the number of inequalities.
    fn len(&self) -> usize;
    /// Returns whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Computes `<a_k, x>`.
    fn dot(&self, k: usize, x: &[f64]) -> f64;
    /// Computes `x += weight a_k`.
    fn add(&self, k: usize, weight: f64, x: &mut [f64]);
    /// Returns `||a_k||^2`.
    fn square(&self, k: usize) -> f64;
    /// Returns `b_k`; 0 for a cone.
    fn bound(&self, _k: usize) -> f64 {
        0.0
    }
}

/// Result of some sweeps over the rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SweepResult {
    /// Number of rows visited.
    pub rows: u64,
    /// Whether the point is the projection: up to the tolerance no row is violated, and none has a positive dual variable
    /// without being active.
    pub done: bool,
    /// Whether it is proved that no point of the ball satisfies all rows.
    pub empty: bool,
    /// Largest violation, or complementarity error, of the last sweep.
    pub violation: f64,
}

/// Default violation of a row after a projection.
pub const TOLERANCE: f64 = 1e-8;
/// Squared length below which a row counts as zero (a difference of equal points).
pub(crate) const NOTHING: f64 = 1e-24;
/// Relative size of violations that are rounding errors.
const ROUNDING: f64 = 16.0 * f64::EPSILON;
/// Number of sweeps over rows with positive dual variables per sweep over all rows.
const AGAIN: usize = 10;
/// Parts of `warm`: the current `target + A^T alpha`, the target, working space.
const PARTS: usize = 3;
/// Default limit on the sweeps of a [`Polyhedron`]'s projection.
const SWEEPS: usize = 100_000;

/// Starts the projection of `target` onto the rows, and onto a ball around the origin if a radius is given; [`sweep`] continues
/// it. Returns the number of rows visited.
///
/// With dual variables `alpha >= 0`, one per row, the point is `x = P(target + A^T alpha)`, where P projects onto the ball, and
/// `alpha` maximises the dual function. `warm.values` keeps `alpha` between projections. Of three starting values the one with
/// the largest dual value is used: these numbers, those of them whose rows the target violates, and zeros. The second suits
/// targets that jump: otherwise the wrong one of two opposite rows would be reduced little by little. An unfinished projection
/// is stored in `warm`, and hence in checkpoints.
pub fn begin<R: Rows + ?Sized>(rows: &R, radius: Option<f64>, target: &[f64], warm: &mut Warm) -> u64 {
    let mut visited = 0;
    if warm.values.len() != rows.len() {
        warm.values.clear();
        warm.values.resize(rows.len(), 0.0);
    }
    warm.parts(PARTS);
    let Warm { values: alpha, parts } = warm;
    let [v, from, fewer] = parts.as_mut_slice() else { return 0 };
    for copy in [&mut *v, &mut *from, &mut *fewer] {
        copy.values.clear();
        copy.values.extend_from_slice(target);
    }
    let shrink = shrinks(vec::norm_squared(target), radius);
    // <alpha, b> with all dual variables, and with those of violated rows; the others have their sign flipped meanwhile.
    let (mut all, mut some) = (0.0, 0.0);
    for (k, alpha) in alpha.iter_mut().enumerate().filter(|(_, alpha)| **alpha != 0.0) {
        let bound = rows.bound(k);
        rows.add(k, *alpha, &mut v.values);
        all += *alpha * bound;
        if shrink * rows.dot(k, target) < bound {
            rows.add(k, *alpha, &mut fewer.values);
            some += *alpha * bound;
        } else {
            *alpha = -*alpha;
        }
        visited += 1;
    }
    if visited > 0 {
        let [all, some, none] =
            [(all, &*v.values), (some, &*fewer.values), (0.0, target)].map(|(bounds, v)| dual(bounds, v, target, radius));
        // NaN compares false and selects zeros.
        if all > none && all >= some {
            alpha.iter_mut().for_each(|alpha| *alpha = alpha.abs());
        } else if some > none {
            alpha.iter_mut().for_each(|alpha| *alpha = alpha.max(0.0));
            std::mem::swap(v, fewer);
        } else {
            alpha.fill(0.0);
            v.values.copy_from_slice(target);
        }
    }
    fewer.values.clear();
    visited
}

/// Returns whether a projection was started and is not finished.
pub fn is_open(warm: &Warm) -> bool {
    warm.parts.first().is_some_and(|v| !v.values.is_empty())
}

/// Continues the projection that [`begin`] started, with at most `sweeps` sweeps over all rows, and writes the current point to
/// `x`.
///
/// A visit to row k sets `alpha_k` to the best value given the others (Hildreth; with the ball, whose multiplier is eliminated,
/// the equation is quadratic). A sweep visits the rows with `alpha_k > 0` up to ten times and then all of them, which reduces
/// excess dual variables of a warm start before other rows react to them. Rows whose violation and complementarity error are at
/// most `tolerance` are skipped; a sweep that skips all rows proves that `x` is the projection. Every other visit increases the
/// dual function, so that there are finitely many unless no point satisfies all rows. With a ball infeasibility is detected:
/// the dual function then exceeds its largest possible value.
pub fn sweep<R: Rows + ?Sized>(
    rows: &R,
    radius: Option<f64>,
    x: &mut [f64],
    sweeps: usize,
    tolerance: f64,
    warm: &mut Warm,
) -> Result<SweepResult> {
    let Warm { values: alpha, parts } = warm;
    let [v, from, _] = parts.as_mut_slice() else { return Err(not_begun()) };
    if v.values.len() != x.len() || alpha.len() != rows.len() {
        return Err(not_begun());
    }
    let (v, from) = (&mut v.values, &mut from.values);
    let mut swept = SweepResult::default();
    for _ in 0..sweeps {
        for _ in 0..AGAIN {
            if !visit(rows, radius, tolerance, alpha, v, true, &mut swept)? {
                break;
            }
        }
        let moved = !swept.empty && visit(rows, radius, tolerance, alpha, v, false, &mut swept)?;
        swept.done = !moved && !swept.empty;
        swept.empty |= moved
            && radius.is_some_and(|radius| {
                let bounds = alpha.iter().enumerate().map(|(k, alpha)| if *alpha > 0.0 { alpha * rows.bound(k) } else { 0.0 });
                // Largest distance of a point of the ball from the target.
                let farthest = vec::norm(from) + radius;
                dual(bounds.sum(), v, from, Some(radius)) > 0.5 * farthest * farthest * (1.0 + 1e-9)
            });
        if swept.done || swept.empty {
            break;
        }
    }
    let s = shrinks(vec::norm_squared(v), radius);
    x.iter_mut().zip(&*v).for_each(|(x, v)| *x = s * v);
    if swept.done || swept.empty {
        // Keeps the dual variables; the rest was working space.
        v.clear();
        from.clear();
    }
    if swept.empty {
        alpha.fill(0.0);
    }
    Ok(swept)
}

/// Visits all rows, or those with positive dual variables, once. Returns whether something changed.
fn visit<R: Rows + ?Sized>(
    rows: &R,
    radius: Option<f64>,
    tolerance: f64,
    alpha: &mut [f64],
    v: &mut [f64],
    pushing: bool,
    swept: &mut SweepResult,
) -> Result<bool> {
    let mut square = vec::norm_squared(v);
    let mut moved = false;
    swept.violation = 0.0;
    for (k, alpha) in alpha.iter_mut().enumerate() {
        if pushing && *alpha == 0.0 {
            continue;
        }
        let n = rows.square(k);
        if n < NOTHING {
            continue;
        }
        swept.rows += 1;
        let (p, b, s) = (rows.dot(k, v), rows.bound(k), shrinks(square, radius));
        let gap = b - s * p;
        // Violated, or positive dual variable without being active; NaN takes the second branch and stays.
        let wrong = if gap <= 0.0 { (-gap).min(s * *alpha * n) } else { gap };
        if wrong <= tolerance {
            swept.violation = swept.violation.max(wrong);
            continue;
        }
        if !wrong.is_finite() {
            let what = format!("the value of row {} of the constraints where a point is projected onto them", k + 1);
            return Err(Error::NotFinite { what, value: wrong });
        }
        if wrong <= ROUNDING * (b.abs() + s * (n * square).sqrt()) {
            continue;
        }
        swept.violation = swept.violation.max(wrong);
        let delta = match reach(b, p, n, square, radius) {
            Reach::At(level) => ((level - p) / n).max(-*alpha),
            Reach::Everywhere => -*alpha,
            Reach::Nowhere => {
                swept.empty = true;
                return Ok(moved);
            }
        };
        if delta == 0.0 {
            continue;
        }
        // alpha_k and v = target + A^T alpha
        *alpha += delta;
        rows.add(k, delta, v);
        square = (square + delta * (2.0 * p + delta * n)).max(0.0);
        moved = true;
    }
    Ok(moved)
}

fn not_begun() -> Error {
    Error::Problem("a projection onto linear constraints is to go on that was not begun with these constraints".into())
}

/// Returns the factor by which projecting onto the ball scales a vector of this squared length.
fn shrinks(square: f64, radius: Option<f64>) -> f64 {
    match radius {
        Some(radius) if square > radius * radius => radius / square.sqrt(),
        _ => 1.0,
    }
}

/// Computes `1/2 ||x - target||^2 + <alpha, b> - <A^T alpha, x>` for `v = target + A^T alpha` and `x = P(v)`.
fn dual(bounds: f64, v: &[f64], target: &[f64], radius: Option<f64>) -> f64 {
    let s = shrinks(vec::norm_squared(v), radius);
    let away = vec::sum_by(v.len(), |i| (s * v[i] - target[i]).powi(2));
    0.5 * away + bounds - s * vec::sum_by(v.len(), |i| (v[i] - target[i]) * v[i])
}

/// Solution of `<a, P(v + delta a)> = b`.
enum Reach {
    /// Value of `<a, v + delta a>` at the solution.
    At(f64),
    /// No point of the ball reaches b.
    Nowhere,
    /// Every point of the ball exceeds b.
    Everywhere,
}

/// Solves for the step, with `p = <a, v>`, `n = ||a||^2`, `square = ||v||^2`.
fn reach(b: f64, p: f64, n: f64, square: f64, radius: Option<f64>) -> Reach {
    let Some(radius) = radius else { return Reach::At(b) };
    // Squared component of v orthogonal to a, which does not change.
    let across = (square - p * p / n).max(0.0);
    if across + b * b / n <= radius * radius {
        return Reach::At(b);
    }
    let room = radius * radius - b * b / n;
    if room > 0.0 {
        // radius u = b sqrt(across + u^2 / n), outside the ball
        Reach::At(b * (across / room).sqrt())
    } else if b > 0.0 {
        Reach::Nowhere
    } else {
        Reach::Everywhere
    }
}

/// Polyhedron `<a_k, x> >= b_k` for every row of a matrix, intersected with a ball around the origin if one is given.
///
/// **Projection.** [`begin`] and [`sweep`] until the tolerance is reached (1e-8 in every row), with a warm start from the
/// previous projection. Convergence is linear, and slow if rows are nearly parallel; the limit of 100,000 sweeps ends it with
/// an error.
///
/// **Reference.** Hildreth (1957), "A quadratic programming procedure".
#[derive(Debug, Clone)]
pub struct Polyhedron {
    rows: Matrix,
    bounds: Vec<f64>,
    squares: Vec<f64>,
    radius: Option<f64>,
    tolerance: f64,
    sweeps: usize,
}

impl Polyhedron {
    /// Builds the set `rows x >= bounds`.
    pub fn new(rows: Matrix, bounds: Vec<f64>) -> Result<Self> {
        check_length("the list of bounds of the polyhedron", bounds.len(), rows.rows())?;
        let squares: Vec<f64> = (0..rows.rows()).map(|k| rows.row_norm_squared(k)).collect();
        for (k, (&bound, &square)) in bounds.iter().zip(&squares).enumerate() {
            check_finite(&format!("bound {} of the polyhedron", k + 1), bound)?;
            check_finite(&format!("squared length of row {} of the polyhedron", k + 1), square)?;
            if square < NOTHING && bound > 0.0 {
                let wanted = "0 or less, because the row is 0 and no point has more";
                return Err(Error::setting(format!("bound {} of the polyhedron", k + 1), bound, wanted));
            }
        }
        Ok(Polyhedron { rows, bounds, squares, radius: None, tolerance: TOLERANCE, sweeps: SWEEPS })
    }

    /// Intersects the set with the ball `||x|| <= radius`.
    pub fn within(mut self, radius: f64) -> Result<Self> {
        if !(radius > 0.0 && radius.is_finite()) {
            return Err(Error::setting("radius of the polyhedron", radius, "a finite number larger than 0"));
        }
        self.radius = Some(radius);
        Ok(self)
    }

    /// Sets the largest violation of a row after a projection (default 1e-8) and the largest number of sweeps over all rows
    /// (default 100,000).
    pub fn until(mut self, tolerance: f64, sweeps: usize) -> Result<Self> {
        if !(tolerance > 0.0 && tolerance.is_finite()) {
            return Err(Error::setting("tolerance of the polyhedron", tolerance, "a finite number larger than 0"));
        }
        (self.tolerance, self.sweeps) = (tolerance, sweeps);
        Ok(self)
    }

    /// Returns the radius of the ball.
    pub fn radius(&self) -> Option<f64> {
        self.radius
    }
}

impl Rows for Polyhedron {
    fn len(&self) -> usize {
        self.bounds.len()
    }
    fn dot(&self, k: usize, x: &[f64]) -> f64 {
        self.rows.row_dot(k, x)
    }
    fn add(&self, k: usize, weight: f64, x: &mut [f64]) {
        self.rows.add_row(k, weight, x);
    }
    fn square(&self, k: usize) -> f64 {
        self.squares[k]
    }
    fn bound(&self, k: usize) -> f64 {
        self.bounds[k]
    }
}

impl Set for Polyhedron {
    fn dim(&self) -> Option<usize> {
        Some(self.rows.cols())
    }

    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        super::check_point(self, x.len())?;
        begin(self, self.radius, x, warm);
        let swept = sweep(self, self.radius, x, self.sweeps, self.tolerance, warm)?;
        if swept.done {
            return Ok(());
        }
        warm.parts.iter_mut().for_each(|part| part.values.clear());
        let why = if swept.empty {
            "no point of the ball keeps all of its rows".into()
        } else {
            format!(
                "after {} sweeps a row is violated by {:.1e}: the rows contradict each other, or are nearly parallel",
                self.sweeps, swept.violation
            )
        };
        Err(Error::Problem(format!("a point cannot be projected onto the {}: {why}", self.describe())))
    }

    fn diameter(&self, dim: usize) -> f64 {
        self.radius.map_or(f64::INFINITY, |radius| if dim == 0 { 0.0 } else { 2.0 * radius })
    }

    /// Not available.
    fn linear_minimizer(&self, _slope: &[f64], _out: &mut [f64]) -> Option<()> {
        None
    }

    fn describe(&self) -> String {
        let ball = self.radius.map_or(String::new(), |radius| format!(" in a ball of radius {radius}"));
        format!("polyhedron of {} rows and {} coordinates{ball}", self.rows.rows(), self.rows.cols())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;
    use crate::sets::testing;

    fn polyhedron(rows: &[&[f64]], bounds: &[f64]) -> Polyhedron {
        let entries: Vec<f64> = rows.iter().flat_map(|row| row.iter().copied()).collect();
        Polyhedron::new(Matrix::dense(rows.len(), rows[0].len(), entries).unwrap(), bounds.to_vec()).unwrap()
    }

    fn project(set: &Polyhedron, x: &[f64], warm: &mut Warm) -> Vec<f64> {
        let mut x = x.to_vec();
        set.project(&mut x, warm).unwrap();
        x
    }

    /// The same by an interior-point method: the point, none where there is none, an error where it does not know.
    fn by_clarabel(rows: &[Vec<f64>], bounds: &[f64], radius: Option<f64>, target: &[f64]) -> Result<Option<Vec<f64>>, String> {
        use clarabel::algebra::CscMatrix;
        use clarabel::solver::{DefaultSolver, IPSolver, NonnegativeConeT, SecondOrderConeT, SolverStatus};
        let dim = target.len();
        let mut left: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|a| -a).collect()).collect();
        let mut right: Vec<f64> = bounds.iter().map(|b| -b).collect();
        let mut cones = vec![NonnegativeConeT(rows.len())];
        if let Some(radius) = radius {
            // (radius, x) lies in the second-order cone.
            left.push(vec![0.0; dim]);
            right.push(radius);
            for i in 0..dim {
                left.push((0..dim).map(|j| if i == j { -1.0 } else { 0.0 }).collect());
                right.push(0.0);
            }
            cones.push(SecondOrderConeT(dim + 1));
        }
        let linear: Vec<f64> = target.iter().map(|t| -t).collect();
        let tight = testing::tight_clarabel();
        let (square, left) = (CscMatrix::identity(dim), CscMatrix::from(left.iter()));
        let mut solver = DefaultSolver::new(&square, &linear, &left, &right, &cones, tight).unwrap();
        solver.solve();
        match solver.solution.status {
            SolverStatus::Solved => Ok(Some(solver.solution.x.clone())),
            SolverStatus::PrimalInfeasible => Ok(None),
            other => Err(format!("{other:?}")),
        }
    }

    /// Spec 3.9, test 8.
    #[test]
    fn worked_projections() {
        let one = polyhedron(&[&[1.0, 0.0]], &[0.0]);
        assert_eq!(project(&one, &[-1.0, 0.0], &mut Warm::default()), [0.0, 0.0]);
        let two = polyhedron(&[&[1.0, 0.0], &[1.0, -1.0]], &[0.0, 0.0]);
        let found = project(&two, &[-1.0, 2.0], &mut Warm::default());
        assert!(vec::distance(&found, &[0.5, 0.5]) < 1e-7, "{found:?}");
    }

    /// A cube cut by one more row, bounded and well conditioned: every promise, to full accuracy.
    #[test]
    fn keeps_every_promise_of_a_set() {
        let rows: [&[f64]; 7] = [
            &[1.0, 0.0, 0.0],
            &[-1.0, 0.0, 0.0],
            &[0.0, 1.0, 0.0],
            &[0.0, -1.0, 0.0],
            &[0.0, 0.0, 1.0],
            &[0.0, 0.0, -1.0],
            &[1.0, 1.0, 1.0],
        ];
        let bounds = [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 0.5];
        let twin = |radius: Option<f64>| {
            move |x: &[f64]| {
                // Dykstra's method on cube, half-space and ball, long enough.
                let (mut y, mut fix) = (x.to_vec(), [[0.0; 3]; 3]);
                for _ in 0..20_000 {
                    for (part, fix) in fix.iter_mut().enumerate() {
                        let from: Vec<f64> = y.iter().zip(&*fix).map(|(y, f)| y + f).collect();
                        y = match part {
                            0 => from.iter().map(|v| v.clamp(-1.0, 1.0)).collect(),
                            1 => {
                                let lack = (0.5 - from.iter().sum::<f64>()).max(0.0) / 3.0;
                                from.iter().map(|v| v + lack).collect()
                            }
                            _ => {
                                let shrink = radius.map_or(1.0, |r| (r / vec::norm(&from)).min(1.0));
                                from.iter().map(|v| v * shrink).collect()
                            }
                        };
                        (0..3).for_each(|i| fix[i] = from[i] - y[i]);
                    }
                }
                y
            }
        };
        // Between 0 and (1, 1, 1), and beyond the extra row.
        let member = |top: f64| {
            move |u: &[f64]| -> Vec<f64> {
                let sum: f64 = u.iter().sum();
                let up = (0.5 - sum).max(0.0) / 3.0;
                let y: Vec<f64> = u.iter().map(|u| (u + up).min(1.0)).collect();
                let shrink = (top / vec::norm(&y)).min(1.0);
                y.iter().map(|v| v * shrink).collect()
            }
        };
        let set = polyhedron(&rows, &bounds).until(1e-14, 1_000_000).unwrap();
        testing::check_set(&set, 3, member(10.0), twin(None));
        let ball = set.within(1.2).unwrap();
        testing::check_set_without_minimisers(&ball, 3, member(1.2), twin(Some(1.2)));
    }

    /// Random rows, with and without the ball, cold and warm, near and far targets, a few sweeps at a time.
    #[test]
    fn agrees_with_an_interior_point_method() {
        let mut rng = Rng::new(9, Purpose::Data);
        let (mut compared, mut bound, mut empty) = (0, 0, 0);
        for trial in 0..200 {
            let (dim, m) = (2 + trial % 4, 1 + trial % 7);
            let mut normals = |n: usize| {
                let mut out = vec![0.0; n];
                rng.normals(&mut out);
                out
            };
            let rows: Vec<Vec<f64>> = (0..m).map(|_| normals(dim)).collect();
            let bounds = if trial % 3 == 0 { vec![0.0; m] } else { normals(m) };
            let radius = (trial % 2 == 0).then_some(1.5);
            let far = if trial % 5 == 0 { 150.0 } else { 2.0 };
            let target: Vec<f64> = normals(dim).iter().map(|v| far * v).collect();
            let slices: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
            let set = polyhedron(&slices, &bounds);
            let Ok(wanted) = by_clarabel(&rows, &bounds, radius, &target) else { continue };
            let mut warm = Warm::from(normals(m).iter().map(|v| v.abs()).collect::<Vec<f64>>());
            for start in ["with numbers of another projection", "with its own"] {
                let mut x = vec![0.0; dim];
                begin(&set, radius, &target, &mut warm);
                let mut calls = 0;
                let last = loop {
                    let swept = sweep(&set, radius, &mut x, 3, 1e-10, &mut warm).unwrap();
                    calls += 1;
                    if swept.done || swept.empty || calls > 20_000 {
                        break swept;
                    }
                };
                match &wanted {
                    Some(wanted) => {
                        assert!(last.done, "trial {trial}, {start}: {last:?}");
                        let away = vec::distance(&x, wanted);
                        assert!(away <= 1e-4 * (1.0 + far), "trial {trial}, {start}: {x:?} instead of {wanted:?}");
                        // It keeps every row, and is no farther than what the other found: by that much more accurate.
                        let violated = rows.iter().zip(&bounds).map(|(row, b)| b - vec::dot(row, &x));
                        assert!(violated.fold(0.0, f64::max) <= 1e-9 && radius.is_none_or(|r| vec::norm(&x) <= r + 1e-12));
                        let farther = vec::distance(&x, &target) - vec::distance(wanted, &target);
                        assert!(farther <= 1e-7 * (1.0 + far), "trial {trial}, {start}: farther by {farther}");
                        compared += 1;
                        bound += usize::from(vec::distance(&x, &target) > 1e-3);
                        // Nothing is left to do but what rounding has undone.
                        assert!(calls <= 3 || start != "with its own", "trial {trial}: {calls} calls for a solved problem");
                    }
                    None => {
                        assert!(!last.done, "trial {trial} has no point, but {x:?} was found");
                        if radius.is_some() {
                            assert!(last.empty, "trial {trial}");
                            empty += 1;
                        }
                    }
                }
                assert!(calls > 20_000 || !is_open(&warm));
            }
        }
        assert!(compared > 250 && bound > 200 && empty > 4, "{compared} {bound} {empty}");
    }

    /// What goes on from a copy of the state is what would have gone on without.
    #[test]
    fn an_unfinished_projection_is_in_its_state() {
        let set = polyhedron(&[&[1.0, 0.1, 0.0], &[-1.0, 0.05, 0.02], &[0.3, -1.0, 0.2]], &[0.1, 0.0, 0.3]);
        for radius in [None, Some(5.0)] {
            let (mut whole, mut parts) = (Warm::default(), Warm::default());
            let (mut x, mut y) = ([0.0; 3], [0.0; 3]);
            begin(&set, radius, &[1.0, -2.0, 7.0], &mut whole);
            begin(&set, radius, &[1.0, -2.0, 7.0], &mut parts);
            let all = sweep(&set, radius, &mut x, 100_000, 1e-12, &mut whole).unwrap();
            let mut rows = 0;
            let last = loop {
                let bytes = postcard::to_stdvec(&parts).unwrap();
                parts = postcard::from_bytes(&bytes).unwrap();
                assert!(is_open(&parts));
                let swept = sweep(&set, radius, &mut y, 1, 1e-12, &mut parts).unwrap();
                rows += swept.rows;
                if swept.done {
                    break swept;
                }
            };
            assert!(rows > 30, "{rows}");
            assert_eq!((x, all.rows, all.violation), (y, rows, last.violation));
            assert_eq!(whole, parts);
        }
    }

    #[test]
    fn nothing_that_is_no_number_is_hidden() {
        let set = polyhedron(&[&[1.0, 0.0]], &[0.0]);
        let refused = set.project(&mut [f64::NAN, 1.0], &mut Warm::default()).unwrap_err().to_string();
        assert!(refused.starts_with("the value of row 1 of the constraints") && refused.contains("is NaN"), "{refused}");
        let none = Polyhedron::new(Matrix::dense(0, 1, vec![]).unwrap(), vec![]).unwrap();
        let mut x = [f64::NAN];
        none.project(&mut x, &mut Warm::default()).unwrap();
        assert!(x[0].is_nan());
        // A warm start of nonsense is dropped.
        let mut warm = Warm::from(vec![f64::NAN]);
        assert_eq!(project(&set, &[-1.0, 0.0], &mut warm), [0.0, 0.0]);
    }

    /// Targets that jump from corner to corner of a square, from far away: what the last one left behind does not slow the next.
    #[test]
    fn jumping_targets_are_projected_at_once() {
        let set = polyhedron(&[&[1.0, 0.0], &[-1.0, 0.0], &[0.0, 1.0], &[0.0, -1.0]], &[-1.0; 4]);
        let mut warm = Warm::default();
        for radius in [None, Some(10.0)] {
            for (a, b) in [(1.0, 1.0), (0.2, 1.0), (1.0, -0.4), (-1.0, -1.0), (1.0, 1.0), (-1.0, 0.1), (1.0, -1.0)] {
                let (a, b): (f64, f64) = (a, b);
                let mut x = [0.0; 2];
                begin(&set, radius, &[700.0 * a, 500.0 * b], &mut warm);
                let swept = sweep(&set, radius, &mut x, 8, 1e-9, &mut warm).unwrap();
                assert!(swept.done && vec::distance(&x, &[a.signum(), b.signum()]) < 1e-8, "{radius:?}: {x:?} after {swept:?}");
            }
        }
    }

    #[test]
    fn rows_of_equal_points_are_left_out() {
        let set = polyhedron(&[&[0.0, 0.0], &[1e-13, 0.0], &[1.0, 0.0]], &[0.0, 0.0, 1.0]);
        let mut warm = Warm::default();
        let mut x = [-5.0, 2.0];
        begin(&set, None, &x.clone(), &mut warm);
        let swept = sweep(&set, None, &mut x, 10, 1e-8, &mut warm).unwrap();
        // One visit moves, one to the row that pushes and one to all find nothing to do.
        assert_eq!((x, swept.rows, swept.done), ([1.0, 2.0], 3, true));
    }

    #[test]
    fn what_cannot_be_done_is_a_sentence() {
        let refused = |set: Polyhedron, x: &mut [f64]| set.project(x, &mut Warm::default()).unwrap_err().to_string();
        let against = || polyhedron(&[&[1.0], &[-1.0]], &[1.0, 1.0]).until(1e-8, 50).unwrap();
        let wanted = "a point cannot be projected onto the polyhedron of 2 rows and 1 coordinates: after 50 sweeps a row is violated \
                      by 2.0e0: the rows contradict each other, or are nearly parallel";
        assert_eq!(refused(against(), &mut [0.0]), wanted);
        let ball = refused(against().within(5.0).unwrap(), &mut [0.0]);
        assert!(ball.ends_with("in a ball of radius 5: no point of the ball keeps all of its rows"), "{ball}");
        let outside = refused(polyhedron(&[&[2.0]], &[11.0]).within(5.0).unwrap(), &mut [0.0]);
        assert!(outside.ends_with("no point of the ball keeps all of its rows"), "{outside}");
        let matrix = |row: Vec<f64>| Matrix::dense(1, row.len(), row).unwrap();
        let new = |row: Vec<f64>, bound: f64| Polyhedron::new(matrix(row), vec![bound]).unwrap_err().to_string();
        assert_eq!(
            new(vec![0.0], 1.0),
            "bound 1 of the polyhedron must be 0 or less, because the row is 0 and no point has more, got 1"
        );
        assert_eq!(new(vec![1.0], f64::NAN), "bound 1 of the polyhedron is NaN; expected a finite number");
        let short = Polyhedron::new(matrix(vec![1.0]), vec![]).unwrap_err().to_string();
        assert_eq!(short, "the list of bounds of the polyhedron has 0 entries; expected 1");
        let set = polyhedron(&[&[1.0, 0.0]], &[0.0]);
        assert_eq!(
            set.clone().within(0.0).unwrap_err().to_string(),
            "radius of the polyhedron must be a finite number larger than 0, got 0"
        );
        let length = refused(set.clone(), &mut [1.0]);
        assert_eq!(length, "the point for the polyhedron of 1 rows and 2 coordinates has 1 entries; expected 2");
        let mut warm = Warm::default();
        let early = sweep(&set, None, &mut [0.0; 2], 1, 1e-8, &mut warm).unwrap_err().to_string();
        assert!(early.contains("was not begun"), "{early}");
    }
}
