//! `thalweg certify` as a user meets it: models and specs measured anew, files that were tampered with, held-out rows, refusals.

use crate::common::{Place, Ran};
use serde_json::{Value, json};
use thalweg_lab::data::adult;

/// A model of Adult with little training, and what `fit` ended with. The gap between the groups is kept, if loosely.
fn adult(more: &[&str]) -> (Place, Value) {
    let place = Place::new();
    place.put("adult.csv", adult::csv().unwrap());
    let arguments =
        ["fit", "adult.csv", "--label", "income", "--group", "sex", "--iterations", "60", "--solver", "ssg", "--set", "eta=1"];
    let bounds = ["--subject-to", "demographic_parity <= 0.1", "--subject-to", "l2 <= 50", "--out", "m", "--quiet"];
    let ran = place.run(&[&arguments[..], &bounds, more].concat());
    assert!([Some(0), Some(1)].contains(&ran.code), "{ran:?}");
    let model = model(&place);
    (place, model)
}

fn model(place: &Place) -> Value {
    serde_json::from_str(&place.read("m/model.json")).unwrap()
}

/// Certifies the model, and checks the certificate's file if there is a certificate.
fn certify(place: &Place, more: &[&str]) -> Ran {
    let command = [&["certify", "m", "--evaluations", "20"], more].concat();
    let ran = place.run(&command);
    if place.run(&[&command[..], &["--out", "certificate.json"]].concat()).code.is_some_and(|code| code < 2) {
        place.run(&["check", "certificate.json"]).ended(0);
    }
    ran
}

fn near(value: &Value, want: &Value) {
    let (value, want) = (value.as_f64().unwrap(), want.as_f64().unwrap());
    assert!((value - want).abs() <= 1e-9 * want.abs().max(1.0), "{value} is not {want}");
}

#[test]
fn a_model_of_adult_is_measured_anew() {
    let (place, model) = adult(&[]);
    let recorded = &model["measured"];
    assert_eq!(recorded["feasible"], true, "{recorded}");
    let found = certify(&place, &["--json"]).ended(0).json();
    assert_eq!((&found["exit_code"], &found["feasible"], &found["source"]), (&json!(0), &json!(true), &json!("model")));
    assert_eq!((&found["rows"], &found["outside_domain"]), (&json!(39_076), &json!(0.0)));
    near(&found["objective"], &recorded["training"]["objective"]);
    // What training recorded is found again, on the same rows and with the same bounds.
    for (now, then) in found["constraints"].as_array().unwrap().iter().zip(recorded["constraints"].as_array().unwrap()) {
        assert_eq!((&now["name"], &now["bound"], &now["satisfied"]), (&then["name"], &then["bound"], &json!(true)));
        assert_eq!((&now["trained_bound"], &now["sharpened"]), (&then["surrogate_bound"], &then["sharpened"]));
        near(&now["value"], &then["surrogate"]);
        match &then["measured"] {
            Value::Null => assert_eq!((&now["measured"], &now["enforced"]), (&Value::Null, &json!("surrogate"))),
            measured => {
                near(&now["measured"], measured);
                assert_eq!(now["enforced"], "measured");
            }
        }
    }
    assert_eq!((&found["worst"]["name"], &found["worst"]["measured"]), (&json!("demographic_parity"), &json!(true)));
    assert!(found["worst"]["excess"].as_f64().unwrap() <= 0.0);
    let certificate = &found["certificate"];
    let [lower, upper] = ["lower", "upper"].map(|end| certificate[end].as_f64().unwrap());
    assert!(0.0 <= lower && lower <= upper && upper.is_finite(), "{lower} {upper}");
    assert!(certificate["evaluations"].as_u64().unwrap() <= 20);
    assert_eq!(certificate["rho_f"], json!({"value": 0.0, "source": "Proved"}));
    assert_eq!((&found["certificate_refused"], &found["held_out"]), (&Value::Null, &Value::Null));
    let notes = found["notes"].to_string();
    assert!(!notes.contains("changed after training") && !notes.contains("sha256"), "{notes}");

    let words = certify(&place, &["--mu", "2"]).ended(0).out;
    assert!(
        words.starts_with(
            "feasible; every constraint is satisfied on the 39076 training rows\nworst constraint: 'demographic_parity', measured, is 0."
        ),
        "{words}"
    );
    assert!(words.contains(" below its bound 0.1\n") && words.contains("\ndemographic_parity, surrogate "), "{words}");
    // A plain sentence says how close the model is to stationary; distances, constants and evaluations need --explain.
    let plain =
        words.lines().find(|line| line.contains("stationary; the model, of norm ") || line.contains("stationary; a proximal"));
    assert!(plain.is_some_and(|line| !line.contains("rho_f")), "{words}");
    assert!(words.contains("(this is about the problem that was trained, with surrogates in place of rates)\n"), "{words}");
    assert!(!words.contains("rho_f") && !words.contains("evaluations, constants"), "{words}");
    let explained = certify(&place, &["--mu", "2", "--explain"]).ended(0).out;
    assert!(
        explained.contains("\nnear-stationarity: the proximal point is ") && explained.contains(", mu = 2)\n"),
        "{explained}"
    );
    assert!(explained.contains(plain.unwrap()), "{explained}");

    // Another copy of the rows is the same file if its text is; one row less is another one.
    let text = place.read("adult.csv");
    place.put("copy.csv", &text);
    let copied = certify(&place, &["--data", "copy.csv", "--json"]).ended(0).json();
    assert_eq!(copied, found);
    place.put("less.csv", text.trim_end().rsplit_once('\n').unwrap().0);
    let less = certify(&place, &["--data", "less.csv"]);
    assert!(less.out.contains("note: less.csv is not the file that the model was trained on (its sha256"), "{less:?}");
}

#[test]
fn held_out_rows_get_intervals() {
    let (place, model) = adult(&[]);
    let found = certify(&place, &["--holdout", "--json"]).ended(0).json();
    let held = &found["held_out"];
    assert_eq!((&held["rows"], &held["confidence"]), (&json!(9_766), &json!(0.95)));
    let gap = &held["constraints"][0];
    near(&gap["measured"]["value"], &model["measured"]["held_out"]["measured"][0]);
    let end = |of: &Value, end: &str| of[end].as_f64().unwrap();
    for side in [gap, &gap["measured"]] {
        assert!(end(side, "low") <= end(side, "value") && end(side, "value") < end(side, "high"), "{side}");
    }
    // Half the weights squared is the same on all rows.
    let l2 = &held["constraints"][1];
    assert_eq!((&l2["low"], &l2["high"]), (&l2["value"], &l2["value"]));
    // More confidence, a wider interval.
    let surer = certify(&place, &["--holdout", "--confidence", "0.999", "--json"]).ended(0).json();
    assert!(end(&surer["held_out"]["constraints"][0], "high") > end(gap, "high"));
    let words = certify(&place, &["--holdout"]).ended(0).out;
    assert!(
        words.contains("\non 9766 held-out rows, with 95% confidence intervals per line for new rows drawn like these:\n"),
        "{words}"
    );
    assert!(words.contains("at most") && words.contains(&format!("{:.6}", end(&gap["measured"], "high"))), "{words}");
    // The measured rate has to satisfy the bound; the surrogate, whose bound was moved, gets no verdict.
    let below = words.split_once("at most").unwrap().1;
    let verdicts: Vec<bool> =
        below.lines().filter(|l| l.contains("demographic_parity,")).map(|l| l.contains("  bound ")).collect();
    assert_eq!(verdicts, [true, false], "{words}");
}

/// The model with a change, certified.
fn tampered(place: &Place, change: impl FnOnce(&mut Value)) -> Ran {
    let mut changed = model(place);
    change(&mut changed);
    place.put("changed.json", changed.to_string());
    place.run(&["certify", "changed.json", "--evaluations", "3"])
}

#[test]
fn a_model_that_was_tampered_with_is_found_out() {
    let (place, model) = adult(&[]);
    let weights = model["weights"].as_array().unwrap();
    let sex = weights.iter().position(|w| w["feature"] == "sex = Male").expect("a feature for men");
    let out = tampered(&place, |m| m["weights"][sex]["weight"] = json!(3.0)).ended(1).out;
    assert!(out.starts_with("not feasible; a constraint is violated on the 39076 training rows\n"), "{out}");
    assert!(out.contains("\nworst constraint: 'demographic_parity', measured, is 0.") && out.contains(" above its bound 0.1\n"));
    assert!(out.contains("violated by ") && out.contains("the file was changed after training"), "{out}");
    // A bound that was made tighter in the words counts, whatever the record says.
    let out = tampered(&place, |m| m["training"]["subject_to"][0] = json!("demographic_parity <= 0.0001")).ended(1).out;
    assert!(out.contains("worst constraint: 'demographic_parity', measured,") && out.contains("above its bound 0.0001"), "{out}");
    assert!(out.contains("note: 'demographic_parity': the model file records a bound of 0.1, but the requested bound is 0.0001, which is used here"), "{out}");
    let out = tampered(&place, |m| m["training"]["subject_to"][1] = json!("l2 <= 0.001")).ended(1).out;
    assert!(out.contains("worst constraint: 'l2' is ") && out.contains("above its bound 0.001\n"), "{out}");
    // A loosened one in the record alone helps nobody.
    let out = tampered(&place, |m| m["measured"]["constraints"][0]["bound"] = json!(0.5)).ended(0).out;
    assert!(out.contains("the model file records a bound of 0.5, but the requested bound is 0.1, which is used here"), "{out}");

    tampered(&place, |m| m["measured"]["constraints"][0]["sharpened"] = json!(0.0))
        .refused(&["changed.json: ", "sharpened by 0"]);
    tampered(&place, |m| m["measured"]["constraints"] = json!([])).refused(&["it has 2 constraints and measures 0"]);
    tampered(&place, |m| m["training"]["subject_to"][0] = json!("parity")).refused(&["changed.json: ", "damaged", "parity"]);
    tampered(&place, |m| m["training"]["file"] = json!("gone.csv"))
        .refused(&["gone.csv: there is no such file, and the model was trained on it: give it with --data FILE"]);
    place.put("other.csv", "a,b\n1,2\n");
    certify(&place, &["--data", "other.csv"]).refused(&["other.csv"]);
    certify(&place, &["--data", "none.csv"]).refused(&["none.csv: there is no such file"]);
}

/// Few rows of numbers with a group in column 3.
const ROWS: &str =
    "+1 1:1 3:1\n-1 2:0.5\n+1 1:0.2 2:1\n-1 3:1\n+1 2:2 3:1\n-1 1:1\n+1 1:3\n-1 2:1 3:1\n+1 1:1 2:1\n-1 1:-1 3:1\n";

const SPEC: &str = "[data]\nfile = 'rows.svm'\nsplit = 'shared'\ngroup = 3\n[problem]\nminimize = 'hinge'\n\
    subject_to = ['demographic_parity <= 0.05', 'l2 <= 2']\ndomain = { ball = 5.0 }\n[solver]\nname = 'bundle'\n\
    [budget]\niterations = 300\n";

fn few() -> Place {
    let place = Place::new();
    place.put("rows.svm", ROWS.repeat(10));
    place.put("run.toml", SPEC);
    place
}

#[test]
fn the_outcome_of_a_spec_goes_round() {
    let place = few();
    let outcome = place.run(&["solve", "run.toml", "--out", "run.json", "--json"]).ended(0).json();
    let found = place.run(&["certify", "run.toml", "--point", "run.json", "--json"]).ended(0).json();
    assert_eq!((&found["source"], &found["feasible"], &found["notes"]), (&json!("spec"), &json!(true), &json!([])));
    assert_eq!((&found["objective"], &found["problem"]), (&outcome["point"]["objective"], &outcome["problem"]));
    for (now, then) in found["constraints"].as_array().unwrap().iter().zip(outcome["point"]["constraints"].as_array().unwrap()) {
        assert_eq!((&now["excess"], &now["name"]), (&then["value"], &then["name"]));
    }
    // The solver proved that its point is near-stationary; the certificate must not contradict it.
    let proved = outcome["stationary"]["upper"].as_f64().unwrap();
    assert!(found["certificate"]["lower"].as_f64().unwrap() <= proved, "{found}");
    let sentence = place.checked(&["run.toml", "--point", "run.json"]);
    assert!(
        sentence.starts_with("confirmed: the proximal point is ")
            && sentence.contains("the rows in the file are those of rows.svm")
    );
    // The same numbers without JSON around them.
    let x: Vec<String> = outcome["point"]["x"].as_array().unwrap().iter().map(Value::to_string).collect();
    place.put("x.txt", x.join("\n"));
    assert_eq!(place.run(&["certify", "run.toml", "--point", "x.txt", "--json"]).ended(0).json(), found);
    let words = place.run(&["certify", "run.toml", "--point", "x.txt"]).ended(0).out;
    assert!(
        words.starts_with("feasible; every constraint is satisfied on the 100 training rows\nworst constraint: '"),
        "{words}"
    );

    // A tighter bound: the point stays, the problem is another one.
    place.put("tight.toml", SPEC.replace("l2 <= 2", "l2 <= 0.001"));
    let words = place.run(&["certify", "tight.toml", "--point", "run.json"]).ended(1).out;
    assert!(words.starts_with("not feasible; ") && words.contains("worst constraint: 'l2' is "), "{words}");
    assert!(words.contains("note: run.json is the outcome of another problem than that of tight.toml"), "{words}");
    // Zero keeps all constraints and is far from stationary.
    place.put("zero.txt", "0 0 0");
    let found = place.run(&["certify", "run.toml", "--point", "zero.txt", "--json"]).ended(0).json();
    assert!(found["certificate"]["lower"].as_f64().unwrap() > 0.01, "{found}");
    assert!(place.checked(&["run.toml", "--point", "zero.txt"]).starts_with("confirmed: the proximal point is between "));
    let words = place.run(&["certify", "run.toml", "--point", "zero.txt"]).ended(0).out;
    assert!(words.contains("\nnot stationary; a proximal step moves the point, of norm 0.000, by at least "), "{words}");
    // Outside the domain there is no certificate, and the rest is told all the same.
    place.put("far.txt", "6 0 0");
    let ran = place.run(&["certify", "run.toml", "--point", "far.txt"]).ended(1);
    assert!(ran.out.starts_with("not feasible; the point is 1.00e0 outside the domain ("), "{}", ran.out);
    assert!(ran.out.contains("\nobjective ") && ran.out.contains("near-stationarity: unknown: the point is "), "{}", ran.out);
    let found = place.run(&["certify", "run.toml", "--point", "far.txt", "--json"]).ended(1).json();
    assert!(found["certificate"].is_null() && found["certificate_refused"].is_string(), "{found}");
}

#[test]
fn held_out_rows_of_a_spec_are_those_of_the_run() {
    let place = few();
    let held = SPEC.replace("group = 3", "group = 3\ntest_fraction = 0.4");
    place.put("run.toml", &held);
    let outcome = place.run(&["solve", "run.toml", "--out", "run.json", "--json"]).json();
    let found = place.run(&["certify", "run.toml", "--point", "run.json", "--holdout", "--json"]).json();
    let (interval, value) = (&found["held_out"]["constraints"][0], &outcome["held_out"]["constraints"][0]["value"]);
    near(&interval["value"], &json!(value.as_f64().unwrap() + 0.05));
    assert_eq!(found["held_out"]["rows"], 40);
    place.put("run.toml", held.replace("demographic_parity <= 0.05", "hinge <= 2"));
    let words = place.run(&["certify", "run.toml", "--point", "run.json", "--holdout"]).out;
    assert!(words.contains("unknown") && words.contains("'hinge': no interval: the value of a row"), "{words}");
}

#[test]
fn a_model_of_rows_with_weights_or_in_libsvm_form_is_measured_anew() {
    let place = few();
    let mut text = String::from("a,g,w,y\n");
    for i in 0..200_u32 {
        text += &format!("{},{},{}.5,{}\n", i * 37 % 53, ["u", "v"][(i * 7 % 5 % 2) as usize], i % 3, i * i % 41 % 2);
    }
    place.put("people.csv", text);
    for arguments in [
        &["people.csv", "--label", "y", "--group", "g", "--weights", "w", "--subject-to", "demographic_parity <= 0.2"][..],
        &["rows.svm", "--group", "3", "--subject-to", "demographic_parity <= 0.2", "--enforce", "surrogate"],
        &["rows.svm", "--subject-to", "logistic <= 1.2 * best(logistic)", "--minimize", "l2"],
    ] {
        place.run(&[&["fit", "--iterations", "300", "--out", "m", "--quiet"], arguments].concat());
        let recorded = &model(&place)["measured"];
        let ran = place.run(&["certify", "m", "--json"]);
        let (found, kept) = (ran.json(), recorded["feasible"].as_bool().unwrap());
        assert_eq!((ran.code, &found["feasible"]), (Some(i32::from(!kept)), &json!(kept)), "{arguments:?}");
        near(&found["objective"], &recorded["training"]["objective"]);
        near(&found["constraints"][0]["value"], &recorded["constraints"][0]["surrogate"]);
        near(&found["constraints"][0]["bound"], &recorded["constraints"][0]["bound"]);
        assert!(!found["notes"].to_string().contains("changed after training"), "{}", found["notes"]);
    }
    // The last model has a bound that rows measure: other rows are held against that of training.
    place.put("more.svm", ROWS.repeat(11));
    let bound = model(&place)["measured"]["constraints"][0]["bound"].clone();
    let found = place.run(&["certify", "m", "--data", "more.svm", "--json"]).json();
    assert_eq!(found["constraints"][0]["bound"], bound);
    place.put("more.svm", ROWS.replace("+1", "3"));
    place.run(&["certify", "m", "--data", "more.svm"]).refused(&["more.svm: has the labels 3 and -1; expected 1 and -1"]);
}

#[test]
fn what_cannot_be_certified_is_refused_with_a_sentence() {
    let place = few();
    place.put("short.txt", "1 2");
    place.put("words.txt", "1 two 3");
    place.put("empty.json", "{}");
    place.put("null.json", "{\"point\": {\"x\": [1, null, 3]}}");
    place.put("broken.json", "{\"point\": ");
    place.put("good.txt", "0 0 0");
    let cases: &[(&[&str], &[&str])] = &[
        (&["run.toml"], &["run.toml: has no point of its own; expected --point FILE"]),
        (&["run.toml", "--point", "none.json"], &["none.json: there is no such file"]),
        (&["run.toml", "--point", "short.txt"], &["short.txt: has 2 numbers: the problem of run.toml has 3 variables"]),
        (&["run.toml", "--point", "words.txt"], &["words.txt, line 1: 'two' is not a finite number"]),
        (&["run.toml", "--point", "empty.json"], &["empty.json: has no list point.x; expected the outcome"]),
        (&["run.toml", "--point", "null.json"], &["null.json: entry 2 of point.x is null; expected a finite number"]),
        (&["run.toml", "--point", "broken.json"], &["broken.json: is not JSON", "expected the outcome"]),
        (&["run.toml", "--point", "good.txt", "--holdout"], &["--holdout: no rows were held out", "test fraction above 0"]),
        (&["run.toml", "--point", "good.txt", "--data", "rows.svm"], &["--data rows.svm: belongs to a model"]),
        (&["run.toml", "--point", "good.txt", "--mu", "-1"], &["--mu -1; expected a finite number larger than 0"]),
        (&["run.toml", "--point", "good.txt", "--evaluations", "0"], &["--evaluations 0; expected at least 1"]),
        (
            &["run.toml", "--point", "good.txt", "--holdout", "--confidence", "1"],
            &["--confidence 1; expected a number between 0 and 1"],
        ),
        (&["none.toml", "--point", "good.txt"], &["none.toml: there is no such file"]),
        (&["none"], &["none: there is no such file"]),
        (&["rows.svm"], &["rows.svm: is not a model", "expected a model.json that thalweg fit wrote"]),
        (&["m", "--point", "good.txt"], &["--point good.txt: belongs to a spec: a model brings its own weights"]),
        (&["m", "--data-dir", "."], &["--data-dir .: belongs to a spec"]),
    ];
    for (arguments, parts) in cases {
        place.run(&[&["certify"], *arguments].concat()).refused(parts);
    }
}

#[test]
fn a_certificate_of_adult_is_confirmed_from_its_rows() {
    let place = Place::new();
    place.put("adult.csv", adult::csv().unwrap());
    for bounds in [["demographic_parity <= 0.02", "l2 <= 50"], ["equalised_odds <= 0.05", "false_positive_rate <= 0.04"]] {
        let fit = ["fit", "adult.csv", "--label", "income", "--group", "sex", "--out", "m", "--quiet"];
        place.run(&[&fit[..], &["--subject-to", bounds[0], "--subject-to", bounds[1]]].concat()).ended(0);
        place.run(&["certify", "m", "--out", "certificate.json"]).ended(0);
        let verdict = place.run(&["check", "certificate.json", "--json"]).ended(0).json();
        let assumed = verdict["assumed"].as_array().unwrap();
        assert!(assumed.len() == 1 && assumed[0].as_str().unwrap().starts_with("the rows in the file are those of"), "{verdict}");
        assert_eq!((&verdict["proximity"]["recomputed"], &verdict["proximity"]["functions"]), (&json!(3), &json!(3)));
        let mut file: Value = serde_json::from_str(&place.read("certificate.json")).unwrap();
        let row = &mut file["model"]["rows"][17][0][1];
        *row = json!(row.as_f64().unwrap() + 0.01);
        place.put("certificate.json", file.to_string());
        let verdict = place.run(&["check", "certificate.json"]).ended(1);
        assert!(verdict.out.starts_with("not confirmed: "), "{}", verdict.out);
    }
}

#[test]
fn a_conflict_is_recorded_and_checked() {
    let place = Place::new();
    let rows: String = (0..40).map(|i| format!("{} 1:{} 2:{}\n", if i % 3 == 0 { 1 } else { -1 }, i % 7, i % 5)).collect();
    place.put("rows.svm", rows);
    place.put(
        "run.toml",
        r#"
        [data]
        file = "rows.svm"
        [problem]
        minimize = "hinge"
        subject_to = ["logistic <= 0.3", "l2 <= 0.01"]
        [solver]
        name = "bundle"
        [budget]
        iterations = 300
        "#,
    );
    let solved = place.run(&["solve", "run.toml", "--out", "outcome.json", "--quiet"]);
    assert_eq!(solved.code, Some(1), "{solved:?}");
    let certified = place.run(&["certify", "run.toml", "--point", "outcome.json", "--out", "certificate.json"]).ended(1);
    let line = certified.out.lines().find(|line| line.starts_with("no point within ")).unwrap();
    assert!(line.contains("of this one satisfies the constraints within their tolerances: 'logistic' ("), "{line}");
    assert!(line.contains("(proved if the gradients are right, "), "{line}");
    let verdict = place.run(&["check", "certificate.json", "--json"]).ended(0).json();
    // The radius is at least the one that the solver states.
    let outcome: Value = serde_json::from_str(&place.read("outcome.json")).unwrap();
    let stated = outcome["ended"]["infeasible"]["radius"].as_f64().unwrap();
    assert!(verdict["conflict"]["radius"].as_f64().unwrap() >= stated, "{stated} {verdict}");
    assert_eq!((&verdict["conflict"]["recomputed"], &verdict["conflict"]["functions"]), (&json!(2), &json!(2)));
    let text = place.run(&["check", "certificate.json"]).ended(0);
    assert!(text.out.contains("satisfies all constraints within their tolerances"), "{}", text.out);
    assert!(text.out.contains("no feasible point within"), "{}", text.out);
    let mut file: Value = serde_json::from_str(&place.read("certificate.json")).unwrap();
    let tampered = 1e6 * file["conflict"]["radius"].as_f64().unwrap();
    file["conflict"]["radius"] = json!(tampered);
    place.put("certificate.json", file.to_string());
    let refused = place.run(&["check", "certificate.json"]).ended(1);
    assert!(refused.out.starts_with("not confirmed: the recorded cuts do not exclude the radius"), "{}", refused.out);
}
