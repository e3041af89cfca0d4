//! Kafka as an output: panes, sessions, late copies and dead letters as records of a topic.
//!
//! A sink encodes into a block (`block`, `encode`). With `delivery = "exactly_once"` a block is
//! part of a transaction that holds all of an epoch, its stamp and the offsets of what was read
//! (`transactions`); the stamp says after a crash whether the epoch had come out
//! (`changelog`). Otherwise blocks are sent until the brokers have them (`repeats`).
//!
//! Invariants: a reader of committed records sees each epoch once or not at all; and what was given
//! to be sent is sent, however long the brokers are away.

mod block;
pub mod carrier;
mod changelog;
mod encode;
mod failure;
pub mod letters;
mod pane_message;
mod producer;
mod repeats;
mod settings;
pub mod sink;
mod stamp;
#[cfg(test)]
mod tests;
mod transactions;

pub use settings::{
    Compression, KafkaSinkSettings, OutFormat, Retractions, Teller, TopicPlan, TransactionSettings,
};
