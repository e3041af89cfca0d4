//! `nilometer test`: do transcripts come out as written?

use crate::cli::PipelineArgs;
use crate::config::{self, Pipeline, Records};
use crate::failure::{Failure, print, tell};
use crate::test_documents::{self, DocumentError};
use crate::test_report::{Colours, report};
use clap::Args;
use nilometer_connectors::panes::{PaneRef, write_pane};
use nilometer_connectors::text::{OneDocument, TimeUnit};
use nilometer_model::flow::FLOW_FIELDS;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::row::Field;
use nilometer_model::symbol::Symbols;
use nilometer_model::transcript::{self, Mismatch, ParseError, RunError, Setup, Step, Transcript};
use nilometer_model::value::Type;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer test pipeline.toml late.txt
  nilometer test --bless pipeline.toml late.txt
  nilometer test --print pipeline.toml late.txt | jq .values

Exit codes: 0 all match, 1 something differs, 2 a file or the pipeline cannot be used.

The grammar of transcripts is described in docs/transcripts.md.";

/// Which transcripts, and what to do with them.
#[derive(Debug, Args)]
pub struct TestArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Transcripts to run against the pipeline
    #[arg(required = true)]
    transcripts: Vec<PathBuf>,
    /// Compare nothing: write the panes that come to stdout, one JSON object per line
    #[arg(long)]
    print: bool,
    /// Write what came into the transcripts as their expectations; comments are kept
    #[arg(long, conflicts_with = "print")]
    bless: bool,
}

/// Not all transcripts are as they should be. What is wrong with each has been told.
#[derive(Debug, thiserror::Error)]
pub enum TestFailure {
    /// Something else came than was expected.
    #[error("{differing} of {all} transcripts differ from what came")]
    Differ {
        /// How many.
        differing: usize,
        /// Of how many.
        all: usize,
    },
    /// A transcript cannot be used.
    #[error("{unusable} of {all} transcripts cannot be used")]
    Unusable {
        /// How many.
        unusable: usize,
        /// Of how many.
        all: usize,
    },
}

impl TestFailure {
    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Differ { .. } => 1,
            Self::Unusable { .. } => 2,
        }
    }
}

/// Why a transcript gave no result.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("cannot be written: {0}")]
    Write(io::Error),
    #[error("cannot be used")]
    Parse(Vec<ParseError>),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Stdout(Failure),
}

/// Runs every transcript and tells on stderr how each came out.
///
/// # Errors
/// The pipeline is not valid, or a transcript differs or cannot be used.
pub fn execute(args: &TestArgs) -> Result<(), Failure> {
    let pipeline = config::load(&args.pipeline.file, &args.pipeline.sets)?;
    let mut bench = Bench::new(&pipeline)?;
    let (mut differing, mut unusable) = (0, 0);
    for path in &args.transcripts {
        match bench.file(path, args) {
            Ok(true) => {}
            Ok(false) => differing += 1,
            Err(FileError::Stdout(failure)) => return Err(failure),
            Err(error) => {
                tell(&told(path, &error));
                match &error {
                    FileError::Run(run) if !run.problem.is_unusable() => differing += 1,
                    _ => unusable += 1,
                }
            }
        }
    }
    let all = args.transcripts.len();
    match (unusable, differing) {
        (0, 0) => Ok(()),
        (0, _) => Err(TestFailure::Differ { differing, all }.into()),
        (_, _) => Err(TestFailure::Unusable { unusable, all }.into()),
    }
}

fn told(path: &Path, error: &FileError) -> String {
    let path = path.display();
    match error {
        FileError::Parse(errors) => errors.iter().fold(String::new(), |mut text, error| {
            // Writing to a String cannot fail.
            let _written = writeln!(text, "{path}:{}: {}", error.line, error.problem);
            text
        }),
        FileError::Document(error) => format!("{path}:{}: {error}\n", error.line),
        FileError::Run(error) => format!("{path}:{}: {}\n", error.line, error.problem),
        FileError::Read(_) | FileError::Write(_) | FileError::Stdout(_) => {
            format!("{path}: {error}\n")
        }
    }
}

/// What all transcripts of a call have in common.
struct Bench<'a> {
    pipeline: &'a Pipeline,
    fields: Vec<Field>,
    time_field: Option<Box<str>>,
    documents: Option<OneDocument>,
}

impl<'a> Bench<'a> {
    fn new(pipeline: &'a Pipeline) -> Result<Self, Failure> {
        let (fields, time_field) = match &pipeline.records {
            Records::Flows(_) => {
                let fields = FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty));
                (fields.collect(), Some("last_switched".into()))
            }
            Records::Declared(schema) => {
                let is_time = |field: &&nilometer_connectors::text::RecordField| {
                    field.from == schema.time
                        && field.ty == Type::I64
                        && schema.time_unit == TimeUnit::Millis
                };
                let time_field = schema.fields.iter().find(is_time).map(|f| f.name.clone());
                let fields = schema.fields.iter().map(|field| Field::new(&field.name, field.ty));
                (fields.collect(), time_field)
            }
        };
        let documents = test_documents::reader(&pipeline.records)?;
        Ok(Self { pipeline, fields, time_field, documents })
    }

    /// Runs one transcript; `false` if it differs.
    fn file(&mut self, path: &Path, args: &TestArgs) -> Result<bool, FileError> {
        let text = fs::read_to_string(path).map_err(FileError::Read)?;
        let mut transcript = transcript::parse(&text).map_err(FileError::Parse)?;
        if let Some(documents) = &mut self.documents {
            test_documents::normalise(&mut transcript, documents)?;
        }
        let mut lines = String::new();
        let plan = &self.pipeline.plan;
        let mut see = |line: usize, batch: &PaneBatch, symbols: &Symbols| {
            if args.print {
                write_lines((line, batch), plan, symbols, &mut lines);
            }
        };
        let setup = Setup {
            plan,
            fields: &self.fields,
            time_field: self.time_field.as_deref(),
            watermark: self.pipeline.watermark.settings,
            mark: self.pipeline.watermark.mark.as_ref(),
            progress: self.pipeline.progress,
            derived: &self.pipeline.derived,
            filter: self.pipeline.filter.as_ref(),
        };
        let steps = transcript::run(setup, &transcript, &mut see)?;
        if args.print {
            print(&lines).map_err(FileError::Stdout)?;
            return Ok(true);
        }
        let mismatches = transcript::compare(&transcript, &steps);
        if args.bless {
            return bless(path, (&transcript, &steps), &mismatches);
        }
        tell(&report(path, (&transcript, &steps), &mismatches, Colours::of_stderr()));
        Ok(mismatches.is_empty())
    }
}

/// Writes what came into the transcript; `false` if that cannot make it match.
fn bless(
    path: &Path,
    (transcript, steps): (&Transcript, &[Step]),
    mismatches: &[Mismatch],
) -> Result<bool, FileError> {
    let path_shown = path.display();
    if mismatches.iter().any(Mismatch::is_blessable) {
        fs::write(path, transcript::bless(transcript, steps)).map_err(FileError::Write)?;
        tell(&format!("{path_shown}: rewritten\n"));
    } else {
        tell(&format!("{path_shown}: unchanged\n"));
    }
    // What no expectation can say is still wrong.
    let mut is_right = true;
    for mismatch in mismatches.iter().filter(|mismatch| !mismatch.is_blessable()) {
        tell(&format!("{path_shown}: {mismatch}\n"));
        is_right = false;
    }
    Ok(is_right)
}

/// Appends the panes of a batch in the format `pane`, each with the line that caused it.
fn write_lines(
    (line, batch): (usize, &PaneBatch),
    plan: &Plan,
    symbols: &Symbols,
    out: &mut String,
) {
    let Some(stage) = plan.stages.get(batch.stage.index()) else { return };
    for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
        write_pane(&plan.name, stage, PaneRef { meta, key, values }, symbols, out);
        // The member goes last, before the closing brace.
        out.pop();
        let _written = writeln!(out, ",\"line\":{line}}}");
    }
}
