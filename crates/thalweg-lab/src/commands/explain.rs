//! `thalweg explain`: the weights of a trained model, and its rates by group.

use std::path::PathBuf;
use std::process::ExitCode;

use super::CommandResult;
use crate::by_group::{Extent, tables};
use crate::model::{Input, Model, Quality};
use crate::output::{align, print, visible};
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
    let mut text = format!("minimises {}, subject to {}\n", visible(&t.minimize), visible(&constraints));
    if let Some(factor) = t.regularization.filter(|factor| *factor > 0.0) {
        text += &format!("of this, {factor} * ridge was added as regularisation\n");
    }
    let origin = model.origin();
    let [origin, yes, no] = [origin, yes, no].map(visible);
    text += &format!("trained on {origin}, seed {}; predicts '{yes}' for a score above 0, else '{no}'\n", t.seed);
    if !t.subject_to.is_empty() {
        let satisfied = "feasible; every constraint is satisfied on the training rows\n";
        let violated = "not feasible; a constraint is violated on the training rows\n";
        match &model.measured.promise {
            Some(promise) => text += &format!("{}\n", visible(&promise.sentence)),
            None => text += if model.measured.feasible { satisfied } else { violated },
        }
    }

    let mut order: Vec<_> = model.weights.iter().collect();
    order.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
    text += &format!("\nlargest of {} weights, intercept {:+.4}\n", order.len(), model.intercept);
    let rows: Vec<[String; 2]> = order.iter().take(top).map(|w| [w.feature.clone(), format!("{:+.4}", w.weight)]).collect();
    text += &align(&rows, &[1]);
    if let Input::Table { encoding, .. } = &model.input {
        let unit = if encoding.keeps_units() { "unit" } else { "standard deviation" };
        text += &format!("(the weight of a column of numbers is per {unit})\n");
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
    tables(title, quality, Extent::Full)
}
