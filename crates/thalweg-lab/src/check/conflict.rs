//! Does it follow from the recorded cuts that no point near the given one, or of the domain, satisfies all constraints?
//!
//! A point y that satisfies `g_j(y) <= t_j` for every j satisfies the weighted sum of the cuts, `H + <P, y - c> <= R/2 ||y - c||^2` with R
//! the weighted sum of the constants. So there is none where `H - ||P|| r - R/2 r^2 > 0`.

use super::cuts::{Stated, check_functions, check_inside, dot, reach, sum, support, validate, vector};
use super::format::{Conflict, Domain};
use super::model::{Prepared, Rowwise};
use super::number::Dyadic;

/// What follows from the record.
pub struct Derived {
    /// What is left of the sum of the cuts at the claimed distance, relative to the sum at the point.
    pub margin: f64,
    /// Largest value of a constraint at the point.
    pub violation: f64,
    pub recomputed: usize,
    pub functions: usize,
    pub cuts: usize,
    pub constants_follow: bool,
    pub assumed_domain: Option<String>,
    pub refusals: Vec<String>,
}

/// Checks the claim. An error means that the file is damaged.
pub fn check(p: &Conflict, rowwise: Option<&Rowwise>, functions: &[Option<&Prepared>]) -> Result<Derived, String> {
    validate(&p.record, &p.point, 1 + p.rho_g.len())?;
    let tolerances = p.tolerances.len() == p.rho_g.len() && p.tolerances.iter().all(|t| *t >= 0.0);
    if !tolerances || p.rho_g.iter().any(|c| c.value < 0.0) || p.radius.is_some_and(|r| r <= 0.0) {
        return Err("the tolerances do not fit the constraints, or a constant or the radius is negative".into());
    }
    let (r, centre) = (&p.record, vector(&p.point));
    let mut refusals = vec![];
    if r.cuts.is_empty() || r.cuts.iter().any(|c| c.function == 0) {
        refusals.push("the cuts of a conflict must be those of constraints".into());
    }
    let constants: Vec<Dyadic> = std::iter::once(0.0).chain(p.rho_g.iter().map(|c| c.value)).map(Dyadic::from).collect();
    // The objective has no part in the claim.
    let stated = Stated {
        record: r,
        dim: centre.len(),
        constants: std::iter::once(None).chain(p.rho_g.iter().map(Some)).collect(),
        bounding: vec![],
    };
    let recomputed = check_functions(&stated, rowwise, functions, &mut refusals)?;
    let weights: Vec<Dyadic> = r.cuts.iter().map(|c| c.weight.into()).collect();
    let levels: Vec<Dyadic> = std::iter::once(0.0).chain(p.tolerances.iter().copied()).map(Dyadic::from).collect();
    let mean = sum(r, &centre, &constants, &levels, &weights, &mut refusals);
    let bend = r.cuts.iter().zip(&weights).map(|(cut, weight)| weight * &constants[cut.function]).sum::<Dyadic>().half();
    let left = match p.radius {
        Some(radius) => {
            let radius = Dyadic::from(radius);
            let steep = &dot(&mean.slope, &mean.slope).root() + &mean.slope_error;
            &(&mean.height - &(&steep * &radius)) - &(&bend * &(&radius * &radius))
        }
        None => {
            let down: Vec<Dyadic> = mean.slope.iter().map(|s| -s.clone()).collect();
            match (support(&r.domain, &down, &centre), reach(&r.domain, &centre)) {
                (Some(fall), Some(reach)) => {
                    &(&mean.height - &fall) - &(&(&mean.slope_error * &reach) + &(&bend * &(&reach * &reach)))
                }
                _ => {
                    refusals.push("the claim concerns a domain that is not a bounded box or ball".into());
                    Dyadic::zero()
                }
            }
        }
    };
    if left <= Dyadic::zero() {
        let at = p.radius.map_or("the domain".into(), |radius| format!("the radius {radius:.6e}"));
        refusals.push(format!("the recorded cuts do not exclude {at}: their sum there may be {:.6e}", left.approximate()));
    }
    check_inside(&r.domain, &centre, &mut refusals);
    let here = r.visits.iter().find(|v| vector(&v.point) == centre);
    let violation = here.map_or(f64::NAN, |v| v.values[1..].iter().copied().fold(f64::NEG_INFINITY, f64::max));
    let assumed_domain = match &r.domain {
        Domain::Other { description } if !r.domain_cuts.is_empty() => Some(description.clone()),
        _ => None,
    };
    Ok(Derived {
        margin: left.approximate() / mean.height.approximate(),
        violation,
        recomputed: recomputed.functions,
        functions: p.rho_g.len(),
        cuts: r.cuts.len() + r.domain_cuts.len(),
        constants_follow: recomputed.constants_follow,
        assumed_domain,
        refusals,
    })
}
