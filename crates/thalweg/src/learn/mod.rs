//! Terms of a linear model's scores on data (losses, fairness gaps, regularisers), each usable as objective or as named
//! constraint, and the problem they make. Reading files is not done here.

mod best;
mod build;
pub mod data;
mod expression;
mod fit;
mod gap;
mod inf_projection;
mod interval;
mod joint;
mod kernel;
mod loss;
mod many;
mod pair_rows;
mod penalty;
mod problem;
mod rate;
mod references;
mod roc;
mod sample_losses;
mod self_paced;
mod term;
mod variance;
mod wasserstein;

pub use best::{Best, best};
pub use build::Builder;
pub use data::{Data, Groups, Parts, Split, hold_out};
pub use expression::{Argument, Bound, Bounded, Call, Expression};
pub use fit::{Enforce, FitOptions, Fitted, FittedConstraint, fit, training_config, with_training_defaults};
pub use gap::{EqualisedOdds, RateGap};
pub use inf_projection::{LARGEST_MEAN_LOSS, LossForm};
pub use interval::{Counted, Interval, intervals};
pub use joint::JointWasserstein;
pub use kernel::gaussian_kernel;
pub use loss::{Loss, MeanLoss, truncate};
pub use many::{Attributes, ManyConstraints};
pub use pair_rows::{Collapsed, PairRows};
pub use penalty::Penalty;
pub use problem::Learning;
pub use rate::ErrorRate;
pub use roc::RocGap;
pub use sample_losses::RowLosses;
pub use self_paced::SelfPaced;
pub use term::{Branch, Constant, LossStatistic, OfLosses, Part, Rates, RowNorms, Subpopulation, Term, View, Work};
pub use variance::Variance;
pub use wasserstein::WassersteinGap;
