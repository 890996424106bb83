//! `thalweg demo`: the main task once, on embedded data.

use thalweg::learn::Unseen;
use thalweg::run::Budget;

use super::CommandResult;
use crate::console::{Bar, stop_on_signal};
use crate::data::adult;
use crate::fit::{Request, TrainedModel};
use crate::output::{align, print};
use crate::verdict::DONE;

/// Train a classifier on embedded data without a fairness constraint, with one on the training rows, and with one on unseen rows.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg demo")]
pub struct Args {}

const BOUND: &str = "0.05";

/// Runs the command.
pub fn run(_: Args) -> CommandResult {
    print(
        "Adult census income: who earns more than 50K? Of 48,842 people four in five are for training.\n\
         First without constraints, then with the rule that the share of women and the share of men that the model\n\
         calls high earners may differ by at most 0.05 among the people it was trained on, then so that this holds with\n\
         95% confidence among people it has never seen, tested on a third of the people for training.\n\n",
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
    let promise = Request { unseen: Some((Unseen::default(), Unseen::SAFETY_FRACTION)), ..fair.clone() };
    let mut bar = Bar::new(true);
    let train = |request: &Request, bar: &mut Bar| request.train(request.prepare_with(&table)?, bar);
    let before = train(&free, &mut bar)?;
    let after = train(&fair, &mut bar)?;
    let unseen = train(&promise, &mut bar)?;
    bar.finish();
    let (training, held) = fair.prepare_with(&table)?.measure(&before.model)?;
    let gap = |q: &crate::model::Quality| q.measured.first().copied().flatten().unwrap_or(f64::NAN);
    let models = [&before, &after, &unseen];
    let all = |cell: &dyn Fn(&TrainedModel) -> String| models.map(cell);
    let held_gap = |m: &TrainedModel| m.model.measured.held_out.as_ref().map_or(String::new(), |h| four(gap(h)));
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_string();
    let mut rows = vec![
        row("", ["unconstrained", "constrained", "on unseen rows"].map(String::from)),
        row("held-out accuracy", all(&percent)),
        row("gap between women and men, training rows", all(&|m| four(gap(&m.model.measured.training)))),
        row("the same on held-out rows", all(&held_gap)),
        row("surrogate gap / surrogate bound", all(&surrogate)),
        row(
            &format!("satisfies the bound of {BOUND} on the training rows"),
            all(&|m| yes(m.model.measured.constraints.first().is_some_and(|c| c.satisfied))),
        ),
        row(
            "promised for unseen people with 95% confidence",
            all(&|m| yes(m.model.measured.promise.as_ref().is_some_and(|promise| promise.confirmed))),
        ),
        row("passes over the data", all(&passes)),
        row("seconds", all(&seconds)),
    ];
    // The unconstrained model is compared with the constraint too.
    rows[2][1] = four(gap(&training));
    rows[3][1] = held.as_ref().map_or(String::new(), |h| four(gap(h)));
    rows[4][1] = four(training.constraints[0]);
    rows[5][1] = yes(gap(&training) <= 0.05);
    print(&align(&rows, &[1, 2, 3]))?;
    print(
        "\nNext, on a table of your own:\n  \
         thalweg fit your.csv --label COLUMN --group COLUMN --subject-to \"demographic_parity <= 0.02\"\n  \
         thalweg fit your.csv … --enforce unseen     the same for rows that nobody has seen\n  \
         thalweg fit --help     more terms, several constraints, row weights\n",
    )?;
    let worst = [&after, &unseen].into_iter().map(|m| m.model.measured.status()).find(|status| status.exit_code() != DONE);
    Ok(worst.unwrap_or_else(|| after.model.measured.status()).exit())
}

fn row(what: &str, [before, after, unseen]: [String; 3]) -> [String; 4] {
    [what.into(), before, after, unseen]
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
