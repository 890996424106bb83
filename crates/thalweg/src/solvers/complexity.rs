//! Complexity of the methods as the accuracy eps decreases: Table 1 of Liu and Xu, "A single-loop SPIDER-type stochastic
//! subgradient method for expectation-constrained nonconvex nonsmooth optimization", the deterministic case of Huang and Lin,
//! ConEx on convex problems (see [`crate::plan::conex`]), DSZOG (see [`crate::plan::dszog`]) and AdaProx (see
//! [`crate::plan::adaprox`]), whose constants must be known, and MSPG and St-SPG (see [`crate::plan::mspg`] and
//! [`crate::plan::st_spg`]), which do not support constraints.

use serde::Serialize;

use super::SolverName::{self, Adaprox, Bmd, Conex, Dszog, Ipp, Mspg, Ssg, StSpg, ThreesEcon};

/// Work to reach accuracy eps in one setting; f is weakly convex, nonsmooth and possibly stochastic unless the row states
/// otherwise. N is the number of samples of a finite sum, N < eps^-4. Other constants are hidden in O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Complexity {
    /// The method.
    pub method: SolverName,
    /// Properties of the constraint g.
    pub setting: &'static str,
    /// Subgradients of the objective (OGC).
    pub objective_subgradients: &'static str,
    /// Subgradients of the constraint (CGC).
    pub constraint_subgradients: &'static str,
    /// Sample values of the constraint (CFC).
    pub constraint_values: &'static str,
    /// Assumptions besides bounded subgradients on a bounded domain.
    pub conditions: &'static str,
}

/// Returns the whole table, method by method.
pub fn complexity() -> &'static [Complexity] {
    &TABLE
}

const MFCQ: &str = "MFCQ and strong feasibility: some y has g(y) < -2 rho_g D^2";
const SLATER: &str = "a strictly feasible point";
const CONVEX: &str = "convex f, a bounded multiplier; eps bounds the objective gap and the violation";
const SHARP: &str = "sharpness or gradient-away";
const SMOOTH: &str =
    "smooth f, as many values of it; eps bounds the gradient of the penalised objective; a of order eps^2, else O(eps^-6)";
const BILEVEL: &str =
    "a bounded multiplier; eps bounds squares of distance and residual; log(1/eps) inner gradients for each value";
const PAIR: &str = "g and l smooth, h uniformly convex, v the exponent of its conjugate's gradient; eps bounds the gradient";
const STAGES: &str =
    "g and l convex, h uniformly convex, v the exponent of its conjugate's gradient; eps bounds the gradient at a point near by";
const WEIGHTS: &str = "convex losses; eps bounds what the worst case is above the best one, for each choice of weights";
const AWAY: &str = "gradient-away and B_g > rho_g D^2";

#[rustfmt::skip]
const TABLE: [Complexity; 20] = [
    line(Ssg, "deterministic convex", ["O(eps^-4)", "O(eps^-4)", "O(eps^-4)"], SLATER),
    line(Ssg, "stochastic convex", ["O(eps^-4)", "O(eps^-4)", "O(eps^-8)"], SLATER),
    line(Ssg, "finite-sum convex", ["O(eps^-4)", "O(eps^-4)", "O(N eps^-4)"], SLATER),
    line(Conex, "deterministic convex", ["O(eps^-2)", "O(eps^-2)", "O(eps^-2)"], CONVEX),
    line(Conex, "deterministic convex, f strongly convex", ["O(eps^-1)", "O(eps^-1)", "O(eps^-1)"], CONVEX),
    line(Ipp, "stochastic convex", ["O(eps^-6)", "O(eps^-6)", "O(eps^-6)"], MFCQ),
    line(Ipp, "finite-sum convex", ["O(eps^-4)", "O(min{N eps^-4, eps^-6})", "O(min{N eps^-4, eps^-6})"], MFCQ),
    line(Ipp, "stochastic weakly convex", ["O(eps^-6)", "O(eps^-6)", "O(eps^-6)"], MFCQ),
    line(Ipp, "finite-sum weakly convex", ["O(eps^-4)", "O(min{N eps^-4, eps^-6})", "O(min{N eps^-4, eps^-6})"], MFCQ),
    line(ThreesEcon, "stochastic convex", ["O(eps^-4)", "O(eps^-4)", "O(eps^-6)"], SHARP),
    line(ThreesEcon, "finite-sum convex", ["O(eps^-4)", "O(eps^-4)", "O(sqrt(N) eps^-4)"], SHARP),
    line(ThreesEcon, "stochastic weakly convex", ["O(eps^-4)", "O(eps^-4)", "O(eps^-6)"], AWAY),
    line(ThreesEcon, "finite-sum weakly convex", ["O(eps^-4)", "O(eps^-4)", "O(sqrt(N) eps^-4)"], AWAY),
    line(ThreesEcon, "finite-sum weakly convex", ["O(eps^-4)", "O(N eps^-4)", "O(N eps^-4)"], "uniform Slater, start close to the feasible set"),
    line(Dszog, "many smooth constraints, values alone", ["none", "none", "O(eps^-4)"], SMOOTH),
    line(Adaprox, "pessimistic bilevel, by sg", ["O(eps^-3)", "O(eps^-3)", "O(eps^-3)"], BILEVEL),
    line(Adaprox, "pessimistic bilevel, by pd", ["O(eps^-2)", "O(eps^-2)", "O(eps^-2)"], BILEVEL),
    line(Mspg, "none, inf-projection", ["O(eps^(-4/v))", "none", "none"], PAIR),
    line(StSpg, "none, inf-projection", ["O(eps^(-4/v))", "none", "none"], STAGES),
    line(Bmd, "none, worst case over weights", ["O(eps^-2)", "none", "none"], WEIGHTS),
];

const fn line(method: SolverName, setting: &'static str, work: [&'static str; 3], conditions: &'static str) -> Complexity {
    let [objective_subgradients, constraint_subgradients, constraint_values] = work;
    Complexity { method, setting, objective_subgradients, constraint_subgradients, constraint_values, conditions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinct_and_name_known_methods() {
        for (i, row) in complexity().iter().enumerate() {
            assert!(row.method.offered_by(crate::solvers::Interface::Plan), "{row:?}");
            assert!(!complexity()[..i].contains(row), "{row:?}");
            let work = [row.objective_subgradients, row.constraint_subgradients, row.constraint_values];
            assert!(work.iter().all(|w| *w == "none" || w.starts_with("O(") && w.ends_with(')')), "{row:?}");
        }
    }
}
