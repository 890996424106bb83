//! Minimisation over a domain that is not the whole space, by the bundle method. Its lower bound is a mean of cuts, which holds
//! up to a distance of the minimiser.

use super::{FLOOR, Found, RADIUS, Scope, wanted};
use crate::Result;
use crate::cuts::Model;
use crate::eval::{Eval, Evaluator};
use crate::learn::problem::Learning;
use crate::math::vec;
use crate::oracle::Description;
use crate::solvers::bundle::{Bundle, Settings};
use crate::solvers::{Method, Solver};

/// First proximal coefficient of the proof.
const FIRST_MU: f64 = 1e-2;
/// Gap at which the minimisation switches to its proof.
const PROOF: f64 = 1e-4;
/// Largest number of evaluations.
const EVALUATIONS: u64 = 4000;
/// Part of the value that is subtracted from the lower bound for the rounding of cuts.
const ROUNDING: f64 = 1e-12;

/// Minimises until the gap between value and lower bound is small enough. Also returns the cuts and the number of evaluations.
pub(super) fn minimise(problem: &Learning) -> Result<(Found, Model, u64)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let start = vec![0.0; problem.dim()];
    let diameter = problem.domain().diameter(problem.dim());
    let mut solver = Bundle::new(Settings { mu: Some(FIRST_MU), eps: PROOF, ..Settings::default() })?;
    let (mut stated, mut evaluations) = (FIRST_MU, 0);
    let (mut lower, mut scope) = (f64::NEG_INFINITY, Scope::Everywhere);
    let mut x = start.clone();
    let unit = problem.objective_unit();
    solver.start(&mut ev as &mut dyn Eval, &start)?;
    loop {
        solver.step(&mut ev as &mut dyn Eval)?;
        evaluations += 1;
        solver.iterate(&mut x);
        let value = solver.value();
        let wanted = wanted(value, unit);
        if let Some((linear, slope)) = solver.mean_cut() {
            let norm = vec::norm(&x);
            let distance = RADIUS * (1.0 + norm);
            let across = slope * distance.min(diameter);
            let bound = value + linear - across - ROUNDING * value.abs().max(FLOOR * unit);
            if bound > lower {
                lower = bound;
                scope = if diameter <= distance { Scope::Everywhere } else { Scope::Within { radius: distance - norm } };
            }
            // Once the centre is good enough, a smaller coefficient gives flatter cuts.
            if across > 0.5 * wanted && -linear <= 0.5 * wanted && stated > 1e-12 {
                stated *= 0.3;
                solver.state_for(stated);
            }
        }
        if value - lower <= wanted || evaluations >= EVALUATIONS {
            // No loss and no regulariser is negative.
            if lower < 0.0 {
                (lower, scope) = (0.0, Scope::Everywhere);
            }
            let found = Found { x, value, unit, lower: lower.min(value), scope, dual: None };
            return Ok((found, solver.into_model(), evaluations));
        }
    }
}
