//! Trains a model on a user's file. The training itself is in the library, the file format of models in [`crate::model`].

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg::Note;
use thalweg::auto::{self, Choice};
use thalweg::error::quoted;
use thalweg::learn::{
    Data, Enforce, FitOptions, Groups, Learning, Regularization, Regularized, RowSplit, Unseen, count_rows, fit, fit_unseen,
    training_config, with_training_defaults,
};
use thalweg::math::Matrix;
use thalweg::math::sigmoid::sigmoid;
use thalweg::oracle::Description;
use thalweg::run::{self, Budget, Observer, Row};
use thalweg::sets::{Ball, Set, WholeSpace};
use thalweg::solvers::{Config, Interface, Schedule, registry};

use crate::by_group::ScoredRows;
use crate::data::catalogue::load_wide_file;
use crate::data::columns::{select_columns, used_columns};
use crate::data::limits;
use crate::data::table::{CellFormat, Table};
use crate::encode::{CoarserGroups, Encoding, Grouping, Labels, weights};
use crate::job::{self, ModelTerms};
use crate::model::{ColumnQuality, Input, Measurements, Model, Quality, Reference, Rows, Training, Weight};
use crate::output::{check_writable, is_same_file, write_whole};
use crate::spec::solver;
use crate::{Error, Result};

/// Training request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Data file.
    pub file: PathBuf,
    /// Label column of a table; without it the file is read as LIBSVM.
    pub label: Option<String>,
    /// Value of the positive label.
    pub positive: Option<String>,
    /// Columns whose combinations are the groups, each as `COL` or `COL=VALUE`; for LIBSVM the number of one column.
    pub group: Vec<String>,
    /// Columns to exclude.
    pub leave_out: Vec<String>,
    /// Columns of numbers that are codes of categories.
    pub categorical: Vec<String>,
    /// Column of row weights.
    pub weights: Option<String>,
    /// Objective.
    pub minimize: String,
    /// Regulariser that is added to the objective.
    pub regularization: Regularization,
    /// Constraints.
    pub subject_to: Vec<String>,
    /// Set that the weights stay in, as parsed by [`Domain`]; `None` for the default of the problem.
    pub domain: Option<String>,
    /// Name of the solver.
    pub solver: String,
    /// Settings of the solver, `name=value`.
    pub set: Vec<String>,
    /// Share of held-out rows.
    pub test_fraction: f64,
    /// Limits of training; the library's default if empty.
    pub budget: Budget,
    /// Whether measured rates or surrogates must satisfy their bounds.
    pub enforce: Enforce,
    /// Promise about unseen rows, with the share of the rows for its safety set; `None` for bounds on the training rows.
    pub unseen: Option<(Unseen, f64)>,
    /// Random seed of the split and of the runs.
    pub seed: u64,
    /// Number of threads for sums over rows.
    pub threads: usize,
    /// Ends the run at its next step when set by another thread.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Trained model with its trace and notes.
pub struct TrainedModel {
    /// Model.
    pub model: Model,
    /// Recorded iterates.
    pub trace: Vec<Row>,
    /// Number of samples read in training.
    pub samples: u64,
    /// Problem that it was trained on, for computing scores.
    pub problem: Learning,
    /// The same problem on the held-out rows, if they were measured.
    pub held_out: Option<Learning>,
    /// Messages for the user.
    pub notes: Vec<Note>,
}

/// Set for the weights and the intercept: the whole space (`all`) or a ball around 0 (its radius).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// Whole space.
    All,
    /// Ball around 0 with this radius.
    Ball(f64),
}

impl FromStr for Domain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Domain::All);
        }
        let radius = text.parse().ok().filter(|&radius: &f64| radius > 0.0 && radius.is_finite());
        let wanted = || {
            Error::Request(format!("--domain {}; expected all, or the radius of a ball, a finite number above 0", quoted(text)))
        };
        radius.map(Domain::Ball).ok_or_else(wanted)
    }
}

impl Domain {
    /// The set itself.
    pub fn set(self) -> Result<Arc<dyn Set>> {
        Ok(match self {
            Domain::All => Arc::new(WholeSpace),
            Domain::Ball(radius) => Arc::new(Ball::new(radius)?),
        })
    }
}

/// Parses the domain of a request or of a model file.
pub(crate) fn parse_domain(text: &str) -> Result<job::Domain> {
    Ok(job::Domain::Set(text.parse::<Domain>()?.set()?))
}

/// Problem read from a file, before training.
pub struct TrainingProblem {
    input: Input,
    names: Vec<String>,
    problem: Learning,
    /// Problem on the safety set, and what is to be promised.
    safety: Option<(Learning, Unseen)>,
    held_out: Option<Learning>,
    fingerprint: String,
    stand_in: Option<String>,
    /// Objective with its regularisation, and the factor of that.
    minimize: String,
    regularization: f64,
    notes: Vec<Note>,
}

impl TrainingProblem {
    /// Returns the objective, with the regulariser that was added to it.
    pub fn minimize(&self) -> &str {
        &self.minimize
    }

    /// Returns the training problem.
    pub fn problem(&self) -> &Learning {
        &self.problem
    }

    /// Returns the training problem, whose bounds may be changed, and the one on the held-out rows.
    pub fn problems(&mut self) -> (&mut Learning, Option<&Learning>) {
        (&mut self.problem, self.held_out.as_ref())
    }

    /// Returns the warnings that are known before training.
    pub fn warnings(&self) -> Result<Vec<Note>> {
        let mut found = match &self.safety {
            Some((safety, unseen)) => safety.promise_notes(unseen.confidence)?,
            None => self.problem.group_notes()?,
        };
        found.extend(self.notes.iter().filter(|note| note.is_warning()).cloned());
        Ok(found)
    }

    /// Returns messages for the user.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Measures another model of the same features on the training and held-out rows.
    pub fn measure(&self, model: &Model) -> Result<(Quality, Option<Quality>)> {
        let x: Vec<f64> = model.weights.iter().map(|w| w.weight).chain([model.intercept]).collect();
        let columns = self.input.by_column();
        let of = |problem| quality(problem, &x, &columns);
        Ok((of(&self.problem)?, self.held_out.as_ref().map(of).transpose()?))
    }
}

impl Request {
    /// Returns a request with all defaults: minimise the logistic loss of a label column without constraints.
    pub fn new(file: impl Into<PathBuf>, label: impl Into<String>) -> Self {
        Request {
            file: file.into(),
            label: Some(label.into()),
            positive: None,
            group: vec![],
            leave_out: vec![],
            categorical: vec![],
            weights: None,
            minimize: "logistic".into(),
            regularization: Regularization::Auto,
            subject_to: vec![],
            domain: None,
            solver: auto::NAME.into(),
            set: vec![],
            test_fraction: 0.2,
            budget: Budget::default(),
            enforce: Enforce::Measured,
            unseen: None,
            seed: 0,
            threads: 1,
            stop: None,
        }
    }

    /// Reads and checks everything; rejects what cannot be trained.
    pub fn prepare(&self) -> Result<TrainingProblem> {
        self.options()?;
        // Terms are parsed before the file, so that a typing error is reported before a million rows are read.
        let terms = self.terms()?;
        terms.on_sample(!self.group.is_empty())?.check().map_err(name_option)?;
        self.regularization.add_to(&terms.minimize, 1.0)?;
        if let Some((unseen, fraction)) = &self.unseen {
            unseen.validate()?;
            if !(*fraction > 0.0 && *fraction < 1.0) {
                return Err(Error::Request(format!("--safety-fraction {fraction}; expected a number between 0 and 1")));
            }
        }
        if !(0.0..1.0).contains(&self.test_fraction) {
            let what = format!("--test-fraction {}; expected a number from 0 to below 1", self.test_fraction);
            return Err(Error::Request(what));
        }
        match &self.label {
            Some(label) => self.prepare_table(label, &Table::read(&self.file)?, &terms),
            None => self.prepare_libsvm(&terms),
        }
    }

    /// As [`Request::prepare`], for a table in memory.
    pub fn prepare_with(&self, table: &Table) -> Result<TrainingProblem> {
        let label = self.label.as_deref().ok_or_else(|| table.bad("needs a label column"))?;
        self.prepare_table(label, table, &self.terms()?)
    }

    fn terms(&self) -> Result<ModelTerms> {
        Ok(ModelTerms {
            minimize: self.minimize.parse()?,
            subject_to: self.subject_to.iter().map(|c| c.parse()).collect::<thalweg::Result<_>>()?,
            intercept: true,
            domain: self.domain.as_deref().map(parse_domain).transpose()?,
            needs_erm: false,
        })
    }

    /// Adds the regulariser to the objective, whose factor depends on the number of training rows.
    fn regularized(&self, terms: &ModelTerms, training: &Data) -> Result<(ModelTerms, Regularized)> {
        let rows = count_rows(training.labels.len(), training.weights.as_deref());
        let added = self.regularization.add_to(&terms.minimize, rows)?;
        Ok((ModelTerms { minimize: added.objective.clone(), ..terms.clone() }, added))
    }

    fn prepare_table(&self, label: &str, all: &Table, terms: &ModelTerms) -> Result<TrainingProblem> {
        let (labels, signs, mut notes) = Labels::learn(all, label, self.positive.as_deref())?;
        let (mut grouping, mut groups) = (None, None);
        if !self.group.is_empty() {
            let (found, of_rows, more) = Grouping::learn(all, &self.group)?;
            notes.extend(more);
            (grouping, groups) = (Some(found), Some(of_rows));
        }
        // Checked on all rows, so that messages do not depend on which ones are held out.
        let weights = self.weights.as_ref().map(|c| weights(all, c)).transpose()?;
        let RowSplit { training: training_rows, safety, test: held } = self.split(&signs, groups.as_ref())?;
        let table = all.select(&training_rows);
        let mut leave_out = self.leave_out.clone();
        leave_out.extend(self.weights.clone());
        // The encoding is learned from the training rows alone, so that nothing leaks from the others.
        let (encoding, more) = Encoding::learn_with(&table, label, &leave_out, &self.categorical)?;
        notes.extend(more);
        let names = encoding.names();
        if names.is_empty() {
            return Err(all.lacks("column to learn from"));
        }
        let input = Input::Table { encoding, labels, grouping };
        let data = |t: &Table, rows: &[usize]| -> Result<(Data, Vec<Note>)> {
            let Rows { features, labels, groups, notes } = input.rows(t)?;
            let labels = labels.ok_or_else(|| t.lacks(format!("labels in column '{label}'")))?;
            let weights = weights.as_ref().map(|w| rows.iter().map(|&i| w[i]).collect());
            Ok((Data { features, labels, groups, weights }, notes))
        };
        let (training, _) = data(&table, &training_rows)?;
        let (terms, regularized) = self.regularized(terms, &training)?;
        let problem = build(training, &terms, None).map_err(|e| {
            // Groups or labels may have too few rows for the requested terms.
            Error::Request(format!("{}: {e}", all.file()))
        })?;
        notes.extend(problem.references().iter().map(Note::reference));
        notes.extend(giveaways(&problem, &names));
        notes.extend(chosen_domain(&terms, &problem));
        notes.extend(regularized.note);
        let safety = match self.unseen {
            None => None,
            Some((unseen, _)) => Some((safety_set(data(&all.select(&safety), &safety)?.0, &terms, &problem)?, unseen)),
        };
        let held_out = if held.is_empty() { None } else { Some(data(&all.select(&held), &held)?) };
        let held_out = held_out.and_then(|(data, more)| {
            notes.extend(more.into_iter().map(|note| Note::OnHeldOutRows { note: Box::new(note) }));
            build_held_out(data, &terms, &problem, &mut notes)
        });
        let (fingerprint, stand_in) = (all.fingerprint().into(), None);
        let (minimize, regularization) = (terms.minimize.to_string(), regularized.factor);
        Ok(TrainingProblem { input, names, problem, safety, held_out, fingerprint, stand_in, minimize, regularization, notes })
    }

    fn prepare_libsvm(&self, terms: &ModelTerms) -> Result<TrainingProblem> {
        if self.positive.is_some() || self.weights.is_some() || !self.leave_out.is_empty() || !self.categorical.is_empty() {
            let what = "--positive, --weights, --leave-out and --categorical speak of columns of a table; expected --label COL \
                        beside them";
            return Err(Error::Request(what.into()));
        }
        let group = match self.group.as_slice() {
            [] => None,
            [spec] => Some(spec.parse::<usize>().ok().filter(|&g| g > 0).ok_or_else(|| {
                Error::Request(format!(
                    "--group {spec}; expected the number of a column, because without --label the file is LIBSVM"
                ))
            })?),
            [_, second, ..] => {
                let what = format!(
                    "--group {second} is the second group column; expected one, because without --label the file is LIBSVM"
                );
                return Err(Error::Request(what));
            }
        };
        let read_as_libsvm = |e: Error| match e {
            Error::Line { file, line, what } => {
                let what = format!("{what} (read as LIBSVM, because there is no --label; for a table give --label COL)");
                Error::Line { file, line, what }
            }
            other => other,
        };
        let mut loaded = load_wide_file(&self.file, None, group).map_err(read_as_libsvm)?;
        let (positive, negative) = loaded.classes;
        let mut notes = loaded.notes;
        let columns = loaded.data.features.cols();
        let used = if columns > limits::columns() { used_columns(&loaded.data.features) } else { vec![] };
        if !used.is_empty() {
            loaded.data.features = select_columns(&loaded.data.features, &used)?;
            notes.push(Note::ColumnsLeftOut { columns, used: used.len() });
        }
        let split = self.split(&loaded.data.labels, loaded.data.groups.as_ref())?;
        let [training, safety, held] = [&split.training, &split.safety, &split.test].map(|rows| loaded.data.select(rows));
        let (terms, regularized) = self.regularized(terms, &training)?;
        let problem = build(training, &terms, None)?;
        notes.extend(problem.references().iter().map(Note::reference));
        let input = Input::Libsvm { columns, used, positive: positive.to_string(), negative: negative.to_string(), group };
        let names = input.feature_names();
        notes.extend(giveaways(&problem, &names));
        notes.extend(chosen_domain(&terms, &problem));
        notes.extend(regularized.note);
        let safety = match self.unseen {
            None => None,
            Some((unseen, _)) => Some((safety_set(safety, &terms, &problem)?, unseen)),
        };
        let held_out = if held.labels.is_empty() { None } else { build_held_out(held, &terms, &problem, &mut notes) };
        Ok(TrainingProblem {
            names,
            input,
            problem,
            safety,
            held_out,
            fingerprint: loaded.fingerprint,
            stand_in: loaded.stand_in,
            minimize: terms.minimize.to_string(),
            regularization: regularized.factor,
            notes,
        })
    }

    /// Splits the rows for training, the safety set, and measuring.
    fn split(&self, labels: &[f64], groups: Option<&Groups>) -> Result<RowSplit> {
        let safety_fraction = self.unseen.map(|(_, fraction)| fraction);
        let split = RowSplit::new(labels, groups, self.test_fraction, safety_fraction, self.seed)?;
        if safety_fraction.is_some() && split.safety.is_empty() {
            return Err(Error::Request("the safety set has no rows; expected a larger --safety-fraction or more rows".into()));
        }
        Ok(split)
    }

    /// Returns the options of training.
    pub fn options(&self) -> Result<FitOptions> {
        let defaults = FitOptions::default();
        let mut table = toml::Table::new();
        for pair in &self.set {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Error::Request(format!("--set {}; expected name=value, for example --set eta=0.5", quoted(pair)))
            })?;
            // A bare word is a string; everything else is TOML.
            let value = format!("v = {value}")
                .parse::<toml::Table>()
                .ok()
                .and_then(|mut t| t.remove("v"))
                .unwrap_or_else(|| toml::Value::String(value.trim().into()));
            table.insert(name.trim().into(), value);
        }
        let base = FitOptions {
            budget: if self.budget == Budget::default() { defaults.budget.clone() } else { self.budget.clone() },
            enforce: self.enforce,
            seed: self.seed,
            threads: self.threads,
            interrupt: self.stop.clone(),
            ..defaults
        };
        options(&self.solver, table, base)
    }

    /// Trains the model.
    pub fn train(&self, mut prepared: TrainingProblem, observer: &mut (dyn Observer + Send)) -> Result<TrainedModel> {
        let start = vec![0.0; prepared.problem.dim()];
        let options = self.options()?;
        let (fitted, promise) = match &prepared.safety {
            Some((safety, unseen)) => {
                let (fitted, promise) = fit_unseen(&mut prepared.problem, safety, &start, &options, unseen, observer)?;
                (fitted, Some(promise))
            }
            None => (fit(&mut prepared.problem, &start, &options, observer)?, None),
        };
        let TrainingProblem {
            input, names, problem, held_out, fingerprint, stand_in, minimize, regularization, mut notes, ..
        } = prepared;
        let x = fitted.point.x.clone();
        notes.extend(Note::threads(self.threads));
        notes.extend(fitted.notes);
        let columns = input.by_column();
        // An error on held-out rows must not lose a trained model.
        let held_out = held_out.and_then(|held| {
            let measured = quality(&held, &x, &columns);
            measured.map(|q| (held, q)).map_err(|e| notes.push(Note::HeldOutNotMeasured { reason: e.to_string() })).ok()
        });
        let (held_out, of_held_out) = held_out.unzip();
        let (weights, intercept) = x.split_at(names.len());
        let (format, thalweg) = Model::current();
        let model = Model {
            format,
            thalweg,
            input,
            weights: names.into_iter().zip(weights).map(|(feature, &weight)| Weight { feature, weight }).collect(),
            intercept: intercept[0],
            training: Training {
                minimize,
                regularization: Some(regularization),
                subject_to: self.subject_to.clone(),
                domain: self.domain.clone(),
                references: problem.references().iter().map(Reference::from).collect(),
                enforce: self.enforce,
                solver: fitted.solver,
                eta: fitted.eta.map_or(String::new(), |eta| eta.to_string()),
                reasons: fitted.choice.map_or_else(Vec::new, |choice| reasons(&choice, self.seed)),
                settings: self.set.join(", "),
                seed: self.seed,
                file: self.file.display().to_string(),
                fingerprint,
                stand_in,
                test_fraction: self.test_fraction,
                safety_fraction: self.unseen.map(|(_, fraction)| fraction),
                row_weights: self.weights.clone(),
                intercept: true,
            },
            measured: Measurements {
                feasible: fitted.feasible,
                promise,
                constraints: fitted.constraints,
                ended: fitted.ended,
                stationary: fitted.stationary,
                slope: fitted.slope,
                rounds: fitted.rounds,
                iterations: fitted.iterations,
                passes: fitted.passes,
                seconds: fitted.seconds,
                warnings: notes.iter().filter(|note| note.is_warning()).cloned().collect(),
                training: quality(&problem, &x, &columns)?,
                held_out: of_held_out,
            },
        };
        Ok(TrainedModel { model, trace: fitted.trace, samples: fitted.samples, problem, held_out, notes })
    }
}

/// Returns the options of training with a solver, by name, and its settings; everything else is taken from `base`.
pub fn options(name: &str, table: toml::Table, base: FitOptions) -> Result<FitOptions> {
    let named = registry::offered_by(Interface::Fit);
    let mut options = FitOptions { solver: None, ..base };
    if name == auto::NAME {
        if let Some((setting, _)) = table.iter().next() {
            let what =
                format!("setting '{setting}' belongs to a solver; expected one of the solvers {} beside it", named.join(", "));
            return Err(Error::Request(what));
        }
    } else {
        let known: Vec<&str> = [auto::NAME].into_iter().chain(named).collect();
        let name = solver::known_name(name, "solver", &known)?;
        let given: Vec<String> = table.keys().cloned().collect();
        let given = |key: &str| given.iter().any(|given| given == key);
        let config = with_training_defaults(solver::named(name, table)?, given);
        if let Config::Ssg(settings) = &config {
            options.eta = given("eta").then_some(settings.eta);
            options.tol = match settings.tol {
                _ if !given("tol") => None,
                Schedule::Constant(tol) => Some(tol),
                other => return Err(Error::Request(format!("tol must be a number, got {other}"))),
            };
        }
        options.solver = Some(config);
    }
    options.validate()?;
    Ok(options)
}

/// Explains why a solver was chosen, and which settings repeat the training.
fn reasons(choice: &Choice, seed: u64) -> Vec<Note> {
    solver::explain(choice, &training_config(choice.config.name()), Some(seed))
}

/// Returns a warning for each feature that gives the label away.
fn giveaways(problem: &Learning, names: &[String]) -> impl Iterator<Item = Note> {
    let found = problem.features_that_give_the_label_away().into_iter();
    found.map(|(j, balanced_accuracy)| Note::LabelGivenAway { feature: names[j].clone(), balanced_accuracy })
}

/// Describes the default domain of the problem, if it is not the whole space.
fn chosen_domain(terms: &ModelTerms, problem: &Learning) -> Option<Note> {
    let domain = problem.domain();
    let chosen = terms.domain.is_none() && domain.describe() != WholeSpace.describe();
    chosen.then(|| Note::DomainChosen { domain: domain.describe() })
}

/// Builds the problem; held-out rows are measured against the values of the training problem.
fn build(data: Data, terms: &ModelTerms, trained: Option<&Learning>) -> Result<Learning> {
    let builder = terms.on(data);
    let builder = match trained {
        Some(trained) => builder.held_out_of(trained),
        None => builder,
    };
    builder.build().map_err(name_option)
}

/// Builds the problem on held-out rows. Without a row of every group there the constraints may not be defined; it then has none,
/// so that accuracies and rates by group are measured all the same.
fn build_held_out(data: Data, terms: &ModelTerms, trained: &Learning, notes: &mut Vec<Note>) -> Option<Learning> {
    let spare = data.groups.is_some().then(|| data.clone());
    let error = match build(data, terms, Some(trained)) {
        Ok(problem) => return Some(problem),
        Err(error) => error.to_string(),
    };
    let unconstrained = ModelTerms { subject_to: vec![], ..terms.clone() };
    let built = spare.and_then(|data| build(data, &unconstrained, Some(trained)).ok());
    notes.push(match built {
        Some(_) => Note::HeldOutConstraintsNotMeasured { reason: error },
        None => Note::HeldOutNotMeasured { reason: error },
    });
    built
}

/// Builds the problem on the safety set.
fn safety_set(data: Data, terms: &ModelTerms, trained: &Learning) -> Result<Learning> {
    build(data, terms, Some(trained)).map_err(|e| Error::Request(format!("safety set: {e}")))
}

/// Adds the option that would resolve the error.
fn name_option(error: thalweg::Error) -> Error {
    match error {
        error @ thalweg::Error::MissingGroups(_) => Error::Request(format!("{error} with --group COL or --group COL=VALUE")),
        other => other.into(),
    }
}

/// Measures a model on the rows of a problem, also by coarser groups than those of the problem.
pub fn quality(problem: &Learning, x: &[f64], by_column: &[CoarserGroups]) -> Result<Quality> {
    let point = run::measure(problem, x, 0.0)?;
    let scores = problem.scores(x)?;
    let data = problem.data();
    let rows = ScoredRows { scores: &scores, labels: &data.labels, weights: data.weights.as_deref() };
    let all = rows.all();
    let coarser = |groups: &Groups, column: &CoarserGroups| ColumnQuality {
        column: column.column.clone(),
        groups: rows.by_group(&column.names, groups.of_row.iter().map(|&k| column.of_group[k as usize])),
    };
    Ok(Quality {
        rows: scores.len(),
        positive: all.positive(),
        predicted: all.predicted(),
        accuracy: all.accuracy(),
        objective: point.objective,
        constraints: point.constraints.iter().enumerate().map(|(j, c)| c.value + problem.bound(j)).collect(),
        measured: problem.measured(x)?,
        groups: data.groups.iter().flat_map(|g| rows.by_group(&g.names, g.of_row.iter().copied())).collect(),
        by_column: data.groups.iter().flat_map(|g| by_column.iter().map(|column| coarser(g, column))).collect(),
    })
}

/// Column of a table that identifies its rows.
pub struct Identifiers {
    /// Name of the column.
    pub name: String,
    /// Its cells.
    pub cells: Vec<String>,
}

/// Formats score and label of each row as CSV, after the identifier of the row, if there are identifiers. If the scores are
/// log-odds, their logistic function is between the two.
pub fn predictions(model: &Model, features: &Matrix, identifiers: Option<&Identifiers>, format: CellFormat) -> String {
    let (yes, no) = model.answers();
    let mut text = String::new();
    let start = |text: &mut String, cell: &str| {
        text.push_str(&format.quote(cell));
        text.push(',');
    };
    if let Some(Identifiers { name, .. }) = identifiers {
        start(&mut text, name);
    }
    let probabilities = model.has_probabilities();
    text += if probabilities { "score,probability,label\n" } else { "score,label\n" };
    for (i, score) in model.scores(features).into_iter().enumerate() {
        if let Some(Identifiers { cells, .. }) = identifiers {
            start(&mut text, &cells[i]);
        }
        let label = format.quote(if score > 0.0 { yes } else { no });
        let probability = if probabilities { format!("{},", sigmoid(score)) } else { String::new() };
        text += &format!("{score},{probability}{label}\n");
    }
    text
}

/// Output directory. It is created before any work is done, and removed again if nothing was written to it.
pub struct Directory {
    path: PathBuf,
    /// Created directories, innermost first.
    made: Vec<PathBuf>,
}

impl Directory {
    /// Creates the directory, and checks that these files can be written to it and that none of them is a file that the command
    /// reads, each with its description.
    pub fn make(path: &Path, files: &[&str], read: &[(&str, &Path)]) -> Result<Self> {
        let absent = |p: &&Path| !p.as_os_str().is_empty() && !p.exists();
        let made = path.ancestors().take_while(absent).map(Path::to_path_buf).collect();
        let directory = Directory { path: path.into(), made };
        let refuse = |what: String| Error::Request(format!("--out {}: {what}", path.display()));
        std::fs::create_dir_all(path).map_err(|e| refuse(format!("cannot be made: {e}")))?;
        for name in files {
            let file = path.join(name);
            if let Some((what, _)) = read.iter().find(|(_, other)| is_same_file(&file, other)) {
                return Err(refuse(format!("{name} there is {what}; expected another directory")));
            }
            check_writable(&file).map_err(refuse)?;
        }
        Ok(directory)
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes the model and the trace, each completely or not at all. Returns the path of the model.
    pub fn write(&self, trained: &TrainedModel) -> Result<PathBuf> {
        let file = self.path.join("model.json");
        trained.model.write(&file)?;
        write_whole(&self.path.join("trace.csv"), &crate::trace::csv(&trained.trace, &[]))?;
        Ok(file)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // `remove_dir` fails if the directory is not empty, which keeps it.
        for path in &self.made {
            if std::fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
}
