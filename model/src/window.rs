//! Window functions: which windows a record falls in, and when one nests in another.

use crate::calendar::Calendar;
use crate::custom::Custom;
use crate::time::{EventTime, Span, Window};
use serde::Serialize;

/// Where the boundaries of fixed windows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// At multiples of the size, plus the offset, for every key.
    Aligned,
    /// Shifted by a hash of the key, so that not all windows end at once (unaligned windows).
    ByKey,
}

/// Whether two proto-sessions exactly one gap apart are one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Touching {
    /// They merge: the paper's figure 14, Flink, Kafka. A session is then complete only when the
    /// watermark is past its end, since a record at the end would still join it.
    Merge,
    /// They are two sessions: Beam.
    Separate,
}

/// Which windows a record falls in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowFn {
    /// One window for all of time.
    Global,
    /// Windows of one length side by side (also called tumbling).
    Fixed {
        /// Length, at least 1 ms.
        size: Span,
        /// Where a boundary lies, in milliseconds since the Unix epoch; any sign.
        offset: i64,
        /// Whether keys are shifted against each other.
        phase: Phase,
    },
    /// Windows of one length that start one period apart (also called hopping). A period longer
    /// than the size leaves records between windows: they fall in none, and are counted.
    Sliding {
        /// Length, at least 1 ms.
        size: Span,
        /// From one start to the next, at least 1 ms.
        period: Span,
        /// Where a start lies, in milliseconds since the Unix epoch; any sign.
        offset: i64,
    },
    /// Bursts of records: a window ends when nothing has come for a gap. Merging.
    Session {
        /// The gap, at least 1 ms, where a record does not bring its own.
        gap: Span,
        /// Sessions are cut at multiples of this span since the Unix epoch, and merge only inside
        /// one block: however records come, none is longer.
        max_duration: Option<Span>,
        /// Whether sessions exactly one gap apart merge.
        touching: Touching,
    },
    /// Days, weeks, months or years in a time zone, as long as the calendar says.
    Calendar(Calendar),
    /// Windows that the user defines.
    Custom(Custom),
}

impl WindowFn {
    /// The one window of a record at `time`, for a key whose windows are shifted by `shift` ms: for
    /// a session the proto-session of a record with the default gap, for sliding windows the latest
    /// one that has started, for a custom function the first one of a record without values (empty
    /// if there is none).
    pub fn assign(self, time: EventTime, shift: i64) -> Window {
        match self {
            Self::Global => Window::GLOBAL,
            Self::Fixed { size, offset, phase: _ } => {
                Window::fixed(time, size, offset.saturating_add(shift))
            }
            Self::Sliding { size, period, offset } => {
                let start = Window::fixed(time, period, offset).start();
                Window::new(start, start.saturating_add(size))
            }
            Self::Session { gap, .. } => self.proto_session(time, gap),
            Self::Calendar(calendar) => calendar.assign(time),
            Self::Custom(custom) => {
                let windows = custom.windows(time, &[]);
                windows.first().copied().unwrap_or_else(|| Window::new(time, time))
            }
        }
    }

    /// Appends every window that holds `time`, latest first.
    pub fn assign_all(self, time: EventTime, shift: i64, windows: &mut Vec<Window>) {
        let latest = self.assign(time, shift);
        match self {
            Self::Global | Self::Fixed { .. } | Self::Session { .. } | Self::Calendar(_) => {
                windows.push(latest);
            }
            Self::Custom(custom) => windows.extend(custom.windows(time, &[])),
            Self::Sliding { size, period, .. } => {
                let mut window = latest;
                while window.contains(time) {
                    windows.push(window);
                    let start = window.start().saturating_sub(period);
                    if start == window.start() {
                        break;
                    }
                    window = Window::new(start, start.saturating_add(size));
                }
            }
        }
    }

    /// The window before `window`, where windows follow one another; `None` at the beginning of time
    /// and for windows that do not.
    pub fn before(self, window: Window, shift: i64) -> Option<Window> {
        let before = match self {
            Self::Global | Self::Session { .. } | Self::Custom(_) => return None,
            Self::Fixed { .. } | Self::Calendar(_) => {
                self.assign(window.start().saturating_sub(Span::from_millis(1)), shift)
            }
            Self::Sliding { size, period, .. } => {
                let start = window.start().saturating_sub(period);
                Window::new(start, start.saturating_add(size))
            }
        };
        (before.start() < window.start()).then_some(before)
    }

    /// The session that a record at `time` makes by itself, if its gap is `gap` (of zero or less: 1
    /// ms). Of other window functions the record's window.
    pub fn proto_session(self, time: EventTime, gap: Span) -> Window {
        let Self::Session { max_duration, .. } = self else { return self.assign(time, 0) };
        let gap = Span::from_millis(gap.as_millis().max(1));
        // Measured as a fixed window is: a record at the beginning of time has a gap, too.
        let end = EventTime::from_millis(time.as_millis().saturating_add(gap.as_millis()));
        let block = max_duration.map(|longest| Window::fixed(time, longest, 0).end());
        Window::new(time, block.map_or(end, |block| end.min(block)))
    }

    /// Whether a record may make windows merge.
    pub fn is_merging(self) -> bool {
        match self {
            Self::Session { .. } => true,
            Self::Custom(custom) => custom.0.is_merging(),
            Self::Global | Self::Fixed { .. } | Self::Sliding { .. } | Self::Calendar(_) => false,
        }
    }

    /// Whether a record at the very end of a window still joins it.
    pub const fn joins_at_end(self) -> bool {
        match self {
            Self::Session { touching, .. } => matches!(touching, Touching::Merge),
            Self::Global
            | Self::Fixed { .. }
            | Self::Sliding { .. }
            | Self::Calendar(_)
            | Self::Custom(_) => false,
        }
    }

    /// When a window is complete: at its end, or one instant later where a record at its end would
    /// still join it.
    pub const fn complete_at(self, window: Window) -> EventTime {
        if self.joins_at_end() {
            window.end().saturating_add(Span::from_millis(1))
        } else {
            window.end()
        }
    }

    /// Whether two windows of a merging function are one.
    pub fn merges(self, a: Window, b: Window) -> bool {
        let Self::Session { max_duration, touching, .. } = self else { return a == b };
        // Two records at the end of time make two windows without an inside: one and the same.
        let meets = a == b
            || match touching {
                Touching::Merge => a.start() <= b.end() && b.start() <= a.end(),
                Touching::Separate => a.start() < b.end() && b.start() < a.end(),
            };
        let block =
            |window: Window| max_duration.map(|longest| Window::fixed(window.start(), longest, 0));
        meets && block(a) == block(b)
    }

    /// Whether keys have windows of their own.
    pub const fn is_by_key(self) -> bool {
        match self {
            Self::Fixed { phase, .. } => matches!(phase, Phase::ByKey),
            Self::Global
            | Self::Sliding { .. }
            | Self::Session { .. }
            | Self::Calendar(_)
            | Self::Custom(_) => false,
        }
    }

    /// How many windows hold one record, at most; 1 for custom ones, which cannot tell.
    pub const fn overlap(self) -> i64 {
        match self {
            Self::Sliding { size, period, .. } => {
                let period = if period.as_millis() < 1 { 1 } else { period.as_millis() };
                // Rounded up, without overflow.
                size.as_millis() / period + (size.as_millis() % period != 0) as i64
            }
            Self::Global
            | Self::Fixed { .. }
            | Self::Session { .. }
            | Self::Calendar(_)
            | Self::Custom(_) => 1,
        }
    }

    /// Why windows of `self` do not each lie inside one window of `coarse`; `None` where they do.
    pub fn why_not_nested_in(self, coarse: Self) -> Option<String> {
        if self == coarse {
            return None;
        }
        let refusal = || Some(format!("{self} windows do not nest in {coarse} windows"));
        match (self, coarse) {
            (Self::Sliding { .. } | Self::Session { .. }, _) => {
                Some(format!("{self} windows overlap or merge: a record would be counted for each"))
            }
            (Self::Custom(_), _) | (_, Self::Custom(_)) => {
                Some(format!("nothing is known of how {self} windows lie in {coarse} windows"))
            }
            (Self::Global | Self::Fixed { .. } | Self::Calendar(_), Self::Global) => None,
            (
                Self::Fixed { size, offset, phase },
                Self::Fixed { size: coarse_size, offset: coarse_offset, phase: coarse_phase },
            ) => {
                let (size, coarse_size) = (size.as_millis(), coarse_size.as_millis());
                if phase != Phase::Aligned || coarse_phase != Phase::Aligned {
                    return Some(format!(
                        "windows shifted by key nest only in the same windows ({self}, {coarse})"
                    ));
                }
                let apart = i128::from(offset) - i128::from(coarse_offset);
                let nests =
                    size > 0 && coarse_size % size == 0 && apart.rem_euclid(i128::from(size)) == 0;
                if nests { None } else { refusal() }
            }
            (Self::Fixed { size, offset, phase: Phase::Aligned }, Self::Calendar(calendar))
                if calendar.is_cut_by(size, offset) =>
            {
                None
            }
            (Self::Calendar(fine), Self::Calendar(coarse)) if fine.nests_in(coarse) => None,
            (
                Self::Global | Self::Fixed { .. } | Self::Calendar(_),
                Self::Fixed { .. }
                | Self::Sliding { .. }
                | Self::Session { .. }
                | Self::Calendar(_),
            ) => refusal(),
        }
    }

    /// The kind in a plan: `global`, `fixed`, `sliding`, `session`, `calendar` or `custom`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Fixed { .. } => "fixed",
            Self::Sliding { .. } => "sliding",
            Self::Session { .. } => "session",
            Self::Calendar(_) => "calendar",
            Self::Custom(_) => "custom",
        }
    }
}

impl std::fmt::Display for WindowFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Fixed { size, offset, phase } => {
                write!(f, "fixed {}", display_span(*size))?;
                if *offset != 0 {
                    write!(f, " offset {offset} ms")?;
                }
                match phase {
                    Phase::Aligned => Ok(()),
                    Phase::ByKey => f.write_str(" by key"),
                }
            }
            Self::Sliding { size, period, offset } => {
                write!(f, "sliding {} every {}", display_span(*size), display_span(*period))?;
                if *offset != 0 {
                    write!(f, " offset {offset} ms")?;
                }
                Ok(())
            }
            Self::Session { gap, max_duration, touching } => {
                write!(f, "session gap {}", display_span(*gap))?;
                if let Some(longest) = max_duration {
                    write!(f, " cut at {}", display_span(*longest))?;
                }
                match touching {
                    Touching::Merge => Ok(()),
                    Touching::Separate => f.write_str(" touching separate"),
                }
            }
            Self::Calendar(calendar) => write!(f, "{calendar}"),
            Self::Custom(custom) => write!(f, "{custom}"),
        }
    }
}

/// A span in its largest whole unit: `1h`, `90s`, `1500ms`.
pub fn display_span(span: Span) -> String {
    let millis = span.as_millis();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if millis != 0 && millis % length == 0 {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(size: i64, offset: i64) -> WindowFn {
        WindowFn::Fixed { size: Span::from_millis(size), offset, phase: Phase::Aligned }
    }

    #[test]
    fn windows_nest_when_every_boundary_of_the_coarse_is_one_of_the_fine() {
        let by_key =
            WindowFn::Fixed { size: Span::from_millis(10), offset: 0, phase: Phase::ByKey };
        for (fine, coarse, nests) in [
            (fixed(10, 0), fixed(30, 0), true),
            (fixed(10, 5), fixed(30, -5), true),
            (fixed(10, 0), fixed(30, 5), false),
            (fixed(10, 0), fixed(25, 0), false),
            (fixed(30, 0), fixed(10, 0), false),
            (fixed(10, 0), WindowFn::Global, true),
            (WindowFn::Global, fixed(10, 0), false),
            (WindowFn::Global, WindowFn::Global, true),
            (by_key, by_key, true),
            (by_key, fixed(20, 0), false),
            (by_key, WindowFn::Global, true),
        ] {
            assert_eq!(fine.why_not_nested_in(coarse).is_none(), nests, "{fine} in {coarse}");
        }
    }

    #[test]
    fn spans_print_in_their_largest_whole_unit() {
        for (millis, text) in [(0, "0ms"), (1_500, "1500ms"), (60_000, "1m"), (86_400_000, "1d")] {
            assert_eq!(display_span(Span::from_millis(millis)), text);
        }
    }
}
