//! Recorded cuts: do they follow from the rows, and what does their weighted sum bound? What is concluded from the sum is in
//! `proximity.rs` and `conflict.rs`.
//!
//! With c the point and D = z - c, a cut of the function h with constant rho at z says `h(y) + rho/2 ||y - c||^2 >= height + <slope,
//! y - c>` with `slope = s + rho D` and `height = h(z) - <s, D> - rho/2 ||D||^2`.

use super::format::{Constant, Domain, Record, Visit};
use super::model::{Prepared, Rowwise};
use super::number::Dyadic;

/// Relative accuracy at which constants are compared.
pub const ROUNDING: f64 = 1e-12;
/// Distance outside the domain, relative to 1 + the norm, at which a point still counts as inside.
const OUTSIDE: f64 = 1e-9;

/// Weighted sum of cuts at a point: `height + <slope, y - c>` minus `slope_error ||y - c||` is a lower bound.
pub struct Sum {
    /// The height minus its error.
    pub height: Dyadic,
    pub slope: Vec<Dyadic>,
    pub slope_error: Dyadic,
}

/// What the rows say about the recorded functions.
pub struct Recomputed {
    /// Functions whose values and subgradients are recomputed from the rows.
    pub functions: usize,
    /// Whether every constant follows from the form of the functions.
    pub constants_follow: bool,
}

pub fn vector(x: &[f64]) -> Vec<Dyadic> {
    x.iter().map(|x| (*x).into()).collect()
}

pub fn dot(a: &[Dyadic], b: &[Dyadic]) -> Dyadic {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn difference(a: &[Dyadic], b: &[Dyadic]) -> Vec<Dyadic> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

pub fn add(sum: &mut [Dyadic], weight: &Dyadic, x: &[Dyadic]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = &*sum + &(weight * x));
}

/// Checks the lengths, indices and signs of a record of `functions` functions.
pub fn validate(r: &Record, point: &[f64], functions: usize) -> Result<(), String> {
    let d = point.len();
    let fits = |v: &Visit| {
        let counts = [v.values.len(), v.value_errors.len(), v.slopes.len(), v.slope_errors.len()] == [functions; 4];
        let errors = v.value_errors.iter().chain(&v.slope_errors).all(|e| *e >= 0.0);
        counts && errors && v.point.len() == d && v.slopes.iter().all(|s| s.len() == d)
    };
    let known = |visit: usize| visit < r.visits.len();
    let cuts = r.cuts.iter().all(|c| known(c.visit) && c.function < functions && c.weight > 0.0);
    let halves = r.domain_cuts.iter().all(|c| c.weight > 0.0 && c.normal.len() == d && c.foot.len() == d);
    let sides = match &r.domain {
        Domain::Box { low, high } => low.len() == d && high.len() == d,
        _ => true,
    };
    let shares = r.upper.iter().all(|(share, visit)| known(*visit) && (0.0..=1.0).contains(share));
    if r.visits.iter().all(fits) && cuts && halves && sides && shares && !r.visits.is_empty() {
        Ok(())
    } else {
        Err("the lengths, indices or signs of its numbers do not fit together".into())
    }
}

/// Adds the cuts times their multipliers. `constants` and `levels`, which are subtracted, are those of each function.
pub fn sum(
    r: &Record,
    centre: &[Dyadic],
    constants: &[Dyadic],
    levels: &[Dyadic],
    weights: &[Dyadic],
    refusals: &mut Vec<String>,
) -> Sum {
    let (mut height, mut slope, mut slope_error) = (Dyadic::zero(), vec![Dyadic::zero(); centre.len()], Dyadic::zero());
    for (cut, weight) in r.cuts.iter().zip(weights) {
        let (visit, rho) = (&r.visits[cut.visit], &constants[cut.function]);
        let step = difference(&vector(&visit.point), centre);
        let s = vector(&visit.slopes[cut.function]);
        let square = dot(&step, &step);
        let own = &(&Dyadic::from(visit.values[cut.function]) - &dot(&s, &step)) - &(rho * &square).half();
        let (error, tilt) = (Dyadic::from(visit.value_errors[cut.function]), Dyadic::from(visit.slope_errors[cut.function]));
        let lowest = &(&own - &levels[cut.function]) - &(&error + &(&tilt * &square.root()));
        height = &height + &(weight * &lowest);
        add(&mut slope, weight, &s);
        add(&mut slope, &(weight * rho), &step);
        slope_error = &slope_error + &(weight * &tilt);
    }
    for cut in &r.domain_cuts {
        let (weight, normal, foot) = (Dyadic::from(cut.weight), vector(&cut.normal), vector(&cut.foot));
        match support(&r.domain, &normal, &foot) {
            None => refusals.push("a recorded half-space does not contain the domain".into()),
            Some(most) => {
                let own = &dot(&normal, &difference(centre, &foot)) - &most.max(Dyadic::zero());
                height = &height + &(&weight * &own);
                add(&mut slope, &weight, &normal);
            }
        }
    }
    Sum { height, slope, slope_error }
}

/// Largest value of `<normal, y - foot>` over the domain; 0 if that has to be assumed, `None` if it is unbounded.
pub fn support(domain: &Domain, normal: &[Dyadic], foot: &[Dyadic]) -> Option<Dyadic> {
    match domain {
        Domain::Other { .. } => Some(Dyadic::zero()),
        Domain::Whole => None,
        Domain::Ball { radius } => Some(&(&dot(normal, normal).root() * &(*radius).into()) - &dot(normal, foot)),
        Domain::Box { low, high } => {
            let side = |((n, low), high): ((&Dyadic, &Option<f64>), &Option<f64>)| match n.sign() {
                std::cmp::Ordering::Equal => Some(Dyadic::zero()),
                std::cmp::Ordering::Less => low.map(|end| n * &end.into()),
                std::cmp::Ordering::Greater => high.map(|end| n * &end.into()),
            };
            let most = normal.iter().zip(low).zip(high).map(side).sum::<Option<Dyadic>>()?;
            Some(&most - &dot(normal, foot))
        }
    }
}

/// Upper bound on the distance of the points of the domain from a point; `None` if they are unbounded or not known.
pub fn reach(domain: &Domain, centre: &[Dyadic]) -> Option<Dyadic> {
    match domain {
        Domain::Whole | Domain::Other { .. } => None,
        Domain::Ball { radius } => Some(&dot(centre, centre).root() + &(*radius).into()),
        Domain::Box { low, high } => {
            let side = |((c, low), high): ((&Dyadic, &Option<f64>), &Option<f64>)| {
                let (low, high) = (&Dyadic::from((*low)?) - c, &Dyadic::from((*high)?) - c);
                let most = low.abs().max(high.abs());
                Some(&most * &most)
            };
            Some(centre.iter().zip(low).zip(high).map(side).sum::<Option<Dyadic>>()?.root())
        }
    }
}

/// Upper bound on the squared distance from the domain.
fn outside(domain: &Domain, y: &[Dyadic]) -> Dyadic {
    match domain {
        Domain::Whole | Domain::Other { .. } => Dyadic::zero(),
        Domain::Ball { radius } => {
            let over = (&dot(y, y).root() - &(*radius).into()).max(Dyadic::zero());
            &over * &over
        }
        Domain::Box { low, high } => {
            let sides = y.iter().zip(low).zip(high).map(|((y, low), high)| {
                let below = low.map_or_else(Dyadic::zero, |end| &Dyadic::from(end) - y);
                let over = below.max(high.map_or_else(Dyadic::zero, |end| y - &end.into())).max(Dyadic::zero());
                &over * &over
            });
            sides.sum()
        }
    }
}

pub fn check_inside(domain: &Domain, y: &[Dyadic], refusals: &mut Vec<String>) {
    let allowed = &Dyadic::from(OUTSIDE) * &(&Dyadic::from(1.0) + &dot(y, y).root_below());
    let off = outside(domain, y);
    if off > &allowed * &allowed {
        refusals.push(format!("a point is {:.1e} outside the domain", off.approximate().sqrt()));
    }
}

/// What is recomputed.
pub struct Stated<'a> {
    pub record: &'a Record,
    /// Number of variables.
    pub dim: usize,
    /// Constant of each function; `None` if the function has no part in the claim.
    pub constants: Vec<Option<&'a Constant>>,
    /// Visits whose values bound something from above.
    pub bounding: Vec<usize>,
}

/// Recomputes the functions whose form is known from the rows: their constants, their cuts, and their values at the bounding visits.
pub fn check_functions(
    stated: &Stated,
    rowwise: Option<&Rowwise>,
    functions: &[Option<&Prepared>],
    refusals: &mut Vec<String>,
) -> Result<Recomputed, String> {
    let Stated { record: r, dim, constants, bounding } = stated;
    let Some(rowwise) = rowwise else { return Ok(Recomputed { functions: 0, constants_follow: false }) };
    if functions.len() != constants.len() || rowwise.model().dim() != *dim {
        return Err("its model does not have the functions or the columns of the certificate".into());
    }
    let (mut follow, mut known) = (true, 0);
    for (function, rho) in functions.iter().zip(constants) {
        let Some(rho) = rho else { continue };
        let Some(function) = function else {
            follow = false;
            continue;
        };
        known += 1;
        let needed = rowwise.model().constant(function);
        if needed > &Dyadic::from(rho.value) * &(1.0 + ROUNDING).into() {
            follow = false;
            if rho.source == "Proved" {
                let (name, needed) = (function.name(), needed.approximate());
                refusals.push(format!("the constant {} of '{name}' is below {needed}, which follows from the rows", rho.value));
            }
        }
    }
    for (at, visit) in r.visits.iter().enumerate() {
        let evaluation = rowwise.at(&visit.point, functions);
        for (j, function) in functions.iter().enumerate() {
            let (Some(function), Some(_)) = (function, constants[j]) else { continue };
            let (bounds, cut) = (bounding.contains(&at), r.cuts.iter().any(|c| c.visit == at && c.function == j));
            if !(bounds || cut) {
                continue;
            }
            let local = evaluation.local(function);
            let (value, error) = (visit.values[j], visit.value_errors[j]);
            let (least, most) = (&Dyadic::from(value) - &error.into(), &Dyadic::from(value) + &error.into());
            if bounds && (local.value.high > most || local.value.low < least) {
                let (name, truth) = (function.name(), local.value.high.approximate());
                refusals.push(format!(
                    "the recorded value {value} of '{name}' is not {truth}, which follows from the rows; its error is {error:.1e}"
                ));
            }
            if cut && let Err(why) = local.check_cut((value, error), (&visit.slopes[j], visit.slope_errors[j])) {
                refusals.push(why);
            }
        }
    }
    Ok(Recomputed { functions: known, constants_follow: follow })
}
