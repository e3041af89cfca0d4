//! What the benchmark of state has shown, for people and for programs.

use super::engine::Ran;
use super::feed::Records;
use crate::bench::report::{Printed, grouped};
use serde::Serialize;

/// Figures of a run in which few keys change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Few {
    /// Keys that change.
    pub(super) keys: u64,
    pub(super) records: u64,
    pub(super) records_per_second: f64,
    pub(super) epochs: u64,
    /// Before packing.
    pub(super) bytes_per_epoch: f64,
    pub(super) pause_max_ms: f64,
}

impl Few {
    /// Of a run over these records.
    pub(super) fn of(ran: &Ran, records: Records) -> Self {
        Self {
            keys: records.keys,
            records: records.count,
            records_per_second: ran.records_per_second(records.count),
            epochs: ran.epochs,
            bytes_per_epoch: ran.bytes_per_epoch(),
            pause_max_ms: ran.pause_max_ms,
        }
    }
}

/// Figures of runs with a tenth of the memory that all keys take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Tight {
    /// Bytes of memory that all keys take.
    pub(super) state_bytes: usize,
    /// Bytes that they may take.
    pub(super) budget: usize,
    /// While every key is asked for once, in no order.
    pub(super) records_per_second: f64,
    /// Keys that came back from pages for that.
    pub(super) came: u64,
    pub(super) pause_max_ms: f64,
    pub(super) disk_bytes_per_key: f64,
    /// From nothing to a node that knows where all keys are.
    pub(super) restart_seconds: f64,
    /// Behind the restart.
    pub(super) few: Few,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) keys: u64,
    pub(super) records: u64,
    pub(super) shards: usize,
    pub(super) epoch_ms: u32,
    pub(super) off_records_per_second: f64,
    pub(super) on_records_per_second: f64,
    /// Speed with a state over that without.
    pub(super) ratio: f64,
    pub(super) epochs: u64,
    /// Before packing.
    pub(super) bytes_per_epoch: f64,
    pub(super) pause_max_ms: f64,
    pub(super) disk_bytes: u64,
    pub(super) disk_bytes_per_key: f64,
    /// From nothing to a node that has all keys.
    pub(super) restart_seconds: f64,
    /// Behind the restart.
    pub(super) few: Few,
    pub(super) tight: Tight,
    /// Always true: a benchmark that loses a record fails.
    pub(super) results_equal: bool,
}

impl Printed for Report {
    fn text(&self) -> String {
        let Self { keys, records, shards, epoch_ms, few, tight, .. } = self;
        let millions = |number: f64| format!("{:.2} million", number / 1e6);
        let megabytes = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
        format!(
            "{} records of {} keys, all live, {shards} shards, an epoch every {epoch_ms} ms\n\
             \n\
             without a state   {} records/s\n\
             with one          {} records/s: {:.2} of the speed without\n\
             epochs            {}, {} each before packing, the longest pause {:.1} ms\n\
             on disk           {}, {:.0} bytes a key\n\
             restart           {:.2} s\n\
             \n\
             behind it {} keys change ({} records)\n\
             with a state      {} records/s\n\
             epochs            {}, {} each before packing, the longest pause {:.1} ms\n\
             \n\
             with {} of memory for state that takes {}\n\
             every key once    {} records/s: {:.2} of the speed without a state\n\
             \x20                 {} keys came back, the longest pause {:.1} ms\n\
             on disk           {:.0} bytes a key\n\
             restart           {:.2} s\n\
             one key in 100    {} records/s\n\
             \n\
             every record is in one result\n",
            grouped(*records as f64),
            grouped(*keys as f64),
            millions(self.off_records_per_second),
            millions(self.on_records_per_second),
            self.ratio,
            self.epochs,
            megabytes(self.bytes_per_epoch),
            self.pause_max_ms,
            megabytes(self.disk_bytes as f64),
            self.disk_bytes_per_key,
            self.restart_seconds,
            grouped(few.keys as f64),
            grouped(few.records as f64),
            millions(few.records_per_second),
            few.epochs,
            megabytes(few.bytes_per_epoch),
            few.pause_max_ms,
            megabytes(tight.budget as f64),
            megabytes(tight.state_bytes as f64),
            millions(tight.records_per_second),
            tight.records_per_second / self.off_records_per_second,
            grouped(tight.came as f64),
            tight.pause_max_ms,
            tight.disk_bytes_per_key,
            tight.restart_seconds,
            millions(tight.few.records_per_second),
        )
    }
}
