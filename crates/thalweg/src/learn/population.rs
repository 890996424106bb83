//! Populations: the rows that one statistic is averaged over, each a sample stream of the problem. Scores and slopes of these
//! rows are computed elsewhere.

use std::ops::Range;

use super::data::Data;
use super::term::{RowNorms, Subpopulation};
use crate::{Error, Result};

/// Rows that a statistic is averaged over, one sample stream.
#[derive(Debug)]
pub(super) struct Population {
    pub(super) part: usize,
    pub(super) subpopulation: Subpopulation,
    /// Positions within the part; `None` if all of them belong to the population.
    pub(super) members: Option<Vec<u32>>,
    /// Labels of the members; empty if the population is the whole part.
    pub(super) labels: Vec<f64>,
    /// Row weights with mean 1.
    pub(super) weights: Option<Vec<f64>>,
    pub(super) norms: RowNorms,
}

impl Population {
    /// Selects the rows of `subpopulation` among the rows `range` of the part with index `part`. Fails if their total weight is 0; `term`
    /// appears in the error.
    pub(super) fn select(
        data: &Data,
        intercept: bool,
        (part, range): (usize, Range<usize>),
        subpopulation: Subpopulation,
        term: &str,
    ) -> Result<Self> {
        let group = |i: usize| data.groups.as_ref().map(|g| g.of_row[i]);
        let rows: Vec<usize> = range.clone().filter(|&i| subpopulation.contains(group(i), data.labels[i])).collect();
        let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
        let total: f64 = rows.iter().map(|&i| weight(i)).sum();
        if total <= 0.0 {
            let whom = describe(data, subpopulation);
            let why = if rows.is_empty() { "there is none" } else { "their weights are all 0" };
            return Err(Error::Problem(format!("'{term}' needs {whom} among the rows it is computed on, but {why}")));
        }
        let constant = f64::from(u8::from(intercept));
        let mean_square = rows.iter().map(|&i| weight(i) * (data.features.row_norm_squared(i) + constant)).sum::<f64>() / total;
        let n = rows.len() as f64;
        let whole = rows.len() == range.len();
        Ok(Population {
            part,
            subpopulation,
            labels: if whole { vec![] } else { rows.iter().map(|&i| data.labels[i]).collect() },
            weights: data.weights.as_ref().map(|w| rows.iter().map(|&i| w[i] * n / total).collect()),
            members: (!whole).then(|| rows.iter().map(|&i| (i - range.start) as u32).collect()),
            norms: RowNorms { weight: total, mean_square },
        })
    }

    /// Returns the number of rows; `parts` are the row ranges of the problem's parts.
    pub(super) fn size(&self, parts: &[Range<usize>]) -> usize {
        self.members.as_ref().map_or(parts[self.part].len(), Vec::len)
    }
}

/// Describes a subpopulation for an error message.
pub(super) fn describe(data: &Data, subpopulation: Subpopulation) -> String {
    let name = |k: u32| data.groups.as_ref().and_then(|g| g.names.get(k as usize)).map_or("?", String::as_str);
    match subpopulation {
        Subpopulation::Everyone => "rows".into(),
        Subpopulation::Positives => "rows with label +1".into(),
        Subpopulation::Negatives => "rows with label -1".into(),
        Subpopulation::Group(k) => format!("rows of group '{}'", name(k)),
        Subpopulation::GroupPositives(k) => format!("rows of group '{}' with label +1", name(k)),
        Subpopulation::GroupNegatives(k) => format!("rows of group '{}' with label -1", name(k)),
    }
}
