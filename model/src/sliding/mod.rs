//! Sliding windows whose records are kept once, in slices, however many windows hold them.
//!
//! A record goes into its slice ([`grid`]); a window is merged from its slices when it fires
//! ([`slices`]). That is right as long as all windows that are not complete fire together: with the
//! watermark, when it has stood still for too long, and where they fire early all at the same marks
//! of the clock. Panes, counters and lateness (of each window, by itself) are those of the copying
//! form, [`crate::machine_table`], which runs triggers that look at records; a property test says
//! so.

mod grid;
mod slices;
mod table;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use table::SlidingTable;
pub(crate) use take::take_sliced;

use crate::pane::Emission;
use crate::time::Span;
use crate::trigger::Trigger;
use crate::window::WindowFn;

/// When windows fire that are not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    /// They do not.
    Never,
    /// At multiples of the period on the clock.
    Every(Span),
    /// Whenever the stage ends a round: its rounds are cycles of micro-batches.
    EachRound,
}

/// What decides whether windows can be kept in slices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) window: WindowFn,
    pub(crate) trigger: &'a Trigger,
    pub(crate) emission: Emission,
    pub(crate) allowed_lateness: Span,
    /// Whether there are aggregates of varying size: slices are words alone.
    pub(crate) has_sides: bool,
    /// Whether triggers are asked once a cycle.
    pub(crate) has_cycles: bool,
}

impl Manner<'_> {
    /// How windows fire that are kept in slices; `None` if they cannot be.
    pub(crate) fn early(self) -> Option<Early> {
        let slides = matches!(self.window, WindowFn::Sliding { .. });
        if !slides || self.has_sides || self.emission != Emission::default() {
            return None;
        }
        if self.trigger.is_default() {
            return Some(Early::Never);
        }
        let Trigger::AfterWatermark { early, late } = self.trigger else { return None };
        // Late windows fire round by round, as by default.
        let fires_late = match late.as_deref() {
            Some(Trigger::AfterCount(1)) => true,
            Some(_) => false,
            None => self.allowed_lateness == Span::ZERO,
        };
        match early.as_deref() {
            Some(Trigger::Every(period)) if fires_late => Some(Early::Every(*period)),
            Some(Trigger::AfterCount(1)) if fires_late && self.has_cycles => Some(Early::EachRound),
            Some(_) | None => None,
        }
    }
}
