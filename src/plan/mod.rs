//! `nilometer plan`: how a pipeline is computed, and every setting in force.

mod document;
mod graph;
#[cfg(test)]
mod tests;
mod text;

use crate::cli::PipelineArgs;
use crate::config;
use crate::failure::{Failure, print};
use clap::{Args, ValueEnum};

pub use document::PlanDocument;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer plan config/flows.toml
  nilometer plan config/flows.toml --format json | jq .record_reads
  nilometer plan config/flows.toml --format dot | dot -Tsvg > plan.svg
  nilometer plan config/nephron.toml --set defaults.top_k.k=3";

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
    let document = PlanDocument::new(&pipeline);
    print(&match args.format {
        Format::Text => text::render(&document),
        Format::Json => document.to_json(),
        Format::Dot => graph::dot(&document),
        Format::Mermaid => graph::mermaid(&document),
    })
}
