//! A run described in TOML, and the objects built from it. Every key is checked here, once; unknown ones are errors that
//! suggest the most similar key.

mod data;
mod messages;
mod problem;
mod schema;
pub mod solver;

use std::path::Path;
use std::sync::Arc;

use thalweg::assess::{Measures, Switching};
use thalweg::certify;
use thalweg::run::{self, Metric};
use thalweg::solvers::SolverName;
use toml::Value;

use self::messages::{NO_MINIMIZE, deserialise, sentence, solver_line};
use crate::bilevel;
use crate::data::source::{read_file, show};
use crate::metrics::MetricKind;
use crate::{Error, Result};

pub(crate) use self::data::RowSplit;
pub use self::messages::settings;
pub(crate) use self::messages::{number, wrong};
pub use self::schema::{DataSpec, Plan, ProblemSpec, Spec};

impl Spec {
    /// Reads a spec from a file.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = read_file(file)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::file(file, "is not text; expected TOML in UTF-8"))?;
        Spec::parse(&text, file)
    }

    /// Parses a spec; `file` is used in messages.
    pub fn parse(text: &str, file: &Path) -> Result<Self> {
        let at = |line, what| Error::Line { file: file.display().to_string(), line, what };
        let spec = deserialise(text).map_err(|(line, what)| at(line, what))?;
        // The settings are checked against the named solver now, so that a wrong key is reported with its line.
        solver::read(spec.solver.clone()).map_err(|wrong| at(solver_line(text, &wrong), wrong.error.to_string()))?;
        if spec.data.bilevel.is_none() && spec.problem.minimize.is_empty() {
            let line = text.lines().position(|line| line.trim() == "[problem]").map_or(1, |i| i + 1);
            return Err(at(line, NO_MINIMIZE.into()));
        }
        Ok(spec)
    }

    /// Reads a spec from a table, with the same checks as [`Spec::parse`].
    pub fn from_table(table: toml::Table) -> Result<Self> {
        let read = Value::Table(table.clone()).try_into::<Spec>();
        let spec = read.map_err(|e| {
            // Parsing text locates the error, and so the key and the value for the message.
            let text = toml::to_string(&table).unwrap_or_default();
            let what = deserialise(&text).err().map_or_else(|| sentence(e.message(), "", ""), |(_, what)| what);
            Error::Request(what)
        })?;
        spec.solver()?;
        spec.bilevel()?;
        Ok(spec)
    }

    /// Checks everything that does not need the data: settings of the solver, budget, record, stop, certificate, and terms of
    /// the problem that are invalid for any data.
    pub fn check(&self) -> Result<()> {
        self.solver()?;
        let certificate = self.certificate()?;
        if let Some(bounds) = &certificate.bounds {
            bounds.validate()?;
        }
        self.options(certificate, None).validate()?;
        if self.bilevel()?.is_some() {
            bilevel::FormSpec::read(self.problem.bilevel.as_ref())?;
            return bilevel::check_measure(self.measure.as_deref());
        }
        self.data.source()?;
        self.data.split()?;
        self.data.equal_groups()?;
        // Whether a named set has groups is known only once it is loaded.
        let grouped = self.data.name.is_some() || self.data.group.is_some();
        let metric_kinds = self.metric_kinds()?;
        self.data.kernel()?;
        self.problem.family()?;
        let mut builder = self.problem.terms(&metric_kinds)?.on_sample(grouped)?;
        for sum in metric_kinds.iter().filter_map(MetricKind::bounded) {
            builder = builder.subject_to(sum);
        }
        Ok(builder.check()?)
    }

    /// Returns the options of a run of this spec, without a checkpoint or an interrupt.
    pub fn options(&self, certificate: Measures, metrics: Option<Arc<dyn Metric>>) -> run::Options {
        let usual = run::Options::default();
        run::Options {
            budget: self.budget.clone(),
            stop: self.stop,
            record: self.record.clone(),
            seed: self.seed,
            feasibility: self.feasibility.unwrap_or(usual.feasibility),
            threads: self.threads.unwrap_or(usual.threads),
            certificate,
            repair: self.repair,
            metrics,
            ..usual
        }
    }

    /// Checks the keys beside a bilevel problem and returns the problem, if there is one.
    pub(crate) fn bilevel(&self) -> Result<Option<bilevel::BilevelSpec>> {
        let (data, problem) = (&self.data, &self.problem);
        let Some(value) = &data.bilevel else {
            if let Some(value) = &problem.bilevel {
                return Err(Error::Request(format!(
                    "bilevel = {value} in [problem] needs bilevel = the name of a problem in [data]"
                )));
            }
            if problem.minimize.is_empty() {
                return Err(Error::Request(NO_MINIMIZE.into()));
            }
            return Ok(None);
        };
        let beside = [
            ("name", data.name.is_some()),
            ("file", data.file.is_some()),
            ("generator", data.generator.is_some()),
            ("shaped_like", data.shaped_like.is_some()),
            ("minimize", !problem.minimize.is_empty()),
            ("subject_to", !problem.subject_to.is_empty()),
            ("domain", problem.domain.is_some()),
        ];
        if let Some((key, _)) = beside.iter().find(|(_, given)| *given) {
            return Err(Error::Request(format!("{key} beside a bilevel problem, which brings its own; expected one of the two")));
        }
        bilevel::BilevelSpec::read(value).map(Some)
    }

    /// Returns whether the problem or its metrics need reference values. A spec that cannot be parsed needs none, since it
    /// never runs.
    pub(crate) fn uses_references(&self) -> bool {
        let uses = self.metric_kinds().and_then(|measured| self.problem.uses_references(&measured));
        self.data.bilevel.is_none() && uses.unwrap_or(false)
    }

    /// Returns whether the problem compares groups by default, without stating how. As for references, a spec that cannot be
    /// parsed does not.
    pub(crate) fn compares_groups(&self) -> bool {
        self.data.bilevel.is_none() && self.problem.compares_groups().unwrap_or(false)
    }

    /// Returns the metrics named in `measure`.
    pub(crate) fn metric_kinds(&self) -> Result<Vec<MetricKind>> {
        MetricKind::read(self.measure.as_deref().unwrap_or_default())
    }

    /// Returns the settings of near-stationarity bounds, whether or not the spec requests them.
    pub fn bounds(&self) -> Result<certify::Bounds> {
        let usual = certify::Bounds::default();
        let feasibility = self.feasibility.unwrap_or(usual.feasibility);
        Ok(self.certificate()?.bounds.unwrap_or(certify::Bounds { feasibility, ..usual }))
    }

    pub(crate) fn certificate(&self) -> Result<Measures> {
        let mut measures = Measures::default();
        let refuse = |value: &Value| {
            let expected =
                "\"none\", \"bounds\", \"switching\", or a table with bounds = { … }, switching = { … } or penalised = { … }";
            wrong("certificate", value, expected)
        };
        let bounds = |given: toml::Table| -> Result<certify::Bounds> {
            // A constraint that is satisfied in the run is satisfied in the certificate.
            let own = given.contains_key("feasibility");
            let bounds: certify::Bounds = settings(given)?;
            let feasibility = self.feasibility.filter(|_| !own).unwrap_or(bounds.feasibility);
            Ok(certify::Bounds { feasibility, ..bounds })
        };
        match &self.certificate {
            // A target requires a measurement.
            None if self.stop.certificate.is_some() => measures.bounds = Some(bounds(toml::Table::new())?),
            None => {}
            Some(Value::String(s)) if s == "none" => {}
            Some(Value::String(s)) if s == "bounds" => measures.bounds = Some(bounds(toml::Table::new())?),
            Some(Value::String(s)) if SWITCHING.contains(&s.as_str()) => measures.switching = Some(Switching::default()),
            Some(value @ Value::Table(t)) => {
                for (key, inner) in t {
                    match (key.as_str(), inner) {
                        ("bounds", Value::Table(inner)) => measures.bounds = Some(bounds(inner.clone())?),
                        (key, Value::Table(inner)) if SWITCHING.contains(&key) => {
                            measures.switching = Some(settings(inner.clone())?)
                        }
                        ("penalised", Value::Table(inner)) => measures.penalised = Some(settings(inner.clone())?),
                        _ => return Err(refuse(value)),
                    }
                }
            }
            Some(other) => return Err(refuse(other)),
        }
        Ok(measures)
    }
}

/// Names of the certificate by the switching subgradient method; the second is from older specs.
const SWITCHING: [&str; 2] = ["switching", SolverName::Ssg.as_str()];

/// Returns the directory where relative paths in a spec start.
pub(crate) fn base_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Reads numbers separated by white space or commas; JSON brackets are skipped.
pub(crate) fn read_numbers(file: &Path) -> Result<Vec<f64>> {
    numbers_of(&read_file(file)?, file)
}

/// Parses the contents of a file of numbers.
pub(crate) fn numbers_of(bytes: &[u8], file: &Path) -> Result<Vec<f64>> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::file(file, "is not text; expected numbers"))?;
    let mut numbers = vec![];
    for (i, line) in text.lines().enumerate() {
        for word in line.split(|c: char| c.is_whitespace() || ",[]".contains(c)).filter(|w| !w.is_empty()) {
            match word.parse::<f64>() {
                Ok(v) if v.is_finite() => numbers.push(v),
                _ => {
                    let what = format!("'{}' is not a finite number", show(word.as_bytes()));
                    return Err(Error::Line { file: file.display().to_string(), line: i + 1, what });
                }
            }
        }
    }
    Ok(numbers)
}
