//! `thalweg solve` as a user meets it: kills and continuations, threads, interrupts, exit codes, traces, the outcome.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Place, Ran, cells, without_seconds};
use serde_json::Value;

/// A spec on a9a; `solver` are the lines after its name.
fn spec(minimize: &str, subject_to: &str, solver: &str, iterations: u64, record: &str) -> String {
    format!(
        "seed = 7\n[data]\nname = \"a9a\"\n[problem]\nminimize = \"{minimize}\"\nsubject_to = [{subject_to}]\n\
         domain = {{ ball = 30.0 }}\n\
         [solver]\nname = \"ssg\"\n{solver}\n[budget]\niterations = {iterations}\n[record]\n{record}\n"
    )
}

const ROC: &str = "roc_gap(thresholds = 400, low = -3.0, high = 3.0)";

/// Starts a run with a checkpoint, and kills it as soon as the checkpoint differs from `before`.
#[cfg(unix)]
fn kill_after_checkpoint(place: &Place, before: Option<&[u8]>) -> Vec<u8> {
    use std::os::unix::process::ExitStatusExt;
    let mut child =
        start(place, &["--checkpoint", "run.save", "--checkpoint-every", "0.01", "--resume", "--trace", "killed.csv"]);
    let saved = wait_for_another(&mut child, &place.path("run.save"), before);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the run ended before it could be killed: give it more iterations");
    assert!(!place.path("killed.csv").exists(), "a killed run leaves no trace");
    saved
}

fn start(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.command(&["solve", "run.toml"]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends an interrupt and waits for the end.
#[cfg(unix)]
fn interrupt(child: Child) -> Ran {
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(sent.success());
    Ran::from(child.wait_with_output().unwrap())
}

/// Waits until a file is there and differs from `before`. If the process ends first, that is a failure.
fn wait_for_another(child: &mut Child, file: &Path, before: Option<&[u8]>) -> Vec<u8> {
    loop {
        if let Ok(now) = std::fs::read(file)
            && before != Some(now.as_slice())
        {
            return now;
        }
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the run ended before it left a checkpoint: give it more iterations");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The parts of an outcome that a continuation must not change.
fn lasting(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    for key in ["notes", "seconds"] {
        outcome.as_object_mut().unwrap().remove(key).unwrap();
    }
    for row in outcome["trace"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("seconds").unwrap();
    }
    outcome
}

/// Kills a run `kills` times, continues it to its end, and compares with a run that was left alone.
#[cfg(unix)]
fn survives(kills: usize, spec: &str) {
    let alone = Place::new();
    alone.put("run.toml", spec);
    let untouched = alone.run(&["solve", "run.toml", "--trace", "run.csv", "--json"]);
    let wanted = untouched.json();

    let place = Place::new();
    place.put("run.toml", spec);
    let mut saved = kill_after_checkpoint(&place, None);
    for _ in 1..kills {
        saved = kill_after_checkpoint(&place, Some(&saved));
    }
    let resumed = place.run(&["solve", "run.toml", "--checkpoint", "run.save", "--resume", "--trace", "run.csv", "--json"]);
    assert_eq!((resumed.code, resumed.err.as_str()), (untouched.code, ""));
    let got = resumed.json();
    let note = got["notes"].as_array().unwrap().iter().find(|n| n["kind"] == "continued");
    assert_ne!(note.expect("the run was continued")["iteration"], 0);
    assert_eq!(without_seconds(&place.read("run.csv")), without_seconds(&alone.read("run.csv")));
    assert_eq!(lasting(&got), lasting(&wanted));
    assert_eq!(place.files(), ["run.csv", "run.save", "run.toml"]);
}

/// One test per kind of solver state.
macro_rules! kills {
    ($($test:ident: $kills:literal, $minimize:expr, $subject_to:literal, $iterations:literal,
        $record:literal, $solver:literal;)*) => {
        $(#[cfg(unix)]
        #[test]
        fn $test() {
            survives($kills, &spec($minimize, $subject_to, $solver, $iterations, $record));
        })*
    };
}

kills! {
    a_killed_run_continues_with_full_batches: 1, ROC, "'hinge <= 0.45'", 1500, "every = 40", "eta = 0.05";
    a_killed_run_continues_with_a_random_output_and_batches_of_f: 2, ROC, "'hinge <= 0.45'", 4000, "every = 100",
        "eta = 0.02\noutput = 'random'\nbatch_f = 500";
    a_killed_run_continues_with_an_average: 1, "hinge", "'demographic_parity <= 0.02'", 3000, "every = 100",
        "eta = { rule = 'inv-sqrt', c = 0.5 }\ntol = { rule = 'inv-sqrt', c = 0.01 }\noutput = 'average'\nburn_in = 50";
    a_killed_run_continues_with_polyak_steps: 2, "hinge", "'demographic_parity <= 0.02', 'l2 <= 4'", 3000, "every = 100",
        "eta = 0.1\ninfeasible_step = 'polyak'\noutput = 'last'";
    a_killed_run_continues_with_batches_everywhere: 3, "hinge + 0.001 * scad", "'demographic_parity <= 0.02'", 12000,
        "at = [0, 1, 10, 100, 500, 1000, 5000, 11999, 12000]",
        "eta = 0.05\ntol = 0.001\nbatch_f = 256\nbatch_g = 300\nvalue_batch = 2000\noutput = 'random'";
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    for (minimize, subject_to, solver) in [
        (ROC, "'hinge <= 0.45'", "eta = 0.05"),
        ("hinge + 0.02 * scad", "'demographic_parity <= 0.02', 'roc_gap(low = -1, high = 1) <= 0.03'", "eta = 0.1"),
        ("logistic(on = \\\"positives\\\")", "'logistic(on = \"negatives\") <= 0.3'", "eta = 0.3\nbatch_f = 20000"),
    ] {
        let place = Place::new();
        place.put("run.toml", spec(minimize, subject_to, solver, 150, "every = 5"));
        let run = |threads: &str| {
            let file = format!("{threads}.csv");
            let ran = place.run(&["solve", "run.toml", "--threads", threads, "--trace", &file, "--json"]);
            assert_eq!(ran.err, "");
            (without_seconds(&place.read(&file)), ran.json())
        };
        let (one, two) = (run("1"), run("2"));
        assert_eq!(one.0, two.0, "{minimize}");
        assert_eq!(one.1["point"]["x"].as_array().unwrap().len(), 123);
        assert_eq!(lasting(&one.1), lasting(&two.1), "{minimize}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_with_its_outcome_and_can_be_continued() {
    let whole = spec(ROC, "'hinge <= 0.45'", "eta = 0.05", 1500, "every = 40");
    let place = Place::new();
    place.put("run.toml", &whole);
    let arguments = ["--checkpoint", "run.save", "--checkpoint-every", "0.01", "--trace", "run.csv", "--out", "run.json"];
    let mut child = start(&place, &arguments);
    wait_for_another(&mut child, &place.path("run.save"), None);
    let ran = interrupt(child);
    assert_eq!((ran.code, ran.err.as_str()), (Some(130), ""), "{}", ran.out);
    assert!(ran.out.lines().next().unwrap().ends_with("feasible; interrupted"), "{}", ran.out);
    let outcome: Value = serde_json::from_str(&place.read("run.json")).unwrap();
    assert_eq!((&outcome["ended"], &outcome["exit_code"]), (&Value::from("interrupted"), &Value::from(130)));
    assert_eq!(outcome["message"], "interrupted");
    let iterations = outcome["iterations"].as_u64().unwrap();
    assert!(0 < iterations && iterations < 1500, "{iterations}");
    let (interrupted, resumed) = (place.read("run.csv"), ["solve", "run.toml", "--checkpoint", "run.save", "--resume"]);
    assert!(interrupted.starts_with("iteration,objective,violation,"));

    place.run(&[resumed.as_slice(), &["--trace", "run.csv"]].concat()).ended(0);
    let alone = Place::new();
    alone.put("run.toml", &whole);
    alone.run(&["solve", "run.toml", "--trace", "run.csv"]).ended(0);
    let wanted = without_seconds(&alone.read("run.csv"));
    assert_eq!(without_seconds(&place.read("run.csv")), wanted);
    assert!(wanted.starts_with(&without_seconds(&interrupted)), "the interrupted trace is the beginning of the whole one");
}

#[cfg(unix)]
#[test]
fn a_directory_that_vanishes_during_the_run_does_not_take_the_outcome_with_it() {
    let place = Place::new();
    place.put("run.toml", spec("hinge", "", "eta = 0.05", 1_000_000_000, "at = [0]"));
    for name in ["traces", "saves"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let arguments =
        ["--trace", "traces/run.csv", "--checkpoint", "saves/run.save", "--checkpoint-every", "0.01", "--out", "run.json"];
    let mut child = start(&place, &arguments);
    wait_for_another(&mut child, &place.path("saves/run.save"), None);
    for name in ["traces", "saves"] {
        std::fs::rename(place.path(name), place.path(&format!("{name} of old"))).unwrap();
    }
    let ran = interrupt(child);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.err, "thalweg: traces/run.csv: there is no such file\n");
    assert!(ran.out.starts_with("feasible; interrupted\n"), "{}", ran.out);
    assert!(ran.out.contains("note: checkpoint saves/run.save cannot be written: "), "{}", ran.out);
    let outcome: Value = serde_json::from_str(&place.read("run.json")).unwrap();
    assert_eq!(outcome["point"]["x"].as_array().unwrap().len(), 123);
    assert_eq!(outcome["trace"].as_array().unwrap().len(), 1, "the outcome has the trace too");
}

#[test]
fn the_exit_code_says_whether_the_point_is_feasible() {
    let place = Place::new();
    // The smallest hinge loss on these rows is above 0.35.
    place.put("run.toml", spec("l2", "'hinge <= 0.3'", "eta = 0.05", 5, "every = 1"));
    let ran = place.run(&["solve", "run.toml"]).ended(1);
    assert!(ran.out.starts_with("not feasible; ran the planned iterations, no stopping criterion\n"), "{}", ran.out);
    assert!(ran.out.contains("violated") && ran.out.contains("no recorded point was feasible"), "{}", ran.out);
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(1).json();
    assert_eq!((&outcome["success"], &outcome["point"]["feasible"]), (&Value::from(false), &Value::from(false)));
    assert_eq!(outcome["best_feasible"], Value::Null);

    place.put("run.toml", spec("l2", "'hinge <= 1.5'", "eta = 0.05", 5, "every = 1"));
    let ran = place.run(&["solve", "run.toml"]).ended(0);
    assert!(
        ran.out.starts_with("feasible; ran the planned iterations, no stopping criterion\n") && ran.out.contains("satisfied"),
        "{}",
        ran.out
    );
}

#[test]
fn a_wider_tolerance_makes_a_point_feasible() {
    let place = Place::new();
    let text = spec("l2", "'hinge <= 0.9'", "eta = 0.01\noutput = 'last'", 1, "every = 1");
    place.put("run.toml", &text);
    place.run(&["solve", "run.toml"]).ended(1);
    place.put("run.toml", format!("feasibility = 0.2\n{text}"));
    place.run(&["solve", "run.toml"]).ended(0);
}

#[test]
fn the_trace_has_seventeen_digits_and_reads_back_exactly() {
    let place = Place::new();
    place.put("run.toml", spec("hinge", "'demographic_parity <= 0.01'", "eta = 0.1\ntol = 0.0", 30, "at = [0, 7, 30]"));
    let ran = place.run(&["solve", "run.toml", "--trace", "run.csv", "--json", "--out", "run.json"]).ended(0);
    let outcome = ran.json();
    assert_eq!(place.read("run.json"), ran.out, "--out writes what --json prints");

    let text = place.read("run.csv");
    let (header, rows) = cells(&text);
    assert_eq!(header.join(","), "iteration,objective,violation,norm,passes_f,passes_g,samples,seconds,step");
    assert_eq!(rows.iter().map(|r| r[0]).collect::<Vec<_>>(), ["0", "7", "30"]);
    assert_eq!(rows[2][8], "", "no step was made from the last iterate");
    for (row, recorded) in rows.iter().zip(outcome["trace"].as_array().unwrap()) {
        assert_eq!(row.len(), 9);
        assert_eq!(row[6], recorded["samples"].as_u64().unwrap().to_string());
        for (name, cell) in header.iter().zip(row).skip(1).take(7).filter(|(name, _)| **name != "samples") {
            let (mantissa, _) = cell.split_once('e').unwrap();
            assert_eq!(mantissa.trim_start_matches('-').len(), 18, "{cell}: one digit, a point and 16 digits");
            assert_eq!(cell.parse::<f64>().unwrap(), recorded[*name].as_f64().unwrap(), "{name}");
        }
    }
    assert!(["objective", "constraint"].contains(&rows[0][8]), "{:?}", rows[0]);
}

#[test]
fn the_json_outcome_says_what_the_point_is_and_what_it_cost() {
    let place = Place::new();
    let subject_to = "'demographic_parity <= 0.5', 'l2 <= 100', 'l2 <= 200'";
    place.put("run.toml", spec("hinge", subject_to, "eta = 0.1\nbatch_f = 3256", 20, "every = 10"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert_eq!(outcome["point"]["x"].as_array().unwrap().len(), 123);
    assert_eq!((&outcome["success"], &outcome["point"]["feasible"]), (&Value::from(true), &Value::from(true)));
    let constraints = outcome["point"]["constraints"].as_array().unwrap();
    let names: Vec<&str> = constraints.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["demographic_parity", "l2", "l2 (2)"]);
    assert!(constraints.iter().all(|c| c["satisfied"] == true && c["value"].as_f64().unwrap() < 0.0), "{constraints:?}");
    // feasibility * max(1, |bound|)
    assert_eq!(constraints[1]["tolerance"].as_f64().unwrap(), 1e-6 * 100.0);
    let worst = outcome["point"]["worst"].as_str().unwrap();
    let largest =
        constraints.iter().max_by(|a, b| a["value"].as_f64().unwrap().total_cmp(&b["value"].as_f64().unwrap())).unwrap();
    assert_eq!(worst, largest["name"].as_str().unwrap());
    assert_eq!(outcome["point"]["violation"], largest["value"]);
    // Every step was on f, with a tenth of 32,561 rows, and looked once at all constraints.
    assert_eq!(outcome["passes"]["objective"].as_f64().unwrap(), 20.0 * 3256.0 / 32561.0);
    assert_eq!(outcome["passes"]["constraints"].as_f64().unwrap(), 20.0);
    assert_eq!(outcome["counts"]["objective_subgradients"]["calls"], 20);
    assert_eq!((&outcome["seed"], &outcome["solver"], &outcome["iterations"]), (&7.into(), &"ssg".into(), &20.into()));
    assert!(outcome["problem"].as_str().unwrap().starts_with("minimise hinge subject to demographic_parity <= 0.5, l2 <= 100"));
}

#[test]
fn held_out_rows_are_measured_and_not_trained_on() {
    let place = Place::new();
    let text = spec("hinge", "'demographic_parity <= 0.5'", "eta = 0.1", 20, "every = 20");
    place.put("whole.toml", &text);
    place.put("run.toml", text.replace("name = \"a9a\"", "name = \"a9a\"\ntest_fraction = 0.25"));
    let whole = place.run(&["solve", "whole.toml", "--json"]).ended(0).json();
    let ran = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert_eq!(whole["held_out"], Value::Null);
    let value = |v: &Value| v["objective"].as_f64().unwrap();
    assert!(value(&ran["held_out"]) != value(&ran["point"]) && (value(&ran["held_out"]) - value(&ran["point"])).abs() < 0.05);
    assert_eq!(ran["held_out"]["x"], ran["point"]["x"]);
    assert_eq!(ran["held_out"]["constraints"][0]["name"], "demographic_parity");
    assert_ne!(ran["point"]["x"], whole["point"]["x"]);
    // 12,210 of 48,842 rows are set aside; two thirds of the others are for losses.
    assert!(ran["problem"].as_str().unwrap().contains("24422 of 36633 rows for losses"), "{}", ran["problem"]);
    let words = place.run(&["solve", "run.toml"]).ended(0).out;
    assert!(words.contains("on held-out rows\n"), "{words}");
}

#[test]
fn an_intercept_is_the_last_variable() {
    let place = Place::new();
    let text = spec("hinge", "", "eta = 0.1\noutput = 'last'", 1, "every = 1");
    place.put("run.toml", text.replace("[solver]", "intercept = true\n[solver]"));
    let x = place.run(&["solve", "run.toml", "--json"]).ended(0).json()["point"]["x"].clone();
    assert_eq!(x.as_array().unwrap().len(), 124);
    // At zero every margin is below 1, so the step along the constant is eta times the mean label: 7,841 of 32,561 positive.
    let wanted = 0.1 * (2.0 * 7841.0 - 32561.0) / 32561.0;
    assert!((x[123].as_f64().unwrap() - wanted).abs() < 1e-14, "{} against {wanted}", x[123]);
}

#[test]
fn a_box_holds_every_variable() {
    let place = Place::new();
    let text = spec("hinge", "", "eta = 5.0\noutput = 'last'", 10, "every = 10");
    place.put("run.toml", text.replace("{ ball = 30.0 }", "{ box = [-0.05, 0.1] }"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    let x: Vec<f64> = outcome["point"]["x"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert!(x.iter().all(|v| (-0.05..=0.1).contains(v)), "{x:?}");
    assert!(x.contains(&-0.05) && x.contains(&0.1), "steps this long reach both sides: {x:?}");
    place.put("run.toml", text.replace("{ ball = 30.0 }", "\"non-negative\""));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert!(outcome["point"]["x"].as_array().unwrap().iter().all(|v| v.as_f64().unwrap() >= 0.0));
}

#[test]
fn a_start_is_a_word_a_list_or_a_file() {
    let place = Place::new();
    let text = spec("hinge", "", "eta = 0.1", 0, "every = 1");
    let started = |start: &str| {
        place.put("run.toml", text.replace("[solver]", &format!("start = {start}\n[solver]")));
        place.run(&["solve", "run.toml", "--json"]).ended(0).json()
    };
    let x =
        |outcome: &Value| -> Vec<f64> { outcome["point"]["x"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect() };
    let sin: Vec<f64> = (1..=123).map(|j| 0.01 * f64::from(j).sin()).collect();
    assert_eq!(x(&started("\"zero\"")), [0.0; 123]);
    assert_eq!(x(&started("\"sin\"")), sin);
    assert_eq!(x(&started(&format!("{sin:?}"))), sin);
    // A file beside the spec: as JSON, or one number to a line.
    place.put("x.json", format!("{sin:?}"));
    assert_eq!(x(&started("\"x.json\"")), sin);
    place.put("x.txt", sin.iter().map(|v| format!("{v:e}\n")).collect::<String>());
    assert_eq!(x(&started("\"x.txt\"")), sin);
    // Outside the domain it is moved, and the outcome says so.
    let moved = started(&format!("{:?}", [30.0; 123]));
    assert!((x(&moved).iter().map(|v| v * v).sum::<f64>().sqrt() - 30.0).abs() < 1e-9);
    assert!(moved["notes"][0]["kind"] == "start-moved", "{}", moved["notes"]);
}

#[test]
fn the_split_decides_which_rows_are_for_losses() {
    let place = Place::new();
    let text = spec("hinge", "'demographic_parity <= 0.5'", "eta = 0.1", 10, "every = 5");
    let solved = |split: &str| {
        place.put("run.toml", text.replace("name = \"a9a\"", &format!("name = \"a9a\"\nsplit = {split}")));
        place.run(&["solve", "run.toml", "--trace", "run.csv"]).ended(0);
        without_seconds(&place.read("run.csv"))
    };
    let default = {
        place.put("run.toml", &text);
        place.run(&["solve", "run.toml", "--trace", "run.csv"]).ended(0);
        without_seconds(&place.read("run.csv"))
    };
    assert_eq!(solved("\"ordered\""), default);
    let shuffled = solved("{ shuffle = 3 }");
    assert_eq!(solved("{ shuffle = 3 }"), shuffled, "the same seed shuffles the same way");
    let all = [default, shuffled, solved("{ shuffle = 4 }"), solved("\"shared\"")];
    for i in 0..4 {
        assert!((0..i).all(|j| all[i] != all[j]), "split {i} is like another one");
    }
}

#[test]
fn the_certificate_fills_a_column_of_the_trace() {
    let place = Place::new();
    let text = spec("hinge", "'l2 <= 4'", "eta = 0.1", 20, "at = [0, 10, 20]");
    place.put("run.toml", format!("certificate = {{ switching = {{ rho_hat = 1.0, iterations = 50 }} }}\n{text}"));
    let outcome = place.run(&["solve", "run.toml", "--trace", "run.csv", "--json"]).ended(0).json();
    let trace = place.read("run.csv");
    let (header, rows) = cells(&trace);
    assert_eq!(header.join(","), "iteration,objective,violation,norm,passes_f,passes_g,samples,seconds,step,stationarity");
    let column: Vec<f64> = rows.iter().map(|r| r[9].parse().unwrap()).collect();
    assert_eq!(column.len(), 3);
    assert!(column.iter().all(|v| v.is_finite() && *v > 0.0), "{column:?}");
    assert!(column[2] < column[0], "the last iterate is nearer to stationary than the start: {column:?}");
    assert!(outcome["certificate"]["switching"]["distance"].as_f64().unwrap() > 0.0);
    assert!(outcome["certificate"]["switching"]["iterations"].as_u64().unwrap() <= 50);
    assert_eq!(outcome["certificate"]["switching"]["coefficients"][0], 1.0);
    // Measuring is not counted: the same run without it has the same passes.
    place.put("run.toml", &text);
    let plain = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert_eq!((&plain["counts"], &plain["point"]), (&outcome["counts"], &outcome["point"]));
    assert_eq!(plain["certificate"], Value::Null);
}

#[test]
fn the_certificate_with_bounds_fills_two_columns_and_holds_what_the_solver_proves() {
    let place = Place::new();
    let text = spec("l2", "'hinge <= 0.45'", "eps = 1e-3", 400, "at = [0, 20]").replace("\"ssg\"", "\"bundle\"");
    place.put("run.toml", format!("certificate = {{ bounds = {{ mu = 1.0, width = 0.5, evaluations = 60 }} }}\n{text}"));
    let outcome = place.run(&["solve", "run.toml", "--trace", "run.csv", "--json"]).ended(0).json();
    let trace = place.read("run.csv");
    let (header, rows) = cells(&trace);
    assert_eq!(header[9..].join(","), "stationarity_lower,stationarity_upper");
    for (row, recorded) in rows.iter().zip(outcome["trace"].as_array().unwrap()) {
        let [lower, upper] = [9, 10].map(|i: usize| row[i].parse::<f64>().unwrap());
        assert!(0.0 < lower && lower <= upper && upper - lower <= 0.5 * upper, "{row:?}");
        assert_eq!(recorded["stationarity_bounds"], serde_json::json!([lower, upper]));
    }
    // The solver ends with a proof, and the certificate of the same point must agree with it.
    let (proved, certificate) = (&outcome["stationary"], &outcome["certificate"]["bounds"]);
    assert_eq!(outcome["ended"], "finished");
    assert!(proved["upper"].as_f64().unwrap() <= 1e-3, "{proved}");
    assert!(certificate["lower"].as_f64().unwrap() <= proved["upper"].as_f64().unwrap(), "{certificate}");
    assert!(certificate["evaluations"].as_u64().unwrap() <= 60);
    assert_eq!((&certificate["mu"], &certificate["rho_f"]["source"]), (&Value::from(1.0), &Value::from("Proved")));
    assert_eq!(outcome["certificate"]["switching"], Value::Null);
    let words = place.run(&["solve", "run.toml"]).ended(0).out;
    assert!(
        words.contains("\nproved if the gradients are right and the constants hold: the proximal point is within "),
        "{words}"
    );
    assert!(words.contains("(constants rho_f = 0, rho_g = 0, mu = 1"), "{words}");
    assert!(
        words.contains("\nnear-stationarity: the proximal point is ") && words.contains(" (proved if the gradients are right, "),
        "{words}"
    );
    // The word alone asks for the defaults.
    place.put("run.toml", format!("certificate = \"bounds\"\n{}", spec("hinge", "'l2 <= 4'", "eta = 0.1", 2, "at = [0]")));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert!(outcome["certificate"]["bounds"]["lower"].as_f64().unwrap() > 0.0);
    assert_eq!(outcome["stationary"], Value::Null);
}

#[test]
fn constraints_that_conflict_are_named_first() {
    let place = Place::new();
    // On the rows for losses the hinge loss is at least 0.625, and 0.7 at most only where the square of the weight is large.
    place.put("rows.svm", KINK);
    for (subject_to, message, names) in [
        ("'hinge <= 0.6'", "constraint 'hinge' cannot be satisfied", vec!["hinge"]),
        ("'hinge <= 0.7', 'l1 <= 100', 'l2 <= 0.02'", "constraints 'hinge' and 'l2' conflict", vec!["hinge", "l2"]),
    ] {
        let text = kink(&format!("minimize = 'l1'\nsubject_to = [{subject_to}]"), "").replace("'ssg'", "'bundle'");
        place.put("run.toml", text.replace("iterations = 20", "iterations = 100"));
        let ran = place.run(&["solve", "run.toml"]).ended(1);
        let (first, rest) = ran.out.split_once('\n').unwrap();
        // Within a radius, because the domain is not bounded.
        let (said, radius) = first.split_once("; no point within ").unwrap();
        assert_eq!(said, format!("infeasible; {message}"));
        assert!(radius.ends_with(" of this one is feasible, if the gradients are right and the constants hold"), "{first}");
        assert!(rest.starts_with("least violation found: 0."), "{}", ran.out);
        let outcome = place.run(&["solve", "run.toml", "--json"]).ended(1).json();
        assert_eq!((&outcome["success"], &outcome["exit_code"]), (&Value::from(false), &Value::from(1)));
        assert!(
            outcome["message"].as_str().unwrap().starts_with(&format!("{message}; no point within ")),
            "{}",
            outcome["message"]
        );
        assert_eq!(outcome["ended"]["infeasible"]["conflicting"], serde_json::json!(names));
        assert_eq!(outcome["ended"]["infeasible"]["everywhere"], false);
        // The minimiser has weight 1, and every point within a large multiple of that is excluded.
        assert!(outcome["ended"]["infeasible"]["radius"].as_f64().unwrap() > 1e3, "{}", outcome["ended"]);
        if names.len() == 1 {
            assert!((outcome["point"]["violation"].as_f64().unwrap() - 0.025).abs() < 1e-6, "{}", outcome["point"]);
        }
    }
    // Weights short enough for the second bound leave a hinge loss far above the first.
    let text = spec("hinge", "'hinge <= 0.5', 'l2 <= 0.01'", "mu = 10\neps = 0.1", 50, "at = []");
    place.put("run.toml", text.replace("\"ssg\"", "\"bundle\"").replace("ball = 30.0", "ball = 1.0"));
    let out = place.run(&["solve", "run.toml"]).ended(1).out;
    assert!(out.starts_with("infeasible; constraints 'hinge' and 'l2' conflict; no point of the domain is feasible, if the gradients are right and the constants hold\nleast violation"), "{out}");
}

#[test]
fn every_kind_of_budget_ends_a_run() {
    let place = Place::new();
    let text = spec("hinge", "", "eta = 0.1", 5, "every = 1");
    for (budget, message, iterations) in [
        ("iterations = 3", "stopped at the iteration limit", Some(3)),
        ("passes = 4.0", "stopped at the limit on passes", Some(4)),
        ("samples = 65122", "stopped at the limit on samples", Some(2)),
        ("iterations = 0", "stopped at the iteration limit", Some(0)),
        ("seconds = 0.02", "stopped at the time limit", None),
    ] {
        place.put("run.toml", text.replace("iterations = 5", budget));
        let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
        assert_eq!(outcome["message"], message);
        assert!(iterations.is_none_or(|n| outcome["iterations"] == n), "{budget}: {}", outcome["iterations"]);
    }
}

/// One column; the hinge loss over the first four rows, which serve losses, falls to 0.625 at w = 1 and rises from there.
/// Column 2 marks the group and has no entry other than 0 in those rows.
const KINK: &str = "+1 1:1\n+1 1:1\n-1 1:1\n+1 1:0.5\n-1 1:3 2:1\n+1 1:-2\n";

fn kink(problem: &str, more: &str) -> String {
    format!(
        "[data]\nfile = 'rows.svm'\ncolumns = 2\ngroup = 2\n{more}\n[problem]\n{problem}\n\
         [solver]\nname = 'ssg'\n[budget]\niterations = 20\n"
    )
}

#[test]
fn reference_values_make_bounds_start_thresholds_and_domain() {
    let place = Place::new();
    place.put("rows.svm", KINK);
    let near = |value: &Value, want: f64| assert!((value.as_f64().unwrap() - want).abs() < 1e-5, "{value} is not {want}");
    let problem = "minimize = \"roc_gap(thresholds = 3, low = 'erm', high = 'erm')\"\nstart = 'erm'\n\
                   subject_to = ['hinge <= 1.2 * best(hinge)', 'l2 <= best(hinge) + 1']\ndomain = { ball_times_erm = 5.0 }";
    place.put("run.toml", kink(problem, ""));
    let ran = place.run(&["solve", "run.toml", "--json", "--trace", "run.csv"]);
    let outcome = ran.ended(0).json();
    near(&outcome["bounds"][0], 0.75);
    near(&outcome["bounds"][1], 1.625);
    let references = outcome["references"].as_array().unwrap();
    assert_eq!(references.len(), 1, "{references:?}");
    assert_eq!(references[0]["expression"], "hinge");
    near(&references[0]["value"], 0.625);
    near(&references[0]["lower"], 0.625);
    assert_eq!(references[0]["scope"], "everywhere");
    near(&references[0]["norm"], 1.0);
    assert!(references[0]["evaluations"].as_u64().unwrap() > 0);
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("best(hinge) = 0.625000 (proved to 1e-7 for all weights), least norm 1.0"), "{notes}");
    // The run started at the minimiser, and its thresholds are from 0.25 to 1.25.
    let words = outcome["problem"].as_str().unwrap();
    near(&outcome["trace"][0]["norm"], 1.0);
    for (key, want) in [("low = ", 0.25), ("high = ", 1.25), ("radius ", 5.0)] {
        let number = words.split_once(key).unwrap_or_else(|| panic!("{key}: {words}")).1;
        let number: String = number.chars().take_while(|c| c.is_ascii_digit() || ".-e".contains(*c)).collect();
        near(&Value::from(number.parse::<f64>().unwrap()), want);
    }
    let text = place.run(&["solve", "run.toml"]).ended(0).out;
    assert!(text.contains("note: best(hinge) = 0.625000 (proved to 1e-7 for all weights)"), "{text}");
}

#[test]
fn held_out_rows_are_measured_against_the_references_of_training() {
    let place = Place::new();
    // Six rows of each kind, of which some are set aside.
    place.put("rows.svm", KINK.repeat(6));
    let problem = "minimize = 'demographic_parity'\nsubject_to = ['hinge <= 3 * best(hinge)']\nstart = 'erm'";
    place.put("run.toml", kink(problem, "split = 'shared'\ntest_fraction = 0.4"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).json();
    // With the bound of training the value on held-out rows is what the loss is there.
    let bound = outcome["bounds"][0].as_f64().unwrap();
    assert!((bound - 3.0 * outcome["references"][0]["value"].as_f64().unwrap()).abs() < 1e-12);
    place.put("run.toml", kink(&problem.replace("3 * best(hinge)", &bound.to_string()), "split = 'shared'\ntest_fraction = 0.4"));
    let number = place.run(&["solve", "run.toml", "--json"]).json();
    assert_eq!(outcome["held_out"], number["held_out"]);
    assert_eq!(outcome["point"], number["point"]);
}

#[cfg(unix)]
#[test]
fn a_killed_run_continues_with_marks_in_passes_and_further_quantities() {
    let text = spec("hinge", "'demographic_parity <= 0.02'", "eta = 0.05\noutput = 'random'", 2500, "per_decade = 8");
    let text = text.replace("name = \"a9a\"", "name = \"a9a\"\ntest_fraction = 0.2");
    survives(2, &format!("measure = ['accuracy', 'roc_gap(thresholds = 3, low = -1, high = 1)', 'l1']\n{text}"));
}

/// Rows that are all alike for each group and label, so that it is known what is set aside: the columns are one number and the
/// mark of the first group.
const STRATA: &str = "+1 1:1 2:1\n+1 1:1 2:1\n-1 1:2 2:1\n-1 1:2 2:1\n-1 1:2 2:1\n\
                      +1 1:1\n+1 1:1\n+1 1:1\n+1 1:1\n-1 1:-3\n-1 1:-3\n-1 1:-3\n-1 1:-3\n-1 1:-3\n";

fn strata(top: &str, test_fraction: &str) -> String {
    format!(
        "{top}\n[data]\nfile = 'rows.svm'\ncolumns = 2\ngroup = 2\nsplit = 'shared'\n{test_fraction}\n\
         [problem]\nminimize = 'l2'\nsubject_to = ['hinge <= 1.5 * best(hinge)']\nstart = [0.5, 0]\n\
         [solver]\nname = 'ssg'\noutput = 'last'\n[budget]\niterations = 0\n"
    )
}

#[test]
fn what_is_measured_beside_the_run_is_what_a_hand_calculation_gives() {
    let place = Place::new();
    place.put("rows.svm", STRATA);
    let list = "measure = ['demographic_parity(temperature = 0.1)', 'accuracy', 'hinge + 2 * l2', 'roc_gap(thresholds = 2, low = 0, high = 1)']";
    place.put("run.toml", strata(list, "test_fraction = 0.5"));
    let outcome = place.run(&["solve", "run.toml", "--json", "--trace", "run.csv"]).json();
    // Scores are 0.5, 1, 0.5 and -1.5. Of 2, 3, 4 and 5 rows, half are set aside, rounded down.
    let sig = |t: f64| 1.0 / (1.0 + (-t).exp());
    let by_hand = |[a, b, c, d]: [f64; 4]| {
        let gap = |t: f64, low: f64| {
            let [plus, one, minus] = [0.5, 1.0, -1.5].map(|s| sig((s - low) / t));
            ((a * plus + b * one) / (a + b) - (c * plus + d * minus) / (c + d)).abs()
        };
        let all = a + b + c + d;
        let hinge = (0.5 * a + 2.0 * b + 0.5 * c) / all;
        [gap(0.1, 0.0), (a + c + d) / all, hinge + 0.25, gap(1.0, 0.0).max(gap(1.0, 1.0))]
    };
    let wanted = [by_hand([1.0, 2.0, 2.0, 3.0]), by_hand([1.0, 1.0, 2.0, 2.0])].concat();
    let sums =
        ["demographic_parity(temperature = 0.1)", "accuracy", "hinge + 2 * l2", "roc_gap(thresholds = 2, low = 0, high = 1)"];
    let names: Vec<String> =
        ["", "held-out "].iter().flat_map(|side| sums.iter().map(move |sum| format!("{side}{sum}"))).collect();
    let (row, at_end) = (&outcome["trace"][0]["metrics"], outcome["metrics"].as_array().unwrap());
    assert_eq!((row.as_array().unwrap().len(), at_end.len()), (8, 8));
    for (i, want) in wanted.iter().enumerate() {
        assert!((row[i].as_f64().unwrap() - want).abs() < 1e-12, "{}: {} is not {want}", names[i], row[i]);
        assert_eq!((&at_end[i]["name"], &at_end[i]["value"]), (&Value::from(names[i].clone()), &row[i]));
    }
    let trace = place.read("run.csv");
    let quoted = "seconds,step,demographic_parity(temperature = 0.1),accuracy,hinge + 2 * l2,\"roc_gap(thresholds = 2, low = 0, high = 1)\",held-out demo";
    assert!(trace.lines().next().unwrap().contains(quoted), "{trace}");
    let last: Vec<f64> = trace.lines().nth(1).unwrap().rsplit(',').take(8).map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(last.iter().rev().map(|v| Value::from(*v)).collect::<Vec<_>>(), *row.as_array().unwrap());
    let words = place.run(&["solve", "run.toml"]).out;
    let line = words.lines().find(|line| line.starts_with("held-out accuracy ")).unwrap_or_else(|| panic!("{words}"));
    assert!(line.ends_with(" 0.833333333") && words.contains("\nmeasured\n"), "{words}");

    // Without the key: the accuracy if rows are set aside, and nothing if none are or if the list is empty.
    for (top, fraction, wanted) in [
        ("", "test_fraction = 0.5", vec!["accuracy", "held-out accuracy"]),
        ("", "", vec![]),
        ("measure = []", "test_fraction = 0.5", vec![]),
        ("measure = ['l1']", "", vec!["l1"]),
    ] {
        place.put("run.toml", strata(top, fraction));
        let outcome = place.run(&["solve", "run.toml", "--json"]).json();
        let names: Vec<&str> = outcome["metrics"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
        assert_eq!(names, wanted);
    }
}

#[test]
fn rates_are_measured_beside_the_run() {
    let place = Place::new();
    place.put("rows.svm", STRATA);
    let list = "measure = ['measured(demographic_parity)', 'accuracy', 'measured_roc_gap', 'demographic_parity', \
                'measured(false_positive_rate + 2 * l2)', 'measured( roc_gap(thresholds = 2, low = 0, high = 1) )', 'measured(equalised_odds)']";
    place.put("run.toml", strata(list, "test_fraction = 0.5"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).json();
    let metrics = outcome["metrics"].as_array().unwrap();
    // Scores are 0.5 and 1 in the first group, 0.5 and -1.5 in the second, by label; 1, 2, 2 and 3 rows stay, 1, 1, 2 and 2 are
    // set aside. At a threshold of 0 the shares above it are 1 and 2/5, at 0.5 they are 2/3 and 0, and no threshold does better.
    let sig = |t: f64| 1.0 / (1.0 + (-t).exp());
    let soft =
        |[a, b, c, d]: [f64; 4]| ((a * sig(0.5) + b * sig(1.0)) / (a + b) - (c * sig(0.5) + d * sig(-1.5)) / (c + d)).abs();
    let wanted = [
        [0.6, 6.0 / 8.0, 2.0 / 3.0, soft([1.0, 2.0, 2.0, 3.0]), 2.0 / 5.0 + 0.25, 0.6, 1.0],
        [0.5, 5.0 / 6.0, 0.5, soft([1.0, 1.0, 2.0, 2.0]), 1.0 / 3.0 + 0.25, 0.5, 1.0],
    ]
    .concat();
    assert_eq!(metrics.len(), wanted.len());
    for (gauge, want) in metrics.iter().zip(&wanted) {
        assert!((gauge["value"].as_f64().unwrap() - want).abs() < 1e-12, "{gauge}, not {want}");
    }
    assert_eq!(metrics[5]["name"], "measured(roc_gap(thresholds = 2, low = 0, high = 1))");
    assert_eq!(metrics[9]["name"], "held-out measured_roc_gap");
    for (list, says) in [
        ("'measured(hinge)'", "hinge has no surrogate of a rate"),
        ("'measured_rocgap'", "did you mean 'measured_roc_gap'?"),
        ("'measured(wasserstein_gap)'", "wasserstein_gap has no surrogate of a rate"),
        ("'measured(l2', 'l1'", "measured(l2"),
        ("'measured(l2)', 'l1', 'measured(l2)'", "twice"),
    ] {
        place.put("run.toml", strata(&format!("measure = [{list}]"), ""));
        let ran = place.run(&["solve", "run.toml"]);
        assert!(ran.code == Some(2) && ran.err.contains(says), "{list}: {}", ran.err);
    }
    place.put("run.toml", strata("measure = ['measured_roc_gap']", "").replace("group = 2\n", ""));
    let ran = place.run(&["solve", "run.toml"]);
    assert!(ran.err.contains("measured_roc_gap compares groups, but the data have none"), "{}", ran.err);
}

#[test]
fn thresholds_of_what_is_measured_are_those_of_the_problem() {
    let place = Place::new();
    place.put("rows.svm", KINK);
    // The minimiser of the hinge loss is 1, so the thresholds reach from 0.25 to 1.25, whatever else is measured.
    let problem = "minimize = 'l1'\nsubject_to = ['hinge <= 1.2 * best(hinge)']\nstart = [2, 0]";
    let list = "'roc_gap(thresholds = 3, low = \"erm\", high = \"erm\")', 'roc_gap(thresholds = 3, low = 0.25, high = 1.25)', 'logistic', 'hinge'";
    let text = format!("measure = [{list}]\n{}", kink(problem, "")).replace("iterations = 20", "iterations = 0");
    place.put("run.toml", text);
    let outcome = place.run(&["solve", "run.toml", "--json"]).json();
    let value = |i: usize| outcome["trace"][0]["metrics"][i].as_f64().unwrap();
    assert!(value(0) > 0.0 && (value(0) - value(1)).abs() < 1e-5, "{} and {}", value(0), value(1));
    assert_eq!(outcome["references"].as_array().unwrap().len(), 1);
    // (0 + 0 + 3 + 0) / 4, though a smallest hinge loss above 0 is known.
    assert_eq!(value(3), 0.75);
}

#[test]
fn a_target_ends_the_run_with_the_iterate_that_reached_it() {
    let place = Place::new();
    let text = spec("hinge", "'l2 <= 4'", "eta = 0.1\noutput = 'average'", 200, "every = 3");
    place.put("run.toml", format!("{text}[stop]\nobjective = 0.5\n"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert_eq!((&outcome["ended"], &outcome["returned"]), (&serde_json::json!({"target": "objective"}), &Value::from("target")));
    assert_eq!(outcome["message"], "reached the target objective");
    let trace = outcome["trace"].as_array().unwrap();
    let (last, before) = trace.split_last().unwrap();
    assert_eq!((&last["objective"], &last["iteration"]), (&outcome["point"]["objective"], &outcome["iterations"]));
    assert!(last["objective"].as_f64().unwrap() <= 0.5 && before.iter().all(|row| row["objective"].as_f64().unwrap() > 0.5));
    assert!(!before.is_empty());
    let words = place.run(&["solve", "run.toml"]).ended(0).out;
    assert!(words.starts_with("feasible; reached the target objective\n"), "{words}");

    // A target for the certificate has bounds measured.
    let text = spec("l2", "'hinge <= 0.45'", "eps = 1e-6", 400, "every = 20").replace("\"ssg\"", "\"bundle\"");
    place.put("run.toml", format!("{text}[stop]\ncertificate = 0.2\n"));
    let outcome = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
    assert_eq!(outcome["ended"], serde_json::json!({"target": "certificate"}), "{}", outcome["message"]);
    let trace = outcome["trace"].as_array().unwrap();
    let good = |row: &Value| row["violation"].as_f64().unwrap() <= 1e-6 && row["stationarity_bounds"][1].as_f64().unwrap() <= 0.2;
    let good: Vec<bool> = trace.iter().map(good).collect();
    assert_eq!(good.iter().position(|good| *good), Some(good.len() - 1), "{good:?}");
    assert!(outcome["certificate"]["bounds"]["upper"].as_f64().unwrap() <= 0.2);
}

/// Wasserstein fairness on the embedded german data, the plan a variable.
fn joint(problem: &str, data: &str, measure: &str) -> String {
    format!(
        "seed = 2\n{measure}\n[data]\nname = 'german'\nsplit = {{ shuffle = 0 }}\n{data}\n[problem]\n{problem}\n\
         subject_to = ['hinge <= 0.98']\ndomain = {{ ball = 20 }}\n[solver]\nname = 'ssg'\ntol = 1e-4\nbatch_f = 11\noutput = 'last'\n\
         eta = {{ rule = 'inv-sqrt', c = 1e-3 }}\n[budget]\niterations = 400\n[record]\nevery = 100\n"
    )
}

#[test]
fn a_transport_plan_can_be_a_variable() {
    let place = Place::new();
    let problem = "minimize = 'wasserstein_gap'\nplan = 'joint'";
    let equal = "equal_groups = true\ntest_fraction = 0.1";
    place.put("run.toml", joint(problem, equal, "measure = ['wasserstein_gap']"));
    let outcome = place.run(&["solve", "run.toml", "--json", "--out", "out.json"]).json();
    let point = outcome["point"]["x"].as_array().unwrap();
    let notes = outcome["notes"].to_string();
    let side = ((point.len() - 21) as f64).sqrt() as usize;
    assert!(notes.contains(&format!("the transport plan is a variable: {side} x {side} numbers")), "{notes}");
    assert!(notes.contains("weak-convexity constant"), "{notes}");
    // The gap with the best plan for the same model lies below the sum with the plan at hand, on the rows of training.
    let metrics = outcome["metrics"].as_array().unwrap();
    let names: Vec<&str> = metrics.iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wasserstein_gap", "held-out wasserstein_gap"]);
    let (gap, objective) = (metrics[0]["value"].as_f64().unwrap(), outcome["point"]["objective"].as_f64().unwrap());
    assert!(gap > 0.0 && gap < objective, "{gap} against {objective}");
    // Held-out rows have no plan: the model part of the point is measured there, with the best plan.
    let held_out = outcome["held_out"]["objective"].as_f64();
    assert_eq!(held_out, metrics[1]["value"].as_f64(), "{notes}");

    // The whole point, or the model's part, for which the best plan is taken.
    let certified = |point: &str| place.run(&["certify", "run.toml", "--point", point, "--evaluations", "3", "--json"]).json();
    let whole = certified("out.json");
    assert!((whole["objective"].as_f64().unwrap() - objective).abs() < 1e-12, "{whole}");
    let model: Vec<String> = point[..21].iter().map(ToString::to_string).collect();
    place.put("model.txt", model.join(" "));
    let best = certified("model.txt");
    assert!((best["objective"].as_f64().unwrap() - gap).abs() < 1e-12, "{best}");
    assert!(
        best["notes"].to_string().contains("the point has no transport plan; an optimal one for its model is used"),
        "{best}"
    );

    // A start with the plan goes on from there, one without begins with the uniform plan.
    for (start, length) in [("model.txt", 21), ("all.txt", point.len())] {
        place.put("all.txt", point.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        let text = joint(&format!("{problem}\nstart = '{start}'"), equal, "");
        place.put("run.toml", text.replace("iterations = 400", "iterations = 1"));
        let trace = place.run(&["solve", "run.toml", "--trace", "t.csv"]);
        assert!(trace.code == Some(0) || trace.code == Some(1), "{}", trace.err);
        let text = place.read("t.csv");
        let (head, rows) = cells(&text);
        let first: f64 = rows[0][head.iter().position(|h| *h == "objective").unwrap()].parse().unwrap();
        if length == 21 {
            assert!((first - objective).abs() > 1e-6 && first > gap, "{first}: another plan, and not the best");
        } else {
            assert!((first - objective).abs() < 1e-12, "{first}");
        }
    }
    place.put("run.toml", joint(&format!("{problem}\nstart = [1.0, 2.0]"), equal, ""));
    place.run(&["solve", "run.toml"]).refused(&["start has 2 numbers", "21 variables", "with its transport plan"]);
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let place = Place::new();
    let gap = "minimize = 'wasserstein_gap'";
    for (problem, data, parts) in [
        (
            "minimize = 'hinge'\nplan = 'joint'".to_string(),
            "",
            &["plan = \"joint\"", "minimize = \"hinge\"", "wasserstein_gap"][..],
        ),
        (format!("{gap}\nplan = 'both'"), "", &["plan must be", "got \"both\"", "eliminated, joint, doubly-stochastic"]),
        (format!("{gap}\nrescale = true"), "", &["rescale must be", "got true", "\"joint\""]),
        (
            format!("{gap}\nplan = 'joint'"),
            "equal_groups = 0",
            &["equal_groups must be", "got 0", "true, false, or the most rows"],
        ),
        (gap.into(), "equal_groups = 'yes'", &["equal_groups must be", "got \"yes\""]),
    ] {
        place.put("run.toml", joint(&problem, data, ""));
        place.run(&["solve", "run.toml"]).refused(parts);
    }
    place.put("run.toml", joint(gap, "equal_groups = 5", "").replace("{ shuffle = 0 }", "'shared'"));
    place.run(&["solve", "run.toml"]).refused(&["equal_groups", "the losses are on the same rows"]);
    place.put("run.toml", joint(gap, "", "").replace("batch_f = 11", "batch_f = 0"));
    place.run(&["solve", "run.toml"]).refused(&["batch_f must be", "got 0", "at least 1 sample"]);
}

/// A problem with a family of constraints on made-up data; `data` are further lines about them.
fn family(data: &str, problem: &str, solver: &str, iterations: u64) -> String {
    format!(
        "seed = 3\n[data]\n{data}\ntest_fraction = 0.3\nvalidation_fraction = 0.2\n[problem]\n{problem}\n\
         [solver]\n{solver}\n[budget]\niterations = {iterations}\n"
    )
}

const GEN: &str = "generator = 'gen'\nsample = 60";
const D1: &str = "generator = 'd1'\nsample = 200";
const PAIRS: &str = "minimize = 'welsch'\nsubject_to = ['pairs <= 0']";
const COVARIANCE: &str = "minimize = 'hinge'\nsubject_to = ['covariance <= 0.05']";

const ZEROTH: [&str; 5] = ["dszog", "zopsgd", "zoscgd", "acczomda", "accszofw"];

/// What a person sees of a problem with hundreds of constraints, and what a program does.
#[test]
fn values_alone_are_enough_for_hundreds_of_pairs() {
    for name in ZEROTH {
        let place = Place::new();
        // A start that ranks many pairs wrongly.
        place.put("run.toml", family(GEN, &format!("{PAIRS}\nstart = 'sin'"), &format!("name = '{name}'"), 50));
        let ran = place.run(&["solve", "run.toml", "--out", "run.json", "--trace", "run.csv"]);
        assert_eq!(ran.err, "");
        let out: Value = serde_json::from_str(&place.read("run.json")).unwrap();
        let point = &out["point"];
        // 34 positive and 26 negative rows, of which 0.3 and 0.2 are set aside, each rounded down.
        let total = point["total"].as_u64().unwrap();
        assert!(total > 200 && total < 300, "{name}: {total}");
        let violated = point["violated"].as_u64().unwrap();
        assert_eq!(ran.code, Some(if violated == 0 { 0 } else { 1 }), "{name}");
        let sentence = match violated {
            0 => format!("all {total} constraints are satisfied; those nearest to their bounds are shown\n"),
            n => format!("are violated ({:.2}%); the worst are shown\n", 100.0 * n as f64 / total as f64),
        };
        assert!(ran.out.contains(&sentence), "{name}: {}", ran.out);
        // Five lines of constraints, the worst first, each with what holds or not.
        let lines: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("row ")).collect();
        assert_eq!(lines.len(), 5, "{name}: {}", ran.out);
        assert!(lines[0].starts_with(point["worst"].as_str().unwrap()), "{name}: {}", ran.out);
        let listed: Vec<f64> = point["constraints"].as_array().unwrap().iter().map(|c| c["value"].as_f64().unwrap()).collect();
        assert!(listed.len() == 10 && listed.iter().rev().is_sorted(), "{name}: {listed:?}");
        assert_eq!(point["violation"].as_f64().unwrap(), listed[0]);
        // What values alone say, with an error and what it cost.
        let found = &out["zeroth_order"];
        let (value, error) = (found["gradient"]["value"].as_f64().unwrap(), found["gradient"]["error"].as_f64().unwrap());
        assert!(value > 0.0 && error > 0.0 && error < value, "{name}: {found}");
        assert!(ran.out.contains("from function values alone: gradient norm of the penalised"));
        let queries = found["queries"].as_array().unwrap();
        let sentence = format!("this took {} more values of the objective and {} of constraints\n", queries[0], queries[1]);
        assert!(ran.out.contains(&sentence), "{name}: {}", ran.out);
        let own = name == "dszog";
        assert_eq!((found["lagrangian"].is_object(), ran.out.contains("eps_1 = ")), (own, own), "{name}");
        // No subgradient was asked for, and the metrics have all three parts of the rows.
        assert_eq!(out["counts"]["objective_subgradients"]["calls"], 0);
        assert_eq!(out["counts"]["constraint_subgradients"]["calls"], 0);
        let metrics: Vec<&str> = out["metrics"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
        assert_eq!(metrics, ["accuracy", "held-out accuracy", "validation accuracy"]);
        let (header, rows) = {
            let text = place.read("run.csv");
            let (header, rows) = cells(&text);
            let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
            (own(&header), rows.iter().map(|row| own(row)).collect::<Vec<_>>())
        };
        let column = header.iter().position(|name| name == "violated").expect("a trace of many constraints counts the violated");
        let last = out["trace"].as_array().unwrap().last().unwrap()["violated"].as_u64().unwrap();
        assert_eq!(rows.last().unwrap()[column], last.to_string());
        assert!(rows[0][column].parse::<u64>().unwrap() > 0, "the start violates some");
    }
}

/// With `repair` the returned point keeps what the method's own violates, and a person reads both.
#[test]
fn a_returned_point_is_repaired_if_that_is_asked_for() {
    let place = Place::new();
    let text = family(GEN, &format!("{PAIRS}\nstart = 'sin'"), "name = 'dszog'", 50);
    place.put("plain.toml", &text);
    place.put("run.toml", format!("repair = true\n{text}"));
    let plain = place.run(&["solve", "plain.toml", "--out", "plain.json"]);
    let ran = place.run(&["solve", "run.toml", "--out", "run.json"]);
    assert_eq!((plain.code, ran.code, ran.err.as_str()), (Some(1), Some(0), ""));
    let read = |name: &str| -> Value { serde_json::from_str(&place.read(name)).unwrap() };
    let (own, out) = (read("plain.json"), read("run.json"));
    assert_eq!((&own["returned"], &out["returned"]), (&"output-rule".into(), &"repaired".into()));
    let last = |out: &Value| out["trace"].as_array().unwrap().last().unwrap()["objective"].clone();
    assert_eq!(last(&out), last(&own), "the run itself is the same");
    let (violated, total) = (&own["point"]["violated"], &own["point"]["total"]);
    assert!(ran.out.contains(&format!("the solver's own point violates {violated} of {total}, the worst by ")), "{}", ran.out);
}

/// Queries by the formula of the paper: (Q + 1)(m1 + m2) + m3 in an iteration, and all constraints once.
#[test]
fn queries_are_counted_as_they_are_asked_for() {
    let place = Place::new();
    let solver = "name = 'dszog'\ndirections = 3\nm1 = 7\nm2 = 5\nm3 = 11";
    place.put("run.toml", family(GEN, PAIRS, solver, 20));
    let ran = place.run(&["solve", "run.toml", "--json"]);
    let (out, counts) = (ran.json(), &ran.json()["counts"]);
    let total = out["point"]["total"].as_u64().unwrap();
    assert_eq!(counts["objective_values"]["samples"].as_u64().unwrap(), 21 * 4 * 7);
    assert_eq!(counts["constraint_values"]["samples"].as_u64().unwrap(), total + 21 * (4 * 5 + 11));
}

#[test]
fn zeroth_order_runs_do_not_depend_on_threads_and_can_be_continued() {
    for (name, data, problem) in
        [("dszog", GEN, PAIRS), ("acczomda", GEN, PAIRS), ("accszofw", D1, COVARIANCE), ("dszog", D1, COVARIANCE)]
    {
        let place = Place::new();
        let text = |iterations| family(data, problem, &format!("name = '{name}'"), iterations);
        place.put("run.toml", text(30));
        let run = |more: &[&str]| {
            let ran = place.run(&[&["solve", "run.toml", "--json"], more].concat());
            assert_eq!(ran.err, "", "{name}");
            ran.json()
        };
        let whole = run(&["--threads", "1"]);
        assert_eq!(lasting(&whole), lasting(&run(&["--threads", "2"])), "{name}");
        place.put("run.toml", text(13));
        run(&["--checkpoint", "run.save"]);
        place.put("run.toml", text(30));
        let resumed = run(&["--checkpoint", "run.save", "--resume"]);
        assert!(
            resumed["notes"].as_array().unwrap().iter().any(|n| n["text"] == "continued from iteration 13"),
            "{name}: {resumed}"
        );
        for key in ["point", "zeroth_order", "counts", "metrics", "best_feasible"] {
            assert_eq!(resumed[key], whole[key], "{name}: {key}");
        }
    }
}

/// Up to 200 constraints each is in the outcome, and its value at every recorded iterate.
#[test]
fn covariances_are_kept_within_their_bound_with_and_without_a_kernel() {
    for (data, variables) in
        [(D1.to_string(), 90), (format!("{D1}\nkernel = 'rbf'"), 0), (format!("{D1}\nkernel = {{ rbf = 0.02 }}"), 0)]
    {
        let place = Place::new();
        place.put("run.toml", family(&data, COVARIANCE, "name = 'dszog'\nm2 = 10\nm3 = 10", 60));
        let ran = place.run(&["solve", "run.toml", "--json"]).ended(0).json();
        let point = &ran["point"];
        assert_eq!((&point["total"], &point["violated"]), (&Value::from(40), &Value::from(0)));
        assert_eq!(point["constraints"].as_array().unwrap().len(), 40);
        assert_eq!(ran["trace"][0]["constraints"].as_array().unwrap().len(), 40);
        assert_eq!(ran["bounds"], Value::from(vec![0.05; 40]));
        // A column is a variable; with a kernel, a training row is.
        let length = point["x"].as_array().unwrap().len();
        match variables {
            0 => assert!((95..=105).contains(&length), "{length}"),
            n => assert_eq!(length, n),
        }
        let accuracy = ran["metrics"][0]["value"].as_f64().unwrap();
        assert!(accuracy > 0.7, "{data}: {accuracy}");
        assert!(
            ran["trace"][0]["objective"] == 1.0 && point["objective"].as_f64().unwrap() < 0.999,
            "{data}: {}",
            point["objective"]
        );
    }
}

#[test]
fn rows_are_drawn_by_the_seed_and_shared_out() {
    let place = Place::new();
    let run = |seed: u64| {
        let text = family("generator = 'gen'\nsample = 1000", PAIRS, "name = 'dszog'", 1);
        place.put("run.toml", text.replace("seed = 3", &format!("seed = {seed}")));
        place.run(&["solve", "run.toml", "--json"]).json()
    };
    let (one, other, again) = (run(1), run(2), run(1));
    assert_eq!(lasting(&one), lasting(&again));
    assert_ne!(one["point"]["x"], other["point"]["x"]);
    assert_ne!(one["point"]["total"], other["point"]["total"], "other rows have other numbers of pairs");
    // Half of the rows train: p positive and n negative ones make p n pairs, about 250 of each.
    let total = one["point"]["total"].as_f64().unwrap();
    assert!((61_000.0..63_500.0).contains(&total), "{total}");
    // An accuracy is a whole number of rows over their number.
    for (gauge, rows) in [(1, 299), (2, 199)] {
        let share = one["metrics"][gauge]["value"].as_f64().unwrap();
        let whole = (rows..=rows + 1).any(|n| (share * f64::from(n) - (share * f64::from(n)).round()).abs() < 1e-9);
        assert!(whole, "{share} of {rows}");
    }
}

/// A family that is small enough is solved by first-order methods too, and `auto` says what to do where it is not.
#[test]
fn first_order_methods_take_small_families() {
    let place = Place::new();
    place.put("run.toml", family(D1, COVARIANCE, "name = 'auto'", 20));
    place.run(&["solve", "run.toml"]).ended(0);
    place.put("run.toml", family(GEN, PAIRS, "name = 'ssg'\neta = 0.1", 50));
    place.run(&["solve", "run.toml"]).ended(0);
    place.put("run.toml", family(GEN, PAIRS, "name = 'auto'", 20));
    place.run(&["solve", "run.toml"]).refused(&["auto", "expected the name of a solver, such as dszog, which draws constraints"]);
    place.put("run.toml", family("generator = 'gen'\nsample = 400", PAIRS, "name = 'bundle'", 20));
    place.run(&["solve", "run.toml"]).refused(&[
        "number of constraints must be",
        "got 10080",
        "at most 2000 for bundle",
        "dszog",
    ]);
}

/// A bilevel problem by name, with settings and without: what a person reads and what a program does.
#[test]
fn bilevel_problems_are_solved_and_judged() {
    let place = Place::new();
    place.put(
        "toy.toml",
        "measure = ['inner_gap', 'pessimistic_value', 'optimistic_value']\n[data]\nbilevel = { name = 'toy', radius = 2.0 }\n[problem]\n\
         start = [0.3]\nbilevel = { xi = 0.1, multiplier_unit = 1.0 }\n[solver]\nname = 'adaprox'\nsigma = 20\nouter = 60\nbeta = 0.1\n\
         inner_iterations = 2000\ninner = { name = 'sg' }\n[budget]\niterations = 120000\n[record]\nat = [0, 10000, 120000]\n",
    );
    let ran = place.run(&["solve", "toy.toml", "--out", "toy.json", "--trace", "toy.csv", "--report", "toy.html"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let out: Value = serde_json::from_str(&place.read("toy.json")).unwrap();
    // The reference run of spec 4.6.
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&out["point"]["objective"]) + 0.0168).abs() < 5e-3 && out["success"] == true, "{}", ran.out);
    let judged = &out["bilevel"];
    let x = number(&judged["x"][0]);
    assert!(x.abs() < 0.1 && (number(&judged["extremes"]["pessimistic"]["value"]) - x * x).abs() < 2e-3, "{judged}");
    assert_eq!(judged["derivatives"], "exact");
    assert!(ran.out.contains("value of x over near-optimal follower responses (tolerance 0.000001)"), "{}", ran.out);
    assert!(ran.out.contains("<= 0  satisfied within 0.101"), "{}", ran.out);
    let metrics: Vec<&str> = out["metrics"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(metrics, ["inner_gap", "pessimistic_value", "optimistic_value"]);
    let after_five = &out["trace"][1];
    assert!((number(&after_five["objective"]) - 0.1812).abs() < 5e-3, "{after_five}");
    assert_eq!(out["counts"]["more"]["products with second derivatives"].as_u64().map(|n| n > 0), Some(true));
    assert!(place.read("toy.html").contains("the bilevel problem toy"));
    // A continued run is the same.
    place.run(&["solve", "toy.toml", "--checkpoint", "toy.save", "--out", "whole.json"]);
    let whole: Value = serde_json::from_str(&place.read("whole.json")).unwrap();
    assert_eq!(whole["point"], out["point"]);

    // Without settings they are chosen, and the reasons are notes; the cautious price is near 0.65 with this slack.
    place.put("shop.toml", "[data]\nbilevel = 'pricing'\n[problem]\n[solver]\nname = 'auto'\n[budget]\nseconds = 60\n");
    let ran = place.run(&["solve", "shop.toml", "--out", "shop.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let out: Value = serde_json::from_str(&place.read("shop.json")).unwrap();
    assert!((number(&out["bilevel"]["x"][0]) - 0.65).abs() < 0.06, "{}", ran.out);
    assert!(ran.out.contains("note: sigma = ") && ran.out.contains("note: outer = "), "{}", ran.out);
    // What is not about models is refused there.
    for command in ["certify", "tradeoff"] {
        let point = ["certify", "shop.toml", "--point", "shop.json"];
        let args: &[&str] = if command == "certify" { &point } else { &["tradeoff", "shop.toml", "--bounds", "0.1..0.2:2"] };
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.out);
        assert!(
            ran.err.contains("needs a model, but this is a bilevel problem; use terms, or thalweg solve"),
            "{command}: {}",
            ran.err
        );
    }
}
