//! Quantities that follow from the state of the bundle method: error bounds, constants, and values in the units of the problem. The
//! state itself is stored by `bundle.rs` and changed by its steps.

use super::stopping::{NEAR, stopping_distance};
use super::{PROVE, Saved, Settings, constant_index};
use crate::cuts::constants::usual_mu;
use crate::cuts::noise::{SAFETY, accuracy};
use crate::cuts::{Contradiction, Owner};
use crate::eval::Eval;
use crate::solvers::Stationary;

impl Saved {
    pub(super) fn any_estimated(&self) -> bool {
        self.estimated.contains(&true)
    }

    /// Sets an estimated constant of the proof and the quantities that depend on it.
    pub(super) fn set_proved(&mut self, owner: Owner, rho: f64, settings: &Settings) {
        let before = self.usual_gate(settings);
        self.model.set_constant(PROVE, owner, rho);
        self.ceilings[constant_index(owner)] = rho / self.least_scale;
        if owner == Owner::Objective && settings.mu.is_none() {
            self.stated = usual_mu(rho);
        }
        self.gate *= self.usual_gate(settings) / before;
    }

    /// Returns the initial gate.
    pub(super) fn usual_gate(&self, settings: &Settings) -> f64 {
        NEAR * self.stated.max(0.4) * stopping_distance(settings.eps, self.pull_of_objective()).powi(2)
    }

    /// Returns the proximal coefficient of the objective if it rests on an estimate.
    pub(super) fn pull_of_objective(&self) -> f64 {
        match self.estimated.first() {
            Some(true) => self.model.convexification(PROVE).constants[0] + self.stated,
            _ => 0.0,
        }
    }

    /// Iterates over the estimated constants of constraints, with their indices.
    pub(super) fn estimated_constraints(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let constants = self.model.convexification(PROVE).constants.iter().zip(&self.estimated).skip(1).enumerate();
        constants.filter(|(_, (_, estimated))| **estimated).map(|(j, (rho, _))| (j, *rho))
    }

    /// Returns the bound on the error of f at the centre.
    pub(super) fn objective_error(&self) -> f64 {
        self.model.noise(Owner::Objective).value + accuracy(self.centre.len()) * self.size
    }

    /// Returns the bound on the error of the largest constraint at the centre.
    pub(super) fn constraint_error(&self) -> f64 {
        let error =
            |(j, size): (usize, &f64)| self.model.noise(Owner::Constraint(j as u32)).value + accuracy(self.centre.len()) * size;
        self.sizes.iter().enumerate().map(error).fold(0.0, f64::max)
    }

    /// Returns the relaxation of the constraints that the centre satisfies, in the units of the problem.
    pub(super) fn relaxation(&self) -> f64 {
        let error = |j: usize| {
            SAFETY * (self.model.noise(Owner::Constraint(j as u32)).value + accuracy(self.centre.len()) * self.sizes[j])
        };
        let values = self.g.iter().zip(&self.units.constraints).enumerate();
        values.map(|(j, (g, unit))| (g + error(j)) * unit).fold(0.0, f64::max)
    }

    /// Returns the decrease that counts as rounding.
    pub(super) fn rounding(&self) -> f64 {
        4.0 * (self.error + self.objective_error())
    }

    /// Returns a proximal coefficient or constant of `owner` in the units of the problem.
    pub(super) fn curvature(&self, owner: Owner, value: f64) -> f64 {
        value * (self.units.of(owner) / self.units.length) / self.units.length
    }

    /// Returns whether the constraints are satisfied within their tolerances.
    pub(super) fn feasible<E: Eval + ?Sized>(&self, ev: &E) -> bool {
        match self.start.is_empty() {
            true => self.g.iter().zip(&self.units.constraints).enumerate().all(|(j, (g, unit))| g * unit <= ev.tolerance(j)),
            false => self.g.iter().all(|g| *g <= ev.feasibility()),
        }
    }

    /// Returns the centre in the units of the problem.
    pub(super) fn centre_of_problem(&self) -> impl Iterator<Item = f64> + '_ {
        self.centre.iter().enumerate().map(|(i, c)| self.units.length_of(i) * c)
    }

    /// Returns a pair of points in the units of the problem.
    pub(super) fn original_pair(&self, mut pair: Contradiction) -> Contradiction {
        self.units.multiply(&mut pair.from);
        self.units.multiply(&mut pair.at);
        (pair.claimed, pair.needed) = (self.curvature(pair.owner, pair.claimed), self.curvature(pair.owner, pair.needed));
        pair
    }

    /// Returns the claim of a finished run, in the units of the problem.
    pub(super) fn stationary(&self) -> Stationary {
        let constants = &self.model.convexification(PROVE).constants;
        let rho = |owner: Owner| self.curvature(owner, constants[constant_index(owner)]);
        Stationary {
            upper: self.upper * self.units.length,
            mu: self.curvature(Owner::Objective, self.stated),
            rho_f: rho(Owner::Objective),
            rho_g: (0..self.g.len() as u32).map(|j| rho(Owner::Constraint(j))).collect(),
            relaxed: self.relaxation(),
            estimated: self.any_estimated(),
        }
    }
}
