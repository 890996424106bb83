//! Bad input through the command: exit code 2, one sentence on standard error that names the thing, its value and what was
//! wanted, nothing on standard output, and no file left behind.

use crate::common::Place;

/// Ten rows, both labels, column 3 as a group.
const ROWS: &str =
    "+1 1:1 3:1\n-1 2:0.5\n+1 1:0.2 2:1\n-1 3:1\n+1 2:2 3:1\n-1 1:1\n+1 1:3\n-1 2:1 3:1\n+1 1:1 2:1\n-1 1:-1 3:1\n";

/// A spec that runs; every test breaks one thing in it.
const GOOD: &str = r#"seed = 1
threads = 1

[data]
file = "rows.svm"
split = "shared"
group = 3

[problem]
minimize = "hinge"
subject_to = ["demographic_parity <= 0.2"]
domain = { ball = 5.0 }
start = "zero"

[solver]
name = "ssg"
eta = 0.05
tol = 1e-5

[budget]
iterations = 5

[record]
every = 1
"#;

/// A place with the good spec, one part of it replaced.
fn place(from: &str, to: &str) -> Place {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    let place = Place::new();
    place.put("rows.svm", ROWS);
    place.put("run.toml", GOOD.replace(from, to));
    place
}

#[test]
fn the_spec_that_the_others_break_is_good() {
    let place = place("seed = 1", "seed = 1");
    place.run(&["solve", "run.toml"]).ended(0);
    assert_eq!(place.files(), ["rows.svm", "run.toml"]);
}

#[test]
fn a_broken_inner_solver_is_refused_with_a_sentence() {
    let ipp = |lines: &str| place("name = \"ssg\"\neta = 0.05\ntol = 1e-5", &format!("name = \"ipp\"\n{lines}"));
    ipp("[solver.inner]\nname = \"conex\"").run(&["solve", "run.toml"]).ended(0);
    let cases: &[(&str, &str)] = &[
        ("", "run.toml, line 15: the table [solver.inner] is missing; expected one with the name of a solver"),
        ("inner = 3", "run.toml, line 17: inner must be a table with the name of a solver and its settings, got 3"),
        ("rho_hatt = 3\n[solver.inner]\nname = \"ssg\"", "run.toml, line 17: unknown key 'rho_hatt'; did you mean 'rho_hat'?"),
        (
            "rho_hat = -1\n[solver.inner]\nname = \"ssg\"",
            "run.toml, line 17: rho_hat must be a finite number larger than 0, got -1",
        ),
        (
            "inner_output = \"best\"\n[solver.inner]\nname = \"ssg\"",
            "run.toml, line 17: inner_output must be one of average, last, got \"best\"; did you mean 'last'?",
        ),
        (
            "[solver.inner]\nname = \"conx\"",
            "run.toml, line 18: unknown inner solver 'conx'; did you mean 'conex'? (in [solver.inner])",
        ),
        (
            "[solver.inner]\ntau = 1",
            "run.toml, line 17: the inner solver has no name; expected name = one of ssg, conex, bundle (in \
             [solver.inner])",
        ),
        (
            "[solver.inner]\nname = \"conex\"\ntol = 1",
            "run.toml, line 19: unknown key 'tol'; expected one of eta, tau, theta, output, batch_f (in \
                 [solver.inner])",
        ),
        (
            "[solver.inner]\nname = \"ssg\"\neta = \"big\"",
            "run.toml, line 19: eta must be a number or a table such as { rule = \"inv-sqrt\", c = 0.1 }, got \
             \"big\" (in [solver.inner])",
        ),
        (
            "[solver.inner]\nname = \"conex\"\ntau = -1",
            "run.toml, line 19: tau must be a finite number larger than 0, got -1 (in [solver.inner])",
        ),
        (
            "[solver.inner]\nname = \"conex\"\ntheta = \"fast\"",
            "run.toml, line 19: theta must be a number or \"growing\", got \"fast\" (in [solver.inner])",
        ),
        (
            "output = \"last\"\n[solver.inner]\nname = \"ssg\"\noutput = \"last\"",
            "run.toml, line 20: output is called inner_output and belongs to [solver], got \"last\" (in [solver.inner])",
        ),
    ];
    for (lines, sentence) in cases {
        ipp(lines).run(&["solve", "run.toml"]).refused_with(sentence);
    }
}

#[test]
fn a_broken_spec_is_refused_with_a_sentence() {
    let cases: &[(&str, &str, &str)] = &[
        // Unknown words, with the line and the nearest known one.
        (r#"name = "ssg""#, r#"name = "sgs""#, "run.toml, line 16: unknown solver 'sgs'; did you mean 'ssg'?"),
        (r#"name = "ssg""#, "name = 3", "run.toml, line 16: solver name must be a name in quotes, got 3"),
        (r#"name = "ssg""#, "", "run.toml, line 15: the solver has no name; expected name = one of …"),
        ("seed = 1", "sed = 1", "run.toml, line 1: unknown key 'sed'; did you mean 'seed'?"),
        ("group = 3", "gruop = 3", "run.toml, line 7: unknown key 'gruop'; did you mean 'group'?"),
        ("minimize =", "minimise =", "run.toml, line 10: unknown key 'minimise'; did you mean 'minimize'?"),
        ("eta = 0.05", "etta = 0.05", "run.toml, line 17: unknown key 'etta'; did you mean 'eta'?"),
        ("iterations = 5", "iteration = 5", "run.toml, line 21: unknown key 'iteration'; did you mean 'iterations'?"),
        ("every = 1", "evry = 1", "run.toml, line 24: unknown key 'evry'; did you mean 'every'?"),
        ("[record]", "[recrod]", "run.toml, line 23: unknown key 'recrod'; did you mean 'record'?"),
        ("seed = 1", "certificate = { ssg = { iteratons = 5 } }", "unknown key 'iteratons'; did you mean 'iterations'?"),
        ("minimize = \"hinge\"", "minimize = \"hing\"", "unknown term 'hing'; did you mean 'hinge'?"),
        (
            "demographic_parity <=",
            "demographic_parity(temprature = 2) <=",
            "unknown argument 'temprature' of demographic_parity; did you mean 'temperature'?",
        ),
        ("minimize = \"hinge\"", "minimize = \"l2(on = 3)\"", "l2 takes no argument, got 'on'"),
        ("minimize = \"hinge\"", "minimize = \"hinge(on = 3)\"", "on of hinge must be \"positives\" or \"negatives\", got 3"),
        ("minimize = \"hinge\"", "minimize = \"hinge +\"", "'hinge +' cannot be read; expected a term in place of the end"),
        (
            "minimize = \"hinge\"",
            "minimize = \"\"\"hinge\n+\"\"\"",
            "'hinge +' cannot be read; expected a term in place of the end",
        ),
        (
            "minimize = \"hinge\"",
            "minimize = \"\"",
            "run.toml, line 9: the problem has no minimize; expected a term, for example minimize = \"hinge\"",
        ),
        ("minimize = \"hinge\"", "minimize = \"roc_gap\"", "low of roc_gap must be a number or \"erm\", got nothing"),
        (
            "minimize = \"hinge\"",
            "minimize = \"roc_gap(low = 'arm', high = 'erm')\"",
            "\"erm\" means the minimiser of the problem's loss, but it has none; expected hinge or logistic \
                 over all rows in a constraint or in the objective, or a bound such as hinge <= 1.001 * \
                 best(hinge)",
        ),
        (
            "minimize = \"hinge\"",
            "minimize = \"hinge + roc_gap(low = 'arm', high = 'erm')\"",
            "low of roc_gap must be a number or \"erm\", got \"arm\"",
        ),
        (
            "minimize = \"hinge\"",
            "minimize = \"best(hinge)\"",
            "'best(hinge)' cannot be read; expected a term in place of best(…), which belongs in a bound such as \
             hinge <= 1.001 * best(hinge)",
        ),
        (
            "minimize = \"hinge\"",
            "minimize = \"roc_gap(thresholds = 0, low = 0, high = 1)\"",
            "thresholds of roc_gap must be a whole number from 1 to 10,000,000, got 0",
        ),
        // Bounds.
        (
            "parity <= 0.2",
            "parity <= o.2",
            "bound must be a finite number, or one with best(TERM) such as 1.001 * best(hinge), got 'o.2' in \
             'demographic_parity <= o.2'",
        ),
        (
            "parity <= 0.2",
            "parity <= nan",
            "bound must be a finite number, or one with best(TERM) such as 1.001 * best(hinge), got 'nan' in \
             'demographic_parity <= nan'",
        ),
        (
            "parity <= 0.2",
            "parity >= 0.2",
            "constraint must be TERM <= NUMBER, got 'demographic_parity >= 0.2': only <= is understood",
        ),
        ("parity <= 0.2", "parity", "constraint must be TERM <= NUMBER, got 'demographic_parity'"),
        ("parity <= 0.2", "parity <= -0.1", "'demographic_parity <= -0.1' can never hold: demographic_parity is never below 0"),
        (
            "parity <= 0.2",
            "parity <= bset(hinge)",
            "bound must be a finite number, or one with best(TERM) such as 1.001 * best(hinge), got \
             'bset(hinge)' in 'demographic_parity <= bset(hinge)'",
        ),
        ("parity <= 0.2", "parity <= best(hing)", "unknown term 'hing'; did you mean 'hinge'?"),
        ("parity <= 0.2", "parity <= best(hinge", "'best(hinge' cannot be read; expected '+' or ')' in place of the end"),
        (
            "parity <= 0.2",
            "parity <= -2 * best(hinge)",
            "'-2 * best(hinge)' cannot be read; expected a positive factor in place of -2",
        ),
        ("parity <= 0.2", "parity <= best(hinge) + best(l2)", "'best(hinge) + best(l2)' cannot be read; expected best(…) once"),
        (
            "parity <= 0.2",
            "parity <= best(equal_opportunity)",
            "best(equal_opportunity) cannot be computed, because equal_opportunity is not convex; expected a \
                 sum of hinge, logistic, l2, ridge and l1",
        ),
        (
            "demographic_parity <= 0.2",
            "hinge <= 0.5 * best(hinge)",
            "'hinge <= 0.5 * best(hinge)', with a bound of 0.275…, can never hold: hinge is never below 0.5…",
        ),
        // Settings.
        ("eta = 0.05", "eta = -0.05", "run.toml, line 17: eta must be a finite number larger than 0, got -0.05"),
        ("eta = 0.05", "eta = nan", "run.toml, line 17: eta must be a finite number larger than 0, got NaN"),
        (
            "eta = 0.05",
            "eta = \"fast\"",
            "run.toml, line 17: eta must be a number or a table such as { rule = \"inv-sqrt\", c = 0.1 }, got \
             \"fast\"",
        ),
        (
            "eta = 0.05",
            "eta = { rule = \"sqrt\", c = 1 }",
            "run.toml, line 17: eta: rule must be \"constant\", \"inv-sqrt\", \"inv-linear\", \
             \"strongly-convex\", \"power\", \"decay\" or \"theory\", got \"sqrt\"",
        ),
        (
            "eta = 0.05",
            "eta = { rule = \"theory\" }",
            "run.toml, line 17: eta must be a number or another rule, got theory: no theorem prescribes this \
             setting here, or its constants are not given",
        ),
        ("tol = 1e-5", "tol = -1", "run.toml, line 18: tol must be a finite number, 0 or larger, got -1"),
        (
            "tol = 1e-5",
            "output = \"avrage\"",
            "run.toml, line 18: output must be one of random, average, last, best-feasible, got \"avrage\"; did you mean 'average'?",
        ),
        ("tol = 1e-5", "batch_f = 0", "run.toml, line 18: batch_f must be at least 1 sample, got 0"),
        ("tol = 1e-5", "batch_f = 2.5", "run.toml, line 18: batch_f must be a whole number of at least 0, got 2.5"),
        ("tol = 1e-5", "burn_in = -1", "run.toml, line 18: burn_in must be a whole number of at least 0, got -1"),
        ("threads = 1", "threads = 0", "threads must be at least 1, got 0"),
        ("threads = 1", "threads = \"two\"", "run.toml, line 2: threads must be a whole number of at least 0, got \"two\""),
        ("seed = 1", "seed = -1", "run.toml, line 1: seed must be a whole number of at least 0, got -1"),
        ("seed = 1", "feasibility = -1.0", "feasibility must be a finite number of at least 0, got -1"),
        (
            "seed = 1",
            "certificate = \"bundle\"",
            "certificate must be \"none\", \"bounds\", \"switching\", or a table with bounds = { … }, \
                 switching = { … } or penalised = { … }, got \"bundle\"",
        ),
        (
            "seed = 1",
            "certificate = { bounds = 3 }",
            "certificate must be \"none\", \"bounds\", \"switching\", or a table with bounds = { … }, \
                 switching = { … } or penalised = { … }, got { bounds = 3 }",
        ),
        ("seed = 1", "certificate = { bounds = { mu = 0.0 } }", "mu must be a finite number larger than 0, got 0"),
        ("seed = 1", "certificate = { bounds = { width = -1.0 } }", "width must be a finite number, 0 or larger, got -1"),
        (
            "seed = 1",
            "certificate = { bounds = { evaluations = 1.5 } }",
            "evaluations must be a whole number of at least 0, got 1.5",
        ),
        ("seed = 1", "certificate = { bounds = { evaluation = 5 } }", "unknown key 'evaluation'; did you mean 'evaluations'?"),
        (
            "seed = 1",
            "certificate = { ssg = { rho_hat = -3.0 } }",
            "rho_hat must be more than 0, the constant of the objective, got -3",
        ),
        ("every = 1", "every = 0", "record.every must be at least 1, got 0"),
        ("every = 1", "every = 1\nat = [1]", "record has every and at; expected one of them"),
        ("every = 1", "per_decade = 0", "record.per_decade must be at least 1, got 0"),
        ("every = 1", "every = 1\nper_decade = 3", "record has every and per_decade; expected one of them"),
        ("every = 1", "per_decade = 1.5", "run.toml, line 24: per_decade must be a whole number of at least 0, got 1.5"),
        // Targets.
        ("every = 1", "every = 1\n[stop]\nobjectiv = 1", "run.toml, line 26: unknown key 'objectiv'; did you mean 'objective'?"),
        ("every = 1", "every = 1\n[stop]\nobjective = inf", "stop.objective must be a finite number, got inf"),
        ("every = 1", "every = 1\n[stop]\nobjective = \"low\"", "run.toml, line 26: objective must be a number, got \"low\""),
        ("every = 1", "every = 1\n[stop]\ncertificate = 0", "stop.certificate must be a finite number larger than 0, got 0"),
        (
            "seed = 1",
            "certificate = \"none\"\nstop = { certificate = 0.1 }",
            "stop.certificate = 0.1 needs a certificate with bounds or by switching",
        ),
        // What else is measured.
        (
            "seed = 1",
            "measure = [\"acuracy\"]",
            "measure must be accuracy, measured_roc_gap, a sum of terms, or a sum inside measured(…), got \
                 'acuracy'; did you mean 'accuracy'?",
        ),
        ("seed = 1", "measure = [\"hing\"]", "unknown term 'hing'; did you mean 'hinge'?"),
        ("seed = 1", "measure = [\"hinge(of = 3)\"]", "unknown argument 'of' of hinge; did you mean 'on'?"),
        ("seed = 1", "measure = [\"hinge <= 3\"]", "'hinge <= 3' cannot be read; expected a term in place of '<'"),
        ("seed = 1", "measure = [\"l2\", \"accuracy\", \" l2\"]", "measure has 'l2' twice; expected each once"),
        ("seed = 1", "measure = \"accuracy\"", "run.toml, line 1: measure must be a list, got \"accuracy\""),
        ("every = 1", "at = [0, -1]", "run.toml, line 24: at must be a whole number of at least 0, got -1"),
        // Budgets.
        (
            "[budget]\niterations = 5\n",
            "",
            "run.toml, line 1: the table [budget] is missing; expected one with iterations, passes, samples or \
             seconds",
        ),
        ("iterations = 5", "", "budget must be at least one of iterations, passes, samples, seconds, got nothing"),
        ("iterations = 5", "seconds = -1.0", "budget.seconds must be a finite number of at least 0, got -1"),
        ("iterations = 5", "iterations = 5.5", "run.toml, line 21: iterations must be a whole number of at least 0, got 5.5"),
        // The problem.
        ("{ ball = 5.0 }", "{ ball = -5.0 }", "radius of the ball must be a finite number, 0 or larger, got -5"),
        (
            "{ ball = 5.0 }",
            "{ ball = \"big\" }",
            "domain must be \"all\", \"non-negative\", { ball = RADIUS }, { ball_times_erm = FACTOR } or { box = \
             [LOW, HIGH] }, got { ball = \"big\" }",
        ),
        (
            "{ ball = 5.0 }",
            "{ bal = 5.0 }",
            "domain must be \"all\", \"non-negative\", { ball = RADIUS }, { ball_times_erm = FACTOR } or { box = \
             [LOW, HIGH] }, got { bal = 5.0 }",
        ),
        ("{ ball = 5.0 }", "{ ball_times_erm = -5 }", "ball_times_erm must be a finite number larger than 0, got -5"),
        (
            "{ ball = 5.0 }",
            "{ ball_times_erm = \"5\" }",
            "domain must be \"all\", \"non-negative\", { ball = RADIUS }, { ball_times_erm = FACTOR } or { box = \
             [LOW, HIGH] }, got { ball_times_erm = \"5\" }",
        ),
        ("{ ball = 5.0 }", "{ box = [1, 0] }", "lower bound of the box must be at most the upper bound 0, got 1"),
        ("start = \"zero\"", "start = [1, 2]", "start has 2 numbers: the problem has 3 variables"),
        (
            "start = \"zero\"",
            "start = [1, 2, \"3\"]",
            "start must be \"zero\", \"erm\", \"sin\", a list of numbers, or a file of numbers, got [1, 2, \
                 \"3\"]",
        ),
        ("start = \"zero\"", "start = [1, nan, 3]", "entry 2 of the start is NaN; expected a finite number"),
        (
            "start = \"zero\"",
            "start = \"zro\"",
            "start must be \"zero\", \"erm\", \"sin\", a list of numbers, or a file of numbers, got \"zro\"",
        ),
        (
            "start = \"zero\"",
            "start = 3",
            "start must be \"zero\", \"erm\", \"sin\", a list of numbers, or a file of numbers, got 3",
        ),
        (
            "minimize = \"hinge\"\n",
            "",
            "run.toml, line 9: the problem has no minimize; expected a term, for example minimize = \"hinge\"",
        ),
        ("minimize = \"hinge\"", "minimize = 3", "run.toml, line 10: minimize must be a string, got 3"),
        (
            "minimize = \"hinge\"",
            "minimize = \"hinge\"\nintercept = \"no\"",
            "run.toml, line 11: intercept must be true or false, got \"no\"",
        ),
        // The data.
        ("file = \"rows.svm\"\n", "", "[data] has neither name nor file; expected one of them"),
        ("file =", "name = \"a9a\"\nfile =", "[data] has name and file; expected one of them"),
        ("rows.svm", "rows.csv", "rows.csv: there is no such file"),
        ("file = \"rows.svm\"", "name = \"a9a\"", "columns and group belong to a file: a named data set brings its own"),
        ("group = 3", "group = 4", "rows.svm: the group column is 4; expected 1 to 3"),
        ("group = 3", "columns = 0", "columns must be a whole number from 1 to 4294967295, got 0"),
        ("group = 3", "columns = 5000000000", "columns must be a whole number from 1 to 4294967295, got 5000000000"),
        ("group = 3", "group = 1\ncolumns = 2", "rows.svm, line 1: 3:1 has column 3; expected at most 2"),
        ("group = 3", "", "demographic_parity compares groups, but the data have none; name a group column"),
        ("group = 3", "group = 3\ntest_fraction = 1.5", "test_fraction must be a number from 0 to below 1, got 1.5"),
        ("\"shared\"", "\"random\"", "split must be \"ordered\", \"shared\" or { shuffle = SEED }, got \"random\""),
        ("\"shared\"", "{ shuffle = -1 }", "split must be \"ordered\", \"shared\" or { shuffle = SEED }, got { shuffle = -1 }"),
        // Not TOML.
        ("eta = 0.05", "eta 0.05", "run.toml, line 17: key with no value; expected '='"),
        ("eta = 0.05", "eta = fast", "run.toml, line 17: invalid boolean; expected 'false'"),
        ("eta = 0.05", "eta = 0.05\neta = 0.06", "run.toml, line 18: duplicate key"),
        ("[record]", "[record", "run.toml, line 23: unclosed table; expected ']'"),
    ];
    for (from, to, sentence) in cases {
        let place = place(from, to);
        let ran = place.run(&["solve", "run.toml", "--trace", "run.csv", "--out", "run.json", "--checkpoint", "run.save"]);
        println!("{}", ran.err.trim_end());
        ran.refused_with(sentence);
        assert_eq!(place.files(), ["rows.svm", "run.toml"], "{}", ran.err);
    }
}

#[test]
fn the_minimiser_of_a_loss_needs_a_loss() {
    for (from, to) in [("start = \"zero\"", "start = \"erm\""), ("{ ball = 5.0 }", "{ ball_times_erm = 5.0 }")] {
        let place = place(from, to);
        place.put("run.toml", place.read("run.toml").replace("minimize = \"hinge\"", "minimize = \"l2\""));
        let sentence = "\"erm\" means the minimiser of the problem's loss, but it has none; expected hinge or logistic \
                 over all rows in a constraint or in the objective, or a bound such as hinge <= 1.001 * \
                 best(hinge)";
        place.run(&["solve", "run.toml"]).refused_with(sentence);
    }
}

#[test]
fn a_spec_that_cannot_be_read_is_refused() {
    let place = Place::new();
    place.run(&["solve", "none.toml"]).refused_with("none.toml: there is no such file");
    place.run(&["solve", "."]).refused_with(".: is a directory; expected a file");
    place.put("run.toml", b"[data]\nname = \"\xff\xfe\"\n");
    place.run(&["solve", "run.toml"]).refused_with("run.toml: is not text; expected TOML in UTF-8");
    place.put("run.toml", "");
    place
        .run(&["solve", "run.toml"])
        .refused_with("run.toml, line 1: the table [data] is missing; expected one with a name or a file");
}

#[test]
fn bad_rows_are_refused_with_file_and_line() {
    for (row, sentence) in [
        ("+1 2:nan", "rows.svm, line 11: 2:nan has the value NaN; expected a finite number"),
        ("+1 2:inf", "rows.svm, line 11: 2:inf has the value inf; expected a finite number"),
        ("+1 2", "rows.svm, line 11: 2; expected column:value, such as 12:0.5"),
        ("+1 two:1", "rows.svm, line 11: two:1; expected column:value, such as 12:0.5"),
        ("+1 2:1 1:1", "rows.svm, line 11: column 1 comes after column 2: the columns of a row must increase"),
        ("+1 0:1", "rows.svm, line 11: 0:1 has column 0: columns are counted from 1"),
        ("x 1:1", "rows.svm, line 11: label x; expected a finite number"),
        ("7 1:1", "rows.svm, line 11: there are more than two different labels (1, -1, 7); expected two"),
    ] {
        let place = place("seed = 1", "seed = 1");
        place.put("rows.svm", format!("{ROWS}{row}\n"));
        let ran = place.run(&["solve", "run.toml"]);
        ran.refused_with(sentence);
    }
    let place = place("seed = 1", "seed = 1");
    place.put("rows.svm", "");
    place.run(&["solve", "run.toml"]).refused_with("rows.svm, line 1: the file has no rows");
}

#[test]
fn a_group_without_rows_is_refused() {
    // Nobody is in the group at all.
    let place = place("group = 3", "group = 3");
    place.put("rows.svm", "+1 1:1 3:0\n-1 2:1\n");
    place
        .run(&["solve", "run.toml"])
        .refused_with("rows.svm: no row has an entry in the group column 3; expected rows with one and rows without");
    place.put("rows.svm", "+1 1:1 3:1\n-1 2:1 3:1\n");
    place
        .run(&["solve", "run.toml"])
        .refused_with("rows.svm: every row has an entry in the group column 3; expected rows with one and rows without");
    // The group has rows, but none among those that gaps are computed on.
    let spec = GOOD.replace("\"shared\"", "\"ordered\"");
    place.put("run.toml", &spec);
    place.put("rows.svm", "+1 1:1 3:1\n-1 2:1\n-1 1:1\n");
    place
        .run(&["solve", "run.toml"])
        .refused_with("'demographic_parity' needs rows of group 'column 3' among the rows it is computed on, but there is none");
    place.put("run.toml", spec.replace("demographic_parity", "equal_opportunity"));
    place.put("rows.svm", "+1 1:1 3:1\n-1 2:1\n+1 1:1\n-1 2:1\n-1 1:1 3:1\n+1 1:1\n");
    place.run(&["solve", "run.toml"]).refused_with(
        "'equal_opportunity' needs rows of group 'column 3' with label +1 among the rows it is computed on, but \
         there is none",
    );
}

#[test]
fn data_that_are_not_there_are_asked_for() {
    let named = |name: &str| GOOD.replace("file = \"rows.svm\"", &format!("name = \"{name}\"")).replace("group = 3\n", "");
    let place = Place::new();
    place.put("run.toml", named("a9"));
    place.run(&["solve", "run.toml"]).refused_with("unknown data set 'a9'; did you mean 'a9a'?");
    place.put("run.toml", named("w8a"));
    let ran = place.run(&["solve", "run.toml", "--data-dir", "here"]);
    ran.refused_with(
        "the data set w8a is missing: put the file w8a.gz or w8a into one of the directories that were looked \
         in: here (no such directory), ./data (no such directory), … (no such directory). It comes from: LIBSVM \
         data page (binary), w8a",
    );
    ran.refused_with(
        "the data set w8a is missing: put the file w8a.gz or w8a into one of the directories that were looked \
         in: here (no such directory), ./data (no such directory), … (no such directory). It comes from: LIBSVM \
         data page (binary), w8a",
    );
    place.put("run.toml", named("adult"));
    place.run(&["solve", "run.toml"]).refused_with("adult is a raw table, not rows of numbers: sets that can be loaded are …");
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_run() {
    // This run would not end by itself.
    let place = place("iterations = 5", "iterations = 1000000000000");
    std::fs::create_dir(place.path("folder")).unwrap();
    for flag in ["--trace", "--out", "--checkpoint"] {
        let refusal = |file: &str, what: &str| {
            place.run(&["solve", "run.toml", flag, file]).refused_with(&format!("{flag} {file}: {what}"));
        };
        refusal("nowhere/file", "there is no directory nowhere; expected one that exists");
        refusal("rows.svm/file", "there is no directory rows.svm; expected one that exists");
        refusal("folder", "is a directory; expected a file");
        refusal("run.toml", "is the description of the run; expected another file");
    }
    let ran = place.run(&["solve", "run.toml", "--trace", "one", "--out", "one"]);
    ran.refused_with("--out one: is the file of --trace; expected another one");
    let ran = place.run(&["solve", "run.toml", "--checkpoint", "run.save", "--checkpoint-every", "-1"]);
    ran.refused_with("--checkpoint-every -1; expected a number of seconds");
    place.run(&["solve", "run.toml", "--threads", "0"]).refused_with("threads must be at least 1, got 0");
    assert_eq!(place.files(), ["folder", "rows.svm", "run.toml"]);
}

#[test]
fn a_checkpoint_that_is_not_of_this_run_is_refused() {
    let place = place("seed = 1", "seed = 1");
    let resume = |place: &Place| place.run(&["solve", "run.toml", "--checkpoint", "run.save", "--resume", "--trace", "run.csv"]);
    place.run(&["solve", "run.toml", "--checkpoint", "run.save"]).ended(0);
    let good = std::fs::read(place.path("run.save")).unwrap();
    resume(&place).ended(0);
    std::fs::remove_file(place.path("run.csv")).unwrap();

    let unchanged = |bytes: &[u8]| {
        assert_eq!(std::fs::read(place.path("run.save")).unwrap(), bytes, "the file must stay as it was");
        assert_eq!(place.files(), ["rows.svm", "run.save", "run.toml"]);
    };
    for length in [17, 20, 30, 36, good.len() / 2, good.len() - 1] {
        place.put("run.save", &good[..length]);
        resume(&place).refused_with("checkpoint run.save is truncated…");
        unchanged(&good[..length]);
    }
    // One byte of the payload, anywhere.
    for at in [36, 37, good.len() / 3, good.len() / 2, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        place.put("run.save", &bytes);
        resume(&place).refused_with("checkpoint run.save is damaged: its checksum does not fit");
        unchanged(&bytes);
    }
    let longer = [good.as_slice(), b"!"].concat();
    let mut newer = good.clone();
    newer[16] = 99;
    let cases: [(&[u8], &str); 5] = [
        (&longer, "checkpoint run.save is damaged: its checksum does not fit"),
        (&newer, "checkpoint run.save has format version 99, but this build reads version 5 only"),
        (b"", "checkpoint run.save is not a Thalweg checkpoint"),
        (b"not a checkpoint at all, but long enough to be one", "checkpoint run.save is not a Thalweg checkpoint"),
        (&good[..10], "checkpoint run.save is not a Thalweg checkpoint"),
    ];
    for (bytes, sentence) in cases {
        place.put("run.save", bytes);
        resume(&place).refused_with(sentence);
        unchanged(bytes);
    }

    // Whole, but of another run.
    place.put("run.save", &good);
    for (from, to, sentence) in [
        (
            "parity <= 0.2",
            "parity <= 0.3",
            "checkpoint run.save belongs to another run: its problem is 'minimise hinge subject to \
             demographic_parity <= 0.2 over ball of radius 5', here it is 'minimise hinge subject to \
             demographic_parity <= 0.3 over ball of radius 5'",
        ),
        (
            "{ ball = 5.0 }",
            "{ ball = 6.0 }",
            "checkpoint run.save belongs to another run: its problem is 'minimise hinge subject to \
             demographic_parity <= 0.2 over ball of radius 5', here it is 'minimise hinge subject to \
             demographic_parity <= 0.2 over ball of radius 6'",
        ),
        (
            "\"shared\"",
            "{ shuffle = 1 }",
            "checkpoint run.save belongs to another run: its problem is '10 of 10 rows for losses, data \
             …', here it is '6 of 10 rows for losses, data …'",
        ),
        (
            "eta = 0.05",
            "eta = 0.06",
            "checkpoint run.save belongs to another run: its settings are 'Settings { eta: Constant(0.05)', here \
             they are 'Settings { eta: Constant(0.06)'",
        ),
        (
            "every = 1",
            "every = 2",
            "checkpoint run.save belongs to another run: its settings are 'theory: None } Record { every: \
             Some(1)', here they are 'theory: None } Record { every: Some(2)'",
        ),
        (
            "[record]",
            "[stop]\nobjective = 0.25\n[record]",
            "checkpoint run.save belongs to another run: its settings are 'StoppingRule { objective: None', \
                 here they are 'StoppingRule { objective: Some(0.25)'",
        ),
        (
            "seed = 1",
            "seed = 1\nmeasure = ['l1']",
            "checkpoint run.save belongs to another run: its settings are 'measure None', here they are \
                 'measure Some([\"l1\"])'",
        ),
        ("seed = 1", "seed = 2", "checkpoint run.save belongs to another run: its seed is '1', here it is '2'"),
        (
            "start = \"zero\"",
            "start = \"sin\"",
            "checkpoint run.save belongs to another run: its settings are 'start …', here they \
             are 'start …'",
        ),
        (
            "seed = 1",
            "seed = 1\nfeasibility = 0.1",
            "checkpoint run.save belongs to another run: its settings are 'feasibility None', here they are \
                 'feasibility Some(0.1)'",
        ),
        (
            "seed = 1",
            "seed = 1\ncertificate = \"ssg\"",
            "checkpoint run.save belongs to another run: its settings are …, certificate Measures { bounds: None, \
                 switching: None, …here they are …, certificate Measures { bounds: None, switching: Some(Switching {…",
        ),
    ] {
        place.put("run.toml", GOOD.replace(from, to));
        let ran = resume(&place);
        ran.refused_with(sentence);
        unchanged(&good);
    }
    place.put("run.toml", GOOD);
    place.put("rows.svm", ROWS.replace("1:3", "1:4"));
    resume(&place).refused_with(
        "checkpoint run.save belongs to another run: its problem is 'data …', here it is 'data \
         …'",
    );
    unchanged(&good);

    // More iterations and other threads are the same run.
    place.put("rows.svm", ROWS);
    place.put("run.toml", GOOD.replace("iterations = 5", "iterations = 9").replace("threads = 1", "threads = 2"));
    let ran = resume(&place).ended(0);
    assert!(ran.out.contains("continued from iteration 5"), "{}", ran.out);
}

#[test]
fn without_a_checkpoint_to_resume_from_the_run_starts_from_the_beginning() {
    let place = place("seed = 1", "seed = 1");
    let ran = place.run(&["solve", "run.toml", "--checkpoint", "run.save", "--resume"]).ended(0);
    assert!(ran.out.contains("note: checkpoint run.save does not exist; the run started from the beginning"), "{}", ran.out);
    assert_eq!(place.files(), ["rows.svm", "run.save", "run.toml"]);
}

#[test]
fn an_overflow_during_the_run_ends_it_with_the_last_good_point() {
    let place = place("{ ball = 5.0 }", "\"all\"");
    // The first step leads to a point whose scores overflow.
    place.put("rows.svm", "+1 1:1e307 3:1\n+1 1:1e307\n-1 1:1e307 3:1\n");
    let arguments = ["solve", "run.toml", "--trace", "run.csv", "--out", "run.json"];
    let ran = place.run(&arguments).ended(1);
    assert!(ran.out.starts_with("failed at iteration 1: the objective is inf"), "{}", ran.out);
    assert!(ran.out.contains("note: the point is the last one before the failure"), "{}", ran.out);
    let report: serde_json::Value = serde_json::from_str(&place.read("run.json")).unwrap();
    assert_eq!(report["success"], false);
    assert_eq!(report["point"]["x"], serde_json::json!([0.0, 0.0, 0.0]));
    assert_eq!(report["point"]["objective"], 1.0);
    assert_eq!(report["ended"]["failed"]["iteration"], 1);
    assert_eq!(place.read("run.csv").lines().count(), 2, "the start was recorded");
}

/// Pairs on made-up rows, as a person would write it.
const PAIRS: &str = "seed = 1\n[data]\ngenerator = 'gen'\nsample = 60\ntest_fraction = 0.3\nvalidation_fraction = 0.2\n\
    [problem]\nminimize = 'welsch'\nsubject_to = ['pairs <= 0']\n[solver]\nname = 'dszog'\n[budget]\niterations = 2\n";

#[test]
fn a_slip_about_many_constraints_is_a_sentence() {
    let place = Place::new();
    for (from, to, sentence) in [
        ("'gen'", "'gem'", "unknown generator 'gem'; did you mean 'gen'?"),
        ("generator", "name = 'a9a'\ngenerator", "[data] has generator and name; expected one of them"),
        ("generator", "file = 'rows.svm'\ngenerator", "[data] has generator and file; expected one of them"),
        ("generator", "group = 1\ngenerator", "[data] has generator and group; expected one of them"),
        ("generator", "synthetic", "run.toml, line 3: key 'synthetic' is now called 'generator'"),
        ("generator = 'gen'", "synth = { like = 'url' }", "run.toml, line 3: key 'synth' is now called 'shaped_like'"),
        ("sample = 60", "sample = 0", "sample must be 1 to 2000, the rows that there are, got 0"),
        ("sample = 60", "sample = 2001", "sample must be 1 to 2000, the rows that there are, got 2001"),
        ("sample = 60", "sample = -1", "run.toml, line 4: sample must be a whole number of at least 0, got -1"),
        ("sample = 60", "sensitive = [51]", "sensitive column 51; expected 1 to 50"),
        ("sample = 60", "sensitive = [0]", "sensitive column 0; expected 1 to 50"),
        ("sample = 60", "sensitive = [3, 2, 3]", "sensitive has column 3 twice; expected each once"),
        ("sample = 60", "kernel = 'poly'", "kernel must be \"rbf\" or { rbf = GAMMA }, a number above 0, got \"poly\""),
        ("sample = 60", "kernel = { rbf = -1 }", "kernel must be \"rbf\" or { rbf = GAMMA }, a number above 0, got { rbf = -1 }"),
        (
            "sample = 60",
            "kernel = { rbf = 1, more = 2 }",
            "kernel must be \"rbf\" or { rbf = GAMMA }, a number above 0, got { more = 2, rbf = 1 }",
        ),
        (
            "fraction = 0.2",
            "fraction = 0.8",
            "validation_fraction must be a number from 0 on that leaves rows to train on beside \
                 test_fraction, got 0.8",
        ),
        (
            "fraction = 0.2",
            "fraction = -0.1",
            "validation_fraction must be a number from 0 on that leaves rows to train on beside test_fraction, \
             got -0.1",
        ),
        ("fraction = 0.3", "fraction = 1.0", "test_fraction must be a number from 0 to below 1, got 1"),
        (
            "'pairs <= 0'",
            "'pairs + hinge <= 0'",
            "'pairs + hinge <= 0': a family of constraints cannot be part of a sum or have a factor",
        ),
        (
            "'pairs <= 0'",
            "'2 * pairs <= 0'",
            "'2 * pairs <= 0': a family of constraints cannot be part of a sum or have a factor",
        ),
        (
            "'pairs <= 0'",
            "'pairs <= 0', 'covariance <= 0.1'",
            "'pairs <= 0': a family of constraints must be the only entry of subject_to",
        ),
        (
            "'pairs <= 0'",
            "'hinge <= 1', 'pairs <= 0'",
            "'pairs <= 0': a family of constraints must be the only entry of subject_to",
        ),
        ("'pairs <= 0'", "'pairs(foo = 1) <= 0'", "unknown argument 'foo' of pairs; expected collapsed"),
        ("'pairs <= 0'", "'pairs(collapsed = 1) <= 0'", "collapsed of pairs must be \"yes\" or \"no\", got 1"),
        (
            "'pairs <= 0'",
            "'pairs <= best(hinge)'",
            "'pairs <= best(hinge)'; expected a number as the bound of a family of constraints",
        ),
        ("'pairs <= 0'", "'pair <= 0'", "unknown term or family 'pair'; did you mean 'pairs'?"),
        ("'pairs <= 0'", "'covarance <= 0.1'", "unknown term or family 'covarance'; did you mean 'covariance'?"),
        (
            "'pairs <= 0'",
            "'covariance <= 0.1'",
            "covariance is about sensitive columns; expected sensitive = [COLUMNS] in [data]",
        ),
        ("seed = 1", "repair = 'yes'", "run.toml, line 1: repair must be true or false, got 'yes'"),
        (
            "minimize = 'welsch'",
            "minimize = 'wasserstein_gap'\nplan = 'joint'",
            "a family of constraints and a transport plan as a variable do not go together",
        ),
        ("'welsch'", "'pairs'", "unknown term 'pairs'; expected one of …"),
        ("'welsch'", "'welsch(scale = 0)'", "scale of welsch must be a finite number above 0, got 0"),
        (
            "'dszog'",
            "'dszog'\neta_w = { rule = 'theory' }",
            "run.toml, line 12: eta_w must be a number or another rule, got theory: no theorem prescribes this \
             setting here, or its constants are not given",
        ),
        ("'dszog'", "'dszog'\nbeta = 0", "run.toml, line 12: beta must be a finite number larger than 0, got 0"),
        ("'dszog'", "'dszog'\na = 1.5", "run.toml, line 12: a must be a number above 0 and at most 1, got 1.5"),
        ("'dszog'", "'dszog'\nm3 = 0", "run.toml, line 12: m3 must be at least 1, got 0"),
        (
            "'dszog'",
            "'dszog'\nlaw = 'normal'",
            "run.toml, line 12: law must be one of gaussian, sphere, coordinate, got \"normal\"",
        ),
        ("'dszog'", "'dsog'", "run.toml, line 11: unknown solver 'dsog'; did you mean 'dszog'?"),
        ("'dszog'", "'zopsgd'\nbatch = 0", "run.toml, line 12: batch must be at least 1, got 0"),
        (
            "'dszog'",
            "'acczomda'\nk = 4",
            "run.toml, line 12: k must be at most 3.0365…, the cube root of m + 1, so that no \
                 step goes beyond the projected point, got 4",
        ),
        (
            "'pairs <= 0']\n[solver]\nname = 'dszog'",
            "'hinge <= 0.5']\n[solver]\nname = 'zopsgd'",
            "zopsgd projects onto the constraints, but this problem has no projection; use a problem with a \
                 region, or dszog, which needs only values",
        ),
        (
            "'pairs <= 0']\n[solver]\nname = 'dszog'",
            "'pairs <= 0.1']\n[solver]\nname = 'accszofw'",
            "accszofw projects onto the constraints, but this problem has no projection; use a problem with a \
             region, or dszog, which needs only values",
        ),
    ] {
        let text = PAIRS.replacen(from, to, 1);
        assert_ne!(text, PAIRS, "{from}");
        place.put("run.toml", text);
        let ran = place.run(&["solve", "run.toml", "--trace", "run.csv"]);
        ran.refused_with(sentence);
        assert_eq!(place.files(), ["run.toml"], "{to}");
    }
    place.put("run.toml", PAIRS);
    let ran = place.run(&["solve", "run.toml", "--out", "run.json"]);
    assert_eq!(ran.err, "");
    place.run(&["certify", "run.toml", "--point", "run.json"]).refused_with(
        "certify needs constraints one by one, but this problem has a family of 234; use terms as \
             constraints, or thalweg solve",
    );
    place.run(&["tradeoff", "run.toml", "--bounds", "0,0.1"]).refused_with(
        "tradeoff needs constraints one by one, but this problem has a family of 234; use terms as \
             constraints, or thalweg solve",
    );
}

#[test]
fn a_slip_about_a_bilevel_problem_is_a_sentence() {
    let text = "[data]\nbilevel = 'toy'\n[problem]\nstart = [0.3]\nbilevel = { xi = 0.1 }\n[solver]\nname = 'adaprox'\nsigma = 20\n\
                [solver.inner]\nname = 'sg'\n[budget]\niterations = 2\n";
    let place = Place::new();
    for (from, to, sentence) in [
        ("'toy'", "'toi'", "unknown bilevel problem 'toi'; did you mean 'toy'?"),
        (
            "'toy'",
            "3",
            "bilevel must be one of toy, interval, quadratic, pricing, norm-sum, hyper-representation, group-weights, or a \
             table with such a name, got 3",
        ),
        (
            "'toy'",
            "{ radius = 1 }",
            "bilevel must be one of toy, interval, quadratic, pricing, norm-sum, hyper-representation, group-weights, or a \
             table with such a name, got { radius = 1 }",
        ),
        ("'toy'", "{ name = 'toy', radios = 1 }", "unknown key 'radios'; did you mean 'radius'? (in bilevel = \"toy\")"),
        ("'toy'", "{ name = 'toy', radius = -1 }", "lower bound of the box must be at most the upper bound -1, got 1"),
        ("'toy'", "'toy'\nname = 'a9a'", "name beside a bilevel problem, which brings its own; expected one of the two"),
        (
            "start",
            "minimize = 'hinge'\nstart",
            "minimize beside a bilevel problem, which brings its own; expected one of the two",
        ),
        ("[0.3]", "[0.3, 1.0]", "the start has 2 entries; expected 1"),
        ("[0.3]", "'zero'", "zero: there is no such file"),
        ("xi = 0.1", "xi = -0.1", "xi must be a finite number larger than 0, got -0.1"),
        ("xi = 0.1", "alfa = 0.1", "unknown key 'alfa'; did you mean 'alpha'?"),
        ("xi = 0.1", "inner_steps = 'many'", "inner_steps must be a whole number of at least 1, or \"adaptive\", got \"many\""),
        ("xi = 0.1", "slack = 0.0", "slack must be a finite number larger than 0, got 0.0"),
        ("sigma = 20", "sigma = 0", "run.toml, line 8: sigma must be a finite number larger than 0, got 0"),
        ("sigma = 20", "sigmo = 20", "run.toml, line 8: unknown key 'sigmo'; did you mean 'sigma'?"),
        (
            "sigma = 20",
            "outer = 5",
            "sigma is missing; it must be a finite number larger than 0: the weak-convexity constants of the \
             objective and of the constraints are unknown",
        ),
        ("'sg'", "'sgd'", "run.toml, line 10: unknown inner solver 'sgd'; did you mean 'sg'? (in [solver.inner])"),
        ("'sg'", "'pd'\nt0 = 0", "run.toml, line 11: t0 must be at least 1, got 0 (in [solver.inner])"),
        (
            "[solver.inner]\nname = 'sg'\n",
            "",
            "run.toml, line 6: the table [solver.inner] is missing; expected one with the name of a solver",
        ),
        (
            "[data]",
            "measure = ['accuracy']\n[data]",
            "unknown measure 'accuracy' of a bilevel problem; expected one of inner_gap, pessimistic_value, \
             optimistic_value",
        ),
        (
            "bilevel = 'toy'",
            "name = 'a9a'",
            "run.toml, line 3: the problem has no minimize; expected a term, for example minimize = \"hinge\"",
        ),
        (
            "bilevel = 'toy'\n[problem]",
            "name = 'a9a'\n[problem]\nminimize = 'hinge'",
            "bilevel = { xi = 0.1 } in [problem] needs bilevel = the name of a problem in [data]",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        place.put("run.toml", text.replacen(from, to, 1));
        place.run(&["solve", "run.toml"]).refused_with(sentence);
    }
}
