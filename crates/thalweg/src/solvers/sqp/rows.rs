//! The rows of a problem as sequential quadratic programming sees them: combinations of smooth parts that must be at most 0. A problem
//! without a smooth form has one part for each constraint, and finite sides of a box are parts too.

use crate::eval::{Eval, length_at};
use crate::math::vec;
use crate::oracle::{Draw, SmoothRow};
use crate::{Error, Result};

/// Rows of the constraints and of the box, with the parts that they combine.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// Rows of the constraints.
    pub(super) rows: Vec<SmoothRow>,
    /// Sides of the box: coordinate, sign and bound of `sign * x_i - bound <= 0`.
    pub(super) sides: Vec<(u32, f64, f64)>,
    /// Number of smooth parts.
    pub(super) parts: usize,
    /// Number of free centres.
    pub(super) centres: usize,
    /// Whether the problem has a smooth form, with second derivatives.
    pub(super) smooth: bool,
    dim: usize,
}

impl Rows {
    /// Reads the rows of a problem. Fails for a domain that is neither the whole space nor a box.
    pub(super) fn of(ev: &mut dyn Eval) -> Result<Self> {
        let dim = ev.dim();
        let mut sides = vec![];
        for i in 0..dim {
            let Some((low, high)) = ev.domain().sides(i) else {
                let domain = ev.domain().describe();
                return Err(Error::Problem(format!("sqp takes the whole space or a box as domain, got another set ({domain})")));
            };
            for (sign, bound) in [(1.0, high), (-1.0, -low)] {
                if bound.is_finite() {
                    sides.push((i as u32, sign, bound));
                }
            }
        }
        let m = ev.num_constraints();
        let (rows, parts, smooth) = match ev.smooth() {
            Some(form) => (form.rows(), form.num_parts(), true),
            None => {
                let row =
                    |j: usize| SmoothRow { constraint: j as u32, terms: vec![(j as u32, 1.0)], centre: None, constant: 0.0 };
                ((0..m).map(row).collect(), m, false)
            }
        };
        let centres = rows.iter().filter_map(|row| row.centre).map(|(c, _)| c as usize + 1).max().unwrap_or(0);
        Ok(Rows { rows, sides, parts, centres, smooth, dim })
    }

    /// Returns the number of rows, those of the box last.
    pub(super) fn count(&self) -> usize {
        self.rows.len() + self.sides.len()
    }

    /// Computes the values of the rows of the constraints, with the best centres, and the largest row of each constraint in `g`.
    pub(super) fn values(&self, parts: &[f64], out: &mut Vec<f64>, g: &mut [f64]) {
        out.clear();
        out.extend(self.rows.iter().map(|row| row.value(parts)));
        for centre in 0..self.centres as u32 {
            // With rows v_i + c_i t, whose coefficients are of one size and both signs, the best t balances the largest of each sign.
            let (mut up, mut down, mut size) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0);
            for (row, v) in self.rows.iter().zip(out.iter()) {
                if let Some((k, c)) = row.centre
                    && k == centre
                {
                    size = c.abs();
                    let side = if c > 0.0 { &mut up } else { &mut down };
                    *side = side.max(*v);
                }
            }
            if size > 0.0 && up.is_finite() && down.is_finite() {
                let t = 0.5 * (down - up) / size;
                for (row, v) in self.rows.iter().zip(out.iter_mut()) {
                    if let Some((_, c)) = row.centre.filter(|(k, _)| *k == centre) {
                        *v += c * t;
                    }
                }
            }
        }
        g.fill(f64::NEG_INFINITY);
        for (row, v) in self.rows.iter().zip(out.iter()) {
            let g = &mut g[row.constraint as usize];
            *g = if v.is_nan() { *v } else { g.max(*v) };
        }
    }

    /// Evaluates f and the parts.
    pub(super) fn evaluate(&self, ev: &mut dyn Eval, x: &[f64], parts: &mut [f64]) -> Result<f64> {
        ev.refresh(x)?;
        if let Some(mut form) = ev.smooth() {
            return form.values(x, parts);
        }
        let f = ev.objective(x, &Draw::full())?;
        if !parts.is_empty() {
            ev.constraint_values(x, &Draw::full(), crate::oracle::Pick::All, parts)?;
        }
        Ok(f)
    }

    /// Evaluates f, the parts and their gradients, at the point of the last evaluation or another one.
    pub(super) fn differentiate(
        &self,
        ev: &mut dyn Eval,
        x: &[f64],
        parts: &mut [f64],
        grad: &mut [f64],
        jacobian: &mut [f64],
    ) -> Result<f64> {
        ev.refresh(x)?;
        if let Some(mut form) = ev.smooth() {
            return form.gradients(x, parts, grad, jacobian);
        }
        let f = ev.objective_grad(x, &Draw::full(), grad)?;
        if !parts.is_empty() {
            let which: Vec<u32> = (0..parts.len() as u32).collect();
            ev.constraint_rows(x, &Draw::full(), &which, parts, jacobian)?;
        }
        Ok(f)
    }

    /// Adds the gradient of a row to `out`, times `factor`. Its centre is left out.
    pub(super) fn add_gradient(&self, i: usize, factor: f64, jacobian: &[f64], out: &mut [f64]) {
        match self.rows.get(i) {
            Some(row) => {
                for &(k, c) in &row.terms {
                    vec::add_scaled(out, factor * c, &jacobian[k as usize * self.dim..][..self.dim]);
                }
            }
            None => {
                let (coordinate, sign, _) = self.sides[i - self.rows.len()];
                out[coordinate as usize] += factor * sign;
            }
        }
    }

    /// Computes the norm of the gradient of each constraint: the largest of its rows.
    pub(super) fn steepness(&self, m: usize, jacobian: &[f64]) -> Vec<f64> {
        let (mut steep, mut row) = (vec![0.0_f64; m], vec![0.0; self.dim]);
        for i in 0..self.rows.len() {
            row.fill(0.0);
            self.add_gradient(i, 1.0, jacobian, &mut row);
            let j = self.rows[i].constraint as usize;
            steep[j] = steep[j].max(vec::norm(&row));
        }
        steep
    }

    /// Returns whether the constraint values are feasible at `x`, in the units of the constraints there.
    pub(super) fn feasible(&self, ev: &dyn Eval, g: &[f64], x: &[f64], start: &[f64], jacobian: &[f64]) -> bool {
        if ev.in_natural_units() {
            return ev.feasible(g);
        }
        let length = length_at(x, start);
        let units = self.steepness(g.len(), jacobian);
        g.iter().zip(units).all(|(g, unit)| *g <= ev.feasibility() * unit * length)
    }
}
