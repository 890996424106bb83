//! Problems whose functions are Python callables. Each is evaluated once per point and receives its own copy of the point, and
//! exceptions are kept; runs are in [`crate::minimize`].

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyTuple};
use thalweg::math::Matrix;
use thalweg::oracle::{At, Description, Modulus, Pick, Scratch, Source, Structure, Subgradients, Values};
use thalweg::sets::Set;
use thalweg::{Error, Result};

use crate::answers::{CachedValues, Callable, Indices, Slope, number, rows_of, vector, wrong};
use crate::arrays::matrix;
use crate::error::of_library;
use crate::watch::RaisedError;

/// Function with one or more values.
enum Function {
    /// Python callable.
    Call(Callable),
    /// Products with the rows of a matrix.
    Linear(Matrix),
}

/// Inequality `sign * value + shift <= 0` for one value of one function.
struct Inequality {
    name: String,
    function: usize,
    value: usize,
    sign: f64,
    shift: f64,
    scale: f64,
}

/// Problem in callables.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Callables {
    dim: usize,
    objective: Callable,
    /// Functions of the constraints, and the number of values of each.
    functions: Vec<(Function, usize)>,
    inequalities: Vec<Inequality>,
    domain: Box<dyn Set>,
    /// Number of samples, if functions accept sample indices.
    samples: Option<[usize; 1]>,
    every: Option<Indices>,
    /// Number of equality constraints, each of which is two inequalities.
    equalities: usize,
    moduli: (Modulus, Modulus),
    /// Exception raised by a callable.
    pub raised: RaisedError,
    values: AtomicU64,
    slopes: AtomicU64,
}

/// Cache of the last point.
struct Memory {
    objective: Visit,
    functions: Vec<Visit>,
    weights: Vec<f64>,
}

/// Last evaluation of a function.
#[derive(Default)]
struct Visit {
    x: Vec<f64>,
    /// Samples of the evaluation; `None` for all of them.
    draw: Option<Vec<u32>>,
    values: CachedValues,
    /// Subgradients, row by row.
    slopes: CachedValues,
}

impl Visit {
    /// Clears the cache if the point is different.
    fn turn_to(&mut self, at: &At) {
        let draw = match at.draw.stream(0) {
            Pick::All => None,
            Pick::These(ids) => Some(ids),
        };
        if self.x != at.x || self.draw.as_deref() != draw {
            self.x.clear();
            self.x.extend_from_slice(at.x);
            self.draw = draw.map(<[u32]>::to_vec);
            (self.values.known, self.slopes.known) = (false, false);
        }
    }
}

#[pymethods]
impl Callables {
    /// Builds a problem. `objective` is (fun, jac): jac is None, True (fun returns both) or a callable. `functions` has (name,
    /// fun, jac, values) for callables and (matrix,) for linear ones; `inequalities` has (name, function, value, sign, shift,
    /// scale). `domain` is a dictionary with bounds, a ball or a simplex. `rho` is (rho_f, rho_g), or None if they are to be
    /// estimated. `equalities` is the number of equality constraints among the inequalities.
    #[new]
    #[pyo3(signature = (dim, objective, functions, inequalities, domain=None, samples=None, rho=None, equalities=0))]
    fn new(
        py: Python<'_>,
        dim: usize,
        objective: (Bound<'_, PyAny>, Bound<'_, PyAny>),
        functions: Vec<Bound<'_, PyTuple>>,
        inequalities: Vec<(String, usize, usize, f64, f64, f64)>,
        domain: Option<&Bound<'_, PyDict>>,
        samples: Option<usize>,
        rho: Option<(f64, f64)>,
        equalities: usize,
    ) -> PyResult<Self> {
        let objective = Callable::new("fun".into(), objective.0, objective.1);
        let functions = functions.iter().map(|given| Function::read(given, dim)).collect::<PyResult<Vec<_>>>()?;
        let inequalities: Vec<Inequality> = inequalities
            .into_iter()
            .map(|(name, function, value, sign, shift, scale)| Inequality { name, function, value, sign, shift, scale })
            .collect();
        if let Some(stray) = inequalities.iter().find(|i| functions.get(i.function).is_none_or(|(_, n)| i.value >= *n)) {
            return Err(PyValueError::new_err(format!("'{}' speaks of a value that no function has", stray.name)));
        }
        let modulus = |value: Option<f64>| match value {
            Some(value) => Modulus { value, source: Source::Claimed },
            None => Modulus { value: 0.0, source: Source::Estimated },
        };
        Ok(Callables {
            dim,
            objective,
            functions,
            inequalities,
            domain: crate::answers::domain(domain)?.boxed(),
            samples: samples.map(|n| [n]),
            every: samples.map(|n| Indices::new(py, n)).transpose()?,
            equalities,
            moduli: (modulus(rho.map(|r| r.0)), modulus(rho.map(|r| r.1))),
            raised: RaisedError::default(),
            values: AtomicU64::new(0),
            slopes: AtomicU64::new(0),
        })
    }

    /// Returns how often the objective and its subgradients were evaluated so far.
    fn calls(&self) -> (u64, u64) {
        (self.values.load(Ordering::Relaxed), self.slopes.load(Ordering::Relaxed))
    }

    /// Evaluates every function of the constraints at a point, on all samples.
    fn function_values<'py>(&self, py: Python<'py>, x: PyReadonlyArray1<'py, f64>) -> PyResult<Vec<Bound<'py, PyArray1<f64>>>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let (draw, warm) = (thalweg::oracle::Draw::full(), thalweg::sets::Warm::default());
        let at = At { x: &x, draw: &draw, warm: &warm };
        let mut memory = self.memory();
        let mut all = vec![];
        for k in 0..self.functions.len() {
            let values = self.values_of(k, &at, &mut memory.functions[k]);
            let values = values.map_err(|e| self.raised.take().unwrap_or_else(|| of_library(e)))?;
            all.push(PyArray1::from_slice(py, values));
        }
        Ok(all)
    }
}

impl Function {
    fn read(given: &Bound<'_, PyTuple>, dim: usize) -> PyResult<(Self, usize)> {
        if given.len() == 1 {
            let rows = matrix(&given.get_item(0)?)?;
            if rows.cols() != dim {
                let what = format!(
                    "the matrix of a LinearConstraint has {} columns; expected {dim}, one for each variable",
                    rows.cols()
                );
                return Err(PyValueError::new_err(what));
            }
            let count = rows.rows();
            return Ok((Function::Linear(rows), count));
        }
        let (name, value, slope, count): (String, Bound<'_, PyAny>, Bound<'_, PyAny>, usize) = given.extract()?;
        Ok((Function::Call(Callable::new(name, value, slope)), count))
    }
}

impl Callables {
    fn memory(&self) -> Memory {
        Memory {
            objective: Visit::default(),
            functions: self.functions.iter().map(|_| Visit::default()).collect(),
            weights: vec![0.0; self.inequalities.len()],
        }
    }

    /// Calls a Python function at a point, with a new array each time, so that neither side can change the other's.
    fn ask<T>(&self, callable: &Py<PyAny>, at: &At, read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        self.raised.ask(|py| {
            let x = PyArray1::from_slice(py, at.x);
            let answer = match &self.every {
                None => callable.bind(py).call1((x,))?,
                Some(every) => callable.bind(py).call1((x, every.of(py, at.draw.stream(0))))?,
            };
            read(&answer)
        })
    }

    /// Returns the value of the objective, and caches the subgradient if they are returned together.
    fn value(&self, at: &At, visit: &mut Visit) -> Result<f64> {
        visit.turn_to(at);
        if let (true, [value]) = (visit.values.known, visit.values.numbers.as_slice()) {
            return Ok(*value);
        }
        let Callable { name, value, slope } = &self.objective;
        self.values.fetch_add(1, Ordering::Relaxed);
        let value = if let Slope::WithValue = slope {
            self.slopes.fetch_add(1, Ordering::Relaxed);
            let grad = visit.slopes.room(self.dim);
            let value = self.ask(value, at, |answer| {
                let Ok((value, row)) = answer.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                    return Err(wrong(answer, "fun returned", "a pair, value and gradient, because jac is True"));
                };
                vector(&row, "fun returned a gradient of", grad)?;
                number(&value, name)
            })?;
            visit.slopes.known = true;
            value
        } else {
            self.ask(value, at, |answer| number(answer, name))?
        };
        visit.values.room(1)[0] = value;
        visit.values.known = true;
        Ok(value)
    }

    /// Returns the values of one of the functions of the constraints.
    fn values_of<'v>(&self, k: usize, at: &At, visit: &'v mut Visit) -> Result<&'v [f64]> {
        visit.turn_to(at);
        let (function, count) = &self.functions[k];
        if !visit.values.known {
            let values = visit.values.room(*count);
            match function {
                Function::Linear(matrix) => matrix.scores(0..*count, at.x, values),
                Function::Call(Callable { name, value, .. }) => self.ask(value, at, |answer| {
                    // Plain numbers first; a NumPy float is also a Python float.
                    if *count == 1
                        && let Ok(value) = answer.cast::<PyFloat>()
                    {
                        values[0] = value.value();
                        return Ok(());
                    }
                    vector(answer, &format!("{name} returned"), values)
                })?,
            }
            visit.values.known = true;
        }
        Ok(&visit.values.numbers)
    }

    /// Returns the subgradients of one of them, row by row.
    fn slopes_of<'v>(&self, k: usize, at: &At, visit: &'v mut Visit) -> Result<&'v [f64]> {
        visit.turn_to(at);
        let (function, count) = &self.functions[k];
        if !visit.slopes.known {
            let rows = visit.slopes.room(count * self.dim);
            match function {
                Function::Linear(matrix) => {
                    rows.fill(0.0);
                    for (i, row) in rows.chunks_mut(self.dim.max(1)).enumerate() {
                        matrix.add_row(i, 1.0, row);
                    }
                }
                Function::Call(Callable { name, slope: Slope::Call(slope), .. }) => {
                    let began = format!("the jac of {name} returned");
                    self.ask(slope, at, |answer| rows_of(answer, &began, (*count, self.dim), rows))?;
                }
                Function::Call(Callable { name, .. }) => return Err(Error::Oracle(format!("{name} has no jac"))),
            }
            visit.slopes.known = true;
        }
        Ok(&visit.slopes.numbers)
    }
}

impl Description for Callables {
    fn dim(&self) -> usize {
        self.dim
    }
    fn num_constraints(&self) -> usize {
        self.inequalities.len()
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Borrowed(&self.inequalities[j].name)
    }
    fn constraint_scale(&self, j: usize) -> f64 {
        self.inequalities[j].scale
    }
    fn in_natural_units(&self) -> bool {
        false
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
    fn domain(&self) -> &dyn Set {
        &*self.domain
    }
    fn streams(&self) -> &[usize] {
        self.samples.as_ref().map_or(&[], |n| n)
    }
    fn constraint_uses(&self, j: usize, _stream: usize) -> bool {
        matches!(self.functions[self.inequalities[j].function].0, Function::Call(_))
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        Some(self.moduli.0)
    }
    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        match self.functions[self.inequalities[j].function].0 {
            Function::Linear(_) => Some(Modulus { value: 0.0, source: Source::Proved }),
            Function::Call(_) => Some(self.moduli.1),
        }
    }
}

impl Structure for Callables {
    fn equalities(&self) -> usize {
        self.equalities
    }
}

impl Values for Callables {
    fn scratch(&self) -> Scratch {
        Scratch::new(self.memory())
    }
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        self.value(&at, &mut scratch.get::<Memory>()?.objective)
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let memory = scratch.get::<Memory>()?;
        let mut value = |j: usize| -> Result<f64> {
            let i = &self.inequalities[j];
            Ok(i.sign * self.values_of(i.function, &at, &mut memory.functions[i.function])?[i.value] + i.shift)
        };
        match which {
            Pick::All => g.iter_mut().enumerate().try_for_each(|(j, g)| value(j).map(|v| *g = v)),
            Pick::These(ids) => ids.iter().zip(g).try_for_each(|(&j, g)| value(j as usize).map(|v| *g = v)),
        }
    }
}

impl Subgradients for Callables {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let visit = &mut scratch.get::<Memory>()?.objective;
        let value = self.value(&at, visit)?;
        if !visit.slopes.known {
            let Callable { name, slope, .. } = &self.objective;
            let Slope::Call(slope) = slope else { return Err(Error::Oracle(format!("{name} has no jac"))) };
            self.slopes.fetch_add(1, Ordering::Relaxed);
            let room = visit.slopes.room(self.dim);
            self.ask(slope, &at, |answer| vector(answer, "jac returned", room))?;
            visit.slopes.known = true;
        }
        grad.copy_from_slice(&visit.slopes.numbers);
        Ok(value)
    }

    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.constraint_values(at, Pick::All, g, scratch)?;
        let Memory { functions, weights, .. } = scratch.get()?;
        weights.fill(0.0);
        weigh(g, weights);
        if weights.iter().all(|&w| w == 0.0) {
            return Ok(());
        }
        grad.fill(0.0);
        for (i, &w) in self.inequalities.iter().zip(&*weights).filter(|(_, w)| **w != 0.0) {
            if let (Function::Linear(matrix), _) = &self.functions[i.function] {
                matrix.add_row(i.value, w * i.sign, grad);
                continue;
            }
            let rows = self.slopes_of(i.function, &at, &mut functions[i.function])?;
            let row = &rows[i.value * self.dim..(i.value + 1) * self.dim];
            grad.iter_mut().zip(row).for_each(|(g, v)| *g += w * i.sign * v);
        }
        Ok(())
    }

    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        self.constraint_values(at, Pick::These(which), g, scratch)?;
        let Memory { functions, .. } = scratch.get()?;
        for (&j, row) in which.iter().zip(rows.chunks_mut(self.dim.max(1))) {
            let i = &self.inequalities[j as usize];
            let slopes = self.slopes_of(i.function, &at, &mut functions[i.function])?;
            let slope = &slopes[i.value * self.dim..(i.value + 1) * self.dim];
            row.iter_mut().zip(slope).for_each(|(r, v)| *r = i.sign * v);
        }
        Ok(())
    }
}
