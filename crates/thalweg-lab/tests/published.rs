//! The readers and the catalogue against published files, where those are at hand (THALWEG_DATA names their directory). A
//! test without its file says that it was skipped.

mod common;

use std::path::Path;

use common::{Place, published};
use thalweg_lab::Result;
use thalweg_lab::data::catalogue::{self, Check, Options};
use thalweg_lab::data::{adult, libsvm};

/// Reads a set from the directory of its file and compares what is counted.
fn counts(
    name: &str,
    file: &Path,
    rows: usize,
    columns: usize,
    labels: &[(&str, usize)],
    groups: &[(&str, usize, usize)],
) -> Result<()> {
    let options = Options { data_dir: file.parent().map(Into::into) };
    let found = catalogue::count(name, &options)?;
    assert_eq!((found.rows, found.columns), (rows, columns));
    assert_eq!(found.labels.iter().map(|l| (l.label.as_str(), l.rows)).collect::<Vec<_>>(), labels);
    assert_eq!(found.groups.iter().map(|g| (g.name.as_str(), g.rows, g.positive)).collect::<Vec<_>>(), groups);
    assert!(found.files.iter().all(|f| f.check == Check::Match), "{:?}", found.files);
    assert_eq!(found.notes, [""; 0]);
    let set = catalogue::get(name)?;
    assert_eq!((set.rows, set.columns), (rows, columns));
    Ok(())
}

/// A whole table of sets: one test each, named after the set.
macro_rules! sets {
    ($($test:ident: $name:literal from $file:literal has $rows:literal x $columns:literal, $labels:expr, $groups:expr;)*) => {
        $(#[test]
        fn $test() -> Result<()> {
            match published(stringify!($test), $file) {
                Some(file) => counts($name, &file, $rows, $columns, &$labels, &$groups),
                None => Ok(()),
            }
        })*
    };
}

sets! {
    bank: "bank" from "bank-additional-full.csv.gz" has 41_188 x 21,
        [("no", 36_548), ("yes", 4_640)], [("age 25 to 60", 39_210, 3_970), ("other ages", 1_978, 670)];
    compas: "compas" from "compas-scores.csv.gz" has 11_757 x 40,
        [("-1", 719), ("0", 7_335), ("1", 3_703)], [("not Caucasian", 7_672, 2_614), ("Caucasian", 4_085, 1_089)];
    compas_two_years: "compas-two-years" from "compas-scores-two-years.csv.gz" has 7_214 x 46,
        [("0", 3_963), ("1", 3_251)], [("not Caucasian", 4_760, 2_285), ("Caucasian", 2_454, 966)];
    german_numer: "german-numer" from "german.numer.gz" has 1_000 x 24,
        [("+1", 300), ("-1", 700)], [("female", 310, 109), ("male", 690, 191)];
    w8a: "w8a" from "w8a.gz" has 49_749 x 300, [("+1", 1_479), ("-1", 48_270)], [];
    svmguide3: "svmguide3" from "svmguide3.gz" has 1_243 x 22, [("+1", 296), ("-1", 947)], [];
    covtype_sample: "covtype-sample" from "covtype-sample.data.gz" has 19_851 x 54, [("+1", 9_623), ("-1", 10_228)], [];
    rcv1_slice: "rcv1-slice" from "rcv1-slice.svm.gz" has 1_747 x 47_236, [("+1", 817), ("-1", 930)], [];
    reuters_money_fx: "reuters-money-fx" from "reuters-money-fx.svm.gz" has 7_770 x 8_315, [("+1", 538), ("-1", 7_232)], [];
}

/// The rows that specs get have the published counts, and `thalweg data` tells of them.
#[test]
fn compas_two_years_is_ready_for_specs() {
    let Some(file) = published("compas_two_years_is_ready_for_specs", "compas-scores-two-years.csv.gz") else { return };
    let directory = file.parent().unwrap();
    let loaded = catalogue::load("compas-two-years", &Options { data_dir: Some(directory.into()) }).unwrap();
    assert_eq!(loaded.notes, [""; 0]);
    let data = loaded.data;
    assert_eq!((data.features.rows(), data.features.cols()), (6_172, 16));
    assert_eq!(data.labels.iter().filter(|y| **y == 1.0).count(), 2_809);
    let groups = data.groups.unwrap();
    let members = |name: &str| {
        let k = groups.names.iter().position(|n| n == name).unwrap();
        groups.of_row.iter().filter(|g| **g as usize == k).count()
    };
    assert_eq!((members("Caucasian"), members("not Caucasian")), (2_103, 4_069));
    // The sums of the zeros and ones are the counts of the words; numbers reach 1 and stay in [0, 1].
    let (mut sums, mut largest) = ([0.0; 16], [0.0_f64; 16]);
    for i in 0..6_172 {
        data.features.visit_row(i, |c, v| {
            assert!((0.0..=1.0).contains(&v), "row {i}, column {c}: {v}");
            sums[c] += v;
            largest[c] = largest[c].max(v);
        });
    }
    let words = [4_997, 2_202, 1_347, 3_532, 1_293, 3_175, 31, 2_103, 509, 11, 343].map(f64::from);
    assert_eq!(sums[..11], words);
    assert_eq!(largest, [1.0; 16]);
    // The first row of the file stays: a man of 69, felony, race other, no counts; the oldest is 96.
    let mut first = vec![];
    data.features.visit_row(0, |c, v| first.push((c, v)));
    assert_eq!(first, [(0, 1.0), (4, 1.0), (10, 1.0), (11, 69.0 / 96.0)]);

    let place = Place::new();
    let ran = place.run(&["data", "info", "compas-two-years", "--data-dir", directory.to_str().unwrap()]).ended(0);
    for part in [
        "rows         7214\n",
        "in specs     6172 rows, 16 columns, sparse\n",
        "+1: 2809 rows\n",
        "not Caucasian: 4069 rows, 1987 positive (48.83%)\n",
        "Caucasian: 2103 rows, 822 positive (39.09%)\n",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    place.put(
        "run.toml",
        "[data]\nname = 'compas-two-years'\n[problem]\nminimize = 'hinge'\nsubject_to = ['demographic_parity <= 0.1']\n\
         [solver]\nname = 'ssg'\neta = 0.1\ntol = 0.01\n[budget]\niterations = 20\n[record]\nevery = 10\n",
    );
    let ran = place.run(&["solve", "run.toml", "--data-dir", directory.to_str().unwrap()]).ended(0);
    assert!(ran.out.contains("20 ssg iterations"), "{}", ran.out);
}

/// a9a as rebuilt equals the published files, row by row, in features, labels and group columns.
#[test]
fn a9a_equals_the_published_files() {
    let built = adult::a9a().unwrap();
    let mut first = 0;
    for (file, rows) in [("a9a.gz", 32_561), ("a9a.t.gz", 16_281)] {
        if let Some(path) = published("a9a_equals_the_published_files", file) {
            let read = libsvm::read(&path, Some(adult::COLUMNS)).unwrap();
            assert_eq!(read.features.rows(), rows);
            let part: Vec<usize> = (first..first + rows).collect();
            for &i in &part {
                let columns = |m: &thalweg::math::Matrix, i| {
                    let mut columns = vec![];
                    m.visit_row(i, |c, v| columns.push((c + 1, v)));
                    columns
                };
                assert_eq!(columns(&built.features, i), columns(&read.features, i - first), "{file}, line {}", i - first + 1);
            }
            assert!(built.features.select(&part) == read.features);
            assert!(built.labels[first..first + rows] == read.labels);
            // The same groups come out of the column of the published file.
            let grouped = catalogue::load_file(&path, Some(adult::COLUMNS), Some(72)).unwrap().data.groups.unwrap();
            assert!(grouped.of_row == built.groups.as_ref().unwrap().of_row[first..first + rows]);
        }
        first += rows;
    }
    assert_eq!(built.features.rows(), first);
}

/// A file of one class only is read as it is.
#[test]
fn svmguide3_test_part() {
    if let Some(path) = published("svmguide3_test_part", "svmguide3.t.gz") {
        let loaded = catalogue::load_file(&path, Some(22), None).unwrap();
        assert_eq!(loaded.data.labels, [1.0; 41]);
    }
}

/// Rows of w8a without features are rows, and ones are kept without values; other sets keep theirs.
#[test]
fn forms_and_empty_rows() {
    if let Some(path) = published("forms_and_empty_rows", "w8a.gz") {
        let rows = libsvm::read(&path, Some(300)).unwrap();
        assert_eq!(rows.features.form(), "sparse ones");
        assert_eq!((0..rows.features.rows()).filter(|&i| rows.features.row_norm_squared(i) == 0.0).count(), 4_203);
    }
    if let Some(path) = published("forms_and_empty_rows", "rcv1-slice.svm.gz") {
        let rows = libsvm::read(&path, None).unwrap();
        assert_eq!(rows.features.cols(), 47_117);
        assert!((0..rows.features.rows()).all(|i| (rows.features.row_norm_squared(i) - 1.0).abs() < 1e-4));
    }
}
