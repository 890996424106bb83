//! How stationary is this point? Independent of every solver's own claims.

mod switching;

pub use switching::{NearStationarity, Switching, by_switching};
