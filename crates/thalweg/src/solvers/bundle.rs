//! Proximal bundle method with cuts of the convexified functions, which stay valid when the centre moves, and a stopping
//! criterion that is a proof. The cuts and the master program are in `crate::cuts`.

mod restoration;
mod state;
mod stopping;
mod units;

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Solver, SolverName, State, Step, StepKind, Verdict};
use crate::cuts::constants::{Constants, estimate, too_small, usual_mu};
use crate::cuts::noise::size;
use crate::cuts::{Convexification, Master, MasterObjective, Model, Norm, Owner};
use crate::error::check_entries;
use crate::eval::width;
use crate::math::vec;
use crate::oracle::{Draw, Source};
use crate::sets::Set;
use crate::{Error, Note, Result};
use units::Units;

/// Largest number of constraints: every evaluation gives a cut of each, and the master program stores all pairs of cuts.
pub const MOST_CONSTRAINTS: usize = 2000;

/// Settings of [`Bundle`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Proximal coefficient beyond rho_f in the stopping criterion: rho_hat = rho_f + mu. If absent,
    /// `max(rho_f, 1 - rho_f)`.
    pub mu: Option<f64>,
    /// Weak-convexity constant of the objective, if the problem does not provide it or to replace it.
    pub rho_f: Option<f64>,
    /// Weak-convexity constant of every constraint, likewise.
    pub rho_g: Option<f64>,
    /// Distance to the proximal point whose proof ends the run, in units of length. Default 1e-4.
    pub eps: f64,
    /// Fraction of the predicted decrease that makes a step serious. Default 0.01.
    pub kappa: f64,
    /// Largest number of cuts; beyond it those with the smallest multipliers are merged. Default 200.
    pub max_cuts: usize,
    /// Cuts per evaluation of an objective that is a maximum of pieces. Default 3.
    pub cuts_per_visit: usize,
    /// Initial price of the largest violation, in units of the objective for one unit of the constraint, increased if it is too
    /// low. Default 10.
    pub elastic: f64,
    /// Whether the proximal coefficient, the constants and the norm adapt until the run is close to stopping. If not, mu, rho_f
    /// and rho_g are used throughout. Default true.
    pub adapt: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mu: None,
            rho_f: None,
            rho_g: None,
            eps: 1e-4,
            kappa: 0.01,
            max_cuts: 200,
            cuts_per_visit: 3,
            elastic: 10.0,
            adapt: true,
        }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        let positive = |name: &str, value: f64| {
            if value > 0.0 && value.is_finite() {
                Ok(())
            } else {
                Err(Error::setting(name, value, "a finite number larger than 0"))
            }
        };
        self.mu.map_or(Ok(()), |mu| positive("mu", mu))?;
        positive("eps", self.eps)?;
        positive("elastic", self.elastic)?;
        for (name, rho) in [("rho_f", self.rho_f), ("rho_g", self.rho_g)] {
            if let Some(rho) = rho.filter(|rho| !(*rho >= 0.0 && rho.is_finite())) {
                return Err(Error::setting(name, rho, "a finite number, 0 or larger"));
            }
        }
        if !(self.kappa > 0.0 && self.kappa < 1.0) {
            return Err(Error::setting("kappa", self.kappa, "a number between 0 and 1"));
        }
        if self.max_cuts < 4 {
            return Err(Error::setting("max_cuts", self.max_cuts, "at least 4"));
        }
        if self.cuts_per_visit == 0 {
            return Err(Error::setting("cuts_per_visit", 0, "at least 1"));
        }
        Ok(self)
    }
}

/// Proximal bundle method.
///
/// **Problem.** `min f(x)` over a simple set X subject to `g_j(x) <= 0`, f and g_j weakly convex, each with a known constant.
///
/// **Assumptions.** The constants rho_f and rho_j hold; a pair of visited points that contradicts one ends the run with an
/// error that shows the pair, unless the constant is estimated. The start may be infeasible.
///
/// **Iteration.** Every evaluation gives cuts of `f + (rho_f / 2) ||.||^2` and of `g_j + (rho_j / 2) ||.||^2`, which stay valid
/// for every centre. The master minimises, over X, the model of f plus a price for the largest violation of the model of g plus
/// `(mu / 2) ||y - c||^2`; its optimal value is a lower bound. If the merit `f + price * max(0, max_j g_j)` decreases at y by
/// the fraction kappa of the prediction, y becomes the centre (serious step), else only the model improves (null step). The
/// price is multiplied by 4 while the master leaves more than half of the violation. One step visits one point.
///
/// Until the run is close to stopping, the master uses a separate mu, constants and norm: the norm is that of
/// [`crate::oracle::Structure::scales`], constants start at 0 and rise to 1.5 times the value that visited pairs of points
/// require, mu decreases after good steps and increases after bad ones. A proved constant is a worst case that may exceed the
/// local one a hundred times. Then cuts, mu and norm are those of the stopping criterion.
///
/// **Guarantee.** At the end `||c - xhat|| <= sqrt(2 (f(c) - m) / mu) <= eps`, where xhat solves the subproblem with prox
/// `rho_f + mu` on f and `rho_j` on g_j, constraints relaxed by the violation of c, which is within the feasibility tolerance;
/// m is the master's lower bound. If no point satisfies the constraints, the run ends at a point that is stationary for the
/// largest violation and names the constraints that conflict there.
///
/// **Units.** The method works in units of length, of the objective and of each constraint. They are 1 for a problem in natural
/// units, or known powers of two, one for each variable ([`crate::oracle::Structure::units`]); then eps is a distance in units of the
/// variables, and the stated distance and coefficient are those of the plain norm that it implies. Otherwise they are measured at the start: the length over which the linearisation of the objective, or of a violated
/// constraint, predicts a decrease well, and the changes that the gradients predict over it. Before the run ends, they are
/// measured again at the centre; if one was too large, the method continues from there in the new units. So the result does not
/// depend on the units of the functions and of the variables.
///
/// **Rounding.** Errors of values, subgradients and sums are part of the bound: a relative accuracy of a few roundings, and what
/// is measured beyond that at neighbouring floating-point numbers before the run ends. A run also ends if the predicted decrease
/// is as small as these errors.
///
/// **Estimated constants.** A constant whose source is [`Source::Estimated`] becomes 1.5 times the value that a pair of visited
/// points requires, and mu follows rho_f if it is not given. Near a concave kink no constant is large enough: it ends at 1e8,
/// and steps of the search are serious by the functions themselves, without the convexification. As a large coefficient makes
/// every distance small, the stopping criterion also requires `(rho_f + mu + sum_j multiplier_j rho_j) ||c - xhat|| <= eps`, or
/// that only rounding is left to gain; and it is tested at up to 16 points around the centre, one in each step, because a
/// constant that is too small can satisfy it anywhere. None of this is a proof, and the notes and the verdict say so.
///
/// **Settings.** [`Settings`]: mu, rho_f, rho_g, eps, kappa, max_cuts, cuts_per_visit, elastic, adapt.
///
/// **Reference.** Kiwiel, *Proximity control in bundle methods for convex nondifferentiable minimization*; Hare & Sagastizábal,
/// *A redistributed proximal bundle method for nonconvex optimization*. Transferable cuts with certificates are original to
/// this library.
#[derive(Debug, Clone)]
pub struct Bundle {
    settings: Settings,
    s: Saved,
    which: Vec<u32>,
    values: Vec<f64>,
    grad: Vec<f64>,
    g: Vec<f64>,
    rows: Vec<f64>,
    multipliers: Vec<f64>,
    /// Multipliers in the units of the problem.
    original: Vec<f64>,
    /// The last visited point.
    visited: Vec<f64>,
    /// The same point in the units of the problem.
    at: Vec<f64>,
}

/// State in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Whether the start was visited.
    begun: bool,
    /// Whether the next point comes from the master of the stopping criterion.
    proving: bool,
    /// Whether only the largest constraint is minimised, until it is 0 or proved to stay positive.
    restoring: bool,
    units: Units,
    /// How often the units were replaced.
    renewals: u32,
    /// The start, in the units of the problem. Empty if these are natural.
    start: Vec<f64>,
    /// The first centre in these units.
    origin: Vec<f64>,
    model: Model,
    centre: Vec<f64>,
    f: f64,
    g: Vec<f64>,
    /// Bounds on the relative errors of f and of the constraints at the centre.
    size: f64,
    sizes: Vec<f64>,
    /// Whether the errors of the functions were measured at the centre.
    noise_known: bool,
    /// Amount by which rounding lowers the bound of the last proof.
    error: f64,
    /// The next point to visit.
    y: Vec<f64>,
    /// Predicted decrease of the merit there.
    predicted: f64,
    /// Whether each constant, of the objective and of each constraint, is estimated.
    estimated: Vec<bool>,
    /// Upper limits of the constants of the search: those of the proof divided by the smallest scale, if that is below 1.
    ceilings: Vec<f64>,
    least_scale: f64,
    /// Subgradients at the centre, of the objective and of each constraint, if some constant is estimated.
    slopes: Vec<f64>,
    /// Whether the next point tests the stopping criterion, and how many tests it has passed.
    trying: bool,
    tried: u32,
    /// Whether the last visit raised a constant.
    raised: bool,
    /// Coefficient of the search, and its lower limit.
    mu: f64,
    least_mu: f64,
    /// Coefficient to continue with once the constraints are satisfied.
    resume_mu: f64,
    /// Coefficient of the stopping criterion.
    stated: f64,
    penalty: f64,
    nulls: u32,
    /// Predicted decrease below which the master of the stopping criterion is solved.
    gate: f64,
    multipliers: Vec<f64>,
    upper: f64,
    /// Whether `upper` is a bound for a feasible centre.
    bounded: bool,
    mean_cut: (f64, f64),
    verdict: Option<Verdict>,
}

/// Convexifications of the cuts: for the search, and for the stopping criterion.
const SEARCH: usize = 0;
const PROVE: usize = 1;
/// Largest length of the first step, in the norm of the search.
const FIRST_STEP: f64 = 2.0 / 3.0;
/// Largest price.
const HIGHEST_PRICE: f64 = 1e10;
/// Multiple of the initial price beyond which the largest violation is minimised alone.
const HIGH_PRICE: f64 = 1e4;
/// Smallest proximal coefficient of the stopping criterion in measured units, which are those of the steepest direction. A function
/// may be flatter in others; the coefficient of the search is then smaller, and the criterion takes it over.
const LEAST_MU: f64 = 1.0 / 128.0;
/// Decrease that a run on a bounded domain may leave, relative to that which the linearisation at the start predicts there, and
/// the smallest coefficient that is tried.
const GAP: f64 = 1e-5;
const SMALLEST_MU: f64 = 1e-12;
/// Largest number of times that units are replaced.
const RENEWALS: u32 = 24;

/// Returns the index of the constant of `owner` in a convexification.
fn constant_index(owner: Owner) -> usize {
    match owner {
        Owner::Constraint(j) => 1 + j as usize,
        _ => 0,
    }
}

/// Returns the largest decrease of a linear function from a point over a set, if it is known and finite.
fn fall(domain: &dyn Set, slope: &[f64], from: &[f64]) -> Option<f64> {
    let mut to = vec![0.0; from.len()];
    domain.linear_minimizer(slope, &mut to)?;
    let decrease: f64 = slope.iter().zip(from.iter().zip(&to)).map(|(s, (from, to))| s * (from - to)).sum();
    decrease.is_finite().then_some(decrease)
}

fn violation(g: &[f64]) -> f64 {
    g.iter().fold(0.0, |most: f64, &g| most.max(g))
}

impl Bundle {
    /// Creates a solver with checked settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Bundle {
            settings: settings.resolve()?,
            s: Saved::default(),
            which: vec![],
            values: vec![],
            grad: vec![],
            g: vec![],
            rows: vec![],
            multipliers: vec![],
            original: vec![],
            visited: vec![],
            at: vec![],
        })
    }

    /// Returns f at the centre.
    pub(crate) fn value(&self) -> f64 {
        self.s.units.objective * self.s.f
    }

    /// Returns the weighted mean of cuts of the last proof at the centre, relative to f there, and the norm of its slope.
    pub(crate) fn mean_cut(&self) -> Option<(f64, f64)> {
        let (linear, slope) = self.s.mean_cut;
        let Units { objective, length, .. } = self.s.units;
        self.s.proving.then_some((linear * objective, slope * (objective / length)))
    }

    /// Uses another coefficient in the stopping criterion from the next step on.
    pub(crate) fn state_for(&mut self, mu: f64) {
        self.s.stated = mu;
    }

    /// Returns the model, to reuse its cuts.
    pub(crate) fn into_model(self) -> Model {
        self.s.model
    }

    /// Visits the next point for values and cuts. Returns f.
    fn visit<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<f64> {
        let y = std::mem::take(&mut self.s.y);
        let visited = self.visit_at(ev, &y);
        self.visited.clear();
        self.visited.extend_from_slice(&y);
        self.s.y = y;
        visited
    }

    fn visit_at<E: Eval + ?Sized>(&mut self, ev: &mut E, x: &[f64]) -> Result<f64> {
        let full = Draw::full();
        let s = &mut self.s;
        s.raised = false;
        let d = x.len().max(1);
        self.at.clear();
        self.at.extend_from_slice(x);
        s.units.multiply(&mut self.at);
        ev.refresh(&self.at)?;
        let count = ev.objective_cuts(&self.at, &full, &mut self.values, &mut self.grad)?;
        if !self.which.is_empty() {
            ev.constraint_rows(&self.at, &full, &self.which, &mut self.g, &mut self.rows)?;
        }
        // Units are powers of two, so that nothing is rounded.
        vec::scale(&mut self.values, 1.0 / s.units.objective);
        self.grad.chunks_mut(d).for_each(|row| s.units.convert_slope(Owner::Objective, row));
        for ((j, g), row) in self.g.iter_mut().enumerate().zip(self.rows.chunks_mut(d)) {
            *g /= s.units.constraints[j];
            s.units.convert_slope(Owner::Constraint(j as u32), row);
        }
        let f = self.values[0];
        let objective = self.values.iter().zip(self.grad.chunks(d)).take(count).map(|(&v, row)| (Owner::Objective, (v, f), row));
        let constraints = self.g.iter().zip(self.rows.chunks(d)).enumerate();
        let constraints = constraints.map(|(j, (&g, row))| (Owner::Constraint(j as u32), (g, g), row));
        for (k, (owner, (piece, value), row)) in objective.chain(constraints).enumerate() {
            // Further pieces of the objective are checked later, as existing cuts.
            if k == 0 || owner != Owner::Objective {
                let at = constant_index(owner);
                if let Some(pair) = s.model.contradiction(PROVE, owner, x, value, row) {
                    if !s.estimated[at] {
                        let pair = s.original_pair(pair);
                        return Err(Error::Problem(too_small(&pair, |j| ev.constraint_name(j as usize).into_owned())));
                    }
                    let rho = estimate(pair.needed);
                    if rho > pair.claimed {
                        s.set_proved(owner, rho, &self.settings);
                        s.raised = true;
                    }
                }
                if s.model.convexification(SEARCH).constant(owner) < s.ceilings[at]
                    && let Some(pair) = s.model.contradiction(SEARCH, owner, x, value, row)
                {
                    s.model.set_constant(SEARCH, owner, (1.5 * pair.needed).min(s.ceilings[at]));
                }
            }
            s.model.add(owner, x, (piece, value), row);
        }
        Ok(f)
    }

    /// Solves the master, repeatedly while its solution requires a higher price. The solution is the next point to visit.
    fn master<E: Eval + ?Sized>(&mut self, ev: &E, view: usize) -> Result<Master> {
        let s = &mut self.s;
        let mu = if view == PROVE { s.stated } else { s.mu };
        let over = violation(&s.g);
        let wanted = if s.feasible(ev) { 0.0 } else { 0.5 * over };
        let domain: &dyn Set = &s.units.scaled(ev.domain());
        let domain = if s.units.plain() { ev.domain() } else { domain };
        let mut before = f64::INFINITY;
        loop {
            let objective = MasterObjective { mu, penalty: s.penalty, level: 0.0, feasibility: false };
            let master = s.model.solve_in(view, domain, objective, s.f, &mut s.y)?;
            s.model.multipliers(view, &mut s.multipliers);
            s.predicted = s.penalty * over - master.lower;
            let helps = master.excess < 0.9 * before;
            let limit = if wanted > 0.0 { HIGH_PRICE * self.settings.elastic } else { HIGHEST_PRICE };
            if !(master.excess > wanted + 1e-12 && helps && s.penalty < limit) {
                return Ok(master);
            }
            before = master.excess;
            s.penalty *= 4.0;
        }
    }

    /// Chooses the next point to visit. Returns true if the run is finished.
    fn look<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<bool> {
        let finished = self.look_ahead(ev)?;
        self.write_multipliers();
        Ok(finished)
    }

    fn write_multipliers(&mut self) {
        let units = &self.s.units;
        self.original.clear();
        let multipliers = self.s.multipliers.iter().zip(&units.constraints);
        self.original.extend(multipliers.map(|(multiplier, unit)| multiplier * (units.objective / unit)));
    }

    fn look_ahead<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<bool> {
        let over = violation(&self.s.g);
        let feasible = self.s.feasible(ev);
        self.s.proving = !self.settings.adapt;
        if self.s.restoring && !feasible {
            return self.restore_feasibility(ev);
        }
        if self.s.restoring {
            self.s.restoring = false;
            self.s.penalty = 100.0 * self.settings.elastic;
            self.s.mu = self.s.resume_mu;
        }
        let mut master = self.master(ev, if self.s.proving { PROVE } else { SEARCH })?;
        // If the price leaves most of the violation, first determine whether the violation can decrease at all.
        if !feasible && master.excess > 0.5 * over && self.s.penalty >= HIGH_PRICE * self.settings.elastic {
            self.s.restoring = true;
            self.s.resume_mu = self.s.mu;
            // Steps for the constraints alone have a separate coefficient.
            let steepest = self.s.model.steepest_constraint(SEARCH);
            self.s.mu = if steepest > 0.0 { steepest / FIRST_STEP } else { self.s.stated };
            return self.restore_feasibility(ev);
        }
        if !self.s.proving
            && (self.s.predicted <= self.s.gate.max(4.0 * (master.error + self.s.objective_error())) || self.stuck())
        {
            self.s.proving = true;
            if !self.s.start.is_empty() && self.settings.mu.is_none() {
                let rho = self.s.model.convexification(PROVE).constants[0];
                self.s.stated = self.s.stated.min(rho.max(self.s.mu.clamp(LEAST_MU, 1.0) - rho));
            }
            master = self.master(ev, PROVE)?;
        }
        if !self.s.proving {
            return Ok(false);
        }
        let mut done = self.state_bound(master, feasible);
        if done && !self.s.noise_known {
            // The claim must hold in spite of the errors of the functions.
            self.measure_noise(ev)?;
            let master = self.master(ev, PROVE)?;
            done = self.state_bound(master, feasible);
        }
        if (done || self.stuck()) && self.choose_test_point(ev)? {
            return Ok(false);
        }
        // A smaller coefficient allows longer steps where the variables have very different units.
        while done && self.may_decrease(ev)? {
            self.s.stated *= 0.25;
            let master = self.master(ev, PROVE)?;
            done = self.state_bound(master, feasible);
        }
        if done && self.renew_units(ev)? {
            return Ok(false);
        }
        if done {
            self.s.verdict = Some(Verdict::Stationary(self.s.stationary()));
        }
        Ok(done)
    }

    /// Returns whether the cuts of convex functions allow a decrease on a bounded domain that counts, compared with what the
    /// linearisation at the start predicts there. The distance to the proximal point may be short all the same, if the domain is
    /// long in some variables and short in others.
    fn may_decrease<E: Eval + ?Sized>(&self, ev: &mut E) -> Result<bool> {
        let s = &self.s;
        let convex = s.model.convexification(PROVE).constants.iter().all(|rho| *rho == 0.0);
        if s.start.is_empty() || self.settings.mu.is_some() || !convex || s.stated < SMALLEST_MU {
            return Ok(false);
        }
        let mut slope = vec![0.0; s.centre.len()];
        let height = s.model.mean_of_functions(PROVE, s.f, 0.0, &mut slope);
        let Some(decrease) = fall(&s.units.scaled(ev.domain()), &slope, &s.centre) else { return Ok(false) };
        let allowed = decrease - height;
        if allowed <= s.rounding() {
            return Ok(false);
        }
        ev.objective_grad(&s.start, &Draw::full(), &mut slope)?;
        let predicted = fall(ev.domain(), &slope, &s.start).map(|decrease| decrease / s.units.objective);
        Ok(predicted.is_some_and(|predicted| predicted > 0.0 && allowed > GAP * predicted))
    }

    /// Measures the units again at the centre, where the run would end. Returns true if the run continues from there in new ones.
    fn renew_units<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<bool> {
        if self.s.start.is_empty() || self.s.renewals >= RENEWALS {
            return Ok(false);
        }
        let x: Vec<f64> = self.s.centre_of_problem().collect();
        let Some(units) = self.s.units.renewed(ev, &x, &self.s.start)? else { return Ok(false) };
        let (start, renewals) = (std::mem::take(&mut self.s.start), self.s.renewals + 1);
        self.begin(ev, &x, units)?;
        (self.s.start, self.s.renewals) = (start, renewals);
        Ok(true)
    }

    /// Moves the centre to the last visited point.
    fn move_centre(&mut self, f: f64) {
        let s = &mut self.s;
        s.model.move_to(&s.y);
        s.centre.copy_from_slice(&s.y);
        s.f = f;
        s.g.copy_from_slice(&self.g);
        s.nulls = 0;
        s.tried = 0;
        self.keep_slopes();
    }

    /// Stores the sizes that bound the errors at the centre, which is the last visited point.
    fn keep_sizes(&mut self) {
        let d = self.s.centre.len();
        let s = &mut self.s;
        s.noise_known = false;
        s.size = size(s.f, &s.centre, &self.grad[..d]);
        s.sizes.clear();
        s.sizes.extend(s.g.iter().zip(self.rows.chunks(d.max(1))).map(|(g, row)| size(*g, &s.centre, row)));
    }

    /// Stores the subgradients of the last visit as those of the centre.
    fn keep_slopes(&mut self) {
        self.keep_sizes();
        let s = &mut self.s;
        if s.any_estimated() {
            s.slopes.clear();
            s.slopes.extend_from_slice(&self.grad[..s.centre.len()]);
            s.slopes.extend_from_slice(&self.rows);
        }
    }
}

impl Method for Bundle {
    fn name(&self) -> &'static str {
        "bundle"
    }

    fn version(&self) -> u32 {
        3
    }

    fn iterate(&self, out: &mut [f64]) {
        out.iter_mut().zip(self.s.centre_of_problem()).for_each(|(out, x)| *out = x);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.iterate(out);
        PointOrigin::OutputRule
    }

    fn multipliers(&self) -> Option<&[f64]> {
        self.s.begun.then_some(&self.original)
    }

    fn stationary_within(&self) -> Option<f64> {
        // An older bound may belong to another centre.
        // While units may change, so may the coefficient that it belongs to.
        let s = &self.s;
        let lasting = s.start.is_empty() || self.settings.mu.is_some() || s.verdict.is_some();
        (s.begun && s.proving && s.bounded && !s.restoring && lasting).then_some(s.upper * s.units.length)
    }

    fn verdict(&self) -> Option<&Verdict> {
        self.s.verdict.as_ref()
    }

    fn notes(&self) -> Vec<Note> {
        if !self.s.begun || !self.s.any_estimated() {
            return vec![];
        }
        let s = &self.s;
        let objective = s.curvature(Owner::Objective, s.model.convexification(PROVE).constants[0]);
        let constraints = s.estimated_constraints().map(|(j, rho)| (j, s.curvature(Owner::Constraint(j as u32), rho)));
        vec![Note::ConstantsEstimated {
            objective: (s.estimated.first() == Some(&true)).then_some(objective),
            constraints: constraints.collect(),
        }]
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        self.write_multipliers();
        Ok(())
    }
}

impl Bundle {
    /// Starts at `x`, a point in the units of the problem, in other units.
    fn begin<E: Eval + ?Sized>(&mut self, ev: &mut E, x: &[f64], units: Units) -> Result<()> {
        let constants = Constants::of(ev, self.settings.rho_f, self.settings.rho_g)?;
        let m = ev.num_constraints();
        check_entries("cuts_per_visit", self.settings.cuts_per_visit, x.len())?;
        self.which.clear();
        self.which.extend(0..m as u32);
        for (buffer, length) in [
            (&mut self.g, m),
            (&mut self.rows, m * x.len()),
            (&mut self.values, self.settings.cuts_per_visit),
            (&mut self.grad, self.settings.cuts_per_visit * x.len()),
            (&mut self.multipliers, m),
        ] {
            buffer.clear();
            buffer.resize(length, 0.0);
        }
        let (norm, least) = match ev.scales().filter(|_| self.settings.adapt) {
            // In measured units, the domain may show that of each variable.
            None if self.settings.adapt && !ev.in_natural_units() => {
                let widths: Vec<f64> = (0..x.len()).map(|k| width(ev.domain(), k) / units.length).collect();
                Norm::of_widths(&widths).unwrap_or((Norm::Plain, 1.0))
            }
            scales if units.plain() => Norm::of(scales),
            scales => Norm::of(scales.map(|scales| units.convert_scales(scales)).as_ref()),
        };
        let mut model = std::mem::take(&mut self.s.model);
        let mut proved = constants.convexification();
        let scales = std::iter::once(&units.objective).chain(&units.constraints);
        let longest = units.longest();
        proved.constants.iter_mut().zip(scales).for_each(|(rho, unit)| *rho *= longest * (longest / unit));
        // Where the lengths differ, the constants in these units can be much smaller.
        let known = ev.units().filter(|_| !units.lengths.is_empty());
        for ((rho, modulus), known) in proved.constants.iter_mut().zip(constants.all()).zip(known.iter().flat_map(|k| &k.moduli))
        {
            *rho = known.filter(|_| modulus.source == Source::Proved).map_or(*rho, |known| known.min(*rho));
        }
        let stated = match self.settings.mu {
            Some(mu) => mu * units.length * (units.length / units.objective),
            None => usual_mu(proved.constants[0]),
        };
        let search = match self.settings.adapt {
            true => Convexification { constants: vec![0.0; 1 + m], scaled: norm != Norm::Plain },
            false => proved.clone(),
        };
        // The plain norm is at most the scaled one divided by the smallest scale.
        let least_scale = least.min(1.0);
        let ceilings = proved.constants.iter().map(|rho| rho / least_scale).collect();
        let estimated = constants.all().map(|m| m.source == Source::Estimated).collect();
        let mut centre = x.to_vec();
        units.divide(&mut centre);
        model.begin(&centre, norm, &[search, proved]);
        self.s = Saved {
            units,
            model,
            g: vec![0.0; m],
            y: centre.clone(),
            origin: centre.clone(),
            centre,
            estimated,
            ceilings,
            least_scale,
            stated,
            penalty: self.settings.elastic,
            multipliers: vec![0.0; m],
            upper: f64::INFINITY,
            ..Saved::default()
        };
        self.s.gate = self.s.usual_gate(&self.settings);
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Bundle {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let m = ev.num_constraints();
        if m > MOST_CONSTRAINTS {
            let wanted = format!(
                "at most {MOST_CONSTRAINTS} for bundle, or a method that draws constraints, such as {}",
                SolverName::Dszog
            );
            return Err(Error::setting("number of constraints", m, wanted));
        }
        if ev.in_natural_units() {
            // A proximal coefficient that was given belongs to the plain norm.
            let units = Units::natural(ev, self.settings.adapt && self.settings.mu.is_none());
            return self.begin(ev, x, units);
        }
        // Before anything is evaluated, so that a problem without constants is refused.
        Constants::of(ev, self.settings.rho_f, self.settings.rho_g)?;
        let units = Units::measure(ev, x)?;
        self.begin(ev, x, units)?;
        self.s.start = x.to_vec();
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let f = match self.visit(ev) {
            // Functions need not be defined at test points, which the method itself would not visit.
            Err(Error::NotFinite { .. }) if self.s.trying => return self.tried(ev, None),
            visited => visited?,
        };
        if self.s.trying {
            return self.tried(ev, Some(f));
        }
        let s = &mut self.s;
        if !s.begun {
            s.begun = true;
            s.f = f;
            s.g.copy_from_slice(&self.g);
            self.keep_slopes();
            let s = &mut self.s;
            // A first step of a length that suits most problems.
            let steepest = s.model.steepest(SEARCH);
            s.mu = if steepest > 0.0 { steepest / FIRST_STEP } else { s.stated };
            s.least_mu = 1e-6 * s.mu;
            return Ok(Step { kind: StepKind::Other, finished: self.look(ev)? });
        }
        let (view, mu) = if s.proving { (PROVE, s.stated) } else { (SEARCH, s.mu) };
        let half = 0.5 * s.model.square(view, &s.y);
        let constants = s.model.convexification(view).constants.iter().zip(&s.estimated);
        // An estimate may be far too large for the region of the search.
        let mut constants = constants.map(|(rho, estimated)| if view == SEARCH && *estimated { 0.0 } else { *rho });
        let rho_f = constants.next().unwrap_or(0.0);
        let excess = self.g.iter().zip(constants).fold(0.0_f64, |most, (g, rho)| most.max(g + rho * half));
        let decrease = if s.restoring {
            violation(&s.g) - excess - mu * half
        } else {
            s.f + s.penalty * violation(&s.g) - (f + (rho_f + mu) * half + s.penalty * excess)
        };
        let serious = decrease >= self.settings.kappa * s.predicted && decrease > 0.0;
        if s.proving && decrease > 0.5 * s.predicted {
            s.gate *= 0.7; // the model is right and the centre is not there yet: that is the business of the search
        }
        if !s.proving {
            let ratio = decrease / s.predicted;
            if serious && ratio > 0.3 && s.nulls == 0 {
                s.mu = (0.7 * s.mu).max(s.least_mu.min(s.mu));
            } else if !serious && ratio < -5.0 && s.nulls >= 3 {
                s.mu *= 1.5;
            }
        }
        s.model.limit(view, self.settings.max_cuts);
        if serious {
            self.move_centre(f);
        } else {
            s.nulls += 1;
        }
        let finished = self.look(ev)?;
        Ok(Step { kind: if serious { StepKind::Objective } else { StepKind::Other }, finished })
    }
}
