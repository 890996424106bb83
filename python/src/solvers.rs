//! Names and requirements of the solvers, from the registry of the library.

use pyo3::prelude::*;
use thalweg::solvers::SolverName;
use thalweg::solvers::registry::Interface;

use crate::error::of_library;
use crate::values::python;

/// Lists the solvers that an interface offers; with `constraints` only those that accept constraints, or only those that do
/// not.
#[pyfunction]
#[pyo3(signature = (interface, constraints=None))]
pub fn solvers(interface: &str, constraints: Option<bool>) -> PyResult<Vec<&'static str>> {
    let interface = interface.parse::<Interface>().map_err(of_library)?;
    let offered = SolverName::ALL.iter().filter(|name| name.offered_by(interface));
    let taken = offered.filter(|name| constraints.is_none_or(|wanted| wanted == name.takes_constraints()));
    Ok(taken.map(|name| name.as_str()).collect())
}

/// Returns what a solver requires of a problem: "values", "subgradients", "smooth-functions", "inf-projection" or "sample-losses".
#[pyfunction]
pub fn solver_needs<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    python(py, &name.parse::<SolverName>().map_err(of_library)?.needs())
}
