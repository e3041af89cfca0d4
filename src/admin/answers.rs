//! What the admin port answers, as types: the JSON, and its schema in the document of the port, are
//! made of them. Times are milliseconds since the Unix epoch, spans milliseconds.

use crate::logs::Level;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusAnswer {
    /// `starting`, `running`, `draining` or `failed`; `stuck` if its clock stands still.
    pub(crate) status: String,
}

/// Whether a process does its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthAnswer {
    /// `starting`, `running`, `draining` or `failed`; `stuck` if its clock stands still.
    pub(crate) status: String,
    /// Sources and sinks that wait for something outside, such as brokers that are away, and for what.
    /// Another process would wait as well.
    pub(crate) held_up: BTreeMap<String, String>,
}

/// A pipeline as it runs: how it is computed, and what it has counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PipelineAnswer {
    /// Its name.
    pub(crate) pipeline: String,
    /// Version of the program.
    pub(crate) version: String,
    /// `streaming`, `micro_batch` or `batch`.
    pub(crate) engine: String,
    /// As in `/health`.
    pub(crate) status: String,
    /// Now.
    pub(crate) now_ms: i64,
    /// Since the run has begun.
    pub(crate) uptime_ms: u64,
    /// The watermark, and who holds it.
    pub(crate) watermark: WatermarkAnswer,
    /// Number of the last epoch that is durable; null where no state is stored.
    pub(crate) epoch: Option<u64>,
    /// Sources, in the order of the configuration.
    pub(crate) sources: Vec<SourceAnswer>,
    /// Stages, parents before children.
    pub(crate) stages: Vec<StageAnswer>,
    /// Shards, by number.
    pub(crate) shards: Vec<ShardAnswer>,
    /// Sinks, in the order of the configuration.
    pub(crate) sinks: Vec<SinkAnswer>,
}

/// How the watermark stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatermarkAnswer {
    /// Where it is; null before it is known, and when all input has ended.
    pub(crate) watermark_ms: Option<i64>,
    /// For how long it has not risen.
    pub(crate) still_ms: Option<i64>,
    /// Who holds it; null if nobody does.
    pub(crate) holder: Option<HolderAnswer>,
}

/// Who holds the watermark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderAnswer {
    /// The source.
    pub(crate) source: String,
    /// Its partition; the source itself where it has but one.
    pub(crate) partition: String,
    /// How much further the watermark would be without the source; null where no other counts.
    pub(crate) by_ms: Option<i64>,
}

/// A source and what became of its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceAnswer {
    /// Its name.
    pub(crate) name: String,
    /// Records read.
    pub(crate) read: u64,
    /// Records handed on to the stages.
    pub(crate) accepted: u64,
    /// Records that the filter left out.
    pub(crate) filtered: u64,
    /// Input that makes no record.
    pub(crate) malformed: u64,
    /// Input that makes no record and is kept as a dead letter.
    pub(crate) dead_lettered: u64,
    /// Records handed on that no shard has handled.
    pub(crate) in_flight_records: u64,
    /// Their bytes.
    pub(crate) in_flight_bytes: u64,
    /// Whether it reads no more.
    pub(crate) has_ended: bool,
}

/// A stage: how it is computed, and what it has counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageAnswer {
    /// Its name.
    pub(crate) name: String,
    /// `records`, or the stage whose panes or results it reads.
    pub(crate) reads: String,
    /// Key columns.
    pub(crate) key: Vec<String>,
    /// When it emits.
    pub(crate) trigger: String,
    /// What sinks see.
    pub(crate) mode: String,
    /// Where its panes go.
    pub(crate) sinks: Vec<String>,
    /// Window copies and records, by what became of them; see `nilometer_stage_records_total`.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Panes sent to sinks since the process began, by timing.
    pub(crate) panes: BTreeMap<String, u64>,
    /// Retractions emitted.
    pub(crate) retracts: u64,
    /// Keys in memory.
    pub(crate) keys: u64,
    /// Bytes of state in memory.
    pub(crate) state_bytes: u64,
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardAnswer {
    /// Records that it has taken.
    pub(crate) records: u64,
    /// What has passed all its stages; null if nothing, or everything.
    pub(crate) watermark_ms: Option<i64>,
    /// Output that waits in front of sinks.
    pub(crate) waiting_bytes: u64,
}

/// A sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SinkAnswer {
    /// Its name.
    pub(crate) name: String,
    /// Panes written.
    pub(crate) panes: u64,
    /// Retractions written.
    pub(crate) retracts: u64,
    /// Late copies written.
    pub(crate) late: u64,
    /// Whether it has failed.
    pub(crate) has_failed: bool,
}

/// Every partition of every source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionsAnswer {
    /// The watermark, and who holds it.
    pub(crate) watermark: WatermarkAnswer,
    /// Partitions, source by source.
    pub(crate) partitions: Vec<PartitionAnswer>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionAnswer {
    /// Its source.
    pub(crate) source: String,
    /// Its name; that of the source where it has but one.
    pub(crate) partition: String,
    /// `active`, `idle`, `catching up` or `finished`.
    pub(crate) state: String,
    /// What it promises; null if nothing, or everything.
    pub(crate) watermark_ms: Option<i64>,
    /// The largest event time that it has come to; null before the first record.
    pub(crate) head_ms: Option<i64>,
    /// How far that is behind the furthest of all.
    pub(crate) skew_ms: Option<i64>,
    /// For how long it has been at its end without a record.
    pub(crate) silent_ms: i64,
    /// Whether it waits for others that are behind.
    pub(crate) is_waiting: bool,
    /// Offset of the next record to be read; only of Kafka.
    pub(crate) next: Option<u64>,
    /// Offsets up to its end; only of Kafka, and where the end is known.
    pub(crate) lag: Option<u64>,
}

/// A signal was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalAnswer {
    /// Its name.
    pub(crate) signal: String,
}

/// An epoch will begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpochAnswer {
    /// Number of the last epoch that is durable: of one that holds all that has been read by now it
    /// is higher by at most 2.
    pub(crate) durable: u64,
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyAnswer {
    /// The stage.
    pub(crate) stage: String,
    /// What is kept of it, in the form of `nilometer state get --format json`.
    pub(crate) entries: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Keys of the stage that were not looked at, since there are too many; of lists and of sliding
    /// windows, which are kept window by window, more of this key may be among them.
    pub(crate) unseen_keys: u64,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LevelAnswer {
    /// The level.
    pub(crate) level: Level,
}
