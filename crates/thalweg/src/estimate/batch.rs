//! How many samples a request reads, and which.

use crate::eval::ValueEval;
use crate::oracle::{Draw, Replacement};

/// A batch of fixed size, or everything.
#[derive(Debug, Clone)]
pub struct MiniBatch {
    size: Option<usize>,
    replacement: Replacement,
    draw: Draw,
}

impl MiniBatch {
    /// `size` samples of each stream, all of them if `None`.
    pub fn new(size: Option<usize>, replacement: Replacement) -> Self {
        MiniBatch { size, replacement, draw: Draw::full() }
    }

    /// Whether every sample is read.
    pub fn is_full(&self) -> bool {
        self.size.is_none()
    }

    /// A fresh draw.
    pub fn draw<E: ValueEval + ?Sized>(&mut self, ev: &mut E) -> &Draw {
        if let Some(size) = self.size {
            ev.sample(&mut self.draw, size, self.replacement);
        }
        &self.draw
    }

    /// The last draw again: recursive estimators ask the same samples at two points.
    pub fn last(&self) -> &Draw {
        &self.draw
    }
}
