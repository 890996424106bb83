//! Does the lower bound of a reference value follow from its multipliers?
//!
//! A multiplier p with 0 <= p <= q for every loss, q its share of the sum, gives `q hinge(m) >= p (1 - m)` and `q logistic(m) >= q
//! H(p/q) - p m`, so that the sum is at least `V - <r, w> + l2/2 ||w||^2 + l1 ||w||_1` with r the sum of p times label times row. A
//! bound for all weights needs r = 0 in the columns that no regulariser bounds.

use super::format::{Loss, Model, Penalty, Piece, Reference};
use super::model::Evaluation;
use super::number::{Dyadic, Interval, entropy};

/// Accuracy of the value, relative to the value or 1e-3: a hundredth of the gap at which it is called proved.
const VALUE: f64 = 1e-9;

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

/// Derives the lower bound and lists what contradicts the claim. An error means that the file is damaged.
pub fn check(model: &Model, reference: &Reference) -> Result<(f64, Vec<String>), String> {
    let name = &reference.function.expression;
    model.validate()?;
    model.validate_function(&reference.function)?;
    let (Some(pieces), true) = (&reference.function.pieces, reference.point.len() == model.dim()) else {
        return Err(format!("best({name}) has an unknown form, or a point of the wrong length"));
    };
    let mut refusals = vec![];
    let (mut l2, mut l1, mut all, mut lists) = (Dyadic::zero(), Dyadic::zero(), vec![], reference.multipliers.iter());
    for piece in pieces {
        match piece {
            Piece::Penalty { factor, penalty: Penalty::L2 } => l2 = &l2 + &(*factor).into(),
            Piece::Penalty { factor, penalty: Penalty::L1 } => l1 = &l1 + &(*factor).into(),
            Piece::Loss { factor, loss, rows } => {
                let (rows, total) = model.population(rows.as_ref());
                let Some(list) = lists.next().filter(|list| list.len() == rows.len()) else {
                    return Err(format!("best({name}) does not have a multiplier for every row"));
                };
                for (row, (high, low)) in rows.into_iter().zip(list) {
                    let share = &Interval::from(model.weight(row)).over(&total) * &(*factor).into();
                    let p = &Dyadic::from(*high) + &(*low).into();
                    if p > Dyadic::zero() || p < Dyadic::zero() {
                        all.push(Multiplier { row, loss: *loss, share, p, change: Dyadic::zero() });
                    }
                }
            }
            _ => return Err(format!("best({name}) is not a sum of hinge, logistic, l2 and l1")),
        }
    }
    if let Some(value) = Evaluation::new(model, &reference.point).value(&reference.function)
        && value.high > (reference.value + VALUE * reference.value.abs().max(1e-3)).into()
    {
        let truth = value.high.approximate();
        refusals
            .push(format!("the recorded value {} of '{name}' is below {truth}, which follows from the rows", reference.value));
    }
    let bounded = l2 > Dyadic::zero() || l1 > Dyadic::zero();
    let first = if bounded { model.columns } else { 0 };
    let residual = residual(model, &all);
    let free: Vec<usize> = (first..model.dim()).collect();
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
    let (mut value, mut size): (Dyadic, Vec<Dyadic>) = (Dyadic::zero(), residual.iter().map(Dyadic::abs).collect());
    for m in &all {
        let ends = Interval { low: (&m.p - &m.change).max(Dyadic::zero()), high: &m.p + &m.change };
        let own = match m.loss {
            Loss::Hinge => ends.low,
            Loss::Logistic => &entropy(&ends.divided(&m.share)) * &m.share.low,
        };
        value = &value + &own;
        if m.change > Dyadic::zero() {
            model.visit(m.row, |j, x| size[j] = &size[j] + &(&m.change * &Dyadic::from(x).abs()));
        }
    }
    let bound = if !bounded {
        value
    } else if l2 > Dyadic::zero() {
        let over = size[..first].iter().map(|r| (r - &l1).max(Dyadic::zero()));
        &value - &Interval::from(over.map(|x| &x * &x).sum::<Dyadic>().half()).over(&l2).high
    } else {
        // All multipliers are divided by the same number, which makes the residual at most l1.
        let over = size[..first].iter().cloned().fold(l1.clone(), Dyadic::max);
        Interval::from(&value * &l1).over(&over).low
    };
    // No loss and no regulariser is negative.
    let bound = (&bound - &tilt).max(Dyadic::zero());
    if Dyadic::from(reference.lower) > bound {
        let (claimed, found) = (reference.lower, bound.approximate());
        refusals
            .push(format!("the lower bound {claimed} of best({name}) is above {found}, the largest that its multipliers give"));
    }
    Ok((bound.approximate(), refusals))
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
