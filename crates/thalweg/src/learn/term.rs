//! The seam of a term: a function of means over populations of rows. Every quantity here has the form
//! `outer(mean_1, mean_2, …)`, which is what lets one code path serve values, subgradients, mini-batches and recursive
//! estimators.

use super::gap::Contrast;
use super::loss::Loss;
use super::wasserstein::Coupling;
use crate::math::sigmoid::SigmoidScratch;

/// A population of rows, relative to the part of the data that a term is computed on.
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
    /// Whether a row with this group and label belongs here.
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

/// Where a term's rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The rows that losses are computed on.
    Losses,
    /// The rows that gaps between groups are computed on.
    Gaps,
}

/// The drawn rows of one population, one entry per row.
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
    /// Weight of row `i` in the mean over the view.
    #[inline]
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[i])
    }
}

/// Working space shared by all terms of a run.
#[derive(Debug, Default)]
pub struct Work {
    /// For means of sigmoids over thresholds.
    pub sigmoid: SigmoidScratch,
    /// Slots of chunked sums.
    pub slots: Vec<f64>,
    /// The coupling of two populations that was made last.
    pub(super) coupling: Coupling,
}

/// A population seen from a term: its share of the whole and the size of its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowNorms {
    /// Total weight of the population's rows.
    pub weight: f64,
    /// Weighted mean of the squared norms of its rows.
    pub mean_square: f64,
}

/// Which weak-convexity constant is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// The sharpest one that is proved.
    Sharp,
    /// As the papers print it.
    AsPrinted,
}

/// One of the functions that a gap is the largest of, at given statistics: a difference of group means, with its sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Branch {
    /// Which difference.
    pub row: usize,
    /// At which position of the grid.
    pub position: usize,
    /// The difference with its sign.
    pub gap: f64,
}

impl Branch {
    /// The value, at most that of the term: the sign is part of the branch.
    pub fn value(&self) -> f64 {
        self.gap.abs()
    }
}

/// What a term made of rates consists of. A rate is the share of rows with a score above a threshold, softened to the mean of
/// `sigmoid((score - threshold) / temperature)`: the value of a row is in [0, 1], whatever its score.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// One for each statistic of a population.
    pub thresholds: &'a [f64],
    /// The width of the softened step.
    pub temperature: f64,
    /// How the rates of the populations become the value.
    pub(super) compared: Compared<'a>,
}

/// How rates become the value of a term.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compared<'a> {
    /// The largest difference between groups.
    Gap(&'a Contrast),
    /// The larger of two such gaps, of the first and of the second half of the populations.
    Larger([&'a Contrast; 2]),
    /// The rate of the one population.
    Share,
    /// One minus the rate of the one population.
    Rest,
}

impl Compared<'_> {
    /// Between which values the term lies when the mean of population `k` lies in `range(k, position)`, whatever the other
    /// means are.
    pub(super) fn enclosure(&self, positions: usize, range: impl Fn(usize, usize) -> [f64; 2]) -> [f64; 2] {
        match self {
            Compared::Gap(contrast) => contrast.enclosure(positions, range),
            Compared::Larger([one, other]) => {
                let [low, high] = one.enclosure(positions, &range);
                let [least, most] = other.enclosure(positions, |k, position| range(one.groups() + k, position));
                [low.max(least), high.max(most)]
            }
            Compared::Share => range(0, 0),
            Compared::Rest => {
                let [low, high] = range(0, 0);
                [1.0 - high, 1.0 - low]
            }
        }
    }

    /// Whether the groups' shares of the rows are part of the value.
    pub(super) fn uses_shares(&self) -> bool {
        match self {
            Compared::Gap(contrast) | Compared::Larger([contrast, _]) => contrast.groups() > 2,
            Compared::Share | Compared::Rest => false,
        }
    }
}

/// A term that is a function of the losses of the rows of one population.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfLosses {
    /// Which loss.
    pub loss: Loss,
    /// Which function.
    pub how: LossStatistic,
}

/// A function of the losses l_i of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossStatistic {
    /// Their mean.
    Mean,
    /// Their variance, the mean of `(l_i - mean)^2`.
    Variance,
    /// `sqrt(variance / rows)`.
    Deviation {
        /// Rows in the whole population, each as often as its weight says.
        rows: f64,
    },
    /// The mean over rows of `min over v in [0, 1] of v l_i - v threshold + (softness / 2) v^2`.
    SelfPaced {
        /// The loss beyond which a row counts nothing.
        threshold: f64,
        /// The quadratic coefficient.
        softness: f64,
    },
}

/// A quantity computed from scores: `outer(statistics)`, where every statistic is the mean over one population of a function
/// of score and label. Statistics are ordered by population, [`Term::width`] for each.
pub trait Term: Send + Sync + std::fmt::Debug {
    /// The part of the data and the populations; their position is the index `k` below.
    fn populations(&self) -> (Part, Vec<Subpopulation>);
    /// Told the size of its populations once, before anything else.
    fn bind(&mut self, _populations: &[RowNorms]) {}
    /// Multiplies the temperature of softened steps by `factor`. False for a term that softens nothing.
    fn sharpen(&mut self, _factor: f64) -> bool {
        false
    }
    /// What it is as a function of losses, for a term that is one.
    fn of_losses(&self) -> Option<OfLosses> {
        None
    }
    /// Statistics per population.
    fn width(&self) -> usize {
        1
    }
    /// Whether rows are compared across its two populations, so that [`Term::couple`] has to see both at once.
    fn is_coupled(&self) -> bool {
        false
    }
    /// For a coupled term: looks at the drawn rows of both populations and leaves what it finds in `work`. Called right
    /// before the means, and again right before the slopes, since other terms use `work` in between.
    fn couple(&self, _views: [View; 2], _work: &mut Work) {}
    /// Means of population `k` into `out`.
    fn measure(&self, k: usize, view: View, work: &mut Work, out: &mut [f64]);
    /// The same means with every softened step made hard again, into `out`: the 0/1 rates that a person would count. False,
    /// and `out` untouched, for a term that softens nothing.
    fn count(&self, _k: usize, _view: View, _out: &mut [f64]) -> bool {
        false
    }
    /// The rates that the term is made of; `None` for a term whose rows have values without a known range.
    fn rates(&self) -> Option<Rates<'_>> {
        None
    }
    /// The term's value.
    fn outer(&self, statistics: &[f64]) -> f64;
    /// Derivative of the value by each statistic (one element of it at a kink) into `out`.
    fn outer_slopes(&self, statistics: &[f64], out: &mut [f64]);
    /// Whether the value is the largest of several branches, each of them weakly convex with the term's constant.
    fn has_branches(&self) -> bool {
        false
    }
    /// Branches that are worth a cut beside the one that [`Term::outer`] takes: at most `limit`, near it in value but
    /// different from it and from one another, the most useful first, in place of what was in `out`.
    fn branches(&self, _statistics: &[f64], _limit: usize, out: &mut Vec<Branch>) {
        out.clear();
    }
    /// Derivative of the value of one of its branches by each statistic into `out`.
    fn branch_slopes(&self, _branch: &Branch, out: &mut [f64]) {
        out.fill(0.0);
    }
    /// `out[i]` becomes the derivative by the i-th score of the weighted sum of population `k`'s statistics, times the number
    /// of rows in the view: the caller divides, after summing over rows.
    fn slopes(&self, k: usize, view: View, weights: &[f64], work: &mut Work, out: &mut [f64]);
    /// Weak-convexity constant in the model's weights; `None` if there is none.
    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64>;
    /// A value that the term can never go below.
    fn minimum(&self) -> f64 {
        0.0
    }
}
