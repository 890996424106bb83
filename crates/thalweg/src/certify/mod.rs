//! Certificates of stationarity and feasibility of a point, independent of the solver that found it. Measures that run a solver
//! are in [`crate::assess`].

mod bounds;
mod conflict;
mod intervals;
mod multipliers;
mod pair;
mod record;
mod zeroth_order;

pub use bounds::{Bounds, Certificate, certify, certify_with_record};
pub use conflict::{Conflict, certify_conflict};
pub use intervals::{
    Counts, ScoreThreshold, clopper_pearson, difference_at_most, distribution_half_width, mean_half_width, rate_at_least,
    rate_at_most, rate_half_width, score_threshold,
};
pub(crate) use intervals::{Difference, check_confidence, split_error};
pub use multipliers::{distance_bound, infeasible_radius};
pub use pair::{PairBound, of_pair, slope};
pub use record::{DomainCut, DomainRecord, ProximityRecord, RecordedCut, RecordedVisit};
pub use zeroth_order::{Estimate, PenaltyWeights, ZerothOrderCheck, ZerothOrderReport, check_zeroth_order};

use crate::Result;
use crate::oracle::Subgradients;

/// Checks that the point has as many entries as the problem has variables.
fn check_point(problem: &dyn Subgradients, x: &[f64]) -> Result<()> {
    crate::error::check_length("the point", x.len(), problem.dim())
}
