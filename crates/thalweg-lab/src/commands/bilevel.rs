//! `thalweg bilevel`: examples of pessimistic bilevel problems. The problems and their solver are in [`thalweg::bilevel`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use thalweg::bilevel::problems::{Pricing, Toy};
use thalweg::bilevel::{self, Bilevel, BilevelSolution, Extreme, Extremes, Form, FromFormulas, Method, Settings};
use thalweg::run::Options;
use thalweg::solvers::{adaprox, pd};

use super::CommandResult;
use crate::Result;
use crate::console::{Bar, stop_on_signal};
use crate::output::{align, print};
use crate::verdict::Status;

/// Pessimistic bilevel problems: a leader chooses, a follower answers, and the worst of its answers counts
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, after_help = "Example: thalweg bilevel demo\n\nMore in docs/bilevel.md.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// Solve two small problems with known answers, as a cautious leader and as an optimist, and compare the two
    #[command(after_help = "It takes about two seconds and needs no file.\n\
        Exit codes: 0 every run satisfied its rows; 1 one did not; 130 interrupted.")]
    Demo,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    match args.what {
        What::Demo => demo(),
    }
}

const TOY: &str = "\
A toy. The leader chooses a number x and wants -x y to be small, where y is the number that a follower answers with. The
follower is content with every y from -|x| to |x|: its answer is not unique, and nobody knows which one it will be. Also,
x^2 + y^2 <= 1. A cautious leader counts on the worst answer, an optimist on the best. Both are computed by the switching
gradient method (sg) and again by the primal-dual one (pd). Rows are the conditions that make y such an answer: they are
satisfied up to a small beta.\n\n";

const SHOP: &str = "\
A shop. It sets a price x from 0 to 2; a customer answers by buying y units and pays x y. The customer wants about 2 - x units
and is content with any amount within half a unit of that: again the answer is not unique.\n\n";

const NEXT: &str = "
Next, a problem of your own:
  docs/bilevel.md            how to write one in Rust, and what every setting and number means
  thalweg solve SPEC.toml    runs a spec with a bilevel problem
";

fn demo() -> CommandResult {
    let stop = stop_on_signal()?;
    let toy: Arc<dyn Bilevel> = Arc::new(Toy::new(2.0)?);
    let shop: Arc<dyn Bilevel> = Arc::new(FromFormulas(Pricing::new()?));
    let (sg, pd) = (adaprox::Inner::Sg(adaprox::Sg::default()), adaprox::Inner::Pd(pd::Settings::default()));

    print(TOY)?;
    let runs = solve(&toy, 0.3, &[sg.clone(), pd], &stop)?;
    let loss =
        ProblemLabels { x: "x", hoped: "-x y it counts on", worst: "-x y at the worst", best: "-x y at the best", sign: 1.0 };
    print(&align(&loss.table(&runs), &[1, 2, 3, 4]))?;
    if let [cautious, _, optimist, _] = &runs[..] {
        print(&format!(
            "\nThe optimist believes in {}, which is -1/2 up to tolerances, and may get {}. The true pessimistic value is 0, at\n\
             x = 0; the cautious leader ends at {}, where the worst is {}.\n\n",
            loss.number(optimist.found.objective),
            loss.extreme(optimist, |e| &e.pessimistic),
            place(cautious),
            loss.extreme(cautious, |e| &e.pessimistic),
        ))?;
    }
    let mut all = runs;
    if !stop.load(Ordering::Relaxed) {
        print(SHOP)?;
        let runs = solve(&shop, 1.25, &[sg], &stop)?;
        let revenue = ProblemLabels {
            x: "price",
            hoped: "revenue it counts on",
            worst: "revenue at the worst",
            best: "revenue at the best",
            sign: -1.0,
        };
        print(&align(&revenue.table(&runs), &[1, 2]))?;
        if let [cautious, optimist] = &runs[..] {
            print(&format!(
                "\nThe cautious price earns at least {}. The optimist's promises {}, and may earn {}. On paper the prices are\n\
                 3/4, which earns at least 9/16 = 0.5625, and 5/4, which promises 25/16 and may earn 5/16. Here the customer gets a\n\
                 slack of {}, whose cube root is {:.2} units more or less: the cautious shop counts on too little, the optimist on\n\
                 too much.\n",
                revenue.extreme(cautious, |e| &e.pessimistic),
                revenue.number(optimist.found.objective),
                revenue.extreme(optimist, |e| &e.pessimistic),
                Form::default().xi,
                Form::default().xi.cbrt(),
            ))?;
            print(NEXT)?;
        }
        all.extend(runs);
    }
    Ok(Status::of_all(stop.load(Ordering::Relaxed), all.iter().all(|run| run.found.outcome.success())).exit())
}

/// Finished run.
struct Run {
    title: &'static str,
    found: BilevelSolution,
    /// Time in seconds, including the choice of settings and the evaluation of the point.
    seconds: f64,
}

/// Solves the pessimistic problem with each inner solver, then the optimistic one with each; an interrupt ends the list early.
fn solve(problem: &Arc<dyn Bilevel>, x: f64, inner: &[adaprox::Inner], stop: &Arc<AtomicBool>) -> Result<Vec<Run>> {
    let mut bar = Bar::new(true);
    let options = Options { interrupt: Some(Arc::clone(stop)), ..Options::default() };
    let mut runs = vec![];
    for (optimistic, first) in [(false, "cautious (pessimistic)"), (true, "optimist")] {
        for (i, inner) in inner.iter().enumerate() {
            let settings = Settings {
                form: Form { optimistic, ..Form::default() },
                inner: inner.clone(),
                method: Method::Adaprox,
                ..Settings::default()
            };
            let begun = Instant::now();
            let found = bilevel::solve(problem, &[x], &settings, &options, &mut bar)?;
            let title = if i == 0 { first } else { "the same by pd" };
            runs.push(Run { title, found, seconds: begun.elapsed().as_secs_f64() });
            if stop.load(Ordering::Relaxed) {
                bar.finish();
                return Ok(runs);
            }
        }
    }
    bar.finish();
    Ok(runs)
}

/// Labels for the numbers of a problem, and whether smaller or larger ones are better.
struct ProblemLabels {
    x: &'static str,
    hoped: &'static str,
    worst: &'static str,
    best: &'static str,
    /// The library minimises: -1 where the output shows a gain.
    sign: f64,
}

impl ProblemLabels {
    fn table(&self, runs: &[Run]) -> Vec<Vec<String>> {
        let row = |name: &str, cell: &dyn Fn(&Run) -> String| std::iter::once(name.into()).chain(runs.iter().map(cell)).collect();
        let rows_kept = |run: &Run| {
            let BilevelSolution { violation, beta, .. } = run.found;
            if violation <= beta {
                format!("yes, {violation:.4} <= {beta:.4}")
            } else {
                format!("no, {violation:.4} > {beta:.4}")
            }
        };
        vec![
            row("", &|run| run.title.into()),
            row(self.x, &place),
            row(self.hoped, &|run| self.number(run.found.objective)),
            row(self.worst, &|run| self.extreme(run, |e| &e.pessimistic)),
            row(self.best, &|run| self.extreme(run, |e| &e.optimistic)),
            row("rows satisfied within beta", &rows_kept),
            row("seconds", &|run| format!("{:.2}", run.seconds)),
        ]
    }

    fn number(&self, value: f64) -> String {
        digits(self.sign * value)
    }

    /// Formats the pessimistic or the optimistic value at the x of a run, if it could be computed.
    fn extreme(&self, run: &Run, which: impl Fn(&Extremes) -> &Extreme) -> String {
        run.found.extremes.as_ref().map_or_else(|| "not known".into(), |e| self.number(which(e).value))
    }
}

/// Formats the x of a run, which is one number in both problems.
fn place(run: &Run) -> String {
    run.found.x.first().map_or(String::new(), |x| digits(*x))
}

/// Formats four digits, without a minus sign before a zero.
fn digits(value: f64) -> String {
    let text = format!("{value:.4}");
    if text == "-0.0000" { "0.0000".into() } else { text }
}
