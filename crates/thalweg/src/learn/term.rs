//! The interface of a term: a function of means over populations of rows, `outer(mean_1, mean_2, …)`. This common form lets one
//! implementation serve values, subgradients, mini-batches and recursive estimators; the terms themselves are in other files.

use super::gap::{Contrast, GroupComparison};
use super::loss::Loss;
use super::wasserstein::Coupling;
use crate::math::sigmoid::SigmoidScratch;

/// Population of rows within the part of the data that a term is computed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subpopulation {
    /// Every row.
    Everyone,
    /// Rows with label +1.
    Positives,
    /// Rows with label -1.
    Negatives,
    /// Rows of a group.
    Group(u32),
    /// Rows of a group with label +1.
    GroupPositives(u32),
    /// Rows of a group with label -1.
    GroupNegatives(u32),
}

impl Subpopulation {
    /// Returns whether a row with this group and label belongs to the population.
    pub fn contains(self, group: Option<u32>, label: f64) -> bool {
        match self {
            Subpopulation::Everyone => true,
            Subpopulation::Positives => label > 0.0,
            Subpopulation::Negatives => label < 0.0,
            Subpopulation::Group(k) => group == Some(k),
            Subpopulation::GroupPositives(k) => group == Some(k) && label > 0.0,
            Subpopulation::GroupNegatives(k) => group == Some(k) && label < 0.0,
        }
    }
}

/// Part of the data that a term is computed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The rows that losses are computed on.
    Losses,
    /// The rows that gaps between groups are computed on.
    Gaps,
}

/// Drawn rows of one population, one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Scores of the model.
    pub scores: &'a [f64],
    /// Labels, +1 or -1.
    pub labels: &'a [f64],
    /// Row weights with mean 1 over the population; `None` means 1 each.
    pub weights: Option<&'a [f64]>,
}

impl View<'_> {
    /// Returns the weight of row `i` in the mean over the view.
    #[inline]
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[i])
    }
}

/// Working space shared by all terms of a run.
#[derive(Debug, Default)]
pub struct Work {
    /// Buffers for means of sigmoids over thresholds.
    pub sigmoid: SigmoidScratch,
    /// Slots of chunked sums.
    pub slots: Vec<f64>,
    /// Most recent coupling of two populations.
    pub(super) coupling: Coupling,
}

/// Total weight and size of the rows of a population.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowNorms {
    /// Total weight of the population's rows.
    pub weight: f64,
    /// Weighted mean of the squared norms of its rows.
    pub mean_square: f64,
}

/// Choice of a weak-convexity constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// The sharpest proven constant.
    Sharp,
    /// The constant printed in the papers.
    AsPrinted,
}

/// One of the functions whose maximum is a gap: a signed difference of group means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Branch {
    /// Index of the difference.
    pub row: usize,
    /// Position on the grid of thresholds.
    pub position: usize,
    /// The signed difference.
    pub gap: f64,
}

impl Branch {
    /// Returns the value of the branch, at most that of the term.
    pub fn value(&self) -> f64 {
        self.gap.abs()
    }
}

/// Rates that a term consists of. A rate is the fraction of rows with a score above a threshold; its surrogate is the mean of
/// `sigmoid((score - threshold) / temperature)`. The contribution of a row is in [0, 1] for every score.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// Thresholds, one per statistic of a population.
    pub thresholds: &'a [f64],
    /// Width of the sigmoid.
    pub temperature: f64,
    /// Function that combines the rates of the populations.
    pub(super) comparison: Comparison<'a>,
}

/// Function that combines rates into the value of a term.
#[derive(Debug, Clone, Copy)]
pub(super) enum Comparison<'a> {
    /// The largest difference between groups.
    Gap(&'a Contrast),
    /// The larger of two such gaps, of the first and of the second half of the populations.
    Larger([&'a Contrast; 2]),
    /// The rate of the single population.
    Share,
    /// One minus the rate of the single population.
    Rest,
}

impl Comparison<'_> {
    /// Returns the number of groups and which of their differences count; `None` for a rate of one population.
    pub(super) fn of_groups(&self) -> Option<(usize, GroupComparison)> {
        match self {
            Comparison::Gap(contrast) | Comparison::Larger([contrast, _]) => Some((contrast.groups(), contrast.comparison())),
            Comparison::Share | Comparison::Rest => None,
        }
    }

    /// Returns whether the value depends on the fractions of the groups.
    pub(super) fn uses_shares(&self) -> bool {
        self.of_groups().is_some_and(|(_, comparison)| comparison == GroupComparison::ToOverall)
    }
}

/// A loss and a statistic of it over one population.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossFunction {
    /// The loss.
    pub loss: Loss,
    /// The statistic.
    pub statistic: LossStatistic,
}

/// Statistic of the losses l_i of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossStatistic {
    /// Their mean.
    Mean,
    /// Their variance, the mean of `(l_i - mean)^2`.
    Variance,
    /// `sqrt(variance / rows)`.
    Deviation {
        /// Rows in the whole population, counted with their weights.
        rows: f64,
    },
    /// The mean over rows of `min over v in [0, 1] of v l_i - v threshold + (softness / 2) v^2`.
    SelfPaced {
        /// Loss above which a row has weight 0.
        threshold: f64,
        /// The quadratic coefficient.
        softness: f64,
    },
}

/// One of the linear combinations of statistics whose maximum is a term.
#[derive(Debug, Clone, PartialEq)]
pub struct TermRow {
    /// Indices of statistics with their coefficients.
    pub coefficients: Vec<(usize, f64)>,
    /// Index of a free variable and its coefficient, if the row has one. The term is the smallest over these variables of the largest row.
    pub centre: Option<(usize, f64)>,
    /// Added to the combination.
    pub constant: f64,
}

/// Smooth form of a term: the maximum of linear combinations of statistics that are means of smooth functions of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct SmoothTerm {
    /// The combinations.
    pub rows: Vec<TermRow>,
    /// Bound on the absolute derivative of a row's contribution to a statistic with respect to its score.
    pub steepness: f64,
}

/// Quantity computed from scores: `outer(statistics)`, where every statistic is the mean over one population of a function of
/// score and label. Statistics are ordered by population, [`Term::width`] for each.
pub trait Term: Send + Sync + std::fmt::Debug {
    /// Returns the part of the data and the populations; their position is the index `k` below.
    fn populations(&self) -> (Part, Vec<Subpopulation>);
    /// Sets the sizes of the populations. Called once, before any other method.
    fn bind(&mut self, _populations: &[RowNorms]) {}
    /// Multiplies the temperature of surrogate rates by `factor`. Returns false for a term without rates.
    fn scale_temperature(&mut self, _factor: f64) -> bool {
        false
    }
    /// Returns the loss and the statistic of a term that is a function of losses.
    fn loss_function(&self) -> Option<LossFunction> {
        None
    }
    /// Returns the number of statistics per population.
    fn width(&self) -> usize {
        1
    }
    /// Returns whether the term compares rows across its two populations and therefore requires [`Term::couple`].
    fn is_coupled(&self) -> bool {
        false
    }
    /// Prepares a coupled term from the drawn rows of both populations and stores the result in `work`. Called right before the
    /// means and again right before the slopes, since other terms use `work` in between.
    fn couple(&self, _views: [View; 2], _work: &mut Work) {}
    /// Computes the means of population `k`.
    fn measure(&self, k: usize, view: View, work: &mut Work, out: &mut [f64]);
    /// Computes the same means with 0/1 rates in place of their surrogates. Returns false, and leaves `out` unchanged, for a
    /// term without rates.
    fn zero_one_rates(&self, _k: usize, _view: View, _out: &mut [f64]) -> bool {
        false
    }
    /// Returns the rates of the term; `None` for a term whose rows have values without a known range.
    fn rates(&self) -> Option<Rates<'_>> {
        None
    }
    /// Computes the value from the statistics.
    fn outer(&self, statistics: &[f64]) -> f64;
    /// Computes the derivative of the value with respect to each statistic, one element of the subdifferential at a kink.
    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]);
    /// Returns whether the value is the maximum of several branches, each of them weakly convex with the term's constant.
    fn has_branches(&self) -> bool {
        false
    }
    /// Selects branches that are worth a cut in addition to that of [`Term::outer`]: at most `limit`, close to the maximum but
    /// different from it and from each other, the most useful first. Replaces the content of `out`.
    fn branches(&self, _statistics: &[f64], _limit: usize, out: &mut Vec<Branch>) {
        out.clear();
    }
    /// Computes the derivative of a branch with respect to each statistic.
    fn branch_slopes(&self, _branch: &Branch, out: &mut [f64]) {
        out.fill(0.0);
    }
    /// Sets `out[i]` to the derivative of the weighted sum of population `k`'s statistics with respect to the i-th score, times
    /// the number of rows in the view: the caller divides after summing over rows.
    fn slopes(&self, k: usize, view: View, weights: &[f64], work: &mut Work, out: &mut [f64]);
    /// Returns the weak-convexity constant in the model's weights; `None` if there is none.
    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64>;
    /// Returns the smooth form of the term; `None` if it has none.
    fn smooth(&self) -> Option<SmoothTerm> {
        None
    }
    /// Adds to `out[i]` `weight` times the second derivative of population `k`'s statistic with respect to the i-th score, times the
    /// number of rows in the view. Required of a term with a smooth form.
    fn add_curvatures(&self, _k: usize, _view: View, _weight: f64, _out: &mut [f64]) {}
    /// Returns a lower bound of the term.
    fn minimum(&self) -> f64 {
        0.0
    }
}
