//! Weighted random selection of one of many vectors without storing them all. Means of vectors are in `average.rs`.

use serde::{Deserialize, Serialize};

use crate::math::Rng;

/// Weighted reservoir of size one: after any number of offers, the stored vector is the t-th with probability proportional to its
/// weight.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reservoir {
    kept: Vec<f64>,
    index: Option<u64>,
    weight: f64,
}

impl Reservoir {
    /// Clears the reservoir for vectors with `dim` entries.
    pub fn reset(&mut self, dim: usize) {
        self.kept.clear();
        self.kept.resize(dim, 0.0);
        self.index = None;
        self.weight = 0.0;
    }

    /// Offers `x`, the `index`-th vector, with a nonnegative weight. Draws one random number per offer, stored or not, so that
    /// the generator's position does not depend on the outcome.
    pub fn offer(&mut self, x: &[f64], index: u64, weight: f64, rng: &mut Rng) {
        self.offer_by(index, weight, rng, |kept| kept.copy_from_slice(x));
    }

    /// Offers a vector that `write` computes only if it is stored.
    pub fn offer_by(&mut self, index: u64, weight: f64, rng: &mut Rng, write: impl FnOnce(&mut [f64])) {
        let u = rng.uniform();
        self.weight += weight;
        if weight > 0.0 && u * self.weight < weight {
            write(&mut self.kept);
            self.index = Some(index);
        }
    }

    /// Returns the stored vector and its index.
    pub fn get(&self) -> Option<(u64, &[f64])> {
        self.index.map(|i| (i, self.kept.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::Purpose;

    #[test]
    fn frequencies_follow_the_weights() {
        let mut rng = Rng::new(11, Purpose::Output);
        let weights = [1.0, 0.0, 3.0, 6.0];
        let mut hits = [0_u32; 4];
        let mut reservoir = Reservoir::default();
        for _ in 0..20_000 {
            reservoir.reset(1);
            for (t, w) in weights.iter().enumerate() {
                reservoir.offer(&[t as f64], t as u64, *w, &mut rng);
            }
            let (index, x) = reservoir.get().unwrap();
            assert_eq!(x, [index as f64]);
            hits[index as usize] += 1;
        }
        // Expected 2,000, 0, 6,000 and 12,000; six standard deviations are below 420.
        for (h, want) in hits.iter().zip([2_000, 0, 6_000, 12_000]) {
            assert!(h.abs_diff(want) < 420, "{hits:?}");
        }
    }

    #[test]
    fn nothing_offered_is_nothing_kept() {
        let mut reservoir = Reservoir::default();
        reservoir.reset(1);
        assert_eq!(reservoir.get(), None);
    }
}
