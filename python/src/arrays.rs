//! Conversion of NumPy arrays to the library's own memory. Each number is copied once, so that later changes by the caller do
//! not affect a problem.

use numpy::ndarray::ArrayView2;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use thalweg::math::Matrix;

use crate::error::of_library;

/// Maximum share of non-zero entries for which a dense array is stored as a sparse matrix. The passes are then faster in
/// proportion, minus the cost of looking up columns.
const SPARSE: f64 = 0.2;

/// Reads the rows of a matrix: a dense array of two dimensions, or the parts of compressed rows with the number of columns.
pub fn matrix(features: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    if let Ok((ptr, ids, values, columns)) = features.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>, usize)>() {
        let values = floats(&values)?;
        return Matrix::sparse(columns, whole::<usize>(&ptr)?, whole::<u32>(&ids)?, values).map_err(of_library);
    }
    if let Ok(array) = features.extract::<PyReadonlyArray2<'_, f64>>() {
        return dense(array.as_array(), |v| v);
    }
    if let Ok(array) = features.extract::<PyReadonlyArray2<'_, f32>>() {
        return dense(array.as_array(), f64::from);
    }
    Err(unusable("the matrix", features, "an array of two dimensions with entries of type float64 or float32"))
}

fn dense<T: Element + Copy>(array: ArrayView2<'_, T>, number: impl Fn(T) -> f64) -> PyResult<Matrix> {
    let (rows, columns) = array.dim();
    let filled = match array.as_slice() {
        Some(entries) => entries.iter().filter(|v| number(**v) != 0.0).count(),
        None => array.iter().filter(|v| number(**v) != 0.0).count(),
    };
    if filled as f64 > SPARSE * (rows * columns) as f64 || u32::try_from(columns).is_err() {
        // Iterating over the memory is several times faster than over the elements of an array of any layout.
        let entries = match array.as_slice() {
            Some(entries) => entries.iter().map(|v| number(*v)).collect(),
            None => array.iter().map(|v| number(*v)).collect(),
        };
        return Matrix::dense(rows, columns, entries).map_err(of_library);
    }
    let (mut ptr, mut ids, mut values) = (Vec::with_capacity(rows + 1), Vec::with_capacity(filled), Vec::with_capacity(filled));
    ptr.push(0);
    for row in array.rows() {
        for (column, value) in row.iter().enumerate().map(|(c, v)| (c, number(*v))).filter(|(_, v)| *v != 0.0) {
            ids.push(column as u32);
            values.push(value);
        }
        ptr.push(ids.len());
    }
    Matrix::sparse(columns, ptr, ids, values).map_err(of_library)
}

/// Reads numbers from an array of one dimension, of either precision.
pub fn floats(array: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    if let Ok(array) = array.extract::<PyReadonlyArray1<'_, f64>>() {
        return Ok(array.as_array().iter().copied().collect());
    }
    if let Ok(array) = array.extract::<PyReadonlyArray1<'_, f32>>() {
        return Ok(array.as_array().iter().map(|&v| f64::from(v)).collect());
    }
    Err(unusable("the list of numbers", array, "an array of one dimension with entries of type float64 or float32"))
}

/// Reads indices from an array of one dimension, of either width.
fn whole<T: TryFrom<i64>>(array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let fit = |v: i64| T::try_from(v).map_err(|_| PyTypeError::new_err(format!("index {v} of the matrix is out of range")));
    if let Ok(array) = array.extract::<PyReadonlyArray1<'_, i32>>() {
        return array.as_array().iter().map(|&v| fit(i64::from(v))).collect();
    }
    if let Ok(array) = array.extract::<PyReadonlyArray1<'_, i64>>() {
        return array.as_array().iter().map(|&v| fit(v)).collect();
    }
    Err(unusable("the list of indices", array, "an array of one dimension with entries of type int32 or int64"))
}

fn unusable(what: &str, given: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
    let kind = given.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{what} is of type {kind}; expected {wanted}"))
}
