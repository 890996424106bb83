//! Does the interval for the distance from the proximal point follow from the recorded values, cuts and multipliers?
//!
//! With c the point and D = z - c, a cut of the function h with constant rho at z says `h(y) + rho/2 ||y - c||^2 >= height + <slope,
//! y - c>` with `slope = s + rho D` and `height = h(z) - <s, D> - rho/2 ||D||^2`. The sum of cuts times multipliers bounds the
//! subproblem from below by `m = H - ||P||^2 / (2 mu)`; a feasible point y bounds it from above by U; and strong convexity puts the
//! proximal point within `sqrt(2 (U - m) / mu)` of y.

use super::format::{Domain, Model, Proximity, Visit};
use super::model::{ACCURACY, Evaluation};
use super::number::Dyadic;

/// Distance outside the domain, relative to 1 + the norm, at which a point still counts as inside.
const OUTSIDE: f64 = 1e-9;
/// Relative accuracy at which constants and relaxations are compared.
const ROUNDING: f64 = 1e-12;

/// Difference between the claimed ends and those that follow, relative to the upper end, that still counts as rounding.
const ENDS: f64 = 1e-6;

/// Errors of the values and of the subgradients at each visited point: of the recorded ones, or what they are off by if that is more.
type Errors = Vec<Vec<[Dyadic; 2]>>;

/// Interval that follows from the record.
pub struct Derived {
    pub lower: f64,
    pub upper: f64,
    /// Largest value of a constraint at the point.
    pub violation: f64,
    pub relaxed: f64,
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

fn vector(x: &[f64]) -> Vec<Dyadic> {
    x.iter().map(|x| (*x).into()).collect()
}

fn dot(a: &[Dyadic], b: &[Dyadic]) -> Dyadic {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[Dyadic], b: &[Dyadic]) -> Vec<Dyadic> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn add(sum: &mut [Dyadic], weight: &Dyadic, x: &[Dyadic]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = &*sum + &(weight * x));
}

fn validate(p: &Proximity) -> Result<(), String> {
    let (d, m) = (p.point.len(), 1 + p.rho_g.len());
    let fits = |v: &Visit| {
        let counts = [v.values.len(), v.value_errors.len(), v.slopes.len(), v.slope_errors.len()] == [m; 4];
        let errors = v.value_errors.iter().chain(&v.slope_errors).all(|e| *e >= 0.0);
        counts && errors && v.point.len() == d && v.slopes.iter().all(|s| s.len() == d)
    };
    let r = &p.record;
    let known = |visit: usize| visit < r.visits.len();
    let cuts = r.cuts.iter().all(|c| known(c.visit) && c.function < m && c.weight > 0.0);
    let halves = r.domain_cuts.iter().all(|c| c.weight > 0.0 && c.normal.len() == d && c.foot.len() == d);
    let sides = match &r.domain {
        Domain::Box { low, high } => low.len() == d && high.len() == d,
        _ => true,
    };
    let shares = r.upper.iter().all(|(share, visit)| known(*visit) && (0.0..=1.0).contains(share));
    let numbers = p.mu > 0.0 && p.mu_g >= 0.0 && p.relaxed >= 0.0 && p.lower >= 0.0;
    let constants = p.rho_f.value >= 0.0 && p.rho_g.iter().all(|c| c.value >= 0.0);
    if r.visits.iter().all(fits) && cuts && halves && sides && shares && numbers && constants && !r.visits.is_empty() {
        Ok(())
    } else {
        Err("the lengths, indices or signs of its numbers do not fit together".into())
    }
}

/// Largest value of `<normal, y - foot>` over the domain; 0 if that has to be assumed, `None` if it is unbounded.
fn support(domain: &Domain, normal: &[Dyadic], foot: &[Dyadic]) -> Option<Dyadic> {
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

/// Derives the interval, and lists what contradicts the claim. An error means that the file is damaged.
pub fn check(p: &Proximity, model: Option<&Model>) -> Result<Derived, String> {
    validate(p)?;
    let (r, centre) = (&p.record, vector(&p.point));
    let mut refusals = vec![];
    if vector(&r.visits[0].point) != centre {
        refusals.push("the first recorded point is not the certified one".into());
    }
    let constants: Vec<Dyadic> = std::iter::once(Dyadic::from(p.rho_f.value))
        .chain(p.rho_g.iter().map(|c| &Dyadic::from(c.value) + &p.mu_g.into()))
        .collect();
    let stated =
        |v: &Visit| v.value_errors.iter().zip(&v.slope_errors).map(|(e, s)| [Dyadic::from(*e), Dyadic::from(*s)]).collect();
    let mut errors: Errors = r.visits.iter().map(stated).collect();
    let (recomputed, constants_follow) = check_functions(p, model, &mut errors, &mut refusals)?;

    // The sum of the cuts: H + <P, y - c>, with the errors of both.
    let (mut height, mut slope) = (Dyadic::zero(), vec![Dyadic::zero(); centre.len()]);
    let (mut height_error, mut slope_error) = (Dyadic::zero(), Dyadic::zero());
    let bounded = upper_point(p, &constants, &centre, &errors);
    let relaxed = level(p, bounded.as_ref().and_then(|(.., most)| most.as_ref()), &mut refusals);
    let others: Dyadic = r.cuts.iter().filter(|c| c.function == 0).skip(1).map(|c| c.weight.into()).sum();
    let mut first = true;
    for cut in &r.cuts {
        let (visit, rho) = (&r.visits[cut.visit], &constants[cut.function]);
        let mut weight = Dyadic::from(cut.weight);
        if cut.function == 0 && std::mem::take(&mut first) {
            // Multipliers of the objective sum to 1, up to rounding.
            let rest = &Dyadic::from(1.0) - &others;
            if (&rest - &weight).abs() > ROUNDING.into() || rest <= Dyadic::zero() {
                refusals.push(format!("the multipliers of the objective sum to {}, not to 1", (&others + &weight).approximate()));
            }
            weight = rest.max(Dyadic::zero());
        }
        let step = difference(&vector(&visit.point), &centre);
        let s = vector(&visit.slopes[cut.function]);
        let square = dot(&step, &step);
        let mut own = &(&Dyadic::from(visit.values[cut.function]) - &dot(&s, &step)) - &(rho * &square).half();
        if cut.function > 0 {
            own = &own - &relaxed;
        }
        height = &height + &(&weight * &own);
        add(&mut slope, &weight, &s);
        add(&mut slope, &(&weight * rho), &step);
        let [error, tilt] = &errors[cut.visit][cut.function];
        height_error = &height_error + &(&weight * &(error + &(tilt * &square.root())));
        slope_error = &slope_error + &(&weight * tilt);
    }
    for cut in &r.domain_cuts {
        let (weight, normal, foot) = (Dyadic::from(cut.weight), vector(&cut.normal), vector(&cut.foot));
        match support(&r.domain, &normal, &foot) {
            None => refusals.push("a recorded half-space does not contain the domain".into()),
            Some(most) => {
                let own = &dot(&normal, &difference(&centre, &foot)) - &most.max(Dyadic::zero());
                height = &height + &(&weight * &own);
                add(&mut slope, &weight, &normal);
            }
        }
    }
    if first {
        refusals.push("there is no cut of the objective".into());
    }
    let bottom = &height - &height_error;
    let steep = &dot(&slope, &slope).root() + &slope_error;

    // A ball around a point whose objective is at most `value` has mu^2 radius^2 = 2 mu (value - H) + ||P||^2.
    let mu = Dyadic::from(p.mu);
    let mut discs = vec![];
    let mut contradiction = false;
    let mut ball = |value: &Dyadic| -> Dyadic {
        let square = &(&(&mu * &Dyadic::from(2.0)) * &(value - &bottom)) + &(&steep * &steep);
        contradiction |= square < Dyadic::zero();
        square.max(Dyadic::zero()).root()
    };
    let here = &r.visits[0];
    let most = |j: usize| &Dyadic::from(here.values[j]) + &errors[0][j][0];
    if (1..constants.len()).all(|j| most(j) <= relaxed) {
        let value = most(0);
        discs.push((Dyadic::zero(), Dyadic::zero(), ball(&value)));
    }
    if let Some((y, value, _)) = bounded {
        let step = difference(&y, &centre);
        let square = dot(&step, &step);
        discs.push((square.root_below(), square.root(), ball(&value)));
        inside(&r.domain, &y, &mut refusals);
    }
    inside(&r.domain, &centre, &mut refusals);
    if contradiction {
        refusals.push("a recorded cut or value is wrong: the lower bound of the subproblem is above its upper bound".into());
    }

    // All lengths times mu.
    let low = discs.iter().map(|(near, _, radius)| &(near * &mu) - radius).fold(Dyadic::zero(), Dyadic::max);
    let high = discs.iter().map(|(_, far, radius)| &(far * &mu) + radius).min();
    let approximate = |x: &Dyadic| x.approximate() / p.mu;
    let (lower, upper) = (approximate(&low), high.as_ref().map_or(f64::INFINITY, approximate));
    let rounding = ENDS * p.upper.unwrap_or(p.lower);
    if &Dyadic::from(p.lower - rounding) * &mu > low {
        refusals.push(format!("the lower end {:.6e} is above {lower:.6e}, the largest that the recorded cuts allow", p.lower));
    }
    if let Some(claimed) = p.upper
        && high.is_none_or(|high| &Dyadic::from(claimed + rounding) * &mu < high)
    {
        refusals.push(format!("the upper end {claimed:.6e} is below {upper:.6e}, the smallest that the recorded cuts allow"));
    }
    let violation = here.values[1..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let assumed_domain = match &r.domain {
        Domain::Other { description } => Some(description.clone()),
        _ => None,
    };
    let (functions, cuts) = (constants.len(), r.cuts.len() + r.domain_cuts.len());
    let relaxed = relaxed.approximate();
    Ok(Derived { lower, upper, violation, relaxed, recomputed, functions, cuts, constants_follow, assumed_domain, refusals })
}

fn inside(domain: &Domain, y: &[Dyadic], refusals: &mut Vec<String>) {
    let allowed = &Dyadic::from(OUTSIDE) * &(&Dyadic::from(1.0) + &dot(y, y).root_below());
    let off = outside(domain, y);
    if off > &allowed * &allowed {
        refusals.push(format!("a point is {:.1e} outside the domain", off.approximate().sqrt()));
    }
}

/// The mean of visited points that bounds the subproblem from above: the point, its objective, and its largest constraint.
fn upper_point(
    p: &Proximity,
    constants: &[Dyadic],
    centre: &[Dyadic],
    errors: &Errors,
) -> Option<(Vec<Dyadic>, Dyadic, Option<Dyadic>)> {
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
            let own = &(&Dyadic::from(visit.values[j]) + &errors[*at][j][0]) + &(&rho * &half);
            values[j] = &values[j] + &(share * &own);
        }
    }
    let objective = values.remove(0);
    (!p.record.upper.is_empty()).then(|| (mean, objective, values.into_iter().max()))
}

/// The right-hand side of the subproblem's constraints that the point of the upper bound satisfies: the claimed one, up to rounding.
fn level(p: &Proximity, needed: Option<&Dyadic>, refusals: &mut Vec<String>) -> Dyadic {
    let claimed = Dyadic::from(p.relaxed);
    let Some(needed) = needed.cloned() else { return claimed };
    let visits = p.record.upper.iter().map(|(_, visit)| &p.record.visits[*visit]);
    let size = visits.flat_map(|v| &v.values[1..]).fold(p.relaxed, |most, g| most.max(g.abs()));
    let errors = p.record.visits[0].value_errors[1..].iter().copied().fold(0.0, f64::max);
    if needed > &claimed + &(8.0 * errors + ROUNDING * size).into() {
        let needed = needed.approximate();
        refusals
            .push(format!("the point of the upper bound exceeds the constraints by {needed:.6e}, more than {:.6e}", p.relaxed));
    }
    needed.max(claimed)
}

/// Recomputes the functions whose form is known from the rows. Returns their number, and whether all constants follow.
fn check_functions(
    p: &Proximity,
    model: Option<&Model>,
    errors: &mut Errors,
    refusals: &mut Vec<String>,
) -> Result<(usize, bool), String> {
    let Some(model) = model else { return Ok((0, false)) };
    model.validate()?;
    if model.functions.len() != 1 + p.rho_g.len() || model.dim() != p.point.len() {
        return Err("its model does not have the functions or the columns of the certificate".into());
    }
    let (mut known, mut follow) = (0, true);
    for (function, rho) in model.functions.iter().zip(std::iter::once(&p.rho_f).chain(&p.rho_g)) {
        let Some(needed) = model.constant(function) else {
            follow = false;
            continue;
        };
        known += 1;
        if needed > &Dyadic::from(rho.value) * &(1.0 + ROUNDING).into() {
            let needed = needed.approximate();
            follow = false;
            if rho.source == "Proved" {
                let name = &function.expression;
                refusals.push(format!("the constant {} of '{name}' is below {needed}, which follows from the rows", rho.value));
            }
        }
    }
    for (at, visit) in p.record.visits.iter().enumerate() {
        let cuts: Vec<usize> = p.record.cuts.iter().filter(|c| c.visit == at).map(|c| c.function).collect();
        let values = at == 0 || p.record.upper.iter().any(|(_, visit)| *visit == at);
        let evaluation = Evaluation::new(model, &visit.point);
        for (j, function) in model.functions.iter().enumerate() {
            let (value, error) = (visit.values[j], visit.value_errors[j]);
            if values && let Some(found) = evaluation.value(function) {
                let off = (&found.high - &value.into()).max(&Dyadic::from(value) - &found.low);
                if off > (error + ACCURACY * (1.0 + value.abs() + function.bound.abs())).into() {
                    let (name, truth) = (&function.expression, found.low.approximate());
                    refusals.push(format!("the recorded value {value} of '{name}' is not {truth}, which follows from the rows"));
                }
                errors[at][j][0] = errors[at][j][0].clone().max(off);
            }
            if cuts.contains(&j) {
                let slope = (visit.slopes[j].as_slice(), visit.slope_errors[j]);
                match evaluation.linearisation(function, (value, error), slope) {
                    Some(Ok(off)) => errors[at][j].iter_mut().zip(off).for_each(|(error, off)| *error = error.clone().max(off)),
                    Some(Err(why)) => refusals.push(why),
                    None => {}
                }
            }
        }
    }
    Ok((known, follow))
}
