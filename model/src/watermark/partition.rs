//! What is known of one partition, and whether it holds the watermark back.
//!
//! Silence is measured by ticks, and only while the reader stands at the end of what there is: a
//! reader that waits for credits, or for its turn, is not silent, nor is one that nobody let read
//! because the process did not run. States move as follows and in no other way:
//!
//! ```text
//! Active ---- at its end, silent for idle_after ---> Idle
//! Idle   ---- records, or a position below the end -> Active, if it never gave any before;
//!                                                     else CatchingUp
//! Idle   ---- nobody has looked for idle_after, or
//!             could look ---------------------------> Active, until silent again
//! CatchingUp - has reached the watermark, or its end -> Active; silent again -> Idle
//! any    ---- ended --------------------------------> Finished; said to be idle -> Idle
//! Finished -- restored, with an end of its own ------> Idle, until it says that it has ended
//! ```

use super::passed::Passed;
use crate::time::{EventTime, Span, Watermark};
use serde::{Deserialize, Serialize};

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Below the end of what there is.
    Behind,
    /// It could not look for what there is, and has not read yet all that came meanwhile.
    Unseen,
    /// Nobody reads it now: it stays what it was.
    Away,
    /// At the end of what there is; more may come.
    AtEnd,
    /// It may not read on: what it has read before has not been handled.
    Blocked,
    /// It has ended, and no record can follow: the partition then promises everything.
    Finished,
}

/// What a source reports of one of its partitions, behind the batch that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of the partition, counted over all sources.
    pub partition: u32,
    /// Its estimate.
    pub watermark: Watermark,
    /// Its second watermarks, in the order of the pipeline's shares.
    pub shares: Vec<Watermark>,
    /// The largest event time that it has come to.
    pub head: EventTime,
    /// Where its reader stands.
    pub reader: Reader,
    /// Whether records came since the last report.
    pub has_records: bool,
}

/// What holds for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionState {
    /// It holds the watermark back.
    Active,
    /// It is at its end and silent: it does not count until it has caught up again.
    Idle,
    /// Idle, but records have come again: it counts as soon as it has reached the watermark or
    /// the end of its backlog.
    CatchingUp,
    /// It has ended.
    Finished,
}

impl PartitionState {
    /// The name for people: `active`, `idle`, `catching up` or `finished`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::CatchingUp => "catching up",
            Self::Finished => "finished",
        }
    }
}

/// One partition, as the coordinator knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Partition {
    pub(crate) idle_after: Option<Span>,
    pub(crate) state: PartitionState,
    /// Its estimate. Grows only (WM-1).
    pub(crate) watermark: Watermark,
    /// Its second watermarks. Grow only (WM-1).
    pub(crate) shares: Vec<Watermark>,
    pub(crate) head: EventTime,
    /// Whether it has ever given a record.
    has_spoken: bool,
    /// Whether it is at its end, so that time which passes is silence. After a restart nobody
    /// knows before it reports.
    #[serde(skip)]
    pub(crate) is_at_end: bool,
    /// Whether it has said anything in this process: before that it may have whatever came while
    /// there was none.
    #[serde(skip)]
    pub(crate) is_heard: bool,
    /// How long it has been at its end without a record. Cleared by a record.
    pub(crate) silent: Span,
}

impl Partition {
    /// One that has said nothing; until it has, or is known to be idle, it promises nothing.
    pub(crate) fn unheard(idle_after: Option<Span>, shares: usize) -> Self {
        Self {
            idle_after,
            state: PartitionState::Active,
            watermark: Watermark::MIN,
            shares: vec![Watermark::MIN; shares],
            head: EventTime::MIN,
            has_spoken: false,
            is_at_end: false,
            is_heard: false,
            silent: Span::ZERO,
        }
    }

    /// Goes on where `stored` was, with these second watermarks.
    pub(crate) fn restore(&mut self, stored: &Self, shares: Vec<Watermark>) {
        *self = Self { idle_after: self.idle_after, shares, ..stored.clone() };
    }

    /// It may be read on, if it had ended.
    pub(crate) fn reopen(&mut self) {
        if self.state == PartitionState::Finished {
            self.state = PartitionState::Idle;
        }
    }

    /// Takes a report, where the pipeline's watermark is `given`.
    pub(crate) fn report(&mut self, report: &Progress, given: Watermark) {
        if self.state == PartitionState::Finished {
            return;
        }
        self.is_heard = true;
        self.promise(report.watermark, &report.shares);
        self.head = self.head.max(report.head);
        self.is_at_end = report.reader == Reader::AtEnd;
        match report.reader {
            Reader::Finished => {
                self.state = PartitionState::Finished;
                return;
            }
            Reader::Behind => self.wake(),
            Reader::Unseen => self.wait_for(),
            Reader::AtEnd | Reader::Away | Reader::Blocked if report.has_records => self.wake(),
            Reader::AtEnd | Reader::Away | Reader::Blocked => {}
        }
        self.has_spoken |= report.has_records;
        let has_caught_up = self.watermark >= given || self.is_at_end;
        if self.state == PartitionState::CatchingUp && has_caught_up {
            self.state = PartitionState::Active;
        }
    }

    /// Takes notice that it has records at hand which wait for their turn; it promises `watermark`
    /// in front of them.
    pub(crate) fn wait(&mut self, watermark: Watermark, given: Watermark) {
        self.promise(watermark, &[]);
        self.is_at_end = false;
        self.is_heard = true;
        self.wake();
        self.has_spoken = true;
        if self.state == PartitionState::CatchingUp && self.watermark >= given {
            self.state = PartitionState::Active;
        }
    }

    /// Time has passed; it is idle if it was silent for too long. Returns whether nobody has looked
    /// at it for so long.
    pub(super) fn pass(&mut self, passed: Passed) -> bool {
        if passed.is_unseen(self.idle_after) {
            // It may have what has come meanwhile, and so may all others.
            self.wait_for();
            return true;
        }
        if !self.is_at_end {
            return false;
        }
        self.silent = self.silent.saturating_add(passed.seen);
        let may_rest = match self.state {
            PartitionState::Active | PartitionState::CatchingUp => true,
            PartitionState::Idle | PartitionState::Finished => false,
        };
        if may_rest && self.idle_after.is_some_and(|limit| self.silent >= limit) {
            self.state = PartitionState::Idle;
        }
        false
    }

    /// It is known to be idle.
    pub(crate) fn rest(&mut self) {
        self.is_heard = true;
        if self.state != PartitionState::Finished {
            self.state = PartitionState::Idle;
        }
    }

    fn promise(&mut self, watermark: Watermark, shares: &[Watermark]) {
        self.watermark = self.watermark.max(watermark);
        for (known, share) in self.shares.iter_mut().zip(shares) {
            *known = (*share).max(*known);
        }
    }

    /// Nobody has looked for what it has: its silence begins anew, and it is waited for.
    fn wait_for(&mut self) {
        self.silent = Span::ZERO;
        if self.state == PartitionState::Idle {
            self.state = PartitionState::Active;
        }
    }

    /// It has something to give: its silence is over.
    fn wake(&mut self) {
        self.silent = Span::ZERO;
        if self.state == PartitionState::Idle {
            // What it has may be anything, if nobody has ever seen any of it: it counts at once.
            self.state =
                if self.has_spoken { PartitionState::CatchingUp } else { PartitionState::Active };
        }
    }
}
