//! A bilevel problem in units of its own: variables by the widths of their sets, functions by their ranges over these. Methods
//! that work on it do not depend on the units that the problem is written in.

use std::sync::Arc;

use super::follower;
use super::{Bilevel, Derivatives, Extreme, Extremes, InnerRow, Pair, Stop};
use crate::Result;
use crate::error::check_finite;
use crate::math::vec;
use crate::oracle::Scratch;
use crate::sets::{Scaled, Set, Warm};

/// Number of points at which ranges are measured.
const SAMPLES: usize = 97;
/// Share of the samples with the smallest excess of g that its unit leaves below.
const LOW: f64 = 0.05;

/// Units of a problem.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Units {
    x: Vec<f64>,
    y: Vec<f64>,
    /// Value of f that becomes 0, and the unit of f.
    origin: f64,
    f: f64,
    /// Unit of g: a small excess over its minimum that still occurs all over Y.
    g: f64,
    /// Unit of each constraint C_i.
    c: Vec<f64>,
}

impl Units {
    pub(super) fn to_x(&self, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.x).map(|(x, unit)| x / unit).collect()
    }
    pub(super) fn original_x(&self, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.x).map(|(x, unit)| x * unit).collect()
    }
    pub(super) fn to_y(&self, y: &[f64]) -> Vec<f64> {
        y.iter().zip(&self.y).map(|(y, unit)| y / unit).collect()
    }
    pub(super) fn original_y(&self, y: &[f64]) -> Vec<f64> {
        y.iter().zip(&self.y).map(|(y, unit)| y * unit).collect()
    }
    pub(super) fn original_f(&self, f: f64) -> f64 {
        self.origin + self.f * f
    }
    pub(super) fn g(&self) -> f64 {
        self.g
    }
    pub(super) fn f(&self) -> f64 {
        self.f
    }

    /// Converts a point that begins with x and y; what follows stays.
    pub(super) fn original_point(&self, z: &[f64]) -> Vec<f64> {
        let units = self.x.iter().chain(&self.y).copied().chain(std::iter::repeat(1.0));
        z.iter().zip(units).map(|(z, unit)| z * unit).collect()
    }

    /// Converts what was measured in these units.
    pub(super) fn extremes(&self, found: Extremes) -> Extremes {
        let extreme = |e: Extreme| Extreme {
            value: self.original_f(e.value),
            y: self.original_y(&e.y),
            multipliers: e.multipliers.iter().zip(self.c.iter().chain([&self.g])).map(|(w, unit)| w * self.f / unit).collect(),
            violation: self.g * e.violation,
            finished: e.finished,
        };
        Extremes {
            inner_value: self.g * found.inner_value,
            slack: self.g * found.slack,
            pessimistic: extreme(found.pessimistic),
            optimistic: extreme(found.optimistic),
        }
    }
}

/// A set in other units of its variables.
#[derive(Debug)]
struct SetInUnits {
    set: Arc<dyn Set>,
    units: Vec<f64>,
    is_box: bool,
}

impl SetInUnits {
    fn scaled(&self) -> Scaled<'_> {
        match self.units.first() {
            Some(first) if !self.is_box => Scaled::new(&*self.set, *first),
            _ => Scaled::each(&*self.set, &self.units),
        }
    }
}

impl Set for SetInUnits {
    fn dim(&self) -> Option<usize> {
        self.set.dim()
    }
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        self.scaled().project(x, warm)
    }
    fn diameter(&self, dim: usize) -> f64 {
        self.scaled().diameter(dim)
    }
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        self.scaled().linear_minimizer(slope, out)
    }
    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        self.scaled().separate(y, foot, cut);
    }
    fn sides(&self, i: usize) -> Option<(f64, f64)> {
        let unit = self.units.get(i)?;
        self.set.sides(i).map(|(low, high)| (low / unit, high / unit))
    }
    fn describe(&self) -> String {
        self.set.describe()
    }
}

/// Returns the unit of each variable of a bounded set: half the width of a side, or half the diameter.
fn widths(set: &Arc<dyn Set>, dim: usize) -> (Vec<f64>, bool) {
    let usable = |width: f64| if width > 0.0 && width.is_finite() { width } else { 1.0 };
    let sides: Option<Vec<f64>> = (0..dim).map(|i| set.sides(i).map(|(low, high)| usable(0.5 * (high - low)))).collect();
    let is_box = sides.is_some();
    (sides.unwrap_or_else(|| vec![usable(0.5 * set.diameter(dim)); dim]), is_box)
}

/// Returns the point of a set that is number `k` of a sequence that fills it evenly.
pub(super) fn spread(set: &dyn Set, dim: usize, k: usize) -> Result<Vec<f64>> {
    const PRIMES: [usize; 25] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97];
    let radical = |base: usize, mut k: usize| {
        let (mut value, mut share) = (0.0, 1.0 / base as f64);
        while k > 0 {
            value += share * (k % base) as f64;
            k /= base;
            share /= base as f64;
        }
        value
    };
    let diameter = set.diameter(dim);
    let mut point: Vec<f64> = (0..dim)
        .map(|i| {
            // Beyond the primes, indices shifted by a multiple of the dimension decorrelate the coordinates.
            let share = radical(PRIMES[i % PRIMES.len()], k + 1 + 7 * (i / PRIMES.len()));
            let (low, high) = set.sides(i).unwrap_or((-0.5 * diameter, 0.5 * diameter));
            low + share * (high - low)
        })
        .collect();
    set.project(&mut point, &mut Warm::default())?;
    Ok(point)
}

/// A bilevel problem in other units.
pub(super) struct InUnits {
    problem: Arc<dyn Bilevel>,
    pub(super) units: Units,
    sets: (Arc<dyn Set>, Arc<dyn Set>),
    rows: Vec<InnerRow>,
}

/// Buffers: the point in the original units.
struct Original {
    problem: Scratch,
    x: Vec<f64>,
    y: Vec<f64>,
    b: Vec<f64>,
}

impl InUnits {
    /// Measures the units of a problem around the follower's response to `x`.
    pub(super) fn measure(problem: &Arc<dyn Bilevel>, x: &[f64], interrupt: Stop) -> Result<Self> {
        let (n, m, r) = (problem.outer_dim(), problem.inner_dim(), problem.num_constraints());
        let (outer_set, inner_set) = (problem.outer_set(), problem.inner_set());
        let ((ux, outer_box), (uy, inner_box)) = (widths(&outer_set, n), widths(&inner_set, m));
        let least = follower::minimum(&**problem, x, &vec![0.0; m], interrupt)?;
        let mut scratch = problem.scratch();
        let mut value = |y: &[f64], c: &mut [f64]| -> Result<(f64, f64)> {
            let at = Pair { x, y };
            problem.visit(at, &mut scratch)?;
            problem.constraint_values(at, c, &mut scratch)?;
            Ok((problem.outer(at, &mut scratch)?, problem.inner(at, &mut scratch)?))
        };
        let mut sizes = vec![0.0_f64; r];
        let mut c = vec![0.0; r];
        let (origin, _) = value(&least.y, &mut c)?;
        check_finite("the outer objective", origin)?;
        let (mut outer, mut excess) = (vec![], vec![]);
        for k in 0..SAMPLES {
            let y = spread(&*inner_set, m, k)?;
            let (f, g) = value(&y, &mut c)?;
            outer.extend(Some((f - origin).abs()).filter(|change| change.is_finite() && *change > 0.0));
            // What rounding leaves is no excess.
            let rounding = 1e-12 * g.abs().max(least.value.abs());
            excess.extend(Some(g - least.value).filter(|excess| excess.is_finite() && *excess > rounding));
            sizes.iter_mut().zip(&c).for_each(|(size, c)| *size = size.max(if c.is_finite() { c.abs() } else { 0.0 }));
        }
        let quantile = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values.get((share * values.len() as f64) as usize).copied().unwrap_or(1.0)
        };
        let units = Units {
            origin,
            f: quantile(&mut outer, 0.5),
            g: quantile(&mut excess, LOW),
            c: sizes.into_iter().map(|size| if size > 0.0 { size } else { 1.0 }).collect(),
            x: ux,
            y: uy,
        };
        Ok(InUnits::new(problem, units, (outer_box, inner_box)))
    }

    /// Leaves the units of a problem as they are.
    pub(super) fn plain(problem: &Arc<dyn Bilevel>) -> Self {
        let ones = |count: usize| vec![1.0; count];
        let (x, y, c) = (ones(problem.outer_dim()), ones(problem.inner_dim()), ones(problem.num_constraints()));
        InUnits::new(problem, Units { x, y, origin: 0.0, f: 1.0, g: 1.0, c }, (false, false))
    }

    fn new(problem: &Arc<dyn Bilevel>, units: Units, boxes: (bool, bool)) -> Self {
        let inside = |set: Arc<dyn Set>, units: &[f64], is_box: bool| -> Arc<dyn Set> {
            Arc::new(SetInUnits { set, units: units.to_vec(), is_box })
        };
        let sets = (inside(problem.outer_set(), &units.x, boxes.0), inside(problem.inner_set(), &units.y, boxes.1));
        let rows = problem.inner_rows().iter().map(|row| row.in_units(&units.x, &units.y)).collect();
        InUnits { problem: Arc::clone(problem), units, sets, rows }
    }

    /// Returns X and Y in the original units.
    pub(super) fn original_sets(&self) -> (Arc<dyn Set>, Arc<dyn Set>) {
        (self.problem.outer_set(), self.problem.inner_set())
    }

    /// Sets the buffers to a point in the original units.
    fn original<'a>(&self, at: Pair, s: &'a mut Scratch) -> Result<&'a mut Original> {
        let o = s.get::<Original>()?;
        o.x.iter_mut().zip(at.x).zip(&self.units.x).for_each(|((o, x), unit)| *o = x * unit);
        o.y.iter_mut().zip(at.y).zip(&self.units.y).for_each(|((o, y), unit)| *o = y * unit);
        Ok(o)
    }

    fn slopes(&self, unit: f64, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>) {
        for (d, units) in [(dx, &self.units.x), (dy, &self.units.y)] {
            d.into_iter().for_each(|d| d.iter_mut().zip(units).for_each(|(d, of)| *d *= of / unit));
        }
    }

    /// Adds `weight` times a product that `ask` computes in the original units for b.
    fn product(
        &self,
        at: Pair,
        b: &[f64],
        (weight, unit): (f64, f64),
        (dx, dy): (&mut [f64], &mut [f64]),
        scratch: &mut Scratch,
        ask: impl FnOnce(&dyn Bilevel, Pair, &[f64], &mut [f64], &mut [f64], &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        let Original { problem, x, y, b: scaled } = self.original(at, scratch)?;
        scaled.iter_mut().zip(b).zip(&self.units.y).for_each(|((s, b), of)| *s = b * of);
        let (mut by_x, mut by_y) = (vec![0.0; dx.len()], vec![0.0; dy.len()]);
        ask(&*self.problem, Pair { x, y }, scaled, &mut by_x, &mut by_y, problem)?;
        self.slopes(unit, Some(&mut by_x), Some(&mut by_y));
        vec::add_scaled(dx, weight, &by_x);
        vec::add_scaled(dy, weight, &by_y);
        Ok(())
    }
}

impl Bilevel for InUnits {
    fn outer_dim(&self) -> usize {
        self.problem.outer_dim()
    }
    fn inner_dim(&self) -> usize {
        self.problem.inner_dim()
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        Arc::clone(&self.sets.0)
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        Arc::clone(&self.sets.1)
    }
    fn inner_set_binds(&self) -> bool {
        self.problem.inner_set_binds()
    }
    fn inner_rows(&self) -> &[InnerRow] {
        &self.rows
    }
    fn num_constraints(&self) -> usize {
        self.problem.num_constraints()
    }
    fn scratch(&self) -> Scratch {
        let (n, m) = (self.outer_dim(), self.inner_dim());
        Scratch::new(Original { problem: self.problem.scratch(), x: vec![0.0; n], y: vec![0.0; m], b: vec![0.0; m] })
    }
    fn visit(&self, at: Pair, scratch: &mut Scratch) -> Result<()> {
        let Original { problem, x, y, .. } = self.original(at, scratch)?;
        self.problem.visit(Pair { x, y }, problem)
    }
    fn outer(&self, at: Pair, scratch: &mut Scratch) -> Result<f64> {
        let Original { problem, x, y, .. } = self.original(at, scratch)?;
        Ok((self.problem.outer(Pair { x, y }, problem)? - self.units.origin) / self.units.f)
    }
    fn outer_grad(&self, at: Pair, mut dx: Option<&mut [f64]>, mut dy: Option<&mut [f64]>, s: &mut Scratch) -> Result<f64> {
        let Original { problem, x, y, .. } = self.original(at, s)?;
        let f = self.problem.outer_grad(Pair { x, y }, dx.as_deref_mut(), dy.as_deref_mut(), problem)?;
        self.slopes(self.units.f, dx, dy);
        Ok((f - self.units.origin) / self.units.f)
    }
    fn inner(&self, at: Pair, scratch: &mut Scratch) -> Result<f64> {
        let Original { problem, x, y, .. } = self.original(at, scratch)?;
        Ok(self.problem.inner(Pair { x, y }, problem)? / self.units.g)
    }
    fn inner_grad(&self, at: Pair, mut dx: Option<&mut [f64]>, mut dy: Option<&mut [f64]>, s: &mut Scratch) -> Result<f64> {
        let Original { problem, x, y, .. } = self.original(at, s)?;
        let g = self.problem.inner_grad(Pair { x, y }, dx.as_deref_mut(), dy.as_deref_mut(), problem)?;
        self.slopes(self.units.g, dx, dy);
        Ok(g / self.units.g)
    }
    fn constraint_values(&self, at: Pair, c: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let Original { problem, x, y, .. } = self.original(at, scratch)?;
        self.problem.constraint_values(Pair { x, y }, c, problem)?;
        c.iter_mut().zip(&self.units.c).for_each(|(c, unit)| *c /= unit);
        Ok(())
    }
    fn constraint_vjp(
        &self,
        at: Pair,
        weights: &[f64],
        dx: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Original { problem, x, y, .. } = self.original(at, scratch)?;
        let weights: Vec<f64> = weights.iter().zip(&self.units.c).map(|(w, unit)| w / unit).collect();
        let (mut by_x, mut by_y) = (dx.as_ref().map(|d| vec![0.0; d.len()]), dy.as_ref().map(|d| vec![0.0; d.len()]));
        self.problem.constraint_vjp(Pair { x, y }, &weights, by_x.as_deref_mut(), by_y.as_deref_mut(), problem)?;
        self.slopes(1.0, by_x.as_deref_mut(), by_y.as_deref_mut());
        for (d, by) in [(dx, by_x), (dy, by_y)] {
            d.into_iter().zip(by).for_each(|(d, by)| vec::add_scaled(d, 1.0, &by));
        }
        Ok(())
    }
    fn gradients(&self) -> Derivatives {
        self.problem.gradients()
    }
    fn derivatives(&self) -> Derivatives {
        self.problem.derivatives()
    }
    fn outer_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], s: &mut Scratch) -> Result<()> {
        self.product(at, b, (weight, self.units.f), (dx, dy), s, |p, at, b, dx, dy, s| p.outer_second(at, b, 1.0, dx, dy, s))
    }
    fn inner_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], s: &mut Scratch) -> Result<()> {
        self.product(at, b, (weight, self.units.g), (dx, dy), s, |p, at, b, dx, dy, s| p.inner_second(at, b, 1.0, dx, dy, s))
    }
    fn constraint_second(
        &self,
        at: Pair,
        b: &[f64],
        weights: &[f64],
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let weights: Vec<f64> = weights.iter().zip(&self.units.c).map(|(w, unit)| w / unit).collect();
        self.product(at, b, (1.0, 1.0), (dx, dy), scratch, |p, at, b, dx, dy, s| p.constraint_second(at, b, &weights, dx, dy, s))
    }
    fn fingerprint(&self) -> String {
        format!("{}, in units {:?}", self.problem.fingerprint(), self.units)
    }
}
