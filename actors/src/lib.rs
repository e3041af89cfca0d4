//! The actors of nilometer: shells that carry records, panes and marks between the machines of
//! [`nilometer_model::node`]. They decide nothing.
//!
//! Read in this order: `message` (what is said), `deliver` (why nothing overtakes), [`credit`] (why
//! memory is bounded), then along the line: `source`, `shard`, `sink`, with `coordinator` and
//! `clock` beside it, and [`node`], which wires them and is what a host uses.
//!
//! Where the key actors are: `WindowActor` and `RollupActor` are not types here. A key actor is
//! addressed by (stage, key), handles one message at a time, owns its windows and registers one
//! deadline with its shard; millions of them live in the tables of
//! [`nilometer_model::shard::Shard`], which plays mailbox and scheduler for them. See
//! `docs/adr/0001-key-actors-live-in-tables.md`.
//!
//! Where state is stored, epoch by epoch: `cutting` and `outbox` are the parts of a shard and of a
//! sink that know of barriers, `store` is the actor that waits for the disk, and [`checkpoint`] says
//! what each puts there. [`at`] tells what was being taken in when something fails.
//!
//! Spans are made by [`trace`], where somebody wants them.
//!
//! What is absent: window semantics, file formats, configuration; a clock outside of `clock`; a
//! send outside of `deliver`; a blocking call on the thread of a shard, and a lock, but for a look
//! at the epoch in flight where spans are wanted.

pub mod at;
pub mod checkpoint;
mod clock;
mod coordinator;
mod cutting;
mod deliver;
pub mod figures;
pub mod handle;
pub mod histogram;
mod inbox;
mod message;
pub mod meter;
pub mod node;
mod outbox;
pub mod report;
mod restoring;
mod shard;
mod shard_spans;
mod sink;
mod source;
mod source_spans;
mod store;
pub mod trace;
mod wiring;

pub use nilometer_model::node::credit;
pub use wiring::StartError;
