//! Raw types of `[[sink]]`: one table of settings per kind.

use super::options::RawOptions;
use super::quantity::Period;
use super::reader::Presence::{Default, Optional, Required};
use super::scalar::{Whole, raw_names};
use super::table::{raw_kinds, raw_table};

raw_kinds! {
    /// One output.
    pub(crate) enum RawSink (RawSinkKind) {
        /// A file.
        File(RawFileSink) = "file",
        /// Standard output.
        Stdout(RawStdoutSink) = "stdout",
        /// A table on standard output.
        Table(RawTableSink) = "table",
        /// A topic of Kafka.
        Kafka(RawKafkaSink) = "kafka",
    }
}

raw_table! {
    /// A file that takes panes.
    pub(crate) struct RawFileSink {
        /// `file`.
        kind: RawSinkKind = Required,
        /// Name, unique.
        name: String = Required,
        /// File to write; relative to the working directory. What it held is lost.
        path: String = Required,
        /// Form of a pane: `pane` (a JSON object per line), `flow-summary` or `csv`. Or `late`: it takes no panes, but copies that come late.
        format: RawSinkFormat = Default("\"pane\""),
    }
}

raw_table! {
    /// Panes on standard output.
    pub(crate) struct RawStdoutSink {
        /// `stdout`.
        kind: RawSinkKind = Required,
        /// Name, unique.
        name: String = Required,
        /// Form of a pane: `pane` (a JSON object per line), `flow-summary` or `csv`. Or `late`: it takes no panes, but copies that come late.
        format: RawSinkFormat = Default("\"pane\""),
    }
}

raw_table! {
    /// A table for people, on standard output at the end.
    pub(crate) struct RawTableSink {
        /// `table`.
        kind: RawSinkKind = Required,
        /// Name, unique.
        name: String = Required,
    }
}

raw_table! {
    /// A topic of Kafka that takes panes.
    pub(crate) struct RawKafkaSink {
        /// `kafka`.
        kind: RawSinkKind = Required,
        /// Name, unique.
        name: String = Required,
        /// Addresses of brokers, `host:port`, commas between them.
        brokers: String = Required,
        /// Topic to write.
        topic: String = Required,
        /// What values are: `pane` (a JSON object), `flow-summary` (a JSON object) or `protobuf` (see `pane.proto`). Or `late`: it takes no panes, but copies that come late.
        format: RawKafkaSinkFormat = Default("\"pane\""),
        /// `exactly_once`: an epoch is a transaction, which takes a state. `at_least_once`: after a failure results may come twice.
        delivery: RawDelivery = Default("\"exactly_once\""),
        /// Name of this process among those that write for this sink, the same after a restart. Two processes with one name do not write at once: the first ends.
        instance: String = Default("\"nilometer\""),
        /// How results are taken back: by `records` that repeat what they take back, or by `tombstones` (no value), for topics that are compacted.
        retractions: RawRetractions = Default("\"records\""),
        /// Whether groups in mode `discarding` may write to it although results may come twice.
        allow_repeats: bool = Default("false"),
        /// How values are compressed: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        compression: RawCompression = Default("\"lz4\""),
        /// Makes the topic if it is not there; without it, the topic is waited for.
        create: RawTopic = Optional,
        /// How long a transaction may take before the brokers end it; longer than their outages, so that nothing has to be sent twice.
        transaction_timeout: Period = Default("\"1m\""),
        /// Options of librdkafka, such as `security.protocol` or `sasl.password`. A name with `.file` behind it takes the text of that file.
        options: RawOptions = Default("{}"),
    }
}

raw_table! {
    /// How a topic is made.
    pub(crate) struct RawTopic {
        /// Partitions; what the brokers take by default.
        partitions: Whole<1, 100_000> = Optional,
        /// Copies of each partition; what the brokers take by default.
        replication: Whole<1, 100> = Optional,
    }
}

raw_table! {
    /// A topic of Kafka that takes records which cannot be used, as they came; why is in the headers.
    pub(crate) struct RawLetterTopic {
        /// File that takes them as well, one JSON object per line.
        file: String = Optional,
        /// Addresses of brokers, `host:port`, commas between them.
        brokers: String = Required,
        /// Topic to write.
        topic: String = Required,
        /// How values are compressed: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        compression: RawCompression = Default("\"lz4\""),
        /// Makes the topic if it is not there; without it, the topic is waited for.
        create: RawTopic = Optional,
        /// Options of librdkafka, such as `security.protocol` or `sasl.password`. A name with `.file` behind it takes the text of that file.
        options: RawOptions = Default("{}"),
    }
}

raw_names! {
    /// What values of a topic are.
    pub(crate) enum RawKafkaSinkFormat ("sink format") {
        /// A JSON object.
        Pane = "pane",
        /// The summary document of flows.
        FlowSummary = "flow-summary",
        /// A message of protocol buffers.
        Protobuf = "protobuf",
        /// Copies that come late, a JSON object each.
        Late = "late",
    }
}

raw_names! {
    /// How often a result comes.
    pub(crate) enum RawDelivery ("delivery") {
        /// Once.
        ExactlyOnce = "exactly_once",
        /// Once, or twice after a failure.
        AtLeastOnce = "at_least_once",
    }
}

raw_names! {
    /// How results are taken back.
    pub(crate) enum RawRetractions ("way to take results back") {
        /// By records.
        Records = "records",
        /// By records without a value.
        Tombstones = "tombstones",
    }
}

raw_names! {
    /// How values are compressed.
    pub(crate) enum RawCompression ("compression") {
        /// Not at all.
        None = "none",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

raw_names! {
    /// Form of what is written.
    pub(crate) enum RawSinkFormat ("sink format") {
        /// One JSON object per line.
        Pane = "pane",
        /// The summary document of flows.
        FlowSummary = "flow-summary",
        /// Comma-separated values.
        Csv = "csv",
        /// Copies that come late, one JSON object per line.
        Late = "late",
    }
}
