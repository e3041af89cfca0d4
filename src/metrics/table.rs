//! The table of metrics: name, kind, unit, labels and meaning of each.

/// How the samples of a metric behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number that only rises.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Spans of time, counted by how long they were.
    Histogram,
}

impl Kind {
    /// The name in documentation, and on the page for Prometheus.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal $unit:literal [$($label:literal),*] $meaning:literal;)*) => {
        /// What can be measured.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Metric {
            $(
                #[doc = $meaning]
                $id,
            )*
        }

        impl Metric {
            /// All of them, in the order of the documentation.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$id),*];

            /// Its name, here and everywhere.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name,)*
                }
            }

            /// How its samples behave.
            pub(crate) const fn kind(self) -> Kind {
                match self {
                    $(Self::$id => Kind::$kind,)*
                }
            }

            /// What its samples are counted in.
            pub(crate) const fn unit(self) -> &'static str {
                match self {
                    $(Self::$id => $unit,)*
                }
            }

            /// Names of its labels.
            pub(crate) const fn labels(self) -> &'static [&'static str] {
                match self {
                    $(Self::$id => &[$($label),*],)*
                }
            }

            /// What it means.
            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$id => $meaning,)*
                }
            }
        }
    };
}

metrics! {
    Info: Gauge "nilometer_info" "1" ["pipeline", "version"] "1; the pipeline and the version of the program are its labels.";
    Uptime: Gauge "nilometer_uptime_seconds" "s" [] "Since the run has begun.";

    Pushes: Counter "nilometer_telemetry_pushes_total" "requests" ["outcome"] "Requests to the collector: `taken`, or `failed`, since it was away, too slow, or took only a part; no sample where there is none.";
    Spans: Counter "nilometer_telemetry_spans_total" "spans" ["outcome"] "Spans on their way to the collector: `taken`, or `dropped`, since it was away, too slow, or too many waited for it; no sample where none are made.";

    RecordsRead: Counter "nilometer_records_read_total" "records" ["source"] "Records read: lines, rows, flow records.";
    Records: Counter "nilometer_records_total" "records" ["source", "outcome"] "Records that have an outcome: `accepted` (handed on to the stages), `filtered`, `malformed`, `dead_lettered`. What was read and has none is in flight.";
    RecordsRejected: Counter "nilometer_records_rejected_total" "records" ["source", "reason"] "Records `malformed` or `dead_lettered`, by the reason that stands in dead letters.";
    Marks: Counter "nilometer_record_marks_total" "records" ["source", "mark"] "What was remarkable about records and is no outcome, as in the summary: `reordered`, `clamped` and others.";
    Datagrams: Counter "nilometer_datagrams_total" "datagrams" ["source", "outcome"] "Datagrams of collectors and captures: `read`, and of these `malformed` or with a part that has `no_template`; `dropped` before they could be read.";
    CreditRecords: Gauge "nilometer_source_in_flight_records" "records" ["source"] "Credits in use: records that a source has handed on and no shard has handled; at most `limits.in_flight_records`.";
    CreditBytes: Gauge "nilometer_source_in_flight_bytes" "bytes" ["source"] "Credits in use, in bytes; at most `limits.in_flight_bytes` and a batch.";

    Watermark: Gauge "nilometer_watermark_seconds" "s since 1970" [] "The watermark of the pipeline; no sample before it is known and when all input has ended.";
    WatermarkDelay: Gauge "nilometer_watermark_delay_seconds" "s" [] "How far the watermark is behind the clock, 0 where it is ahead; no sample where there is none.";
    WatermarkStill: Gauge "nilometer_watermark_still_seconds" "s" [] "For how long the watermark has not risen.";
    WatermarkHolder: Gauge "nilometer_watermark_holder" "1" ["source", "partition"] "1 for the partition that holds the watermark, and no other sample; none where nobody holds it.";
    WatermarkHeldBy: Gauge "nilometer_watermark_held_seconds" "s" ["source"] "How much further the watermark would be without the source that holds it; no sample where no other counts.";
    PartitionWatermark: Gauge "nilometer_partition_watermark_seconds" "s since 1970" ["source", "partition"] "What a partition promises; no sample where it promises nothing, or has ended. A source of one partition has the name of the source.";
    PartitionSkew: Gauge "nilometer_partition_skew_seconds" "s" ["source", "partition"] "How far the largest event time of a partition is behind that of the furthest one.";
    PartitionClockSkew: Gauge "nilometer_partition_clock_skew_seconds" "s" ["source", "partition"] "How far the largest event time of a partition is ahead of the clock; negative where it is behind.";
    PartitionLag: Gauge "nilometer_partition_lag_records" "records" ["source", "partition"] "Offsets between what has been read of a partition and its end; only of Kafka.";
    PartitionIdle: Gauge "nilometer_partition_idle" "1" ["source", "partition"] "1 if a partition does not hold the watermark back since nothing comes, else 0.";
    PartitionSilent: Gauge "nilometer_partition_silent_seconds" "s" ["source", "partition"] "For how long a partition has been at its end without a record.";

    StageRecords: Counter "nilometer_stage_records_total" "copies" ["stage", "outcome"] "Window copies given to a stage, by what became of them, as in the summary: `on_time`, `late`, `expired`, `closed`, `refused`, `late_no_effect`, `duplicate`, `overflow`, `unknown_step`; and records that fell into `no_window`, or were left out as `filtered` or `failed`.";
    Panes: Counter "nilometer_panes_total" "panes" ["stage", "timing"] "Panes sent to sinks since the process began: `early`, `on_time`, `timed_out`, `late`.";
    PanesEmitted: Counter "nilometer_panes_emitted_total" "panes" ["stage", "kind"] "Panes and retractions emitted, as in the summary: `insert`, `retract`. With a state it goes on where the run before was.";
    Keys: Gauge "nilometer_keys" "keys" ["stage"] "Keys that a stage keeps in memory (of lists: candidates), measured now and then.";
    StateBytes: Gauge "nilometer_state_bytes" "bytes" ["stage"] "Bytes that the state of a stage takes in memory, measured now and then.";
    SequenceSessions: Gauge "nilometer_sequence_sessions" "sessions" ["stage"] "Keys with a session, open or closed but not final yet, in memory or not.";
    SequenceRecords: Gauge "nilometer_sequence_records" "records" ["stage"] "Records that a sequence keeps in memory.";

    ShardRecords: Counter "nilometer_shard_records_total" "records" ["shard"] "Records that a shard has taken.";
    ShardWatermark: Gauge "nilometer_shard_watermark_seconds" "s since 1970" ["shard"] "What has passed all stages of a shard; no sample where that is nothing, or everything.";
    ShardWaiting: Gauge "nilometer_shard_output_waiting_bytes" "bytes" ["shard"] "Output of a shard that waits in front of sinks; beyond `limits.output_bytes` it stops.";
    ShardPause: Histogram "nilometer_shard_pause_seconds" "s" ["shard"] "How long handing its state over has stopped a shard for, epoch by epoch.";
    MemoryBytes: Gauge "nilometer_memory_bytes" "bytes" ["shard"] "What the state of a shard takes within `state.memory`; only where it is kept within it.";
    MemoryLimit: Gauge "nilometer_memory_limit_bytes" "bytes" ["shard"] "What the state of a shard may take.";
    ColdKeys: Gauge "nilometer_cold_keys" "keys" ["shard"] "Keys that lie on the disk until they are needed.";

    SinkPanes: Counter "nilometer_sink_panes_total" "panes" ["sink", "kind"] "Panes that a sink has written: `insert`, `retract`.";
    SinkLate: Counter "nilometer_sink_late_total" "copies" ["sink"] "Late copies that a sink has written.";
    SinkCalls: Histogram "nilometer_sink_call_seconds" "s" ["sink"] "How long calls of the writer of a sink took: writing, flushing, publishing.";
    SinkErrors: Counter "nilometer_sink_errors_total" "errors" ["sink"] "Errors that a sink has failed with; the first one ends the run.";
    LatencyEvent: Histogram "nilometer_latency_event_time_seconds" "s" ["sink"] "From the event time of a pane, as a rule the end of its window, until it was out: written, or published where state is stored.";
    LatencyProcessing: Histogram "nilometer_latency_processing_time_seconds" "s" ["sink"] "From when the records were read that made a pane due, by themselves or by the watermark, until it was out.";

    Epoch: Gauge "nilometer_epoch" "1" [] "Number of the last epoch that is durable; no sample where no state is stored.";
    Epochs: Counter "nilometer_epochs_total" "epochs" [] "Epochs made durable by this process.";
    EpochSeconds: Histogram "nilometer_epoch_seconds" "s" [] "How long an epoch took, from its beginning until it was durable.";
    EpochBytes: Counter "nilometer_epoch_bytes_total" "bytes" [] "Bytes of all epochs, before packing.";
    DiskBytes: Gauge "nilometer_state_disk_bytes" "bytes" [] "Bytes that all that is stored takes on the disk.";
    OpenSeconds: Gauge "nilometer_state_open_seconds" "s" [] "How long it took to open what was stored.";
}
