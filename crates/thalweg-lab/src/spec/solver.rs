//! The `[solver]` table.

use thalweg::solvers::auto;
use thalweg::solvers::ipp::{self, Inner};
use thalweg::solvers::{
    Accszofw, Acczomda, Adaprox, AnySolver, Bmd, Bundle, Conex, Dszog, Ipp, Lbfgs, Mspg, Pgsmd, Spg, Ssg, StSpg, ThreesEcon,
    Zopsgd, Zoscgd, accszofw, acczomda, adaprox, bmd, bundle, conex, dszog, lbfgs, mspg, pd, pgsmd, spg, ssg, st_spg,
    threes_econ, zopsgd, zoscgd,
};
use thalweg::suggest::did_you_mean;
use toml::Value;

use super::messages::{settings, wrong};
use super::schema::Spec;
use crate::{Error, Result};

impl Spec {
    /// Version of the solver's code; that of the rule where the solver is to be chosen.
    pub(crate) fn solver_version(&self) -> Result<u32> {
        Ok(self.solver()?.map_or(auto::VERSION, |(solver, _)| solver.method().version()))
    }

    /// As [`solver`], of the table `[solver]`.
    pub(crate) fn solver(&self) -> Result<Option<(AnySolver, String)>> {
        solver(self.solver.clone())
    }
}

/// What a message about the inner solver ends with.
pub(super) const IN_INNER: &str = "(in [solver.inner])";

/// Takes the name out of a solver's table.
fn solver_name(table: &mut toml::Table, what: &str, known: &[&str]) -> Result<String> {
    match table.remove("name") {
        Some(Value::String(name)) => Ok(name),
        Some(other) => Err(Error::Request(format!("{what} name must be a name in quotes, got {other}"))),
        None => Err(Error::Request(format!("the {what} has no name; expected name = one of {}", known.join(", ")))),
    }
}

fn unknown_solver(name: &str, what: &str, known: &[&str]) -> Error {
    let hint = did_you_mean(name, known.iter().copied());
    Error::Request(format!("{what} '{name}' is not known{hint}; expected one of {}", known.join(", ")))
}

/// The solver of a table with its `name` and its settings, which are checked, and those settings in words; none for "auto", which
/// is to be chosen once there is a problem.
pub fn solver(mut table: toml::Table) -> Result<Option<(AnySolver, String)>> {
    const KNOWN: &[&str] = &[
        "ssg",
        "conex",
        "ipp",
        "threes-econ",
        "bundle",
        "adaprox",
        "lbfgs",
        "st-spg",
        "mspg",
        "spg",
        "bmd",
        "pgsmd",
        "dszog",
        "zopsgd",
        "zoscgd",
        "acczomda",
        "accszofw",
        "auto",
    ];
    let name = solver_name(&mut table, "solver", KNOWN)?;
    /// A solver with its settings in words. Settings of different solvers share no type.
    macro_rules! built {
        ($kind:ident, $solver:ident, $settings:expr) => {{
            let settings = $settings;
            let words = format!("{:?}", settings.clone().resolve()?);
            (AnySolver::$kind(Box::new($solver::new(settings)?)), words)
        }};
    }
    let (solver, words) = match name.as_str() {
        "auto" => {
            if let Some((key, value)) = table.iter().next() {
                return Err(wrong(key, value, "no setting, because the solver is chosen: name one to set it"));
            }
            return Ok(None);
        }
        "ssg" => built!(First, Ssg, settings::<ssg::Settings>(table)?),
        "bundle" => built!(First, Bundle, settings::<bundle::Settings>(table)?),
        "threes-econ" => built!(First, ThreesEcon, settings::<threes_econ::Settings>(table)?),
        "conex" => built!(First, Conex, settings::<conex::Settings>(table)?),
        "ipp" => {
            let inner = inner_solver(inner_table(&mut table)?)?;
            built!(First, Ipp, ipp::Settings { inner, ..settings(table)? })
        }
        "adaprox" => built!(First, Adaprox, adaprox_settings(table)?),
        "lbfgs" => built!(First, Lbfgs, settings::<lbfgs::Settings>(table)?),
        "st-spg" => built!(First, StSpg, settings::<st_spg::Settings>(table)?),
        "mspg" => built!(First, Mspg, settings::<mspg::Settings>(table)?),
        "spg" => built!(First, Spg, settings::<spg::Settings>(table)?),
        "bmd" => built!(First, Bmd, settings::<bmd::Settings>(table)?),
        "pgsmd" => built!(First, Pgsmd, settings::<pgsmd::Settings>(table)?),
        "dszog" => built!(Zeroth, Dszog, settings::<dszog::Settings>(table)?),
        "zopsgd" => built!(Zeroth, Zopsgd, settings::<zopsgd::Settings>(table)?),
        "zoscgd" => built!(Zeroth, Zoscgd, settings::<zoscgd::Settings>(table)?),
        "acczomda" => built!(Zeroth, Acczomda, settings::<acczomda::Settings>(table)?),
        "accszofw" => built!(Zeroth, Accszofw, settings::<accszofw::Settings>(table)?),
        other => return Err(unknown_solver(other, "solver", KNOWN)),
    };
    Ok(Some((solver, words)))
}

/// The table of the inner solver.
fn inner_table(table: &mut toml::Table) -> Result<toml::Table> {
    match table.remove("inner") {
        Some(Value::Table(inner)) => Ok(inner),
        Some(other) => Err(wrong("inner", &other, "a table with the name of a solver and its settings")),
        None => Err(Error::Request("the table [solver.inner] is missing; expected one with the name of a solver".into())),
    }
}

/// Settings of AdaProx, with those of its inner solver.
pub fn adaprox_settings(mut table: toml::Table) -> Result<adaprox::Settings> {
    let what = "inner solver";
    let mut inner = inner_table(&mut table)?;
    let mut read = || {
        let name = solver_name(&mut inner, what, adaprox::Inner::NAMES)?;
        match name.as_str() {
            "sg" => Ok(adaprox::Inner::Sg(settings(inner.clone())?)),
            "pd" => Ok(adaprox::Inner::Pd(settings::<pd::Settings>(inner.clone())?.resolve()?)),
            other => Err(unknown_solver(other, what, adaprox::Inner::NAMES)),
        }
    };
    let inner = read().map_err(|e: Error| Error::Request(format!("{e} {IN_INNER}")))?;
    Ok(adaprox::Settings { inner, ..settings(table)? })
}

/// The solver of subproblems, from its table. It is checked here and not only with everything else, so that messages name
/// the table.
fn inner_solver(mut table: toml::Table) -> Result<Inner> {
    let what = "inner solver";
    let mut read = || {
        let name = solver_name(&mut table, what, Inner::NAMES)?;
        if let Some(output) = table.remove("output") {
            return Err(wrong("output", &output, "no such key here, but inner_output in [solver]"));
        }
        match name.as_str() {
            "ssg" => Ok(Inner::Ssg(settings::<ssg::Settings>(table.clone())?.resolve()?)),
            "conex" => Ok(Inner::Conex(settings::<conex::Settings>(table.clone())?.resolve()?)),
            "bundle" => Ok(Inner::Bundle(settings::<bundle::Settings>(table.clone())?.resolve()?)),
            other => Err(unknown_solver(other, what, Inner::NAMES)),
        }
    };
    read().map_err(|e: Error| Error::Request(format!("{e} {IN_INNER}")))
}
