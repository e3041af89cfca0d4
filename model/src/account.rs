//! Where records, panes and operations went, stage by stage: nothing disappears without a number.

use crate::pane::StageId;
use serde::{Deserialize, Serialize};

/// What became of the window copies that a stage was given, and what it emitted.
///
/// A record falls into 0 to n windows; each is a copy, judged by itself. Of the copies assigned to
/// a stage every one is in exactly one of `on_time`, `late`, `expired`, `closed` and
/// `refused`; those of a sequence may also be in `late_no_effect`, `duplicate`, `overflow` and
/// `unknown_step`. Where a stage groups results, each row of a change has copies, those that are taken
/// back as well as those that come: they are judged together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageAccount {
    /// Copies given to the stage: counted when a window is assigned, before the copy is judged.
    pub assigned: u64,
    /// Copies that came before their window was complete.
    pub on_time: u64,
    /// Copies that came after, and still counted.
    pub late: u64,
    /// Copies that came after their window's state was gone: dropped.
    pub expired: u64,
    /// Copies that came after their trigger had finished: dropped.
    pub closed: u64,
    /// Copies with which custom windows would have merged into one whose state was gone: dropped.
    pub refused: u64,
    /// Of a sequence: records that came late for a session that was told, and changed nothing of it.
    pub late_no_effect: u64,
    /// Of a sequence: copies of records that had come: dropped.
    pub duplicate: u64,
    /// Of a sequence: records for which there was no room: dropped.
    pub overflow: u64,
    /// Of a sequence: records of steps that it does not know: left out.
    pub unknown_step: u64,
    /// Records that fell into no window.
    pub no_window: u64,
    /// Rows of results that the stage's own filter left out, counted as they came.
    pub filtered: u64,
    /// Rows of results for which one of its expressions has no value: left out, counted as they
    /// came.
    pub failed: u64,
    /// Panes emitted, retractions not counted.
    pub panes: u64,
    /// Retractions emitted.
    pub retracts: u64,
    /// Aggregate operations: adds and merges, counted per key and window, not per aggregate. Where
    /// sliding windows are kept in slices: an add per slice, and one for each window put together.
    pub operations: u64,
    /// Records whose old part was cut by the longest duration that counts.
    pub cut_records: u64,
    /// What was cut, by aggregate in plan order (zero for those that are not split).
    pub cut: Vec<i128>,
}

impl StageAccount {
    /// Whether every copy has exactly one outcome.
    pub fn is_balanced(&self) -> bool {
        let outcomes = [
            self.on_time,
            self.late,
            self.expired,
            self.closed,
            self.refused,
            self.late_no_effect,
            self.duplicate,
            self.overflow,
            self.unknown_step,
        ];
        outcomes.into_iter().try_fold(0, u64::checked_add) == Some(self.assigned)
    }

    /// Adds the account of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.assigned += other.assigned;
        self.on_time += other.on_time;
        self.late += other.late;
        self.expired += other.expired;
        self.closed += other.closed;
        self.refused += other.refused;
        self.late_no_effect += other.late_no_effect;
        self.duplicate += other.duplicate;
        self.overflow += other.overflow;
        self.unknown_step += other.unknown_step;
        self.no_window += other.no_window;
        self.filtered += other.filtered;
        self.failed += other.failed;
        self.panes += other.panes;
        self.retracts += other.retracts;
        self.operations += other.operations;
        self.cut_records += other.cut_records;
        self.cut.resize(self.cut.len().max(other.cut.len()), 0);
        for (mine, theirs) in self.cut.iter_mut().zip(&other.cut) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Why a window copy was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The state of its window was gone.
    Expired,
    /// The trigger of its window had finished.
    Closed,
    /// With it, windows would merge into one whose state was gone.
    Refused,
    /// It falls into no window.
    NoWindow,
    /// There was no room for it.
    Overflow,
}

impl DropReason {
    /// The name in transcripts and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::NoWindow => "no_window",
            Self::Overflow => "overflow",
        }
    }
}

/// A window copy that was dropped; listed only while drops are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// The stage that dropped it.
    pub stage: StageId,
    /// Its key, packed.
    pub key: Box<[u64]>,
}
