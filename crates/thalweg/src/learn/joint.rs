//! The Wasserstein gap with its transport plan as an additional variable. The term with the optimal plan eliminated is in
//! `wasserstein.rs`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::problem::Learning;
use super::term::View;
use super::wasserstein::{sort, sweep};
use crate::math::vec;
use crate::oracle::{At, Composite, Description, Modulus, Pick, Scratch, Source, Structure, Subgradients, Values};
use crate::sets::{Product, Set, Transport};
use crate::{Error, Result};

/// Largest number of columns for which the spectral norm in the weak-convexity constant is computed.
const COLUMNS: usize = 512;
/// Number of squarings for that norm, enough for a relative error below 0.01%.
const SQUARINGS: u32 = 16;

/// Largest number of entries of a plan: 2^27, which is 1 GiB for each vector that a solver stores.
const ENTRIES: usize = 1 << 27;

/// A learning problem whose objective, the Wasserstein gap between two groups, keeps its transport plan as a variable:
///
/// ```text
/// min over (w, P) of sum_ij P_ij |w.a_i - w.b_j|,   P >= 0, P 1 = p, P^T 1 = q, and the constraints and the domain of w,
/// ```
///
/// with rows a_i of the first group, b_j of the second, and p, q their shares of their group's weight. The variables are the
/// model's, then P row by row.
///
/// **Motivation.** For fixed w the objective is linear in P and its smallest value is [`super::WassersteinGap`], so both forms
/// have the same solutions in w. That term has no weak-convexity constant; this function has one, which switching subgradient
/// methods and certificates require. The price is a variable for each pair of rows, and a projection onto a transport polytope
/// for each step that changes P.
///
/// **Subgradient.** `|w.a_i - w.b_j|` for P_ij, and `sum_ij P_ij sgn(w.a_i - w.b_j) (a_i - b_j)` for w, with sgn(0) = 0.
/// Constraints are functions of w alone: their subgradient has zeros for P.
///
/// **Mini-batches.** The sum over pairs of drawn rows of each group; other entries of the subgradient for P are 0, as in the
/// published experiments. With `rescale` it is multiplied by the number of all pairs per drawn pair, which makes it an unbiased
/// estimate.
///
/// **Weak convexity.** Where P >= 0 the function is the largest, over signs, of bilinear functions `sum_ij ±P_ij w.(a_i -
/// b_j)`, each with the spectral norm of the matrix of rows a_i - b_j as its constant. The stated constant is that norm up to
/// 0.01% (with more than 512 columns, the Frobenius norm), divided by the scaling of the plan.
///
/// **Cost.** A value or a subgradient on all rows reads every entry of P once.
#[derive(Debug)]
pub struct JointWasserstein {
    model: Learning,
    /// Rows of the first and of the second group.
    rows: [Vec<usize>; 2],
    /// Streams of the two groups.
    streams: [usize; 2],
    domain: Product,
    /// Scaling of the plan: the variables are `unit` times P.
    unit: f64,
    rescale: bool,
    modulus: OnceLock<f64>,
}

/// Buffers of the model, and scores and slopes of the drawn rows.
struct Buffers {
    model: Scratch,
    groups: [Group; 2],
}

#[derive(Default)]
struct Group {
    /// Whether all rows of the group are present, in order.
    all: bool,
    /// Position of each drawn row within its group.
    positions: Vec<usize>,
    scores: Vec<f64>,
    slopes: Vec<f64>,
}

impl JointWasserstein {
    /// Builds the problem from one that minimises `wasserstein_gap`.
    pub fn new(model: Learning) -> Result<Self> {
        let Some(populations) = model.objective_populations("wasserstein_gap") else {
            let text = model.objective_text();
            return Err(Error::setting("minimize", format!("'{text}'"), "wasserstein_gap alone, for the plan to be a variable"));
        };
        let [(first, p), (second, q)] = populations;
        let (streams, rows) = ([first, second], [p, q]);
        let [m, n] = [rows[0].len(), rows[1].len()];
        if m.checked_mul(n).is_none_or(|entries| entries > ENTRIES) {
            return Err(Error::Problem(format!(
                "the transport plan of {m} x {n} rows has too many entries to be a variable; expected at most {ENTRIES}; leave out \
                 rows with equal_groups, or eliminate the plan"
            )));
        }
        let domain = domain(&model, &rows, 1.0)?;
        Ok(JointWasserstein { model, rows, streams, domain, unit: 1.0, rescale: false, modulus: OnceLock::new() })
    }

    /// Multiplies the plan by `sqrt(m n)` for groups of m and n rows: with m = n its rows and columns then sum to 1, and one
    /// step size suits both its entries and the weights of the model. The objective does not change.
    pub fn doubly_stochastic(self) -> Result<Self> {
        let unit = (self.rows[0].len() as f64 * self.rows[1].len() as f64).sqrt();
        Ok(JointWasserstein { domain: domain(&self.model, &self.rows, unit)?, unit, modulus: OnceLock::new(), ..self })
    }

    /// Sets whether mini-batches are rescaled to be unbiased. Default: no.
    pub fn rescale(mut self, rescale: bool) -> Self {
        self.rescale = rescale;
        self
    }

    /// Returns the problem without the plan; its variables are the first ones.
    pub fn model(&self) -> &Learning {
        &self.model
    }

    /// As [`JointWasserstein::model`], mutable, to change its bounds.
    pub fn model_mut(&mut self) -> &mut Learning {
        &mut self.model
    }

    /// Returns the number of rows of each group: the dimensions of the plan.
    pub fn sides(&self) -> [usize; 2] {
        [self.rows[0].len(), self.rows[1].len()]
    }

    /// Returns the constant printed by the authors: the sum of the Frobenius norms of both groups' rows. In general it is
    /// neither an upper nor a lower bound of the weak-convexity constant.
    pub fn printed_constant(&self) -> f64 {
        let features = &self.model.data().features;
        self.rows.iter().map(|rows| rows.iter().map(|&i| features.row_norm_squared(i)).sum::<f64>().sqrt()).sum()
    }

    /// Returns the model's variables followed by the product plan, which pairs all rows in proportion to their weights.
    pub fn start(&self, model: &[f64]) -> Result<Vec<f64>> {
        crate::error::check_length("the model's part of the start", model.len(), self.model.dim())?;
        let mut x = model.to_vec();
        let [p, q] = shares(&self.model, &self.rows);
        x.extend(p.iter().flat_map(|p| q.iter().map(move |q| p * q * self.unit)));
        Ok(x)
    }

    /// Returns the model's variables followed by an optimal plan for them: sorted scores paired from the lowest upwards.
    pub fn with_best_plan(&self, model: &[f64]) -> Result<Vec<f64>> {
        let scores = self.model.scores(model)?;
        let scores = [0, 1].map(|k| self.rows[k].iter().map(|&i| scores[i]).collect::<Vec<f64>>());
        let weights = shares(&self.model, &self.rows);
        let orders = [0, 1].map(|k| {
            let mut order = vec![];
            sort(&scores[k], &mut order);
            order
        });
        let weighted = self.model.data().weights.is_some();
        let views = [0, 1].map(|k| View { scores: &scores[k], labels: &[], weights: weighted.then_some(&weights[k][..]) });
        let columns = self.rows[1].len();
        let mut x = model.to_vec();
        x.resize(self.dim(), 0.0);
        let plan = &mut x[model.len()..];
        sweep(views, &orders, &mut |i, j, mass| plan[i * columns + j] += mass * self.unit);
        Ok(x)
    }

    /// Computes the scores of the drawn rows of both groups.
    fn score(&self, at: At, groups: &mut [Group; 2]) {
        let features = &self.model.data().features;
        for ((group, rows), stream) in groups.iter_mut().zip(&self.rows).zip(self.streams) {
            group.positions.clear();
            group.all = at.draw.stream(stream) == Pick::All;
            match at.draw.stream(stream) {
                Pick::All => group.positions.extend(0..rows.len()),
                Pick::These(ids) => group.positions.extend(ids.iter().map(|&i| i as usize)),
            }
            group.scores.clear();
            // An intercept would cancel in every difference.
            group
                .scores
                .extend(group.positions.iter().map(|&position| features.row_dot(rows[position], &at.x[..features.cols()])));
            group.slopes.clear();
            group.slopes.resize(group.positions.len(), 0.0);
        }
    }

    /// Returns the factor of a sum over the drawn pairs.
    fn factor(&self, groups: &[Group; 2]) -> f64 {
        let share = |k: usize| self.rows[k].len() as f64 / groups[k].positions.len().max(1) as f64;
        if self.rescale { share(0) * share(1) / self.unit } else { 1.0 / self.unit }
    }

    fn at<'a>(&self, at: At<'a>) -> At<'a> {
        At { x: &at.x[..self.model.dim()], ..at }
    }

    /// Computes the spectral norm of the matrix of all row differences, slightly overestimated.
    fn spectral_norm(&self) -> f64 {
        let features = &self.model.data().features;
        let d = features.cols();
        let counts = [self.rows[0].len() as f64, self.rows[1].len() as f64];
        let mut sums = [vec![0.0; d], vec![0.0; d]];
        for (sum, rows) in sums.iter_mut().zip(&self.rows) {
            rows.iter().for_each(|&i| features.add_row(i, 1.0, sum));
        }
        if d > COLUMNS {
            // Sum of the squared lengths of all differences.
            let squares = |k: usize| self.rows[k].iter().map(|&i| features.row_norm_squared(i)).sum::<f64>();
            let total = counts[1] * squares(0) + counts[0] * squares(1) - 2.0 * vec::dot(&sums[0], &sums[1]);
            return total.max(0.0).sqrt();
        }
        // G = n_2 A^T A + n_1 B^T B - a b^T - b a^T with the sums a, b of the rows of A and B.
        let mut gram = vec![0.0; d * d];
        let mut row: Vec<(usize, f64)> = vec![];
        for (rows, weight) in self.rows.iter().zip([counts[1], counts[0]]) {
            for &i in rows {
                row.clear();
                features.visit_row(i, |c, v| row.push((c, v)));
                for &(r, v) in &row {
                    row.iter().for_each(|&(c, w)| gram[r * d + c] += weight * v * w);
                }
            }
        }
        for r in 0..d {
            for c in 0..d {
                gram[r * d + c] -= sums[0][r] * sums[1][c] + sums[1][r] * sums[0][c];
            }
        }
        largest_eigenvalue(gram, d).sqrt()
    }
}

/// Returns the product of the model's domain and the polytope of the scaled plan.
fn domain(model: &Learning, rows: &[Vec<usize>; 2], unit: f64) -> Result<Product> {
    let [p, q] = shares(model, rows).map(|shares| shares.into_iter().map(|share| unit * share).collect());
    let of_model: Arc<dyn Set> = model.shared_domain();
    let entries = rows[0].len() * rows[1].len();
    Product::new(vec![(model.dim(), Box::new(of_model)), (entries, Box::new(Transport::new(p, q)?))])
}

/// Returns each row's fraction of its group's weight.
fn shares(model: &Learning, rows: &[Vec<usize>; 2]) -> [Vec<f64>; 2] {
    let weight = |i: usize| model.data().weights.as_ref().map_or(1.0, |w| w[i]);
    [0, 1].map(|k| {
        let total: f64 = rows[k].iter().map(|&i| weight(i)).sum();
        rows[k].iter().map(|&i| weight(i) / total).collect()
    })
}

/// Bounds the largest eigenvalue of a positive semidefinite matrix of `d` columns from above: the 2^k-th root of the Frobenius
/// norm of its 2^k-th power, which exceeds it by a factor of at most d^(1/2^(k+1)).
fn largest_eigenvalue(mut a: Vec<f64>, d: usize) -> f64 {
    // log of the norm divided out so far, at the current power.
    let mut log = 0.0;
    let mut square = vec![0.0; a.len()];
    for k in 0..=SQUARINGS {
        let norm = vec::norm(&a);
        if norm == 0.0 {
            return 0.0;
        }
        vec::scale(&mut a, 1.0 / norm);
        log += norm.ln() / f64::from(1_u32 << k);
        if k == SQUARINGS {
            break;
        }
        square.fill(0.0);
        for (row, out) in a.chunks(d.max(1)).zip(square.chunks_mut(d.max(1))) {
            for (&v, other) in row.iter().zip(a.chunks(d.max(1))).filter(|(v, _)| **v != 0.0) {
                vec::add_scaled(out, v, other);
            }
        }
        std::mem::swap(&mut a, &mut square);
    }
    log.exp()
}

impl Description for JointWasserstein {
    fn dim(&self) -> usize {
        self.model.dim() + self.rows[0].len() * self.rows[1].len()
    }

    fn num_constraints(&self) -> usize {
        self.model.num_constraints()
    }

    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        self.model.constraint_name(j)
    }

    fn constraint_scale(&self, j: usize) -> f64 {
        self.model.constraint_scale(j)
    }

    fn domain(&self) -> &dyn Set {
        &self.domain
    }

    fn streams(&self) -> &[usize] {
        self.model.streams()
    }

    fn objective_uses(&self, stream: usize) -> bool {
        self.model.objective_uses(stream)
    }

    fn constraint_uses(&self, j: usize, stream: usize) -> bool {
        self.model.constraint_uses(j, stream)
    }

    fn objective_modulus(&self) -> Option<Modulus> {
        Some(Modulus { value: *self.modulus.get_or_init(|| self.spectral_norm() / self.unit), source: Source::Proved })
    }

    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.model.constraint_modulus(j)
    }

    fn fingerprint(&self) -> String {
        let [m, n] = self.sides();
        let batches = if self.rescale { ", batches rescaled" } else { "" };
        let times = if self.unit == 1.0 { String::new() } else { format!(" times {}", self.unit) };
        format!("{}, its {m} x {n} transport plan{times} a variable{batches}", self.model.fingerprint())
    }

    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for JointWasserstein {
    fn scratch(&self) -> Scratch {
        Scratch::new(Buffers { model: self.model.scratch(), groups: Default::default() })
    }

    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let Buffers { groups, .. } = scratch.get()?;
        self.score(at, groups);
        let plan = &at.x[self.model.dim()..];
        let columns = self.rows[1].len();
        let [first, second] = &*groups;
        let mut total = 0.0;
        for (&position, score) in first.positions.iter().zip(&first.scores) {
            let row = &plan[position * columns..(position + 1) * columns];
            total += if second.all {
                vec::sum_by(columns, |j| row[j] * (score - second.scores[j]).abs())
            } else {
                second.positions.iter().zip(&second.scores).map(|(&j, other)| row[j] * (score - other).abs()).sum()
            };
        }
        Ok(self.factor(groups) * total)
    }

    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let Buffers { model, .. } = scratch.get()?;
        self.model.constraint_values(self.at(at), which, g, model)
    }
}

impl Structure for JointWasserstein {
    fn composite(&self) -> Option<&dyn Composite> {
        Some(self)
    }
}

impl Composite for JointWasserstein {
    fn num_statistics(&self) -> usize {
        self.model.num_statistics()
    }

    fn statistic_values(&self, at: At, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let Buffers { model, .. } = scratch.get()?;
        self.model.statistic_values(self.at(at), out, model)
    }

    fn constraints_from(&self, statistics: &[f64], g: &mut [f64]) -> Result<()> {
        self.model.constraints_from(statistics, g)
    }

    fn statistic_vjp(&self, at: At, statistics: &[f64], weights: &[f64], grad: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let Buffers { model, .. } = scratch.get()?;
        let (of_model, of_plan) = grad.split_at_mut(self.model.dim());
        of_plan.fill(0.0);
        self.model.statistic_vjp(self.at(at), statistics, weights, of_model, model)
    }
}

impl Subgradients for JointWasserstein {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let Buffers { groups, .. } = scratch.get()?;
        self.score(at, groups);
        let factor = self.factor(groups);
        let plan = &at.x[self.model.dim()..];
        let columns = self.rows[1].len();
        grad.fill(0.0);
        let (of_model, of_plan) = grad.split_at_mut(self.model.dim());
        let [first, second] = &mut *groups;
        let sign = |gap: f64| f64::from(u8::from(gap > 0.0)) - f64::from(u8::from(gap < 0.0));
        let mut total = 0.0;
        for ((&position, score), slope) in first.positions.iter().zip(&first.scores).zip(&mut first.slopes) {
            let range = position * columns..(position + 1) * columns;
            let (row, out) = (&plan[range.clone()], &mut of_plan[range]);
            let (mut sum, mut pulled) = (0.0, 0.0);
            let mut pair = |mass: f64, out: &mut f64, other: f64, slope: &mut f64| {
                let gap = score - other;
                *out = factor * gap.abs(); // dH/dP_ij
                let signed = mass * sign(gap);
                sum += mass * gap.abs();
                pulled += signed;
                *slope -= signed;
            };
            if second.all {
                // Zipped slices let the compiler vectorise the loop.
                for (((mass, out), other), slope) in row.iter().zip(out).zip(&second.scores).zip(&mut second.slopes) {
                    pair(*mass, out, *other, slope);
                }
            } else {
                for ((&j, other), slope) in second.positions.iter().zip(&second.scores).zip(&mut second.slopes) {
                    pair(row[j], &mut out[j], *other, slope);
                }
            }
            total += sum;
            *slope = pulled;
        }
        // dH/dw = A^T (S 1) - B^T (S^T 1), S = P times the signs
        let features = &self.model.data().features;
        for (group, rows) in groups.iter().zip(&self.rows) {
            for (&position, slope) in group.positions.iter().zip(&group.slopes).filter(|(_, s)| **s != 0.0) {
                features.add_row(rows[position], factor * slope, of_model);
            }
        }
        Ok(factor * total)
    }

    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Buffers { model, .. } = scratch.get()?;
        let (of_model, of_plan) = grad.split_at_mut(self.model.dim());
        let mut any = false;
        let mut watched = |g: &[f64], w: &mut [f64]| {
            weigh(g, w);
            any = w.iter().any(|&w| w != 0.0);
        };
        self.model.constraint_vjp(self.at(at), g, &mut watched, of_model, model)?;
        if any {
            of_plan.fill(0.0);
        }
        Ok(())
    }

    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let Buffers { model, .. } = scratch.get()?;
        for ((j, g), row) in which.iter().zip(g).zip(rows.chunks_mut(self.dim().max(1))) {
            let (of_model, of_plan) = row.split_at_mut(self.model.dim());
            self.model.constraint_rows(self.at(at), std::slice::from_ref(j), std::slice::from_mut(g), of_model, model)?;
            of_plan.fill(0.0);
        }
        Ok(())
    }
}
