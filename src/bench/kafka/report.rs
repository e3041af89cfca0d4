//! What the benchmark of Kafka has shown, for people and for programs.

use super::Wire;
use crate::bench::report::{Side, grouped};
use serde::Serialize;

/// The figures of one format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) format: Wire,
    /// Of a value.
    pub(super) bytes_per_record: f64,
    /// The client library alone, which counts: the limit.
    pub(super) client: Side,
    /// The source alone, which makes records.
    pub(super) source: Side,
    /// The engine behind it.
    pub(super) whole: Side,
    /// Records per second of the whole over that of the client.
    pub(super) ratio: f64,
    pub(super) processor_seconds_per_million: Split,
}

/// Processor seconds per million records, and what they go into.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Split {
    /// The client library, its queues and the network.
    pub(super) client: f64,
    /// What the source adds to it: positions, decoding, normalising.
    pub(super) decode: f64,
    /// What the engine adds to that.
    pub(super) engine: f64,
}

impl Figures {
    pub(super) fn new(
        (format, records): (Wire, u64),
        bytes: u64,
        (client, source, whole): (Side, Side, Side),
    ) -> Self {
        // Differences of runs; one that is below zero is noise.
        let micros = |side: &Side| side.ns_per_record / 1e3;
        let over = |more: &Side, less: &Side| (micros(more) - micros(less)).max(0.0);
        Self {
            format,
            bytes_per_record: bytes as f64 / (records as f64).max(1.0),
            ratio: whole.records_per_second / client.records_per_second,
            processor_seconds_per_million: Split {
                client: micros(&client),
                decode: over(&source, &client),
                engine: over(&whole, &source),
            },
            client,
            source,
            whole,
        }
    }

    fn text(&self) -> String {
        let Split { client, decode, engine } = self.processor_seconds_per_million;
        let speed = |side: &Side| grouped(side.records_per_second);
        format!(
            "{}, {:.0} bytes a value\n\
             bare consumer   {} records/s\n\
             source          {} records/s\n\
             engine behind   {} records/s, {:.2} of the bare consumer\n\
             processor       {:.2} s per million records: client {client:.2}, decode {decode:.2}, engine {engine:.2}\n",
            self.format.name(),
            self.bytes_per_record,
            speed(&self.client),
            speed(&self.source),
            speed(&self.whole),
            self.ratio,
            client + decode + engine,
        )
    }
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    /// Of each format.
    pub(super) records: u64,
    pub(super) conversations: u64,
    pub(super) partitions: i32,
    pub(super) shards: usize,
    pub(super) formats: Vec<Figures>,
    /// Always true: a benchmark whose results differ from those of the loop fails.
    pub(super) results_equal: bool,
}

impl Report {
    /// For programs.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let formats: Vec<_> = self.formats.iter().map(Figures::text).collect();
        format!(
            "{} flow records of {} conversations in {} partitions, {} shards\n\n{}\n\
             results are those of the hand-written loop\n",
            grouped(self.records as f64),
            grouped(self.conversations as f64),
            self.partitions,
            self.shards,
            formats.join("\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_whole_is_split_by_what_each_adds() {
        let side = |seconds: u64| {
            Side::new(2_000_000, Duration::from_secs(1), Duration::from_secs(seconds))
        };
        let figures =
            Figures::new((Wire::Json, 2_000_000), 8_000_000, (side(1), side(4), side(10)));
        assert_eq!(figures.bytes_per_record, 4.0);
        assert_eq!(
            figures.processor_seconds_per_million,
            Split { client: 0.5, decode: 1.5, engine: 3.0 }
        );
        assert!(figures.text().contains("5.00 s per million records"), "{}", figures.text());
        let noise = Figures::new((Wire::Protobuf, 1), 0, (side(2), side(1), side(1)));
        assert_eq!(noise.processor_seconds_per_million.decode, 0.0);
    }
}
