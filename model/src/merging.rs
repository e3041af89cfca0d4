//! The third of the paper's five steps of grouping: which windows of a key become one when a record
//! comes. Pure; `key_machine` acts on it.

use crate::open_window::OpenWindow;
use crate::time::Window;
use crate::window::WindowFn;

/// A window to be, and the numbers of the open windows that become part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) into: Window,
    pub(crate) parts: Vec<usize>,
}

/// What becomes of a key's windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merging {
    /// Of the record's own window.
    pub(crate) own: Merge,
    /// Of others that change: a custom function may change windows that the record is not in.
    pub(crate) others: Vec<Merge>,
}

/// The one open window that a record in `own` goes into, and the bounds that it then has: if it is
/// only one, whose place in the order stays, and no others change. The common case, without lists.
pub(crate) fn joined(
    function: WindowFn,
    open: &[OpenWindow],
    own: Window,
) -> Option<(usize, Window)> {
    match function {
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Calendar(_) => {
            let place = open.binary_search_by_key(&own, |open| open.window);
            place.ok().map(|number| (number, own))
        }
        WindowFn::Session { .. } => {
            let mut met =
                open.iter().enumerate().filter(|(_, open)| function.merges(open.window, own));
            let (number, only) = met.next()?;
            let into = only.window.hull(own);
            let before = number.checked_sub(1).and_then(|before| open.get(before));
            let is_behind = before.is_none_or(|before| before.window < into);
            let after = open.get(number + 1);
            let is_ahead = after.is_none_or(|after| into < after.window);
            (met.next().is_none() && is_behind && is_ahead).then_some((number, into))
        }
        WindowFn::Custom(_) => None,
    }
}

/// What a record in `own` makes of the windows in `open`, which are in order.
pub(crate) fn merging(function: WindowFn, open: &[OpenWindow], own: Window) -> Merging {
    let place = open.binary_search_by_key(&own, |open| open.window);
    match function {
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Calendar(_) => {
            let own = Merge { into: own, parts: place.into_iter().collect() };
            Merging { own, others: Vec::new() }
        }
        WindowFn::Session { .. } => {
            Merging { own: session(function, open, own), others: Vec::new() }
        }
        WindowFn::Custom(custom) => {
            let mut windows: Vec<_> = open.iter().map(|open| open.window).collect();
            let number = match place {
                Ok(number) => number,
                Err(number) => {
                    windows.insert(number, own);
                    number
                }
            };
            let before = windows.clone();
            if custom.0.is_merging() {
                custom.0.merge(&mut windows);
            }
            changes((&before, &windows), (number, place.is_err()))
        }
    }
}

/// The session of a record: all that its proto-session meets.
fn session(function: WindowFn, open: &[OpenWindow], own: Window) -> Merge {
    let mut merge = Merge { into: own, parts: Vec::new() };
    for (number, open) in open.iter().enumerate() {
        if function.merges(open.window, own) {
            merge.into = merge.into.hull(open.window);
            merge.parts.push(number);
        }
    }
    merge
}

/// The merges that turn `before` into `after`, window by window. `number` is that of the record's
/// own; `is_new` says that it is not open yet, and that those behind it have numbers one too high.
fn changes((before, after): (&[Window], &[Window]), (number, is_new): (usize, bool)) -> Merging {
    let mut merges: Vec<Merge> = Vec::new();
    let mut own = 0;
    for (index, into) in after.iter().enumerate() {
        let known = merges.iter().position(|merge| merge.into == *into);
        let at = known.unwrap_or(merges.len());
        if known.is_none() {
            merges.push(Merge { into: *into, parts: Vec::new() });
        }
        let part = if is_new && index > number { index - 1 } else { index };
        match merges.get_mut(at) {
            Some(merge) if !(is_new && index == number) => merge.parts.push(part),
            Some(_) | None => {}
        }
        if index == number {
            own = at;
        }
    }
    let own = merges.swap_remove(own);
    let number_of = |part: usize| if is_new && part >= number { part + 1 } else { part };
    let stays = |merge: &Merge| match merge.parts.as_slice() {
        [only] => before.get(number_of(*only)) == Some(&merge.into),
        _ => false,
    };
    merges.retain(|merge| !stays(merge));
    Merging { own, others: merges }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::EventTime;

    #[test]
    fn windows_that_change_are_named_with_their_parts_by_number() {
        let windows = |bounds: &[(i64, i64)]| {
            let time = EventTime::from_millis;
            bounds
                .iter()
                .map(|(start, end)| Window::new(time(*start), time(*end)))
                .collect::<Vec<_>>()
        };
        let merge = |bounds: (i64, i64), parts: &[usize]| Merge {
            into: windows(&[bounds])[0],
            parts: parts.to_vec(),
        };
        let nothing: &[Merge] = &[];
        for (before, after, number, is_new, own, others) in [
            // Alone; beside others; where one is already.
            (&[(0, 9)][..], &[(0, 9)][..], 0, true, merge((0, 9), &[]), nothing),
            (&[(0, 9), (20, 29)], &[(0, 9), (20, 29)], 0, true, merge((0, 9), &[]), nothing),
            (&[(0, 9), (20, 29)], &[(0, 9), (20, 29)], 1, false, merge((20, 29), &[1]), nothing),
            // Joined with both neighbours; with the one behind.
            (
                &[(0, 9), (5, 14), (10, 19)],
                &[(0, 19), (0, 19), (0, 19)],
                1,
                true,
                merge((0, 19), &[0, 1]),
                nothing,
            ),
            (
                &[(0, 9), (5, 14), (10, 19)],
                &[(0, 9), (5, 19), (5, 19)],
                1,
                true,
                merge((5, 19), &[1]),
                nothing,
            ),
            // Another one shrinks; two others become one.
            (
                &[(0, 99), (50, 99)],
                &[(0, 50), (50, 99)],
                1,
                true,
                merge((50, 99), &[]),
                &[merge((0, 50), &[0])],
            ),
            (
                &[(0, 1), (2, 3), (4, 5)],
                &[(0, 1), (2, 5), (2, 5)],
                0,
                true,
                merge((0, 1), &[]),
                &[merge((2, 5), &[0, 1])],
            ),
        ] {
            let got = changes((&windows(before), &windows(after)), (number, is_new));
            assert_eq!(got, Merging { own, others: others.to_vec() }, "{before:?} {after:?}");
        }
    }
}
