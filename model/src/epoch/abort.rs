//! Decides whether a node may start where nodes before it have come to a bad end.
//!
//! A node that fails at the same place again and again helps nobody: behind the third time it starts
//! held, and somebody has to say what is to become of it. A failure is behind a node as soon as it
//! has stored an epoch that lies beyond the place where it failed. Nothing is counted of a node that
//! was killed: that says nothing about its input.

use super::Epoch;
use serde::{Deserialize, Serialize};

/// Records of a partition that were taken in together, by their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    /// Number of the partition.
    pub partition: u32,
    /// The first of them.
    pub from: u64,
    /// Behind the last of them.
    pub to: u64,
}

impl BatchPlace {
    /// Whether a record of its partition lies in it.
    pub const fn has(&self, offset: u64) -> bool {
        self.from <= offset && offset < self.to
    }
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
    /// It has failed too often, and not while it took in a batch that could be left out.
    HeldWithNothingToSkip,
}

/// What is stored, to hold failures against.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The last durable epoch.
    pub epoch: Epoch,
    /// By partition, how many records were read before it.
    pub records: &'a [u64],
}

impl Stored<'_> {
    fn has_passed(&self, place: &BatchPlace) -> bool {
        self.records.get(place.partition as usize).is_some_and(|read| *read >= place.to)
    }
}

/// What is remembered of failures, and what is left out for them. Outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Aborts {
    /// How often it has failed in a row.
    count: u32,
    last: Option<Abort>,
    /// What is left out, until an epoch beyond it is stored.
    skipped: Vec<BatchPlace>,
}

impl Aborts {
    /// A node that has failed so often in a row, without having come further, starts held.
    pub const MAX: u32 = 3;

    /// How often it has failed in a row.
    pub const fn count(&self) -> u32 {
        self.count
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
        let is_behind = self.last.as_ref().is_none_or(|last| match &last.place {
            Some(place) => stored.has_passed(place),
            None => stored.epoch > last.epoch,
        });
        if is_behind {
            (self.count, self.last) = (0, None);
        }
        let is_held = self.count >= Self::MAX;
        let place = self.last.as_ref().and_then(|last| last.place);
        match (wish, place) {
            (Wish::Start, _) if is_held => Verdict::Held,
            (Wish::Start, _) => Verdict::Starts,
            (Wish::Retry, _) => {
                self.count = 0;
                Verdict::Starts
            }
            (Wish::SkipBatch, Some(place)) => {
                self.skipped.push(place);
                (self.count, self.last) = (0, None);
                Verdict::Starts
            }
            (Wish::SkipBatch, None) if is_held => Verdict::HeldWithNothingToSkip,
            (Wish::SkipBatch, None) => Verdict::StartsWithNothingToSkip,
        }
    }

    /// A node has come to a bad end.
    pub fn failed(&mut self, abort: Abort) {
        self.count = self.count.saturating_add(1);
        self.last = Some(abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: BatchPlace = BatchPlace { partition: 1, from: 40, to: 50 };

    fn abort(epoch: u64, place: Option<BatchPlace>) -> Abort {
        Abort { epoch: Epoch::from_number(epoch), place, error: "no".into() }
    }

    /// A start behind an epoch, where so many records of the partition are stored.
    fn start(aborts: &mut Aborts, (epoch, records): (u64, u64), wish: Wish) -> Verdict {
        let stored = Stored { epoch: Epoch::from_number(epoch), records: &[0, records] };
        aborts.start(stored, wish)
    }

    fn failed(times: u32, place: Option<BatchPlace>) -> Aborts {
        let mut aborts = Aborts::default();
        for _ in 0..times {
            aborts.failed(abort(7, place));
        }
        aborts
    }

    #[test]
    fn the_start_behind_the_third_failure_at_one_place_is_held() {
        for (times, stored, place, verdict) in [
            (0, (7, 40), None, Verdict::Starts),
            (2, (7, 40), Some(PLACE), Verdict::Starts),
            (3, (7, 40), Some(PLACE), Verdict::Held),
            // Epochs that come nearer do not lie beyond it.
            (3, (9, 49), Some(PLACE), Verdict::Held),
            (3, (9, 50), Some(PLACE), Verdict::Starts),
            (3, (7, 40), None, Verdict::Held),
            (3, (8, 40), None, Verdict::Starts),
            // A partition that is not known any more.
            (3, (7, 99), Some(BatchPlace { partition: 9, ..PLACE }), Verdict::Held),
        ] {
            let mut aborts = failed(times, place);
            assert_eq!(start(&mut aborts, stored, Wish::Start), verdict, "{times} {stored:?}");
            let is_behind = verdict == Verdict::Starts && times > 2;
            assert_eq!(aborts.count(), if is_behind { 0 } else { times });
        }
    }

    #[test]
    fn a_retry_counts_anew() {
        let mut aborts = failed(3, Some(PLACE));
        assert_eq!(start(&mut aborts, (7, 40), Wish::Retry), Verdict::Starts);
        assert_eq!((aborts.count(), aborts.last().is_some()), (0, true));
        aborts.failed(abort(7, Some(PLACE)));
        assert_eq!(start(&mut aborts, (7, 40), Wish::Start), Verdict::Starts);
        assert!(aborts.skipped().is_empty());
    }

    #[test]
    fn what_is_skipped_stays_so_until_it_is_stored() {
        let mut aborts = failed(1, Some(PLACE));
        assert_eq!(start(&mut aborts, (7, 40), Wish::SkipBatch), Verdict::Starts);
        assert_eq!((aborts.skipped(), aborts.count()), (&[PLACE][..], 0));
        // Killed on the way, and asked again: it is skipped once.
        for _ in 0..2 {
            let verdict = start(&mut aborts, (8, 45), Wish::SkipBatch);
            assert_eq!(verdict, Verdict::StartsWithNothingToSkip);
            assert_eq!(aborts.skipped(), [PLACE]);
        }
        assert!(PLACE.has(40) && PLACE.has(49) && !PLACE.has(50) && !PLACE.has(39));
        // The next one fails, too.
        let next = BatchPlace { from: 50, to: 60, ..PLACE };
        aborts.failed(abort(8, Some(next)));
        assert_eq!(start(&mut aborts, (8, 45), Wish::SkipBatch), Verdict::Starts);
        assert_eq!(aborts.skipped(), [PLACE, next]);
        assert_eq!(start(&mut aborts, (9, 50), Wish::Start), Verdict::Starts);
        assert_eq!(aborts.skipped(), [next]);
        assert_eq!(start(&mut aborts, (9, 60), Wish::Start), Verdict::Starts);
        assert_eq!(aborts, Aborts::default());
    }

    #[test]
    fn without_a_batch_there_is_nothing_to_skip() {
        let mut aborts = failed(3, None);
        assert_eq!(start(&mut aborts, (7, 40), Wish::SkipBatch), Verdict::HeldWithNothingToSkip);
        assert_eq!(start(&mut aborts, (7, 40), Wish::Retry), Verdict::Starts);
        assert_eq!(start(&mut aborts, (7, 40), Wish::SkipBatch), Verdict::StartsWithNothingToSkip);
        let none = start(&mut Aborts::default(), (0, 0), Wish::SkipBatch);
        assert_eq!(none, Verdict::StartsWithNothingToSkip);
    }
}
