//! The `thalweg` command. The implementation is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg_lab::cli::run(std::env::args_os())
}
