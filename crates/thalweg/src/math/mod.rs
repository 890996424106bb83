//! Arithmetic without reference to optimisation: vectors, matrices of rows, reproducible sums, random numbers and sigmoid
//! kernels. Everything here is deterministic: the same arguments give the same bits for any number of threads.

pub mod aligned;
pub(crate) mod cholesky;
pub(crate) mod exact;
pub(crate) mod fetch;
pub(crate) mod gram;
pub(crate) mod lazy;
pub mod matrix;
pub mod offsets;
pub mod reduce;
pub mod rng;
pub mod sigmoid;
pub mod vec;
pub(crate) mod wide;

pub use aligned::Aligned;
pub use matrix::{Compressed, Matrix};
pub use offsets::Offsets;
pub use rng::Rng;
