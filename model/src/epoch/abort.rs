//! Decides whether a node may start where nodes before it have come to a bad end.
//!
//! A node that fails at the same place again and again helps nobody: behind the third time it starts
//! held, and somebody has to say what is to become of it. A failure is behind a node as soon as an
//! epoch is stored that lies beyond the place where it failed, in every partition that records were
//! being taken in of: which of them it was is not known, and what other partitions have come to says
//! nothing. Nothing is counted of a node that was killed: that says nothing about its input.

use super::Epoch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Records of a partition that were taken in together, by their offsets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetRange {
    /// Name of the partition: that of its source, where that is one partition.
    pub partition: Box<str>,
    /// The first of them.
    pub from: u64,
    /// Behind the last of them.
    pub to: u64,
}

impl OffsetRange {
    /// Whether a record of its partition lies in it.
    pub const fn has(&self, offset: u64) -> bool {
        self.from <= offset && offset < self.to
    }
}

/// Records of a source that were taken in together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    /// Number of the source.
    pub source: u32,
    /// Of each of its partitions that they were of, what they were.
    pub ranges: Vec<OffsetRange>,
}

/// How a node came to a bad end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// The last epoch that was durable then.
    pub epoch: Epoch,
    /// What was being taken in; `None` if nothing was.
    pub place: Option<BatchPlace>,
    /// What was said.
    pub error: Box<str>,
}

/// What whoever starts a node wants after it has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// That it starts, unless it has failed too often.
    #[default]
    Start,
    /// That it starts.
    Retry,
    /// That it starts, and leaves out what was being taken in when it failed.
    SkipBatch,
}

/// Whether a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Starts,
    /// It was to leave out a batch, but there is none that it failed in, or none any more.
    StartsWithNothingToSkip,
    /// It has failed too often.
    Held,
}

/// What is stored, to hold failures against.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The last durable epoch.
    pub epoch: Epoch,
    /// By source, and by name of a partition of it, the offset behind what was read before it.
    pub read: &'a [BTreeMap<Box<str>, u64>],
}

impl Stored<'_> {
    fn has_passed(&self, place: &BatchPlace) -> bool {
        let read = self.read.get(place.source as usize);
        let has_read = |range: &OffsetRange| {
            read.and_then(|read| read.get(&range.partition)).is_some_and(|next| *next >= range.to)
        };
        place.ranges.iter().all(has_read)
    }

    /// Whether it lies beyond a failure.
    fn is_beyond(&self, abort: &Abort) -> bool {
        match &abort.place {
            Some(place) => self.has_passed(place),
            None => self.epoch > abort.epoch,
        }
    }
}

/// What is remembered of failures, and what is left out for them. Outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Aborts {
    /// Failures that count: nothing is stored beyond them, and nobody has asked to try again since.
    /// At most [`Aborts::MAX`], since no more nodes start.
    counted: Vec<Abort>,
    /// The last failure, unless something is stored beyond it.
    last: Option<Abort>,
    /// What is left out, until an epoch beyond it is stored.
    skipped: Vec<BatchPlace>,
}

impl Aborts {
    /// A node that has failed so often, without having come further since, starts held.
    pub const MAX: usize = 3;

    /// How often it has failed and come no further since.
    pub const fn count(&self) -> usize {
        self.counted.len()
    }

    /// The last failure that is not behind it.
    pub const fn last(&self) -> Option<&Abort> {
        self.last.as_ref()
    }

    /// What is left out.
    pub fn skipped(&self) -> &[BatchPlace] {
        &self.skipped
    }

    /// A node starts behind `stored`; says whether it may.
    pub fn start(&mut self, stored: Stored<'_>, wish: Wish) -> Verdict {
        self.skipped.retain(|place| !stored.has_passed(place));
        self.counted.retain(|abort| !stored.is_beyond(abort));
        self.last = self.last.take().filter(|last| !stored.is_beyond(last));
        let is_held = self.counted.len() >= Self::MAX;
        let place = self.last.as_ref().and_then(|last| last.place.clone());
        match (wish, place) {
            (Wish::Retry, _) => {
                self.counted.clear();
                Verdict::Starts
            }
            (Wish::SkipBatch, Some(place)) => {
                self.skipped.push(place);
                self.counted.clear();
                self.last = None;
                Verdict::Starts
            }
            (Wish::Start, _) | (Wish::SkipBatch, None) if is_held => Verdict::Held,
            (Wish::Start, _) => Verdict::Starts,
            (Wish::SkipBatch, None) => Verdict::StartsWithNothingToSkip,
        }
    }

    /// A node has come to a bad end.
    pub fn failed(&mut self, abort: Abort) {
        self.counted.push(abort.clone());
        self.last = Some(abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the second source, which is one partition, or of two of its partitions.
    fn place(ranges: &[(&str, u64, u64)]) -> BatchPlace {
        let range = |(name, from, to): &(&str, u64, u64)| OffsetRange {
            partition: (*name).into(),
            from: *from,
            to: *to,
        };
        BatchPlace { source: 1, ranges: ranges.iter().map(range).collect() }
    }

    fn abort(epoch: u64, place: Option<BatchPlace>) -> Abort {
        Abort { epoch: Epoch::from_number(epoch), place, error: "no".into() }
    }

    /// A start behind an epoch, where this much of the partitions is stored.
    fn start(aborts: &mut Aborts, (epoch, read): (u64, &[(&str, u64)]), wish: Wish) -> Verdict {
        let read = read.iter().map(|(name, next)| ((*name).into(), *next)).collect();
        let stored = Stored { epoch: Epoch::from_number(epoch), read: &[BTreeMap::new(), read] };
        aborts.start(stored, wish)
    }

    #[test]
    fn the_start_behind_the_third_failure_at_one_place_is_held() {
        let one = || Some(place(&[("in", 40, 50)]));
        let two = || Some(place(&[("t/0", 40, 50), ("t/3", 7, 8)]));
        for (times, epoch, read, place, verdict) in [
            (0, 7, &[("in", 40)][..], None, Verdict::Starts),
            (2, 7, &[("in", 40)], one(), Verdict::Starts),
            (3, 7, &[("in", 40)], one(), Verdict::Held),
            // Epochs that come nearer do not lie beyond it.
            (3, 9, &[("in", 49)], one(), Verdict::Held),
            (3, 9, &[("in", 50)], one(), Verdict::Starts),
            (3, 7, &[("in", 40)], None, Verdict::Held),
            (3, 8, &[("in", 40)], None, Verdict::Starts),
            // Nor do those that come further in other partitions, or in some of its own.
            (3, 9, &[("t/0", 40), ("t/1", 99), ("t/3", 7)], two(), Verdict::Held),
            (3, 9, &[("t/0", 50), ("t/3", 7)], two(), Verdict::Held),
            (3, 9, &[("t/0", 49), ("t/3", 8)], two(), Verdict::Held),
            (3, 9, &[("t/0", 50), ("t/3", 8)], two(), Verdict::Starts),
            // A partition that is not known any more.
            (3, 9, &[("t/0", 99)], two(), Verdict::Held),
        ] {
            let mut aborts = Aborts::default();
            for _ in 0..times {
                aborts.failed(abort(7, place.clone()));
            }
            assert_eq!(
                start(&mut aborts, (epoch, read), Wish::Start),
                verdict,
                "{place:?} {read:?}"
            );
            let is_behind = verdict == Verdict::Starts && times > 2;
            assert_eq!(aborts.count(), if is_behind { 0 } else { times });
        }
    }

    /// A node that gets over one record and fails at another has come further.
    #[test]
    fn failures_at_places_that_are_behind_do_not_count() {
        let mut aborts = Aborts::default();
        for at in 0..6 {
            let (from, to) = (at * 10, at * 10 + 10);
            assert_eq!(start(&mut aborts, (at, &[("in", from)]), Wish::Start), Verdict::Starts);
            assert_eq!(aborts.count(), 0);
            aborts.failed(abort(at, Some(place(&[("in", from, to)]))));
        }
        // Two records in two partitions, one of which comes first each time.
        let mut aborts = Aborts::default();
        for at in [0, 1, 0] {
            assert_eq!(start(&mut aborts, (1, &[]), Wish::Start), Verdict::Starts);
            aborts.failed(abort(1, Some(place(&[(["t/0", "t/1"][at], 5, 6)]))));
        }
        assert_eq!(start(&mut aborts, (2, &[("t/0", 5), ("t/1", 5)]), Wish::Start), Verdict::Held);
        // With one of them left out.
        assert_eq!(start(&mut aborts, (2, &[("t/1", 5)]), Wish::SkipBatch), Verdict::Starts);
        assert_eq!(aborts.skipped(), [place(&[("t/0", 5, 6)])]);
    }

    #[test]
    fn a_retry_counts_anew() {
        let place = || Some(place(&[("in", 40, 50)]));
        let mut aborts = Aborts::default();
        (0..3).for_each(|_| aborts.failed(abort(7, place())));
        assert_eq!(start(&mut aborts, (7, &[("in", 40)]), Wish::Retry), Verdict::Starts);
        assert_eq!((aborts.count(), aborts.last().is_some()), (0, true));
        aborts.failed(abort(7, place()));
        assert_eq!(start(&mut aborts, (7, &[("in", 40)]), Wish::Start), Verdict::Starts);
        assert_eq!((aborts.count(), aborts.skipped().len()), (1, 0));
    }

    #[test]
    fn what_is_skipped_stays_so_until_it_is_stored() {
        let (first, next) = (place(&[("in", 40, 50)]), place(&[("in", 50, 60)]));
        let mut aborts = Aborts::default();
        aborts.failed(abort(7, Some(first.clone())));
        assert_eq!(start(&mut aborts, (7, &[("in", 40)]), Wish::SkipBatch), Verdict::Starts);
        assert_eq!((aborts.skipped(), aborts.count()), (&[first.clone()][..], 0));
        // Killed on the way, and asked again: it is skipped once.
        for _ in 0..2 {
            let verdict = start(&mut aborts, (8, &[("in", 45)]), Wish::SkipBatch);
            assert_eq!(verdict, Verdict::StartsWithNothingToSkip);
            assert_eq!(aborts.skipped(), std::slice::from_ref(&first));
        }
        for (offset, expected) in [(39, false), (40, true), (49, true), (50, false)] {
            assert_eq!(first.ranges[0].has(offset), expected, "{offset}");
        }
        // The next one fails, too.
        aborts.failed(abort(8, Some(next.clone())));
        assert_eq!(start(&mut aborts, (8, &[("in", 45)]), Wish::SkipBatch), Verdict::Starts);
        assert_eq!(aborts.skipped(), [first, next.clone()]);
        assert_eq!(start(&mut aborts, (9, &[("in", 50)]), Wish::Start), Verdict::Starts);
        assert_eq!(aborts.skipped(), [next]);
        assert_eq!(start(&mut aborts, (9, &[("in", 60)]), Wish::Start), Verdict::Starts);
        assert_eq!(aborts, Aborts::default());
    }

    #[test]
    fn without_a_batch_there_is_nothing_to_skip() {
        let mut aborts = Aborts::default();
        (0..3).for_each(|_| aborts.failed(abort(7, None)));
        assert_eq!(start(&mut aborts, (7, &[]), Wish::SkipBatch), Verdict::Held);
        assert_eq!(start(&mut aborts, (7, &[]), Wish::Retry), Verdict::Starts);
        assert_eq!(start(&mut aborts, (7, &[]), Wish::SkipBatch), Verdict::StartsWithNothingToSkip);
        let none = start(&mut Aborts::default(), (0, &[]), Wish::SkipBatch);
        assert_eq!(none, Verdict::StartsWithNothingToSkip);
    }
}
