//! Proximal subproblem around a centre, as a view of a problem: proximal-point methods and measures of stationarity run ordinary
//! solvers on it. Those methods decide when the centre moves.

use std::borrow::Cow;

use super::{Eval, ValueEval};
use crate::Result;
use crate::math::rng::Purpose;
use crate::math::{Rng, vec};
use crate::oracle::{Draw, Modulus, Pick, Region, Replacement, Scales, WeightFunction};
use crate::sets::Set;
use crate::sets::polyhedron::SweepResult;

/// View of `f + (rho_f / 2) ||x - c||^2` subject to `g_j + (rho_g / 2) ||x - c||^2 - slack <= 0`. The quadratic terms are added
/// exactly, also to mini-batch values.
pub struct Proximal<'a, E: ?Sized> {
    /// The view to regularise.
    pub inner: &'a mut E,
    /// The centre c.
    pub centre: &'a [f64],
    /// Proximal coefficient of the objective.
    pub rho_f: f64,
    /// Proximal coefficient of every constraint; 0 if they are convex.
    pub rho_g: f64,
    /// Relaxation of every constraint.
    pub slack: f64,
    /// Buffer for shifted constraint values.
    pub work: &'a mut Vec<f64>,
}

impl<E: ?Sized> Proximal<'_, E> {
    fn half_square(&self, x: &[f64]) -> f64 {
        let distance = vec::distance(x, self.centre);
        0.5 * distance * distance
    }

    /// Returns the shift that is added to every constraint value at `x`.
    fn shift(&self, x: &[f64]) -> f64 {
        if self.rho_g == 0.0 { -self.slack } else { self.rho_g * self.half_square(x) - self.slack }
    }

    /// Shifts constraint values at several points, `width` of them at each.
    fn shift_many(&self, points: &[f64], width: usize, out: &mut [f64]) {
        for (x, g) in points.chunks(self.centre.len().max(1)).zip(out.chunks_mut(width.max(1))) {
            let shift = self.shift(x);
            g.iter_mut().for_each(|g| *g += shift);
        }
    }

    /// Computes `grad += coefficient (x - c)`.
    fn add_pull(&self, x: &[f64], coefficient: f64, grad: &mut [f64]) {
        if coefficient != 0.0 {
            vec::add_difference(grad, coefficient, x, self.centre);
        }
    }
}

/// Chooses weights by the shifted values, where the inner view computes the unshifted ones; sets `total` to their sum.
fn by_shifted_values<'a>(
    shift: f64,
    shifted: &'a mut Vec<f64>,
    weigh: WeightFunction<'a>,
    total: &'a mut f64,
) -> impl FnMut(&[f64], &mut [f64]) + 'a {
    move |g, w| {
        shifted.clear();
        shifted.extend(g.iter().map(|g| g + shift));
        weigh(shifted, w);
        *total = w.iter().sum();
    }
}

/// Forwards the methods that the regularisation does not change.
macro_rules! forward {
    ($(fn $name:ident(&$self:ident $(, $arg:ident: $type:ty)*) -> $answer:ty;)*) => {
        $(fn $name(&$self $(, $arg: $type)*) -> $answer {
            $self.inner.$name($($arg),*)
        })*
    };
    (mut: $(fn $name:ident(&mut $self:ident $(, $arg:ident: $type:ty)*) -> $answer:ty;)*) => {
        $(fn $name(&mut $self $(, $arg: $type)*) -> $answer {
            $self.inner.$name($($arg),*)
        })*
    };
}

impl<E: ValueEval + ?Sized> ValueEval for Proximal<'_, E> {
    forward! {
        fn dim(&self) -> usize;
        fn num_constraints(&self) -> usize;
        fn constraint_name(&self, j: usize) -> Cow<'_, str>;
        fn num_statistics(&self) -> usize;
        fn streams(&self) -> &[usize];
        fn feasible(&self, g: &[f64]) -> bool;
        fn feasibility(&self) -> f64;
        fn tolerance(&self, j: usize) -> f64;
        fn domain(&self) -> &dyn Set;
        fn scales(&self) -> Option<&Scales>;
    }
    forward! { mut:
        fn rng(&mut self, purpose: Purpose) -> &mut Rng;
        fn sample(&mut self, draw: &mut Draw, size: usize, replacement: Replacement) -> ();
        fn project(&mut self, x: &mut [f64]) -> Result<()>;
        fn minimize_linear(&mut self, slope: &[f64], out: &mut [f64]) -> Result<()>;
        fn region_begin(&mut self, at: &[f64], target: &[f64]) -> Result<()>;
        fn region_sweep(&mut self, x: &mut [f64], sweeps: usize, tolerance: f64) -> Result<SweepResult>;
        fn refresh(&mut self, x: &[f64]) -> Result<()>;
        fn statistic_values(&mut self, x: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()>;
        fn statistic_pair(&mut self, x: &[f64], before: &[f64], draw: &Draw, now: &mut [f64], then: &mut [f64]) -> Result<()>;
    }
    /// Returns true: an inner solver restarts at every centre, where units are not measured again.
    fn in_natural_units(&self) -> bool {
        true
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        self.inner.objective_modulus().map(|m| Modulus { value: (m.value - self.rho_f).max(0.0), ..m })
    }
    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.inner.constraint_modulus(j).map(|m| Modulus { value: (m.value - self.rho_g).max(0.0), ..m })
    }
    /// Returns `None` if the constraints are shifted, because they then describe a different set.
    fn region(&self) -> Option<&dyn Region> {
        if self.rho_g == 0.0 && self.slack == 0.0 { self.inner.region() } else { None }
    }
    fn objective(&mut self, x: &[f64], draw: &Draw) -> Result<f64> {
        Ok(self.inner.objective(x, draw)? + self.rho_f * self.half_square(x))
    }
    fn constraint_values(&mut self, x: &[f64], draw: &Draw, which: Pick, g: &mut [f64]) -> Result<()> {
        self.inner.constraint_values(x, draw, which, g)?;
        let shift = self.shift(x);
        g.iter_mut().for_each(|g| *g += shift);
        Ok(())
    }
    fn objective_many(&mut self, points: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()> {
        self.inner.objective_many(points, draw, out)?;
        for (x, f) in points.chunks(self.dim().max(1)).zip(out) {
            *f += self.rho_f * self.half_square(x);
        }
        Ok(())
    }
    fn constraint_values_many(&mut self, points: &[f64], draw: &Draw, which: Pick, out: &mut [f64]) -> Result<()> {
        self.inner.constraint_values_many(points, draw, which, out)?;
        self.shift_many(points, which.count(self.num_constraints()), out);
        Ok(())
    }
    fn drawn_constraint_values(
        &mut self,
        points: &[f64],
        draw: &Draw,
        which: &[u32],
        drawn: usize,
        out: &mut [f64],
    ) -> Result<()> {
        self.inner.drawn_constraint_values(points, draw, which, drawn, out)?;
        self.shift_many(points, which.len(), out);
        Ok(())
    }
    fn constraints_from(&self, x: &[f64], statistics: &[f64], g: &mut [f64]) -> Result<()> {
        self.inner.constraints_from(x, statistics, g)?;
        let shift = self.shift(x);
        g.iter_mut().for_each(|g| *g += shift);
        Ok(())
    }
}

impl<E: Eval + ?Sized> Eval for Proximal<'_, E> {
    fn objective_grad(&mut self, x: &[f64], draw: &Draw, grad: &mut [f64]) -> Result<f64> {
        let f = self.inner.objective_grad(x, draw, grad)?;
        if self.rho_f == 0.0 {
            return Ok(f);
        }
        // One pass computes both the gradient and the value of the quadratic.
        let distance = vec::add_scaled_difference(grad, self.rho_f, x, self.centre);
        Ok(f + self.rho_f * (0.5 * distance * distance))
    }

    fn objective_cuts(&mut self, x: &[f64], draw: &Draw, values: &mut [f64], rows: &mut [f64]) -> Result<usize> {
        let count = self.inner.objective_cuts(x, draw, values, rows)?;
        let added = self.rho_f * self.half_square(x);
        values.iter_mut().take(count).for_each(|f| *f += added);
        for row in rows.chunks_mut(self.centre.len().max(1)).take(count) {
            self.add_pull(x, self.rho_f, row);
        }
        Ok(count)
    }

    fn constraint_vjp(&mut self, x: &[f64], draw: &Draw, g: &mut [f64], weigh: WeightFunction, grad: &mut [f64]) -> Result<()> {
        let shift = self.shift(x);
        let mut total = 0.0;
        let mut weigh = by_shifted_values(shift, self.work, weigh, &mut total);
        self.inner.constraint_vjp(x, draw, g, &mut weigh, grad)?;
        drop(weigh);
        g.iter_mut().for_each(|g| *g += shift);
        self.add_pull(x, self.rho_g * total, grad);
        Ok(())
    }

    fn lagrangian(
        &mut self,
        x: &[f64],
        draw: &Draw,
        g: &mut [f64],
        weigh: WeightFunction,
        grad: &mut [f64],
        work: &mut [f64],
    ) -> Result<f64> {
        let half = self.half_square(x);
        let shift = self.rho_g * half - self.slack;
        let mut total = 0.0;
        let mut weigh = by_shifted_values(shift, self.work, weigh, &mut total);
        let f = self.inner.lagrangian(x, draw, g, &mut weigh, grad, work)?;
        drop(weigh);
        g.iter_mut().for_each(|g| *g += shift);
        self.add_pull(x, self.rho_f + self.rho_g * total, grad);
        Ok(f + self.rho_f * half)
    }

    fn constraint_rows(&mut self, x: &[f64], draw: &Draw, which: &[u32], g: &mut [f64], rows: &mut [f64]) -> Result<()> {
        self.inner.constraint_rows(x, draw, which, g, rows)?;
        let shift = self.shift(x);
        g.iter_mut().for_each(|g| *g += shift);
        for row in rows.chunks_mut(self.centre.len().max(1)) {
            self.add_pull(x, self.rho_g, row);
        }
        Ok(())
    }

    fn statistic_vjp(&mut self, x: &[f64], draw: &Draw, statistics: &[f64], weights: &[f64], grad: &mut [f64]) -> Result<()> {
        self.inner.statistic_vjp(x, draw, statistics, weights, grad)?;
        self.add_pull(x, self.rho_g * weights.iter().sum::<f64>(), grad);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Evaluator;
    use crate::oracle::Problem;

    /// Every derivative of the view matches its values, for every method that computes one.
    #[test]
    fn derivatives_belong_to_the_regularised_values() {
        let problem = Problem::new(2)
            .objective(|x| x[0] * x[1], |x, s| s.copy_from_slice(&[x[1], x[0]]))
            .constraint("a", |x| x[0] - x[1] * x[1], |x, s| s.copy_from_slice(&[1.0, -2.0 * x[1]]))
            .constraint("b", |x| x[0].sin(), |x, s| s[0] = x[0].cos());
        let (x, centre, full) = ([0.3, -0.8], [1.0, 0.5], Draw::full());
        let mut inner = Evaluator::new(&problem, 0, 0.0);
        let mut work = vec![];
        let mut view = Proximal { inner: &mut inner, centre: &centre, rho_f: 3.0, rho_g: 2.0, slack: 0.1, work: &mut work };
        // By hand: half the squared distance is (0.49 + 1.69) / 2 = 1.09.
        let mut g = [0.0; 2];
        view.constraint_values(&x, &full, Pick::All, &mut g).unwrap();
        assert!((view.objective(&x, &full).unwrap() - (-0.24 + 3.27)).abs() < 1e-14);
        assert!((g[0] - (0.3 - 0.64 + 2.18 - 0.1)).abs() < 1e-14 && (g[1] - (0.3_f64.sin() + 2.18 - 0.1)).abs() < 1e-14);

        let weights = [0.7, -0.4];
        let values = |view: &mut Proximal<_>, x: &[f64]| {
            let mut g = [0.0; 2];
            view.constraint_values(x, &full, Pick::All, &mut g).unwrap();
            (view.objective(x, &full).unwrap(), weights[0] * g[0] + weights[1] * g[1], g)
        };
        let (mut f, mut pull, mut again, mut rows) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 4]);
        view.objective_grad(&x, &full, &mut f).unwrap();
        let mut seen = [0.0; 2];
        let mut weigh = |g: &[f64], w: &mut [f64]| {
            seen.copy_from_slice(g);
            w.copy_from_slice(&weights);
        };
        let mut shifted = [0.0; 2];
        view.constraint_vjp(&x, &full, &mut shifted, &mut weigh, &mut pull).unwrap();
        assert_eq!((seen, shifted), (g, g), "the weights are chosen by the shifted values");
        let mut statistics = [0.0; 2];
        view.statistic_values(&x, &full, &mut statistics).unwrap();
        view.statistic_vjp(&x, &full, &statistics, &weights, &mut again).unwrap();
        view.constraint_rows(&x, &full, &[0, 1], &mut shifted, &mut rows).unwrap();
        assert_eq!(shifted, g);
        let (mut both, mut room) = ([0.0; 2], [0.0; 2]);
        let mut weigh = |_: &[f64], w: &mut [f64]| w.copy_from_slice(&weights);
        let value = view.lagrangian(&x, &full, &mut shifted, &mut weigh, &mut both, &mut room).unwrap();
        assert!((value - view.objective(&x, &full).unwrap()).abs() < 1e-14 && shifted == g);
        assert!((0..2).all(|i| (both[i] - f[i] - pull[i]).abs() < 1e-14), "{both:?} {f:?} {pull:?}");
        for i in 0..2 {
            let (mut up, mut down) = (x, x);
            up[i] += 1e-6;
            down[i] -= 1e-6;
            let (above, below) = (values(&mut view, &up), values(&mut view, &down));
            let slope = |a: f64, b: f64| (a - b) / 2e-6;
            assert!((slope(above.0, below.0) - f[i]).abs() < 1e-8);
            assert!((slope(above.1, below.1) - pull[i]).abs() < 1e-8, "{i}");
            assert!((slope(above.1, below.1) - again[i]).abs() < 1e-8);
            for j in 0..2 {
                assert!((slope(above.2[j], below.2[j]) - rows[2 * j + i]).abs() < 1e-8);
            }
        }
    }
}
