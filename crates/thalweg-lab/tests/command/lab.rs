//! `thalweg lab` as a researcher meets it: grids, stores that survive kills, two processes, choices, certificates, failures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Place, published};
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::Value;
use thalweg_lab::lab::choose::Selection;
use thalweg_lab::lab::experiment::Experiment;
use thalweg_lab::lab::frame::{curves, lines};
use thalweg_lab::lab::schedule::{self, ProgressObserver, RunOptions};
use thalweg_lab::lab::store::{Part, Store};

/// A small file of rows in two groups (column 1), with labels that depend on group and columns.
fn rows() -> String {
    let mut text = String::new();
    let mut state = 12345_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442895040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for i in 0..400 {
        let (group, x, y) = (i % 3 == 0, next(), next());
        let label = if x + 0.5 * y + if group { 0.3 } else { 0.0 } + 0.6 * next() > 1.1 { 1 } else { -1 };
        text += &format!("{label} {}2:{x:.4} 3:{y:.4} 4:1\n", if group { "1:1 " } else { "" });
    }
    text
}

/// Twenty-four runs and four that are certified: a grid of six cells, two solvers, two seeds.
const SWEEP: &str = r#"
title = "A small sweep"
seeds = 2
certificate = { bounds = { width = 0.5, evaluations = 20 }, points = 4 }
[data]
file = "rows.svm"
group = 1
test_fraction = 0.2
[problem]
minimize = "roc_gap(thresholds = 20, low = -3, high = 3)"
subject_to = ["hinge <= 1.1 * best(hinge)"]
domain = { ball = 10.0 }
start = "erm"
[[solver]]
label = "switching"
name = "ssg"
eta = [0.01, 0.03, 0.1]
tol = [1e-5, 1e-3]
batch_f = 50
[[solver]]
label = "penalty"
name = "threes-econ"
alpha = [0.003, 0.01]
beta = [1, 5, 10]
s1 = 40
s2 = 40
q = 10
[budget]
iterations = 20000
[record]
every = 1000
[tune]
by = "objective"
feasible = 0.01
"#;

fn place(spec: &str) -> Place {
    let place = Place::new();
    place.put("rows.svm", rows());
    place.put("sweep.toml", spec);
    place
}

/// Everything in a store but times: each table as rows of cells in a fixed order.
fn contents(store: &Path) -> BTreeMap<String, Vec<Vec<Cell>>> {
    let queries = [
        ("experiments", "SELECT name, title, about, spec, facts FROM experiments ORDER BY name"),
        (
            "members",
            "SELECT experiment, position, run, data, problem, solver, cell, seed, tuned FROM members ORDER BY experiment, position",
        ),
        (
            "runs",
            "SELECT key, method, version, seed, status, ended, objective, violation, iterations, passes_f, passes_g, samples, point, \
             spec, outcome, notes, host, data_hash FROM runs ORDER BY key",
        ),
        (
            "traces",
            "SELECT run, part, role, position, name, numbers FROM traces WHERE name != 'seconds' ORDER BY run, part, position",
        ),
        ("certificates", "SELECT run, key, returned FROM certificates ORDER BY run"),
        ("reference_values", "SELECT key, best FROM reference_values ORDER BY key"),
        ("claims", "SELECT key, owner FROM claims ORDER BY key"),
    ];
    let connection = Connection::open(store).unwrap();
    let all = |query: &str| {
        let mut prepared = connection.prepare(query).unwrap();
        let columns = prepared.column_count();
        let rows = prepared.query_map([], |row| (0..columns).map(|j| row.get::<_, Cell>(j)).collect()).unwrap();
        rows.map(|row| row.unwrap()).collect::<Vec<Vec<Cell>>>()
    };
    queries.into_iter().map(|(name, query)| (name.into(), all(query))).collect()
}

/// When each run was finished.
fn finished(store: &Path) -> BTreeMap<String, String> {
    if !store.exists() {
        return BTreeMap::new();
    }
    let connection = Connection::open(store).unwrap();
    // A kill may come before the tables are made.
    let Ok(mut prepared) = connection.prepare("SELECT key, finished || ' ' || seconds FROM runs") else { return BTreeMap::new() };
    let rows = prepared.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    for (name, rows) in &a {
        assert_eq!(rows.len(), b[name].len(), "{name}");
        for (x, y) in rows.iter().zip(&b[name]) {
            assert_eq!(x, y, "{name}");
        }
    }
}

#[test]
fn a_sweep_that_is_killed_twenty_times_ends_as_one_that_is_not() {
    // Runs so long that twenty kills come before the end on a machine that is several times as fast.
    let place = place(&SWEEP.replace("iterations = 20000", "iterations = 60000").replace("every = 1000", "every = 3000"));
    let calm =
        place.run(&["lab", "run", "sweep.toml", "--store", "calm.sqlite", "--jobs", "2", "--quiet", "--json"]).ended(0).json();
    assert_eq!(calm["worked"], 28);
    assert_eq!(finished(&place.path("calm.sqlite")).len(), 24);

    let store = place.path("killed.sqlite");
    let arguments =
        ["lab", "run", "sweep.toml", "--store", "killed.sqlite", "--jobs", "2", "--checkpoint-every", "0.02", "--quiet"];
    let mut state = 99_u64;
    let (mut kills, mut known) = (0, BTreeMap::new());
    while kills < 20 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442895040888963407);
        let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Every other time early, while things begin; else some time after a run is finished.
        let begun = Instant::now();
        while kills % 2 == 1 && finished(&store).len() == known.len() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis((state >> 33) % 100));
        // One that has ended before it could be killed leaves nothing to test: then the sweep is too short for this machine.
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended before kill {kills}");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let now = finished(&store);
        for (key, when) in &known {
            assert_eq!(now.get(key), Some(when), "run {key} was lost or made again");
        }
        known = now;
    }
    assert!(!known.is_empty(), "no run was finished between two kills");
    place.run(&arguments).ended(0);
    let last = finished(&store);
    assert!(known.iter().all(|(key, when)| last.get(key) == Some(when)));
    assert_same(&store, &place.path("calm.sqlite"));
    assert!(!place.path("killed.sqlite.running").exists(), "{:?}", place.files());
    // Nothing is left to do.
    let again = place.run(&["lab", "run", "sweep.toml", "--store", "killed.sqlite", "--quiet", "--json"]).ended(0).json();
    assert_eq!((&again["worked"], &again["found"]), (&Value::from(0), &Value::from(28)));
}

#[test]
fn files_of_killed_processes_are_removed() {
    let place = place(&one("", "name = 'ssg'"));
    let arguments = ["lab", "run", "sweep.toml", "--quiet"];
    place.run(&arguments).ended(0);
    let key = finished(&place.path("thalweg.sqlite")).into_keys().next().unwrap();
    std::fs::create_dir(place.path("thalweg.sqlite.running")).unwrap();
    // Left by a kill between storing a result and removing its checkpoint, by one while a checkpoint is written, and by one between
    // creating and locking a lock.
    for name in [format!("{key}.save"), ".thalweg-0123456789abcdef.part".into(), "begun-1-2".into(), "owner-1-2".into()] {
        place.put(&format!("thalweg.sqlite.running/{name}"), "");
    }
    place.run(&arguments).ended(0);
    assert_eq!(place.files(), ["rows.svm", "sweep.toml", "thalweg.sqlite"]);
}

#[test]
fn two_processes_share_a_store() {
    let place = place(SWEEP);
    let arguments = ["lab", "run", "sweep.toml", "--store", "both.sqlite", "--quiet", "--json"];
    let start = || place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children = [start(), start(), start()];
    let ended = children.map(|child| crate::common::Ran::from(child.wait_with_output().unwrap()).ended(0).json());
    let worked: u64 = ended.iter().map(|one| one["worked"].as_u64().unwrap()).sum();
    assert_eq!(worked, 28);
    assert!(ended.iter().all(|one| one["worked"].as_u64().unwrap() + one["found"].as_u64().unwrap() == 28));
    place.run(&["lab", "run", "sweep.toml", "--store", "alone.sqlite", "--jobs", "3", "--quiet"]).ended(0);
    assert_same(&place.path("both.sqlite"), &place.path("alone.sqlite"));
}

#[test]
fn an_interrupted_sweep_goes_on() {
    let place = place(SWEEP);
    let arguments = ["lab", "run", "sweep.toml", "--quiet"];
    let child = place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while finished(&place.path("thalweg.sqlite")).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no run is finished");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ran = crate::common::Ran::from(child.wait_with_output().unwrap()).ended(130);
    assert!(ran.out.contains("interrupted; run the same command again to continue"), "{}", ran.out);
    let before = finished(&place.path("thalweg.sqlite"));
    assert!(!before.is_empty() && before.len() < 24, "{}", before.len());
    place.run(&arguments).ended(0);
    let after = finished(&place.path("thalweg.sqlite"));
    assert!(before.iter().all(|(key, when)| after.get(key) == Some(when)));
    place.run(&["lab", "run", "sweep.toml", "--store", "calm.sqlite", "--quiet"]).ended(0);
    assert_same(&place.path("thalweg.sqlite"), &place.path("calm.sqlite"));
}

/// Interrupts the experiment when its first job starts, before the pilot runs of that job.
struct InterruptsFirst(Arc<AtomicBool>);

impl ProgressObserver for InterruptsFirst {
    fn planned(&self, _: usize) {}
    fn started(&self, _: usize, _: &str) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn progressed(&self, _: usize, _: f64, _: Option<String>) {}
    fn finished(&self, _: Option<usize>, _: &str, _: &str) {}
    fn waiting(&self, _: usize, _: usize) {}
}

#[test]
fn an_interrupt_ends_pilot_runs_and_leaves_no_checkpoint_of_their_choice() {
    let place = place(&one("", "name = 'auto'").replace("minimize = 'hinge'", "minimize = 'hinge + 0.1 * variance(hinge)'"));
    let store = || Store::create(&place.path("thalweg.sqlite")).unwrap();
    let experiment = Experiment::read(&place.path("sweep.toml"), false).unwrap();
    let options = RunOptions {
        jobs: 1,
        only: None,
        fresh: false,
        checkpoint_every: Duration::from_secs(10),
        catalogue: Default::default(),
        interrupt: Arc::default(),
    };
    let done = schedule::run(&experiment, store(), &options, &InterruptsFirst(Arc::clone(&options.interrupt))).unwrap();
    assert_eq!((done.worked, done.found, done.interrupted), (0, 0, true));
    // The solver of pilot runs that were cut short is not run, so there is nothing to continue.
    assert!(place.files().iter().all(|name| !name.contains("running")), "{:?}", place.files());
    assert!(store().keys().unwrap().is_empty());
    options.interrupt.store(false, Ordering::Relaxed);
    let done = schedule::run(&experiment, store(), &options, &()).unwrap();
    assert_eq!((done.worked, done.found, done.interrupted), (1, 0, false));
}

/// A spec of one solver on the small rows; `more` stands before the first table.
fn one(more: &str, solver: &str) -> String {
    format!(
        "{more}\n[data]\nfile = 'rows.svm'\ngroup = 1\n[problem]\nminimize = 'hinge'\nsubject_to = ['demographic_parity <= 0.05']\n\
         [[solver]]\n{solver}\n[budget]\niterations = 200\n[record]\nevery = 20\n"
    )
}

#[test]
fn lists_expand_to_a_grid_in_order() {
    let solver =
        "name = 'ipp'\nlabel = 'P'\nrho_hat = [1, 2.5]\ninner = { name = 'ssg', eta = { rule = 'inv-sqrt', c = [1e-4, 0.5] } }";
    let place = place(&one("seeds = [3, 7]", solver));
    let ran = place.run(&["lab", "run", "sweep.toml", "--dry-run"]).ended(0);
    let names: Vec<&str> = ran.out.lines().collect();
    assert_eq!(names[0], "rows.svm / P [inner.eta.c = 1e-4, rho_hat = 1] / seed 3");
    assert_eq!(names[1], "rows.svm / P [inner.eta.c = 1e-4, rho_hat = 1] / seed 7");
    assert_eq!(names[2], "rows.svm / P [inner.eta.c = 1e-4, rho_hat = 2.5] / seed 3");
    assert_eq!(names[7], "rows.svm / P [inner.eta.c = 0.5, rho_hat = 2.5] / seed 7");
    assert_eq!(names[8], "8 runs");
    let ran = place.run(&["lab", "run", "sweep.toml", "--dry-run", "--only", "C = 0.5*SEED 3"]).ended(0);
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
    assert!(!place.path("thalweg.sqlite").exists());
    // A spec of `solve` is an experiment of one run.
    place.put("single.toml", "seed = 4\n".to_string() + &one("", "name = 'ssg'").replace("[[solver]]", "[solver]"));
    let ran = place.run(&["lab", "run", "single.toml", "--dry-run"]).ended(0);
    assert_eq!(ran.out, "rows.svm / ssg / seed 4\n1 runs\n");
}

#[test]
fn a_solver_may_have_settings_of_its_own_on_each_data_set() {
    let solver = "name = 'ssg'\non = ['rows.svm']\neta = 0.1\n[[solver]]\nname = 'ssg'\non = 'again'\neta = 0.2";
    let spec = one("", solver)
        .replace("[data]", "[[data]]")
        .replace("[problem]", "[[data]]\nlabel = 'again'\nfile = 'rows.svm'\ngroup = 1\n[problem]");
    let place = place(&spec);
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    let runs = ran["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|r| (r["data"].as_str().unwrap(), r["solver"].as_str().unwrap())).collect();
    assert_eq!(names, [("rows.svm", "ssg"), ("again", "ssg")]);
    assert_ne!(runs[0]["objective"], runs[1]["objective"]);
    // The quick form may leave one of them out, with its solver.
    place.put("sweep.toml", spec + "[quick]\ndata = ['again']\n");
    let ran = place.run(&["lab", "run", "sweep.toml", "--quick", "--dry-run"]).ended(0);
    assert_eq!(ran.out, "again / ssg / seed 0\n1 runs\n");
}

#[test]
fn only_what_is_new_runs() {
    let place = place(&one("", "name = 'ssg'\neta = [0.1, 0.2]"));
    let run = |more: &[&str]| {
        let ran = place.run(&[&["lab", "run", "sweep.toml", "--quiet", "--json"], more].concat()).ended(0).json();
        (ran["worked"].as_u64().unwrap(), ran["found"].as_u64().unwrap())
    };
    assert_eq!(run(&[]), (2, 0));
    assert_eq!(run(&[]), (0, 2));
    // Another label, another way to write a number, another place of the file: the same runs.
    std::fs::create_dir(place.path("moved")).unwrap();
    std::fs::rename(place.path("rows.svm"), place.path("moved/rows.svm")).unwrap();
    let moved = one("", "name = 'ssg'\nlabel = 'S'\neta = [0.1, 2e-1]").replace("'rows.svm'", "'moved/rows.svm'");
    place.put("sweep.toml", &moved);
    assert_eq!(run(&[]), (0, 2));
    place.put(
        "sweep.toml",
        moved.replace("[0.1, 2e-1]", "[0.1, 0.2, 0.4]").replace("[budget]", "[[solver]]\nname = 'conex'\n[budget]"),
    );
    assert_eq!(run(&[]), (2, 2));
    place.put("sweep.toml", moved.replace("iterations = 200", "iterations = 201"));
    assert_eq!(run(&[]), (2, 0));
    assert_eq!(run(&["--fresh"]), (2, 0));
    assert_eq!(run(&["--only", "eta = 0.1"]), (0, 1));
    // Other rows are other runs, whatever the file is called.
    place.put("moved/rows.svm", rows().replace("2:0.1", "2:0.9"));
    assert_eq!(run(&[]), (2, 0));
    let listed = place.run(&["lab", "list", "--json"]).ended(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 8, "{listed}");
}

/// The key of a problem has the seed where the rows depend on it, and only there.
#[test]
fn rows_that_are_drawn_by_the_seed_differ_between_seeds() {
    // The objective at the starting point depends on the rows alone.
    let objectives = |data: &str, seeds: &str| -> Vec<f64> {
        let spec = one(seeds, "name = 'ssg'\neta = 0.1")
            .replace("group = 1\n", &format!("group = 1\n{data}\n"))
            .replace("subject_to = ['demographic_parity <= 0.05']", "start = 'start.txt'");
        let place = place(&spec);
        place.put("start.txt", "1\n-2\n3\n0.5\n");
        place.run(&["lab", "run", "sweep.toml", "--quiet"]).ended(0);
        let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
        let first = |run: &str| {
            let recorded = store.curves(run, Part::Recorded).unwrap();
            recorded.iter().find(|c| c.name == "objective").unwrap().numbers[0]
        };
        let mut lines = lines(&store, Some("sweep")).unwrap();
        lines.sort_by_key(|line| line.member.seed);
        lines.iter().map(|line| first(&line.member.run)).collect()
    };
    for drawn in ["sample = 100", "validation_fraction = 0.25", "test_fraction = 0.25", "sample = 100\ntest_fraction = 0.0"] {
        let both = objectives(drawn, "seeds = [3, 7]");
        assert!(both.len() == 2 && both[0] != both[1], "{drawn}: {both:?}");
        // The same seed gives the same rows, whichever seeds run with it.
        assert_eq!(objectives(drawn, "seeds = [7]"), both[1..], "{drawn}");
    }
    for fixed in ["", "validation_fraction = 0.0", "test_fraction = 0.0"] {
        let both = objectives(fixed, "seeds = [3, 7]");
        assert!(both.len() == 2 && both[0] == both[1], "{fixed}: {both:?}");
    }
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let place = place(&one("", "name = 'ssg'"));
    place.run(&["lab", "run", "sweep.toml", "--quiet"]).ended(0);
    let whole = std::fs::read(place.path("thalweg.sqlite")).unwrap();
    place.put("cut.sqlite", &whole[..whole.len() / 2]);
    place.put("short.sqlite", &whole[..50]);
    place.put("text.sqlite", "data,problem\n1,2\n".repeat(100));
    place.put("empty.sqlite", "");
    std::fs::create_dir(place.path("dir.sqlite")).unwrap();
    let other = Connection::open(place.path("other.sqlite")).unwrap();
    other.execute_batch("CREATE TABLE runs (x)").unwrap();
    other.close().unwrap();
    let newer = Connection::open(place.path("newer.sqlite")).unwrap();
    newer.execute_batch("PRAGMA application_id = 0x54686C77; PRAGMA user_version = 99; CREATE TABLE runs (x)").unwrap();
    newer.close().unwrap();
    for (file, part) in [
        ("cut.sqlite", "is a damaged store"),
        ("short.sqlite", "is a damaged store"),
        ("text.sqlite", "not a store of Thalweg"),
        ("other.sqlite", "is a database, but not a store of Thalweg"),
        ("newer.sqlite", "is a store of format 99: this build reads format 1"),
        ("dir.sqlite", "is a directory"),
    ] {
        let before = std::fs::read(place.path(file)).ok();
        for command in [&["lab", "run", "sweep.toml", "--store", file, "--quiet"][..], &["lab", "list", "--store", file]] {
            place.run(command).refused(&[file, part]);
        }
        assert_eq!(std::fs::read(place.path(file)).ok(), before, "{file} was changed");
    }
    place.run(&["lab", "list", "--store", "empty.sqlite"]).refused(&["is empty"]);
    place.run(&["lab", "list", "--store", "none.sqlite"]).refused(&["there is no such file"]);
    place.run(&["lab", "run", "sweep.toml", "--store", "no/where.sqlite"]).refused(&["there is no directory no"]);
    // A kill can leave a file without anything in it.
    place.run(&["lab", "run", "sweep.toml", "--store", "empty.sqlite", "--quiet"]).ended(0);
}

#[test]
fn failures_are_rows_with_a_reason_and_do_not_stop_the_rest() {
    let spec = "[data]\nfile = 'rows.svm'\ngroup = 1\n[[problem]]\nlabel = 'fine'\nminimize = 'hinge'\n[[problem]]\nlabel = 'no way'\n\
                minimize = 'hinge'\nsubject_to = ['hinge <= 0.5 * best(hinge)']\n\
                [[solver]]\nlabel = 'sane'\nname = 'ssg'\n[[solver]]\nlabel = 'mad'\nname = 'ssg'\neta = 1e308\n\
                [budget]\niterations = 50\n";
    let place = place(spec);
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet"]).ended(1);
    assert!(ran.out.contains("rows.svm, fine / mad / seed 0: failed at iteration"), "{}", ran.out);
    assert!(ran.out.contains("rows.svm, no way / sane / seed 0: refused: "), "{}", ran.out);
    let listed = place.run(&["lab", "list", "--json"]).ended(0).json();
    let of = |name: &str, problem: &str| {
        listed.as_array().unwrap().iter().find(|r| r["solver"] == name && r["problem"] == problem).unwrap().clone()
    };
    assert_eq!((&of("sane", "fine")["status"], &of("mad", "fine")["status"]), (&Value::from("feasible"), &Value::from("failed")));
    assert_eq!(of("sane", "no way")["status"], "refused");
    let shown = place.run(&["lab", "show", of("mad", "fine")["run"].as_str().unwrap(), "--json"]).ended(0).json();
    // The last good point is there, and finite.
    assert!(shown["run"]["point"].as_array().unwrap().iter().all(Value::is_f64), "{shown}");
    assert!(shown["run"]["ended"].as_str().unwrap().contains("expected a finite number"), "{}", shown["run"]["ended"]);
    place.run(&["lab", "report"]).ended(0);
    assert!(place.read("report.html").contains("failed at iteration"));
    assert_eq!(place.run(&["lab", "rm", "--failed"]).ended(0).out, "3 runs removed\n");
    assert_eq!(place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).json()["worked"], 3);
}

#[test]
fn the_best_cell_is_kept_and_then_runs_with_every_seed() {
    let more = "seeds = 3\ntune = { by = 'objective', feasible = false, after = { iterations = 100 }, seeds = [1] }";
    let place = place(&one(more, "name = 'ssg'\neta = [1e-6, 0.5, 1e-5]\nbatch_f = 20"));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    assert_eq!(ran["worked"], 5);
    let kept: Vec<(&str, u64)> = ran["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["tuned"] == true)
        .map(|r| (r["cell"].as_str().unwrap(), r["seed"].as_u64().unwrap()))
        .collect();
    assert_eq!(kept, [("eta = 0.5", 1), ("eta = 0.5", 0), ("eta = 0.5", 2)]);
    // The rule is looked at where it says: at the first iterate all cells are equal, and the first is kept.
    place.put("sweep.toml", place.read("sweep.toml").replace("iterations = 100", "iterations = 0"));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    assert!(ran["runs"].as_array().unwrap().iter().all(|r| (r["tuned"] == true) == (r["cell"] == "eta = 1e-6")), "{ran}");
}

/// Which of two steps is better shows on rows that are neither trained on nor tested.
#[test]
fn the_cell_that_is_most_accurate_on_validation_rows_is_kept() {
    let spec = "seeds = 3\nmeasure = ['accuracy']\n[data]\ngenerator = 'gen'\nsample = 200\ntest_fraction = 0.3\n\
        validation_fraction = 0.2\n[problem]\nminimize = 'welsch'\nsubject_to = ['pairs <= 0']\n\
        [[solver]]\nname = 'dszog'\neta_w = [1e-6, 0.01, 1e-5]\n[budget]\niterations = 60\n[record]\nevery = 20\n\
        [tune]\nby = 'validation'\nfeasible = false\nseeds = [0]\n";
    let place = Place::new();
    place.put("sweep.toml", spec);
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    // Three cells with one seed, and the kept one with two more.
    assert_eq!(ran["worked"], 5);
    let kept: Vec<&Value> = ran["runs"].as_array().unwrap().iter().filter(|r| r["tuned"] == true).collect();
    assert!(kept.len() == 3 && kept.iter().all(|r| r["cell"] == "eta_w = 0.01"), "{ran}");
    let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
    let mut seen = BTreeMap::new();
    let all = lines(&store, None).unwrap();
    for (i, recorded) in curves(&store, &all, Part::Recorded).unwrap() {
        if all[i].member.seed == 0 {
            let gauge = recorded.iter().find(|c| c.name == "validation accuracy" && c.role == "gauge").unwrap();
            seen.insert(all[i].member.cell.clone(), *gauge.numbers.last().unwrap());
        }
    }
    let best = seen["eta_w = 0.01"];
    assert!(seen.len() == 3 && seen.values().all(|v| *v <= best) && best > 0.6, "{seen:?}");
    place.run(&["lab", "report"]).ended(0);
    assert!(place.read("report.html").contains("the largest accuracy on the validation rows"));
    place.put("sweep.toml", spec.replace("['accuracy']", "['hinge']"));
    place.run(&["lab", "run", "sweep.toml", "--quiet"]).refused(&[
        "tune.by must be",
        "got \"validation\"",
        "\"accuracy\" among it",
    ]);
}

#[test]
fn cells_are_compared_in_trials_and_the_kept_one_runs_with_the_whole_budget() {
    let more = "seeds = 2\ncertificate = { bounds = { evaluations = 5 } }\n\
                tune = { feasible = false, seeds = [1], budget = { iterations = 40 } }\nstop = { objective = 0.1 }\n\
                quick = { tune = { budget = { iterations = 7 } } }";
    let two = "name = 'ssg'\neta = [1e-6, 0.5, 1e-5]\noutput = 'last'\n[[solver]]\nname = 'conex'";
    let place = place(&one(more, two));
    let planned = place.run(&["lab", "run", "sweep.toml", "--dry-run"]).ended(0).out;
    assert!(planned.contains("rows.svm / ssg [eta = 0.5; trial] / seed 1\n"), "{planned}");
    assert!(planned.contains("rows.svm / ssg [the chosen cell] / seed 0\n"), "{planned}");
    assert!(planned.ends_with("rows.svm / conex / seed 1\n6 runs\n"), "{planned}");

    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    // Three trials, two whole runs of the kept cell, two of the solver that has nothing to compare.
    assert_eq!((&ran["worked"], &ran["found"]), (&Value::from(7), &Value::from(0)));
    let runs: Vec<(String, u64, u64, bool)> = (ran["runs"].as_array().unwrap().iter())
        .map(|r| {
            let name = format!("{} {}", r["solver"].as_str().unwrap(), r["cell"].as_str().unwrap());
            (name, r["seed"].as_u64().unwrap(), r["iterations"].as_u64().unwrap(), r["tuned"] == true)
        })
        .collect();
    let expected = [
        ("ssg eta = 1e-6; trial", 1, 40, false),
        ("ssg eta = 0.5; trial", 1, 40, false),
        ("ssg eta = 1e-5; trial", 1, 40, false),
        ("conex ", 1, 200, true),
        ("ssg eta = 0.5", 0, 200, true),
        ("ssg eta = 0.5", 1, 200, true),
        ("conex ", 0, 200, true),
    ];
    assert_eq!(runs, expected.map(|(name, seed, iterations, kept)| (name.to_string(), seed, iterations, kept)));
    // Targets and certificates are for the runs that count.
    for (run, listed) in ran["runs"].as_array().unwrap().iter().zip(&runs) {
        let shown = place.run(&["lab", "show", run["run"].as_str().unwrap(), "--json"]).ended(0).json();
        let certified = shown["recorded"].as_array().unwrap().iter().any(|c| c["name"] == "stationarity_upper");
        assert_eq!((certified, !shown["run"]["spec"]["stop"].is_null()), (listed.3, listed.3), "{listed:?}");
    }
    place.run(&["lab", "report"]).ended(0);
    let page = place.read("report.html");
    for part in ["in trial runs of 40 iterations", "\"budget\",\"iterations = 200\"", "\"cells of its grid\",\"3\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // All of it is found again, and a shorter trial in the quick form changes nothing but the trials.
    assert_eq!(place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json()["worked"], 0);
    let quick = place.run(&["lab", "run", "sweep.toml", "--quick", "--quiet", "--json"]).ended(0).json();
    assert_eq!((&quick["worked"], &quick["found"]), (&Value::from(3), &Value::from(4)));
    assert_eq!(quick["runs"][0]["iterations"], 7);
}

#[test]
fn certificates_are_made_of_kept_cells_alone_and_repeat_the_run() {
    let more = "certificate = { bounds = { evaluations = 30 }, points = 10 }\ntune = { feasible = false }";
    let place = place(&one(more, "name = 'ssg'\neta = [1e-6, 0.5]"));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    assert_eq!(ran["worked"], 3);
    for run in ran["runs"].as_array().unwrap() {
        let shown = place.run(&["lab", "show", run["run"].as_str().unwrap(), "--json"]).ended(0).json();
        let curves = shown["certificates"]["curves"].as_array();
        assert_eq!(curves.is_some(), run["tuned"] == true);
        let Some(curves) = curves else { continue };
        let column = |name: &str| -> Vec<f64> {
            let found = curves.iter().find(|c| c["name"] == name).unwrap();
            found["numbers"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        assert_eq!(column("iterations"), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0, 200.0]);
        let (lower, upper) = (column("stationarity_lower"), column("stationarity_upper"));
        assert!(lower.iter().zip(&upper).all(|(l, u)| l <= u && *u > 0.0), "{lower:?} {upper:?}");
        assert_eq!(shown["certificates"]["returned"]["repeats"], true);
        let recorded = shown["recorded"].as_array().unwrap().iter().find(|c| c["name"] == "objective").unwrap();
        let again = curves.iter().find(|c| c["name"] == "objective").unwrap();
        assert_eq!(recorded["numbers"], again["numbers"]);
    }
    // More points are a new job, and replace the old ones; the runs are not made again.
    place.put("sweep.toml", place.read("sweep.toml").replace("points = 10", "points = 4"));
    assert_eq!(place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json()["worked"], 1);
}

#[test]
fn passes_are_shown_as_published_beside_our_own() {
    let two = "name = 'ssg'\npublished = { f = 1, g = 182, per = 181 }\n[[solver]]\nname = 'conex'";
    let place = place(&one("", &two.replace("published", "#")));
    assert_eq!(place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json()["worked"], 2);
    let plain = place.run(&["lab", "export", "--csv"]).ended(0).out;
    assert!(!plain.contains("published"), "{plain}");
    place.put("sweep.toml", one("", two));
    // How someone else counts is no reason to run again.
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet"]).ended(0).out;
    assert!(ran.contains("2 runs, all found in the store"), "{ran}");
    let line = |name: &str| -> Vec<&str> { ran.lines().find(|l| l.contains(name)).unwrap().split_whitespace().collect() };
    assert_eq!(line("problem")[4..], ["feasible", "passes", "DP(f)", "DP(g)", "seconds"]);
    // 200 iterations: 200 / 181 and 200 * 182 / 181.
    assert_eq!(line("rows.svm  ssg")[6..8], ["1", "201"]);
    let exported = place.run(&["lab", "export", "--csv"]).ended(0).out;
    let mut reader = csv::Reader::from_reader(exported.as_bytes());
    let column = reader.headers().unwrap().iter().position(|h| h == "published_f").unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let number = |row: usize, column: usize| rows[row][column].parse::<f64>().ok();
    assert_eq!((number(0, column), number(0, column + 1)), (Some(1.0 / 181.0 * 200.0), Some(182.0 / 181.0 * 200.0)));
    assert_eq!((number(1, column), number(1, column + 1)), (None, None));
    place.run(&["lab", "report"]).ended(0);
    let page = place.read("report.html");
    assert!(page.contains("\"rows.svm / ssg / seed 0\",\"DP(f) 1.105, DP(g) 201.105; by our rule"), "{page}");
}

#[test]
fn data_have_certificates_and_budgets_of_their_own() {
    let more = "certificate = { bounds = { evaluations = 5 } }";
    let spec = one(more, "name = 'ssg'").replace("[data]\nfile = 'rows.svm'\ngroup = 1\n", "").replace(
        "[problem]",
        "[[data]]\nlabel = 'a'\nfile = 'rows.svm'\ngroup = 1\n\
         [[data]]\nlabel = 'b'\nfile = 'rows.svm'\ngroup = 1\nbudget = { iterations = 30 }\ncertificate = 'none'\n[problem]",
    );
    let place = place(&(spec + "[quick]\nbudget = { iterations = 10 }\n"));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json();
    let of = |run: &Value| {
        let shown = place.run(&["lab", "show", run["run"].as_str().unwrap(), "--json"]).ended(0).json();
        let certified = shown["recorded"].as_array().unwrap().iter().any(|c| c["name"] == "stationarity_upper");
        (run["iterations"].as_u64().unwrap(), certified)
    };
    assert_eq!((of(&ran["runs"][0]), of(&ran["runs"][1])), ((200, true), (30, false)));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quick", "--quiet", "--json"]).ended(0).json();
    assert_eq!((of(&ran["runs"][0]), of(&ran["runs"][1])), ((10, true), (10, false)));
    place.put("slip.toml", place.read("sweep.toml").replace("certificate = 'none'", "certificate = { bounds = { width = -1 } }"));
    place.run(&["lab", "run", "slip.toml"]).refused(&["data 'b'", "width"]);
}

#[test]
fn quick_shrinks_and_keeps_apart() {
    let quick = "[quick]\nvalues = 1\nseeds = [5]\nbudget = { iterations = 10 }\nrecord = { every = 5 }\n";
    let place = place(&(one("seeds = 2", "name = 'ssg'\neta = [0.1, 0.2]") + quick));
    let ran = place.run(&["lab", "run", "sweep.toml", "--quick", "--quiet", "--json"]).ended(0).json();
    assert_eq!((&ran["worked"], &ran["experiment"]), (&Value::from(1), &Value::from("sweep (quick)")));
    assert_eq!((&ran["runs"][0]["iterations"], &ran["runs"][0]["seed"]), (&Value::from(10), &Value::from(5)));
    assert_eq!(place.run(&["lab", "run", "sweep.toml", "--quiet", "--json"]).ended(0).json()["worked"], 4);
    // What is shortened is shortened for a solver with a table of its own too.
    place.put("own.toml", one("", "name = 'ssg'\nbudget = { iterations = 100 }\nrecord = { every = 50 }") + quick);
    let iterations = |form: &[&str]| {
        let ran = place.run(&[&["lab", "run", "own.toml", "--quiet", "--json"], form].concat()).ended(0).json();
        ran["runs"][0]["iterations"].clone()
    };
    assert_eq!((iterations(&[]), iterations(&["--quick"])), (Value::from(100), Value::from(10)));
    place.put("plain.toml", one("", "name = 'ssg'"));
    place.run(&["lab", "run", "plain.toml", "--quick"]).refused(&["--quick", "[quick]"]);
}

#[test]
fn runs_are_listed_shown_exported_and_removed() {
    let place = place(
        &one("measure = ['accuracy']", "name = 'ssg'\neta = [0.1, 0.2]")
            .replace("group = 1\n", "group = 1\ntest_fraction = 0.25\n"),
    );
    place.run(&["lab", "run", "sweep.toml", "--quiet"]).ended(0);
    let listed = place.run(&["lab", "list", "--only", "eta = 0.2"]).ended(0).out;
    assert_eq!(listed.lines().filter(|line| line.contains("seed 0")).count(), 1, "{listed}");
    let key = listed.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let shown = place.run(&["lab", "show", &key[..6]]).ended(0).out;
    for part in ["sweep: rows.svm / ssg [eta = 0.2] / seed 0", "feasible", "held-out accuracy", "demographic_parity"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    place.run(&["lab", "show", "zz"]).refused(&["run 'zz'", "lab list"]);
    let exported = place.run(&["lab", "export", "--csv"]).ended(0).out;
    let mut reader = csv::Reader::from_reader(exported.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    let points = place.run(&["lab", "export", "--csv", "--points", "--only", "eta = 0.2", "--out", "points.csv"]).ended(0).out;
    assert_eq!(points, "");
    let full = place.run(&["lab", "show", key, "--json"]).ended(0).json();
    let objective =
        full["recorded"].as_array().unwrap().iter().find(|c| c["name"] == "objective").unwrap()["numbers"][3].as_f64();
    let mut reader = csv::Reader::from_path(place.path("points.csv")).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let row = rows.iter().find(|r| &r[9] == "60" && &r[10] == "objective").unwrap();
    assert_eq!(row[11].parse::<f64>().ok(), objective);
    // The same for another program.
    let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
    let all = lines(&store, Some("sweep")).unwrap();
    assert_eq!(all.iter().map(|line| &line.settings["eta"]).collect::<Vec<_>>(), [0.1, 0.2]);
    let line = all.iter().position(|line| line.member.run.starts_with(key)).unwrap();
    assert_eq!((all[line].word(), all[line].objective), ("feasible", full["run"]["objective"].as_f64()));
    let recorded = curves(&store, &all, Part::Recorded).unwrap();
    assert_eq!(recorded.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 1]);
    let curve = recorded[line].1.iter().find(|c| c.name == "objective").unwrap();
    assert_eq!((curve.role.as_str(), Some(curve.numbers[3])), ("value", objective));
    assert!(lines(&store, Some("swep")).unwrap_err().to_string().contains("did you mean 'sweep'?"));
    drop(store);
    assert_eq!(place.run(&["lab", "rm", key]).ended(0).out, "1 runs removed\n");
    assert_eq!(lines(&Store::open(&place.path("thalweg.sqlite")).unwrap(), None).unwrap()[line].word(), "not run");
    place.run(&["lab", "rm"]).refused(&["nothing is named"]);
    assert_eq!(place.run(&["lab", "rm", "--experiment", "sweep"]).ended(0).out, "1 runs removed\n");
    assert_eq!(place.run(&["lab", "list"]).ended(0).out, "no runs\n");
    place.run(&["lab", "list", "--experiment", "sweep"]).refused(&["unknown experiment 'sweep'"]);
}

#[test]
fn a_slip_in_a_spec_is_a_sentence_and_makes_no_store() {
    let good = one("seeds = 2", "name = 'ssg'\neta = [0.1, 0.2]");
    let place = place(&good);
    for (from, to, parts) in [
        ("seeds = 2", "seds = 2", &["unknown key 'seds'", "did you mean 'seeds'"][..]),
        ("seeds = 2", "seeds = []", &["seeds", "at least one"]),
        ("seeds = 2", "seeds = [1, 1]", &["has 1 twice"]),
        ("seeds = 2", "seeds = 'many'", &["seeds must be", "got \"many\"", "a number of seeds or a list"]),
        ("seeds = 2", "seeds = 2\nseed = 1", &["one of them"]),
        ("seeds = 2", "threads = 0", &["threads must be", "got 0"]),
        ("seeds = 2", "tune = { by = 'luck' }", &["luck"]),
        (
            "seeds = 2",
            "tune = { by = 'validation' }",
            &["tune.by must be", "got \"validation\"", "'rows.svm' has no validation rows"],
        ),
        ("seeds = 2", "tune = { seeds = [9] }", &["tune.seeds has 9"]),
        ("seeds = 2", "tune = { budget = { itertions = 9 } }", &["tune.budget: ", "itertions", "did you mean 'iterations'"]),
        ("seeds = 2", "tune = { budget = {} }", &["tune.budget: ", "iterations"]),
        ("seeds = 2", "tune = { budget = 5000 }", &["budget", "5000", "[tune]"]),
        ("seeds = 2", "certificate = { points = 5 }", &["certificate.points = 5 needs bounds, switching or penalised beside it"]),
        ("[0.1, 0.2]", "[]", &["solver 'ssg'", "eta must be", "got []"]),
        ("[0.1, 0.2]", "[0.1, -1]", &["solver 'ssg' (eta = -1)", "eta"]),
        ("eta = [0.1, 0.2]", "etta = 1", &["etta", "did you mean 'eta'"]),
        ("name = 'ssg'", "name = 'sgs'", &["sgs", "did you mean"]),
        ("name = 'ssg'", "name = ['ssg', 'conex']", &["must be a name in quotes"]),
        ("[[solver]]", "[[solver]]\nname = 'ssg'\n[[solver]]", &["two of [[solver]] are called 'ssg'"]),
        ("[[solver]]", "[[solver]]\npublished = 2", &["solver 'ssg'", "published must be", "got 2", "{ f = 1, g = 2 }"]),
        ("[[solver]]", "[[solver]]\npublished = { f = 1 }", &["solver 'ssg'", "'g'"]),
        ("[[solver]]", "[[solver]]\npublished = { f = 1, g = 2, per = 0 }", &["solver 'ssg'", "published.per must be", "got 0"]),
        ("group = 1", "group = 1\ncertificate = { points = 5 }", &["certificate"]),
        ("[[solver]]", "[[solver]]\non = 'rows'", &["is for unknown data 'rows'; did you mean 'rows.svm'?"]),
        ("[[solver]]", "[[solver]]\nname = 'ssg'\non = 'rows.svm'\n[[solver]]", &["two of [[solver]] are called 'ssg'"]),
        ("'rows.svm'", "'absent.svm'", &["absent.svm", "no such file"]),
        ("every = 20", "evry = 20", &["evry"]),
        ("hinge'", "hige'", &["hige"]),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        place.put("bad.toml", bad);
        let ran = place.run(&["lab", "run", "bad.toml", "--quiet"]);
        ran.refused(parts);
    }
    place
        .run(&["lab", "run", "sweep.toml", "--only", "nothing"])
        .refused(&["no run has 'nothing' in its name", "rows.svm / ssg"]);
    place.run(&["lab", "run", "sweep.toml", "--jobs", "0"]).refused(&["--jobs 0"]);
    place.run(&["lab", "run", "none.toml"]).refused(&["none.toml", "no such file"]);
}

/// Every file of experiments/, as a lab reads it; those with [quick] in that form too.
#[test]
fn the_experiments_of_the_repository_are_accepted() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().path();
        let read = Experiment::read(&file, false).unwrap_or_else(|e| panic!("{e}"));
        assert!(!read.groups().is_empty());
        if std::fs::read_to_string(&file).unwrap().contains("[quick]") {
            Experiment::read(&file, true).unwrap_or_else(|e| panic!("{e}"));
        }
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

/// The quick form of an experiment of the repository.
fn quick(place: &Place, name: &str, more: &[&str]) -> Value {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name);
    let spec = spec.to_str().unwrap();
    place.run(&[&["lab", "run", spec, "--quick", "--jobs", "2", "--quiet", "--json"], more].concat()).ended(0).json()
}

fn objective(ran: &Value, solver: &str) -> f64 {
    let run = ran["runs"].as_array().unwrap().iter().find(|r| r["solver"] == solver);
    run.unwrap_or_else(|| panic!("{solver}: {ran}"))["objective"].as_f64().unwrap()
}

#[test]
fn the_experiment_on_a9a_runs_in_its_quick_form() {
    let place = Place::new();
    let ran = quick(&place, "roc-fairness-a9a.toml", &[]);
    let runs = ran["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &ran["worked"]), (6, &Value::from(12)));
    // The bundle is at the end of its way; the others have begun.
    assert!((objective(&ran, "bundle") - 0.209666).abs() < 1e-4, "{ran}");
    assert!(runs.iter().all(|r| r["objective"].as_f64().unwrap() < 0.236004));
    place.run(&["lab", "report"]).ended(0);
}

/// Eight bounds on the loss of the negatives: the bundle keeps each, and with it a bound on the counted false-positive rate.
#[test]
fn the_experiment_of_neyman_and_pearson_runs_in_its_quick_form() {
    let place = Place::new();
    let ran = quick(&place, "neyman-pearson.toml", &[]);
    let runs = ran["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &ran["worked"]), (48, &Value::from(96)));
    let mut losses = vec![];
    for run in runs.iter().filter(|r| r["solver"] == "bundle") {
        let problem = run["problem"].as_str().unwrap();
        let bound: f64 = problem.rsplit(' ').next().unwrap().parse().unwrap();
        let key = run["run"].as_str().unwrap();
        let shown = place.run(&["lab", "show", key, "--json"]).ended(0).json();
        let gauge = |name: &str| {
            let metrics = shown["run"]["outcome"]["metrics"].as_array().unwrap();
            metrics.iter().find(|g| g["name"] == name).unwrap_or_else(|| panic!("{name}: {shown}"))["value"].as_f64().unwrap()
        };
        assert_eq!(run["status"], "feasible", "{run}");
        // A negative row with a score above 0 costs more than log 2, or more than 1.
        let price = if problem.contains("logistic") { std::f64::consts::LN_2 } else { 1.0 };
        let rate = gauge("measured(false_positive_rate)");
        assert!(rate <= bound / price && rate > 0.0, "{problem}: {rate}");
        assert!(gauge("held-out measured(false_positive_rate)") < 1.5 * bound / price, "{problem}");
        losses.push(run["objective"].as_f64().unwrap());
    }
    // A looser bound costs the positives less, for either loss.
    assert_eq!(losses.len(), 8);
    assert!(losses.chunks(4).all(|l| l.windows(2).all(|w| w[1] < w[0])), "{losses:?}");
    assert!((losses[1] - 1.148652).abs() < 1e-3 && (losses[5] - 1.191308).abs() < 1e-3, "{losses:?}");
    place.run(&["lab", "report"]).ended(0);
    // A sentence for each of eight problems would be a wall of text.
    assert!(place.read("report.html").contains("Of 8 problems, the smallest feasible objective is that of bundle on 8."));
}

/// With the plan a variable, the bundle is far below the others after 25 iterations; eliminated, all of them move at once. German comes
/// with the command, COMPAS is used if it is there.
#[test]
fn the_experiments_of_wasserstein_fairness_run_in_their_quick_forms() {
    let place = Place::new();
    let file = published("the_experiments_of_wasserstein_fairness_run_in_their_quick_forms", "compas-scores.csv.gz");
    let directory = file.as_ref().and_then(|file| file.parent()).and_then(|directory| directory.to_str());
    let more = directory.map_or(["--only", "german"], |directory| ["--data-dir", directory]);
    let joint = quick(&place, "wasserstein.toml", &more);
    let eliminated = quick(&place, "wasserstein-eliminated.toml", &more);
    let sets = if directory.is_some() { 2 } else { 1 };
    assert_eq!((joint["runs"].as_array().unwrap().len(), eliminated["runs"].as_array().unwrap().len()), (12 * sets, 6 * sets));
    let german =
        |ran: &Value| ran["runs"].as_array().unwrap().iter().filter(|r| r["data"] == "german").cloned().collect::<Vec<_>>();
    // The uniform plan at the minimiser of the loss costs 1.2497, the best one 0.3308.
    for run in german(&joint) {
        let (cost, bundle) = (run["objective"].as_f64().unwrap(), run["solver"] == "bundle");
        assert!(if bundle { cost < 0.3308 } else { cost > 0.3308 && cost < 1.251 }, "{run}");
    }
    let of = |ran: &Value, solver: &str| {
        german(ran).iter().find(|r| r["solver"] == solver).unwrap_or_else(|| panic!("{solver}: {ran}"))["objective"]
            .as_f64()
            .unwrap()
    };
    assert!(of(&joint, "SSG diminishing") < 1.22);
    assert!(of(&eliminated, "auto") < 0.285 && of(&eliminated, "SSG static") < 0.29, "{eliminated}");
    place.run(&["lab", "report", "--experiment", "wasserstein (quick)"]).ended(0);
    assert!(place.read("report.html").contains("wasserstein_gap"));
}

/// The rest of what the published data are needed for.
#[test]
fn the_experiments_on_published_data_run_in_their_quick_forms() {
    let Some(file) = published("the_experiments_on_published_data_run_in_their_quick_forms", "compas-scores.csv.gz") else {
        return;
    };
    let place = Place::new();
    let directory = file.parent().unwrap().to_str().unwrap();
    for (name, runs) in [("wasserstein-compas.toml", 10), ("roc-fairness-bank-compas.toml", 6)] {
        let ran = quick(&place, name, &["--data-dir", directory]);
        let all = ran["runs"].as_array().unwrap();
        assert_eq!(all.len(), runs, "{name}: {ran}");
        assert!(all.iter().all(|r| r["objective"].is_number()), "{name}: {ran}");
    }
}

#[test]
fn the_experiments_with_penalties_run_in_their_quick_forms() {
    let test = "the_experiments_with_penalties_run_in_their_quick_forms";
    let Some(file) = published(test, "compas-scores-two-years.csv.gz") else { return };
    let place = Place::new();
    let directory = file.parent().unwrap().to_str().unwrap();
    let run = |name: &str| quick(&place, name, &["--data-dir", directory])["runs"].as_array().unwrap().clone();
    let of = |runs: &[Value], data: &str, problem: &str, solver: &str, what: &str| {
        let found = runs.iter().find(|r| r["data"] == data && r["problem"] == problem && r["solver"] == solver).unwrap();
        found[what].as_f64().unwrap()
    };
    let (roc, parity, defaults) = (run("penalty-roc.toml"), run("penalty-parity.toml"), run("penalty-defaults.toml"));
    assert_eq!((roc.len(), parity.len(), defaults.len()), (28, 14, 4));
    // The weight 10 of the penalty is too small for the bound on the exact loss and large enough for the loosened one.
    assert!(of(&roc, "a9a", "exact", "3S-Econ-D", "violation") > 1e-3);
    assert!(of(&roc, "a9a", "loosened", "3S-Econ-D", "violation") < 1e-3);
    assert!((of(&roc, "a9a", "exact", "bundle", "objective") - 0.2097).abs() < 1e-3);
    assert!((of(&roc, "a9a", "loosened", "bundle", "objective") - 0.0833).abs() < 1e-3);
    assert!((of(&parity, "a9a", "", "bundle", "objective") - 0.502).abs() < 1e-3);
    place.run(&["lab", "report", "--experiment", "penalty-roc (quick)"]).ended(0);
    assert!(place.read("report.html").contains("no constraint is exceeded by more than 0.001 (times"));
    assert!(place.read("report.html").contains("\"a9a, exact / 3S-Econ-D / seed 0\",\"DP(f) 300, DP(g) 600; by our rule"));
}

/// Bilevel problems: every form begins, on data that come with the command.
#[test]
fn the_experiments_on_bilevel_problems_run_in_their_quick_forms() {
    let place = Place::new();
    for (name, runs) in [("bilevel-toy.toml", 8), ("hyper-representation.toml", 4), ("group-weights.toml", 4)] {
        let ran = quick(&place, name, &[]);
        let list = ran["runs"].as_array().unwrap();
        assert_eq!(list.len(), runs, "{name}: {ran}");
        assert!(list.iter().all(|r| r["objective"].is_number()), "{name}: {ran}");
    }
    place.run(&["lab", "report", "--experiment", "bilevel-toy (quick)"]).ended(0);
    assert!(place.read("report.html").contains("pessimistic_value"));
}

/// Five zeroth-order methods under pairs and covariances: every form begins, and what it says is counted on all constraints.
#[test]
fn the_experiments_of_zeroth_order_run_in_their_quick_forms() {
    let place = Place::new();
    let directory = published("the_experiments_of_zeroth_order_run_in_their_quick_forms", "svmguide3.gz");
    let directory = directory.as_ref().and_then(|file| file.parent()).map(|dir| dir.to_str().unwrap().to_string());
    let all = directory.is_some();
    let more: Vec<&str> = directory.iter().flat_map(|dir| ["--data-dir", dir]).collect();
    // Those on made-up data always run, those on published data where these are.
    let specs = [("pairs.toml", "gen", 10, 40), ("pairs-steps.toml", "gen", 6, 24), ("pairs-a9a.toml", "a9a", 7, 7)];
    for (name, only, some, every) in specs {
        let (more, runs) = if all { (more.clone(), every) } else { (vec!["--only", only], some) };
        let ran = quick(&place, name, &more);
        let list = ran["runs"].as_array().unwrap().iter().filter(|r| r["status"] != "not run");
        let list: Vec<&Value> = list.collect();
        assert_eq!(list.len(), runs, "{name}: {ran}");
        assert!(list.iter().all(|r| r["objective"].is_number()), "{name}: {ran}");
    }
    for (name, runs) in [("covariance.toml", 40), ("covariance-steps.toml", 24), ("kernel.toml", 10), ("kernel-settings.toml", 9)]
    {
        let ran = quick(&place, name, &[]);
        let list = ran["runs"].as_array().unwrap();
        assert_eq!(list.len(), runs, "{name}: {ran}");
        assert!(list.iter().all(|r| r["objective"].as_f64().unwrap() < 1.5), "{name}: {ran}");
    }
    place.run(&["lab", "report", "--experiment", "covariance (quick)"]).ended(0);
}

/// Inf-projection against a yardstick and against min-max methods: every form begins. Stand-ins of the size of RCV1 and URL are left to
/// whoever runs the whole.
#[test]
fn the_experiments_of_inf_projection_run_in_their_quick_forms() {
    let place = Place::new();
    let ran = quick(&place, "variance-a9a.toml", &[]);
    assert_eq!(ran["runs"].as_array().unwrap().len(), 12, "{ran}");
    // The means of both methods are within 3% of the smallest value, 0.336136, after two passes.
    for solver in ["St-SPG, shuffled, short stages", "MSPG, shuffled, average"] {
        assert!((0.336..0.346).contains(&objective(&ran, solver)), "{solver}: {ran}");
    }
    let Some(file) = published("the_experiments_of_inf_projection_run_in_their_quick_forms", "rcv1-slice.svm.gz") else { return };
    for (name, runs) in [("minmax-logistic.toml", 16), ("minmax-truncated.toml", 12)] {
        let ran = quick(&place, name, &["--data-dir", file.parent().unwrap().to_str().unwrap()]);
        let list = ran["runs"].as_array().unwrap();
        assert_eq!(list.len(), runs, "{name}: {ran}");
        assert!(list.iter().all(|r| r["objective"].is_number()), "{name}: {ran}");
    }
    place.run(&["lab", "report", "--experiment", "minmax-logistic (quick)"]).ended(0);
    assert!(place.read("report.html").contains("held-out accuracy"));
}

/// The experiment whose store, written before results had a type of their own, is `tests/fixtures/old-store.sql`.
const OLD: &str = r#"name = "old"
seeds = [0]
certificate = { points = 2, bounds = { evaluations = 40 } }
measure = ["accuracy"]

[[data]]
file = "rows.svm"
split = "shared"
test_fraction = 0.25

[[problem]]
label = "bounded"
minimize = "logistic"
subject_to = ["l2 <= 0.25"]

[[problem]]
label = "free"
minimize = "logistic"

[[solver]]
name = "ssg"
label = "SSG"
eta = [0.25, 0.5]

[[solver]]
name = "dszog"
label = "values alone"

[[solver]]
name = "mspg"
label = "MSPG"
eta = 0.5

[budget]
iterations = 20

[record]
every = 5

[tune]
by = "objective"
"#;
const OLD_ROWS: &str = r#"+1 1:1 2:0.5
-1 1:-1 2:0.25
+1 1:0.5 2:-1
-1 2:1
+1 1:0.75 2:0.25
-1 1:-0.5 2:-0.5
+1 1:1.5
-1 1:-0.25 2:0.75
"#;

#[test]
fn a_store_of_an_older_build_is_read_and_its_runs_are_found_again() {
    let place = Place::new();
    place.put("rows.svm", OLD_ROWS);
    place.put("old.toml", OLD);
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/old-store.sql");
    let connection = Connection::open(place.path("thalweg.sqlite")).unwrap();
    connection.execute_batch(&std::fs::read_to_string(dump).unwrap()).unwrap();
    drop(connection);
    let selection = || {
        let experiments = Store::open(&place.path("thalweg.sqlite")).unwrap().experiments().unwrap();
        experiments[0].facts.tuned.clone().unwrap()
    };
    // How cells were selected was a sentence. It is a rule once the experiment was described again.
    let sentence = "For each solver and data set the cell with the smallest objective at the end was kept, among those that keep \
                    the constraints.";
    assert_eq!(selection(), Selection::Text(sentence.into()));
    // Keys have not changed: nothing is run again, except what methods with new versions do, four times the bundle method and twice dszog.
    let before = contents(&place.path("thalweg.sqlite"));
    let ran = place.run(&["lab", "run", "old.toml", "--quiet", "--json"]).json();
    assert_eq!((ran["worked"].as_u64(), ran["found"].as_u64()), (Some(6), Some(6)), "{ran}");
    let after = contents(&place.path("thalweg.sqlite"));
    assert!(before["runs"].iter().all(|run| after["runs"].contains(run)), "an old run has changed");
    assert!(matches!(selection(), Selection::Rule { .. }));
    let sentence = "For each solver and data set, the cell with the smallest objective at the end was chosen, among those that \
                    satisfy the constraints.";
    assert_eq!(selection().to_string(), sentence);

    let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
    let lines = lines(&store, Some("old")).unwrap();
    assert_eq!(lines.len(), 8);
    let find = |problem: &str, method: &str| {
        let line = lines.iter().find(|l| l.member.problem == problem && l.member.solver == method && l.member.tuned).unwrap();
        (line, store.run(&line.member.run).unwrap().unwrap())
    };
    let (line, run) = find("bounded", "values alone");
    let finished = run.outcome.unwrap();
    // Fields that were renamed: by_values, gauges, as-asked.
    assert!(finished.outcome.zeroth_order.is_some());
    assert_eq!(finished.outcome.metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["accuracy", "held-out accuracy"]);
    assert_eq!(finished.outcome.returned, thalweg::solvers::PointOrigin::OutputRule);
    assert_eq!((finished.bounds.as_slice(), finished.held_out.is_some()), (&[0.25][..], true));
    assert!(line.certificate_lower.is_some_and(|v| v > 0.0) && line.certificate_upper.is_some_and(f64::is_finite), "{line:?}");
    // Without constraints the violation was minus infinity, which JSON writes as null.
    let finished = find("free", "SSG").1.outcome.unwrap();
    assert!(finished.outcome.point.violation.is_nan() && finished.outcome.point.feasible);
    let (line, run) = find("free", "MSPG");
    assert!(run.outcome.is_none() && line.word() == "refused");

    assert!(place.run(&["lab", "report"]).ended(0).out.contains("report.html"));
    assert!(place.read("report.html").contains("values alone"));
    let shown = place.run(&["lab", "show", &find("bounded", "SSG").0.member.run]).ended(0).out;
    assert!(shown.contains("the proximal point of the returned point is between"), "{shown}");
}

/// The store `tests/fixtures/old-metrics.sql` was written when measured rates were called `counted`.
#[test]
fn metrics_of_an_older_store_have_their_present_names() {
    let place = Place::new();
    place.put("rows.svm", OLD_ROWS.replace("0.75 2:0.25", "0.75").replace(" 2:-0.5", ""));
    let spec = "name = 'metrics'\nmeasure = ['measured(false_positive_rate)', 'measured_roc_gap']\n[data]\nfile = 'rows.svm'\n\
                group = 2\nsplit = 'shared'\ntest_fraction = 0.5\n[problem]\nminimize = 'logistic'\n[solver]\nname = 'ssg'\n\
                eta = 0.5\n[budget]\niterations = 10\n[record]\nevery = 5\n";
    place.put("metrics.toml", spec);
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/old-metrics.sql");
    let connection = Connection::open(place.path("thalweg.sqlite")).unwrap();
    connection.execute_batch(&std::fs::read_to_string(dump).unwrap()).unwrap();
    drop(connection);
    assert_eq!(Store::open(&place.path("thalweg.sqlite")).unwrap().experiments().unwrap()[0].facts.tuned, None);
    let ran = place.run(&["lab", "run", "metrics.toml", "--quiet", "--json"]).json();
    assert_eq!((ran["worked"].as_u64(), ran["found"].as_u64()), (Some(0), Some(1)), "{ran}");

    let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
    let names = [
        "measured(false_positive_rate)",
        "measured_roc_gap",
        "held-out measured(false_positive_rate)",
        "held-out measured_roc_gap",
    ];
    let key = &store.keys().unwrap()[0];
    let curves = store.curves(key, Part::Recorded).unwrap();
    assert_eq!(curves.iter().filter(|c| c.role == "gauge").map(|c| c.name.as_str()).collect::<Vec<_>>(), names);
    let outcome = store.run(key).unwrap().unwrap().outcome.unwrap().outcome;
    assert_eq!(outcome.metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), names);
}

/// The rows of a bilevel problem are relaxed by its solver: a point that is feasible for the run is feasible for its certificate.
#[test]
fn relaxed_rows_are_relaxed_for_certificates_too() {
    let place = Place::new();
    place.put(
        "toy.toml",
        "certificate = { points = 1, bounds = { evaluations = 20, mu = 50.0 } }\n[data]\nlabel = 'toy'\n\
         bilevel = { name = 'toy', radius = 2.0 }\n[problem]\nstart = [0.3]\nbilevel = { xi = 0.1, multiplier_unit = 1.0 }\n\
         [solver]\nname = 'adaprox'\nsigma = 20\nouter = 6\nbeta = 0.1\ninner_iterations = 200\ninner = { name = 'sg' }\n\
         [budget]\niterations = 1200\n[record]\nat = [0, 1200]\n",
    );
    place.run(&["lab", "run", "toy.toml", "--quiet"]).ended(0);
    let store = Store::open(&place.path("thalweg.sqlite")).unwrap();
    let key = &store.keys().unwrap()[0];
    let (run, certificates) = (store.run(key).unwrap().unwrap(), store.certificates(key).unwrap().unwrap());
    let finished = run.outcome.unwrap();
    let tolerance = finished.outcome.point.constraints[0].tolerance;
    assert!(finished.outcome.point.feasible && run.violation.unwrap() > 1e-2 && tolerance > 0.1, "{:?}", finished.outcome.point);
    let certified = certificates.returned.bounds.unwrap().point;
    assert_eq!((certified.feasible, certified.constraints[0].tolerance), (true, tolerance));
    // Stored with the pessimistic and the optimistic value of its x.
    assert!(finished.bilevel.is_some());
}
