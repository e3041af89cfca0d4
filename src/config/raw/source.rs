//! Raw types of `[[source]]`: one table of settings per kind.

use super::lists::List;
use super::options::RawOptions;
use super::quantity::{Length, Size};
use super::reader::Presence::{Default, Optional, Required};
use super::scalar::{Ratio, Whole, raw_names};
use super::table::{raw_kinds, raw_table};
use super::text_or_table::{RawKafkaStart, RawStart};
use super::watermark::RawSourceWatermark;
use nilometer_connectors::text::FlowLayout;

raw_kinds! {
    /// One input.
    pub(crate) enum RawSource (RawSourceKind) {
        /// Files.
        Files(RawFiles) = "files",
        /// A UDP collector of flows.
        Udp(RawUdp) = "udp",
        /// Topics of Kafka.
        Kafka(RawKafka) = "kafka",
        /// Invented flows.
        Generator(RawGenerator) = "generator",
    }
}

raw_table! {
    /// Files that are read to their end.
    pub(crate) struct RawFiles {
        /// `files`.
        kind: RawSourceKind = Required,
        /// Name in summaries; by default the kind and the number of the source.
        name: String = Optional,
        /// Files to read, in this order; relative to the working directory. They may be packed with gzip or zstd.
        paths: List<String> = Required,
        /// What they hold: `capture` (pcap or pcapng), `datagram` (one per file), `ndjson` or `csv`.
        format: RawFormat = Required,
        /// Whose flows the `ndjson` lines are: `opennms`, `goflow2`, `pmacct` or `akvorado`.
        preset: RawPreset = Optional,
        /// IP address of the exporter that sent what is in `datagram` files.
        exporter: String = Optional,
        /// What parts the cells of a `csv` row, one ASCII character; by default a comma.
        delimiter: String = Optional,
        /// Most bytes of a line of `ndjson` or `csv`; a longer one is rejected.
        line_max: Size = Default("\"1MiB\""),
        /// Whether the files are `one` partition, read one after the other, or one partition `per_file`, read beside each other, each with a watermark of its own.
        partitions: RawPartitions = Default("\"one\""),
        /// How its watermark is estimated, where that differs from `[watermark]`.
        watermark: RawSourceWatermark = Optional,
    }
}

raw_table! {
    /// A collector of NetFlow v5, v9, IPFIX and sFlow v5 datagrams.
    pub(crate) struct RawUdp {
        /// `udp`.
        kind: RawSourceKind = Required,
        /// Name in summaries; by default the kind and the number of the source.
        name: String = Optional,
        /// IP address and port to receive datagrams on.
        listen: String = Required,
        /// Bytes of datagrams that wait for the engine at most; beyond it, datagrams are dropped and counted.
        receive_buffer: Size = Default("\"8MiB\""),
        /// How its watermark is estimated, where that differs from `[watermark]`.
        watermark: RawSourceWatermark = Optional,
    }
}

raw_table! {
    /// Topics of Kafka.
    pub(crate) struct RawKafka {
        /// `kafka`.
        kind: RawSourceKind = Required,
        /// Name in summaries; by default the kind and the number of the source.
        name: String = Optional,
        /// Addresses of brokers, `host:port`, commas between them.
        brokers: String = Required,
        /// Topics by name, or patterns that begin with `^`.
        topics: List<String> = Required,
        /// Group of consumers that it reads as; offsets are committed there.
        group: String = Required,
        /// Name of this process in the group, the same after a restart. Two processes with one name do not read at once: the first ends.
        instance: String = Default("\"nilometer\""),
        /// How many processes read the group, each with an `instance` and a state of its own; the topics are partitioned by `shard_by`.
        nodes: Whole<1, 1_000> = Default("1"),
        /// What values are: `flow-protobuf` (flow documents, see `flow.proto`), `json`, or `netflow` (a datagram each, whose key is the address of the exporter).
        format: RawKafkaFormat = Required,
        /// Whose flows the `json` values are: `opennms`, `goflow2`, `pmacct` or `akvorado`.
        preset: RawPreset = Optional,
        /// IP address of the exporter of `netflow` datagrams whose key is no address.
        exporter: String = Optional,
        /// Where event times of `json` values without a preset come from: the `field` of `[record]`, or the `timestamp` of the record in its partition.
        event_time: RawEventTime = Default("\"field\""),
        /// Most bytes of a value; a larger one is rejected.
        record_max: Size = Default("\"1MiB\""),
        /// Where to begin: `"earliest"`, `"latest"`, or at a time in RFC 3339, by the timestamps of records. Partitions that appear later begin at their first record, and a stored state goes before all this.
        start: RawKafkaStart = Default("\"earliest\""),
        /// Where to end: `"now"`, behind what there is at the start, or before a time in RFC 3339, by the timestamps of records; without it, never.
        until: RawStart = Optional,
        /// Bytes of records that wait for the engine, about; beyond it partitions are paused.
        queue: Size = Default("\"32MiB\""),
        /// Options of librdkafka, such as `security.protocol` or `sasl.password`. A name with `.file` behind it takes the text of that file.
        options: RawOptions = Default("{}"),
        /// How its watermark is estimated, where that differs from `[watermark]`.
        watermark: RawSourceWatermark = Optional,
    }
}

raw_table! {
    /// Invented flows: the same seed gives the same flows.
    pub(crate) struct RawGenerator {
        /// `generator`.
        kind: RawSourceKind = Required,
        /// Name in summaries; by default the kind and the number of the source.
        name: String = Optional,
        /// Fixes every random choice, 0 or more.
        seed: Whole<0, { i64::MAX }> = Default("1"),
        /// How many records; without it they never end.
        records: Whole<0, { i64::MAX }> = Optional,
        /// Records per second of event time, at least 1.
        rate: Whole<1, 1_000_000_000> = Default("1000"),
        /// Event time of the first record, in RFC 3339; or `"now"`, and records then come when their time has come.
        start: RawStart = Default("\"2023-11-14T22:00:00Z\""),
        /// Exporters, at least 1.
        exporters: Whole<1, 4_294_967_295> = Default("4"),
        /// Interfaces of each exporter, at least 1.
        interfaces: Whole<1, 4_294_967_295> = Default("8"),
        /// Hosts, 1 to 16000000.
        hosts: Whole<1, 16_000_000> = Default("2000"),
        /// Applications, at least 1.
        applications: Whole<1, 4_294_967_295> = Default("40"),
        /// Different DSCP code points, 1 to 64.
        dscps: Whole<1, 64> = Default("4"),
        /// Conversations, at least 1.
        conversations: Whole<1, { i64::MAX }> = Default("20000"),
        /// How unequal conversations, hosts and applications are, 0 to 10: 0 is not at all, 1 is Zipf's law.
        skew: Ratio<10> = Default("1.0"),
        /// Most that a record comes behind others of its time.
        disorder: Length = Default("\"10s\""),
        /// Part of the records that come later than that, 0 to 1.
        late_share: Ratio<1> = Default("0.01"),
        /// Most that those come behind.
        late_by: Length = Default("\"10m\""),
        /// Usual length of a flow.
        duration: Length = Default("\"8s\""),
        /// Part of the flows that are long, 0 to 1.
        long_share: Ratio<1> = Default("0.02"),
        /// Most that long flows last.
        long_duration: Length = Default("\"5m\""),
        /// Sampling intervals of the exporters, in turn; empty is no sampling.
        sampling: List<Whole<1, 4_294_967_295>> = Default("[1, 1, 100, 1000]"),
        /// Part of the conversations that are over IPv6, 0 to 1.
        ipv6_share: Ratio<1> = Default("0.2"),
        /// How its watermark is estimated, where that differs from `[watermark]`.
        watermark: RawSourceWatermark = Optional,
    }
}

raw_names! {
    /// What files hold.
    pub(crate) enum RawFormat ("source format") {
        /// pcap or pcapng.
        Capture = "capture",
        /// One datagram.
        Datagram = "datagram",
        /// One JSON object per line.
        Ndjson = "ndjson",
        /// Comma-separated values with a header.
        Csv = "csv",
    }
}

raw_names! {
    /// What values of Kafka hold.
    pub(crate) enum RawKafkaFormat ("source format") {
        /// A flow document as a message of protocol buffers.
        FlowProtobuf = "flow-protobuf",
        /// A JSON object.
        Json = "json",
        /// A datagram of an exporter.
        Netflow = "netflow",
    }
}

raw_names! {
    /// Where event times come from.
    pub(crate) enum RawEventTime ("origin of event times") {
        /// The field that `[record]` names.
        Field = "field",
        /// The timestamp of the record.
        Timestamp = "timestamp",
    }
}

raw_names! {
    /// Partitions of a source of files.
    pub(crate) enum RawPartitions ("partitioning") {
        /// All files, one after the other.
        One = "one",
        /// Each file.
        PerFile = "per_file",
    }
}

raw_names! {
    /// A known layout of records.
    pub(crate) enum RawPreset ("preset") {
        /// OpenNMS' flow document by its proto names.
        Opennms = "opennms",
        /// goflow2.
        Goflow2 = "goflow2",
        /// The plugins of pmacct.
        Pmacct = "pmacct",
        /// Akvorado by the names of its columns.
        Akvorado = "akvorado",
    }
}

impl RawPreset {
    /// The layout that it names.
    pub(crate) const fn layout(self) -> FlowLayout {
        match self {
            Self::Opennms => FlowLayout::Opennms,
            Self::Goflow2 => FlowLayout::Goflow2,
            Self::Pmacct => FlowLayout::Pmacct,
            Self::Akvorado => FlowLayout::Akvorado,
        }
    }
}
