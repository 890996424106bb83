//! Error rates over the rows of one label, with a sigmoid as surrogate of the step function. Gaps between the rates of groups
//! are in `gap.rs`.

use super::gap::{MAX_SIGMOID_CURVATURE, positive_rate_items, sigmoid_steepness, weigh};
use super::term::{Comparison, Constant, Part, Rates, RowNorms, SmoothTerm, Subpopulation, Term, TermRow, View, Work};
use crate::math::sigmoid;

/// Error rate: false positives among the rows with label -1, or false negatives among those with label +1.
///
/// The statistic of both is the mean of `sigmoid(score / temperature)`, the surrogate of the positive rate; the surrogate of
/// the false-negative rate is 1 minus it, since `sigmoid(-z) = 1 - sigmoid(z)`. The measured rate predicts a row as positive if
/// its score is above 0.
///
/// With `q` the mean of the squared norms of the rows, the weak-convexity constant is `q / (6 sqrt(3) temperature^2)`: the
/// second derivative of the sigmoid lies between -1 / (6 sqrt 3) and 1 / (6 sqrt 3).
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRate {
    errors: Errors,
    temperature: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errors {
    FalsePositives,
    FalseNegatives,
}

impl ErrorRate {
    /// Fraction of the rows with label -1 that are predicted positive.
    pub fn false_positive(temperature: f64) -> Self {
        ErrorRate { errors: Errors::FalsePositives, temperature }
    }

    /// Fraction of the rows with label +1 that are predicted negative.
    pub fn false_negative(temperature: f64) -> Self {
        ErrorRate { errors: Errors::FalseNegatives, temperature }
    }
}

impl Term for ErrorRate {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        let subpopulation = match self.errors {
            Errors::FalsePositives => Subpopulation::Negatives,
            Errors::FalseNegatives => Subpopulation::Positives,
        };
        (Part::Losses, vec![subpopulation])
    }

    positive_rate_items!();

    fn rates(&self) -> Option<Rates<'_>> {
        let comparison = match self.errors {
            Errors::FalsePositives => Comparison::Share,
            Errors::FalseNegatives => Comparison::Rest,
        };
        Some(Rates { thresholds: &[0.0], temperature: self.temperature, comparison })
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        match self.errors {
            Errors::FalsePositives => statistics[0],
            Errors::FalseNegatives => 1.0 - statistics[0],
        }
    }

    fn outer_slopes(&self, _: &[f64], out: &mut [f64]) {
        out[0] = match self.errors {
            Errors::FalsePositives => 1.0,
            Errors::FalseNegatives => -1.0,
        };
    }

    fn slopes(&self, _: usize, view: View, weights: &[f64], _: &mut Work, out: &mut [f64]) {
        sigmoid::slopes_at(view.scores, 0.0, self.temperature, weights[0], out);
        weigh(view, out);
    }

    fn modulus(&self, populations: &[RowNorms], which: Constant) -> Option<f64> {
        let bend = match which {
            Constant::Sharp => MAX_SIGMOID_CURVATURE,
            Constant::AsPrinted => 1.0,
        };
        Some(bend * populations.iter().map(|p| p.mean_square).sum::<f64>() / (self.temperature * self.temperature))
    }

    fn smooth(&self) -> Option<SmoothTerm> {
        let (factor, constant) = match self.errors {
            Errors::FalsePositives => (1.0, 0.0),
            Errors::FalseNegatives => (-1.0, 1.0),
        };
        let row = TermRow { coefficients: vec![(0, factor)], centre: None, constant };
        Some(SmoothTerm { rows: vec![row], steepness: sigmoid_steepness(self.temperature) })
    }
}
