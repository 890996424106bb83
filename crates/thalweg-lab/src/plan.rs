//! Parameters prescribed by the theorems for the constants of a problem, for each method, as text and as values. Arguments and
//! printing are in [`crate::commands::plan`]; the theorems are in the library.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thalweg::plan::{self, Readable};
use thalweg::solvers::complexity::{self, Complexity};
use thalweg::solvers::{Interface, SolverName, registry};
use thalweg::suggest::did_you_mean_one_of;

use crate::{Error, Result};

/// Request for a plan, without the constants.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// Name of the solver, which must have a planner.
    pub method: String,
    /// Theorem of ssg or threes-econ; all that the constants allow if `None`.
    pub theorem: Option<String>,
    /// Inner solver of ipp or adaprox; all that the constants allow if `None`.
    pub inner: Option<String>,
    /// Target accuracy.
    pub eps: f64,
    /// Whether to use what the paper prints in place of what its proof requires: the exponent in Theorem 5.2 I (ssg), the
    /// number of subproblems in Theorem 6 (adaprox).
    pub as_printed: bool,
    /// Whether to use the constants of the proof in place of those of the theorem, which hold up to a factor (dszog).
    pub strict: bool,
}

/// Plan ready for display.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSummary {
    /// Source and purpose of the parameters.
    pub title: String,
    /// Rows of description, symbol in the paper, and value.
    pub rows: Vec<[String; 3]>,
    /// Guarantee proved for these parameters.
    pub guarantee: String,
    /// Parameters.
    pub parameters: Parameters,
}

impl PlanSummary {
    fn new<P: Readable>(plan: P, parameters: fn(P) -> Parameters) -> Self {
        let (title, rows, guarantee) = (plan.title(), plan.rows(), plan.guarantee().to_string());
        PlanSummary { title, rows, guarantee, parameters: parameters(plan) }
    }

    /// Returns the parameters by name.
    pub fn value(&self) -> Result<serde_json::Value> {
        serde_json::to_value(&self.parameters).map_err(|e| Error::Request(format!("the plan cannot be written: {e}")))
    }
}

/// Plan of one method, serialised as that plan alone with its keys in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameters {
    /// Switching subgradient method.
    Ssg(plan::ssg::Plan),
    /// Constraint extrapolation method.
    Conex(plan::conex::Plan),
    /// Inexact proximal point method.
    Ipp(plan::ipp::Plan),
    /// Single-loop penalty method.
    ThreesEcon(plan::threes_econ::Plan),
    /// Doubly stochastic zeroth-order method.
    Dszog(plan::dszog::Plan),
    /// Adaptive proximal point method for pessimistic bilevel problems.
    Adaprox(plan::adaprox::Plan),
    /// Mini-batch proximal gradient method for inf-projection problems.
    Mspg(plan::mspg::Plan),
    /// Stagewise proximal subgradient method for inf-projection problems.
    StSpg(plan::st_spg::Plan),
    /// Mirror descent on the worst case over weights.
    Bmd(plan::bmd::Plan),
}

/// Finds the solver called `method`, which must have a planner.
fn with_planner(method: &str) -> Result<SolverName> {
    let known = registry::offered_by(Interface::Plan);
    if known.contains(&method) {
        return Ok(method.parse()?);
    }
    Err(Error::Request(format!("method '{method}' has no planner{}", did_you_mean_one_of(method, &known))))
}

/// Computes the plans of the method that the constants allow. `constants` has a number for each known constant, by its name in
/// the library, such as `rho_hat`; `name` converts names of options and constants for messages.
pub fn plans(asked: &PlanRequest, constants: toml::Table, name: &dyn Fn(&str) -> String) -> Result<Vec<PlanSummary>> {
    use SolverName::{Adaprox, Bmd, Conex, Dszog, Ipp, Mspg, Ssg, StSpg, ThreesEcon};
    let method = with_planner(&asked.method)?;
    for (option, given, methods) in [
        ("theorem", asked.theorem.is_some(), [Ssg, ThreesEcon].as_slice()),
        ("inner", asked.inner.is_some(), &[Ipp, Adaprox]),
        ("as_printed", asked.as_printed, &[Ssg, Adaprox]),
        ("strict", asked.strict, &[Dszog]),
    ] {
        if given && !methods.contains(&method) {
            let methods: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
            let what = format!("{} is for {}: {method} has no such choice", name(option), methods.join(" and "));
            return Err(Error::Request(what));
        }
    }
    let eps = asked.eps;
    match method {
        Adaprox => {
            let c = read(method, constants, name)?;
            let all = plan::adaprox::Inner::ALL;
            let chosen = asked.inner.as_deref().map(|name| inner(name, &all)).transpose()?;
            let plans = allowed(chosen, &all, |inner| plan::adaprox::plan(inner, &c, eps, asked.as_printed))?;
            Ok(plans.into_iter().map(|plan| PlanSummary::new(plan, Parameters::Adaprox)).collect())
        }
        Bmd => {
            let c = read(method, constants, name)?;
            Ok(vec![PlanSummary::new(plan::bmd::plan(&c, eps)?, Parameters::Bmd)])
        }
        Conex => {
            let c = read(method, constants, name)?;
            Ok(vec![PlanSummary::new(plan::conex::plan(&c, eps)?, Parameters::Conex)])
        }
        Dszog => {
            let c = read(method, constants, name)?;
            Ok(vec![PlanSummary::new(plan::dszog::plan(&c, eps, asked.strict)?, Parameters::Dszog)])
        }
        Ipp => {
            let c = read(method, constants, name)?;
            let all = plan::ipp::Inner::ALL;
            let chosen = asked.inner.as_deref().map(|name| inner(name, &all)).transpose()?;
            let plans = allowed(chosen, &all, |inner| plan::ipp::plan(inner, &c, eps))?;
            Ok(plans.into_iter().map(|plan| PlanSummary::new(plan, Parameters::Ipp)).collect())
        }
        Mspg => {
            let c = read(method, constants, name)?;
            Ok(vec![PlanSummary::new(plan::mspg::plan(&c, eps)?, Parameters::Mspg)])
        }
        StSpg => {
            let c = read(method, constants, name)?;
            Ok(vec![PlanSummary::new(plan::st_spg::plan(&c, eps)?, Parameters::StSpg)])
        }
        ThreesEcon => {
            let c = read(method, constants, name)?;
            let chosen = asked.theorem.as_deref().map(str::parse).transpose()?;
            let plans = allowed(chosen, &plan::threes_econ::Theorem::ALL, |t| plan::threes_econ::plan(t, &c, eps))?;
            Ok(plans.into_iter().map(|plan| PlanSummary::new(plan, Parameters::ThreesEcon)).collect())
        }
        Ssg => {
            let c = read(method, constants, name)?;
            let chosen = asked.theorem.as_deref().map(str::parse).transpose()?;
            let plans = allowed(chosen, &plan::ssg::Theorem::ALL, |t| plan::ssg::plan(t, &c, eps, asked.as_printed))?;
            Ok(plans.into_iter().map(|plan| PlanSummary::new(plan, Parameters::Ssg)).collect())
        }
        other => Err(Error::Request(format!("method '{other}' has no planner"))),
    }
}

/// Returns how the work grows as the accuracy increases, for one method or for all.
pub fn complexity(method: Option<&str>) -> Result<Vec<&'static Complexity>> {
    let method = method.map(with_planner).transpose()?;
    Ok(complexity::complexity().iter().filter(|row| method.is_none_or(|method| method == row.method)).collect())
}

/// Returns the inner solver called `name`.
fn inner<I: Copy + std::fmt::Display>(name: &str, all: &[I]) -> Result<I> {
    all.iter().copied().find(|i| i.to_string() == name).ok_or_else(|| {
        let known: Vec<String> = all.iter().map(I::to_string).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Error::Request(format!("inner solver '{name}' has no planner{}", did_you_mean_one_of(name, &known)))
    })
}

/// Converts the given constants for the planner of `method`; unknown ones are an error.
fn read<C: Default + Serialize + DeserializeOwned>(
    method: SolverName,
    given: toml::Table,
    name: &dyn Fn(&str) -> String,
) -> Result<C> {
    let failed = |e: &dyn std::fmt::Display| Error::Request(format!("the constants cannot be read: {e}"));
    let known = serde_json::to_value(C::default()).map_err(|e| failed(&e))?;
    if let Some(stranger) = given.keys().find(|key| known.get(key.as_str()).is_none()) {
        let names: Vec<String> = known.as_object().into_iter().flat_map(|o| o.keys()).map(|key| name(key)).collect();
        return Err(Error::Request(format!("{} is no constant of {method}; expected {}", name(stranger), names.join(", "))));
    }
    if let Some((key, value)) = given.iter().find(|(_, value)| !value.is_float() && !value.is_integer()) {
        return Err(Error::Request(format!("{} must be a number, got {value}", name(key))));
    }
    given.try_into().map_err(|e| failed(&e))
}

/// Computes the plan of the choice, or of all choices that the constants allow; fails with the first error if there is none.
fn allowed<T: Copy, P>(chosen: Option<T>, all: &[T], plan: impl Fn(T) -> thalweg::Result<P>) -> Result<Vec<P>> {
    if let Some(choice) = chosen {
        return Ok(vec![plan(choice)?]);
    }
    let mut plans = vec![];
    let mut first_refusal = None;
    for &choice in all {
        match plan(choice) {
            Ok(plan) => plans.push(plan),
            Err(e) => first_refusal = first_refusal.or(Some(e)),
        }
    }
    match first_refusal {
        Some(refusal) if plans.is_empty() => Err(refusal.into()),
        _ => Ok(plans),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str) -> PlanRequest {
        PlanRequest { method: method.into(), theorem: None, inner: None, eps: 0.1, as_printed: false, strict: false }
    }

    fn plain(name: &str) -> String {
        name.into()
    }

    #[test]
    fn whole_numbers_are_numbers_and_names_are_the_caller_s() {
        let given: toml::Table = "lipschitz = 1\ndiameter = 1.0\nrho = 1\nrho_hat = 2\nslater = 1".parse().unwrap();
        let plans = plans(&PlanRequest { theorem: Some("4.2-I".into()), ..asked("ssg") }, given.clone(), &plain).unwrap();
        assert_eq!(plans.len(), 1);
        assert_eq!(plans[0].value().unwrap()["theorem"], "4.2-I");
        assert!(plans[0].rows.iter().any(|[_, symbol, _]| symbol == "T"), "{:?}", plans[0].rows);

        let refused =
            |asked: &PlanRequest, given: &str| super::plans(asked, given.parse().unwrap(), &plain).unwrap_err().to_string();
        let stranger = refused(&asked("conex"), "rho_hat = 2");
        assert!(
            stranger.starts_with("rho_hat is no constant of conex; expected ") && stranger.contains("objective_kink"),
            "{stranger}"
        );
        assert_eq!(refused(&asked("ssg"), "rho = 'one'"), "rho must be a number, got \"one\"");
        let printed = PlanRequest { as_printed: true, ..asked("ipp") };
        assert_eq!(refused(&printed, ""), "as_printed is for ssg and adaprox: ipp has no such choice");
        let strict = PlanRequest { strict: true, ..asked("ssg") };
        assert_eq!(refused(&strict, ""), "strict is for dszog: ssg has no such choice");
        assert!(refused(&asked("sgs"), "").starts_with("method 'sgs' has no planner; did you mean 'ssg'?"));
        assert!(complexity(Some("sgs")).is_err());
        assert!(complexity(None).unwrap().len() > complexity(Some("ssg")).unwrap().len());
    }
}
