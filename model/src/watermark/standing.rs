//! How the watermark stands: who holds it, by how much, and since when it has not moved.
//!
//! The first question in every outage, answered from what the coordinator knows anyway.

use super::coordinator::Coordinator;
use super::partition::PartitionState;
use super::passed::Passed;
use crate::time::{EventTime, Span, Watermark};
use serde::{Deserialize, Serialize};

/// How progress stands, per partition and as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The pipeline's watermark.
    pub watermark: Watermark,
    /// For how long it has not risen.
    pub still: Span,
    /// Who holds it; `None` if nobody does: all are idle or have ended.
    pub holder: Option<Holder>,
    /// Every partition, by number.
    pub partitions: Vec<PartitionStanding>,
}

/// Who holds the watermark, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Number of the partition.
    pub partition: u32,
    /// What it promises.
    pub watermark: Watermark,
    /// How much further the watermark would be without it; `None` if no other partition counts.
    pub by: Option<Span>,
}

/// How one partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStanding {
    /// What holds for it.
    pub state: PartitionState,
    /// What it promises.
    pub watermark: Watermark,
    /// The largest event time that it has come to.
    pub head: EventTime,
    /// How far its head is behind the furthest head of all.
    pub lag: Span,
    /// For how long it has been at its end without a record.
    pub silent: Span,
    /// Whether it waits for others that are behind.
    pub is_waiting: bool,
}

impl Coordinator {
    /// The partition that holds the watermark back, if one does: of those that count, the one with
    /// the lowest watermark.
    pub fn holder(&self) -> Option<u32> {
        self.held().map(|holder| holder.partition)
    }

    /// Who holds the watermark, by how much, and how every partition stands.
    pub fn standing(&self) -> Standing {
        let furthest = self.partitions.iter().map(|partition| partition.head).max();
        let furthest = furthest.unwrap_or(EventTime::MIN);
        let standing =
            |(number, partition): (usize, &super::partition::Partition)| PartitionStanding {
                state: partition.state,
                watermark: partition.watermark,
                head: partition.head,
                lag: furthest.since(partition.head),
                silent: partition.silent,
                is_waiting: self.alignment.is_waiting(number),
            };
        Standing {
            watermark: self.watermark(),
            still: self.standstill().still,
            holder: self.held(),
            partitions: self.partitions.iter().enumerate().map(standing).collect(),
        }
    }

    /// How it stands, if the watermark has stood still for longer than is usual and nobody was told
    /// for a while: after a minute, then each time after twice as long.
    pub fn take_standstill(&mut self) -> Option<Standing> {
        let is_at_end = self.watermark() == Watermark::MAX;
        (!is_at_end && self.standstill_mut().is_worth_telling()).then(|| self.standing())
    }

    fn held(&self) -> Option<Holder> {
        let active = (0_u32..).zip(&self.partitions);
        let active = active.filter(|(_, partition)| partition.state == PartitionState::Active);
        let mut active: Vec<_> = active.map(|(number, known)| (known.watermark, number)).collect();
        active.sort_unstable();
        let (watermark, partition) = *active.first()?;
        let by = active.get(1).map(|(next, _)| next.0.since(watermark.0));
        Some(Holder { partition, watermark, by })
    }
}

/// For how long the watermark has stood still.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Standstill {
    /// On the clock. Cleared when it rises.
    still: Span,
    /// While all partitions were at their ends. Cleared when it rises, and when windows have
    /// emitted what they hold.
    quiet: Span,
    /// Whether records came since windows last emitted what they hold.
    has_records: bool,
    /// How long it must stand still to be worth telling. Grows with every telling; starts anew
    /// when it rises.
    #[serde(skip, default = "first_telling")]
    next_telling: Span,
}

/// How long the watermark stands still before it is told of.
const TELL_AFTER: Span = Span::from_millis(60_000);

const fn first_telling() -> Span {
    TELL_AFTER
}

impl Default for Standstill {
    fn default() -> Self {
        Self { still: Span::ZERO, quiet: Span::ZERO, has_records: false, next_telling: TELL_AFTER }
    }
}

impl Standstill {
    pub(crate) fn rise(&mut self) {
        *self = Self { has_records: self.has_records, ..Self::default() };
    }

    pub(crate) fn take_records(&mut self) {
        self.has_records = true;
    }

    /// Time has passed, while all partitions were at their ends if it `is_quiet`, where windows emit
    /// what they hold after `limit` of that.
    pub(super) fn pass(&mut self, passed: Passed, (is_quiet, limit): (bool, Option<Span>)) {
        self.still = self.still.saturating_add(passed.elapsed);
        if passed.is_unseen(limit) {
            self.quiet = Span::ZERO;
        } else if is_quiet {
            self.quiet = self.quiet.saturating_add(passed.seen);
        }
    }

    /// Whether it has stood still for `limit`, and there is something to emit; true once.
    pub(crate) fn closes(&mut self, limit: Span) -> bool {
        let closes = self.has_records && self.quiet >= limit;
        if closes {
            self.quiet = Span::ZERO;
            self.has_records = false;
        }
        closes
    }

    fn is_worth_telling(&mut self) -> bool {
        let is_worth = self.still >= self.next_telling;
        if is_worth {
            self.next_telling = self.still.saturating_add(self.still);
        }
        is_worth
    }
}
