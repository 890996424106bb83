//! Passes over the rows of a model: scores, sums of losses and rates, and sums of rows, in integers with proved errors. Which of them a
//! function consists of is in `model.rs`.

use std::collections::BTreeMap;

use super::number::{Dyadic, Interval};
use super::rounded::{ERROR, FRACTION, Rounded, UNDERFLOW, parts};

/// Bits that scores on a common grid may have.
const WIDTH: i32 = 126;
/// Sums of floating-point numbers below are bounded by their result times this: a relative error of 2^-53 for each of fewer than 2^32
/// additions.
const SUM: f64 = 1.0 + 1e-6;

/// Weights of rows, factors and the digits of entries raise the smallest exponential by less than this power of two.
const SLACK: i64 = 200;

/// Entry of a row: column, digits, and the power of its digits below the largest one of its column.
struct Entry {
    column: u32,
    digits: i64,
    drop: i32,
}

/// Rows in a form for fast passes.
pub struct Rows {
    entries: Vec<Entry>,
    /// First entry of each row, and the end.
    starts: Vec<usize>,
    /// Largest power of the digits of a column's entries; `None` for a column without entries.
    tops: Vec<Option<i32>>,
    /// Entries of the longest row.
    longest: usize,
}

/// Scores of all rows at a point.
pub struct Scores {
    /// Digits on the grid of `2^power`.
    digits: Vec<i128>,
    power: i32,
    /// Bound on their errors, in units of the grid.
    error: u32,
}

/// Derivative of a function with respect to the score of a row.
#[derive(Clone, Copy)]
pub struct Slope {
    pub row: usize,
    pub negative: bool,
    pub size: Rounded,
}

/// Rounds a logarithm upwards to a whole number.
fn bits(n: usize) -> i32 {
    (usize::BITS - n.leading_zeros()) as i32
}

impl Rows {
    /// Prepares rows whose entries `visit(row, see)` lists.
    pub fn new(rows: usize, dim: usize, visit: impl Fn(usize, &mut dyn FnMut(usize, f64))) -> Self {
        let mut tops: Vec<Option<i32>> = vec![None; dim];
        let (mut entries, mut starts, mut longest) = (vec![], vec![0], 0);
        for row in 0..rows {
            visit(row, &mut |column, x| {
                let (digits, power) = parts(x);
                if digits != 0 {
                    tops[column] = Some(tops[column].map_or(power, |top| top.max(power)));
                    entries.push(Entry { column: column as u32, digits, drop: power });
                }
            });
            longest = longest.max(entries.len() - starts[row]);
            starts.push(entries.len());
        }
        for entry in &mut entries {
            entry.drop = tops[entry.column as usize].map_or(0, |top| top - entry.drop);
        }
        Rows { entries, starts, tops, longest }
    }

    fn of(&self, row: usize) -> &[Entry] {
        &self.entries[self.starts[row]..self.starts[row + 1]]
    }

    /// Computes all scores, on a grid that also holds numbers up to `largest`.
    pub fn scores(&self, point: &[f64], largest: f64) -> Scores {
        let weights: Vec<(i64, i32)> = point.iter().map(|x| parts(*x)).collect();
        let powers = weights.iter().zip(&self.tops).filter(|((digits, _), _)| *digits != 0);
        let top = powers.filter_map(|((_, power), top)| Some(power + (*top)?)).max().unwrap_or(i32::MIN / 2);
        // Products have 106 bits.
        let room = WIDTH - 106 - bits(self.longest);
        let power = (top - room).max(Rounded::of(largest.max(1.0)).power + 64 - (WIDTH - 2));
        let score = |row: usize| {
            let product = |entry: &Entry| {
                let (digits, own) = weights[entry.column as usize];
                let power_of_entry = self.tops[entry.column as usize].unwrap_or(0) - entry.drop;
                let product = i128::from(entry.digits) * i128::from(digits);
                let shift = own + power_of_entry - power;
                if product == 0 || shift >= 0 { product << shift.clamp(0, 127) } else { product >> (-shift).min(127) }
            };
            self.of(row).iter().map(product).sum()
        };
        let digits = (0..self.starts.len() - 1).map(score).collect();
        // Each product, and a threshold, is rounded by less than a unit.
        Scores { digits, power, error: self.longest as u32 + 1 }
    }

    /// Adds the rows times their slopes, all with the relative error `relative`. Returns the sum and a bound on its error in each
    /// coordinate.
    pub fn pull(&self, slopes: &[Slope], relative: f64) -> (Vec<Dyadic>, Vec<Dyadic>) {
        let dim = self.tops.len();
        let Some(top) = slopes.iter().filter(|s| !s.size.is_zero()).map(|s| s.size.power).max() else {
            return (vec![Dyadic::zero(); dim], vec![Dyadic::zero(); dim]);
        };
        // A product has 116 bits.
        let lift = (bits(slopes.len()) - 10).max(0);
        let (mut sums, mut sizes) = (vec![0_i128; dim], vec![0.0_f64; dim]);
        for slope in slopes {
            let own = top - slope.size.power;
            let digits = i128::from(slope.size.digits) * if slope.negative { -1 } else { 1 };
            let size = slope.size.digits as f64 * half_to(own);
            for entry in self.of(slope.row) {
                let column = entry.column as usize;
                sums[column] += (digits * i128::from(entry.digits)) >> (own + entry.drop + lift).min(127);
                sizes[column] += size * entry.digits.unsigned_abs() as f64 * half_to(entry.drop);
            }
        }
        // Every row is rounded by at most a unit.
        let units = Dyadic::new(slopes.len() as i128 + 1, 0);
        let column = |j: usize| {
            let power = i64::from(top) + i64::from(self.tops[j].unwrap_or(0));
            let rounding = &units * &Dyadic::power_of_two(power + i64::from(lift));
            let error = &Dyadic::from(sizes[j] * SUM * relative) * &Dyadic::power_of_two(power);
            let underflow = &units * &Dyadic::power_of_two(UNDERFLOW + SLACK + power - i64::from(top));
            (Dyadic::new(sums[j], power + i64::from(lift)), error + rounding + underflow)
        };
        (0..dim).map(column).unzip()
    }
}

/// `2^-n`, or 0 where it is too small for a sum of sizes to contain.
fn half_to(n: i32) -> f64 {
    if n < 1000 { f64::from_bits(((1023 - n as i64) as u64) << 52) } else { 0.0 }
}

impl Scores {
    /// Whether a score minus `threshold` is negative, and its absolute value divided by `divisor` on the grid of exponentials.
    pub fn argument(&self, row: usize, threshold: f64, divisor: f64) -> (bool, u128) {
        let off = self.digits[row] - self.on_grid(threshold);
        let (digits, power) = parts(divisor);
        // The trailing zeros of the divisor would cost digits of the quotient.
        let zeros = digits.trailing_zeros() as i32;
        let shift = self.power + FRACTION - power - zeros;
        let size = off.unsigned_abs();
        let shifted = match shift {
            _ if size == 0 => 0,
            // Too large for an exponential, which is saturated.
            0.. if (size.leading_zeros() as i32) <= shift => return (off < 0, u128::MAX),
            0.. => size << shift,
            _ => size.checked_shr(-shift as u32).unwrap_or(0),
        };
        (off < 0, shifted / (digits >> zeros).unsigned_abs() as u128)
    }

    /// Absolute value of a score minus `threshold`.
    pub fn distance(&self, row: usize, threshold: f64) -> Rounded {
        Rounded::new((self.digits[row] - self.on_grid(threshold)).unsigned_abs(), self.power)
    }

    fn on_grid(&self, x: f64) -> i128 {
        let (digits, power) = parts(x);
        let shift = power - self.power;
        let digits = i128::from(digits);
        if digits == 0 || shift >= 0 { digits << shift.clamp(0, 127) } else { digits >> (-shift).min(127) }
    }

    /// `1 - label * score`, exact on the grid.
    pub fn hinge(&self, row: usize, label: f64) -> (bool, Rounded) {
        let margin = if label > 0.0 { self.digits[row] } else { -self.digits[row] };
        let left = self.on_grid(1.0) - margin;
        (left > 0, Rounded::new(left.unsigned_abs(), self.power))
    }

    /// Bound on the error of a score.
    pub fn error(&self) -> Dyadic {
        Dyadic::new(i128::from(self.error), i64::from(self.power))
    }

    /// Relative error of a function of a score divided by `divisor` whose logarithm has derivatives of at most 2: that of its computation,
    /// and that of the score.
    pub fn relative(&self, divisor: f64) -> f64 {
        // exp(2 t) - 1 is at most 4 t for t of at most 1/2.
        let score = self.error().approximate() / divisor * SUM;
        if score < 0.5 { ERROR + 4.0 * score } else { f64::MAX }
    }
}

/// Sum of numbers without rounding.
#[derive(Default)]
pub struct Total {
    cells: BTreeMap<i32, u128>,
    count: u32,
}

impl Total {
    pub fn add(&mut self, x: Rounded) {
        *self.cells.entry(x.power).or_default() += u128::from(x.digits);
        self.count += 1;
    }

    /// Interval of the sum if its numbers have this relative error.
    pub fn interval(&self, relative: f64) -> Interval {
        let one = |(power, digits): (&i32, &u128)| Dyadic::new(*digits as i128, i64::from(*power));
        let sum: Dyadic = self.cells.iter().map(one).sum();
        let error = &sum * &relative.into();
        // Exponentials that are too small to be computed.
        let underflow = &Dyadic::new(i128::from(self.count), 0) * &Dyadic::power_of_two(UNDERFLOW + SLACK);
        let error = &error + &underflow;
        Interval { low: (&sum - &error).max(Dyadic::zero()), high: &sum + &error }
    }
}
