//! Forward-mode dual numbers, in which a formula is written once and evaluated as value, first or second derivative. The
//! formulas of a bilevel problem are in `formulas`.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Operations that a formula may use. Implemented by `f64` and by [`Dual`] numbers.
pub trait Number:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + From<f64>
    + Mul<f64, Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
{
    /// Returns the value without derivatives, for comparisons.
    fn value(self) -> f64;
    /// `self^n`.
    fn powi(self, n: i32) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;

    /// `|self|`; at 0 the derivative is that of `self`.
    fn abs(self) -> Self {
        if self.value() < 0.0 { -self } else { self }
    }
    /// `max(0, self)`; at 0 the derivative is 0.
    fn positive_part(self) -> Self {
        if self.value() > 0.0 { self } else { Self::from(0.0) }
    }
}

impl Number for f64 {
    fn value(self) -> f64 {
        self
    }
    fn powi(self, n: i32) -> Self {
        f64::powi(self, n)
    }
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    fn ln(self) -> Self {
        f64::ln(self)
    }
    fn sin(self) -> Self {
        f64::sin(self)
    }
    fn cos(self) -> Self {
        f64::cos(self)
    }
}

/// A number with its derivative along one direction. `Dual<Dual<f64>>` has second derivatives along two.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dual<T> {
    /// The number.
    pub value: T,
    /// Its derivative.
    pub slope: T,
}

impl<T: Number> Dual<T> {
    fn chain(self, value: T, slope: T) -> Self {
        Dual { value, slope: slope * self.slope }
    }
}

impl<T: Number> From<f64> for Dual<T> {
    fn from(value: f64) -> Self {
        Dual { value: T::from(value), slope: T::from(0.0) }
    }
}

impl<T: Number> Add for Dual<T> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Dual { value: self.value + other.value, slope: self.slope + other.slope }
    }
}

impl<T: Number> AddAssign for Dual<T> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<T: Number> Sub for Dual<T> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Dual { value: self.value - other.value, slope: self.slope - other.slope }
    }
}

impl<T: Number> Mul for Dual<T> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Dual { value: self.value * other.value, slope: self.slope * other.value + self.value * other.slope }
    }
}

impl<T: Number> Div for Dual<T> {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let value = self.value / other.value;
        Dual { value, slope: (self.slope - value * other.slope) / other.value }
    }
}

impl<T: Number> Neg for Dual<T> {
    type Output = Self;
    fn neg(self) -> Self {
        Dual { value: -self.value, slope: -self.slope }
    }
}

impl<T: Number> Mul<f64> for Dual<T> {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Dual { value: self.value * factor, slope: self.slope * factor }
    }
}

impl<T: Number> Add<f64> for Dual<T> {
    type Output = Self;
    fn add(self, more: f64) -> Self {
        Dual { value: self.value + more, ..self }
    }
}

impl<T: Number> Sub<f64> for Dual<T> {
    type Output = Self;
    fn sub(self, less: f64) -> Self {
        Dual { value: self.value - less, ..self }
    }
}

impl<T: Number> Number for Dual<T> {
    fn value(self) -> f64 {
        self.value.value()
    }
    fn powi(self, n: i32) -> Self {
        // At 0 the power n - 1 would be infinite, and 0 times it NaN.
        let slope = if n == 0 { T::from(0.0) } else { self.value.powi(n - 1) * f64::from(n) };
        self.chain(self.value.powi(n), slope)
    }
    fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.chain(root, T::from(0.5) / root)
    }
    fn exp(self) -> Self {
        let exp = self.value.exp();
        self.chain(exp, exp)
    }
    fn ln(self) -> Self {
        self.chain(self.value.ln(), T::from(1.0) / self.value)
    }
    fn sin(self) -> Self {
        self.chain(self.value.sin(), self.value.cos())
    }
    fn cos(self) -> Self {
        self.chain(self.value.cos(), -self.value.sin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation once.
    fn formula<T: Number>(x: T, y: T) -> T {
        let mut sum = (x * y).sin() + (x / y).exp() - (y + 2.0).ln() * 0.5;
        sum += (x - 3.0).abs().sqrt() * y.powi(3) + (x - y).positive_part().powi(2) - (-x).cos();
        sum
    }

    #[test]
    fn derivatives_are_those_of_differences() {
        for (x, y) in [(0.7, 1.3), (1.9, 0.4), (3.7, 2.1)] {
            let step = 1e-5;
            let one = formula(Dual { value: x, slope: 0.6 }, Dual { value: y, slope: -0.8 });
            assert_eq!(one.value, formula(x, y));
            let at = |t: f64, u: f64| formula(x + 0.6 * t + 0.3 * u, y - 0.8 * t + 0.5 * u);
            let along = (at(step, 0.0) - at(-step, 0.0)) / (2.0 * step);
            assert!((one.slope - along).abs() < 1e-7 * (1.0 + along.abs()), "{one:?} {along}");
            let inner = |value: f64, along: f64| Dual { value, slope: along };
            let two = formula(
                Dual { value: inner(x, 0.6), slope: inner(0.3, 0.0) },
                Dual { value: inner(y, -0.8), slope: inner(0.5, 0.0) },
            );
            assert!((two.value.slope - one.slope).abs() < 1e-13);
            let h = 1e-4;
            let mixed = (at(h, h) - at(h, -h) - at(-h, h) + at(-h, -h)) / (4.0 * h * h);
            assert!((two.slope.slope - mixed).abs() < 1e-5 * (1.0 + mixed.abs()), "{two:?} {mixed}");
        }
        assert_eq!(Dual { value: 0.0, slope: 1.0 }.powi(0), Dual { value: 1.0, slope: 0.0 });
        assert_eq!(Dual { value: 0.0, slope: 1.0 }.abs().slope, 1.0);
        assert_eq!(Dual { value: 0.0, slope: 1.0 }.positive_part().slope, 0.0);
    }
}
