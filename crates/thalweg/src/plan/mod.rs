//! Planners: the parameters that theorems prescribe for the constants of a problem. Nothing here runs a solver, and the numbers
//! are worst cases: what is proved, not what works well in practice.

pub mod adaprox;
pub mod bmd;
pub mod conex;
pub mod dszog;
pub mod ipp;
pub mod mspg;
pub mod schedule;
pub mod ssg;
pub mod st_spg;
pub mod threes_econ;

use serde::{Deserialize, Serialize};

pub use ssg::{Plan, Theorem, plan};

use crate::{Error, Result};
use schedule::short;

/// A plan in readable form: a title, a table and a guarantee.
pub trait Readable {
    /// Returns the theorem and its purpose.
    fn title(&self) -> String;
    /// Returns rows of description, symbol in the paper and value.
    fn rows(&self) -> Vec<[String; 3]>;
    /// Returns the guarantee for these parameters.
    fn guarantee(&self) -> &str;
}

/// Constants of a problem. A theorem checks that those it requires are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// M: bound on the norm of the subgradients of f and g.
    pub lipschitz: Option<f64>,
    /// D: the diameter (not the radius) of the domain.
    pub diameter: Option<f64>,
    /// rho: f is rho-weakly convex; 0 for a convex f.
    pub rho: Option<f64>,
    /// rho_hat: the proximal coefficient of the near-stationarity measure, larger than rho.
    pub rho_hat: Option<f64>,
    /// -g(x_feas): slack of the constraint at a strictly feasible point.
    pub slater: Option<f64>,
    /// sigma: noise of one sample of the constraint value, `E exp((omega - g)^2 / sigma^2) <= e`.
    pub noise: Option<f64>,
    /// mu: g is mu-strongly convex.
    pub strong_convexity: Option<f64>,
    /// delta: the probability with which the guarantee may fail.
    pub confidence: Option<f64>,
}

/// Checks the constants that a theorem requires.
struct Requirements<'a> {
    /// Name of the theorem, as in "Theorem 4.2-I".
    theorem: &'a str,
}

impl Requirements<'_> {
    /// Returns a given, finite number for which `good` holds. `range` describes these numbers.
    fn number(&self, name: &str, value: Option<f64>, meaning: &str, range: &str, good: impl Fn(f64) -> bool) -> Result<f64> {
        match value {
            Some(v) if v.is_finite() && good(v) => Ok(v),
            _ => Err(self.refused(name, value, meaning, range)),
        }
    }

    fn refused(&self, name: &str, value: Option<f64>, meaning: &str, range: &str) -> Error {
        Error::Constant { name: name.into(), value, meaning: meaning.into(), wanted: range.into(), theorem: self.theorem.into() }
    }

    fn positive(&self, name: &str, value: Option<f64>, meaning: &str) -> Result<f64> {
        self.number(name, value, meaning, "a finite number larger than 0", |v| v > 0.0)
    }

    fn not_negative(&self, name: &str, value: Option<f64>, meaning: &str) -> Result<f64> {
        self.number(name, value, meaning, "a finite number, 0 or larger", |v| v >= 0.0)
    }

    fn count(&self, name: &str, value: Option<f64>, meaning: &str) -> Result<f64> {
        self.number(name, value, meaning, "a whole number larger than 0", |v| v >= 1.0 && v.fract() == 0.0)
    }

    /// Checks that counts did not overflow.
    fn finite(&self, counts: &[f64], eps: f64) -> Result<()> {
        if counts.iter().all(|c| c.is_finite()) {
            return Ok(());
        }
        Err(Error::Problem(format!(
            "{} with eps = {eps:e} requires more iterations or samples than a number can hold: choose a larger eps",
            self.theorem
        )))
    }
}

/// Returns the error for a constant that follows from another one that is given too.
fn exclusive(name: &str, value: f64, other: &str) -> Error {
    Error::Problem(format!("{name} cannot be given together with {other}, from which it follows; got {name} = {value}"))
}

/// Checks that the accuracy is a positive number.
fn accuracy(eps: f64) -> Result<()> {
    if eps > 0.0 && eps.is_finite() {
        return Ok(());
    }
    Err(Error::setting("eps", eps, "a finite number larger than 0"))
}

/// Largest number of rounded terms that are added one by one.
const ADDED: f64 = 1e7;

/// Computes `sum_{k=1..n} ceil(times k / by)`: exact, except for more than 10 million terms if neither `times / by` nor
/// `by / times` is a whole number; then each rounding counts as one half.
fn rounded_up(n: f64, times: f64, by: f64) -> f64 {
    if n <= ADDED { (1..=n as u64).map(|k| (times * k as f64 / by).ceil()).sum() } else { rounded_up_closed(n, times, by) }
}

fn rounded_up_closed(n: f64, times: f64, by: f64) -> f64 {
    let (plain, often) = (times / by * n * (n + 1.0) / 2.0, by / times);
    if (times / by).fract() == 0.0 {
        plain
    } else if often.fract() == 0.0 {
        // Each whole number occurs `often` times, the last one for the rest.
        let whole = (n / often).floor();
        often * whole * (whole + 1.0) / 2.0 + (whole + 1.0) * (n - often * whole)
    } else {
        plain + 0.5 * n
    }
}

/// Finds a theorem by its name; the error lists all names.
fn theorem_by_name<T: Copy>(all: &[T], name_of: impl Fn(&T) -> &'static str, name: &str) -> Result<T> {
    all.iter().copied().find(|theorem| name_of(theorem) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name_of).collect();
        Error::setting("theorem", name, format!("one of {}", names.join(", ")))
    })
}

/// One row of a plan's table.
fn row(what: &str, symbol: &str, value: impl Into<String>) -> [String; 3] {
    [what.into(), symbol.into(), value.into()]
}

/// Formats a count in full, as long as f64 represents it exactly.
fn whole(count: f64) -> String {
    if count < 9e15 { format!("{count:.0}") } else { short(count) }
}

/// Rounds up, with a tolerance for rounding errors of the formula: relative for small numbers and below one for large ones.
fn ceiling(x: f64) -> f64 {
    (x - (1e-9 * x).min(1e-3)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that two numbers agree up to a relative error.
    #[track_caller]
    pub(super) fn close(got: f64, wanted: f64, relative: f64) {
        assert!((got - wanted).abs() <= relative * wanted.abs(), "{got} against {wanted}");
    }

    #[test]
    fn rounded_up_sums_are_those_of_a_loop() {
        for (times, by) in [(1.0, 1.0), (1.0, 2.0), (1.0, 7.0), (1.0, 0.5), (3.0, 1.0), (0.25, 1.0), (1.0, 1e3), (1.0, 0.125)] {
            for n in [1.0, 2.0, 6.0, 7.0, 8.0, 100.0, 1001.0] {
                assert_eq!(rounded_up_closed(n, times, by), rounded_up(n, times, by), "{n} {times} {by}");
            }
        }
        // 1/2.7, 2/2.7, 3/2.7 and 4/2.7: 1 + 1 + 2 + 2.
        assert_eq!(rounded_up(4.0, 1.0, 2.7), 6.0);
        // Too many to be added: within one half of each.
        let n = 2e7;
        assert!((rounded_up(n, 1.0, 2.7) - n * (n + 1.0) / 5.4).abs() <= n);
    }
}
