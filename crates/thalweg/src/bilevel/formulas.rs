//! Bilevel problems given by formulas for their values in any [`Number`]; dual numbers provide the derivatives. Problems with
//! hand-written gradients implement [`Bilevel`] instead.

use std::sync::Arc;

use super::{Bilevel, Derivatives, Dual, Number, Pair};
use crate::Result;
use crate::oracle::Scratch;
use crate::sets::Set;

/// Bilevel problem given by formulas.
///
/// A gradient costs as many evaluations as there are variables, so this is for small problems and for prototypes.
///
/// ```
/// use std::sync::Arc;
/// use thalweg::bilevel::{self, Formulas, Number, FromFormulas};
/// use thalweg::sets::{Bounds, Set};
///
/// /// f = (x - 1)^2 / 2 + x y, and every y in [-1, 1] minimises g = max(0, |y| - 1)^3.
/// struct Worst;
/// impl Formulas for Worst {
///     fn outer_dim(&self) -> usize { 1 }
///     fn inner_dim(&self) -> usize { 1 }
///     fn outer_set(&self) -> Arc<dyn Set> { Arc::new(Bounds::uniform(-2.0, 2.0).unwrap()) }
///     fn inner_set(&self) -> Arc<dyn Set> { Arc::new(Bounds::uniform(-2.0, 2.0).unwrap()) }
///     fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T { (x[0] - 1.0).powi(2) * 0.5 + x[0] * y[0] }
///     fn inner<T: Number>(&self, _x: &[T], y: &[T]) -> T { (y[0].abs() - 1.0).positive_part().powi(3) }
/// }
/// # fn main() -> thalweg::Result<()> {
/// // At x = 0.4 the worst inner solution is y = 1, the best y = -1.
/// let found = bilevel::extremes(&FromFormulas(Worst), &[0.4], 1e-9)?;
/// assert!((found.pessimistic.value - (0.18 + 0.4)).abs() < 1e-2);
/// assert!((found.optimistic.value - (0.18 - 0.4)).abs() < 1e-2);
/// # Ok(()) }
/// ```
pub trait Formulas: Send + Sync {
    /// Number of outer variables.
    fn outer_dim(&self) -> usize;
    /// Number of inner variables.
    fn inner_dim(&self) -> usize;
    /// X, a bounded convex set.
    fn outer_set(&self) -> Arc<dyn Set>;
    /// Y, a bounded convex set that contains every inner solution.
    fn inner_set(&self) -> Arc<dyn Set>;
    /// Number of constraints C_i.
    fn num_constraints(&self) -> usize {
        0
    }
    /// f(x, y).
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T;
    /// g(x, y).
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T;
    /// C_i(x, y), i counted from 0.
    fn constraint<T: Number>(&self, _i: usize, _x: &[T], _y: &[T]) -> T {
        T::from(0.0)
    }
}

/// [`Formulas`] as a [`Bilevel`] problem.
#[derive(Debug, Clone, Copy)]
pub struct FromFormulas<P>(
    /// The formulas.
    pub P,
);

/// Arguments as dual numbers of first and second order.
#[derive(Default)]
struct Arguments {
    first: Vec<Dual<f64>>,
    second: Vec<Dual<Dual<f64>>>,
}

impl Arguments {
    /// Adds `weight` times the derivatives of `formula` to `dx` and `dy`, if given.
    fn gradient(
        &mut self,
        at: Pair,
        weight: f64,
        dx: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
        formula: impl Fn(&[Dual<f64>], &[Dual<f64>]) -> Dual<f64>,
    ) {
        let n = at.x.len();
        self.first.clear();
        self.first.extend(at.x.iter().chain(at.y).map(|&v| Dual::from(v)));
        let (none_x, none_y): (&mut [f64], &mut [f64]) = (&mut [], &mut []);
        let (dx, dy) = (dx.unwrap_or(none_x), dy.unwrap_or(none_y));
        for (i, out) in dx.iter_mut().enumerate().chain(dy.iter_mut().enumerate().map(|(i, out)| (n + i, out))) {
            self.first[i].slope = 1.0;
            *out += weight * formula(&self.first[..n], &self.first[n..]).slope;
            self.first[i].slope = 0.0;
        }
    }

    /// Adds `weight` times the gradient of `<b, grad_y formula>`.
    fn second(
        &mut self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        formula: impl Fn(&[Dual<Dual<f64>>], &[Dual<Dual<f64>>]) -> Dual<Dual<f64>>,
    ) {
        let n = at.x.len();
        self.second.clear();
        self.second.extend(at.x.iter().chain(at.y).map(|&v| Dual::from(v)));
        self.second[n..].iter_mut().zip(b).for_each(|(y, &b)| y.value.slope = b);
        for (i, out) in dx.iter_mut().enumerate().chain(dy.iter_mut().enumerate().map(|(i, out)| (n + i, out))) {
            self.second[i].slope.value = 1.0;
            *out += weight * formula(&self.second[..n], &self.second[n..]).slope.slope;
            self.second[i].slope.value = 0.0;
        }
    }
}

/// Sets a part to zero, if given.
fn clear(part: &mut Option<&mut [f64]>) {
    part.iter_mut().for_each(|part| part.fill(0.0));
}

impl<P: Formulas> Bilevel for FromFormulas<P> {
    fn outer_dim(&self) -> usize {
        self.0.outer_dim()
    }
    fn inner_dim(&self) -> usize {
        self.0.inner_dim()
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.0.outer_set()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.0.inner_set()
    }
    fn num_constraints(&self) -> usize {
        self.0.num_constraints()
    }
    fn scratch(&self) -> Scratch {
        Scratch::new(Arguments::default())
    }
    fn derivatives(&self) -> Derivatives {
        Derivatives::Exact
    }

    fn outer_grad(&self, at: Pair, mut dx: Option<&mut [f64]>, mut dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        clear(&mut dx);
        clear(&mut dy);
        scratch.get::<Arguments>()?.gradient(at, 1.0, dx, dy, |x, y| self.0.outer(x, y));
        Ok(self.0.outer(at.x, at.y))
    }

    fn inner_grad(&self, at: Pair, mut dx: Option<&mut [f64]>, mut dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        clear(&mut dx);
        clear(&mut dy);
        scratch.get::<Arguments>()?.gradient(at, 1.0, dx, dy, |x, y| self.0.inner(x, y));
        Ok(self.0.inner(at.x, at.y))
    }

    fn constraint_values(&self, at: Pair, c: &mut [f64], _: &mut Scratch) -> Result<()> {
        c.iter_mut().enumerate().for_each(|(i, c)| *c = self.0.constraint(i, at.x, at.y));
        Ok(())
    }

    fn constraint_vjp(
        &self,
        at: Pair,
        weights: &[f64],
        mut dx: Option<&mut [f64]>,
        mut dy: Option<&mut [f64]>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let arguments = scratch.get::<Arguments>()?;
        for (i, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            arguments.gradient(at, weight, dx.as_deref_mut(), dy.as_deref_mut(), |x, y| self.0.constraint(i, x, y));
        }
        Ok(())
    }

    fn outer_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], s: &mut Scratch) -> Result<()> {
        s.get::<Arguments>()?.second(at, b, weight, dx, dy, |x, y| self.0.outer(x, y));
        Ok(())
    }

    fn inner_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], s: &mut Scratch) -> Result<()> {
        s.get::<Arguments>()?.second(at, b, weight, dx, dy, |x, y| self.0.inner(x, y));
        Ok(())
    }

    fn constraint_second(
        &self,
        at: Pair,
        b: &[f64],
        weights: &[f64],
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let arguments = scratch.get::<Arguments>()?;
        for (i, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            arguments.second(at, b, weight, dx, dy, |x, y| self.0.constraint(i, x, y));
        }
        Ok(())
    }
}
