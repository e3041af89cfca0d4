//! Raw types: a configuration as the user typed it.
//!
//! Nothing is decided here beyond types, units and bounds of single values; names are looked up
//! and settings weighed against each other by [`super::validate`]. The documentation of every
//! setting is that of its field: `nilometer schema` prints it.

pub(crate) mod aggregate;
pub(crate) mod engine;
pub(crate) mod group;
pub(crate) mod lists;
pub(crate) mod options;
pub(crate) mod quantity;
pub(crate) mod reader;
pub(crate) mod scalar;
pub(crate) mod sequence;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod telemetry;
pub(crate) mod text_or_table;
pub(crate) mod trigger;
pub(crate) mod watermark;
pub(crate) mod window;

use engine::RawEngine;
use group::{RawDefaults, RawGroup};
use lists::{List, Names, Tables};
use quantity::{Limit, Size};
use reader::Presence::{Default, Optional, Required};
use scalar::{Whole, raw_names};
use sequence::RawSequence;
use sink::RawSink;
use source::RawSource;
use state::RawState;
use table::raw_table;
use telemetry::{RawAdmin, RawTelemetry};
use text_or_table::{RawDeadLetters, RawField, RawShards};
use watermark::RawWatermark;

raw_table! {
    /// A pipeline: what is read, how it is grouped, and where results go.
    pub(crate) struct RawConfig {
        /// File that takes records which cannot be used, one JSON object per line; or a topic of Kafka; without it they are only counted.
        dead_letters: RawDeadLetters = Optional,
        /// Condition on records, in CEL: only those for which it is true are counted.
        filter: String = Optional,
        /// The pipeline as a whole: a table with at least a `name`.
        pipeline: RawPipeline = Required,
        /// Inputs.
        source: Tables<RawSource> = Default("[]"),
        /// Fields of records that are not flows.
        record: RawRecord = Optional,
        /// Fields computed from others, in CEL, in this order: each may use those above it.
        derive: Names<String> = Default("{}"),
        /// How far event time has certainly come.
        watermark: RawWatermark = Default("{}"),
        /// How flows are normalised.
        flows: RawFlows = Default("{}"),
        /// How much may be on its way at once: what bounds memory beside the state of windows.
        limits: RawLimits = Default("{}"),
        /// Where state is stored; without it a run begins anew.
        state: RawState = Optional,
        /// The admin port: how a run is watched and told what to do over HTTP; without it there is none.
        admin: RawAdmin = Optional,
        /// What is sent to a collector of OpenTelemetry.
        telemetry: RawTelemetry = Default("{}"),
        /// What every group takes over unless it says otherwise: `window`, `trigger`, `allow_closing`, `allowed_lateness`, `mode`, `sinks`, `late`; `aggregates` come before those of the group; `emit` and `top_k` complete those of the group. A group with `of` takes over neither `aggregates` nor `top_k`.
        defaults: RawDefaults = Optional,
        /// Groupings wanted.
        group: Tables<RawGroup> = Default("[]"),
        /// Sequences wanted: records of a key, judged as a chain of steps.
        sequence: Tables<RawSequence> = Default("[]"),
        /// Outputs; without any, panes go to stdout.
        sink: Tables<RawSink> = Default(r#"[{ name = "stdout", kind = "stdout" }]"#),
    }
}

raw_table! {
    /// The pipeline as a whole.
    pub(crate) struct RawPipeline {
        /// Name; every pane carries it.
        name: String = Required,
        /// How it is run: `"streaming"`, `"batch"` (bounded input, results once, at its end), or `{ micro_batch = ... }` (results cycle by cycle).
        engine: RawEngine = Default("\"streaming\""),
        /// Key fields that place records on shards; by default those that all groupings share.
        shard_by: List<String> = Optional,
        /// Number of key groups, the units that keys are spread by; 1 to 65535.
        key_groups: Whole<1, 65_535> = Default("256"),
        /// Shards that work in parallel, 1 to 1024, or `"cores"`.
        shards: RawShards = Default("\"cores\""),
        /// Most distinct texts that a run keeps, 1 to 4294967295; records with others are rejected.
        max_texts: Whole<1, 4_294_967_295> = Default("4000000"),
        /// Whether groupings may regroup results of others instead of reading records.
        cascade: bool = Default("true"),
    }
}

raw_table! {
    /// How much may be on its way at once. A source stops reading when it has used up what is its, until something has come out at the other end.
    pub(crate) struct RawLimits {
        /// Records that a source reads at a time, about; 1 to 1000000.
        batch_records: Whole<1, 1_000_000> = Default("4096"),
        /// Records of each source that no shard has handled yet; 1 to 1000000000.
        in_flight_records: Whole<1, 1_000_000_000> = Default("65536"),
        /// Bytes that the records in flight of a source take, exceeded by at most one batch.
        in_flight_bytes: Size = Default("\"32MiB\""),
        /// Bytes of results of each shard that no sink has written yet, exceeded by what is emitted at a time.
        output_bytes: Size = Default("\"32MiB\""),
        /// How long a run that is to end may take to let pass what is on its way, or `"off"`; then it ends at once.
        drain_timeout: Limit = Default("\"30s\""),
        /// Results of a group that a shard emits at a time, where one watermark makes very many complete, exceeded by those of one key; 1 to 1000000.
        slice_panes: Whole<1, 1_000_000> = Default("4096"),
    }
}

raw_table! {
    /// Fields of records that are not flows.
    pub(crate) struct RawRecord {
        /// Field with the event time.
        time: String = Required,
        /// Unit of the event time: `s`, `ms`, `us` or `ns` since the Unix epoch, or `rfc3339`.
        time_unit: RawTimeUnit = Default("\"ms\""),
        /// The other fields: a type (`bool`, `u8`, `u16`, `u32`, `u64`, `i64`, `i128`, `f64`, `text`, `ip`, `object`), or a type and where it is found.
        fields: Names<RawField> = Required,
    }
}

raw_names! {
    /// Unit of event times.
    pub(crate) enum RawTimeUnit ("time unit") {
        /// Seconds since the Unix epoch.
        Seconds = "s",
        /// Milliseconds since the Unix epoch.
        Millis = "ms",
        /// Microseconds since the Unix epoch.
        Micros = "us",
        /// Nanoseconds since the Unix epoch.
        Nanos = "ns",
        /// A text as in RFC 3339.
        Rfc3339 = "rfc3339",
    }
}

raw_table! {
    /// A field and where it is found.
    pub(crate) struct RawFieldTable {
        /// Type of its values.
        ty as "type": RawType = Required,
        /// Member or column that holds it, members of members joined by points; by default its name.
        from: String = Optional,
    }
}

raw_names! {
    /// Type of a field.
    pub(crate) enum RawType ("type") {
        /// `true` or `false`.
        Bool = "bool",
        /// Unsigned, 8 bits.
        U8 = "u8",
        /// Unsigned, 16 bits.
        U16 = "u16",
        /// Unsigned, 32 bits.
        U32 = "u32",
        /// Unsigned, 64 bits.
        U64 = "u64",
        /// Signed, 64 bits.
        I64 = "i64",
        /// Signed, 128 bits.
        I128 = "i128",
        /// IEEE double.
        F64 = "f64",
        /// Text.
        Text = "text",
        /// IPv4 or IPv6 address.
        Ip = "ip",
        /// A JSON object.
        Object = "object",
    }
}

raw_table! {
    /// How flows are normalised.
    pub(crate) struct RawFlows {
        /// CSV file of exporters: `address,node_id,foreign_source,foreign_id,sampling`.
        exporters: String = Optional,
        /// CSV file of application rules: `protocol,ports,name`; the longest match wins.
        applications: String = Optional,
        /// What to do with the reverse direction of a biflow: `count` it, or `split` it off as a flow of its own.
        biflow: RawBiflow = Default("\"count\""),
        /// Longest part of a flow that counts, measured back from its end, or `"off"`; what lies before is cut, and its bytes are counted.
        max_flow_duration: Limit = Default("\"off\""),
        /// Shift the times of an exporter whose clock differs by more than this from the time of arrival, or `"off"`.
        clock_correction: Limit = Default("\"off\""),
    }
}

raw_names! {
    /// What to do with the reverse direction of a biflow.
    pub(crate) enum RawBiflow ("biflow treatment") {
        /// Count it, and leave it out.
        Count = "count",
        /// Make it a flow of its own.
        Split = "split",
    }
}
