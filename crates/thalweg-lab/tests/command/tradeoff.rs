//! `thalweg tradeoff` as a user meets it: sweeps of a table and of a spec, files, refusals, bounds that cannot be kept.

use crate::common::{Place, Ran};
use serde_json::Value;
use thalweg_lab::data::adult;

/// Rows of tradeoff.csv by the names of its columns.
fn rows(text: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn number(row: &std::collections::HashMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|e| panic!("{name} = '{}': {e}", row[name]))
}

/// Insists that elements are closed in the order in which they were opened, that attributes are quoted, that nothing is
/// fetched, and counts the markers of points.
#[track_caller]
fn points_of(svg: &str) -> usize {
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("href") && !svg.contains("url("), "{svg}");
    let mut open = vec![];
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag is closed");
        assert!(!text.contains('>') && text.split('&').skip(1).all(|rest| rest.contains(';')), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    svg.matches("<title>bound ").count()
}

const ROC: &str = "roc_gap(thresholds = 20, low = -3.0, high = 3.0)";

fn spec(minimize: &str, subject_to: &str, solver: &str) -> String {
    format!(
        "[data]\nname = 'a9a'\n[problem]\nminimize = '{minimize}'\nsubject_to = [{subject_to}]\ndomain = {{ ball = 30.0 }}\n\
         [solver]\n{solver}\n[budget]\niterations = 60\n[record]\nevery = 20\n"
    )
}

fn sweep(spec: &str, arguments: &[&str]) -> (Place, Ran) {
    let place = Place::new();
    place.put("run.toml", spec);
    let ran = place.run(&[&["tradeoff", "run.toml"], arguments].concat());
    (place, ran)
}

/// A small table with groups.
fn people() -> String {
    let mut text = String::from("age,sex,y\n");
    for i in 0..300_u32 {
        let (age, sex) = (18 + i * 37 % 53, i * 7 % 5 % 2);
        text += &format!("{age},{},{}\n", ["f", "m"][sex as usize], u32::from(age + 12 * sex + i * i % 41 > 70));
    }
    text
}

#[test]
fn adult_costs_more_the_tighter_the_bound_is() {
    let place = Place::new();
    place.put("adult.csv", adult::csv().unwrap());
    let arguments = ["tradeoff", "adult.csv", "--label", "income", "--group", "sex", "--minimize", "logistic"];
    let more = ["--subject-to", "demographic_parity <= 0.02", "--bounds", "0.02..0.2:3", "--iterations", "300"];
    let ran = place.run(&[&arguments[..], &more].concat()).ended(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "feasible; every constraint is satisfied at every point");
    assert_eq!(lines[1], "logistic + 0.0000256 * ridge subject to demographic_parity <= bound");
    let header: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(header[..5], ["bound", "objective", "surrogate", "measured", "(held"], "{}", ran.out);
    for (line, bound) in lines[4..7].iter().zip(["0.2", "0.06325", "0.02"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((cells.len(), cells[0], cells[7]), (11, bound, "yes"), "{line}");
    }
    assert_eq!(place.files(), ["adult.csv", "tradeoff"]);

    let rows = rows(&place.read("tradeoff/tradeoff.csv"));
    assert_eq!(rows.iter().map(|r| number(r, "bound")).collect::<Vec<_>>(), [0.2, 0.06325, 0.02]);
    for row in &rows {
        assert!(number(row, "measured") <= number(row, "bound") + 1e-6, "{row:?}");
        assert!(number(row, "held_out_accuracy") > 0.8 && number(row, "accuracy") > 0.8, "{row:?}");
        assert!(number(row, "proved") < 0.1, "{row:?}");
    }
    for pair in rows.windows(2) {
        let [loose, tight] = [0, 1].map(|i| number(&pair[i], "objective"));
        assert!(loose <= tight * (1.0 + 1e-4), "{loose} for the looser bound, {tight} for the tighter one");
    }
    assert_eq!(points_of(&place.read("tradeoff/tradeoff.svg")), 3);
}

#[test]
fn a_spec_is_swept_with_its_solver() {
    for (solver, name) in [("name = 'bundle'", "bundle"), ("name = 'ssg'\neta = 0.05\ntol = 1e-5", "ssg")] {
        let (place, ran) = sweep(&spec(ROC, "'hinge <= 0.45'", solver), &["--bounds", "0.45, 0.6,0.5", "--out", "a/b"]);
        let ran = ran.ended(0);
        assert!(ran.out.contains(" subject to hinge <= bound\n\nbound  objective "), "{}", ran.out);
        assert!(!ran.out.contains("measured") && !ran.out.contains("accuracy"), "{}", ran.out);
        let rows = rows(&place.read("a/b/tradeoff.csv"));
        assert_eq!(rows.iter().map(|r| number(r, "bound")).collect::<Vec<_>>(), [0.6, 0.5, 0.45], "{name}");
        for row in &rows {
            assert!(number(row, "value") <= number(row, "bound") + 1e-6 && row["measured"].is_empty(), "{name}: {row:?}");
            assert!(number(row, "proved").is_finite(), "{name}: {row:?}");
        }
        let objectives: Vec<f64> = rows.iter().map(|r| number(r, "objective")).collect();
        assert!(objectives.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-4)), "{name}: {objectives:?}");
        assert_eq!(points_of(&place.read("a/b/tradeoff.svg")), 3);
    }
}

#[test]
fn a_bound_that_cannot_be_kept_is_a_row_like_the_others() {
    let (place, ran) = sweep(&spec(ROC, "'hinge <= 0.45'", "name = 'bundle'"), &["--bounds", "0.05,0.5,0.6"]);
    let ran = ran.ended(1);
    assert!(ran.out.starts_with("not feasible; 1 of 3 points violate a constraint\n"), "{}", ran.out);
    let rows = rows(&place.read("tradeoff/tradeoff.csv"));
    assert_eq!(rows.iter().map(|r| r["feasible"].as_str()).collect::<Vec<_>>(), ["true", "true", "false"]);
    assert!(rows[2]["proved"].is_empty() && !rows[2]["ended"].is_empty(), "{:?}", rows[2]);
    assert!(number(&rows[2], "value") > 0.05);
    let svg = place.read("tradeoff/tradeoff.svg");
    assert!(svg.contains("a constraint violated"), "{svg}");
    assert_eq!(points_of(&svg), 3);
    // The neighbours are what they are without it.
    let (alone, _) = sweep(&spec(ROC, "'hinge <= 0.45'", "name = 'bundle'"), &["--bounds", "0.5,0.6"]);
    let alone = self::rows(&alone.read("tradeoff/tradeoff.csv"));
    assert_eq!(alone.iter().map(|r| &r["objective"]).collect::<Vec<_>>(), [&rows[0]["objective"], &rows[1]["objective"]]);
}

#[test]
fn the_outcome_as_json() {
    let two = spec("hinge", "'demographic_parity <= 0.1', 'l2 <= 4'", "name = 'bundle'");
    let (_, ran) = sweep(&two, &["--bounds", "1..3:2", "--of", "l2", "--json"]);
    let outcome = ran.json();
    assert_eq!(ran.code.map(i64::from), outcome["exit_code"].as_i64());
    assert_eq!((&outcome["constraint"], &outcome["minimize"]), (&"l2".into(), &"hinge".into()));
    assert_eq!(outcome["others"], serde_json::json!(["demographic_parity <= 0.1"]));
    assert_eq!(outcome["interrupted"], Value::Bool(false));
    let points = outcome["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|p| p["bound"].as_f64().unwrap()).collect::<Vec<_>>(), [3.0, 1.0]);
    assert!(points.iter().all(|p| p["objective"].is_f64() && p["accuracy"].is_null() && p.get("x").is_none()));

    // By number it is the same one; without --of the first, and a note says so.
    let (_, second) = sweep(&two, &["--bounds", "1..3:2", "--of", "2", "--json"]);
    assert_eq!(second.json()["constraint"], "l2");
    let (_, first) = sweep(&two, &["--bounds", "0.1", "--json"]);
    let first = first.json();
    assert_eq!(first["constraint"], "demographic_parity");
    assert!(
        first["notes"][0]["text"].as_str().unwrap().starts_with("sweeping the bound of 'demographic_parity', the first of 2")
    );
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    let one = spec("hinge", "'l2 <= 4'", "name = 'bundle'");
    for (bounds, parts) in [
        ("", &["--bounds : '' is not a finite number"][..]),
        ("a..1:3", &["--bounds a..1:3: 'a' is not a finite number", "expected A..B:N"]),
        ("1..2", &["--bounds 1..2: has no number of values; expected A..B:N"]),
        ("1..2:1", &["'1' values; expected a whole number from 2 to 1000"]),
        ("1..2:x", &["'x' values; expected a whole number"]),
        ("1..2:5000", &["'5000' values"]),
        ("1..1:3", &["1 is there twice; expected different values"]),
        ("1,2,1", &["1 is there twice"]),
        ("1,inf", &["'inf' is not a finite number"]),
        ("1,,2", &["'' is not a finite number"]),
        ("-1..nan:3", &["'nan' is not a finite number"]),
    ] {
        let (place, ran) = sweep(&one, &["--bounds", bounds]);
        ran.refused(parts);
        assert_eq!(place.files(), ["run.toml"], "{bounds}");
    }
    let refused = |spec: &str, arguments: &[&str], parts: &[&str]| {
        let (place, ran) = sweep(spec, &[&["--bounds", "1,2"], arguments].concat());
        ran.refused(parts);
        assert_eq!(place.files(), ["run.toml"]);
    };
    refused(&one, &["--of", "3"], &["--of 3: there is no such constraint; expected one of 1 (l2)"]);
    refused(&one, &["--of", "l3"], &["--of l3: there is no such constraint", "l2"]);
    refused(&one, &["--label", "y"], &["--label is for a table; expected it in the spec run.toml"]);
    refused(&spec("hinge", "", "name = 'bundle'"), &[], &["the problem has no constraint"]);
    let two = spec("hinge", "'l2 <= 4', 'l1 <= 3'", "name = 'bundle'");
    refused(&two, &["--of", "l"], &["--of l: 2 constraints begin so; expected one of 1 (l2), 2 (l1)"]);

    let place = Place::new();
    place.put("people.csv", people());
    let table = ["tradeoff", "people.csv", "--label", "y", "--bounds", "1,2"];
    place.run(&table).refused(&["there is no constraint; expected --subject-to"]);
    let more = ["--subject-to", "l2 <= 1"];
    place.run(&[&table[..], &more, &["--data-dir", "."]].concat()).refused(&["--data-dir is for the data sets of a spec"]);
    place.put("file", "");
    place.run(&[&table[..], &more, &["--out", "file"]].concat()).refused(&["--out file: cannot be made"]);
    assert_eq!(place.files(), ["file", "people.csv"]);
}

#[test]
fn a_table_is_swept_by_the_switching_method_too() {
    let place = Place::new();
    place.put("people.csv", people());
    let arguments = ["tradeoff", "people.csv", "--label", "y", "--group", "sex", "--solver", "ssg", "--iterations", "200"];
    let ran =
        place.run(&[&arguments[..], &["--subject-to", "demographic_parity <= 1", "--bounds", "0.1,0.3", "--json"]].concat());
    let outcome = ran.ended(0).json();
    for point in outcome["points"].as_array().unwrap() {
        assert!(point["measured"].as_f64().unwrap() <= point["bound"].as_f64().unwrap() + 1e-6, "{point}");
        assert!(point["proved"].is_f64(), "{point}");
    }
    let quiet = place.run(&[&arguments[..], &["--subject-to", "l2 <= 1", "--bounds", "1", "--quiet"]].concat()).ended(0);
    assert_eq!(quiet.out, "");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_the_finished_points() {
    let place = Place::new();
    // The first bounds end by themselves, and there are far more of them than there is time for.
    place
        .put("run.toml", spec(ROC, "'hinge <= 0.45'", "name = 'ssg'\neta = 0.05").replace("iterations = 60", "iterations = 400"));
    let mut command = place.command(&["tradeoff", "run.toml", "--bounds", "0.42..0.9:1000"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(sent.success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(130), ""), "{}", ran.out);
    let finished = match ran.out.strip_prefix("interrupted; ").and_then(|rest| rest.split_once(" of 1000 points were finished\n"))
    {
        Some((finished, _)) => finished.parse::<usize>().unwrap(),
        // A slow machine has no point yet, and then there are no files.
        None => {
            assert_eq!(ran.out, "interrupted; no point was finished, nothing was saved\n");
            assert_eq!(place.files(), ["run.toml"]);
            return;
        }
    };
    assert_eq!(rows(&place.read("tradeoff/tradeoff.csv")).len(), finished);
}
