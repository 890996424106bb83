//! Exact dyadic numbers, and intervals of them that contain quotients, square roots, exponentials and logarithms.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

use num_bigint::{BigInt, Sign};

/// Bits of quotients and square roots, and of the grid that exponentials and logarithms are computed on.
const BITS: u64 = 192;
/// Error of a series on that grid. Fewer than 100 operations round, each by at most one unit of the grid, and squaring eight
/// times multiplies an error by at most 256; remainders of the series are below one unit.
const SERIES: u32 = 1 << 17;

/// The number `digits * 2^power`.
#[derive(Debug, Clone)]
pub struct Dyadic {
    digits: BigInt,
    power: i64,
}

impl Dyadic {
    pub fn zero() -> Self {
        Dyadic::power_of_two(0).times(0)
    }

    pub fn new(digits: i128, power: i64) -> Self {
        Dyadic { digits: digits.into(), power }
    }

    pub fn power_of_two(power: i64) -> Self {
        Dyadic::new(1, power)
    }

    fn times(mut self, factor: i64) -> Self {
        self.digits *= factor;
        self
    }

    pub fn sign(&self) -> Ordering {
        match self.digits.sign() {
            Sign::Minus => Ordering::Less,
            Sign::NoSign => Ordering::Equal,
            Sign::Plus => Ordering::Greater,
        }
    }

    pub fn abs(&self) -> Self {
        Dyadic { digits: BigInt::from(self.digits.magnitude().clone()), power: self.power }
    }

    pub fn half(&self) -> Self {
        Dyadic { digits: self.digits.clone(), power: self.power - 1 }
    }

    /// Digits on the grid of the given power, rounded downwards.
    fn on_grid(&self, power: i64) -> BigInt {
        // The shift of a negative number rounds downwards too.
        if self.power >= power { &self.digits << (self.power - power) } else { &self.digits >> (power - self.power) }
    }

    /// Interval of at most `2 BITS` digits that contains the number.
    fn short(self) -> Interval {
        let excess = self.digits.bits().saturating_sub(2 * BITS) as i64;
        if excess == 0 { Interval::from(self) } else { grid(self.on_grid(self.power + excess), 1, self.power + excess) }
    }

    /// Upper bound on the square root.
    pub fn root(&self) -> Self {
        if self.sign() == Ordering::Equal {
            return Dyadic::zero();
        }
        // An even power leaves enough digits.
        let power = (self.power + self.digits.bits() as i64 - 2 * BITS as i64).min(self.power).div_euclid(2) * 2;
        Dyadic { digits: self.on_grid(power).magnitude().sqrt().into(), power: power / 2 } + Dyadic::power_of_two(power / 2)
    }

    /// Lower bound on the square root.
    pub fn root_below(&self) -> Self {
        let power = (self.power + self.digits.bits() as i64 - 2 * BITS as i64).min(self.power).div_euclid(2) * 2;
        Dyadic { digits: self.on_grid(power).magnitude().sqrt().into(), power: power / 2 }
    }

    /// Sign, at most 120 leading digits of the absolute value, and their power.
    pub fn leading(&self) -> (bool, u128, i64) {
        let excess = (self.digits.bits() as i64 - 120).max(0);
        let digits: BigInt = self.abs().on_grid(self.power + excess);
        (self.sign() == Ordering::Less, u128::try_from(digits).unwrap_or(0), self.power + excess)
    }

    /// Nearly the number, for messages and for choices that need no proof.
    pub fn approximate(&self) -> f64 {
        let excess = (self.digits.bits() as i64 - 60).max(0);
        let digits = i64::try_from(self.on_grid(self.power + excess)).unwrap_or(0);
        let power = (self.power + excess).clamp(-2000, 2000) as i32;
        digits as f64 * 2.0_f64.powi(power / 2) * 2.0_f64.powi(power - power / 2)
    }
}

impl From<f64> for Dyadic {
    fn from(x: f64) -> Self {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i64;
        let digits = (bits & ((1 << 52) - 1)) as i64 | if exponent > 0 { 1 << 52 } else { 0 };
        let zeros = if digits == 0 { 0 } else { i64::from(digits.trailing_zeros()) };
        let signed = if x < 0.0 { -(digits >> zeros) } else { digits >> zeros };
        Dyadic { digits: signed.into(), power: exponent.max(1) - 1075 + zeros }
    }
}

impl Add for &Dyadic {
    type Output = Dyadic;
    fn add(self, other: &Dyadic) -> Dyadic {
        let (low, high) = if self.power <= other.power { (self, other) } else { (other, self) };
        match (low.sign(), high.sign()) {
            (Ordering::Equal, _) => high.clone(),
            (_, Ordering::Equal) => low.clone(),
            _ => Dyadic { digits: &low.digits + (&high.digits << (high.power - low.power)), power: low.power },
        }
    }
}

impl Mul for &Dyadic {
    type Output = Dyadic;
    fn mul(self, other: &Dyadic) -> Dyadic {
        Dyadic { digits: &self.digits * &other.digits, power: self.power + other.power }
    }
}

impl Neg for Dyadic {
    type Output = Dyadic;
    fn neg(self) -> Dyadic {
        Dyadic { digits: -self.digits, power: self.power }
    }
}

impl Sub for &Dyadic {
    type Output = Dyadic;
    fn sub(self, other: &Dyadic) -> Dyadic {
        self + &-other.clone()
    }
}

impl Add for Dyadic {
    type Output = Dyadic;
    fn add(self, other: Dyadic) -> Dyadic {
        &self + &other
    }
}

impl Sub for Dyadic {
    type Output = Dyadic;
    fn sub(self, other: Dyadic) -> Dyadic {
        &self - &other
    }
}

impl Mul for Dyadic {
    type Output = Dyadic;
    fn mul(self, other: Dyadic) -> Dyadic {
        &self * &other
    }
}

impl PartialEq for Dyadic {
    fn eq(&self, other: &Dyadic) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Dyadic {}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Dyadic) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dyadic {
    fn cmp(&self, other: &Dyadic) -> Ordering {
        (self - other).sign()
    }
}

impl std::iter::Sum for Dyadic {
    fn sum<I: Iterator<Item = Dyadic>>(all: I) -> Dyadic {
        all.fold(Dyadic::zero(), |sum, x| sum + x)
    }
}

/// Numbers from `low` to `high`.
#[derive(Debug, Clone)]
pub struct Interval {
    pub low: Dyadic,
    pub high: Dyadic,
}

/// Interval from `digits` to `digits + width`, in units of `2^power`.
fn grid(digits: BigInt, width: u32, power: i64) -> Interval {
    Interval { high: Dyadic { digits: &digits + width, power }, low: Dyadic { digits, power } }
}

impl From<Dyadic> for Interval {
    fn from(x: Dyadic) -> Self {
        Interval { low: x.clone(), high: x }
    }
}

impl From<f64> for Interval {
    fn from(x: f64) -> Self {
        Interval::from(Dyadic::from(x))
    }
}

impl Add for &Interval {
    type Output = Interval;
    fn add(self, other: &Interval) -> Interval {
        Interval { low: &self.low + &other.low, high: &self.high + &other.high }
    }
}

impl Sub for &Interval {
    type Output = Interval;
    fn sub(self, other: &Interval) -> Interval {
        Interval { low: &self.low - &other.high, high: &self.high - &other.low }
    }
}

impl Mul for &Interval {
    type Output = Interval;
    fn mul(self, other: &Interval) -> Interval {
        let ends = [&self.low * &other.low, &self.low * &other.high, &self.high * &other.low, &self.high * &other.high];
        let (low, high) = (ends.iter().min().cloned(), ends.into_iter().max());
        Interval { low: low.unwrap_or_else(Dyadic::zero).short().low, high: high.unwrap_or_else(Dyadic::zero).short().high }
    }
}

impl Interval {
    /// Quotient by a positive number.
    pub fn over(&self, divisor: &Dyadic) -> Interval {
        let one = |x: &Dyadic| {
            let power = x.power - divisor.power - (BITS + divisor.digits.bits()) as i64;
            let digits: BigInt = x.on_grid(power + divisor.power);
            // Division truncates towards 0.
            grid(digits / &divisor.digits - 1, 2, power)
        };
        Interval { low: one(&self.low).low, high: one(&self.high).high }
    }

    /// Quotient by an interval of positive numbers.
    pub fn divided(&self, by: &Interval) -> Interval {
        let ends = [self.over(&by.low), self.over(&by.high)];
        let [a, b] = ends;
        Interval { low: a.low.min(b.low), high: a.high.max(b.high) }
    }

    pub fn abs(&self) -> Interval {
        let (low, high) = (self.low.abs(), self.high.abs());
        let inside = self.low.sign() != self.high.sign();
        Interval { low: if inside { Dyadic::zero() } else { low.clone().min(high.clone()) }, high: low.max(high) }
    }

    pub fn max(self, other: Interval) -> Interval {
        Interval { low: self.low.max(other.low), high: self.high.max(other.high) }
    }
}

const GRID: i64 = -(BITS as i64);

/// `log(1 + t)` for t in [0, 1] on the grid: `2 atanh(t / (2 + t))`, whose argument is at most 1/3.
fn log1p_grid(t: &BigInt) -> BigInt {
    let one = BigInt::from(1) << BITS;
    let u: BigInt = (t << BITS) / (t + &one * 2);
    let square: BigInt = (&u * &u) >> BITS;
    let (mut term, mut sum) = (u.clone(), u);
    for n in 1..64_u32 {
        term = (term * &square) >> BITS;
        sum += &term / (2 * n + 1);
    }
    sum * 2
}

/// Interval of `exp(-x)` for x of at least 0.
#[cfg(test)]
pub fn exp_minus(x: &Dyadic) -> Interval {
    if *x > Dyadic::from(4096.0) {
        return Interval { low: Dyadic::zero(), high: Dyadic::power_of_two(-4096) };
    }
    let one = BigInt::from(1) << BITS;
    let (log_two, at) = (log1p_grid(&one), x.on_grid(GRID));
    // exp(-x) = 2^-k exp(-r) with r in [0, log 2) up to rounding; exp(-r) is a square eight times.
    let k = i64::try_from(&at / &log_two).unwrap_or(0);
    let r: BigInt = (at - &log_two * k) >> 8;
    let (mut term, mut sum) = (one.clone(), one);
    for n in 1..26_u32 {
        term = -((term * &r) >> BITS) / n;
        sum += &term;
    }
    for _ in 0..8 {
        sum = (&sum * &sum) >> BITS;
    }
    // The error of log 2, below 2^8, is multiplied by k, which is below 2^13.
    let error = SERIES << 12;
    let found = grid(sum - error, 2 * error, GRID - k);
    Interval { low: found.low.max(Dyadic::zero()), high: found.high }
}

/// Interval of `log(1 + exp(-x))`.
#[cfg(test)]
pub fn softplus_minus(x: &Dyadic) -> Interval {
    let tail = exp_minus(&x.abs());
    let log = |t: &Dyadic| t.on_grid(GRID).min(BigInt::from(1) << BITS);
    let (low, high) = (log1p_grid(&log(&tail.low)) - SERIES, log1p_grid(&log(&tail.high)) + SERIES);
    let tail = Interval { low: Dyadic { digits: low, power: GRID }, high: Dyadic { digits: high, power: GRID } };
    if x.sign() == Ordering::Less { &tail + &Interval::from(x.abs()) } else { tail }
}

/// Interval of `1 / (1 + exp(-x))`.
#[cfg(test)]
pub fn sigmoid(x: &Dyadic) -> Interval {
    let tail = exp_minus(&x.abs());
    let one = Interval::from(1.0);
    let above = Interval { low: one.over(&(&one.low + &tail.high)).low, high: one.over(&(&one.low + &tail.low)).high };
    if x.sign() == Ordering::Less { &one - &above } else { above }
}

/// Lower bound on the entropy `-a log a - (1 - a) log(1 - a)` over an interval; concave, so that an end is smallest.
pub fn entropy(share: &Interval) -> Dyadic {
    let part = |x: &Dyadic| -> Dyadic {
        // x = f 2^-k with f in [1, 2), and log x is rounded upwards.
        if x.sign() != Ordering::Greater || *x >= Dyadic::from(1.0) {
            return Dyadic::zero();
        }
        let k = -(x.power + x.digits.bits() as i64 - 1);
        let fraction = Dyadic { digits: x.digits.clone(), power: x.power + k }.on_grid(GRID) - (BigInt::from(1) << BITS);
        let log = log1p_grid(&fraction) + SERIES - (log1p_grid(&(BigInt::from(1) << BITS)) - SERIES) * k;
        (-(x * &Dyadic { digits: log, power: GRID })).max(Dyadic::zero())
    };
    let whole = |a: &Dyadic| &part(a) + &part(&(&Dyadic::from(1.0) - a));
    whole(&share.low).min(whole(&share.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &Interval, wanted: f64) {
        let (low, high) = (found.low.approximate(), found.high.approximate());
        assert!(found.low <= found.high && (low - wanted).abs() <= 1e-15 * wanted.abs() + 1e-45, "{low} {high} {wanted}");
        assert!((&found.high - &found.low).approximate() <= 1e-40 * (1.0 + wanted.abs()), "{found:?}");
    }

    #[test]
    fn functions_agree_with_floating_point() {
        for x in [0.0, 1e-300, 1e-9, 0.3, 0.69, 1.0, 2.5, 17.0, 36.5, 100.0, 700.0] {
            near(&exp_minus(&x.into()), f64::exp(-x));
            for x in [x, -x] {
                let tail = f64::exp(-f64::abs(x));
                near(&softplus_minus(&x.into()), f64::ln_1p(tail) + f64::max(-x, 0.0));
                near(&sigmoid(&x.into()), if x >= 0.0 { 1.0 / (1.0 + tail) } else { tail / (1.0 + tail) });
            }
        }
        for a in [1e-12, 0.1, 0.5, 0.9, 1.0 - 1e-9] {
            let wanted = -a * f64::ln(a) - (1.0 - a) * f64::ln_1p(-a);
            let found = entropy(&Interval::from(a)).approximate();
            assert!((found - wanted).abs() <= 1e-14 * wanted, "{found} {wanted}");
        }
        assert_eq!(entropy(&Interval::from(0.0)), Dyadic::zero());
        assert_eq!(entropy(&Interval::from(1.0)), Dyadic::zero());
    }

    /// The addition theorem of the exponential holds within the intervals, which sees an error that floating point cannot.
    #[test]
    fn exponentials_multiply() {
        for (x, y) in [(0.1, 0.7), (3.0, 11.25), (40.0, 1e-5), (0.69, 0.69)] {
            let product = &exp_minus(&x.into()) * &exp_minus(&y.into());
            let both = exp_minus(&(&Dyadic::from(x) + &Dyadic::from(y)));
            assert!(product.low <= both.high && both.low <= product.high, "{x} {y}");
        }
        // 1 - sigmoid(x) = sigmoid(-x), and log(1 + exp(-x)) + x = log(1 + exp(x)).
        for x in [0.2, 5.0, 33.0] {
            let sum = &sigmoid(&x.into()) + &sigmoid(&(-x).into());
            assert!(sum.low <= 1.0.into() && sum.high >= 1.0.into());
        }
    }

    #[test]
    fn arithmetic_is_exact() {
        let x = Dyadic::from(0.1);
        assert_eq!(x.approximate(), 0.1);
        assert!(&(&x + &x) + &x > Dyadic::from(0.3), "0.1 is rounded upwards");
        assert_eq!(Dyadic::from(5e-324).approximate(), 5e-324);
        assert_eq!(&Dyadic::from(-1.5) * &Dyadic::from(1e300), Dyadic::from(-1.5e300));
        for x in [2.0, 1e-30, 7e200, 0.0] {
            let x = Dyadic::from(x);
            let (low, high) = (x.root_below(), x.root());
            assert!(&low * &low <= x && &high * &high >= x);
            assert!((&high - &low).approximate() <= 1e-50 * (1e-300 + high.approximate()) + 1e-57);
        }
        let third = Interval::from(1.0).over(&3.0.into());
        assert!(&third.low * &3.0.into() < 1.0.into() && &third.high * &3.0.into() > 1.0.into());
        let third = Interval::from(-1.0).over(&3.0.into());
        assert!(&third.low * &3.0.into() < Dyadic::from(-1.0) && &third.high * &3.0.into() > Dyadic::from(-1.0));
    }
}
