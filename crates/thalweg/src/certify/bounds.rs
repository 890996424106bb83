//! Near-stationarity with an error bound. The proximal subproblem at a point is solved by cutting planes, whose master problem
//! gives a valid lower bound; strong convexity turns the gap into an interval for the distance. Bounds on rounding errors are
//! part of both ends. Cuts and the master problem are in `crate::cuts`.

use serde::{Deserialize, Serialize};

use super::check_point;
use super::record::{ActiveCut, ProximityRecord, Recorder};
use crate::cuts::constants::{Constants, estimate, too_small, unit_of_curvature};
use crate::cuts::noise::{Local, NEIGHBOURS, Noise, SAFETY, accuracy, opposite_points, size};
use crate::cuts::{Convexification, Master, MasterObjective, Model, Norm, Owner};
use crate::eval::{Evaluator, Point, ValueEval, measure_in_units};
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::{Modulus, Source, Subgradients, Warm};
use crate::{Error, Result};

/// Options of the certificate: subproblem and effort.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Proximal coefficient on f in addition to its weak-convexity constant rho_f. By default rho_f, or whatever raises the sum
    /// to 1, or to [`KnownUnits::curvature`](crate::oracle::KnownUnits::curvature) for a problem that has one.
    pub mu: Option<f64>,
    /// Added to the proximal coefficient rho_j of every constraint. Default 0.
    pub mu_g: f64,
    /// Weak-convexity constant of the objective, if the problem has none or a different one is claimed.
    pub rho_f: Option<f64>,
    /// Weak-convexity constant of every constraint, likewise.
    pub rho_g: Option<f64>,
    /// Stop when the length of the interval is at most this share of its upper end. Default 0.1.
    pub width: f64,
    /// Stop when the upper end is at most this. Default 1e-6.
    pub target: f64,
    /// Maximum number of evaluations. Default 500.
    pub evaluations: u64,
    /// A constraint is satisfied if its value is at most this times its unit, see
    /// [`constraint_units`](crate::eval::constraint_units). Default 1e-6.
    pub feasibility: f64,
    /// Length that distances are compared with, in the units of the constraints. By default the norm of the point.
    pub length: Option<f64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            mu: None,
            mu_g: 0.0,
            rho_f: None,
            rho_g: None,
            width: 0.1,
            target: 1e-6,
            evaluations: 500,
            feasibility: 1e-6,
            length: None,
        }
    }
}

impl Bounds {
    /// Checks that every option is in range.
    pub fn validate(&self) -> Result<()> {
        if let Some(mu) = self.mu.filter(|mu| !(*mu > 0.0 && mu.is_finite())) {
            return Err(Error::setting("mu", mu, "a finite number larger than 0"));
        }
        let numbers = [("mu_g", self.mu_g), ("width", self.width), ("target", self.target), ("feasibility", self.feasibility)];
        let claimed = [("rho_f", self.rho_f), ("rho_g", self.rho_g), ("length", self.length)]
            .into_iter()
            .filter_map(|(n, v)| v.map(|v| (n, v)));
        for (name, value) in numbers.into_iter().chain(claimed) {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number, 0 or larger"));
            }
        }
        Ok(())
    }
}

/// Bounds on the distance of a point x from its proximal point xhat, the solution of `min f(y) + ((rho_f + mu) / 2) ||y - x||^2`
/// over the domain subject to `g_j(y) + ((rho_j + mu_g) / 2) ||y - x||^2 <= relaxed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The point with its measured objective and constraints.
    pub point: Point,
    /// Lower bound on `||xhat - x||`.
    pub lower: f64,
    /// Upper bound on `||xhat - x||`.
    pub upper: f64,
    /// Upper bound on the norm of some subgradient of the Lagrangian with these multipliers, at a point near xhat:
    /// `(rho_f + mu + sum_j multiplier_j (rho_j + mu_g)) * upper`.
    pub residual: f64,
    /// The best point of the subproblem found.
    pub proximal: Vec<f64>,
    /// The largest constraint value of the problem there, signed; minus infinity without constraints.
    pub proximal_violation: f64,
    /// Whether the proximal point satisfies the constraints of the problem within their tolerances.
    #[serde(default)]
    pub proximal_feasible: bool,
    /// The multiplier of each constraint in the subproblem.
    pub multipliers: Vec<f64>,
    /// Absolute value of multiplier times constraint at the proximal point, for each constraint.
    pub complementarity: Vec<f64>,
    /// Relaxation of the subproblem's constraints: 0 at a point that satisfies them strictly, otherwise their rounding errors plus
    /// the violation of a point that is feasible within its tolerance, or, if nothing better was found, the violation of the
    /// proximal point.
    pub relaxed: f64,
    /// Number of evaluations of all functions and their subgradients.
    pub evaluations: u64,
    /// Weak-convexity constant of the objective and its source.
    pub rho_f: Modulus,
    /// Weak-convexity constant of each constraint and its source.
    pub rho_g: Vec<Modulus>,
    /// Additional proximal coefficient of the objective.
    pub mu: f64,
    /// Additional proximal coefficient of every constraint.
    pub mu_g: f64,
    /// Whether the requested precision was reached. Otherwise the evaluation budget ran out, or `upper` is close to `resolution`;
    /// the interval is valid in both cases.
    pub reached: bool,
    /// Smallest upper end that the rounding errors of the function values and of the bounds allow.
    #[serde(default)]
    pub resolution: f64,
}

impl Certificate {
    /// Returns whether the point is feasible and its distance has a finite bound.
    pub fn certified(&self) -> bool {
        self.point.feasible && self.upper.is_finite()
    }

    /// Returns whether some constants are estimated from the visited points. The interval is then likely, but not proved.
    pub fn estimated(&self) -> bool {
        std::iter::once(&self.rho_f).chain(&self.rho_g).any(|rho| rho.source == Source::Estimated)
    }
}

/// Point with an upper bound on its objective in the subproblem.
struct Candidate {
    y: Vec<f64>,
    value: f64,
    /// Distance from the centre, and a bound on its error.
    far: f64,
    far_error: f64,
    /// If `y` lies between two visited points and a record is kept: the share of the second one, and both points.
    between: Option<(f64, [Vec<f64>; 2])>,
}

/// Values of all functions at a point with bounds on their errors.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) y: Vec<f64>,
    pub(super) f: f64,
    pub(super) f_error: f64,
    pub(super) g: Vec<f64>,
    pub(super) g_error: Vec<f64>,
    /// Bounds on the errors of the subgradients that were known at this visit; later bounds on the means of cuts use at least these.
    pub(super) slope_errors: Vec<f64>,
}

/// Certifies near-stationarity of a point.
///
/// Constants whose source is [`Source::Estimated`] are first tested on some dozens of points around it. Each is raised to 1.5
/// times the constant that some pair of points requires, at that stage or later. The search then restarts with the new constants
/// from the visited points.
///
/// ```
/// use thalweg::certify::{Bounds, certify};
/// use thalweg::oracle::Problem;
/// # fn main() -> thalweg::Result<()> {
/// // |x^2 - 1| subject to x <= 0.5. At 0.25 the proximal point with coefficient 4 is 0.5.
/// let problem = Problem::new(1)
///     .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
///     .constraint("cap", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
///     .weak_convexity(2.0, 0.0);
/// let found = certify(&problem, &[0.25], &Bounds { mu: Some(2.0), ..Bounds::default() })?;
/// assert!(found.lower <= 0.25 && 0.25 <= found.upper);
/// # Ok(()) }
/// ```
pub fn certify(problem: &dyn Subgradients, x: &[f64], how: &Bounds) -> Result<Certificate> {
    search(problem, x, how, None).map(|(found, _)| found)
}

/// As [`certify`], with a record of the values, cuts and multipliers that the interval follows from. Fails if more than 400 cuts have
/// a multiplier, some of which are then merged and cannot be traced back to visited points.
pub fn certify_with_record(problem: &dyn Subgradients, x: &[f64], how: &Bounds) -> Result<(Certificate, ProximityRecord)> {
    let (found, record) = search(problem, x, how, Some(Recorder::default()))?;
    Ok((found, record.unwrap_or_default()))
}

fn search(
    problem: &dyn Subgradients,
    x: &[f64],
    how: &Bounds,
    recorder: Option<Recorder>,
) -> Result<(Certificate, Option<ProximityRecord>)> {
    check_point(problem, x)?;
    how.validate()?;
    let outside = problem.domain().distance(x)?;
    if outside.is_nan() || outside > 1e-9 * (1.0 + vec::norm(x)) {
        let domain = problem.domain().describe();
        return Err(Error::Problem(format!("the point is {outside:.3e} outside the domain ({domain}); expected one inside")));
    }
    let length = how.length.unwrap_or_else(|| vec::norm(x));
    let point = measure_in_units(problem, x, how.feasibility, length)?;
    let mut ev = Evaluator::new(problem, 0, how.feasibility);
    let constants = Constants::of(&ev, how.rho_f, how.rho_g)?;
    let mut search = Search {
        model: Model::default(),
        convexification: Convexification::default(),
        mu: 0.0,
        unit: unit_of_curvature(&ev),
        seen: vec![],
        level: 0.0,
        centre: x,
        feasible: point.feasible,
        f: point.objective,
        f_error: 0.0,
        lower: f64::NEG_INFINITY,
        error: 0.0,
        multipliers: vec![0.0; ev.num_constraints()],
        best: None,
        nearest: None,
        inner: vec![],
        evaluations: 0,
        constants,
        how,
        recorder,
    };
    search.pose();
    // The second convexification uses the constants themselves; every pair of points is checked against it.
    search.model.begin(x, Norm::Plain, &[search.convexification.clone(), search.constants.convexification()]);
    search.visit_centre(&mut ev)?;
    if search.constants.estimated() {
        search.probe(&mut ev)?;
    }
    search.check_slopes(&mut ev)?;
    let mut interval = search.close(&mut ev)?;
    // A constant that is too small may satisfy every cut and still fail between or beyond the visited points.
    while search.check_segment(&mut ev)? {
        interval = search.close(&mut ev)?;
    }
    search.report(&mut ev, point, interval)
}

/// Relative error of a sum or product of a few numbers, more than four roundings.
const SUM: f64 = 4.0 * f64::EPSILON;
/// Excess of the constraints' cuts over their level that counts as rounding, and the largest penalty that it is reduced with.
const EXCESS: f64 = 1e-12;
const MOST: f64 = 1e10;
/// Number of evaluations after which the search ends if the cuts themselves leave an excess: more cuts cannot reduce it.
const PATIENCE: u32 = 20;
/// Maximum number of cuts stored.
const LIMIT: usize = 400;
/// Maximum number of strictly feasible points stored.
const INNER: usize = 8;

/// Distances of the points that estimated constants are tested on, times 1 + the largest entry of the point.
const RADII: [f64; 4] = [1e-3, 1e-2, 0.1, 0.5];
/// Number of random directions at each distance, in addition to those of the subgradients; each is used with its opposite.
const DIRECTIONS: usize = 4;
/// Maximum share of the evaluations spent on testing constants.
const TRIED: f64 = 0.25;
/// Test points on the line through the centre and the proximal point, as shares of the way: between them, beyond the proximal
/// point, and on the other side.
const SHARES: [f64; 7] = [0.25, 0.5, 0.75, 1.5, 2.0, -1.0, -2.0];
/// Number of these that lie between.
const BETWEEN: usize = 3;
/// Test points on the line through the centre and the point of a cut, likewise, and the number of cuts.
const CUT_SHARES: [f64; 2] = [2.0, -1.0];
const CUTS: usize = 4;
/// Smallest number of evaluations for which errors are measured.
const ENOUGH: u64 = 8;

struct Search<'x> {
    how: &'x Bounds,
    constants: Constants,
    model: Model,
    /// Visited points, if constants are estimated.
    seen: Vec<Visit>,
    convexification: Convexification,
    mu: f64,
    /// Unit of proximal coefficients.
    unit: f64,
    /// Right-hand side of the subproblem's constraints.
    level: f64,
    centre: &'x [f64],
    /// Whether the centre satisfies the constraints at that level.
    feasible: bool,
    f: f64,
    /// Bound on the error of `f`.
    f_error: f64,
    /// Lower bound on the optimum of the subproblem, relative to `f`, and the amount by which rounding lowers it.
    lower: f64,
    error: f64,
    multipliers: Vec<f64>,
    /// The feasible point of the subproblem with the smallest objective found.
    best: Option<Candidate>,
    /// The visited point with the smallest violation of the subproblem's constraints, that violation, and its objective relative
    /// to `f`.
    nearest: Option<(Candidate, f64)>,
    /// Points that satisfy the subproblem's constraints strictly: point, objective relative to `f`, largest constraint value.
    inner: Vec<(Vec<f64>, f64, f64)>,
    evaluations: u64,
    recorder: Option<Recorder>,
}

impl Search<'_> {
    /// Sets up the subproblem with the current constants.
    fn pose(&mut self) {
        self.convexification = self.constants.convexification();
        self.convexification.constants[1..].iter_mut().for_each(|rho| *rho += self.how.mu_g);
        self.mu = self.how.mu.unwrap_or_else(|| self.constants.usual_mu(self.unit));
    }

    /// Raises an estimated constant. This changes the subproblem, so everything except cuts and visited points is discarded.
    fn raise(&mut self, owner: Owner, needed: f64) -> bool {
        let rho = estimate(needed);
        match self.constants.of_owner(owner) {
            Some(modulus) if rho > modulus.value => modulus.value = rho,
            _ => return false,
        }
        self.pose();
        self.model.set_constant(0, owner, self.convexification.constant(owner));
        self.model.set_constant(1, owner, rho);
        true
    }

    /// Restarts from the visited points.
    fn begin_anew(&mut self) {
        self.lower = f64::NEG_INFINITY;
        self.multipliers.fill(0.0);
        (self.best, self.nearest) = (None, None);
        self.inner.clear();
        let seen = std::mem::take(&mut self.seen);
        seen.iter().for_each(|visit| self.judge(visit));
        self.seen = seen;
    }

    /// Tests the constants on points around the centre: along the subgradients there and in random directions with a fixed seed.
    fn probe<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>) -> Result<()> {
        let room = (LIMIT / (1 + self.multipliers.len())).max(9);
        let most = ((TRIED * self.how.evaluations as f64) as u64).min(room as u64);
        if most == 0 {
            return Ok(());
        }
        let centre = self.centre;
        let mut rng = Rng::new(0, Purpose::Directions);
        let unit = 1.0 + centre.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let (mut slopes, mut warm) = (self.model.subgradients().map(<[f64]>::to_vec).collect::<Vec<_>>(), Warm::default());
        slopes.truncate(DIRECTIONS);
        for radius in RADII.map(|radius| radius * unit) {
            let drawn = (0..DIRECTIONS).map(|_| centre.iter().map(|_| 2.0 * rng.uniform() - 1.0).collect()).collect::<Vec<_>>();
            for direction in slopes.iter().chain(&drawn) {
                let length = vec::norm(direction);
                for step in [-radius / length, radius / length].into_iter().filter(|step| step.is_finite()) {
                    let mut y = centre.to_vec();
                    vec::add_scaled(&mut y, step, direction);
                    ev.domain().project(&mut y, &mut warm)?;
                    if vec::distance(&y, centre) < 0.1 * radius {
                        continue; // outside the domain
                    }
                    if self.evaluations >= most {
                        return Ok(());
                    }
                    match self.visit(ev, &y) {
                        // Some functions are not defined everywhere, and this point is only a test.
                        Err(Error::NotFinite { .. }) => self.evaluations += 1,
                        visited => drop(visited?),
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures the errors of the functions at the centre and adds its cuts. Sets the right-hand side of the constraints, at least
    /// the violation of a feasible centre and, if no point may satisfy them strictly, their errors.
    fn visit_centre<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>) -> Result<()> {
        let centre = self.centre;
        let here = Local::at(ev, centre)?;
        self.evaluations += 1;
        if self.how.evaluations >= ENOUGH {
            for ((owner, ..), noise) in here.parts().zip(here.noise(ev, centre)?) {
                self.model.raise_noise(owner, noise);
            }
            self.evaluations += NEIGHBOURS;
        }
        self.raise_errors(ev, centre, &here);
        let visit = self.with_errors(centre, &here);
        self.f_error = visit.f_error;
        let unit = SAFETY * visit.g_error.iter().fold(0.0, |most: f64, e| most.max(*e));
        let largest = here.g.iter().fold(f64::NEG_INFINITY, |most: f64, g| most.max(*g));
        // Without a strictly feasible centre, the only candidates may be points at which a constraint is active.
        self.level = if self.feasible { (largest + unit).max(0.0) } else { unit };
        self.absorb(ev, visit, &here).map(drop)
    }

    /// Takes over the bounds on rounding errors that the problem states.
    fn raise_errors<P: Subgradients + ?Sized>(&mut self, ev: &Evaluator<'_, P>, y: &[f64], there: &Local) {
        let values: Vec<f64> = there.parts().map(|(_, value, _)| value).collect();
        for ((owner, ..), stated) in there.parts().zip(ev.problem().rounding(y, &values)) {
            self.model.raise_noise(owner, Noise { value: stated.value, slope: stated.slope });
        }
    }

    /// Returns the values at a point with bounds on their errors.
    fn with_errors(&self, y: &[f64], there: &Local) -> Visit {
        let error = |owner, value: f64, row: &[f64]| self.model.noise(owner).value + accuracy(y.len()) * size(value, y, row);
        let mut errors = there.parts().map(|(owner, value, row)| error(owner, value, row));
        let f_error = errors.next().unwrap_or(0.0);
        let tilt = |(owner, _, row): (Owner, f64, &[f64])| self.model.noise(owner).slope + accuracy(y.len()) * vec::norm(row);
        let slope_errors = there.parts().map(tilt).collect();
        Visit { y: y.to_vec(), f: there.f, f_error, g: there.g.clone(), g_error: errors.collect(), slope_errors }
    }

    /// Visits points until the interval is as short as requested, rounding allows no shorter one, or the evaluations are spent.
    fn close<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>) -> Result<(f64, f64, bool)> {
        let how = self.how;
        let (mut y, mut penalty, mut conflicts) = (self.centre.to_vec(), 10.0, 0);
        loop {
            let master = self.master(ev, &mut penalty, &mut y)?;
            conflicts += u32::from(self.best.is_none() && master.excess > EXCESS);
            let rounding = self.rounding_of(&master);
            if master.lower - rounding > self.lower {
                (self.lower, self.error) = (master.lower - rounding, master.error + rounding);
                self.model.multipliers(0, &mut self.multipliers);
                if let Some(recorder) = &mut self.recorder {
                    recorder.cuts = self.model.active(0).map(ActiveCut::from).collect();
                }
            }
            let interval = self.interval();
            let (lower, upper, _) = interval;
            let precise = upper <= how.target || upper - lower <= how.width * upper;
            if precise || self.is_rounding() || self.evaluations >= how.evaluations || conflicts >= PATIENCE {
                return Ok(interval);
            }
            self.model.limit(0, LIMIT);
            if self.visit(ev, &y)? {
                penalty = 10.0;
            }
        }
    }

    /// Compares the subgradients at the centre with values near it.
    fn check_slopes<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>) -> Result<()> {
        if self.how.evaluations < ENOUGH {
            return Ok(());
        }
        opposite_points(self.centre).into_iter().try_for_each(|y| self.visit_test(ev, y).map(drop))
    }

    /// Checks the constants on the way from the centre to the proximal point and beyond, in both directions, and on the lines through
    /// the points of the first cuts, which lead far away. Returns whether an estimated one was raised.
    fn check_segment<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>) -> Result<bool> {
        let proximal = match (&self.best, &self.nearest) {
            (Some(best), _) => &best.y,
            (None, Some((nearest, _))) => &nearest.y,
            (None, None) => return Ok(false),
        };
        let on_line =
            |to: &[f64], share: f64| -> Vec<f64> { self.centre.iter().zip(to).map(|(c, y)| c + share * (y - c)).collect() };
        // Estimated constants were tested far away, and rise to any size at a concave kink.
        let (estimated, shares) = (self.constants.estimated(), &SHARES);
        let shares = if estimated { &shares[..BETWEEN] } else { shares };
        let mut points: Vec<Vec<f64>> = shares.iter().map(|&share| on_line(proximal, share)).collect();
        // On a line, the points of cuts would repeat the ones above.
        if self.centre.len() > 1 && !estimated {
            for visited in self.model.cut_points(Owner::Objective).take(CUTS) {
                points.extend(CUT_SHARES.iter().map(|&share| on_line(&visited, share)));
            }
        }
        let apart = vec::distance(proximal, self.centre) > 1e-9 * vec::norm(self.centre);
        if !apart || self.how.evaluations < ENOUGH || self.evaluations >= self.how.evaluations {
            return Ok(false);
        }
        for y in points {
            if self.evaluations >= self.how.evaluations {
                break;
            }
            if self.visit_test(ev, y)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the values at a test point, projected onto the domain, with the cuts. Adds none, because cuts close to each other are
    /// nearly dependent. Returns whether constants had to be raised.
    fn visit_test<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>, mut y: Vec<f64>) -> Result<bool> {
        ev.domain().project(&mut y, &mut Warm::default())?;
        self.evaluations += 1;
        let there = match Local::at(ev, &y) {
            // Some functions are not defined everywhere, and this point is only a test.
            Err(Error::NotFinite { .. }) => return Ok(false),
            there => there?,
        };
        let mut raised = false;
        for (owner, value, row) in there.parts() {
            raised |= self.check_constant(ev, owner, &y, value, row)?;
        }
        if raised {
            self.begin_anew();
        }
        Ok(raised)
    }

    /// Compares a value and a subgradient with the cuts. Raises an estimated constant that they contradict, and returns whether it did.
    fn check_constant<P: Subgradients + ?Sized>(
        &mut self,
        ev: &Evaluator<'_, P>,
        owner: Owner,
        y: &[f64],
        value: f64,
        row: &[f64],
    ) -> Result<bool> {
        let Some(pair) = self.model.contradiction(1, owner, y, value, row) else { return Ok(false) };
        match self.constants.of_owner(owner) {
            Some(modulus) if modulus.source == Source::Estimated => Ok(self.raise(owner, pair.needed)),
            _ => Err(Error::Problem(too_small(&pair, |j| ev.constraint_name(j as usize).into_owned()))),
        }
    }

    /// Evaluates all functions at `y` and adds the cuts. Returns whether constants had to be raised.
    fn visit<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>, y: &[f64]) -> Result<bool> {
        let there = Local::at(ev, y)?;
        self.evaluations += 1;
        self.raise_errors(ev, y, &there);
        let visit = self.with_errors(y, &there);
        self.absorb(ev, visit, &there)
    }

    fn absorb<P: Subgradients + ?Sized>(&mut self, ev: &Evaluator<'_, P>, visit: Visit, there: &Local) -> Result<bool> {
        let y = visit.y.as_slice();
        let mut raised = false;
        if let Some(recorder) = &mut self.recorder {
            recorder.visits.push((visit.clone(), there.clone()));
        }
        for (owner, value, row) in there.parts() {
            raised |= self.check_constant(ev, owner, y, value, row)?;
            self.model.add(owner, y, (value, value), row);
        }
        if self.constants.estimated() {
            self.seen.push(visit.clone());
        }
        if raised {
            self.begin_anew();
        } else {
            self.judge(&visit);
        }
        Ok(raised)
    }

    /// Updates the best, nearest and strictly feasible points with a visited point. Values include their errors and the rounding of
    /// these sums.
    fn judge(&mut self, visit: &Visit) {
        let y = &visit.y;
        let step: Vec<f64> = y.iter().zip(self.centre).map(|(y, c)| y - c).collect();
        let far = vec::norm(&step);
        let half = 0.5 * far * far * (1.0 + 4.0 * accuracy(y.len()));
        let (difference, curved) = (visit.f - self.f, (self.convexification.constants[0] + self.mu) * half);
        let value = difference + visit.f_error + curved + SUM * (difference.abs() + visit.f_error + curved);
        let largest = visit.g.iter().zip(&visit.g_error).zip(&self.convexification.constants[1..]);
        let largest = largest.map(|((g, error), rho)| {
            let curved = rho * half;
            g + error + curved - self.level + SUM * (g.abs() + error + curved + self.level)
        });
        let largest = largest.fold(f64::NEG_INFINITY, f64::max);
        let candidate = || Candidate { y: y.clone(), value, far, far_error: 2.0 * accuracy(y.len()) * far, between: None };
        if largest <= 0.0 {
            self.offer(candidate());
        } else if self.nearest.as_ref().is_none_or(|(_, least)| largest < *least) {
            self.nearest = Some((candidate(), largest));
        }
        if largest < 0.0 {
            if self.inner.len() == INNER {
                self.inner.remove(0);
            }
            self.inner.push((y.clone(), value, largest));
        } else if largest > 0.0 {
            // The constraints and the objective of the subproblem are convex on the segment from y to an inner point: the
            // constraints are satisfied at this share of it, and the objective is at most its interpolation.
            for k in 0..self.inner.len() {
                let (inside, inner_value, deep) = &self.inner[k];
                let share = (largest / (largest - deep) * (1.0 + 4.0 * f64::EPSILON)).min(1.0);
                let mixed = y.iter().zip(inside).map(|(y, z)| (1.0 - share) * y + share * z).collect();
                let size = (1.0 - share) * value.abs() + share * inner_value.abs();
                let value = (1.0 - share) * value + share * inner_value + SUM * size;
                // The steps from the centre are more accurate than the mean of the points.
                let inward: Vec<f64> = inside.iter().zip(self.centre).map(|(z, c)| z - c).collect();
                let mean: Vec<f64> = step.iter().zip(&inward).map(|(d, e)| (1.0 - share) * d + share * e).collect();
                let far_error = 2.0 * accuracy(y.len()) * (far + vec::norm(&inward));
                let between = self.recorder.is_some().then(|| (share, [y.clone(), inside.clone()]));
                self.offer(Candidate { y: mixed, value, far: vec::norm(&mean), far_error, between });
            }
        }
    }

    fn offer(&mut self, candidate: Candidate) {
        if self.best.as_ref().is_none_or(|best| candidate.value < best.value) {
            self.best = Some(candidate);
        }
    }

    /// Solves the master problem with a penalty that is large enough, if possible.
    fn master<E: ValueEval>(&mut self, ev: &E, penalty: &mut f64, y: &mut [f64]) -> Result<Master> {
        loop {
            let aim = MasterObjective { mu: self.mu, penalty: *penalty, level: self.level, feasibility: false };
            let master = self.model.solve_in(0, ev.domain(), aim, self.f, y)?;
            if master.excess <= EXCESS || *penalty >= MOST {
                return Ok(master);
            }
            *penalty *= 4.0;
        }
    }

    /// Bounds what the arithmetic of the master program, and of the cuts themselves, adds to the errors of their values and slopes.
    fn rounding_of(&self, master: &Master) -> f64 {
        let (dim, curved) = (self.centre.len(), master.slope * master.slope / self.mu);
        // The height of a cut is a sum of as many products as there are variables, and errors of sums grow like the root.
        let sums = (2.0 + (dim as f64).sqrt()) * f64::EPSILON * self.model.mean_size(0);
        sums + 4.0 * accuracy(dim) * curved + 16.0 * f64::EPSILON * (master.linear.abs() + master.lower.abs())
    }

    /// Returns the smallest upper end that rounding allows.
    fn resolution(&self) -> f64 {
        (2.0 * (self.f_error + self.error) / self.mu).sqrt().max(f64::MIN_POSITIVE)
    }

    /// Returns whether more evaluations would change nothing but rounding errors.
    fn is_rounding(&self) -> bool {
        let gap = self.best.as_ref().map(|best| best.value - self.lower);
        gap.is_some_and(|gap| gap <= 4.0 * (self.f_error + self.error))
    }

    /// Returns bounds on the distance, and whether the constraints had to be relaxed for them.
    fn interval(&self) -> (f64, f64, bool) {
        let around = |value: f64, (far, far_error): (f64, f64), lower: f64| {
            let radius = (2.0 * (value - lower).max(0.0) / self.mu).sqrt();
            let rounding = far_error + SUM * (far + radius) + f64::MIN_POSITIVE;
            ((far - radius - rounding).max(0.0), far + radius + rounding)
        };
        match (&self.best, &self.nearest) {
            (Some(best), _) => {
                let (mut low, mut high) = around(best.value, (best.far, best.far_error), self.lower);
                // The centre is a feasible point too, if it satisfies the constraints.
                if self.feasible {
                    let (low_too, high_too) = around(self.f_error, (0.0, 0.0), self.lower);
                    (low, high) = (low.max(low_too), high.min(high_too));
                }
                (low.min(high), high, false)
            }
            (None, Some((nearest, excess))) => {
                // The right-hand side is rounded upwards in the report.
                let price: f64 = self.multipliers.iter().sum();
                let relaxed = self.lower - price * (excess + SUM * (excess + self.level));
                let (low, high) = around(nearest.value, (nearest.far, nearest.far_error), relaxed - SUM * relaxed.abs());
                (low, high, true)
            }
            (None, None) => (0.0, f64::INFINITY, false),
        }
    }

    fn report<P: Subgradients + ?Sized>(
        self,
        ev: &mut Evaluator<'_, P>,
        point: Point,
        (lower, upper, relaxed): (f64, f64, bool),
    ) -> Result<(Certificate, Option<ProximityRecord>)> {
        let (how, resolution) = (self.how, self.resolution());
        let (proximal, between, more) = match (self.best, self.nearest) {
            (Some(best), _) => (best.y, best.between, 0.0),
            (None, Some((nearest, excess))) => (nearest.y, nearest.between, excess),
            (None, None) => (self.centre.to_vec(), None, 0.0),
        };
        let record = self.recorder.map(|r| r.finish(self.centre, &proximal, between, ev.domain()));
        let record = record.transpose()?;
        let length = how.length.unwrap_or_else(|| vec::norm(self.centre));
        let there = measure_in_units(ev.problem(), &proximal, how.feasibility, length)?;
        let pull = self.multipliers.iter().zip(&self.convexification.constants[1..]).map(|(l, rho)| l * rho).sum::<f64>();
        let certificate = Certificate {
            lower,
            upper,
            residual: (self.convexification.constants[0] + self.mu + pull) * upper,
            proximal_violation: there.violation,
            proximal_feasible: there.feasible,
            complementarity: self.multipliers.iter().zip(&there.constraints).map(|(l, g)| (l * g.value).abs()).collect(),
            proximal,
            multipliers: self.multipliers,
            relaxed: if relaxed { (self.level + more) * (1.0 + f64::EPSILON) } else { self.level },
            evaluations: self.evaluations,
            rho_f: self.constants.objective,
            rho_g: self.constants.constraints,
            mu: self.mu,
            mu_g: how.mu_g,
            reached: upper <= how.target || upper - lower <= how.width * upper,
            resolution,
            point,
        };
        Ok((certificate, record))
    }
}
