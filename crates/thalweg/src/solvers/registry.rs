//! Registry of solvers: names, settings, requirements and references, one line each. The automatic choice of a solver is in
//! [`crate::auto`].

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{AnySolver, adaprox};
use crate::suggest::did_you_mean_one_of;
use crate::{Error, Result};

/// Requirements of a solver on a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// Function values only.
    Values,
    /// Values and subgradients.
    Subgradients,
    /// Values and gradients of smooth functions, or of maxima of them. Only these methods take equality constraints as such.
    SmoothFunctions,
    /// The inf-projection form, see [`crate::oracle::InfProjection`].
    InfProjection,
    /// A pessimistic bilevel problem, see [`crate::bilevel`].
    Bilevel,
    /// The loss of each sample, whose worst weighted mean is minimised.
    SampleLosses,
}

/// Interface of Thalweg that offers solvers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// `thalweg solve` and experiments.
    Solve,
    /// `thalweg fit` and the estimators in Python.
    Fit,
    /// `thalweg.minimize` in Python.
    Minimize,
    /// `thalweg.blackbox.minimize` in Python.
    BlackBox,
    /// The planners of [`crate::plan`].
    Plan,
    /// The inner solver of [`ipp`](super::ipp).
    Ipp,
}

impl Interface {
    /// Every interface with its name.
    pub const NAMES: [(&str, Interface); 6] = [
        ("solve", Interface::Solve),
        ("fit", Interface::Fit),
        ("minimize", Interface::Minimize),
        ("blackbox", Interface::BlackBox),
        ("plan", Interface::Plan),
        ("ipp", Interface::Ipp),
    ];
}

impl FromStr for Interface {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::NAMES.map(|(name, _)| name);
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, interface)| *interface)
            .ok_or_else(|| Error::Problem(format!("unknown interface '{name}'{}", did_you_mean_one_of(name, &known))))
    }
}

macro_rules! register {
    ($($solver:ident: $name:literal, $kind:ident, $module:ident, needs: $needs:ident, constraints: $constraints:literal,
       stops: $stops:literal, offered: [$($offered:ident),*], citation: $citation:literal;)*) => {
        /// Name of a solver.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum SolverName {
            $(
                #[doc = concat!("`", $name, "`: [`", stringify!($module), "`](super::", stringify!($module), ").")]
                #[serde(rename = $name)]
                $solver,
            )*
        }

        /// Solver with its settings. Serialised as the settings together with the solver's `name`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name")]
        pub enum Config {
            $(
                #[doc = concat!("Settings of `", $name, "`.")]
                #[serde(rename = $name)]
                $solver(super::$module::Settings),
            )*
        }

        /// Names of all solvers, in listing order.
        pub const NAMES: &[&str] = &[$($name),*];

        impl SolverName {
            /// All solvers, in listing order.
            pub const ALL: &[SolverName] = &[$(SolverName::$solver),*];

            /// Returns the name as written in a spec.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(SolverName::$solver => $name,)*
                }
            }

            /// Returns what the solver requires of a problem.
            pub const fn needs(self) -> Needs {
                match self {
                    $(SolverName::$solver => Needs::$needs,)*
                }
            }

            /// Returns whether the solver supports constraints.
            pub const fn takes_constraints(self) -> bool {
                match self {
                    $(SolverName::$solver => $constraints,)*
                }
            }

            /// Returns whether the solver has a stopping criterion. One without it takes steps until the budget of the run ends.
            pub const fn has_stopping_criterion(self) -> bool {
                match self {
                    $(SolverName::$solver => $stops,)*
                }
            }

            /// Returns whether the interface offers the solver.
            pub fn offered_by(self, interface: Interface) -> bool {
                match self {
                    $(SolverName::$solver => [$(Interface::$offered),*].contains(&interface),)*
                }
            }

            /// Returns the publication that describes the solver.
            pub const fn citation(self) -> &'static str {
                match self {
                    $(SolverName::$solver => $citation,)*
                }
            }

            /// Returns the solver with its default settings.
            pub fn config(self) -> Config {
                match self {
                    $(SolverName::$solver => Config::$solver(super::$module::Settings::default()),)*
                }
            }

            /// Deserialises the settings of the solver, without its name.
            pub fn deserialize_settings<'de, D: Deserializer<'de>>(self, settings: D) -> Result<Config, D::Error> {
                match self {
                    $(SolverName::$solver => super::$module::Settings::deserialize(settings).map(Config::$solver),)*
                }
            }
        }

        impl Config {
            /// Returns the name of the solver.
            pub const fn name(&self) -> SolverName {
                match self {
                    $(Config::$solver(_) => SolverName::$solver,)*
                }
            }

            /// Replaces settings that a theorem prescribes by their values, and checks every setting.
            pub fn resolve(self) -> Result<Self> {
                Ok(match self {
                    $(Config::$solver(settings) => Config::$solver(settings.resolve()?),)*
                })
            }

            /// Creates the solver.
            pub fn build(&self) -> Result<AnySolver> {
                Ok(match self {
                    $(Config::$solver(settings) => AnySolver::$kind(Box::new(super::$module::$solver::new(settings.clone())?)),)*
                })
            }

            /// Describes the resolved settings. A checkpoint written with a different description is rejected.
            pub fn describe(&self) -> Result<String> {
                Ok(match self {
                    $(Config::$solver(settings) => format!("{:?}", settings.clone().resolve()?),)*
                })
            }
        }
    };
}

// One line for each solver: type and name, whether it is a first-order or a zeroth-order method, its module, its requirements,
// whether it supports constraints, whether it has a stopping criterion, which interfaces offer it, and its source, which is also in
// references.bib.
#[rustfmt::skip]
register! {
    Ssg: "ssg", First, ssg, needs: Subgradients, constraints: true, stops: false, offered: [Solve, Fit, Minimize, Plan, Ipp], citation: "Y. Huang, Q. Lin: Single-Loop Switching Subgradient Methods for Non-Smooth Weakly Convex Optimization with Non-Smooth Convex Constraints, 2023, arXiv 2301.13314";
    Conex: "conex", First, conex, needs: Subgradients, constraints: true, stops: false, offered: [Solve, Minimize, Plan, Ipp], citation: "D. Boob, Q. Deng, G. Lan: Stochastic First-Order Methods for Convex and Nonconvex Functional Constrained Optimization, Mathematical Programming, 2022";
    Ipp: "ipp", First, ipp, needs: Subgradients, constraints: true, stops: false, offered: [Solve, Minimize, Plan], citation: "D. Boob, Q. Deng, G. Lan, 2022, and R. Ma, Q. Lin, T. Yang, 2020: the inexact proximal point method for weakly convex constraints";
    ThreesEcon: "threes-econ", First, threes_econ, needs: Subgradients, constraints: true, stops: false, offered: [Solve, Minimize, Plan], citation: "W. Liu, Y. Xu: A Single-Loop SPIDER-Type Stochastic Subgradient Method for Expectation-Constrained Nonconvex Nonsmooth Optimization, 2025, arXiv 2501.19214";
    Bundle: "bundle", First, bundle, needs: Subgradients, constraints: true, stops: true, offered: [Solve, Fit, Minimize, Ipp], citation: "Thalweg's own proximal bundle method with proved bounds; docs/solve.md describes it";
    Adaprox: "adaprox", First, adaprox, needs: Subgradients, constraints: true, stops: true, offered: [Solve, Plan], citation: "Z. Guan, D. Sow, S. Lin, Y. Liang: AdaProx: A Novel Method for Bilevel Optimization under Pessimistic Framework, Conference on Parsimony and Learning, 2025";
    Sipba: "sipba", First, sipba, needs: Bilevel, constraints: false, stops: true, offered: [Solve], citation: "Y. Cao, S. Zeng, J. Zhang: SiPBA, a smoothed single-loop method for pessimistic bilevel optimization, NeurIPS, 2025, arXiv 2509.26240";
    Lbfgs: "lbfgs", First, lbfgs, needs: Subgradients, constraints: false, stops: true, offered: [Solve, Fit], citation: "D. C. Liu, J. Nocedal: On the Limited Memory BFGS Method for Large Scale Optimization, Mathematical Programming, 1989";
    Sqp: "sqp", First, sqp, needs: SmoothFunctions, constraints: true, stops: true, offered: [Solve, Fit, Minimize], citation: "J. Nocedal, S. J. Wright: Numerical Optimization, Springer, 2006, chapter 18: sequential quadratic programming";
    StSpg: "st-spg", First, st_spg, needs: InfProjection, constraints: false, stops: false, offered: [Solve, Fit, Plan], citation: "Y. Yan, Y. Xu, L. Zhang, X. Wang, T. Yang: Stochastic Optimization for Non-convex Inf-Projection Problems, ICML, 2020";
    Mspg: "mspg", First, mspg, needs: InfProjection, constraints: false, stops: false, offered: [Solve, Fit, Plan], citation: "Y. Yan, Y. Xu, L. Zhang, X. Wang, T. Yang: Stochastic Optimization for Non-convex Inf-Projection Problems, ICML, 2020";
    Spg: "spg", First, spg, needs: Subgradients, constraints: false, stops: false, offered: [Solve], citation: "Y. Yan, Y. Xu, L. Zhang, X. Wang, T. Yang: Stochastic Optimization for Non-convex Inf-Projection Problems, ICML, 2020: the proximal subgradient steps of a stage";
    Bmd: "bmd", First, bmd, needs: SampleLosses, constraints: false, stops: false, offered: [Solve, Plan], citation: "H. Namkoong, J. C. Duchi: Stochastic Gradient Methods for Distributionally Robust Optimization with f-Divergences, NeurIPS, 2016";
    Pgsmd: "pgsmd", First, pgsmd, needs: SampleLosses, constraints: false, stops: false, offered: [Solve], citation: "H. Rafique, M. Liu, Q. Lin, T. Yang: Weakly-Convex-Concave Min-Max Optimization: Provable Algorithms and Applications in Machine Learning, Optimization Methods and Software, 2022";
    TrustRegion: "trust-region", Zeroth, trust_region, needs: Values, constraints: true, stops: true, offered: [Solve, Minimize, BlackBox], citation: "Thalweg's own trust-region method for values; docs/solve.md describes it";
    Dszog: "dszog", Zeroth, dszog, needs: Values, constraints: true, stops: false, offered: [Solve, Minimize, BlackBox, Plan], citation: "W. Shi, H. Gao, B. Gu: Gradient-Free Method for Heavily Constrained Nonconvex Optimization, ICML, 2022";
    Zopsgd: "zopsgd", Zeroth, zopsgd, needs: Values, constraints: true, stops: false, offered: [Solve, BlackBox], citation: "S. Liu, X. Li, P.-Y. Chen, J. Haupt, L. Amini: Zeroth-Order Stochastic Projected Gradient Descent for Nonconvex Optimization, GlobalSIP, 2018";
    Zoscgd: "zoscgd", Zeroth, zoscgd, needs: Values, constraints: true, stops: false, offered: [Solve, BlackBox], citation: "K. Balasubramanian, S. Ghadimi: Zeroth-Order (Non)-Convex Stochastic Optimization via Conditional Gradients, NeurIPS, 2018";
    Acczomda: "acczomda", Zeroth, acczomda, needs: Values, constraints: true, stops: false, offered: [Solve, BlackBox], citation: "F. Huang, S. Gao, J. Pei, H. Huang: Accelerated Zeroth-Order and First-Order Momentum Methods from Mini to Minimax Optimization, 2020, arXiv 2008.08170";
    Accszofw: "accszofw", Zeroth, accszofw, needs: Values, constraints: true, stops: false, offered: [Solve, BlackBox], citation: "F. Huang, L. Tao, S. Chen: Accelerated Stochastic Gradient-Free and Projection-Free Methods, ICML, 2020";
}

/// Returns the names of the solvers that an interface offers.
pub fn offered_by(interface: Interface) -> Vec<&'static str> {
    SolverName::ALL.iter().filter(|name| name.offered_by(interface)).map(|name| name.as_str()).collect()
}

impl SolverName {
    /// Returns the names of the inner solvers that the solver can use; `None` if it has no inner solver.
    pub fn inner(self) -> Option<Vec<&'static str>> {
        match self {
            SolverName::Ipp => Some(offered_by(Interface::Ipp)),
            SolverName::Adaprox => Some(adaprox::Inner::NAMES.to_vec()),
            _ => None,
        }
    }
}

impl fmt::Display for SolverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SolverName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        SolverName::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == name)
            .ok_or_else(|| Error::Problem(format!("unknown solver '{name}'{}", did_you_mean_one_of(name, NAMES))))
    }
}

impl Config {
    /// Returns the named solver with its default settings.
    pub fn from_name(name: &str) -> Result<Self> {
        name.parse().map(SolverName::config)
    }

    /// Deserialises the settings of the named solver.
    pub fn deserialize_named<'de, D: Deserializer<'de>>(name: &str, settings: D) -> Result<Self, D::Error> {
        let name = name.parse::<SolverName>().map_err(|_| D::Error::unknown_variant(name, NAMES))?;
        name.deserialize_settings(settings)
    }

    /// Returns the version of the solver's code, see [`super::Method::version`].
    pub fn version(&self) -> Result<u32> {
        Ok(self.build()?.method().version())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ssg;
    use super::*;
    use crate::auto;

    #[test]
    fn registered_names_are_those_of_the_solvers() {
        for name in SolverName::ALL {
            // A solver without valid default settings would fail here.
            let config = Config::from_name(name.as_str()).unwrap();
            let solver = config.build().unwrap();
            assert_eq!((config.name(), solver.method().name()), (*name, name.as_str()));
            assert_eq!(matches!(solver, AnySolver::Zeroth(_)), name.needs() == Needs::Values, "{name}");
            assert_eq!(config.version().unwrap(), solver.method().version());
            assert!(name.offered_by(Interface::Solve), "{name}");
        }
        assert_eq!(offered_by(Interface::Solve), NAMES);
        assert_eq!(Config::from_name("sgs").unwrap_err().to_string(), "unknown solver 'sgs'; did you mean 'ssg'?");
        assert!("plans".parse::<Interface>().unwrap_err().to_string().contains("did you mean 'plan'?"));
    }

    #[test]
    fn descriptions_are_those_of_the_settings_alone() {
        // Stored runs and checkpoints are identified by these descriptions.
        let settings = ssg::Settings::default();
        assert_eq!(Config::Ssg(settings.clone()).describe().unwrap(), format!("{settings:?}"));
        assert!(NAMES.iter().all(|name| Config::from_name(name).unwrap().describe().unwrap().starts_with("Settings {")));
    }

    #[test]
    fn solvers_that_finish_have_a_stopping_criterion() {
        let stopping: Vec<_> = SolverName::ALL.iter().filter(|name| name.has_stopping_criterion()).map(|n| n.as_str()).collect();
        assert_eq!(stopping, ["bundle", "adaprox", "sipba", "lbfgs", "sqp", "trust-region"]);
    }

    #[test]
    fn automatic_choice_is_no_solver_of_its_own() {
        assert!(!NAMES.contains(&auto::NAME));
    }
}
