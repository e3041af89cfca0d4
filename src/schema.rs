//! `nilometer schema`: the JSON Schema of pipeline files.

use crate::config;
use crate::failure::{Failure, print};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer schema > nilometer.schema.json
  # then, first line of a pipeline, for editors with a TOML language server:
  #:schema ./nilometer.schema.json";

/// Prints the schema.
///
/// # Errors
/// Stdout cannot be written.
pub fn execute() -> Result<(), Failure> {
    print(&format!("{:#}\n", config::schema()))
}
