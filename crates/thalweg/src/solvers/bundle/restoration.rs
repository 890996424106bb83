//! Restoration of feasibility in the bundle method: steps for the largest constraint alone, and the proof that the constraints
//! conflict.

use super::stopping::stopping_distance;
use super::{Bundle, PROVE, SEARCH, violation};
use crate::Result;
use crate::cuts::MasterObjective;
use crate::eval::Eval;
use crate::math::vec;
use crate::sets::Set;
use crate::solvers::{Infeasible, Verdict};

/// Convex constraints conflict if the mean of their cuts is this flat, relative to the steepest cut in each coordinate, and excludes
/// feasible points within this many times the distance from the start. Neither depends on the units of the variables.
const FLAT: f64 = 1e-3;
const EXCLUDED: f64 = 1e3;
/// Slope of the mean of the cuts of weakly convex constraints, relative to the steepest one, below which the point is stationary for
/// the largest violation.
const STATIONARY: f64 = 1e-4;
impl Bundle {
    /// Chooses the next point for the largest constraint alone. Returns true if infeasibility is proved.
    pub(super) fn restore_feasibility<E: Eval + ?Sized>(&mut self, ev: &E) -> Result<bool> {
        let s = &mut self.s;
        let over = violation(&s.g);
        let domain: &dyn Set = &s.units.scaled(ev.domain());
        let domain = if s.units.plain() { ev.domain() } else { domain };
        let objective = |mu: f64| MasterObjective { mu, penalty: 0.0, level: 0.0, feasibility: true };
        // Lower bound on the violation.
        let proof = s.model.solve_in(PROVE, domain, objective(s.stated), over, &mut s.y)?;
        s.model.multipliers(PROVE, &mut self.multipliers);
        let rho = s.model.convexification(PROVE).constants[1..].iter().fold(0.0, |most: f64, rho| most.max(*rho));
        let distance = (2.0 * (-proof.lower).max(0.0) / s.stated).sqrt();
        let tolerance = match s.start.is_empty() {
            true => s.units.constraints.iter().enumerate().fold(0.0, |most: f64, (j, unit)| most.max(ev.tolerance(j) / unit)),
            false => ev.feasibility(),
        };
        // The mean of the cuts is also a bound away from the centre. With the constant it holds as far as the constant allows.
        let left = over + proof.linear - tolerance;
        let radius = if left > 0.0 { 2.0 * left / (proof.slope + (proof.slope.powi(2) + 2.0 * rho * left).sqrt()) } else { 0.0 };
        let bounded = radius >= domain.diameter(s.centre.len());
        let travelled = vec::distance(&s.centre, &s.origin);
        let steepest = s.model.steepest_constraint(PROVE);
        let guess = s.estimated_constraints().map(|(_, rho)| rho).reduce(f64::max);
        let stationary = proof.slope <= STATIONARY * steepest && -proof.linear <= STATIONARY * over;
        let end = radius > 0.0
            && match guess {
                // A flat convex constraint is nearly stationary everywhere and can still be satisfied.
                None if rho == 0.0 => bounded || (s.model.flatness(PROVE) <= FLAT && radius >= EXCLUDED * travelled),
                None => bounded || stationary,
                Some(guess) => stationary && distance <= stopping_distance(self.settings.eps, guess + s.stated),
            };
        if end && self.choose_test_point(ev)? {
            return Ok(false);
        }
        let s = &mut self.s;
        let domain: &dyn Set = &s.units.scaled(ev.domain());
        let domain = if s.units.plain() { ev.domain() } else { domain };
        if end {
            let conflicting = (0..self.multipliers.len() as u32).filter(|&j| self.multipliers[j as usize] > 1e-6).collect();
            s.upper = distance;
            s.verdict = Some(Verdict::Infeasible(Infeasible {
                violation: s.g.iter().zip(&s.units.constraints).map(|(g, unit)| g * unit).fold(0.0, f64::max),
                conflicting,
                upper: distance * s.units.length,
                radius: radius * s.units.length,
                everywhere: bounded && guess.is_none(),
                estimated: guess.is_some(),
            }));
            return Ok(true);
        }
        let master = if s.proving { proof } else { s.model.solve_in(SEARCH, domain, objective(s.mu), over, &mut s.y)? };
        s.predicted = -master.lower;
        Ok(false)
    }
}
