//! The compiled part of the Python package: problems written as Python callables, black boxes, learning problems on NumPy
//! arrays, the runs on them, data sets, plans and experiments. Messages, defaults and the conventions of other Python libraries
//! are in the Python part.

// Arguments of Python functions are passed by name.
#![allow(clippy::too_many_arguments)]

mod answers;
mod arrays;
mod bilevel;
mod blackbox;
mod callables;
mod command;
mod datasets;
mod error;
mod lab;
mod learn;
mod minimize;
mod model;
mod plan;
mod solvers;
mod values;
mod watch;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<watch::Interrupt>()?;
    module.add_class::<callables::Callables>()?;
    module.add_class::<bilevel::BilevelCallables>()?;
    module.add_class::<blackbox::BlackBox>()?;
    module.add_class::<learn::Learning>()?;
    module.add_class::<learn::Incremental>()?;
    module.add_class::<model::Model>()?;
    module.add_function(wrap_pyfunction!(model::by_group, module)?)?;
    module.add_function(wrap_pyfunction!(model::missing_cells, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(command::write_file, module)?)?;
    module.add_function(wrap_pyfunction!(minimize::minimize, module)?)?;
    module.add_function(wrap_pyfunction!(minimize::certify, module)?)?;
    module.add_function(wrap_pyfunction!(minimize::check, module)?)?;
    module.add_function(wrap_pyfunction!(minimize::length_at, module)?)?;
    module.add_function(wrap_pyfunction!(minimize::compare, module)?)?;
    module.add_function(wrap_pyfunction!(blackbox::minimize_zeroth_order, module)?)?;
    module.add_function(wrap_pyfunction!(learn::regularization, module)?)?;
    module.add_function(wrap_pyfunction!(learn::check_expression, module)?)?;
    module.add_function(wrap_pyfunction!(learn::check_constraint, module)?)?;
    module.add_function(wrap_pyfunction!(learn::split_expression, module)?)?;
    module.add_function(wrap_pyfunction!(learn::gaussian_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(learn::sweep_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(learn::split_off, module)?)?;
    module.add_function(wrap_pyfunction!(learn::score_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(datasets::dataset, module)?)?;
    module.add_function(wrap_pyfunction!(datasets::dataset_table, module)?)?;
    module.add_function(wrap_pyfunction!(datasets::datasets, module)?)?;
    module.add_function(wrap_pyfunction!(plan::plans, module)?)?;
    module.add_function(wrap_pyfunction!(plan::complexity, module)?)?;
    module.add_function(wrap_pyfunction!(solvers::solvers, module)?)?;
    module.add_function(wrap_pyfunction!(solvers::solver_needs, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_run, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_lines, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_curves, module)?)?;
    module.add_function(wrap_pyfunction!(lab::page_style, module)?)?;
    Ok(())
}
