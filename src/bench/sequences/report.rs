//! What the benchmark of sequences has shown, for people and for programs.

use crate::bench::report::{Printed, Side, grouped};
use serde::Serialize;

/// What the published reference does on a whole machine, JSON included.
const REFERENCE_RECORDS_PER_SECOND: f64 = 200_000.0;

/// How many times the reference this is.
pub(super) fn against(side: Side) -> f64 {
    side.records_per_second / REFERENCE_RECORDS_PER_SECOND
}

/// The real actors over lines of JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Json {
    pub(super) shards: usize,
    #[serde(flatten)]
    pub(super) side: Side,
    pub(super) times_the_reference: f64,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) sessions: u32,
    pub(super) records: u64,
    /// Records that came behind a later one of their session.
    pub(super) disordered: u64,
    /// Runs of which the best counts.
    pub(super) runs: u16,
    /// Of the loop written by hand.
    pub(super) limit_ns_per_record: f64,
    pub(super) limit_taking_ns_per_record: f64,
    /// Of one shard by itself.
    pub(super) ns_per_record: f64,
    pub(super) taking_ns_per_record: f64,
    pub(super) closing_ns_per_session: f64,
    pub(super) records_per_core_second: f64,
    /// Speed of the shard over that of the loop.
    pub(super) ratio: f64,
    /// By growth of resident memory, four records included; null where the system does not say.
    pub(super) bytes_per_session: Option<f64>,
    pub(super) json: Json,
    /// Always true: a benchmark with other results fails.
    pub(super) results_equal: bool,
}

impl Printed for Report {
    fn text(&self) -> String {
        let bytes = self.bytes_per_session;
        let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes:.0} bytes each"));
        let share = self.disordered as f64 * 100.0 / self.records as f64;
        let side = self.json.side;
        let mut lines = vec![
            format!(
                "bench sequences: {} records, {share:.1} % behind a later one; best of {}",
                grouped(self.records as f64),
                self.runs
            ),
            format!("open sessions: {}{bytes}", grouped(f64::from(self.sessions))),
            format!(
                "one shard: {:.0} ns per record, {:.0} to take it; {:.0} ns per session to close it; {} records/s per core",
                self.ns_per_record,
                self.taking_ns_per_record,
                self.closing_ns_per_session,
                grouped(self.records_per_core_second)
            ),
            format!(
                "loop: {:.0} ns per record, {:.0} to take it; the shard has {:.2} of the loop",
                self.limit_ns_per_record, self.limit_taking_ns_per_record, self.ratio
            ),
            format!(
                "JSON through the actors, {} shards: {} records/s, {} per core; {:.2} times 200 000",
                self.json.shards,
                grouped(side.records_per_second),
                grouped(side.records_per_core_second),
                self.json.times_the_reference
            ),
            "results: equal to those of the loop, session by session".to_owned(),
        ];
        lines.push(String::new());
        lines.join("\n")
    }
}
