//! `thalweg explain`: the weights of a trained model, and its rates by group.

use std::path::PathBuf;
use std::process::ExitCode;

use super::CommandResult;
use crate::model::{CellQuality, Input, Model, Quality};
use crate::output::{align, print};
use crate::verdict::DONE;

/// Show a trained model: its largest weights, and rates by group.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  thalweg explain model --top 10")]
pub struct Args {
    /// model.json, or the directory it is in
    model: PathBuf,
    /// How many weights to show
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

/// Runs the command.
pub fn run(args: Args) -> CommandResult {
    let model = Model::read(&args.model)?;
    print(&words(&model, args.top))?;
    Ok(ExitCode::from(DONE))
}

fn words(model: &Model, top: usize) -> String {
    let t = &model.training;
    let (yes, no) = model.answers();
    let constraints = if t.subject_to.is_empty() { "nothing".into() } else { t.subject_to.join(", ") };
    let mut text = format!("minimises {}, subject to {constraints}\n", t.minimize);
    if let Some(factor) = t.regularization.filter(|factor| *factor > 0.0) {
        text += &format!("of this, {factor} * ridge was added as regularisation\n");
    }
    text += &format!("trained on {}, seed {}; answers '{yes}' for a score above 0, else '{no}'\n", t.file, t.seed);
    if !t.subject_to.is_empty() {
        let satisfied = "feasible; every constraint is satisfied on the training rows\n";
        text += if model.measured.feasible { satisfied } else { "infeasible; a constraint is violated on the training rows\n" };
    }

    let mut order: Vec<_> = model.weights.iter().collect();
    order.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
    text += &format!("\nlargest of {} weights, intercept {:+.4}\n", order.len(), model.intercept);
    let rows: Vec<[String; 2]> = order.iter().take(top).map(|w| [w.feature.clone(), format!("{:+.4}", w.weight)]).collect();
    text += &align(&rows, &[1]);
    if let Input::Table { .. } = model.input {
        text += "(the weight of a column of numbers is per standard deviation)\n";
    }

    text += &groups("training rows", &model.measured.training);
    if let Some(held) = &model.measured.held_out {
        text += &groups("held-out rows", held);
    }
    text
}

fn groups(title: &str, quality: &Quality) -> String {
    if quality.groups.is_empty() {
        return format!("\n{title}: accuracy {:.2}%\n", 100.0 * quality.accuracy);
    }
    let percent = |v: f64| format!("{:.2}%", 100.0 * v);
    let rate = |v: f64, interval: Option<[f64; 2]>| {
        let range = |[low, high]: [f64; 2]| format!(" ({:.1} to {:.1})", 100.0 * low, 100.0 * high);
        percent(v) + &interval.map_or(String::new(), range)
    };
    let cell = |found: Option<CellQuality>| {
        found.map_or("none".into(), |c| format!("{} of {}", rate(c.predicted, Some(c.interval)), c.rows))
    };
    let title_row =
        ["", "rows", "positive labels", "positive predictions", "accuracy", "of positive labels", "of negative labels"];
    let mut rows = vec![title_row.map(String::from)];
    for g in &quality.groups {
        rows.push([
            g.group.clone(),
            g.rows.to_string(),
            percent(g.positive),
            rate(g.predicted, g.predicted_interval),
            rate(g.accuracy, g.accuracy_interval),
            cell(g.positives),
            cell(g.negatives),
        ]);
    }
    let q = quality;
    let all = [q.rows.to_string(), percent(q.positive), percent(q.predicted), percent(q.accuracy)];
    let [n, positive, predicted, accuracy] = all;
    rows.push(["all".into(), n, positive, predicted, accuracy, String::new(), String::new()]);
    let mut text = format!("\n{title}\n{}", align(&rows, &[1, 2, 3, 4, 5, 6]));
    if quality.groups.iter().any(|g| g.predicted_interval.is_some()) {
        text +=
            "(exact 95% intervals of the shares in brackets; the last columns are the share of positive predictions by label)\n";
    }
    text
}
