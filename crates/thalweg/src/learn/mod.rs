//! Terms of a linear model's scores on data (losses, fairness gaps, regularisers), each usable as objective or as named
//! constraint, and the problem they make. Reading files is not done here.

mod build;
pub mod data;
mod expression;
mod fit;
mod gap;
mod loss;
mod penalty;
mod problem;
mod roc;
mod term;

pub use build::Builder;
pub use data::{Data, Groups, Parts, Split, hold_out};
pub use expression::{Bounded, Call, Expression};
pub use fit::{Enforce, FitOptions, Fitted, FittedConstraint, fit};
pub use gap::RateGap;
pub use loss::{Loss, MeanLoss};
pub use penalty::Penalty;
pub use problem::Learning;
pub use roc::RocGap;
pub use term::{Constant, Part, RowNorms, Term, View, Who, Work};
