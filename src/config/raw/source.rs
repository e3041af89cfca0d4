//! Raw types of `[[source]]`: one table of settings per kind.

use super::lists::List;
use super::reader::Presence::{Default, Optional, Required};
use super::scalar::{Size, raw_names};
use super::table::{raw_kinds, raw_table};

raw_kinds! {
    /// One input.
    pub(crate) enum RawSource (RawSourceKind) {
        /// Files.
        Files(RawFiles) = "files",
        /// A UDP collector of flows.
        Udp(RawUdp) = "udp",
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
        /// Names of the members of `ndjson` lines: `opennms` for its flow documents.
        preset: RawPreset = Optional,
        /// IP address of the exporter that sent what is in `datagram` files.
        exporter: String = Optional,
        /// What parts the cells of a `csv` row, one ASCII character; by default a comma.
        delimiter: String = Optional,
        /// Most bytes of a line of `ndjson` or `csv`; a longer one is rejected.
        line_max: Size = Default("\"1MiB\""),
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
        /// Socket buffer for datagrams that wait to be read.
        receive_buffer: Size = Default("\"8MiB\""),
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
    /// A known layout of records.
    pub(crate) enum RawPreset ("preset") {
        /// OpenNMS' flow document by its proto names.
        Opennms = "opennms",
    }
}
