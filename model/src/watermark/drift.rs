//! Decides which partitions of a source have gone too far ahead of the others to be read on.
//!
//! Of those that have something to read, the one that is furthest behind always goes on, so nobody waits
//! for ever. With hysteresis, since holding one costs what its reader has fetched ahead.

use super::partition::Reader;
use crate::time::{EventTime, Span};

/// Who waits for those behind.
#[derive(Debug)]
pub(crate) struct Drift {
    /// How far one may be ahead; `None` for any length.
    max: Option<Span>,
    /// By partition.
    held: Vec<bool>,
}

impl Drift {
    pub(crate) const fn new(max: Option<Span>) -> Self {
        Self { max, held: Vec::new() }
    }

    /// By partition, whether it is to wait; nothing where nobody ever has to.
    pub(crate) fn held(&self) -> &[bool] {
        &self.held
    }

    /// The partitions have come to these event times, and their readers stand so.
    pub(crate) fn look(&mut self, partitions: impl Iterator<Item = (EventTime, Reader)> + Clone) {
        let Some(max) = self.max else { return };
        // Nobody knows who would have something to read.
        if partitions.clone().any(|(_, reader)| reader == Reader::Blocked) {
            return;
        }
        let has_more = |reader| matches!(reader, Reader::Behind | Reader::Unseen);
        let behind = partitions.clone().filter(|(_, reader)| has_more(*reader));
        let lowest = behind.map(|(head, _)| head).min().unwrap_or(EventTime::MAX);
        self.held.resize(partitions.clone().count(), false);
        for (held, (head, _)) in self.held.iter_mut().zip(partitions) {
            let room = if *held { Span::from_millis(max.as_millis() / 2) } else { max };
            *held = head > lowest.saturating_add(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reader::{AtEnd, Behind, Blocked, Finished};

    #[test]
    fn whoever_is_far_ahead_waits_for_those_that_have_something_to_read() {
        let mut drift = Drift::new(Some(Span::from_millis(100)));
        for (partitions, held) in [
            (vec![(0, Behind), (100, Behind)], vec![false, false]),
            (vec![(0, Behind), (101, Behind)], vec![false, true]),
            // Half of it must be left before it goes on.
            (vec![(50, Behind), (101, Behind)], vec![false, true]),
            (vec![(51, Behind), (101, Behind)], vec![false, false]),
            // Another is found, which has never spoken.
            (vec![(51, Behind), (101, Behind), (i64::MIN, Behind)], vec![true, true, false]),
            (vec![(51, Blocked), (101, Blocked), (900, Blocked)], vec![true, true, false]),
            // At its end, or finished, it has nothing to be waited for.
            (vec![(51, Behind), (101, Behind), (i64::MIN, AtEnd)], vec![false, false, false]),
            (vec![(51, Finished), (900, Behind), (500, AtEnd)], vec![false, false, false]),
            (vec![(51, Finished), (900, Finished), (500, AtEnd)], vec![false, false, false]),
        ] {
            let partitions =
                partitions.iter().map(|(head, reader)| (EventTime::from_millis(*head), *reader));
            drift.look(partitions.clone());
            assert_eq!(drift.held(), held, "{:?}", partitions.collect::<Vec<_>>());
        }
        let mut any = Drift::new(None);
        any.look([(EventTime::MIN, Behind), (EventTime::MAX, Behind)].into_iter());
        assert_eq!(any.held(), [false; 0]);
    }
}
