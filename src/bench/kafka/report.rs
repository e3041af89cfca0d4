//! What the benchmark of Kafka has shown, for people and for programs.

use super::Wire;
use crate::bench::report::{Printed, Side, grouped};
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
    pub(super) results: OutFigures,
}

/// The figures of results that go to a topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OutFigures {
    pub(super) panes: u64,
    /// Of a value.
    pub(super) bytes_per_pane: f64,
    /// The client library alone, with as many values of that size: the limit.
    pub(super) client: Side,
    /// The sink, which encodes panes.
    pub(super) sink: Side,
    /// Panes per second of the sink over values per second of the client.
    pub(super) ratio: f64,
    /// Per million panes: the client library.
    pub(super) client_seconds_per_million: f64,
    /// Per million panes: what the sink adds to it.
    pub(super) encode_seconds_per_million: f64,
}

impl OutFigures {
    pub(super) fn new(panes: u64, bytes: u64, (client, sink): (Side, Side)) -> Self {
        Self {
            panes,
            bytes_per_pane: bytes as f64 / (panes as f64).max(1.0),
            ratio: sink.records_per_second / client.records_per_second,
            client_seconds_per_million: micros(&client),
            encode_seconds_per_million: added(&sink, &client),
            client,
            sink,
        }
    }
}

/// Processor seconds per million.
fn micros(side: &Side) -> f64 {
    side.ns_per_record / 1e3
}

/// What `more` takes beyond `less`, of different runs: below zero it is noise.
fn added(more: &Side, less: &Side) -> f64 {
    (micros(more) - micros(less)).max(0.0)
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
        results: OutFigures,
    ) -> Self {
        Self {
            format,
            bytes_per_record: bytes as f64 / (records as f64).max(1.0),
            ratio: whole.records_per_second / client.records_per_second,
            processor_seconds_per_million: Split {
                client: micros(&client),
                decode: added(&source, &client),
                engine: added(&whole, &source),
            },
            client,
            source,
            whole,
            results,
        }
    }

    fn text(&self) -> String {
        let Split { client, decode, engine } = self.processor_seconds_per_million;
        let out = &self.results;
        let speed = |side: &Side| grouped(side.records_per_second);
        format!(
            "{}, {:.0} bytes a value\n\
             bare consumer   {} records/s\n\
             source          {} records/s\n\
             engine behind   {} records/s, {:.2} of the bare consumer\n\
             processor       {:.2} s per million records: client {client:.2}, decode {decode:.2}, engine {engine:.2}\n\
             results         {} panes of {:.0} bytes: bare producer {} panes/s, sink {} panes/s, {:.2} of it\n\
             processor       {:.2} s per million panes: client {:.2}, encode {:.2}\n",
            self.format.name(),
            self.bytes_per_record,
            speed(&self.client),
            speed(&self.source),
            speed(&self.whole),
            self.ratio,
            client + decode + engine,
            grouped(out.panes as f64),
            out.bytes_per_pane,
            speed(&out.client),
            speed(&out.sink),
            out.ratio,
            out.client_seconds_per_million + out.encode_seconds_per_million,
            out.client_seconds_per_million,
            out.encode_seconds_per_million,
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

impl Printed for Report {
    fn text(&self) -> String {
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
        let out = || OutFigures::new(2_000_000, 10_000_000, (side(1), side(2)));
        let sides = (side(1), side(4), side(10));
        let figures = Figures::new((Wire::Json, 2_000_000), 8_000_000, sides, out());
        assert_eq!((figures.bytes_per_record, out().bytes_per_pane), (4.0, 5.0));
        assert_eq!(
            figures.processor_seconds_per_million,
            Split { client: 0.5, decode: 1.5, engine: 3.0 }
        );
        assert_eq!(out().encode_seconds_per_million, 0.5);
        assert!(figures.text().contains("5.00 s per million records"), "{}", figures.text());
        let sides = (side(2), side(1), side(1));
        let noise = Figures::new((Wire::Protobuf, 1), 0, sides, out());
        assert_eq!(noise.processor_seconds_per_million.decode, 0.0);
    }
}
