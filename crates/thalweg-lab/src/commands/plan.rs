//! `thalweg plan`: from constants to the parameters that the theorems prescribe.

use std::process::ExitCode;

use thalweg::plan::{Constants, Plan, Theorem, plan};

use super::{DONE, Ending};
use crate::output::{align, print, print_json};
use crate::{Error, Result};

/// From the constants of a problem to the parameters that the theorems prescribe.
#[derive(Debug, Clone, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: thalweg plan --method ssg --theorem 4.2-I --eps 0.1 --lipschitz 1 --diameter 1 --rho 1 \
    --rho-hat 2 --slater 1"
)]
pub struct Args {
    /// The method
    #[arg(long, default_value = "ssg")]
    method: String,
    /// The theorem, such as 4.2-I; all that the constants allow if absent
    #[arg(long)]
    theorem: Option<String>,
    /// Target accuracy eps
    #[arg(long)]
    eps: f64,
    /// M: bound on all subgradients
    #[arg(long, value_name = "M")]
    lipschitz: Option<f64>,
    /// D: diameter of the domain
    #[arg(long, value_name = "D")]
    diameter: Option<f64>,
    /// Weak-convexity constant of the objective
    #[arg(long)]
    rho: Option<f64>,
    /// Proximal coefficient, larger than rho
    #[arg(long)]
    rho_hat: Option<f64>,
    /// -g at a strictly feasible point
    #[arg(long)]
    slater: Option<f64>,
    /// sigma: spread of stochastic constraint values
    #[arg(long, value_name = "SIGMA")]
    noise: Option<f64>,
    /// mu: strong convexity of the constraint
    #[arg(long, value_name = "MU")]
    strong_convexity: Option<f64>,
    /// delta: admitted probability of failure
    #[arg(long, value_name = "DELTA")]
    confidence: Option<f64>,
    /// Use the exponent that the paper prints in Theorem 5.2 I, not the one its proof needs
    #[arg(long)]
    as_printed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Ending {
    let plans = plans(&args)?;
    if args.json {
        print_json(&plans)?;
    } else {
        let texts: Vec<String> = plans.iter().map(words).collect();
        print(&texts.join("\n"))?;
    }
    Ok(ExitCode::from(DONE))
}

fn plans(args: &Args) -> Result<Vec<Plan>> {
    if args.method != "ssg" {
        let hint = thalweg::suggest::did_you_mean(&args.method, ["ssg"]);
        return Err(Error::Request(format!("method '{}' has no planner{hint}: wanted ssg", args.method)));
    }
    let constants = Constants {
        lipschitz: args.lipschitz,
        diameter: args.diameter,
        rho: args.rho,
        rho_hat: args.rho_hat,
        slater: args.slater,
        noise: args.noise,
        strong_convexity: args.strong_convexity,
        confidence: args.confidence,
    };
    if let Some(name) = &args.theorem {
        let theorem: Theorem = name.parse()?;
        return Ok(vec![plan(theorem, &constants, args.eps, args.as_printed)?]);
    }
    let mut plans = vec![];
    let mut first_refusal = None;
    for theorem in Theorem::ALL {
        match plan(theorem, &constants, args.eps, args.as_printed) {
            Ok(plan) => plans.push(plan),
            Err(e) => first_refusal = first_refusal.or(Some(e)),
        }
    }
    match first_refusal {
        Some(refusal) if plans.is_empty() => Err(refusal.into()),
        _ => Ok(plans),
    }
}

fn words(plan: &Plan) -> String {
    // The theorem and the guarantee are sentences: they stand above and below the table.
    let rows = plan.rows().into_iter().filter(|(what, ..)| what != "theorem" && what != "guarantee");
    let rows: Vec<[String; 3]> = rows.map(|(what, symbol, value)| [what, symbol, value]).collect();
    format!("Theorem {}: {}\n{}{}\n", plan.theorem, plan.theorem.describe(), align(&rows, &[]), plan.guarantee)
}
