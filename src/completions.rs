//! `nilometer completions`: completions for a shell.

use crate::cli::Cli;
use crate::failure::{Failure, print};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer completions bash > /etc/bash_completion.d/nilometer
  nilometer completions zsh > ~/.zfunc/_nilometer
  nilometer completions fish > ~/.config/fish/completions/nilometer.fish";

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
///
/// # Errors
/// Stdout cannot be written.
pub fn execute(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "nilometer", &mut script);
    print(&String::from_utf8_lossy(&script))
}
