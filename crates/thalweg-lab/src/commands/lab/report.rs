//! `thalweg lab report`: writes the HTML report of experiments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{CommandResult, StoreArg};
use crate::lab::frame::chosen;
use crate::lab::page;
use crate::lab::store::Store;
use crate::output::{STANDARD_OUTPUT, check_output, is_standard_output, print, write_whole};
use crate::report::html;
use crate::verdict::DONE;
use crate::{Error, Result};

/// Write the report: one HTML file
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    store: StoreArg,
    /// Only this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

pub(super) fn report(args: ReportArgs) -> CommandResult {
    let store = Store::open(&args.store.store)?;
    let experiments = chosen(&store, args.experiment.as_deref())?;
    check_output("--out", &args.out, &[("the store", &args.store.store)])?;
    if args.open && is_standard_output(&args.out) {
        return Err(Error::Request(format!("--out {STANDARD_OUTPUT} leaves no file to open; expected a file with --open")));
    }
    let page = page::page(&store, &experiments)?;
    write_whole(&args.out, &html(&page))?;
    if !is_standard_output(&args.out) {
        print(&format!("saved {}\n", args.out.display()))?;
    }
    if args.open {
        open(&args.out)?;
    }
    Ok(ExitCode::from(DONE))
}

/// Opens a file with the default application of the system.
fn open(file: &Path) -> Result<()> {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let failed = |what: String| Error::Request(format!("--open: {program} {what}: open {} yourself", file.display()));
    match std::process::Command::new(program).arg(file).status() {
        // On Windows, explorer never reports success.
        Ok(status) if status.success() || program == "explorer" => Ok(()),
        Ok(_) => Err(failed("could not open it".into())),
        Err(e) => Err(failed(format!("cannot be started ({e})"))),
    }
}
