//! `nilometer state`: what a state directory holds, for people and programs that have nothing but the
//! directory.
//!
//! Invariant: a state that is looked at is not changed; a directory that another process works on is
//! refused.

mod export;
mod get;
mod import;
pub(crate) mod json;
mod lines;
mod list;
mod opened;
mod verify;

use super::StateError;
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use nilometer_connectors::store::StoreError;
use nilometer_model::image::{ImageError, UnknownFunction};
use std::io;
use std::path::PathBuf;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer state ls state/flows
  nilometer state get state/flows BY_HOST host=192.0.2.1
  nilometer state verify state/flows
  nilometer state export state/flows | zstd > flows.jsonl.zst
  zstd -dc flows.jsonl.zst | nilometer state import state/elsewhere

The pipeline must be stopped, or the directory be a copy. What is looked at is copied to TMPDIR \
first, and not changed.";

/// What to do with a state.
#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// List what a state holds: its epoch, watermark, stages, sources and sinks, and their sizes
    Ls(ListArgs),
    /// Print what a state holds of the keys of a stage: their windows or sessions
    Get(GetArgs),
    /// Write the last epoch of a state as lines of JSON, from which `import` makes it again
    Export(ExportArgs),
    /// Make a state of what `export` has written, in an empty directory or a new one
    Import(ImportArgs),
    /// Read a state to its last byte and say what is damaged
    Verify(VerifyArgs),
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for people
    Text,
    /// JSON, for programs; its schema is stable
    Json,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The state directory
    dir: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// The state directory
    dir: PathBuf,
    /// Name of the stage
    stage: String,
    /// Fields of the key, as `name=value`; those that are left out may have any value
    #[arg(value_name = "FIELD=VALUE")]
    key: Vec<String>,
    /// How many keys to print at most
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    limit: usize,
    /// Form of the output: a tree for people, or a line of JSON for each key
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The state directory
    dir: PathBuf,
    /// Write to this file and not to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The directory of the new state: empty, or not there yet
    dir: PathBuf,
    /// What `export` has written; stdin if it is left out
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The state directory
    dir: PathBuf,
}

/// A tool has not done what it should.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The state is refused.
    #[error(transparent)]
    State(#[from] StateError),
    /// What it holds by key cannot be read.
    #[error("the state in `{path}`: {source}; `nilometer state verify` says more")]
    Image {
        /// The directory.
        path: Box<str>,
        /// What is wrong.
        source: ImageError,
    },
    /// A program of its own has written it.
    #[error("the state in `{path}`: {source}; use the program that wrote it")]
    Function {
        /// The directory.
        path: Box<str>,
        /// The aggregate.
        source: UnknownFunction,
    },
    /// There is no epoch.
    #[error("nothing is stored yet in `{path}`; run the pipeline until an epoch is stored")]
    NothingStored {
        /// The directory.
        path: Box<str>,
    },
    /// There is no such stage.
    #[error("the state has no stage `{stage}`; it has {}", known.join(", "))]
    NoStage {
        /// The name that was given.
        stage: Box<str>,
        /// The names that there are.
        known: Vec<Box<str>>,
    },
    /// A part of the key is no part of it.
    #[error(
        "`{given}` is no FIELD=VALUE of the key of stage `{stage}`; its fields are {}",
        fields.join(", ")
    )]
    KeyField {
        /// What was given.
        given: Box<str>,
        /// The stage.
        stage: Box<str>,
        /// The fields of its key.
        fields: Vec<Box<str>>,
    },
    /// The stage has no such key.
    #[error("stage `{stage}` holds no such key; what has expired is gone")]
    NoKey {
        /// The stage.
        stage: Box<str>,
    },
    /// An export cannot be written.
    #[error("cannot write `{}`: {source}; give another `--output`", path.display())]
    Output {
        /// Path as the user wrote it.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// An export cannot be read.
    #[error(
        "cannot read `{path}`: {source}; give a file that `nilometer state export` has written"
    )]
    Input {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// What is to be imported is not what was exported.
    #[error("line {line} of `{path}`: {what}; nothing was imported, export the state once more")]
    Export {
        /// Path as the user wrote it.
        path: Box<str>,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: Box<str>,
    },
    /// Something is damaged.
    #[error(
        "the state in `{path}` is damaged:\n  {}\nrestore it from a copy, or import an export of it, or delete it to start anew",
        damage.join("\n  ")
    )]
    Damaged {
        /// The directory.
        path: Box<str>,
        /// What is damaged, a sentence each.
        damage: Vec<String>,
    },
    /// Standard output cannot be written.
    #[error("cannot write to stdout: {0}; check what it is redirected to")]
    Stdout(#[from] io::Error),
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        Self::State(error.into())
    }
}

impl ToolError {
    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoKey { .. } => 1,
            Self::NoStage { .. } | Self::KeyField { .. } => 2,
            Self::Input { .. } | Self::Export { .. } => 3,
            Self::Output { .. } | Self::Stdout(_) => 4,
            Self::State(_)
            | Self::Image { .. }
            | Self::Function { .. }
            | Self::NothingStored { .. }
            | Self::Damaged { .. } => 5,
        }
    }

    /// Whether the reader of the output has gone away, which is no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Runs a tool.
///
/// # Errors
/// The state cannot be read or made, or the output cannot be written.
pub fn execute(args: &StateArgs) -> Result<(), Failure> {
    let done = match &args.tool {
        Tool::Ls(args) => list::execute(args),
        Tool::Get(args) => get::execute(args),
        Tool::Export(args) => export::execute(args),
        Tool::Import(args) => import::execute(args),
        Tool::Verify(args) => verify::execute(args),
    };
    Ok(done?)
}
