//! Rule that chooses a solver, and the evidence for the choice as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pilot::{BudgetedRuns, Pilot, Score, Work};
use crate::Result;
use crate::oracle::{Source, Subgradients};
use crate::run::{Options, Record, StopReason};
use crate::solvers::{Config, Schedule, SolverName, Ssg, StSpg, ssg, st_spg, threes_econ};

/// Chosen solver with settings and evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The solver and its settings. A run with these settings and the same seed reproduces the chosen run.
    pub config: Config,
    /// Reason for the choice.
    pub evidence: Evidence,
}

/// Evidence for a choice. Its text describes the problem and the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Number of variables.
    pub variables: usize,
    /// Number of constraints.
    pub constraints: usize,
    /// Samples in one full evaluation; 0 for a deterministic problem.
    pub samples: u64,
    /// Which weak-convexity constants are available.
    pub constants: Constants,
    /// The chosen solver.
    pub solver: SolverName,
    /// The decisive property of the problem.
    pub reason: Reason,
    /// Pilot runs that chose the settings.
    pub trials: Option<Trials>,
}

/// Availability of the weak-convexity constants of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constants {
    /// Every function has a proved or claimed constant.
    Known,
    /// Every function has a constant; some are estimated during the run.
    Estimated,
    /// The objective has no constant.
    NoneOfObjective,
    /// The named constraint has no constant.
    NoneOfConstraint(String),
}

/// Property of a problem that decides between solvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A function has no weak-convexity constant.
    NoConstant,
    /// A full evaluation is too expensive.
    ManySamples,
    /// The vectors that the alternative solver stores would be too large.
    ManyVariables,
    /// A bound on stationarity can be proved.
    ProvesStationarity,
    /// A bound on stationarity can be computed from estimated constants.
    EstimatesStationarity,
    /// The losses of an inf-projection problem are not smooth.
    Kinks,
    /// The domain is neither the whole space nor a ball around 0.
    Domain,
    /// The problem is an unconstrained smooth objective.
    SmoothObjective,
    /// All functions are smooth, or maxima of smooth functions, with second derivatives.
    SmoothFunctions,
    /// A small deterministic problem has equality constraints.
    Equalities,
}

/// Pilot runs and their work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// Number of candidates tried.
    pub count: u64,
    /// Total work.
    pub work: Work,
}

/// Number of samples in one full evaluation beyond which mini-batches are worth their noise.
const MANY_SAMPLES: u64 = 20_000_000;
/// Number of variables beyond which two hundred cuts are too large to store.
const MANY_VARIABLES: usize = 200_000;
/// Number of variables beyond which twenty pairs of vectors are too large to store.
const MANY_FOR_PAIRS: usize = 4_000_000;
/// Number of variables up to which full approximations of Hessians are cheap beside calls of the user's functions.
const FEW_VARIABLES: usize = 200;

/// Chooses a solver for a problem with subgradients, without running anything. Settings that [`prepare`] finds by pilot runs have
/// the value that is tried first.
pub fn choose(problem: &dyn Subgradients) -> Choice {
    let samples: u64 = problem.streams().iter().map(|&n| n as u64).sum();
    let (variables, constraints) = (problem.dim(), problem.num_constraints());
    let constants = constants(problem);
    let (solver, reason) = match problem.structure().inf_projection().filter(|_| constraints == 0) {
        Some(pair) if !pair.smooth() => (SolverName::StSpg, Reason::Kinks),
        Some(_) if samples > MANY_SAMPLES => (SolverName::StSpg, Reason::ManySamples),
        Some(_) if variables > MANY_FOR_PAIRS => (SolverName::StSpg, Reason::ManyVariables),
        Some(_) if problem.domain().ball_around_origin().is_none() => (SolverName::StSpg, Reason::Domain),
        Some(_) => (SolverName::Lbfgs, Reason::SmoothObjective),
        None if has_few_equalities(problem, samples) => (SolverName::Sqp, Reason::Equalities),
        None => match constants {
            Constants::NoneOfObjective | Constants::NoneOfConstraint(_) => (SolverName::Ssg, Reason::NoConstant),
            _ if samples > MANY_SAMPLES => (SolverName::ThreesEcon, Reason::ManySamples),
            _ if variables > MANY_VARIABLES => (SolverName::Ssg, Reason::ManyVariables),
            _ if is_smooth(problem) => (SolverName::Sqp, Reason::SmoothFunctions),
            Constants::Estimated => (SolverName::Bundle, Reason::EstimatesStationarity),
            Constants::Known => (SolverName::Bundle, Reason::ProvesStationarity),
        },
    };
    let evidence = Evidence { variables, constraints, samples, constants, solver, reason, trials: None };
    Choice { config: first_config(solver), evidence }
}

/// Returns whether a problem has a smooth form over the whole space or a box.
fn is_smooth(problem: &dyn Subgradients) -> bool {
    problem.structure().smooth().is_some() && problem.domain().sides(0).is_some()
}

/// Returns whether a problem is small and deterministic, over the whole space or a box, with equality constraints.
fn has_few_equalities(problem: &dyn Subgradients, samples: u64) -> bool {
    let small = samples == 0 && problem.dim() <= FEW_VARIABLES;
    small && problem.structure().equalities() > 0 && problem.domain().sides(0).is_some()
}

fn constants(problem: &dyn Subgradients) -> Constants {
    let m = problem.num_constraints();
    if problem.objective_modulus().is_none() {
        return Constants::NoneOfObjective;
    }
    if let Some(j) = (0..m).find(|&j| problem.constraint_modulus(j).is_none()) {
        return Constants::NoneOfConstraint(problem.constraint_name(j).into());
    }
    let moduli = (0..m).map(|j| problem.constraint_modulus(j)).chain([problem.objective_modulus()]);
    let estimated = moduli.flatten().any(|modulus| modulus.source == Source::Estimated);
    if estimated { Constants::Estimated } else { Constants::Known }
}

/// Returns the initial settings of a chosen solver.
fn first_config(solver: SolverName) -> Config {
    match solver {
        SolverName::Ssg => Config::Ssg(switching(STEPS[0])),
        SolverName::StSpg => Config::StSpg(stagewise(GAMMAS[0], MUS[0])),
        SolverName::ThreesEcon => {
            Config::ThreesEcon(threes_econ::Settings { beta: threes_econ::Beta::Auto, ..threes_econ::Settings::default() })
        }
        other => other.config(),
    }
}

fn switching(eta: f64) -> ssg::Settings {
    ssg::Settings {
        eta: Schedule::Constant(eta),
        infeasible_step: ssg::InfeasibleStep::Polyak,
        output: ssg::Output::BestFeasible,
        ..ssg::Settings::default()
    }
}

fn stagewise(gamma: f64, mu: f64) -> st_spg::Settings {
    st_spg::Settings { gamma, mu, ..st_spg::Settings::default() }
}

/// Step sizes tried in pilot runs, and the length of these runs.
const STEPS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
const TRIAL: u64 = 100;
/// Proximal coefficients in x and in y tried in pilot runs, and the length of these runs in steps of one sample.
const GAMMAS: [f64; 5] = [10.0, 1.0, 0.1, 0.01, 0.001];
const MUS: [f64; 3] = [10.0, 1.0, 0.1];
const SAMPLE_TRIAL: u64 = 20_000;

/// Chooses a solver for a run with these options. Settings that the problem does not determine are chosen by pilot runs from
/// `start`, compared by [`Score`]. Pilot runs take at most half of a time limit; [`Work::leaves`] gives the run the rest.
pub fn prepare(problem: &dyn Subgradients, start: &[f64], options: &Options) -> Result<Choice> {
    let mut choice = choose(problem);
    let mut runs = BudgetedRuns::before(options);
    let trial = |iterations: u64| Options {
        seed: options.seed,
        feasibility: options.feasibility,
        threads: options.threads,
        record: Record::nothing(),
        ..Options::iterations(iterations)
    };
    let count = match choice.evidence.solver {
        SolverName::Ssg => {
            let pilot = Pilot::try_all(
                &mut runs,
                |runs| runs,
                STEPS,
                |runs, eta| {
                    let point = runs.run(problem, &mut Ssg::new(switching(eta))?, start, &trial(TRIAL), &mut ())?.point;
                    Ok(Some(Score::new(&point, point.feasible)))
                },
            )?;
            choice.config = Config::Ssg(switching(pilot.best().unwrap_or(STEPS[0])));
            pilot.trials()
        }
        SolverName::StSpg => {
            let candidates = GAMMAS.into_iter().flat_map(|gamma| MUS.map(|mu| (gamma, mu)));
            let pilot = Pilot::try_all(
                &mut runs,
                |runs| runs,
                candidates,
                |runs, (gamma, mu)| {
                    let mut solver = StSpg::new(stagewise(gamma, mu))?;
                    let outcome = runs.run(problem, &mut solver, start, &trial(SAMPLE_TRIAL), &mut ())?;
                    let failed = matches!(outcome.ended, StopReason::Failed { .. });
                    Ok((!failed).then(|| Score::new(&outcome.point, true)))
                },
            )?;
            let (gamma, mu) = pilot.best().unwrap_or((GAMMAS[0], MUS[0]));
            choice.config = Config::StSpg(stagewise(gamma, mu));
            pilot.trials()
        }
        _ => 0,
    };
    choice.evidence.trials = (count > 0).then(|| Trials { count, work: *runs.used() });
    Ok(choice)
}

impl Choice {
    /// Returns the work of the pilot runs, which a time limit also covers.
    pub fn work(&self) -> Work {
        self.evidence.trials.as_ref().map_or_else(Work::default, |trials| trials.work)
    }

    /// Returns the solver that continues if a run of the chosen one stalls, because the choice assumes what only a run can show:
    /// that the functions of a problem with equality constraints are smooth.
    pub fn fallback(&self) -> Option<Config> {
        (self.evidence.reason == Reason::Equalities).then(|| SolverName::Bundle.config())
    }
}

impl Evidence {
    /// Describes the problem in a sentence.
    pub fn problem(&self) -> String {
        let counted = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let samples = if self.samples == 0 { "no samples".into() } else { counted(self.samples, "sample") };
        format!(
            "the problem has {}, {} and {samples}; {}",
            counted(self.variables as u64, "variable"),
            counted(self.constraints as u64, "constraint"),
            self.constants
        )
    }

    /// States the reason for the choice in a sentence.
    pub fn decision(&self) -> String {
        let tuned = match (&self.trials, self.solver) {
            (Some(Trials { count, .. }), _) => format!(" with settings from {count} trial runs"),
            (None, SolverName::Ssg | SolverName::StSpg) => " with settings from trial runs".into(),
            (None, _) => String::new(),
        };
        let why = match (self.reason, self.solver) {
            (Reason::NoConstant, _) => "it needs no weak-convexity constant; it gives no bound on stationarity",
            (Reason::ManySamples, SolverName::Ssg) => {
                "a full evaluation is expensive, and training in rounds uses no mini-batches"
            }
            (Reason::ManySamples, _) => "a full evaluation is expensive, and it uses mini-batches",
            (Reason::ManyVariables, SolverName::StSpg) => "with so many variables, stored pairs of vectors would be too large",
            (Reason::ManyVariables, _) => "with so many variables, stored cuts would be too large",
            (Reason::ProvesStationarity, _) => "it needs no step size and proves how near its point is to stationarity",
            (Reason::EstimatesStationarity, _) => {
                "it needs no step size and estimates the constants; its bound on stationarity is then no proof"
            }
            (Reason::Kinks, _) => "the losses have kinks, where a method for smooth functions stalls",
            (Reason::Domain, _) => "the domain is neither the whole space nor a ball around 0",
            (Reason::SmoothFunctions, _) => {
                "all functions are smooth or maxima of smooth functions, and second derivatives are available"
            }
            (Reason::Equalities, _) => "equality constraints need smooth functions",
            (Reason::SmoothObjective, _) => "the objective is smooth and there are no constraints",
        };
        format!("chose {}{tuned}: {why}", self.solver)
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem(), self.decision())
    }
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constants::Known => f.write_str("every function has a weak-convexity constant"),
            Constants::Estimated => f.write_str("the weak-convexity constants are estimated during the run"),
            Constants::NoneOfObjective => f.write_str("the objective has no weak-convexity constant"),
            Constants::NoneOfConstraint(name) => write!(f, "constraint '{name}' has no weak-convexity constant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::oracle::Problem;
    use crate::run::{self, Budget};
    use crate::sets::Ball;

    /// Returns a problem without a weak-convexity constant, whose step size is chosen by pilot runs.
    fn problem() -> Problem {
        Problem::new(1).objective(|x| (x[0] - 1.0).abs(), |x, s| s[0] = (x[0] - 1.0).signum())
    }

    #[test]
    fn trials_are_counted_and_end_with_the_time_or_an_interrupt() {
        let options = Options::iterations(50);
        let free = prepare(&problem(), &[0.0], &options).unwrap();
        let trials = free.evidence.trials.as_ref().unwrap();
        assert_eq!((trials.count, trials.work.iterations), (STEPS.len() as u64, STEPS.len() as u64 * TRIAL));
        // Limits other than time apply to the run alone.
        assert_eq!(free.work().leaves(&options.budget), options.budget);

        let budget = Budget { seconds: Some(0.0), ..options.budget.clone() };
        let interrupt = Some(Arc::new(AtomicBool::new(true)));
        for options in [Options { budget, ..options.clone() }, Options { interrupt, ..options }] {
            let cut_short = prepare(&problem(), &[0.0], &options).unwrap();
            let trials = cut_short.evidence.trials.as_ref().unwrap();
            assert_eq!((trials.count, trials.work.iterations), (1, 0));
            assert_eq!(cut_short.config, Config::Ssg(switching(STEPS[0])));
        }
    }

    #[test]
    fn trials_and_run_share_a_time_limit() {
        // Every evaluation takes at least a millisecond: 600 iterations of the pilot runs would exceed the limit.
        let slow = Problem::new(1).objective(
            |x| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                x[0].abs()
            },
            |x, s| s[0] = x[0].signum(),
        );
        let limit = 0.1;
        let budget = Budget { seconds: Some(limit), ..Budget::default() };
        let options = Options { budget, record: Record::nothing(), ..Options::default() };
        let choice = prepare(&slow, &[1.0], &options).unwrap();
        let work = choice.work();
        assert!(work.seconds >= 0.5 * limit && work.iterations < STEPS.len() as u64 * TRIAL, "{work:?}");
        let left = Options { budget: work.leaves(&options.budget), ..options };
        let solver = &mut choice.config.build().unwrap();
        let outcome = run::minimize_with(&slow, solver, &[1.0], &left, &mut ()).unwrap();
        // The step that reaches a limit is the last one; on a busy machine a step can take long.
        assert!(outcome.iterations <= 100 - work.iterations, "{} after {work:?}", outcome.iterations);
    }

    #[test]
    fn equalities_of_few_variables_over_a_box_are_for_smooth_solvers() {
        let with_equality = |dim: usize| Problem::new(dim).equality("sum", |x| x.iter().sum::<f64>() - 1.0, |_, s| s.fill(1.0));
        let choice = choose(&with_equality(FEW_VARIABLES));
        assert_eq!((choice.config.clone(), choice.evidence.reason), (SolverName::Sqp.config(), Reason::Equalities));
        assert_eq!(choice.fallback(), Some(SolverName::Bundle.config()));
        assert_eq!(
            choice.evidence.to_string(),
            "the problem has 200 variables, 2 constraints and no samples; the objective has no weak-convexity constant; \
             chose sqp: equality constraints need smooth functions"
        );
        let ball = with_equality(2).domain(Ball::new(1.0).unwrap());
        for other in [with_equality(FEW_VARIABLES + 1), ball, problem()] {
            let choice = choose(&other);
            assert_eq!((choice.evidence.reason, choice.fallback()), (Reason::NoConstant, None));
        }
    }

    /// Descriptions of settings identify checkpoints of runs whose solver was chosen automatically.
    #[test]
    fn resolving_changes_nothing_in_what_is_chosen() {
        for solver in [SolverName::Bundle, SolverName::Ssg, SolverName::ThreesEcon, SolverName::Lbfgs, SolverName::StSpg] {
            let config = first_config(solver);
            assert_eq!(config.clone().resolve().unwrap(), config);
        }
    }
}
