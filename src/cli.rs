//! The command line: what can be asked of the program, and nothing of how it is done.
//!
//! A command is one variant of `Command` and one module with `execute`.

use crate::failure::Failure;
use crate::state::tools;
use crate::{bench, check, completions, generate, plan, run, schema, test, top};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Turns unbounded, out-of-order streams into results that are right early, on time and late.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done, or drained after a signal
  1    failed while running
  2    the configuration or the command line is wrong
  3    input cannot be read
  4    output cannot be written
  5    stored state was refused
  6    told to end, and not done within limits.drain_timeout; a stored state is gone on with
  7    held: the last three runs of a state have failed, see --retry and --skip-batch
  130  stopped by a second signal";

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run a pipeline until its input ends, or a signal comes
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Say whether a pipeline is valid, and everything that is wrong with it
    #[command(after_help = check::EXAMPLES)]
    Check(PipelineArgs),
    /// Print how a pipeline is computed: which stage reads what and why, and every setting in force
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Run transcripts against a pipeline and compare what comes with what they expect
    #[command(after_help = test::EXAMPLES)]
    Test(test::TestArgs),
    /// Show, check, export and import what a stored state holds
    #[command(after_help = tools::EXAMPLES)]
    State(tools::StateArgs),
    /// Watch a run as it goes on: rates, the watermark, late records, state
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArgs),
    /// Measure the engine against a hand-written loop that computes the same
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::BenchArgs),
    /// Write generated records to stdout
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArgs),
    /// Print the JSON Schema of pipeline files, for editors
    #[command(after_help = schema::EXAMPLES)]
    Schema,
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
}

/// A pipeline and what changes in it.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Pipeline: a TOML file
    pub file: PathBuf,
    /// Set a value of the pipeline, as `path=value`; goes before the file and the environment
    ///
    /// Elements of an array are named by number from 0 or by their `name`, for example
    /// `group.HOSTS.top_k.k=3`. The value is TOML; what is not is a text.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub sets: Vec<String>,
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Why it failed, with its exit code.
    pub fn execute(self) -> Result<(), Failure> {
        match self.command {
            Command::Run(args) => run::execute(&args),
            Command::Check(args) => check::execute(&args),
            Command::Plan(args) => plan::execute(&args),
            Command::Test(args) => test::execute(&args),
            Command::State(args) => tools::execute(&args),
            Command::Top(args) => top::execute(&args),
            Command::Bench(args) => bench::execute(&args),
            Command::Generate(args) => generate::execute(&args),
            Command::Schema => schema::execute(),
            Command::Completions(args) => completions::execute(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// That command and all below it.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
    }

    #[test]
    fn a_paragraph_of_help_is_a_line_which_is_wrapped_where_it_is_shown() {
        let cli = Cli::command();
        let helps = all(&cli).into_iter().filter_map(clap::Command::get_after_help);
        let mut paragraphs = 0;
        for help in helps.map(ToString::to_string) {
            let lines: Vec<_> = help.lines().collect();
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for pair in lines.windows(2) {
                assert!(!pair.iter().all(|line| is_prose(line)), "{pair:#?}");
            }
            paragraphs += lines.iter().filter(|line| line.len() > 100).count();
        }
        assert!(paragraphs >= 3, "{paragraphs}");
    }
}
