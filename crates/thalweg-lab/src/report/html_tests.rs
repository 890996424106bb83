use super::super::{BoundRow, Bounds, Column, FactPart, Facts, Groups, Rate, Scores, Tradeoff, TradeoffPoint};
use super::*;

/// Deterministic pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }
}

fn columns(parts: Vec<(&str, Vec<f64>)>) -> Vec<Column> {
    parts.into_iter().map(|(name, values)| Column { name: name.to_owned(), values }).collect()
}

/// Returns a run that falls from `start` to `end` and is infeasible in the beginning.
fn run(panel: usize, solver: &str, cell: &str, seed: u64, rows: usize, (start, end, rate): (f64, f64, f64)) -> Run {
    let mut noise = Noise(seed.wrapping_mul(77) + panel as u64 * 1009 + solver.len() as u64 * 31 + cell.len() as u64);
    let speed = rate * (1.0 + 0.5 * noise.next());
    let end = end * (1.0 + 0.002 * noise.next());
    let steps: Vec<f64> = (0..rows).map(|i| (i * 25) as f64).collect();
    let share = |i: usize| i as f64 / (rows.max(2) - 1) as f64;
    let mut objective = Vec::new();
    let mut violation = Vec::new();
    for i in 0..rows {
        let wobble = 0.01 * noise.next() * (-3.0 * share(i)).exp();
        objective.push(end + (start - end) * ((-speed * share(i)).exp() + wobble));
        violation.push(0.12 * (-2.5 * speed * share(i)).exp() * (1.0 + 0.3 * noise.next()) - 0.004);
    }
    let feasible: Vec<bool> = violation.iter().map(|v| *v <= 0.0).collect();
    let passes_f: Vec<f64> = (0..rows).map(|i| 100.0 * share(i)).collect();
    let passes_g: Vec<f64> = (0..rows).map(|i| 110.0 * share(i)).collect();
    let seconds: Vec<f64> = (0..rows).map(|i| (4.0 + rate) * share(i)).collect();
    let accuracy: Vec<f64> = (0..rows).map(|i| 0.84 - 0.3 * (-speed * share(i)).exp()).collect();
    let bounded: Vec<usize> = (0..rows).step_by((rows / 12).max(1)).collect();
    let pick = |values: &[f64]| bounded.iter().map(|&i| values[i]).collect::<Vec<f64>>();
    let upper: Vec<f64> = bounded.iter().map(|&i| 0.8 * (-0.8 * speed * share(i)).exp() + 0.002).collect();
    let lower: Vec<f64> = upper.iter().enumerate().map(|(i, u)| if i < 2 { 0.0 } else { 0.7 * u }).collect();
    Run {
        id: format!("{panel}-{solver}-{cell}-{seed}"),
        panel,
        instance: String::new(),
        solver: solver.to_owned(),
        cell: cell.to_owned(),
        seed,
        tuned: true,
        ended: "the budget of 200 passes was spent".to_owned(),
        failed: false,
        feasible: feasible.last().copied().unwrap_or(false),
        objective: objective.last().copied(),
        violation: violation.last().copied(),
        certificate: upper.last().map(|u| [0.7 * u, *u]),
        iterations: steps.last().map_or(0, |s| *s as u64),
        passes_f: 100.0,
        passes_g: 110.0,
        samples: rows as u64 * 6400,
        seconds: 4.0 + rate,
        certified: Trace {
            feasible: bounded.iter().map(|&i| feasible[i]).collect(),
            columns: columns(vec![
                ("iterations", pick(&steps)),
                ("passes_f", pick(&passes_f)),
                ("passes_g", pick(&passes_g)),
                ("seconds", pick(&seconds)),
                ("lower", lower),
                ("upper", upper),
            ]),
        },
        trace: Trace {
            columns: columns(vec![
                ("iterations", steps.clone()),
                ("passes_f", passes_f),
                ("passes_g", passes_g),
                ("samples", steps.iter().map(|s| s * 256.0).collect()),
                ("seconds", seconds),
                ("hinge", objective.iter().map(|o| 1.7 * o).collect()),
                ("objective", objective),
                ("violation", violation),
                ("held-out accuracy", accuracy),
            ]),
            feasible,
        },
        notes: Vec::new(),
    }
}

const SOLVERS: [(&str, f64, f64); 5] = [
    ("SSG", 0.352, 9.0),
    ("IPP-ConEx", 0.3405, 6.0),
    ("Proximal bundle", 0.3402, 14.0),
    ("IPP-SSG with averaged inner output", 0.349, 4.0),
    ("3S-Econ", 0.39, 2.2),
];

fn experiment() -> Experiment {
    let mut runs = Vec::new();
    for panel in 0..3 {
        for (which, (solver, end, rate)) in SOLVERS.into_iter().enumerate() {
            let scale = [1.0, 0.6, 140.0][panel];
            for cell in 0..9 {
                let eta = [1e-4, 1e-3, 1e-2, 1e-1, 1.0][cell % 5];
                let words = format!("eta = {eta}, tol = {}", if cell < 5 { "1e-5" } else { "1e-3" });
                for seed in 1..=3 {
                    let far = (cell + 9 - (2 * which + panel) % 9) % 9;
                    let rate = rate / (1.0 + 0.4 * far as f64) * (1.0 - 0.15 * panel as f64);
                    let mut one = run(panel, solver, &words, seed, 400, (scale, scale * end * (1.0 + 0.02 * far as f64), rate));
                    one.tuned = far == 0;
                    if one.tuned && panel == 1 && which == 4 && seed == 2 {
                        let cut = 90;
                        one.trace.columns.iter_mut().for_each(|c| c.values.truncate(cut));
                        one.trace.feasible.truncate(cut);
                        (one.failed, one.feasible, one.objective, one.violation) = (true, false, None, None);
                        one.certificate = None;
                        one.ended = "the subgradient of constraint \"demographic parity between the groups sex = female and sex = \
                                     male\" has an entry that is not a number (NaN at column 17) in step 2250; the last good point \
                                     was kept"
                            .to_owned();
                    }
                    runs.push(one);
                }
            }
        }
    }
    let panel = |label: &str, words: &str| Panel { label: label.to_owned(), words: words.to_owned() };
    Experiment {
        title: "Five methods on three data sets".to_owned(),
        panels: vec![
            panel("a9a", "minimise hinge subject to demographic parity ≤ 0.02 between the sexes; 32,561 rows, 123 columns"),
            panel("COMPAS", "minimise hinge + 0.02 scad subject to equal opportunity ≤ 0.05; 6,172 rows, 14 columns"),
            panel("bank-additional", "minimise the ROC gap over 100 thresholds subject to hinge ≤ 1.001 best(hinge)"),
        ],
        runs,
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

/// Returns a page with every kind of section.
fn demo() -> Page {
    let bump = |centre: f64, width: f64| {
        let raw: Vec<f64> = (0..40).map(|i| (-((f64::from(i) - centre) / width).powi(2)).exp()).collect();
        let sum: f64 = raw.iter().sum();
        raw.into_iter().map(|v| v / sum).collect::<Vec<f64>>()
    };
    let row =
        |name: &str, bound, value, held_out, satisfied| BoundRow { name: name.to_owned(), bound, value, held_out, satisfied };
    let point = |(i, x): (usize, &f64)| {
        let y = 0.851 - 0.004 / (x + 0.02);
        TradeoffPoint {
            x: *x,
            y,
            feasible: i > 0,
            facts: owned(&[("bound", &x.to_string()), ("held-out accuracy", &format!("{y:.4}"))]),
        }
    };
    Page {
        title: "Fair classification: five methods compared".to_owned(),
        lead: "The proximal bundle method has the lowest feasible objective on all three data sets, by 0.1 % to 3 %; SSG is \
               within 1 % of it after a third of its passes."
            .to_owned(),
        alerts: vec![
            "1 of 405 runs failed: 3S-Econ on COMPAS, seed 2.".to_owned(),
            "COMPAS is read from a stand-in with the same shape, not from the published file.".to_owned(),
        ],
        sections: vec![
            Section::Experiment(experiment()),
            Section::Bounds(Bounds {
                title: "Are the bounds satisfied?".to_owned(),
                constraints: vec![
                    row("demographic parity, sex = female against sex = male", 0.02, 0.0191, Some(0.0232), Some(true)),
                    row("equal opportunity", 0.05, 0.0712, Some(0.0660), Some(false)),
                    row("hinge ≤ 1.05 × best(hinge)", 0.3671, 0.352, Some(0.361), Some(true)),
                    row("false positive rate (measured only)", 0.10, 0.083, None, None),
                ],
            }),
            Section::Groups(Groups {
                title: "Rates by group".to_owned(),
                groups: vec![("female".to_owned(), 10_771), ("male".to_owned(), 21_790), ("not stated".to_owned(), 412)],
                rates: vec![
                    Rate {
                        name: "predicted positive".to_owned(),
                        training: vec![Some(0.182), Some(0.201), Some(0.195)],
                        held_out: vec![Some(0.176), Some(0.204), None],
                    },
                    Rate {
                        name: "true positive rate".to_owned(),
                        training: vec![Some(0.58), Some(0.64), Some(0.61)],
                        held_out: vec![Some(0.55), Some(0.63), Some(0.66)],
                    },
                    Rate { name: "accuracy".to_owned(), training: vec![Some(0.91), Some(0.81), Some(0.84)], held_out: vec![] },
                ],
            }),
            Section::Scores(Scores {
                title: "Scores by group".to_owned(),
                edges: (0..=40).map(|i| f64::from(i) / 10.0 - 2.0).collect(),
                threshold: 0.0,
                groups: vec![("female".to_owned(), bump(12.0, 6.0)), ("male".to_owned(), bump(15.0, 8.0))],
            }),
            Section::Tradeoff(Tradeoff {
                title: "What the bound costs".to_owned(),
                x_label: "bound on demographic parity".to_owned(),
                y_label: "held-out accuracy".to_owned(),
                percent: true,
                points: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2].iter().enumerate().map(point).collect(),
            }),
            Section::Facts(Facts {
                title: "How it was made".to_owned(),
                parts: vec![
                    FactPart {
                        title: "Run it again".to_owned(),
                        rows: owned(&[("command", "thalweg run experiments/fair.toml --store fair.db")]),
                        words: vec!["Runs that are in the store are not repeated.".to_owned()],
                    },
                    FactPart {
                        title: "Data".to_owned(),
                        rows: owned(&[("a9a, sha256", "25ef5a7f820659c9010405d079b068761b9e4a75c232a6271ee6a77fc3de52ae")]),
                        words: vec![],
                    },
                ],
            }),
        ],
    }
}

fn data_of(html: &str) -> serde_json::Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn our_code_stays_small() {
    let nothing = Page { title: String::new(), lead: String::new(), alerts: vec![], sections: vec![] };
    let size = html(&nothing).len();
    assert!(size < 60_000, "a page with nothing on it has {size} bytes, and should have fewer than 60000");
}

#[test]
fn names_cannot_leave_their_place() {
    let evil = "</script><img src=x onerror=alert(1)>{{script}}<!--";
    let mut page = demo();
    page.title = evil.to_owned();
    page.alerts.push(evil.to_owned());
    if let Section::Experiment(e) = &mut page.sections[0] {
        e.runs[0].solver = evil.to_owned();
        e.panels[0].label = evil.to_owned();
    }
    let html = html(&page);
    assert!(!html.contains("<img") && !html.contains("</script><img") && !html.contains("<!--"));
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(html.contains("<title>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;{{script}}&lt;!--</title>"));
    let data = data_of(&html);
    assert_eq!(data["title"], evil);
    assert_eq!(data["sections"][0]["runs"][0]["solver"], evil);
}

#[test]
fn the_policy_allows_exactly_the_script_and_style_that_are_there() {
    let html = html(&demo());
    let between = |from: &str, to: &str| html.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
    let policy = between("Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"));
    let last_script = html.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    assert!(policy.contains(&format!("script-src '{}'", hash(last_script))));
    assert!(policy.contains(&format!("style-src '{}'", hash(&between("<style>", "</style>")))));
    for outside in ["http://", "https://", "@import", "url("] {
        // The SVG namespace is not requested, and a clip path refers to the page itself.
        let ours = html.replace("http://www.w3.org/", "").replace("url(#", "");
        assert!(!ours.contains(outside), "the page names {outside}");
    }
}

#[test]
fn base64_is_that_of_the_standard() {
    for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!(base64(plain.as_bytes()), coded);
    }
    assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
}

#[test]
fn numbers_of_traces_are_short_and_finals_are_whole() {
    let mut page = demo();
    let Section::Experiment(e) = &mut page.sections[0] else { panic!() };
    e.runs[0].objective = Some(0.123_456_789_012_345_67);
    e.runs[0].trace = Trace {
        columns: columns(vec![
            ("iterations", vec![0.0, 25.0, 1e12]),
            ("objective", vec![1.0 / 3.0, f64::NAN, -2e-9 / 3.0]),
            ("hinge", vec![1.0 / 3.0, f64::INFINITY, 123_456_789.123]),
        ]),
        feasible: vec![false, true, true],
    };
    let data = data_of(&html(&page));
    let run = &data["sections"][0]["runs"][0];
    assert_eq!(run["objective"], 0.123_456_789_012_345_67);
    let trace = serde_json::to_string(&run["trace"]).unwrap();
    assert_eq!(
        trace,
        r#"{"columns":[["iterations",[0,25,1000000000000.0]],["objective",[0.3333333333,null,-6.666666667e-10]],["hinge",[0.3333333,null,123456800.0]]],"feasible":[0,1,1]}"#
    );
}

#[test]
fn a_level_is_reached_at_the_first_feasible_point_of_the_whole_trace() {
    let mut one = run(0, "ssg", "", 1, 4, (1.0, 0.5, 3.0));
    one.trace = Trace {
        columns: columns(vec![
            ("objective", vec![10.0, 1.05, 1.9, 1.05, 1.0]),
            ("passes_f", vec![0.0, 1.0, 2.0, 3.0, 4.0]),
            ("passes_g", vec![0.0, 1.0, 2.0, 3.0, 5.0]),
            ("seconds", vec![0.0, 0.5, 0.75, 1.0, 1.25]),
        ]),
        // The second row reaches the level but violates a constraint.
        feasible: vec![true, false, true, true, true],
    };
    (one.objective, one.feasible) = (Some(1.0), true);
    let marks = Marks::of((0, ""), std::slice::from_ref(&one));
    assert_eq!(marks, Marks { best: Some(1.0), start: Some(10.0) });
    assert_eq!(
        LEVELS.map(|tau| reached(&one, marks.level(tau).unwrap())),
        [Some([4.0, 0.75]), Some([6.0, 1.0]), Some([9.0, 1.25])]
    );
    assert_eq!(reached(&one, 0.99), None);
    // A start that is better than any feasible point (because it is infeasible) gives no scale.
    assert_eq!(Marks { best: Some(-2.0), start: Some(-3.0) }.level(0.1), Some(-1.8));
    assert_eq!(Marks { best: None, start: Some(1.0) }.level(0.1), None);
}

#[test]
fn a_solver_without_a_chosen_cell_is_shown_by_its_first() {
    let cells = [("a", false), ("b", false), ("a", false)];
    let mut runs: Vec<Run> = cells.iter().map(|(cell, _)| run(0, "ssg", cell, 1, 4, (1.0, 0.5, 3.0))).collect();
    runs.iter_mut().for_each(|r| r.tuned = false);
    assert_eq!(tuned(&runs), [true, false, true]);
    runs[1].tuned = true;
    assert_eq!(tuned(&runs), [false, true, false]);
}

#[test]
fn long_traces_are_thinned_with_all_columns_alike() {
    let page = Page {
        title: String::new(),
        lead: String::new(),
        alerts: vec![],
        sections: vec![Section::Experiment(Experiment {
            title: String::new(),
            panels: vec![Panel { label: "p".to_owned(), words: String::new() }],
            runs: vec![run(0, "ssg", "", 1, 5000, (1.0, 0.5, 3.0))],
        })],
    };
    let data = data_of(&html(&page));
    let trace = &data["sections"][0]["runs"][0]["trace"];
    let rows = trace["feasible"].as_array().unwrap().len();
    assert_eq!(rows, 500);
    for column in trace["columns"].as_array().unwrap() {
        assert_eq!(column[1].as_array().unwrap().len(), rows);
    }
}

#[test]
fn a_thousand_runs_share_the_points_of_a_page() {
    let runs = (0..1000).map(|i| {
        let (solver, end, rate) = SOLVERS[i % 5];
        let run = run(i / 100, solver, &format!("eta = {}", i % 10), (i / 50) as u64, 500, (1.0, end, rate));
        Run { tuned: i % 10 == i % 5, ..run }
    });
    let panels = (0..10).map(|p| Panel { label: format!("set {p}"), words: "minimise hinge".to_owned() });
    let (panels, runs): (Vec<_>, Vec<_>) = (panels.collect(), runs.collect());
    let experiment = Experiment { title: "Large".to_owned(), panels, runs };
    let wire = WireExperiment::of(&experiment);
    let rows = |tuned: bool| wire.runs.iter().filter(move |r| r.tuned == tuned).map(|r| r.trace.feasible.len());
    assert!(rows(true).chain(rows(false)).sum::<usize>() <= POINTS);
    // Selected runs have more points than the background.
    assert!(rows(true).min() > rows(false).max(), "{:?} {:?}", rows(true).min(), rows(false).max());
    for (wire, run) in wire.runs.iter().zip(&experiment.runs) {
        let ends = |name: &str| {
            let (_, shown) = wire.trace.columns.iter().find(|(n, _)| *n == name).unwrap();
            let whole = column(&run.trace, name);
            (shown.first().unwrap().value, shown.last().unwrap().value) == (whole[0], whole[whole.len() - 1])
        };
        assert!(ends("iterations") && ends("objective"), "{}", run.id);
    }
}

#[test]
fn seeds_with_rows_of_their_own_are_measured_against_their_own_best() {
    let mut runs = vec![];
    for (instance, shift) in [("a", 0.0), ("b", 10.0)] {
        let mut run = run(0, "one", "", 1, 3, (5.0, 0.0, 1.0));
        run.instance = instance.into();
        run.feasible = true;
        run.objective = Some(shift);
        run.trace = Trace {
            columns: vec![
                Column { name: "passes_f".into(), values: vec![0.0, 1.0, 2.0] },
                Column { name: "objective".into(), values: vec![shift + 5.0, shift + 0.01, shift] },
            ],
            feasible: vec![true; 3],
        };
        runs.push(run);
    }
    let experiment = Experiment { title: String::new(), panels: vec![Panel { label: "p".into(), words: String::new() }], runs };
    let wire = WireExperiment::of(&experiment);
    assert_eq!(wire.runs.iter().map(|r| r.best).collect::<Vec<_>>(), [Some(0.0), Some(10.0)]);
    // Both have reached 1 % after one pass.
    assert!(wire.runs.iter().all(|r| r.reached[1].is_some_and(|[passes, _]| passes == 1.0)));
}
