//! Descent on 0/1 rates along lines: the loss is modelled by its second-order expansion, and rates are counted exactly. Rounds of training
//! with surrogates are in `rounds.rs`.

use super::intercept::{Entries, Swept, swept};
use crate::Result;
use crate::eval::Passes;
use crate::learn::function::Piece;
use crate::learn::gap::{Contrast, GroupComparison};
use crate::learn::problem::Learning;
use crate::learn::term::Comparison;
use crate::math::cholesky::Cholesky;
use crate::math::rng::Purpose;
use crate::math::{Rng, vec};
use crate::oracle::{At, Description, Draw, SmoothForm, Values, Warm};

/// Largest number of cycles over all lines, of rates, and of variables.
const CYCLES: usize = 60;
const MOST_RATES: usize = 64;
const MOST_VARIABLES: usize = 1024;
/// First price of the violations, the factor by which it is raised, and its largest value. At a high first price, a start that is far from
/// the bounds would be led to them the shortest way, which ends at models that predict the same of nearly everyone.
const PRICE: f64 = 1.0 / 32.0;
const RAISE: f64 = 2.0;
const DEAREST: f64 = 4.0;
/// Factor by which the price falls where it cannot be raised or needs not, and how often it does if a point satisfies the bounds.
const FALL: f64 = 1.0 / 16.0;
const FALLS: usize = 3;
/// Length of the random move from a point that violates the bounds at the largest price, relative to the spread of the scores.
const MOVE: f64 = 0.1;
/// Decrease of the merit in a cycle, relative to the objective, below which the price changes.
const SMALL: f64 = 5e-4;
/// Part of the Hessian's diagonal, and of that of the products of rate gradients, that is added before these are factored.
const SOLID: f64 = 1e-8;
const SOFT: f64 = 1e-2;
const PIVOT: f64 = 1e-14;
/// Distance between neighbouring breakpoints, relative to the length of the line, below which no point is tried between them.
const RESOLUTION: f64 = 1e-9;

/// End of a descent.
pub(super) struct Descent {
    pub(super) x: Vec<f64>,
    pub(super) passes: Passes,
}

/// Counts of a model, and the lines along which they are searched.
struct Counts<'a> {
    problem: &'a Learning,
    swept: Vec<Swept<'a>>,
    entries: Entries,
    /// Scores of all rows, part by part.
    scores: Vec<f64>,
    /// Weighted number of positive predictions in each population.
    counts: Vec<f64>,
    /// Weighted number of errors on the rows of losses, that of a model without positive predictions, and the total weight.
    errors: f64,
    positives: f64,
    total: f64,
    /// Weight of the error rate in the merit.
    error_weight: f64,
}

/// Quadratic model of the objective along a line: slope and curvature.
#[derive(Clone, Copy)]
struct Quadratic {
    slope: f64,
    curvature: f64,
}

impl Quadratic {
    fn value(self, t: f64) -> f64 {
        t * (self.slope + 0.5 * t * self.curvature)
    }
}

/// Reduces the objective plus a price times the violations of `limits` by 0/1 rates, from `x`, until `ends` returns true of the passes.
///
/// A step goes along a line to the best of all points between neighbouring breakpoints, at which a prediction changes. With the rate
/// gradients a_k and the Hessian H of the objective, the lines are `H^-1 a_k`, which change a rate most for the least increase of the
/// objective; their combinations that change one rate and leave the others as they are, that bring all rates to their bounds, and random
/// ones; Newton's direction, as it is and without its effect on the rates; and the intercept. They do not depend on the units of the
/// columns. The merit contains the error rate too if all rows count in the objective.
///
/// The price starts low and rises, so that the descent stays near models with a small merit. Where no line leads on, it falls and rises
/// again with other random lines. The best point at the start of a cycle is returned: satisfying the bounds comes first, then the merit.
///
/// Returns `None` if a constraint has other terms than rates over the threshold 0, or if there are too many rates or variables.
pub(super) fn descend(problem: &Learning, x: &[f64], limits: &[f64], ends: impl Fn(Passes) -> bool) -> Result<Option<Descent>> {
    let d = x.len();
    if problem.num_parts() > MOST_RATES || d > MOST_VARIABLES {
        return Ok(None);
    }
    let Some(mut counts) = Counts::new(problem, x, limits)? else { return Ok(None) };
    let mut x = x.to_vec();
    let (mut price, mut falls) = (PRICE, 0);
    let mut passes = Passes::default();
    let mut rng = Rng::new(0, Purpose::Directions);
    let mut best: Option<Visited> = None;
    for _ in 0..CYCLES {
        let mut expansion = Expansion::at(problem, &x)?;
        // The gradient and the Hessian, and the gradients of rates.
        passes.objective += 2.0;
        passes.constraints += 1.0;
        let visited = Visited { excess: counts.excess(), merit: expansion.value + counts.error_rate(), x: x.clone() };
        if best.as_ref().is_none_or(|best| visited.is_better_than(best)) {
            best = Some(visited);
        }
        if ends(passes) || (falls >= FALLS && best.as_ref().is_some_and(|best| best.excess <= 0.0)) {
            break;
        }
        let lines = expansion.lines(problem.intercept, &counts.ways(), &mut rng);
        // The scores along every line.
        passes.constraints += lines.len() as f64;
        let mut gained = 0.0;
        for line in &lines {
            let bent = expansion.bend(line);
            let model = Quadratic { slope: vec::dot(&expansion.gradient, line), curvature: vec::dot(line, &bent) };
            let Some((t, decrease)) = counts.search(line, model, price) else { continue };
            gained += decrease;
            vec::add_scaled(&mut x, t, line);
            vec::add_scaled(&mut expansion.gradient, t, &bent);
        }
        if gained > SMALL * expansion.value.abs() {
            continue;
        }
        let violated = counts.excess() > 0.0;
        if violated && price < DEAREST {
            price *= RAISE;
            continue;
        }
        // No line leads on. The next ones are others, and at a lower price the descent leaves the point.
        price *= FALL;
        falls += 1;
        if let Some(line) = lines.last().filter(|_| violated) {
            let t = counts.step(line, MOVE);
            vec::add_scaled(&mut x, t, line);
        }
    }
    let best = best.filter(|best| best.merit.is_finite());
    let inside =
        best.map(|best| Ok::<_, crate::Error>((problem.domain().distance(&best.x)? == 0.0).then_some(best.x))).transpose()?;
    Ok(inside.flatten().map(|x| Descent { x, passes }))
}

/// Point at the start of a cycle.
struct Visited {
    excess: f64,
    merit: f64,
    x: Vec<f64>,
}

impl Visited {
    /// Satisfying the bounds comes first, then the merit.
    fn is_better_than(&self, other: &Self) -> bool {
        (self.excess.max(0.0), self.merit) < (other.excess.max(0.0), other.merit)
    }
}

/// Value, gradient and Hessian of the objective, and the gradients of the rates.
struct Expansion {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<f64>,
    jacobian: Vec<f64>,
}

impl Expansion {
    fn at(problem: &Learning, x: &[f64]) -> Result<Self> {
        let (d, parts) = (x.len(), problem.num_parts());
        let mut scratch = problem.scratch();
        let (draw, warm) = (Draw::full(), Warm::default());
        let at = At { x, draw: &draw, warm: &warm };
        let (mut values, mut gradient, mut jacobian) = (vec![0.0; parts], vec![0.0; d], vec![0.0; parts * d]);
        let value = problem.gradients(at, &mut values, &mut gradient, &mut jacobian, &mut scratch)?;
        let mut hessian = vec![0.0; d * d];
        problem.hessian(at, &vec![0.0; parts], 0.0, &mut hessian, &mut scratch)?;
        // Of the Hessian only the lower triangle is written.
        for i in 0..d {
            hessian[i * d + i] *= 1.0 + SOLID;
            for j in 0..i {
                hessian[j * d + i] = hessian[i * d + j];
            }
        }
        Ok(Expansion { value, gradient, hessian, jacobian })
    }

    fn bend(&self, line: &[f64]) -> Vec<f64> {
        self.hessian.chunks(line.len().max(1)).map(|row| vec::dot(row, line)).collect()
    }

    /// Returns the lines to search, for the ways that rates have to go.
    fn lines(&self, intercept: bool, ways: &[f64], rng: &mut Rng) -> Vec<Vec<f64>> {
        let d = self.gradient.len();
        let factor = Cholesky::semidefinite(&self.hessian, &vec![0.0; d], PIVOT);
        let solved = |v: &[f64]| {
            let mut v = v.to_vec();
            factor.solve(&mut v);
            v
        };
        let rates: Vec<Vec<f64>> = self.jacobian.chunks(d.max(1)).map(solved).collect();
        let m = rates.len();
        let mut products = vec![0.0; m * m];
        for (i, row) in self.jacobian.chunks(d.max(1)).enumerate() {
            (0..=i).for_each(|j| products[i * m + j] = vec::dot(row, &rates[j]));
        }
        let sizes: Vec<f64> = (0..m).map(|i| products[i * m + i]).collect();
        let soft: Vec<f64> = sizes.iter().map(|v| SOFT * v).collect();
        let factor = Cholesky::semidefinite(&products, &soft, PIVOT);
        let mixed = |shares: &[f64]| {
            let mut line = vec![0.0; d];
            shares.iter().zip(&rates).for_each(|(share, rate)| vec::add_scaled(&mut line, *share, rate));
            line
        };
        // The line of least curvature along which rates change so.
        let changing = |changes: &[f64]| {
            let mut shares = changes.to_vec();
            factor.solve(&mut shares);
            mixed(&shares)
        };
        let newton = solved(&self.gradient);
        let effects: Vec<f64> = self.jacobian.chunks(d.max(1)).map(|row| vec::dot(row, &newton)).collect();
        let mut level = newton.clone();
        vec::add_scaled(&mut level, -1.0, &changing(&effects));
        let mut shift = vec![0.0; d];
        shift.iter_mut().next_back().into_iter().for_each(|last| *last = f64::from(u8::from(intercept)));
        let mut lines = vec![changing(ways), newton, level, shift];
        lines.extend(rates.iter().cloned());
        lines.extend((0..m).map(|k| changing(&(0..m).map(|i| f64::from(u8::from(i == k))).collect::<Vec<_>>())));
        let mut shares = vec![0.0; m];
        for _ in 0..m {
            rng.normals(&mut shares);
            shares.iter_mut().zip(&sizes).filter(|(_, size)| **size > 0.0).for_each(|(share, size)| *share /= size.sqrt());
            lines.push(mixed(&shares));
        }
        lines.retain(|line| vec::norm(line) > 0.0);
        lines
    }
}

impl<'a> Counts<'a> {
    fn new(problem: &'a Learning, x: &[f64], limits: &[f64]) -> Result<Option<Self>> {
        let (swept, thresholds) = swept(problem, x, limits);
        if swept.len() < problem.num_constraints() || thresholds != [0.0] {
            return Ok(None);
        }
        let entries = Entries::new(problem, &swept);
        let range = problem.parts[0].clone();
        let weight = |i: usize| problem.data.weights.as_ref().map_or(1.0, |w| w[i]);
        let total: f64 = range.clone().map(weight).sum();
        let positives: f64 = range.filter(|&i| problem.data.labels[i] > 0.0).map(weight).sum();
        let error_weight = f64::from(u8::from(problem.objective_is_over_all_rows()));
        let counts = vec![0.0; problem.populations.len()];
        let mut counts = Counts { problem, swept, entries, scores: vec![], counts, errors: 0.0, positives, total, error_weight };
        counts.scores = counts.along(x);
        if !counts.scores.iter().all(|s| s.is_finite()) {
            return Ok(None);
        }
        counts.count(0.0, &[]);
        Ok(Some(counts))
    }

    /// Computes the scores of all rows, part by part.
    fn along(&self, x: &[f64]) -> Vec<f64> {
        let mut all = vec![];
        let offset = self.problem.offset(x);
        for range in &self.problem.parts {
            let mut scores = vec![0.0; range.len()];
            self.problem.data.features.scores(range.clone(), self.problem.weights(x), &mut scores);
            all.extend(scores.iter().map(|s| s + offset));
        }
        all
    }

    /// Counts the positive predictions at `t` along the line with these changes of the scores.
    fn count(&mut self, t: f64, changes: &[f64]) {
        self.counts.fill(0.0);
        self.errors = self.positives;
        for row in 0..self.scores.len() {
            let score = self.scores[row] + changes.get(row).map_or(0.0, |v| t * v);
            if score > 0.0 {
                self.add(row, 1.0);
            }
        }
    }

    fn add(&mut self, row: usize, sign: f64) {
        let own = self.entries.starts[row] as usize..self.entries.starts[row + 1] as usize;
        for &(p, weight) in &self.entries.entries[own] {
            self.counts[p as usize] += sign * weight;
        }
        self.errors += sign * self.entries.errors[row];
    }

    fn error_rate(&self) -> f64 {
        self.error_weight * self.errors / self.total
    }

    /// Returns by how much bounds are violated together.
    fn excess(&mut self) -> f64 {
        let mut sum = 0.0;
        for one in &mut self.swept {
            for &(at, _, p, size) in &one.sources {
                one.statistics[at] = self.counts[p] / size;
            }
            sum += excess(one);
        }
        sum
    }

    /// Returns by how much every rate must change to come into the interval of [`outside`].
    fn ways(&mut self) -> Vec<f64> {
        self.excess();
        self.swept.iter().flat_map(ways).collect()
    }

    /// Moves along a line by a length relative to the spread of the scores. Returns the position.
    fn step(&mut self, line: &[f64], length: f64) -> f64 {
        let changes = self.along(line);
        let t = length * vec::norm(&self.scores) / vec::norm(&changes);
        if !t.is_finite() {
            return 0.0;
        }
        vec::add_scaled(&mut self.scores, t, &changes);
        self.count(0.0, &[]);
        t
    }

    /// Moves to the best point of a line. Returns its position and the decrease of the merit; `None` if no point is better.
    fn search(&mut self, line: &[f64], model: Quadratic, price: f64) -> Option<(f64, f64)> {
        let changes = self.along(line);
        let size = |v: &[f64]| (vec::dot(v, v) / v.len() as f64).sqrt();
        let length = size(&self.scores) / size(&changes);
        if !(length.is_finite() && length > 0.0) {
            return None;
        }
        let before = price * self.excess() + self.error_rate();
        let mut events: Vec<(f64, u32)> = vec![];
        for (row, (s, v)) in self.scores.iter().zip(&changes).enumerate() {
            let t = -s / v;
            if t.abs() < length {
                events.push((t, row as u32));
            }
        }
        events.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let at_start = (self.counts.clone(), self.errors);
        self.count(-length, &changes);
        let mut best: Option<(f64, f64)> = None;
        let lowest = if model.curvature > 0.0 { -model.slope / model.curvature } else { 0.0 };
        let mut low = -length;
        for i in 0..=events.len() {
            let high = events.get(i).map_or(length, |(t, _)| *t);
            if high - low > RESOLUTION * length {
                let t = if lowest > low && lowest < high { lowest } else { 0.5 * (low + high) };
                let value = model.value(t) + self.error_rate();
                let least = best.map_or(before, |(_, least)| least);
                if value < least {
                    let merit = value + price * self.excess();
                    if merit < least {
                        best = Some((t, merit));
                    }
                }
                low = high;
            }
            if let Some(&(_, row)) = events.get(i) {
                self.add(row as usize, changes[row as usize].signum());
            }
        }
        match best {
            Some((t, merit)) => {
                self.scores.iter_mut().zip(&changes).for_each(|(s, v)| *s += t * v);
                self.count(0.0, &[]);
                Some((t, before - merit))
            }
            None => {
                (self.counts, self.errors) = at_start;
                None
            }
        }
    }
}

/// Returns how many halves the rates of a constraint have, each with an interval of its own, and the length of these intervals. `None` if
/// the constraint is no largest difference between groups.
fn intervals(one: &Swept) -> Option<(usize, f64)> {
    let [summand] = &one.function.pieces[..] else { return None };
    let comparison = match &summand.piece {
        Piece::Term(term) => term.rates().map(|rates| rates.comparison),
        Piece::Penalty(_) => None,
    };
    let between = |contrast: &Contrast| contrast.comparison() == GroupComparison::BetweenGroups;
    let halves = match comparison? {
        Comparison::Gap(contrast) if between(contrast) => 1,
        Comparison::Larger([contrast, _]) if between(contrast) => 2,
        _ => return None,
    };
    Some((halves, one.limit / summand.factor))
}

/// Returns by how much rates violate the bound of a constraint. For a largest difference between groups, it is the sum of the distances of
/// all rates from an interval of that length: unlike the largest difference, it falls when any rate outside comes closer.
fn excess(one: &Swept) -> f64 {
    let Some((halves, width)) = intervals(one) else { return (one.function.left(&one.statistics) - one.limit).max(0.0) };
    let groups = (one.statistics.len() / halves).max(1);
    let factor = one.function.pieces[0].factor;
    factor * one.statistics.chunks(groups).map(|rates| outside(rates, width)).sum::<f64>()
}

/// Returns by how much every rate of a constraint must change to come into the middle one of the best intervals; 0 for other constraints.
fn ways(one: &Swept) -> Vec<f64> {
    let Some((halves, width)) = intervals(one) else { return vec![0.0; one.statistics.len()] };
    let groups = (one.statistics.len() / halves).max(1);
    let way = |rates: &[f64]| {
        let mut sorted = rates.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let wide = sorted.iter().zip(sorted.iter().rev()).take(n / 2).take_while(|(low, high)| *high - *low > width).count();
        let inner = (sorted.get(wide).copied().unwrap_or(0.0), sorted.get((n - 1).saturating_sub(wide)).copied().unwrap_or(0.0));
        let low = 0.5 * (inner.0 + inner.1 - width);
        rates.iter().map(|rate| rate.clamp(low, low + width) - rate).collect::<Vec<f64>>()
    };
    one.statistics.chunks(groups).flat_map(way).collect()
}

/// Returns the smallest sum of the distances of all rates from an interval of length `width`: with the rates in order, it takes pairs from
/// the outside inwards.
fn outside(rates: &[f64], width: f64) -> f64 {
    let mut few = [0.0; 64];
    let mut many = vec![];
    let sorted = match few.get_mut(..rates.len()) {
        Some(few) => few,
        None => {
            many.resize(rates.len(), 0.0);
            &mut many[..]
        }
    };
    sorted.copy_from_slice(rates);
    sorted.sort_unstable_by(f64::total_cmp);
    let pairs = sorted.iter().zip(sorted.iter().rev()).take(rates.len() / 2);
    pairs.map(|(low, high)| high - low - width).take_while(|v| *v > 0.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Data, Groups};
    use crate::math::Matrix;

    #[test]
    fn distances_from_the_best_interval_equal_a_search() {
        let mut rng = Rng::new(5, Purpose::Data);
        for case in 0..200 {
            let rates: Vec<f64> = (0..1 + case % 9).map(|_| rng.uniform()).collect();
            let width = 0.5 * rng.uniform();
            let distance = |low: f64| rates.iter().map(|r| (low - r).max(r - low - width).max(0.0)).sum::<f64>();
            // The sum is piecewise linear in the position, with kinks where an end is at a rate.
            let searched = rates.iter().flat_map(|r| [*r, r - width]).map(distance).fold(f64::INFINITY, f64::min);
            assert!((outside(&rates, width) - searched).abs() < 1e-12, "{rates:?} {width}");
        }
    }

    fn problem(rng: &mut Rng) -> Learning {
        let rows = 300;
        let (mut values, mut labels, mut of_row) = (vec![], vec![], vec![]);
        for i in 0..rows {
            let group = (i % 5) as u32;
            let (a, b) = (rng.uniform() - 0.5, rng.uniform() - 0.5 + 0.2 * f64::from(group));
            labels.push(if a + b + rng.uniform() > 0.8 { 1.0 } else { -1.0 });
            values.extend([a, b]);
            of_row.push(group);
        }
        let groups = Groups { names: (0..5).map(|k| format!("group {k}")).collect(), of_row };
        let features = Matrix::dense(rows, 2, values).unwrap();
        let weights = Some((0..rows).map(|_| 0.5 + rng.uniform()).collect());
        let data = Data { features, labels, groups: Some(groups), weights };
        let builder = Learning::on(data).intercept(true).minimize("logistic + 0.01 * ridge".parse().unwrap());
        builder.subject_to("demographic_parity <= 0.05".parse().unwrap()).build().unwrap()
    }

    #[test]
    fn counts_along_a_line_are_those_of_the_model_there() {
        let mut rng = Rng::new(6, Purpose::Data);
        for _ in 0..20 {
            let problem = problem(&mut rng);
            let mut x = vec![1.1, 2.1, -0.4];
            let mut counts = Counts::new(&problem, &x, &[0.05]).unwrap().unwrap();
            let line: Vec<f64> = (0..3).map(|_| rng.uniform() - 0.5).collect();
            let before = 2.0 * counts.excess() + counts.error_rate();
            let model = Quadratic { slope: 0.01, curvature: 0.5 };
            let Some((t, decrease)) = counts.search(&line, model, 2.0) else { continue };
            vec::add_scaled(&mut x, t, &line);
            // The same counts from scratch, and the decrease that was claimed.
            let mut fresh = Counts::new(&problem, &x, &[0.05]).unwrap().unwrap();
            assert_eq!(counts.counts, fresh.counts);
            let after = model.value(t) + 2.0 * fresh.excess() + fresh.error_rate();
            assert!((before - after - decrease).abs() < 1e-9 && decrease > 0.0);
            let measured = problem.measured(&x).unwrap()[0].unwrap();
            let rates = &fresh.swept[0].statistics;
            let span = rates.iter().copied().fold(f64::MIN, f64::max) - rates.iter().copied().fold(f64::MAX, f64::min);
            assert!((measured - span).abs() < 1e-12, "{measured} {span}");
        }
    }
}
