//! What can be said of a trigger before any record has come: when it fires first, when it finishes,
//! whether finishing loses data, whether a part of it is out of range.
//!
//! A trigger that has finished closes its window: what comes later is dropped, and counted. That
//! loses nothing only if nothing can come later, which is so when the window expires as soon as it
//! is complete.

use super::Trigger;
use crate::time::Span;
use crate::window::display_span;

/// The earliest that something can happen to a trigger, relative to its window. Ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Earliest {
    /// Before the window is complete.
    Early,
    /// When it is complete.
    AtEnd,
    /// Not at all.
    Never,
}

/// Why a trigger would lose records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closing {
    /// It can finish while records are still to come in time.
    #[error(
        "trigger {trigger} can finish before the window is complete: records that come after that \
         would be lost"
    )]
    Early {
        /// The trigger.
        trigger: String,
    },
    /// It finishes at the end of the window, and late records are still to be counted.
    #[error(
        "trigger {trigger} finishes when the window is complete: records that come later, within \
         the allowed lateness of {}, would be lost",
        display_span(*allowed_lateness)
    )]
    AtEnd {
        /// The trigger.
        trigger: String,
        /// How long late records are counted.
        allowed_lateness: Span,
    },
}

impl Trigger {
    /// When it can fire first.
    pub fn first_firing(&self) -> Earliest {
        self.first(Earliest::Early)
    }

    /// When it can fire first in a window that never ends: no second watermark comes to its end
    /// either.
    pub fn first_in_endless(&self) -> Earliest {
        self.first(Earliest::AtEnd)
    }

    /// When it can fire first, where a second watermark passes the end of the window at
    /// `percentile`.
    fn first(&self, percentile: Earliest) -> Earliest {
        let of = |inner: &Self| inner.first(percentile);
        let earliest = match self {
            Self::AfterWatermarkPercentile(_) => Some(percentile),
            Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Custom(_) => Some(Earliest::Early),
            Self::AfterWatermark { early, .. } => {
                let early = early.as_deref().map(of);
                early.into_iter().chain([Earliest::AtEnd]).min()
            }
            Self::Never => None,
            Self::All(inner) => inner.iter().map(of).max(),
            Self::Any(inner) => inner.iter().map(of).min(),
            Self::Sequence(inner) => inner.first().map(of),
            Self::Repeat(inner) => Some(of(inner)),
            Self::RepeatUntil(one, other) | Self::OrFinally(one, other) => {
                Some(of(one).min(of(other)))
            }
        };
        earliest.unwrap_or(Earliest::Never)
    }

    /// When it can have finished first.
    pub fn finish(&self) -> Earliest {
        match self {
            // These finish with their first firing.
            Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Custom(_)
            | Self::All(_)
            | Self::Any(_) => self.first_firing(),
            // What is early repeats until the end; so does, from there on, what is late.
            Self::AfterWatermark { late: None, .. } => Earliest::AtEnd,
            Self::AfterWatermark { late: Some(_), .. } | Self::Never | Self::Repeat(_) => {
                Earliest::Never
            }
            Self::Sequence(inner) => {
                inner.iter().map(Self::finish).max().unwrap_or(Earliest::Never)
            }
            Self::RepeatUntil(_, until) => until.first_firing(),
            Self::OrFinally(first, until) => first.finish().min(until.first_firing()),
        }
    }

    /// Why records would be lost if windows were kept for `allowed_lateness` after they are
    /// complete; `None` if none can be.
    pub fn closing(&self, allowed_lateness: Span) -> Option<Closing> {
        let trigger = || self.to_string();
        match self.finish() {
            Earliest::Early => Some(Closing::Early { trigger: trigger() }),
            Earliest::AtEnd if allowed_lateness.as_millis() > 0 => {
                Some(Closing::AtEnd { trigger: trigger(), allowed_lateness })
            }
            Earliest::AtEnd | Earliest::Never => None,
        }
    }

    /// The part of it that is out of range: a count, size or time below 1, or a list of none.
    pub(crate) fn too_small(&self) -> Option<&'static str> {
        let small = match self {
            Self::AfterCount(0) => Some("trigger.count"),
            Self::AfterBytes(0) => Some("trigger.bytes"),
            Self::AfterProcessingTime(delay) if delay.as_millis() < 1 => {
                Some("trigger.processing_time")
            }
            Self::Every(period) if period.as_millis() < 1 => Some("trigger.every"),
            Self::All(inner) if inner.is_empty() => Some("trigger.all"),
            Self::Any(inner) if inner.is_empty() => Some("trigger.any"),
            Self::Sequence(inner) if inner.is_empty() => Some("trigger.sequence"),
            Self::AfterWatermark { .. }
            | Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::All(_)
            | Self::Any(_)
            | Self::Sequence(_)
            | Self::Repeat(_)
            | Self::RepeatUntil(..)
            | Self::OrFinally(..)
            | Self::Custom(_) => None,
        };
        small.or_else(|| self.children().find_map(Self::too_small))
    }
}

#[cfg(test)]
mod tests {
    use super::Earliest::{AtEnd, Early, Never};
    use super::*;
    use crate::watermark::Percentile;

    fn count() -> Trigger {
        Trigger::AfterCount(2)
    }

    fn half() -> Trigger {
        Percentile::from_percent(50.0).map_or(Trigger::Never, Trigger::AfterWatermarkPercentile)
    }

    fn end(early: Option<Trigger>, late: Option<Trigger>) -> Trigger {
        Trigger::AfterWatermark { early: early.map(Box::new), late: late.map(Box::new) }
    }

    fn repeat(inner: Trigger) -> Trigger {
        Trigger::Repeat(Box::new(inner))
    }

    fn pair(make: fn(Box<Trigger>, Box<Trigger>) -> Trigger, a: Trigger, b: Trigger) -> Trigger {
        make(Box::new(a), Box::new(b))
    }

    #[test]
    fn firing_and_finishing_of_every_trigger() {
        use Trigger::{All, Any, OrFinally, RepeatUntil, Sequence};
        let second = Span::from_millis(1_000);
        let at_end = || end(None, None);
        let every = || Trigger::Every(second);
        for (trigger, fires, finishes) in [
            (count(), Early, Early),
            (Trigger::AfterBytes(1), Early, Early),
            (Trigger::AfterProcessingTime(second), Early, Early),
            (every(), Early, Early),
            (Trigger::OnSignal("now".into()), Early, Early),
            (half(), Early, Early),
            (end(Some(half()), None), Early, AtEnd),
            (repeat(half()), Early, Never),
            (Trigger::Never, Never, Never),
            (at_end(), AtEnd, AtEnd),
            (end(Some(count()), None), Early, AtEnd),
            (end(None, Some(count())), AtEnd, Never),
            (end(Some(count()), Some(count())), Early, Never),
            (end(Some(Trigger::Never), None), AtEnd, AtEnd),
            (All(vec![count(), at_end()]), AtEnd, AtEnd),
            (All(vec![count(), every()]), Early, Early),
            (All(vec![count(), Trigger::Never]), Never, Never),
            (Any(vec![count(), at_end()]), Early, Early),
            (Any(vec![Trigger::Never, at_end()]), AtEnd, AtEnd),
            (Sequence(vec![count(), count()]), Early, Early),
            (Sequence(vec![count(), at_end()]), Early, AtEnd),
            (Sequence(vec![at_end(), count()]), AtEnd, AtEnd),
            (Sequence(vec![count(), repeat(at_end())]), Early, Never),
            (repeat(count()), Early, Never),
            (repeat(at_end()), AtEnd, Never),
            (pair(RepeatUntil, every(), at_end()), Early, AtEnd),
            (pair(RepeatUntil, at_end(), count()), Early, Early),
            (pair(RepeatUntil, at_end(), Trigger::Never), AtEnd, Never),
            (pair(OrFinally, repeat(every()), at_end()), Early, AtEnd),
            (pair(OrFinally, at_end(), Trigger::Never), AtEnd, AtEnd),
            (pair(OrFinally, count(), at_end()), Early, Early),
        ] {
            assert_eq!((trigger.first_firing(), trigger.finish()), (fires, finishes), "{trigger}");
        }
    }

    #[test]
    fn in_a_window_that_never_ends_no_second_watermark_comes_to_its_end() {
        for (trigger, first) in [
            (half(), AtEnd),
            (end(Some(half()), None), AtEnd),
            (Trigger::All(vec![half(), count()]), AtEnd),
            (Trigger::Any(vec![half(), count()]), Early),
            (end(Some(count()), None), Early),
            (Trigger::Never, Never),
        ] {
            assert_eq!(trigger.first_in_endless(), first, "{trigger}");
        }
    }

    #[test]
    fn what_finishes_loses_data_unless_nothing_can_come_after() {
        let minute = Span::from_millis(60_000);
        let zero = Span::from_millis(0);
        let figure_13 = Trigger::Sequence(vec![
            pair(Trigger::RepeatUntil, Trigger::Every(minute), end(None, None)),
            repeat(end(None, None)),
        ]);
        for (trigger, at_zero, at_a_minute) in [
            (Trigger::default_trigger(), false, false),
            (Trigger::Never, false, false),
            (end(Some(count()), Some(count())), false, false),
            (figure_13, false, false),
            (end(None, None), false, true),
            (end(Some(count()), None), false, true),
            (count(), true, true),
            (Trigger::Any(vec![count(), end(None, None)]), true, true),
        ] {
            let text = trigger.to_string();
            assert_eq!(trigger.closing(zero).is_some(), at_zero, "{text}");
            assert_eq!(trigger.closing(minute).is_some(), at_a_minute, "{text}");
        }
        let closing = end(Some(count()), None).closing(minute).unwrap();
        assert_eq!(
            closing.to_string(),
            "trigger after_watermark(early = count(2)) finishes when the window is complete: records \
             that come later, within the allowed lateness of 1m, would be lost"
        );
    }

    #[test]
    fn what_is_too_small_is_found_at_any_depth() {
        let deep = |inner: Trigger| repeat(Trigger::Any(vec![count(), end(Some(inner), None)]));
        for (trigger, small) in [
            (deep(Trigger::Every(Span::from_millis(5))), None),
            (deep(Trigger::Every(Span::from_millis(0))), Some("trigger.every")),
            (
                deep(Trigger::AfterProcessingTime(Span::from_millis(-1))),
                Some("trigger.processing_time"),
            ),
            (deep(Trigger::AfterCount(0)), Some("trigger.count")),
            (deep(Trigger::AfterBytes(0)), Some("trigger.bytes")),
            (deep(Trigger::All(Vec::new())), Some("trigger.all")),
            (deep(Trigger::Any(Vec::new())), Some("trigger.any")),
            (deep(Trigger::Sequence(Vec::new())), Some("trigger.sequence")),
        ] {
            assert_eq!(trigger.too_small(), small, "{trigger}");
        }
    }
}
