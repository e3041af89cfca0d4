//! What the benchmark of windows has shown, for people and for programs.

use crate::bench::report::{Printed, grouped};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

/// The figures of one window function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) window: String,
    pub(super) panes: u64,
    /// Of the loop written by hand, panes included.
    pub(super) limit_ns_per_record: f64,
    /// Of the engine, panes included.
    pub(super) ns_per_record: f64,
    pub(super) taking_ns_per_record: f64,
    pub(super) firing_ns_per_pane: f64,
    /// Speed of the engine over that of the loop.
    pub(super) ratio: f64,
}

/// Figures of sessions that are all open at once, with two records each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OpenSessions {
    pub(super) sessions: u64,
    /// Of the first record of each.
    pub(super) opening_ns: f64,
    /// Of the second.
    pub(super) joining_ns: f64,
    /// Of the watermark that completes all.
    pub(super) firing_seconds: f64,
    /// By growth of resident memory; null where the system does not say.
    pub(super) bytes_per_session: Option<f64>,
    /// Of the loop written by hand, panes included.
    pub(super) limit_ns_per_record: f64,
    /// Speed of the engine over that of the loop.
    pub(super) ratio: f64,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) records: u64,
    pub(super) keys: u64,
    pub(super) event_time_seconds: i64,
    /// Runs of which the best counts.
    pub(super) runs: u16,
    /// Fixed, sliding and session windows.
    pub(super) windows: Vec<Figures>,
    /// What a record costs in sliding windows against fixed ones, panes included and left out.
    pub(super) sliding_to_fixed: Option<[f64; 2]>,
    pub(super) open_sessions: OpenSessions,
    /// Always true: a benchmark with other results fails.
    pub(super) results_equal: bool,
}

/// What a record costs in the second of the window functions against the first: panes included, and
/// left out.
pub(super) fn sliding_to_fixed(figures: &[Figures]) -> Option<[f64; 2]> {
    let [fixed, sliding, ..] = figures else { return None };
    Some([
        sliding.ns_per_record / fixed.ns_per_record,
        sliding.taking_ns_per_record / fixed.taking_ns_per_record,
    ])
}

impl Printed for Report {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        let titles =
            ["", "panes", "ns/record", "taking it", "ns/pane", "loop ns/record", "of the loop"];
        table.set_header(titles);
        for figures in &self.windows {
            table.add_row([
                figures.window.clone(),
                grouped(figures.panes as f64),
                format!("{:.0}", figures.ns_per_record),
                format!("{:.0}", figures.taking_ns_per_record),
                format!("{:.0}", figures.firing_ns_per_pane),
                format!("{:.0}", figures.limit_ns_per_record),
                format!("{:.2}", figures.ratio),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{}\n{table}\n{}", self.heading(), self.footing())
    }
}

impl Report {
    fn heading(&self) -> String {
        format!(
            "bench windows: {} records of {} keys over {} s, one shard by itself; best of {}",
            grouped(self.records as f64),
            grouped(self.keys as f64),
            self.event_time_seconds,
            self.runs,
        )
    }

    fn footing(&self) -> String {
        let mut lines = vec!["results: equal to those of the loops, pane by pane".to_owned()];
        if let Some([all, taking]) = self.sliding_to_fixed {
            lines.push(format!(
                "sliding to fixed: {all:.2} times the time per record, {taking:.2} without panes"
            ));
        }
        let open = &self.open_sessions;
        let bytes = open.bytes_per_session;
        let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes:.0} bytes each"));
        lines.push(format!(
            "open sessions: {}{bytes}; {:.0} ns to open one, {:.0} ns to join it, {:.2} s to fire all; {:.2} of the loop",
            grouped(open.sessions as f64),
            open.opening_ns,
            open.joining_ns,
            open.firing_seconds,
            open.ratio,
        ));
        lines.push(String::new());
        lines.join("\n")
    }
}
