//! Window functions: which windows a record falls in, and when one nests in another.

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

/// Which windows a record falls in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

impl WindowFn {
    /// The window of a record at `time`, for a key whose windows are shifted by `shift` ms.
    pub fn assign(self, time: EventTime, shift: i64) -> Window {
        match self {
            Self::Global => Window::GLOBAL,
            Self::Fixed { size, offset, phase: _ } => {
                Window::fixed(time, size, offset.saturating_add(shift))
            }
        }
    }

    /// Whether keys have windows of their own.
    pub const fn is_by_key(self) -> bool {
        match self {
            Self::Global => false,
            Self::Fixed { phase, .. } => matches!(phase, Phase::ByKey),
        }
    }

    /// Why windows of `self` do not each lie inside one window of `coarse`; `None` where they do.
    pub fn why_not_nested_in(self, coarse: Self) -> Option<String> {
        if self == coarse {
            return None;
        }
        match (self, coarse) {
            (_, Self::Global) => None,
            (Self::Global, Self::Fixed { .. }) => {
                Some(format!("a {self} window does not nest in {coarse}"))
            }
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
                (!nests).then(|| format!("{self} windows do not nest in {coarse} windows"))
            }
        }
    }

    /// The kind in a plan: `global` or `fixed`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Fixed { .. } => "fixed",
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
