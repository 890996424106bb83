//! A run described in TOML, and the ready objects that it becomes. Every key is checked here, once; unknown ones are errors
//! that suggest the nearest known one.

mod data;
mod messages;
mod problem;
mod schema;
pub mod solver;

use std::path::Path;
use std::sync::Arc;

use thalweg::assess::{Measures, Switching};
use thalweg::auto::Work;
use thalweg::certify;
use thalweg::learn::{Best, Data, Groups, JointWasserstein, Learning, Split};
use thalweg::math::Matrix;
use thalweg::oracle::{Description, Warm};
use thalweg::run::{self, Metric};
use thalweg::solvers::AnySolver;
use toml::Value;

use self::data::Divided;
use self::messages::{deserialise, number, sentence, solver_line, wrong};
use self::solver::PreparedSolver;
use crate::bilevel;
use crate::data::catalogue::{self, Options};
use crate::metrics::{Wanted, metrics};
use crate::{Error, Result};

pub use self::messages::settings;
pub use self::problem::Problem;
pub use self::schema::{DataSpec, Plan, ProblemSpec, Spec};

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
    /// The work of trial runs, which a time limit covers too.
    pub work: Work,
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

    /// Loads the data and builds everything. `file` is where the spec came from; relative paths start there.
    pub fn ready(&self, file: &Path, options: &Options) -> Result<Ready> {
        self.check()?;
        let posed = self.pose(file, options)?;
        let equipped = self.equip(&posed, file)?;
        Ok(Ready { posed, equipped })
    }

    /// Builds what a run needs beside its problem, which is that of this spec. Paths as in [`Spec::ready`].
    pub fn equip(&self, posed: &Posed, file: &Path) -> Result<Equipped> {
        let problem = posed.problem.oracle();
        let mut certificate = self.certificate()?;
        let start = self.problem.start(&posed.problem, base_of(file))?;
        // A start outside the domain is moved into it before anything is measured there.
        let mut inside = start.clone();
        problem.domain().project(&mut inside, &mut Warm::default())?;
        certificate.check(problem, &inside)?;
        let metrics = match &posed.problem {
            Problem::Bilevel(posed) => bilevel::metrics(self.measure.as_deref(), posed)?,
            _ => metrics(self.measure.as_deref(), posed)?,
        };
        let options = self.options(Measures::default(), None);
        let PreparedSolver { solver, settings: words, relaxed, notes, work } =
            self.prepare_solver(&posed.problem, &start, &options)?;
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
        Ok(Equipped { start, solver, settings, certificate, metrics, relaxed, notes, work })
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
            let wanted =
                "\"none\", \"bounds\", \"switching\", or a table with bounds = { … }, switching = { … } or penalised = { … }";
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

/// The names of the certificate of the switching subgradient method; the second is that of older specs.
const SWITCHING: [&str; 2] = ["switching", "ssg"];

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

/// Tells points apart.
fn fingerprint(x: &[f64]) -> u64 {
    x.iter().fold(0xCBF2_9CE4_8422_2325, |h, v| (h ^ v.to_bits()).rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
