//! Confidence intervals from counts and from values in [0, 1], valid for every number of rows. Intervals of whole constraints
//! are in [`crate::learn::intervals`].

mod beta;
mod difference;

use self::beta::{incomplete_beta, invert, normal_tail};
pub(crate) use self::difference::Difference;
pub use self::difference::{Counts, difference_at_most};
use crate::{Error, Result};

/// Computes the interval of Clopper and Pearson for the probability of success, from `successes` in `trials` independent trials.
///
/// It contains the probability with at least the given confidence, for every number of trials. Its ends are the probabilities at
/// which as many or more successes, and as many or fewer, have the probability `(1 - confidence) / 2`; rounding widens the
/// interval. Both arguments may be fractions: for weighted rows use the effective number of rows, `(sum of weights)^2 / sum of
/// squared weights`, with which the confidence is approximate.
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
    check_trials(successes, trials)?;
    check_confidence(confidence)?;
    Ok(tail_bounds(successes, trials, [0.5 * (1.0 - confidence); 2]))
}

/// Computes the one-sided bound of Clopper and Pearson: the probability of success is at most the result with at least the given
/// confidence.
///
/// ```
/// use thalweg::certify::rate_at_most;
/// // The rule of three: without a success in 100 trials, the probability is at most about 3 / 100.
/// assert!((rate_at_most(0.0, 100.0, 0.95)? - (1.0 - 0.05_f64.powf(0.01))).abs() < 1e-12);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn rate_at_most(successes: f64, trials: f64, confidence: f64) -> Result<f64> {
    check_trials(successes, trials)?;
    check_confidence(confidence)?;
    Ok(tail_bounds(successes, trials, [0.0, 1.0 - confidence])[1])
}

/// Computes the one-sided bound of Clopper and Pearson: the probability of success is at least the result with at least the given
/// confidence.
pub fn rate_at_least(successes: f64, trials: f64, confidence: f64) -> Result<f64> {
    Ok(1.0 - rate_at_most(trials - successes, trials, confidence)?)
}

/// Returns half the length of the interval of [`clopper_pearson`] for a rate of one half, where it is longest: how far the rate of
/// this many rows can be from the probability behind it.
pub fn rate_half_width(rows: f64, confidence: f64) -> Result<f64> {
    let [low, high] = clopper_pearson(0.5 * rows, rows, confidence)?;
    Ok(0.5 * (high - low))
}

/// Computes how far above the mean of `rows` independent values their expectation can be, except with probability `error`.
///
/// The values lie in a range of length `range` and have the sample variance `variance` (divisor n - 1). This is one side of the
/// empirical Bernstein inequality, Theorem 4 of Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization",
/// COLT 2009, and its Theorem 11 for values that are not identically distributed:
///
/// ```text
/// sqrt(2 V L / n) + 7 r L / (3 (n - 1)),   L = ln(2 / error)
/// ```
///
/// The constants: half of the error is for Bennett's inequality with the true deviation s, an error of `sqrt(2 s^2 L / n) + r L /
/// (3 n)`, and half for the bound `s <= sqrt(V) + r sqrt(2 L / (n - 1))` on that deviation. Together they give the factor
/// 2 + 1/3 = 7/3. The same holds below the mean. A single row gives no bound: the result is infinite.
pub fn mean_half_width(rows: usize, variance: f64, range: f64, error: f64) -> f64 {
    if rows < 2 {
        return f64::INFINITY;
    }
    let log = (2.0 / error).ln();
    (2.0 * variance * log / rows as f64).sqrt() + 7.0 * range * log / (3.0 * (rows as f64 - 1.0))
}

/// Computes how far the share of `rows` independent values above a threshold can be from its expectation, for all thresholds at
/// once, except with probability `error`: the two-sided inequality of Dvoretzky, Kiefer and Wolfowitz with the constant of
/// Massart (Annals of Probability 18, 1990), `sqrt(ln(2 / error) / (2 n))`.
pub fn distribution_half_width(rows: usize, error: f64) -> f64 {
    ((2.0 / error).ln() / (2.0 * rows as f64)).sqrt()
}

/// Threshold that is an order statistic of the scores of held-out negatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreThreshold {
    /// Position of the threshold among the scores in ascending order, from 0.
    pub rank: usize,
    /// Probability, over the draw of the scores, that a new score exceeds the threshold with a probability above the bound.
    pub failure_probability: f64,
}

/// Chooses the smallest of `rows` ordered scores that a new score exceeds with probability at most `bound`, with at least the
/// given confidence; `None` if not even the largest one does.
///
/// The share of new scores above the score of rank k (from 0) exceeds `bound` only if more than k of the scores lie below the
/// `1 - bound` quantile, which has at most the probability `P(B > k)` for B binomial with `rows` trials of probability
/// `1 - bound`, whatever the distribution of the scores (Tong, Feng and Li, "Neyman-Pearson classification algorithms and NP
/// receiver operating characteristics", Science Advances 4, 2018).
///
/// ```
/// use thalweg::certify::score_threshold;
/// assert_eq!(score_threshold(58, 0.05, 0.95)?, None);
/// assert_eq!(score_threshold(59, 0.05, 0.95)?.map(|t| t.rank), Some(58));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn score_threshold(rows: usize, bound: f64, confidence: f64) -> Result<Option<ScoreThreshold>> {
    check_confidence(confidence)?;
    if !(bound > 0.0 && bound < 1.0) {
        return Err(Error::setting("bound", bound, "a number between 0 and 1"));
    }
    // P(B > k) = I_{1 - bound}(k + 1, n - k).
    let failing = |k: usize| incomplete_beta(1.0 - bound, k as f64 + 1.0, (rows - k) as f64) * (1.0 + rounding(rows as f64));
    let fails = |k: usize| failing(k) > 1.0 - confidence;
    let (mut low, mut high) = (0, rows);
    while low < high {
        let middle = usize::midpoint(low, high);
        if fails(middle) { low = middle + 1 } else { high = middle }
    }
    Ok((low < rows).then(|| ScoreThreshold { rank: low, failure_probability: failing(low).min(1.0) }))
}

/// Divides an error between several one-sided bounds whose half-widths are about `widths[k]` times a quantile of the normal
/// distribution, so that the sum of the half-widths is nearly the smallest. The widths must not depend on the observed values.
///
/// At the best division, the derivatives of all half-widths with respect to their errors agree: `widths[k] / density(z_k)` is
/// the same for all k.
pub(crate) fn split_error(widths: &[f64], error: f64) -> Vec<f64> {
    let largest = widths.iter().copied().fold(0.0, f64::max);
    if widths.len() < 2 || largest <= 0.0 || !largest.is_finite() {
        return vec![error / widths.len().max(1) as f64; widths.len()];
    }
    let quantile = |width: f64, scale: f64| (2.0 * (scale * largest / width.max(1e-6 * largest)).ln()).max(0.0).sqrt();
    let errors = |scale: f64| widths.iter().map(|&w| normal_tail(quantile(w, scale))).collect::<Vec<_>>();
    let (mut low, mut high) = (0.0_f64, 300.0_f64);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if errors(middle.exp()).iter().sum::<f64>() > error { low = middle } else { high = middle }
    }
    let mut split = errors(high.exp());
    let total: f64 = split.iter().sum();
    split.iter_mut().for_each(|e| *e *= error * (1.0 - 1e-12) / total);
    split
}

/// Returns the bounds of Clopper and Pearson below and above a rate, each of which fails with the probability given for it; 0
/// asks for no bound. Rounding moves them outwards.
fn tail_bounds(successes: f64, trials: f64, errors: [f64; 2]) -> [f64; 2] {
    let (k, rest) = (successes, trials - successes);
    let [below, above] = errors.map(|error| error * (1.0 - rounding(trials)));
    // P(at least k successes) = I_p(k, n - k + 1), which increases in p; P(at most k) = I_{1 - p}(n - k, k + 1).
    let low = if k <= 0.0 || below <= 0.0 { 0.0 } else { invert(|p| incomplete_beta(p, k, rest + 1.0), below)[0] };
    let high = if rest <= 0.0 || above <= 0.0 {
        1.0
    } else {
        (1.0 - invert(|q| incomplete_beta(q, rest, k + 1.0), above)[0]).next_up().min(1.0)
    };
    [low, high]
}

/// Bounds the relative rounding error of an incomplete beta function whose arguments add up to about this number: that of the
/// logarithm in front, a difference of terms of the size `n ln n`.
fn rounding(n: f64) -> f64 {
    8.0 * f64::EPSILON * n * (n + 2.0).ln() + 1e-12
}

fn check_trials(successes: f64, trials: f64) -> Result<()> {
    if !(trials > 0.0 && trials.is_finite()) {
        return Err(Error::setting("trials", trials, "a finite number above 0"));
    }
    if !(successes >= 0.0 && successes <= trials) {
        return Err(Error::setting("successes", successes, format!("a number from 0 to the {trials} trials")));
    }
    Ok(())
}

pub(crate) fn check_confidence(confidence: f64) -> Result<()> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::setting("confidence", confidence, "a number between 0 and 1, for example 0.95"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::beta::ln_gamma;
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;

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

    #[test]
    fn one_sided_bounds_are_exact() {
        for (k, n) in [(0, 20), (3, 20), (20, 20), (40, 200), (700, 1500)] {
            for confidence in [0.9, 0.95, 0.999] {
                let (low, high) =
                    [rate_at_least, rate_at_most].map(|f| f(f64::from(k), f64::from(n), confidence).unwrap()).into();
                let near = |p: f64| (p / (1.0 - confidence) - 1.0).abs() < 1e-8;
                assert!(if k == 0 { low == 0.0 } else { near(binomial(n, low, k, n)) }, "{k} of {n}: {low}");
                assert!(if k == n { high == 1.0 } else { near(binomial(n, high, 0, k)) }, "{k} of {n}: {high}");
            }
        }
    }

    /// The bound on a gap that a table of the first evaluation shows: 3,237 women at .162 and 6,529 men at .172.
    #[test]
    fn the_bound_on_a_difference_is_nearly_that_of_the_normal_approximation() {
        let women = Counts { successes: 524, trials: 3237 };
        let men = Counts { successes: 1122, trials: 6529 };
        let gap = men.rate() - women.rate();
        assert!((gap - 0.01).abs() < 5e-4, "{gap}");
        let one_sided = difference_at_most(men, women, 0.95).unwrap();
        let two_sided = difference_at_most(men, women, 0.975).unwrap();
        assert!(one_sided <= 0.0240 && two_sided <= 0.0265, "{one_sided} {two_sided}");
        // Two bounds of Clopper and Pearson, and the inequality of Bernstein.
        let two = rate_at_most(1122.0, 6529.0, 0.975).unwrap() - rate_at_least(524.0, 3237.0, 0.975).unwrap();
        assert!((0.0310..0.0330).contains(&two), "{two}");
        let off = |c: Counts| mean_half_width(c.trials as usize, c.rate() * (1.0 - c.rate()), 1.0, 0.0125);
        assert!(gap + off(women) + off(men) > 0.05);
    }

    fn draw(n: u64, p: f64, rng: &mut Rng) -> Counts {
        Counts { successes: (0..n).filter(|_| rng.uniform() < p).count() as u64, trials: n }
    }

    /// Smallest number of successes in `draws` that is three standard errors below the stated confidence.
    fn enough(draws: u32, confidence: f64) -> u32 {
        let n = f64::from(draws);
        (n * confidence - 3.0 * (n * confidence * (1.0 - confidence)).sqrt()) as u32
    }

    /// 2,000 draws for every pair of group sizes and rates. Counting how often the true difference is not rejected is counting
    /// how often the bound holds, since the test is monotone in the difference.
    #[test]
    fn differences_are_covered_as_often_as_promised() {
        let mut rng = Rng::new(41, Purpose::Data);
        for (n, m, draws) in [(20, 20, 2000), (20, 200, 2000), (200, 200, 2000), (200, 20_000, 2000), (20_000, 20_000, 2000)] {
            for rate in [0.01, 0.2, 0.5] {
                for other in [rate, 0.5 * rate] {
                    let covered = (0..draws).filter(|_| {
                        let d = Difference::new(draw(n, rate, &mut rng), draw(m, other, &mut rng));
                        !d.rejects(rate - other, 0.05)
                    });
                    let covered = covered.count() as u32;
                    assert!(covered >= enough(draws, 0.95), "{n} at {rate}, {m} at {other}: {covered} of {draws}");
                }
            }
        }
    }

    #[test]
    fn rates_and_means_are_covered_as_often_as_promised() {
        let mut rng = Rng::new(42, Purpose::Data);
        for n in [20, 200, 20_000] {
            for rate in [0.01, 0.2, 0.5] {
                let (mut above, mut below, mut inside, mut means) = (0, 0, 0, 0);
                for _ in 0..2000 {
                    let Counts { successes, trials } = draw(n, rate, &mut rng);
                    let (k, n) = (successes as f64, trials as f64);
                    above += u32::from(rate_at_most(k, n, 0.95).unwrap() >= rate);
                    below += u32::from(rate_at_least(k, n, 0.95).unwrap() <= rate);
                    let [low, high] = clopper_pearson(k, n, 0.95).unwrap();
                    inside += u32::from(low <= rate && rate <= high);
                    let mean = k / n;
                    means +=
                        u32::from(mean + mean_half_width(n as usize, mean * (1.0 - mean) * n / (n - 1.0), 1.0, 0.05) >= rate);
                }
                for covered in [above, below, inside, means] {
                    assert!(covered >= enough(2000, 0.95), "{n} at {rate}: {above} {below} {inside} {means}");
                }
            }
        }
    }

    #[test]
    fn an_error_is_divided_in_favour_of_the_smaller_group() {
        let z = |e: f64| {
            let (mut low, mut high) = (0.0, 40.0);
            for _ in 0..200 {
                let middle = 0.5 * (low + high);
                if normal_tail(middle) > e { low = middle } else { high = middle }
            }
            low
        };
        for widths in [vec![1.0, 1.0], vec![1.0, 3.0], vec![0.1, 0.5, 2.0], vec![1e-9, 1.0]] {
            let split = split_error(&widths, 0.05);
            assert!((split.iter().sum::<f64>() - 0.05).abs() < 1e-9 && split.iter().sum::<f64>() <= 0.05, "{split:?}");
            let length = |s: &[f64]| s.iter().zip(&widths).map(|(e, w)| w * z(*e)).sum::<f64>();
            let own = length(&split);
            for i in 0..widths.len() {
                let mut moved = split.clone();
                let step = 0.05 * moved[i];
                let j = (i + 1) % widths.len();
                (moved[i], moved[j]) = (moved[i] - step, moved[j] + step);
                assert!(length(&moved) >= own - 1e-6, "{widths:?} {split:?}");
            }
        }
        assert_eq!(split_error(&[2.0], 0.05), [0.05]);
    }

    #[test]
    fn the_threshold_is_the_smallest_with_the_promise() {
        for (n, bound, confidence) in [(59, 0.05, 0.95), (500, 0.05, 0.95), (500, 0.1, 0.9), (3000, 0.01, 0.99)] {
            let found = score_threshold(n as usize, bound, confidence).unwrap().unwrap();
            let above = |k: u32| binomial(n, 1.0 - bound, k + 1, n);
            assert!((found.failure_probability - above(found.rank as u32)).abs() < 1e-9, "{found:?}");
            assert!(
                found.failure_probability <= 1.0 - confidence && above(found.rank as u32 - 1) > 1.0 - confidence,
                "{found:?}"
            );
        }
        assert_eq!(score_threshold(0, 0.05, 0.95).unwrap(), None);
        assert!(score_threshold(10, 1.0, 0.95).unwrap_err().to_string().starts_with("bound must be"));
    }

    #[test]
    fn a_band_holds_for_all_thresholds_at_once() {
        let mut rng = Rng::new(43, Purpose::Data);
        let held = (0..2000).filter(|_| {
            let mut values: Vec<f64> = (0..200).map(|_| rng.uniform()).collect();
            values.sort_by(f64::total_cmp);
            let off = |i: usize| (values[i] - i as f64 / 200.0).abs().max((values[i] - (i + 1) as f64 / 200.0).abs());
            (0..200).map(off).fold(0.0, f64::max) <= distribution_half_width(200, 0.1)
        });
        let held = held.count() as u32;
        assert!(held >= enough(2000, 0.9), "{held}");
    }
}
