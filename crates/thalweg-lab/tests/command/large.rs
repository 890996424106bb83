//! Large data as a user meets them: stand-ins, files in binary form, the directory where these are kept, and what is said where one
//! is damaged or old. The sizes here are small; docs/data.md tells what was measured at full size.

use crate::common::Place;
use serde_json::Value;

const SPEC: &str = "seed = 1\n[data]\nfile = 'FILE'\nsplit = 'shared'\ntest_fraction = 0.2\n\
                    [problem]\nminimize = 'logistic + 0.05 * variance(logistic)'\n\
                    [solver]\nname = 'st-spg'\n[budget]\npasses = 3\n";

fn generate(place: &Place, like: &str, out: &str) -> String {
    place.run(&["data", "generate", "--like", like, "--rows", "600", "--seed", "5", "--out", out]).ended(0).out
}

/// The outcome without what a clock measured or what tells the file.
fn outcome(place: &Place, file: &str) -> Value {
    place.put("run.toml", SPEC.replace("FILE", file));
    let mut found: Value = serde_json::from_str(&place.run(&["solve", "run.toml", "--json"]).ended(0).out).unwrap();
    let fields = found.as_object_mut().unwrap();
    fields.remove("seconds");
    fields.remove("notes");
    fields.remove("trace");
    found
}

#[test]
fn a_stand_in_says_what_it_is_everywhere() {
    let place = Place::new();
    let said = generate(&place, "covtype", "rows.thw");
    for part in
        ["rows.thw (stand-in shaped like Covertype)", "rows       600", "columns    54", "7200, 12.0 in a row", "positive"]
    {
        assert!(said.contains(part), "{part}\n{said}");
    }
    place.put("run.toml", SPEC.replace("FILE", "rows.thw"));
    let out = place.run(&["solve", "run.toml", "--report", "page.html"]).ended(0).out;
    assert!(out.contains("rows.thw is a stand-in shaped like Covertype"), "{out}");
    assert!(place.read("page.html").contains("on rows.thw (stand-in shaped like Covertype)"));
    let fit = ["fit", "rows.thw", "--minimize", "logistic", "--out", "model", "--report", "fit.html"];
    let out = place.run(&fit).ended(0).out;
    assert!(out.contains("stand-in shaped like Covertype"), "{out}");
    assert!(place.read("fit.html").contains("rows.thw (stand-in shaped like Covertype)"));
    assert!(place.read("model/model.json").contains("\"stand_in\": \"Covertype\""));
    // What reads rows reads them from both forms alike.
    generate(&place, "covtype", "rows.svm");
    let predicted = |file: &str| place.run(&["predict", "model", file]).ended(0).out;
    assert_eq!(predicted("rows.thw"), predicted("rows.svm"));
    std::fs::create_dir(place.path("data")).unwrap();
    generate(&place, "covtype", "data/svmguide3.svm");
    std::fs::rename(place.path("data/svmguide3.svm"), place.path("data/svmguide3")).unwrap();
    let list = place.run(&["data", "list"]).ended(0).out;
    assert!(list.contains("svmguide3 (stand-in shaped like Covertype)"), "{list}");
}

#[test]
fn text_zipped_text_and_binary_form_give_the_same_run() {
    let place = Place::new();
    for name in ["rows.svm", "rows.svm.gz", "rows.thw"] {
        generate(&place, "covtype", name);
    }
    let converted = place.run(&["data", "convert", "rows.svm.gz", "made.thw"]).ended(0).out;
    assert!(
        converted.starts_with("made.thw (stand-in shaped like Covertype): 600 rows, 54 columns, 7200 non-zeros"),
        "{converted}"
    );
    let text = outcome(&place, "rows.svm");
    for other in ["rows.svm.gz", "rows.thw", "made.thw"] {
        assert_eq!(outcome(&place, other), text, "{other}");
    }
}

#[test]
fn a_damaged_file_that_was_named_is_refused() {
    let place = Place::new();
    generate(&place, "covtype", "rows.thw");
    let mut bytes = std::fs::read(place.path("rows.thw")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.put("bad.thw", &bytes);
    place.put("cut.thw", &bytes[..middle]);
    place.put("text.thw", "1 1:1\n-1 2:1\n");
    for (file, part) in
        [("bad.thw", "is damaged: the checksum of its section"), ("cut.thw", "is cut short"), ("text.thw", "is cut short")]
    {
        place.put("run.toml", SPEC.replace("FILE", file));
        place.run(&["solve", "run.toml"]).refused(&[file, part]);
        place.run(&["fit", file, "--out", "m.json"]).refused(&[file, part]);
    }
    place.run(&["data", "convert", "rows.thw", "rows.svm"]).refused(&["rows.svm", "expected a file called .thw"]);
    place
        .run(&["data", "generate", "--like", "url", "--rows", "0", "--out", "a.svm"])
        .refused(&["rows must be at least 1, got 0"]);
    place.run(&["data", "generate", "--like", "url", "--out", "a.csv"]).refused(&["a.csv: is called neither"]);
}

#[test]
fn a_spec_can_ask_for_a_stand_in() {
    let place = Place::new();
    let spec = SPEC.replace("file = 'FILE'", "shaped_like = { like = 'url', rows = 400, columns = 5000, seed = 2 }");
    place.put("run.toml", &spec);
    let run = |cache: &str| {
        let out = place.command(&["solve", "run.toml", "--report", "page.html"]).env("THALWEG_CACHE", cache).output().unwrap();
        crate::common::Ran::from(out).ended(0).out
    };
    let numbers = |out: String| out.lines().find(|l| l.starts_with("objective")).unwrap().to_string();
    let first = numbers(run("kept"));
    assert!(place.read("page.html").contains("on stand-in shaped like URL"));
    assert!(place.path("kept/shaped-like-url-400x5000-2.thw").is_file());
    assert_eq!(numbers(run("kept")), first);
    assert_eq!(numbers(run("off")), first);
    // An experiment says it at the top of its report.
    let lab = spec.replace("[budget]", "[record]\nevery = 1000\n[budget]");
    place.put("many.toml", lab);
    place.command(&["lab", "run", "many.toml", "--quiet"]).env("THALWEG_CACHE", "kept").output().unwrap();
    place.run(&["lab", "report", "--out", "lab.html"]);
    assert!(place.read("lab.html").contains("stand-in shaped like URL is a stand-in: synthetic rows shaped like URL"));
    for (from, to, part) in [
        ("'url'", "'urls'", "urls"),
        ("rows = 400", "rows = 0", "rows must be at least 1, got 0"),
        ("seed = 2 }", "seed = 2 }\nname = 'a9a'", "[data] has shaped_like and name; expected one of them"),
        ("columns = 5000", "columns = 10", "columns must be 1000 to 4294967295, got 10"),
        ("seed = 2", "sed = 2", "sed"),
    ] {
        place.put("run.toml", spec.replace(from, to));
        place.run(&["solve", "run.toml"]).refused(&[part]);
    }
}
