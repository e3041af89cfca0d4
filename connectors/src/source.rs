//! The contract of sources: where records come from.
//!
//! A source is one reader and fills one partition. It decodes straight into rows of the plan's
//! layout. Whatever it cannot decode it rejects by [`Polled::reject`], so that nothing that was
//! read is lost without a count.

use crate::account::{Reason, SourceAccount};
use crate::dead_letter::{DeadLetter, Place};
use crate::kafka::client::KafkaError;
use crate::trace_context::Contexts;
use nilometer_model::row::{self, RowBatch, RowLayout};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// A reader of records.
///
/// One caller, which calls [`Source::poll`] with the same [`Polled`] until it returns
/// [`State::End`] or an error, and not after that. The caller takes batch, letters and notices out
/// of the [`Polled`] between two calls as it likes; what it leaves there is added to.
pub trait Source: Send {
    /// Appends about `records_max` records to `out.batch` (more where one datagram holds more),
    /// counts each in `out.account.read`, and rejects what is not a record. Waits at most about
    /// 50 ms for input; may return early with nothing.
    ///
    /// # Errors
    /// The input cannot be read at all, by fault of the operating system or of the operator. What
    /// the call had appended before stays valid. Content that makes no sense is never an error.
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError>;

    /// How far a bounded input has been read; `None` where the end is not known.
    fn progress(&self) -> Option<Progress>;

    /// Ends the reading before the end of the input, in the place of any further poll. A source
    /// that has taken in what it has not given yet (datagrams in a queue) counts that in `out`; it
    /// appends no record.
    fn stop(&mut self, _out: &mut Polled) {}

    /// What a later process needs to go on behind everything that was given so far. By default, a
    /// source that can only begin anew.
    fn position(&self) -> Position {
        Position::default()
    }

    /// Whether it reads several partitions, each with a watermark of its own. Their records are told
    /// apart by the `partition` of their positions, numbered from 0 as they are found, and where
    /// each stands is told by [`Polled::partitions`].
    fn is_partitioned(&self) -> bool {
        false
    }

    /// By number, which partitions are to be read no further for now, since they are ahead of others;
    /// called after every poll of a source of several. What it has fetched already it may give.
    fn hold(&mut self, _partitions: &[bool]) {}

    /// How far each partition has been read, by number; nothing if there is but one.
    fn partitions(&self) -> Vec<PartitionLag> {
        Vec::new()
    }

    /// Where a record that it gave is found in its origin, for dead letters; `None` where the name of
    /// the source and the number of the record say it.
    fn find(&self, _position: row::Position) -> Option<(Arc<str>, Place)> {
        None
    }

    /// An epoch ends at `position`, which this source told. One at most is under way, so whoever lets
    /// its results out may be told so.
    fn cut(&mut self, _position: &[u8]) {}

    /// What was read up to `position`, which this source told, will never be read again. Whoever
    /// keeps account of readers may be told so.
    fn stored(&mut self, _position: &[u8]) {}

    /// Goes on at a position that a source with the same settings told. Called before the first
    /// poll, or not at all. Nothing is counted in the account: that of the position goes on.
    ///
    /// # Errors
    /// The input is not what it was, or `position` is not one of this source.
    fn resume(&mut self, _position: &[u8]) -> Result<(), SourceError> {
        Ok(())
    }
}

/// How far a source has read, for a later process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// In a form that only the source knows.
    pub bytes: Vec<u8>,
    /// Whether the input can be read again from there, and gives the same records. Otherwise what
    /// comes until somebody reads again is lost.
    pub is_exact: bool,
}

/// The position that `state` is.
pub(crate) fn position_of(state: &impl Serialize) -> Vec<u8> {
    // Into memory, of types that all serialise: nothing can fail.
    postcard::to_stdvec(state).unwrap_or_default()
}

/// The state that a position of `origin` is.
pub(crate) fn state_of<'a, S: Deserialize<'a>>(
    position: &'a [u8],
    origin: &str,
) -> Result<S, SourceError> {
    postcard::from_bytes(position)
        .map_err(|_| SourceError::resume(origin, "its position is not one of this source"))
}

/// How far a partition has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Its name, such as `flows/3`.
    pub name: Arc<str>,
    /// Offset of the next record to be read.
    pub next: u64,
    /// Offset behind its last record, or behind the last that is to be read; `None` where that is
    /// not known yet.
    pub end: Option<u64>,
}

/// What a source can say after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More can be read at once.
    More,
    /// More may have come while nobody could look for it: whoever was silent before is waited for until
    /// that has been read.
    Unseen,
    /// Of a partition: nobody reads it now, since others do, or it is gone.
    Away,
    /// Everything that has come has been read; more may come.
    Pending,
    /// The input has ended.
    End,
}

/// How much of a bounded input has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Units read so far: bytes as stored (compressed ones), or records of a generator.
    pub done: u64,
    /// Units in all, as far as known when the source was opened.
    pub total: u64,
}

/// Where a source puts what it read. The caller keeps one per source, for the life of the source.
#[derive(Debug)]
pub struct Polled {
    /// Records, in arrival order.
    pub batch: RowBatch,
    /// Rejected input, for the dead-letter file; empty if [`Polled::new`] was told that none is
    /// kept.
    pub letters: Vec<DeadLetter>,
    /// News for the operator, one sentence each: an input that ends early, a file left out.
    pub notices: Vec<String>,
    /// Where each partition stands behind the batch, by number; empty unless the source reads
    /// several.
    pub partitions: Vec<State>,
    /// Which spans the records of the batch were made by, where their headers say so and the source was
    /// told to look.
    pub contexts: Contexts,
    /// How what it reads has changed, in order; the caller takes them out.
    pub rebalances: Vec<Rebalance>,
    /// Counts since the source was opened.
    pub account: SourceAccount,
    keeps_letters: bool,
}

impl Polled {
    /// Nothing yet, for rows of `layout`; `keeps_letters` says whether there is a dead-letter file.
    pub fn new(layout: Arc<RowLayout>, keeps_letters: bool) -> Self {
        Self {
            batch: RowBatch::new(layout),
            letters: Vec::new(),
            notices: Vec::new(),
            partitions: Vec::new(),
            contexts: Contexts::default(),
            rebalances: Vec::new(),
            account: SourceAccount::default(),
            keeps_letters,
        }
    }

    /// Gives a record that was read (and is counted as such by the source) its outcome: it is no
    /// record of this pipeline, for `reason`. It is dead-lettered where letters are kept, else
    /// malformed. `detail` tells a person the particulars (field, value) and may be empty.
    pub fn reject(&mut self, found: Found<'_>, reason: Reason, detail: &str) {
        if self.keeps_letters {
            self.account.dead_lettered.add(reason.name(), 1);
            self.letters.push(DeadLetter::new(found, reason, detail));
        } else {
            self.account.malformed.add(reason.name(), 1);
        }
    }

    /// Bytes of the letters from the one with this index on.
    pub(crate) fn letter_bytes(&self, first: usize) -> usize {
        self.letters.iter().skip(first).map(DeadLetter::bytes).sum()
    }

    /// Most bytes of letters that one poll leaves: a source then ends the poll early.
    pub const LETTER_BYTES_MAX: usize = 1 << 20;
}

/// A change of the partitions that a source reads, among readers that share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebalance {
    /// What has become of the partitions.
    pub change: Change,
    /// Their names.
    pub partitions: Vec<Arc<str>>,
    /// When it was heard of, and when it was done.
    pub took: (SystemTime, SystemTime),
}

/// What becomes of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They are read from now on.
    Gained,
    /// They are let go of, with all that was read of them stored.
    LetGo,
    /// They were lost: others may read them already.
    Lost,
}

impl Change {
    /// The name in spans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gained => "gained",
            Self::LetGo => "let_go",
            Self::Lost => "lost",
        }
    }
}

/// A piece of input and where it was found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The path or address that it came from.
    pub origin: &'a Arc<str>,
    /// Where in the origin it stood.
    pub place: Place,
    /// The input as it was read, or the beginning of it.
    pub raw: &'a [u8],
    /// How many bytes the input had; at least those of `raw`.
    pub bytes: u64,
}

impl<'a> Found<'a> {
    /// The whole of a piece of input.
    pub fn new(origin: &'a Arc<str>, place: Place, raw: &'a [u8]) -> Self {
        Self { origin, place, raw, bytes: raw.len() as u64 }
    }
}

/// The input cannot be read: the process ends with exit code 3.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be opened or read.
    #[error("cannot read `{path}`: {source}; check that it exists and that you may read it")]
    File {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is to be a capture, and is none.
    #[error(
        "`{path}` is no capture: {found}; a file that is the content of one datagram has format = \"datagram\""
    )]
    NotACapture {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What it is instead.
        found: Box<str>,
    },
    /// An input is not what it was when its position was stored.
    #[error(
        "cannot go on in `{origin}`: {detail}; put it back as it was, or delete the state directory to start anew"
    )]
    Resume {
        /// Path as the user wrote it, or what the input is.
        origin: Box<str>,
        /// What is different.
        detail: Box<str>,
    },
    /// Topics of Kafka cannot be read.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// A socket cannot be bound or read.
    #[error(
        "cannot listen on {address}: {source}; check that the address is of this machine and that the port is free"
    )]
    Socket {
        /// Address as the user wrote it.
        address: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
}

impl SourceError {
    pub(crate) fn resume(origin: &str, detail: impl Into<Box<str>>) -> Self {
        Self::Resume { origin: origin.into(), detail: detail.into() }
    }
}
