//! `--report` of `fit`, `solve` and `tradeoff`: the numbers on the page are those of the outcome, and nothing that a user writes
//! breaks it.

use std::collections::HashMap;

use crate::common::{Place, Ran, cells};
use serde_json::{Value, json};

/// 300 rows with two groups, weights, and a label that depends on the group.
fn people() -> String {
    let mut text = String::from("age,sex,w,y\n");
    for i in 0..300_u32 {
        let (age, sex) = (18 + i * 37 % 53, i * 7 % 5 % 2);
        let yes = age + 12 * sex + i * i % 41 > 70;
        text += &format!("{age},{},{}.5,{}\n", ["f", "m"][sex as usize], i % 3, if yes { "good" } else { "bad" });
    }
    text
}

fn place() -> Place {
    let place = Place::new();
    place.put("people.csv", people());
    place
}

const FIT: [&str; 11] = [
    "fit",
    "people.csv",
    "--label",
    "y",
    "--group",
    "sex",
    "--subject-to",
    "demographic_parity <= 0.1",
    "--iterations",
    "300",
    "--json",
];

fn fit(place: &Place, more: &[&str]) -> Ran {
    place.run(&[&FIT, &["--out", "m", "--report", "page.html"][..], more].concat())
}

/// What the page was made from.
#[track_caller]
fn data_of(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\"").expect("a page has its data");
    let (_, rest) = rest.split_once('>').unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {data}"))
}

fn page(place: &Place) -> Value {
    data_of(&place.read("page.html"))
}

/// The section of a kind, if the page has one.
fn section<'a>(page: &'a Value, kind: &str) -> Option<&'a Value> {
    page["sections"].as_array().unwrap().iter().find(|s| s["kind"] == kind)
}

/// Columns of a trace by name.
fn columns(trace: &Value) -> HashMap<String, Vec<f64>> {
    let column = |c: &Value| {
        let values = c[1].as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect();
        (c[0].as_str().unwrap().to_string(), values)
    };
    trace["columns"].as_array().unwrap().iter().map(column).collect()
}

/// Insists on the same numbers to the digits that a chart has.
#[track_caller]
fn assert_near(shown: &[f64], exact: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs();
    assert!(shown.len() == exact.len() && shown.iter().zip(exact).all(near), "{shown:?} {exact:?}");
}

/// A column of a CSV file.
fn column_of(csv: &str, name: &str) -> Vec<f64> {
    let (header, rows) = cells(csv);
    let j = header.iter().position(|h| *h == name).unwrap();
    rows.iter().map(|row| row[j].parse().unwrap()).collect()
}

/// Everything in the facts: names and values, and paragraphs.
fn facts(page: &Value) -> (HashMap<String, String>, Vec<String>) {
    let text = |v: &Value| v.as_str().unwrap().to_string();
    let parts = section(page, "facts").unwrap()["parts"].as_array().unwrap();
    let rows = parts.iter().flat_map(|p| p["rows"].as_array().unwrap()).map(|row| (text(&row[0]), text(&row[1]))).collect();
    (rows, parts.iter().flat_map(|p| p["words"].as_array().unwrap()).map(text).collect())
}

#[test]
fn a_fit_is_shown_with_the_numbers_of_its_model() {
    let place = place();
    let ran = fit(&place, &[]).ended(0).json();
    let (page, m) = (page(&place), &ran["measured"]);
    let model: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    assert_eq!(&model["measured"], m);

    let kinds: Vec<&str> = page["sections"].as_array().unwrap().iter().map(|s| s["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["bounds", "groups", "scores", "experiment", "facts"]);
    assert_eq!((&page["title"], &page["alerts"]), (&json!("logistic + 0.00413 * ridge on people.csv"), &json!([])));
    let lead = page["lead"].as_str().unwrap();
    let accuracy =
        format!("{:.2}% on {} held-out rows", 100.0 * m["held_out"]["accuracy"].as_f64().unwrap(), m["held_out"]["rows"]);
    assert!(
        lead.starts_with("Feasible; every constraint is satisfied on the training rows.") && lead.contains(&accuracy),
        "{lead}"
    );
    assert!(lead.contains("demographic_parity, measured: 0.") && lead.ends_with(", bound 0.1."), "{lead}");

    let (c, held) = (&m["constraints"][0], &m["held_out"]);
    let rows = &section(&page, "bounds").unwrap()["constraints"];
    let counted = json!({ "name": "demographic_parity, measured", "bound": 0.1, "value": c["measured"],
        "held_out": held["measured"][0], "satisfied": true });
    assert_eq!(rows[0], counted);
    assert_eq!((&rows[1]["bound"], &rows[1]["value"]), (&c["surrogate_bound"], &c["surrogate"]));
    assert_eq!((rows.as_array().unwrap().len(), &rows[1]["satisfied"]), (2, &Value::Null));

    let groups = section(&page, "groups").unwrap();
    let of = |rows: &str, what: &str| m[rows]["groups"].as_array().unwrap().iter().map(|g| g[what].clone()).collect::<Vec<_>>();
    let names: Vec<Value> =
        of("training", "group").into_iter().zip(of("training", "rows")).map(|(name, n)| json!([name, n])).collect();
    assert_eq!((&groups["groups"], names.len()), (&json!(names), 2));
    for (rate, what) in groups["rates"].as_array().unwrap().iter().zip(["predicted", "accuracy", "positive"]) {
        assert_eq!(
            (&rate["training"], &rate["held_out"]),
            (&json!(of("training", what)), &json!(of("held_out", what))),
            "{what}"
        );
    }
    assert_eq!(groups["rates"].as_array().unwrap().len(), 3);

    let run = &section(&page, "experiment").unwrap()["runs"][0];
    assert_eq!((&run["objective"], &run["iterations"]), (&m["training"]["objective"], &m["iterations"]));
    let over = c["measured"].as_f64().unwrap() - 0.1;
    assert_eq!((&run["feasible"], run["violation"].as_f64()), (&json!(true), Some(over)));
    let passes = m["passes"]["objective"].as_f64().unwrap() + m["passes"]["constraints"].as_f64().unwrap();
    assert_eq!(run["passes"].as_f64(), Some(passes));
    let (trace, csv) = (columns(&run["trace"]), place.read("m/trace.csv"));
    for (name, of_csv) in [("iterations", "iteration"), ("objective", "objective"), ("passes_g", "passes_g")] {
        assert_near(&trace[name], &column_of(&csv, of_csv));
    }
    // The trace has the constraint less its bound, the page the constraint itself.
    let violation = column_of(&csv, "violation");
    assert_near(&trace["violation"], &violation);
    assert_near(&trace["demographic_parity"], &violation.iter().map(|v| v + 0.1).collect::<Vec<_>>());
    let feasible: Vec<u8> = violation.iter().map(|v| u8::from(*v <= 1e-6)).collect();
    assert_eq!(run["trace"]["feasible"], json!(feasible));

    let (rows, words) = facts(&page);
    // Full passes over all rows: the samples can be counted.
    let samples = rows["samples"].replace(',', "").parse::<f64>().unwrap();
    assert_eq!(samples, m["training"]["rows"].as_f64().unwrap() * passes);
    let t = &ran["training"];
    assert_eq!(rows["sha256"], t["fingerprint"].as_str().unwrap());
    assert_eq!(
        (rows["file"].as_str(), rows["seed"].as_str(), rows["solver"].as_str()),
        ("people.csv", "0", t["solver"].as_str().unwrap())
    );
    let notes = ran["notes"].as_array().unwrap().iter().chain(t["reasons"].as_array().unwrap());
    for note in notes.map(|note| serde_json::from_value(note.clone()).unwrap()) {
        let sentence = thalweg_lab::output::with_options(&note);
        assert!(words.contains(&sentence), "{sentence}");
    }
}

#[test]
fn scores_are_counted_by_group_with_the_weights_of_rows() {
    let place = place();
    fit(&place, &["--weights", "w", "--test-fraction", "0"]).ended(0);
    let page = page(&place);
    assert!(section(&page, "bounds").unwrap()["constraints"][0]["held_out"].is_null());
    assert_eq!(section(&page, "groups").unwrap()["rates"][0]["held_out"], json!([]));
    let scores = section(&page, "scores").unwrap();
    assert_eq!((&scores["title"], &scores["threshold"]), (&json!("Scores of training rows"), &json!(0.0)));
    let edges: Vec<f64> = serde_json::from_value(scores["edges"].clone()).unwrap();
    assert!((50..=65).contains(&edges.len()) && edges.contains(&0.0), "{edges:?}");

    // The model's own scores, binned again: at each edge the share of the group's weight that is not above it.
    let predicted = column_of(&place.run(&["predict", "m", "people.csv"]).ended(0).out, "score");
    let text = people();
    let (_, rows) = cells(&text);
    let groups: Vec<(String, Vec<f64>)> = serde_json::from_value(scores["groups"].clone()).unwrap();
    assert_eq!(groups.len(), 2);
    for (name, bins) in &groups {
        let mine = || rows.iter().zip(&predicted).filter(|(row, _)| row[1] == *name);
        let weight = |row: &[&str]| row[2].parse::<f64>().unwrap();
        let total: f64 = mine().map(|(row, _)| weight(row)).sum();
        assert_eq!(bins.len() + 1, edges.len());
        let mut below = 0.0;
        for (i, share) in bins.iter().enumerate() {
            below += share;
            let last = i + 1 == bins.len();
            let not_above: f64 = mine().filter(|(_, s)| last || **s <= edges[i + 1]).map(|(row, _)| weight(row)).sum();
            assert!((below - not_above / total).abs() < 1e-9, "{name}, bin {i}: {below} {}", not_above / total);
        }
    }
}

#[test]
fn a_fit_that_misses_its_bound_says_so_first() {
    let place = place();
    let constraints = ["--subject-to", "logistic <= 0.05", "--group", "sex", "--iterations", "60"];
    let arguments = ["fit", "people.csv", "--label", "y", "--out", "m", "--report", "page.html"];
    let ran = place.run(&[&arguments[..], &constraints].concat()).ended(1);
    assert!(ran.out.ends_with("\nsaved m/model.json, m/trace.csv and page.html\n"), "{}", ran.out);
    let page = page(&place);
    assert_eq!(page["alerts"].as_array().unwrap().len(), 1, "{page}");
    assert!(page["lead"].as_str().unwrap().starts_with("Infeasible; "), "{page}");
    let row = &section(&page, "bounds").unwrap()["constraints"][0];
    assert_eq!((&row["name"], &row["satisfied"]), (&json!("logistic"), &json!(false)));
    assert_eq!(section(&page, "experiment").unwrap()["runs"][0]["feasible"], false);
}

#[test]
fn without_constraints_and_groups_there_is_still_a_page() {
    let place = place();
    place.run(&["fit", "people.csv", "--label", "y", "--iterations", "60", "--report", "page.html", "--quiet"]).ended(0);
    let page = page(&place);
    let kinds: Vec<&str> = page["sections"].as_array().unwrap().iter().map(|s| s["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["scores", "experiment", "facts"]);
    assert_eq!(section(&page, "scores").unwrap()["groups"][0][0], "all rows");
    let run = &section(&page, "experiment").unwrap()["runs"][0];
    assert!(run["violation"].is_null() && !columns(&run["trace"]).contains_key("violation"), "{run}");
}

/// LIBSVM rows: two features and a mark of the group.
fn rows() -> String {
    let row = |i: u32| {
        let (a, b) = (f64::from(i * 37 % 53) / 53.0 - 0.5, f64::from(i * 11 % 17) / 17.0 - 0.5);
        let sign = if a + b + f64::from(i % 7) / 10.0 > 0.2 { "+1" } else { "-1" };
        format!("{sign} 1:{a} 2:{b}{}\n", if i.is_multiple_of(3) { " 3:1" } else { "" })
    };
    (0..120).map(row).collect()
}

fn spec(more: &str, solver: &str) -> String {
    format!(
        "seed = 3\n{more}\n[data]\nfile = 'rows.svm'\ngroup = 3\ntest_fraction = 0.25\nsplit = 'shared'\n[problem]\n\
         minimize = 'logistic'\nsubject_to = ['demographic_parity <= 0.05', 'l2 <= 4']\nintercept = true\ndomain = {{ ball = 5 }}\n\
         [solver]\n{solver}\n[budget]\niterations = 40\n[record]\nevery = 10\n"
    )
}

#[test]
fn a_run_is_shown_with_the_numbers_of_its_outcome() {
    let place = Place::new();
    place.put("rows.svm", rows());
    place.put("run.toml", spec("certificate = 'bounds'", "name = 'ssg'\neta = 0.1"));
    let ran = place.run(&["solve", "run.toml", "--json", "--report", "page.html"]);
    let (ran, page) = (ran.json(), page(&place));

    assert_eq!(page["title"], "logistic on rows.svm");
    assert!(
        page["lead"].as_str().unwrap().contains("; ran the planned iterations, no stopping criterion. The objective is 0."),
        "{page}"
    );
    let constraints = section(&page, "bounds").unwrap()["constraints"].as_array().unwrap();
    assert_eq!(constraints.len(), 2);
    for (j, row) in constraints.iter().enumerate() {
        let (c, bound) = (&ran["point"]["constraints"][j], ran["bounds"][j].as_f64().unwrap());
        assert_eq!((&row["name"], &row["satisfied"]), (&c["name"], &c["satisfied"]));
        assert_eq!((row["bound"].as_f64(), row["value"].as_f64()), (Some(bound), Some(c["value"].as_f64().unwrap() + bound)));
        let held = ran["held_out"]["constraints"][j]["value"].as_f64().unwrap() + bound;
        assert_eq!(row["held_out"].as_f64(), Some(held));
    }
    let run = &section(&page, "experiment").unwrap()["runs"][0];
    for name in ["iterations", "seconds", "solver"] {
        assert_eq!(run[name], ran[name], "{name}");
    }
    assert_eq!((&run["objective"], &run["feasible"]), (&ran["point"]["objective"], &ran["point"]["feasible"]));
    assert_eq!(run["violation"], ran["point"]["violation"]);
    let bounds = &ran["certificate"]["bounds"];
    assert_eq!(run["certificate"], json!([bounds["lower"], bounds["upper"]]));
    let (trace, certified) = (columns(&run["trace"]), columns(&run["certified"]));
    let recorded = ran["trace"].as_array().unwrap();
    for (i, row) in recorded.iter().enumerate() {
        assert_near(&[trace["objective"][i]], &[row["objective"].as_f64().unwrap()]);
        for (j, name) in ["demographic_parity", "l2"].iter().enumerate() {
            let value = row["constraints"][j].as_f64().unwrap() + ran["bounds"][j].as_f64().unwrap();
            assert_near(&[trace[*name][i]], &[value]);
        }
        let bounds: [f64; 2] = serde_json::from_value(row["stationarity_bounds"].clone()).unwrap();
        assert_near(&[certified["lower"][i], certified["upper"][i]], &bounds);
    }
    assert_eq!((trace["iterations"].clone(), recorded.len()), (vec![0.0, 10.0, 20.0, 30.0, 40.0], 5));

    let (rows, words) = facts(&page);
    assert_eq!(rows["fingerprint"], ran["problem"].as_str().unwrap());
    assert_eq!(rows["budget"], "40 iterations");
    assert!(rows["settings"].contains("eta") && words.iter().any(|w| w.starts_with("Near-stationarity: ")), "{words:?}");
    let Value::Object(counts) = &ran["counts"]["objective_subgradients"] else { panic!("{ran}") };
    let counted = rows["subgradients of the objective"].replace(',', "");
    assert_eq!(counted, format!("{} calls {} samples", counts["calls"], counts["samples"]));
    for note in ran["notes"].as_array().unwrap() {
        assert!(words.iter().any(|w| w == note["text"].as_str().unwrap()), "{note}");
    }
}

#[test]
fn a_sweep_is_shown_with_the_numbers_of_its_points() {
    let place = place();
    let arguments = ["tradeoff", "people.csv", "--label", "y", "--group", "sex", "--subject-to", "demographic_parity <= 0.1"];
    let more = ["--bounds", "0.02,0.1,0.3", "--iterations", "200", "--report", "page.html"];
    let ran = place.run(&[&arguments[..], &more, &["--json"]].concat()).json();
    let page = page(&place);
    let (tradeoff, points) = (section(&page, "tradeoff").unwrap(), ran["points"].as_array().unwrap());
    assert_eq!((&tradeoff["percent"], &tradeoff["y_label"]), (&json!(true), &json!("accuracy on held-out rows")));
    let shown = tradeoff["points"].as_array().unwrap();
    assert_eq!((shown.len(), points.len()), (3, 3));
    for (shown, point) in shown.iter().zip(points) {
        assert_eq!((&shown["x"], &shown["y"]), (&point["measured"], &point["held_out_accuracy"]));
        assert_eq!(shown["feasible"], point["feasible"]);
        assert_eq!(shown["facts"][0], json!(["bound", point["bound"].to_string()]));
    }
    let (listed, _) = facts(&page);
    assert!(["0.02", "0.1", "0.3"].iter().all(|bound| listed[*bound].ends_with(" passes")), "{listed:?}");
    assert!(place.path("tradeoff/tradeoff.svg").exists());

    // A spec, with a bound that cannot be kept.
    place.put("rows.svm", rows());
    place.put("run.toml", spec("", "name = 'bundle'").replace("'l2 <= 4'", "'logistic <= 0.6'"));
    let arguments = ["tradeoff", "run.toml", "--of", "logistic", "--bounds=-1,0.65", "--report", "page.html"];
    let ran = place.run(&arguments).ended(1);
    assert!(ran.out.ends_with("saved tradeoff/tradeoff.csv, tradeoff/tradeoff.svg and page.html\n"), "{}", ran.out);
    let page = self::page(&place);
    assert_eq!(page["alerts"].as_array().unwrap().len(), 1, "{page}");
    let feasible: Vec<&Value> =
        section(&page, "tradeoff").unwrap()["points"].as_array().unwrap().iter().map(|p| &p["feasible"]).collect();
    assert_eq!(feasible, [true, false], "{page}");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_any_work() {
    let place = place();
    place.put("rows.svm", rows());
    place.put("run.toml", spec("", "name = 'ssg'"));
    let before = place.files();
    let table = ["people.csv", "--label", "y", "--subject-to", "logistic <= 0.6"];
    let fit = [&["fit"], &table[..]].concat();
    let tradeoff = [&["tradeoff"], &table[..], &["--bounds", "0.5,0.6"]].concat();
    for command in [&fit[..], &["solve", "run.toml"], &tradeoff, &["tradeoff", "run.toml", "--bounds", "0.1,0.2"]] {
        let refused = |file: &str, parts: &[&str]| place.run(&[command, &["--report", file]].concat()).refused(parts);
        refused("nowhere/page.html", &["--report nowhere/page.html: there is no directory nowhere"]);
        refused(".", &["--report .: is a directory"]);
        refused(command[1], &["--report ", "expected another file"]);
        // Nothing was made, and what was there is as it was.
        assert_eq!((place.files(), place.read("people.csv")), (before.clone(), people()));
    }
    place.run(&[&fit[..], &["--report", "thalweg-model/model.json"]].concat()).refused(&["is where model.json goes"]);
    place.run(&[&tradeoff[..], &["--report", "tradeoff/tradeoff.svg"]].concat()).refused(&["is where tradeoff.svg goes"]);
    place.run(&["solve", "run.toml", "--trace", "a", "--report", "a"]).refused(&["--report a: is the file of --trace"]);
    assert_eq!(place.files(), before);
    // Among the other files of a directory that is not there yet is a good place.
    place.run(&[&fit[..], &["--iterations", "60", "--report", "thalweg-model/page.html"]].concat()).ended(0);
    assert!(place.path("thalweg-model/page.html").exists());
}

#[test]
fn what_a_user_writes_stays_text() {
    let place = Place::new();
    let evil = "</script><b>x";
    let text = people().replace(",f,", &format!(",{evil},")).replace("sex", &format!("sex{evil}")).replace("good", evil);
    place.put("<b>x.csv", text);
    let group = format!("sex{evil}");
    let arguments = ["fit", "<b>x.csv", "--label", "y", "--group", &group, "--subject-to", "demographic_parity <= 0.1"];
    place.run(&[&arguments[..], &["--iterations", "60", "--report", "page.html", "--quiet"]].concat());
    let html = place.read("page.html");
    assert!(!html.contains("<b>x"), "{html}");
    let page = data_of(&html);
    assert_eq!(page["title"], "logistic + 0.00413 * ridge on <b>x.csv");
    let names = &section(&page, "groups").unwrap()["groups"];
    assert!(names.as_array().unwrap().iter().any(|g| g[0] == evil), "{names}");
    assert!(facts(&page).0["groups"].contains(&group));
}

/// Of 250 pairs and of 40 covariances the worst ten have bars; the words count all of them.
#[test]
fn of_many_constraints_the_page_shows_the_worst_and_says_so() {
    for (data, problem, listed) in [
        ("generator = 'gen'\nsample = 60", "minimize = 'welsch'\nsubject_to = ['pairs <= 0']", false),
        ("generator = 'd1'\nsample = 200", "minimize = 'hinge'\nsubject_to = ['covariance <= 0.001']", true),
    ] {
        let place = Place::new();
        let spec = format!(
            "seed = 3\n[data]\n{data}\ntest_fraction = 0.3\nvalidation_fraction = 0.2\n[problem]\n{problem}\nstart = 'sin'\n\
             [solver]\nname = 'dszog'\n[budget]\niterations = 40\n[record]\nevery = 10\n"
        );
        place.put("run.toml", spec);
        let ran = place.run(&["solve", "run.toml", "--json", "--report", "page.html"]).json();
        let (page, point) = (page(&place), &ran["point"]);
        let (total, violated) = (point["total"].as_u64().unwrap(), point["violated"].as_u64().unwrap());
        assert_eq!(total > 200, !listed, "{total}");
        let lead = page["lead"].as_str().unwrap();
        let share = 100.0 * violated as f64 / total as f64;
        assert!(violated > 1, "choose a run that ends with violated constraints: {lead}");
        assert!(lead.contains(&format!("{violated} of {total} constraints are violated ({share:.2} %), '")), "{lead}");
        let bounds = section(&page, "bounds").unwrap();
        assert_eq!(bounds["title"], format!("Bounds: the worst 10 of {total} constraints"));
        let bars = bounds["constraints"].as_array().unwrap();
        assert_eq!((bars.len(), &bars[0]["name"]), (10, &point["worst"]));
        assert!(bars.windows(2).all(|w| w[0]["value"].as_f64() >= w[1]["value"].as_f64()));
        let run = &section(&page, "experiment").unwrap()["runs"][0];
        assert_eq!(run["violation"], point["violation"]);
        let trace = columns(&run["trace"]);
        let rows = ran["trace"].as_array().unwrap();
        let number = |i: usize, name: &str| rows[i][name].as_f64().unwrap();
        for (i, row) in rows.iter().enumerate() {
            assert_near(&[trace["violation"][i]], &[number(i, "violation")]);
            assert_near(&[trace["share of violated constraints"][i]], &[number(i, "violated") / total as f64]);
            assert_eq!(run["trace"]["feasible"][i] == 1, row["violated"] == 0);
        }
        // Curves of ten constraints where each is recorded; of hundreds, none.
        assert_eq!(trace.keys().filter(|name| name.contains("covariance")).count(), if listed { 10 } else { 0 });
        assert!(!trace.keys().any(|name| name.contains("row ")), "{:?}", trace.keys());
        let (rows, words) = facts(&page);
        assert_eq!(rows["constraints"], total.to_string());
        assert!(words.iter().any(|w| w.starts_with("From function values alone: ")), "{words:?}");
        assert!(words.iter().any(|w| w.starts_with("With the weights of the solver: eps_1 = ")), "{words:?}");
    }
}
