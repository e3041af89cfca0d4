//! A session that is closed: which late records are its own, what was last told of it, and when it is
//! gone.
//!
//! Invariant GC-1: it is kept as long as a record can still come for it, no longer.

use super::cut::{after, is_over};
use super::entry::{Class, Entry, place};
use super::machine::judge;
use super::outlet::{Outlet, Telling};
use super::record::Issued;
use super::rules::Rules;
use super::sessions::{Fate, Now};
use super::verdict::{Cause, Closing, Counts};
use crate::pane::Timing;
use crate::time::{EventTime, Span};
use std::cmp::Ordering;

/// A session that is closed, while late records may come for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Its records, in order. Those that came since it was last told are not marked as told.
    pub(crate) entries: Vec<Entry>,
    pub(crate) closing: Closing,
    pub(crate) issued: Issued,
    pub(crate) timing: Timing,
    /// Where the watermark may never come so far: when it is gone by the clock.
    pub(crate) gone_at: Option<Span>,
    /// Records that came for it in the round, or the cycle, that runs. Cleared at its end.
    pub(crate) late: u32,
}

impl Closed {
    /// Whether a record belongs to it: it stands between its first record and its end.
    pub(super) fn covers(&self, entry: &Entry) -> bool {
        let is_behind =
            self.entries.first().is_some_and(|first| first.order(entry) != Ordering::Greater);
        let is_before = entry.time < self.closing.at
            || self.entries.last().is_some_and(|last| entry.order(last) != Ordering::Greater);
        is_behind && is_before
    }

    /// Whether it begins before another one.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let firsts = self.entries.first().zip(other.entries.first());
        firsts.is_some_and(|(first, other)| first.order(other) == Ordering::Less)
    }

    /// Whether a record in front of it is the one that it should have begun with.
    pub(super) fn begins_with(&self, entry: &Entry, rules: &Rules) -> bool {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return false;
        };
        let is_one = !is_over((entry.time, entry.time), first.time, rules)
            && last.time.since(entry.time) < rules.spec.max_session_duration;
        entry.class != Class::End && entry.order(first) == Ordering::Less && is_one
    }

    /// What was last told of it: what the records say that it counts.
    pub(super) fn telling(&self, outlet: &Outlet<'_>) -> Option<Telling> {
        let told = || self.entries.iter().filter(|entry| entry.marks.is_told());
        let verdict = judge(told(), &outlet.frame.rules, Some(self.closing))?;
        Some(outlet.telling((&verdict, Counts::of(told())), self.issued, self.timing))
    }

    /// The watermark by which no record of it is accepted any more, late or in time: its number may
    /// have closed it before its records were to be let in.
    pub(super) fn expires_at(&self, rules: &Rules) -> EventTime {
        let end = match self.closing.cause {
            Cause::Idle | Cause::MaxAge => self.closing.at,
            // That instant is its own.
            Cause::Terminal | Cause::MaxEvents | Cause::Memory | Cause::Restart => {
                after(self.closing.at)
            }
        };
        end.later(rules.allowed_lateness.max(rules.spec.release.delay()))
    }

    pub(super) fn is_gone(&self, rules: &Rules, now: Now) -> bool {
        self.expires_at(rules) <= now.watermark.0
            || self.gone_at.is_some_and(|gone| gone <= now.active)
    }

    /// Takes a late record.
    pub(super) fn take(&mut self, entry: Entry, rules: &Rules) -> Fate {
        if self.entries.len() >= rules.spec.max_events_per_session as usize {
            return Fate::Full;
        }
        place(&mut self.entries, entry);
        self.late = self.late.saturating_add(1);
        Fate::Corrects
    }
}
