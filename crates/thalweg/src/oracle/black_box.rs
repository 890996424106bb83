//! Black-box problems: function values only, at several points per call, for any subset of the constraints. Problems with
//! subgradients use [`super::Problem`].

use std::borrow::Cow;
use std::sync::Arc;

use super::{At, Description, Draw, Linear, Pick, Region, Scratch, Structure, Values, Warm};
use crate::Result;
use crate::error::check_length;
use crate::sets::{Set, WholeSpace};

type Objective = Box<dyn Fn(&[f64], Pick, &mut [f64]) + Send + Sync>;
type Constraints = Box<dyn Fn(&[f64], Pick, &mut [f64]) + Send + Sync>;
type Name = Box<dyn Fn(usize) -> String + Send + Sync>;

/// Problem known only by its function values, such as a simulator.
///
/// ```
/// use thalweg::oracle::{BlackBox, Pick};
/// use thalweg::run::{self, Options};
/// use thalweg::solvers::{Dszog, dszog};
/// # fn main() -> thalweg::Result<()> {
/// // Ten thousand constraints `x_0 cos a + x_1 sin a <= 1`: the unit disc.
/// let angle = |j: usize| j as f64 * std::f64::consts::TAU / 10_000.0;
/// let problem = BlackBox::new(2).objective(|x| (x[0] - 2.0).powi(2) + x[1].powi(2)).constraints(10_000, move |x, which, g| {
///     which.each(10_000, |k, j| g[k] = x[0] * angle(j).cos() + x[1] * angle(j).sin() - 1.0);
/// });
/// let mut solver = Dszog::new(dszog::Settings { beta: 100.0, ..Default::default() })?;
/// let outcome = run::minimize_zeroth_order(&problem, &mut solver, &[0.0, 0.0], &Options::iterations(3000), &mut ())?;
/// assert!(outcome.point.x[0] > 0.9 && outcome.point.violation < 0.1);
/// # Ok(()) }
/// ```
pub struct BlackBox {
    dim: usize,
    samples: Vec<usize>,
    objective: Objective,
    count: usize,
    constraints: Constraints,
    name: Option<Name>,
    domain: Box<dyn Set>,
    region: Option<Box<dyn Region>>,
}

/// Calls `one` for every point with the matching part of `out`.
fn by_point(points: &[f64], dim: usize, width: usize, out: &mut [f64], mut one: impl FnMut(&[f64], &mut [f64])) {
    points.chunks(dim.max(1)).zip(out.chunks_mut(width.max(1))).for_each(|(x, out)| one(x, out));
}

impl BlackBox {
    /// Creates a problem in `dim` variables with objective 0, no constraints and no bounds on x.
    pub fn new(dim: usize) -> Self {
        BlackBox {
            dim,
            samples: vec![],
            objective: Box::new(|_, _, out| out.fill(0.0)),
            count: 0,
            constraints: Box::new(|_, _, _| {}),
            name: None,
            domain: Box::new(WholeSpace),
            region: None,
        }
    }

    /// Sets the objective, evaluated one point at a time.
    pub fn objective(self, value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static) -> Self {
        let dim = self.dim;
        self.objective_many(move |points, out| by_point(points, dim, 1, out, |x, out| out.fill(value(x))))
    }

    /// Sets the objective, evaluated at several points at once: `values(points, out)` with one row of `points` for each entry of
    /// `out`.
    pub fn objective_many(mut self, values: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static) -> Self {
        self.samples.clear();
        self.objective = Box::new(move |points, _, out| values(points, out));
        self
    }

    /// Sets the objective to a mean over `samples`, evaluated at several points on the picked samples:
    /// `values(points, samples, out)`.
    pub fn mean_of(mut self, samples: usize, values: impl Fn(&[f64], Pick, &mut [f64]) + Send + Sync + 'static) -> Self {
        self.samples = vec![samples];
        self.objective = Box::new(values);
        self
    }

    /// Sets `count` constraints `g_j(x) <= 0`, evaluated one point at a time: `values(x, which, g)` fills in the picked ones, in
    /// that order.
    pub fn constraints(self, count: usize, values: impl Fn(&[f64], Pick, &mut [f64]) + Send + Sync + 'static) -> Self {
        let dim = self.dim;
        self.constraints_many(count, move |points, which, out| {
            by_point(points, dim, which.count(count), out, |x, g| values(x, which, g));
        })
    }

    /// Sets `count` constraints, evaluated at several points at once: one row of `out` for each row of `points`.
    pub fn constraints_many(mut self, count: usize, values: impl Fn(&[f64], Pick, &mut [f64]) + Send + Sync + 'static) -> Self {
        self.count = count;
        self.constraints = Box::new(values);
        self
    }

    /// Sets linear constraints together with their domain and the region that both describe.
    pub fn linear(self, rows: Linear) -> Result<Self> {
        check_length("a row of the linear constraints", rows.dim(), self.dim)?;
        let rows = Arc::new(rows);
        let values = Arc::clone(&rows);
        let mut with = self.constraints(rows.count(), move |x, which, g| values.values(x, which, g));
        with.domain = rows.domain().boxed();
        Ok(with.region(rows))
    }

    /// Sets the names of the constraints, numbered from 0.
    pub fn named(mut self, name: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        self.name = Some(Box::new(name));
        self
    }

    /// Sets the domain, which x stays in.
    pub fn domain(mut self, set: impl Set + 'static) -> Self {
        self.domain = Box::new(set);
        self
    }

    /// Sets the region that the constraints describe, for methods that project onto it.
    pub fn region(mut self, region: impl Region + 'static) -> Self {
        self.region = Some(Box::new(region));
        self
    }
}

impl Description for BlackBox {
    fn dim(&self) -> usize {
        self.dim
    }
    fn num_constraints(&self) -> usize {
        self.count
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Owned(self.name.as_ref().map_or_else(|| format!("constraint {}", j + 1), |name| name(j)))
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn streams(&self) -> &[usize] {
        &self.samples
    }
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        false
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for BlackBox {
    fn objective(&self, at: At, _: &mut Scratch) -> Result<f64> {
        let mut value = [0.0];
        (self.objective)(at.x, at.draw.stream(0), &mut value);
        Ok(value[0])
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
        if !g.is_empty() {
            (self.constraints)(at.x, which, g);
        }
        Ok(())
    }
    fn objective_many(&self, points: &[f64], draw: &Draw, _: &Warm, out: &mut [f64], _: &mut Scratch) -> Result<()> {
        (self.objective)(points, draw.stream(0), out);
        Ok(())
    }
    fn constraint_values_many(
        &self,
        points: &[f64],
        _: &Draw,
        _: &Warm,
        which: Pick,
        out: &mut [f64],
        _: &mut Scratch,
    ) -> Result<()> {
        if !out.is_empty() {
            (self.constraints)(points, which, out);
        }
        Ok(())
    }
}

impl Structure for BlackBox {
    fn region(&self) -> Option<&dyn Region> {
        self.region.as_deref()
    }
}
