//! The slices of one key: what has come for windows that are not complete, each record once.
//!
//! A window is merged from its slices when it fires. Windows come in order, each a step on from the
//! one before: two stacks (one of sums towards the past, one sum of what came after) make that
//! cost two or three merges a slice, however long the window, for every aggregate alike. Nothing is
//! ever subtracted, so float sums do not drift.
#![expect(clippy::indexing_slicing, reason = "offsets are multiples of the widths of a slice")]

use crate::aggregate::{AggregateLayout, Overflow};
use crate::symbol::Symbols;
use crate::time::{EventTime, Window};

/// So many slices are merged one by one rather than stacked.
const FEW: usize = 4;

/// The slices of one key that have something, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    /// `start | values..` each.
    words: Vec<u64>,
    /// Slices at the beginning of `words` that are gone.
    gone: usize,
    /// How many of the others are in the stacks. They are forgotten when one of these changes.
    stacked: usize,
    /// Sums from an old slice up to the last that was turned over; that from the oldest is on top.
    front: Vec<u64>,
    /// The sum of stacked slices after those; nothing, or one value.
    back: Vec<u64>,
}

impl Slices {
    fn len(&self, width: usize) -> usize {
        self.words.len() / (width + 1) - self.gone
    }

    fn is_empty(&self, width: usize) -> bool {
        self.len(width) == 0
    }

    fn start(&self, index: usize, width: usize) -> EventTime {
        EventTime::from_millis(self.words[(self.gone + index) * (width + 1)] as i64)
    }

    fn values(&self, index: usize, width: usize) -> &[u64] {
        let at = (self.gone + index) * (width + 1) + 1;
        &self.words[at..at + width]
    }

    /// All slices: where they start, and what they hold.
    pub(crate) fn iter(&self, width: usize) -> impl Iterator<Item = (EventTime, &[u64])> {
        (0..self.len(width)).map(move |index| (self.start(index, width), self.values(index, width)))
    }

    /// Start of the oldest slice from `time` on.
    pub(crate) fn first_from(&self, time: EventTime, width: usize) -> Option<EventTime> {
        let starts = (0..self.len(width)).map(|index| self.start(index, width));
        starts.into_iter().find(|start| *start >= time)
    }

    /// Where the values of the slice that starts at `start` lie, and whether it is new. They are
    /// going to change.
    pub(crate) fn find_or_add(&mut self, start: EventTime, width: usize) -> (usize, bool) {
        let count = self.len(width);
        let mut index = count;
        // Mostly the newest, or a newer one.
        if count > 0 && start <= self.start(count - 1, width) {
            let (mut low, mut high) = (0, count - 1);
            if start == self.start(high, width) {
                low = high;
            }
            while low < high {
                let middle = low + (high - low) / 2;
                if self.start(middle, width) < start {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            index = low;
        }
        if index < self.stacked {
            self.unstack();
        }
        let at = (self.gone + index) * (width + 1);
        let is_new = index == count || self.start(index, width) != start;
        if is_new {
            let slice = std::iter::once(start.as_millis() as u64);
            self.words.splice(at..at, slice.chain(std::iter::repeat_n(0, width)));
        }
        (at + 1, is_new)
    }

    /// The values that lie at a place that was found.
    pub(crate) fn values_mut(&mut self, place: usize, width: usize) -> &mut [u64] {
        &mut self.words[place..place + width]
    }

    fn unstack(&mut self) {
        self.stacked = 0;
        self.front.clear();
        self.back.clear();
    }

    /// Lets go of slices before `start`, which no window needs any more.
    fn drop_before(
        &mut self,
        start: EventTime,
        (aggregates, symbols): (&AggregateLayout, &Symbols),
    ) -> Result<(), Overflow> {
        let width = aggregates.words();
        while !self.is_empty(width) && self.start(0, width) < start {
            if self.stacked > 0 {
                if self.front.is_empty() {
                    self.turn_over(aggregates, symbols)?;
                }
                self.front.truncate(self.front.len().saturating_sub(width));
                self.stacked -= 1;
            }
            self.gone += 1;
        }
        if self.gone * 4 * (width + 1) > self.words.len() {
            self.words.drain(..self.gone * (width + 1));
            self.gone = 0;
        }
        Ok(())
    }

    /// Makes the sums towards the past of all stacked slices.
    fn turn_over(
        &mut self,
        aggregates: &AggregateLayout,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let width = aggregates.words();
        self.back.clear();
        for index in (0..self.stacked).rev() {
            let at = self.front.len();
            let slice = (self.gone + index) * (width + 1) + 1;
            self.front.extend_from_slice(&self.words[slice..slice + width]);
            if let Some(newer) = at.checked_sub(width) {
                let (newer, sum) = self.front.split_at_mut(newer + width);
                aggregates.merge_all(sum, &newer[at - width..], symbols)?;
            }
        }
        Ok(())
    }

    /// Merges what lies in `window` into `sum`, which is empty. Windows must come in order.
    pub(crate) fn merge(
        &mut self,
        window: Window,
        sum: &mut [u64],
        (aggregates, symbols): (&AggregateLayout, &Symbols),
    ) -> Result<(), Overflow> {
        self.drop_before(window.start(), (aggregates, symbols))?;
        let width = aggregates.words();
        let mut inside = self.stacked;
        while inside < self.len(width) && self.start(inside, width) < window.end() {
            inside += 1;
        }
        if self.stacked == 0 && inside <= FEW {
            for index in 0..inside {
                merge_into(sum, self.values(index, width), index == 0, (aggregates, symbols))?;
            }
            return Ok(());
        }
        for index in self.stacked..inside {
            let at = (self.gone + index) * (width + 1) + 1;
            if self.back.is_empty() {
                self.back.extend_from_slice(&self.words[at..at + width]);
            } else {
                aggregates.merge_all(&mut self.back, &self.words[at..at + width], symbols)?;
            }
        }
        self.stacked = inside;
        let front = self.front.len().checked_sub(width).map(|at| &self.front[at..]);
        let stacks = front.into_iter().chain((!self.back.is_empty()).then_some(&*self.back));
        for (index, part) in stacks.enumerate() {
            merge_into(sum, part, index == 0, (aggregates, symbols))?;
        }
        Ok(())
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        (self.words.capacity() + self.front.capacity() + self.back.capacity()) * 8
    }
}

fn merge_into(
    sum: &mut [u64],
    part: &[u64],
    is_empty: bool,
    (aggregates, symbols): (&AggregateLayout, &Symbols),
) -> Result<(), Overflow> {
    if is_empty {
        sum.copy_from_slice(part);
        return Ok(());
    }
    aggregates.merge_all(sum, part, symbols)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Function;
    use crate::value::{Datum, Type};
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list: slices come in any order, windows step on.
        #[test]
        fn windows_hold_what_their_slices_do(
            steps in prop::collection::vec((any::<bool>(), 0_i64..12, -9_i128..10), 1..120),
            size in 1_i64..20,
        ) {
            let layout = AggregateLayout::new([
                ("n".into(), Function::Count, Type::U64),
                ("max".into(), Function::Max, Type::I64),
                ("sum".into(), Function::Sum, Type::I64),
            ]);
            let symbols = Symbols::default();
            let (mut slices, mut all, mut start) = (Slices::default(), Vec::new(), 0);
            for (is_record, at, value) in steps {
                if is_record {
                    let time = start + at;
                    let width = layout.words();
                    let (place, _) = slices.find_or_add(EventTime::from_millis(time), width);
                    let words = slices.values_mut(place, width);
                    for index in 0..3 {
                        let input = (Datum::Int(value), EventTime::MIN);
                        layout.add(&mut *words, index, input, &symbols).unwrap();
                    }
                    all.push((time, value));
                    continue;
                }
                start += at / 4;
                let bound = |at| EventTime::from_millis(at);
                let window = Window::new(bound(start), bound(start + size));
                let mut sum = vec![0; layout.words()];
                slices.merge(window, &mut sum, (&layout, &symbols)).unwrap();
                let inside = all.iter().filter(|(time, _)| window.contains(bound(*time)));
                let inside: Vec<_> = inside.map(|(_, value)| *value).collect();
                let max = inside.iter().max().map_or(Datum::Null, |max| Datum::Int(*max));
                let results = [0, 1, 2].map(|index| layout.finish(&sum, index));
                let count = Datum::Int(inside.len() as i128);
                prop_assert_eq!(results, [count, max, Datum::Int(inside.iter().sum())]);
            }
        }
    }

    #[test]
    fn slices_that_come_in_order_stay_in_the_stacks() {
        let layout = AggregateLayout::new([("max".into(), Function::Max, Type::I64)]);
        let symbols = Symbols::default();
        let mut slices = Slices::default();
        for now in 0..50_000 {
            let (place, is_new) = slices.find_or_add(EventTime::from_millis(now), layout.words());
            assert!(is_new);
            let words = slices.values_mut(place, layout.words());
            layout.add(words, 0, (Datum::Int(1), EventTime::MIN), &symbols).unwrap();
            let bounds = [now - 3_599, now + 1].map(EventTime::from_millis);
            let mut sum = vec![0; layout.words()];
            let window = Window::new(bounds[0], bounds[1]);
            slices.merge(window, &mut sum, (&layout, &symbols)).unwrap();
            let count = slices.len(layout.words());
            assert!(count <= 3_600 && slices.bytes() < 250_000, "{count}, {}", slices.bytes());
            // Each is merged once into the sum after, and once into those towards the past.
            assert!(slices.stacked == if count > FEW { count } else { 0 });
        }
    }
}
