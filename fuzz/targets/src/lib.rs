//! What is fuzzed: every reader of files and text from strangers, each as a function of bytes. Input may be refused; a panic, an
//! abort or a hang is a finding, and so is a table or an expression that changes when it is written and read again.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a failed assertion is a finding

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg::learn::{Bound, BoundedExpression, Data, Expression, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::oracle::Problem;
use thalweg::run::{self, Budget, Checkpoint, Options};
use thalweg::solvers::{Config, ssg};
use thalweg_lab::data::cache;
use thalweg_lab::data::libsvm;
use thalweg_lab::data::source::Source;
use thalweg_lab::data::table::Table;
use thalweg_lab::lab::experiment::Experiment;
use thalweg_lab::model::Model;
use thalweg_lab::spec::Spec;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A target: its name, its function, and inputs to begin with.
pub type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// All targets.
pub const TARGETS: [Target; 7] = [
    ("csv", csv, csv_seeds),
    ("libsvm", libsvm, libsvm_seeds),
    ("spec", spec, spec_seeds),
    ("model", model, model_seeds),
    ("checkpoint", checkpoint, checkpoint_seeds),
    ("thw", thw, thw_seeds),
    ("expression", expression, expression_seeds),
];

/// File of this process for what is only read from files.
fn file(name: &str) -> PathBuf {
    // In memory, where there is such a directory.
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    directory.join(format!("thalweg-fuzz-{}-{name}", std::process::id()))
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Reads a table, writes it as CSV and reads it again.
pub fn csv(bytes: &[u8]) {
    let read = |bytes: &[u8]| Source::new("fuzz.csv", bytes).and_then(Table::from_source);
    let Ok(table) = read(bytes) else { return };
    // Names or cells of blanks alone, and tables that look like another separator, are not read as they were written.
    if let Ok(again) = read(table.to_csv().as_bytes()) {
        assert_eq!(again.columns(), table.columns());
    }
    let _ = table.find("age");
}

fn csv_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "age,sex,y\n20,f,no\n30,m,yes\n",
        "a;b\n\"1;2\";\"x\"\"y\"\n\n3;4\n",
        "\u{feff}a\tb\r\n1\t2\r\n",
        "a|b\n \"q\" |2\n",
        "\x1f\u{8b}",
    ])
}

/// Reads LIBSVM rows, with and without a number of columns.
pub fn libsvm(bytes: &[u8]) {
    for columns in [None, Some(5)] {
        if let Ok(rows) = Source::new("fuzz.svm", bytes).and_then(|source| libsvm::parse(source, columns)) {
            assert_eq!(rows.labels.len(), rows.features.rows());
        }
    }
}

fn libsvm_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "+1 1:1 3:7.168048E-05 \r\n# a comment\n-1\t2:-2e1 # 9:9\n\n  -1  \n+1 4:0 5:0.0\n",
        "0 4294967295:1\n1 12345678:0.25\n",
        "# thalweg stand-in: URL\n1 1:1e400\n2 1:12345678901234567890\n",
    ])
}

/// Reads a spec and an experiment.
pub fn spec(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Spec::parse(text, Path::new("fuzz.toml"));
    for quick in [false, true] {
        let _ = Experiment::parse(text, Path::new("fuzz.toml"), quick);
    }
}

fn spec_seeds() -> Vec<Vec<u8>> {
    let one = "seed = 1\nthreads = 1\n[data]\nname = 'a9a'\nsplit = { shuffle = 3 }\ntest_fraction = 0.2\n[problem]\nminimize = 'hinge'\n\
               subject_to = ['demographic_parity <= 0.2', 'l2 <= 1.5 * best(hinge)']\ndomain = { ball = 5.0 }\nstart = 'zero'\n\
               [solver]\nname = 'ssg'\neta = { rule = 'inv-sqrt', c = 0.1 }\ntol = 1e-5\n[budget]\niterations = 5\n[record]\nevery = 1\n";
    let many = "experiment = 'e'\nseeds = 2\n[[data]]\nname = 'a9a'\n[[problem]]\nminimize = 'logistic'\n[[solver]]\nname = 'ipp'\n\
                rho_hat = [1.0, 2.0]\n[solver.inner]\nname = 'conex'\n[tune]\nby = 'objective'\n[budget]\npasses = 3\n[record]\n\
                per_decade = 2\n[quick]\nseeds = 1\n";
    texts(&[one, many])
}

/// Reads a model and scores a row with it.
pub fn model(bytes: &[u8]) {
    let Ok(model) = Model::parse(bytes, Path::new("model.json")) else { return };
    let features = model.input.features();
    if features < 1000 {
        let row = Matrix::dense(1, features, vec![1.0; features]).expect("finite entries");
        assert_eq!(model.scores(&row).len(), 1);
    }
    let _ = (model.answers(), model.measured.status(), model.measured.verdict());
}

fn model_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/table.json").to_vec(), include_bytes!("../seeds/libsvm.json").to_vec()]
}

/// Length of the header of a checkpoint.
const HEADER: usize = 36;

/// Continues a run from a checkpoint. The first byte decides whether the checksum is made to fit, as an attacker would.
pub fn checkpoint(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let mut bytes = rest.to_vec();
    if mode % 2 == 0 && bytes.len() > HEADER {
        let payload = &bytes[HEADER..];
        let sum = payload.iter().fold(0xCBF2_9CE4_8422_2325_u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        let length = (payload.len() as u64).to_le_bytes();
        bytes[20..28].copy_from_slice(&length);
        bytes[28..36].copy_from_slice(&sum.to_le_bytes());
    }
    let file = file("checkpoint");
    std::fs::write(&file, bytes).expect("a file for the checkpoint");
    continued(&file);
}

/// Runs a few iterations from the checkpoint in a file, and saves another one there.
fn continued(file: &Path) {
    let problem = Problem::new(2)
        .objective(|x| (x[0] - 2.0).abs() + x[1] * x[1], |x, s| (s[0], s[1]) = ((x[0] - 2.0).signum(), 2.0 * x[1]))
        .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0);
    let settings = ssg::Settings { eta: 0.1.into(), tol: 0.1.into(), ..ssg::Settings::default() };
    let mut solver = Config::Ssg(settings).build().expect("valid settings");
    let options = Options {
        budget: Budget { iterations: Some(6), ..Budget::default() },
        checkpoint: Some(Checkpoint { file: file.into(), every: Duration::ZERO, resume: true, settings: "s".into() }),
        ..Options::default()
    };
    let _ = run::minimize_with(&problem, &mut solver, &[0.0, 1.0], &options, &mut ());
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let file = file("seed");
    let _ = std::fs::remove_file(&file);
    continued(&file);
    let saved = std::fs::read(&file).expect("a checkpoint was saved");
    let _ = std::fs::remove_file(&file);
    vec![[&[0], saved.as_slice()].concat(), [&[1], saved.as_slice()].concat()]
}

/// Opens binary rows. The first byte decides whether the checksums are made to fit.
pub fn thw(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let mut bytes = rest.to_vec();
    if mode % 2 == 0 {
        seal(&mut bytes);
    }
    let file = file("rows.thw");
    // Files that are mapped must not be written in place. A removed file keeps its bytes for those who have mapped it.
    let _ = std::fs::remove_file(&file);
    std::fs::write(&file, bytes).expect("a file for the rows");
    if let Ok(rows) = cache::open(&file) {
        assert_eq!(rows.labels.len(), rows.features.rows());
        (0..rows.features.rows()).for_each(|i| rows.features.visit_row(i, |c, _| assert!(c < rows.features.cols())));
    }
    let _ = cache::stand_in(&file);
}

/// Makes the checksums of binary rows fit, where the sections are within the file.
fn seal(bytes: &mut [u8]) {
    const SECTIONS: usize = 112;
    const SUM: usize = 208;
    let number = |bytes: &[u8], at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    if bytes.len() < SUM + 8 {
        return;
    }
    for at in (SECTIONS..SUM).step_by(24) {
        let (offset, length) = (number(bytes, at) as usize, number(bytes, at + 8) as usize);
        if let Some(section) = offset.checked_add(length).and_then(|end| bytes.get(offset..end)) {
            let sum = xxh3_64(section);
            bytes[at + 16..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let words = (80..SECTIONS).step_by(8).fold(0_usize, |sum, at| sum.saturating_add(number(bytes, at) as usize));
    let mut state = Xxh3::new();
    state.update(&bytes[..SUM]);
    state.update(bytes.get(SUM + 8..(SUM + 8).saturating_add(words)).unwrap_or(&[]));
    bytes[SUM..SUM + 8].copy_from_slice(&state.digest().to_le_bytes());
}

fn thw_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for text in ["2 1:0.5 300:1\n1 7:-3\n2 5:1\n", "1 1:1 300:1\n0 2:1\n", "1 1:1\n0 2:1\n"] {
        let (from, to) = (file("seed.svm"), file("seed.thw"));
        std::fs::write(&from, text).expect("a file for the rows");
        cache::convert(&from, &to).expect("valid rows");
        let made = std::fs::read(&to).expect("binary rows");
        seeds.extend([0, 1].map(|mode| [&[mode], made.as_slice()].concat()));
        [from, to].iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
    seeds
}

/// Parses a term, a constraint and a bound, and builds a problem of few rows from them.
pub fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(parsed) = text.parse::<Expression>() {
        let again: Expression = parsed.to_string().parse().expect("a written expression can be read");
        assert_eq!(again, parsed);
        // Terms with millions of thresholds are valid, and slow.
        if text.len() < 60 && !text.contains("thresholds") {
            let _ = Learning::on(rows()).minimize(parsed).build();
        }
    }
    if let Ok(parsed) = text.parse::<BoundedExpression>() {
        let again: BoundedExpression = parsed.to_string().parse().expect("a written constraint can be read");
        assert_eq!(again, parsed);
    }
    let _ = text.parse::<Bound>();
}

thread_local! {
    static ROWS: RefCell<Option<Data>> = const { RefCell::new(None) };
}

fn rows() -> Data {
    let make = || Data {
        features: Matrix::dense(6, 2, vec![1.0, 0.0, 0.5, 1.0, -1.0, 2.0, 0.0, 1.0, 2.0, 2.0, -0.5, 0.25])
            .expect("finite entries"),
        labels: vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0],
        groups: Some(Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 0, 1, 1, 0, 1] }),
        weights: None,
    };
    ROWS.with_borrow_mut(|rows| rows.get_or_insert_with(make).clone())
}

fn expression_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "hinge",
        "logistic + 0.02 * scad",
        "2 * variance(logistic) - l2",
        "roc_gap(thresholds = 5, low = 'erm', high = 2e0)",
        "demographic_parity(temperature = 3, compare = 'to-overall') <= 1.001 * best(hinge + 0.1 * l1) + 1e-3",
        "logistic(on = 'positives') <= -0.5",
    ])
}
