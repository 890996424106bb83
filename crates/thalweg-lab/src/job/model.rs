//! Builds the problem of the terms of a model on given rows. Specs, `thalweg fit` and model files each parse their own notation;
//! the problem is built here for all of them.

use std::sync::Arc;

use thalweg::learn::{BoundedExpression, Builder, Data, Expression, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::sets::Set;

use crate::Result;

/// Objective, constraints and domain of a model.
#[derive(Clone)]
pub(crate) struct ModelTerms {
    pub(crate) minimize: Expression,
    pub(crate) subject_to: Vec<BoundedExpression>,
    /// Whether the model has an intercept, its last variable.
    pub(crate) intercept: bool,
    /// The domain; the library's default if `None`.
    pub(crate) domain: Option<Domain>,
    /// Whether the minimiser of the loss is computed even if no term refers to it.
    pub(crate) needs_erm: bool,
}

/// The domain of the variables.
#[derive(Clone)]
pub(crate) enum Domain {
    /// A given set.
    Set(Arc<dyn Set>),
    /// A ball around 0 whose radius is this multiple of the norm of the loss's minimiser.
    TimesErm(f64),
}

impl ModelTerms {
    /// Starts the problem on `data`. The caller adds the split and known reference values, and builds or checks it.
    pub(crate) fn on(&self, data: Data) -> Builder {
        let mut builder = Learning::on(data).intercept(self.intercept).minimize(self.minimize.clone()).needs_erm(self.needs_erm);
        for constraint in &self.subject_to {
            builder = builder.subject_to(constraint.clone());
        }
        match &self.domain {
            None => builder,
            Some(Domain::Set(set)) => builder.domain(Arc::clone(set)),
            Some(Domain::TimesErm(times)) => builder.domain_times_erm(*times),
        }
    }

    /// As [`ModelTerms::on`], on four rows, one for each group and label. [`Builder::check`] then finds the errors that do not
    /// depend on the data.
    pub(crate) fn on_sample(&self, grouped: bool) -> Result<Builder> {
        let groups = grouped.then(|| Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 0, 1, 1] });
        let (features, labels) = (Matrix::dense(4, 1, vec![0.0; 4])?, vec![1.0, -1.0, 1.0, -1.0]);
        Ok(self.on(Data { features, labels, groups, weights: None }))
    }
}
