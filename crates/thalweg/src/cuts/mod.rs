//! Cutting-plane models of convexified functions: cuts that stay valid when the proximal centre moves, the master program over
//! them, and aggregation. Choosing evaluation points and stopping is left to [`crate::solvers`] and [`crate::certify`].

pub(crate) mod constants;
mod master;
pub(crate) mod noise;
mod norm;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::math::vec;
use crate::sets::{Set, Warm};
pub(crate) use master::{ActiveSet, Program, Role};
use noise::{Noise, accuracy, size};
pub use norm::Norm;

/// The function that a cut bounds from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// The objective.
    Objective,
    /// Constraint j.
    Constraint(u32),
    /// The indicator of the domain: the cut is at most 0 on the domain.
    Domain,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cut {
    owner: Owner,
    /// Value of the linearisation at the centre, without the convexification: `value - <s, D>`.
    linear: f64,
    /// `||D||^2 / 2` in the plain and in the scaled norm; the convexification subtracts this times its constant from the
    /// height.
    half: [f64; 2],
    /// Value of the owner at the point of the cut; `None` for an aggregate and for a cut of the domain.
    value: Option<f64>,
    /// Sum of the absolute values that `linear` was computed from; its error is at most the accuracy times this.
    size: f64,
    /// Norm of the subgradient.
    steepness: f64,
    /// Largest `||D||^2 / 2` so far.
    reach: f64,
    /// Number of times that the cut was rewritten, each of which rounds once more.
    moves: u32,
    /// Time at which the multiplier was last positive or the cut was added.
    used: u64,
}

/// A pair of points that contradicts a weak-convexity constant: with a smaller constant than `needed`, the cut at `from` lies
/// above the function at `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Function that the constant belongs to.
    pub owner: Owner,
    /// The claimed constant.
    pub claimed: f64,
    /// Smallest constant that is consistent with the pair.
    pub needed: f64,
    /// Point of the cut.
    pub from: Vec<f64>,
    /// Point at which the function lies below the cut.
    pub at: Vec<f64>,
}

/// Constants and norm of the quadratic terms that make the functions convex. Several convexifications of the same model can
/// coexist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Convexification {
    /// Constants: of the objective, then of each constraint.
    pub constants: Vec<f64>,
    /// Whether distances, including the master's proximal term, are measured in the scaled norm.
    pub scaled: bool,
}

impl Convexification {
    /// Returns the constant of `owner`.
    pub fn constant(&self, owner: Owner) -> f64 {
        match owner {
            Owner::Objective => self.constants[0],
            Owner::Constraint(j) => self.constants[1 + j as usize],
            Owner::Domain => 0.0,
        }
    }

    /// Iterates over the functions with a constant.
    fn owners(&self) -> impl Iterator<Item = Owner> + use<> {
        std::iter::once(Owner::Objective).chain((1..self.constants.len() as u32).map(|j| Owner::Constraint(j - 1)))
    }
}

/// Solution of a master program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Master {
    /// Lower bound on the optimum of the proximal subproblem with penalised constraints, relative to the reference; valid for
    /// multipliers of any accuracy, and in spite of rounding.
    pub lower: f64,
    /// Amount by which rounding lowers `lower`.
    pub error: f64,
    /// Weighted mean of the cuts at the centre. With `slope`, the norm of its slope, `linear - slope * r` is a lower bound of
    /// convex functions within distance r. Both account for rounding.
    pub linear: f64,
    /// See `linear`.
    pub slope: f64,
    /// Amount by which the model of the constraints exceeds 0 at the solution.
    pub excess: f64,
    /// Number of changes of the active set.
    pub pivots: u32,
}

/// Objective of the master program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MasterObjective {
    /// Proximal coefficient beyond the weak-convexity constant.
    pub mu: f64,
    /// Price of the largest excess over the level.
    pub penalty: f64,
    /// Upper level of the constraints.
    pub level: f64,
    /// Whether only the largest constraint is minimised.
    pub feasibility: bool,
}

/// Cuts around a centre c. The cut of a function h with constant rho, made at z with subgradient s, satisfies `h(y) + (rho / 2)
/// ||y - c||^2 >= height + <slope, y - c>` for every y, where with D = z - c `slope = s + rho D` and `height = h(z) - <s, D> -
/// (rho / 2) ||D||^2`. It is rewritten when c or the convexification changes; an aggregate is a weighted mean of cuts in every
/// part. A scaled norm is plain in transformed variables, in which the same formulas hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Model {
    dim: usize,
    centre: Vec<f64>,
    /// The scaled norm.
    norm: Norm,
    cuts: Vec<Cut>,
    /// s, rows of length `dim`.
    subgradients: Vec<f64>,
    /// D, rows of length `dim`.
    offsets: Vec<f64>,
    views: Vec<View>,
    /// Error of each function beyond the relative accuracy: of the objective, then of each constraint.
    noise: Vec<Noise>,
    clock: u64,
    #[serde(skip)]
    work: Work,
}

/// Cuts under one convexification.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct View {
    convexification: Convexification,
    /// Slopes in the variables of the convexification, rows of length `dim`.
    slopes: Vec<f64>,
    /// Inner products of the slopes, rows of length `stride`.
    gram: Vec<f64>,
    stride: usize,
    /// Multipliers of the last master program.
    weights: Vec<f64>,
}

#[derive(Debug, Clone, Default)]
struct Work {
    set: ActiveSet,
    heights: Vec<f64>,
    roles: Vec<Role>,
    delta: Vec<f64>,
    times: Vec<f64>,
    foot: Vec<f64>,
    order: Vec<usize>,
    warm: Warm,
}

impl View {
    fn row(&self, dim: usize, i: usize) -> &[f64] {
        &self.slopes[i * dim..][..dim]
    }

    fn norm<'n>(&self, scaled: &'n Norm) -> &'n Norm {
        if self.convexification.scaled { scaled } else { &Norm::Plain }
    }

    fn push_slope(&mut self, rho: f64, subgradient: &[f64], offset: &[f64], norm: &Norm, work: &mut Vec<f64>) {
        let norm = self.norm(norm);
        let begin = self.slopes.len();
        self.slopes.extend_from_slice(subgradient);
        norm.slope(&mut self.slopes[begin..]);
        if rho != 0.0 {
            work.resize(offset.len(), 0.0);
            norm.step(offset, work);
            vec::add_scaled(&mut self.slopes[begin..], rho, work);
        }
    }

    /// Computes the inner products of slope `i` with those up to it.
    fn products(&mut self, dim: usize, i: usize) {
        if i >= self.stride {
            self.widen(i, (2 * i).max(32));
        }
        for j in 0..=i {
            let product = vec::dot(self.row(dim, i), self.row(dim, j));
            self.gram[i * self.stride + j] = product;
            self.gram[j * self.stride + i] = product;
        }
    }

    fn widen(&mut self, n: usize, stride: usize) {
        let mut gram = vec![0.0; stride * stride];
        for i in 0..n {
            gram[i * stride..][..n].copy_from_slice(&self.gram[i * self.stride..][..n]);
        }
        (self.gram, self.stride) = (gram, stride);
    }

    /// Moves the centre by `step`.
    fn shift(&mut self, cuts: &[Cut], step: &[f64], norm: &Norm, work: &mut Work) {
        let dim = step.len();
        let Work { delta, heights: products, .. } = work;
        // In the variables of the convexification.
        delta.resize(dim, 0.0);
        self.norm(norm).step(step, delta);
        let square = vec::norm_squared(delta);
        products.clear();
        products.extend((0..cuts.len()).map(|i| vec::dot(self.row(dim, i), delta)));
        for (i, cut) in cuts.iter().enumerate() {
            let rho = self.convexification.constant(cut.owner);
            for (j, other) in cuts[..=i].iter().enumerate() {
                let other = self.convexification.constant(other.owner);
                let change = rho * other * square - rho * products[j] - other * products[i];
                self.gram[i * self.stride + j] += change;
                if i != j {
                    self.gram[j * self.stride + i] += change;
                }
            }
        }
        for (i, cut) in cuts.iter().enumerate() {
            vec::add_scaled(&mut self.slopes[i * dim..][..dim], -self.convexification.constant(cut.owner), delta);
        }
    }

    /// Removes the cuts in `removed`.
    fn keep(&mut self, dim: usize, n: usize, removed: &[usize]) {
        let stride = self.stride;
        let mut kept = 0;
        for i in (0..n).filter(|i| removed.binary_search(i).is_err()) {
            if i != kept {
                self.slopes.copy_within(i * dim..(i + 1) * dim, kept * dim);
                self.weights[kept] = self.weights[i];
                self.gram.copy_within(i * stride..i * stride + n, kept * stride);
            }
            for (column, j) in (0..n).filter(|j| removed.binary_search(j).is_err()).enumerate() {
                self.gram[kept * stride + column] = self.gram[kept * stride + j];
            }
            kept += 1;
        }
        self.slopes.truncate(kept * dim);
        self.weights.truncate(kept);
    }
}

fn row(rows: &[f64], dim: usize, i: usize) -> &[f64] {
    &rows[i * dim..][..dim]
}

impl Model {
    /// Removes every cut and starts around `centre`.
    pub fn begin(&mut self, centre: &[f64], norm: Norm, convexifications: &[Convexification]) {
        self.dim = centre.len();
        self.centre.clear();
        self.centre.extend_from_slice(centre);
        self.norm = norm;
        self.views.resize_with(convexifications.len(), View::default);
        for (view, convexification) in self.views.iter_mut().zip(convexifications) {
            view.convexification.clone_from(convexification);
            view.slopes.clear();
            view.weights.clear();
        }
        self.clock = 0;
        self.noise.clear();
        self.noise.resize(convexifications.first().map_or(1, |c| c.constants.len()), Noise::default());
        self.cuts.clear();
        self.subgradients.clear();
        self.offsets.clear();
    }

    /// Returns a convexification.
    pub fn convexification(&self, view: usize) -> &Convexification {
        &self.views[view].convexification
    }

    /// Computes `||y - c||^2` in the norm of a convexification.
    pub fn square(&mut self, view: usize, y: &[f64]) -> f64 {
        let scaled = self.views[view].convexification.scaled;
        self.squares(y)[usize::from(scaled)]
    }

    /// Computes the plain and the scaled square of `y - c`, and leaves M times it in `work.delta`.
    fn squares(&mut self, y: &[f64]) -> [f64; 2] {
        let Work { delta, foot, .. } = &mut self.work;
        foot.clear();
        foot.extend(y.iter().zip(&self.centre).map(|(y, c)| y - c));
        let plain = vec::norm_squared(foot);
        delta.resize(y.len(), 0.0);
        self.norm.step(foot, delta);
        let scaled = vec::norm_squared(delta);
        self.norm.forth(delta);
        [plain, scaled]
    }

    /// Sets the constant of `owner` in a convexification.
    pub fn set_constant(&mut self, view: usize, owner: Owner, rho: f64) {
        let view = &mut self.views[view];
        match owner {
            Owner::Objective => view.convexification.constants[0] = rho,
            Owner::Constraint(j) => view.convexification.constants[1 + j as usize] = rho,
            Owner::Domain => return,
        }
        view.slopes.clear();
        for (i, cut) in self.cuts.iter().enumerate() {
            let rho = view.convexification.constant(cut.owner);
            let (s, d) = (row(&self.subgradients, self.dim, i), row(&self.offsets, self.dim, i));
            view.push_slope(rho, s, d, &self.norm, &mut self.work.delta);
        }
        (0..self.cuts.len()).for_each(|i| view.products(self.dim, i));
    }

    /// Adds the cut at `point` with the value and a subgradient of the owner or, if the owner is a maximum of pieces, of one
    /// piece, and the value of the owner itself.
    pub fn add(&mut self, owner: Owner, point: &[f64], (piece, value): (f64, f64), subgradient: &[f64]) {
        let half = self.squares(point).map(|square| 0.5 * square);
        let (mut linear, mut size) = (piece, size(piece, point, subgradient));
        for ((s, z), c) in subgradient.iter().zip(point).zip(&self.centre) {
            let d = z - c;
            linear -= s * d;
            size += (s * d).abs();
            self.offsets.push(d);
        }
        self.subgradients.extend_from_slice(subgradient);
        let value = (owner != Owner::Domain).then_some(value);
        let (steepness, used) = (vec::norm(subgradient), self.clock);
        self.finish(Cut { owner, linear, half, value, size, steepness, reach: half[0], moves: 0, used });
    }

    /// Raises the bounds on the error of a function.
    pub fn raise_noise(&mut self, owner: Owner, noise: Noise) {
        let at = match owner {
            Owner::Objective => 0,
            Owner::Constraint(j) => 1 + j as usize,
            Owner::Domain => return,
        };
        self.noise[at] = self.noise[at].max(noise);
    }

    /// Returns the bounds on the error of a function beyond the relative accuracy.
    pub fn noise(&self, owner: Owner) -> Noise {
        match owner {
            Owner::Objective => self.noise[0],
            Owner::Constraint(j) => self.noise[1 + j as usize],
            Owner::Domain => Noise::default(),
        }
    }

    /// Returns bounds on the error of a cut with a constant: of its height, and of its slope.
    fn cut_error(&self, cut: &Cut, rho: f64) -> (f64, f64) {
        let (accuracy, noise) = (accuracy(self.dim), self.noise(cut.owner));
        let (rounds, reach) = (1.0 + f64::from(cut.moves), (2.0 * cut.reach).sqrt());
        let slope = noise.slope + rounds * accuracy * (cut.steepness + rho * reach);
        // An error of the subgradient counts from the point of the cut.
        (noise.value + (noise.slope + accuracy * cut.steepness) * reach + accuracy * (cut.size + rounds * rho * cut.reach), slope)
    }

    /// Updates the views after subgradient and offset were added.
    fn finish(&mut self, cut: Cut) {
        let i = self.cuts.len();
        self.cuts.push(cut);
        for view in &mut self.views {
            let rho = view.convexification.constant(cut.owner);
            let (s, d) = (row(&self.subgradients, self.dim, i), row(&self.offsets, self.dim, i));
            view.push_slope(rho, s, d, &self.norm, &mut self.work.delta);
            view.weights.push(0.0);
            view.products(self.dim, i);
        }
    }

    /// Moves the centre; every cut stays valid.
    pub fn move_to(&mut self, centre: &[f64]) {
        let squares = self.squares(centre);
        let Work { foot, times, delta, .. } = &mut self.work;
        let (mut step, mut product) = (std::mem::take(foot), std::mem::take(times));
        product.clone_from(delta);
        for view in &mut self.views {
            view.shift(&self.cuts, &step, &self.norm, &mut self.work);
        }
        for (i, cut) in self.cuts.iter_mut().enumerate() {
            let (s, offset) = (row(&self.subgradients, self.dim, i), &mut self.offsets[i * self.dim..][..self.dim]);
            cut.linear += vec::dot(s, &step);
            cut.half[0] += 0.5 * squares[0] - vec::dot(offset, &step);
            cut.half[1] += 0.5 * squares[1] - vec::dot(offset, &product);
            cut.size += cut.linear.abs() + cut.steepness * squares[0].sqrt();
            cut.reach = cut.reach.max(cut.half[0]);
            cut.moves = cut.moves.saturating_add(1);
            vec::add_scaled(offset, -1.0, &step);
        }
        step.clear();
        self.work.times = product;
        self.work.foot = step;
        self.centre.copy_from_slice(centre);
    }

    /// Solves the master program around the centre and writes its solution to `y`. Heights of minimised cuts and the lower
    /// bound are relative to `reference`, for accuracy.
    pub fn solve(&mut self, view: usize, objective: MasterObjective, reference: f64, y: &mut [f64]) -> Master {
        let at = view;
        let Work { set, heights, roles, .. } = &mut self.work;
        let view = &mut self.views[view];
        roles.clear();
        heights.clear();
        let norm = usize::from(view.convexification.scaled);
        for cut in &self.cuts {
            let height = cut.linear - view.convexification.constant(cut.owner) * cut.half[norm];
            let (role, height) = match (cut.owner, objective.feasibility) {
                (Owner::Objective, false) => (Role::Minimised, height - reference),
                (Owner::Objective, true) => (Role::Absent, 0.0),
                (Owner::Constraint(_), false) => (Role::Penalised, height - objective.level),
                (Owner::Constraint(_), true) => (Role::Minimised, height - reference),
                (Owner::Domain, _) => (Role::Hard, height),
            };
            roles.push(role);
            heights.push(height);
        }
        let program =
            Program { gram: &view.gram, stride: view.stride, heights, roles, mu: objective.mu, penalty: objective.penalty };
        let solved = set.solve(&program, &mut view.weights);
        // d = -(1/mu) sum of weighted slopes, and the dual value there: a lower bound for any weights.
        y.fill(0.0);
        let mut linear = 0.0;
        for (i, &weight) in view.weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            linear += weight * heights[i];
            vec::add_scaled(y, weight, view.row(self.dim, i));
            self.cuts[i].used = self.clock;
        }
        let square = vec::norm_squared(y);
        view.norm(&self.norm).back(y);
        for (y, c) in y.iter_mut().zip(&self.centre) {
            *y = c - *y / objective.mu;
        }
        let (error, slope_error) = self.dual_error(at, linear.abs() + square / objective.mu);
        let slope = square.sqrt() + slope_error;
        let linear = linear - error;
        let lower = linear - slope * slope / (2.0 * objective.mu);
        let error = error + (slope * slope - square) / (2.0 * objective.mu);
        Master { lower, error, linear, slope, excess: solved.excess, pivots: solved.pivots }
    }

    /// Returns bounds on the errors of the weighted mean of the cuts with the multipliers of a view: of its height, and of its
    /// slope. `dual` is the size of the dual value, which changes as much as the sum of the multipliers differs from 1.
    fn dual_error(&self, view: usize, dual: f64) -> (f64, f64) {
        let view = &self.views[view];
        let (mut error, mut slope_error, mut size, mut steepness, mut active) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (i, (cut, &weight)) in self.cuts.iter().zip(&view.weights).enumerate().filter(|(_, (_, w))| **w > 0.0) {
            let (height, slope) = self.cut_error(cut, view.convexification.constant(cut.owner));
            error += weight * height;
            slope_error += weight * slope;
            size += weight * self.work.heights[i].abs();
            steepness += weight * view.gram[i * view.stride + i].max(0.0).sqrt();
            active += 1.0;
        }
        let sums = (4.0 + active) * f64::EPSILON;
        (error + sums * (size + dual), slope_error + sums * steepness)
    }

    /// As [`Model::solve`] with the solution in `set`: adds cuts of the set until the solution lies in it or the round limit is
    /// reached. The lower bound is valid in both cases, and `y` is projected onto the set.
    pub fn solve_in(
        &mut self,
        view: usize,
        set: &dyn Set,
        objective: MasterObjective,
        reference: f64,
        y: &mut [f64],
    ) -> Result<Master> {
        let mut master = self.solve(view, objective, reference, y);
        for _ in 0..ROUNDS {
            if !self.separate(set, y)? {
                break;
            }
            let next = self.solve(view, objective, reference, y);
            // Cuts of the set can only raise the bound; rounding must not lower it.
            master = Master { lower: next.lower.max(master.lower), pivots: master.pivots + next.pivots, ..next };
        }
        set.project(y, &mut self.work.warm)?;
        Ok(master)
    }

    /// Adds cuts of `set` that `y` violates. Returns false if there is no new one, because `y` is in the set up to rounding, or violates
    /// only cuts of the model, which the master program was not solved accurately enough for.
    fn separate(&mut self, set: &dyn Set, y: &[f64]) -> Result<bool> {
        let mut foot = std::mem::take(&mut self.work.foot);
        foot.clear();
        foot.extend_from_slice(y);
        set.project(&mut foot, &mut self.work.warm)?;
        let mut new = false;
        if vec::distance(y, &foot) > 1e-12 * (1.0 + vec::norm(y)) {
            let mut normal = vec![0.0; y.len()];
            set.separate(y, &foot, &mut |from, part| {
                let length = vec::norm(part);
                if length > 0.0 {
                    normal.fill(0.0);
                    normal[from..from + part.len()].iter_mut().zip(part).for_each(|(n, p)| *n = p / length);
                    if !self.has_half_space(&foot, &normal) {
                        self.add(Owner::Domain, &foot, (0.0, 0.0), &normal);
                        new = true;
                    }
                }
            });
        }
        self.work.foot = foot;
        Ok(new)
    }

    /// Returns whether a cut of the domain is the half-space `<normal, x - foot> <= 0`, up to rounding.
    fn has_half_space(&self, foot: &[f64], normal: &[f64]) -> bool {
        let along = |k: usize| normal[k] * (foot[k] - self.centre[k]);
        let level = vec::sum_by(normal.len(), along);
        let size = vec::sum_by(normal.len(), |k| (normal[k] * foot[k]).abs() + (normal[k] * self.centre[k]).abs());
        self.cuts.iter().enumerate().filter(|(_, cut)| cut.owner == Owner::Domain).any(|(i, _)| {
            let same = row(&self.subgradients, self.dim, i) == normal;
            same && (vec::dot(normal, row(&self.offsets, self.dim, i)) - level).abs() <= 8.0 * f64::EPSILON * size
        })
    }

    /// Copies the cuts of `owner`, a convex function, into another model as cuts of `other`, which is the function minus
    /// `less`.
    pub fn copy_cuts(&self, owner: Owner, to: &mut Model, other: Owner, less: f64) {
        for (i, cut) in self.cuts.iter().enumerate().filter(|(_, cut)| cut.owner == owner) {
            let s = row(&self.subgradients, self.dim, i);
            let point: Vec<f64> = self.centre.iter().zip(row(&self.offsets, self.dim, i)).map(|(c, d)| c + d).collect();
            let piece = cut.linear + vec::dot(s, row(&self.offsets, self.dim, i)) - less;
            to.add(other, &point, (piece, cut.value.unwrap_or(piece + less) - less), s);
        }
    }

    /// Returns the largest norm of a slope of the objective or of a constraint.
    pub fn steepest(&self, view: usize) -> f64 {
        self.steepest_of(view, |owner| owner != Owner::Domain)
    }

    /// Returns the largest norm of a slope of a constraint.
    pub fn steepest_constraint(&self, view: usize) -> f64 {
        self.steepest_of(view, |owner| matches!(owner, Owner::Constraint(_)))
    }

    fn steepest_of(&self, view: usize, counts: impl Fn(Owner) -> bool) -> f64 {
        let view = &self.views[view];
        let cuts = self.cuts.iter().enumerate().filter(|(_, cut)| counts(cut.owner));
        cuts.fold(0.0, |most: f64, (i, _)| most.max(view.gram[i * view.stride + i])).sqrt()
    }

    /// Computes the mean slope of the cuts, without those of the domain, in the last master program of a view with the plain norm,
    /// and the mean of their heights at the centre.
    pub fn mean_of_functions(&self, view: usize, reference: f64, level: f64, slope: &mut [f64]) -> f64 {
        let view = &self.views[view];
        slope.fill(0.0);
        let mut height = 0.0;
        for (i, cut) in self.cuts.iter().enumerate().filter(|(i, cut)| view.weights[*i] > 0.0 && cut.owner != Owner::Domain) {
            let own = cut.linear - view.convexification.constant(cut.owner) * cut.half[0];
            height += view.weights[i] * (own - if cut.owner == Owner::Objective { reference } else { level });
            vec::add_scaled(slope, view.weights[i], view.row(self.dim, i));
        }
        height
    }

    /// Returns the largest entry of the mean slope of the last master program, relative to the largest entry of a constraint's
    /// subgradient in the same coordinate: how flat the mean is, whatever the units of the variables.
    pub fn flatness(&self, view: usize) -> f64 {
        let view = &self.views[view];
        let (mut mean, mut largest) = (vec![0.0; self.dim], vec![0.0_f64; self.dim]);
        for (i, cut) in self.cuts.iter().enumerate() {
            if view.weights[i] > 0.0 {
                vec::add_scaled(&mut mean, view.weights[i], view.row(self.dim, i));
            }
            if matches!(cut.owner, Owner::Constraint(_)) {
                largest.iter_mut().zip(row(&self.subgradients, self.dim, i)).for_each(|(most, s)| *most = most.max(s.abs()));
            }
        }
        let ratios = mean.iter().zip(&largest).map(|(mean, most)| if *mean == 0.0 { 0.0 } else { mean.abs() / most });
        ratios.fold(0.0, f64::max)
    }

    /// Iterates over the cuts with a positive multiplier in the last master program of a view: function, multiplier, subgradient,
    /// and the offset of the point of the cut from the centre.
    pub(crate) fn active(&self, view: usize) -> impl Iterator<Item = (Owner, f64, &[f64], Vec<f64>)> {
        let weights = self.views[view].weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        weights.map(|(i, weight)| {
            let offset = row(&self.offsets, self.dim, i).to_vec();
            (self.cuts[i].owner, *weight, row(&self.subgradients, self.dim, i), offset)
        })
    }

    /// Iterates over the points of the cuts of `owner` that differ from the centre, the oldest first.
    pub fn cut_points(&self, owner: Owner) -> impl Iterator<Item = Vec<f64>> + '_ {
        let cuts = self.cuts.iter().enumerate().filter(move |(_, cut)| cut.owner == owner && cut.value.is_some());
        let offsets = cuts.map(|(i, _)| row(&self.offsets, self.dim, i)).filter(|d| d.iter().any(|d| *d != 0.0));
        offsets.map(|d| self.centre.iter().zip(d).map(|(c, d)| c + d).collect())
    }

    /// Returns the weighted mean of the sums of absolute values that the heights of the cuts were computed from, in the last master
    /// program of a view.
    pub fn mean_size(&self, view: usize) -> f64 {
        self.cuts.iter().zip(&self.views[view].weights).map(|(cut, weight)| weight * (cut.size + cut.linear.abs())).sum()
    }

    /// Iterates over the subgradients of the cuts.
    pub fn subgradients(&self) -> impl Iterator<Item = &[f64]> {
        self.subgradients.chunks(self.dim.max(1))
    }

    /// Writes the multiplier of each constraint in the last master program of a view.
    pub fn multipliers(&self, view: usize, out: &mut [f64]) {
        out.fill(0.0);
        for (cut, weight) in self.cuts.iter().zip(&self.views[view].weights) {
            if let Owner::Constraint(j) = cut.owner {
                out[j as usize] += weight;
            }
        }
    }

    /// Finds the pair of points, one of them new, that requires the largest constant of `owner` above that of a
    /// convexification: existing cuts against the value at the new point, and the cut at the new point against existing values.
    pub fn contradiction(
        &mut self,
        view: usize,
        owner: Owner,
        point: &[f64],
        value: f64,
        subgradient: &[f64],
    ) -> Option<Contradiction> {
        let (squares, own) = (self.squares(point), size(value, point, subgradient));
        let convexification = &self.views[view].convexification;
        let norm = usize::from(convexification.scaled);
        let product = &self.work.delta;
        let claimed = convexification.constant(owner);
        let mut worst: Option<(f64, usize, bool)> = None;
        for (i, cut) in self.cuts.iter().enumerate().filter(|(_, c)| c.owner == owner) {
            let Some(old) = cut.value else { continue };
            let (s, d) = (row(&self.subgradients, self.dim, i), row(&self.offsets, self.dim, i));
            let (mut plain, mut there, mut back) = (0.0, cut.linear, value);
            for k in 0..self.dim {
                let from_centre = point[k] - self.centre[k];
                let step = from_centre - d[k];
                plain += step * step;
                there += s[k] * from_centre;
                back -= subgradient[k] * step;
            }
            let square = match norm {
                0 => plain,
                _ => (squares[1] + 2.0 * (cut.half[1] - vec::dot(d, product))).max(0.0),
            };
            if square <= 1e-10 * (squares[norm] + cut.half[norm]) {
                continue; // one point twice, or nothing but rounding
            }
            // Points that nearly coincide carry no information beyond rounding.
            let noise = 1e-10 * (own + cut.size) + 4.0 * self.noise(owner).value;
            for (over, backwards) in [(there - value, false), (back - old, true)] {
                if over - 0.5 * claimed * square > noise {
                    let needed = 2.0 * over / square;
                    if worst.is_none_or(|(most, ..)| needed > most) {
                        worst = Some((needed, i, backwards));
                    }
                }
            }
        }
        worst.map(|(needed, i, backwards)| {
            let old = self.centre.iter().zip(row(&self.offsets, self.dim, i)).map(|(c, d)| c + d).collect();
            let (from, at) = if backwards { (point.to_vec(), old) } else { (old, point.to_vec()) };
            Contradiction { owner, claimed, needed, from, at }
        })
    }

    /// Returns the largest multiplier of a cut over the views.
    fn weight(&self, i: usize) -> f64 {
        self.views.iter().fold(0.0, |most: f64, view| most.max(view.weights[i]))
    }

    /// Reduces the number of cuts to `most`: inactive cuts that were used longest ago go first, then those inactive in `view`
    /// alone; if that is not enough, the cuts with the smallest multipliers are merged, weighted by the multipliers of `view`,
    /// so that its last solution stays optimal. Cuts added after the last master program and active cuts of the domain always
    /// stay, even if they are more than `most`.
    pub fn limit(&mut self, view: usize, most: usize) {
        let now = self.clock;
        self.clock += 1;
        if self.cuts.len() <= most {
            return;
        }
        let mut order = std::mem::take(&mut self.work.order);
        for everywhere in [true, false] {
            let idle = |i: usize| if everywhere { self.weight(i) == 0.0 } else { self.views[view].weights[i] == 0.0 };
            order.clear();
            order.extend((0..self.cuts.len()).filter(|&i| idle(i) && !self.fresh(i, now)));
            // Oldest first; of equal age, the earlier one first.
            order.sort_unstable_by_key(|&i| (self.cuts[i].used, i));
            order.truncate(self.cuts.len().saturating_sub(most));
            order.sort_unstable();
            self.remove(&order);
        }
        while self.cuts.len() > most && self.merge(view, most, now, &mut order) {}
        self.work.order = order;
    }

    /// Returns whether a cut was added after the last master program.
    fn fresh(&self, i: usize, now: u64) -> bool {
        let cut = &self.cuts[i];
        cut.owner != Owner::Domain && cut.used == now && cut.value.is_some() && self.weight(i) == 0.0
    }

    /// Merges cuts of the owner with the most cuts. Returns false if there was nothing to merge.
    fn merge(&mut self, view: usize, most: usize, now: u64, order: &mut Vec<usize>) -> bool {
        let mergeable = |i: usize| self.cuts[i].owner != Owner::Domain && !self.fresh(i, now);
        let mut crowded = None;
        for owner in self.views[view].convexification.owners() {
            let count = (0..self.cuts.len()).filter(|&i| self.cuts[i].owner == owner && mergeable(i)).count();
            if count >= 2 && crowded.is_none_or(|(most, _)| count > most) {
                crowded = Some((count, owner));
            }
        }
        let Some((count, owner)) = crowded else { return false };
        order.clear();
        order.extend((0..self.cuts.len()).filter(|&i| self.cuts[i].owner == owner && mergeable(i)));
        let weights = &self.views[view].weights;
        let lighter = |a: usize, b: usize| weights[a].total_cmp(&weights[b]).then(self.weight(a).total_cmp(&self.weight(b)));
        order.sort_unstable_by(|&a, &b| lighter(a, b).then(a.cmp(&b)));
        order.truncate((self.cuts.len() - most + 1).min(count / 2).max(2));
        order.sort_unstable();
        self.merge_into_one(view, owner, order);
        true
    }

    /// Replaces the cuts in `order`, all of one owner, by their weighted mean.
    fn merge_into_one(&mut self, view: usize, owner: Owner, order: &[usize]) {
        let mut totals = std::mem::take(&mut self.work.heights);
        totals.clear();
        totals.extend(self.views.iter().map(|view| order.iter().map(|&i| view.weights[i]).sum::<f64>()));
        // If none of them has a multiplier in this view, use the weights of another one.
        let by = if totals[view] > 0.0 { Some(view) } else { totals.iter().position(|total| *total > 0.0) };
        let mut merged = Cut {
            owner,
            linear: 0.0,
            half: [0.0; 2],
            value: None,
            size: 0.0,
            steepness: 0.0,
            reach: 0.0,
            moves: 0,
            used: self.clock,
        };
        let (mut subgradient, mut offset) = (std::mem::take(&mut self.work.times), std::mem::take(&mut self.work.foot));
        for row in [&mut subgradient, &mut offset] {
            row.clear();
            row.resize(self.dim, 0.0);
        }
        for &i in order.iter() {
            let share = by.map_or(1.0 / order.len() as f64, |by| self.views[by].weights[i] / totals[by]);
            merged.linear += share * self.cuts[i].linear;
            merged.half.iter_mut().zip(self.cuts[i].half).for_each(|(m, half)| *m += share * half);
            merged.size += share * (self.cuts[i].size + self.cuts[i].linear.abs());
            merged.steepness += share * self.cuts[i].steepness;
            merged.reach = merged.reach.max(self.cuts[i].reach);
            merged.moves = merged.moves.max(self.cuts[i].moves.saturating_add(1));
            vec::add_scaled(&mut subgradient, share, row(&self.subgradients, self.dim, i));
            vec::add_scaled(&mut offset, share, row(&self.offsets, self.dim, i));
        }
        self.remove(order);
        self.subgradients.extend_from_slice(&subgradient);
        self.offsets.extend_from_slice(&offset);
        self.finish(merged);
        for (view, total) in self.views.iter_mut().zip(&totals) {
            view.weights.last_mut().into_iter().for_each(|weight| *weight = *total);
        }
        (self.work.heights, self.work.times, self.work.foot) = (totals, subgradient, offset);
    }

    /// Removes cuts; the indices ascend.
    fn remove(&mut self, removed: &[usize]) {
        if removed.is_empty() {
            return;
        }
        let (n, dim) = (self.cuts.len(), self.dim);
        self.views.iter_mut().for_each(|view| view.keep(dim, n, removed));
        let mut kept = 0;
        for i in (0..n).filter(|i| removed.binary_search(i).is_err()) {
            for rows in [&mut self.subgradients, &mut self.offsets] {
                rows.copy_within(i * dim..(i + 1) * dim, kept * dim);
            }
            self.cuts[kept] = self.cuts[i];
            kept += 1;
        }
        for rows in [&mut self.subgradients, &mut self.offsets] {
            rows.truncate(kept * dim);
        }
        self.cuts.truncate(kept);
    }
}

/// Largest number of rounds that cut off a solution outside the domain.
const ROUNDS: usize = 30;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may give up like tests

    use super::*;
    use crate::math::rng::{Purpose, Rng};
    use crate::oracle::Scales;
    use crate::sets::{Bounds, WholeSpace};

    fn random(dim: usize, rng: &mut Rng) -> Vec<f64> {
        (0..dim).map(|_| 2.0 * rng.uniform() - 1.0).collect()
    }

    /// All three kinds, each with its smallest eigenvalue.
    fn norms(dim: usize, rng: &mut Rng) -> [(Norm, f64); 3] {
        let diagonal: Vec<f64> = (0..dim).map(|_| 3.0 * rng.uniform()).collect();
        let root: Vec<f64> = (0..dim).flat_map(|_| random(dim, rng)).collect();
        let full = (0..dim * dim).map(|k| vec::dot(row(&root, dim, k / dim), row(&root, dim, k % dim))).collect();
        [Norm::of(None), Norm::of(Some(&Scales::Diagonal(diagonal))), Norm::of(Some(&Scales::Full(full)))]
    }

    /// `|<a, x>^2 - 1| + 2 cos <b, x> + max_k <c_k, x>`, weakly convex in the plain norm with the constant `2 ||a||^2 + 2 ||b||^2`.
    struct Rough {
        a: Vec<f64>,
        b: Vec<f64>,
        c: [Vec<f64>; 3],
    }

    impl Rough {
        fn new(dim: usize, rng: &mut Rng) -> Self {
            let mut row = || random(dim, rng);
            Rough { a: row(), b: row(), c: [row(), row(), row()] }
        }

        fn constant(&self) -> f64 {
            2.0 * vec::norm_squared(&self.a) + 2.0 * vec::norm_squared(&self.b)
        }

        fn at(&self, x: &[f64]) -> (f64, Vec<f64>) {
            let (a, b) = (vec::dot(&self.a, x), vec::dot(&self.b, x));
            let piece = self.c.iter().fold(&self.c[0], |most, c| if vec::dot(c, x) > vec::dot(most, x) { c } else { most });
            let mut slope = piece.clone();
            vec::add_scaled(&mut slope, 2.0 * a * (a * a - 1.0).signum(), &self.a);
            vec::add_scaled(&mut slope, -2.0 * b.sin(), &self.b);
            ((a * a - 1.0).abs() + 2.0 * b.cos() + vec::dot(piece, x), slope)
        }
    }

    fn height(model: &Model, view: usize, i: usize) -> f64 {
        let (cut, convexification) = (&model.cuts[i], &model.views[view].convexification);
        cut.linear - convexification.constant(cut.owner) * cut.half[usize::from(convexification.scaled)]
    }

    #[test]
    fn cuts_that_have_moved_equal_fresh_ones() {
        let mut rng = Rng::new(1, Purpose::Data);
        for trial in 0..60 {
            let dim = 1 + trial % 5;
            for (norm, _) in norms(dim, &mut rng) {
                let owners = [Owner::Objective, Owner::Constraint(0), Owner::Constraint(1), Owner::Domain];
                let mut convexifications =
                    [(); 2].map(|()| Convexification { constants: (0..3).map(|_| 3.0 * rng.uniform()).collect(), scaled: false });
                convexifications[0].scaled = norm != Norm::Plain;
                let start = random(dim, &mut rng);
                let mut model = Model::default();
                model.begin(&start, norm.clone(), &convexifications);
                let mut visits = vec![];
                for k in 0..40 {
                    let visit = (owners[rng.below(4)], random(dim, &mut rng), rng.uniform(), random(dim, &mut rng));
                    model.add(visit.0, &visit.1, (visit.2, visit.2), &visit.3);
                    visits.push(visit);
                    match k % 3 {
                        0 => model.move_to(&random(dim, &mut rng)),
                        1 => {
                            let (view, owner) = (rng.below(2), rng.below(3));
                            convexifications[view].constants[owner] = 4.0 * rng.uniform();
                            model.set_constant(view, owners[owner], convexifications[view].constants[owner]);
                        }
                        _ => {}
                    }
                    if k == 20 {
                        // Some go.
                        let removed = [3, 4, 11];
                        model.remove(&removed);
                        removed.iter().rev().for_each(|&i| drop(visits.remove(i)));
                    }
                }
                let mut fresh = Model::default();
                fresh.begin(&model.centre, norm.clone(), &convexifications);
                for (owner, point, value, slope) in &visits {
                    fresh.add(*owner, point, (*value, *value), slope);
                }
                assert_eq!(model.cuts.len(), fresh.cuts.len());
                let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-10, "{a} {b}, {norm:?}");
                for (view, n) in [(0, model.cuts.len()), (1, model.cuts.len())] {
                    let (moved, made) = (&model.views[view], &fresh.views[view]);
                    assert_eq!(moved.convexification, made.convexification);
                    moved.slopes.iter().zip(&made.slopes).for_each(|(a, b)| near(*a, *b));
                    for i in 0..n {
                        near(height(&model, view, i), height(&fresh, view, i));
                        (0..n).for_each(|j| near(moved.gram[i * moved.stride + j], made.gram[i * made.stride + j]));
                    }
                }
            }
        }
    }

    #[test]
    fn a_side_of_the_domain_is_added_once() {
        let set = Bounds::uniform(-1.0, 1.0).unwrap();
        let mut model = Model::default();
        model.begin(&[0.5, 0.0], Norm::Plain, &[Convexification { constants: vec![0.0], scaled: false }]);
        assert!(model.separate(&set, &[3.0, 0.2]).unwrap());
        assert!(!model.separate(&set, &[2.0, -0.4]).unwrap());
        assert!(model.separate(&set, &[2.0, 5.0]).unwrap());
        assert!(!model.separate(&set, &[1.0, 1.0]).unwrap());
        assert_eq!(model.cuts.len(), 2);
    }

    #[test]
    fn cuts_stay_below_the_function() {
        let mut rng = Rng::new(2, Purpose::Data);
        for trial in 0..40 {
            let dim = 1 + trial % 4;
            for (norm, least) in norms(dim, &mut rng) {
                let rough = Rough::new(dim, &mut rng);
                let plain = Convexification { constants: vec![rough.constant()], scaled: false };
                let scaled = Convexification { constants: vec![rough.constant() / least], scaled: norm != Norm::Plain };
                let mut model = Model::default();
                model.begin(&random(dim, &mut rng), norm, &[scaled, plain]);
                let mut y = vec![0.0; dim];
                for k in 0..30 {
                    let point = random(dim, &mut rng);
                    let (value, slope) = rough.at(&point);
                    assert!(model.contradiction(0, Owner::Objective, &point, value, &slope).is_none());
                    assert!(model.contradiction(1, Owner::Objective, &point, value, &slope).is_none());
                    model.add(Owner::Objective, &point, (value, value), &slope);
                    let objective = MasterObjective { mu: 1.0, penalty: 1.0, level: 0.0, feasibility: false };
                    model.solve(k % 2, objective, 0.0, &mut y);
                    // Merged cuts too.
                    model.limit(k % 2, 6);
                    model.move_to(&random(dim, &mut rng));
                    for _ in 0..5 {
                        let y: Vec<f64> = random(dim, &mut rng).iter().map(|v| 2.0 * v).collect();
                        let (value, _) = rough.at(&y);
                        for view in 0..2 {
                            let half = 0.5 * model.square(view, &y);
                            let step: Vec<f64> = y.iter().zip(&model.centre).map(|(y, c)| y - c).collect();
                            let mut there = vec![0.0; dim];
                            model.views[view].norm(&model.norm).step(&step, &mut there);
                            let above = value + model.convexification(view).constants[0] * half;
                            for i in 0..model.cuts.len() {
                                let cut = height(&model, view, i) + vec::dot(model.views[view].row(dim, i), &there);
                                assert!(cut <= above + 1e-9 * (1.0 + above.abs()), "{cut} {above}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Two functions and a box, visited where the master points.
    #[test]
    fn merging_keeps_the_lower_bound() {
        let mut rng = Rng::new(3, Purpose::Data);
        let (mut merged, dim) = (0, 6);
        for trial in 0..40 {
            let (f, g) = (Rough::new(dim, &mut rng), Rough::new(dim, &mut rng));
            let proved = Convexification { constants: vec![f.constant(), g.constant()], scaled: false };
            let bold = Convexification { constants: vec![0.3 * f.constant(), 0.2 * g.constant()], scaled: false };
            let mut model = Model::default();
            let mut y = random(dim, &mut rng);
            model.begin(&y, Norm::Plain, &[bold, proved]);
            let set: &dyn Set = if trial % 2 == 0 { &WholeSpace } else { &Bounds::uniform(-1.0, 1.0).unwrap() };
            let objective = MasterObjective { mu: 0.5, penalty: 3.0, level: 0.7, feasibility: false };
            let view = trial % 2;
            for _ in 0..40 {
                let mut cut = |owner, part: &Rough| {
                    let (value, slope) = part.at(&y);
                    model.add(owner, &y, (value, value), &slope);
                };
                cut(Owner::Objective, &f);
                cut(Owner::Constraint(0), &g);
                model.solve_in(1 - view, set, objective, 0.0, &mut y).unwrap();
                let before = model.solve_in(view, set, objective, 0.0, &mut y).unwrap().lower;
                for (owner, part) in [(Owner::Objective, &f), (Owner::Constraint(0), &g)] {
                    let (value, slope) = part.at(&y);
                    model.add(owner, &y, (value, value), &slope);
                }
                let newest = model.subgradients[(model.cuts.len() - 2) * dim..].to_vec();
                let aggregates =
                    |model: &Model| model.cuts.iter().filter(|cut| cut.owner != Owner::Domain && cut.value.is_none()).count();
                let had = aggregates(&model);
                model.limit(view, 8);
                merged += usize::from(aggregates(&model) > had);
                let functions = model.cuts.iter().filter(|cut| cut.owner != Owner::Domain).count();
                assert!(functions <= 8, "{functions} cuts are left");
                assert!(model.subgradients.chunks(dim).any(|s| *s == newest[..dim]), "the newest cut must stay");
                assert!(model.subgradients.chunks(dim).any(|s| *s == newest[dim..]), "the newest cut must stay");
                let mut again = model.clone();
                let after = again.solve(view, objective, 0.0, &mut y).lower;
                assert!(
                    after >= before - 1e-10 * (1.0 + before.abs()),
                    "trial {trial}: {before} {after} {:?}",
                    again.views[view].weights
                );
            }
        }
        assert!(merged > 100, "{merged}");
    }

    #[test]
    fn a_planted_pair_is_found() {
        let mut rng = Rng::new(4, Purpose::Data);
        for (norm, least) in norms(2, &mut rng) {
            // -x^2 + y^2 asks for 2, whatever the pair, if it differs in x alone.
            let f = |x: &[f64]| (x[1] * x[1] - x[0] * x[0], vec![-2.0 * x[0], 2.0 * x[1]]);
            let claim = |constant: f64| Convexification { constants: vec![constant, 0.0], scaled: false };
            let mut model = Model::default();
            model.begin(
                &[0.3, 0.2],
                norm.clone(),
                &[claim(1.9), claim(2.0), Convexification { scaled: norm != Norm::Plain, ..claim(2.0 / least) }],
            );
            let (value, slope) = f(&[0.5, -1.0]);
            model.add(Owner::Objective, &[0.5, -1.0], (value, value), &slope);
            // Of another owner, and so without a say.
            model.add(Owner::Constraint(0), &[0.1, 0.1], (1e3, 1e3), &slope);
            model.move_to(&[-0.4, 0.9]);
            let (value, slope) = f(&[1.5, -1.0]);
            let pair = model.contradiction(0, Owner::Objective, &[1.5, -1.0], value, &slope);
            let Some(Contradiction { owner: Owner::Objective, claimed: 1.9, needed, from, at }) = pair else {
                panic!("{pair:?}");
            };
            assert!((needed - 2.0).abs() < 1e-9);
            let close = |a: &[f64], b: &[f64]| vec::distance(a, b) < 1e-12;
            assert!(
                close(&from, &[0.5, -1.0]) && close(&at, &[1.5, -1.0]) || close(&at, &[0.5, -1.0]) && close(&from, &[1.5, -1.0])
            );
            assert_eq!(model.contradiction(1, Owner::Objective, &[1.5, -1.0], value, &slope), None);
            assert_eq!(model.contradiction(2, Owner::Objective, &[1.5, -1.0], value, &slope), None);
            // The same point twice says nothing.
            let (value, slope) = f(&[0.5, -1.0]);
            assert_eq!(model.contradiction(0, Owner::Objective, &[0.5, -1.0], value + 1e-11, &slope), None);
        }
    }
}
