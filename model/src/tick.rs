//! What the clock tells: the time, and for how long the process has been active.
//!
//! Active time is counted once, where the clock is read, and each tick carries the whole of it. So it
//! does not matter to anybody which ticks come one by one, which late, and whose place a later one
//! has taken: CLOCK-1, whoever has heard of a tick has lived through as much as all others who have.

use crate::time::{ProcessingTime, Span};

/// A tick of the clock of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    now: ProcessingTime,
    active: Span,
}

impl Tick {
    /// The tick at `now` behind `last`; the first of a process where there is none.
    #[must_use]
    pub fn after(last: Option<Self>, now: ProcessingTime) -> Self {
        Self::behind(last, now, ProcessingTime::active_since)
    }

    /// As [`Tick::after`], where the process has been active all the time since `last`.
    pub(crate) fn watched(last: Option<Self>, now: ProcessingTime) -> Self {
        Self::behind(last, now, ProcessingTime::since)
    }

    fn behind(
        last: Option<Self>,
        now: ProcessingTime,
        passed: fn(ProcessingTime, ProcessingTime) -> Span,
    ) -> Self {
        let active = |last: Self| last.active.saturating_add(passed(now, last.now));
        Self { now, active: last.map_or(Span::ZERO, active) }
    }

    /// The time.
    pub const fn now(self) -> ProcessingTime {
        self.now
    }

    /// For how long the process has been active since its first tick: at most a second of what lies
    /// between two. Never falls.
    pub const fn active(self) -> Span {
        self.active
    }
}

impl ProcessingTime {
    /// The instant of the next tick: `elapsed` has passed since this one, and the clock on the wall
    /// says `wall`. It is followed forward. When it has been set back time goes on at half its pace
    /// until the wall has caught up: nothing stands still because of it, and nothing stays ahead.
    #[must_use]
    pub fn next_tick(self, elapsed: Span, wall: Self) -> Self {
        wall.max(self.saturating_add(Span::from_millis(elapsed.as_millis() / 2)))
    }

    /// Of the span from the tick at `earlier` to the one at this instant, what the process has
    /// lived through: never more than a second, so that neither a stall nor a machine that slept
    /// counts as time in which somebody could have come.
    pub(crate) const fn active_since(self, earlier: Self) -> Span {
        const TICK_MAX: i64 = 1_000;
        let passed = self.since(earlier);
        if passed.as_millis() < TICK_MAX { passed } else { Span::from_millis(TICK_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_wall_forward_and_never_stand_still() {
        for (last, elapsed, wall, expected) in [
            (1_000, 200, 1_200, 1_200),
            // The wall is a little faster than the steady clock, or slower; or was set forward.
            (1_000, 200, 1_201, 1_201),
            (1_000, 200, 1_199, 1_199),
            (1_000, 200, 3_601_200, 3_601_200),
            // It was set back: by less than has passed, by an hour, to 1970.
            (1_000, 200, 1_050, 1_100),
            (3_600_000, 200, 200, 3_600_100),
            (1_700_000_000_000, 200, 0, 1_700_000_000_100),
            (1_000, 1, 1_000, 1_000),
            (i64::MAX, 200, 0, i64::MAX),
        ] {
            let got = ProcessingTime::from_millis(last)
                .next_tick(Span::from_millis(elapsed), ProcessingTime::from_millis(wall));
            assert_eq!(
                got,
                ProcessingTime::from_millis(expected),
                "{last} + {elapsed}, the wall says {wall}"
            );
        }
        // An hour behind, the wall has caught up after two.
        let (mut now, mut wall, mut ticks) =
            (ProcessingTime::from_millis(3_600_000), ProcessingTime::from_millis(0), 0);
        while now > wall {
            wall = wall.saturating_add(Span::from_millis(200));
            now = now.next_tick(Span::from_millis(200), wall);
            ticks += 1;
        }
        assert_eq!((now, ticks * 200), (wall, 2 * 3_600_000));
    }

    #[test]
    fn no_more_than_a_second_is_active_between_two_ticks() {
        for (elapsed, active) in [(0, 0), (200, 200), (1_000, 1_000), (1_001, 1_000), (-7, 0)] {
            let now = ProcessingTime::from_millis(5_000 + elapsed);
            assert_eq!(
                now.active_since(ProcessingTime::from_millis(5_000)),
                Span::from_millis(active),
                "{elapsed}"
            );
        }
        assert_eq!(
            ProcessingTime::from_millis(i64::MAX)
                .active_since(ProcessingTime::from_millis(i64::MIN)),
            Span::from_millis(1_000)
        );
    }

    #[test]
    fn a_tick_carries_all_that_was_active_since_the_first() {
        let mut last = None;
        for (now, active) in [
            (5_000, 0),
            (5_200, 200),
            (6_200, 1_200),
            // The machine slept, and the clock was set back.
            (3_606_200, 2_200),
            (3_600_000, 2_200),
            (3_600_100, 2_300),
            (i64::MAX, 3_300),
        ] {
            let tick = Tick::after(last, ProcessingTime::from_millis(now));
            let known = (tick.now().as_millis(), tick.active().as_millis());
            assert_eq!(known, (now, active));
            last = Some(tick);
        }
    }
}
