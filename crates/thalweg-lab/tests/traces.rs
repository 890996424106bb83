//! Trajectories on a9a from the start "sin", against an independent implementation in another language that shares nothing
//! with this one but the formulas. Inside the band 0 < g < nu of the penalty rounding is amplified, so those rows end early.

#![allow(clippy::unwrap_used)] // helpers of tests may give up like tests

use std::path::Path;

use thalweg::run::{self, Options};
use thalweg_lab::data::catalogue;
use thalweg_lab::spec::Spec;

/// Iteration, objective, violation.
type Rows = &'static [(u64, f64, f64)];

const SSG: &str = "name = \"ssg\"\neta = 0.05\ntol = 1e-5";
const SSG_DIMINISHING: &str = "name = \"ssg\"\neta = { rule = \"inv-sqrt\", c = 0.05 }\ntol = { rule = \"inv-sqrt\", c = 0.02 }";
const PENALTY_10: &str = "name = \"threes-econ\"\nbeta = 10\nalpha = 0.01";
const PENALTY_100: &str = "name = \"threes-econ\"\nbeta = 100\nalpha = 0.01";

const WANTED: &[(&str, f64, Rows)] = &[
    (SSG, 0.36, &[(100, 0.07956774159728264, 0.07521176148476977), (300, 0.1531440216796205, 0.02307715050216602)]),
    (SSG, 0.45, &[(100, 0.013003848609247637, 0.00020298291942710822), (300, 0.004365950887727454, -0.00260146647898013)]),
    (SSG_DIMINISHING, 0.36, &[(100, 0.031280226732867844, 0.11146697745346262), (300, 0.043795511994589864, 0.102171173844613)]),
    (PENALTY_10, 0.36, &[(100, 0.07826979297517567, 0.05140902808412934), (300, 0.12281916139759835, 0.01087503245938476)]),
    (PENALTY_10, 0.45, &[(100, 0.004062186621520358, 0.00036838108377595935)]),
    (PENALTY_100, 0.36, &[(100, 0.19790174994866977, 0.0007500124724159063)]),
    (PENALTY_100, 0.45, &[(100, 0.1416798295819608, -0.019495683785159812)]),
];

#[test]
fn trajectories_agree_with_an_independent_implementation() {
    for (solver, bound, rows) in WANTED {
        let last = rows.last().unwrap().0;
        let at: Vec<String> = rows.iter().map(|r| r.0.to_string()).collect();
        let text = format!(
            "[data]\nname = \"a9a\"\n[problem]\nminimize = \"roc_gap(thresholds = 400, low = -3.0, high = 3.0)\"\n\
             subject_to = [\"hinge <= {bound}\"]\ndomain = {{ ball = 30.0 }}\nstart = \"sin\"\n[solver]\n{solver}\n\
             [budget]\niterations = {last}\n[record]\nat = [{}]\n",
            at.join(", ")
        );
        let spec = Spec::parse(&text, Path::new("spec")).unwrap();
        let mut ready = spec.ready(Path::new("spec"), &catalogue::Options { data_dir: None }).unwrap();
        let options = Options { budget: spec.budget.clone(), record: spec.record.clone(), ..Options::default() };
        let outcome = run::minimize(&ready.problem, &mut *ready.solver, &ready.start, &options, &mut ()).unwrap();
        assert_eq!(outcome.trace.len(), rows.len());
        for (row, &(t, objective, violation)) in outcome.trace.iter().zip(*rows) {
            assert_eq!(row.iteration, t);
            assert!((row.objective / objective - 1.0).abs() < 1e-8, "{solver} {bound} {t}: {} {objective}", row.objective);
            assert!((row.violation - violation).abs() < 1e-10, "{solver} {bound} {t}: {} {violation}", row.violation);
        }
    }
}
