//! Time for a store of 1,000 runs with 500 recorded iterates each: seconds to fill it, to read it, and to build the report.
//!
//! `cargo bench -p thalweg-lab --bench report [-- OUT.html]` also writes the page, for inspection.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::time::Instant;

use serde_json::json;
use thalweg::solvers::SolverName;
use thalweg_lab::lab::host::Host;
use thalweg_lab::lab::page::page;
use thalweg_lab::lab::store::{Curve, Facts, Member, RunSpec, Store, StoredExperiment, StoredRun};
use thalweg_lab::report::html;
use thalweg_lab::verdict::Status;

const PANELS: usize = 4;
const SOLVERS: usize = 5;
const CELLS: usize = 10;
const SEEDS: usize = 5;
const POINTS: usize = 500;

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("many.sqlite");
    let mut store = Store::create(&file).unwrap();
    let mut runs = vec![];
    let mut members = vec![];
    for (i, (panel, solver, cell, seed)) in (0..PANELS)
        .flat_map(|p| (0..SOLVERS).flat_map(move |s| (0..CELLS).flat_map(move |c| (0..SEEDS).map(move |k| (p, s, c, k)))))
        .enumerate()
    {
        let (run, curves) = run(i, panel, solver, cell, seed);
        members.push(Member {
            run: run.key.clone(),
            data: format!("data {panel}"),
            problem: String::new(),
            solver: format!("solver {solver}"),
            cell: format!("eta = {}", 0.01 * (cell + 1) as f64),
            seed: seed as u64,
            tuned: cell == solver,
        });
        runs.push((run, curves));
    }
    let timed = |what: &str, begun: Instant| println!("{what:32} {:7.2} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    store.finish_all(runs.iter().map(|(run, curves)| (run, curves.as_slice()))).unwrap();
    let facts = Facts {
        panels: (0..PANELS).map(|p| (format!("data {p}"), String::new())).collect(),
        solvers: (0..SOLVERS).map(|s| format!("solver {s}")).collect(),
        ..Facts::default()
    };
    let stored = StoredExperiment {
        name: "many".into(),
        title: "1,000 runs".into(),
        about: String::new(),
        spec: "[data]\n".into(),
        facts,
    };
    store.describe(&stored, &members).unwrap();
    timed("fill the store", begun);
    drop(store);

    let begun = Instant::now();
    let store = Store::open(&file).unwrap();
    let page = page(&store, &store.experiments().unwrap()).unwrap();
    timed("open and read it", begun);
    let second = Instant::now();
    let text = html(&page);
    timed("thin and write the page", second);
    timed("all that 'lab report' does", begun);
    println!("{} runs, {} points, store {} KB, page {} KB", runs.len(), runs.len() * POINTS, size(&file), text.len() / 1024);
    if let Some(out) = std::env::args().skip(1).find(|a| !a.starts_with("--")) {
        std::fs::write(out, text).unwrap();
    }
}

fn size(file: &std::path::Path) -> u64 {
    std::fs::metadata(file).unwrap().len() / 1024
}

/// Returns a run with a noisy decreasing objective that violates the constraints now and then.
fn run(i: usize, panel: usize, solver: usize, cell: usize, seed: usize) -> (StoredRun, Vec<Curve>) {
    let mut state = i as u64 + 1;
    let mut noise = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let speed = 0.002 * (1 + solver) as f64 / (1.0 + (cell as f64 - solver as f64).abs());
    let t: Vec<f64> = (0..POINTS).map(|k| 10.0 * k as f64).collect();
    let objective: Vec<f64> = t.iter().map(|t| 0.2 + 0.1 * panel as f64 + (-speed * t).exp() + 0.01 * noise()).collect();
    let violation: Vec<f64> = t.iter().map(|t| 0.1 * (-speed * t).exp() - 0.01 + 0.02 * noise()).collect();
    let feasible = violation.iter().map(|v| f64::from(*v <= 0.0)).collect();
    let gauge = |base: f64, noise: &mut dyn FnMut() -> f64| (0..POINTS).map(|_| base + 0.1 * noise()).collect::<Vec<f64>>();
    let last = |v: &[f64]| v.last().copied();
    let finished = StoredRun {
        key: format!("{i:020x}"),
        method: SolverName::Ssg.to_string(),
        version: 1,
        seed: seed as u64,
        status: if last(&violation) <= Some(0.0) { Status::Feasible } else { Status::Infeasible },
        ended: "stopped at the iteration limit".into(),
        objective: last(&objective),
        violation: last(&violation),
        iterations: 5000,
        passes_f: 5000.0,
        passes_g: 5000.0,
        samples: 1 << 30,
        seconds: 5.0,
        point: Some(vec![0.5; 123]),
        spec: RunSpec::new(
            &json!({ "data": { "name": "a9a" }, "problem": { "minimize": "hinge" }, "solver": { "name": SolverName::Ssg } }),
        ),
        outcome: None,
        notes: vec![],
        host: Host::current(),
        data_hash: "0".repeat(64),
        finished: "2026-01-01T00:00:00Z".into(),
    };
    let column = |role: &str, name: &str, numbers: Vec<f64>| Curve { role: role.into(), name: name.into(), numbers };
    let scaled = |by: f64| t.iter().map(|t| by * t).collect::<Vec<f64>>();
    let curves = vec![
        column("axis", "iterations", t.clone()),
        column("axis", "passes_f", scaled(1.0)),
        column("axis", "passes_g", scaled(1.2)),
        column("axis", "samples", scaled(32_561.0)),
        column("axis", "seconds", scaled(0.001)),
        column("value", "objective", objective),
        column("value", "violation", violation.clone()),
        column("value", "feasible", feasible),
        column("constraint", "hinge", violation),
        column("gauge", "accuracy", gauge(0.8, &mut noise)),
        column("gauge", "held-out accuracy", gauge(0.79, &mut noise)),
        column("gauge", "demographic_parity", gauge(0.1, &mut noise)),
    ];
    (finished, curves)
}
