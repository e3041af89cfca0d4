//! What a sequence keeps, in numbers, for whoever asks while it runs.

use super::SequenceTable;
use crate::pane::StageId;
use crate::sequence::spec::OutputTime;
use crate::time::EventTime;
use std::collections::BTreeMap;

/// What a sequence keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceUse {
    /// Keys with a session, open or closed but not final yet, wherever they are.
    pub sessions: usize,
    /// Those of them that are not in memory.
    pub cold: usize,
    /// Records kept in memory.
    pub records: usize,
    /// Bytes that all of this takes in memory, about.
    pub bytes: usize,
    /// Time of the first record of the session that has gone on for the longest time; `None` if none
    /// goes on.
    pub oldest: Option<EventTime>,
    /// Deadlines that keys in memory have registered, by the watermark and by the clock; a few may be
    /// of no use any more.
    pub deadlines: usize,
}

impl SequenceUse {
    /// What all shards keep together, by stage.
    pub fn total<'a>(parts: impl Iterator<Item = &'a (StageId, Self)>) -> BTreeMap<StageId, Self> {
        let mut all: BTreeMap<_, Self> = BTreeMap::new();
        for (stage, part) in parts {
            all.entry(*stage).or_default().merge(part);
        }
        all
    }

    /// Adds what another shard keeps.
    pub fn merge(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.cold += other.cold;
        self.records += other.records;
        self.bytes += other.bytes;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.deadlines += other.deadlines;
    }
}

impl SequenceTable {
    /// What it keeps.
    pub(crate) fn gauges(&self) -> SequenceUse {
        let (sessions, bytes) = self.size();
        SequenceUse {
            sessions,
            cold: self.cold_keys(),
            records: self.records,
            bytes,
            oldest: self.holds.first(),
            deadlines: self.deadlines.len() + self.ticks.len(),
        }
    }

    /// What the output watermark must not pass.
    pub(super) fn held_at(&self) -> Option<EventTime> {
        match self.frame.rules.spec.output_time {
            OutputTime::First => self.holds.first(),
            // A session counts when it is closed.
            OutputTime::Close => None,
        }
    }
}
