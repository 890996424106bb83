//! Exact confidence intervals of a rate from counts. Intervals of whole constraints are in [`crate::learn::intervals`].

use crate::{Error, Result};

/// Computes the interval of Clopper and Pearson for the probability of success, from `successes` in `trials` independent trials.
///
/// It contains the probability with at least the given confidence, for every number of trials. Its ends are the probabilities at
/// which as many or more successes, and as many or fewer, have the probability `(1 - confidence) / 2`. Both arguments may be
/// fractions: for weighted rows use the effective number of rows, `(sum of weights)^2 / sum of squared weights`, with which the
/// confidence is approximate.
///
/// Reference: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
/// Biometrika 26, 1934.
///
/// ```
/// use thalweg::certify::clopper_pearson;
/// let [low, high] = clopper_pearson(0.0, 10.0, 0.95)?;
/// assert!(low == 0.0 && (high - 0.308497).abs() < 1e-6);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn clopper_pearson(successes: f64, trials: f64, confidence: f64) -> Result<[f64; 2]> {
    if !(trials > 0.0 && trials.is_finite()) {
        return Err(Error::setting("trials", trials, "a finite number above 0"));
    }
    if !(successes >= 0.0 && successes <= trials) {
        return Err(Error::setting("successes", successes, format!("a number from 0 to the {trials} trials")));
    }
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::setting("confidence", confidence, "a number between 0 and 1, for example 0.95"));
    }
    let tail = 0.5 * (1.0 - confidence);
    let (k, rest) = (successes, trials - successes);
    // P(at least k successes) = I_p(k, n - k + 1), which increases in p; P(at most k) = I_{1 - p}(n - k, k + 1).
    let low = if k == 0.0 { 0.0 } else { invert(|p| incomplete_beta(p, k, rest + 1.0), tail)[0] };
    let high = if rest == 0.0 { 1.0 } else { 1.0 - invert(|q| incomplete_beta(q, rest, k + 1.0), tail)[0] };
    Ok([low, high])
}

/// Returns half the length of the interval of [`clopper_pearson`] for a rate of one half, where it is longest: how far the rate of
/// this many rows can be from the probability behind it.
pub fn rate_half_width(rows: f64, confidence: f64) -> Result<f64> {
    let [low, high] = clopper_pearson(0.5 * rows, rows, confidence)?;
    Ok(0.5 * (high - low))
}

/// Brackets the argument in [0, 1] at which an increasing function takes the value `level`, to neighbouring numbers.
fn invert(increasing: impl Fn(f64) -> f64, level: f64) -> [f64; 2] {
    let [mut low, mut high] = [0.0_f64, 1.0];
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return [low, high];
        }
        if increasing(middle) < level { low = middle } else { high = middle }
    }
}

/// Computes the regularised incomplete beta function I_x(a, b) by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean; above it the mirrored one does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta_below(1.0 - x, b, a);
    }
    incomplete_beta_below(x, a, b)
}

fn incomplete_beta_below(x: f64, a: f64, b: f64) -> f64 {
    let log_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    log_front.exp() * beta_fraction(x, a, b) / a
}

/// Evaluates the continued fraction of the incomplete beta function with the modified method of Lentz.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    /// The number of terms grows like the square root of the larger argument.
    const MOST: u32 = 100_000;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..=MOST {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step *= c * d;
        }
        value *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

/// Computes the logarithm of the gamma function for positive arguments, by Stirling's series after a shift to at least 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut z, mut shift) = (x, 1.0);
    while z < 10.0 {
        shift *= z;
        z += 1.0;
    }
    let r = 1.0 / (z * z);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / z;
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - f64::ln(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums the probabilities of the binomial distribution from `from` to `to`.
    fn binomial(n: u32, p: f64, from: u32, to: u32) -> f64 {
        let log_choose = |k: u32| (0..k).map(|i| (f64::from(n - i) / f64::from(i + 1)).ln()).sum::<f64>();
        (from..=to).map(|k| (log_choose(k) + f64::from(k) * p.ln() + f64::from(n - k) * (-p).ln_1p()).exp()).sum()
    }

    #[test]
    fn published_intervals_are_reproduced() {
        // SciPy 1.14, binomtest(k, n).proportion_ci(confidence).
        for (k, n, confidence, want) in [
            (0.0, 10.0, 0.95, [0.0, 0.308_497_1]),
            (10.0, 10.0, 0.95, [0.691_502_9, 1.0]),
            (1.0, 20.0, 0.95, [0.001_265_1, 0.248_732_8]),
            (50.0, 100.0, 0.95, [0.398_321_1, 0.601_678_9]),
        ] {
            let [low, high] = clopper_pearson(k, n, confidence).unwrap();
            assert!((low - want[0]).abs() < 1e-7 && (high - want[1]).abs() < 1e-7, "{k} of {n}: {low} {high}");
        }
    }

    /// The definition: each tail of the binomial distribution at the ends has the probability (1 - confidence) / 2.
    #[test]
    fn tails_at_the_ends_are_exact() {
        for n in [1, 2, 7, 30, 200, 1500] {
            for k in [0, 1, n / 3, n / 2, n - 1, n] {
                for confidence in [0.5, 0.9, 0.95, 0.999] {
                    let [low, high] = clopper_pearson(f64::from(k), f64::from(n), confidence).unwrap();
                    let tail = 0.5 * (1.0 - confidence);
                    let near = |p: f64| (p / tail - 1.0).abs() < 1e-8;
                    assert!(if k == 0 { low == 0.0 } else { near(binomial(n, low, k, n)) }, "{k} of {n}: {low}");
                    assert!(if k == n { high == 1.0 } else { near(binomial(n, high, 0, k)) }, "{k} of {n}: {high}");
                }
            }
        }
    }

    #[test]
    fn half_widths_shrink_with_the_root_of_the_rows() {
        let all = [10.0, 100.0, 1e4, 1e6].map(|n| rate_half_width(n, 0.95).unwrap());
        assert!((all[1] - 0.101_678_9).abs() < 1e-7, "{all:?}");
        // 1.96 sqrt(1 / (4 n)) for many rows.
        assert!((all[3] / 0.000_98 - 1.0).abs() < 1e-3 && all.is_sorted_by(|a, b| a > b), "{all:?}");
        assert!(rate_half_width(3.5, 0.95).unwrap() < rate_half_width(3.0, 0.95).unwrap(), "fractions are allowed");
    }

    #[test]
    fn the_logarithm_of_the_gamma_function_is_accurate() {
        let mut factorial = 1.0_f64;
        for n in 1..20 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-13, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-13);
    }

    #[test]
    fn impossible_counts_are_refused() {
        for (k, n, confidence, word) in [
            (1.0, 0.0, 0.9, "trials"),
            (3.0, 2.0, 0.9, "successes"),
            (f64::NAN, 2.0, 0.9, "successes"),
            (1.0, 2.0, 1.0, "confidence"),
        ] {
            let error = clopper_pearson(k, n, confidence).unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
    }
}
