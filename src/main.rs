//! The `nilometer` program.

use clap::Parser;
use nilometer::cli::Cli;
use std::process::ExitCode;

/// Millions of small, short-lived things on several threads: what it is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
