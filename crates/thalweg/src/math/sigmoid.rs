//! Sigmoids and logarithms of sigmoids of one number, of a slice, and their means over a grid of thresholds. Slices use an
//! exponential that vectorises; its results may differ from `f64::exp` in the last bit.

mod means;

pub use means::{SigmoidMeans, SigmoidScratch};

use super::vec;
use super::wide::widest;

/// Entries per block: long enough to amortise the loop, short enough for the first-level cache.
const BLOCK: usize = 64;

/// Computes `1 / (1 + exp(-z))`, accurate in both tails.
pub fn sigmoid(z: f64) -> f64 {
    let e = (-z.abs()).exp();
    if z >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// Computes the derivative of [`sigmoid`], `s (1 - s)`, accurate in both tails.
pub fn sigmoid_slope(z: f64) -> f64 {
    let e = (-z.abs()).exp();
    e / ((1.0 + e) * (1.0 + e))
}

/// Computes `log(1 + exp(z))` without overflow and without loss of accuracy for very negative `z`.
pub fn log1p_exp(z: f64) -> f64 {
    let tail = (-z.abs()).exp().ln_1p();
    if z > 0.0 { z + tail } else { tail }
}

/// `2^(i / 64)`.
#[rustfmt::skip]
static ROOTS: [f64; 64] = [
    1.0, 1.010_889_286_051_700_5, 1.021_897_148_654_116_6, 1.033_024_879_021_228_4,
    1.044_273_782_427_413_8, 1.055_645_178_360_557_2, 1.067_140_400_676_823_7, 1.078_760_797_757_119_9,
    1.090_507_732_665_257_7, 1.102_382_583_307_841, 1.114_386_742_595_892_4, 1.126_521_618_608_241_8,
    1.138_788_634_756_691_6, 1.151_189_229_952_982_7, 1.163_724_858_777_577_5, 1.176_396_991_650_281_2,
    1.189_207_115_002_721, 1.202_156_731_452_703, 1.215_247_359_980_469, 1.228_480_536_106_87,
    1.241_857_812_073_484, 1.255_380_757_024_691, 1.269_050_957_191_733_2, 1.282_870_016_078_778_3,
    1.296_839_554_651_009_6, 1.310_961_211_524_764_4, 1.325_236_643_159_741_3, 1.339_667_524_053_303,
    1.354_255_546_936_892_7, 1.369_002_422_974_590_5, 1.383_909_881_963_832, 1.398_979_672_538_311_2,
    std::f64::consts::SQRT_2, 1.429_613_338_391_97, 1.445_180_806_977_046_7, 1.460_917_794_180_647,
    1.476_826_145_939_499_3, 1.492_907_728_291_264_8, 1.509_164_427_593_422_8, 1.525_598_150_744_538_4,
    1.542_210_825_407_940_7, 1.559_004_400_237_837, 1.575_980_845_107_886_5, 1.593_142_151_342_267,
    1.610_490_331_949_254_3, 1.628_027_421_857_347_8, 1.645_755_478_153_965, 1.663_676_580_326_736_4,
    1.681_792_830_507_429, 1.700_106_353_718_523_5, 1.718_619_298_122_478, 1.737_333_835_273_706_2,
    1.756_252_160_373_299_5, 1.775_376_492_526_521_2, 1.794_709_075_003_107_2, 1.814_252_175_500_398_9,
    1.834_008_086_409_342_4, 1.853_979_125_083_385_5, 1.874_167_634_110_3, 1.894_575_981_586_965_6,
    1.915_206_561_397_147_4, 1.936_061_793_492_294_3, 1.957_144_124_175_400_2, 1.978_456_026_387_951,
];

/// Exponential for vector code: relative error below 4e-16; arguments are clamped to [-708, 709], so that the result is
/// always a normal number. NaN stays NaN.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits: no conversion that SSE2 lacks.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // ln(2) / 64 in two parts; the first has 32 trailing zeros, so that its product with k is exact.
    const HIGH: f64 = 6.931_471_803_691_238e-1 / 64.0;
    const LOW: f64 = 1.908_214_929_270_587_7e-10 / 64.0;
    // Comparisons in this order let NaN through.
    let x = if x > 709.0 { 709.0 } else { x };
    let x = if x < -708.0 { -708.0 } else { x };
    // exp(x) = 2^(k / 64) exp(r), |r| <= ln(2) / 128; a table for the root halves the degree of the polynomial.
    let shifted = x * (64.0 * std::f64::consts::LOG2_E) + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * HIGH) - k * LOW;
    let bits = shifted.to_bits();
    let root = ROOTS[(bits & 63) as usize];
    let power = f64::from_bits((bits >> 6).wrapping_add(1023) << 52);
    let r2 = r * r;
    let p = (r + r2 * (0.5 + r * (1.0 / 6.0))) + (r2 * r2) * (1.0 / 24.0 + r * (1.0 / 120.0));
    (root + root * p) * power
}

/// `log(1 + e)` for `e` in [0, 1], for vector code: relative error below 4e-16.
#[inline(always)]
fn log1p_unit(e: f64) -> f64 {
    // log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)) with s = f / (2 + f), |f| <= sqrt(2) - 1: the classic reduction of fdlibm.
    const L: [f64; 7] = [
        0.666_666_666_666_673_5,
        0.399_999_999_994_094_2,
        0.285_714_287_436_623_9,
        0.222_221_984_321_497_84,
        0.181_835_721_616_180_5,
        0.153_138_376_992_093_73,
        0.147_981_986_051_165_86,
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

/// Computes `out[i] = sigmoid((scores[i] - threshold) / temperature)`.
pub fn sigmoids_at(scores: &[f64], threshold: f64, temperature: f64, out: &mut [f64]) {
    widest!(sigmoids_at_here(scores: &[f64], threshold: f64, temperature: f64, out: &mut [f64]))
}

#[inline(always)]
fn sigmoids_at_here(scores: &[f64], threshold: f64, temperature: f64, out: &mut [f64]) {
    let per = 1.0 / temperature;
    for (o, s) in out.iter_mut().zip(scores) {
        *o = sigmoid_fast((s - threshold) * per);
    }
}

/// Computes `out[i] = factor * sigmoid'((scores[i] - threshold) / temperature) / temperature`, the derivative of `factor *
/// sigmoid` with respect to the score.
pub fn slopes_at(scores: &[f64], threshold: f64, temperature: f64, factor: f64, out: &mut [f64]) {
    widest!(slopes_at_here(scores: &[f64], threshold: f64, temperature: f64, factor: f64, out: &mut [f64]))
}

#[inline(always)]
fn slopes_at_here(scores: &[f64], threshold: f64, temperature: f64, factor: f64, out: &mut [f64]) {
    let per = 1.0 / temperature;
    let factor = factor * per;
    for (o, s) in out.iter_mut().zip(scores) {
        let e = exp(-((s - threshold) * per).abs());
        let d = 1.0 + e;
        *o = factor * e / (d * d);
    }
}

/// Adds `factor * weights[i]` times the second derivative of `sigmoid(score / temperature)` with respect to the score to `out[i]`,
/// with weights 1 by default.
pub fn add_curvatures_at(scores: &[f64], weights: Option<&[f64]>, temperature: f64, factor: f64, out: &mut [f64]) {
    widest!(add_curvatures_at_here(
        scores: &[f64], weights: Option<&[f64]>, temperature: f64, factor: f64, out: &mut [f64]
    ))
}

#[inline(always)]
fn add_curvatures_at_here(scores: &[f64], weights: Option<&[f64]>, temperature: f64, factor: f64, out: &mut [f64]) {
    let per = 1.0 / temperature;
    add_products(scores, weights, factor * per * per, out, |s| {
        let z = s * per;
        let e = exp(-z.abs());
        let d = 1.0 + e;
        // sigmoid' (1 - 2 sigmoid), which is odd.
        let bend = e * (1.0 - e) / (d * d * d);
        if z > 0.0 { -bend } else { bend }
    });
}

/// Adds `factor * weights[i]` times the derivative of the sigmoid at `scores[i]` to `out[i]`, with weights 1 by default: the second
/// derivative of `log(1 + exp(z))`, and of `log(1 + exp(-z))`, with respect to z.
pub fn add_logistic_curvatures(scores: &[f64], weights: Option<&[f64]>, factor: f64, out: &mut [f64]) {
    widest!(add_logistic_curvatures_here(scores: &[f64], weights: Option<&[f64]>, factor: f64, out: &mut [f64]))
}

#[inline(always)]
fn add_logistic_curvatures_here(scores: &[f64], weights: Option<&[f64]>, factor: f64, out: &mut [f64]) {
    add_products(scores, weights, factor, out, |s| {
        let e = exp(-s.abs());
        let d = 1.0 + e;
        e / (d * d)
    });
}

/// Adds `factor * weights[i]` times a function of `scores[i]` to `out[i]`. One loop for each case vectorises.
#[inline(always)]
fn add_products(scores: &[f64], weights: Option<&[f64]>, factor: f64, out: &mut [f64], function: impl Fn(f64) -> f64) {
    match weights {
        None => out.iter_mut().zip(scores).for_each(|(o, s)| *o += factor * function(*s)),
        Some(w) => out.iter_mut().zip(scores).zip(w).for_each(|((o, s), w)| *o += factor * w * function(*s)),
    }
}

/// Computes the mean of `weights[i] * sigmoid((scores[i] - threshold) / temperature)`, with weights 1 by default; 0 without
/// scores.
pub fn mean_at(scores: &[f64], weights: Option<&[f64]>, threshold: f64, temperature: f64) -> f64 {
    if scores.is_empty() {
        return 0.0;
    }
    let mut buffer = [0.0; BLOCK];
    // Compensated over blocks, since millions of equal terms would drift.
    let (mut total, mut lost) = (0.0_f64, 0.0);
    for (b, block) in scores.chunks(BLOCK).enumerate() {
        let values = &mut buffer[..block.len()];
        sigmoids_at(block, threshold, temperature, values);
        let part = match weights {
            Some(w) => vec::dot(values, &w[b * BLOCK..]),
            None => vec::sum(values),
        };
        let next = total + part;
        lost += if total.abs() >= part.abs() { (total - next) + part } else { (part - next) + total };
        total = next;
    }
    (total + lost) / scores.len() as f64
}

/// Computes `loss[i] = log(1 + exp(z[i]))` and its derivative `slope[i] = sigmoid(z[i])`.
pub fn logistic_pass(z: &[f64], loss: &mut [f64], slope: &mut [f64]) {
    widest!(logistic_pass_here(z: &[f64], loss: &mut [f64], slope: &mut [f64]))
}

#[inline(always)]
fn logistic_pass_here(z: &[f64], loss: &mut [f64], slope: &mut [f64]) {
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
    fn the_exponential_agrees_with_the_library() {
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
        assert!((mean_at(&vec![0.3; 1_000_000], None, 0.0, 1.0) - sigmoid(0.3)).abs() < 1e-15);
    }

    #[test]
    fn curvatures_agree_with_the_scalar_functions() {
        let scores = arguments();
        let mut out = vec![0.5; scores.len()];
        add_logistic_curvatures(&scores, None, 3.0, &mut out);
        for (s, o) in scores.iter().zip(&out) {
            assert!((o - (0.5 + 3.0 * sigmoid_slope(*s))).abs() < 1e-15, "{s} {o}");
        }
        out.fill(0.5);
        add_curvatures_at(&scores, None, 0.5, 3.0, &mut out);
        for (s, o) in scores.iter().zip(&out) {
            let z = s / 0.5;
            let wanted = 0.5 + 3.0 / 0.25 * sigmoid_slope(z) * (1.0 - 2.0 * sigmoid(z));
            assert!((o - wanted).abs() < 1e-13, "{s} {o} {wanted}");
        }
        let weights: Vec<f64> = (0..scores.len()).map(|i| (i % 3) as f64).collect();
        let (mut plain, mut weighted) = (vec![0.0; scores.len()], vec![0.0; scores.len()]);
        for add in [
            |s: &[f64], w: Option<&[f64]>, out: &mut [f64]| add_logistic_curvatures(s, w, 2.0, out),
            |s: &[f64], w: Option<&[f64]>, out: &mut [f64]| add_curvatures_at(s, w, 0.5, 2.0, out),
        ] {
            plain.fill(0.0);
            weighted.fill(0.0);
            add(&scores, None, &mut plain);
            add(&scores, Some(&weights), &mut weighted);
            for ((plain, weighted), w) in plain.iter().zip(&weighted).zip(&weights) {
                assert!((w * plain - weighted).abs() <= 1e-15 * weighted.abs(), "{plain} {weighted} {w}");
            }
        }
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
