//! `thalweg plan` as a user meets it: the check values of the theorems, as a table and as JSON, and refusals.

mod common;

use common::{Place, Ran};
use serde_json::Value;

const CONSTANTS: [&str; 18] = [
    "plan",
    "--method",
    "ssg",
    "--eps",
    "0.1",
    "--lipschitz",
    "1",
    "--diameter",
    "1",
    "--rho",
    "1",
    "--rho-hat",
    "2",
    "--slater",
    "1",
    "--confidence",
    "0.05",
    "--noise=0.5",
];

fn plan(more: &[&str]) -> Ran {
    Place::new().run(&[CONSTANTS.as_slice(), more].concat())
}

#[track_caller]
fn refused(ran: &Ran, parts: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.starts_with("thalweg: ") && ran.err.lines().count() == 1, "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "'{part}' is not in: {}", ran.err);
    }
}

#[test]
fn the_table_shows_the_check_values() {
    let text = plan(&[]).ended(0).out;
    for (theorem, rows) in [
        ("4.2-I", vec![["T", "1000000"], ["tol_t", "0.0025"], ["eta_t", "0.001"], ["Lam", "3"], ["S", "0"]]),
        ("4.2-II", vec![["T", "8000000"], ["S", "4000000"]]),
        ("4.3-I", vec![["T", "210337279"], ["tol_t", "0.0025"], ["eta_t", "0.001"]]),
        ("4.3-II", vec![["T", "899694335"], ["E", "53.0240021"]]),
        ("5.2-I", vec![["T", "210337279"]]),
        ("5.2-II", vec![["T", "1040555780"], ["E", "57.0240021"]]),
    ] {
        let (_, after) =
            text.split_once(&format!("Theorem {theorem}: ")).unwrap_or_else(|| panic!("{theorem} is not in\n{text}"));
        let section = after.split("Theorem ").next().unwrap();
        for [symbol, value] in rows {
            let found = section.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.windows(2).any(|w| w == [symbol, value])
            });
            assert!(found, "{symbol} = {value} is not in the section of {theorem}:\n{section}");
        }
    }
    assert!(!text.contains("B.1"), "the strong convexity was not given:\n{text}");
}

#[test]
fn the_json_form_has_the_check_values() {
    let plans = plan(&["--json"]).ended(0).json();
    let get = |theorem: &str| -> &Value {
        plans.as_array().unwrap().iter().find(|p| p["theorem"] == theorem).unwrap_or_else(|| panic!("{theorem}: {plans}"))
    };
    let close = |value: &Value, wanted: f64, relative: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() <= relative * wanted, "{value} against {wanted}");
    };
    assert_eq!(get("4.2-I")["iterations"], 1e6);
    close(&get("4.2-I")["tol"], 0.0025, 1e-14);
    close(&get("4.2-I")["eta"], 0.001, 1e-14);
    assert_eq!(get("4.2-I")["multiplier_bound"], 3.0);
    assert_eq!((&get("4.2-II")["iterations"], &get("4.2-II")["burn_in"]), (&8e6.into(), &4e6.into()));
    assert_eq!(get("4.2-II")["eta"], serde_json::json!({ "rule": "inv-sqrt", "c": 1.0 }));
    assert_eq!(get("4.3-I")["iterations"], 210_337_279.0);
    assert_eq!(get("4.3-II")["iterations"], 899_694_335.0);
    close(&get("4.3-II")["e_factor"], 53.0240021, 1e-9);
    close(&get("5.2-I")["value_batch"], 4.5209e9, 1e-5);
    close(&get("5.2-II")["value_batch"], 1.52661e11, 3e-6);
    assert_eq!(get("5.2-II")["iterations"], 1_040_555_780.0);

    let printed = plan(&["--json", "--theorem", "5.2-I", "--as-printed"]).ended(0).json();
    assert_eq!(printed.as_array().unwrap().len(), 1);
    close(&printed[0]["value_batch"], 2.8255e8, 2e-5);
}

#[test]
fn a_strongly_convex_constraint_has_its_own_theorem() {
    let place = Place::new();
    let arguments = "plan --theorem B.1-I --eps 0.1 --lipschitz 1 --diameter 2 --rho 1 --rho-hat 2 --strong-convexity 1 --json";
    let plans = place.run(&arguments.split(' ').collect::<Vec<_>>()).ended(0).json();
    assert_eq!((&plans[0]["iterations"], &plans[0]["tol"]), (&160_000.0.into(), &0.0.into()));
    assert_eq!(plans[0]["strongly_convex"], true);
}

#[test]
fn missing_and_senseless_constants_are_named() {
    let place = Place::new();
    let run = |arguments: &str| place.run(&arguments.split(' ').collect::<Vec<_>>());
    refused(&run("plan --eps 0.1"), &["lipschitz = (not given)", "wanted M"]);
    let most = "plan --eps 0.1 --lipschitz 1 --diameter 1 --rho 1 --rho-hat 2";
    refused(&run(&format!("{most} --theorem 4.2-I")), &["slater = (not given)", "wanted -g(x_feas)", "Theorem 4.2-I needs it"]);
    refused(&run(&format!("{most} --slater 1 --theorem 4.3-I")), &["confidence = (not given)", "Theorem 4.3-I needs it"]);
    refused(&run(&format!("{most} --slater 1 --confidence 0.1 --theorem 5.2-II")), &["noise = (not given)"]);
    refused(&run(&format!("{most} --theorem B.1-I")), &["strong_convexity = (not given)"]);
    refused(&run(&format!("{most} --slater -1")), &["slater = -1", "larger than 0"]);
    refused(&run(&most.replace("--eps 0.1", "--eps 0")), &["eps = 0", "wanted a finite number larger than 0"]);
    refused(&run(&most.replace("--rho-hat 2", "--rho-hat 1")), &["rho_hat = 1", "larger than rho = 1"]);
    refused(&run(&most.replace("--rho 1", "--rho -1")), &["rho = -1", "0 or larger"]);
}

#[test]
fn unknown_theorems_and_methods_are_refused() {
    refused(&plan(&["--theorem", "4.2"]), &["theorem = 4.2", "wanted one of 4.2-I, 4.2-II, 4.3-I"]);
    let ran = Place::new().run(&["plan", "--method", "sgs", "--eps", "0.1"]);
    refused(&ran, &["method 'sgs' has no planner", "did you mean ssg?", "wanted ssg"]);
}
