//! Consistency checks of a problem: subgradients against finite differences, and weak-convexity constants against pairs of
//! points. They are meant for tests; a run does not call them.

use super::{At, Draw, Modulus, Pick, Scratch, Subgradients, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// Oracle with the buffers needed to evaluate it at a sequence of points.
struct Probe<'p> {
    problem: &'p dyn Subgradients,
    scratch: Scratch,
    warm: Warm,
    draw: Draw,
}

/// Values and subgradients of the objective and of every constraint at a point.
struct Answer {
    values: Vec<f64>,
    slopes: Vec<Vec<f64>>,
}

impl<'p> Probe<'p> {
    fn new(problem: &'p dyn Subgradients) -> Self {
        Probe { scratch: problem.scratch(), warm: Warm::default(), draw: Draw::full(), problem }
    }

    fn values(&mut self, x: &[f64]) -> Result<Vec<f64>> {
        self.problem.refresh(x, &mut self.warm, &mut self.scratch)?;
        let at = At { x, draw: &self.draw, warm: &self.warm };
        let mut values = vec![0.0; 1 + self.problem.num_constraints()];
        values[0] = self.problem.objective(at, &mut self.scratch)?;
        self.problem.constraint_values(at, Pick::All, &mut values[1..], &mut self.scratch)?;
        Ok(values)
    }

    fn answer(&mut self, x: &[f64]) -> Result<Answer> {
        let values = self.values(x)?;
        let at = At { x, draw: &self.draw, warm: &self.warm };
        let mut slopes = vec![vec![0.0; x.len()]; values.len()];
        self.problem.objective_grad(at, &mut slopes[0], &mut self.scratch)?;
        let mut g = vec![0.0; values.len() - 1];
        for (j, slope) in slopes[1..].iter_mut().enumerate() {
            self.problem.constraint_vjp(at, &mut g, &mut |_, w| w[j] = 1.0, slope, &mut self.scratch)?;
        }
        Ok(Answer { values, slopes })
    }
}

fn name(problem: &dyn Subgradients, k: usize) -> String {
    if k == 0 { "the objective".into() } else { format!("constraint '{}'", problem.constraint_name(k - 1)) }
}

/// Compares every subgradient at `x` with central differences of step `step`. Fails at the first entry whose difference exceeds
/// `tolerance` times the larger of 1 and the subgradient's norm. Choose `x` away from kinks.
pub fn finite_differences(problem: &dyn Subgradients, x: &[f64], step: f64, tolerance: f64) -> Result<()> {
    let mut asked = Probe::new(problem);
    let answer = asked.answer(x)?;
    let mut y = x.to_vec();
    for i in 0..x.len() {
        y[i] = x[i] + step;
        let above = asked.values(&y)?;
        y[i] = x[i] - step;
        let below = asked.values(&y)?;
        y[i] = x[i];
        for (k, slope) in answer.slopes.iter().enumerate() {
            let difference = (above[k] - below[k]) / (2.0 * step);
            if (difference - slope[i]).abs() > tolerance * vec::norm(slope).max(1.0) {
                return Err(Error::Oracle(format!(
                    "entry {} of the subgradient of {} is {:e}, but a central difference gives {difference:e}",
                    i + 1,
                    name(problem, k),
                    slope[i]
                )));
            }
        }
    }
    Ok(())
}

/// Checks `f(y) >= f(x) + <s, y - x> - (rho / 2) ||y - x||^2` for the objective and every constraint with a stated weak-convexity
/// constant rho. Fails at the first pair that violates it by more than `tolerance`. Works at kinks.
pub fn subgradient_inequality(problem: &dyn Subgradients, x: &[f64], y: &[f64], tolerance: f64) -> Result<()> {
    let mut asked = Probe::new(problem);
    let answer = asked.answer(x)?;
    let there = asked.values(y)?;
    let square = vec::distance(x, y).powi(2);
    for (k, slope) in answer.slopes.iter().enumerate() {
        let modulus = if k == 0 { problem.objective_modulus() } else { problem.constraint_modulus(k - 1) };
        let Some(rho) = modulus.and_then(Modulus::known) else { continue };
        let linear = answer.values[k] + vec::dot(slope, y) - vec::dot(slope, x);
        let short = linear - 0.5 * rho * square - there[k];
        if short > tolerance {
            return Err(Error::Oracle(format!(
                "{} lies {short:e} below its lower model with weak-convexity constant {rho}: the subgradient or the constant is \
                 wrong",
                name(problem, k)
            )));
        }
    }
    Ok(())
}
