//! The machines of a node: how its sources read, what its shards hand on, when its coordinator tells
//! whom of what, what its sinks check. Each is a function of the messages that it takes, in order,
//! to the messages that it gives, in order.
//!
//! Two worlds run them: actors, one thread each, and the simulation in `tests/sim`, one thread and
//! every interleaving. So what the simulation proves holds for what runs. What is absent here: a
//! mailbox, an address, a reader of files, a writer.
//!
//! [`credit`] bounds what is on the way; [`closing`] decides when a shard has handled everything.
//! Where state is stored, [`Gate`] divides what comes to a shard by epochs, [`SinkOutbox`] what goes out
//! of a sink, and [`StoreNode`] decides when an epoch counts.

pub mod closing;
mod coordinator;
pub mod credit;
#[cfg(test)]
mod firing_tests;
mod gate;
mod lineage;
mod outbox;
mod sent;
mod shard;
mod sink;
mod source;
mod store;

pub use coordinator::{CoordinatorNode, FromCoordinator};
pub use gate::Gate;
pub use lineage::{Ancestor, Lineage};
pub use outbox::{Owed, Publish, SinkOutbox};
pub use sent::PanesSent;
pub use shard::{FromShard, Route, ShardNode, ShardParts};
pub use sink::{Overtaken, SinkOrder, is_behind};
pub use source::{FromSource, SourceNode, SourceParts, Stand};
pub use store::StoreNode;

use crate::engine::Cycle;
use crate::time::Watermark;
use std::sync::Arc;

/// What must not overtake records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// No record with an earlier event time is still to come.
    Watermark(Watermark),
    /// The same of shares of the records, in the order of the plan.
    Shares(Arc<[Watermark]>),
    /// A cycle of micro-batches ends; or, in a stream, the watermark has stood still for too long.
    Cycle(Cycle),
    /// A signal from outside has been given, for triggers that wait for it.
    Signal(Arc<str>),
    /// Nothing is still to come.
    End,
}
