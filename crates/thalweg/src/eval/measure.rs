//! Measurement of the objective and the constraints of a point on all data, outside the counts of a run. What a run does with
//! such points is in [`crate::run`].

use serde::{Deserialize, Serialize};

use super::{Evaluator, ValueEval};
use crate::Result;
use crate::cuts::Owner;
use crate::cuts::noise::{Local, accuracy, size};
use crate::error::check_length;
use crate::math::vec;
use crate::oracle::{Draw, Pick, Subgradients, Values};
use crate::sets::Set;

/// Number of constraints up to which each one is listed by default; beyond it, only the ten worst are.
pub const MAX_LISTED_CONSTRAINTS: usize = 200;

/// Number of constraints listed where there are too many to list them all.
const WORST: usize = 10;

/// Point with its objective and constraints on all data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The variables.
    #[serde(default)]
    pub x: Vec<f64>,
    /// f(x).
    pub objective: f64,
    /// Every constraint; if there are too many to list, the ten with the largest values, in decreasing order.
    pub constraints: Vec<ConstraintValue>,
    /// Number of constraints.
    pub total: usize,
    /// Number of violated constraints.
    pub violated: usize,
    /// Name of the constraint with the largest value; `None` without constraints.
    pub worst: Option<String>,
    /// The largest g_j(x), signed; minus infinity without constraints.
    pub violation: f64,
    /// Whether every constraint is satisfied within its tolerance.
    pub feasible: bool,
}

/// One constraint at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintValue {
    /// Index, from 0.
    pub index: usize,
    /// Name.
    pub name: String,
    /// g_j(x): at most 0 if the constraint is satisfied exactly.
    pub value: f64,
    /// Tolerance: the largest value that counts as satisfied, the feasibility tolerance times the unit of the constraint.
    pub tolerance: f64,
    /// Whether the constraint is satisfied.
    pub satisfied: bool,
}

impl Point {
    fn new<P: Values + ?Sized>(
        x: &[f64],
        objective: f64,
        g: &[f64],
        problem: &P,
        tolerance: &dyn Fn(usize) -> f64,
        all: usize,
    ) -> Self {
        let holds = |j: usize| g[j] <= tolerance(j);
        let listed: Vec<usize> = if g.len() <= all { (0..g.len()).collect() } else { largest(g) };
        let constraint = |&j: &usize| ConstraintValue {
            index: j,
            name: problem.constraint_name(j).into_owned(),
            value: g[j],
            tolerance: tolerance(j),
            satisfied: holds(j),
        };
        let violated = (0..g.len()).filter(|&j| !holds(j)).count();
        let worst = vec::first_max(g);
        Point {
            x: x.to_vec(),
            objective,
            constraints: listed.iter().map(constraint).collect(),
            total: g.len(),
            violated,
            worst: worst.map(|(j, _)| problem.constraint_name(j).into_owned()),
            violation: worst.map_or(if g.is_empty() { f64::NEG_INFINITY } else { f64::NAN }, |(_, v)| v),
            feasible: violated == 0 && objective.is_finite(),
        }
    }

    /// Returns the share of violated constraints.
    pub fn share_violated(&self) -> f64 {
        self.violated as f64 / self.total.max(1) as f64
    }
}

/// Returns the indices of the ten largest numbers in decreasing order; NaN sorts first.
fn largest(g: &[f64]) -> Vec<usize> {
    let rank = |j: usize| if g[j].is_nan() { f64::INFINITY } else { g[j] };
    let mut kept: Vec<usize> = Vec::with_capacity(WORST + 1);
    for j in 0..g.len() {
        if kept.len() < WORST || kept.last().is_some_and(|&last| rank(j) > rank(last)) {
            let place = kept.partition_point(|&k| rank(k) >= rank(j));
            kept.insert(place, j);
            kept.truncate(WORST);
        }
    }
    kept
}

/// Returns the length that distances at `x` are compared with in a run from `start`: the norm of `x`, or a fraction of the
/// distance from the start, whichever is larger.
pub fn length_at(x: &[f64], start: &[f64]) -> f64 {
    vec::norm(x).max(SHRINK * vec::distance(x, start))
}

/// Smallest length relative to the distance from the start.
const SHRINK: f64 = 1e-3;

/// Returns the unit of each constraint at `x`: the change that its subgradient predicts over `length`. `None` if the problem is in
/// natural units, where the unit is [`Description::constraint_scale`](crate::oracle::Description::constraint_scale).
///
/// A constraint is satisfied if its value is at most its unit times the feasibility tolerance. So `x <= 1e-9` is violated at 9e-7,
/// and a constraint stays violated when it is multiplied by a small number.
pub fn constraint_units<P: Subgradients + ?Sized>(problem: &P, x: &[f64], length: f64) -> Result<Option<Vec<f64>>> {
    if problem.in_natural_units() || problem.num_constraints() == 0 {
        return Ok(None);
    }
    let here = Local::at(&mut Evaluator::new(problem, 0, 0.0), x)?;
    // No tolerance is below the rounding errors of the constraint.
    let rounding = |value: f64, row: &[f64]| ROUNDING * accuracy(x.len()) * size(value, x, row);
    let unit = |(_, value, row): (Owner, f64, &[f64])| reach(row, length, problem.domain()).max(rounding(value, row));
    Ok(Some(here.parts().skip(1).map(unit).collect()))
}

/// Returns the change that a subgradient predicts over a length, and over no more than the width of a box in each coordinate:
/// variables of very different units are comparable only by the widths that they are given.
pub(crate) fn reach(row: &[f64], length: f64, domain: &dyn Set) -> f64 {
    vec::sum_by(row.len(), |k| (row[k] * length.min(width(domain, k))).powi(2)).sqrt()
}

/// Returns the width of a box in coordinate `i`; infinite if the set is no box.
pub(crate) fn width(domain: &dyn Set, i: usize) -> f64 {
    domain.sides(i).map_or(f64::INFINITY, |(low, high)| high - low)
}

/// Multiple of the rounding error of a constraint that its unit is at least, which makes the tolerance a few errors.
const ROUNDING: f64 = 4e6;

/// Measures a point of a problem with subgradients on all data, with the units of the constraints there.
pub(crate) fn measure_in_units<P: Subgradients + ?Sized>(problem: &P, x: &[f64], feasibility: f64, length: f64) -> Result<Point> {
    check_length("the point", x.len(), problem.dim())?;
    let mut points = Measure::new(problem, feasibility, MAX_LISTED_CONSTRAINTS);
    points.set_units(constraint_units(problem, x, length)?);
    points.point(x)
}

/// Measures a point on all data.
pub fn measure(problem: &(impl Values + ?Sized), x: &[f64], feasibility: f64) -> Result<Point> {
    check_length("the point", x.len(), problem.dim())?;
    Measure::new(problem, feasibility, MAX_LISTED_CONSTRAINTS).point(x)
}

/// Measures points on all data through its own evaluator, so that nothing is added to the counts of a run.
pub(crate) struct Measure<'p, P: ?Sized> {
    ev: Evaluator<'p, P>,
    full: Draw,
    listed: usize,
    units: Option<Vec<f64>>,
}

impl<'p, P: Values + ?Sized> Measure<'p, P> {
    pub(crate) fn new(problem: &'p P, feasibility: f64, listed: usize) -> Self {
        Measure { ev: Evaluator::new(problem, 0, feasibility), full: Draw::full(), listed, units: None }
    }

    pub(crate) fn point(&mut self, x: &[f64]) -> Result<Point> {
        // The result must not depend on which points were measured before.
        self.ev.forget();
        self.ev.refresh(x)?;
        let objective = self.ev.objective(x, &self.full)?;
        let mut g = vec![0.0; self.ev.num_constraints()];
        self.ev.constraint_values(x, &self.full, Pick::All, &mut g)?;
        Ok(self.assemble(x, objective, &g))
    }

    /// Returns a point whose values could not be computed.
    pub(crate) fn unknown(&self, x: &[f64]) -> Point {
        self.assemble(x, f64::NAN, &vec![f64::NAN; self.ev.num_constraints()])
    }

    /// Sets the units of the constraints; `None` for those of the problem.
    pub(crate) fn set_units(&mut self, units: Option<Vec<f64>>) {
        self.units = units;
    }

    fn assemble(&self, x: &[f64], objective: f64, g: &[f64]) -> Point {
        let tolerance = |j: usize| match &self.units {
            None => self.ev.tolerance(j),
            Some(units) => self.ev.feasibility() * units[j],
        };
        Point::new(x, objective, g, self.ev.problem(), &tolerance, self.listed)
    }
}
