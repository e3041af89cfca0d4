//! Who holds the output watermark of a stage back, and where: a count for each instant.

use crate::time::EventTime;
use std::collections::BTreeMap;

/// How many key actors hold the output watermark at an instant. None counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Holds(BTreeMap<EventTime, usize>);

impl Holds {
    /// One more holds at `hold`, if it holds at all.
    pub(crate) fn add(&mut self, hold: Option<EventTime>) {
        if let Some(hold) = hold {
            *self.0.entry(hold).or_default() += 1;
        }
    }

    /// One of those that hold at `hold` does so no more.
    pub(crate) fn remove(&mut self, hold: Option<EventTime>) {
        let Some(hold) = hold else { return };
        if let Some(count) = self.0.get_mut(&hold) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&hold);
            }
        }
    }

    /// One more holds at `hold`, or one of those does so no more.
    pub(crate) fn set(&mut self, hold: Option<EventTime>, is_held: bool) {
        if is_held { self.add(hold) } else { self.remove(hold) }
    }

    /// The earliest instant that is held.
    pub(crate) fn first(&self) -> Option<EventTime> {
        self.0.keys().next().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
