//! A checker of certificates that shares no code with the solver: it reads the file alone and derives the claims again in exact
//! arithmetic. Producing certificates, and everything else of this crate and of the library, does not belong here.

mod conflict;
mod cuts;
mod format;
mod model;
mod number;
mod proximity;
mod reference;
mod rounded;
mod rows;

use serde::Serialize;

use format::{Constant, FORMAT, File};
use model::{Prepared, Rowwise};

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
    /// The claim that the constraints conflict.
    pub conflict: Option<Conflict>,
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

/// The claimed distance within which no point satisfies all constraints.
#[derive(Debug, Clone, Serialize)]
pub struct Conflict {
    /// The distance; `null` for the whole domain.
    pub radius: Option<f64>,
    /// What is left of the weighted sum of the cuts at that distance, relative to the point. It is positive if the claim follows.
    pub margin: Option<f64>,
    /// Largest recorded constraint value at the point; `null` if no cut was computed there.
    pub violation: Option<f64>,
    /// Number of constraints.
    pub functions: usize,
    /// Number of constraints whose values and subgradients were recomputed from the rows.
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

/// What the claims of a file rest on beyond the file.
#[derive(Default)]
struct Assumptions {
    /// Number of functions, and of those whose recorded values are trusted.
    functions: [usize; 2],
    /// Whether weak-convexity constants are trusted, and whether some of these are estimates.
    constants: [bool; 2],
    domain: Option<String>,
}

impl Assumptions {
    fn add<'a>(&mut self, [all, recomputed]: [usize; 2], follow: bool, constants: impl IntoIterator<Item = &'a Constant>) {
        if all - recomputed > self.functions[1] || self.functions[0] == 0 {
            self.functions = [all, all - recomputed];
        }
        if !follow {
            let estimated = constants.into_iter().any(|c| c.source == "Estimated");
            self.constants = [true, self.constants[1] || estimated];
        }
    }

    /// Lists the assumptions as parts of a sentence.
    fn list(self, file: &File) -> Vec<String> {
        let mut all = vec![];
        let [functions, trusted] = self.functions;
        if trusted > 0 {
            let which = if trusted == functions { "all".into() } else { format!("{trusted} of {functions}") };
            all.push(format!("the recorded values, subgradients and their errors of {which} functions are right"));
        }
        if self.constants[0] {
            let which = if self.constants[1] { ", some of which are only estimates," } else { "" };
            all.push(format!("the weak-convexity constants{which} hold"));
        }
        all.extend(self.domain.map(|domain| format!("the recorded half-spaces contain the domain ({domain})")));
        if file.model.as_ref().is_some_and(|model| model.scales.as_ref().is_some_and(|scales| scales.given)) {
            all.push("the scales of ridge are those of the training rows".into());
        }
        if file.model.is_some() {
            all.push(format!("the rows in the file are those of {}", file.data.as_deref().unwrap_or("the data")));
        }
        all
    }
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
    let (mut claims, mut assumed, mut refusals) = (vec![], Assumptions::default(), vec![]);
    if let Some(model) = &file.model {
        model.validate().map_err(damaged)?;
        refusals.extend(model.check_scales());
    }
    let rowwise = file.model.as_ref().map(Rowwise::new);
    let prepared: Vec<Option<Prepared>> =
        file.model.iter().flat_map(|model| model.functions.iter().map(|f| model.prepare(f))).collect();
    let functions: Vec<Option<&Prepared>> = prepared.iter().map(Option::as_ref).collect();
    let finite = |x: f64| x.is_finite().then_some(x);
    let mut proximity = None;
    if let Some(p) = &file.proximity {
        let found = proximity::check(p, rowwise.as_ref(), &functions).map_err(damaged)?;
        claims.push(match p.upper {
            Some(_) if found.lower > 0.0 => {
                let (lower, upper) = (outwards(found.lower, -1.0), outwards(found.upper, 1.0));
                format!("the proximal point is between {lower} and {upper} away from the point")
            }
            Some(_) => format!("the proximal point is at most {} away from the point", outwards(found.upper, 1.0)),
            None => "no upper end is claimed for the distance from the proximal point".into(),
        });
        assumed.add([found.functions, found.recomputed], found.constants_follow, std::iter::once(&p.rho_f).chain(&p.rho_g));
        assumed.domain = found.assumed_domain;
        refusals.extend(found.refusals);
        proximity = Some(Proximity {
            claimed: [Some(p.lower), p.upper],
            derived: [finite(found.lower), finite(found.upper)],
            violation: finite(found.violation),
            relaxed: p.relaxed,
            functions: found.functions,
            recomputed: found.recomputed,
            cuts: found.cuts,
        });
    }
    let mut conflict = None;
    if let Some(p) = &file.conflict {
        let found = conflict::check(p, rowwise.as_ref(), &functions).map_err(damaged)?;
        let place = p.radius.map_or("of the domain".into(), |radius| format!("within {} of the point", outwards(radius, -1.0)));
        claims.push(format!("no point {place} satisfies all constraints within their tolerances"));
        assumed.add([found.functions, found.recomputed], found.constants_follow, &p.rho_g);
        assumed.domain = assumed.domain.or(found.assumed_domain);
        refusals.extend(found.refusals);
        conflict = Some(Conflict {
            radius: p.radius,
            margin: finite(found.margin),
            violation: finite(found.violation),
            functions: found.functions,
            recomputed: found.recomputed,
            cuts: found.cuts,
        });
    }
    let mut references = vec![];
    for r in &file.references {
        let rowwise = rowwise.as_ref().ok_or("is a damaged certificate: it has a reference value and no rows")?;
        let found = reference::check(rowwise, r).map_err(damaged)?;
        let scope =
            r.radius.map_or_else(|| "for all weights".to_string(), |radius| format!("for weights of norm up to {radius:e}"));
        let expression = r.function.expression.clone();
        let (low, high) = ((r.lower * 1e9).floor() / 1e9, (found.value.max(r.value) * 1e9).ceil() / 1e9);
        claims.push(format!("best({expression}) is at least {low} {scope} and at most {high}"));
        refusals.extend(found.refusals);
        references.push(Reference { expression, value: r.value, lower: r.lower, radius: r.radius, derived: found.lower });
    }
    if claims.is_empty() {
        return Err("contains no claim".into());
    }
    let assumed = assumed.list(&file);
    let confirmed = refusals.is_empty();
    let sentence = match refusals.first() {
        Some(why) => format!("not confirmed: {why}"),
        None if assumed.is_empty() => format!("confirmed: {}", claims.join("; ")),
        None => format!("confirmed: {}; assuming that {}", claims.join("; "), assumed.join(", and that ")),
    };
    Ok(Verdict {
        confirmed,
        sentence,
        assumed,
        refusals,
        problem: file.problem,
        data: file.data,
        proximity,
        conflict,
        references,
    })
}
