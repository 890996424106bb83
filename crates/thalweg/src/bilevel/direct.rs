//! Direct search over few outer variables: every point is judged by the worst (or best) response to it, computed by
//! [`extremes`](super::extremes()). No reformulation and no derivative in x is used.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::extremes::Search;
use super::follower::minimum;
use super::units::{InUnits, spread};
use super::{Bilevel, Stop, is_set};
use crate::Result;
use crate::eval::ValueEval;
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::Warm;
use crate::solvers::{Method, PointOrigin, Solver, State, Step};

/// Largest number of outer variables.
pub(super) const FEW: usize = 5;
/// Number of sampled points for one variable, and for each of several.
const LINE: usize = 41;
const EACH: usize = 24;
/// Number of sampled points from which local searches start.
const STARTS: usize = 3;
/// Distance between starts as a multiple of the distance between sampled points.
const APART: f64 = 1.5;
/// Size of a simplex, in half widths of X, below which a local search ends; size, relative to the first, and number of its restarts.
const SMALL: f64 = 1e-7;
const RESTARTED: f64 = 0.1;
const RESTARTS: u32 = 2;
/// Decrease of the value, in the unit of f, that a restart must achieve to be followed by another.
const GAIN: f64 = 1e-7;
/// Largest number of points of a local search for each variable.
const MOST: usize = 200;
/// Excess of a constraint over its slack, as a multiple of it, up to which a response counts.
const ADMITTED: f64 = 0.1;

/// A point with the response that decides its value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Judged {
    x: Vec<f64>,
    y: Vec<f64>,
    /// By how much the response violates a constraint; 0 within the tolerance.
    excess: f64,
    value: f64,
}

impl Judged {
    /// Returns whether the point is better than another: less infeasible, then of a smaller value.
    fn beats(&self, other: &Judged) -> bool {
        (self.excess, self.value) < (other.excess, other.value)
    }
}

/// What the next point of a local search is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Move {
    /// A vertex of the first simplex.
    Vertex,
    Reflect,
    /// Twice as far as this reflected point.
    Expand(Judged),
    /// Between the centre and the reflected point, or, if it is the worst of all, the worst vertex.
    Contract(Judged),
    /// A vertex on its way to the best one.
    Shrink(usize),
}

/// Nelder and Mead's simplex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Simplex {
    vertices: Vec<Judged>,
    /// Vertices to visit at the start, the last one first.
    ahead: Vec<Vec<f64>>,
    next: Move,
    size: f64,
    visited: usize,
    restarts: u32,
    /// Value when it was started.
    before: f64,
}

/// State of the search.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Sampled points, in the order of the sequence.
    sampled: Vec<Judged>,
    /// Starts that are left, the best one last.
    starts: Vec<Judged>,
    simplex: Option<Simplex>,
    best: Judged,
    /// Number of values so far.
    values: u64,
}

/// Samples X evenly, then improves the best points by Nelder and Mead's simplex search, restarted while that helps.
pub(super) struct DirectSearch {
    problem: Arc<InUnits>,
    slack: f64,
    /// -1 for the worst response, 1 for the best.
    sign: f64,
    interrupt: Option<Arc<AtomicBool>>,
    s: Saved,
}

impl DirectSearch {
    pub(super) fn new(problem: Arc<InUnits>, slack: f64, optimistic: bool, interrupt: Stop) -> Self {
        let sign = if optimistic { 1.0 } else { -1.0 };
        DirectSearch { problem, slack, sign, interrupt: interrupt.cloned(), s: Saved::default() }
    }

    /// Returns a number of steps that the search does not exceed.
    pub(super) fn most(&self) -> u64 {
        let local = MOST * self.problem.outer_dim() + 10;
        (self.samples() + 1 + STARTS * (1 + RESTARTS as usize) * local) as u64
    }

    fn samples(&self) -> usize {
        let n = self.problem.outer_dim();
        if n == 1 { LINE } else { EACH * n }
    }

    /// Returns the distance between neighbouring sampled points.
    fn spacing(&self) -> f64 {
        let n = self.problem.outer_dim();
        2.0 * (self.samples() as f64).powf(-1.0 / n as f64)
    }

    /// Evaluates the point of X nearest to `x`.
    fn judge(&self, mut x: Vec<f64>) -> Result<Judged> {
        let problem: &dyn Bilevel = &*self.problem;
        problem.outer_set().project(&mut x, &mut Warm::default())?;
        let interrupt = self.interrupt.as_ref();
        let least = minimum(problem, &x, &vec![0.0; problem.inner_dim()], interrupt)?;
        let found = Search::staged(problem, &x, &least, self.slack, self.sign, interrupt)?;
        let excess = found.violation / self.slack;
        let excess = if excess <= ADMITTED { 0.0 } else { excess };
        Ok(Judged { x, y: found.y, excess, value: found.value })
    }

    /// Looks for a worse response to a point, from that of the best point so far: a search that ended early would otherwise look like an
    /// improvement. For the optimistic form it would not.
    fn confirm(&self, found: &mut Judged) -> Result<()> {
        if self.sign > 0.0 || !self.s.best.value.is_finite() {
            return Ok(());
        }
        let (problem, interrupt): (&dyn Bilevel, _) = (&*self.problem, self.interrupt.as_ref());
        let least = minimum(problem, &found.x, &vec![0.0; problem.inner_dim()], interrupt)?;
        let search = Search::new(problem, &found.x, least.value + self.slack, self.slack, self.sign);
        let again = search.run(&[&self.s.best.y], interrupt)?;
        if again.violation <= ADMITTED * self.slack && again.value > found.value {
            (found.value, found.y) = (again.value, again.y);
        }
        Ok(())
    }

    /// Evaluates a point and keeps it if it is the best one.
    fn visit(&mut self, x: Vec<f64>) -> Result<Judged> {
        let mut found = self.judge(x)?;
        self.s.values += 1;
        if found.beats(&self.s.best) {
            self.confirm(&mut found)?;
        }
        if found.beats(&self.s.best) {
            self.s.best.clone_from(&found);
        }
        Ok(found)
    }

    /// Returns the sampled point number `k`: on a line the points of a grid, otherwise those of a sequence.
    fn sample(&self, k: usize) -> Result<Vec<f64>> {
        let (set, n) = (self.problem.outer_set(), self.problem.outer_dim());
        match set.sides(0).filter(|_| n == 1) {
            Some((low, high)) => Ok(vec![low + (high - low) * k as f64 / (LINE - 1) as f64]),
            None => spread(&*set, n, k),
        }
    }

    /// Chooses the best sampled points that are some way apart.
    fn choose_starts(&mut self) {
        let apart = APART * self.spacing();
        let mut order: Vec<&Judged> = self.s.sampled.iter().collect();
        order.sort_by(|a, b| a.excess.total_cmp(&b.excess).then(a.value.total_cmp(&b.value)));
        let mut starts: Vec<Judged> = vec![];
        for point in order {
            if starts.len() < STARTS && starts.iter().all(|start| vec::distance(&start.x, &point.x) > apart) {
                starts.push(point.clone());
            }
        }
        starts.reverse();
        self.s.starts = starts;
    }

    /// Returns a simplex around a point: along random orthogonal directions, so that a kink along the axes is no trap.
    fn simplex(&self, first: Judged, size: f64, restarts: u32) -> Result<Simplex> {
        let (n, set) = (first.x.len(), self.problem.outer_set());
        let mut rng = Rng::new(self.s.values, Purpose::Directions);
        let mut axes: Vec<Vec<f64>> = vec![];
        while axes.len() < n {
            let mut axis = vec![0.0; n];
            rng.normals(&mut axis);
            for other in &axes {
                let along = vec::dot(&axis, other);
                vec::add_scaled(&mut axis, -along, other);
            }
            let length = vec::norm(&axis);
            if length > 1e-3 {
                vec::scale(&mut axis, 1.0 / length);
                axes.push(axis);
            }
        }
        let mut ahead = vec![];
        for axis in &axes {
            let mut moved = first.x.clone();
            for length in [size, -size] {
                moved.copy_from_slice(&first.x);
                vec::add_scaled(&mut moved, length, axis);
                set.project(&mut moved, &mut Warm::default())?;
                if vec::distance(&moved, &first.x) > 0.5 * size {
                    break; // the other way leaves X
                }
            }
            ahead.push(moved);
        }
        let before = first.value;
        Ok(Simplex { vertices: vec![first], ahead, next: Move::Vertex, size, visited: 0, restarts, before })
    }

    /// Makes one move of a local search; returns false when it is finished.
    fn advance(&mut self, s: &mut Simplex) -> Result<bool> {
        let n = self.problem.outer_dim();
        s.visited += 1;
        let last = s.vertices.len() - 1;
        if s.next == Move::Vertex {
            if let Some(x) = s.ahead.pop() {
                let found = self.visit(x)?;
                s.vertices.push(found);
            }
            if s.ahead.is_empty() {
                s.next = Move::Reflect;
            }
            return Ok(true);
        }
        if let Move::Shrink(k) = s.next {
            let x = between(&s.vertices[0].x, &s.vertices[k].x, 0.5);
            s.vertices[k] = self.visit(x)?;
            s.next = if k < last { Move::Shrink(k + 1) } else { Move::Reflect };
            return Ok(true);
        }
        if s.next == Move::Reflect {
            s.vertices.sort_by(|a, b| a.excess.total_cmp(&b.excess).then(a.value.total_cmp(&b.value)));
            let size = s.vertices.iter().map(|v| vec::distance(&v.x, &s.vertices[0].x)).fold(0.0, f64::max);
            if size <= SMALL || s.visited > MOST * n {
                return Ok(false);
            }
        }
        let mut centre = vec![0.0; n];
        s.vertices[..last].iter().for_each(|v| vec::add_scaled(&mut centre, 1.0 / last as f64, &v.x));
        let worst = &s.vertices[last];
        match s.next.clone() {
            Move::Expand(reflected) => {
                let x = between(&worst.x, &centre, 3.0);
                let further = self.visit(x)?;
                s.vertices[last] = if further.beats(&reflected) { further } else { reflected };
                s.next = Move::Reflect;
            }
            Move::Contract(reflected) => {
                let towards = if reflected.beats(worst) { reflected } else { worst.clone() };
                let x = between(&centre, &towards.x, 0.5);
                let nearer = self.visit(x)?;
                if nearer.beats(&towards) {
                    s.vertices[last] = nearer;
                    s.next = Move::Reflect;
                } else {
                    s.next = Move::Shrink(1);
                }
            }
            _ => {
                let x = between(&worst.x, &centre, 2.0);
                let reflected = self.visit(x)?;
                if reflected.beats(&s.vertices[0]) {
                    s.next = Move::Expand(reflected);
                } else if reflected.beats(&s.vertices[last.saturating_sub(1)]) {
                    s.vertices[last] = reflected;
                } else {
                    s.next = Move::Contract(reflected);
                }
            }
        }
        Ok(true)
    }

    /// Continues after a local search: with a smaller simplex if this one gained something, or from the next start.
    fn follow(&mut self, s: Simplex) -> Result<()> {
        let Some(best) = s.vertices.iter().min_by(|a, b| a.excess.total_cmp(&b.excess).then(a.value.total_cmp(&b.value))) else {
            return Ok(());
        };
        let gained = s.restarts == 0 || s.before - best.value > GAIN || !best.value.is_finite();
        // A start that led nowhere near the best point is not refined.
        let promising = !self.s.best.beats(best) || self.s.best.value > best.value - GAIN;
        if gained && promising && s.restarts < RESTARTS {
            self.s.simplex = Some(self.simplex(best.clone(), RESTARTED * s.size, s.restarts + 1)?);
        }
        Ok(())
    }

    /// Evaluates the next point.
    fn proceed(&mut self) -> Result<Step> {
        let k = self.s.sampled.len();
        if k <= self.samples() {
            // The start of the user comes first.
            let x = if k == 0 { self.s.best.x.clone() } else { self.sample(k - 1)? };
            let found = self.visit(x)?;
            self.s.sampled.push(found);
            if k == self.samples() {
                self.choose_starts();
            }
            return Ok(Step::default());
        }
        let Some(mut simplex) = self.s.simplex.take() else {
            let Some(start) = self.s.starts.pop() else { return Ok(Step { finished: true, ..Step::default() }) };
            self.s.simplex = Some(self.simplex(start, 0.5 * self.spacing(), 0)?);
            return Ok(Step::default());
        };
        let before = simplex.clone();
        match self.advance(&mut simplex) {
            Ok(true) => self.s.simplex = Some(simplex),
            Ok(false) => self.follow(simplex)?,
            Err(error) => {
                self.s.simplex = Some(before);
                return Err(error);
            }
        }
        Ok(Step::default())
    }
}

/// Returns the point at `share` of the way from one point to another.
fn between(from: &[f64], to: &[f64], share: f64) -> Vec<f64> {
    from.iter().zip(to).map(|(from, to)| from + share * (to - from)).collect()
}

impl Method for DirectSearch {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn iterate(&self, out: &mut [f64]) {
        let units = &self.problem.units;
        let z = units.original_x(&self.s.best.x).into_iter().chain(units.original_y(&self.s.best.y));
        out.iter_mut().zip(z).for_each(|(out, z)| *out = z);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.iterate(out);
        PointOrigin::OutputRule
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn ValueEval + 'e> for DirectSearch {
    fn start(&mut self, _: &mut (dyn ValueEval + 'e), z: &[f64]) -> Result<()> {
        let n = self.problem.outer_dim();
        let (x, y) = (self.problem.units.to_x(&z[..n]), self.problem.units.to_y(&z[n..]));
        // Any other point beats the start until it has been evaluated.
        self.s = Saved { best: Judged { x, y, excess: f64::INFINITY, value: f64::INFINITY }, ..Saved::default() };
        Ok(())
    }

    fn step(&mut self, _: &mut (dyn ValueEval + 'e)) -> Result<Step> {
        match self.proceed() {
            // Nothing has changed; the run ends before the next step.
            Err(_) if is_set(self.interrupt.as_ref()) => Ok(Step::default()),
            other => other,
        }
    }
}
