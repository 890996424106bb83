//! Input from strangers: sizes that would take all memory, words that would reach the terminal as commands, and files that name
//! other files.

use std::io::Write;
use std::time::Instant;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::common::Place;

const TABLE: &str = "age,sex,y\n20,f,no\n30,m,yes\n40,f,yes\n25,m,no\n33,f,no\n45,m,yes\n50,f,yes\n21,m,no\n39,f,yes\n28,m,no\n";

/// Ten rows with a column of number 10^9.
const WIDE: &str = "+1 1:1 1000000000:1\n-1 2:0.5\n+1 1:0.2 2:1\n-1 3:1\n+1 2:2 3:1\n-1 1:1\n+1 1:3 1000000000:2\n-1 2:1 3:1\n+1 1:1 2:1\n-1 1:-1 3:1\n";

fn spec(data: &str, solver: &str) -> String {
    format!(
        "[data]\n{data}\nsplit = 'shared'\ngroup = 3\n[problem]\nminimize = 'hinge'\nsubject_to = ['demographic_parity <= 0.2']\n\
         domain = {{ ball = 5.0 }}\n[solver]\n{solver}\n[budget]\niterations = 3\n"
    )
}

#[test]
fn a_large_column_number_costs_nothing() {
    let place = Place::new();
    place.put("wide.svm", WIDE);
    let out = place.run(&["fit", "wide.svm", "--test-fraction", "0", "--out", "m"]).ended(0).out;
    assert!(out.contains("note: of 1,000,000,000 columns, only the 4 that have an entry are features"), "{out}");
    let model: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    let features: Vec<&Value> = model["weights"].as_array().unwrap().iter().map(|w| &w["feature"]).collect();
    assert_eq!(features, ["column 1", "column 2", "column 3", "column 1000000000"]);
    // The same rows with the columns numbered by hand give the same weights.
    place.put("small.svm", WIDE.replace("1000000000", "4"));
    place.run(&["fit", "small.svm", "--test-fraction", "0", "--out", "s"]).ended(0);
    let small: Value = serde_json::from_str(&place.read("s/model.json")).unwrap();
    let weights = |model: &Value| model["weights"].as_array().unwrap().iter().map(|w| w["weight"].clone()).collect::<Vec<_>>();
    assert_eq!(weights(&model), weights(&small));
    // Columns keep their meaning in other files: one that no training row had is not a feature, one beyond all is refused.
    place.put("new.svm", "0 2:1 500:7 1000000000:1\n");
    place.put("new-small.svm", "0 2:1 4:1\n");
    let scores = place.run(&["predict", "m", "new.svm"]).ended(0).out;
    assert_eq!(scores, place.run(&["predict", "s", "new-small.svm"]).ended(0).out);
    place.put("beyond.svm", "0 1000000001:1\n");
    place.run(&["predict", "m", "beyond.svm"]).refused(&["beyond.svm, line 1: ", "expected at most 1000000000"]);
    place.run(&["certify", "m"]).ended(0);
    // The binary form has the same rows.
    place.run(&["data", "convert", "wide.svm", "wide.thw"]).ended(0);
    place.run(&["fit", "wide.thw", "--test-fraction", "0", "--out", "t"]).ended(0);
    assert_eq!(weights(&serde_json::from_str(&place.read("t/model.json")).unwrap()), weights(&model));
    // A list of columns that was tampered with is found.
    for bad in [json!([2, 1, 3, 4]), json!([0, 1, 2, 3]), json!([1, 2, 3, 1_000_000_001])] {
        let mut changed = model.clone();
        changed["input"]["libsvm"]["used"] = bad;
        place.put("changed.json", changed.to_string());
        place.run(&["predict", "changed.json", "wide.svm"]).refused(&["changed.json: is a damaged model: the columns it uses"]);
    }
}

#[test]
fn a_spec_with_too_many_columns_is_refused() {
    let place = Place::new();
    place.put("wide.svm", WIDE);
    place.put("run.toml", spec("file = 'wide.svm'", "name = 'ssg'\neta = 0.1\ntol = 0.1"));
    let sentence = "wide.svm: has 1000000000 columns; expected at most 20000000, or a larger limit with --max-columns N";
    place.run(&["solve", "run.toml"]).refused(&[sentence]);
    place.put("run.toml", spec("file = 'wide.svm'\ncolumns = 1000000000", "name = 'ssg'\neta = 0.1\ntol = 0.1"));
    place.run(&["solve", "run.toml"]).refused(&[sentence]);
    place.put("wide.svm", WIDE.replace("1000000000", "2000"));
    place.put("run.toml", spec("file = 'wide.svm'", "name = 'ssg'\neta = 0.1\ntol = 0.1"));
    place.run(&["solve", "run.toml", "--max-columns", "1999"]).refused(&["has 2000 columns; expected at most 1999"]);
    place.run(&["solve", "run.toml", "--max-columns", "2000"]).ended(0);
    // With the option, the others are features even where they have no entry.
    place.run(&["fit", "wide.svm", "--max-columns", "2000", "--out", "m"]).ended(0);
    assert_eq!(place.read("m/model.json").matches("\"feature\"").count(), 2000);
}

#[test]
fn settings_that_would_take_all_memory_are_refused() {
    let place = Place::new();
    place.put("rows.svm", WIDE.replace("1000000000", "4"));
    let dszog = "name = 'dszog'\neta_w = 0.1\neta_p = 0.1\nlambda = 1e-3\n";
    let bundle = "name = 'bundle'\n";
    for (solver, key, value, sentence) in [
        (dszog, "m2", "4294967296", "m2 must be at most 10,000,000, got 4294967296"),
        (dszog, "m2", "9223372036854775807", "m2 must be at most 10,000,000, got 9223372036854775807"),
        (dszog, "directions", "4294967296", "directions must be at most 67,108,864 for 4 variables, got 4294967296"),
        (dszog, "directions", "9223372036854775807", "directions must be at most 67,108,864 for 4 variables"),
        (bundle, "cuts_per_visit", "4294967296", "cuts_per_visit must be at most 67,108,864 for 4 variables"),
        (bundle, "cuts_per_visit", "9223372036854775807", "cuts_per_visit must be at most 67,108,864 for 4 variables"),
    ] {
        place.put("run.toml", spec("file = 'rows.svm'", &format!("{solver}{key} = {value}")));
        place.run(&["solve", "run.toml"]).refused(&[sentence]);
    }
    for (solver, key) in [("name = 'ssg'\neta = 0.1\ntol = 0.1\n", "batch_f"), (bundle, "max_cuts")] {
        place.put("run.toml", spec("file = 'rows.svm'", &format!("{solver}{key} = 9223372036854775807")));
        assert!(matches!(place.run(&["solve", "run.toml"]).code, Some(0 | 1)), "{key}");
    }
    for (key, sentence) in [
        ("n1", "n1 must be at most 5,368,709 for 50 variables, got 4294967296"),
        ("n2", "n2 must be at most 5,368,709 for 50 variables, got 4294967296"),
        ("d", "d must be at most 16,384, got 4294967296"),
        ("m", "m must be at most 16,384, got 4294967296"),
    ] {
        let data = format!("bilevel = {{ name = 'hyper-representation', {key} = 4294967296 }}");
        place.put("run.toml", format!("[data]\n{data}\n[problem]\n[solver]\nname = 'auto'\n[budget]\niterations = 1\n"));
        place.run(&["solve", "run.toml"]).refused(&[sentence]);
    }
    let lbfgs = spec("file = 'rows.svm'", "name = 'lbfgs'\nmemory = 9223372036854775807");
    let without = lbfgs.replace("subject_to = ['demographic_parity <= 0.2']\n", "").replace("'hinge'", "'logistic'");
    place.put("run.toml", without);
    place.run(&["solve", "run.toml"]).ended(0);
}

/// Writes a gzip of this many lines.
fn bomb(place: &Place, name: &str, first: &str, line: &str, count: usize) -> u64 {
    let file = std::fs::File::create(place.path(name)).unwrap();
    let mut zip = GzEncoder::new(std::io::BufWriter::new(file), Compression::best());
    zip.write_all(first.as_bytes()).unwrap();
    let block = line.repeat(1000);
    (0..count / 1000).for_each(|_| zip.write_all(block.as_bytes()).unwrap());
    zip.finish().unwrap().flush().unwrap();
    std::fs::metadata(place.path(name)).unwrap().len()
}

#[test]
fn a_gzip_bomb_is_refused() {
    let place = Place::new();
    let stored = bomb(&place, "bomb.csv.gz", "a,y\n", "0,0\n", 20_000_000);
    assert!(stored < 400_000, "{stored}");
    let sentence =
        "the gzip contains more text than 100 times the size of the gzip; expected less, or a larger limit with --max-text SIZE";
    place.run(&["fit", "bomb.csv.gz", "--label", "y", "--out", "m"]).refused(&["bomb.csv.gz: ", sentence]);
    bomb(&place, "bomb.svm.gz", "1 1:1\n", "0 1:1\n", 12_000_000);
    place.run(&["fit", "bomb.svm.gz", "--out", "m"]).refused(&["bomb.svm.gz, line ", sentence]);
    // The option is a limit too.
    bomb(&place, "some.svm.gz", "1 1:1\n", "0 1:1\n", 1_000_000);
    place.run(&["fit", "some.svm.gz", "--max-text", "1M", "--out", "m"]).refused(&["contains more text than 1M; expected less"]);
    place.run(&["predict", "m", "t.csv", "--max-text", "12X"]).refused_arguments("expected a number of bytes above 0");
    assert_eq!(place.files(), ["bomb.csv.gz", "bomb.svm.gz", "some.svm.gz"]);
}

#[cfg(unix)]
#[test]
fn an_endless_device_is_refused() {
    use std::process::{Command, Stdio};
    let place = Place::new();
    place
        .run(&["fit", "/dev/zero", "--label", "y", "--out", "m"])
        .refused(&["/dev/zero, line 1: is not text: it has a NUL byte"]);
    let line = "/dev/zero, line 1: the line is longer than 1M; expected a shorter one, or a larger limit with --max-line SIZE";
    place.run(&["fit", "/dev/zero", "--out", "m", "--max-line", "1M"]).refused(&[line]);
    place.run(&["predict", "/dev/zero", "t.csv", "--max-text", "1M"]).refused(&["/dev/zero: gives more text than 1M"]);
    place.put(
        "run.toml",
        "[data]\nname = 'a9a'\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'lbfgs'\n[budget]\niterations = 1\n",
    );
    for arguments in [&["solve", "/dev/zero"][..], &["lab", "run", "/dev/zero"], &["check", "/dev/zero"]] {
        place
            .run(arguments)
            .refused(&["/dev/zero: gives more text than 64M; expected less, or a larger limit with --max-text SIZE"]);
    }
    place.run(&["certify", "run.toml", "--point", "/dev/zero"]).refused(&["/dev/zero: gives more text than 64M"]);
    let mut endless = Command::new("yes").arg("1,2").stdout(Stdio::piped()).spawn().unwrap();
    let read =
        place.command(&["fit", "/dev/stdin", "--label", "1", "--max-text", "4M"]).stdin(endless.stdout.take().unwrap()).output();
    endless.kill().unwrap();
    endless.wait().unwrap();
    crate::common::Ran::from(read.unwrap()).refused(&["/dev/stdin: gives more text than 4M; expected less"]);
    place.run(&["solve", "run.toml", "--checkpoint", "/dev/zero"]).refused(&["/dev/zero cannot be written: a device or a pipe"]);
}

#[test]
fn many_threads_are_capped_with_a_note() {
    let place = Place::new();
    place.put("t.csv", TABLE);
    let one = place.run(&["fit", "t.csv", "--label", "y", "--out", "one"]).ended(0).out;
    assert!(!one.contains("threads"), "{one}");
    for threads in ["5000", "18446744073709551615"] {
        let started = Instant::now();
        let out = place.run(&["fit", "t.csv", "--label", "y", "--out", "many", "--threads", threads]).ended(0).out;
        let note = format!("note: {threads} threads were requested; 32 are used, because sums have at most 32 parts\n");
        assert_eq!(out.matches(&note).count(), 1, "{out}\n{:?}", started.elapsed());
        let model = |name: &str| place.read(&format!("{name}/model.json")).lines().take(20).map(String::from).collect::<Vec<_>>();
        assert_eq!(model("many"), model("one"));
    }
    place.put("rows.svm", WIDE.replace("1000000000", "4"));
    place.put("run.toml", spec("file = 'rows.svm'", "name = 'ssg'\neta = 0.1\ntol = 0.1"));
    let out = place.run(&["solve", "run.toml", "--threads", "5000"]).out;
    assert!(out.contains("note: 5000 threads were requested; 32 are used"), "{out}");
    place.put("lab.toml", place.read("run.toml") + "[record]\nevery = 1\n");
    let ran = place.run(&["lab", "run", "lab.toml", "--jobs", "18446744073709551615"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.starts_with("note: --jobs 18446744073709551615; 256 runs at a time are the most\n"), "{ran:?}");
}

#[test]
fn rows_with_one_label_are_refused() {
    let place = Place::new();
    for (text, label) in [("1 1:1\n1 2:1\n", "1"), ("-1 1:1\n-1 2:1\n", "-1"), ("3 1:1\n3 2:1\n", "3")] {
        place.put("one.svm", text);
        let sentence = format!("one.svm, line 1: all rows have the same label {label}; expected two different labels");
        place.run(&["fit", "one.svm", "--out", "m"]).refused(&[&sentence]);
    }
    // Features for a prediction need no labels.
    place.put("two.svm", "1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n");
    place.run(&["fit", "two.svm", "--out", "m"]).ended(0);
    place.run(&["predict", "m", "one.svm"]).ended(0);
    // A binary file that another program wrote.
    place.run(&["data", "generate", "--like", "covtype", "--rows", "1", "--quiet", "--out", "one.thw"]).ended(0);
    place.run(&["fit", "one.thw", "--out", "n"]).refused(&["one.thw: all rows have the same label"]);
}

#[test]
fn a_model_cannot_show_another_file() {
    let place = Place::new();
    place.put("t.csv", TABLE);
    place.run(&["fit", "t.csv", "--label", "y", "--out", "m"]).ended(0);
    let model: Value = serde_json::from_str(&place.read("m/model.json")).unwrap();
    place.put("secret", "root:x:0:0,hunter2\nhunter3,hunter4\n");
    // A file with the columns of the model and a value that the model does not know.
    place.put("people.csv", TABLE.replace("50,f", "50,hunter5"));
    for file in ["secret", "people.csv"] {
        let mut changed = model.clone();
        changed["training"]["file"] = json!(file);
        place.put("changed.json", changed.to_string());
        let ran = place.run(&["certify", "changed.json"]);
        assert!(!ran.err.contains("hunter") && !ran.out.contains("hunter") && !ran.err.contains("root"), "{ran:?}");
        let announced = format!("reading {file}, which the model names as its training data\n");
        assert!(ran.err.starts_with(&announced), "{ran:?}");
        if file == "secret" {
            assert_eq!(ran.code, Some(2));
            let sentence = "thalweg: secret: does not fit the model, which names it as its training data; give it with --data FILE to see the reason\n";
            assert_eq!(ran.err, announced + sentence);
        }
        // Who names the file may see the reason.
        let ran = place.run(&["certify", "changed.json", "--data", file]);
        assert!(!ran.err.contains("which the model names"), "{ran:?}");
        assert!(ran.err.contains("has no column") || ran.out.contains("hunter5"), "{ran:?}");
    }
}

/// Escape sequences, a line break, and a character that reverses the text after it.
const EVIL: &str = "a\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}b";

fn is_clean(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && c != '\n') && !text.contains(['\u{202e}', '\u{2066}'])
}

#[test]
fn deep_nesting_is_refused() {
    let place = Place::new();
    place.put("t.csv", TABLE);
    for open in ["variance(", "self_paced(", "best(", "(", "l2 <= best(", "2 * "] {
        let deep = open.repeat(100_000 / open.len());
        for option in ["--minimize", "--subject-to", "--domain"] {
            place.run(&["fit", "t.csv", "--label", "y", option, &deep]).refused(&[]);
        }
    }
    let n = 100_000;
    for (file, text) in [
        ("list.toml", format!("a = {}{}", "[".repeat(n), "]".repeat(n))),
        ("table.toml", format!("a = {}1{}", "{a = ".repeat(n), "}".repeat(n))),
        ("header.toml", format!("[{}]\nx = 1\n", vec!["a"; n].join("."))),
        ("key.toml", format!("{} = 1\n", vec!["a"; n].join("."))),
    ] {
        place.put(file, text);
        for command in [&["solve", file][..], &["lab", "run", file]] {
            place.run(command).refused(&[file]);
        }
    }
    for (file, text) in [
        ("list.json", format!("{}{}", "[".repeat(n), "]".repeat(n))),
        ("object.json", format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n))),
    ] {
        place.put(file, text);
        for command in ["explain", "check", "certify"] {
            place.run(&[command, file]).refused(&[file]);
        }
    }
}

#[test]
fn control_characters_of_input_do_not_reach_the_terminal() {
    let place = Place::new();
    let table = TABLE.replace("age,sex,y", &format!("age,\"{EVIL}\nsex\",y")).replace(",f,", &format!(",{EVIL},"));
    place.put("t.csv", table.replace("yes", &format!("{EVIL}yes")));
    let group = format!("{EVIL}\nsex");
    let fit =
        ["fit", "t.csv", "--label", "y", "--positive", &format!("{EVIL}yes"), "--group", &group, "--out", "m", "--subject-to"];
    let ran = place.run(&[&fit[..], &["demographic_parity <= 0.5", "--explain"]].concat());
    assert!(ran.code.is_some_and(|code| code < 2) && is_clean(&ran.out) && is_clean(&ran.err), "{ran:?}");
    for arguments in [&["explain", "m"][..], &["certify", "m"], &["certify", "m", "--json"], &["predict", "m", "none\u{1b}[2J"]] {
        let ran = place.run(arguments);
        assert!(is_clean(&ran.out) && is_clean(&ran.err), "{arguments:?}: {ran:?}");
    }
    let explained = place.run(&["explain", "m"]).ended(0).out;
    assert!(explained.contains("a\\u{1b}]0;owned\\u{7}\\u{9b}31m\\u{202e}b"), "{explained}");
    // Data are written as they are where they do not go to a terminal.
    assert!(place.run(&["predict", "m", "t.csv"]).ended(0).out.contains(EVIL));
    for option in ["--subject-to", "--minimize", "--group", "--solver", "--set", "--domain"] {
        let ran = place.run(&["fit", "t.csv", "--label", "y", option, EVIL]);
        assert!(ran.code == Some(2) && is_clean(&ran.err) && ran.err.contains("owned"), "{option}: {ran:?}");
    }
    let ran = place.run(&["fit", "t.csv", "--label", "y", &format!("--{EVIL}")]);
    assert!(ran.code == Some(2) && is_clean(&ran.err), "{ran:?}");
}

#[test]
fn control_characters_of_an_experiment_do_not_reach_the_terminal() {
    let place = Place::new();
    place.put("rows.svm", WIDE.replace("1000000000", "4"));
    let evil = EVIL.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
    let lab = format!(
        "name = \"{evil}\"\n{}label = \"{evil}\"\n[record]\nevery = 1\n",
        spec("file = 'rows.svm'", "name = 'ssg'\neta = 0.1\ntol = 0.1").replace("[budget]\niterations = 3\n", "")
    );
    place.put("lab.toml", format!("{lab}[budget]\niterations = 3\n"));
    let run = place.run(&["lab", "run", "lab.toml"]);
    assert!(run.code == Some(0) && run.out.contains("owned") && is_clean(&run.out) && is_clean(&run.err), "{run:?}");
    let key = place.run(&["lab", "list", "--json"]).json()[0]["run"].as_str().unwrap().to_string();
    for arguments in
        [&["lab", "list"][..], &["lab", "show", &key], &["lab", "run", "lab.toml", "--dry-run"], &["lab", "list", "--json"]]
    {
        let ran = place.run(arguments).ended(0);
        assert!(is_clean(&ran.out) && ran.out.contains("owned"), "{arguments:?}: {ran:?}");
    }
    // Texts of a sound store that others wrote.
    let store = rusqlite::Connection::open(place.path("thalweg.sqlite")).unwrap();
    store.pragma_update(None, "foreign_keys", false).unwrap();
    for table in ["runs", "members", "claims", "curves"] {
        // Not every table has a key of this name.
        let _ = store.execute(&format!("UPDATE {table} SET key = 'é' || char(27) || 'ééééééééééééé'"), []);
        let _ = store.execute(&format!("UPDATE {table} SET run = 'é' || char(27) || 'ééééééééééééé'"), []);
    }
    for column in ["ended", "method", "finished", "data_hash"] {
        store.execute(&format!("UPDATE runs SET {column} = ?1"), [EVIL]).unwrap();
    }
    for arguments in
        [&["lab", "list"][..], &["lab", "show", "é"], &["lab", "list", "--json"], &["lab", "run", "lab.toml"], &["lab", "report"]]
    {
        let ran = place.run(arguments);
        assert!(ran.code.is_some_and(|code| code <= 2) && is_clean(&ran.out) && is_clean(&ran.err), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("panicked"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn hostile_rows_of_a_store_are_errors() {
    let place = Place::new();
    place.put("rows.svm", WIDE.replace("1000000000", "4"));
    place.put("lab.toml", spec("file = 'rows.svm'", "name = 'ssg'\neta = 0.1\ntol = 0.1") + "[record]\nevery = 1\n");
    place.run(&["lab", "run", "lab.toml", "--quiet"]).ended(0);
    let sound = std::fs::read(place.path("thalweg.sqlite")).unwrap();
    let tables: Vec<(String, String)> = {
        let store = rusqlite::Connection::open(place.path("thalweg.sqlite")).unwrap();
        let mut query = store
            .prepare("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
            .unwrap();
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert!(tables.len() > 20, "{tables:?}");
    let values = [
        "NULL",
        "''",
        "'{'",
        "x'00ff9b'",
        "-1",
        "9223372036854775807",
        "1e999",
        "'[[[[[['",
        "zeroblob(100000)",
        "char(27) || 'é'",
    ];
    for (k, (table, column)) in tables.iter().enumerate() {
        for value in [values[k % values.len()], values[(3 * k + 1) % values.len()]] {
            std::fs::write(place.path("thalweg.sqlite"), &sound).unwrap();
            let store = rusqlite::Connection::open(place.path("thalweg.sqlite")).unwrap();
            store.pragma_update(None, "foreign_keys", false).unwrap();
            if store.execute(&format!("UPDATE {table} SET {column} = {value}"), []).is_err() {
                continue;
            }
            drop(store);
            for arguments in
                [&["lab", "list"][..], &["lab", "report"], &["lab", "export", "--points"], &["lab", "run", "lab.toml", "--quiet"]]
            {
                let ran = place.run(arguments);
                let sound = matches!(ran.code, Some(0 | 1)) || (ran.code == Some(2) && ran.err.starts_with("thalweg: "));
                assert!(sound && !ran.err.contains("panicked"), "{table}.{column} = {value}, {arguments:?}: {ran:?}");
            }
        }
    }
}

#[test]
fn cells_that_spreadsheets_take_for_formulas_are_marked_on_request() {
    let place = Place::new();
    place.put("t.csv", TABLE.replace("yes", "=1+1").replace("no", "-no"));
    place.run(&["fit", "t.csv", "--label", "y", "--positive", "=1+1", "--out", "m"]).ended(0);
    place.put("new.csv", "id,age,sex\n@a,20,f\n-5,30,m\n+x,50,f\n\"=\"\"q\"\"\",60,f\n");
    let plain = place.run(&["predict", "m", "new.csv", "--id", "id"]).ended(0).out;
    assert!(plain.contains("\n@a,") && plain.contains(",=1+1\n"), "{plain}");
    let safe = place.run(&["predict", "m", "new.csv", "--id", "id", "--spreadsheet-safe"]).ended(0).out;
    for part in ["\n\"'@a\",", "\n-5,", "\n\"'+x\",", "\n\"'=\"\"q\"\"\",", ",\"'=1+1\"\n"] {
        assert!(safe.contains(part), "{part}: {safe}");
    }
    assert!(!safe.lines().any(|line| line.split(',').any(|cell| cell.starts_with(['=', '@']))), "{safe}");
}

#[test]
fn errors_quote_little_of_the_input() {
    let place = Place::new();
    // Words that are long, and texts of many short words.
    for long in ["x".repeat(100_000), "ab ".repeat(30_000)] {
        place.put("t.csv", TABLE);
        place.put("rows.svm", WIDE.replace("1000000000", "4"));
        place.put("label.csv", TABLE.replace("yes", &long).replacen(&long, "third", 1));
        place.put("header.csv", TABLE.replace("age", &long));
        place.put("bad.svm", format!("{long} 1:1\n"));
        place.put("pair.svm", format!("1 {long}\n"));
        place.put("name.toml", spec("file = 'rows.svm'", &format!("name = '{long}'")));
        place.put("key.toml", spec("file = 'rows.svm'", &format!("name = 'ssg'\neta = 0.1\ntol = 0.1\n'{long}' = 1")));
        place.put("value.toml", spec("file = 'rows.svm'", &format!("name = 'ssg'\neta = '{long}'\ntol = 0.1")));
        place.put("term.toml", spec("file = 'rows.svm'", "name = 'bundle'").replace("hinge", &long));
        place.put("file.toml", spec(&format!("file = '{long}'"), "name = 'bundle'"));
        place.put("type.toml", spec("file = 'rows.svm'", "name = 'bundle'").replace("'shared'", &format!("'{long}'")));
        place.put("model.json", json!({ "format": 1, &long: 1 }).to_string());
        place.put("text.json", json!({ "format": &long }).to_string());
        place.put("point.json", json!({ "point": { "x": [&long] } }).to_string());
        place.put("good.toml", spec("file = 'rows.svm'", "name = 'bundle'"));
        place.put("numbers", &long);
        let cases: Vec<Vec<&str>> = vec![
            vec!["fit", "label.csv", "--label", "y"],
            vec!["fit", "header.csv", "--label", "why"],
            vec!["fit", "t.csv", "--label", &long],
            vec!["fit", "t.csv", "--label", "y", "--minimize", &long],
            vec!["fit", "t.csv", "--label", "y", "--subject-to", &long],
            vec!["fit", "t.csv", "--label", "y", "--group", &long],
            vec!["fit", "t.csv", "--label", "y", "--positive", &long],
            vec!["fit", "t.csv", "--label", "y", "--leave-out", &long],
            vec!["fit", "t.csv", "--label", "y", "--solver", &long],
            vec!["fit", "t.csv", "--label", "y", "--set", &long],
            vec!["fit", "t.csv", "--label", "y", "--domain", &long],
            vec!["fit", "t.csv", "--label", "y", "--regularization", &long],
            vec!["fit", "t.csv", "--label", "y", "--seconds", &long],
            vec!["fit", &long],
            vec!["fit", "bad.svm"],
            vec!["fit", "pair.svm"],
            vec!["solve", "name.toml"],
            vec!["solve", "key.toml"],
            vec!["solve", "value.toml"],
            vec!["solve", "term.toml"],
            vec!["solve", "file.toml"],
            vec!["solve", "type.toml"],
            vec!["lab", "run", "name.toml"],
            vec!["lab", "run", "type.toml"],
            vec!["explain", "model.json"],
            vec!["explain", "text.json"],
            vec!["check", "model.json"],
            vec!["check", "text.json"],
            vec!["certify", "good.toml", "--point", "point.json"],
            vec!["certify", "good.toml", "--point", "numbers"],
            vec!["tradeoff", "t.csv", "--bounds", &long],
            vec!["data", "info", &long],
            vec![&long],
        ];
        for arguments in cases {
            let ran = place.run(&arguments);
            let shown: Vec<&str> = arguments.iter().map(|a| &a[..a.len().min(20)]).collect();
            assert_eq!(ran.code, Some(2), "{shown:?}");
            let quoted = ran.err.matches('x').count().max(3 * ran.err.matches("ab ").count());
            assert!(
                quoted <= 2 * 200 + 60 && ran.err.chars().count() < 1500,
                "{shown:?}: {} characters: {:.900}",
                ran.err.len(),
                ran.err
            );
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    place.put("t.csv", TABLE);
    for arguments in
        [&["--help"][..], &["--version"], &["fit", "--help"], &["help", "lab"], &["data", "list"], &["completions", "bash"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = crate::common::Ran::from(place.command(arguments).stdout(full).output().unwrap());
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert_eq!(ran.err, "thalweg: standard output: No space left on device (os error 28)\n", "{arguments:?}");
        // A reader that stops early, such as head, is no error.
        let mut closed = place.command(arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        drop(closed.stdout.take());
        assert_eq!(closed.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_spec_reads_where_it_says_and_writes_nowhere_else() {
    let place = Place::new();
    std::fs::create_dir(place.path("below")).unwrap();
    place.put("rows.svm", WIDE.replace("1000000000", "4"));
    place.put("below/run.toml", spec("file = '../rows.svm'", "name = 'bundle'"));
    let ran = place.run(&["solve", "below/run.toml"]);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    assert_eq!(place.files(), ["below", "rows.svm"]);
    place.put("below/run.toml", spec("file = '../../../../../../../../../../etc/no-such-file'", "name = 'bundle'"));
    place.run(&["solve", "below/run.toml"]).refused(&["no-such-file: there is no such file"]);
}
