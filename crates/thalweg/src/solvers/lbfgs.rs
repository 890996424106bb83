//! L-BFGS for smooth objectives over the whole space or a ball around 0: the accurate solution that other methods are measured
//! against. It takes no constraints and knows nothing of samples: every evaluation is of all of them.

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::math::{Aligned, vec};
use crate::oracle::Draw;
use crate::{Error, Note, Result, StallCause};

/// Sufficient decrease and curvature of the strong Wolfe conditions.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Trials of a line search, and how short its bracket may become.
const TRIALS: u32 = 60;
const SHORTEST: f64 = 1e-10;
/// Differences of values below this share of the value are rounding.
const NOISE: f64 = 1e-14;
/// Iterations without a smaller value or a smaller gradient after which nothing more is to be gained.
const IDLE: u32 = 50;
/// Points on the sphere are put this much inside, so that rounding leaves none outside.
const INSIDE: f64 = 1.0 - 1e-15;
/// The longest step on the sphere in radii, and how far the free length of a point there may drift before it is set anew.
const LONGEST: f64 = 4.0;
const DRIFT: f64 = 8.0;

/// Settings of [`Lbfgs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Pairs of steps and gradient differences that are kept, m in the paper. Default 20.
    pub memory: usize,
    /// The method is finished when the gradient, in a ball its part that can still lead downhill, is at most this long, times
    /// the length of the first gradient if that is above 1. Default 1e-9.
    pub tolerance: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { memory: 20, tolerance: 1e-9 }
    }
}

impl Settings {
    /// Checks every value.
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
/// **Iteration** (Algorithm 7.5 of the book). `d = -H grad F(x_k)` by the two-loop recursion over the last m pairs `s = x_{k+1} - x_k`,
/// `y = grad F(x_{k+1}) - grad F(x_k)`, starting from `(s.y / y.y) I`; then x_{k+1} = x_k + a d with the strong Wolfe conditions,
/// a found by bracketing and safeguarded cubic interpolation. A pair without `s.y > 0` is left out. A step that would leave the ball
/// ends on its sphere if F still falls there. On the sphere the method goes on with `G(u) = F(r u / ||u||)`, a function without
/// constraints whose gradient is the part of grad F along the sphere, and returns to F when the slope inwards is the larger part.
///
/// **Guarantee.** When it is finished without a note on having stalled, the KKT residual is at most the tolerance: `||grad F||` in the
/// interior, `||grad F + nu x||` with the multiplier `nu = -<grad F, x> / r^2 >= 0` on the sphere. For a convex F the point is then
/// optimal up to the tolerance times the distance to a solution.
///
/// **Deviations.** The paper has no constraints; the ball is ours. Near the solution, where differences of values are rounding,
/// sufficient decrease is asked up to 1e-14 of the value, so that the slopes decide. A line search that fails is tried again
/// along the gradient, without memory; if this fails too, or 50 iterations bring neither a smaller value nor a smaller gradient, the
/// method is finished, and a note has the length of the gradient that was reached. At a kink, such as those of the hinge loss, this
/// happens far from a solution, and the note says so.
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

/// A step and what it did to the gradient.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// s.y.
    product: f64,
}

/// The last pairs, in places that are used again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Pairs {
    places: Vec<Pair>,
    used: usize,
    next: usize,
}

impl Pairs {
    fn clear(&mut self) {
        (self.used, self.next) = (0, 0);
    }

    /// The pair that is `age` older than the newest.
    fn get(&self, age: usize) -> Option<&Pair> {
        let most = self.places.len();
        (age < self.used).then(|| &self.places[(self.next + most - 1 - age) % most])
    }

    /// Keeps `s = a d` and `y = now - before`, in the place of the oldest pair if there are `memory`.
    fn push(&mut self, memory: usize, a: f64, d: &[f64], now: &[f64], before: &[f64]) {
        if self.next == self.places.len() && self.next < memory {
            self.places.push(Pair { s: vec![0.0; d.len()], y: vec![0.0; d.len()], product: 0.0 });
        }
        let Some(pair) = self.places.get_mut(self.next) else { return };
        pair.s.iter_mut().zip(d).for_each(|(s, d)| *s = a * d);
        for ((y, now), before) in pair.y.iter_mut().zip(now).zip(before) {
            *y = now - before;
        }
        pair.product = vec::dot(&pair.s, &pair.y);
        // What is left of the product after rounding must be a curvature.
        if pair.product > 1e-14 * vec::norm(&pair.s) * vec::norm(&pair.y) {
            self.next = (self.next + 1) % memory;
            self.used = (self.used + 1).min(memory);
        } else if self.used == memory {
            // The oldest pair was in that place.
            self.used -= 1;
        }
    }

    /// What becomes of the pairs if the variables are multiplied by c.
    fn rescale(&mut self, c: f64) {
        for pair in &mut self.places {
            vec::scale(&mut pair.s, c);
            vec::scale(&mut pair.y, 1.0 / c);
        }
    }

    /// `d = -H p`, the two-loop recursion, Algorithm 7.4.
    fn direction(&self, p: &[f64], factors: &mut Vec<f64>, d: &mut [f64]) {
        d.iter_mut().zip(p).for_each(|(d, p)| *d = -p);
        factors.clear();
        for pair in (0..self.used).map_while(|age| self.get(age)) {
            let factor = vec::dot(&pair.s, d) / pair.product;
            vec::add_scaled(d, -factor, &pair.y);
            factors.push(factor);
        }
        if let Some(newest) = self.get(0) {
            vec::scale(d, newest.product / vec::norm_squared(&newest.y));
        }
        for (age, factor) in factors.iter().enumerate().rev() {
            if let Some(pair) = self.get(age) {
                let other = vec::dot(&pair.y, d) / pair.product;
                vec::add_scaled(d, factor - other, &pair.s);
            }
        }
    }
}

/// Why the method can go no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Stalled {
    /// Values and slopes are rounding.
    Rounding,
    /// The slope jumps.
    Kink,
}

/// What a checkpoint keeps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    x: Aligned,
    /// F and its gradient at x, once they are known.
    f: f64,
    g: Aligned,
    known: bool,
    /// Of the ball; infinite for the whole space.
    radius: f64,
    /// On the sphere: the length of u, of which x is the direction.
    free_length: Option<f64>,
    pairs: Pairs,
    /// The length of the first gradient, and the first value.
    first_gradient: f64,
    first_value: f64,
    /// The smallest value and the smallest residual so far, and for how many iterations neither has become smaller.
    least_value: f64,
    least_residual: f64,
    idle: u32,
    stalled: Option<Stalled>,
}

#[derive(Debug, Default)]
struct Work {
    /// The gradient of F, or that of G on the sphere; the same at the trial point.
    p: Aligned,
    p_trial: Aligned,
    x_trial: Aligned,
    g_trial: Aligned,
    d: Aligned,
    factors: Vec<f64>,
    full: Draw,
}

/// How far a point is from stationary.
struct Residual {
    /// What must vanish.
    length: f64,
    /// On the sphere the slope inwards is more than that along it.
    inwards: bool,
}

impl Saved {
    /// `<grad F, x> / r`, on the sphere.
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

/// `p` becomes the gradient of F in the interior, of G on the sphere.
fn gradient_of_view(x: &[f64], g: &[f64], radius: f64, free_length: Option<f64>, p: &mut [f64]) {
    p.copy_from_slice(g);
    if let Some(length) = free_length {
        let share = vec::dot(g, x) / (radius * radius);
        vec::add_scaled(p, -share, x);
        vec::scale(p, radius / length);
    }
}

/// What a line search found.
enum Found {
    /// A step, with its value, for which the trial point is in its buffers; whether it is the longest that is allowed.
    Step { a: f64, edge: bool },
    /// Nothing; whether the slope jumps.
    Nothing { kink: bool },
}

/// One side of a bracket.
#[derive(Clone, Copy)]
struct End {
    a: f64,
    f: f64,
    slope: f64,
}

/// Finds a step with the strong Wolfe conditions. `trial` gives value and slope for a step; the last step it was asked for is the
/// one that is returned.
fn search(start: End, first: f64, longest: f64, noise: f64, trial: &mut dyn FnMut(f64) -> Result<(f64, f64)>) -> Result<Found> {
    let enough = |end: &End| end.f <= start.f + DECREASE * end.a * start.slope + noise;
    let mut low = start;
    let mut high: Option<End> = None;
    let mut a = first.min(longest);
    for turn in 0..TRIALS {
        let (f, slope) = trial(a)?;
        let end = End { a, f, slope };
        if enough(&end) && slope.abs() <= -CURVATURE * start.slope {
            return Ok(Found::Step { a, edge: a >= longest });
        }
        if enough(&end) && slope < 0.0 {
            if a >= longest {
                return Ok(Found::Step { a, edge: true });
            }
            low = end;
        } else {
            high = Some(end);
        }
        a = match high {
            None => {
                // Where the slope would vanish if it went on like this, between twice and ten times as far.
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
    // What is less than the conditions and yet progress is taken.
    if low.a > 0.0 && low.f < start.f - noise {
        trial(low.a)?;
        return Ok(Found::Step { a: low.a, edge: false });
    }
    Ok(Found::Nothing { kink })
}

/// A step between the ends of a bracket: where the cubic through values and slopes is smallest, or where the slopes say so if the
/// values are no more than rounding, or the middle.
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

/// The step along d that leads from x, in the ball, to its sphere.
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
    /// A solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Lbfgs { settings: settings.resolve()?, s: Saved::default(), work: Work::default() })
    }

    /// The length of the gradient, in a ball of its part that can still lead downhill, once a step has been made.
    pub fn residual(&self) -> Option<f64> {
        self.s.known.then(|| self.s.residual().length)
    }

    /// The multiplier `nu` of `||x|| <= r`, once a step has been made; 0 in the interior and without a ball.
    pub fn multiplier(&self) -> Option<f64> {
        self.s.known.then(|| self.s.free_length.map_or(0.0, |_| (-self.s.radial() / self.s.radius).max(0.0)))
    }

    fn tolerance(&self) -> f64 {
        self.settings.tolerance * self.s.first_gradient.max(1.0)
    }

    /// Value and gradient where the method starts.
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

    /// Moves to a point with a smaller value; what kept it from there if there is none.
    fn advance(&mut self, ev: &mut dyn Eval) -> Result<Option<Stalled>> {
        let memory = self.settings.memory;
        let s = &mut self.s;
        let Work { p, p_trial, x_trial, g_trial, d, factors, full } = &mut self.work;
        gradient_of_view(&s.x, &s.g, s.radius, s.free_length, p);
        let noise = NOISE * s.f.abs().max(0.01 * s.first_value.abs());
        let mut kink = false;
        // With the memory, and if that leads nowhere without.
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
                        // A step that is much too long.
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
                    Found::Step { a, edge } => {
                        // s and y of the paper; a step that ends on the sphere from inside belongs to neither function.
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
                    Found::Nothing { kink: jumps } => kink |= jumps,
                }
            }
            if s.pairs.used == 0 {
                break;
            }
            s.pairs.clear();
        }
        Ok(Some(if kink { Stalled::Kink } else { Stalled::Rounding }))
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
                Stalled::Rounding => StallCause::Rounding,
                Stalled::Kink => StallCause::Kink,
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
        s.g.zeros(x.len());
        s.pairs.clear();
        if s.pairs.places.first().is_some_and(|pair| pair.s.len() != x.len()) {
            s.pairs.places.clear();
        }
        s.radius = radius;
        // On the sphere up to rounding is on the sphere; a ball of radius 0 has no inside.
        s.free_length = (radius > 0.0 && vec::norm(x) >= radius * (1.0 - 1e-12)).then_some(radius);
        (s.known, s.idle, s.stalled) = (false, 0, None);
        let Work { p, p_trial, x_trial, g_trial, d, factors, .. } = &mut self.work;
        for buffer in [p, p_trial, x_trial, g_trial, d] {
            buffer.zeros(x.len());
        }
        factors.clear();
        factors.reserve(self.settings.memory);
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
            s.stalled = Some(Stalled::Rounding);
        }
        done(reached <= wanted || s.stalled.is_some())
    }
}
