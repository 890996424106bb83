//! Functions of a linear model from its rows: intervals that contain values and subgradients, and weak-convexity constants.

use super::format::{Comparison, Function, Loss, Model, Penalty, Piece};
use super::number::{Dyadic, Interval, sigmoid, softplus_minus};

/// `1 / (6 sqrt 3)`, the largest second derivative of the sigmoid, rounded upwards.
const BEND: f64 = 0.096_225_044_864_937_65;
/// Combinations of active branches that are compared with a subgradient.
const BRANCHES: usize = 64;
/// Rounding errors that recorded values and subgradients may have, relative to the absolute values that they are sums of. What they
/// are off by counts as their error, so that a derived bound holds whatever this number is.
pub const ACCURACY: f64 = 1e-13;
/// Rows whose margin is this close to the kink of the hinge loss may have either slope.
const KINK: f64 = 1e-9;

/// Lower bound `value + <slope, y - z>` of a function (plus its convexification) at a point z. The slope is that of `slope` up to
/// `slack` in each coordinate.
#[derive(Clone)]
struct Linear {
    value: Dyadic,
    slope: Vec<Dyadic>,
    slack: Vec<Dyadic>,
    /// Nearly the sum of absolute values that value and slope are computed from.
    size: [f64; 2],
    /// Changes of value and slope that leave it a lower bound: of rows at the kink of a hinge loss.
    choices: Vec<(Dyadic, Vec<(usize, Dyadic)>)>,
}

/// A model at a point.
pub struct Evaluation<'a> {
    model: &'a Model,
    point: Vec<Dyadic>,
    scores: Vec<Dyadic>,
}

impl Model {
    /// Checks that indices and lengths agree.
    pub fn validate(&self) -> Result<(), String> {
        let n = self.rows.len();
        let dim = self.dim();
        let weights = self.weights.as_ref().is_none_or(|w| w.len() == n && w.iter().all(|w| *w >= 0.0));
        let columns = self.rows.iter().flatten().all(|(column, _)| *column < self.columns);
        let labels = self.labels.len() == n && self.labels.iter().all(|y| y.abs() == 1.0);
        if !(weights && columns && labels && dim > 0) {
            return Err("the rows, labels and weights of the model do not fit together".into());
        }
        self.functions.iter().try_for_each(|f| self.validate_function(f))
    }

    pub fn validate_function(&self, f: &Function) -> Result<(), String> {
        for piece in f.pieces.iter().flatten() {
            let (factor, populations, temperature) = match piece {
                Piece::Loss { factor, rows, .. } => (*factor, rows.iter().collect::<Vec<_>>(), 1.0),
                Piece::Penalty { factor, .. } => (*factor, vec![], 1.0),
                Piece::Rates { factor, temperature, groups, .. } => (*factor, groups.iter().collect(), *temperature),
            };
            let listed = populations.iter().all(|rows| rows.iter().all(|i| *i < self.rows.len()));
            if !(listed && factor >= 0.0 && temperature > 0.0) {
                return Err(format!("'{}' refers to rows that are missing, or has a factor that is not positive", f.expression));
            }
        }
        Ok(())
    }

    pub fn dim(&self) -> usize {
        self.columns + usize::from(self.intercept)
    }

    pub fn weight(&self, row: usize) -> Dyadic {
        self.weights.as_ref().map_or(1.0, |w| w[row]).into()
    }

    /// Calls `visit(column, entry)` for the entries of a row, with the intercept as the last column.
    pub fn visit(&self, row: usize, mut visit: impl FnMut(usize, f64)) {
        self.rows[row].iter().for_each(|(column, x)| visit(*column, *x));
        if self.intercept {
            visit(self.columns, 1.0);
        }
    }

    /// The rows that a loss is a mean of, and their total weight.
    pub fn population(&self, rows: Option<&Vec<usize>>) -> (Vec<usize>, Dyadic) {
        let rows = rows.cloned().unwrap_or_else(|| (0..self.rows.len()).collect());
        let total = rows.iter().map(|i| self.weight(*i)).sum();
        (rows, total)
    }

    /// Upper bound on the smallest weak-convexity constant that follows from the form of the function.
    pub fn constant(&self, f: &Function) -> Option<Dyadic> {
        let mut sum = Dyadic::zero();
        for piece in f.pieces.as_ref()? {
            let (factor, constant) = match piece {
                Piece::Loss { factor, .. } => (factor, Dyadic::zero()),
                Piece::Penalty { factor, penalty } => (factor, if *penalty == Penalty::Scad { 2.0 } else { 0.0 }.into()),
                Piece::Rates { factor, temperature, groups, comparison } => {
                    let squares: Vec<Interval> = groups.iter().map(|rows| self.mean_square(rows)).collect();
                    let sums = self.contrasts(*comparison, groups).into_iter().map(|row| {
                        let parts = row.iter().zip(&squares).map(|(c, square)| (&c.abs() * square).high);
                        parts.sum::<Dyadic>()
                    });
                    let largest = sums.max().unwrap_or_else(Dyadic::zero);
                    let square = &Dyadic::from(*temperature) * &(*temperature).into();
                    (factor, Interval::from(&largest * &BEND.into()).over(&square).high)
                }
            };
            sum = sum + &Dyadic::from(*factor) * &constant;
        }
        Some(sum)
    }

    fn mean_square(&self, rows: &[usize]) -> Interval {
        let (rows, total) = self.population(Some(&rows.to_vec()));
        let mut sum = Dyadic::zero();
        for i in rows {
            let mut square = Dyadic::zero();
            self.visit(i, |_, x| square = &square + &(&Dyadic::from(x) * &x.into()));
            sum = sum + &self.weight(i) * &square;
        }
        Interval::from(sum).over(&total)
    }

    /// Coefficients of the groups' means in each difference.
    fn contrasts(&self, comparison: Comparison, groups: &[Vec<usize>]) -> Vec<Vec<Interval>> {
        let one = |c: f64| Interval::from(c);
        match (comparison, groups.len()) {
            (Comparison::Share | Comparison::Rest, _) => vec![vec![one(1.0)]],
            (Comparison::BetweenGroups, k) => {
                let sign = |i: usize, j: usize, at: usize| {
                    one(if at == i {
                        1.0
                    } else if at == j {
                        -1.0
                    } else {
                        0.0
                    })
                };
                let pairs = (0..k).flat_map(|j| (0..j).map(move |i| (i, j)));
                pairs.map(|(i, j)| (0..k).map(|at| sign(i, j, at)).collect()).collect()
            }
            (Comparison::ToOverall, k) => {
                let totals: Vec<Dyadic> = groups.iter().map(|rows| self.population(Some(rows)).1).collect();
                let all = totals.iter().cloned().sum();
                let share = |j: usize| Interval::from(totals[j].clone()).over(&all);
                (0..k).map(|i| (0..k).map(|j| &one(if i == j { 1.0 } else { 0.0 }) - &share(j)).collect()).collect()
            }
        }
    }
}

impl<'a> Evaluation<'a> {
    pub fn new(model: &'a Model, point: &[f64]) -> Self {
        let point: Vec<Dyadic> = point.iter().map(|x| (*x).into()).collect();
        let score = |row: usize| {
            let mut score = Dyadic::zero();
            model.visit(row, |column, x| score = &score + &(&point[column] * &x.into()));
            score
        };
        let scores = (0..model.rows.len()).map(score).collect();
        Evaluation { model, point, scores }
    }

    /// Interval of the value of a function; `None` if its form is not known.
    pub fn value(&self, f: &Function) -> Option<Interval> {
        let mut sum = Interval::from(-Dyadic::from(f.bound));
        for piece in f.pieces.as_ref()? {
            sum = &sum + &self.piece_value(piece);
        }
        Some(sum)
    }

    fn margin(&self, row: usize) -> Dyadic {
        &self.scores[row] * &self.model.labels[row].into()
    }

    fn penalised(&self) -> &[Dyadic] {
        &self.point[..self.model.columns]
    }

    fn piece_value(&self, piece: &Piece) -> Interval {
        match piece {
            Piece::Loss { factor, loss, rows } => {
                let (rows, total) = self.model.population(rows.as_ref());
                let mut sum = Interval::from(0.0);
                for i in rows {
                    let loss = match loss {
                        Loss::Hinge => Interval::from((&Dyadic::from(1.0) - &self.margin(i)).max(Dyadic::zero())),
                        Loss::Logistic => softplus_minus(&self.margin(i)),
                    };
                    sum = &sum + &(&loss * &Interval::from(self.model.weight(i)));
                }
                &sum.over(&total) * &(*factor).into()
            }
            Piece::Penalty { factor, penalty } => {
                let sum = self.penalised().iter().map(|w| penalty_of(*penalty, w).0).sum::<Dyadic>();
                Interval::from(&sum * &(*factor).into())
            }
            Piece::Rates { factor, temperature, comparison, groups } => {
                let means: Vec<Interval> = groups.iter().map(|rows| self.mean_rate(rows, *temperature)).collect();
                let gaps = self.gaps(*comparison, groups, &means);
                let value = match comparison {
                    Comparison::BetweenGroups | Comparison::ToOverall => {
                        gaps.iter().map(Interval::abs).reduce(Interval::max).unwrap_or_else(|| 0.0.into())
                    }
                    Comparison::Share => means[0].clone(),
                    Comparison::Rest => &Interval::from(1.0) - &means[0],
                };
                &value * &(*factor).into()
            }
        }
    }

    fn mean_rate(&self, rows: &[usize], temperature: f64) -> Interval {
        let total: Dyadic = rows.iter().map(|i| self.model.weight(*i)).sum();
        let mut sum = Interval::from(0.0);
        for &i in rows {
            sum = &sum + &(&self.rate(i, temperature) * &Interval::from(self.model.weight(i)));
        }
        sum.over(&total)
    }

    fn rate(&self, row: usize, temperature: f64) -> Interval {
        let at = Interval::from(self.scores[row].clone()).over(&temperature.into());
        Interval { low: sigmoid(&at.low).low, high: sigmoid(&at.high).high }
    }

    fn gaps(&self, comparison: Comparison, groups: &[Vec<usize>], means: &[Interval]) -> Vec<Interval> {
        let rows = self.model.contrasts(comparison, groups);
        let gap = |row: &Vec<Interval>| row.iter().zip(means).fold(Interval::from(0.0), |sum, (c, mean)| &sum + &(c * mean));
        rows.iter().map(gap).collect()
    }

    /// Returns by how much a recorded linearisation at most exceeds one that bounds the function, with its convexification, from below:
    /// in its value, and in the norm of its slope. `None` if the form of the function is not known, an error if that is more than its
    /// errors and rounding.
    pub fn linearisation(
        &self,
        f: &Function,
        (value, value_error): (f64, f64),
        (slope, slope_error): (&[f64], f64),
    ) -> Option<Result<[Dyadic; 2], String>> {
        let mut alternatives =
            vec![Linear { value: -Dyadic::from(f.bound), size: [f.bound.abs(), 0.0], ..Linear::zero(self.point.len()) }];
        for piece in f.pieces.as_ref()? {
            let branches = self.branches(piece);
            let sums = alternatives.iter().flat_map(|a| branches.iter().map(move |b| a.plus(b)));
            alternatives = sums.take(BRANCHES).collect();
        }
        let slope: Vec<Dyadic> = slope.iter().map(|s| (*s).into()).collect();
        let (mut high, mut off) = (false, f64::INFINITY);
        for mut linear in alternatives {
            linear.choose(&slope);
            let above = (&Dyadic::from(value) - &linear.value).max(Dyadic::zero());
            let enough = above <= (value_error + ACCURACY * linear.size[0]).into();
            let distance = linear.distance_squared(&slope).root();
            if enough && distance <= (slope_error + ACCURACY * linear.size[1]).into() {
                return Some(Ok([above, distance]));
            }
            high |= enough;
            off = off.min(distance.approximate());
        }
        Some(Err(if high {
            format!("the recorded subgradient of '{}' is {off:.1e} off, more than its error {slope_error:.1e}", f.expression)
        } else {
            format!("the recorded value {value} of '{}' is above the value that follows from the rows", f.expression)
        }))
    }

    /// Lower bounds of a piece: one for each branch of a maximum.
    fn branches(&self, piece: &Piece) -> Vec<Linear> {
        let zero = || Linear::zero(self.point.len());
        match piece {
            Piece::Loss { factor, loss, rows } => {
                let (rows, total) = self.model.population(rows.as_ref());
                let mut linear = zero();
                let factor = Interval::from(*factor);
                for i in rows {
                    let share = &Interval::from(self.model.weight(i)).over(&total) * &factor;
                    linear.size[0] += share.high.approximate() * (1.0 + self.scores[i].approximate().abs());
                    let (margin, label) = (self.margin(i), Interval::from(self.model.labels[i]));
                    match loss {
                        Loss::Logistic => {
                            let slope = &sigmoid(&-margin.clone()) * &Interval::from(-1.0);
                            linear.value = &linear.value + &(&softplus_minus(&margin) * &share).low;
                            self.pull(i, &(&(&slope * &label) * &share), &mut linear);
                        }
                        Loss::Hinge => {
                            let left = &Dyadic::from(1.0) - &margin;
                            let active = left > Dyadic::zero();
                            let slope = &(&label * &share) * &Interval::from(-1.0);
                            let value = &share * &Interval::from(left.clone());
                            if active {
                                linear.value = &linear.value + &value.low;
                                self.pull(i, &slope, &mut linear);
                            }
                            if left.abs() < KINK.into() {
                                // Either slope of the kink gives a lower bound.
                                let sign = Dyadic::from(if active { -1.0 } else { 1.0 });
                                let mut change = vec![];
                                let width = &slope.high - &slope.low;
                                self.model.visit(i, |j, x| {
                                    let x = Dyadic::from(x);
                                    change.push((j, &(&slope.low * &sign) * &x));
                                    linear.slack[j] = &linear.slack[j] + &(&width * &x.abs());
                                });
                                let by = if active { -value.high } else { value.low };
                                linear.choices.push((by, change));
                            }
                        }
                    }
                }
                vec![linear]
            }
            Piece::Penalty { factor, penalty } => {
                let mut linear = zero();
                for (j, w) in self.penalised().iter().enumerate() {
                    let (value, slope) = penalty_of(*penalty, w);
                    linear.value = &linear.value + &(&value * &(*factor).into());
                    linear.slope[j] = &slope * &(*factor).into();
                    linear.size[0] += factor * (1.0 + w.approximate().abs()).powi(2);
                    linear.size[1] += factor * (1.0 + w.approximate().abs());
                }
                vec![linear]
            }
            Piece::Rates { factor, temperature, comparison, groups } => {
                let factor = Interval::from(*factor);
                let means: Vec<Interval> = groups.iter().map(|rows| self.mean_rate(rows, *temperature)).collect();
                let gaps = self.gaps(*comparison, groups, &means);
                let mut all = vec![];
                for (row, gap) in self.model.contrasts(*comparison, groups).iter().zip(gaps) {
                    let signs: &[f64] = match comparison {
                        Comparison::BetweenGroups | Comparison::ToOverall => &[1.0, -1.0],
                        Comparison::Share => &[1.0],
                        Comparison::Rest => &[-1.0],
                    };
                    for &sign in signs {
                        let sign = Interval::from(sign);
                        let mut linear = Linear { size: [2.0 * factor.high.approximate(), 0.0], ..zero() };
                        let one = Interval::from(if *comparison == Comparison::Rest { 1.0 } else { 0.0 });
                        linear.value = (&(&one + &(&gap * &sign)) * &factor).low;
                        for (rows, c) in groups.iter().zip(row) {
                            self.pull_rates(rows, *temperature, &(&(c * &sign) * &factor), &mut linear);
                        }
                        all.push(linear);
                    }
                }
                if matches!(comparison, Comparison::BetweenGroups | Comparison::ToOverall) {
                    // A gap is never negative.
                    all.push(zero());
                }
                all.sort_by(|a, b| b.value.cmp(&a.value));
                all
            }
        }
    }

    /// Adds the slope of `factor` times a mean rate.
    fn pull_rates(&self, rows: &[usize], temperature: f64, factor: &Interval, linear: &mut Linear) {
        let total: Dyadic = rows.iter().map(|i| self.model.weight(*i)).sum();
        for &i in rows {
            let rate = self.rate(i, temperature);
            let bend = &rate * &(&Interval::from(1.0) - &rate);
            let share = Interval::from(self.model.weight(i)).over(&total);
            self.pull(i, &(&(&bend.over(&temperature.into()) * &share) * factor), linear);
        }
    }

    /// Adds a row times its slope.
    fn pull(&self, row: usize, slope: &Interval, linear: &mut Linear) {
        let (width, steep) = (&slope.high - &slope.low, slope.low.approximate().abs());
        self.model.visit(row, |j, x| {
            let x = Dyadic::from(x);
            linear.slope[j] = &linear.slope[j] + &(&slope.low * &x);
            linear.slack[j] = &linear.slack[j] + &(&width * &x.abs());
            linear.size[1] += steep * x.approximate().abs();
        });
    }
}

impl Linear {
    fn zero(dim: usize) -> Linear {
        let zeros = || vec![Dyadic::zero(); dim];
        Linear { value: Dyadic::zero(), slope: zeros(), slack: zeros(), size: [0.0; 2], choices: vec![] }
    }

    fn plus(&self, other: &Linear) -> Linear {
        let sum = |a: &[Dyadic], b: &[Dyadic]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Linear {
            value: &self.value + &other.value,
            slope: sum(&self.slope, &other.slope),
            slack: sum(&self.slack, &other.slack),
            size: [self.size[0] + other.size[0], self.size[1] + other.size[1]],
            choices: self.choices.iter().chain(&other.choices).cloned().collect(),
        }
    }

    /// Makes the choices that bring the slope closer to `wanted`.
    fn choose(&mut self, wanted: &[Dyadic]) {
        for (value, change) in std::mem::take(&mut self.choices) {
            // ||off - change||^2 < ||off||^2 with off = wanted - slope.
            let gain = change.iter().map(|(j, c)| c * &(&(&wanted[*j] - &self.slope[*j]) - &c.half())).sum::<Dyadic>();
            if gain > Dyadic::zero() {
                self.value = &self.value + &value;
                change.iter().for_each(|(j, c)| self.slope[*j] = &self.slope[*j] + c);
            }
        }
    }

    fn distance_squared(&self, wanted: &[Dyadic]) -> Dyadic {
        let one = |((w, s), slack): ((&Dyadic, &Dyadic), &Dyadic)| {
            let off = &(w - s).abs() + slack;
            &off * &off
        };
        wanted.iter().zip(&self.slope).zip(&self.slack).map(one).sum()
    }
}

/// Value and a subgradient of a penalty of one weight.
fn penalty_of(penalty: Penalty, w: &Dyadic) -> (Dyadic, Dyadic) {
    let (a, number) = (w.abs(), |x: f64| Dyadic::from(x));
    let sign = number(match w.sign() {
        std::cmp::Ordering::Less => -1.0,
        std::cmp::Ordering::Equal => 0.0,
        std::cmp::Ordering::Greater => 1.0,
    });
    match penalty {
        Penalty::L2 => ((w * w).half(), w.clone()),
        Penalty::L1 => (a, sign),
        Penalty::Scad if a <= number(1.0) => (&a * &number(2.0), &sign * &number(2.0)),
        Penalty::Scad if a <= number(2.0) => {
            (&(&(&a * &number(4.0)) - &(&a * &a)) - &number(1.0), &sign * &(&number(4.0) - &(&a * &number(2.0))))
        }
        Penalty::Scad => (number(3.0), number(0.0)),
    }
}
