//! Raw types of `[[sink]]`: one table of settings per kind.

use super::reader::Presence::{Default, Required};
use super::scalar::raw_names;
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
