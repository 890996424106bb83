//! Reference values: the smallest value of a convex expression with a proven lower bound, and its minimiser of least norm.
//! Bounds such as `1.001 * best(hinge)` and the starts, thresholds and balls of the papers use them; which expressions a
//! problem needs is decided in `references.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::problem::Learning;
use crate::cuts::{Convexification, MasterObjective, Model, Norm, Owner};
use crate::eval::{Eval, Evaluator};
use crate::math::vec;
use crate::oracle::{Description, Draw, Modulus};
use crate::solvers::bundle::{Bundle, Settings};
use crate::solvers::{Method, Solver};
use crate::{Error, Result};

/// Target gap between value and lower bound, relative to the value. The minimiser of least norm may exceed the value by the
/// same fraction.
const GAP: f64 = 1e-7;
/// Smallest value that a relative gap is divided by. Losses are of order 1, and a smallest value of 0 has no relative accuracy.
const FLOOR: f64 = 1e-3;

/// The smallest value of a convex expression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Expression that was minimised.
    pub expression: String,
    /// Smallest value found.
    pub value: f64,
    /// Lower bound on the value of every point within 10 (1 + norm) of the minimiser.
    pub lower: f64,
    /// Point of least norm among those with a value of at most `value` times 1 + 1e-7. The intercept counts as a variable.
    pub minimizer: Vec<f64>,
    /// Euclidean norm of the minimiser.
    pub norm: f64,
    /// Smallest and largest score of the minimiser over the rows that losses are computed on.
    pub scores: [f64; 2],
    /// Evaluations of the expression, for the value and for the minimiser together.
    pub evaluations: u64,
}

impl fmt::Display for Best {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "best({}) = {:.6} (", self.expression, self.value)?;
        let gap = (self.value - self.lower) / self.value.abs().max(FLOOR);
        if gap <= GAP {
            write!(f, "proved to {GAP:.0e}")?
        } else {
            write!(f, "proved to be at least {:.6}", self.lower)?
        }
        write!(f, "), least norm {:.6}, {} evaluations", self.norm, self.evaluations)
    }
}

/// Minimises the objective of a problem without constraints over its domain. Rejects an objective that is not convex, because
/// no lower bound could be proved for it.
pub fn best(problem: &Learning) -> Result<Best> {
    refuse(problem)?;
    let (x, value, lower, evaluations, cuts) = minimise(problem)?;
    let slack = GAP * value.abs().max(FLOOR);
    let (minimizer, more) = shortest(problem, &cuts, value + slack, &x, value)?;
    Ok(Best {
        expression: problem.objective_text().into(),
        value,
        lower,
        norm: vec::norm(&minimizer),
        scores: problem.loss_score_range(&minimizer)?,
        minimizer,
        evaluations: evaluations + more,
    })
}

/// Returns a placeholder for a reference value, used to check a problem before any value is computed. Its numbers are larger
/// than any real ones, so that no bound, range or ball built from them is rejected.
pub(super) fn placeholder(problem: &Learning) -> Result<Best> {
    const LARGE: f64 = 1e100;
    refuse(problem)?;
    Ok(Best {
        expression: problem.objective_text().into(),
        value: LARGE,
        lower: 0.0,
        minimizer: vec![0.0; problem.dim()],
        norm: LARGE,
        scores: [-LARGE, LARGE],
        evaluations: 0,
    })
}

/// Rejects a problem whose smallest value cannot be proved.
fn refuse(problem: &Learning) -> Result<()> {
    let text = problem.objective_text();
    if problem.num_constraints() > 0 {
        let what = format!("best({text}) is asked of a problem with constraints; expected one without");
        return Err(Error::Problem(what));
    }
    match problem.objective_modulus() {
        Some(Modulus { value: 0.0, .. }) => Ok(()),
        _ => Err(Error::Problem(format!(
            "best({text}) cannot be computed, because {text} is not convex; expected a sum of hinge, logistic, l2 and l1"
        ))),
    }
}

/// Minimises until the gap between value and lower bound is small enough. Returns the point, its value, the lower bound, the
/// number of evaluations and the cuts.
fn minimise(problem: &Learning) -> Result<(Vec<f64>, f64, f64, u64, Model)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let start = vec![0.0; problem.dim()];
    let mut solver = Bundle::new(Settings { mu: Some(FIRST_MU), eps: PROOF, ..Settings::default() })?;
    let (mut stated, mut evaluations, mut lower) = (FIRST_MU, 0, f64::NEG_INFINITY);
    let mut x = start.clone();
    solver.start(&mut ev as &mut dyn Eval, &start)?;
    loop {
        solver.step(&mut ev as &mut dyn Eval)?;
        evaluations += 1;
        solver.iterate(&mut x);
        let value = solver.value();
        let wanted = GAP * value.abs().max(FLOOR);
        if let Some((linear, slope)) = solver.mean_cut() {
            let across = slope * RADIUS * (1.0 + vec::norm(&x));
            lower = f64::max(lower, value + linear - across);
            // Once the centre is good enough, a smaller coefficient gives flatter cuts.
            if across > 0.5 * wanted && -linear <= 0.5 * wanted && stated > 1e-12 {
                stated *= 0.3;
                solver.state_for(stated);
            }
        }
        if value - lower <= wanted || evaluations >= EVALUATIONS {
            return Ok((x, value, lower.min(value), evaluations, solver.into_model()));
        }
    }
}

/// Finds the point of least norm with a value of at most `bound`: the projection of the origin onto that set, by cutting
/// planes. The cuts of the minimisation remain valid. `inside` has the smaller value `least`.
fn shortest(problem: &Learning, cuts: &Model, bound: f64, inside: &[f64], least: f64) -> Result<(Vec<f64>, u64)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let full = Draw::full();
    let origin = vec![0.0; inside.len()];
    let lens = Convexification { constants: vec![0.0; 2], scaled: false };
    let mut model = Model::default();
    model.begin(&origin, Norm::Plain, &[lens]);
    // Half of the squared norm is the proximal term of the zero function.
    model.add(Owner::Objective, &origin, (0.0, 0.0), &origin);
    cuts.copy_cuts(Owner::Objective, &mut model, Owner::Constraint(0), bound);
    let (mut y, mut slope) = (origin.clone(), origin.clone());
    let mut best = (inside.to_vec(), 0.5 * vec::norm_squared(inside));
    let mut penalty = 10.0;
    for evaluations in 1..=EVALUATIONS {
        let master = loop {
            let master = model.solve(0, MasterObjective { mu: 1.0, penalty, level: 0.0, feasibility: false }, 0.0, &mut y);
            if master.excess <= 1e-11 || penalty > 1e9 {
                break master;
            }
            penalty *= 4.0;
        };
        let over = ev.objective_grad(&y, &full, &mut slope)? - bound;
        let share = if over > 0.0 { over / (over + (bound - least)) } else { 0.0 };
        let mixed: Vec<f64> = y.iter().zip(inside).map(|(y, z)| (1.0 - share) * y + share * z).collect();
        let half = 0.5 * vec::norm_squared(&mixed);
        if half < best.1 {
            best = (mixed, half);
        }
        if best.1 - master.lower <= 1e-6 * best.1 + 1e-14 || evaluations == EVALUATIONS {
            return Ok((best.0, evaluations));
        }
        model.add(Owner::Constraint(0), &y, (over, over), &slope);
        model.limit(0, CUTS);
    }
    Ok((best.0, EVALUATIONS))
}

/// First proximal coefficient of the proof.
const FIRST_MU: f64 = 1e-2;
/// Gap at which the minimisation switches to its proof.
const PROOF: f64 = 1e-4;
/// The lower bound holds within this many times 1 + the norm of the minimiser.
const RADIUS: f64 = 10.0;
/// Largest number of evaluations, for the minimisation and for the search of the minimiser of least norm each.
const EVALUATIONS: u64 = 4000;
/// Largest number of cuts in that search.
const CUTS: usize = 400;
