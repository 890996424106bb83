//! Problems written as closures, the shortest way to define one. Problems over samples, or whose functions share work, implement
//! the traits instead.

use std::borrow::Cow;
use std::sync::Arc;

use super::{At, Description, Modulus, Pick, Scratch, Source, Structure, Subgradients, Values, WeightFunction};
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
    equalities: usize,
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
        let objective = Piece::new(|_| 0.0, |_, s| s.fill(0.0));
        Problem { dim, objective, constraints: vec![], equalities: 0, domain: Box::new(WholeSpace) }
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

    /// Adds a constraint `value(x) = 0` as two inequalities, named `NAME <= 0` and `NAME >= 0`. The function should be smooth:
    /// at a kink, no multipliers of the two exist in general.
    ///
    /// ```
    /// use thalweg::auto;
    /// use thalweg::oracle::Problem;
    /// use thalweg::run::{self, Options};
    ///
    /// // The point of the unit circle nearest to (2, 0).
    /// let problem = Problem::new(2)
    ///     .objective(
    ///         |x| (x[0] - 2.0).powi(2) + x[1].powi(2),
    ///         |x, s| s.copy_from_slice(&[2.0 * (x[0] - 2.0), 2.0 * x[1]]),
    ///     )
    ///     .equality("circle", |x| x[0] * x[0] + x[1] * x[1] - 1.0, |x, s| s.copy_from_slice(&[2.0 * x[0], 2.0 * x[1]]));
    /// let (start, options) = ([0.1, 0.5], Options::iterations(100));
    /// let mut solver = auto::prepare(&problem, &start, &options)?.config.build()?;
    /// let outcome = run::minimize_with(&problem, &mut solver, &start, &options, &mut ())?;
    /// assert!(outcome.point.feasible && (outcome.point.x[0] - 1.0).abs() < 1e-6);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn equality(
        mut self,
        name: impl Into<String>,
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        gradient: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'static,
    ) -> Self {
        let (name, value, gradient) = (name.into(), Arc::new(value), Arc::new(gradient));
        let (opposite, opposite_gradient) = (Arc::clone(&value), Arc::clone(&gradient));
        self.constraints.push((format!("{name} <= 0"), Piece::new(move |x| value(x), move |x, s| gradient(x, s))));
        let negative = move |x: &[f64], s: &mut [f64]| {
            opposite_gradient(x, s);
            s.iter_mut().for_each(|s| *s = -*s);
        };
        self.constraints.push((format!("{name} >= 0"), Piece::new(move |x| -opposite(x), negative)));
        self.equalities += 1;
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
    fn structure(&self) -> &dyn Structure {
        self
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

impl Structure for Problem {
    fn equalities(&self) -> usize {
        self.equalities
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
