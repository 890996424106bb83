//! `thalweg plan`: from constants to the parameters that the theorems prescribe, and how the work of the methods grows.

use std::process::ExitCode;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thalweg::plan::{self, METHODS, Readable, complexity};

use super::{DONE, Ending};
use crate::output::{align, print, print_json};
use crate::{Error, Result};

/// From the constants of a problem to the parameters that the theorems prescribe.
#[derive(Debug, Clone, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  thalweg plan --method ssg --theorem 4.2-I --eps 0.1 --lipschitz 1 --diameter 1 --rho 1 --rho-hat 2 --slater 1
  thalweg plan --complexity"
)]
pub struct Args {
    /// The method: ssg, conex, ipp or threes-econ [default: ssg]
    #[arg(long)]
    method: Option<String>,
    /// The theorem, such as 4.2-I (ssg) or 3.7 (threes-econ); all that the constants allow if absent
    #[arg(long)]
    theorem: Option<String>,
    /// The solver of the subproblems of ipp, ssg or conex; all that the constants allow if absent
    #[arg(long)]
    inner: Option<String>,
    /// Target accuracy eps
    #[arg(long, required_unless_present = "complexity")]
    eps: Option<f64>,
    /// Use the exponent that the paper prints in Theorem 5.2 I, not the one its proof needs (ssg)
    #[arg(long)]
    as_printed: bool,
    /// Show how the work grows as eps falls, for one method or for all
    #[arg(long, conflicts_with_all = ["theorem", "inner", "eps", "as_printed"])]
    complexity: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    constants: Given,
}

const SEVERAL: &str = "Constants of several methods";
const SSG: &str = "Constants of ssg";
const CONEX: &str = "Constants of conex";
const IPP: &str = "Constants of ipp";
const THREES_ECON: &str = "Constants of threes-econ";

/// The constants of all methods, by the names that the planners use.
#[derive(Debug, Clone, clap::Args, Serialize)]
struct Given {
    /// M: bound on all subgradients (ssg, ipp)
    #[arg(long, value_name = "M", help_heading = SEVERAL)]
    lipschitz: Option<f64>,
    /// Bound on the subgradients of the constraint: M of conex, l_g of threes-econ
    #[arg(long, value_name = "L", help_heading = SEVERAL)]
    constraint_lipschitz: Option<f64>,
    /// D: diameter of the domain (all)
    #[arg(long, value_name = "D", help_heading = SEVERAL)]
    diameter: Option<f64>,
    /// Weak-convexity constant of the objective (ssg, ipp, threes-econ)
    #[arg(long, help_heading = SEVERAL)]
    rho: Option<f64>,
    /// Proximal coefficient, larger than rho (ssg, ipp)
    #[arg(long, help_heading = SEVERAL)]
    rho_hat: Option<f64>,
    /// Weak-convexity constant of the constraint, 0 if it is convex (ipp, threes-econ)
    #[arg(long, help_heading = SEVERAL)]
    rho_g: Option<f64>,
    /// -g at a strictly feasible point (ssg, threes-econ)
    #[arg(long, help_heading = SEVERAL)]
    slater: Option<f64>,
    /// sigma: spread of stochastic constraint values (ssg, threes-econ)
    #[arg(long, value_name = "SIGMA", help_heading = SEVERAL)]
    noise: Option<f64>,
    /// Strong convexity: mu of the constraint for ssg, alpha of the objective for conex
    #[arg(long, value_name = "MU", help_heading = SEVERAL)]
    strong_convexity: Option<f64>,
    /// B: bound on the length of an optimal multiplier plus 1 (conex, ipp)
    #[arg(long, value_name = "B", help_heading = SEVERAL)]
    multiplier_bound: Option<f64>,

    /// delta: admitted probability of failure
    #[arg(long, value_name = "DELTA", help_heading = SSG)]
    confidence: Option<f64>,

    /// L_f: Lipschitz constant of the gradient of the objective's smooth part
    #[arg(long, value_name = "L_F", help_heading = CONEX)]
    objective_smoothness: Option<f64>,
    /// H_f: jump of the objective's subgradients at kinks, twice their bound if it is not smooth
    #[arg(long, value_name = "H_F", help_heading = CONEX)]
    objective_kink: Option<f64>,
    /// L_g: the same as L_f for the constraint
    #[arg(long, value_name = "L_G", help_heading = CONEX)]
    constraint_smoothness: Option<f64>,
    /// H_g: the same as H_f for the constraint
    #[arg(long, value_name = "H_G", help_heading = CONEX)]
    constraint_kink: Option<f64>,

    /// Proximal coefficient of the constraint, larger than rho_g
    #[arg(long, help_heading = IPP)]
    rho_hat_g: Option<f64>,

    /// l_f: bound on the subgradients of the objective
    #[arg(long, value_name = "L_F", help_heading = THREES_ECON)]
    objective_lipschitz: Option<f64>,
    /// L_g: mean-square Lipschitz constant of samples of the constraint
    #[arg(long, value_name = "L_G", help_heading = THREES_ECON)]
    mean_square_lipschitz: Option<f64>,
    /// sigma_1: spread of the objective's stochastic subgradients, 0 if exact
    #[arg(long, value_name = "SIGMA_1", help_heading = THREES_ECON)]
    objective_subgradient_noise: Option<f64>,
    /// sigma_2: spread of the constraint's stochastic subgradients, 0 if exact
    #[arg(long, value_name = "SIGMA_2", help_heading = THREES_ECON)]
    constraint_subgradient_noise: Option<f64>,
    /// B_f: by how much the objective varies; l_f D if absent
    #[arg(long, value_name = "B_F", help_heading = THREES_ECON)]
    objective_range: Option<f64>,
    /// theta: constant of sharpness or gradient-away; from Slater's condition if absent
    #[arg(long, value_name = "THETA", help_heading = THREES_ECON)]
    regularity: Option<f64>,
    /// B_g: constraint value up to which regularity holds
    #[arg(long, value_name = "B_G", help_heading = THREES_ECON)]
    level: Option<f64>,
    /// B: margin of the uniform Slater condition
    #[arg(long, value_name = "B", help_heading = THREES_ECON)]
    slater_margin: Option<f64>,
    /// rho_bar: curvature of the uniform Slater condition, larger than rho_g
    #[arg(long, value_name = "RHO_BAR", help_heading = THREES_ECON)]
    slater_curvature: Option<f64>,
    /// Delta: by how much the envelope of the penalty problem can fall from the start
    #[arg(long, value_name = "DELTA", help_heading = THREES_ECON)]
    envelope_gap: Option<f64>,
    /// N: number of samples of a finite sum
    #[arg(long, value_name = "N", help_heading = THREES_ECON)]
    samples: Option<f64>,
    /// Penalty, if it is not to be chosen
    #[arg(long, help_heading = THREES_ECON)]
    beta: Option<f64>,
    /// Smoothing, if it is not to be chosen
    #[arg(long, help_heading = THREES_ECON)]
    nu: Option<f64>,
}

/// Runs the command.
pub fn run(args: Args) -> Ending {
    let method = args.method.as_deref().unwrap_or(METHODS[0]);
    if !METHODS.contains(&method) {
        let hint = thalweg::suggest::did_you_mean(method, METHODS);
        return Err(Error::Request(format!("method '{method}' has no planner{hint}: wanted {}", METHODS.join(", "))));
    }
    if args.complexity {
        show_complexity(args.method.as_deref(), args.json)?;
    } else {
        show_plans(method, &args)?;
    }
    Ok(ExitCode::from(DONE))
}

fn show_plans(method: &str, args: &Args) -> Result<()> {
    for (option, given, methods) in [
        ("theorem", args.theorem.is_some(), ["ssg", "threes-econ"].as_slice()),
        ("inner", args.inner.is_some(), &["ipp"]),
        ("as-printed", args.as_printed, &["ssg"]),
    ] {
        if given && !methods.contains(&method) {
            return Err(Error::Request(format!("--{option} is for {}: {method} has no such choice", methods.join(" and "))));
        }
    }
    // The parser asks for it.
    let eps = args.eps.unwrap_or(f64::NAN);
    match method {
        "conex" => {
            let c = constants(method, &args.constants)?;
            show(&[plan::conex::plan(&c, eps)?], args.json)
        }
        "ipp" => {
            let c = constants(method, &args.constants)?;
            let chosen = args.inner.as_deref().map(inner).transpose()?;
            show(&allowed(chosen, &plan::ipp::Inner::ALL, |inner| plan::ipp::plan(inner, &c, eps))?, args.json)
        }
        "threes-econ" => {
            let c = constants(method, &args.constants)?;
            let chosen = args.theorem.as_deref().map(str::parse).transpose()?;
            show(&allowed(chosen, &plan::threes_econ::Theorem::ALL, |t| plan::threes_econ::plan(t, &c, eps))?, args.json)
        }
        _ => {
            let c = constants(method, &args.constants)?;
            let chosen = args.theorem.as_deref().map(str::parse).transpose()?;
            show(&allowed(chosen, &plan::ssg::Theorem::ALL, |t| plan::ssg::plan(t, &c, eps, args.as_printed))?, args.json)
        }
    }
}

fn inner(name: &str) -> Result<plan::ipp::Inner> {
    let all = plan::ipp::Inner::ALL;
    all.into_iter().find(|i| i.to_string() == name).ok_or_else(|| {
        let hint = thalweg::suggest::did_you_mean(name, ["ssg", "conex"]);
        Error::Request(format!("inner solver '{name}' has no planner{hint}: wanted ssg, conex"))
    })
}

/// The given constants as the planner of `method` takes them; refuses those that it does not know.
fn constants<C: Default + Serialize + DeserializeOwned>(method: &str, given: &Given) -> Result<C> {
    let failed = |e: &dyn std::fmt::Display| Error::Request(format!("the constants cannot be read: {e}"));
    // TOML leaves out what is absent and keeps infinities, for the planner to refuse.
    let given = toml::Table::try_from(given).map_err(|e| failed(&e))?;
    let known = serde_json::to_value(C::default()).map_err(|e| failed(&e))?;
    let flag = |name: &String| format!("--{}", name.replace('_', "-"));
    if let Some(stranger) = given.keys().find(|name| known.get(name.as_str()).is_none()) {
        let flags: Vec<String> = known.as_object().into_iter().flat_map(|o| o.keys()).map(flag).collect();
        return Err(Error::Request(format!("{} is no constant of {method}: wanted {}", flag(stranger), flags.join(", "))));
    }
    given.try_into().map_err(|e| failed(&e))
}

/// The plan of the choice, or of all choices that the constants allow; the first refusal if there is none.
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

fn show<P: Readable + Serialize>(plans: &[P], json: bool) -> Result<()> {
    if json {
        return print_json(&plans);
    }
    let texts: Vec<String> =
        plans.iter().map(|plan| format!("{}\n{}{}\n", plan.title(), align(&plan.rows(), &[]), plan.guarantee())).collect();
    print(&texts.join("\n"))
}

fn show_complexity(method: Option<&str>, json: bool) -> Result<()> {
    let rows: Vec<_> = complexity().iter().filter(|row| method.is_none_or(|m| m == row.method)).collect();
    if json {
        return print_json(&rows);
    }
    let mut table =
        vec![["method", "constraint", "objective subgradients", "constraint subgradients", "constraint values", "under"]];
    table.extend(rows.iter().map(|r| {
        let work = [r.objective_subgradients, r.constraint_subgradients, r.constraint_values];
        [r.method, r.setting, work[0], work[1], work[2], r.conditions]
    }));
    let table: Vec<[String; 6]> = table.into_iter().map(|row| row.map(String::from)).collect();
    print(&align(&table, &[]))
}
