//! Which method suits a problem, by what the problem offers; with the reasons in words, so that the run can be repeated by
//! hand. The methods themselves are in the files beside this one.

use serde::{Deserialize, Serialize};

use super::{Bundle, FirstOrder, Lbfgs, Schedule, Ssg, StSpg, ThreesEcon, bundle, lbfgs, ssg, st_spg, threes_econ};
use crate::Result;
use crate::oracle::{Source, Subgradients};
use crate::run::{self, Options, Record, StopReason};

/// Raised when the rule chooses otherwise than before, or a method that it chooses changes its numbers.
pub const VERSION: u32 = 1;

/// A method that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The proximal bundle method.
    Bundle,
    /// The switching subgradient method.
    Ssg,
    /// 3S-Econ, with batches.
    ThreesEcon,
    /// L-BFGS.
    Lbfgs,
    /// St-SPG.
    StSpg,
}

impl Chosen {
    /// The name of the method, as in a spec.
    pub fn name(self) -> &'static str {
        match self {
            Chosen::Bundle => "bundle",
            Chosen::Ssg => "ssg",
            Chosen::ThreesEcon => "threes-econ",
            Chosen::Lbfgs => "lbfgs",
            Chosen::StSpg => "st-spg",
        }
    }
}

/// A choice and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The method.
    pub chosen: Chosen,
    /// What was seen, and what follows from it.
    pub reasons: Vec<String>,
}

/// Samples in one full evaluation beyond which batches are worth their noise.
const MANY_SAMPLES: u64 = 20_000_000;
/// Variables beyond which two hundred cuts are too large to keep.
const MANY_VARIABLES: usize = 200_000;
/// Variables beyond which twenty pairs of vectors are.
const MANY_FOR_PAIRS: usize = 4_000_000;

/// Chooses a method for a problem with subgradients.
pub fn choose(problem: &dyn Subgradients) -> Choice {
    let samples: u64 = problem.streams().iter().map(|&n| n as u64).sum();
    let (d, m) = (problem.dim(), problem.num_constraints());
    let without = if problem.objective_modulus().is_none() {
        Some("the objective".to_string())
    } else {
        (0..m).find(|&j| problem.constraint_modulus(j).is_none()).map(|j| format!("constraint '{}'", problem.constraint_name(j)))
    };
    let moduli = (0..m).map(|j| problem.constraint_modulus(j)).chain([problem.objective_modulus()]);
    let estimated = moduli.flatten().any(|modulus| modulus.source == Source::Estimated);
    let constants = match &without {
        Some(whose) => format!("{whose} has no weak-convexity constant"),
        None if estimated => "the weak-convexity constants are estimated as the run goes".into(),
        None => "every function has a weak-convexity constant".into(),
    };
    let what = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let seen = format!(
        "seen: {}, {}, {}; {constants}",
        what(d as u64, "variable"),
        what(m as u64, "constraint"),
        if samples == 0 { "no samples".into() } else { what(samples, "sample") },
    );
    let pair = problem.structure().inf_projection().filter(|_| m == 0);
    let (chosen, why) = if let Some(pair) = pair {
        let stages =
            |because: &str| (Chosen::StSpg, format!("st-spg with gamma and mu from short trial runs, because {because}"));
        if !pair.smooth() {
            stages("the losses have kinks, where a method for smooth functions stalls")
        } else if samples > MANY_SAMPLES {
            stages("one evaluation of everything costs too much")
        } else if d > MANY_FOR_PAIRS {
            stages("so many variables are too many to keep pairs of vectors of")
        } else if problem.domain().ball_around_origin().is_none() {
            stages("the domain is neither the whole space nor a ball around 0")
        } else {
            (Chosen::Lbfgs, "lbfgs, because nothing but the objective is there and it is smooth".into())
        }
    } else {
        let (chosen, why) = among_constrained(samples, d, without.is_some(), estimated);
        (chosen, why.into())
    };
    Choice { chosen, reasons: vec![seen, format!("chosen: {why}")] }
}

/// The choice by size and constants, for problems that may have constraints.
fn among_constrained(samples: u64, d: usize, without: bool, estimated: bool) -> (Chosen, &'static str) {
    if without {
        (Chosen::Ssg, "ssg with a step from short trial runs, because it needs no constant; it proves nothing")
    } else if samples > MANY_SAMPLES {
        (Chosen::ThreesEcon, "threes-econ with batches, because one evaluation of everything costs too much")
    } else if d > MANY_VARIABLES {
        (Chosen::Ssg, "ssg with a step from short trial runs, because cuts in so many variables are too large to keep")
    } else if estimated {
        (
            Chosen::Bundle,
            "bundle, because it needs no step size and estimates constants; what it then says of its point is no proof",
        )
    } else {
        (Chosen::Bundle, "bundle, because it needs no step size and proves how near its point is to stationary")
    }
}

/// A solver that is ready to run.
pub struct Prepared {
    /// The solver.
    pub solver: Box<FirstOrder<'static>>,
    /// Its settings in words.
    pub settings: String,
    /// What was found by trial runs, by name.
    pub found: Vec<(&'static str, f64)>,
    /// Three lines: what was seen, what was chosen, how to repeat it.
    pub reasons: Vec<String>,
}

/// Steps that trial runs try, and their length.
const STEPS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
const TRIAL: u64 = 100;
/// Proximal coefficients that they try in x and in y, and their length in steps of one sample.
const GAMMAS: [f64; 5] = [10.0, 1.0, 0.1, 0.01, 0.001];
const MUS: [f64; 3] = [10.0, 1.0, 0.1];
const SAMPLE_TRIAL: u64 = 20_000;

/// Chooses a method and gets it ready: a method that needs a step gets the one with which short runs from `start` get
/// furthest, feasible before infeasible, then the smaller objective.
pub fn prepare(problem: &dyn Subgradients, start: &[f64], seed: u64, feasibility: f64) -> Result<Prepared> {
    let Choice { chosen, mut reasons } = choose(problem);
    let mut found = vec![];
    let (solver, settings, repeat): (Box<FirstOrder<'static>>, String, String) = match chosen {
        Chosen::Bundle => {
            let settings = bundle::Settings::default();
            (Box::new(Bundle::new(settings.clone())?), format!("{settings:?}"), "name = \"bundle\"".into())
        }
        Chosen::ThreesEcon => {
            let settings = threes_econ::Settings { beta: threes_econ::Beta::Auto, ..threes_econ::Settings::default() };
            let repeat = "name = \"threes-econ\", beta = \"auto\"".into();
            (Box::new(ThreesEcon::new(settings.clone())?), format!("{settings:?}"), repeat)
        }
        Chosen::Lbfgs => {
            let settings = lbfgs::Settings::default();
            (Box::new(Lbfgs::new(settings.clone())?), format!("{settings:?}"), "name = \"lbfgs\"".into())
        }
        Chosen::StSpg => {
            let mut best = ((GAMMAS[0], MUS[0]), f64::INFINITY);
            for (gamma, mu) in GAMMAS.into_iter().flat_map(|gamma| MUS.map(|mu| (gamma, mu))) {
                let options = Options { seed, feasibility, record: Record::nothing(), ..Options::iterations(SAMPLE_TRIAL) };
                let mut solver = StSpg::new(st_spg::Settings { gamma, mu, ..st_spg::Settings::default() })?;
                let outcome = run::minimize(problem, &mut solver, start, &options, &mut ())?;
                // A run that went wrong is no candidate, wherever it stood then.
                if !matches!(outcome.ended, StopReason::Failed { .. }) && outcome.point.objective < best.1 {
                    best = ((gamma, mu), outcome.point.objective);
                }
            }
            let (gamma, mu) = best.0;
            found = vec![("gamma", gamma), ("mu", mu)];
            let settings = st_spg::Settings { gamma, mu, ..st_spg::Settings::default() };
            let repeat = format!("name = \"st-spg\", gamma = {gamma}, mu = {mu}");
            (Box::new(StSpg::new(settings.clone())?), format!("{settings:?}"), repeat)
        }
        Chosen::Ssg => {
            let with = |eta: f64| ssg::Settings {
                eta: Schedule::Constant(eta),
                infeasible_step: ssg::InfeasibleStep::Polyak,
                output: ssg::Output::BestFeasible,
                ..ssg::Settings::default()
            };
            let mut best = (STEPS[0], (f64::INFINITY, f64::INFINITY));
            for eta in STEPS {
                let options = Options { seed, feasibility, record: Record::nothing(), ..Options::iterations(TRIAL) };
                let point = run::minimize(problem, &mut Ssg::new(with(eta))?, start, &options, &mut ())?.point;
                let score = (if point.feasible { 0.0 } else { point.violation }, point.objective);
                if score < best.1 {
                    best = (eta, score);
                }
            }
            found = vec![("eta", best.0)];
            let settings = with(best.0);
            let repeat = format!("name = \"ssg\", eta = {}, infeasible_step = \"polyak\", output = \"best-feasible\"", best.0);
            (Box::new(Ssg::new(settings.clone())?), format!("{settings:?}"), repeat)
        }
    };
    reasons.push(format!("to repeat: {repeat}"));
    Ok(Prepared { solver, settings, found, reasons })
}
