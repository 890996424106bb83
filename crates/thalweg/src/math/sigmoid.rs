//! Sigmoids and logarithms of sigmoids: one number, a slice of numbers, and means over a grid of thresholds. Slices run on
//! a polynomial exponential that the compiler turns into vector code; its results may differ from `f64::exp` in the last bit.

mod means;

pub use means::{SigmoidMeans, SigmoidScratch};

use super::vec;

/// Entries per block: long enough to amortise the loop, short enough to stay in the first cache.
const BLOCK: usize = 64;

/// `1 / (1 + exp(-z))`, accurate in both tails.
pub fn sigmoid(z: f64) -> f64 {
    let e = (-z.abs()).exp();
    if z >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// Derivative of [`sigmoid`]: `s (1 - s)`, accurate in both tails.
pub fn sigmoid_slope(z: f64) -> f64 {
    let e = (-z.abs()).exp();
    e / ((1.0 + e) * (1.0 + e))
}

/// `log(1 + exp(z))` without overflow and without loss for very negative `z`.
pub fn log1p_exp(z: f64) -> f64 {
    let tail = (-z.abs()).exp().ln_1p();
    if z > 0.0 { z + tail } else { tail }
}

/// Exponential for vector code: relative error below 4e-16; arguments are clamped to [-708, 709], so that the result is
/// always a normal number. NaN stays NaN.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits: no conversion that SSE2 lacks.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // ln 2 in two parts; the first has 32 trailing zeros, so that its product with an exponent is exact.
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Near-minimax fit of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2; relative error of the result 2e-17.
    const C: [f64; 10] = [
        0.500_000_000_000_000_1,
        0.166_666_666_666_666_69,
        0.041_666_666_666_624_13,
        0.008_333_333_333_330_062,
        0.001_388_888_891_721_371_7,
        0.000_198_412_698_630_536_18,
        2.480_152_129_595_437_6e-5,
        2.755_726_845_999_706_4e-6,
        2.762_008_844_540_974_6e-7,
        2.510_038_549_551_032e-8,
    ];
    // Comparisons in this order let NaN through.
    let x = if x > 709.0 { 709.0 } else { x };
    let x = if x < -708.0 { -708.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let r2 = r * r;
    let r4 = r2 * r2;
    let low = (C[0] + C[1] * r) + (C[2] + C[3] * r) * r2;
    let high = ((C[4] + C[5] * r) + (C[6] + C[7] * r) * r2) + (C[8] + C[9] * r) * r4;
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (1.0 + (r + r2 * (low + r4 * high))) * power
}

/// `log(1 + e)` for `e` in [0, 1], for vector code: relative error below 4e-16.
#[inline(always)]
fn log1p_unit(e: f64) -> f64 {
    // log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)) with s = f / (2 + f), |f| <= sqrt(2) - 1: the classic reduction of fdlibm.
    const L: [f64; 7] = [
        6.666_666_666_666_735_13e-1,
        3.999_999_999_940_941_908e-1,
        2.857_142_874_366_239_149e-1,
        2.222_219_843_214_978_396e-1,
        1.818_357_216_161_805_012e-1,
        1.531_383_769_920_937_332e-1,
        1.479_819_860_511_658_591e-1,
    ];
    let halve = e > std::f64::consts::SQRT_2 - 1.0;
    let f = if halve { 0.5 * (e - 1.0) } else { e };
    let whole = if halve { std::f64::consts::LN_2 } else { 0.0 };
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let r = w * (L[1] + w * (L[3] + w * L[5])) + z * (L[0] + w * (L[2] + w * (L[4] + w * L[6])));
    let half = 0.5 * f * f;
    whole + (f - (half - s * (half + r)))
}

/// [`sigmoid`] for vector code.
#[inline(always)]
fn sigmoid_fast(z: f64) -> f64 {
    let e = exp(-z.abs());
    (if z < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// `out[i] = sigmoid((scores[i] - threshold) / temperature)`.
pub fn sigmoids_at(scores: &[f64], threshold: f64, temperature: f64, out: &mut [f64]) {
    let per = 1.0 / temperature;
    for (o, s) in out.iter_mut().zip(scores) {
        *o = sigmoid_fast((s - threshold) * per);
    }
}

/// `out[i] = factor * sigmoid'((scores[i] - threshold) / temperature) / temperature`: the derivative of `factor * sigmoid`
/// with respect to the score.
pub fn slopes_at(scores: &[f64], threshold: f64, temperature: f64, factor: f64, out: &mut [f64]) {
    let per = 1.0 / temperature;
    let factor = factor * per;
    for (o, s) in out.iter_mut().zip(scores) {
        let e = exp(-((s - threshold) * per).abs());
        let d = 1.0 + e;
        *o = factor * e / (d * d);
    }
}

/// Mean of `weights[i] * sigmoid((scores[i] - threshold) / temperature)`, weights 1 if there are none; 0 without scores.
pub fn mean_at(scores: &[f64], weights: Option<&[f64]>, threshold: f64, temperature: f64) -> f64 {
    if scores.is_empty() {
        return 0.0;
    }
    let mut buffer = [0.0; BLOCK];
    let mut total = 0.0;
    for (b, block) in scores.chunks(BLOCK).enumerate() {
        let values = &mut buffer[..block.len()];
        sigmoids_at(block, threshold, temperature, values);
        total += match weights {
            Some(w) => vec::dot(values, &w[b * BLOCK..]),
            None => vec::sum(values),
        };
    }
    total / scores.len() as f64
}

/// `loss[i] = log(1 + exp(z[i]))` and `slope[i] = sigmoid(z[i])`, its derivative.
pub fn logistic_pass(z: &[f64], loss: &mut [f64], slope: &mut [f64]) {
    for ((z, loss), slope) in z.iter().zip(loss).zip(slope) {
        let e = exp(-z.abs());
        *loss = (if *z > 0.0 { *z } else { 0.0 }) + log1p_unit(e);
        *slope = (if *z < 0.0 { e } else { 1.0 }) / (1.0 + e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};

    /// Arguments that cover every exponent, the borders of the reductions and many random points.
    fn arguments() -> Vec<f64> {
        let mut z = vec![0.0, -0.0, 1e-300, -1e-300, 1e-17, 708.0, -708.0, 709.0, 0.881_373_587_019_543, -0.881_373_587_019_543];
        let mut rng = Rng::new(1, Purpose::Data);
        for scale in [1e-8, 1e-3, 0.1, 1.0, 3.0, 10.0, 40.0, 300.0, 708.0] {
            z.extend((0..4000).map(|_| scale * (2.0 * rng.uniform() - 1.0)));
        }
        z
    }

    fn relative(got: f64, wanted: f64) -> f64 {
        if got == wanted { 0.0 } else { ((got - wanted) / wanted).abs() }
    }

    #[test]
    fn the_polynomial_exponential_agrees_with_the_library() {
        let worst = arguments().iter().map(|&z| relative(exp(z), z.exp())).fold(0.0, f64::max);
        println!("exp: {worst:e}");
        assert!(worst <= 4e-16, "{worst:e}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9), exp(-708.0));
        assert_eq!(exp(f64::NEG_INFINITY), exp(-708.0));
        assert!(exp(f64::NEG_INFINITY) < 1e-300);
        assert_eq!(exp(f64::INFINITY), exp(709.0));
        assert!(exp(1e300) > 1e300 && exp(1e300).is_finite());
        assert!(exp(f64::NAN).is_nan() && exp(-f64::NAN).is_nan());
        assert!(exp(f64::from_bits(f64::NAN.to_bits() | 0x7ff)).is_nan());
    }

    #[test]
    fn the_logistic_pass_agrees_with_the_scalar_functions() {
        let z = arguments();
        let (mut loss, mut slope) = (vec![0.0; z.len()], vec![0.0; z.len()]);
        logistic_pass(&z, &mut loss, &mut slope);
        let worst_loss = z.iter().zip(&loss).map(|(&z, &l)| relative(l, log1p_exp(z))).fold(0.0, f64::max);
        let worst_slope = z.iter().zip(&slope).map(|(&z, &s)| relative(s, sigmoid(z))).fold(0.0, f64::max);
        println!("loss: {worst_loss:e}, slope: {worst_slope:e}");
        assert!(worst_loss <= 1e-15 && worst_slope <= 1e-15, "{worst_loss:e} {worst_slope:e}");
        let z = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300];
        let (mut loss, mut slope) = ([0.0; 5], [0.0; 5]);
        logistic_pass(&z, &mut loss, &mut slope);
        assert!(loss[0].is_nan() && slope[0].is_nan());
        assert_eq!(loss[1], f64::INFINITY);
        assert_eq!(loss[3], 1e300);
        assert_eq!((slope[1], slope[3]), (1.0, 1.0));
        assert!(loss[2] < 1e-300 && loss[4] < 1e-300 && slope[2] < 1e-300 && slope[4] < 1e-300);
    }

    #[test]
    fn slopes_and_means_agree_with_the_scalar_functions() {
        let scores = arguments();
        let mut out = vec![0.0; scores.len()];
        for (threshold, temperature, factor) in [(0.0, 1.0, 1.0), (1.5, 0.1, -2.0), (-3.0, 10.0, 0.25)] {
            slopes_at(&scores, threshold, temperature, factor, &mut out);
            for (&s, &o) in scores.iter().zip(&out) {
                let z = (s - threshold) / temperature;
                let wanted = factor * sigmoid_slope(z) / temperature;
                // An argument z carries a rounding error of its own.
                assert!((o - wanted).abs() <= (1e-15 + 3e-16 * z.abs()) * wanted.abs() + 1e-300, "{s} {o} {wanted}");
            }
            sigmoids_at(&scores, threshold, temperature, &mut out);
            let mean = vec::sum(&out) / scores.len() as f64;
            let wanted = scores.iter().map(|s| sigmoid((s - threshold) / temperature)).sum::<f64>() / scores.len() as f64;
            assert!((mean - wanted).abs() < 1e-13);
            assert!((mean_at(&scores, None, threshold, temperature) - wanted).abs() < 1e-13);
            let weights: Vec<f64> = (0..scores.len()).map(|i| (i % 3) as f64).collect();
            let wanted = scores.iter().zip(&weights).map(|(s, w)| w * sigmoid((s - threshold) / temperature)).sum::<f64>()
                / scores.len() as f64;
            assert!((mean_at(&scores, Some(&weights), threshold, temperature) - wanted).abs() < 1e-13);
        }
        assert_eq!(mean_at(&[], None, 0.0, 1.0), 0.0);
    }

    #[test]
    fn scalar_functions_are_stable_in_both_tails() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!(sigmoid(1e9), 1.0);
        assert_eq!(sigmoid(-1e9), 0.0);
        assert!(relative(sigmoid(-700.0), (-700.0_f64).exp()) < 1e-15);
        assert_eq!(sigmoid_slope(0.0), 0.25);
        assert!(relative(sigmoid_slope(40.0), (-40.0_f64).exp()) < 1e-15);
        assert_eq!(log1p_exp(1e9), 1e9);
        assert!(relative(log1p_exp(-50.0), (-50.0_f64).exp()) < 1e-15);
        assert_eq!(log1p_exp(0.0), std::f64::consts::LN_2);
        assert!(sigmoid(f64::NAN).is_nan() && sigmoid_slope(f64::NAN).is_nan() && log1p_exp(f64::NAN).is_nan());
    }
}
