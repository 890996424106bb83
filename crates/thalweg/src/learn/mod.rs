//! Terms of a linear model's scores on data (losses, fairness gaps, regularisers), each usable as objective or as named
//! constraint, and the problem they make. Reading files is not done here.

pub mod data;

pub use data::{Data, Groups};
