//! Inf-projection problems with y eliminated: a problem in x alone, which is measured, certified and solved like any other. The
//! problem in x and y is in `inf_projection.rs`.

use super::{At, Description, InfProjection, Power, Scratch, Structure, Subgradients, Values};
use crate::Result;
use crate::math::vec;
use crate::sets::Set;

/// Problem `min_x F(x) = g(x) - h*(l(x))` of an [`InfProjection`]. On a mini-batch, F is computed from the means over the
/// mini-batch and is nonlinear in them, so its expectation over mini-batches is not F.
///
/// ```
/// use thalweg::oracle::{Case, Eliminated, InfProjection, Pick, Power};
/// use thalweg::run::{self, Options};
/// use thalweg::solvers::{StSpg, st_spg};
/// # fn main() -> thalweg::Result<()> {
/// /// g = x^2 - x, l = x, h = y^2 / 2 on y >= 0.
/// struct Example(Power);
/// impl InfProjection for Example {
///     fn dim(&self) -> usize { 1 }
///     fn coupled(&self) -> usize { 1 }
///     fn case(&self) -> Case { Case::DifferenceOfConvex }
///     fn power(&self) -> &Power { &self.0 }
///     fn convex(&self, x: &[f64], _: Pick, grad: &mut [f64]) -> thalweg::Result<f64> {
///         grad[0] = 2.0 * x[0] - 1.0;
///         Ok(x[0] * x[0] - x[0])
///     }
///     fn mapping(&self, x: &[f64], _: Pick, out: &mut [f64]) -> thalweg::Result<()> {
///         out[0] = x[0];
///         Ok(())
///     }
///     fn add_mapping_pull(&self, _: &[f64], _: Pick, y: &[f64], factor: f64, grad: &mut [f64]) -> thalweg::Result<()> {
///         grad[0] += factor * y[0];
///         Ok(())
///     }
/// }
/// let problem = Eliminated::new(Example(Power::square(1.0)?.between(0.0, f64::INFINITY)?));
/// let mut solver = StSpg::new(st_spg::Settings::default())?;
/// let outcome = run::minimize(&problem, &mut solver, &[0.0], &Options::iterations(20_000), &mut ())?;
/// assert!((outcome.point.objective + 0.5).abs() < 1e-3);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Eliminated<P> {
    problem: P,
    streams: Vec<usize>,
}

/// Buffers for l(x) and y.
struct Buffers {
    mapping: Vec<f64>,
    y: Vec<f64>,
}

impl<P: InfProjection> Eliminated<P> {
    /// Creates the problem in x.
    pub fn new(problem: P) -> Self {
        let streams = if problem.samples() > 1 { vec![problem.samples()] } else { vec![] };
        Eliminated { problem, streams }
    }

    /// Returns the problem in x and y.
    pub fn pair(&self) -> &P {
        &self.problem
    }

    /// Computes `-h*(l) = min_y h(y) - <y, l>` and the minimiser y.
    fn eliminate(h: &Power, buffers: &mut Buffers) -> f64 {
        let Buffers { mapping, y } = buffers;
        y.iter_mut().zip(mapping.iter()).for_each(|(y, &l)| *y = h.touch(l));
        vec::sum_by(y.len(), |j| h.value(y[j]) - y[j] * mapping[j])
    }
}

impl<P: InfProjection> Description for Eliminated<P> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }

    fn num_constraints(&self) -> usize {
        0
    }

    fn domain(&self) -> &dyn Set {
        self.problem.domain()
    }

    fn streams(&self) -> &[usize] {
        &self.streams
    }

    fn fingerprint(&self) -> String {
        self.problem.fingerprint()
    }

    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl<P: InfProjection> Values for Eliminated<P> {
    fn scratch(&self) -> Scratch {
        let m = self.problem.coupled();
        Scratch::new((Buffers { mapping: vec![0.0; m], y: vec![0.0; m] }, vec![0.0; self.problem.dim()]))
    }

    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let (buffers, grad): &mut (Buffers, Vec<f64>) = scratch.get()?;
        let samples = at.draw.stream(0);
        let g = self.problem.convex(at.x, samples, grad)?;
        self.problem.mapping(at.x, samples, &mut buffers.mapping)?;
        Ok(g + Self::eliminate(self.problem.power(), buffers))
    }
}

impl<P: InfProjection> Structure for Eliminated<P> {
    fn inf_projection(&self) -> Option<&dyn InfProjection> {
        Some(&self.problem)
    }
}

impl<P: InfProjection> Subgradients for Eliminated<P> {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let (buffers, _): &mut (Buffers, Vec<f64>) = scratch.get()?;
        let samples = at.draw.stream(0);
        let g = self.problem.convex(at.x, samples, grad)?;
        self.problem.mapping(at.x, samples, &mut buffers.mapping)?;
        let value = g + Self::eliminate(self.problem.power(), buffers);
        // dF = dg - J^T y*
        self.problem.add_mapping_pull(at.x, samples, &buffers.y, -1.0, grad)?;
        Ok(value)
    }
}
