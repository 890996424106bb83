//! Black-box problems in Python: function values only, any subset of very many constraints, several points per call, and the
//! runs on them. One object represents all constraints. Problems with subgradients are in [`crate::callables`].

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg::Result;
use thalweg::oracle::{At, Description, Draw, Linear, Pick, Region, Scratch, Structure, Values};
use thalweg::run;
use thalweg::sets::polyhedron::SweepResult;
use thalweg::sets::{Set, Warm};
use thalweg::solvers::AnySolver;
use thalweg_lab::spec::solver as spec;

use crate::answers::{self, Indices, number, shaped};
use crate::arrays::{floats, matrix};
use crate::error::{of_lab, of_library};
use crate::minimize::{RunReply, hand_back, options};
use crate::values::table;
use crate::watch::{Interrupt, RaisedError, Watcher};

/// Source of the constraint values.
enum Constraints {
    None,
    /// A function of points and indices.
    Asked {
        call: Py<PyAny>,
        count: usize,
        indices: Indices,
    },
    /// Rows of a matrix, evaluated without Python.
    Known(KnownRegion),
}

/// Problem with function values only.
#[pyclass(frozen, module = "thalweg._core")]
pub struct BlackBox {
    dim: usize,
    fun: Py<PyAny>,
    constraints: Constraints,
    /// Function that returns the name of constraint j, if there is one.
    name: Option<Py<PyAny>>,
    /// Whether functions accept several points at once.
    vectorized: bool,
    domain: Box<dyn Set>,
    /// Number of samples, if the objective accepts sample indices.
    samples: Option<[usize; 1]>,
    rows: Option<Indices>,
    raised: RaisedError,
    /// Number of points at which the objective was evaluated, and of single constraint values.
    points: AtomicU64,
    values: AtomicU64,
}

#[pymethods]
impl BlackBox {
    /// Builds a problem. `constraints` is (function, count) or (matrix, low, high), and `name` returns the name of a constraint
    /// for its index.
    #[new]
    #[pyo3(signature = (dim, fun, *, constraints=None, name=None, vectorized=false, domain=None, samples=None))]
    fn new(
        py: Python<'_>,
        dim: usize,
        fun: Py<PyAny>,
        constraints: Option<Bound<'_, PyAny>>,
        name: Option<Py<PyAny>>,
        vectorized: bool,
        domain: Option<&Bound<'_, PyDict>>,
        samples: Option<usize>,
    ) -> PyResult<Self> {
        let raised = RaisedError::default();
        let domain = answers::domain(domain)?;
        let set = domain.boxed();
        let constraints = match constraints {
            None => Constraints::None,
            Some(given) => match given.extract::<(Py<PyAny>, usize)>() {
                Ok((call, count)) => Constraints::Asked { call, count, indices: Indices::new(py, count)? },
                Err(_) => {
                    let (rows, low, high): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) = given.extract()?;
                    let linear = Linear::new(matrix(&rows)?, floats(&low)?, floats(&high)?).and_then(|rows| rows.within(domain));
                    Constraints::Known(KnownRegion { linear: linear.map_err(of_library)?, raised: raised.clone() })
                }
            },
        };
        let rows = samples.map(|n| Indices::new(py, n)).transpose()?;
        let (points, values) = (AtomicU64::new(0), AtomicU64::new(0));
        let samples = samples.map(|n| [n]);
        Ok(BlackBox { dim, fun, constraints, name, vectorized, domain: set, samples, rows, raised, points, values })
    }

    /// Returns at how many points the objective, and how many constraint values, were evaluated so far.
    fn calls(&self) -> (u64, u64) {
        (self.points.load(Ordering::Relaxed), self.values.load(Ordering::Relaxed))
    }
}

impl BlackBox {
    /// Calls the objective.
    fn call<'py>(&self, x: Bound<'py, PyAny>, draw: &Draw) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        match &self.rows {
            None => self.fun.bind(py).call1((x,)),
            Some(rows) => self.fun.bind(py).call1((x, rows.of(py, draw.stream(0)))),
        }
    }

    /// Evaluates the objective at the rows of `points`, one for each entry of `out`.
    fn objectives(&self, points: &[f64], draw: &Draw, out: &mut [f64]) -> Result<()> {
        self.points.fetch_add(out.len() as u64, Ordering::Relaxed);
        if self.vectorized {
            let count = out.len();
            return self.raised.ask(|py| {
                let answer = self.call(several(py, points, count)?, draw)?;
                shaped(&answer, "fun", &[count], |_| "one value for each point", out)
            });
        }
        points.chunks(self.dim.max(1)).zip(out).try_for_each(|(x, out)| {
            *out = self.raised.ask(|py| number(&self.call(PyArray1::from_slice(py, x).into_any(), draw)?, "fun"))?;
            Ok(())
        })
    }

    /// Evaluates the picked constraints at the rows of `points`, one row of `out` each.
    fn all_constraints(&self, points: &[f64], which: Pick, out: &mut [f64]) -> Result<()> {
        self.values.fetch_add(out.len() as u64, Ordering::Relaxed);
        let wide = which.count(self.num_constraints());
        if out.is_empty() || wide == 0 {
            return Ok(());
        }
        let by_point = || points.chunks(self.dim.max(1));
        match &self.constraints {
            Constraints::None => Ok(()),
            Constraints::Known(KnownRegion { linear, .. }) => {
                by_point().zip(out.chunks_mut(wide)).for_each(|(x, g)| linear.values(x, which, g));
                Ok(())
            }
            Constraints::Asked { call, indices, .. } if self.vectorized => self.raised.ask(|py| {
                let wanted = [out.len() / wide, wide];
                let answer = call.bind(py).call1((several(py, points, wanted[0])?, indices.of(py, which)))?;
                let each = |found: &[usize]| match found {
                    [_, columns] if *columns == wide => "one row for each point",
                    [rows, _] if *rows == wanted[0] => "one column for each index asked",
                    _ => "one row for each point and one column for each index asked",
                };
                shaped(&answer, "constraints", &wanted, each, out)
            }),
            Constraints::Asked { call, indices, .. } => by_point().zip(out.chunks_mut(wide)).try_for_each(|(x, g)| {
                self.raised.ask(|py| {
                    let answer = call.bind(py).call1((PyArray1::from_slice(py, x), indices.of(py, which)))?;
                    shaped(&answer, "constraints", &[wide], |_| "one value for each index asked", g)
                })
            }),
        }
    }
}

/// Converts points to the rows of a new array.
fn several<'py>(py: Python<'py>, points: &[f64], count: usize) -> PyResult<Bound<'py, PyAny>> {
    let array = PyArray1::from_slice(py, points);
    Ok(array.reshape([count, points.len() / count.max(1)])?.into_any())
}

impl Description for BlackBox {
    fn dim(&self) -> usize {
        self.dim
    }
    fn num_constraints(&self) -> usize {
        match &self.constraints {
            Constraints::None => 0,
            Constraints::Asked { count, .. } => *count,
            Constraints::Known(known) => known.linear.count(),
        }
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        let given = self.name.as_ref().and_then(|name| self.raised.ask(|py| name.bind(py).call1((j,))?.extract::<String>()).ok());
        Cow::Owned(given.unwrap_or_else(|| format!("g[{j}]")))
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn streams(&self) -> &[usize] {
        self.samples.as_ref().map_or(&[], |n| n)
    }
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        false
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for BlackBox {
    fn objective(&self, at: At, _: &mut Scratch) -> Result<f64> {
        let mut value = [0.0];
        self.objectives(at.x, at.draw, &mut value)?;
        Ok(value[0])
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], _: &mut Scratch) -> Result<()> {
        self.all_constraints(at.x, which, g)
    }
    fn objective_many(&self, points: &[f64], draw: &Draw, _: &Warm, out: &mut [f64], _: &mut Scratch) -> Result<()> {
        self.objectives(points, draw, out)
    }
    fn constraint_values_many(
        &self,
        points: &[f64],
        _: &Draw,
        _: &Warm,
        which: Pick,
        out: &mut [f64],
        _: &mut Scratch,
    ) -> Result<()> {
        self.all_constraints(points, which, out)
    }
}

impl Structure for BlackBox {
    fn region(&self) -> Option<&dyn Region> {
        match &self.constraints {
            Constraints::Known(known) => Some(known),
            _ => None,
        }
    }
}

/// Linear constraints, given as rows. Projections onto many of them can take long, so signals are checked.
struct KnownRegion {
    linear: Linear,
    raised: RaisedError,
}

impl Region for KnownRegion {
    fn begin(&self, at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        self.linear.begin(at, target, warm)
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        self.raised.ask(|py| py.check_signals())?;
        self.linear.sweep(x, sweeps, tolerance, warm)
    }
    fn bounded(&self) -> bool {
        self.linear.bounded()
    }
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        self.linear.lmo_target(at, slope, out);
    }
    fn lmo_finish(&self, x: &mut [f64]) {
        self.linear.lmo_finish(x);
    }
    fn describe(&self) -> String {
        self.linear.describe()
    }
}

/// Runs a zeroth-order solver from `start`. After an exception there may be no outcome.
#[pyfunction]
#[pyo3(signature = (problem, start, solver, conduct, interrupt, on_record=None, on_progress=None))]
pub fn minimize_zeroth_order<'py>(
    py: Python<'py>,
    problem: &Bound<'py, BlackBox>,
    start: PyReadonlyArray1<'py, f64>,
    solver: &Bound<'py, PyDict>,
    conduct: &Bound<'py, PyDict>,
    interrupt: &Bound<'py, Interrupt>,
    on_record: Option<Py<PyAny>>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<RunReply<'py>> {
    let problem = problem.get();
    let config = spec::config(table(solver)?).map_err(of_lab)?;
    let solver = config.map(|config| config.build()).transpose().map_err(of_library)?;
    let Some(AnySolver::Zeroth(mut solver)) = solver else {
        return Err(PyValueError::new_err("a black box has values alone; expected a method that uses nothing else"));
    };
    let start: Vec<f64> = start.as_array().iter().copied().collect();
    let options = options(conduct, interrupt.get())?;
    let mut watcher = Watcher::new(interrupt.get(), problem.raised.clone(), on_record, on_progress);
    let outcome = run::minimize_zeroth_order(problem, &mut *solver, &start, &options, &mut watcher);
    hand_back(py, outcome, &problem.raised)
}
