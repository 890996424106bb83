//! Tables as they come in real life, and slips in the options of `thalweg fit`: exit code 2, one sentence that names the file,
//! the line and the column where there is one, nothing on standard output, and nothing left behind.

use crate::common::Place;
use thalweg::solvers::{Interface, registry};

/// Forty rows that can be fitted; every test breaks one thing.
fn good() -> String {
    let row = |i: usize| {
        let (age, sex, job) = (20 + i * 7 % 40, ["f", "m"][i % 2], ["clerk", "smith"][i / 2 % 2]);
        format!("{age},{sex},{job},{},{}\n", i % 3, ["no", "yes"][i * i % 5 % 2])
    };
    String::from("age,sex,job,w,y\n") + &(0..40).map(row).collect::<String>()
}

/// Insists that the table is refused with one sentence that has every part, and that nothing is left behind.
#[track_caller]
fn refused(table: impl AsRef<[u8]>, more: &[&str], parts: &[&str]) {
    let place = Place::new();
    place.put("my.csv", table);
    let label: &[&str] = if more.contains(&"--label") { &[] } else { &["--label", "y"] };
    let ran = place.run(&[&["fit", "my.csv", "--iterations", "20", "--out", "a/b"], label, more].concat());
    ran.refused(parts);
    assert_eq!(place.files(), ["my.csv"]);
}

/// The good table with a line in place of the given one, counted from 1.
fn with_line(number: usize, line: &str) -> String {
    let good = good();
    let mut lines: Vec<&str> = good.lines().collect();
    lines[number - 1] = line;
    lines.join("\n")
}

#[test]
fn the_table_that_the_others_break_is_good() {
    let place = Place::new();
    place.put("my.csv", good());
    place.run(&["fit", "my.csv", "--label", "y", "--iterations", "20", "--out", "a/b"]).ended(0);
    assert!(place.path("a/b/model.json").is_file() && place.path("a/b/trace.csv").is_file());
    assert_eq!(std::fs::read_dir(place.path("a/b")).unwrap().count(), 2);
}

#[test]
fn a_table_that_cannot_be_read_is_refused() {
    refused(with_line(6, "30,f,clerk"), &[], &["my.csv, line 6: has 3 cells; expected 5"]);
    refused(with_line(1, "age,sex,age,w,y"), &[], &["my.csv, line 1: columns 1 and 3 have the same name 'age'"]);
    refused("", &[], &["my.csv: is empty; expected a header line and rows"]);
    refused("age,sex,job,w,y\n", &[], &["my.csv: has a header line and no rows"]);
    refused(with_line(7, "30,\"f,clerk,1,yes"), &[], &["my.csv, line 7: a double quote is opened and never closed"]);
    let all_bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    refused(all_bytes, &[], &["my.csv, line 1: is not text"]);
    refused([b"age,y\n1,\xff\n".as_slice()].concat(), &[], &["my.csv, line 2: is not"]);
    refused(with_line(1, "1,f,clerk,2,no"), &[], &["my.csv has no column 'y'"]);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    for (file, what) in [("folder", "folder: is a directory; expected a file"), ("none.csv", "none.csv: there is no such file")] {
        let ran = place.run(&["fit", file, "--label", "y", "--out", "m"]);
        assert_eq!((ran.code, ran.err), (Some(2), format!("thalweg: {what}\n")));
        assert_eq!(place.files(), ["folder"]);
    }
}

#[test]
fn cells_that_cannot_be_used_are_refused() {
    let dates = good().replace("job", "hired").replace("clerk", "2024-05-01").replace("smith", "2023-11-30");
    refused(dates, &[], &["my.csv, line 2: column 'hired' has dates such as '2024-05-01'", "--leave-out hired"]);
    let lines = good().replace(',', ";");
    let commas: String =
        lines.lines().enumerate().map(|(i, l)| if i > 0 { l.replacen(';', ",5;", 1) } else { l.into() } + "\n").collect();
    refused(commas, &[], &["my.csv, line 2: '20,5' in column 'age' is a number with a comma; expected a decimal point"]);
}

#[test]
fn labels_groups_and_weights_that_cannot_be_used_are_refused() {
    refused(good(), &["--label", "why"], &["my.csv has no column 'why'; its columns are 'age', 'sex', 'job', 'w', 'y'"]);
    refused(good().replace(",yes\n", ",no\n"), &[], &["my.csv: all rows have the same label 'no' in column 'y'"]);
    refused(good(), &["--positive", "yess"], &["no row has the label 'yess' in column 'y'; did you mean 'yes'?"]);
    refused(with_line(9, "30,f,clerk,1,"), &[], &["my.csv, line 9: ", "'y'"]);
    refused(good(), &["--group", "sexx"], &["has no column 'sexx'; did you mean 'sex'?"]);
    refused(good(), &["--group", "sex=q"], &["no row has 'q' in column 'sex'; its values are 'f', 'm'"]);
    refused(with_line(5, "30,f,clerk,-2,no"), &["--weights", "w"], &["my.csv, line 5: the weight in column 'w' is '-2'"]);
    refused(good(), &["--weights", "v"], &["has no column 'v'"]);
    refused(good(), &["--leave-out", "v"], &["has no column 'v'"]);
    refused(
        good(),
        &["--leave-out", "age", "--leave-out", "sex", "--leave-out", "job", "--leave-out", "w"],
        &["no column besides"],
    );
}

#[test]
fn a_label_column_is_suggested_by_its_spelling() {
    let place = Place::new();
    place.put("my.csv", good().replace(",y\n", ",income\n"));
    let ran = place.run(&["fit", "my.csv", "--label", "Income"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("has no column 'Income'; did you mean 'income'?"), "{}", ran.err);
    // Without a label the file would be LIBSVM.
    let ran = place.run(&["fit", "my.csv"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("my.csv, line 1: ") && ran.err.contains("for a table give --label COL"), "{}", ran.err);
    assert_eq!(place.files(), ["my.csv"]);
}

#[test]
fn options_that_cannot_be_met_are_refused() {
    let fit = format!(" {} beside it", registry::offered_by(Interface::Fit).join(", "));
    let cases: &[(&[&str], &[&str])] = &[
        (&["--minimize", "logistik"], &["unknown term 'logistik'; did you mean 'logistic'?"]),
        (&["--minimize", "l1(on = 'positives')"], &["l1 takes no argument, got 'on'"]),
        (&["--solver", "sgs"], &["unknown solver 'sgs'; did you mean 'ssg'?"]),
        (&["--subject-to", "hinge < 3"], &["'hinge < 3'", "must be TERM <= NUMBER"]),
        (&["--subject-to", "hinge <= three"], &["bound must be", "got 'three'", "a finite number"]),
        (&["--subject-to", "hinge <= -1"], &["can never hold"]),
        (&["--subject-to", "demographic_parity <= 0.1"], &["compares groups", "with --group COL"]),
        (&["--test-fraction", "1.5"], &["--test-fraction 1.5; expected a number from 0 to below 1"]),
        (&["--test-fraction", "-0.1"], &["--test-fraction -0.1"]),
        (&["--threads", "0"], &["threads must be at least 1, got 0"]),
        (&["--seconds", "-1"], &["seconds must be", "got -1"]),
        (&["--passes", "nan"], &["passes must be", "got NaN"]),
        (&["--set", "eta"], &["--set eta; expected name=value"]),
        (&["--set", "eta=1"], &["setting 'eta' belongs to a solver; expected one of the solvers", fit.as_str()]),
        (&["--solver", "bundel"], &["unknown solver 'bundel'", "did you mean 'bundle'?"]),
        (&["--solver", "bundle", "--set", "eps=0"], &["eps must be a finite number larger than 0, got 0"]),
        (&["--solver", "ssg", "--set", "eta=-1"], &["eta must be a finite number larger than 0, got -1"]),
        (&["--solver", "ssg", "--set", "etta=1"], &["unknown key 'etta'; did you mean 'eta'?"]),
        (&["--solver", "ssg", "--set", "eta=fast"], &["eta must be", "got \"fast\"", "a number or a table"]),
        (&["--solver", "ssg", "--set", "tol=-1"], &["tol must be", "got -1"]),
        (&["--solver", "ssg", "--set", "output=avrage"], &["output must be", "got \"avrage\"", "did you mean 'average'?"]),
        (&["--solver", "ssg", "--set", "batch_f=0"], &["batch_f must be", "got 0"]),
        (&["--out", "my.csv"], &["--out my.csv: cannot be made"]),
        (&["--out", "my.csv/m"], &["--out my.csv/m: cannot be made"]),
    ];
    for (more, parts) in cases {
        refused_options(more, parts);
    }
}

#[track_caller]
fn refused_options(more: &[&str], parts: &[&str]) {
    let place = Place::new();
    place.put("my.csv", good());
    let out: &[&str] = if more.contains(&"--out") { &[] } else { &["--out", "a/b"] };
    let ran = place.run(&[&["fit", "my.csv", "--label", "y"], out, more].concat());
    ran.refused(parts);
    assert_eq!(place.files(), ["my.csv"], "{more:?}");
}

#[test]
fn one_bad_number_in_a_million_rows_is_found() {
    let mut text = String::from("a,b,c,y\n");
    for i in 0..1_000_000_u32 {
        let b = if i == 700_000 { "x1.5".into() } else { (f64::from(i % 17) / 4.0).to_string() };
        text += &format!("{},{b},{},{}\n", i * 37 % 1009, ["u", "v", "w"][(i % 3) as usize], i % 2);
    }
    refused(text, &[], &["my.csv, line 700002: 'x1.5' ", "column 'b'"]);
}

#[test]
fn a_slip_in_an_option_is_found_before_the_table_is_read() {
    // There is no such file, and the term is looked at first.
    let place = Place::new();
    let ran = place.run(&["fit", "none.csv", "--label", "y", "--minimize", "logistik"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("did you mean 'logistic'?"), "{}", ran.err);
}
