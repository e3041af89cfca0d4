//! What actors have counted so far, as plain numbers: published at each tick and at the end, for
//! whoever looks at a node while it runs.
//!
//! Invariant: an actor counts in integers of its own, and puts a copy where others see it; the last
//! copy is what it reports at its end.

use crate::clock::Stopwatch;
use crate::histogram::Histogram;
use crate::report::{PartitionReport, SinkReport, StoreReport};
use nilometer_connectors::account::SourceAccount;
use nilometer_model::account::StageAccount;
use nilometer_model::memory::MemoryUse;
use nilometer_model::node::PanesSent;
use nilometer_model::node::credit::Credit;
use nilometer_model::pane::{PaneBatch, PaneKind, StageId};
use nilometer_model::sequence::SequenceUse;
use nilometer_model::time::{EventTime, ProcessingTime, Watermark};
use std::time::Duration;

/// Of a source.
#[derive(Debug, Clone, Default)]
pub struct SourceFigures {
    /// What became of its records.
    pub account: SourceAccount,
    /// What it has handed on and no shard has handled.
    pub in_flight: Credit,
    /// How each of its partitions stands; nothing unless it reads several.
    pub partitions: Vec<PartitionReport>,
    /// Whether it reads no more.
    pub has_ended: bool,
}

/// Of a shard.
#[derive(Debug, Clone)]
pub struct ShardFigures {
    /// Records that it took.
    pub records: u64,
    /// Accounts of the stages, in plan order.
    pub accounts: Vec<StageAccount>,
    /// Panes sent to sinks since the process began, by stage in plan order.
    pub panes: Vec<PanesSent>,
    /// Keys and bytes of state, by stage in plan order; measured now and then, once there is a
    /// [`Handle`](crate::handle::Handle) on the node.
    pub sizes: Vec<(usize, usize)>,
    /// What its sequences keep.
    pub sequences: Vec<(StageId, SequenceUse)>,
    /// What its state takes; `None` if it is not kept within a budget.
    pub memory: Option<MemoryUse>,
    /// Bytes of its output that wait in front of sinks.
    pub waiting_bytes: usize,
    /// What has passed all its stages.
    pub passed: Watermark,
    /// How long handing its state over has stopped it for, epoch by epoch.
    pub pauses: Histogram,
}

/// Of a sink.
#[derive(Debug, Clone, Default)]
pub struct SinkFigures {
    /// What it has written.
    pub report: SinkReport,
    /// How long calls of its writer took.
    pub calls: Histogram,
    /// From the reading of the records that made a pane due until it was out.
    pub processing: Histogram,
    /// From the event time of a pane until it was out.
    pub event: Histogram,
}

/// Of the store.
#[derive(Debug, Clone, Default)]
pub struct StoreFigures {
    /// What it has stored.
    pub report: StoreReport,
    /// How long epochs took, from their beginnings until they were durable.
    pub epochs: Histogram,
}

/// When sizes of state are measured: they are added up over all keys, so the time that it takes
/// decides how often.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    sizes: Vec<(usize, usize)>,
    /// Ticks until they are measured again.
    rest: u32,
}

/// One in so many parts of the time may go into measuring.
const SHARE: u32 = 200;

impl Measuring {
    /// At a tick, `period` after the one before: what was measured last, perhaps just now.
    pub(crate) fn at_tick(
        &mut self,
        period: Duration,
        measure: impl FnOnce() -> Vec<(usize, usize)>,
    ) -> Vec<(usize, usize)> {
        match self.rest.checked_sub(1) {
            Some(rest) => self.rest = rest,
            None => {
                let begun = Stopwatch::start();
                self.sizes = measure();
                let ticks =
                    begun.elapsed().saturating_mul(SHARE).as_micros() / period.as_micros().max(1);
                self.rest = u32::try_from(ticks).unwrap_or(u32::MAX);
            }
        }
        self.sizes.clone()
    }
}

/// Panes that are on their way out, to be counted once they are.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Since when, of which event time, and how many: runs of the same are one. Taken when they are
    /// out, or by the epoch that they are published with; there are no more of them than panes wait.
    runs: Vec<(Stopwatch, EventTime, u64)>,
}

impl Outgoing {
    /// Panes have been written which records read at `since` made due.
    pub(crate) fn written(&mut self, since: Stopwatch, panes: &PaneBatch) {
        for pane in panes.panes.iter().filter(|pane| pane.kind == PaneKind::Insert) {
            match self.runs.last_mut() {
                Some((last, event_time, count))
                    if *last == since && *event_time == pane.event_time =>
                {
                    *count += 1;
                }
                Some(_) | None => self.runs.push((since, pane.event_time, 1)),
            }
        }
    }

    /// All of them are out, at `now`.
    pub(crate) fn out(&mut self, now: ProcessingTime, figures: &mut SinkFigures) {
        for (since, event_time, count) in self.runs.drain(..) {
            figures.processing.observe(since.elapsed(), count);
            let millis = now.as_event_time().since(event_time).as_millis();
            let span = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
            figures.event.observe(span, count);
        }
    }
}
