//! The function h of an inf-projection problem: a power of the distance to a centre, on an interval, with its proximal operator
//! and the gradient of its conjugate. No other functions of y are implemented.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Function `h(y) = weight (|y - centre|^p / p) + tilt y` for `low <= y <= high`, summed over the entries of y.
///
/// Its proximal operator is a formula for p = 2 and a scalar Newton iteration for other p.
///
/// ```
/// use thalweg::oracle::Power;
/// # fn main() -> thalweg::Result<()> {
/// let h = Power::square(2.0)?.between(0.0, f64::INFINITY)?;
/// assert_eq!(h.prox(3.0, 0.5), 1.5);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Power {
    weight: f64,
    p: f64,
    centre: f64,
    tilt: f64,
    low: f64,
    high: f64,
}

impl Power {
    /// Creates `(weight / 2) y^2` on the whole line.
    pub fn square(weight: f64) -> Result<Self> {
        Power::new(weight, 2.0)
    }

    /// Creates `(weight / p) |y|^p` on the whole line, for p of at least 2.
    pub fn new(weight: f64, p: f64) -> Result<Self> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(Error::setting("weight of h", weight, "a finite number above 0, so that h is uniformly convex"));
        }
        if !(p >= 2.0 && p.is_finite()) {
            return Err(Error::setting("power of h", p, "a finite number of at least 2, so that h is uniformly convex"));
        }
        Ok(Power { weight, p, centre: 0.0, tilt: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY })
    }

    /// Moves the centre.
    pub fn around(self, centre: f64) -> Result<Self> {
        crate::error::check_finite("centre of h", centre)?;
        Ok(Power { centre, ..self })
    }

    /// Adds `tilt y`.
    pub fn tilted(self, tilt: f64) -> Result<Self> {
        crate::error::check_finite("tilt of h", tilt)?;
        Ok(Power { tilt, ..self })
    }

    /// Restricts y to `low <= y <= high`; either end may be infinite.
    pub fn between(self, low: f64, high: f64) -> Result<Self> {
        if low <= high && low < f64::INFINITY && high > f64::NEG_INFINITY {
            return Ok(Power { low, high, ..self });
        }
        Err(Error::setting("domain of h", format!("[{low}, {high}]"), "an interval that is not empty"))
    }

    /// Returns the ends of the interval.
    pub fn interval(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Returns the nearest point of the interval. NaN stays NaN.
    pub fn clip(&self, y: f64) -> f64 {
        if y < self.low {
            self.low
        } else if y > self.high {
            self.high
        } else {
            y
        }
    }

    /// Returns h(y) for y in the interval.
    pub fn value(&self, y: f64) -> f64 {
        let off = (y - self.centre).abs();
        let power = if self.p == 2.0 { off * off } else { off.powf(self.p) };
        self.weight * power / self.p + self.tilt * y
    }

    /// Returns h'(y) for y in the interval.
    pub fn slope(&self, y: f64) -> f64 {
        let off = y - self.centre;
        self.weight * if self.p == 2.0 { off } else { off.signum() * off.abs().powf(self.p - 1.0) } + self.tilt
    }

    /// Returns the y that minimises `h(y) - slope y`, the gradient of the conjugate of h at `slope`.
    pub fn touch(&self, slope: f64) -> f64 {
        let off = (slope - self.tilt) / self.weight;
        let off = if self.p == 2.0 { off } else { off.signum() * off.abs().powf(1.0 / (self.p - 1.0)) };
        self.clip(self.centre + off)
    }

    /// Returns `argmin_y h(y) + (y - v)^2 / (2 eta)` over the interval.
    pub fn prox(&self, v: f64, eta: f64) -> f64 {
        // With s = y - centre: weight |s|^(p-1) sign(s) + s / eta = r, whose left-hand side is increasing in s.
        let r = (v - self.centre) / eta - self.tilt;
        if self.p == 2.0 {
            return self.clip(self.centre + r * eta / (1.0 + eta * self.weight));
        }
        let size = r.abs();
        // Newton's method from the right on a convex increasing function decreases monotonically to the root.
        let mut s = (size * eta).min((size / self.weight).powf(1.0 / (self.p - 1.0)));
        for _ in 0..100 {
            let power = self.weight * s.powf(self.p - 2.0);
            let step = (power * s + s / eta - size) / (power * (self.p - 1.0) + 1.0 / eta);
            s -= step;
            if step.abs() <= 1e-16 * s || step.is_nan() {
                break;
            }
        }
        self.clip(self.centre + r.signum() * s)
    }

    /// Returns the distance from 0 to the subdifferential of `h(y) - slope y` at y. At an end of the interval only the component
    /// that points into it counts.
    pub fn distance_from_touch(&self, y: f64, slope: f64) -> f64 {
        let d = self.slope(y) - slope;
        if y <= self.low && y >= self.high {
            0.0
        } else if y <= self.low {
            (-d).max(0.0)
        } else if y >= self.high {
            d.max(0.0)
        } else {
            d.abs()
        }
    }

    /// Returns the exponent v of the Hölder continuous gradient of the conjugate: 1 / (p - 1).
    pub fn exponent(&self) -> f64 {
        1.0 / (self.p - 1.0)
    }

    /// Returns the Hölder constant L of the gradient of the conjugate: h is uniformly convex with constant `weight 2^(2 - p)`,
    /// and L is the inverse of that to the power v.
    pub fn holder_constant(&self) -> f64 {
        (1.0 / (self.weight * 2_f64.powf(2.0 - self.p))).powf(self.exponent())
    }

    /// Returns the largest |y|; infinite on a half-line.
    pub fn reach(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn the_worked_prox() {
        // Spec 5.10 test 4: lam = 2, eta = .5, v = 3 -> 1.5, and nothing below 0.
        let h = Power::square(2.0).unwrap().between(0.0, f64::INFINITY).unwrap();
        assert_eq!(h.prox(3.0, 0.5), 1.5);
        assert_eq!(h.prox(-3.0, 0.5), 0.0);
    }

    #[test]
    fn what_is_not_uniformly_convex_is_refused() {
        let message = Power::square(0.0).unwrap_err().to_string();
        assert!(message.contains("weight of h must be ") && message.contains("got 0"), "{message}");
        let message = Power::new(1.0, 1.5).unwrap_err().to_string();
        assert!(message.contains("power of h must be ") && message.contains("got 1.5"), "{message}");
        assert!(Power::square(1.0).unwrap().between(2.0, 1.0).unwrap_err().to_string().contains("[2, 1]"));
        assert!(Power::square(1.0).unwrap().around(f64::NAN).is_err());
    }

    /// Reference implementation: ternary search on an interval that contains the minimiser.
    fn smallest(value: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
        for _ in 0..200 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if value(a) <= value(b) { high = b } else { low = a }
        }
        0.5 * (low + high)
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn prox_and_touch_minimise(
            weight in 0.1..5.0_f64, p in prop::sample::select(vec![2.0, 2.5, 3.0, 4.0, 7.5]), centre in -2.0..2.0_f64,
            tilt in -2.0..2.0_f64, low in -4.0..0.0_f64, length in 0.0..6.0_f64, v in -8.0..8.0_f64, eta in 0.01..20.0_f64,
        ) {
            let h = Power::new(weight, p).unwrap().around(centre).unwrap().tilted(tilt).unwrap();
            let h = h.between(low, low + length).unwrap();
            let near = |found: f64, value: &dyn Fn(f64) -> f64| {
                let twin = smallest(value, low, low + length);
                value(found) <= value(twin) + 1e-12 * (1.0 + value(twin).abs()) && (low..=low + length).contains(&found)
            };
            let of_prox = |y: f64| h.value(y) + (y - v) * (y - v) / (2.0 * eta);
            prop_assert!(near(h.prox(v, eta), &of_prox));
            let of_touch = |y: f64| h.value(y) - v * y;
            prop_assert!(near(h.touch(v), &of_touch));
            // At the minimiser, 0 is in the subdifferential; and the prox minimises h for the slope v / eta - y / eta.
            prop_assert!(h.distance_from_touch(h.touch(v), v) <= 1e-9 * (1.0 + v.abs()));
        }

        #[test]
        fn the_conjugate_has_a_hoelder_gradient(weight in 0.1..5.0_f64, p in 2.0..6.0_f64, a in -5.0..5.0_f64, b in -5.0..5.0_f64) {
            let h = Power::new(weight, p).unwrap();
            let bound = h.holder_constant() * (a - b).abs().powf(h.exponent());
            prop_assert!((h.touch(a) - h.touch(b)).abs() <= bound * (1.0 + 1e-12) + 1e-12);
        }
    }
}
