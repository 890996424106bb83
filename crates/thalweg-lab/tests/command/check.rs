//! `thalweg check`: verdicts, sentences and exit codes for files that `certify --out` wrote, as they are and after a change.

use serde_json::{Value, json};

use crate::common::Place;

const ROWS: &str =
    "+1 1:1 3:1\n-1 2:0.5\n+1 1:0.2 2:1\n-1 3:1\n+1 2:2 3:1\n-1 1:1\n+1 1:3\n-1 2:1 3:1\n+1 1:1 2:1\n-1 1:-1 3:1\n";

fn spec(minimize: &str, subject_to: &str) -> String {
    format!(
        "[data]\nfile = 'rows.svm'\nsplit = 'shared'\ngroup = 3\n[problem]\nminimize = '{minimize}'\nsubject_to = ['{subject_to}']\n\
         [solver]\nname = 'bundle'\n[budget]\niterations = 300\n"
    )
}

#[test]
fn a_certificate_is_confirmed_and_a_changed_one_refused() {
    let place = Place::new();
    place.put("rows.svm", ROWS.repeat(10));
    place.put("run.toml", spec("logistic + 0.1 * l2", "hinge <= 1.1 * best(hinge)"));
    place.put("zero.txt", "0 0 0");
    let sentence = place.checked(&["run.toml", "--point", "zero.txt"]);
    assert!(
        sentence.contains("; best(hinge) is at least 0.5499999") && sentence.contains(" for all weights and at most "),
        "{sentence}"
    );
    assert!(
        sentence.ends_with(')') && sentence.contains("; assuming that the rows in the file are those of rows.svm (sha256 "),
        "{sentence}"
    );
    let found = place.run(&["check", "certificate.json", "--json"]).ended(0).json();
    assert_eq!((&found["exit_code"], &found["confirmed"], &found["refusals"]), (&json!(0), &json!(true), &json!([])));
    assert_eq!((&found["proximity"]["recomputed"], &found["proximity"]["functions"]), (&json!(2), &json!(2)));

    let file: Value = serde_json::from_str(&place.read("certificate.json")).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file = file.clone();
        change(&mut file);
        place.put("changed.json", file.to_string());
        place.run(&["check", "changed.json"])
    };
    let out = changed(&|p| p["proximity"]["lower"] = json!(2.0)).ended(1).out;
    assert!(out.starts_with("not confirmed: the lower end 2e0 is above "), "{out}");
    let out = changed(&|p| p["model"]["rows"][0][0][1] = json!(1.5)).ended(1).out;
    assert!(out.starts_with("not confirmed: ") && out.contains("which follows from the rows"), "{out}");
    let found = {
        changed(&|p| p["references"][0]["lower"] = json!(0.56)).ended(1);
        place.run(&["check", "changed.json", "--json"]).ended(1).json()
    };
    assert_eq!((&found["exit_code"], &found["confirmed"]), (&json!(1), &json!(false)));

    changed(&|p| p["format"] = json!(7)).refused(&["changed.json: has format 7; expected a certificate of format 2"]);
    changed(&|p| p["proximity"]["mu"] = json!("one")).refused(&["changed.json: is a damaged certificate: "]);
    place.run(&["check", "rows.svm"]).refused(&["rows.svm: is not JSON"]);
    place.run(&["check", "none.json"]).refused(&["none.json: there is no such file"]);
}

#[test]
fn a_file_without_a_claim_is_not_written() {
    let place = Place::new();
    place.put("rows.svm", ROWS);
    // No weak-convexity constant, hence no certificate.
    place.put("run.toml", spec("wasserstein_gap", "l2 <= 1"));
    place.put("zero.txt", "0 0 0");
    let refused = place.run(&["certify", "run.toml", "--point", "zero.txt", "--out", "certificate.json"]);
    refused.refused(&["--out: there is no certificate to write: ", "weak-convexity constant"]);
    assert!(!place.files().contains(&"certificate.json".to_string()));
}
