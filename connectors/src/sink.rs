//! The contract of sinks: where panes go, and copies that came late.
//!
//! A sink is made with the plan and the table of texts, and encodes the batches of any stage of that
//! plan: panes, or with `B` a [`LateBatch`] late copies. It keeps the order in which it gets them: a
//! retract stands directly before its insert.

use crate::kafka::client::KafkaError;
use nilometer_model::late::LateBatch;
use nilometer_model::pane::PaneBatch;
use opentelemetry::trace::SpanContext;
use std::fs::File;
use std::io;
use std::path::Path;

/// A writer of batches: of panes, unless something else is said.
///
/// One caller: any number of [`Sink::write`] and [`Sink::flush`], then one [`Sink::close`].
/// After an error the sink is not used again; what of the failed batch was written is not known.
pub trait Sink<B = PaneBatch>: Send {
    /// Encodes all of `batch`, in order. May keep it in a bounded buffer.
    ///
    /// # Errors
    /// The output cannot be written.
    fn write(&mut self, batch: &B) -> Result<(), SinkError>;

    /// Hands over what is buffered, so that a reader of the output sees all that was written so far.
    /// Called when nothing else is to be done, at most a few times a second.
    ///
    /// # Errors
    /// The output cannot be written.
    fn flush(&mut self) -> Result<(), SinkError>;

    /// Writes what only the end allows (a table), then flushes.
    ///
    /// # Errors
    /// The output cannot be written.
    fn close(&mut self) -> Result<(), SinkError>;

    /// What is written next is written by this span, or by none. A sink whose output has a place for it
    /// says so there.
    fn trace(&mut self, _context: Option<SpanContext>) {}

    /// For a sink that holds what is written to it until it is asked: takes that out, encoded, if it
    /// is at least `least` bytes. `None`, by default, for one that does not hold anything.
    fn take(&mut self, _least: usize) -> Option<Held> {
        None
    }

    /// Lets readers of the output have what [`Sink::take`] gave, whole and behind all that was
    /// published before; behind the `is_last` block of several, a crash of process or machine does
    /// not take them away again.
    ///
    /// # Errors
    /// The output cannot be written.
    fn publish(&mut self, _block: &[u8], _is_last: bool) -> Result<Receipt, SinkError> {
        Ok(Receipt::Taken)
    }
}

/// What has become of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Receipt {
    /// It is published, or will be with the last one.
    Taken,
    /// Nothing of its epoch has come out: all of its blocks are to be given again, from the first.
    Again,
}

/// What a sink has held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The block, as it is published.
    pub block: Vec<u8>,
    /// Where the output ends that has been published, if it can be cut off there and what follows be
    /// published again: then a restart repeats nothing. Otherwise it may be published twice.
    pub begins: Option<u64>,
}

/// A sink by what it takes.
pub enum Writer {
    /// Panes.
    Panes(Box<dyn Sink>),
    /// Late copies.
    Late(Box<dyn Sink<LateBatch>>),
}

impl Writer {
    /// See [`Sink::flush`].
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Panes(sink) => sink.flush(),
            Self::Late(sink) => sink.flush(),
        }
    }

    /// See [`Sink::close`].
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Panes(sink) => sink.close(),
            Self::Late(sink) => sink.close(),
        }
    }

    /// See [`Sink::trace`].
    pub fn trace(&mut self, context: Option<SpanContext>) {
        match self {
            Self::Panes(sink) => sink.trace(context),
            Self::Late(sink) => sink.trace(context),
        }
    }

    /// See [`Sink::take`].
    pub fn take(&mut self, least: usize) -> Option<Held> {
        match self {
            Self::Panes(sink) => sink.take(least),
            Self::Late(sink) => sink.take(least),
        }
    }

    /// See [`Sink::publish`].
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        match self {
            Self::Panes(sink) => sink.publish(block, is_last),
            Self::Late(sink) => sink.publish(block, is_last),
        }
    }
}

/// The output cannot be written: the process ends with exit code 4.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A file cannot be created.
    #[error(
        "cannot create `{path}`: {source}; check that its directory may be written, or set another `path`"
    )]
    Create {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// Something of the output is gone.
    #[error(
        "`{path}` has {found} bytes and {written} were written: somebody has changed it; put it back, or delete the state directory to start anew"
    )]
    Shorter {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Bytes that it has.
        found: u64,
        /// Bytes that it had.
        written: u64,
    },
    /// Writing failed midway.
    #[error("cannot write `{path}`: {source}; {}", remedy(source))]
    Write {
        /// Path as the user wrote it, or `stdout`.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// Kafka does not take it.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

impl SinkError {
    /// Whether the reader of the output has gone away (a closed pipe), which is no fault of ours.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Shorter { .. } | Self::Kafka(_) => false,
            Self::Write { source, .. } => source.kind() == io::ErrorKind::BrokenPipe,
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set `path` to another disk"
        }
        io::ErrorKind::BrokenPipe => "its reader has closed the pipe",
        _ => "check the disk and that the file may be written",
    }
}

/// Creates the file at `path` and the directories above it; what it held is lost.
///
/// # Errors
/// It cannot be created.
pub(crate) fn create(path: &Path) -> Result<File, SinkError> {
    let directories = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::create_dir_all(parent),
        Some(_) | None => Ok(()),
    };
    directories
        .and_then(|()| File::create(path))
        .map_err(|source| SinkError::Create { path: path.to_string_lossy().into(), source })
}
