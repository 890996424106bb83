//! `thalweg demo`: the main job once, on data that come with the command.

use std::process::ExitCode;

use thalweg::learn::{Learning, Split};
use thalweg::run::{self, Options, Point};
use thalweg::solvers::{Ssg, ssg};

use super::{DONE, Ending, MISSED};
use crate::Result;
use crate::data::adult;
use crate::output::{align, print};

/// Run the main job once on embedded data and print what came out.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {}

const BOUND: f64 = 0.02;

/// Runs the command.
pub fn run(_: Args) -> Ending {
    print(
        "Adult census income, 48,842 people: fit a linear classifier by hinge loss, without and with the constraint that\n\
         the rate of predicted high incomes may differ by at most 0.02 between women and men.\n\n",
    )?;
    let free = fit(&[])?;
    let fair = fit(&[&format!("demographic_parity <= {BOUND}")])?;
    let gap = |x: &[f64]| -> Result<f64> {
        let probe = Learning::on(adult::a9a()?).minimize("demographic_parity".parse()?).build()?;
        Ok(run::measure(&probe, x, 0.0)?.objective)
    };
    let row = |name: &str, p: &Point| -> Result<[String; 4]> {
        let feasible = if gap(&p.x)? <= BOUND + 1e-6 { "yes" } else { "no" };
        Ok([name.into(), format!("{:.4}", p.objective), format!("{:.4}", gap(&p.x)?), feasible.into()])
    };
    let mut rows = vec![["model", "hinge loss", "gap (bound 0.02)", "keeps the bound"].map(String::from)];
    rows.push(row("unconstrained", &free)?);
    rows.push(row("constrained", &fair)?);
    print(&align(&rows, &[1, 2, 3]))?;
    print("\nNext: describe a run of your own in TOML and give it to `thalweg solve`; `thalweg data list` shows the data.\n")?;
    Ok(ExitCode::from(if fair.feasible { DONE } else { MISSED }))
}

fn fit(constraints: &[&str]) -> Result<Point> {
    let mut problem = Learning::on(adult::a9a()?).split(Split::Shared).minimize("hinge".parse()?);
    for constraint in constraints {
        problem = problem.subject_to(constraint.parse()?);
    }
    let problem = problem.build()?;
    let settings = ssg::Settings { eta: 0.1.into(), tol: 0.0.into(), ..ssg::Settings::default() };
    let outcome = run::minimize(&problem, &mut Ssg::new(settings)?, &[0.0; 123], &Options::iterations(1500), &mut ())?;
    Ok(outcome.point)
}
