//! Units of a learning problem: those of its expressions follow from the factors of their terms, those of its variables from the
//! entries of the columns. What solvers do with units is left to them.

use super::function::{Function, Piece};
use super::penalty::Penalty;
use super::problem::Learning;
use super::term::{Constant, RowNorms};
use crate::oracle::{Description, KnownUnits};

/// Factors and columns within this factor of 1 have the unit 1.
const NATURAL: f64 = 32.0;

/// Returns the unit of numbers of this size, a power of two.
fn unit(size: f64) -> f64 {
    let known = size.is_normal() && size > 0.0;
    if !known || (1.0 / NATURAL..=NATURAL).contains(&size) { 1.0 } else { size.log2().round().exp2() }
}

impl Function {
    /// Returns the geometric mean of the largest and the smallest factor of a term; `None` if there are only penalties. In the unit
    /// of the largest alone, a term with a small factor would not count, though it decides where the others can be satisfied.
    fn middle_factor(&self) -> Option<f64> {
        let terms = self.pieces.iter().filter(|s| matches!(s.piece, Piece::Term(_)));
        let factors = terms.map(|s| s.factor.abs()).filter(|f| *f > 0.0).map(|f| [f, f]);
        factors.reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]).map(|[least, most]| (least.log2() / 2.0 + most.log2() / 2.0).exp2())
    }

    /// Returns the size of the penalties where no weight exceeds `length`.
    fn penalty_size(&self, length: f64) -> f64 {
        let size = |penalty: &Penalty| match penalty {
            Penalty::L2 => length * length,
            Penalty::L1 => length,
            Penalty::Ridge(_) => 1.0,
            Penalty::Scad => length.min(1.0),
        };
        let sizes = self.pieces.iter().map(|s| match &s.piece {
            Piece::Penalty(penalty) => s.factor.abs() * size(penalty),
            Piece::Term(_) => 0.0,
        });
        sizes.fold(0.0, f64::max)
    }
}

impl Learning {
    /// Returns the unit of the objective or of a constraint. Terms are of order 1; a sum of penalties has the size that it has where
    /// every weight is a unit.
    pub(super) fn unit_of(&self, function: &Function) -> f64 {
        unit(function.middle_factor().unwrap_or_else(|| {
            let variables = self.variable_units();
            function.penalty_size(variables[..self.data.features.cols()].iter().copied().fold(0.0, f64::max))
        }))
    }

    /// Returns the unit of the objective.
    pub(super) fn objective_unit(&self) -> f64 {
        self.unit_of(&self.objective)
    }

    /// Returns the unit of each variable: the inverse of that of its column's largest entry, so that scores are of order 1. Over a
    /// domain that is no box, all are the smallest one.
    fn variable_units(&self) -> &[f64] {
        self.variable_units.get_or_init(|| {
            let features = &self.data.features;
            let mut largest = vec![0.0_f64; features.cols()];
            let counts = |i: &usize| self.data.weights.as_ref().is_none_or(|w| w[*i] > 0.0);
            for i in (0..features.rows()).filter(counts) {
                features.visit_row(i, |column, v| largest[column] = largest[column].max(v.abs()));
            }
            let mut units: Vec<f64> = largest.iter().map(|v| 1.0 / unit(*v)).collect();
            // A column of zeros has the unit of the others.
            let used = || units.iter().zip(&largest).filter(|(_, v)| **v > 0.0).map(|(unit, _)| *unit);
            let (least, most) = (used().fold(f64::INFINITY, f64::min), used().fold(0.0, f64::max));
            units
                .iter_mut()
                .zip(&largest)
                .filter(|(_, v)| **v == 0.0)
                .for_each(|(unit, _)| *unit = if most > 0.0 { most } else { 1.0 });
            if self.intercept {
                units.push(1.0);
            }
            if (0..units.len()).any(|i| self.domain().sides(i).is_none()) {
                units.fill(if least.is_finite() { least } else { 1.0 });
            }
            units
        })
    }

    /// Returns the units of the problem, or `None` if all are 1.
    pub(super) fn find_units(&self) -> Option<KnownUnits> {
        let functions = || std::iter::once(&self.objective).chain(&self.constraints);
        let mut of_functions = functions().map(|f| self.unit_of(f));
        let objective = of_functions.next().unwrap_or(1.0);
        let constraints: Vec<f64> = of_functions.collect();
        let variables = self.variable_units().to_vec();
        if objective == 1.0 && constraints.iter().chain(&variables).all(|unit| *unit == 1.0) {
            return None;
        }
        let norms: Vec<RowNorms> = (0..self.populations.len()).map(|p| self.scaled_norms(p, &variables)).collect();
        let longest = variables.iter().copied().fold(0.0, f64::max);
        let penalties = |penalty: &Penalty| penalty.modulus() * longest * longest;
        let moduli = functions()
            .zip(std::iter::once(&objective).chain(&constraints))
            .map(|(f, unit)| f.modulus_by(|p| norms[p], penalties, Constant::Sharp).map(|rho| rho / unit));
        let moduli = moduli.collect();
        Some(KnownUnits { objective, constraints, variables, moduli })
    }

    /// Returns the norms of the rows of a population with columns in the units of the variables.
    fn scaled_norms(&self, population: usize, variables: &[f64]) -> RowNorms {
        let population = &self.populations[population];
        if variables.iter().all(|unit| *unit == 1.0) {
            return population.norms;
        }
        let range = self.parts[population.part].clone();
        let count = population.size(&self.parts);
        let mut total = 0.0;
        for k in 0..count {
            let row = range.start + population.members.as_ref().map_or(k, |m| m[k] as usize);
            let mut square = if self.intercept { variables[self.data.features.cols()].powi(2) } else { 0.0 };
            self.data.features.visit_row(row, |column, v| square += (v * variables[column]).powi(2));
            total += population.weights.as_ref().map_or(1.0, |w| w[k]) * square;
        }
        RowNorms { mean_square: total / count.max(1) as f64, ..population.norms }
    }
}
