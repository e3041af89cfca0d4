//! The `nilometer` program.

use clap::Parser;
use nilometer::cli::Cli;
use nilometer::supervision::abort_on_panic;
use std::process::ExitCode;

/// Millions of small, short-lived things on several threads: what it is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    abort_on_panic(None);
    match Cli::parse().execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
