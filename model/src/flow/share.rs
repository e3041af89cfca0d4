//! Splitting a flow over the windows that it touches.
//!
//! Exact: the share of a window is the difference of two floors, so the shares of adjoining
//! windows telescope and the shares of a flow sum to its amount, whatever the windows are.

use crate::time::{EventTime, Window};

/// The time that a flow covers, both ends inclusive; `first <= last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    first: EventTime,
    last: EventTime,
}

impl Extent {
    /// From `first` to `last`, both inclusive; a `first` after `last` is taken as `last`.
    pub fn new(first: EventTime, last: EventTime) -> Self {
        Self { first: first.min(last), last }
    }

    /// The first millisecond.
    pub const fn first(self) -> EventTime {
        self.first
    }

    /// The last millisecond.
    pub const fn last(self) -> EventTime {
        self.last
    }
}

/// The share of `amount`, spread evenly over the milliseconds of `extent`, that falls into
/// `window`: `floor((min(last + 1, end) - first) x amount / length)` less
/// `floor((max(first, start) - first) x amount / length)`.
///
/// `amount` may be anything up to 2^127.
pub fn share(extent: Extent, amount: u128, window: Window) -> u128 {
    if window.contains(extent.first) && window.contains(extent.last) {
        return amount;
    }
    let (first, last) = (extent.first.as_millis(), extent.last.as_millis());
    let (start, end) = (window.start().as_millis(), window.end().as_millis());
    // 64 bits hold every difference: |i64 - i64| < 2^64. Only `length` can be 2^64.
    let length = u128::from(last.abs_diff(first)) + 1;
    let until = if window.contains(extent.last) {
        length
    } else if end <= first {
        0
    } else {
        u128::from(end.min(last).abs_diff(first)) + u128::from(end > last)
    };
    let from = if start <= first { 0 } else { u128::from(start.abs_diff(first)) };
    if from >= until {
        return 0;
    }
    part(until, amount, length) - part(from, amount, length)
}

/// `floor(part x amount / length)` for `part <= length <= 2^64`.
fn part(part: u128, amount: u128, length: u128) -> u128 {
    if let Some(product) = narrow_product(part, amount)
        && let Ok(length) = u64::try_from(length)
    {
        return u128::from(product / length);
    }
    // amount = quotient x length + rest, rest < length, so that neither product is over 2^128.
    let (quotient, rest) = (amount / length, amount % length);
    part * quotient + part * rest / length
}

/// The product, where both factors and it fit one machine word: nearly always.
fn narrow_product(a: u128, b: u128) -> Option<u64> {
    u64::try_from(a).ok()?.checked_mul(u64::try_from(b).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn extent(first: i64, last: i64) -> Extent {
        Extent::new(time(first), time(last))
    }

    fn window(start: i64, end: i64) -> Window {
        Window::new(time(start), time(end))
    }

    #[test]
    fn shares_at_the_edges() {
        const B: u128 = 1 << 100;
        for (flow, amount, bounds, expected) in [
            ((0, 9), 100, (0, 10), 100),
            ((0, 9), 100, (0, 5), 50),
            ((0, 9), 100, (9, 20), 10),
            ((0, 9), 100, (10, 20), 0),
            ((0, 9), 100, (-10, 0), 0),
            ((5, 5), 7, (5, 6), 7),
            ((5, 5), 7, (6, 7), 0),
            ((5, 5), 7, (0, 5), 0),
            // Three milliseconds, one byte: it lies in the last of them.
            ((0, 2), 1, (0, 1), 0),
            ((0, 2), 1, (1, 2), 0),
            ((0, 2), 1, (2, 3), 1),
            ((-10, 9), 3, (-10, 0), 1),
            ((-10, 9), 3, (0, 10), 2),
            ((0, 9), B, (0, 5), B / 2),
            ((i64::MIN, i64::MAX), 1 << 64, (i64::MIN, 0), 1 << 63),
            ((i64::MIN, i64::MAX), B, (0, i64::MAX), B / 2),
            ((0, i64::MAX), 5, (i64::MAX - 1, i64::MAX), 1),
        ] {
            let got = share(extent(flow.0, flow.1), amount, window(bounds.0, bounds.1));
            assert_eq!(got, expected, "{amount} over {flow:?} in {bounds:?}");
        }
        assert_eq!(share(extent(3, 8), 9, Window::GLOBAL), 9);
        assert_eq!(extent(8, 3), extent(3, 3));
    }

    /// The worked example: 1,000 bytes over 45.000 to 74.999 s, minute windows.
    #[test]
    fn a_flow_over_a_boundary_is_cut_there() {
        let flow = extent(45_000, 74_999);
        assert_eq!(share(flow, 1_000, window(0, 60_000)), 500);
        assert_eq!(share(flow, 1_000, window(60_000, 120_000)), 500);
    }

    /// The formula as it is written down, in numbers of 256 bits: four 64-bit limbs.
    fn naive(flow: (i64, i64), amount: u128, bounds: (i64, i64)) -> u128 {
        let [first, last] = [i128::from(flow.0), i128::from(flow.1)];
        let [start, end] = [i128::from(bounds.0), i128::from(bounds.1)];
        let length = (last - first + 1) as u128;
        let floor = |until: i128| {
            let until = (until - first).clamp(0, length as i128) as u128;
            // Long division of until x amount, bit by bit of the amount.
            let (mut quotient, mut rest) = (0u128, 0u128);
            for bit in (0..128).rev() {
                quotient <<= 1;
                rest <<= 1;
                if amount >> bit & 1 == 1 {
                    rest += until;
                }
                quotient += rest / length;
                rest %= length;
            }
            quotient
        };
        floor((last + 1).min(end)).saturating_sub(floor(first.max(start)))
    }

    fn amounts() -> impl Strategy<Value = u128> {
        prop_oneof![0u128..2_000, 0u128..1 << 40, 0u128..1 << 101]
    }

    proptest! {
        #[test]
        fn shares_equal_the_formula(
            first in -200i64..200, length in 0i64..300, amount in amounts(),
            start in -300i64..300, size in 1i64..300,
        ) {
            let got = share(extent(first, first + length), amount, window(start, start + size));
            prop_assert_eq!(got, naive((first, first + length), amount, (start, start + size)));
        }

        #[test]
        fn shares_of_any_times_equal_the_formula(
            a: i64, b: i64, amount in amounts(), c: i64, d: i64,
        ) {
            let (flow, bounds) = ((a.min(b), a.max(b)), (c.min(d), c.max(d)));
            // An end at the end of time means no end.
            prop_assume!(bounds.1 < i64::MAX);
            let got = share(extent(flow.0, flow.1), amount, window(bounds.0, bounds.1));
            prop_assert_eq!(got, naive(flow, amount, bounds));
        }

        #[test]
        fn shares_of_adjoining_windows_sum_to_the_amount(
            first in -100_000i64..100_000, length in 0i64..1_000_000, amount in amounts(),
            size in 1i64..100_000, offset in 0i64..100_000,
        ) {
            let flow = extent(first, first + length);
            let mut cut = Window::fixed(flow.first(), crate::time::Span::from_millis(size), offset);
            let mut sum = 0;
            while cut.start() <= flow.last() {
                sum += share(flow, amount, cut);
                cut = window(cut.end().as_millis(), cut.end().as_millis() + size);
            }
            prop_assert_eq!(sum, amount);
        }
    }
}
