//! How sliding windows cut time into slices, and which windows what is in a slice counts for.
//!
//! A slice lies between two neighbouring bounds of windows, starts and ends alike: no window holds
//! a part of it only. There are at most two to a period, whatever the size. Windows exist where
//! they start after the beginning of time, and those that end after the end of it end with it.

use crate::time::{EventTime, Span, Watermark, Window};
use crate::window::WindowFn;

/// The bounds of all windows of a sliding function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    size: i64,
    period: i64,
    /// Where a start lies.
    starts: i64,
    /// Where an end lies.
    ends: i64,
}

/// Windows that follow one another, latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Touched {
    /// Start of the latest.
    latest: i64,
    /// How many there are.
    pub(crate) count: u64,
}

/// How many windows, latest first, are what at a watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    /// Not complete.
    pub(crate) on_time: u64,
    /// Not expired.
    pub(crate) kept: u64,
}

impl Grid {
    /// The bounds of `window`; `None` if it does not slide.
    pub(crate) fn of(window: WindowFn) -> Option<Self> {
        let WindowFn::Sliding { size, period, offset } = window else { return None };
        let period = Span::from_millis(period.as_millis().max(1));
        // An end is a multiple of the period behind the offset and what is left of the size.
        let rest = EventTime::from_millis(size.as_millis()).past_multiple(period, 0).as_millis();
        let ends = match offset.checked_add(rest) {
            Some(ends) => ends,
            None => offset.saturating_sub(period.as_millis()).saturating_add(rest),
        };
        let (size, period) = (size.as_millis().max(1), period.as_millis());
        Some(Self { size, period, starts: offset, ends })
    }

    /// Milliseconds from the last start and from the last end to `time`.
    fn past(&self, time: EventTime) -> (i64, i64) {
        let past = |offset| time.past_multiple(Span::from_millis(self.period), offset).as_millis();
        (past(self.starts), past(self.ends))
    }

    /// The slice that holds `time`.
    pub(crate) fn slice(&self, time: EventTime) -> Window {
        // +infinity lies in the windows that have no end: in the last slice.
        let time = time.min(EventTime::LAST);
        let (start, end) = self.past(time);
        let since = Span::from_millis(start.min(end));
        let until = Span::from_millis((self.period - start).min(self.period - end));
        Window::new(time.saturating_sub(since), time.saturating_add(until))
    }

    /// Whether `time` lies between two windows, in none.
    pub(crate) fn is_between(&self, time: EventTime) -> bool {
        self.past(time.min(EventTime::LAST)).0 >= self.size
    }

    /// The windows that hold an instant from `from` to `last`, or lie between: at most `most`.
    pub(crate) fn touched(&self, from: EventTime, last: EventTime, most: u64) -> Touched {
        let (from, last) = (from.min(EventTime::LAST), last.min(EventTime::LAST));
        let (past, _) = self.past(last);
        // None starts at the beginning of time.
        let latest = last.as_millis().checked_sub(past).filter(|latest| *latest > i64::MIN);
        let Some(latest) = latest else { return Touched::default() };
        let after = i128::from(latest) + i128::from(self.size) - i128::from(from.as_millis());
        let from_beginning = latest.abs_diff(i64::MIN) - 1;
        let existing = from_beginning / self.period.unsigned_abs() + 1;
        let count = self.beyond(after).min(existing).min(most);
        Touched { latest, count }
    }

    /// How many windows, latest first, end after an instant that lies `before` ms before the end of
    /// the latest.
    fn beyond(&self, before: i128) -> u64 {
        if before <= 0 {
            return 0;
        }
        let before = u64::try_from(before - 1).unwrap_or(u64::MAX);
        (before / self.period.unsigned_abs()).saturating_add(1)
    }

    /// Window number `number` of `touched`, from the latest.
    pub(crate) fn window(&self, touched: Touched, number: u64) -> Window {
        let back = i128::from(number) * i128::from(self.period);
        let start = i64::try_from(i128::from(touched.latest) - back).unwrap_or(i64::MIN);
        self.window_at(EventTime::from_millis(start))
    }

    /// The window that starts at `start`.
    pub(crate) fn window_at(&self, start: EventTime) -> Window {
        Window::new(start, start.saturating_add(Span::from_millis(self.size)))
    }

    /// The window after `window`; `None` at the end of time.
    pub(crate) fn after(&self, window: Window) -> Option<Window> {
        let start = window.start().as_millis().checked_add(self.period)?;
        Some(self.window_at(EventTime::from_millis(start)))
    }

    /// What `touched` windows are at `watermark`, with state kept for `allowed`.
    pub(crate) fn split(&self, touched: Touched, watermark: Watermark, allowed: Span) -> Split {
        if watermark == Watermark::MAX {
            return Split { on_time: 0, kept: 0 };
        }
        let end = i128::from(touched.latest) + i128::from(self.size);
        let ahead = end - i128::from(watermark.0.as_millis());
        let on_time = self.beyond(ahead).min(touched.count);
        let kept = self.beyond(ahead + i128::from(allowed.as_millis())).min(touched.count);
        Split { on_time, kept }
    }

    /// The first window that holds the slice that starts at `slice`.
    pub(crate) fn first(&self, slice: EventTime) -> Option<Window> {
        self.first_open(slice, Watermark::MIN)
    }

    /// The first window that holds the slice that starts at `slice`, of those not complete at
    /// `watermark`.
    pub(crate) fn first_open(&self, slice: EventTime, watermark: Watermark) -> Option<Window> {
        let touched = self.touched(slice, slice, u64::MAX);
        let on_time = self.split(touched, watermark, Span::ZERO).on_time;
        Some(self.window(touched, on_time.checked_sub(1)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Lateness, judge};
    use proptest::prelude::*;

    fn sliding(size: i64, period: i64, offset: i64) -> WindowFn {
        let (size, period) = (Span::from_millis(size), Span::from_millis(period));
        WindowFn::Sliding { size, period, offset }
    }

    fn windows(grid: Grid, touched: Touched) -> Vec<Window> {
        (0..touched.count).map(|number| grid.window(touched, number)).collect()
    }

    /// Instants near zero, and near both ends of the type.
    fn instants() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -200_i64..200,
            1 => (0_i64..100).prop_map(|after| i64::MIN + after),
            1 => (0_i64..100).prop_map(|before| i64::MAX - before),
        ]
    }

    fn functions() -> impl Strategy<Value = WindowFn> {
        let offsets = prop_oneof![3 => -50_i64..50, 1 => instants()];
        (1_i64..60, 1_i64..40, offsets)
            .prop_map(|(size, period, offset)| sliding(size, period, offset))
    }

    proptest! {
        #[test]
        fn windows_and_verdicts_are_those_of_the_copying_form(
            function in functions(), time in instants(), watermark in instants(), allowed in 0_i64..50,
        ) {
            let time = EventTime::from_millis(time);
            let grid = Grid::of(function).unwrap();
            let mut expected = Vec::new();
            function.assign_all(time, 0, &mut expected);
            let touched = grid.touched(time, time, u64::MAX);
            prop_assert_eq!(&windows(grid, touched), &expected);
            let (watermark, allowed) =
                (Watermark(EventTime::from_millis(watermark)), Span::from_millis(allowed));
            let verdicts: Vec<_> =
                expected.iter().map(|window| judge(*window, watermark, allowed)).collect();
            let count = |of: &[Lateness]| {
                verdicts.iter().filter(|verdict| of.contains(verdict)).count() as u64
            };
            let split = grid.split(touched, watermark, allowed);
            prop_assert_eq!(split.on_time, count(&[Lateness::OnTime]));
            prop_assert_eq!(split.kept, count(&[Lateness::OnTime, Lateness::Late]));
            let open = expected.iter().rev().find(|window| watermark.0 < window.end());
            if !expected.is_empty() {
                let slice = grid.slice(time).start();
                prop_assert_eq!(grid.first_open(slice, watermark), open.copied());
                prop_assert_eq!(grid.first(slice), expected.last().copied());
            }
        }

        #[test]
        fn windows_of_an_interval_are_those_of_the_copying_form(
            function in functions(), last in instants(), length in 0_i64..150,
        ) {
            let last = EventTime::from_millis(last);
            let from = last.saturating_sub(Span::from_millis(length));
            let grid = Grid::of(function).unwrap();
            let latest = function.assign(last, 0);
            let back = std::iter::successors(Some(latest), |after| function.before(*after, 0));
            let holds = |window: &Window| window.end() > from || window.contains(from);
            let expected: Vec<_> = back.take_while(holds).collect();
            prop_assert_eq!(windows(grid, grid.touched(from, last, u64::MAX)), expected);
        }

        #[test]
        fn a_slice_lies_in_a_window_or_outside(function in functions(), time in instants()) {
            let time = EventTime::from_millis(time);
            let grid = Grid::of(function).unwrap();
            let slice = grid.slice(time);
            // At the beginning of time there are no windows, and no slices.
            prop_assert!(slice.contains(time) || time == EventTime::MIN);
            if grid.is_between(time) {
                prop_assert_eq!(grid.touched(time, time, u64::MAX).count, 0);
            }
            let of = |time| windows(grid, grid.touched(time, time, u64::MAX));
            if slice.start() > EventTime::MIN {
                prop_assert_eq!(of(slice.start()), of(time));
            } else {
                prop_assert_eq!(of(time), Vec::new());
            }
            if slice.contains(time) {
                prop_assert_eq!(of(slice.last_instant()), of(time));
            }
        }
    }

    #[test]
    fn there_are_two_slices_to_a_period_at_most() {
        for (size, period, expected) in [
            (60_000, 1_000, vec![0, 1_000, 2_000]),
            // Starts at multiples of 7, ends at 60 and multiples of 7 around it.
            (60, 7, vec![0, 4, 7, 11, 14]),
            (3_600_000, 1_001, vec![0, 404, 1_001]),
        ] {
            let grid = Grid::of(sliding(size, period, 0)).unwrap();
            let first = grid.slice(EventTime::from_millis(0));
            let slices = std::iter::successors(Some(first), |slice| Some(grid.slice(slice.end())));
            let starts: Vec<_> =
                slices.take(expected.len()).map(|slice| slice.start().as_millis()).collect();
            assert_eq!(starts, expected, "{size} every {period}");
        }
    }
}
