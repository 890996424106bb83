//! Counted and checked view of the smooth form of a problem. The form itself is in [`crate::oracle`].

use super::check_gradient;
use super::counts::Counts;
use crate::error::check_finite;
use crate::math::vec;
use crate::oracle::{At, Draw, Scratch, SmoothForm, SmoothRow, Warm};
use crate::{Error, Result};

/// View of the smooth form of a problem. Every function is computed on all samples.
pub struct SmoothView<'a> {
    pub(super) form: &'a dyn SmoothForm,
    pub(super) scratch: &'a mut Scratch,
    pub(super) counts: &'a mut Counts,
    pub(super) warm: &'a Warm,
    /// Samples in one full evaluation of the objective and of all constraints together.
    pub(super) samples: [u64; 2],
}

impl<'a> SmoothView<'a> {
    /// Returns the number of smooth functions behind the constraints.
    pub fn num_parts(&self) -> usize {
        self.form.num_parts()
    }

    /// Returns the rows of all constraints.
    pub fn rows(&self) -> Vec<SmoothRow> {
        self.form.rows()
    }

    /// Returns the number of products of a Hessian.
    pub fn hessian_products(&self) -> f64 {
        self.form.hessian_products()
    }

    /// Returns a bound on the rounding errors in a gradient, see [`SmoothForm::gradient_error`].
    pub fn gradient_error(&self, weights: &[f64]) -> f64 {
        self.form.gradient_error(weights)
    }

    /// Computes f and the parts. Counts as one value of every function.
    pub fn values(&mut self, x: &[f64], parts: &mut [f64]) -> Result<f64> {
        self.counts.objective_values.add(1, self.samples[0]);
        self.counts.constraint_values.add(1, self.samples[1]);
        let draw = Draw::full();
        let f = self.form.values(At { x, draw: &draw, warm: self.warm }, parts, self.scratch)?;
        check_values(f, parts)
    }

    /// Computes f, the parts and their gradients. Counts as one subgradient of every function; at a point whose values are
    /// known, nothing else is computed.
    pub fn gradients(&mut self, x: &[f64], parts: &mut [f64], grad: &mut [f64], jacobian: &mut [f64]) -> Result<f64> {
        self.counts.objective_subgradients.add(1, self.samples[0]);
        self.counts.constraint_subgradients.add(1, self.samples[1]);
        let draw = Draw::full();
        let at = At { x, draw: &draw, warm: self.warm };
        let f = self.form.gradients(at, parts, grad, jacobian, self.scratch)?;
        check_gradient("the objective", grad)?;
        check_gradient("the constraints", jacobian)?;
        check_values(f, parts)
    }

    /// Computes the lower triangle of the Hessian of the Lagrangian. Counts as one subgradient of the objective.
    pub fn hessian(&mut self, x: &[f64], weights: &[f64], damping: f64, out: &mut [f64]) -> Result<()> {
        self.counts.objective_subgradients.add(1, self.samples[0]);
        let draw = Draw::full();
        self.form.hessian(At { x, draw: &draw, warm: self.warm }, weights, damping, out, self.scratch)?;
        check_gradient("the gradient of the Lagrangian", out)
    }
}

fn check_values(f: f64, parts: &[f64]) -> Result<f64> {
    check_finite("the objective", f)?;
    match vec::first_not_finite(parts) {
        None => Ok(f),
        Some((k, value)) => Err(Error::NotFinite { what: format!("function {} behind the constraints", k + 1), value }),
    }
}
