//! Bilevel problems with known solutions, and two on data. Each uses only the public interface.

mod group_weights;
mod hyper_representation;
mod least_squares;
mod norm_sum;
mod small;
mod toy;

pub use group_weights::GroupWeights;
pub use hyper_representation::HyperRepresentation;
pub use norm_sum::NormSum;
pub use small::{Interval, Pricing, Quadratic};
pub use toy::Toy;
