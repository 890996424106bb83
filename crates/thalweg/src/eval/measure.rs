//! Measurement of the objective and the constraints of a point on all data, outside the counts of a run. What a run does with
//! such points is in [`crate::run`].

use serde::{Deserialize, Serialize};

use super::{Evaluator, ValueEval};
use crate::Result;
use crate::error::check_length;
use crate::math::vec;
use crate::oracle::{Draw, Pick, Values};

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
    /// Tolerance: the largest value that counts as satisfied.
    pub tolerance: f64,
    /// Whether the constraint is satisfied.
    pub satisfied: bool,
}

impl Point {
    fn new<P: Values + ?Sized>(x: &[f64], objective: f64, g: &[f64], problem: &P, feasibility: f64, all: usize) -> Self {
        let tolerance = |j: usize| feasibility * problem.constraint_scale(j);
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
}

impl<'p, P: Values + ?Sized> Measure<'p, P> {
    pub(crate) fn new(problem: &'p P, feasibility: f64, listed: usize) -> Self {
        Measure { ev: Evaluator::new(problem, 0, feasibility), full: Draw::full(), listed }
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

    fn assemble(&self, x: &[f64], objective: f64, g: &[f64]) -> Point {
        Point::new(x, objective, g, self.ev.problem(), self.ev.feasibility(), self.listed)
    }
}
