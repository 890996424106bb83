//! `thalweg plan`: parameters prescribed by the theorems for given constants, and how the work of the methods grows.

use std::process::ExitCode;

use serde::Serialize;
use thalweg::solvers::complexity::Complexity;
use thalweg::solvers::{Interface, SolverName, registry};

use super::CommandResult;
use crate::output::{align, print, print_json};
use crate::plan::{PlanRequest, PlanSummary, complexity, plans};
use crate::verdict::DONE;
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
    #[arg(long, help = method_help())]
    method: Option<String>,
    /// The theorem, such as 4.2-I (ssg) or 3.7 (threes-econ); all that the constants allow if absent
    #[arg(long)]
    theorem: Option<String>,
    /// The solver of the subproblems: ssg or conex (ipp), sg or pd (adaprox); all that the constants allow if absent
    #[arg(long)]
    inner: Option<String>,
    /// Target accuracy eps
    #[arg(long, required_unless_present = "complexity")]
    eps: Option<f64>,
    /// Use what the paper prints, not what its proof needs: the exponent in Theorem 5.2 I (ssg), the number of subproblems in
    /// Theorem 6 (adaprox)
    #[arg(long)]
    as_printed: bool,
    /// Use the constants of the proof, not those of the theorem, which hold up to a factor (dszog)
    #[arg(long)]
    strict: bool,
    /// Show how the work grows as eps falls, for one method or for all
    #[arg(long, conflicts_with_all = ["theorem", "inner", "eps", "as_printed", "strict"])]
    complexity: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    constants: ConstantArgs,
}

/// Default method.
const DEFAULT: SolverName = SolverName::Ssg;

fn method_help() -> String {
    format!("The method: one of {} [default: {DEFAULT}]", registry::offered_by(Interface::Plan).join(", "))
}

const SEVERAL: &str = "Constants of several methods";

/// Returns the heading of the constants of some methods.
fn constants_of(methods: &[SolverName]) -> String {
    let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    format!("Constants of {}", names.join(" and "))
}

/// The constants of all methods, by the names that the planners use.
#[derive(Debug, Clone, clap::Args, Serialize)]
struct ConstantArgs {
    /// Bound on all subgradients: M of ssg and ipp, of the objective and all rows for adaprox; G of bmd, of every loss
    #[arg(long, value_name = "M", help_heading = SEVERAL)]
    lipschitz: Option<f64>,
    /// Bound on the subgradients of the constraint: M of conex, l_g of threes-econ
    #[arg(long, value_name = "L", help_heading = SEVERAL)]
    constraint_lipschitz: Option<f64>,
    /// D: diameter of the domain (all but dszog, mspg, st-spg and bmd), of all variables for adaprox
    #[arg(long, value_name = "D", help_heading = SEVERAL)]
    diameter: Option<f64>,
    /// Weak-convexity constant of the objective (ssg, ipp, threes-econ); how far weights may go from equal ones (bmd)
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
    /// sigma: spread of stochastic constraint values (ssg, threes-econ), of stochastic gradients (mspg, st-spg)
    #[arg(long, value_name = "SIGMA", help_heading = SEVERAL)]
    noise: Option<f64>,
    /// Strong convexity: mu of the constraint for ssg, alpha of the objective for conex
    #[arg(long, value_name = "MU", help_heading = SEVERAL)]
    strong_convexity: Option<f64>,
    /// B: bound on the length of an optimal multiplier plus 1 (conex, ipp), on the sum of all of them plus 1 (adaprox)
    #[arg(long, value_name = "B", help_heading = SEVERAL)]
    multiplier_bound: Option<f64>,
    /// Penalty: if it is not to be chosen for threes-econ, the price of squared violations for dszog [default: 1]
    #[arg(long, help_heading = SEVERAL)]
    beta: Option<f64>,
    /// L_f: Lipschitz constant of the gradient of the objective, or of its smooth part (conex, adaprox)
    #[arg(long, value_name = "L_F", help_heading = SEVERAL)]
    objective_smoothness: Option<f64>,
    /// l_f: bound on the subgradients of the objective (threes-econ), in the inner variables for adaprox
    #[arg(long, value_name = "L_F", help_heading = SEVERAL)]
    objective_lipschitz: Option<f64>,
    /// By how much the objective varies: B_f of threes-econ, l_f D if absent; Delta_f of adaprox; M_f, in both variables, of mspg
    /// and st-spg
    #[arg(long, value_name = "RANGE", help_heading = SEVERAL)]
    objective_range: Option<f64>,
    /// Number of constraints: m of dszog, q of adaprox
    #[arg(long, value_name = "COUNT", help_heading = SEVERAL)]
    constraints: Option<f64>,
    /// Added to the root of the norm that steps are divided by (dszog) [default: 1e-8]; the step is c / L (mspg) [default: 0.25]
    #[arg(long, help_heading = SEVERAL)]
    c: Option<f64>,
    /// Number of samples: N of a finite sum (threes-econ), n (bmd)
    #[arg(long, value_name = "N", help_heading = SEVERAL)]
    samples: Option<f64>,

    /// delta: admitted probability of failure
    #[arg(long, value_name = "DELTA", help_heading = constants_of(&[SolverName::Ssg]))]
    confidence: Option<f64>,

    /// H_f: jump of the objective's subgradients at kinks, twice their bound if it is not smooth
    #[arg(long, value_name = "H_F", help_heading = constants_of(&[SolverName::Conex]))]
    objective_kink: Option<f64>,
    /// L_g: the same as L_f for the constraint
    #[arg(long, value_name = "L_G", help_heading = constants_of(&[SolverName::Conex]))]
    constraint_smoothness: Option<f64>,
    /// H_g: the same as H_f for the constraint
    #[arg(long, value_name = "H_G", help_heading = constants_of(&[SolverName::Conex]))]
    constraint_kink: Option<f64>,

    /// Proximal coefficient of the constraint, larger than rho_g
    #[arg(long, help_heading = constants_of(&[SolverName::Ipp]))]
    rho_hat_g: Option<f64>,

    /// L_g: mean-square Lipschitz constant of samples of the constraint
    #[arg(long, value_name = "L_G", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    mean_square_lipschitz: Option<f64>,
    /// sigma_1: spread of the objective's stochastic subgradients, 0 if exact
    #[arg(long, value_name = "SIGMA_1", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    objective_subgradient_noise: Option<f64>,
    /// sigma_2: spread of the constraint's stochastic subgradients, 0 if exact
    #[arg(long, value_name = "SIGMA_2", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    constraint_subgradient_noise: Option<f64>,
    /// theta: constant of sharpness or gradient-away; from Slater's condition if absent
    #[arg(long, value_name = "THETA", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    regularity: Option<f64>,
    /// B_g: constraint value up to which regularity holds
    #[arg(long, value_name = "B_G", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    level: Option<f64>,
    /// B: margin of the uniform Slater condition
    #[arg(long, value_name = "B", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    slater_margin: Option<f64>,
    /// rho_bar: curvature of the uniform Slater condition, larger than rho_g
    #[arg(long, value_name = "RHO_BAR", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    slater_curvature: Option<f64>,
    /// Delta: by how much the envelope of the penalty problem can fall from the start
    #[arg(long, value_name = "DELTA", help_heading = constants_of(&[SolverName::ThreesEcon]))]
    envelope_gap: Option<f64>,
    /// Smoothing, if it is not to be chosen
    #[arg(long, help_heading = constants_of(&[SolverName::ThreesEcon]))]
    nu: Option<f64>,

    /// L: Lipschitz constant of the gradient of the penalty function, and of its maximum over the weights
    #[arg(long, value_name = "L", help_heading = constants_of(&[SolverName::Dszog]))]
    smoothness: Option<f64>,
    /// tau: strong concavity in the weights, lambda of the solver
    #[arg(long, value_name = "TAU", help_heading = constants_of(&[SolverName::Dszog]))]
    strong_concavity: Option<f64>,
    /// L_g: Lipschitz constant of the best weights; L / tau if absent
    #[arg(long, value_name = "L_G", help_heading = constants_of(&[SolverName::Dszog]))]
    weights_lipschitz: Option<f64>,
    /// sigma_1: spread of the estimated gradient in the variables
    #[arg(long, value_name = "SIGMA_1", help_heading = constants_of(&[SolverName::Dszog]))]
    variables_noise: Option<f64>,
    /// sigma_2: spread of the estimated gradient in the weights
    #[arg(long, value_name = "SIGMA_2", help_heading = constants_of(&[SolverName::Dszog]))]
    weights_noise: Option<f64>,
    /// c1l: smallest 1 / (sqrt(||z_w||) + c)
    #[arg(long, value_name = "C1L", help_heading = constants_of(&[SolverName::Dszog]))]
    variables_scale_min: Option<f64>,
    /// c1u: largest 1 / (sqrt(||z_w||) + c); 1 / c if absent
    #[arg(long, value_name = "C1U", help_heading = constants_of(&[SolverName::Dszog]))]
    variables_scale_max: Option<f64>,
    /// Largest ||z_w||, in place of c1l
    #[arg(long, value_name = "NORM", help_heading = constants_of(&[SolverName::Dszog]))]
    variables_largest_norm: Option<f64>,
    /// c2l: smallest 1 / (sqrt(||z_p||) + c)
    #[arg(long, value_name = "C2L", help_heading = constants_of(&[SolverName::Dszog]))]
    weights_scale_min: Option<f64>,
    /// c2u: largest 1 / (sqrt(||z_p||) + c); 1 / c if absent
    #[arg(long, value_name = "C2U", help_heading = constants_of(&[SolverName::Dszog]))]
    weights_scale_max: Option<f64>,
    /// Largest ||z_p||, in place of c2l
    #[arg(long, value_name = "NORM", help_heading = constants_of(&[SolverName::Dszog]))]
    weights_largest_norm: Option<f64>,
    /// By how much the maximum over the weights can fall from the start
    #[arg(long, help_heading = constants_of(&[SolverName::Dszog]))]
    gap: Option<f64>,
    /// d: number of variables
    #[arg(long, value_name = "D", help_heading = constants_of(&[SolverName::Dszog]))]
    dimension: Option<f64>,
    /// Q: directions of each estimate [default: 10]
    #[arg(long, value_name = "Q", help_heading = constants_of(&[SolverName::Dszog]))]
    directions: Option<f64>,
    /// Samples of the objective in each estimate [default: 128]
    #[arg(long, help_heading = constants_of(&[SolverName::Dszog]))]
    m1: Option<f64>,
    /// Constraints drawn by weight in each estimate [default: 128]
    #[arg(long, help_heading = constants_of(&[SolverName::Dszog]))]
    m2: Option<f64>,
    /// Constraints drawn uniformly in each estimate [default: 128]
    #[arg(long, help_heading = constants_of(&[SolverName::Dszog]))]
    m3: Option<f64>,
    /// Share of the new weights in the mixture; the one with the fewest iterations if absent
    #[arg(long, help_heading = constants_of(&[SolverName::Dszog]))]
    a: Option<f64>,

    /// L_g: Lipschitz constant of the gradient of the inner objective
    #[arg(long, value_name = "L_G", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_smoothness: Option<f64>,
    /// rho_f: Lipschitz constant of the Hessian of the objective
    #[arg(long, value_name = "RHO_F", help_heading = constants_of(&[SolverName::Adaprox]))]
    objective_hessian_lipschitz: Option<f64>,
    /// rho_g: Lipschitz constant of the Hessian of the inner objective
    #[arg(long, value_name = "RHO_G", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_hessian_lipschitz: Option<f64>,
    /// M_Hg: bound on the Frobenius norm of the Hessian of the inner objective
    #[arg(long, value_name = "M_HG", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_hessian_bound: Option<f64>,
    /// M_g: bound on the gradient of the inner objective minus its regularised minimum
    #[arg(long, value_name = "M_G", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_gap_lipschitz: Option<f64>,
    /// kappa: smallest curvature of the inner objective where its gradient is not 0
    #[arg(long, value_name = "KAPPA", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_curvature: Option<f64>,
    /// D_Y: radius of the ball of the inner variables
    #[arg(long, value_name = "D_Y", help_heading = constants_of(&[SolverName::Adaprox]))]
    inner_radius: Option<f64>,
    /// Diameter of the set of the outer variables, in place of D
    #[arg(long, value_name = "D_X", help_heading = constants_of(&[SolverName::Adaprox]))]
    outer_diameter: Option<f64>,
    /// Weight of the regularisation of the inner problem
    #[arg(long, help_heading = constants_of(&[SolverName::Adaprox]))]
    alpha: Option<f64>,
    /// By how much the inner objective may exceed its regularised minimum
    #[arg(long, help_heading = constants_of(&[SolverName::Adaprox]))]
    xi: Option<f64>,
    /// Admitted error in value of the reformulation, in place of alpha and xi
    #[arg(long, value_name = "ERROR", help_heading = constants_of(&[SolverName::Adaprox]))]
    value_error: Option<f64>,

    /// L_g: Lipschitz constant of the gradient of g (mspg)
    #[arg(long, value_name = "L_G", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    convex_smoothness: Option<f64>,
    /// L_l: Lipschitz constant of the Jacobian of l (mspg)
    #[arg(long, value_name = "L_L", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    mapping_smoothness: Option<f64>,
    /// G_l: Lipschitz constant of l (mspg)
    #[arg(long, value_name = "G_L", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    mapping_lipschitz: Option<f64>,
    /// Bound on the norm of y: D_y of mspg; D of st-spg, which bounds sampled values of l as well
    #[arg(long, value_name = "D", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    coupled_bound: Option<f64>,
    /// b: iteration t reads b t samples (mspg) [default: 1]
    #[arg(long, value_name = "B", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    growth: Option<f64>,
    /// v: the gradient of the conjugate of h is Hoelder continuous with this exponent (mspg) [default: 1]
    #[arg(long, value_name = "V", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    holder_exponent: Option<f64>,
    /// L_h*: and with this constant (mspg); from the uniform convexity if absent
    #[arg(long, value_name = "L", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    holder_constant: Option<f64>,
    /// rho_u: uniform convexity of h, strong convexity where v = 1, in place of L_h* (mspg)
    #[arg(long, value_name = "RHO_U", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    uniform_convexity: Option<f64>,
    /// Proximal coefficient of the stages in x (st-spg) [default: 1]
    #[arg(long, help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    gamma: Option<f64>,
    /// Proximal coefficient of the stages in y (st-spg) [default: 1]
    #[arg(long, help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    mu: Option<f64>,
    /// alpha: stage k is drawn with a probability proportional to k^alpha (st-spg) [default: 1]
    #[arg(long, value_name = "ALPHA", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    weight: Option<f64>,
    /// K: stages, in place of those that eps asks for (st-spg)
    #[arg(long, value_name = "K", help_heading = constants_of(&[SolverName::Mspg, SolverName::StSpg]))]
    stages: Option<f64>,

    /// l_max: every loss is at most this large
    #[arg(long, value_name = "L_MAX", help_heading = constants_of(&[SolverName::Bmd]))]
    loss_bound: Option<f64>,
    /// R: distance from the start to a minimiser
    #[arg(long, value_name = "R", help_heading = constants_of(&[SolverName::Bmd]))]
    start_distance: Option<f64>,
    /// No weight is below delta / n [default: 1e-5]
    #[arg(long, help_heading = constants_of(&[SolverName::Bmd]))]
    delta: Option<f64>,
    /// T: steps, in place of those that eps asks for
    #[arg(long, value_name = "T", help_heading = constants_of(&[SolverName::Bmd]))]
    iterations: Option<f64>,
}

/// Returns the command-line name of an option or a constant.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    if args.complexity {
        show_complexity(&complexity(args.method.as_deref())?, args.json)?;
    } else {
        // TOML omits absent values and keeps infinities, which the planner rejects.
        let constants = toml::Table::try_from(&args.constants);
        let constants = constants.map_err(|e| Error::Request(format!("the constants cannot be read: {e}")))?;
        let asked = PlanRequest {
            method: args.method.unwrap_or_else(|| DEFAULT.to_string()),
            theorem: args.theorem,
            inner: args.inner,
            // Required by the argument parser.
            eps: args.eps.unwrap_or(f64::NAN),
            as_printed: args.as_printed,
            strict: args.strict,
        };
        show(&plans(&asked, constants, &flag)?, args.json)?;
    }
    Ok(ExitCode::from(DONE))
}

fn show(plans: &[PlanSummary], json: bool) -> Result<()> {
    if json {
        return print_json(&plans.iter().map(|plan| &plan.parameters).collect::<Vec<_>>());
    }
    let texts: Vec<String> =
        plans.iter().map(|plan| format!("{}\n{}{}\n", plan.title, align(&plan.rows, &[]), plan.guarantee)).collect();
    print(&texts.join("\n"))
}

fn show_complexity(rows: &[&Complexity], json: bool) -> Result<()> {
    if json {
        return print_json(&rows);
    }
    let mut table =
        vec![["method", "constraint", "objective subgradients", "constraint subgradients", "constraint values", "under"]];
    table.extend(rows.iter().map(|r| {
        let work = [r.objective_subgradients, r.constraint_subgradients, r.constraint_values];
        [r.method.as_str(), r.setting, work[0], work[1], work[2], r.conditions]
    }));
    let table: Vec<[String; 6]> = table.into_iter().map(|row| row.map(String::from)).collect();
    print(&align(&table, &[]))
}
