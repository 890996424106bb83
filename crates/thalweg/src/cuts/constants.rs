//! Weak-convexity constants that cuts rely on: where they come from, how estimated ones grow, and the message when a pair of points
//! contradicts one. The cuts themselves are in the module above.

use super::{Contradiction, Convexification, Owner};
use crate::eval::ValueEval;
use crate::oracle::{KnownUnits, Modulus, Source};
use crate::{Error, Result};

/// Weak-convexity constants of the functions of a problem: those of the problem, or those that the settings claim instead.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constants {
    /// Of the objective.
    pub(crate) objective: Modulus,
    /// Of each constraint.
    pub(crate) constraints: Vec<Modulus>,
}

impl Constants {
    /// The constants of the problem behind `ev`; an error if a function has none.
    pub(crate) fn of<E: ValueEval + ?Sized>(ev: &E, rho_f: Option<f64>, rho_g: Option<f64>) -> Result<Self> {
        let claimed = |rho: Option<f64>| rho.map(|value| Modulus { value, source: Source::Claimed });
        let none = |whose: String, setting: &str| {
            Error::Problem(format!(
                "{whose} has no known weak-convexity constant, and without one its cuts prove nothing: choose a term that has \
                 one, or claim it with {setting}"
            ))
        };
        Ok(Constants {
            objective: claimed(rho_f).or(ev.objective_modulus()).ok_or_else(|| none("the objective".into(), "rho_f"))?,
            constraints: (0..ev.num_constraints())
                .map(|j| {
                    let known = claimed(rho_g).or(ev.constraint_modulus(j));
                    known.ok_or_else(|| none(format!("constraint '{}'", ev.constraint_name(j)), "rho_g"))
                })
                .collect::<Result<_>>()?,
        })
    }

    /// All constants, that of the objective first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Modulus> {
        std::iter::once(&self.objective).chain(&self.constraints)
    }

    /// The convexification with these constants in the plain norm.
    pub(crate) fn convexification(&self) -> Convexification {
        Convexification { constants: self.all().map(|m| m.value).collect(), scaled: false }
    }

    /// The coefficient beyond rho_f if none is given: rho_hat becomes twice rho_f, and at least the unit of coefficients.
    pub(crate) fn usual_mu(&self, unit: f64) -> f64 {
        usual_mu_in(unit, self.objective.value)
    }

    /// The constant of `owner`, which may be raised.
    pub(crate) fn of_owner(&mut self, owner: Owner) -> Option<&mut Modulus> {
        match owner {
            Owner::Objective => Some(&mut self.objective),
            Owner::Constraint(j) => self.constraints.get_mut(j as usize),
            Owner::Domain => None,
        }
    }

    /// Whether some constant is estimated.
    pub(crate) fn estimated(&self) -> bool {
        self.all().any(|m| m.source == Source::Estimated)
    }
}

/// The proximal coefficient beyond rho_f that makes the sum twice rho_f, and at least 1.
pub(crate) fn usual_mu(rho_f: f64) -> f64 {
    usual_mu_in(1.0, rho_f)
}

/// The same with another unit of coefficients in place of 1.
pub(crate) fn usual_mu_in(unit: f64, rho_f: f64) -> f64 {
    rho_f.max(unit - rho_f)
}

/// The unit of proximal coefficients of the objective: 1 for a problem without known units.
pub(crate) fn unit_of_curvature<E: ValueEval + ?Sized>(ev: &E) -> f64 {
    ev.units().map_or(1.0, KnownUnits::curvature)
}

/// The new value of an estimated constant after a pair of points has shown that it must be at least `needed`.
pub(crate) fn estimate(needed: f64) -> f64 {
    (1.5 * needed).min(LARGEST)
}

/// Upper limit of estimated constants. A function that needs more has a concave kink, and no constant at all.
const LARGEST: f64 = 1e8;

/// The error message for a constant that a pair of points contradicts; `name` names constraints.
pub(crate) fn too_small(pair: &Contradiction, name: impl Fn(u32) -> String) -> String {
    let whose = match pair.owner {
        Owner::Objective => "the objective".to_string(),
        Owner::Constraint(j) => format!("constraint '{}'", name(j)),
        Owner::Domain => "the domain".to_string(),
    };
    format!(
        "the weak-convexity constant {} of {whose} is too small: the linearisation at {} lies above the value at {}, which needs \
         at least {:.6}; the constant or the subgradients are wrong",
        pair.claimed,
        brief(&pair.from),
        brief(&pair.at),
        pair.needed
    )
}

/// A point in words: all of a short one, the beginning of a long one.
fn brief(x: &[f64]) -> String {
    let shown: Vec<String> = x.iter().take(6).map(|v| format!("{v:.6}")).collect();
    let rest = if x.len() > shown.len() { format!(", … {} numbers", x.len()) } else { String::new() };
    format!("({}{rest})", shown.join(", "))
}
