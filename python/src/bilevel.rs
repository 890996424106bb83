//! Bilevel problems whose functions are Python callables, and runs on them. Results are cached for the last few points, since
//! the rows of the reformulation evaluate the same ones again; return values are read in [`crate::answers`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg::Result;
use thalweg::bilevel::{self, Bilevel, Derivatives, InnerRow, Pair, differences};
use thalweg::math::vec;
use thalweg::oracle::Scratch;
use thalweg::run::Options;
use thalweg::sets::Set;
use thalweg_lab::bilevel::FormSpec;
use toml::Value;

use crate::answers::{CachedValues, Callable, Slope, domain as domain_of, number, rows_of, vector, wrong};
use crate::error::{of_lab, of_library};
use crate::minimize::{RunReply, options, stop_reason};
use crate::values::{python, settings, table};
use crate::watch::{Interrupt, RaisedError, Watcher, alone};

/// Step of differences of values, relative to the size of a variable.
const STEP: f64 = 6e-6;
/// Number of cached points of each function: (x, y), the inner solution at x, and both sides of a difference.
const POINTS: usize = 4;

/// One of f, g and the constraints: a Python function with one or more values, and the number of its calls.
struct Level {
    callable: Callable,
    /// Function that returns the gradients of `<b, grad_y F>`.
    second: Option<Py<PyAny>>,
    /// Number of values; `None` for a function that returns one number.
    several: Option<usize>,
    /// Start of messages about its gradients, about each part of them, and about its products.
    slopes_said: [String; 3],
    second_said: [String; 3],
    values: AtomicU64,
    slopes: AtomicU64,
    products: AtomicU64,
}

/// Functions of the problem.
struct Functions {
    dims: (usize, usize),
    sets: (Arc<dyn Set>, Arc<dyn Set>),
    outer: Level,
    inner: Level,
    constraints: Level,
    rows: Vec<InnerRow>,
    raised: RaisedError,
    /// Ends the current work: set by its holder, or here after a Python exception.
    interrupt: Py<Interrupt>,
}

/// Bilevel problem in callables.
#[pyclass(frozen, module = "thalweg._core")]
pub struct BilevelCallables(Arc<Functions>);

/// Cache of the last points.
struct Memory {
    outer: Recent,
    inner: Recent,
    constraints: Recent,
}

/// Last evaluations of a function, latest first.
#[derive(Default)]
struct Recent(Vec<Visit>);

#[derive(Default)]
struct Visit {
    x: Vec<f64>,
    y: Vec<f64>,
    values: CachedValues,
    /// Rows of derivatives by x, then by y.
    slopes: CachedValues,
}

impl Recent {
    /// Returns the cached evaluation at a point and moves it to the front.
    fn at(&mut self, at: Pair) -> &mut Visit {
        let Recent(visits) = self;
        if visits.is_empty() {
            visits.resize_with(POINTS, Visit::default);
        }
        match visits.iter().position(|visit| visit.x == at.x && visit.y == at.y) {
            Some(known) => visits[..=known].rotate_right(1),
            None => {
                visits.rotate_right(1);
                let Visit { x, y, values, slopes } = &mut visits[0];
                x.clear();
                x.extend_from_slice(at.x);
                y.clear();
                y.extend_from_slice(at.y);
                (values.known, slopes.known) = (false, false);
            }
        }
        &mut visits[0]
    }
}

/// Python function, source of its gradients, and its products with second derivatives.
type CallableTriple<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Py<PyAny>>);

impl Level {
    fn new(name: &str, (value, slope, second): CallableTriple<'_>, several: Option<usize>) -> Self {
        let callable = Callable::new(name.into(), value, slope);
        let gradient = match callable.slope {
            Slope::Call(_) if several.is_some() => format!("{name}_jac returned"),
            Slope::Call(_) => format!("{name}_grad returned"),
            _ => format!("{name} returned"),
        };
        let said = |began: String| [format!("{began} for x"), format!("{began} for y"), began];
        Level {
            callable,
            second,
            several,
            slopes_said: said(gradient),
            second_said: said(format!("second[\"{name}\"] returned")),
            values: AtomicU64::new(0),
            slopes: AtomicU64::new(0),
            products: AtomicU64::new(0),
        }
    }

    fn count(&self) -> usize {
        self.several.unwrap_or(1)
    }

    fn counts(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.values), read(&self.slopes), read(&self.products))
    }

    fn read_values(&self, answer: &Bound<'_, PyAny>, out: &mut [f64]) -> PyResult<()> {
        match (self.several, &mut *out) {
            (None, [one]) => number(answer, &self.callable.name).map(|value| *one = value),
            _ => vector(answer, &format!("{} returned", self.callable.name), out),
        }
    }

    /// Reads gradients or Jacobians: a pair of them, the part by x first.
    fn read_slopes(&self, answer: &Bound<'_, PyAny>, columns: (usize, usize), out: &mut [f64]) -> PyResult<()> {
        let [for_x, for_y, began] = &self.slopes_said;
        let (by_x, by_y) = pair(answer, began, "a pair, the part by x and the part by y")?;
        let (dx, dy) = out.split_at_mut(self.count() * columns.0);
        match self.several {
            None => {
                vector(&by_x, for_x, dx)?;
                vector(&by_y, for_y, dy)
            }
            Some(count) => {
                rows_of(&by_x, for_x, (count, columns.0), dx)?;
                rows_of(&by_y, for_y, (count, columns.1), dy)
            }
        }
    }
}

/// Reads a tuple or a list of two.
fn pair<'py>(answer: &Bound<'py, PyAny>, began: &str, wanted: &str) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = answer.extract() {
        return Ok(pair);
    }
    match answer.extract::<[Bound<'_, PyAny>; 2]>() {
        Ok([first, second]) => Ok((first, second)),
        Err(_) => Err(wrong(answer, began, wanted)),
    }
}

impl Functions {
    /// Calls a Python function at a point, with new arrays each time, so that neither side can change the other's.
    fn ask<T>(
        &self,
        function: &Py<PyAny>,
        at: Pair,
        more: &[&[f64]],
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        let asked = self.raised.ask(|py| {
            let given = [at.x, at.y].into_iter().chain(more.iter().copied()).map(|numbers| PyArray1::from_slice(py, numbers));
            let given: Vec<_> = given.collect();
            read(&function.bind(py).call1(PyTuple::new(py, given)?)?)
        });
        // After an exception, nothing that continues, such as pilot runs with other settings, should call Python again.
        asked.inspect_err(|_| self.interrupt.get().flag.store(true, Ordering::Relaxed))
    }

    /// Ensures that the values are cached, and with them the gradients if they are returned together.
    fn values(&self, level: &Level, at: Pair, visit: &mut Visit) -> Result<()> {
        if visit.values.known {
            return Ok(());
        }
        let Visit { values, slopes, .. } = visit;
        let out = values.room(level.count());
        level.values.fetch_add(1, Ordering::Relaxed);
        if let Slope::WithValue = level.callable.slope {
            level.slopes.fetch_add(1, Ordering::Relaxed);
            let rows = slopes.room(level.count() * (self.dims.0 + self.dims.1));
            self.ask(&level.callable.value, at, &[], |answer| {
                let wanted = "a pair, value and gradients";
                let (value, slope) = pair(answer, &format!("{} returned", level.callable.name), wanted)?;
                level.read_values(&value, out)?;
                level.read_slopes(&slope, self.dims, rows)
            })?;
            slopes.known = true;
        } else {
            self.ask(&level.callable.value, at, &[], |answer| level.read_values(answer, out))?;
        }
        values.known = true;
        Ok(())
    }

    /// Ensures that the gradients are cached.
    fn slopes(&self, level: &Level, at: Pair, visit: &mut Visit) -> Result<()> {
        if visit.slopes.known {
            return Ok(());
        }
        match &level.callable.slope {
            Slope::WithValue => self.values(level, at, visit),
            Slope::Call(function) => {
                level.slopes.fetch_add(1, Ordering::Relaxed);
                let rows = visit.slopes.room(level.count() * (self.dims.0 + self.dims.1));
                self.ask(function, at, &[], |answer| level.read_slopes(answer, self.dims, rows))?;
                visit.slopes.known = true;
                Ok(())
            }
            Slope::None => {
                let Visit { values, slopes, .. } = visit;
                self.differences_of_values(level, at, values, slopes)
            }
        }
    }

    /// Sets gradients to central differences of values, with a step for each variable relative to its size and to its set.
    fn differences_of_values(&self, level: &Level, at: Pair, values: &CachedValues, slopes: &mut CachedValues) -> Result<()> {
        let (count, (n, m)) = (level.count(), self.dims);
        let rows = slopes.room(count * (n + m));
        let (mut x, mut y) = (at.x.to_vec(), at.y.to_vec());
        let (mut above, mut below) = (values.numbers.clone(), values.numbers.clone());
        above.resize(count, 0.0);
        below.resize(count, 0.0);
        for i in 0..n + m {
            let (set, j, columns, from) = if i < n { (&self.sets.0, i, n, 0) } else { (&self.sets.1, i - n, m, count * n) };
            let value = if i < n { x[j] } else { y[j] };
            let width = set.sides(j).map_or_else(|| set.diameter(columns), |(low, high)| high - low);
            let step = STEP * value.abs().max(0.1 * width);
            for (sign, out) in [(1.0, &mut above), (-1.0, &mut below)] {
                let moved = if i < n { &mut x[j] } else { &mut y[j] };
                *moved = value + sign * step;
                level.values.fetch_add(1, Ordering::Relaxed);
                let at = Pair { x: &x, y: &y };
                self.ask(&level.callable.value, at, &[], |answer| level.read_values(answer, out))?;
            }
            *(if i < n { &mut x[j] } else { &mut y[j] }) = value;
            for (k, (above, below)) in above.iter().zip(&below).enumerate() {
                rows[from + k * columns + j] = if step > 0.0 { (above - below) / (2.0 * step) } else { 0.0 };
            }
        }
        slopes.known = true;
        Ok(())
    }

    /// Computes one value and the requested parts of its gradient.
    fn function(
        &self,
        level: &Level,
        recent: &mut Recent,
        at: Pair,
        dx: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
    ) -> Result<f64> {
        let visit = recent.at(at);
        self.values(level, at, visit)?;
        self.gradient(level, visit, at, dx, dy)?;
        Ok(visit.values.numbers.first().copied().unwrap_or(f64::NAN))
    }

    fn gradient(&self, level: &Level, visit: &mut Visit, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>) -> Result<()> {
        if dx.is_some() || dy.is_some() {
            self.slopes(level, at, visit)?;
            let (by_x, by_y) = visit.slopes.numbers.split_at(self.dims.0);
            dx.into_iter().for_each(|dx| dx.copy_from_slice(by_x));
            dy.into_iter().for_each(|dy| dy.copy_from_slice(by_y));
        }
        Ok(())
    }

    /// Adds `weight` times the product with second derivatives, by the given function.
    fn product(
        &self,
        level: &Level,
        second: &Py<PyAny>,
        at: Pair,
        more: &[&[f64]],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
    ) -> Result<()> {
        let (mut by_x, mut by_y) = (vec![0.0; dx.len()], vec![0.0; dy.len()]);
        let [for_x, for_y, began] = &level.second_said;
        self.ask(second, at, more, |answer| {
            let (x, y) = pair(answer, began, "a pair, the part by x and the part by y")?;
            vector(&x, for_x, &mut by_x)?;
            vector(&y, for_y, &mut by_y)
        })?;
        vec::add_scaled(dx, weight, &by_x);
        vec::add_scaled(dy, weight, &by_y);
        Ok(())
    }
}

impl Bilevel for Functions {
    fn outer_dim(&self) -> usize {
        self.dims.0
    }
    fn inner_dim(&self) -> usize {
        self.dims.1
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.sets.0.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.sets.1.clone()
    }
    fn num_constraints(&self) -> usize {
        self.constraints.count()
    }
    fn scratch(&self) -> Scratch {
        Scratch::new(Memory { outer: Recent::default(), inner: Recent::default(), constraints: Recent::default() })
    }

    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        self.function(&self.outer, &mut scratch.get::<Memory>()?.outer, at, dx, dy)
    }

    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        self.function(&self.inner, &mut scratch.get::<Memory>()?.inner, at, dx, dy)
    }

    fn constraint_values(&self, at: Pair, c: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        if c.is_empty() {
            return Ok(());
        }
        let visit = scratch.get::<Memory>()?.constraints.at(at);
        self.values(&self.constraints, at, visit)?;
        c.copy_from_slice(&visit.values.numbers);
        Ok(())
    }

    fn constraint_vjp(
        &self,
        at: Pair,
        weights: &[f64],
        dx: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if weights.is_empty() {
            return Ok(());
        }
        let visit = scratch.get::<Memory>()?.constraints.at(at);
        self.slopes(&self.constraints, at, visit)?;
        let (n, m) = self.dims;
        let (by_x, by_y) = visit.slopes.numbers.split_at(weights.len() * n);
        for (out, rows, columns) in [(dx, by_x, n), (dy, by_y, m)] {
            let Some(out) = out else { continue };
            for (weight, row) in weights.iter().zip(rows.chunks(columns)) {
                vec::add_scaled(out, *weight, row);
            }
        }
        Ok(())
    }

    fn inner_rows(&self) -> &[InnerRow] {
        &self.rows
    }
    fn gradients(&self) -> Derivatives {
        let mut used = [&self.outer, &self.inner, &self.constraints].into_iter().filter(|level| level.count() > 0);
        if used.any(|level| matches!(level.callable.slope, Slope::None)) { Derivatives::Differences } else { Derivatives::Exact }
    }

    fn derivatives(&self) -> Derivatives {
        let mut used = [&self.outer, &self.inner, &self.constraints].into_iter().filter(|level| level.count() > 0);
        if used.all(|level| level.second.is_some()) { Derivatives::Exact } else { Derivatives::Differences }
    }

    fn outer_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.outer.products.fetch_add(1, Ordering::Relaxed);
        if let Some(second) = &self.outer.second {
            return self.product(&self.outer, second, at, &[b], weight, dx, dy);
        }
        differences(self, at, b, weight, dx, dy, scratch, |at, dx, dy, s| {
            self.gradient(&self.outer, s.get::<Memory>()?.outer.at(at), at, Some(dx), Some(dy))
        })
    }

    fn inner_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.inner.products.fetch_add(1, Ordering::Relaxed);
        if let Some(second) = &self.inner.second {
            return self.product(&self.inner, second, at, &[b], weight, dx, dy);
        }
        differences(self, at, b, weight, dx, dy, scratch, |at, dx, dy, s| {
            self.gradient(&self.inner, s.get::<Memory>()?.inner.at(at), at, Some(dx), Some(dy))
        })
    }

    fn constraint_second(
        &self,
        at: Pair,
        b: &[f64],
        weights: &[f64],
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if weights.is_empty() {
            return Ok(());
        }
        self.constraints.products.fetch_add(1, Ordering::Relaxed);
        if let Some(second) = &self.constraints.second {
            return self.product(&self.constraints, second, at, &[b, weights], 1.0, dx, dy);
        }
        differences(self, at, b, 1.0, dx, dy, scratch, |at, dx, dy, s| {
            dx.fill(0.0);
            dy.fill(0.0);
            self.constraint_vjp(at, weights, Some(dx), Some(dy), s)
        })
    }

    /// Avoids an evaluation of f, whose value is not needed.
    fn stationarity(&self, at: Pair, multiplier: f64, c: &mut [f64], work: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let g = self.inner_grad(at, None, Some(work), scratch)?;
        self.gradient(&self.outer, scratch.get::<Memory>()?.outer.at(at), at, None, Some(c))?;
        c.iter_mut().zip(work).for_each(|(c, g_y)| *c = multiplier * *g_y - *c);
        Ok(g)
    }
}

/// Values, the reason if there are none, and the Python exception, if any.
type ExtremesReply<'py> = (Option<Bound<'py, PyAny>>, String, Option<PyErr>);

#[pymethods]
impl BilevelCallables {
    /// Builds a problem. Each function is (function, gradient, product): the gradient is a callable or True (the function
    /// returns both), or None for differences of values; the product a callable or None. `constraints` also has the number of values.
    /// `rows` are the follower's linear constraints: coefficients of x and of y, and the bound. `interrupt` ends any work on this
    /// problem.
    #[new]
    fn new(
        dims: (usize, usize),
        domains: (Bound<'_, PyDict>, Bound<'_, PyDict>),
        outer: CallableTriple<'_>,
        inner: CallableTriple<'_>,
        constraints: Option<(CallableTriple<'_>, usize)>,
        rows: Vec<(Vec<f64>, Vec<f64>, f64)>,
        interrupt: Py<Interrupt>,
    ) -> PyResult<Self> {
        let none = || -> CallableTriple<'_> {
            let none = outer.0.py().None();
            (none.bind(outer.0.py()).clone(), none.bind(outer.0.py()).clone(), None)
        };
        let (constraints, count) = constraints.unwrap_or_else(|| (none(), 0));
        let bounded = |domain: &Bound<'_, PyDict>, dim: usize, what: &str| -> PyResult<Arc<dyn Set>> {
            let set = domain_of(Some(domain))?.boxed();
            let diameter = set.diameter(dim);
            match diameter.is_finite() {
                true => Ok(Arc::from(set)),
                false => Err(PyValueError::new_err(format!("{what} is {}; expected a bounded set", set.describe()))),
            }
        };
        Ok(BilevelCallables(Arc::new(Functions {
            sets: (bounded(&domains.0, dims.0, "outer_bounds")?, bounded(&domains.1, dims.1, "inner_bounds")?),
            dims,
            constraints: Level::new("constraints", constraints, Some(count)),
            rows: rows.into_iter().map(|(by_x, by_y, bound)| InnerRow { by_x, by_y, bound }).collect(),
            outer: Level::new("outer", outer, None),
            inner: Level::new("inner", inner, None),
            raised: RaisedError::default(),
            interrupt,
        })))
    }

    /// Compares gradients and products with finite differences near x.
    fn check(&self, x: PyReadonlyArray1<'_, f64>, seed: u64) -> PyResult<()> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        self.asked(bilevel::check(&*self.0, &x, seed))
    }

    /// Solves the problem from x. `form` has the keys of the reformulation and `slack`, `solver` those of the solver,
    /// `certificate` those of a certificate, if requested. The worst and the best follower response are computed by the direct search
    /// only.
    #[pyo3(signature = (x, form, method, solver, conduct, certificate=None, on_record=None, on_progress=None))]
    fn solve<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        form: &Bound<'py, PyDict>,
        method: &str,
        solver: &Bound<'py, PyDict>,
        conduct: &Bound<'py, PyDict>,
        certificate: Option<&Bound<'py, PyDict>>,
        on_record: Option<Py<PyAny>>,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<RunReply<'py>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let interrupt = self.0.interrupt.get();
        let wanted = FormSpec::read(Some(&Value::Table(table(form)?))).map_err(of_lab)?;
        let how = wanted.settings(table(solver)?, method.parse().map_err(of_library)?).map_err(of_lab)?;
        let how = bilevel::Settings { extremes: false, certificate: certificate.map(settings).transpose()?, ..how };
        // The caller's arrays have an entry for each row.
        let options = Options { listed: usize::MAX, ..options(conduct, interrupt)? };
        let mut watcher = Watcher::new(interrupt, self.0.raised.clone(), on_record, on_progress);
        let problem: Arc<dyn Bilevel> = self.0.clone();
        let found = alone(|| Ok(bilevel::solve(&problem, &x, &how, &options, &mut watcher)))?;
        match (found, self.0.raised.take()) {
            (Ok(found), raised) => {
                let ended = stop_reason(py, &found.outcome.solver, &found.outcome.ended)?;
                Ok((Some(python(py, &found)?), Some(ended), raised))
            }
            (Err(_), Some(raised)) => Ok((None, None, Some(raised))),
            (Err(error), None) => Err(of_library(error)),
        }
    }

    /// Computes the pessimistic and the optimistic value at x, or returns why they are not available.
    fn extremes<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        form: &Bound<'py, PyDict>,
    ) -> PyResult<ExtremesReply<'py>> {
        let x: Vec<f64> = x.as_array().iter().copied().collect();
        let slack = FormSpec::read(Some(&Value::Table(table(form)?))).map_err(of_lab)?.slack();
        let problem: &dyn Bilevel = &*self.0;
        match alone(|| Ok(bilevel::extremes_until(problem, &x, slack, Some(&self.0.interrupt.get().flag))))? {
            Ok(found) => Ok((Some(python(py, &found)?), String::new(), None)),
            Err(error) => Ok((None, error.to_string(), self.0.raised.take())),
        }
    }

    /// Returns how often each function, its gradients and its products with second derivatives were evaluated so far. Products
    /// by differences are counted, and so are the gradients they need.
    fn calls(&self) -> BTreeMap<&'static str, (u64, u64, u64)> {
        let Functions { outer, inner, constraints, .. } = &*self.0;
        [("outer", outer.counts()), ("inner", inner.counts()), ("constraints", constraints.counts())].into()
    }
}

impl BilevelCallables {
    /// Converts an error, to the Python exception that caused it if there is one.
    fn asked<T>(&self, answer: Result<T>) -> PyResult<T> {
        answer.map_err(|error| self.0.raised.take().unwrap_or_else(|| of_library(error)))
    }
}
