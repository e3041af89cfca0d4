//! Kafka, against a real broker on loopback: what is read, what is lost when, what is said about it.
//! `tests/services/kafka` starts the broker; it needs a Java runtime.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod bench;
mod bounded;
mod broker;
#[expect(dead_code, reason = "each test takes of it what it needs")]
#[path = "../collector/mod.rs"]
mod collector;
mod kills;
mod live;
mod netflow;
mod nodes;
mod outage;
#[path = "../place/mod.rs"]
mod place;
mod restart;
mod rights;
mod run;
mod secure;
mod sink;
mod spans;
