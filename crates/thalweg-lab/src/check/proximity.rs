//! Does the interval for the distance from the proximal point follow from the recorded values, cuts and multipliers?
//!
//! The sum of cuts times multipliers bounds the subproblem from below by `m = H - ||P||^2 / (2 mu)`; a feasible point y bounds it from
//! above by U; and strong convexity puts the proximal point within `sqrt(2 (U - m) / mu)` of y.

use super::cuts::{Stated, add, check_functions, check_inside, difference, dot, sum, validate, vector};
use super::format::{Domain, Proximity};
use super::model::{Prepared, Rowwise};
use super::number::Dyadic;

/// Difference between the sum of the objective's multipliers and 1 that is made up for by changing the first one.
const SUM: f64 = 1e-12;

/// Interval that follows from the record.
pub struct Derived {
    pub lower: f64,
    pub upper: f64,
    /// Largest value of a constraint at the point.
    pub violation: f64,
    /// Functions whose values and subgradients are recomputed from the rows.
    pub recomputed: usize,
    pub functions: usize,
    pub cuts: usize,
    /// Whether every constant follows from the form of the functions.
    pub constants_follow: bool,
    /// Description of a domain that is not checked.
    pub assumed_domain: Option<String>,
    /// What contradicts the claim.
    pub refusals: Vec<String>,
}

/// Derives the interval, and lists what contradicts the claim. An error means that the file is damaged.
pub fn check(p: &Proximity, rowwise: Option<&Rowwise>, functions: &[Option<&Prepared>]) -> Result<Derived, String> {
    validate(&p.record, &p.point, 1 + p.rho_g.len())?;
    let numbers = p.mu > 0.0 && p.mu_g >= 0.0 && p.relaxed >= 0.0 && p.lower >= 0.0;
    if !numbers || p.rho_f.value < 0.0 || p.rho_g.iter().any(|c| c.value < 0.0) {
        return Err("a constant, a coefficient or an end of the interval is negative".into());
    }
    let (r, centre) = (&p.record, vector(&p.point));
    let mut refusals = vec![];
    if vector(&r.visits[0].point) != centre {
        refusals.push("the first recorded point is not the certified one".into());
    }
    let mut constants: Vec<Dyadic> = std::iter::once(&p.rho_f).chain(&p.rho_g).map(|c| c.value.into()).collect();
    constants[1..].iter_mut().for_each(|rho| *rho = &*rho + &p.mu_g.into());
    let stated = Stated {
        record: r,
        dim: centre.len(),
        constants: std::iter::once(&p.rho_f).chain(&p.rho_g).map(Some).collect(),
        bounding: std::iter::once(0).chain(r.upper.iter().map(|(_, visit)| *visit)).collect(),
    };
    let recomputed = check_functions(&stated, rowwise, functions, &mut refusals)?;

    // The sum of the cuts: H + <P, y - c>, with the errors of both.
    let mut weights: Vec<Dyadic> = r.cuts.iter().map(|c| c.weight.into()).collect();
    match r.cuts.iter().position(|c| c.function == 0) {
        None => refusals.push("there is no cut of the objective".into()),
        Some(first) => {
            // Multipliers of the objective sum to 1, up to rounding.
            let total: Dyadic = r.cuts.iter().filter(|c| c.function == 0).map(|c| c.weight.into()).sum();
            let missing = &Dyadic::from(1.0) - &total;
            weights[first] = (&weights[first] + &missing).max(Dyadic::zero());
            if missing.abs() > SUM.into() || weights[first] == Dyadic::zero() {
                refusals.push(format!("the multipliers of the objective sum to {}, not to 1", total.approximate()));
            }
        }
    }
    let bounded = upper_point(p, &constants, &centre);
    let relaxed = Dyadic::from(p.relaxed);
    if let Some(needed) = bounded.as_ref().and_then(|(.., most)| most.as_ref()).filter(|needed| **needed > relaxed) {
        let (needed, claimed) = (needed.approximate(), p.relaxed);
        refusals.push(format!("the point of the upper bound exceeds the constraints by {needed:.6e}, more than {claimed:.6e}"));
    }
    let mut levels = vec![relaxed.clone(); constants.len()];
    levels[0] = Dyadic::zero();
    let mean = sum(r, &centre, &constants, &levels, &weights, &mut refusals);
    let steep = &dot(&mean.slope, &mean.slope).root() + &mean.slope_error;

    // A ball around a point whose objective is at most `value` has mu^2 radius^2 = 2 mu (value - H) + ||P||^2.
    let mu = Dyadic::from(p.mu);
    let mut discs = vec![];
    let mut contradiction = false;
    let mut ball = |value: &Dyadic| -> Dyadic {
        let square = &(&(&mu * &Dyadic::from(2.0)) * &(value - &mean.height)) + &(&steep * &steep);
        contradiction |= square < Dyadic::zero();
        square.max(Dyadic::zero()).root()
    };
    let here = &r.visits[0];
    let most = |j: usize| &Dyadic::from(here.values[j]) + &here.value_errors[j].into();
    if (1..constants.len()).all(|j| most(j) <= relaxed) {
        let value = most(0);
        discs.push((Dyadic::zero(), Dyadic::zero(), ball(&value)));
    }
    if let Some((y, value, _)) = bounded {
        let step = difference(&y, &centre);
        let square = dot(&step, &step);
        discs.push((square.root_below(), square.root(), ball(&value)));
        check_inside(&r.domain, &y, &mut refusals);
    }
    check_inside(&r.domain, &centre, &mut refusals);
    if contradiction {
        refusals.push("a recorded cut or value is wrong: the lower bound of the subproblem is above its upper bound".into());
    }

    // All lengths times mu.
    let low = discs.iter().map(|(near, _, radius)| &(near * &mu) - radius).fold(Dyadic::zero(), Dyadic::max);
    let high = discs.iter().map(|(_, far, radius)| &(far * &mu) + radius).min();
    let approximate = |x: &Dyadic| x.approximate() / p.mu;
    let (lower, upper) = (approximate(&low), high.as_ref().map_or(f64::INFINITY, approximate));
    if &Dyadic::from(p.lower) * &mu > low {
        refusals.push(format!("the lower end {:e} is above {lower:e}, the largest that the recorded cuts allow", p.lower));
    }
    if let Some(claimed) = p.upper
        && high.is_none_or(|high| &Dyadic::from(claimed) * &mu < high)
    {
        refusals.push(format!("the upper end {claimed:e} is below {upper:e}, the smallest that the recorded cuts allow"));
    }
    let violation = here.values[1..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let assumed_domain = match &r.domain {
        Domain::Other { description } => Some(description.clone()),
        _ => None,
    };
    let (functions, cuts) = (constants.len(), r.cuts.len() + r.domain_cuts.len());
    let (recomputed, constants_follow) = (recomputed.functions, recomputed.constants_follow);
    Ok(Derived { lower, upper, violation, recomputed, functions, cuts, constants_follow, assumed_domain, refusals })
}

/// The mean of visited points that bounds the subproblem from above: the point, its objective, and its largest constraint.
fn upper_point(p: &Proximity, constants: &[Dyadic], centre: &[Dyadic]) -> Option<(Vec<Dyadic>, Dyadic, Option<Dyadic>)> {
    let others: Dyadic = p.record.upper.iter().skip(1).map(|(share, _)| (*share).into()).sum();
    let mut shares = vec![(&Dyadic::from(1.0) - &others).max(Dyadic::zero())];
    shares.extend(p.record.upper.iter().skip(1).map(|(share, _)| Dyadic::from(*share)));
    let mut mean = vec![Dyadic::zero(); centre.len()];
    let mut values = vec![Dyadic::zero(); constants.len()];
    for ((_, at), share) in p.record.upper.iter().zip(&shares) {
        let visit = &p.record.visits[*at];
        let y = vector(&visit.point);
        add(&mut mean, share, &y);
        let step = difference(&y, centre);
        let half = dot(&step, &step).half();
        for (j, rho) in constants.iter().enumerate() {
            let rho = if j == 0 { rho + &p.mu.into() } else { rho.clone() };
            let own = &(&Dyadic::from(visit.values[j]) + &visit.value_errors[j].into()) + &(&rho * &half);
            values[j] = &values[j] + &(share * &own);
        }
    }
    let objective = values.remove(0);
    (!p.record.upper.is_empty()).then(|| (mean, objective, values.into_iter().max()))
}
