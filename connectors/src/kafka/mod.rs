//! Kafka: topics as a source, and as an output ([`out`]).
//!
//! Two threads per source. One polls the broker and nothing else (`poller`): it never waits for
//! anybody, so the group never takes this reader for dead; what it has read goes into a bounded
//! queue, and when that is full it pauses the partitions (`valve`). The other is that of the
//! source: it takes from the queue and makes records ([`source`]).
//!
//! Where to go on is the pipeline's to know: positions are stored in its epochs, and a source that
//! resumes goes on there, whatever the group has committed. Offsets are committed behind the epoch
//! that holds them, for those who watch how far readers are.
//!
//! Invariant: a record is given once, in the order of its partition, and every offset that the broker
//! no longer has is counted.

pub mod client;
mod decode;
mod document;
mod flow_document {
    #![allow(missing_docs, unreachable_pub, reason = "generated from flow.proto")]
    include!("nilometer.flow.in");
}
mod ears;
mod nodes;
pub mod out;
mod outlook;
mod partitions;
mod poller;
mod position;
mod queue;
pub mod source;
mod standing;
mod statistics;
mod valve;

pub use document::write as write_flow;
