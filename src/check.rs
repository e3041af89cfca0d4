//! `nilometer check`: is a pipeline valid?

use crate::cli::PipelineArgs;
use crate::config;
use crate::failure::{Failure, print};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer check config/flows.toml
  nilometer check config/captures.toml --set 'source.0.paths=[\"a.pcap\", \"b.pcap.gz\"]'";

/// Reads the pipeline and says that it is valid.
///
/// # Errors
/// Everything that is wrong with it.
pub fn execute(args: &PipelineArgs) -> Result<(), Failure> {
    let pipeline = config::load(&args.file, &args.sets)?;
    let groups = pipeline.job.groupings.len();
    let reads = pipeline.plan.record_reads();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    print(&format!(
        "{}: pipeline `{}` is valid: {groups} grouping{}, {reads} stage{} read{} records\n",
        args.file.display(),
        pipeline.job.name,
        plural(groups),
        plural(reads),
        if reads == 1 { "s" } else { "" },
    ))
}
