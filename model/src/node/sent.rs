//! How many panes of a stage have gone to sinks, by timing. Retractions are no panes.

use crate::pane::{PaneBatch, PaneKind, Timing};

/// Panes of one stage that have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PanesSent {
    early: u64,
    on_time: u64,
    timed_out: u64,
    late: u64,
}

impl PanesSent {
    /// Counts a batch, once, however many sinks it goes to.
    pub fn count(&mut self, batch: &PaneBatch) {
        for pane in batch.panes.iter().filter(|pane| pane.kind == PaneKind::Insert) {
            let count = match pane.timing {
                Timing::Early => &mut self.early,
                Timing::OnTime => &mut self.on_time,
                Timing::TimedOut => &mut self.timed_out,
                Timing::Late => &mut self.late,
            };
            *count = count.saturating_add(1);
        }
    }

    /// How many there are of each timing.
    pub const fn by_timing(&self) -> [(Timing, u64); 4] {
        [
            (Timing::Early, self.early),
            (Timing::OnTime, self.on_time),
            (Timing::TimedOut, self.timed_out),
            (Timing::Late, self.late),
        ]
    }

    /// Adds those of another shard.
    pub const fn merge(&mut self, other: &Self) {
        self.early = self.early.saturating_add(other.early);
        self.on_time = self.on_time.saturating_add(other.on_time);
        self.timed_out = self.timed_out.saturating_add(other.timed_out);
        self.late = self.late.saturating_add(other.late);
    }
}
