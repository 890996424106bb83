//! Sums with a bound on their rounding error: error-free transformations of additions and products, and sums in twice the
//! working precision (Ogita, Rump and Oishi, Accurate sum and dot product, 2005).

/// Half of the distance between 1 and the next larger number.
pub(crate) const UNIT: f64 = 0.5 * f64::EPSILON;

/// Bound on underflow in all operations of a sum.
const UNDERFLOW: f64 = 1e-300;

/// Returns the rounded sum and its error; their sum is exactly `a + b`.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Returns the rounded product and its error; their sum is exactly `a b` unless the error underflows.
#[inline(always)]
pub(crate) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// Returns `n u / (1 - n u)`, which bounds the relative error of n operations, or infinity if there are too many.
pub(crate) fn gamma(operations: f64) -> f64 {
    let nu = operations * UNIT;
    if nu < 0.5 { 1.01 * nu / (1.0 - nu) } else { f64::INFINITY }
}

/// A sum in twice the working precision.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExactSum {
    high: f64,
    low: f64,
    /// Sum of the absolute values of the terms, and of what was added to `low`.
    size: f64,
    low_size: f64,
    /// Number of terms.
    pub(crate) terms: usize,
}

impl ExactSum {
    /// Adds a number.
    #[inline(always)]
    pub(crate) fn add(&mut self, x: f64) {
        self.add_parts(x, 0.0);
    }

    /// Adds `(high + low) factor`, where `low` is at most a rounding error of `high`.
    #[inline(always)]
    pub(crate) fn add_product(&mut self, (high, low): (f64, f64), factor: f64) {
        let (product, error) = two_product(high, factor);
        self.add_parts(product, error + low * factor);
    }

    /// Adds a number and a much smaller one.
    #[inline(always)]
    pub(crate) fn add_parts(&mut self, x: f64, small: f64) {
        let (sum, error) = two_sum(self.high, x);
        self.high = sum;
        self.low += error + small;
        self.size += x.abs();
        self.low_size += error.abs() + small.abs();
        self.terms += 1;
    }

    /// Returns the rounded sum.
    pub(crate) fn value(&self) -> f64 {
        self.high + self.low
    }

    /// Returns a bound on the distance of `high + low` to the exact sum.
    fn error(&self) -> f64 {
        if self.terms == 0 {
            return 0.0;
        }
        let operations = 4.0 * self.terms as f64 + 8.0;
        2.0 * gamma(operations) * self.low_size + 8.0 * UNIT * UNIT * self.size * (1.0 + gamma(operations)) + UNDERFLOW
    }

    /// Returns an upper bound on the absolute value of the exact sum; 0 only for a sum without terms.
    pub(crate) fn magnitude(&self) -> f64 {
        (self.value().abs() + self.error()) * (1.0 + 8.0 * UNIT)
    }

    /// Returns a lower bound on the exact sum.
    pub(crate) fn lower(&self) -> f64 {
        let value = self.value();
        value - (8.0 * UNIT * value.abs() + self.error() * (1.0 + 8.0 * UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_exact() {
        assert_eq!(two_sum(1.0, 1e-20), (1.0, 1e-20));
        assert_eq!(two_product(1.0 + f64::EPSILON, 1.0 + f64::EPSILON), (1.0 + 2.0 * f64::EPSILON, f64::EPSILON * f64::EPSILON));
    }

    #[test]
    fn cancelling_sums_keep_their_digits() {
        let mut sum = ExactSum::default();
        for i in 0..1000 {
            sum.add(1e10 + f64::from(i));
        }
        sum.add(2.0_f64.powi(-60));
        for i in 0..1000 {
            sum.add(-1e10 - f64::from(i));
        }
        let exact = 2.0_f64.powi(-60);
        assert!((sum.value() - exact).abs() <= sum.error() && sum.error() < 1e-15, "{sum:?}");
        assert!(sum.lower() <= exact && sum.magnitude() >= exact);
        let mut products = ExactSum::default();
        products.add_product((0.1, 1e-19), 3.0);
        products.add_product((0.3, 0.0), -1.0);
        // 3 times the number 0.1 minus the number 0.3 is 2^-55.
        assert!((products.value() - (2.0_f64.powi(-55) + 3e-19)).abs() < 1e-30);
        assert_eq!(ExactSum::default().magnitude(), 0.0);
    }
}
