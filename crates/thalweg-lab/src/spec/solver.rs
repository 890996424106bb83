//! The table `[solver]` of a spec: reads it into a configuration of the registry, with a message for each wrong key. The
//! solvers are listed in [`thalweg::solvers::registry`].

use thalweg::Note;
use thalweg::auto::{self, Choice, Work};
use thalweg::oracle::Description;
use thalweg::run::{MAX_LISTED_CONSTRAINTS, Options};
use thalweg::solvers::{AnySolver, Config, Interface, SolverName, registry};
use thalweg::suggest::did_you_mean_one_of;
use toml::Value;

use super::messages::{TableError, read_settings, wrong};
use super::schema::Spec;
use crate::job::Problem;
use crate::{Error, Result};

impl Spec {
    /// Returns the version of the solver's code, or of the selection rule for "auto".
    pub(crate) fn solver_version(&self) -> Result<u32> {
        self.solver()?.map_or(Ok(auto::VERSION), |config| Ok(config.version()?))
    }

    /// Returns the solver of the table `[solver]`; `None` for "auto".
    pub(crate) fn solver(&self) -> Result<Option<Config>> {
        config(self.solver.clone())
    }

    /// Builds the solver, and chooses it first if none is named. Pilot runs respect the time limit and the interrupt of the
    /// options.
    pub(crate) fn prepare_solver(&self, problem: &Problem, start: &[f64], options: &Options) -> Result<PreparedSolver> {
        let (config, mut relaxed, notes, work) = match (self.solver()?, problem) {
            (Some(config), _) => (config, None, vec![], Work::default()),
            (None, Problem::Bilevel(posed)) => {
                let tuning = posed.choose(options)?;
                let (within, notes, work) = (tuning.within, tuning.reasons(), tuning.work);
                (Config::Adaprox(tuning.settings), Some(within), notes, work)
            }
            (None, Problem::Many(many)) if many.num_constraints() > MAX_LISTED_CONSTRAINTS => {
                return Err(Error::Request(format!(
                    "auto chooses among solvers that evaluate every constraint in every step, and this problem has {}; expected the \
                     name of a solver, such as {}, which draws constraints",
                    many.num_constraints(),
                    SolverName::Dszog
                )));
            }
            (None, _) => {
                let choice = auto::prepare(problem.oracle(), start, options)?;
                let (notes, work) = (reasons(&choice), choice.work());
                (choice.config, None, notes, work)
            }
        };
        if let (Problem::Bilevel(_), Config::Adaprox(settings)) = (problem, &config) {
            relaxed = relaxed.or(Some(settings.feasibility()));
        }
        Ok(PreparedSolver { solver: config.build()?, settings: config.describe()?, relaxed, notes, work })
    }
}

/// Solver that is ready to run.
pub(crate) struct PreparedSolver {
    pub(crate) solver: AnySolver,
    /// Description of the settings. A checkpoint written with different settings is rejected.
    pub(crate) settings: String,
    /// Relaxation of the rows of a bilevel problem.
    pub(crate) relaxed: Option<f64>,
    /// Notes about the choice of the solver.
    pub(crate) notes: Vec<Note>,
    /// Work of pilot runs, which counts towards the time limit.
    pub(crate) work: Work,
}

/// Explains the choice of a solver, and what to write into `[solver]` to repeat the run.
fn reasons(choice: &Choice) -> Vec<Note> {
    explain(choice, &choice.config.name().config(), None)
}

/// Explains the choice of a solver, and lists the settings that differ from those of `usual`, which is the same solver.
pub(crate) fn explain(choice: &Choice, usual: &Config, seed: Option<u64>) -> Vec<Note> {
    let settings = changes(&choice.config, usual).into_iter().map(|(key, value)| (key, value.to_string())).collect();
    let evidence = || Box::new(choice.evidence.clone());
    vec![
        Note::ChoiceProblem { evidence: evidence() },
        Note::SolverChosen { evidence: evidence() },
        Note::Repeat { solver: choice.config.name(), settings, seed },
    ]
}

/// Returns the settings of a solver that differ from those of `usual`, which is the same solver.
pub fn changes(config: &Config, usual: &Config) -> toml::Table {
    let table = |config: &Config| toml::Table::try_from(config).unwrap_or_default();
    let usual = table(usual);
    table(config).into_iter().filter(|(key, value)| usual.get(key) != Some(value)).collect()
}

/// Lists the names that `interface` accepts, "auto" last.
pub fn names(interface: Interface) -> Vec<&'static str> {
    registry::offered_by(interface).into_iter().chain([auto::NAME]).collect()
}

/// Reads and checks a table with the `name` of a solver and its settings. Returns `None` for "auto", which has no settings: the
/// solver is chosen when the problem is available.
pub fn config(table: toml::Table) -> Result<Option<Config>> {
    Ok(read(table)?)
}

/// Does the work of [`config`]; errors name the key.
pub(super) fn read(mut table: toml::Table) -> Result<Option<Config>, TableError> {
    let known = names(Interface::Solve);
    let name = take_name(&mut table, "solver", &known)?;
    if name != auto::NAME {
        let solver = known_name(&name, "solver", &known).map_err(|e| TableError::at("name", e))?;
        return read_named(solver, table).map(Some);
    }
    match table.iter().next() {
        None => Ok(None),
        Some((key, value)) => {
            let error = wrong(key, value, "no setting, because the solver is chosen: name one to set it");
            Err(TableError::at(key.clone(), error))
        }
    }
}

/// Reads and checks a table with the settings of the named solver.
pub fn named(name: SolverName, table: toml::Table) -> Result<Config> {
    Ok(read_named(name, table)?)
}

fn read_named(name: SolverName, table: toml::Table) -> Result<Config, TableError> {
    if let Some(known) = name.inner() {
        let inner = match table.get("inner").cloned() {
            Some(Value::Table(inner)) => inner,
            Some(other) => {
                let error = wrong("inner", &other, "a table with the name of a solver and its settings");
                return Err(TableError::at("inner", error));
            }
            None => {
                let missing = "the table [solver.inner] is missing; expected one with the name of a solver";
                return Err(Error::Request(missing.into()).into());
            }
        };
        // Checked separately, so that messages name the table.
        check_inner(name, inner, &known).map_err(|wrong| {
            let error = Error::Request(format!("{} (in [solver.inner])", wrong.error));
            TableError { key: wrong.key, inner: true, error: Box::new(error) }
        })?;
    }
    let config = read_settings(table, |table| name.deserialize_settings(Value::Table(table)))?;
    config.build()?;
    Ok(config)
}

/// Checks the table of an inner solver.
fn check_inner(outer: SolverName, mut inner: toml::Table, known: &[&str]) -> Result<(), TableError> {
    let name = take_name(&mut inner, "inner solver", known)?;
    if let (SolverName::Ipp, Some(output)) = (outer, inner.get("output")) {
        let error = Error::Request(format!("output is called inner_output and belongs to [solver], got {output}"));
        return Err(TableError::at("output", error));
    }
    if !known.contains(&name.as_str()) {
        return Err(TableError::at("name", unknown(&name, "inner solver", known)));
    }
    let config = read_settings(inner, |mut inner| {
        inner.insert("name".into(), name.clone().into());
        let table = toml::Table::from_iter([("inner".to_string(), Value::Table(inner))]);
        outer.deserialize_settings(Value::Table(table))
    })?;
    // All other settings have their defaults, so an error is about a setting of the inner solver.
    config.resolve()?;
    Ok(())
}

/// Removes the name from a solver's table.
fn take_name(table: &mut toml::Table, what: &str, known: &[&str]) -> Result<String, TableError> {
    match table.remove("name") {
        Some(Value::String(name)) => Ok(name),
        Some(other) => {
            let error = Error::Request(format!("{what} name must be a name in quotes, got {other}"));
            Err(TableError::at("name", error))
        }
        None => Err(Error::Request(format!("the {what} has no name; expected name = one of {}", known.join(", "))).into()),
    }
}

/// Returns the solver called `name`, which must be in `known`.
pub(crate) fn known_name(name: &str, what: &str, known: &[&str]) -> Result<SolverName> {
    if known.contains(&name) { name.parse().map_err(Error::from) } else { Err(unknown(name, what, known)) }
}

fn unknown(name: &str, what: &str, known: &[&str]) -> Error {
    Error::Request(format!("unknown {what} '{name}'{}", did_you_mean_one_of(name, known)))
}
