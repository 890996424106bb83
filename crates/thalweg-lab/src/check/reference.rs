//! Does the lower bound of a reference value follow from its multipliers?
//!
//! A multiplier p with 0 <= p <= q for every loss, q its share of the sum, gives `q hinge(m) >= p (1 - m)` and `q logistic(m) >= q
//! H(p/q) - p m`, so that the sum is at least `V - <r, w> + sum_j q_j/2 w_j^2 + l1 ||w||_1` with r the sum of p times label times row. A
//! bound for all weights needs r = 0 in the columns that no regulariser bounds.

use super::format::{Loss, Model, Penalty, Piece, Reference};
use super::model::Rowwise;
use super::number::{Dyadic, Interval, entropy};

/// Accuracy of the value, which is a sum over the rows in floating point, relative to the value or 1e-3.
const VALUE: f64 = 1e-12;

/// Multiplier of one row in one loss.
struct Multiplier {
    row: usize,
    loss: Loss,
    /// Lower bound on the share of the loss.
    share: Interval,
    p: Dyadic,
    /// Bound on the change that makes the residual 0.
    change: Dyadic,
}

/// What follows from a record.
pub struct Derived {
    /// Lower bound, rounded.
    pub lower: f64,
    /// Upper bound on the value at the recorded point, rounded.
    pub value: f64,
    /// What contradicts the claim.
    pub refusals: Vec<String>,
}

/// Coefficient of `w_j^2 / 2` for every weight, and of the sum of absolute values. Weights with neither are not bounded.
struct Penalties {
    squares: Vec<Dyadic>,
    l1: Dyadic,
}

impl Penalties {
    fn new(model: &Model, pieces: &[Piece]) -> Self {
        let mut all = Penalties { squares: vec![Dyadic::zero(); model.dim()], l1: Dyadic::zero() };
        for piece in pieces {
            let Piece::Penalty { factor, penalty } = piece else { continue };
            let factor = Dyadic::from(*factor);
            match (penalty, &model.scales) {
                (Penalty::L1, _) => all.l1 = &all.l1 + &factor,
                (Penalty::L2, _) => all.squares[..model.columns].iter_mut().for_each(|q| *q = &*q + &factor),
                (Penalty::Ridge, Some(scales)) => {
                    for (q, scale) in all.squares.iter_mut().zip(&scales.values) {
                        *q = &*q + &(&factor * &(&Dyadic::from(*scale) * &(*scale).into()));
                    }
                }
                _ => {}
            }
        }
        all
    }

    fn bounds(&self, model: &Model, j: usize) -> bool {
        j < model.columns && (self.l1 > Dyadic::zero() || self.squares[j] > Dyadic::zero())
    }

    /// The smallest value of `value - <r, w>` plus the penalties, for residuals of at most `sizes`, after all multipliers are divided
    /// by a number that brings residuals without a square to at most `l1`.
    fn lowest(&self, model: &Model, value: &Dyadic, sizes: &[Dyadic]) -> Dyadic {
        let bounded = || (0..model.columns).filter(|j| self.bounds(model, *j));
        let linear = bounded().filter(|j| self.squares[*j] == Dyadic::zero());
        let over = linear.map(|j| sizes[j].clone()).fold(self.l1.clone(), Dyadic::max);
        let share = if self.l1 > Dyadic::zero() { Interval::from(self.l1.clone()).over(&over) } else { 1.0.into() };
        let share = if over == self.l1 { Dyadic::from(1.0) } else { share.low };
        let mut bound = value * &share;
        for j in bounded().filter(|j| self.squares[*j] > Dyadic::zero()) {
            let excess = (&(&sizes[j] * &share) - &self.l1).max(Dyadic::zero());
            bound = &bound - &Interval::from((&excess * &excess).half()).over(&self.squares[j]).high;
        }
        bound
    }
}

/// Derives the bounds and lists what contradicts the claim. An error means that the file is damaged.
pub fn check(rowwise: &Rowwise, reference: &Reference) -> Result<Derived, String> {
    let (model, name) = (rowwise.model(), &reference.function.expression);
    model.validate_function(&reference.function)?;
    let prepared = model.prepare(&reference.function);
    let (Some(pieces), Some(prepared), true) = (&reference.function.pieces, &prepared, reference.point.len() == model.dim())
    else {
        return Err(format!("best({name}) has an unknown form, or a point of the wrong length"));
    };
    let mut refusals = vec![];
    let (mut all, mut lists) = (vec![], reference.multipliers.iter());
    for piece in pieces {
        match piece {
            Piece::Penalty { penalty: Penalty::L1 | Penalty::L2 | Penalty::Ridge, .. } => {}
            Piece::Loss { factor, loss: loss @ (Loss::Hinge | Loss::Logistic), rows, .. } => {
                let (rows, total) = model.population(rows.as_ref());
                let Some(list) = lists.next().filter(|list| list.len() == rows.len()) else {
                    return Err(format!("best({name}) does not have a multiplier for every row"));
                };
                for (row, (high, low)) in rows.into_iter().zip(list) {
                    let share = &Interval::from(model.weight(row)).over(&total) * &(*factor).into();
                    let p = &Dyadic::from(*high) + &(*low).into();
                    if p != Dyadic::zero() {
                        all.push(Multiplier { row, loss: *loss, share, p, change: Dyadic::zero() });
                    }
                }
            }
            _ => return Err(format!("best({name}) is not a sum of hinge, logistic, l2, ridge and l1")),
        }
    }
    let found = rowwise.at(&reference.point, &[Some(prepared)]).local(prepared).value.high;
    if found > (reference.value + VALUE * reference.value.abs().max(1e-3)).into() {
        let truth = found.approximate();
        refusals
            .push(format!("the recorded value {} of '{name}' is below {truth}, which follows from the rows", reference.value));
    }
    let penalties = Penalties::new(model, pieces);
    let residual = residual(model, &all);
    let free: Vec<usize> = (0..model.dim()).filter(|j| !penalties.bounds(model, *j)).collect();
    let square: Dyadic = free.iter().map(|j| &residual[*j] * &residual[*j]).sum();
    let mut tilt = Dyadic::zero();
    if square > Dyadic::zero() {
        match reference.radius {
            Some(radius) => tilt = &square.root() * &radius.into(),
            None => {
                let found = [true, false].into_iter().find_map(|cautious| {
                    let changes = changes(model, &all, &residual, &free, &reference.combinations, cautious)?;
                    let fits = all.iter().zip(&changes).all(|(m, c)| *c <= m.p && &m.p + c <= m.share.low);
                    fits.then_some(changes)
                });
                match found {
                    Some(changes) => all.iter_mut().zip(changes).for_each(|(m, change)| m.change = change),
                    // No loss and no regulariser is negative.
                    None if reference.lower <= 0.0 => {}
                    None => refusals.push(format!("the multipliers of best({name}) do not give a bound for all weights")),
                }
            }
        }
    }
    if all.iter().any(|m| m.p < Dyadic::zero() || m.p > m.share.low) {
        refusals.push(format!("a multiplier of best({name}) is negative or above its share"));
    }
    // V, and the residual of the columns with a regulariser.
    let (mut value, mut sizes): (Dyadic, Vec<Dyadic>) = (Dyadic::zero(), residual.iter().map(Dyadic::abs).collect());
    for m in &all {
        let ends = Interval { low: (&m.p - &m.change).max(Dyadic::zero()), high: &m.p + &m.change };
        let own = match m.loss {
            Loss::Logistic => &entropy(&ends.divided(&m.share)) * &m.share.low,
            _ => ends.low,
        };
        value = &value + &own;
        if m.change > Dyadic::zero() {
            model.visit(m.row, |j, x| sizes[j] = &sizes[j] + &(&m.change * &Dyadic::from(x).abs()));
        }
    }
    // No loss and no regulariser is negative.
    let bound = (&penalties.lowest(model, &value, &sizes) - &tilt).max(Dyadic::zero());
    if Dyadic::from(reference.lower) > bound {
        let (claimed, found) = (reference.lower, bound.approximate());
        refusals
            .push(format!("the lower bound {claimed} of best({name}) is above {found}, the largest that its multipliers give"));
    }
    Ok(Derived { lower: bound.approximate(), value: found.approximate(), refusals })
}

/// The sum of multiplier times label times row.
fn residual(model: &Model, all: &[Multiplier]) -> Vec<Dyadic> {
    let mut residual = vec![Dyadic::zero(); model.dim()];
    for m in all {
        let signed = &m.p * &model.labels[m.row].into();
        model.visit(m.row, |j, x| residual[j] = &residual[j] + &(&signed * &x.into()));
    }
    residual
}

/// Bounds changes of the multipliers that make the residual of the free columns exactly 0. In proportion to rates, they are those of
/// the solution v of `M v = r`, M the second moments with the rates as weights. An approximate inverse R of M with `||I - R M|| < 1`
/// proves that v exists and bounds it. Columns that are combinations of others follow.
fn changes(
    model: &Model,
    all: &[Multiplier],
    residual: &[Dyadic],
    free: &[usize],
    combinations: &[(usize, Vec<(usize, f64)>)],
    cautious: bool,
) -> Option<Vec<Dyadic>> {
    let rate = |m: &Multiplier| {
        let (p, q) = (m.p.approximate(), m.share.low.approximate());
        if cautious { (p * (1.0 - p / q)).max(0.0) } else { q }
    };
    let rates: Vec<f64> = all.iter().map(rate).collect();
    for (column, others) in combinations {
        for m in all {
            let mut entries = std::collections::HashMap::new();
            model.visit(m.row, |j, x| drop(entries.insert(j, Dyadic::from(x))));
            let entry = |j: &usize| entries.get(j).cloned().unwrap_or_else(Dyadic::zero);
            if others.iter().map(|(j, c)| &Dyadic::from(*c) * &entry(j)).sum::<Dyadic>() != entry(column) {
                return None;
            }
        }
    }
    let combined: Vec<usize> = combinations.iter().map(|(column, _)| *column).collect();
    // A combination may use only columns that are made 0 themselves.
    if combinations.iter().any(|(_, others)| others.iter().any(|(j, _)| combined.contains(j) || !free.contains(j))) {
        return None;
    }
    let mut squares = vec![0.0; model.dim()];
    all.iter().zip(&rates).for_each(|(m, rate)| model.visit(m.row, |j, x| squares[j] += rate * x * x));
    let basis: Vec<usize> = free.iter().copied().filter(|j| squares[*j] > 0.0 && !combined.contains(j)).collect();
    if free.iter().any(|j| !basis.contains(j) && !combined.contains(j) && residual[*j] != Dyadic::zero()) {
        return None;
    }
    let (k, mut place) = (basis.len(), vec![usize::MAX; model.dim()]);
    basis.iter().enumerate().for_each(|(at, j)| place[*j] = at);
    let scale: Vec<f64> = basis.iter().map(|j| (-0.5 * squares[*j].log2()).round().exp2()).collect();
    // Scaled moments in floating point; sums of n products have a relative error of at most gamma of the sum of absolute values.
    let (mut moments, mut sizes) = (vec![0.0; k * k], vec![0.0; k * k]);
    for (m, rate) in all.iter().zip(&rates) {
        let mut row = vec![];
        model.visit(m.row, |j, x| {
            if place[j] < k {
                row.push((place[j], x * scale[place[j]]));
            }
        });
        for (a, x) in &row {
            for (b, y) in &row {
                moments[a * k + b] += rate * x * y;
                sizes[a * k + b] += (rate * x * y).abs();
            }
        }
    }
    let inverse = invert(&moments, k)?;
    let gamma = |n: usize| 1.1 * (n as f64 + 8.0) * f64::EPSILON;
    let mut off: f64 = 0.0;
    for a in 0..k {
        let mut sum = 0.0;
        for b in 0..k {
            let (mut product, mut size, mut error) = (0.0, 1.0, 0.0);
            for c in 0..k {
                product += inverse[a * k + c] * moments[c * k + b];
                size += (inverse[a * k + c] * moments[c * k + b]).abs();
                error += inverse[a * k + c].abs() * sizes[c * k + b];
            }
            let one = if a == b { 1.0 } else { 0.0 };
            sum += f64::abs(one - product) + gamma(k) * size + gamma(all.len()) * error;
        }
        off = off.max(sum * 1.001);
    }
    if off.is_nan() || off >= 0.5 {
        return None;
    }
    // ||v|| <= ||R r|| / (1 - ||I - R M||), in scaled variables and the largest entry.
    let right: Vec<Dyadic> = basis.iter().zip(&scale).map(|(j, s)| &residual[*j].abs() * &(*s).into()).collect();
    let row = |a: usize| (0..k).map(|c| &Dyadic::from(inverse[a * k + c].abs()) * &right[c]).sum::<Dyadic>();
    let largest = (0..k).map(row).max().unwrap_or_else(Dyadic::zero);
    let largest = &largest * &(1.001 / (1.0 - off)).into();
    let one = |(m, rate): (&Multiplier, &f64)| {
        let mut sum = Dyadic::zero();
        model.visit(m.row, |j, x| {
            if place[j] < k {
                sum = &sum + &(&Dyadic::from(x.abs()) * &scale[place[j]].into());
            }
        });
        &(&sum * &largest) * &(*rate).into()
    };
    Some(all.iter().zip(&rates).map(one).collect())
}

/// Approximate inverse by elimination with the largest pivots.
fn invert(m: &[f64], k: usize) -> Option<Vec<f64>> {
    let width = 2 * k;
    let mut a = vec![0.0; k * width];
    for i in 0..k {
        a[i * width..][..k].copy_from_slice(&m[i * k..][..k]);
        a[i * width + k + i] = 1.0;
    }
    for i in 0..k {
        let pivot = (i..k).max_by(|x, y| a[x * width + i].abs().total_cmp(&a[y * width + i].abs()))?;
        (0..width).for_each(|c| a.swap(i * width + c, pivot * width + c));
        let top = a[i * width + i];
        if top == 0.0 || !top.is_finite() {
            return None;
        }
        (0..width).for_each(|c| a[i * width + c] /= top);
        for r in (0..k).filter(|r| *r != i) {
            let factor = a[r * width + i];
            if factor != 0.0 {
                (0..width).for_each(|c| a[r * width + c] -= factor * a[i * width + c]);
            }
        }
    }
    Some((0..k).flat_map(|i| a[i * width + k..][..k].to_vec()).collect())
}
