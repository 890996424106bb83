//! The report of experiments: reads the store and assembles the content of the page. The layout is in [`crate::report`].

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thalweg::solvers::SolverName;

use super::grid::{TRIAL, describe, panel};
use super::host::RELEASE;
use super::store::{Curve, Member, Part, Store, StoredExperiment, StoredRun};
use crate::Result;
use crate::report::{Column, Experiment, FactPart, Facts, Page, Panel, Run, Section, Trace};
use crate::verdict::Status;

/// Builds the page of these experiments.
pub fn page(store: &Store, experiments: &[StoredExperiment]) -> Result<Page> {
    let title = match experiments {
        [one] => one.title.clone(),
        several => format!("{} experiments", several.len()),
    };
    let mut page = Page { title, lead: String::new(), alerts: vec![], sections: vec![] };
    let mut leads = vec![];
    for experiment in experiments {
        let read = LoadedExperiment::of(store, experiment)?;
        leads.extend(read.lead());
        page.alerts.extend(read.alerts());
        let facts = read.facts();
        page.sections.extend([Section::Experiment(read.into_experiment()), Section::Facts(facts)]);
    }
    page.lead = if leads.is_empty() { "No run is finished yet.".into() } else { leads.join(" ") };
    Ok(page)
}

/// Returns the bounds on the near-stationarity of the returned point of a run.
pub fn certificate_of(store: &Store, run: &StoredRun) -> Result<Option<[f64; 2]>> {
    Ok(store.certificates(&run.key)?.and_then(|c| c.returned.interval()).or_else(|| own_certificate(run)))
}

/// Returns the same from the run alone, without the certificates that were computed later.
fn own_certificate(run: &StoredRun) -> Option<[f64; 2]> {
    run.outcome.as_ref()?.certificate.as_ref()?.interval()
}

/// Experiment with its finished runs.
struct LoadedExperiment<'a> {
    stored: &'a StoredExperiment,
    /// Number of planned runs.
    planned: usize,
    runs: Vec<(Member, StoredRun)>,
    shown: Vec<Run>,
    /// Solvers and panels for which the displayed cell was not selected by the rule.
    preliminary: Vec<String>,
    /// Number of certificates of iterates that differ from those of the run.
    differ: usize,
}

impl<'a> LoadedExperiment<'a> {
    fn of(store: &Store, stored: &'a StoredExperiment) -> Result<Self> {
        let mut members = store.members(&stored.name)?;
        let planned = members.len();
        let mut runs = vec![];
        let preliminary = settle(store, &mut members)?;
        for member in members {
            if let Some(run) = store.run(&member.run)? {
                runs.push((member, run));
            }
        }
        let mut read = LoadedExperiment { stored, planned, runs, shown: vec![], preliminary, differ: 0 };
        for (member, run) in &read.runs {
            let recorded = store.curves(&run.key, Part::Recorded)?;
            let certificates = store.certificates(&run.key)?;
            if certificates.as_ref().is_some_and(|c| c.returned.repeats == Some(false)) {
                read.differ += 1;
            }
            let certified = match &certificates {
                Some(c) => certified(&c.curves),
                None => certified(&recorded),
            };
            let returned = certificates.as_ref().and_then(|c| c.returned.interval());
            read.shown.push(Run {
                id: run.key.chars().take(10).collect(),
                panel: read.panel_of(member),
                instance: run.outcome.as_ref().map_or_else(String::new, |o| o.problem.clone()),
                solver: member.solver.clone(),
                cell: member.cell.clone(),
                seed: member.seed,
                tuned: member.tuned,
                ended: run.ended.clone(),
                failed: run.status.is_failure(),
                feasible: run.status == Status::Feasible,
                objective: run.objective,
                violation: run.violation,
                certificate: returned.or_else(|| own_certificate(run)),
                iterations: run.iterations,
                passes_f: run.passes_f,
                passes_g: run.passes_g,
                samples: run.samples,
                seconds: run.seconds,
                trace: trace(&recorded, run),
                certified,
                notes: run.notes.iter().map(ToString::to_string).collect(),
            });
        }
        Ok(read)
    }

    fn panel_of(&self, member: &Member) -> usize {
        let at = |(d, p): &(String, String)| (d, p) == (&member.data, &member.problem);
        self.stored.facts.panels.iter().position(at).unwrap_or(0)
    }

    fn into_experiment(self) -> Experiment {
        let words =
            |i: usize| self.runs.iter().find(|(m, _)| self.panel_of(m) == i).map_or(String::new(), |(_, run)| problem(run));
        let panels = self.stored.facts.panels.iter().enumerate();
        Experiment {
            title: self.stored.title.clone(),
            panels: panels.map(|(i, (data, problem))| Panel { label: panel(data, problem), words: words(i) }).collect(),
            runs: self.shown,
        }
    }

    /// Summarises which solver is best, by how much, and whether it is feasible: a sentence for each panel, or one for all if
    /// there are many.
    fn lead(&self) -> Vec<String> {
        let several = self.shown.iter().any(|run| self.shown.first().is_some_and(|first| first.seed != run.seed));
        let every = if several { " with every seed" } else { "" };
        let standings: Vec<Standing> = (0..self.stored.facts.panels.len()).filter_map(|i| self.standing(i)).collect();
        if standings.len() > SENTENCES {
            return overall(&standings, &self.stored.facts.solvers, every);
        }
        let mut sentences = vec![];
        for Standing { label, ranked, missed } in &standings {
            let mut sentence = match ranked.as_slice() {
                [] => format!("On {label} no solver returned a feasible point{every}."),
                [(best, solver)] => format!("On {label} only {solver} returned feasible points: objective {best:.6}."),
                [(best, solver), (second, next), ..] => format!(
                    "On {label} {solver} has the smallest feasible objective, {best:.6}, before {next} with {second:.6}{}.",
                    apart(*best, *second)
                ),
            };
            if !missed.is_empty() && !ranked.is_empty() {
                sentence += &format!(" Infeasible{every}: {}.", missed.join(", "));
            }
            sentences.push(sentence);
        }
        sentences
    }

    /// Ranks the solvers on a panel; `None` if none has run.
    fn standing(&self, i: usize) -> Option<Standing<'_>> {
        let (data, problem) = self.stored.facts.panels.get(i)?;
        let mut standing = Standing { label: panel(data, problem), ranked: vec![], missed: vec![] };
        for solver in &self.stored.facts.solvers {
            let runs: Vec<&Run> = self.shown.iter().filter(|r| r.panel == i && r.tuned && r.solver == *solver).collect();
            let mut values: Vec<f64> = runs.iter().filter(|r| r.feasible).filter_map(|r| r.objective).collect();
            values.sort_by(f64::total_cmp);
            match values.get(values.len().saturating_sub(1) / 2) {
                Some(&middle) if values.len() == runs.len() => standing.ranked.push((middle, solver)),
                _ if !runs.is_empty() => standing.missed.push(solver),
                _ => {}
            }
        }
        standing.ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!standing.ranked.is_empty() || !standing.missed.is_empty()).then_some(standing)
    }

    fn alerts(&self) -> Vec<String> {
        let mut alerts: Vec<String> = vec![];
        let facts = &self.stored.facts;
        alerts.extend(facts.stand_ins.iter().map(|(label, why)| format!("{label} is a stand-in: {why}")));
        if self.runs.len() < self.planned {
            alerts.push(format!("{} of {} runs are finished.", self.runs.len(), self.planned));
        }
        // The ranking depends on the tolerance: a looser bound has a lower optimum.
        let loosest = self.runs.iter().filter_map(|(_, run)| run.spec.feasibility).fold(0.0, f64::max);
        if loosest > USUAL {
            alerts.push(format!(
                "A point counts as feasible if no constraint is exceeded by more than {loosest} (times its bound, if that is above 1)."
            ));
        }
        let failed: Vec<&Run> = self.shown.iter().filter(|r| r.failed).collect();
        if let Some(first) = failed.first() {
            let reason = first.ended.trim_end_matches('.');
            alerts.push(match failed.len() {
                1 => format!("One run failed, of {}: {reason}.", first.solver),
                n => format!("{n} runs failed; the first, of {}: {reason}.", first.solver),
            });
        }
        alerts.extend(facts.notes.iter().map(|note| format!("{note}.")));
        if !self.preliminary.is_empty() {
            let list = self.preliminary.join("; ");
            alerts.push(format!("Not all cells have run; the best so far is shown for {list}."));
        }
        if self.differ > 0 {
            let words = "were certified by a repetition whose iterates differ: another build or machine made them";
            alerts.push(format!("{} runs {words}.", self.differ));
        }
        let machines: BTreeSet<String> = self.runs.iter().map(|(_, run)| run.host.to_string()).collect();
        if machines.len() > 1 {
            alerts.push(format!("The runs were made on {} machines or builds: do not compare seconds.", machines.len()));
        }
        if self.runs.iter().any(|(_, run)| run.host.build != RELEASE) {
            alerts.push("Some runs were made by a build with debug assertions: seconds are too long.".into());
        }
        alerts
    }

    fn facts(&self) -> Facts {
        let stored = self.stored;
        let mut parts = vec![];
        let mut about = FactPart { title: "What was run".into(), ..FactPart::default() };
        let selection = stored.facts.tuned.as_ref().map(ToString::to_string);
        about.words.extend([stored.about.clone()].into_iter().chain(selection).filter(|w| !w.is_empty()));
        about.rows.push(("runs".into(), format!("{} of {}", self.runs.len(), self.planned)));
        let seeds: BTreeSet<u64> = self.runs.iter().map(|(m, _)| m.seed).collect();
        about.rows.push(("seeds".into(), seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")));
        if let Some((_, run)) = self.runs.iter().find(|(m, _)| m.tuned).or(self.runs.first()) {
            for key in ["budget", "record", "stop", "measure", "repair"] {
                about.rows.extend(run.spec.more.get(key).map(|value| (key.into(), words(value))));
            }
            about.rows.extend(run.spec.feasibility.map(|v| ("feasibility".into(), words(&v.into()))));
        }
        parts.push(about);
        for (data, name) in &stored.facts.panels {
            let Some((_, run)) = self.runs.iter().find(|(m, _)| (&m.data, &m.problem) == (data, name)) else { continue };
            let mut part = FactPart { title: format!("Problem: {}", panel(data, name)), ..FactPart::default() };
            part.rows.push(("problem".into(), problem(run)));
            part.rows.push(("as built".into(), run.outcome.as_ref().map_or_else(String::new, |o| o.problem.clone())));
            part.rows.push(("data".into(), words(&json!(run.spec.data))));
            part.rows.push(("sha256 of the data".into(), run.data_hash.clone()));
            part.words.extend(run.outcome.iter().flat_map(|o| &o.problem_notes).map(ToString::to_string));
            parts.push(part);
        }
        for solver in &stored.facts.solvers {
            let runs: Vec<&(Member, StoredRun)> = self.runs.iter().filter(|(m, _)| m.solver == *solver).collect();
            let Some((_, first)) = runs.first() else { continue };
            let mut part = FactPart { title: format!("Solver: {solver}"), ..FactPart::default() };
            part.rows.push(("method".into(), format!("{}, version {} of its code", first.method, first.version)));
            // A store may contain runs of solvers that no longer exist.
            let solver = first.method.parse::<SolverName>().ok();
            part.rows.extend(solver.map(|solver| ("reference".into(), solver.citation().into())));
            let mut settings: Vec<(String, String)> = vec![];
            for (member, run) in runs.iter().filter(|(m, _)| m.tuned) {
                let row = (format!("settings on {}", panel(&member.data, &member.problem)), words(&run.spec.solver));
                if !settings.contains(&row) {
                    settings.push(row);
                }
            }
            part.rows.extend(settings);
            let cells: BTreeSet<&str> = runs.iter().map(|(m, _)| m.cell.trim_end_matches(TRIAL)).collect();
            if cells.len() > 1 {
                part.rows.push(("cells of its grid".into(), cells.len().to_string()));
            }
            parts.push(part);
        }
        parts.extend(self.published());
        let mut machines = FactPart { title: "Machine".into(), ..FactPart::default() };
        let known: BTreeSet<String> = self.runs.iter().map(|(_, run)| run.host.to_string()).collect();
        machines.rows.extend(known.into_iter().map(|m| ("machine".into(), m)));
        parts.push(machines);
        parts.push(FactPart { title: "Spec".into(), rows: vec![("spec".into(), stored.spec.clone())], words: vec![] });
        Facts { title: format!("Methods: {}", stored.title), parts }
    }

    /// Lists the passes of the selected runs as counted in publications, where the spec defines the count.
    fn published(&self) -> Option<FactPart> {
        let mut rows = vec![];
        for (m, run) in self.runs.iter().filter(|(m, _)| m.tuned) {
            let Some([f, g]) = self.stored.facts.published(m, run.iterations) else { continue };
            let ours = format!("by our rule {} and {}", rounded(run.passes_f), rounded(run.passes_g));
            let words = format!("DP(f) {}, DP(g) {}; {ours}; {} iterations", rounded(f), rounded(g), run.iterations);
            rows.push((describe(&panel(&m.data, &m.problem), &m.solver, &m.cell, m.seed), words));
        }
        let title = "Passes of objective and constraints as published".into();
        (!rows.is_empty()).then(|| FactPart { title, rows, words: vec![] })
    }
}

/// Formats a number of passes.
fn rounded(passes: f64) -> String {
    if passes < 1e4 { format!("{passes:.3}").trim_end_matches('0').trim_end_matches('.').into() } else { format!("{passes:.0}") }
}

/// Largest tolerance of constraints that is not mentioned.
const USUAL: f64 = 1e-6;
/// Maximum number of panels with a sentence each; above it, one sentence covers all panels, and the cards below show each.
const SENTENCES: usize = 4;

/// Ranking of the solvers on one panel.
struct Standing<'a> {
    label: String,
    /// Median objective of the selected runs of each solver whose points are all feasible, smallest first.
    ranked: Vec<(f64, &'a str)>,
    /// Solvers with an infeasible point.
    missed: Vec<&'a str>,
}

/// Counts how often each solver is best, and how often its points are feasible.
fn overall(standings: &[Standing], solvers: &[String], every: &str) -> Vec<String> {
    let of = standings.len();
    let first = |s: &Standing| s.ranked.first().map(|r| r.1.to_owned());
    let mut wins: Vec<(usize, &String)> =
        solvers.iter().map(|solver| (standings.iter().filter(|s| first(s).as_ref() == Some(solver)).count(), solver)).collect();
    wins.retain(|w| w.0 > 0);
    wins.sort_by_key(|w| std::cmp::Reverse(w.0));
    let mut sentences = vec![];
    if !wins.is_empty() {
        let list: Vec<String> = wins.iter().map(|(n, solver)| format!("{solver} on {n}")).collect();
        sentences.push(format!("Of {of} problems, the smallest feasible objective is that of {}.", list.join(", of ")));
    }
    let mut always: Vec<&str> = vec![];
    let mut sometimes = vec![];
    for solver in solvers {
        let ranked = standings.iter().filter(|s| s.ranked.iter().any(|r| r.1 == solver)).count();
        let ran = ranked + standings.iter().filter(|s| s.missed.contains(&solver.as_str())).count();
        if ran > 0 && ranked == ran {
            always.push(solver);
        } else if ran > 0 {
            sometimes.push(format!("{solver} on {ranked} of {ran}"));
        }
    }
    if !always.is_empty() {
        sentences.push(format!("Feasible{every} wherever they ran: {}.", always.join(", ")));
    }
    if !sometimes.is_empty() {
        sentences.push(format!("Feasible{every} on some: {}.", sometimes.join(", ")));
    }
    let none: Vec<&str> = standings.iter().filter(|s| s.ranked.is_empty()).map(|s| s.label.as_str()).collect();
    if !none.is_empty() {
        sentences.push(format!("No solver returned a feasible point{every} on {}.", none.join("; ")));
    }
    sentences
}

/// Shows the cell with the best feasible result so far where no cell has been selected because not all have run. Returns the
/// solvers and panels affected.
fn settle(store: &Store, members: &mut [Member]) -> Result<Vec<String>> {
    let group = |m: &Member| (m.data.clone(), m.problem.clone(), m.solver.clone());
    let chosen: BTreeSet<_> = members.iter().filter(|m| m.tuned).map(group).collect();
    // The best cell of each group so far: feasible ones first, then by objective.
    type Group = (String, String, String);
    let mut best: Vec<(Group, (bool, f64), String)> = vec![];
    for m in members.iter().filter(|m| !chosen.contains(&group(m))) {
        let Some(run) = store.run(&m.run)? else { continue };
        let rank = (run.status != Status::Feasible, run.objective.unwrap_or(f64::INFINITY));
        match best.iter_mut().find(|(g, ..)| *g == group(m)) {
            None => best.push((group(m), rank, m.cell.clone())),
            Some((_, known, cell)) if (rank.0, rank.1) < (known.0, known.1) => (*known, *cell) = (rank, m.cell.clone()),
            Some(_) => {}
        }
    }
    for m in members.iter_mut() {
        let of = group(m);
        m.tuned |= best.iter().any(|(g, _, cell)| *g == of && *cell == m.cell);
    }
    Ok(best.into_iter().map(|((data, problem, solver), ..)| format!("{solver} on {}", panel(&data, &problem))).collect())
}

/// Formats the difference of two objectives in per cent, where that is defined.
fn apart(best: f64, second: f64) -> String {
    let share = (second - best) / best.abs();
    match share {
        s if !s.is_finite() => String::new(),
        s if s < 5e-5 => " (equal to four digits)".into(),
        s => format!(" ({:.2}% more)", 100.0 * s),
    }
}

/// Converts recorded iterates for the page. Bounds are added to the constraint values, so that they match the names of the
/// terms.
fn trace(curves: &[Curve], run: &StoredRun) -> Trace {
    let mut columns: Vec<Column> = vec![];
    let mut feasible = vec![];
    let mut constraint = 0;
    for curve in curves {
        let mut numbers = curve.numbers.clone();
        match (curve.role.as_str(), curve.name.as_str()) {
            ("value", "feasible") => {
                feasible = numbers.iter().map(|v| *v == 1.0).collect();
                continue;
            }
            ("value", "step" | "stationarity_lower" | "stationarity_upper") => continue,
            ("constraint", _) => {
                let bound = run.outcome.as_ref().and_then(|o| o.bounds.get(constraint)).copied().unwrap_or(0.0);
                numbers.iter_mut().for_each(|v| *v += bound);
                constraint += 1;
            }
            _ => {}
        }
        let name = match (curve.role.as_str(), curve.name.as_str()) {
            ("value", "norm") => "norm of the point",
            ("value", "stationarity") => "near-stationarity by switching",
            ("value", "penalty_stationarity") => "near-stationarity of the smoothed penalty",
            (_, name) => name,
        };
        // Without constraints there is no violation; a constraint that is also measured is shown once.
        if numbers.iter().any(|v| v.is_finite()) && !columns.iter().any(|c| c.name == name) {
            columns.push(Column { name: name.into(), values: numbers });
        }
    }
    Trace { columns, feasible }
}

/// Selects the iterates that have bounds.
fn certified(curves: &[Curve]) -> Trace {
    let column = |name: &str| curves.iter().find(|c| c.name == name).map(|c| c.numbers.as_slice());
    let (Some(lower), Some(upper)) = (column("stationarity_lower"), column("stationarity_upper")) else {
        return Trace::default();
    };
    let there: Vec<usize> = (0..upper.len()).filter(|&i| upper[i].is_finite()).collect();
    let pick = |numbers: &[f64]| there.iter().filter_map(|&i| numbers.get(i).copied()).collect::<Vec<f64>>();
    let mut columns: Vec<Column> =
        curves.iter().filter(|c| c.role == "axis").map(|c| Column { name: c.name.clone(), values: pick(&c.numbers) }).collect();
    columns.push(Column { name: "lower".into(), values: pick(lower) });
    columns.push(Column { name: "upper".into(), values: pick(upper) });
    let feasible = column("feasible").map_or_else(|| vec![true; there.len()], |f| pick(f).iter().map(|v| *v == 1.0).collect());
    Trace { columns, feasible }
}

/// Describes the problem of a run.
fn problem(run: &StoredRun) -> String {
    let p = &run.spec.problem;
    let subject = if p.subject_to.is_empty() { String::new() } else { format!(" subject to {}", p.subject_to.join(", ")) };
    let domain = p.domain.as_ref().map_or(String::new(), |domain| format!(", domain {}", words(domain)));
    match &p.minimize {
        Some(minimize) => format!("minimise {minimize}{subject}{domain}"),
        None => format!("bilevel {}", words(run.spec.data.bilevel.as_ref().unwrap_or(&Value::Null))),
    }
}

/// Formats settings as they are written in a spec.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(s) => s.clone(),
        Value::Number(n) => match n.as_f64() {
            Some(v) if v != 0.0 && !(1e-3..1e6).contains(&v.abs()) => format!("{v:e}"),
            Some(v) => format!("{v}"),
            None => n.to_string(),
        },
        Value::Bool(b) => b.to_string(),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let inside = |v: &Value| if v.is_object() || v.is_array() { format!("{{ {} }}", words(v)) } else { words(v) };
            // Names come first, as in a spec.
            let (names, others): (Vec<_>, Vec<_>) = map.iter().partition(|(key, _)| ["name", "rule"].contains(&key.as_str()));
            let all = names.into_iter().chain(others);
            all.map(|(key, v)| format!("{key} = {}", inside(v))).collect::<Vec<_>>().join(", ")
        }
    }
}
