//! The minimiser of least norm: the projection of the origin onto the points whose value is at most a bound. A multiple of the
//! squared norm is added to the sum and minimised with it; over a domain, cutting planes are used.

use super::Found;
use super::interior::Interior;
use super::newton::Newton;
use super::sum::Sum;
use crate::Result;
use crate::cuts::{Convexification, MasterObjective, Model, Norm, Owner};
use crate::eval::{Eval, Evaluator, ValueEval};
use crate::learn::problem::Learning;
use crate::math::vec;
use crate::oracle::Draw;

/// Accuracy of half of the squared norm, relative to it.
const ACCURACY: f64 = 1e-6;
/// Largest number of coefficients of the squared norm that are tried, and of steps for each.
const COEFFICIENTS: usize = 30;
const STEPS: usize = 100;
/// Smallest gap, relative to the value, that rounding allows.
const ROUNDING: f64 = 1e-14;
/// First coefficient, as a multiple of the one at which the value cannot exceed the bound.
const FIRST: f64 = 1000.0;
/// Factor between coefficients until the value exceeds the bound.
const FACTOR: f64 = 10.0;
/// Fraction of the passes of a minimisation that the search may take, if there are too many columns to factor matrices.
const SHARE: u64 = 6;
/// Number of bisections along the way to the origin.
const BISECTIONS: usize = 20;
/// Largest number of evaluations of the cutting-plane method.
const EVALUATIONS: u64 = 4000;
/// Largest number of cuts.
const CUTS: usize = 400;

/// Finds the shortest point with a value of at most [`Found::bound`], and counts passes over the rows. For a coefficient c the
/// minimiser of `f(w) + c ||w||^2 / 2` is the shortest point with its value; c is changed until that value is the bound.
/// Also returns whether the search came to its end: with many columns it has a limited number of passes.
pub(super) fn by_path(problem: &Learning, sum: &Sum, found: &Found, evaluations: &mut u64) -> Result<(Vec<f64>, bool)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let full = Draw::full();
    let bound = found.bound();
    let origin = vec![0.0; found.x.len()];
    let at_origin = ev.objective(&origin, &full)?;
    if at_origin <= bound {
        return Ok((origin, true));
    }
    let mut best = Shortest::new(found);
    let mut newton = Newton::new(sum);
    newton.most = sum.passes() / SHARE;
    let first = |half: f64| FIRST * (bound - found.value) / half;
    let mut coefficient = first(best.half);
    // Coefficients whose minimisers have values below and above the bound.
    let (mut low, mut high) = (None, None);
    let mut complete = true;
    for _ in 0..COEFFICIENTS {
        let wanted = f64::max(0.05 * ACCURACY * coefficient * best.half, ROUNDING * found.value);
        let (u, gap) = if sum.has_kinks() {
            let mut interior = Interior::new(sum, coefficient);
            (0..STEPS).take_while(|_| interior.distance() > wanted && interior.step()).count();
            *evaluations += interior.evaluations;
            let gap = interior.distance();
            (interior.u, gap)
        } else {
            newton.pull = coefficient;
            newton.descend(STEPS, |_| wanted);
            (newton.u.clone(), wanted)
        };
        let x = sum.model(&u);
        let value = ev.objective(&x, &full)?;
        *evaluations += 1;
        if newton.evaluations > newton.most {
            best.offer(x, value, bound);
            complete = false;
            break;
        }
        best.lower = best.lower.max(0.5 * vec::norm_squared(&x) + (value - bound - gap) / coefficient);
        best.offer(x, value, bound);
        if best.done() {
            break;
        }
        // The excess over the smallest value is about a power of the coefficient.
        let excess = f64::max(value - found.value, 1e-3 * (bound - found.value));
        if value <= bound {
            low = Some((coefficient, excess))
        } else {
            high = Some((coefficient, excess))
        }
        coefficient = match (low, high) {
            (Some((low, at_low)), Some((high, at_high))) => {
                if high <= low * (1.0 + 1e-9) {
                    break;
                }
                let share = ((bound - found.value) / at_low).ln() / (at_high / at_low).ln();
                low * (high / low).powf(share.clamp(0.1, 0.9))
            }
            // The minimiser of the value may be far longer than the shortest one.
            (_, None) => f64::max(FACTOR * coefficient, first(best.half)),
            (None, _) => coefficient / FACTOR,
        };
    }
    *evaluations += newton.evaluations;
    Ok((best.finish(&mut ev, found)?, complete))
}

/// Finds the shortest multiple of the minimiser with a value of at most [`Found::bound`]. Also returns that it is not known to be
/// the shortest point.
pub(super) fn towards_origin(problem: &Learning, found: &Found, evaluations: &mut u64) -> Result<(Vec<f64>, bool)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let multiple = |share: f64| found.x.iter().map(|x| share * x).collect::<Vec<f64>>();
    // The value is convex along the way.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let share = 0.5 * (low + high);
        *evaluations += 1;
        if ev.objective(&multiple(share), &Draw::full())? <= found.bound() { high = share } else { low = share }
    }
    Ok((multiple(high), high * vec::norm(&found.x) == 0.0))
}

/// The shortest point so far.
struct Shortest {
    x: Vec<f64>,
    /// Half of its squared norm, and a lower bound on that of every point.
    half: f64,
    lower: f64,
    /// Points with the largest value of at most the bound, and the smallest one above it.
    below: (Vec<f64>, f64),
    above: Option<(Vec<f64>, f64)>,
}

impl Shortest {
    fn new(found: &Found) -> Self {
        let half = 0.5 * vec::norm_squared(&found.x);
        Shortest { x: found.x.clone(), half, lower: 0.0, below: (found.x.clone(), found.value), above: None }
    }

    /// Takes a point, and a point between it and an earlier one where the bound is reached, if they are shorter.
    fn offer(&mut self, y: Vec<f64>, value: f64, bound: f64) {
        if value <= bound {
            self.shorter(&y);
            if value >= self.below.1 {
                self.below = (y, value);
            }
        } else if self.above.as_ref().is_none_or(|above| value < above.1) {
            self.above = Some((y, value));
        }
        if let Some((above, at_above)) = &self.above {
            let (below, at_below) = &self.below;
            let mixed = mix(above, below, (at_above - bound) / (at_above - at_below));
            self.shorter(&mixed);
        }
    }

    fn shorter(&mut self, y: &[f64]) {
        let half = 0.5 * vec::norm_squared(y);
        if half < self.half {
            (self.x, self.half) = (y.to_vec(), half);
        }
    }

    fn done(&self) -> bool {
        self.half - self.lower <= ACCURACY * self.half + f64::MIN_POSITIVE
    }

    /// Returns the point, after moving it towards the minimiser as far as rounding requires to keep the bound.
    fn finish(self, ev: &mut Evaluator<Learning>, found: &Found) -> Result<Vec<f64>> {
        let mut x = self.x.clone();
        let mut share = 1e-9;
        while share < 1.0 {
            if ev.objective(&x, &Draw::full())? <= found.bound() {
                return Ok(x);
            }
            x = mix(&self.x, &found.x, share);
            share *= 10.0;
        }
        Ok(found.x.clone())
    }
}

/// Returns the point at a share of the way between two points.
fn mix(from: &[f64], to: &[f64], share: f64) -> Vec<f64> {
    from.iter().zip(to).map(|(y, z)| (1.0 - share) * y + share * z).collect()
}

/// Finds the same point by cutting planes, among them those of a minimisation. Also returns the number of evaluations.
pub(super) fn by_cuts(problem: &Learning, known: &Model, found: &Found) -> Result<((Vec<f64>, bool), u64)> {
    let mut ev = Evaluator::new(problem, 0, 0.0);
    let full = Draw::full();
    let bound = found.bound();
    let origin = vec![0.0; found.x.len()];
    let lens = Convexification { constants: vec![0.0; 2], scaled: false };
    let mut model = Model::default();
    model.begin(&origin, Norm::Plain, &[lens]);
    // Half of the squared norm is the proximal term of the zero function.
    model.add(Owner::Objective, &origin, (0.0, 0.0), &origin);
    known.copy_cuts(Owner::Objective, &mut model, Owner::Constraint(0), bound);
    let mut best = Shortest::new(found);
    let (mut y, mut slope) = (origin.clone(), origin.clone());
    let mut penalty = 10.0;
    let mut evaluations = 0;
    while evaluations < EVALUATIONS {
        let master = loop {
            let master = model.solve(0, MasterObjective { mu: 1.0, penalty, level: 0.0, feasibility: false }, 0.0, &mut y);
            if master.excess <= 1e-11 || penalty > 1e9 {
                break master;
            }
            penalty *= 4.0;
        };
        let value = ev.objective_grad(&y, &full, &mut slope)?;
        evaluations += 1;
        best.lower = best.lower.max(master.lower);
        best.offer(y.clone(), value, bound);
        if best.done() {
            break;
        }
        model.add(Owner::Constraint(0), &y, (value - bound, value - bound), &slope);
        model.limit(0, CUTS);
    }
    Ok(((best.finish(&mut ev, found)?, true), evaluations))
}
