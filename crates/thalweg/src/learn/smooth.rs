//! The smooth form of a learning problem: gradients of every statistic and Hessians of the Lagrangian. Which statistics a constraint
//! combines is decided by its terms.

use std::ops::Range;

use super::function::{Function, Piece};
use super::passes::{Buffers, Outer};
use super::penalty::Penalty;
use super::problem::Learning;
use super::term::{SmoothTerm, Term, View};
use crate::Result;
use crate::math::matrix::Pull;
use crate::math::reduce::{self, Chunks};
use crate::math::{gram, vec};
use crate::oracle::{At, Description, Scratch, SmoothForm, SmoothRow};

/// Curvature of a row is at least this fraction of that of its loss, so that the Hessian is positive definite.
const FLOOR: f64 = 0.05;

impl Learning {
    /// Returns whether the problem has a smooth form: smooth terms and penalties, at most one maximum in a constraint, with a factor
    /// that is not negative, and none in the objective.
    pub(super) fn is_smooth(&self) -> bool {
        let rows = |f: &Function| -> Option<usize> {
            let mut maxima = 0;
            for s in &f.pieces {
                match &s.piece {
                    // Without a diagonal to add to, only whether there are second derivatives.
                    Piece::Penalty(penalty) if !penalty.add_curvature(0.0, &mut []) => return None,
                    Piece::Penalty(_) => (),
                    Piece::Term(term) => {
                        let SmoothTerm { rows, .. } = term.smooth()?;
                        if rows.len() > 1 {
                            maxima += if s.factor >= 0.0 { 1 } else { 2 };
                        }
                    }
                }
            }
            Some(maxima)
        };
        rows(&self.objective) == Some(0) && self.constraints.iter().all(|f| rows(f).is_some_and(|maxima| maxima <= 1))
    }

    /// Returns the rows of one constraint.
    fn smooth_rows(&self, j: usize, centres: &mut u32) -> Vec<SmoothRow> {
        let (f, first) = (&self.constraints[j], self.offsets[j]);
        let empty = SmoothRow { constraint: j as u32, terms: vec![], centre: None, constant: -f.bound };
        let mut rows = vec![empty];
        for s in &f.pieces {
            let first = first + s.statistics.start;
            match &s.piece {
                Piece::Penalty(_) => rows.iter_mut().for_each(|row| row.terms.push((first as u32, s.factor))),
                Piece::Term(term) => {
                    let Some(SmoothTerm { rows: own, .. }) = term.smooth() else { continue };
                    let before = *centres;
                    rows = own
                        .iter()
                        .flat_map(|one| rows.iter().map(move |row| (one, row)))
                        .map(|(one, row)| {
                            let mut row = row.clone();
                            row.constant += s.factor * one.constant;
                            row.terms.extend(one.coefficients.iter().map(|&(k, c)| ((first + k) as u32, s.factor * c)));
                            if let Some((centre, c)) = one.centre {
                                *centres = (*centres).max(before + centre as u32 + 1);
                                row.centre = Some((before + centre as u32, s.factor * c));
                            }
                            row
                        })
                        .collect();
                }
            }
        }
        rows
    }

    /// Calls `visit` with the penalties and the populations of terms behind every statistic of the constraints.
    fn each_part(&self, mut visit: impl FnMut(usize, PartOf)) {
        for (f, &first) in self.constraints.iter().zip(&self.offsets) {
            for s in &f.pieces {
                let first = first + s.statistics.start;
                match &s.piece {
                    Piece::Penalty(penalty) => visit(first, PartOf::Penalty(penalty)),
                    Piece::Term(term) => {
                        for (k, &p) in s.populations.iter().enumerate() {
                            visit(first + k, PartOf::Term(term.as_ref(), k, p));
                        }
                    }
                }
            }
        }
    }

    /// Fills the buffer of the values at the point of `at`, unless they are there already.
    fn find_values(&self, at: At, buffers: &mut Buffers) {
        if buffers.smooth.are_at(at.x) {
            // Something else may have computed the scores of another point since.
            let functions = std::iter::once(&self.objective).chain(&self.constraints);
            functions.flat_map(|f| &f.pieces).flat_map(|s| &s.populations).for_each(|&p| self.score(p, at, buffers));
            return;
        }
        let mut found = std::mem::take(&mut buffers.smooth);
        found.objective.resize(self.objective.statistics, 0.0);
        found.parts.resize(self.num_parts(), 0.0);
        self.measure(&self.objective, at, &mut found.objective, buffers);
        for (f, &first) in self.constraints.iter().zip(&self.offsets) {
            self.measure(f, at, &mut found.parts[first..first + f.statistics], buffers);
        }
        found.x.clear();
        found.x.extend_from_slice(at.x);
        buffers.smooth = found;
    }

    /// Adds the gradients of the objective, whose slopes are in the buffers, and of the parts in one pass over the rows. Returns
    /// false, and does nothing, if that is not possible.
    fn pull_together(&self, parts: &[PartSlopes], grad: &mut [f64], jacobian: &mut [f64], buffers: &mut Buffers) -> bool {
        let (d, cols) = (self.dim(), self.data.features.cols());
        if self.data.features.dense_entries().is_none() || cols == 0 {
            return false;
        }
        let mut slots = vec![];
        for (index, (buffer, range)) in buffers.parts.iter_mut().zip(&self.parts).enumerate() {
            let divisor = buffer.divisor.take();
            let own: Vec<&PartSlopes> = parts.iter().filter(|one| self.populations[one.population].part == index).collect();
            let mut pulls: Vec<Pull> = own
                .iter()
                .map(|one| Pull { members: self.populations[one.population].members.as_deref(), slopes: &one.slopes })
                .collect();
            pulls.extend(divisor.map(|_| Pull { members: None, slopes: &buffer.slopes }));
            let mut sums = vec![0.0; pulls.len() * cols];
            if pulls.is_empty() || !self.data.features.pull_several(range.clone(), &pulls, &mut sums, &mut slots) {
                continue;
            }
            for (at, (pull, sum)) in pulls.iter().zip(sums.chunks_exact(cols)).enumerate() {
                let (out, rows) = match own.get(at) {
                    Some(one) => (&mut jacobian[one.part * d..(one.part + 1) * d], one.slopes.len() as f64),
                    None => (&mut *grad, divisor.unwrap_or(1.0)),
                };
                out.iter_mut().zip(sum).for_each(|(out, sum)| *out += sum / rows);
                if self.intercept {
                    out[cols] += vec::sum(pull.slopes) / rows;
                }
            }
        }
        true
    }

    /// Computes `out += sum_i slopes_i a_i / rows` over the rows of population `p`.
    fn pull_population(&self, p: usize, slopes: &[f64], out: &mut [f64], slots: &mut Vec<f64>) {
        let population = &self.populations[p];
        let (range, features) = (self.parts[population.part].clone(), &self.data.features);
        let (d, rows) = (features.cols(), slopes.len() as f64);
        match &population.members {
            None => {
                slots.resize(features.pull_slots(range.len()), 0.0);
                features.pull(range, slopes, rows, &mut out[..d], slots);
            }
            Some(members) => {
                let chunks = Chunks::of(members.len());
                let chunks = if chunks.count() * d > members.len() { Chunks::single(members.len()) } else { chunks };
                slots.clear();
                slots.resize(chunks.count() * d, 0.0);
                reduce::for_each_chunk(chunks, slots, |_, own, slot| {
                    for (&m, &s) in members[own.clone()].iter().zip(&slopes[own]).filter(|(_, s)| **s != 0.0) {
                        features.add_row(range.start + m as usize, s, slot);
                    }
                });
                let (total, others) = slots.split_at_mut(d);
                reduce::add_slots(others, total);
                vec::add_scaled(&mut out[..d], 1.0 / rows, total);
            }
        }
        if self.intercept {
            out[d] += vec::sum(slopes) / rows;
        }
    }

    /// Adds `weight` times the curvature of a population's statistic to that of the rows of its part.
    fn add_curvature(&self, part: PartOf, weight: f64, curvatures: &mut [Vec<f64>], own: &mut Vec<f64>, buffers: &mut Buffers) {
        let PartOf::Term(term, k, p) = part else { return };
        let population = &self.populations[p];
        let view: View = self.view(p, &buffers.populations[p], &buffers.parts[population.part]);
        let (to, weight) = (&mut curvatures[population.part], weight / view.scores.len() as f64);
        match &population.members {
            None => term.add_curvatures(k, view, weight, to),
            Some(members) => {
                own.clear();
                own.resize(view.scores.len(), 0.0);
                term.add_curvatures(k, view, weight, own);
                members.iter().zip(own).for_each(|(&m, h)| to[m as usize] += *h);
            }
        }
    }
}

/// Derivatives of a statistic with respect to the scores of its population.
struct PartSlopes {
    part: usize,
    population: usize,
    slopes: Vec<f64>,
}

/// What a statistic is computed from.
#[derive(Clone, Copy)]
enum PartOf<'a> {
    Penalty(&'a Penalty),
    /// A term, and the index of one of its populations in the term and in the problem.
    Term(&'a dyn Term, usize, usize),
}

impl SmoothForm for Learning {
    fn num_parts(&self) -> usize {
        self.constraints.iter().map(|f| f.statistics).sum()
    }

    fn rows(&self) -> Vec<SmoothRow> {
        let mut centres = 0;
        (0..self.constraints.len()).flat_map(|j| self.smooth_rows(j, &mut centres)).collect()
    }

    fn values(&self, at: At, parts: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        self.find_values(at, buffers);
        parts.copy_from_slice(&buffers.smooth.parts);
        Ok(self.objective.value(&buffers.smooth.objective))
    }

    fn gradients(&self, at: At, parts: &mut [f64], grad: &mut [f64], jacobian: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        self.find_values(at, buffers);
        parts.copy_from_slice(&buffers.smooth.parts);
        grad.fill(0.0);
        jacobian.fill(0.0);
        let statistics = std::mem::take(&mut buffers.smooth.objective);
        self.push(&self.objective, at, Outer::at(&statistics), 1.0, grad, buffers);
        let value = self.objective.value(&statistics);
        buffers.smooth.objective = statistics;
        let (d, features) = (self.dim(), self.data.features.cols());
        let mut pulls: Vec<PartSlopes> = vec![];
        self.each_part(|part, of| match of {
            PartOf::Penalty(penalty) => penalty.add_slope(self.weights(at.x), 1.0, &mut jacobian[part * d..][..features]),
            PartOf::Term(term, k, population) => {
                let Buffers { parts, populations, work, .. } = &mut *buffers;
                let view = self.view(population, &populations[population], &parts[self.populations[population].part]);
                let mut slopes = vec![0.0; view.scores.len()];
                term.slopes(k, view, &[1.0], work, &mut slopes);
                pulls.push(PartSlopes { part, population, slopes });
            }
        });
        if !self.pull_together(&pulls, grad, jacobian, buffers) {
            self.pull(grad, buffers);
            let mut slots = vec![];
            for PartSlopes { part, population, slopes } in &pulls {
                self.pull_population(*population, slopes, &mut jacobian[part * d..(part + 1) * d], &mut slots);
            }
        }
        Ok(value)
    }

    fn hessian(&self, at: At, weights: &[f64], damping: f64, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        let (d, features) = (self.dim(), self.data.features.cols());
        out.fill(0.0);
        let mut curvatures: Vec<Vec<f64>> = self.parts.iter().map(|part| vec![0.0; part.len()]).collect();
        let (mut own, mut diagonal) = (vec![], vec![0.0; features]);
        for s in &self.objective.pieces {
            s.populations.iter().for_each(|&p| self.score(p, at, buffers));
            match &s.piece {
                Piece::Penalty(penalty) => drop(penalty.add_curvature(s.factor, &mut diagonal)),
                Piece::Term(term) => {
                    for (k, &p) in s.populations.iter().enumerate() {
                        self.add_curvature(PartOf::Term(term.as_ref(), k, p), s.factor, &mut curvatures, &mut own, buffers);
                    }
                }
            }
        }
        // A row has at least its share of the damping: rows without a loss would have no curvature at all.
        let floor = |range: &Range<usize>, h: &[f64]| -> Vec<f64> {
            match &self.data.weights {
                None => {
                    let share = damping / range.len() as f64;
                    h.iter().map(|h| (FLOOR * h).max(share)).collect()
                }
                Some(weights) => {
                    let weights = &weights[range.clone()];
                    let share = damping / vec::sum(weights);
                    weights.iter().zip(h).map(|(w, h)| (FLOOR * h).max(share * w)).collect()
                }
            }
        };
        let floors: Vec<Vec<f64>> = self.parts.iter().zip(&curvatures).map(|(range, h)| floor(range, h)).collect();
        for f in &self.constraints {
            f.pieces.iter().flat_map(|s| &s.populations).for_each(|&p| self.score(p, at, buffers));
        }
        self.each_part(|part, of| match of {
            PartOf::Penalty(penalty) => drop(penalty.add_curvature(weights[part].max(0.0), &mut diagonal)),
            of if weights[part] != 0.0 => self.add_curvature(of, weights[part], &mut curvatures, &mut own, buffers),
            _ => (),
        });
        for ((range, h), floor) in self.parts.iter().zip(&mut curvatures).zip(&floors) {
            h.iter_mut().zip(floor).for_each(|(h, floor)| *h = h.max(*floor));
            if h.iter().any(|h| *h > 0.0) {
                gram::add_gram(&self.data.features, range.clone(), h, self.intercept, out);
            }
        }
        diagonal.iter().enumerate().for_each(|(j, bend)| out[j * d + j] += bend);
        Ok(())
    }

    fn hessian_products(&self) -> f64 {
        gram::products(&self.data.features, self.intercept)
    }

    fn gradient_error(&self, weights: &[f64]) -> f64 {
        // A sum of n numbers in any order has an error of at most n roundings of the sum of their sizes; slopes have a few each.
        let roundings = (self.data.features.rows() as f64 + 32.0) * f64::EPSILON;
        let size = |f: &Function, weight: &dyn Fn(usize, f64) -> f64| -> f64 {
            let mut total = 0.0;
            for s in &f.pieces {
                let Piece::Term(term) = &s.piece else { continue };
                let steepness = term.smooth().map_or(0.0, |smooth| smooth.steepness);
                for (k, &p) in s.populations.iter().enumerate() {
                    let norm = self.populations[p].norms.mean_square.sqrt();
                    total += weight(s.statistics.start + k, s.factor) * steepness * norm;
                }
            }
            total
        };
        let constraints = self.constraints.iter().zip(&self.offsets);
        // The weights of the statistics of constraints include the factors.
        let constraints = constraints.map(|(f, &first)| size(f, &|k, _| weights[first + k].abs()));
        roundings * (size(&self.objective, &|_, factor| factor.abs()) + constraints.sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Data, Groups, Learning, Split};
    use crate::math::rng::{Purpose, Rng};
    use crate::math::{Matrix, reduce};
    use crate::oracle::{Draw, Values, Warm};

    fn data(rows: usize, groups: u32, weighted: bool, seed: u64) -> Data {
        let mut rng = Rng::new(seed, Purpose::Data);
        Data {
            features: Matrix::dense(rows, 3, (0..3 * rows).map(|_| 2.0 * rng.uniform() - 1.0).collect()).unwrap(),
            labels: (0..rows).map(|_| if rng.uniform() < 0.4 { 1.0 } else { -1.0 }).collect(),
            groups: Some(Groups {
                names: (0..groups).map(|k| k.to_string()).collect(),
                of_row: (0..rows as u32).map(|i| i % groups).collect(),
            }),
            weights: weighted.then(|| (0..rows).map(|i| (i % 4) as f64).collect()),
        }
    }

    fn problems() -> Vec<Learning> {
        let constraints = [
            "demographic_parity(temperature = 0.7) <= 0.02",
            "equalised_odds <= 0.05",
            "demographic_parity(compare = \"to-overall\") <= 0.03",
            "false_negative_rate + 0.5 * l2 <= 0.3",
            "truncated_logistic(scale = 0.3) <= 0.4",
            "0.5 * equal_opportunity + false_positive_rate <= 0.1",
        ];
        let mut problems = vec![];
        for (groups, weighted, split) in [(2, false, Split::Shared), (3, true, Split::Shared), (2, true, Split::Ordered)] {
            let builder = Learning::on(data(90, groups, weighted, u64::from(groups))).split(split).intercept(true);
            let builder = builder.minimize("logistic + 0.1 * l2 + 0.3 * welsch(scale = 2.0)".parse().unwrap());
            let builder = constraints.iter().fold(builder, |b, c| b.subject_to(c.parse().unwrap()));
            problems.push(builder.build().unwrap());
        }
        problems
    }

    #[test]
    fn constraints_are_the_largest_of_their_rows() {
        for problem in problems() {
            assert!(problem.is_smooth());
            let mut scratch = problem.scratch();
            let (draw, warm) = (Draw::full(), Warm::default());
            for x in [[0.4, -1.0, 0.3, 0.1], [-0.5, 0.2, 2.0, -0.7]] {
                let at = At { x: &x, draw: &draw, warm: &warm };
                let mut g = vec![0.0; problem.num_constraints()];
                problem.constraint_values(at, crate::oracle::Pick::All, &mut g, &mut scratch).unwrap();
                let mut parts = vec![0.0; problem.num_parts()];
                let f = SmoothForm::values(&problem, at, &mut parts, &mut scratch).unwrap();
                assert_eq!(f, problem.objective(at, &mut scratch).unwrap());
                let rows = problem.rows();
                for (j, g) in g.iter().enumerate() {
                    // Over a free centre, the smallest value of the largest row is where the rows of both signs are equal.
                    let mut largest = f64::NEG_INFINITY;
                    let own: Vec<_> = rows.iter().filter(|row| row.constraint as usize == j).collect();
                    for row in &own {
                        let most = |sign: f64| {
                            let with = own.iter().filter(|other| match (other.centre, row.centre) {
                                (Some((k, c)), Some((l, _))) => k == l && c * sign > 0.0,
                                _ => false,
                            });
                            with.map(|other| other.value(&parts)).fold(f64::NEG_INFINITY, f64::max)
                        };
                        largest = largest.max(match row.centre {
                            None => row.value(&parts),
                            Some(_) => 0.5 * (most(1.0) + most(-1.0)),
                        });
                    }
                    assert!((largest - g).abs() < 1e-14, "{j}: {largest} {g}");
                }
            }
        }
    }

    #[test]
    fn gradients_and_hessians_agree_with_differences() {
        const H: f64 = 1e-5;
        for problem in problems() {
            let (d, p) = (problem.dim(), problem.num_parts());
            let mut scratch = problem.scratch();
            let (draw, warm) = (Draw::full(), Warm::default());
            let mut at = |x: &[f64]| {
                let (mut parts, mut grad, mut jacobian) = (vec![0.0; p], vec![0.0; d], vec![0.0; p * d]);
                let at = At { x, draw: &draw, warm: &warm };
                let f = problem.gradients(at, &mut parts, &mut grad, &mut jacobian, &mut scratch).unwrap();
                (f, parts, grad, jacobian)
            };
            let x = [0.4, -1.0, 0.3, 0.1];
            let (_, _, grad, jacobian) = at(&x);
            let weights: Vec<f64> = (0..p).map(|k| 0.3 * (k % 5) as f64 - 0.4).collect();
            let mut differences = vec![0.0; d * d];
            for i in 0..d {
                let moved = |h: f64| {
                    let mut y = x;
                    y[i] += h;
                    y
                };
                let ((f, r, g, j), (fm, rm, gm, jm)) = (at(&moved(H)), at(&moved(-H)));
                assert!(((f - fm) / (2.0 * H) - grad[i]).abs() < 1e-8);
                for k in 0..p {
                    assert!(((r[k] - rm[k]) / (2.0 * H) - jacobian[k * d + i]).abs() < 1e-8, "part {k}");
                    (0..d).for_each(|c| differences[i * d + c] += weights[k] * (j[k * d + c] - jm[k * d + c]) / (2.0 * H));
                }
                (0..d).for_each(|c| differences[i * d + c] += (g[c] - gm[c]) / (2.0 * H));
            }
            // Negative curvature is left out of the solver's Hessian, so that only its sum over rows can be compared: with all
            // curvatures raised by a large regulariser of the scores nothing is cut off.
            let hessian = problem.plain_hessian(&x, &weights);
            for (i, (got, want)) in hessian.iter().zip(&differences).enumerate().filter(|(i, _)| i % d <= i / d) {
                assert!((got - want).abs() < 1e-7, "entry {i}: {got} {want}");
            }
            // And the solver's is above it: the difference is positive semidefinite on random directions.
            let mut solver = vec![0.0; d * d];
            let at = At { x: &x, draw: &draw, warm: &warm };
            problem.hessian(at, &weights, 1e-3, &mut solver, &mut problem.scratch()).unwrap();
            let mut rng = Rng::new(3, Purpose::Directions);
            for _ in 0..50 {
                let v: Vec<f64> = (0..d).map(|_| 2.0 * rng.uniform() - 1.0).collect();
                let quadratic = |m: &[f64]| -> f64 {
                    (0..d).map(|i| (0..d).map(|j| v[i] * v[j] * m[i.max(j) * d + i.min(j)]).sum::<f64>()).sum()
                };
                assert!(quadratic(&solver) >= quadratic(&hessian) - 1e-12 && quadratic(&solver) > 0.0);
            }
        }
    }

    impl Learning {
        /// The second derivative of the Lagrangian with nothing cut off, row by row.
        fn plain_hessian(&self, x: &[f64], weights: &[f64]) -> Vec<f64> {
            let (d, mut scratch) = (self.dim(), self.scratch());
            let (draw, warm) = (Draw::full(), Warm::default());
            let at = At { x, draw: &draw, warm: &warm };
            let mut parts = vec![0.0; self.num_parts()];
            SmoothForm::values(self, at, &mut parts, &mut scratch).unwrap();
            let buffers: &mut Buffers = scratch.get().unwrap();
            let mut curvatures: Vec<Vec<f64>> = self.parts.iter().map(|part| vec![0.0; part.len()]).collect();
            let (mut own, mut out) = (vec![], vec![0.0; d * d]);
            for s in &self.objective.pieces {
                match &s.piece {
                    Piece::Penalty(_) => (0..d - 1).for_each(|i| out[i * d + i] += s.factor),
                    Piece::Term(term) => {
                        let part = PartOf::Term(term.as_ref(), 0, s.populations[0]);
                        self.add_curvature(part, s.factor, &mut curvatures, &mut own, buffers);
                    }
                }
            }
            self.each_part(|k, of| match of {
                PartOf::Penalty(_) => (0..d - 1).for_each(|i| out[i * d + i] += weights[k]),
                of => self.add_curvature(of, weights[k], &mut curvatures, &mut own, buffers),
            });
            for (range, h) in self.parts.iter().zip(&curvatures) {
                for (i, h) in range.clone().zip(h) {
                    let mut a = vec![0.0; d];
                    self.data.features.visit_row(i, |c, v| a[c] = v);
                    a[d - 1] = 1.0;
                    (0..d * d).for_each(|k| out[k] += h * a[k / d] * a[k % d]);
                }
            }
            out
        }
    }

    #[test]
    fn one_and_two_threads_give_the_same_bits() {
        let builder = Learning::on(data(9_000, 2, false, 7)).minimize("logistic".parse().unwrap());
        let problem = builder.subject_to("demographic_parity <= 0.1".parse().unwrap()).build().unwrap();
        let run = |threads| {
            reduce::with_threads(threads, || {
                let (draw, warm, mut scratch) = (Draw::full(), Warm::default(), problem.scratch());
                let at = At { x: &[0.4, -1.0, 0.3], draw: &draw, warm: &warm };
                let (mut parts, mut grad, mut jacobian, mut h) = ([0.0; 2], [0.0; 3], [0.0; 6], [0.0; 9]);
                problem.gradients(at, &mut parts, &mut grad, &mut jacobian, &mut scratch).unwrap();
                problem.hessian(at, &[0.1, 0.2], 1e-3, &mut h, &mut scratch).unwrap();
                (parts, grad, jacobian, h)
            })
            .unwrap()
        };
        assert_eq!(run(1), run(2));
    }

    #[test]
    fn kinks_have_no_smooth_form() {
        for (minimize, constraint) in [
            ("hinge", "demographic_parity <= 0.1"),
            ("logistic + 0.1 * l1", "demographic_parity <= 0.1"),
            ("demographic_parity", "logistic <= 0.6"),
            ("logistic", "hinge <= 0.9"),
            ("logistic", "demographic_parity + equal_opportunity <= 0.1"),
        ] {
            let builder = Learning::on(data(30, 2, false, 1)).minimize(minimize.parse().unwrap());
            let problem = builder.subject_to(constraint.parse().unwrap()).build().unwrap();
            assert!(!problem.is_smooth(), "{minimize} {constraint}");
        }
    }
}
