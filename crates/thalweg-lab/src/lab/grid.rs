//! The grid of an experiment: every combination of data, problem, solver, cell and seed, the spec of each run, and the
//! displayed names.

use toml::{Table, Value};

use super::experiment::{Experiment, MOST};
use crate::spec::Spec;
use crate::{Error, Result};

/// Suffix of the cell of a pilot run.
pub const TRIAL: &str = "; trial";
/// Run of an experiment, by its position in the grid.
#[derive(Debug, Clone)]
pub struct GridRun {
    /// Index of the data set.
    pub data: usize,
    /// Index of the problem.
    pub problem: usize,
    /// Index of the solver.
    pub solver: usize,
    /// Index of the cell.
    pub cell: usize,
    /// Random seed.
    pub seed: u64,
    /// Whether it is a pilot run that only compares cells, with the budget of `tune`.
    pub trial: bool,
    /// Spec of the run.
    pub spec: Spec,
    /// The spec as a table.
    pub table: Table,
}

impl Experiment {
    /// Returns the seeds that every cell runs with.
    pub fn tuning_seeds(&self) -> Result<Vec<u64>> {
        match self.tune.as_ref().and_then(|tune| tune.seeds.as_ref()) {
            Some(seeds) => seeds.list("tune.seeds"),
            None => Ok(self.seeds.clone()),
        }
    }

    /// Lists the groups of cells from which one is selected: indices of data, problem and solver.
    pub fn groups(&self) -> Vec<[usize; 3]> {
        let mut groups = vec![];
        for (d, data) in self.data.iter().enumerate() {
            for p in 0..self.problems.len() {
                for (s, solver) in self.solvers.iter().enumerate() {
                    if solver.on.as_ref().is_none_or(|on| on.contains(&data.label)) {
                        groups.push([d, p, s]);
                    }
                }
            }
        }
        groups
    }

    /// Returns whether the cells of a solver are compared by pilot runs. A single cell needs none.
    pub fn tries(&self, solver: usize) -> bool {
        self.tune.as_ref().is_some_and(|tune| tune.budget.is_some()) && self.solvers[solver].cells.len() > 1
    }

    /// Returns one run.
    pub fn run(&self, data: usize, problem: usize, solver: usize, cell: usize, seed: u64) -> Result<GridRun> {
        self.build([data, problem, solver], cell, seed, None)
    }

    /// Returns one pilot run, with the budget of `tune` and without targets.
    pub fn trial(&self, data: usize, problem: usize, solver: usize, cell: usize, seed: u64) -> Result<GridRun> {
        let budget = self.tune.as_ref().and_then(|tune| tune.budget.as_ref());
        self.build([data, problem, solver], cell, seed, budget)
    }

    fn build(&self, [data, problem, solver]: [usize; 3], cell: usize, seed: u64, trial: Option<&Table>) -> Result<GridRun> {
        let from = &self.solvers[solver];
        let mut table = self.common.clone();
        table.extend(self.data[data].own.clone());
        table.extend(from.own.clone());
        if let Some(budget) = trial {
            table.insert("budget".into(), Value::Table(budget.clone()));
            table.remove("stop");
            table.remove("certificate");
        }
        let seed_value =
            i64::try_from(seed).map_err(|_| Error::Request(format!("seed {seed}; expected at most {}", i64::MAX)))?;
        table.insert("seed".into(), Value::Integer(seed_value));
        table.insert("data".into(), Value::Table(self.data[data].table.clone()));
        table.insert("problem".into(), Value::Table(self.problems[problem].table.clone()));
        table.insert("solver".into(), Value::Table(from.cells[cell].table.clone()));
        let spec = Spec::from_table(table.clone())?;
        Ok(GridRun { data, problem, solver, cell, seed, trial: trial.is_some(), spec, table })
    }

    /// Returns the name of the problem of a run: the data set, and the problem where there are several.
    pub fn panel(&self, data: usize, problem: usize) -> String {
        panel(&self.data[data].label, &self.problems[problem].label)
    }

    /// Describes the settings of a run that were written as lists, and whether it is a pilot run.
    pub fn cell(&self, run: &GridRun) -> String {
        let words = &self.solvers[run.solver].cells[run.cell].words;
        if run.trial { format!("{words}{TRIAL}") } else { words.clone() }
    }

    /// Returns the name of a run, as displayed and as matched by `--only`.
    pub fn describe(&self, run: &GridRun) -> String {
        describe(&self.panel(run.data, run.problem), &self.solvers[run.solver].label, &self.cell(run), run.seed)
    }
}

/// Returns the name of a problem on data.
pub fn panel(data: &str, problem: &str) -> String {
    if problem.is_empty() { data.into() } else { format!("{data}, {problem}") }
}

/// Returns the name of a run.
pub fn describe(panel: &str, solver: &str, cell: &str, seed: u64) -> String {
    let cell = if cell.is_empty() { String::new() } else { format!(" [{cell}]") };
    format!("{panel} / {solver}{cell} / seed {seed}")
}

/// Returns whether a text contains a pattern, in which `*` matches any characters. Case is ignored.
pub fn matches(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
    let mut rest = text.as_str();
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Expands a value into every choice of one element from each list in it, with a description of the choices. The last list
/// changes fastest.
pub(super) fn expand(value: &Value, path: &str, most: usize) -> Result<Vec<(Value, Vec<String>)>> {
    match value {
        Value::Array(list) => {
            if list.is_empty() {
                return Err(Error::Request(format!("{path} must be at least one value, got []")));
            }
            let mut choices = vec![];
            for element in list.iter().take(most) {
                match element {
                    Value::Table(_) => {
                        for (value, _) in expand(element, path, most)? {
                            choices.push((value.clone(), vec![format!("{path} = {}", short(&value))]));
                        }
                    }
                    literal => choices.push((literal.clone(), vec![format!("{path} = {}", short(literal))])),
                }
            }
            Ok(choices)
        }
        Value::Table(table) => {
            let mut choices = vec![(Table::new(), vec![])];
            for (key, inside) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let of_key = expand(inside, &path, most)?;
                if choices.len().saturating_mul(of_key.len()) > MOST {
                    return Err(Error::Request(format!("its lists make more than {MOST} cells; expected fewer")));
                }
                choices = choices
                    .iter()
                    .flat_map(|(table, words)| {
                        of_key.iter().map(move |(value, more)| {
                            let (mut table, mut words) = (table.clone(), words.clone());
                            table.insert(key.clone(), value.clone());
                            words.extend(more.iter().cloned());
                            (table, words)
                        })
                    })
                    .collect();
            }
            Ok(choices.into_iter().map(|(table, words)| (Value::Table(table), words)).collect())
        }
        literal => Ok(vec![(literal.clone(), vec![])]),
    }
}

/// Formats a value as it is written in a spec.
pub(super) fn short(value: &Value) -> String {
    match value {
        Value::Float(v) if *v != 0.0 && !(1e-3..1e6).contains(&v.abs()) => format!("{v:e}"),
        Value::Float(v) => format!("{v}"),
        Value::String(s) => s.clone(),
        Value::Table(t) => {
            let inside: Vec<String> = t.iter().map(|(key, value)| format!("{key} = {}", short(value))).collect();
            format!("{{{}}}", inside.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(short).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
