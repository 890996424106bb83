//! Linear constraints `low <= A x <= high` over a simple domain: their values, and the region that both describe. Nonlinear
//! constraints, and regions whose rows are not stored, do not belong here.

use super::region::lmo_target_far;
use super::{Pick, Region, Warm};
use crate::error::check_length;
use crate::math::{Matrix, vec};
use crate::sets::polyhedron::{self, NOTHING, Rows, SweepResult};
use crate::sets::{Ball, Bounds, Set, Simplex, WholeSpace};
use crate::{Error, Result};

/// Domain that can be projected onto together with linear constraints.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Domain {
    /// The whole space.
    #[default]
    Everywhere,
    /// Bounds on each variable.
    Bounds(Bounds),
    /// A ball.
    Ball(Ball),
    /// A simplex.
    Simplex(Simplex),
}

impl Domain {
    /// Returns the domain as a set.
    pub fn boxed(&self) -> Box<dyn Set> {
        match self {
            Domain::Everywhere => Box::new(WholeSpace),
            Domain::Bounds(set) => Box::new(set.clone()),
            Domain::Ball(set) => Box::new(set.clone()),
            Domain::Simplex(set) => Box::new(*set),
        }
    }
}

impl From<Bounds> for Domain {
    fn from(set: Bounds) -> Self {
        Domain::Bounds(set)
    }
}

impl From<Ball> for Domain {
    fn from(set: Ball) -> Self {
        Domain::Ball(set)
    }
}

impl From<Simplex> for Domain {
    fn from(set: Simplex) -> Self {
        Domain::Simplex(set)
    }
}

/// Constraints `low <= A x <= high`, one for each row, and a domain. Row i has the value
/// `max(<a_i, x> - high_i, low_i - <a_i, x>)`, which is at most 0 where it is satisfied. An infinite side imposes nothing.
///
/// **Projection.** Hildreth's method on the sides of the rows and of the domain; a ball is handled in the same iteration, as in
/// [`crate::sets::Polyhedron`]. An equality is two opposite sides.
///
/// **Linear functions** are minimised if the domain is bounded, by projecting a distant point as in [`super::region::BoundedRegion`]:
/// with r half the domain's diameter, the value is at most `0.02 r ||slope||` above the minimum.
#[derive(Debug, Clone)]
pub struct Linear {
    matrix: Matrix,
    low: Vec<f64>,
    high: Vec<f64>,
    domain: Domain,
    /// Half-spaces that are projected onto; a ball is not among them.
    sides: Vec<Side>,
    /// Half the diameter of the domain, infinite if it is unbounded.
    reach: f64,
}

/// Half-space `sign <a, x - centre> >= bound`, where the centre is that of the ball or the origin.
#[derive(Debug, Clone, Copy)]
struct Side {
    of: SideTarget,
    sign: f64,
    bound: f64,
    square: f64,
}

/// Row or variable that a side constrains.
#[derive(Debug, Clone, Copy)]
enum SideTarget {
    Row(u32),
    Variable(u32),
    Sum,
}

impl Linear {
    /// Creates the constraints `low <= matrix x <= high` on the whole space.
    pub fn new(matrix: Matrix, low: Vec<f64>, high: Vec<f64>) -> Result<Self> {
        check_length("the list of lower bounds of the rows", low.len(), matrix.rows())?;
        check_length("the list of upper bounds of the rows", high.len(), matrix.rows())?;
        for (i, (&low, &high)) in low.iter().zip(&high).enumerate() {
            let square = matrix.row_norm_squared(i);
            let row = format!("row {} of the linear constraints", i + 1);
            if !square.is_finite() {
                return Err(Error::NotFinite { what: format!("the squared length of {row}"), value: square });
            }
            if low.is_nan() || high.is_nan() || low > high || low == f64::INFINITY || high == f64::NEG_INFINITY {
                return Err(Error::setting(row, format!("{low} to {high}"), "two bounds, the lower one first"));
            }
            if low == f64::NEG_INFINITY && high == f64::INFINITY {
                return Err(Error::setting(row, format!("{low} to {high}"), "at least one bound that is finite"));
            }
            if square < NOTHING && !(low <= 0.0 && high >= 0.0) {
                let wanted = "0 between them, because the row is 0 and no point has another value";
                return Err(Error::setting(row, format!("{low} to {high}"), wanted));
            }
        }
        Linear { matrix, low, high, domain: Domain::Everywhere, sides: vec![], reach: f64::INFINITY }.within(Domain::Everywhere)
    }

    /// Restricts x to a domain.
    pub fn within(mut self, domain: impl Into<Domain>) -> Result<Self> {
        let (domain, dim) = (domain.into(), self.matrix.cols());
        let set = domain.boxed();
        if let Some(wanted) = set.dim() {
            check_length("a row of the linear constraints", dim, wanted)?;
        }
        self.reach = 0.5 * set.diameter(dim);
        self.domain = domain;
        let mut sides = Vec::with_capacity(self.matrix.rows());
        let mut between = |of: SideTarget, low: f64, high: f64, shift: f64, square: f64| {
            for (sign, bound) in [(1.0, low - shift), (-1.0, shift - high)] {
                if bound.is_finite() {
                    sides.push(Side { of, sign, bound, square });
                }
            }
        };
        for (i, (&low, &high)) in self.low.iter().zip(&self.high).enumerate() {
            let shift = self.centre().map_or(0.0, |centre| self.matrix.row_dot(i, centre));
            between(SideTarget::Row(i as u32), low, high, shift, self.matrix.row_norm_squared(i));
        }
        match &self.domain {
            Domain::Everywhere | Domain::Ball(_) => {}
            Domain::Bounds(bounds) => (0..dim).for_each(|i| {
                let (low, high) = bounds.side(i);
                between(SideTarget::Variable(i as u32), low, high, 0.0, 1.0);
            }),
            Domain::Simplex(simplex) => {
                (0..dim).for_each(|i| between(SideTarget::Variable(i as u32), 0.0, f64::INFINITY, 0.0, 1.0));
                between(SideTarget::Sum, simplex.total(), simplex.total(), 0.0, dim as f64);
            }
        }
        self.sides = sides;
        Ok(self)
    }

    /// Returns the number of variables.
    pub fn dim(&self) -> usize {
        self.matrix.cols()
    }

    /// Returns the number of constraints.
    pub fn count(&self) -> usize {
        self.matrix.rows()
    }

    /// Returns the domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Computes the values of the picked constraints at a point.
    pub fn values(&self, x: &[f64], which: Pick, g: &mut [f64]) {
        let value = |i: usize, product: f64| (product - self.high[i]).max(self.low[i] - product);
        match which {
            Pick::All => {
                self.matrix.scores(0..self.count(), x, g);
                g.iter_mut().enumerate().for_each(|(i, g)| *g = value(i, *g));
            }
            Pick::These(ids) => {
                ids.iter().zip(g).for_each(|(&i, g)| *g = value(i as usize, self.matrix.row_dot(i as usize, x)));
            }
        }
    }

    /// Returns the centre of the ball unless it is the origin.
    fn centre(&self) -> Option<&[f64]> {
        match &self.domain {
            Domain::Ball(ball) => ball.centre(),
            _ => None,
        }
    }

    fn radius(&self) -> Option<f64> {
        match &self.domain {
            Domain::Ball(ball) => Some(ball.radius()),
            _ => None,
        }
    }
}

/// The half-spaces that are projected onto.
impl Rows for Linear {
    fn len(&self) -> usize {
        self.sides.len()
    }
    fn dot(&self, k: usize, x: &[f64]) -> f64 {
        let Side { of, sign, .. } = self.sides[k];
        sign * match of {
            SideTarget::Row(i) => self.matrix.row_dot(i as usize, x),
            SideTarget::Variable(i) => x[i as usize],
            SideTarget::Sum => vec::sum_by(x.len(), |i| x[i]),
        }
    }
    fn add(&self, k: usize, weight: f64, x: &mut [f64]) {
        let Side { of, sign, .. } = self.sides[k];
        match of {
            SideTarget::Row(i) => self.matrix.add_row(i as usize, sign * weight, x),
            SideTarget::Variable(i) => x[i as usize] += sign * weight,
            SideTarget::Sum => x.iter_mut().for_each(|x| *x += sign * weight),
        }
    }
    fn square(&self, k: usize) -> f64 {
        self.sides[k].square
    }
    fn bound(&self, k: usize) -> f64 {
        self.sides[k].bound
    }
}

impl Region for Linear {
    fn begin(&self, _at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        check_length("the target of a projection", target.len(), self.dim())?;
        Ok(match self.centre() {
            None => polyhedron::begin(self, self.radius(), target, warm),
            Some(centre) => {
                let moved: Vec<f64> = target.iter().zip(centre).map(|(t, c)| t - c).collect();
                polyhedron::begin(self, self.radius(), &moved, warm)
            }
        })
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        let swept = polyhedron::sweep(self, self.radius(), x, sweeps, tolerance, warm)?;
        if swept.empty {
            let domain = self.domain.boxed().describe();
            return Err(Error::Problem(format!("no point of the domain ({domain}) keeps all constraints")));
        }
        if let Some(centre) = self.centre() {
            vec::add_scaled(x, 1.0, centre);
        }
        Ok(swept)
    }
    fn bounded(&self) -> bool {
        self.reach.is_finite()
    }
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        lmo_target_far(self.reach, at, slope, out);
    }
    fn lmo_finish(&self, _x: &mut [f64]) {}
    fn describe(&self) -> String {
        format!("{} linear constraints, domain {}", self.count(), self.domain.boxed().describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Rng, rng::Purpose};
    use crate::oracle::{At, BlackBox, Description, Draw, Structure, Values};
    use crate::run::{self, Options};
    use crate::solvers::{Zopsgd, Zoscgd, zopsgd, zoscgd};

    const NONE: f64 = f64::INFINITY;

    fn linear(rows: &[&[f64]], low: &[f64], high: &[f64]) -> Linear {
        let entries: Vec<f64> = rows.iter().flat_map(|row| row.iter().copied()).collect();
        Linear::new(Matrix::dense(rows.len(), rows[0].len(), entries).unwrap(), low.to_vec(), high.to_vec()).unwrap()
    }

    fn project(region: &dyn Region, target: &[f64], warm: &mut Warm) -> Vec<f64> {
        let mut x = vec![0.0; target.len()];
        region.begin(target, target, warm).unwrap();
        for _ in 0..100_000 {
            if region.sweep(&mut x, 3, 1e-11, warm).unwrap().done {
                return x;
            }
        }
        panic!("not done at {x:?}");
    }

    /// Projects with Dykstra's method, one set after the other: each row with both of its sides, and the domain by its own
    /// projection.
    fn twin(rows: &[Vec<f64>], low: &[f64], high: &[f64], domain: &dyn Set, target: &[f64]) -> Vec<f64> {
        let mut y = target.to_vec();
        let mut fixes = vec![vec![0.0; target.len()]; rows.len() + 1];
        for _ in 0..30_000 {
            for (k, fix) in fixes.iter_mut().enumerate() {
                vec::add_scaled(&mut y, 1.0, fix);
                let from = y.clone();
                match rows.get(k) {
                    None => domain.project(&mut y, &mut Warm::default()).unwrap(),
                    Some(row) => {
                        let product = vec::dot(row, &y);
                        let wanted = product.clamp(low[k], high[k]);
                        vec::add_scaled(&mut y, (wanted - product) / vec::norm_squared(row), row);
                    }
                }
                fix.iter_mut().zip(from.iter().zip(&y)).for_each(|(fix, (from, y))| *fix = from - y);
            }
        }
        y
    }

    /// Random rows with one and two sides over every kind of domain; an interior point satisfies all of them.
    #[test]
    fn projections_are_those_of_a_naive_twin() {
        let mut rng = Rng::new(3, Purpose::Data);
        let mut moved = [0; 5];
        for trial in 0..60 {
            let mut normals = |n: usize| {
                let mut out = vec![0.0; n];
                rng.normals(&mut out);
                out
            };
            let (dim, m) = (3, 1 + trial % 4);
            let rows: Vec<Vec<f64>> = (0..m).map(|_| normals(dim)).collect();
            let centre: Vec<f64> = normals(dim).iter().map(|c| 3.0 * c).collect();
            let (domain, inside) = match trial % 5 {
                0 => (Domain::Everywhere, normals(dim)),
                1 => (Domain::from(Bounds::each(vec![-1.0, 0.0, -NONE], vec![1.0, NONE, 0.5]).unwrap()), vec![0.5, 0.5, -2.0]),
                2 => (Domain::from(Ball::new(1.5).unwrap()), vec![0.5, -0.5, 0.2]),
                3 => (Domain::from(Ball::around(centre.clone(), 1.5).unwrap()), centre.clone()),
                _ => (Domain::from(Simplex::new(2.0).unwrap()), vec![0.5, 1.2, 0.3]),
            };
            let slack: Vec<f64> = normals(2 * m).iter().map(|v| v.abs().min(0.4)).collect();
            let product = |i: usize| vec::dot(&rows[i], &inside);
            let low: Vec<f64> = (0..m).map(|i| if i % 3 == 1 { -NONE } else { product(i) - slack[2 * i] }).collect();
            let high: Vec<f64> = (0..m).map(|i| if i % 3 == 2 { NONE } else { product(i) + slack[2 * i + 1] }).collect();
            let slices: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
            let region = linear(&slices, &low, &high).within(domain.clone()).unwrap();
            let mut warm = Warm::default();
            for _ in 0..2 {
                let target: Vec<f64> = normals(dim).iter().zip(&inside).map(|(v, c)| c + 3.0 * v).collect();
                let (found, wanted) = (project(&region, &target, &mut warm), twin(&rows, &low, &high, &*domain.boxed(), &target));
                assert!(vec::distance(&found, &wanted) < 1e-6, "trial {trial}: {found:?} instead of {wanted:?}");
                let mut g = vec![0.0; m];
                region.values(&found, Pick::All, &mut g);
                assert!(g.iter().all(|g| *g <= 1e-9), "trial {trial}: {g:?}");
                moved[trial % 5] += usize::from(vec::distance(&found, &target) > 1e-3);
            }
        }
        assert!(moved.iter().all(|&count| count >= 20), "{moved:?}");
    }

    #[test]
    fn values_worked_by_hand() {
        let rows = linear(&[&[1.0, 2.0], &[0.0, 1.0], &[1.0, -1.0]], &[0.0, -NONE, 1.0], &[3.0, 2.0, NONE]);
        let mut g = [0.0; 3];
        rows.values(&[4.0, 1.0], Pick::All, &mut g);
        assert_eq!(g, [3.0, -1.0, -2.0]);
        let mut some = [0.0; 2];
        rows.values(&[-1.0, 0.0], Pick::These(&[2, 0]), &mut some);
        assert_eq!(some, [2.0, 1.0]);
        assert_eq!((rows.count(), rows.dim(), Rows::len(&rows)), (3, 2, 4));
    }

    #[test]
    fn linear_functions_are_minimised_where_the_domain_is_bounded() {
        let rows = linear(&[&[1.0, 1.0]], &[-NONE], &[1.0]);
        assert!(!rows.bounded());
        let square = rows.clone().within(Bounds::uniform(0.0, 1.0).unwrap()).unwrap();
        assert!(square.bounded());
        let mut aim = [0.0; 2];
        for (slope, wanted) in [([-1.0, -2.0], [0.0, 1.0]), ([1.0, 1.0], [0.0, 0.0]), ([-2.0, 1.0], [1.0, 0.0])] {
            square.lmo_target(&[0.2, 0.2], &slope, &mut aim);
            let mut found = project(&square, &aim, &mut Warm::default());
            square.lmo_finish(&mut found);
            assert!(vec::distance(&found, &wanted) < 1e-8, "{slope:?}: {found:?}");
        }
        let ball = rows.within(Ball::around(vec![5.0, 0.0], 1.0).unwrap()).unwrap();
        let mut warm = Warm::default();
        ball.begin(&[0.0; 2], &[0.0; 2], &mut warm).unwrap();
        let empty = ball.sweep(&mut [0.0; 2], 1000, 1e-9, &mut warm).unwrap_err().to_string();
        assert!(empty.starts_with("no point of the domain (ball") && empty.ends_with("keeps all constraints"), "{empty}");
    }

    /// max x + 2 y under x + y <= 1 and y - x <= 0.5: the corner (0.25, 0.75).
    #[test]
    fn black_boxes_project_onto_them() {
        let rows = || linear(&[&[1.0, 1.0], &[-1.0, 1.0]], &[-NONE, -NONE], &[1.0, 0.5]);
        let problem = |rows: Linear| BlackBox::new(2).objective(|x| -x[0] - 2.0 * x[1]).linear(rows).unwrap();
        let settings = zopsgd::Settings { directions: 40, ..zopsgd::Settings::default() };
        let mut solver = Zopsgd::new(settings).unwrap();
        let free = problem(rows());
        let outcome = run::minimize_zeroth_order(&free, &mut solver, &[0.0, 0.0], &Options::iterations(500), &mut ()).unwrap();
        assert!(vec::distance(&outcome.point.x, &[0.25, 0.75]) < 1e-2 && outcome.point.feasible, "{:?}", outcome.point);

        let mut solver = Zoscgd::new(zoscgd::Settings { directions: 100, ..zoscgd::Settings::default() }).unwrap();
        let refused = run::minimize_zeroth_order(&free, &mut solver, &[0.0, 0.0], &Options::iterations(5), &mut ());
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.starts_with("zoscgd minimises linear functions") && refused.ends_with("expected a bounded domain"),
            "{refused}"
        );
        let held = problem(rows().within(Bounds::uniform(-1.0, 1.0).unwrap()).unwrap());
        let outcome = run::minimize_zeroth_order(&held, &mut solver, &[0.0, 0.0], &Options::iterations(1000), &mut ()).unwrap();
        assert!(vec::distance(&outcome.point.x, &[0.25, 0.75]) < 0.05 && outcome.point.feasible, "{:?}", outcome.point);
        assert!(Description::domain(&held).distance(&[2.0, 0.0]).unwrap() > 0.9 && Structure::region(&held).is_some());
        let at = At { x: &[1.0, 1.0], draw: &Draw::full(), warm: &Warm::default() };
        let mut g = [0.0];
        held.constraint_values(at, Pick::These(&[1]), &mut g, &mut held.scratch()).unwrap();
        assert_eq!(g, [-0.5]);
        assert!(BlackBox::new(3).linear(rows()).err().unwrap().to_string().contains("has 2 entries; expected 3"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let row = |entries: Vec<f64>| Matrix::dense(1, entries.len(), entries).unwrap();
        let refused =
            |entries: Vec<f64>, low: f64, high: f64| Linear::new(row(entries), vec![low], vec![high]).unwrap_err().to_string();
        assert_eq!(
            refused(vec![1.0], 2.0, 1.0),
            "row 1 of the linear constraints must be two bounds, the lower one first, got 2 to 1"
        );
        assert!(refused(vec![1.0], f64::NAN, 1.0).contains("NaN to 1"));
        assert!(refused(vec![1.0], -NONE, NONE).contains("must be at least one bound that is finite, got "));
        assert!(refused(vec![0.0], 1.0, 2.0).contains("0 between them, because the row is 0"));
        assert!(Linear::new(row(vec![1.0]), vec![], vec![1.0]).unwrap_err().to_string().contains("lower bounds"));
        let ball = Ball::around(vec![0.0; 2], 1.0).unwrap();
        assert!(linear(&[&[1.0]], &[0.0], &[1.0]).within(ball).unwrap_err().to_string().contains("has 1 entries; expected 2"));
    }
}
