//! Python functions: what they are given, and what they answer, numbers, vectors and Jacobians in whatever form, or a sentence about
//! what they are instead. What is asked and when is decided elsewhere.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyFloat};
use thalweg::oracle::Pick;
use thalweg::oracle::linear::Domain;
use thalweg::sets::{Ball, Bounds, Simplex};

use crate::arrays::floats;
use crate::error::of_library;

/// How the subgradients of a function are had.
pub enum Slope {
    /// Not at all.
    None,
    /// By a function of their own.
    Call(Py<PyAny>),
    /// Together with the value.
    WithValue,
}

/// A Python function and how its subgradients are had.
pub struct Callable {
    /// What messages call it.
    pub name: String,
    /// Its value.
    pub value: Py<PyAny>,
    /// Its subgradients.
    pub slope: Slope,
}

impl Callable {
    /// `slope` is None, a function, or anything else if it comes with the value.
    pub fn new(name: String, value: Bound<'_, PyAny>, slope: Bound<'_, PyAny>) -> Self {
        let slope = if slope.is_none() {
            Slope::None
        } else if slope.is_callable() {
            Slope::Call(slope.unbind())
        } else {
            Slope::WithValue
        };
        Callable { name, value: value.unbind(), slope }
    }
}

/// Numbers that are known or not; the memory stays.
#[derive(Default)]
pub struct Known {
    /// Whether they are.
    pub known: bool,
    /// The numbers.
    pub numbers: Vec<f64>,
}

impl Known {
    /// Space for so many numbers; whoever fills it says that they are known.
    pub fn room(&mut self, count: usize) -> &mut [f64] {
        self.numbers.resize(count, 0.0);
        &mut self.numbers
    }
}

/// The numbers 0, 1, 2, …, all of which or some of which a function is asked for.
pub struct Indices {
    every: Py<PyArray1<i64>>,
}

impl Indices {
    /// Of so many.
    pub fn new(py: Python<'_>, count: usize) -> PyResult<Self> {
        let every = PyArray1::from_iter(py, 0..count as i64);
        // It is given to every call: nobody may change it.
        every.call_method("setflags", (), Some(&[("write", false)].into_py_dict(py)?))?;
        Ok(Indices { every: every.unbind() })
    }

    /// Those that are picked, as an array that is new unless it has all.
    pub fn of<'py>(&self, py: Python<'py>, pick: Pick) -> Bound<'py, PyArray1<i64>> {
        match pick {
            Pick::All => self.every.bind(py).clone(),
            Pick::These(ids) => PyArray1::from_iter(py, ids.iter().map(|&i| i64::from(i))),
        }
    }
}

/// The domain that a dictionary describes: bounds, a ball or a simplex.
pub fn domain(given: Option<&Bound<'_, PyDict>>) -> PyResult<Domain> {
    let Some(given) = given else { return Ok(Domain::Everywhere) };
    let get = |key: &str| given.get_item(key);
    if let (Some(low), Some(high)) = (get("low")?, get("high")?) {
        return Ok(Bounds::each(floats(&low)?, floats(&high)?).map_err(of_library)?.into());
    }
    if let Some(radius) = get("radius")? {
        let radius = radius.extract()?;
        let ball = match get("center")? {
            Some(centre) => Ball::around(floats(&centre)?, radius),
            None => Ball::new(radius),
        };
        return Ok(ball.map_err(of_library)?.into());
    }
    match get("total")? {
        Some(total) => Ok(Simplex::new(total.extract()?).map_err(of_library)?.into()),
        None => Ok(Domain::Everywhere),
    }
}

/// What a callable answered that cannot be used.
pub fn wrong(answer: &Bound<'_, PyAny>, began: &str, wanted: &str) -> PyErr {
    let kind = answer.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{began} a {kind}; expected {wanted}"))
}

/// One number.
pub fn number(answer: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    if let Ok(value) = answer.cast::<PyFloat>() {
        return Ok(value.value());
    }
    // Other numbers of numpy, and an array with one number, as some functions return.
    if let Ok(value) = answer.call_method0("item").and_then(|item| item.extract::<f64>()) {
        return Ok(value);
    }
    if let Ok(value) = answer.extract::<f64>() {
        return Ok(value);
    }
    if let Ok(size) = answer.getattr("size").and_then(|size| size.extract::<usize>()) {
        return Err(PyValueError::new_err(format!("{name} returned {size} numbers; expected one")));
    }
    Err(wrong(answer, &format!("{name} returned"), "a number"))
}

/// Copies the numbers of an answer, whatever their shape.
pub fn vector(answer: &Bound<'_, PyAny>, began: &str, out: &mut [f64]) -> PyResult<()> {
    if let Ok(array) = answer.cast::<PyArray1<f64>>()
        && array.len() == out.len()
    {
        match array.to_vec() {
            Ok(numbers) => out.copy_from_slice(&numbers),
            Err(_) => out.iter_mut().zip(array.readonly().as_array()).for_each(|(o, v)| *o = *v),
        }
        return Ok(());
    }
    let numbers = flat(answer).map_err(|_| wrong(answer, began, "an array of numbers"))?;
    if numbers.len() != out.len() {
        return Err(PyValueError::new_err(format!("{began} {} numbers; expected {}", numbers.len(), out.len())));
    }
    out.copy_from_slice(&numbers);
    Ok(())
}

/// Copies a Jacobian: one row for each value, or a plain vector if there is one row or one column.
pub fn rows_of(answer: &Bound<'_, PyAny>, began: &str, (rows, columns): (usize, usize), out: &mut [f64]) -> PyResult<()> {
    if let Ok(array) = answer.extract::<PyReadonlyArray2<'_, f64>>()
        && array.shape() == [rows, columns]
    {
        out.iter_mut().zip(array.as_array()).for_each(|(o, v)| *o = *v);
        return Ok(());
    }
    // Sparse matrices of scipy.
    let dense = if answer.hasattr("toarray")? { answer.call_method0("toarray")? } else { answer.clone() };
    let shape: Option<Vec<usize>> = dense.getattr("shape").and_then(|s| s.extract()).ok();
    let fits = match shape.as_deref() {
        Some([r, c]) => (*r, *c) == (rows, columns),
        Some([n]) => (rows == 1 || columns == 1) && *n == rows * columns,
        _ => true,
    };
    if !fits {
        let shape = shape.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
        return Err(PyValueError::new_err(format!("{began} an array of {shape}; expected {rows} x {columns}")));
    }
    vector(&dense, began, out)
}

/// The numbers of anything that numpy can read, in order.
fn flat(answer: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let numpy = answer.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (answer, "float64"))?.call_method0("ravel")?;
    floats(&array)
}

/// Copies an answer that must have a shape; `each` says what there is one number of, given the shape that it has.
pub fn shaped(
    answer: &Bound<'_, PyAny>,
    name: &str,
    wanted: &[usize],
    each: impl FnOnce(&[usize]) -> &'static str,
    out: &mut [f64],
) -> PyResult<()> {
    let began = format!("{name} returned");
    let array = if let Ok(array) = answer.cast::<PyArrayDyn<f64>>() {
        array.clone()
    } else {
        let refused = || wrong(answer, &began, "an array of numbers");
        // Nothing would be read as NaN.
        if answer.is_none() {
            return Err(refused());
        }
        let numpy = answer.py().import("numpy")?;
        let array = numpy.call_method1("asarray", (answer, "float64")).map_err(|_| refused())?;
        array.cast_into::<PyArrayDyn<f64>>().map_err(|_| refused())?
    };
    if array.shape() != wanted {
        let (found, wanted) = (shape(array.shape()), shape(wanted));
        return Err(PyValueError::new_err(format!("{began} shape {found}; expected {wanted}, {}", each(array.shape()))));
    }
    let array = array.readonly();
    match array.as_slice() {
        // Columns one after the other are a slice, too.
        Ok(numbers) if array.is_c_contiguous() => out.copy_from_slice(numbers),
        _ => out.iter_mut().zip(array.as_array()).for_each(|(o, v)| *o = *v),
    }
    Ok(())
}

/// A shape as Python writes it.
fn shape(sizes: &[usize]) -> String {
    match sizes {
        [one] => format!("({one},)"),
        several => format!("({})", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
