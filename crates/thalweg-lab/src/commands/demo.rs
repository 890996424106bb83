//! `thalweg demo`: the main task once, on embedded data.

use thalweg::run::Budget;

use super::CommandResult;
use crate::console::{Bar, stop_on_signal};
use crate::data::adult;
use crate::fit::{Request, TrainedModel};
use crate::output::{align, print};

/// Train a classifier on embedded data without and with a fairness constraint, and compare the two.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg demo")]
pub struct Args {}

const BOUND: &str = "0.02";

/// Runs the command.
pub fn run(_: Args) -> CommandResult {
    print(
        "Adult census income: who earns more than 50K? Of 48,842 people four in five are for training.\n\
         First without constraints, then with the rule that the share of women and the share of men that the model\n\
         calls high earners may differ by at most 0.02.\n\n",
    )?;
    let table = adult::table()?;
    let stop = stop_on_signal()?;
    let free = Request {
        group: vec!["sex".into()],
        budget: Budget { iterations: Some(2000), ..Budget::default() },
        stop: Some(stop),
        ..Request::new("embedded Adult", "income")
    };
    let fair = Request { subject_to: vec![format!("demographic_parity <= {BOUND}")], ..free.clone() };
    let mut bar = Bar::new(true);
    let train = |request: &Request, bar: &mut Bar| request.train(request.prepare_with(&table)?, bar);
    let before = train(&free, &mut bar)?;
    let after = train(&fair, &mut bar)?;
    bar.finish();
    // The unconstrained model is compared with the constraint too.
    let (training, held) = fair.prepare_with(&table)?.measure(&before.model)?;
    let gap = |q: &crate::model::Quality| q.measured.first().copied().flatten().unwrap_or(f64::NAN);
    let rows = [
        row("", "unconstrained", "constrained"),
        row("held-out accuracy", &percent(&before), &percent(&after)),
        row("gap between women and men, training rows", &four(gap(&training)), &four(gap(&after.model.measured.training))),
        row(
            "the same on held-out rows",
            &held.as_ref().map_or(String::new(), |h| four(gap(h))),
            &after.model.measured.held_out.as_ref().map_or(String::new(), |h| four(gap(h))),
        ),
        row("surrogate gap / surrogate bound", &four(training.constraints[0]), &surrogate(&after)),
        row(
            &format!("satisfies the bound of {BOUND} on the training rows"),
            if gap(&training) <= 0.02 { "yes" } else { "no" },
            if after.model.measured.feasible { "yes" } else { "no" },
        ),
        row("passes over the data", &passes(&before), &passes(&after)),
        row("seconds", &seconds(&before), &seconds(&after)),
    ];
    print(&align(&rows, &[1, 2]))?;
    print(
        "\nNext, on a table of your own:\n  \
         thalweg fit your.csv --label COLUMN --group COLUMN --subject-to \"demographic_parity <= 0.02\"\n  \
         thalweg fit --help     more terms, several constraints, row weights\n",
    )?;
    Ok(after.model.measured.status().exit())
}

fn row(what: &str, before: &str, after: &str) -> [String; 3] {
    [what, before, after].map(String::from)
}

fn four(v: f64) -> String {
    format!("{v:.4}")
}

fn percent(trained: &TrainedModel) -> String {
    trained.model.measured.held_out.as_ref().map_or(String::new(), |h| format!("{:.2}%", 100.0 * h.accuracy))
}

fn surrogate(trained: &TrainedModel) -> String {
    let constraint = trained.model.measured.constraints.first();
    constraint.map_or(String::new(), |c| format!("{:.4} / {:.4}", c.surrogate, c.surrogate_bound))
}

fn passes(trained: &TrainedModel) -> String {
    format!("{:.0}", trained.model.measured.passes.total())
}

fn seconds(trained: &TrainedModel) -> String {
    format!("{:.1}", trained.model.measured.seconds)
}
