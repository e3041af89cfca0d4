//! Reads the text of a transcript. Every line is looked at, so that one reading finds all errors.
//!
//! The word that a line starts with decides what it is; expectations are indented, inputs are not
//! (but for the records of a batch). Invariant: a transcript that is returned has at least its
//! implied `end` as last input, and every expectation has an input above it.

use super::cursor::Cursor;
use super::{Expectation, Expected, ExpectedPane, Input, RecordLine, Scene, Transcript};
use crate::account::DropReason;
use crate::pane::{PaneKind, Timing};
use crate::time::{EventTime, ProcessingTime};

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It starts with a word of no meaning.
    #[error(
        "`{found}` starts no line: a line is record, batch, watermark, clock, idle, signal, restart, end, or (indented) pane, retract, gone, dropped{}",
        suggest(.found)
    )]
    Start {
        /// The word.
        found: Box<str>,
    },
    /// Something else stands where something is wanted.
    #[error("expected {wanted}, found `{found}`")]
    Unexpected {
        /// What is wanted.
        wanted: &'static str,
        /// What stands there.
        found: Box<str>,
    },
    /// The line ends too early.
    #[error("the line ends where {wanted} is expected")]
    Incomplete {
        /// What is wanted.
        wanted: &'static str,
    },
    /// A time that is none.
    #[error(
        "`{found}` is no time: write whole milliseconds, a whole number of s, m, h or d, RFC 3339 with its zone and at most milliseconds, -inf or +inf"
    )]
    Time {
        /// The word.
        found: Box<str>,
    },
    /// A number that is none.
    #[error("`{found}` is no whole number from 0 to 4294967295")]
    Number {
        /// The word.
        found: Box<str>,
    },
    /// A percentile that is none.
    #[error("`{found}` is no percentile: write 99% or 99.9%, from 0.001% to 100%")]
    Percentile {
        /// The word.
        found: Box<str>,
    },
    /// A partition beyond all reason.
    #[error("partition {found} is too large: at most {} partitions", PARTITIONS_MAX)]
    Partition {
        /// Its number.
        found: u32,
    },
    /// JSON that is none.
    #[error("{wanted} is no JSON object: {message}")]
    Json {
        /// What is wanted.
        wanted: &'static str,
        /// The parser's words.
        message: Box<str>,
    },
    /// A window without an instant.
    #[error("the window [{start},{end}) holds no instant: its end lies not after its start")]
    EmptyWindow {
        /// Its start.
        start: EventTime,
        /// Its end.
        end: EventTime,
    },
    /// An expectation with nothing that could cause it.
    #[error("an expectation follows the input that causes it: there is no input above this line")]
    NoInput,
    /// An expectation at the margin.
    #[error("an expectation is indented by two blanks or more")]
    NotIndented,
    /// Inside a batch stands something that is no record.
    #[error("a batch holds records only, up to a line with `}}`: found `{found}`")]
    InBatch {
        /// The word.
        found: Box<str>,
    },
    /// A batch that is never closed.
    #[error("the batch that starts here is not closed: its last line is `}}`")]
    OpenBatch,
}

/// Most source partitions of a transcript.
const PARTITIONS_MAX: u32 = 1024;

const STARTS: [&str; 12] = [
    "record",
    "batch",
    "watermark",
    "clock",
    "idle",
    "signal",
    "restart",
    "end",
    "pane",
    "retract",
    "gone",
    "dropped",
];

fn suggest(found: &str) -> String {
    let near = STARTS.iter().map(|word| (strsim::damerau_levenshtein(word, found), word)).min();
    match near {
        Some((distance, word)) if distance <= 2 => format!("; did you mean `{word}`?"),
        Some(_) | None => String::new(),
    }
}

/// What one line is.
enum Parsed {
    Blank,
    Input(Input),
    OpenBatch,
    Record(RecordLine),
    /// With the comment behind it.
    Expectation(Expectation, Box<str>),
}

/// Reads a transcript.
///
/// # Errors
/// Every line that cannot be read, in order.
pub fn parse(text: &str) -> Result<Transcript, Vec<ParseError>> {
    let mut reading = Reading::default();
    for (index, line) in text.lines().enumerate() {
        if let Err(problem) = reading.line(line, index + 1) {
            reading.errors.push(ParseError { line: index + 1, problem });
        }
    }
    reading.finish(text)
}

#[derive(Default)]
struct Reading {
    steps: Vec<Scene>,
    /// First line and records of the batch that is open.
    batch: Option<(usize, Vec<RecordLine>)>,
    errors: Vec<ParseError>,
    partition_max: u32,
    is_manual: bool,
}

impl Reading {
    fn line(&mut self, text: &str, line: usize) -> Result<(), Problem> {
        if self.batch.is_some() {
            return self.line_of_batch(text, line);
        }
        match self.parse_line(text, line)? {
            Parsed::Blank => {}
            Parsed::OpenBatch => self.batch = Some((line, Vec::new())),
            Parsed::Record(record) => self.push(line, line, Input::Records(vec![record])),
            Parsed::Input(input) => self.push(line, line, input),
            Parsed::Expectation(what, comment) => {
                if !text.starts_with("  ") && !text.starts_with('\t') {
                    return Err(Problem::NotIndented);
                }
                let scene = self.steps.last_mut().ok_or(Problem::NoInput)?;
                scene.expected.push(Expected { line, what, comment });
            }
        }
        Ok(())
    }

    fn line_of_batch(&mut self, text: &str, line: usize) -> Result<(), Problem> {
        let mut cursor = Cursor::new(text);
        if cursor.is_done() {
            return Ok(());
        }
        if cursor.eat("}") {
            if let Some((first, records)) = self.batch.take() {
                self.push(first, line, Input::Records(records));
            }
            return ended(&mut cursor);
        }
        match self.parse_line(text, line)? {
            Parsed::Record(record) => {
                if let Some((_, records)) = &mut self.batch {
                    records.push(record);
                }
                Ok(())
            }
            Parsed::Blank | Parsed::Input(_) | Parsed::OpenBatch | Parsed::Expectation(..) => {
                let found = text.split_whitespace().next().unwrap_or("").into();
                Err(Problem::InBatch { found })
            }
        }
    }

    fn push(&mut self, line: usize, last_line: usize, input: Input) {
        self.steps.push(Scene { line, last_line, input, expected: Vec::new() });
    }

    fn parse_line(&mut self, text: &str, line: usize) -> Result<Parsed, Problem> {
        let mut cursor = Cursor::new(text);
        if cursor.is_done() {
            return Ok(Parsed::Blank);
        }
        let parsed = match cursor.word() {
            "record" => Parsed::Record(self.record(&mut cursor, line)?),
            "batch" => {
                cursor.want("{")?;
                Parsed::OpenBatch
            }
            "watermark" => {
                self.is_manual = true;
                let partition = self.partition(&mut cursor)?.unwrap_or(0);
                let percentile = cursor.percentile()?;
                let time = cursor.time()?;
                Parsed::Input(match percentile {
                    Some(percentile) => Input::Share { partition, percentile, time },
                    None => Input::Watermark { partition, time },
                })
            }
            "clock" => {
                let time = cursor.time()?.as_millis();
                Parsed::Input(Input::Clock(ProcessingTime::from_millis(time)))
            }
            "idle" => match self.partition(&mut cursor)? {
                Some(partition) => Parsed::Input(Input::Idle(partition)),
                None => return Err(cursor.missing("p= and the number of a partition")),
            },
            "signal" => {
                let name = cursor.name("the name of a signal")?;
                Parsed::Input(Input::Signal(name.into()))
            }
            "restart" => Parsed::Input(Input::Restart),
            "end" => Parsed::Input(Input::End),
            word @ ("pane" | "retract" | "gone" | "dropped") => {
                let what = expectation(word, &mut cursor)?;
                ended(&mut cursor)?;
                Parsed::Expectation(what, cursor.comment().trim_end().into())
            }
            "" => {
                let found = text.split_whitespace().next().unwrap_or("").into();
                return Err(Problem::Start { found });
            }
            found => return Err(Problem::Start { found: found.into() }),
        };
        ended(&mut cursor)?;
        Ok(parsed)
    }

    fn record(&mut self, cursor: &mut Cursor<'_>, line: usize) -> Result<RecordLine, Problem> {
        let partition = self.partition(cursor)?.unwrap_or(0);
        cursor.want("@")?;
        let time = cursor.time()?;
        let fields = cursor.object("the fields of the record")?;
        Ok(RecordLine { line, partition, time, fields })
    }

    fn partition(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<u32>, Problem> {
        if !cursor.clone().eat("p=") {
            return Ok(None);
        }
        let found = cursor.number("p=")?;
        if found >= PARTITIONS_MAX {
            return Err(Problem::Partition { found });
        }
        self.partition_max = self.partition_max.max(found);
        Ok(Some(found))
    }

    fn finish(mut self, text: &str) -> Result<Transcript, Vec<ParseError>> {
        if let Some((line, _)) = self.batch {
            self.errors.push(ParseError { line, problem: Problem::OpenBatch });
            self.errors.sort_by_key(|error| error.line);
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let text: Vec<Box<str>> = text.lines().map(Box::from).collect();
        if !self.steps.iter().any(|scene| scene.input == Input::End) {
            // What the end causes stands below the last line: it is implied there.
            let (line, last_line) = (text.len() + 1, text.len());
            self.steps.push(Scene { line, last_line, input: Input::End, expected: Vec::new() });
        }
        Ok(Transcript {
            text,
            steps: self.steps,
            partitions: self.partition_max + 1,
            is_manual: self.is_manual,
        })
    }
}

fn ended(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    if cursor.is_done() { Ok(()) } else { Err(cursor.missing("the end of the line")) }
}

/// Stage and key.
fn place(cursor: &mut Cursor<'_>) -> Result<(Box<str>, serde_json::Value), Problem> {
    let stage = cursor.name("the name of a stage")?.into();
    let key = cursor.object("the key")?.into();
    Ok((stage, key))
}

/// What stands behind the first word of an expectation.
fn expectation(word: &str, cursor: &mut Cursor<'_>) -> Result<Expectation, Problem> {
    match word {
        "pane" => pane(PaneKind::Insert, cursor),
        "retract" => pane(PaneKind::Retract, cursor),
        "gone" => {
            let (stage, key) = place(cursor)?;
            Ok(Expectation::Gone { stage, key, window: cursor.window()? })
        }
        _ => {
            let reason = reason(cursor)?;
            let (stage, key) = place(cursor)?;
            Ok(Expectation::Dropped { reason, stage, key })
        }
    }
}

fn reason(cursor: &mut Cursor<'_>) -> Result<DropReason, Problem> {
    let word = cursor.clone().word();
    let reasons = [
        DropReason::Expired,
        DropReason::Closed,
        DropReason::Refused,
        DropReason::NoWindow,
        DropReason::Overflow,
    ];
    match reasons.into_iter().find(|reason| reason.name() == word) {
        Some(reason) => {
            cursor.word();
            Ok(reason)
        }
        None => Err(cursor.missing("a reason (expired, closed, refused, no_window or overflow)")),
    }
}

fn pane(kind: PaneKind, cursor: &mut Cursor<'_>) -> Result<Expectation, Problem> {
    let (stage, key) = place(cursor)?;
    let window = cursor.window()?;
    let index = cursor.number("#")?;
    let word = cursor.clone().word();
    let timings = [Timing::Early, Timing::OnTime, Timing::TimedOut, Timing::Late];
    let Some(timing) = timings.into_iter().find(|timing| timing.name() == word) else {
        return Err(cursor.missing("a timing (early, on_time, timed_out or late)"));
    };
    cursor.word();
    let is_last = cursor.eat("last");
    let event_time = if cursor.eat("@") { Some(cursor.time()?) } else { None };
    let values = cursor.object("the values")?.into();
    Ok(Expectation::Pane(ExpectedPane {
        kind,
        stage,
        key,
        window,
        index,
        timing,
        is_last,
        event_time,
        values,
    }))
}
