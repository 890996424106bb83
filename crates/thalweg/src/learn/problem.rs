//! The problem that terms make: scores once per visited point, shared by all terms; one pull-back pass over the rows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::best::Best;
use super::build::Builder;
use super::data::{Data, Parts};
use super::gap::Contrast;
use super::inf_projection::{Form, LossForm, Sampled};
use super::loss::Loss;
use super::penalty::{Convex, Penalty};
use super::references::References;
use super::roc::{Scored, largest_counted_gap};
use super::sample_losses::RowLosses;
use super::term::{Branch, Constant, LossStatistic, OfLosses, Part, RowNorms, Subpopulation, Term, View, Work};
use crate::math::vec;
use crate::oracle::{
    At, Composite, Description, Draw, InfProjection, Modulus, Pick, SampleLosses, Scales, Scratch, Source, Structure,
    Subgradients, Values, Warm,
};
use crate::sets::Set;
use crate::{Error, Result};

/// Columns up to which all products of two are worth their cost: a square matrix, and its triangle for every cut.
const MOMENTS: usize = 512;

/// One summand of a function.
#[derive(Debug)]
pub(super) enum Piece {
    Term(Box<dyn Term>),
    Penalty(Penalty),
}

/// A sum of multiples of terms, minus a bound.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) expression: String,
    bound: f64,
    pieces: Vec<Summand>,
    statistics: usize,
}

#[derive(Debug)]
struct Summand {
    factor: f64,
    piece: Piece,
    /// Indices into the problem's populations.
    populations: Vec<usize>,
    /// This summand's statistics within the function's.
    statistics: Range<usize>,
}

impl Function {
    pub(super) fn new(expression: String, pieces: Vec<(f64, Piece)>, bound: f64) -> Self {
        let pieces = pieces.into_iter().map(|(factor, piece)| Summand { factor, piece, populations: vec![], statistics: 0..0 });
        Function { name: expression.clone(), expression, bound, pieces: pieces.collect(), statistics: 0 }
    }

    /// The value from the statistics.
    fn value(&self, statistics: &[f64]) -> f64 {
        self.left(statistics) - self.bound
    }

    /// The left-hand side, before the bound is taken off.
    fn left(&self, statistics: &[f64]) -> f64 {
        self.pieces
            .iter()
            .map(|s| {
                let own = &statistics[s.statistics.clone()];
                s.factor
                    * match &s.piece {
                        Piece::Term(term) => term.outer(own),
                        Piece::Penalty(_) => own[0],
                    }
            })
            .sum()
    }

    /// The one summand that has branches, its place and its term. None where two have them: a cut for every pair
    /// would be too many.
    fn with_branches(&self) -> Option<(usize, &Summand, &dyn Term)> {
        let mut with = self.pieces.iter().enumerate().filter_map(|(i, s)| match &s.piece {
            Piece::Term(term) if term.has_branches() => Some((i, s, term.as_ref())),
            _ => None,
        });
        with.next().filter(|_| with.next().is_none())
    }

    fn modulus(&self, problem: &Learning, which: Constant) -> Option<f64> {
        self.pieces
            .iter()
            .map(|s| {
                let constant = match &s.piece {
                    Piece::Term(term) => {
                        let norms: Vec<RowNorms> = s.populations.iter().map(|&p| problem.populations[p].norms).collect();
                        term.modulus(&norms, which)?
                    }
                    Piece::Penalty(penalty) => penalty.modulus(),
                };
                Some(s.factor * constant)
            })
            .sum()
    }

    fn uses(&self, population: usize) -> bool {
        self.pieces.iter().any(|s| s.populations.contains(&population))
    }
}

/// A constraint at a point, opened for those who look behind its value.
pub(super) struct Opened<'a> {
    pub(super) name: &'a str,
    pub(super) bound: f64,
    /// The left-hand side.
    pub(super) value: f64,
    /// The left-hand side with 0/1 rates, if it has any.
    pub(super) counted: Option<f64>,
    pub(super) summands: Vec<OpenedSummand<'a>>,
}

/// A summand of an [`Opened`] constraint.
pub(super) struct OpenedSummand<'a> {
    pub(super) factor: f64,
    pub(super) piece: &'a Piece,
    /// The rows of each population, with the population's place in the problem.
    pub(super) populations: Vec<(usize, View<'a>)>,
    /// The statistics as they are trained on.
    pub(super) soft: &'a [f64],
    /// The statistics with 0/1 rates; as `soft` where nothing is softened.
    pub(super) hard: &'a [f64],
}

/// Where the outer functions of a function's terms are differentiated.
#[derive(Clone, Copy)]
struct Outer<'a> {
    statistics: &'a [f64],
    /// The place of a summand, and the branch of its term that is taken in place of the largest one.
    branch: Option<(usize, Branch)>,
}

impl<'a> Outer<'a> {
    fn at(statistics: &'a [f64]) -> Self {
        Outer { statistics, branch: None }
    }
}

/// A population of rows: one sample stream.
#[derive(Debug)]
struct Population {
    part: usize,
    who: Subpopulation,
    /// Positions within the part; `None` for all of it.
    members: Option<Vec<u32>>,
    /// Labels of the members, where they are not the whole part.
    labels: Vec<f64>,
    /// Row weights with mean 1.
    weights: Option<Vec<f64>>,
    norms: RowNorms,
}

/// A linear model's training problem: minimise one sum of terms subject to others, over a simple set of weights.
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
    data: Arc<Data>,
    intercept: bool,
    parts: Vec<Range<usize>>,
    populations: Vec<Population>,
    sizes: Vec<usize>,
    objective: Function,
    constraints: Vec<Function>,
    /// Where each constraint's statistics begin.
    offsets: Vec<usize>,
    domain: Arc<dyn Set>,
    references: References,
    hash: OnceLock<u64>,
    scales: OnceLock<Scales>,
    loss_form: OnceLock<Option<LossForm>>,
    row_losses: OnceLock<Option<RowLosses>>,
}

/// A term of a loss: its factor, the loss, what is made of it, and the population.
type LossTerm = (f64, Loss, LossStatistic, usize);

/// See [`Learning::find_losses`].
struct FoundLosses {
    mean: Option<LossTerm>,
    spread: Option<LossTerm>,
    penalties: Vec<(f64, Penalty)>,
}

impl Learning {
    /// Starts putting a problem together.
    pub fn on(data: Data) -> Builder {
        Builder::new(data)
    }

    /// Starts another problem on the same rows, which are shared and not copied: divided between losses and gaps in the same
    /// way, with or without an intercept, with the same reference values and the same meaning of "erm". Its domain is the
    /// whole space until the builder is told otherwise.
    pub fn beside(&self) -> Builder {
        let gaps = self.parts[self.parts.len() - 1].clone();
        let parts = Parts { losses: self.parts[0].clone(), gaps };
        Builder::beside(&self.data, parts, self.intercept, &self.references)
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
            hash: OnceLock::new(),
            scales: OnceLock::new(),
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

    /// Finds or makes the populations of a function's terms and lays out its statistics.
    fn bind(&mut self, function: &mut Function) -> Result<()> {
        let mut end = 0;
        for s in &mut function.pieces {
            let width = match &mut s.piece {
                Piece::Penalty(_) => 1,
                Piece::Term(term) => {
                    let (part, who) = term.populations();
                    s.populations =
                        who.into_iter().map(|who| self.population(part, who, &function.expression)).collect::<Result<_>>()?;
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

    fn population(&mut self, part: Part, who: Subpopulation, term: &str) -> Result<usize> {
        let part = match part {
            Part::Losses => 0,
            Part::Gaps => self.parts.len() - 1,
        };
        if let Some(known) = self.populations.iter().position(|p| p.part == part && p.who == who) {
            return Ok(known);
        }
        let range = self.parts[part].clone();
        let group = |i: usize| self.data.groups.as_ref().map(|g| g.of_row[i]);
        let rows: Vec<usize> = range.clone().filter(|&i| who.contains(group(i), self.data.labels[i])).collect();
        let weight = |i: usize| self.data.weights.as_ref().map_or(1.0, |w| w[i]);
        let total: f64 = rows.iter().map(|&i| weight(i)).sum();
        if total <= 0.0 {
            let whom = self.describe(who);
            let why = if rows.is_empty() { "there is none" } else { "their weights are all 0" };
            return Err(Error::Problem(format!("'{term}' needs {whom} among the rows it is computed on, but {why}")));
        }
        let constant = f64::from(u8::from(self.intercept));
        let mean_square =
            rows.iter().map(|&i| weight(i) * (self.data.features.row_norm_squared(i) + constant)).sum::<f64>() / total;
        let n = rows.len() as f64;
        let whole = rows.len() == range.len();
        self.populations.push(Population {
            part,
            who,
            labels: if whole { vec![] } else { rows.iter().map(|&i| self.data.labels[i]).collect() },
            weights: self.data.weights.as_ref().map(|w| rows.iter().map(|&i| w[i] * n / total).collect()),
            members: (!whole).then(|| rows.iter().map(|&i| (i - range.start) as u32).collect()),
            norms: RowNorms { weight: total, mean_square },
        });
        Ok(self.populations.len() - 1)
    }

    fn describe(&self, who: Subpopulation) -> String {
        let name = |k: u32| self.data.groups.as_ref().and_then(|g| g.names.get(k as usize)).map_or("?", String::as_str);
        match who {
            Subpopulation::Everyone => "rows".into(),
            Subpopulation::Positives => "rows with label +1".into(),
            Subpopulation::Negatives => "rows with label -1".into(),
            Subpopulation::Group(k) => format!("rows of group '{}'", name(k)),
            Subpopulation::GroupPositives(k) => format!("rows of group '{}' with label +1", name(k)),
            Subpopulation::GroupNegatives(k) => format!("rows of group '{}' with label -1", name(k)),
        }
    }

    /// The data behind the problem; a shuffled split has moved the rows.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The reference values that bounds, thresholds, domain and start were made from.
    pub fn references(&self) -> &[Best] {
        &self.references.list
    }

    /// The reference value of the problem's loss, with its minimiser, if the problem asked for it.
    pub fn erm(&self) -> Option<&Best> {
        self.references.erm()
    }

    pub(super) fn refer(&mut self, references: References) {
        self.references = references;
    }

    /// The objective in words.
    pub(super) fn objective_text(&self) -> &str {
        &self.objective.expression
    }

    /// Where the objective is `expression` alone, a term of two populations: the stream and the rows of each.
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

    /// What the objective is made of, if that is at most one mean loss, at most one other term of a loss, and penalties. None for
    /// every other objective, and with constraints.
    fn find_losses(&self) -> Option<FoundLosses> {
        if !self.constraints.is_empty() {
            return None;
        }
        let (mut mean, mut spread, mut penalties) = (None, None, vec![]);
        for s in &self.objective.pieces {
            match &s.piece {
                Piece::Penalty(penalty) => penalties.push((s.factor, *penalty)),
                Piece::Term(term) => {
                    let OfLosses { loss, how } = term.of_losses()?;
                    let [population] = s.populations[..] else { return None };
                    let place = if how == LossStatistic::Mean { &mut mean } else { &mut spread };
                    if place.replace((s.factor, loss, how, population)).is_some() {
                        return None;
                    }
                }
            }
        }
        Some(FoundLosses { mean, spread, penalties })
    }

    /// The objective as losses of single samples: a mean loss, alone or with the variance of the same loss over the same rows;
    /// beside it only penalties that are convex. None where rows have weights: equal weights are then not what the mean has.
    fn find_row_losses(&self) -> Option<RowLosses> {
        let FoundLosses { mean, spread, penalties } = self.find_losses()?;
        let (factor, loss, _, p) = mean?;
        let varies = |how| matches!(how, LossStatistic::Variance | LossStatistic::Deviation { .. });
        if spread.is_some_and(|(_, of_spread, how, q)| !varies(how) || of_spread != loss || q != p) {
            return None;
        }
        let (rows, penalties) = (self.sampled(p), Convex::of(penalties)?);
        let domain = Arc::clone(&self.domain);
        rows.weights.is_none().then_some(RowLosses { rows, loss, factor, penalties, domain })
    }

    /// The objective as an inf-projection problem: a loss and the variance of the same loss over the same rows, or a self-paced
    /// loss alone; beside it only penalties that are convex. None for every other objective, and with constraints.
    fn find_loss_form(&self) -> Option<LossForm> {
        let FoundLosses { mean, spread, penalties } = self.find_losses()?;
        let (b, loss, how, p) = spread?;
        let (a, form) = match how {
            LossStatistic::Mean => return None,
            LossStatistic::SelfPaced { threshold, softness } if mean.is_none() => (b, Form::SelfPaced { threshold, softness }),
            LossStatistic::SelfPaced { .. } => return None,
            LossStatistic::Variance | LossStatistic::Deviation { .. } => {
                let (a, ..) = mean.filter(|&(_, of_mean, _, q)| of_mean == loss && q == p)?;
                match how {
                    // At 0 all losses are equal. The best alpha is that of a variance of 1.
                    LossStatistic::Deviation { rows } => (a, Form::Deviation { factor: b, profiled_scalar: rows.sqrt(), rows }),
                    _ => (a, Form::Variance(b)),
                }
            }
        };
        LossForm::new(self.sampled(p), (a, loss), form, penalties, Arc::clone(&self.domain), self.fingerprint())
    }

    /// The rows of a population.
    fn sampled(&self, population: usize) -> Sampled {
        let Population { part, members, weights, .. } = &self.populations[population];
        Sampled {
            data: Arc::clone(&self.data),
            intercept: self.intercept,
            begin: self.parts[*part].start,
            length: self.parts[*part].len(),
            members: members.as_deref().map(Arc::from),
            weights: weights.as_deref().map(Arc::from),
        }
    }

    /// The domain, for a problem with more variables.
    pub(super) fn shared_domain(&self) -> Arc<dyn Set> {
        Arc::clone(&self.domain)
    }

    /// The smallest and the largest score at `x` over the rows that losses are computed on. Rows of weight 0 are as good as
    /// absent.
    pub(super) fn loss_score_range(&self, x: &[f64]) -> Result<[f64; 2]> {
        let scores = self.scores(x)?;
        let counts = |i: &usize| self.data.weights.as_ref().is_none_or(|w| w[*i] > 0.0);
        let all = self.parts[0].clone().filter(counts).map(|i| scores[i]);
        Ok(all.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], s| [low.min(s), high.max(s)]))
    }

    /// The bound of constraint `j`, which its value is measured from.
    pub fn bound(&self, j: usize) -> f64 {
        self.constraints[j].bound
    }

    /// How far the bound of constraint `j` lies above the smallest value of its expression, where that is known.
    pub(super) fn room(&self, j: usize) -> Option<f64> {
        let known = self.references.list.iter().find(|best| best.expression == self.constraints[j].expression);
        known.map(|best| (self.constraints[j].bound - best.value).max(0.0))
    }

    /// Moves the bound of constraint `j`.
    pub fn set_bound(&mut self, j: usize, bound: f64) {
        self.constraints[j].bound = bound;
    }

    /// Multiplies the temperature of the softened terms of constraint `j` by `factor`. False if it has none.
    pub fn sharpen(&mut self, j: usize, factor: f64) -> bool {
        self.constraints[j].pieces.iter_mut().fold(false, |any, s| match &mut s.piece {
            Piece::Term(term) => term.sharpen(factor) || any,
            Piece::Penalty(_) => any,
        })
    }

    /// Every constraint's left-hand side at `x` with 0/1 rates in place of softened ones; `None` for a constraint that softens
    /// nothing.
    pub fn counted(&self, x: &[f64]) -> Result<Vec<Option<f64>>> {
        crate::error::check_length("the point", x.len(), self.dim())?;
        let mut scratch = self.scratch();
        let buffers: &mut Buffers = scratch.get()?;
        let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
        Ok(self.constraints.iter().map(|f| self.count(f, at, buffers)).collect())
    }

    /// The largest difference, over all thresholds, between the shares of groups whose score at `x` is above the threshold, on
    /// the rows that gaps are computed on: the distance of their ROC curves that no grid misses. With more than two groups,
    /// each against the share of all.
    pub fn counted_roc_gap(&self, x: &[f64]) -> Result<f64> {
        const WHAT: &str = "counted_roc_gap";
        let scores = self.scores(x)?;
        let Some(groups) = self.data.groups.as_ref().filter(|groups| groups.names.len() > 1) else {
            let have = if self.data.groups.is_some() { "only one" } else { "none" };
            return Err(Error::Problem(format!("{WHAT} compares groups, but the data have {have}")));
        };
        let weight = |i: usize| self.data.weights.as_ref().map_or(1.0, |w| w[i]);
        let range = self.parts[self.parts.len() - 1].clone();
        let mut rows: Vec<Scored> =
            range.map(|i| Scored { score: scores[i], group: groups.of_row[i] as usize, weight: weight(i) }).collect();
        let mut totals = vec![0.0; groups.names.len()];
        rows.iter().for_each(|row| totals[row.group] += row.weight);
        if let Some(k) = totals.iter().position(|&total| total <= 0.0) {
            let whom = self.describe(Subpopulation::Group(k as u32));
            return Err(Error::Problem(format!(
                "{WHAT} needs {whom} of a weight above 0 among the rows of gaps, but there is none"
            )));
        }
        let norms: Vec<RowNorms> = totals.iter().map(|&weight| RowNorms { weight, mean_square: 0.0 }).collect();
        Ok(largest_counted_gap(&mut rows, &Contrast::new(&norms), &totals))
    }

    fn count(&self, function: &Function, at: At, buffers: &mut Buffers) -> Option<f64> {
        let mut statistics = vec![0.0; function.statistics];
        self.measure(function, at, &mut statistics, buffers);
        self.harden(function, &mut statistics, buffers).then(|| function.left(&statistics))
    }

    /// Puts 0/1 rates in place of softened ones, once the scores are in the buffers. False if nothing was softened.
    fn harden(&self, function: &Function, statistics: &mut [f64], buffers: &Buffers) -> bool {
        let mut counted = false;
        for s in &function.pieces {
            if let Piece::Term(term) = &s.piece {
                let width = term.width();
                let own = &mut statistics[s.statistics.clone()];
                for (k, &p) in s.populations.iter().enumerate() {
                    counted |= term.count(k, self.seen(p, buffers), &mut own[k * width..(k + 1) * width]);
                }
            }
        }
        counted
    }

    /// Shows every constraint at `x`, all rows drawn.
    pub(super) fn open<'a>(&'a self, x: &[f64], mut show: impl FnMut(&Opened) -> Result<()>) -> Result<()> {
        crate::error::check_length("the point", x.len(), self.dim())?;
        let mut scratch = self.scratch();
        let buffers: &mut Buffers = scratch.get()?;
        let at = At { x, draw: &Draw::full(), warm: &Warm::default() };
        for f in &self.constraints {
            let mut soft = vec![0.0; f.statistics];
            self.measure(f, at, &mut soft, buffers);
            let mut hard = soft.clone();
            let counted = self.harden(f, &mut hard, buffers).then(|| f.left(&hard));
            let open = |s: &'a Summand| OpenedSummand {
                factor: s.factor,
                piece: &s.piece,
                populations: s.populations.iter().map(|&p| (p, self.seen(p, buffers))).collect(),
                soft: &soft[s.statistics.clone()],
                hard: &hard[s.statistics.clone()],
            };
            let summands = f.pieces.iter().map(open).collect();
            show(&Opened { name: &f.name, bound: f.bound, value: f.left(&soft), counted, summands })?;
        }
        Ok(())
    }

    /// Scores of all rows at `x`.
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

    /// Weak-convexity constant of the objective and of every constraint: the sharp one, or the one that the papers print.
    pub fn moduli(&self, which: Constant) -> (Option<f64>, Vec<Option<f64>>) {
        (self.objective.modulus(self, which), self.constraints.iter().map(|c| c.modulus(self, which)).collect())
    }

    /// Second moments of the columns, the intercept a column of ones: with all products where there are few columns.
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

    /// The model's weights without the intercept.
    fn weights<'x>(&self, x: &'x [f64]) -> &'x [f64] {
        &x[..self.data.features.cols()]
    }

    fn offset(&self, x: &[f64]) -> f64 {
        if self.intercept { x[x.len() - 1] } else { 0.0 }
    }

    /// Statistics of one function on the drawn rows.
    fn measure(&self, function: &Function, at: At, out: &mut [f64], buffers: &mut Buffers) {
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
    }

    /// Shows a coupled term the rows of both its populations, whose scores must be in the buffers.
    fn couple(&self, term: &dyn Term, populations: &[usize], buffers: &mut Buffers) {
        if let ([p, q], true) = (populations, term.is_coupled()) {
            let Buffers { parts, populations, work, .. } = buffers;
            let view = |p: usize| self.view(p, &populations[p], &parts[self.populations[p].part]);
            term.couple([view(*p), view(*q)], work);
        }
    }

    /// Makes sure that the scores of population `p` at this point and draw are in the buffers.
    fn score(&self, p: usize, at: At, buffers: &mut Buffers) {
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
                    && own.holds != Holds::Visit(part.visits)
                {
                    own.scores.clear();
                    own.scores.extend(members.iter().map(|&m| part.scores[m as usize]));
                }
                own.holds = Holds::Visit(part.visits);
            }
            Pick::These(ids) => {
                own.holds = Holds::Batch;
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

    /// The rows of population `p` as a term sees them.
    fn view<'a>(&'a self, p: usize, own: &'a PopulationBuffer, part: &'a PartBuffer) -> View<'a> {
        let population = &self.populations[p];
        match (&own.holds, &population.members) {
            (Holds::Batch, _) => {
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

    /// [`Learning::view`] of what lies in the buffers.
    fn seen<'a>(&'a self, p: usize, buffers: &'a Buffers) -> View<'a> {
        self.view(p, &buffers.populations[p], &buffers.parts[self.populations[p].part])
    }

    /// Adds `weight` times the derivative of a function to the slopes of parts (full draw) or to `grad` (batch). The scores
    /// in the buffers must be those of `at`.
    fn push(&self, function: &Function, at: At, outer: Outer, weight: f64, grad: &mut [f64], buffers: &mut Buffers) {
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

    fn push_population(&self, term: &dyn Term, k: usize, p: usize, weights: &[f64], grad: &mut [f64], buffers: &mut Buffers) {
        let Buffers { parts, populations, work, .. } = buffers;
        let population = &self.populations[p];
        let part = &mut parts[population.part];
        let mut slopes = std::mem::take(&mut populations[p].slopes);
        let mut part_slopes = std::mem::take(&mut part.slopes);
        let own = &populations[p];
        let view = self.view(p, own, part);
        let rows = view.scores.len() as f64;
        let mut divisor = part.divisor;
        if own.holds == Holds::Batch {
            slopes.resize(view.scores.len(), 0.0);
            term.slopes(k, view, weights, work, &mut slopes);
            for (&row, &slope) in own.rows.iter().zip(&slopes).filter(|(_, s)| **s != 0.0) {
                self.data.features.add_row(row as usize, slope / rows, grad);
            }
            if self.intercept {
                grad[self.data.features.cols()] += vec::sum(&slopes) / rows;
            }
        } else if population.members.is_none() && divisor.is_none() {
            // The first term on a whole part writes where the pull reads.
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

    /// One pass over the rows of every part that has slopes: `grad += A^T slopes / divisor`.
    fn pull(&self, grad: &mut [f64], buffers: &mut Buffers) {
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

    /// Statistics of the picked constraints into the buffers, values into `g`.
    fn constraint_forward(&self, at: At, which: Pick, g: &mut [f64], buffers: &mut Buffers) {
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

    /// The weighted sum of constraint subgradients at statistics that lie in the buffers.
    fn constraint_backward(&self, at: At, statistics: &[f64], weights: &[f64], grad: &mut [f64], buffers: &mut Buffers) {
        grad.fill(0.0);
        for (j, (f, &w)) in self.constraints.iter().zip(weights).enumerate().filter(|(_, (_, w))| **w != 0.0) {
            let own = &statistics[self.offsets[j]..self.offsets[j] + f.statistics];
            self.push(f, at, Outer::at(own), w, grad, buffers);
        }
        self.pull(grad, buffers);
    }
}

impl Population {
    fn size(&self, parts: &[Range<usize>]) -> usize {
        self.members.as_ref().map_or(parts[self.part].len(), Vec::len)
    }
}

/// Buffers of a run on one [`Learning`] problem.
struct Buffers {
    parts: Vec<PartBuffer>,
    populations: Vec<PopulationBuffer>,
    objective: Vec<f64>,
    /// Statistics of all constraints.
    statistics: Vec<f64>,
    /// Derivatives of an outer function.
    outer: Vec<f64>,
    /// Branches of the objective beside the largest one.
    branches: Vec<Branch>,
    weights: Vec<f64>,
    work: Work,
}

/// Scores of all rows of a part at the last visited point, and the slopes to pull back.
#[derive(Default)]
struct PartBuffer {
    x: Vec<f64>,
    /// Points visited so far; 0 before the first.
    visits: u64,
    scores: Vec<f64>,
    slopes: Vec<f64>,
    slots: Vec<f64>,
    /// What the slopes are to be divided by; none while there are no slopes.
    divisor: Option<f64>,
}

impl PartBuffer {
    /// Fills the scores unless they are those of `x` already. Comparing x costs nothing next to a pass over rows, and unlike
    /// a promise it cannot be broken.
    fn visit(&mut self, x: &[f64], fill: impl FnOnce(&mut [f64])) {
        let same = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        if self.visits == 0 || !same(&self.x, x) {
            self.x.clear();
            self.x.extend_from_slice(x);
            self.visits += 1;
            fill(&mut self.scores);
        }
    }
}

/// What a population's buffer holds.
#[derive(PartialEq, Eq)]
enum Holds {
    Nothing,
    /// All members at this visit of the part.
    Visit(u64),
    Batch,
}

struct PopulationBuffer {
    holds: Holds,
    rows: Vec<u32>,
    scores: Vec<f64>,
    labels: Vec<f64>,
    weights: Vec<f64>,
    slopes: Vec<f64>,
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
        self.constraints[j].bound.abs().max(1.0)
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
        self.objective.modulus(self, Constant::Sharp).map(|value| Modulus { value, source: Source::Proved })
    }

    fn constraint_modulus(&self, j: usize) -> Option<Modulus> {
        self.constraints[j].modulus(self, Constant::Sharp).map(|value| Modulus { value, source: Source::Proved })
    }

    fn fingerprint(&self) -> String {
        let hash = self.hash.get_or_init(|| self.data.hash());
        let constraints: Vec<String> = self.constraints.iter().map(|c| format!("{} <= {}", c.expression, c.bound)).collect();
        format!(
            "minimise {} subject to {} over {}, {} of {} rows for losses{}, data {hash:016x}",
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
                    holds: Holds::Nothing,
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

    fn composite(&self) -> Option<&dyn Composite> {
        Some(self)
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
