//! Where the oracle's sessions begin and end, by definition: which closed session a late record belongs
//! to, and where the first session of a list ends. Everything is looked up anew.

use super::chain::{Chain, End, Says};
use super::items::{Item, behind, distance, millis};
use super::sequences::{Closed, OfKey};
use crate::sequence::spec::{Regress, SequenceSpec};
use crate::time::EventTime;

pub(super) fn covers(closed: &Closed, item: &Item) -> bool {
    let (Some(first), Some(last)) = (closed.items.first(), closed.items.last()) else {
        return false;
    };
    item.order() >= first.order() && (item.time < closed.end.at || item.order() <= last.order())
}

/// The closed session that a late record in front of it should have begun.
pub(super) fn begun_by(of_key: &OfKey, item: &Item, spec: &SequenceSpec) -> Option<usize> {
    let is_within = |time, span| distance(item.time, time) < millis(span);
    let joins = |closed: &Closed| {
        let (Some(first), Some(last)) = (closed.items.first(), closed.items.last()) else {
            return false;
        };
        item.order() < first.order()
            && is_within(first.time, spec.idle_timeout)
            && is_within(first.time, spec.max_session_duration)
            && is_within(last.time, spec.max_session_duration)
    };
    let at = of_key.closed.iter().position(|closed| item.says != Says::End && joins(closed))?;
    let first = of_key.closed.get(at).and_then(|closed| closed.items.first());
    let is_between = |open: &Item| first.is_some_and(|first| open.order() < first.order());
    (!of_key.open.first().is_some_and(is_between)).then_some(at)
}

/// How many of `items` are the first session, and how it ends; if nothing can come to it any more.
pub(super) fn first_session(
    items: &[Item],
    spec: &SequenceSpec,
    now: EventTime,
) -> Option<(usize, End)> {
    let first = items.first()?.time;
    (1..=items.len()).find_map(|count| {
        let own = items.get(..count)?;
        let last = own.last()?;
        let is_success = || Chain::new(spec, own).connected.is_some();
        let is_success = spec.close_on_success && last.says == Says::Success && is_success();
        if last.says == Says::End || is_success {
            return Some((count, End { cause: "terminal", at: last.time }));
        }
        if count >= spec.max_events_per_session as usize {
            return Some((count, End { cause: "max_events", at: last.time }));
        }
        let (idle, longest) = (spec.idle_timeout, spec.max_session_duration);
        let end = if distance(first, last.time) + millis(idle) <= millis(longest) {
            End { cause: "idle", at: behind(last.time, idle) }
        } else {
            End { cause: "max_age", at: behind(first, longest) }
        };
        let over = |next: &Item| {
            distance(last.time, next.time) >= millis(idle)
                || distance(first, next.time) >= millis(longest)
        };
        let begins = |next: &&Item| {
            spec.regress == Regress::Session && !over(next) && Chain::new(spec, own).goes_back(next)
        };
        if let Some(next) = items.get(count).filter(begins) {
            return Some((count, End { cause: "restart", at: next.time }));
        }
        let is_over = match items.get(count) {
            Some(next) => over(next),
            None => end.at <= now,
        };
        is_over.then_some((count, end))
    })
}
