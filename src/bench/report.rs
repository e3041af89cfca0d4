//! What a benchmark has shown, for people and for programs.

use super::hostile::HostileAdmin;
use super::telemetry::Telemetry;
use super::{BenchError, Format, Output};
use crate::failure::{Failure, print};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use std::time::Duration;

/// Figures that are printed.
pub(super) trait Printed: Serialize {
    /// For people.
    fn text(&self) -> String;

    /// For programs.
    fn json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Prints them as it was asked.
    fn print(&self, output: Output) -> Result<(), Failure> {
        match output {
            Output::Table => print(&self.text()),
            Output::Json => {
                print(&self.json().map_err(|error| BenchError::Input(error.to_string()))?)
            }
        }
    }
}

/// The figures of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Side {
    pub(super) wall_seconds: f64,
    pub(super) processor_seconds: f64,
    pub(super) records_per_second: f64,
    /// Records per second of processor time: what one core does.
    pub(super) records_per_core_second: f64,
    /// Processor time per record.
    pub(super) ns_per_record: f64,
}

impl Side {
    pub(super) fn new(records: u64, wall: Duration, processor: Duration) -> Self {
        let (wall_seconds, processor_seconds) = (wall.as_secs_f64(), processor.as_secs_f64());
        // The system counts processor time in hundredths of a second.
        let per = |seconds: f64| records as f64 / seconds.max(0.01);
        Self {
            wall_seconds,
            processor_seconds,
            records_per_second: per(wall_seconds),
            records_per_core_second: per(processor_seconds),
            ns_per_record: processor_seconds * 1e9 / (records as f64).max(1.0),
        }
    }
}

/// Memory of the keys that are live at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Memory {
    /// By how much resident memory grew at most, input and results left out.
    pub(super) grown_bytes: u64,
    pub(super) bytes_per_live_key: f64,
    /// What of that are the words of keys and aggregates themselves.
    pub(super) payload_bytes_per_live_key: f64,
}

/// Milliseconds from the batch that completes a window to its panes at the sink.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) format: Format,
    pub(super) records: u64,
    pub(super) conversations: u64,
    /// Keys of all eight groupings that were live at once in one window.
    pub(super) live_keys: u64,
    pub(super) shards: usize,
    pub(super) panes: u64,
    /// The hand-written loop.
    pub(super) limit: Side,
    pub(super) engine: Side,
    /// The engine without the cascade.
    pub(super) raw: Option<Side>,
    /// Engine per core over limit per core.
    pub(super) ratio: f64,
    /// How much faster the cascade is than raw passes, per core.
    pub(super) cascade_gain: Option<f64>,
    pub(super) memory: Option<Memory>,
    pub(super) pane_latency: Option<Latency>,
    /// With telemetry and without.
    pub(super) telemetry: Option<Telemetry>,
    /// With peers who mean no good, and without.
    pub(super) hostile_admin: Option<HostileAdmin>,
    /// Always true: a benchmark with other results fails.
    pub(super) results_equal: bool,
}

impl Printed for Report {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["", "records/s", "records/s per core", "ns/record", "of the limit"]);
        let mut row = |name: &str, side: &Side| {
            table.add_row([
                name.to_owned(),
                grouped(side.records_per_second),
                grouped(side.records_per_core_second),
                format!("{:.0}", side.ns_per_record),
                format!("{:.2}", side.records_per_core_second / self.limit.records_per_core_second),
            ]);
        };
        row("the limit: a hand-written loop", &self.limit);
        row("engine: actors, cascade", &self.engine);
        if let Some(raw) = &self.raw {
            row("engine: actors, eight raw passes", raw);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{}\n{table}\n{}", self.heading(), self.footing())
    }
}

impl Report {
    fn heading(&self) -> String {
        let format = match self.format {
            Format::Rows => "decoded rows",
            Format::Json => "lines of JSON",
        };
        format!(
            "bench flows: {} records as {format}, {} conversations, {} shard{}; eight groupings, one-minute windows",
            grouped(self.records as f64),
            grouped(self.conversations as f64),
            self.shards,
            if self.shards == 1 { "" } else { "s" },
        )
    }

    fn footing(&self) -> String {
        let mut lines = vec![format!(
            "results: {} panes, equal on both sides to the last byte",
            grouped(self.panes as f64)
        )];
        if let Some(gain) = self.cascade_gain {
            lines.push(format!("cascade: {gain:.1} times the speed of eight raw passes"));
        }
        if let Some(memory) = &self.memory {
            lines.push(format!(
                "memory: {:.0} bytes per live key, {:.0} of them key and aggregates ({} live keys, by growth of resident memory)",
                memory.bytes_per_live_key,
                memory.payload_bytes_per_live_key,
                grouped(self.live_keys as f64),
            ));
        }
        if let Some(latency) = &self.pane_latency {
            lines.push(format!(
                "pane latency at full speed: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms",
                latency.p50_ms, latency.p99_ms, latency.p999_ms
            ));
        }
        lines.extend(self.telemetry.as_ref().map(Telemetry::text));
        lines.extend(self.hostile_admin.as_ref().map(HostileAdmin::text));
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A number in groups of three digits: `12 345 678`.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rates_are_per_core() {
        for (number, text) in [(0.0, "0"), (999.4, "999"), (1_000.0, "1 000"), (1e7, "10 000 000")]
        {
            assert_eq!(grouped(number), text);
        }
        let side = Side::new(1_000, Duration::from_secs(2), Duration::from_secs(4));
        assert_eq!((side.records_per_second, side.records_per_core_second), (500.0, 250.0));
        assert_eq!(side.ns_per_record, 4_000_000.0);
    }
}
