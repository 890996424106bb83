//! A bilevel problem over x and one response y, with the follower's slack as a constraint. It measures the points of methods that
//! do not work on the single-level reformulation.

use std::borrow::Cow;
use std::sync::Arc;

use super::extremes::TIGHTEST;
use super::units::InUnits;
use super::{Bilevel, Pair, follower};
use crate::oracle::{At, Description, Pick, Scratch, Values, Warm};
use crate::sets::{Product, Set};
use crate::{Error, Result};

/// `f(x, y)` over z = (x, y) in X x Y subject to `g(x, y) <= g*(x) + slack`, `C_i <= 0` and the follower's constraints. The values of the
/// constraints are multiples of the slack of each, beyond it.
pub(super) struct Responses {
    problem: Arc<InUnits>,
    slack: f64,
    domain: Product,
}

/// Buffers of one evaluation.
struct Buffers {
    problem: Scratch,
    all: Vec<f64>,
}

impl Responses {
    /// Measures points in the original units of `problem`, with a slack in its own.
    pub(super) fn new(problem: Arc<InUnits>, slack: f64) -> Result<Self> {
        let (outer, inner) = problem.original_sets();
        let blocks: Vec<(usize, Box<dyn Set>)> =
            vec![(problem.outer_dim(), Box::new(outer)), (problem.inner_dim(), Box::new(inner))];
        Ok(Responses { problem, slack, domain: Product::new(blocks)? })
    }

    /// Returns x and y in the units of the problem.
    fn pair(&self, z: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (x, y) = z.split_at(self.problem.outer_dim());
        (self.problem.units.to_x(x), self.problem.units.to_y(y))
    }
}

impl Description for Responses {
    fn dim(&self) -> usize {
        self.problem.outer_dim() + self.problem.inner_dim()
    }
    fn num_constraints(&self) -> usize {
        self.problem.num_constraints() + 1 + self.problem.inner_rows().len()
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        let r = self.problem.num_constraints();
        match j.cmp(&r) {
            std::cmp::Ordering::Less => format!("constraint {}", j + 1).into(),
            std::cmp::Ordering::Equal => "inner value".into(),
            std::cmp::Ordering::Greater => format!("constraint {} of the follower", j - r).into(),
        }
    }
    fn domain(&self) -> &dyn Set {
        &self.domain
    }
    fn fingerprint(&self) -> String {
        format!("{}, responses within {}, domain {}", self.problem.fingerprint(), self.slack, self.domain.describe())
    }
}

impl Values for Responses {
    fn scratch(&self) -> Scratch {
        Scratch::new(Buffers { problem: self.problem.scratch(), all: vec![0.0; self.num_constraints()] })
    }

    /// Minimises g at x, unless the last visit was to the same x.
    fn refresh(&self, z: &[f64], warm: &mut Warm, _: &mut Scratch) -> Result<u64> {
        let (x, _) = self.pair(z);
        let parts = warm.parts(2);
        if parts[0].values != x || parts[1].values.is_empty() {
            let found = follower::minimum(&*self.problem, &x, &vec![0.0; self.problem.inner_dim()], None)?;
            parts[0].values.clear();
            parts[0].values.extend_from_slice(&x);
            parts[1].values = vec![found.value];
            warm.values = found.y;
        }
        Ok(0)
    }

    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let (b, (x, y)) = (scratch.get::<Buffers>()?, self.pair(at.x));
        let pair = Pair { x: &x, y: &y };
        self.problem.visit(pair, &mut b.problem)?;
        Ok(self.problem.units.original_f(self.problem.outer(pair, &mut b.problem)?))
    }

    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let (b, (x, y)) = (scratch.get::<Buffers>()?, self.pair(at.x));
        let pair = Pair { x: &x, y: &y };
        let Some(least) = at.warm.parts.get(1).and_then(|part| part.values.first()) else {
            return Err(Error::Oracle(
                "the inner problem was not brought up to date at this point; expected a refresh before".into(),
            ));
        };
        let r = self.problem.num_constraints();
        self.problem.visit(pair, &mut b.problem)?;
        self.problem.constraint_values(pair, &mut b.all[..r], &mut b.problem)?;
        b.all[r] = self.problem.inner(pair, &mut b.problem)? - least;
        for (value, row) in b.all[r + 1..].iter_mut().zip(self.problem.inner_rows()) {
            *value = row.value(pair);
        }
        let slack = |j: usize| if j == r { self.slack } else { self.slack.max(TIGHTEST) };
        b.all.iter_mut().enumerate().for_each(|(j, value)| *value = *value / slack(j) - 1.0);
        which.each(b.all.len(), |k, j| g[k] = b.all[j]);
        Ok(())
    }
}
