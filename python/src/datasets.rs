//! The data sets that are available by name, as NumPy arrays and columns. The Python package converts them to objects of other
//! libraries.

use std::collections::HashMap;
use std::path::PathBuf;

use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use thalweg::math::Matrix;
use thalweg_lab::data::catalogue::{self, Options, Place, SETS};
use thalweg_lab::data::table::Table;

use crate::error::of_lab;
use crate::values::python;

/// Cells that mark a missing value.
const MISSING: [&str; 2] = ["?", ""];

/// Returns a set as the parts of compressed rows, labels of +1 and -1, and the group index of each row if there are groups.
#[pyfunction]
#[pyo3(signature = (name, data_dir=None))]
pub fn dataset<'py>(py: Python<'py>, name: &str, data_dir: Option<PathBuf>) -> PyResult<Bound<'py, PyDict>> {
    let loaded = py.detach(|| catalogue::load(name, &Options { data_dir, ..Options::default() })).map_err(of_lab)?;
    let (data, found) = (loaded.data, PyDict::new(py));
    found.set_item("shape", (data.features.rows(), data.features.cols()))?;
    let (indptr, indices, values) = compressed(py, &data.features)?;
    found.set_item("indptr", indptr)?;
    found.set_item("indices", indices)?;
    found.set_item("values", values)?;
    found.set_item("labels", PyArray1::from_vec(py, data.labels))?;
    let groups = data.groups.map(|groups| (PyArray1::from_vec(py, groups.of_row), groups.names));
    found.set_item("groups", groups)?;
    found.set_item("notes", python(py, &loaded.notes)?)?;
    found.set_item("fingerprint", loaded.fingerprint)?;
    Ok(found)
}

/// Three arrays: the start of each row, the columns of its entries, and the entries.
type Compressed<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Returns the non-zero entries, with the index type that SciPy would choose.
fn compressed<'py>(py: Python<'py>, matrix: &Matrix) -> PyResult<Compressed<'py>> {
    let mut filled = 0_usize;
    for i in 0..matrix.rows() {
        matrix.visit_row(i, |_, value| filled += usize::from(value != 0.0));
    }
    if i32::try_from(filled.max(matrix.cols())).is_ok() {
        arrays(py, matrix, filled, |index| index as i32)
    } else {
        arrays(py, matrix, filled, |index| index as i64)
    }
}

fn arrays<'py, T: Element + Copy + Send>(
    py: Python<'py>,
    matrix: &Matrix,
    filled: usize,
    index: impl Fn(usize) -> T + Send,
) -> PyResult<Compressed<'py>> {
    let (indptr, indices, values) = {
        let (mut indptr, mut indices, mut values) =
            (Vec::with_capacity(matrix.rows() + 1), Vec::with_capacity(filled), Vec::with_capacity(filled));
        indptr.push(index(0));
        for i in 0..matrix.rows() {
            matrix.visit_row(i, |column, value| {
                if value != 0.0 {
                    indices.push(index(column));
                    values.push(value);
                }
            });
            indptr.push(index(indices.len()));
        }
        (indptr, indices, values)
    };
    let (indptr, indices) = (PyArray1::from_vec(py, indptr), PyArray1::from_vec(py, indices));
    Ok((indptr.into_any(), indices.into_any(), PyArray1::from_vec(py, values).into_any()))
}

/// Returns a raw table: (name, column) for each column, notes and fingerprint. A column is an array of integers or floats if
/// every cell is one, otherwise a list of strings; `?` and empty cells are missing.
#[pyfunction]
#[pyo3(signature = (name, data_dir=None))]
#[allow(clippy::type_complexity)]
pub fn dataset_table<'py>(
    py: Python<'py>,
    name: &str,
    data_dir: Option<PathBuf>,
) -> PyResult<(Vec<(String, Bound<'py, PyAny>)>, Bound<'py, PyAny>, String)> {
    let loaded = py.detach(|| catalogue::table(name, &Options { data_dir, ..Options::default() })).map_err(of_lab)?;
    let names = loaded.table.names().iter().enumerate();
    let columns = names.map(|(j, name)| Ok((name.clone(), column(py, &loaded.table, j)?))).collect::<PyResult<_>>()?;
    Ok((columns, python(py, &loaded.notes)?, loaded.fingerprint))
}

fn column<'py>(py: Python<'py>, table: &Table, j: usize) -> PyResult<Bound<'py, PyAny>> {
    let cells = || (0..table.rows()).map(|i| table.cell(i, j).trim());
    if let Some(whole) = cells().map(|cell| cell.parse().ok()).collect::<Option<Vec<i64>>>() {
        return Ok(PyArray1::from_vec(py, whole).into_any());
    }
    let number = |cell: &str| match MISSING.contains(&cell) {
        true => Some(f64::NAN),
        // "inf" and "nan" are strings here.
        false => cell.parse().ok().filter(|v: &f64| v.is_finite()),
    };
    if let Some(numbers) = cells().map(number).collect::<Option<Vec<f64>>>()
        && numbers.iter().any(|v| !v.is_nan())
    {
        return Ok(PyArray1::from_vec(py, numbers).into_any());
    }
    // Repeated strings share one object.
    let mut words: HashMap<&str, Bound<'py, PyAny>> = MISSING.into_iter().map(|cell| (cell, py.None().into_bound(py))).collect();
    let all = cells().map(|cell| words.entry(cell).or_insert_with(|| PyString::new(py, cell).into_any()).clone());
    Ok(PyList::new(py, all.collect::<Vec<_>>())?.into_any())
}

/// Returns the catalogue entry of every data set, and where it was found.
#[pyfunction]
#[pyo3(signature = (data_dir=None))]
pub fn datasets<'py>(py: Python<'py>, data_dir: Option<PathBuf>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let options = Options { data_dir, ..Options::default() };
    let describe = |set: &catalogue::Set| {
        let found = PyDict::new(py);
        found.set_item("name", set.name)?;
        found.set_item("rows", set.rows)?;
        found.set_item("columns", set.columns)?;
        found.set_item("load", set.is_loadable())?;
        found.set_item("load_table", set.is_table())?;
        let place = match catalogue::find(set, &options) {
            Place::Embedded => "embedded".into(),
            Place::File(path) => path.display().to_string(),
            Place::Missing => "missing".into(),
        };
        found.set_item("where", place)?;
        found.set_item("label", set.label)?;
        found.set_item("groups", set.groups)?;
        found.set_item("about", set.about)?;
        found.set_item("source", set.source)?;
        found.set_item("licence", set.licence)?;
        Ok(found)
    };
    SETS.iter().map(describe).collect()
}
