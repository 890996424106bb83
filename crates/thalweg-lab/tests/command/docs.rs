//! The documentation against the code: specs that are printed must be accepted, and every key, term and argument that the code
//! knows must be in docs/solve.md; every option of a command must be in the page of the command.
use std::path::{Path, PathBuf};

use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::solvers::{Interface, SolverName, registry};
use thalweg_lab::data::catalogue::Options;
use thalweg_lab::data::source::Source;
use thalweg_lab::data::table::Table;
use thalweg_lab::job::Job;
use thalweg_lab::spec::Spec;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The blocks between "```toml" and "```" that have a table `[solver]`, each with the line that it begins at.
fn specs(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut block: Option<(usize, String)> = None;
    for (i, line) in text.lines().enumerate() {
        match &mut block {
            None if line == "```toml" => block = Some((i + 2, String::new())),
            None => {}
            Some(_) if line.starts_with("```") => found.extend(block.take()),
            Some((_, inside)) => *inside += &format!("{line}\n"),
        }
    }
    assert!(block.is_none(), "a block of TOML is not closed");
    found.retain(|(_, inside)| inside.lines().any(|l| l == "[solver]"));
    found
}

#[test]
fn printed_specs_are_accepted() {
    for (file, at_least) in [("README.md", 1), ("docs/solve.md", 5)] {
        let specs = specs(&read(file));
        assert!(specs.len() >= at_least, "{file} has {} specs", specs.len());
        for (line, text) in specs {
            let spec = Spec::parse(&text, Path::new(file)).unwrap_or_else(|e| panic!("{file}, block at line {line}: {e}"));
            // Embedded data are always there: terms, domain and start can be built too.
            if (spec.data.name.is_some() || spec.data.generator.is_some())
                && let Err(e) = Job::new(&spec, Path::new(file), &Options::default())
            {
                panic!("{file}, block at line {line}: {e}");
            }
        }
    }
}

#[test]
fn the_readme_prints_the_experiment_as_it_is() {
    assert!(read("README.md").contains(&read("experiments/roc-a9a.toml")));
}

/// The words that a message lists after "one of".
fn listed(message: &str) -> Vec<String> {
    let (_, list) = message.split_once("one of ").unwrap_or_else(|| panic!("no list: {message}"));
    let list = list.split_once(", got ").map_or(list, |(list, _)| list);
    list.split(", ").map(String::from).collect()
}

fn assert_documented(what: &str, words: &[String]) {
    let page = read("docs/solve.md");
    assert!(!words.is_empty(), "{what}: nothing is listed");
    for word in words {
        assert!(page.contains(&format!("`{word}`")), "{what}: '{word}' is not in docs/solve.md");
    }
}

/// A whole spec with one more line in the given table.
fn with(table: &str, line: &str) -> String {
    let mut text = String::new();
    for (name, lines) in [
        ("", ""),
        ("data", "name = 'a9a'"),
        ("problem", "minimize = 'hinge'"),
        ("solver", "name = 'ssg'"),
        ("solver.theory", "theorem = '4.2-I'\neps = 0.1"),
        ("solver.theory.constants", "lipschitz = 1\ndiameter = 1\nrho = 0\nrho_hat = 1\nslater = 1"),
        ("budget", "iterations = 1"),
        ("record", "every = 1"),
        ("stop", "objective = 0.1"),
    ] {
        if !name.is_empty() {
            text += &format!("[{name}]\n");
        }
        text += &format!("{}\n{lines}\n", if name == table { line } else { "" });
    }
    text
}

/// A whole spec with these lines as its solver.
fn with_solver(lines: &str) -> String {
    format!("[data]\nname = 'a9a'\n[problem]\nminimize = 'hinge'\n[budget]\niterations = 1\n[solver]\n{lines}\n")
}

#[test]
fn every_key_is_documented() {
    let refusal = |table: &str, line: &str| {
        let file = Path::new("spec.toml");
        let read = Spec::parse(&with(table, line), file);
        read.and_then(|spec| Job::new(&spec, file, &Options::default())).err().map(|e| e.to_string())
    };
    assert_eq!(refusal("", ""), None);
    for table in ["", "data", "problem", "solver", "solver.theory", "solver.theory.constants", "budget", "record", "stop"] {
        let message = refusal(table, "zzzzzz = 1").unwrap();
        assert_documented(table, &listed(&message));
    }
    for measure in ["bounds", "switching", "penalised"] {
        let message = refusal("", &format!("certificate = {{ {measure} = {{ zzzzzz = 1 }} }}")).unwrap();
        assert_documented("certificate", &listed(&message));
    }
    for solver in SolverName::ALL {
        let inner = solver.inner().unwrap_or_default();
        for &inner in &inner {
            let text = with_solver(&format!("name = '{solver}'\n[solver.inner]\nname = '{inner}'\nzzzzzz = 1"));
            let message = Spec::parse(&text, Path::new("spec.toml")).unwrap_err().to_string();
            assert_documented(inner, &listed(message.strip_suffix(" (in [solver.inner])").unwrap()));
        }
        let inner = inner.first().map_or(String::new(), |inner| format!("inner = {{ name = '{inner}' }}\n"));
        let text = with_solver(&format!("name = '{solver}'\nzzzzzz = 1\n{inner}"));
        let message = Spec::parse(&text, Path::new("spec.toml")).unwrap_err().to_string();
        assert_documented(solver.as_str(), &listed(&message));
    }
    let message = refusal("solver", "eta = { zzzzzz = 1 }").unwrap();
    assert!(message.ends_with("expected rule, c, p or after"), "{message}");
    assert_documented("a schedule", &["rule", "c", "p", "after"].map(String::from));
}

/// The names in backticks and quotes of the first line of a page that contains `row`.
fn names_in(page: &str, row: &str) -> Vec<String> {
    let text = read(page);
    let line = text.lines().find(|line| line.contains(row)).unwrap_or_else(|| panic!("{page} has no line with {row}"));
    let words = line.split('`').skip(1).step_by(2).map(|word| word.trim_matches('"').to_string());
    words.filter(|word| word.parse::<SolverName>().is_ok()).collect()
}

#[test]
fn every_solver_is_documented() {
    for (page, row, interface) in [
        ("docs/solve.md", "| `name` | the solver, or", Interface::Solve),
        ("docs/fit.md", "| `--solver NAME` |", Interface::Fit),
        ("docs/python.md", "- **`method`** is", Interface::Minimize),
    ] {
        let (mut listed, mut offered) = (names_in(page, row), registry::offered_by(interface));
        listed.sort();
        listed.dedup();
        offered.sort_unstable();
        assert_eq!(listed, offered, "{page}: the solvers in the line with {row}");
    }
    let page = read("docs/plan.md");
    for name in registry::offered_by(Interface::Plan) {
        assert!(page.lines().any(|line| line.starts_with(&format!("| `{name}` |"))), "{name} is not in docs/plan.md");
    }
    let page = read("docs/solve.md");
    for name in registry::NAMES {
        assert!(
            page.lines().any(|line| line.starts_with("### ") && line.contains(&format!("`{name}`"))),
            "{name} has no section"
        );
    }
}

#[test]
fn every_option_is_documented() {
    for (command, page) in [
        ("fit", "fit"),
        ("predict", "fit"),
        ("explain", "fit"),
        ("certify", "certify"),
        ("solve", "solve"),
        ("plan", "plan"),
        ("tradeoff", "tradeoff"),
    ] {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(run.stdout).unwrap();
        // An option begins its line, with or without a short form before it.
        let option = |line: &str| {
            let line = line.trim_start();
            let long = line.starts_with("--").then_some(line).or_else(|| line.split_once(", ").map(|(_, long)| long));
            let word = long.filter(|l| l.starts_with("--") && line.starts_with('-'))?.split([' ', '=']).next()?;
            Some(word.to_string())
        };
        let options: Vec<String> = help.lines().filter_map(option).filter(|o| o != "--help").collect();
        assert!(!options.is_empty(), "{command}: {help}");
        let text = read(&format!("docs/{page}.md"));
        for option in options {
            let documented = ["`", " "].iter().any(|end| text.contains(&format!("`{option}{end}")));
            assert!(documented, "{command}: {option} is not in docs/{page}.md");
        }
    }
}

#[test]
fn every_command_of_the_lab_is_documented() {
    let run = |arguments: &[&str]| {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().unwrap();
        (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap())
    };
    let page = read("docs/lab.md");
    for command in ["run", "report", "list", "show", "export", "rm"] {
        let (help, _) = run(&["lab", command, "--help"]);
        let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '=']).next());
        let options: Vec<&str> = options.collect();
        assert!(!options.is_empty(), "{command}: {help}");
        for option in options {
            let documented = ["`", " "]
                .iter()
                .any(|end| page.contains(&format!("`--{option}{end}")) || page.contains(&format!(" --{option}{end}")));
            assert!(documented, "lab {command}: --{option} is not in docs/lab.md");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("slip.toml");
    for text in [
        "zzzzzz = 1",
        "[quick]\nzzzzzz = 1",
        "[data]\nname = 'a9a'\n[problem]\nminimize = 'hinge'\n[solver]\nname = 'ssg'\n[tune]\nzzzzzz = 1",
    ] {
        std::fs::write(&file, text).unwrap();
        let (_, message) = run(&["lab", "run", "--quick", &file.display().to_string()]);
        let (_, plain) = run(&["lab", "run", &file.display().to_string()]);
        let message = if message.contains("zzzzzz") { message } else { plain };
        for word in message
            .split("expected one of ")
            .nth(1)
            .unwrap_or_else(|| panic!("no list: {message}"))
            .trim()
            .trim_end_matches(" (in [tune])")
            .split(", ")
        {
            assert!(page.contains(&format!("`{word}`")), "'{word}' is not in docs/lab.md: {message}");
        }
    }
}

#[test]
fn the_fields_of_a_model_file_are_documented() {
    let request = thalweg_lab::fit::Request {
        subject_to: vec!["demographic_parity <= 0.5".into(), "logistic <= 2 * best(logistic + l2)".into()],
        group: vec!["g".into()],
        budget: thalweg::run::Budget::iterations(5),
        ..thalweg_lab::fit::Request::new("none.csv", "y")
    };
    let csv = "x,g,z,y\n".to_string() + &"1,a,u,0\n2,b,v,1\n3,a,v,1\n4,b,,0\n5,b,v,1\n6,a,u,0\n".repeat(5);
    let table = Table::from_source(Source::new("none.csv", csv.as_bytes()).unwrap()).unwrap();
    let model = request.train(request.prepare_with(&table).unwrap(), &mut ()).unwrap().model;
    let text = read("docs/fit.md");
    let mut left = vec![serde_json::to_value(&model).unwrap()];
    let mut names = 0;
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    // The passes, the ending and the notes are as in the outcome of a run.
                    let here = !["version", "objective", "constraints", "budget"].contains(&name.as_str());
                    assert!(!here || text.contains(&format!("`{name}`")), "'{name}' is not in docs/fit.md");
                    names += 1;
                    if name != "reasons" {
                        left.push(value);
                    }
                }
            }
            serde_json::Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    assert!(names > 60, "{names}");
}

#[test]
fn every_term_and_argument_is_documented() {
    let refusal = |term: &str| {
        let data = Data {
            features: Matrix::dense(2, 1, vec![1.0, 2.0]).unwrap(),
            labels: vec![1.0, -1.0],
            groups: Some(Groups { names: vec!["a".into(), "b".into()], of_row: vec![0, 1] }),
            weights: None,
        };
        Learning::on(data).minimize(term.parse().unwrap()).build().unwrap_err().to_string()
    };
    let terms = listed(&refusal("zzzzzz"));
    assert_documented("terms", &terms);
    for term in terms {
        let message = refusal(&format!("{term}(zzzzzz = 1)"));
        if !message.contains("takes no argument") {
            assert_documented(&term, &listed(&message));
        }
    }
}
