//! Transcripts: inputs, marks and expected panes in one text, run against a plan on a virtual
//! clock with one shard.
//!
//! [`parse`] reads the text, [`run`] plays its inputs and notes what came, [`compare`] sets that
//! against what was expected, [`bless`] writes the text anew. The grammar is described in
//! `docs/transcripts.md`. Invariant: what is emitted and not expected fails, and the reverse.

mod bless;
mod check;
mod cursor;
mod json;
mod node;
mod outcome;
mod pacing;
mod parse;
mod places;
mod problem;

pub use bless::bless;
pub use check::{Mismatch, compare};
pub use json::WrongField;
pub use node::{Setup, run};
pub use outcome::{Dropped, Emitted, Step};
pub use parse::{ParseError, Problem, parse};
pub use problem::{RunError, RunProblem};

use crate::account::DropReason;
use crate::pane::{PaneKind, Timing};
use crate::time::{EventTime, ProcessingTime, Window};
use crate::watermark::Percentile;

/// A transcript as written.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The lines of the text, without their ends; line 1 comes first.
    pub text: Vec<Box<str>>,
    /// Inputs in order, each with what it should cause.
    pub steps: Vec<Scene>,
    /// How many source partitions there are: one more than the largest that is named.
    pub partitions: u32,
    /// Whether watermarks come from `watermark` lines only.
    pub is_manual: bool,
}

/// One input line with the expectations below it.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Number of the line, from 1; of a batch, its first.
    pub line: usize,
    /// Number of the last line of the input: `}` for a batch.
    pub last_line: usize,
    /// What happens.
    pub input: Input,
    /// What it should cause.
    pub expected: Vec<Expected>,
}

/// What an input line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// One message of records.
    Records(Vec<RecordLine>),
    /// A partition promises.
    Watermark {
        /// The partition.
        partition: u32,
        /// No record below it is still to come.
        time: EventTime,
    },
    /// A partition promises that of such a share of its records.
    Share {
        /// The partition.
        partition: u32,
        /// The share.
        percentile: Percentile,
        /// No record of it below this is still to come.
        time: EventTime,
    },
    /// The clock stands at this time; readers have looked for more and found nothing.
    Clock(ProcessingTime),
    /// A partition is idle from now on.
    Idle(u32),
    /// A signal from outside.
    Signal(Box<str>),
    /// The node is encoded to bytes and decoded.
    Restart,
    /// All input has ended.
    End,
}

/// A record as written.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordLine {
    /// Number of its line, from 1.
    pub line: usize,
    /// Source partition.
    pub partition: u32,
    /// Event time.
    pub time: EventTime,
    /// Fields by name.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// An expectation with its line.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Number of its line, from 1.
    pub line: usize,
    /// What is expected.
    pub what: Expectation,
    /// The comment behind it, with its `#`; empty if there is none.
    pub comment: Box<str>,
}

/// What an input should cause.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// A pane or a retract.
    Pane(ExpectedPane),
    /// No state of the window is left; true whenever it holds, need not be listed.
    Gone {
        /// Name of the stage.
        stage: Box<str>,
        /// Key as an object.
        key: serde_json::Value,
        /// The window.
        window: Window,
    },
    /// One window copy of a record was dropped.
    Dropped {
        /// Why.
        reason: DropReason,
        /// Name of the stage.
        stage: Box<str>,
        /// Key as an object.
        key: serde_json::Value,
    },
}

/// A pane as a transcript writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedPane {
    /// Insert (`pane`) or retract.
    pub kind: PaneKind,
    /// Name of the stage.
    pub stage: Box<str>,
    /// Key as an object.
    pub key: serde_json::Value,
    /// The window.
    pub window: Window,
    /// Number of the pane in its window.
    pub index: u32,
    /// Early, on time or late.
    pub timing: Timing,
    /// Whether no pane can follow.
    pub is_last: bool,
    /// Its event time; `None` if that does not matter.
    pub event_time: Option<EventTime>,
    /// Values as an object.
    pub values: serde_json::Value,
}
