//! Credits: the right to have one more record in flight. They bound the memory of a node.
//!
//! A source takes credits for every batch that it hands on, in records and in bytes, and reads no
//! further once they are used up. A shard gives them back when it has handled the batch, unless
//! more of its output than is allowed still waits in front of sinks and of other shards: then it
//! keeps them until that has gone down; and while it is in front of sinks the shard handles nothing
//! else and fires no further. So a slow sink stops the sources, through the shards, and nothing in
//! between can grow without bound. Both sides are plain ledgers: facts in, decision out.
//!
//! A shard does not wait for other shards, which may wait for it: what one round gives for exchanged
//! stages is not bounded by this, but by the windows that fire.

/// So many records and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credit {
    /// Records.
    pub records: usize,
    /// Bytes that they take.
    pub bytes: usize,
}

/// How much may be in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records that a source reads at a time, about; at least 1.
    pub batch_records: usize,
    /// Records in flight per source; at least 1.
    pub in_flight_records_max: usize,
    /// Bytes of records in flight per source, exceeded by at most one batch.
    pub in_flight_bytes_max: usize,
    /// Bytes of panes and deltas per shard that wait for sinks and other shards; beyond it, the
    /// shard keeps the credits of its sources, and waits for the sinks. One slice may exceed it.
    pub output_bytes_max: usize,
    /// Panes of a stage that a shard fires at a time, its slice; at least 1, and exceeded by what
    /// one window, list or session gives at once.
    pub slice_panes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch_records: 4_096,
            in_flight_records_max: 65_536,
            in_flight_bytes_max: 32 << 20,
            output_bytes_max: 32 << 20,
            slice_panes: 4_096,
        }
    }
}

/// The credits of one source.
#[derive(Debug)]
pub struct Purse {
    limits: Limits,
    /// What has been handed on and not come back. Falls to zero once everything is handled.
    in_flight: Credit,
}

impl Purse {
    /// All credits there.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, in_flight: Credit { records: 0, bytes: 0 } }
    }

    /// How many records may be read now; `None` if none may, until a credit comes back.
    pub fn room(&self) -> Option<usize> {
        if self.in_flight.bytes >= self.limits.in_flight_bytes_max.max(1) {
            return None;
        }
        let records_max = self.limits.in_flight_records_max.max(1);
        let left = records_max.saturating_sub(self.in_flight.records);
        (left > 0).then(|| left.min(self.limits.batch_records.max(1)))
    }

    /// Takes credits for a batch that is handed on.
    pub fn take(&mut self, credit: Credit) {
        self.in_flight.records = self.in_flight.records.saturating_add(credit.records);
        self.in_flight.bytes = self.in_flight.bytes.saturating_add(credit.bytes);
    }

    /// Takes credits back from a shard.
    pub fn give_back(&mut self, credit: Credit) {
        self.in_flight.records = self.in_flight.records.saturating_sub(credit.records);
        self.in_flight.bytes = self.in_flight.bytes.saturating_sub(credit.bytes);
    }

    /// What is in flight.
    pub const fn in_flight(&self) -> Credit {
        self.in_flight
    }
}

/// Who takes output of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// A sink: panes, and late copies.
    Sink,
    /// A shard: what it is sent of exchanged stages.
    Shard,
}

/// The output of one shard that has not been handled yet, and the credits that it keeps because of
/// it. `T` says whose credits they are.
#[derive(Debug)]
pub struct Backlog<T> {
    bytes_max: usize,
    /// Bytes in front of sinks.
    sinks: usize,
    /// Bytes in front of shards.
    shards: usize,
    /// Credits to be given back. Empty whenever what waits is within its limit.
    kept: Vec<(T, Credit)>,
}

impl<T> Backlog<T> {
    /// Nothing waits.
    pub const fn new(limits: Limits) -> Self {
        Self { bytes_max: limits.output_bytes_max, sinks: 0, shards: 0, kept: Vec::new() }
    }

    /// Notes output of `bytes` bytes that was sent once.
    pub fn sent(&mut self, to: Taker, bytes: usize) {
        let waiting = self.waiting_mut(to);
        *waiting = waiting.saturating_add(bytes);
    }

    /// Notes that output of `bytes` bytes has been handled.
    pub fn handled(&mut self, by: Taker, bytes: usize) {
        let waiting = self.waiting_mut(by);
        *waiting = waiting.saturating_sub(bytes);
    }

    const fn waiting_mut(&mut self, taker: Taker) -> &mut usize {
        match taker {
            Taker::Sink => &mut self.sinks,
            Taker::Shard => &mut self.shards,
        }
    }

    /// Notes that `credit` is owed to `owner`.
    pub fn owe(&mut self, owner: T, credit: Credit) {
        self.kept.push((owner, credit));
    }

    /// Whether the shard may give sinks more.
    pub const fn has_room(&self) -> bool {
        self.sinks <= self.bytes_max
    }

    /// Bytes in front of sinks.
    pub const fn in_front_of_sinks(&self) -> usize {
        self.sinks
    }

    /// The credits that go back now: all, unless too much waits.
    pub fn due(&mut self) -> Vec<(T, Credit)> {
        let waiting = self.sinks.saturating_add(self.shards);
        if waiting > self.bytes_max { Vec::new() } else { std::mem::take(&mut self.kept) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        batch_records: 4,
        in_flight_records_max: 10,
        in_flight_bytes_max: 100,
        output_bytes_max: 50,
        slice_panes: 1,
    };

    #[test]
    fn a_source_reads_while_it_has_credits_of_both_kinds() {
        for (records, bytes, room) in [
            (0, 0, Some(4)),
            (6, 0, Some(4)),
            (7, 99, Some(3)),
            (10, 0, None),
            (12, 0, None),
            (1, 100, None),
        ] {
            let mut purse = Purse::new(LIMITS);
            purse.take(Credit { records, bytes });
            assert_eq!(purse.room(), room, "{records} records, {bytes} bytes");
            purse.give_back(Credit { records, bytes });
            assert_eq!(purse.in_flight(), Credit::default());
        }
        let none = Limits { in_flight_records_max: 0, in_flight_bytes_max: 0, ..LIMITS };
        assert_eq!(Purse::new(none).room(), Some(1), "a source can always read something");
    }

    #[test]
    fn a_shard_keeps_credits_while_its_output_waits() {
        let one = Credit { records: 1, bytes: 8 };
        let mut backlog = Backlog::new(LIMITS);
        backlog.owe("a", one);
        assert_eq!(backlog.due(), [("a", one)]);
        backlog.sent(Taker::Shard, 30);
        backlog.sent(Taker::Sink, 20);
        backlog.owe("a", one);
        assert_eq!(backlog.due(), [("a", one)], "the limit itself is allowed");
        backlog.sent(Taker::Sink, 1);
        backlog.owe("a", one);
        backlog.owe("b", one);
        assert_eq!(backlog.due(), []);
        assert!(backlog.has_room(), "it does not wait for shards, which may wait for it");
        backlog.handled(Taker::Sink, 1);
        assert_eq!(backlog.due(), [("a", one), ("b", one)]);
        assert_eq!(backlog.due(), []);
        backlog.sent(Taker::Sink, 31);
        assert!(!backlog.has_room());
        backlog.handled(Taker::Shard, 30);
        assert!(!backlog.has_room());
        backlog.handled(Taker::Sink, 1);
        assert!(backlog.has_room());
    }
}
