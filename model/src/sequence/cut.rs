//! Where sessions end: the records of a key, in order, cut by time, number and what they say.
//!
//! Facts in, decision out. The cut depends on the records in their order alone, and on how far it
//! is certain that nothing comes between them; so it is the same in whatever order they came.

use super::entry::{Class, Entry};
use super::machine::Machine;
use super::rules::Rules;
use super::spec::Regress;
use super::verdict::{Cause, Closing};
use crate::time::EventTime;

/// The first session of a key's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// How many of the records are its own.
    pub(crate) records: usize,
    pub(crate) closing: Closing,
}

/// When a session with these first and last records ends by itself: nothing came for too long, or
/// it lasted too long. Never behind the end of time, where all sessions end.
pub(crate) fn end_of(first: EventTime, last: EventTime, rules: &Rules) -> Closing {
    let (idle, longest) = (rules.spec.idle_timeout, rules.spec.max_session_duration);
    if last.since(first).saturating_add(idle) <= longest {
        Closing { cause: Cause::Idle, at: last.later(idle) }
    } else {
        Closing { cause: Cause::MaxAge, at: first.later(longest) }
    }
}

/// Whether a record at `next` comes when a session with these first and last records is over. Told
/// by distances, which hold at the end of time as well.
pub(crate) fn is_over(
    (first, last): (EventTime, EventTime),
    next: EventTime,
    rules: &Rules,
) -> bool {
    next.since(last) >= rules.spec.idle_timeout
        || next.since(first) >= rules.spec.max_session_duration
}

/// The first session of `entries`, which have been let in, if it is over by `now`: no record before
/// that instant is still to come.
pub(crate) fn cut(entries: &[Entry], rules: &Rules, now: EventTime) -> Option<Cut> {
    let first = entries.first()?.time;
    let spec = &rules.spec;
    let mut machine = spec.is_cut_by_chain().then(|| Machine::new(rules));
    let mut last = first;
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 && is_over((first, last), entry.time, rules) {
            return Some(Cut { records: number, closing: end_of(first, last, rules) });
        }
        let goes_back =
            |machine: &Machine| spec.regress == Regress::Session && machine.goes_back(entry, rules);
        if machine.as_ref().is_some_and(goes_back) {
            let closing = Closing { cause: Cause::Restart, at: entry.time };
            return Some(Cut { records: number, closing });
        }
        last = entry.time;
        let records = number + 1;
        let here = |cause| Some(Cut { records, closing: Closing { cause, at: entry.time } });
        if entry.class == Class::End {
            return here(Cause::Terminal);
        }
        if let Some(machine) = &mut machine {
            machine.take(entry, rules);
            if spec.close_on_success && machine.is_complete() {
                return here(Cause::Terminal);
            }
        }
        if records >= rules.spec.max_events_per_session as usize {
            return here(Cause::MaxEvents);
        }
    }
    let end = end_of(first, last, rules);
    (end.at <= now).then_some(Cut { records: entries.len(), closing: end })
}

/// How a session ends that was closed with `closing`, now that a late record has come to `entries`:
/// sooner if it is the last one and ends it, else as it was.
pub(crate) fn sooner(entries: &[Entry], rules: &Rules, closing: Closing) -> Closing {
    let found = cut(entries, rules, closing.at).filter(|cut| cut.records == entries.len());
    found.map(|cut| cut.closing).filter(|found| found.at < closing.at).unwrap_or(closing)
}

/// When it must be asked again whether a session of `entries` is over, given that none is by `now`:
/// the first instant by which one can be.
pub(crate) fn next_end(entries: &[Entry], rules: &Rules, now: EventTime) -> Option<EventTime> {
    let first = entries.first()?.time;
    let mut last = first;
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 && is_over((first, last), entry.time, rules) {
            break;
        }
        last = entry.time;
        let may_close =
            rules.may_close(entry) || number + 1 >= rules.spec.max_events_per_session as usize;
        if may_close && entry.time >= now {
            // When it is let in.
            return Some(after(entry.time));
        }
    }
    Some(end_of(first, last, rules).at)
}

/// The first instant behind `time`.
pub(crate) const fn after(time: EventTime) -> EventTime {
    time.later(crate::time::Span::from_millis(1))
}
