//! The synthetic problem of Cao, Zeng and Zhang, of any size and with a known solution. Problems given by formulas alone are in `small`.

use std::sync::Arc;

use crate::bilevel::{Bilevel, Derivatives, Pair};
use crate::math::vec;
use crate::oracle::Scratch;
use crate::sets::{Bounds, Set};
use crate::{Error, Result};

/// `f = ||x - e||^2 / n - ||y - e||^2`, `g = (||x|| - e . y)^2` with e = (1, ..., 1), X = [0.1, 10]^n and a follower with y of at
/// least 1 / (2 sqrt(n)).
///
/// The solution is x = e / 2 with the only response y = e / (2 sqrt(n)). Beyond it, `||x|| > sqrt(n) / 2`, the follower is indifferent about
/// the shares of its variables, and the worst shares are equal.
#[derive(Debug, Clone)]
pub struct NormSum {
    n: usize,
    outer: Arc<dyn Set>,
    inner: Arc<dyn Set>,
}

impl NormSum {
    /// Builds the problem with n variables each.
    pub fn new(n: usize) -> Result<Self> {
        if n == 0 {
            return Err(Error::setting("n", n, "at least 1"));
        }
        let least = 0.5 / (n as f64).sqrt();
        let outer = Arc::new(Bounds::uniform(0.1, 10.0)?);
        Ok(NormSum { n, outer, inner: Arc::new(Bounds::uniform(least, 10.0)?) })
    }

    /// Returns x of the solution.
    pub fn solution(&self) -> Vec<f64> {
        vec![0.5; self.n]
    }

    /// Returns `||x|| - e . y` and `||x||`.
    fn residual(at: Pair) -> (f64, f64) {
        let norm = vec::norm(at.x);
        (norm - vec::sum(at.y), norm)
    }
}

impl Bilevel for NormSum {
    fn outer_dim(&self) -> usize {
        self.n
    }
    fn inner_dim(&self) -> usize {
        self.n
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        Arc::clone(&self.outer)
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        Arc::clone(&self.inner)
    }
    fn inner_set_binds(&self) -> bool {
        true
    }
    fn derivatives(&self) -> Derivatives {
        Derivatives::Exact
    }

    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, _: &mut Scratch) -> Result<f64> {
        let n = self.n as f64;
        dx.into_iter().for_each(|dx| dx.iter_mut().zip(at.x).for_each(|(d, x)| *d = 2.0 * (x - 1.0) / n));
        dy.into_iter().for_each(|dy| dy.iter_mut().zip(at.y).for_each(|(d, y)| *d = -2.0 * (y - 1.0)));
        let squares = |v: &[f64]| vec::sum_by(v.len(), |i| (v[i] - 1.0).powi(2));
        Ok(squares(at.x) / n - squares(at.y))
    }

    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, _: &mut Scratch) -> Result<f64> {
        let (r, norm) = NormSum::residual(at);
        dx.into_iter().for_each(|dx| dx.iter_mut().zip(at.x).for_each(|(d, x)| *d = 2.0 * r * x / norm));
        dy.into_iter().for_each(|dy| dy.fill(-2.0 * r));
        Ok(r * r)
    }

    fn outer_second(&self, _: Pair, b: &[f64], weight: f64, _: &mut [f64], dy: &mut [f64], _: &mut Scratch) -> Result<()> {
        vec::add_scaled(dy, -2.0 * weight, b);
        Ok(())
    }

    fn inner_second(&self, at: Pair, b: &[f64], weight: f64, dx: &mut [f64], dy: &mut [f64], _: &mut Scratch) -> Result<()> {
        let (along, norm) = (2.0 * weight * vec::sum(b), vec::norm(at.x));
        vec::add_scaled(dx, -along / norm, at.x);
        dy.iter_mut().for_each(|d| *d += along);
        Ok(())
    }

    fn inner_smoothness(&self, _: &[f64]) -> Option<f64> {
        Some(2.0 * self.n as f64)
    }

    fn fingerprint(&self) -> String {
        format!("norm-sum of {} variables", self.n)
    }
}
