//! Where the partitions of a source stand, and so where it does: pure, from what is known of them.

use super::outlook::Outlook;
use super::queue::{self, Known};
use crate::source::{Progress, State};

/// Where a partition stands, for whoever reads what comes out of the queue.
fn stand(known: &Known) -> State {
    match known.waiting {
        0 if known.is_finished => State::End,
        0 if known.is_at_end => State::Pending,
        0 if known.outlook == Outlook::Away => State::Away,
        _ if known.outlook.is_unseen() => State::Unseen,
        _ => State::More,
    }
}

/// Notes in `each` where each partition stands; where all do.
pub(super) fn stands(state: &queue::State, is_bounded: bool, each: &mut Vec<State>) -> State {
    each.clear();
    each.extend(state.partitions.iter().map(stand));
    if !state.is_complete || each.is_empty() {
        // They are found one by one. An empty one at its end says nothing of those behind it: it
        // would promise in their name that nothing more comes.
        each.fill(State::More);
        return State::More;
    }
    if is_bounded && each.iter().all(|known| *known == State::End) {
        State::End
    } else if each.contains(&State::Unseen) {
        State::Unseen
    } else if each.contains(&State::More) || each.contains(&State::Away) {
        State::More
    } else {
        State::Pending
    }
}

/// How far partitions have been read, in offsets, of those between their beginnings and their ends.
pub(super) fn progress(partitions: &[Known]) -> Progress {
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    let mut progress = Progress::default();
    for known in partitions {
        let end = known.until.unwrap_or(known.begin);
        let next = if stand(known) == State::End { end } else { known.next.min(end) };
        progress.done += count(next.saturating_sub(known.begin));
        progress.total += count(end.saturating_sub(known.begin));
    }
    progress
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the bar of a bounded replay shows.
    #[test]
    fn progress_comes_to_its_end_with_the_partitions() {
        let known = |begin, next, until, is_finished| Known {
            is_finished,
            begin,
            ..Known::begun((&"t".into(), 0), next, until)
        };
        for (partitions, done, total) in [
            (vec![], 0, 0),
            (vec![known(10, 10, Some(30), false), known(5, 15, Some(25), false)], 10, 40),
            // Behind its end, or at it with marks of transactions before it.
            (vec![known(10, 35, Some(30), true), known(5, 22, Some(25), true)], 40, 40),
            // Its end is not known yet.
            (vec![known(10, 12, None, false), known(0, 1, Some(4), false)], 1, 4),
        ] {
            let found = progress(&partitions);
            assert_eq!((found.done, found.total), (done, total), "{partitions:?}");
        }
    }

    #[test]
    fn nothing_is_at_its_end_before_all_partitions_are_known() {
        use State::{Away, End, More, Pending, Unseen};
        let known = |number, next, is_at_end| Known {
            is_at_end,
            ..Known::begun((&"t".into(), number), next, Some(9))
        };
        let (finished, silent, begun) = (known(0, 9, false), known(1, 5, true), known(2, 5, false));
        let unseen = |waiting| {
            let mut known = Known { waiting, ..known(3, 5, true) };
            known.hear_end(7);
            known
        };
        let (given, lost) = (unseen(2), unseen(0));
        let mut taken = unseen(0);
        taken.leave();
        for (partitions, is_complete, is_bounded, each, all) in [
            (vec![], true, true, vec![], More),
            (vec![&finished], false, true, vec![More], More),
            (vec![&finished, &silent], false, true, vec![More, More], More),
            (vec![&finished], true, true, vec![End], End),
            (vec![&finished, &silent], true, true, vec![End, Pending], Pending),
            (vec![&finished, &silent, &begun], true, true, vec![End, Pending, More], More),
            (vec![&silent], true, false, vec![Pending], Pending),
            (vec![&silent, &given], true, false, vec![Pending, Unseen], Unseen),
            (vec![&begun, &lost], true, false, vec![More, Unseen], Unseen),
            (vec![&silent, &taken], true, false, vec![Pending, Away], More),
        ] {
            let partitions = partitions.into_iter().cloned().collect();
            let state = queue::State { partitions, is_complete, ..queue::State::default() };
            let mut found = vec![End; 9];
            assert_eq!(stands(&state, is_bounded, &mut found), all, "{each:?} {is_complete}");
            assert_eq!(found, each, "{is_complete}");
        }
    }
}
