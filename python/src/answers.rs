//! Arguments and return values of Python functions: reads numbers, vectors and Jacobians in any common form, with an error
//! message for anything else. The callers decide what is evaluated and when.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyFloat};
use thalweg::oracle::Pick;
use thalweg::oracle::linear::Domain;
use thalweg::sets::{Ball, Bounds, Simplex};

use crate::arrays::floats;
use crate::error::of_library;

/// Source of the subgradients of a function.
pub enum Slope {
    /// No subgradients.
    None,
    /// A separate function.
    Call(Py<PyAny>),
    /// Returned together with the value.
    WithValue,
}

/// Python function and the source of its subgradients.
pub struct Callable {
    /// Name in messages.
    pub name: String,
    /// Function that returns the value.
    pub value: Py<PyAny>,
    /// Source of the subgradients.
    pub slope: Slope,
}

impl Callable {
    /// Creates a callable. `slope` is None, a function, or any other object if the subgradient is returned with the value.
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

/// Cached numbers; the memory is reused.
#[derive(Default)]
pub struct CachedValues {
    /// Whether the numbers are valid.
    pub known: bool,
    /// Numbers.
    pub numbers: Vec<f64>,
}

impl CachedValues {
    /// Returns space for this many numbers; the caller sets `known` after filling it.
    pub fn room(&mut self, count: usize) -> &mut [f64] {
        self.numbers.resize(count, 0.0);
        &mut self.numbers
    }
}

/// Indices 0, 1, 2, …, of which a function receives all or some.
pub struct Indices {
    every: Py<PyArray1<i64>>,
}

impl Indices {
    /// Creates this many indices.
    pub fn new(py: Python<'_>, count: usize) -> PyResult<Self> {
        let every = PyArray1::from_iter(py, 0..count as i64);
        // The array is passed to every call, so it is read-only.
        every.call_method("setflags", (), Some(&[("write", false)].into_py_dict(py)?))?;
        Ok(Indices { every: every.unbind() })
    }

    /// Returns the picked indices as an array, which is shared if it has all of them and new otherwise.
    pub fn of<'py>(&self, py: Python<'py>, pick: Pick) -> Bound<'py, PyArray1<i64>> {
        match pick {
            Pick::All => self.every.bind(py).clone(),
            Pick::These(ids) => PyArray1::from_iter(py, ids.iter().map(|&i| i64::from(i))),
        }
    }
}

/// Reads the domain from a dictionary: bounds, a ball or a simplex.
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

/// Returns an error about a return value that cannot be used.
pub fn wrong(answer: &Bound<'_, PyAny>, began: &str, wanted: &str) -> PyErr {
    let kind = answer.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{began} a {kind}; expected {wanted}"))
}

/// Reads one number.
pub fn number(answer: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    if let Ok(value) = answer.cast::<PyFloat>() {
        return Ok(value.value());
    }
    // Other numbers of NumPy, and arrays with one number, which some functions return.
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

/// Copies the numbers of a return value, whatever its shape.
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
    // Sparse matrices of SciPy.
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

/// Reads the numbers of any object that NumPy can convert, in order.
fn flat(answer: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let numpy = answer.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (answer, "float64"))?.call_method0("ravel")?;
    floats(&array)
}

/// Copies a return value that must have a given shape; `each` describes, for the actual shape, what each number belongs to.
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
        // NumPy would convert None to NaN.
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
        // Arrays in column order are slices too.
        Ok(numbers) if array.is_c_contiguous() => out.copy_from_slice(numbers),
        _ => out.iter_mut().zip(array.as_array()).for_each(|(o, v)| *o = *v),
    }
    Ok(())
}

/// Formats a shape as in Python.
fn shape(sizes: &[usize]) -> String {
    match sizes {
        [one] => format!("({one},)"),
        several => format!("({})", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
