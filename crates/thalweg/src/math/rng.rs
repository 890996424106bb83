//! Random generator of a run: PCG-64 with a serialisable position and one stream per purpose, so that drawing more samples
//! never shifts the output draw. It is never seeded by the clock.

use rand::{Rng as _, RngExt as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// Purpose of a stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Dividing data into parts.
    Split,
    /// Samples that an oracle evaluates.
    Sampling,
    /// Iterate that a solver returns.
    Output,
    /// Search directions of zeroth-order methods.
    Directions,
    /// Generated data.
    Data,
}

/// Generator with a serialisable position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rng(Pcg64);

impl Rng {
    /// Creates the stream of `seed` for one purpose.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        // Distinct increments give independent sequences; the multiplier spreads neighbouring seeds over the state space.
        let state = u128::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) ^ 0xD1B5_4A32_D192_ED03;
        Rng(Pcg64::new(state, 0x5851_F42D_4C95_7F2D + purpose as u128))
    }

    /// Returns a uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Returns a uniform number in `0..n`; `n` must be positive.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `out` with independent standard normal numbers (Box-Muller, two at a time). An odd length discards one, so that
    /// the position is the whole state.
    pub fn normals(&mut self, out: &mut [f64]) {
        for pair in out.chunks_mut(2) {
            // 1 - u is above 0.
            let (radius, angle) = ((-2.0 * (1.0 - self.uniform()).ln()).sqrt(), std::f64::consts::TAU * self.uniform());
            let (sine, cosine) = angle.sin_cos();
            pair.iter_mut().zip([radius * cosine, radius * sine]).for_each(|(o, v)| *o = v);
        }
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_positions_survive_serialisation() {
        let mut a = Rng::new(7, Purpose::Sampling);
        let mut b = Rng::new(7, Purpose::Output);
        assert_ne!(a.bits(), b.bits());
        let saved = postcard::to_stdvec(&a).unwrap();
        let next: Vec<u64> = (0..5).map(|_| a.bits()).collect();
        let mut restored: Rng = postcard::from_bytes(&saved).unwrap();
        assert_eq!(next, (0..5).map(|_| restored.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn normal_draws_have_the_right_moments() {
        let mut rng = Rng::new(0, Purpose::Directions);
        let mut draws = vec![0.0; 400_001];
        rng.normals(&mut draws);
        let moment = |k: i32| draws.iter().map(|v| v.powi(k)).sum::<f64>() / draws.len() as f64;
        // Six standard errors each: of a mean 1, of a square 2, of a fourth power 96, over the number of draws.
        let error = |variance: f64| 6.0 * (variance / draws.len() as f64).sqrt();
        assert!(moment(1).abs() < error(1.0) && (moment(2) - 1.0).abs() < error(2.0) && (moment(4) - 3.0).abs() < error(96.0));
        let both = draws.chunks_exact(2).map(|p| p[0] * p[1]).sum::<f64>() / 200_000.0;
        assert!(both.abs() < 6.0 / 200_000_f64.sqrt());
    }

    #[test]
    fn uniform_draws_have_the_right_mean() {
        let mut rng = Rng::new(0, Purpose::Data);
        let mean = (0..100_000).map(|_| rng.uniform()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 5e-3, "{mean}");
    }
}
