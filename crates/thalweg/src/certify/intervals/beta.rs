//! The beta and the binomial distribution to full precision. Intervals that follow from them are in [`super`].

/// Brackets the argument in [0, 1] at which an increasing function takes the value `level`, to neighbouring numbers.
pub(super) fn invert(increasing: impl Fn(f64) -> f64, level: f64) -> [f64; 2] {
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
pub(super) fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
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
pub(super) fn ln_gamma(x: f64) -> f64 {
    let (mut z, mut shift) = (x, 1.0);
    while z < 10.0 {
        shift *= z;
        z += 1.0;
    }
    let r = 1.0 / (z * z);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / z;
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - f64::ln(shift)
}

/// Probabilities of the binomial distribution around its mode, as far as they are not negligible.
pub(super) struct Binomial {
    /// Number of successes of the first entry.
    pub(super) start: u64,
    /// Probability of each number of successes from `start` on.
    pub(super) probabilities: Vec<f64>,
    /// Bound on the probability of all other numbers.
    pub(super) rest: f64,
}

impl Binomial {
    /// Probability, relative to that of the mode, below which the others are left out.
    const NEGLIGIBLE: f64 = 1e-15;

    /// Computes the distribution of the number of successes in `n` trials with probability `p`.
    ///
    /// The ratio of neighbouring probabilities is a rational function of the number, so that no factorial is needed: rounding
    /// errors grow with the distance from the mode only, by a few units in the last place for each step.
    pub(super) fn new(n: u64, p: f64) -> Self {
        let certain = |k: u64| Binomial { start: k, probabilities: vec![1.0], rest: 0.0 };
        if p <= 0.0 {
            return certain(0);
        }
        if p >= 1.0 {
            return certain(n);
        }
        let odds = p / (1.0 - p);
        let mode = (((n + 1) as f64 * p) as u64).min(n);
        let (mut below, mut rest) = (vec![], 0.0);
        let (mut k, mut value) = (mode, 1.0);
        while k > 0 {
            let ratio = k as f64 / ((n - k + 1) as f64 * odds);
            value *= ratio;
            k -= 1;
            if value < Self::NEGLIGIBLE {
                // The ratios fall, so that the rest is below a geometric series.
                rest += if ratio < 1.0 { value / (1.0 - ratio) } else { 1.0 };
                break;
            }
            below.push(value);
        }
        let start = mode - below.len() as u64;
        let mut probabilities: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
        let (mut k, mut value) = (mode, 1.0);
        while k < n {
            let ratio = (n - k) as f64 / (k + 1) as f64 * odds;
            value *= ratio;
            k += 1;
            if value < Self::NEGLIGIBLE {
                rest += if ratio < 1.0 { value / (1.0 - ratio) } else { 1.0 };
                break;
            }
            probabilities.push(value);
        }
        let total: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|q| *q /= total);
        Binomial { start, probabilities, rest: rest / total }
    }
}

/// Computes the probability that a standard normal variable exceeds `z`, to about seven digits.
pub(super) fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    // The continued fraction of Laplace converges for large z, the series for small.
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 2.5 {
        let fraction = (1..=60).rev().fold(z, |value, k| z + f64::from(k) / value);
        return density / fraction;
    }
    let (mut term, mut sum) = (z, z);
    for k in 1..60 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 - density * sum
}
