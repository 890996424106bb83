//! Exact upper bounds on the difference of two rates.

use super::beta::Binomial;
use super::check_confidence;
use crate::{Error, Result};

/// Number of successes among independent trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Trials that succeeded.
    pub successes: u64,
    /// All trials.
    pub trials: u64,
}

impl Counts {
    /// Returns the share of successes.
    pub fn rate(self) -> f64 {
        self.successes as f64 / self.trials as f64
    }

    fn failures(self) -> Counts {
        Counts { successes: self.trials - self.successes, trials: self.trials }
    }

    pub(super) fn check(self) -> Result<()> {
        if self.trials == 0 {
            return Err(Error::setting("trials", 0, "at least 1"));
        }
        if self.successes > self.trials {
            return Err(Error::setting("successes", self.successes, format!("a number from 0 to the {} trials", self.trials)));
        }
        Ok(())
    }
}

/// Share of the error that the interval of the nuisance rate may use.
const NUISANCE: f64 = 0.02;
/// Cells of the nuisance rate before any is divided, and how often one may be divided.
const CELLS: usize = 8;
const DIVISIONS: u32 = 5;
/// Upper bound on the relative rounding error of a probability.
const ROUNDING: f64 = 1e-9;
/// Length at which the search for a bound stops, relative to its distance from the observed difference.
const CLOSE: f64 = 1e-3;

/// Computes an upper bound on the difference `p - q` of two rates that holds with at least the given confidence, for every
/// number of trials: `p` is the rate of `first`, `q` that of `second`, and all trials are independent.
///
/// The bound is the smallest b at which the hypothesis `p - q >= b` is rejected by the exact unconditional test with the
/// observed difference as its statistic (Berger and Boos, "P values maximized over a confidence set for the nuisance
/// parameter", JASA 89, 1994). With C an interval that contains q except with probability g = 0.02 (1 - confidence), from
/// Chernoff's inequality, the p-value of b is
///
/// ```text
/// g + max over q in C of P(difference <= the observed one; rates q + b and q)
/// ```
///
/// If `p - q >= b`, it is at most a with probability at most a: unless C misses q, it is at least g plus the probability that
/// the difference is so small at the true rates, which falls in p. The probability is summed over the binomial distributions
/// of both counts. Since it falls in the first rate and rises in the second, its maximum over a cell of the nuisance rate is at
/// most its value at two corners; cells are divided until every one is decided, and an undecided one counts against rejection.
/// The rate of more trials is the nuisance, which the numbers of trials alone decide.
///
/// ```
/// use thalweg::certify::{Counts, difference_at_most};
/// let men = Counts { successes: 1123, trials: 6529 };
/// let women = Counts { successes: 524, trials: 3237 };
/// let bound = difference_at_most(men, women, 0.95)?;
/// // The observed difference is 0.0101; the normal approximation, which promises less, gives 0.0233.
/// assert!((0.0232..0.0242).contains(&bound));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn difference_at_most(first: Counts, second: Counts, confidence: f64) -> Result<f64> {
    first.check()?;
    second.check()?;
    check_confidence(confidence)?;
    Ok(Difference::new(first, second).at_most(1.0 - confidence))
}

/// Difference of two rates of which the second is the nuisance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Difference {
    first: Counts,
    second: Counts,
}

impl Difference {
    pub(crate) fn new(first: Counts, second: Counts) -> Self {
        match first.trials > second.trials {
            // p - q is also the difference of the rates of failures, in the other order.
            true => Difference { first: second.failures(), second: first.failures() },
            false => Difference { first, second },
        }
    }

    /// Returns the difference in the other order.
    pub(crate) fn opposite(&self) -> Difference {
        Difference::new(self.second, self.first)
    }

    /// Returns the difference of the observed rates.
    pub(crate) fn observed(&self) -> f64 {
        self.first.rate() - self.second.rate()
    }

    /// Returns the smallest difference that is rejected with this error, up to a small excess; 1 if none is.
    pub(crate) fn at_most(&self, error: f64) -> f64 {
        let test = self.test(error);
        let observed = self.observed();
        let variance = |c: Counts| {
            let p = (c.successes as f64 + 1.0) / (c.trials as f64 + 2.0);
            p * (1.0 - p) / c.trials as f64
        };
        let mut low = observed;
        let mut step = 2.0 * (variance(self.first) + variance(self.second)).sqrt();
        let mut high = (low + step).min(1.0);
        while high < 1.0 && !test.rejects(high) {
            low = high;
            step *= 2.0;
            high = (low + step).min(1.0);
        }
        while high - low > CLOSE * (high - observed).max(1e-12) {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            if test.rejects(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// Returns whether the test with this error rejects that the difference of the true rates is at least `b`.
    pub(crate) fn rejects(&self, b: f64, error: f64) -> bool {
        self.test(error).rejects(b)
    }

    fn test(&self, error: f64) -> DifferenceTest {
        let nuisance = NUISANCE * error;
        DifferenceTest {
            difference: *self,
            nuisance: chernoff(self.second, nuisance),
            level: (error - nuisance) / (1.0 + ROUNDING),
        }
    }

    /// Computes the probability of a difference of at most the observed one, if these are the rates; negligible terms are
    /// bounded from above.
    fn tail(&self, p: f64, q: f64) -> f64 {
        let [n, m] = [self.first.trials, self.second.trials].map(i128::from);
        let (one, other) = (Binomial::new(self.first.trials, p), Binomial::new(self.second.trials, q));
        // x / n - y / m <= k / n - l / m exactly if x <= (k m - l n + y n) / m.
        let observed = i128::from(self.first.successes) * m - i128::from(self.second.successes) * n;
        let numerator = observed + i128::from(other.start) * n;
        // Relative to the first entry of `one`; quotient and remainder are carried along instead of divided anew.
        let (mut last, mut remainder) = (numerator.div_euclid(m) - i128::from(one.start), numerator.rem_euclid(m));
        let (whole, part) = (n / m, n % m);
        let (mut taken, mut below, mut sum) = (0_usize, 0.0, 0.0);
        for &probability in &other.probabilities {
            while (taken as i128) <= last && taken < one.probabilities.len() {
                below += one.probabilities[taken];
                taken += 1;
            }
            sum += probability * below;
            last += whole;
            remainder += part;
            if remainder >= m {
                remainder -= m;
                last += 1;
            }
        }
        sum + one.rest + other.rest
    }
}

/// Test of a difference at a level, with the interval of the nuisance rate.
struct DifferenceTest {
    difference: Difference,
    nuisance: [f64; 2],
    level: f64,
}

impl DifferenceTest {
    fn rejects(&self, b: f64) -> bool {
        let [low, high] = self.nuisance;
        let high = high.min(1.0 - b);
        if low > high {
            return true;
        }
        let tail = |q_first: f64, q_second: f64| self.difference.tail((q_first + b).clamp(0.0, 1.0), q_second);
        let at = |i: usize| if i == CELLS { high } else { low + (high - low) * i as f64 / CELLS as f64 };
        let mut cells: Vec<(f64, f64, u32)> = (0..CELLS).map(|i| (at(i), at(i + 1), 0)).collect();
        while let Some((left, right, divided)) = cells.pop() {
            if tail(left, right) <= self.level {
                continue;
            }
            let middle = f64::midpoint(left, right);
            if divided == DIVISIONS || tail(middle, middle) > self.level {
                return false;
            }
            cells.extend([(left, middle, divided + 1), (middle, right, divided + 1)]);
        }
        true
    }
}

/// Returns an interval that contains the rate except with probability `error`: the rates q with `n kl(k / n, q) <= ln(2 / error)`,
/// where kl is the divergence of two coins (Chernoff's inequality).
fn chernoff(counts: Counts, error: f64) -> [f64; 2] {
    let (rate, limit) = (counts.rate(), (2.0 / error).ln() / counts.trials as f64);
    let part = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let outside = |q: f64| part(rate, q) + part(1.0 - rate, 1.0 - q) > limit;
    let end = |mut inner: f64, mut outer: f64| {
        for _ in 0..50 {
            let middle = f64::midpoint(inner, outer);
            if outside(middle) { outer = middle } else { inner = middle }
        }
        outer
    };
    [end(rate, 0.0), end(rate, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;

    fn counts(successes: u64, trials: u64) -> Counts {
        Counts { successes, trials }
    }

    /// The same probability by two plain sums over all pairs of counts.
    fn plain_tail(d: &Difference, p: f64, q: f64) -> f64 {
        let pmf = |n: u64, p: f64, k: u64| {
            let log_choose: f64 = (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum();
            (log_choose + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp()
        };
        let (n, m) = (d.first.trials, d.second.trials);
        let mut sum = 0.0;
        for x in 0..=n {
            for y in 0..=m {
                if i128::from(x * m) - i128::from(y * n) <= i128::from(d.first.successes * m) - i128::from(d.second.successes * n)
                {
                    sum += pmf(n, p, x) * pmf(m, q, y);
                }
            }
        }
        sum
    }

    #[test]
    fn tails_are_sums_over_all_pairs_of_counts() {
        let mut rng = Rng::new(3, Purpose::Data);
        for _ in 0..200 {
            let (n, m) = (1 + rng.below(40) as u64, 1 + rng.below(40) as u64);
            let d = Difference::new(counts(rng.below(n as usize + 1) as u64, n), counts(rng.below(m as usize + 1) as u64, m));
            let (p, q) = (rng.uniform().clamp(0.001, 0.999), rng.uniform().clamp(0.001, 0.999));
            let (fast, plain) = (d.tail(p, q), plain_tail(&d, p, q));
            assert!((fast - plain).abs() < 1e-12, "{d:?} {p} {q}: {fast} {plain}");
        }
    }

    /// The p-value on a fine grid of the nuisance rate never rejects what the cells do not, up to the length of the search.
    #[test]
    fn the_bound_is_that_of_a_plain_search() {
        let mut rng = Rng::new(4, Purpose::Data);
        for _ in 0..12 {
            let (n, m) = (5 + rng.below(30) as u64, 5 + rng.below(30) as u64);
            let d = Difference::new(counts(rng.below(n as usize + 1) as u64, n), counts(rng.below(m as usize + 1) as u64, m));
            let error = 0.05;
            let [low, high] = chernoff(d.second, NUISANCE * error);
            let largest = |b: f64| {
                let grid = (0..=400).map(|i| low + (high - low) * f64::from(i) / 400.0).filter(|q| q + b <= 1.0);
                grid.map(|q| d.tail((q + b).max(0.0), q)).fold(0.0, f64::max)
            };
            let bound = d.at_most(error);
            assert!(bound == 1.0 || largest(bound) <= (1.0 - NUISANCE) * error, "{d:?}");
            // The grid would not reject a bound that is a thirtieth shorter; cells of finite length cost the difference.
            let shorter = bound - 0.03 * (bound - d.observed());
            assert!(largest(shorter) > (1.0 - NUISANCE) * error, "{d:?}: {bound}");
        }
    }

    #[test]
    fn extreme_counts_have_bounds() {
        assert_eq!(difference_at_most(counts(5, 5), counts(0, 7), 0.95).unwrap(), 1.0);
        let none = difference_at_most(counts(0, 50), counts(70, 70), 0.95).unwrap();
        assert!((-1.0..-0.8).contains(&none), "{none}");
        let [a, b] = [0.9, 0.99].map(|c| difference_at_most(counts(30, 100), counts(200, 900), c).unwrap());
        assert!(30.0 / 100.0 - 200.0 / 900.0 < a && a < b);
        for (k, n, message) in [(1, 0, "trials must be at least 1, got 0"), (3, 2, "successes must be a number from 0 to the 2")]
        {
            let error = difference_at_most(counts(k, n), counts(1, 2), 0.9).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn large_counts_come_close_to_the_normal_approximation() {
        for (n, m, p, q) in [(20_000, 5_000, 0.3, 0.25), (1_000_000, 1_000_000, 0.01, 0.01)] {
            let (one, other) = (counts((n as f64 * p) as u64, n), counts((m as f64 * q) as u64, m));
            let bound = difference_at_most(one, other, 0.975).unwrap();
            let deviation = (p * (1.0 - p) / n as f64 + q * (1.0 - q) / m as f64).sqrt();
            let z = (bound - (one.rate() - other.rate())) / deviation;
            assert!((1.96..2.12).contains(&z), "{z}");
        }
    }
}
