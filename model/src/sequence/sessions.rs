//! The sessions of one key: the one that goes on, with what waits behind it, and those that are
//! closed but may still be corrected. Pure.
//!
//! A session has its name from one of its records, the first as it was told first, and keeps it; a
//! record is of one session, and its copies are told wherever it stands: so no name is given twice.
//! All records that are not of a closed session stand in one list, in order. Its beginning has been
//! let in; where that holds a whole session, the session is cut off and told. A record that comes
//! late goes to the closed session that covers it, else to that list: the cut is then made anew, so
//! that it ends up where it would have stood in time. Closed sessions are neither merged nor cut.

use super::closed::Closed;
use super::cut::{Cut, cut, next_end, sooner};
use super::entry::{Entry, join, place};
use super::machine::judge;
use super::outlet::{Outlet, Telling};
use super::rules::Rules;
use super::spec::{OutputTime, Release};
use super::verdict::{Cause, Closing, Counts, Outcome};
use crate::pane::Timing;
use crate::time::{EventTime, Span, Watermark};
use std::cmp::Ordering;
use std::ops::Range;

/// How far things have come for a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) watermark: Watermark,
    /// What the stage has promised: what counts before it is late.
    pub(crate) output: Watermark,
    /// The time for which the clock has run, see [`super::table`].
    pub(crate) active: Span,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stands in its place.
    InTime,
    /// It stands in its place, but came late.
    Late,
    /// It came late for a session that was told: once that is asked, it shows whether it changes anything.
    Corrects,
    /// A copy of it stands there already.
    Copy,
    /// It came too late.
    Expired,
    /// Its session has as many records as it may have.
    Full,
}

/// What became of records that came late for sessions that were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Corrected {
    /// Their sessions were told anew.
    pub(crate) told: u64,
    /// They changed nothing.
    pub(crate) without_effect: u64,
}

/// The sessions of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sessions {
    /// The session that goes on and whatever waits behind it, in order.
    pub(crate) entries: Vec<Entry>,
    /// How many of these the clock, or their number, has let in before the watermark did.
    pub(crate) released: usize,
    /// What was last told of the session that goes on: the one with the record that names it.
    pub(crate) early: Option<Box<Telling>>,
    /// Closed sessions, in the order of their first records. Left when they are gone.
    pub(crate) closed: Vec<Closed>,
    /// When the last record came.
    pub(crate) seen: Span,
    /// Since when a record waits to be let in, where the clock lets in.
    pub(crate) waits_since: Option<Span>,
}

impl Sessions {
    /// Whether nothing is kept.
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.closed.is_empty()
    }

    /// Records kept.
    pub(crate) fn records(&self) -> usize {
        self.entries.len() + self.closed.iter().map(|closed| closed.entries.len()).sum::<usize>()
    }

    /// Takes a record.
    pub(crate) fn take(&mut self, mut entry: Entry, rules: &Rules, now: Now) -> Fate {
        let covering = self.closed.iter().position(|closed| closed.covers(&entry));
        let is_late = covering.is_some() || self.is_behind(&entry, rules, now);
        if is_late && rules.is_expired(entry.time, now.watermark) {
            return Fate::Expired;
        }
        self.seen = now.active;
        if is_late {
            entry.marks.set_late();
        }
        let kept = self.closed.iter_mut().map(|closed| &mut closed.entries);
        if kept.chain([&mut self.entries]).any(|entries| join(entries, &entry)) {
            return Fate::Copy;
        }
        let begins = || {
            let mut closed = self.closed.iter();
            let index = closed.position(|closed| closed.begins_with(&entry, rules))?;
            // Unless another one that goes on stands between.
            let between = self.entries.first().is_some_and(|open| {
                let first = self.closed.get(index).and_then(|closed| closed.entries.first());
                first.is_some_and(|first| open.order(first) == Ordering::Less)
            });
            (!between).then_some(index)
        };
        let target = if is_late { covering.or_else(begins) } else { None };
        match target.and_then(|index| self.closed.get_mut(index)) {
            Some(closed) => closed.take(entry, rules),
            None => {
                self.wait(entry);
                if is_late { Fate::Late } else { Fate::InTime }
            }
        }
    }

    /// Whether a record stands before one that has been let in.
    fn is_behind(&self, entry: &Entry, rules: &Rules, now: Now) -> bool {
        if entry.time < rules.released(now.watermark) {
            return true;
        }
        let let_in = self.released.checked_sub(1).and_then(|index| self.entries.get(index));
        let closed = self.closed.iter().filter_map(|closed| closed.entries.last());
        let_in.into_iter().chain(closed).any(|last| entry.order(last) == Ordering::Less)
    }

    /// Puts a record among those that go on.
    fn wait(&mut self, entry: Entry) {
        if place(&mut self.entries, entry) < self.released {
            self.released += 1;
        }
    }

    /// Lets in all that waits: by the clock, or since there is too much of it.
    pub(crate) fn release_all(&mut self) {
        self.released = self.entries.len();
        self.waits_since = None;
    }

    /// Closes what is over, corrects what was told, and forgets what is gone.
    pub(crate) fn settle(&mut self, now: Now, outlet: &mut Outlet<'_>) -> Corrected {
        let rules = &outlet.frame.rules;
        let until = rules.released(now.watermark);
        self.close_until(until, now, outlet);
        let corrected = self.correct(now, outlet);
        let rules = &outlet.frame.rules;
        if rules.spec.release.is_early() {
            self.tell_early(until, outlet);
        }
        self.closed.retain(|closed| !closed.is_gone(&outlet.frame.rules, now));
        corrected
    }

    /// Closes sessions of which nothing can come before `until`.
    fn close_until(&mut self, until: EventTime, now: Now, outlet: &mut Outlet<'_>) {
        let passed = outlet.frame.rules.released(now.watermark);
        loop {
            let is_in = |entry: &Entry| entry.time < passed || passed == EventTime::MAX;
            let let_in = self.entries.partition_point(is_in);
            self.released = self.released.max(let_in).min(self.entries.len());
            let let_in = self.entries.get(..self.released).unwrap_or_default();
            let Some(cut) = cut(let_in, &outlet.frame.rules, until) else { break };
            let is_passed = match cut.closing.cause {
                Cause::Idle | Cause::MaxAge => cut.closing.at <= passed,
                Cause::Terminal | Cause::MaxEvents | Cause::Memory | Cause::Restart => {
                    cut.closing.at < passed || passed == EventTime::MAX
                }
            };
            self.close(cut, is_passed, now, outlet);
        }
    }

    /// Nothing has come for too long by the clock: closes all.
    pub(crate) fn time_out(&mut self, now: Now, outlet: &mut Outlet<'_>) {
        self.release_all();
        self.close_until(EventTime::MAX, now, outlet);
    }

    /// There is no room: closes all, corrects what is to be, and forgets it.
    pub(crate) fn evict(&mut self, now: Now, outlet: &mut Outlet<'_>) -> Corrected {
        self.release_all();
        let until = outlet.frame.rules.released(now.watermark);
        self.close_until(until, now, outlet);
        if let Some(last) = self.entries.last() {
            let closing = Closing { cause: Cause::Memory, at: last.time.max(until) };
            let cut = Cut { records: self.entries.len(), closing };
            self.close(cut, true, now, outlet);
        }
        let corrected = self.correct(now, outlet);
        *self = Self { seen: self.seen, ..Self::default() };
        corrected
    }

    /// Cuts off the first session, and tells it; `is_passed` says whether the watermark has passed
    /// its end.
    fn close(&mut self, cut: Cut, is_passed: bool, now: Now, outlet: &mut Outlet<'_>) {
        let rules = &outlet.frame.rules;
        let gone_at = rules.forgotten_at(now.active, is_passed);
        let own = self.entries.get(..cut.records).unwrap_or_default();
        let (Some(first), Some(verdict)) =
            (own.first(), judge(own.iter(), rules, Some(cut.closing)))
        else {
            return;
        };
        let is_early = own.iter().any(|entry| entry.marks.names());
        let old = if is_early { self.early.take() } else { None };
        let issued = match &old {
            Some(old) => old.issued.again(),
            None => outlet.issue(
                first,
                match rules.spec.output_time {
                    OutputTime::First => first.time,
                    OutputTime::Close => cut.closing.at,
                },
            ),
        };
        let counts = Counts::of(own.iter());
        let mut entries = if cut.records == self.entries.len() {
            std::mem::take(&mut self.entries)
        } else {
            self.entries.drain(..cut.records).collect()
        };
        self.released = self.released.saturating_sub(cut.records);
        for entry in &mut entries {
            entry.marks.set_told();
        }
        let timing = match is_passed {
            _ if issued.time < now.output.0 => Timing::Late,
            true => Timing::OnTime,
            false => Timing::TimedOut,
        };
        let closed = Closed { entries, closing: cut.closing, issued, timing, gone_at, late: 0 };
        let is_kept = cut.closing.cause != Cause::Memory && !closed.is_gone(rules, now);
        let new = outlet.telling((&verdict, counts), issued, timing);
        outlet.tell(old.as_deref(), &new, !is_kept);
        if is_kept {
            let place = self.closed.partition_point(|known| !closed.is_before(known));
            self.closed.insert(place, closed);
        }
    }

    /// Where the session stands that is told before it is closed, and how it is cut if it is over:
    /// the first one; but once something was told, the one with the record that has named it.
    fn told_early(&self, rules: &Rules, until: EventTime) -> (Range<usize>, Option<Cut>) {
        let names = |entry: &Entry| entry.marks.names();
        let wanted = self.entries.iter().position(names).unwrap_or(0);
        let mut start = 0;
        loop {
            let rest = self.entries.get(start..).unwrap_or_default();
            match cut(rest, rules, until) {
                Some(cut) if start + cut.records <= wanted => start += cut.records,
                found => {
                    let records = found.map_or(rest.len(), |cut| cut.records);
                    return (start..start + records, found);
                }
            }
        }
    }

    /// Tells how the session that goes on stands, if that has changed.
    fn tell_early(&mut self, until: EventTime, outlet: &mut Outlet<'_>) {
        let rules = &outlet.frame.rules;
        let (place, found) = self.told_early(rules, until);
        let own = self.entries.get(place.clone()).unwrap_or_default();
        let (Some(first), Some(verdict)) = (own.first(), judge(own.iter(), rules, None)) else {
            return;
        };
        let is_terminal = found.is_some_and(|cut| cut.closing.cause == Cause::Terminal);
        let is_wanted = match rules.spec.release {
            Release::OnTerminal => {
                self.early.is_some() || is_terminal || verdict.outcome == Outcome::Connected
            }
            Release::Eager => true,
            Release::Watermark | Release::WatermarkPlus(_) | Release::BoundedWait(_) => false,
        };
        if !is_wanted {
            return;
        }
        let issued = match &self.early {
            Some(old) => old.issued.again(),
            None => outlet.issue(first, first.time),
        };
        let new = outlet.telling((&verdict, Counts::of(own.iter())), issued, Timing::Early);
        match &self.early {
            Some(old) if outlet.frame.writer.is_same(&old.values, &new.values) => return,
            Some(_) => {}
            None => {
                if let Some(first) = self.entries.get_mut(place.start) {
                    first.marks.set_names();
                }
            }
        }
        outlet.tell(self.early.as_deref(), &new, false);
        self.early = Some(Box::new(new));
    }

    /// Tells anew of closed sessions that late records have changed.
    fn correct(&mut self, now: Now, outlet: &mut Outlet<'_>) -> Corrected {
        let mut corrected = Corrected::default();
        let rules = &outlet.frame.rules;
        for closed in self.closed.iter_mut().filter(|closed| closed.late > 0) {
            let late = u64::from(std::mem::take(&mut closed.late));
            let old = closed.telling(outlet);
            closed.closing = sooner(&closed.entries, rules, closed.closing);
            let verdict = judge(closed.entries.iter(), rules, Some(closed.closing));
            let (Some(old), Some(verdict)) = (old, verdict) else { continue };
            let counts = Counts::of(closed.entries.iter());
            let new = outlet.telling((&verdict, counts), closed.issued.again(), Timing::Late);
            if outlet.frame.writer.is_same(&old.values, &new.values) {
                corrected.without_effect += late;
                continue;
            }
            corrected.told += late;
            (closed.issued, closed.timing) = (new.issued, new.timing);
            for entry in &mut closed.entries {
                entry.marks.set_told();
            }
            outlet.tell(Some(&old), &new, closed.is_gone(rules, now));
        }
        corrected
    }

    /// The first watermark at which something must be looked at.
    pub(crate) fn next_deadline(&self, rules: &Rules, now: Now) -> Option<EventTime> {
        let delay = rules.spec.release.delay();
        let end = next_end(&self.entries, rules, rules.released(now.watermark));
        let end = end.map(|end| end.later(delay));
        self.closed.iter().map(|closed| closed.expires_at(rules)).chain(end).min()
    }

    /// The first time by the clock at which something must be looked at; `is_timed` says whether
    /// the clock counts.
    pub(crate) fn next_tick(&self, rules: &Rules) -> Option<Span> {
        let waits = self.waits_since.zip(rules.wait_max());
        let waits = waits.map(|(since, wait)| since.saturating_add(wait));
        let idle = self.idle_tick(rules);
        let gone = self.closed.iter().filter_map(|closed| closed.gone_at);
        gone.chain(waits).chain(idle).min()
    }

    /// When the clock closes what goes on.
    pub(crate) fn idle_tick(&self, rules: &Rules) -> Option<Span> {
        let idle = rules.spec.idle_timeout_processing.filter(|_| !self.entries.is_empty());
        idle.map(|idle| self.seen.saturating_add(idle))
    }

    /// Since when something goes on: where sessions count at their beginning, the stage's output
    /// watermark must not pass it.
    pub(crate) fn hold(&self) -> Option<EventTime> {
        let first = self.entries.first().map(|first| first.time);
        let told = self.early.as_ref().map(|told| told.issued.first);
        first.into_iter().chain(told).min()
    }
}
