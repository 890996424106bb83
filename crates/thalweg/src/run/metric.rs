//! Additional metrics of recorded iterates, which the caller defines.

use serde::{Deserialize, Serialize};

use crate::{Error, Note, Result};

/// Metrics that are computed at every recorded iterate and at the returned point. The time that they take is not counted as time
/// of the run.
pub trait Metric: Send + Sync + std::fmt::Debug {
    /// Returns the name of each metric.
    fn names(&self) -> Vec<String>;
    /// Computes the metrics at `x`, in the order of the names.
    fn read(&self, x: &[f64]) -> Result<Vec<f64>>;
}

/// Value of a metric at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Name of the metric.
    pub name: String,
    /// Its value; NaN, and `null` in JSON, if it could not be computed.
    pub value: f64,
}

/// Computes metrics during a run. A failure does not end the run: the values are NaN, and a note has the first error.
pub(super) struct Metrics<'a> {
    metric: Option<&'a dyn Metric>,
    pub(super) names: Vec<String>,
    /// The first failure.
    pub(super) failure: Option<Note>,
}

impl<'a> Metrics<'a> {
    pub(super) fn new(metric: Option<&'a dyn Metric>) -> Self {
        Metrics { metric, names: metric.map_or(vec![], Metric::names), failure: None }
    }

    /// Computes the metrics at `x`: an iterate, or the returned point if `iteration` is `None`.
    pub(super) fn read(&mut self, x: &[f64], iteration: Option<u64>) -> Vec<f64> {
        let Some(metric) = self.metric else { return vec![] };
        let values = metric.read(x).and_then(|values| match values.len() {
            n if n == self.names.len() => Ok(values),
            got => Err(Error::Length { what: "the list of metrics".into(), got, wanted: self.names.len() }),
        });
        values.unwrap_or_else(|e| {
            self.failure.get_or_insert_with(|| Note::MetricsFailed { iteration, reason: e.to_string() });
            vec![f64::NAN; self.names.len()]
        })
    }
}
