//! Constraints of a learning problem seen in detail at a point: measured 0/1 rates beside their surrogates, and the statistics
//! and rows behind each value. Nothing here is part of a run.

use super::function::{Function, Piece, Summand};
use super::gap::Contrast;
use super::passes::Buffers;
use super::population::describe;
use super::problem::Learning;
use super::roc::{Scored, largest_counted_gap};
use super::term::{RowNorms, Subpopulation, View};
use crate::oracle::{At, Draw, Values, Warm};
use crate::{Error, Result};

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

impl Learning {
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
            let whom = describe(&self.data, Subpopulation::Group(k as u32));
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
}
