//! Where panes come from: the last batches that a shard has taken, by event time.
//!
//! Invariant: bounded. What is known is the last [`Lineage::MAX`] batches that somebody wants to hear of
//! again; of them, those whose records can be in the windows of panes are told, the last ones first.

use crate::pane::PaneBatch;
use crate::time::EventTime;
use std::collections::VecDeque;

/// A batch of records that has been taken. `C` says which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor<C> {
    /// Which batch.
    pub context: C,
    /// The earliest event time of its records.
    pub first: EventTime,
    /// The latest.
    pub last: EventTime,
}

impl<C> Ancestor<C> {
    /// Of records with these event times; `None` if there are none.
    pub fn of(context: C, times: &[EventTime]) -> Option<Self> {
        let (first, last) = (*times.iter().min()?, *times.iter().max()?);
        Some(Self { context, first, last })
    }
}

/// The batches that a shard has taken.
#[derive(Debug, Clone)]
pub struct Lineage<C> {
    /// The last one at the end. At most [`Lineage::MAX`].
    batches: VecDeque<Ancestor<C>>,
    /// Whether a record counts for windows before its event time, too.
    is_spread: bool,
}

impl<C: Clone + PartialEq> Lineage<C> {
    /// Batches that are known.
    pub const MAX: usize = 64;
    /// Batches that are told of at a time.
    pub const TOLD_MAX: usize = 32;

    /// Nothing has been taken; `is_spread` says whether records count for windows before their event
    /// time, as flows do, which have a beginning.
    pub const fn new(is_spread: bool) -> Self {
        Self { batches: VecDeque::new(), is_spread }
    }

    /// A batch has been taken, or is known by what another shard made of it. Which is known already
    /// stays where it is.
    pub fn took(&mut self, batch: Ancestor<C>) {
        if self.batches.iter().any(|known| known.context == batch.context) {
            return;
        }
        if self.batches.len() >= Self::MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    /// The last batches, for whoever is given something that came of them.
    pub fn last(&self) -> Vec<Ancestor<C>> {
        self.batches.iter().rev().take(Self::TOLD_MAX).cloned().collect()
    }

    /// Those that `panes` can come from, the last ones first.
    pub fn of(&self, panes: &PaneBatch) -> Vec<C> {
        let windows = || panes.panes.iter().map(|pane| pane.window);
        let starts = windows().map(|window| window.start()).min();
        let ends = windows().map(|window| window.end()).max();
        let (Some(start), Some(end)) = (starts, ends) else { return Vec::new() };
        let can =
            |batch: &&Ancestor<C>| batch.last >= start && (self.is_spread || batch.first < end);
        let found = self.batches.iter().rev().filter(can).take(Self::TOLD_MAX);
        found.map(|batch| batch.context.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pane::{PaneKind, PaneMeta, StageId, Timing};
    use crate::time::Window;

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn batch(context: u32, first: i64, last: i64) -> Ancestor<u32> {
        Ancestor { context, first: at(first), last: at(last) }
    }

    fn panes(windows: &[(i64, i64)]) -> PaneBatch {
        let mut panes = PaneBatch::new(StageId(0));
        for (start, end) in windows {
            let meta = PaneMeta {
                window: Window::new(at(*start), at(*end)),
                index: 0,
                timing: Timing::OnTime,
                is_last: true,
                kind: PaneKind::Insert,
                event_time: at(*end - 1),
                is_other: false,
            };
            panes.push(&[], meta, &[][..]);
        }
        panes
    }

    #[test]
    fn panes_come_from_batches_whose_times_are_in_their_windows() {
        let known = [batch(1, 0, 9), batch(2, 10, 19), batch(3, 5, 25), batch(4, 20, 20)];
        for (is_spread, windows, expected) in [
            (false, &[(0, 10)][..], &[3, 1][..]),
            (false, &[(10, 20)], &[3, 2]),
            (false, &[(20, 30)], &[4, 3]),
            (false, &[(0, 10), (20, 30)], &[4, 3, 2, 1]),
            (false, &[(30, 40)], &[]),
            (false, &[], &[]),
            (true, &[(0, 10)], &[4, 3, 2, 1]),
            (true, &[(20, 30)], &[4, 3]),
        ] {
            let mut lineage = Lineage::new(is_spread);
            known.iter().for_each(|batch| lineage.took(batch.clone()));
            assert_eq!(lineage.of(&panes(windows)), expected, "{windows:?} {is_spread}");
        }
    }

    #[test]
    fn what_is_known_is_bounded_and_known_once() {
        let mut lineage = Lineage::new(false);
        for number in 0..100 {
            lineage.took(batch(number, 0, 0));
            lineage.took(batch(number, 0, 0));
        }
        assert_eq!(lineage.batches.len(), Lineage::<u32>::MAX);
        let expected: Vec<_> = (68..100).rev().collect();
        assert_eq!(lineage.of(&panes(&[(0, 1)])), expected);
        let last: Vec<_> = lineage.last().into_iter().map(|batch| batch.context).collect();
        assert_eq!(last, expected);
    }

    #[test]
    fn a_batch_reaches_from_its_earliest_to_its_latest_record() {
        let times = [at(5), at(-3), at(9), at(9)];
        assert_eq!(Ancestor::of(7, &times), Some(batch(7, -3, 9)));
        assert_eq!(Ancestor::of(7, &[]), None);
    }
}
