//! Sequential quadratic programming for smooth functions and maxima of them, with second derivatives where the problem has them. Functions
//! with kinks belong to the bundle method.

mod curvature;
mod rows;
mod subproblem;

use serde::{Deserialize, Serialize};

use super::lbfgs::Pairs;
use super::{Eval, Infeasible, Method, PointOrigin, Solver, State, Stationary, Step, StepKind, Verdict};
use crate::certify::{distance_bound, infeasible_radius};
use crate::cuts::constants::{unit_of_curvature, usual_mu, usual_mu_in};
use crate::cuts::noise::accuracy;
use crate::eval::width;
use crate::math::cholesky::Cholesky;
use crate::math::vec;
use crate::oracle::{Scales, Source};
use crate::sets::Set;
use crate::{Error, Note, Result, StallCause};
use curvature::Curvature;
use rows::Rows;
use subproblem::Subproblem;

/// Sufficient decrease of the merit function.
const DECREASE: f64 = 1e-4;
/// Factor of the penalty when it is raised, and its largest multiple of the first one.
const RAISE: f64 = 10.0;
const MOST_RAISED: f64 = 1e10;
/// Multiple of the sum of the multipliers that the penalty is lowered towards where units are measured, largest number of times, and
/// smallest multiple of the first one.
const AMPLE: f64 = 2.0;
const MOST_LOWERED: u32 = 30;
const LOWEST: f64 = 1e-4;
/// Share of the violation that a step may leave before the penalty is raised.
const LEFT: f64 = 0.5;
/// First damping of Hessians, relative to the curvature of losses of order 1; factors by which it rises after shortened steps, from at
/// least its first value, and falls after full ones; its smallest and largest values; number of full steps in a row after which it
/// falls below its first value.
const DAMPING: f64 = 2.5e-3;
const DAMP: f64 = 10.0;
const RELAX: f64 = 0.2;
const LEAST_DAMPED: f64 = 1e-6;
const MOST_DAMPED: f64 = 1e8;
const MANY: u32 = 8;
/// Length of a step below which the damping rises.
const SHORT: f64 = 0.2;
/// Shortest step of the line search.
const SHORTEST: f64 = 1e-10;
/// Relative difference of merits that counts as rounding.
const NOISE: f64 = 1e-14;
/// Predicted decrease relative to the objective up to which a Hessian serves further steps, the number of steps that it serves at most, and
/// the factor by which the prediction must then fall with each.
const CALM: f64 = 1e-2;
const SERVED: u32 = 3;
const FALL: f64 = 0.1;
/// Ratio of the widths of variables in a box up to which they count as of one unit.
const APART: f64 = 100.0;
/// Largest number of variables for which Hessians are factored.
const FACTORED: usize = 1024;
/// Smallest size of an objective of order 1 that predicted decreases are compared with.
const NATURAL: f64 = 1e-3;
/// Change over the length of the run that the gradient of the Lagrangian may predict at the end, relative to the size of the objective
/// and to its value, where there are no second derivatives, and number of times that the pairs are dropped because it predicts more.
const STEEP: f64 = 1e-2;
const ERROR: f64 = 1e-7;
const MOST_DROPPED: u32 = 3;
/// Number of steps in a row that gain nothing beyond rounding, after which the method ends.
const IDLE: u32 = 3;

/// Settings of [`Sqp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Predicted decrease of the merit function, relative to the objective, below which a feasible point finishes the method.
    /// Default 1e-8.
    pub tolerance: f64,
    /// First price of the largest violation, nu: in units of the objective for a problem in natural units, otherwise a multiple of
    /// the ratio of the gradients at the start. Default 10.
    pub penalty: f64,
    /// Number of stored pairs of steps and gradient differences where second derivatives are not available or too large. Default 40.
    pub memory: usize,
    /// Proximal coefficient beyond rho_f of the bound on near-stationarity. If absent, `max(rho_f, 1 - rho_f)`, with
    /// [`KnownUnits::curvature`](crate::oracle::KnownUnits::curvature) in place of 1 for a problem that has one.
    pub mu: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { tolerance: 1e-8, penalty: 10.0, memory: 40, mu: None }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        for (name, value) in [("tolerance", self.tolerance), ("penalty", self.penalty), ("mu", self.mu.unwrap_or(1.0))] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if self.memory == 0 {
            return Err(Error::setting("memory", 0, "at least 1"));
        }
        Ok(self)
    }
}

/// Sequential quadratic programming.
///
/// **Problem.** `min f(x)` over the whole space or a box, subject to `g_j(x) <= 0`, where f is smooth and every g_j is smooth or the
/// maximum of combinations of smooth functions r_k ([`crate::oracle::SmoothForm`]): `|r_1 - r_2| <= b` is two rows.
///
/// **Assumptions.** f and r_k are twice differentiable; they need not be convex. The start may be infeasible. Equalities are pairs of
/// opposite inequalities.
///
/// **Iteration** (Nocedal & Wright, chapter 18). With A the gradients of the rows, c their values, and H a positive definite
/// approximation of the second derivative of the Lagrangian, the step d solves `min <grad f, d> + <d, H d> / 2 + nu max(0, max_i (c_i + <a_i,
/// d>))` by its dual: multipliers `lambda >= 0` with `sum lambda <= nu` and the matrix `A H^-1 A'`, so `d = -H^-1 (grad f + A' lambda)`. Such a
/// subproblem always has a solution. nu is multiplied by 10 while a step that is not shortened by damping leaves more than half of the
/// violation. Then `x <- x + a d` with Armijo's condition on the merit function `f + nu max(0, max_j g_j)`, a halved until it holds;
/// before the first halving, one second-order correction is tried, with the row values at `x + d`. One step of the method tries one
/// point.
///
/// H is the Hessian of the problem's smooth form, in which the curvature of each row of data is limited from below by a twentieth of the
/// curvature of its loss and by a damping, plus 1e-8 of its diagonal. Steps and results then do not depend on the units of the
/// variables. The first damping is 0.0025, the curvature of a loss of a row that is nearly certain. It is multiplied by 10, in place of
/// further halving, when a step is shortened to less than a fifth, and by 0.2 after full steps, below its first value only after eight
/// of them in a row. Before the method ends, the predicted decrease is computed with a damping of 1e-6. After a full step whose
/// predicted decrease was below a hundredth of the objective, a Hessian serves up to three steps, as long as the prediction falls to a
/// tenth with each; the last one is computed at the end. Without second derivatives, and beyond 1,024 variables, H is a limited-memory BFGS matrix with Powell's damping.
///
/// A largest difference between several groups, `max_k r_k - min_k r_k <= b`, is the rows `+-(r_k - t) <= b / 2` with a free centre t.
///
/// **Guarantee.** At the end, the predicted decrease of the merit function is below the tolerance, relative to the objective, and the
/// point is feasible. At a kink this can happen far from a solution, with a large approximation of the curvature; where units are measured,
/// such an end counts as stalled if the gradient of the Lagrangian is large. If weak-convexity constants of the functions are known, the multipliers prove a bound on the distance to the
/// proximal point ([`distance_bound`]): no other run is needed. If nu has grown 1e10 times and a violation is left that no step reduces,
/// the method ends there; the conflicting constraints and the radius within which no point is feasible follow from the multipliers.
///
/// **Deviations.** The textbook's penalty is the sum of violations; here it is the largest, as in the bundle method. The objective that
/// decreases are compared with is at least 1e-3 units for a problem in natural units; otherwise it is the change since the start, or the
/// largest decrease of the merit function in a step, so that constants added to f do not matter. If units are measured, nu is also lowered, at
/// most 30 times, halfway to twice the sum of the multipliers (Powell): the first value can be far too large.
///
/// **Settings.** [`Settings`]: tolerance, penalty, memory, mu.
///
/// **Reference.** Nocedal & Wright, *Numerical Optimization*, chapter 18; Powell, *A fast algorithm for nonlinearly constrained
/// optimization calculations*, for the damping.
pub struct Sqp {
    settings: Settings,
    warm: WarmStart,
    /// Whether the end need not be checked with a current Hessian.
    rough: bool,
    s: Saved,
    work: Work,
}

/// Results of a run on the same data that a run on a similar problem can start from: the multipliers of the rows, and the values,
/// gradients and Hessian at the last point. They are copied where the new run starts at that point.
#[derive(Debug, Clone, Default)]
pub struct WarmStart {
    multipliers: Vec<f64>,
    x: Vec<f64>,
    f: f64,
    parts: Vec<f64>,
    grad: Vec<f64>,
    jacobian: Vec<f64>,
    hessian: Vec<f64>,
    damped: f64,
}

impl WarmStart {
    /// Keeps the multipliers only: for a problem whose functions are others. Bounds of constraints may differ without that.
    pub fn forget_values(&mut self) {
        *self = WarmStart { multipliers: std::mem::take(&mut self.multipliers), ..WarmStart::default() };
    }
}

/// The point that the next step tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// The start.
    #[default]
    Start,
    /// The full step.
    Full,
    /// The corrected step.
    Corrected,
    /// A shortened step.
    Shortened,
}

/// Why the method ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    Converged,
    /// The line search found no shorter step that helps.
    Stalled,
    /// The violation cannot be reduced.
    Conflict,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    x: Vec<f64>,
    start: Vec<f64>,
    phase: Phase,
    f: f64,
    parts: Vec<f64>,
    grad: Vec<f64>,
    /// Gradients of the parts, one after the other.
    jacobian: Vec<f64>,
    /// Values of the constraints at x.
    g: Vec<f64>,
    /// Units of the constraints in the penalty.
    units: Vec<f64>,
    /// Multiplier of each row, in the units of the constraints; sides of the box last.
    rows: Vec<f64>,
    /// Weight of each part in the Lagrangian.
    weights: Vec<f64>,
    /// nu, and its first value.
    penalty: f64,
    first_penalty: f64,
    /// The step, the corrected step and the gradient of the quadratic model's Lagrangian for each, `H d` with the opposite sign.
    d: Vec<f64>,
    corrected: Vec<f64>,
    lagrangian: Vec<f64>,
    corrected_lagrangian: Vec<f64>,
    /// Length of the next trial step.
    length: f64,
    /// Merit at x, and bound on its directional derivative along d.
    merit: f64,
    slope: f64,
    /// Largest violation of the linearised rows after the step.
    excess: f64,
    /// Products of the inverse Hessian with the gradients of f and of the parts, and with the coordinates of the box.
    inverse: Vec<f64>,
    base: Vec<f64>,
    /// The Hessian, its damping, the number of points it has served beyond the one that it was computed at, and whether it serves the next
    /// one too.
    hessian: Vec<f64>,
    damped: f64,
    age: u32,
    reuse: bool,
    /// Predicted decrease of the last quadratic program.
    predicted: f64,
    /// Damping of Hessians, and whether it was reset because the predicted decrease was small.
    damping: f64,
    reset: bool,
    /// Number of full steps in a row.
    full: u32,
    pairs: Pairs,
    metric: Vec<f64>,
    initial: f64,
    /// Number of times that the penalty was lowered, and that the pairs were dropped.
    lowered: u32,
    dropped: u32,
    /// Largest decrease of the merit function so far, with the first penalty.
    largest: f64,
    first_value: f64,
    idle: u32,
    multipliers: Vec<f64>,
    /// Bound on the distance to the proximal point at x.
    bound: Option<Stationary>,
    end: Option<End>,
    verdict: Option<Verdict>,
    /// Norm of the gradient of the Lagrangian.
    residual: f64,
}

impl Saved {
    /// Returns whether the merit function does not decrease along the step, up to rounding.
    fn ascends(&self) -> bool {
        self.slope >= 0.0 || self.slope.is_nan()
    }
}

#[derive(Default)]
struct Work {
    trial: Vec<f64>,
    trial_parts: Vec<f64>,
    trial_g: Vec<f64>,
    values: Vec<f64>,
    heights: Vec<f64>,
    /// Factor of the Hessian; `None` if it is not that of the current one.
    factor: Option<Cholesky>,
    factors: Vec<f64>,
    grad: Vec<f64>,
    jacobian: Vec<f64>,
    subproblem: Subproblem,
}

impl std::fmt::Debug for Sqp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Sqp").field("settings", &self.settings).field("s", &self.s).finish_non_exhaustive()
    }
}

/// Largest positive constraint value, in units.
fn violation(g: &[f64], units: &[f64]) -> f64 {
    g.iter().zip(units).fold(0.0, |most: f64, (g, unit)| if g.is_nan() { f64::INFINITY } else { most.max(g / unit) })
}

impl Sqp {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        let (warm, s, work) = (WarmStart::default(), Saved::default(), Work::default());
        Ok(Sqp { settings: settings.resolve()?, warm, rough: false, s, work })
    }

    /// Starts from the results of a run on a similar problem. Multipliers whose number is another one are ignored, and so are values
    /// at another point than the start.
    #[must_use]
    pub fn with_warm_start(mut self, warm: WarmStart) -> Self {
        self.warm = warm;
        self
    }

    /// Ends without computing the Hessian once more with less damping: for a run whose result is a start for another one.
    #[must_use]
    pub fn with_rough_end(mut self) -> Self {
        self.rough = true;
        self
    }

    /// Returns what a run on a similar problem can start from.
    pub fn into_warm_start(self) -> WarmStart {
        let Saved { x, f, parts, grad, jacobian, hessian, damped, rows: multipliers, .. } = self.s;
        WarmStart { multipliers, x, f, parts, grad, jacobian, hessian, damped }
    }

    /// Evaluates the start and chooses units.
    fn begin(&mut self, ev: &mut dyn Eval, rows: &Rows) -> Result<()> {
        let s = &mut self.s;
        let (d, m) = (s.x.len(), ev.num_constraints());
        s.parts = vec![0.0; rows.parts];
        s.grad = vec![0.0; d];
        s.jacobian = vec![0.0; rows.parts * d];
        s.g = vec![0.0; m];
        s.rows = vec![0.0; rows.count()];
        s.weights = vec![0.0; rows.parts];
        let warm = &self.warm;
        let same = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        if same(&warm.x, &s.x) && warm.parts.len() == rows.parts && warm.jacobian.len() == s.jacobian.len() {
            s.f = warm.f;
            s.parts.clone_from(&warm.parts);
            s.grad.clone_from(&warm.grad);
            s.jacobian.clone_from(&warm.jacobian);
            s.hessian.clone_from(&warm.hessian);
            (s.damped, s.reuse) = (warm.damped, !warm.hessian.is_empty());
        } else {
            rows.evaluate(ev, &s.x, &mut s.parts)?;
            s.f = rows.differentiate(ev, &s.x, &mut s.parts, &mut s.grad, &mut s.jacobian)?;
        }
        s.predicted = f64::INFINITY;
        rows.values(&s.parts, &mut self.work.values, &mut s.g);
        s.first_value = s.f;
        let known = ev.units();
        s.units = known.map_or_else(|| vec![1.0; m], |units| units.constraints.clone());
        s.penalty = self.settings.penalty * known.map_or(1.0, |units| units.objective);
        if !ev.in_natural_units() {
            s.units = rows.steepness(m, &s.jacobian);
            let typical = s.units.iter().copied().fold(0.0, f64::max);
            // A constraint whose gradient vanishes at the start has the unit of its value, or of the others.
            for (unit, g) in s.units.iter_mut().zip(&s.g) {
                if *unit <= 0.0 {
                    *unit = [g.abs(), typical].into_iter().find(|v| *v > 0.0).unwrap_or(1.0);
                }
            }
            let steep = vec::norm(&s.grad);
            s.penalty *= if steep > 0.0 { steep } else { s.f.abs().max(1.0) };
        }
        s.first_penalty = s.penalty;
        s.damping = DAMPING;
        if self.warm.multipliers.len() == s.rows.len() {
            s.rows.copy_from_slice(&self.warm.multipliers);
            weigh(rows, &s.units, &s.rows, &mut s.weights);
        }
        s.metric.clear();
        s.initial = 1.0;
        if self.factors(rows, d) {
            return Ok(());
        }
        let s = &mut self.s;
        match ev.scales() {
            // Curvatures of losses of scores are of the order of the second moments.
            Some(Scales::Diagonal(moments)) => s.metric = moments.iter().map(|m| 1.0 / m.max(f64::MIN_POSITIVE)).collect(),
            Some(Scales::Full(moments)) => {
                s.metric = (0..d).map(|i| 1.0 / moments[i * d + i].max(f64::MIN_POSITIVE)).collect();
            }
            None => {
                let (size, steep) = (vec::norm(&s.x), vec::norm(&s.grad));
                let length = if size > 0.0 { size } else { 1.0 };
                s.initial = if steep > 0.0 { length / steep } else { 1.0 };
                s.metric = widths_squared(ev.domain(), &s.grad, length);
            }
        }
        s.metric.iter_mut().for_each(|m| *m = m.min(f64::MAX.sqrt()));
        Ok(())
    }

    /// Returns whether Hessians are computed and factored.
    fn factors(&self, rows: &Rows, dim: usize) -> bool {
        rows.smooth && dim <= FACTORED
    }

    /// Solves the subproblem at x and decides whether the method has finished.
    fn plan(&mut self, ev: &mut dyn Eval, rows: &Rows) -> Result<()> {
        self.invert(ev, rows)?;
        let (d, width) = (self.s.x.len(), 1 + rows.parts + rows.sides.len());
        let factored = self.factors(rows, d);
        let Saved { x, g, units, base, parts, .. } = &self.s;
        let work = &mut self.work;
        work.subproblem.assemble(rows, units, base, width);
        work.trial_g.resize(g.len(), 0.0);
        rows.values(parts, &mut work.values, &mut work.trial_g);
        heights(rows, &work.values, x, units, &mut work.heights);
        let before = violation(g, units);
        let natural = ev.in_natural_units();
        let s = &mut self.s;
        loop {
            let solution = work.subproblem.solve(&work.heights, s.penalty, &mut s.rows, rows.rows.len());
            s.excess = solution.excess;
            let capped = solution.total >= s.penalty * (1.0 - 1e-9);
            let most = s.first_penalty * MOST_RAISED;
            if capped && s.excess > LEFT * before && s.penalty < most && s.damped <= DAMPING {
                s.penalty *= RAISE;
                continue;
            }
            let ample = (AMPLE * solution.total).max(LOWEST * s.first_penalty);
            if !natural && s.penalty > ample && s.lowered < MOST_LOWERED {
                // The ratio of gradients at the start can be far from the multipliers, and too large a penalty allows only short steps
                // along curved constraints (Powell).
                s.penalty = 0.5 * (s.penalty + ample);
                s.lowered += 1;
            }
            break;
        }
        direction(rows, &s.units, &s.rows, &s.inverse, &mut s.weights, &mut s.d);
        if !natural {
            // Badly scaled programs are solved with errors that the line search must not depend on.
            s.excess = linear_excess(rows, &s.units, &work.heights, &s.jacobian, &s.d);
        }
        s.lagrangian = lagrangian(rows, &s.units, &s.rows, &s.grad, &s.jacobian, d);
        s.merit = s.f + s.penalty * before;
        let along = vec::dot(&s.grad, &s.d);
        s.slope = along - s.penalty * (before - s.excess);
        let curvature = -vec::dot(&s.d, &s.lagrangian);
        let predicted = -(s.slope + 0.5 * curvature);
        if s.age > 0 && (predicted.is_nan() || predicted > FALL * s.predicted) {
            return self.plan(ev, rows);
        }
        s.predicted = predicted;
        s.multipliers.clear();
        s.multipliers.resize(s.g.len(), 0.0);
        for (row, z) in rows.rows.iter().zip(&s.rows) {
            s.multipliers[row.constraint as usize] += z / s.units[row.constraint as usize];
        }
        s.residual = vec::norm(&s.lagrangian);
        self.prove(ev, rows);
        let s = &mut self.s;
        (s.length, s.phase) = (1.0, Phase::Full);
        let least = NATURAL * ev.units().map_or(1.0, |units| units.objective);
        let size = if natural { s.f.abs().max(least) } else { (s.first_value - s.f).abs().max(s.largest) };
        let rounding = NOISE * s.merit.abs();
        let least = (self.settings.tolerance * size).max(rounding);
        // A lowered penalty does not make a violation small.
        let lowered = if natural { 0.0 } else { (s.first_penalty - s.penalty).max(0.0) };
        if s.idle < IDLE
            && lowered > 0.0
            && (predicted <= least || s.ascends())
            && predicted + lowered * (before - s.excess) > least
        {
            (s.penalty, s.lowered) = (s.first_penalty, s.lowered + 1);
            return self.replan(ev, rows);
        }
        let small = predicted <= least || s.idle >= IDLE;
        // With less damping, the predicted decrease is at most larger in the same proportion.
        let hidden = factored && predicted * (s.damped / LEAST_DAMPED) > least;
        let checked = !(self.rough && s.damped <= DAMPING);
        if small && checked && hidden && s.damped > LEAST_DAMPED && !s.reset {
            (s.damping, s.reset) = (LEAST_DAMPED, true);
            return self.plan(ev, rows);
        }
        if small && checked && s.age > 0 {
            return self.plan(ev, rows);
        }
        if small && rows.feasible(ev, &s.g, &s.x, &s.start, &s.jacobian) {
            // At a kink the pairs show a large curvature, and decreases that are predicted with it are small.
            let length = vec::norm(&s.x).max(vec::distance(&s.x, &s.start));
            let steep = !natural && s.residual * length > (STEEP * size).max(ERROR * s.f.abs());
            if steep && !s.pairs.is_empty() && s.dropped < MOST_DROPPED {
                s.pairs.clear();
                (s.dropped, s.idle) = (s.dropped + 1, 0);
                return self.plan(ev, rows);
            }
            s.end = Some(if steep { End::Stalled } else { End::Converged });
        } else if small && s.penalty < s.first_penalty * MOST_RAISED {
            // The violation that is left is worth more than the penalty says.
            s.penalty *= RAISE;
            if s.idle >= IDLE {
                s.idle = 0;
            }
            return self.replan(ev, rows);
        } else if !natural && !s.pairs.is_empty() && s.ascends() {
            // Without memory, the subproblem is better conditioned.
            s.pairs.clear();
            return self.plan(ev, rows);
        } else if small || s.ascends() {
            s.end = Some(if before > 0.0 && s.excess > LEFT * before { End::Conflict } else { End::Stalled });
        }
        self.conclude(ev, rows);
        Ok(())
    }

    /// Solves the subproblem again with the current penalty, without other changes.
    fn replan(&mut self, ev: &dyn Eval, rows: &Rows) -> Result<()> {
        let before = violation(&self.s.g, &self.s.units);
        let work = &mut self.work;
        let s = &mut self.s;
        let solution = work.subproblem.solve(&work.heights, s.penalty, &mut s.rows, rows.rows.len());
        s.excess = solution.excess;
        direction(rows, &s.units, &s.rows, &s.inverse, &mut s.weights, &mut s.d);
        if !ev.in_natural_units() {
            s.excess = linear_excess(rows, &s.units, &work.heights, &s.jacobian, &s.d);
        }
        s.lagrangian = lagrangian(rows, &s.units, &s.rows, &s.grad, &s.jacobian, s.x.len());
        s.merit = s.f + s.penalty * before;
        s.slope = vec::dot(&s.grad, &s.d) - s.penalty * (before - s.excess);
        Ok(())
    }

    /// Computes the products with the inverse of the Hessian.
    fn invert(&mut self, ev: &mut dyn Eval, rows: &Rows) -> Result<()> {
        let factored = self.factors(rows, self.s.x.len());
        let Saved {
            x, weights, grad, jacobian, inverse, base, pairs, metric, initial, hessian, damping, damped, age, reuse, ..
        } = &mut self.s;
        let Work { factor, factors, .. } = &mut self.work;
        let d = x.len();
        let unit = ev.units().map_or(1.0, |units| units.objective);
        let curvature = match ev.smooth().filter(|_| factored) {
            Some(mut form) => {
                if std::mem::take(reuse) {
                    *age += 1;
                } else {
                    hessian.resize(d * d, 0.0);
                    form.hessian(x, weights, *damping * unit, hessian)?;
                    (*damped, *age, *factor) = (*damping, 0, None);
                }
                Curvature::Factor(factor.get_or_insert_with(|| curvature::factor(hessian, d)))
            }
            None => Curvature::Pairs { pairs, metric, initial: *initial },
        };
        let width = 1 + rows.parts + rows.sides.len();
        let gradients = grad.iter().chain(jacobian.iter()).copied();
        inverse.clear();
        inverse.extend(gradients);
        inverse.resize(width * d, 0.0);
        for (at, (i, ..)) in rows.sides.iter().enumerate() {
            inverse[(1 + rows.parts + at) * d + *i as usize] = 1.0;
        }
        inverse.chunks_mut(d.max(1)).for_each(|v| curvature.solve(v, factors));
        base.clear();
        base.resize(width * width, 0.0);
        for i in 0..width {
            for j in 0..=i {
                let product = match j {
                    0 => vec::dot(grad, &inverse[i * d..][..d]),
                    _ if j <= rows.parts => vec::dot(&jacobian[(j - 1) * d..][..d], &inverse[i * d..][..d]),
                    _ => inverse[i * d + rows.sides[j - 1 - rows.parts].0 as usize],
                };
                base[i * width + j] = product;
                base[j * width + i] = product;
            }
        }
        Ok(())
    }

    /// Bounds the distance to the proximal point from the multipliers, if all constants are known.
    fn prove(&mut self, ev: &mut dyn Eval, rows: &Rows) {
        let s = &mut self.s;
        s.bound = None;
        let proved = |source: Source| source != Source::Estimated;
        let Some(rho_f) = ev.objective_modulus().filter(|rho| proved(rho.source)) else { return };
        let rho_g: Vec<_> = (0..s.g.len()).map_while(|j| ev.constraint_modulus(j).filter(|rho| proved(rho.source))).collect();
        if rho_g.len() < s.g.len() {
            return;
        }
        let mu = self.settings.mu.unwrap_or_else(|| usual_mu_in(unit_of_curvature(ev), rho_f.value));
        let z = balanced(rows, &s.rows);
        let relaxed = s.g.iter().copied().fold(0.0, f64::max);
        let gradient = lagrangian(rows, &s.units, &z, &s.grad, &s.jacobian, s.x.len());
        let mut weights = vec![0.0; rows.parts];
        weigh(rows, &s.units, &z, &mut weights);
        let (mut gap, mut size) = (0.0, 0.0);
        for ((row, z), value) in rows.rows.iter().zip(&z).zip(&self.work.values) {
            let z = z / s.units[row.constraint as usize];
            gap += z * (relaxed - value);
            let terms: f64 = row.terms.iter().map(|&(k, c)| (c * s.parts[k as usize]).abs()).sum();
            size += z * (relaxed + row.constant.abs() + terms);
        }
        for (&(i, sign, bound), z) in rows.sides.iter().zip(&z[rows.rows.len()..]) {
            gap += z * (bound - sign * s.x[i as usize]).max(0.0);
            size += z * (bound.abs() + s.x[i as usize].abs());
        }
        let rounding = accuracy(s.x.len());
        let error = match ev.smooth() {
            Some(form) => form.gradient_error(&weights),
            None => {
                let parts = s.jacobian.chunks(s.x.len().max(1)).zip(&weights).map(|(row, w)| w.abs() * vec::norm(row));
                rounding * parts.sum::<f64>()
            }
        };
        let norm = vec::norm(&gradient);
        let error = error + rounding * (vec::norm(&s.grad) + norm);
        let upper = distance_bound(norm + error, gap + rounding * size, mu);
        let rho_g = rho_g.iter().map(|rho| rho.value).collect();
        s.bound = Some(Stationary { upper, mu, rho_f: rho_f.value, rho_g, relaxed, estimated: false });
    }

    /// States what is proved at the end.
    fn conclude(&mut self, ev: &dyn Eval, rows: &Rows) {
        let s = &mut self.s;
        s.verdict = match s.end {
            None => None,
            Some(End::Converged) => s.bound.clone().filter(|bound| bound.upper.is_finite()).map(Verdict::Stationary),
            Some(End::Stalled) => None,
            Some(End::Conflict) => conflict(s, &self.work.values, ev, rows).map(Verdict::Infeasible),
        };
    }

    /// Writes the trial point of the current phase.
    fn write_trial(&mut self, ev: &dyn Eval) {
        let s = &self.s;
        let (step, length) = match s.phase {
            Phase::Corrected => (&s.corrected, 1.0),
            _ => (&s.d, s.length),
        };
        let trial = &mut self.work.trial;
        trial.clear();
        trial.extend(s.x.iter().zip(step).map(|(x, d)| x + length * d));
        // Rounding can leave a box.
        for (i, t) in trial.iter_mut().enumerate() {
            if let Some((low, high)) = ev.domain().sides(i) {
                *t = t.max(low).min(high);
            }
        }
    }

    /// Tries one point. Returns whether it was accepted.
    fn try_point(&mut self, ev: &mut dyn Eval, rows: &Rows) -> Result<bool> {
        self.write_trial(ev);
        let work = &mut self.work;
        work.trial_parts.resize(rows.parts, 0.0);
        work.trial_g.resize(self.s.g.len(), 0.0);
        let f = match rows.evaluate(ev, &work.trial, &mut work.trial_parts) {
            Err(Error::NotFinite { .. }) => f64::INFINITY,
            value => value?,
        };
        let s = &mut self.s;
        let mut merit = f64::INFINITY;
        if f.is_finite() {
            rows.values(&work.trial_parts, &mut work.values, &mut work.trial_g);
            merit = f + s.penalty * violation(&work.trial_g, &s.units);
        }
        let noise = NOISE * s.merit.abs().max(s.f.abs());
        if merit <= s.merit + DECREASE * s.length * s.slope + noise {
            s.idle = if merit < s.merit - noise { 0 } else { s.idle + 1 };
            let repaired = violation(&s.g, &s.units) - violation(&work.trial_g, &s.units);
            s.largest = s.largest.max(s.f - f + s.first_penalty * repaired);
            self.accept(ev, rows)?;
            return Ok(true);
        }
        if s.age > 0 {
            return self.plan(ev, rows).map(|()| false);
        }
        match s.phase {
            Phase::Full if merit.is_finite() && violation(&work.trial_g, &s.units) > s.excess => {
                // The rows at x + d, linearised with the gradients at x.
                heights(rows, &work.values, &work.trial, &s.units, &mut work.heights);
                for (i, h) in work.heights.iter_mut().enumerate() {
                    let mut gradient = vec![0.0; s.x.len()];
                    rows.add_gradient(i, 1.0, &s.jacobian, &mut gradient);
                    let unit = rows.rows.get(i).map_or(1.0, |row| s.units[row.constraint as usize]);
                    *h -= vec::dot(&gradient, &s.d) / unit;
                }
                let mut z = s.rows.clone();
                work.subproblem.solve(&work.heights, s.penalty, &mut z, rows.rows.len());
                let mut weights = vec![0.0; rows.parts];
                direction(rows, &s.units, &z, &s.inverse, &mut weights, &mut s.corrected);
                s.corrected_lagrangian = lagrangian(rows, &s.units, &z, &s.grad, &s.jacobian, s.x.len());
                s.phase = Phase::Corrected;
            }
            _ => {
                s.length *= 0.5;
                s.phase = Phase::Shortened;
            }
        }
        if s.length < SHORT && s.damping < MOST_DAMPED && self.factors(rows, self.s.x.len()) {
            // A direction in which the model is trusted this little is not worth shorter trials.
            self.s.damping = DAMP * self.s.damping.max(DAMPING);
            self.plan(ev, rows)?;
            return Ok(false);
        }
        let s = &mut self.s;
        if s.length < SHORTEST {
            if s.pairs.is_empty() || self.factors(rows, self.s.x.len()) {
                self.s.end = Some(End::Stalled);
                return Ok(false);
            }
            // Without memory, the next direction is one of steepest descent.
            self.s.pairs.clear();
            rows.values(&self.s.parts, &mut self.work.values, &mut self.work.trial_g);
            self.plan(ev, rows)?;
        }
        Ok(false)
    }

    /// Moves to the trial point.
    fn accept(&mut self, ev: &mut dyn Eval, rows: &Rows) -> Result<()> {
        let factored = self.factors(rows, self.s.x.len());
        let (s, work) = (&mut self.s, &mut self.work);
        work.grad.resize(s.grad.len(), 0.0);
        work.jacobian.resize(s.jacobian.len(), 0.0);
        let f = rows.differentiate(ev, &work.trial, &mut work.trial_parts, &mut work.grad, &mut work.jacobian)?;
        if !factored {
            let step: Vec<f64> = work.trial.iter().zip(&s.x).map(|(t, x)| t - x).collect();
            let mut y: Vec<f64> = work.grad.iter().zip(&s.grad).map(|(now, before)| now - before).collect();
            let d = s.x.len().max(1);
            for ((now, before), w) in work.jacobian.chunks(d).zip(s.jacobian.chunks(d)).zip(&s.weights) {
                y.iter_mut().zip(now).zip(before).for_each(|((y, now), before)| *y += w * (now - before));
            }
            let (model, length) = match s.phase {
                Phase::Corrected => (&s.corrected_lagrangian, 1.0),
                _ => (&s.lagrangian, s.length),
            };
            let bs: Vec<f64> = model.iter().map(|l| -length * l).collect();
            curvature::damp(&step, &mut y, &bs);
            let zero = vec![0.0; y.len()];
            s.pairs.push(self.settings.memory, 1.0, &step, &y, &zero);
        }
        s.full = if s.length == 1.0 { s.full + 1 } else { 0 };
        if s.full > 0 {
            s.damping = (RELAX * s.damping).max(if s.full > MANY { LEAST_DAMPED } else { DAMPING.min(s.damping) });
        }
        let size = f.abs().max(NATURAL);
        s.reuse = ev.in_natural_units() && s.full > 0 && s.age + 1 < SERVED && s.predicted <= CALM * size;
        s.reset = false;
        s.f = f;
        std::mem::swap(&mut s.x, &mut work.trial);
        std::mem::swap(&mut s.parts, &mut work.trial_parts);
        std::mem::swap(&mut s.grad, &mut work.grad);
        std::mem::swap(&mut s.jacobian, &mut work.jacobian);
        rows.values(&s.parts, &mut work.values, &mut s.g);
        self.plan(ev, rows)
    }
}

/// Returns the diagonal inverse of the Hessian for variables whose widths in a box are very different: a step along the gradient has
/// the widths as lengths. Empty for variables of one unit, and where the gradient is 0.
fn widths_squared(domain: &dyn Set, grad: &[f64], length: f64) -> Vec<f64> {
    let widths: Vec<f64> = (0..grad.len()).map(|i| Some(width(domain, i)).filter(|w| w.is_finite()).unwrap_or(length)).collect();
    let positive = || widths.iter().copied().filter(|w| *w > 0.0);
    let (narrow, wide) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    let change = vec::sum_by(grad.len(), |i| (grad[i] * widths[i]).powi(2)).sqrt();
    if wide <= APART * narrow || change.is_nan() || change <= 0.0 {
        return vec![];
    }
    widths.iter().map(|w| w.max(narrow) * w.max(narrow) / change).collect()
}

/// Writes the values of the rows, in the units of the constraints: those of the constraints from `values`, then those of the box.
fn heights(rows: &Rows, values: &[f64], x: &[f64], units: &[f64], out: &mut Vec<f64>) {
    out.clear();
    out.extend(rows.rows.iter().zip(values).map(|(row, v)| v / units[row.constraint as usize]));
    out.extend(rows.sides.iter().map(|&(i, sign, bound)| sign * x[i as usize] - bound));
}

/// Computes the largest violation of the linearised rows of constraints after the step `d`, in their units.
fn linear_excess(rows: &Rows, units: &[f64], heights: &[f64], jacobian: &[f64], d: &[f64]) -> f64 {
    let mut gradient = vec![0.0; d.len()];
    let mut most = 0.0_f64;
    for (i, (row, height)) in rows.rows.iter().zip(heights).enumerate() {
        gradient.fill(0.0);
        rows.add_gradient(i, 1.0, jacobian, &mut gradient);
        most = most.max(height + vec::dot(&gradient, d) / units[row.constraint as usize]);
    }
    most
}

/// Computes the weights of the parts in the Lagrangian from multipliers of the rows.
fn weigh(rows: &Rows, units: &[f64], z: &[f64], weights: &mut [f64]) {
    weights.fill(0.0);
    for (row, z) in rows.rows.iter().zip(z) {
        let z = z / units[row.constraint as usize];
        row.terms.iter().for_each(|&(k, c)| weights[k as usize] += z * c);
    }
}

/// Computes the weights of the parts and the step `d = -H^-1 (grad f + A' z)` from multipliers of the rows.
fn direction(rows: &Rows, units: &[f64], z: &[f64], inverse: &[f64], weights: &mut [f64], d: &mut Vec<f64>) {
    weigh(rows, units, z, weights);
    let dim = inverse.len() / (1 + rows.parts + rows.sides.len());
    d.clear();
    d.extend(inverse[..dim].iter().map(|v| -v));
    let sides = rows.sides.iter().zip(&z[rows.rows.len()..]).map(|((_, sign, _), z)| sign * z);
    let all = weights.iter().copied().chain(sides);
    for (w, v) in all.zip(inverse[dim..].chunks(dim.max(1))).filter(|(w, _)| *w != 0.0) {
        vec::add_scaled(d, -w, v);
    }
}

/// Computes the gradient of the Lagrangian, `grad f + A' z`.
fn lagrangian(rows: &Rows, units: &[f64], z: &[f64], grad: &[f64], jacobian: &[f64], dim: usize) -> Vec<f64> {
    let mut out = grad[..dim].to_vec();
    let mut weights = vec![0.0; rows.parts];
    weigh(rows, units, z, &mut weights);
    for (w, row) in weights.iter().zip(jacobian.chunks(dim.max(1))).filter(|(w, _)| **w != 0.0) {
        vec::add_scaled(&mut out, *w, row);
    }
    for (&(i, sign, _), z) in rows.sides.iter().zip(&z[rows.rows.len()..]) {
        out[i as usize] += sign * z;
    }
    out
}

/// Reduces multipliers so that the free centres cancel: without that, the Lagrangian would have no lower bound.
fn balanced(rows: &Rows, z: &[f64]) -> Vec<f64> {
    let mut z = z.to_vec();
    for centre in 0..rows.centres as u32 {
        let side = |row: &crate::oracle::SmoothRow| row.centre.filter(|(k, _)| *k == centre).map(|(_, c)| c);
        let mut sums = [0.0, 0.0];
        for (row, z) in rows.rows.iter().zip(&z) {
            if let Some(c) = side(row) {
                sums[usize::from(c < 0.0)] += z * c.abs();
            }
        }
        let least = sums[0].min(sums[1]);
        for (row, z) in rows.rows.iter().zip(&mut z) {
            if let Some(c) = side(row) {
                let sum = sums[usize::from(c < 0.0)];
                *z *= if sum > 0.0 { least / sum } else { 0.0 };
            }
        }
    }
    z
}

/// Returns what the multipliers prove about constraints whose violation cannot be reduced.
fn conflict(s: &Saved, values: &[f64], ev: &dyn Eval, rows: &Rows) -> Option<Infeasible> {
    // A mean of constraint values needs no box, whose sides are not violated.
    let mut z = balanced(rows, &s.rows);
    z[rows.rows.len()..].fill(0.0);
    rows.rows.iter().zip(&mut z).for_each(|(row, z)| *z /= s.units[row.constraint as usize]);
    let total = vec::sum(&z);
    if total <= 0.0 || total.is_nan() {
        return None;
    }
    z.iter_mut().for_each(|z| *z /= total);
    let one = vec![1.0; s.units.len()];
    let gradient = lagrangian(rows, &one, &z, &vec![0.0; s.x.len()], &s.jacobian, s.x.len());
    let mut conflicting: Vec<u32> = vec![];
    let (mut level, mut rho) = (0.0, 0.0);
    for ((row, z), value) in rows.rows.iter().zip(&z).zip(values).filter(|((_, z), _)| **z > 1e-6) {
        if !conflicting.contains(&row.constraint) {
            conflicting.push(row.constraint);
        }
        level += z * value;
        // A constant that is to be estimated says nothing yet.
        let modulus = ev.constraint_modulus(row.constraint as usize).filter(|rho| rho.source != Source::Estimated)?;
        rho += z * modulus.value;
    }
    conflicting.sort_unstable();
    let largest = s.g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rounding = accuracy(s.x.len());
    let norm = vec::norm(&gradient);
    let mu = usual_mu(rho);
    let radius = infeasible_radius(level - rounding * level.abs(), norm * (1.0 + rounding), rho);
    (radius > 0.0).then(|| Infeasible {
        violation: largest,
        conflicting,
        upper: distance_bound(norm, largest - level, mu),
        radius,
        everywhere: radius.is_infinite(),
        estimated: false,
    })
}

impl Method for Sqp {
    fn name(&self) -> &'static str {
        "sqp"
    }

    fn version(&self) -> u32 {
        3
    }

    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.s.x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        out.copy_from_slice(&self.s.x);
        PointOrigin::OutputRule
    }

    fn multipliers(&self) -> Option<&[f64]> {
        (self.s.phase != Phase::Start).then_some(&self.s.multipliers)
    }

    fn stationary_within(&self) -> Option<f64> {
        self.s.bound.as_ref().map(|bound| bound.upper)
    }

    fn verdict(&self) -> Option<&Verdict> {
        self.s.verdict.as_ref()
    }

    fn notes(&self) -> Vec<Note> {
        match self.s.end {
            Some(End::Stalled) => {
                let tolerance = self.settings.tolerance;
                vec![Note::LineSearchStalled { gradient: self.s.residual, tolerance, cause: StallCause::NoDecrease }]
            }
            _ => vec![],
        }
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        self.work.factor = None;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Sqp {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        // Fails early for a domain that is not supported.
        Rows::of(ev)?;
        self.s = Saved { x: x.to_vec(), start: x.to_vec(), ..Saved::default() };
        self.work.factor = None;
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let rows = Rows::of(ev)?;
        let done = |finished| Ok(Step { kind: StepKind::Other, finished });
        if self.s.end.is_some() {
            return done(true);
        }
        if self.s.phase == Phase::Start {
            self.begin(ev, &rows)?;
            self.plan(ev, &rows)?;
        } else {
            if self.work.subproblem.is_empty() {
                // After a checkpoint was loaded.
                let s = &self.s;
                self.work.subproblem.assemble(&rows, &s.units, &s.base, 1 + rows.parts + rows.sides.len());
            }
            self.try_point(ev, &rows)?;
        }
        done(self.s.end.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Bounds, WholeSpace};

    #[test]
    fn variables_of_very_different_widths_get_steps_of_these_lengths() {
        let grad = [3e3, 4e-3, 0.0];
        assert!(widths_squared(&WholeSpace, &grad, 2.0).is_empty());
        let alike = Bounds::each(vec![0.0; 3], vec![1.0, 50.0, 2.0]).unwrap();
        assert!(widths_squared(&alike, &grad, 2.0).is_empty());
        let apart = Bounds::each(vec![0.0, 0.0, f64::NEG_INFINITY], vec![1e-3, 1e3, f64::INFINITY]).unwrap();
        // The gradient predicts a change of 5 = |(3, 4)| over the widths.
        for (got, want) in widths_squared(&apart, &grad, 2.0).iter().zip([0.2e-6, 0.2e6, 0.8]) {
            assert!((got / want - 1.0).abs() < 1e-12, "{got} {want}");
        }
        assert!(widths_squared(&apart, &[0.0; 3], 2.0).is_empty());
    }
}
