//! Why a command failed, and the exit code that says so.

use crate::bench::BenchError;
use crate::config::{ConfigErrors, Look};
use crate::logs;
use crate::run_failure::RunFailure;
use crate::state::tools::ToolError;
use crate::test::TestFailure;
use crate::top::TopError;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The pipeline is not valid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A pipeline could not be run, or not to its end.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// Transcripts are not as they should be.
    #[error(transparent)]
    Test(#[from] TestFailure),
    /// A benchmark has no figures.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A tool for stored state has not done what it should.
    #[error(transparent)]
    State(#[from] ToolError),
    /// A run cannot be looked at.
    #[error(transparent)]
    Top(#[from] TopError),
    /// Standard output cannot be written.
    #[error("cannot write to stdout: {0}; check what it is redirected to")]
    Stdout(#[from] io::Error),
    /// A file that was asked for cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Failure {
    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Bench(_) | Self::Top(_) => 1,
            Self::Config(_) => 2,
            Self::Run(failure) => failure.exit_code(),
            Self::Test(failure) => failure.exit_code(),
            Self::State(failure) => failure.exit_code(),
            Self::Stdout(_) | Self::File { .. } => 4,
        }
    }

    /// Says on stderr what went wrong; returns the exit code.
    pub fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            // Who reads has enough: not a failure of ours.
            return ExitCode::SUCCESS;
        }
        let text = match self {
            Self::Config(errors) => errors.render(look()),
            Self::Run(_)
            | Self::Test(_)
            | Self::Bench(_)
            | Self::State(_)
            | Self::Top(_)
            | Self::Stdout(_)
            | Self::File { .. } => {
                format!("error: {self}\n")
            }
        };
        if logs::is_json() {
            logs::fail(text.trim_end());
        } else {
            tell(&text);
        }
        ExitCode::from(self.exit_code())
    }

    fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Stdout(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Run(failure) => failure.is_broken_pipe(),
            Self::State(failure) => failure.is_broken_pipe(),
            Self::Bench(_) | Self::Top(_) | Self::Test(_) | Self::Config(_) | Self::File { .. } => {
                false
            }
        }
    }
}

/// How errors are drawn on stderr: fancy on a terminal, without colours where these are unwanted.
fn look() -> Look {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if !io::stderr().is_terminal() || is_dumb {
        Look::Plain
    } else if is_set("NO_COLOR") {
        Look::Colourless
    } else {
        Look::Fancy
    }
}

/// Writes `text` to stderr, as one object if logs are JSON, whatever their level. If stderr is gone there
/// is nobody left to tell.
pub fn tell(text: &str) {
    if logs::is_json() {
        return logs::answer(text.trim_end());
    }
    let _told = io::stderr().lock().write_all(text.as_bytes());
}

/// Writes `text` to stdout.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
