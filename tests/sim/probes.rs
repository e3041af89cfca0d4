//! Rare paths, counted: one that no run has come by would mean that nothing is proved of it.

use std::collections::BTreeMap;

/// The paths that some run must come by.
pub(crate) const ALL: [&str; 71] = [
    "early pane",
    "late pane",
    "pane of a window that timed out",
    "pane because the clock ticked",
    "pane taken back",
    "session merged away and taken back",
    "late record",
    "expired record",
    "closed record",
    "idle partition",
    "idle partition that never spoke",
    "idle partition wakes",
    "record too far in the future, kept",
    "record too far in the future, rejected",
    "partition waits for one that is behind",
    "source is out of credits",
    "shard keeps credits while its output waits",
    "shard fires in slices",
    "message waits for a shard that is held",
    "sink that hangs comes back",
    "block of the next epoch comes before the commit",
    "block is published from the store",
    "epoch is demanded",
    "clock goes back",
    "tick takes the place of one that waits",
    "machine sleeps while records come",
    "deltas go from one shard to another",
    "senders of an exchange stand apart",
    "round of closing",
    "cycle of micro-batches",
    "record that jumps ten years",
    "batch",
    "punctuated partition",
    "epoch is stored",
    "record waits for a cut",
    "output waits for a cut",
    "crash with no epoch under way",
    "crash before a shard is cut",
    "crash between the cuts of two shards",
    "crash with some parts written",
    "crash with all parts written and no commit row",
    "crash with the commit row written and not flushed",
    "crash with an epoch flushed and nobody told",
    "crash with an epoch durable and nothing published",
    "crash with a block half published",
    "crash between two sinks",
    "crash with an epoch published and not marked",
    "crash while it starts again",
    "drain, and a start behind it",
    "disk that fills up",
    "start behind the end",
    "start with other shards",
    "start with another budget of memory",
    "start with keys in pages",
    "keys lie in pages",
    "keys have come back from pages",
    "page cannot be written",
    "sequence that the oracle judges",
    "session is corrected",
    "session that goes on is told anew",
    "clock closes a session",
    "session is closed for want of room",
    "endless session is cut by age",
    "endless session is cut by number",
    "copy of a record of a session",
    "record of a step that is not known",
    "record of a session has no room",
    "source waits for room for a session",
    "sessions lie in pages",
    "start in the midst of a session",
    "start with sessions that may be corrected",
];

/// How often each was come by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probes(BTreeMap<&'static str, u64>);

impl Probes {
    pub(crate) fn hit(&mut self, probe: &'static str) {
        debug_assert!(ALL.contains(&probe), "`{probe}` is not listed");
        *self.0.entry(probe).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (probe, count) in &other.0 {
            *self.0.entry(probe).or_default() += count;
        }
    }

    /// Those that were never hit.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        ALL.iter().filter(|probe| !self.0.contains_key(**probe)).copied().collect()
    }
}
