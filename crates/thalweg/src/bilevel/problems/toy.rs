//! The toy problem of Guan, Sow, Lin & Liang with hand-written derivatives. Problems given by formulas alone are in `small`.

use std::sync::Arc;

use crate::Result;
use crate::bilevel::{Bilevel, Derivatives, Pair};
use crate::oracle::Scratch;
use crate::sets::{Bounds, Set};

/// Toy problem `f = -x y`, `g = max(0, |y| - |x|)^3`, `C = x^2 + y^2 - 1`, on a box.
///
/// Every |y| <= |x| is an inner solution. The pessimistic value is `min_x |x| min(|x|, sqrt(1 - x^2)) = 0`, at x = 0; the
/// optimistic value is -1/2.
#[derive(Debug, Clone)]
pub struct Toy(Arc<dyn Set>);

impl Toy {
    /// Builds the problem with |x| and |y| at most `radius`.
    pub fn new(radius: f64) -> Result<Self> {
        Ok(Toy(Arc::new(Bounds::uniform(-radius, radius)?)))
    }
}

/// Computes g and its derivatives with respect to x, y, x and y, y and y.
fn g(x: f64, y: f64) -> [f64; 5] {
    let sign = if x >= 0.0 { 1.0 } else { -1.0 };
    let d = y.abs() - x.abs();
    if d <= 0.0 {
        return [0.0; 5];
    }
    let up = if y >= 0.0 { 1.0 } else { -1.0 };
    [d.powi(3), -3.0 * sign * d * d, 3.0 * up * d * d, -6.0 * sign * up * d, 6.0 * d]
}

impl Bilevel for Toy {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        1
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.0.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.0.clone()
    }
    fn num_constraints(&self) -> usize {
        1
    }
    fn derivatives(&self) -> Derivatives {
        Derivatives::Exact
    }

    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, _: &mut Scratch) -> Result<f64> {
        let (x, y) = (at.x[0], at.y[0]);
        dx.into_iter().for_each(|dx| dx[0] = -y);
        dy.into_iter().for_each(|dy| dy[0] = -x);
        Ok(-x * y)
    }

    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, _: &mut Scratch) -> Result<f64> {
        let [g, g_x, g_y, ..] = g(at.x[0], at.y[0]);
        dx.into_iter().for_each(|dx| dx[0] = g_x);
        dy.into_iter().for_each(|dy| dy[0] = g_y);
        Ok(g)
    }

    fn constraint_values(&self, at: Pair, c: &mut [f64], _: &mut Scratch) -> Result<()> {
        c[0] = at.x[0] * at.x[0] + at.y[0] * at.y[0] - 1.0;
        Ok(())
    }

    fn constraint_vjp(
        &self,
        at: Pair,
        weights: &[f64],
        dx: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
        _: &mut Scratch,
    ) -> Result<()> {
        dx.into_iter().for_each(|dx| dx[0] += 2.0 * weights[0] * at.x[0]);
        dy.into_iter().for_each(|dy| dy[0] += 2.0 * weights[0] * at.y[0]);
        Ok(())
    }

    fn outer_second(&self, _: Pair, b: &[f64], weight: f64, dx: &mut [f64], _: &mut [f64], _: &mut Scratch) -> Result<()> {
        dx[0] -= weight * b[0];
        Ok(())
    }

    fn inner_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], _: &mut Scratch) -> Result<()> {
        let [.., g_xy, g_yy] = g(at.x[0], at.y[0]);
        dx[0] += weight * b[0] * g_xy;
        dy[0] += weight * b[0] * g_yy;
        Ok(())
    }

    fn constraint_second(
        &self,
        _: Pair,
        b: &[f64],
        weights: &[f64],
        _: &mut [f64],
        dy: &mut [f64],
        _: &mut Scratch,
    ) -> Result<()> {
        dy[0] += 2.0 * weights[0] * b[0];
        Ok(())
    }
}
