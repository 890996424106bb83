//! Functions of a linear model from its rows: intervals that contain values, checks of subgradients, and weak-convexity constants. The
//! passes over the rows are in `rows.rs`.

use super::format::{Comparison, Function, Loss, Model, Penalty, Piece};
use super::number::{Dyadic, Interval};
use super::rounded::{ERROR, Rounded, log1p, sigmoids, softplus_minus};
use super::rows::{Rows, Scores, Slope, Total};

/// `1 / (6 sqrt 3)`, the largest second derivative of the sigmoid, rounded upwards.
const BEND: f64 = 0.096_225_044_864_937_65;
/// Combinations of active branches that are compared with a subgradient.
const BRANCHES: usize = 64;
/// Rows whose margin is this close to the kink of the hinge loss may have either slope.
const KINK: f64 = 1e-9;
/// Relative accuracy at which scales of columns are compared with the rows.
const SCALES: f64 = 1e-9;

/// Groups of rows whose rates are compared with each other.
struct Family<'a> {
    groups: Vec<&'a [usize]>,
    totals: Vec<Dyadic>,
    /// Coefficients of the groups' means in each difference.
    contrasts: Vec<Vec<Interval>>,
}

/// Summand of a function with the weights of its rows.
enum Part<'a> {
    Loss { factor: f64, loss: Loss, scale: f64, rows: Vec<usize>, total: Dyadic },
    Penalty { factor: f64, penalty: Penalty },
    Rates { factor: f64, temperature: f64, thresholds: &'a [f64], comparison: Comparison, families: Vec<Family<'a>> },
}

/// Function of the weights.
pub struct Prepared<'a> {
    name: &'a str,
    bound: f64,
    parts: Vec<Part<'a>>,
}

/// A model with its rows prepared for passes.
pub struct Rowwise<'a> {
    model: &'a Model,
    rows: Rows,
}

/// A model at a point.
pub struct Evaluation<'a> {
    rowwise: &'a Rowwise<'a>,
    point: Vec<Dyadic>,
    scores: Scores,
}

/// One of the functions whose maximum a summand is: its value, and which difference of rates with which sign.
struct Branch {
    value: Interval,
    family: usize,
    threshold: f64,
    contrast: usize,
    sign: f64,
}

/// Sum of rows with proved errors in each coordinate.
struct Sum {
    slope: Vec<Dyadic>,
    slack: Vec<Dyadic>,
}

/// Change of a row at the kink of a hinge loss: what it may lower the value by, and the change of the slope.
struct Choice {
    lowers: Dyadic,
    change: Vec<(usize, Dyadic)>,
}

/// A function at a point, without the branches of its maxima.
pub struct Local<'a> {
    function: &'a Prepared<'a>,
    evaluation: &'a Evaluation<'a>,
    /// Value of the summands without branches.
    smooth: Interval,
    /// Branches of the other summands, the largest first.
    maxima: Vec<(&'a Part<'a>, Vec<Branch>)>,
    /// Value of the function.
    pub value: Interval,
}

impl Model {
    /// Checks that indices and lengths agree.
    pub fn validate(&self) -> Result<(), String> {
        let n = self.rows.len();
        let dim = self.dim();
        let weights = self.weights.as_ref().is_none_or(|w| w.len() == n && w.iter().all(|w| *w >= 0.0));
        let columns = self.rows.iter().flatten().all(|(column, _)| *column < self.columns);
        let labels = self.labels.len() == n && self.labels.iter().all(|y| y.abs() == 1.0);
        let scales = self.scales.as_ref().is_none_or(|s| {
            s.values.len() == self.columns && s.values.iter().all(|v| *v >= 0.0) && s.first <= s.end && s.end <= n
        });
        if !(weights && columns && labels && scales && dim > 0 && n < 1 << 31) {
            return Err("the rows, labels, weights and scales of the model do not fit together".into());
        }
        self.functions.iter().try_for_each(|f| self.validate_function(f))
    }

    pub fn validate_function(&self, f: &Function) -> Result<(), String> {
        for piece in f.pieces.iter().flatten() {
            let (factor, populations, positive, complete) = match piece {
                Piece::Loss { factor, rows, loss, scale } => (
                    *factor,
                    rows.iter().collect::<Vec<_>>(),
                    scale.unwrap_or(1.0),
                    scale.is_some() == (*loss == Loss::TruncatedLogistic),
                ),
                Piece::Penalty { factor, penalty } => (*factor, vec![], 1.0, *penalty != Penalty::Ridge || self.scales.is_some()),
                Piece::Rates { factor, temperature, families, thresholds, .. } => {
                    let same = families.iter().all(|f| !f.is_empty()) && !families.is_empty() && !thresholds.is_empty();
                    (*factor, families.iter().flatten().collect(), *temperature, same)
                }
            };
            let listed = populations.iter().all(|rows| !rows.is_empty() && rows.iter().all(|i| *i < self.rows.len()));
            let weighty = populations.iter().all(|rows| rows.iter().any(|i| self.weight_of(*i) > 0.0));
            if !(listed && weighty && complete && factor >= 0.0 && positive > 0.0) {
                return Err(format!("'{}' refers to rows that are missing, or has a factor that is not positive", f.expression));
            }
        }
        Ok(())
    }

    pub fn dim(&self) -> usize {
        self.columns + usize::from(self.intercept)
    }

    fn weight_of(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[row])
    }

    pub fn weight(&self, row: usize) -> Dyadic {
        self.weight_of(row).into()
    }

    /// Calls `visit(column, entry)` for the entries of a row, with the intercept as the last column.
    pub fn visit(&self, row: usize, mut visit: impl FnMut(usize, f64)) {
        self.rows[row].iter().for_each(|(column, x)| visit(*column, *x));
        if self.intercept {
            visit(self.columns, 1.0);
        }
    }

    fn total(&self, rows: &[usize]) -> Dyadic {
        match &self.weights {
            None => Dyadic::new(rows.len() as i128, 0),
            Some(_) => rows.iter().map(|i| self.weight(*i)).sum(),
        }
    }

    /// The rows that a loss is a mean of, and their total weight.
    pub fn population(&self, rows: Option<&Vec<usize>>) -> (Vec<usize>, Dyadic) {
        let rows = rows.cloned().unwrap_or_else(|| (0..self.rows.len()).collect());
        let total = self.total(&rows);
        (rows, total)
    }

    /// Computes what does not depend on a point; `None` if the form of the function is not known.
    pub fn prepare<'a>(&'a self, f: &'a Function) -> Option<Prepared<'a>> {
        let part = |piece: &'a Piece| match piece {
            Piece::Loss { factor, loss, scale, rows } => {
                let (rows, total) = self.population(rows.as_ref());
                Part::Loss { factor: *factor, loss: *loss, scale: scale.unwrap_or(1.0), rows, total }
            }
            Piece::Penalty { factor, penalty } => Part::Penalty { factor: *factor, penalty: *penalty },
            Piece::Rates { factor, temperature, thresholds, comparison, families } => {
                let family = |groups: &'a Vec<Vec<usize>>| {
                    let totals: Vec<Dyadic> = groups.iter().map(|rows| self.total(rows)).collect();
                    let groups = groups.iter().map(Vec::as_slice).collect();
                    Family { groups, contrasts: contrasts(*comparison, &totals), totals }
                };
                let families = families.iter().map(family).collect();
                Part::Rates { factor: *factor, temperature: *temperature, thresholds, comparison: *comparison, families }
            }
        };
        Some(Prepared { name: &f.expression, bound: f.bound, parts: f.pieces.as_ref()?.iter().map(part).collect() })
    }

    /// Upper bound on the smallest weak-convexity constant that follows from the form of a function.
    pub fn constant(&self, f: &Prepared) -> Dyadic {
        let mut sum = Dyadic::zero();
        for part in &f.parts {
            let (factor, constant) = match part {
                Part::Loss { factor, loss: Loss::TruncatedLogistic, scale, rows, total } => {
                    // With l the logistic loss and s its slope, A log(1 + l / A) has a second derivative of at least -A s^2 / (A + l)^2
                    // in the margin. As s is at most min(l, 1), that is at least -A / (A + 1)^2; and it is negative only where l exceeds
                    // log(1 + A), so that it is also at least -A / (A + log(1 + A))^2.
                    let log = &log1p(Rounded::of(*scale)).dyadic() * &(1.0 - 4.0 * ERROR).into();
                    let least = &Dyadic::from(*scale) + &log.max(1.0.into());
                    let bend = Interval::from(*scale).over(&(&least * &least));
                    (factor, (&bend * &self.mean_square(rows, total)).high)
                }
                Part::Loss { factor, .. } => (factor, Dyadic::zero()),
                Part::Penalty { factor, penalty } => (factor, if *penalty == Penalty::Scad { 2.0 } else { 0.0 }.into()),
                Part::Rates { factor, temperature, families, .. } => {
                    let of_family = |family: &Family| {
                        let populations = family.groups.iter().zip(&family.totals);
                        let squares: Vec<Interval> = populations.map(|(rows, total)| self.mean_square(rows, total)).collect();
                        let sums = family.contrasts.iter().map(|row| {
                            let parts = row.iter().zip(&squares).map(|(c, square)| (&c.abs() * square).high);
                            parts.sum::<Dyadic>()
                        });
                        sums.max().unwrap_or_else(Dyadic::zero)
                    };
                    let largest = families.iter().map(of_family).max().unwrap_or_else(Dyadic::zero);
                    let square = &Dyadic::from(*temperature) * &(*temperature).into();
                    (factor, Interval::from(&largest * &BEND.into()).over(&square).high)
                }
            };
            sum = sum + &Dyadic::from(*factor) * &constant;
        }
        sum
    }

    fn mean_square(&self, rows: &[usize], total: &Dyadic) -> Interval {
        let mut sum = Dyadic::zero();
        for &i in rows {
            let mut square = Dyadic::zero();
            self.visit(i, |_, x| square = &square + &(&Dyadic::from(x) * &x.into()));
            sum = sum + &self.weight(i) * &square;
        }
        Interval::from(sum).over(total)
    }

    /// Compares the scales of `ridge` with the standard deviations of the columns. Returns what is wrong.
    pub fn check_scales(&self) -> Option<String> {
        let scales = self.scales.as_ref().filter(|scales| !scales.given)?;
        let rows: Vec<usize> = (scales.first..scales.end).filter(|i| self.weight_of(*i) > 0.0).collect();
        let total = self.total(&rows);
        let zeros = || vec![Dyadic::zero(); self.columns];
        let (mut sums, mut squares, mut ends) =
            (zeros(), zeros(), vec![(0_usize, f64::INFINITY, f64::NEG_INFINITY); self.columns]);
        for &i in &rows {
            for &(j, x) in &self.rows[i] {
                let weighted = &self.weight(i) * &x.into();
                squares[j] = &squares[j] + &(&weighted * &x.into());
                sums[j] = &sums[j] + &weighted;
                let (count, low, high) = ends[j];
                ends[j] = (count + 1, low.min(x), high.max(x));
            }
        }
        for (j, &scale) in scales.values.iter().enumerate() {
            let (count, mut low, mut high) = ends[j];
            if count < rows.len() {
                (low, high) = (low.min(0.0), high.max(0.0));
            }
            // variance = (total * squares - sums^2) / total^2
            let wanted = match low < high {
                true => &(&total * &squares[j]) - &(&sums[j] * &sums[j]),
                false if self.intercept => &(&total * &total) * &(&Dyadic::from(low) * &low.into()),
                false => Dyadic::zero(),
            };
            let found = &(&total * &total) * &(&Dyadic::from(scale) * &scale.into());
            if (&wanted - &found).abs() > &wanted * &SCALES.into() {
                return Some(format!(
                    "the scale {scale} of column {} is not its standard deviation, which follows from the rows",
                    j + 1
                ));
            }
        }
        None
    }
}

/// Coefficients of the groups' means in each difference; `totals` are the weights of the groups.
fn contrasts(comparison: Comparison, totals: &[Dyadic]) -> Vec<Vec<Interval>> {
    let one = |c: f64| Interval::from(c);
    let k = totals.len();
    match comparison {
        Comparison::Share | Comparison::Rest => vec![vec![one(1.0)]],
        Comparison::BetweenGroups => {
            let sign = |i: usize, j: usize, at: usize| f64::from(u8::from(at == i)) - f64::from(u8::from(at == j));
            let pairs = (0..k).flat_map(|j| (0..j).map(move |i| (i, j)));
            pairs.map(|(i, j)| (0..k).map(|at| one(sign(i, j, at))).collect()).collect()
        }
        Comparison::ToOverall => {
            let all = totals.iter().cloned().sum();
            let share = |j: usize| Interval::from(totals[j].clone()).over(&all);
            (0..k).map(|i| (0..k).map(|j| &one(f64::from(u8::from(i == j))) - &share(j)).collect()).collect()
        }
    }
}

impl Prepared<'_> {
    pub fn name(&self) -> &str {
        self.name
    }
}

impl<'a> Rowwise<'a> {
    pub fn new(model: &'a Model) -> Self {
        let rows = Rows::new(model.rows.len(), model.dim(), |row, see| model.visit(row, see));
        Rowwise { model, rows }
    }

    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// Prepares the evaluation of functions at a point.
    pub fn at(&'a self, point: &[f64], functions: &[Option<&Prepared>]) -> Evaluation<'a> {
        let parts = functions.iter().flatten().flat_map(|f| &f.parts);
        let thresholds = parts.filter_map(|part| match part {
            Part::Rates { thresholds, .. } => Some(thresholds.iter()),
            _ => None,
        });
        let largest = thresholds.flatten().fold(1.0, |most: f64, x| most.max(x.abs()));
        let scores = self.rows.scores(point, largest);
        Evaluation { rowwise: self, point: point.iter().map(|x| (*x).into()).collect(), scores }
    }
}

impl<'a> Evaluation<'a> {
    /// Evaluates a function.
    pub fn local(&'a self, function: &'a Prepared<'a>) -> Local<'a> {
        let mut smooth = Interval::from(-Dyadic::from(function.bound));
        let mut maxima = vec![];
        for part in &function.parts {
            match part {
                Part::Loss { factor, loss, scale, rows, total } => {
                    smooth = &smooth + &self.loss_value(*factor, (*loss, *scale), rows, total);
                }
                Part::Penalty { factor, penalty } => {
                    let sum: Dyadic = self.penalised().map(|(j, w)| self.penalty_of(*penalty, j, w).0).sum();
                    smooth = &smooth + &Interval::from(&sum * &(*factor).into());
                }
                Part::Rates { .. } => maxima.push((part, self.branches(part))),
            }
        }
        let largest = |branches: &Vec<Branch>| branches.iter().map(|b| b.value.clone()).reduce(Interval::max);
        let value = maxima.iter().filter_map(|(_, branches)| largest(branches)).fold(smooth.clone(), |sum, value| &sum + &value);
        Local { function, evaluation: self, smooth, maxima, value }
    }

    fn penalised(&self) -> impl Iterator<Item = (usize, &Dyadic)> {
        self.point[..self.rowwise.model.columns].iter().enumerate()
    }

    /// `log(1 + exp(-margin))` and the absolute value of its derivative.
    fn logistic(&self, row: usize) -> (Rounded, Rounded) {
        let (negative, size) = self.scores.argument(row, 0.0, 1.0);
        let [above, below] = sigmoids(size);
        if negative == (self.rowwise.model.labels[row] < 0.0) {
            (softplus_minus(size), below)
        } else {
            (self.scores.distance(row, 0.0).plus(softplus_minus(size)), above)
        }
    }

    fn loss_value(&self, factor: f64, (loss, scale): (Loss, f64), rows: &[usize], total: &Dyadic) -> Interval {
        let (mut sum, scale) = (Total::default(), Rounded::of(scale));
        for &i in rows {
            let value = match loss {
                Loss::Hinge => {
                    let (active, left) = self.scores.hinge(i, self.rowwise.model.labels[i]);
                    if active { left } else { Rounded::ZERO }
                }
                Loss::Logistic => self.logistic(i).0,
                Loss::TruncatedLogistic => scale.times(log1p(self.logistic(i).0.over(scale))),
            };
            sum.add(self.weighted(i, value));
        }
        let mean = &sum.interval(self.scores.relative(1.0)).over(total) * &factor.into();
        // A hinge loss of nearly 0 has no relative accuracy. No loss has a derivative above 1.
        let error = &self.scores.error() * &factor.into();
        Interval { low: &mean.low - &error, high: &mean.high + &error }
    }

    fn weighted(&self, row: usize, x: Rounded) -> Rounded {
        match &self.rowwise.model.weights {
            None => x,
            Some(weights) => x.times(Rounded::of(weights[row])),
        }
    }

    /// The branches of a comparison of rates, the largest first.
    fn branches(&self, part: &Part) -> Vec<Branch> {
        let Part::Rates { factor, temperature, thresholds, comparison, families } = part else { return vec![] };
        let factor = Interval::from(*factor);
        let mut all = vec![];
        for (at, family) in families.iter().enumerate() {
            for &threshold in *thresholds {
                let mean = |(rows, total): (&&[usize], &Dyadic)| {
                    let mut sum = Total::default();
                    for &i in *rows {
                        let (negative, size) = self.scores.argument(i, threshold, *temperature);
                        sum.add(self.weighted(i, sigmoids(size)[usize::from(negative)]));
                    }
                    sum.interval(self.scores.relative(*temperature)).over(total)
                };
                let means: Vec<Interval> = family.groups.iter().zip(&family.totals).map(mean).collect();
                for (contrast, row) in family.contrasts.iter().enumerate() {
                    let gap = row.iter().zip(&means).fold(Interval::from(0.0), |sum, (c, mean)| &sum + &(c * mean));
                    let (signs, rest): (&[f64], f64) = match comparison {
                        Comparison::BetweenGroups | Comparison::ToOverall => (&[1.0, -1.0], 0.0),
                        Comparison::Share => (&[1.0], 0.0),
                        Comparison::Rest => (&[-1.0], 1.0),
                    };
                    for &sign in signs {
                        let value = &(&Interval::from(rest) + &(&gap * &sign.into())) * &factor;
                        all.push(Branch { value, family: at, threshold, contrast, sign });
                    }
                }
            }
        }
        if matches!(comparison, Comparison::BetweenGroups | Comparison::ToOverall) {
            // A gap is never negative.
            all.push(Branch { value: 0.0.into(), family: 0, threshold: 0.0, contrast: 0, sign: 0.0 });
        }
        all.sort_by(|a, b| b.value.low.cmp(&a.value.low));
        all
    }

    /// Derivatives of a branch in the scores, and their relative error.
    fn slopes_of(&self, part: &Part, branch: &Branch, out: &mut Vec<Slope>) -> f64 {
        let Part::Rates { factor, temperature, families, .. } = part else { return 0.0 };
        let family = &families[branch.family];
        for ((rows, total), c) in family.groups.iter().zip(&family.totals).zip(&family.contrasts[branch.contrast]) {
            let coefficient = &c.low * &(branch.sign * factor).into();
            let share = Interval::from(coefficient).over(&(total * &(*temperature).into())).low;
            let (negative, share) = Rounded::of_dyadic(&share);
            if share.is_zero() {
                continue;
            }
            out.extend(rows.iter().map(|&row| {
                let (_, size) = self.scores.argument(row, branch.threshold, *temperature);
                let [above, below] = sigmoids(size);
                Slope { row, negative, size: self.weighted(row, above.times(below)).times(share) }
            }));
        }
        self.scores.relative(*temperature)
    }

    /// Derivatives of a loss in the scores, their relative error, and rows that may have either slope.
    fn slopes_of_loss(&self, part: &Part, out: &mut Vec<Slope>, choices: &mut Vec<Choice>) -> f64 {
        let Part::Loss { factor, loss, scale, rows, total } = part else { return 0.0 };
        let share = Interval::from(*factor).over(total);
        let (_, exact) = Rounded::of_dyadic(&share.low);
        let scale = Rounded::of(*scale);
        for &row in rows {
            let negative = self.rowwise.model.labels[row] > 0.0;
            let size = match loss {
                Loss::Hinge => {
                    let (active, left) = self.scores.hinge(row, self.rowwise.model.labels[row]);
                    let size = self.weighted(row, exact);
                    let distance = &left.dyadic() + &self.scores.error();
                    if distance < KINK.into() {
                        let lowers = &(&distance * &size.dyadic()) * &(1.0 + KINK).into();
                        let towards = if negative == active { size.dyadic() } else { -size.dyadic() };
                        let mut change = vec![];
                        self.rowwise.model.visit(row, |j, x| change.push((j, &towards * &x.into())));
                        choices.push(Choice { lowers, change });
                    }
                    if active { size } else { continue }
                }
                Loss::Logistic => self.weighted(row, self.logistic(row).1).times(exact),
                Loss::TruncatedLogistic => {
                    let (value, slope) = self.logistic(row);
                    self.weighted(row, slope.over(Rounded::ONE.plus(value.over(scale)))).times(exact)
                }
            };
            out.push(Slope { row, negative, size });
        }
        self.scores.relative(1.0)
    }

    fn pull(&self, slopes: &[Slope], relative: f64) -> Sum {
        let (slope, slack) = self.rowwise.rows.pull(slopes, relative);
        Sum { slope, slack }
    }

    /// Value and a subgradient of a penalty of one weight.
    fn penalty_of(&self, penalty: Penalty, column: usize, w: &Dyadic) -> (Dyadic, Dyadic) {
        let (a, number) = (w.abs(), |x: f64| Dyadic::from(x));
        let sign = number(match w.sign() {
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => 1.0,
        });
        match penalty {
            Penalty::L2 => ((w * w).half(), w.clone()),
            Penalty::Ridge => {
                let scale = number(self.rowwise.model.scales.as_ref().map_or(0.0, |scales| scales.values[column]));
                let slope = &(&scale * &scale) * w;
                ((&slope * w).half(), slope)
            }
            Penalty::L1 => (a, sign),
            Penalty::Scad if a <= number(1.0) => (&a * &number(2.0), &sign * &number(2.0)),
            Penalty::Scad if a <= number(2.0) => {
                (&(&(&a * &number(4.0)) - &(&a * &a)) - &number(1.0), &sign * &(&number(4.0) - &(&a * &number(2.0))))
            }
            Penalty::Scad => (number(3.0), number(0.0)),
        }
    }
}

impl Local<'_> {
    /// Checks that a recorded linearisation, lowered by its errors, bounds the function with its convexification from below. Returns why
    /// not.
    pub fn check_cut(&self, (value, value_error): (f64, f64), (slope, slope_error): (&[f64], f64)) -> Result<(), String> {
        let mut combinations = vec![(self.smooth.low.clone(), vec![])];
        for (part, branches) in &self.maxima {
            let longer = combinations.iter().flat_map(|(low, chosen)| {
                branches.iter().map(move |b| {
                    let chosen: Vec<(&Part, &Branch)> = chosen.iter().copied().chain([(*part, b)]).collect();
                    (low + &b.value.low, chosen)
                })
            });
            combinations = longer.take(BRANCHES).collect();
        }
        let least = &Dyadic::from(value) - &value_error.into();
        combinations.retain(|(low, _)| *low >= least);
        if combinations.is_empty() {
            return Err(format!(
                "the recorded value {value} of '{}' is above {}, which follows from the rows, by more than its error {value_error:.1e}",
                self.function.name,
                self.value.low.approximate()
            ));
        }
        let slope: Vec<Dyadic> = slope.iter().map(|s| (*s).into()).collect();
        let (smooth, choices) = self.smooth_slope();
        let mut off = f64::INFINITY;
        for (low, chosen) in combinations {
            let mut sum = Sum { slope: smooth.slope.clone(), slack: smooth.slack.clone() };
            for (part, branch) in chosen {
                let mut slopes = vec![];
                let relative = self.evaluation.slopes_of(part, branch, &mut slopes);
                sum.add(&self.evaluation.pull(&slopes, relative));
            }
            let distance = sum.distance_below(&slope, &choices, &(&low - &least)).root();
            if distance <= slope_error.into() {
                return Ok(());
            }
            off = off.min(distance.approximate());
        }
        Err(format!(
            "the recorded subgradient of '{}' is {off:.2e} off, more than its error {slope_error:.2e}",
            self.function.name
        ))
    }

    fn smooth_slope(&self) -> (Sum, Vec<Choice>) {
        let evaluation = self.evaluation;
        let dim = evaluation.point.len();
        let mut sum = Sum { slope: vec![Dyadic::zero(); dim], slack: vec![Dyadic::zero(); dim] };
        let (mut slopes, mut choices, mut relative) = (vec![], vec![], ERROR);
        for part in &self.function.parts {
            match part {
                Part::Loss { .. } => relative = f64::max(relative, evaluation.slopes_of_loss(part, &mut slopes, &mut choices)),
                Part::Penalty { factor, penalty } => {
                    for (j, w) in evaluation.penalised() {
                        let slope = &evaluation.penalty_of(*penalty, j, w).1 * &(*factor).into();
                        sum.slope[j] = &sum.slope[j] + &slope;
                    }
                }
                Part::Rates { .. } => {}
            }
        }
        sum.add(&evaluation.pull(&slopes, relative));
        (sum, choices)
    }
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.slope.iter_mut().zip(&other.slope).for_each(|(a, b)| *a = &*a + b);
        self.slack.iter_mut().zip(&other.slack).for_each(|(a, b)| *a = &*a + b);
    }

    /// Makes the choices that bring the slope closer to `wanted`, as long as they lower the value by at most `room` in all. Returns an
    /// upper bound on the squared distance that is left.
    fn distance_below(mut self, wanted: &[Dyadic], choices: &[Choice], room: &Dyadic) -> Dyadic {
        let mut room = room.clone();
        for choice in choices {
            // ||off - change||^2 < ||off||^2 with off = wanted - slope.
            let gain = choice.change.iter().map(|(j, c)| c * &(&(&wanted[*j] - &self.slope[*j]) - &c.half())).sum::<Dyadic>();
            if gain > Dyadic::zero() && choice.lowers <= room {
                room = &room - &choice.lowers;
                for (j, c) in &choice.change {
                    self.slope[*j] = &self.slope[*j] + c;
                    self.slack[*j] = &self.slack[*j] + &(&c.abs() * &ERROR.into());
                }
            }
        }
        let one = |((w, s), slack): ((&Dyadic, &Dyadic), &Dyadic)| {
            let off = &(w - s).abs() + slack;
            &off * &off
        };
        wanted.iter().zip(&self.slope).zip(&self.slack).map(one).sum()
    }
}
