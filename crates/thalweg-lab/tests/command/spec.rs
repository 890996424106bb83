//! Specs as a library: tables that are at hand, checks without data, and the problem apart from what a run needs beside it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::Place;
use thalweg::run::{Limit, StopReason};
use thalweg_lab::data::catalogue::{Options, load_file};
use thalweg_lab::job::{Job, RunSetup, equip, execute, pose, pose_loaded};
use thalweg_lab::spec::Spec;

/// One column; the hinge loss falls to 0.625 at w = 1 and rises from there.
const ROWS: &str = "+1 1:1\n+1 1:1\n-1 1:1\n+1 1:0.5\n";

const TEXT: &str = "seed = 3\nfeasibility = 1e-4\nmeasure = ['accuracy', 'logistic']\n[data]\nfile = 'rows.svm'\nsplit = 'shared'\n\
    [problem]\nminimize = 'l2'\nsubject_to = ['hinge <= 2 * best(hinge)']\nstart = 'erm'\n\
    [solver]\nname = 'ssg'\neta = 0.1\n[budget]\niterations = 7\n[record]\nper_decade = 4\n[stop]\nobjective = 1e-9\n";

fn table(text: &str) -> toml::Table {
    text.parse().unwrap()
}

#[test]
fn a_table_is_read_and_refused_as_its_text_is() {
    let file = Path::new("run.toml");
    let words = |spec: &Spec| format!("{spec:?}");
    assert_eq!(words(&Spec::from_table(table(TEXT)).unwrap()), words(&Spec::parse(TEXT, file).unwrap()));
    for (from, to) in [
        ("seed = 3", "sed = 3"),
        ("seed = 3", "seed = -3"),
        ("eta = 0.1", "etta = 0.1"),
        ("eta = 0.1", "eta = -0.1"),
        ("name = 'ssg'", "name = 'sgs'"),
        ("minimize = 'l2'\n", ""),
        ("per_decade = 4", "per_decade = 'four'"),
        ("objective = 1e-9", "objectiv = 1e-9"),
    ] {
        let text = TEXT.replace(from, to);
        let parsed = Spec::parse(&text, file).unwrap_err().to_string();
        let taken = Spec::from_table(table(&text)).unwrap_err().to_string();
        // The text has a place, the table has none; quotes are as the writer makes them.
        let (_, what) = parsed.split_once(": ").unwrap();
        assert_eq!(taken.replace('"', "'"), what.replace('"', "'"), "{to}");
    }
}

#[test]
fn a_check_needs_no_data() {
    let checked = |from: &str, to: &str| {
        assert!(TEXT.contains(from), "{from}");
        Spec::from_table(table(&TEXT.replace(from, to))).unwrap().check().map_err(|e| e.to_string())
    };
    assert_eq!(checked("seed = 3", "seed = 4"), Ok(()));
    // Gaps are refused where the data can have no groups, and a named set may have them.
    assert_eq!(checked("file = 'rows.svm'", "name = 'a9a'"), Ok(()));
    let data = "file = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = 'l2'";
    assert_eq!(checked(data, "name = 'a9a'\n[problem]\nminimize = 'demographic_parity'"), Ok(()));
    for (from, to, want) in [
        ("iterations = 7", "", "budget must be at least one of iterations, passes, samples, seconds, got nothing"),
        ("per_decade = 4", "per_decade = 0", "record.per_decade must be at least 1, got 0"),
        ("objective = 1e-9", "objective = nan", "stop.objective must be a finite number, got NaN"),
        (
            "seed = 3",
            "certificate = 'all'",
            "certificate must be \"none\", \"bounds\", \"switching\", or a table with bounds = { … }, switching = { … } or penalised = \
             { … }, got \"all\"",
        ),
        ("seed = 3", "certificate = { bounds = { mu = 0.0 } }", "mu must be a finite number larger than 0, got 0"),
        ("seed = 3", "threads = 0", "threads must be at least 1, got 0"),
        ("minimize = 'l2'", "minimize = 'l3'", "unknown term 'l3'; did you mean "),
        ("'logistic'", "'logistik'", "unknown term 'logistik'; did you mean 'logistic'?"),
        ("minimize = 'l2'", "minimize = 'demographic_parity'", "the data have none"),
        ("split = 'shared'", "split = 'half'", "split must be \"ordered\", \"shared\" or { shuffle = SEED }, got \"half\""),
    ] {
        let got = checked(from, to).unwrap_err();
        assert!(got.contains(want), "{to}: {got}");
    }
}

#[test]
fn a_problem_apart_from_its_equipment_runs_as_both_together() {
    let place = Place::new();
    place.put("rows.svm", ROWS);
    let (file, data) = (place.path("run.toml"), Options::default());
    let spec = Spec::from_table(table(TEXT)).unwrap();
    let instance = pose(&spec, &file, &data).unwrap();
    assert_eq!(instance.fingerprint, load_file(&place.path("rows.svm"), None, None).unwrap().fingerprint);
    let mut setup = equip(&spec, &instance, &file, None).unwrap();
    let mut job = Job::new(&spec, &file, &data).unwrap();
    assert_eq!((&setup.settings, &setup.start), (&job.setup.settings, &job.setup.start));
    for part in ["per_decade: Some(4)", "objective: Some(1e-9)", "logistic"] {
        assert!(job.setup.settings.contains(part), "{part} is not in {}", job.setup.settings);
    }
    let options = &setup.options;
    assert_eq!((options.seed, options.feasibility, options.threads, options.stop), (3, 1e-4, 1, spec.stop));
    let run = |instance, setup: &mut RunSetup| {
        let outcome = execute(instance, setup, &mut ()).unwrap();
        (outcome.point, outcome.metrics, outcome.trace.len())
    };
    let apart = run(&instance, &mut setup);
    assert_eq!(apart, run(&job.instance, &mut job.setup));
    assert_eq!(apart.1.iter().map(|reading| reading.name.as_str()).collect::<Vec<_>>(), ["accuracy", "logistic"]);
}

#[test]
fn pilot_runs_end_with_an_interrupt_and_count_towards_the_time_limit() {
    let place = Place::new();
    place.put("rows.svm", ROWS);
    let (file, data) = (place.path("run.toml"), Options::default());
    // Without a weak-convexity constant the step size is chosen by pilot runs.
    let text = "[data]\nfile = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = 'logistic + 0.05 * variance(logistic)'\n\
                subject_to = ['l2 <= 4']\n[solver]\nname = 'auto'\n[budget]\niterations = 7\nseconds = 1e6\n";
    let spec = Spec::from_table(table(text)).unwrap();
    let instance = pose(&spec, &file, &data).unwrap();
    let interrupted = Some(Arc::new(AtomicBool::new(true)));
    let setup = equip(&spec, &instance, &file, interrupted).unwrap();
    assert_eq!(setup.pilots.iterations, 0);
    let mut setup = equip(&spec, &instance, &file, None).unwrap();
    assert!(setup.pilots.iterations > 0 && setup.options.budget.seconds == Some(1e6), "{:?}", setup.pilots);
    let mut run = |pilots: f64| {
        setup.pilots.seconds = pilots;
        let outcome = execute(&instance, &mut setup, &mut ()).unwrap();
        (outcome.iterations, outcome.ended)
    };
    assert_eq!(run(1e6), (0, StopReason::Budget(Limit::Seconds)));
    assert_eq!(run(0.0), (7, StopReason::Budget(Limit::Iterations)));
}

#[test]
fn reference_values_that_are_known_are_not_computed_again() {
    let place = Place::new();
    place.put("rows.svm", ROWS);
    let (file, data) = (place.path("run.toml"), Options::default());
    let spec = Spec::from_table(table(TEXT)).unwrap();
    let mut known = pose(&spec, &file, &data).unwrap().problem.references().to_vec();
    let again = pose_loaded(&spec, &file, &data, None, &known).unwrap().problem;
    assert!((again.bound(0) - 1.25).abs() < 1e-6, "{}", again.bound(0));
    // Had it been computed again, it would not be what was given.
    known[0].value = 0.75;
    known[0].evaluations = 12345;
    let posed = pose_loaded(&spec, &file, &data, None, &known).unwrap();
    assert_eq!((posed.problem.bound(0), posed.problem.references()), (1.5, known.as_slice()));
    assert!(posed.notes.iter().any(|note| note.to_string().contains("12345 evaluations")), "{:?}", posed.notes);
}

#[test]
fn a_loss_with_its_variance_has_a_ball_and_solvers_of_its_own() {
    let place = Place::new();
    place.put("rows.svm", ROWS);
    let file = place.path("run.toml");
    let spec = |minimize: &str, domain: &str, solver: &str| {
        let text = format!(
            "[data]\nfile = 'rows.svm'\nsplit = 'shared'\n[problem]\nminimize = \"{minimize}\"\n{domain}\n[solver]\n{solver}\n\
             [budget]\niterations = 300\n"
        );
        Spec::from_table(table(&text)).unwrap()
    };
    const SPREAD: &str = "logistic + 0.05 * variance(logistic)";
    let domain = |minimize: &str, domain: &str| {
        let posed = pose(&spec(minimize, domain, "name = 'auto'"), &file, &Options::default()).unwrap();
        posed.problem.oracle().domain().describe()
    };
    let whole = domain("logistic", "");
    assert_eq!(domain(SPREAD, ""), "ball of radius 10");
    assert_eq!(domain(SPREAD, "domain = 'all'"), whole);
    assert_eq!(domain(SPREAD, "domain = { ball = 3 }"), "ball of radius 3");
    let end = |minimize: &str, solver: &str| {
        let spec = spec(minimize, "", solver);
        let mut job = Job::new(&spec, &file, &Options::default()).unwrap();
        let outcome = execute(&job.instance, &mut job.setup, &mut ());
        outcome.map(|outcome| outcome.point.objective).map_err(|e| e.to_string())
    };
    let least = end(SPREAD, "name = 'ssg'\neta = 0.5").unwrap();
    for solver in ["name = 'mspg'\neta = 0.5\ngrowth = 4", "name = 'st-spg'\ngamma = 1\nmu = 1\nbatch = 4"] {
        let found = end(SPREAD, solver).unwrap();
        assert!(found < least + 0.02, "{solver}: {found} {least}");
        for other in ["logistic + 0.1 * variance(logistic, form = 'sqrt')", "self_paced(logistic)"] {
            assert!(end(other, solver).unwrap().is_finite());
        }
        assert!(end("logistic", solver).unwrap_err().contains("needs a problem of the form"));
    }
    assert!(end("logistic", "name = 'spg'").unwrap() < std::f64::consts::LN_2);
    let unknown = Spec::from_table(table(
        "[data]\nfile = 'rows.svm'\n[problem]\nminimize = 'l2'\n[solver]\nname = 'stspg'\n[budget]\niterations = 1\n",
    ));
    let message = unknown.unwrap_err().to_string();
    assert_eq!(message, "unknown solver 'stspg'; did you mean 'st-spg'?");
}
