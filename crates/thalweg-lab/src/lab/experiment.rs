//! An experiment file and the runs it describes. It is a spec of `thalweg solve` that may have several data sets,
//! problems and solvers, and lists for the settings of a solver. Each run is again a spec of `thalweg solve`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thalweg::assess::Measures;
use thalweg::suggest::did_you_mean_one_of;
use toml::{Table, Value};

use super::grid::expand;
use crate::data::catalogue;
use crate::data::shaped_like::ShapedLike;
use crate::data::source::read_file;
use crate::spec::settings;

use crate::{Error, Result};

/// Keys of an experiment, including those of [`Spec`].
const KEYS: [&str; 18] = [
    "name",
    "title",
    "about",
    "seed",
    "seeds",
    "threads",
    "feasibility",
    "repair",
    "certificate",
    "measure",
    "data",
    "problem",
    "solver",
    "budget",
    "record",
    "stop",
    "tune",
    "quick",
];
/// Keys of `[quick]` that replace, or for tables extend, those of the experiment.
const QUICK: [&str; 11] =
    ["seed", "seeds", "threads", "feasibility", "certificate", "measure", "budget", "record", "stop", "tune", "data"];
/// Keys of a data set or a solver that replace those of the experiment.
const OF_DATA: [&str; 4] = ["budget", "record", "stop", "certificate"];
const OF_SOLVER: [&str; 4] = ["budget", "record", "stop", "repair"];
/// Maximum number of runs of an experiment; a larger number is taken for a typing error.
pub(super) const MOST: usize = 100_000;

/// Experiment, checked as far as possible without data.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name in the store.
    pub name: String,
    /// Heading of its report.
    pub title: String,
    /// Description in one paragraph.
    pub about: String,
    /// File it was read from. Relative paths start at its directory.
    pub file: PathBuf,
    /// Text of the file.
    pub text: String,
    /// Data sets.
    pub data: Vec<NamedTable>,
    /// Problems on each data set.
    pub problems: Vec<NamedTable>,
    /// Solvers, each with its grid.
    pub solvers: Vec<Solver>,
    /// Random seeds of every selected cell.
    pub seeds: Vec<u64>,
    /// Number of threads of one run.
    pub threads: usize,
    /// How a cell is selected for each solver. Without it, all cells are selected.
    pub tune: Option<Tune>,
    /// Iterates of selected cells to certify afterwards.
    pub certified: Option<CertificateRequest>,
    /// Keys common to the specs of all runs.
    pub(super) common: Table,
}

/// Data set or problem.
#[derive(Debug, Clone)]
pub struct NamedTable {
    /// Label.
    pub label: String,
    /// Table in the spec of a run.
    pub table: Table,
    /// For data: the data set it stands in for, and why.
    pub stand_in: Option<String>,
    /// For data: tables that replace those of the experiment.
    pub(super) own: Table,
}

/// Solver with its grid.
#[derive(Debug, Clone)]
pub struct Solver {
    /// Label.
    pub label: String,
    /// Cells of the grid.
    pub cells: Vec<Cell>,
    /// Labels of the data sets that it runs on; all if `None`.
    pub(super) on: Option<Vec<String>>,
    /// Passes of objective and constraints per iteration, as counted in a publication.
    pub published: Option<[f64; 2]>,
    /// Tables that replace those of the experiment and of the data.
    pub(super) own: Table,
}

/// Passes of a method as counted in a publication, in the form written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Published {
    f: Option<f64>,
    g: Option<f64>,
    per: Option<f64>,
}

impl Published {
    /// Returns the passes of objective and constraints per iteration.
    fn rate(self) -> Result<[f64; 2]> {
        let per = self.per.unwrap_or(1.0);
        if !per.is_finite() || per <= 0.0 {
            return Err(Error::Request(format!("published.per must be a number of iterations above 0, got {per}")));
        }
        let rate = |key: &str, passes: Option<f64>| match passes {
            Some(v) if v.is_finite() && v >= 0.0 => Ok(v / per),
            Some(v) => Err(Error::Request(format!("published.{key} must be a number of passes, got {v}"))),
            None => {
                Err(Error::Request(format!("published has no '{key}'; expected f and g, passes of objective and constraints")))
            }
        };
        Ok([rate("f", self.f)?, rate("g", self.g)?])
    }
}

/// One combination of settings.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Settings that were written as lists: "eta = 0.001, tol = 1e-5".
    pub words: String,
    /// Table in the spec of a run.
    pub(super) table: Table,
}

/// How the cell of a solver is selected on a data set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// Criterion, compared by its median over seeds.
    #[serde(default)]
    pub by: By,
    /// Which cells qualify: those that satisfy the constraints (true), satisfy them up to a number, or all (false).
    #[serde(default)]
    pub feasible: FeasibilityRule,
    /// Where on the curve cells are compared; by default at its end.
    #[serde(default)]
    pub after: After,
    /// Seeds that every cell runs with; the selected cell then runs with the others too. All by default.
    pub seeds: Option<Seeds>,
    /// Limits of the pilot runs that compare cells, in place of the budget. The selected cell then runs with the full
    /// budget.
    pub budget: Option<Table>,
}

/// Criterion for selecting a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Objective at that iterate.
    #[default]
    Objective,
    /// Smallest objective of a feasible recorded iterate up to that iterate.
    BestFeasible,
    /// Largest constraint value at that iterate.
    Violation,
    /// Accuracy on the validation rows at that iterate; the largest is selected.
    Validation,
}

/// Feasibility required of the cells that qualify.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FeasibilityRule {
    /// Feasible by the tolerances of the run (true), or all cells (false).
    Required(bool),
    /// Largest constraint value at most this.
    Within(f64),
}

impl Default for FeasibilityRule {
    fn default() -> Self {
        FeasibilityRule::Required(true)
    }
}

/// Position on a curve: the last recorded iterate within all limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct After {
    /// Number of iterations.
    pub iterations: Option<u64>,
    /// Passes of objective and constraints together.
    pub passes: Option<f64>,
    /// Seconds.
    pub seconds: Option<f64>,
}

/// Random seeds: a list, or a count for 0, 1, 2, ….
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    /// Number of seeds, from 0.
    Count(u64),
    /// List of seeds.
    List(Vec<u64>),
}

impl Seeds {
    pub(super) fn list(&self, key: &str) -> Result<Vec<u64>> {
        let list = match self {
            Seeds::Count(n @ 1..=10_000) => (0..*n).collect(),
            Seeds::Count(n) => return Err(Error::Request(format!("{key} must be a number of seeds from 1 to 10000, got {n}"))),
            Seeds::List(list) => list.clone(),
        };
        let mut seen = HashSet::new();
        match list.iter().find(|seed| !seen.insert(**seed)) {
            Some(twice) => Err(Error::Request(format!("{key} has {twice} twice; expected different seeds"))),
            None if list.is_empty() => Err(Error::Request(format!("{key} must be at least one seed, got []"))),
            None => Ok(list),
        }
    }
}

/// Certificates at some iterates of selected cells.
#[derive(Debug, Clone, Copy)]
pub struct CertificateRequest {
    /// Number of iterates, evenly spaced from the first to the last.
    pub points: u64,
    /// Certificates to compute.
    pub how: Measures,
}

impl Experiment {
    /// Reads a file. With `quick`, the keys of `[quick]` replace those of the experiment.
    pub fn read(file: &Path, quick: bool) -> Result<Self> {
        let bytes = read_file(file)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::file(file, "is not text; expected TOML in UTF-8"))?;
        Experiment::parse(&text, file, quick)
    }

    /// Parses text; `file` is used in messages and for relative paths.
    pub fn parse(text: &str, file: &Path, quick: bool) -> Result<Self> {
        let mut table: Table = toml::from_str(text).map_err(|e| {
            let before = text.get(..e.span().map_or(0, |s| s.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let what = e.message().trim().replace('`', "'").replace('\n', ", ");
            Error::Line { file: file.display().to_string(), line, what }
        })?;
        let read = || -> Result<Self> {
            known("key", table.keys(), &KEYS)?;
            let shrink = table.remove("quick");
            let whole = table.clone();
            let values = if quick { shrunk(&mut table, shrink)? } else { usize::MAX };
            let mut experiment = Experiment::of(table, file, text, values)?;
            if quick {
                experiment.name += " (quick)";
                experiment.title += " (quick)";
            }
            // A solver may name data that the quick form omits.
            let all = entries(&mut whole.clone(), "data", data_label)?;
            experiment.check(&all)?;
            Ok(experiment)
        };
        read().map_err(|e| Error::file(file, e.to_string()))
    }

    fn of(mut table: Table, file: &Path, text: &str, values: usize) -> Result<Self> {
        let stem = file.file_stem().map_or("experiment".into(), |s| s.to_string_lossy().into_owned());
        let name = words(&mut table, "name")?.unwrap_or(stem);
        if name.trim().is_empty() {
            return Err(Error::Request("name must be a name for the experiment, got \"\"".into()));
        }
        let title = words(&mut table, "title")?.unwrap_or_else(|| name.clone());
        let about = words(&mut table, "about")?.unwrap_or_default();
        let data = entries(&mut table, "data", data_label)?;
        let problems = entries(&mut table, "problem", |_| Some(String::new()))?;
        let solvers = solvers(&mut table, values)?;
        let seed: Option<Seeds> = take(&mut table, "seed")?.map(|s: u64| Seeds::List(vec![s]));
        let seeds: Option<Seeds> = take(&mut table, "seeds")?;
        let seeds = match (seed, seeds) {
            (Some(_), Some(_)) => return Err(Error::Request("there are seed and seeds; expected one of them".into())),
            (Some(one), None) => one.list("seed")?,
            (None, several) => several.unwrap_or(Seeds::Count(1)).list("seeds")?,
        };
        let threads = take(&mut table, "threads")?.unwrap_or(1);
        let tune: Option<Tune> = match table.remove("tune") {
            None => None,
            Some(Value::Table(tune)) => Some(settings(tune).map_err(|e| Error::Request(format!("{e} (in [tune])")))?),
            Some(other) => return Err(Error::Request(format!("tune must be a table, got {other}"))),
        };
        let points = points(&mut table)?;
        let mut experiment = Experiment {
            name,
            title,
            about,
            file: file.into(),
            text: text.into(),
            data,
            problems,
            solvers,
            seeds,
            threads,
            tune,
            certified: None,
            common: table,
        };
        if let Some(points) = points {
            // The measures are parsed as part of a spec and then removed from the runs, which are certified afterwards.
            let how = experiment.run(0, 0, 0, 0, 0)?.spec.certificate()?;
            if how.is_empty() {
                return Err(Error::Request(format!(
                    "certificate.points = {points} needs bounds, switching or penalised beside it"
                )));
            }
            experiment.common.remove("certificate");
            experiment.certified = Some(CertificateRequest { points, how });
        }
        Ok(experiment)
    }

    /// Checks everything that does not need the data. `all` are the data sets of the full form.
    fn check(&self, all: &[NamedTable]) -> Result<()> {
        for solver in &self.solvers {
            for label in solver.on.iter().flatten() {
                if !all.iter().any(|d| d.label == *label) {
                    let labels: Vec<&str> = all.iter().map(|d| d.label.as_str()).collect();
                    let hint = did_you_mean_one_of(label, &labels);
                    let what = format!("solver '{}' is for unknown data '{label}'{hint}", solver.label);
                    return Err(Error::Request(what));
                }
            }
        }
        if self.threads == 0 {
            return Err(Error::Request("threads must be at least 1, got 0".into()));
        }
        if let Some(FeasibilityRule::Within(v)) = self.tune.as_ref().map(|t| t.feasible)
            && !v.is_finite()
        {
            return Err(Error::Request(format!("tune.feasible must be true, false or a finite number, got {v}")));
        }
        self.check_validation()?;
        for seed in self.tuning_seeds()? {
            if !self.seeds.contains(&seed) {
                return Err(Error::Request(format!("tune.seeds has {seed}; expected some of the seeds of the experiment")));
            }
        }
        let count = self.data.len() * self.problems.len() * self.seeds.len();
        let count = self.solvers.iter().map(|s| s.cells.len()).sum::<usize>().saturating_mul(count);
        if count > MOST {
            return Err(Error::Request(format!("there are {count} runs; expected at most {MOST}")));
        }
        // One run of each cell is enough, since data, problem and seed are checked with their own tables.
        for (s, solver) in self.solvers.iter().enumerate() {
            for (c, cell) in solver.cells.iter().enumerate() {
                let at = if cell.words.is_empty() { String::new() } else { format!(" ({})", cell.words) };
                let say = |e: Error| Error::Request(format!("solver '{}'{at}: {e}", solver.label));
                self.run(0, 0, s, c, self.seeds[0]).and_then(|job| job.spec.check()).map_err(say)?;
            }
            let wrong = |e: Error| Error::Request(format!("tune.budget: {e}"));
            if self.tune.as_ref().is_some_and(|tune| tune.budget.is_some()) {
                self.trial(0, 0, s, 0, self.seeds[0]).and_then(|job| job.spec.check()).map_err(wrong)?;
            }
        }
        for (d, data) in self.data.iter().enumerate() {
            for p in 0..self.problems.len() {
                let job = self.run(d, p, 0, 0, self.seeds[0])?;
                if !data.own.is_empty() {
                    job.spec.check().map_err(|e| Error::Request(format!("data '{}': {e}", data.label)))?;
                }
            }
        }
        Ok(())
    }

    /// Checks that validation rows exist, and that accuracy on them is measured, where cells are selected by it.
    fn check_validation(&self) -> Result<()> {
        if !self.tune.as_ref().is_some_and(|tune| tune.by == By::Validation) {
            return Ok(());
        }
        for (d, data) in self.data.iter().enumerate() {
            let spec = self.run(d, 0, 0, 0, self.seeds[0])?.spec;
            if !spec.data.validation_fraction.is_some_and(|share| share > 0.0) {
                let label = &data.label;
                let what =
                    format!("tune.by must be validation_fraction, got \"validation\", but data '{label}' has no validation rows");
                return Err(Error::Request(what));
            }
            if spec.measure.as_ref().is_some_and(|list| !list.iter().any(|word| word.trim() == "accuracy")) {
                let what = "tune.by must be \"accuracy\" among it, got \"validation\", but measure does not have it";
                return Err(Error::Request(what.into()));
            }
        }
        Ok(())
    }
}

/// Rejects unknown keys.
fn known<'a>(what: &str, keys: impl Iterator<Item = &'a String>, list: &[&str]) -> Result<()> {
    for key in keys {
        if !list.contains(&key.as_str()) {
            return Err(Error::Request(format!("unknown {what} '{key}'{}", did_you_mean_one_of(key, list))));
        }
    }
    Ok(())
}

/// Removes a key from a table and deserialises its value.
fn take<T: DeserializeOwned>(table: &mut Table, key: &str) -> Result<Option<T>> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let shown = value.to_string();
    value.try_into().map(Some).map_err(|_| {
        let wanted = match key {
            "seeds" => "a number of seeds or a list of them",
            _ => "a whole number of at least 0",
        };
        Error::Request(format!("{key} must be {wanted}, got {shown}"))
    })
}

/// Removes a string from a table.
fn words(table: &mut Table, key: &str) -> Result<Option<String>> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Error::Request(format!("{key} must be text in quotes, got {other}"))),
    }
}

/// Removes a table or a list of tables.
fn tables(table: &mut Table, key: &str) -> Result<Vec<Table>> {
    let tables = match table.remove(key) {
        Some(Value::Table(one)) => vec![one],
        Some(Value::Array(list)) if !list.is_empty() => list
            .into_iter()
            .map(|value| match value {
                Value::Table(one) => Ok(one),
                other => Err(Error::Request(format!("{key} has {other}; expected tables [[{key}]]"))),
            })
            .collect::<Result<_>>()?,
        Some(other) => return Err(Error::Request(format!("{key} must be a table [{key}], or several [[{key}]], got {other}"))),
        None => return Err(Error::Request(format!("the table [{key}] is missing; expected one, or several [[{key}]]"))),
    };
    Ok(tables)
}

/// Rejects duplicate labels.
fn distinct<'a>(what: &str, labels: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = HashSet::new();
    for label in labels {
        if !seen.insert(label) {
            let name = if label.is_empty() { "have no label".into() } else { format!("are called '{label}'") };
            return Err(Error::Request(format!("two of [[{what}]] {name}; expected a label of its own for each")));
        }
    }
    Ok(())
}

/// Returns the default label of data.
fn data_label(table: &Table) -> Option<String> {
    if let Some(shape) = table.get("shaped_like").and_then(|value| value.clone().try_into::<ShapedLike>().ok()) {
        return Some(catalogue::called("", Some(shape.like.shape().title)));
    }
    let named = table.get("name").or(table.get("file")).and_then(Value::as_str);
    named.map(|s| Path::new(s).file_name().map_or(s.into(), |f| f.to_string_lossy().into_owned()))
}

/// Removes the tables that replace those of the experiment.
fn own(table: &mut Table, keys: &[&str]) -> Table {
    keys.iter().filter_map(|key| Some((key.to_string(), table.remove(*key)?))).collect()
}

fn entries(table: &mut Table, key: &str, usual: impl Fn(&Table) -> Option<String>) -> Result<Vec<NamedTable>> {
    let mut found = vec![];
    for mut table in tables(table, key)? {
        let label = words(&mut table, "label")?.or_else(|| usual(&table)).unwrap_or_default();
        let data = key == "data";
        let stand_in = if data { words(&mut table, "stand_in")? } else { None };
        let own = if data { own(&mut table, &OF_DATA) } else { Table::new() };
        found.push(NamedTable { label, table, stand_in, own });
    }
    distinct(key, found.iter().map(|entry| &entry.label))?;
    Ok(found)
}

fn solvers(table: &mut Table, values: usize) -> Result<Vec<Solver>> {
    let mut found = vec![];
    for mut table in tables(table, "solver")? {
        let name = table.get("name").and_then(Value::as_str).unwrap_or("solver").to_string();
        let label = words(&mut table, "label")?.unwrap_or(name);
        let on: Option<Vec<String>> = match table.remove("on") {
            None => None,
            Some(Value::String(one)) => Some(vec![one]),
            Some(list) => Some(
                list.clone()
                    .try_into()
                    .map_err(|_| Error::Request(format!("solver '{label}': on must be labels of data sets, got {list}")))?,
            ),
        };
        let own = own(&mut table, &OF_SOLVER);
        let published = match table.remove("published") {
            None => None,
            Some(Value::Table(given)) => {
                let rate = settings::<Published>(given).and_then(Published::rate);
                Some(rate.map_err(|e| Error::Request(format!("solver '{label}': {e}")))?)
            }
            Some(other) => {
                let what = format!("solver '{label}': published must be a table such as {{ f = 1, g = 2 }}, got {other}");
                return Err(Error::Request(what));
            }
        };
        // The name is not a setting: a list there is rejected later.
        let name = table.remove("name");
        let cells = expand(&Value::Table(table), "", values)
            .map_err(|e| Error::Request(format!("solver '{label}': {e}")))?
            .into_iter()
            .map(|(value, words)| {
                let mut table = match value {
                    Value::Table(table) => table,
                    _ => Table::new(),
                };
                table.extend(name.clone().map(|name| ("name".into(), name)));
                Cell { words: words.join(", "), table }
            })
            .collect();
        found.push(Solver { label, cells, on, published, own });
    }
    // Two entries with one label are one solver with different settings on different data sets, so their data sets must
    // not overlap.
    for (i, one) in found.iter().enumerate() {
        let apart = |other: &Solver| match (&one.on, &other.on) {
            (Some(a), Some(b)) => !a.iter().any(|label| b.contains(label)),
            _ => false,
        };
        if found[..i].iter().any(|other| other.label == one.label && !apart(other)) {
            let what = format!(
                "two of [[solver]] are called '{}'; expected a label of its own for each, or different data in 'on'",
                one.label
            );
            return Err(Error::Request(what));
        }
    }
    Ok(found)
}

/// Applies `[quick]`; returns how many values of each list are used.
fn shrunk(table: &mut Table, quick: Option<Value>) -> Result<usize> {
    let mut quick = match quick {
        Some(Value::Table(quick)) => quick,
        Some(other) => return Err(Error::Request(format!("quick must be a table [quick], got {other}"))),
        None => return Err(Error::Request("--quick: the experiment has no table [quick], which says how to shrink it".into())),
    };
    let values = match quick.remove("values") {
        None => usize::MAX,
        Some(Value::Integer(n)) if n >= 1 => n as usize,
        Some(other) => return Err(Error::Request(format!("quick.values must be a whole number of at least 1, got {other}"))),
    };
    let listed: Vec<&str> = QUICK.iter().copied().chain(["values"]).collect();
    known("key of [quick]", quick.keys(), &listed)?;
    // `seed` and `seeds` replace each other.
    if quick.contains_key("seed") || quick.contains_key("seeds") {
        table.remove("seed");
        table.remove("seeds");
    }
    if let Some(data) = quick.remove("data") {
        let wanted: Vec<String> =
            data.clone().try_into().map_err(|_| Error::Request(format!("quick.data must be labels of data sets, got {data}")))?;
        keep_data(table, &wanted)?;
    }
    // A limit in `[quick]` applies to all data and solvers, including those with tables of their own.
    for of in ["data", "solver"] {
        let all: Vec<&mut Table> = match table.get_mut(of) {
            Some(Value::Table(one)) => vec![one],
            Some(Value::Array(list)) => list.iter_mut().filter_map(Value::as_table_mut).collect(),
            _ => vec![],
        };
        for own in all {
            own.retain(|key, _| !(OF_SOLVER.contains(&key) && quick.contains_key(key)));
        }
    }
    for (key, value) in quick {
        match (table.get_mut(&key), value) {
            // Budget and record are replaced as a whole, since a mixture of two would match neither.
            (Some(Value::Table(old)), Value::Table(new)) if key == "tune" || key == "certificate" => old.extend(new),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
    Ok(values)
}

/// Keeps only the data sets with these labels.
fn keep_data(table: &mut Table, wanted: &[String]) -> Result<()> {
    let all = tables(table, "data")?;
    let label = |t: &Table| t.get("label").and_then(Value::as_str).map(String::from).or(data_label(t)).unwrap_or_default();
    let kept: Vec<Value> = all.iter().filter(|t| wanted.contains(&label(t))).cloned().map(Value::Table).collect();
    if let Some(absent) = wanted.iter().find(|w| !all.iter().any(|t| label(t) == **w)) {
        return Err(Error::Request(format!("quick.data has '{absent}'; expected labels of data sets")));
    }
    table.insert("data".into(), Value::Array(kept));
    Ok(())
}

/// Removes `points` from the certificate.
fn points(table: &mut Table) -> Result<Option<u64>> {
    let Some(Value::Table(certificate)) = table.get_mut("certificate") else { return Ok(None) };
    match certificate.remove("points") {
        None => Ok(None),
        Some(Value::Integer(n)) if n >= 1 => Ok(Some(n as u64)),
        Some(other) => Err(Error::Request(format!("certificate.points must be a whole number of at least 1, got {other}"))),
    }
}
