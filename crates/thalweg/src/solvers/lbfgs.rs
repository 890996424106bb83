//! L-BFGS for smooth objectives over the whole space or a ball around 0, used for accurate reference solutions. It supports no
//! constraints, and every evaluation uses all samples.

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::math::{Aligned, vec};
use crate::oracle::Draw;
use crate::{Error, Note, Result, StallCause};

/// Sufficient decrease and curvature of the strong Wolfe conditions.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Largest number of trials of a line search, and smallest length of its bracket.
const TRIALS: u32 = 60;
const SHORTEST: f64 = 1e-10;
/// Relative difference of values that counts as rounding.
const NOISE: f64 = 1e-14;
/// Number of iterations without a smaller value or gradient after which the method gives up.
const IDLE: u32 = 50;
/// Factor that moves points of the sphere inside, so that rounding leaves none outside.
const INSIDE: f64 = 1.0 - 1e-15;
/// Longest step on the sphere in radii, and largest drift of the free length of a point there before it is reset.
const LONGEST: f64 = 4.0;
const DRIFT: f64 = 8.0;

/// Settings of [`Lbfgs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of stored pairs of steps and gradient differences, m in the paper. Default 20.
    pub memory: usize,
    /// Norm of the gradient (in a ball, of its part that can still decrease F) that finishes the method, times the norm of the
    /// first gradient if that is above the unit of gradients: 1 for a problem in natural units, the unit of the objective over the
    /// largest unit of a variable if it [has units](crate::oracle::Structure::units), 0 for other problems. Default 1e-9.
    pub tolerance: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { memory: 20, tolerance: 1e-9 }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        if self.memory == 0 {
            return Err(Error::setting("memory", 0, "at least 1"));
        }
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(Error::setting("tolerance", self.tolerance, "a finite number, 0 or larger"));
        }
        Ok(self)
    }
}

/// L-BFGS, the limited-memory BFGS method.
///
/// **Problem.** `min F(x)` over the whole space or a ball around 0, without constraints.
///
/// **Assumptions.** F is differentiable. It need not be convex.
///
/// **Iteration** (Nocedal & Wright, Algorithm 7.5). `d = -H grad F(x_k)` by the two-loop recursion over the last m pairs `s =
/// x_{k+1} - x_k`, `y = grad F(x_{k+1}) - grad F(x_k)`, starting from `(s.y / y.y) I`; then x_{k+1} = x_k + a d with the strong
/// Wolfe conditions, a found by bracketing and safeguarded cubic interpolation. A pair without `s.y > 0` is omitted. A step
/// that would leave the ball ends on its sphere if F still decreases there. On the sphere the method continues with `G(u) = F(r
/// u / ||u||)`, an unconstrained function whose gradient is the tangential part of grad F, and returns to F when the inward
/// slope is the larger part.
///
/// **Guarantee.** If it finishes without a note about stalling, the KKT residual is at most the tolerance: `||grad F||` in the
/// interior, `||grad F + nu x||` with the multiplier `nu = -<grad F, x> / r^2 >= 0` on the sphere. For a convex F the point is
/// then optimal up to the tolerance times the distance to a solution.
///
/// **Deviations.** The paper has no constraints; the ball is an addition. Near the solution, where differences of values are
/// rounding, sufficient decrease is required up to 1e-14 of the value, so that the slopes decide. A failed line search is
/// repeated along the gradient, without memory; if this fails too, or 50 iterations reduce neither the value nor the gradient,
/// the method is finished, and a note states the norm of the gradient. At a kink, such as those of the hinge loss, this happens
/// far from a solution, and the note says so.
///
/// **Settings.** [`Settings`]: memory, tolerance.
///
/// **Reference.** Liu & Nocedal, *On the limited memory BFGS method for large scale optimization*, 1989; Nocedal & Wright, *Numerical
/// Optimization*, chapters 3 and 7.
#[derive(Debug)]
pub struct Lbfgs {
    settings: Settings,
    s: Saved,
    work: Work,
}

/// A step and the change of the gradient.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// s.y.
    product: f64,
}

/// The last pairs, in reused memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Pairs {
    places: Vec<Pair>,
    used: usize,
    next: usize,
}

impl Pairs {
    pub(super) fn clear(&mut self) {
        (self.used, self.next) = (0, 0);
    }

    /// Returns whether there is no pair.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the pair that is `age` older than the newest.
    fn get(&self, age: usize) -> Option<&Pair> {
        let most = self.places.len();
        (age < self.used).then(|| &self.places[(self.next + most - 1 - age) % most])
    }

    /// Stores `s = a d` and `y = now - before`, replacing the oldest pair if there are `memory`.
    pub(super) fn push(&mut self, memory: usize, a: f64, d: &[f64], now: &[f64], before: &[f64]) {
        if self.next == self.places.len() && self.next < memory {
            self.places.push(Pair { s: vec![0.0; d.len()], y: vec![0.0; d.len()], product: 0.0 });
        }
        let Some(pair) = self.places.get_mut(self.next) else { return };
        pair.s.iter_mut().zip(d).for_each(|(s, d)| *s = a * d);
        for ((y, now), before) in pair.y.iter_mut().zip(now).zip(before) {
            *y = now - before;
        }
        pair.product = vec::dot(&pair.s, &pair.y);
        // The product must be a curvature, not rounding.
        if pair.product > 1e-14 * vec::norm(&pair.s) * vec::norm(&pair.y) {
            self.next = (self.next + 1) % memory;
            self.used = (self.used + 1).min(memory);
        } else if self.used == memory {
            // The oldest pair was stored there.
            self.used -= 1;
        }
    }

    /// Rescales the pairs when the variables are multiplied by c.
    fn rescale(&mut self, c: f64) {
        for pair in &mut self.places {
            vec::scale(&mut pair.s, c);
            vec::scale(&mut pair.y, 1.0 / c);
        }
    }

    /// Computes `d = -H p` by the two-loop recursion, Algorithm 7.4.
    fn direction(&self, p: &[f64], factors: &mut Vec<f64>, d: &mut [f64]) {
        d.iter_mut().zip(p).for_each(|(d, p)| *d = -p);
        self.apply(&[], 1.0, factors, d);
    }

    /// Computes `v <- H v` by the two-loop recursion. Without pairs, H is `initial` times the diagonal `metric`, the identity if empty;
    /// the newest pair replaces `initial`.
    pub(super) fn apply(&self, metric: &[f64], initial: f64, factors: &mut Vec<f64>, v: &mut [f64]) {
        factors.clear();
        for pair in (0..self.used).map_while(|age| self.get(age)) {
            let factor = vec::dot(&pair.s, v) / pair.product;
            vec::add_scaled(v, -factor, &pair.y);
            factors.push(factor);
        }
        let square = |y: &[f64]| {
            if metric.is_empty() { vec::norm_squared(y) } else { vec::sum_by(y.len(), |i| metric[i] * y[i] * y[i]) }
        };
        let scale = self.get(0).map_or(initial, |newest| newest.product / square(&newest.y));
        v.iter_mut().zip(metric).for_each(|(v, m)| *v *= m);
        vec::scale(v, scale);
        for (age, factor) in factors.iter().enumerate().rev() {
            if let Some(pair) = self.get(age) {
                let other = vec::dot(&pair.y, v) / pair.product;
                vec::add_scaled(v, factor - other, &pair.s);
            }
        }
    }
}

/// Reason why the method cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StallReason {
    /// Values and slopes are at the level of rounding.
    Rounding,
    /// The slope is discontinuous.
    Kink,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    x: Aligned,
    /// F and its gradient at x, once computed.
    f: f64,
    g: Aligned,
    known: bool,
    /// Radius of the ball; infinite for the whole space.
    radius: f64,
    /// On the sphere: the norm of u, whose direction is that of x.
    free_length: Option<f64>,
    pairs: Pairs,
    /// Norm of the first gradient, and the first value.
    first_gradient: f64,
    /// Unit of gradients.
    gradient_unit: f64,
    first_value: f64,
    /// Smallest value and smallest residual so far, and the number of iterations since one of them decreased.
    least_value: f64,
    least_residual: f64,
    idle: u32,
    stalled: Option<StallReason>,
}

#[derive(Debug, Default)]
struct Work {
    /// Gradient of F, or of G on the sphere; the same at the trial point.
    p: Aligned,
    p_trial: Aligned,
    x_trial: Aligned,
    g_trial: Aligned,
    d: Aligned,
    factors: Vec<f64>,
    full: Draw,
}

/// Distance of a point from stationarity.
struct Residual {
    /// Norm of the vector that must vanish.
    length: f64,
    /// Whether the inward slope exceeds the tangential one on the sphere.
    inwards: bool,
}

impl Saved {
    /// Returns `<grad F, x> / r`, on the sphere.
    fn radial(&self) -> f64 {
        vec::dot(&self.g, &self.x) / self.radius
    }

    fn residual(&self) -> Residual {
        if self.free_length.is_none() {
            return Residual { length: vec::norm(&self.g), inwards: false };
        }
        let radial = self.radial();
        let share = radial / self.radius;
        let along = vec::norm_by(self.g.len(), |i| self.g[i] - share * self.x[i]);
        Residual { length: if radial > 0.0 { along.hypot(radial) } else { along }, inwards: radial > along }
    }
}

/// Computes the gradient of F in the interior, of G on the sphere, into `p`.
fn gradient_of_view(x: &[f64], g: &[f64], radius: f64, free_length: Option<f64>, p: &mut [f64]) {
    p.copy_from_slice(g);
    if let Some(length) = free_length {
        let share = vec::dot(g, x) / (radius * radius);
        vec::add_scaled(p, -share, x);
        vec::scale(p, radius / length);
    }
}

/// Result of a line search.
enum LineSearch {
    /// A step whose trial point is in the buffers, and whether it is the longest allowed one.
    Step { a: f64, edge: bool },
    /// No step, and whether the slope is discontinuous.
    Nothing { kink: bool },
}

/// One end of a bracket.
#[derive(Clone, Copy)]
struct End {
    a: f64,
    f: f64,
    slope: f64,
}

/// Finds a step with the strong Wolfe conditions. `trial` returns value and slope for a step; the returned step is the last one
/// evaluated.
fn search(
    start: End,
    first: f64,
    longest: f64,
    noise: f64,
    trial: &mut dyn FnMut(f64) -> Result<(f64, f64)>,
) -> Result<LineSearch> {
    let enough = |end: &End| end.f <= start.f + DECREASE * end.a * start.slope + noise;
    let mut low = start;
    let mut high: Option<End> = None;
    let mut a = first.min(longest);
    for turn in 0..TRIALS {
        let (f, slope) = trial(a)?;
        let end = End { a, f, slope };
        if enough(&end) && slope.abs() <= -CURVATURE * start.slope {
            return Ok(LineSearch::Step { a, edge: a >= longest });
        }
        if enough(&end) && slope < 0.0 {
            if a >= longest {
                return Ok(LineSearch::Step { a, edge: true });
            }
            low = end;
        } else {
            high = Some(end);
        }
        a = match high {
            None => {
                // Extrapolated zero of the slope, between twice and ten times as far.
                let ahead = a * start.slope / (start.slope - slope);
                let ahead = if ahead.is_finite() && ahead > 0.0 { ahead } else { 10.0 * a };
                ahead.clamp(2.0 * a, 10.0 * a).min(longest)
            }
            Some(high) if high.a - low.a <= SHORTEST * high.a => break,
            Some(high) => between(&low, &high, noise, turn % 3 == 2),
        };
        if !a.is_finite() {
            break;
        }
    }
    let kink = high.is_some_and(|high| high.f.is_finite() && high.slope - low.slope >= -0.5 * start.slope);
    // Accept a decrease that does not satisfy the conditions.
    if low.a > 0.0 && low.f < start.f - noise {
        trial(low.a)?;
        return Ok(LineSearch::Step { a: low.a, edge: false });
    }
    Ok(LineSearch::Nothing { kink })
}

/// Returns a step between the ends of a bracket: the minimiser of the cubic through values and slopes, a step based on the
/// slopes if the values are at the level of rounding, or the middle.
fn between(low: &End, high: &End, noise: f64, halve: bool) -> f64 {
    let width = high.a - low.a;
    let middle = low.a + 0.5 * width;
    if halve || !high.f.is_finite() {
        return if high.f.is_finite() { middle } else { low.a + 0.1 * width };
    }
    let guess = if (high.f - low.f).abs() > 100.0 * noise {
        let z = 3.0 * (low.f - high.f) / width + low.slope + high.slope;
        let root = (z * z - low.slope * high.slope).max(0.0).sqrt();
        high.a - width * (high.slope + root - z) / (high.slope - low.slope + 2.0 * root)
    } else {
        low.a - width * low.slope / (high.slope - low.slope)
    };
    if guess.is_finite() { guess.clamp(low.a + 0.05 * width, high.a - 0.05 * width) } else { middle }
}

/// Returns the step along d from x, in the ball, to its sphere.
fn to_sphere(x: &[f64], d: &[f64], radius: f64) -> f64 {
    if radius.is_infinite() {
        return f64::INFINITY;
    }
    let (squared, across) = (vec::norm_squared(d), vec::dot(x, d));
    let norm = vec::norm(x);
    let room = ((radius - norm) * (radius + norm)).max(0.0);
    let root = (across * across + squared * room).sqrt();
    if across > 0.0 { room / (across + root) } else { (root - across) / squared }
}

impl Lbfgs {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Lbfgs { settings: settings.resolve()?, s: Saved::default(), work: Work::default() })
    }

    /// Returns the norm of the gradient (in a ball, of its part that can still decrease F), once a step has been made.
    pub fn residual(&self) -> Option<f64> {
        self.s.known.then(|| self.s.residual().length)
    }

    /// Returns the multiplier `nu` of `||x|| <= r`, once a step has been made; 0 in the interior and without a ball.
    pub fn multiplier(&self) -> Option<f64> {
        self.s.known.then(|| self.s.free_length.map_or(0.0, |_| (-self.s.radial() / self.s.radius).max(0.0)))
    }

    fn tolerance(&self) -> f64 {
        self.settings.tolerance * self.s.first_gradient.max(self.s.gradient_unit)
    }

    /// Computes value and gradient at the start.
    fn look(&mut self, ev: &mut dyn Eval) -> Result<()> {
        let s = &mut self.s;
        ev.refresh(&s.x)?;
        s.f = ev.objective_grad(&s.x, &self.work.full, &mut s.g)?;
        s.known = true;
        s.first_gradient = vec::norm(&s.g);
        s.first_value = s.f;
        (s.least_value, s.least_residual) = (s.f, f64::INFINITY);
        Ok(())
    }

    /// Moves to a point with a smaller value, or returns the reason why there is none.
    fn advance(&mut self, ev: &mut dyn Eval) -> Result<Option<StallReason>> {
        let memory = self.settings.memory;
        let s = &mut self.s;
        let Work { p, p_trial, x_trial, g_trial, d, factors, full } = &mut self.work;
        gradient_of_view(&s.x, &s.g, s.radius, s.free_length, p);
        let noise = NOISE * s.f.abs().max(0.01 * s.first_value.abs());
        let mut kink = false;
        // With the memory first, then without.
        for _ in 0..2 {
            s.pairs.direction(p, factors, d);
            let slope = vec::dot(p, d);
            if slope < 0.0 && slope.is_finite() {
                let length = vec::norm(d);
                let longest = match s.free_length {
                    Some(free) => LONGEST * free / length,
                    None => to_sphere(&s.x, d, s.radius),
                };
                let first = if s.pairs.used == 0 { 1f64.min(1.0 / length) } else { 1.0 };
                let (x, radius, free_length) = (&s.x, s.radius, s.free_length);
                let mut reached = free_length;
                let mut trial = |a: f64| -> Result<(f64, f64)> {
                    let scale = free_length.map_or(1.0, |length| length / radius);
                    for ((t, x), d) in x_trial.iter_mut().zip(x.iter()).zip(d.iter()) {
                        *t = scale * x + a * d;
                    }
                    if free_length.is_some() || a >= longest {
                        let norm = vec::norm(x_trial);
                        if free_length.is_some() {
                            reached = Some(norm);
                        }
                        vec::scale(x_trial, INSIDE * radius / norm);
                    }
                    ev.refresh(x_trial)?;
                    match ev.objective_grad(x_trial, full, g_trial) {
                        Ok(f) => {
                            gradient_of_view(x_trial, g_trial, radius, reached, p_trial);
                            Ok((f, vec::dot(p_trial, d)))
                        }
                        // The step is much too long.
                        Err(Error::NotFinite { .. }) => Ok((f64::INFINITY, 0.0)),
                        Err(other) => Err(other),
                    }
                };
                let mut value = s.f;
                let mut trial = |a: f64| {
                    let found = trial(a)?;
                    value = found.0;
                    Ok(found)
                };
                match search(End { a: 0.0, f: s.f, slope }, first, longest, noise, &mut trial)? {
                    LineSearch::Step { a, edge } => {
                        // s and y of the paper; a step from the interior to the sphere belongs to neither function.
                        let enters = edge && free_length.is_none();
                        if !enters {
                            s.pairs.push(memory, a, d, p_trial, p);
                        }
                        // x_{k+1}, Algorithm 7.5
                        std::mem::swap(&mut s.x, x_trial);
                        std::mem::swap(&mut s.g, g_trial);
                        s.f = value;
                        s.free_length = reached;
                        if enters {
                            s.pairs.clear();
                            s.free_length = Some(s.radius);
                        }
                        if let Some(length) = s.free_length
                            && !(s.radius / DRIFT..s.radius * DRIFT).contains(&length)
                        {
                            s.pairs.rescale(s.radius / length);
                            s.free_length = Some(s.radius);
                        }
                        return Ok(None);
                    }
                    LineSearch::Nothing { kink: jumps } => kink |= jumps,
                }
            }
            if s.pairs.used == 0 {
                break;
            }
            s.pairs.clear();
        }
        Ok(Some(if kink { StallReason::Kink } else { StallReason::Rounding }))
    }
}

impl Method for Lbfgs {
    fn name(&self) -> &'static str {
        "lbfgs"
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        out.copy_from_slice(&self.s.x);
        PointOrigin::OutputRule
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        if let (Some(stalled), Some(gradient)) = (self.s.stalled, self.residual()) {
            let cause = match stalled {
                StallReason::Rounding => StallCause::Rounding,
                StallReason::Kink => StallCause::Kink,
            };
            notes.push(Note::LineSearchStalled { gradient, tolerance: self.tolerance(), cause });
        }
        // A multiplier below the tolerance is rounding error.
        if let Some(multiplier) = self.multiplier().filter(|nu| *nu * self.s.radius > self.tolerance()) {
            notes.push(Note::BallActive { radius: self.s.radius, multiplier });
        }
        notes
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Lbfgs {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        if ev.num_constraints() > 0 {
            return Err(Error::Problem(format!("lbfgs takes no constraints, but the problem has {}", ev.num_constraints())));
        }
        let Some(radius) = ev.domain().ball_around_origin() else {
            return Err(Error::Problem(format!(
                "lbfgs takes the whole space or a ball around 0, but the domain is another set ({})",
                ev.domain().describe()
            )));
        };
        let s = &mut self.s;
        s.x.set(x);
        s.gradient_unit = match ev.units() {
            Some(units) => units.objective / units.variables.iter().copied().fold(f64::MIN_POSITIVE, f64::max),
            // Without units only the first gradient is known.
            None => f64::from(u8::from(ev.in_natural_units())),
        };
        s.g.zeros(x.len());
        s.pairs.clear();
        if s.pairs.places.first().is_some_and(|pair| pair.s.len() != x.len()) {
            s.pairs.places.clear();
        }
        s.radius = radius;
        // A point on the sphere up to rounding is on it; a ball of radius 0 has no interior.
        s.free_length = (radius > 0.0 && vec::norm(x) >= radius * (1.0 - 1e-12)).then_some(radius);
        (s.known, s.idle, s.stalled) = (false, 0, None);
        let Work { p, p_trial, x_trial, g_trial, d, factors, .. } = &mut self.work;
        for buffer in [p, p_trial, x_trial, g_trial, d] {
            buffer.zeros(x.len());
        }
        factors.clear();
        // Grows with the stored pairs, which are never more than the iterations.
        factors.reserve(self.settings.memory.min(x.len().max(100)));
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let done = |finished| Ok(Step { kind: StepKind::Objective, finished });
        if !self.s.known {
            self.look(ev)?;
        }
        let wanted = self.tolerance();
        let residual = self.s.residual();
        if residual.length <= wanted || self.s.radius == 0.0 {
            return done(true);
        }
        if residual.inwards {
            self.s.free_length = None;
            self.s.pairs.clear();
        }
        self.s.stalled = self.advance(ev)?;
        if self.s.stalled.is_some() {
            return done(true);
        }
        let s = &mut self.s;
        let reached = s.residual().length;
        let noise = NOISE * s.f.abs().max(0.01 * s.first_value.abs());
        if s.f < s.least_value - noise || reached < s.least_residual {
            s.idle = 0;
        } else {
            s.idle += 1;
        }
        s.least_value = s.least_value.min(s.f);
        s.least_residual = s.least_residual.min(reached);
        if s.idle >= IDLE && reached > wanted {
            s.stalled = Some(StallReason::Rounding);
        }
        done(reached <= wanted || s.stalled.is_some())
    }
}
