//! Forward and backward passes over the rows of a learning problem, with their buffers. Scores are computed once per visited
//! point and shared by all terms, and one backward pass serves the slopes of all terms; the terms themselves are in other
//! files.

use super::function::{Function, Piece};
use super::problem::Learning;
use super::term::{Branch, Term, View, Work};
use crate::math::vec;
use crate::oracle::{At, Pick};

/// Statistics at which the outer functions of a function's terms are differentiated.
#[derive(Clone, Copy)]
pub(super) struct Outer<'a> {
    pub(super) statistics: &'a [f64],
    /// Index of a summand, and the branch of its term that replaces the largest one.
    pub(super) branch: Option<(usize, Branch)>,
}

impl<'a> Outer<'a> {
    pub(super) fn at(statistics: &'a [f64]) -> Self {
        Outer { statistics, branch: None }
    }
}

/// Buffers of a run on one [`Learning`] problem.
pub(super) struct Buffers {
    pub(super) parts: Vec<PartBuffer>,
    pub(super) populations: Vec<PopulationBuffer>,
    pub(super) objective: Vec<f64>,
    /// Statistics of all constraints.
    pub(super) statistics: Vec<f64>,
    /// Derivatives of an outer function.
    pub(super) outer: Vec<f64>,
    /// Branches of the objective other than the largest.
    pub(super) branches: Vec<Branch>,
    pub(super) weights: Vec<f64>,
    pub(super) work: Work,
    pub(super) smooth: SmoothValues,
}

/// Values of the smooth form at the point where they were last computed.
#[derive(Default)]
pub(super) struct SmoothValues {
    /// The point; empty if there are no values yet.
    pub(super) x: Vec<f64>,
    /// Statistics of the objective.
    pub(super) objective: Vec<f64>,
    pub(super) parts: Vec<f64>,
}

impl SmoothValues {
    /// Returns whether the values are those at `x`, to the bit.
    pub(super) fn are_at(&self, x: &[f64]) -> bool {
        same(&self.x, x) && !x.is_empty()
    }
}

/// Returns whether two points have the same bits.
fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Scores of all rows of a part at the last visited point, and slopes for the backward pass.
#[derive(Default)]
pub(super) struct PartBuffer {
    pub(super) x: Vec<f64>,
    /// Points visited so far; 0 before the first.
    pub(super) visits: u64,
    pub(super) scores: Vec<f64>,
    pub(super) slopes: Vec<f64>,
    pub(super) slots: Vec<f64>,
    /// Divisor of the slopes; `None` if there are no slopes.
    pub(super) divisor: Option<f64>,
}

impl PartBuffer {
    /// Fills the scores unless they belong to `x` already. Comparing x is cheap next to a pass over the rows.
    fn visit(&mut self, x: &[f64], fill: impl FnOnce(&mut [f64])) {
        if self.visits == 0 || !same(&self.x, x) {
            self.x.clear();
            self.x.extend_from_slice(x);
            self.visits += 1;
            fill(&mut self.scores);
        }
    }
}

/// Content of a population's buffer.
#[derive(PartialEq, Eq)]
pub(super) enum BufferContent {
    Nothing,
    /// All members, at this visit of the part.
    Visit(u64),
    Batch,
}

pub(super) struct PopulationBuffer {
    pub(super) holds: BufferContent,
    pub(super) rows: Vec<u32>,
    pub(super) scores: Vec<f64>,
    pub(super) labels: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) slopes: Vec<f64>,
}

impl Learning {
    /// Returns the model's weights without the intercept.
    pub(super) fn weights<'x>(&self, x: &'x [f64]) -> &'x [f64] {
        &x[..self.data.features.cols()]
    }

    pub(super) fn offset(&self, x: &[f64]) -> f64 {
        if self.intercept { x[x.len() - 1] } else { 0.0 }
    }

    /// Computes the statistics of a function on the drawn rows.
    pub(super) fn measure(&self, function: &Function, at: At, out: &mut [f64], buffers: &mut Buffers) {
        for s in &function.pieces {
            let out = &mut out[s.statistics.clone()];
            match &s.piece {
                Piece::Penalty(penalty) => out[0] = penalty.value(self.weights(at.x)),
                Piece::Term(term) => {
                    let width = term.width();
                    s.populations.iter().for_each(|&p| self.score(p, at, buffers));
                    self.couple(term.as_ref(), &s.populations, buffers);
                    for (k, &p) in s.populations.iter().enumerate() {
                        let Buffers { parts, populations, work, .. } = buffers;
                        let view = self.view(p, &populations[p], &parts[self.populations[p].part]);
                        term.measure(k, view, work, &mut out[k * width..(k + 1) * width]);
                    }
                }
            }
        }
        out.iter_mut().zip(&function.corrections).for_each(|(v, correction)| *v += correction);
    }

    /// Passes the rows of both populations to a coupled term; their scores must be in the buffers.
    pub(super) fn couple(&self, term: &dyn Term, populations: &[usize], buffers: &mut Buffers) {
        if let ([p, q], true) = (populations, term.is_coupled()) {
            let Buffers { parts, populations, work, .. } = buffers;
            let view = |p: usize| self.view(p, &populations[p], &parts[self.populations[p].part]);
            term.couple([view(*p), view(*q)], work);
        }
    }

    /// Fills the buffers with the scores of population `p` at this point and draw.
    pub(super) fn score(&self, p: usize, at: At, buffers: &mut Buffers) {
        let population = &self.populations[p];
        let range = &self.parts[population.part];
        let own = &mut buffers.populations[p];
        let offset = self.offset(at.x);
        match at.draw.stream(p) {
            Pick::All => {
                let part = &mut buffers.parts[population.part];
                part.visit(at.x, |scores| {
                    self.data.features.scores(range.clone(), self.weights(at.x), scores);
                    if self.intercept {
                        scores.iter_mut().for_each(|s| *s += offset);
                    }
                });
                if let Some(members) = &population.members
                    && own.holds != BufferContent::Visit(part.visits)
                {
                    own.scores.clear();
                    own.scores.extend(members.iter().map(|&m| part.scores[m as usize]));
                }
                own.holds = BufferContent::Visit(part.visits);
            }
            Pick::These(ids) => {
                own.holds = BufferContent::Batch;
                own.rows.clear();
                own.rows
                    .extend(ids.iter().map(|&i| range.start as u32 + population.members.as_ref().map_or(i, |m| m[i as usize])));
                own.scores.clear();
                own.labels.clear();
                own.weights.clear();
                for (&i, &row) in ids.iter().zip(&own.rows) {
                    own.scores.push(self.data.features.row_dot(row as usize, self.weights(at.x)) + offset);
                    own.labels.push(self.data.labels[row as usize]);
                    if let Some(w) = &population.weights {
                        own.weights.push(w[i as usize]);
                    }
                }
            }
        }
    }

    /// Returns the rows of population `p` as the terms use them.
    pub(super) fn view<'a>(&'a self, p: usize, own: &'a PopulationBuffer, part: &'a PartBuffer) -> View<'a> {
        let population = &self.populations[p];
        match (&own.holds, &population.members) {
            (BufferContent::Batch, _) => {
                View { scores: &own.scores, labels: &own.labels, weights: population.weights.is_some().then_some(&own.weights) }
            }
            (_, Some(_)) => View { scores: &own.scores, labels: &population.labels, weights: population.weights.as_deref() },
            (_, None) => View {
                scores: &part.scores,
                labels: &self.data.labels[self.parts[population.part].clone()],
                weights: population.weights.as_deref(),
            },
        }
    }

    /// Returns [`Learning::view`] of the rows in the buffers.
    pub(super) fn current_view<'a>(&'a self, p: usize, buffers: &'a Buffers) -> View<'a> {
        self.view(p, &buffers.populations[p], &buffers.parts[self.populations[p].part])
    }

    /// Adds `weight` times the derivative of a function to the slopes of the parts (all rows) or to `grad` (mini-batch). The
    /// scores in the buffers must be those of `at`.
    pub(super) fn push(&self, function: &Function, at: At, outer: Outer, weight: f64, grad: &mut [f64], buffers: &mut Buffers) {
        for (i, s) in function.pieces.iter().enumerate() {
            match &s.piece {
                Piece::Penalty(penalty) => {
                    let d = self.data.features.cols();
                    penalty.add_slope(self.weights(at.x), weight * s.factor, &mut grad[..d]);
                }
                Piece::Term(term) => {
                    let own = &outer.statistics[s.statistics.clone()];
                    let mut slopes = std::mem::take(&mut buffers.outer);
                    slopes.clear();
                    slopes.resize(own.len(), 0.0);
                    match &outer.branch {
                        Some((place, branch)) if *place == i => term.branch_slopes(branch, &mut slopes),
                        _ => term.outer_slopes(own, &mut slopes),
                    }
                    vec::scale(&mut slopes, weight * s.factor);
                    self.couple(term.as_ref(), &s.populations, buffers);
                    let width = term.width();
                    for (k, &p) in s.populations.iter().enumerate() {
                        let weights = &slopes[k * width..(k + 1) * width];
                        if weights.iter().any(|&w| w != 0.0) {
                            self.push_population(term.as_ref(), k, p, weights, grad, buffers);
                        }
                    }
                    buffers.outer = slopes;
                }
            }
        }
    }

    pub(super) fn push_population(
        &self,
        term: &dyn Term,
        k: usize,
        p: usize,
        weights: &[f64],
        grad: &mut [f64],
        buffers: &mut Buffers,
    ) {
        let Buffers { parts, populations, work, .. } = buffers;
        let population = &self.populations[p];
        let part = &mut parts[population.part];
        let mut slopes = std::mem::take(&mut populations[p].slopes);
        let mut part_slopes = std::mem::take(&mut part.slopes);
        let own = &populations[p];
        let view = self.view(p, own, part);
        let rows = view.scores.len() as f64;
        let mut divisor = part.divisor;
        if own.holds == BufferContent::Batch {
            slopes.resize(view.scores.len(), 0.0);
            term.slopes(k, view, weights, work, &mut slopes);
            for (&row, &slope) in own.rows.iter().zip(&slopes).filter(|(_, s)| **s != 0.0) {
                self.data.features.add_row(row as usize, slope / rows, grad);
            }
            if self.intercept {
                grad[self.data.features.cols()] += vec::sum(&slopes) / rows;
            }
        } else if population.members.is_none() && divisor.is_none() {
            // The first term on a whole part writes its slopes directly into the part's buffer.
            part_slopes.resize(part.scores.len(), 0.0);
            term.slopes(k, view, weights, work, &mut part_slopes);
            divisor = Some(rows);
        } else {
            slopes.resize(view.scores.len(), 0.0);
            term.slopes(k, view, weights, work, &mut slopes);
            let common = *divisor.get_or_insert_with(|| {
                part_slopes.clear();
                part_slopes.resize(part.scores.len(), 0.0);
                1.0
            });
            match &population.members {
                None => vec::add_scaled(&mut part_slopes, common / rows, &slopes),
                Some(members) => {
                    members.iter().zip(&slopes).for_each(|(&m, s)| part_slopes[m as usize] += common / rows * s);
                }
            }
        }
        let part = &mut parts[population.part];
        part.slopes = part_slopes;
        part.divisor = divisor;
        populations[p].slopes = slopes;
    }

    /// Adds the gradient of every part that has slopes, in one pass over its rows: `grad += A^T slopes / divisor`.
    pub(super) fn pull(&self, grad: &mut [f64], buffers: &mut Buffers) {
        let features = &self.data.features;
        for (part, range) in buffers.parts.iter_mut().zip(&self.parts) {
            if let Some(divisor) = part.divisor.take() {
                part.slots.resize(features.pull_slots(range.len()), 0.0);
                features.pull(range.clone(), &part.slopes, divisor, &mut grad[..features.cols()], &mut part.slots);
                if self.intercept {
                    grad[features.cols()] += vec::sum(&part.slopes) / divisor;
                }
            }
        }
    }

    /// Writes the statistics of the selected constraints into the buffers and their values into `g`.
    pub(super) fn constraint_forward(&self, at: At, which: Pick, g: &mut [f64], buffers: &mut Buffers) {
        let mut statistics = std::mem::take(&mut buffers.statistics);
        let mut one = |j: usize, g: &mut f64| {
            let f = &self.constraints[j];
            let own = &mut statistics[self.offsets[j]..self.offsets[j] + f.statistics];
            self.measure(f, at, own, buffers);
            *g = f.value(own);
        };
        match which {
            Pick::All => g.iter_mut().enumerate().for_each(|(j, g)| one(j, g)),
            Pick::These(ids) => ids.iter().zip(g).for_each(|(&j, g)| one(j as usize, g)),
        }
        buffers.statistics = statistics;
    }

    /// Computes the weighted sum of constraint subgradients from statistics in the buffers.
    pub(super) fn constraint_backward(
        &self,
        at: At,
        statistics: &[f64],
        weights: &[f64],
        grad: &mut [f64],
        buffers: &mut Buffers,
    ) {
        grad.fill(0.0);
        for (j, (f, &w)) in self.constraints.iter().zip(weights).enumerate().filter(|(_, (_, w))| **w != 0.0) {
            let own = &statistics[self.offsets[j]..self.offsets[j] + f.statistics];
            self.push(f, at, Outer::at(own), w, grad, buffers);
        }
        self.pull(grad, buffers);
    }
}
