//! Where the reading of a partition begins and ends: pure decisions from what was stored, what was
//! asked for, and what the broker has.

use serde::{Deserialize, Serialize};

/// Where to begin in a partition that nothing is stored of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At its first record.
    Earliest,
    /// Behind its last record.
    Latest,
    /// At the first record that is as late as this, in milliseconds since the Unix epoch, by the
    /// timestamps of the records.
    At(i64),
}

/// Where to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// Behind what there is when reading begins.
    Now,
    /// At the first record that is as late as this, in milliseconds since the Unix epoch, by the
    /// timestamps of the records; at the latest behind what there is when reading begins.
    At(i64),
}

/// What the broker has of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    /// Offset of its first record.
    pub(crate) low: i64,
    /// Offset behind its last record.
    pub(crate) high: i64,
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) next: i64,
    /// Offsets that should have been read, and that the broker no longer has.
    pub(crate) lost: u64,
    /// Whether the log ends before what was read of it: it is another one, or was cut off.
    pub(crate) is_another: bool,
}

impl Log {
    /// Where to go on in the log behind what was read up to `next`, if reading ends at `until`. Behind
    /// that nothing is missed.
    pub(crate) fn go_on(self, next: i64, until: Option<i64>) -> Place {
        if until.is_some_and(|until| next >= until) {
            return Place { next, lost: 0, is_another: false };
        }
        if next > self.high {
            return Place { next: self.low, lost: 0, is_another: true };
        }
        let low = until.map_or(self.low, |until| self.low.min(until));
        let lost = u64::try_from(low.saturating_sub(next)).unwrap_or(0);
        Place { next: next.max(low), lost, is_another: false }
    }

    /// Where to begin, if the first record that is late enough is at `found`; `None` if none is, or
    /// none was asked for.
    pub(crate) fn begin(self, start: Start, found: Option<i64>) -> i64 {
        match start {
            Start::Earliest => self.low,
            Start::Latest => self.high,
            Start::At(_) => found.unwrap_or(self.high).clamp(self.low, self.high),
        }
    }

    /// Where to end, if the first record that is late enough is at `found`.
    pub(crate) fn end(self, until: Until, found: Option<i64>) -> i64 {
        match until {
            Until::Now => self.high,
            Until::At(_) => found.unwrap_or(self.high).clamp(self.low, self.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Log = Log { low: 100, high: 200 };

    #[test]
    fn what_the_broker_no_longer_has_is_counted() {
        for (next, until, expected, lost, is_another) in [
            (99, None, 100, 1, false),
            (0, None, 100, 100, false),
            (100, None, 100, 0, false),
            (150, None, 150, 0, false),
            (200, None, 200, 0, false),
            (201, None, 100, 0, true),
            (99, Some(150), 100, 1, false),
            (150, Some(180), 150, 0, false),
            // What is lost goes beyond the end.
            (20, Some(90), 90, 70, false),
            // All of it was read, whatever has become of the log.
            (90, Some(90), 90, 0, false),
            (95, Some(90), 95, 0, false),
            (250, Some(250), 250, 0, false),
            (201, Some(250), 100, 0, true),
        ] {
            let found = LOG.go_on(next, until);
            assert_eq!(found, Place { next: expected, lost, is_another }, "{next} {until:?}");
        }
    }

    #[test]
    fn begin_and_end_lie_in_the_log() {
        for (start, found, expected) in [
            (Start::Earliest, None, 100),
            (Start::Latest, None, 200),
            (Start::At(5), Some(120), 120),
            (Start::At(5), Some(90), 100),
            (Start::At(5), None, 200),
        ] {
            assert_eq!(LOG.begin(start, found), expected, "{start:?} {found:?}");
        }
        for (until, found, expected) in [
            (Until::Now, None, 200),
            (Until::At(5), Some(120), 120),
            (Until::At(5), Some(201), 200),
            (Until::At(5), None, 200),
        ] {
            assert_eq!(LOG.end(until, found), expected, "{until:?} {found:?}");
        }
    }
}
