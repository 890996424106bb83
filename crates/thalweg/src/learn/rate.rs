//! Rates of errors over the rows of one label, with the step function softened to a sigmoid. Gaps between the rates of groups
//! are in `gap.rs`.

use super::gap::{STEEPEST_BEND, share_above, weigh};
use super::term::{Compared, Constant, Part, Rates, RowNorms, Subpopulation, Term, View, Work};
use crate::math::sigmoid;

/// A rate of errors: false positives among the rows with label -1, or false negatives among those with label +1.
///
/// The statistic is the mean of `sigmoid(score / temperature)`, the softened share of rows that are called positive, for both
/// of them; the rate of false negatives is 1 minus it, since `sigmoid(-z) = 1 - sigmoid(z)`. Counted, a row is called positive
/// if its score is above 0.
///
/// With `q` the mean of the squared norms of the rows, the weak-convexity constant is `q / (6 sqrt(3) temperature^2)`: the
/// second derivative of the sigmoid lies between -1 / (6 sqrt 3) and 1 / (6 sqrt 3), whichever its sign.
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
    /// The share of rows with label -1 that are called positive.
    pub fn false_positive(temperature: f64) -> Self {
        ErrorRate { errors: Errors::FalsePositives, temperature }
    }

    /// The share of rows with label +1 that are not called positive.
    pub fn false_negative(temperature: f64) -> Self {
        ErrorRate { errors: Errors::FalseNegatives, temperature }
    }
}

impl Term for ErrorRate {
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        let who = match self.errors {
            Errors::FalsePositives => Subpopulation::Negatives,
            Errors::FalseNegatives => Subpopulation::Positives,
        };
        (Part::Losses, vec![who])
    }

    fn sharpen(&mut self, factor: f64) -> bool {
        self.temperature *= factor;
        true
    }

    fn measure(&self, _: usize, view: View, _: &mut Work, out: &mut [f64]) {
        out[0] = sigmoid::mean_at(view.scores, view.weights, 0.0, self.temperature);
    }

    fn count(&self, _: usize, view: View, out: &mut [f64]) -> bool {
        out[0] = share_above(view, 0.0);
        true
    }

    fn rates(&self) -> Option<Rates<'_>> {
        let compared = match self.errors {
            Errors::FalsePositives => Compared::Share,
            Errors::FalseNegatives => Compared::Rest,
        };
        Some(Rates { thresholds: &[0.0], temperature: self.temperature, compared })
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
            Constant::Sharp => STEEPEST_BEND,
            Constant::AsPrinted => 1.0,
        };
        Some(bend * populations.iter().map(|p| p.mean_square).sum::<f64>() / (self.temperature * self.temperature))
    }
}
