//! Functions of a problem: values and subgradients at a point, for a draw of samples. Everything else about a problem is in
//! `description.rs`.

use std::collections::BTreeMap;

use super::{At, Description, Draw, Pick, Scratch, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// Function that computes constraint weights from constraint values. The weights are zero before the call.
pub type WeightFunction<'a> = &'a mut dyn FnMut(&[f64], &mut [f64]);

/// Zeroth-order oracle of a problem `min f(x)` over a domain subject to `g_j(x) <= 0`.
///
/// Every method is pure in its arguments: the same point, draw and warm-start values give the same bits. Error messages are
/// sentences.
pub trait Values: Description {
    /// Creates the buffers of this oracle.
    fn scratch(&self) -> Scratch {
        Scratch::none()
    }
    /// Solves inner problems: updates `warm` at `x` and returns the number of inner iterations, which are counted.
    fn refresh(&self, _x: &[f64], _warm: &mut Warm, _scratch: &mut Scratch) -> Result<u64> {
        Ok(0)
    }
    /// Adds the problem's own counters by name, since the last call, for example the number of Hessian-vector products.
    fn extra_counts(&self, _scratch: &mut Scratch, _counts: &mut BTreeMap<String, u64>) -> Result<()> {
        Ok(())
    }
    /// Returns f(x) on the drawn samples.
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64>;
    /// Sets `g[k]` to the value of the k-th picked constraint on the drawn samples. Required if there are constraints.
    fn constraint_values(&self, _at: At, _which: Pick, _g: &mut [f64], _scratch: &mut Scratch) -> Result<()> {
        no_constraints(self.num_constraints(), "constraint_values")
    }
    /// Computes f at several points (rows of `points`) in one call, for perturbed points, simulators and vectorised callbacks.
    fn objective_many(&self, points: &[f64], draw: &Draw, warm: &Warm, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        for (x, f) in points.chunks(self.dim().max(1)).zip(out) {
            *f = self.objective(At { x, draw, warm }, scratch)?;
        }
        Ok(())
    }
    /// Computes the picked constraints at several points; `out` has one row per point.
    fn constraint_values_many(
        &self,
        points: &[f64],
        draw: &Draw,
        warm: &Warm,
        which: Pick,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        point_by_point(self, points, draw, warm, which, out, scratch)
    }
}

/// Implements the default of [`Values::constraint_values_many`].
pub(crate) fn point_by_point<V: Values + ?Sized>(
    problem: &V,
    points: &[f64],
    draw: &Draw,
    warm: &Warm,
    which: Pick,
    out: &mut [f64],
    scratch: &mut Scratch,
) -> Result<()> {
    let width = which.count(problem.num_constraints()).max(1);
    for (x, g) in points.chunks(problem.dim().max(1)).zip(out.chunks_mut(width)) {
        problem.constraint_values(At { x, draw, warm }, which, g, scratch)?;
    }
    Ok(())
}

/// Implements the default of methods that a problem without constraints need not provide.
fn no_constraints(count: usize, method: &str) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    Err(Error::Oracle(format!("the problem has {count} constraints but does not implement {method}")))
}

/// First-order oracle: values and subgradients.
pub trait Subgradients: Values {
    /// Sets `grad` to a subgradient of f at x on the drawn samples and returns f(x), at no extra cost.
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64>;
    /// Computes several cuts of f at one point, for an objective that is a maximum of pieces: at least one and up to
    /// `values.len()`, with the subgradients in the rows of `rows`. Returns the number of cuts.
    ///
    /// The first cut is the one of [`Subgradients::objective_grad`]. Each further cut is the value at x, at most f(x), and a
    /// subgradient of a piece that is nowhere above f and is weakly convex with the constant rho of f:
    /// `f(y) >= values[k] + <row k, y - x> - (rho / 2) ||y - x||^2` for all y.
    fn objective_cuts(&self, at: At, values: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<usize> {
        let Some(value) = values.first_mut() else { return Ok(0) };
        *value = self.objective_grad(at, &mut rows[..self.dim()], scratch)?;
        Ok(1)
    }
    /// Sets `g` to g(x), calls `weigh(g, w)` to choose the weights `w`, which are zero before the call, and sets `grad` to the
    /// weighted sum of subgradients. Costs one forward pass, and one backward pass unless all weights are zero; `grad` is then
    /// left unchanged. Required if there are constraints.
    fn constraint_vjp(
        &self,
        _at: At,
        _g: &mut [f64],
        _weigh: WeightFunction,
        _grad: &mut [f64],
        _scratch: &mut Scratch,
    ) -> Result<()> {
        no_constraints(self.num_constraints(), "constraint_vjp")
    }
    /// Adds a subgradient of f to the result of [`Subgradients::constraint_vjp`] and returns f. The default computes one after
    /// the other; a problem whose objective and constraints share work can do better. `work` is as long as x.
    fn lagrangian(
        &self,
        at: At,
        g: &mut [f64],
        weigh: WeightFunction,
        grad: &mut [f64],
        work: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let f = self.objective_grad(at, grad, scratch)?;
        let mut any = false;
        let mut seen = |g: &[f64], w: &mut [f64]| {
            weigh(g, w);
            any = w.iter().any(|w| *w != 0.0);
        };
        self.constraint_vjp(at, g, &mut seen, work, scratch)?;
        if any {
            vec::add_scaled(grad, 1.0, work);
        }
        Ok(f)
    }
    /// Computes values and subgradients (rows of `rows`) of the picked constraints, for several cuts or dual variables at once.
    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let mut all = vec![0.0; self.num_constraints()];
        for ((&j, gj), row) in which.iter().zip(g).zip(rows.chunks_mut(self.dim().max(1))) {
            self.constraint_vjp(at, &mut all, &mut |_, w| w[j as usize] = 1.0, row, scratch)?;
            *gj = all[j as usize];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problem that declares constraints but does not implement them.
    struct Forgetful(usize);

    impl Description for Forgetful {
        fn dim(&self) -> usize {
            1
        }
        fn num_constraints(&self) -> usize {
            self.0
        }
    }

    impl Values for Forgetful {
        fn objective(&self, _: At, _: &mut Scratch) -> Result<f64> {
            Ok(0.0)
        }
    }

    #[test]
    fn constraints_that_are_not_computed_are_an_error() {
        let (draw, warm, mut scratch) = (Draw::full(), Warm::default(), Scratch::none());
        let at = At { x: &[0.0], draw: &draw, warm: &warm };
        assert!(Forgetful(0).constraint_values(at, Pick::All, &mut [], &mut scratch).is_ok());
        let refused = Forgetful(2).constraint_values(at, Pick::All, &mut [0.0; 2], &mut scratch).unwrap_err().to_string();
        assert!(refused.contains("2 constraints but does not implement constraint_values"), "{refused}");
    }
}
