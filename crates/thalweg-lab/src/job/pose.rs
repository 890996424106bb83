//! Builds the problem of a spec: loads and splits the data, and builds the terms on them.

use std::path::Path;

use thalweg::Note;
use thalweg::learn::{Best, Data, JointWasserstein, Learning, ManyConstraints, Split};
use thalweg::oracle::{Description, Subgradients};
use thalweg::solvers::Config;
use toml::Value;

use crate::bilevel;
use crate::data::catalogue::{self, LoadedData, Options};
use crate::spec::{Plan, RowSplit, Spec, base_of, number, read_numbers, wrong};
use crate::{Error, Result};

/// Problem of a spec on its data, without solver and options.
pub struct Instance {
    /// Problem on the training rows.
    pub problem: Problem,
    /// The same terms on the held-out rows.
    pub held_out: Option<Learning>,
    /// The same terms on the validation rows, for choosing settings.
    pub validation: Option<Learning>,
    /// sha256 of the data's text, compressed or not.
    pub fingerprint: String,
    /// Displayed name of the data.
    pub data_name: String,
    /// Notes about the data and the problem.
    pub notes: Vec<Note>,
}

/// Problem of a spec. Its first variables are those of the model.
pub enum Problem {
    /// Terms of a model.
    Model(Box<Learning>),
    /// The Wasserstein gap of a model, and the transport plan.
    Joint(Box<JointWasserstein>),
    /// A model subject to a family of constraints.
    Many(Box<ManyConstraints>),
    /// A bilevel problem, which has no model.
    Bilevel(Box<bilevel::BilevelInstance>),
}

impl Problem {
    /// Returns the oracle that solvers and certificates evaluate.
    pub fn oracle(&self) -> &dyn Subgradients {
        match self {
            Problem::Model(problem) => &**problem,
            Problem::Joint(problem) => &**problem,
            Problem::Many(problem) => &**problem,
            Problem::Bilevel(problem) => problem.single(),
        }
    }

    /// Returns the bound of constraint `j`; constraint values are relative to it.
    pub fn bound(&self, j: usize) -> f64 {
        match self {
            Problem::Many(problem) => problem.bound(),
            _ => self.model().map_or(0.0, |model| model.bound(j)),
        }
    }

    /// Returns the model of a problem whose bounds can be changed or certified one by one. Families of constraints, which share
    /// one bound, and bilevel problems are rejected.
    pub(crate) fn terms(&self, command: &str) -> Result<&Learning> {
        match self {
            Problem::Many(problem) => Err(Error::Request(format!(
                "{command} needs constraints one by one, but this problem has a family of {}; use terms as constraints, or thalweg solve",
                problem.num_constraints()
            ))),
            Problem::Bilevel(_) => Err(Error::Request(format!(
                "{command} needs a model, but this is a bilevel problem; use terms, or thalweg solve"
            ))),
            Problem::Model(problem) => Ok(problem),
            Problem::Joint(problem) => Ok(problem.model()),
        }
    }

    /// Returns the model with its rows, bounds and reference values; `None` for a bilevel problem.
    pub fn model(&self) -> Option<&Learning> {
        match self {
            Problem::Model(problem) => Some(problem),
            Problem::Joint(problem) => Some(problem.model()),
            Problem::Many(problem) => Some(problem.model()),
            Problem::Bilevel(_) => None,
        }
    }

    /// Returns the reference values of the model.
    pub fn references(&self) -> &[Best] {
        self.model().map_or(&[], Learning::references)
    }

    /// Returns [`Problem::model`] for changing its bounds.
    pub fn model_mut(&mut self) -> Option<&mut Learning> {
        match self {
            Problem::Model(problem) => Some(problem),
            Problem::Joint(problem) => Some(problem.model_mut()),
            Problem::Many(problem) => Some(problem.model_mut()),
            Problem::Bilevel(_) => None,
        }
    }

    /// Returns the model part of a point; a joint problem appends the transport plan.
    pub fn of_model<'x>(&self, x: &'x [f64]) -> &'x [f64] {
        self.model().and_then(|model| x.get(..model.dim())).unwrap_or(x)
    }
}

/// Loads the data of a spec and builds its problem. Relative paths start at the directory of `file`, which the spec was read
/// from.
pub fn pose(spec: &Spec, file: &Path, options: &Options) -> Result<Instance> {
    let loaded = match spec.data.bilevel {
        Some(_) => None,
        None => Some(spec.data.load(base_of(file), options)?),
    };
    pose_loaded(spec, file, options, loaded, &[])
}

/// Builds the problem as [`pose()`] does, from loaded data (`None` for a bilevel problem, which includes its own) and with
/// known reference values of the same problem on the same rows.
pub fn pose_loaded(
    spec: &Spec,
    file: &Path,
    options: &Options,
    loaded: Option<LoadedData>,
    references: &[Best],
) -> Result<Instance> {
    if let Some(named) = spec.bilevel()? {
        return pose_bilevel(spec, &named, file, options);
    }
    let measured = spec.metric_kinds()?;
    let loaded = loaded.map_or_else(|| spec.data.load(base_of(file), options), Ok)?;
    let (mut notes, fingerprint) = (loaded.notes.clone(), loaded.fingerprint.clone());
    let data_name = catalogue::called(&spec.data.called(), loaded.stand_in.as_deref());
    let RowSplit { data, held_out, validation, attributes } = spec.data.divide(loaded, spec.seed)?;
    let family = spec.problem.family()?;
    // A family has constraints on all rows, so they are shared.
    let split = if family.is_some() { Split::Shared } else { spec.data.split()? };
    let equal_groups = spec.data.equal_groups()?;
    let terms = spec.problem.terms(&measured)?;
    let model = terms.on(data).split(split).equal_groups(equal_groups).references(references.to_vec()).build()?;
    notes.extend(model.references().iter().map(Note::reference));
    // Held-out rows are only measured, with the bounds and thresholds of training.
    let measured_on = |rows: Option<Data>, what: &str| {
        let built = rows.map(|rows| terms.on(rows).split(Split::Shared).held_out_of(&model).build()).transpose();
        built.map_err(|e| Error::Request(format!("the {what} rows cannot be used: {e}")))
    };
    let (held_out, validation) = (measured_on(held_out, "held-out")?, measured_on(validation, "validation")?);
    let problem = match (family, spec.problem.plan) {
        (Some(family), _) => {
            let many = family.pose(model, attributes)?;
            notes.push(Note::ConstraintCount { constraints: many.num_constraints() });
            Problem::Many(Box::new(many))
        }
        (None, Plan::Eliminated) => Problem::Model(Box::new(model)),
        (None, plan) => {
            let joint = joint(model, plan, spec.problem.rescale.unwrap_or(false))?;
            notes.push(joint_note(&joint));
            Problem::Joint(Box::new(joint))
        }
    };
    Ok(Instance { problem, held_out, validation, fingerprint, data_name, notes })
}

fn pose_bilevel(spec: &Spec, named: &bilevel::BilevelSpec, file: &Path, options: &Options) -> Result<Instance> {
    let start = match &spec.problem.start {
        None => None,
        Some(Value::Array(list)) if list.iter().all(|v| number(v).is_some()) => Some(list.iter().filter_map(number).collect()),
        Some(Value::String(name)) => Some(read_numbers(&base_of(file).join(name))?),
        Some(other) => {
            return Err(wrong("start", other, "a list of numbers, one for each outer variable, or a file of them"));
        }
    };
    let multipliers = !matches!(spec.solver()?, Some(Config::Sipba(_)));
    let posed = bilevel::FormSpec::read(spec.problem.bilevel.as_ref())?.pose(named, start, multipliers, options)?;
    let (fingerprint, notes, data_name) = (named.fingerprint(), posed.notes(), spec.data.called());
    let problem = Problem::Bilevel(Box::new(posed));
    Ok(Instance { problem, held_out: None, validation: None, fingerprint, data_name, notes })
}

fn joint(model: Learning, plan: Plan, rescale: bool) -> Result<JointWasserstein> {
    let joint = JointWasserstein::new(model)?.rescale(rescale);
    Ok(if plan == Plan::DoublyStochastic { joint.doubly_stochastic()? } else { joint })
}

fn joint_note(joint: &JointWasserstein) -> Note {
    let constant = joint.objective_modulus().map_or(f64::NAN, |m| m.value);
    Note::TransportPlan { sides: joint.sides(), constant, published: joint.printed_constant() }
}
