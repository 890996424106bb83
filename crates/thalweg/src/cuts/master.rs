//! The quadratic program of a cutting-plane model, solved by its dual: a dense active-set method whose Cholesky factor grows
//! and shrinks by one row at a time and is reused between calls. The meaning of the cuts is not used here.

/// Bound on the multiplier of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Multipliers are non-negative and sum to 1: cuts of the minimised function.
    Minimised,
    /// Multipliers are non-negative with a sum of at most the penalty: cuts whose excess over 0 costs the penalty.
    Penalised,
    /// Multipliers are non-negative: cuts that must be at most 0.
    Hard,
    /// The cut is not part of this program.
    Absent,
}

/// `min over d  max_i (h_i + <p_i, d>) + penalty * max(0, max_k (h_k + <p_k, d>)) + (mu / 2) ||d||^2`, subject to the hard
/// cuts; i runs over minimised cuts, k over penalised ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// `<p_i, p_j>`, rows of length `stride`.
    pub(crate) gram: &'a [f64],
    pub(crate) stride: usize,
    /// h_i, the value of cut i at d = 0.
    pub(crate) heights: &'a [f64],
    pub(crate) roles: &'a [Role],
    pub(crate) mu: f64,
    pub(crate) penalty: f64,
}

/// Results other than the multipliers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProgramSolution {
    /// `max(0, max_k (h_k + <p_k, d>))` over penalised cuts.
    pub(crate) excess: f64,
    /// Number of changes of the active set.
    pub(crate) pivots: u32,
}

/// Relative accuracy (of the square) at which a slope counts as a combination of active ones; its cut is not added to the
/// factor.
const DEPENDENT: f64 = 1e-12;
/// Relative amount by which a cut must exceed its level to count as violated.
const VIOLATED: f64 = 1e-13;

/// Roles whose multipliers can have a fixed sum.
const GROUPS: [Role; 2] = [Role::Minimised, Role::Penalised];

fn group(role: Role) -> Option<usize> {
    GROUPS.iter().position(|group| *group == role)
}

/// Active set, its Cholesky factor and working space. Not part of a checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveSet {
    active: Vec<usize>,
    support: Vec<usize>,
    is_active: Vec<bool>,
    /// Lower triangle by rows, each of length `width`.
    factor: Vec<f64>,
    width: usize,
    /// Whether the multipliers of penalised cuts sum to the penalty.
    capped: bool,
    weights: [f64; 2],
    target: Vec<f64>,
    work: Vec<f64>,
    ones: [Vec<f64>; 2],
    scores: Vec<f64>,
    /// Cuts that entered without improvement; excluded until the dual value improves.
    banned: Vec<bool>,
    /// Largest dual value so far, and its multipliers.
    value: f64,
    best: Vec<f64>,
}

impl ActiveSet {
    /// Improves the multipliers `z`, possibly those of another program with the same cuts, until they solve this one.
    ///
    /// At least one cut must be minimised.
    pub(crate) fn solve(&mut self, program: &Program, z: &mut [f64]) -> ProgramSolution {
        let n = z.len();
        self.prepare(program, z);
        let mut pivots = 0;
        // Far more pivots than needed in practice. The limit ends a numerical cycle, and any z gives a valid lower bound.
        let most = 50 + 20 * n as u32;
        let mut excess = 0.0;
        let mut last = None;
        (self.value, ..) = self.score(program, z);
        self.best.clear();
        self.best.extend_from_slice(z);
        while pivots < most {
            let levels = loop {
                let levels = self.minimise(program);
                pivots += 1;
                let (step, block) = self.longest_step(program, z);
                for (position, &i) in self.active.iter().enumerate() {
                    z[i] += step * (self.target[position] - z[i]);
                }
                match block {
                    Some(Block::Cut(position)) => {
                        z[self.active[position]] = 0.0;
                        self.delete(position);
                    }
                    Some(Block::Penalty) => {
                        self.capped = true;
                        self.refactor(program, z);
                    }
                    None => break levels,
                }
                if pivots >= most {
                    break levels;
                }
            };
            excess = if self.capped { levels[1].max(0.0) } else { 0.0 };
            let (value, unsure, noise) = self.score(program, z);
            if value > self.value + unsure {
                // The dual value has improved, so that a cycle cannot return here.
                self.banned.fill(false);
            } else if let Some(i) = last {
                self.banned[i] = true;
            }
            if value >= self.value - unsure {
                self.value = value.max(self.value);
                self.best.copy_from_slice(z);
            }
            if self.capped && levels[1] < 0.0 {
                self.capped = false;
                self.refactor(program, z);
                continue;
            }
            let Some(entering) = self.price(program, levels, noise) else {
                break;
            };
            self.enter(program, z, entering);
            last = Some(entering);
        }
        // Restores the best multipliers in case rounding has spoilt the last ones.
        z.copy_from_slice(&self.best);
        // The dual value is a bound only for multipliers with the right sums.
        self.normalise(program, z);
        ProgramSolution { excess, pivots }
    }

    /// Makes `z` feasible and factors its support.
    fn prepare(&mut self, program: &Program, z: &mut [f64]) {
        let n = z.len();
        for (i, z) in z.iter_mut().enumerate() {
            if program.roles[i] == Role::Absent || z.is_nan() || *z < 0.0 {
                *z = 0.0;
            }
        }
        self.normalise(program, z);
        self.is_active.clear();
        self.is_active.resize(n, false);
        self.banned.clear();
        self.banned.resize(n, false);
        self.active.clear();
        self.active.extend((0..n).filter(|&i| z[i] > 0.0));
        self.refactor(program, z);
    }

    /// Rescales the multipliers to their required sums.
    fn normalise(&mut self, program: &Program, z: &mut [f64]) {
        let n = z.len();
        let having = |role: Role| (0..n).filter(move |&i| program.roles[i] == role);
        let sum: f64 = having(Role::Minimised).map(|i| z[i]).sum();
        if sum > 0.0 {
            having(Role::Minimised).for_each(|i| z[i] /= sum);
        } else {
            let highest = having(Role::Minimised).max_by(|&a, &b| program.heights[a].total_cmp(&program.heights[b]));
            highest.into_iter().for_each(|i| z[i] = 1.0);
        }
        let sum: f64 = having(Role::Penalised).map(|i| z[i]).sum();
        self.capped = sum >= program.penalty;
        if sum > program.penalty {
            having(Role::Penalised).for_each(|i| z[i] *= program.penalty / sum);
        }
    }

    /// Returns an entry of the dual Hessian. Within a group whose multipliers have a fixed sum, a constant is added to every
    /// entry: it changes the minimum by a constant, and makes affinely independent slopes linearly independent.
    fn entry(&self, program: &Program, i: usize, j: usize) -> f64 {
        let group = match (program.roles[i], program.roles[j]) {
            (Role::Minimised, Role::Minimised) => self.weights[0],
            (Role::Penalised, Role::Penalised) if self.capped => self.weights[1],
            _ => 0.0,
        };
        program.gram[i * program.stride + j] / program.mu + group
    }

    /// Recomputes the factor. Weight is exchanged between dependent cuts.
    fn refactor(&mut self, program: &Program, z: &mut [f64]) {
        let largest = |role: Role| {
            let diagonal = (0..z.len()).filter(|&i| program.roles[i] == role).map(|i| program.gram[i * program.stride + i]);
            let largest = diagonal.fold(0.0, f64::max) / program.mu;
            if largest > 0.0 { largest } else { 1.0 }
        };
        self.weights = [largest(Role::Minimised), largest(Role::Penalised)];
        // Both lists reuse their memory.
        let mut support = std::mem::take(&mut self.support);
        support.clear();
        support.append(&mut self.active);
        self.is_active.fill(false);
        for &i in &support {
            self.enter(program, z, i);
        }
        self.support = support;
    }

    /// Adds a cut to the active set. If its slope depends on active ones, weight moves along the dependence, which does not
    /// change the step, until a multiplier is 0; that cut leaves.
    fn enter(&mut self, program: &Program, z: &mut [f64], i: usize) {
        while !self.append(program, i) {
            // p_i = sum_j w_j p_j, with w in `work`: z_i grows by s, z_j falls by s w_j.
            let gain = program.heights[i] - self.active.iter().zip(&self.work).map(|(&j, w)| w * program.heights[j]).sum::<f64>();
            let mut sign = if gain > 0.0 || z[i] <= 0.0 { 1.0 } else { -1.0 };
            let mut slide = self.slide(program, z, i, sign);
            if !slide.step.is_finite() {
                // No cut leaves, so that the gain is rounding. Redistribute the weight of the cut.
                self.banned[i] = true;
                if z[i] <= 0.0 {
                    return;
                }
                sign = -1.0;
                slide = self.slide(program, z, i, sign);
            }
            let Slide { step, leaving, binds } = slide;
            for (&j, &w) in self.active.iter().zip(&self.work) {
                z[j] = (z[j] - sign * step * w).max(0.0);
            }
            z[i] = (z[i] + sign * step).max(0.0);
            if binds {
                self.capped = true;
                self.active.push(i);
                self.refactor(program, z);
                return;
            }
            match leaving {
                Some(position) => {
                    z[self.active[position]] = 0.0;
                    self.delete(position);
                }
                None => {
                    z[i] = 0.0;
                    return;
                }
            }
            if self.active.is_empty() {
                break;
            }
        }
        if self.active.is_empty() {
            self.append(program, i);
        }
    }

    /// Computes how far the multiplier of `i`, whose slope depends on active ones by `work`, can move in the direction `sign`.
    fn slide(&self, program: &Program, z: &[f64], i: usize, sign: f64) -> Slide {
        let mut step = if sign < 0.0 { z[i] } else { f64::INFINITY };
        let mut leaving = None;
        for (position, (&j, &w)) in self.active.iter().zip(&self.work).enumerate() {
            if sign * w > 1e-14 {
                let reach = z[j] / (sign * w);
                if reach < step {
                    (step, leaving) = (reach, Some(position));
                }
            }
        }
        // The sum of penalised multipliers grows on the way and may reach the penalty first.
        let penalised = |i: usize| if program.roles[i] == Role::Penalised { 1.0 } else { 0.0 };
        let growth = sign * (penalised(i) - self.active.iter().zip(&self.work).map(|(&j, w)| w * penalised(j)).sum::<f64>());
        if !self.capped && growth > 1e-14 {
            let sum: f64 = z.iter().enumerate().map(|(j, z)| penalised(j) * z).sum();
            let reach = ((program.penalty - sum) / growth).max(0.0);
            if reach < step {
                return Slide { step: reach, leaving: None, binds: true };
            }
        }
        Slide { step, leaving, binds: false }
    }

    /// Appends a row to the factor. Returns false if the cut depends on active ones, with the coefficients in `work`.
    fn append(&mut self, program: &Program, i: usize) -> bool {
        let k = self.active.len();
        if k + 1 > self.width {
            self.widen(program.heights.len().max(k + 1));
        }
        self.work.clear();
        for position in 0..k {
            let entry = self.entry(program, i, self.active[position]);
            self.work.push(entry);
        }
        forward(&self.factor, self.width, &mut self.work);
        let whole = self.entry(program, i, i);
        let left = whole - self.work.iter().map(|w| w * w).sum::<f64>();
        if left <= DEPENDENT * whole && k > 0 {
            backward(&self.factor, self.width, &mut self.work);
            return false;
        }
        let row = &mut self.factor[k * self.width..][..k + 1];
        row[..k].copy_from_slice(&self.work);
        row[k] = left.max(f64::MIN_POSITIVE).sqrt();
        self.active.push(i);
        self.is_active[i] = true;
        true
    }

    fn widen(&mut self, width: usize) {
        let mut factor = vec![0.0; width * width];
        for position in 0..self.active.len() {
            let row = &self.factor[position * self.width..][..position + 1];
            factor[position * width..][..position + 1].copy_from_slice(row);
        }
        (self.factor, self.width) = (factor, width);
    }

    /// Removes a row of the factor; rotations of neighbouring columns restore the triangle.
    fn delete(&mut self, position: usize) {
        let k = self.active.len();
        let width = self.width;
        self.is_active[self.active[position]] = false;
        self.active.remove(position);
        for row in position + 1..k {
            self.factor.copy_within(row * width..row * width + row + 1, (row - 1) * width);
        }
        for j in position..k - 1 {
            let (a, b) = (self.factor[j * width + j], self.factor[j * width + j + 1]);
            let length = a.hypot(b);
            if length == 0.0 {
                continue;
            }
            let (c, s) = (a / length, b / length);
            for row in j..k - 1 {
                let at = row * width + j;
                let (x, y) = (self.factor[at], self.factor[at + 1]);
                self.factor[at] = c * x + s * y;
                self.factor[at + 1] = c * y - s * x;
            }
        }
    }

    /// Minimises over the active set without sign constraints, into `target`. Returns the levels of the groups.
    fn minimise(&mut self, program: &Program) -> [f64; 2] {
        let width = self.width;
        let bound = [true, self.capped];
        for g in 0..2 {
            self.ones[g].clear();
            self.ones[g].extend(self.active.iter().map(|&i| f64::from(u8::from(bound[g] && program.roles[i] == GROUPS[g]))));
            if bound[g] {
                forward(&self.factor, width, &mut self.ones[g]);
                backward(&self.factor, width, &mut self.ones[g]);
            }
        }
        // If the sum of multipliers is fixed, only differences of heights matter. Subtract a common height, which could be
        // large against the slopes.
        let base = [0, 1].map(|g| {
            let first = self.active.iter().find(|&&i| bound[g] && program.roles[i] == GROUPS[g]);
            first.map_or(0.0, |&i| program.heights[i])
        });
        let relative = |i: usize| program.heights[i] - group(program.roles[i]).map_or(0.0, |g| base[g]);
        let totals = [1.0, program.penalty];
        self.work.clear();
        self.work.extend(self.active.iter().map(|&i| relative(i)));
        let mut theta = self.constrained(program, totals);
        std::mem::swap(&mut self.target, &mut self.work);
        // Nearly dependent slopes require one step of iterative refinement.
        let mut left = totals;
        self.work.clear();
        for &i in &self.active {
            let mut rest = relative(i) - group(program.roles[i]).map_or(0.0, |g| theta[g]);
            for (&j, target) in self.active.iter().zip(&self.target) {
                rest -= self.entry(program, i, j) * target;
            }
            self.work.push(rest);
        }
        for (&i, target) in self.active.iter().zip(&self.target) {
            group(program.roles[i]).into_iter().for_each(|g| left[g] -= target);
        }
        let more = self.constrained(program, left);
        self.target.iter_mut().zip(&self.work).for_each(|(target, more)| *target += more);
        theta.iter_mut().zip(more).for_each(|(theta, more)| *theta += more);
        // theta contains the constant that was added to the Hessian.
        let priced = if bound[1] { base[1] + theta[1] + self.weights[1] * program.penalty } else { 0.0 };
        [base[0] + theta[0] + self.weights[0], priced]
    }

    /// Solves `H z + E' theta = work`, `E z = totals` for z, which replaces `work`, and theta; E sums the groups whose sum is
    /// fixed, and `ones` is `H^-1 E'`.
    fn constrained(&mut self, program: &Program, totals: [f64; 2]) -> [f64; 2] {
        let bound = [true, self.capped];
        forward(&self.factor, self.width, &mut self.work);
        backward(&self.factor, self.width, &mut self.work);
        let sum = |values: &[f64], g: usize| -> f64 {
            self.active.iter().zip(values).filter(|(i, _)| program.roles[**i] == GROUPS[g]).map(|(_, v)| v).sum()
        };
        // E H^-1 E' theta = E H^-1 r - totals.
        let right = [0, 1].map(|g| if bound[g] { sum(&self.work, g) - totals[g] } else { 0.0 });
        let m = [0, 1].map(|g| [0, 1].map(|h| if bound[g] && bound[h] { sum(&self.ones[h], g) } else { 0.0 }));
        let theta = if bound[1] && m[1][1] > 0.0 {
            let determinant = m[0][0] * m[1][1] - m[0][1] * m[1][0];
            [(right[0] * m[1][1] - right[1] * m[0][1]) / determinant, (right[1] * m[0][0] - right[0] * m[1][0]) / determinant]
        } else {
            [right[0] / m[0][0], 0.0]
        };
        for (position, z) in self.work.iter_mut().enumerate() {
            *z -= theta[0] * self.ones[0][position] + theta[1] * self.ones[1][position];
        }
        theta
    }

    /// Returns the largest step towards the target, and what limits it.
    fn longest_step(&self, program: &Program, z: &[f64]) -> (f64, Option<Block>) {
        let (mut step, mut block) = (1.0, None);
        let (mut now, mut then) = (0.0, 0.0);
        for (position, (&i, &target)) in self.active.iter().zip(&self.target).enumerate() {
            if target <= 0.0 {
                let reach = if z[i] > 0.0 { z[i] / (z[i] - target) } else { 0.0 };
                if reach < step || (reach == step && block.is_none()) {
                    (step, block) = (reach, Some(Block::Cut(position)));
                }
            }
            if program.roles[i] == Role::Penalised {
                now += z[i];
                then += target;
            }
        }
        if !self.capped && then > program.penalty {
            let reach = ((program.penalty - now) / (then - now)).max(0.0);
            if reach < step {
                (step, block) = (reach, Some(Block::Penalty));
            }
        }
        (step, block)
    }

    /// Writes the excess of each cut over 0 at the solution of `z` into `scores`. Returns the dual value, and the rounding
    /// errors of the value and of a score.
    fn score(&mut self, program: &Program, z: &[f64]) -> (f64, f64, f64) {
        let n = z.len();
        self.scores.clear();
        self.scores.extend_from_slice(&program.heights[..n]);
        let mut size = 0.0_f64;
        for (j, z) in z.iter().enumerate().filter(|(_, z)| **z > 0.0) {
            let weight = z / program.mu;
            let row = &program.gram[j * program.stride..][..n];
            for (score, entry) in self.scores.iter_mut().zip(row) {
                *score -= weight * entry;
            }
            size = size.max(weight * row[j]).max(program.heights[j].abs());
        }
        let value = z.iter().zip(&self.scores).zip(program.heights).map(|((z, score), h)| 0.5 * z * (score + h)).sum();
        let noise = VIOLATED * (1.0 + size);
        (value, 0.01 * noise * z.iter().sum::<f64>(), noise)
    }

    /// Returns the most violated cut outside the active set.
    fn price(&mut self, program: &Program, levels: [f64; 2], noise: f64) -> Option<usize> {
        let mut worst = None;
        let mut most = noise;
        for i in 0..self.scores.len() {
            let level = match program.roles[i] {
                Role::Minimised => levels[0],
                Role::Penalised => levels[1],
                Role::Hard => 0.0,
                Role::Absent => continue,
            };
            let over = self.scores[i] - level;
            if over > most && !self.is_active[i] && !self.banned[i] {
                (most, worst) = (over, Some(i));
            }
        }
        worst
    }
}

/// Distance that weight can move along a dependence, and what limits it.
struct Slide {
    step: f64,
    /// Position of the cut whose multiplier becomes 0.
    leaving: Option<usize>,
    /// Whether the penalised multipliers reach the penalty.
    binds: bool,
}

enum Block {
    /// The multiplier of the cut at this position becomes 0.
    Cut(usize),
    Penalty,
}

/// Solves with the factor: `x <- L^-1 x`.
fn forward(factor: &[f64], width: usize, x: &mut [f64]) {
    for i in 0..x.len() {
        let row = &factor[i * width..][..i + 1];
        let (done, rest) = x.split_at_mut(i);
        let sum: f64 = crate::math::vec::dot(&row[..i], done);
        rest[0] = (rest[0] - sum) / row[i];
    }
}

/// Solves with the transposed factor: `x <- L^-T x`.
fn backward(factor: &[f64], width: usize, x: &mut [f64]) {
    for i in (0..x.len()).rev() {
        let row = &factor[i * width..][..i + 1];
        let (before, at) = x.split_at_mut(i);
        at[0] /= row[i];
        crate::math::vec::add_scaled(before, -at[0], &row[..i]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may give up like tests

    use super::*;
    use crate::math::rng::{Purpose, Rng};
    use crate::math::vec;

    /// A program with its slopes, which the solver never sees.
    #[derive(Clone)]
    struct Random {
        dim: usize,
        slopes: Vec<Vec<f64>>,
        gram: Vec<f64>,
        heights: Vec<f64>,
        roles: Vec<Role>,
        mu: f64,
        penalty: f64,
    }

    impl std::fmt::Debug for Random {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let Random { slopes, heights, roles, mu, penalty, .. } = self;
            write!(f, "mu {mu}, penalty {penalty}, heights {heights:?}, roles {roles:?}, slopes {slopes:?}")
        }
    }

    fn symmetric(rng: &mut Rng) -> f64 {
        2.0 * rng.uniform() - 1.0
    }

    impl Random {
        fn new(rng: &mut Rng, most: usize) -> Self {
            let (n, dim) = (1 + rng.below(most), 1 + rng.below(5));
            let scale = [0.1, 1.0, 30.0][rng.below(3)];
            // Half of the programs have few distinct slopes, or slopes in a plane.
            let kind = rng.below(4);
            let mut slopes: Vec<Vec<f64>> = vec![];
            for i in 0..n {
                let mut slope: Vec<f64> = (0..dim).map(|_| scale * symmetric(rng)).collect();
                if kind == 1 && i > 0 && rng.uniform() < 0.5 {
                    slope.clone_from(&slopes[rng.below(i)]);
                }
                if kind == 2 && i > 1 {
                    let (a, b, s) = (rng.below(i), rng.below(i), symmetric(rng));
                    slope = (0..dim).map(|k| s * slopes[a][k] + (1.0 - s) * slopes[b][k]).collect();
                }
                if rng.uniform() < 0.03 {
                    slope.fill(0.0);
                }
                slopes.push(slope);
            }
            let mut roles: Vec<Role> = (0..n)
                .map(|_| match rng.below(8) {
                    0..4 => Role::Minimised,
                    4..6 => Role::Penalised,
                    6 => Role::Hard,
                    _ => Role::Absent,
                })
                .collect();
            roles[rng.below(n)] = Role::Minimised;
            // Hard cuts are those of a set that is not empty.
            let inside: Vec<f64> = (0..dim).map(|_| symmetric(rng)).collect();
            let heights = (0..n)
                .map(|i| match roles[i] {
                    Role::Hard => -vec::dot(&slopes[i], &inside) - 0.3 * rng.uniform() * f64::from(rng.below(2) as u32),
                    // Some cuts that differ in nothing else are equally high.
                    _ => (4.0 * symmetric(rng)).round() * 0.25 + if rng.below(2) == 0 { symmetric(rng) } else { 0.0 },
                })
                .collect();
            let gram = slopes.iter().flat_map(|a| slopes.iter().map(|b| vec::dot(a, b))).collect();
            let mu = [0.01, 0.3, 1.0, 50.0][rng.below(4)];
            let penalty = [0.01, 0.5, 2.0, 10.0, 1e4][rng.below(5)];
            Random { dim, slopes, gram, heights, roles, mu, penalty }
        }

        fn program(&self) -> Program<'_> {
            Program {
                gram: &self.gram,
                stride: self.heights.len(),
                heights: &self.heights,
                roles: &self.roles,
                mu: self.mu,
                penalty: self.penalty,
            }
        }

        fn having(&self, role: Role) -> impl Iterator<Item = usize> + Clone + '_ {
            (0..self.roles.len()).filter(move |&i| self.roles[i] == role)
        }

        fn step(&self, z: &[f64]) -> Vec<f64> {
            let mut d = vec![0.0; self.dim];
            z.iter().zip(&self.slopes).for_each(|(z, slope)| vec::add_scaled(&mut d, -z / self.mu, slope));
            d
        }

        fn cut(&self, i: usize, d: &[f64]) -> f64 {
            self.heights[i] + vec::dot(&self.slopes[i], d)
        }

        fn dual(&self, z: &[f64]) -> f64 {
            vec::dot(z, &self.heights) - 0.5 * self.mu * vec::norm_squared(&self.step(z))
        }

        fn excess(&self, d: &[f64]) -> f64 {
            self.having(Role::Penalised).map(|i| self.cut(i, d)).fold(0.0, f64::max)
        }

        fn level(&self, d: &[f64]) -> f64 {
            self.having(Role::Minimised).map(|i| self.cut(i, d)).fold(f64::NEG_INFINITY, f64::max)
        }

        fn primal(&self, d: &[f64]) -> f64 {
            self.level(d) + self.penalty * self.excess(d) + 0.5 * self.mu * vec::norm_squared(d)
        }

        /// What is to be 0 is at most this: 1e-9 of the size of the solution, or what rounding of the multipliers makes of a
        /// step in which large ones cancel, times the price of an error.
        fn tolerance(&self, z: &[f64]) -> f64 {
            let d = vec::norm(&self.step(z));
            let norm = |i: usize| vec::norm(&self.slopes[i]);
            let size: f64 = (0..z.len()).map(|i| z[i] * (self.heights[i].abs() + norm(i) * d)).sum();
            let (steepest, total) = ((0..z.len()).map(norm).fold(0.0, f64::max), z.iter().sum::<f64>());
            1e-9 * (1.0 + size) + 1e-14 * steepest.powi(2) * total / self.mu * (1.0 + self.penalty + total)
        }

        fn check(&self, z: &[f64], solved: ProgramSolution, what: &str) {
            let sum = |role| self.having(role).map(|i| z[i]).sum::<f64>();
            let say = || format!("{what}: {solved:?} {z:?} {self:?}");
            assert!(z.iter().all(|z| *z >= 0.0), "{}", say());
            assert!(self.having(Role::Absent).all(|i| z[i] == 0.0), "{}", say());
            assert!((sum(Role::Minimised) - 1.0).abs() < 1e-9, "{}", say());
            assert!(sum(Role::Penalised) <= self.penalty * (1.0 + 1e-9), "{}", say());
            let (d, tolerance) = (self.step(z), self.tolerance(z));
            let (level, excess) = (self.level(&d), self.excess(&d));
            assert!(self.having(Role::Hard).all(|i| self.cut(i, &d) <= tolerance), "{}", say());
            assert!((solved.excess - excess).abs() <= tolerance, "excess {excess}: {}", say());
            // A multiplier is positive only where its cut is at the level of its group.
            for (i, z) in z.iter().enumerate() {
                let below = match self.roles[i] {
                    Role::Minimised => level - self.cut(i, &d),
                    Role::Penalised => excess - self.cut(i, &d),
                    Role::Hard => -self.cut(i, &d),
                    Role::Absent => 0.0,
                };
                assert!(z * below <= tolerance, "complementarity of {i}: {}", say());
            }
            assert!((self.penalty - sum(Role::Penalised)) * excess <= tolerance, "the price: {}", say());
            let gap = self.primal(&d) - self.dual(z);
            assert!(gap.abs() <= tolerance, "gap {gap}: {}", say());
        }

        /// The best dual value over all supports, each by elimination: with independent slopes on the support, some support
        /// gives the optimum.
        fn by_supports(&self) -> f64 {
            let n = self.roles.len();
            let mut best = f64::NEG_INFINITY;
            for (mask, capped) in (1_usize..1 << n).flat_map(|mask| [(mask, false), (mask, true)]) {
                let support: Vec<usize> = (0..n).filter(|i| mask >> i & 1 == 1).collect();
                if support.iter().any(|&i| self.roles[i] == Role::Absent) {
                    continue;
                }
                let bound: &[(Role, f64)] = &[(Role::Minimised, 1.0), (Role::Penalised, self.penalty)][..1 + usize::from(capped)];
                if bound.iter().any(|(role, _)| support.iter().all(|&i| self.roles[i] != *role)) {
                    continue;
                }
                let k = support.len();
                let mut rows = vec![vec![0.0; k + bound.len() + 1]; k + bound.len()];
                for (a, &i) in support.iter().enumerate() {
                    for (b, &j) in support.iter().enumerate() {
                        rows[a][b] = self.gram[i * n + j] / self.mu;
                    }
                    rows[a][k + bound.len()] = self.heights[i];
                    for (g, &(role, _)) in bound.iter().enumerate() {
                        let one = f64::from(u8::from(self.roles[i] == role));
                        (rows[a][k + g], rows[k + g][a]) = (one, one);
                    }
                }
                for (g, &(_, total)) in bound.iter().enumerate() {
                    rows[k + g][k + bound.len()] = total;
                }
                let Some(solution) = eliminate(rows) else { continue };
                let mut z = vec![0.0; n];
                support.iter().zip(&solution).for_each(|(&i, &value)| z[i] = value);
                let priced: f64 = self.having(Role::Penalised).map(|i| z[i]).sum();
                if z.iter().all(|z| *z >= 0.0) && priced <= self.penalty * (1.0 + 1e-12) {
                    best = best.max(self.dual(&z));
                }
            }
            best
        }

        /// The same program as a second opinion solves it: over the step, the level and the excess.
        fn by_clarabel(&self) -> f64 {
            use clarabel::algebra::CscMatrix;
            use clarabel::solver::{DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};
            let dim = self.dim;
            let (mut rows, mut right): (Vec<Vec<f64>>, Vec<f64>) = (vec![], vec![]);
            for (i, role) in self.roles.iter().enumerate().filter(|(_, role)| **role != Role::Absent) {
                let mut row = self.slopes[i].clone();
                row.push(if *role == Role::Minimised { -1.0 } else { 0.0 });
                row.push(if *role == Role::Penalised { -1.0 } else { 0.0 });
                rows.push(row);
                right.push(-self.heights[i]);
            }
            let mut sign = vec![0.0; dim + 2];
            sign[dim + 1] = -1.0;
            rows.push(sign);
            right.push(0.0);
            let mut linear = vec![0.0; dim + 2];
            (linear[dim], linear[dim + 1]) = (1.0, self.penalty);
            let mut square = vec![vec![0.0; dim + 2]; dim + 2];
            (0..dim).for_each(|k| square[k][k] = self.mu);
            let tight = crate::sets::testing::tight_clarabel();
            let cones = [NonnegativeConeT(rows.len())];
            let (square, rows) = (CscMatrix::from(square.iter()), CscMatrix::from(rows.iter()));
            let mut solver = DefaultSolver::new(&square, &linear, &rows, &right, &cones, tight).unwrap();
            solver.solve();
            assert!(matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved), "{self:?}");
            solver.solution.obj_val
        }
    }

    /// Solves a square system, the right side in the last column; none if it is singular.
    fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
        let n = rows.len();
        for k in 0..n {
            let pivot = (k..n).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()))?;
            rows.swap(k, pivot);
            if rows[k][k].abs() < 1e-9 {
                return None;
            }
            let top = rows[k].clone();
            for row in rows.iter_mut().skip(k + 1) {
                let share = row[k] / top[k];
                (k..=n).for_each(|j| row[j] -= share * top[j]);
            }
        }
        let mut x = vec![0.0; n];
        for k in (0..n).rev() {
            x[k] = (rows[k][n] - (k + 1..n).map(|j| rows[k][j] * x[j]).sum::<f64>()) / rows[k][k];
        }
        Some(x)
    }

    #[test]
    fn random_programs_are_solved() {
        let mut rng = Rng::new(1, Purpose::Data);
        let mut set = ActiveSet::default();
        for trial in 0..20_000 {
            let random = Random::new(&mut rng, 12);
            let mut z = vec![0.0; random.heights.len()];
            let solved = set.solve(&random.program(), &mut z);
            random.check(&z, solved, &format!("trial {trial}"));
        }
    }

    #[test]
    fn a_program_is_solved_from_the_multipliers_of_another() {
        let mut rng = Rng::new(2, Purpose::Data);
        let mut set = ActiveSet::default();
        for trial in 0..2_000 {
            let mut random = Random::new(&mut rng, 12);
            let n = random.heights.len();
            let mut z: Vec<f64> = (0..n).map(|_| 3.0 * symmetric(&mut rng)).collect();
            z[rng.below(n)] = f64::NAN;
            for change in 0..8 {
                let solved = set.solve(&random.program(), &mut z);
                random.check(&z, solved, &format!("trial {trial}, change {change}"));
                match change % 4 {
                    0 => random.penalty *= [0.1, 4.0][rng.below(2)],
                    1 => random.mu *= [0.3, 3.0][rng.below(2)],
                    2 => (0..n)
                        .filter(|&i| random.roles[i] != Role::Hard)
                        .for_each(|i| random.heights[i] += 0.2 * symmetric(&mut rng)),
                    _ => {
                        // A cut goes, or comes back.
                        let i = rng.below(n);
                        let others = random.having(Role::Minimised).filter(|&j| j != i).count();
                        random.roles[i] = match random.roles[i] {
                            Role::Absent => Role::Penalised,
                            Role::Minimised if others == 0 => Role::Minimised,
                            _ => Role::Absent,
                        };
                    }
                }
            }
        }
    }

    #[test]
    fn the_best_of_all_supports_is_found() {
        let mut rng = Rng::new(3, Purpose::Data);
        let mut set = ActiveSet::default();
        for trial in 0..500 {
            let random = Random::new(&mut rng, 7);
            let mut z = vec![0.0; random.heights.len()];
            set.solve(&random.program(), &mut z);
            let (ours, naive) = (random.dual(&z), random.by_supports());
            assert!((ours - naive).abs() <= random.tolerance(&z), "trial {trial}: {ours} {naive} {random:?}");
        }
    }

    #[test]
    fn another_solver_finds_the_same_value() {
        let mut rng = Rng::new(4, Purpose::Data);
        let mut set = ActiveSet::default();
        for trial in 0..50 {
            let random = Random::new(&mut rng, 12);
            let mut z = vec![0.0; random.heights.len()];
            set.solve(&random.program(), &mut z);
            let (ours, theirs) = (random.dual(&z), random.by_clarabel());
            assert!((ours - theirs).abs() <= 1e-7 * (1.0 + ours.abs()), "trial {trial}: {ours} {theirs} {random:?}");
        }
    }
}
