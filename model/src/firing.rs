//! How a stage fires in a round: in which order its key actors are asked, and how many at a time.
//!
//! A stream fires in every round; when its watermark has stood still for too long, a cycle makes
//! windows emit what they hold. Under micro-batches a stage only takes until its cycle ends. Then
//! the keys fire of which the watermark of the cycle makes a window due, in the order of these, and
//! then all others that have changed; a key fires its windows in their order.
//!
//! Very many may be due at once, so a stage fires in slices: each step of [`Fires`] may say that
//! there is more, and goes on where it was when it is called again. Nothing else happens to the
//! stage in between, so slices change nothing but how much is in memory at a time.

use crate::aggregate::Overflow;
use crate::changes::Changes;
use crate::pane::Deltas;
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::tick::Tick;
use crate::time::Watermark;
use crate::watermark::Percentile;

/// Whether a step is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Flow {
    /// All that was to fire has fired.
    Done,
    /// The slice is full: there is more, and nothing else must happen before.
    More,
}

/// Whether a slice that holds `slice` panes, deltas, or rows of changes has so many of one of them.
pub(crate) fn is_full(slice: usize, panes: usize, (deltas, changes): (&Deltas, &Changes)) -> bool {
    panes.max(deltas.len()).max(changes.len()) >= slice
}

/// When a stage fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Firing {
    /// What the round brought fires, then what its watermark makes due.
    AtOnce,
    /// The watermark has stood still for too long: what it has not completed fires, then as ever.
    TimedOut,
    /// A cycle ends: what its watermark makes due fires, then all else that has changed.
    InCycle,
    /// Nothing fires before the cycle ends.
    Held,
}

/// A part of firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The watermark has stood still for too long.
    TimeOut,
    /// What has changed fires, but for what the watermark of the round makes due.
    EndRound,
    /// The watermark is delivered.
    Advance,
    /// All that has changed fires.
    EndCycle,
    /// What else the round is.
    Otherwise,
}

impl Firing {
    /// What a stage does, in this order.
    pub(crate) const fn parts(self) -> &'static [Part] {
        match self {
            Self::AtOnce => &[Part::EndRound, Part::Advance, Part::Otherwise],
            // Before triggers are asked: what they would fire is complete by the clock.
            Self::TimedOut => &[Part::TimeOut, Part::EndRound, Part::Advance, Part::Otherwise],
            Self::InCycle => &[Part::Advance, Part::EndCycle, Part::Otherwise],
            Self::Held => &[Part::Otherwise],
        }
    }
}

/// What a round is beside a watermark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Otherwise {
    /// Nothing.
    #[default]
    Nothing,
    /// Second watermarks have risen.
    Shares(Box<[(Percentile, Watermark)]>),
    /// The clock has ticked.
    Tick(Tick),
    /// A signal was given.
    Signal(Box<str>),
}

/// The key actors of a stage, as far as a round makes them fire. Whatever returns [`Flow::More`] is
/// called again, with the same, until it is done.
pub(crate) trait Fires {
    /// What has changed fires; what `upcoming` makes due waits for it.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow>;

    /// The watermark rises. One that does not changes nothing.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow>;

    /// It has stood still for too long: windows that it has not completed emit what they hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow>;

    /// Something else happens: by default nothing does.
    fn otherwise(
        &mut self,
        _what: &Otherwise,
        _fired: &mut Fired,
        _symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        Ok(Flow::Done)
    }

    /// Fires one part of what is to fire in this round.
    fn fire(
        &mut self,
        part: Part,
        (watermark, otherwise): (Option<Watermark>, &Otherwise),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        match part {
            Part::TimeOut => self.time_out(fired, symbols),
            Part::EndRound => self.end_round(watermark, fired, symbols),
            Part::Advance => match watermark {
                Some(watermark) => self.advance(watermark, fired, symbols),
                None => Ok(Flow::Done),
            },
            Part::EndCycle => self.end_round(None, fired, symbols),
            Part::Otherwise => self.otherwise(otherwise, fired, symbols),
        }
    }
}

/// Actors that are asked one after the other, in slices.
#[derive(Debug)]
pub(crate) struct Due<T> {
    ids: Vec<T>,
    /// How many have been asked.
    at: usize,
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl<T> Due<T> {
    /// All of `ids`, in this order.
    pub(crate) const fn of(ids: Vec<T>) -> Self {
        Self { ids, at: 0 }
    }

    /// The next one, which stays the next one.
    pub(crate) fn first(&self) -> Option<T>
    where
        T: Copy,
    {
        self.ids.get(self.at).copied()
    }

    /// The next one has been asked.
    pub(crate) const fn pass(&mut self) {
        self.at += 1;
    }

    /// The room that they took.
    pub(crate) fn into_room(mut self) -> Vec<T> {
        self.ids.clear();
        self.ids
    }

    /// From the beginning again.
    pub(crate) const fn rewind(&mut self) {
        self.at = 0;
    }
}
