//! Terms of a linear model's scores on data (losses, fairness gaps, regularisers), each usable as objective or as named
//! constraint, and the problems built from them. Files are not read here.

mod best;
mod build;
pub mod data;
mod expression;
mod fit;
mod function;
mod gap;
mod giveaway;
mod inf_projection;
mod inspect;
mod interval;
mod joint;
mod kernel;
mod loss;
mod loss_objective;
mod many;
mod pair_rows;
mod passes;
mod penalty;
mod population;
mod problem;
mod rate;
mod record;
mod references;
mod regularization;
mod roc;
mod rounding;
mod sample_losses;
mod self_paced;
mod smooth;
mod term;
mod units;
mod variance;
mod wasserstein;

pub use best::{Best, BestRecord, Scope, best, best_with_record, proof};
pub use build::Builder;
pub use data::{Data, Groups, Parts, RowSplit, Split, hold_out};
pub use expression::{Argument, Bound, BoundedExpression, Call, Expression};
pub(crate) use fit::percent;
pub use fit::{
    Degeneracy, Enforce, FitOptions, Fitted, FittedConstraint, Promise, PromisedConstraint, TestedCandidate, Unseen, fit,
    fit_unseen, intercept, training_config, with_training_defaults,
};
pub use gap::{EqualisedOdds, GroupComparison, RateGap};
pub use inf_projection::{LARGEST_MEAN_LOSS, LossForm};
pub use inspect::{GroupSize, PromiseSize, RowCount};
pub use interval::{Coverage, Interval, MeasuredInterval, intervals};
pub use joint::JointWasserstein;
pub use kernel::gaussian_kernel;
pub use loss::{Loss, MeanLoss, truncate};
pub use many::{Attributes, ManyConstraints};
pub use pair_rows::{Collapsed, PairRows};
pub use penalty::Penalty;
pub use problem::Learning;
pub use rate::ErrorRate;
pub use record::{FunctionRecord, ModelRecord, PieceRecord, ScalesRecord};
pub use regularization::{Regularization, Regularized, count_rows};
pub use roc::RocGap;
pub use sample_losses::RowLosses;
pub use self_paced::SelfPaced;
pub use term::{Branch, Constant, LossFunction, LossStatistic, Part, Rates, RowNorms, Subpopulation, Term, View, Work};
pub use variance::Variance;
pub use wasserstein::WassersteinGap;
