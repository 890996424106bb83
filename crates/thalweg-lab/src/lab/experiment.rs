//! An experiment as it is written, and the runs that it stands for. It is a spec of `thalweg solve` in which data, problem and
//! solver may be several, and any setting of a solver a list; each run is such a spec again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thalweg::assess::Measures;
use thalweg::suggest::did_you_mean;
use toml::{Table, Value};

use super::grid::expand;
use crate::data::catalogue;
use crate::data::shaped_like::ShapedLike;
use crate::spec::settings;

use crate::{Error, Result};

/// Keys of an experiment, those of [`Spec`] among them.
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
/// Keys with which a data set, and a solver, replaces those of the experiment.
const OF_DATA: [&str; 4] = ["budget", "record", "stop", "certificate"];
const OF_SOLVER: [&str; 4] = ["budget", "record", "stop", "repair"];
/// The most runs of an experiment; more are a slip of the pen.
pub(super) const MOST: usize = 100_000;

/// An experiment, checked as far as that is possible without data.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What the store calls it.
    pub name: String,
    /// Heading of its report.
    pub title: String,
    /// What it is about, in a paragraph.
    pub about: String,
    /// Where it came from: relative paths start there.
    pub file: PathBuf,
    /// As it was written.
    pub text: String,
    /// The data sets.
    pub data: Vec<Named>,
    /// The problems on each of them.
    pub problems: Vec<Named>,
    /// The solvers, each with its grid.
    pub solvers: Vec<Solver>,
    /// The seeds of every cell that is kept.
    pub seeds: Vec<u64>,
    /// Threads of one run.
    pub threads: usize,
    /// How a cell is chosen for each solver; without it all are kept.
    pub tune: Option<Tune>,
    /// Iterates of kept cells that are certified afterwards.
    pub certified: Option<Certified>,
    /// Keys of every run's spec.
    pub(super) common: Table,
}

/// A data set or a problem.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its label.
    pub label: String,
    /// Its table in the spec of a run.
    pub table: Table,
    /// For data: what they stand in for, and why.
    pub stand_in: Option<String>,
    /// For data: tables that replace those of the experiment.
    pub(super) own: Table,
}

/// A solver with its grid.
#[derive(Debug, Clone)]
pub struct Solver {
    /// Its label.
    pub label: String,
    /// The cells of the grid.
    pub cells: Vec<Cell>,
    /// Labels of the data sets that it runs on; all if none are given.
    pub(super) on: Option<Vec<String>>,
    /// Passes of objective and constraints per iteration as a publication counts them.
    pub published: Option<[f64; 2]>,
    /// Tables that replace those of the experiment and of the data.
    pub(super) own: Table,
}

/// How a publication counts the passes of its method, as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Published {
    f: Option<f64>,
    g: Option<f64>,
    per: Option<f64>,
}

impl Published {
    /// Passes of objective and constraints per iteration.
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

/// One choice of settings.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The settings that were written as lists: "eta = 0.001, tol = 1e-5".
    pub words: String,
    /// Its table in the spec of a run.
    pub(super) table: Table,
}

/// How the cell of a solver is chosen on a data set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// What is to be smallest, in the median over seeds.
    #[serde(default)]
    pub by: By,
    /// Which cells compete: those that keep the constraints (true), keep them within a number, or all (false).
    #[serde(default)]
    pub feasible: FeasibilityRule,
    /// Where on the curve it is looked at; by default at its end.
    #[serde(default)]
    pub after: After,
    /// Seeds that every cell runs with; the chosen one then runs with the others too. By default all.
    pub seeds: Option<Seeds>,
    /// Limits of the trial runs that cells are compared by, in place of the budget; the chosen one then runs with the budget.
    pub budget: Option<Table>,
}

/// What a cell is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The objective at that iterate.
    #[default]
    Objective,
    /// The smallest objective of a feasible recorded iterate up to there.
    BestFeasible,
    /// The largest constraint at that iterate.
    Violation,
    /// The accuracy on the validation rows at that iterate, the largest.
    Validation,
}

/// Which cells compete.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum FeasibilityRule {
    /// By the tolerances of the run, or not at all.
    Required(bool),
    /// The largest constraint is at most this.
    Within(f64),
}

impl Default for FeasibilityRule {
    fn default() -> Self {
        FeasibilityRule::Required(true)
    }
}

/// A place on a curve: the last recorded iterate that is within all limits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct After {
    /// Steps.
    pub iterations: Option<u64>,
    /// Passes of objective and constraints together.
    pub passes: Option<f64>,
    /// Time.
    pub seconds: Option<f64>,
}

/// Seeds: a list, or a number for 0, 1, 2, ….
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    /// This many, from 0.
    Count(u64),
    /// These.
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

/// Certificates at some iterates of kept cells.
#[derive(Debug, Clone, Copy)]
pub struct Certified {
    /// How many, evenly spaced from the first to the last.
    pub points: u64,
    /// How.
    pub how: Measures,
}

impl Experiment {
    /// Reads a file; with `quick` what `[quick]` says replaces what stands above it.
    pub fn read(file: &Path, quick: bool) -> Result<Self> {
        let bytes = std::fs::read(file).map_err(|e| Error::io(file, &e))?;
        let text = String::from_utf8(bytes).map_err(|_| Error::file(file, "is not text; expected TOML in UTF-8"))?;
        Experiment::parse(&text, file, quick)
    }

    /// Reads text; `file` is for messages and for relative paths.
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
            // A solver may be for data that the quick form leaves out.
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
            // The measures are read as a spec reads them, and then taken from the runs, which are certified afterwards.
            let how = experiment.run(0, 0, 0, 0, 0)?.spec.certificate()?;
            if how.is_empty() {
                return Err(Error::Request(format!(
                    "certificate.points must be bounds, ssg or penalised beside it, got {points}"
                )));
            }
            experiment.common.remove("certificate");
            experiment.certified = Some(Certified { points, how });
        }
        Ok(experiment)
    }

    /// Refuses what can be refused without data. `all` are the data sets of the whole form.
    fn check(&self, all: &[Named]) -> Result<()> {
        for solver in &self.solvers {
            for label in solver.on.iter().flatten() {
                if !all.iter().any(|d| d.label == *label) {
                    let labels: Vec<&str> = all.iter().map(|d| d.label.as_str()).collect();
                    let hint = did_you_mean(label, labels.iter().copied());
                    let what =
                        format!("solver '{}' is for data '{label}'{hint}; expected one of {}", solver.label, labels.join(", "));
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
        // One run of each cell is enough: data, problem and seed are checked with their own tables.
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

    /// Refuses a choice by the accuracy on rows that are not there, or where it is not measured.
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

/// Refuses a key that is not known.
fn known<'a>(what: &str, keys: impl Iterator<Item = &'a String>, list: &[&str]) -> Result<()> {
    for key in keys {
        if !list.contains(&key.as_str()) {
            let hint = did_you_mean(key, list.iter().copied());
            return Err(Error::Request(format!("{what} '{key}' is not known{hint}; expected one of {}", list.join(", "))));
        }
    }
    Ok(())
}

/// Takes a key out of a table, by the rules of its type.
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

/// Takes a text out of a table.
fn words(table: &mut Table, key: &str) -> Result<Option<String>> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Error::Request(format!("{key} must be text in quotes, got {other}"))),
    }
}

/// Takes out a table or a list of them.
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

/// Refuses two things of one name.
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

/// What data are called that have no label.
fn data_label(table: &Table) -> Option<String> {
    if let Some(shape) = table.get("shaped_like").and_then(|value| value.clone().try_into::<ShapedLike>().ok()) {
        return Some(catalogue::called("", Some(shape.like.shape().title)));
    }
    let named = table.get("name").or(table.get("file")).and_then(Value::as_str);
    named.map(|s| Path::new(s).file_name().map_or(s.into(), |f| f.to_string_lossy().into_owned()))
}

/// Takes out the tables that replace those of the experiment.
fn own(table: &mut Table, keys: &[&str]) -> Table {
    keys.iter().filter_map(|key| Some((key.to_string(), table.remove(*key)?))).collect()
}

fn entries(table: &mut Table, key: &str, usual: impl Fn(&Table) -> Option<String>) -> Result<Vec<Named>> {
    let mut found = vec![];
    for mut table in tables(table, key)? {
        let label = words(&mut table, "label")?.or_else(|| usual(&table)).unwrap_or_default();
        let data = key == "data";
        let stand_in = if data { words(&mut table, "stand_in")? } else { None };
        let own = if data { own(&mut table, &OF_DATA) } else { Table::new() };
        found.push(Named { label, table, stand_in, own });
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
        // The name is no setting: a list there is left to be refused.
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
    // Two of one label are one solver with settings of its own on each of their data sets, which must then differ.
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

/// Applies `[quick]`; returns how many values of a list are taken.
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
    // One of them replaces the other.
    if quick.contains_key("seed") || quick.contains_key("seeds") {
        table.remove("seed");
        table.remove("seeds");
    }
    if let Some(data) = quick.remove("data") {
        let wanted: Vec<String> =
            data.clone().try_into().map_err(|_| Error::Request(format!("quick.data must be labels of data sets, got {data}")))?;
        keep_data(table, &wanted)?;
    }
    // What is shortened is shortened for all data and solvers, whatever tables they have of their own.
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
            // What ends a run and what is recorded is replaced: half of one and half of the other would be neither.
            (Some(Value::Table(old)), Value::Table(new)) if key == "tune" || key == "certificate" => old.extend(new),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
    Ok(values)
}

/// Keeps the data sets with these labels.
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

/// Takes `points` out of the certificate.
fn points(table: &mut Table) -> Result<Option<u64>> {
    let Some(Value::Table(certificate)) = table.get_mut("certificate") else { return Ok(None) };
    match certificate.remove("points") {
        None => Ok(None),
        Some(Value::Integer(n)) if n >= 1 => Ok(Some(n as u64)),
        Some(other) => Err(Error::Request(format!("certificate.points must be a whole number of at least 1, got {other}"))),
    }
}
