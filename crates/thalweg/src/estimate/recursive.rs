//! Recursive estimators of a mean: exponential averages, and two estimators that use differences of the same samples at two
//! points. Scalars are vectors of length one.

use serde::{Deserialize, Serialize};

/// SPIDER estimator: reset to a (large mini-batch) mean every `period` steps, and updated by differences on small mini-batches in
/// between.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spider {
    estimate: Vec<f64>,
    period: u64,
    age: u64,
}

impl Spider {
    /// Clears the estimate; the first step will be a reset.
    pub fn start(&mut self, dim: usize, period: u64) {
        self.estimate.clear();
        self.estimate.resize(dim, 0.0);
        self.period = period.max(1);
        self.age = 0;
    }

    /// Returns whether the next step is a reset.
    pub fn resets(&self) -> bool {
        self.age.is_multiple_of(self.period)
    }

    /// Sets `u = mean`, computed by `fill`.
    pub fn reset<E>(&mut self, fill: impl FnOnce(&mut [f64]) -> Result<(), E>) -> Result<(), E> {
        fill(&mut self.estimate)?;
        self.age += 1;
        Ok(())
    }

    /// Computes `u += now - before`, the means of the same samples at the new and at the previous point.
    pub fn advance(&mut self, now: &[f64], before: &[f64]) {
        for ((u, now), before) in self.estimate.iter_mut().zip(now).zip(before) {
            *u += now - before;
        }
        self.age += 1;
    }

    /// Returns the estimate.
    pub fn get(&self) -> &[f64] {
        &self.estimate
    }
}

/// Exponential moving average `z = (1 - b) z + b new`, initialised with the first value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ema {
    mean: Vec<f64>,
}

impl Ema {
    /// Adds a value with weight `b` in (0, 1].
    pub fn update(&mut self, new: &[f64], b: f64) {
        if self.mean.is_empty() {
            self.mean.extend_from_slice(new);
            return;
        }
        for (z, new) in self.mean.iter_mut().zip(new) {
            *z = (1.0 - b) * *z + b * new;
        }
    }

    /// Returns the average; empty before the first value.
    pub fn get(&self) -> &[f64] {
        &self.mean
    }
}

/// STORM estimator: `v = now + (1 - a)(v - before)` with the same samples at the new and at the previous point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    estimate: Vec<f64>,
}

impl Storm {
    /// Sets the first estimate.
    pub fn start(&mut self, first: &[f64]) {
        self.estimate.clear();
        self.estimate.extend_from_slice(first);
    }

    /// Updates the estimate.
    pub fn update(&mut self, now: &[f64], before: &[f64], a: f64) {
        for ((v, now), before) in self.estimate.iter_mut().zip(now).zip(before) {
            *v = now + (1.0 - a) * (*v - before);
        }
    }

    /// Returns the estimate; empty before the first.
    pub fn get(&self) -> &[f64] {
        &self.estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// g(x, i) = x - b_i: every sample has the same slope, so differences on one sample are exact.
    #[test]
    fn spider_is_exact_for_equal_slopes() {
        let b = [0.3, -1.2, 0.7, 2.0];
        let g = |x: f64, i: usize| x - b[i];
        let mean = |x: f64| b.iter().map(|b| x - b).sum::<f64>() / 4.0;
        let mut spider = Spider::default();
        spider.start(1, 3);
        let xs = [0.0, 0.5, -0.25, 1.0, 3.0, 2.5, 2.0];
        for (k, &x) in xs.iter().enumerate() {
            assert_eq!(spider.resets(), k % 3 == 0);
            if spider.resets() {
                spider
                    .reset(|u| {
                        u[0] = mean(x);
                        Ok::<(), ()>(())
                    })
                    .unwrap();
            } else {
                spider.advance(&[g(x, k % 4)], &[g(xs[k - 1], k % 4)]);
            }
            assert!((spider.get()[0] - mean(x)).abs() < 1e-15);
        }
    }

    /// g(x, i) = a_i x with a = (0, 2), from x = 0 to 1 by one sample: 0 or 2, with expectation 1.
    #[test]
    fn spider_is_unbiased_for_different_slopes() {
        let moved: Vec<f64> = [0.0, 2.0]
            .iter()
            .map(|a| {
                let mut spider = Spider::default();
                spider.start(1, 5);
                spider.advance(&[0.0], &[0.0]);
                spider.advance(&[a * 1.0], &[a * 0.0]);
                spider.get()[0]
            })
            .collect();
        assert_eq!(moved, [0.0, 2.0]);
    }

    #[test]
    fn averages_follow_their_recurrences() {
        let mut ema = Ema::default();
        for v in [4.0, 0.0, 2.0] {
            ema.update(&[v], 0.5);
        }
        assert_eq!(ema.get(), [2.0]);
        let mut storm = Storm::default();
        storm.start(&[1.0]);
        storm.update(&[3.0], &[2.0], 0.25);
        assert_eq!(storm.get(), [3.0 + 0.75 * (1.0 - 2.0)]);
        // With a = 1 the past is discarded; with a = 0 it is SPIDER without resets.
        storm.update(&[7.0], &[9.0], 1.0);
        assert_eq!(storm.get(), [7.0]);
        storm.update(&[8.0], &[6.0], 0.0);
        assert_eq!(storm.get(), [9.0]);
    }
}
