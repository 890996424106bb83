//! Bilevel problems of specs: the available ones, their keys in a spec, and the metrics beside the rows of the reformulation.
//! The problems are implemented in the library.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg::Note;
use thalweg::bilevel::problems::{GroupWeights, HyperRepresentation, Interval, NormSum, Pricing, Quadratic, Toy};
use thalweg::bilevel::{self, Bilevel, Derivatives, Extremes, Form, FromFormulas, PreparedProblem, SingleLevel};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::run::Metric;
use thalweg::run::Options as RunOptions;
use thalweg::solvers::{Config, SolverName, adaprox};
use thalweg::suggest::did_you_mean_one_of;
use toml::Value;

use crate::data::catalogue;
use crate::output::align;
use crate::spec::{settings, solver};
use crate::{Error, Result};

/// Names of the problems in a spec.
pub const NAMES: [&str; 7] = ["toy", "interval", "quadratic", "pricing", "norm-sum", "hyper-representation", "group-weights"];

/// Default slack of the follower responses at which a point is evaluated.
const SLACK: f64 = 1e-6;

/// Bilevel problem as named in `[data]`: `bilevel = "toy"`, or a table with its name and parameters.
#[derive(Debug, Clone)]
pub struct BilevelSpec {
    name: String,
    keys: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ToyKeys {
    /// Bound on |x| and |y|.
    radius: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NoKeys {}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NormSumKeys {
    /// Number of outer and of inner variables.
    n: usize,
}

impl Default for NormSumKeys {
    fn default() -> Self {
        NormSumKeys { n: 100 }
    }
}

/// Sizes of made-up data for a hyper-representation.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HyperKeys {
    /// Numbers of validation and training rows.
    n1: usize,
    n2: usize,
    /// Numbers of original and of learned features.
    d: usize,
    m: usize,
    /// Standard deviation of the noise in the targets.
    noise: f64,
    seed: u64,
    /// Bounds on the norms of Lambda and of u.
    outer_radius: Option<f64>,
    inner_radius: Option<f64>,
}

impl Default for HyperKeys {
    fn default() -> Self {
        HyperKeys { n1: 200, n2: 200, d: 50, m: 512, noise: 0.1, seed: 0, outer_radius: None, inner_radius: None }
    }
}

impl HyperKeys {
    fn build(self) -> Result<HyperRepresentation> {
        let HyperKeys { n1, n2, d, m, noise, seed, outer_radius, inner_radius } = self;
        let mut problem = HyperRepresentation::synthetic(n1, n2, d, m, noise, seed)?;
        if let Some(radius) = outer_radius {
            problem = problem.outer_radius(radius)?;
        }
        if let Some(radius) = inner_radius {
            problem = problem.inner_radius(radius)?;
        }
        Ok(problem)
    }
}

/// Rows of a data set with groups, some for the inner fit and the others for the outer objective.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GroupKeys {
    /// Data set of the catalogue, which must have groups.
    data: String,
    /// Number of rows that the inner problem fits; the others are validation rows.
    rows: usize,
    seed: u64,
    /// Smallest weight of a group, and a bound on the norm of the model.
    low: f64,
    radius: f64,
}

impl Default for GroupKeys {
    fn default() -> Self {
        GroupKeys { data: "german".into(), rows: 60, seed: 0, low: 0.1, radius: 10.0 }
    }
}

impl GroupKeys {
    fn build(self, options: &catalogue::Options) -> Result<(GroupWeights, usize)> {
        let data = catalogue::load(&self.data, options)?.data;
        let Some(groups) = &data.groups else {
            return Err(Error::Request(format!("data must be a set with groups, got \"{}\"", self.data)));
        };
        let total = data.labels.len();
        if self.rows == 0 || self.rows >= total {
            return Err(Error::Request(format!("rows must be 1 to {}, so that rows are left, got {}", total - 1, self.rows)));
        }
        let mut order: Vec<usize> = (0..total).collect();
        Rng::new(self.seed, Purpose::Sampling).shuffle(&mut order);
        let (training, validation) = order.split_at(self.rows);
        let of_row: Vec<usize> = training.iter().map(|&i| groups.of_row[i] as usize).collect();
        let (fitted, judged) = (data.select(training), data.select(validation));
        let problem = GroupWeights::new(
            (&fitted.features, &fitted.labels),
            &of_row,
            (&judged.features, &judged.labels),
            self.low,
            self.radius,
        )?;
        let count = problem.outer_dim();
        Ok((problem, count))
    }
}

impl BilevelSpec {
    /// Parses the value of `bilevel`.
    pub fn read(value: &Value) -> Result<Self> {
        let wanted = format!("one of {}, or a table with such a name", NAMES.join(", "));
        let (name, keys) = match value {
            Value::String(name) => (name.clone(), toml::Table::new()),
            Value::Table(table) => {
                let mut keys = table.clone();
                match keys.remove("name") {
                    Some(Value::String(name)) => (name, keys),
                    _ => return Err(Error::Request(format!("bilevel must be {wanted}, got {value}"))),
                }
            }
            other => return Err(Error::Request(format!("bilevel must be {wanted}, got {other}"))),
        };
        if !NAMES.contains(&name.as_str()) {
            return Err(Error::Request(format!("unknown bilevel problem '{name}'{}", did_you_mean_one_of(&name, &NAMES))));
        }
        Ok(BilevelSpec { name, keys })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a text that identifies the problem, for hashes.
    pub fn fingerprint(&self) -> String {
        format!("bilevel {} {}", self.name, self.keys)
    }

    /// Builds the problem, and the default start of x.
    pub fn build(&self, options: &catalogue::Options) -> Result<(Arc<dyn Bilevel>, Vec<f64>)> {
        let keys = self.keys.clone();
        let wrong = |e: Error| Error::Request(format!("{e} (in bilevel = \"{}\")", self.name));
        let plain = || settings::<NoKeys>(keys.clone()).map_err(wrong);
        Ok(match self.name.as_str() {
            "toy" => {
                let keys: ToyKeys = settings(keys.clone()).map_err(wrong)?;
                (Arc::new(Toy::new(keys.radius.unwrap_or(2.0))?), vec![0.3])
            }
            "interval" => plain().and_then(|_| Ok((Arc::new(FromFormulas(Interval::new()?)) as Arc<dyn Bilevel>, vec![1.5])))?,
            "quadratic" => {
                plain().and_then(|_| Ok((Arc::new(FromFormulas(Quadratic::new()?)) as Arc<dyn Bilevel>, vec![1.0])))?
            }
            "norm-sum" => {
                let NormSumKeys { n } = settings(keys.clone()).map_err(wrong)?;
                (Arc::new(NormSum::new(n).map_err(Error::from).map_err(wrong)?), vec![1.0; n])
            }
            "hyper-representation" => {
                let problem = settings::<HyperKeys>(keys.clone()).and_then(HyperKeys::build).map_err(wrong)?;
                let start = problem.start().to_vec();
                (Arc::new(problem), start)
            }
            "group-weights" => {
                let keys: GroupKeys = settings(keys.clone()).map_err(wrong)?;
                let (problem, groups) = keys.build(options).map_err(wrong)?;
                (Arc::new(problem), vec![1.0; groups])
            }
            _ => plain().and_then(|_| Ok((Arc::new(FromFormulas(Pricing::new()?)) as Arc<dyn Bilevel>, vec![1.25])))?,
        })
    }
}

/// Bilevel problem that is ready to be solved.
pub struct BilevelInstance {
    /// Reformulation, start, and largest row at the start.
    pub prepared: PreparedProblem,
    slack: f64,
}

/// Table `bilevel` of `[problem]`: the keys of [`Form`], and the slack at which a point is evaluated.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormSpec {
    form: Form,
    slack: Option<f64>,
}

impl FormSpec {
    /// Reads the table `bilevel` of `[problem]`.
    pub fn read(value: Option<&Value>) -> Result<Self> {
        let mut table = match value {
            None => return Ok(FormSpec::default()),
            Some(Value::Table(table)) => table.clone(),
            Some(other) => {
                return Err(Error::Request(format!(
                    "bilevel must be a table such as {{ alpha = 0.01, xi = 0.01 }}, got {other}"
                )));
            }
        };
        let slack = match table.remove("slack") {
            None => None,
            Some(Value::Float(slack)) if slack > 0.0 && slack.is_finite() => Some(slack),
            Some(other) => return Err(Error::Request(format!("slack must be a finite number larger than 0, got {other}"))),
        };
        let form: Form = settings(table)?;
        form.validate()?;
        Ok(FormSpec { form, slack })
    }

    /// Returns the slack at which a point is evaluated.
    pub fn slack(&self) -> f64 {
        self.slack.unwrap_or(SLACK)
    }

    /// Returns the settings for a solve, where `solver` has the keys of `[solver]` except its name: practical mode if it is
    /// empty or has only the inner solver. With the method "sipba" the keys are those of that solver.
    pub fn settings(&self, mut solver: toml::Table, method: bilevel::Method) -> Result<bilevel::Settings> {
        if method == bilevel::Method::Sipba {
            let Config::Sipba(sipba) = solver::named(SolverName::Sipba, solver)? else {
                return Err(Error::Request("the settings are not those of sipba".into()));
            };
            return Ok(bilevel::Settings { method, form: self.form, sipba, slack: self.slack, ..bilevel::Settings::default() });
        }
        // The inner solver belongs to adaprox too.
        let method = match method {
            bilevel::Method::Auto if !solver.is_empty() => bilevel::Method::Adaprox,
            other => other,
        };
        let chosen = solver.keys().all(|key| key == "inner");
        let usual = || Value::Table(toml::Table::from_iter([("name".to_string(), adaprox::Inner::NAMES[0].into())]));
        solver.entry("inner").or_insert_with(usual);
        let Config::Adaprox(solver) = solver::named(SolverName::Adaprox, solver)? else {
            return Err(Error::Request(format!("only {} solves bilevel problems", SolverName::Adaprox)));
        };
        Ok(bilevel::Settings {
            method,
            form: self.form,
            inner: solver.inner.clone(),
            solver: (!chosen).then_some(solver),
            slack: self.slack,
            ..bilevel::Settings::default()
        })
    }

    /// Reformulates the problem and finds its start. A method without multipliers, such as `sipba`, is measured by the rows that
    /// concern x and y alone and starts at x and the point of Y nearest to 0.
    pub fn pose(
        &self,
        named: &BilevelSpec,
        start: Option<Vec<f64>>,
        multipliers: bool,
        options: &catalogue::Options,
    ) -> Result<BilevelInstance> {
        let (problem, usual) = named.build(options)?;
        let start = start.unwrap_or(usual);
        let prepared = match multipliers {
            true => bilevel::prepare(&problem, self.form, &start)?,
            false => bilevel::prepare_plain(&problem, self.form, &start)?,
        };
        Ok(BilevelInstance { prepared, slack: self.slack() })
    }
}

impl BilevelInstance {
    /// Returns the reformulation.
    pub fn single(&self) -> &SingleLevel {
        &self.prepared.problem
    }

    /// Returns the notes about the problem.
    pub fn notes(&self) -> Vec<Note> {
        let (bound, unit) = self.single().form().multipliers();
        let mut notes = vec![Note::BilevelStart { violation: self.prepared.violation, bound, unit }];
        if self.single().problem().derivatives() == Derivatives::Differences {
            notes.push(Note::FiniteDifferences);
        }
        notes
    }

    /// Chooses settings by pilot runs, which respect the time limit and the interrupt of the options.
    pub fn choose(&self, options: &RunOptions) -> Result<bilevel::Tuning> {
        let inner = &bilevel::Settings::default().inner;
        Ok(bilevel::choose(self.single(), &self.prepared.start, inner, options)?)
    }

    /// Computes the pessimistic and the optimistic value at the x of a point.
    pub fn value(&self, z: &[f64]) -> Result<BilevelValue> {
        let (single, pair) = (self.single(), self.single().pair(z));
        let problem = single.problem();
        Ok(BilevelValue {
            x: pair.x.to_vec(),
            y: pair.y.to_vec(),
            inner_multipliers: single.inner_multipliers(z),
            inner_gap: bilevel::inner_gap(single, z)?,
            extremes: bilevel::extremes(&**problem, pair.x, self.slack)?,
            derivatives: problem.derivatives(),
        })
    }
}

/// Point of a bilevel problem, with the pessimistic and the optimistic value at its x.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BilevelValue {
    x: Vec<f64>,
    y: Vec<f64>,
    inner_multipliers: Vec<f64>,
    inner_gap: f64,
    extremes: Extremes,
    derivatives: Derivatives,
}

/// Maximum number of entries of x that are printed.
const SHOWN: usize = 8;

impl BilevelValue {
    /// Formats the values as text.
    pub fn words(&self) -> String {
        let list = |values: &[f64]| match values.len() > SHOWN {
            true => format!("{} numbers", values.len()),
            false => values.iter().map(|v| format!("{v:.6}")).collect::<Vec<_>>().join(", "),
        };
        let e = &self.extremes;
        let doubt = |extreme: &bilevel::Extreme| match (extreme.violation > 0.1 * e.slack, extreme.finished) {
            (true, _) => format!("no such y was found; this one exceeds the tolerance by {:.1e}", extreme.violation),
            (false, false) => "the search did not finish".into(),
            (false, true) => String::new(),
        };
        let rows = [
            ["x".to_string(), list(&self.x), String::new()],
            ["at the worst response".into(), format!("{:.6}", e.pessimistic.value), doubt(&e.pessimistic)],
            ["at the best response".into(), format!("{:.6}", e.optimistic.value), doubt(&e.optimistic)],
            ["optimality gap of the returned y".into(), format!("{:.3e}", self.inner_gap), String::new()],
        ];
        let slack = e.slack;
        format!("\nvalue of x over near-optimal follower responses (tolerance {slack})\n{}", align(&rows, &[1]))
    }
}

/// Metric of a bilevel problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BilevelMetric {
    InnerGap,
    Pessimistic,
    Optimistic,
}

const MEASURED: [(&str, BilevelMetric); 3] = [
    ("inner_gap", BilevelMetric::InnerGap),
    ("pessimistic_value", BilevelMetric::Pessimistic),
    ("optimistic_value", BilevelMetric::Optimistic),
];

/// Parses `measure` of a bilevel problem; the inner gap by default.
fn measured(list: Option<&[String]>) -> Result<Vec<BilevelMetric>> {
    let Some(list) = list else { return Ok(vec![BilevelMetric::InnerGap]) };
    let mut found = vec![];
    for word in list {
        let known = MEASURED.iter().find(|(name, _)| name == word).map(|(_, what)| *what);
        let names = MEASURED.map(|(name, _)| name);
        let Some(what) = known else {
            let hint = did_you_mean_one_of(word, &names);
            return Err(Error::Request(format!("unknown measure '{word}' of a bilevel problem{hint}")));
        };
        if found.contains(&what) {
            return Err(Error::Request(format!("measure has '{word}' twice; expected each once")));
        }
        found.push(what);
    }
    Ok(found)
}

/// Rejects names in `measure` that do not apply to bilevel problems.
pub fn check_measure(list: Option<&[String]>) -> Result<()> {
    measured(list).map(|_| ())
}

struct Metrics {
    problem: Arc<dyn Bilevel>,
    single: SingleLevel,
    slack: f64,
    wanted: Vec<BilevelMetric>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// Builds the metrics named in `measure`.
pub fn metrics(list: Option<&[String]>, posed: &BilevelInstance) -> Result<Option<Arc<dyn Metric>>> {
    let wanted = measured(list)?;
    if wanted.is_empty() {
        return Ok(None);
    }
    let problem = posed.single().problem().clone();
    let single = SingleLevel::new(problem.clone(), *posed.single().form())?;
    Ok(Some(Arc::new(Metrics { problem, single, slack: posed.slack, wanted })))
}

impl Metric for Metrics {
    fn names(&self) -> Vec<String> {
        let name = |what: &BilevelMetric| MEASURED.iter().find(|(_, known)| known == what).map_or("", |(name, _)| name);
        self.wanted.iter().map(|what| name(what).into()).collect()
    }

    fn read(&self, z: &[f64]) -> thalweg::Result<Vec<f64>> {
        let values = self.wanted.iter().any(|what| *what != BilevelMetric::InnerGap);
        let extremes = values.then(|| bilevel::extremes(&*self.problem, self.single.pair(z).x, self.slack)).transpose()?;
        let read = |what: &BilevelMetric| match (what, &extremes) {
            (BilevelMetric::InnerGap, _) => bilevel::inner_gap(&self.single, z),
            (BilevelMetric::Pessimistic, Some(e)) => Ok(e.pessimistic.value),
            (BilevelMetric::Optimistic, Some(e)) => Ok(e.optimistic.value),
            (_, None) => Ok(f64::NAN),
        };
        self.wanted.iter().map(read).collect()
    }
}
