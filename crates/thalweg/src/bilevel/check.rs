//! Checks hand-written derivatives of a bilevel problem against differences along random directions. Rows of the reformulation
//! are checked entry by entry in [`crate::oracle::check`].

use super::{Bilevel, Derivatives, Pair};
use crate::error::{check_finite, check_length};
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::Scratch;
use crate::sets::{Set, Warm};
use crate::{Error, Result};

/// Step of the differences, and their tolerances, relative and absolute.
const STEP: f64 = 1e-5;
const SHARE: f64 = 1e-3;
const LEAST: f64 = 1e-6;
/// Number of random points tried to find a direction into a set.
const DRAWS: usize = 50;

/// Function of a problem.
#[derive(Clone, Copy)]
enum CheckedFunction<'a> {
    Outer,
    Inner,
    /// A sum of the constraints with these weights.
    Constraints(&'a [f64]),
}

impl CheckedFunction<'_> {
    fn name(self) -> &'static str {
        match self {
            CheckedFunction::Outer => "outer",
            CheckedFunction::Inner => "inner",
            CheckedFunction::Constraints(_) => "constraints",
        }
    }
}

/// Compares gradients, and products with second derivatives if they are implemented, with central differences near `x`, along a
/// random direction for each of x and y. The error names the function and both numbers. Functions are evaluated within X and
/// near Y.
pub fn check(problem: &dyn Bilevel, x: &[f64], seed: u64) -> Result<()> {
    check_length("the start", x.len(), problem.outer_dim())?;
    if let Some((i, value)) = vec::first_not_finite(x) {
        return Err(Error::NotFinite { what: format!("entry {} of the start", i + 1), value });
    }
    let mut rng = Rng::new(seed, Purpose::Directions);
    let (x, ahead) = segment(&*problem.outer_set(), x, &mut rng)?;
    let (y, along) = segment(&*problem.inner_set(), &vec![0.0; problem.inner_dim()], &mut rng)?;
    let weights: Vec<f64> = (0..problem.num_constraints()).map(|_| 0.5 + rng.uniform()).collect();
    let mut asked = Evaluation { problem, scratch: problem.scratch() };
    let constraints = (!weights.is_empty()).then_some(CheckedFunction::Constraints(&weights));
    for which in [CheckedFunction::Outer, CheckedFunction::Inner].into_iter().chain(constraints) {
        let (_, dx, dy) = asked.gradient(which, Pair { x: &x, y: &y })?;
        for (name, slope, in_x) in [("x", vec::dot(&dx, &ahead), true), ("y", vec::dot(&dy, &along), false)] {
            let mut value = |sign: f64| {
                let (x, y) = moved((&x, &ahead), (&y, &along), sign * STEP, in_x);
                asked.gradient(which, Pair { x: &x, y: &y }).map(|found| found.0)
            };
            let (above, below) = (value(1.0)?, value(-1.0)?);
            let change = (above - below) / (2.0 * STEP);
            let size = slope.abs().max(change.abs());
            if (slope - change).abs() > SHARE * size + LEAST * above.abs().max(1.0) {
                return Err(Error::Problem(format!(
                    "the gradient of {} in {name} is not that of its values: along a random direction it is {slope:.6e}, and \
                     differences of values give {change:.6e}",
                    which.name()
                )));
            }
        }
        if problem.derivatives() == Derivatives::Exact {
            let (sx, sy) = asked.second(which, Pair { x: &x, y: &y }, &along)?;
            let mut slopes = |sign: f64| {
                let (x, y) = moved((&x, &ahead), (&y, &along), sign * STEP, false);
                asked.gradient(which, Pair { x: &x, y: &y })
            };
            let (above, below) = (slopes(1.0)?, slopes(-1.0)?);
            for (name, product, above, below) in [("x", sx, above.1, below.1), ("y", sy, above.2, below.2)] {
                let change: Vec<f64> = above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
                let (found, by_differences) = (vec::norm(&product), vec::norm(&change));
                let off = vec::distance(&product, &change);
                if off > SHARE * found.max(by_differences) + LEAST * vec::norm(&above).max(1.0) {
                    return Err(Error::Problem(format!(
                        "the second derivatives of {} by y and {name} are not those of its gradient: their product with a random \
                         direction has the length {found:.6e}, differences of gradients have {by_differences:.6e}, and the two are \
                         {off:.6e} apart",
                        which.name()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Returns a point of the set between `from` and a random one, and the direction between them: a short step along it, to either
/// side, stays in the set.
fn segment(set: &dyn Set, from: &[f64], rng: &mut Rng) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut start = from.to_vec();
    set.project(&mut start, &mut Warm::default())?;
    let mut way = vec![0.0; from.len()];
    // Stay close in a large set, where functions may overflow.
    let reach = (1.0 + vec::norm(&start)).min(set.diameter(from.len()));
    for _ in 0..DRAWS {
        rng.normals(&mut way);
        let length = vec::norm(&way).max(1e-300);
        way.iter_mut().zip(&start).for_each(|(w, s)| *w = s + reach / length * *w);
        set.project(&mut way, &mut Warm::default())?;
        way.iter_mut().zip(&start).for_each(|(w, s)| *w -= s);
        // At a corner most directions leave the set.
        if vec::norm(&way) > 0.1 * reach {
            break;
        }
    }
    let point = start.iter().zip(&way).map(|(s, w)| s + 0.3 * w).collect();
    Ok((point, way))
}

/// Returns the point after a step in one of the variables.
fn moved(x: (&[f64], &[f64]), y: (&[f64], &[f64]), step: f64, in_x: bool) -> (Vec<f64>, Vec<f64>) {
    let ahead = |(from, way): (&[f64], &[f64]), step: f64| from.iter().zip(way).map(|(f, w)| f + step * w).collect();
    (ahead(x, if in_x { step } else { 0.0 }), ahead(y, if in_x { 0.0 } else { step }))
}

/// A problem with the working space for evaluations at successive points.
struct Evaluation<'p> {
    problem: &'p dyn Bilevel,
    scratch: Scratch,
}

impl Evaluation<'_> {
    /// Computes a value and both parts of a gradient.
    fn gradient(&mut self, which: CheckedFunction, at: Pair) -> Result<(f64, Vec<f64>, Vec<f64>)> {
        let Evaluation { problem, scratch } = self;
        let (mut dx, mut dy) = (vec![0.0; at.x.len()], vec![0.0; at.y.len()]);
        problem.visit(at, scratch)?;
        let value = match which {
            CheckedFunction::Outer => problem.outer_grad(at, Some(&mut dx), Some(&mut dy), scratch)?,
            CheckedFunction::Inner => problem.inner_grad(at, Some(&mut dx), Some(&mut dy), scratch)?,
            CheckedFunction::Constraints(weights) => {
                let mut c = vec![0.0; weights.len()];
                problem.constraint_values(at, &mut c, scratch)?;
                problem.constraint_vjp(at, weights, Some(&mut dx), Some(&mut dy), scratch)?;
                vec::dot(&c, weights)
            }
        };
        check_finite(which.name(), value)?;
        for (name, part) in [("x", &dx), ("y", &dy)] {
            if let Some((i, value)) = vec::first_not_finite(part) {
                let what = format!("entry {} of the gradient of {} in {name}", i + 1, which.name());
                return Err(Error::NotFinite { what, value });
            }
        }
        Ok((value, dx, dy))
    }

    /// Computes both parts of a product with second derivatives.
    fn second(&mut self, which: CheckedFunction, at: Pair, b: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let Evaluation { problem, scratch } = self;
        let (mut dx, mut dy) = (vec![0.0; at.x.len()], vec![0.0; at.y.len()]);
        problem.visit(at, scratch)?;
        match which {
            CheckedFunction::Outer => problem.outer_second(at, b, 1.0, &mut dx, &mut dy, scratch)?,
            CheckedFunction::Inner => problem.inner_second(at, b, 1.0, &mut dx, &mut dy, scratch)?,
            CheckedFunction::Constraints(weights) => problem.constraint_second(at, b, weights, &mut dx, &mut dy, scratch)?,
        }
        Ok((dx, dy))
    }
}
