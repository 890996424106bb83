//! Proof that constraints conflict: no point near a given one, or of the whole domain, satisfies all of them. Near-stationarity is in
//! `bounds.rs`.

use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Visit};
use super::record::{ActiveCut, DomainRecord, ProximityRecord, Recorder};
use super::{check_point, infeasible_radius};
use crate::cuts::constants::too_small;
use crate::cuts::noise::{Local, Noise, accuracy, size};
use crate::cuts::{Convexification, Master, MasterObjective, Model, Norm};
use crate::eval::{Evaluator, ValueEval, measure_in_units};
use crate::math::vec;
use crate::oracle::{Modulus, Source, Subgradients};
use crate::{Error, Result};

/// Proof that no point within `radius` of a point satisfies every constraint within its tolerance.
///
/// With cuts of the constraints, weights that sum to 1 and the weighted means H of their heights, P of their slopes, R of the
/// weak-convexity constants and t of the tolerances, a point y at the distance r satisfies `max_j (g_j(y) - t_j) >= H - t - ||P|| r - R/2
/// r^2`. The radius is where that is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// Distance within which no point satisfies all constraints; `None` for the whole domain, which is then bounded.
    pub radius: Option<f64>,
    /// Tolerance of each constraint.
    pub tolerances: Vec<f64>,
    /// Weight of each constraint.
    pub multipliers: Vec<f64>,
    /// The conflicting constraints, by index from 0.
    pub conflicting: Vec<u32>,
    /// Weak-convexity constant of each constraint and its source.
    pub rho_g: Vec<Modulus>,
    /// Number of evaluations of all functions and their subgradients.
    pub evaluations: u64,
}

/// The search ends if this many visits in a row raise the radius by less than this share.
const PATIENCE: u32 = 8;
const RAISE: f64 = 0.1;
/// Factor of the proximal coefficient after each visit: small coefficients let cuts far away balance each other.
const SHRINK: f64 = 0.5;
/// Smallest coefficient relative to the first one.
const LEAST: f64 = 1e-14;
/// Maximum number of cuts for each constraint. Cuts are never merged, so that all can be recorded.
const CUTS: usize = 200;
/// Relative amount by which the radius is reduced for the rounding of its formula.
const SHORTER: f64 = 1e-12;

/// Searches for a proof that no point near `x`, or of the domain, satisfies all constraints, with at most `how.evaluations`
/// evaluations, and records what it follows from. `None` if there is no proof: a feasible point was found, no weighted mean of cuts is
/// flat, a constraint has no proved or claimed weak-convexity constant, or the evaluations were spent.
///
/// ```
/// use thalweg::certify::{Bounds, certify_conflict};
/// use thalweg::oracle::Problem;
/// # fn main() -> thalweg::Result<()> {
/// // x <= -1 and x >= 1.
/// let problem = Problem::new(1)
///     .constraint("low", |x| x[0] + 1.0, |_, s| s[0] = 1.0)
///     .constraint("high", |x| 1.0 - x[0], |_, s| s[0] = -1.0)
///     .weak_convexity(0.0, 0.0);
/// let (found, _) = certify_conflict(&problem, &[0.2], &Bounds::default())?.expect("the constraints conflict");
/// assert!(found.radius.is_some_and(|radius| radius > 1e6));
/// # Ok(()) }
/// ```
pub fn certify_conflict(problem: &dyn Subgradients, x: &[f64], how: &Bounds) -> Result<Option<(Conflict, ProximityRecord)>> {
    check_point(problem, x)?;
    how.validate()?;
    let mut ev = Evaluator::new(problem, 0, how.feasibility);
    let Some(rho_g) = constants(&ev, how) else { return Ok(None) };
    let outside = problem.domain().distance(x)?;
    if rho_g.is_empty() || outside.is_nan() || outside > 1e-9 * (1.0 + vec::norm(x)) {
        return Ok(None);
    }
    let point = measure_in_units(problem, x, how.feasibility, how.length.unwrap_or_else(|| vec::norm(x)))?;
    if point.feasible {
        return Ok(None);
    }
    let mut tolerances: Vec<f64> = (0..rho_g.len()).map(|j| ev.tolerance(j)).collect();
    point.constraints.iter().for_each(|c| tolerances[c.index] = c.tolerance);
    let reach = reach(&DomainRecord::of(problem.domain(), x.len()), x);
    let convexification =
        Convexification { constants: std::iter::once(0.0).chain(rho_g.iter().map(|rho| rho.value)).collect(), scaled: false };
    let mut model = Model::default();
    model.begin(x, Norm::Plain, &[convexification]);
    let mut search =
        Search { centre: x, rho_g, tolerances, reach, model, recorder: Recorder::default(), best: None, evaluations: 0 };
    search.run(&mut ev, how)?;
    let Some(best) = search.best.take() else { return Ok(None) };
    let Search { mut recorder, rho_g, tolerances, evaluations, .. } = search;
    recorder.cuts = best.cuts;
    let mut record = recorder.finish(x, x, None, problem.domain())?;
    record.upper.clear();
    let conflicting = (0..best.multipliers.len() as u32).filter(|&j| best.multipliers[j as usize] > 1e-6).collect();
    let radius = (best.radius < reach).then_some(best.radius);
    let found = Conflict { radius, tolerances, multipliers: best.multipliers, conflicting, rho_g, evaluations };
    Ok(Some((found, record)))
}

/// The constants of the constraints; `None` if one is not known.
fn constants<E: ValueEval + ?Sized>(ev: &E, how: &Bounds) -> Option<Vec<Modulus>> {
    let claimed = how.rho_g.map(|value| Modulus { value, source: Source::Claimed });
    let known = |j| claimed.or(ev.constraint_modulus(j)).filter(|rho| rho.source != Source::Estimated);
    (0..ev.num_constraints()).map(known).collect()
}

/// Upper bound on the distance of the points of a domain from a point.
fn reach(domain: &DomainRecord, x: &[f64]) -> f64 {
    let up = 1.0 + 4.0 * accuracy(x.len());
    match domain {
        DomainRecord::Whole | DomainRecord::Other { .. } => f64::INFINITY,
        DomainRecord::Ball { radius } => up * (radius + vec::norm(x)),
        DomainRecord::Box { low, high } => {
            let side = |k: usize| Some(f64::max((low[k]? - x[k]).abs(), (high[k]? - x[k]).abs()));
            let sides: Option<Vec<f64>> = (0..x.len()).map(side).collect();
            sides.map_or(f64::INFINITY, |sides| up * vec::norm(&sides))
        }
    }
}

/// The largest radius so far, and what it follows from.
struct Best {
    radius: f64,
    multipliers: Vec<f64>,
    cuts: Vec<ActiveCut>,
}

struct Search<'x> {
    centre: &'x [f64],
    rho_g: Vec<Modulus>,
    tolerances: Vec<f64>,
    /// Distance beyond which a radius covers the domain.
    reach: f64,
    model: Model,
    recorder: Recorder,
    best: Option<Best>,
    evaluations: u64,
}

impl Search<'_> {
    /// Minimises the largest constraint around the centre, with smaller and smaller proximal coefficients.
    fn run<P: Subgradients + ?Sized>(&mut self, ev: &mut Evaluator<'_, P>, how: &Bounds) -> Result<()> {
        let here = Local::at(ev, self.centre)?;
        self.evaluations = 1 + crate::cuts::noise::NEIGHBOURS;
        for ((owner, ..), noise) in here.parts().zip(here.noise(ev, self.centre)?) {
            self.model.raise_noise(owner, noise);
        }
        if !self.absorb(ev, self.centre, &here)? {
            return Ok(());
        }
        let over = here.g.iter().fold(0.0, |most: f64, g| most.max(*g));
        let steepest = self.model.steepest_constraint(0);
        let first = if steepest > 0.0 { steepest * steepest / over } else { 1.0 };
        let (mut mu, mut y) = (first, self.centre.to_vec());
        let mut idle = 0;
        loop {
            let objective = MasterObjective { mu, penalty: 0.0, level: 0.0, feasibility: true };
            let master = self.model.solve_in(0, ev.domain(), objective, over, &mut y)?;
            let before = self.radius();
            self.consider(over, &master);
            idle = if before == 0.0 || self.radius() > (1.0 + RAISE) * before { 0 } else { idle + 1 };
            let full = self.evaluations >= how.evaluations || self.recorder.visits.len() >= CUTS;
            if full || idle >= PATIENCE || self.radius() >= self.reach {
                return Ok(());
            }
            self.evaluations += 1;
            let there = match Local::at(ev, &y) {
                // Functions that are not defined everywhere are minimised closer to the centre.
                Err(Error::NotFinite { .. }) => {
                    mu /= SHRINK * SHRINK;
                    continue;
                }
                there => there?,
            };
            if !self.absorb(ev, &y, &there)? {
                // What was proved up to there holds, but the constraints do not conflict.
                self.best = None;
                return Ok(());
            }
            mu = f64::max(mu * SHRINK, LEAST * first);
        }
    }

    /// Adds the cuts of the constraints at a point. Returns false if all constraints are satisfied there.
    fn absorb<P: Subgradients + ?Sized>(&mut self, ev: &Evaluator<'_, P>, y: &[f64], there: &Local) -> Result<bool> {
        if there.g.iter().zip(&self.tolerances).all(|(g, tolerance)| g <= tolerance) {
            return Ok(false);
        }
        let values: Vec<f64> = there.parts().map(|(_, value, _)| value).collect();
        for ((owner, ..), stated) in there.parts().zip(ev.problem().rounding(y, &values)) {
            self.model.raise_noise(owner, Noise { value: stated.value, slope: stated.slope });
        }
        let error = |owner, value: f64, row: &[f64]| self.model.noise(owner).value + accuracy(y.len()) * size(value, y, row);
        let mut errors = there.parts().map(|(owner, value, row)| error(owner, value, row));
        let f_error = errors.next().unwrap_or(0.0);
        let slope_errors =
            there.parts().map(|(owner, _, row)| self.model.noise(owner).slope + accuracy(y.len()) * vec::norm(row)).collect();
        let visit = Visit { y: y.to_vec(), f: there.f, f_error, g: there.g.clone(), g_error: errors.collect(), slope_errors };
        self.recorder.visits.push((visit, there.clone()));
        for (owner, value, row) in there.parts().skip(1) {
            if let Some(pair) = self.model.contradiction(0, owner, y, value, row) {
                return Err(Error::Problem(too_small(&pair, |j| ev.constraint_name(j as usize).into_owned())));
            }
            self.model.add(owner, y, (value, value), row);
        }
        Ok(true)
    }

    /// The largest radius so far.
    fn radius(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |best| best.radius)
    }

    /// Computes the radius that the last master program proves.
    fn consider(&mut self, over: f64, master: &Master) {
        let mut multipliers = vec![0.0; self.rho_g.len()];
        self.model.multipliers(0, &mut multipliers);
        let mean = |of: &dyn Fn(usize) -> f64| (0..multipliers.len()).map(|j| multipliers[j] * of(j)).sum::<f64>();
        let (tolerance, rho) = (mean(&|j| self.tolerances[j]), mean(&|j| self.rho_g[j].value));
        let (dim, up) = (self.centre.len(), 1.0 + 4.0 * accuracy(self.centre.len()));
        let sums = (2.0 + (dim as f64).sqrt()) * f64::EPSILON * self.model.mean_size(0);
        let rounding = sums + 16.0 * f64::EPSILON * (over + master.linear.abs() + tolerance);
        let level = over + master.linear - tolerance - rounding;
        let radius = (1.0 - SHORTER) * infeasible_radius(level, up * master.slope, up * rho);
        if radius.is_finite() && radius > self.radius() {
            let cuts = self.model.active(0).map(ActiveCut::from).collect();
            self.best = Some(Best { radius, multipliers, cuts });
        }
    }
}
