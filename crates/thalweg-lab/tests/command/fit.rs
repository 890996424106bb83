//! `thalweg fit`, `predict` and `explain` as a user meets them: Adult from raw CSV, scores that come back bit for bit, texts,
//! options, interrupts.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Place, Ran, cells};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use thalweg::Note;
use thalweg::learn::Regularization;
use thalweg::run::Budget;
use thalweg_lab::data::adult;
use thalweg_lab::fit::Request;
use thalweg_lab::model::Model;

/// 300 rows with a number, a category with gaps, groups of two and of three, weights, and a label that depends on them.
fn people() -> String {
    people_with(12)
}

/// The same with a label that depends more or less on the sex.
fn people_with(gain: u32) -> String {
    let mut text = String::from("age,job,sex,region,w,y\n");
    for i in 0..300_u32 {
        let (age, sex) = (18 + i * 37 % 53, i * 7 % 5 % 2);
        let noise = i * i % 41;
        let yes = age + gain * sex + noise > 70;
        let job = ["clerk", "\"smith, \"\"old\"\"\"", "", "maler é"][(i * 11 % 4) as usize];
        let region = ["north", "south", "east"][(i * 13 % 7 % 3) as usize];
        text += &format!("{age},{job},{},{region},{}.5,{}\n", ["f", "m"][sex as usize], i % 3, if yes { "good" } else { "bad" });
    }
    text
}

fn place() -> Place {
    let place = Place::new();
    place.put("people.csv", people());
    place
}

/// Fits people.csv with few iterations and more arguments.
fn fit_people(place: &Place, more: &[&str]) -> Ran {
    // At most 200 iterations, unless the test says how many.
    let iterations: &[&str] = if more.contains(&"--iterations") { &[] } else { &["--iterations", "200"] };
    place.run(&[&["fit", "people.csv", "--label", "y", "--out", "m"], iterations, more].concat())
}

/// The scores that `predict` prints.
fn scores(predictions: &str) -> Vec<f64> {
    let (header, rows) = cells(predictions);
    assert!(header == ["score", "probability", "label"] || header == ["score", "label"], "{header:?}");
    rows.iter().map(|row| row[0].parse().unwrap()).collect()
}

fn bits(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|s| s.to_bits()).collect()
}

/// A CSV without quotes, with its columns in reverse, and one more column in front.
fn turned(csv: &str) -> String {
    let turn = |line: &str| line.split(',').rev().collect::<Vec<_>>().join(",");
    csv.lines()
        .enumerate()
        .map(|(i, l)| format!("{},{}\n", if i == 0 { "more".into() } else { i.to_string() }, turn(l)))
        .collect()
}

#[test]
fn adult_keeps_a_gap_of_two_hundredths_and_predicts_well() {
    let place = Place::new();
    let csv = adult::csv().unwrap();
    place.put("adult.csv", &csv);
    let constraint = "demographic_parity <= 0.02";
    let arguments =
        ["fit", "adult.csv", "--label", "income", "--group", "sex", "--minimize", "logistic", "--subject-to", constraint];
    let ran = place.run(&[&arguments[..], &["--json", "--threads", "2"]].concat()).ended(0);
    let outcome = ran.json();
    let measured = &outcome["measured"];
    assert_eq!((&outcome["exit_code"], &measured["feasible"]), (&0.into(), &true.into()));
    let gap = measured["training"]["measured"][0].as_f64().unwrap();
    assert!(gap <= 0.02, "{gap}");
    let accuracy = measured["held_out"]["accuracy"].as_f64().unwrap();
    assert!(accuracy >= 0.825, "{accuracy}");
    assert_eq!((&measured["training"]["rows"], &measured["held_out"]["rows"]), (&39_076.into(), &9_766.into()));
    assert_eq!(outcome["measured"], serde_json::from_str::<Value>(&place.read("thalweg-model/model.json")).unwrap()["measured"]);

    // The gap can be recounted from the predictions of all rows, which do not depend on the order of the columns.
    place.put("turned.csv", turned(&csv));
    let predicted = |model: &str, file: &str| {
        let ran = place.run(&["predict", model, file]);
        // One row from Holand-Netherlands is held out.
        assert_eq!((ran.code, ran.err.lines().count()), (Some(0), 1), "{}", ran.err);
        assert!(ran.err.starts_with("note: column 'native-country': 1 row has a value"), "{}", ran.err);
        ran.out
    };
    let straight = predicted("thalweg-model", "adult.csv");
    assert!(predicted("thalweg-model/model.json", "turned.csv") == straight, "another order of columns, other predictions");
    assert_eq!(straight.lines().count(), 48_843);
    let request = Request {
        group: vec!["sex".into()],
        subject_to: vec![constraint.into()],
        ..Request::new(place.path("adult.csv"), "income")
    };
    let prepared = request.prepare().unwrap();
    let model = Model::read(&place.path("thalweg-model")).unwrap();
    let x: Vec<f64> = model.weights.iter().map(|w| w.weight).chain([model.intercept]).collect();
    let wanted = bits(&prepared.problem().scores(&x).unwrap());
    let all = bits(&scores(&straight));
    // Training rows are in the order of the file.
    let mut rest = all.iter();
    assert!(wanted.iter().all(|s| rest.any(|t| t == s)));
    assert_eq!(prepared.measure(&model).unwrap(), (model.measured.training.clone(), model.measured.held_out.clone()));

    let text = place.run(&["explain", "thalweg-model", "--top", "5"]).ended(0).out;
    let lines: Vec<&str> = text.lines().collect();
    // 1 / 39,076 to three digits.
    let factor = 0.0000256;
    assert_eq!(lines[0], format!("minimises logistic + {factor} * ridge, subject to demographic_parity <= 0.02"));
    assert_eq!(lines[1], format!("of this, {factor} * ridge was added as regularisation"));
    assert!(text.contains("largest of ") && text.contains("\ncapital-gain ") && text.contains("held-out rows\n"), "{text}");
    assert!(lines.iter().any(|l| l.starts_with("Female") && l.contains("15.51% (14.9 to 16.1)")), "{text}");
}

#[test]
fn predictions_on_the_training_rows_are_the_scores_at_the_end_of_training() {
    let place = place();
    let request = Request {
        budget: Budget::iterations(200),
        group: vec!["region".into()],
        weights: Some("w".into()),
        subject_to: vec!["demographic_parity <= 0.1".into(), "l2 <= 5".into()],
        test_fraction: 0.0,
        ..Request::new(place.path("people.csv"), "y")
    };
    let trained = request.train(request.prepare().unwrap(), &mut ()).unwrap();
    let x: Vec<f64> = trained.model.weights.iter().map(|w| w.weight).chain([trained.model.intercept]).collect();
    assert!(x.iter().any(|v| *v != 0.0));
    let at_the_end = request.prepare().unwrap().problem().scores(&x).unwrap();
    trained.model.write(&place.path("model.json")).unwrap();
    let ran = place.run(&["predict", "model.json", "people.csv", "--out", "scores.csv"]).ended(0);
    assert_eq!(ran.out, "");
    assert_eq!(bits(&scores(&place.read("scores.csv"))), bits(&at_the_end));
    for (row, score) in cells(&place.read("scores.csv")).1.iter().zip(at_the_end) {
        assert_eq!(row[1], if score > 0.0 { "good" } else { "bad" });
    }
}

/// A table of random cells under awkward names, and an order for its columns.
fn random_table() -> impl Strategy<Value = (Vec<[String; 4]>, Vec<usize>)> {
    let number = || prop_oneof![any::<i8>().prop_map(|v| v.to_string()), (-1e6..1e6_f64).prop_map(|v| v.to_string())];
    let word = "[a-bé\",;|\\n 大]{1,3}";
    let row = (number(), word, prop_oneof![3 => number(), 1 => Just("NA".to_string())], prop_oneof![word, Just(String::new())]);
    let rows = prop::collection::vec(row.prop_map(|(a, b, c, d)| [a, b, c, d]), 8..40);
    (rows, Just((0..6).collect::<Vec<usize>>()).prop_shuffle())
}

/// The rows with a label and one more column, columns in this order, as CSV.
fn written(rows: &[[String; 4]], order: &[usize]) -> String {
    let quoted = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
    let names = ["a number", "wörd", "with \"gaps\"", "d,e", "y", "group"];
    let mut text = order.iter().map(|&j| quoted(names[j])).collect::<Vec<_>>().join(",") + "\n";
    for (i, row) in rows.iter().enumerate() {
        let cell = |j: usize| match j {
            4 => ["no", "yes"][i % 2],
            5 => ["u", "v"][i / 2 % 2],
            _ => &row[j],
        };
        text += &(order.iter().map(|&j| quoted(cell(j))).collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

#[test]
fn random_tables_are_predicted_alike_after_their_columns_changed_places() {
    let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let place = Place::new();
    let trained = std::cell::Cell::new(0);
    let done = runner.run(&random_table(), |(rows, order)| {
        let request = Request {
            budget: Budget::iterations(40),
            group: vec!["group".into()],
            subject_to: vec!["demographic_parity <= 0.2".into()],
            ..Request::new(place.path("a.csv"), "y")
        };
        place.put("a.csv", written(&rows, &[0, 1, 2, 3, 4, 5]));
        // A column may be refused, for example if it looks like numbers with a slip.
        let Ok(prepared) = request.prepare() else { return Ok(()) };
        trained.set(trained.get() + 1);
        let kept = prepared.problem().data().features.clone();
        let model = request.train(prepared, &mut ()).unwrap().model;
        model.write(&place.path("model.json")).unwrap();
        place.put("b.csv", written(&rows, &order));
        let back = Model::read(&place.path("model.json")).unwrap();
        prop_assert_eq!(&back, &model);
        let predict = |file: &str| back.scores(&back.input.read(&place.path(file)).unwrap().0);
        let here = bits(&predict("a.csv"));
        prop_assert_eq!(bits(&predict("b.csv")), here.clone());
        let mut rest = here.iter();
        prop_assert!(bits(&model.scores(&kept)).iter().all(|s| rest.any(|t| t == s)));
        Ok(())
    });
    done.unwrap();
    assert!(trained.get() > 100, "{}", trained.get());
}

#[test]
fn an_unconstrained_model_can_be_read_again() {
    let place = place();
    let ran = fit_people(&place, &[]).ended(0);
    assert!(ran.out.starts_with("trained without constraints\n"), "{}", ran.out);
    assert!(ran.out.contains("\nsaved m/model.json and m/trace.csv\n"), "{}", ran.out);
    place.run(&["predict", "m", "people.csv"]).ended(0);
    let text = place.run(&["explain", "m"]).ended(0).out;
    assert!(
        text.starts_with("minimises logistic + ") && text.contains(" * ridge, subject to nothing\n") && !text.contains("bound"),
        "{text}"
    );
    assert!(text.contains("training rows: accuracy ") && text.contains("held-out rows: accuracy "), "{text}");
    let (header, rows) = (place.read("m/trace.csv"), place.read("m/trace.csv").lines().count());
    assert!(header.starts_with("iteration,objective,violation,") && rows > 4, "{header}");
}

/// In models of older builds the field `measured` of a set of rows was `counted`, and `satisfied` was `kept`.
#[test]
fn a_model_with_the_former_names_of_fields_is_read() {
    let place = place();
    fit_people(&place, &["--subject-to", "demographic_parity <= 0.2", "--group", "sex"]).ended(0);
    let model = place.read("m/model.json");
    let mut old: Value = serde_json::from_str(&model).unwrap();
    let rename = |table: &mut Value, from: &str, to: &str| {
        let table = table.as_object_mut().unwrap();
        let value = table.remove(from).unwrap();
        table.insert(to.into(), value);
    };
    let measured = &mut old["measured"];
    rename(&mut measured["constraints"][0], "satisfied", "kept");
    rename(&mut measured["training"], "measured", "counted");
    rename(&mut measured["held_out"], "measured", "counted");
    place.put("old.json", old.to_string());
    assert_eq!(Model::read(&place.path("old.json")).unwrap(), Model::read(&place.path("m/model.json")).unwrap());
    // The reasons for the choice of a solver were sentences.
    let sentences = ["2 constraints", "bundle, because", "to repeat: --solver bundle --seed 0"];
    old["training"]["reasons"] = sentences.into();
    place.put("old.json", old.to_string());
    let reasons = Model::read(&place.path("old.json")).unwrap().training.reasons;
    assert_eq!(reasons, sentences.map(|sentence| Note::Text(sentence.into())));
}

#[test]
fn more_than_two_groups_and_two_constraints_at_once() {
    let place = place();
    let two = ["--subject-to", "demographic_parity <= 0.1", "--subject-to", "logistic(on = 'positives') <= 0.6"];
    let ran = fit_people(&place, &[&two[..], &["--group", "region", "--json"]].concat()).ended(0);
    let m = &ran.json()["measured"];
    assert_eq!(m["training"]["groups"].as_array().unwrap().len(), 3);
    assert!(m["training"]["measured"][0].as_f64().unwrap() <= 0.1 + 1e-6 && m["training"]["measured"][1].is_null(), "{m}");
    assert!(m["training"]["constraints"][1].as_f64().unwrap() <= 0.6 + 1e-6, "{m}");
    let text = place.run(&["explain", "m"]).ended(0).out;
    for word in ["north", "south", "east", "positive predictions", "feasible; every constraint is satisfied"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // The output says which differences a gap between three groups bounds.
    let note = &ran.json()["notes"].as_array().unwrap().iter().find(|n| n["kind"] == "gap-meaning").unwrap().clone();
    assert_eq!((&note["comparison"], &note["groups"]), (&"between-groups".into(), &3.into()));
    assert_eq!(note["text"], "'demographic_parity' is the largest difference between two groups (3 groups)");
    let overall = ["--group", "region", "--subject-to", "equalized_odds(compare = 'to_overall') <= 0.2"];
    let text = fit_people(&place, &overall).out;
    assert!(text.contains("is the largest difference between a group and the overall rate (3 groups)"), "{text}");
    assert!(text.contains("equalised_odds(compare = \"to-overall\"), measured"), "{text}");
    // One value against all others.
    let ran = fit_people(&place, &["--group", "region=east", "--subject-to", "equal_opportunity <= 0.1", "--json"]);
    assert_eq!(ran.json()["measured"]["training"]["groups"][0]["group"], "east");
}

/// Counted rates are recounted from what `predict` prints; the model without the constraint misses the bound.
#[test]
fn rates_of_errors_and_equalised_odds_satisfy_their_measured_bounds() {
    let place = place();
    let people = people_with(30);
    place.put("people.csv", &people);
    let all = ["--positive", "good", "--test-fraction", "0", "--group", "sex", "--leave-out", "w", "--json"];
    // Sex and label; a job may have a comma in it.
    let rows: Vec<(String, String)> = people
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.rsplit(',').collect();
            (cells[3].into(), cells[0].into())
        })
        .collect();
    // Share of the rows with this label, and of this group where one is named, that the model calls good.
    let recount = || {
        let called: Vec<bool> = scores(&place.run(&["predict", "m", "people.csv"]).out).iter().map(|s| *s > 0.0).collect();
        let rows = rows.clone();
        move |label: &str, group: Option<&str>| {
            let of: Vec<usize> =
                (0..rows.len()).filter(|&i| rows[i].1 == label && group.is_none_or(|g| rows[i].0 == g)).collect();
            of.iter().filter(|&&i| called[i]).count() as f64 / of.len() as f64
        }
    };
    let odds = |rate: &dyn Fn(&str, Option<&str>) -> f64| {
        ["good", "bad"].map(|label| (rate(label, Some("f")) - rate(label, Some("m"))).abs()).into_iter().fold(0.0, f64::max)
    };
    fit_people(&place, &all).ended(0);
    let rate = recount();
    let (free_rate, free_odds) = (rate("bad", None), odds(&rate));
    for (term, bound, free) in [("false_positive_rate", 0.1, free_rate), ("equalised_odds", 0.1, free_odds)] {
        assert!(free > bound + 0.02, "{term} of the model without it is {free}: the bound would prove nothing");
        let constraint = format!("{term} <= {bound}");
        let outcome = fit_people(&place, &[&all[..], &["--subject-to", &constraint]].concat()).ended(0).json();
        let measured = outcome["measured"]["training"]["measured"][0].as_f64().unwrap();
        let rate = recount();
        let again = if term == "equalised_odds" { odds(&rate) } else { rate("bad", None) };
        assert!(measured <= bound + 1e-6 && (measured - again).abs() < 1e-12, "{term}: {measured}, measured again as {again}");
    }
    // The Wasserstein gap has one form alone and no weak-convexity constant.
    let outcome = fit_people(&place, &[&all[..], &["--subject-to", "wasserstein_gap <= 0.2"]].concat()).ended(0).json();
    let measured = &outcome["measured"]["training"];
    assert!(measured["measured"][0].is_null() && measured["constraints"][0].as_f64().unwrap() <= 0.2 + 1e-6, "{measured}");
    assert_eq!(outcome["training"]["solver"], "ssg");
    let ran = fit_people(&place, &[&all[..], &["--subject-to", "wasserstein_gap <= 0.2", "--solver", "bundle"]].concat());
    assert!(ran.code == Some(2) && ran.err.contains("no known weak-convexity constant"), "{ran:?}");
}

#[test]
fn race_of_adult_has_five_groups() {
    let place = Place::new();
    let csv = adult::csv().unwrap();
    let some: String = csv.lines().take(4001).map(|l| format!("{l}\n")).collect();
    place.put("adult.csv", some);
    let arguments = ["fit", "adult.csv", "--label", "income", "--group", "race", "--subject-to", "demographic_parity <= 0.05"];
    let ran = place.run(&[&arguments[..], &["--iterations", "400", "--json", "--out", "m"]].concat()).ended(0);
    let groups = ran.json()["measured"]["training"]["groups"].clone();
    let rate = |g: &Value| g["predicted"].as_f64().unwrap();
    let rates: Vec<f64> = groups.as_array().unwrap().iter().map(rate).collect();
    assert_eq!(rates.len(), 5);
    let gap = rates.iter().copied().fold(0.0, f64::max) - rates.iter().copied().fold(1.0, f64::min);
    let measured = ran.json()["measured"]["training"]["measured"][0].as_f64().unwrap();
    assert!(gap <= 0.05 + 1e-6 && (gap - measured).abs() < 1e-12, "{groups}, {gap}, {measured}");
}

#[test]
fn row_weights_count_and_are_no_feature() {
    let place = place();
    let plain = fit_people(&place, &["--json"]).ended(0).json();
    let weighted = fit_people(&place, &["--weights", "w", "--json"]).ended(0).json();
    assert_ne!(plain["measured"]["training"]["objective"], weighted["measured"]["training"]["objective"]);
    let model = place.read("m/model.json");
    assert!(!model.contains("\"feature\": \"w\"") && model.contains("\"feature\": \"age\""));
    // A weight of 2 is the same as two rows. Nothing is held out, so that both see the same rows.
    let lines: Vec<&str> = "x,w,y\n1,1,a\n2,2,b\n3,1,a\n4,2,b\n5,1,b\n0,1,a\n".lines().collect();
    let twice =
        |l: &&str| std::iter::repeat_n(l.replace(",2,", ",1,"), if l.contains(",2,") { 2 } else { 1 }).collect::<Vec<_>>();
    place.put("weighted.csv", lines.join("\n"));
    place.put("twice.csv", lines.iter().flat_map(twice).collect::<Vec<_>>().join("\n"));
    let accuracy = |file: &str| {
        let arguments = ["fit", file, "--label", "y", "--positive", "b", "--weights", "w", "--test-fraction", "0"];
        let ran = place.run(&[&arguments[..], &["--iterations", "50", "--out", "m", "--json"]].concat()).ended(0);
        ran.json()["measured"]["training"]["positive"].as_f64().unwrap()
    };
    assert_eq!((accuracy("weighted.csv"), accuracy("twice.csv")), (5.0 / 8.0, 5.0 / 8.0));
}

#[test]
fn the_label_may_have_any_two_values() {
    let place = place();
    let predicted = |positive: &str| {
        fit_people(&place, &["--positive", positive, "--quiet"]).ended(0);
        let model: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
        assert_eq!(model["input"]["table"]["labels"]["positive"], positive);
        scores(&place.run(&["predict", "m", "people.csv"]).ended(0).out)
    };
    let (good, bad) = (predicted("good"), predicted("bad"));
    assert!(good.iter().zip(&bad).all(|(a, b)| (a + b).abs() < 1e-6), "turning the labels turns the scores");
    place.put("people.csv", people().replace(",good\n", ",maybe\n").replacen(",maybe\n", ",\"no, never\"\n", 3));
    let ran = fit_people(&place, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    for part in ["people.csv", "'y'", "'bad'", "'maybe'", "'no, never'"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 1);
}

/// The gradient of the sum of the losses plus half the squared norm of the weights on standardised columns, worked out from the
/// rows, is 0 at the model.
#[test]
fn the_default_regularisation_is_c_of_one_on_standardised_columns() {
    let place = place();
    for weights in [None, Some("w")] {
        let request =
            Request { test_fraction: 0.0, weights: weights.map(String::from), ..Request::new(place.path("people.csv"), "y") };
        let slopes = |request: &Request, strength: f64| -> Vec<f64> {
            let trained = request.train(request.prepare().unwrap(), &mut ()).unwrap();
            let data = trained.problem.data();
            let x: Vec<f64> = trained.model.weights.iter().map(|w| w.weight).collect();
            let (n, d) = (data.labels.len(), x.len());
            let weights = data.weights.clone().unwrap_or(vec![1.0; n]);
            let total: f64 = weights.iter().sum();
            let rows: Vec<Vec<f64>> = (0..n)
                .map(|i| {
                    let mut row = vec![0.0; d];
                    data.features.visit_row(i, |c, v| row[c] = v);
                    row
                })
                .collect();
            let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(|i| weights[i] * f(i)).sum::<f64>() / total;
            let scores = trained.problem.scores(&[x.clone(), vec![trained.model.intercept]].concat()).unwrap();
            (0..d)
                .map(|j| {
                    let centre = mean(&|i| rows[i][j]);
                    let variance = mean(&|i| (rows[i][j] - centre).powi(2));
                    let loss = mean(&|i| -data.labels[i] * rows[i][j] / (1.0 + (data.labels[i] * scores[i]).exp()));
                    loss + strength * variance * x[j] / n as f64
                })
                .collect()
        };
        let largest = |slopes: Vec<f64>| slopes.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        assert!(largest(slopes(&request, 1.0)) < 1e-5);
        assert!(largest(slopes(&request, 0.5)) > 1e-4);
        let none = Request { regularization: Regularization::Factor(0.0), ..request.clone() };
        assert!(largest(slopes(&none, 0.0)) < 1e-5);
        let ten = Request { regularization: Regularization::Factor(10.0 / 300.0), ..request.clone() };
        assert!(largest(slopes(&ten, 10.0)) < 1e-5);
    }
}

#[test]
fn regularisation_is_recorded_and_can_be_turned_off() {
    let place = place();
    let fitted = |more: &[&str]| -> (Value, String, String) {
        let ran = fit_people(&place, &[&["--test-fraction", "0", "--json"], more].concat()).ended(0);
        let explained = place.run(&["explain", "m"]).ended(0).out;
        let json: Value = serde_json::from_str(&ran.out).unwrap();
        (json["training"].clone(), json["notes"].to_string(), explained)
    };
    // 1 / 300 to three digits.
    let factor = 0.00333;
    let (training, notes, explained) = fitted(&[]);
    assert_eq!(training["minimize"], format!("logistic + {factor} * ridge"));
    assert_eq!(training["regularization"], factor);
    assert!(notes.contains("1 / n for 300 training rows") && explained.contains("was added as regularisation"), "{notes}");
    let (training, notes, explained) = fitted(&["--regularization", "0"]);
    assert_eq!((&training["minimize"], training["regularization"].as_f64()), (&"logistic".into(), Some(0.0)));
    assert!(!notes.contains("regularisation") && !explained.contains("regularisation"), "{notes}");
    let (training, notes, _) = fitted(&["--regularization", "0.25"]);
    assert_eq!((&training["minimize"], training["regularization"].as_f64()), (&"logistic + 0.25 * ridge".into(), Some(0.25)));
    assert!(!notes.contains("regularisation"), "{notes}");
    let (training, notes, _) = fitted(&["--minimize", "logistic + 0.01 * l2"]);
    assert_eq!((&training["minimize"], training["regularization"].as_f64()), (&"logistic + 0.01 * l2".into(), Some(0.0)));
    assert!(notes.contains("no regularisation is added, because the objective has the penalty l2"), "{notes}");
    // A certificate is about the same objective.
    fitted(&[]);
    let ran = place.run(&["certify", "m", "--json"]).ended(0);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(!found["notes"].to_string().contains("changed after training"), "{}", found["notes"]);
    for (arguments, part) in [
        (vec!["--regularization", "-1"], "regularization must be auto, or a finite number of at least 0, got '-1'"),
        (vec!["--regularization", "1", "--minimize", "hinge + l1"], "which has the penalty l1"),
    ] {
        fit_people(&place, &arguments).refused(&[part]);
    }
}

#[test]
fn sums_of_terms_are_minimised() {
    let place = place();
    let with = |term: &str| {
        fit_people(&place, &["--minimize", term, "--regularization", "0", "--quiet"]).ended(0);
        let model = Model::read(&place.path("m")).unwrap();
        model.weights.iter().map(|w| w.weight.abs()).sum::<f64>()
    };
    let (plain, penalised) = (with("hinge"), with("hinge + 0.2 * l1"));
    assert!(penalised < 0.7 * plain, "{penalised} and {plain}");
}

#[test]
fn a_variance_is_minimised_in_a_ball_that_can_be_chosen() {
    const NOTE: &str =
        "note: the weights and the intercept stay in a ball of radius 10 around 0, because the objective has a variance";
    let place = place();
    let with = |term: &str, more: &[&str]| {
        let ran = fit_people(&place, &[&["--minimize", term], more].concat()).ended(0);
        (Model::read(&place.path("m")).unwrap(), ran.out)
    };
    let norm = |model: &Model| model.weights.iter().map(|w| w.weight * w.weight).sum::<f64>() + model.intercept * model.intercept;
    let (plain, out) = with("logistic", &[]);
    assert!(plain.training.domain.is_none() && !out.contains("around 0"), "{out}");
    let (spread, out) = with("logistic + 0.5 * variance(logistic)", &[]);
    assert!(spread.training.domain.is_none() && out.contains(NOTE), "{out}");
    let (free, out) = with("logistic + 0.5 * variance(logistic)", &["--domain", "all"]);
    assert_eq!((free.training.domain.as_deref(), out.contains("around 0")), (Some("all"), false));
    let (near, out) = with("logistic", &["--domain", "0.25"]);
    assert_eq!((near.training.domain.as_deref(), out.contains("around 0")), (Some("0.25"), false));
    assert!(norm(&near) <= 0.0625 * (1.0 + 1e-9) && norm(&plain) > 0.1, "{} {}", norm(&near), norm(&plain));
    // A certificate knows of the ball too.
    let said = place.run(&["certify", "m"]).out;
    assert!(said.contains("feasible"), "{said}");
    let moved = place.read("m/model.json").replace("\"domain\": \"0.25\"", "\"domain\": \"0.1\"");
    place.put("m/model.json", moved);
    let said = place.run(&["certify", "m"]).out;
    assert!(said.contains("outside the domain (ball of radius 0.1)"), "{said}");
    for slip in ["0", "-1", "ball", "inf", "NaN"] {
        let wanted = "expected all, or the radius of a ball, a finite number above 0";
        place
            .run(&["fit", "none.csv", "--label", "y", "--domain", slip, "--out", "n"])
            .refused(&[&format!("--domain {slip}; {wanted}")]);
    }
    place
        .run(&["fit", "none.csv", "--label", "y", "--minimize", "variance", "--out", "n"])
        .refused(&["loss of variance must be", "got nothing"]);
}

#[test]
fn a_bound_can_be_measured_by_the_smallest_loss() {
    let place = place();
    let bounds = ["--group", "sex", "--subject-to", "logistic <= 1.5 * best(logistic + 0.01 * l2)"];
    let ran = fit_people(&place, &[&bounds, ["--minimize", "demographic_parity", "--leave-out", "job"].as_slice()].concat());
    let ran = ran.ended(0);
    assert!(ran.out.contains("note: best(logistic + 0.01 * l2) = 0."), "{}", ran.out);
    let model = Model::read(&place.path("m")).unwrap();
    let [reference] = model.training.references.as_slice() else { panic!("{:?}", model.training.references) };
    assert_eq!(reference.expression, "logistic + 0.01 * l2");
    assert!(reference.norm > 0.0 && reference.lower <= reference.value && reference.evaluations > 0, "{reference:?}");
    let constraint = &model.measured.constraints[0];
    assert!((constraint.bound - 1.5 * reference.value).abs() < 1e-12, "{constraint:?}");
    assert!(constraint.surrogate <= constraint.bound);
    // A model that was written before there were reference values is read as one without.
    let older = place.read("m/model.json");
    let (before, after) = older.split_once("\"references\"").unwrap();
    let after = after.split_once("],").unwrap().1;
    place.put("older.json", format!("{before}{after}"));
    assert!(Model::read(&place.path("older.json")).unwrap().training.references.is_empty());
    // Slips are found before the file is read.
    for (bound, part) in [
        ("logistic <= best(logistc)", "did you mean 'logistic'?"),
        ("logistic <= best(demographic_parity)", "is not convex"),
        ("demographic_parity <= best(logistic", "expected '+' or ')'"),
    ] {
        let slip = ["fit", "none.csv", "--label", "y", "--group", "sex", "--subject-to", bound, "--out", "n"];
        place.run(&slip).refused(&[part]);
    }
}

#[test]
fn libsvm_rows_are_fitted_and_predicted_with_their_own_labels() {
    let place = Place::new();
    let rows: String = (0..60)
        .map(|i| format!("{} 1:{} 2:{}{}\n", [0, 2][i % 2], i % 7, i * i % 5, if i % 3 == 0 { " 3:1" } else { "" }))
        .collect();
    place.put("rows.svm", &rows);
    let constraint = "demographic_parity <= 0.1";
    let arguments = ["fit", "rows.svm", "--group", "3", "--subject-to", constraint, "--iterations", "100", "--out", "m"];
    let ran = place.run(&arguments).ended(0);
    assert!(ran.out.contains("3 features and an intercept"), "{}", ran.out);
    // Rows to predict may have any number for a label, all the same one too.
    place.put("new.svm", "0 1:3\n0 1:1 2:2\n0 3:1\n");
    let out = place.run(&["predict", "m", "new.svm"]).ended(0).out;
    let labels: Vec<&str> = cells(&out).1.iter().map(|r| r[1]).collect();
    assert!(labels.len() == 3 && labels.iter().all(|l| ["0", "2"].contains(l)), "{out}");
    place.put("wide.svm", "0 1:3 4:1\n");
    let ran = place.run(&["predict", "m", "wide.svm"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("wide.svm, line 1: 4:1 has column 4; expected at most 3"), "{}", ran.err);
    let spread = ["fit", "rows.svm", "--minimize", "logistic + 0.1 * variance(logistic)", "--iterations", "60", "--out", "v"];
    let out = place.run(&spread).ended(0).out;
    assert!(out.contains("logistic + 0.1 * variance(logistic)") && out.contains("ball of radius 10"), "{out}");
    let text = place.run(&["explain", "m"]).ended(0).out;
    assert!(text.contains("\ncolumn 1 ") && text.contains("predicts '2' for a score above 0, else '0'"), "{text}");
}

#[test]
fn settings_reach_the_solver() {
    let place = place();
    let ran = fit_people(&place, &["--solver", "ssg", "--set", "eta=0.25"]).ended(0);
    assert!(!ran.out.contains("step size"), "{}", ran.out);
    let chosen = fit_people(&place, &["--solver", "ssg", "--explain"]).ended(0);
    assert!(chosen.out.contains("note: step size "), "{}", chosen.out);
    let ran = fit_people(&place, &["--solver", "ssg", "--set", "eta=0.25", "--explain"]).ended(0);
    assert!(!ran.out.contains("step size"), "{}", ran.out);
    let model = Model::read(&place.path("m")).unwrap();
    assert_eq!((model.training.eta.as_str(), model.training.settings.as_str()), ("0.25", "eta=0.25"));
    let ran = fit_people(&place, &["--solver", "ssg", "--set", "batch_f=20", "--set", "output=average"]).ended(0);
    assert!(!ran.out.contains("note: step size "), "{}", ran.out);
    assert_eq!(Model::read(&place.path("m")).unwrap().training.settings, "batch_f=20, output=average");
}

#[test]
fn the_surrogate_can_be_enforced_instead_of_the_measured_rate() {
    let place = place();
    let constraint = ["--group", "sex", "--subject-to", "demographic_parity <= 0.05"];
    let ran = fit_people(&place, &[&constraint[..], &["--enforce", "surrogate", "--json"]].concat()).ended(0).json();
    let c = &ran["measured"]["constraints"][0];
    assert_eq!(
        (&c["surrogate_bound"], &c["sharpened"], &ran["training"]["enforce"]),
        (&0.05.into(), &1.0.into(), &"surrogate".into())
    );
    assert!(c["surrogate"].as_f64().unwrap() <= 0.05 + 1e-6);
    let ran = fit_people(&place, &[&constraint[..], &["--enforce", "surrogate"]].concat()).ended(0);
    let smooth = ran.out.lines().find(|l| l.contains("surrogate")).unwrap();
    assert!(smooth.ends_with("satisfied"), "{}", ran.out);
}

#[test]
fn a_bound_that_is_missed_ends_with_exit_code_1() {
    let place = place();
    // A method that proves nothing can only say what it found.
    let ran = fit_people(&place, &["--solver", "ssg", "--subject-to", "logistic <= 0.01"]).ended(1);
    assert!(ran.out.starts_with("not feasible; the best model found violates a constraint\n"), "{}", ran.out);
    assert!(ran.out.contains("violated\n") && ran.out.contains("is the closest to the bound 0.01 that was found"), "{}", ran.out);
    let text = place.run(&["explain", "m"]).ended(0).out;
    assert!(text.contains("not feasible; a constraint is violated"), "{text}");
}

#[test]
fn quiet_prints_nothing_and_json_is_json() {
    let place = place();
    assert_eq!(fit_people(&place, &["--quiet"]).ended(0).out, "");
    assert_eq!(place.files(), ["m", "people.csv"]);
    let outcome = fit_people(&place, &["--json"]).ended(0).json();
    assert_eq!(outcome["training"]["file"], "people.csv");
    let reasons = outcome["training"]["reasons"].as_array().unwrap();
    let kinds: Vec<&str> = reasons.iter().map(|reason| reason["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["choice-problem", "solver-chosen", "repeat"]);
    assert_eq!((&reasons[2]["solver"], &reasons[2]["seed"]), (&"sqp".into(), &0.into()));
    // The same command gives the same model.
    let first = Model::read(&place.path("m")).unwrap();
    fit_people(&place, &["--quiet", "--threads", "2"]).ended(0);
    let second = Model::read(&place.path("m")).unwrap();
    assert_eq!((first.weights, first.intercept), (second.weights, second.intercept));
}

#[test]
fn held_out_rows_that_cannot_be_measured_are_a_note() {
    let place = Place::new();
    // Three rows in group c: too few for one to be held out, so held-out rows have no group c.
    let mut text = String::from("x,g,y\n");
    (0..60).for_each(|i| text += &format!("{},{},{}\n", i % 11, ["a", "b"][i / 2 % 2], i % 2));
    text += "3,c,0\n4,c,1\n5,c,0\n";
    place.put("few.csv", text);
    let constraint = "demographic_parity <= 0.5";
    let ran = place.run(&[
        "fit",
        "few.csv",
        "--label",
        "y",
        "--group",
        "g",
        "--subject-to",
        constraint,
        "--iterations",
        "60",
        "--out",
        "m",
    ]);
    let ran = ran.ended(0);
    assert!(ran.out.contains("note: constraints are not measured on the held-out rows: "), "{}", ran.out);
    // Accuracy and rates by group do not need the missing group.
    let model = Model::read(&place.path("m")).unwrap();
    let held = model.measured.held_out.unwrap();
    assert!(held.constraints.is_empty() && held.measured.is_empty());
    assert_eq!(held.groups.iter().map(|g| g.group.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(ran.out.contains("\nheld-out rows\n"), "{}", ran.out);
    place.run(&["explain", "m"]).ended(0);
    // An objective that compares the groups is not defined on them at all.
    let arguments = ["fit", "few.csv", "--label", "y", "--group", "g", "--minimize", "roc_gap(low = -1, high = 1)", "--out", "m"];
    let ran = place.run(&[&arguments[..], &["--iterations", "5"]].concat());
    assert!(ran.out.contains("note: held-out rows are not measured: "), "{}", ran.out);
    assert!(Model::read(&place.path("m")).unwrap().measured.held_out.is_none());
}

#[test]
fn several_group_columns_are_compared_by_their_combinations() {
    let place = place();
    let request = ["--group", "sex", "--group", "region", "--subject-to", "demographic_parity <= 0.2", "--test-fraction", "0.25"];
    let ran = fit_people(&place, &request).ended(0);
    // Six combinations; the tables are by combination and by each column.
    assert!(ran.out.contains("\nf, east ") && ran.out.contains("\nm, south "), "{}", ran.out);
    for title in ["\nheld-out rows\n", "\nheld-out rows by sex\n", "\nheld-out rows by region\n"] {
        assert!(ran.out.contains(title), "{title}: {}", ran.out);
    }
    let model = Model::read(&place.path("m")).unwrap();
    let quality = &model.measured.training;
    assert_eq!(quality.groups.len(), 6);
    let rates: Vec<f64> = quality.groups.iter().map(|g| g.predicted).collect();
    let gap = rates.iter().fold(0.0, |a: f64, b| a.max(*b)) - rates.iter().fold(1.0, |a: f64, b| a.min(*b));
    assert!((gap - quality.measured[0].unwrap()).abs() < 1e-12 && gap <= 0.2 + 1e-9, "{gap}");
    assert_eq!(quality.by_column.iter().map(|c| c.column.as_str()).collect::<Vec<_>>(), ["sex", "region"]);
    for column in &quality.by_column {
        assert_eq!(column.groups.iter().map(|g| g.rows).sum::<usize>(), quality.rows);
        for group in &column.groups {
            let parts: Vec<_> = quality.groups.iter().filter(|g| g.group.split(", ").any(|part| part == group.group)).collect();
            let positive: f64 = parts.iter().map(|g| g.predicted * g.rows as f64).sum();
            assert!((positive / group.rows as f64 - group.predicted).abs() < 1e-12, "{group:?}");
        }
    }
    // The file is read again with the same groups.
    let text = place.run(&["explain", "m"]).ended(0).out;
    assert!(text.contains("\ntraining rows by region\n") && text.contains("\nheld-out rows by sex\n"), "{text}");
    let found = place.run(&["certify", "m", "--json"]).ended(0).json();
    assert_eq!(found["constraints"][0]["measured"].as_f64(), quality.measured[0]);
    assert!(!found["notes"].to_string().contains("changed after training"), "{found}");
    // A combination without rows is no group.
    place.put("people.csv", people().replace(",f,east,", ",m,east,"));
    fit_people(&place, &request).ended(0);
    assert_eq!(Model::read(&place.path("m")).unwrap().measured.training.groups.len(), 5);
    place.put("other.csv", people());
    let ran = place.run(&["certify", "m", "--data", "other.csv"]);
    ran.refused(&["other.csv, line ", "the combination 'f, east' of columns 'sex', 'region' did not occur in training"]);
    for (extra, part) in [("sex", "column 'sex' is named twice for the groups"), ("sexx", "did you mean 'sex'?")] {
        fit_people(&place, &["--group", "sex", "--group", extra]).refused(&[part]);
    }
    place.put("rows.svm", "1 1:1 2:1\n-1 1:2\n1 2:1\n-1 1:1\n");
    let ran = place.run(&["fit", "rows.svm", "--group", "1", "--group", "2"]);
    ran.refused(&["--group 2 is the second group column; expected one, because without --label the file is LIBSVM"]);
}

#[test]
fn probabilities_are_printed_for_log_odds_alone() {
    let place = place();
    let header = |more: &[&str]| {
        fit_people(&place, &[&["--quiet", "--iterations", "40"], more].concat());
        place.run(&["predict", "m", "people.csv"]).out.lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(header(&[]), "score,probability,label");
    assert_eq!(header(&["--minimize", "2 * logistic + 0.01 * l1"]), "score,probability,label");
    let out = place.run(&["predict", "m", "people.csv"]).out;
    for row in cells(&out).1 {
        let [score, probability] = [row[0], row[1]].map(|cell| cell.parse::<f64>().unwrap());
        assert!((probability - 1.0 / (1.0 + (-score).exp())).abs() < 1e-15, "{row:?}");
    }
    for other in [
        ["--minimize", "hinge"],
        ["--minimize", "logistic(on = 'positives') + 0.1 * l2"],
        ["--minimize", "truncated_logistic"],
        ["--subject-to", "false_positive_rate <= 0.5"],
    ] {
        assert_eq!(header(&other), "score,label", "{other:?}");
    }
}

#[test]
fn a_model_whose_parts_do_not_fit_together_is_refused() {
    let place = place();
    fit_people(&place, &["--group", "sex", "--group", "region", "--subject-to", "demographic_parity <= 0.5", "--quiet"]).ended(0);
    let good: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    let refused = |part: &str, change: &dyn Fn(&mut Value)| {
        let mut model = good.clone();
        change(&mut model);
        place.put("bad.json", model.to_string());
        place.run(&["explain", "bad.json"]).refused(&["bad.json: is a damaged model: ", part]);
    };
    let renamed = "it has a weight of 'wage' where its encoding has the feature 'age'";
    refused(renamed, &|m| m["weights"][0]["feature"] = "wage".into());
    refused("null", &|m| m["weights"][0]["weight"] = Value::Null);
    refused("unknown field `extra`", &|m| m["extra"] = 1.into());
    refused("both labels are 'good'", &|m| m["input"]["table"]["labels"]["negative"] = "good".into());
    refused("1 constraints and measures 0", &|m| m["measured"]["constraints"] = Value::Array(vec![]));
    let damaged = "the groups of columns 'sex', 'region' are damaged; expected combinations of their groups in order, each once";
    refused(damaged, &|m| m["input"]["table"]["grouping"]["combinations"][0][1] = 7.into());
    refused("the groups need either a column and its groups, or columns and their combinations", &|m| {
        m["input"]["table"]["grouping"]["column"] = "sex".into();
    });
}

#[test]
fn new_rows_need_the_columns_but_neither_label_nor_known_values() {
    let place = place();
    fit_people(&place, &["--group", "sex", "--subject-to", "demographic_parity <= 0.1", "--quiet"]).ended(0);
    place.put("new.csv", "w,region,sex,job,age,y\n1,west,x,,30,?\n2,north,f,clerk,,\n");
    let ran = place.run(&["predict", "m", "new.csv"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(scores(&ran.out).len(), 2);
    assert!(ran.err.lines().all(|l| l.starts_with("note: column ")) && ran.err.contains("'sex'"), "{}", ran.err);
    assert!(ran.err.contains("such as 'west'") && ran.err.contains("counts as the mean"), "{}", ran.err);
}

#[test]
fn predict_says_which_columns_do_not_fit() {
    let place = place();
    fit_people(&place, &["--quiet"]).ended(0);
    let predict = |text: &str| {
        place.put("new.csv", text);
        let ran = place.run(&["predict", "m", "new.csv", "--out", "scores.csv"]);
        assert_eq!(place.files(), ["m", "new.csv", "people.csv"], "nothing was written");
        ran
    };
    predict("age,sex,w\n30,f,1\n").refused(&["new.csv has no columns 'job', 'region'"]);
    predict("Age,sex,w,job,region\n30,f,1,,\n").refused(&["new.csv has no column 'age'; did you mean 'Age'?"]);
    predict("age,sex,w,job,region\n30,f,1,,\nold,m,1,,\n").refused(&["new.csv, line 3: 'old' in column 'age' is not a number"]);
    place.run(&["predict", "m", "none.csv"]).refused(&["none.csv: there is no such file"]);
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let place = place();
    fit_people(&place, &["--quiet"]).ended(0);
    let good = place.read("m/model.json");
    let with = |text: &str| {
        place.put("other.json", text);
        let ran = place.run(&["predict", "other.json", "people.csv"]);
        assert_eq!(place.run(&["explain", "other.json"]).err, ran.err);
        ran
    };
    with("age,job\n1,2\n").refused(&["other.json: is not a model: ", "expected a model.json that thalweg fit wrote"]);
    with("{\"weights\": []}").refused(&["other.json: is not a model: missing field `format`"]);
    with(&good[..good.len() / 2]).refused(&["other.json: is not a model: EOF"]);
    with(&good.replacen("\"format\": 1", "\"format\": 2", 1))
        .refused(&["other.json: has model format 2: this one reads format 1", "newer"]);
    with(&good.replacen("\"intercept\"", "\"offset\"", 1)).refused(&["other.json: is a damaged model: ", "offset"]);
    let mut model: Value = serde_json::from_str(&good).unwrap();
    model["weights"].as_array_mut().unwrap().pop();
    with(&model.to_string()).refused(&["other.json: is a damaged model: it has ", " weights for "]);
    place.run(&["predict", "nowhere", "people.csv"]).refused(&["nowhere: there is no such file"]);
    place.run(&["explain", "."]).refused(&["./model.json: there is no such file"]);
}

const COMMANDS: [&str; 8] = ["demo", "fit", "predict", "explain", "solve", "plan", "data", "completions"];

#[test]
fn completions_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = place.run(&["completions", shell]).ended(0).out;
        for word in COMMANDS.iter().chain(&["subject-to"]) {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_help_text_has_an_example() {
    let place = Place::new();
    let all = place.run(&["--help"]).ended(0).out;
    for command in COMMANDS {
        assert!(all.lines().any(|l| l.trim_start().starts_with(&format!("{command} "))), "{command}: {all}");
        let text = place.run(&[command, "--help"]).ended(0).out;
        assert!(text.contains("Example") && text.contains(&format!("thalweg {command}")), "{command}: {text}");
    }
}

/// Waits until training has begun: the directory for the model is made when everything has been read and checked.
fn wait_for_training(child: &mut Child, directory: &Path) {
    while !directory.is_dir() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the command ended before it trained");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Some steps, though nothing depends on how many.
    std::thread::sleep(Duration::from_millis(500));
}

#[cfg(unix)]
fn long_fit(place: &Place) -> Child {
    place.put("adult.csv", adult::csv().unwrap());
    let arguments = ["fit", "adult.csv", "--label", "income", "--group", "sex", "--subject-to", "demographic_parity <= 0.02"];
    let limits = ["--solver", "bundle", "--iterations", "100000", "--seconds", "100", "--out", "m"];
    let mut command = place.command(&[&arguments[..], &limits].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_training(&mut child, &place.path("m"));
    child
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

#[test]
#[cfg(unix)]
fn an_interrupt_leaves_the_best_model_so_far() {
    let place = Place::new();
    let child = long_fit(&place);
    interrupt(&child);
    let ran = Ran::from(child.wait_with_output().unwrap()).ended(130);
    let model = Model::read(&place.path("m")).unwrap();
    let kept =
        if model.measured.feasible { "every constraint is satisfied" } else { "no model so far satisfies every constraint" };
    assert!(ran.out.starts_with("interrupted; ") && ran.out.lines().next().unwrap().contains(kept), "{}", ran.out);
    assert!(model.measured.feasible, "the start keeps the bound, so the best model does");
    assert!(place.path("m/trace.csv").is_file());
    assert_eq!(place.run(&["predict", "m", "adult.csv", "--out", "scores.csv"]).code, Some(0));
}

#[test]
#[cfg(unix)]
fn a_second_interrupt_ends_at_once() {
    use std::process::Command;
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("rows.csv")).status().unwrap().success());
    let mut child = place.command(&["fit", "rows.csv", "--label", "y", "--out", "m"]).spawn().unwrap();
    // Opens when the command has opened the other end: it listens to interrupts by then, and waits for a table that never ends.
    let pipe = std::fs::OpenOptions::new().write(true).open(place.path("rows.csv")).unwrap();
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(child.try_wait().unwrap(), None, "the first interrupt only asks");
    // Signals that come while one is being handled may be lost, so it is sent until the command ends.
    let mut sent = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(sent < 500, "the second interrupt did not end the command");
        interrupt(&child);
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(pipe);
    assert_eq!(status.code(), Some(130));
    assert_eq!(place.files(), ["rows.csv"]);
}

#[test]
fn bounds_that_no_model_keeps_are_named_as_such() {
    let place = place();
    let ran = fit_people(&place, &["--subject-to", "logistic <= 0.6", "--subject-to", "l2 <= 0.00001"]).ended(1);
    assert!(ran.out.starts_with("infeasible; constraints 'logistic' and 'l2' conflict; no point within "), "{}", ran.out);
    assert!(ran.out.contains("only a wider bound can help"), "{}", ran.out);
    let outcome = fit_people(&place, &["--json", "--subject-to", "logistic <= 0.01"]).ended(1).json();
    assert_eq!(outcome["measured"]["ended"]["infeasible"]["conflicting"][0], "logistic", "{outcome}");
    assert_eq!(outcome["measured"]["rounds"], 1, "nothing is left to try");
}

/// A table of which the last column is a copy of the label under another name, with one error.
#[test]
fn warnings_are_printed_before_training_and_stored() {
    let place = place();
    let bound = ["--group", "region", "--subject-to", "equalized_odds <= 0.05"];
    let ran = fit_people(&place, &[&bound[..], &["--iterations", "2"]].concat());
    assert!(ran.err.contains("warning: 'equalised_odds' <= 0.05 need not hold for new rows of small groups"), "{}", ran.err);
    for words in ["'east' with positive label (", " rows, ±0."] {
        assert!(ran.err.contains(words) && ran.out.contains(words), "{words}: {} {}", ran.out, ran.err);
    }
    assert!(ran.out.contains("\nwarning: training did not converge (stopped at the iteration limit); "), "{}", ran.out);
    let outcome = fit_people(&place, &[&bound[..], &["--iterations", "2", "--json"]].concat()).json();
    let stored: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    for warnings in [&outcome["warnings"], &stored["measured"]["warnings"]] {
        let kinds: Vec<&str> = warnings.as_array().unwrap().iter().map(|w| w["kind"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"small-groups") && kinds.contains(&"not-converged"), "{kinds:?}");
        assert!(warnings.as_array().unwrap().iter().all(|w| w["warning"] == true));
    }
    // Nothing is said of a model without groups that converged; --quiet says nothing of any.
    let ran = fit_people(&place, &["--iterations", "2000"]);
    assert!(!ran.out.contains("warning") && !ran.err.contains("warning"), "{} {}", ran.out, ran.err);
    assert_eq!(fit_people(&place, &[&bound[..], &["--quiet"]].concat()).err, "");

    let copied: String = people()
        .lines()
        .enumerate()
        .map(|(i, l)| format!("{l},{}\n", ["late", if l.ends_with("good") ^ (i == 9) { "u" } else { "v" }][usize::from(i > 0)]))
        .collect();
    place.put("people.csv", copied);
    let ran = fit_people(&place, &[]);
    assert!(
        ran.err.contains("warning: feature 'late = u' alone predicts the label with a balanced accuracy of 0.99"),
        "{}",
        ran.err
    );
}

#[test]
fn technical_lines_are_behind_explain() {
    let place = place();
    let fair = ["--group", "sex", "--subject-to", "demographic_parity <= 0.05"];
    let (plain, explained) = (fit_people(&place, &fair).out, fit_people(&place, &[&fair[..], &["--explain"]].concat()).out);
    for words in ["proximal coefficient", "smooth surrogate by", "to repeat: "] {
        assert!(!plain.contains(words), "{words}: {plain}");
    }
    assert!(
        explained.contains("to repeat: ") && explained.contains("so that the measured value makes full use of the bound 0.05"),
        "{explained}"
    );
    assert!(plain.contains("the solver converged (--explain shows what it proved and adjusted)"), "{plain}");
}

#[test]
fn rates_by_group_have_counts_and_intervals() {
    let place = place();
    let ran = fit_people(&place, &["--group", "region", "--test-fraction", "0", "--json"]).ended(0);
    let groups = ran.json()["measured"]["training"]["groups"].clone();
    let mut rows = 0;
    for group in groups.as_array().unwrap() {
        let number = |value: &Value| value.as_f64().unwrap();
        let (n, rate) = (number(&group["rows"]), number(&group["predicted"]));
        let [low, high] = thalweg::certify::clopper_pearson((rate * n).round(), n, 0.95).unwrap();
        let interval = &group["predicted_interval"];
        assert!((number(&interval[0]) - low).abs() < 1e-9 && (number(&interval[1]) - high).abs() < 1e-9, "{group}");
        let cells = [&group["positives"], &group["negatives"]];
        assert_eq!(cells.map(|c| number(&c["rows"])).iter().sum::<f64>(), n);
        let mean: f64 = cells.iter().map(|c| number(&c["rows"]) * number(&c["predicted"])).sum::<f64>() / n;
        assert!((mean - rate).abs() < 1e-12);
        rows += n as usize;
    }
    assert_eq!(rows, 300);
    let text = place.run(&["explain", "m"]).ended(0).out;
    assert!(text.contains("exact 95% intervals") && text.contains("of positive labels"), "{text}");
}

#[test]
fn codes_are_categories_on_request_and_identifiers_are_kept() {
    let place = place();
    fit_people(&place, &["--categorical", "age,w"]).ended(0);
    let stored = place.read("m/model.json");
    assert!(stored.contains("\"age = 20\"") || stored.contains("\"age = other\""), "{stored}");
    let ran = fit_people(&place, &["--categorical", "aged"]);
    assert!(ran.code == Some(2) && ran.err.contains("column 'aged'; did you mean 'age'?"), "{}", ran.err);

    fit_people(&place, &[]).ended(0);
    let plain = place.run(&["predict", "m", "people.csv"]).ended(0).out;
    let kept = place.run(&["predict", "m", "people.csv", "--id", "region"]).ended(0).out;
    let (header, rows) = cells(&kept);
    assert_eq!(header, ["region", "score", "probability", "label"]);
    let regions: Vec<String> = people().lines().skip(1).map(|l| l.rsplit(',').nth(2).unwrap().to_string()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), regions);
    let without: Vec<Vec<&str>> = rows.iter().map(|row| row[1..].to_vec()).collect();
    assert_eq!(without, cells(&plain).1);
    // Cells with commas and quotes are quoted.
    let kept = place.run(&["predict", "m", "people.csv", "--id", "job"]).ended(0).out;
    assert!(kept.contains("\n\"smith, \"\"old\"\"\","), "{kept}");
    let ran = place.run(&["predict", "m", "people.csv", "--id", "jobs"]);
    assert!(ran.code == Some(2) && ran.err.contains("column 'jobs'; did you mean 'job'?"), "{}", ran.err);
}

#[test]
fn a_file_without_a_header_line_gets_a_hint() {
    let place = place();
    let body: String = people().lines().skip(1).map(|l| format!("{l}\n")).collect();
    place.put("people.csv", body);
    let ran = fit_people(&place, &[]);
    assert!(ran.code == Some(2) && ran.err.contains("if the file has no header line, add one with the names"), "{}", ran.err);
}
