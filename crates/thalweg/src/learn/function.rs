//! The objective or one constraint of a learning problem: a weighted sum of terms and penalties minus a bound. Statistics of
//! the terms are computed in `passes.rs`.

use std::ops::Range;

use super::penalty::Penalty;
use super::population::Population;
use super::term::{Constant, RowNorms, Term};

/// One summand of a function.
#[derive(Debug)]
pub(super) enum Piece {
    Term(Box<dyn Term>),
    Penalty(Penalty),
}

/// Weighted sum of terms and penalties minus a bound.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) expression: String,
    pub(super) bound: f64,
    pub(super) pieces: Vec<Summand>,
    pub(super) statistics: usize,
    /// Constants that are added to the statistics; empty if there are none.
    pub(super) corrections: Vec<f64>,
}

#[derive(Debug)]
pub(super) struct Summand {
    pub(super) factor: f64,
    pub(super) piece: Piece,
    /// Indices into the problem's populations.
    pub(super) populations: Vec<usize>,
    /// Range of this summand's statistics within those of the function.
    pub(super) statistics: Range<usize>,
}

impl Function {
    pub(super) fn new(expression: String, pieces: Vec<(f64, Piece)>, bound: f64) -> Self {
        let pieces = pieces.into_iter().map(|(factor, piece)| Summand { factor, piece, populations: vec![], statistics: 0..0 });
        Function { name: expression.clone(), expression, bound, pieces: pieces.collect(), statistics: 0, corrections: vec![] }
    }

    /// Computes the value from the statistics.
    pub(super) fn value(&self, statistics: &[f64]) -> f64 {
        self.left(statistics) - self.bound
    }

    /// Computes the left-hand side, without subtracting the bound.
    pub(super) fn left(&self, statistics: &[f64]) -> f64 {
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

    /// Returns the summand with branches, its index and its term. `None` if two summands have branches: one cut for each pair
    /// would be too many.
    pub(super) fn with_branches(&self) -> Option<(usize, &Summand, &dyn Term)> {
        let mut with = self.pieces.iter().enumerate().filter_map(|(i, s)| match &s.piece {
            Piece::Term(term) if term.has_branches() => Some((i, s, term.as_ref())),
            _ => None,
        });
        with.next().filter(|_| with.next().is_none())
    }

    pub(super) fn modulus(&self, populations: &[Population], which: Constant) -> Option<f64> {
        self.modulus_by(|p| populations[p].norms, Penalty::modulus, which)
    }

    /// Returns the weak-convexity constant for the given norms of the rows of each population, and constants of penalties.
    pub(super) fn modulus_by(
        &self,
        norms: impl Fn(usize) -> RowNorms,
        of_penalty: impl Fn(&Penalty) -> f64,
        which: Constant,
    ) -> Option<f64> {
        self.pieces
            .iter()
            .map(|s| {
                let constant = match &s.piece {
                    Piece::Term(term) => {
                        let norms: Vec<RowNorms> = s.populations.iter().map(|&p| norms(p)).collect();
                        term.modulus(&norms, which)?
                    }
                    Piece::Penalty(penalty) => of_penalty(penalty),
                };
                Some(s.factor * constant)
            })
            .sum()
    }

    pub(super) fn uses(&self, population: usize) -> bool {
        self.pieces.iter().any(|s| s.populations.contains(&population))
    }
}
