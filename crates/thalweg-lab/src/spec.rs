//! A run described in TOML, and the ready objects that it becomes. Every key is checked here, once; unknown ones are errors
//! that suggest the nearest known one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thalweg::certify::{self, Measures, Switching};
use thalweg::learn::{
    Argument, Attributes, Best, Bounded, Builder, Call, Data, Expression, Groups, JointWasserstein, Learning, ManyConstraints,
    Split, gaussian_kernel,
};
use thalweg::math::rng::Purpose;
use thalweg::math::{Matrix, Rng};
use thalweg::oracle::{Subgradients, Values, Warm};
use thalweg::run::{self, Budget, MAX_LISTED_CONSTRAINTS, Metric, Record, StoppingRule};
use thalweg::sets::{Ball, Bounds, NonNegative, Set, WholeSpace};
use thalweg::solvers::auto;
use thalweg::solvers::ipp::{self, Inner};
use thalweg::solvers::{
    Accszofw, Acczomda, Adaprox, AnySolver, Bmd, Bundle, Conex, Dszog, Ipp, Lbfgs, Mspg, Pgsmd, Spg, Ssg, StSpg, ThreesEcon,
    Zopsgd, Zoscgd, accszofw, acczomda, adaprox, bmd, bundle, conex, dszog, lbfgs, mspg, pd, pgsmd, spg, ssg, st_spg,
    threes_econ, zopsgd, zoscgd,
};
use thalweg::suggest::did_you_mean;
use toml::Value;

use crate::bilevel;
use crate::data::catalogue::{self, Loaded, Options};
use crate::data::synth::Synth;
use crate::data::synthetic;
use crate::metrics::{Wanted, metrics};
use crate::{Error, Result};

/// A run as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Seed of every generator of the run. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// Threads for sums over rows; the bits do not depend on it. Default 1.
    pub threads: Option<usize>,
    /// A constraint holds if its value is at most `feasibility * max(1, |bound|)`. Default 1e-6.
    pub feasibility: Option<f64>,
    /// Whether a returned point that violates constraints is projected onto them. Default false.
    #[serde(default)]
    pub repair: bool,
    /// Near-stationarity of recorded points: "none" (default), "bounds", "ssg", or a table with one or more of
    /// `bounds = { mu = …, width = … }`, `ssg = { rho_hat = …, iterations = … }` and `penalised = { beta = …, nu = … }`.
    certificate: Option<Value>,
    /// What else is measured at recorded points: "accuracy", and sums of terms. By default the accuracy, if rows are set aside.
    pub measure: Option<Vec<String>>,
    /// The data.
    pub data: DataSpec,
    /// The problem.
    pub problem: ProblemSpec,
    /// The solver: its `name` and its settings.
    solver: toml::Table,
    /// When to end: iterations, passes, samples, seconds.
    pub budget: Budget,
    /// Which iterates are measured: `every`, a list `at`, or `per_decade`.
    #[serde(default)]
    pub record: Record,
    /// When to end because the iterate is good enough: objective, certificate.
    #[serde(default)]
    pub stop: StoppingRule,
}

/// The `[data]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// A set of the catalogue.
    pub name: Option<String>,
    /// Or a LIBSVM file, plain or gzip, or a `.thw` file; a relative path starts at the spec's directory.
    pub file: Option<PathBuf>,
    /// Or a bilevel problem: its name, or a table with its name and what it is made from.
    pub(crate) bilevel: Option<Value>,
    /// Or a recipe for data that are made up.
    pub synthetic: Option<String>,
    /// Or made-up rows in the shape of a large set: `{ like = "url", rows = …, columns = …, seed = … }`.
    pub synth: Option<Synth>,
    /// How many rows are drawn, by the seed, before anything else; all if absent.
    pub sample: Option<usize>,
    /// Whether every column is divided by its largest absolute value. Default false.
    #[serde(default)]
    pub scale: bool,
    /// Columns (counted from 1) that the model does not see and that `covariance` is about.
    pub sensitive: Option<Vec<usize>>,
    /// A kernel model: "rbf", or `{ rbf = gamma }`. The variables are then the weights of the training rows.
    kernel: Option<Value>,
    /// Columns of the file; by default the largest index in it.
    pub columns: Option<usize>,
    /// Column (counted from 1) of the file that marks the protected group by a non-zero entry.
    pub group: Option<usize>,
    /// "ordered" (default), "shared", or `{ shuffle = seed }`.
    split: Option<Value>,
    /// Rows of gaps are left out at random until all groups have as many as the smallest (true), and at most a number.
    /// Default false.
    equal_groups: Option<Value>,
    /// Share of the rows that is set aside and only measured. Default 0.
    pub test_fraction: Option<f64>,
    /// Share of the rows that is set aside for choosing between settings. Default 0.
    pub validation_fraction: Option<f64>,
}

/// The `[problem]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSpec {
    /// A sum of multiples of terms; nothing for a bilevel problem, which has an objective.
    #[serde(default)]
    pub minimize: String,
    /// How a bilevel problem becomes an ordinary one.
    bilevel: Option<Value>,
    /// What becomes of the transport plan of `wasserstein_gap`: "eliminated" (default), the best one in its place; "joint", a
    /// variable beside the model; or "doubly-stochastic", that variable in another unit.
    #[serde(default)]
    pub plan: Plan,
    /// Whether batches of the joint problem are scaled to be unbiased. Default false, as published.
    pub rescale: Option<bool>,
    /// Constraints `TERM <= NUMBER`, or with a bound such as `1.001 * best(TERM)`.
    #[serde(default)]
    pub subject_to: Vec<String>,
    /// "all" (default), "non-negative", `{ ball = radius }`, `{ ball_times_erm = factor }` or `{ box = [low, high] }`.
    domain: Option<Value>,
    /// "zero" (default), "erm" (the minimiser of the loss), "sin" (w_j = 0.01 sin j), a list of numbers, or a file of numbers.
    start: Option<Value>,
    /// Whether the model has an intercept, its last variable. Default false.
    #[serde(default)]
    pub intercept: bool,
}

/// What becomes of a transport plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// The best one for the model at hand is put in its place.
    #[default]
    Eliminated,
    /// It is a variable.
    Joint,
    /// It is a variable, multiplied so that its rows and columns sum to 1 where the groups are equal.
    DoublyStochastic,
}

impl Plan {
    /// As it is written.
    fn name(self) -> &'static str {
        match self {
            Plan::Eliminated => "eliminated",
            Plan::Joint => "joint",
            Plan::DoublyStochastic => "doubly-stochastic",
        }
    }
}

/// A spec with everything in it loaded, checked and built.
pub struct Ready {
    /// The problem.
    pub posed: Posed,
    /// What a run needs beside it.
    pub equipped: Equipped,
}

impl Ready {
    /// What a careful reader should know about both.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.posed.notes.iter().chain(&self.equipped.notes)
    }
}

/// What a run needs beside its problem.
pub struct Equipped {
    /// Where the run starts.
    pub start: Vec<f64>,
    /// The solver.
    pub solver: AnySolver,
    /// The solver's and the record's settings in words: a checkpoint made with others is refused.
    pub settings: String,
    /// Near-stationarity, if it was asked for.
    pub certificate: Measures,
    /// What else is measured.
    pub metrics: Option<Arc<dyn Metric>>,
    /// What the rows of a bilevel problem are relaxed by; they hold if they are kept within that.
    pub relaxed: Option<f64>,
    /// What a careful reader should know.
    pub notes: Vec<String>,
}

/// The problem of a spec, without what a run needs.
pub struct Posed {
    /// The problem on the training rows.
    pub problem: Problem,
    /// The same terms on the rows that were set aside.
    pub held_out: Option<Learning>,
    /// The same terms on the rows that are kept for choosing between settings.
    pub validation: Option<Learning>,
    /// sha256 of the data's text: the same data have the same fingerprint, gzip or not.
    pub fingerprint: String,
    /// What a person calls the data.
    pub called: String,
    /// What a careful reader should know.
    pub notes: Vec<String>,
}

/// A problem that a spec can pose. Its first variables are those of a model.
pub enum Problem {
    /// Terms of a model.
    Model(Box<Learning>),
    /// The Wasserstein gap of a model, and the transport plan.
    Joint(Box<JointWasserstein>),
    /// A model subject to a family of constraints.
    Many(Box<ManyConstraints>),
    /// A bilevel problem, which has no model.
    Bilevel(Box<bilevel::Posed>),
}

impl Problem {
    /// What solvers and measures ask.
    pub fn oracle(&self) -> &dyn Subgradients {
        match self {
            Problem::Model(problem) => &**problem,
            Problem::Joint(problem) => &**problem,
            Problem::Many(problem) => &**problem,
            Problem::Bilevel(problem) => problem.single(),
        }
    }

    /// The bound of constraint `j`, which its value is measured from.
    pub fn bound(&self, j: usize) -> f64 {
        match self {
            Problem::Many(problem) => problem.bound(),
            _ => self.model().map_or(0.0, |model| model.bound(j)),
        }
    }

    /// The model of a problem whose bounds can be moved or certified one by one: not a family of constraints, whose are all the same,
    /// and no bilevel problem.
    pub(crate) fn terms(&self, command: &str) -> Result<&Learning> {
        match self {
            Problem::Many(problem) => Err(Error::Request(format!(
                "{command} looks at constraints one by one, and this problem has a family of {}; expected terms, or thalweg solve",
                problem.num_constraints()
            ))),
            Problem::Bilevel(_) => Err(Error::Request(format!(
                "{command} is about models, and this is a bilevel problem; expected terms, or thalweg solve"
            ))),
            Problem::Model(problem) => Ok(problem),
            Problem::Joint(problem) => Ok(problem.model()),
        }
    }

    /// The model: its rows, bounds and reference values. A bilevel problem has none.
    pub fn model(&self) -> Option<&Learning> {
        match self {
            Problem::Model(problem) => Some(problem),
            Problem::Joint(problem) => Some(problem.model()),
            Problem::Many(problem) => Some(problem.model()),
            Problem::Bilevel(_) => None,
        }
    }

    /// The reference values of the model.
    pub fn references(&self) -> &[Best] {
        self.model().map_or(&[], Learning::references)
    }

    /// As [`Problem::model`], for moving bounds.
    pub fn model_mut(&mut self) -> Option<&mut Learning> {
        match self {
            Problem::Model(problem) => Some(problem),
            Problem::Joint(problem) => Some(problem.model_mut()),
            Problem::Many(problem) => Some(problem.model_mut()),
            Problem::Bilevel(_) => None,
        }
    }

    /// The model's part of a point; all of it where it is too short.
    pub fn of_model<'x>(&self, x: &'x [f64]) -> &'x [f64] {
        self.model().and_then(|model| x.get(..model.dim())).unwrap_or(x)
    }
}

impl Spec {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file).map_err(|e| Error::io(file, &e))?;
        let text = String::from_utf8(bytes).map_err(|_| Error::file(file, "is not text; expected TOML in UTF-8"))?;
        Spec::parse(&text, file)
    }

    /// Reads text; `file` is for messages.
    pub fn parse(text: &str, file: &Path) -> Result<Self> {
        let at = |line, what| Error::Line { file: file.display().to_string(), line, what };
        let spec = deserialise(text).map_err(|(line, what)| at(line, what))?;
        // The solver's settings are read against the chosen solver now, so that a wrong key is found with its line.
        spec.solver().map_err(|e| {
            let what = e.to_string();
            at(solver_line(text, &what), what)
        })?;
        if spec.data.bilevel.is_none() && spec.problem.minimize.is_empty() {
            let line = text.lines().position(|line| line.trim() == "[problem]").map_or(1, |i| i + 1);
            return Err(at(line, sentence("missing field `minimize`", "", "")));
        }
        Ok(spec)
    }

    /// Takes a table that is at hand, with the same checks as [`Spec::parse`].
    pub fn from_table(table: toml::Table) -> Result<Self> {
        let read = Value::Table(table.clone()).try_into::<Spec>();
        let spec = read.map_err(|e| {
            // In a text the reader knows the place of the error, and so the key and the value for the sentence.
            let text = toml::to_string(&table).unwrap_or_default();
            let what = deserialise(&text).err().map_or_else(|| sentence(e.message(), "", ""), |(_, what)| what);
            Error::Request(what)
        })?;
        spec.solver()?;
        spec.bilevel()?;
        Ok(spec)
    }

    /// Refuses what can be refused without the data: settings of the solver, budget, record, stop, certificate, and words of
    /// the problem that no data give a meaning to.
    pub fn check(&self) -> Result<()> {
        self.solver()?;
        let certificate = self.certificate()?;
        if let Some(bounds) = &certificate.bounds {
            bounds.validate()?;
        }
        self.options(certificate, None).validate()?;
        if self.bilevel()?.is_some() {
            bilevel::Wanted::read(self.problem.bilevel.as_ref())?;
            return bilevel::check_measure(self.measure.as_deref());
        }
        self.data.source()?;
        self.data.split()?;
        self.data.equal_groups()?;
        // Four rows, one of each group and label. A named set may have groups; if it has not, its own rows will tell.
        let grouped = self.data.name.is_some() || self.data.group.is_some();
        let groups = grouped.then(|| Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 0, 1, 1] });
        let (features, labels) = (Matrix::dense(4, 1, vec![0.0; 4])?, vec![1.0, -1.0, 1.0, -1.0]);
        let wanted = self.wanted()?;
        self.data.kernel()?;
        self.problem.family()?;
        let mut builder = self.problem.builder(Data { features, labels, groups, weights: None }, &wanted)?;
        for sum in wanted.iter().filter_map(Wanted::bounded) {
            builder = builder.subject_to(sum);
        }
        Ok(builder.check()?)
    }

    /// How a run of this spec is conducted, without a checkpoint and not to be interrupted.
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

    /// The bilevel problem, if it is one, once what is said beside it makes sense.
    fn bilevel(&self) -> Result<Option<bilevel::Named>> {
        let (data, problem) = (&self.data, &self.problem);
        let Some(value) = &data.bilevel else {
            if let Some(value) = &problem.bilevel {
                return Err(wrong("bilevel", value, "it only where [data] has bilevel = the name of a problem"));
            }
            if problem.minimize.is_empty() {
                return Err(Error::Request(sentence("missing field `minimize`", "", "")));
            }
            return Ok(None);
        };
        let beside = [
            ("name", data.name.is_some()),
            ("file", data.file.is_some()),
            ("synthetic", data.synthetic.is_some()),
            ("synth", data.synth.is_some()),
            ("minimize", !problem.minimize.is_empty()),
            ("subject_to", !problem.subject_to.is_empty()),
            ("domain", problem.domain.is_some()),
        ];
        if let Some((key, _)) = beside.iter().find(|(_, given)| *given) {
            return Err(Error::Request(format!("{key} beside a bilevel problem, which brings its own; expected one of the two")));
        }
        bilevel::Named::read(value).map(Some)
    }

    /// What `measure` names.
    fn wanted(&self) -> Result<Vec<Wanted>> {
        Wanted::read(self.measure.as_deref().unwrap_or_default())
    }

    /// Version of the solver's code; that of the rule where the solver is to be chosen.
    pub(crate) fn solver_version(&self) -> Result<u32> {
        Ok(self.solver()?.map_or(auto::VERSION, |(solver, _)| solver.method().version()))
    }

    /// As [`solver`], of the table `[solver]`.
    fn solver(&self) -> Result<Option<(AnySolver, String)>> {
        solver(self.solver.clone())
    }

    /// Loads the data and builds everything. `file` is where the spec came from; relative paths start there.
    pub fn ready(&self, file: &Path, options: &Options) -> Result<Ready> {
        self.check()?;
        let posed = self.pose(file, options)?;
        let equipped = self.equip(&posed, file)?;
        Ok(Ready { posed, equipped })
    }

    /// Builds what a run needs beside its problem, which is that of this spec. Paths as in [`Spec::ready`].
    pub fn equip(&self, posed: &Posed, file: &Path) -> Result<Equipped> {
        let (problem, mut notes) = (posed.problem.oracle(), vec![]);
        let mut certificate = self.certificate()?;
        let start = self.problem.start(&posed.problem, base_of(file))?;
        let mut relaxed = self.relaxed()?;
        // A start outside the domain is moved into it before anything is measured there.
        let mut inside = start.clone();
        problem.domain().project(&mut inside, &mut Warm::default())?;
        certificate.check(problem, &inside)?;
        let metrics = match &posed.problem {
            Problem::Bilevel(posed) => bilevel::metrics(self.measure.as_deref(), posed)?,
            _ => metrics(self.measure.as_deref(), posed)?,
        };
        let (solver, words) = match (self.solver()?, &posed.problem) {
            (Some(named), _) => named,
            (None, Problem::Bilevel(posed)) => {
                let (solver, words, within, reasons) = posed.choose()?;
                relaxed = Some(within);
                notes.extend(reasons);
                (solver, words)
            }
            (None, _) => {
                if let Problem::Many(many) = &posed.problem
                    && many.num_constraints() > MAX_LISTED_CONSTRAINTS
                {
                    return Err(Error::Request(format!(
                        "auto chooses among methods that look at every constraint in every step, and this problem has {}; expected the \
                         name of a solver, such as dszog, which draws constraints",
                        many.num_constraints()
                    )));
                }
                let prepared = auto::prepare(problem, &start, self.seed, self.feasibility.unwrap_or(1e-6))?;
                notes.extend(prepared.reasons);
                (AnySolver::First(prepared.solver), prepared.settings)
            }
        };
        let settings = format!(
            "{words} {:?}, {:?}, feasibility {:?}, certificate {certificate:?}, measure {:?}, start {:016x}",
            self.record,
            self.stop,
            self.feasibility,
            self.measure,
            fingerprint(&start)
        );
        if let (Some(bounds), Some(relaxed)) = (&mut certificate.bounds, relaxed) {
            bounds.feasibility = bounds.feasibility.max(relaxed);
        }
        Ok(Equipped { start, solver, settings, certificate, metrics, relaxed, notes })
    }

    /// What the rows of a bilevel problem are relaxed by, where the solver says.
    fn relaxed(&self) -> Result<Option<f64>> {
        if self.data.bilevel.is_none() || self.solver.get("name").and_then(Value::as_str) != Some("adaprox") {
            return Ok(None);
        }
        let mut table = self.solver.clone();
        table.remove("name");
        Ok(Some(adaprox_settings(table)?.feasibility()))
    }

    /// Loads the data and builds the problem. Paths as in [`Spec::ready`].
    pub fn pose(&self, file: &Path, options: &Options) -> Result<Posed> {
        self.pose_with(file, options, &[])
    }

    /// As [`Spec::pose`], but reference values that are known, from the same problem on the same rows, are not computed again.
    pub fn pose_with(&self, file: &Path, options: &Options, known: &[Best]) -> Result<Posed> {
        if let Some(named) = self.bilevel()? {
            let start = match &self.problem.start {
                None => None,
                Some(Value::Array(list)) if list.iter().all(|v| number(v).is_some()) => {
                    Some(list.iter().filter_map(number).collect())
                }
                Some(Value::String(name)) => Some(read_numbers(&base_of(file).join(name))?),
                Some(other) => {
                    return Err(wrong("start", other, "a list of numbers, one for each outer variable, or a file of them"));
                }
            };
            let posed = bilevel::Wanted::read(self.problem.bilevel.as_ref())?.pose(&named, start, options)?;
            let (fingerprint, notes) = (named.fingerprint(), posed.notes());
            let problem = Problem::Bilevel(Box::new(posed));
            let called = self.data.called();
            return Ok(Posed { problem, held_out: None, validation: None, fingerprint, called, notes });
        }
        let wanted = self.wanted()?;
        let loaded = self.data.load(base_of(file), options)?;
        let (mut notes, fingerprint) = (loaded.notes.clone(), loaded.fingerprint.clone());
        let called = catalogue::called(&self.data.called(), loaded.stand_in.as_deref());
        let Divided { data, held_out, validation, attributes } = self.data.divide(loaded, self.seed)?;
        let family = self.problem.family()?;
        let build = |data, split, equal, references: &[Best]| -> Result<Learning> {
            let builder = self.problem.builder(data, &wanted)?.split(split).equal_groups(equal);
            Ok(builder.references(references.to_vec()).build()?)
        };
        // A family is about all rows.
        let split = if family.is_some() { Split::Shared } else { self.data.split()? };
        let problem = build(data, split, self.data.equal_groups()?, known)?;
        notes.extend(problem.references().iter().map(ToString::to_string));
        // Held-out rows are only measured: their bounds and thresholds are those of training.
        let aside = |rows: Option<Data>, what: &str| {
            let built = rows.map(|rows| build(rows, Split::Shared, None, problem.references())).transpose();
            built.map_err(|e| Error::Request(format!("the {what} rows cannot be used: {e}")))
        };
        let (held_out, validation) = (aside(held_out, "held-out")?, aside(validation, "validation")?);
        if let Some(family) = family {
            let many = family.pose(problem, attributes)?;
            notes.push(format!("{} constraints", many.num_constraints()));
            return Ok(Posed { problem: Problem::Many(Box::new(many)), held_out, validation, fingerprint, called, notes });
        }
        let problem = match self.problem.plan {
            Plan::Eliminated => Problem::Model(Box::new(problem)),
            plan => {
                let joint = JointWasserstein::new(problem)?.rescale(self.problem.rescale.unwrap_or(false));
                let joint = if plan == Plan::DoublyStochastic { joint.doubly_stochastic()? } else { joint };
                let [m, n] = joint.sides();
                let (sharp, printed) = (joint.objective_modulus().map_or(f64::NAN, |m| m.value), joint.printed_constant());
                notes.push(format!(
                    "the transport plan is a variable: {m} x {n} numbers beside the model's; weak-convexity constant {sharp:.4} \
                     (published: norm_F(A_p) + norm_F(A_u) = {printed:.4})"
                ));
                Problem::Joint(Box::new(joint))
            }
        };
        Ok(Posed { problem, held_out, validation, fingerprint, called, notes })
    }

    /// How near-stationarity is bounded, whether or not the spec asks for it.
    pub fn bounds(&self) -> Result<certify::Bounds> {
        let usual = certify::Bounds::default();
        let feasibility = self.feasibility.unwrap_or(usual.feasibility);
        Ok(self.certificate()?.bounds.unwrap_or(certify::Bounds { feasibility, ..usual }))
    }

    pub(crate) fn certificate(&self) -> Result<Measures> {
        let mut measures = Measures::default();
        let refuse = |value: &Value| {
            let wanted = "\"none\", \"bounds\", \"ssg\", or a table with bounds = { … }, ssg = { … } or penalised = { … }";
            wrong("certificate", value, wanted)
        };
        let bounds = |given: toml::Table| -> Result<certify::Bounds> {
            // A constraint that holds for the run holds for the certificate.
            let own = given.contains_key("feasibility");
            let bounds: certify::Bounds = settings(given)?;
            let feasibility = self.feasibility.filter(|_| !own).unwrap_or(bounds.feasibility);
            Ok(certify::Bounds { feasibility, ..bounds })
        };
        match &self.certificate {
            // A target needs something that is measured.
            None if self.stop.certificate.is_some() => measures.bounds = Some(bounds(toml::Table::new())?),
            None => {}
            Some(Value::String(s)) if s == "none" => {}
            Some(Value::String(s)) if s == "bounds" => measures.bounds = Some(bounds(toml::Table::new())?),
            Some(Value::String(s)) if s == "ssg" => measures.switching = Some(Switching::default()),
            Some(value @ Value::Table(t)) => {
                for (key, inner) in t {
                    match (key.as_str(), inner) {
                        ("bounds", Value::Table(inner)) => measures.bounds = Some(bounds(inner.clone())?),
                        ("ssg", Value::Table(inner)) => measures.switching = Some(settings(inner.clone())?),
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

impl DataSpec {
    /// sha256 of the data's text, and the set that they are a stand-in for. Paths as in [`Spec::ready`].
    pub(crate) fn fingerprint(&self, file: &Path, options: &Options) -> Result<(String, Option<String>)> {
        if let Some(value) = &self.bilevel {
            return Ok((bilevel::Named::read(value)?.fingerprint(), None));
        }
        let loaded = self.load(base_of(file), options)?;
        Ok((loaded.fingerprint, loaded.stand_in))
    }

    /// What a person calls the data; nothing for a stand-in that is made, which is called by its shape.
    pub(crate) fn called(&self) -> String {
        let file = self.file.as_ref().map(|file| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned());
        let bilevel =
            self.bilevel.as_ref().and_then(|value| bilevel::Named::read(value).ok()).map(|named| named.name().to_string());
        self.name.clone().or(self.synthetic.clone()).or(bilevel).or(file).unwrap_or_default()
    }

    /// Where the data come from, once what is said about them makes sense.
    fn source(&self) -> Result<Source<'_>> {
        if let Some(name) = &self.synthetic {
            synthetic::get(name)?;
            let others = [("name", self.name.is_some()), ("file", self.file.is_some()), ("columns", self.columns.is_some())];
            return match others.iter().chain(&[("group", self.group.is_some())]).find(|(_, given)| *given) {
                Some((key, _)) => Err(Error::Request(format!("[data] has synthetic and {key}; expected one of them"))),
                None => Ok(Source::Synthetic(name)),
            };
        }
        if let Some(synth) = &self.synth {
            synth.check().map_err(|e| Error::Request(format!("synth: {e}")))?;
            let others = [("name", self.name.is_some()), ("file", self.file.is_some()), ("columns", self.columns.is_some())];
            return match others.iter().chain(&[("group", self.group.is_some())]).find(|(_, given)| *given) {
                Some((key, _)) => Err(Error::Request(format!("[data] has synth and {key}; expected one of them"))),
                None => Ok(Source::StandIn(synth)),
            };
        }
        match (&self.name, &self.file) {
            (Some(_), Some(_)) => Err(Error::Request("[data] has name and file; expected one of them".into())),
            (None, None) => Err(Error::Request("[data] has neither name nor file; expected one of them".into())),
            (Some(_), None) if self.columns.is_some() || self.group.is_some() => {
                Err(Error::Request("columns and group belong to a file: a named data set brings its own".into()))
            }
            (Some(name), None) => Ok(Source::Named(name)),
            (None, Some(_)) if self.columns.is_some_and(|n| n == 0 || n > u32::MAX as usize) => {
                let columns = self.columns.unwrap_or_default();
                Err(Error::Request(format!("columns must be a whole number from 1 to {}, got {columns}", u32::MAX)))
            }
            (None, Some(file)) => Ok(Source::File(file)),
        }
    }

    fn load(&self, base: &Path, options: &Options) -> Result<Loaded> {
        match self.source()? {
            Source::Named(name) => catalogue::load(name, options),
            Source::File(file) => catalogue::load_file(&base.join(file), self.columns, self.group),
            Source::Synthetic(name) => synthetic::get(name)?.make(),
            Source::StandIn(synth) => catalogue::load_stand_in(synth, options),
        }
    }

    /// The coefficient of a Gaussian kernel for rows of so many columns, if a kernel is asked for.
    fn kernel(&self) -> Result<Option<Gamma>> {
        let wrong = |value: &Value| wrong("kernel", value, "\"rbf\" or { rbf = GAMMA }, a number above 0");
        match &self.kernel {
            None => Ok(None),
            Some(Value::String(name)) if name == "rbf" => Ok(Some(Gamma::OneByColumns)),
            Some(value @ Value::Table(t)) if t.len() == 1 => match t.get("rbf").and_then(number) {
                Some(gamma) if gamma > 0.0 && gamma.is_finite() => Ok(Some(Gamma::Given(gamma))),
                _ => Err(wrong(value)),
            },
            Some(other) => Err(wrong(other)),
        }
    }

    /// The rows of a run: drawn, divided, parted from their sensitive columns, and seen through the kernel.
    fn divide(&self, loaded: Loaded, seed: u64) -> Result<Divided> {
        let mut data = loaded.data;
        if self.scale {
            data.features = data.features.scaled();
        }
        if let Some(sample) = self.sample {
            let rows = data.labels.len();
            if sample == 0 || sample > rows {
                return Err(Error::Request(format!("sample must be 1 to {rows}, the rows that there are, got {sample}")));
            }
            let mut order: Vec<usize> = (0..rows).collect();
            Rng::new(seed, Purpose::Sampling).shuffle(&mut order);
            data = data.select(&order[..sample]);
        }
        let (test, validation) = (self.test_fraction.unwrap_or(0.0), self.validation_fraction.unwrap_or(0.0));
        // A share of the test alone that cannot be is refused where it is taken.
        let both = (0.0..1.0).contains(&test) && test + validation >= 1.0;
        if !(0.0..1.0).contains(&validation) || both {
            let wanted = "a number from 0 on that leaves rows to train on beside test_fraction";
            return Err(Error::Request(format!("validation_fraction must be {wanted}, got {validation}")));
        }
        let mut aside = |fraction: f64, seed: u64| -> Result<Option<Data>> {
            if fraction == 0.0 {
                return Ok(None);
            }
            let (kept, held) = data.hold_out(fraction, seed)?;
            data = kept;
            Ok((!held.labels.is_empty()).then_some(held))
        };
        // A share of all rows, taken from those that the test leaves.
        let held_out = if self.test_fraction.is_some() { aside(test, seed)? } else { None };
        let validation = aside(validation / (1.0 - test), seed)?;
        let sensitive = match &self.sensitive {
            None => loaded.sensitive,
            Some(columns) => {
                let width = data.features.cols();
                if let Some(column) = columns.iter().find(|c| **c == 0 || **c > width) {
                    return Err(Error::Request(format!("sensitive column {column}; expected 1 to {width}")));
                }
                if let Some((_, column)) = columns.iter().enumerate().find(|(i, c)| columns[..*i].contains(c)) {
                    return Err(Error::Request(format!("sensitive has column {column} twice; expected each once")));
                }
                if columns.len() == width {
                    return Err(Error::Request(format!(
                        "sensitive has all {width} columns; expected some that are left for the model"
                    )));
                }
                columns.iter().map(|c| c - 1).collect()
            }
        };
        let mut divided = Divided { data, held_out, validation, attributes: None };
        if !sensitive.is_empty() {
            divided.attributes = Some(part(&mut divided.data, &sensitive)?);
            for other in [&mut divided.held_out, &mut divided.validation].into_iter().flatten() {
                part(other, &sensitive)?;
            }
        }
        if let Some(gamma) = self.kernel()? {
            let centres = divided.data.features.clone();
            let gamma = match gamma {
                Gamma::OneByColumns => 1.0 / centres.cols().max(1) as f64,
                Gamma::Given(gamma) => gamma,
            };
            let all = [Some(&mut divided.data), divided.held_out.as_mut(), divided.validation.as_mut()];
            for data in all.into_iter().flatten() {
                data.features = gaussian_kernel(&data.features, &centres, gamma)?;
            }
        }
        Ok(divided)
    }

    /// The most rows of gaps that each group keeps; none if all of them stay.
    fn equal_groups(&self) -> Result<Option<usize>> {
        match &self.equal_groups {
            None | Some(Value::Boolean(false)) => Ok(None),
            Some(Value::Boolean(true)) => Ok(Some(usize::MAX)),
            Some(Value::Integer(most)) if *most > 0 => Ok(Some(*most as usize)),
            Some(other) => Err(wrong("equal_groups", other, "true, false, or the most rows that each group keeps")),
        }
    }

    fn split(&self) -> Result<Split> {
        let wanted = "\"ordered\", \"shared\" or { shuffle = SEED }";
        match &self.split {
            None => Ok(Split::Ordered),
            Some(Value::String(s)) if s == "ordered" => Ok(Split::Ordered),
            Some(Value::String(s)) if s == "shared" => Ok(Split::Shared),
            Some(Value::Table(t)) if t.len() == 1 => match t.get("shuffle") {
                Some(Value::Integer(seed)) if *seed >= 0 => Ok(Split::Shuffle(*seed as u64)),
                _ => Err(wrong("split", &Value::Table(t.clone()), wanted)),
            },
            Some(other) => Err(wrong("split", other, wanted)),
        }
    }
}

impl ProblemSpec {
    /// The problem on some rows. What is measured beside it may need the minimiser of its loss too.
    fn builder(&self, data: Data, measured: &[Wanted]) -> Result<Builder> {
        self.check_plan()?;
        let mut builder = Learning::on(data).intercept(self.intercept).minimize(self.minimize.parse()?);
        builder = match self.domain()? {
            None => builder,
            Some(Domain::Set(set)) => builder.domain(set),
            Some(Domain::TimesErm(times)) => builder.domain_times_erm(times),
        };
        builder = builder.needs_erm(self.starts_at_erm() || measured.iter().any(Wanted::needs_erm));
        if self.family()?.is_none() {
            for constraint in &self.subject_to {
                builder = builder.subject_to(constraint.parse()?);
            }
        }
        Ok(builder)
    }

    /// The family of constraints, if there is one; it stands alone.
    fn family(&self) -> Result<Option<Family>> {
        let mut found = None;
        for written in &self.subject_to {
            let bounded: Bounded = written.parse()?;
            let named = |(_, call): &(f64, Call)| [PAIRS, COVARIANCE].contains(&call.name.as_str());
            if !bounded.expression.pieces.iter().any(named) {
                // A family is no term, so that the list of terms would not help.
                for (_, call) in &bounded.expression.pieces {
                    let hint = did_you_mean(&call.name, [PAIRS, COVARIANCE]);
                    if !hint.is_empty() {
                        return Err(Error::Request(format!(
                            "'{}' is not known{hint}; expected a term, or one of the families {PAIRS} and {COVARIANCE}",
                            call.name
                        )));
                    }
                }
                continue;
            }
            let [(1.0, call)] = &bounded.expression.pieces[..] else {
                return Err(Error::Request(format!(
                    "'{written}': a family of constraints cannot be part of a sum or have a factor"
                )));
            };
            if self.subject_to.len() > 1 {
                return Err(Error::Request(format!("'{written}': a family of constraints stands alone in subject_to")));
            }
            if bounded.bound.best.is_some() {
                return Err(Error::Request(format!("'{written}'; expected a number as the bound of a family of constraints")));
            }
            let known = if call.name == COVARIANCE { "as_printed" } else { "collapsed" };
            if let Some((argument, _)) = call.arguments.iter().find(|(name, _)| name != known) {
                return Err(Error::Request(format!("argument of {} must be {known}, got '{argument}'", call.name)));
            }
            let yes = match call.arguments.first() {
                None => false,
                Some((_, Argument::Word(word))) if ["yes", "no"].contains(&word.as_str()) => word == "yes",
                Some((name, value)) => {
                    return Err(Error::Request(format!("{name} of {} must be \"yes\" or \"no\", got {value}", call.name)));
                }
            };
            let bound = bounded.bound.plus;
            found = Some(match call.name == PAIRS {
                true => Family::Pairs { bound, collapsed: yes },
                false => Family::Covariance { bound, as_printed: yes },
            });
        }
        if found.is_some() && self.plan != Plan::Eliminated {
            return Err(Error::Request("a family of constraints and a transport plan as a variable do not go together".into()));
        }
        Ok(found)
    }

    /// The domain; none where the problem is left to choose its own.
    fn domain(&self) -> Result<Option<Domain>> {
        let wanted = "\"all\", \"non-negative\", { ball = RADIUS }, { ball_times_erm = FACTOR } or { box = [LOW, HIGH] }";
        let wrong = |value: &Value| wrong("domain", value, wanted);
        let Some(value) = &self.domain else { return Ok(None) };
        let side = |side: &Value| number(side).ok_or_else(|| wrong(value));
        match value {
            Value::String(s) if s == "all" => return Ok(Some(Domain::set(WholeSpace))),
            Value::String(s) if s == "non-negative" => return Ok(Some(Domain::set(NonNegative))),
            Value::Table(t) if t.len() == 1 => match (t.get("ball"), t.get("ball_times_erm"), t.get("box")) {
                (Some(radius), None, None) => return Ok(Some(Domain::set(Ball::new(side(radius)?)?))),
                (None, Some(times), None) => return Ok(Some(Domain::TimesErm(side(times)?))),
                (None, None, Some(Value::Array(sides))) if sides.len() == 2 => {
                    return Ok(Some(Domain::set(Bounds::uniform(side(&sides[0])?, side(&sides[1])?)?)));
                }
                _ => {}
            },
            _ => {}
        }
        Err(wrong(value))
    }

    /// Refuses a plan that the objective has none of.
    fn check_plan(&self) -> Result<()> {
        let minimize: Expression = self.minimize.parse()?;
        if self.plan != Plan::Eliminated && minimize.to_string() != "wasserstein_gap" {
            return Err(Error::Request(format!(
                "plan = \"{}\" with minimize = \"{minimize}\"; expected minimize = \"wasserstein_gap\", whose transport plan can be a \
                 variable",
                self.plan.name()
            )));
        }
        if let (Some(rescale), Plan::Eliminated) = (self.rescale, self.plan) {
            return Err(Error::Request(format!(
                "rescale must be only where plan is \"joint\" or \"doubly-stochastic\", whose batches it is about, got {rescale}"
            )));
        }
        Ok(())
    }

    fn starts_at_erm(&self) -> bool {
        matches!(&self.start, Some(Value::String(s)) if s == "erm")
    }

    fn start(&self, problem: &Problem, base: &Path) -> Result<Vec<f64>> {
        let model = match problem {
            Problem::Bilevel(posed) => return Ok(posed.prepared.start.clone()),
            Problem::Model(model) => &**model,
            Problem::Joint(joint) => joint.model(),
            Problem::Many(many) => many.model(),
        };
        let start = match (self.starts_at_erm(), model.erm()) {
            (true, Some(erm)) => erm.minimizer.clone(),
            _ => self.named_start(model.dim(), problem.oracle().dim(), base)?,
        };
        match problem {
            // Given with its plan, or without one: then every row is paired with every other.
            Problem::Joint(joint) if start.len() == model.dim() => Ok(joint.start(&start)?),
            _ => Ok(start),
        }
    }

    /// Every start but "erm"; for a joint problem, with the plan or without.
    fn named_start(&self, dim: usize, all: usize, base: &Path) -> Result<Vec<f64>> {
        let wanted = "\"zero\", \"erm\", \"sin\", a list of numbers, or a file of numbers";
        let sized = |x: Vec<f64>, from: &str| {
            if x.len() == dim || x.len() == all {
                Ok(x)
            } else {
                let plan = if all > dim { format!(", {all} with its transport plan") } else { String::new() };
                Err(Error::Request(format!("{from} has {} numbers: the problem has {dim} variables{plan}", x.len())))
            }
        };
        let mut zero = vec![];
        // A mistyped column number of a data file can ask for more than there is.
        if zero.try_reserve_exact(dim).is_err() {
            return Err(Error::Request(format!("the problem has {dim} variables; expected as many as the memory can hold")));
        }
        zero.resize(dim, 0.0);
        match &self.start {
            None => Ok(zero),
            Some(Value::String(s)) if s == "zero" => Ok(zero),
            Some(Value::String(s)) if s == "sin" => Ok((1..=dim).map(|j| 0.01 * (j as f64).sin()).collect()),
            Some(Value::Array(list)) => {
                let x: Option<Vec<f64>> = list.iter().map(number).collect();
                sized(x.ok_or_else(|| wrong("start", &Value::Array(list.clone()), wanted))?, "start")
            }
            Some(value @ Value::String(s)) => {
                let file = base.join(s);
                if !file.exists() {
                    return Err(wrong("start", value, wanted));
                }
                sized(read_numbers(&file)?, &file.display().to_string())
            }
            Some(other) => Err(wrong("start", other, wanted)),
        }
    }
}

/// Every pair of a positive and a negative row.
const PAIRS: &str = "pairs";
/// Covariances with sensitive columns.
const COVARIANCE: &str = "covariance";

/// A family of constraints.
enum Family {
    Pairs { bound: f64, collapsed: bool },
    Covariance { bound: f64, as_printed: bool },
}

impl Family {
    fn pose(self, model: Learning, sensitive: Option<Attributes>) -> Result<ManyConstraints> {
        Ok(match (self, sensitive) {
            (Family::Pairs { bound, collapsed: false }, _) => ManyConstraints::pairs(model, bound)?,
            (Family::Pairs { bound, collapsed: true }, _) => ManyConstraints::pairs(model, bound)?.collapsed(),
            (Family::Covariance { bound, as_printed }, Some(attributes)) => {
                ManyConstraints::covariance(model, attributes, bound, as_printed)?
            }
            (Family::Covariance { .. }, None) => {
                return Err(Error::Request(
                    "covariance is about sensitive columns; expected sensitive = [COLUMNS] in [data]".into(),
                ));
            }
        })
    }
}

/// Where data come from.
enum Source<'a> {
    Synthetic(&'a str),
    StandIn(&'a Synth),
    Named(&'a str),
    File(&'a Path),
}

/// The coefficient of a Gaussian kernel.
enum Gamma {
    OneByColumns,
    Given(f64),
}

/// The rows of a run.
struct Divided {
    data: Data,
    held_out: Option<Data>,
    validation: Option<Data>,
    /// The sensitive columns of the training rows.
    attributes: Option<Attributes>,
}

/// Takes columns out of the features.
fn part(data: &mut Data, columns: &[usize]) -> Result<Attributes> {
    let (rows, width) = (data.features.rows(), data.features.cols());
    let mut place: Vec<Option<usize>> = (0..width).map(Some).collect();
    columns.iter().for_each(|&c| place[c] = None);
    let mut kept = 0;
    for slot in place.iter_mut().flatten() {
        *slot = kept;
        kept += 1;
    }
    let mut values = vec![vec![0.0; rows]; columns.len()];
    let mut entries = vec![0.0; rows * kept];
    for i in 0..rows {
        data.features.visit_row(i, |column, v| match place[column] {
            Some(to) => entries[i * kept + to] = v,
            None => columns.iter().zip(&mut values).filter(|(c, _)| **c == column).for_each(|(_, list)| list[i] = v),
        });
    }
    data.features = Matrix::dense(rows, kept, entries)?;
    Ok(Attributes { names: columns.iter().map(|c| format!("column {}", c + 1)).collect(), values })
}

/// A domain, with or without a reference value in it.
enum Domain {
    Set(Box<dyn Set>),
    TimesErm(f64),
}

impl Domain {
    fn set(set: impl Set + 'static) -> Self {
        Domain::Set(Box::new(set))
    }
}

/// Where relative paths in a spec start.
fn base_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Numbers separated by white space or commas; JSON brackets are skipped.
pub(crate) fn read_numbers(file: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::io(file, &e))?;
    let mut numbers = vec![];
    for (i, line) in text.lines().enumerate() {
        for word in line.split(|c: char| c.is_whitespace() || ",[]".contains(c)).filter(|w| !w.is_empty()) {
            match word.parse::<f64>() {
                Ok(v) if v.is_finite() => numbers.push(v),
                _ => {
                    let what = format!("'{word}' is not a finite number");
                    return Err(Error::Line { file: file.display().to_string(), line: i + 1, what });
                }
            }
        }
    }
    Ok(numbers)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(v) => Some(*v),
        Value::Integer(v) => Some(*v as f64),
        _ => None,
    }
}

fn wrong(key: &str, value: &Value, wanted: &str) -> Error {
    Error::Request(format!("{key} must be {wanted}, got {value}"))
}

/// Tells points apart.
fn fingerprint(x: &[f64]) -> u64 {
    x.iter().fold(0xCBF2_9CE4_8422_2325, |h, v| (h ^ v.to_bits()).rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// What a message about the inner solver ends with.
const IN_INNER: &str = "(in [solver.inner])";

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

/// Reads a spec from text; an error has its line.
fn deserialise(text: &str) -> Result<Spec, (usize, String)> {
    toml::from_str(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        let before = text.get(..span.start).unwrap_or_default();
        let value = text.get(span).filter(|value| !value.contains('\n')).unwrap_or_default();
        (before.matches('\n').count() + 1, sentence(e.message(), key_before(before), value))
    })
}

/// Settings from a table, every one with a default, with sentences for errors.
pub fn settings<T: DeserializeOwned>(table: toml::Table) -> Result<T> {
    // Key by key first: a message about the whole table would not say which key it is about.
    for (key, value) in &table {
        let alone = toml::Table::from_iter([(key.clone(), value.clone())]);
        if let Err(e) = Value::Table(alone).try_into::<T>() {
            return Err(Error::Request(sentence(e.message(), key, &value.to_string())));
        }
    }
    Value::Table(table).try_into().map_err(|e: toml::de::Error| Error::Request(sentence(e.message(), "", "")))
}

/// The reader's message as a sentence of ours: the key, its value, what was wanted, and the nearest known word for a mistyped
/// one. `key` and `value` are what stands at the place in question; empty if that is not known.
fn sentence(message: &str, key: &str, value: &str) -> String {
    let message = message.trim().replace('`', "'").replace('\n', ", ");
    let quoted: Vec<&str> = message.split('\'').skip(1).step_by(2).collect();
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown field"), quoted.as_slice()) {
        let hint = did_you_mean(unknown, known.iter().copied());
        return format!("key '{unknown}' is not known{hint}; expected one of {}", known.join(", "));
    }
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown variant"), quoted.as_slice()) {
        let hint = did_you_mean(unknown, known.iter().copied());
        return format!("{key} must be one of {}, got \"{unknown}\"{hint}", known.join(", "));
    }
    if let (true, [missing, ..]) = (message.starts_with("missing field"), quoted.as_slice()) {
        return match *missing {
            "data" => "the table [data] is missing; expected one with a name or a file".into(),
            "problem" => "the table [problem] is missing; expected one with minimize and subject_to".into(),
            "solver" => "the table [solver] is missing; expected one with the name of a solver and its settings".into(),
            "budget" => "the table [budget] is missing; expected one with iterations, passes, samples or seconds".into(),
            "minimize" => "the problem has no minimize; expected a term, for example minimize = \"hinge\"".into(),
            other => format!("the key '{other}' is missing"),
        };
    }
    let Some((found, expected)) = message.split_once(", expected ") else {
        return if key.is_empty() { message } else { format!("{key}: {message}") };
    };
    let wanted = match expected {
        "u64" | "usize" => "a whole number of at least 0",
        "f64" => "a number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    match (found.strip_prefix("invalid type: ").or(found.strip_prefix("invalid value: ")), key, value) {
        (Some(_), key, value) if !key.is_empty() && !value.is_empty() => format!("{key} must be {wanted}, got {value}"),
        (Some(found), ..) => format!("{found}; expected {wanted}"),
        (None, ..) => format!("{found}; expected {wanted}"),
    }
}

/// The key whose value begins at the end of `text`.
fn key_before(text: &str) -> &str {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let left = line.rsplit_once('=').map_or("", |(left, _)| left);
    left.rsplit(['{', ',']).next().unwrap_or_default().trim()
}

/// The line of `[solver]`, or of the key there that a message begins with or quotes.
fn solver_line(text: &str, message: &str) -> usize {
    let first = message.split([' ', '.', ':']).next().unwrap_or_default();
    let quoted = message.split('\'').nth(1).unwrap_or(first);
    let table = if message.ends_with(IN_INNER) { "[solver.inner" } else { "[solver" };
    let mut inside = false;
    let mut section = 1;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.starts_with(table);
            if line.starts_with("[solver]") || line.starts_with(&format!("{table}]")) {
                section = i + 1;
            }
        } else if inside && line.split('=').any(|part| [first, quoted].contains(&part.trim().trim_matches('"'))) {
            return i + 1;
        }
    }
    section
}
