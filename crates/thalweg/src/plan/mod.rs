//! From the constants of a problem to the parameters that the theorems prescribe. Nothing here runs a method, and the
//! numbers are worst cases: they say what is proved, not what works well.

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

/// A plan as a person reads it: a title, a table, and the sentence of what is proved.
pub trait Readable {
    /// Where the parameters come from and what they are for.
    fn title(&self) -> String;
    /// What, symbol in the paper, value.
    fn rows(&self) -> Vec<[String; 3]>;
    /// What is proved for these parameters.
    fn guarantee(&self) -> &str;
}

/// What is known about a problem. A theorem asks for the ones it needs and says which are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// M: every subgradient of f and g is at most this long.
    pub lipschitz: Option<f64>,
    /// D: the diameter (not the radius) of the domain.
    pub diameter: Option<f64>,
    /// rho: f is rho-weakly convex; 0 for a convex f.
    pub rho: Option<f64>,
    /// rho_hat: the proximal coefficient of the near-stationarity measure, larger than rho.
    pub rho_hat: Option<f64>,
    /// -g(x_feas): by how much a strictly feasible point keeps the constraint.
    pub slater: Option<f64>,
    /// sigma: noise of one sample of the constraint value, `E exp((omega - g)^2 / sigma^2) <= e`.
    pub noise: Option<f64>,
    /// mu: g is mu-strongly convex.
    pub strong_convexity: Option<f64>,
    /// delta: the probability with which the guarantee may fail.
    pub confidence: Option<f64>,
}

/// Asks for constants in the name of a theorem.
struct Needs<'a> {
    /// What needs them, as in "Theorem 4.2-I".
    who: &'a str,
}

impl Needs<'_> {
    /// A finite number that is `good`.
    fn number(&self, name: &str, value: Option<f64>, meaning: &str, good: impl Fn(f64) -> bool) -> Result<f64> {
        match value {
            None => Err(Error::setting(name, crate::error::NOT_GIVEN, format!("{meaning}: {} needs it", self.who))),
            Some(v) if v.is_finite() && good(v) => Ok(v),
            Some(v) => Err(Error::setting(name, v, meaning)),
        }
    }

    fn positive(&self, name: &str, value: Option<f64>, meaning: &str) -> Result<f64> {
        self.number(name, value, &format!("{meaning}, larger than 0"), |v| v > 0.0)
    }

    fn not_negative(&self, name: &str, value: Option<f64>, meaning: &str) -> Result<f64> {
        self.number(name, value, &format!("{meaning}, 0 or larger"), |v| v >= 0.0)
    }

    /// Refuses counts that left the range of numbers.
    fn finite(&self, counts: &[f64], eps: f64) -> Result<()> {
        if counts.iter().all(|c| c.is_finite()) {
            return Ok(());
        }
        Err(Error::Problem(format!(
            "{} with eps = {eps} wants more iterations or samples than a number can hold: choose a larger eps",
            self.who
        )))
    }
}

/// Refuses an accuracy that is not a positive number.
fn accuracy(eps: f64) -> Result<()> {
    if eps > 0.0 && eps.is_finite() {
        return Ok(());
    }
    Err(Error::setting("eps", eps, "a finite number larger than 0, the accuracy to reach"))
}

/// Up to this many, numbers that are rounded up are added one by one.
const ADDED: f64 = 1e7;

/// `sum_{k=1..n} ceil(times k / by)`: exact, except for more than 10 million of them where neither `times / by` nor
/// `by / times` is a whole number; there rounding up counts as one half.
fn rounded_up(n: f64, times: f64, by: f64) -> f64 {
    if n <= ADDED { (1..=n as u64).map(|k| (times * k as f64 / by).ceil()).sum() } else { rounded_up_closed(n, times, by) }
}

fn rounded_up_closed(n: f64, times: f64, by: f64) -> f64 {
    let (plain, often) = (times / by * n * (n + 1.0) / 2.0, by / times);
    if (times / by).fract() == 0.0 {
        plain
    } else if often.fract() == 0.0 {
        // Each whole number comes `often` times, and the last one for the rest.
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

/// A count in full, as long as f64 knows its last digit.
fn whole(count: f64) -> String {
    if count < 9e15 { format!("{count:.0}") } else { short(count) }
}

/// The smallest whole number that is not below `x`, where rounding errors of the formula do not count. The tolerance is
/// relative for small numbers and stays below one for large ones.
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
