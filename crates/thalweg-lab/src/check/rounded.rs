//! Exponentials, logarithms and quotients in integers of 64 and 128 bits, with proved relative errors: the arithmetic of the passes over
//! the rows. Exact numbers are in `number.rs`.

#[cfg(test)]
use super::number;
use super::number::Dyadic;

/// Bits of a number without its power.
const DIGITS: u32 = 63;
/// Arguments of exponentials are multiples of `2^-FRACTION`.
pub const FRACTION: i32 = 64;
/// Largest argument of an exponential, as a power of two.
const LARGEST: u32 = 10;
/// `log 2` on the grid of `2^-100`, rounded downwards.
const LOG_TWO: u128 = 0xB_1721_7F7D_1CF7_9ABC_9E3B_3980;
/// Relative error of every function of this file and of the two products that follow it, rounded upwards. An exponential has an error of
/// at most `2^-59.8`: `2^-62.4` from its argument, the rest from the 3.5 units of `2^-63` that its series rounds, relative to at least
/// 1/2. A logarithm adds `2^-60`, a quotient or a product at most `2^-61`. No function consists of more than eight of these.
pub const ERROR: f64 = 1.0 / (1_u64 << 56) as f64;
/// What an exponential that is too small to be computed is at most, as a power of two.
pub const UNDERFLOW: i64 = -1470;

/// The non-negative number `digits * 2^power` with 0 or 63 bits of digits, the first of which is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounded {
    pub digits: u64,
    pub power: i32,
}

impl Rounded {
    pub const ZERO: Rounded = Rounded { digits: 0, power: 0 };
    pub const ONE: Rounded = Rounded { digits: 1 << (DIGITS - 1), power: 1 - DIGITS as i32 };

    /// Rounds `digits * 2^power` downwards, by less than `2^-62` of it.
    pub fn new(digits: u128, power: i32) -> Self {
        if digits == 0 {
            return Rounded::ZERO;
        }
        let excess = 128 - digits.leading_zeros() as i32 - DIGITS as i32;
        let shifted = if excess >= 0 { digits >> excess } else { digits << -excess };
        Rounded { digits: shifted as u64, power: power + excess }
    }

    /// A positive number.
    pub fn of(x: f64) -> Self {
        let (digits, power) = parts(x);
        Rounded::new(u128::from(digits.unsigned_abs()), power)
    }

    /// Sign and absolute value.
    pub fn of_dyadic(x: &Dyadic) -> (bool, Self) {
        let (negative, digits, power) = x.leading();
        (negative, Rounded::new(digits, power as i32))
    }

    pub fn dyadic(self) -> Dyadic {
        Dyadic::new(i128::from(self.digits), i64::from(self.power))
    }

    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    pub fn times(self, other: Rounded) -> Rounded {
        Rounded::new(u128::from(self.digits) * u128::from(other.digits), self.power + other.power)
    }

    /// Quotient by a number that is not 0.
    pub fn over(self, other: Rounded) -> Rounded {
        Rounded::new((u128::from(self.digits) << DIGITS) / u128::from(other.digits), self.power - other.power - DIGITS as i32)
    }

    pub fn plus(self, other: Rounded) -> Rounded {
        let (low, high) = if self.power <= other.power { (self, other) } else { (other, self) };
        if low.is_zero() || high.is_zero() {
            return if low.is_zero() { high } else { low };
        }
        // The digits of the larger power leave 64 bits for the smaller one.
        let lift = (high.power - low.power).min(64) as u32;
        let moved = (i64::from(high.power) - i64::from(low.power) - i64::from(lift)).min(127) as u32;
        let sum = (u128::from(high.digits) << lift) + (u128::from(low.digits) >> moved);
        Rounded::new(sum, high.power - lift as i32)
    }

    /// Digits on the grid of `2^power`, rounded downwards; the number is below `2^(64 + power)`.
    fn on_grid(self, power: i32) -> u64 {
        let shift = self.power - power;
        if shift >= 0 { self.digits << shift.min(63) } else { self.digits.checked_shr(-shift as u32).unwrap_or(0) }
    }
}

/// Digits with sign and power of a finite number: 53 bits, the first of which is 1 unless the number is denormal.
pub fn parts(x: f64) -> (i64, i32) {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let digits = (bits & ((1 << 52) - 1)) as i64 | if exponent > 0 { 1 << 52 } else { 0 };
    (if x < 0.0 { -digits } else { digits }, exponent.max(1) - 1075)
}

/// `exp(-x)` for x on the grid of `2^-64`.
pub fn exp_minus(x: u128) -> Rounded {
    if x >> (FRACTION as u32 + LARGEST) != 0 {
        return Rounded { digits: 1 << (DIGITS - 1), power: UNDERFLOW as i32 - DIGITS as i32 };
    }
    // x = k log 2 + r with r below log 2.
    let fine = x << 36;
    let k = fine / LOG_TWO;
    let r = ((fine - k * LOG_TWO) >> 36) as u64;
    // 1 - r (1 - r/2 (1 - r/3 (...))) on the grid of 2^-63; the remainder of 20 terms is below 2^-71.
    let one = 1_u64 << 63;
    let series = (1..=20_u64).rev().fold(one, |sum, n| one - ((u128::from(r) * u128::from(sum)) >> 64) as u64 / n);
    Rounded::new(u128::from(series), -63 - k as i32)
}

/// `log(1 + t)` for t of at most 1: `2 u (1 + u^2 / 3 + u^4 / 5 + ...)` with `u = t / (2 + t)`.
fn log1p_below_one(t: Rounded) -> Rounded {
    let two = Rounded { power: Rounded::ONE.power + 1, ..Rounded::ONE };
    let u = t.over(two.plus(t));
    let fraction = u.on_grid(-64);
    let square = (u128::from(fraction) * u128::from(fraction)) >> 64;
    // The sum is below 1.06, on the grid of 2^-63; u is at most 1/3, so that the remainder of 22 terms is below 2^-70.
    let series = (0..22_u64).rev().fold(0_u64, |sum, n| (1 << 63) / (2 * n + 1) + ((square * u128::from(sum)) >> 64) as u64);
    let u = Rounded { power: u.power + 1, ..u };
    if u.is_zero() { u } else { u.times(Rounded::new(u128::from(series), -63)) }
}

/// `log(1 + t)`.
pub fn log1p(t: Rounded) -> Rounded {
    let sum = Rounded::ONE.plus(t);
    let k = sum.power - Rounded::ONE.power;
    if k == 0 {
        return log1p_below_one(t);
    }
    // 1 + t = 2^k f with f in [1, 2).
    let rest = Rounded::new(u128::from(sum.digits - Rounded::ONE.digits), Rounded::ONE.power);
    let whole = Rounded::new(k as u128 * (LOG_TWO >> 36), -64);
    whole.plus(log1p_below_one(rest))
}

/// `log(1 + exp(-x))` for x of at least 0 on the grid of `2^-64`.
pub fn softplus_minus(x: u128) -> Rounded {
    log1p(exp_minus(x))
}

/// `1 / (1 + exp(-x))` and `1 / (1 + exp(x))` for x of at least 0 on the grid of `2^-64`.
pub fn sigmoids(x: u128) -> [Rounded; 2] {
    let tail = exp_minus(x);
    let sum = Rounded::ONE.plus(tail);
    [Rounded::ONE.over(sum), tail.over(sum)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with an interval that another implementation computed in 192 bits, at a quarter of the stated error.
    #[track_caller]
    fn within(found: Rounded, wanted: &number::Interval) {
        let found = found.dyadic();
        let error = &found * &(ERROR / 4.0).into();
        let (low, high) = (&found - &error, &found + &error);
        assert!(low <= wanted.high && wanted.low <= high, "{} {}", found.approximate(), wanted.high.approximate());
    }

    #[test]
    fn functions_agree_with_exact_ones() {
        let one = 1_u128 << FRACTION;
        let mut x = 3_u128;
        for trial in 0..4000_u32 {
            // From 2^-64 to 512, with digits from a linear congruence.
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) & (one - 1);
            let at = if trial % 3 == 0 { x >> (trial % 61) } else { (x * u128::from(trial % 512)) + x };
            let argument = Dyadic::new(at as i128, -64);
            within(exp_minus(at), &number::exp_minus(&argument));
            within(softplus_minus(at), &number::softplus_minus(&argument));
            let [above, below] = sigmoids(at);
            within(above, &number::sigmoid(&argument));
            within(below, &number::sigmoid(&-argument));
        }
        assert_eq!(exp_minus(0), Rounded::ONE);
        assert!(Rounded::dyadic(exp_minus(one << 10)) <= Dyadic::power_of_two(UNDERFLOW));
    }

    #[test]
    fn logarithms_of_large_numbers_are_right() {
        for t in [1e-300, 1e-12, 0.3, 0.999, 1.0, 1.5, 7.0, 1e3, 1e12] {
            let found = log1p(Rounded::of(t));
            let off = (Rounded::dyadic(found).approximate() - f64::ln_1p(t)).abs();
            assert!(off <= 4e-16 * f64::ln_1p(t), "{t}: {off}");
        }
        // log((1 + t)^2) = 2 log(1 + t), with t = 3/4, at a precision that floating point does not have.
        let (once, twice) = (Rounded::dyadic(log1p(Rounded::of(0.75))), Rounded::dyadic(log1p(Rounded::of(2.0625))));
        assert!((&(&once + &once) - &twice).abs() <= (ERROR / 4.0).into());
    }

    #[test]
    fn arithmetic_rounds_by_little() {
        let near = |found: Rounded, wanted: Dyadic| {
            assert!((&Rounded::dyadic(found) - &wanted).abs() <= &wanted * &Dyadic::power_of_two(-61), "{found:?}");
        };
        for (a, b) in [(0.1, 3.0), (1e-200, 7.5), (5e-324, 1e300), (1.0, 1.0)] {
            let (x, y) = (Rounded::of(a), Rounded::of(b));
            near(x, a.into());
            near(x.times(y), &Dyadic::from(a) * &b.into());
            near(x.plus(y), &Dyadic::from(a) + &b.into());
            near(y.plus(x), &Dyadic::from(a) + &b.into());
            near(x.over(y).times(y), a.into());
        }
        assert_eq!(parts(-0.5), (-(1 << 52), -53));
        assert_eq!(parts(5e-324), (1, -1074));
    }
}
