//! The bundle method compared with other solvers on the problems of `experiments/compare-*.toml`: passes and seconds until a
//! point is (a) certified as nearly stationary, (b) as good as the best known, (c) certified as nearly stationary by the
//! published, coarser measure. Prints Markdown.
//!
//! `cargo bench -p thalweg-lab --bench compare [-- --quick] [-- INSTANCE]`, where INSTANCE is part of a spec's name. A full run
//! takes about 10 minutes on one idle core, `--quick` (a tiny grid, 300 iterations) some seconds.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)] // benchmarks print and may panic

use std::path::Path;
use std::time::Instant;

use thalweg::certify::{Bounds, certify};
use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::Learning;
use thalweg::math::{reduce, vec};
use thalweg::oracle::Description;
use thalweg::run;
use thalweg::solvers::{AnySolver, Config, FirstOrder, SolverName, Verdict};
use thalweg_lab::job::Job;
use thalweg_lab::spec::Spec;

const INSTANCES: [&str; 4] = ["p1-a9a", "p1-compas", "p2-a9a", "p2-compas"];
/// Criterion (a): largest certified distance and constraint value.
const DISTANCE: f64 = 1e-3;
const VIOLATION: f64 = 1e-6;
/// Criterion (b): largest difference from the best known objective, and largest constraint value.
const BEYOND: f64 = 1e-3;
const LOOSE_VIOLATION: f64 = 1e-5;
/// Number of iterates measured from a mark on, until one is feasible: a switching method violates the constraint at every other
/// step.
const LOOKS: u64 = 10;

/// Limits on the work of the compared solvers.
struct Effort {
    quick: bool,
    /// Iterations of every cell of the grid in the first stage.
    first: u64,
    /// Iterations of the best cells of each solver in the second stage.
    last: u64,
    /// Seconds for one cell.
    seconds: f64,
    /// Number of certificates for one run, and of evaluations for each.
    certificates: usize,
    evaluations: u64,
    /// Iterations and seconds of the bundle method.
    own: (u64, f64),
}

impl Effort {
    fn of(quick: bool) -> Self {
        match quick {
            true => Effort { quick, first: 300, last: 300, seconds: 5.0, certificates: 1, evaluations: 30, own: (300, 5.0) },
            false => {
                Effort { quick, first: 1000, last: 20_000, seconds: 60.0, certificates: 10, evaluations: 500, own: (4000, 60.0) }
            }
        }
    }

    /// Returns the number of cells in the second stage: more for solvers with many settings.
    fn finalists(&self, rival: Rival) -> usize {
        if matches!(rival.solver, SolverName::Ssg | SolverName::ThreesEcon) { 2 } else { 1 }
    }
}

/// Returns the settings of each compared solver, as in a spec. The quick run uses the first ones.
fn grid(rival: Rival, quick: bool) -> Vec<String> {
    let mut cells: Vec<String> = vec![];
    match (rival.solver, rival.inner) {
        (SolverName::Ssg, _) => {
            // The published grid has eta from 5e-4 to 2e-3; larger steps are better here.
            for eta in ["0.01", "5e-4", "2e-3", "0.05", "0.1"] {
                cells.extend(["1e-5", "0"].map(|tol| format!("eta = {eta}, tol = {tol}")));
                cells.push(format!("eta = {eta}, tol = 1e-7, infeasible_step = \"polyak\""));
            }
            for (e1, e2) in [("0.01", "5e-4"), ("0.05", "5e-4")] {
                cells.push(format!("eta = {{ rule = \"inv-sqrt\", c = {e2} }}, tol = {{ rule = \"inv-sqrt\", c = {e1} }}"));
            }
            for c in ["0.1", "0.5", "2", "10"] {
                cells.push(format!("eta = {{ rule = \"inv-sqrt\", c = {c} }}, tol = 1e-7, infeasible_step = \"polyak\""));
            }
        }
        (_, Some(inner @ SolverName::Ssg)) => {
            for (eta, tol) in [("5e-3", "1e-5"), ("5e-4", "1e-5"), ("1e-3", "1e-5"), ("0.02", "1e-7"), ("0.1", "1e-7")] {
                cells.push(format!("inner = {{ name = \"{inner}\", eta = {eta}, tol = {tol} }}"));
            }
        }
        (_, Some(inner)) => {
            // The published coefficients c1 (k + 1) and c2 / (k + 1) are inverse step sizes.
            for (c1, c2) in [(20.0, 0.02), (20.0, 0.002), (50.0, 0.01), (100.0, 0.005), (200.0, 0.002), (20.0, 0.1)] {
                cells.push(format!(
                    "inner = {{ name = \"{inner}\", eta = {{ rule = \"inv-linear\", c = {} }}, tau = {{ rule = \"power\", c = {}, p \
                     = 1 }}, theta = \"growing\" }}",
                    1.0 / c1,
                    1.0 / c2
                ));
            }
        }
        (SolverName::Conex, None) => {
            for (c, tau) in [("0.05", 20), ("0.05", 100), ("0.02", 50), ("0.01", 20), ("0.2", 20), ("1", 20)] {
                cells.push(format!("eta = {{ rule = \"inv-sqrt\", c = {c} }}, tau = {tau}"));
            }
        }
        _ => {
            cells.extend(["beta = 10, alpha = 0.01", "beta = 100, alpha = 0.01", "beta = 100, alpha = 1e-3"].map(String::from));
            for alpha in ["0.01", "1e-3", "0.1"] {
                cells.push(format!("beta = \"auto\", alpha = {alpha}"));
            }
            for c in ["0.01", "0.1", "1"] {
                cells.push(format!("beta = \"auto\", alpha = {{ rule = \"inv-sqrt\", c = {c} }}"));
            }
        }
    }
    if quick {
        cells.truncate(1);
    }
    cells
}

/// Solver and its inner solver.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rival {
    solver: SolverName,
    inner: Option<SolverName>,
}

const OWN: Rival = Rival { solver: SolverName::Bundle, inner: None };
const RIVALS: [Rival; 5] = [
    Rival { solver: SolverName::Ssg, inner: None },
    Rival { solver: SolverName::Ipp, inner: Some(SolverName::Ssg) },
    Rival { solver: SolverName::Ipp, inner: Some(SolverName::Conex) },
    Rival { solver: SolverName::Conex, inner: None },
    Rival { solver: SolverName::ThreesEcon, inner: None },
];

impl std::fmt::Display for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.inner {
            None => write!(f, "{}", self.solver),
            Some(inner) => write!(f, "{}-{inner}", self.solver),
        }
    }
}

fn solver(rival: Rival, cell: &str) -> Box<FirstOrder<'static>> {
    let output = if rival.solver == SolverName::Conex { ", output = \"average\"" } else { "" };
    let text = format!("solver = {{ name = \"{}\", {cell}{output} }}", rival.solver);
    let config: Config = text.parse::<toml::Table>().unwrap()["solver"].clone().try_into().unwrap();
    match config.build().unwrap() {
        AnySolver::First(solver) => solver,
        AnySolver::Zeroth(_) => unreachable!("{rival} uses subgradients"),
    }
}

/// Recorded point, measured outside of the counts and the timing.
struct Seen {
    x: Vec<f64>,
    objective: f64,
    violation: f64,
    cost: Cost,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    passes_f: f64,
    passes_g: f64,
    seconds: f64,
}

/// Run that can be continued.
struct Run<'p> {
    name: Rival,
    cell: String,
    solver: Box<FirstOrder<'static>>,
    ev: Evaluator<'p, Learning>,
    every_iterate: bool,
    t: u64,
    looks: u64,
    seconds: f64,
    seen: Vec<Seen>,
    ended: Option<String>,
    /// Cost of the first certified point.
    certified: Option<Cost>,
    /// The same with the published coefficients.
    published: Option<Cost>,
    /// Intervals with the smallest upper end, of both kinds.
    intervals: [Option<(f64, f64)>; 2],
}

impl<'p> Run<'p> {
    fn begin(problem: &'p Learning, start: &[f64], name: Rival, cell: &str) -> Self {
        let mut solver = solver(name, cell);
        let mut ev = Evaluator::new(problem, 0, VIOLATION);
        let clock = Instant::now();
        solver.start(&mut ev as &mut dyn Eval, start).unwrap();
        Run {
            name,
            cell: cell.into(),
            solver,
            ev,
            every_iterate: name == OWN,
            t: 0,
            looks: 0,
            seconds: clock.elapsed().as_secs_f64(),
            seen: vec![],
            ended: None,
            certified: None,
            published: None,
            intervals: [None; 2],
        }
    }

    /// Runs until iteration `last`, or until the time limit.
    fn advance(&mut self, last: u64, seconds: f64) {
        while self.t < last && self.seconds < seconds && self.ended.is_none() {
            let clock = Instant::now();
            let step = self.solver.step(&mut self.ev as &mut dyn Eval);
            self.seconds += clock.elapsed().as_secs_f64();
            self.t += 1;
            match step {
                Ok(step) if step.finished => self.ended = Some("finished".into()),
                Ok(_) => {}
                Err(e) => self.ended = Some(e.to_string()),
            }
            let mark = marked(self.t) || self.t == last;
            if mark {
                self.looks = LOOKS;
                self.look(true);
            }
            if self.every_iterate || self.looks > 0 {
                self.looks = self.looks.saturating_sub(1);
                let kept = self.look(false);
                if kept {
                    self.looks = 0;
                }
            }
        }
    }

    /// Measures the iterate, or the point that the solver would return now. Returns whether it satisfies the constraint.
    fn look(&mut self, output: bool) -> bool {
        let problem = self.ev.problem();
        let mut x = vec![0.0; problem.dim()];
        if output {
            self.solver.output(&mut x);
        } else {
            self.solver.iterate(&mut x);
        }
        if self.seen.last().is_some_and(|seen| seen.x == x) {
            return self.seen.last().is_some_and(|seen| seen.violation <= VIOLATION);
        }
        let Ok(point) = run::measure(problem, &x, VIOLATION) else { return false };
        let passes = self.ev.passes();
        self.seen.push(Seen {
            x,
            objective: point.objective,
            violation: point.violation,
            cost: Cost { passes_f: passes.objective, passes_g: passes.constraints, seconds: self.seconds },
        });
        point.violation <= VIOLATION
    }

    /// Returns the smallest objective up to a violation.
    fn best(&self, violation: f64) -> Option<f64> {
        self.seen.iter().filter(|s| s.violation <= violation).map(|s| s.objective).min_by(f64::total_cmp)
    }

    /// Returns the smallest violation and the objective there.
    fn nearest(&self) -> (f64, f64) {
        let least = self.seen.iter().min_by(|a, b| a.violation.total_cmp(&b.violation));
        least.map_or((f64::NAN, f64::NAN), |s| (s.objective, s.violation))
    }

    /// Returns a sorting key, better runs first: by the objective if the constraint is satisfied, else by the violation.
    fn rank(&self) -> (bool, f64) {
        self.best(LOOSE_VIOLATION).map_or_else(|| (true, self.nearest().1), |f| (false, f))
    }

    fn reaches(&self, value: f64) -> Option<Cost> {
        self.seen.iter().find(|s| s.violation <= LOOSE_VIOLATION && s.objective <= value).map(|s| s.cost)
    }

    /// Finds the first certified point among the feasible ones: backwards from the last one until one is certified, then by
    /// bisection, assuming that every point after a certified one is certified too.
    fn first_certified(&self, how: &Bounds, certificates: usize) -> (Option<Cost>, Option<(f64, f64)>) {
        let mut candidates: Vec<&Seen> = self.seen.iter().filter(|s| s.violation <= VIOLATION).collect();
        // A solver that returns its best point returns the same point many times.
        let mut known: Vec<&[f64]> = vec![];
        candidates.retain(|s| {
            let new = !known.contains(&s.x.as_slice());
            known.push(&s.x);
            new
        });
        let problem = self.ev.problem();
        let mut interval: Option<(f64, f64)> = None;
        let mut proved = |seen: &Seen| {
            // A wide interval is enough to reject a point; only undecided points need a narrow one.
            for width in [0.5, 0.05] {
                let Ok(found) = certify(problem, &seen.x, &Bounds { width, ..*how }) else { return false };
                if interval.is_none_or(|(_, upper)| found.upper < upper) {
                    interval = Some((found.lower, found.upper));
                }
                if found.certified() && found.upper <= DISTANCE {
                    return true;
                }
                if found.lower > DISTANCE || !found.reached {
                    return false;
                }
            }
            false
        };
        // Some of the certificates are for finding any certified point, the others for finding the first.
        let mut left = certificates;
        let mut high = candidates.len();
        let mut found = None;
        while found.is_none() && high > 0 && left > certificates * 2 / 3 {
            (high, left) = (high - 1, left - 1);
            found = proved(candidates[high]).then_some(high);
        }
        if let Some(mut first) = found {
            let mut low = 0;
            while low < first && left > 0 {
                let middle = (low + first) / 2;
                left -= 1;
                if proved(candidates[middle]) { first = middle } else { low = middle + 1 }
            }
            found = Some(first);
        }
        (found.map(|first| candidates[first].cost), interval)
    }
}

/// Returns whether an iteration is one of about twelve marks for each power of ten.
fn marked(t: u64) -> bool {
    let step = |t: u64| (12.0 * (t as f64).log10()).floor();
    t == 1 || step(t) > step(t - 1)
}

/// Cost at which a solver met a criterion, and its settings.
type Reached = Option<(Cost, String)>;

/// Line of the comparison.
struct Line {
    name: Rival,
    cells: usize,
    certified: Reached,
    close: Reached,
    published: Reached,
    /// Passes of g and seconds of the longest run, and the final values of the best run.
    longest: (f64, f64),
    note: String,
    intervals: [Option<(f64, f64)>; 2],
}

fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 0.01 => format!("{v:.3}"),
        _ => format!("{v:.1e}"),
    }
}

fn least(runs: &[&Run], cost: impl Fn(&Run) -> Option<Cost>) -> Reached {
    let reached = runs.iter().filter_map(|run| Some((cost(run)?, run.cell.clone())));
    reached.min_by(|a, b| a.0.passes_g.total_cmp(&b.0.passes_g))
}

fn line(name: Rival, runs: &[&Run], value: f64) -> Line {
    let best = runs.iter().min_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap()).unwrap();
    let note = match best.best(LOOSE_VIOLATION) {
        Some(f) => format!("best objective {f:.6} with violation at most 1e-5"),
        None => format!("least violation {:.1e}, objective there {:.6}", best.nearest().1, best.nearest().0),
    };
    let intervals = [0, 1].map(|k| runs.iter().filter_map(|run| run.intervals[k]).min_by(|a, b| a.1.total_cmp(&b.1)));
    let longest = runs.iter().max_by(|a, b| a.ev.passes().constraints.total_cmp(&b.ev.passes().constraints)).unwrap();
    Line {
        name,
        cells: runs.len(),
        certified: least(runs, |run| run.certified),
        close: least(runs, |run| run.reaches(value)),
        published: least(runs, |run| run.published),
        longest: (longest.ev.passes().constraints, longest.seconds),
        note,
        intervals,
    }
}

fn table(title: &str, lines: &[Line], kind: Option<usize>, pick: impl Fn(&Line) -> &Reached) {
    println!("\n{title}\n");
    println!("| solver | cells | passes of g | passes of f | seconds | settings, or how far it came |");
    println!("|---|---|---|---|---|---|");
    for line in lines {
        match pick(line) {
            Some((cost, cell)) => println!(
                "| {} | {} | {} | {} | {} | `{cell}` |",
                line.name,
                line.cells,
                number(cost.passes_g),
                number(cost.passes_f),
                number(cost.seconds)
            ),
            None => {
                let (passes, seconds) = line.longest;
                let interval = kind.and_then(|k| line.intervals[k]);
                let interval =
                    interval.map_or(String::new(), |(low, high)| format!("; nearest: distance in [{low:.1e}, {high:.1e}]"));
                println!(
                    "| {} | {} | not in {} | | not in {} | {}{interval} |",
                    line.name,
                    line.cells,
                    number(passes),
                    number(seconds),
                    line.note
                );
            }
        }
    }
}

/// Formats the ratio of the bundle method to the best other solver, in passes of g and in seconds.
fn ratio(lines: &[Line], pick: impl Fn(&Line) -> &Reached) -> String {
    let Some((own, _)) = pick(&lines[0]) else { return "not reached | | | |".into() };
    let rivals: Vec<(&Line, Cost)> = lines[1..].iter().filter_map(|l| Some((l, pick(l).as_ref()?.0))).collect();
    let Some((line, best)) = rivals.iter().min_by(|a, b| a.1.passes_g.total_cmp(&b.1.passes_g)) else {
        let (passes, seconds) =
            lines[1..].iter().map(|l| l.longest).fold((0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        return format!(
            "{} | none in {} | above {} | none in {} / {} |",
            number(own.passes_g),
            number(passes),
            number(passes / own.passes_g),
            number(seconds),
            number(own.seconds)
        );
    };
    let seconds = rivals.iter().map(|r| r.1.seconds).fold(f64::INFINITY, f64::min);
    format!(
        "{} | {} ({}) | {} | {} / {} = {} |",
        number(own.passes_g),
        number(best.passes_g),
        line.name,
        number(best.passes_g / own.passes_g),
        number(seconds),
        number(own.seconds),
        number(seconds / own.seconds)
    )
}

/// Compares the solvers on one instance; returns its lines of the summary.
fn compare(instance: &str, effort: &Effort) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../experiments/compare-{instance}.toml"));
    let spec = Spec::read(&file).unwrap();
    let job = Job::new(&spec, &file, &Default::default()).unwrap();
    let (problem, start) = (job.instance.problem.model().unwrap(), job.setup.start.as_slice());
    let rho = problem.objective_modulus().unwrap().value;
    let rho_g = problem.constraint_modulus(0).unwrap().value;
    let how =
        Bounds { mu: Some(rho), target: DISTANCE, evaluations: effort.evaluations, feasibility: VIOLATION, ..Bounds::default() };
    // As printed, the constants lack the factor max |sig''| = 1 / (6 sqrt 3), and objective and constraint share the larger.
    let printed = 6.0 * 3.0_f64.sqrt() * rho.max(rho_g);
    let mu_g = if rho_g > 0.0 { 2.0 * printed - rho_g } else { 0.0 };
    let coarse = Bounds { mu: Some(2.0 * printed - rho), mu_g, ..how };
    println!("\n## {instance}\n");
    println!("- minimise {} subject to {}", spec.problem.minimize, spec.problem.subject_to.join(", "));
    for note in job.notes() {
        println!("- {note}");
    }
    println!("- {} variables; rho_f = {rho:.6}, rho_g = {rho_g:.6}; certificates with mu = rho_f.", problem.dim());
    println!("- The printed constant is {printed:.4}, the published measure has twice that.");

    let mut own = Run::begin(problem, start, OWN, &format!("mu = {rho}, eps = {DISTANCE}"));
    own.cell = "mu = rho_f, eps = 1e-3".into();
    own.advance(effort.own.0, effort.own.1);
    if let (Some(Verdict::Stationary(proved)), Some(last)) = (own.solver.verdict(), own.seen.last()) {
        let passes = own.ev.passes();
        own.certified = (proved.upper <= DISTANCE && last.violation <= VIOLATION).then_some(Cost {
            passes_f: passes.objective,
            passes_g: passes.constraints,
            seconds: own.seconds,
        });
        if !effort.quick {
            let other = certify(problem, &last.x, &Bounds { evaluations: 1000, ..how }).unwrap();
            println!(
                "- bundle's own bound at the end is {:.3e}; the certificate from nothing gives [{:.3e}, {:.3e}] after {} \
                 evaluations.",
                proved.upper, other.lower, other.upper, other.evaluations
            );
        }
    }
    (own.published, _) = own.first_certified(&coarse, effort.certificates);
    eprintln!("{instance}: {} {} iterations, {:.2} s, {:?}", OWN.solver, own.t, own.seconds, own.ended);

    // A longer run gives the best known value; it is not part of the comparison.
    let mut long = Run::begin(problem, start, OWN, &format!("mu = {rho}, eps = 1e-5"));
    long.cell = "mu = rho_f, eps = 1e-5".into();
    long.advance(effort.own.0, effort.own.1);
    eprintln!("{instance}: long {} {} iterations, {:.2} s, {:?}", OWN.solver, long.t, long.seconds, long.ended);

    let clock = Instant::now();
    let mut runs: Vec<Run> = vec![];
    for name in RIVALS {
        let mut cells: Vec<Run> = grid(name, effort.quick).iter().map(|cell| Run::begin(problem, start, name, cell)).collect();
        for run in &mut cells {
            run.advance(effort.first, effort.seconds);
        }
        cells.sort_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap());
        for run in cells.iter_mut().take(effort.finalists(name)) {
            run.advance(effort.last, effort.seconds);
            (run.certified, run.intervals[0]) = run.first_certified(&how, effort.certificates);
            (run.published, run.intervals[1]) = run.first_certified(&coarse, effort.certificates);
            eprintln!(
                "{instance}: {name} `{}` {} iterations, {:.1} s, {:?} {:?} {:?} {:?}, total {:.0} s",
                run.cell,
                run.t,
                run.seconds,
                run.rank(),
                run.certified,
                run.intervals,
                run.published,
                clock.elapsed().as_secs_f64()
            );
        }
        runs.extend(cells);
    }

    let all = || runs.iter().chain([&own, &long]);
    let known = all().filter_map(|run| run.best(VIOLATION)).min_by(f64::total_cmp).unwrap();
    let by = all().find(|run| run.best(VIOLATION) == Some(known)).unwrap();
    println!("- Best known objective with violation at most 1e-6: {known:.8}, from {} (`{}`).", by.name, by.cell);
    if let Some(seen) = long.seen.last() {
        println!(
            "- The longer bundle run: objective {:.8}, violation {:.1e}, multiplier {:.4}, {} iterations, {:.1} s.",
            seen.objective,
            seen.violation,
            long.solver.multipliers().map_or(f64::NAN, |m| m[0]),
            long.t,
            long.seconds
        );
    }
    let start_point = run::measure(problem, start, VIOLATION).unwrap();
    println!("- At the start: objective {:.6}, norm {:.3}.", start_point.objective, vec::norm(start));

    let value = known + BEYOND;
    let mut lines = vec![line(OWN, &[&own], value)];
    for name in RIVALS {
        let of: Vec<&Run> = runs.iter().filter(|run| run.name == name).collect();
        lines.push(line(name, &of, value));
    }
    table("(a) certified distance below 1e-3, violation below 1e-6:", &lines, Some(0), |l| &l.certified);
    table("(b) objective within 1e-3 of the best known, violation at most 1e-5:", &lines, None, |l| &l.close);
    let title = "(c) as (a), measured with the published proximal coefficients, twice the printed constant:";
    table(title, &lines, Some(1), |l| &l.published);
    println!("\nAll cells:\n\n| solver | settings | iterations | objective at violation <= 1e-5 | least violation |");
    println!("|---|---|---|---|---|");
    for run in &runs {
        let best = run.best(LOOSE_VIOLATION).map_or("none".into(), |f| format!("{f:.6}"));
        let failed = run.ended.as_ref().map_or(String::new(), |e| format!(" ({e})"));
        println!("| {} | `{}` | {}{failed} | {best} | {:.1e} |", run.name, run.cell, run.t, run.nearest().1);
    }
    vec![
        format!("| {instance} | (a) | {}", ratio(&lines, |l| &l.certified)),
        format!("| {instance} | (b) | {}", ratio(&lines, |l| &l.close)),
        format!("| {instance} | (c) | {}", ratio(&lines, |l| &l.published)),
    ]
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let effort = Effort::of(asked.iter().any(|a| a == "--quick"));
    let wanted: Vec<&String> = asked.iter().filter(|a| !a.starts_with("--")).collect();
    let chosen = INSTANCES.iter().filter(|i| wanted.is_empty() || wanted.iter().any(|w| i.contains(w.as_str())));
    reduce::with_threads(1, || {
        let mut summary = vec![];
        for instance in chosen {
            summary.extend(compare(instance, &effort));
        }
        println!("\n## Summary\n");
        println!("| instance | aim | bundle, passes of g | best rival, passes of g | ratio | seconds: best rival / bundle |");
        println!("|---|---|---|---|---|---|");
        for line in summary {
            println!("{line}");
        }
    })
    .unwrap();
}
