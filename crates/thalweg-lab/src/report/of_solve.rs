//! The page of a finished run. The values and certificates come from `thalweg solve`; this module formats them.

use std::path::Path;

use thalweg::certify::Certificate;
use thalweg::eval::Tally;
use thalweg::run::{ConstraintValue, Outcome, StopReason};
use thalweg::solvers::PointOrigin;

use super::curves::{Limit, traces};
use super::of_fit::{capital, made_by, problem_words};
use super::{BoundRow, Bounds, Experiment, FactPart, Facts, Page, Panel, Run, Section};
use crate::certificate::{
    basis, bounds_words, penalised_words, slope_words, stationary_words, switching_words, zeroth_order_words,
};
use crate::job::Finished;
use crate::output::{CROWD, few, short};
use crate::spec::Spec;
use thalweg::thousands;

/// Number of constraints to show if there are many.
const WORST: usize = 10;

/// Run and its result for the page.
pub struct SolvedRun<'a> {
    /// File of the spec.
    pub file: &'a Path,
    /// Spec.
    pub spec: &'a Spec,
    /// Displayed name of the data.
    pub data: &'a str,
    /// Description of the settings of the solver and of the record.
    pub settings: &'a str,
    /// Names of the metrics.
    pub metrics: Vec<String>,
    /// Result.
    pub finished: &'a Finished,
}

impl<'a> SolvedRun<'a> {
    fn outcome(&self) -> &'a Outcome {
        &self.finished.outcome
    }

    fn bounds(&self) -> Option<&'a Certificate> {
        self.finished.certificate.as_ref()?.bounds.as_ref()
    }
}

/// Builds the page of a run.
pub fn page(solved: &SolvedRun) -> Page {
    let o = solved.outcome();
    let mut sections = vec![];
    let constraints = bounds(solved);
    if !constraints.is_empty() {
        let (shown, total) = (constraints.len(), o.point.total);
        let title = match shown < total {
            true => format!("Bounds: the worst {shown} of {} constraints", thousands(total)),
            false => "Bounds".into(),
        };
        sections.push(Section::Bounds(Bounds { title, constraints }));
    }
    sections.push(Section::Experiment(experiment(solved)));
    sections.push(Section::Facts(facts(solved)));
    let mut alerts = vec![];
    if !o.success() || o.ended == StopReason::Interrupted {
        alerts.push(format!("{}.", capital(&solved.finished.sentence())));
    }
    if o.returned == PointOrigin::LeastInfeasible {
        alerts.push("No iterate passed the test of the output rule; the least infeasible one was returned.".into());
    }
    Page { title: title(solved), lead: lead(solved), alerts, sections }
}

fn lead(solved: &SolvedRun) -> String {
    let o = solved.outcome();
    let held =
        solved.finished.held_out.as_ref().map_or(String::new(), |p| format!(", and {} on held-out rows", short(p.objective)));
    let verdict = capital(&solved.finished.sentence());
    let mut text = format!("{verdict}. The objective is {}{held}.", short(o.point.objective));
    let violated = o.point.violated;
    text += &match (o.point.total, violated) {
        (0, _) => " There are no constraints.".into(),
        (1, 0) => " The constraint is satisfied.".into(),
        (_, 0) => " Every constraint is satisfied.".to_string(),
        (n, _) => {
            let worst = o.point.worst.as_deref().unwrap_or_default();
            let share = match n > CROWD {
                true => format!(" ({:.2} %)", 100.0 * o.point.share_violated()),
                false => String::new(),
            };
            let (some, n) = (thousands(violated), thousands(n));
            format!(" {some} of {n} constraints {} violated{share}, '{worst}' by {}.", are(violated), short(o.point.violation))
        }
    };
    if let Some(c) = solved.bounds().filter(|c| c.upper.is_finite()) {
        text += &format!(" A near-stationary point is at most {:.2e} away ({}).", c.upper, basis(c.estimated()));
    } else if let Some(s) = &o.stationary {
        text += &format!(" A near-stationary point is at most {:.2e} away ({}).", s.upper, basis(s.estimated));
    }
    text
}

fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

fn title(solved: &SolvedRun) -> String {
    match solved.spec.problem.minimize.as_str() {
        "" => format!("the bilevel problem {}", solved.data),
        minimize => format!("{minimize} on {}", solved.data),
    }
}

/// Selects the constraints to show, each with its bound.
fn shown<'a>(solved: &SolvedRun<'a>) -> Vec<(&'a ConstraintValue, f64)> {
    few(&solved.outcome().point, &solved.finished.bounds, WORST)
}

fn bounds(solved: &SolvedRun) -> Vec<BoundRow> {
    let rows = shown(solved).into_iter();
    rows.map(|(c, bound)| BoundRow {
        name: c.name.clone(),
        bound,
        value: c.value + bound,
        held_out: solved.finished.held_out.as_ref().and_then(|p| p.constraints.get(c.index)).map(|held| held.value + bound),
        satisfied: Some(c.satisfied),
    })
    .collect()
}

fn experiment<'a>(solved: &SolvedRun<'a>) -> Experiment {
    let o = solved.outcome();
    let limit = |(c, bound): (&'a ConstraintValue, f64)| Limit { name: &c.name, index: c.index, bound, tolerance: c.tolerance };
    let limits: Vec<Limit> = shown(solved).into_iter().map(limit).collect();
    let (trace, certified) = traces(&o.trace, o.point.total, &limits, &solved.metrics);
    let run = Run {
        id: String::new(),
        panel: 0,
        instance: String::new(),
        solver: o.solver.clone(),
        cell: String::new(),
        seed: o.seed,
        tuned: true,
        ended: solved.finished.message(),
        failed: solved.finished.status.is_failure(),
        feasible: o.point.feasible,
        objective: Some(o.point.objective),
        violation: (o.point.total > 0).then_some(o.point.violation),
        certificate: solved.bounds().map(|c| [c.lower, c.upper]),
        iterations: o.iterations,
        passes_f: o.passes.objective,
        passes_g: o.passes.constraints,
        samples: o.counts.samples(),
        seconds: o.seconds,
        trace,
        certified,
        notes: vec![],
    };
    let p = &solved.spec.problem;
    let panel = Panel { label: solved.data.into(), words: problem_words(&p.minimize, &p.subject_to) };
    Experiment { title: "The run".into(), panels: vec![panel], runs: vec![run] }
}

fn facts(solved: &SolvedRun) -> Facts {
    let o = solved.outcome();
    let mut parts = vec![];
    let mut part = |title: &str, rows: Vec<(String, String)>, words: Vec<String>| {
        let rows: Vec<_> = rows.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        if !rows.is_empty() || !words.is_empty() {
            parts.push(FactPart { title: title.into(), rows, words });
        }
    };
    let pair = |name: &str, value: String| (name.to_string(), value);
    let mut rows = vec![
        pair("minimise", solved.spec.problem.minimize.clone()),
        pair("subject to", solved.spec.problem.subject_to.join("; ")),
        pair("data", solved.data.into()),
        pair("variables", thousands(o.point.x.len())),
        pair("constraints", if o.point.total > 0 { thousands(o.point.total) } else { String::new() }),
        pair("fingerprint", solved.finished.problem.clone()),
    ];
    for r in &solved.finished.references {
        let value = format!(
            "{}, {}; {}norm {}, {} evaluations",
            short(r.value),
            r.proof(),
            if r.shortest { "least " } else { "" },
            short(r.norm),
            thousands(r.evaluations as usize)
        );
        rows.push((format!("best({})", r.expression), value));
    }
    part("Problem", rows, vec![]);

    let certificate = solved.finished.certificate.as_ref();
    let proved = [
        o.slope.map(slope_words),
        o.stationary.as_ref().map(stationary_words),
        solved.bounds().map(bounds_words),
        certificate.and_then(|c| c.switching.as_ref()).map(switching_words),
        certificate.and_then(|c| c.penalised.as_ref()).map(penalised_words),
        o.zeroth_order.as_ref().map(zeroth_order_words),
    ];
    let proved: Vec<String> = proved.iter().flatten().flat_map(|text| text.lines()).map(|line| capital(line) + ".").collect();
    part("How near the point is to stationary", vec![], proved);

    let few = o.multipliers.iter().flatten().filter(|_| o.point.total <= CROWD);
    let multipliers = few.map(|m| short(*m)).collect::<Vec<_>>().join(", ");
    let best = match &o.best_feasible {
        Some(best) => short(best.objective),
        None => "no recorded point was feasible".into(),
    };
    let budget = &solved.spec.budget;
    let limits = [
        budget.iterations.map(|n| format!("{n} iterations")),
        budget.passes.map(|n| format!("{n} passes")),
        budget.samples.map(|n| format!("{n} samples")),
        budget.seconds.map(|n| format!("{n} seconds")),
    ];
    part(
        "Solver",
        vec![
            pair("description", solved.file.display().to_string()),
            pair("solver", o.solver.clone()),
            pair("settings", solved.settings.into()),
            pair("budget", limits.into_iter().flatten().collect::<Vec<_>>().join(", ")),
            pair("seed", o.seed.to_string()),
            pair("ended", solved.finished.message()),
            pair("multipliers", multipliers),
            pair("objective of the best recorded feasible point", best),
            pair("created by", made_by()),
        ],
        vec![],
    );

    let tally = |t: &Tally| match t.calls {
        0 => String::new(),
        _ => format!("{} calls, {} samples", thousands(t.calls as usize), thousands(t.samples as usize)),
    };
    let count = |n: u64| if n == 0 { String::new() } else { thousands(n as usize) };
    let mut rows = vec![
        pair("iterations", thousands(o.iterations as usize)),
        pair("passes", format!("{:.1} of the objective, {:.1} of the constraints", o.passes.objective, o.passes.constraints)),
        pair("seconds, without measuring", format!("{:.2}", o.seconds)),
        pair("values of the objective", tally(&o.counts.objective_values)),
        pair("subgradients of the objective", tally(&o.counts.objective_subgradients)),
        pair("values of constraints", tally(&o.counts.constraint_values)),
        pair("subgradients of constraints", tally(&o.counts.constraint_subgradients)),
        pair("projections", count(o.counts.projections)),
        pair("steps of inner problems", count(o.counts.inner)),
    ];
    rows.extend(o.counts.more.iter().map(|(name, n)| (name.clone(), count(*n))));
    part("Work", rows, vec![]);
    part("Notes", vec![], o.notes.iter().map(ToString::to_string).collect());
    Facts { title: "Settings and counts".into(), parts }
}
