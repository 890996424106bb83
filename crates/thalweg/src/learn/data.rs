//! Rows with labels, groups and weights: what the terms of [`crate::learn`] are computed on.

use crate::math::Matrix;
use crate::{Error, Result, error::check_length};

/// Which group each row belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Names of the groups; with two, the first is the protected one.
    pub names: Vec<String>,
    /// For each row, an index into `names`.
    pub of_row: Vec<u32>,
}

/// A labelled data set in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// One row per example.
    pub features: Matrix,
    /// +1 or -1 for each row.
    pub labels: Vec<f64>,
    /// Group of each row, if there are groups.
    pub groups: Option<Groups>,
    /// Positive weight of each row; `None` means 1 each.
    pub weights: Option<Vec<f64>>,
}

impl Data {
    /// Checks sizes, labels, groups and weights.
    pub fn validate(&self) -> Result<()> {
        let n = self.features.rows();
        check_length("the list of labels", self.labels.len(), n)?;
        if let Some((i, &y)) = self.labels.iter().enumerate().find(|(_, y)| y.abs() != 1.0) {
            return Err(Error::setting(format!("label of row {}", i + 1), y, "+1 or -1"));
        }
        if let Some(groups) = &self.groups {
            check_length("the list of groups", groups.of_row.len(), n)?;
            if let Some((i, &k)) = groups.of_row.iter().enumerate().find(|(_, k)| **k as usize >= groups.names.len()) {
                return Err(Error::setting(
                    format!("group of row {}", i + 1),
                    k,
                    format!("a number below {}", groups.names.len()),
                ));
            }
        }
        if let Some(weights) = &self.weights {
            check_length("the list of row weights", weights.len(), n)?;
            if let Some((i, &w)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
                return Err(Error::setting(format!("weight of row {}", i + 1), w, "a finite number of at least 0"));
            }
        }
        Ok(())
    }
}
