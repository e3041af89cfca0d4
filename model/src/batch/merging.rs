//! Windows that depend on each other, by definition: what is known of a key is the list of its
//! records, and its windows are found anew by sorting them in time and sweeping over them.
//!
//! Nothing here is shared with the engine's way of merging: no open windows, no parts, no triggers.
//! Sessions whose time has come are set aside with their records; a record that comes is swept
//! together with those that are left, and dropped if that puts it where nothing is kept any more.
//! A custom function is defined by what it makes of all windows when a record comes, so it is asked
//! then; a record only knows the window that it is in.

use super::KeyValues;
use super::total::Inputs;
use crate::custom::Custom;
use crate::plan::Grouping;
use crate::time::{EventTime, Span, Watermark, Window};
use crate::value::Value;
use crate::window::{Touching, WindowFn};
use std::collections::BTreeMap;

/// A record of one key: the window that it makes by itself and the one that it is in.
#[derive(Debug, Clone)]
struct Member {
    own: Window,
    window: Window,
    time: EventTime,
    values: Vec<Option<Value>>,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// Nothing is kept of where it belongs.
    Expired,
    /// With it, windows would become one of which nothing is kept.
    Refused,
}

/// The records of a grouping whose windows merge.
#[derive(Debug, Clone)]
pub(super) struct Merged<'a> {
    grouping: &'a Grouping,
    kept: BTreeMap<KeyValues, Vec<Member>>,
    /// Records of windows that have expired.
    done: BTreeMap<(KeyValues, Window), Inputs>,
}

impl<'a> Merged<'a> {
    pub(super) const fn new(grouping: &'a Grouping) -> Self {
        Self { grouping, kept: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// Takes a record that makes the window `own` by itself.
    pub(super) fn take(
        &mut self,
        key: &KeyValues,
        (own, time): (Window, EventTime),
        values: Vec<Option<Value>>,
        watermark: Watermark,
    ) -> Fate {
        let known = self.kept.get(key).map_or(&[][..], Vec::as_slice);
        let mut members = known.to_vec();
        members.push(Member { own, window: own, time, values });
        match self.grouping.window {
            WindowFn::Session { max_duration, touching, .. } => {
                sweep(&mut members, max_duration, touching);
            }
            WindowFn::Custom(custom) => ask(&mut members, custom),
            WindowFn::Global
            | WindowFn::Fixed { .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Calendar(_) => {}
        }
        let is_gone = |window: Window| expires_at(self.grouping, window) <= watermark.0;
        if let Some((new, others)) = members.split_last() {
            let is_alone = others.iter().all(|member| member.window != new.window);
            if is_alone && is_gone(new.window) {
                return Fate::Expired;
            }
            if members.iter().any(|member| is_gone(member.window)) {
                return Fate::Refused;
            }
        }
        self.kept.insert(key.clone(), members);
        Fate::Taken
    }

    /// Sets aside what `watermark` lets go.
    pub(super) fn expire(&mut self, watermark: Watermark) {
        for (key, members) in &mut self.kept {
            let is_gone =
                |member: &mut Member| expires_at(self.grouping, member.window) <= watermark.0;
            for member in members.extract_if(.., is_gone) {
                let inputs = self.done.entry((key.clone(), member.window)).or_default();
                inputs.add(member.time, member.values);
            }
        }
    }

    /// All records, by key and window.
    pub(super) fn finish(mut self) -> BTreeMap<(KeyValues, Window), Inputs> {
        self.expire(Watermark::MAX);
        self.done
    }
}

/// When nothing of a window is kept any more.
fn expires_at(grouping: &Grouping, window: Window) -> EventTime {
    let complete = match grouping.window {
        // A record at the very end would still join.
        WindowFn::Session { touching: Touching::Merge, .. } => {
            window.end().saturating_add(Span::from_millis(1))
        }
        WindowFn::Session { touching: Touching::Separate, .. }
        | WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Calendar(_)
        | WindowFn::Custom(_) => window.end(),
    };
    complete.saturating_add(grouping.allowed_lateness)
}

/// Finds the sessions of records: in the order of their starts each joins the one before, or begins
/// the next.
fn sweep(members: &mut [Member], max_duration: Option<Span>, touching: Touching) {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| members.get(*index).map(|member| member.own));
    let block =
        |window: Window| max_duration.map(|longest| Window::fixed(window.start(), longest, 0));
    let mut sessions: Vec<(Window, Vec<usize>)> = Vec::new();
    for index in order {
        let Some(own) = members.get(index).map(|member| member.own) else { continue };
        if let Some((session, inside)) = sessions.last_mut() {
            let meets = own == *session
                || match touching {
                    Touching::Merge => own.start() <= session.end(),
                    Touching::Separate => own.start() < session.end(),
                };
            if meets && block(*session) == block(own) {
                *session = Window::new(session.start(), session.end().max(own.end()));
                inside.push(index);
                continue;
            }
        }
        sessions.push((own, vec![index]));
    }
    for (session, inside) in sessions {
        for index in inside {
            if let Some(member) = members.get_mut(index) {
                member.window = session;
            }
        }
    }
}

/// Asks a custom function what becomes of the windows that records are in.
fn ask(members: &mut [Member], custom: Custom) {
    let mut before: Vec<_> = members.iter().map(|member| member.window).collect();
    before.sort_unstable();
    before.dedup();
    let mut after = before.clone();
    custom.0.merge(&mut after);
    let becomes: BTreeMap<_, _> = before.into_iter().zip(after).collect();
    for member in members {
        member.window = becomes.get(&member.window).copied().unwrap_or(member.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Window {
        Window::new(EventTime::from_millis(start), EventTime::from_millis(end))
    }

    /// The sessions that records with these windows make, by record.
    fn swept(owns: &[(i64, i64)], longest: Option<i64>, touching: Touching) -> Vec<(i64, i64)> {
        let member = |(start, end): &(i64, i64)| {
            let (own, time) = (window(*start, *end), EventTime::from_millis(*start));
            Member { own, window: own, time, values: Vec::new() }
        };
        let mut members: Vec<_> = owns.iter().map(member).collect();
        sweep(&mut members, longest.map(Span::from_millis), touching);
        let bounds =
            |found: &Member| (found.window.start().as_millis(), found.window.end().as_millis());
        members.iter().map(bounds).collect()
    }

    #[test]
    fn records_in_any_order_make_the_same_sessions() {
        use Touching::{Merge, Separate};
        let end = i64::MAX;
        for (owns, longest, touching, sessions) in [
            (&[(0, 10)][..], None, Merge, &[(0, 10)][..]),
            // Exactly one gap apart.
            (&[(10, 20), (0, 10)], None, Merge, &[(0, 20), (0, 20)]),
            (&[(10, 20), (0, 10)], None, Separate, &[(10, 20), (0, 10)]),
            (&[(11, 21), (0, 10)], None, Merge, &[(11, 21), (0, 10)]),
            // The middle one joins both; a long gap of one holds those inside it.
            (&[(0, 10), (15, 25), (8, 18)], None, Separate, &[(0, 25), (0, 25), (0, 25)]),
            (
                &[(0, 50), (5, 6), (30, 31), (50, 51)],
                None,
                Separate,
                &[(0, 50), (0, 50), (0, 50), (50, 51)],
            ),
            // Cut at 20: they touch there and stay apart.
            (&[(20, 30), (15, 20), (18, 20)], Some(20), Merge, &[(20, 30), (15, 20), (15, 20)]),
            (&[(-5, 0), (0, 7)], Some(10), Merge, &[(-5, 0), (0, 7)]),
            // Equal windows are one, empty ones at the end of time included.
            (&[(end, end), (end, end)], None, Separate, &[(end, end), (end, end)]),
            (&[(3, 4), (3, 4)], None, Separate, &[(3, 4), (3, 4)]),
        ] {
            assert_eq!(
                swept(owns, longest, touching),
                sessions,
                "{owns:?} {longest:?} {touching:?}"
            );
            let mut turned = owns.to_vec();
            turned.reverse();
            let mut found = swept(&turned, longest, touching);
            found.reverse();
            assert_eq!(found, sessions, "turned {owns:?}");
        }
    }
}
