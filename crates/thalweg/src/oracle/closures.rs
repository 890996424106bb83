//! Problems written as closures, the shortest way to define one. Problems over samples, or whose functions share work, implement
//! the traits instead.

use std::borrow::Cow;

use super::{At, Description, Modulus, Pick, Scratch, Source, Subgradients, Values, WeightFunction};
use crate::Result;
use crate::sets::{Set, WholeSpace};

type Value = Box<dyn Fn(&[f64]) -> f64 + Send + Sync>;
type Gradient = Box<dyn Fn(&[f64], &mut [f64]) + Send + Sync>;

/// Deterministic problem built from closures.
///
/// ```
/// use thalweg::oracle::Problem;
/// let problem = Problem::new(1)
///     .objective(|x| (x[0] - 2.0).abs(), |x, s| s[0] = (x[0] - 2.0).signum())
///     .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0);
/// ```
pub struct Problem {
    dim: usize,
    objective: Piece,
    constraints: Vec<(String, Piece)>,
    domain: Box<dyn Set>,
}

struct Piece {
    value: Value,
    gradient: Gradient,
    modulus: Option<Modulus>,
}

impl Piece {
    fn new(
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        gradient: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static,
    ) -> Self {
        Piece { value: Box::new(value), gradient: Box::new(gradient), modulus: None }
    }
}

impl Problem {
    /// Creates a problem in `dim` variables with objective 0, no constraints and no bounds on x.
    pub fn new(dim: usize) -> Self {
        Problem { dim, objective: Piece::new(|_| 0.0, |_, s| s.fill(0.0)), constraints: vec![], domain: Box::new(WholeSpace) }
    }

    /// Sets the objective and its subgradient. The slice for the subgradient is filled with zeros before the call.
    pub fn objective(
        mut self,
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        gradient: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static,
    ) -> Self {
        self.objective = Piece::new(value, gradient);
        self
    }

    /// Adds a constraint `value(x) <= 0`.
    pub fn constraint(
        mut self,
        name: impl Into<String>,
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        gradient: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static,
    ) -> Self {
        self.constraints.push((name.into(), Piece::new(value, gradient)));
        self
    }

    /// Sets the domain, which x stays in.
    pub fn domain(mut self, set: impl Set + 'static) -> Self {
        self.domain = Box::new(set);
        self
    }

    /// Claims weak-convexity constants: `objective` for f, `constraints` for every g_j (0 for convex functions).
    pub fn weak_convexity(mut self, objective: f64, constraints: f64) -> Self {
        let claimed = |value| Some(Modulus { value, source: Source::Claimed });
        self.objective.modulus = claimed(objective);
        self.constraints.iter_mut().for_each(|(_, g)| g.modulus = claimed(constraints));
        self
    }

    /// Lets solvers estimate the weak-convexity constants during the run, starting from 0. Certificates that rely on them are
    /// then not proofs.
    pub fn estimate_weak_convexity(mut self) -> Self {
        let estimated = Some(Modulus { value: 0.0, source: Source::Estimated });
        self.objective.modulus = estimated;
        self.constraints.iter_mut().for_each(|(_, g)| g.modulus = estimated);
        self
    }
}

impl Description for Problem {
    fn dim(&self) -> usize {
        self.dim
    }
    fn num_constraints(&self) -> usize {
        self.constraints.len()
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Borrowed(&self.constraints[j].0)
    }
    fn in_natural_units(&self) -> bool {
        false
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        self.objective.modulus
    }
    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.constraints[j].1.modulus
    }
}

impl Values for Problem {
    fn scratch(&self) -> Scratch {
        Scratch::new(Buffers { weights: vec![0.0; self.constraints.len()], row: vec![0.0; self.dim] })
    }
    fn objective(&self, at: At, _: &mut Scratch) -> Result<f64> {
        Ok((self.objective.value)(at.x))
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
        match which {
            Pick::All => self.constraints.iter().zip(g).for_each(|((_, c), g)| *g = (c.value)(at.x)),
            Pick::These(ids) => ids.iter().zip(g).for_each(|(&j, g)| *g = (self.constraints[j as usize].1.value)(at.x)),
        }
        Ok(())
    }
}

struct Buffers {
    weights: Vec<f64>,
    row: Vec<f64>,
}

impl Subgradients for Problem {
    fn objective_grad(&self, at: At, grad: &mut [f64], _: &mut Scratch) -> Result<f64> {
        grad.fill(0.0);
        (self.objective.gradient)(at.x, grad);
        Ok((self.objective.value)(at.x))
    }

    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: WeightFunction,
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.constraint_values(at, Pick::All, g, scratch)?;
        let Buffers { weights, row } = scratch.get()?;
        weights.fill(0.0);
        weigh(g, weights);
        if weights.iter().all(|&w| w == 0.0) {
            return Ok(());
        }
        grad.fill(0.0);
        for ((_, c), &w) in self.constraints.iter().zip(&*weights).filter(|(_, w)| **w != 0.0) {
            row.fill(0.0);
            (c.gradient)(at.x, row);
            crate::math::vec::add_scaled(grad, w, row);
        }
        Ok(())
    }

    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        self.constraint_values(at, Pick::These(which), g, scratch)?;
        for (&j, row) in which.iter().zip(rows.chunks_mut(self.dim.max(1))) {
            row.fill(0.0);
            (self.constraints[j as usize].1.gradient)(at.x, row);
        }
        Ok(())
    }
}
