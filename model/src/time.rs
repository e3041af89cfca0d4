//! Event time, processing time, spans and windows: the only file that does arithmetic on them.
//!
//! All times are `i64` milliseconds since the Unix epoch, negative ones included. Windows are
//! half-open `[start, end)`. Every operation saturates at the ends of the type and every division
//! is Euclidean, so that times before 1970 file as those after it do.

use serde::{Deserialize, Serialize};
use std::fmt;

/// When something happened, from the record: milliseconds since the Unix epoch.
///
/// [`EventTime::MIN`] reads as -infinity, [`EventTime::MAX`] as +infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventTime(i64);

impl EventTime {
    /// Before every record.
    pub const MIN: Self = Self(i64::MIN);
    /// After every record.
    pub const MAX: Self = Self(i64::MAX);
    /// The last instant that is no infinity: as far as a promise made of records can go, since a
    /// record at the end of time is not the end of the input.
    pub const LAST: Self = Self(i64::MAX - 1);

    /// Milliseconds since the Unix epoch, any `i64`.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Later by `span`; stays at [`EventTime::MIN`] and [`EventTime::MAX`], the infinities.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        if self.0 == i64::MIN { self } else { Self(self.0.saturating_add(span.0)) }
    }

    /// Earlier by `span`; stays at [`EventTime::MIN`] and [`EventTime::MAX`], the infinities.
    #[must_use]
    pub const fn saturating_sub(self, span: Span) -> Self {
        if self.0 == i64::MAX { self } else { Self(self.0.saturating_sub(span.0)) }
    }

    /// Later by `span`, of the instant of a record: the first of all instants is one like any other
    /// there, and no infinity. Stays at [`EventTime::MAX`].
    #[must_use]
    pub const fn later(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to this instant; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The span from the last instant that is a multiple of `period` after or before `offset` to
    /// this one: less than `period`, exact everywhere. A period of zero is taken as 1 ms.
    pub fn past_multiple(self, period: Span, offset: i64) -> Span {
        let period = period.0.max(1);
        match self.0.checked_sub(offset) {
            Some(since) => Span(since.rem_euclid(period)),
            // The difference does not fit the type; the remainder does.
            None => {
                let since = i128::from(self.0) - i128::from(offset);
                Span(i64::try_from(since.rem_euclid(i128::from(period))).unwrap_or(0))
            }
        }
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MIN => f.write_str("-inf"),
            Self::MAX => f.write_str("+inf"),
            Self(millis) => write!(f, "{millis}"),
        }
    }
}

/// When something is handled: milliseconds since the Unix epoch, from the clock actor's tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessingTime(i64);

impl ProcessingTime {
    /// Milliseconds since the Unix epoch, any `i64`.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This instant as the event time of what happens now, never an infinity.
    pub fn as_event_time(self) -> EventTime {
        EventTime(self.0).min(EventTime::LAST)
    }

    /// Later by `span`; stays at the ends of the type.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Earlier by `span`; stays at the ends of the type.
    #[must_use]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The first multiple of `period` since the Unix epoch that lies after this instant. A period
    /// of zero is taken as 1 ms.
    #[must_use]
    pub const fn next_multiple(self, period: Span) -> Self {
        let period = if period.0 < 1 { 1 } else { period.0 };
        Self(self.0.saturating_add(period - self.0.rem_euclid(period)))
    }

    /// The span from `earlier` to this instant; zero where the clock went back.
    pub const fn since(self, earlier: Self) -> Span {
        let millis = self.0.saturating_sub(earlier.0);
        Span(if millis < 0 { 0 } else { millis })
    }
}

/// A length of time in milliseconds, never negative.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `millis` milliseconds; a negative number is taken as zero.
    pub const fn from_millis(millis: i64) -> Self {
        Self(if millis < 0 { 0 } else { millis })
    }

    /// The length in milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// What is left of it without `other`; nothing where that is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self::from_millis(self.0.saturating_sub(other.0))
    }

    /// Both spans, one after the other; stays at the end of the type.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// A half-open interval of event time, `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    start: EventTime,
    end: EventTime,
}

impl Window {
    /// All of time.
    pub const GLOBAL: Self = Self { start: EventTime::MIN, end: EventTime::MAX };

    /// The window `[start, end)`; an `end` before `start` is taken as `start`.
    pub fn new(start: EventTime, end: EventTime) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The fixed window of length `size` that contains `time`, with one boundary at `offset`.
    ///
    /// A `size` of zero is taken as 1 ms. Bounds beyond the type saturate.
    pub fn fixed(time: EventTime, size: Span, offset: i64) -> Self {
        let size = size.0.max(1);
        // +infinity lies in the last window, as `contains` has it: none starts there.
        let time = time.min(EventTime(i64::MAX - 1));
        let into = time.past_multiple(Span(size), offset).0;
        let start = time.0.saturating_sub(into);
        // Measured from the record, not from a start that may have saturated.
        let end = time.0.saturating_add(size - into);
        Self { start: EventTime(start), end: EventTime(end) }
    }

    /// First instant of the window.
    pub const fn start(self) -> EventTime {
        self.start
    }

    /// First instant after the window.
    pub const fn end(self) -> EventTime {
        self.end
    }

    /// From start to end; the longest span for a window without one of them.
    pub const fn length(self) -> Span {
        self.end.since(self.start)
    }

    /// Last instant of the window, `end - 1`; +infinity for a window without an end.
    pub const fn last_instant(self) -> EventTime {
        self.end.saturating_sub(Span(1))
    }

    /// Whether `time` lies in the window. A window without an end contains +infinity too.
    pub fn contains(self, time: EventTime) -> bool {
        self.start <= time && (time < self.end || self.end == EventTime::MAX)
    }

    /// Whether every instant of `inner` lies in this window.
    pub fn covers(self, inner: Window) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }

    /// The smallest window that covers both.
    pub fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.start, self.end)
    }
}

/// A promise: no record with an event time below it is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Watermark(pub EventTime);

impl Watermark {
    /// Nothing is promised.
    pub const MIN: Self = Self(EventTime::MIN);
    /// The input has ended.
    pub const MAX: Self = Self(EventTime::MAX);
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a watermark says about a window. Ordered: a higher watermark never gives a lower verdict
/// (invariant LATE-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lateness {
    /// Records may still come in time: `watermark < end`.
    OnTime,
    /// The window is complete but its state is kept: `end <= watermark < end + allowed`.
    Late,
    /// The state is gone: a record for this window is dropped, and counted as dropped.
    Expired,
}

/// Judges `window` at `watermark`, with state kept for `allowed` after completion.
pub fn judge(window: Window, watermark: Watermark, allowed: Span) -> Lateness {
    if watermark.0 < window.end {
        Lateness::OnTime
    } else if watermark.0 < window.end.saturating_add(allowed) {
        Lateness::Late
    } else {
        Lateness::Expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Window {
        Window::new(EventTime(start), EventTime(end))
    }

    #[test]
    fn fixed_windows_hold_their_record_everywhere() {
        for (time, size, offset, expected) in [
            (0, 10, 0, (0, 10)),
            (9, 10, 0, (0, 10)),
            (10, 10, 0, (10, 20)),
            (-1, 10, 0, (-10, 0)),
            (-10, 10, 0, (-10, 0)),
            (-11, 10, 0, (-20, -10)),
            (4, 10, 5, (-5, 5)),
            (5, 10, 5, (5, 15)),
            (5, 10, -5, (5, 15)),
            (5, 10, 25, (5, 15)),
            (1_500_000_000_000, 60_000, 7_199, (1_499_999_947_199, 1_500_000_007_199)),
            (i64::MAX, 10, 0, (i64::MAX - 7, i64::MAX)),
            (i64::MAX, 1, 0, (i64::MAX - 1, i64::MAX)),
            (i64::MIN, 10, 0, (i64::MIN, i64::MIN + 8)),
            (i64::MIN, 10, i64::MAX, (i64::MIN, i64::MIN + 5)),
        ] {
            let got = Window::fixed(EventTime(time), Span(size), offset);
            assert_eq!((got.start.0, got.end.0), expected, "time {time} size {size} at {offset}");
            assert!(got.contains(EventTime(time)));
        }
    }

    #[test]
    fn infinities_do_not_move() {
        assert_eq!(EventTime::MAX.saturating_sub(Span(5)), EventTime::MAX);
        assert_eq!(EventTime::MIN.saturating_add(Span(5)), EventTime::MIN);
        assert_eq!(EventTime(i64::MAX - 2).saturating_add(Span(5)), EventTime::MAX);
        assert_eq!(EventTime(i64::MIN + 2).saturating_sub(Span(5)), EventTime::MIN);
        assert_eq!(EventTime::MAX.since(EventTime::MIN), Span(i64::MAX));
        assert_eq!(EventTime(3).since(EventTime(5)), Span::ZERO);
        assert_eq!(ProcessingTime(i64::MAX).as_event_time(), EventTime::LAST);
    }

    #[test]
    fn verdict_changes_exactly_at_end_and_at_end_plus_allowed() {
        use Lateness::{Expired, Late, OnTime};
        for (watermark, allowed, verdict) in [
            (9, 5, OnTime),
            (10, 5, Late),
            (14, 5, Late),
            (15, 5, Expired),
            (10, 0, Expired),
            (i64::MAX, i64::MAX, Expired),
        ] {
            let got = judge(window(0, 10), Watermark(EventTime(watermark)), Span(allowed));
            assert_eq!(got, verdict, "watermark {watermark}, allowed {allowed}");
        }
        assert_eq!(judge(Window::GLOBAL, Watermark(EventTime(i64::MAX - 1)), Span(0)), OnTime);
        assert_eq!(judge(Window::GLOBAL, Watermark::MAX, Span(7)), Expired);
    }

    #[test]
    fn windows_print_their_infinities() {
        assert_eq!(window(0, 10).to_string(), "[0,10)");
        assert_eq!(Window::GLOBAL.to_string(), "[-inf,+inf)");
    }
}
