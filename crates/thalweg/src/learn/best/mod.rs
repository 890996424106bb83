//! Reference values: the smallest value of a convex expression with a proven lower bound, and its minimiser of least norm.
//! Bounds such as `1.001 * best(hinge)` and the starts, thresholds and balls of the papers use them; which expressions a
//! problem needs is decided in `references.rs`.

mod domain;
mod dual;
mod interior;
mod newton;
mod shortest;
mod sum;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::dual::{DualBound, DualRecord};
use self::interior::Interior;
use self::newton::Newton;
use self::sum::Sum;
use super::problem::Learning;
use crate::eval::{Evaluator, ValueEval};
use crate::math::vec;
use crate::oracle::{Description, Draw, Modulus};
use crate::{Error, Result};

/// Target gap between value and lower bound, relative to the value. The minimiser of least norm may exceed the value by the
/// same fraction.
const GAP: f64 = 1e-7;
/// Smallest value that a relative gap is divided by. Losses are of order 1, and a smallest value of 0 has no relative accuracy.
const FLOOR: f64 = 1e-3;
/// A bound counts as proved if it holds at least up to this many times 1 + the norm of the minimiser.
const RADIUS: f64 = 10.0;
/// Largest radius that is stated.
const LARGEST: f64 = 1e30;
/// Largest number of steps of the interior point method, and of Newton's method.
const STEPS: usize = 200;
/// Largest number of lower bounds that are computed.
const BOUNDS: usize = 8;

/// The smallest value of a convex expression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, from = "Stored")]
pub struct Best {
    /// Expression that was minimised.
    pub expression: String,
    /// Smallest value found.
    pub value: f64,
    /// Unit of the expression: 1 unless the factors of its terms are very small or large.
    #[serde(skip_serializing_if = "is_one")]
    pub unit: f64,
    /// Lower bound on the value of all weights in `scope`. Rounding is accounted for: the bound holds in exact arithmetic.
    pub lower: f64,
    /// Weights that `lower` holds for.
    pub scope: Scope,
    /// Point of least norm among those with a value of at most `value` times 1 + 1e-7, up to 1e-6 of the squared norm; the
    /// intercept counts as a variable. The point always has such a value. On columns of very different units a shorter one may
    /// exist.
    pub minimizer: Vec<f64>,
    /// Whether the search for the shortest point was made. With many columns it is cut short, and the minimiser is some short point.
    #[serde(skip_serializing_if = "is_true")]
    pub shortest: bool,
    /// Euclidean norm of the minimiser.
    pub norm: f64,
    /// Smallest and largest score of the minimiser over the rows that losses are computed on.
    pub scores: [f64; 2],
    /// Passes over the rows for values, derivatives and lower bounds, for the value and for the minimiser together.
    pub evaluations: u64,
}

fn is_true(value: &bool) -> bool {
    *value
}

#[allow(clippy::float_cmp, reason = "the default itself")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

/// Weights that a lower bound holds for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All weights in the domain.
    Everywhere,
    /// Weights in the domain with at most this Euclidean norm.
    Within {
        /// The norm.
        radius: f64,
    },
}

impl Scope {
    /// Returns the scope of a lower bound that was stored without one: it held within `10 (1 + r)` of a point of norm r, where r
    /// is at least the norm of the shortest minimiser.
    pub fn of_earlier_version(norm: f64) -> Self {
        Scope::Within { radius: RADIUS + (RADIUS - 1.0) * norm }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Scope::Everywhere => f.write_str("for all weights"),
            Scope::Within { radius } if *radius < 1e4 => write!(f, "for weights of norm up to {}", downwards(*radius)),
            Scope::Within { radius } => write!(f, "for weights of norm up to {:e}", downwards(*radius)),
        }
    }
}

/// A reference value as stored: earlier versions did not state the scope of the lower bound.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    expression: String,
    value: f64,
    unit: Option<f64>,
    lower: f64,
    scope: Option<Scope>,
    minimizer: Vec<f64>,
    shortest: Option<bool>,
    norm: f64,
    scores: [f64; 2],
    evaluations: u64,
}

impl From<Stored> for Best {
    fn from(stored: Stored) -> Self {
        let Stored { expression, value, unit, lower, scope, minimizer, shortest, norm, scores, evaluations } = stored;
        let scope = scope.unwrap_or_else(|| Scope::of_earlier_version(norm));
        let (unit, shortest) = (unit.unwrap_or(1.0), shortest.unwrap_or(true));
        Best { expression, value, unit, lower, scope, minimizer, shortest, norm, scores, evaluations }
    }
}

impl Best {
    /// Returns a lower bound on the expression for all weights; minus infinity if none is proved.
    pub fn lower_everywhere(&self) -> f64 {
        match self.scope {
            Scope::Everywhere => self.lower,
            Scope::Within { .. } => f64::NEG_INFINITY,
        }
    }
}

impl fmt::Display for Best {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let proof = proof(self.value, self.lower, self.scope, self.unit);
        let least = if self.shortest { "least " } else { "" };
        let value = if self.unit == 1.0 { format!("{:.6}", self.value) } else { format!("{:.6e}", self.value) };
        write!(f, "best({}) = {value} ({proof}), {least}norm {:.6}, ", self.expression, self.norm)?;
        write!(f, "{} evaluations", self.evaluations)
    }
}

/// Describes what is proved about a smallest value: `proved to 1e-7 for all weights`, or the lower bound and its scope.
/// `unit` is that of the expression.
pub fn proof(value: f64, lower: f64, scope: Scope, unit: f64) -> String {
    if value - lower <= wanted(value, unit) {
        format!("proved to {GAP:.0e} {scope}")
    } else {
        // Rounded downwards, so that what is printed is a bound too.
        format!("at least {} {scope}", (lower / unit * 1e6).floor() / 1e6 * unit)
    }
}

/// Returns the gap between value and lower bound at which a value counts as proved; `unit` is that of the expression.
fn wanted(value: f64, unit: f64) -> f64 {
    GAP * value.abs().max(FLOOR * unit)
}

/// Rounds a positive number to two digits, downwards.
fn downwards(x: f64) -> f64 {
    let exponent = x.log10().floor() - 1.0;
    let digits = (x / 10.0_f64.powf(exponent)).floor();
    // Read as a decimal number, so that it is printed with two digits.
    let read = |digits: f64| format!("{digits}e{exponent}").parse().ok().filter(|rounded| *rounded <= x);
    read(digits).or_else(|| read(digits - 1.0)).unwrap_or(x)
}

/// Minimises the objective of a problem without constraints over its domain. Rejects an objective that is not convex, because
/// no lower bound could be proved for it.
///
/// Over the whole space the value does not depend on the units of columns: an interior point method, or Newton's method if the
/// losses are smooth, runs on scaled columns until a lower bound from the dual problem proves the value to a relative accuracy
/// of 1e-7. With more than 1024 columns, or very many dense rows, systems of equations are solved by the conjugate gradient method, the number of passes
/// over the rows is limited, and the bound usually holds for weights of limited norm only. Over another domain the bundle method is
/// used, whose bound also does.
pub fn best(problem: &Learning) -> Result<Best> {
    solve(problem, false).map(|(best, _)| best)
}

/// As [`best`], with a record of the multipliers that the lower bound follows from; `None` if the bound is a mean of cuts.
pub fn best_with_record(problem: &Learning) -> Result<(Best, Option<BestRecord>)> {
    solve(problem, true)
}

/// Multipliers that the lower bound of a [`Best`] follows from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestRecord {
    /// A point with the smallest value found.
    pub point: Vec<f64>,
    /// For each loss of the sum, a multiplier times the row's share of the loss for each of its rows, as an unevaluated sum of
    /// two numbers.
    pub multipliers: Vec<Vec<(f64, f64)>>,
    /// Columns that are exact linear combinations of others on the rows with multipliers: column, and the coefficients of the
    /// others. They matter for a bound that holds for all weights.
    pub combinations: Vec<(usize, Vec<(usize, f64)>)>,
}

fn solve(problem: &Learning, recorded: bool) -> Result<(Best, Option<BestRecord>)> {
    refuse(problem)?;
    let expression = problem.objective_text().to_string();
    let finish = |mut found: Found, (minimizer, shortest): (Vec<f64>, bool), evaluations: u64| {
        let dual = if recorded { found.dual.take() } else { None };
        let best = Best {
            expression,
            value: found.value,
            unit: found.unit,
            lower: found.lower,
            scope: found.scope,
            norm: vec::norm(&minimizer),
            scores: problem.loss_score_range(&minimizer)?,
            minimizer,
            shortest,
            evaluations,
        };
        let record =
            dual.map(|DualRecord { multipliers, combinations }| BestRecord { point: found.x, multipliers, combinations });
        Ok((best, record))
    };
    let whole = problem.domain().ball_around_origin() == Some(f64::INFINITY);
    let Some(sum) = Sum::of(problem).filter(|_| whole) else {
        let (found, cuts, evaluations) = domain::minimise(problem)?;
        let (shortest, more) = shortest::by_cuts(problem, &cuts, &found)?;
        return finish(found, shortest, evaluations + more);
    };
    let (found, mut evaluations) = if sum.has_kinks() { with_kinks(problem, &sum)? } else { smooth(problem, &sum)? };
    let shortest = if sum.has_kinks() && !sum.dense(sum.dim()) {
        shortest::towards_origin(problem, &found, &mut evaluations)?
    } else {
        shortest::by_path(problem, &sum, &found, &mut evaluations)?
    };
    finish(found, shortest, evaluations)
}

/// A point with a small value and a lower bound.
struct Found {
    x: Vec<f64>,
    value: f64,
    /// Unit of the expression.
    unit: f64,
    lower: f64,
    scope: Scope,
    dual: Option<DualRecord>,
}

impl Found {
    fn proved_everywhere(&self) -> bool {
        self.scope == Scope::Everywhere && self.value - self.lower <= wanted(self.value, self.unit)
    }

    /// Returns how much is proved: the radius if the gap is small enough, else minus the gap.
    fn rank(&self) -> f64 {
        match self.scope {
            _ if self.value - self.lower > wanted(self.value, self.unit) => self.lower - self.value,
            Scope::Everywhere => f64::INFINITY,
            Scope::Within { radius } => radius,
        }
    }

    /// Returns the largest value of a minimiser.
    fn bound(&self) -> f64 {
        self.value + wanted(self.value, self.unit)
    }
}

/// Minimises a sum with kinks by an interior point method until the gap between value and lower bound is small enough. Also
/// returns the passes over the rows.
fn with_kinks(problem: &Learning, sum: &Sum) -> Result<(Found, u64)> {
    let passes = sum.passes();
    let unit = problem.objective_unit();
    let mut interior = Interior::new(sum, 0.0);
    let mut best = Attempts::default();
    for step in 1..=STEPS {
        let moved = interior.step();
        let last = !moved || step == STEPS || interior.evaluations > passes;
        if last || interior.distance() <= 0.3 * wanted(interior.value(), unit) {
            let multipliers = interior.multipliers();
            let done = best.add(problem, sum, &interior.u, &multipliers, &mut interior.evaluations)?;
            if done || last {
                break;
            }
        }
    }
    Ok((best.finish(problem)?, interior.evaluations))
}

/// Minimises a smooth sum by Newton's method, likewise.
fn smooth(problem: &Learning, sum: &Sum) -> Result<(Found, u64)> {
    let mut newton = Newton::new(sum);
    newton.most = sum.passes();
    let mut best = Attempts::default();
    let (mut accuracy, unit) = (1e-2, problem.objective_unit());
    loop {
        let reached = newton.descend(STEPS, |value| accuracy * wanted(value, unit));
        let multipliers: Vec<Vec<f64>> = sum.terms.iter().map(|term| Sum::multipliers(term, &newton.scores)).collect();
        if best.add(problem, sum, &newton.u, &multipliers, &mut newton.evaluations)? || !reached {
            return Ok((best.finish(problem)?, newton.evaluations));
        }
        accuracy *= 1e-2;
    }
}

/// The best of several points with their lower bounds.
#[derive(Default)]
struct Attempts {
    best: Option<Found>,
    count: usize,
}

impl Attempts {
    /// Computes a lower bound from multipliers. Returns true if the value is proved, or if no other bound should be computed.
    fn add(&mut self, problem: &Learning, sum: &Sum, u: &[f64], multipliers: &[Vec<f64>], evaluations: &mut u64) -> Result<bool> {
        let x = sum.model(u);
        let value = Evaluator::new(problem, 0, 0.0).objective(&x, &Draw::full())?;
        let unit = problem.objective_unit();
        let (bound, dual) = dual::bound(sum, multipliers, evaluations);
        let mut found = Found { x, value, unit, lower: 0.0, scope: Scope::Everywhere, dual: Some(dual) };
        let norm = match sum.has_kinks() && !sum.dense(sum.dim()) {
            // Steps by the conjugate gradient method may have gone far in directions that are flat.
            true => vec::norm(&shortest::towards_origin(problem, &found, evaluations)?.0),
            false => vec::norm(&found.x),
        };
        let (lower, scope) = claim(value, unit, norm, bound);
        (found.lower, found.scope) = (lower.min(value), scope);
        self.count += 1;
        let proved = found.proved_everywhere();
        if found.value.is_finite() && self.best.as_ref().is_none_or(|best| found.rank() > best.rank()) {
            self.best = Some(found);
        }
        Ok(proved || self.count >= BOUNDS)
    }

    /// Returns the best point, or 0 if there is none.
    fn finish(self, problem: &Learning) -> Result<Found> {
        match self.best {
            Some(found) => Ok(found),
            None => {
                let x = vec![0.0; problem.dim()];
                let value = Evaluator::new(problem, 0, 0.0).objective(&x, &Draw::full())?;
                let unit = problem.objective_unit();
                Ok(Found { x, value, unit, lower: 0.0, scope: Scope::Everywhere, dual: None })
            }
        }
    }
}

/// Returns the lower bound to state, and its scope: one for all weights if it is close enough to the value, else one that holds
/// as far as half of the target gap allows, else the better of a weaker one for all weights and one around the minimiser.
fn claim(value: f64, unit: f64, norm: f64, bound: DualBound) -> (f64, Scope) {
    let wanted = wanted(value, unit);
    if value - bound.everywhere <= wanted {
        return (bound.everywhere, Scope::Everywhere);
    }
    let near = RADIUS * (1.0 + norm);
    let at = |radius: f64| bound.at_zero - bound.slope * radius * (1.0 + 1e-12) - 1e-15 * bound.at_zero.abs();
    let spare = f64::min(wanted - (value - bound.at_zero), 0.5 * wanted);
    let radius = downwards((spare / bound.slope).min(LARGEST));
    if radius >= near && value - at(radius) <= wanted {
        return (at(radius), Scope::Within { radius });
    }
    if at(near) > bound.everywhere { (at(near), Scope::Within { radius: near }) } else { (bound.everywhere, Scope::Everywhere) }
}

/// Returns a placeholder for a reference value, used to check a problem before any value is computed. Its numbers are larger
/// than any real ones, so that no bound, range or ball built from them is rejected.
pub(super) fn placeholder(problem: &Learning) -> Result<Best> {
    const LARGE: f64 = 1e100;
    refuse(problem)?;
    Ok(Best {
        expression: problem.objective_text().into(),
        value: LARGE,
        unit: 1.0,
        lower: 0.0,
        scope: Scope::Everywhere,
        minimizer: vec![0.0; problem.dim()],
        shortest: true,
        norm: LARGE,
        scores: [-LARGE, LARGE],
        evaluations: 0,
    })
}

/// Rejects a problem whose smallest value cannot be proved.
fn refuse(problem: &Learning) -> Result<()> {
    let text = problem.objective_text();
    if problem.num_constraints() > 0 {
        let what = format!("best({text}) is asked of a problem with constraints; expected one without");
        return Err(Error::Problem(what));
    }
    match problem.objective_modulus() {
        Some(Modulus { value: 0.0, .. }) => Ok(()),
        _ => Err(Error::Problem(format!(
            "best({text}) cannot be computed, because {text} is not convex; expected a sum of hinge, logistic, l2, ridge and l1"
        ))),
    }
}
