//! Files of certificates: everything that a claim follows from, for a check by another program. The check is in `check`.

use std::path::Path;

use serde::Serialize;
use thalweg::certify::{Certificate, Conflict as FoundConflict, ProximityRecord};
use thalweg::learn::{Best, BestRecord, FunctionRecord, Learning, ModelRecord, Scope, best_with_record};
use thalweg::oracle::Modulus;

use crate::{Error, Result};

/// Format of the file.
pub const FORMAT: u32 = 2;
/// Largest number of entries of rows that a file includes.
pub const ENTRIES: usize = 10_000_000;

/// Contents of a certificate file.
#[derive(Debug, Serialize)]
pub struct Proof {
    format: u32,
    /// Version of the library that made the certificate.
    thalweg: &'static str,
    problem: String,
    data: Option<String>,
    proximity: Option<Proximity>,
    conflict: Option<Conflict>,
    references: Vec<Reference>,
    model: Option<ModelRecord>,
}

#[derive(Debug, Serialize)]
struct Proximity {
    point: Vec<f64>,
    lower: f64,
    upper: Option<f64>,
    relaxed: f64,
    mu: f64,
    mu_g: f64,
    rho_f: Modulus,
    rho_g: Vec<Modulus>,
    record: ProximityRecord,
}

#[derive(Debug, Serialize)]
struct Conflict {
    point: Vec<f64>,
    radius: Option<f64>,
    tolerances: Vec<f64>,
    rho_g: Vec<Modulus>,
    record: ProximityRecord,
}

#[derive(Debug, Serialize)]
struct Reference {
    function: FunctionRecord,
    value: f64,
    lower: f64,
    radius: Option<f64>,
    point: Vec<f64>,
    multipliers: Vec<Vec<(f64, f64)>>,
    combinations: Vec<(usize, Vec<(usize, f64)>)>,
}

impl Proof {
    /// Collects a certificate of the point `x` and its record. The rows of `model` and its reference values are included unless
    /// they have more than [`ENTRIES`] entries; its functions must be those of the certificate.
    pub fn new(
        problem: String,
        x: &[f64],
        found: Option<(&Certificate, ProximityRecord)>,
        model: Option<&Learning>,
    ) -> Result<Self> {
        let model = model.filter(|model| model.entries() <= ENTRIES);
        let mut references = vec![];
        for best in model.map_or(&[][..], Learning::references) {
            references.extend(model.map(|model| reference(model, best)).transpose()?.flatten());
        }
        let proximity = found.map(|(c, record)| Proximity {
            point: x.to_vec(),
            lower: c.lower,
            upper: c.upper.is_finite().then_some(c.upper),
            relaxed: c.relaxed,
            mu: c.mu,
            mu_g: c.mu_g,
            rho_f: c.rho_f,
            rho_g: c.rho_g.clone(),
            record,
        });
        let model = model.map(Learning::record);
        let version = env!("CARGO_PKG_VERSION");
        Ok(Proof { format: FORMAT, thalweg: version, problem, data: None, proximity, conflict: None, references, model })
    }

    /// Adds the proof that the constraints conflict around the point `x`.
    #[must_use]
    pub fn with_conflict(mut self, x: &[f64], found: Option<(&FoundConflict, ProximityRecord)>) -> Self {
        self.conflict = found.map(|(c, record)| Conflict {
            point: x.to_vec(),
            radius: c.radius,
            tolerances: c.tolerances.clone(),
            rho_g: c.rho_g.clone(),
            record,
        });
        self
    }

    /// Returns whether there is no claim.
    pub fn is_empty(&self) -> bool {
        self.proximity.is_none() && self.conflict.is_none() && self.references.is_empty()
    }

    /// Names the data that the rows come from.
    #[must_use]
    pub fn with_data(mut self, data: Option<String>) -> Self {
        self.data = data;
        self
    }

    /// Formats the file.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::Request(format!("the certificate cannot be written as JSON: {e}")))
    }

    /// Writes the file.
    pub fn write(&self, file: &Path) -> Result<()> {
        crate::output::write_whole(file, &self.to_json()?)
    }
}

/// Computes a reference value of a model again, with its multipliers; `None` if its bound does not follow from multipliers, or if
/// `known` is not the value on these rows.
fn reference(model: &Learning, known: &Best) -> Result<Option<Reference>> {
    let problem = model.on_same_data().minimize(known.expression.parse()?).build()?;
    let (found, Some(BestRecord { point, multipliers, combinations })) = best_with_record(&problem)? else { return Ok(None) };
    if found.value.to_bits() != known.value.to_bits() {
        return Ok(None);
    }
    let radius = match found.scope {
        Scope::Everywhere => None,
        Scope::Within { radius } => Some(radius),
    };
    let function = problem.record_of_objective();
    if function.pieces.is_none() {
        return Ok(None);
    }
    Ok(Some(Reference { function, value: found.value, lower: found.lower, radius, point, multipliers, combinations }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use thalweg::certify::{Bounds, certify, certify_conflict, certify_with_record};
    use thalweg::learn::{Data, Groups};
    use thalweg::math::Matrix;
    use thalweg::math::rng::{Purpose, Rng};
    use thalweg::oracle::{Description, Problem, Subgradients};
    use thalweg::sets::{Ball, Bounds as Sides};

    use super::*;
    use crate::check::{Verdict, check};

    /// Checks a file after a change.
    fn changed(proof: &Value, change: impl FnOnce(&mut Value)) -> Verdict {
        let mut file = proof.clone();
        change(&mut file);
        check(file.to_string().as_bytes()).unwrap()
    }

    /// Certifies a point, and returns the certificate and the file.
    fn proved(problem: &dyn Subgradients, x: &[f64], how: &Bounds, model: Option<&Learning>) -> (Certificate, Value) {
        let (found, record) = certify_with_record(problem, x, how).unwrap();
        assert_eq!(found, certify(problem, x, how).unwrap(), "a record must not change the certificate");
        let proof = Proof::new(problem.fingerprint(), x, Some((&found, record)), model).unwrap();
        (found, serde_json::from_str(&proof.to_json().unwrap()).unwrap())
    }

    #[track_caller]
    fn confirmed(proof: &Value) -> Verdict {
        let verdict = changed(proof, |_| ());
        assert!(verdict.confirmed, "{} {:?}", verdict.sentence, verdict.refusals);
        verdict
    }

    fn scale(value: &mut Value, factor: f64) {
        *value = json!(value.as_f64().unwrap() * factor);
    }

    fn symmetric(rng: &mut Rng) -> f64 {
        2.0 * rng.uniform() - 1.0
    }

    fn vector(rng: &mut Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| symmetric(rng)).collect()
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// A problem with a planted proximal point z: the sum of a maximum of affine functions that are equal at z and a quadratic of
    /// curvature `bend`, subject to a linear, convex or concave constraint that is active at z in the subproblem. Returns the problem,
    /// the point to certify, mu, and its distance from z.
    fn planted(rng: &mut Rng, n: usize, bend: f64, curve: f64, constant: f64) -> (Problem, Vec<f64>, f64, f64) {
        let (z, tilt, mu) = (vector(rng, n), vector(rng, n), [0.5, 1.0, 3.0][rng.below(3)]);
        let slopes: Vec<Vec<f64>> = (0..n + 2).map(|_| vector(rng, n)).collect();
        let (normal, multiplier) = (vector(rng, n), 0.2 + rng.uniform());
        let (rho_f, rho_g) = (f64::max(-bend, 0.0), f64::max(-curve, 0.0));
        let share = 1.0 / slopes.len() as f64;
        let pull: Vec<f64> = (0..n)
            .map(|k| slopes.iter().map(|s| share * s[k]).sum::<f64>() + bend * z[k] + tilt[k] + multiplier * normal[k])
            .collect();
        let coefficient = rho_f + mu + multiplier * rho_g;
        let x: Vec<f64> = z.iter().zip(&pull).map(|(z, v)| z + v / coefficient).collect();
        let far = dot(&pull, &pull).sqrt() / coefficient;
        let step = |y: &[f64], z: &[f64]| y.iter().zip(z).map(|(y, z)| y - z).collect::<Vec<f64>>();
        let (z1, z2, z3, z4) = (z.clone(), z.clone(), z.clone(), z);
        let (pieces, again) = (slopes.clone(), slopes);
        let (along, normal2) = (normal.clone(), normal);
        let (tilt1, tilt2) = (tilt.clone(), tilt);
        let problem = Problem::new(n)
            .objective(
                move |y| {
                    let d = step(y, &z1);
                    let highest = pieces.iter().map(|s| dot(s, &d)).fold(f64::NEG_INFINITY, f64::max);
                    highest + 0.5 * bend * dot(y, y) + dot(&tilt1, y) + constant
                },
                move |y, out| {
                    let d = step(y, &z2);
                    let top = again.iter().max_by(|a, b| dot(a, &d).total_cmp(&dot(b, &d))).unwrap();
                    (0..n).for_each(|k| out[k] = top[k] + bend * y[k] + tilt2[k]);
                },
            )
            .constraint(
                "active",
                move |y| {
                    let d = step(y, &z3);
                    dot(&along, &d) + 0.5 * curve * dot(&d, &d) - 0.5 * rho_g * far * far
                },
                move |y, out| (0..n).for_each(|k| out[k] = normal2[k] + curve * (y[k] - z4[k])),
            )
            .weak_convexity(rho_f, rho_g);
        (problem, x, mu, far)
    }

    #[test]
    fn planted_certificates_are_confirmed_and_narrower_ones_refused() {
        let mut rng = Rng::new(7, Purpose::Data);
        let (mut confirmed_count, mut refused) = (0, 0);
        for trial in 0..54 {
            let (n, bend) = (1 + rng.below(6), [1.0, 0.0, -0.7][trial % 3]);
            let (curve, constant) = ([0.0, 1.0, -1.0][trial / 3 % 3], [0.0, 1e3][trial / 9 % 2]);
            let (problem, x, mu, far) = planted(&mut rng, n, bend, curve, constant);
            let how = Bounds { mu: Some(mu), width: [0.3, 1e-2][trial % 2], evaluations: 60, ..Bounds::default() };
            let (found, proof) = proved(&problem, &x, &how, None);
            assert!(found.lower <= far * (1.0 + 1e-9) && far <= found.upper * (1.0 + 1e-9), "{far} {found:?}");
            let verdict = confirmed(&proof);
            assert!(
                verdict.sentence.contains("assuming that the recorded values, subgradients and their errors of all functions")
            );
            confirmed_count += 1;
            // An interval that misses the truth, on either side.
            for (key, end) in [("upper", far * 0.999), ("lower", far * 1.001)] {
                let verdict = changed(&proof, |p| p["proximity"][key] = json!(end));
                assert!(!verdict.confirmed, "trial {trial}: {key} {end}, truth {far}, {}", verdict.sentence);
                assert!(verdict.sentence.starts_with(&format!("not confirmed: the {key} end ")), "{}", verdict.sentence);
                refused += 1;
            }
        }
        assert_eq!((confirmed_count, refused), (54, 108));
    }

    #[test]
    fn estimated_constants_and_domains_are_named() {
        let problem =
            || Problem::new(1).objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum());
        let how = Bounds::default();
        let (_, proof) = proved(&problem().estimate_weak_convexity(), &[0.25], &how, None);
        let verdict = confirmed(&proof);
        assert!(
            verdict.sentence.contains("the weak-convexity constants, some of which are only estimates, hold"),
            "{}",
            verdict.sentence
        );
        // The ball cuts the way to the proximal point short, so that a half-space has a multiplier.
        let ball = problem().weak_convexity(2.0, 0.0).domain(Ball::new(0.4).unwrap());
        let (_, proof) = proved(&ball, &[0.25], &how, None);
        confirmed(&proof);
        let halves = proof["proximity"]["record"]["domain_cuts"].as_array().unwrap();
        assert!(!halves.is_empty(), "{proof}");
        let verdict = changed(&proof, |p| p["proximity"]["record"]["domain"]["ball"]["radius"] = json!(0.9));
        assert!(!verdict.confirmed, "{}", verdict.sentence);
        let verdict = changed(&proof, |p| p["proximity"]["record"]["domain"] = json!("whole"));
        assert!(verdict.sentence.contains("a recorded half-space does not contain the domain"), "{}", verdict.sentence);
        let verdict = changed(&proof, |p| p["proximity"]["record"]["domain"]["ball"]["radius"] = json!(0.1));
        assert!(verdict.refusals.iter().any(|why| why.ends_with(" outside the domain")), "{:?}", verdict.refusals);
    }

    #[test]
    fn each_changed_field_is_refused() {
        let mut rng = Rng::new(3, Purpose::Data);
        let (problem, x, mu, _) = planted(&mut rng, 3, 0.5, 1.0, 0.0);
        let (_, proof) = proved(&problem, &x, &Bounds { mu: Some(mu), width: 1e-3, ..Bounds::default() }, None);
        confirmed(&proof);
        let cuts = proof["proximity"]["record"]["cuts"].as_array().unwrap().clone();
        let heaviest = cuts.iter().filter(|cut| cut["function"] == json!(0) && cut["visit"] != json!(0));
        let heaviest = heaviest.max_by(|a, b| a["weight"].as_f64().unwrap().total_cmp(&b["weight"].as_f64().unwrap())).unwrap();
        let at = heaviest["visit"].as_u64().unwrap() as usize;
        let refused = |change: &dyn Fn(&mut Value), why: &str| {
            let verdict = changed(&proof, |p| change(&mut p["proximity"]));
            assert!(!verdict.confirmed && verdict.refusals.iter().any(|r| r.contains(why)), "{why}: {}", verdict.sentence);
        };
        refused(&|p| scale(&mut p["upper"], 0.99), "the upper end");
        refused(&|p| scale(&mut p["lower"], 1.01), "the lower end");
        refused(&|p| scale(&mut p["mu"], 1.1), "");
        refused(&|p| p["rho_f"]["value"] = json!(0.5), "");
        refused(&|p| scale(&mut p["point"][0], 1.01), "the first recorded point is not the certified one");
        refused(&|p| scale(&mut p["record"]["cuts"][0]["weight"], 1.01), "the multipliers of the objective sum to");
        refused(&|p| scale(&mut p["record"]["visits"][at]["slopes"][0][0], 1.05), "");
        refused(&|p| scale(&mut p["record"]["visits"][at]["point"][0], 1.05), "");
        refused(
            &|p| {
                let value = &mut p["record"]["visits"][at]["values"][0];
                *value = json!(value.as_f64().unwrap() - 0.1);
            },
            "",
        );
        refused(&|p| p["record"]["visits"][at]["value_errors"][0] = json!(0.1), "");
        refused(&|p| p["record"]["visits"][at]["slope_errors"][0] = json!(0.1), "");
        refused(&|p| p["record"]["upper"] = json!([]), "");
        let last = proof["proximity"]["record"]["upper"][0][1].as_u64().unwrap() as usize;
        refused(&|p| p["record"]["visits"][last]["values"][1] = json!(0.1), "exceeds the constraints by");
        refused(
            &|p| {
                let cuts = p["record"]["cuts"].as_array_mut().unwrap();
                cuts.retain(|cut| cut["function"] != json!(0));
            },
            "there is no cut of the objective",
        );
        // What does not fit together is a damaged file, not a verdict.
        let damaged = |change: &dyn Fn(&mut Value)| {
            let mut file = proof.clone();
            change(&mut file);
            check(file.to_string().as_bytes()).unwrap_err()
        };
        assert!(damaged(&|p| p["proximity"]["point"] = json!([0.0])).contains("do not fit together"));
        assert!(damaged(&|p| p["proximity"]["record"]["cuts"][0]["visit"] = json!(1000)).contains("do not fit together"));
        assert!(damaged(&|p| p["proximity"]["record"]["cuts"][0]["weight"] = json!(-1.0)).contains("do not fit together"));
        assert!(damaged(&|p| p["format"] = json!(1)).contains("has format 1"));
        assert!(damaged(&|p| p["proximity"] = Value::Null).contains("contains no claim"));
        assert!(check(b"{").unwrap_err().starts_with("is not JSON"));
        assert!(check(b"{}").unwrap_err().contains("has no number 'format'"));
    }

    /// Rows of three columns with two groups, some with weights; the third column is the sum of the others.
    fn data(rng: &mut Rng, rows: usize, weighted: bool) -> Data {
        let mut entries = vec![];
        for _ in 0..rows {
            // Multiples of 1/8 keep the combination exact.
            let (a, b) = ((16.0 * symmetric(rng)).round() / 8.0, (16.0 * symmetric(rng)).round() / 8.0);
            entries.extend([a, b, a + b]);
        }
        let labels = (0..rows).map(|i| if entries[3 * i] + 4.0 * symmetric(rng) > 0.0 { 1.0 } else { -1.0 }).collect();
        let groups = Groups { names: vec!["u".into(), "v".into()], of_row: (0..rows).map(|i| (i % 2) as u32).collect() };
        let weights = weighted.then(|| (0..rows).map(|i| 0.5 + (i % 3) as f64).collect());
        Data { features: Matrix::dense(rows, 3, entries).unwrap(), labels, groups: Some(groups), weights }
    }

    #[test]
    fn certificates_of_models_are_recomputed_from_the_rows() {
        let mut rng = Rng::new(5, Purpose::Data);
        for (trial, (minimize, subject_to)) in [
            ("hinge", vec!["demographic_parity <= 0.05", "l2 <= 2"]),
            ("logistic + 0.1 * l2", vec!["hinge <= 1.1 * best(hinge)"]),
            ("hinge + 0.02 * scad", vec!["false_positive_rate <= 0.3", "l1 <= 1.5"]),
            ("l2", vec!["logistic <= 1.2 * best(logistic)"]),
            ("logistic", vec!["equal_opportunity <= 0.1", "false_negative_rate <= 0.6"]),
            ("0.5 * hinge + 0.1 * l1", vec!["logistic <= 1.5 * best(logistic + 0.01 * l2)"]),
            ("hinge", vec!["hinge <= 1.1 * best(hinge + 0.01 * l1)"]),
            ("logistic + 0.001 * ridge", vec!["equalised_odds <= 0.1"]),
            ("truncated_logistic", vec!["roc_gap(thresholds = 5, low = -1, high = 1) <= 0.1"]),
            ("truncated_logistic(scale = 2)", vec!["demographic_parity(compare = 'to-overall', temperature = 0.5) <= 0.02"]),
            ("ridge", vec!["hinge <= 1.2 * best(hinge + 0.01 * ridge)", "equalised_odds(compare = 'to-overall') <= 0.05"]),
            ("logistic(on = 'positives')", vec!["logistic(on = 'negatives') <= 1.5 * best(logistic + 0.1 * ridge + 0.01 * l1)"]),
        ]
        .into_iter()
        .enumerate()
        {
            let builder =
                subject_to.iter().fold(Learning::on(data(&mut rng, 40, trial % 2 == 1)), |b, c| b.subject_to(c.parse().unwrap()));
            let problem = builder.minimize(minimize.parse().unwrap()).intercept(trial != 2).build().unwrap();
            for x in [vec![0.0; problem.dim()], vec![0.3; problem.dim()], vec![-0.125; problem.dim()]] {
                let (_, proof) = proved(&problem, &x, &Bounds { evaluations: 60, ..Bounds::default() }, Some(&problem));
                let verdict = confirmed(&proof);
                let p = verdict.proximity.unwrap();
                assert_eq!((p.recomputed, p.functions), (1 + subject_to.len(), 1 + subject_to.len()));
                assert_eq!(verdict.assumed, ["the rows in the file are those of the data"], "{minimize}");
                let wanted = subject_to.iter().filter(|c| c.contains("best")).count();
                assert_eq!(verdict.references.len(), wanted, "{minimize}");
                assert!(
                    verdict.references.iter().all(|r| r.derived >= r.lower && r.lower <= r.value),
                    "{:?}",
                    verdict.references
                );
            }
        }
    }

    #[test]
    fn each_changed_field_of_a_model_is_refused() {
        let mut rng = Rng::new(8, Purpose::Data);
        let builder = Learning::on(data(&mut rng, 40, true)).minimize("logistic".parse().unwrap());
        let builder = builder
            .subject_to("demographic_parity <= 0.1".parse().unwrap())
            .subject_to("hinge <= 1.1 * best(hinge)".parse().unwrap());
        let problem = builder.intercept(true).build().unwrap();
        let (_, proof) = proved(&problem, &[0.2; 4], &Bounds { evaluations: 60, ..Bounds::default() }, Some(&problem));
        confirmed(&proof);
        let refused = |change: &dyn Fn(&mut Value), why: &str| {
            let verdict = changed(&proof, |p| change(p));
            assert!(!verdict.confirmed && verdict.refusals.iter().any(|r| r.contains(why)), "{why}: {:?}", verdict.refusals);
        };
        refused(&|p| scale(&mut p["model"]["rows"][3][0][1], 1.5), "follows from the rows");
        refused(&|p| scale(&mut p["model"]["labels"][3], -1.0), "follows from the rows");
        refused(&|p| scale(&mut p["model"]["weights"][3], 1.001), "follows from the rows");
        refused(&|p| p["model"]["functions"][1]["bound"] = json!(0.2), "follows from the rows");
        refused(&|p| scale(&mut p["model"]["functions"][1]["pieces"][0]["rates"]["temperature"], 1.1), "follows from the rows");
        refused(&|p| p["model"]["functions"][0]["pieces"][0]["loss"]["loss"] = json!("hinge"), "follows from the rows");
        refused(&|p| scale(&mut p["proximity"]["rho_g"][0]["value"], 0.9), "which follows from the rows");
        let at = proof["proximity"]["record"]["cuts"][0]["visit"].as_u64().unwrap() as usize;
        refused(
            &|p| scale(&mut p["proximity"]["record"]["visits"][at]["slopes"][0][1], 1.0 + 1e-9),
            "the recorded subgradient of 'logistic' is",
        );
        refused(&|p| scale(&mut p["proximity"]["record"]["visits"][0]["values"][0], 1.0 + 1e-9), "follows from the rows");
        // The reference value: its claims, its multipliers and its scope.
        let best = |change: &dyn Fn(&mut Value), why: &str| refused(&|p| change(&mut p["references"][0]), why);
        best(&|r| scale(&mut r["lower"], 1.0 + 1e-6), "the lower bound");
        best(&|r| scale(&mut r["value"], 1.0 - 1e-6), "the recorded value");
        best(&|r| scale(&mut r["point"][0], 1.1), "the recorded value");
        let busy = proof["references"][0]["multipliers"][0].as_array().unwrap().iter().position(|m| m[0] != json!(0.0)).unwrap();
        best(&|r| scale(&mut r["multipliers"][0][busy][0], 0.9), "best(hinge)");
        best(&|r| scale(&mut r["multipliers"][0][busy][0], -1.0), "best(hinge)");
        best(&|r| r["multipliers"][0][busy][0] = json!(1.0), "best(hinge)");
        // The third column is the sum of the others, and without its combination the moments have no inverse.
        assert_eq!(proof["references"][0]["radius"], Value::Null, "{}", proof["references"][0]);
        assert_eq!(proof["references"][0]["combinations"].as_array().unwrap().len(), 1);
        best(&|r| r["combinations"] = json!([]), "do not give a bound for all weights");
        best(&|r| scale(&mut r["combinations"][0][1][0][1], 1.5), "do not give a bound for all weights");
    }

    #[test]
    fn bounds_of_reference_values_hold_in_all_forms() {
        let mut rng = Rng::new(9, Purpose::Data);
        for (trial, expression) in
            ["hinge", "logistic", "hinge + 0.1 * l2", "logistic + 0.01 * l2", "hinge + 0.05 * l1", "logistic + 0.02 * l1"]
                .into_iter()
                .cycle()
                .take(24)
                .enumerate()
        {
            let builder = Learning::on(data(&mut rng, 20 + trial, trial % 4 == 3)).minimize("l2".parse().unwrap());
            let text = format!("{expression} <= 1.5 * best({expression})");
            let problem = builder.subject_to(text.parse().unwrap()).intercept(trial % 2 == 0).build().unwrap();
            let proof = Proof::new(problem.fingerprint(), &[], None, Some(&problem)).unwrap();
            let proof: Value = serde_json::from_str(&proof.to_json().unwrap()).unwrap();
            let verdict = confirmed(&proof);
            let known = &problem.references()[0];
            assert_eq!((verdict.references[0].value, verdict.references[0].lower), (known.value, known.lower));
            let verdict = changed(&proof, |p| p["references"][0]["lower"] = json!(known.value * (1.0 + 1e-7) + 1e-9));
            assert!(!verdict.confirmed, "{expression}: {}", verdict.sentence);
        }
    }

    /// Proves a conflict, and returns it with the file.
    fn conflicting(problem: &dyn Subgradients, x: &[f64], model: Option<&Learning>) -> (FoundConflict, Value) {
        let (found, record) = certify_conflict(problem, x, &Bounds::default()).unwrap().unwrap();
        let proof = Proof::new(problem.fingerprint(), x, None, model).unwrap().with_conflict(x, Some((&found, record)));
        (found, serde_json::from_str(&proof.to_json().unwrap()).unwrap())
    }

    #[test]
    fn conflicts_are_confirmed_and_changed_ones_refused() {
        // |x - a_j| <= b_j for three points of the plane that have no common point: the nearest such circles leave a gap.
        let centres = [[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]];
        let circles = |bend: f64, wide: f64| {
            let mut problem = Problem::new(2).objective(|x| x[0], |_, s| s.copy_from_slice(&[1.0, 0.0]));
            for (j, c) in centres.into_iter().enumerate() {
                let distance = move |x: &[f64]| f64::hypot(x[0] - c[0], x[1] - c[1]);
                problem = problem.constraint(
                    format!("circle {}", j + 1),
                    move |x| distance(x) - wide - 0.5 * bend * dot(x, x),
                    move |x, s| (0..2).for_each(|k| s[k] = (x[k] - c[k]) / distance(x) - bend * x[k]),
                );
            }
            problem.weak_convexity(0.0, bend)
        };
        for (bend, wide) in [(0.0, 1.5), (0.0, 2.4), (0.01, 1.5)] {
            let problem = circles(bend, wide);
            let (found, proof) = conflicting(&problem, &[2.0, 1.5], None);
            let verdict = confirmed(&proof);
            let radius = found.radius.unwrap();
            assert!(radius > if bend > 0.0 { 5.0 } else { 1e3 }, "{radius}");
            assert!(verdict.sentence.contains(" satisfies all constraints within their tolerances; assuming that the recorded"));
            assert_eq!(verdict.conflict.unwrap().functions, 3);
            let refused = |change: &dyn Fn(&mut Value), why: &str| {
                let verdict = changed(&proof, |p| change(&mut p["conflict"]));
                assert!(!verdict.confirmed && verdict.refusals.iter().any(|r| r.contains(why)), "{why}: {}", verdict.sentence);
            };
            let excluded = "the recorded cuts do not exclude";
            refused(&|c| c["radius"] = json!(if bend > 0.0 { 1.001 * radius } else { 1e20 }), excluded);
            refused(&|c| c["radius"] = Value::Null, "not a bounded box or ball");
            refused(&|c| c["tolerances"] = json!([10.0, 10.0, 10.0]), excluded);
            refused(&|c| scale(&mut c["record"]["cuts"][0]["weight"], 3.0), excluded);
            refused(&|c| c["record"]["cuts"][0]["function"] = json!(0), "must be those of constraints");
            refused(&|c| c["record"]["cuts"] = json!([]), "must be those of constraints");
            let at = proof["conflict"]["record"]["cuts"][0]["visit"].as_u64().unwrap() as usize;
            refused(&|c| c["record"]["visits"][at]["slope_errors"] = json!([0.1, 0.1, 0.1, 0.1]), excluded);
            refused(&|c| c["record"]["visits"][at]["value_errors"] = json!([9.0, 9.0, 9.0, 9.0]), excluded);
            if bend > 0.0 {
                refused(&|c| (0..3).for_each(|j| scale(&mut c["rho_g"][j]["value"], 1.1)), excluded);
            }
        }
        // Circles of this size have a common point.
        assert!(certify_conflict(&circles(0.0, 2.6), &[2.0, 1.5], &Bounds::default()).unwrap().is_none());
        assert!(certify_conflict(&circles(0.0, 2.6), &[9.0, 9.0], &Bounds::default()).unwrap().is_none());
    }

    #[test]
    fn conflicts_in_a_domain_are_confirmed() {
        // x^2 + y^2 >= 9 has no point in the ball of radius 2, nor in a box of side 2, and -x^2 is weakly convex.
        let outside = || {
            Problem::new(2)
                .objective(|x| x[0], |_, s| s.copy_from_slice(&[1.0, 0.0]))
                .constraint("outside", |x| 9.0 - dot(x, x), |x, s| (0..2).for_each(|k| s[k] = -2.0 * x[k]))
                .weak_convexity(0.0, 2.0)
        };
        let (found, proof) = conflicting(&outside(), &[0.0, 0.0], None);
        assert!((found.radius.unwrap() - 3.0).abs() < 1e-5, "{found:?}");
        confirmed(&proof);
        for x in [[0.0, 0.0], [0.1, 0.2]] {
            let (found, proof) = conflicting(&outside().domain(Ball::new(2.0).unwrap()), &x, None);
            assert_eq!(found.radius, None);
            let verdict = confirmed(&proof);
            assert!(verdict.sentence.contains("no point of the domain satisfies all constraints"), "{}", verdict.sentence);
            let verdict = changed(&proof, |p| p["conflict"]["record"]["domain"]["ball"]["radius"] = json!(3.1));
            assert!(!verdict.confirmed, "{}", verdict.sentence);
            let square = Sides::uniform(-1.0, 1.0).unwrap();
            let (found, proof) = conflicting(&outside().domain(square), &x, None);
            assert_eq!(found.radius, None);
            confirmed(&proof);
            let verdict = changed(&proof, |p| p["conflict"]["record"]["domain"]["box"]["high"][0] = json!(3.1));
            assert!(!verdict.confirmed, "{}", verdict.sentence);
            let verdict = changed(&proof, |p| p["conflict"]["record"]["domain"]["box"]["high"][0] = Value::Null);
            assert!(!verdict.confirmed, "{}", verdict.sentence);
        }
        // A linear constraint needs half-spaces of the domain in the proof: x + y >= 3 in the unit ball and the unit square.
        let linear = || {
            Problem::new(2)
                .objective(|x| x[0], |_, s| s.copy_from_slice(&[1.0, 0.0]))
                .constraint("far", |x| 3.0 - x[0] - x[1], |_, s| s.fill(-1.0))
                .weak_convexity(0.0, 0.0)
        };
        let (_, proof) = conflicting(&linear().domain(Ball::new(1.0).unwrap()), &[0.3, -0.2], None);
        confirmed(&proof);
        let (_, proof) = conflicting(&linear().domain(Sides::uniform(0.0, 1.0).unwrap()), &[0.3, 0.2], None);
        confirmed(&proof);
    }

    #[test]
    fn conflicts_of_models_are_recomputed_from_the_rows() {
        let mut rng = Rng::new(11, Purpose::Data);
        for (trial, subject_to) in [
            vec!["logistic <= 0.2", "l2 <= 0.01"],
            vec!["hinge <= 1.01 * best(hinge)", "l2 <= 0.0001"],
            vec!["false_positive_rate <= 0.05", "false_negative_rate <= 0.05"],
        ]
        .into_iter()
        .enumerate()
        {
            let builder = Learning::on(data(&mut rng, 40, trial == 1)).minimize("hinge".parse().unwrap());
            let builder = subject_to.iter().fold(builder, |b, c| b.subject_to(c.parse().unwrap()));
            let problem = builder.build().unwrap();
            let (found, proof) = conflicting(&problem, &[0.1, 0.0, 0.05], Some(&problem));
            let verdict = confirmed(&proof);
            assert_eq!(verdict.assumed, ["the rows in the file are those of the data"]);
            let conflict = verdict.conflict.unwrap();
            assert_eq!((conflict.recomputed, conflict.functions), (subject_to.len(), subject_to.len()));
            assert_eq!(conflict.radius, found.radius);
            let verdict = changed(&proof, |p| scale(&mut p["model"]["functions"][1]["bound"], 3.0));
            assert!(verdict.refusals.iter().any(|why| why.contains("follows from the rows")), "{}", verdict.sentence);
        }
    }

    #[test]
    fn changed_scales_are_refused() {
        let mut rng = Rng::new(12, Purpose::Data);
        let builder = Learning::on(data(&mut rng, 30, true)).minimize("logistic + 0.1 * ridge".parse().unwrap());
        let problem = builder.intercept(true).build().unwrap();
        let (_, proof) = proved(&problem, &[0.1, -0.3, 0.2, 0.4], &Bounds::default(), Some(&problem));
        confirmed(&proof);
        let verdict = changed(&proof, |p| scale(&mut p["model"]["scales"]["values"][1], 1.0 + 1e-6));
        assert!(
            verdict.refusals.iter().any(|why| why.contains("of column 2 is not its standard deviation")),
            "{:?}",
            verdict.refusals
        );
        // Scales that are part of the problem are named as an assumption.
        let verdict = changed(&proof, |p| p["model"]["scales"]["given"] = json!(true));
        assert!(verdict.sentence.contains("the scales of ridge are those of the training rows"), "{}", verdict.sentence);
    }

    /// The checker must not use the code that it checks.
    #[test]
    fn the_checker_shares_no_code_with_the_solver() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
        let mut files = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap());
            for line in code.filter(|line| !line.contains('"')) {
                assert!(!line.contains("thalweg") && !line.contains("crate::"), "{line}");
            }
            for line in text.lines().filter(|line| line.trim_start().starts_with("use ")) {
                let own = ["use super::", "use std::", "use num_bigint::", "use serde::", "use format::", "use model::"];
                assert!(
                    own.iter().any(|prefix| line.trim_start().starts_with(prefix)) && !line.contains("super::super"),
                    "{line}"
                );
            }
            files += 1;
        }
        assert_eq!(files, 10);
    }
}
