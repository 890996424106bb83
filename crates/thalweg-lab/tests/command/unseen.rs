//! `thalweg fit --enforce unseen` as a user meets it: a bound promised for unseen rows, one that cannot be, and refusals.

use serde_json::{Value, json};
use thalweg_lab::data::adult;
use thalweg_lab::model::Model;

use crate::common::{Place, Ran};

fn fit_adult(place: &Place, more: &[&str]) -> Ran {
    place.put("adult.csv", adult::csv().unwrap());
    let arguments = ["fit", "adult.csv", "--label", "income", "--group", "sex", "--enforce", "unseen", "--out", "m"];
    place.run(&[&arguments[..], more].concat())
}

#[test]
fn adult_gets_a_promise_that_every_output_repeats() {
    let place = Place::new();
    let ran = fit_adult(&place, &["--subject-to", "demographic_parity <= 0.05", "--report", "page.html"]).ended(0);
    let model = Model::read(&place.path("m")).unwrap();
    let promise = model.measured.promise.as_ref().unwrap();
    assert!(promise.confirmed && model.measured.feasible && promise.constraints[0].at_most <= 0.05, "{promise:?}");
    // A fifth is held out, a third of the rest is the safety set, in every group.
    let rows = [model.measured.training.rows, promise.rows, model.measured.held_out.as_ref().unwrap().rows];
    assert_eq!((rows.iter().sum::<usize>(), rows[1]), (48_842, promise.constraints[0].rows.iter().sum()));
    assert!((rows[1] as f64 / (rows[0] + rows[1]) as f64 - 1.0 / 3.0).abs() < 1e-4, "{rows:?}");
    let sentence = "with 95% confidence, demographic_parity (the largest difference between two groups in the share of positive predictions) \
         is at most 0.05 among people drawn at random from the same population";
    assert!(promise.sentence.starts_with(sentence), "{}", promise.sentence);
    let start = format!("feasible; the bounds are promised for unseen rows with 95% confidence\n{}\n", promise.sentence);
    assert!(ran.out.starts_with(&start), "{}", ran.out);
    assert!(ran.out.contains("\nsafety set ") && ran.out.contains(" candidates tested from strict to loose, "), "{}", ran.out);
    assert!(ran.out.ends_with("saved m/model.json, m/trace.csv, m/path.svg and page.html\n"), "{}", ran.out);
    let picture = place.read("m/path.svg");
    let tested = promise.path.iter().filter(|c| c.confirmed.is_some()).count();
    // Every tested candidate has a point, and one of each kind is in the legend.
    assert!(tested > 1 && picture.matches("<circle").count() >= tested && picture.contains(">bound</text>"), "{picture}");
    assert!(place.read("page.html").contains(sentence.trim_start_matches("with ")), "the report");
    assert!(place.run(&["explain", "m"]).ended(0).out.contains(&promise.sentence));

    // The rows that it was trained on are found again, and nothing in the file contradicts them.
    let found = place.run(&["certify", "m", "--holdout", "--json"]).ended(0).json();
    assert_eq!((&found["rows"], &found["held_out"]["rows"]), (&json!(rows[0]), &json!(rows[2])));
    let text = found["notes"].to_string();
    assert!(!text.contains("differs"), "{text}");
    let each = &found["held_out"]["constraints"][0]["measured"]["high"];
    let all = place.run(&["certify", "m", "--holdout", "--together", "--json"]).ended(0).json();
    assert_eq!((&found["held_out"]["coverage"], &all["held_out"]["coverage"]), (&json!("each-line"), &json!("all-lines")));
    assert!(all["held_out"]["constraints"][0]["measured"]["high"].as_f64() > each.as_f64());
    let words = place.run(&["certify", "m", "--holdout", "--together"]).ended(0).out;
    assert!(
        words.contains("with 95% confidence intervals that hold for all lines together, for new rows drawn like these:\n"),
        "{words}"
    );
}

#[test]
fn too_few_rows_end_with_code_1_and_the_number_that_is_missing() {
    let place = Place::new();
    let mut text = String::from("age,sex,y\n");
    for i in 0..300_u32 {
        let (age, sex) = (18 + i * 37 % 53, i * 7 % 5 % 2);
        text +=
            &format!("{age},{},{}\n", ["f", "m"][sex as usize], if age + 12 * sex + i * i % 41 > 70 { "good" } else { "bad" });
    }
    place.put("people.csv", text);
    let arguments = ["fit", "people.csv", "--label", "y", "--group", "sex", "--subject-to", "demographic_parity <= 0.02"];
    let ran = place.run(&[&arguments[..], &["--enforce", "unseen", "--out", "m"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.out
            .starts_with("not feasible; nothing is promised about unseen rows\nnothing is promised about unseen rows, not that")
    );
    // Groups that are too small are named before training, on standard error.
    let small = "warning: 'demographic_parity' <= 0.02 can hardly be promised with 95% confidence: group 'm' has ";
    assert!(ran.err.contains(small) && ran.err.contains(" rows in the safety set and needs about "), "{}", ran.err);
    let failed = ran.out.lines().find(|l| l.starts_with("warning: no bound is promised for unseen rows: ")).unwrap();
    assert!(failed.contains("more rows"), "{failed}");
    let model: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    assert_eq!((&model["measured"]["feasible"], &model["measured"]["promise"]["confirmed"]), (&json!(false), &json!(false)));
    let explained = place.run(&["explain", "m"]).ended(0).out;
    assert!(
        explained.contains("\nnothing is promised about unseen rows, not that demographic_parity (the largest difference"),
        "{explained}"
    );
}

#[test]
fn what_cannot_be_promised_is_refused_before_training() {
    let place = Place::new();
    place.put("people.csv", "age,sex,w,y\n".to_string() + &"30,f,1,good\n40,m,2,bad\n50,f,1,bad\n60,m,2,good\n".repeat(30));
    let fit = ["fit", "people.csv", "--label", "y", "--group", "sex"];
    let parity = ["--subject-to", "demographic_parity <= 0.1"];
    for (more, words) in [
        (&["--confidence", "0.9"][..], "--confidence 0.9; expected --enforce unseen beside it"),
        (&["--safety-fraction", "0.5"], "--safety-fraction 0.5; expected --enforce unseen beside it"),
        (&["--enforce", "unseen", "--confidence", "95"], "--confidence 95; expected a number between 0 and 1"),
        (&["--enforce", "unseen", "--safety-fraction", "1"], "--safety-fraction 1; expected a number between 0 and 1"),
        (&["--enforce", "unseen", "--safety-fraction", "0.001"], "the safety set has no rows"),
        (&["--enforce", "unseen", "--weights", "w"], "cannot be promised for weighted rows"),
    ] {
        let ran = place.run(&[&fit[..], &parity, more].concat());
        assert!(ran.code == Some(2) && ran.err.contains(words), "{more:?}: {ran:?}");
    }
    let ran = place.run(&[&fit[..], &["--enforce", "unseen", "--subject-to", "logistic <= 1"]].concat());
    assert!(ran.code == Some(2) && ran.err.contains("needs a constraint on a rate"), "{ran:?}");
    let sweep = ["tradeoff", "people.csv", "--label", "y", "--group", "sex", "--bounds", "0.1,0.2", "--enforce", "unseen"];
    let ran = place.run(&[&sweep[..], &parity].concat());
    assert!(ran.code == Some(2) && ran.err.contains("a sweep shows intervals on unseen rows but promises nothing"), "{ran:?}");
}
