//! Learning problems of the library on NumPy arrays. The Python package converts other objects to arrays.

use std::sync::{Arc, Mutex, MutexGuard};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde::{Deserialize, Serialize};
use thalweg::Note;
use thalweg::auto;
use thalweg::certify::Bounds;
use thalweg::error::check_length;
use thalweg::eval::{Evaluator, ValueEval};
use thalweg::learn::{
    self, BoundedExpression, Coverage, Data, Enforce, Expression, FitOptions, Groups, RowSplit, Unseen, intervals,
};
use thalweg::oracle::{Description, Draw};
use thalweg::run::{self, Budget};
use thalweg::sets::{Ball, WholeSpace};
use thalweg::solvers::{Method, Mspg, SolverName, State};
use thalweg_lab::encode::CoarserGroups;
use thalweg_lab::fit::{options, quality};
use thalweg_lab::tradeoff::{self, FitRuns};

use crate::arrays::matrix;
use crate::error::{broken, of_lab, of_library};
use crate::minimize::{StopReply, certified, stop_reason, with_file};
use crate::values::{python, settings, table};
use crate::watch::{Interrupt, RaisedError, Watcher, alone};

/// Learning problem on rows in memory.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Learning(Mutex<learn::Learning>);

/// Options of training, by the names of the command.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Training {
    budget: Option<Budget>,
    enforce: Enforce,
    seed: u64,
    feasibility: Option<f64>,
    threads: Option<usize>,
}

impl Training {
    fn options(self, solver: &str, given: &Bound<'_, PyDict>) -> PyResult<FitOptions> {
        let usual = FitOptions::default();
        let base = FitOptions {
            budget: self.budget.unwrap_or(usual.budget.clone()),
            enforce: self.enforce,
            seed: self.seed,
            feasibility: self.feasibility.unwrap_or(usual.feasibility),
            threads: self.threads.unwrap_or(usual.threads),
            ..usual
        };
        options(solver, table(given)?, base).map_err(of_lab)
    }
}

/// One of several columns that define the groups: name, groups, and the group of each combination.
type GroupColumn = (String, Vec<String>, Vec<u32>);

/// Constraint with its current bound.
#[derive(Serialize)]
struct Named {
    name: String,
    bound: f64,
}

impl Learning {
    /// Locks the problem. Must be called without the interpreter's lock.
    fn lock(&self) -> PyResult<MutexGuard<'_, learn::Learning>> {
        self.0.lock().map_err(|_| broken("the problem"))
    }

    /// Runs `work` on the problem without the interpreter's lock, in this thread unless the work uses others.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut learn::Learning) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| alone(|| work(&mut *self.lock()?)))
    }
}

#[pymethods]
impl Learning {
    /// Builds a problem. `features` is a dense array or the parts of compressed rows, `labels` has +1 and -1, `groups` is
    /// (codes, names). With `merge`, identical rows become one with the sum of their weights. Reference values are those of the
    /// problem `like`, if given. With `kernel`, centres and gamma, the columns are Gaussian kernel values of the rows with the
    /// centres. The variables stay in the ball of the given `radius` around 0, which may be infinite; without it, the problem
    /// uses its default.
    #[new]
    #[pyo3(signature = (features, labels, minimize, subject_to, *, groups=None, weights=None, intercept=true, merge=false, like=None, kernel=None, radius=None, column_scales=None))]
    fn new(
        py: Python<'_>,
        features: &Bound<'_, PyAny>,
        labels: PyReadonlyArray1<'_, f64>,
        minimize: &str,
        subject_to: Vec<String>,
        groups: Option<(PyReadonlyArray1<'_, u32>, Vec<String>)>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        intercept: bool,
        merge: bool,
        like: Option<&Bound<'_, Learning>>,
        kernel: Option<(Bound<'_, PyAny>, f64)>,
        radius: Option<f64>,
        column_scales: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let data = Data {
            features: matrix(features)?,
            labels: labels.as_array().iter().copied().collect(),
            groups: groups.map(|(codes, names)| Groups { names, of_row: codes.as_array().iter().copied().collect() }),
            weights: weights.map(|w| w.as_array().iter().copied().collect()),
        };
        let minimize: Expression = minimize.parse().map_err(of_library)?;
        let subject_to =
            subject_to.iter().map(|c| c.parse().map_err(of_library)).collect::<PyResult<Vec<BoundedExpression>>>()?;
        let kernel = kernel.map(|(centres, gamma)| Ok::<_, PyErr>((matrix(&centres)?, gamma))).transpose()?;
        let known = like
            .map(|like| like.get().with(py, |like| Ok((like.references().to_vec(), like.column_scales().map(<[f64]>::to_vec)))));
        let (references, scales) = known.transpose()?.unwrap_or_default();
        py.detach(|| {
            alone(|| {
                let mut data = if merge { data.merged().map_err(of_library)? } else { data };
                if let Some((centres, gamma)) = kernel {
                    data.features = learn::gaussian_kernel(&data.features, &centres, gamma).map_err(of_library)?;
                }
                let builder = learn::Learning::on(data).intercept(intercept).minimize(minimize);
                let builder = match radius {
                    None => builder,
                    Some(f64::INFINITY) => builder.domain(WholeSpace),
                    Some(radius) => builder.domain(Ball::new(radius).map_err(of_library)?),
                };
                let builder = subject_to.into_iter().fold(builder, |builder, c| builder.subject_to(c));
                let builder = match column_scales.or(scales) {
                    Some(scales) => builder.column_scales(scales),
                    None => builder,
                };
                let problem = builder.references(references).build().map_err(of_library)?;
                Ok(Learning(Mutex::new(problem)))
            })
        })
    }

    /// Trains from `start`, or from zero. Returns the result, its stop reason, and the Python exception, if any. With `unseen`, the
    /// problem on the safety set and the settings of the promise, the result has a `promise`.
    #[pyo3(signature = (solver, settings_of_solver, training, interrupt, start=None, on_record=None, on_progress=None, unseen=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit<'py>(
        &self,
        py: Python<'py>,
        solver: &str,
        settings_of_solver: &Bound<'py, PyDict>,
        training: &Bound<'py, PyDict>,
        interrupt: &Bound<'py, Interrupt>,
        start: Option<PyReadonlyArray1<'py, f64>>,
        on_record: Option<Py<PyAny>>,
        on_progress: Option<Py<PyAny>>,
        unseen: Option<(Bound<'py, Learning>, Bound<'py, PyDict>)>,
    ) -> PyResult<(Bound<'py, PyAny>, StopReply<'py>, Option<PyErr>)> {
        let mut options = settings::<Training>(training)?.options(solver, settings_of_solver)?;
        options.interrupt = Some(Arc::clone(&interrupt.get().flag));
        let start: Option<Vec<f64>> = start.map(|x| x.as_array().iter().copied().collect());
        let raised = RaisedError::default();
        let mut watcher = Watcher::new(interrupt.get(), raised.clone(), on_record, on_progress);
        let unseen = unseen.map(|(safety, given)| Ok::<_, PyErr>((safety, settings::<Unseen>(&given)?))).transpose()?;
        let unseen = unseen.as_ref().map(|(safety, unseen)| (safety.get(), *unseen));
        if unseen.is_some_and(|(safety, _)| std::ptr::eq(safety, self)) {
            return Err(PyValueError::new_err("the safety set is the training rows; expected another problem"));
        }
        let (mut fitted, promise) = self.with(py, |problem| {
            let start = start.unwrap_or_else(|| vec![0.0; problem.dim()]);
            let Some((safety, unseen)) = unseen else {
                return Ok((learn::fit(problem, &start, &options, &mut watcher).map_err(of_library)?, None));
            };
            let safety = safety.lock()?;
            let found = learn::fit_unseen(problem, &safety, &start, &options, &unseen, &mut watcher).map_err(of_library)?;
            Ok((found.0, Some(found.1)))
        })?;
        // Millions of numbers are returned as an array, not as a list of objects.
        let x = PyArray1::from_vec(py, std::mem::take(&mut fitted.point.x));
        let told = python(py, &fitted)?;
        told.get_item("point")?.set_item("x", x)?;
        told.set_item("promise", python(py, &promise)?)?;
        let evidence = fitted.choice.as_ref().map(|choice| &choice.evidence);
        told.set_item("reasons", evidence.map_or_else(Vec::new, |evidence| vec![evidence.problem(), evidence.decision()]))?;
        Ok((told, stop_reason(py, &fitted.solver, &fitted.ended)?, raised.take()))
    }

    /// Runs once for each value of a bound, from loosest to tightest, each from the point of the one before. Returns the rows
    /// with their points, notes, whether it was interrupted, and the Python exception, if any. The bound is restored
    /// afterwards.
    #[pyo3(signature = (which, bounds, solver, settings_of_solver, training, interrupt, held_out=None, on_progress=None))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn sweep<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        which: usize,
        bounds: Vec<f64>,
        solver: &str,
        settings_of_solver: &Bound<'py, PyDict>,
        training: &Bound<'py, PyDict>,
        interrupt: &Bound<'py, Interrupt>,
        held_out: Option<&Bound<'py, Learning>>,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Vec<Option<Bound<'py, PyArray1<f64>>>>, Bound<'py, PyAny>, bool, Option<PyErr>)> {
        if held_out.is_some_and(|held_out| held_out.is(slf)) {
            return Err(PyValueError::new_err("the held-out rows are the training rows; expected another problem"));
        }
        let mut options = settings::<Training>(training)?.options(solver, settings_of_solver)?;
        options.interrupt = Some(Arc::clone(&interrupt.get().flag));
        let bounds = tradeoff::sorted(bounds).map_err(of_lab)?;
        let raised = RaisedError::default();
        let mut watcher = Watcher::new(interrupt.get(), raised.clone(), None, on_progress);
        let held_out = held_out.map(Bound::get);
        let swept = slf.get().with(py, |problem| {
            if which >= problem.num_constraints() {
                let what = format!("constraint {which} is not there: the problem has {}", problem.num_constraints());
                return Err(PyValueError::new_err(what));
            }
            let held_out = held_out.map(Learning::lock).transpose()?;
            let asked = problem.bound(which);
            let mut fits = FitRuns { problem: &mut *problem, held_out: held_out.as_deref(), options, which };
            let swept = tradeoff::sweep(&mut fits, &bounds, &mut watcher);
            problem.set_bound(which, asked);
            Ok(swept)
        })?;
        let point = |row: &tradeoff::Row| row.x.as_deref().map(|x| PyArray1::from_slice(py, x));
        let points = swept.rows.iter().map(point).collect();
        Ok((python(py, &swept.rows)?, points, python(py, &swept.notes)?, swept.interrupted, raised.take()))
    }

    /// Returns the quality of a point on all rows: accuracy, objective, constraints, groups, and groups by each of several columns,
    /// given as name, groups, and group of each combination.
    #[pyo3(signature = (x, by_column=None))]
    fn quality<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        by_column: Option<Vec<GroupColumn>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let coarser = |(column, names, of_group)| CoarserGroups { column, names, of_group };
        let by_column: Vec<CoarserGroups> = by_column.unwrap_or_default().into_iter().map(coarser).collect();
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let found = self.with(py, |problem| {
            // Rejects a point of another length with a message.
            run::measure(problem, &x, 0.0).map_err(of_library)?;
            quality(problem, &x, &by_column).map_err(of_lab)
        })?;
        python(py, &found)
    }

    /// Returns the warnings about the data that are known before training. Features without names are numbered from 0.
    #[pyo3(signature = (names=None))]
    fn warnings<'py>(&self, py: Python<'py>, names: Option<Vec<String>>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.with(py, |problem| {
            let mut notes = problem.group_notes().map_err(of_library)?;
            for (j, balanced_accuracy) in problem.features_that_give_the_label_away() {
                let name = names.as_ref().and_then(|names| names.get(j)).cloned();
                let feature = name.unwrap_or_else(|| format!("x{j}"));
                notes.push(Note::LabelGivenAway { feature, balanced_accuracy });
            }
            Ok(notes)
        })?;
        python(py, &found)
    }

    /// Returns the warnings about groups that are too small in these rows, as a safety set, to promise a bound.
    fn promise_warnings<'py>(&self, py: Python<'py>, confidence: f64) -> PyResult<Bound<'py, PyAny>> {
        python(py, &self.with(py, |problem| problem.promise_notes(confidence).map_err(of_library))?)
    }

    /// Returns the method that is chosen for the problem if none is named.
    fn chosen(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |problem| Ok(auto::choose(problem).config.name().as_str()))
    }

    /// Evaluates other sums of terms at a point, on the same rows.
    fn values(&self, py: Python<'_>, x: PyReadonlyArray1<'_, f64>, expressions: Vec<String>) -> PyResult<Vec<f64>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        self.with(py, |problem| {
            check_length("the point", x.len(), problem.dim()).map_err(of_library)?;
            let value = |text: &String| -> thalweg::Result<f64> {
                let other = problem.on_same_data().minimize(text.parse()?).build()?;
                Evaluator::new(&other, 0, 0.0).objective(&x, &Draw::full())
            };
            expressions.iter().map(|text| value(text).map_err(of_library)).collect()
        })
    }

    /// Computes the scores of all rows at a point.
    fn scores<'py>(&self, py: Python<'py>, x: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let scores = self.with(py, |problem| problem.scores(&x).map_err(of_library))?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// Certifies a point for the trained problem: with its surrogate bounds, and temperatures lowered by its factors.
    /// With `record`, `file` of the result is the text of the certificate's file.
    #[pyo3(signature = (x, bounds, trained=None, record=false))]
    fn certify<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        bounds: &Bound<'py, PyDict>,
        trained: Option<Vec<(f64, f64)>>,
        record: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let how: Bounds = settings(bounds)?;
        let found = self.with(py, |problem| {
            let asked: Vec<f64> = (0..problem.num_constraints()).map(|j| problem.bound(j)).collect();
            let trained = trained.unwrap_or_default();
            for (j, &(bound, factor)) in trained.iter().enumerate().take(asked.len()) {
                problem.set_bound(j, bound);
                if factor != 1.0 {
                    problem.scale_temperature(j, factor);
                }
            }
            let found = certified(problem, &x, &how, record, Some(problem));
            for (j, &(_, factor)) in trained.iter().enumerate().take(asked.len()) {
                problem.set_bound(j, asked[j]);
                if factor != 1.0 {
                    problem.scale_temperature(j, 1.0 / factor);
                }
            }
            found
        })?;
        with_file(py, found)
    }

    /// Returns confidence intervals of each constraint on unseen rows, if these rows were not used in training. The confidence is
    /// that of each interval, or of all of them `together`.
    fn intervals<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        confidence: f64,
        together: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let coverage = if together { Coverage::AllLines } else { Coverage::EachLine };
        let found = self.with(py, |problem| intervals(problem, &x, confidence, coverage).map_err(of_library))?;
        python(py, &found)
    }

    /// Returns the scales of the columns that `ridge` uses; None if no expression contains it.
    fn column_scales(&self, py: Python<'_>) -> PyResult<Option<Vec<f64>>> {
        self.with(py, |problem| Ok(problem.column_scales().map(<[f64]>::to_vec)))
    }

    /// Returns name and bound of every constraint.
    fn constraints<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let named = self.with(py, |problem| {
            let all = 0..problem.num_constraints();
            Ok(all.map(|j| Named { name: problem.constraint_name(j).into_owned(), bound: problem.bound(j) }).collect::<Vec<_>>())
        })?;
        python(py, &named)
    }

    /// Returns the rows, columns and storage format of the matrix, and descriptions of the reference values.
    fn describe(&self, py: Python<'_>) -> PyResult<(usize, usize, &'static str, Vec<String>)> {
        self.with(py, |problem| {
            let features = &problem.data().features;
            let references = problem.references().iter().map(ToString::to_string).collect();
            Ok((features.rows(), features.cols(), features.form(), references))
        })
    }
}

/// MSPG on a sequence of problems with the same variables; its state is kept from each to the next.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Incremental {
    /// Settings, for pickling.
    settings: Py<PyDict>,
    seed: u64,
    solver: Mutex<Mspg>,
}

#[pymethods]
impl Incremental {
    /// Returns the name of the solver for incremental learning.
    #[staticmethod]
    fn solver() -> &'static str {
        SolverName::Mspg.as_str()
    }

    /// Creates the solver. `settings_of_solver` are those of MSPG; `state` is the state from a pickle.
    #[new]
    #[pyo3(signature = (settings_of_solver, seed, state=None))]
    fn new(settings_of_solver: &Bound<'_, PyDict>, seed: u64, state: Option<Vec<u8>>) -> PyResult<Self> {
        let mut solver = Mspg::new(settings(settings_of_solver)?).map_err(of_library)?;
        if let Some(state) = state {
            solver.restore(&State::from(state)).map_err(of_library)?;
        }
        Ok(Incremental { settings: settings_of_solver.copy()?.unbind(), seed, solver: Mutex::new(solver) })
    }

    /// Makes one pass over the rows of a problem, the first from `start` or from zero. Returns the iterations, the point, and
    /// notes.
    #[pyo3(signature = (problem, start=None))]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        problem: &Bound<'py, Learning>,
        start: Option<PyReadonlyArray1<'py, f64>>,
    ) -> PyResult<(u64, Bound<'py, PyArray1<f64>>, Bound<'py, PyAny>)> {
        let problem = problem.get();
        let start: Option<Vec<f64>> = start.map(|x| x.as_array().iter().copied().collect());
        let (steps, x, notes) = problem.with(py, |problem| {
            let mut solver = self.lock()?;
            let mut x = start.unwrap_or_else(|| vec![0.0; problem.dim()]);
            // Repeated rows must not be drawn in the same order.
            let seed = self.seed ^ solver.iteration().wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let steps = solver.pass(&mut Evaluator::new(&*problem, seed, 0.0), &x).map_err(of_library)?;
            solver.output(&mut x);
            Ok((steps, x, solver.notes()))
        })?;
        Ok((steps, PyArray1::from_vec(py, x), python(py, &notes)?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let this = slf.get();
        let state = py.detach(|| this.lock()?.save().map_err(of_library))?;
        let made_of = (this.settings.bind(py), this.seed, PyBytes::new(py, state.bytes())).into_pyobject(py)?;
        Ok((slf.get_type().into_any(), made_of))
    }
}

impl Incremental {
    /// Locks the solver. Must be called without the interpreter's lock.
    fn lock(&self) -> PyResult<MutexGuard<'_, Mspg>> {
        self.solver.lock().map_err(|_| broken("the method"))
    }
}

/// Computes Gaussian kernel values of rows with centres, one row for each of the rows.
#[pyfunction]
pub fn gaussian_kernel<'py>(
    py: Python<'py>,
    features: &Bound<'py, PyAny>,
    centres: &Bound<'py, PyAny>,
    gamma: f64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (rows, centres) = (matrix(features)?, matrix(centres)?);
    let shape = (rows.rows(), centres.rows());
    let entries = py.detach(|| -> PyResult<Vec<f64>> {
        let kernel = learn::gaussian_kernel(&rows, &centres, gamma).map_err(of_library)?;
        let mut entries = Vec::with_capacity(shape.0 * shape.1);
        (0..shape.0).for_each(|i| kernel.visit_row(i, |_, v| entries.push(v)));
        Ok(entries)
    })?;
    PyArray1::from_vec(py, entries).reshape(shape)
}

/// Checks that a text is a sum of terms; returns it in the library's notation.
#[pyfunction]
pub fn check_expression(text: &str) -> PyResult<String> {
    Ok(text.parse::<Expression>().map_err(of_library)?.to_string())
}

/// Returns the factor of the `ridge` that is added to an objective on rows with these weights, and a note on it. `given` is the
/// requested factor; None is 1 / n.
#[pyfunction]
#[pyo3(signature = (objective, given, rows, weights=None))]
pub fn regularization<'py>(
    py: Python<'py>,
    objective: &str,
    given: Option<f64>,
    rows: usize,
    weights: Option<PyReadonlyArray1<'py, f64>>,
) -> PyResult<(f64, Bound<'py, PyAny>)> {
    let objective: Expression = objective.parse().map_err(of_library)?;
    let weights: Option<Vec<f64>> = weights.map(|w| w.as_array().iter().copied().collect());
    let given = given.map_or(learn::Regularization::Auto, learn::Regularization::Factor);
    let added = given.add_to(&objective, learn::count_rows(rows, weights.as_deref())).map_err(of_library)?;
    Ok((added.factor, python(py, &added.note)?))
}

/// Indices of some rows.
type RowIndices<'py> = Bound<'py, PyArray1<usize>>;

/// Splits off a safety set, a random fraction of the rows of every group. Returns the indices of the training rows and of the safety
/// set.
#[pyfunction]
#[pyo3(signature = (labels, codes, fraction, seed))]
pub fn split_off<'py>(
    py: Python<'py>,
    labels: PyReadonlyArray1<'_, f64>,
    codes: Option<PyReadonlyArray1<'_, u32>>,
    fraction: f64,
    seed: u64,
) -> PyResult<(RowIndices<'py>, RowIndices<'py>)> {
    let labels: Vec<f64> = labels.as_array().iter().copied().collect();
    let groups = codes.map(|codes| Groups { names: vec![], of_row: codes.as_array().iter().copied().collect() });
    let split = RowSplit::new(&labels, groups.as_ref(), 0.0, Some(fraction), seed).map_err(of_library)?;
    Ok((PyArray1::from_vec(py, split.training), PyArray1::from_vec(py, split.safety)))
}

/// Returns the position, among so many ordered scores of negatives, of the threshold that bounds the rate of new scores above it with
/// this confidence, and the probability that it fails; None if there are too few scores.
#[pyfunction]
pub fn score_threshold(rows: usize, bound: f64, confidence: f64) -> PyResult<Option<(usize, f64)>> {
    let found = thalweg::certify::score_threshold(rows, bound, confidence).map_err(of_library)?;
    Ok(found.map(|found| (found.rank, found.failure_probability)))
}

/// Splits a sum of terms into factors and calls, in the library's notation.
#[pyfunction]
pub fn split_expression(text: &str) -> PyResult<Vec<(f64, String)>> {
    let expression = text.parse::<Expression>().map_err(of_library)?;
    Ok(expression.pieces.iter().map(|(factor, call)| (*factor, call.to_string())).collect())
}

/// Checks that a text is a constraint; returns it in the library's notation.
#[pyfunction]
pub fn check_constraint(text: &str) -> PyResult<String> {
    Ok(text.parse::<BoundedExpression>().map_err(of_library)?.to_string())
}

/// Returns the values of a bound from loosest to tightest, from text such as `0.01..0.2:12` or from numbers.
#[pyfunction]
pub fn sweep_bounds(given: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    if let Ok(text) = given.extract::<String>() {
        return tradeoff::bounds(&text).map_err(|error| PyValueError::new_err(format!("bounds = '{text}': {error}")));
    }
    tradeoff::sorted(given.extract()?).map_err(|error| PyValueError::new_err(format!("bounds: {error}")))
}
