//! What storing state has cost, in the summary, in the progress line and for whoever asks a run.

use crate::summary_table::{counted, grouped};
use nilometer_actors::meter::Meters;
use nilometer_actors::node::Outcome;
use nilometer_actors::report::StoreReport;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// What storing state has cost a run. Spans are milliseconds in the JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateSummary {
    /// Epochs made durable.
    pub epochs: u64,
    /// Bytes of all of them, before packing.
    pub bytes: u64,
    /// Bytes of the last of them, before packing.
    pub last_epoch_bytes: u64,
    /// Bytes of all that is stored, on the disk.
    pub disk_bytes: u64,
    /// How long it took to open what was stored.
    #[serde(rename = "open_ms", serialize_with = "millis")]
    pub opened_in: Duration,
    /// How long the last epoch took, from its beginning until it was durable.
    #[serde(rename = "epoch_ms", serialize_with = "millis")]
    pub took: Duration,
    /// How long the longest took.
    #[serde(rename = "epoch_ms_max", serialize_with = "millis")]
    pub took_max: Duration,
    /// The longest time that handing its state over has stopped a shard for.
    #[serde(rename = "pause_ms_max", serialize_with = "millis")]
    pub pause_max: Duration,
}

fn in_millis(span: Duration) -> f64 {
    // Exact to the microsecond, which is more than is measured.
    span.as_micros() as f64 / 1_000.0
}

fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(in_millis(*span))
}

impl StateSummary {
    /// Of a run that has ended; `None` if nothing is stored.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let pauses = outcome.shards.iter().filter_map(|shard| shard.pause_max);
        let pause_max = pauses.max().unwrap_or_default();
        outcome.store.as_ref().map(|store| Self::new(store, pause_max))
    }

    /// Of a run that goes on; `None` before an epoch is stored.
    pub fn now(meters: &Meters) -> Option<Self> {
        meters.store().map(|store| Self::new(&store, meters.pause_max()))
    }

    const fn new(store: &StoreReport, pause_max: Duration) -> Self {
        Self {
            epochs: store.epochs,
            bytes: store.bytes,
            last_epoch_bytes: store.last_bytes,
            disk_bytes: store.disk_bytes,
            opened_in: store.opened_in,
            took: store.took,
            took_max: store.took_max,
            pause_max,
        }
    }

    /// A sentence for people.
    pub fn describe(&self) -> String {
        format!(
            "state: {} stored, {} bytes; the last {} bytes in {:.1} ms, the longest took \
             {:.1} ms; {} bytes on disk, opened in {:.1} ms; the longest pause of a shard was \
             {:.1} ms",
            counted(self.epochs, "epoch", "epochs"),
            grouped(self.bytes),
            grouped(self.last_epoch_bytes),
            in_millis(self.took),
            in_millis(self.took_max),
            grouped(self.disk_bytes),
            in_millis(self.opened_in),
            in_millis(self.pause_max),
        )
    }

    /// The same in a few words, for a line that changes.
    pub fn describe_shortly(&self) -> String {
        format!(
            "{}, the last {} bytes in {:.0} ms, {} bytes on disk",
            counted(self.epochs, "epoch", "epochs"),
            grouped(self.last_epoch_bytes),
            in_millis(self.took),
            grouped(self.disk_bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_milliseconds_and_nothing_is_left_out() {
        let store = StoreReport {
            epochs: 2,
            bytes: 3_000,
            last_bytes: 1_000,
            disk_bytes: 9_000_000,
            opened_in: Duration::from_micros(12_300),
            took: Duration::from_micros(16_000),
            took_max: Duration::from_micros(20_050),
        };
        let state = StateSummary::new(&store, Duration::from_micros(400));
        assert_eq!(
            serde_json::to_string(&state).unwrap(),
            concat!(
                r#"{"epochs":2,"bytes":3000,"last_epoch_bytes":1000,"disk_bytes":9000000,"#,
                r#""open_ms":12.3,"epoch_ms":16.0,"epoch_ms_max":20.05,"pause_ms_max":0.4}"#
            )
        );
        assert_eq!(
            state.describe(),
            "state: 2 epochs stored, 3,000 bytes; the last 1,000 bytes in 16.0 ms, the longest took \
             20.1 ms; 9,000,000 bytes on disk, opened in 12.3 ms; the longest pause of a shard was \
             0.4 ms"
        );
        assert_eq!(
            state.describe_shortly(),
            "2 epochs, the last 1,000 bytes in 16 ms, 9,000,000 bytes on disk"
        );
        let first = StateSummary { epochs: 1, ..state };
        assert!(first.describe().starts_with("state: 1 epoch stored, "));
        assert!(first.describe_shortly().starts_with("1 epoch, "));
    }
}
