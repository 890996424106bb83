//! Model files: reading and writing them, and scoring the rows of frames and matrices with their encoding.

use std::path::PathBuf;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use thalweg::Note;
use thalweg::learn::Groups;
use thalweg_lab::by_group::ScoredRows;
use thalweg_lab::encode::{Encoding, FrameCells, MISSING};
use thalweg_lab::model::{GroupQuality, Input, Rows};
use thalweg_lab::{Error, model};

use crate::arrays::matrix;
use crate::error::of_lab;
use crate::values::python;

/// Model file in memory.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Model(model::Model);

/// Columns of a frame: names with numbers, or with text.
type Columns<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// Groups of the rows of a frame, and by each of several columns.
#[derive(Serialize)]
struct ReadGroups {
    names: Vec<String>,
    of_row: Vec<u32>,
    by_column: Vec<(String, Vec<String>, Vec<u32>)>,
}

#[pymethods]
impl Model {
    /// Reads a model file, or `model.json` in a directory.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let missing = !path.exists();
        py.detach(|| model::Model::read(&path)).map(Model).map_err(|error| match error {
            error @ Error::File { .. } if missing => PyFileNotFoundError::new_err(error.to_string()),
            other => of_lab(other),
        })
    }

    /// Makes a model from its parts, by the names of the file without `format` and `thalweg`. The encoding of `numbers`, names of
    /// columns of numbers as they are, belongs to models of frames and dense arrays.
    #[new]
    #[pyo3(signature = (parts, numbers=None))]
    fn new(parts: &Bound<'_, PyDict>, numbers: Option<Vec<String>>) -> PyResult<Self> {
        let (format, thalweg) = model::Model::current();
        let parts = parts.copy()?;
        parts.set_item("format", format)?;
        parts.set_item("thalweg", thalweg)?;
        if let Some(numbers) = numbers {
            let input = parts.get_item("input")?.and_then(|input| input.get_item("table").ok());
            let input = input.ok_or_else(|| PyValueError::new_err("the parts have no input of a table"))?;
            input.set_item("encoding", python(parts.py(), &Encoding::of_numbers(numbers))?)?;
        }
        let model: model::Model = pythonize::depythonize(&parts)?;
        model.check().map_err(|what| PyValueError::new_err(format!("the model cannot be saved: {what}")))?;
        Ok(Model(model))
    }

    /// Writes the model file, completely or not at all.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.write(&path)).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Returns the model by the names of the file.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &self.0)
    }

    /// Returns whether the scores are log-odds.
    fn has_probabilities(&self) -> bool {
        self.0.has_probabilities()
    }

    /// Returns the names of the features.
    fn feature_names(&self) -> Vec<String> {
        self.0.input.feature_names()
    }

    /// Computes the scores of the rows of a matrix with a column for each feature.
    fn scores<'py>(&self, py: Python<'py>, features: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let features = matrix(features)?;
        Ok(PyArray1::from_vec(py, py.detach(|| self.0.scores(&features))))
    }

    /// Encodes the columns of a frame. Returns scores, labels and groups, where the frame has them, and notes.
    #[allow(clippy::type_complexity)]
    fn frame<'py>(
        &self,
        py: Python<'py>,
        columns: Columns<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let Input::Table { encoding, grouping, .. } = &self.0.input else {
            return Err(PyTypeError::new_err("X must be a matrix, because the model was trained on LIBSVM rows, got a frame"));
        };
        let columns = columns.into_iter().map(|(name, cells)| Ok((name, cells_of(&cells)?))).collect::<PyResult<_>>()?;
        let (scores, labels, groups, notes) = py.detach(|| -> PyResult<(Vec<f64>, _, _, Vec<Note>)> {
            let table = encoding.table_of_frame("X", columns);
            let Rows { features, labels, groups, notes } = self.0.input.rows(&table).map_err(of_frame)?;
            Ok((self.0.scores(&features), labels, groups, notes))
        })?;
        let groups = groups.map(|Groups { names, of_row }| {
            let coarser = grouping.as_ref().map_or_else(Vec::new, |g| g.by_column());
            let by_column = coarser.into_iter().map(|c| (c.column, c.names, c.of_group)).collect();
            ReadGroups { names, of_row, by_column }
        });
        let labels = labels.map(|labels| PyArray1::from_vec(py, labels));
        Ok((PyArray1::from_vec(py, scores), labels, python(py, &groups)?, python(py, &notes)?))
    }
}

/// Lists the cells that count as missing, without surrounding white space.
#[pyfunction]
pub fn missing_cells() -> Vec<&'static str> {
    MISSING.to_vec()
}

/// Counts rows and rates by group. `groups` has the group of each row, an index into `names`.
#[pyfunction]
#[pyo3(signature = (scores, labels, names, groups, weights=None))]
pub fn by_group<'py>(
    py: Python<'py>,
    scores: PyReadonlyArray1<'py, f64>,
    labels: PyReadonlyArray1<'py, f64>,
    names: Vec<String>,
    groups: PyReadonlyArray1<'py, u32>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = |given: PyReadonlyArray1<'py, f64>| -> Vec<f64> { given.as_array().iter().copied().collect() };
    let (scores, labels, weights) = (array(scores), array(labels), weights.map(array));
    let groups: Vec<u32> = groups.as_array().iter().copied().collect();
    let lengths = [labels.len(), groups.len(), weights.as_ref().map_or(scores.len(), Vec::len)];
    if lengths.iter().any(|length| *length != scores.len()) || groups.iter().any(|k| *k as usize >= names.len()) {
        return Err(PyValueError::new_err("scores, labels, groups and weights must have an entry for each row"));
    }
    let found: Vec<GroupQuality> = py.detach(|| {
        let rows = ScoredRows { scores: &scores, labels: &labels, weights: weights.as_deref() };
        rows.by_group(&names, groups.iter().copied())
    });
    python(py, &found)
}

fn cells_of(cells: &Bound<'_, PyAny>) -> PyResult<FrameCells> {
    match cells.extract::<PyReadonlyArray1<'_, f64>>() {
        Ok(numbers) => Ok(FrameCells::Numbers(numbers.as_array().iter().copied().collect())),
        Err(_) => Ok(FrameCells::Text(cells.extract()?)),
    }
}

/// Names rows of a frame by their position, from 0, and not by lines of a file.
fn of_frame(error: Error) -> PyErr {
    match error {
        Error::Line { file, line, what } => PyValueError::new_err(format!("{file}, row {}: {what}", line.saturating_sub(2))),
        other => of_lab(other),
    }
}
