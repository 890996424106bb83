//! `thalweg lab export`: writes runs, or their recorded iterates, as CSV.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{CommandResult, RunFilter, StoreArg};
use crate::data::table::CellFormat;
use crate::lab::frame::{Line, curves};
use crate::lab::store::{Facts, Part, Store};
use crate::output::{STANDARD_OUTPUT, check_output, write_whole};
use crate::trace::digits;
use crate::verdict::DONE;

/// Export runs, or the recorded iterates of runs, as CSV
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    which: RunFilter,
    /// As CSV, the only form there is
    #[arg(long)]
    csv: bool,
    /// One line for each recorded quantity of each recorded iterate instead of one for each run
    #[arg(long)]
    points: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    cells: CellFormat,
}

pub(super) fn export(args: ExportArgs) -> CommandResult {
    let store = Store::open(&args.store.store)?;
    if let Some(file) = &args.out {
        check_output("--out", file, &[("the store", &args.store.store)])?;
    }
    let rows = args.which.rows(&store)?;
    let facts: HashMap<String, Facts> = store.experiments()?.into_iter().map(|e| (e.name, e.facts)).collect();
    let counts = |row: &Line| facts.get(&row.experiment).is_some_and(|f| !f.published.is_empty());
    let published = !args.points && rows.iter().any(counts);
    let mut text = String::from("experiment,run,data,problem,solver,cell,seed,tuned");
    text += match args.points {
        true => ",part,iteration,name,value\n",
        false => {
            ",status,objective,violation,iterations,passes_f,passes_g,samples,seconds,certificate_lower,certificate_upper,ended,finished\n"
        }
    };
    if published {
        text.truncate(text.trim_end().len());
        text += ",published_f,published_g\n";
    }
    for row in &rows {
        let m = &row.member;
        let head =
            [&row.experiment, &m.run, &m.data, &m.problem, &m.solver, &m.cell].map(|cell| args.cells.quote(cell)).join(",");
        let head = format!("{head},{},{}", m.seed, m.tuned);
        if !args.points {
            let number = |v: Option<f64>| v.map_or(String::new(), digits);
            let count = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
            let passes = facts.get(&row.experiment).and_then(|f| f.published(m, row.iterations?));
            let passes = [0, 1].map(|i| format!(",{}", number(passes.map(|p| p[i])))).concat();
            text += &format!(
                "{head},{},{},{},{},{},{},{},{},{},{},{},{}{}\n",
                row.word(),
                number(row.objective),
                number(row.violation),
                count(row.iterations),
                number(row.passes_f),
                number(row.passes_g),
                count(row.samples),
                number(row.seconds),
                number(row.certificate_lower),
                number(row.certificate_upper),
                row.ended.as_deref().map(|ended| args.cells.quote(ended)).unwrap_or_default(),
                row.finished.as_deref().unwrap_or_default(),
                if published { passes.as_str() } else { "" }
            );
            continue;
        }
        for (part, word) in [(Part::Recorded, "recorded"), (Part::Certified, "certified")] {
            for (_, curves) in curves(&store, std::slice::from_ref(row), part)? {
                let Some(iterations) = curves.iter().find(|c| c.name == "iterations").map(|c| c.numbers.clone()) else {
                    continue;
                };
                for curve in curves.iter().filter(|c| c.name != "iterations") {
                    for (t, v) in iterations.iter().zip(&curve.numbers) {
                        text += &format!("{head},{word},{t},{},{}\n", args.cells.quote(&curve.name), digits(*v));
                    }
                }
            }
        }
    }
    write_whole(args.out.as_deref().unwrap_or(Path::new(STANDARD_OUTPUT)), &text)?;
    Ok(ExitCode::from(DONE))
}
