//! A checker of certificates that shares no code with the solver: it reads the file alone and derives the claims again in exact
//! arithmetic. Producing certificates, and everything else of this crate and of the library, does not belong here.

mod format;
mod model;
mod number;
mod proximity;
mod reference;

use serde::Serialize;

use format::{FORMAT, File};

/// Result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// Whether every claim follows from the file.
    pub confirmed: bool,
    /// The result in one sentence: what is confirmed and what is assumed, or why not.
    pub sentence: String,
    /// Assumptions that the file cannot prove.
    pub assumed: Vec<String>,
    /// What contradicts the claims.
    pub refusals: Vec<String>,
    /// Description of the problem in the file.
    pub problem: String,
    /// Name and fingerprint of the data in the file.
    pub data: Option<String>,
    /// The interval for the distance from the proximal point.
    pub proximity: Option<Proximity>,
    /// Reference values.
    pub references: Vec<Reference>,
}

/// The claimed interval and the one that follows.
#[derive(Debug, Clone, Serialize)]
pub struct Proximity {
    /// Claimed lower and upper end.
    pub claimed: [Option<f64>; 2],
    /// Lower and upper end that follow from the record, rounded; `null` for infinity.
    pub derived: [Option<f64>; 2],
    /// Largest recorded constraint value at the point; `null` without constraints.
    pub violation: Option<f64>,
    /// Relaxation of the constraints of the subproblem.
    pub relaxed: f64,
    /// Number of functions.
    pub functions: usize,
    /// Number of functions whose values and subgradients were recomputed from the rows.
    pub recomputed: usize,
    /// Number of cuts with a multiplier, those of the domain included.
    pub cuts: usize,
}

/// The claimed lower bound of a reference value and the one that follows.
#[derive(Debug, Clone, Serialize)]
pub struct Reference {
    /// The expression.
    pub expression: String,
    /// The claimed value.
    pub value: f64,
    /// The claimed lower bound.
    pub lower: f64,
    /// Norm of the weights that it holds for; `null` for all weights.
    pub radius: Option<f64>,
    /// Lower bound that follows from the multipliers, rounded.
    pub derived: f64,
}

/// Formats a positive number that is rounded to four digits, upwards or downwards.
fn outwards(x: f64, sign: f64) -> String {
    // Half of the last digit, and the rounding of the number itself.
    let digit = 10.0_f64.powf(x.log10().floor() - 3.0);
    format!("{:.3e}", (x + sign * digit * 0.500_001).max(0.0))
}

/// Checks the certificate in a file. An error says why the file cannot be read.
pub fn check(text: &[u8]) -> Result<Verdict, String> {
    let version: serde_json::Value = serde_json::from_slice(text).map_err(|e| format!("is not JSON: {e}"))?;
    match version.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => return Err(format!("has format {format}; expected a certificate of format {FORMAT}")),
        None => return Err("has no number 'format'; expected a certificate that thalweg certify --out wrote".into()),
    }
    drop(version);
    let file: File = serde_json::from_slice(text).map_err(|e| format!("is a damaged certificate: {e}"))?;
    let damaged = |what: String| format!("is a damaged certificate: {what}");
    let (mut claims, mut assumed, mut refusals) = (vec![], vec![], vec![]);
    let mut proximity = None;
    if let Some(p) = &file.proximity {
        let found = proximity::check(p, file.model.as_ref()).map_err(damaged)?;
        claims.push(match p.upper {
            Some(_) if found.lower > 0.0 => {
                let (lower, upper) = (outwards(found.lower, -1.0), outwards(found.upper, 1.0));
                format!("the proximal point is between {lower} and {upper} away from the point")
            }
            Some(_) => format!("the proximal point is at most {} away from the point", outwards(found.upper, 1.0)),
            None => "no upper end is claimed for the distance from the proximal point".into(),
        });
        let by_hand = found.functions - found.recomputed;
        if by_hand > 0 {
            let all = if by_hand == found.functions { "all".into() } else { format!("{by_hand} of {}", found.functions) };
            assumed.push(format!("the recorded values, subgradients and their errors of {all} functions are right"));
        }
        if !found.constants_follow {
            let estimated = std::iter::once(&p.rho_f).chain(&p.rho_g).any(|c| c.source == "Estimated");
            let which = if estimated { ", some of which are only estimates," } else { "" };
            assumed.push(format!("the weak-convexity constants{which} hold"));
        }
        assumed.extend(found.assumed_domain.map(|domain| format!("the recorded half-spaces contain the domain ({domain})")));
        refusals.extend(found.refusals);
        let finite = |x: f64| x.is_finite().then_some(x);
        proximity = Some(Proximity {
            claimed: [Some(p.lower), p.upper],
            derived: [finite(found.lower), finite(found.upper)],
            violation: finite(found.violation),
            relaxed: found.relaxed,
            functions: found.functions,
            recomputed: found.recomputed,
            cuts: found.cuts,
        });
    }
    let mut references = vec![];
    for r in &file.references {
        let model = file.model.as_ref().ok_or("is a damaged certificate: it has a reference value and no rows")?;
        let (derived, why) = reference::check(model, r).map_err(damaged)?;
        let scope =
            r.radius.map_or_else(|| "for all weights".to_string(), |radius| format!("for weights of norm up to {radius:e}"));
        let expression = r.function.expression.clone();
        let (low, high) = ((r.lower * 1e9).floor() / 1e9, (r.value * 1e9).ceil() / 1e9);
        claims.push(format!("best({expression}) is at least {low} {scope} and at most {high}"));
        refusals.extend(why);
        references.push(Reference { expression, value: r.value, lower: r.lower, radius: r.radius, derived });
    }
    if claims.is_empty() {
        return Err("contains no claim".into());
    }
    if file.model.is_some() {
        assumed.push(format!("the rows in the file are those of {}", file.data.as_deref().unwrap_or("the data")));
    }
    let confirmed = refusals.is_empty();
    let sentence = match refusals.first() {
        Some(why) => format!("not confirmed: {why}"),
        None if assumed.is_empty() => format!("confirmed: {}", claims.join("; ")),
        None => format!("confirmed: {}; assuming that {}", claims.join("; "), assumed.join(", and that ")),
    };
    Ok(Verdict { confirmed, sentence, assumed, refusals, problem: file.problem, data: file.data, proximity, references })
}
