//! Weighted running mean of vectors. Exponential moving averages are in `recursive.rs`.

use serde::{Deserialize, Serialize};

use crate::math::{Aligned, vec};

/// Weighted running mean in O(d) memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningMean {
    mean: Aligned,
    weight: f64,
}

impl RunningMean {
    /// Resets the mean for vectors with `dim` entries.
    pub fn reset(&mut self, dim: usize) {
        self.mean.zeros(dim);
        self.weight = 0.0;
    }

    /// Adds `x` with a nonnegative weight.
    pub fn add(&mut self, x: &[f64], weight: f64) {
        self.weight += weight;
        if self.weight > 0.0 {
            // mean += (w / W) (x - mean) is numerically stable for any number of terms.
            vec::approach(&mut self.mean, weight / self.weight, x);
        }
    }

    /// Returns the mean, or `None` if no vector with positive weight was added.
    pub fn get(&self) -> Option<&[f64]> {
        (self.weight > 0.0).then_some(&self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_plain_weighted_mean() {
        let mut mean = RunningMean::default();
        mean.reset(2);
        assert_eq!(mean.get(), None);
        let terms = [([1.0, -2.0], 0.5), ([3.0, 4.0], 0.0), ([2.0, 7.0], 1.5)];
        terms.iter().for_each(|(x, w)| mean.add(x, *w));
        let want = [(0.5 + 2.0 * 1.5) / 2.0, (-1.0 + 7.0 * 1.5) / 2.0];
        assert!(mean.get().unwrap().iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}
