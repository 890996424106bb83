//! Further quantities of a recorded iterate, which neither the problem nor the method knows. What they are is up to whoever
//! conducts the run.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Quantities that are measured at every recorded iterate and at the returned point. They are neither counted nor timed.
pub trait Metric: Send + Sync + std::fmt::Debug {
    /// The name of each quantity.
    fn names(&self) -> Vec<String>;
    /// Their values at `x`, in the order of the names.
    fn read(&self, x: &[f64]) -> Result<Vec<f64>>;
}

/// One such quantity at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Its name.
    pub name: String,
    /// Its value; NaN if it could not be read. JSON has `null` for that.
    pub value: f64,
}

/// Reads a gauge and keeps a run going where that fails: the values are then NaN, and one note says why.
pub(super) struct Metrics<'a> {
    gauge: Option<&'a dyn Metric>,
    pub(super) names: Vec<String>,
    /// Why the first reading that failed did.
    pub(super) failure: Option<String>,
}

impl<'a> Metrics<'a> {
    pub(super) fn new(gauge: Option<&'a dyn Metric>) -> Self {
        Metrics { gauge, names: gauge.map_or(vec![], Metric::names), failure: None }
    }

    /// The values at `x`; `place` is for the note.
    pub(super) fn read(&mut self, x: &[f64], place: impl std::fmt::Display) -> Vec<f64> {
        let Some(gauge) = self.gauge else { return vec![] };
        let values = gauge.read(x).and_then(|values| match values.len() {
            n if n == self.names.len() => Ok(values),
            got => Err(Error::Length { what: "the list of further quantities".into(), got, wanted: self.names.len() }),
        });
        values.unwrap_or_else(|e| {
            self.failure.get_or_insert_with(|| format!("the further quantities could not be read {place}: {e}"));
            vec![f64::NAN; self.names.len()]
        })
    }
}
