//! The messages between actors: nouns and past participles, batches and never single records.
//!
//! To the right go records, panes and marks; to the left go credits ([`Returned`], [`Handled`]),
//! turns to read ([`Granted`], [`CycleBegun`]) and the request to stop reading ([`Drain`]). Where
//! state is stored, barriers go to the right with them, parts of an epoch to the store, and that it
//! is [`Durable`] comes back. Why none of them overtakes another is argued in `deliver`, which sends
//! them all.

use crate::checkpoint::{Part, Piece};
use crate::clock::Stopwatch;
use crate::credit::Credit;
use crate::shard::ShardActor;
use crate::sink::SinkActor;
use crate::source::SourceActor;
use crate::trace::Origin;
use actix::{Addr, Message};
use nilometer_model::epoch::Epoch;
use nilometer_model::image::{Look, LookError, WrittenKey};
use nilometer_model::late::LateBatch;
use nilometer_model::node::credit::Taker;
use nilometer_model::node::{Ancestor, Mark};
use nilometer_model::pane::{PaneBatch, StageId};
use nilometer_model::row::RowBatch;
use nilometer_model::shard::{ExchangeDeltas, ExchangeMark};
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::watermark;
use opentelemetry::trace::SpanContext;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Source to shard: records whose keys the shard owns.
pub(crate) struct Records {
    /// The partition that they are of.
    pub(crate) partition: u32,
    pub(crate) batch: RowBatch,
    /// What they cost the source, to be given back to it.
    pub(crate) credit: Credit,
    pub(crate) source: Addr<SourceActor>,
    /// Since when they are being read: whatever follows from them began then.
    pub(crate) since: Stopwatch,
    /// The span of the batch that they are of, if it is traced.
    pub(crate) context: Option<SpanContext>,
}

/// Shard to source: credits.
pub(crate) struct Returned(pub(crate) Credit);

/// Source to coordinator, behind the records that it covers.
pub(crate) struct Progress {
    pub(crate) report: watermark::Progress,
    /// Since when the records behind it are being read.
    pub(crate) since: Stopwatch,
}

/// Source to coordinator, where sources read in step: it has read records and waits for its turn.
pub(crate) struct Waiting {
    pub(crate) partition: u32,
    /// Event time of the earliest of them.
    pub(crate) head: EventTime,
    /// What it promises in front of them.
    pub(crate) watermark: Watermark,
}

/// Coordinator to source: its turn has come.
pub(crate) struct Granted {
    /// How far the furthest of the others has come.
    pub(crate) others: Option<EventTime>,
}

/// Source to coordinator: it has read what belongs to the cycle that begins behind cycle `after`,
/// and reads no more before it has.
pub(crate) struct Cut {
    pub(crate) partition: u32,
    pub(crate) after: u64,
}

/// Coordinator to source: a cycle has begun.
pub(crate) struct CycleBegun {
    pub(crate) number: u64,
}

/// Shard to coordinator: a cycle, and all before it.
pub(crate) struct CycleFinished {
    pub(crate) shard: usize,
    pub(crate) number: u64,
}

/// Source to coordinator: it reads no more.
pub(crate) struct Ended {
    pub(crate) partition: u32,
}

/// Coordinator to shard: a mark of the whole input.
#[derive(Clone)]
pub(crate) struct Marked {
    pub(crate) mark: Mark,
    /// The epoch that began last before it.
    pub(crate) epoch: Epoch,
    /// When that began which has led to it.
    pub(crate) since: Stopwatch,
}

/// Shard to shard: deltas of an exchanged stage whose coarser keys the receiver owns.
pub(crate) struct Exchanged {
    /// Number of the sender.
    pub(crate) shard: usize,
    pub(crate) deltas: ExchangeDeltas,
    /// What waits of the sender's output until this is handled.
    pub(crate) bytes: usize,
    pub(crate) sender: Addr<ShardActor>,
    /// When that began which has led to it.
    pub(crate) since: Stopwatch,
    /// Batches that they can come from, if those are traced.
    pub(crate) batches: Vec<Ancestor<SpanContext>>,
}

/// Shard to shard: the sender's watermark of an exchanged stage.
#[derive(Clone, Copy)]
pub(crate) struct StageMarked {
    pub(crate) mark: ExchangeMark,
    /// When that began which has led to it.
    pub(crate) since: Stopwatch,
}

/// Shard to shard: a round of closing.
pub(crate) struct Closed {
    pub(crate) round: usize,
}

/// Shard to sink.
pub(crate) struct Panes {
    pub(crate) panes: Arc<PaneBatch>,
    /// When that began which has led to them.
    pub(crate) since: Stopwatch,
    /// What waits of the shard's output until this is written.
    pub(crate) bytes: usize,
    pub(crate) shard: usize,
    pub(crate) sender: Addr<ShardActor>,
    /// Where they come from, if that is traced.
    pub(crate) origin: Option<Arc<Origin>>,
}

/// Shard to sink: copies that came late.
pub(crate) struct Late {
    pub(crate) shard: usize,
    pub(crate) late: Arc<LateBatch>,
    /// What waits of the shard's output until this is written.
    pub(crate) bytes: usize,
    pub(crate) sender: Addr<ShardActor>,
}

/// Shard to sink: what the shard has let pass, behind its panes.
pub(crate) enum Passed {
    /// What its slowest stage has completed.
    Watermark { shard: usize, watermark: Watermark },
    /// Everything of this epoch.
    Barrier { shard: usize },
    /// Everything.
    All { shard: usize },
}

/// Coordinator to source: an epoch has begun.
pub(crate) struct EpochBegun;

/// Source to shard: what it has sent before belongs to the epoch that has begun, what it sends
/// behind to the next.
pub(crate) struct Barrier {
    pub(crate) partition: u32,
}

/// Shard to shard: a round of the barriers.
#[derive(Clone, Copy)]
pub(crate) struct Aligned {
    pub(crate) shard: usize,
    pub(crate) round: usize,
}

/// Sink to store: a block of its outbox, ahead of its part.
pub(crate) struct Block {
    /// The epoch that it will belong to.
    pub(crate) epoch: Epoch,
    pub(crate) piece: Piece,
    pub(crate) sink: Addr<SinkActor>,
}

/// Store to sink: a block of so many bytes has been written.
pub(crate) struct Written {
    pub(crate) bytes: usize,
}

/// Sink to store: it wants a block of the epoch that is durable back.
pub(crate) struct Wanted {
    /// Name of the sink.
    pub(crate) name: Arc<str>,
    /// Number of the block.
    pub(crate) number: u32,
    pub(crate) sink: Addr<SinkActor>,
}

/// Store to sink: the block that it wanted.
pub(crate) struct Given {
    pub(crate) block: Vec<u8>,
}

/// Source, sink or host to coordinator: it has as much for an epoch as one may have, and waits for the
/// next to begin.
pub(crate) struct Demanded;

/// Host to coordinator: a signal from outside.
pub(crate) struct Signalled {
    pub(crate) name: Arc<str>,
}

/// Store to source and sink: an epoch will never be lost.
pub(crate) struct Durable {
    pub(crate) epoch: Epoch,
}

/// Sink to store: it has published its part of an epoch.
pub(crate) struct Published {
    pub(crate) sink: Arc<str>,
    pub(crate) epoch: Epoch,
}

/// Store to coordinator: an epoch is durable, and all sinks have published it.
pub(crate) struct Concluded {
    pub(crate) epoch: Epoch,
}

/// Coordinator or sink to store: nothing will follow.
pub(crate) struct Finished;

/// Host to coordinator, and store to sinks: no epoch can be stored any more.
pub(crate) struct GivenUp;

/// Sink or shard to shard: output of so many bytes has been handled.
pub(crate) struct Handled {
    pub(crate) by: Taker,
    pub(crate) bytes: usize,
}

/// Host to shard: what does it hold of a key?
pub(crate) struct Asked {
    pub(crate) stage: StageId,
    pub(crate) key: Arc<WrittenKey>,
    pub(crate) reply: oneshot::Sender<Result<Look, LookError>>,
}

/// Clock to all that must know the time.
#[derive(Clone, Copy)]
pub(crate) struct Tick(pub(crate) nilometer_model::tick::Tick);

/// Source to itself: the next turn to read.
pub(crate) struct Turn;

/// Host to source: read no more, let pass what has been read.
pub(crate) struct Drain;

macro_rules! messages {
    ($($name:ident),*) => { $(impl Message for $name { type Result = (); })* };
}

messages!(
    Records,
    Returned,
    Progress,
    Waiting,
    Granted,
    Cut,
    CycleBegun,
    CycleFinished,
    Ended,
    Marked,
    Exchanged,
    StageMarked,
    Closed,
    Panes,
    Late,
    Passed,
    Handled,
    Tick,
    Turn,
    Drain,
    EpochBegun,
    Barrier,
    Aligned,
    Part,
    Block,
    Written,
    Wanted,
    Given,
    Demanded,
    Signalled,
    Asked,
    Durable,
    Published,
    Concluded,
    Finished,
    GivenUp
);
