//! `nilometer plan`: how a pipeline is computed, and every setting in force.

mod document;
mod graph;
mod sequence;
#[cfg(test)]
mod tests;
mod text;

use crate::cli::PipelineArgs;
use crate::config;
use crate::failure::{Failure, print};
use crate::run_failure::RunFailure;
use crate::state::StateReport;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub use document::PlanDocument;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer plan config/flows.toml
  nilometer plan config/flows.toml --format json | jq .record_reads
  nilometer plan config/flows.toml --format dot | dot -Tsvg > plan.svg
  nilometer plan config/nephron.toml --set defaults.top_k.k=3
  nilometer plan config/flows.toml --state state/flows

With --state: what the next start makes of that state, and nothing is changed by it.";

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show what a start makes of the state in this directory: what goes on, what begins anew, and
    /// what stops the start; as a table, or within the JSON
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The same, as if what the state holds of a stage were given up; as in `nilometer run`
    #[arg(long = "drop-state", value_name = "STAGE", requires = "state")]
    drops: Vec<String>,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree for people
    Text,
    /// JSON, for programs; its schema is stable
    Json,
    /// Graphviz
    Dot,
    /// Mermaid flowchart
    Mermaid,
}

/// Prints the plan of a pipeline.
///
/// # Errors
/// The pipeline is not valid, or stdout cannot be written.
pub fn execute(args: &PlanArgs) -> Result<(), Failure> {
    let pipeline = config::load(&args.pipeline.file, &args.pipeline.sets)?;
    let mut document = PlanDocument::new(&pipeline);
    if let Some(path) = &args.state {
        if matches!(args.format, Format::Dot | Format::Mermaid) {
            return Err(RunFailure::DrawnState.into());
        }
        let report = StateReport::new(path, &pipeline, &args.drops).map_err(RunFailure::State)?;
        if args.format == Format::Text {
            return print(&report.map_or_else(
                || format!("state `{}`: nothing is stored yet, all begins\n", path.display()),
                |report| report.text(),
            ));
        }
        document.state = report;
    }
    print(&match args.format {
        Format::Text => text::render(&document),
        Format::Json => document.to_json(),
        Format::Dot => graph::dot(&document),
        Format::Mermaid => graph::mermaid(&document),
    })
}
