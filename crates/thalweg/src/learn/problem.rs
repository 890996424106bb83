//! A learning problem assembled from terms, and its values and subgradients. Passes over the rows are in `passes.rs`; the
//! builder that checks and resolves the terms is in `build.rs`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::best::Best;
use super::build::Builder;
use super::data::{Data, Parts};
use super::function::{Function, Piece, Summand};
use super::inf_projection::LossForm;
use super::passes::{BufferContent, Buffers, Outer, PartBuffer, PopulationBuffer, SmoothValues};
use super::population::Population;
use super::references::References;
use super::sample_losses::RowLosses;
use super::term::{Constant, Part, RowNorms, Subpopulation, Work};
use crate::oracle::{
    At, Composite, Description, InfProjection, KnownUnits, Modulus, Pick, Rounding, SampleLosses, Scales, Scratch, SmoothForm,
    Source, Structure, Subgradients, Values,
};
use crate::sets::Set;
use crate::{Error, Result};

/// Largest number of columns for which the full matrix of second moments is computed.
const MOMENTS: usize = 512;

/// Training problem of a linear model: minimise one sum of terms subject to bounds on others, over a simple set of weights.
///
/// ```
/// use thalweg::learn::{Builder, Data};
/// use thalweg::math::Matrix;
/// # fn main() -> thalweg::Result<()> {
/// let features = Matrix::dense(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.0])?;
/// let data = Data { features, labels: vec![1.0, -1.0, 1.0, -1.0], groups: None, weights: None };
/// let problem = Builder::new(data).minimize("l2".parse()?).subject_to("hinge <= 0.5".parse()?).build()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Learning {
    pub(super) data: Arc<Data>,
    pub(super) intercept: bool,
    pub(super) parts: Vec<Range<usize>>,
    pub(super) populations: Vec<Population>,
    pub(super) sizes: Vec<usize>,
    pub(super) objective: Function,
    pub(super) constraints: Vec<Function>,
    /// Index of each constraint's first statistic.
    pub(super) offsets: Vec<usize>,
    pub(super) domain: Arc<dyn Set>,
    pub(super) references: References,
    /// Scales of the columns, if `ridge` uses them.
    pub(super) column_scales: Option<Arc<[f64]>>,
    /// Whether the scales were given instead of computed from the rows.
    pub(super) given_scales: bool,
    pub(super) hash: OnceLock<u64>,
    pub(super) scales: OnceLock<Scales>,
    pub(super) variable_units: OnceLock<Vec<f64>>,
    pub(super) units: OnceLock<Option<KnownUnits>>,
    pub(super) loss_form: OnceLock<Option<LossForm>>,
    pub(super) row_losses: OnceLock<Option<RowLosses>>,
}

impl Learning {
    /// Starts a problem on `data`.
    pub fn on(data: Data) -> Builder {
        Builder::new(data)
    }

    /// Starts another problem on the same rows, which are shared and not copied. The split, the intercept, the reference values
    /// and the meaning of "erm" carry over; the domain does not.
    pub fn on_same_data(&self) -> Builder {
        let gaps = self.parts[self.parts.len() - 1].clone();
        let parts = Parts { losses: self.parts[0].clone(), gaps };
        Builder::on_same_data(self, parts)
    }

    pub(super) fn assemble(
        data: Arc<Data>,
        parts: Parts,
        intercept: bool,
        objective: Function,
        constraints: Vec<Function>,
        domain: Arc<dyn Set>,
    ) -> Result<Self> {
        let mut ranges = vec![parts.losses.clone()];
        if parts.gaps != parts.losses {
            ranges.push(parts.gaps);
        }
        let dim = data.features.cols() + usize::from(intercept);
        if let Some(d) = domain.dim()
            && d != dim
        {
            return Err(Error::Length { what: format!("the domain ({})", domain.describe()), got: d, wanted: dim });
        }
        let mut problem = Learning {
            data,
            intercept,
            parts: ranges,
            populations: vec![],
            sizes: vec![],
            objective,
            constraints,
            offsets: vec![],
            domain,
            references: References::default(),
            column_scales: None,
            given_scales: false,
            hash: OnceLock::new(),
            scales: OnceLock::new(),
            variable_units: OnceLock::new(),
            units: OnceLock::new(),
            loss_form: OnceLock::new(),
            row_losses: OnceLock::new(),
        };
        let mut objective = std::mem::replace(&mut problem.objective, Function::new(String::new(), vec![], 0.0));
        let mut constraints = std::mem::take(&mut problem.constraints);
        for function in std::iter::once(&mut objective).chain(&mut constraints) {
            problem.bind(function)?;
        }
        problem.offsets = constraints
            .iter()
            .scan(0, |end, f| {
                let begin = *end;
                *end += f.statistics;
                Some(begin)
            })
            .collect();
        (problem.objective, problem.constraints) = (objective, constraints);
        problem.sizes = problem.populations.iter().map(|p| p.size(&problem.parts)).collect();
        Ok(problem)
    }

    /// Assigns populations and a range of statistics to each term of a function.
    fn bind(&mut self, function: &mut Function) -> Result<()> {
        let mut end = 0;
        for s in &mut function.pieces {
            let width = match &mut s.piece {
                Piece::Penalty(_) => 1,
                Piece::Term(term) => {
                    let (part, subpopulations) = term.populations();
                    s.populations = subpopulations
                        .into_iter()
                        .map(|one| self.population(part, one, &function.expression))
                        .collect::<Result<_>>()?;
                    let norms: Vec<RowNorms> = s.populations.iter().map(|&p| self.populations[p].norms).collect();
                    term.bind(&norms);
                    s.populations.len() * term.width()
                }
            };
            s.statistics = end..end + width;
            end += width;
        }
        function.statistics = end;
        Ok(())
    }

    /// Returns the index of a population, which is added if it is new.
    fn population(&mut self, part: Part, subpopulation: Subpopulation, term: &str) -> Result<usize> {
        let part = match part {
            Part::Losses => 0,
            Part::Gaps => self.parts.len() - 1,
        };
        if let Some(known) = self.populations.iter().position(|p| p.part == part && p.subpopulation == subpopulation) {
            return Ok(known);
        }
        self.populations.push(Population::select(
            &self.data,
            self.intercept,
            (part, self.parts[part].clone()),
            subpopulation,
            term,
        )?);
        Ok(self.populations.len() - 1)
    }

    /// Returns the data; a shuffled split has reordered the rows.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Returns the reference values behind bounds, thresholds, domain and start.
    pub fn references(&self) -> &[Best] {
        &self.references.list
    }

    /// Returns the reference value of the problem's loss with its minimiser, if the problem refers to it.
    pub fn erm(&self) -> Option<&Best> {
        self.references.erm()
    }

    /// Returns the scales of the columns that `ridge` uses; `None` if no expression contains it.
    pub fn column_scales(&self) -> Option<&[f64]> {
        self.column_scales.as_deref()
    }

    pub(super) fn set_column_scales(&mut self, scales: Option<Arc<[f64]>>, given: bool) {
        self.given_scales = given && scales.is_some();
        self.column_scales = scales;
    }

    pub(super) fn set_references(&mut self, references: References) {
        self.references = references;
    }

    /// Returns the expression of the objective.
    pub(super) fn objective_text(&self) -> &str {
        &self.objective.expression
    }

    /// Returns whether every term of the objective is over all rows.
    pub(super) fn objective_is_over_all_rows(&self) -> bool {
        self.objective.pieces.iter().flat_map(|s| &s.populations).all(|&p| self.populations[p].members.is_none())
    }

    /// Returns the stream and the rows of both populations if the objective is `expression` alone, a term of two populations.
    pub(super) fn objective_populations(&self, expression: &str) -> Option<[(usize, Vec<usize>); 2]> {
        let [Summand { factor: 1.0, populations, .. }] = &self.objective.pieces[..] else { return None };
        let rows = |p: usize| {
            let Population { part, members, .. } = &self.populations[p];
            let range = self.parts[*part].clone();
            (
                p,
                members
                    .as_ref()
                    .map_or_else(|| range.clone().collect(), |m| m.iter().map(|&i| range.start + i as usize).collect()),
            )
        };
        match populations[..] {
            [p, q] if self.objective.expression == expression => Some([rows(p), rows(q)]),
            _ => None,
        }
    }

    /// Returns the domain, for a problem with additional variables.
    pub(super) fn shared_domain(&self) -> Arc<dyn Set> {
        Arc::clone(&self.domain)
    }

    /// Returns the smallest and the largest score at `x` over the rows that losses are computed on, without rows of weight 0.
    pub(super) fn loss_score_range(&self, x: &[f64]) -> Result<[f64; 2]> {
        let scores = self.scores(x)?;
        let counts = |i: &usize| self.data.weights.as_ref().is_none_or(|w| w[*i] > 0.0);
        let all = self.parts[0].clone().filter(counts).map(|i| scores[i]);
        Ok(all.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], s| [low.min(s), high.max(s)]))
    }

    /// Returns the bound of constraint `j`. The constraint's value is its left-hand side minus the bound.
    pub fn bound(&self, j: usize) -> f64 {
        self.constraints[j].bound
    }

    /// Returns how far the bound of constraint `j` lies above the smallest value of its expression, if that is known.
    pub(super) fn margin_above_best(&self, j: usize) -> Option<f64> {
        let known = self.references.list.iter().find(|best| best.expression == self.constraints[j].expression);
        known.map(|best| (self.constraints[j].bound - best.value).max(0.0))
    }

    /// Sets the bound of constraint `j`.
    pub fn set_bound(&mut self, j: usize, bound: f64) {
        self.constraints[j].bound = bound;
    }

    /// Returns the temperature of the surrogate rates in constraint `j`, the lowest of several; `None` if there are none.
    pub(super) fn temperature(&self, j: usize) -> Option<f64> {
        let temperature = |s: &Summand| match &s.piece {
            Piece::Term(term) => term.rates().map(|rates| rates.temperature),
            Piece::Penalty(_) => None,
        };
        self.constraints[j].pieces.iter().filter_map(temperature).reduce(f64::min)
    }

    /// Multiplies the temperature of the surrogate rates in constraint `j` by `factor`. Returns false if there are none.
    pub fn scale_temperature(&mut self, j: usize, factor: f64) -> bool {
        // Constants depend on the temperature.
        self.units = OnceLock::new();
        self.constraints[j].pieces.iter_mut().fold(false, |any, s| match &mut s.piece {
            Piece::Term(term) => term.scale_temperature(factor) || any,
            Piece::Penalty(_) => any,
        })
    }

    /// Computes the scores of all rows at `x`.
    pub fn scores(&self, x: &[f64]) -> Result<Vec<f64>> {
        crate::error::check_length("the point", x.len(), self.dim())?;
        let mut scores = vec![0.0; self.data.features.rows()];
        self.data.features.scores(0..scores.len(), self.weights(x), &mut scores);
        let offset = self.offset(x);
        if self.intercept {
            scores.iter_mut().for_each(|s| *s += offset);
        }
        Ok(scores)
    }

    /// Returns the weak-convexity constants of the objective and of every constraint: the sharpest ones, or those printed in
    /// the papers.
    pub fn moduli(&self, which: Constant) -> (Option<f64>, Vec<Option<f64>>) {
        (
            self.objective.modulus(&self.populations, which),
            self.constraints.iter().map(|c| c.modulus(&self.populations, which)).collect(),
        )
    }

    /// Computes second moments of the columns, with the intercept as a column of ones: the full matrix for few columns, else
    /// its diagonal.
    fn moments(&self) -> Scales {
        let features = &self.data.features;
        let (d, rows) = (self.dim(), features.rows());
        let share = 1.0 / rows.max(1) as f64;
        let full = d <= MOMENTS;
        let mut m = vec![0.0; if full { d * d } else { d }];
        let mut row: Vec<(usize, f64)> = vec![];
        for i in 0..rows {
            row.clear();
            features.visit_row(i, |column, v| row.push((column, v)));
            if self.intercept {
                row.push((features.cols(), 1.0));
            }
            for &(i, v) in &row {
                if full {
                    row.iter().for_each(|&(j, w)| m[i * d + j] += share * v * w);
                } else {
                    m[i] += share * v * v;
                }
            }
        }
        if full { Scales::Full(m) } else { Scales::Diagonal(m) }
    }
}

impl Description for Learning {
    fn dim(&self) -> usize {
        self.data.features.cols() + usize::from(self.intercept)
    }

    fn num_constraints(&self) -> usize {
        self.constraints.len()
    }

    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Borrowed(&self.constraints[j].name)
    }

    fn constraint_scale(&self, j: usize) -> f64 {
        self.constraints[j].bound.abs().max(self.unit_of(&self.constraints[j]))
    }

    fn domain(&self) -> &dyn Set {
        &*self.domain
    }

    fn streams(&self) -> &[usize] {
        &self.sizes
    }

    fn objective_uses(&self, stream: usize) -> bool {
        self.objective.uses(stream)
    }

    fn constraint_uses(&self, j: usize, stream: usize) -> bool {
        self.constraints[j].uses(stream)
    }

    fn objective_modulus(&self) -> Option<Modulus> {
        self.objective.modulus(&self.populations, Constant::Sharp).map(|value| Modulus { value, source: Source::Proved })
    }

    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.constraints[j].modulus(&self.populations, Constant::Sharp).map(|value| Modulus { value, source: Source::Proved })
    }

    fn rounding(&self, x: &[f64], values: &[f64]) -> Vec<Rounding> {
        self.rounding_at(x, values)
    }

    fn fingerprint(&self) -> String {
        let hash = self.hash.get_or_init(|| self.data.hash());
        let constraints: Vec<String> = self.constraints.iter().map(|c| format!("{} <= {}", c.expression, c.bound)).collect();
        let mix = |hash: u64, s: &f64| (hash.rotate_left(23) ^ s.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let scales = self.column_scales.as_ref().filter(|_| self.given_scales);
        let scales = scales.map_or(String::new(), |s| format!(", column scales {:016x}", s.iter().fold(1, mix)));
        format!(
            "minimise {} subject to {} over {}, {} of {} rows for losses{}, data {hash:016x}{scales}",
            self.objective.expression,
            if constraints.is_empty() { "nothing".into() } else { constraints.join(", ") },
            self.domain.describe(),
            self.parts[0].len(),
            self.data.features.rows(),
            if self.intercept { ", with intercept" } else { "" },
        )
    }

    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for Learning {
    fn scratch(&self) -> Scratch {
        Scratch::new(Buffers {
            parts: self.parts.iter().map(|r| PartBuffer { scores: vec![0.0; r.len()], ..PartBuffer::default() }).collect(),
            populations: self
                .populations
                .iter()
                .map(|_| PopulationBuffer {
                    holds: BufferContent::Nothing,
                    rows: vec![],
                    scores: vec![],
                    labels: vec![],
                    weights: vec![],
                    slopes: vec![],
                })
                .collect(),
            objective: vec![0.0; self.objective.statistics],
            statistics: vec![0.0; self.num_statistics()],
            outer: vec![],
            branches: vec![],
            weights: vec![0.0; self.constraints.len()],
            work: Work::default(),
            smooth: SmoothValues::default(),
        })
    }

    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        let mut statistics = std::mem::take(&mut buffers.objective);
        self.measure(&self.objective, at, &mut statistics, buffers);
        let value = self.objective.value(&statistics);
        buffers.objective = statistics;
        Ok(value)
    }

    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        self.constraint_forward(at, which, g, scratch.get()?);
        Ok(())
    }
}

impl Structure for Learning {
    fn inf_projection(&self) -> Option<&dyn InfProjection> {
        self.loss_form.get_or_init(|| self.find_loss_form()).as_ref().map(|form| form as &dyn InfProjection)
    }

    fn sample_losses(&self) -> Option<&dyn SampleLosses> {
        self.row_losses.get_or_init(|| self.find_row_losses()).as_ref().map(|losses| losses as &dyn SampleLosses)
    }

    fn scales(&self) -> Option<&Scales> {
        Some(self.scales.get_or_init(|| self.moments()))
    }

    fn units(&self) -> Option<&KnownUnits> {
        self.units.get_or_init(|| self.find_units()).as_ref()
    }

    fn composite(&self) -> Option<&dyn Composite> {
        Some(self)
    }

    fn smooth(&self) -> Option<&dyn SmoothForm> {
        self.is_smooth().then_some(self)
    }
}

impl Composite for Learning {
    fn num_statistics(&self) -> usize {
        self.constraints.iter().map(|f| f.statistics).sum()
    }

    fn statistic_values(&self, at: At, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        for (f, &begin) in self.constraints.iter().zip(&self.offsets) {
            self.measure(f, at, &mut out[begin..begin + f.statistics], buffers);
        }
        Ok(())
    }

    fn constraints_from(&self, statistics: &[f64], g: &mut [f64]) -> Result<()> {
        for ((f, &begin), g) in self.constraints.iter().zip(&self.offsets).zip(g) {
            *g = f.value(&statistics[begin..begin + f.statistics]);
        }
        Ok(())
    }

    fn statistic_vjp(&self, at: At, statistics: &[f64], weights: &[f64], grad: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        for (f, _) in self.constraints.iter().zip(weights).filter(|(_, w)| **w != 0.0) {
            f.pieces.iter().flat_map(|s| &s.populations).for_each(|&p| self.score(p, at, buffers));
        }
        self.constraint_backward(at, statistics, weights, grad, buffers);
        Ok(())
    }
}

impl Subgradients for Learning {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        let mut statistics = std::mem::take(&mut buffers.objective);
        self.measure(&self.objective, at, &mut statistics, buffers);
        grad.fill(0.0);
        self.push(&self.objective, at, Outer::at(&statistics), 1.0, grad, buffers);
        self.pull(grad, buffers);
        let value = self.objective.value(&statistics);
        buffers.objective = statistics;
        Ok(value)
    }

    fn objective_cuts(&self, at: At, values: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<usize> {
        let Some((first, more)) = values.split_first_mut() else { return Ok(0) };
        let (grad, rows) = rows.split_at_mut(self.dim());
        *first = self.objective_grad(at, grad, scratch)?;
        let Some((place, summand, term)) = self.objective.with_branches() else { return Ok(1) };
        // The forward pass of the first cut is still in the buffers and serves the others.
        let buffers: &mut Buffers = scratch.get()?;
        let statistics = std::mem::take(&mut buffers.objective);
        let mut branches = std::mem::take(&mut buffers.branches);
        let own = &statistics[summand.statistics.clone()];
        term.branches(own, more.len(), &mut branches);
        let largest = term.outer(own);
        let mut count = 1;
        for ((value, row), branch) in more.iter_mut().zip(rows.chunks_mut(self.dim().max(1))).zip(&branches) {
            // Nothing positive is added, so that rounding cannot lift a cut above the objective.
            *value = *first + summand.factor * (branch.value() - largest);
            row.fill(0.0);
            let outer = Outer { statistics: &statistics, branch: Some((place, *branch)) };
            self.push(&self.objective, at, outer, 1.0, row, buffers);
            self.pull(row, buffers);
            count += 1;
        }
        buffers.objective = statistics;
        buffers.branches = branches;
        Ok(count)
    }

    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        self.constraint_forward(at, Pick::All, g, buffers);
        let mut weights = std::mem::take(&mut buffers.weights);
        weights.fill(0.0);
        weigh(g, &mut weights);
        if weights.iter().any(|&w| w != 0.0) {
            let statistics = std::mem::take(&mut buffers.statistics);
            self.constraint_backward(at, &statistics, &weights, grad, buffers);
            buffers.statistics = statistics;
        }
        buffers.weights = weights;
        Ok(())
    }

    fn constraint_rows(&self, at: At, which: &[u32], g: &mut [f64], rows: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        self.constraint_forward(at, Pick::These(which), g, buffers);
        let statistics = std::mem::take(&mut buffers.statistics);
        for (&j, row) in which.iter().zip(rows.chunks_mut(self.dim().max(1))) {
            let (f, begin) = (&self.constraints[j as usize], self.offsets[j as usize]);
            row.fill(0.0);
            self.push(f, at, Outer::at(&statistics[begin..begin + f.statistics]), 1.0, row, buffers);
            self.pull(row, buffers);
        }
        buffers.statistics = statistics;
        Ok(())
    }
}
