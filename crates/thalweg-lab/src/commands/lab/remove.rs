//! `thalweg lab rm`: removes runs from a store.

use std::process::ExitCode;

use super::{CommandResult, StoreArg};
use crate::lab::frame::{chosen, lines};
use crate::lab::store::Store;
use crate::output::print;
use crate::verdict::DONE;
use crate::{Error, Result};

/// Remove runs from the store
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RmArgs {
    /// Beginnings of keys, as 'list' shows them
    runs: Vec<String>,
    #[command(flatten)]
    store: StoreArg,
    /// Remove an experiment with all runs that belong to no other
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Remove the runs that failed or were refused
    #[arg(long)]
    failed: bool,
}

pub(super) fn remove(args: RmArgs) -> CommandResult {
    if args.runs.is_empty() && args.experiment.is_none() && !args.failed {
        return Err(Error::Request("nothing is named; expected keys of runs, --experiment NAME or --failed".into()));
    }
    let mut store = Store::open(&args.store.store)?;
    // All runs are looked up before any is removed.
    let mut keys: Vec<String> = args.runs.iter().map(|begin| Ok(store.find(begin)?.key)).collect::<Result<_>>()?;
    let all = lines(&store, None)?;
    if let Some(name) = &args.experiment {
        chosen(&store, Some(name))?;
        let elsewhere = |run: &str| all.iter().any(|row| row.member.run == run && row.experiment != *name);
        keys.extend(
            all.iter().filter(|row| row.experiment == *name && !elsewhere(&row.member.run)).map(|row| row.member.run.clone()),
        );
    }
    if args.failed {
        keys.extend(all.iter().filter(|row| row.failed()).map(|row| row.member.run.clone()));
    }
    keys.sort();
    keys.dedup();
    let removed = store.forget(&keys)?;
    if let Some(name) = &args.experiment {
        store.forget_experiment(name)?;
    }
    print(&format!("{removed} runs removed\n"))?;
    Ok(ExitCode::from(DONE))
}
