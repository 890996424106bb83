//! `thalweg bilevel`: the numbers that the demonstration prints against the answers on paper, its exit code, its help, and what it
//! refuses.
use std::sync::Arc;

use crate::common::Place;
use thalweg::bilevel::problems::Toy;
use thalweg::bilevel::{self, Bilevel, Form};
use thalweg::run::Options;
use thalweg::solvers::{adaprox, pd};

/// docs/bilevel.md.
fn page() -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bilevel.md")).unwrap()
}

/// The cells of the row that begins with `name`; cells are two spaces apart. With several such rows, the one counted by `nth`.
#[track_caller]
fn cells<'a>(text: &'a str, name: &str, nth: usize) -> Vec<&'a str> {
    let row = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix("  ")).nth(nth);
    let row = row.unwrap_or_else(|| panic!("there is no row '{name}' in:\n{text}"));
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// The same as numbers.
#[track_caller]
fn numbers(text: &str, name: &str) -> Vec<f64> {
    cells(text, name, 0).iter().map(|cell| cell.parse().unwrap_or_else(|e| panic!("'{cell}' in row '{name}': {e}"))).collect()
}

#[track_caller]
fn near(found: &[f64], wanted: &[f64], within: f64) {
    let all = found.len() == wanted.len() && found.iter().zip(wanted).all(|(f, w)| (f - w).abs() <= within);
    assert!(all, "{found:?}; expected {wanted:?} within {within}");
}

#[test]
fn the_demonstration_shows_what_caution_is_worth() {
    let out = Place::new().run(&["bilevel", "demo"]).ended(0).out;
    let header = out.lines().find(|line| line.contains("optimist  ")).unwrap_or_default();
    assert_eq!(
        header.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
        ["cautious (pessimistic)", "the same by pd", "optimist", "the same by pd"]
    );

    // The toy: cautious by sg and pd, then the optimist by both.
    let half = 0.5_f64.sqrt();
    let x: Vec<f64> = numbers(&out, "x").iter().map(|x| x.abs()).collect();
    near(&x, &[0.0, 0.0, half, half], 0.03);
    near(&numbers(&out, "-x y it counts on"), &[0.0, 0.0, -0.5, -0.5], 0.02);
    near(&numbers(&out, "-x y at the worst"), &[0.0, 0.0, 0.5, 0.5], 0.02);
    near(&numbers(&out, "-x y at the best"), &[0.0, 0.0, -0.5, -0.5], 0.02);

    // The shop, whose customer the slack 0.01 gives 0.215 units more or less: the cautious price is the best for 1.285 - x units, the
    // optimist's for 2.715 - x.
    let price = numbers(&out, "price");
    near(&price, &[0.642, 1.357], 0.05);
    near(&numbers(&out, "revenue it counts on"), &[0.413, 1.842], 0.1);
    let (least, most): (Vec<f64>, Vec<f64>) = price.iter().map(|x| (x * (1.5 - x), x * (2.5 - x))).unzip();
    near(&numbers(&out, "revenue at the worst"), &least, 0.02);
    near(&numbers(&out, "revenue at the best"), &most, 0.02);
    assert!(least[0] > 0.53 && least[1] < 0.25, "{least:?}");

    // Every row says by how much, and the words agree with it.
    for (nth, columns) in [(0, 4), (1, 2)] {
        let kept = cells(&out, "rows satisfied within beta", nth);
        assert_eq!(kept.len(), columns, "{out}");
        for cell in kept {
            let (row, beta) =
                cell.strip_prefix("yes, ").and_then(|rest| rest.split_once(" <= ")).unwrap_or_else(|| panic!("{cell}"));
            assert!(row.parse::<f64>().unwrap() <= beta.parse::<f64>().unwrap(), "{cell}");
        }
        // Times have two decimals.
        let seconds = cells(&out, "seconds", nth);
        let two_decimals = |s: &str| {
            s.split_once('.').is_some_and(|(whole, part)| {
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                digits(whole) && digits(part) && part.len() == 2
            })
        };
        assert!(seconds.len() == columns && seconds.iter().all(|s| two_decimals(s)), "{out}");
    }

    // What is said of the numbers has the numbers.
    let believed = cells(&out, "-x y it counts on", 0)[2];
    assert!(out.contains(&format!("The optimist believes in {believed},")), "{out}");
    let ends = format!("ends at {}, where the worst is {}.", cells(&out, "x", 0)[0], cells(&out, "-x y at the worst", 0)[0]);
    assert!(out.contains(&ends), "{out}");
    let (worst, promised) = (cells(&out, "revenue at the worst", 0), cells(&out, "revenue it counts on", 0));
    assert!(out.contains(&format!("The cautious price earns at least {}.", worst[0])), "{out}");
    assert!(out.contains(&format!("The optimist's promises {}, and may earn {}.", promised[1], worst[1])), "{out}");
    // The page prints it word for word; numbers may differ in their last digits from machine to machine.
    let page = page();
    let printed = page.split_once("```text\nA toy.").and_then(|(_, rest)| rest.split_once("\n```")).map(|(printed, _)| printed);
    let words = |text: &str| -> Vec<String> {
        let number = |word: &str| word.contains('.') && word.trim_end_matches(['.', ',']).parse::<f64>().is_ok();
        text.split_whitespace().map(|word| if number(word) { "#".into() } else { word.into() }).collect()
    };
    assert_eq!(words(printed.unwrap_or_default()), words(out.strip_prefix("A toy.").unwrap()));
    assert!(out.contains("docs/bilevel.md") && out.lines().all(|line| line.chars().count() <= 130), "{out}");
}

#[test]
fn help_reads_well_and_other_words_are_refused() {
    let place = Place::new();
    let help = place.run(&["bilevel", "--help"]).ended(0).out;
    for part in ["a leader chooses, a follower answers", "demo  Solve two small problems", "Example: thalweg bilevel demo"] {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(&part.replace("  ", " ")), "{part}: {help}");
    }
    let help = place.run(&["bilevel", "demo", "--help"]).ended(0).out;
    assert!(help.contains("Usage: thalweg bilevel demo") && help.contains("Exit codes: 0 every run"), "{help}");
    assert!(place.run(&["--help"]).ended(0).out.lines().any(|line| line.trim_start().starts_with("bilevel ")));
    for (arguments, said) in [
        (&["bilevel", "dmo"][..], "unrecognized subcommand 'dmo'"),
        (&["bilevel", "demo", "toy"], "unexpected argument 'toy'"),
        (&["bilevel"], "Usage: thalweg bilevel [OPTIONS] <COMMAND>"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == Some(2) && ran.out.is_empty() && ran.err.contains(said), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn every_key_is_on_the_page() {
    let inner = |inner: adaprox::Inner| serde_json::to_value(inner).unwrap();
    let toy: Arc<dyn Bilevel> = Arc::new(Toy::new(2.0).unwrap());
    let solver = adaprox::Settings { outer: 1, inner_iterations: 10, sigma: Some(20.0), ..Default::default() };
    let settings = bilevel::Settings { solver: Some(solver), ..Default::default() };
    let found = bilevel::solve(&toy, &[0.3], &settings, &Options::default(), &mut ()).unwrap();
    let page = page();
    for value in [
        serde_json::to_value(Form::default()).unwrap(),
        serde_json::to_value(adaprox::Settings::default()).unwrap(),
        inner(adaprox::Inner::Sg(adaprox::Sg::default())),
        inner(adaprox::Inner::Pd(pd::Settings::default())),
        serde_json::to_value(&found).unwrap(),
    ] {
        let keys = value.as_object().unwrap().keys().filter(|key| *key != "name");
        let missing: Vec<_> = keys.filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "not in docs/bilevel.md: {missing:?}");
    }
}
