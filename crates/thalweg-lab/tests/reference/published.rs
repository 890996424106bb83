//! The readers and the catalogue against published files, where those are at hand (THALWEG_DATA names their directory). A
//! test without its file says that it was skipped.

use std::path::Path;

use crate::common::{Place, published};
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
    notes: &[&str],
) -> Result<()> {
    let options = Options { data_dir: file.parent().map(Into::into), ..Options::default() };
    let found = catalogue::count(name, &options)?;
    assert_eq!((found.rows, found.columns), (rows, columns));
    assert_eq!(found.labels.iter().map(|l| (l.label.as_str(), l.rows)).collect::<Vec<_>>(), labels);
    assert_eq!(found.groups.iter().map(|g| (g.name.as_str(), g.rows, g.positive)).collect::<Vec<_>>(), groups);
    assert!(found.files.iter().all(|f| f.check == Check::Match), "{:?}", found.files);
    assert_eq!(found.notes.iter().map(ToString::to_string).collect::<Vec<_>>(), notes);
    let set = catalogue::get(name)?;
    assert_eq!((set.rows, set.columns), (rows, columns));
    Ok(())
}

/// A whole table of sets: one test each, named after the set.
macro_rules! sets {
    ($($test:ident: $name:literal from $file:literal has $rows:literal x $columns:literal, $labels:expr, $groups:expr $(, noting $note:expr)?;)*) => {
        $(#[test]
        fn $test() -> Result<()> {
            match published(stringify!($test), $file) {
                Some(file) => counts($name, &file, $rows, $columns, &$labels, &$groups, &[$($note)?]),
                None => Ok(()),
            }
        })*
    };
}

sets! {
    bank: "bank" from "bank-additional-full.csv.gz" has 41_188 x 21,
        [("no", 36_548), ("yes", 4_640)], [("age 25 to 60", 39_210, 3_970), ("other ages", 1_978, 670)];
    compas: "compas" from "compas-scores.csv.gz" has 11_757 x 40,
        [("-1", 719), ("0", 7_335), ("1", 3_703)], [("not Caucasian", 7_672, 2_614), ("Caucasian", 4_085, 1_089)], noting COMPAS_UNKNOWN;
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

const COMPAS_UNKNOWN: &str = "compas: 719 of 11757 rows have an unknown outcome (is_recid is '-1') and count as -1";

/// What specs get of a raw table: counts, and sums over the columns that another program computed from the same file. The
/// second sums take each row times its number, from 0, modulo 7, so that they change with the order of the rows.
struct Prepared<'a> {
    name: &'a str,
    rows: usize,
    positive: usize,
    groups: [(&'a str, usize, usize); 2],
    notes: &'a [&'a str],
    sums: &'a [f64],
    turned: &'a [f64],
}

fn gives(directory: &Path, wanted: &Prepared) {
    let name = wanted.name;
    let options = Options { data_dir: Some(directory.into()), ..Options::default() };
    let loaded = catalogue::load(name, &options).unwrap();
    assert_eq!(loaded.notes.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted.notes);
    let (data, columns) = (loaded.data, wanted.sums.len());
    assert_eq!((data.features.rows(), data.features.cols()), (wanted.rows, columns));
    assert_eq!(data.labels.iter().filter(|y| **y == 1.0).count(), wanted.positive);
    assert_eq!(data.labels.iter().filter(|y| **y == -1.0).count(), wanted.rows - wanted.positive);
    let groups = data.groups.unwrap();
    for (k, (group, rows, positive)) in wanted.groups.into_iter().enumerate() {
        let of_group: Vec<usize> = (0..wanted.rows).filter(|i| groups.of_row[*i] as usize == k).collect();
        let found = (groups.names[k].as_str(), of_group.len(), of_group.iter().filter(|i| data.labels[**i] == 1.0).count());
        assert_eq!(found, (group, rows, positive), "{name}");
    }
    let (mut sums, mut turned, mut largest) = (vec![0.0; columns], vec![0.0; columns], vec![0.0_f64; columns]);
    for i in 0..wanted.rows {
        data.features.visit_row(i, |c, v| {
            sums[c] += v;
            turned[c] += v * (i % 7) as f64;
            largest[c] = largest[c].max(v.abs());
        });
    }
    assert_eq!(largest, vec![1.0; columns], "{name}");
    for (found, wanted) in [(sums, wanted.sums), (turned, wanted.turned)] {
        assert_eq!(found.len(), wanted.len());
        for (c, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-5, "{name}, column {}: {found} instead of {wanted}", c + 1);
        }
    }

    let (place, directory) = (Place::new(), directory.to_str().unwrap());
    let ran = place.run(&["data", "info", name, "--data-dir", directory]).ended(0);
    let (_, specs) = ran.out.split_once("\nin specs ").unwrap();
    for part in [
        format!("{} rows, {columns} columns, sparse\n", wanted.rows),
        format!("+1: {} rows\n", wanted.positive),
        format!("{}: {} rows, {} positive (", wanted.groups[1].0, wanted.groups[1].1, wanted.groups[1].2),
        format!("column {columns}: 1 in every row\n"),
        "published numbers are not comparable\n".into(),
    ] {
        assert!(specs.contains(&part), "{part}\n{specs}");
    }
    place.put(
        "run.toml",
        format!(
            "[data]\nname = '{name}'\n[problem]\nminimize = 'hinge'\n\
             subject_to = ['roc_gap(thresholds = 20, low = -2, high = 2) <= 0.1']\n\
             [solver]\nname = 'ssg'\neta = 0.1\ntol = 0.01\n[budget]\niterations = 20\n[record]\nevery = 10\n"
        ),
    );
    let ran = place.run(&["solve", "run.toml", "--data-dir", directory]).ended(0);
    assert!(ran.out.contains("20 ssg iterations"), "{}", ran.out);
    assert!(wanted.notes.iter().all(|note| ran.out.contains(note)), "{}", ran.out);
}

#[test]
fn bank_is_ready_for_specs() {
    let Some(file) = published("bank_is_ready_for_specs", "bank-additional-full.csv.gz") else { return };
    #[rustfmt::skip]
    let wanted = Prepared {
        name: "bank",
        rows: 41_188,
        positive: 4_640,
        groups: [("age 25 to 60", 39_210, 3_970), ("other ages", 1_978, 670)],
        notes: &[],
        sums: &[
            16_821.540816, 2_163.123831, 1_888.464286, 39_682.121121, 1_017.714286, 991.970588, 40_670.217101,
            -32_838.998031, 29_564.663231, 40_706.925097, 9_254.0, 1_456.0, 1_060.0, 2_924.0, 1_720.0, 1_421.0, 3_969.0,
            875.0, 6_743.0, 1_014.0, 330.0, 24_928.0, 11_568.0, 80.0, 2_292.0, 6_045.0, 9_515.0, 18.0, 5_243.0, 12_168.0,
            1_731.0, 8_597.0, 3.0, 990.0, 21_576.0, 990.0, 6_248.0, 15_044.0, 2_632.0, 13_769.0, 5_318.0, 7_174.0,
            6_178.0, 570.0, 718.0, 4_101.0, 182.0, 8_090.0, 8_134.0, 8_623.0, 7_827.0, 35_563.0, 1_373.0, 41_188.0,
        ],
        turned: &[
            50_494.061224, 6_482.290972, 5_691.553571, 119_028.613614, 3_040.0, 2_971.911765, 122_010.678876,
            -98_519.545276, 88_690.725074, 122_120.554064, 27_879.0, 4_359.0, 3_114.0, 8_782.0, 5_158.0, 4_325.0,
            11_926.0, 2_642.0, 20_323.0, 3_029.0, 941.0, 74_650.0, 34_567.0, 256.0, 6_815.0, 17_995.0, 28_538.0, 55.0,
            16_062.0, 36_220.0, 5_161.0, 26_074.0, 8.0, 2_922.0, 65_067.0, 2_922.0, 18_739.0, 45_201.0, 7_892.0, 41_310.0,
            15_951.0, 21_522.0, 18_529.0, 1_709.0, 2_153.0, 12_308.0, 552.0, 24_257.0, 24_408.0, 25_882.0, 23_543.0,
            106_787.0, 4_128.0, 123_564.0,
        ],
    };
    gives(file.parent().unwrap(), &wanted);
}

#[test]
fn compas_is_ready_for_specs() {
    let Some(file) = published("compas_is_ready_for_specs", "compas-scores.csv.gz") else { return };
    #[rustfmt::skip]
    let wanted = Prepared {
        name: "compas",
        rows: 11_757,
        positive: 3_703,
        groups: [("not Caucasian", 7_672, 2_614), ("Caucasian", 4_085, 1_089)],
        notes: &[COMPAS_UNKNOWN],
        sums: &[
            9_336.0, 4_303.958333, 36.2, 68.769231, 64.705882, 842.72093, 58.0, 4_085.0, 1_100.0, 40.0, 661.0, 3_771.0,
            754.0, 11_757.0,
        ],
        turned: &[
            27_915.0, 12_897.406_25, 110.8, 216.384615, 188.411765, 2_511.581395, 150.0, 12_253.0, 3_217.0, 136.0, 1_980.0,
            11_319.0, 2_267.0, 35_265.0,
        ],
    };
    gives(file.parent().unwrap(), &wanted);
}

/// German credit is inside the command: an empty directory will do.
#[test]
fn german_is_ready_for_specs() {
    #[rustfmt::skip]
    let wanted = Prepared {
        name: "german",
        rows: 1_000,
        positive: 700,
        groups: [("female", 310, 201), ("male", 690, 499)],
        notes: &[],
        sums: &[
            644.25, 290.319444, 636.25, 282.8, 177.554168, 421.0, 676.8, 743.25, 670.5, 381.666667, 711.25, 589.5,
            473.946667, 891.666667, 643.0, 351.75, 726.0, 577.5, 702.0, 518.5, 1_000.0,
        ],
        turned: &[
            1_919.25, 861.902778, 1_900.5, 869.2, 517.978832, 1_259.6, 2_022.4, 2_200.5, 2_006.5, 1_155.333333, 2_145.75,
            1_761.5, 1_407.68, 2_684.333333, 1_917.0, 1_052.25, 2_151.5, 1_734.0, 2_089.5, 1_557.0, 2_997.0,
        ],
    };
    gives(tempfile::tempdir().unwrap().path(), &wanted);
}

/// The rows that specs get have the published counts, and `thalweg data` tells of them.
#[test]
fn compas_two_years_is_ready_for_specs() {
    let Some(file) = published("compas_two_years_is_ready_for_specs", "compas-scores-two-years.csv.gz") else { return };
    let directory = file.parent().unwrap();
    let loaded =
        catalogue::load("compas-two-years", &Options { data_dir: Some(directory.into()), ..Options::default() }).unwrap();
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
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
            assert!(built.labels[first..first + rows] == read.signs());
            // The same groups come out of the column of the published file.
            let grouped = catalogue::load_file(&path, Some(adult::COLUMNS), Some(72)).unwrap().data.groups.unwrap();
            assert!(grouped.of_row == built.groups.as_ref().unwrap().of_row[first..first + rows]);
        }
        first += rows;
    }
    assert_eq!(built.features.rows(), first);
}

/// A file of one class only is no training data, but its features can be read for predictions.
#[test]
fn svmguide3_test_part() {
    if let Some(path) = published("svmguide3_test_part", "svmguide3.t.gz") {
        let refused = catalogue::load_file(&path, Some(22), None).unwrap_err().to_string();
        assert!(refused.ends_with("line 1: all rows have the same label 1; expected two different labels"), "{refused}");
        let features = libsvm::read_features(&path, 22).unwrap();
        assert_eq!((features.rows(), features.cols()), (41, 22));
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
